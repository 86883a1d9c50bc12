"""numpy.linalg's decompositions, norms and what follows from them, through the frontend: values, dtypes, named tuples,
memory order, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from broadloom.frontend import FUNCTIONS
from broadloom.frontend.selection import Selection
from tests.frontend.harness import Traced, check, record, refused

DTYPES = ["f4", "f8", "c8", "c16", "i4", "?"]
SHAPES = [(3, 3), (4, 2), (2, 4), (2, 3, 3), (2, 3, 4, 2), (0, 3, 3), (3, 0), (0, 3)]


def matrices(dtype: str, *shape: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) * 4
    if shape[-1] == shape[-2]:
        x = x + 5 * np.eye(shape[-1])
    return (x + 1j * rng.standard_normal(shape) if dtype.startswith("c") else np.round(x)).astype(dtype)


ANY = {
    "qr": lambda np, a: np.linalg.qr(a),
    "qr-complete": lambda np, a: np.linalg.qr(a, "complete"),
    "qr-r": lambda np, a: np.linalg.qr(a, mode="r"),
    "qr-raw": lambda np, a: np.linalg.qr(a, mode="raw"),
    "svd": lambda np, a: np.linalg.svd(a),
    "svd-thin": lambda np, a: np.linalg.svd(a, full_matrices=False),
    "svd-values": lambda np, a: np.linalg.svd(a, compute_uv=False),
    "svdvals": lambda np, a: np.linalg.svdvals(a),
    "rank": lambda np, a: np.linalg.matrix_rank(a),
    "rank-tol": lambda np, a: np.linalg.matrix_rank(a, 4.0),
    "rank-rtol": lambda np, a: np.linalg.matrix_rank(a, rtol=0.25),
    "pinv": lambda np, a: np.linalg.pinv(a),
    "pinv-rcond": lambda np, a: np.linalg.pinv(a, 0.2),
    "pinv-rtol": lambda np, a: np.linalg.pinv(a, rtol=0.2),
    "norm-2": lambda np, a: np.linalg.norm(a, 2, axis=(-2, -1)),
    "norm-nuc": lambda np, a: np.linalg.norm(a, "nuc", axis=(-1, -2), keepdims=True),
    "norm-rows": lambda np, a: (np.linalg.norm(a, 1, axis=(-2, -1)), np.linalg.norm(a, np.inf, axis=(-2, -1))),
    "matrix-norm": lambda np, a: np.linalg.matrix_norm(a, ord=2, keepdims=True),
    "vector-norm": lambda np, a: (
        np.linalg.vector_norm(a, axis=(0, -1)),
        np.linalg.vector_norm(a, axis=(-1, 0), keepdims=True, ord=1),
        np.linalg.vector_norm(a, ord=3),
    ),
}  # fmt: skip
SQUARE = {
    "eigh": lambda np, a: np.linalg.eigh(a),
    "eigh-upper": lambda np, a: np.linalg.eigh(a, "U"),
    "eigvalsh": lambda np, a: (np.linalg.eigvalsh(a), np.linalg.eigvalsh(a, UPLO="u")),
    "eig": lambda np, a: np.linalg.eig(a.astype(complex)),
    "eigvals": lambda np, a: np.linalg.eigvals(a.astype(np.complex64)),
    "slogdet": lambda np, a: np.linalg.slogdet(a),
    "det": lambda np, a: np.linalg.det(a),
    "svd-hermitian": lambda np, a: np.linalg.svd(a, hermitian=True),
    "svd-hermitian-values": lambda np, a: np.linalg.svd(a, compute_uv=False, hermitian=True),
    "rank-hermitian": lambda np, a: np.linalg.matrix_rank(a, hermitian=True),
    "power": lambda np, a: [np.linalg.matrix_power(a.astype(float), n) for n in (0, 1, 2, 3, 5, 6, 7)],
}
FILLED = {
    "cond": lambda np, a: (np.linalg.cond(a), np.linalg.cond(a, -2)),
    "cond-1": lambda np, a: (np.linalg.cond(a, 1), np.linalg.cond(a, np.inf), np.linalg.cond(a, "fro")),
    "norm-minus-2": lambda np, a: np.linalg.norm(a, -2, axis=(-2, -1)),
}


@pytest.mark.parametrize("name", ANY)
@pytest.mark.parametrize("dtype", DTYPES)
def test_of_any_matrix(name: str, dtype: str) -> None:
    for shape in SHAPES:
        a = matrices(dtype, *shape)
        for x in (a, np.asfortranarray(a), np.swapaxes(np.swapaxes(a, -1, -2).copy(), -1, -2)):
            check(ANY[name], x, exact=False)


@pytest.mark.parametrize("name", [*SQUARE, *FILLED])
@pytest.mark.parametrize("dtype", DTYPES)
def test_of_square_matrices(name: str, dtype: str) -> None:
    for shape in ((3, 3), (1, 1), (2, 3, 3), (2, 1, 2, 2), (0, 3, 3), *(((0, 0), (2, 0, 0)) if name in SQUARE else ())):
        a = matrices(dtype, *shape)
        if name == "power" and dtype.startswith("c"):
            a = a.real
        for x in (a, np.asfortranarray(a), a[..., ::-1, :]):
            check({**SQUARE, **FILLED}[name], x, exact=False)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16", "i4"])
def test_cholesky_of_either_triangle(dtype: str) -> None:
    a = matrices(dtype, 2, 3, 3)
    a = a @ np.conj(np.swapaxes(a, 1, 2)) + 3 * np.eye(3, dtype=a.dtype)
    a[:, 0, 1] += 100  # seen by one of the two
    a[:, 0, 2] = 0
    check(lambda np, a: np.linalg.cholesky(a), a, exact=False)
    check(lambda np, a: np.linalg.cholesky(a, upper=True), np.swapaxes(a, 1, 2), exact=False)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16", "i4"])
@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (0, 2), (3, 0)])
def test_least_squares_without_residuals(dtype: str, shape: tuple[int, int]) -> None:
    a = matrices(dtype, *shape)
    for b in (matrices("f8", shape[0], 2, seed=1), matrices("f4", shape[0], 1, seed=2)[:, 0]):
        check(lambda np, a, b: (np.linalg.lstsq(a, b)[0], *np.linalg.lstsq(a, b)[2:]), a, b, exact=False)
    if shape[0] <= shape[1]:
        check(lambda np, a, b: np.linalg.lstsq(a, b), a, matrices("f8", shape[0], 2, seed=1), exact=False)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16", "i4"])
def test_least_squares_with_residuals(dtype: str) -> None:
    a, b = matrices(dtype, 5, 3), matrices("f8", 5, 2, seed=1)
    deficient = a.copy()
    deficient[:, 2] = deficient[:, 0]
    for x in (a, deficient):
        for y in (b, b[:, 0], b[:, :0]):
            check(lambda np, a, b: np.linalg.lstsq(a, b)[1].sum(), x, y, exact=False)
            check(lambda np, a, b: (np.linalg.lstsq(a, b, 1e-10)[0], *np.linalg.lstsq(a, b)[2:]), x, y, exact=False)
        check(lambda np, a, b: np.linalg.lstsq(a, b, rcond=0.4)[2], x, b)
        check(lambda np, a, b: np.linalg.lstsq(a, b, rcond=-1)[2], x[:2], b[:2])
    _, (_, residuals, *_), _ = record(lambda np, a, b: np.linalg.lstsq(a, b), [a, b])
    assert isinstance(residuals, Traced) and isinstance(residuals.value, Selection)


def test_tensor_equations() -> None:
    a, b = matrices("f8", 24, 24).reshape(6, 4, 2, 3, 4), matrices("f8", 6, 4, seed=1)
    check(lambda np, a, b: np.linalg.tensorsolve(a, b), a, b, exact=False)
    check(lambda np, a: np.linalg.tensorinv(a, ind=2), a, exact=False)
    refused(lambda np, a: np.linalg.tensorinv(a, ind=0), a)
    refused(lambda np, a: np.linalg.tensorinv(a, ind=3), a)


def test_multi_dot_chooses_numpys_order() -> None:
    rng = np.random.default_rng(0)
    xs = [rng.standard_normal(s) for s in ((4, 30), (30, 2), (2, 40), (40, 3))]
    check(lambda np, a, b, c, d: np.linalg.multi_dot([a, b, c, d]), *xs, exact=False)
    check(lambda np, a, b, c, d: np.linalg.multi_dot([a[0], b, c, d]), *xs, exact=False)
    check(
        lambda np, a, b, c, d: (np.linalg.multi_dot([a[0], b, c]), np.linalg.multi_dot([b, c, d[:, 0]])),
        *xs,
        exact=False,
    )
    check(lambda np, a, b, c, d: np.linalg.multi_dot([a[0], b, c, d[:, 0]]), *xs, exact=False)
    check(lambda np, a, b, c, d: np.linalg.multi_dot([a, b, c], out=np.zeros((4, 40))), *xs, exact=False)
    refused(lambda np, a, b, c, d: np.linalg.multi_dot([a, b[None], c]), *xs)
    r, _, _ = record(lambda np, a, b, c, d: np.linalg.multi_dot([a, b, c, d]), xs)
    shapes = [r.builder.type_of(k).shape for k in range(4, 7)]
    assert shapes == [(4, 2), (2, 3), (4, 3)]


def test_a_singular_matrix_has_an_infinite_condition() -> None:
    singular = np.array([[[1.0, 2.0], [2.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]], [[np.nan, 0.0], [0.0, 0.0]]])
    check(lambda np, a: (np.linalg.cond(a, 1), np.linalg.cond(a[0], 1), np.linalg.cond(a[2], np.inf)), singular)
    check(lambda np, a: (np.linalg.cond(a), np.linalg.cond(a[0], -2)), singular[1:2])


def test_determinants_of_what_is_out_of_range() -> None:
    huge = np.diag(np.full(400, 1e10))
    check(lambda np, a: np.linalg.slogdet(a), huge, exact=False)
    check(lambda np, a: np.linalg.slogdet(a), np.array([[[1.0, 2.0], [2.0, 4.0]], [[np.nan, 1], [1, 1]]]))
    check(lambda np, a: np.linalg.slogdet(a), np.zeros((2, 2), complex))


def test_named_tuples_of_constants() -> None:
    check(lambda np, x: np.linalg.eigh([[2.0, 0.0], [0.0, 1.0]]), np.ones(1))
    check(lambda np, x: np.linalg.qr(np.eye(2)).Q, np.ones(1))


def test_what_is_refused() -> None:
    a, flat = matrices("f8", 3, 3), matrices("f8", 3, 2)
    assert "astype(complex)" in str(refused(lambda np, a: np.linalg.eig(a), a))
    assert "astype(complex)" in str(refused(lambda np, a: np.linalg.eigvals(a), a))
    assert "any()" in str(refused(lambda np, a: np.linalg.matrix_rank(a[0]), a))
    for f in (
        lambda np, a, b: np.linalg.eigh(b),
        lambda np, a, b: np.linalg.eigh(a, "X"),
        lambda np, a, b: np.linalg.qr(a[0]),
        lambda np, a, b: np.linalg.qr(a, "full"),
        lambda np, a, b: np.linalg.svd(a.astype("f2")),
        lambda np, a, b: np.linalg.svdvals(a[0]),
        lambda np, a, b: np.linalg.pinv(a, 0.1, rtol=0.1),
        lambda np, a, b: np.linalg.matrix_rank(a, 0.1, rtol=0.1),
        lambda np, a, b: np.linalg.cond(b, 1),
        lambda np, a, b: np.linalg.cond(a[:0]),
        lambda np, a, b: np.linalg.lstsq(a, b[:2]),
        lambda np, a, b: np.linalg.lstsq(a[None], b),
        lambda np, a, b: np.linalg.norm(a, 3),
        lambda np, a, b: np.linalg.matrix_power(a, 1.5),
    ):
        refused(f, a, flat)
    assert np.linalg.lstsq in FUNCTIONS
