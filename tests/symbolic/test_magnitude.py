"""Whether 64 bits hold an expression: the bound, and the guards that an environment makes of it."""

from __future__ import annotations

from hypothesis import given, settings

from broadloom.symbolic import LARGEST, Expr, ShapeEnv, Size, Symbol, eq, evaluate, floordiv, le
from broadloom.symbolic.magnitude import magnitude

from .strategies import environments, pairs


def _parts(e: Size) -> list[Size]:
    if not isinstance(e, Expr):
        return []
    return [e] if isinstance(e, Symbol) else [e, *(p for a in e.args for p in _parts(a))]


@given(pairs, environments())
@settings(max_examples=400, deadline=None)
def test_no_part_of_an_expression_is_beyond_its_magnitude(pair, env) -> None:
    bound = magnitude(pair.size, {s: abs(value) for s, value in env.items()}, {})
    for part in _parts(pair.size):
        try:
            value = evaluate(part, env)
        except ZeroDivisionError:  # an undefined value: any bound is right
            continue
        assert abs(value) <= bound


def test_a_quotient_counts_its_dividend() -> None:
    n = Symbol("n")
    assert magnitude(floordiv(n * n * n, 7 * n), {n: 1000}, {}) >= 1000**2


def test_what_fits_for_all_sizes_of_an_array_needs_no_guard() -> None:
    env = ShapeEnv()
    n, m = env.create("n", 10), env.create("m", 20)
    env.occupied((n, 3, m), 8)
    assert env.fits(n * m * 24, None)
    assert env.fits(n * 3 + m + 4, None)
    assert not env.guards


def test_room_is_left_above_the_hints() -> None:
    env = ShapeEnv()
    n, m = env.create("n", 10), env.create("m", 2**30)
    assert env.fits(n * m * 8, None)
    assert set(env.guards) == {le(n, 2**28), le(m, 2**31)}
    assert env.fits(8 * m * n, None)
    assert len(env.guards) == 2
    assert magnitude(n * m * 8, {n: 2**28, m: 2**31}, {}) <= LARGEST


def test_what_does_not_fit_at_the_hints_is_told_and_leaves_no_guard() -> None:
    env = ShapeEnv()
    n = env.create("n", 2**22)
    assert not env.fits(n * n * n, None)
    assert not env.guards


def test_a_relation_beyond_64_bits_fixes_its_symbols() -> None:
    env = ShapeEnv()
    n, m = env.create("n", 2**22), env.create("m", 2**21)
    assert env.decide(le(m * m * m, n * n * n), None)
    assert set(env.guards) == {eq(n, 2**22), eq(m, 2**21)}
