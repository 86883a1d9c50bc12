"""`bl.special` gives what `scipy.special` gives: at once, and batched and compiled as far as ops reach."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from scipy import special

import broadloom as bl
from broadloom.errors import BroadloomError
from broadloom.frontend.special import FUNCTIONS, LOOPS

X = np.linspace(0.05, 0.95, 6).reshape(2, 3)
NAMES = [n for n, f in vars(bl.special).items() if inspect.isfunction(f) and f.__module__ == bl.special.__name__]
COMPILED = [n for n in NAMES if n in LOOPS or n in FUNCTIONS]


def arguments(name: str) -> tuple[Any, ...]:
    kinds = [p.kind for p in inspect.signature(getattr(bl.special, name)).parameters.values()]
    return (X,) * max(1, sum(k is inspect.Parameter.POSITIONAL_ONLY for k in kinds))


@pytest.mark.parametrize("name", NAMES)
def test_at_once(name: str) -> None:
    args = arguments(name)
    result = getattr(bl.special, name)(*map(bl.asarray, args))
    assert type(result) is bl.Tensor
    np.testing.assert_array_equal(result.numpy(), getattr(special, name)(*args))


def test_every_function_of_the_frontend_has_its_name() -> None:
    assert {*LOOPS, *FUNCTIONS} <= set(NAMES)


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_and_batched(name: str) -> None:
    function, args = getattr(bl.special, name), arguments(name)
    expected = getattr(special, name)(*args)
    np.testing.assert_allclose(bl.compile(function, fullgraph=True)(*args), expected, rtol=1e-14)
    rows = np.stack([getattr(special, name)(*(a[i] for a in args)) for i in range(2)])
    np.testing.assert_allclose(bl.vmap(function)(*args), rows, rtol=1e-14)


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(COMPILED)))
def test_what_no_op_reaches_is_refused_by_name(name: str) -> None:
    shown = "psi" if name == "digamma" else name
    with pytest.raises(BroadloomError, match=rf"scipy\.special\.{shown}.*remedy"):
        bl.compile(getattr(bl.special, name), fullgraph=True)(X)
    with pytest.raises(BroadloomError, match=rf"{shown} of a batched value.*remedy"):
        bl.vmap(getattr(bl.special, name))(X)
