"""log, log2, log10, log1p, asinh, acosh, atanh, logaddexp, logaddexp2.

What goes in: a float or double lane. What comes out: the function of it, with IEEE special values.

Method: x = 2**k * m with m in [sqrt(1/2), sqrt(2)), by integer arithmetic on the pattern; f = m - 1, s = f/(2 + f),
log(m) = 2s + s**3*P(s*s), summed as f - f*f/2 + s*(f*f/2 + s*s*P) so that f enters unrounded.
"""

from __future__ import annotations

import math

from broadloom.codegen.lane import Lane, poly
from broadloom.codegen.vmath import coefficients as c
from broadloom.codegen.vmath import exponential
from broadloom.codegen.vmath.exact import two_sum
from broadloom.records import dataclass


@dataclass(frozen=True, slots=True)
class Format:
    """What the methods need to know of a float format."""

    one: int  # the pattern of 1
    root: int  # the pattern of sqrt(1/2)
    mantissa: int
    bias: int
    smallest: float  # the smallest normal number
    lift: int  # what makes subnormal numbers normal, as a power of two
    count: int  # the pattern of 2**mantissa: `pattern + n` is 2**mantissa + n
    ln2_high: float
    ln2_low: float
    mask: int  # keeps the upper half of a mantissa
    invln2: tuple[float, float]  # 1/ln(2), high part short enough for exact products of halves
    invln10: tuple[float, float]
    log10_2: tuple[float, float]
    large: float  # beyond, x*x + 1 is x*x
    log: tuple[float, ...]


F64 = Format(
    one=0x3FF0000000000000,
    root=0x3FE6A09E667F3BCD,
    mantissa=52,
    bias=1023,
    smallest=2.0**-1022,
    lift=54,
    count=0x4330000000000000,
    ln2_high=exponential.F64.ln2_high,
    ln2_low=exponential.F64.ln2_low,
    mask=-(1 << 32),
    invln2=(float.fromhex("0x1.7154700000000p+0"), float.fromhex("0x1.94ae0bf85ddf4p-22")),
    invln10=(float.fromhex("0x1.bcb7b00000000p-2"), float.fromhex("0x1.526e50e32a6abp-26")),
    log10_2=(float.fromhex("0x1.34413509f7800p-2"), float.fromhex("0x1.fef311f12b358p-46")),
    large=2.0**28,
    log=c.LOG_F64,
)
F32 = Format(
    one=0x3F800000,
    root=0x3F3504F3,
    mantissa=23,
    bias=127,
    smallest=2.0**-126,
    lift=25,
    count=0x4B000000,
    ln2_high=exponential.F32.ln2_high,
    ln2_low=exponential.F32.ln2_low,
    mask=-(1 << 12),
    invln2=(float.fromhex("0x1.7140000000000p+0"), float.fromhex("0x1.47652c0000000p-12")),
    invln10=(float.fromhex("0x1.bca0000000000p-2"), float.fromhex("0x1.7b15260000000p-14")),
    log10_2=(float.fromhex("0x1.3440000000000p-2"), float.fromhex("0x1.3509f80000000p-18")),
    large=2.0**14,
    log=c.LOG_F32,
)


def format_of(x: Lane) -> Format:
    return F64 if x.bits == 64 else F32


def decompose(x: Lane, *, normal: bool = False) -> tuple[Lane, Lane]:
    """(k as a float, f) with x = 2**k * (1 + f), for positive finite x; `normal`: not a subnormal one."""
    f = format_of(x)
    base = x.lit(2.0**f.mantissa + f.bias)
    if not normal:
        subnormal = x < f.smallest
        base = subnormal.where(2.0**f.mantissa + f.bias + f.lift, base)
        x = subnormal.where(x * 2.0**f.lift, x)
    bits = x.as_int() + (f.one - f.root)
    k = (bits.lshr(f.mantissa) | f.count).as_float() - base
    m = ((bits & ((1 << f.mantissa) - 1)) + f.root).as_float()
    return k, m - 1.0


def series(f: Lane, coefficients: tuple[float, ...]) -> tuple[Lane, Lane]:
    """(f*f/2, s*(f*f/2 + s*s*P)): log(1 + f) = f - (first - second)."""
    s = f / (f + 2.0)
    z = s * s
    half_square = f * f * 0.5
    return half_square, s * z.fma(poly(z, coefficients), half_square)


def special(x: Lane, result: Lane) -> Lane:
    """The logarithm's values at 0, infinity, nan and below 0."""
    result = x.eq(0.0).where(-x.inf, result)
    return ((x < x.inf) & (x >= 0.0)).where(result, x.eq(x.inf).where(x, x.nan))


def log(x: Lane) -> Lane:
    f = format_of(x)
    k, rest = decompose(x)
    square, tail = series(rest, f.log)
    return special(x, k * f.ln2_high - ((square - k.fma(f.ln2_low, tail)) - rest))


def _scaled(x: Lane, inverse: tuple[float, float], step: tuple[float, float]) -> Lane:
    """k*step + log(m)*inverse, log(m) and both constants in two parts."""
    f = format_of(x)
    k, rest = decompose(x)
    square, tail = series(rest, f.log)
    high = ((rest - square).as_int() & f.mask).as_float()
    low = ((rest - high) - square) + tail
    product = high * inverse[0]
    error = (low + high) * inverse[1] + low * inverse[0]
    total, carry = two_sum(k * step[0], product)
    return special(x, total + (carry + (error + k * step[1])))


def log2(x: Lane) -> Lane:
    return _scaled(x, format_of(x).invln2, (1.0, 0.0))


def log10(x: Lane) -> Lane:
    f = format_of(x)
    return _scaled(x, f.invln10, f.log10_2)


def log1p_of(x: Lane) -> Lane:
    """log(1 + x) for x above -1: the rounding error of 1 + x is carried on."""
    f = format_of(x)
    u, error = two_sum(x.lit(1.0), x)
    k, rest = decompose(u)
    square, tail = series(rest, f.log)
    low = k.fma(f.ln2_low, error / u)
    return special(u, k * f.ln2_high - ((square - (tail + low)) - rest))


def log1p(x: Lane) -> Lane:
    return (x.abs() < 2.0 ** (-54 if x.bits == 64 else -25)).where(x, log1p_of(x))


def asinh(x: Lane) -> Lane:
    """log1p(a + a*a/(1 + sqrt(a*a + 1))), far out log(a) + ln 2."""
    f = format_of(x)
    a = x.abs()
    square = a * a
    large = a > f.large
    inner = a + square / ((square + 1.0).sqrt() + 1.0)
    result = log1p_of(large.where(a - 1.0, inner)) + large.where(x.lit(math.log(2.0)), 0.0)
    return (a < 2.0 ** (-28 if x.bits == 64 else -13)).where(a, result).copysign(x)


def acosh(x: Lane) -> Lane:
    """log1p(t + sqrt(2t + t*t)) with t = x - 1, far out log(x) + ln 2."""
    large = x > format_of(x).large
    t = x - 1.0
    inner = t + (t * 2.0 + t * t).sqrt()
    result = log1p_of(large.where(t, inner)) + large.where(x.lit(math.log(2.0)), 0.0)
    return (x < 1.0).where(x.nan, result)


def atanh(x: Lane) -> Lane:
    """log1p(2a/(1 - a))/2."""
    a = x.abs()
    result = log1p_of((a + a) / (1.0 - a)) * 0.5
    return (a < 2.0 ** (-28 if x.bits == 64 else -13)).where(a, result).copysign(x)


def logaddexp2(x: Lane, y: Lane) -> Lane:
    """log2(2**x + 2**y), as `logaddexp`."""
    difference = x - y
    larger = (difference > 0.0).where(x, y)
    share = exponential.exp2(-difference.abs())
    result = larger + log1p_of(share) * math.log2(math.e)
    return x.eq(y).where(x + 1.0, difference.isnan().where(difference, result))


def logaddexp(x: Lane, y: Lane) -> Lane:
    """log(exp(x) + exp(y)): the larger one plus log1p of the smaller share; equal infinities stay."""
    difference = x - y
    larger = (difference > 0.0).where(x, y)
    share = exponential.exp(-difference.abs())
    result = larger + log1p_of(share)
    return x.eq(y).where(x + math.log(2.0), difference.isnan().where(difference, result))
