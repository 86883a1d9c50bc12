"""numpy.linalg and einsum, compiled: dtypes, stacks, strides, no elements, any sizes, and errors inside of stacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import broadloom as bl
from broadloom.errors import GraphBreakError
from broadloom.frontend.operands import numpy_since

Array = np.ndarray[Any, Any]
WAYS = pytest.mark.parametrize("dynamic", [None, True], ids=["static", "dynamic"])
DTYPES = [np.float32, np.float64, np.complex64, np.complex128, np.int32]
SHAPES = ((3, 3), (2, 3, 4, 4), (0, 2, 2), (2, 0, 0), (1, 1))
RECTANGLES = ((4, 2), (2, 3, 2, 5), (0, 3), (3, 0), (2, 1, 1))


def matrices(dtype: Any, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    x = 4 * rng.standard_normal(shape) + (6 * np.eye(shape[-1]) if shape[-1] == shape[-2] else 0)
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else np.round(x)).astype(dtype)


def laid_out(x: Array) -> list[Array]:
    """The same values at several strides."""
    wide = np.zeros((*x.shape[:-2], 2 * x.shape[-2], 3 * x.shape[-1]), x.dtype)
    wide[..., ::2, ::3] = x
    columns = np.ascontiguousarray(np.swapaxes(x, -1, -2))
    return [x, np.swapaxes(columns, -1, -2), wide[..., ::2, ::3], x[..., ::-1, ::-1]]


def assert_close(got: Any, want: Any) -> None:
    assert type(got) is type(want)
    if isinstance(want, tuple | list):
        for a, b in zip(got, want, strict=True):
            assert_close(a, b)
        return
    assert got.dtype == want.dtype and got.shape == want.shape
    tolerance = 2e-4 if want.dtype.itemsize == (8 if want.dtype.kind == "c" else 4) else 1e-9
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def is_same(f: Callable[..., Any], dynamic: bool | None, arrays: list[Array]) -> None:
    """One compiled function, called with each of the arrays."""
    compiled = bl.compile(f, fullgraph=True, dynamic=dynamic)
    for x in arrays:
        assert_close(compiled(x), f(x))


def unit(q: Array) -> Array:
    return np.conj(np.swapaxes(q, -1, -2)) @ q


def qr(a: Array) -> Any:
    q, r = np.linalg.qr(a)
    full = np.linalg.qr(a, mode="complete")
    return q @ r, unit(q), full.Q @ full.R, unit(full.Q), np.triu(r) - r, abs(np.linalg.qr(a, mode="r")) - abs(r)


def svd(a: Array) -> Any:
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    full = np.linalg.svd(a)
    return (u * s[..., None, :]) @ vh, s, full.S, unit(full.U), unit(full.Vh), np.linalg.svdvals(a) - s


def eigh(a: Array) -> Any:
    a = a + np.conj(np.swapaxes(a, -1, -2))
    (w, v), lower = np.linalg.eigh(a, "U"), np.linalg.eigh(a)
    return w, (v * w[..., None, :]) @ np.conj(np.swapaxes(v, -1, -2)), lower.eigenvalues, np.linalg.eigvalsh(a) - w


def eig(a: Array) -> Any:
    a = a.astype(np.complex128)
    w, v = np.linalg.eig(a)
    return (
        a @ v - v * w[..., None, :],
        w.sum(axis=-1),
        np.linalg.eigvals(a).sum(axis=-1),
        abs(v).max(axis=(-2, -1), initial=0),
    )


EITHER = {
    "qr": qr,
    "svd": svd,
    "pinv": lambda a: np.linalg.pinv(a),
    "rank": lambda a: np.linalg.matrix_rank(a),
    "norms": lambda a: [np.linalg.norm(a, p, axis=(-2, -1)) for p in (2, "nuc", "fro")],
    "least-squares": lambda a: np.linalg.lstsq(a[(0,) * (a.ndim - 2)], a[(0,) * (a.ndim - 2)])[0],
    "products": lambda a: (np.einsum("...ij,...kj->...ik", a, a), np.einsum("...ij->...j", a)),
    "three-products": lambda a: np.einsum("...ij,...kj,...kl->...il", a, a, a, optimize=True),
}
SQUARE = {
    "eigh": eigh,
    "eig": eig,
    "determinants": lambda a: (np.linalg.slogdet(a), np.linalg.det(a)),
    "diagonals": lambda a: (np.einsum("...ii->...i", a), np.einsum("...ii", a), np.einsum("...ij,...jj->...i", a, a)),
}


@WAYS
@pytest.mark.parametrize("name", [*EITHER, *SQUARE])
def test_as_numpy(name: str, dynamic: bool | None, request: pytest.FixtureRequest, rng: np.random.Generator) -> None:
    shapes = SHAPES if name in SQUARE else (*SHAPES, *RECTANGLES)
    every = [(d, s) for d in DTYPES for s in shapes if name != "least-squares" or 0 not in s[:-2]]
    chosen = every if request.config.getoption("--full") else [every[k] for k in rng.permutation(len(every))[:3]]
    for dtype, shape in chosen:
        is_same({**EITHER, **SQUARE}[name], dynamic, laid_out(matrices(dtype, shape, rng)))


def test_one_kernel_for_all_sizes(rng: np.random.Generator) -> None:
    compiled = bl.compile(lambda a: (np.linalg.svd(a)[1], np.linalg.qr(a).R), fullgraph=True, dynamic=True)
    for shape in ((4, 7), (9, 5), (40, 37), (33, 65)):
        a = rng.standard_normal(shape)
        s, r = compiled(a)
        np.testing.assert_allclose(s, np.linalg.svdvals(a), rtol=1e-11)
        np.testing.assert_allclose(abs(r), abs(np.linalg.qr(a).R), rtol=1e-9, atol=1e-9)
    assert len(compiled.report().compiles) == 1


@pytest.mark.parametrize("name", ["pinv", "rank", "products", "norms"])
def test_no_elements_need_no_kernel_of_their_own(name: str, rng: np.random.Generator) -> None:
    compiled = bl.compile(EITHER[name], fullgraph=True, dynamic=True)
    for shape in ((4, 7), (0, 3), (3, 0), (1, 1), (9, 2)):
        a = rng.standard_normal(shape)
        assert_close(compiled(a), EITHER[name](a))
    assert len(compiled.report().compiles) == 1


def test_real_eigenvalues_are_complex_by_name(rng: np.random.Generator) -> None:
    a = rng.standard_normal((3, 5, 5))
    w, v = bl.compile(lambda a: tuple(bl.linalg.eig(a)), fullgraph=True)(a)
    assert w.dtype == v.dtype == np.complex128
    np.testing.assert_allclose(a @ v, v * w[:, None], atol=1e-9)
    symmetric = a + np.swapaxes(a, 1, 2)
    for run in (bl.linalg.eigvals, bl.compile(lambda a: bl.linalg.eigvals(a), fullgraph=True)):
        found = np.asarray(run(symmetric))
        assert found.dtype == np.complex128
        np.testing.assert_allclose(np.sort(found.real), np.linalg.eigvalsh(symmetric), atol=1e-9)
    for f in (np.linalg.eig, np.linalg.eigvals):
        run = bl.compile(lambda a, f=f: f(a), fullgraph=True)
        if numpy_since("2.5.0"):
            assert run(a)[0].dtype == np.complex128
        else:
            with pytest.raises(GraphBreakError, match=r"astype\(complex\)"):
                run(a)


@WAYS
@pytest.mark.parametrize("p", [None, 2, -2, "nuc", "fro", 1])
def test_the_condition_of_a_matrix_that_is_not_finite(p: Any, dynamic: bool | None) -> None:
    def cond(a: Any) -> Any:
        return np.linalg.cond(a, p)

    a = np.stack([np.eye(3)] * 5)
    a[2, 1, 1], a[3, 0, 0], a[4] = np.nan, np.inf, 1.0
    compiled = bl.compile(cond, fullgraph=True, dynamic=dynamic)
    if numpy_since("2.5.0") or p in ("fro", 1):
        found, known = compiled(a), cond(a)
        np.testing.assert_allclose(found[:4], known[:4], rtol=1e-12)
        # the last is singular: what is left of its least singular value is rounding, and differs with the memory
        digits = np.log10([found[4], known[4]])
        assert np.all(np.abs(digits) > 15) and digits[0] * digits[1] > 0
    else:
        for f in (compiled, cond):
            with pytest.raises(np.linalg.LinAlgError):
                f(a)


@WAYS
@pytest.mark.parametrize("f", [np.linalg.svdvals, np.linalg.svd, bl.linalg.eigvals, np.linalg.pinv])
def test_the_first_bad_matrix_of_a_stack_is_named(f: Any, dynamic: bool | None, rng: np.random.Generator) -> None:
    compiled = bl.compile(lambda a: f(a), fullgraph=True, dynamic=dynamic)
    a = rng.standard_normal((4, 3, 3))
    compiled(a)
    broken = a.copy()
    broken[2:, 1, 1] = np.nan
    with pytest.raises(np.linalg.LinAlgError, match=r"(did not converge|infs or NaNs) \(matrix 2 of the stack"):
        compiled(broken)
    with pytest.raises(np.linalg.LinAlgError):
        f(broken)
    compiled(a)


def test_the_residuals_of_least_squares_are_used_but_not_returned(rng: np.random.Generator) -> None:
    a, b = rng.standard_normal((6, 3)), rng.standard_normal((6, 2))
    deficient = a[:, [0, 1, 0]]

    def total(a: Array, b: Array) -> Any:
        x, residuals, rank, s = np.linalg.lstsq(a, b)
        return x, residuals.sum(), rank, s

    compiled = bl.compile(total, fullgraph=True)
    for x in (a, deficient):
        assert_close(compiled(x, b), total(x, b))
    with pytest.raises(GraphBreakError, match="depends on data"):
        bl.compile(lambda a, b: np.linalg.lstsq(a, b), fullgraph=True)(a, b)


def test_workspaces_are_given_back(rng: np.random.Generator) -> None:
    compiled = bl.compile(lambda a: np.linalg.svd(a).S, fullgraph=True)
    large, bad = rng.standard_normal((400, 400)), np.full((400, 400), np.nan)
    for _ in range(3):
        np.testing.assert_allclose(compiled(large), np.linalg.svdvals(large), rtol=1e-9)
        with pytest.raises(np.linalg.LinAlgError):
            compiled(bad)
