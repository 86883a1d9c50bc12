"""argmax and argmin of long rows: a position in each chunk, and the best of these."""

from __future__ import annotations

import numpy as np
import pytest

import broadloom as bl
from broadloom.fusion.handlers import instructions_of
from broadloom.fusion.ir import Reduce
from broadloom.fusion.lowerings.reductions import CHUNK, LONG

from .test_panels import kernels, program

DTYPES = (np.float32, np.float64, np.float16, np.int8, np.int64, np.uint16, np.bool_, np.complex64)


def rows(dtype, shape, seed=0):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "c":
        return (rng.integers(-3, 3, shape) + 1j * rng.integers(-3, 3, shape)).astype(dtype)
    return rng.integers(0, 2 if dtype is np.bool_ else 90, shape).astype(dtype)


def check(function, x, **options):
    got, expected = bl.compile(function, **options)(x), function(x)
    assert np.array_equal(got, expected) and np.asarray(got).dtype == np.int64


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dynamic", [False, True])
def test_the_first_of_many_wins(dtype, dynamic):
    for function in (lambda x: np.argmax(x), lambda x: np.argmin(x)):
        compiled = bl.compile(function, dynamic=dynamic)
        for size in (LONG, LONG + 1, 5 * CHUNK - 1) + ((1, 2, CHUNK, CHUNK + 1) if dynamic else ()):
            x = rows(dtype, size, size)
            assert compiled(x) == function(x)


def test_the_first_nan_wins():
    for places in ((5,), (3 * CHUNK + 1,), (LONG - 1, 2 * CHUNK), (0,), ()):
        x = rows(np.float32, LONG)
        x[2] = np.inf
        x[list(places)] = np.nan
        check(lambda x: np.argmax(x), x)
        check(lambda x: np.argmin(x), x)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("shape", [(3, LONG + 5), (LONG + 5, 3), (2, LONG, 3), (20, LONG + 3)])
def test_axes(axis, shape):
    for dynamic in (False, True):
        check(lambda x: np.argmax(x, axis=axis), rows(np.int32, shape), dynamic=dynamic)
        check(lambda x: np.argmin(x, axis=axis, keepdims=True), rows(np.float64, shape), dynamic=dynamic)


def test_values_that_are_no_array():
    x = np.random.default_rng(0).normal(size=LONG + 99)
    check(lambda x: np.argmax(np.sin(x) * 3 + x), x)
    check(lambda x: np.argmin(np.abs(x[::-1] - 0.3)), x)


def test_two_kernels_of_which_the_first_has_points_for_threads():
    compiled = bl.compile(lambda x: np.argmax(x))
    x = rows(np.float32, 4 * LONG + 1)
    assert compiled(x) == np.argmax(x)
    first, second = compiled.report().kernels
    assert first.loops.startswith(f"({4 * LONG // CHUNK + 1})") and second.loops.startswith("()")


def test_threads():
    x = np.random.default_rng(0).normal(size=60 * CHUNK + 7).astype(np.float32)
    for threads in (1, 2, 3, 4):
        check(lambda x: np.argmax(x), x, options={"num_threads": threads})


def stages(function, x, **options):
    (kernel,) = [k for k in kernels(program(function, x, **options)) if any(s.loops for s in k.stages)][:1]
    return [sum(isinstance(i, Reduce) for i in instructions_of(s.body)) for s in kernel.stages if s.loops]


@pytest.mark.parametrize("dynamic", [False, True])
def test_searches_have_a_loop_of_their_own(dynamic):
    """Beside them, sums and maxima keep their vectors."""
    flat, square, short = (np.ones(s, np.float32) for s in (100_000, (300, 300), (300, 20)))
    assert stages(lambda x: (x.argmax(), x.sum(), x.max()), flat, dynamic=dynamic) == [1, 2]
    assert stages(lambda x: (x.sum(), x.argmin(), x.argmax()), flat, dynamic=dynamic) == [1, 1, 1]
    assert stages(lambda x: ((x > 3).any(1), x.sum(1), (x > 3).all(1)), square, dynamic=dynamic) == [1, 1, 1]
    assert stages(lambda x: (x.argmax(0), x.sum(0)), square) == [2]  # columns lie side by side
    assert stages(lambda x: ((x > 3).any(1), x.sum(1)), short) == [2]


def test_a_gather_takes_no_vectors_from_a_fold(rng):
    x, places = rng.standard_normal((90, 300)).astype(np.float32), rng.integers(0, 300, 300)

    def f(x, places):
        return x.max(1), np.take(x, places, 1), x[:, places]

    one, other = kernels(program(f, x, places))  # NumPy stores the last in columns
    assert len([s for s in one.stages if s.loops]) == 2 and len(other.outer) == 2
    for got, want in zip(bl.compile(f, fullgraph=True)(x, places), f(x, places), strict=True):
        np.testing.assert_array_equal(got, want)
    with pytest.raises(IndexError):
        bl.compile(f, fullgraph=True)(x, places + 300)


def test_what_stands_beside_a_search_stays_exact():
    x = np.full(3_000_000, 0.1, np.float32)
    _, _, got = bl.compile(lambda x: (x.min(), x.argmax(), x.sum()))(x)
    assert abs(got / (np.float64(x[0]) * x.size) - 1) < 1e-6


@pytest.mark.parametrize("dtype", DTYPES)
def test_searches_beside_others(dtype):
    def f(x):
        return x.argmax(), x.max(), np.sum(x), x.argmin(), np.any(x == 1), np.all(x == 1)

    for shape in ((70,), (3 * CHUNK + 5,), (90, 130)):
        x = rows(dtype, shape)
        with np.errstate(over="ignore"):  # of float16 sums
            wanted = f(x)
        for dynamic in (False, True):
            for got, want in zip(bl.compile(f, dynamic=dynamic, fullgraph=True)(x), wanted, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-3 if dtype is np.float16 else 1e-6)
