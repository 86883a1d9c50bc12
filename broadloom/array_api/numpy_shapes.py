"""NumPy's functions of shapes and creation that the array API standard has not, by NumPy's names.

What goes in and comes out is NumPy's, with tensors for arrays. `out=`, `like=` and `subok=` are left out: `numpy`'s own
functions, which take tensors too, have them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from broadloom.tensor.dispatch import call


def append(arr: Any, values: Any, axis: Any = None) -> Any:
    """The values joined on at the end; without an axis, all flat."""
    return call(np.append, arr, values, axis=axis)


def array(object: Any, dtype: Any = None, *, copy: bool = True, ndmin: Any = 0) -> Any:
    """A fresh tensor of an array, number or nested list."""
    return call(np.array, object, dtype=dtype, copy=copy, ndmin=ndmin)


def array_split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    """A list of views: so many of about the same size, or split before the indices."""
    return call(np.array_split, ary, indices_or_sections, axis=axis)


def ascontiguousarray(a: Any, dtype: Any = None) -> Any:
    """The array in C order, with at least one axis."""
    return call(np.ascontiguousarray, a, dtype=dtype)


def atleast_1d(*arys: Any) -> Any:
    """The arrays with at least one axis."""
    return call(np.atleast_1d, *arys)


def atleast_2d(*arys: Any) -> Any:
    """The arrays with at least two axes."""
    return call(np.atleast_2d, *arys)


def atleast_3d(*arys: Any) -> Any:
    """The arrays with at least three axes."""
    return call(np.atleast_3d, *arys)


def column_stack(tup: Any) -> Any:
    """Vectors as columns, and matrices, side by side."""
    return call(np.column_stack, tup)


def concatenate(arrays: Any, /, axis: Any = 0, *, dtype: Any = None) -> Any:
    """The arrays joined along an axis they have; with None, all of them flat."""
    return call(np.concatenate, arrays, axis=axis, dtype=dtype)


def copy(a: Any, order: Any = "K") -> Any:
    """A copy."""
    return call(np.copy, a, order=order)


def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    """The array without the elements at some indices."""
    return call(np.delete, arr, obj, axis=axis)


def diag(v: Any, k: Any = 0) -> Any:
    """The diagonal of a matrix, or the matrix with that diagonal."""
    return call(np.diag, v, k=k)


def diagflat(v: Any, k: Any = 0) -> Any:
    """The matrix with all elements on a diagonal."""
    return call(np.diagflat, v, k=k)


def diagonal(a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1) -> Any:
    """A view of a diagonal."""
    return call(np.diagonal, a, offset=offset, axis1=axis1, axis2=axis2)


def dsplit(ary: Any, indices_or_sections: Any) -> Any:
    """As `array_split` along the third axis, into equal parts."""
    return call(np.dsplit, ary, indices_or_sections)


def dstack(tup: Any) -> Any:
    """The arrays joined along the third axis."""
    return call(np.dstack, tup)


def fliplr(m: Any) -> Any:
    """A view with the order along the second axis reversed."""
    return call(np.fliplr, m)


def flipud(m: Any) -> Any:
    """A view with the order along the first axis reversed."""
    return call(np.flipud, m)


def geomspace(start: Any, stop: Any, num: Any = 50, endpoint: bool = True, dtype: Any = None, axis: Any = 0) -> Any:
    """Numbers at equal ratios."""
    return call(np.geomspace, start, stop, num=num, endpoint=endpoint, dtype=dtype, axis=axis)


def hsplit(ary: Any, indices_or_sections: Any) -> Any:
    """As `split` along the second axis."""
    return call(np.hsplit, ary, indices_or_sections)


def hstack(tup: Any) -> Any:
    """The arrays joined along the second axis; vectors along the first."""
    return call(np.hstack, tup)


def identity(n: Any, dtype: Any = None) -> Any:
    """The square matrix with ones on the diagonal."""
    return call(np.identity, n, dtype=dtype)


def indices(dimensions: Any, dtype: Any = int, sparse: bool = False) -> Any:
    """The indices of the elements of a grid, along a first axis."""
    return call(np.indices, dimensions, dtype=dtype, sparse=sparse)


def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """The array with values put in before some indices."""
    return call(np.insert, arr, obj, values, axis=axis)


def logspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: Any = 0
) -> Any:
    """Powers of a base at equal ratios."""
    return call(np.logspace, start, stop, num=num, endpoint=endpoint, base=base, dtype=dtype, axis=axis)


def ndim(a: Any) -> Any:
    """The number of axes."""
    return call(np.ndim, a)


def ravel(a: Any, order: Any = "C") -> Any:
    """The elements along one axis, as a view where that can be."""
    return call(np.ravel, a, order=order)


def resize(a: Any, new_shape: Any) -> Any:
    """The elements, over and over, in a new shape."""
    return call(np.resize, a, new_shape)


def rot90(m: Any, k: Any = 1, axes: Any = (0, 1)) -> Any:
    """A view turned by a right angle, `k` times."""
    return call(np.rot90, m, k=k, axes=axes)


def shape(a: Any) -> Any:
    """The sizes of the axes."""
    return call(np.shape, a)


def size(a: Any, axis: Any = None) -> Any:
    """The number of elements, or the size of an axis."""
    return call(np.size, a, axis=axis)


def split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    """A list of views: so many of one size, or split before the indices."""
    return call(np.split, ary, indices_or_sections, axis=axis)


def swapaxes(a: Any, axis1: Any, axis2: Any) -> Any:
    """A view with two axes exchanged."""
    return call(np.swapaxes, a, axis1, axis2)


def transpose(a: Any, axes: Any = None) -> Any:
    """A view with the axes in another order, by default the reverse."""
    return call(np.transpose, a, axes=axes)


def tri(N: Any, M: Any = None, k: Any = 0, dtype: Any = float) -> Any:
    """Ones at and below a diagonal, zeros above."""
    return call(np.tri, N, M=M, k=k, dtype=dtype)


def vander(x: Any, N: Any = None, increasing: bool = False) -> Any:
    """The powers of each element, along the last axis."""
    return call(np.vander, x, N=N, increasing=increasing)


def vsplit(ary: Any, indices_or_sections: Any) -> Any:
    """As `split` along the first axis."""
    return call(np.vsplit, ary, indices_or_sections)


def vstack(tup: Any) -> Any:
    """The arrays joined along the first axis; vectors are rows."""
    return call(np.vstack, tup)
