"""Division rules, symbolic bounds and relations, one known answer each."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broadloom.errors import Location
from broadloom.symbolic import (
    Range,
    Relation,
    ShapeEnv,
    Size,
    Symbol,
    coefficient,
    eq,
    floordiv,
    ge,
    gt,
    le,
    lt,
    mod,
    ne,
    nonnegative,
    parse,
    proves,
    range_of,
    smax,
    smin,
)

n, m, p = Symbol("n"), Symbol("m", 1), Symbol("p")
i, j, k = Symbol("i", 0, n - 1), Symbol("j", 0, m - 1), Symbol("k", 0, 7)
NAMES = {s.name: s for s in (n, m, p, i, j, k)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(8*p + k) // 8", "p"),
        ("(8*p + k) % 8", "k"),
        ("(8*p + k) // 16", "p // 2"),
        ("(8*p + k) % 16", "8*(p % 2) + k"),
        ("(8*p + k) // 4", "2*p + k // 4"),
        ("(p // 4) // 3", "p // 12"),
        ("(p // 4 + 1) // 3", "(p + 4) // 12"),
        ("(p % 12) % 4", "p % 4"),
        ("(p % 12) // 4", "(p // 4) % 3"),
        ("(6*p + 3) // 9", "(2*p + 1) // 3"),
        ("(6*p + 4) % 9", "3*((2*p + 1) % 3) + 1"),
        ("p // -3", "(-p) // 3"),
        ("(p - 1) // 2 + 1", "(p + 1) // 2"),
        ("k // 8", "0"),
        ("(k - 8) // 8", "-1"),
        ("(k - 8) % 8", "k"),
        ("(i*m + j) // m", "i"),
        ("(i*m + j) % m", "j"),
        ("(p*n*m + i*m + j) // (n*m)", "p"),
        ("(p*n*m + i*m + j) % (n*m)", "i*m + j"),
        ("(p*n*m + i*m + j) // m % n", "i"),
        ("(i*(m + 1) + j) // (m + 1)", "i"),
        ("(i*(m + 1) + j) % (m + 1)", "j"),
        ("(6*i + p*m) // m", "p + 6*i // m"),
        ("4*(p // 4) + p % 4", "p"),
        ("8*(p // 4) + p % 4", "4*(p // 4) + p"),
        ("min(p, p + 1, 5)", "min(5, p)"),
        ("max(i, n - 1)", "n - 1"),
        ("max(k, 3, -1)", "max(k, 3)"),
    ],
)
def test_simplification(text: str, expected: str) -> None:
    assert parse(text, NAMES) == parse(expected, NAMES)


@pytest.mark.parametrize(
    ("e", "expected"),
    [
        (k * k - 3, Range(-3, 46)),
        (Symbol("z", -3, 2) * Symbol("z", -3, 2), Range(0, 9)),
        (floordiv(k, m), Range(0, 7)),
        (mod(p, 5), Range(0, 4)),
        (mod(k, 50), Range(0, 7)),
        (smin(p, 9), Range(0, 9)),
        (smax(p, 9), Range(9, None)),
        (i, Range(0, None)),
        (-1 * p, Range(None, 0)),
        (p - m, Range(None, None)),
        (10**30 * k, Range(0, 7 * 10**30)),
    ],
)
def test_range(e: Size, expected: Range) -> None:
    assert range_of(e) == expected


@pytest.mark.parametrize(
    ("relation", "expected"),
    [
        (lt(i * m + j, n * m), True),
        (le(4 * (p // 4), p), True),
        (lt(p, 4 * (p // 4) + 4), True),
        (le(p // 2, p), True),
        (lt(k, 7), None),
        (ge(m * n, n), True),
        (ge(p * n, n), None),
        (eq(p, p + 1), False),
        (ne(2 * p, 2 * m + 1), True),
        (le(smin(p, n), n), True),
        (ge(smax(p, n), n), True),
        (lt(mod(p, m), m), True),
        (gt(n, i), True),
        (lt(i, 0), False),
        (lt(floordiv(Symbol("f", 0, n * m - 1), n), m), True),
        (lt(floordiv(i, 4), floordiv(n + 3, 4)), True),
    ],
)
def test_proof(relation: Relation | bool, expected: bool | None) -> None:
    assert proves(relation) is expected


def test_relations_are_canonical() -> None:
    assert lt(2 * p, 7) == le(p, 3) == gt(4, p)
    assert str(lt(p, n)) in ("p < n", "n > p")
    assert eq(2 * n, 2 * p) == eq(p, n)
    assert str(ge(p, 4)) == "4 <= p"
    relation = eq(p, 3)
    assert isinstance(relation, Relation)
    assert relation.negated() == ne(3, p)
    assert relation.substituted({p: 3}) is True
    assert relation.symbols == {p}
    with pytest.raises(TypeError, match="truth"):
        bool(relation)


def test_strides_of_an_index() -> None:
    assert coefficient(i * m + j + 3, i) == (m, j + 3)
    assert coefficient(5, i) == (0, 5)
    assert coefficient(i * i, i) is None
    assert coefficient(floordiv(i, 2) + i, i) is None
    assert coefficient(m * floordiv(i, 2) + j, j) == (1, m * floordiv(i, 2))


def test_an_empty_range_is_accepted() -> None:
    nothing = Symbol("i0", 0, -1)
    assert isinstance(nonnegative(nothing), bool)
    assert isinstance(str(floordiv(nothing * 3 + 1, 4)), str)


HERE = Location("model.py", 3, "f")


def test_shape_env_records_what_it_decides_by_looking() -> None:
    env = ShapeEnv()
    a, b = env.create("a", 8, source="L['x'].shape[0]"), env.create("b", 5)
    assert env.decide(le(0, a), HERE) and not env.guards
    assert env.decide(gt(a, b), HERE)
    assert not env.decide(eq(a, b), None)
    assert not env.decide(lt(a, b + 1), None)  # the first question, negated
    assert env.guards == (lt(b, a), ne(a, b))
    guard = env.guards[0]
    assert env.location(guard) == HERE
    assert env.source(a) == "L['x'].shape[0]"
    assert all(g.holds({a: 8, b: 5}) for g in env.guards)


def test_shape_env_uses_equalities() -> None:
    env = ShapeEnv()
    a, b, c = env.create("a", 6), env.create("b", 6), env.create("c", 12)
    assert env.decide(eq(a, b), HERE)
    assert env.decide(eq(c, a + b), HERE)
    count = len(env.guards)
    assert env.simplify(c * b) is 2 * a * a
    assert env.decide(eq(c, 2 * b), HERE) and env.decide(le(b, a), HERE) and not env.decide(lt(c, a), HERE)
    assert len(env.guards) == count
    assert env.hint(a * c) == 72


def test_shape_env_uses_bounds_from_guards() -> None:
    env = ShapeEnv()
    a, b, c = env.create("a", 8), env.create("b", 5), env.create("c", 1)
    assert env.decide(gt(a, 4), HERE) and env.decide(le(b, 10), HERE) and env.decide(ne(c, 0), HERE)
    count = len(env.guards)
    assert env.decide(ge(a, 2), HERE) and not env.decide(eq(a, 0), HERE) and env.decide(le(0, c - 1), HERE)
    assert not env.decide(gt(b, 11), HERE) and env.decide(lt(b, 3 * a), HERE)
    assert len(env.guards) == count
    assert env.decide(gt(a, 6), HERE) and len(env.guards) == count + 1
    assert env.decide(ge(a, 6), HERE) and len(env.guards) == count + 1
    assert all(g.holds({a: 8, b: 5, c: 1}) for g in env.guards)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_shape_env_never_contradicts_its_hints(data: st.DataObject) -> None:
    env = ShapeEnv()
    values = data.draw(st.lists(st.integers(0, 6), min_size=2, max_size=4))
    symbols = [env.fresh(v) for v in values]
    sides = st.one_of(
        st.sampled_from(symbols), st.integers(0, 7), st.builds(lambda a, b: a + b, *[st.sampled_from(symbols)] * 2)
    )
    hints = dict(zip(symbols, values, strict=True))
    for _ in range(8):
        relation = data.draw(st.sampled_from([eq, ne, lt, le, gt, ge]))(data.draw(sides), data.draw(sides))
        expected = relation if isinstance(relation, bool) else relation.holds(hints)
        assert env.decide(relation, None) == expected
    assert all(g.holds(hints) for g in env.guards)
    size = data.draw(sides)
    assert env.hint(env.simplify(size)) == env.hint(size)


def test_shape_env_refuses_nonsense() -> None:
    env = ShapeEnv()
    env.create("a", 3)
    with pytest.raises(ValueError, match="exists"):
        env.create("a", 4)
    with pytest.raises(ValueError, match="below"):
        env.create("b", 1, lo=2)
    assert [str(env.fresh(4)), str(env.fresh(4))] == ["s1", "s2"]
    assert [str(s) for s in env.symbols] == ["a", "s1", "s2"]
