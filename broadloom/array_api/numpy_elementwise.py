"""Elementwise functions that NumPy has and the array API standard has not, and NumPy's names for those it has.

What goes in and comes out is as in `elementwise`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from broadloom.tensor.dispatch import call


def absolute(x: Any, /) -> Any:
    """The size of each element."""
    return call(np.absolute, x)


def arccos(x: Any, /) -> Any:
    """As `acos`."""
    return call(np.arccos, x)


def arccosh(x: Any, /) -> Any:
    """As `acosh`."""
    return call(np.arccosh, x)


def arcsin(x: Any, /) -> Any:
    """As `asin`."""
    return call(np.arcsin, x)


def arcsinh(x: Any, /) -> Any:
    """As `asinh`."""
    return call(np.arcsinh, x)


def arctan(x: Any, /) -> Any:
    """As `atan`."""
    return call(np.arctan, x)


def arctan2(x1: Any, x2: Any, /) -> Any:
    """As `atan2`."""
    return call(np.arctan2, x1, x2)


def arctanh(x: Any, /) -> Any:
    """As `atanh`."""
    return call(np.arctanh, x)


def bitwise_count(x: Any, /) -> Any:
    """How many bits of the size of each element are set."""
    return call(np.bitwise_count, x)


def bitwise_not(x: Any, /) -> Any:
    """As `bitwise_invert`."""
    return call(np.bitwise_not, x)


def cbrt(x: Any, /) -> Any:
    """The cube root."""
    return call(np.cbrt, x)


def conjugate(x: Any, /) -> Any:
    """As `conj`."""
    return call(np.conjugate, x)


def deg2rad(x: Any, /) -> Any:
    """Degrees in radians."""
    return call(np.deg2rad, x)


def degrees(x: Any, /) -> Any:
    """Radians in degrees."""
    return call(np.degrees, x)


def divmod(x1: Any, x2: Any, /) -> Any:
    """The quotient of floor division, and what it leaves."""
    return call(np.divmod, x1, x2)


def exp2(x: Any, /) -> Any:
    """2 to the power of `x`."""
    return call(np.exp2, x)


def fabs(x: Any, /) -> Any:
    """The size of each element, as a float."""
    return call(np.fabs, x)


def float_power(x1: Any, x2: Any, /) -> Any:
    """x1 to the power of x2, in float64 or complex128."""
    return call(np.float_power, x1, x2)


def fmax(x1: Any, x2: Any, /) -> Any:
    """The greater of both; a nan only if both are nan."""
    return call(np.fmax, x1, x2)


def fmin(x1: Any, x2: Any, /) -> Any:
    """The lesser of both; a nan only if both are nan."""
    return call(np.fmin, x1, x2)


def fmod(x1: Any, x2: Any, /) -> Any:
    """What division towards zero leaves; it has the sign of `x1`."""
    return call(np.fmod, x1, x2)


def frexp(x: Any, /) -> Any:
    """A mantissa from 0.5 to 1 and a power of 2, whose product each element is."""
    return call(np.frexp, x)


def gcd(x1: Any, x2: Any, /) -> Any:
    """The greatest common divisor."""
    return call(np.gcd, x1, x2)


def heaviside(x1: Any, x2: Any, /) -> Any:
    """0 for negative `x1`, 1 for positive, `x2` for 0."""
    return call(np.heaviside, x1, x2)


def invert(x: Any, /) -> Any:
    """As `bitwise_invert`."""
    return call(np.invert, x)


def lcm(x1: Any, x2: Any, /) -> Any:
    """The least common multiple."""
    return call(np.lcm, x1, x2)


def ldexp(x1: Any, x2: Any, /) -> Any:
    """x1 times 2 to the power of x2."""
    return call(np.ldexp, x1, x2)


def left_shift(x1: Any, x2: Any, /) -> Any:
    """As `bitwise_left_shift`."""
    return call(np.left_shift, x1, x2)


def logaddexp2(x1: Any, x2: Any, /) -> Any:
    """log2(2**x1 + 2**x2), without overflow on the way."""
    return call(np.logaddexp2, x1, x2)


def mod(x1: Any, x2: Any, /) -> Any:
    """As `remainder`."""
    return call(np.mod, x1, x2)


def modf(x: Any, /) -> Any:
    """The fractional and the integer part, both with the sign of the element."""
    return call(np.modf, x)


def power(x1: Any, x2: Any, /) -> Any:
    """x1 to the power of x2."""
    return call(np.power, x1, x2)


def rad2deg(x: Any, /) -> Any:
    """Radians in degrees."""
    return call(np.rad2deg, x)


def radians(x: Any, /) -> Any:
    """Degrees in radians."""
    return call(np.radians, x)


def right_shift(x1: Any, x2: Any, /) -> Any:
    """As `bitwise_right_shift`."""
    return call(np.right_shift, x1, x2)


def rint(x: Any, /) -> Any:
    """The nearest integer, the even one of two."""
    return call(np.rint, x)


def spacing(x: Any, /) -> Any:
    """The distance to the next float."""
    return call(np.spacing, x)


def true_divide(x1: Any, x2: Any, /) -> Any:
    """As `divide`."""
    return call(np.true_divide, x1, x2)
