"""Tiles, whose elements across are turned in registers: all dtypes, sizes, steps and targets, at borders of memory."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest

import broadloom as bl
from broadloom.codegen.abi import features_of
from broadloom.codegen.llvm import Param, i64, vector
from broadloom.codegen.module import ModuleBuilder
from broadloom.codegen.plans import ALONG, DOWN, LEFT_TILE, ranged_loops
from broadloom.codegen.streams import Keep, Stream, choose
from broadloom.codegen.tiles import side_of
from broadloom.codegen.transpose import transposed
from broadloom.codegen.turned import turned_of
from broadloom.fusion.tiling import tiled_loop
from broadloom.platform import Caches
from broadloom.runtime.link import link
from broadloom.runtime.target import emit_object, host

from . import programs
from .programs import Native
from .test_panels import kernels, program
from .test_steps import DTYPES, Fenced, numbers

SIDES = (33, 47, 48, 63, 64, 65, 79, 80, 81, 130)
BORDER = Fenced(40)


def tiled(function, *arrays, dynamic=False):
    """The program, whose one kernel runs in tiles, with what it turns."""
    made = program(function, *arrays, dynamic=dynamic)
    (kernel,) = kernels(made)
    assert tiled_loop(kernel) is not None
    return made, turned_of(kernel)[1]


def add_across(x, y):
    return x + y.T


def check(native, function, x, y):
    want = function(x, y)
    for placed in BORDER.places(y):
        got = native(placed, x)[0]  # in the order in which it needs them
        assert got.dtype == want.dtype and got.tobytes() == np.ascontiguousarray(want).tobytes()


@pytest.mark.parametrize(("element", "bits"), [("i8", 8), ("i16", 16), ("i32", 32), ("i64", 64)])
def test_a_square_turns(element, bits, machine):
    target = programs.host()
    features = features_of(target.features)
    n = side_of(bits, features)
    m = ModuleBuilder("turn", triple=target.triple, features=features)
    b = m.function("turn", "void", [Param("ptr", "x"), Param("ptr", "out")])
    x, out = b.params
    rows = [b.load(vector(element, n), b.gep(element, x, i64(k * n)), 1) for k in range(n)]
    for k, column in enumerate(transposed(b, rows)):
        b.store(column, b.gep(element, out, i64(k * n)), 1)
    b.ret()
    library = link([emit_object(str(m), target, 1)], {})
    square = np.arange(n * n).astype(f"uint{bits}").reshape(n, n)
    got = np.zeros_like(square)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(library.address("turn"))(
        square.ctypes.data, got.ctypes.data
    )
    np.testing.assert_array_equal(got, square.T)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sizes_that_are_no_multiples(machine, dtype, rng):
    for n, k in zip(SIDES, reversed(SIDES), strict=True):
        x, y = numbers(rng, dtype, n, k), numbers(rng, dtype, k, n)
        made, turned = tiled(add_across, x, y)
        assert len(turned) == (np.dtype(dtype).itemsize <= 8)
        check(Native(made), add_across, x, y)


SMALL = [
    (0, 3),
    (3, 0),
    (1, 1),
    (1, 200),
    (200, 1),
    (5, 90),
    (90, 5),
    (15, 15),
    (16, 16),
    (17, 400),
    (81, 95),
    (64, 64),
]


@pytest.mark.parametrize("dtype", ["float32", "uint8", "float64", "float16"])
def test_one_module_for_all_sizes(machine, dtype, rng):
    made, turned = tiled(add_across, numbers(rng, dtype, 40, 50), numbers(rng, dtype, 50, 40), dynamic=True)
    assert len(turned) == 1
    native = Native(made)
    for n, k in SMALL:
        check(native, add_across, numbers(rng, dtype, n, k), numbers(rng, dtype, k, n))


FUNCTIONS = {
    "product": lambda x, y: x * y.T,
    "two": lambda x, y: x * y.T + y.T[:, ::-1],
    "backwards": lambda x, y: x - y[:, ::-1].T,
    "planes": lambda x, y: x[:, : y.shape[0]] + np.concatenate((y, y, y), axis=1)[:, ::3].T,
    "converted": lambda x, y: (x < y.T).astype(np.float32) + x,
    "both": lambda x, y: np.where(x < y.T, x, y.T),
    "copy": lambda x, y: y.T.copy(),
    "channels": lambda x, y: (
        np.moveaxis(np.stack((y, y + y)), 0, -1) + np.moveaxis(np.stack((x, x)), 0, -1).swapaxes(0, 1)
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "uint8", "float64", "bool"])
def test_functions_at_all_sizes(name, dtype, rng):
    function = FUNCTIONS[name]
    if dtype == "bool" and name == "backwards":
        return
    compiled = {dynamic: bl.compile(function, fullgraph=True, dynamic=dynamic) for dynamic in (True, False)}
    for n, k in [(0, 4), (40, 33), (65, 100), (70, 300)]:
        x, y = numbers(rng, dtype, n, k), numbers(rng, dtype, k, n)
        for c in compiled.values():
            got, want = c(x, y), function(x, y)
            assert got.strides == want.strides
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("offset", [0, 1, 3])
def test_views_of_other_arrays(offset, rng):
    """Rows that begin anywhere, a pitch that only the call knows, and elements that are not aligned."""
    big = rng.standard_normal((200, 230)).astype(np.float32)
    x = rng.standard_normal((150, 90)).astype(np.float32)
    compiled = bl.compile(add_across, fullgraph=True)
    view = big[offset : offset + 90, offset : offset + 150]
    np.testing.assert_array_equal(compiled(x, view), x + view.T)
    np.testing.assert_array_equal(compiled(x, view[:, ::-1]), x + view[:, ::-1].T)
    room = np.zeros(90 * 150 * 4 + 8, np.uint8)
    odd = room[offset : offset + 90 * 150 * 4].view(np.float32).reshape(90, 150)
    odd[...] = view
    np.testing.assert_array_equal(compiled(x, odd), x + view.T)


def test_updates_in_place(rng):
    def update(x, y):
        x += y.T
        y.T[...] -= x
        return x.T + y

    x, y = (rng.standard_normal(s).astype(np.float32) for s in ((70, 131), (131, 70)))
    a, b = x.copy(), y.copy()
    got, want = bl.compile(update, fullgraph=True)(a, b), update(x, y)
    for g, w in ((got, want), (a, x), (b, y)):
        np.testing.assert_array_equal(g, w)
    square = rng.standard_normal((100, 100)).astype(np.float32)
    other = square.copy()

    def onto_itself(x):
        x += x.T

    onto_itself(square)
    bl.compile(onto_itself, fullgraph=True)(other)
    np.testing.assert_array_equal(other, square)


def test_all_threads_give_the_same(rng):
    x, y = numbers(rng, "float32", 700, 451), numbers(rng, "float32", 451, 700)
    for threads in (1, 2, 3, 4):
        compiled = bl.compile(add_across, fullgraph=True, options={"num_threads": threads})
        np.testing.assert_array_equal(compiled(x, y), x + y.T)


def test_few_points_are_no_tile_of_their_own(rng):
    for n in (33, 64, 79, 80, 81, 143, 144):
        made, _ = tiled(add_across, numbers(rng, "float32", n, n), numbers(rng, "float32", n, n))
        (kernel,) = kernels(made)
        (_, down), (_, along) = ((s, x.extent) for s, x in zip((DOWN, ALONG), ranged_loops(kernel)[0], strict=True))
        assert n - (down - 1) * DOWN >= LEFT_TILE and n - (along - 1) * ALONG >= LEFT_TILE


@pytest.mark.parametrize(("width", "past"), [(2048, True), (2050, False)])
def test_rows_that_begin_with_lines_are_stored_past_the_caches(width, past, rng):
    x = np.ones((2048, width), np.float32)
    made = program(add_across, x, np.ones((width, 2048), np.float32))
    (found,) = choose(kernels(made), {b.name: b for b in made.buffers}, 32 << 20)
    assert isinstance(found, Stream) == past
    (small,) = choose(kernels(made), {b.name: b for b in made.buffers}, 64 << 20)
    assert isinstance(small, Keep)


def test_what_is_stored_past_the_caches_is_the_same(rng, monkeypatch):
    target = replace(host(), caches=Caches(1024, 2048, 4096))
    monkeypatch.setattr(programs, "host", lambda: target)
    x, y = numbers(rng, "float32", 300, 304), numbers(rng, "float32", 304, 300)
    made = program(add_across, x, y)
    native = Native(made)
    assert "nontemporal" in native.text
    np.testing.assert_array_equal(native(y, x)[0], x + y.T)


REDUCED = {
    "all": (lambda x, y: (x * y.T).sum(), 3),
    "rows": (lambda x, y: (x - y.T).sum(1), 2),
    "columns": (lambda x, y: (x * y.T).max(0), 2),
    "search": (lambda x, y: (x * y.T).argmax(1), 2),
    "shifted": (lambda x, y: (x + y.T) - (x + y.T).max(1, keepdims=True), 2),
}


@pytest.mark.parametrize("name", REDUCED)
def test_what_a_reduction_reads_is_made_in_tiles(name, rng):
    function, count = REDUCED[name]
    for dynamic in (False, True):
        for shape in ((400, 403), (513, 300)):
            x, y = rng.integers(-9, 9, shape).astype(np.float32), rng.integers(-9, 9, shape[::-1]).astype(np.float32)
            results = []
            for threads in (1, 2, 3, 4):
                compiled = bl.compile(function, fullgraph=True, dynamic=dynamic, options={"num_threads": threads})
                results.append(compiled(x, y))
                np.testing.assert_array_equal(results[-1], function(x, y))
            assert len({np.asarray(r).tobytes() for r in results}) == 1
            report = compiled.report()
            assert len(report.kernels) == count
            assert any("made tile by tile" in str(f) for f in report.fusions)


def test_a_small_reduction_walks_across_by_itself(rng):
    x = rng.standard_normal((100, 100)).astype(np.float32)
    compiled = bl.compile(REDUCED["rows"][0], fullgraph=True)
    np.testing.assert_allclose(compiled(x, x), (x - x.T).sum(1), rtol=1e-3, atol=1e-4)
    assert len(compiled.report().kernels) == 1
