"""Reductions, scans and statistics against NumPy: accumulator dtypes, axes, kinds, layouts, all keywords."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from broadloom.dtypes import ALL, bfloat16
from tests.frontend.harness import check, refused

LAYOUTS = {
    "c": lambda: np.arange(24.0).reshape(2, 3, 4) - 7,
    "f": lambda: np.asfortranarray(np.arange(24.0).reshape(2, 3, 4)) - 7,
    "t": lambda: np.arange(24.0).reshape(4, 2, 3).transpose(1, 2, 0),
    "strided": lambda: np.arange(96.0).reshape(4, 6, 4)[::2, ::2],
    "nan": lambda: np.where(np.arange(24) % 5 == 0, np.nan, np.arange(24.0)).reshape(2, 3, 4),
    "int": lambda: np.arange(24, dtype=np.int16).reshape(2, 3, 4) - 5,
    "bool": lambda: np.arange(24).reshape(2, 3, 4) % 3 == 0,
    "complex": lambda: np.arange(24).reshape(2, 3, 4) * (1 - 0.5j),
    "half": lambda: np.arange(24, dtype=np.float16).reshape(2, 3, 4),
}

EXPRESSIONS = {
    "sum": lambda np, x: (x.sum(), np.sum(x), x.sum(0), x.sum(axis=-1), np.sum(x, (0, 2)), x.sum((0, 1, 2))),
    "sum-keepdims": lambda np, x: (x.sum(1, keepdims=True), np.sum(x, keepdims=True), x.sum(keepdims=False)),
    "sum-dtype": lambda np, x: (x.sum(dtype="c16"), np.sum(x, 0, np.complex64), x.sum(1, "c16")),
    "sum-initial": lambda np, x: (x.sum(initial=5), np.sum(x, 1, initial=2)),
    "sum-where": lambda np, x: (x.sum(where=x != 1), np.sum(x, 0, where=[True, False, True, True])),
    "sum-nothing": lambda np, x: (x.sum(axis=()), x[:0].sum(), x[:0].sum(0)),
    "sum-out": lambda np, x: np.sum(x, 0, dtype="c16", out=np.zeros((3, 4), "c16")),
    "prod": lambda np, x: (x[0, :2].prod(), np.prod(x, 0), x.prod(-1, keepdims=True), x.prod(1, initial=2)),
    "max": lambda np, x: (x.max(), np.max(x, 0), x.max((1, 2)), np.amax(x, -1, keepdims=True), x.max(1)),
    "max-initial": lambda np, x: (x.max(initial=5), np.max(x[:0], 0, initial=1), np.max(x, where=x < 3, initial=0)),
    "min": lambda np, x: (x.min(), np.min(x, 0), x.min((0, 1)), np.amin(x, 1), x.min(initial=-3)),
    "mean": lambda np, x: (x.mean(), np.mean(x, 0), x.mean((0, 2), keepdims=True), x.mean(-1)),
    "mean-dtype": lambda np, x: (x.mean(dtype="c16"), np.mean(x, 0, np.complex64)),
    "mean-where": lambda np, x: np.mean(x, 1, where=x != 2),
    "mean-out": lambda np, x: np.mean(x, 0, out=np.zeros((3, 4), "c16")),
    "var": lambda np, x: (x.var(), np.var(x, 0), x.var((0, 2), keepdims=True), x.var(ddof=1), x.var(1, ddof=1.5)),
    "std": lambda np, x: (x.std(), np.std(x, 1, ddof=1), x.std(-1), np.std(x, 0, correction=1), x.std(dtype="c16")),
    "var-where": lambda np, x: (np.var(x, 1, where=x != 2), np.std(x, where=x != 1, ddof=1)),
    "var-mean": lambda np, x: np.var(x, 1, mean=np.mean(x, 1, keepdims=True)),
    "all": lambda np, x: (x.all(), np.all(x, 0), x.all((0, 1), keepdims=True), np.all(x, where=x != 0)),
    "any": lambda np, x: (x.any(), np.any(x, 1), x.any(-1), np.any(x, where=x == 0)),
    "all-out": lambda np, x: np.all(x, 0, out=np.zeros((3, 4))),
    "argmax": lambda np, x: (x.argmax(), np.argmax(x, 0), x.argmax(-1), np.argmax(x, 1, keepdims=True)),
    "argmin": lambda np, x: (x.argmin(), np.argmin(x, 2), x.T.argmin(), np.argmin(x, keepdims=True)),
    "count_nonzero": lambda np, x: (np.count_nonzero(x, 0), np.count_nonzero(x, (0, 1), keepdims=True)),
    "ptp": lambda np, x: (np.ptp(x), np.ptp(x, 0), np.ptp(x, -1, keepdims=True)),
    "average": lambda np, x: (np.average(x), np.average(x, 0), np.average(x, 1, keepdims=True)),
    "average-weights": lambda np, x: (
        np.average(x, 1, [1.0, 2, 3]),
        np.average(x, weights=np.ones((2, 3, 4))),
        np.average(x, 2, weights=[1, 2, 3, 4], returned=True),
    ),
    "average-returned": lambda np, x: np.average(x, 0, returned=True),
    "nansum": lambda np, x: (np.nansum(x), np.nansum(x, 0), np.nanprod(x, 2)),
    "nanmax": lambda np, x: (np.nanmax(x), np.nanmax(x, 0), np.nanmin(x, (1, 2)), np.nanmin(x, 1, keepdims=True)),
    "nanmean": lambda np, x: (np.nanmean(x), np.nanmean(x, 0), np.nanmean(x, 1, keepdims=True)),
    "nanvar": lambda np, x: (np.nanvar(x), np.nanstd(x, 0), np.nanvar(x, 1, ddof=1)),
    "cumsum": lambda np, x: (x.cumsum(), np.cumsum(x, 0), np.cumsum(x, -1, dtype="c16"), x.cumprod(1)),
    "nancumsum": lambda np, x: (np.nancumsum(x), np.nancumprod(x, 1)),
    "cumulative_sum": lambda np, x: (
        np.cumulative_sum(x, axis=1, include_initial=True),
        np.cumulative_prod(x[0, 0]),
        np.cumulative_sum(x, axis=0),
    ),
    "trace": lambda np, x: (np.trace(x), x.trace(1, 1, 2), np.linalg.trace(x)),
    "norm": lambda np, x: (np.linalg.norm(x), np.linalg.norm(x, axis=1), np.linalg.norm(x, axis=(0, 1))),
    "norm-ord": lambda np, x: (
        np.linalg.norm(x[0, 0], 1),
        np.linalg.norm(x, np.inf, axis=-1),
        np.linalg.norm(x, -np.inf, axis=0),
        np.linalg.norm(x[0], 1),
        np.linalg.norm(x[0], np.inf, keepdims=True),
        np.linalg.norm(x, 3, axis=1),
        np.linalg.norm(x, 0, axis=1),
        np.linalg.norm(x[0], "fro"),
    ),
    "vector_norm": lambda np, x: (
        np.linalg.vector_norm(x),
        np.linalg.vector_norm(x, axis=1, ord=1),
        np.linalg.matrix_norm(x),
        np.linalg.vector_norm(x, keepdims=True),
    ),
    "scalar-results": lambda np, x: (x[0, 0, 0].sum(), np.max(x[0, 0, 0]), x[0, 0, 0].mean(), np.argmax(x[0, 0, 0])),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expression(name: str, layout: str) -> None:
    x = LAYOUTS[layout]()
    f = EXPRESSIONS[name]
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            f(np, x)
    except (ValueError, TypeError):
        refused(f, x)
        return
    if name in ("nanmax", "nanmean") and layout == "complex":
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(f, x, exact=False)


def test_accumulators_of_every_dtype() -> None:
    for d in ALL:
        x = np.arange(12).reshape(3, 4).astype(d.numpy)
        check(lambda np, x: (x.sum(), x.sum(0), x.prod(1), x.max(), x.min(0), x.any(), x.all(1)), x, exact=False)
        check(lambda np, x: (x.argmax(), x.argmin(0), x.cumsum(), x.cumprod(1)), x, exact=False)
        if d.name != "bfloat16":
            check(lambda np, x: (x.mean(), x.mean(0), x.var(1), x.std()), x, exact=False)
            check(lambda np, x: (np.count_nonzero(x, 0), np.ptp(x.astype("f8"), 0)), x)


def test_small_products_widen() -> None:
    check(lambda np, x: (np.cumprod(x), x.prod(), x.sum(), np.multiply.accumulate(x)), np.array([15, 15, 3], np.uint8))


def test_out() -> None:
    x = np.arange(12.0).reshape(3, 4)
    check(lambda np, x, out: (np.sum(x, 0, out=out), np.max(x, 0, out=out)), x, np.zeros(4))
    check(lambda np, x, out: np.mean(x, 1, out=out), x, np.zeros(3, np.float32))
    check(lambda np, x, out: x.cumsum(0, out=out), x, np.zeros((3, 4)))
    check(lambda np, x, out: x.argmax(1, out=out), x, np.zeros(3, np.intp))
    check(lambda np, x, out: np.std(x, 1, out=out), x, np.zeros(3))
    check(lambda np, x, out: np.add.reduce(x, out=out), x, np.zeros(4))
    half = np.linspace(30, 40, 6, dtype=np.float16).reshape(2, 3)
    for dtype in (bool, np.uint8, np.int32, np.float16, np.float32, np.complex128):
        for values in (x, half, x.astype(np.int8), x > 3):
            for scan, total in (("cumsum", "sum"), ("cumprod", "prod")):
                check(lambda np, x, out: getattr(np, scan)(x, 1, out=out), values, np.zeros(values.shape, dtype))  # noqa: B023
                check(lambda np, x, out: getattr(np, total)(x, 1, out=out), values, np.zeros(len(values), dtype))  # noqa: B023
    check(lambda np, x, out: np.mean(x, 1, out=out), half, np.zeros(2, np.float32))
    check(lambda np, x, out: np.var(x, 1, out=out), half, np.zeros(2, np.float32))
    for out in (np.zeros(3), np.zeros((2, 4)), np.zeros(())):
        for f in (
            lambda np, x, out: np.sum(x, 0, out=out),
            lambda np, x, out: np.mean(x, 0, out=out),
            lambda np, x, out: np.argmax(x, 0, out=out),
            lambda np, x, out: np.cumsum(x[0], out=out),
            lambda np, x, out: np.concatenate([x[0]], out=out),
            lambda np, x, out: np.ptp(x, 0, out=out),
            lambda np, x, out: np.dot(x, x[0], out=out[:2]) if out.ndim == 2 else np.dot(x.T, x, out=out),
        ):
            refused(f, x, out)
    refused(lambda np, x, m: np.sum(x[0], where=m), x, np.ones((3, 4), bool))


def test_empty_reductions() -> None:
    x = np.zeros((0, 3))
    check(lambda np, x: (x.sum(0), x.prod(0), x.any(), x.all(0), x.max(1), x.mean(1), x.argmax(1)), x)
    for f in (lambda np, x: x.max(0), lambda np, x: x.min(), lambda np, x: x.argmax(), lambda np, x: x.argmin(0)):
        refused(f, x)


def test_constants_are_numpys_own() -> None:
    check(lambda np: (np.sum([1, 2]), np.sqrt(2.0), np.prod((3, 4)), np.max([1.5, 2]), np.add(1, 2)))
    check(lambda np: (np.cumsum([1, 2, 3]), np.array([1, 2]) + 1, np.arange(3)))
    refused(lambda np: np.add("a", 1))


def test_numpy_does_not_know_the_nans_of_bfloat16() -> None:
    x = np.array([[1, np.nan, 3], [4, 5, 6]]).astype(bfloat16.numpy)
    names = ("nansum", "nanprod", "nancumsum", "nancumprod", "nanmin", "nanmax")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for values in (x, x.astype(np.float16)):
            check(lambda np, x: tuple(getattr(np, name)(x, axis=1) for name in names), values, exact=False)


def test_nan_extremes_have_the_memory_order_of_the_array() -> None:
    rows = np.broadcast_to(np.arange(310.0).reshape(31, 10) % 7, (3, 31, 10))
    axes = (0, 1, 2, (0, 1), (1, 2))
    for x in (rows, rows[:, ::-1], rows.transpose(1, 0, 2)):
        check(lambda np, x: tuple(f(x, axis) for axis in axes for f in (np.nanmin, np.nanmax)), x)


FOLDED = "hypot logaddexp2 gcd lcm bitwise_and bitwise_or bitwise_xor logical_xor subtract divide fmod copysign fmin"


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i1", "?"])
@pytest.mark.parametrize("name", FOLDED.split())
def test_folds_of_one_and_more_elements(name: str, dtype: str) -> None:
    """One element becomes what the ufunc makes of it and its identity, if it has one."""
    for n in (1, 2, 3):
        x = np.array([[-3.0], [2], [5]])[:n].astype(dtype)
        try:
            getattr(np, name).reduce(x)
        except TypeError:
            refused(lambda np, x: getattr(np, name).reduce(x), x)
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check(lambda np, x: (getattr(np, name).reduce(x), getattr(np, name).reduce(x, keepdims=True)), x)


def test_folds_cast_all_elements() -> None:
    z = np.array([1 + 2j, 3 - 1j])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the imaginary parts are discarded
        check(lambda np, z: (np.divide.reduce(z, dtype="f8"), np.power.reduce(z, dtype="f8")), z)
    check(lambda np, x: np.subtract.reduce(x, dtype=np.int8), np.array([300, 5, 7]))
