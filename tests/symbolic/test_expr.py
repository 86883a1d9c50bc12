"""Nodes: interning, immutability, integers at the edges, text."""

from __future__ import annotations

import copy
import gc
import itertools
import os
import pickle
import signal
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

from broadloom.errors import ParseError
from broadloom.symbolic import (
    Expr,
    Max,
    Min,
    Mod,
    Mul,
    Symbol,
    add,
    evaluate,
    expr,
    floordiv,
    interned_count,
    mod,
    mul,
    parse,
    product,
    smax,
    smin,
    sub,
    total,
)


def test_static_shapes_stay_plain_ints() -> None:
    n = Symbol("n")
    results = [add(2, 3), sub(n, n), mul(0, n), floordiv(7, -2), mod(7, -2), smin(3, 2), smax(3, 2), product([2, 3])]
    results += [n - n + 4, total([n, 1, -1 * n]), add(np.int64(3), 4), smin(np.int32(2), 9), 0 * n]
    assert results == [5, 0, 0, -4, -1, 2, 3, 6, 4, 1, 7, 2, 0]
    assert {type(r) for r in results} == {int}


def test_equal_expressions_are_one_object() -> None:
    a, b, c = Symbol("a"), Symbol("b"), Symbol("c")
    orders = [a * x * y + z for x, y, z in itertools.permutations([b, c, 2 * a])]
    assert len({add(add(x, y), z) for x, y, z in itertools.permutations(orders[:3])}) == 1
    assert a * b + 2 * a is 2 * a + b * a
    assert str(2 * a + b * a) == "a*b + 2*a"
    assert Symbol("a") is a
    assert Symbol("a", 1) is not a
    assert np.int64(2) * a is a * 2
    assert a + np.uint8(1) is 1 + a


def test_order_follows_numbers_in_names() -> None:
    s2, s10 = Symbol("s2"), Symbol("s10")
    assert str(s10 + s2) == "s2 + s10"
    assert str(s10 * s2 * 3 - 1) == "3*s2*s10 - 1"


def test_text_is_the_same_in_another_process() -> None:
    program = (
        "from broadloom.symbolic import Symbol, smin; a, b, c = map(Symbol, 'abc');"
        "print(smin(a * b, c // 4, b % 3) + c * a - 2 * b + b // (a + 1))"
    )
    texts = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        texts.add(subprocess.check_output([sys.executable, "-c", program], env=environment, text=True))
    assert len(texts) == 1


def test_nodes_are_immutable_and_copies_are_the_node() -> None:
    n = Symbol("n")
    e = n * n + floordiv(n, 3) + smin(n, 7)
    with pytest.raises(AttributeError, match="immutable"):
        e.constant = 3  # type: ignore[union-attr]
    assert copy.copy(e) is e
    assert copy.deepcopy([e])[0] is e
    assert pickle.loads(pickle.dumps(e)) is e
    assert {e: 1}[n * n + smin(7, n) + n // 3] == 1


def test_truth_is_refused_and_floats_are_no_sizes() -> None:
    n = Symbol("n")
    with pytest.raises(TypeError, match="truth"):
        bool(n)
    with pytest.raises(TypeError):
        n + 1.5  # type: ignore[operator]
    with pytest.raises(TypeError):
        mul(1.5, n)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        n < 3  # type: ignore[operator]  # noqa: B015


def test_bad_symbols_are_refused() -> None:
    for name in ("", "1n", "a b", "min", "x-y"):
        with pytest.raises(ValueError, match="identifier"):
            Symbol(name)
    with pytest.raises(TypeError):
        Symbol("n", 0, 1.5)  # type: ignore[arg-type]


def test_division_by_zero_is_an_error() -> None:
    n = Symbol("n")
    for f in (floordiv, mod):
        with pytest.raises(ZeroDivisionError):
            f(n, 0)
        with pytest.raises(ZeroDivisionError):
            f(3, 0)
    with pytest.raises(ZeroDivisionError):
        evaluate(floordiv(3, n), {n: 0})


def test_an_unproven_divisor_is_left_alone() -> None:
    n, d = Symbol("n"), Symbol("d", -3)
    assert str(floordiv(n * d, d)) == "(n*d)//d" or str(floordiv(n * d, d)) == "(d*n)//d"
    assert isinstance(mod(0, n), Mod)


MALFORMED = ["", "n +", "(n", "n)", "2n", "q", "n // 0", "min()", "n ** 2", "n / 2", "1.5", "n[0]", "1" * 5000]


@pytest.mark.parametrize("text", MALFORMED)
def test_malformed_text_is_a_parse_error(text: str) -> None:
    with pytest.raises(ParseError):
        parse(text, {"n": Symbol("n")})


def test_deep_text_is_an_error_not_a_crash() -> None:
    with pytest.raises(ParseError, match="deeply"):
        parse("(" * 100_000 + "1" + ")" * 100_000, {})
    assert parse("-" * 100_001 + "1", {}) == -1


def test_extrema() -> None:
    n, m = Symbol("n"), Symbol("m", 4)
    assert smax(n, 0) is n
    assert smin(m, 3) == 3
    assert isinstance(smin(n, m), Min)
    assert smin(smin(n, m), 9, n) is smin(m, 9, n)
    assert smax(n + 1, n + 3, n) is n + 3
    assert isinstance(smax(n, m), Max)
    with pytest.raises(TypeError):
        smin()


def test_nothing_is_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expr, "_CACHE_LIMIT", 500)
    gc.collect()
    before = interned_count()
    for k in range(3_000):  # four expressions each: more than the bounded caches hold
        (Symbol(f"unique{k}") * 3 + 1) // 2
    gc.collect()
    assert interned_count() < before + 6_000


def test_threads_agree_on_the_object() -> None:
    rounds, workers = 300, 4
    barrier = threading.Barrier(workers)
    made: list[list[Expr]] = [[] for _ in range(workers)]

    def work(mine: list[Expr]) -> None:
        for k in range(rounds):
            barrier.wait()
            e = Symbol(f"thread{k}") * Symbol("n") + k
            assert isinstance(e, Expr)
            mine.append(e)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in made]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(len({id(mine[k]) for mine in made}) == 1 for k in range(rounds))


def test_a_fork_in_the_middle_of_interning_leaves_no_lock_held() -> None:
    stop = threading.Event()

    def work() -> None:
        k = 0
        while not stop.is_set():
            k += 1
            Symbol(f"busy{k}")

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(20):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # the fork beside a thread is the point
                child = os.fork()
            if child == 0:
                signal.alarm(20)  # a child that waits for ever is killed
                os._exit(0 if Symbol("made_in_child") + 1 is not None else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        thread.join()


def test_args_rebuild_the_node() -> None:
    a, b = Symbol("a"), Symbol("b")
    e = 3 * a * b + 2 * a - 5
    assert isinstance(e, Expr)
    assert total(e.args) is e
    first = e.args[0]
    assert isinstance(first, Mul)
    assert product(first.args) is first
