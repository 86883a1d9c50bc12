"""Kernels with the same code are one function of the module, whatever they are called with."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fusion.graphs import graph_of, scheduled

from .programs import Native


def unfused(make, *shapes):
    return Native(scheduled(graph_of(make, *shapes), fusion=False).program)


def bodies(native):
    return native.text.count("define internal void @kernel.")


@pytest.mark.parametrize("sizes", [(7, 7), (1000, 1001), (1000, 2000, 3001)])
def test_walks_of_any_length_are_one_function(sizes, rng):
    native = unfused(lambda b, *x: tuple(b.call("sqrt", v) for v in x), *((n,) for n in sizes))
    assert bodies(native) == 1
    x = [np.abs(rng.normal(size=n)).astype(np.float32) for n in sizes]
    for got, v in zip(native(*x), x, strict=True):
        assert got.tobytes() == np.sqrt(v).tobytes()


def test_what_differs_in_an_op_or_a_stride_is_not(rng):
    def function(b, x, y):
        return (
            b.call("sqrt", x),
            b.call("negative", x),
            b.call("sqrt", b.call("flip", x, axes=(-1,))),
            b.call("sqrt", y),
        )

    native = unfused(function, (1000,), (999,))
    assert bodies(native) == 3
    x, y = (np.abs(rng.normal(size=n)).astype(np.float32) for n in (1000, 999))
    for got, want in zip(native(x, y), (np.sqrt(x), -x, np.sqrt(x[::-1]), np.sqrt(y)), strict=True):
        np.testing.assert_array_equal(got, want)
