"""Norms of vectors and matrices, and the condition number.

What goes in: the arguments of the NumPy function. What comes out: NumPy scalars for a single norm, else fresh arrays,
real. Integers are converted to float64 first.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from broadloom import dtypes
from broadloom.frontend import shapes
from broadloom.frontend.decompositions import largest, np_svdvals
from broadloom.frontend.elementwise import np_where
from broadloom.frontend.operands import as_array, call, cast, constant, is_numpy_inexact, numpy_since
from broadloom.frontend.reductions import np_all, np_any, np_max, np_min, np_sum
from broadloom.frontend.shaping import np_moveaxis
from broadloom.frontend.solving import square
from broadloom.frontend.ufuncs import apply, deliver
from broadloom.frontend.unsupported import plain_numpy_raises
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle


def np_norm(r: Recorder, x: object, ord: Any = None, axis: object = None, keepdims: bool = False) -> ArrayHandle:
    """`numpy.linalg.norm`."""
    a = as_array(r, x)
    if not is_numpy_inexact(a.dtype):
        a = cast(r, a, dtypes.float64)
    if axis is None:
        if ord is None or (ord in ("f", "fro") and a.ndim == 2) or (ord == 2 and a.ndim == 1):
            flat = shapes.reshape(r, a, (shapes.count(a.shape),))
            result = _root_of_squares(r, flat, (-1,), False)
            result = shapes.reshape(r, result, (1,) * a.ndim) if keepdims else result
            return deliver(r, result, None)
        axes: tuple[int, ...] = tuple(range(-a.ndim, 0))
    else:
        wanted = axis if isinstance(axis, (tuple, list)) else (axis,)
        axes = tuple(shapes.axis_from_end(v, a.ndim) for v in wanted)
    if len(axes) == 1:
        return deliver(r, _vector_norm(r, a, ord, axes, keepdims), None)
    if len(axes) == 2 and axes[0] != axes[1]:
        return deliver(r, _matrix_norm(r, a, ord, axes, keepdims), None)
    raise plain_numpy_raises("improper number of dimensions to norm")


def _root_of_squares(r: Recorder, a: ArrayHandle, axes: tuple[int, ...], keepdims: bool) -> ArrayHandle:
    if a.dtype.kind == "c":
        squares = call(r, "add", call(r, "square", call(r, "real", a)), call(r, "square", call(r, "imag", a)))
    else:
        squares = call(r, "square", a)
    return call(r, "sqrt", call(r, "sum", squares, axes=tuple(sorted(axes)), keepdims=keepdims))


def _vector_norm(r: Recorder, a: ArrayHandle, ord: Any, axes: tuple[int, ...], keepdims: bool) -> ArrayHandle:
    if ord is None or ord == 2:
        return _root_of_squares(r, a, axes, keepdims)
    if isinstance(ord, str):
        raise plain_numpy_raises(f"invalid norm order {ord!r} for vectors")
    magnitude = apply(r, np.absolute, a)
    if ord == math.inf:
        return np_max(r, magnitude, axes, None, keepdims, initial=0)
    if ord == -math.inf:
        return np_min(r, magnitude, axes, None, keepdims)
    if ord == 0:
        nonzero = call(r, "not_equal", a, constant(r, 0, a.dtype))
        return np_sum(r, cast(r, nonzero, a.dtype.real), axes, None, None, keepdims)
    if ord == 1:
        return np_sum(r, magnitude, axes, None, None, keepdims)
    total = np_sum(r, apply(r, np.power, magnitude, ord), axes, None, None, keepdims)
    return apply(r, np.power, total, 1 / ord)


def _matrix_norm(r: Recorder, a: ArrayHandle, ord: Any, axes: tuple[int, ...], keepdims: bool) -> ArrayHandle:
    if ord in (None, "fro", "f"):
        return _root_of_squares(r, a, axes, keepdims)
    if ord in (2, -2, "nuc"):
        return _spectral_norm(r, a, ord, axes, keepdims)
    if ord not in (1, -1, math.inf, -math.inf):
        raise plain_numpy_raises("invalid norm order for matrices")
    summed, kept = axes if ord in (1, -1) else (axes[1], axes[0])
    sums = np_sum(r, apply(r, np.absolute, a), summed, None, None, True)
    if ord in (1, math.inf):
        result = np_max(r, sums, kept, None, True, initial=0)
    else:
        result = np_min(r, sums, kept, None, True)
    return result if keepdims else shapes.drop_axes(r, result, axes)


def _spectral_norm(r: Recorder, a: ArrayHandle, ord: Any, axes: tuple[int, ...], keepdims: bool) -> ArrayHandle:
    """The largest or smallest singular value, or their sum."""
    s = np_svdvals(r, np_moveaxis(r, a, axes, (-2, -1)))
    if ord == "nuc":
        result = np_sum(r, s, -1)
    else:
        result = deliver(r, largest(r, s, keepdims=False), None) if ord == 2 else np_min(r, s, -1)
    if not keepdims:
        return result
    kept = {x % a.ndim for x in axes}
    return shapes.reshape(r, result, tuple(1 if x in kept else n for x, n in enumerate(a.shape)))


def np_vector_norm(
    r: Recorder, x: object, /, *, axis: object = None, keepdims: bool = False, ord: Any = 2
) -> ArrayHandle:
    """`numpy.linalg.vector_norm`."""
    a = as_array(r, x)
    if axis is not None and not isinstance(axis, (tuple, list)):
        return np_norm(r, a, ord, axis, keepdims)
    axes = shapes.axes_from_end(axis, a.ndim)
    gone = {x + a.ndim for x in axes}
    order = [*(gone if axis is None else (x % a.ndim for x in axis)), *(x for x in range(a.ndim) if x not in gone)]
    rest = tuple(n for x, n in enumerate(a.shape) if x not in gone)
    moved = shapes.permute(r, a, order)
    result = np_norm(r, shapes.reshape(r, moved, (shapes.count(moved.shape[: len(axes)]), *rest)), ord, 0)
    if not keepdims:
        return result
    return shapes.reshape(r, result, tuple(1 if x in gone else n for x, n in enumerate(a.shape)))


def np_matrix_norm(r: Recorder, x: object, /, *, keepdims: bool = False, ord: Any = "fro") -> ArrayHandle:
    """`numpy.linalg.matrix_norm`."""
    return np_norm(r, x, ord, (-2, -1), keepdims)


def np_cond(r: Recorder, x: object, p: Any = None) -> ArrayHandle:
    """`numpy.linalg.cond`: infinite for a singular matrix."""
    a = as_array(r, x)
    if a.ndim >= 2 and any(shapes.same(r, n, 0) for n in a.shape[-2:]):
        raise plain_numpy_raises("cond is not defined on empty arrays")
    masked = numpy_since("2.5.0") and a.dtype.is_inexact and p in (None, 2, -2, "nuc")
    finite = np_all(r, apply(r, np.isfinite, a), (-2, -1), keepdims=True) if masked else None
    # since NumPy 2.5 a matrix that is not finite is no error, but has no condition
    matrix = a if finite is None else call(r, "where", finite, a, _identity(r, a))
    if p in (None, 2, -2):
        s = np_svdvals(r, matrix)
        first, last = (shapes.drop_axes(r, shapes.cut(r, s, -1, k, 1), [-1]) for k in (0, s.shape[-1] - 1))
        ratio = apply(r, np.divide, *((last, first) if p == -2 else (first, last)))
    else:
        ratio = _product_of_norms(r, matrix, p)
    if finite is not None:
        ratio = call(r, "where", shapes.drop_axes(r, finite, [-1, -2]), ratio, constant(r, math.nan, ratio.dtype))
    missing = apply(r, np.isnan, ratio)
    given = np_any(r, apply(r, np.isnan, a), (-2, -1)) if a.dtype.is_inexact else constant(r, False)
    unknown = apply(r, np.logical_and, missing, apply(r, np.logical_not, given))
    return deliver(r, np_where(r, unknown, constant(r, math.inf, ratio.dtype), ratio), None)


def _identity(r: Recorder, a: ArrayHandle) -> ArrayHandle:
    """Ones on the diagonal of a matrix like the last axes of `a`."""
    return call(r, "eye", rows=a.shape[-2], cols=a.shape[-1], offset=0, dtype=a.dtype)


def _product_of_norms(r: Recorder, a: ArrayHandle, p: Any) -> ArrayHandle:
    """The norm of the matrix times that of its inverse, nan where there is none."""
    matrix = square(r, a)
    wide = dtypes.complex128 if matrix.dtype.kind == "c" else dtypes.float64
    lu, pivots = r.op("lu_factor", cast(r, matrix, wide))
    eye = cast(r, _identity(r, matrix), wide)
    inverse = call(r, "lu_solve", lu, pivots, eye)
    diagonal = call(r, "diagonal", lu, offset=0, axis1=-2, axis2=-1)
    zero = call(r, "equal", diagonal, constant(r, 0, wide))
    singular = call(r, "any", zero, axes=(-1,), keepdims=False)
    if p == "nuc" and numpy_since("2.5.0"):  # it is no error any more that the inverse of a singular matrix has no norm
        inverse = call(r, "where", shapes.insert_axes(r, singular, singular.ndim, 2), eye, inverse)
    product = apply(r, np.multiply, np_norm(r, a, p, (-2, -1)), np_norm(r, inverse, p, (-2, -1)))
    known = call(r, "where", singular, constant(r, math.nan, product.dtype), product)
    return cast(r, known, matrix.dtype.real)
