"""Sorting, searching, quantiles and counting through the frontend: values, kinds, dtypes and memory order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from broadloom.frontend import FUNCTIONS, entry_of, histograms, sorting
from broadloom.frontend.quantiles import METHODS
from broadloom.frontend.unsupported import DependsOnData
from tests.frontend.harness import call, check, refused

RNG = np.random.default_rng(7)
X = RNG.standard_normal((6, 5))
GAPS = np.where(X > 0.8, np.nan, X)
TIES = np.array([[2.0, 0.0, np.nan, 0.0, 2.0], [np.nan, np.inf, -np.inf, 0.0, 0.0]])
ZEROS = np.array([0.0, -0.0, 1.0, -0.0, np.nan, 0.0, -1.0])
SMALL = RNG.integers(-100, 100, (4, 7)).astype(np.int8)
NAN = complex(np.nan, 0)
COMPLEX = np.array(
    [2 + 1j, 1 + 5j, NAN, 1 - 2j, complex(0, np.nan), 2 + 0j, complex(np.nan, np.nan), complex(1, np.nan)]
)
EDGES = np.array([-1.0, -0.25, 0.0, 0.5, 2.0])
AXES = (None, 0, 1, -1, -2)


def layouts(x: np.ndarray) -> tuple[np.ndarray, ...]:
    return x, np.asfortranarray(x), x.T, x[::-1, ::2], x[:, ::-1], x[:0], x[:, :1], x[:, :0]


# ---- sort, argsort ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", AXES)
def test_sorts_of_every_layout(axis: int | None) -> None:
    for x in (*layouts(X), *layouts(SMALL), TIES):
        check(lambda np, x: np.sort(x, axis), x)
        check(lambda np, x: np.argsort(x, axis, kind="stable"), x)
        check(lambda np, x: (x.argsort(axis=axis, stable=True), np.sort(x, axis, kind="mergesort")), x)


@pytest.mark.parametrize("d", ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"])
def test_sorts_of_every_dtype(d: str) -> None:
    x = (RNG.standard_normal(40) * 3).astype(d) if d[0] != "u" else RNG.integers(0, 200, 40).astype(d)
    check(lambda np, x: (np.sort(x), np.argsort(x, stable=True), np.sort_complex(x)), x)
    check(lambda np, x: np.searchsorted(np.sort(x), x, side="right"), x)


def test_complex_numbers_are_sorted_by_parts_and_nans() -> None:
    check(lambda np, x: (np.sort(x), np.argsort(x, stable=True)), COMPLEX)
    check(lambda np, x: np.sort(np.stack([x, x[::-1]]), axis=1), COMPLEX)


def test_zeros_are_equal_and_keep_their_order() -> None:
    check(lambda np, x: (np.sort(x, stable=True), np.argsort(x, stable=True)), ZEROS)


def test_arrays_are_sorted_in_place() -> None:
    def whole(np: Any, x: Any) -> Any:
        return x.sort()

    def part(np: Any, x: Any) -> Any:
        y = x[1]
        y.sort()
        x[:, 2].partition(1)
        return y, x * 2

    check(whole, X)
    check(part, np.sort(X, axis=0))


def test_what_chooses_an_algorithm_changes_nothing() -> None:
    for kind in ("quicksort", "heapsort", "stable", "mergesort"):
        check(lambda np, x: np.sort(x, kind=kind), TIES)  # noqa: B023
    for f in (
        lambda np, x: np.sort(x, kind="bogo"),
        lambda np, x: np.sort(x, kind="stable", stable=True),
        lambda np, x: np.sort(x, order="f"),
        lambda np, x: np.sort(x, axis=2),
        lambda np, x: x.sort(axis=None),
        lambda np, x: np.sort(x[0, 0]),
    ):
        refused(f, X)
    x = X.copy()
    x.flags.writeable = False
    refused(lambda np, x: x.sort(), x)


def test_arrays_of_no_axes() -> None:
    zero = np.array(3.0)
    check(lambda np, x: (np.sort(x, axis=None), np.argsort(x), np.argsort(x, axis=None), np.argpartition(x, 0)), zero)
    check(lambda np, x: np.lexsort((x,)), zero)


@pytest.mark.parametrize("kth", [0, 3, -1, (1, 2), [0, -1]])
def test_partitions_put_their_elements_where_a_sort_does(kth: Any) -> None:
    where = np.asarray(kth)
    check(lambda np, x: np.partition(x, kth, axis=0)[where], X)
    check(lambda np, x: x[:, 0][np.argpartition(x[:, 0], kth)[where]], X)


def test_partitions_check_their_places() -> None:
    for f in (lambda np, x: np.partition(x, 5), lambda np, x: np.partition(x, -6), lambda np, x: np.partition(x, 1.5)):
        refused(f, X)
    refused(lambda np, x: np.partition(x, x[0, 0].astype(int)), X)


def test_lexsort() -> None:
    a, b = RNG.integers(0, 3, (2, 4, 6))
    check(lambda np, a, b: (np.lexsort((a, b)), np.lexsort([b, a], axis=0), np.lexsort(a)), a, b)
    refused(lambda np, a: np.lexsort((a, a[0])), a)
    refused(lambda np, a: np.lexsort(()), a)


# ---- searching -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted(side: str) -> None:
    values = np.array([[-2.0, 0.0, 0.5], [np.nan, 9.0, -0.0]])
    check(lambda np, a, v: np.searchsorted(a, v, side), EDGES, values)
    check(lambda np, a, v: np.searchsorted(a, v.T, side=side), EDGES, values)
    check(lambda np, a, v: (np.searchsorted(a, v[0, 2], side), a.searchsorted(0.25, side=side)), EDGES, values)
    check(lambda np, a: np.searchsorted(a, a, side), np.sort(COMPLEX))
    check(lambda np, a: np.searchsorted(a, [1, 2], side), np.arange(4, dtype=np.float32))
    check(lambda np, a: np.searchsorted(a[:0], a, side), EDGES)
    check(lambda np, a: np.searchsorted(a, a[:0], side), EDGES)
    check(lambda np, a: np.searchsorted(a, a, side, sorter=np.argsort(a, stable=True)), X[0])


def test_searchsorted_checks_its_arguments() -> None:
    for f in (
        lambda np, x: np.searchsorted(x, 1),
        lambda np, x: np.searchsorted(x[0], 1, side="middle"),
        lambda np, x: np.searchsorted(x[0], 1, sorter=[0, 1]),
        lambda np, x: np.searchsorted(x[0], 1, sorter=x[0]),
    ):
        refused(f, X)


@pytest.mark.parametrize("right", [False, True])
def test_digitize(right: bool) -> None:
    for bins in (EDGES, EDGES[::-1], EDGES[:1], EDGES[:0], np.zeros(3)):
        check(lambda np, x, b: np.digitize(x, b, right), X, bins)
        listed = bins.tolist()
        check(lambda np, x: np.digitize(x, listed, right), X)  # noqa: B023
    check(lambda np, x: np.digitize(x[0, 0], [0, 1], right), X)
    refused(lambda np, x: np.digitize(x, [0, 2, 1]), X)
    refused(lambda np, x: np.digitize(x, x), X)
    refused(lambda np, x: np.digitize(x * 1j, [0, 1]), X)


POINTS = np.array([-1.5, -0.5, 0.25, 1.0, 2.5])
HEIGHTS = np.array([3.0, -1.0, np.inf, 4.0, 4.0])
ASKED = np.concatenate([np.linspace(-2, 3, 23), POINTS, [np.nan, np.inf, -np.inf]])


@pytest.mark.parametrize("heights", [HEIGHTS, np.arange(5), HEIGHTS + 1j * POINTS, np.array([1j, np.nan, 2, 3, 4])])
def test_interp(heights: np.ndarray) -> None:
    check(lambda np, x, p, h: np.interp(x, p, h), ASKED, POINTS, heights)
    check(lambda np, x, p, h: np.interp(x.reshape(1, -1), p, h, left=-7, right=7.5), ASKED, POINTS, heights)
    check(lambda np, x, p, h: np.interp(x, p[:1], h[:1]), ASKED, POINTS, heights)
    check(lambda np, x, p, h: np.interp(0.5, p, h), ASKED, POINTS, heights)
    finite = np.where(np.isfinite(heights), heights, 0)
    check(lambda np, x, p, h: np.interp(x, p, h, period=2.25), ASKED[:-3], POINTS, finite, exact=False)


def test_interp_checks_its_arguments() -> None:
    for f in (
        lambda np, x: np.interp(x, x[:2], x[:3]),
        lambda np, x: np.interp(x, x[:0], x[:0]),
        lambda np, x: np.interp(x, x.reshape(1, -1), x),
        lambda np, x: np.interp(x * 1j, x, x),
        lambda np, x: np.interp(x, x, x, period=0),
    ):
        refused(f, POINTS)


@pytest.mark.parametrize(
    "others", [np.array([3, 5, 3]), np.arange(-60, 60, 3), np.array([], int), np.array([[2.5, 7]])]
)
def test_isin(others: np.ndarray) -> None:
    check(lambda np, x, o: (np.isin(x, o), np.isin(x.T, o, invert=True), np.isin(x[0, 0], o)), SMALL, others)
    check(lambda np, x: np.isin(x, others), SMALL)
    check(lambda np, x: np.isin(x, x[0]), TIES)
    refused(lambda np, x: np.isin(x, others, kind="hash"), SMALL)


# ---- quantiles -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [*AXES, (0, 1), ()])
def test_medians(axis: Any) -> None:
    for x in (X, X[:5, :4], GAPS, np.asfortranarray(X), SMALL, X.astype(np.float32), X + 1j * X, X[:, :1]):
        check(lambda np, x: (np.median(x, axis), np.median(x, axis, keepdims=True)), x)
    for x in (X, GAPS, GAPS[:5], np.full((3, 2), np.nan), SMALL):
        check(lambda np, x: np.nanmedian(x, axis, keepdims=True), x, strides=False)


def test_medians_of_nothing_and_into_out() -> None:
    check(lambda np, x: (np.median(x), np.median(x, axis=0), np.median(x, axis=1)), X[:0])
    check(lambda np, x, out: np.median(x, axis=0, out=out), X, np.zeros(5))
    check(lambda np, x: np.median(x > 0), X)


@pytest.mark.parametrize("method", METHODS)
def test_quantiles_by_every_method(method: str) -> None:
    for q in (0.3, 0.0, 1.0, 1, 0, [0.0, 0.25, 0.5, 0.77, 1.0], np.float32(0.5), np.float64(0.9), [[0.1], [0.6]]):
        for x in (X, X[:5], SMALL, X.astype(np.float32), GAPS):
            check(lambda np, x: np.quantile(x, q, axis=0, method=method), x)  # noqa: B023
        check(lambda np, x: np.quantile(x, q, method=method, keepdims=True), X)  # noqa: B023
    for p in (30, 62.5, [5, 50, 99.5]):
        check(lambda np, x: np.percentile(x, p, axis=1, method=method), X.astype(np.float32))  # noqa: B023
        check(lambda np, x: np.percentile(x, p, axis=(0, 1), method=method), SMALL)  # noqa: B023


def test_quantiles_known_at_run_time() -> None:
    check(lambda np, x, q: (np.quantile(x, q), np.percentile(x, q, axis=1)), X, 0.25)
    check(lambda np, x, q: np.quantile(x, q, axis=1), X, np.array([0.1, 0.9]))


def test_quantiles_check_their_arguments() -> None:
    for f in (
        lambda np, x: np.quantile(x, 1.5),
        lambda np, x: np.percentile(x, [-1, 50]),
        lambda np, x: np.quantile(x, 0.5, method="best"),
        lambda np, x: np.quantile(x * 1j, 0.5),
        lambda np, x: np.quantile(x[:0], 0.5),
        lambda np, x: np.quantile(x, np.zeros((1, 1, 1))),
        lambda np, x: np.quantile(x, 0.5, method="inverted_cdf", weights=x),
    ):
        refused(f, X)


# ---- counting --------------------------------------------------------------------------------------------------------

DATA = np.concatenate([RNG.standard_normal(200), EDGES, [np.inf, -np.inf, np.nan, 2.0]])


@pytest.mark.parametrize(
    "how",
    [{"bins": 10, "range": (-2, 2)}, {"bins": 3, "range": (0.5, 0.5)}, {"bins": EDGES}, {"bins": [-1, 0, 0, 3]}],
    ids=str,
)
def test_histograms(how: dict[str, Any]) -> None:
    weights = np.arange(len(DATA)) % 7
    check(lambda np, x: np.histogram(x, **how), DATA)
    check(lambda np, x: np.histogram(x.reshape(-1, 1), **how, density=True), DATA)
    check(lambda np, x, w: np.histogram(x, **how, weights=w), DATA, weights)
    check(lambda np, x, w: np.histogram(x, **how, weights=w), DATA, weights / 7, exact=False)
    check(lambda np, x: np.histogram_bin_edges(x, **how), DATA)


@pytest.mark.parametrize("d", ["?", "i1", "u1", "i4", "u8", "f2", "f4", "f8"])
def test_histograms_over_the_range_of_the_data(d: str) -> None:
    x = RNG.integers(0, 100, 60).astype(d)
    check(lambda np, x: (np.histogram(x), np.histogram(x, 7), np.histogram(x[:1], 3), np.histogram(x[:0], 3)), x)
    if d in ("i1", "f4"):
        check(lambda np, x: np.histogram(x, 9), np.array([-128, 127, 5], d))


def test_histograms_check_their_arguments() -> None:
    for f in (
        lambda np, x: np.histogram(x, 0),
        lambda np, x: np.histogram(x, [0, 2, 1]),
        lambda np, x: np.histogram(x, 3, (1, 0)),
        lambda np, x: np.histogram(x, 3, (0, np.inf)),
        lambda np, x: np.histogram(x, 3, weights=x[:1]),
        lambda np, x: np.histogram(x, 2.5),
    ):
        refused(f, X[0])
    assert isinstance(refused(lambda np, x: np.histogram(x, "auto"), X), DependsOnData)


def test_bincount_with_a_length() -> None:
    def bincount(np: Any, x: Any, **how: Any) -> Any:
        if hasattr(x, "r"):
            return call(x.r, FUNCTIONS[histograms.bincount], x, **how)
        return np.bincount(x, how.get("weights"), how["length"])

    x = np.array([3, 1, 1, 0, 3], np.uint8)
    check(lambda np, x: bincount(np, x, length=4), x)
    check(lambda np, x, w: bincount(np, x, length=6, weights=w), x, np.array([0.5, 1, 2, 3, 4]))
    check(lambda np, x: bincount(np, x[:0], length=3), x)
    refused(lambda np, x: bincount(np, x, length=2, minlength=3), x)
    refused(lambda np, x: bincount(np, x * 1.0, length=2), x)


def test_what_only_the_data_can_tell_is_refused_by_name() -> None:
    names = ["unique", "unique_all", "unique_counts", "unique_inverse", "unique_values"]
    names += ["nonzero", "flatnonzero", "argwhere", "where", "bincount"]
    for name in names:
        error = refused(lambda np, x: getattr(np, name)(x), np.array([1, 2]))  # noqa: B023
        assert isinstance(error, DependsOnData) and name in error.what and error.remedy, name
    for name in ("union1d", "intersect1d", "setdiff1d", "setxor1d"):
        error = refused(lambda np, x: getattr(np, name)(x, x), np.array([1, 2]))  # noqa: B023
        assert isinstance(error, DependsOnData) and name in error.what


def test_own_functions_are_entries() -> None:
    for f in (sorting.topk, sorting.sort, sorting.argsort, histograms.bincount):
        entry = entry_of(f)
        assert entry is not None and entry.name == f"bl.{f.__name__}"
