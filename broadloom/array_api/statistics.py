"""Statistical and utility functions of the array API standard.

What goes in: tensors; `axis` is an axis, a tuple of them, or None for all. What comes out: tensors without these axes,
or with one element along each if `keepdims`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from broadloom.tensor.dispatch import call


def cumulative_prod(x: Any, /, *, axis: Any = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """The products of the elements up to each one, with a 1 in front if `include_initial`."""
    return call(np.cumulative_prod, x, axis=axis, dtype=dtype, include_initial=include_initial)


def cumulative_sum(x: Any, /, *, axis: Any = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """The sums of the elements up to each one, with a 0 in front if `include_initial`."""
    return call(np.cumulative_sum, x, axis=axis, dtype=dtype, include_initial=include_initial)


def max(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The greatest element; nan if there is one."""
    return call(np.max, x, axis=axis, keepdims=keepdims)


def mean(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The mean; of integers in float64."""
    return call(np.mean, x, axis=axis, keepdims=keepdims)


def min(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The least element; nan if there is one."""
    return call(np.min, x, axis=axis, keepdims=keepdims)


def prod(x: Any, /, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> Any:
    """The product; of small integers in 64 bits."""
    return call(np.prod, x, axis=axis, dtype=dtype, keepdims=keepdims)


def std(x: Any, /, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The standard deviation, where the sum of squares is divided by the count less `correction`."""
    return call(np.std, x, axis=axis, correction=correction, keepdims=keepdims)


def sum(x: Any, /, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> Any:
    """The sum; of small integers in 64 bits."""
    return call(np.sum, x, axis=axis, dtype=dtype, keepdims=keepdims)


def var(x: Any, /, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The variance, where the sum of squares is divided by the count less `correction`."""
    return call(np.var, x, axis=axis, correction=correction, keepdims=keepdims)


def all(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Whether all elements are true, or not zero."""
    return call(np.all, x, axis=axis, keepdims=keepdims)


def any(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Whether an element is true, or not zero."""
    return call(np.any, x, axis=axis, keepdims=keepdims)


def diff(x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Any:
    """Each element less the one before it along an axis, `n` times over; `prepend` and `append` are joined on first."""
    if prepend is not None and append is not None:
        return call(np.diff, x, n=n, axis=axis, prepend=prepend, append=append)
    if prepend is not None:
        return call(np.diff, x, n=n, axis=axis, prepend=prepend)
    if append is not None:
        return call(np.diff, x, n=n, axis=axis, append=append)
    return call(np.diff, x, n=n, axis=axis)
