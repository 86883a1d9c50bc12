"""View or copy: what NumPy decides by strides and sizes, decided for this call and guarded where it matters.

What goes in: handles of a recording, asked whether a reshape is a view or an array is contiguous. What comes out: the
answer that NumPy gives in this call, and, at the end of the capture, the guards that keep it.

What holds: the answer is asked of NumPy itself, on an array of the same strides. It matters only if memory that would
be shared is written afterwards or if the sharing can be seen in the result; only then, and only if other sizes could
change the answer, sizes are guarded: first as "is one" or "is not one", then, if that does not settle it, as constants.
Where it depends on strides of an argument that are known at run time alone, the capture begins anew with constant ones.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, Protocol

import numpy as np

from broadloom.capture.guards import layout_of
from broadloom.capture.memory_orders import Asked, settle_orders
from broadloom.capture.recipe import apply_view
from broadloom.capture.symbolic_strides import always_contiguous, walk
from broadloom.dtypes import DType
from broadloom.errors import ShapeError
from broadloom.graph.builder import Builder
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle, Storage, WeakScalar
from broadloom.graph.strides import ORDINARY, Operand, dense_strides
from broadloom.records import dataclass
from broadloom.symbolic import Expr, ShapeEnv, Size, Symbol, evaluate, free_symbols

Values = Mapping[Symbol, int]
Question = Callable[[np.ndarray[Any, Any], Values], bool]


class Arguments(Protocol):
    """What is asked of the capture."""

    env: ShapeEnv

    def input_array(self, number: int) -> np.ndarray[Any, Any] | None: ...

    def constant_int(self, size: int | Expr) -> int: ...

    def number_within(self, number: WeakScalar, low: int, high: int) -> bool | None: ...

    def specialise(self, symbols: frozenset[Symbol]) -> NoReturn: ...


@dataclass(eq=False, slots=True)
class Decision:
    """An answer that was given. `made` is the storage of the result, None if it is not known."""

    handle: ArrayHandle
    symbols: frozenset[Symbol]
    shape: tuple[Size, ...] | None  # of a reshape
    fortran: bool
    answer: bool
    version: int
    writes: int  # how many there had been before
    made: Storage | None = None
    made_version: int = 0


class GuardingRecorder(Recorder):
    """A recorder whose answers hold for all sizes that its guards admit."""

    def __init__(self, name: str, arguments: Arguments, builder: Builder | None = None) -> None:
        super().__init__(name, arguments.env, builder)
        self._arguments = arguments
        self._inside: list[GuardingRecorder] = []
        self._decisions: list[Decision] = []
        self._asked: list[Asked] = []
        self._writes = 0

    def over(self, builder: Builder) -> Recorder:
        made = GuardingRecorder("inside", self._arguments, builder)
        self._inside.append(made)
        return made

    def write(self, target: ArrayHandle, value: ArrayHandle) -> None:
        self._writes += 1
        super().write(target, value)

    def number_within(self, number: WeakScalar, low: int, high: int) -> bool | None:
        return self._arguments.number_within(number, low, high)

    def reshape(self, handle: ArrayHandle, shape: Sequence[Size]) -> ArrayHandle:
        before = len(self._decisions)
        result = super().reshape(handle, shape)
        for decision in self._decisions[before:]:
            decision.made, decision.made_version = result.storage, result.storage.version
        return result

    def reshapes_as_view(self, handle: ArrayHandle, shape: tuple[Size, ...]) -> bool:
        def question(x: np.ndarray[Any, Any], values: Values) -> bool:
            try:
                np.reshape(x, tuple(evaluate(n, values) for n in shape), copy=False)
            except ValueError:
                return False
            return True

        return self._decide(handle, shape, question)

    def contiguous(self, handle: ArrayHandle, *, fortran: bool = False) -> bool:
        def question(x: np.ndarray[Any, Any], values: Values) -> bool:
            return bool(x.flags.f_contiguous if fortran else x.flags.c_contiguous)

        return self._decide(handle, None, question, fortran)

    def _decide(
        self, handle: ArrayHandle, shape: tuple[Size, ...] | None, question: Question, fortran: bool = False
    ) -> bool:
        env = self._arguments.env
        sizes = [*handle.storage.type.shape, *handle.shape, *(shape or ())]
        for view in handle.views:  # a slice may begin where a size of another array says
            sizes += _sizes([value for _, value in view.attrs])
        symbols = frozenset(s for n in sizes if isinstance(n, Expr) for s in free_symbols(n))
        hints = {s: env.hint(s) for s in symbols}
        answer = question(x := self._example(handle, hints), hints)
        if x.size == 0:  # it shares nothing: ask for another, unless a guard says that it is empty
            others = {s: n or (0 if env.simplify(s) == 0 else ORDINARY) for s, n in hints.items()}
            with contextlib.suppress(ValueError):  # the views may not fit such sizes
                answer = question(self._example(handle, others), others)
        if symbols or handle.storage.free:
            version = handle.storage.version
            self._decisions.append(Decision(handle, symbols, shape, fortran, answer, version, self._writes))
        return answer

    def _strided_input(self, handle: ArrayHandle) -> int | None:
        number = handle.storage.input
        array = None if number is None else self._arguments.input_array(number)
        return number if array is not None and layout_of(array) == "strided" else None

    def _example(self, handle: ArrayHandle, values: Values) -> np.ndarray[Any, Any]:
        """An array with the strides that the handle has at these sizes; its elements are never looked at."""
        storage = handle.storage
        strided = self._strided_input(handle)
        if strided is not None:
            x = self._arguments.input_array(strided)
            assert x is not None
        else:
            shape = tuple(evaluate(n, values) for n in storage.type.shape)
            dtype = storage.type.dtype.numpy
            strides = dense_strides(shape, storage.layout.order, dtype.itemsize)
            x = np.lib.stride_tricks.as_strided(np.empty(1, dtype), shape, strides)
        for view in handle.views:
            if view.indices:  # whichever element it is, and even if there is none
                kept = tuple(k for k in range(x.ndim) if k - x.ndim not in view.attributes["axes"])
                shape, strides = (tuple(t[k] for k in kept) for t in (x.shape, x.strides))
                x = np.lib.stride_tricks.as_strided(x, shape, strides)
                continue
            x = apply_view(x, view.op, {k: _concrete(v, values) for k, v in view.attrs})
        return x

    def arranged_by(self, handle: ArrayHandle, question: Callable[[Operand], Any], answer: Any) -> None:
        self._asked.append(Asked(handle, question, answer))

    def settle(self, results: Sequence[ArrayHandle]) -> None:
        """Guard the answers on which something depends, now that all writes and results are known."""
        constants = settle_orders(self._arguments.env, results, self._asked, self.location)
        if constants:
            self._arguments.specialise(constants)
        shown = [h.storage for h in results if not h.numpy_scalar]
        for decision in self._decisions:
            if self._matters(decision, shown):
                self._settle(decision)
        for inside in self._inside:
            inside.settle(())  # the results of a program inside were copied

    def _matters(self, d: Decision, shown: list[Storage]) -> bool:
        source = d.handle.storage
        if d.made is None:  # contiguity: what was made of the answer is not known here
            return self._writes > d.writes or source in shown or (source.input is not None and bool(shown))
        if source.version > d.version or d.made.version > d.made_version:
            return True
        # A view keeps the order of memory, a copy is in C order, and results may take theirs from either.
        if d.shape is not None and len(d.shape) > 1 and any(s.type.ndim > 1 for s in shown):
            return True
        together = sum(s is source or s is d.made for s in shown)
        return d.made in shown and (source.input is not None or together > 1)

    def _settle(self, d: Decision) -> None:
        if d.handle.storage.free:
            d.handle.storage.depends("a view or a copy")
        views = d.handle.views
        if d.answer and not d.fortran and always_contiguous(d.handle.storage, views):
            return
        if self._walked(d) is not d.answer:  # an array without elements: the answer is that of another size
            for symbol in d.symbols:
                self._arguments.constant_int(symbol)

    def _walked(self, d: Decision) -> bool | None:
        """The answer with all that it depends on guarded; None for an array that has no elements."""
        env, handle = self._arguments.env, d.handle
        if any(env.hint(n) == 0 for n in handle.storage.type.shape):
            return None
        try:
            x = walk(handle.storage, handle.views, lambda relation: env.decide(relation, self.location))
        except ShapeError:
            return None
        if x is None or any(env.hint(n) == 0 for n in x.shape):
            return None
        return x.contiguous(fortran=d.fortran) if d.shape is None else x.reshaped(d.shape) is not None


def _sizes(values: Sequence[Any]) -> list[Any]:
    """The leaves of nested tuples."""
    return [leaf for v in values for leaf in (_sizes(v) if isinstance(v, tuple) else (v,))]


def _concrete(value: Any, values: Values) -> Any:
    if isinstance(value, tuple):
        return tuple(_concrete(v, values) for v in value)
    if value is None or isinstance(value, int | str | DType):
        return value
    return evaluate(value, values)
