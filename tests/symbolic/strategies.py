"""Random sizes: built by the functions under test and, beside them, as Python closures and sympy expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import sympy
from hypothesis import strategies as st

from broadloom.symbolic import Size, Symbol, add, evaluate, floordiv, mod, mul, smax, smin, sub

N = Symbol("n")
M = Symbol("m", 1)
K = Symbol("k", 2, 9)
Z = Symbol("z", -5, 5)
ROW = Symbol("i", 0, N - 1)
COLUMN = Symbol("j", 0, M - 1)
F = Symbol("f", 0, N * M - 1)
SYMBOLS = (N, M, K, Z, ROW, COLUMN, F)
NAMES = {s.name: s for s in SYMBOLS}


@dataclass(frozen=True)
class Pair:
    """A size, and the same value computed by plain Python from the symbols' values."""

    size: Size
    value: Callable[[Mapping[Symbol, int]], int]


def _pair(op: str, a: Pair, b: Pair) -> Pair:
    f, g = {
        "+": (add, lambda x, y: x + y),
        "-": (sub, lambda x, y: x - y),
        "*": (mul, lambda x, y: x * y),
        "//": (floordiv, lambda x, y: x // y),
        "%": (mod, lambda x, y: x % y),
        "min": (smin, min),
        "max": (smax, max),
    }[op]
    return Pair(f(a.size, b.size), lambda env: g(a.value(env), b.value(env)))


def _division(op: str, a: Pair, b: Pair) -> Pair:
    return _pair(op, a, Pair(1, lambda env: 1) if b.size == 0 else b)


def _symbol(s: Symbol) -> Pair:
    return Pair(s, lambda env: env[s])


def _constant(c: int) -> Pair:
    return Pair(c, lambda env: c)


leaves = st.one_of(st.sampled_from(SYMBOLS).map(_symbol), st.integers(-12, 12).map(_constant))
divisors = st.one_of(
    st.sampled_from([N, M, K]).map(_symbol),
    st.sampled_from([2, 3, 4, 6, 8, -3]).map(_constant),
    st.sampled_from([N * M, 2 * M, M + 1, 4 * N]).map(lambda e: Pair(e, lambda env: evaluate(e, env))),
)


def _extend(children: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    return st.one_of(
        st.builds(_pair, st.sampled_from(["+", "-", "*", "min", "max"]), children, children),
        st.builds(_division, st.sampled_from(["//", "%"]), children, st.one_of(divisors, children)),
        st.builds(lambda a, b, c: _pair("+", _pair("*", a, b), c), children, divisors, children),
    )


pairs = st.recursive(leaves, _extend, max_leaves=10)


@st.composite
def environments(draw: st.DrawFn) -> dict[Symbol, int]:
    """Values within the bounds of all symbols; n is at least 1 because i has a value."""
    env = {N: draw(st.integers(1, 7)), M: draw(st.integers(1, 6)), K: draw(st.integers(2, 9))}
    env[Z] = draw(st.integers(-5, 5))
    env[ROW] = draw(st.integers(0, env[N] - 1))
    env[COLUMN] = draw(st.integers(0, env[M] - 1))
    env[F] = draw(st.integers(0, env[N] * env[M] - 1))
    return env


def to_sympy(e: Size) -> sympy.Expr:
    """A polynomial size as a sympy expression."""
    return sympy.sympify(str(e), locals={s.name: sympy.Symbol(s.name, integer=True) for s in SYMBOLS})
