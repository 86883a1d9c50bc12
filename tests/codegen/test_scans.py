"""Cumulative ops in chunks: every kind and dtype, edges of chunks, threads, and how near floats are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import broadloom as bl
from broadloom.compiler.api import make_graph
from broadloom.compiler.build import fuse
from broadloom.fusion.ir import Extern
from broadloom.fusion.lowerings.scans import CHUNK
from broadloom.passes.table import default_pipeline
from broadloom.platform import Caches
from broadloom.runtime.target import host

from . import programs
from .programs import Native

SIZES = (0, 1, 2, 15, 16, 17, 63, 64, 65, 1000, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 100, 9 * CHUNK + 7)
UFUNCS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
INTEGERS = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)


def accumulate(kind):
    ufunc = UFUNCS[kind]
    return lambda x: ufunc.accumulate(x, axis=-1, dtype=x.dtype)


def program(function, *arrays, dynamic=False):
    graph = default_pipeline().run(make_graph(function, dynamic=dynamic)(*arrays))
    return fuse(graph).program


def has_kernel(p):
    return any(isinstance(s, Extern) for s in p.steps)


def numbers(dtype, shape, seed=0):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return rng.normal(size=shape).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


@pytest.mark.parametrize("kind", UFUNCS)
@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.__name__)
def test_integers_are_exact(kind, dtype):
    function = accumulate(kind)
    compiled = Native(program(function, numbers(dtype, 100), dynamic=True), always_split=True)
    for size in SIZES:
        x = numbers(dtype, size, size)
        if kind == "prod":
            x |= 1
        assert np.array_equal(compiled(x)[0], function(x))


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extrema_are_exact_and_nan_stays(kind, dtype):
    function = accumulate(kind)
    compiled = Native(program(function, numbers(dtype, 100), dynamic=True), always_split=True)
    for size in SIZES:
        x = numbers(dtype, size, size)
        for value in (None, np.inf, -np.inf, -np.nan, np.nan):
            if value is not None and size:
                x[size // 2] = value
            assert np.array_equal(compiled(x)[0], function(x), equal_nan=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dynamic", [False, True])
def test_short_sums_have_the_bits_of_numpy(dtype, dynamic):
    compiled = bl.compile(lambda x: np.cumsum(x), dynamic=dynamic)
    for size in (1, 2, 100, 1001, CHUNK):
        x = numbers(dtype, size, size)
        assert compiled(x).tobytes() == np.cumsum(x).tobytes()
    negative_zero = np.full(3, -0.0, dtype)
    assert np.array_equal(compiled(negative_zero), negative_zero)


@pytest.mark.parametrize("size", [CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 100, 40 * CHUNK + 7])
@pytest.mark.parametrize("positive", [False, True])
def test_long_sums_are_nearer_to_the_exact_ones(size, positive):
    for dtype, wide in ((np.float32, np.float64), (np.float64, np.longdouble)):
        x = numbers(dtype, size, size)
        x = np.abs(x) if positive else x
        exact = np.cumsum(x.astype(wide))
        got = bl.compile(lambda x: np.cumsum(x))(x)
        assert got.dtype == dtype
        worst = np.max(np.abs(got - exact))
        assert worst <= np.max(np.abs(np.cumsum(x) - exact))
        if dtype is np.float32:
            assert np.all(np.abs(got - exact) <= 0.51 * np.spacing(np.abs(exact).astype(np.float32)) + 1e-9)


def test_infinities_and_nan_in_long_sums():
    compiled = bl.compile(lambda x: np.cumsum(x), dynamic=True)
    for values in ({5: np.inf}, {CHUNK + 3: -np.inf}, {5: np.nan}, {5: np.inf, 2 * CHUNK: -np.inf}):
        x = numbers(np.float32, 3 * CHUNK + 9)
        for place, value in values.items():
            x[place] = value
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(compiled(x), np.cumsum(x), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("kind", ["sum", "max"])
@pytest.mark.parametrize("shape", [(3, 2 * CHUNK + 5), (2, 3, CHUNK + 1), (5, 70), (0, 3 * CHUNK), (4, 0)])
def test_rows(kind, shape):
    function = accumulate(kind)
    for dtype in (np.int32, np.float64):
        for dynamic in (False, True):
            x = numbers(dtype, shape)
            for given in (x, x[::-1], x[..., 1:] if shape[-1] else x, np.asfortranarray(x), x[..., ::-1]):
                got = bl.compile(function, dynamic=dynamic)(given)
                np.testing.assert_allclose(got, function(given), rtol=1e-9, atol=1e-9)
                assert got.strides == function(given).strides or 0 in shape


def test_kernels_are_for_long_rows_that_lie_in_one_piece():
    assert has_kernel(program(accumulate("sum"), numbers(np.float32, CHUNK + 1)))
    assert not has_kernel(program(accumulate("sum"), numbers(np.float32, CHUNK)))
    assert not has_kernel(program(accumulate("prod"), numbers(np.float32, 3 * CHUNK)))
    assert has_kernel(program(accumulate("prod"), numbers(np.int32, 64)))
    assert not has_kernel(program(accumulate("max"), numbers(np.int32, 63)))
    assert not has_kernel(program(lambda x: np.cumsum(x, axis=0), numbers(np.int64, (3 * CHUNK, 4))))
    assert not has_kernel(program(lambda x: np.cumsum(x[::-1]), numbers(np.int64, 3 * CHUNK)))


def test_the_report_tells():
    compiled = bl.compile(lambda x: np.cumsum(x))
    compiled(numbers(np.float32, 3 * CHUNK))
    assert any("chunks of" in k.reason for k in compiled.report().kernels)


@pytest.mark.parametrize("function", [lambda x: np.cumsum(x), lambda x: np.maximum.accumulate(x)])
def test_bits_do_not_depend_on_the_number_of_threads(function):
    x = numbers(np.float32, 100 * CHUNK + 13)
    found = set()
    for threads in (1, 2, 3, 4):
        compiled = bl.compile(function, options={"num_threads": threads})
        found |= {compiled(x).tobytes() for _ in range(3)}
    assert len(found) == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int8])
def test_stores_past_the_caches(monkeypatch, dtype):
    function = accumulate("sum")
    x = numbers(dtype, 5 * CHUNK + 33)
    ordinary = Native(program(function, x))(x)[0]
    target = replace(host(), caches=Caches(1024, 2048, 4096))
    monkeypatch.setattr(programs, "host", lambda: target)
    compiled = Native(program(function, x), always_split=True)
    assert "!nontemporal" in compiled.text
    assert compiled(x)[0].tobytes() == ordinary.tobytes()


def test_results_anywhere_in_memory_and_in_place():
    def f(x, out):
        np.cumsum(x, out=out)

    x = numbers(np.float32, 3 * CHUNK + 5)
    memory = np.zeros(x.size + 20, np.float32)
    expected = bl.compile(lambda x: np.cumsum(x))(x)
    compiled = bl.compile(f)
    for start in range(20):
        memory[:] = 3
        compiled(x, memory[start : start + x.size])
        assert np.array_equal(memory[start : start + x.size], expected)
        assert np.all(memory[:start] == 3) and np.all(memory[start + x.size :] == 3)
    own = x.copy()
    compiled(own, own)
    assert np.array_equal(own, expected)


def test_operands_that_are_no_arrays_yet():
    for function in (lambda x: np.cumsum(x * 2), lambda x: np.cumsum(np.exp(x)), lambda x: np.cumsum(x > 0)):
        for dynamic in (False, True):
            x = numbers(np.float64, 3 * CHUNK + 1)
            np.testing.assert_allclose(bl.compile(function, dynamic=dynamic)(x), function(x), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_sum_that_begins_with_a_negative_zero(dtype, axis):
    x = np.zeros((2, 4), dtype)
    for part in (x.real, x.imag)[: 1 + np.iscomplexobj(x)]:
        part[...] = [[-0.0, -0.0, 0.0, -0.0], [-0.0, 1.0, -1.0, -0.0]]
    for f in (lambda x: np.cumsum(x, axis=axis), lambda x: np.add.accumulate(x, axis=axis)):
        want = f(x)
        for got in (bl.compile(f)(x), bl.vmap(f)(np.stack([x, x]))[1]):
            np.testing.assert_array_equal(got, want)
            assert np.asarray(got).tobytes() == want.tobytes()


def test_a_thread_that_waits_in_vain_gives_its_core_away():
    """Else a chunk is waited for as long as other processes have the core of the thread that folds it."""
    text = Native(program(accumulate("sum"), numbers(np.float32, 3 * CHUNK))).text
    waiting = text.split("load atomic i64", 1)[1].split("ret void", 1)[0]
    assert "call i32 @sched_yield()" in waiting
