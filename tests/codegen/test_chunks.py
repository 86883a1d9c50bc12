"""Long reductions over several axes: chunks are what lies together in memory, whatever the shape."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import broadloom as bl
from broadloom.fusion.lowerings.reductions import CHUNK
from broadloom.fusion.vectors import stride
from broadloom.symbolic import range_of

from .test_panels import kernels, program

SHAPES = [
    (300, 701),
    (9, 110, 130),
    (40_000, 3),
    (3, 40_000),
    (2, 2, 20_000),
    (20, 30, 40, 7),
    (61, 1, 997),
    (1, 70_001),
]


def most(kernel):
    """The greatest number of elements that one point of a kernel folds."""
    elements = 1
    for loop in kernel.stages[0].loops:
        elements *= range_of(loop.extent).hi
    return elements


@pytest.mark.parametrize("shape", SHAPES)
def test_chunks_are_pieces_of_memory(shape):
    for x in (np.ones(shape, np.float32), np.ones(shape, np.float32).T):
        first, *_ = kernels(program(lambda x: np.sum(x), x))
        (fold, _), loads = first.stages, []
        for i in fold.body.instructions:
            loads += [stride(i.index, fold.loops[-1].variable)] if hasattr(i, "index") else []
        assert loads == [1] and CHUNK // 3 <= most(first) <= CHUNK


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_all_shapes_and_orders(shape, dynamic, rng):
    x = rng.integers(-1000, 1000, shape)

    def f(x):
        last = tuple(range(x.ndim))[1:] or (0,)
        return np.sum(x), np.max(x + 1), np.any(x == 7), np.sum(x, axis=last), np.prod(x % 3 + 1), np.sum(x.T * 2)

    compiled = bl.compile(f, dynamic=dynamic, fullgraph=True)
    for given in (x, np.asfortranarray(x), x[::-1], np.repeat(x, 2, -1)[..., ::2]):
        for got, want in zip(compiled(given), f(given), strict=True):
            np.testing.assert_array_equal(got, want)


def test_one_module_for_all_shapes(rng):
    compiled = bl.compile(lambda x: (x.sum(), x.std()), dynamic=True, fullgraph=True)
    for shape in [(300, 700), (40_000, 3), (3, 40_000), (1, 1), (2, 0), (0, 3), (5000, 9000 // 5000), (9, 9000)]:
        x = rng.standard_normal(shape)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of no elements
            for got, want in zip(compiled(x), (x.sum(), x.std()), strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-10)


def test_bits_on_any_threads(rng):
    for shape in SHAPES:
        x = rng.standard_normal(shape).astype(np.float32)
        for dynamic in (False, True):
            found = {
                bl.compile(lambda x: (x - 1).sum(), dynamic=dynamic, options={"num_threads": n})(x).tobytes()
                for n in (1, 2, 3, 4)
            }
            assert len(found) == 1
