"""`scipy.special` through the frontend: dtypes, kinds and values of SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special as sp

from broadloom.frontend import entry_of
from broadloom.frontend.special import FUNCTIONS, LOOPS
from tests.frontend.harness import Traced, call, check

UNARY = sorted(name for name in LOOPS if getattr(sp, name).nin == 1)
BINARY = sorted(name for name in LOOPS if getattr(sp, name).nin == 2)


def apply(name: str, *args: object) -> object:
    """scipy.special's function, or the entry's for recorded arrays."""
    function = getattr(sp, name)
    traced = next((a for a in args if isinstance(a, Traced)), None)
    return function(*args) if traced is None else call(traced.r, entry_of(function), *args)


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i4"])
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, dtype: str) -> None:
    x = np.array([0.0, 0.25, 0.5, 0.9, 1, 2, 3]).astype(dtype)
    check(lambda np, x: apply(name, x), x, exact=False)
    if dtype[0] == "f":
        check(lambda np, x: apply(name, x), np.array([-0.5, -3.0, np.nan, np.inf, -np.inf, -0.0], dtype), exact=False)


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str) -> None:
    x = np.array([0.0, 0, 1, 2, 0, -1.5, 0.3])
    y = np.array([0.0, 2, 3, 0.5, np.nan, 1.5, 0.2])
    check(lambda np, x, y: apply(name, x, y), x, y, exact=False)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_functions(name: str) -> None:
    x = np.array([[0.5, -2.0, 700.0], [1.0, 2.0, 3.0]])
    check(lambda np, x: (apply(name, x), getattr_axis(name, x)), x, exact=False)


def getattr_axis(name: str, x: object) -> object:
    function = getattr(sp, name)
    return function(x, axis=1) if not isinstance(x, Traced) else call(x.r, entry_of(function), x, axis=1)


def test_what_is_not_known_is_none() -> None:
    assert entry_of(sp.gamma) is None
    assert entry_of([]) is None
    assert entry_of(np.sin) is not None
