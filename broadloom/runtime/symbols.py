"""Addresses of the functions that generated code calls but does not contain.

What goes in: names. What comes out: addresses in this process, found anew in every process: CPython's by `dlsym`,
NumPy's from its C-API table, BLAS and LAPACK from the capsules that SciPy offers to Cython code. What holds: SciPy
is imported at the first name that needs it and not before; an unknown name is an error that names it.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Iterable
from functools import cache

from broadloom.codegen.abi import BLAS_ENTER, BLAS_LEAVE
from broadloom.errors import CodegenError
from broadloom.lazy import cython_blas, cython_lapack
from broadloom.runtime import blas

BLAS_PREFIX = "bl_"
_LIBRARIES = (cython_blas, cython_lapack)

# Positions in NumPy's C-API table; they are part of its binary interface and do not move.
NUMPY_API = {
    "PyArray_Type": 2,
    "PyArray_DescrFromType": 45,
    "PyArray_Scalar": 60,
    "PyArray_ScalarAsCtype": 62,
    "PyArray_Return": 76,
    "PyArray_NewFromDescr": 94,
    "PyDataMem_SetHandler": 304,
    "PyDataMem_GetHandler": 305,
}

_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.restype, _capsule_name.argtypes = ctypes.c_char_p, (ctypes.py_object,)
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


def _pointer(capsule: object) -> int:
    return int(_capsule_pointer(capsule, _capsule_name(capsule)) or 0)


@cache
def numpy_api() -> dict[str, int]:
    """The addresses in NumPy's C-API table, by the names of `NUMPY_API`.

    >>> all(numpy_api().values())
    True
    """
    capsule = importlib.import_module("numpy._core._multiarray_umath")._ARRAY_API
    table = ctypes.cast(_pointer(capsule), ctypes.POINTER(ctypes.c_void_p))
    return {name: int(table[position] or 0) for name, position in NUMPY_API.items()}


@cache
def python_api(name: str) -> int:
    """The address of a function of CPython. Raises `CodegenError` for an unknown name."""
    function = getattr(ctypes.pythonapi, name, None)
    if function is None:
        raise CodegenError("no such function in this Python", got=name)
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@cache
def python_data(name: str) -> int:
    """The address of a data symbol of CPython: a type object, a singleton."""
    try:
        return ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, name))
    except ValueError:
        raise CodegenError("no such object in this Python", got=name) from None


@cache
def library_routine(name: str) -> int:
    """The address of a BLAS or LAPACK routine ("dgemm", "dgetrf"), Fortran-style pointer arguments, 32-bit ints."""
    for library in _LIBRARIES:
        try:
            capsule = library.load().__pyx_capi__.get(name)
        except ImportError as error:
            raise CodegenError(
                "BLAS and LAPACK come from SciPy, which cannot be imported", got=str(error), remedy="install scipy"
            ) from error
        if capsule is not None:
            return _pointer(capsule)
    raise CodegenError("no such BLAS or LAPACK routine in SciPy", got=name)


def resolve(names: Iterable[str]) -> dict[str, int]:
    """Addresses for the external names of a module of kernels: `bl_` followed by a BLAS or LAPACK routine, and
    what is called around those.

    >>> sorted(resolve(["bl_dgemm", "memcpy"]))
    ['bl_dgemm']

    Other names are left out: the C library's are the linker's business, and it reports what is missing.
    """
    found: dict[str, int] = {}
    for name in names:
        if name in (BLAS_ENTER, BLAS_LEAVE):
            found |= blas.functions()
        elif name.startswith(BLAS_PREFIX):
            found[name] = library_routine(name.removeprefix(BLAS_PREFIX))
    return found
