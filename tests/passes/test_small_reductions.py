"""Reductions of a few elements inside reductions: what they give, how many loops there are, and what is left alone."""

from __future__ import annotations

import numpy as np
import pytest

import broadloom as bl

SIZES = (37, 41)
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, -7.25]


def compiled(function, *arrays, **options):
    f = bl.compile(function, fullgraph=True, **options)
    with np.errstate(all="ignore"):
        got = f(*arrays)
    return got, f.report()


def points(rng, width, dtype):
    with np.errstate(over="ignore"):
        numbers = np.array([*SPECIAL, *rng.normal(size=60)], dtype)
    x, y = (rng.choice(numbers, (n, width)) for n in SIZES)
    return x, y


PROGRAMS = {
    "sum": lambda x, y: (x[:, None] - y).sum(-1).max(1),
    "product of sums": lambda x, y: ((x[:, None] * y) ** 2).sum(-1).min(0),
    "largest": lambda x, y: np.abs(x[:, None] - y).max(-1).min(1),
    "smallest": lambda x, y: np.minimum(x[:, None], y).min(-1).argmax(1),
    "prod": lambda x, y: (x[:, None] + y).prod(-1).max(0),
    "all": lambda x, y: (x[:, None] <= y).all(-1).sum(1),
    "any": lambda x, y: (x[:, None] > y).any(-1).sum(0),
    "kept": lambda x, y: np.sign(x[:, None] + y).sum(-1, keepdims=True).min(1),
    "first axis": lambda x, y: (x.T[:, :, None] - y.T[:, None]).sum(0).max(1),
    "nearest": lambda x, y: np.linalg.norm(x[:, None] - y, axis=-1).argmin(1),
    "two axes": lambda x, y: (x.reshape(-1, 1, 1, x.shape[1]) * y[:, :2, None]).sum((-1, -2)).max(1),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_numpys(name, dtype, rng):
    for width in (2, 3, 4):
        x, y = points(rng, width, dtype)
        with np.errstate(all="ignore"):
            want = PROGRAMS[name](x, y)
        got, report = compiled(PROGRAMS[name], x, y)
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-6 if dtype is np.float32 else 1e-14)
        np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))
        assert len(report.kernels) == 1 and not report.allocations


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64])
def test_integers_wrap_as_numpys(dtype, rng):
    x, y = (rng.integers(0, 100, (n, 3)).astype(dtype) for n in SIZES)

    def f(x, y):
        return (x[:, None] * y).sum(-1, dtype=x.dtype).max(1)

    got, report = compiled(f, x, y)
    np.testing.assert_array_equal(got, f(x, y))
    assert len(report.kernels) == 1 and not report.allocations


def test_sizes_that_are_symbols_take_no_memory_either(rng):
    f = bl.compile(lambda x: np.exp(-((x[:, None] - x) ** 2).sum(-1)).sum(1), fullgraph=True)
    for n in (5, 9, 31, 1, 0):  # the second size makes it a symbol; that of the other axis stays three
        x = rng.normal(size=(n, 3))
        np.testing.assert_allclose(f(x), np.exp(-((x[:, None] - x) ** 2).sum(-1)).sum(1), rtol=1e-13)
    assert len(f.report().compiles) == 2
    assert not f.report().allocations


def test_many_elements_and_halves_are_loops(rng):
    def f(x, y):
        return (x[:, None] - y).sum(-1).max(1)

    for x, y in (points(rng, 9, np.float32), points(rng, 3, np.float16)):
        _, report = compiled(f, x, y)
        assert len(report.allocations) == 1
