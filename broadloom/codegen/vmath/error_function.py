"""erf and erfc.

What goes in: a float or double lane. What comes out: the function of it.

Method: erf(x) is x + x*P(x*x) up to 0.95, and 1 - erfc(1)*exp(-t*Q(t)), t = x - 1, beyond. erfc(x), x >= 0, is
1 - erf(x) up to 1/2, then exp(-x*x)/(1 + 2x) times a polynomial in (x - 4)/(x + 4) (Shepherd and Laframboise,
Chebyshev approximation of (1 + 2x)exp(x**2)erfc(x), 1981), with x*x and the quotient carried in two parts.
"""

from __future__ import annotations

from broadloom.codegen.lane import Lane, poly
from broadloom.codegen.vmath import coefficients as c
from broadloom.codegen.vmath import exponential
from broadloom.codegen.vmath.exact import two_prod

ERFC_1 = 0.15729920705028513


def erf(x: Lane) -> Lane:
    double = x.bits == 64
    a = x.abs()
    z = a * a
    small = a.fma(poly(z, c.ERF_SMALL_F64 if double else c.ERF_SMALL_F32), a)
    t = (a > (6.0 if double else 4.0)).where(5.0 if double else 3.0, a - 1.0)
    share = exponential.exp_normal(-t * poly(t, c.ERF_LARGE_F64 if double else c.ERF_LARGE_F32))
    large = 1.0 - share * ERFC_1
    return (a < 0.95).where(small, large).copysign(x)


def erfc(x: Lane) -> Lane:
    """In double."""
    a = x.abs()
    a = (a > 28.0).where(28.0, a)
    value = poly((a - 4.0) / (a + 4.0), c.ERFC_F64)
    below = a * 2.0 + 1.0
    below_low = (1.0 - below) + a * 2.0
    inverse = 1.0 / below
    v = value * inverse
    product, error = two_prod(v, below)
    v_low = (((value - product) - error) - v * below_low) * inverse
    square, square_low = two_prod(a, a)
    pattern, (high, low) = exponential.exp_pair(-square, -square_low)
    whole, rest = two_prod(high, v)
    right = exponential.scale(whole + (rest + high.fma(v_low, low * v)), pattern)
    far = (x < 0.0).where(2.0 - right, right)
    return (a < 0.5).where(1.0 - x.fma(poly(a * a, c.ERF_SMALL_F64), x), far)
