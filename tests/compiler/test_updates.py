"""Values that are stored in their place in a concatenation stay what they were when that is updated afterwards."""

from __future__ import annotations

import numpy as np
import pytest

import broadloom as bl


def padded(x, y):
    a = np.exp(x)
    t = np.concatenate([a, y])
    t[2:4] = 1
    return np.pad(a, (1, 1)), t


def twice(x, y):
    a = np.exp(x)
    b = np.concatenate([a, y])
    t = np.concatenate([b, y])
    t[2:4] = 1
    return a * 3, b * 2, t


def nested(x, y):
    a = np.exp(x)
    t = np.concatenate([np.concatenate([a, y]), y])
    t[2:4] = 1
    return a * 3, t


def scattered(x, y):
    a = np.exp(x)
    t = np.concatenate([a, y])
    t[np.array([1, 3])] = 1
    np.add.at(t, np.array([2, 2]), 5.0)
    return a[::-1] * 2, t


def stacked(x, y):
    a = np.cumsum(x)
    t = np.stack([a, a * 2], axis=1).T
    t[0, 1:3] = 7
    return a + 1, t


def viewed(x, y):
    a = np.sort(x)
    view = a[1:3]
    t = np.concatenate([a, y])
    t[1:3] = 7
    return view * 2, view.sum(), t


def again(x, y):
    a = np.cumsum(x)
    t = np.concatenate([a, y])
    t[1:3] = 7
    u = np.concatenate([t, a])
    u[0] = 5
    return a, t, u


def written(x, y):
    a = np.sort(x)
    t = np.concatenate([a, y])
    y[:] = t[:4]
    t[1] = 9
    return a * 1, t


def dying(x, y):
    """Nothing reads the part any more, so it is made in its place."""
    t = np.concatenate([np.sort(x), y])
    t[1] = 9
    return t


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", [padded, twice, nested, scattered, stacked, viewed, again, written, dying])
def test_an_update_leaves_the_parts_alone(function, dynamic):
    f = bl.compile(function, fullgraph=True, dynamic=dynamic)
    for n in (5, 7):
        given, own = ((np.linspace(2, 3, n)[::-1].copy(), np.linspace(5, 6, 4)) for _ in "ab")
        got, want = f(*given), function(*own)
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-14)
        np.testing.assert_array_equal(given[1], own[1])
    if function is dying:
        assert f.report().allocations == ()
