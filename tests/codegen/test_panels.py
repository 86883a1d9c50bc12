"""Products of matrices run in panels: every edge, every split, fused code before and after, the order of the sums."""

from __future__ import annotations

import re

import numpy as np
import pytest

import broadloom as bl
from broadloom.codegen.panels import panel_of
from broadloom.codegen.unroll import unroll
from broadloom.compiler.api import make_graph
from broadloom.compiler.build import fuse
from broadloom.dtypes import bfloat16
from broadloom.fusion.collapse import collapse
from broadloom.fusion.ir import Kernel
from broadloom.passes.table import default_pipeline
from broadloom.runtime.target import assembly

from . import programs
from .programs import Native

SHAPES = [(2, 9, 9), (7, 20, 16), (8, 12, 33), (9, 30, 17), (17, 300, 15), (16, 16, 32), (24, 9, 6)]


def program(function, *arrays, dynamic=False):
    """The loop program of a function of arrays, without calls of BLAS."""
    graph = default_pipeline().run(make_graph(function, dynamic=dynamic)(*arrays))
    with programs.as_loops():
        return fuse(graph).program


def kernels(p):
    return [collapse(unroll(s)) for s in p.steps if isinstance(s, Kernel)]


def operands(rng, shape, dtype):
    m, k, n = shape
    if np.dtype(dtype).kind in "iu":
        return rng.integers(-50, 50, (m, k)).astype(dtype), rng.integers(-50, 50, (k, n)).astype(dtype)
    return rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(k, n)).astype(dtype)


def in_order(x, y):
    """The product by rising k, each step rounded: what a panel computes where a sum is no longer than a chunk."""
    total = np.zeros((x.shape[0], y.shape[1]), x.dtype)
    for k in range(x.shape[1]):
        total = total + x[:, k, None] * y[k]
    return total


def product(x, y):
    return x @ y


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.uint32])
def test_every_edge_of_a_product(dtype, dynamic, machine, rng):
    p = program(product, *operands(rng, SHAPES[0], dtype), dynamic=True) if dynamic else None
    native = None if p is None else Native(p)
    for shape in SHAPES:
        x, y = operands(rng, shape, dtype)
        (got,) = (native or Native(program(product, x, y)))(x, y)
        if np.dtype(dtype).kind in "iu" or shape[1] <= 256:
            assert got.tobytes() == in_order(x, y).tobytes()
        else:
            limit = 8 * np.finfo(dtype).eps * (np.abs(x) @ np.abs(y))
            assert (np.abs(got - x.astype(np.float64) @ y.astype(np.float64)) <= limit).all()


@pytest.mark.parametrize("split", [(), (0.3,), (0.1, 0.2, 0.5, 0.9)])
def test_any_split_gives_the_same(split, rng):
    x, y = operands(rng, (41, 300, 37), np.float32)
    p = program(product, x, y)
    whole, parts = Native(p)(x, y), Native(p, split=split, always_split=True)(x, y)
    assert whole[0].tobytes() == parts[0].tobytes()


def test_what_is_fused_before_and_after_is_computed_once_a_point(machine, rng):
    def layer(x, y, bias, rest):
        return np.maximum((x * 2.0) @ (y - 1.0) + bias, 0.0) * rest

    x, y = operands(rng, (19, 23, 21), np.float64)
    bias, rest = rng.normal(size=21), rng.normal(size=(19, 1))
    p = program(layer, x, y, bias, rest)
    assert len(p.steps) == 1 and panel_of(*kernels(p)) is not None
    (got,) = Native(p)(x, y, bias, rest)
    assert got.tobytes() == (np.maximum(in_order(x * 2.0, y - 1.0) + bias, 0.0) * rest).tobytes()


def test_vectors_of_every_width_of_element(machine, rng):
    x, y = operands(rng, (11, 19, 21), np.float64)
    mask, weights = rng.random((11, 21)) > 0.5, rng.integers(-3, 4, (19, 21)).astype(np.int8)

    def chosen(y, weights, x, mask):  # the inputs stand in order of use
        total = x @ (y * weights)
        return np.where((total > 0) & mask, total, -1.0), total > 0

    p = program(chosen, y, weights, x, mask)
    assert len(p.steps) == 1 and panel_of(*kernels(p)) is not None
    got, positive = Native(p)(y, weights, x, mask)
    total = in_order(x, y * weights)
    np.testing.assert_array_equal(got, np.where((total > 0) & mask, total, -1.0))
    np.testing.assert_array_equal(positive, total > 0)
    for dtype in (np.float16, bfloat16.numpy):
        a, b = np.round(x * 4).astype(dtype), np.round(y * 4).astype(dtype)  # whose sums are exact
        p = program(product if dtype == np.float16 else (lambda x, y: np.dot(x, y)), a, b)
        assert panel_of(*kernels(p)) is not None
        np.testing.assert_array_equal(Native(p)(a, b)[0], (a.astype(np.float32) @ b.astype(np.float32)).astype(dtype))


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 20])
def test_a_product_added_in_place_is_added_once(rows, rng):
    def update(x, y, c):
        c += x @ y

    x, y = operands(rng, (rows, 13, 19), np.float64)
    c = rng.normal(size=(rows, 19))
    want = c + x @ y
    compiled = bl.compile(update, fullgraph=True, options={"deterministic": True})
    assert compiled(x, y, c) is None
    np.testing.assert_allclose(c, want, rtol=0, atol=1e-13)


def test_stacks_of_matrices_and_transposed_operands(rng):
    x, y = rng.normal(size=(3, 11, 20)), rng.normal(size=(20, 18))
    for a, b in ((x, y), (x, rng.normal(size=(3, 20, 18))), (x[:, :, ::2], y[:10]), (np.swapaxes(x, 1, 2), y[:11])):
        p = program(product, a, b)
        assert panel_of(*kernels(p)) is not None
        np.testing.assert_allclose(Native(p)(a, b)[0], a @ b, rtol=0, atol=1e-13)


def test_long_sums_keep_their_rounding_errors(rng):
    x, y = operands(rng, (9, 20_000, 17), np.float32)
    (got,) = Native(program(product, x, y))(x, y)
    exact = x.astype(np.float64) @ y.astype(np.float64)
    scale = np.abs(x).astype(np.float64) @ np.abs(y).astype(np.float64)
    assert (np.abs(got - exact) <= 64 * 2.0**-24 * scale).all()


def test_infinities_and_nans_stay_in_their_row_and_column(rng):
    x, y = operands(rng, (10, 400, 20), np.float32)
    x[3, 300], y[7, 19] = np.inf, np.nan
    (got,) = Native(program(product, x, y))(x, y)
    with np.errstate(invalid="ignore"):
        want = x.astype(np.float64) @ y.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))


def test_only_products_of_matrices_run_in_panels(rng):
    x, y = operands(rng, (20, 30, 40), np.float32)
    for function, args in (
        (lambda x: x.sum(axis=0), (x,)),
        (lambda x: x.sum(axis=1), (x,)),
        (lambda x, y: x @ y.T, (x, x)),  # whose columns do not lie side by side
        (lambda x, y: (x + 1j) @ (y + 1j), (x, y)),
        (lambda x: x * 2, (x,)),
    ):
        assert all(panel_of(k) is None for k in kernels(program(function, *args)))


def test_the_loop_over_a_panel_is_packed_and_holds_its_sums_in_registers(rng):
    text = assembly(Native(program(product, *operands(rng, (64, 100, 64), np.float32))).text)
    body = text.split("kernel.0.body:")[1].split(".Lfunc_end")[0]
    blocks = re.split(r"^\.LBB\w+:|^\tj\w+\t", body, flags=re.MULTILINE)
    hot = max(blocks, key=lambda b: len(re.findall(r"\bv?f?mul(ps|\.4s)", b)))
    assert len(re.findall(r"\b(v?mulps|fmul)\b", hot)) >= 8
    assert "gather" not in body and not re.search(r"\bv?mov[au]ps\s+%\w+, .*\((%rsp|%rbp)", hot)
