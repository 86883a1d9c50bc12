"""Products of matrices by the template: every edge, dtype, layout and number of threads, and what the report says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import broadloom as bl
from broadloom.capture.sources import Frame
from broadloom.codegen.matmul.blocks import Machine, packs, tile_shape
from broadloom.codegen.matmul.tile import SUM_BLOCK
from broadloom.compiler.api import make_graph
from broadloom.compiler.build import fuse
from broadloom.dtypes import bfloat16
from broadloom.fusion.evaluate import evaluate
from broadloom.fusion.ir import Extern, Layout
from broadloom.fusion.parse import parse
from broadloom.fusion.text import print_program
from broadloom.fusion.verify import verify
from broadloom.graph.parse import parse as read_graph
from broadloom.passes.table import default_pipeline
from broadloom.platform import Caches
from broadloom.runtime.python_entry import execute
from tests.compiled.modules import compiled as graph_code
from tests.compiled.pool import observed

Array = np.ndarray[Any, Any]
FLOATS = [np.float32, np.float64]
INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]


def product(x: Array, y: Array) -> Array:
    return np.asarray(x @ y)


def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
    wanted = np.dtype(dtype)
    if wanted.kind in "iu":
        info = np.iinfo(wanted)
        return rng.integers(info.min, info.max, shape, dtype=wanted, endpoint=True)
    return rng.normal(size=shape).astype(wanted)


def assert_near(got: Array, x: Array, y: Array) -> None:
    """Within the bound of a sum of products, and one rounding to the result's dtype."""
    want = x.astype(np.float64) @ y.astype(np.float64)
    size = np.abs(x).astype(np.float64) @ np.abs(y).astype(np.float64)
    sums = 2.0**-24 if got.dtype.itemsize < 8 else 2.0**-53
    least = 2.0**-9 if got.dtype == bfloat16.numpy else float(np.finfo(got.dtype).eps) / 2
    assert got.shape == want.shape
    assert (np.abs(got.astype(np.float64) - want) <= x.shape[-1] * sums * size + least * np.abs(want) + 1e-300).all()


def assert_without_copies(f: Any, *, calls: int = 1) -> None:
    """One call of the template for each product, and neither a kernel nor memory beside it."""
    report = f.report()
    assert {r.kind for r in report.kernels} == {"matmul"} and len(report.kernels) == calls * len(report.compiles)
    assert report.allocations == ()


def compiled(function: Any = product, threads: int = 2, **named: Any) -> Any:
    return bl.compile(function, fullgraph=True, options={"num_threads": threads}, **named)


SHAPES = [(33, 70, 29), (64, 64, 64), (100, 513, 48), (47, 1100, 49), (300, 40, 300), (9, 4100, 17), (2, 300, 700)]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_edge_in_every_layout(shape: tuple[int, int, int], dtype: Any, rng: np.random.Generator) -> None:
    m, k, n = shape
    for orders in ("CC", "CF", "FC", "FF"):
        x, y = (np.asarray(draw(rng, s, dtype), order=o) for s, o in zip([(m, k), (k, n)], orders, strict=True))
        f = compiled(dynamic=False)
        assert_near(f(x, y), x, y)
        assert [r.kind for r in f.report().kernels] == ["matmul"]


def test_sizes_of_the_call(rng: np.random.Generator) -> None:
    f = compiled(dynamic=True)
    for _ in range(40):
        m, k, n = (int(rng.choice([0, 2, 5, 8, 9, 16, 17, 31, 48, 49, 100, 130, 513])) for _ in range(3))
        x, y = draw(rng, (m, k), np.float32), draw(rng, (k, n), np.float32)
        assert_near(f(x, y), x, y)
    assert len(f.report().compiles) <= 3


@pytest.mark.parametrize("shape", [(130, 1500, 120), (70, 90, 80), (1, 700, 3000), (3000, 700, 1)], ids=str)
def test_the_same_bits_for_any_number_of_threads(shape: tuple[int, int, int], rng: np.random.Generator) -> None:
    m, k, n = shape
    x, y = draw(rng, (m, k), np.float32), draw(rng, (k, n), np.float32)
    alone, *others = (compiled(threads=t)(x, y).tobytes() for t in (1, 2, 3, 4))
    assert all(other == alone for other in others)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_wrap_around(dtype: Any, rng: np.random.Generator) -> None:
    for left, right in [((60, 70), (70, 33)), ((70, 80), (80, 97)), ((300, 90), (90,)), ((90,), (90, 300))]:
        x, y = draw(rng, left, dtype), draw(rng, right, dtype)
        f = compiled()
        np.testing.assert_array_equal(f(x, y), x @ y)
        assert [r.kind for r in f.report().kernels] == ["matmul"]


@pytest.mark.parametrize("dtype", [np.float16, bfloat16.numpy])
def test_halves_are_summed_in_single_precision(dtype: Any, rng: np.random.Generator) -> None:
    for left, right in [((60, 700), (700, 33)), ((200, 80), (80,)), ((80,), (80, 200))]:
        x, y = draw(rng, left, dtype), draw(rng, right, dtype)
        f = compiled()
        assert_near(np.asarray(f(x, y)), x, y)
        assert_without_copies(f)


def test_a_conversion_is_part_of_the_product(rng: np.random.Generator) -> None:
    x, y = draw(rng, (70, 80), np.int8), draw(rng, (80, 90), np.int8)
    f = compiled(lambda x, y: x.astype(np.int32) @ y.astype(np.int32))
    np.testing.assert_array_equal(f(x, y), x.astype(np.int32) @ y.astype(np.int32))
    assert_without_copies(f)
    f = compiled(lambda x, y: np.matmul(x, y, dtype=np.int32))
    np.testing.assert_array_equal(f(x, y), x.astype(np.int32) @ y.astype(np.int32))
    assert_without_copies(f)
    g = compiled(lambda x, y: x.astype(np.float32) @ y)
    np.testing.assert_array_equal(g(x, y.astype(np.float32)), x.astype(np.float32) @ y.astype(np.float32))
    assert_without_copies(g)


def test_stacks_and_one_matrix_for_all(rng: np.random.Generator) -> None:
    pairs = [
        ((3, 4, 70, 80), (80, 90)),
        ((5, 40, 50), (5, 50, 60)),
        ((4, 1, 90, 300), (3, 300, 41)),
        ((2, 600, 5), (5, 600)),
    ]
    for left, right in pairs:
        for dynamic in (False, True):
            x, y = draw(rng, left, np.float64), draw(rng, right, np.float64)
            f = compiled(dynamic=dynamic)
            assert_near(f(x, y), x, y)
            assert_without_copies(f)
    x, y = draw(rng, (3, 600, 50), np.float64), draw(rng, (600, 300), np.float64)
    f = compiled(lambda x, y: np.swapaxes(x, 1, 2) @ y)
    assert_near(f(x, y), np.swapaxes(x, 1, 2), y)
    assert_without_copies(f)
    heads = draw(rng, (2, 70, 4, 64), np.float32)
    f = compiled(lambda q: np.swapaxes(q, 1, 2) @ np.moveaxis(q, 1, 3))  # the scores of an attention
    assert_near(f(heads), np.swapaxes(heads, 1, 2), np.moveaxis(heads, 1, 3))
    assert_without_copies(f)


@pytest.mark.parametrize("dtype", ["int8", "float64"])
@pytest.mark.parametrize("k", [0, 3, 70])
def test_no_matrices_that_share_one(dtype: str, k: int) -> None:
    """There is nothing to pack, and no memory to read, where a stack is empty."""
    graph = read_graph(f"""\
graph f (s0: [0, inf], s1: [0, inf]) {{
  %0 = input x: {dtype}[s0, 50, s1] strides (50*s1, s1, 1)
  %1 = input y: {dtype}[s0, s1, 90] strides (0, 90, 1)
  %2 = matmul(%0, %1) : {dtype}[s0, 50, 90]
  return %2 order (0, 1, 2)
}}""")
    spec = graph_code(graph)
    for n in (2, 0):
        x, shared = np.ones((n, 50, k), dtype), np.ones((k, 90), dtype)
        y = np.lib.stride_tricks.as_strided(shared, (n, k, 90), (0, *shared.strides))
        (got,) = execute(spec, Frame({"x": x, "y": y}, {}))
        np.testing.assert_array_equal(got, np.matmul(x, y))


def test_any_strides(rng: np.random.Generator) -> None:
    x, y, v = (draw(rng, s, np.float32) for s in ((800, 900), (900, 700), (900,)))
    views = [(x[::5, ::3], y[::3, ::2]), (x[:90, ::-1], y[::-1, ::-1]), (x[::-2, ::3], v[::3]), (v[::-1], y[:, ::2])]
    for left, right in [*views, (x.T, x), (x, x.T), (np.broadcast_to(v[:1], (40, 900)), y)]:
        f = compiled()
        assert_near(np.asarray(f(left, right)), left, right)
        assert_without_copies(f)


def test_a_product_has_its_place_in_another_array(rng: np.random.Generator) -> None:
    x, y = draw(rng, (60, 70), np.float32), draw(rng, (70, 33), np.float32)
    f = compiled(lambda x, y: np.concatenate([x @ y, y[:60] * 2.0, (y.T @ x.T).T], axis=1))
    got = f(x, y)
    assert_near(got[:, :33], x, y)
    np.testing.assert_array_equal(got[:, 33:66], y[:60] * 2.0)
    assert_near(got[:, 66:], x, y)


def test_a_deterministic_product_is_that_of_the_template(rng: np.random.Generator) -> None:
    x, y = draw(rng, (90, 95), np.float64), draw(rng, (95, 100), np.float64)
    f = bl.compile(product, fullgraph=True, options={"deterministic": True})
    assert f(x, y).tobytes() == compiled()(x, y).tobytes()
    (record,) = f.report().kernels
    assert record.kind == "matmul" and "tiles: 855000 multiplications of float64" in str(record)
    g = compiled()
    g(x * 1j, y * 1j)
    assert "BLAS: complex numbers have no tiles" in str(g.report().kernels[-1])


def test_long_sums_do_not_lose_more_with_their_length(rng: np.random.Generator) -> None:
    """Blocks of sums: a sum of ones, beyond the integers that single precision counts one by one, is exact."""
    k = 40 * SUM_BLOCK
    x, y = np.full((40, k), 1.0, np.float32), np.full((k, 40), 1.0 + 2.0**-12, np.float32)
    np.testing.assert_allclose(compiled()(x, y), k * (1.0 + 2.0**-12), rtol=2.0**-20)


def test_without_memory_for_panels(rng: np.random.Generator) -> None:
    """Nothing is packed where few rows share it: such a product needs no memory of its own."""
    machine = Machine(16, 32, Caches(48 << 10, 1 << 20, 32 << 20))
    assert not packs(machine, 4, Layout((1024, 4096), (4096, 1)), 8, 8)
    assert packs(machine, 4, Layout((64, 64), (1, 64)), 64, 8)
    for m in range(1, 70):
        shape = tile_shape(machine, m, 100, 64)
        assert shape.rows * shape.vectors + shape.vectors + 1 <= 32 and shape.last_rows == m % shape.rows


def test_the_last_column_alone_in_a_vector_of_short_integers(rng: np.random.Generator) -> None:
    """What lies behind it is not written over: the next part of the array that the product has its place in."""
    x, y, z = (draw(rng, s, np.int16) for s in ((60, 70), (70, 33), (60, 7)))
    got = compiled(lambda x, y, z: np.concatenate([x @ y, z], axis=1))(x, y, z)
    np.testing.assert_array_equal(got, np.concatenate([x @ y, z], axis=1))


@pytest.mark.parametrize("threads", [1, 3])
def test_few_rows_are_multiplied_one_by_one(threads: int, rng: np.random.Generator) -> None:
    w = draw(rng, (700, 1500), np.float32)
    f = compiled(dynamic=True, threads=threads)
    for m in (0, 1, 2, 3, 5, 6, 7, 40):
        x = draw(rng, (m, 700), np.float32)
        assert_near(f(x, w), x, w)
        assert_near(compiled(dynamic=False, threads=threads)(x, w), x, w)
    g = compiled(lambda x, y: x @ y.T, dynamic=True, threads=threads)
    for m in (0, 1, 2, 5, 6, 7, 40):
        x = draw(rng, (3, m, 1500), np.float64)
        y = draw(rng, (700, 1500), np.float64)
        assert_near(g(x, y), x, y.T)


THIN = [(1, 5000, 3), (1, 70000, 16), (1, 3001, 1500), (1, 1024, 1000), (3, 2500, 700), (1, 513, 2000), (5, 9000, 130)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.int32, np.float16])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_deep_sum_has_the_same_bits_in_parts(dynamic: bool, dtype: Any, rng: np.random.Generator) -> None:
    """Of few columns, blocks of the summation are shared out, and added up in the order of one thread."""

    def finished(x: Array, y: Array, bias: Array) -> Array:
        return np.maximum(x @ y + bias, 0) * 2

    def turned(x: Array, y: Array, bias: Array) -> Array:
        return np.asarray(x @ y.T)

    for m, k, n in THIN if dtype is np.float32 else THIN[1:5:2]:
        x, y, bias = (draw(rng, s, dtype) for s in ((m, k), (k, n), (n,)))
        for function, right in ((lambda x, y, bias: x @ y, y), (finished, y), (turned, np.ascontiguousarray(y.T))):
            found = []
            with observed() as pool:
                f = compiled(function, dynamic=dynamic)
                for threads in (1, 2, 3, 4):
                    with pool.run(threads):
                        found.append(f(x, right, bias))
            assert all(r.tobytes() == found[0].tobytes() for r in found), (m, k, n)
            if found[0].dtype.kind == "i":
                np.testing.assert_array_equal(found[0], function(x, right, bias))
            elif function is not finished:
                assert_near(found[0], x, y)


@pytest.mark.parametrize("dynamic", [False, True])
def test_threads_share_a_row_and_a_matrix_of_few_columns(dynamic: bool, rng: np.random.Generator) -> None:
    shapes = {(8192, 1024): 16, (20000, 256): 40, (3000, 600): 6}
    for (k, n), parts in shapes.items():
        x, y = draw(rng, (1, k), np.float32), draw(rng, (k, n), np.float32)
        with observed() as pool:
            f = compiled(dynamic=dynamic)
            with pool.run(2) as jobs:
                f(x, y)
            assert [job.points for job in jobs] == [parts, 1] and len(jobs[0].threads) > 1
            with pool.run(1) as jobs:
                f(x, y)
            assert [job.points for job in jobs] == [1]
            g = compiled(lambda x, y: x @ y.T, dynamic=dynamic)
            with pool.run(2) as jobs:
                g(x, np.ascontiguousarray(y[:, :60].T))
            assert [len(job.threads) for job in jobs] == [2] and jobs[0].points == 2


BATCHES = [(512, 32, 64, 128), (9, 33, 700, 49), (20, 100, 1500, 70), (6, 20, 30, 300), (0, 3, 4, 5), (12, 64, 0, 64)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
@pytest.mark.parametrize("followed", [False, True])
def test_threads_that_take_whole_matrices(followed: bool, dtype: Any, rng: np.random.Generator) -> None:
    """The same bits for any number of threads, and as of one matrix after the other."""

    def function(x: Array, y: Array, bias: Array) -> Array:
        return np.asarray(np.maximum(x @ y + bias, 0) if followed else x @ y)

    with observed() as pool:
        f = compiled(function, dynamic=True)
        for batch, m, k, n in BATCHES:
            x, y, bias = (draw(rng, s, dtype) for s in ((batch, m, k), (batch, k, n), (n,)))
            found = []
            for threads in (1, 2, 3, 4):
                with pool.run(threads):
                    found.append(f(x, y, bias))
            assert all(r.tobytes() == found[0].tobytes() for r in found), (batch, m, k, n)
            if dtype is np.int8:
                np.testing.assert_array_equal(found[0], function(x, y, bias))
            elif not followed:
                assert_near(found[0], x, y)
            for number in range(0, batch, 7):
                np.testing.assert_array_equal(found[0][number : number + 1], f(x[[number]], y[[number]], bias))


def test_many_matrices_of_any_size_are_one_job(rng: np.random.Generator) -> None:
    x, y = draw(rng, (64, 32, 64), np.float32), draw(rng, (64, 64, 128), np.float32)
    with observed() as pool:
        f = compiled(dynamic=True)
        for few, threads in ((64, 2), (64, 3), (8, 4)):
            with pool.run(threads) as jobs:
                f(x[:few], y[:few])
            assert [(job.points, len(job.threads)) for job in jobs] == [(threads, threads)], few
        with pool.run(2) as jobs:  # each has tasks enough
            f(*(draw(rng, (3, 500, 500), np.float32) for _ in "xy"))
        assert len(jobs) == 6 and all(len(job.threads) > 1 for job in jobs)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("dynamic", [False, None])
def test_sums_of_few_columns_are_split_as_any_sum_is(
    dynamic: bool | None, dtype: Any, rng: np.random.Generator
) -> None:
    """In vectors along the summation, and with the same bits for any number of threads."""
    for m, n in ((1, 2), (1, 3), (3, 3), (8, 2), (5, 3), (2, 1), (3, 1)):
        for order in ("CC", "CF", "FC", "FF"):
            x, y = (
                np.asarray(draw(rng, s, dtype), order=o) for s, o in zip(((m, 70_001), (70_001, n)), order, strict=True)
            )
            found = []
            with observed() as pool:
                f = compiled(dynamic=dynamic)
                for threads in (1, 2, 3, 4):
                    with pool.run(threads) as jobs:
                        found.append(f(x, y))
                    if m * n < 10:
                        assert any(len(job.threads) > 1 for job in jobs) == (threads > 1), (m, n, order)
            assert {k.kind for k in f.report().kernels} == {"kernel"}
            assert all(r.tobytes() == found[0].tobytes() for r in found), (m, n, order)
            assert_near(found[0], x, y)
    vector, matrix = draw(rng, (3000,), dtype), draw(rng, (3000, 2), dtype)
    assert_near(compiled(dynamic=dynamic)(vector, matrix)[None], vector[None], matrix)
    assert_near(compiled(lambda y, x: y.T @ x, dynamic=dynamic)(matrix, vector)[None], vector[None], matrix)


@pytest.mark.parametrize("function", [lambda x, y: np.exp(x) @ y, lambda x, y: x @ np.exp(y)])
def test_what_is_computed_is_so_once_for_few_columns(function: Any, rng: np.random.Generator) -> None:
    x, y = draw(rng, (6, 9000), np.float64), draw(rng, (9000, 3), np.float64)
    f = compiled(function)
    np.testing.assert_allclose(f(x, y), function(x, y), rtol=1e-9, atol=1e-9)
    assert "matmul" in {k.kind for k in f.report().kernels}


NUMBERS = {
    "dot": lambda x, y: x @ y,
    "inner": lambda x, y: np.inner(x, y),
    "vdot": lambda x, y: np.vdot(x, y),
    "row and column": lambda x, y: x[None] @ y[:, None],
    "einsum": lambda x, y: np.einsum("i,i->", x, y),
}


@pytest.mark.parametrize("dtype", [*FLOATS, np.complex128, np.int8, np.bool_])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", NUMBERS)
def test_a_long_sum_of_products_is_split(name: str, dynamic: bool, dtype: Any, rng: np.random.Generator) -> None:
    """As any sum is, with the same bits for any number of threads; a product of one row and one column is no other."""
    function = NUMBERS[name]
    with observed() as pool:
        f = compiled(function, dynamic=dynamic)
        x, y = (rng.normal(size=100_001) * 9 for _ in "xy")
        x, y = (x > 0, y > 0) if dtype is np.bool_ else (x.astype(dtype), y.astype(dtype))
        found = []
        for threads in (1, 2, 3, 4):
            with pool.run(threads) as jobs:
                found.append(np.asarray(f(x, y)))
            assert any(len(job.threads) > 1 for job in jobs) == (threads > 1), (name, threads)
    assert {k.kind for k in f.report().kernels} == {"kernel"}
    assert all(r.tobytes() == found[0].tobytes() for r in found)
    want = np.asarray(function(x, y))
    assert found[0].dtype == want.dtype and found[0].shape == want.shape
    if np.dtype(dtype).kind in "ib":
        np.testing.assert_array_equal(found[0], want)
    else:
        assert np.abs(found[0] - want).max() <= np.finfo(dtype).eps * 100 * np.abs(x * y).sum()


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, np.float16, bfloat16.numpy, np.bool_])
def test_sizes_that_are_computed(dtype: Any, rng: np.random.Generator) -> None:
    """Expressions of sizes, as they come of slices, in whatever becomes of the sums."""

    def halves(x: Array, y: Array) -> tuple[Array, ...]:
        rows, columns = x[: x.shape[0] // 2], y[: x.shape[1], : min(y.shape)]
        return rows @ columns, (rows @ columns).astype(np.float32), np.maximum(rows @ columns, rows[0, 0])

    f = compiled(halves, dynamic=True)
    for m, k, n in ((6, 4, 4), (90, 33, 71), (2, 1, 9), (1, 3, 3)):
        x, y = (draw(rng, s, dtype) if dtype is not np.bool_ else rng.random(s) < 0.5 for s in ((m, k), (k + 2, n)))
        if m == 1:
            x = np.ones((2, k), dtype)
        got, want = f(x, y), halves(x, y)
        for g, w in zip(got, want, strict=True):
            assert g.dtype == w.dtype and g.shape == w.shape
            if np.dtype(dtype).kind in "iub":
                np.testing.assert_array_equal(g, w)
            else:
                size = np.abs(x).astype(np.float64)[: m // 2 or 1] @ np.abs(y).astype(np.float64)[:k, : min(y.shape)]
                least = 0.02 if np.dtype(dtype).itemsize == 2 else 1e-5
                assert (np.abs(g.astype(np.float64) - w.astype(np.float64)) <= least * (size + 1)).all()


# ---- code behind a product ----------------------------------------------------------------------------------------


def dense(x: Array, w: Array, bias: Array) -> Array:
    h = x @ w + bias
    return np.asarray(0.5 * h * (1.0 + np.tanh(0.7978845608 * (h + 0.044715 * h * h * h))))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "shape", [(64, 70, 90), (33, 2500, 49), (130, 600, 300), (3, 700, 600), (1, 900, 130)], ids=str
)
def test_what_follows_is_done_tile_by_tile(
    shape: tuple[int, int, int], dynamic: bool, rng: np.random.Generator
) -> None:
    m, k, n = shape
    x, w, bias = (draw(rng, s, np.float64) for s in ((m, k), (k, n), (n,)))
    x /= k**0.5
    results = []
    for threads in (1, 2, 3):
        f = compiled(dense, threads, dynamic=dynamic)
        results.append(f(x, w, bias))
        (record,) = f.report().kernels
        assert record.kind == "matmul" and "tanh" in record.ops and not f.report().allocations
        assert any("is finished tile by tile" in str(d) for d in f.report().fusions)
    np.testing.assert_allclose(results[0], dense(x, w, bias), rtol=1e-10, atol=1e-10)
    assert all(r.tobytes() == results[0].tobytes() for r in results)
    apart = bl.compile(dense, fullgraph=True, dynamic=dynamic, options={"fusion": False})
    np.testing.assert_array_equal(apart(x, w, bias), results[0])


def test_what_may_follow_and_what_may_not(rng: np.random.Generator) -> None:
    x, w, r, v = (draw(rng, s, np.float32) for s in ((3, 70, 80), (80, 90), (3, 70, 90), (80,)))

    def kinds(function: Any, *arrays: Array) -> list[str]:
        f = bl.compile(function, fullgraph=True)
        got, want = f(*arrays), function(*arrays)
        pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
        for a, b in pairs:
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=2e-3 if a.dtype == np.float16 else 1e-4, atol=2e-3)
        return [k.kind for k in f.report().kernels]

    assert kinds(lambda x, w, r: x @ w + r, x, w, r) == ["matmul"]
    assert kinds(lambda x, w, r: (x @ w).astype(np.float16) * 2, x, w, r) == ["matmul"]
    assert kinds(lambda x, w, r: (x @ w > r, x @ w), x, w, r) == ["matmul"]
    assert kinds(lambda x, w, r: np.where(r > 0, x @ w, -1.0), x, w, r) == ["matmul"]
    assert kinds(lambda x, v: np.maximum(x @ v, 0.0) + 1.0, x, v) == ["matmul"]
    assert kinds(lambda x, v: v @ np.swapaxes(x, 1, 2) * 2.0, x, v) == ["matmul"]
    assert kinds(lambda x, w: np.swapaxes(x @ w, 1, 2) * 2.0, x, w) in (["matmul"], ["matmul", "kernel"])
    assert kinds(lambda x, w: (x @ w)[:, ::-1] * 2.0, x, w) == ["matmul", "kernel"]
    assert kinds(lambda x, w: np.cumsum(x @ w, axis=-1), x, w)[0] == "matmul"
    assert kinds(lambda x, w: (x @ w).sum(axis=-1), x, w)[0] == "matmul"


def test_an_operand_that_is_written_stays_as_it_is_until_the_product_is_made(rng: np.random.Generator) -> None:
    def update(x: Array, w: Array) -> None:
        x += x @ w

    x, w = draw(rng, (80, 80), np.float64), draw(rng, (80, 80), np.float64)
    want = x + x @ w
    compiled(update)(x, w)
    np.testing.assert_allclose(x, want, rtol=1e-10, atol=1e-10)


def test_a_program_with_code_behind_a_product_is_printed_parsed_and_interpreted(rng: np.random.Generator) -> None:
    x, w, bias = (draw(rng, s, np.float64) for s in ((64, 70), (70, 90), (90,)))
    optimised = default_pipeline().run(make_graph(dense)(x, w, bias))
    program = fuse(optimised).program
    (step,) = program.steps
    assert isinstance(step, Extern) and step.epilogue is not None
    verify(program)
    assert parse(print_program(program)) == program
    (made,) = evaluate(program, [x, w, bias], optimised.constants)
    np.testing.assert_allclose(made, dense(x, w, bias), rtol=1e-12, atol=1e-12)
