"""Errors that the data decide, in functions that catch them: the handler runs, as in the plain function."""

from __future__ import annotations

import contextlib
import warnings

import numpy as np
import pytest

import broadloom as bl
from broadloom.errors import GraphBreakError


def inverse_or_none(a, i):
    try:
        return np.linalg.inv(a)
    except np.linalg.LinAlgError:
        return None


def picked_or_zero(a, i):
    try:
        x = a[0][i]
    except IndexError:
        x = np.zeros(2)
    return x * 2


def in_a_function(a, i):
    def pick():
        return a[0][i]

    try:
        with np.errstate(all="ignore"):
            return pick()
    except (IndexError, KeyError):
        return a


def of_any_kind(a, i):
    try:
        return 2 ** (i - 4)
    except:  # noqa: E722
        return i


def before_finally(a, i):
    try:
        try:
            x = a[0][i]
        finally:
            y = a + 1
    except IndexError:
        return a
    return x, y


def written_then_raised(a, i):
    a[0, 0] = 7
    try:
        a[0][i] = 3
    except IndexError:
        a[1, 1] = 5
    return a


ARGUMENTS = ((np.eye(2), np.array([0, 1])), (np.ones((2, 2)), np.array([0, 9])), (np.eye(2) * 3, np.array([1, 0])))


@pytest.mark.parametrize(
    "function", [inverse_or_none, picked_or_zero, in_a_function, of_any_kind, before_finally, written_then_raised]
)
@pytest.mark.parametrize("dynamic", [None, True])
def test_the_handler_runs(function, dynamic):
    f = bl.compile(function, dynamic=dynamic)
    for a, i in ARGUMENTS:
        first, second = a.copy(), a.copy()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got, want = f(first, i), function(second, i)
        np.testing.assert_equal(got, want)
        np.testing.assert_array_equal(first, second)
    with pytest.raises(GraphBreakError, match="in a try statement"):
        bl.compile(function, fullgraph=True)(*ARGUMENTS[0])


def test_what_nothing_catches_is_captured():
    def f(a, i):
        try:
            x = a * 2
        except ValueError:
            x = a
        try:
            y = x[0][i]
        finally:
            x = x + 1
        with np.errstate(divide="ignore"):
            return np.linalg.inv(x), y, 1 / x

    compiled = bl.compile(f, fullgraph=True)
    a, i = ARGUMENTS[0]
    for got, want in zip(compiled(a, i), f(a, i), strict=True):
        np.testing.assert_allclose(got, want)
    with pytest.raises(IndexError), contextlib.suppress(ValueError):
        compiled(a, np.array([5]))
