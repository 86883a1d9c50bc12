"""Linear algebra: each statement of docs/differences.md about it."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import broadloom as bl
from broadloom.codegen.abi import BLAS_ENTER, BLAS_LEAVE
from broadloom.errors import GraphBreakError
from broadloom.frontend.operands import numpy_since
from broadloom.runtime import blas
from broadloom.runtime.symbols import library_routine

CALLED = ((BLAS_ENTER, (ctypes.c_int64,)), (BLAS_LEAVE, ()))


def compiled(function):
    return bl.compile(function, fullgraph=True)


@pytest.mark.difference("`np.einsum` sums an index that only one operand has before it multiplies")
def test_einsum_may_overflow_elsewhere():
    def f(a, b):
        return np.einsum("i,ij->i", a, b)

    a, b = np.array([0.5, 0.0]), np.asfortranarray(np.full((2, 3), 1e308))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(f(a, b), [1.5e308, 0])
        np.testing.assert_array_equal(f(a, b.copy("C")), [np.inf, np.nan])  # NumPy's own loop does so for C order
    np.testing.assert_array_equal(compiled(f)(a, b), [np.inf, np.nan])
    a, b, c = (np.random.default_rng(k).standard_normal((9, 9)) for k in range(3))
    chain = compiled(lambda a, b, c: np.einsum("ij,jk,kl->il", a, b, c))(a, b, c)
    np.testing.assert_allclose(chain, a @ b @ c, rtol=1e-12, atol=1e-12)


@pytest.mark.difference("`np.linalg.eig` and `eigvals` of a real matrix are refused with NumPy before 2.5")
def test_eigenvalues_of_a_real_matrix():
    symmetric, turning = np.diag([1.0, 2.0]), np.array([[0.0, -1.0], [1.0, 0.0]])
    by_data = not numpy_since("2.5.0")
    assert np.linalg.eigvals(symmetric).dtype == (np.float64 if by_data else np.complex128)
    assert np.linalg.eigvals(turning).dtype == np.complex128
    for f in (np.linalg.eig, np.linalg.eigvals):
        run = compiled(lambda a, f=f: f(a))
        if by_data:
            with pytest.raises(GraphBreakError, match=r"astype\(complex\)"):
                run(symmetric)
        else:
            assert run(symmetric)[0].dtype == np.complex128
    for a in (symmetric, turning):
        assert np.linalg.eigvals(a.astype(complex)).dtype == np.complex128
        np.testing.assert_allclose(compiled(lambda a: np.linalg.eigvals(a.astype(complex)))(a), np.linalg.eigvals(a))
        for run in (bl.linalg.eig, compiled(lambda a: bl.linalg.eig(a))):
            assert [np.asarray(x).dtype for x in run(a)] == [np.complex128, np.complex128]


@pytest.mark.difference(
    "Eigenvectors, singular vectors and the factors of QR are those of the LAPACK that SciPy brings"
)
def test_vectors_of_equal_values_span_the_same_space():
    assert library_routine("dsyevd") and library_routine("dgesdd")
    a = np.kron(np.eye(2), np.array([[2.0, 1.0], [1.0, 2.0]]))  # the eigenvalues 1 and 3, twice each
    w, v = compiled(lambda a: tuple(np.linalg.eigh(a)))(a)
    np.testing.assert_allclose(w, [1, 1, 3, 3], atol=1e-12)
    np.testing.assert_allclose(v @ np.diag(w) @ v.T, a, atol=1e-12)
    np.testing.assert_allclose(v[:, :2] @ v[:, :2].T, (3 * np.eye(4) - a) / 2, atol=1e-12)


@pytest.mark.difference("Eigenvectors that `np.linalg.eigh` gives of stacks of matrices")
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_a_large_component_of_an_eigenvector_is_positive(dtype, rng):
    a = rng.standard_normal((30, 5, 5)) + (1j * rng.standard_normal((30, 5, 5)) if dtype is np.complex128 else 0)
    a = a + np.conj(a.swapaxes(1, 2))
    eigh = compiled(lambda a: tuple(np.linalg.eigh(a)))
    v, theirs = eigh(a)[1], np.linalg.eigh(a)[1]
    size = np.abs(v)
    first = np.argmax(size >= 0.625 * size.max(axis=1, keepdims=True), axis=1)
    chosen = np.take_along_axis(v, first[:, None], axis=1)
    assert (chosen.real > 0).all() and np.abs(chosen.imag).max() < 1e-15
    factors = np.sum(np.conj(v) * theirs, axis=1)  # each column of NumPy's by ours
    np.testing.assert_allclose(np.abs(factors), 1, atol=1e-12)
    assert np.abs(factors - 1).max() > 1
    few = bl.compile(lambda a: tuple(np.linalg.eigh(a)), fullgraph=True, dynamic=False)(a[:3])
    np.testing.assert_allclose(few[1], theirs[:3], atol=1e-9)
    a[7, 1, 0] = a[7, 0, 1] = np.inf
    values, vectors = eigh(a)
    assert np.isnan(values[7]).all() and np.isnan(vectors[7]).all()
    assert np.isfinite(np.delete(values, 7, axis=0)).all() and np.isfinite(np.delete(vectors, 7, axis=0)).all()
    a[7, 4, 0] = a[7, 0, 4] = np.inf
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.eigh(a)
    assert np.isnan(eigh(a)[0][7]).all()
    two = np.tile(np.eye(2, dtype=dtype), (9, 1, 1))
    two[5, 0, 0] = np.nan
    with pytest.raises(np.linalg.LinAlgError):
        compiled(lambda a: tuple(np.linalg.eigh(a)))(two)
    assert np.isnan(np.linalg.eigh(two)[0][5, 0])


@pytest.mark.difference("Of a matrix that holds nan or infinity, the sign and magnitude that `np.linalg.slogdet`")
def test_nan_is_never_the_largest_pivot():
    a = np.tile(np.diag([1.0, 2.0, 4.0]), (9, 1, 1))
    a[5, 1, 0] = np.nan

    def f(a):
        return np.linalg.solve(a, a[:, :, :1]), np.linalg.det(a), *np.linalg.slogdet(a)

    for run in (f, compiled(f)):
        with np.errstate(all="ignore"):
            x, det, sign, log = run(a)
        assert np.isnan(x[5]).any() and np.isnan(det[5]) and np.isnan(log[5]) and abs(sign[5]) == 1
        assert not any(np.isnan(part[[*range(5), *range(6, 9)]]).any() for part in (x, det, sign, log))
    assert compiled(f)(a)[2][5] == 1


@pytest.mark.difference("`np.linalg.lstsq` is computed from the singular values")
def test_residuals_of_least_squares():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((6, 3)), rng.standard_normal(6)
    want = np.linalg.lstsq(a, b)
    with pytest.raises(GraphBreakError, match="depends on data"):
        compiled(lambda a, b: np.linalg.lstsq(a, b))(a, b)

    def used(a, b):
        x, residuals, rank, s = np.linalg.lstsq(a, b)
        return x, residuals.sum(), rank, s

    for got, expected in zip(compiled(used)(a, b), (want[0], want[1].sum(), *want[2:]), strict=True):
        assert type(got) is type(expected)
        np.testing.assert_allclose(got, expected, rtol=1e-10)
    deficient = a[:, [0, 0, 1]]
    assert np.linalg.lstsq(deficient, b)[1].size == 0 and compiled(used)(deficient, b)[1] == 0


@pytest.mark.difference("Calls into BLAS and LAPACK take no more threads than the option `num_threads` allows")
def test_threads_of_library_calls():
    a = np.random.default_rng(0).standard_normal((150, 150))
    control = blas.control()
    count = ctypes.CFUNCTYPE(ctypes.c_int)(control.get)
    before = count()
    run = bl.compile(lambda a: np.linalg.inv(a), fullgraph=True, options={"num_threads": 1})
    np.testing.assert_allclose(run(a) @ a, np.eye(150), atol=1e-9)
    assert count() == before
    enter, leave = (ctypes.CFUNCTYPE(None, *k)(blas.functions()[n]) for n, k in CALLED)
    enter(1)
    assert count() == 1
    leave()
    assert count() == before
