"""Manipulation and indexing functions of the array API standard.

What goes in: tensors, and sizes, axes and shifts as Python ints. What comes out: a view where NumPy gives one, else a
fresh tensor.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from broadloom.tensor.dispatch import call


def concat(arrays: Any, /, axis: Any = 0) -> Any:
    """The arrays joined along an axis they have; with None, all of them flat."""
    return call(np.concatenate, arrays, axis=axis)


def expand_dims(x: Any, /, axis: Any) -> Any:
    """A view with an axis of one element at `axis`."""
    return call(np.expand_dims, x, axis)


def flip(x: Any, /, axis: Any = None) -> Any:
    """A view with the order reversed along the axes, all of them by default."""
    return call(np.flip, x, axis=axis)


def moveaxis(x: Any, source: Any, destination: Any, /) -> Any:
    """A view with some axes at other places, the others in their order."""
    return call(np.moveaxis, x, source, destination)


def permute_dims(x: Any, /, axes: Any) -> Any:
    """A view with the axes in another order."""
    return call(np.transpose, x, axes)


def repeat(x: Any, repeats: Any, /, axis: Any = None) -> Any:
    """Each element so many times in a row, along an axis, or all of them flat."""
    return call(np.repeat, x, repeats, axis=axis)


def reshape(x: Any, /, shape: Any, *, copy: Any = None) -> Any:
    """The same elements in another shape, one of whose sizes may be -1.

    `copy`: True for fresh memory, False to raise `ValueError` where no view will do, None to copy where needed.
    """
    return call(np.reshape, x, shape, copy=copy)


def roll(x: Any, /, shift: Any, *, axis: Any = None) -> Any:
    """The elements moved along the axes; those that leave at the end come in at the start."""
    return call(np.roll, x, shift, axis=axis)


def squeeze(x: Any, /, axis: Any) -> Any:
    """A view without `axis`, or several, of one element. Raises `ValueError` for one of more."""
    return call(np.squeeze, x, axis=axis)


def stack(arrays: Any, /, axis: int = 0) -> Any:
    """The arrays, all of one shape, along a new axis."""
    return call(np.stack, arrays, axis=axis)


def tile(x: Any, repetitions: Any, /) -> Any:
    """The whole array so many times along each axis."""
    return call(np.tile, x, repetitions)


def unstack(x: Any, /, *, axis: int = 0) -> Any:
    """A tuple of the views along an axis."""
    return call(np.unstack, x, axis=axis)


def take(x: Any, indices: Any, /, axis: Any = None) -> Any:
    """The elements at some indices along an axis; of one axis, `axis` may be left out."""
    return call(np.take, x, indices, axis=axis)


def take_along_axis(x: Any, indices: Any, /, axis: int = -1) -> Any:
    """The elements at indices of their own at each place of the other axes, as `argsort` gives them."""
    return call(np.take_along_axis, x, indices, axis=axis)
