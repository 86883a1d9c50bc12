"""The body of a loop as LLVM code.

What goes in: a recorded `Body`, the indexer with the loops' variables bound, the accumulators, and where a failed
check leaves to. What comes out: straight-line code at the current place, but for checks and masked parts.

What holds: loads stand in recorded order relative to stores; a failed check records its site and its key and goes on
with index 0, or leaves the iteration where the axis is empty; memory bools are true for any non-zero byte. Where a
body runs for a vector of points, what is the same for all of them stays one scalar until it meets what is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from broadloom.codegen import abi
from broadloom.codegen.accumulators import Accumulators, Emit, Scalar
from broadloom.codegen.index import Indexer
from broadloom.codegen.llvm import (
    Block,
    FunctionBuilder,
    Val,
    const_int,
    element_of,
    i64,
    is_constant,
    lanes_of,
    like,
    vector,
)
from broadloom.codegen.memory import has_masks, masked_load, masked_store, store_past
from broadloom.codegen.steps import (
    Window,
    load_apart,
    load_pairs_apart,
    load_window,
    store_apart,
    store_near,
    store_pairs,
    store_pairs_apart,
)
from broadloom.codegen.types import literal, memory_type, register_type, width
from broadloom.dtypes import DType, bool_, int64
from broadloom.errors import VerifyError
from broadloom.fusion.ir import (
    Accumulated,
    Body,
    Buffer,
    Compute,
    IndexValue,
    Indirect,
    Instruction,
    Literalv,
    Load,
    Lookup,
    Masked,
    Reduce,
    Running,
    Store,
    Table,
)
from broadloom.fusion.vectors import NEAR, Reach, reaches, stride
from broadloom.records import dataclass
from broadloom.symbolic import Size, Symbol, gt, proves


@dataclass(frozen=True, slots=True)
class Place:
    """A buffer within a kernel function: its base address and what is known of it."""

    base: Val
    buffer: Buffer

    def alignment(self, dtype: DType) -> int:
        """Bytes that every element, seen as `dtype`, is aligned to."""
        own, seen = self.buffer.dtype.real.itemsize, dtype.real.itemsize
        if not self.buffer.aligned:
            return 1
        return min(own, seen) if self.buffer.kind == "input" else seen


@dataclass(frozen=True, slots=True)
class Lanes:
    """Bodies that run for a vector of points: these many of `variable`, where `mask` says if it is there, or the first
    `left` of them. The buffers `past` are stored past the caches, at multiples of the size of `unit` elements, if
    `when` is true or not given."""

    variable: Symbol
    count: int
    mask: Val | None
    past: tuple[str, ...] = ()
    unit: int = 1
    when: Val | None = None
    left: Val | None = None

    def load(self, b: FunctionBuilder, dtype: DType, addresses: Sequence[Val], align: int, step: Val) -> Scalar:
        """The elements of all points; one element for all where it is the same for them."""
        element = memory_type(dtype)
        if step.text == "0":
            return tuple(b.load(element, a, align) for a in addresses)
        if len(addresses) == 2:
            return load_pairs_apart(b, element, addresses[0], align, self.count, step, self._left())
        if step.text != "1":
            return (load_apart(b, element, addresses[0], align, self.count, step, self._left()),)
        type_ = vector(element, self.count)
        if self.mask is None:
            return (b.load(type_, addresses[0], align),)
        return (masked_load(b, type_, addresses[0], align, self.mask),)

    def window(self, b: FunctionBuilder, dtype: DType, address: Val, align: int, reach: Reach) -> Window:
        """What the elements of all points are picked from."""
        parts = len(register_type(dtype))
        shape = self.count, reach.step * parts, (reach.span + 1) * parts - 1
        return load_window(b, memory_type(dtype), address, align, shape, self._left())

    def _left(self) -> Val | None:
        if self.mask is not None and self.left is None:
            raise VerifyError("elements a step apart under a mask of no count")
        return self.left

    def numbers(self, b: FunctionBuilder, first: Val, index: Size) -> Val:
        """The index of each point, from that of the first."""
        step = stride(index, self.variable)
        if step == 0:
            return first
        if not isinstance(step, int):
            raise VerifyError("index has no constant step", got=index)
        type_ = vector("i64", self.count)
        steps = ", ".join(f"i64 {step * k}" for k in range(self.count))
        return b.add(b.splat(first, self.count), Val(type_, f"<{steps}>"))

    def spread(self, b: FunctionBuilder, values: Sequence[Val]) -> Scalar:
        """What is the same for all points as vectors, too."""
        return tuple(b.splat(v, self.count) if lanes_of(v.type) == 1 else v for v in values)

    def store(
        self, b: FunctionBuilder, value: Scalar, addresses: Sequence[Val], align: int, step: Val, name: str
    ) -> None:
        """Stores elements into the buffer `name`, where the mask allows; with step 0 there is but one."""
        if step.text not in ("0", "1") or len(value) == 2:
            self._store_steps(b, value, addresses[0], align, step)
        elif name in self.past:
            self._store_past(b, value[0], addresses[0], align)
        elif self.mask is None:
            b.store(value[0], addresses[0], align)
        else:
            masked_store(b, value[0], addresses[0], align, self.mask)

    def _store_past(self, b: FunctionBuilder, value: Val, address: Val, align: int) -> None:
        size = self.unit * max(8, width(element_of(value.type))) // 8
        if self.when is None:
            store_past(b, value, address, size)
        else:
            b.if_then(self.when, lambda: store_past(b, value, address, size), lambda: b.store(value, address, align))

    def _store_steps(self, b: FunctionBuilder, value: Scalar, address: Val, align: int, step: Val) -> None:
        fixed = int(step.text) if is_constant(step) else NEAR + 1
        if abs(fixed) == 1 or (abs(fixed) <= NEAR // len(value) and has_masks(b.module.features)):
            if len(value) == 2:
                store_pairs(b, value, address, align, fixed, self._left())
            else:
                store_near(b, value[0], address, align, fixed, self._left())
        elif len(value) == 2:
            store_pairs_apart(b, value, address, align, step, self._left())
        else:
            store_apart(b, value[0], address, align, step, self._left())


Given = tuple[Scalar | None, DType]


@dataclass(slots=True)
class BodyEmitter:
    """Emits one body for one iteration."""

    b: FunctionBuilder
    emit: Emit
    indexer: Indexer
    places: Mapping[str, Place]
    accumulators: Accumulators
    ctx: Val
    sites: Mapping[int, Val]
    lane: Val | None
    leave: Block
    given: Mapping[int, Given] = field(default_factory=dict)  # what was computed outside of the loop
    lanes: Lanes | None = None
    left: bool = False  # whether any check leaves
    bound: list[tuple[Symbol, Val]] = field(default_factory=list)
    reaches: Mapping[tuple[str, DType, Size], tuple[Reach, int]] = field(default_factory=dict)
    windows: dict[tuple[str, DType, Reach], Window] = field(default_factory=dict)

    def run(self, body: Body) -> Scalar | None:
        """Emits all instructions; the value of the last."""
        values: list[Scalar | None] = []
        dtypes: list[DType] = []
        if self.lanes is not None:
            loads = (i for i in body.instructions if isinstance(i, Load))
            self.reaches = reaches(loads, self.lanes.variable)
        for number, instruction in enumerate(body.instructions):
            value, dtype = self.given.get(number) or self._step(instruction, values, dtypes)
            values.append(value)
            dtypes.append(dtype)
        return values[-1] if values else None

    def run_some(self, body: Body, numbers: frozenset[int]) -> dict[int, Given]:
        """Runs only these instructions, which need no others; their values, for `given` of another emitter."""
        values: list[Scalar | None] = []
        dtypes: list[DType] = []
        for number, instruction in enumerate(body.instructions):
            value, dtype = self._step(instruction, values, dtypes) if number in numbers else (None, bool_)
            values.append(value)
            dtypes.append(dtype)
        return {n: (values[n], dtypes[n]) for n in numbers}

    def _run(self, body: Body, values: list[Scalar | None], dtypes: list[DType]) -> None:
        for instruction in body.instructions:
            value, dtype = self._step(instruction, values, dtypes)
            values.append(value)
            dtypes.append(dtype)

    def _step(
        self, instruction: Instruction, values: list[Scalar | None], dtypes: list[DType]
    ) -> tuple[Scalar | None, DType]:
        def get(operand: int) -> Scalar:
            found = values[operand]
            if found is None:
                raise VerifyError("operand has no value", got=operand)
            return found

        match instruction:
            case Compute(op, args, dtype, attrs):
                operands = self._even([get(a) for a in args])
                return self.emit(self.b, op, operands, [dtypes[a] for a in args], dtype, dict(attrs)), dtype
            case Load(buffer, index, dtype):
                return self._load(buffer, index, dtype), dtype
            case Store(buffer, index, operand, mode):
                self._store(buffer, index, get(operand), dtypes[operand], mode)
                return None, bool_
            case Literalv(dtype, data):
                return tuple(Val(t, text) for t, text in literal(dtype, data)), dtype
            case IndexValue(index, dtype):
                return self._index_value(index, dtype), dtype
            case Indirect(operand, size, symbol, site, key):
                place = self._check(get(operand)[0], dtypes[operand], size, site, key)
                self.indexer.bind(symbol, place)
                self.bound.append((symbol, place))
                return None, bool_
            case Reduce(name, operand, position):
                at = None if position is None else get(position)[0]
                value = get(operand) if self.lanes is None else self.lanes.spread(self.b, get(operand))
                self.accumulators.fold(name, value, dtypes[operand], at, self.lane)
                return None, bool_
            case Running(name, operand, dtype):
                return self.accumulators.fold(name, get(operand), dtypes[operand], None, self.lane), dtype
            case Accumulated(name, dtype):
                return self.accumulators.result(name, self.lane), dtype
            case Masked():
                return self._masked(instruction, values, dtypes, get(instruction.mask)[0], get(instruction.other))
            case Lookup(table, operand, dtype):
                return self._lookup(table, get(operand)[0], dtype), dtype
        raise VerifyError("unknown instruction", got=type(instruction).__name__)

    def _even(self, operands: list[Scalar]) -> list[Scalar]:
        """Operands of one op: all vectors if one is."""
        if self.lanes is None or all(lanes_of(v.type) == 1 for x in operands for v in x):
            return operands
        return [self.lanes.spread(self.b, x) for x in operands]

    # -- memory --

    def _addresses(self, name: str, index: Size, dtype: DType) -> tuple[list[Val], int]:
        place = self.places[name]
        element = memory_type(dtype)
        parts = len(register_type(dtype))
        first = self.indexer.address(place.base, index, element, parts)
        return [first, *(self.b.gep(element, first, i64(k)) for k in range(1, parts))], place.alignment(dtype)

    def _load(self, name: str, index: Size, dtype: DType) -> Scalar:
        if self.lanes is not None and (name, dtype, index) in self.reaches:
            loaded: Scalar = self._pick(name, index, dtype)
        else:
            addresses, align = self._addresses(name, index, dtype)
            if self.lanes is None:
                loaded = tuple(self.b.load(memory_type(dtype), a, align) for a in addresses)
            else:
                loaded = self.lanes.load(self.b, dtype, addresses, align, self._step_of(index))
        if dtype.kind == "b":
            return (self.b.icmp("ne", loaded[0], const_int(loaded[0].type, 0)),)
        return loaded

    def _step_of(self, index: Size) -> Val:
        """The step of an index from one point to the next."""
        assert self.lanes is not None
        step = stride(index, self.lanes.variable)
        if step is None:
            raise VerifyError("index has no one step", got=index)
        return self.indexer.value(step)

    def _pick(self, name: str, index: Size, dtype: DType) -> Scalar:
        """Elements a few apart, out of what is read of memory once for all that lie between them."""
        assert self.lanes is not None
        reach, offset = self.reaches[name, dtype, index]
        window = self.windows.get((name, dtype, reach))
        if window is None:
            addresses, align = self._addresses(name, reach.index, dtype)
            window = self.lanes.window(self.b, dtype, addresses[0], align, reach)
            self.windows[name, dtype, reach] = window
        parts = len(register_type(dtype))
        return tuple(window.pick(self.b, offset * parts + k) for k in range(parts))

    def _store(self, name: str, index: Size, value: Scalar, dtype: DType, mode: str) -> None:
        if mode == "add":
            old = self._load(name, index, dtype)
            value = self.emit(self.b, "add", [old, value], [dtype, dtype], dtype, {})
        self.windows = {key: w for key, w in self.windows.items() if key[0] != name}
        addresses, align = self._addresses(name, index, dtype)
        if dtype.kind == "b":
            value = (self.b.zext(value[0], like(value[0].type, "i8")),)
        if self.lanes is not None:
            spread = self.lanes.spread(self.b, value)
            self.lanes.store(self.b, spread, addresses, align, self._step_of(index), name)
            return
        for v, a in zip(value, addresses, strict=True):
            self.b.store(v, a, align)

    # -- tables --

    def enter(self, table: Table, value: Scalar) -> None:
        """Stores the entry of a table for the value of its variable."""
        self._store(table.name, table.variable, value, table.dtype, "set")

    def _lookup(self, name: str, key: Val, dtype: DType) -> Scalar:
        """The entry for a byte; of the two for a bool both are loaded, which are the same in all iterations."""
        b, lanes = self.b, lanes_of(key.type)
        if element_of(key.type) == "i1":
            no, yes = (self._entry(name, i64(k), dtype) for k in range(2))
            found = [b.select(key, b.splat(x, lanes), b.splat(y, lanes)) for x, y in zip(yes, no, strict=True)]
        elif lanes == 1:
            found = list(self._entry(name, b.zext(key, "i64"), dtype))
        else:
            found = [Val(vector(t, lanes), "poison") for t in register_type(dtype)]
            for lane in range(lanes):
                entry = self._entry(name, b.zext(b.extract(key, lane), "i64"), dtype)
                found = [b.insert(v, x, lane) for v, x in zip(found, entry, strict=True)]
        return tuple(found)

    def _entry(self, name: str, number: Val, dtype: DType) -> Scalar:
        place, element, parts = self.places[name], memory_type(dtype), len(register_type(dtype))
        first = self.b.gep(element, place.base, number if parts == 1 else self.b.mul(number, i64(parts)))
        addresses = [first, *(self.b.gep(element, first, i64(k)) for k in range(1, parts))]
        loaded = tuple(self.b.load(element, a, place.alignment(dtype)) for a in addresses)
        return (self.b.icmp("ne", loaded[0], const_int(element, 0)),) if dtype.kind == "b" else loaded

    # -- indices --

    def _index_value(self, index: Size, dtype: DType) -> Scalar:
        value = self.indexer.value(index)
        if self.lanes is not None:
            value = self.lanes.numbers(self.b, value, index)
        if dtype is int64:
            return (value,)
        if dtype.is_integer:
            return (self.b.int_cast(value, like(value.type, register_type(dtype)[0]), signed=True),)
        return self.emit(self.b, "cast", [(value,)], [int64], dtype, {"dtype": dtype})

    def _check(self, value: Val, dtype: DType, size: Size, site: int, key: Size) -> Val:
        """The index, made non-negative and proven below `size`; after a failure 0, to find lower keys yet."""
        b = self.b
        if not dtype.is_integer:
            raise VerifyError("index is no integer", got=dtype)
        bound = self.indexer.value(size)
        wide = b.int_cast(value, "i64", signed=dtype.kind == "i")
        if site < 0:
            return wide
        index = wide
        if dtype.kind == "i":
            index = b.select(b.icmp("slt", wide, i64(0)), b.add(wide, bound), wide)
        good, bad = b.block("good"), b.block("bad")
        before = b.current
        b.cond_br(b.icmp("ult", index, bound), good, bad)
        b.at(bad)
        self.indexer.open(None)
        abi.fail(b, self.ctx, self.sites[site], self.indexer.value(key), wide, bound)
        self.indexer.close()
        failed = b.current
        if proves(gt(size, 0)):
            b.br(good)
        else:
            b.cond_br(b.icmp("eq", bound, i64(0)), self.leave, good)
            self.left = True
        b.at(good)
        return b.phi("i64", (index, before), (i64(0), failed)).value

    # -- masked parts --

    def _masked(
        self, masked: Masked, values: list[Scalar | None], dtypes: list[DType], mask: Val, other: Scalar
    ) -> tuple[Scalar, DType]:
        inner, inner_dtypes = list(values[: masked.body.base]), list(dtypes[: masked.body.base])

        def run() -> Scalar:
            self.indexer.open(None)
            self._run(masked.body, inner, inner_dtypes)
            self.indexer.close()
            result = inner[masked.value]
            if result is None:
                raise VerifyError("masked value has no value", got=masked.value)
            return result

        if all(isinstance(i, Literalv | IndexValue) for i in masked.body.instructions):
            value = run()  # nothing that could fail: cheaper than a branch
            return tuple(self.b.select(mask, x, y) for x, y in zip(value, other, strict=True)), masked.dtype
        return self.b.if_then(mask, run, lambda: other), masked.dtype
