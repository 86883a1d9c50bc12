"""asin, acos, atan, atan2.

What goes in: double lanes. What comes out: the angle in radians, with IEEE special values.

Method: asin near 1 through asin(a) = pi/2 - 2*asin(sqrt((1 - a)/2)). The angle of a point in the first octant folded
once more at pi/8, where the tangent is below 0.4143; the offsets pi/4 and pi/2 in two parts. All in double; the
polynomials are parameters, as float needs fewer terms.
"""

from __future__ import annotations

import math

from broadloom.codegen.lane import Lane, poly
from broadloom.codegen.vmath import coefficients as c

_HIGH, _LOW = math.pi / 2, float.fromhex("0x1.1a62633145c07p-54")  # pi/2
_FAR = 2.0**1000


def _asin_parts(x: Lane, tail: tuple[float, ...]) -> tuple[Lane, Lane, Lane]:
    """(whether |x| > 1/2, s, asin(s)) where s is |x|, or sqrt((1 - |x|)/2) near 1."""
    a = x.abs()
    near_one = a > 0.5
    z = near_one.where((1.0 - a) * 0.5, a * a)
    s = near_one.where(z.sqrt(), a)
    return near_one, s, s * z * poly(z, tail)


def asin(x: Lane, tail: tuple[float, ...] = c.ASIN_F64) -> Lane:
    near_one, s, rest = _asin_parts(x, tail)
    result = near_one.where(_HIGH - ((s + s) - (_LOW - rest * 2.0)), s + rest)
    return result.copysign(x)


def acos(x: Lane, tail: tuple[float, ...] = c.ASIN_F64) -> Lane:
    near_one, s, rest = _asin_parts(x, tail)
    twice = (s + rest) * 2.0
    far = (x < 0.0).where((_HIGH * 2.0 - twice) + _LOW * 2.0, twice)
    signed = rest.copysign(x)
    middle = _HIGH - (x - (_LOW - signed))
    return near_one.where(far, middle)


def _angle(y: Lane, x: Lane, coefficients: tuple[float, ...]) -> Lane:
    """The angle of (x, y), neither negative, not both 0 and not both infinite."""
    steep = y > x
    above, below = steep.where(x, y), steep.where(y, x)
    fold = above > below * 0.41421356
    q = fold.where(above - below, above) / fold.where(above + below, below)
    z = q * q
    tail = q * z * poly(z, coefficients)
    offset_high = steep.where(fold.where(_HIGH / 2, x.lit(_HIGH)), fold.where(_HIGH / 2, x.lit(0.0)))
    offset_low = steep.where(fold.where(_LOW / 2, x.lit(_LOW)), fold.where(_LOW / 2, x.lit(0.0)))
    turned = offset_high - (q + (tail - offset_low))
    direct = offset_high + (q + (tail + offset_low))
    return steep.where(turned, direct)


def atan(x: Lane, tail: tuple[float, ...] = c.ATAN_F64) -> Lane:
    return _angle(x.abs(), x.lit(1.0), tail).copysign(x)


def atan2(y: Lane, x: Lane) -> Lane:
    """For float the sign is set behind the rounding from double: where y does not vary in a loop, LLVM would narrow
    the sign operand of a copysign in double on its way to half by a call of a library that is not there."""
    if y.bits == 32:
        wide = _magnitude(y.convert("fpext", "double"), x.convert("fpext", "double"), c.ATAN_F32)
        return wide.convert("fptrunc", "float").copysign(y)
    return _magnitude(y, x, c.ATAN_F64).copysign(y)


def _magnitude(y: Lane, x: Lane, tail: tuple[float, ...]) -> Lane:
    """The size of the angle."""
    a, b = y.abs(), x.abs()
    far = (a > _FAR) | (b > _FAR)
    shrink = far.where(x.lit(2.0**-8), 1.0)
    corner = a.eq(b) & (a.eq(0.0) | a.eq(a.inf))
    # (0, 0) has the angle of (1, 0), and two infinities the angle of (1, 1); both then follow the signs.
    base = corner.where(a.eq(0.0).where(0.0, a.lit(1.0)), a * shrink)
    angle = _angle(base, corner.where(1.0, b * shrink), tail)
    left = x.as_int().slt(0)
    mirrored = (_HIGH * 2.0 - angle) + _LOW * 2.0
    return left.where(mirrored, angle)
