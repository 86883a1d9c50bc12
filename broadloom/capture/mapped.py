"""Calls of mapped functions and of gufuncs: the evaluator runs them on one example, over a level of batching.

What goes in: a mapped function and tracked arguments. What comes out: the tracked result, in terms of the recorder
around the call.

What holds: the rule is that of `transforms.level`, the same as when Python runs the function on tensors; while the
function is followed, every array reached from outside is lifted to its level where it is used (`Context.here`).
Compiled code runs all examples in fused loops: `chunk_size` changes nothing there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from broadloom.capture.breaks import Code
from broadloom.capture.bridge import describe, outward
from broadloom.capture.containers import entries, plain
from broadloom.capture.context import Context
from broadloom.capture.inputs import realise
from broadloom.capture.values import (
    DictValue,
    FunctionValue,
    GufuncValue,
    ListValue,
    MappedValue,
    Number,
    TupleValue,
    Value,
)
from broadloom.errors import BroadloomError, OptionsError, ParseError, TransformError
from broadloom.frontend.operands import as_array
from broadloom.frontend.selection import Selection
from broadloom.frontend.unsupported import Unsupported
from broadloom.graph.storage import ArrayHandle
from broadloom.ops.signature import Signature
from broadloom.symbolic import Expr, Size, eq
from broadloom.transforms.gufunc import GufuncRecord, keywords
from broadloom.transforms.gufunc import run as run_gufunc
from broadloom.transforms.level import Level
from broadloom.transforms.pytree import LEAF, Structure, broadcast_prefix
from broadloom.transforms.vmap import Mapping, mapping


def make_mapped(c: Context, function: Value, *told: Value) -> MappedValue:
    """`transforms.vmap.mapped(function, ...)` in the captured program, whatever it says of how calls are evaluated."""
    try:
        return MappedValue(realise(c, function), mapping(*(plain(c, v) for v in told[:5])))
    except OptionsError as error:
        c.raises("vmap(...)", str(error))


def call_mapped(c: Context, v: MappedValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A call of a mapped function."""
    try:
        return _call(c, v.function, v.mapping, args, kwargs)
    except TransformError as error:
        c.transform_raises("a mapped function", error)


def _call(c: Context, function: Value, told: Mapping, args: list[Value], kwargs: dict[str, Value]) -> Value:
    leaves: list[Value] = []
    structure = flatten(c, TupleValue([TupleValue(args), DictValue(kwargs)]), leaves)
    in_axes = tuple(told.in_axes) if isinstance(told.in_axes, list) else told.in_axes
    axes = broadcast_prefix(in_axes, structure.parts[0], "in_axes") + [0] * structure.parts[1].leaves
    places = [_axis(c, leaf, a) for leaf, a in zip(leaves, axes, strict=True)]
    level = Level(c.recorder, _size(c, told, leaves, places), told.randomness)
    inside = [
        leaf if a is None else level.argument(leaf, a, lambda: "an argument")
        for leaf, a in zip(leaves, places, strict=True)
    ]
    given = unflatten(iter(inside), structure)
    found: list[Value] = []
    with c.within(level):
        returned = c.call_value(function, given.items[0].items, given.items[1].items)
        shape = flatten(c, returned, found)
        handles = [_result(c, level, leaf) for leaf in found]
    tensors = any(isinstance(leaf, ArrayHandle) and leaf.tensor for leaf in leaves)
    out_axes = broadcast_prefix(told.out_axes, shape, "out_axes")
    results = [level.result(h, a, f"result {k}") for k, (h, a) in enumerate(zip(handles, out_axes, strict=True))]
    level.write_back()
    for r in results:
        r.tensor = tensors
    return unflatten(iter(results), shape)


def _axis(c: Context, leaf: Value, axis: Any) -> int | None:
    if axis is None:
        return None
    if isinstance(axis, bool) or not isinstance(axis, int | np.integer):
        raise TransformError("in_axes", got=repr(axis), allowed="ints, None, and containers of these")
    if not isinstance(leaf, ArrayHandle) or isinstance(leaf, Selection):
        remedy = "pass None for it in in_axes"
        raise TransformError("an argument without axes is mapped", got=describe(leaf), remedy=remedy)
    if not -leaf.ndim <= axis < leaf.ndim:
        remedy = "correct in_axes" if leaf.ndim else "pass None for it in in_axes"
        raise TransformError(f"in_axes {axis} of an array of {leaf.ndim} axes", remedy=remedy)
    return int(axis) % leaf.ndim


def _size(c: Context, told: Mapping, leaves: Sequence[Value], axes: Sequence[int | None]) -> Size:
    sizes: list[Size] = [leaf.shape[a] for leaf, a in zip(leaves, axes, strict=True) if a is not None]
    if told.axis_size is not None:
        sizes.append(told.axis_size)
    if not sizes:
        raise TransformError("vmap of no mapped argument", remedy="give axis_size, or an axis")
    for other in sizes[1:]:
        if not c.decide(eq(sizes[0], other)):
            raise TransformError(
                "the mapped axes differ in size",
                got=", ".join(map(str, sizes)),
                remedy="map axes of one size, or give None",
            )
    return min(sizes, key=lambda n: isinstance(n, Expr))


def _result(c: Context, level: Level, leaf: Value) -> ArrayHandle:
    leaf = realise(c, leaf)
    if isinstance(leaf, ArrayHandle | Number | Expr | int | float | complex | np.generic):
        try:
            return as_array(level.recorder, outward(c, leaf))
        except Unsupported as error:
            c.refuse(Code.RESULT, "a mapped function", error.what, error.remedy or "return an array")
    raise TransformError(
        "a mapped function returns what is no array",
        got=describe(leaf),
        allowed="arrays, numbers, and tuples, lists and dicts of these",
        remedy="return arrays",
    )


# ---- gufuncs ---------------------------------------------------------------------------------------------------------


def make_gufunc(c: Context, signature: Value, core: Value) -> GufuncValue:
    """`transforms.gufunc.gufunc_of(signature, core)` in the captured program."""
    text, function = plain(c, signature), realise(c, core)
    if not isinstance(function, FunctionValue):
        c.refuse(Code.UNSUPPORTED_PYTHON, "gufunc", f"a {describe(function)} as core function", "use a Python function")
    try:
        record = GufuncRecord(function.name, "", Signature.parse(text), function.object)
    except ParseError as error:
        c.raises("gufunc(...)", str(error))
    return GufuncValue(function, record)


def call_gufunc(c: Context, v: GufuncValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A call of a user's gufunc."""
    operands, g = [outward(c, a) for a in args[: v.record.nin]], v.record
    given = {k: outward(c, a) if k == "out" else plain(c, a) for k, a in kwargs.items()}
    if len(args) > g.nin:
        given["out"] = tuple(outward(c, a) for a in args[g.nin :])
    tensors = c.makes_tensors or any(isinstance(x, ArrayHandle) and x.tensor for x in operands)

    def core(levels: Sequence[Level], handles: list[ArrayHandle]) -> list[ArrayHandle]:
        with ExitStack() as stack:
            for level in levels:
                stack.enter_context(c.within(level))
            for h in handles:
                h.tensor = tensors
            returned = realise(c, c.call_value(v.function, list(handles), {}))
            parts = returned.items if isinstance(returned, TupleValue) else [returned]
            return [as_array(c.recorder, outward(c, p)) for p in parts]

    try:
        results = run_gufunc(g, c.recorder, operands, keywords(g, **given), core)
    except TransformError as error:
        c.transform_raises(f"{g.name}(...)", error)
    except (BroadloomError, TypeError, ValueError) as error:
        c.raises(f"{g.name}(...)", f"{type(error).__name__}: {error}")
    outs = given.get("out")
    for number, h in enumerate(results):
        if outs is None and not tensors and not h.ndim:
            results[number] = c.recorder.as_scalar(h)
        elif outs is None:
            h.tensor = tensors
    return results[0] if len(results) == 1 else TupleValue(list(results))


# ---- pytrees of tracked values ---------------------------------------------------------------------------------------


def flatten(c: Context, v: Value, leaves: list[Value]) -> Structure:
    """As `pytree.flatten`."""
    v = realise(c, v)
    match v:
        case None:
            return Structure(type(None))
        case TupleValue():
            return Structure(v.type, tuple(flatten(c, i, leaves) for i in v.items))
        case ListValue():
            return Structure(list, tuple(flatten(c, i, leaves) for i in v.items))
        case DictValue():
            items = entries(c, v)
            return Structure(dict, tuple(flatten(c, i, leaves) for i in items.values()), tuple(items))
    leaves.append(v)
    return LEAF


def unflatten(leaves: Iterator[Value], structure: Structure) -> Any:
    """As `pytree.unflatten`."""
    kind = structure.kind
    if kind is None:
        return next(leaves)
    if kind is type(None):
        return None
    parts = [unflatten(leaves, p) for p in structure.parts]
    if kind is dict:
        return DictValue(dict(zip(structure.keys, parts, strict=True)))
    return ListValue(parts) if kind is list else TupleValue(parts, None, kind)
