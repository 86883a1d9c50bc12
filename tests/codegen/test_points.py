"""Kernels without inner loops in vectors of our own making: which ones, how wide, and that no value depends on it."""

from __future__ import annotations

import numpy as np
import pytest

import broadloom as bl
from broadloom.codegen.abi import features_of
from broadloom.codegen.driver import module_text
from broadloom.codegen.outline import vector_bits
from broadloom.codegen.parts import is_ready
from broadloom.codegen.rows import REGISTERS, points_of
from broadloom.dtypes import float32, float64, int32
from broadloom.runtime.target import host
from broadloom.symbolic import Symbol
from tests.fusion.graphs import graph_of, kernels, scheduled

from .programs import Native
from .test_panels import program

FEATURES = features_of(host().features)


def points(make, *shapes, dtype=float32):
    (kernel,) = kernels(graph_of(make, *shapes, dtype=dtype))
    return points_of(kernel, FEATURES)


def lanes(dtype):
    return vector_bits(FEATURES) // 8 // dtype.itemsize


@pytest.mark.parametrize("dtype", [float32, float64])
def test_light_bodies_take_several_registers_a_step_and_one_at_the_end(dtype):
    row = points(lambda b, x: b.call("negative", x), (Symbol("n"),), dtype=dtype)
    assert (row.count, row.rest) == (lanes(dtype) * REGISTERS, lanes(dtype))


def test_short_rows_take_no_more_than_they_fill():
    row = points(lambda b, x: b.call("negative", x), (lanes(float32),))
    assert row.count == lanes(float32)
    assert points(lambda b, x: b.call("negative", x), (3,)) is None


def test_float_powers_keep_two_vectors_under_way():
    row = points(lambda b, x, y: b.call("pow", x, y), (Symbol("n"),), (Symbol("n"),))
    assert row.count == 2 * lanes(float32)


def test_what_is_no_plain_walk_is_left_to_llvm():
    def text(make, dtype=float32):
        return module_text(scheduled(graph_of(make, (1000,), dtype=dtype)).program, host())

    assert is_ready(text(lambda b, x: b.call("exp", x)))
    assert not is_ready(text(lambda b, x: b.call("remainder", x, x), int32))


@pytest.mark.parametrize("n", [0, 1, 3, 4, 7, 15, 16, 17, 31, 63, 64, 65, 100, 129, 1000])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint16", "int64", "bool"])
def test_every_length_equals_llvms_own_vectors(n, dtype, rng, monkeypatch):
    def mixed(x, y):
        return np.where(x > y, x, y), x + y, (x * y).astype(np.float32), np.exp(x / 100.0)

    x, y = (rng.integers(0, 90, (2, n + 1)).astype(dtype)[:, 1:]) if n else np.zeros((2, 0), dtype)
    p = program(mixed, x, y)
    got = Native(p)(x, y)
    monkeypatch.setattr("broadloom.codegen.points.points_of", lambda *_, **named: None)
    plain = Native(p)(x, y)
    assert [a.tobytes() for a in got] == [a.tobytes() for a in plain]
    for a, want in zip(got[:2], mixed(x, y)[:2], strict=True):
        np.testing.assert_array_equal(a, want)


def test_chunks_are_put_together_without_vectors(rng):
    x = rng.normal(size=100_000)
    native = Native(program(lambda x: np.var(x), x))
    assert is_ready(native.text)
    np.testing.assert_allclose(native(x)[0], np.var(x), rtol=1e-13)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint16", "int64", "bool"])
@pytest.mark.parametrize("value", [0, 1, 7])
def test_memory_is_filled_with_one_number_in_vectors(dtype, value):
    def filled(x):
        return np.full(x.shape[0], value, dtype)

    native = Native(program(lambda x: (filled(x), x == x), np.zeros(100)))
    assert is_ready(native.text)
    compiled = bl.compile(filled, dynamic=True)
    for n in (0, 1, 15, 16, 33, 100, 1000):
        np.testing.assert_array_equal(compiled(np.zeros(n)), np.full(n, value, dtype))


def test_cumulative_ops_leave_nothing_to_llvms_vectoriser():
    x = np.ones(100_000, np.float32)
    p = program(lambda x: np.cumsum(x), x)
    native = Native(p)
    assert is_ready(native.text)


def distances(x):
    d = x[:, None, :] - x[None, :, :]
    return (d * d).sum(-1), d.max(-1)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
def test_points_that_fold_a_few_numbers_are_vectors(dtype, dynamic, rng):
    x = rng.integers(-50, 50, (130, 3)).astype(dtype)
    if np.dtype(dtype).kind == "f":
        x[7, 1], x[9, 2] = np.nan, np.inf
    p = program(distances, x, dynamic=dynamic)
    whole = Native(p)
    assert {"avx512vl", "avx512bw"} - FEATURES or is_ready(whole.text)
    for n in (4, 5, 15, 16, 17, 33, 130) if dynamic else (130,):
        want = distances(x[:n])
        for split in [(0.1, 0.37), (0.013, 0.5, 0.51), (1 / 3,)]:
            got = Native(p, split=split, always_split=True)(x[:n])
            for one, whole_one, wanted in zip(got, whole(x[:n]), want, strict=True):
                np.testing.assert_array_equal(one, wanted)
                assert one.tobytes() == whole_one.tobytes()
