"""Stores past the caches: when, and that nothing but the road of a store changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import broadloom as bl
from broadloom.codegen.prepare import prepare
from broadloom.codegen.streams import Keep, Stream
from broadloom.compiler.api import make_graph
from broadloom.compiler.build import fuse
from broadloom.passes.table import default_pipeline
from broadloom.platform import Caches
from broadloom.runtime.target import host

from . import programs
from .programs import Native

SMALL = Caches(1024, 2048, 4096)  # so that little is much
SIZES = (0, 1, 15, 16, 17, 511, 512, 1023, 1024, 1025, 5000, 20011)


@pytest.fixture
def small_caches(monkeypatch):
    target = replace(host(), caches=SMALL)
    monkeypatch.setattr(programs, "host", lambda: target)


def program(function, *arrays, dynamic=False):
    graph = default_pipeline().run(make_graph(function, dynamic=dynamic)(*arrays))
    return fuse(graph, deterministic=True).program


def decisions(function, *arrays, dynamic=False, caches=SMALL):
    return prepare(program(function, *arrays, dynamic=dynamic), caches).stores


def run(compiled, *arrays):
    found = compiled(*arrays)
    return found[0] if len(found) == 1 else tuple(found)


def scaled(x):
    return x * 0.5


def several(x, y):
    return x + y, x > y, (x - y).astype(np.float64), (x * y).astype(np.uint8)


def heavy(x):
    return np.exp(x) * np.sin(x) + np.log1p(np.abs(x))


def test_large_results_go_past_the_caches_and_the_report_says_why():
    x = np.ones(5000, np.float32)
    (found,) = decisions(scaled, x)
    assert found == Stream(("out0",), 40000, 4096, found.reason)
    assert "40000 bytes, more than the 4096" in found.reason
    large = np.ones(2 * host().caches.last // 8, np.float32)
    compiled = bl.compile(scaled)
    compiled(large)
    (kernel,) = compiled.report().kernels
    assert kernel.reason.startswith("stores out0 past the caches")
    assert kernel.reason in str(compiled.report())


@pytest.mark.parametrize(
    ("function", "shape", "why"),
    [
        (scaled, (512,), "hold the 4096 bytes"),
        (lambda x: np.sum(x), (5000,), "plain walk"),
        (lambda x: x + x.T, (90, 90), "nothing is stored"),
        (lambda x: x[::-1] + 1, (5000,), "plain vectors"),
        (lambda x: x + np.arange(5000), (5000,), "plain vectors"),
        (lambda x: x + 1j, (5000,), "plain vectors"),
        (lambda x: np.stack([x, x], -1), (5000,), "plain"),
        (lambda x: x[:, :11] + 1, (900, 13), "nothing is stored"),
    ],
)
def test_others_stay_in_the_caches(function, shape, why):
    found = [d for d in decisions(function, np.ones(shape, np.float32)) if d is not None]
    assert not any(isinstance(d, Stream) for d in found)
    assert any(isinstance(d, Keep) and why in d.reason for d in found), found


def test_what_is_read_again_at_once_stays():
    def f(x):
        y = np.exp(x)
        return y, np.sort(y)

    x = np.ones(900, np.float32)
    assert not any(isinstance(d, Stream) and "out0" in d.buffers for d in decisions(f, x))
    x = np.ones(9000, np.float32)
    assert any(isinstance(d, Stream) and "out0" in d.buffers for d in decisions(f, x))


def test_a_result_in_the_memory_of_its_operand_stays():
    def f(x):
        x *= 2

    assert not any(isinstance(d, Stream) for d in decisions(f, np.ones(9000, np.float32)))


def test_symbolic_sizes_are_weighed_in_the_call(small_caches):
    x = np.ones(9000, np.float32)
    (light,) = decisions(scaled, x, dynamic=True)
    assert isinstance(light, Stream) and not light.always
    (dear,) = decisions(heavy, x, dynamic=True)
    assert isinstance(dear, Keep) and "arithmetic" in dear.reason


@pytest.mark.parametrize("dynamic", [False, True])
def test_code_has_such_stores_and_a_fence(small_caches, dynamic):
    text = Native(program(scaled, np.ones(9000, np.float32), dynamic=dynamic)).text
    assert "!nontemporal" in text
    assert ("sfence" in text) == host().triple.startswith("x86_64")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int8, np.uint16, np.int64, np.bool_])
def test_values_by_dtype_and_size(small_caches, dtype):
    compiled = Native(program(lambda x: ~x if x.dtype == bool else x * x, np.ones(9000, dtype), dynamic=True))
    for size in SIZES:
        x = np.random.default_rng(size).integers(0, 100, size).astype(dtype)
        assert np.array_equal(run(compiled, x), ~x if dtype is np.bool_ else x * x)


@pytest.mark.parametrize("function", [scaled, heavy, lambda x: x[1:] + x[:-1], lambda x: np.full(x.shape, 7.0)])
@pytest.mark.parametrize("size", [4999, 5000, 5001, 20011])
def test_bits_are_those_of_ordinary_stores(monkeypatch, function, size):
    x = np.random.default_rng(size).normal(size=size).astype(np.float32)
    ordinary = run(Native(program(function, x)), x)
    target = replace(host(), caches=SMALL)
    monkeypatch.setattr(programs, "host", lambda: target)
    for split in ((), (0.1, 0.37, 0.5), (0.001, 0.999)):
        compiled = Native(program(function, x), split=split, always_split=True)
        assert "!nontemporal" in compiled.text
        assert run(compiled, x).tobytes() == ordinary.tobytes()


def test_several_results(small_caches):
    for dynamic in (False, True):
        for size in SIZES:
            x, y = np.random.default_rng(size).uniform(1, 9, (2, size)).astype(np.float32)
            compiled = Native(program(several, x, y, dynamic=dynamic), always_split=True)
            for got, expected in zip(run(compiled, x, y), several(x, y), strict=True):
                assert got.dtype == expected.dtype and np.array_equal(got, expected)


def test_rows_and_broadcasts(small_caches):
    def f(x, y):
        return x[:, 3:] * y + 1

    for width in (1100, 1031):
        x = np.random.default_rng(0).normal(size=(37, width + 3)).astype(np.float32)
        y = np.random.default_rng(1).normal(size=(37, 1)).astype(np.float32)
        for dynamic in (False, True):
            compiled = Native(program(f, x, y, dynamic=dynamic), always_split=True)
            assert np.array_equal(run(compiled, x, y), f(x, y))


def test_outputs_anywhere_in_a_line(small_caches):
    def f(x, out):
        np.multiply(x, 0.5, out=out)

    memory = np.zeros(9000, np.float32)
    x = np.random.default_rng(0).normal(size=8000).astype(np.float32)
    compiled = Native(program(f, x, memory[:8000]))
    assert "!nontemporal" in compiled.text
    for start in range(20):
        memory[:] = 3
        compiled(x, memory[start : start + 8000])
        assert np.array_equal(memory[start : start + 8000], x * np.float32(0.5))
        assert np.all(memory[:start] == 3) and np.all(memory[start + 8000 :] == 3)


def test_threads_and_large_arrays():
    size = host().caches.last // 8 + 4097
    x = np.random.default_rng(0).normal(size=size).astype(np.float32)
    for threads in (1, 2, 3, 4):
        compiled = bl.compile(scaled, options={"num_threads": threads})
        assert np.array_equal(compiled(x), scaled(x))
        assert "past the caches" in compiled.report().kernels[0].reason


# ---- rows ---------------------------------------------------------------------------------------------------------


def standardised(x):
    centred = x - np.mean(x, axis=-1, keepdims=True)
    return centred / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + 1)


def with_sums(x):
    y = standardised(x)
    return y, np.sum(y, axis=-1), (y > 0), y.astype(np.float64)


@pytest.mark.parametrize(("columns", "past"), [(64, True), (768, True), (100, False), (72, False), (3, False)])
def test_rows_that_begin_with_lines_go_past_the_caches(columns, past):
    x = np.ones((60, columns), np.float32)
    (found,) = decisions(standardised, x)
    assert isinstance(found, Stream if past else Keep), found
    assert not past or (found.buffers == ("out0",) and found.bytes == 2 * x.nbytes and found.always)


def test_rows_that_the_caches_hold_stay():
    (found,) = decisions(standardised, np.ones((15, 32), np.float32))
    assert isinstance(found, Keep) and "hold the 3840 bytes" in found.reason
    (found,) = decisions(standardised, np.ones((16, 32), np.float32))
    assert isinstance(found, Stream)


def test_rows_that_are_read_again_at_once_stay():
    def read(x):
        y = standardised(x)
        return y, np.sort(y, axis=-1)

    found = decisions(read, np.ones((10, 64), np.float32), caches=Caches(1024, 2048, 4000))
    assert not any(isinstance(d, Stream) and "out0" in d.buffers for d in found)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("columns", [64, 96, 768, 1024, 1040])
def test_bits_of_rows_are_those_of_ordinary_stores(monkeypatch, dtype, columns):
    x = np.random.default_rng(columns).normal(size=(61, columns)).astype(dtype)
    ordinary = Native(program(with_sums, x))
    assert "!nontemporal" not in ordinary.text
    want = [a.tobytes() for a in ordinary(x)]
    target = replace(host(), caches=SMALL)
    monkeypatch.setattr(programs, "host", lambda: target)
    for split in ((), (0.1, 0.37, 0.5), (0.001, 0.999)):
        compiled = Native(program(with_sums, x), split=split, always_split=True)
        assert "!nontemporal" in compiled.text and ("sfence" in compiled.text) == target.triple.startswith("x86_64")
        for _ in range(4):  # results begin anywhere in a line
            assert [a.tobytes() for a in compiled(x)] == want


@pytest.mark.parametrize("shape", [(0, 64), (1, 64), (3, 1), (61, 768), (61, 100), (9, 0)])
def test_symbolic_rows_are_weighed_in_the_call(small_caches, shape):
    def f(x, y):
        return x * np.sum(x * y, axis=-1, keepdims=True)

    like = np.ones((50, 333), np.float32)
    p = program(f, like, like.copy(), dynamic=True)
    (found,) = prepare(p, SMALL).stores
    assert isinstance(found, Stream) and not found.always
    compiled = Native(p, always_split=True)
    assert "!nontemporal" in compiled.text
    x, y = np.random.default_rng(0).integers(-5, 6, (2, *shape)).astype(np.float32)
    assert np.array_equal(run(compiled, x, y), f(x, y))


def test_rows_of_views_and_into_views(small_caches):
    def f(x, out):
        np.multiply(x, np.sum(x, axis=-1, keepdims=True), out=out)

    x = np.random.default_rng(0).integers(-5, 6, (300, 64)).astype(np.float32)
    out = np.zeros((300, 65), np.float32)
    Native(program(f, x[::-1, ::-1], out[:, 1:]))(x[::-1, ::-1], out[:, 1:])
    assert np.array_equal(out[:, 1:], (x * x.sum(-1, keepdims=True))[::-1, ::-1]) and not out[:, 0].any()


def test_rows_on_any_threads_and_the_report():
    x = np.random.default_rng(0).normal(size=(host().caches.last // 8 // 256 + 3, 256)).astype(np.float32)
    results = set()
    for threads in (1, 2, 3, 4):
        compiled = bl.compile(standardised, options={"num_threads": threads})
        results.add(compiled(x).tobytes())
        assert "stores out0 past the caches" in compiled.report().kernels[0].reason
    assert len(results) == 1
