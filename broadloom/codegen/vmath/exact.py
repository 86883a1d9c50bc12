"""Arithmetic with the rounding error kept: sums and products as an unevaluated pair (high, low).

What goes in: lanes. What comes out: a pair whose sum is the exact result (Dekker, A floating-point technique for
extending the available precision, 1971; Knuth, TAOCP 4.2.2). Products use a fused multiply-add where there is one.
"""

from __future__ import annotations

from broadloom.codegen.lane import Lane, has_fma

Double = tuple[Lane, Lane]


def fast_two_sum(x: Lane, y: Lane) -> Double:
    """x + y, where |x| >= |y| or x is 0."""
    s = x + y
    return s, y - (s - x)


def two_sum(x: Lane, y: Lane) -> Double:
    """x + y, whichever is larger."""
    s = x + y
    t = s - x
    return s, (x - (s - t)) + (y - t)


def split(x: Lane) -> Double:
    """x as two lanes of half the bits; |x| must stay below overflow by the factor 2**28."""
    t = x * (2.0**27 + 1.0 if x.bits == 64 else 2.0**12 + 1.0)
    high = t - (t - x)
    return high, x - high


def two_prod(x: Lane, y: Lane) -> Double:
    """x * y."""
    p = x * y
    if has_fma(x.b.module):
        return p, x.fma(y, -p)
    (xh, xl), (yh, yl) = split(x), split(y)
    return p, ((xh * yh - p) + xh * yl + xl * yh) + xl * yl
