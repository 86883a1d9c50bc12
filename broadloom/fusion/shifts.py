"""Reductions that measure from an earlier reduction of the same elements, in one pass over memory.

What goes in: operations in program order, as lowering made them. What comes out: the same operations, where a split
reduction of squared distances `(x - g)**2` or of shifted exponentials `exp(x - g)` follows a split sum or maximum of
the same x: its chunks are folded by the kernel of that earlier reduction, a chunk at a time while it lies in the cache,
and one of three passes over x is left. The earlier reduction gives each chunk a shift of its own, c, near its elements;
where the chunks are put together, each is moved from c to g:

    sum (x-g)**2  = sum (x-c)**2 + d * (2 * sum (x-c) + n * d),  d = c - g      (Chan, Golub and LeVeque, 1979)
    sum exp(x-g)  = sum exp(x-c) * exp(d)                                        (Milakov and Gimelshein, 2018)

What holds: both hold whatever g is, so nothing is asked of it but to be the same for all elements; c is the mean of the
chunk, so the first has no large terms that cancel, or its maximum, so no exponential overflows. Infinities and nan give
what they give without this. Chunks do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from broadloom.dtypes import DType, bool_, float32, float64, int64
from broadloom.fusion.handlers import Recording, effects_of, facts_of, replay
from broadloom.fusion.ir import (
    Accumulated,
    Accumulator,
    Body,
    Buffer,
    Compute,
    Extern,
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
from broadloom.records import dataclass
from broadloom.symbolic import Size, Symbol, free_symbols, product, substitute

Key = tuple[object, ...]
Instead = Callable[["Substituting", Size], int]


@dataclass(frozen=True, slots=True)
class Shifted:
    """A reduction was folded with an earlier one: the operations' names, and what they have in common."""

    first: str
    second: str
    reason: str


class Substituting(Recording):
    """A recording in which loads of some buffers are something else."""

    def __init__(self, parent: Recording | None = None, instead: dict[str, Instead] | None = None) -> None:
        super().__init__(parent)
        self.instead: dict[str, Instead] = parent.instead if isinstance(parent, Substituting) else instead or {}

    def load(self, buffer: str, index: Size, dtype: DType) -> int:
        made = self.instead.get(buffer)
        return super().load(buffer, index, dtype) if made is None else made(self, index)


@dataclass(frozen=True, slots=True)
class _Partial:
    """A kernel that folds each chunk and stores the result: what it folds, and where the result goes."""

    kernel: Kernel
    fold: Body
    value: int
    accumulator: Accumulator
    buffer: str
    index: Size


@dataclass(frozen=True, slots=True)
class _Distance:
    """The folded value of a partial: `law` of x - g. `x` and `g` are operands of its body."""

    law: str  # "square" or "exp"
    x: int
    g: int


def fold_shifted(
    operations: Sequence[Kernel | Extern], buffers: Sequence[Buffer]
) -> tuple[list[Kernel | Extern], list[Buffer], list[Shifted]]:
    """The operations with shifted reductions folded into earlier ones, all buffers, and what was done."""
    found, known, done = list(operations), list(buffers), list[Shifted]()
    position = 0
    while position < len(found):
        if not _fold_one(found, known, position, done):
            position += 1
    return found, known, done


def _fold_one(found: list[Kernel | Extern], buffers: list[Buffer], position: int, done: list[Shifted]) -> bool:
    """Folds the partial at `position` into an earlier one; whether there was one."""
    later = _partial(found[position])
    distance = None if later is None else _distance(later)
    if later is None or distance is None or position + 1 == len(found):
        return False
    combine = found[position + 1]
    if not isinstance(combine, Kernel) or not _combines(combine, later):
        return False
    wanted = _key(later.fold, distance.x)
    touched: set[str] = set()
    for earlier in range(position - 1, -1, -1):
        base = _base(found[earlier], later, distance.law, wanted)
        if base is not None and not touched & facts_of(base.fold).loaded:
            break
        touched |= effects_of(found[earlier]).stored
    else:
        return False
    rest = f"{later.buffer}.rest"
    if distance.law == "square":
        model = next(b for b in buffers if b.name == later.buffer)
        buffers.append(replace(model, name=rest))
    found[earlier] = _folded(base, later, distance, rest)
    found[position + 1] = _combined(combine, base, later, distance, rest)
    del found[position]
    done.append(Shifted(base.kernel.name, later.kernel.name, _reason(base, distance)))
    return True


def _reason(base: _Partial, distance: _Distance) -> str:
    shared = ", ".join(sorted(facts_of(base.fold).loaded)) or "nothing"
    moved = "sums of squares" if distance.law == "square" else "sums of exponentials"
    return f"{shared} is read once: chunks are folded while they lie in the cache, and their {moved} shifted"


# ---- recognition ------------------------------------------------------------------------------------------------


def _partial(operation: Kernel | Extern) -> _Partial | None:
    """The operation as a partial; further stages may stand between its first fold and its stores."""
    if not isinstance(operation, Kernel) or operation.serial or len(operation.stages) < 2 or not operation.outer:
        return None
    first, last = operation.stages[0], operation.stages[-1]
    effects = [i for i in first.body.instructions if isinstance(i, Reduce)]
    if len(effects) != 1 or not first.loops or last.loops or effects[0].position is not None or first.sequential:
        return None
    if not all(isinstance(i, Load | Literalv | IndexValue | Compute | Reduce) for i in first.body.instructions):
        return None
    accumulator = operation.accumulators[0]
    for i in last.body.instructions:
        if isinstance(i, Store) and last.body.instructions[i.value] == Accumulated(accumulator.name, accumulator.dtype):
            return _Partial(operation, first.body, effects[0].value, accumulator, i.buffer, i.index)
    return None


def _base(operation: Kernel | Extern, later: _Partial, law: str, wanted: Key) -> _Partial | None:
    """The operation as a partial whose chunks are those of `later`, and tell where the elements `wanted` lie."""
    base = _partial(operation)
    if base is None or base.accumulator.kind not in {"square": ("sum",), "exp": ("max", "fmax")}[law]:
        return None
    same = base.kernel.outer == later.kernel.outer and base.kernel.stages[0].loops == later.kernel.stages[0].loops
    same = same and base.index == later.index and base.accumulator.dtype is later.accumulator.dtype
    return base if same and _key(base.fold, base.value) == wanted else None


def _distance(partial: _Partial) -> _Distance | None:
    """What is folded, as a law of a distance from something that is the same for all elements."""
    body, dtype = partial.fold, partial.accumulator.dtype
    if partial.accumulator.kind != "sum" or dtype not in (float32, float64) or len(partial.kernel.stages) != 2:
        return None
    match body.instructions[partial.value]:
        case Compute("multiply", (a, b)) if a == b:
            law, inner = "square", a
        case Compute("square" | "exp" as op, (a,)):
            law, inner = op, a
        case _:
            return None
    distance = body.instructions[inner]
    if not isinstance(distance, Compute) or distance.op != "subtract" or distance.dtype is not dtype:
        return None
    x, g = distance.args
    if law == "square" and _is_common(partial, x):  # the square of g - x is that of x - g
        x, g = g, x
    common = _is_common(partial, g) and not _is_common(partial, x)
    return _Distance(law, x, g) if common else None


def _is_common(partial: _Partial, operand: int) -> bool:
    """Whether a value is the same for all elements that end in one result."""
    varying = {loop.variable for loop in (*partial.kernel.stages[0].loops, partial.kernel.outer[-1])}
    for number in _needed(partial.fold, operand):
        match partial.fold.instructions[number]:
            case Load(_, index, _) | IndexValue(index, _):
                if varying & free_symbols(index):
                    return False
            case Compute() | Literalv():
                continue
            case _:
                return False
    return True


def _needed(body: Body, operand: int) -> list[int]:
    """The instructions that a value needs, in order."""
    found, pending = set[int](), [operand]
    while pending:
        number = pending.pop()
        if number not in found:
            found.add(number)
            i = body.instructions[number]
            pending += i.args if isinstance(i, Compute) else ()
    return sorted(found)


def _key(body: Body, operand: int) -> Key:
    """What a value is, independent of its place in a body."""
    keys: dict[int, Key] = {}
    for number in _needed(body, operand):
        i = body.instructions[number]
        keys[number] = (i.op, i.dtype, i.attrs, *(keys[a] for a in i.args)) if isinstance(i, Compute) else (i,)
    return keys[operand]


def _combines(kernel: Kernel, partial: _Partial) -> bool:
    """Whether a kernel adds up the partial sums, over the loops that they were made over."""
    if not kernel.stages or len(kernel.accumulators) != 1 or kernel.outer != partial.kernel.outer[:-1]:
        return False
    loads = [i for i in kernel.stages[0].body.instructions if isinstance(i, Load)]
    if [i.buffer for i in loads] != [partial.buffer] or len(kernel.stages[0].loops) > 1:
        return False
    return loads[0].index == substitute(partial.index, {partial.kernel.outer[-1].variable: _chunk(kernel)})


def _chunk(combine: Kernel) -> Size:
    """The number of the chunk in the kernel that combines them."""
    loops = combine.stages[0].loops
    return loops[0].variable if loops else 0


# ---- the new operations -------------------------------------------------------------------------------------------


def _folded(base: _Partial, later: _Partial, distance: _Distance, rest: str) -> Kernel:
    """The base's kernel, which folds the distances from the chunk's own shift too."""
    loops, dtype = base.kernel.stages[0].loops, base.accumulator.dtype
    total = later.accumulator
    linear = replace(total, name=f"{total.name}.rest")
    fold, store = Recording(), Recording()
    x = replay(_slice(later.fold, distance.x), fold)[-1]
    shift = _shift(fold, fold.accumulated(base.accumulator.name, dtype), distance.law, loops, dtype)
    d = fold.compute("subtract", (x, shift), dtype)
    replay(base.kernel.stages[-1].body, store)
    store.store(later.buffer, later.index, store.accumulated(total.name, dtype))
    made: tuple[Accumulator, ...] = (total,)
    if distance.law == "square":
        made = (total, linear)
        fold.reduce(linear.name, d)
        fold.reduce(total.name, fold.compute("multiply", (d, d), dtype))
        store.store(rest, later.index, store.accumulated(linear.name, dtype))
    else:
        fold.reduce(total.name, fold.compute("exp", (d,), dtype))
    stages = (*base.kernel.stages[:-1], Stage(loops, fold.body()), Stage((), store.body()))
    return replace(
        base.kernel,
        stages=stages,
        accumulators=(*base.kernel.accumulators, *made),
        origins=(*base.kernel.origins, *later.kernel.origins),
    )


def _combined(combine: Kernel, base: _Partial, later: _Partial, distance: _Distance, rest: str) -> Kernel:
    """The kernel that adds the partial sums, each moved from its own shift to the common one."""
    dtype, chunk = base.accumulator.dtype, base.kernel.outer[-1].variable
    here: dict[Symbol, Size] = {chunk: _chunk(combine)}
    loops = [Loop(x.variable, substitute(x.extent, here)) for x in base.kernel.stages[0].loops]

    def moved(ops: Substituting, index: Size) -> int:
        c = _shift(ops, ops.load(base.buffer, index, dtype), distance.law, loops, dtype)
        g = replay(_slice(later.fold, distance.g), ops)[-1]
        d = ops.compute("subtract", (c, g), dtype)
        total = Recording.load(ops, later.buffer, index, dtype)
        if distance.law == "exp":
            return _moved_exp(ops, total, d, g, dtype)
        n = _count(ops, loops, dtype)
        twice = ops.load(rest, index, dtype)
        twice = ops.compute("add", (twice, twice), dtype)
        inner = ops.compute("add", (twice, ops.compute("multiply", (n, d), dtype)), dtype)
        usual = ops.compute("add", (total, ops.compute("multiply", (d, inner), dtype)), dtype)
        # both infinite: the mean has overflowed, and the chunk was measured from where it should be
        return ops.compute("where", (ops.compute("equal", (c, g), bool_), total, usual), dtype)

    recording = Substituting(instead={later.buffer: moved})
    replay(combine.stages[0].body, recording)
    first = replace(combine.stages[0], body=recording.body())
    return replace(combine, stages=(first, *combine.stages[1:]))


def _moved_exp(ops: Recording, total: int, d: int, g: int, dtype: DType) -> int:
    """A sum of exponentials times exp(d). One of 0 or infinity comes from elements that are infinite: they are moved
    themselves, since the product of 0 and infinity is none."""
    zero, most = _literal(ops, 0.0, dtype), _literal(ops, np.inf, dtype)
    none = ops.compute("equal", (total, zero), bool_)
    infinite = ops.compute("equal", (total, most), bool_)
    element = ops.compute("where", (none, _literal(ops, -np.inf, dtype), most), dtype)
    from_infinity = ops.compute("exp", (ops.compute("subtract", (element, g), dtype),), dtype)
    usual = ops.compute("multiply", (total, ops.compute("exp", (d,), dtype)), dtype)
    return ops.compute("where", (ops.compute("logical_or", (none, infinite), bool_), from_infinity, usual), dtype)


def _shift(ops: Recording, base: int, law: str, loops: Sequence[Loop], dtype: DType) -> int:
    """The shift of a chunk from its sum or maximum: the mean; the maximum if it is finite, else 0."""
    if law == "square":
        return ops.compute("divide", (base, _count(ops, loops, dtype)), dtype)
    finite = ops.compute("isfinite", (base,), bool_)
    return ops.compute("where", (finite, base, _literal(ops, 0.0, dtype)), dtype)


def _count(ops: Recording, loops: Sequence[Loop], dtype: DType) -> int:
    """How many elements a chunk has."""
    count = ops.index_value(product(loop.extent for loop in loops), int64)
    return ops.compute("cast", (count,), dtype, (("dtype", dtype),))


def _literal(ops: Recording, value: float, dtype: DType) -> int:
    return ops.literal(dtype, np.array(value, dtype.numpy).tobytes())


def _slice(body: Body, operand: int) -> Body:
    """The instructions that a value needs; it is the last."""
    order = _needed(body, operand)
    place = {number: k for k, number in enumerate(order)}

    def moved(i: Instruction) -> Instruction:
        return replace(i, args=tuple(place[a] for a in i.args)) if isinstance(i, Compute) else i

    return Body(tuple(moved(body.instructions[n]) for n in order))
