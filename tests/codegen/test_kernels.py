"""Kernels, compiled and called directly, against NumPy and against the interpreter of loop programs."""

import hashlib
import re

import numpy as np
import pytest

from broadloom.codegen.abi import FAILED, OUT_OF_MEMORY
from broadloom.codegen.plans import hoisted_checks, runs_in_columns
from broadloom.codegen.unroll import unroll
from broadloom.dtypes import (
    ALL,
    FLOATS,
    bfloat16,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint64,
)
from broadloom.errors import VerifyError
from broadloom.fusion.collapse import collapse
from broadloom.fusion.evaluate import Failure, evaluate
from broadloom.fusion.ir import (
    Accumulated,
    Accumulator,
    Buffer,
    Indirect,
    Kernel,
    Layout,
    Load,
    Masked,
    Reduce,
    Running,
    Site,
    Stage,
)
from broadloom.fusion.tiling import tiled_loop
from broadloom.fusion.verify import verify
from broadloom.graph.ir import Constant
from broadloom.runtime.target import assembly
from broadloom.symbolic import Symbol, smin

from .programs import SIZES, Failed, M, N, Native, Written, array, loop, pointwise, program, reduction, strides_of

ROW, COLUMN = loop("i", N), loop("j", M)
i, j = ROW.variable, COLUMN.variable
DEPTH = Symbol("p")


def same(a, b):
    assert a.dtype == b.dtype
    if a.dtype == bfloat16.numpy:  # whose nans NumPy's comparison does not know
        a, b = a.astype(np.float32), b.astype(np.float32)
    np.testing.assert_array_equal(a, b)


def agree(p, *inputs, **rest):
    """Runs natively and by the interpreter; both must agree to the last bit but for float sums."""
    verify(p)
    native = Native(p, **rest)
    copies = [x.copy() for x in inputs]
    for ours, theirs in zip(native(*inputs), evaluate(p, copies), strict=True):
        np.testing.assert_allclose(ours.astype(theirs.dtype), theirs, rtol=1e-5 if ours.dtype.kind in "fc" else 0)
    return native


# ---- pointwise ----------------------------------------------------------------------------------------------------


def add_rows():
    w = Written()
    total = w.op("add", w.load("x", i * M + j, float32), w.load("y", j, float32), dtype=float32)
    w.store("o", i * M + j, total)
    buffers = [
        array("x", float32, (N, M), "input", 0),
        array("y", float32, (M,), "input", 1),
        array("o", float32, (N, M), "output", 0),
    ]
    return program([pointwise([ROW, COLUMN], w.body())], buffers, [N, M], SIZES)


@pytest.fixture(scope="module")
def rows():
    return Native(add_rows())


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (7, 3), (300, 1), (1, 500), (301, 203)])
@pytest.mark.parametrize("split", [(), (0.5,), (0.001, 0.002, 0.33, 0.34, 0.999)])
def test_any_split_of_the_points_gives_the_same(rows, shape, split):
    rows.split = split
    rng = np.random.default_rng(1)
    x, y = rng.random(shape, np.float32), rng.random(shape[1], np.float32)
    before = rows.parallel_calls
    (result,) = rows(x, y)
    same(result, x + y)
    assert rows.parallel_calls - before == (x.size > 50_000)


def test_three_loops_that_cannot_be_joined():
    k = loop("k", 5)
    w = Written()
    w.store("o", (i * M + j) * 5 + k.variable, w.load("x", i + N * j + N * M * k.variable, int32))
    buffers = [
        Buffer("x", int32, Layout((N, M, 5), (1, N, N * M)), "input", 0),
        array("o", int32, (N, M, 5), "output", 0),
    ]
    p = program([pointwise([ROW, COLUMN, k], w.body())], buffers, [N, M], SIZES)
    x = np.asfortranarray(np.random.default_rng(0).integers(0, 99, (37, 61, 5), np.int32))
    native = Native(p)
    for split in ((0.1, 0.2, 0.8), (0.01, 0.011, 0.012, 0.7)):
        native.split = split
        same(native(x)[0], np.ascontiguousarray(x))
    assert len(collapse(p.steps[0]).outer) == 3


def test_contiguous_loops_are_joined():
    w = Written()
    w.store("o", i * M + j, w.load("x", i * M + j, float32))
    kernel = pointwise([ROW, COLUMN], w.body())
    (joined,) = collapse(kernel).outer
    assert joined.extent is N * M
    assert [x.index for x in collapse(kernel).stages[0].body.instructions[:1]] == [joined.variable]


def test_strides_are_read_from_the_input():
    s, t = Symbol("s", -(1 << 62)), Symbol("t", -(1 << 62))
    w = Written()
    w.store("o", i * M + j, w.load("x", i * s + j * t, float64))
    buffers = [Buffer("x", float64, Layout((N, M), (s, t)), "input", 0), array("o", float64, (N, M), "output", 0)]
    bindings = (*SIZES, (s, 0, "stride", 0), (t, 0, "stride", 1))
    native = Native(program([pointwise([ROW, COLUMN], w.body())], buffers, [N, M, s, t], bindings))
    x = np.random.default_rng(0).random((60, 90))
    for view in (x, x[::-1, ::-2], x.T, np.broadcast_to(x[:1], (9, 90)), x[5:5], x[::7, 3:4]):
        same(native(view)[0], np.ascontiguousarray(view))


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_every_dtype_passes_through_memory(dtype):
    w = Written()
    w.store("o", i, w.load("x", i, dtype))
    buffers = [array("x", dtype, (N,), "input", 0, aligned=False), array("o", dtype, (N,), "output", 0)]
    native = Native(program([pointwise([ROW], w.body())], buffers, [N], SIZES[:1]))
    raw = np.random.default_rng(0).integers(0, 2 if dtype is bool_ else 256, 77 * dtype.itemsize + 1).astype(np.uint8)
    x = raw[1:].view(dtype.numpy)
    assert native(x)[0].tobytes() == x.tobytes()


def test_any_nonzero_byte_of_a_bool_is_true():
    w = Written()
    w.store("o", i, w.load("x", i, bool_))
    buffers = [array("x", bool_, (N,), "input", 0), array("o", bool_, (N,), "output", 0)]
    p = program([pointwise([ROW], w.body())], buffers, [N], SIZES[:1])
    x = np.arange(256, dtype=np.uint8).view(np.bool_)
    assert Native(p)(x)[0].view(np.uint8).tolist() == [0] + [1] * 255


def test_memory_seen_as_another_dtype():
    k = loop("i", 2 * N)
    w = Written()
    w.store("o", k.variable, w.load("x", k.variable, uint16))
    buffers = [array("x", float32, (N,), "input", 0), array("o", uint16, (2 * N,), "output", 0)]
    p = program([pointwise([k], w.body())], buffers, [N], SIZES[:1])
    x = np.random.default_rng(0).random(33, np.float32)
    same(Native(p)(x)[0], x.view(np.uint16))


def test_index_values_divide_as_python_does():
    d, v = Symbol("d"), loop("i", N)
    e = v.variable - 7
    w = Written()
    w.store("q", v.variable, w.index(e // d))
    w.store("r", v.variable, w.index(e % d))
    w.store("c", v.variable, w.index(e // 3 * 10 + e % 3))
    buffers = [array("x", int64, (N,), "input", 0), array("d", int64, (), "input", 1)]
    buffers += [array(name, int64, (N,), "output", k) for k, name in enumerate("qrc")]
    p = program([pointwise([v], w.body())], buffers, [N, d], [SIZES[0], (d, 1, "value", 0)])
    x, at = np.zeros(40, np.int64), np.arange(40) - 7
    native = agree(p, x, np.array(5))
    q, r, c = native(x, np.array(5))
    same(q, at // 5)
    same(r, at % 5)
    same(c, at // 3 * 10 + at % 3)
    native(x[:0], np.array(0))  # a divisor of 0 where nothing is iterated


def test_complex_numbers_are_pairs():
    w = Written()
    x = w.load("x", i, complex128)
    w.store("o", i, w.op("multiply", x, w.number(complex128, 2 - 3j), dtype=complex128))
    w.store("a", i, w.op("real", x, dtype=float64))
    buffers = [array("x", complex128, (N,), "input", 0), array("o", complex128, (N,), "output", 0)]
    p = program([pointwise([ROW], w.body())], [*buffers, array("a", float64, (N,), "output", 1)], [N], SIZES[:1])
    x = np.random.default_rng(0).random(50) + 1j * np.random.default_rng(1).random(50)
    product, real = Native(p)(x)
    np.testing.assert_allclose(product, x * (2 - 3j), rtol=1e-15)  # NumPy fuses in vectors
    same(real, x.real)


def test_a_constant_array_is_data_of_the_module():
    data = np.random.default_rng(0).random(300)
    constant = Constant(float64, (300,), None, hashlib.sha256(data.tobytes()).hexdigest())
    w = Written()
    k = loop("i", 300)
    w.store("o", k.variable, w.load("c", k.variable, float64))
    buffers = [array("c", float64, (300,), "constant", constant=constant), array("o", float64, (300,), "output", 0)]
    p = program([pointwise([k], w.body())], buffers)
    same(Native(p, constants={constant.digest: data})()[0], data)
    with pytest.raises(VerifyError, match="not in the table"):
        Native(p)


# ---- reductions ---------------------------------------------------------------------------------------------------

FUNCTIONS = {
    "sum": np.sum,
    "prod": np.prod,
    "max": np.max,
    "min": np.min,
    "fmax": np.fmax.reduce,
    "fmin": np.fmin.reduce,
    "any": np.any,
    "all": np.all,
    "xor": np.bitwise_xor.reduce,
    "argmax": np.argmax,
    "argmin": np.argmin,
}
CASES = [
    *(("sum", d) for d in (float32, float64, complex64, complex128, int32, int64, uint64, float16, bfloat16)),
    *(("prod", d) for d in (float32, int16, complex64)),
    *((k, d) for k in ("max", "min", "argmax", "argmin") for d in (float32, float16, int8, uint64, complex64)),
    *((k, d) for k in ("fmax", "fmin") for d in (float64, float16, bfloat16, int32)),
    *((k, bool_) for k in ("any", "all", "argmax", "max", "min")),
    *(("xor", d) for d in (bool_, uint8)),
]


def operand(rng, dtype, shape):
    if dtype is bool_:
        return rng.random(shape) > 0.98
    if dtype.is_integer:
        low = 0 if dtype.kind == "u" else -20
        return rng.integers(low, 20, shape).astype(dtype.numpy)
    x = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype.kind == "c" else 0)
    return x.astype(dtype.numpy)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize(("kind", "dtype"), CASES, ids=str)
def test_reductions(kind, dtype, axis):
    native = Native(reduction(kind, axis, dtype))
    rng = np.random.default_rng(3)
    for shape in ((1, 1), (3, 70), (70, 3), (40, 1100)):
        x = operand(rng, dtype, shape)
        if kind == "prod":
            x = x[:9, :9].copy()
        variants = [x]
        if dtype.is_inexact and kind not in ("sum", "prod"):
            spoiled = x.copy()
            spoiled[rng.random(x.shape) < 0.1] = np.nan
            spoiled[-1] = np.nan
            variants.append(spoiled)
        for v in variants:
            (result,) = native(v)
            if kind in ("sum", "prod") and dtype.is_inexact:
                wide = np.complex128 if dtype.kind == "c" else np.float64
                exact, scale = FUNCTIONS[kind](v.astype(wide), axis=axis), np.sum(np.abs(v.astype(wide)), axis=axis)
                eps = {float16: 1e-3, bfloat16: 8e-3, float64: 3e-16, complex128: 3e-16}.get(dtype, 2e-7)
                bound = 4 * eps * (scale if kind == "sum" else 20 * np.abs(exact)) + 1e-30
                assert np.all(np.abs(result.astype(wide) - exact) <= bound)
            elif dtype is bfloat16:
                same(result, FUNCTIONS[kind](v.astype(np.float32), axis=axis).astype(v.dtype))
            else:
                expected = np.asarray(FUNCTIONS[kind](v, axis=axis))
                same(result, expected.astype(result.dtype) if dtype.is_integer else expected)


def test_empty_reductions_give_the_identity():
    for kind, dtype, expected in (("sum", float32, 0), ("prod", int32, 1), ("any", bool_, False), ("all", bool_, True)):
        for axis, shape in ((0, (0, 3)), (1, (3, 0)), (None, (0, 0))):
            (result,) = Native(reduction(kind, axis, dtype))(np.zeros(shape, dtype.numpy))
            assert np.all(result == expected)
            assert not np.any(np.signbit(result.astype(float)))


@pytest.mark.parametrize("axis", [0, 1])
def test_sums_do_not_depend_on_the_split(axis):
    native = Native(reduction("sum", axis, float32))
    x = np.random.default_rng(0).standard_normal((900, 800)).astype(np.float32)
    results = []
    for split in ((), (0.5,), (0.013, 0.4, 0.41)):
        native.split = split
        results.append(native(x)[0].tobytes())
    assert len(set(results)) == 1


@pytest.mark.parametrize("axis", [0, 1, None])
def test_long_sums_are_nearly_exact(axis):
    shape = {0: (300_000, 2), 1: (2, 300_000), None: (1000, 600)}[axis]
    x = np.random.default_rng(0).random(shape, np.float32) + np.float32(1000)
    exact = x.astype(np.float64).sum(axis=axis)
    (result,) = Native(reduction("sum", axis, float32))(x)
    assert np.all(np.abs(result - exact) <= 2e-6 * exact / 8), "naive summation is off by 1e-3"


def test_sums_of_infinities():
    x = np.ones((3, 10_000), np.float32)
    x[0, 5], x[1, 7000], x[2, 3] = np.inf, -np.inf, np.nan
    same(Native(reduction("sum", 1, float32))(x)[0], np.array([np.inf, -np.inf, np.nan], np.float32))
    same(Native(reduction("sum", 0, float32))(x.T.copy())[0], np.array([np.inf, -np.inf, np.nan], np.float32))


def test_argmax_takes_the_first_of_equals_and_of_nans():
    x = np.zeros((4, 3000), np.float32)
    x[1, [700, 2000]] = np.nan
    x[2] = -np.inf
    x[3, [1500, 1501]] = 5
    same(Native(reduction("argmax", 1, float32))(x)[0], np.argmax(x, 1))
    same(Native(reduction("argmax", 0, float32))(x.T.copy())[0], np.argmax(x, 1))
    low = np.full((2, 600), np.iinfo(np.int64).min)
    same(Native(reduction("argmax", 1, int64))(low)[0], np.array([0, 0]))


def softmax():
    stages = [loop(f"j{k}", M) for k in range(3)]
    v = [s.variable for s in stages]
    a, b, c = Written(), Written(), Written()
    a.put(Reduce("top", a.load("x", i * M + v[0], float32)))
    shifted = b.op("subtract", b.load("x", i * M + v[1], float32), b.put(Accumulated("top", float32)), dtype=float32)
    e = b.op("exp", shifted, dtype=float32)
    b.store("t", i * M + v[1], e)
    b.put(Reduce("total", e))
    whole = c.put(Accumulated("total", float32))
    c.store("o", i * M + v[2], c.op("divide", c.load("t", i * M + v[2], float32), whole, dtype=float32))
    kernel = Kernel(
        "softmax",
        (ROW,),
        tuple(Stage((s,), w.body()) for s, w in zip(stages, (a, b, c), strict=True)),
        (Accumulator("top", "max", float32, float32), Accumulator("total", "sum", float32, float32)),
    )
    buffers = [
        array("x", float32, (N, M), "input", 0),
        array("t", float32, (N, M), "workspace"),
        array("o", float32, (N, M), "output", 0),
    ]
    return program([kernel], buffers, [N, M], SIZES)


def test_stages_of_a_row_run_in_order():
    x = np.random.default_rng(0).standard_normal((60, 70)).astype(np.float32)
    native = agree(softmax(), x)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(native(x)[0], e / e.sum(1, keepdims=True), rtol=1e-5)
    native(x[:0])
    native(x[:, :0])


def test_a_stage_whose_length_depends_on_the_outer_point():
    chunks = (N + 63) // 64
    c = loop("c", chunks)
    s = loop("s", smin(64, N - 64 * c.variable))
    w, e = Written(), Written()
    w.put(Reduce("a", w.load("x", 64 * c.variable + s.variable, float64)))
    e.store("o", c.variable, e.put(Accumulated("a", float64)))
    kernel = Kernel(
        "k", (c,), (Stage((s,), w.body()), Stage((), e.body())), (Accumulator("a", "sum", float64, float64),)
    )
    p = program(
        [kernel], [array("x", float64, (N,), "input", 0), array("o", float64, (chunks,), "output", 0)], [N], SIZES[:1]
    )
    for n in (0, 1, 64, 65, 1000):
        agree(p, np.random.default_rng(n).random(n))


def scan(kind, axis, dtype):
    outer, inner = (ROW, COLUMN) if axis == 1 else (COLUMN, ROW)
    w = Written()
    w.store("o", i * M + j, w.put(Running("a", w.load("x", i * M + j, dtype), dtype)))
    kernel = Kernel("k", (outer,), (Stage((inner,), w.body(), True),), (Accumulator("a", kind, dtype, dtype),))
    buffers = [array("x", dtype, (N, M), "input", 0), array("o", dtype, (N, M), "output", 0)]
    return program([kernel], buffers, [N, M], SIZES)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [float32, float16, int64, complex128, bfloat16], ids=str)
@pytest.mark.parametrize(("kind", "function"), [("sum", np.add), ("prod", np.multiply), ("max", np.maximum)])
def test_cumulative_ops_round_as_numpy_does(kind, function, dtype, axis):
    x = operand(np.random.default_rng(0), dtype, (40, 50))
    if dtype is complex128 and kind == "prod":
        x = np.round(x)[:, :20].copy()
    if dtype.kind == "f" and kind == "max":
        x[13, 20] = np.nan
    with np.errstate(all="ignore"):
        same(Native(scan(kind, axis, dtype))(x)[0], function.accumulate(x, axis=axis))


# ---- indirect access ----------------------------------------------------------------------------------------------


def take(index_dtype=int64):
    t = Symbol("t0", 0, N - 1)
    k = loop("k", M)
    w = Written()
    w.put(Indirect(w.load("at", k.variable, index_dtype), N, t, 0, k.variable))
    w.store("o", k.variable, w.load("x", t, float32))
    buffers = [
        array("x", float32, (N,), "input", 0),
        array("at", index_dtype, (M,), "input", 1),
        array("o", float32, (M,), "output", 0),
    ]
    bindings = [SIZES[0], (M, 1, "size", 0)]
    return program([pointwise([k], w.body())], buffers, [N, M], bindings, [Site("index", "take", 0)])


def test_take_reports_the_first_bad_index_of_any_chunk():
    native = Native(take())
    x, at = np.random.default_rng(0).random(50, np.float32), np.random.default_rng(1).integers(-50, 50, 90_000)
    same(native(x, at)[0], x[at])
    at[[80_000, 20_000, 20_001]] = 50, -51, 99
    with pytest.raises(Failed) as caught:
        native(x, at)
    error = caught.value
    assert (error.code, error.site, error.key, error.payload) == (FAILED, 0, 20_000, (-51, 50))
    with pytest.raises(Failure) as interpreted:
        evaluate(take(), [x, at[19_990:20_010]])
    assert (interpreted.value.key, interpreted.value.payload) == (10, (-51, 50))


def test_take_from_nothing():
    native = Native(take())
    assert native(np.zeros(0, np.float32), np.zeros(0, np.int64))[0].size == 0
    with pytest.raises(Failed):
        native(np.zeros(0, np.float32), np.zeros(3, np.int64))


@pytest.mark.parametrize("dtype", [int8, uint8, uint64], ids=str)
def test_index_dtypes(dtype):
    native = Native(take(dtype))
    x = np.random.default_rng(0).random(100, np.float32)
    at = np.random.default_rng(1).integers(-100 if dtype.kind == "i" else 0, 100, 40).astype(dtype.numpy)
    same(native(x, at)[0], x[at])
    if dtype is uint64:
        at[7] = 2**64 - 1  # not -1
        with pytest.raises(Failed):
            native(x, at)


def test_the_earlier_site_wins_over_the_earlier_index():
    a, b = Symbol("t0", 0, N - 1), Symbol("t1", 0, N - 1)
    k = loop("k", M)
    w = Written()
    w.put(Indirect(w.load("p", k.variable, int64), N, a, 0, k.variable))
    w.put(Indirect(w.load("q", k.variable, int64), N, b, 1, k.variable))
    w.store("o", k.variable, w.op("add", w.load("x", a, float32), w.load("x", b, float32), dtype=float32))
    buffers = [
        array("x", float32, (N,), "input", 0),
        array("p", int64, (M,), "input", 1),
        array("q", int64, (M,), "input", 2),
        array("o", float32, (M,), "output", 0),
    ]
    sites = [Site("index", "take", 0), Site("index", "take", 0)]
    p = program([pointwise([k], w.body())], buffers, [N, M], [SIZES[0], (M, 1, "size", 0)], sites)
    x, first, second = np.zeros(5, np.float32), np.zeros(100, np.int64), np.zeros(100, np.int64)
    first[90], second[3] = 5, 6
    with pytest.raises(Failed) as caught:
        Native(p)(x, first, second)
    assert (caught.value.site, caught.value.key, caught.value.payload) == (0, 90, (5, 5))


def scatter(mode, dtype):
    t = Symbol("t0", 0, N - 1)
    k, z = loop("k", M), loop("z", N)
    fill, w = Written(), Written()
    fill.store("o", z.variable, fill.number(dtype, 0))
    w.put(Indirect(w.load("at", k.variable, int64), N, t, 0, k.variable))
    w.store("o", t, w.load("x", k.variable, dtype), mode)
    buffers = [
        array("x", dtype, (M,), "input", 0),
        array("at", int64, (M,), "input", 1),
        array("size", dtype, (N,), "input", 2),
        array("o", dtype, (N,), "output", 0),
    ]
    steps = [pointwise([z], fill.body()), pointwise([k], w.body(), name="s", serial=True)]
    bindings = [(N, 2, "size", 0), (M, 0, "size", 0)]
    return program(steps, buffers, [N, M], bindings, [Site("index", "scatter", 0)])


@pytest.mark.parametrize("dtype", [float32, int16, complex64, float16, bool_], ids=str)
def test_scatter_with_equal_indices(dtype):
    rng = np.random.default_rng(0)
    x, at = operand(rng, dtype, 60_000), rng.integers(-40, 40, 60_000)
    if dtype is float16:
        x = (x * 0 + 1).astype(np.float16)
    expected = np.zeros(40, dtype.numpy)
    np.add.at(expected, at, x)
    same(Native(scatter("add", dtype))(x, at, expected)[0], expected)
    expected[:] = 0
    expected[at] = x
    same(Native(scatter("set", dtype))(x, at, expected)[0], expected)


def pad(dtype, width=2):
    k = loop("i", N + 2 * width)
    w = Written()
    at = w.index(k.variable)
    low = w.op("greater_equal", at, w.index(width), dtype=bool_)
    high = w.op("less", at, w.index(N + width), dtype=bool_)
    mask, seven = w.op("logical_and", low, high, dtype=bool_), w.number(dtype, 7)
    inner = Written(base=len(w))
    x = inner.load("x", k.variable - width, dtype)
    w.store("o", k.variable, w.put(Masked(mask, inner.body(), x, seven, dtype)))
    buffers = [array("x", dtype, (N,), "input", 0), array("o", dtype, (N + 2 * width,), "output", 0)]
    return program([pointwise([k], w.body())], buffers, [N], SIZES[:1])


@pytest.mark.parametrize("dtype", [float32, float64, uint8, int16, bool_, complex64, float16], ids=str)
def test_masked_loads_stay_in_bounds(dtype):
    native = Native(pad(dtype, 100))
    for n in (0, 1, 1000):
        x = operand(np.random.default_rng(0), dtype, n)
        same(native(x)[0], np.pad(x, 100, constant_values=dtype.numpy.type(7)))


# ---- the module ---------------------------------------------------------------------------------------------------


def test_kernels_with_the_same_code_are_one_function():
    def bounded(source, target):
        w = Written()
        x = w.load(source, i, float32)
        w.store(target, i, w.op("tanh", x, dtype=float32))
        return pointwise([ROW], w.body(), name=f"{source}{target}")

    buffers = [
        array("x", float32, (N,), "input", 0),
        array("t", float32, (N,), "workspace"),
        array("u", float32, (N,), "workspace"),
        array("o", float32, (N,), "output", 0),
    ]
    native = Native(program([bounded("x", "t"), bounded("t", "u"), bounded("u", "o")], buffers, [N], SIZES[:1]))
    assert len(re.findall(r"^define internal .*@kernel\.\d+\(", native.text, re.M)) == 1
    x = np.random.default_rng(0).random(100, np.float32)
    np.testing.assert_allclose(native(x)[0], np.tanh(np.tanh(np.tanh(x))), rtol=1e-5)
    assert native.allocated >= 800


def test_no_memory_for_the_workspace():
    native = Native(softmax())
    native.exhausted = True
    with pytest.raises(Failed) as caught:
        native(np.zeros((4, 5), np.float32))
    assert caught.value.code == OUT_OF_MEMORY
    assert caught.value.site == -1


def test_a_workspace_size_that_overflows_is_out_of_memory():
    k, big = loop("i", N), Symbol("big")
    w = Written()
    w.store("t", 0, w.load("x", i, int64))
    e = Written()
    e.store("o", 0, e.load("t", 0, int64))
    buffers = [
        array("x", int64, (N,), "input", 0),
        array("big", int64, (), "input", 1),
        Buffer("t", int64, Layout((big, big), strides_of((big, big))), "workspace"),
        array("o", int64, (), "output", 0),
    ]
    steps = [pointwise([k], w.body(), serial=True), pointwise([], e.body(), name="e")]
    p = program(steps, buffers, [N, big], [SIZES[0], (big, 1, "value", 0)])
    native = Native(p)
    assert native(np.arange(5), np.array(2))[0] == 4
    with pytest.raises(Failed) as caught:
        native(np.arange(5), np.array(1 << 33))
    assert caught.value.code == OUT_OF_MEMORY


def test_in_place_on_one_buffer():
    w = Written()
    w.store("x", i, w.op("add", w.load("x", i, float32), w.number(float32, 1), dtype=float32))
    p = program([pointwise([ROW], w.body())], [array("x", float32, (N,), "input", 0)], [N], SIZES[:1])
    x = np.arange(100_000, dtype=np.float32)
    assert Native(p)(x) == []
    same(x, np.arange(1, 100_001, dtype=np.float32))


def test_equal_programs_give_equal_text():
    assert Native(softmax()).text == Native(softmax()).text


# ---- what the machine code looks like -----------------------------------------------------------------------------


def hot_loop_is_packed(p, *packed):
    text = assembly(Native(p).text)
    body = text.split("kernel.0.body:")[1].split(".Lfunc_end")[0]
    assert set(re.findall(r"call\w*\s+(\w+)", body)) <= {"memset", "memcpy"}, "a library call in a kernel"
    return all(re.search(rf"\b{x}\b", body) for x in packed)


def test_kernels_use_packed_instructions():
    assert hot_loop_is_packed(add_rows(), "v?addps")
    for axis in (None, 0, 1):
        assert hot_loop_is_packed(reduction("sum", axis, float32), "v?addps")
        assert hot_loop_is_packed(reduction("max", axis, float32), "v?maxps")
        assert hot_loop_is_packed(reduction("sum", axis, int32), "v?paddd")
        assert hot_loop_is_packed(reduction("argmax", axis, float32), "v?(maxps|cmp\\w*ps|blendvps)")
    assert hot_loop_is_packed(scan("sum", 0, float32), "v?addps")
    assert hot_loop_is_packed(softmax(), "v?divps", "v?mulps", "v?maxps")


def test_a_sum_over_the_first_axis_walks_memory_in_order():
    assert runs_in_columns(reduction("sum", 0, float32).steps[0])
    assert not runs_in_columns(reduction("sum", 1, float32).steps[0])


def test_half_precision_of_every_kind():
    for dtype in FLOATS:
        w = Written()
        x = w.load("x", i, dtype)
        w.store("o", i, w.op("add", w.op("multiply", x, x, dtype=dtype), x, dtype=dtype))
        buffers = [array("x", dtype, (N,), "input", 0), array("o", dtype, (N,), "output", 0)]
        x = operand(np.random.default_rng(0), dtype, 500)
        same(Native(program([pointwise([ROW], w.body())], buffers, [N], SIZES[:1]))(x)[0], x * x + x)


def test_unbound_symbols_and_unknown_accumulators_are_refused():
    w = Written()
    w.put(Load("x", j, float32))
    with pytest.raises(VerifyError):
        Native(program([pointwise([ROW], w.body())], [array("x", float32, (N,), "input", 0)], [N], SIZES[:1]))
    w = Written()
    w.put(Accumulated("none", float32))
    with pytest.raises(VerifyError):
        Native(program([pointwise([ROW], w.body())], [array("x", float32, (N,), "input", 0)], [N], SIZES[:1]))


def rows_of(width, dtype=float32):
    """(x - y) summed over the last axis, and stored, for rows of a constant width."""
    k = loop("k", width)
    w, e = Written(), Written()
    d = w.op("subtract", w.load("x", i * width + k.variable, dtype), w.load("y", k.variable, dtype), dtype=dtype)
    w.put(Reduce("a", d))
    e.store("o", i, e.put(Accumulated("a", dtype)))
    kernel = Kernel("k", (ROW,), (Stage((k,), w.body()), Stage((), e.body())), (Accumulator("a", "sum", dtype, dtype),))
    buffers = [array("x", dtype, (N, width), "input", 0), array("y", dtype, (width,), "input", 1)]
    return program([kernel], [*buffers, array("o", dtype, (N,), "output", 0)], [N], SIZES[:1])


def columns_of(width, dtype=float32):
    """x * y, and the maximum over the rows, for rows of a constant width."""
    k = loop("k", width)
    w, e = Written(), Written()
    w.put(Reduce("a", w.load("x", i * width + k.variable, dtype)))
    e.store("o", k.variable, e.put(Accumulated("a", dtype)))
    top = Kernel("k", (k,), (Stage((ROW,), w.body()), Stage((), e.body())), (Accumulator("a", "max", dtype, dtype),))
    w = Written()
    product = w.op("multiply", w.load("x", i * width + k.variable, dtype), w.load("y", k.variable, dtype), dtype=dtype)
    w.store("p", i * width + k.variable, product)
    buffers = [array("x", dtype, (N, width), "input", 0), array("y", dtype, (width,), "input", 1)]
    buffers += [array("o", dtype, (width,), "output", 0), array("p", dtype, (N, width), "output", 1)]
    return program([top, pointwise([ROW, k], w.body(), name="p")], buffers, [N], SIZES[:1])


@pytest.mark.parametrize("width", [1, 3, 8, 9])
def test_short_rows(width):
    rng = np.random.default_rng(0)
    for n in (0, 1, 1000):
        x, y = rng.integers(0, 99, (n, width)).astype(np.float32), rng.integers(0, 9, width).astype(np.float32)
        same(Native(rows_of(width), always_split=True)(x, y)[0], (x - y).sum(1))
        if n:
            top, scaled = Native(columns_of(width), always_split=True)(x, y)
            same(top, x.max(0))
            same(scaled, x * y)


def test_short_loops_are_unrolled_into_the_loop_around_them():
    (kernel,) = (unroll(s) for s in rows_of(3).steps)
    assert kernel.stages[0].loops == ()
    top, scaled = (unroll(s) for s in columns_of(3).steps)
    assert (top.outer, len(top.accumulators)) == ((), 3)
    assert scaled.outer == (ROW,)
    assert [len(unroll(s).outer) for s in columns_of(9).steps] == [1, 2]
    assert unroll(take().steps[0]) == take().steps[0]
    assert hot_loop_is_packed(rows_of(3), "v?addps")


def transposed(*order):
    """o[i, j, k] = x permuted by `order`, plus one; both in C order."""
    loops = (ROW, COLUMN, loop("k", DEPTH))
    variables = [x.variable for x in loops]
    shape = (N, M, DEPTH)
    turned = [shape[a] for a in order]
    flat = sum((variables[a] * s for a, s in zip(order, strides_of(turned), strict=True)), 0)
    out = sum((v * s for v, s in zip(variables, strides_of(shape), strict=True)), 0)
    w = Written()
    w.store("o", out, w.op("add", w.load("x", flat, float32), w.number(float32, 1), dtype=float32))
    buffers = [array("x", float32, turned, "input", 0), array("o", float32, shape, "output", 0)]
    bindings = [(s, 0, "size", order.index(a)) for a, s in enumerate(shape)]
    return program([pointwise(loops, w.body())], buffers, shape, bindings)


@pytest.mark.parametrize("order", [(2, 1, 0), (0, 2, 1), (2, 0, 1), (1, 2, 0), (1, 0, 2)], ids=str)
def test_transpositions_run_in_tiles(order):
    p = transposed(*order)
    assert (tiled_loop(collapse(p.steps[0])) is not None) == (order[2] != 2)
    native = Native(p, always_split=True)
    for shape in ((1, 1, 1), (33, 64, 2), (2, 31, 100), (70, 3, 33), (0, 4, 5), (65, 40, 31)):
        x = np.random.default_rng(0).random([shape[a] for a in order], np.float32)
        for split in ((), (0.3, 0.31, 0.77)):
            native.split = split
            same(native(x)[0], np.transpose(x, np.argsort(order)) + np.float32(1))


def embedding():
    """Rows of x picked by indices."""
    t, k = Symbol("t0", 0, N - 1), loop("k", DEPTH)
    w = Written()
    w.put(Indirect(w.load("at", k.variable, int64), N, t, 0, k.variable))
    w.store("o", k.variable * M + j, w.op("add", w.load("x", t * M + j, float32), w.number(float32, 1), dtype=float32))
    buffers = [
        array("x", float32, (N, M), "input", 0),
        array("at", int64, (DEPTH,), "input", 1),
        array("o", float32, (DEPTH, M), "output", 0),
    ]
    bindings = [*SIZES, (DEPTH, 1, "size", 0)]
    return program([pointwise([k, COLUMN], w.body())], buffers, [N, M, DEPTH], bindings, [Site("index", "take", 0)])


def test_a_check_that_stays_the_same_is_made_outside_of_the_loop():
    assert re.search(r"v?addps", assembly(Native(embedding()).text))
    native = Native(embedding(), always_split=True, split=(0.2, 0.37, 0.9))
    rng = np.random.default_rng(0)
    x, at = rng.random((9, 70), np.float32), rng.integers(-9, 9, 40)
    same(native(x, at)[0], x[at] + np.float32(1))
    at[[30, 20]] = 9, -10
    with pytest.raises(Failed) as caught:
        native(x, at)
    with pytest.raises(Failure) as interpreted:
        evaluate(embedding(), [x, at])
    assert caught.value.payload == interpreted.value.payload == (-10, 9)
    assert (caught.value.site, caught.value.key) == (0, interpreted.value.key)
    assert native(x[:, :0].copy(), at)[0].shape == (40, 0)
    assert hoisted_checks(take().steps[0].stages[0].body, take().steps[0].outer[0].variable, frozenset()) == frozenset()


def turned_take():
    """o[i, j] = x[at[j, i]] where `at` and `o` are in C order, and keys count through `at`: tiles."""
    t = Symbol("t0", 0, DEPTH - 1)
    w = Written()
    w.put(Indirect(w.load("at", j * N + i, int64), DEPTH, t, 0, j * N + i))
    w.store("o", i * M + j, w.load("x", t, float32))
    buffers = [
        array("x", float32, (DEPTH,), "input", 0),
        array("at", int64, (M, N), "input", 1),
        array("o", float32, (N, M), "output", 0),
    ]
    bindings = [(DEPTH, 0, "size", 0), (M, 1, "size", 0), (N, 1, "size", 1)]
    return program([pointwise([ROW, COLUMN], w.body())], buffers, [N, M, DEPTH], bindings, [Site("index", "take", 0)])


def summed_take():
    """o[j] = the sum of x[at[i, j]] over i: columns."""
    t = Symbol("t0", 0, DEPTH - 1)
    fold, store = Written(), Written()
    fold.put(Indirect(fold.load("at", i * M + j, int64), DEPTH, t, 0, i * M + j))
    fold.put(Reduce("a", fold.load("x", t, float32)))
    store.store("o", j, store.put(Accumulated("a", float32)))
    buffers = [
        array("x", float32, (DEPTH,), "input", 0),
        array("at", int64, (N, M), "input", 1),
        array("o", float32, (M,), "output", 0),
    ]
    bindings = [(DEPTH, 0, "size", 0), (N, 1, "size", 0), (M, 1, "size", 1)]
    stages = (Stage((ROW,), fold.body()), Stage((), store.body()))
    kernel = Kernel("k", (COLUMN,), stages, (Accumulator("a", "sum", float32, float32),))
    return program([kernel], buffers, [N, M, DEPTH], bindings, [Site("index", "take", 0)])


@pytest.mark.parametrize("make", [turned_take, summed_take])
def test_the_lowest_key_is_named_by_tiles_and_columns(make):
    p = make()
    (kernel,) = p.steps
    assert runs_in_columns(kernel) or tiled_loop(kernel) is not None
    native = Native(p, always_split=True, split=(0.2, 0.37, 0.9))
    rng = np.random.default_rng(0)
    x, good = rng.random(9, np.float32), rng.integers(-9, 9, (70, 90))
    np.testing.assert_allclose(native(x, good)[0], x[good].T if make is turned_take else x[good].sum(axis=0), rtol=1e-5)
    for _ in range(20):
        at = good.copy()
        at[rng.integers(70, size=4), rng.integers(90, size=4)] = 9 + np.arange(4)
        first = int(np.flatnonzero(at > 8)[0])
        with pytest.raises(Failed) as caught:
            native(x, at)
        assert (caught.value.key, caught.value.payload) == (first, (at.ravel()[first], 9))
    with pytest.raises(Failure) as interpreted:
        evaluate(p, [x, at])
    assert (interpreted.value.key, interpreted.value.payload) == (first, caught.value.payload)


def hoisted_beside_another():
    """o[k, j] = x[p[k]] + y[q[k, j]]; the check of q comes first in the program's order, that of p first in time."""
    a, b, k = Symbol("t0", 0, N - 1), Symbol("t1", 0, DEPTH - 1), loop("k", 7)
    w = Written()
    w.put(Indirect(w.load("p", k.variable, int64), N, a, 1, k.variable))
    w.put(Indirect(w.load("q", k.variable * M + j, int64), DEPTH, b, 0, k.variable * M + j))
    total = w.op("add", w.load("x", a, float32), w.load("y", b, float32), dtype=float32)
    w.store("o", k.variable * M + j, total)
    buffers = [
        array("x", float32, (N,), "input", 0),
        array("y", float32, (DEPTH,), "input", 1),
        array("p", int64, (7,), "input", 2),
        array("q", int64, (7, M), "input", 3),
        array("o", float32, (7, M), "output", 0),
    ]
    bindings = [(N, 0, "size", 0), (DEPTH, 1, "size", 0), (M, 3, "size", 1)]
    sites = [Site("index", "take", 0), Site("index", "gather", 0)]
    return program([pointwise([k, COLUMN], w.body())], buffers, [N, M, DEPTH], bindings, sites)


def test_a_failed_check_outside_of_the_loop_hides_none_inside():
    p = hoisted_beside_another()
    assert hoisted_checks(p.steps[0].stages[0].body, j, frozenset())
    x, y = np.zeros(5, np.float32), np.zeros(6, np.float32)
    outer, inner = np.zeros(7, np.int64), np.zeros((7, 40), np.int64)
    outer[2], inner[2, 30] = 55, 66
    for run, error in ((Native(p), Failed), (lambda *arrays: evaluate(p, arrays), Failure)):
        with pytest.raises(error) as caught:
            run(x, y, outer, inner)
        assert (caught.value.site, caught.value.key, caught.value.payload) == (0, 110, (66, 6))
        with pytest.raises(error) as caught:
            run(x, y, outer, inner * 0)
        assert (caught.value.site, caught.value.key, caught.value.payload) == (1, 2, (55, 5))
        with pytest.raises(error) as caught:
            run(x[:0].copy(), y, outer, inner * 0)  # nothing there to go on with
        assert (caught.value.site, caught.value.key, caught.value.payload) == (1, 0, (0, 0))


def test_keys_do_not_hinder_the_joining_of_loops():
    t = Symbol("t0", 0, DEPTH - 1)
    w = Written()
    w.put(Indirect(w.load("at", i * M + j, int64), DEPTH, t, 0, j * N + i))
    w.store("o", i * M + j, w.load("x", t, float32))
    buffers = [
        array("x", float32, (DEPTH,), "input", 0),
        array("at", int64, (N, M), "input", 1),
        array("o", float32, (N, M), "output", 0),
    ]
    bindings = [(DEPTH, 0, "size", 0), (N, 1, "size", 0), (M, 1, "size", 1)]
    kernel = collapse(pointwise([ROW, COLUMN], w.body()))
    assert len(kernel.outer) == 1
    p = program([kernel], buffers, [N, M, DEPTH], bindings, [Site("index", "take", 0)])
    verify(p)
    at = np.zeros((8, 9), np.int64)
    at[1, 7], at[5, 2] = 20, 30
    for run, error in ((Native(p), Failed), (lambda *arrays: evaluate(p, arrays), Failure)):
        with pytest.raises(error) as caught:
            run(np.zeros(4, np.float32), at)
        assert (caught.value.key, caught.value.payload) == (2 * 8 + 5, (30, 4))


def test_more_points_than_can_be_counted_are_refused():
    big = Symbol("big")
    a, b = loop("a", big), loop("b", big)
    w = Written()
    w.store("o", 0, w.index(a.variable * b.variable))
    buffers = [array("big", int64, (), "input", 0), array("o", int64, (), "output", 0)]
    native = Native(program([pointwise([a, b], w.body(), serial=True)], buffers, [big], [(big, 0, "value", 0)]))
    assert native(np.array(5))[0] == 16
    with pytest.raises(Failed) as caught:
        native(np.array(1 << 33))
    assert caught.value.code == OUT_OF_MEMORY


@pytest.mark.parametrize("op", ["fmod", "atan2"])
def test_no_library_call_is_left_for_half_precision(op):
    w = Written()
    w.store("o", i * M + j, w.op(op, w.load("x", i, float16), w.load("y", j, float16), dtype=float16))
    buffers = [array("x", float16, (N,), "input", 0), array("y", float16, (M,), "input", 1)]
    p = program(
        [pointwise([ROW, COLUMN], w.body())],
        [*buffers, array("o", float16, (N, M), "output", 0)],
        [N, M],
        [(N, 0, "size", 0), (M, 1, "size", 0)],
    )
    rng = np.random.default_rng(0)
    x, y = operand(rng, float16, 40), operand(rng, float16, 70)
    expected = (np.fmod if op == "fmod" else np.arctan2)(x[:, None].astype(float), y.astype(float)).astype(np.float16)
    np.testing.assert_allclose(Native(p)(x, y)[0].astype(float), expected.astype(float), rtol=1e-3)
