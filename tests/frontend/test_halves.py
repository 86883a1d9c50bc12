"""16-bit floats in ordinary code, against NumPy. NumPy has no loops of its own for bfloat16 in many places: it widens
to float32, or counts it among no kind of number that it knows; dtype and type of the result tell."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.frontend.harness import check

PRODUCTS = {
    "matmul": lambda np, x, y: (x @ y, np.matmul(x, y[0]), np.matmul(x[0], y), np.matmul(x[0], y[0])),
    "matmul-stack": lambda np, x, y: (x[None] @ y, np.matmul(x, y, dtype=np.float32), np.linalg.matmul(x, y)),
    "matmul-others": lambda np, x, y: [
        x @ y.astype(d) for d in ("?", "i1", "u2", "i4", "i8", "f2", "f4", "f8", "c8", "c16")
    ],
    "matmul-left": lambda np, x, y: [x.astype(d) @ y for d in ("?", "u1", "i2", "u8", "f2", "f4")],
    "vecdot": lambda np, x, y: (np.vecdot(x, y), np.vecdot(x, y, axis=0), np.linalg.vecdot(x, y)),
    "matvec": lambda np, x, y: (np.matvec(x, y[0]), np.matvec(x, y), np.vecmat(x[0], y)),
    "dot": lambda np, x, y: (np.dot(x, y), x.dot(y[0]), np.dot(x[0], y[0]), np.dot(x, 2.0), np.dot(x, x[0, 0])),
    "dot-integers": lambda np, x, y: (np.dot(x, y.astype("i1")), np.inner(x, y.astype("?"))),
    "inner": lambda np, x, y: (np.inner(x, y), np.inner(x[0], y[0]), np.vdot(x, y), np.tensordot(x, y, 1)),
    "outer": lambda np, x, y: (np.outer(x, y), np.kron(x, y), np.cross(x[:, :3], y[:, :3])),
    "matrix_power": lambda np, x, y: (np.linalg.matrix_power(x, 3), np.linalg.multi_dot([x, y, x])),
    "convolve": lambda np, x, y: (np.convolve(x[0], y[0]), np.correlate(x[0], y[0], "same")),
}

FORMULAS = {
    "clip": lambda np, x, y: (np.clip(x, 0, 1), x.clip(-1, y), x.clip(0.5), np.clip(x, None, 1), x.clip(y, 1.5)),
    "clip-others": lambda np, x, y: (x.clip(np.arange(4), 5), x.clip(np.float32(0), 1), x.clip(True, 2)),
    "clip-of-others": lambda np, x, y: (np.arange(4).clip(x, 2), np.float32(3) + np.clip(x[0, 0], 0, 1)),
    "gradient": lambda np, x, y: (np.gradient(x, axis=0), np.gradient(x, 2.0, axis=1), np.gradient(x[0], edge_order=2)),
    "norm": lambda np, x, y: (np.linalg.norm(x), np.linalg.norm(x, axis=1), np.linalg.norm(x, 1)),
    "norm-orders": lambda np, x, y: [np.linalg.norm(x[0], order) for order in (0, 1, 2, 3, float("inf"))],
    "norm-vectors": lambda np, x, y: (np.linalg.vector_norm(x), np.linalg.matrix_norm(x)),
    "sinc": lambda np, x, y: (np.sinc(x), np.sinc(x * 0)),
    "nan_to_num": lambda np, x, y: (np.nan_to_num(x / (x * 0)), np.nan_to_num(x, nan=1.0)),
    "means": lambda np, x, y: (x.mean(), x.var(axis=0), np.average(x, axis=1), np.trapezoid(x), np.cov(x)),
}

DTYPES = pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["float16", "bfloat16"])


def small(dtype):
    """Numbers whose products and sums are exact in either dtype, so that only the roundings at the end differ."""
    x = np.array([[1, -2, 0.5, 3], [0, 1.5, -1, 2], [-0.5, 4, 1, 0], [2, 1, -3, 0.25]])
    return x.astype(dtype), (x.T[::-1] * 0.5).astype(dtype)


@DTYPES
@pytest.mark.parametrize("name", sorted(PRODUCTS))
def test_products(name, dtype):
    check(PRODUCTS[name], *small(dtype), strides=False)


@DTYPES
@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_formulas(name, dtype):
    check(FORMULAS[name], *small(dtype), exact=False)


@DTYPES
def test_products_written_into_other_arrays(dtype):
    def f(np, x, y):
        narrow, wide = np.zeros_like(x), np.zeros((4, 4), np.float32)
        np.matmul(x, y, out=narrow)
        np.matmul(x, y, out=wide)
        np.clip(x, -1, 1, out=narrow[0:4])
        x @= y
        return narrow, wide, x

    check(f, *small(dtype))


def test_linear_algebra_takes_bfloat16_as_no_float_of_its_own() -> None:
    m = np.array([[2, 1], [1, 3]], ml_dtypes.bfloat16)
    for f in (
        lambda np, m: (np.linalg.inv(m), np.linalg.det(m), np.linalg.slogdet(m)),
        lambda np, m: (np.linalg.solve(m, m[0]), np.linalg.solve(m.astype("f4"), m), np.linalg.cholesky(m)),
        lambda np, m: (np.linalg.cond(m), np.linalg.matrix_rank(m), np.linalg.eigvalsh(m), np.linalg.svdvals(m)),
        lambda np, m: (np.linalg.pinv(m), np.linalg.norm(m, 2), np.linalg.matrix_power(m, -1)),
    ):
        check(f, m, exact=False, strides=False)
