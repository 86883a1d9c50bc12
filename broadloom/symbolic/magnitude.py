"""How far the evaluation of an expression may go from zero: the question whether 64 bits hold it.

What goes in: a `Size`, limits of symbols, and sets of symbols whose product is known to be limited; a symbol without a
limit, as a stride, which memory limits, counts as 0. What comes out: one int. What holds: no part of the expression,
for any values of its symbols within their limits, has a larger absolute value; sums are bounded term by term, so that
the order of their terms does not matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod

from broadloom.symbolic.expr import Add, Expr, Mul, Size, Symbol
from broadloom.symbolic.ranges import Range, combined

LARGEST = 2**63 - 1  # of an int64

Products = Mapping[tuple[Symbol, ...], int]  # for factors, with repetition, the most that their product is


def magnitude(e: Size, limits: Mapping[Symbol, int], products: Products) -> int:
    """The largest absolute value of `e` and of its parts.

    >>> n = Symbol("n")
    >>> magnitude((n * n + 3) // (2 * n), {n: 10}, {})
    103
    """
    return _walk(e, limits, products, {})


def _walk(e: Size, limits: Mapping[Symbol, int], products: Products, ranges: dict[Size, Range]) -> int:
    """The magnitude of `e`; the intervals of it and of its parts go to `ranges`."""
    if not isinstance(e, Expr):
        ranges[e] = Range(e, e)
        return abs(e)
    if isinstance(e, Symbol):
        most = limits.get(e, 0)
        ranges[e] = Range(-most if e.lo is None else max(e.lo, -most), most)
        return most
    parts: Sequence[Size]
    parts = [monomial for monomial, _ in e.terms] if isinstance(e, Add) else e.args
    reach = max(_walk(part, limits, products, ranges) for part in parts)
    lo, hi = combined(e, ranges.__getitem__)
    assert lo is not None and hi is not None  # every symbol is limited
    if isinstance(e, Mul):
        most = abs(e.coefficient) * _product(e.factors, [_absolute(ranges[f]) for f in e.factors], products)
        lo, hi = max(lo, -most), min(hi, most)
    ranges[e] = Range(lo, hi)
    if isinstance(e, Add):
        reach = max(reach, abs(e.constant) + sum(abs(c) * _absolute(ranges[m]) for m, c in e.terms))
    return max(reach, abs(lo), abs(hi))


def _absolute(r: Range) -> int:
    assert r.lo is not None and r.hi is not None
    return max(abs(r.lo), abs(r.hi))


def _product(factors: tuple[Expr, ...], bounds: list[int], products: Products) -> int:
    """The bound of a product: that of its factors, or less where some of them have a known product."""
    single = {factor: max(bound, 1) for factor, bound in zip(factors, bounds, strict=True)}
    best = prod(single[f] for f in factors)
    held = Counter(factors)
    for known, most in products.items():
        rest = held - Counter[Expr](known)
        if rest.total() < held.total():
            best = min(best, most * prod(single[f] for f in rest.elements()))
    return best
