"""BLAS and LAPACK steps against NumPy and against the interpreter."""

import re

import numpy as np
import pytest

from broadloom.dtypes import complex64, complex128, float32, float64, int32
from broadloom.errors import VerifyError
from broadloom.fusion.evaluate import Failure, evaluate
from broadloom.fusion.ir import Buffer, Extern, Layout, Region, Site
from broadloom.fusion.verify import verify
from broadloom.symbolic import Symbol

from .programs import Failed, Native, Written, loop, pointwise, program, strides_of

B, M, K, P = (Symbol(s) for s in "bmkp")


def layout(shape, columns_first=False, offset=0):
    strides = list(strides_of(shape))
    if columns_first:
        strides[-2:] = [1, shape[-2]]
    return Layout(tuple(shape), tuple(strides), offset)


def matrices(rng, dtype, *shape):
    x = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype.kind == "c" else 0)
    return x.astype(dtype.numpy)


def gemm(dtype, orders):
    shapes = ((B, M, K), (B, K, P), (B, M, P))
    layouts = [layout(s, c) for s, c in zip(shapes, orders, strict=True)]
    kinds = (("input", 0), ("input", 1), ("output", 0))
    buffers = [Buffer(n, dtype, y, k, p) for n, y, (k, p) in zip("abc", layouts, kinds, strict=True)]
    a, b, c = (Region(n, y) for n, y in zip("abc", layouts, strict=True))
    bindings = [(B, 0, "size", 0), (M, 0, "size", 1), (K, 0, "size", 2), (P, 1, "size", 2)]
    return program([Extern("x", "gemm", (a, b), (c,), (("dtype", dtype),))], buffers, [B, M, K, P], bindings)


def laid(x, columns_first):
    return np.swapaxes(np.ascontiguousarray(np.swapaxes(x, -1, -2)), -1, -2) if columns_first else x


@pytest.mark.parametrize("dtype", [float32, float64, complex64, complex128], ids=str)
@pytest.mark.parametrize("orders", [(p, q, r) for p in (0, 1) for q in (0, 1) for r in (0, 1)], ids=str)
def test_gemm_in_every_order(dtype, orders):
    p = gemm(dtype, orders)
    verify(p)
    native = Native(p)
    rng = np.random.default_rng(0)
    for b, m, k, q in (
        (3, 4, 5, 6),
        (1, 1, 7, 1),
        (2, 3, 1, 1),
        (0, 2, 2, 2),
        (2, 0, 3, 4),
        (2, 3, 0, 4),
        (5, 33, 17, 9),
    ):
        x, y = laid(matrices(rng, dtype, b, m, k), orders[0]), laid(matrices(rng, dtype, b, k, q), orders[1])
        (result,) = native(x, y)
        np.testing.assert_allclose(result, x @ y, rtol=2e-4 if dtype.real is float32 else 1e-11, atol=1e-5)
        if x.size and y.size:
            np.testing.assert_allclose(evaluate(p, [x, y])[0], x @ y, rtol=1e-4, atol=1e-5)


def test_a_matrix_times_itself_and_a_broadcast_batch():
    n = Symbol("n")
    row = Layout((B, n, n), (0, n, 1))
    whole = layout((B, n, n))
    buffers = [Buffer("a", float64, layout((n, n)), "input", 0), Buffer("c", float64, whole, "output", 0)]
    buffers.append(Buffer("s", float64, layout((B,)), "input", 1))
    step = Extern("x", "gemm", (Region("a", row), Region("a", row)), (Region("c", whole),))
    p = program([step], buffers, [B, n], [(B, 1, "size", 0), (n, 0, "size", 0)])
    a = matrices(np.random.default_rng(0), float64, 8, 8)
    (result,) = Native(p)(a, np.zeros(3))
    np.testing.assert_allclose(result, np.broadcast_to(a @ a, (3, 8, 8)))


def test_a_size_beyond_32_bits_is_refused():
    wide = Layout((2, 3), (Symbol("s"), 1))
    buffers = [
        Buffer("a", float64, wide, "input", 0),
        Buffer("b", float64, layout((3, 2)), "input", 1),
        Buffer("n", float64, Layout((), ()), "input", 2),
        Buffer("c", float64, layout((2, 2)), "output", 0),
    ]
    regions = [Region(b.name, b.layout) for b in buffers]
    step = Extern("x", "gemm", (regions[0], regions[1]), (regions[3],))
    p = program([step], buffers, [Symbol("s")], [(Symbol("s"), 2, "value", 0)])
    native = Native(p)
    a, b = np.arange(6.0).reshape(2, 3), np.ones((3, 2))
    np.testing.assert_array_equal(native(a, b, np.array(3))[0], a @ b)
    with pytest.raises(Failed):
        native(a, b, np.array(1 << 31))


def solve(dtype, trans="N"):
    """lu_factor and lu_solve, as lowering does them: copies, column-major."""
    n = Symbol("n")
    square, right = layout((B, n, n), True), layout((B, n, P), True)
    i, j, k, t = (loop(x, e) for x, e in (("i", B), ("j", n), ("k", n), ("t", P)))
    copy_a, copy_b, back = Written(), Written(), Written()
    plain_a, plain_b = layout((B, n, n)), layout((B, n, P))

    def at(y, *index):
        return sum((v.variable * s for v, s in zip(index, y.strides, strict=True)), 0)

    copy_a.store("lu", at(square, i, j, k), copy_a.load("a", at(plain_a, i, j, k), dtype))
    copy_b.store("x", at(right, i, j, t), copy_b.load("b", at(plain_b, i, j, t), dtype))
    back.store("o", at(plain_b, i, j, t), back.load("x", at(right, i, j, t), dtype))
    pivots = layout((B, n))
    lu, piv, x = Region("lu", square), Region("piv", pivots), Region("x", right)
    buffers = [
        Buffer("a", dtype, plain_a, "input", 0),
        Buffer("b", dtype, plain_b, "input", 1),
        Buffer("lu", dtype, square, "workspace"),
        Buffer("piv", int32, pivots, "workspace"),
        Buffer("x", dtype, right, "workspace"),
        Buffer("o", dtype, plain_b, "output", 0),
    ]
    steps = [
        pointwise([i, j, k], copy_a.body(), name="copy_a"),
        pointwise([i, j, t], copy_b.body(), name="copy_b"),
        Extern("f", "getrf", (lu,), (lu, piv), (("dtype", dtype),), 0),
        Extern("s", "getrs", (lu, piv, x), (x,), (("dtype", dtype), ("trans", trans))),
        pointwise([i, j, t], back.body(), name="back"),
    ]
    bindings = [(B, 0, "size", 0), (n, 0, "size", 1), (P, 1, "size", 2)]
    return program(steps, buffers, [B, n, P], bindings, [Site("linalg", "solve", -1)])


@pytest.mark.parametrize("trans", ["N", "T", "C"])
@pytest.mark.parametrize("dtype", [float32, float64, complex128], ids=str)
def test_solve_and_the_first_singular_matrix(dtype, trans):
    p = solve(dtype, trans)
    verify(p)
    native = Native(p)
    rng = np.random.default_rng(0)
    a, b = matrices(rng, dtype, 6, 5, 5), matrices(rng, dtype, 6, 5, 2)
    turned = {"N": a, "T": np.swapaxes(a, 1, 2), "C": np.swapaxes(a, 1, 2).conj()}[trans]
    np.testing.assert_allclose(native(a, b)[0], np.linalg.solve(turned, b), rtol=2e-3 if dtype is float32 else 1e-8)
    np.testing.assert_allclose(evaluate(p, [a, b])[0], native(a, b)[0], rtol=2e-3 if dtype is float32 else 1e-8)
    a[[2, 4]] = 1
    with pytest.raises(Failed) as caught:
        native(a, b)
    assert (caught.value.site, caught.value.payload[0]) == (0, 2)
    with pytest.raises(Failure) as interpreted:
        evaluate(p, [a, b])
    assert interpreted.value.payload[0] == 2


def in_place(routine, dtype, shapes, orders, **attrs):
    """One routine on a copy of its last operand; the others are inputs."""
    n = Symbol("n")
    names = "ab"[: len(shapes)]
    layouts = [layout(s(n), c) for s, c in zip(shapes, orders, strict=True)]
    last = layouts[-1]
    i, j, k = (loop(x, e) for x, e in zip("ijk", last.shape, strict=True))
    w = Written()
    flat = sum((v.variable * s for v, s in zip((i, j, k), last.strides, strict=True)), 0)
    w.store("o", flat, w.load(names[-1], flat, dtype))
    buffers = [Buffer(x, dtype, y, "input", q) for q, (x, y) in enumerate(zip(names, layouts, strict=True))]
    buffers.append(Buffer("o", dtype, last, "output", 0))
    target = Region("o", last)
    operands = (*(Region(x, y) for x, y in zip(names[:-1], layouts, strict=False)), target)
    steps = [pointwise([i, j, k], w.body()), Extern("x", routine, operands, (target,), tuple(sorted(attrs.items())), 0)]
    return program(steps, buffers, [B, n], [(B, 0, "size", 0), (n, 0, "size", 1)], [Site("linalg", routine, -1)])


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("dtype", [float32, complex128], ids=str)
@pytest.mark.parametrize("lower", [True, False])
def test_cholesky(dtype, order, lower):
    p = in_place("potrf", dtype, [lambda n: (B, n, n)], [order], lower=lower)
    native = Native(p)
    a = matrices(np.random.default_rng(0), dtype, 4, 5, 5)
    a = a @ np.swapaxes(a, 1, 2).conj() + 5 * np.eye(5, dtype=a.dtype)
    factor = np.linalg.cholesky(a) if lower else np.swapaxes(np.linalg.cholesky(a), 1, 2).conj()
    part = np.tril if lower else np.triu
    for run in (native, lambda x: evaluate(p, [x])):
        np.testing.assert_allclose(part(run(laid(a, order))[0]), factor, rtol=1e-4, atol=1e-4)
    a[3] = -a[3]
    with pytest.raises(Failed) as caught:
        native(laid(a, order))
    assert caught.value.payload[0] == 3


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("trans", ["N", "T"])
@pytest.mark.parametrize("unit", [True, False])
def test_triangular_solve(order, lower, trans, unit):
    shapes = [lambda n: (B, n, n), lambda n: (B, n, 3)]
    p = in_place("trsm", float64, shapes, [order, 1], lower=lower, trans=trans, unit=unit)
    native = Native(p)
    rng = np.random.default_rng(0)
    a, b = matrices(rng, float64, 4, 5, 5) + 3 * np.eye(5), laid(matrices(rng, float64, 4, 5, 3), 1)
    whole = np.tril(a) if lower else np.triu(a)
    if unit:
        whole = whole * (1 - np.eye(5)) + np.eye(5)
    expected = np.linalg.solve(np.swapaxes(whole, 1, 2) if trans == "T" else whole, b)
    for run in (native, lambda *x: evaluate(p, x)):
        np.testing.assert_allclose(run(laid(a, order), b)[0], expected, rtol=1e-9, atol=1e-9)


def test_operands_that_the_routine_cannot_take_are_refused():
    strided = Layout((B, M, K), (M * K * 4, K * 4, 2))
    p = gemm(float32, (0, 0, 0))
    (step,) = p.steps
    wrong = Extern("x", "gemm", (Region("a", strided), step.operands[1]), step.results)
    with pytest.raises(VerifyError, match="unit stride"):
        Native(program([wrong], p.buffers, p.symbols, p.bindings))
    with pytest.raises(VerifyError, match="routine"):
        Native(program([Extern("x", "gees", step.operands, step.results)], p.buffers, p.symbols, p.bindings))


def test_a_triangular_solve_with_a_zero_diagonal_goes_on():
    p = in_place("trsm", float64, [lambda n: (B, n, n), lambda n: (B, n, 3)], [1, 1], lower=True, trans="N", unit=False)
    a = np.tile(np.eye(3), (2, 1, 1))
    a[1, 1, 1] = 0.0
    b = np.ones((2, 3, 3))
    with np.errstate(all="ignore"):
        for (x,) in (Native(p)(laid(a, 1), laid(b, 1)), evaluate(p, [laid(a, 1), laid(b, 1)])):
            assert np.array_equal(x[0], b[0])
            assert np.array_equal(x[1, 0], b[1, 0]) and not np.isfinite(x[1, 1]).any()


def test_small_systems_wake_no_threads_of_the_library():
    """OpenBLAS takes all its threads for getrs and trtrs, whatever the size: triangles are solved by trsm."""
    symbols = set(re.findall(r"@(bl_d(?:ge|tr)\w+)", Native(solve(float64)).text))
    assert symbols == {"bl_dgetrf", "bl_dtrsm"}
