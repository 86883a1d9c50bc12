"""The fused multiply-add on NumPy arrays: x * y + z rounded once, which NumPy itself has not.

What goes in: three arrays of one dtype, float32 or float64, that broadcast. What comes out: the array of results. What
holds: a finite result is the float nearest to the exact value, ties to even; the rest follows IEEE 754.
"""

from __future__ import annotations

import math

import numpy as np

from broadloom.lazy import fractions
from broadloom.ops.rules import Array


def fma(x: Array, y: Array, z: Array) -> Array:
    """x * y + z with one rounding.

    >>> float(fma(np.array(1 + 2.0**-30), np.array(1 - 2.0**-30), np.array(-1.0))) == -(2.0**-60)
    True
    """
    with np.errstate(all="ignore"):
        if x.dtype == np.float32:
            return _through_double(x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64))
        return np.asarray(_exact(x, y, z), np.float64)


def _through_double(product: Array, z: Array) -> Array:
    """float32 by way of float64, in which the product is exact. The sum is rounded to odd - to the neighbour whose last
    bit is set, if it is inexact - and so stays on its side of every midpoint of two float32 (Boldo and Melquiond,
    Emulation of FMA and correctly rounded sums, 2008)."""
    total = product + z
    back = total - product
    rest = (product - (total - back)) + (z - back)
    inexact = np.isfinite(rest) & (rest != 0.0) & (total.view(np.int64) & 1 == 0)
    toward = np.where(rest > 0.0, np.inf, -np.inf)
    return np.asarray(np.where(inexact, np.nextafter(total, toward), total).astype(np.float32))


def _one(x: float, y: float, z: float) -> float:
    if not (math.isfinite(x) and math.isfinite(y)) or 0.0 in (x, y):
        return x * y + z
    if not math.isfinite(z):
        return z
    exact = fractions.Fraction(x) * fractions.Fraction(y) + fractions.Fraction(z)
    try:
        value = float(exact)
    except OverflowError:
        value = math.inf
    return math.copysign(value, 1 if exact >= 0 else -1)


_exact = np.vectorize(_one, otypes=[np.float64])
