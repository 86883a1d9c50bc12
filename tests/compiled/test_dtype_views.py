"""Bytes seen as another dtype: what a reduction stored, through a view, alone or beside what reads the value."""

from __future__ import annotations

import numpy as np
import pytest

import broadloom as bl

X = np.array([3.0, -7.0, 0.5, 12.0])
MAKE = {
    "sum": lambda x: x.sum(keepdims=True),
    "largest": lambda x: x.max(keepdims=True),
    "prod": lambda x: x.prod(keepdims=True),
    "spread": lambda x: x.var(keepdims=True),
    "dot": lambda x: (x @ x)[None],
    "norm": lambda x: np.array([np.linalg.norm(x)]),
    "rows": lambda x: x.reshape(2, 2).sum(1),
    "kept": lambda x: x.sum(keepdims=True) * 2 + 1,
}
VIEWS = {np.float64: ("i8", "u4", "f4", "i2"), np.float32: ("i4", "u2"), np.int32: ("u4", "f4"), np.complex128: ("f8",)}
READ = {
    "converted": lambda v, u: v.astype("f8"),
    "as it is": lambda v, u: v[..., ::-1],
    "compared": lambda v, u: v > 1,
    "in arithmetic": lambda v, u: v * 3 + v,
    "reduced": lambda v, u: v.max(),
    "beside the value": lambda v, u: (v + v, u + u),
}


@pytest.mark.parametrize("dtype", VIEWS, ids=lambda d: d.__name__)
@pytest.mark.parametrize("made", MAKE)
@pytest.mark.parametrize("dynamic", [False, True])
def test_views_of_what_a_reduction_stored(made, dtype, dynamic):
    x = X.astype(dtype) * (1 + 2j if dtype is np.complex128 else 1)
    for view in VIEWS[dtype]:

        def f(x, view=view):
            u = MAKE[made](x)
            return [read(u.view(view), u) for read in READ.values()]

        with np.errstate(all="ignore"):
            got, want = bl.compile(f, fullgraph=True, dynamic=dynamic)(x), f(x)
        for a, b in zip(flat(got), flat(want), strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            np.testing.assert_array_equal(a, b)


def flat(items):
    return [x for item in items for x in (item if isinstance(item, tuple) else (item,))]


@pytest.mark.parametrize("part", ["real", "imag"])
def test_parts_of_complex_sums(part):
    z = X + 1j * X[::-1]

    def f(z):
        s, d = z.sum(keepdims=True), np.vdot(z, z)[None]
        return [
            np.abs(getattr(s, part)),
            getattr(d, part) + 1,
            getattr(z.mean(), part) > 0,
            getattr(z[:1] @ z[:1], part),
        ]

    for dynamic in (False, True, None):
        for a, b in zip(bl.compile(f, fullgraph=True, dynamic=dynamic)(z), f(z), strict=True):
            assert type(a) is type(b)
            np.testing.assert_allclose(a, b, rtol=1e-15)


def test_views_of_an_argument_that_was_written():
    def f(x, u):
        u[0] = x.sum()
        u[1:] = x.max()
        return u.view("i8").astype("f8"), u.view("i4") + 1

    mine, theirs = np.zeros(2), np.zeros(2)
    for a, b in zip(bl.compile(f, fullgraph=True)(X, mine), f(X, theirs), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(mine, theirs)
