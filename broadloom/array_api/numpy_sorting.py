"""NumPy's functions that sort, search, count or leave nan out, which the array API standard has not.

What goes in and comes out is NumPy's, with tensors for arrays; `out=` is left out, as in `numpy_shapes`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from broadloom.tensor.dispatch import call


def argpartition(a: Any, kth: Any, axis: Any = -1) -> Any:
    """Indices that put the element at `kth` where sorting would, lesser ones before it."""
    return call(np.argpartition, a, kth, axis=axis)


def argwhere(a: Any) -> Any:
    """The indices of the elements that are not zero, a row for each."""
    return call(np.argwhere, a)


def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """The bin that each element falls in."""
    return call(np.digitize, x, bins, right=right)


def flatnonzero(a: Any) -> Any:
    """The flat indices of the elements that are not zero."""
    return call(np.flatnonzero, a)


def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    """How many elements fall in each bin, and the edges of the bins."""
    return call(np.histogram, a, bins=bins, range=range, density=density, weights=weights)


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    """The edges that `histogram` takes."""
    return call(np.histogram_bin_edges, a, bins=bins, range=range, weights=weights)


def intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """The elements that stand in both, sorted."""
    return call(np.intersect1d, ar1, ar2, assume_unique=assume_unique)


def isin(element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False) -> Any:
    """Whether each element stands among the others."""
    return call(np.isin, element, test_elements, assume_unique=assume_unique, invert=invert)


def lexsort(keys: Any, axis: Any = -1) -> Any:
    """The indices that sort by the last key, equal ones by the key before it."""
    return call(np.lexsort, keys, axis=axis)


def median(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The median."""
    return call(np.median, a, axis=axis, keepdims=keepdims)


def nanargmax(a: Any, axis: Any = None) -> Any:
    """The index of the greatest element that is not nan."""
    return call(np.nanargmax, a, axis=axis)


def nanargmin(a: Any, axis: Any = None) -> Any:
    """The index of the least element that is not nan."""
    return call(np.nanargmin, a, axis=axis)


def nancumprod(a: Any, axis: Any = None, dtype: Any = None) -> Any:
    """As `cumprod`, with nan as 1."""
    return call(np.nancumprod, a, axis=axis, dtype=dtype)


def nancumsum(a: Any, axis: Any = None, dtype: Any = None) -> Any:
    """As `cumsum`, with nan as 0."""
    return call(np.nancumsum, a, axis=axis, dtype=dtype)


def nanmax(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The greatest element that is not nan."""
    return call(np.nanmax, a, axis=axis, keepdims=keepdims)


def nanmean(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """The mean of the elements that are not nan."""
    return call(np.nanmean, a, axis=axis, dtype=dtype, keepdims=keepdims)


def nanmedian(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The median of the elements that are not nan."""
    return call(np.nanmedian, a, axis=axis, keepdims=keepdims)


def nanmin(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The least element that is not nan."""
    return call(np.nanmin, a, axis=axis, keepdims=keepdims)


def nanprod(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """The product of the elements that are not nan."""
    return call(np.nanprod, a, axis=axis, dtype=dtype, keepdims=keepdims)


def nanstd(a: Any, axis: Any = None, dtype: Any = None, ddof: Any = 0, keepdims: bool = False) -> Any:
    """The standard deviation of the elements that are not nan."""
    return call(np.nanstd, a, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims)


def nansum(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """The sum of the elements that are not nan."""
    return call(np.nansum, a, axis=axis, dtype=dtype, keepdims=keepdims)


def nanvar(a: Any, axis: Any = None, dtype: Any = None, ddof: Any = 0, keepdims: bool = False) -> Any:
    """The variance of the elements that are not nan."""
    return call(np.nanvar, a, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims)


def partition(a: Any, kth: Any, axis: Any = -1) -> Any:
    """The elements with that at `kth` where sorting would put it, lesser ones before it."""
    return call(np.partition, a, kth, axis=axis)


def percentile(a: Any, q: Any, axis: Any = None, method: Any = "linear", keepdims: bool = False) -> Any:
    """The numbers below which so many per cent of the elements lie."""
    return call(np.percentile, a, q, axis=axis, method=method, keepdims=keepdims)


def quantile(a: Any, q: Any, axis: Any = None, method: Any = "linear", keepdims: bool = False) -> Any:
    """The numbers below which such a part of the elements lies."""
    return call(np.quantile, a, q, axis=axis, method=method, keepdims=keepdims)


def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise") -> Any:
    """Flat indices of indices along each axis."""
    return call(np.ravel_multi_index, multi_index, dims, mode=mode)


def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """The elements of the first that do not stand in the second, sorted."""
    return call(np.setdiff1d, ar1, ar2, assume_unique=assume_unique)


def union1d(ar1: Any, ar2: Any) -> Any:
    """The elements that stand in either, sorted."""
    return call(np.union1d, ar1, ar2)


def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    *,
    equal_nan: bool = True,
) -> Any:
    """The different elements, sorted; where they stand, and how often."""
    return call(np.unique, ar, return_index, return_inverse, return_counts, axis, equal_nan=equal_nan)


def unravel_index(indices: Any, shape: Any) -> Any:
    """Indices along each axis of flat indices."""
    return call(np.unravel_index, indices, shape)
