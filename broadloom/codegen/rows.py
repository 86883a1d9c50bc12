"""Which loops run in vectors of our own making, and how many elements a step takes.

What goes in: a stage of a kernel, or a kernel without inner loops, and the enabled features of the target. What comes
out: a `Row`, or None where LLVM's vectoriser is left to find the vectors itself: it copes with gathers, tables, checks
and complex numbers, but not with steps that only the call knows.

What holds: the answer is a pure function of the stage and the target, so a row adds up in the same order in every range
of points and on any number of threads. A step takes as many registers as keep the sums of a light body from waiting for
each other, fewer where the row is short; what is left at the end of a row is one step under a mask, where the target
has masks for all elements, and a loop of scalars elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broadloom.codegen.memory import has_masks
from broadloom.codegen.outline import vector_bits
from broadloom.dtypes import float32, uint8
from broadloom.fusion.cost import body_cost
from broadloom.fusion.handlers import accesses
from broadloom.fusion.ir import (
    Accumulated,
    Accumulator,
    Body,
    Compute,
    IndexValue,
    Instruction,
    Kernel,
    Literalv,
    Load,
    Loop,
    Reduce,
    Stage,
    Store,
)
from broadloom.fusion.vectors import is_near, stride
from broadloom.records import dataclass
from broadloom.symbolic import Symbol

REGISTERS = 4  # in a step
HEAVY = 0.6  # cost units of a body from where on two do, where the target has 16 registers in all
LONG = 1.5  # from where on masks cost next to nothing beside a body, and a copy of it for whole vectors much time
LIGHT = 0.5  # cost units of a body without sums up to which a step takes several registers
SUMS = 0.5  # of all registers, the share that may hold sums
WASTE = 1.15  # times the fewest registers that a row may take
LEAST = 4  # elements of a step
MOVES = 512  # elements that a step moves one by one
SHORTEST = 4  # elements of a row that vectors are made for

_DIVISIONS = ("floor_divide", "remainder", "fmod", "gcd")  # of integers, which have no vectors for it
_KINDS = ("sum", "prod", "max", "min")


@dataclass(frozen=True, slots=True)
class Row:
    """A step takes `count` elements of the loop over `variable`; what is left, with `masked`, is taken in steps of
    `rest` at most, which with `once` the whole loop is."""

    variable: Symbol
    count: int
    masked: bool
    rest: int
    once: bool = False


def row_of(
    stage: Stage, accumulators: Mapping[str, Accumulator], features: frozenset[str], *, few: bool = False
) -> Row | None:
    """How a stage runs in vectors along its innermost loop; None where it does not. With `few` the code is to be short,
    not fast: there is next to nothing to do."""
    if not stage.loops or stage.sequential:
        return None
    loop = stage.loops[-1]
    instructions = stage.body.instructions
    if isinstance(loop.extent, int) and loop.extent < SHORTEST:
        return None
    if not _are_plain(instructions, loop.variable, accumulators):
        return None
    if not _is_even(instructions, loop.variable) and not _is_in_step([stage.body]):
        return None
    if not any(isinstance(i, Store | Reduce) for i in instructions):
        return None
    lanes = _lanes(instructions, accumulators, features)
    extent = loop.extent if isinstance(loop.extent, int) else None
    apart = _apart(instructions, loop.variable)
    if not lanes or not _pays(apart, extent, lanes):
        return None
    count = lanes * (1 if few or apart else _registers(extent, lanes, _most(stage, features)))
    masked = has_masks(features)
    while not masked and extent is not None and count > max(extent, lanes):
        count //= 2
    count = max(LEAST, count)
    return Row(loop.variable, count, masked, count, few)


def search_of(stage: Stage, accumulator: Accumulator, features: frozenset[str]) -> Row | None:
    """How the extremum of a stage that folds nothing else is looked for in vectors; None where it is not."""
    dtype = uint8 if accumulator.value_dtype.kind == "b" else accumulator.value_dtype
    return row_of(stage, {accumulator.name: Accumulator(accumulator.name, "max", dtype, dtype)}, features)


def points_of(kernel: Kernel, features: frozenset[str], *, tiled: bool = False) -> Row | None:
    """How a kernel without inner loops runs in vectors along its last outer loop; None where it does not. Nothing is
    carried from one vector to the next, so the last ones may be narrower: of one register. Rows of several, side by
    side, are left to LLVM, which makes stencils over them run a tenth faster."""
    loop = kernel.outer[-1]
    bodies = [s.body for s in kernel.stages]
    instructions = [i for body in bodies for i in body.instructions]
    accumulators = {a.name: a for a in kernel.accumulators}
    if kernel.serial or (accumulators and not has_masks(features)):
        return None  # where scalars take what is left, their sums may be in another order
    if len(kernel.outer) > 1 and not tiled and _is_even(instructions, loop.variable):
        return None
    if isinstance(loop.extent, int) and loop.extent < SHORTEST:
        return None
    if not _are_plain(instructions, loop.variable, accumulators) or not _is_in_step(bodies):
        return None
    lanes = _lanes(instructions, accumulators, features)
    extent = loop.extent if isinstance(loop.extent, int) else None
    apart = _apart(instructions, loop.variable)
    if not lanes or not _pays(apart, extent, lanes) or not any(isinstance(i, Store) for i in instructions):
        return None
    cost = sum(map(body_cost, bodies))
    power = any(isinstance(i, Compute) and i.op == "pow" and i.dtype is float32 for i in instructions)
    most = 1 if apart else REGISTERS if cost < LIGHT else 2 if power or accumulators else 1
    count = lanes * _registers(extent, lanes, most)
    count, rest = max(LEAST, count), max(LEAST, lanes)
    return Row(loop.variable, count, has_masks(features), rest, cost > LONG and count == rest and not apart)


def beside_of(
    stage: Stage, column: Loop, accumulators: Mapping[str, Accumulator], features: frozenset[str]
) -> Row | None:
    """How a stage of a kernel that runs in columns takes these side by side in vectors; None where it does not."""
    instructions = stage.body.instructions
    if not _is_even(instructions, column.variable) or not _are_plain(instructions, column.variable, accumulators):
        return None
    if not any(isinstance(i, Store | Reduce) for i in instructions):
        return None
    read = [max(4, i.dtype.itemsize) for i in instructions if isinstance(i, Accumulated)]
    widest = max((*read, *(_bytes(i, accumulators) for i in instructions)))
    if widest == 0:
        return None
    lanes, cost = vector_bits(features) // 8 // widest, body_cost(stage.body)
    few = isinstance(column.extent, int) and column.extent <= lanes * REGISTERS
    most = REGISTERS if cost < LIGHT or (few and cost <= LONG) else 2 if cost <= LONG else 1
    return Row(column.variable, _side_by_side(column, lanes, most), has_masks(features), max(LEAST, lanes))


def accumulators_of(column: Loop, accumulators: Sequence[Accumulator], features: frozenset[str]) -> int:
    """How many columns a step over their accumulators takes."""
    lanes = vector_bits(features) // 8 // max((max(4, a.dtype.real.itemsize) for a in accumulators), default=4)
    return _side_by_side(column, lanes, REGISTERS)


def _side_by_side(column: Loop, lanes: int, most: int) -> int:
    """Columns of a step of at most so many registers: all of them if it may, so that sums stay in registers."""
    extent = column.extent
    while isinstance(extent, int) and most > 1 and extent <= lanes * most // 2:
        most //= 2
    return max(LEAST, lanes * most)


def _is_in_step(bodies: Sequence[Body]) -> bool:
    """Whether a point reads no element that another one writes."""
    found = [a for body in bodies for a in accesses(body)]
    written = {a.buffer: a.index for a in found if a.mode != "load"}
    return all(written.get(a.buffer, a.index) == a.index for a in found)


def _moves(instructions: Sequence[Instruction]) -> list[Load | Store]:
    return [i for i in instructions if isinstance(i, Load | Store)]


def _is_even(instructions: Sequence[Instruction], variable: Symbol) -> bool:
    """Whether all that is loaded and stored lies side by side, or is the same."""
    return all(stride(i.index, variable) in (0, 1) for i in _moves(instructions))


def _apart(instructions: Sequence[Instruction], variable: Symbol) -> int:
    """How many instructions load or store elements one by one, which makes long code."""
    return sum(
        not is_near(stride(i.index, variable), i.dtype if isinstance(i, Load) else float32)
        for i in _moves(instructions)
    )


def _pays(apart: int, extent: int | None, lanes: int) -> bool:
    """Whether vectors of elements that are moved one by one are worth their code: those that are not there are moved as
    well."""
    return apart == 0 or (apart * lanes <= MOVES and (extent is None or extent >= lanes))


def _lanes(
    instructions: Sequence[Instruction], accumulators: Mapping[str, Accumulator], features: frozenset[str]
) -> int:
    """How many elements of the widest type a register holds; 0 where there are none. What fills memory with one number
    has but that."""
    widest = max((_bytes(i, accumulators) for i in instructions), default=0)
    if all(isinstance(i, Literalv | Store) for i in instructions):
        widest = max((i.dtype.itemsize for i in instructions if isinstance(i, Literalv)), default=0)
    return vector_bits(features) // 8 // widest if widest else 0


def _most(stage: Stage, features: frozenset[str]) -> int:
    """Registers of the widest type that a step of the stage may take."""
    all_of_them = 32 if "avx512f" in features or "neon" in features else 16
    sums = sum(isinstance(i, Reduce) for i in stage.body.instructions)
    most = 2 if body_cost(stage.body) > HEAVY and all_of_them == 16 else REGISTERS
    while most > 1 and sums * most > all_of_them * SUMS:
        most //= 2
    return most


def _registers(extent: int | None, lanes: int, most: int) -> int:
    """Registers of the widest type in a step."""
    if extent is None:
        return most
    fewest = -(-extent // lanes)
    while most > 1 and -(-extent // (most * lanes)) * most > fewest * WASTE:
        most //= 2
    return most


def _are_plain(instructions: Sequence[Instruction], variable: Symbol, accumulators: Mapping[str, Accumulator]) -> bool:
    """Whether instructions work on vectors of elements that lie a step apart."""
    known = all(isinstance(stride(i.index, variable), int) for i in _moves(instructions))
    return all(_is_plain(i, variable, accumulators, known=known) for i in instructions)


def _is_plain(i: Instruction, variable: Symbol, accumulators: Mapping[str, Accumulator], *, known: bool) -> bool:
    """Whether an instruction works on a vector of elements. Where all steps are `known`, LLVM finds the vectors of
    complex numbers and of divisions; else it finds none."""
    match i:
        case Load(_, index, dtype):
            return (not known or dtype.kind != "c") and stride(index, variable) is not None
        case Store(_, index, _, mode):
            return mode == "set" and stride(index, variable) not in (None, 0)
        case IndexValue(index, _):
            return isinstance(stride(index, variable), int)
        case Compute(op, _, dtype, _):
            scalar = op.startswith(("random_", "philox"))
            return not scalar and (not known or (dtype.kind != "c" and (dtype.kind == "f" or op not in _DIVISIONS)))
        case Literalv(dtype, _) | Accumulated(_, dtype):
            return not known or dtype.kind != "c"
        case Reduce(name, _, position):
            a = accumulators[name]
            kinds = "iufc" if not known and a.kind == "sum" else "iuf"
            return position is None and a.kind in _KINDS and a.dtype.kind in kinds and a.value_dtype.kind in kinds + "b"
    return False


def _bytes(i: Instruction, accumulators: Mapping[str, Accumulator]) -> int:
    """Bytes of the element that an instruction works on; 16-bit floats are computed in 32 bits."""
    match i:
        case Load(_, _, dtype):
            return dtype.real.itemsize
        case Compute(_, _, dtype, _):
            return 4 if dtype.kind == "f" and dtype.bits == 16 else dtype.real.itemsize
        case IndexValue():
            return 8
        case Reduce(name):
            return max(4, accumulators[name].dtype.real.itemsize)
    return 0
