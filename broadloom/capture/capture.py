"""Capture: a Python function and the arguments of one call go in, a pure graph with its guards comes out.

What goes in: a function or bound method, arguments, the policy for sizes. What comes out: `Captured` - the graph,
the guards under which it stands for the function, the source of each graph input, the recipe of the result. What
cannot be captured is `CaptureBreak` with a `Break`.

What holds: capture is whole or not at all, and has no side effect either way. Guards are in the order in which they
may be checked: a guard on a container or object stands before the guards on what is reached through it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from broadloom.capture.binding import BindingError, frame_of, plain_function
from broadloom.capture.breaks import Break, CaptureBreak, Code
from broadloom.capture.calls import call
from broadloom.capture.context import ArrayInput, Context, Policy, Specialised
from broadloom.capture.evaluator import run_function
from broadloom.capture.guards import DisjointGuard, Guard, ShapeGuard, overlaps_itself
from broadloom.capture.inputs import array_guard
from broadloom.capture.recipe import Counted, Recipe
from broadloom.capture.result import collect, recipe_of
from broadloom.capture.sources import Argument, Attribute, Cell, Frame, Source
from broadloom.capture.values import CellValue, FunctionValue, Lazy, Marker, Namespace, Value
from broadloom.errors import Location
from broadloom.frontend import packed, shapes
from broadloom.graph.ir import Graph
from broadloom.records import dataclass
from broadloom.symbolic import Symbol, eq


@dataclass(frozen=True, slots=True)
class Captured:
    """A captured call. `arguments` has one source for each graph input; `symbols` says where the sizes and ints
    behind the symbols are read; `observed` holds the values that sizes and ints had, for `Policy.after`."""

    graph: Graph
    guards: tuple[Guard, ...]
    arguments: tuple[Source, ...]
    result: Recipe
    symbols: tuple[tuple[Symbol, Source], ...]
    observed: Mapping[Source, int]

    def check(self, frame: Frame) -> Guard | None:
        """The first guard that does not hold, None if all do."""
        return next((g for g in self.guards if not g.check(frame)), None)


def capture(
    fn: FunctionType | MethodType,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    policy: Policy | None = None,
) -> Captured:
    """Capture one call.

    Raises `CaptureBreak` where the function cannot be captured whole, `TypeError` for a callable without Python code.

    >>> import numpy as np
    >>> captured = capture(lambda x: np.sin(x) + 1, (np.zeros(3),), {})
    >>> [str(s) for s in captured.arguments]
    ["L['x']"]
    >>> print(captured.graph)
    graph lambda_ {
      %0 = input x: float64[3] strides (1,)
      %1 = sin(%0) : float64[3]
      %2 = constant float64[] 1.0
      %3 = add(%1, %2) : float64[3]
      return %3 order (0,)
    }
    """
    function, _ = plain_function(fn, args)
    code = function.__code__
    try:
        frame = frame_of(fn, args, kwargs)
    except BindingError as error:
        where = Location(code.co_filename, code.co_firstlineno, code.co_qualname)
        raise CaptureBreak(
            Break(
                Code.RAISES,
                f"{function.__name__}(...)",
                f"the call raises TypeError: {error}",
                "correct the call",
                where,
            )
        ) from error
    policy = policy or Policy()
    while True:
        c = Context(_graph_name(function.__name__), policy, function.__globals__, call, run_function)
        c.at(code, code.co_firstlineno)
        try:
            return _captured(c, function, frame)
        except Specialised as found:  # each time further sizes, and there are no more than the arrays have
            policy = replace(policy, constant=policy.constant | found.sources)
        except CaptureBreak as stopped:
            stopped.guards = _guards_so_far(c)
            raise


def _captured(c: Context, function: FunctionType, frame: Frame) -> Captured:
    try:
        result = run_function(c, _root(function), _local(c, frame, function))
    except RecursionError:
        c.refuse(Code.TOO_LONG, function.__name__, "calls nest too deep", "replace recursion by a loop")
    handles = collect(c, result)
    _write_packed(c)
    c.root.settle(handles)
    recorded = c.root.finish(handles)
    written = {w.input for w in recorded.graph.writes}
    guards = _finish_guards(c, written)
    recipe = recipe_of(c, result, handles, recorded.places)
    arrays = {c.arguments[k] for k in written}
    tensors = tuple(s for s in c.tensor_inputs.values() if Attribute(s, "_array") in arrays)
    tensors += tuple(p.source for p in c.packed_inputs.values() if p.written)
    if tensors:
        recipe = Counted(recipe, tensors)
    return Captured(recorded.graph, guards, tuple(c.arguments), recipe, tuple(c.symbols.items()), dict(c.observed))


def _write_packed(c: Context) -> None:
    """Tensors of packed integers that were written give their bytes the new elements."""
    for p in c.packed_inputs.values():
        if not p.written:
            continue
        others = [o for o in c.packed_inputs.values() if o is not p]
        shared = any(o.tensor._bytes is p.tensor._bytes or not o.tensor.is_whole for o in others)
        if not p.tensor.is_whole or shared:
            c.refuse(
                Code.OVERLAP,
                str(p.source),
                "a view of packed integers is written, or one is passed besides what is written",
                "pass a copy of the view",
            )
        new = packed.pack(c.root, p.handle)
        (size,) = new.shape
        c.decide(eq(p.stored.shape[0], size))  # as it is, though for sizes known at run time it has two expressions
        c.root.write(shapes.cut(c.root, p.stored, -1, 0, size), new)


def _graph_name(name: str) -> str:
    return name if name.isidentifier() else name.strip("<>") + "_"


def _root(function: FunctionType) -> FunctionValue:
    cells = []
    for i, (name, cell) in enumerate(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)):
        try:
            content: Value = Lazy(Cell(name, i), cell.cell_contents)
        except ValueError:
            content = Marker.UNBOUND
        cells.append(CellValue(content, external=True))
    return FunctionValue(function.__code__, Namespace(function.__globals__), function.__name__, closure=cells)


def _local(c: Context, frame: Frame, function: FunctionType) -> dict[str, Value]:
    """The parameters as lazy values."""
    if function.__code__.co_flags & inspect.CO_VARKEYWORDS:
        c.fresh_dicts.add(Argument(list(frame.arguments)[-1]))
    return {name: Lazy(Argument(name), value) for name, value in frame.arguments.items()}


def _guards_so_far(c: Context) -> tuple[Guard, ...]:
    """What an interrupted capture has relied on: nothing is written, sizes are as decided."""
    for a in c.arrays.values():
        c.guards[a.place] = array_guard(a, False)
    return tuple(g for g in (*c.guards, *_shape_guards(c)) if g is not None)


def _shape_guards(c: Context) -> list[Guard]:
    relations = ((r, c.env.location(r)) for r in c.env.guards)
    return [ShapeGuard(relation, c.bind(relation.symbols), location=where) for relation, where in relations]


def _finish_guards(c: Context, written: set[int]) -> tuple[Guard, ...]:
    """Array guards at their reserved places, then what is known only at the end."""
    arrays = list(c.arrays.values())
    changed = [a for a in arrays if c.arguments.index(a.source) in written]
    for a in arrays:
        c.guards[a.place] = array_guard(a, a in changed)
    for a in changed:
        others = [o for o in arrays if o is not a]
        _check_apart(c, a, others)
        if others:
            c.guard(DisjointGuard(a.source, tuple(o.source for o in others)))
    return tuple(g for g in (*c.guards, *_shape_guards(c)) if g is not None)


def _check_apart(c: Context, a: ArrayInput, others: Sequence[ArrayInput]) -> None:
    if overlaps_itself(a.array):
        c.return_to(a.location)
        c.refuse(
            Code.OVERLAP, str(a.source), "it is written and its elements overlap in memory", "pass a copy of the array"
        )
    for o in others:
        if np.may_share_memory(a.array, o.array):
            c.return_to(a.location)
            c.refuse(
                Code.OVERLAP,
                f"{a.source} and {o.source}",
                "one of them is written and they share memory",
                "pass arrays that do not overlap, or a copy of one",
            )
