"""Tables: expensive functions of one byte, computed once for each byte and looked up at each point.

What goes in: a scheduled `Kernel` and the program's buffers. What comes out: the kernel with `tables`, and `Lookup`
where the functions stood, and a decision with its reason for each function that was weighed.

What holds: an entry is computed by the instructions that computed a point, so no bit changes. A function goes into a
table as a whole, from the byte to the last value that depends on nothing else, if that is all it depends on besides
constants and what is the same for all points of the kernel. Equal functions, of whatever bytes, share a table. The
decision is a pure function of the cost and the number of points; where that is a symbol, the call decides between the
kernel and what `without_tables` makes of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from broadloom.dtypes import DType, uint8
from broadloom.fusion.cost import LOOKUP_COST, instruction_cost
from broadloom.fusion.handlers import Handler, Recording, Replay, facts_of, operands_of, with_stages, without_dead
from broadloom.fusion.ir import (
    Body,
    Buffer,
    Compute,
    IndexValue,
    Indirect,
    Instruction,
    Kernel,
    Literalv,
    Load,
    Lookup,
    Masked,
    Operand,
    Stage,
    Table,
)
from broadloom.records import dataclass
from broadloom.symbolic import Size, Symbol, free_symbols, product, range_of

ENOUGH = 4  # times the work of filling a table that using it must save
TABLE_BYTES = 16 << 10  # of all tables of a kernel, which stay in the nearest cache beside the data
_SHOWN_OPS = 6
_SAME = -1  # the source of what is the same for all points
_INTEGER_OPS = frozenset(["floor_divide", "remainder", "fmod", "pow"])
_INTEGER_COST = 0.1  # of those, with a constant or in few bits: there are vectors for them then


# ---- decisions --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tabulate:
    """A function goes into a table, because of `reason`."""

    reason: str


@dataclass(frozen=True, slots=True)
class Direct:
    """A function is computed at each point, because of `reason`."""

    reason: str


@dataclass(frozen=True, slots=True)
class TableDecision:
    """Why a function of one byte went into a table, or did not."""

    kernel: str
    function: str
    outcome: Tabulate | Direct

    def __str__(self) -> str:
        verb = "in a table" if isinstance(self.outcome, Tabulate) else "at each point"
        return f"{self.kernel}, {self.function}: {verb}, {self.outcome.reason}"


def worthwhile(cost: float, entries: int, points: Size) -> Tabulate | Direct:
    """Whether a function that takes `cost` units is cheaper looked up than computed, at so many points, or may be.

    >>> worthwhile(2.0, 256, 100)
    Direct(reason='100 points are few beside 256 entries')
    """
    saved = cost - (LOOKUP_COST if entries > 2 else instruction_cost(Compute("where", (), uint8)))
    if saved <= 0:
        return Direct("a look-up costs as much")
    most = range_of(points).hi
    if isinstance(most, int) and most * saved < ENOUGH * entries * cost:
        return Direct(f"{most} points are few beside {entries} entries")
    return Tabulate(f"{entries} entries for {points} points{'' if isinstance(points, int) else ', if these are many'}")


# ---- what depends on one byte -----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Level:
    """A body, behind those around it that it sees: all their instructions, by operand. `sources` tell what a value
    depends on: the number of the one value of a one-byte dtype, `_SAME`, or None for anything more. `read` are the
    values that something uses which does not depend on the same byte alone."""

    parent: _Level | None
    base: int
    instructions: list[Instruction]
    sources: list[int | None]
    read: set[Operand] = field(default_factory=set)
    tables: dict[Operand, str] = field(default_factory=dict)

    def use(self, operand: Operand) -> None:
        level = self
        while operand < level.base and level.parent is not None:
            level = level.parent
        level.read.add(operand)


class _Reader:
    """Finds the sources of all values of a stage."""

    def __init__(self, kernel: Kernel, buffers: Mapping[str, Buffer]) -> None:
        self.buffers = buffers
        self.stored = frozenset(b for s in kernel.stages for b in facts_of(s.body).stored)
        self.varying = {loop.variable for loop in kernel.outer}
        self.levels: dict[int, _Level] = {}  # by the body's identity

    def read(self, body: Body, outer: _Level | None) -> None:
        level = _Level(outer, body.base, [], [])
        if outer is not None:
            level.instructions, level.sources = outer.instructions[: body.base], outer.sources[: body.base]
        self.levels[id(body)] = level
        for number, i in enumerate(body.instructions, body.base):
            level.instructions.append(i)
            source = self.source(number, i, level.sources)
            level.sources.append(source)
            if isinstance(i, Masked):
                self.read(i.body, level)
                self.levels[id(i.body)].use(i.value)
                used: tuple[Operand, ...] = (i.mask, i.other)
            else:
                used = operands_of(i)
            for operand in used:
                if not (isinstance(i, Compute) and level.sources[operand] == source != number):
                    level.use(operand)

    def source(self, number: int, i: Instruction, sources: list[int | None]) -> int | None:
        match i:
            case Literalv():
                return _SAME
            case IndexValue(index) if not self.varying & free_symbols(index):
                return _SAME
            case Load() if self.is_steady(i):
                return _SAME
            case Compute(_, args, _, _):
                found = {sources[a] for a in args} - {_SAME}
                if not found:
                    return _SAME
                if len(found) == 1 and None not in found:
                    return found.pop()
            case Indirect(symbol=symbol):
                self.varying.add(symbol)
        dtype: DType | None = getattr(i, "dtype", None)
        return number if dtype is not None and dtype.itemsize == 1 else None

    def is_steady(self, load: Load) -> bool:
        """Whether a load gives the same at every point, and may be made where no point is."""
        buffer, index = self.buffers[load.buffer], load.index
        if load.buffer in self.stored or load.dtype is not buffer.dtype or not isinstance(index, int):
            return False
        low = high = buffer.layout.offset
        for size, stride in zip(buffer.layout.shape, buffer.layout.strides, strict=True):
            if not isinstance(size, int) or not isinstance(stride, int) or size < 1:
                return False
            low, high = low + min(0, (size - 1) * stride), high + max(0, (size - 1) * stride)
        return isinstance(low, int) and isinstance(high, int) and low <= index <= high


def _slice(level: _Level, root: Operand, done: Mapping[Operand, str]) -> list[Operand]:
    """What `root` needs, from its source on, up to what is in a table already: operands before their users, in an
    order that depends on nothing else that the body holds."""
    source, found, pending = level.sources[root], dict[Operand, None](), [(root, False)]
    while pending:
        operand, entered = pending.pop()
        if entered:
            found.setdefault(operand)
        elif operand not in found and operand != source and operand not in done:
            pending.append((operand, True))
            pending += [(o, False) for o in reversed(operands_of(level.instructions[operand]))]
    return list(found)


def _cost(level: _Level, numbers: list[Operand]) -> float:
    """What instructions take at each point; what is the same for all is computed outside of the loops."""
    return sum(_instruction_cost(level, level.instructions[n]) for n in numbers if level.sources[n] != _SAME)


def _instruction_cost(level: _Level, i: Instruction) -> float:
    cost = instruction_cost(i)
    if not isinstance(i, Compute) or i.op not in _INTEGER_OPS or not i.dtype.is_integer:
        return cost
    vectors = i.dtype.bits <= 16 or isinstance(level.instructions[i.args[-1]], Literalv)
    return min(cost, _INTEGER_COST) if vectors else cost


# ---- tables -----------------------------------------------------------------------------------------------------


def _table(level: _Level, root: Operand, key: DType) -> Table:
    """The table of the function that leads from a value of dtype `key` to `root`; it has no name yet."""
    variable = Symbol("byte", 0, 1 if key.kind == "b" else 255)
    recording = Recording()
    value = recording.index_value(variable, uint8)
    if key is not uint8:
        value = recording.compute("cast", (value,), key, (("dtype", key),))
    source = level.sources[root]
    assert source is not None
    values: dict[Operand, Operand] = {source: value}
    for number in _slice(level, root, {}):
        match level.instructions[number]:
            case Compute(op, args, dtype, attrs):
                values[number] = recording.compute(op, tuple(values[a] for a in args), dtype, attrs)
            case Load(buffer, index, dtype):
                values[number] = recording.load(buffer, index, dtype)
            case Literalv(dtype, data):
                values[number] = recording.literal(dtype, data)
            case IndexValue(index, dtype):
                values[number] = recording.index_value(index, dtype)
    return Table("", key, _dtype(level.instructions[root]), variable, recording.body())


def _dtype(i: Instruction) -> DType:
    found: DType = i.dtype  # type: ignore[union-attr]  # an instruction with a value
    return found


def _shown(level: _Level, numbers: list[Operand], key: DType) -> str:
    found = (level.instructions[n] for n in numbers)
    ops = list(dict.fromkeys(i.op for i in found if isinstance(i, Compute)))
    return f"{'+'.join(ops[:_SHOWN_OPS])}{'+...' if len(ops) > _SHOWN_OPS else ''} of {key}"


@dataclass(slots=True)
class _Rewriting(Replay):
    """A replay in which look-ups take the places of what is in tables."""

    levels: Mapping[int, _Level] = field(default_factory=dict)

    def run(self, body: Body, handler: Handler, outer: list[Any]) -> list[Any]:
        level, values = self.levels[id(body)], outer[: body.base]
        for number, instruction in enumerate(body.instructions, body.base):
            name = level.tables.get(number)
            if name is None:
                values.append(self.step(instruction, handler, values))
            else:
                source = level.sources[number]
                assert source is not None
                values.append(handler.lookup(name, values[source], _dtype(instruction)))
        return values


@dataclass(slots=True)
class _Tabulation:
    """The tables of one kernel, while they are found."""

    kernel: Kernel
    buffers: Mapping[str, Buffer]
    tables: dict[Table, str] = field(default_factory=dict)
    decisions: list[TableDecision] = field(default_factory=list)

    def stage(self, stage: Stage) -> Stage:
        reader = _Reader(self.kernel, self.buffers)
        reader.varying.update(loop.variable for loop in stage.loops)
        reader.read(stage.body, None)
        points = product(loop.extent for loop in (*self.kernel.outer, *stage.loops))
        for level in reader.levels.values():
            if level.parent is not None:
                level.tables.update((n, t) for n, t in level.parent.tables.items() if n < level.base)
            for root in sorted(level.read):
                self.weigh(level, root, points)
        if not any(level.tables for level in reader.levels.values()):
            return stage
        recording = Recording()
        _Rewriting(levels=reader.levels).run(stage.body, recording, [])
        return replace(stage, body=without_dead(recording.body()))

    def weigh(self, level: _Level, root: Operand, points: Size) -> None:
        """Decides on the function whose value is `root`."""
        source = level.sources[root]
        if source is None or source in (_SAME, root):
            return
        numbers = _slice(level, root, level.tables)
        cost, key = _cost(level, numbers), _dtype(level.instructions[source])
        if cost <= LOOKUP_COST / 2:
            return  # a cast, a sum: not worth a word
        table = _table(level, root, key)
        outcome: Tabulate | Direct = worthwhile(cost, table.entries, points)
        if isinstance(outcome, Tabulate) and table not in self.tables:
            size = sum(t.entries * t.dtype.itemsize for t in (*self.tables, table))
            if size > TABLE_BYTES:
                outcome = Direct(f"the tables would exceed {TABLE_BYTES} bytes")
        self.decisions.append(TableDecision(self.kernel.name, _shown(level, numbers, key), outcome))
        if isinstance(outcome, Tabulate):
            level.tables[root] = self.tables.setdefault(table, f"table{len(self.tables)}")


def tabulate(kernel: Kernel, buffers: Mapping[str, Buffer]) -> tuple[Kernel, tuple[TableDecision, ...]]:
    """The kernel with expensive functions of one byte in tables."""
    found = _Tabulation(kernel, buffers)
    stages = tuple(found.stage(s) for s in kernel.stages)
    if not found.tables:
        return kernel, tuple(found.decisions)
    tables = tuple(replace(t, name=name) for t, name in found.tables.items())
    return replace(kernel, stages=stages, tables=tables), tuple(found.decisions)


# ---- and back ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Expanding(Replay):
    """A replay in which functions stand again where they are looked up."""

    tables: Mapping[str, Table] = field(default_factory=dict)

    def step(self, instruction: Instruction, h: Handler, v: list[Any]) -> Any:
        if not isinstance(instruction, Lookup):
            return Replay.step(self, instruction, h, v)
        table = self.tables[instruction.table]
        values: list[Any] = []
        for i in table.body.instructions:
            of_key = isinstance(i, IndexValue) and i.index is table.variable
            if of_key or i == Compute("cast", (0,), table.key, (("dtype", table.key),)):
                values.append(v[instruction.value])
            else:
                values.append(Replay.step(self, i, h, values))
        return values[-1]


def without_tables(kernel: Kernel) -> Kernel:
    """The kernel that computes at each point what `kernel` looks up."""
    tables = {t.name: t for t in kernel.tables}

    def expanded(stage: Stage) -> Stage:
        recording = Recording()
        _Expanding(tables=tables).run(stage.body, recording, [])
        return replace(stage, body=recording.body())

    return replace(with_stages(kernel, expanded), tables=())
