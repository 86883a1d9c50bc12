"""Rules for division, remainder, minimum and maximum.

What goes in: `Size`s. What comes out: a `Size` with the same value for all values of the symbols within their
bounds. A node is built only where no rule applies, so building it again from its operands gives the same node.

What holds: division is Python's floor division. Nothing is simplified by a divisor that is not proven positive; a
constant negative divisor is turned into a positive one first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd

from broadloom.symbolic import ranges
from broadloom.symbolic.expr import (
    Add,
    Expr,
    FloorDiv,
    Max,
    Min,
    Mod,
    Size,
    _intern,
    add,
    as_size,
    factors_of,
    from_terms,
    monomial_of,
    mul,
    remember,
    size_key,
    split_terms,
    sub,
    total,
)

_DIVISIONS: dict[tuple[Size, Size], Size] = {}
_REMAINDERS: dict[tuple[Size, Size], Size] = {}
_LONGEST_DIVISION = 64


# ---- division and remainder -------------------------------------------------------------------------------------


def floordiv(a: Size, b: Size) -> Size:
    """``a // b``. Raises ZeroDivisionError for b = 0.

    >>> from broadloom.symbolic import Symbol
    >>> n = Symbol("n"); i = Symbol("i"); j = Symbol("j", 0, n - 1)
    >>> floordiv(i * n + j, n)
    i
    """
    if type(a) is int and type(b) is int:
        return a // b
    known = _DIVISIONS.get((a, b))
    if known is not None:
        return known
    result = _floordiv(as_size(a), as_size(b))
    remember(_DIVISIONS, (a, b), result)
    return result


def mod(a: Size, b: Size) -> Size:
    """``a % b``. Raises ZeroDivisionError for b = 0.

    >>> from broadloom.symbolic import Symbol
    >>> n = Symbol("n"); i = Symbol("i"); j = Symbol("j", 0, n - 1)
    >>> mod(i * n + j, n)
    j
    """
    if type(a) is int and type(b) is int:
        return a % b
    known = _REMAINDERS.get((a, b))
    if known is not None:
        return known
    result = _mod(as_size(a), as_size(b))
    remember(_REMAINDERS, (a, b), result)
    return result


def _floordiv(a: Size, b: Size) -> Size:
    if isinstance(b, int):
        if b == 0:
            raise ZeroDivisionError(f"division of {a} by zero")
        if b < 0:
            return floordiv(mul(-1, a), -b)
        if b == 1:
            return a
        if isinstance(a, int):
            return a // b
    elif not ranges.positive(b, a):
        node: Expr = _intern(FloorDiv, a, b)
        return node
    quotient, rest = _divide(a, b)
    if quotient != 0:
        return add(quotient, floordiv(rest, b))
    constant = _constant_quotient(a, b)
    if constant is not None:
        return constant
    if isinstance(a, Expr):
        split = _split_by_common_factor(a, b)
        if split is not None:
            factor, part, _ = split
            divisor = exact_quotient(b, factor)
            assert divisor is not None
            return floordiv(part, divisor)
        nested = _nested_quotient(a, b)
        if nested is not None:
            return nested
    node = _intern(FloorDiv, a, b)
    return node


def _mod(a: Size, b: Size) -> Size:
    if isinstance(b, int):
        if b == 0:
            raise ZeroDivisionError(f"remainder of {a} by zero")
        if b < 0:
            return mul(-1, mod(mul(-1, a), -b))
        if b == 1:
            return 0
        if isinstance(a, int):
            return a % b
    elif not ranges.positive(b, a):
        node: Expr = _intern(Mod, a, b)
        return node
    quotient, rest = _divide(a, b)
    if quotient != 0:
        return mod(rest, b)
    constant = _constant_quotient(a, b)
    if constant is not None:
        return sub(a, mul(constant, b))
    if isinstance(a, Expr):
        flat = _without_inner_remainders(a, b)
        if flat is not a:
            return mod(flat, b)
        split = _split_by_common_factor(a, b)
        if split is not None:
            factor, part, rest = split
            divisor = exact_quotient(b, factor)
            assert divisor is not None
            return add(mul(factor, mod(part, divisor)), rest)
    node = _intern(Mod, a, b)
    return node


def _constant_quotient(a: Size, b: Size) -> int | None:
    """The quotient where bounds alone fix it; b is positive."""
    if isinstance(b, int):
        lo, hi = ranges.range_of(a)
        if lo is not None and hi is not None:
            if lo // b == hi // b:
                return lo // b
            if hi - lo >= b:
                return None  # no narrower bound is likely
    if ranges.nonnegative(a):
        return 0 if ranges.nonnegative(sub(sub(b, 1), a)) else None
    if ranges.nonnegative(sub(-1, a)) and ranges.nonnegative(add(a, b)):
        return -1
    return None


def _divide(a: Size, b: Size) -> tuple[Size, Size]:
    """(q, r) with ``a = q * b + r`` for any value of the symbols; q takes the terms that b divides."""
    if not isinstance(a, Expr):
        return 0, a  # a constant under a symbolic divisor
    terms, constant = split_terms(a)
    if isinstance(b, int):
        quotient = {m: _truncated(c, b) for m, c in terms}
        rest = {m: c - quotient[m] * b for m, c in terms}
        return from_terms(quotient, constant // b), from_terms(rest, constant % b)
    b_terms, b_constant = split_terms(b)
    if len(b_terms) == 1 and not b_constant:
        ((lead, coefficient),) = b_terms
        quotients: list[Size] = []
        remains: list[Size] = [constant]
        for m, c in terms:
            over = _monomial_quotient(m, lead)
            times = _truncated(c, coefficient) if over is not None else 0
            if over is not None and times:
                quotients.append(mul(times, over))
            remains.append(mul(c - times * coefficient, m))
        return total(quotients), total(remains)
    return _divide_by_sum(a, b)


def _divide_by_sum(a: Expr, b: Expr) -> tuple[Size, Size]:
    """Long division by the leading term, kept only where what remains has a known quotient."""
    lead, coefficient = split_terms(b)[0][0]
    quotient: Size = 0
    rest: Size = a
    for _ in range(_LONGEST_DIVISION):
        if not isinstance(rest, Expr):
            break
        for m, c in split_terms(rest)[0]:
            over = _monomial_quotient(m, lead)
            if over is not None and c % coefficient == 0:
                step = mul(c // coefficient, over)
                quotient, rest = add(quotient, step), sub(rest, mul(step, b))
                break
        else:
            break
    if quotient == 0 or _constant_quotient(rest, b) is None:
        return 0, a
    return quotient, rest


def _truncated(c: int, b: int) -> int:
    return c // b if c >= 0 else -(-c // b)


def _monomial_quotient(m: Expr, n: Expr) -> Size | None:
    """m / n when the factors of n are among those of m."""
    if m is n:
        return 1
    left = list(factors_of(m))
    for factor in factors_of(n):
        if factor not in left:
            return None
        left.remove(factor)
    return monomial_of(tuple(left)) if left else 1


def exact_quotient(a: Size, b: Size) -> Size | None:
    """q with ``a = q * b`` as polynomials, or None."""
    if isinstance(a, int):
        return 0 if a == 0 else (a // b if isinstance(b, int) and b and a % b == 0 else None)
    if isinstance(b, int):
        terms, constant = split_terms(a)
        if b == 0 or constant % b or any(c % b for _, c in terms):
            return None
        return from_terms({m: c // b for m, c in terms}, constant // b)
    quotient: Size = 0
    lead, coefficient = split_terms(b)[0][0]
    rest: Size = a
    for _ in range(_LONGEST_DIVISION):
        if not isinstance(rest, Expr):
            return quotient if rest == 0 else None
        m, c = split_terms(rest)[0][0]
        over = _monomial_quotient(m, lead)
        if over is None or c % coefficient:
            return None
        step = mul(c // coefficient, over)
        quotient, rest = add(quotient, step), sub(rest, mul(step, b))
    return None


def _split_by_common_factor(a: Expr, b: Size) -> tuple[Size, Size, Size] | None:
    """(f, p, r) with ``a = f * p + r``, f a proper positive divisor of b and ``0 <= r < f``: then a // b is
    p // (b / f), and a % b is f * (p % (b / f)) + r."""
    terms, constant = split_terms(a)
    if isinstance(b, int):
        for g in sorted({gcd(c, b) for _, c in terms} - {1}, reverse=True):
            part = from_terms({m: c // g for m, c in terms if c % g == 0}, constant // g)
            rest = from_terms({m: c for m, c in terms if c % g}, constant % g)
            if ranges.nonnegative(rest) and ranges.nonnegative(sub(g - 1, rest)):
                return g, part, rest
        return None
    b_terms, b_constant = split_terms(b)
    if len(b_terms) != 1 or b_constant:
        return None
    lead, coefficient = b_terms[0]
    factors: list[Size] = list(dict.fromkeys(factors_of(lead)))
    common = gcd(coefficient, *(c for _, c in terms))
    if common > 1:
        factors.append(common)
    for factor in factors:
        if not ranges.positive(factor, a):
            continue
        parts: list[Size] = []
        rests: list[Size] = []
        for m, c in terms:
            over = exact_quotient(mul(c, m), factor)
            if over is None:
                rests.append(mul(c, m))
            else:
                parts.append(over)
        if isinstance(factor, int):
            parts.append(constant // factor)
            rests.append(constant % factor)
        else:
            rests.append(constant)
        rest = total(rests)
        if parts and ranges.nonnegative(rest) and ranges.nonnegative(sub(sub(factor, 1), rest)):
            return factor, total(parts), rest
    return None


def _nested_quotient(a: Expr, b: Size) -> Size | None:
    """(x // d + k) // b is (x + k*d) // (d*b); (x % (b*m)) // b is (x // b) % m."""
    terms, constant = split_terms(a)
    if len(terms) != 1 or terms[0][1] != 1:
        return None
    inner = terms[0][0]
    if isinstance(inner, FloorDiv) and ranges.positive(inner.divisor, inner):
        return floordiv(add(inner.dividend, mul(constant, inner.divisor)), mul(inner.divisor, b))
    if isinstance(inner, Mod) and not constant and ranges.positive(inner.divisor, inner):
        modulus = exact_quotient(inner.divisor, b)
        if modulus is not None and ranges.positive(modulus, inner):
            return mod(floordiv(inner.dividend, b), modulus)
    return None


def _without_inner_remainders(a: Expr, b: Size) -> Size:
    """Under % b, c * (x % d) may be c * x where b divides c * d."""
    terms, constant = split_terms(a)
    if not any(isinstance(m, Mod) for m, _ in terms):
        return a
    parts: list[Size] = [constant]
    changed = False
    for m, c in terms:
        if isinstance(m, Mod) and exact_quotient(mul(c, m.divisor), b) is not None:
            parts.append(mul(c, m.dividend))
            changed = True
        else:
            parts.append(mul(c, m))
    return total(parts) if changed else a


def join_quotient_and_remainder(terms: Mapping[Expr, int], monomial: Expr) -> Size | None:
    """The sum of `terms` with ``k*d*(x // d) + k*(x % d)`` put together to k*x, where `monomial` holds the
    remainder; None where the quotient is not there. A buffer that is split and flattened again is one index."""
    remainder = next(f for f in factors_of(monomial) if isinstance(f, Mod))
    cofactor = _monomial_quotient(monomial, remainder)
    assert cofactor is not None
    scale = mul(terms[monomial], cofactor)
    quotient = mul(mul(scale, remainder.divisor), floordiv(remainder.dividend, remainder.divisor))
    if not isinstance(quotient, Expr):
        return None
    needed, constant = split_terms(quotient)
    if constant:
        return None
    left = dict(terms)
    for m, c in needed:
        present = left.get(m, 0)
        if (present < 0) != (c < 0) or abs(present) < abs(c):
            return None
        left[m] = present - c
    del left[monomial]
    return add(from_terms(left, 0), mul(scale, remainder.dividend))


# ---- minimum and maximum ----------------------------------------------------------------------------------------


def smin(*sizes: Size) -> Size:
    """The smallest of one or more sizes.

    >>> from broadloom.symbolic import Symbol
    >>> n = Symbol("n")
    >>> smin(n, n + 1, 8)
    min(8, n)
    """
    return _extremum(Min, sizes)


def smax(*sizes: Size) -> Size:
    """The largest of one or more sizes.

    >>> from broadloom.symbolic import Symbol
    >>> smax(Symbol("n"), 0)
    n
    """
    return _extremum(Max, sizes)


def _extremum(kind: type[Min] | type[Max], sizes: tuple[Size, ...]) -> Size:
    if not sizes:
        raise TypeError("the minimum or maximum of no sizes does not exist")
    flat: dict[Size, None] = {}
    for size in sizes:
        flat.update(dict.fromkeys(_choices(kind, as_size(size))))
    constants = [s for s in flat if isinstance(s, int)]
    symbolic = [s for s in flat if isinstance(s, Expr)]
    if constants:
        symbolic_and_one: list[Size] = [min(constants) if kind is Min else max(constants), *symbolic]
    else:
        symbolic_and_one = list(symbolic)
    kept = sorted(symbolic_and_one, key=size_key)
    k = 0
    while k < len(kept) and len(kept) > 1:
        others = kept[:k] + kept[k + 1 :]
        if any(_never_wins(kind, kept[k], o) for o in others):
            kept = others
        else:
            k += 1
    if len(kept) == 1:
        return kept[0]
    node: Expr = _intern(kind, tuple(kept))
    return node


def _choices(kind: type[Min] | type[Max], size: Size) -> Sequence[Size]:
    """What an operand of an extremum chooses from: those of ``max(a, b)`` and of ``max(a, b) + c``, so that slices of
    slices have sizes of one clamp."""
    if isinstance(size, kind):
        return size.operands
    terms = size.terms if isinstance(size, Add) else ()
    inner = [(m, c) for m, c in terms if isinstance(m, Min | Max)]
    if len(inner) != 1 or inner[0][1] != 1 or not isinstance(inner[0][0], kind):
        return (size,)
    rest = sub(size, inner[0][0])
    return [choice for o in inner[0][0].operands for choice in _choices(kind, add(o, rest))]


def _never_wins(kind: type[Min] | type[Max], size: Size, other: Size) -> bool:
    return ranges.nonnegative(sub(size, other) if kind is Min else sub(other, size))
