"""How a kernel reads a buffer: which of its loops moves along which axis, and how far around it looks.

What goes in: index expressions of loads. What comes out: the index along each axis of the buffer's layout, and a
`Reach`: the loop that moves along an axis, how fast, and the least and greatest distance from there.

What holds: an element that is loaded lies within the reach, or is the first or last one of the axis in place of one
that lies beyond it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from broadloom.fusion.ir import Body, Compute, IndexValue, Instruction, Load, Loop, Masked
from broadloom.records import dataclass
from broadloom.symbolic import (
    Add,
    Expr,
    Max,
    Min,
    Mul,
    Size,
    Symbol,
    coefficient,
    exact_quotient,
    free_symbols,
    ge,
    le,
    mul,
    smax,
    smin,
    substitute,
    total,
)
from broadloom.symbolic.expr import split_terms

# ---- axes -------------------------------------------------------------------------------------------------------


def along_axes(
    index: Size,
    strides: Sequence[Size],
    sizes: Sequence[Size],
    variables: Collection[Symbol],
    known: Mapping[Symbol, Size],
) -> tuple[Size, ...] | None:
    """The index along each axis, outermost first, of an element offset into a dense array; None where that is not
    proven, by the bounds of loop variables or of what is `known` of them.

    >>> i, j = Symbol("i", 0, 8), Symbol("j", 0, 7)
    >>> along_axes(10 * i + j + 12, (10, 1), (10, 10), (i, j), {})
    (i + 1, j + 2)
    """
    parts: list[list[Size]] = [[] for _ in strides]
    moving, fixed = _by_atom(index, frozenset(variables))
    for atom, times in moving.items():
        for axis, stride in enumerate(strides):
            over = exact_quotient(times, stride)
            if over is not None:
                parts[axis].append(over * atom)
                break
        else:
            return None
    known = _with_sizes(known, index, sizes)
    # The nearest multiples first: an element before the first of a row is the row's, not the last one's of another.
    for nearest in (True, False):
        shares = _shares(fixed, strides, nearest=nearest)
        if shares is None:
            return None
        found = tuple(total([*p, c]) for p, c in zip(parts, shares, strict=True))
        bounded = [(substitute(i, known), substitute(n, known)) for i, n in zip(found, sizes, strict=True)]
        if all(ge(i, 0) is True and le(i, n - 1) is True for i, n in bounded):
            return found
    return None


def _by_atom(e: Size, variables: frozenset[Symbol]) -> tuple[dict[Expr, Size], Size]:
    """A sum as factors that depend on the variables, with what each is multiplied by, and the rest."""
    moving: dict[Expr, Size] = {}
    terms, constant = _terms(e)
    fixed: list[Size] = [constant]
    for term in terms:
        factors = term.factors if isinstance(term, Mul) else (term,)
        times: Size = term.coefficient if isinstance(term, Mul) else 1
        atoms = [f for f in factors if free_symbols(f) & variables]
        if not atoms:
            fixed.append(term)
            continue
        for f in factors:
            times = times if f is atoms[0] else times * f
        moving[atoms[0]] = moving.get(atoms[0], 0) + times
    return moving, total(fixed)


def _shares(constant: Size, strides: Sequence[Size], *, nearest: bool) -> list[int] | None:
    """How many steps along each axis an offset is that no loop changes."""
    found: list[int] = []
    for stride in strides:
        times = 0
        if isinstance(constant, int) and isinstance(stride, int):
            times = (constant + (stride // 2 if nearest else 0)) // stride
        elif isinstance(constant, Expr) and isinstance(stride, Expr):
            (lead, one), *_ = split_terms(stride)[0]
            times = dict(split_terms(constant)[0]).get(lead, 0) // one
        found.append(times)
        constant = constant - stride * times
    return found if constant == 0 else None


def _with_sizes(known: Mapping[Symbol, Size], index: Size, sizes: Sequence[Size]) -> dict[Symbol, Size]:
    """What is known, and that no size is 0 where an element is read."""
    positive: dict[Symbol, Size] = {}
    for size in sizes:
        for s in free_symbols(size):
            step, rest = coefficient(size, s) or (0, 0)
            if step == 1 and isinstance(rest, int) and s.lo < 1 - rest:
                positive[s] = Symbol(s.name, 1 - rest, s.hi)
    found: dict[Symbol, Size] = {**positive, **known}
    for v in free_symbols(index):
        bounded = found.get(v, v)
        if isinstance(bounded, Symbol) and bounded.hi is not None and free_symbols(bounded.hi) & positive.keys():
            found[v] = Symbol(v.name, bounded.lo, substitute(bounded.hi, positive))
    return found


def _terms(e: Size) -> tuple[list[Expr], int]:
    if isinstance(e, int):
        return [], e
    if isinstance(e, Add):
        return [x for m, c in e.terms if isinstance(x := mul(c, m), Expr)], e.constant
    return [e], 0


# ---- reach ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reach:
    """Elements from step * variable + low to step * variable + high; a step of 0 is none of any loop."""

    variable: Symbol | None
    step: int
    low: int
    high: int

    @property
    def is_point(self) -> bool:
        return self.step == 1 and self.low == self.high == 0


Span = tuple[int, Size, Size]


def reach_of(index: Size, size: Size, variables: Collection[Symbol]) -> Reach | None:
    """How an index along an axis of `size` moves with the one of these loop variables that it depends on; None where
    it does not move evenly."""
    found = [s for s in variables if s in free_symbols(index)]
    if len(found) != 1:
        return None
    step, low, high = _span(index, size, found[0]) or (0, 0, 0)
    if step < 1 or not isinstance(low, int) or not isinstance(high, int):
        return None
    return Reach(found[0], step, low, high)


def _span(e: Size, size: Size, v: Symbol, sign: int = 1, shift: Size = 0) -> Span | None:
    """(step, low, high): e lies in step * v + [low, high], but where an end of the axis cuts off the whole index,
    sign * e + shift.

    >>> v = Symbol("v", 0, 9)
    >>> _span(smax(0, v - 1), 12, v), _span(smax(0, v - 1) + 2, 12, v)
    ((1, -1, -1), None)
    """
    split = coefficient(e, v)
    if split is not None:
        step, rest = split
        return (step, rest, rest) if isinstance(step, int) else None
    if isinstance(e, Add):
        terms, constant = _terms(e)
        moving = [t for t in terms if v in free_symbols(t)]
        rest = total([*(t for t in terms if t not in moving), constant])
        inner = _span(moving[0], size, v, sign, shift + sign * rest) if len(moving) == 1 else None
        return None if inner is None else (inner[0], inner[1] + rest, inner[2] + rest)
    if isinstance(e, Mul) and len(e.factors) == 1 and e.coefficient == -1:
        inner = _span(e.factors[0], size, v, -sign, shift)
        return None if inner is None else (-inner[0], -1 * inner[2], -1 * inner[1])
    return _extremum(e, size, v, sign, shift) if isinstance(e, Min | Max) else None


def _extremum(e: Min | Max, size: Size, v: Symbol, sign: int, shift: Size) -> Span | None:
    forward: list[Span] = []
    backward: list[Span] = []
    for o in e.operands:
        if v not in free_symbols(o):
            at = sign * o + shift
            # what is cut off lies before the first element, or behind the last
            before = isinstance(e, Max) == (sign > 0)
            if (le(at, 0) if before else ge(at, size - 1)) is not True:
                return None
            continue
        span = _span(o, size, v, sign, shift)
        if span is None:
            return None
        (forward if span[0] > 0 else backward).append(span)
    steps = {abs(s[0]) for s in (*forward, *backward)}
    if not forward or len(steps) != 1:
        return None
    step, low, high = forward[0][0], smin(*(s[1] for s in forward)), smax(*(s[2] for s in forward))
    for _, least, last in backward:  # mirrored at an end: as far behind it as the other operand lies before it
        if isinstance(e, Max):
            high = smax(high, last)
        elif v.hi is None:
            return None
        else:
            low = smin(low, least - 2 * step * v.hi)
    return step, low, high


# ---- loads ------------------------------------------------------------------------------------------------------


def points_of(loops: Sequence[Loop]) -> dict[Symbol, Size]:
    """What holds where the loops have a point at all: other variables in the place of some, with simpler bounds."""
    found: dict[Symbol, Size] = {}
    for loop in loops:
        extent = _not_empty(loop.extent)
        if extent != loop.extent:
            found[loop.variable] = Symbol(loop.variable.name, 0, extent - 1)
    return found


def _not_empty(extent: Size) -> Size:
    """What an extent is if it is 1 or more.

    >>> n = Symbol("n")
    >>> _not_empty(smax(0, smax(0, n - 2) - 4))
    n - 6
    """
    if isinstance(extent, Max):
        rest = [o for o in extent.operands if not (isinstance(o, int) and o <= 0)]
        return _not_empty(rest[0]) if len(rest) == 1 else extent
    if isinstance(extent, Add) and len(extent.terms) == 1 and extent.constant <= 0:
        (term, times), constant = extent.terms[0], extent.constant
        return _not_empty(term) + constant if times == 1 else extent
    return extent


def loads_of(body: Body, buffer: str, points: Mapping[Symbol, Size]) -> list[tuple[Load, dict[Symbol, Size]]]:
    """The loads of a buffer, those of masked bodies too, and what is known of loop variables at each, from `points` and
    from the masks around it: other variables in their place, with narrower bounds."""
    found: list[tuple[Load, dict[Symbol, Size]]] = []

    def look(body: Body, outer: Sequence[Instruction], known: dict[Symbol, Size]) -> None:
        seen = [*outer[: body.base], *body.instructions]
        for i in body.instructions:
            if isinstance(i, Load) and i.buffer == buffer:
                found.append((i, known))
            elif isinstance(i, Masked):
                look(i.body, seen, _narrowed(known, i.mask, seen))

    look(body, (), dict(points))
    return found


def _narrowed(known: dict[Symbol, Size], mask: int, seen: Sequence[Instruction]) -> dict[Symbol, Size]:
    """What is known where `mask` holds."""
    known, pending = dict(known), [mask]
    while pending:
        i = seen[pending.pop()]
        if not isinstance(i, Compute):
            continue
        if i.op == "logical_and":
            pending += i.args
            continue
        x, y = (seen[a] for a in i.args[:2]) if len(i.args) > 1 else (i, i)
        if not isinstance(x, IndexValue) or not isinstance(y, IndexValue):
            continue
        if i.op == "greater_equal":
            _narrow(known, x.index - y.index)
        elif i.op == "less":
            _narrow(known, y.index - x.index - 1)
    return known


def _narrow(known: dict[Symbol, Size], e: Size) -> None:
    """`e` is not negative."""
    for v in free_symbols(e):
        old = known.get(v, v)
        step, rest = coefficient(e, v) or (0, 0)
        if not isinstance(old, Symbol) or old.hi is None:
            continue
        if step == 1 and isinstance(rest, int):
            known[v] = Symbol(v.name, max(old.lo, -rest), old.hi)
        elif step == -1 and not free_symbols(rest) & known.keys():
            known[v] = Symbol(v.name, old.lo, smin(old.hi, rest))
