"""exp, exp2, expm1, sinh, cosh, tanh.

What goes in: a float or double lane. What comes out: the function of it, with IEEE special values.

Method: x = k*ln2 + r, k the nearest integer, found by adding 1.5*2**52 (so that k stands in the low bits of the sum's
pattern), ln2 in two parts; exp(r) by a polynomial; 2**k by two factors, so that results below the normal range are
rounded once.
"""

from __future__ import annotations

import math

from broadloom.codegen.lane import Lane, has_fma, has_scaling, poly
from broadloom.codegen.vmath import coefficients as c
from broadloom.codegen.vmath.exact import Double, fast_two_sum, two_prod
from broadloom.records import dataclass


@dataclass(frozen=True, slots=True)
class Format:
    """What the methods need to know of a float format. `ln2_high` leaves room for a factor of the exponent's size."""

    magic: float  # 1.5 * 2**(precision - 1)
    magic_bits: int
    mantissa: int
    bias: int
    ln2_high: float
    ln2_low: float
    ln2: float  # to nearest, and what is left
    ln2_rest: float
    exp_high: float  # exp overflows beyond
    exp_low: float  # exp is 0 below
    expm1_low: float  # expm1 is -1 below
    half_high: float  # sinh and cosh overflow beyond
    tiny: float  # below it, f(x) = x to the precision where f(x) = x + O(x**2)
    exp: tuple[float, ...]


F64 = Format(
    magic=1.5 * 2.0**52,
    magic_bits=0x4338000000000000,
    mantissa=52,
    bias=1023,
    ln2_high=float.fromhex("0x1.62e42feep-1"),
    ln2_low=float.fromhex("0x1.a39ef35793c76p-33"),
    ln2=math.log(2.0),
    ln2_rest=float.fromhex("0x1.abc9e3b39803fp-56"),
    exp_high=710.0,
    exp_low=-746.0,
    expm1_low=-40.0,
    half_high=710.6,
    tiny=2.0**-54,
    exp=c.EXP_F64,
)
F32 = Format(
    magic=1.5 * 2.0**23,
    magic_bits=0x4B400000,
    mantissa=23,
    bias=127,
    ln2_high=float.fromhex("0x1.62e3p-1"),
    ln2_low=float.fromhex("0x1.2fefa4p-17"),
    ln2=float.fromhex("0x1.62e430p-1"),
    ln2_rest=float.fromhex("-0x1.05c610p-29"),
    exp_high=89.0,
    exp_low=-104.0,
    expm1_low=-20.0,
    half_high=89.5,
    tiny=2.0**-25,
    exp=c.EXP_F32,
)


def format_of(x: Lane) -> Format:
    return F64 if x.bits == 64 else F32


def clamp(x: Lane, low: float, high: float) -> Lane:
    """x within [low, high]; nan stays."""
    x = (x > high).where(high, x)
    return (x < low).where(low, x)


def reduce(x: Lane, x_low: Lane | None = None) -> tuple[Lane, Lane, Lane]:
    """(pattern holding k, r, tail) with x + x_low = k*ln2 + r and exp(x) = 2**k * (1 + r + tail)."""
    f = format_of(x)
    t = x.fma(1.0 / math.log(2.0), f.magic)
    k = t - f.magic
    high = k.fma(-f.ln2_high, x)
    low = k * f.ln2_low
    if x_low is not None:
        low = low - x_low
    r = high - low
    return t.as_int(), r, (r * r).fma(poly(r, f.exp), (high - r) - low)


def power_of_two(pattern: Lane, offset: int) -> Lane:
    """2**(k + offset) as a float, from the pattern that `reduce` returns; the exponent must be a normal one."""
    f = F64 if pattern.bits == 64 else F32
    return ((pattern - (f.magic_bits - f.bias - offset)) << f.mantissa).as_float()


def scale(x: Lane, pattern: Lane) -> Lane:
    """x * 2**k, rounded once where the result is subnormal."""
    f = format_of(x)
    if has_scaling(x.b.module):
        return x.scaled(pattern - f.magic_bits)
    both = pattern - (f.magic_bits - 2 * f.bias)
    half = both.lshr(1)
    return x * (half << f.mantissa).as_float() * ((both - half) << f.mantissa).as_float()


def exp_of(x: Lane, x_low: Lane | None = None) -> Lane:
    """exp(x + x_low), x already clamped."""
    pattern, r, tail = reduce(x, x_low)
    return scale(1.0 + (r + tail), pattern)


def exp_normal(x: Lane) -> Lane:
    """exp(x) of x already known to give a normal number."""
    pattern, r, tail = reduce(x)
    return (1.0 + (r + tail)) * power_of_two(pattern, 0)


def exp_pair(x: Lane, x_low: Lane) -> tuple[Lane, Double]:
    """exp(x + x_low) = 2**k * (high + low), as (pattern of k, (high, low))."""
    pattern, r, tail = reduce(x, x_low)
    high, low = fast_two_sum(r.lit(1.0), r)
    return pattern, (high, low + tail)


def exp_to_float(x: Lane) -> Lane:
    """exp(x) of a double well inside its range, to some 33 bits: enough to round to float."""
    t = x.fma(1.0 / math.log(2.0), F64.magic)
    k = t - F64.magic
    r = k.fma(-F64.ln2_low, k.fma(-F64.ln2_high, x))
    return ((r * r).fma(poly(r, c.EXP_MID), r) + 1.0) * power_of_two(t.as_int(), 0)


def exp(x: Lane) -> Lane:
    f = format_of(x)
    return exp_of(clamp(x, f.exp_low, f.exp_high))


def exp2(x: Lane) -> Lane:
    f = format_of(x)
    bound = float(f.bias + 1)
    x = clamp(x, -bound - f.mantissa - 1, bound)
    t = x + f.magic
    rest = x - (t - f.magic)
    r = rest * f.ln2
    low = rest * f.ln2_rest
    if has_fma(x.b.module):
        low = rest.fma(f.ln2, -r) + low
    return scale(1.0 + (r + (r * r).fma(poly(r, f.exp), low)), t.as_int())


def expm1_scaled(x: Lane, shift: int) -> Double:
    """expm1(x) * 2**-shift as a pair, x already clamped."""
    pattern, r, tail = reduce(x)
    s, one = power_of_two(pattern, -shift), 2.0**-shift
    base = s - one
    high, low = fast_two_sum(base, s * r)
    return high, low + (s * tail + ((s - base) - one))


def expm1(x: Lane) -> Lane:
    f = format_of(x)
    high, low = expm1_scaled(clamp(x, f.expm1_low, f.exp_high), 1)
    return (x.abs() < f.tiny).where(x, (high + low) * 2.0)


def sinh(x: Lane) -> Lane:
    """(e + e/(e + 1))/2 with e = expm1(|x|), carried as e/4."""
    f = format_of(x)
    a = x.abs()
    high, low = expm1_scaled((a > f.half_high).where(f.half_high, a), 2)
    quarter = high + low
    result = high * 2.0 + ((quarter / (quarter + 0.25)) * 0.5 + low * 2.0)
    return (a < f.tiny).where(a, result).copysign(x)


def cosh(x: Lane) -> Lane:
    """(e + 1/e)/2 with e = exp(|x|), carried as e/4."""
    f = format_of(x)
    a = x.abs()
    pattern, r, tail = reduce((a > f.half_high).where(f.half_high, a))
    quarter = (1.0 + (r + tail)) * power_of_two(pattern, -2)
    return quarter * 2.0 + 0.125 / quarter


def tanh(x: Lane) -> Lane:
    """e/(e + 2) with e = expm1(2|x|), the quotient corrected; float: a polynomial, and 1 - 2/(exp(2|x|) + 1), to
    which an error of exp adds at most 0.35 of itself."""
    a = x.abs()
    a = (a > 22.0).where(22.0, a)
    if x.bits == 32:
        z = a * a
        small = (a * z).fma(poly(z, c.TANH_F32), a)
        t = a.fma(2.0 / math.log(2.0), F32.magic)
        k = t - F32.magic
        r = k.fma(-0.5 * F32.ln2_low, k.fma(-0.5 * F32.ln2_high, a))
        s = power_of_two(t.as_int(), 0)
        large = 1.0 - 2.0 / s.fma(r * poly(r, c.EXP_TWICE_F32), s + 1.0)
        return (a < 0.95).where(small, large).copysign(x)
    high, low = expm1_scaled(a + a, 1)
    half = high + low
    below = half + 1.0
    below_low = (1.0 - below) + half
    inverse = 1.0 / below
    q = half * inverse
    product, error = two_prod(q, below)
    rest = ((high - product) - error) + (low - q * below_low)
    return (a < 2.0**-30).where(a, q + rest * inverse).copysign(x)
