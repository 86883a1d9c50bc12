"""Squared distances and shifted exponentials, folded in the pass that finds the mean or the maximum."""

from __future__ import annotations

import numpy as np
import pytest

import broadloom as bl
from broadloom.fusion.lowerings.reductions import CHUNK, LONG
from broadloom.fusion.parse import parse
from broadloom.fusion.text import print_program
from tests.fusion.graphs import graph_of, scheduled

INF, NAN = np.inf, np.nan
SIZE = LONG + 77


def readers(compiled):
    """The kernels that read the argument from memory."""
    return [k for k in compiled.report().kernels if "in0" in k.loads]


@pytest.mark.parametrize("function", [lambda x: np.var(x, ddof=1), lambda x: bl.special.logsumexp(x)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_long_row_is_read_by_one_kernel(function, dynamic):
    compiled = bl.compile(function, dynamic=dynamic)
    compiled(np.ones(SIZE, np.float32))
    assert len(readers(compiled)) == 1
    (decision,) = [d for d in compiled.report().fusions if "in0 is read once: chunks" in str(d)]
    assert "fused" in str(decision)


def test_a_row_that_is_written_in_between_stays_apart():
    def f(x):
        m = x.sum()
        x[0] = 5.0
        return ((x - m / x.size) ** 2).sum()

    x = np.random.default_rng(0).normal(size=SIZE).astype(np.float32)
    expected = f(x.copy())
    np.testing.assert_allclose(bl.compile(f)(x.copy()), expected, rtol=1e-5)


def test_products_of_two_distances_stay_as_they_are():
    def f(x, y):
        return np.sum((x - np.mean(x)) * (y - np.mean(y)))

    x, y = np.random.default_rng(0).normal(size=(2, SIZE))
    np.testing.assert_allclose(bl.compile(f)(x, y), f(x, y), rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [LONG, LONG + 1, 5 * CHUNK - 1])
@pytest.mark.parametrize("mean", [0.0, 1.0, -1e3])
def test_variance_is_nearer_to_the_exact_one_than_the_sum_allows(dtype, size, mean):
    x = (np.random.default_rng(size).normal(size=size) + mean).astype(dtype)
    exact = np.var(x.astype(np.longdouble), ddof=1)
    got = bl.compile(lambda x: np.var(x, ddof=1))(x)
    assert got.dtype == dtype
    assert abs(got - exact) <= max(4 * np.finfo(dtype).eps * exact, 2 * abs(np.var(x, ddof=1) - exact))


def test_any_common_number_may_be_subtracted():
    def f(x, k):
        return np.sum(x), np.sum((x - k) ** 2), np.sum(np.square(k - x)), np.max(x), np.sum(np.exp(x - k))

    x = np.random.default_rng(1).normal(size=SIZE)
    for k in (0.0, -1.5, 40.0, 1e6):
        np.testing.assert_allclose(bl.compile(f)(x, k), f(x, k), rtol=1e-11)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.var(x, axis=-1),
        lambda x: np.std(x, axis=0, ddof=2),
        lambda x: np.var(x, axis=(0, 2), keepdims=True),
        lambda x: np.var(2 * x + 1),
        lambda x: np.mean((x - x.mean(axis=1, keepdims=True)) ** 2, axis=1),
        lambda x: np.log(np.sum(np.exp(x - np.max(x, axis=-1, keepdims=True)), axis=-1)),
        lambda x: np.var(x[:, ::2, ::-1], axis=2),
    ],
)
def test_axes(function):
    shapes = [(3, 3, LONG + 5), (LONG + 5, 3, 3), (3, LONG + 5, 2)]
    compiled = bl.compile(function)
    for shape in shapes:
        x = np.random.default_rng(2).normal(size=shape)
        np.testing.assert_allclose(compiled(x), function(x), rtol=1e-12)


def special_rows():
    """Rows of several chunks with infinities and nan in some of them."""
    plain = np.random.default_rng(3).normal(size=SIZE).astype(np.float32)
    yield plain
    for value in (INF, -INF, NAN):
        for place in (0, CHUNK + 3, slice(CHUNK, 2 * CHUNK), slice(None)):
            x = plain.copy()
            x[place] = value
            yield x
            x = x.copy()
            x[5] = -INF
            yield x
    yield plain - np.float32(1000)
    x = plain.copy()
    x[CHUNK:] = -300
    yield x
    most = np.finfo(np.float32).max
    yield np.full(SIZE, most / 4)  # whose sum overflows in each chunk,
    x = plain.copy()
    x[CHUNK + 3 : CHUNK + 6] = most  # in one,
    yield x
    yield np.full(SIZE, np.float32(3e33))  # and in none


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.var(x),
        lambda x: np.log(np.sum(np.exp(x - np.max(x)))) + np.max(x),
        lambda x: bl.special.logsumexp(x),
        lambda x: np.sum(np.exp(x - np.max(x) - 1)),
    ],
)
def test_infinities_and_nan(function):
    compiled = bl.compile(function)
    for x in special_rows():
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(compiled(x), function(x), rtol=2e-5)


def test_no_elements():
    compiled = bl.compile(lambda x: np.var(x), dynamic=True)
    for size in (SIZE, 1, 0, 2, CHUNK, CHUNK + 1):
        x = np.arange(size, dtype=np.float64)
        with np.errstate(all="ignore"):
            expected = np.nan if size == 0 else np.var(x)
        np.testing.assert_allclose(compiled(x), expected, rtol=1e-14)


@pytest.mark.parametrize("function", [lambda x: np.std(x), lambda x: bl.special.logsumexp(x)])
def test_bits_do_not_depend_on_the_number_of_threads(function):
    x = np.random.default_rng(4).normal(size=40 * CHUNK + 13).astype(np.float32)
    found = {bl.compile(function, options={"num_threads": n})(x).tobytes() for n in (1, 2, 3, 4)}
    assert len(found) == 1


def test_the_program_reads_back():
    def f(b, x):
        top = b.call("max", x, axes=(-1,), keepdims=True)
        total = b.call("divide", b.call("sum", x, axes=(-1,), keepdims=True), b.constant(np.float32(SIZE)))
        far = b.call("subtract", x, total)
        squares = b.call("sum", b.call("multiply", far, far), axes=(-1,), keepdims=False)
        return squares, b.call("sum", b.call("exp", b.call("subtract", x, top)), axes=(-1,), keepdims=False)

    program = scheduled(graph_of(f, (SIZE,))).program
    assert any(len(step.stages) > 2 for step in program.steps)
    assert parse(print_program(program)) == program
