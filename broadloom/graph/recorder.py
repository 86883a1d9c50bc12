"""The storage model: an imperative array program goes in, a pure graph comes out.

A *storage* is a piece of memory; its *value* is what it holds now - a value of a graph, or of any other `Builder` - and
every write gives it a new one (a new version). An *array handle* is a storage seen through a chain of view calls.
Handles of one storage alias.

What holds: reading a handle replays its chain on the storage's current value, so a view sees later writes to its base
and to its sister views; a value that was read before is a graph value and never changes. Writing through a chain makes
the new base value by inverting the chain from the outside in: for a view v of b, `put(b, v.w, x) = v'(b, put(v(b), w,
x))` where v' puts a whole view back (slice -> slice_update, permute -> the inverse permute, ...).

Strides here are representative byte strides (see `graph.strides`): they decide memory order and whether a reshape is a
view, and never become part of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NoReturn

import numpy as np

from broadloom import dtypes
from broadloom.dtypes import DType
from broadloom.errors import DTypeError, Location, ShapeError, TransformError, VerifyError
from broadloom.graph import order as orders
from broadloom.graph import strides as geometry
from broadloom.graph.builder import Builder, GraphBuilder, canonical_attributes
from broadloom.graph.inverses import INVERSES, keeps_writeable
from broadloom.graph.ir import Graph, Order, Output, TensorType, ValueId, Write
from broadloom.graph.order import Layout
from broadloom.graph.origins import (
    Origin,
    constant_origin,
    copy_origin,
    input_origin,
    loop_origin,
    op_origin,
    plain_origin,
    promoted_origin,
)
from broadloom.graph.storage import SCALAR, ArrayHandle, Chain, Storage, ViewCall, WeakScalar
from broadloom.graph.strides import Operand, representative, representatives
from broadloom.ops.table import OPS
from broadloom.records import dataclass
from broadloom.symbolic import Relation, ShapeEnv, Size, Symbol, coefficient, eq, sub


@dataclass(frozen=True, slots=True)
class Place:
    """Where a result is found: output or input number `index` of the graph, seen through `views`. Results of one
    storage share the number, and so share memory, as in NumPy. `scalar`: wrap as a NumPy scalar."""

    kind: Literal["output", "input"]
    index: int
    views: Chain
    scalar: bool


@dataclass(frozen=True, slots=True)
class Recorded:
    """A finished recording: the graph and the place of each result, in the order asked for."""

    graph: Graph
    places: tuple[Place, ...]


class Recorder:
    """Records a program over array handles.

    >>> r = Recorder("f")
    >>> x = r.input("x", TensorType(dtypes.int64, (4,)))
    >>> head = r.view("slice", x, starts=(0,), sizes=(2,), steps=(1,))
    >>> before = r.op("negative", head)
    >>> r.write(head, r.constant(np.array([7, 7])))
    >>> print(r.finish([before, x]).graph)
    graph f {
      %0 = input x: int64[4] strides (1,)
      %1 = slice(%0) {sizes=(2,), starts=(0,), steps=(1,)} : int64[2]
      %2 = negative(%1) : int64[2]
      %3 = constant int64[2] 7, 7
      %4 = slice_update(%0, %3) {sizes=(2,), starts=(0,), steps=(1,)} : int64[4]
      return %2 order (0,)
      write x = %4
    }
    """

    def __init__(self, name: str = "f", env: ShapeEnv | None = None, builder: Builder | None = None) -> None:
        """`env` settles the questions about symbolic sizes that no bounds settle, and keeps them as its guards.

        `builder` makes the values: a `GraphBuilder` if none is given. `input`, `scalar_input`, `size_input` and
        `finish` are of a graph; over another builder values come in by `adopt`, and are read.
        """
        self._env = env
        self._graph = GraphBuilder(
            name,
            decide=None if env is None else self._ask_environment,
            fits=None if env is None else self._fit_in_environment,
        )
        self.builder: Builder = self._graph if builder is None else builder
        self._inputs: list[Storage] = []
        self._initial: list[ValueId] = []
        self._picked: set[tuple[Storage, Chain]] = set()  # views at run-time indices that were checked

    def over(self, builder: Builder) -> Recorder:
        """A recorder of this kind for a program inside of the one recorded here, whose values `builder` makes."""
        return Recorder(builder=builder)

    def size_at_hand(self, size: Size) -> int:
        """A size in the call that is recorded; a representative one where there is none."""
        return representative(size) if self._env is None else self._env.hint(size)

    @property
    def steps(self) -> int:
        """How many steps the graph has so far."""
        return self._graph.steps

    def raising(self, since: int) -> str | None:
        """The first op after so many steps that may raise at run time."""
        op = self._graph.raising(since)
        return None if op is None else op.name

    @property
    def location(self) -> Location | None:
        """The user's line that the next steps belong to."""
        return self.builder.location

    @location.setter
    def location(self, value: Location | None) -> None:
        self.builder.location = value

    # ---- sources ------------------------------------------------------------------------------------------------

    def input(
        self,
        name: str,
        type: TensorType,
        strides: tuple[Size, ...] | None = None,
        order: Order | None = None,
        *,
        aligned: bool = True,
        writeable: bool = True,
        fix: Callable[[], NoReturn] | None = None,
    ) -> ArrayHandle:
        """An array input. Two arguments that are one array are one input and share its handle.

        Strides may be free symbols, for an array that is contiguous in no order; `fix` is called where a step depends
        on them, and raises, to begin the recording anew with constant strides and sizes.
        """
        value = self._graph.input(name, type, strides, order, aligned=aligned)
        if self._env is not None:
            self._env.occupied(type.shape, type.dtype.itemsize)
        handle = self._input_handle(value, writeable, strided=strides is not None)
        handle.storage.free = geometry.has_free_strides(self._graph.input_of(value))
        handle.storage.fix = fix
        return handle

    def scalar_input(self, name: str, dtype: DType = dtypes.float64) -> ArrayHandle:
        """A 0-d number known at run time."""
        value = self._graph.input(name, TensorType(dtype, ()), kind="scalar")
        return self._input_handle(value, writeable=False, scalar=True)

    def size_input(self, name: str, symbol: Symbol) -> ArrayHandle:
        """A Python int known at run time; it binds `symbol`."""
        value = self._graph.input(name, TensorType(dtypes.int64, ()), kind="size", size=symbol)
        return self._input_handle(value, writeable=False, scalar=True)

    def adopt(
        self, value: ValueId, *, writeable: bool = True, captured: Callable[[], str] | None = None
    ) -> ArrayHandle:
        """An array whose value the builder has already, laid out in C order.

        `captured` tells its name, where it belongs to the program around the one that is recorded: it may be read, and
        a write to it is refused by that name."""
        type = self.builder.type_of(value)
        layout = orders.dense_layout(representatives(type.shape), tuple(range(type.ndim)), type.dtype.itemsize)
        handle = self._fresh(value, layout, plain_origin(type))
        handle.storage.captured, handle.sealed = captured, not writeable
        return handle

    def constant(self, value: Any) -> ArrayHandle:
        """A literal, laid out as `value` is."""
        array = np.asarray(value)
        width = array.dtype.itemsize
        order = orders.copy_order(Operand(array.shape, array.strides, width))
        layout = orders.dense_layout(array.shape, order, width)
        handle = self._fresh(self.builder.constant(array), layout, constant_origin(layout))
        handle.numpy_scalar = isinstance(value, np.generic)
        return handle

    def size(self, size: Size) -> ArrayHandle:
        """A symbolic integer as a 0-d int64 value."""
        return self._fresh(self.builder.call("from_size", size=size), SCALAR, constant_origin(SCALAR))

    def number_within(self, number: WeakScalar, low: int, high: int) -> bool | None:
        """Whether the whole part of a Python number lies within bounds, wherever the recording holds; None: unknown."""
        return None

    # ---- steps --------------------------------------------------------------------------------------------------

    def op(self, name: str, *handles: ArrayHandle, **attrs: Any) -> Any:
        """Calls an op on the current values; a fresh handle, or a tuple of them for an op of several results."""
        values = tuple(self.read(h) for h in handles)
        results = self.builder.call_tuple(name, *values, **attrs)
        types = [self.builder.type_of(v) for v in results]
        complete = dict(canonical_attributes(OPS[name], attrs))
        layouts = orders.result_layouts(OPS[name], complete, [self._operand(h) for h in handles], types)
        fresh = tuple(
            self._fresh(v, layout, op_origin(OPS[name], complete, handles, types, k))
            for k, (v, layout) in enumerate(zip(results, layouts, strict=True))
        )
        return fresh[0] if len(fresh) == 1 else fresh

    def _operand(self, handle: ArrayHandle) -> Operand:
        """The operand as it counts for the order of a result: an axis that guards hold to one element moves nothing."""
        operand = handle.operand
        if self._env is None:
            return operand
        single = [self._env.simplify(n) == 1 for n in handle.shape]
        shape = tuple(1 if one else n for one, n in zip(single, operand.shape, strict=True))
        return Operand(shape, operand.strides, operand.itemsize)

    def promote(self, handle: ArrayHandle, dtype: DType) -> ArrayHandle:
        """The cast of an operand to the dtype of a loop: NumPy casts in the iterator's buffer, so for the order of
        the result the operand counts with its own strides (unlike `astype`, which is a copy: use `op("cast")`)."""
        if handle.dtype is dtype:
            return handle
        value = self.builder.call("cast", self.read(handle), dtype=dtype)
        strides = tuple(s // handle.dtype.itemsize * dtype.itemsize for s in handle.strides)
        layout = orders.virtual_layout(representatives(handle.shape), strides, dtype.itemsize)
        return self._fresh(value, layout, promoted_origin(handle, dtype))

    def view(self, name: str, handle: ArrayHandle, **attrs: Any) -> ArrayHandle:
        """A view of `handle`: shares its storage."""
        canonical = canonical_attributes(OPS[name], attrs)
        (type,) = self.builder.infer(OPS[name], (handle.type,), dict(canonical))
        strides = geometry.view_strides(name, dict(canonical), handle.operand, type)
        call = ViewCall(name, canonical)
        sealed = handle.sealed or not keeps_writeable(name, handle.type, type)
        return ArrayHandle(handle.storage, (*handle.views, call), type, strides, False, sealed)

    def pick(self, handle: ArrayHandle, axes: Sequence[int], indices: Sequence[ArrayHandle]) -> ArrayHandle:
        """A view of `handle` at integers known only at run time: `indices`, which are 0-d, one for each of `axes`.

        It raises IndexError at run time where it is taken, whether or not it is read."""
        kept = [a for a in range(handle.ndim) if a not in axes]
        attrs = {"axes": tuple(a - handle.ndim for a in axes), "core": handle.ndim}
        call = ViewCall("gather", canonical_attributes(OPS["gather"], attrs), tuple(self.read(i) for i in indices))
        type = TensorType(handle.dtype, tuple(handle.shape[a] for a in kept))
        strides = tuple(handle.strides[a] for a in kept)
        chain = (*handle.views, call)
        view = ArrayHandle(handle.storage, chain, type, strides, False, handle.sealed)
        if (handle.storage, chain) not in self._picked:
            self._picked.add((handle.storage, chain))
            self.read(view)
        return view

    def reshape(self, handle: ArrayHandle, shape: Sequence[Size]) -> ArrayHandle:
        """`numpy.reshape` in C order: a view where NumPy gives one, else a copy. `shape` is complete (no -1)."""
        new = tuple(shape)
        if not self.reshapes_as_view(handle, new):
            handle = self.copy(handle, "C")
        return self.view("reshape", handle, core=handle.ndim, shape=new)

    def reshapes_as_view(self, handle: ArrayHandle, shape: tuple[Size, ...]) -> bool:
        """Whether `numpy.reshape` gives a view: here at representative sizes; a recorder with guards knows better."""
        return handle.reshape_is_view(shape)

    def arranged_by(self, handle: ArrayHandle, question: Callable[[Operand], Any], answer: Any) -> None:
        """Notes that the program arranges a result by the answer to a question about an array's shape and strides."""

    def contiguous(self, handle: ArrayHandle, *, fortran: bool = False) -> bool:
        """NumPy's contiguity flag, where a program depends on it; as `reshapes_as_view`."""
        return handle.is_f_contiguous if fortran else handle.is_c_contiguous

    def copy(
        self, handle: ArrayHandle, order: Literal["K", "C", "F", "A"] = "K", *, like: ArrayHandle | None = None
    ) -> ArrayHandle:
        """A fresh array of the handle's current value; for "A", in Fortran order where `like`, or the handle itself,
        has that and not C order."""
        like = handle if like is None else like
        origin = copy_origin(handle, order, like)
        if order == "A":  # may depend on free strides
            order = "F" if like.is_fortran else "C"
        axes = orders.ordered_copy(handle.operand, order)
        layout = orders.dense_layout(representatives(handle.shape), axes, handle.dtype.itemsize)
        return self._fresh(self.read(handle), layout, origin)

    def arrange(self, handle: ArrayHandle, operands: Sequence[ArrayHandle], summed: Sequence[Size] = ()) -> ArrayHandle:
        """A fresh array of the handle's value, in the order in which one loop over `operands` would store it: for a
        ufunc that is a composition of ops. The operands may have further axes, of the sizes `summed`."""
        shape = representatives((*handle.shape, *summed))
        order = orders.iterator_order(shape, [self._operand(o) for o in operands])
        kept = tuple(axis for axis in order if axis < handle.ndim)
        layout = orders.dense_layout(shape[: handle.ndim], kept, handle.dtype.itemsize)
        return self._fresh(self.read(handle), layout, loop_origin(handle.type, operands, summed))

    def key_to_draw(self, word: ArrayHandle) -> ArrayHandle:
        """The key, as one word, that random numbers are drawn with where the program has this one."""
        return self._fresh(self.builder.key_to_draw(self.read(word)), word.storage.layout, word.storage.origin)

    def as_scalar(self, handle: ArrayHandle) -> ArrayHandle:
        """The current value of a 0-d handle as a NumPy scalar: no later write is seen through it."""
        if handle.ndim:
            raise ShapeError("only a 0-d array becomes a scalar", got=f"{handle.ndim} axes")
        scalar = self._fresh(self.read(handle), SCALAR, constant_origin(SCALAR))
        scalar.numpy_scalar = scalar.sealed = True
        return scalar

    def read(self, handle: ArrayHandle) -> ValueId:
        """The graph value that the handle shows now."""
        storage, value = handle.storage, handle.storage.value
        for depth in range(1, len(handle.views) + 1):
            chain = handle.views[:depth]
            found = storage.reads.get(chain)
            if found is None:
                call = chain[-1]
                found = storage.reads[chain] = self._seen(value, call)
            value = found
        return value

    def write(self, target: ArrayHandle, value: ArrayHandle) -> None:
        """Overwrites what `target` shows. `value` already has the target's dtype and shape.

        Raises `ShapeError` for another type, `VerifyError` for a target that is not writeable, and `DTypeError` for a
        view between bool and other bytes: a byte of 2 is True as well, and would not survive a write beside it.
        """
        if not target.writeable:
            raise VerifyError("a write to an array that is not writeable", remedy="check `handle.writeable` first")
        if target.type != value.type:
            raise ShapeError("a write needs a value of the target's type", got=value.type, allowed=str(target.type))
        dtype = target.storage.type.dtype
        for call in target.views:
            seen: DType = call.attributes["dtype"] if call.op == "view_dtype" else dtype
            if seen is not dtype and dtypes.bool_ in (seen, dtype):
                raise DTypeError("a write through a view between bool and another dtype", got=f"{dtype} as {seen}")
            dtype = seen
        storage = target.storage
        if storage.captured is not None:
            name = storage.captured()
            raise TransformError(
                f"a write to {name}, which belongs to the program around the batched function",
                got="a write that each example would make to the same array",
                allowed="writes to arguments and to arrays that the function made",
                remedy=f"write to a copy of {name} and return it, pass it as a batched argument, or make it inside, "
                "with bl.zeros or np.zeros_like",
                location=self.location,
            )
        new = self._put(storage.value, target.views, self.read(value))
        storage.value, storage.version, storage.reads = new, storage.version + 1, {}

    def finish(self, results: Sequence[ArrayHandle]) -> Recorded:
        """The graph of all that was recorded, with `results` as its results.

        A fresh storage is one output, whole, and its results are views of that; an input's storage is no output.
        """
        numbers: dict[Storage, int] = {}
        outputs: list[Output] = []
        places: list[Place] = []
        for handle in results:
            storage = handle.storage
            if any(call.indices for call in handle.views):
                raise VerifyError("a result that is a view at a run-time index", remedy="return a copy of it")
            if storage.input is not None:
                places.append(Place("input", storage.input, handle.views, handle.numpy_scalar))
                continue
            if storage not in numbers:
                numbers[storage] = len(outputs)
                outputs.append(Output(storage.value, storage.layout.order))
            places.append(Place("output", numbers[storage], handle.views, handle.numpy_scalar))
        writes = [
            Write(k, s.value)
            for k, (s, initial) in enumerate(zip(self._inputs, self._initial, strict=True))
            if s.value != initial
        ]
        return Recorded(self._graph.finish(outputs, writes), tuple(places))

    def _fit_in_environment(self, size: Size) -> bool:
        assert self._env is not None
        return self._env.fits(size, self.location)

    def _ask_environment(self, relation: Relation) -> bool:
        """Asks the environment. Where a size turns out to be a constant by an equality that no symbol can be solved
        for, such as (n + 1)//2 == 1, its symbols are fixed: later stages must see that an axis has one element. An
        equality of two sizes, such as n == 2*(n//2), leaves them as they are."""
        assert self._env is not None
        answer = self._env.decide(relation, self.location)
        fact = relation if answer else relation.negated()
        if isinstance(fact, Relation) and _is_constant(fact) and not _solvable(fact):
            for symbol in sorted(fact.symbols, key=lambda s: s.name):
                pinned = eq(symbol, self._env.hint(symbol))
                self._env.decide(pinned, self.location)
                if isinstance(pinned, Relation):
                    self._graph.assume(pinned)
        return answer

    # ---- inside -------------------------------------------------------------------------------------------------

    def _input_handle(
        self, value: ValueId, writeable: bool, scalar: bool = False, strided: bool = False
    ) -> ArrayHandle:
        declared = self._graph.input_of(value)
        strides = geometry.input_strides(declared)
        layout, origin = Layout(declared.order, strides), input_origin(declared, strided=strided)
        number = len(self._inputs)
        storage = Storage(declared.type, value, layout, origin, number, strided, writeable=writeable, owner=self)
        self._inputs.append(storage)
        self._initial.append(value)
        return ArrayHandle(storage, (), declared.type, strides, scalar)

    def _fresh(self, value: ValueId, layout: Layout, origin: Origin) -> ArrayHandle:
        type = self.builder.type_of(value)
        return ArrayHandle(Storage(type, value, layout, origin, owner=self), (), type, layout.strides)

    def _seen(self, base: ValueId, call: ViewCall) -> ValueId:
        return self.builder.call_tuple(call.op, base, *call.indices, **call.attributes)[0]

    def _put(self, base: ValueId, chain: Chain, value: ValueId) -> ValueId:
        if not chain:
            return value
        call, rest = chain[0], chain[1:]
        if rest:
            value = self._put(self._seen(base, call), rest, value)
        if call.indices:
            attrs = {**call.attributes, "mode": "set", "index_rank": 0}
            return self.builder.call_tuple("scatter", base, value, *call.indices, **attrs)[0]
        inverse = INVERSES.get(call.op)
        if inverse is None:
            raise VerifyError("no inverse of this view op: it cannot be written through", got=call.op)
        return inverse(self.builder, base, value, call.attributes)


def _is_constant(fact: Relation) -> bool:
    """Whether a fact says that a size is a certain number."""
    return fact.kind == "eq" and (isinstance(fact.lhs, int) or isinstance(fact.rhs, int))


def _solvable(fact: Relation) -> bool:
    """Whether some symbol equals an expression of the others."""
    difference = sub(fact.lhs, fact.rhs)
    splits = (coefficient(difference, s) for s in fact.symbols)
    return any(split is not None and split[0] in (1, -1) for split in splits)
