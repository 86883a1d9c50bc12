"""Vectors of elements a step apart: every step, length and width, at the borders of memory, read and written."""

from __future__ import annotations

import ctypes
import mmap
import re

import numpy as np
import pytest

import broadloom as bl
from broadloom.codegen.abi import features_of
from broadloom.codegen.outline import vector_bits
from broadloom.codegen.parts import is_ready
from broadloom.codegen.rows import points_of
from broadloom.runtime.target import host

from .programs import Native
from .test_panels import kernels, program

STEPS = (-1, 2, -2, 3, 4, -4, -7)
LENGTHS = (0, 1, 2, 3, 4, 5, 8, 15, 16, 17, 33, 63, 64, 65, 127, 129, 257, 300)
DTYPES = ("float32", "int8", "complex64", "float16", "float64", "int16", "bool", "complex128")


def widths(machine, step):
    """Element types to test: of all targets some, which alternate from step to step."""
    return DTYPES if machine == "host" else DTYPES[step % 2 : 4 : 2]


class Fenced:
    """Memory between two pages that nothing may touch."""

    def __init__(self, pages=24):
        page = mmap.PAGESIZE
        self.map = mmap.mmap(-1, (pages + 2) * page)
        self.room = np.frombuffer(self.map, np.uint8)
        libc = ctypes.CDLL(None, use_errno=True)
        for fence in (0, (pages + 1) * page):
            assert libc.mprotect(ctypes.c_void_p(self.room.ctypes.data + fence), ctypes.c_size_t(page), 0) == 0
        self.inside = self.room[page:-page]

    def at_end(self, x):
        """The array with its last byte before the upper fence."""
        placed = self.inside[self.inside.size - x.nbytes :].view(x.dtype).reshape(x.shape)
        placed[...] = x
        return placed

    def at_start(self, x):
        """The array with its first byte behind the lower fence."""
        placed = self.inside[: x.nbytes].view(x.dtype).reshape(x.shape)
        placed[...] = x
        return placed

    def places(self, x):
        return [self.at_start(x), self.at_end(x)] if x.size else [x]


FENCED = [Fenced() for _ in range(2)]


def numbers(rng, dtype, *shape):
    found = rng.integers(0, 2 if dtype == "bool" else 90, shape).astype(dtype)
    return found + 1j * rng.integers(0, 90, shape).astype(found.real.dtype) if found.dtype.kind == "c" else found


def walking(step, text):
    """The function of this text, where STEP is the step: a constant, not a number that it finds elsewhere."""
    return eval(text.replace("STEP", str(step)), globals())


def length(n, step, extra=0):
    """Of an array of which `n` elements are a step apart, the last one with `extra` behind it."""
    return (n - 1) * abs(step) + 1 + extra if n else 0


def mixed(x, y):
    if x.dtype.kind == "c":
        return x + y, np.abs(x), x * y, np.exp(x / np.float32(100.0))
    return np.where(x > y, x, y), x + y, np.exp(x / np.float32(100.0)), (x + y).astype(np.float32)


def folds(x, y):
    top = np.max(x, axis=-1, keepdims=True)
    return top, np.min(x, axis=-1), np.sum(x, axis=-1), np.exp((x - top) / np.float32(50)) + y


def put(o, x):
    o[:] = x + x


def same(got, want):
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        assert a.tobytes() == np.ascontiguousarray(b).tobytes()


@pytest.mark.parametrize("step", STEPS)
def test_every_step_and_length_gives_what_neighbours_give(step, machine, rng):
    """Steps of the program's own, and of its arguments."""
    for dtype in widths(machine, step):
        x, y = numbers(rng, dtype, 2, 40)
        plain = Native(program(mixed, x, y, dynamic=True))
        inner = Native(program(walking(step, "lambda x, y: mixed(x[::STEP], y)"), x, x[::step].copy(), dynamic=True))
        outer = Native(program(mixed, np.repeat(x, 2)[::2], y, dynamic=True))
        for n in LENGTHS:
            y = numbers(rng, dtype, n)
            for extra in (0, 1) if step > 1 else (0,):
                for x in FENCED[0].places(numbers(rng, dtype, length(n, step, extra if n else 0))):
                    view = x[::step]
                    want = plain(np.ascontiguousarray(view), y)
                    same(want[:2], mixed(view, y)[:2] if x.dtype.kind != "c" else (view + y, want[1]))
                    same(inner(x, y), want)
                    if n > 1:
                        same(outer(view, y), want)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "uint8"])
def test_rows_of_every_step_and_length(dtype, step, rng):
    x = numbers(rng, dtype, 3, 40)
    y = x[:, ::step].copy()
    plain = Native(program(folds, y, y.copy(), dynamic=True))
    inner = Native(program(walking(step, "lambda x, y: folds(x[:, ::STEP], y)"), x, y, dynamic=True))
    outer = Native(program(folds, np.repeat(x, 2, 1)[:, ::2], x, dynamic=True))
    for n in LENGTHS[1:]:
        y = numbers(rng, dtype, 3, n)
        for x in FENCED[0].places(numbers(rng, dtype, 3, length(n, step))):
            view = x[:, ::step]
            want = plain(np.ascontiguousarray(view), y)
            np.testing.assert_array_equal(want[0], view.max(-1, keepdims=True))
            for native, given in ((inner, x), (outer, view)):
                if native is inner or n > 1:
                    got = native(given, y)
                    same((*got[:2], got[3]), (*want[:2], want[3]))
                    np.testing.assert_allclose(got[2], want[2], rtol=1e-6)


@pytest.mark.parametrize("step", STEPS)
def test_what_lies_between_stored_elements_stays(step, machine, rng):
    for dtype in widths(machine, step):
        o, x = numbers(rng, dtype, 2, 40)
        inner = Native(program(walking(step, "lambda o, x: put(o[::STEP], x)"), o, x[::step].copy(), dynamic=True))
        outer = Native(program(put, np.repeat(o, 2)[::2], x, dynamic=True))
        for n in LENGTHS[1:]:
            x = numbers(rng, dtype, n)
            before = numbers(rng, dtype, length(n, step))
            want = before.copy()
            put(want[::step], x)
            for o in FENCED[1].places(before):
                inner(o, x)
                same([o], [want])
                if n > 1:
                    o[...] = before
                    outer(x, o[::step])  # in the order in which it needs them
                    same([o], [want])


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "float16"])
def test_what_lies_between_is_read_once(dtype, count, machine, rng):
    """Elements side by side of each step share one read, which ends with the last of them."""

    def between(x):
        found = x[::4].astype(np.float32)
        for k in range(1, count):
            found = found * 2 + x[k::4]
        return found

    def backwards(x):
        found = x[::-4].astype(np.float32)
        for k in range(1, count):
            found = found * 2 + x[x.shape[0] - 1 - k :: -4]
        return found

    for function in (between, backwards):
        for n in (1, 5, 64, 101):
            x = numbers(rng, dtype, length(n, 4, count - 1))
            native = Native(program(function, x))
            for placed in FENCED[0].places(x):
                same(native(placed), [function(x)])


def test_loads_behind_a_store_see_what_it_stored(machine, rng):
    def twice(x):
        x[::2] += 1
        y = x[::2] * 3
        x[::2] -= y
        return y + x[::2]

    for n in (1, 5, 64, 201):
        x = rng.normal(size=n)
        ours = x.copy()
        native = Native(program(twice, x))
        got = native(ours)
        want = twice(x)
        same([*got, ours], [want, x])


@pytest.mark.parametrize("step", [-1, 2, 3, 9])
def test_any_split_gives_the_same(step, rng):
    x = rng.normal(size=(37, 5 * 1001)).astype(np.float32)

    def folded(x):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e, e.sum(-1), np.tanh(x[0])

    def f(x):
        return folded(x[:, ::step])

    for p, given in ((program(f, x), x), (program(folded, x[:, ::-2]), x[:, ::-2])):
        for split in ((), (0.3,), (0.1, 0.2, 0.5, 0.9)):
            same(Native(p, split=split, always_split=True)(given), Native(p)(given))


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (5, 33), (17, 70)])
def test_images_in_steps(shape, rng):
    def shrunk(x):
        return (x[::2, ::2] + x[1::2, ::2] + x[::2, 1::2] + x[1::2, 1::2]) / 4, x[::-1, ::-1], x[:, ::-3] * 2

    compiled = bl.compile(shrunk, fullgraph=True, options={"max_specialisations": 32})
    for dtype in (np.float32, np.uint8, np.int16):
        x = rng.integers(0, 99, (2 * shape[0], 2 * shape[1])).astype(dtype)
        for given in (x, x[::-1, ::-1], np.asfortranarray(x), np.repeat(x, 3, 1)[:, ::3]):
            same(compiled(given), shrunk(given))


def test_misaligned_elements(rng):
    x = np.frombuffer(b"." + rng.normal(size=203).tobytes(), np.uint8)[1:].view(np.float64)
    compiled = bl.compile(lambda x: (x[::-2] + 1, np.exp(x[::3])), fullgraph=True)
    aligned = bl.compile(lambda x: (x[::-2] + 1, np.exp(x[::3])), fullgraph=True)
    same(compiled(x), aligned(x.copy()))


def test_elements_a_step_apart_take_vectors(machine):
    def ready(function, *arrays, dynamic=False):
        return is_ready(Native(program(function, *arrays, dynamic=dynamic)).text)

    x = np.ones((40, 640), np.float32)
    for view in (x[:, ::2], x[:, ::-1], x[::3, ::9]):
        assert ready(lambda x: np.exp(x), view) and ready(lambda x: x.max(-1), view)
    for step in STEPS:
        for text in ("np.tanh(x[0, ::STEP])", "x[::2, ::STEP] + 1", "x[:, ::STEP].max(-1)"):
            assert ready(walking(step, f"lambda x: {text}"), x)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int16", "float16"])
def test_searches_gather_what_they_look_at(dtype, machine, rng):
    """Blocks of it, side by side; the first of equal ones is found, and the first nan."""

    def found(x):
        return x.argmax(-1), (x * 2 + 1).argmin(-1)

    x = rng.integers(0, 900, (3, 4000)).astype(dtype)
    native = Native(program(found, np.repeat(x, 2, 1)[:, ::2], dynamic=True))
    element = {"float64": "double", "float32": "float"}.get(dtype, "i16")
    assert re.search(rf"insertelement <\d+ x {element}> poison, {element}", native.text)
    inner = Native(program(lambda x: found(x[:, ::-2]), x, dynamic=True))
    assert "shufflevector <" in inner.text
    for n in (2, 17, 511, 512, 513, 1000, 3999):
        for x in FENCED[0].places(rng.integers(0, 900, (3, n)).astype(dtype)):
            if dtype.startswith("float"):
                x[1, n // 2 :] = np.nan
            same(native(x[:, ::-1]), found(x[:, ::-1]))
            same(inner(x), found(x[:, ::-2]))


def test_what_is_left_to_llvm():
    """Where vectors would be mostly empty, or the code that fills them long."""

    features = features_of(host().features)
    is_wide = vector_bits(features) == 512

    def row(function, x):
        (kernel,) = kernels(program(function, x))
        return points_of(kernel, features)

    x = np.ones((50, 900), np.float32)
    assert row(lambda x: x[:, ::9] + 1, x) is not None
    assert row(lambda x: x[:, : 9 * 9 : 9] + 1, x) is None or not is_wide
    assert row(lambda x: x[0, ::9] + x[1, ::9], x) is not None
    many = " + ".join(f"x[{k}, ::STEP]" for k in range(40))
    assert row(walking(9, f"lambda x: {many}"), np.ones((50, 90_000), np.float32)) is None or not is_wide
