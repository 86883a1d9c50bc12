"""The roads that a mapped function takes, and what each must give: the stack of what a loop over the examples gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import broadloom as bl
from broadloom.transforms.vmap import mapped


def eager(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Captured, and computed op by op."""
    return bl.vmap(fn, *args, **kwargs)


def dispatched(fn: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, **kwargs: Any) -> Any:
    """In Python, on tensors that stand for one of many."""
    return mapped(fn, in_axes, out_axes, **kwargs)


def compiled(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The mapped function itself is compiled."""
    return bl.compile(bl.vmap(fn, *args, **kwargs), fullgraph=True)


def compiled_around(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A function that maps is compiled, for any sizes."""

    def call(*xs: Any, **named: Any) -> Any:
        return bl.vmap(fn, *args, **kwargs)(*xs, **named)

    return bl.compile(call, fullgraph=True, dynamic=True)


ROADS = [eager, dispatched, compiled, compiled_around]
by_road = pytest.mark.parametrize("vmap", ROADS, ids=lambda f: f.__name__)
captured = pytest.mark.parametrize("vmap", [eager, compiled, compiled_around], ids=lambda f: f.__name__)
in_python = pytest.mark.parametrize("vmap", [eager, dispatched], ids=lambda f: f.__name__)


def looped(fn: Callable[..., Any], in_axes: Sequence[int | None], arrays: Sequence[Any]) -> Any:
    """What a loop over the examples gives, stacked. An example counts as a C-contiguous array of its own; what is
    written to it reaches the whole."""
    size = next(x.shape[a] for x, a in zip(arrays, in_axes, strict=True) if a is not None)
    results = []
    for k in range(size):
        views = [x if a is None else np.moveaxis(x, a, 0)[k, ...] for x, a in zip(arrays, in_axes, strict=True)]
        examples = [v if a is None else np.array(v, order="C") for v, a in zip(views, in_axes, strict=True)]
        results.append(fn(*examples))
        for view, example, a in zip(views, examples, in_axes, strict=True):
            if a is not None:
                view[...] = example
    return stacked(results)


def stacked(results: Sequence[Any]) -> Any:
    """The stack of arrays, or the same containers of stacks."""
    first = results[0]
    if isinstance(first, tuple | list):
        return [stacked(column) for column in zip(*results, strict=True)]
    if isinstance(first, dict):
        return {key: stacked([r[key] for r in results]) for key in first}
    return np.stack([np.asarray(r) for r in results])


RTOL = {"float16": 2e-2, "float32": 1e-4, "complex64": 1e-4}


def assert_equal(got: Any, want: Any, about: str = "") -> None:
    """The same containers, dtypes, shapes and, but for rounding, values."""
    if isinstance(want, dict):
        assert got.keys() == want.keys(), about
        got, want = list(got.values()), list(want.values())
    if isinstance(want, list):
        assert len(got) == len(want), about
        for a, b in zip(got, want, strict=True):
            assert_equal(a, b, about)
        return
    a = got.numpy() if isinstance(got, bl.Tensor) else got
    assert type(a) is np.ndarray, about
    assert (a.dtype, a.shape) == (want.dtype, want.shape), about
    if a.dtype.kind not in "fc":
        assert np.array_equal(a, want), f"{about} {a} instead of {want}"
        return
    tolerance = RTOL.get(a.dtype.name, 1e-9)
    with np.errstate(all="ignore"):
        close = np.isclose(a, want, rtol=tolerance, atol=tolerance, equal_nan=True)
        both = ~np.isfinite(a) & ~np.isfinite(want) & (a.dtype.kind == "c")  # their parts: docs/differences.md
    assert (close | both).all(), f"{about} {a} instead of {want}"
