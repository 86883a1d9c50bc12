"""Random expressions against plain Python arithmetic and against sympy."""

from __future__ import annotations

from collections.abc import Mapping

import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from broadloom.symbolic import (
    Add,
    Expr,
    Mul,
    Size,
    Symbol,
    add,
    coefficient,
    eq,
    evaluate,
    free_symbols,
    ge,
    gt,
    le,
    lt,
    mul,
    ne,
    nonnegative,
    parse,
    positive,
    proves,
    range_of,
    sub,
    substitute,
)

from .strategies import NAMES, SYMBOLS, Pair, environments, pairs, to_sympy

many = settings(max_examples=400, deadline=None)


def _value(pair: Pair, env: Mapping[Symbol, int]) -> int | None:
    try:
        return pair.value(env)
    except ZeroDivisionError:
        return None  # an undefined value: any simplification is right


@many
@given(pairs, environments())
def test_value_is_python_s(pair: Pair, env: dict[Symbol, int]) -> None:
    expected = _value(pair, env)
    if expected is not None:
        assert evaluate(pair.size, env) == expected, pair.size
        assert expected in range_of(pair.size), pair.size
        if nonnegative(pair.size):
            assert expected >= 0, pair.size
        if positive(pair.size, pair.size):
            assert expected >= 1, pair.size


@many
@given(pairs)
def test_text_parses_back_to_the_same_object(pair: Pair) -> None:
    again = parse(str(pair.size), NAMES)
    assert again is pair.size or (isinstance(again, int) and again == pair.size)


@many
@given(pairs)
def test_every_node_is_a_fixed_point_of_its_own_construction(pair: Pair) -> None:
    assert _rebuild(pair.size) == pair.size


def _rebuild(e: Size) -> Size:
    if not isinstance(e, Expr):
        assert type(e) is int
        return e
    return substitute(substitute(e, {s: Symbol(s.name + "_", s.lo, s.hi) for s in free_symbols(e)}), _BACK)


_BACK = {Symbol(s.name + "_", s.lo, s.hi): s for s in SYMBOLS}


@many
@given(pairs, pairs, environments())
def test_relations_hold_where_they_are_proven(a: Pair, b: Pair, env: dict[Symbol, int]) -> None:
    x, y = _value(a, env), _value(b, env)
    if x is None or y is None:
        return
    for make, expected in ((eq, x == y), (ne, x != y), (lt, x < y), (le, x <= y), (gt, x > y), (ge, x >= y)):
        relation = make(a.size, b.size)
        if isinstance(relation, bool):
            assert relation == expected, (make.__name__, a.size, b.size)
            continue
        assert relation.holds(env) == expected, relation
        assert proves(relation) is None
        opposite = relation.negated()
        assert not isinstance(opposite, bool)
        assert opposite.holds(env) != expected
        assert opposite.negated() == relation


@many
@given(pairs, pairs, st.sampled_from(SYMBOLS), environments())
def test_substitution_commutes_with_evaluation(a: Pair, b: Pair, symbol: Symbol, env: dict[Symbol, int]) -> None:
    inner = _value(b, env)
    if inner is None:
        return
    inside = symbol.lo <= inner and (symbol.hi is None or inner <= evaluate(symbol.hi, env))
    if not inside or symbol in {s for other in SYMBOLS if isinstance(other.hi, Expr) for s in free_symbols(other.hi)}:
        return  # outside its bounds, or under the bounds of others: facts used in simplifying would be false
    expected = _value(a, {**env, symbol: inner})
    if expected is not None:
        assert evaluate(substitute(a.size, {symbol: b.size}), env) == expected


@many
@given(pairs, st.sampled_from(SYMBOLS), environments())
def test_coefficient_splits_affine_expressions(pair: Pair, symbol: Symbol, env: dict[Symbol, int]) -> None:
    parts = coefficient(pair.size, symbol)
    if parts is None:
        return
    stride, rest = parts
    assert symbol not in free_symbols(stride) | free_symbols(rest)
    assert add(mul(stride, symbol), rest) == pair.size


polynomials = st.recursive(
    st.one_of(st.sampled_from(SYMBOLS), st.integers(-6, 6)),
    lambda children: st.builds(lambda f, a, b: f(a, b), st.sampled_from([add, sub, mul]), children, children),
    max_leaves=8,
)


@many
@given(polynomials, polynomials, polynomials)
def test_polynomials_are_canonical_whatever_the_order(a: Size, b: Size, c: Size) -> None:
    assert add(add(a, b), c) == add(a, add(c, b))
    assert mul(mul(a, b), c) == mul(c, mul(b, a))
    assert mul(a, add(b, c)) == add(mul(c, a), mul(a, b))
    assert sub(add(a, b), b) == a


@settings(max_examples=100, deadline=None)
@given(polynomials)
def test_polynomials_agree_with_sympy(e: Size) -> None:
    terms = sympy.Poly(to_sympy(e), *(sympy.Symbol(s.name, integer=True) for s in SYMBOLS)).as_dict()
    ours: dict[tuple[int, ...], int] = {}
    for term in e.args if isinstance(e, Add) else (e,):
        scale, factors = (term.coefficient, term.factors) if isinstance(term, Mul) else (1, (term,))
        if isinstance(term, int):
            scale, factors = term, ()
        ours[tuple(factors.count(s) for s in SYMBOLS)] = scale
    assert {k: v for k, v in ours.items() if v} == {k: int(v) for k, v in terms.items() if v}
