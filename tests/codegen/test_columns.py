"""Columns side by side: the vectors they run in, every number of them, and how threads share them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import broadloom as bl
from broadloom.codegen.abi import features_of
from broadloom.codegen.parts import is_ready
from broadloom.codegen.plans import COLUMN_STEP, runs_in_columns
from broadloom.codegen.unroll import unroll
from broadloom.runtime.target import assembly

from .programs import HERE, Native
from .test_panels import kernels, program


def softmax(x):
    shifted = np.exp(x - np.max(x, axis=0, keepdims=True))
    return shifted / np.sum(shifted, axis=0, keepdims=True)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("rows", "columns", "grain"),
    [(3000, 33, COLUMN_STEP), (100, 1000, 4 * COLUMN_STEP), (100, 1024, 4), (100, 1029, 5 * COLUMN_STEP)],
)
def test_a_thread_takes_two_wide_shares(rows, columns, grain, dynamic, rng):
    """Of columns, or of steps where these are known to be whole."""
    if dynamic and columns % COLUMN_STEP == 0:
        grain *= COLUMN_STEP
    x = rng.normal(size=(rows, columns)).astype(np.float32)
    p = program(softmax, x, dynamic=dynamic)
    assert all(map(runs_in_columns, kernels(p)))
    native = Native(p)
    (got,) = native(x)
    assert native.parallel_calls == 1 and native.grain == grain
    np.testing.assert_allclose(got, softmax(x), rtol=1e-4)


@pytest.mark.parametrize(("columns", "grain"), [(512, 512), (700, 704), (1024, 1024), (3000, 1024), (8192, 2048)])
def test_few_threads_share_no_short_pieces_of_rows_that_no_cache_holds(columns, grain, rng):
    """A chunk is as much as a page of each row then, or whole rows."""
    x = rng.normal(size=((1 << 20) // columns, columns)).astype(np.float32)
    native = Native(program(softmax, x, dynamic=True))
    np.testing.assert_allclose(native(x)[0], softmax(x), rtol=1e-4)
    assert native.parallel_calls == 1 and native.grain == grain


@pytest.mark.parametrize("shape", [(3000, 1), (3000, 5), (3000, 65), (700, 333)])
def test_columns_add_up_alike_on_any_threads(shape, rng):
    x = rng.normal(size=shape).astype(np.float32)
    results = {n: bl.compile(softmax, options={"num_threads": n})(x).tobytes() for n in (1, 2, 3, 4)}
    assert len(set(results.values())) == 1


def logsumexp(x):
    top = np.max(x, axis=0)
    return np.log(np.sum(np.exp(x - top), axis=0)) + top


def extremes(x):
    return np.max(x, axis=0), np.min(x, axis=0), np.sum(x, axis=0), np.prod(x, axis=0)


def weighted(w, x):
    return np.maximum(x, np.exp(w)[:, None]).sum(0) / w.shape[0]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_columns_of_every_number_are_vectors(dtype, dynamic, machine, rng):
    x = rng.normal(size=(9, 40)).astype(dtype)
    several = Native(program(softmax, x, dynamic=True)) if dynamic else None
    for n in [4, 5, 15, 16, 17, 33, 64, 65, 100, 127, 130] if dynamic else [12, 33, 130]:
        x = rng.normal(size=(9, n)).astype(dtype)
        native = several or Native(program(softmax, x))
        assert is_ready(native.text)
        (got,) = native(x)
        np.testing.assert_allclose(got, softmax(x.astype(np.float64)), rtol=4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "function", [softmax, logsumexp, lambda x: x.var(0), lambda x: (x - x.mean(0)) / (x.std(0) + 1), extremes]
)
def test_passes_down_columns_are_vectors(function, dynamic, rng):
    """Of more rows than are added up in one chunk, and more columns than lie in one block."""
    x = rng.normal(loc=1, scale=0.1, size=(300, 4100)).astype(np.float32)
    native = Native(program(function, x, dynamic=dynamic))
    assert is_ready(native.text)
    want = function(x.astype(np.float64))
    for got, wanted in zip(native(x), want if isinstance(want, tuple) else (want,), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_nan_and_zeros_down_columns(machine, rng):
    x = rng.normal(size=(50, 77)).astype(np.float32)
    x[3, ::5], x[0, ::7], x[49, ::9], x[:, 1] = np.nan, np.nan, np.inf, -np.inf
    x[:, 2], x[::2, 2] = 0.0, -0.0
    native = Native(program(extremes, x))
    for got, want in zip(native(x)[:2], extremes(x)[:2], strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64", "int64"])
def test_integers_add_up_down_columns(dtype, machine, rng):
    x = rng.integers(0, 100, (21, 70)).astype(dtype)
    native = Native(program(extremes, x))
    assert is_ready(native.text)
    for got, want in zip(native(x), extremes(x), strict=True):
        np.testing.assert_array_equal(got, want)


def test_columns_beside_what_is_the_same_for_all_of_them(machine, rng):
    x, w = rng.normal(size=(31, 45)), rng.normal(size=31)
    native = Native(program(weighted, w, x))
    assert is_ready(native.text)
    np.testing.assert_allclose(native(w, x)[0], weighted(w, x), rtol=1e-12)


@pytest.mark.parametrize(
    "shape", [(3, 40, 70), (3, 40, 128), (2, 9, 64), (2, 9, 12), (5, 300, 33), (0, 5, 9), (3, 0, 9), (3, 5, 0)]
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_columns_along_a_middle_axis_in_any_pieces(shape, dynamic, rng):
    def scaled(x):
        return x * 2 - (x * x).sum(1, keepdims=True)

    x = rng.normal(size=shape).astype(np.float32)
    p = program(scaled, x, dynamic=dynamic)
    whole = Native(p)
    assert is_ready(whole.text) or not x.size
    want = whole(x)[0]
    np.testing.assert_allclose(want, scaled(x), rtol=1e-4, atol=1e-5)
    for split in [] if not x.size else [(0.1, 0.37), (0.013, 0.5, 0.51), (1 / 3,)]:
        got = Native(p, split=split, always_split=True)(x)[0]
        assert got.tobytes() == want.tobytes()


def test_columns_that_begin_anywhere(rng):
    x = np.asfortranarray(rng.normal(size=(40, 67)).astype(np.float32).T).T[:, 3:]
    f = bl.compile(lambda x: x.max(0) + x.sum(0))
    np.testing.assert_allclose(f(x), x.max(0) + x.sum(0), rtol=1e-5)
    memory = np.zeros(40 * 67 * 4 + 1, np.uint8)
    odd = memory[1:].view(np.float32).reshape(40, 67)
    odd[:] = rng.normal(size=(40, 67))
    np.testing.assert_allclose(f(odd), odd.max(0) + odd.sum(0), rtol=1e-5, atol=1e-5)


def test_the_report_says_that_points_run_side_by_side(rng):
    f = bl.compile(lambda x: x.max(0))
    f(rng.normal(size=(40, 50)))
    assert "; neighbouring points side by side, as loops within them stride through memory" in str(f.report())
    g = bl.compile(lambda x: x.max(1))
    g(rng.normal(size=(40, 50)))
    assert "side by side" not in str(g.report())


@pytest.mark.parametrize("columns", [9, 12, 16, 17, 40, 64])
@pytest.mark.parametrize("function", [lambda x: x.sum(0), lambda x: x.max(0)])
def test_sums_of_few_columns_stay_in_registers(function, columns, rng):
    x = rng.normal(size=(1000, columns)).astype(np.float32)
    native = Native(program(function, x), split=(0.2, 0.7), always_split=True)
    np.testing.assert_allclose(native(x)[0], function(x.astype(np.float64)), rtol=1e-4, atol=1e-4)
    if {"avx512vl", "avx512bw"} <= features_of(HERE):
        body = assembly(native.text).split("kernel.0.body:")[1].split("retq")[0]
        assert is_ready(native.text) and not re.search(r"zmm\d+, \d*\(%rsp", body)


def sums(x):
    return np.sum(x, axis=0), np.max(x, axis=0), np.sum(x * x, axis=0), np.mean(x, axis=0)


@pytest.mark.parametrize("columns", [4, 7, 8, 20, 64, 65])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "uint8"])
def test_rows_of_few_columns_side_by_side(columns, dtype, machine, rng):
    """Any number of rows, in ranges that begin anywhere within those that are folded at once."""
    for rows in (32768, 33333):
        x = rng.integers(0, 9, (rows, columns)).astype(dtype)
        x = x / np.float16(4096) if dtype == "float16" else x
        native = Native(program(sums, x), split=(0.013, 0.37, 0.371, 0.5), always_split=True)
        wide = x.astype(np.float64) if dtype == "float16" else x
        want = [f(wide, axis=0) for f in (np.sum, np.max)] + [np.sum(wide * wide, axis=0)]
        for got, expected in zip(native(x), want, strict=False):
            if dtype == "float16":
                np.testing.assert_allclose(got, expected, rtol=1e-3)
            else:  # whole numbers, so every order of additions gives the same
                np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("shape", [(100_003, 8), (50_000, 5), (70_001, 64), (40_000, 130)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_few_columns_add_up_alike_on_any_threads(shape, dynamic, rng):
    x = rng.normal(size=shape).astype(np.float32)
    compiled = {n: bl.compile(sums, dynamic=dynamic, options={"num_threads": n}) for n in (1, 2, 3, 4)}
    results = {n: b"".join(r.tobytes() for r in c(x)) for n, c in compiled.items()}
    assert len(set(results.values())) == 1
    for got, want in zip(compiled[1](x), sums(x.astype(np.float64)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)


def test_columns_of_one_step_have_no_masks_where_all_are_there(rng):
    def masked(columns):
        return Native(program(lambda x: np.max(x, axis=0), np.ones((40_000, columns), np.float32))).text

    for columns, whole in ((8, True), (64, True), (20, False)):
        loads = re.findall(r"= load <64 x float>, ptr %\w+, align 4", masked(columns))
        assert bool(loads) == (whole and "avx512f" in HERE)


@pytest.mark.parametrize("columns", [64, 128, 1024])
def test_columns_of_whole_steps_have_no_code_for_parts_of_one(columns, machine):
    def body(columns):
        text = Native(program(logsumexp, np.ones((40, columns), np.float32))).text
        return text[text.index("@kernel.0.body(") :].partition("\n}")[0]

    whole, cut = body(columns), body(columns + 1)
    assert "rest" not in whole and "masked" not in whole and "urem" not in whole
    assert "urem" in cut and whole.count("\n") < 0.8 * cut.count("\n")


@pytest.mark.parametrize("function", [lambda x: x.sum(0), lambda x: (x * x).sum(0), lambda x: x.mean(0)])
def test_sums_of_five_to_eight_columns_are_not_written_out(function):
    for columns, dtype in ((5, np.float32), (8, np.float64), (7, np.int32)):
        (kernel,) = kernels(program(function, np.ones((1000, columns), dtype)))
        assert runs_in_columns(kernel) and unroll(kernel) == kernel
    for columns, dtype in ((3, np.float32), (4, np.float64), (6, np.complex128)):
        (kernel,) = kernels(program(function, np.ones((1000, columns), dtype)))
        assert not unroll(kernel).outer


def test_what_else_goes_down_few_columns_is_written_out():
    """Several folds, and long bodies, which half empty vectors would take longer for."""
    for function in (lambda x: (x.sum(0), x.max(0)), lambda x: np.exp(x).sum(0)):
        (kernel,) = kernels(program(function, np.ones((1000, 6), np.float32)))
        assert not unroll(kernel).outer


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "float16"])
def test_few_columns_of_a_number_that_the_call_knows(dtype, machine, rng):
    native = Native(program(sums, np.ones((50, 40), dtype), dynamic=True))
    for rows, columns in ((1, 1), (7, 3), (300, 4), (1000, 8), (513, 15), (99, 16), (99, 17), (300, 33), (20, 300)):
        x = rng.integers(0, 9, (rows, columns)).astype(dtype)
        got = native(x)
        total = np.sum(x, axis=0, dtype=np.float64 if dtype == "float16" else None)
        np.testing.assert_array_equal(got[0], total.astype(got[0].dtype))
        np.testing.assert_array_equal(got[1], np.max(x, axis=0))
        if dtype != "float16":
            np.testing.assert_array_equal(got[2], np.sum(x * x, axis=0))


def test_sums_of_few_columns_stay_in_registers_over_the_rows():
    """Also where only the call knows how many there are: no loop over rows stores its sums."""
    one = Native(program(lambda x: np.sum(x, axis=0), np.ones((50, 40), np.float32), dynamic=True)).text
    assert ("icmp sle" in one) == ("avx512bw" in HERE)
