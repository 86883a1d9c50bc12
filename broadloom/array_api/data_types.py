"""The dtypes, constants and data type functions of the array API standard.

What goes in: dtypes, tensors, Python numbers. What comes out: a dtype is a `numpy.dtype`, so that one of NumPy's
serves as well and compares equal; `bfloat16` is that of ml_dtypes.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from broadloom import dtypes
from broadloom.records import dataclass
from broadloom.tensor.dispatch import call

bool = dtypes.bool_.numpy
int8, int16, int32, int64 = (d.numpy for d in dtypes.INTEGERS[:4])
uint8, uint16, uint32, uint64 = (d.numpy for d in dtypes.INTEGERS[4:])
float16, bfloat16, float32, float64 = (d.numpy for d in dtypes.FLOATS)
complex64, complex128 = (d.numpy for d in dtypes.COMPLEXES)

e, pi, inf, nan = math.e, math.pi, math.inf, math.nan
newaxis = None

KINDS: dict[str, str] = {  # the letters of `dtypes.Kind`
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}


_limits: Any = ml_dtypes.finfo  # NumPy's limits and those of bfloat16; a library without types


@dataclass(frozen=True, slots=True)
class FloatInfo:
    """The limits of a floating dtype: its bits, its least step from 1 (`eps`), its greatest, least and least positive
    normal number, all as Python floats."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: np.dtype[Any]

    @property
    def tiny(self) -> float:
        """As `smallest_normal`, by NumPy's name."""
        return self.smallest_normal

    @property
    def resolution(self) -> float:
        """The decimal resolution, by NumPy's name."""
        return float(_limits(self.dtype).resolution)


@dataclass(frozen=True, slots=True)
class IntInfo:
    """The limits of an integer dtype: its bits, its greatest and least number."""

    bits: int
    max: int
    min: int
    dtype: np.dtype[Any] | dtypes.DType


def dtype_of(x: Any) -> np.dtype[Any] | dtypes.DType:
    """The dtype of a tensor or array; a dtype as it is, also of packed integers, which NumPy does not have."""
    if isinstance(x, (np.dtype, type, str)):
        return np.dtype(x)
    if isinstance(x, dtypes.DType):
        return x
    found: np.dtype[Any] | dtypes.DType = x.dtype
    return found


def astype(x: Any, dtype: Any, /, *, copy: Any = True, device: Any = None) -> Any:
    """`x` converted to a dtype; with `copy=False`, `x` itself where it has that dtype already."""
    return call(np.astype, x, dtype, copy=copy, device=device)


def broadcast_arrays(*arrays: Any) -> Any:
    """A list of the arrays as views of one common shape."""
    return list(call(np.broadcast_arrays, *arrays))


def broadcast_to(x: Any, /, shape: Any) -> Any:
    """`x` as a view of another shape, by broadcasting."""
    return call(np.broadcast_to, x, shape)


def can_cast(from_: Any, to: Any, /) -> Any:
    """Whether one dtype, or an array's, can be converted to another without loss, as NumPy's promotion has it."""
    return call(np.can_cast, dtype_of(from_), to)


def finfo(type: Any, /) -> FloatInfo:
    """The limits of a floating dtype, or of an array's; of a complex one, those of its parts.

    >>> finfo(float32).eps
    1.1920928955078125e-07
    """
    dtype = dtypes.from_numpy(dtype_of(type)).real.numpy
    found = _limits(dtype)
    eps, most, least, normal = (float(x) for x in (found.eps, found.max, found.min, found.smallest_normal))
    return FloatInfo(found.bits, eps, most, least, normal, dtype)


def iinfo(type: Any, /) -> IntInfo:
    """The limits of an integer dtype, or of an array's."""
    dtype = dtype_of(type)
    if isinstance(dtype, dtypes.DType):
        return IntInfo(dtype.bits, dtype.limits[1], dtype.limits[0], dtype)
    found = np.iinfo(dtype)
    return IntInfo(found.bits, int(found.max), int(found.min), dtype)


def isdtype(dtype: Any, kind: Any) -> Any:
    """Whether a dtype is of a kind: a dtype, a name such as "integral" or "real floating", or a tuple of these.

    Raises `ValueError` for a name that is no kind.
    """
    if isinstance(kind, tuple):
        return True in [isdtype(dtype, k) for k in kind]
    if not isinstance(kind, str):
        return dtype_of(dtype) == dtype_of(kind)
    if kind not in KINDS:
        raise ValueError(f"isdtype: kind; got {kind!r}; allowed: a dtype, {', '.join(KINDS)}, or a tuple of these")
    return dtypes.from_numpy(dtype).kind in KINDS[kind]


def result_type(*arrays_and_dtypes: Any) -> Any:
    """The dtype that an operation on these arrays, dtypes and Python numbers has (NEP 50)."""
    return call(np.result_type, *arrays_and_dtypes)
