"""Whether this build lays its objects out as the native entry reads them.

What goes in: nothing but the running interpreter and NumPy. What comes out: the list of what differs, empty when
the native entry may be used. What holds: only memory of live objects is read, inside their bounds.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from broadloom import platform
from broadloom.errors import CodegenError
from broadloom.runtime import entry_text, symbols


@cache
def mismatches() -> tuple[str, ...]:
    """What differs from the layouts that the native entry relies on, one line each; empty when all is as expected."""
    facts = platform.unsupported()
    if facts:
        return tuple(map(str, facts))
    return tuple(_differences())


def _differences() -> Iterator[str]:
    for name in (*entry_text.PYTHON_FUNCTIONS, *entry_text.PYTHON_OBJECTS):
        try:
            symbols.python_data(name) if name in entry_text.PYTHON_OBJECTS else symbols.python_api(name)
        except CodegenError as error:
            yield str(error)
    if int(np.__version__.split(".")[0]) != 2:
        yield f"NumPy {np.__version__} is not NumPy 2"
        return
    things: tuple[object, ...] = (1, 2.5, (), [], {}, np.zeros(3), np.sin)
    for thing in things:
        if _pointer(id(thing) + 8) != id(type(thing)):
            yield f"the type of a {type(thing).__name__} object is not at byte 8"
    if _double(id(number := -2.625) + 16) != number:
        yield "the value of a float is not at byte 16"
    if (_double(id(pair := complex(1.5, -7.25)) + 16), _double(id(pair) + 24)) != (pair.real, pair.imag):
        yield "the value of a complex is not at byte 16"
    for array in _samples():
        yield from _array_differences(array)


def _samples() -> list[np.ndarray[Any, Any]]:
    base = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    frozen = np.arange(5, dtype=np.int16)
    frozen.flags.writeable = False
    raw = np.zeros(33, np.int8)
    unaligned = raw[1:33].view(np.float64)
    return [base, base.T, base[:, ::-1, 1:3], frozen, unaligned, np.array(3 + 4j), np.zeros((0, 3), bool),
            np.arange(4, dtype=">i4")]  # fmt: skip


def _array_differences(x: np.ndarray[Any, Any]) -> Iterator[str]:
    at, descr = id(x), id(x.dtype)
    dims, strides = _pointer(at + 32), _pointer(at + 40)
    flags = _int(at + 64)
    found = {
        "data": (_pointer(at + 16), x.__array_interface__["data"][0]),
        "rank": (_int(at + 24), x.ndim),
        "shape": (tuple(_word(dims + 8 * k) for k in range(x.ndim)), x.shape),
        "strides": (tuple(_word(strides + 8 * k) for k in range(x.ndim)), x.strides),
        "dtype": (_pointer(at + 56), descr),
        "C contiguity": (bool(flags & 1), x.flags.c_contiguous),
        "Fortran contiguity": (bool(flags & 2), x.flags.f_contiguous),
        "alignment": (bool(flags & 256), x.flags.aligned),
        "writeability": (bool(flags & 1024), x.flags.writeable),
        "byte order": (ctypes.c_char.from_address(descr + 26).value == b">", x.dtype.byteorder == ">"),
        "type number": (_int(descr + 28), x.dtype.num),
        "item size": (_word(descr + 40), x.dtype.itemsize),
    }
    for what, (seen, expected) in found.items():
        if seen != expected:
            yield f"the {what} of an array is not where it is expected: {seen} instead of {expected}"


def _pointer(address: int) -> int:
    return ctypes.c_void_p.from_address(address).value or 0


def _word(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


def _int(address: int) -> int:
    return ctypes.c_int32.from_address(address).value


def _double(address: int) -> float:
    return ctypes.c_double.from_address(address).value
