"""Axes that are one element long by a guard alone are broadcast: their sizes are expressions that no symbol is solved
from."""

from __future__ import annotations

import numpy as np
import pytest

import broadloom as bl


def last(x, y):
    return np.diagonal(x)[-1:] + y


def last_of_many(x, y):
    d = np.diagonal(x)
    t = np.concatenate([d, d, d])
    t[1:] += t[-1:]
    return t, y


def every_seventh(x, y):
    return np.diagonal(x)[::7] + y


def padded(x, y):
    return np.pad(np.diagonal(x)[-1:], 2) + y


def of_a_product(x, y):
    return np.matmul(x[: min(x.shape) // 5, :, None], x[:, None])


def of_both(x, y):
    return x[: (x.shape[0] * y.shape[0]) % 29] + x


def halves(x, y):
    return x[: x.shape[0] // 6] + x


FUNCTIONS = [last, last_of_many, every_seventh, padded, of_a_product, of_both, halves]


@pytest.mark.parametrize("dynamic", [True, None])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_one_element_by_a_guard(function, dynamic):
    f = bl.compile(function, fullgraph=True, dynamic=dynamic)
    for n in (6, 7):  # of which the second is a call with symbols where sizes become these
        x, y = np.arange(n * 8.0).reshape(n, 8), np.arange(5.0)
        if function is of_both and n * 5 % 29 != 1:
            continue
        got, want = f(x, y), function(x, y)
        for a, b in zip(*(r if isinstance(r, tuple) else (r,) for r in (got, want)), strict=True):
            np.testing.assert_array_equal(a, b)
