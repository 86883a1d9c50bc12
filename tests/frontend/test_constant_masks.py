"""Masks that are known while a function is captured."""

import numpy as np
import pytest

import broadloom as bl

X = np.arange(6.0).reshape(2, 3)
WRONG = [[True], [True, False, True], [[True, False, True]], [[True, False], [False, True]]]


@pytest.mark.parametrize("mask", WRONG, ids=str)
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_mask_of_other_sizes_raises_as_in_numpy(mask, dynamic):
    def read(x):
        return x[mask]

    def write(x):
        x = x.copy()
        x[np.array(mask)] = 1
        return x

    for f in (read, write):
        with pytest.warns(UserWarning), pytest.raises(IndexError, match="boolean index did not match"):
            bl.compile(f, dynamic=dynamic)(X)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_mask_that_fits_selects(dynamic):
    def f(x):
        return x[[True, False]], x[:, [True, False, True]], x[[[True, False, True], [False, False, True]]]

    for got, want in zip(bl.compile(f, fullgraph=True, dynamic=dynamic)(X), f(X), strict=True):
        np.testing.assert_array_equal(got, want)
