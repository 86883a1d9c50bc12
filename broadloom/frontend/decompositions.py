"""numpy.linalg's decompositions, and what follows from singular values: rank, pseudo-inverse, least squares.

What goes in: the arguments of the NumPy function. What comes out: its named tuples of fresh arrays, of NumPy's dtypes.
NumPy's eigenvalues of a real matrix are real or complex by what the matrix holds, which no compiled function can be:
`np.linalg.eig` and `eigvals` take complex matrices here; `eig` and `eigvals` of this module are always complex.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from broadloom import dtypes
from broadloom.frontend import shapes
from broadloom.frontend.elementwise import np_where
from broadloom.frontend.gufuncs import np_matmul
from broadloom.frontend.indexing import take_along_axis
from broadloom.frontend.operands import as_array, call, cast, constant, from_size, numpy_since, result_dtype
from broadloom.frontend.reductions import np_count_nonzero
from broadloom.frontend.selection import Selection
from broadloom.frontend.shaping import reversed_along
from broadloom.frontend.solving import linalg_operand, matrices, square, transposed
from broadloom.frontend.sorting import np_argsort, np_sort
from broadloom.frontend.ufuncs import apply, conjugate_method
from broadloom.frontend.unsupported import DependsOnData, Unsupported, plain_numpy_raises
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle
from broadloom.symbolic import gt, smax

QR: Any = type(np.linalg.qr(np.eye(1)))
SVD: Any = type(np.linalg.svd(np.eye(1)))
EIGH: Any = type(np.linalg.eigh(np.eye(1)))
EIG: Any = type(np.linalg.eig(np.eye(1)))
NO_VALUE = np._NoValue
LAST = {"axes": (-1,), "keepdims": False}


# ---- QR -------------------------------------------------------------------------------------------------------------


def np_qr(r: Recorder, a: object, mode: str = "reduced") -> Any:
    """`numpy.linalg.qr` in the modes reduced, complete, r and raw."""
    if mode not in ("reduced", "complete", "r", "raw"):
        raise Unsupported(f"np.linalg.qr(mode={mode!r})", "use one of the modes reduced, complete, r, raw")
    x = matrices(r, a)
    if mode == "raw":
        h, tau = r.op("qr_raw", x)
        return transposed(r, h), tau
    q, upper = r.op("qr", x, mode="complete" if mode == "complete" else "reduced")
    # NumPy cuts the triangle out of a copy of the matrix with a mask in C order.
    mask = call(r, "eye", rows=upper.shape[-2], cols=upper.shape[-1], offset=0, dtype=dtypes.bool_)
    upper = r.arrange(upper, (mask, r.copy(x)))
    return upper if mode == "r" else QR(q, upper)


# ---- singular values ------------------------------------------------------------------------------------------------


def np_svd(r: Recorder, a: object, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """`numpy.linalg.svd`."""
    if hermitian:
        if compute_uv:
            return _hermitian_svd(r, a)
        return _descending(r, np_sort(r, apply(r, np.absolute, np_eigvalsh(r, a))))
    if not compute_uv:
        return np_svdvals(r, a)
    return SVD(*r.op("svd", matrices(r, a), full_matrices=bool(full_matrices)))


def np_svdvals(r: Recorder, x: object, /) -> ArrayHandle:
    """`numpy.linalg.svdvals`."""
    return call(r, "svdvals", matrices(r, x))


def largest(r: Recorder, s: ArrayHandle, *, keepdims: bool) -> ArrayHandle:
    """The largest of numbers that are not negative, 0 if there are none: a 0 is put behind them, so that it need not be
    known whether there are."""
    padded = call(r, "pad", s, constant(r, 0, s.dtype), before=(0,), after=(1,))
    found = r.arrange(call(r, "max", padded, **LAST), (s,), s.shape[-1:])
    return shapes.insert_axes(r, found, found.ndim) if keepdims else found


def _hermitian_svd(r: Recorder, a: object) -> Any:
    """By eigenvectors, whose eigenvalues give size and sign."""
    w, u = np_eigh(r, a)
    size = apply(r, np.absolute, w)
    order = _descending(r, np_argsort(r, size))
    s = take_along_axis(r, size, order)
    signs = take_along_axis(r, apply(r, np.copysign, constant(r, 1, w.dtype), w), order)
    u = take_along_axis(r, u, shapes.insert_axes(r, order, order.ndim - 1))
    signed = apply(r, np.multiply, u, shapes.insert_axes(r, signs, signs.ndim - 1))
    return SVD(u, s, conjugate_method(r, transposed(r, signed)))


def _descending(r: Recorder, ascending: ArrayHandle) -> ArrayHandle:
    return reversed_along(r, ascending, (ascending.ndim - 1,))


def np_matrix_rank(
    r: Recorder, A: object, tol: object = None, hermitian: bool = False, *, rtol: object = None
) -> ArrayHandle:
    """`numpy.linalg.matrix_rank` of matrices."""
    if rtol is not None and tol is not None:
        raise plain_numpy_raises("`tol` and `rtol` can't be both set.")
    x = as_array(r, A)
    if x.ndim < 2:
        raise DependsOnData(
            "matrix_rank of a vector: it is a Python int that depends on data", "use x.any() in its place"
        )
    s = apply(r, np.absolute, np_eigvalsh(r, x)) if hermitian else np_svdvals(r, x)
    if tol is None:
        factor = _with_axis(r, rtol) if rtol is not None else _size_times_eps(r, x, s.dtype)
        bound = apply(r, np.multiply, largest(r, s, keepdims=True), factor)
    else:
        bound = _with_axis(r, tol)
    return np_count_nonzero(r, apply(r, np.greater, s, bound), axis=-1)


def _with_axis(r: Recorder, x: object) -> ArrayHandle:
    bound = as_array(r, x)
    return shapes.insert_axes(r, bound, bound.ndim)


def _size_times_eps(r: Recorder, x: ArrayHandle, d: dtypes.DType) -> ArrayHandle:
    """The larger size of a matrix times the spacing of numbers at 1."""
    size = from_size(r, smax(x.shape[-1], x.shape[-2]))
    return call(r, "multiply", cast(r, size, d), constant(r, np.finfo(d.numpy).eps, d))


def np_pinv(
    r: Recorder, a: object, rcond: object = None, hermitian: bool = False, *, rtol: object = NO_VALUE
) -> ArrayHandle:
    """`numpy.linalg.pinv`."""
    x = as_array(r, a)
    if rcond is None and rtol is not NO_VALUE:
        if rtol is None and not (x.dtype.is_inexact and x.dtype.bits > 16):
            raise plain_numpy_raises(f"data type {x.dtype} not inexact")
        cutoff = _size_times_eps(r, x, x.dtype.real) if rtol is None else as_array(r, rtol)
    elif rtol is not NO_VALUE:
        raise plain_numpy_raises("`rtol` and `rcond` can't be both set.")
    else:
        cutoff = as_array(r, 1e-15 if rcond is None else rcond)
    if x.ndim >= 2 and not x.dtype.is_inexact and shapes.same(r, shapes.count(x.shape[-2:]), 0):
        shape = (*x.shape[:-2], x.shape[-1], x.shape[-2])  # not converted, as it holds nothing
        return r.copy(shapes.expand(r, constant(r, 0, x.dtype), shape), "C")
    x = conjugate_method(r, matrices(r, x))
    u, s, vt = np_svd(r, x, False, True, hermitian)
    top = largest(r, s, keepdims=True)
    large = apply(r, np.greater, s, apply(r, np.multiply, shapes.insert_axes(r, cutoff, cutoff.ndim), top))
    inverse = _inverse_where(r, large, s)
    scaled = apply(r, np.multiply, shapes.insert_axes(r, inverse, inverse.ndim), transposed(r, u))
    return np_matmul(r, transposed(r, vt), scaled)


def _inverse_where(r: Recorder, large: ArrayHandle, s: ArrayHandle) -> ArrayHandle:
    """1/s of what is large, else 0."""
    one, zero = constant(r, 1, s.dtype), constant(r, 0, s.dtype)
    inverse = call(r, "divide", one, call(r, "where", large, s, one))
    return np_where(r, large, inverse, zero)


def np_lstsq(r: Recorder, a: object, b: object, rcond: object = None) -> tuple[ArrayHandle, ...]:
    """`numpy.linalg.lstsq`, by singular values. The residuals are there where the rank is full, which only the data
    can tell: a boolean selection."""
    x, y = linalg_operand(r, a), linalg_operand(r, b)
    vector = y.ndim == 1
    y = shapes.insert_axes(r, y, 1) if vector else y
    if x.ndim != 2 or y.ndim != 2:
        raise plain_numpy_raises("Array must be two-dimensional")
    (m, n), d = x.shape, result_dtype(r, x.dtype.numpy, y.dtype.numpy)
    if not shapes.same(r, m, y.shape[0]):
        raise plain_numpy_raises("Incompatible dimensions")
    wide = dtypes.complex128 if d.kind == "c" else dtypes.float64
    x, y = cast(r, x, wide), cast(r, y, wide)
    u, s, vh = r.op("svd", x, full_matrices=False)
    bound = apply(r, np.multiply, largest(r, s, keepdims=True), _tolerance(r, x, rcond))
    large = apply(r, np.greater, s, apply(r, np.maximum, bound, constant(r, np.finfo(np.float64).tiny)))
    rank = cast(r, call(r, "count_nonzero", large, **LAST), dtypes.int32)
    inverse = shapes.insert_axes(r, _inverse_where(r, large, s), 1)
    rows = np_matmul(r, conjugate_method(r, transposed(r, u)), y)
    solution = np_matmul(r, conjugate_method(r, transposed(r, vh)), apply(r, np.multiply, inverse, rows))
    if shapes.decide(r, gt(m, n)):
        residuals = _residuals(r, y, np_matmul(r, x, solution), rank, n, d.real)
    else:
        residuals = r.constant(np.empty(0, d.real.numpy))
    solution = shapes.drop_axes(r, solution, [-1]) if vector else solution
    return r.copy(cast(r, solution, d)), residuals, r.as_scalar(rank), cast(r, s, d.real)


def _tolerance(r: Recorder, x: ArrayHandle, rcond: object) -> ArrayHandle:
    """What singular values are compared with, relative to the largest; LAPACK takes less than 0 for its own eps."""
    if rcond is None:
        return _size_times_eps(r, x, dtypes.float64)
    given = cast(r, as_array(r, rcond), dtypes.float64)
    return call(r, "where", call(r, "less", given, constant(r, 0.0)), constant(r, 2.0**-53), given)


def _residuals(
    r: Recorder, y: ArrayHandle, made: ArrayHandle, rank: ArrayHandle, n: Any, d: dtypes.DType
) -> ArrayHandle:
    left = apply(r, np.absolute, apply(r, np.subtract, y, made))
    squares = cast(r, call(r, "sum", call(r, "square", left), axes=(-2,), keepdims=False), d)
    full = call(
        r,
        "equal",
        rank,
        from_size(r, n, dtypes.int32) if isinstance(n, int) else cast(r, from_size(r, n), dtypes.int32),
    )
    return Selection(squares, r.copy(shapes.expand(r, full, squares.shape)))


# ---- eigenvalues ----------------------------------------------------------------------------------------------------


def _triangle(UPLO: str) -> str:
    if not isinstance(UPLO, str) or UPLO.upper() not in ("L", "U"):
        raise plain_numpy_raises("UPLO argument must be 'L' or 'U'")
    return UPLO.upper()


def np_eigh(r: Recorder, a: object, UPLO: str = "L") -> Any:
    """`numpy.linalg.eigh`."""
    return EIGH(*r.op("eigh", square(r, a), uplo=_triangle(UPLO)))


def np_eigvalsh(r: Recorder, a: object, UPLO: str = "L") -> ArrayHandle:
    """`numpy.linalg.eigvalsh`."""
    return call(r, "eigvalsh", square(r, a), uplo=_triangle(UPLO))


def _require_complex(r: Recorder, name: str, a: object) -> ArrayHandle:
    """The matrix, whose eigenvalues NumPy gives as complex numbers: since 2.5 those of any matrix."""
    x = square(r, a)
    if x.dtype.kind != "c" and not numpy_since("2.5.0"):
        raise DependsOnData(
            f"np.linalg.{name} of a real matrix: whether the result is real or complex depends on data",
            f"use np.linalg.{name}(x.astype(complex)), or np.linalg.eigh for a symmetric matrix",
        )
    return x


def np_eig(r: Recorder, a: object) -> Any:
    """`numpy.linalg.eig` of a complex matrix."""
    return eig(r, _require_complex(r, "eig", a))


def np_eigvals(r: Recorder, a: object) -> ArrayHandle:
    """`numpy.linalg.eigvals` of a complex matrix."""
    return eigvals(r, _require_complex(r, "eigvals", a))


def eig(r: Recorder, x: object) -> Any:
    """Eigenvalues and eigenvectors, always complex."""
    return EIG(*r.op("eig", square(r, x)))


def eigvals(r: Recorder, x: object) -> ArrayHandle:
    """Eigenvalues, always complex."""
    return call(r, "eigvals", square(r, x))
