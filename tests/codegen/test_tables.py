"""Functions of one byte in tables: the bits of direct evaluation in every plan, dtype, layout and split."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from broadloom.codegen import driver
from broadloom.codegen.panels import panel_of
from broadloom.codegen.plans import runs_in_columns
from broadloom.codegen.unroll import unroll
from broadloom.compiler.api import make_graph
from broadloom.dtypes import bool_, float32, float64, int64, uint8
from broadloom.fusion.evaluate import evaluate
from broadloom.fusion.handlers import instructions_of
from broadloom.fusion.ir import Compute, Kernel, Lookup, Masked, Reduce
from broadloom.fusion.lower import lower
from broadloom.fusion.lowerings.table import LOWERINGS
from broadloom.fusion.parse import parse
from broadloom.fusion.schedule import schedule
from broadloom.fusion.tables import tabulate, without_tables
from broadloom.fusion.text import print_program
from broadloom.fusion.tiling import tiled_loop
from broadloom.fusion.verify import verify
from broadloom.graph.order import value_orders
from broadloom.passes.table import default_pipeline
from broadloom.runtime.target import assembly

from .programs import Accumulated, Accumulator, Native, Stage, Written, array, as_loops, loop, pointwise, program

f4, f8 = np.float32, np.float64


def programs(function, *arrays, dynamic=False):
    """The program with tables, and that without."""
    graph = default_pipeline().run(make_graph(function, dynamic=dynamic)(*arrays))
    lowered = lower(graph, value_orders(graph), LOWERINGS)
    found = schedule(lowered).program, schedule(lowered, tables=False).program
    verify(found[0])
    read = parse(print_program(found[0]))
    verify(read)
    assert read.steps == found[0].steps
    return found


def kernels(p):
    return [s for s in p.steps if isinstance(s, Kernel)]


def tables_of(p):
    return [t for k in kernels(p) for t in k.tables]


def same(p, *inputs, split=(0.1, 0.37, 0.5)):
    """Runs both programs natively; their results have the same bits."""
    results = [Native(x, split=split, always_split=True)(*inputs) for x in p]
    for got, want in zip(*results, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape and got.tobytes() == want.tobytes()
    return results[0]


def photo(rng, *shape, dtype=np.uint8):
    if dtype == np.bool_:
        return rng.random(shape) > 0.5
    return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, shape).astype(dtype)


def cast(w, value, dtype):
    return w.put(Compute("cast", (value,), dtype, (("dtype", dtype),)))


FUNCTIONS = {
    "power": lambda x: (x.astype(f4) / 255) ** f4(0.8),
    "float64": lambda x: np.exp(x / 255.0),
    "half": lambda x: np.sin(x.astype(np.float16)),
    "complex": lambda x: np.exp(x.astype(np.complex64) * 0.01j),
    "wide": lambda x: np.sin(x.astype(np.complex128)),
    "truth": lambda x: np.sin(x.astype(f4)) > f4(0.25),
    "bytes": lambda x: (np.abs(np.cos(x.astype(f4))) * f4(255)).astype(np.uint8),
}


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.bool_])
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_entry_has_the_bits_of_direct_evaluation(name, dtype, rng):
    x = np.concatenate([np.arange(256).astype(dtype), photo(rng, 4099, dtype=dtype)])
    p = programs(FUNCTIONS[name], x)
    (table,) = tables_of(p[0])
    assert table.key.name == np.dtype(dtype).name and table.entries == (2 if dtype == np.bool_ else 256)
    (stage,) = kernels(p[0])[0].stages
    assert not any(isinstance(i, Compute) for i in instructions_of(stage.body))
    same(p, x)
    (a,), (b,) = (evaluate(q, [x]) for q in p)
    assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize(
    "layout",
    [
        lambda x: x,
        lambda x: x[::2, ::3],
        lambda x: x[::-1, 1::-1] if x.shape[1] < 2 else x[::-1, ::-1],
        lambda x: x.T,
        lambda x: np.broadcast_to(x[0], (97, x.shape[1])),
    ],
)
def test_odd_sizes_and_strides(layout, rng):
    x = layout(photo(rng, 199, 211))
    p = programs(FUNCTIONS["power"], x)
    assert len(tables_of(p[0])) == 1
    same(p, x)


def test_memory_bools_that_are_not_one(rng):
    x = photo(rng, 5000).view(np.bool_)
    p = programs(lambda x: np.exp(x.astype(f4)), x)
    assert len(tables_of(p[0])) == 1
    same(p, x)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.bool_])
def test_symbolic_sizes_down_to_none(dtype, rng):
    p = programs(FUNCTIONS["float64"], photo(rng, 40, 50, dtype=dtype), dynamic=True)
    assert len(tables_of(p[0])) == 1
    for shape in ((40, 50), (1, 1), (0, 7), (7, 0), (0, 0), (3, 1001)):
        same(p, photo(rng, *shape, dtype=dtype))


@pytest.mark.parametrize("enough", [0.0, 1e12])
def test_calls_of_symbolic_sizes_take_either_code(enough, rng, monkeypatch):
    function = lambda x, g: ((x.astype(f4) / 255) ** g).max(axis=0)  # noqa: E731
    gamma = np.array(0.8, f4)
    x = photo(rng, 50, 60)
    p, static = programs(function, x, gamma, dynamic=True), programs(function, x, gamma)
    monkeypatch.setattr(driver, "ENOUGH", enough)
    assert kernel_functions(p[0]) == 2 and kernel_functions(p[1]) == kernel_functions(static[0]) == 1
    for shape in ((50, 60), (1, 9), (9, 1), (200, 33)):
        same(p, photo(rng, *shape), gamma)


def kernel_functions(p):
    return len(re.findall(r"define internal void @kernel\.\d+\.body", Native(p).text))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.bool_])
def test_the_way_back(dtype, rng):
    x = photo(rng, 40, 50, dtype=dtype)

    def both(x, y):
        return np.exp(x / 99.0) * y, np.exp(x / 99.0) ** 1.5

    with_tables, direct = programs(both, x, rng.random((40, 50)))
    back = replace(with_tables, steps=tuple(map(without_tables, with_tables.steps)))
    verify(back)
    assert [len(k.stages[0].body.instructions) for k in kernels(back)] == [
        len(k.stages[0].body.instructions) for k in kernels(direct)
    ]
    same((back, direct), x, rng.random((40, 50)))


@pytest.mark.parametrize("split", [(), (0.5,), (0.01, 0.02, 0.3, 0.301, 0.9)])
def test_any_split_fills_tables_of_its_own(split, rng):
    x = photo(rng, 61, 83)
    same(programs(lambda x: np.sin(x / 9.0).max(axis=1), x), x, split=split)
    same(programs(FUNCTIONS["power"], x), x, split=split)


def test_what_is_the_same_for_all_points_goes_into_the_entries(rng):
    def toned(x, gain, gamma, weights):
        return np.minimum(x.astype(f4) / 255 * gain, weights[1]) ** gamma * x.shape[0]

    x = photo(rng, 60, 70)
    scalars = np.array(1.5, f4), np.array([0.3, 1, 2], f4), np.array(0.8, f4)
    p = programs(toned, x, scalars[0], scalars[2], scalars[1])
    assert len(tables_of(p[0])) == 1
    for gain in (0.5, np.nan, 3.0):
        same(p, x, np.array(gain, f4), *scalars[1:])
    # An element of an array that may be empty is loaded by no one but the points.
    assert not tables_of(programs(toned, x, scalars[0], scalars[2], scalars[1], dynamic=True)[0])


def test_scalars_beside_symbolic_sizes(rng):
    def toned(x, gain, gamma):
        return (x.astype(f4) / x.shape[1] * gain) ** gamma

    scalars = np.array(1.5, f4), np.array(0.8, f4)
    p = programs(toned, photo(rng, 60, 70), *scalars, dynamic=True)
    assert len(tables_of(p[0])) == 1
    for shape in ((60, 70), (0, 5), (5, 0), (1, 3)):
        same(p, photo(rng, *shape), *scalars)


def test_several_tables_in_one_kernel_and_equal_functions_share_one(rng):
    def curve(x):
        return np.exp(x.astype(f4) * f4(0.01)) ** f4(1.5)

    x, y, m = photo(rng, 4001), photo(rng, 4000, dtype=np.int8), photo(rng, 4000, dtype=np.bool_)

    def mixed(x, y, m):
        return curve(x[1:]) * curve(x[:-1]) + np.sin(y.astype(f4)) - np.log(m.astype(f4) + 2)

    p = programs(mixed, x, y, m)
    (kernel,) = kernels(p[0])
    assert sorted(t.key.name for t in kernel.tables) == ["bool", "int8", "uint8"]
    assert sum(isinstance(i, Lookup) for i in instructions_of(kernel.stages[0].body)) == 4
    same(p, x, y, m)


def test_a_value_that_is_needed_twice_is_in_a_table_once(rng):
    def twice(x, y):
        power = (x.astype(f4) / 255) ** f4(0.8)
        return power * y, power * f4(255) + f4(0.5)

    x, y = photo(rng, 5000), rng.random(5000, f4)
    p = programs(twice, x, y)
    assert len(tables_of(p[0])) == 1
    same(p, x, y)


def test_a_byte_that_is_computed_is_a_key_too(rng):
    x, y = photo(rng, 4500), photo(rng, 4500)
    p = programs(lambda x, y: np.sin((x ^ y).astype(f4)), x, y)
    assert len(tables_of(p[0])) == 1
    same(p, x, y)


# ---- plans --------------------------------------------------------------------------------------------------------


def test_columns(rng):
    x = photo(rng, 90, 130)
    p = programs(lambda x: np.exp(x / 255.0).sum(axis=0), x)
    assert any(runs_in_columns(k) and k.tables for k in kernels(p[0]))
    same(p, x)


@pytest.mark.parametrize("axis", [1, None])
def test_reductions(axis, rng):
    x = photo(rng, 90, 130)
    for function in (lambda x: np.sin(x / 9.0).max(axis=axis), lambda x: np.sin(x / 9.0).argmax(axis=axis)):
        p = programs(function, x)
        assert len(tables_of(p[0])) == 1
        same(p, x)
    p = programs(lambda x: np.exp(x / 255.0).sum(axis=axis), x)
    assert len(tables_of(p[0])) == 1
    (got,), (want,) = (Native(q)(x) for q in p)  # whose order within a chunk is the vectoriser's
    np.testing.assert_allclose(got, want, rtol=1e-14)


def test_cumulative(rng):
    x = photo(rng, 5000)
    p = programs(lambda x: np.cumsum(np.exp(x / 255.0)), x)
    assert len(tables_of(p[0])) == 1
    same(p, x)


def test_tiles(rng):
    x, y = photo(rng, 130, 70), rng.random((70, 130), f4)
    p = programs(lambda x, y: np.sin(x.T.astype(f4)) + y, x, y)
    assert any(tiled_loop(k) is not None and k.tables for k in kernels(p[0]))
    same(p, x, y)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.bool_])
def test_panels_look_up_behind_their_sums(dtype, rng):
    x, y, u = rng.random((67, 20)), rng.random((20, 83)), photo(rng, 67, 83, dtype=dtype)
    graph = default_pipeline().run(make_graph(lambda x, y, u: x @ y * np.exp(u / 99.0))(x, y, u))
    with as_loops():
        lowered = lower(graph, value_orders(graph), LOWERINGS)
    p = schedule(lowered).program, schedule(lowered, tables=False).program
    (kernel,) = kernels(p[0])
    assert panel_of(unroll(kernel)) is not None and len(kernel.tables) == 1
    same(p, x, y, u)


def product_of_sines(rows, length, columns):
    """sin(x) @ sin(y) for bytes x and y, in one kernel."""
    i, j, k = loop("i", rows), loop("j", columns), loop("k", length)
    w, s = Written(), Written()
    x = w.load("x", i.variable * length + k.variable, uint8)
    y = w.load("y", k.variable * columns + j.variable, uint8)
    a, b = (w.op("sin", cast(w, v, float32), dtype=float32) for v in (x, y))
    w.put(Reduce("a", w.op("multiply", a, b, dtype=float32)))
    s.store("o", i.variable * columns + j.variable, s.put(Accumulated("a", float32)))
    stages = Stage((k,), w.body()), Stage((), s.body())
    kernel = Kernel("k", (i, j), stages, (Accumulator("a", "sum", float32, float32),))
    buffers = [
        array("x", uint8, (rows, length), "input", 0),
        array("y", uint8, (length, columns), "input", 1),
        array("o", float32, (rows, columns), "output", 0),
    ]
    return program([kernel], buffers)


def test_panels_look_up_before_they_multiply(rng):
    p = product_of_sines(19, 30, 37)
    changed, decisions = tabulate(p.steps[0], {b.name: b for b in p.buffers})
    assert len(changed.tables) == 1 and len(decisions) == 2 and panel_of(changed) is not None
    same((program([changed], p.buffers), p), photo(rng, 19, 30), photo(rng, 30, 37))


def test_windows_and_padded_readers(rng):
    x = photo(rng, 71, 83)

    def blurred(x):
        toned = np.sin(x.astype(f4))
        wide = np.pad(toned, 1)
        return wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2]

    p = programs(blurred, x)
    assert tables_of(p[0])
    same(p, x)
    p = programs(lambda x: np.sin(np.pad(x, 2).astype(f4)), x)
    assert len(tables_of(p[0])) == 1
    same(p, x)


def masked_sines(size):
    """sin(x) + cos(y) at odd places, 0 elsewhere: computed in a masked part, but for the cast of x."""
    i = loop("i", size)
    w = Written()
    at = w.index(i.variable)
    odd = w.op("equal", w.op("bitwise_and", at, w.number(int64, 1), dtype=int64), w.number(int64, 1), dtype=bool_)
    x = w.load("x", i.variable, uint8)
    wide = cast(w, x, float64)
    zero = w.number(float64, 0)
    inner = Written(w.base + len(w))
    value = inner.op("sin", wide, dtype=float64)
    other = inner.op("cos", cast(inner, inner.load("y", i.variable, uint8), float64), dtype=float64)
    total = inner.op("add", value, other, dtype=float64)
    w.store("o", i.variable, w.put(Masked(odd, inner.body(), total, zero, float64)))
    buffers = [
        array("x", uint8, (size,), "input", 0),
        array("y", uint8, (size,), "input", 1),
        array("o", float64, (size,), "output", 0),
    ]
    return program([pointwise([i], w.body())], buffers)


def test_masked_parts(rng):
    p = masked_sines(4001)
    changed, _ = tabulate(p.steps[0], {b.name: b for b in p.buffers})
    (masked,) = (i for i in changed.stages[0].body.instructions if isinstance(i, Masked))
    assert len(changed.tables) == 2 and sum(isinstance(i, Lookup) for i in masked.body.instructions) == 2
    with_tables = program([changed], p.buffers)
    verify(with_tables)
    assert parse(print_program(with_tables)) == with_tables
    x, y = photo(rng, 4001), photo(rng, 4001)
    same((with_tables, p), x, y)
    (a,), (b,) = (evaluate(q, [x, y]) for q in (with_tables, p))
    assert a.tobytes() == b.tobytes()


def test_bytes_that_an_index_array_picks(rng):
    x, at = photo(rng, 300), rng.integers(-300, 300, 5000)
    p = programs(lambda x, at: np.sin(x[at].astype(f4)), x, at)
    assert len(tables_of(p[0])) == 1
    (got,) = same(p, x, at)
    np.testing.assert_allclose(got, np.sin(x[at].astype(f4)), rtol=1e-6)


def test_last_axes_that_are_unrolled(rng):
    x = photo(rng, 70, 40, 3)
    p = programs(lambda x: np.exp(x / 255.0).sum(axis=-1), x)
    assert len(tables_of(p[0])) == 1
    same(p, x)


# ---- code ---------------------------------------------------------------------------------------------------------


def test_the_hot_loop_holds_no_power(rng):
    p, direct = programs(FUNCTIONS["power"], photo(rng, 100_000))
    text = Native(p).text
    assert text.count("@bl.pow.f32(") == 2  # its definition, and the call that fills the table
    assert "@bl.pow.v" not in text and "@bl.pow.v" in Native(direct).text
    body = assembly(text).split("kernel.0.body:")[1].split(".Lfunc_end")[0]
    blocks = re.split(r"^\.LBB\w+:", body, flags=re.MULTILINE)
    hot = [b for b in blocks if re.search(r"movzx?b\w*\s+[^%]*\(|ldrb", b)]
    arithmetic = re.compile(r"\b(v?div|vf?n?m(add|sub)|v?mulp|fmla|fdiv|fmadd)")
    assert hot and not any(arithmetic.search(b) for b in hot)
    assert any(arithmetic.search(b) for b in blocks)
