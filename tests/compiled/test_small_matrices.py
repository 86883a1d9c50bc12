"""Linear algebra on many small matrices, a matrix to a lane: against NumPy, at the edges of blocks, and its errors.

The generated tests take the same kernels at drawn shapes; here stand the numbers of matrices around a block of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import broadloom as bl
from broadloom.codegen.driver import module_text
from broadloom.codegen.parts import is_ready
from broadloom.dtypes import float64, from_numpy
from broadloom.graph.builder import GraphBuilder
from broadloom.graph.ir import Output, TensorType
from broadloom.ops.table import OPS
from broadloom.passes.small_matrices import FEW, FEW_ROTATED, LIMIT, SHORT
from broadloom.runtime.target import assembly, host
from tests.compiled.modules import Module
from tests.compiled.modules import compiled as compiled_graph
from tests.fusion.graphs import graph_of, scheduled

Array = np.ndarray[Any, Any]
LANES = host().lanes(64)
COUNTS = (1, LANES - 1, LANES, LANES + 1, 100)
SIZES = (0, 1, 2, 3, 5, 8, 16, 33)
DTYPES = (np.float32, np.float64, np.complex64, np.complex128)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """A determinant may be too large for float32."""
    with np.errstate(all="ignore"):
        yield


def matrices(rng: np.random.Generator, dtype: Any, *shape: int) -> Array:
    """Well-conditioned ones, whose rows have to be interchanged."""
    n = shape[-1]
    x = rng.standard_normal(shape) + (2 * n + 2) * np.eye(n)[rng.permutation(n)]
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def definite(a: Array) -> Array:
    n = a.shape[-1]
    return np.asarray((a @ np.conj(np.swapaxes(a, -1, -2)) + np.eye(n)).astype(a.dtype))


def rights(rng: np.random.Generator, dtype: Any, *shape: int) -> Array:
    return rng.standard_normal(shape).astype(dtype)


def everything(a: Array, s: Array, b: Array) -> tuple[Any, ...]:
    sign, log = np.linalg.slogdet(a)
    return np.linalg.solve(a, b), np.linalg.inv(a), np.linalg.det(a), sign, log, np.linalg.cholesky(s)


def assert_close(got: Any, want: Any) -> None:
    for x, y in zip(got, want, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        if y.dtype.kind not in "fc":
            np.testing.assert_array_equal(x, y)
            continue
        eps = np.finfo(y.dtype).eps
        scale = np.abs(y[np.isfinite(y)]).max(initial=0)
        np.testing.assert_allclose(x, y, rtol=2000 * eps, atol=500 * eps * scale)


def chosen(request: pytest.FixtureRequest, rng: np.random.Generator, count: int) -> list[tuple[Any, int, int]]:
    every = [(d, n, k) for d in DTYPES for n in SIZES for k in COUNTS]
    return every if request.config.getoption("--full") else [every[i] for i in rng.permutation(len(every))[:count]]


def test_as_numpy(request: pytest.FixtureRequest, rng: np.random.Generator) -> None:
    for dtype, n, count in chosen(request, rng, 8):
        a, b = matrices(rng, dtype, count, n, n), rights(rng, dtype, count, n, 1 + n % 3)
        s = definite(a)
        assert_close(bl.compile(everything, fullgraph=True, dynamic=False)(a, s, b), everything(a, s, b))


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_module_for_all_sizes(dtype: Any, rng: np.random.Generator) -> None:
    compiled = bl.compile(everything, fullgraph=True, dynamic=True)
    for n in SIZES:
        for count in rng.permutation(COUNTS)[:3]:
            a, b = matrices(rng, dtype, int(count), n, n), rights(rng, dtype, int(count), n, 3)
            s = definite(a)
            assert_close(compiled(a, s, b), everything(a, s, b))
    assert len(compiled.report().compiles) == 1


@pytest.mark.parametrize("n", [2, 4, 7])
def test_a_number_of_matrices_known_at_run_time(n: int, rng: np.random.Generator) -> None:
    compiled = bl.compile(lambda a: (np.linalg.inv(a), np.linalg.det(a)), fullgraph=True)
    for count in (*COUNTS, 0, 3):
        a = matrices(rng, np.float64, count, n, n)
        assert_close(compiled(a), (np.linalg.inv(a), np.linalg.det(a)))
    assert len(compiled.report().compiles) <= 4


def laid_out(x: Array) -> list[Array]:
    """The same values at several strides."""
    wide = np.zeros((2 * x.shape[0], *x.shape[1:-2], 2 * x.shape[-2], 3 * x.shape[-1]), x.dtype)
    view = wide[::2, ..., ::2, ::3]
    view[...] = x
    columns = np.swapaxes(np.ascontiguousarray(np.swapaxes(x, -1, -2)), -1, -2)
    last = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 0, -1)), -1, 0)
    return [x, columns, view, last, np.ascontiguousarray(x[..., ::-1, ::-1])[..., ::-1, ::-1]]


@pytest.mark.parametrize(("n", "dtype"), [(3, np.complex128), (6, np.float32), (11, np.float64)])
def test_in_any_strides(n: int, dtype: Any, rng: np.random.Generator) -> None:
    a, b = matrices(rng, dtype, LANES + 3, n, n), rights(rng, dtype, LANES + 3, n, n)
    want = everything(a, definite(a), b)
    for dynamic in (False, True):
        for x, s, y in zip(laid_out(a), laid_out(definite(a)), laid_out(b), strict=True):
            assert_close(bl.compile(everything, fullgraph=True, dynamic=dynamic)(x, s, y), want)


def test_loop_dims_broadcast(rng: np.random.Generator) -> None:
    a, b = matrices(rng, np.float64, 5, 1, 4, 4), rights(rng, np.float64, 3, 4, 2)
    compiled = bl.compile(lambda a, b: (np.linalg.solve(a, b), np.linalg.solve(a[0, 0], b)), fullgraph=True)
    assert_close(compiled(a, b), (np.linalg.solve(a, b), np.linalg.solve(a[0, 0], b)))


def misplaced(x: Array, rng: np.random.Generator) -> Array:
    """The same values where no vector is aligned, or one byte off, or at other strides."""
    if rng.random() < 0.3:
        return laid_out(x)[int(rng.integers(5))] if len(x) else x
    off = int(rng.choice((1, x.itemsize)))
    room = np.zeros(x.nbytes + off, np.uint8)[off:].view(x.dtype).reshape(x.shape)
    room[...] = x
    return room


SIDE_DTYPES = (*DTYPES, np.int32, np.uint8)  # integers are computed with as float64


def test_every_side(request: pytest.FixtureRequest, rng: np.random.Generator) -> None:
    """All sides up to 32, in odd numbers, off in memory, one of two operands shared, static and symbolic."""
    full = request.config.getoption("--full")
    for n in range(1, 33) if full else rng.permutation(np.arange(1, 33))[:2]:
        for dtype in SIDE_DTYPES if full else rng.permutation(np.array(SIDE_DTYPES, object))[:1]:
            dynamic = (None, True, False)[rng.integers(3)]
            f = bl.compile(everything, fullgraph=True, dynamic=dynamic)
            g = bl.compile(lambda a, b: (a @ b, b @ a[0], np.linalg.solve(a[0], b)), fullgraph=True, dynamic=dynamic)
            vectors = bl.compile(lambda s: tuple(np.linalg.eigh(s)), fullgraph=True, dynamic=dynamic)
            for count in (1, 3, int(rng.choice((0, LANES + 1, 101)))):
                a, b = (matrices(rng, np.complex128, count, int(n), int(n)) for _ in range(2))
                if np.dtype(dtype).kind != "c":
                    a, b = (abs(x) + (np.dtype(dtype).kind in "iu") for x in (a, b))  # a rounded pivot is not zero
                a, b = a.astype(dtype), b.astype(dtype)
                few = np.minimum(a, 1) if a.dtype.kind in "iu" else a
                dominant = np.maximum(few, few.swapaxes(-1, -2)) + (n + 10) * np.eye(n) if few is not a else few
                s = definite(a) if few is a else dominant.astype(dtype)
                x, y, z = (misplaced(v, rng) for v in (a, s, b))
                assert_close(f(x, y, z), everything(a, s, b))
                if count:
                    assert_close(g(x, z), (a @ b, b @ a[0], np.linalg.solve(a[0], b)))
                    w, v = vectors(y)
                    assert_decomposed(s.astype(v.dtype), w, v, np.linalg.eigvalsh(s))


def routines(compiled: Any) -> list[str]:
    return [k.kind for k in compiled.report().kernels if k.kind != "kernel"]


def test_a_matrix_that_all_share_is_factored_once(rng: np.random.Generator) -> None:
    a, b = matrices(rng, np.float64, 6, 6), rights(rng, np.float64, 50, 6, 1)
    compiled = bl.compile(bl.vmap(lambda b, a: np.linalg.solve(a, b), in_axes=(0, None)), fullgraph=True)
    assert_close((compiled(b, a),), (np.linalg.solve(a, b),))
    assert routines(compiled) == ["getrf", "lanes_lu_solve"]
    own = bl.compile(lambda a, b: np.linalg.solve(a, b), fullgraph=True)
    own(np.broadcast_to(a, (50, 6, 6)).copy(), b)
    assert routines(own) == ["lanes_solve"]


def test_a_matrix_whose_inverse_is_known_is_not_factored_for_its_determinant(rng: np.random.Generator) -> None:
    def both(a: Array) -> tuple[Any, ...]:
        return np.linalg.inv(a), np.linalg.det(a), np.linalg.solve(a, a[:, :1])

    a = matrices(rng, np.float64, 40, 40)
    compiled = bl.compile(both, fullgraph=True)
    assert_close(compiled(a), both(a))
    assert routines(compiled).count("getrf") == 1
    a[3] = 0
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        compiled(a)
    last = bl.compile(lambda a: (np.linalg.det(a), np.linalg.slogdet(a)[0]), fullgraph=True)
    assert last(a) == (0, 0)


def test_the_report_says_why(rng: np.random.Generator) -> None:
    f = bl.compile(lambda a: np.linalg.inv(a), fullgraph=True, dynamic=False)
    f(matrices(rng, np.float64, 50, 6, 6))
    assert "side by side: 50 matrices with sides up to 6" in str(f.report())
    f = bl.compile(lambda a: np.linalg.inv(a), fullgraph=True, dynamic=False)
    f(matrices(rng, np.float64, 50, 40, 40))
    assert "one by one: a side of 40 is longer than 32" in str(f.report())
    f = bl.compile(lambda a: np.linalg.inv(a), fullgraph=True, dynamic=True)
    f(matrices(rng, np.float64, 50, 6, 6))
    assert "by the sizes of the call" in str(f.report())


SIDES = ((1, 1, 1), (2, 3, 4), (5, 5, 1), (1, 7, 3), (8, 8, 8), (9, 4, 13), (0, 3, 2), (2, 0, 3), (13, 31, 7))


def products(a: Array, b: Array) -> tuple[Array, ...]:
    turned = np.swapaxes(np.swapaxes(b, -1, -2).copy(), -1, -2)
    return a @ b, a @ turned, a[0] @ b, a @ b[0], (a + 1) @ (2 * b) - 1


@pytest.mark.parametrize("sides", SIDES, ids=str)
def test_products(sides: tuple[int, int, int], request: pytest.FixtureRequest, rng: np.random.Generator) -> None:
    m, n, p = sides
    every = [(d, k) for d in DTYPES for k in COUNTS]
    for dtype, count in every if request.config.getoption("--full") else [every[i] for i in rng.permutation(20)[:2]]:
        a, b = rights(rng, dtype, count, m, n), rights(rng, dtype, count, n, p)
        a, b = (x * (1 - 2j) if np.dtype(dtype).kind == "c" else x for x in (a, b))
        a, b = a.astype(dtype), b.astype(dtype)
        for dynamic in (False, None):
            compiled = bl.compile(products, fullgraph=True, dynamic=dynamic)
            assert_close(compiled(a, b), products(a, b))
            if count > 1:
                assert_close(compiled(a[1:].copy(), b[1:].copy()), products(a[1:], b[1:]))


@pytest.mark.parametrize(
    ("dtype", "sides", "form"),
    [
        (np.float64, (4, 4, 4), "lanes_matmul"),
        (np.complex64, (20, 20, 20), "lanes_matmul"),
        (np.float32, (16, 16, 16), "kernel"),
        (np.float64, (20, 20, 20), "lanes_matmul"),
        (np.int64, (4, 4, 4), "kernel"),
        (np.float64, (64, 64, 64), "matmul"),
        (np.complex64, (64, 64, 64), "gemm"),
    ],
    ids=str,
)
def test_who_makes_a_product(dtype: Any, sides: tuple[int, int, int], form: str) -> None:
    m, n, p = sides
    compiled = bl.compile(lambda a, b: a @ b, fullgraph=True)
    compiled(np.ones((50, m, n), dtype), np.ones((50, n, p), dtype))
    assert [k.kind for k in compiled.report().kernels] == [form]


RAISING: dict[str, Callable[[Array], Any]] = {
    "solve": lambda a: np.linalg.solve(a, a),
    "inv": lambda a: np.linalg.inv(a),
    "cholesky": lambda a: np.linalg.cholesky(a),
}


def hermitian(a: Array) -> Array:
    return np.asarray(a + np.conj(np.swapaxes(a, -1, -2)))


def eigenvalues(a: Array) -> tuple[Array, Array]:
    return np.linalg.eigvalsh(a), np.linalg.eigvalsh(a + np.triu(a, 1), "U")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 8, 24, 32, 33])
def test_eigenvalues(n: int, dtype: Any, rng: np.random.Generator) -> None:
    compiled = bl.compile(eigenvalues, fullgraph=True)
    for count in (*(int(c) for c in rng.permutation(COUNTS)[:2]), 20):
        a = hermitian(matrices(rng, dtype, count, n, n))
        assert_close(compiled(a), eigenvalues(a))
    assert ("lanes_eigvalsh" in routines(compiled)) == (n <= LIMIT)


def eigenvectors(a: Array) -> tuple[Array, ...]:
    return *np.linalg.eigh(a), *np.linalg.eigh(a + np.triu(a, 1), "U")


def assert_decomposed(a: Array, w: Array, v: Array, want: Array) -> None:
    """Eigenvalues as NumPy's, and orthonormal vectors that belong to them."""
    n, eps = a.shape[-1], float(np.finfo(v.dtype).eps)
    scale = np.abs(want).max(axis=-1, initial=0)[..., None, None] + 1e-300
    assert (w.dtype, v.dtype, v.shape) == (want.dtype, a.dtype, a.shape)
    assert (np.abs(w - want) <= 8 * (n + 1) * eps * scale[..., 0]).all()
    assert (np.abs(a @ v - v * w[..., None, :]) <= 8 * (n + 1) * eps * scale).all()
    assert (np.abs(np.conj(np.swapaxes(v, -1, -2)) @ v - np.eye(n)) <= 8 * (n + 1) * eps).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 8, 24, 32, 33])
def test_eigenvectors(n: int, dtype: Any, rng: np.random.Generator) -> None:
    compiled = bl.compile(eigenvectors, fullgraph=True)
    for count in (*(int(c) for c in rng.permutation(COUNTS)[:2]), 20):
        a = hermitian(matrices(rng, dtype, count, n, n))
        upper = a + np.triu(a, 1)
        upper = np.asarray(np.triu(upper) + np.conj(np.swapaxes(np.triu(upper, 1), -1, -2)))
        w, v, w2, v2 = compiled(a)
        assert_decomposed(a, w, v, np.linalg.eigvalsh(a))
        assert_decomposed(upper, w2, v2, np.linalg.eigvalsh(upper))
    assert ("lanes_eigh" in routines(compiled)) == (n <= LIMIT)


@pytest.mark.parametrize("program", [eigenvalues, eigenvectors])
def test_few_matrices_are_rotated_where_they_are_small(program: Any, rng: np.random.Generator) -> None:
    for n, few in ((SHORT, FEW), (SHORT + 1, FEW_ROTATED), (LIMIT, FEW_ROTATED)):
        for count in (few - 1, few):
            compiled = bl.compile(program, fullgraph=True, dynamic=False)
            compiled(hermitian(matrices(rng, np.float32, count, n, n)))
            assert any(r.startswith("lanes") for r in routines(compiled)) == (count == few)


def test_eigenvectors_in_any_strides(rng: np.random.Generator) -> None:
    a = hermitian(matrices(rng, np.complex128, LANES + 3, 5, 5))
    first = bl.compile(eigenvectors, fullgraph=True, dynamic=False)(a)
    for x in laid_out(a):
        for got, want in zip(bl.compile(eigenvectors, fullgraph=True, dynamic=False)(x), first, strict=True):
            assert got.tobytes() == want.tobytes()
    nested = bl.compile(bl.vmap(bl.vmap(lambda a: tuple(np.linalg.eigh(a)))), fullgraph=True, dynamic=False)
    grid = np.stack([a[:6], a[3:9]])
    w, v = nested(grid)
    assert_decomposed(grid, w, v, np.linalg.eigvalsh(grid))
    assert routines(nested) == ["lanes_eigh"]


def test_eigenvectors_of_special_matrices(rng: np.random.Generator) -> None:
    """None that differ, zeros, diagonals, equal values, large and small ones; nan is a failure, and is named."""
    a = hermitian(rng.standard_normal((12, 4, 4)))
    a[0], a[1], a[2], a[3] = 0, 1, np.eye(4), np.diag([3.0, -1.0, 2.0, -1.0])
    a[4] *= 1e300
    a[5] *= 1e-280
    compiled = bl.compile(lambda a: tuple(np.linalg.eigh(a)), fullgraph=True)
    w, v = compiled(a)
    others = np.delete(np.arange(12), (4, 5))
    assert_decomposed(a[others], w[others], v[others], np.linalg.eigvalsh(a[others]))
    for k, scale in ((4, 1e-300), (5, 1e280)):
        assert_decomposed(a[k] * scale, w[k] * scale, v[k], np.linalg.eigvalsh(a[k] * scale))
    assert np.array_equal(v[0], np.eye(4)) and np.array_equal(v[2], np.eye(4))
    assert np.array_equal(v[3], np.linalg.eigh(a[3])[1])  # of a diagonal matrix, LAPACK's to the sign
    a[[9, 11], 3, 0] = np.nan
    with pytest.raises(np.linalg.LinAlgError, match=r"did not converge \(matrix 9 of the stack"):
        compiled(a)


def test_eigenvectors_depend_on_their_matrix_alone(rng: np.random.Generator) -> None:
    a = hermitian(rng.standard_normal((1001, 6, 6)))
    results = []
    for threads in (1, 2, 3, 4):
        f = bl.compile(lambda a: np.linalg.eigh(a)[1], dynamic=False, options={"num_threads": threads})
        results.append(f(a).tobytes())
    assert len(set(results)) == 1
    few = bl.compile(lambda a: np.linalg.eigh(a)[1], dynamic=False)(a[5:10].copy())
    assert few.tobytes() == np.frombuffer(results[0]).reshape(a.shape)[5:10].tobytes()


def test_eigenvalues_of_special_matrices(rng: np.random.Generator) -> None:
    a = hermitian(rng.standard_normal((12, 4, 4)))
    a[0], a[1], a[2], a[3] = 0, 1, np.eye(4), np.diag([3.0, -1.0, 2.0, -1.0])
    a[4] *= 1e306
    a[5] *= 1e-290
    a[6] = np.diag([1e200, 1.0, 1e-200, 0.0])
    a[7, 2, 1] = a[7, 1, 2] = np.inf
    compiled = bl.compile(lambda a: np.linalg.eigvalsh(a), fullgraph=True)
    want, got = np.linalg.eigvalsh(a), compiled(a)
    scale = np.abs(np.where(np.isfinite(want), want, 0)).max(axis=1, keepdims=True)
    assert np.array_equal(np.isnan(got), np.isnan(want)) and np.isnan(got[7]).all()
    assert ((np.abs(got - want) <= 1e-14 * scale) | np.isnan(want)).all()
    a[[9, 11], 3, 0] = np.nan
    with pytest.raises(np.linalg.LinAlgError, match=r"did not converge \(matrix 9 of the stack"):
        compiled(a)
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.eigvalsh(a)


def test_eigenvalues_depend_on_their_matrix_alone(rng: np.random.Generator) -> None:
    a = hermitian(rng.standard_normal((3000, 6, 6)))
    results = []
    for threads in (1, 2, 3):
        f = bl.compile(lambda a: np.linalg.eigvalsh(a), dynamic=False, options={"num_threads": threads})
        results.append(f(a).tobytes())
    assert len(set(results)) == 1
    few = bl.compile(lambda a: np.linalg.eigvalsh(a), dynamic=False)(a[5:10].copy())
    assert few.tobytes() == np.frombuffer(results[0]).reshape(3000, 6)[5:10].tobytes()


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("n", [3, 9])
@pytest.mark.parametrize("name", RAISING)
def test_the_first_bad_matrix_is_named(name: str, n: int, dynamic: bool, rng: np.random.Generator) -> None:
    count = 3 * LANES + LANES // 2 + 1
    f = RAISING[name]
    a = definite(matrices(rng, np.float64, count, n, n))
    compiled = bl.compile(f, fullgraph=True, dynamic=dynamic)
    assert_close((compiled(a),), (f(a),))
    for bad in (0, 1, LANES, LANES + LANES // 2, count - 1):
        broken = a.copy()
        broken[bad] = 0
        broken[bad + 1 :: 2] = 0
        with pytest.raises(np.linalg.LinAlgError, match=rf"\(matrix {bad} of the stack"):
            compiled(broken)
        with pytest.raises(np.linalg.LinAlgError):
            f(broken)
    assert_close((compiled(a),), (f(a),))


def test_singular_matrices_have_the_determinant_zero(rng: np.random.Generator) -> None:
    a = matrices(rng, np.float64, 20, 4, 4)
    a[[3, 11, 19]] = 1.0
    compiled = bl.compile(lambda a: (np.linalg.det(a), *np.linalg.slogdet(a)), fullgraph=True)
    got = compiled(a)
    assert_close(got, (np.linalg.det(a), *np.linalg.slogdet(a)))
    assert (got[0][[3, 11, 19]] == 0).all() and (got[1][[3, 11, 19]] == 0).all()
    assert (got[2][[3, 11, 19]] == -np.inf).all()


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("exponent", [-300, -80, 80, 300])
def test_determinants_beyond_the_range_on_the_way(dtype: Any, exponent: int, rng: np.random.Generator) -> None:
    """The product over- or underflows; the determinant does not."""
    a = np.array(matrices(rng, dtype, 20, 6, 6))
    a[:, :3] *= 10.0**exponent
    a[:, 3:] /= 10.0**exponent
    compiled = bl.compile(lambda a: (np.linalg.det(a), *np.linalg.slogdet(a)), fullgraph=True)
    for x, y in zip(compiled(a), (np.linalg.det(a), *np.linalg.slogdet(a)), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9)


def test_small_numbers_lose_no_digits(rng: np.random.Generator) -> None:
    a = matrices(rng, np.float64, 20, 4, 4)
    tiny = a * 2.0**-1030
    sign, log = bl.compile(lambda a: tuple(np.linalg.slogdet(a)), fullgraph=True)(tiny)
    back = np.linalg.slogdet(tiny * 2.0**200 * 2.0**830)
    np.testing.assert_array_equal(sign, back[0])
    np.testing.assert_allclose(log, back[1] - 4 * 1030 * np.log(2), rtol=1e-12)


@pytest.mark.parametrize("n", [3, 9])
def test_nan_stays_in_its_matrix(n: int, rng: np.random.Generator) -> None:
    a = definite(matrices(rng, np.float64, 2 * LANES + 3, n, n))
    want = [f(a) for f in RAISING.values()]
    bad = a.copy()
    bad[LANES + 1] = np.nan
    compiled = bl.compile(lambda a: tuple(f(a) for f in RAISING.values()), fullgraph=True)
    others = np.arange(len(a)) != LANES + 1
    for got, expected in zip(compiled(bad), want, strict=True):
        assert_close((got[others],), (expected[others],))
        assert np.isnan(got[LANES + 1][np.tril_indices(n)]).all()


def run(op: str, *arrays: Array, **attrs: Any) -> tuple[Array, ...]:
    """One op of the table, compiled."""
    b = GraphBuilder("f")
    ids = [b.input(f"x{k}", TensorType(from_numpy(x.dtype), x.shape)) for k, x in enumerate(arrays)]
    results = b.call_tuple(op, *ids, **attrs)
    graph = b.finish([Output(r, tuple(range(b.type_of(r).ndim))) for r in results])
    return Module(graph, (), compiled_graph(graph)).run(arrays)


@pytest.mark.parametrize("n", [1, 3, 8, 20])
@pytest.mark.parametrize("dtype", DTYPES)
def test_pivots_are_those_of_lapack(n: int, dtype: Any, rng: np.random.Generator) -> None:
    """The first of the largest |re| + |im|, also among equal ones: entries are small integers."""
    a = rng.integers(-2, 3, (60, n, n)) + 3 * np.eye(n)[rng.permutation(n)] + (1j if np.dtype(dtype).kind == "c" else 0)
    a = a.astype(dtype)
    first = np.argmax(np.abs(a[:, :, 0].real) + np.abs(a[:, :, 0].imag), axis=1) + 1
    lu, pivots = run("lu_factor", a)
    assert np.array_equal(pivots[:, 0], first)
    wanted = OPS["lu_factor"].reference(a)
    same = (pivots == wanted[1]).all(axis=1)
    assert same.mean() > 0.9  # rounding decides later ties
    np.testing.assert_allclose(lu[same], wanted[0][same], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("n", [2, 6])
def test_triangles(n: int, rng: np.random.Generator) -> None:
    a, b = matrices(rng, np.complex128, 20, n, n), rights(rng, np.complex128, n, 3)
    for lower in (True, False):
        for transpose in (True, False):
            whole = np.tril(a) if lower else np.triu(a)
            whole[:, range(n), range(n)] += 9
            (x,) = run("triangular_solve", whole, b, lower=lower, transpose=transpose, unit_diagonal=False)
            turned = np.swapaxes(whole, -1, -2) if transpose else whole
            np.testing.assert_allclose(turned @ x, np.broadcast_to(b, x.shape), atol=1e-9)


def test_a_zero_pivot_goes_on_where_nobody_asks(rng: np.random.Generator) -> None:
    a = matrices(rng, np.float64, 20, 3, 3)
    a[7] = [[0, 1, 2], [0, 0, 3], [0, 0, 4]]
    got, wanted = run("lu_factor", a), OPS["lu_factor"].reference(a)
    np.testing.assert_allclose(got[0], wanted[0], rtol=1e-12)
    assert np.array_equal(got[1], wanted[1])


def loop_of(op: str, *shapes: tuple[int, ...], **attrs: Any) -> str:
    """The assembly of the kernel for one op."""
    graph = graph_of(lambda b, *x: b.call_tuple(op, *x, **attrs), *shapes, dtype=float64)
    text = assembly(module_text(scheduled(graph).program, host()))
    found = re.search(rf"^bl_lanes_{op}_\w+:$(.*?)\.Lfunc_end", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.skipif(not host().triple.startswith("x86_64") or not host().has_fma, reason="reads x86 instructions")
@pytest.mark.parametrize("n", [4, 12])
@pytest.mark.parametrize("op", ["solve", "inv", "cholesky"])
def test_multiply_adds_are_packed(op: str, n: int) -> None:
    shapes = [(100, n, n)] * (2 if op == "solve" else 1)
    text = loop_of(op, *shapes)
    assert re.search(r"vfn?m(add|sub)\d*pd\s", text)
    assert not re.search(r"vfn?m(add|sub)\d*sd\s", text)
    assert not re.search(r"v(mul|div|sqrt)sd\s", text)
    if host().vector_bits == 512:
        assert re.search(r"vfn?m(add|sub)\d*pd\s.*%zmm", text)


@pytest.mark.parametrize("n", [4, 12])
def test_threads_and_neighbours_change_no_bits(n: int, rng: np.random.Generator) -> None:
    a = matrices(rng, np.float64, 3000, n, n)
    b = rights(rng, np.float64, 3000, n, 2)
    results = []
    for threads in (1, 2, 3):
        f = bl.compile(everything, fullgraph=True, dynamic=False, options={"num_threads": threads})
        results.append([np.asarray(x).tobytes() for x in f(a, definite(a), b)])
    assert results[0] == results[1] == results[2]
    f = bl.compile(everything, fullgraph=True, dynamic=False)
    few = f(a[5:12].copy(), definite(a)[5:12].copy(), b[5:12].copy())
    many = bl.compile(everything, fullgraph=True, dynamic=False)(a, definite(a), b)
    for x, y in zip(few, many, strict=True):
        assert np.asarray(x).tobytes() == np.asarray(y)[5:12].tobytes()


def test_without_library_calls(rng: np.random.Generator) -> None:
    a, b = matrices(rng, np.float64, 30, 5, 5), rights(rng, np.float64, 30, 5, 1)
    compiled = bl.compile(everything, fullgraph=True, dynamic=False, options={"deterministic": True})
    assert_close(compiled(a, definite(a), b), everything(a, definite(a), b))


def test_only_modules_without_plain_loops_are_ready() -> None:
    def text(build: Any) -> str:
        return module_text(scheduled(graph_of(build, (100, 4, 4), dtype=float64)).program, host())

    alone = text(lambda b, a: b.call("cholesky", a))
    beside = text(lambda b, a: b.call("cumsum", b.call("cholesky", a), axis=-1))
    assert is_ready(alone) and not is_ready(beside)


def test_a_right_side_that_all_matrices_share_leaves_them_side_by_side() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.random((6, 4, 5, 5)) + 5 * np.eye(5), rng.random((4, 5, 2))
    compiled = bl.compile(lambda a, b: np.linalg.solve(a, b), fullgraph=True)
    np.testing.assert_allclose(compiled(a, b), np.linalg.solve(a, b))
    (step,) = compiled.report().kernels
    assert "side by side" in step.reason


@pytest.mark.parametrize("dtype", [np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_infinite_elements(n: int, dtype: Any) -> None:
    """One over infinity is zero, whichever part of a complex number is infinite."""
    values = [np.inf, -np.inf]
    if np.dtype(dtype).kind == "c":
        values += [complex(0, np.inf), complex(3, -np.inf), complex(np.inf, np.inf)]
    f = bl.compile(lambda a, b: (np.linalg.solve(a, b), np.linalg.inv(a)), fullgraph=True)
    for value in values:
        for i, j in ((0, 0), (0, n - 1), (n - 1, n - 1)):
            a, b = np.zeros((9, n, n), dtype) + np.eye(n), np.ones((9, n, 1), dtype)
            a[-1, i, j] = value
            for x, y in zip(f(a, b), (np.linalg.solve(a, b), np.linalg.inv(a)), strict=True):
                np.testing.assert_array_equal(np.isnan(x), np.isnan(y))
                np.testing.assert_array_equal(x[~np.isnan(x)], y[~np.isnan(y)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_matrices_of_one_element_are_their_own_eigenvalues(dtype: Any) -> None:
    a = np.array([1, -2, np.inf, -np.inf, np.nan, 1e30, 0, 3], dtype).reshape(8, 1, 1)
    f = bl.compile(lambda a: (np.linalg.eigvalsh(a), *np.linalg.eigh(a)), fullgraph=True)
    for x, y in zip(f(a), (np.linalg.eigvalsh(a), *np.linalg.eigh(a)), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)
