"""Questions whose answer is a Python value: shapes, sizes, dtypes, kinds.

What goes in: handles and dtypes. What comes out: ints (symbolic where a size is), tuples, dtypes, bools; nothing is
added to the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from broadloom.frontend import shapes
from broadloom.frontend.operands import as_array, result_dtype
from broadloom.frontend.refused import DATA_DEPENDENT
from broadloom.frontend.unsupported import DependsOnData, Unsupported, plain_numpy_raises
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle
from broadloom.symbolic import Size


def np_shape(r: Recorder, a: object) -> tuple[Size, ...]:
    """`numpy.shape` and `x.shape`."""
    return as_array(r, a).shape


def np_ndim(r: Recorder, a: object) -> int:
    """`numpy.ndim`."""
    return as_array(r, a).ndim


def np_size(r: Recorder, a: object, axis: object = None) -> Size:
    """`numpy.size`."""
    x = as_array(r, a)
    if axis is None:
        return shapes.count(x.shape)
    return shapes.count(x.shape[i] for i in shapes.axes_from_end(axis, x.ndim))


def attribute_size(r: Recorder, x: ArrayHandle) -> Size:
    """`x.size`."""
    return shapes.count(x.shape)


def attribute_dtype(r: Recorder, x: ArrayHandle) -> np.dtype[Any]:
    """`x.dtype`."""
    return x.dtype.numpy


def attribute_itemsize(r: Recorder, x: ArrayHandle) -> int:
    """`x.itemsize`, in bytes."""
    return x.dtype.itemsize


def attribute_nbytes(r: Recorder, x: ArrayHandle) -> Size:
    """`x.nbytes`."""
    return shapes.count(x.shape) * x.dtype.itemsize


def attribute_device(r: Recorder, x: ArrayHandle) -> str:
    """`x.device`."""
    return "cpu"


def np_result_type(r: Recorder, *arrays_and_dtypes: object) -> np.dtype[Any]:
    """`numpy.result_type`."""
    return result_dtype(r, *arrays_and_dtypes).numpy


def np_can_cast(r: Recorder, from_: object, to: object, casting: str = "safe") -> bool:
    """`numpy.can_cast`."""
    source = from_.dtype.numpy if isinstance(from_, ArrayHandle) else from_
    try:
        return bool(np.can_cast(source, to, casting))  # type: ignore[arg-type]
    except TypeError as error:
        raise plain_numpy_raises(str(error)) from error


def np_common_type(r: Recorder, *arrays: object) -> type[np.generic]:
    """`numpy.common_type`."""
    try:
        return np.common_type(*(np.empty(0, as_array(r, a).dtype.numpy) for a in arrays))
    except TypeError as error:
        raise plain_numpy_raises(str(error)) from error


def np_iscomplexobj(r: Recorder, x: object) -> bool:
    """`numpy.iscomplexobj`."""
    return as_array(r, x).dtype.kind == "c"


def np_isrealobj(r: Recorder, x: object) -> bool:
    """`numpy.isrealobj`."""
    return not np_iscomplexobj(r, x)


def np_isscalar(r: Recorder, element: object) -> bool:
    """`numpy.isscalar`: True for numbers and NumPy scalars, False for arrays, 0-d ones too."""
    if isinstance(element, ArrayHandle):
        return element.numpy_scalar
    return not isinstance(element, (list, tuple))


def np_isfortran(r: Recorder, a: object) -> bool:
    """`numpy.isfortran`."""
    x = as_array(r, a)
    return r.contiguous(x, fortran=True) and not r.contiguous(x)


def np_broadcast_shapes(r: Recorder, *args: object) -> tuple[Size, ...]:
    """`numpy.broadcast_shapes`."""
    return shapes.broadcast_shapes(r, *(shapes.as_shape(a) for a in args))


def np_iterable(r: Recorder, y: object) -> bool:
    """`numpy.iterable`."""
    if isinstance(y, ArrayHandle):
        return y.ndim > 0
    return isinstance(y, (list, tuple))


def plain_only(function: Callable[..., Any]) -> Callable[..., Any]:
    """An entry that takes no runtime values; dtypes of arrays are taken where a dtype is wanted."""

    def run(r: Recorder, *args: Any, **kwargs: Any) -> Any:
        raise Unsupported(f"np.{function.__name__} of a runtime value", "give it a dtype or a constant")

    return run


def refused(function: Callable[..., Any], remedy: str, r: Recorder, *args: Any, **kwargs: Any) -> NoReturn:
    """The refusal of a function for runtime values."""
    kind = DependsOnData if remedy in DATA_DEPENDENT else Unsupported
    raise kind(f"np.{function.__name__} is not captured", remedy)
