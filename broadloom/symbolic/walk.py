"""What walks an expression: its symbols, substitution, evaluation, and the stride of a symbol.

What goes in: a `Size`, and values for symbols. What comes out: the symbols, a new `Size`, an int, or (stride, rest).
What holds: an expression without the symbols in question comes back as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from broadloom.symbolic import ranges, simplify
from broadloom.symbolic.expr import Add, Expr, FloorDiv, Min, Mod, Mul, Size, Symbol, _set, as_size, mul, total

_EMPTY: frozenset[Symbol] = frozenset()


def free_symbols(e: Size) -> frozenset[Symbol]:
    """The symbols that occur in `e`; symbols in the bounds of symbols do not count."""
    if not isinstance(e, Expr):
        return _EMPTY
    if e._free is None:
        if isinstance(e, Symbol):
            return frozenset((e,))  # not kept: a node that holds itself would never be freed
        parts = [m for m, _ in e.terms] if isinstance(e, Add) else e.args
        _set(e, "_free", frozenset().union(*(free_symbols(p) for p in parts)))
    found = e._free
    assert found is not None
    return found


def substitute(e: Size, values: Mapping[Symbol, Size]) -> Size:
    """`e` with symbols replaced, all at once; bounds of the symbols that stay are not touched.

    >>> n, m = Symbol("n"), Symbol("m")
    >>> substitute(n * m + n, {n: m + 1, m: 2})
    3*m + 3
    """
    if not isinstance(e, Expr) or free_symbols(e).isdisjoint(values):
        return as_size(e)
    return _substitute(e, values, values.keys(), {})


def rewrite(e: Size, values: Mapping[Expr, Size]) -> Size:
    """`e` with parts replaced: symbols, and divisions, remainders, minima and maxima, also those that come out where
    their own parts are replaced.

    >>> n, m = Symbol("n"), Symbol("m")
    >>> rewrite((n // m) * m + m, {n // m: 2}), rewrite((n + 1) // m, {n: m, (m + 1) // m: 3})
    (3*m, 3)
    """
    if not isinstance(e, Expr):
        return e
    symbols = frozenset[Symbol]().union(*map(free_symbols, values))
    return e if free_symbols(e).isdisjoint(symbols) else _substitute(e, values, symbols, {})


def _substitute(e: Size, values: Mapping[Any, Size], symbols: Collection[Symbol], done: dict[Expr, Size]) -> Size:
    """`symbols`: those of all keys of `values`."""
    if not isinstance(e, Expr):
        return e
    if isinstance(e, Symbol) or e in values:
        return as_size(values.get(e, e))
    if e in done:
        return done[e]
    if free_symbols(e).isdisjoint(symbols):
        return e
    result: Size
    if isinstance(e, Add):
        result = total([*(mul(c, _substitute(m, values, symbols, done)) for m, c in e.terms), e.constant])
    elif isinstance(e, Mul):
        result = e.coefficient
        for factor in e.factors:
            result = mul(result, _substitute(factor, values, symbols, done))
    else:
        operands = [_substitute(o, values, symbols, done) for o in e.args]
        if isinstance(e, FloorDiv):
            result = simplify.floordiv(*operands)
        elif isinstance(e, Mod):
            result = simplify.mod(*operands)
        else:
            result = simplify.smin(*operands) if isinstance(e, Min) else simplify.smax(*operands)
        result = values.get(result, result)
    done[e] = result
    return result


def evaluate(e: Size, values: Mapping[Symbol, int]) -> int:
    """The value of `e`. Raises KeyError for a symbol without a value, ZeroDivisionError where a divisor is 0."""
    if not isinstance(e, Expr):
        return e
    return _evaluate(e, values, {})


def _evaluate(e: Size, values: Mapping[Symbol, int], done: dict[Expr, int]) -> int:
    """Each part once: what parts are made of may be shared many times over."""
    if not isinstance(e, Expr):
        return e
    if isinstance(e, Symbol):
        return values[e]
    found = done.get(e)
    if found is None:
        found = done[e] = _operation(e, values, done)
    return found


def _operation(e: Expr, values: Mapping[Symbol, int], done: dict[Expr, int]) -> int:
    if isinstance(e, Add):
        return e.constant + sum(c * _evaluate(m, values, done) for m, c in e.terms)
    if isinstance(e, Mul):
        result = e.coefficient
        for factor in e.factors:
            result *= _evaluate(factor, values, done)
        return result
    operands = [_evaluate(o, values, done) for o in e.args]
    if isinstance(e, FloorDiv):
        return operands[0] // operands[1]
    if isinstance(e, Mod):
        return operands[0] % operands[1]
    return min(operands) if isinstance(e, Min) else max(operands)


def coefficient(e: Size, symbol: Symbol) -> tuple[Size, Size] | None:
    """(stride, rest) with ``e = stride * symbol + rest``, both free of `symbol`; None when e is not affine in it.

    >>> n = Symbol("n"); i = Symbol("i"); j = Symbol("j")
    >>> coefficient(i * n + 2 * j, i)
    (n, 2*j)
    """
    if not isinstance(e, Expr) or symbol not in free_symbols(e):
        return 0, e
    return ranges.split_atom(e, symbol)
