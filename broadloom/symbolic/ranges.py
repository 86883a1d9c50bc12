"""Bounds: the interval of an expression, and proofs that an expression is never negative.

What goes in: a `Size`. What comes out: a `Range` of ints (None: unbounded), or a yes that is a proof.

What holds: every value that the expression can take, for any values of its symbols within their bounds, lies in the
range. "Not proven" says nothing. A symbol whose upper bound is an expression (a loop variable below a symbolic
extent) is eliminated by that bound, so ``i < n`` is proven for i in [0, n - 1] whatever n is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from broadloom.symbolic import simplify, walk
from broadloom.symbolic.expr import (
    Add,
    Expr,
    FloorDiv,
    Max,
    Min,
    Mod,
    Mul,
    Size,
    Symbol,
    _set,
    add,
    factors_of,
    from_terms,
    monomial_of,
    mul,
    remember,
    split_terms,
    sub,
)


class Range(NamedTuple):
    """The interval ``[lo, hi]``, both inclusive; None is unbounded on that side.

    >>> 3 in Range(0, None)
    True
    """

    lo: int | None
    hi: int | None

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, int):
            return False
        return (self.lo is None or self.lo <= value) and (self.hi is None or value <= self.hi)


UNBOUNDED = Range(None, None)


def range_of(e: Size) -> Range:
    """The interval that holds every value of `e`.

    >>> i = Symbol("i", 0, 7)
    >>> range_of(2 * i - 3)
    Range(lo=-3, hi=11)
    """
    if not isinstance(e, Expr):
        return Range(e, e)
    if e._range is None:
        _set(e, "_range", _compute(e))
    result: Range = e._range
    return result


def _compute(e: Expr) -> Range:
    if isinstance(e, Symbol):
        return Range(e.lo, None if e.hi is None else range_of(e.hi).hi)
    return combined(e, range_of)


def combined(e: Expr, range_of: Callable[[Size], Range]) -> Range:
    """The interval of an expression other than a symbol, from those of its parts."""
    if isinstance(e, Add):
        lo: int | None = e.constant
        hi: int | None = e.constant
        for monomial, coefficient in e.terms:
            part = _scale(range_of(monomial), coefficient)
            lo = None if lo is None or part.lo is None else lo + part.lo
            hi = None if hi is None or part.hi is None else hi + part.hi
        return Range(lo, hi)
    if isinstance(e, Mul):
        return _scale(_product_range(e.factors, range_of), e.coefficient)
    if isinstance(e, FloorDiv):
        return _quotient_range(range_of(e.dividend), range_of(e.divisor))
    if isinstance(e, Mod):
        return _remainder_range(range_of(e.dividend), range_of(e.divisor))
    parts = [range_of(o) for o in e.args]
    los, his = [p.lo for p in parts], [p.hi for p in parts]
    if isinstance(e, Min):
        return Range(_all(min, los), _some(min, his))
    return Range(_some(max, los), _all(max, his))


def _all(choose: Callable[[list[int]], int], bounds: list[int | None]) -> int | None:
    known = [b for b in bounds if b is not None]
    return choose(known) if len(known) == len(bounds) else None


def _some(choose: Callable[[list[int]], int], bounds: list[int | None]) -> int | None:
    known = [b for b in bounds if b is not None]
    return choose(known) if known else None


def _scale(r: Range, k: int) -> Range:
    lo = None if r.lo is None else r.lo * k
    hi = None if r.hi is None else r.hi * k
    return Range(lo, hi) if k >= 0 else Range(hi, lo)


def _product_range(factors: tuple[Expr, ...], range_of: Callable[[Size], Range]) -> Range:
    result = Range(1, 1)
    k = 0
    while k < len(factors):
        power = 1
        while k + power < len(factors) and factors[k + power] is factors[k]:
            power += 1
        result = _times(result, _power(range_of(factors[k]), power))
        k += power
    return result


def _power(r: Range, power: int) -> Range:
    if power % 2 or (r.lo is not None and r.lo >= 0):
        return Range(None if r.lo is None else r.lo**power, None if r.hi is None else r.hi**power)
    if r.hi is not None and r.hi <= 0:
        return Range(r.hi**power, None if r.lo is None else r.lo**power)
    return Range(0, None if r.lo is None or r.hi is None else max(r.lo**power, r.hi**power))


def _times(a: Range, b: Range) -> Range:
    if a.lo is not None and b.lo is not None and a.lo >= 0 and b.lo >= 0:
        if a.hi == 0 or b.hi == 0:
            return Range(0, 0)
        return Range(a.lo * b.lo, None if a.hi is None or b.hi is None else a.hi * b.hi)
    if a == (0, 0) or b == (0, 0):
        return Range(0, 0)
    if a.lo is None or a.hi is None or b.lo is None or b.hi is None:
        return _times_unbounded(a, b)
    corners = [x * y for x in a for y in b if x is not None and y is not None]
    return Range(min(corners), max(corners))


def _times_unbounded(a: Range, b: Range) -> Range:
    """Signs decide what is left: infinity times a bound of one sign stays on that side."""
    infinity = float("inf")
    xs = (-infinity if a.lo is None else a.lo, infinity if a.hi is None else a.hi)
    ys = (-infinity if b.lo is None else b.lo, infinity if b.hi is None else b.hi)
    corners = [0 if x == 0 or y == 0 else _signed(x, y) for x in xs for y in ys]
    lo, hi = min(corners), max(corners)
    return Range(None if isinstance(lo, float) else lo, None if isinstance(hi, float) else hi)


def _signed(x: float, y: float) -> float:
    if isinstance(x, int) and isinstance(y, int):
        return x * y  # exact, never through a float
    return float("inf") if (x > 0) == (y > 0) else -float("inf")


def _quotient_range(n: Range, d: Range) -> Range:
    if d.lo is None or d.lo < 0:
        if n.lo is None or n.hi is None:
            return UNBOUNDED
        size = max(abs(n.lo), abs(n.hi))
        return Range(-size, size)
    least = max(d.lo, 1)  # a divisor of 0 has no quotient
    lo = hi = None
    if n.lo is not None:
        if n.lo < 0:
            lo = n.lo // least
        else:
            lo = 0 if d.hi is None else n.lo // max(d.hi, 1)
    if n.hi is not None:
        if n.hi >= 0:
            hi = n.hi // least
        else:
            hi = -1 if d.hi is None else n.hi // max(d.hi, 1)
    return Range(lo, hi)


def _remainder_range(n: Range, d: Range) -> Range:
    if d.lo is None or d.lo < 0:
        return Range(None if d.lo is None else min(d.lo + 1, 0), None if d.hi is None else max(d.hi - 1, 0))
    hi = None if d.hi is None else max(d.hi - 1, 0)
    if n.lo is not None and n.lo >= 0 and n.hi is not None:
        hi = n.hi if hi is None else min(hi, n.hi)
    return Range(0, hi)


# ---- proofs -----------------------------------------------------------------------------------------------------

_NONNEGATIVE: dict[Expr, bool] = {}
_BUDGET = 24  # eliminations in one proof: enough for the loop nests of any array program


def nonnegative(e: Size) -> bool:
    """True when ``e >= 0`` is proven.

    >>> n = Symbol("n"); i = Symbol("i", 0, n - 1)
    >>> nonnegative(n - 1 - i), nonnegative(n - 1)
    (True, False)
    """
    if not isinstance(e, Expr):
        return e >= 0
    r = range_of(e)
    if r.lo is not None and r.lo >= 0:
        return True
    if r.hi is not None and r.hi < 0:
        return False
    known = _NONNEGATIVE.get(e)
    if known is None:
        known = _eliminate_and_test(e, [_BUDGET])
        remember(_NONNEGATIVE, e, known)
    return known


def _eliminate_and_test(e: Size, budget: list[int]) -> bool:
    """Replace atoms by bounds that make `e` smaller, the most deeply bounded first, and test what is left. The one
    number in `budget` counts down over the whole search, so that its time is bounded however the choices branch."""
    if not isinstance(e, Expr):
        return e >= 0
    lo = range_of(e).lo
    if lo is not None and lo >= 0:
        return True
    if budget[0] <= 0:
        return False
    for atom in _bounded_atoms(e):
        parts = split_atom(e, atom)
        if parts is None:
            continue
        stride, rest = parts
        if nonnegative(stride):
            smaller = _below(atom, stride, rest)
        elif nonnegative(mul(-1, stride)):
            smaller = _above(atom, stride, rest)
        else:
            continue
        for candidate in smaller:
            budget[0] -= 1
            if _eliminate_and_test(candidate, budget):
                return True
        if smaller:
            return False
    shifted = _shift(e)
    if shifted is e:
        return False
    lo = range_of(shifted).lo
    return lo is not None and lo >= 0


def _bounded_atoms(e: Expr) -> list[Expr]:
    atoms = {atom for monomial, _ in split_terms(e)[0] for atom in factors_of(monomial)}
    bounded = [a for a in atoms if not isinstance(a, Symbol) or isinstance(a.hi, Expr)]
    bounded.sort(key=lambda a: (-_depth(a), a._key))
    return bounded


def _depth(atom: Size) -> int:
    if not isinstance(atom, Expr):
        return 0
    if isinstance(atom, Symbol):
        return 1 + _depth(atom.hi) if isinstance(atom.hi, Expr) else 0
    return 1 + max((_depth(s) for s in walk.free_symbols(atom)), default=0)


def split_atom(e: Expr, atom: Expr) -> tuple[Size, Size] | None:
    """(stride, rest) with ``e = stride * atom + rest``, `atom` a factor at most once in each term and free of the
    other factors; else None."""
    inside = walk.free_symbols(atom)
    stride: dict[Expr, int] = {}
    rest: dict[Expr, int] = {}
    terms, constant = split_terms(e)
    unit = 0
    for monomial, coefficient in terms:
        factors = factors_of(monomial)
        count = factors.count(atom)
        if count == 0 and isinstance(atom, Symbol) and inside & walk.free_symbols(monomial):
            return None
        if count > 1:
            return None
        if count == 0:
            rest[monomial] = coefficient
            continue
        others = tuple(f for f in factors if f is not atom)
        if not others:
            unit = coefficient
            continue
        cofactor = monomial_of(others)
        if isinstance(atom, Symbol) and inside & walk.free_symbols(cofactor):
            return None
        stride[cofactor] = coefficient
    return from_terms(stride, unit), from_terms(rest, constant)


def _below(atom: Expr, stride: Size, rest: Size) -> list[Size]:
    """Expressions any of which, if never negative, shows that ``stride * atom + rest`` is not, for ``stride >= 0``."""
    if isinstance(atom, Symbol):
        return [add(mul(stride, atom.lo), rest)]
    if isinstance(atom, Mod) and positive(atom.divisor, atom):
        return [rest]
    if isinstance(atom, FloorDiv) and positive(atom.divisor, atom):
        found: list[Size] = []
        k = simplify.exact_quotient(stride, atom.divisor)
        if k is not None:  # d * (x // d) >= x - d + 1
            found.append(add(mul(k, add(sub(atom.dividend, atom.divisor), 1)), rest))
        k = simplify.exact_quotient(rest, stride)
        if k is not None:  # x // d >= -k exactly when x >= -k * d
            found.append(add(atom.dividend, mul(k, atom.divisor)))
        if nonnegative(atom.dividend):
            found.append(rest)
        return found
    if isinstance(atom, Max):
        return [add(mul(stride, o), rest) for o in atom.operands]
    lo = range_of(atom).lo
    return [] if lo is None else [add(mul(stride, lo), rest)]


def _above(atom: Expr, stride: Size, rest: Size) -> list[Size]:
    """As `_below`, for ``stride <= 0``."""
    if isinstance(atom, Symbol):
        return [] if atom.hi is None else [add(mul(stride, atom.hi), rest)]
    if isinstance(atom, Mod) and positive(atom.divisor, atom):
        found = [add(mul(stride, sub(atom.divisor, 1)), rest)]
        if nonnegative(atom.dividend):
            found.append(add(mul(stride, atom.dividend), rest))
        return found
    if isinstance(atom, FloorDiv) and positive(atom.divisor, atom):
        k = simplify.exact_quotient(stride, atom.divisor)
        if k is not None:  # d * (x // d) <= x
            return [add(mul(k, atom.dividend), rest)]
        k = simplify.exact_quotient(rest, mul(-1, stride))
        if k is not None:  # x // d <= k exactly when x <= k * d + d - 1
            return [sub(add(mul(k, atom.divisor), sub(atom.divisor, 1)), atom.dividend)]
        return [add(mul(stride, simplify.floordiv(_upper(atom.dividend), atom.divisor)), rest)]
    if isinstance(atom, Min):
        return [add(mul(stride, o), rest) for o in atom.operands]
    hi = range_of(atom).hi
    return [] if hi is None else [add(mul(stride, hi), rest)]


def _upper(e: Size) -> Size:
    """An expression never below `e`, with symbols replaced by their symbolic bounds where their sign is known."""
    for _ in range(_BUDGET):
        if not isinstance(e, Expr):
            return e
        for atom in _bounded_atoms(e):
            parts = split_atom(e, atom) if isinstance(atom, Symbol) else None
            if parts is None or not isinstance(atom, Symbol) or atom.hi is None:
                continue
            stride, rest = parts
            if nonnegative(stride):
                e = add(mul(stride, atom.hi), rest)
                break
            if nonnegative(mul(-1, stride)):
                e = add(mul(stride, atom.lo), rest)
                break
        else:
            return e
    return e


def _shift(e: Expr) -> Size:
    """`e` with each symbol that starts at lo != 0 written as lo plus a symbol that starts at 0, so that products
    whose factors are bounded away from 0 lose their negative terms: m*n - n with m >= 1 becomes m'*n."""
    moved: dict[Symbol, Size] = {
        s: add(Symbol(s.name, 0, None if s.hi is None else s.hi - s.lo), s.lo)
        for s in walk.free_symbols(e)
        if s.lo != 0 and not isinstance(s.hi, Expr)
    }
    return walk.substitute(e, moved) if moved else e


def positive(e: Size, context: Size = 0) -> bool:
    """True when ``e >= 1`` is proven, given that the loop variables in `context` have a value at all: a variable in
    [0, n - 1] says that n >= 1."""
    if not isinstance(e, Expr):
        return e >= 1
    lo = range_of(e).lo
    if lo is not None and lo >= 1:
        return True
    if isinstance(e, Mul) and e.coefficient >= 1:
        return all(positive(f, context) for f in dict.fromkeys(e.factors))
    if nonnegative(sub(e, 1)):
        return True
    if isinstance(context, Expr):
        for symbol in _with_bounds(context):
            if not isinstance(symbol.hi, Expr):
                continue
            extent = add(sub(symbol.hi, symbol.lo), 1)
            if nonnegative(sub(e, extent)):
                return True
            if isinstance(extent, Mul) and e in extent.factors and all(nonnegative(f) for f in extent.factors):
                return True  # a product that is not 0 has no factor 0
    return False


def _with_bounds(context: Expr) -> list[Symbol]:
    """The symbols of an expression, and those of their bounds, in a fixed order."""
    found: dict[Symbol, None] = {}
    waiting = list(walk.free_symbols(context))
    while waiting:
        symbol = waiting.pop()
        if symbol not in found:
            found[symbol] = None
            if isinstance(symbol.hi, Expr):
                waiting.extend(walk.free_symbols(symbol.hi))
    return sorted(found, key=lambda s: s._key)
