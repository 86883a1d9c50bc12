"""Creation, formulas, padding and linear algebra against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.harness import check, refused

CREATION = {
    "zeros": lambda np, x: (np.zeros(3), np.zeros((2, 3), np.int32), np.zeros((2, 3), order="F"), np.zeros(())),
    "ones": lambda np, x: (np.ones((2, 1), dtype=bool), np.ones(0), np.ones([2, 2], "c8")),
    "full": lambda np, x: (np.full(3, 7), np.full((2, 2), 1.5, "f4"), np.full((2, 3), x), np.full(2, np.float32(3))),
    "full-int8": lambda np, x: np.full(3, -5, np.int8),
    "eye": lambda np, x: (
        np.eye(3),
        np.eye(2, 4, 1),
        np.eye(3, k=-1, dtype=int),
        np.identity(2, "f4"),
        np.eye(2, order="F"),
    ),
    "tri": lambda np, x: (np.tri(3), np.tri(3, 4, 1), np.tri(2, dtype=bool)),
    "vander": lambda np, x: (np.vander(x), np.vander(x, 2, increasing=True)),
    "arange": lambda np, x: (np.arange(5), np.arange(2, 9, 3), np.arange(9, 2, -2), np.arange(0), np.arange(3, 1)),
    "arange-float": lambda np, x: (np.arange(0, 1, 0.1), np.arange(5.0), np.arange(1, 2.5, 0.3), np.arange(3, 0, -0.7)),
    "arange-dtype": lambda np, x: (
        np.arange(10, dtype="f4"),
        np.arange(0, 1, 0.1, "f2"),
        np.arange(100, 130, dtype="u1"),
    ),
    "arange-scalars": lambda np, x: (np.arange(np.float32(0), np.float32(2), np.float32(0.3)), np.arange(np.int8(5))),
    "arange-big": lambda np, x: (
        np.arange(2**40, 2**40 + 5),
        np.arange(0.1, 1e6, 1e5),
        np.arange(-3, 3, dtype=complex),
    ),
    "arange-bool": lambda np, x: np.arange(2, dtype=bool),
    "linspace": lambda np, x: (np.linspace(0, 2, 5), np.linspace(1, 10), np.linspace(0, 1, 7, endpoint=False)),
    "linspace-few": lambda np, x: (
        np.linspace(0, 1, 0),
        np.linspace(3, 5, 1),
        np.linspace(3, 5, 2),
        np.linspace(1, 1, 4),
    ),
    "linspace-dtype": lambda np, x: (np.linspace(0, 10, 4, dtype=int), np.linspace(0, 1, 5, dtype="f4")),
    "linspace-retstep": lambda np, x: np.linspace(0, 1, 5, retstep=True),
    "linspace-arrays": lambda np, x: (
        np.linspace(x, 10.0, 4),
        np.linspace(0, x, 3, axis=-1),
        np.linspace(x[0], x[1], 5),
    ),
    "linspace-complex": lambda np, x: np.linspace(0, 1 + 2j, 4),
    "linspace-f4": lambda np, x: np.linspace(np.float32(0), np.float32(1), 7),
    "logspace": lambda np, x: (np.logspace(0, 2, 5), np.logspace(0, 3, 4, base=2.0), np.logspace(0, x, 3)),
    "geomspace": lambda np, x: np.geomspace(1, 1000, 4),
    "indices": lambda np, x: (np.indices((2, 3)), np.indices((2, 3), "f4")),
    "indices-sparse": lambda np, x: np.indices((2, 3), sparse=True),
    "array": lambda np, x: (np.array([1, 2, 3]), np.array([[1.5, 2], [3, 4]], "f4"), np.array(5), np.array([x, x])),
    "array-mixed": lambda np, x: (np.array([x[0], 2, 3.5]), np.array((1, x[1]), dtype="c8"), np.asarray([[x[0]], [1]])),
    "array-empty": lambda np, x: (np.array([]), np.array([[], []]), np.array([True, False])),
    "types": lambda np, x: (np.float32(x[0]), np.int64(x[1]), np.float64(2), np.float32(x), np.int8(5)),
}


@pytest.mark.parametrize("name", CREATION)
def test_creation(name: str) -> None:
    check(CREATION[name], np.array([1.5, 2.25, -3.0]), exact=name not in ("logspace", "geomspace"))


def test_writing_to_what_was_made_is_fresh() -> None:
    def f(np, x):
        a, b = np.zeros(3), np.zeros(3)
        c = np.array([1, 2, 3])
        a[0] = 1
        c += 1
        return a, b, c

    check(f, np.ones(1))


def test_refused_creations() -> None:
    x = np.array([1.5, 2.0])
    for f in (
        lambda np, x: np.zeros(-1),
        lambda np, x: np.full(2, 300, np.uint8),
        lambda np, x: np.array([1, 300], dtype=np.uint8) + x,
        lambda np, x: np.arange(x[0]),
        lambda np, x: np.zeros(x),
        lambda np, x: np.array([[1], [1, 2]]),
        lambda np, x: np.zeros(2, "U3"),
        lambda np, x: np.zeros(2, object),
        lambda np, x: np.zeros(2, np.longdouble),
        lambda np, x: np.linspace(0, 1, -1),
    ):
        refused(f, x)


FORMULAS = {
    "where": lambda np, x, y: (np.where(x > 1, x, y), np.where(x, 1, 0), np.where(x > 0, x, 0), np.where(True, x, y)),
    "where-dtypes": lambda np, x, y: (
        np.where(x > 1, np.float32(1), 2),
        np.where(x > 1, 1, 2.5),
        np.where(x > 0, 1j, x),
    ),
    "where-scalar": lambda np, x, y: np.where(x[0, 0] > 0, 1.0, 2.0),
    "select": lambda np, x, y: (np.select([x > 2, x > 1], [x, y]), np.select([x > 2, y > 1], [1, 2], default=9.5)),
    "choose": lambda np, x, y: np.choose(np.array([0, 1, 5]), [1, 2, 3], mode="clip"),
    "clip": lambda np, x, y: (np.clip(x, 0, 2), x.clip(1), x.clip(max=1), x.clip(min=0, max=1), np.clip(x, None, 1)),
    "clip-arrays": lambda np, x, y: (np.clip(x, y, 3), x.clip(y, y + 1), np.clip(x, min=y), np.clip(5, x, y)),
    "clip-dtype": lambda np, x, y: (x.astype("f4").clip(0, 1), x.astype("f4").clip(0, np.float64(1)), x.clip(0, 2j)),
    "clip-out": lambda np, x, y: np.clip(x, 0, 1, out=x),
    "clip-int": lambda np, x, y: x.astype(np.int8).clip(-1, 2),
    "round": lambda np, x, y: (
        np.round(x),
        x.round(1),
        np.around(x, 2),
        x.round(-1),
        np.rint(x),
        x.astype("f4").round(3),
    ),
    "round-int": lambda np, x, y: (x.astype(int).round(), np.round(x.astype(int), 2), np.round(x > 0)),
    "round-complex": lambda np, x, y: np.round(x + 1j * y, 1),
    "fix": lambda np, x, y: np.fix(x),
    "nan_to_num": lambda np, x, y: (np.nan_to_num(x / 0), np.nan_to_num(x / 0, nan=1.0, posinf=5, neginf=-5)),
    "nan_to_num-int": lambda np, x, y: (np.nan_to_num(x.astype(int)), np.nan_to_num(x[0, 0])),
    "nan_to_num-inplace": lambda np, x, y: np.nan_to_num(x, copy=False),
    "angle": lambda np, x, y: (np.angle(x + 1j * y), np.angle(x), np.angle(x + 1j, deg=True)),
    "sinc": lambda np, x, y: np.sinc(x),
    "isclose": lambda np, x, y: (np.isclose(x, y), np.isclose(x, x + 1e-9), np.isclose(x / 0, x / 0, equal_nan=True)),
    "isinf": lambda np, x, y: (np.isposinf(x / 0), np.isneginf(x / 0), np.isreal(x), np.iscomplex(x + 1j * (x > 0))),
    "diff": lambda np, x, y: (np.diff(x), np.diff(x, axis=0), np.diff(x, 2), np.diff(x, prepend=0), np.diff(x > 0)),
    "diff-append": lambda np, x, y: (np.diff(x, append=x[:, :1]), np.diff(x, 0), np.diff(x.astype("u1"))),
    "ediff1d": lambda np, x, y: np.ediff1d(x),
    "gradient": lambda np, x, y: (np.gradient(x), np.gradient(x, axis=0), np.gradient(x, 0.5, axis=1)),
    "cov-of-one": lambda np, x, y: (np.cov(x[:1], rowvar=False), np.cov(x[:, :1], rowvar=False), np.cov(x[:1])),
    "gradient-edges": lambda np, x, y: (np.gradient(x, edge_order=2, axis=1), np.gradient(x.astype("f4"), 2.0, axis=1)),
    "gradient-spacing": lambda np, x, y: np.gradient(x, 0.5, 2),
    "trapezoid": lambda np, x, y: (np.trapezoid(x), np.trapezoid(x, dx=0.5, axis=0), np.trapezoid(x, x[0])),
    "polyval": lambda np, x, y: (np.polyval([1, 2, 3], x), np.polyval([1.5, 0], x), np.polyval(x[0], y)),
    "cov": lambda np, x, y: (np.cov(x), np.cov(x, rowvar=False), np.cov(x[0], ddof=0), np.cov(x, bias=True)),
    "corrcoef": lambda np, x, y: (np.corrcoef(x), np.corrcoef(x[0]), np.corrcoef(y, rowvar=False)),
    "windows": lambda np, x, y: (x * np.hanning(4), np.sort([3, 1, 2]) + x[:, 0], x[np.tril_indices(3, 0, 4)]),
    "cumulative": lambda np, x, y: x.cumsum() / np.arange(1, 13),
    "softmax": lambda np, x, y: (
        np.exp(x - x.max(1, keepdims=True)) / np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True)
    ),
    "mean-by-len": lambda np, x, y: x.sum() / len(x),
    "modf": lambda np, x, y: (np.modf(x), divmod(x, 2), x % 0.7, x // 0.3),
    "matmul-operator": lambda np, x, y: (x @ y.T, x @ y[0], y[0] @ x.T, y[0] @ y[1]),
    "isscalar": lambda np, x, y: (np.isscalar(x[0, 0]), np.isscalar(x), np.isscalar(3.0)),
    "finfo": lambda np, x, y: x + np.finfo(np.float32).eps * np.iinfo(np.int8).max,
    "abs": lambda np, x, y: (abs(x), -x, +x, ~(x > 0), np.abs(x)),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formula(name: str) -> None:
    x = np.array([[-1.75, 2.5, 0.0, 1.26], [3.2, -0.5, 1.0, 7.125], [2.5, 3.5, -4.5, 15.0]])
    y = np.abs(x[::-1]) + 0.25
    approximate = ("polyval", "cov", "corrcoef", "softmax", "mean-by-len", "matmul-operator", "trapezoid")
    check(FORMULAS[name], x, y, exact=name not in approximate)


PADS = {
    "constant": lambda np, x: (np.pad(x, 1), np.pad(x, (1, 2)), np.pad(x, ((0, 1), (2, 0))), np.pad(x, [(1,), (2,)])),
    "constant-values": lambda np, x: (np.pad(x, 2, constant_values=7), np.pad(x, 1, constant_values=((1, 2), (3, 4)))),
    "edge": lambda np, x: (np.pad(x, 1, "edge"), np.pad(x, ((0, 2), (3, 1)), mode="edge")),
    "reflect": lambda np, x: (np.pad(x, 1, "reflect"), np.pad(x, ((2, 0), (1, 3)), "reflect"), np.pad(x, 9, "reflect")),
    "symmetric": lambda np, x: (
        np.pad(x, 2, "symmetric"),
        np.pad(x, ((3, 0), (1, 4)), "symmetric"),
        np.pad(x, 11, "symmetric"),
    ),
    "wrap": lambda np, x: (np.pad(x, 2, "wrap"), np.pad(x, ((1, 0), (4, 2)), "wrap"), np.pad(x, 9, "wrap")),
    "maximum": lambda np, x: (np.pad(x, 1, "maximum"), np.pad(x, 2, "minimum", stat_length=1)),
    "mean": lambda np, x: (np.pad(x, 1, "mean"), np.pad(x, ((2, 1), (0, 3)), "mean", stat_length=2)),
    "nothing": lambda np, x: (np.pad(x, 0), np.pad(x, 0, "edge")),
    "dict": lambda np, x: np.pad(x, {-1: (1, 2)}),
}


@pytest.mark.parametrize("dtype", [np.float64, np.int32])
@pytest.mark.parametrize("name", PADS)
def test_pad(name: str, dtype: type) -> None:
    x = np.arange(12, dtype=dtype).reshape(3, 4) * 3
    check(PADS[name], x)
    check(PADS[name], np.asfortranarray(x))


def test_refused_pads() -> None:
    x = np.arange(4.0)
    refused(lambda np, x: np.round(x > 0, 1), x)
    refused(lambda np, x: np.pad(x, -1), x)
    refused(lambda np, x: np.pad(x, 1, "linear_ramp"), x)
    refused(lambda np, x: np.pad(x[:0], 1, "edge"), x)
    refused(lambda np, x: np.pad(x, 1, "nonsense"), x)


M = np.array([[4.0, 1, 0.5], [1, 5, 2], [0.5, 2, 6]])
LINALG = {
    "dot": lambda np, a, b: (np.dot(a, b), a.dot(b[0]), np.dot(a[0], b[0]), np.dot(2, a), np.dot(a[0, 0], 3.0)),
    "dot-nd": lambda np, a, b: np.dot(np.stack([a, b]), b),
    "dot-out": lambda np, a, b: np.dot(a, b, out=np.zeros((3, 3))),
    "matmul": lambda np, a, b: (np.matmul(a, b), np.matmul(a[None], np.stack([a, b])), np.matmul(a, b[0])),
    "matmul-int": lambda np, a, b: (a.astype(int) @ b.astype(np.int8), (a > 1) @ (b > 1), a.astype("f4") @ b),
    "matmul-complex": lambda np, a, b: ((a + 1j) @ b[0], (a[0] + 1j) @ (b * 2j), (a[0] + 1j) @ (b[0] - 1j)),
    "vecdot": lambda np, a, b: (np.vecdot(a, b), np.vecdot(a + 1j, b), np.vecdot(a, b, axis=0), np.linalg.vecdot(a, b)),
    "matvec": lambda np, a, b: (np.matvec(a, b[0]), np.vecmat(a[0], b), np.vecmat(a[0] + 1j, b)),
    "inner": lambda np, a, b: (np.inner(a, b), np.inner(a[0], b[0]), np.inner(a, 2.0)),
    "outer": lambda np, a, b: (np.outer(a, b), np.outer(a[0], [1, 2]), np.linalg.outer(a[0], b[0])),
    "vdot": lambda np, a, b: (np.vdot(a, b), np.vdot(a + 1j, b + 2j)),
    "tensordot": lambda np, a, b: (
        np.tensordot(a, b),
        np.tensordot(a, b, 1),
        np.tensordot(a, b, ([0], [1])),
        np.tensordot(a, b, 0),
    ),
    "kron": lambda np, a, b: (np.kron(a, b), np.kron(a[0], b)),
    "cross": lambda np, a, b: (np.cross(a, b), np.cross(a, b[0]), np.cross(a, b, axis=0), np.linalg.cross(a, b)),
    "cross-axes": lambda np, a, b: np.cross(a, np.stack([b, b]), axisc=1),
    "power-one": lambda np, a, b: np.linalg.matrix_power(np.stack([a, b]), 1),
    "solve": lambda np, a, b: (np.linalg.solve(a, b), np.linalg.solve(a, b[0]), np.linalg.solve(np.stack([a, a.T]), b)),
    "inv": lambda np, a, b: (np.linalg.inv(a), np.linalg.det(a), np.linalg.inv(a.astype("f4"))),
    "cholesky": lambda np, a, b: np.linalg.cholesky(a),
    "power": lambda np, a, b: (
        np.linalg.matrix_power(a, 3),
        np.linalg.matrix_power(a, 0),
        np.linalg.matrix_power(a, -1),
    ),
    "multi_dot": lambda np, a, b: np.linalg.multi_dot([a, b, a]),
    "convolve": lambda np, a, b: (
        np.convolve(a.ravel(), [1, 2, 1]),
        np.convolve(a[0], b[0], "same"),
        np.convolve([1, 2.0], a.ravel(), "valid"),
    ),
    "correlate": lambda np, a, b: (
        np.correlate(a.ravel(), b[0]),
        np.correlate(a.ravel(), [1, 0, -1.0], "same"),
        np.correlate(a[0], b[0], "full"),
    ),
    "convolve-even": lambda np, a, b: (
        np.convolve(a.ravel(), [1.0, 2], "same"),
        np.convolve(a.ravel(), [1.0, 2, 3, 4], "same"),
    ),
}


@pytest.mark.parametrize("name", LINALG)
def test_linalg(name: str) -> None:
    b = np.arange(9.0).reshape(3, 3) - 2.5
    check(LINALG[name], M, b, exact=False)
    check(LINALG[name], np.asfortranarray(M), b.T, exact=False)


def test_linalg_refused() -> None:
    b = np.arange(6.0).reshape(2, 3)
    for f in (
        lambda np, a, b: a @ b,
        lambda np, a, b: np.dot(a, b),
        lambda np, a, b: a @ 2,
        lambda np, a, b: np.linalg.inv(b),
        lambda np, a, b: np.linalg.inv(a.astype("f2")),
        lambda np, a, b: np.inner(a, b.T),
        lambda np, a, b: np.vecdot(a, a[0], out=np.empty(())),
    ):
        refused(f, M, b)


@pytest.mark.parametrize("dtype", ["u1", "u4", "i1", "i8", "f4", "c8"])
def test_select_fills_with_its_default_by_any_cast(dtype: str) -> None:
    check(lambda np, x: (np.select([x > 1], [x], -1), np.select([x > 1], [x], default=1.5)), np.arange(3).astype(dtype))


def test_products_broadcast_to_an_output() -> None:
    a, v = np.arange(9.0).reshape(3, 3), np.arange(3.0)
    check(lambda np, v, out: np.matmul(v, v, out=out), v, np.zeros((2, 3)))
    check(lambda np, a, v, out: np.matmul(a, v, out=out), a, v, np.zeros((2, 3)))
    check(lambda np, a, out: np.matmul(a, a, out=out), a, np.zeros((2, 3, 3)))
    check(lambda np, a, v, out: np.vecdot(a, v, out=out), a, v, np.zeros((2, 3)))
    check(lambda np, a, v, out: np.vecmat(v, a, out=out), a, v, np.zeros((2, 3)))
    refused(lambda np, a, v, out: np.matmul(a, v, out=out), a[:1], v, np.zeros(3))
    refused(lambda np, a, out: np.matmul(a, a, out=out), a, np.zeros((3, 1, 3)))
    refused(lambda np, a, v, out: np.dot(a, v, out=out), a, v, np.zeros((2, 3)))


def test_vecdot_out_of_another_shape_is_refused() -> None:
    refused(lambda np, a, v, out: np.vecdot(a, v, out=out), np.arange(9.0).reshape(3, 3), np.ones(3), np.empty(()))


def test_clip_takes_the_dtypes_of_numpy_s_loop():
    x = np.array([-3, 0, 7], np.int8)
    check(lambda np, x: (x.clip(-200, 5), x.clip(0, 200), x.clip(-128, 127), x.clip(0.5, 3)), x)
    check(lambda np, x: (np.clip(3, x, 5), np.clip(2.5, x, 4), np.clip(True, x, 1), np.clip(x > 0, False, True)), x)
    check(lambda np, x: (np.clip(x, 0, 5, dtype=np.int32), np.clip(x, 0, 5, where=x != 0, out=x)), x)
    check(lambda np, x: np.clip(2, np.ones(3, np.float32), x), x)
