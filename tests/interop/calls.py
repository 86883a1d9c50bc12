"""Calls of other libraries' functions, run on arrays and on tensors and compared.

What goes in: a function and its array arguments. What comes out: "tensors" or "arrays", by what the function gives for
tensors, if its values are those that it gives for arrays; else what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import broadloom as bl

_rng = np.random.default_rng(0)
matrix = _rng.normal(size=(20, 4))
vector = _rng.normal(size=50)
positive = np.abs(vector) + 0.1
square = matrix.T @ matrix + np.eye(4)
times = np.arange(20.0)
labels = (matrix[:, 0] > 0).astype(np.int64)
guesses = (matrix[:, 0] + 0.3 * matrix[:, 1] > 0).astype(np.int64)
scores = 1 / (1 + np.exp(-matrix[:, 1]))
classes = np.arange(20) % 3
cube = np.arange(24.0).reshape(2, 3, 4)

Call = tuple[Callable[..., Any], tuple[Any, ...]]
Calls = Mapping[str, Call]


def called(function: Callable[..., Any], *args: Any) -> Call:
    return function, args


def lookup(module: Any, names: str, *args: Any, **options: Any) -> Calls:
    """Calls of several functions of a module with the same arguments."""

    def bound(name: str) -> Callable[..., Any]:
        return lambda *given: getattr(module, name)(*given, **options)

    return {name: (bound(name), args) for name in names.split()}


def leaves(x: Any) -> list[Any]:
    """The arrays and numbers of a result."""
    if isinstance(x, (tuple, list)):
        return [leaf for part in x for leaf in leaves(part)]
    if hasattr(x, "pvalue"):
        return [x.statistic, x.pvalue]
    return [x]


def outcome(call: Call) -> str:
    """See the module docstring."""
    function, args = call
    expected = leaves(function(*args))
    given = leaves(function(*(bl.asarray(a.copy()) if isinstance(a, np.ndarray) else a for a in args)))
    if len(given) != len(expected):
        return f"{len(given)} results for {len(expected)}"
    for g, e in zip(given, expected, strict=True):
        if not np.allclose(np.asarray(g), np.asarray(e), rtol=1e-7, atol=1e-7, equal_nan=True):
            return f"another value: {g!r} for {e!r}"
    kinds = {type(g) for g in given}
    return "tensors" if kinds == {bl.Tensor} else "arrays" if bl.Tensor not in kinds else f"mixed: {kinds}"
