"""Casts, copies, parts of complex numbers, and other readings of the same bytes.

What goes in: the arguments of the NumPy function or method. What comes out: the array itself where NumPy returns it
unchanged, a view for `real`, `imag` and `view`, else a fresh array in the memory order asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from broadloom import dtypes
from broadloom.frontend import shapes
from broadloom.frontend.indexing import compress, same_array
from broadloom.frontend.operands import as_array, call, cast, check_numbers, is_sequence, known_dtype
from broadloom.frontend.shaping import Order, array_of, is_fortran, kept_scalar, order_of
from broadloom.frontend.unsupported import Unsupported, plain_numpy_raises
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle, WeakScalar
from broadloom.symbolic import Expr

# ---- parts of complex numbers, and other readings of the bytes ------------------------------------------------------


def np_real(r: Recorder, val: object) -> object:
    """`numpy.real`: of a Python number such, else `x.real`."""
    if isinstance(val, Expr) or (isinstance(val, WeakScalar) and val.kind != "c"):
        return val
    x = as_array(r, val)
    return WeakScalar(r.as_scalar(call(r, "real", x)), "f") if isinstance(val, WeakScalar) else real(r, x)


def np_imag(r: Recorder, val: object) -> object:
    """`numpy.imag`: of a Python number such, else `x.imag`."""
    if isinstance(val, Expr) or (isinstance(val, WeakScalar) and val.kind != "c"):
        return 0.0 if isinstance(val, WeakScalar) and val.kind == "f" else 0
    x = as_array(r, val)
    return WeakScalar(r.as_scalar(call(r, "imag", x)), "f") if isinstance(val, WeakScalar) else imag(r, x)


def real(r: Recorder, x: ArrayHandle) -> ArrayHandle:
    """`x.real`: the array itself if it is real, a view of a complex one."""
    if x.dtype.kind != "c":
        return x
    return r.as_scalar(call(r, "real", x)) if x.numpy_scalar else _part(r, x, 0)


def imag(r: Recorder, x: ArrayHandle) -> ArrayHandle:
    """`x.imag`: a view of a complex array, read-only zeros for a real one."""
    if x.dtype.kind == "c":
        return r.as_scalar(call(r, "imag", x)) if x.numpy_scalar else _part(r, x, 1)
    zeros = r.copy(call(r, "imag", x), "A", like=x)
    if x.numpy_scalar:
        return r.as_scalar(zeros)
    zeros.sealed = True
    return zeros


def _part(r: Recorder, x: ArrayHandle, which: int) -> ArrayHandle:
    """The real (0) or imaginary (1) parts as a view: of the pairs of reals that complex numbers are."""
    shape = x.shape
    x = shapes.insert_axes(r, x, x.ndim)
    pairs = r.view("view_dtype", x, dtype=x.dtype.real)
    part = shapes.cut(r, pairs, -1, which, 1)
    return r.view("reshape", part, core=part.ndim, shape=shape)


def method_view(r: Recorder, x: ArrayHandle, dtype: object = None, type: object = None) -> ArrayHandle:
    """`x.view(dtype)`."""
    if type is not None or dtype is np.ndarray:
        raise Unsupported("view as another array type", "view the array outside the compiled function")
    if dtype is None:
        return kept_scalar(r, x, same_array(r, x))
    d = known_dtype(dtype)
    if d is x.dtype:
        return kept_scalar(r, x, same_array(r, x))
    if d.itemsize != x.dtype.itemsize:
        if x.ndim == 0:
            raise plain_numpy_raises("changing the dtype of a 0-d array is only possible if the itemsize is unchanged")
        if x.strides[-1] != x.dtype.itemsize and not shapes.same(r, x.shape[-1], 1):
            raise plain_numpy_raises("to change to a dtype of a different size, the last axis must be contiguous")
    if x.ndim == 0:
        base = array_of(r, x)
        one = r.view("view_dtype", shapes.reshape(r, base, (1,)), dtype=d)
        return kept_scalar(r, x, r.view("reshape", one, core=1, shape=()))
    return r.view("view_dtype", x, dtype=d)


# ---- casts and copies ------------------------------------------------------------------------------------------------


def np_astype(r: Recorder, x: object, dtype: object, /, *, copy: bool = True, device: object = None) -> ArrayHandle:
    """`numpy.astype`."""
    if not isinstance(x, ArrayHandle) or x.numpy_scalar:
        raise plain_numpy_raises("np.astype needs an array")
    return method_astype(r, x, dtype, copy=copy)


def method_astype(
    r: Recorder,
    x: ArrayHandle,
    dtype: object,
    order: object = "K",
    casting: str = "unsafe",
    subok: bool = True,
    copy: bool = True,
) -> ArrayHandle:
    """`x.astype(dtype)`."""
    d = known_dtype(dtype)
    if not np.can_cast(x.dtype.numpy, d.numpy, casting):  # type: ignore[arg-type]
        raise plain_numpy_raises(f"cannot cast from {x.dtype} to {d} by rule {casting!r}")
    return kept_scalar(r, x, converted(r, x, d, order_of(order), copy))


def converted(r: Recorder, x: ArrayHandle, d: dtypes.DType, order: Order, copy: bool) -> ArrayHandle:
    """`x` with dtype and memory order as asked; `x` itself if nothing has to change and no copy is wanted."""
    if order == "A":
        order = "F" if is_fortran(r, x) else "C"
    laid_out = order == "K" or r.contiguous(x, fortran=order == "F")
    if d is x.dtype:
        return x if laid_out and not copy else r.copy(x, order)
    result = cast(r, x, d)
    return result if order == "K" else r.copy(result, order)


def np_array(
    r: Recorder,
    object: object,
    dtype: object = None,
    *,
    copy: object = True,
    order: object = "K",
    subok: bool = False,
    ndmin: int = 0,
    like: object = None,
) -> ArrayHandle:
    """`numpy.array`."""
    if isinstance(copy, np._CopyMode):
        copy = {np._CopyMode.ALWAYS: True, np._CopyMode.NEVER: False, np._CopyMode.IF_NEEDED: None}[copy]
    x = as_array(r, object)
    given = isinstance(object, ArrayHandle) and not object.numpy_scalar
    d = x.dtype if dtype is None else known_dtype(dtype)
    if not given:
        check_numbers(r, object, d)
        x = r.copy(x) if x.numpy_scalar else x
    if copy is False and (not given or d is not x.dtype):
        raise plain_numpy_raises("unable to avoid copy while creating an array as requested")
    result = converted(r, x, d, order_of(order), bool(copy) or not given)
    if result.ndim < ndmin:
        result = shapes.reshape(r, result, (*(1,) * (ndmin - result.ndim), *result.shape))
    return result


def np_asarray(
    r: Recorder,
    a: object,
    dtype: object = None,
    order: object = "K",
    *,
    device: object = None,
    copy: object = None,
    like: object = None,
) -> ArrayHandle:
    """`numpy.asarray`: the array itself when nothing has to change."""
    return np_array(r, a, dtype, copy=copy, order="K" if order is None else order)


def np_ascontiguousarray(r: Recorder, a: object, dtype: object = None, *, like: object = None) -> ArrayHandle:
    """`numpy.ascontiguousarray`: at least 1-d."""
    return np_array(r, a, dtype, copy=None, order="C", ndmin=1)


def np_asfortranarray(r: Recorder, a: object, dtype: object = None, *, like: object = None) -> ArrayHandle:
    """`numpy.asfortranarray`: at least 1-d."""
    return np_array(r, a, dtype, copy=None, order="F", ndmin=1)


def np_require(
    r: Recorder, a: object, dtype: object = None, requirements: object = None, *, like: object = None
) -> ArrayHandle:
    """`numpy.require`, for contiguity and dtype."""
    names: Any = requirements or ()
    wanted = {str(q).upper() for q in names}
    if not wanted:
        return np_array(r, a, dtype, copy=None)
    c, f = {"C", "C_CONTIGUOUS", "CONTIGUOUS"}, {"F", "F_CONTIGUOUS", "FORTRAN"}
    if wanted - c - f:
        raise Unsupported("np.require of ownership, alignment or writeability", "use np.array or np.copy")
    return np_array(r, a, dtype, copy=None, order="C" if wanted & c else "F" if wanted & f else "A")


def np_copy(r: Recorder, a: object, order: object = "K", subok: bool = False) -> ArrayHandle:
    """`numpy.copy`: always an array."""
    return np_array(r, a, order=order)


def method_copy(r: Recorder, x: ArrayHandle, order: object = "C") -> ArrayHandle:
    """`x.copy()`."""
    return kept_scalar(r, x, r.copy(x, order_of(order)))


def method_compress(
    r: Recorder, a: ArrayHandle, condition: object, axis: object = None, out: object = None
) -> ArrayHandle:
    """`x.compress(condition)`."""
    return compress(r, condition, a, axis, out)


def scalar_type(t: type[np.generic], r: Recorder, x: object = 0, /) -> ArrayHandle:
    """`np.float32(x)` and its kin: a scalar of a number, an array of an array."""
    d = known_dtype(t)
    if not is_sequence(x):
        check_numbers(r, x, d)
    a = as_array(r, x)
    if a.dtype.kind == "c" and d.kind != "c":
        raise Unsupported("a complex number converted to a real scalar type", "take its real part first")
    result = cast(r, a, d)
    return r.as_scalar(result) if result.ndim == 0 else (r.copy(result) if result is a else result)
