"""argmax and argmin along rows in vectors: every length and target, ties, nan, zeros of both signs, what lies apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import broadloom as bl
from broadloom.codegen.driver import module_text
from broadloom.codegen.plans import SEARCH_BLOCK
from broadloom.fusion.handlers import instructions_of
from broadloom.fusion.ir import Reduce
from broadloom.fusion.lowerings.reductions import CHUNK, LONG
from broadloom.fusion.merge import LONG_SEARCH, SHORT_SEARCH
from broadloom.runtime.target import host

from .programs import FEATURES, Native
from .test_panels import kernels, program

DTYPES = [np.float32, np.float64, np.float16, np.int8, np.uint8, np.int16, np.uint32, np.int64, np.uint64, np.bool_]
LENGTHS = [1, 4, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100, 127, 257, SEARCH_BLOCK, SEARCH_BLOCK + 1, 2500]


def both(x):
    return np.argmax(x, axis=-1), np.argmin(x, axis=-1)


def rows_of(rng, dtype, shape):
    """Few different values, so that most rows have ties, and the most extreme ones of the type among them."""
    if dtype is np.bool_:
        return rng.random(shape) < 0.02
    kind = np.dtype(dtype).kind
    ends = [-np.inf, np.inf] if kind == "f" else [np.iinfo(dtype).min, np.iinfo(dtype).max]
    x = rng.integers(0, 100, shape).astype(dtype)
    for end in ends:
        x = np.where(rng.random(shape) < 0.2 / shape[-1], np.asarray(end, dtype), x)
    return x


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_every_length(dtype, dynamic, machine, rng):
    several = Native(program(both, rows_of(rng, dtype, (3, 70)), dynamic=True)) if dynamic else None
    for n in LENGTHS if dynamic else LENGTHS[1::3]:
        x = rows_of(rng, dtype, (7, n))
        native = several or Native(program(both, x))
        for given in (x, np.full_like(x, x[0, 0]), np.ones_like(x), np.zeros_like(x)):
            for got, want in zip(native(given), both(given), strict=True):
                np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_first_nan_wins_and_zeros_are_equal(dtype, machine, rng):
    native = Native(program(both, np.ones((3, 70), dtype), dynamic=True))
    for n in (9, 16, 64, 300, 2 * SEARCH_BLOCK + 5):
        x = rng.normal(size=(9, n)).astype(dtype)
        x[1, n // 2] = x[1, n - 1] = np.nan
        x[2, 0] = x[2, n - 2] = -np.nan
        x[3, n - 1] = np.nan
        x[4] = -np.inf
        x[5] = np.inf
        x[6] = np.nan
        x[7] = 0.0
        x[7, ::2] = -0.0
        x[8], x[8, 2::3] = -0.0, 0.0
        for got, want in zip(native(x), both(x), strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8, np.bool_])
@pytest.mark.parametrize("dynamic", [False, True])
def test_what_lies_apart(dtype, dynamic, rng):
    x = rows_of(rng, dtype, (40, 1201))
    compiled = bl.compile(both, dynamic=dynamic, fullgraph=True)
    raw = np.zeros(x.nbytes + 1, np.uint8)
    misaligned = raw[1:].view(dtype).reshape(x.shape) if x.itemsize == 1 else np.frombuffer(raw[1:], dtype)
    misaligned = misaligned.reshape(x.shape)
    misaligned[...] = x
    for view in (x[:, ::2], x[:, ::-1], x[::3, 1::7], misaligned, x[:, 1:900], x[:, :20], np.asfortranarray(x)):
        for got, want in zip(compiled(view), both(view), strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.bool_])
def test_every_number_of_threads(dtype, rng):
    def function(x):
        return x.argmax(), x.argmin(axis=1), x.T.argmax(), x.T.argmin(axis=0)

    x = rows_of(rng, dtype, (300, 1001))
    for threads in (1, 2, 3, 4):
        compiled = bl.compile(function, fullgraph=True, options={"num_threads": threads})
        for got, want in zip(compiled(x), function(x), strict=True):
            np.testing.assert_array_equal(got, want)


def test_values_that_are_computed(machine, rng):
    def function(x, y):
        return np.argmax(np.sin(x) * y, axis=-1), np.argmin(np.abs(x - y), axis=-1), np.argmax(x > y, axis=-1)

    for n in (11, 200, 1500):
        x, y = rng.normal(size=(2, 5, n))
        x[1, 3] = np.nan
        for got, want in zip(Native(program(function, x, y))(x, y), function(x, y), strict=True):
            np.testing.assert_array_equal(got, want)


def text_of(function, x, features, **options):
    return module_text(program(function, x, **options), replace(host(), features=FEATURES[features]))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("features", sorted(FEATURES))
@pytest.mark.parametrize("n", [30, 1000])
def test_both_passes_run_in_vectors(features, dynamic, n):
    for dtype in (np.float32, np.float64, np.int64, np.uint8):
        text = text_of(lambda x: x.argmax(axis=1), np.ones((300, n), dtype), features, dynamic=dynamic)
        assert text.count("\nfound.") == 1 and "@llvm.cttz" in text
    flags = text_of(lambda x: x.argmax(axis=1), np.ones((300, n), bool), features, dynamic=dynamic)
    assert flags.count("\nfound.") == 1 and "select <" not in flags  # no pass for the extremum of two values


def stages(function, x):
    (kernel,) = kernels(program(function, x))
    return [sum(isinstance(i, Reduce) for i in instructions_of(s.body)) for s in kernel.stages if s.loops]


def test_a_short_search_has_a_loop_of_its_own():
    for n in (SHORT_SEARCH, LONG_SEARCH):
        assert stages(lambda x: (x.argmax(1), x.sum(1)), np.ones((300, n), np.float32)) == [1, 1]
    assert stages(lambda x: ((x > 1).any(1), x.sum(1)), np.ones((300, LONG_SEARCH - 1), np.float32)) == [2]


@pytest.mark.parametrize("dynamic", [False, True])
def test_axes_in_another_order_than_memory_are_copied_once(dynamic, rng):
    x = rng.normal(size=(3, 60, LONG // 100))
    compiled = bl.compile(lambda x: x.T.argmax(), dynamic=dynamic, fullgraph=True)
    assert compiled(x) == x.T.argmax()
    copy, search, _ = compiled.report().kernels
    assert "copy" in copy.ops and search.loads != copy.loads
    for shape in ((2, 3, 5), (3, 100, CHUNK // 10), (1, 1, 7)) if dynamic else ():
        x = rng.integers(0, 9, shape).astype(float)
        assert compiled(x) == x.T.argmax()


def test_a_small_transposed_array_is_not_copied():
    compiled = bl.compile(lambda x: x.T.argmax(), fullgraph=True)
    x = np.arange(60.0).reshape(3, 20) % 17
    assert compiled(x) == x.T.argmax() and len(compiled.report().kernels) == 1
