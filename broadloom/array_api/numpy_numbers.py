"""NumPy's functions of numbers that the array API standard has not, by NumPy's names.

What goes in and comes out is NumPy's, with tensors for arrays; `out=` is left out, as in `numpy_shapes`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from broadloom.tensor.dispatch import call


def angle(z: Any, deg: bool = False) -> Any:
    """The angle of complex numbers, in radians or degrees."""
    return call(np.angle, z, deg=deg)


def allclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
    """Whether all elements are as close as `isclose` asks, as a Python bool."""
    return call(np.allclose, a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def around(a: Any, decimals: Any = 0) -> Any:
    """The nearest number of so many decimals."""
    return call(np.around, a, decimals=decimals)


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """Whether shapes and elements are equal, as a Python bool."""
    return call(np.array_equal, a1, a2, equal_nan=equal_nan)


def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False) -> Any:
    """The mean, weighted."""
    return call(np.average, a, axis=axis, weights=weights, returned=returned)


def convolve(a: Any, v: Any, mode: Any = "full") -> Any:
    """The sums of products of two vectors, one of them reversed and moved along the other."""
    return call(np.convolve, a, v, mode=mode)


def corrcoef(x: Any, y: Any = None, rowvar: bool = True) -> Any:
    """The correlation coefficients of variables."""
    return call(np.corrcoef, x, y=y, rowvar=rowvar)


def correlate(a: Any, v: Any, mode: Any = "valid") -> Any:
    """The sums of products of two vectors, one moved along the other."""
    return call(np.correlate, a, v, mode=mode)


def cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: Any = None) -> Any:
    """The covariances of variables."""
    return call(np.cov, m, y=y, rowvar=rowvar, bias=bias, ddof=ddof)


def cross(a: Any, b: Any, axisa: Any = -1, axisb: Any = -1, axisc: Any = -1, axis: Any = None) -> Any:
    """The cross product of vectors."""
    return call(np.cross, a, b, axisa=axisa, axisb=axisb, axisc=axisc, axis=axis)


def cumprod(a: Any, axis: Any = None, dtype: Any = None) -> Any:
    """The products of the elements up to each one; without an axis, of all flat."""
    return call(np.cumprod, a, axis=axis, dtype=dtype)


def cumsum(a: Any, axis: Any = None, dtype: Any = None) -> Any:
    """The sums of the elements up to each one; without an axis, of all flat."""
    return call(np.cumsum, a, axis=axis, dtype=dtype)


def dot(a: Any, b: Any) -> Any:
    """The sum of products over the last axis of `a` and the last but one of `b`."""
    return call(np.dot, a, b)


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Each element less the one before it."""
    return call(np.ediff1d, ary, to_end=to_end, to_begin=to_begin)


def fix(x: Any) -> Any:
    """The integer part."""
    return call(np.fix, x)


def inner(a: Any, b: Any, /) -> Any:
    """The sum of products over the last axes."""
    return call(np.inner, a, b)


def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """The values at `x` of the lines between the points (xp, fp)."""
    return call(np.interp, x, xp, fp, left=left, right=right, period=period)


def isclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
    """Whether elements differ by at most `atol + rtol * abs(b)`."""
    return call(np.isclose, a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def iscomplex(x: Any) -> Any:
    """Whether each element has an imaginary part."""
    return call(np.iscomplex, x)


def isneginf(x: Any) -> Any:
    """Whether each element is minus infinity."""
    return call(np.isneginf, x)


def isposinf(x: Any) -> Any:
    """Whether each element is plus infinity."""
    return call(np.isposinf, x)


def isreal(x: Any) -> Any:
    """Whether each element has no imaginary part."""
    return call(np.isreal, x)


def kron(a: Any, b: Any) -> Any:
    """The products of all elements of `a` with the whole of `b`, as blocks."""
    return call(np.kron, a, b)


def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """Numbers in the place of nan and infinities."""
    return call(np.nan_to_num, x, copy=copy, nan=nan, posinf=posinf, neginf=neginf)


def outer(a: Any, b: Any) -> Any:
    """The products of all pairs of elements."""
    return call(np.outer, a, b)


def polyval(p: Any, x: Any) -> Any:
    """The value of a polynomial whose coefficients begin with the highest."""
    return call(np.polyval, p, x)


def ptp(a: Any, axis: Any = None) -> Any:
    """The greatest less the least element."""
    return call(np.ptp, a, axis=axis)


def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """The elements of the first choice whose condition is true."""
    return call(np.select, condlist, choicelist, default=default)


def sinc(x: Any) -> Any:
    """sin(pi x) / (pi x), 1 at 0."""
    return call(np.sinc, x)


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: Any = -1) -> Any:
    """The integral by the trapezoidal rule."""
    return call(np.trapezoid, y, x=x, dx=dx, axis=axis)


def vdot(a: Any, b: Any, /) -> Any:
    """The sum of products of all elements, of the conjugate of `a`."""
    return call(np.vdot, a, b)


def block(arrays: Any) -> Any:
    """A nested list of arrays joined along the last axes, the innermost lists along the last."""
    return call(np.block, arrays)


def einsum(subscripts: Any, /, *operands: Any, optimize: Any = False) -> Any:
    """Sums of products by Einstein's convention.

    >>> einsum("ij,j->i", np.eye(2), np.array([3.0, 4.0]))
    Tensor([3., 4.])
    """
    return call(np.einsum, subscripts, *operands, optimize=optimize)


def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """The differences between neighbours on both sides, divided by their distance, along each axis."""
    return call(np.gradient, f, *varargs, axis=axis, edge_order=edge_order)


def matvec(x1: Any, x2: Any, /) -> Any:
    """The products of matrices with vectors."""
    return call(np.matvec, x1, x2)


def vecmat(x1: Any, x2: Any, /) -> Any:
    """The products of conjugated vectors with matrices."""
    return call(np.vecmat, x1, x2)


def pad(array: Any, pad_width: Any, mode: Any = "constant", **options: Any) -> Any:
    """The array in a frame of so many elements on each side; `options` are those of NumPy's mode."""
    return call(np.pad, array, pad_width, mode, **options)
