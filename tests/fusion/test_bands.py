"""Wide columns, cut into bands of whole rows: which are, what comes out, and on any number of threads the same."""

from __future__ import annotations

import numpy as np
import pytest

import broadloom as bl
from broadloom.dtypes import float16, float32, float64
from broadloom.fusion.bands import BANDS, LEAST_ROWS, MOST_COLUMNS
from tests.fusion.graphs import graph_of, kernels

WIDE = (4096, 1024)


def softmax(x):
    e = np.exp(x - np.max(x, axis=0, keepdims=True))
    return e / np.sum(e, axis=0, keepdims=True)


def standardised(x):
    return (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1)


def extremes(x):
    return np.max(x, axis=0), np.min(x, axis=0), np.sum(x, axis=0), np.prod(x, axis=0)


def signs(x):
    return (x > 1).any(axis=0), (x < 2).all(axis=0), (x > 0).sum(axis=0)


def in_place(x):
    x -= x.mean(axis=0)
    return x.max(axis=0) * 2


def weighted(x):
    return (x * np.arange(x.shape[0], dtype=x.dtype)[:, None]).sum(axis=0) / (np.abs(x).max(axis=0) + 1)


def column_sums(b, x):
    return b.call("sum", x, axes=(-2,), keepdims=False)


def extents(kernel):
    return tuple(loop.extent for loop in kernel.outer), [tuple(x.extent for x in s.loops) for s in kernel.stages]


def test_each_phase_is_a_kernel_over_bands_and_one_that_puts_them_together():
    def f(b, x):
        e = b.call("exp", b.call("subtract", x, b.call("max", x, axes=(-2,), keepdims=True)))
        return b.call("divide", e, b.call("sum", e, axes=(-2,), keepdims=True))

    rows, columns = WIDE
    largest, top, total, whole, quotient = map(extents, kernels(graph_of(f, WIDE)))
    assert largest == total == ((BANDS, columns), [(rows // BANDS,), ()])
    assert top == whole == ((columns,), [()])
    assert quotient == ((BANDS, columns), [(rows // BANDS,)])


@pytest.mark.parametrize("columns", [64, 128, 255])
def test_long_columns_are_cut_into_bands_and_not_into_chunks(columns):
    """So that what makes a sum stays in the kernel that adds it up."""

    def f(b, x):
        e = b.call("exp", b.call("subtract", x, b.call("max", x, axes=(-2,), keepdims=True)))
        return b.call("divide", e, b.call("sum", e, axes=(-2,), keepdims=True))

    rows = 40_000
    found = [extents(k) for k in kernels(graph_of(f, (rows, columns)))]
    band, whole = ((BANDS, columns), (rows // BANDS,)), (columns,)
    assert [outer for outer, _ in found] == [band[0], whole, band[0], whole, band[0]]
    assert all(band[1] in loops for outer, loops in found if outer == band[0])


@pytest.mark.parametrize(("columns", "dtype", "op"), [(63, float32, "sum"), (128, float16, "prod")])
def test_other_long_columns_are_cut_into_chunks(columns, dtype, op):
    def f(b, x):
        return b.call(op, x, axes=(-2,), keepdims=False)

    first, _ = map(extents, kernels(graph_of(f, (70_000, columns), dtype=dtype)))
    assert first[0] == (9, columns)


def test_what_is_stored_and_not_loaded_goes_by_rows():
    def f(b, x):
        return b.call("subtract", x, b.call("max", x, axes=(-2,), keepdims=True))

    assert [extents(k) for k in kernels(graph_of(f, WIDE))][-1] == (WIDE, [()])


@pytest.mark.parametrize(
    ("shape", "dtype", "count"),
    [
        (WIDE, float32, 2),
        ((BANDS * LEAST_ROWS, MOST_COLUMNS), float32, 1),  # a strip is in the cache
        ((2 * BANDS * LEAST_ROWS, MOST_COLUMNS), float64, 2),
        ((4096, MOST_COLUMNS + 1), float32, 1),
        ((20000, 33), float32, 1),
        ((70000, 200), float32, 2),
        ((70000, 64), float64, 2),
        ((300, 300), float32, 1),
    ],
)
def test_only_wide_columns_that_no_cache_holds_are_cut(shape, dtype, count):
    assert len(kernels(graph_of(column_sums, shape, dtype=dtype))) == count


def test_products_of_halves_are_rounded_once():
    def f(b, x):
        return b.call("prod", x, axes=(-2,), keepdims=False)

    assert len(kernels(graph_of(f, WIDE, dtype=float16))) == 1


@pytest.mark.parametrize("function", [softmax, standardised, extremes, signs, in_place, weighted])
@pytest.mark.parametrize("shape", [(1024, 512), (1003, 517), (3001, 130), (300, 4095), (33_333, 65)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_results_are_numpys_and_the_same_on_any_threads(function, shape, dtype, rng):
    x = rng.normal(loc=1, scale=0.1, size=shape).astype(dtype)
    plain = x.astype(np.float64)
    want = function(plain)
    found = []
    for threads in (1, 2, 3, 4):
        own = x.copy()
        got = bl.compile(function, fullgraph=True, options={"num_threads": threads})(own)
        got = got if isinstance(got, tuple) else (got,)
        found.append([own.tobytes(), *(g.tobytes() for g in got)])
        tolerance = 2e3 * np.finfo(dtype).eps
        for g, w in zip((own, *got), (plain, *(want if isinstance(want, tuple) else (want,))), strict=True):
            np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance)
    assert all(f == found[0] for f in found)


def test_integers_are_exact_and_nan_stays(rng):
    shape = (2000, 700)
    numbers = rng.integers(-(2**31), 2**31 - 1, shape, dtype=np.int32)
    got = bl.compile(lambda x: (x.sum(axis=0), x.max(axis=0), x.min(axis=0)))(numbers)
    for g, w in zip(got, (numbers.sum(axis=0), numbers.max(axis=0), numbers.min(axis=0)), strict=True):
        assert g.dtype == w.dtype
        np.testing.assert_array_equal(g, w)
    x = rng.normal(size=shape).astype(np.float32)
    x[1999, ::3], x[0, 1::3], x[1000, 2] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        want = softmax(x.astype(np.float64))
    np.testing.assert_allclose(bl.compile(softmax)(x), want, rtol=1e-4, atol=1e-7)


def test_the_report_says_why():
    f = bl.compile(lambda x: x.max(axis=0))
    f(np.ones(WIDE, np.float32))
    (decision,) = (str(d) for d in f.report().fusions if "bands" in str(d))
    assert "not fused, bands of 256 rows, as no cache near a core holds 16777216 bytes" in decision
