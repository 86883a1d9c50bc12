"""Products of many matrices, each of which is read as it lies: the next one is fetched meanwhile, and results that no
cache would keep are stored past the caches."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from broadloom.codegen.driver import module_text
from broadloom.compiler.api import make_graph
from broadloom.compiler.build import fuse
from broadloom.passes.table import default_pipeline
from broadloom.runtime.target import host

from . import programs
from .programs import FEATURES, Native

SIZES = [(20, 40, 64), (33, 64, 96), (7, 65, 130), (70, 40, 300), (5, 300, 32)]


@pytest.fixture
def small_last_cache(monkeypatch):
    """So that little is much."""
    target = replace(host(), caches=replace(host().caches, last=1 << 12))
    monkeypatch.setattr(programs, "host", lambda: target)
    return target


def program(function, *arrays, dynamic=False):
    return fuse(default_pipeline().run(make_graph(function, dynamic=dynamic)(*arrays))).program


def product(x, y):
    return x @ y


def matrices(sizes, count, dtype):
    m, k, n = sizes
    rng = np.random.default_rng(m)
    shapes = (count, m, k), (count, k, n)
    return [(rng.integers(-8, 9, s) / (8 if np.dtype(dtype).kind == "f" else 1)).astype(dtype) for s in shapes]


def many(m, k, n):
    """Enough of them for threads."""
    return 4_000_000 // (m * k * n) + 1


def fetches(text):
    return len(re.findall(r"call void @llvm\.prefetch", text))


def test_what_is_fetched_and_stored_past_the_caches(small_last_cache):
    x, y = matrices((32, 64, 128), 100, np.float32)
    text = module_text(program(product, x, y), small_last_cache)
    assert fetches(text) and "!nontemporal" in text
    assert ("sfence" in text) == host().triple.startswith("x86_64")
    both = fetches(text)
    for others in ((x[0], y[0]), (x[:2], y[:2]), (x, y.reshape(100, 128, 64).mT)):  # one; few; those that are packed
        text = module_text(program(product, *others), small_last_cache)
        assert "@bl_tile" in text and not fetches(text) and "!nontemporal" not in text
    shared = module_text(program(lambda x, y: np.matmul(x.transpose(1, 0, 2), y), x, y[:1]), small_last_cache)
    assert 0 < fetches(shared) < both  # rows alone: the matrix is in the cache


def test_long_rows_are_left_to_the_processor(small_last_cache):
    found = []
    for depth in (64, 300):
        x, y = matrices((32, depth, 64), 100, np.float32)
        text = module_text(program(product, x, y), small_last_cache)
        found.append(fetches(text))
        assert "@bl_tile" in text
    assert found[0] > found[1] > 0


def test_results_that_the_caches_hold_stay_there():
    x, y = matrices((32, 64, 128), 100, np.float32)
    target = replace(host(), caches=replace(host().caches, last=1 << 30))
    text = module_text(program(product, x, y), target)
    assert fetches(text) and "!nontemporal" not in text


def test_results_that_are_read_again_stay_there(small_last_cache):
    x, y = matrices((32, 64, 128), 100, np.float32)
    text = module_text(program(lambda x, y: np.sort(x @ y, axis=-1), x, y), small_last_cache)
    assert fetches(text) and "!nontemporal" not in text


@pytest.mark.parametrize("features", sorted(FEATURES))
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32])
@pytest.mark.parametrize("sizes", SIZES)
def test_values(features, dtype, sizes, monkeypatch):
    target = replace(host(), features=FEATURES[features], caches=replace(host().caches, last=1 << 12))
    monkeypatch.setattr(programs, "host", lambda: target)
    x, y = matrices(sizes, many(*sizes), dtype)
    compiled = Native(program(product, x, y))
    for compiled.start in (0, 4):
        np.testing.assert_array_equal(compiled(x, y)[0], x @ y)


@pytest.mark.parametrize("function", [product, lambda x, y: np.maximum(x @ y, 0) * 2, lambda x, y: x[::-1] @ y])
def test_any_number_of_them(function, small_last_cache):
    x, y = matrices((32, 48, 48), 60, np.float32)
    compiled = Native(program(function, x, y, dynamic=True))
    compiled.start = 0
    for count in (0, 1, 2, 17, 60):
        np.testing.assert_array_equal(compiled(x[:count], y[:count])[0], function(x[:count], y[:count]))


def test_matrices_that_are_used_several_times(small_last_cache):
    x, y = matrices((32, 64, 128), 12, np.float32)
    for shapes in (((12, 1), (1, 12)), ((1, 12), (12, 1)), ((3, 4), (1, 4)), ((3, 4), (3, 1))):
        a, b = (z[: s[0] * s[1]].reshape(*s, *z.shape[1:]) for s, z in zip(shapes, (x, y), strict=True))
        a = np.broadcast_to(a, (*np.broadcast_shapes(*shapes), *a.shape[2:]))
        np.testing.assert_array_equal(Native(program(product, a, b))(a, b)[0], a @ b)


def test_results_anywhere_in_a_line_have_the_same_bits(small_last_cache):
    shapes = (100, 32, 64), (100, 64, 128)
    x, y = (np.random.default_rng(0).normal(size=s).astype(np.float32) for s in shapes)
    compiled = Native(program(product, x, y))
    assert "!nontemporal" in compiled.text
    found = []
    for compiled.start in (0, 4, 32, 60):
        (result,) = compiled(x, y)
        assert result.ctypes.data % 64 == compiled.start
        np.testing.assert_allclose(result, x @ y, rtol=1e-5, atol=1e-4)
        found.append(result.tobytes())
    assert len(set(found)) == 1
