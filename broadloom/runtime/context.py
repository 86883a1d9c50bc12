"""What a kernel module is called with, and how its failures become Python exceptions.

What goes in: the functions of the native runtime, the number of threads, the error record after a failed run.
What comes out: the `Context` structure that `bl_run` takes, `ArrayRecord` structures for its arguments, and an
exception of the class and with the text that NumPy would use, followed by the op and the user's line.

What holds: the layouts are those of `codegen.abi`, version `ABI_VERSION`; a context belongs to one call and is not
shared.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from broadloom.codegen import abi
from broadloom.errors import CodegenError
from broadloom.fusion.ir import NOT_FINITE

if TYPE_CHECKING:
    from broadloom.fusion.ir import Site

ABI_VERSION = 1

NO_SITE, NO_PLAN = -1, -2
_LINALG = {
    **dict.fromkeys(("lu_factor", "lu_solve", "solve", "inv"), "Singular matrix"),
    "cholesky": "Matrix is not positive definite",
    **dict.fromkeys(("svd", "svdvals"), "SVD did not converge"),
    **dict.fromkeys(("eigh", "eigvalsh", "eig", "eigvals"), "Eigenvalues did not converge"),
}


class Context(ctypes.Structure):
    """`ctx` of the native ABI: memory, threads, and the record of the failure that comes first in program order."""

    _fields_ = (
        ("alloc", ctypes.c_void_p),
        ("free", ctypes.c_void_p),
        ("parallel_for", ctypes.c_void_p),
        ("threads", ctypes.c_int64),
        ("lock", ctypes.c_int32),
        ("site", ctypes.c_int32),
        ("key", ctypes.c_int64),
        ("payload", ctypes.c_int64 * 4),
    )


class ArrayRecord(ctypes.Structure):
    """`bl_array` of the native ABI: shape and strides are arrays of `ndim` i64; strides count bytes."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
    )


def exception(sites: Sequence[Site], code: int, site: int, payload: Sequence[int]) -> Exception:
    """The exception for a run that returned `code` with an error record of `site` and `payload`.

    `payload`: for "index" the index as given and the size of the axis; for "linalg" the number of the first bad
    matrix of a stack and LAPACK's `info`; without memory, the bytes asked for.

    >>> from broadloom.fusion.ir import Site
    >>> exception([Site("index", "take", 0)], 1, 0, [13, 10, 0, 0])
    IndexError('index 13 is out of bounds for axis 0 with size 10 (in take)')
    >>> exception([Site("linalg", "cholesky", -1)], 1, 0, [4, 0, 0, 0])
    LinAlgError('Matrix is not positive definite (matrix 4 of the stack, in cholesky)')
    >>> exception([], 2, -1, [4096, 0, 0, 0])
    MemoryError('not enough memory for the workspace of a compiled function: 4096 bytes asked for')
    """
    if code == abi.OUT_OF_MEMORY:
        return MemoryError(f"not enough memory for the workspace of a compiled function: {payload[0]} bytes asked for")
    if not 0 <= site < len(sites):
        return CodegenError("a compiled function failed without saying where", got=f"code {code}, site {site}")
    where = sites[site]
    place = f"in {where.op}" if where.location is None else f"in {where.op} at {where.location}"
    match where.code:
        case "index":
            axis = f"axis {where.axis} with " if where.axis >= 0 else ""
            return IndexError(f"index {payload[0]} is out of bounds for {axis}size {payload[1]} ({place})")
        case "linalg":
            text = "Array must not contain infs or NaNs" if payload[1] == NOT_FINITE else _LINALG[where.op]
            return np.linalg.LinAlgError(f"{text} (matrix {payload[0]} of the stack, {place})")
        case "memory":
            return MemoryError(f"not enough memory: {payload[0]} bytes asked for ({place})")
        case "value" if where.op == "pow":
            return ValueError(f"Integers to negative integer powers are not allowed. ({place})")
        case "value":
            return ValueError(f"invalid value: {payload[0]} ({place})")
