"""Python numbers that are put into arrays: those that do not fit the dtype raise as in NumPy, whatever came before, and
those that fit run compiled."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import broadloom as bl


def element(x, v):
    x[1] = v


def slices(x, v):
    x[1:] = v


def everything(x, v):
    x[...] = v


def index_array(x, v):
    x[np.array([0, 2])] = v


def mask(x, v):
    x[x > 1] = v


def filled(x, v):
    x.fill(v)


def listed(x, v):
    x[:2] = [v, 1]


def array(x, v):
    x[:] = np.array(v, x.dtype)


def array_of_list(x, v):
    x[:2] = np.array([v, v], dtype=x.dtype)


def scalar_type(x, v):
    x[:] = x.dtype.type(v)


def put_by_mask(x, v):
    np.putmask(x, x > 1, v)


def diagonal(x, v):
    np.fill_diagonal(x.reshape(1, 3), v)


def computed(x, v):
    x[0] = v * 2 - v


WAYS = (
    element, slices, everything, index_array, mask, filled, listed, array, array_of_list, scalar_type, put_by_mask,
    diagonal, computed,
)  # fmt: skip
FLOATS = (3.7, math.nan, 2.5, -math.inf, -0.5, -1.5, 300.0, -128.9, 1e30, 2.0**63, -(2.0**63), 65535.5, 1.0)
INTS = (3, 300, 7, -1, 5, 2**31, 2**63 - 1, -129, 127, 255)


def outcome(f, dtype, v):
    x = np.arange(3).astype(dtype)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            f(x, v)
        except (ValueError, TypeError, OverflowError) as error:
            return type(error)
    return x.tolist()


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("dtype", ["int8", "uint32", "int64", "uint64", "bool", "float32"])
@pytest.mark.parametrize("way", WAYS)
def test_numbers_that_do_not_fit_raise(way, dtype, dynamic):
    for numbers in (FLOATS, INTS, (1j, 2 + 0j)):
        f = bl.compile(way, dynamic=dynamic)
        for v in numbers:
            want = outcome(way, dtype, v)
            if not (isinstance(want, list) and dtype == "float32"):
                assert outcome(f, dtype, v) == want, v
            else:
                np.testing.assert_array_equal(outcome(f, dtype, v), want)


@pytest.mark.parametrize("dtype", ["uint8", "int64"])
@pytest.mark.parametrize("way", WAYS)
def test_numbers_that_fit_are_compiled(way, dtype):
    f = bl.compile(way, fullgraph=True)
    for v in (3.7, 2.5, 100.25):
        assert outcome(f, dtype, v) == outcome(way, dtype, v)
    assert len(f.report().compiles) == 1
    f = bl.compile(way, fullgraph=True)
    for v in (3, 2, 100):
        assert outcome(f, dtype, v) == outcome(way, dtype, v)
    assert len(f.report().compiles) == 2, "the second int is symbolic"


@pytest.mark.parametrize("way", [element, index_array, filled, mask])
def test_a_number_from_data_is_left_to_python(way):
    def f(x, y):
        way(x, float(y[0]))

    compiled = bl.compile(f)
    for value in (2.5, math.nan):
        assert outcome(compiled, "int64", np.array([value])) == outcome(f, "int64", np.array([value]))


def one(x, v):
    x[0] = v


def picked(x, v):
    x[np.array(1)] = v


def through_a_view(x, v):
    x[..., 0] = v


@pytest.mark.parametrize("way", [one, picked, through_a_view, filled])
@pytest.mark.parametrize("dtype", ["int64", "float32"])
@pytest.mark.parametrize("value", [[1], (1,), [[1]], [], np.array([1]), np.array([[1.0]]), np.array(1), 4])
def test_one_element_takes_what_numpy_lets_it_take(way, dtype, value):
    assert outcome(bl.compile(way), dtype, value) == outcome(way, dtype, value)
