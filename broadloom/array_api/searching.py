"""Searching, sorting and set functions of the array API standard.

What goes in: tensors. What comes out: tensors, indices as int64. What holds: the functions whose sizes depend on data -
`nonzero` and the `unique` functions - run at once only; a batched or compiled function refuses them by name.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from broadloom.frontend import sorting
from broadloom.tensor.dispatch import call


def argmax(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The index of the first greatest element along an axis, or among all."""
    return call(np.argmax, x, axis=axis, keepdims=keepdims)


def argmin(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The index of the first least element along an axis, or among all."""
    return call(np.argmin, x, axis=axis, keepdims=keepdims)


def count_nonzero(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Any:
    """How many elements along the axes are not zero."""
    return call(np.count_nonzero, x, axis=axis, keepdims=keepdims)


def nonzero(x: Any, /) -> Any:
    """The indices of the elements that are not zero, one tensor for each axis."""
    return call(np.nonzero, x)


def searchsorted(x1: Any, x2: Any, /, *, side: Literal["left", "right"] = "left", sorter: Any = None) -> Any:
    """Where the elements of `x2` would stand in the sorted `x1`: before equal ones, or ("right") after them."""
    return call(np.searchsorted, x1, x2, side=side, sorter=sorter)


def where(condition: Any, x1: Any, x2: Any, /) -> Any:
    """The elements of `x1` where the condition is true, else those of `x2`."""
    return call(np.where, condition, x1, x2)


def argsort(x: Any, /, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Any:
    """The indices that sort `x` along an axis; equal elements keep their order, also if `descending`."""
    if descending:
        return call(sorting.argsort, x, axis=axis, descending=True, stable=stable)
    return call(np.argsort, x, axis=axis, stable=stable)


def sort(x: Any, /, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Any:
    """`x` sorted along an axis; equal elements keep their order, also if `descending`."""
    if descending:
        return call(sorting.sort, x, axis=axis, descending=True, stable=stable)
    return call(np.sort, x, axis=axis, stable=stable)


def unique_all(x: Any, /) -> Any:
    """The different elements, sorted; where each stands first; which of them each element is; how often each stands."""
    return call(np.unique_all, x)


def unique_counts(x: Any, /) -> Any:
    """The different elements, sorted, and how often each stands."""
    return call(np.unique_counts, x)


def unique_inverse(x: Any, /) -> Any:
    """The different elements, sorted, and which of them each element is."""
    return call(np.unique_inverse, x)


def unique_values(x: Any, /) -> Any:
    """The different elements, sorted; each nan is one of its own."""
    return call(np.unique, x, equal_nan=False)  # NumPy's unique_values gives them in any order
