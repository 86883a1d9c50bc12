"""pow, cbrt, hypot, fmod.

What goes in: float or double lanes. What comes out: the function of them, with IEEE special values; fmod is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from broadloom.codegen.lane import Lane, has_fma, poly
from broadloom.codegen.vmath import coefficients as c
from broadloom.codegen.vmath import exponential, logarithm
from broadloom.codegen.vmath.exact import Double, fast_two_sum, two_prod, two_sum

_TWO_THIRDS = (2.0 / 3.0, float.fromhex("0x1.5555555555555p-55"))
_LN2 = (float.fromhex("0x1.62e42fefa38p-1"), float.fromhex("0x1.ef35793c76730p-45"))


def log_pair(x: Lane) -> Double:
    """log(x) of a positive finite double to about 2**-68, as a pair: 2s + s**3*(2/3 + s*s*P), s = (m - 1)/(m + 1)."""
    k, f = logarithm.decompose(x)
    below, below_low = fast_two_sum(x.lit(2.0), f)
    inverse = 1.0 / below
    s = f * inverse
    product, error = two_prod(s, below)
    s_low = (((f - product) - error) - s * below_low) * inverse
    z, z_low = two_prod(s, s)
    z_low = z_low + s * s_low * 2.0
    factor, factor_low = fast_two_sum(x.lit(_TWO_THIRDS[0]), z * poly(z, c.LOG_POW))
    factor_low = factor_low + _TWO_THIRDS[1]
    cube, cube_low = two_prod(s, z)
    cube_low = cube_low + (s * z_low + s_low * z)
    tail, tail_low = two_prod(cube, factor)
    tail_low = tail_low + (cube * factor_low + cube_low * factor)
    high, low = fast_two_sum(s * 2.0, tail)
    low = low + (s_low * 2.0 + tail_low)
    total, carry = two_sum(k * _LN2[0], high)
    return fast_two_sum(total, carry + (low + k * _LN2[1]))


def _exponent(a: Lane, y: Lane) -> Double:
    """y*log(a) as a pair, infinite where a is 0 or infinite, or where y is."""
    high, low = log_pair(a)
    high = a.eq(0.0).where(-a.inf, a.eq(a.inf).where(a, high))
    high = a.isnan().where(a, high)
    product, error = two_prod(y, high)
    error = error + y * low
    error = ((product.abs() < 800.0) & (y.abs() < 2.0**900)).where(error, 0.0)
    return exponential.clamp(y * high, -746.0, 710.0), error


def _signs(x: Lane, y: Lane, power: Lane) -> Lane:
    """|x|**y with the sign, and the cases, that x and y demand."""
    whole = y.rounded("trunc")
    half = y * 0.5
    integral = whole.eq(y)
    odd = integral & half.rounded("trunc").ne(half)
    power = (odd & x.as_int().slt(0)).where(-power, power)
    power = ((x < 0.0) & (x > -x.inf) & ~integral).where(power.nan, power)
    unit = x.eq(1.0) | y.eq(0.0) | (x.eq(-1.0) & y.abs().eq(y.inf))
    return unit.where(1.0, power)


def pow(x: Lane, y: Lane) -> Lane:
    a = x.abs()
    if x.bits == 64:
        return _signs(x, y, exponential.exp_of(*_exponent(a, y)))
    # float: logarithm and exponential in double, to some 34 bits, and one rounding.
    wide = a.convert("fpext", "double")
    k, f = logarithm.decompose(wide, normal=True)  # as every float is in double
    square, tail = logarithm.series(f, c.LOG_MID)
    log = k.fma(math.log(2.0), f - (square - tail))
    log = wide.eq(0.0).where(-wide.inf, wide.eq(wide.inf).where(wide, log))
    log = wide.isnan().where(wide, log)
    exponent = exponential.clamp(y.convert("fpext", "double") * log, -200.0, 200.0)
    return _signs(x, y, exponential.exp_to_float(exponent).convert("fptrunc", "float"))


def cbrt(x: Lane) -> Lane:
    """In double: a third of the exponent by integer arithmetic, the rest by a polynomial and one Newton step."""
    a = x.abs()
    subnormal = a < 2.0**-1022
    a = subnormal.where(a * 2.0**54, a)
    high = a.as_int().lshr(32)
    third = (high * 0x55555556).lshr(32)  # high // 3
    t = ((third + 715094163) << 32).as_float()  # 2/3 of the bias, less the mean error
    t = t * poly(t * t * (t / a), c.CBRT)
    t = ((t.as_int() + (1 << 29)) & -(1 << 30)).as_float()  # 22 bits, so that t*t is exact
    rest = a / (t * t)
    t = t + t * ((rest - t) / (t + t + rest))
    result = subnormal.where(t * 2.0**-18, t)
    return (x.eq(0.0) | ~(x.abs() < x.inf)).where(x, result.copysign(x))


def hypot(x: Lane, y: Lane) -> Lane:
    """sqrt(x*x + y*y), scaled by a power of two; infinite where either is, even beside nan."""
    a, b = x.abs(), y.abs()
    infinite = a.eq(a.inf) | b.eq(b.inf)
    if x.bits == 32:
        wide, other = a.convert("fpext", "double"), b.convert("fpext", "double")
        result = (wide * wide + other * other).sqrt().convert("fptrunc", "float")
        return infinite.where(x.inf, result)
    larger, smaller = (a > b).where(a, b), (a > b).where(b, a)
    field = larger.as_int() & 0x7FF0000000000000
    field = field.intrinsic("smax", 2 << 52).intrinsic("smin", 2040 << 52)
    scale, back = ((2046 << 52) - field).as_float(), field.as_float()
    p, q = larger * scale, smaller * scale
    return infinite.where(x.inf, p.fma(p, q * q).sqrt() * back)


# ---- fmod ---------------------------------------------------------------------------------------------------------


def _mantissa(a: Lane) -> tuple[Lane, Lane]:
    """(mantissa in [1, 2), biased exponent as i64) of a positive finite double; subnormals normalised."""
    subnormal = a < 2.0**-1022
    bits = subnormal.where(a * 2.0**54, a).as_int()
    exponent = bits.lshr(52) - subnormal.where(54, bits.lit(0))
    return ((bits & ((1 << 52) - 1)) | (1023 << 52)).as_float(), exponent


def _rint(x: Lane) -> Lane:
    return (x + exponential.F64.magic) - exponential.F64.magic


def _without(x: Lane, q: Lane, m: Lane) -> Lane:
    """x - q*m, exact where that is representable."""
    if has_fma(x.b.module):
        return (-q).fma(m, x)
    product, error = two_prod(q, m)
    return (x - product) - error


def fmod(x: Lane, y: Lane) -> Lane:
    """x - trunc(x/y)*y, exact. With |x| = 2**n * a and |y| = m up to a common power of two, it is a * 2**n modulo m."""
    if x.bits == 32:
        wide, other = x.convert("fpext", "double"), y.convert("fpext", "double")
        return _fmod(wide, other, _divide_float).convert("fptrunc", "float").copysign(x)  # as in atan2
    return _fmod(x, y, _divide_double).copysign(x)


def _divide_float(a: Lane, n: Lane, m: Lane) -> Lane:
    """Long division, 28 bits of the quotient a step: with mantissas of 24 bits all products are exact."""
    inverse = 1.0 / m
    chunks = (n * (2**20 // 28 + 1)).lshr(20)  # n // 28
    r = a * _power(n - chunks * 28)
    r = r - _rint(r * inverse) * m
    for k in range(277 // 28):
        scaled = r * 2.0**28
        r = chunks.sgt(k).where(scaled - _rint(scaled * inverse) * m, r)
    return r


def _divide_double(a: Lane, n: Lane, m: Lane) -> Lane:
    """2**n modulo m by squaring, all numbers taken as integers by the factor 2**52. Residues are kept within m/2, so
    the quotient of a product is below 2**51 and its error below 1/2: what is left stays below 2, where multiples of
    the last bit of m are representable."""
    inverse = 1.0 / m

    def centred(x: Lane, low: Lane | float) -> Lane:
        return _without(x, _rint((x + low) * inverse), m) + low

    def product(x: Lane, y: Lane) -> Lane:
        high, low = two_prod(x, y * 2.0**52)
        return centred(_without(high, _rint(high * inverse), m), low)

    chunks = (n * (2**20 // 50 + 1)).lshr(20)  # n // 50
    r = a * _power(n - chunks * 50)
    r = centred(_without(r, _rint(r * inverse), m), 0.0)
    factor: Lane = m.lit(2.0**50 * 2.0**-52)  # 2**50, then its squares
    for k in range(6):
        r = (chunks & (1 << k)).ne(0).where(product(r, factor), r)
        factor = product(factor, factor) if k < 5 else factor
    return r


def _power(n: Lane) -> Lane:
    """2**n for a small integer n >= 0."""
    return ((n + 1023) << 52).as_float()


def _fmod(x: Lane, y: Lane, divide: Callable[[Lane, Lane, Lane], Lane]) -> Lane:
    """Its magnitude, in double."""
    a, b = x.abs(), y.abs()
    (r, ea), (m, eb) = _mantissa(a), _mantissa(b)
    behind = ea.slt(eb)
    r = divide(r, behind.where(0, ea - eb), m)
    r = (r < 0.0).where(r + m, r)
    # Exact: the remainder is a multiple of the last bit of y.
    subnormal = eb.slt(1)
    biased = subnormal.where(eb + 54, eb)
    result = r * (biased << 52).as_float() * subnormal.where(r.lit(2.0**-54), 1.0)
    result = (behind | (a < b)).where(a, result)
    sound = (a < x.inf) & (b > 0.0)
    return (b.eq(b.inf) & (a < x.inf)).where(a, sound.where(result, x.nan))
