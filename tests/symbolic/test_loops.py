"""Index arithmetic as loop nests make it: splitting, flattening, bounds."""

from __future__ import annotations

from broadloom.symbolic import Symbol, coefficient, lt, mod, parse, proves, sub


def test_split_and_flatten_a_symbolic_nest() -> None:
    n, m = Symbol("n"), Symbol("m")
    i, j = Symbol("i", 0, m - 1), Symbol("j", 0, n - 1)
    flat = i * n + j
    assert flat // n is i
    assert flat % n is j
    assert lt(flat, m * n) is True
    assert flat // (n * m) == 0
    assert coefficient(flat, i) == (n, j)
    assert coefficient(flat, j) == (1, i * n)
    assert coefficient(mod(flat, 7), j) is None


def test_unflatten_and_flatten_again_is_the_index() -> None:
    n, m = Symbol("n"), Symbol("m")
    f = Symbol("f", 0, 6 * n * m - 1)
    assert (f // (6 * n)) * 6 * n + ((f // 6) % n) * 6 + f % 6 is f
    assert proves(lt(f // n, 6 * m)) is True


def test_print_and_parse() -> None:
    n, m = Symbol("n"), Symbol("m")
    e = (n + 1) * m + 2 * n - (n + m) // 4 % 3
    assert parse(str(e), {"n": n, "m": m}) is e
    assert sub(e, e) == 0
