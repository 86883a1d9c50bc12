"""Borders: a loop whose first and last iterations differ from all others is run in parts, so that those in between
test nothing.

What goes in: a sorted kernel of one body, in whose index expressions a minimum, a maximum or a remainder (an array
continued beyond its edges), or whose tests of an index (an array padded with a constant), come out the same for all
but a few values of a loop variable. What comes out: the same kernel with that loop and those inside of it as loops of
two stages, one for the interior, where all of this is settled, and one for the border, where it stays.

What holds: every point is computed once, by the same arithmetic. A minimum over a variable of an outer loop stays: it
is found once a row. A test of one settles which of the stages takes the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from broadloom.dtypes import DType, bool_
from broadloom.fusion.handlers import Recording, facts_of, index_of, replay, without_dead
from broadloom.fusion.ir import Body, Compute, IndexValue, Instruction, Kernel, Literalv, Loop, Stage
from broadloom.records import dataclass
from broadloom.symbolic import (
    Expr,
    Max,
    Min,
    Mod,
    Relation,
    Size,
    Symbol,
    coefficient,
    floordiv,
    free_symbols,
    ge,
    gt,
    le,
    lt,
    mul,
    product,
    smax,
    smin,
)

THIN = 16  # a border is thin when it holds at most one in so many values of its loop,
SYMBOLIC_BORDER = 64  # or, where the extent is symbolic, at most so many at either end
FEW_POINTS = 1 << 14  # of a kernel that stays as it is: two loops would take longer to compile than they save
MANY_ROWS = 64  # outer points that keep the threads busy when a row is one of them
STRIP = 8192  # points of a row that is cut into strips, for the want of rows

_TESTS: dict[str, Callable[[Size, Size], Relation | bool]] = {
    "greater_equal": ge,
    "greater": gt,
    "less_equal": le,
    "less": lt,
}
_OFFSETS = {"greater_equal": 0, "less": 0, "greater": 1, "less_equal": 1}  # where x - y is at the turn


@dataclass(frozen=True, slots=True)
class Interior:
    """The values of a loop variable from `low` up to `high`, not included, for which nothing is left to test."""

    low: int
    high: Size


# ---- where things turn ------------------------------------------------------------------------------------------


def _parts(e: Size, seen: set[Size]) -> Iterator[Expr]:
    if isinstance(e, Expr) and e not in seen:
        seen.add(e)
        yield e
        for part in e.args:
            yield from _parts(part, seen)


def _index_turns(body: Body) -> Iterator[Size]:
    """Expressions that are 0 or more on one side of where an index expression turns."""
    seen: set[Size] = set()
    for i in facts_of(body).instructions:
        index = None if isinstance(i, IndexValue) else index_of(i)
        for e in _parts(0 if index is None else index, seen):
            if isinstance(e, Min | Max):
                found = _leaves(e)
                yield from (x - y for k, x in enumerate(found) for y in found[:k])
            elif isinstance(e, Mod):
                yield from (e.dividend, e.dividend - e.divisor)


def _leaves(e: Size) -> list[Size]:
    """What an extremum of extrema chooses from."""
    return [x for o in e.operands for x in _leaves(o)] if isinstance(e, Min | Max) else [e]


def _test_turns(body: Body) -> Iterator[Size]:
    """The same of tests of an index."""
    for level in _levels(body, ()):
        for i in level:
            if isinstance(i, Compute) and i.op in _OFFSETS:
                x, y = (level[a] for a in i.args)
                if isinstance(x, IndexValue) and isinstance(y, IndexValue):
                    yield x.index - y.index - _OFFSETS[i.op]


def _levels(body: Body, outer: tuple[Instruction, ...]) -> Iterator[tuple[Instruction, ...]]:
    """The instructions that a body sees, by operand, for it and those masked in it."""
    seen = (*outer[: body.base], *body.instructions)
    yield seen
    for i in body.instructions:
        masked = getattr(i, "body", None)
        if isinstance(masked, Body):
            yield from _levels(masked, seen)


def interior(turns: Sequence[Size], loop: Loop, varying: frozenset[Symbol]) -> Interior | None:
    """The interior of a loop whose border is thin; None where nothing turns near its ends."""
    n: Size = loop.extent
    low: Size = 0
    high = n
    for turn in turns:
        step, rest = coefficient(turn, loop.variable) or (0, 0)
        if not isinstance(step, int) or step == 0 or free_symbols(rest) & varying:
            continue
        at = mul(-1, floordiv(rest, step)) if step > 0 else floordiv(rest, -step) + 1
        if is_thin(at, n):
            low = smax(low, at)
        elif is_thin(n - at, n):
            high = smin(high, at)
    assert isinstance(low, int)  # thin borders have constant widths
    return None if (low, high) == (0, n) else Interior(low, high)


def is_thin(width: Size, n: Size) -> bool:
    """Whether `width` values of a loop of `n` are few enough to be run apart from the rest."""
    return (
        isinstance(width, int)
        and width > 0
        and (width * 2 * THIN <= n if isinstance(n, int) else width <= SYMBOLIC_BORDER)
    )


# ---- what is settled in the interior ----------------------------------------------------------------------------


class Settling(Recording):
    """A recording in which tests of an index that bounds decide are constants, and what depends on them is chosen."""

    def _instruction(self, operand: int) -> Instruction | None:
        level: Recording | None = self
        while level is not None and operand < level.base:
            level = level.parent
        return None if level is None else level.instructions[operand - level.base]

    def _truth(self, operand: int) -> bool | None:
        i = self._instruction(operand)
        return bool(i.data[0]) if isinstance(i, Literalv) and i.dtype is bool_ else None

    def compute(self, op: str, args: tuple[int, ...], dtype: DType, attrs: tuple[tuple[str, object], ...] = ()) -> int:
        if op in _TESTS:
            x, y = map(self._instruction, args)
            if isinstance(x, IndexValue) and isinstance(y, IndexValue):
                answer = _TESTS[op](x.index, y.index)
                if isinstance(answer, bool):
                    return self.literal(bool_, bytes([answer]))
        elif op == "logical_and" and dtype is bool_:
            for one, other in (args, args[::-1]):
                truth = self._truth(one)
                if truth is not None:
                    return other if truth else one
        return super().compute(op, args, dtype, attrs)

    def masked(self, mask: int, inner: Callable[[Any], int], other: int, dtype: DType) -> int:
        truth = self._truth(mask)
        if truth is None:
            return super().masked(mask, inner, other, dtype)
        return inner(self) if truth else other


def _settled(body: Body, interiors: Mapping[Symbol, Interior]) -> tuple[Body, dict[Symbol, Symbol]]:
    """The body where the variables lie in these interiors, and the narrower variables that it is written in."""
    narrow = {v: Symbol(v.name, x.low, x.high - 1) for v, x in interiors.items()}
    recording = Settling()
    replay(body, recording, symbols=narrow)
    return without_dead(recording.body()), narrow


def _moved(body: Body, values: Mapping[Symbol, Size]) -> Body:
    recording = Recording()
    replay(body, recording, symbols=values)
    return recording.body()


# ---- stages -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Borders:
    """What is known of a kernel's borders: the interior of the loop that is split, if it has any, and those of loops
    around it whose variables are tested."""

    own: Interior | None
    rows: Mapping[Symbol, Interior]


def stages_over(
    body: Body, loop: Loop, start: Size, end: Size, inner: tuple[Loop, ...], borders: Borders
) -> tuple[Stage, ...]:
    """The stages that run `body` for the values [start, end) of `loop` and all of the `inner` loops."""
    v = loop.variable
    if borders.own is None and not borders.rows:
        return (_stage(body, v, start, end - start, inner),)
    own = borders.own or Interior(0, loop.extent)
    low = smin(smax(own.low, start), end)
    high = smax(low, smin(own.high, end))
    inside = product(_indicator(y, x) for y, x in borders.rows.items())
    low, high = end - (end - low) * inside, end - (end - high) * inside
    settled, narrow = _settled(body, {**borders.rows, v: own})
    back = {narrow[y]: y for y in borders.rows}
    found = [_stage(settled, narrow[v], low, high - low, inner, back)]
    left, right = low - start, end - high
    if left + right != 0:
        t = _counter(v, left + right)
        past = smin(1, smax(0, t - left + 1))
        value = start + t + (high - low) * past if right != 0 else start + t
        found.append(Stage((Loop(t, left + right), *inner), _moved(body, {v: value}), border=True))
    return tuple(found)


def _counter(v: Symbol, extent: Size) -> Symbol:
    return Symbol(v.name, 0, max(extent - 1, 0) if isinstance(extent, int) else extent - 1)


def _stage(
    body: Body,
    v: Symbol,
    start: Size,
    extent: Size,
    inner: tuple[Loop, ...],
    others: Mapping[Symbol, Size] | None = None,
) -> Stage:
    t = _counter(v, extent)
    return Stage((Loop(t, extent), *inner), _moved(body, {**(others or {}), v: start + t}))


def _indicator(y: Symbol, x: Interior) -> Size:
    """1 for values of `y` in its interior, else 0."""
    return smax(0, smin(1, y - x.low + 1, x.high - y))


# ---- kernels ----------------------------------------------------------------------------------------------------


def borders_of(body: Body, loops: Sequence[Loop], split: int) -> Borders:
    """The borders of a body in which loop number `split`, and those behind it, are to be loops of a stage."""
    varying = frozenset(loop.variable for loop in loops)
    tests = tuple(_test_turns(body))
    rows = {loop.variable: x for loop in loops[:split] if (x := interior(tests, loop, varying)) is not None}
    return Borders(interior((*_index_turns(body), *tests), loops[split], varying), rows)


def peel(kernel: Kernel) -> Kernel:
    """The kernel with borders of its own, if it has any worth it."""
    loops = kernel.outer
    if len(kernel.stages) != 1 or kernel.stages[0].loops or kernel.accumulators or kernel.serial or not loops:
        return kernel
    points, body = product(loop.extent for loop in loops), kernel.stages[0].body
    if (isinstance(points, int) and points < FEW_POINTS) or facts_of(body).raises:
        return kernel
    split = _split_loop(body, loops)
    if split is None:
        return kernel
    borders, inner = borders_of(body, loops, split), loops[split + 1 :]
    if borders.own is None and not borders.rows:
        return kernel
    rows, loop = product(x.extent for x in loops[:split]), loops[split]
    width = _strip(rows, loop, inner)
    if width is None:
        return replace(kernel, outer=loops[:split], stages=stages_over(body, loop, 0, loop.extent, inner, borders))
    strips = (loop.extent + width - 1) // width
    strip = Symbol(f"strip_{loop.variable.name}", 0, strips - 1)
    start = strip * width
    stages = stages_over(body, loop, start, smin(loop.extent, start + width), inner, borders)
    return replace(kernel, outer=(*loops[:split], Loop(strip, strips)), stages=stages)


def _split_loop(body: Body, loops: Sequence[Loop]) -> int | None:
    """The innermost loop with a border; the one behind it, where that is the first of several."""
    varying = frozenset(loop.variable for loop in loops)
    turns = (*_index_turns(body), *_test_turns(body))
    if not turns:
        return None
    for k in range(len(loops) - 1, -1, -1):
        if interior(turns, loops[k], varying) is not None:
            return 1 if k == 0 and len(loops) > 1 else k
    return None


def _strip(rows: Size, loop: Loop, inner: Sequence[Loop]) -> int | None:
    """How many values of the split loop are one strip; None where whole rows are points enough."""
    each = product(x.extent for x in inner)
    if not isinstance(rows, int) or rows >= MANY_ROWS:
        return None
    if isinstance(loop.extent, int) and isinstance(each, int) and loop.extent * each <= STRIP:
        return None
    return max(1, STRIP // each) if isinstance(each, int) and each > 0 else STRIP
