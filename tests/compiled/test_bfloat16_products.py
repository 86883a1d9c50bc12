"""Products of bfloat16, whatever multiplies them: subnormal numbers and sums are kept, sums stay within their bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from broadloom.dtypes import bfloat16
from tests.compiled.test_products import assert_near, assert_without_copies, compiled

Array = np.ndarray[Any, Any]
HALF = bfloat16.numpy


def product(x: Array, y: Array) -> Array:
    return np.asarray(x @ y)


def single(x: Array, y: Array) -> Array:
    return np.asarray(x.astype(np.float32) @ y.astype(np.float32))


def halves(rng: np.random.Generator, shape: tuple[int, ...], scale: float = 1.0) -> Array:
    return (rng.normal(size=shape) * scale).astype(HALF)


@pytest.mark.parametrize("dynamic", [False, True])
def test_every_layout(dynamic: bool, rng: np.random.Generator) -> None:
    for m, k, n in [(100, 131, 97), (128, 128, 128), (65, 2101, 70), (300, 1, 3300)]:
        for orders in ("CC", "CF", "FC", "FF"):
            x, y = (np.asarray(halves(rng, s), order=o) for s, o in zip([(m, k), (k, n)], orders, strict=True))
            for function in (product, single):
                f = compiled(function, dynamic=dynamic)
                assert_near(f(x, y), x, y)
                assert_without_copies(f)


def test_sizes_of_the_call(rng: np.random.Generator) -> None:
    f = compiled(product, dynamic=True)
    for _ in range(40):
        m, k, n = (int(rng.choice([0, 2, 5, 9, 16, 31, 32, 33, 64, 100, 130, 513])) for _ in range(3))
        x, y = halves(rng, (m, k)), halves(rng, (k, n))
        assert_near(np.asarray(f(x, y)), x, y)
    assert len(f.report().compiles) <= 3


def test_any_strides(rng: np.random.Generator) -> None:
    x, y = halves(rng, (801, 903)), halves(rng, (903, 701))
    views = [(x[::5, ::3], y[::3, ::2]), (x[:190, ::-1], y[::-1, ::-1]), (x[1:200, 3:300], y[7:304, 5:120]), (x, x.T)]
    for a, b in views:
        f = compiled(single, dynamic=False)
        assert_near(f(a, b), a, b)
        assert_without_copies(f)


def test_stacks_and_one_matrix_for_all(rng: np.random.Generator) -> None:
    for left, right in [((3, 4, 70, 81), (81, 90)), ((5, 100, 110), (5, 110, 120)), ((4, 1, 90, 300), (3, 300, 101))]:
        x, y = halves(rng, left), halves(rng, right)
        for dynamic in (False, True):
            assert_near(compiled(single, dynamic=dynamic)(x, y), x, y)
        y[..., 3, 5] = 1e-39
        assert_near(compiled(single)(x, y), x, y)


@pytest.mark.parametrize("place", ["x", "y"])
def test_a_subnormal_number_times_a_large_one(place: str, rng: np.random.Generator) -> None:
    """What an instruction that takes it for zero would lose is all there is."""
    x, y = np.zeros((100, 110), HALF), np.zeros((110, 120), HALF)
    low, high = (x, y.T) if place == "x" else (y.T, x)
    low[7, 105], high[:, 105] = 1e-39, 1e38
    want = single(x, y)
    assert want.any()
    for dynamic in (False, True):
        np.testing.assert_array_equal(compiled(single, dynamic=dynamic)(x, y), want)


def test_subnormal_sums_are_kept() -> None:
    """Of numbers that are all normal: small ones, and such that nearly cancel."""
    x, y = np.full((100, 110), 2.0**-70, HALF), np.full((110, 120), 2.0**-70, HALF)
    np.testing.assert_array_equal(compiled(single)(x, y), np.float32(110 * 2.0**-140))
    x[:], y[:] = 0, 0
    x[:, 0], x[:, 1], y[:2] = 2.0**-60 * (1 + 2.0**-7), -(2.0**-60), 2.0**-66
    np.testing.assert_array_equal(compiled(single)(x, y), np.float32(2.0**-133))


@pytest.mark.parametrize("exponents, low", [((-56, -56), False), ((-56, -57), True), ((-90, -22), False)])
def test_the_least_exponents(exponents: tuple[int, int], low: bool) -> None:
    """Numbers at the border of what the instruction is used for, whose sums' last bit is the least there may be."""
    a, b = exponents
    x, y = np.zeros((100, 110), HALF), np.zeros((110, 120), HALF)
    x[:, 108], y[108] = 2.0**a * (1 + 2.0**-7), 2.0**b * (1 + 2.0**-7)
    x[:, 109], y[109] = -(2.0**a) * (1 + 2.0**-6), 2.0**b
    want = np.float32(x[0, 108]).astype(np.float64) * np.float64(y[108, 0])
    want += np.float64(x[0, 109]) * np.float64(y[109, 0])
    assert want == 2.0 ** (a + b - 14) and (abs(want) < 2.0**-126) == low
    np.testing.assert_array_equal(compiled(single)(x, y), np.float32(want))


def test_what_is_not_finite(rng: np.random.Generator) -> None:
    x, y = halves(rng, (100, 110)), halves(rng, (110, 120))
    x[3, 5], x[4, 109], y[7, 9] = np.inf, np.nan, -np.inf
    got, want = compiled(single)(x, y), single(x, y)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(got) * np.sign(got), np.isinf(want) * np.sign(want))
    x, y = np.full((100, 110), 1e30, HALF), np.full((110, 120), 1e30, HALF)
    assert np.isposinf(compiled(single)(x, y)).all()


def test_zeros(rng: np.random.Generator) -> None:
    x, y = halves(rng, (100, 110)), np.zeros((110, 120), HALF)
    for a, b in [(x, y), (y.T, x.T), (x * 0, y), (-x * 0, y)]:
        got = compiled(single)(a, b)
        assert not got.any() and not np.signbit(got).any()


@pytest.mark.parametrize("least", [1.0, 1e-39])
def test_the_same_bits_for_any_number_of_threads(least: float, rng: np.random.Generator) -> None:
    for shape in [(130, 3000, 120), (200, 90, 700)]:
        m, k, n = shape
        x, y = halves(rng, (m, k)), halves(rng, (k, n))
        x[-1, -1] = least
        alone, *others = (compiled(single, threads=t)(x, y).tobytes() for t in (1, 2, 3, 4))
        assert all(other == alone for other in others)


def test_an_epilogue_and_computed_operands(rng: np.random.Generator) -> None:
    def layer(x: Array, w: Array, bias: Array) -> Array:
        return np.asarray(np.maximum((x @ w).astype(np.float32) + bias, 0).astype(HALF))

    x, w, bias = halves(rng, (100, 131)), halves(rng, (131, 170)), rng.normal(size=170).astype(np.float32)
    f = compiled(layer)
    size = np.abs(x).astype(np.float64) @ np.abs(w).astype(np.float64)
    near = np.abs(f(x, w, bias).astype(np.float64) - layer(x, w, bias).astype(np.float64)) <= 0.01 * size
    assert near.all()
    assert_without_copies(f)
    g = compiled(lambda x, w: np.maximum(x, 0) @ w)
    assert_near(np.asarray(g(x, w)), np.maximum(x, 0), w)
