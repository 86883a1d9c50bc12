"""Creation functions of the array API standard.

What goes in: sizes, numbers, nested lists, arrays of other libraries. What comes out: a tensor on the one device there
is, "cpu". What holds: `asarray` shares the memory of an array that needs no change; the others make a fresh tensor.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from broadloom.errors import DTypeError
from broadloom.tensor.dispatch import call


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Any:
    """`start`, `start + step` and so on, up to `stop`, which is left out; with one number, from 0 up to it."""
    if stop is None:
        start, stop = 0, start
    return call(np.arange, start, stop, step, dtype=dtype, device=device)


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: Any = None) -> Any:
    """An array, number or nested list as a tensor.

    `copy`: True for fresh memory, False to raise `ValueError` where a copy is needed, None to copy where needed.
    Raises `DTypeError` for what is no array of numbers or truth values.

    >>> asarray([1.0, 2.0])
    Tensor([1., 2.])
    """
    result = call(np.asarray, obj, dtype=dtype, device=device, copy=copy)
    if result.dtype.kind not in "biufcV" or getattr(result.dtype, "names", None) is not None:
        raise DTypeError("asarray of this dtype", got=result.dtype, allowed="numbers and truth values")
    return result


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """A tensor whose elements mean nothing yet; float64 if no dtype is given."""
    return call(np.empty, shape, dtype=np.float64 if dtype is None else dtype, device=device)


def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """A tensor of the shape and, if none is given, the dtype of `x`, whose elements mean nothing yet."""
    return call(np.empty_like, x, dtype=dtype, device=device)


def eye(n_rows: int, n_cols: Any = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Any:
    """A matrix of zeros with ones on the diagonal that is `k` places above the main one."""
    return call(np.eye, n_rows, n_cols, k=k, dtype=np.float64 if dtype is None else dtype, device=device)


def from_dlpack(x: Any, /, *, device: Any = None, copy: Any = None) -> Any:
    """An array of another library, through DLPack; its memory is shared unless `copy` is True."""
    return call(np.from_dlpack, x, device=device, copy=copy)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """A tensor with one number everywhere."""
    return call(np.full, shape, fill_value, dtype=dtype, device=device)


def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """A tensor of the shape and, if none is given, the dtype of `x`, with one number everywhere."""
    return call(np.full_like, x, fill_value, dtype=dtype, device=device)


def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> Any:
    """`num` numbers at equal distances from `start` to `stop`, which is left out unless `endpoint`."""
    return call(np.linspace, start, stop, num, endpoint=endpoint, dtype=dtype, device=device)


def meshgrid(*arrays: Any, indexing: Literal["xy", "ij"] = "xy") -> Any:
    """A list of the coordinates of a grid, from those of its axes; with "xy" the second axis comes first."""
    return list(call(np.meshgrid, *arrays, indexing=indexing))


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """A tensor of ones; float64 if no dtype is given."""
    return call(np.ones, shape, dtype=np.float64 if dtype is None else dtype, device=device)


def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Ones of the shape and, if none is given, the dtype of `x`."""
    return call(np.ones_like, x, dtype=dtype, device=device)


def tril(x: Any, /, *, k: int = 0) -> Any:
    """The matrix with zeros above the diagonal that is `k` places above the main one."""
    return call(np.tril, x, k=k)


def triu(x: Any, /, *, k: int = 0) -> Any:
    """The matrix with zeros below the diagonal that is `k` places above the main one."""
    return call(np.triu, x, k=k)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """A tensor of zeros; float64 if no dtype is given."""
    return call(np.zeros, shape, dtype=np.float64 if dtype is None else dtype, device=device)


def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Zeros of the shape and, if none is given, the dtype of `x`."""
    return call(np.zeros_like, x, dtype=dtype, device=device)
