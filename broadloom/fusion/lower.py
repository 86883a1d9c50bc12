"""Lowering: a pure graph becomes operations on buffers.

What goes in: a decomposed `Graph`. What comes out: a `Lowered` - buffers and operations in program order, each
operation a one-op `Kernel` or an `Extern` - which the scheduler then groups.

What holds: each graph output is made in its own output buffer, in the memory order that NumPy would give it; inputs
are stored to only by the write-backs at the end; an op that may raise is always made, used or not; every recorded
body is bounded, however long the chain of ops in the graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, Literal

from broadloom.dtypes import DType
from broadloom.errors import OptionsError, VerifyError
from broadloom.fusion.boxes import (
    Index,
    Inlining,
    Inner,
    StorageBox,
    TensorBox,
    WindowedProducer,
    broadcast_index,
    contiguous,
    flat_index,
)
from broadloom.fusion.destinations import may_raise, reserve
from broadloom.fusion.dots import Dot
from broadloom.fusion.ir import (
    Accumulator,
    Buffer,
    Compute,
    Extern,
    Kernel,
    Layout,
    Load,
    Loop,
    Site,
    Stage,
)
from broadloom.fusion.settle import settled
from broadloom.graph.ir import Constant, Graph, Input, Node, Order, TensorType, ValueId
from broadloom.ops.record import Op
from broadloom.records import dataclass
from broadloom.symbolic import Size, Symbol, coefficient, free_symbols

MAX_DEPTH = 24  # nested inner functions before a storage is realised: bounds bodies and recursion
MULTI_USE_COST = 4  # a storage with several users is inlined into each only up to this cost
COSTS = {True: 20, False: 1}  # expensive (transcendental, division) or not

Binding = tuple[Symbol, int, Literal["size", "stride", "value"], int]


@dataclass(frozen=True, slots=True)
class Lowered:
    """Operations in program order, before scheduling."""

    name: str
    symbols: tuple[Symbol, ...]
    bindings: tuple[Binding, ...]
    buffers: tuple[Buffer, ...]
    operations: tuple[Kernel | Extern, ...]
    sites: tuple[Site, ...]


@dataclass(slots=True)
class Lowering:
    """The state of one lowering; op lowerings call its methods."""

    graph: Graph
    orders: Sequence[Order]
    buffers: dict[str, Buffer] = field(default_factory=dict)
    operations: list[Kernel | Extern] = field(default_factory=list)
    sites: list[Site] = field(default_factory=list)
    boxes: dict[ValueId, TensorBox] = field(default_factory=dict)
    remaining: Counter[int] = field(default_factory=Counter)  # uses of each value that are still to come
    can_fail: bool = False  # some op of the graph may raise at run time
    deterministic: bool = False  # no library calls: their bits may depend on the number of threads
    family: str = ""  # of the machine, for the table of `fusion.products`
    dots: tuple[Dot, ...] = ()  # instructions of the machine
    _names: Counter[str] = field(default_factory=Counter)
    _destinations: dict[ValueId, Buffer] = field(default_factory=dict)

    # ---- names, buffers, sites ----

    def fresh(self, prefix: str) -> str:
        self._names[prefix] += 1
        return f"{prefix}{self._names[prefix] - 1}"

    def buffer(self, dtype: DType, layout: Layout) -> Buffer:
        """A new workspace buffer."""
        made = Buffer(self.fresh("b"), dtype, layout, "workspace")
        self.buffers[made.name] = made
        return made

    def site(self, code: Literal["index", "linalg", "value", "memory"], node: Node, axis: int = 0) -> int:
        assert isinstance(node.op, Op)
        self.sites.append(Site(code, node.op.name, axis, node.location))
        return len(self.sites) - 1

    # ---- recording ----

    def record(self, make: Callable[[Inlining], None], points: int = 1) -> Inlining:
        """Run `make` with a fresh recording, of so many points; a producer that turns out to be read through a window
        is realised and the recording begun again."""
        while True:
            ops = Inlining(points=points)
            try:
                make(ops)
            except WindowedProducer as windowed:
                self.realize(windowed.storage)
            else:
                return ops

    def pointwise(
        self, dtype: DType, shape: Sequence[Size], inner: Inner, operands: Sequence[TensorBox], origin: str, cost: int
    ) -> TensorBox:
        """A value computed element by element, kept as a function."""
        inlined = [o.storage for o in operands if o.storage.buffer is None]
        storage = StorageBox(
            dtype,
            tuple(shape),
            inner,
            cost=cost + sum(s.cost for s in inlined),
            depth=1 + max((s.depth for s in inlined), default=0),
            operands=tuple(o.storage for o in operands),
            origins=(*dict.fromkeys(o for s in inlined for o in s.origins), origin),
        )
        if storage.depth > MAX_DEPTH:
            self.realize(storage)
        return TensorBox.whole(storage)

    def realize(self, storage: StorageBox, destination: Buffer | None = None) -> Buffer:
        """Give the storage a buffer (`destination`, or a new one) and add the operation that fills it."""
        if storage.buffer is not None:
            return storage.buffer
        inner = storage.inner
        assert inner is not None
        buffer = destination or self.buffer(storage.dtype, contiguous(storage.shape))
        self.fill(buffer, buffer.layout, inner, storage.origins)
        storage.buffer, storage.inner = buffer, None
        return buffer

    def fill(self, buffer: Buffer, layout: Layout, inner: Inner, origins: tuple[str, ...]) -> None:
        """Add the operation that stores `inner` at every index of `layout` into `buffer`."""
        loops, index = loop_nest(layout.shape, "i")
        ops = self.record(lambda ops: ops.store(buffer.name, flat_index(layout, index), inner(ops, index)))
        self.operations.append(Kernel(self.fresh("k"), loops, (Stage((), ops.body()),), origins=origins))

    def copy_to(self, box: TensorBox, buffer: Buffer) -> None:
        """Add the operation that copies the tensor into `buffer`."""
        self.fill(buffer, buffer.layout, box.load, ("copy",))

    def realized(self, box: TensorBox) -> TensorBox:
        """The same tensor with a storage in memory."""
        self.realize(box.storage)
        return box

    def strided(self, box: TensorBox, cast_to: DType | None = None) -> tuple[Buffer, Layout] | None:
        """Buffer and layout when the tensor is a strided view of a realised storage of its dtype, else None; with
        `cast_to`, when it is the conversion to this dtype of such a view of any dtype."""
        if (box.storage.buffer is None) == (cast_to is None):
            return None
        loops, index = loop_nest(box.shape, "v")
        ops = Inlining()
        box.load(ops, index)
        load, *rest_of_body = ops.instructions
        expected = [] if cast_to is None else [Compute("cast", (0,), cast_to, (("dtype", cast_to),))]
        if not isinstance(load, Load) or rest_of_body != expected or box.dtype is not (cast_to or box.dtype):
            return None
        if self.buffers[load.buffer].dtype is not load.dtype:
            return None
        strides: list[Size] = []
        rest: Size = load.index
        for i in index:
            if isinstance(i, int):
                strides.append(0)
                continue
            assert isinstance(i, Symbol)
            split = coefficient(rest, i)
            if split is None:
                return None
            stride, rest = split
            strides.append(stride)
        if any(s in free_symbols(e) for e in (rest, *strides) for s in (loop.variable for loop in loops)):
            return None
        return self.buffers[load.buffer], Layout(box.shape, tuple(strides), rest)

    def lies_in(self, box: TensorBox, buffer: Buffer) -> bool:
        """Whether the tensor is what `buffer` holds in its layout, element by element; the stride of an axis of one
        element means nothing."""
        found = self.strided(box)
        if found is None or found[0].name != buffer.name:
            return False
        given, wanted = found[1], buffer.layout
        axes = zip(wanted.shape, given.strides, wanted.strides, strict=True)
        same = given.shape == wanted.shape and given.offset == wanted.offset
        return same and all(n == 1 or x == y for n, x, y in axes)

    def dense(self, box: TensorBox) -> tuple[Buffer, Layout]:
        """Buffer and C-contiguous layout of the tensor, copied if it does not lie so."""
        wanted = contiguous(box.shape)
        if box.storage.buffer is None and box.storage.shape == box.shape:
            self.realize(box.storage)
        found = self.strided(box)
        if found is not None and found[1].strides == wanted.strides:
            return found
        copy = self.buffer(box.dtype, wanted)
        self.copy_to(box, copy)
        return copy, wanted

    def reduction(
        self,
        accumulator: Accumulator,
        outer: tuple[Loop, ...],
        inner: tuple[Loop, ...],
        body: Callable[[Inlining], None],
        store: Callable[[Inlining], None],
        origin: str,
    ) -> None:
        """Add the operation that folds `body` over `inner` and then runs `store`, for each point of `outer`."""
        folded, stored = self.record(body), self.record(store)
        stages = (Stage(inner, folded.body()), Stage((), stored.body()))
        self.operations.append(Kernel(self.fresh("k"), outer, stages, (accumulator,), origins=(origin,)))

    def call(self, node: Node, extern: Extern) -> None:
        """Add a library call."""
        if self.deterministic:
            assert isinstance(node.op, Op)
            raise OptionsError(
                "the option deterministic forbids calls into BLAS and LAPACK",
                got=f"{extern.routine} for {node.op.name}",
                remedy="leave the option off for this function",
                location=node.location,
            )
        self.operations.append(extern)

    # ---- results ----

    def destination(self, value: ValueId, dtype: DType, shape: Sequence[Size]) -> Buffer:
        """The buffer that a value made by a reduction, library call or the like is to be stored in."""
        return self.awaited(value) or self.buffer(dtype, contiguous(shape, self.orders[value]))

    def awaited(self, value: ValueId) -> Buffer | None:
        """The output buffer that waits for the value, taken once."""
        return self._destinations.pop(value, None)

    def updated(self, x: TensorBox, value: ValueId, node: Node) -> Buffer:
        """A buffer that holds the elements of `x` and may be stored to as result `value` of `node`: the buffer of
        `x` itself when nobody reads it again, else a copy."""
        held = self.taken_over(x, value, node)
        if held is not None:
            return held
        result = node.types[0]
        buffer = self.destination(value, result.dtype, result.shape)
        load, given, shape = x.load, x.shape, result.shape
        self.fill(
            buffer,
            buffer.layout,
            lambda ops, index: load(ops, broadcast_index(index, given, shape)),
            (*x.storage.origins, "copy"),
        )
        return buffer

    def taken_over(self, x: TensorBox, value: ValueId, node: Node) -> Buffer | None:
        """The buffer of `x`, if it may become that of result `value` of `node`."""
        waiting, held = self._destinations.get(value), x.storage.buffer
        if held is None or waiting not in (None, held) or not self._may_store(held):
            return None
        if x.shape != node.types[0].shape or self.strided(x) != (held, held.layout) or self._read_again(held, node):
            return None
        self._destinations.pop(value, None)
        return held

    def _may_store(self, buffer: Buffer) -> bool:
        """Our own memory may be stored to at any time; that of an input only if it is written in the end anyhow and
        nothing can fail on the way."""
        if buffer.kind == "input":
            written = any(w.input == buffer.position for w in self.graph.writes)
            return written and not self.can_fail
        return buffer.kind != "constant"

    def _read_again(self, buffer: Buffer, node: Node) -> bool:
        """Whether a value that is still needed, or another operand of `node`, reads `buffer`."""
        others = [v for v in node.inputs[1:] if v in self.boxes]
        live = (v for v, count in self.remaining.items() if count > 0 and v in self.boxes)
        return any(self.boxes[ValueId(v)].storage.reads(buffer) for v in (*others, *live))


def loop_nest(shape: Sequence[Size], prefix: str) -> tuple[tuple[Loop, ...], Index]:
    """One loop per axis whose size is not 1, and the index that they span."""
    loops: list[Loop] = []
    index: list[Size] = []
    for axis, size in enumerate(shape):
        if size == 1:
            index.append(0)
            continue
        top = max(size - 1, 0) if isinstance(size, int) else size - 1
        variable = Symbol(f"{prefix}{axis}", 0, top)
        loops.append(Loop(variable, size))
        index.append(variable)
    return tuple(loops), tuple(index)


def lower(
    graph: Graph,
    orders: Sequence[Order],
    lowerings: dict[str, Callable[..., Any]],
    *,
    deterministic: bool = False,
    family: str = "",
    dots: tuple[Dot, ...] = (),
) -> Lowered:
    """The operations of `graph`. `orders` gives the memory order of every value; `lowerings` is the table; `family`
    names the kind of machine, `dots` are its instructions for products of short integers.

    Raises `OptionsError` where `deterministic` forbids a library call that there is no loop for.
    """
    graph = settled(graph)
    types = graph.types
    can_fail = any(may_raise(types, n) for n in graph.nodes)
    state = Lowering(graph, orders, can_fail=can_fail, deterministic=deterministic, family=family, dots=dots)
    bindings = _inputs(state)
    uses = _uses(graph)
    state.remaining.update(uses)
    outputs = _outputs(state)
    state._destinations.update({v: buffers[0] for v, buffers in outputs.items()})
    reserve(graph, orders, uses, state._destinations, state.buffer)
    value = len(graph.inputs)
    for node in graph.nodes:
        ids = [ValueId(value + k) for k in range(len(node.types))]
        value += len(ids)
        state.remaining.subtract(set(node.inputs))
        _lower_node(state, node, ids, lowerings)
        for i in ids:
            _settle(state, types, node, i, uses[i])
    for output_value, buffers in outputs.items():
        for buffer in buffers:
            box = state.boxes[output_value]
            if not state.lies_in(box, buffer):
                state.copy_to(box, buffer)
    _write_backs(state)
    return Lowered(
        graph.name, graph.symbols, bindings, tuple(state.buffers.values()), tuple(state.operations), tuple(state.sites)
    )


def _lower_node(state: Lowering, node: Node, ids: Sequence[ValueId], lowerings: dict[str, Callable[..., Any]]) -> None:
    if isinstance(node.op, Constant):
        state.boxes[ids[0]] = _constant(state, node.op)
        return
    lowering = lowerings.get(node.op.name)
    if lowering is None:
        raise VerifyError("no lowering for op", got=node.op.name, remedy="decompose it before lowering")
    made = lowering(state, node, ids, *(state.boxes[i] for i in node.inputs))
    for i, box in zip(ids, made if isinstance(made, tuple) else (made,), strict=True):
        state.boxes[i] = box


def _settle(state: Lowering, types: Sequence[TensorType], node: Node, value: ValueId, uses: int) -> None:
    """Realise a fresh pointwise value now where that is known to be right: outputs, effects, dear shared values."""
    box = state.boxes[value]
    storage = box.storage
    waiting = state._destinations.get(value)
    if storage.buffer is not None or not box.is_whole or not isinstance(node.op, Op):
        return
    effect = may_raise(types, node)
    if waiting is not None or effect or (uses > 1 and storage.cost > MULTI_USE_COST):
        state._destinations.pop(value, None)
        ordered = contiguous(storage.shape, state.orders[value])
        state.realize(storage, waiting or state.buffer(storage.dtype, ordered))


def _uses(graph: Graph) -> Counter[int]:
    uses: Counter[int] = Counter()
    for node in graph.nodes:
        uses.update(set(node.inputs))
    uses.update(o.value for o in graph.outputs)
    uses.update(w.value for w in graph.writes)
    return uses


def _inputs(state: Lowering) -> tuple[Binding, ...]:
    """Boxes and buffers of the inputs, and where each symbol is read off at entry."""
    bindings: dict[Symbol, Binding] = {}
    # Sizes first: where a size stands for a stride too, only the size can be trusted (an empty array's strides mean
    # nothing).
    for position, given in enumerate(state.graph.inputs):
        _bind_sizes(bindings, given, position)
    for position, given in enumerate(state.graph.inputs):
        for axis, stride in enumerate(given.strides):
            if isinstance(stride, Symbol):
                bindings.setdefault(stride, (stride, position, "stride", axis))
        layout = Layout(given.type.shape, given.strides)
        buffer = Buffer(f"in{position}", given.type.dtype, layout, "input", position, aligned=given.aligned)
        state.buffers[buffer.name] = buffer
        storage = StorageBox(given.type.dtype, given.type.shape, None, buffer)
        state.boxes[ValueId(position)] = TensorBox.whole(storage)
    return tuple(bindings.values())


def _bind_sizes(bindings: dict[Symbol, Binding], given: Input, position: int) -> None:
    if given.size is not None:
        bindings.setdefault(given.size, (given.size, position, "value", 0))
    for axis, size in enumerate(given.type.shape):
        if isinstance(size, Symbol):
            bindings.setdefault(size, (size, position, "size", axis))


def _outputs(state: Lowering) -> dict[ValueId, list[Buffer]]:
    """The output buffers that each value is to fill; a value returned as several arrays fills several."""
    filled: dict[ValueId, list[Buffer]] = {}
    types = state.graph.types
    for position, output in enumerate(state.graph.outputs):
        t = types[output.value]
        buffer = Buffer(f"out{position}", t.dtype, contiguous(t.shape, output.order), "output", position)
        state.buffers[buffer.name] = buffer
        filled.setdefault(output.value, []).append(buffer)
    return filled


def _write_backs(state: Lowering) -> None:
    """Put written values into the memory of their inputs. Values that read an input that is written are made
    first, so that no later evaluation sees the new contents."""
    written = {f"in{w.input}" for w in state.graph.writes}
    pending = []
    for write in state.graph.writes:
        box = state.boxes[write.value]
        held = box.storage.buffer
        if held is not None and held.name == f"in{write.input}" and state.strided(box) == (held, held.layout):
            continue  # written with what it held
        if held is None or held.name in written:
            copy = state.buffer(box.dtype, contiguous(box.shape, state.graph.inputs[write.input].order))
            state.copy_to(box, copy)
            storage = StorageBox(box.dtype, box.shape, None, copy)
            box = TensorBox.whole(storage)
        pending.append((box, state.buffers[f"in{write.input}"]))
    for box, buffer in pending:
        state.copy_to(box, buffer)


def _constant(state: Lowering, constant: Constant) -> TensorBox:
    """Scalars stand in the bodies; arrays are read-only data of the module."""
    if constant.data is not None and len(constant.data) == constant.dtype.itemsize and not constant.shape:
        dtype, data = constant.dtype, constant.data
        storage = StorageBox(dtype, (), lambda ops, index: ops.literal(dtype, data))
        return TensorBox.whole(storage)
    layout = contiguous(constant.shape)
    buffer = Buffer(state.fresh("c"), constant.dtype, layout, "constant", constant=constant)
    state.buffers[buffer.name] = buffer
    return TensorBox.whole(StorageBox(constant.dtype, constant.shape, None, buffer))
