"""Elementwise functions of the array API standard.

What goes in: tensors, arrays and Python numbers that broadcast against each other; a Python number takes the dtype of
the array that it meets (NEP 50). What comes out: a tensor. What holds: each function is one call of the door, keyed by
NumPy's function, so it runs at once, batched and compiled alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from broadloom.tensor.dispatch import call


def abs(x: Any, /) -> Any:
    """The size of each element; real also for complex ones."""
    return call(np.absolute, x)


def acos(x: Any, /) -> Any:
    """The arc cosine, in radians."""
    return call(np.arccos, x)


def acosh(x: Any, /) -> Any:
    """The inverse hyperbolic cosine."""
    return call(np.arccosh, x)


def add(x1: Any, x2: Any, /) -> Any:
    """x1 + x2."""
    return call(np.add, x1, x2)


def asin(x: Any, /) -> Any:
    """The arc sine, in radians."""
    return call(np.arcsin, x)


def asinh(x: Any, /) -> Any:
    """The inverse hyperbolic sine."""
    return call(np.arcsinh, x)


def atan(x: Any, /) -> Any:
    """The arc tangent, in radians."""
    return call(np.arctan, x)


def atan2(x1: Any, x2: Any, /) -> Any:
    """The angle of the point (x2, x1), in radians from -pi to pi."""
    return call(np.arctan2, x1, x2)


def atanh(x: Any, /) -> Any:
    """The inverse hyperbolic tangent."""
    return call(np.arctanh, x)


def bitwise_and(x1: Any, x2: Any, /) -> Any:
    """The bits, or truth values, that are set in both."""
    return call(np.bitwise_and, x1, x2)


def bitwise_invert(x: Any, /) -> Any:
    """Each bit, or truth value, turned over."""
    return call(np.invert, x)


def bitwise_left_shift(x1: Any, x2: Any, /) -> Any:
    """x1 with its bits moved `x2` places up."""
    return call(np.left_shift, x1, x2)


def bitwise_or(x1: Any, x2: Any, /) -> Any:
    """The bits, or truth values, that are set in either."""
    return call(np.bitwise_or, x1, x2)


def bitwise_right_shift(x1: Any, x2: Any, /) -> Any:
    """x1 with its bits moved `x2` places down, the sign kept."""
    return call(np.right_shift, x1, x2)


def bitwise_xor(x1: Any, x2: Any, /) -> Any:
    """The bits, or truth values, that are set in one of the two."""
    return call(np.bitwise_xor, x1, x2)


def ceil(x: Any, /) -> Any:
    """The least integer that is not less, in the dtype of `x`."""
    return call(np.ceil, x)


def conj(x: Any, /) -> Any:
    """The complex conjugate."""
    return call(np.conjugate, x)


def copysign(x1: Any, x2: Any, /) -> Any:
    """The size of `x1` with the sign of `x2`."""
    return call(np.copysign, x1, x2)


def cos(x: Any, /) -> Any:
    """The cosine of an angle in radians."""
    return call(np.cos, x)


def cosh(x: Any, /) -> Any:
    """The hyperbolic cosine."""
    return call(np.cosh, x)


def divide(x1: Any, x2: Any, /) -> Any:
    """x1 / x2, a float also for integers."""
    return call(np.true_divide, x1, x2)


def equal(x1: Any, x2: Any, /) -> Any:
    """x1 == x2."""
    return call(np.equal, x1, x2)


def exp(x: Any, /) -> Any:
    """e to the power of `x`."""
    return call(np.exp, x)


def expm1(x: Any, /) -> Any:
    """e to the power of `x`, less 1, exact for small `x`."""
    result = call(np.expm1, x)
    if result.dtype.kind != "c":
        return result
    # NumPy multiplies infinity by zero here; and the standard has 0 where the real part is -0
    beyond = call(np.subtract, call(np.exp, x), 1)
    return call(np.where, call(np.isfinite, x), call(np.add, result, complex(0.0, -0.0)), beyond)


def floor(x: Any, /) -> Any:
    """The greatest integer that is not greater, in the dtype of `x`."""
    return call(np.floor, x)


def floor_divide(x1: Any, x2: Any, /) -> Any:
    """The greatest integer that is not greater than x1 / x2."""
    return call(np.floor_divide, x1, x2)


def greater(x1: Any, x2: Any, /) -> Any:
    """x1 > x2."""
    return call(np.greater, x1, x2)


def greater_equal(x1: Any, x2: Any, /) -> Any:
    """x1 >= x2."""
    return call(np.greater_equal, x1, x2)


def hypot(x1: Any, x2: Any, /) -> Any:
    """The square root of x1 * x1 + x2 * x2, without overflow on the way."""
    return call(np.hypot, x1, x2)


def imag(x: Any, /) -> Any:
    """The imaginary part."""
    return call(np.imag, x)


def isfinite(x: Any, /) -> Any:
    """Whether each element is neither infinite nor nan."""
    return call(np.isfinite, x)


def isinf(x: Any, /) -> Any:
    """Whether each element is infinite."""
    return call(np.isinf, x)


def isnan(x: Any, /) -> Any:
    """Whether each element is nan."""
    return call(np.isnan, x)


def less(x1: Any, x2: Any, /) -> Any:
    """x1 < x2."""
    return call(np.less, x1, x2)


def less_equal(x1: Any, x2: Any, /) -> Any:
    """x1 <= x2."""
    return call(np.less_equal, x1, x2)


def log(x: Any, /) -> Any:
    """The natural logarithm."""
    return call(np.log, x)


def log10(x: Any, /) -> Any:
    """The logarithm to base 10."""
    return call(np.log10, x)


def log1p(x: Any, /) -> Any:
    """The natural logarithm of 1 + x, exact for small `x`."""
    return call(np.log1p, x)


def log2(x: Any, /) -> Any:
    """The logarithm to base 2."""
    return call(np.log2, x)


def logaddexp(x1: Any, x2: Any, /) -> Any:
    """log(exp(x1) + exp(x2)), without overflow on the way."""
    return call(np.logaddexp, x1, x2)


def logical_and(x1: Any, x2: Any, /) -> Any:
    """Whether both are true, or not zero."""
    return call(np.logical_and, x1, x2)


def logical_not(x: Any, /) -> Any:
    """Whether each element is false, or zero."""
    return call(np.logical_not, x)


def logical_or(x1: Any, x2: Any, /) -> Any:
    """Whether either is true, or not zero."""
    return call(np.logical_or, x1, x2)


def logical_xor(x1: Any, x2: Any, /) -> Any:
    """Whether one of the two is true, or not zero."""
    return call(np.logical_xor, x1, x2)


def maximum(x1: Any, x2: Any, /) -> Any:
    """The greater of both; nan if either is nan."""
    return call(np.maximum, x1, x2)


def minimum(x1: Any, x2: Any, /) -> Any:
    """The lesser of both; nan if either is nan."""
    return call(np.minimum, x1, x2)


def multiply(x1: Any, x2: Any, /) -> Any:
    """x1 * x2."""
    return call(np.multiply, x1, x2)


def negative(x: Any, /) -> Any:
    """The element with the other sign."""
    return call(np.negative, x)


def nextafter(x1: Any, x2: Any, /) -> Any:
    """The float that follows `x1` towards `x2`."""
    return call(np.nextafter, x1, x2)


def not_equal(x1: Any, x2: Any, /) -> Any:
    """x1 != x2."""
    return call(np.not_equal, x1, x2)


def positive(x: Any, /) -> Any:
    """A copy."""
    return call(np.positive, x)


def pow(x1: Any, x2: Any, /) -> Any:
    """x1 to the power of x2."""
    return call(np.power, x1, x2)


def real(x: Any, /) -> Any:
    """The real part."""
    return call(np.real, x)


def reciprocal(x: Any, /) -> Any:
    """1 / x."""
    return call(np.reciprocal, x)


def remainder(x1: Any, x2: Any, /) -> Any:
    """What floor division leaves; it has the sign of `x2`."""
    return call(np.remainder, x1, x2)


def round(x: Any, /) -> Any:
    """The nearest integer, the even one of two, in the dtype of `x`."""
    return call(np.round, x)


def sign(x: Any, /) -> Any:
    """-1, 0 or 1 by the sign; of a complex number, the number of size 1 in its direction."""
    return call(np.sign, x)


def signbit(x: Any, /) -> Any:
    """Whether the sign bit is set, as it is for -0.0."""
    return call(np.signbit, x)


def sin(x: Any, /) -> Any:
    """The sine of an angle in radians."""
    return call(np.sin, x)


def sinh(x: Any, /) -> Any:
    """The hyperbolic sine."""
    return call(np.sinh, x)


def sqrt(x: Any, /) -> Any:
    """The square root."""
    return call(np.sqrt, x)


def square(x: Any, /) -> Any:
    """x * x."""
    return call(np.square, x)


def subtract(x1: Any, x2: Any, /) -> Any:
    """x1 - x2."""
    return call(np.subtract, x1, x2)


def tan(x: Any, /) -> Any:
    """The tangent of an angle in radians."""
    return call(np.tan, x)


def tanh(x: Any, /) -> Any:
    """The hyperbolic tangent."""
    return call(np.tanh, x)


def trunc(x: Any, /) -> Any:
    """The integer part, in the dtype of `x`."""
    return call(np.trunc, x)


def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """`x` where it lies within the bounds, else the nearer bound; None leaves a side open."""
    return call(np.clip, x, min, max)
