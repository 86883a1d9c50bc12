"""Result arrays: made as NumPy makes its own, with large data from the block store.

What goes in: a shape, a dtype, a memory order. What comes out: a fresh, writeable array that owns its data. What
holds: NumPy's memory handler is set around this one allocation and put back at once, so no array of the user's
is touched; small arrays come from NumPy's own handler.
"""

from __future__ import annotations

import ctypes
import math
from functools import cache
from typing import Any

import numpy as np

from broadloom.runtime import native
from broadloom.runtime.allocator import LARGE_BLOCK
from broadloom.runtime.symbols import numpy_api

_capsule_new = ctypes.pythonapi.PyCapsule_New
_capsule_new.restype, _capsule_new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_CAPSULE_NAME = b"mem_handler"  # the name that NumPy asks for; the capsule refers to it


@cache
def handler() -> Any:
    """The capsule that NumPy takes as a memory handler."""
    address = ctypes.CFUNCTYPE(ctypes.c_void_p)(native.runtime().address("bl_result_handler"))()
    return _capsule_new(address, _CAPSULE_NAME, None)


@cache
def _set_handler() -> Any:
    return ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(numpy_api()["PyDataMem_SetHandler"])


def result_array(shape: tuple[int, ...], dtype: np.dtype[Any], order: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """An uninitialised array whose axes lie in memory in the order `order`, outermost first.

    >>> result_array((2, 3), np.dtype("f8"), (1, 0)).strides
    (8, 16)

    Raises `MemoryError` as NumPy does.
    """
    steps, step = [0] * len(shape), dtype.itemsize
    for axis in reversed(order):
        steps[axis] = step
        step *= max(1, shape[axis])
    if math.prod(shape) * dtype.itemsize < LARGE_BLOCK:
        return _new_array(shape, dtype, steps)
    before = _set_handler()(handler())
    try:
        return _new_array(shape, dtype, steps)
    finally:
        _set_handler()(before)


@cache
def _new_from_descr() -> Any:
    kind = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_int, *[ctypes.c_void_p] * 3, ctypes.c_int,
        ctypes.c_void_p,
    )  # fmt: skip
    return kind(numpy_api()["PyArray_NewFromDescr"])


def _new_array(shape: tuple[int, ...], dtype: np.dtype[Any], strides: list[int]) -> np.ndarray[Any, Any]:
    sizes = ctypes.c_ssize_t * len(shape)
    _keep(dtype)  # the call takes over one reference to the dtype
    array: np.ndarray[Any, Any] = _new_from_descr()(
        numpy_api()["PyArray_Type"], dtype, len(shape), sizes(*shape), sizes(*strides), None, 0, None
    )
    return array


_keep = ctypes.pythonapi.Py_IncRef
_keep.argtypes = (ctypes.py_object,)
