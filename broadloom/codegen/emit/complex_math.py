"""Elementary functions of complex numbers, from the real ones of the math library.

What goes in: pairs of float or double lanes. What comes out: a pair.

What holds: principal branches, cut as in C99 with signed zeros telling the sides of a cut apart; no overflow or
cancellation in between where the result is representable, up to errors that are a few units in the last place of the
larger part. Formulas: W. Kahan, Branch cuts for complex elementary functions, 1987.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from broadloom.codegen import vmath
from broadloom.codegen.emit.cell import Pair, Value
from broadloom.codegen.emit.complexes import both, quotient, times
from broadloom.codegen.lane import Lane
from broadloom.codegen.vmath.exact import two_prod, two_sum


def _f(name: str, *x: Lane) -> Lane:
    return vmath.call(name, *x)


def _finite(x: Lane) -> Lane:
    return x.abs() < x.inf


def _parts(z: Pair, factor: float) -> Pair:
    return z[0] * factor, z[1] * factor


# ---- exponentials -------------------------------------------------------------------------------------------------


def _polar(size: Lane, extra: Lane, angle: Lane) -> Pair:
    """size*extra*(cos, sin) of the angle; a zero angle leaves the imaginary part that zero."""
    re = (size * _f("cos", angle)) * extra
    im = (size * _f("sin", angle)) * extra
    return re, angle.eq(0.0).where(angle, im)


def exp(z: Pair) -> Pair:
    re, im = z
    bound = 88.0 if re.bits == 32 else 709.0
    large = re > bound  # exp(re) may overflow where a part of the result does not
    size = _f("exp", large.where(re - bound, re))
    extra = large.where(_f("exp", re.lit(bound)), size.lit(1.0))
    result = _polar(size, extra, im)
    vanishing = re.eq(-re.inf)  # zero of the angle's signs, of any sign where the angle has none
    result = both(vanishing & ~_finite(im), (re.lit(0.0), re.lit(0.0).copysign(im)), result)
    return both(re.eq(re.inf) & ~_finite(im), (re.inf, re.nan), result)


def exp2(z: Pair) -> Pair:
    return exp(_parts(z, math.log(2.0)))


def expm1(z: Pair) -> Pair:
    """expm1(x)cos y - 2 sin(y/2)**2, exp(x) sin y."""
    re, im = z
    grown, half = _f("expm1", re), _f("sin", im * 0.5)
    real = grown * _f("cos", im) - half * half * 2.0
    return real, _f("exp", re) * _f("sin", im)


def _unbounded(z: Pair, result: Pair) -> Pair:
    """(inf, nan) where the real part is infinite and the imaginary one no number: sinh and cosh."""
    return both(z[0].abs().eq(z[0].inf) & ~_finite(z[1]), (z[0].inf, z[0].nan), result)


def sinh(z: Pair) -> Pair:
    (sine, cosine), (s, c) = (_f("sinh", z[0]), _f("cosh", z[0])), (_f("sin", z[1]), _f("cos", z[1]))
    still = z[0].eq(0.0) & ~_finite(z[1])  # where it is finite, the zero has the sign of cos y
    return _unbounded(z, (still.where(z[0], sine * c), z[1].eq(0.0).where(z[1], cosine * s)))


def cosh(z: Pair) -> Pair:
    (sine, cosine), (s, c) = (_f("sinh", z[0]), _f("cosh", z[0])), (_f("sin", z[1]), _f("cos", z[1]))
    flat = z[1].eq(0.0) | (z[0].eq(0.0) & ~_finite(z[1]))
    zero = z[0].lit(0.0).copysign(z[0]) * z[1].lit(1.0).copysign(z[1])
    return _unbounded(z, (cosine * c, flat.where(zero, sine * s)))


def tanh(z: Pair) -> Pair:
    """(b*r*s + i*t)/(1 + b*s*s) with s = sinh x, r = cosh x, t = tan y, b = 1 + t*t; +-1 far out."""
    re, im = z
    a = re.abs()
    far = a > 20.0
    near = far.where(20.0, re)
    s, r, t = _f("sinh", near), _f("cosh", near), _f("tan", im)
    b = t * t + 1.0
    below = b * s * s + 1.0
    result = re.eq(0.0).where(re, b * r * s / below), im.eq(0.0).where(im, t / below)
    decay = _f("exp", a * -2.0) * 4.0 * _f("sin", im) * _f("cos", im)
    decay = (a.eq(a.inf) & ~_finite(im)).where(a.lit(0.0).copysign(im), decay)
    limit = (a.eq(a.inf) | _finite(im)).where(re.lit(1.0).copysign(re), re.nan)
    return both(far, (limit, decay), result)


def _turned(function: Callable[[Pair], Pair]) -> Callable[[Pair], Pair]:
    """f(z) = -i*g(i*z), as sin, tan, asin and atan are to sinh, tanh, asinh and atanh."""

    def of(z: Pair) -> Pair:
        re, im = function((-z[1], z[0]))
        return im, -re

    return of


sin = _turned(sinh)
tan = _turned(tanh)


def cos(z: Pair) -> Pair:
    return cosh((-z[1], z[0]))


# ---- logarithms ---------------------------------------------------------------------------------------------------


def _log_size(re: Lane, im: Lane) -> Lane:
    """log|z|; near the unit circle log1p(|z|**2 - 1)/2 with the squares exact."""
    a, b = re.abs(), im.abs()
    larger, smaller = (a > b).where(a, b), (a > b).where(b, a)
    near = (larger > 0.5) & (larger < 2.0)
    x, y = near.where(larger, 1.0), near.where(smaller, 0.0)
    (xx, xe), (yy, ye) = two_prod(x, x), two_prod(y, y)
    head, carry = two_sum(xx - 1.0, yy)
    circle = _f("log1p", head + (carry + (xe + ye))) * 0.5
    huge = larger > (2.0**120 if re.bits == 32 else 2.0**1000)
    low = larger < (2.0**-100 if re.bits == 32 else 2.0**-900)
    factor = huge.where(0.25, low.where(2.0**60, re.lit(1.0)))
    shift = huge.where(math.log(4.0), low.where(-60.0 * math.log(2.0), re.lit(0.0)))
    general = _f("log", _f("hypot", re * factor, im * factor)) + shift
    return near.where(circle, general)


def log(z: Pair) -> Pair:
    return _log_size(*z), _f("atan2", z[1], z[0])


def log2(z: Pair) -> Pair:
    return _parts(log(z), 1.0 / math.log(2.0))


def log10(z: Pair) -> Pair:
    return _parts(log(z), 1.0 / math.log(10.0))


def log1p(z: Pair) -> Pair:
    """log|1 + z| through log1p(x*(2 + x) + y*y) where |z| is small."""
    re, im = z
    small = (re.abs() < 0.5) & (im.abs() < 0.5)
    x, y = small.where(re, 0.0), small.where(im, 0.0)
    near = _f("log1p", x * (x + 2.0) + y * y) * 0.5
    return small.where(near, _log_size(re + 1.0, im)), _f("atan2", im, re + 1.0)


# ---- roots and powers ---------------------------------------------------------------------------------------------


def sqrt(z: Pair) -> Pair:
    """t = sqrt((|x| + |z|)/2) is one part, |y|/2t the other."""
    re, im = z
    a, b = re.abs(), im.abs()
    top, bottom = (2.0**120, 2.0**-100) if re.bits == 32 else (2.0**1000, 2.0**-900)
    huge, tiny = (a > top) | (b > top), (a < bottom) & (b < bottom)
    factor = huge.where(2.0**-4, tiny.where(2.0**60, re.lit(1.0)))
    back = huge.where(2.0**2, tiny.where(2.0**-30, re.lit(1.0)))
    x, y = a * factor, b * factor
    t = ((x + _f("hypot", x, y)) * 0.5).sqrt()
    zero = a.eq(0.0) & b.eq(0.0)
    other = zero.where(0.0, y / (t + t)) * back
    t = t * back
    right = ~re.as_int().slt(0)
    result = right.where(t, other), right.where(other, t).copysign(im)
    result = both(re.eq(-re.inf), (im.isnan().where(im, 0.0), re.inf.copysign(im)), result)
    result = both(re.eq(re.inf), (re, im.isnan().where(im, im.lit(0.0).copysign(im))), result)
    result = both(_finite(re) & im.isnan(), (im, im), result)
    return both(b.eq(b.inf), (b, im), result)


def _product_with_infinities(x: Pair, y: Pair) -> Pair:
    """x*y by C99's annex G: an infinite operand gives an infinite product where the formula gives two nans."""

    def boxed(p: Pair) -> Pair:
        re, im = (v.abs().eq(v.inf).where(v.lit(1.0), 0.0).copysign(v) for v in p)
        return re, im

    def numbers(p: Pair) -> Pair:
        re, im = (v.isnan().where(v.lit(0.0).copysign(v), v) for v in p)
        return re, im

    def infinite(p: Pair) -> Lane:
        return p[0].abs().eq(p[0].inf) | p[1].abs().eq(p[1].inf)

    result = times(x, y)
    first, second = infinite(x), infinite(y)
    left, right = both(first, boxed(x), x), both(first, numbers(y), y)
    left, right = both(second, numbers(left), left), both(second, boxed(right), right)
    parts = times(left, right)
    recovered = parts[0] * parts[0].inf, parts[1] * parts[1].inf
    return both(result[0].isnan() & result[1].isnan() & (first | second), recovered, result)


def _small_power(z: Pair, n: Lane) -> Pair:
    """z**n for an integer |n| < 100 in a float lane: by squaring, the first three powers directly."""
    count = n.abs().convert("fptosi", "i32")
    one: Pair = (n.lit(1.0), n.lit(0.0))
    result, base = one, z
    for k in range(7):
        result = both((count & (1 << k)).ne(0), times(result, base), result)
        base = times(base, base)
    result = both(n < 0.0, quotient(one, result), result)
    result = both(n.eq(1.0), z, result)
    square_ = times(z, z)
    result = both(n.eq(2.0), square_, result)
    return both(n.eq(3.0), times(z, square_), result)


def pow_(x: Pair, y: Pair) -> Pair:
    """exp(y*log(x)); integers below 100 by squaring; 1 where y is 0; at 0, 0 for a positive real part of y."""
    general = exp(_product_with_infinities(y, log(x)))
    whole = y[1].eq(0.0) & y[0].rounded("trunc").eq(y[0]) & (y[0].abs() < 100.0)
    result = both(whole, _small_power(x, whole.where(y[0], 0.0)), general)
    at_zero = x[0].eq(0.0) & x[1].eq(0.0)
    nothing = x[0].lit(0.0)
    zero_power = both(y[0] > 0.0, (nothing, nothing), (x[0].nan, x[0].nan))
    result = both(at_zero, zero_power, result)
    return both(y[0].eq(0.0) & y[1].eq(0.0), (x[0].lit(1.0), nothing), result)


# ---- inverse functions --------------------------------------------------------------------------------------------


def _huge(z: Pair) -> Lane:
    bound = 2.0**60 if z[0].bits == 32 else 2.0**500
    return (z[0].abs() > bound) | (z[1].abs() > bound)


def _log_double(z: Pair) -> Lane:
    """log|2z| for huge z."""
    return _log_size(*z) + math.log(2.0)


def _roots(z: Pair) -> tuple[Pair, Pair]:
    """(sqrt(1 - z), sqrt(1 + z))."""
    return sqrt((1.0 - z[0], -z[1])), sqrt((z[0] + 1.0, z[1]))


def asin(z: Pair) -> Pair:
    minus, plus = _roots(z)
    real = _f("atan2", z[0], minus[0] * plus[0] - minus[1] * plus[1])
    imag = _f("asinh", minus[0] * plus[1] - minus[1] * plus[0])
    far = _f("atan2", z[0], z[1].abs()), _log_double(z).copysign(z[1])
    return both(_huge(z), far, (z[0].eq(0.0).where(z[0], real), imag))


def acos(z: Pair) -> Pair:
    minus, plus = _roots(z)
    real = _f("atan2", minus[0], plus[0]) * 2.0
    imag = _f("asinh", plus[0] * minus[1] - plus[1] * minus[0])
    far = _f("atan2", z[1].abs(), z[0]), _log_double(z).copysign(-z[1])
    return both(_huge(z), far, (z[0].eq(0.0).where(math.pi / 2, real), imag))


def acosh(z: Pair) -> Pair:
    minus, plus = sqrt((z[0] - 1.0, z[1])), sqrt((z[0] + 1.0, z[1]))
    real = _f("asinh", minus[0] * plus[0] + minus[1] * plus[1])
    imag = _f("atan2", minus[1], plus[0]) * 2.0
    imag = z[0].eq(0.0).where(imag.lit(math.pi / 2).copysign(z[1]), imag)
    return both(_huge(z), (_log_double(z), _f("atan2", z[1], z[0])), (real, imag))


def atanh(z: Pair) -> Pair:
    """log1p(4x/((1 - x)**2 + y*y))/4 and half the angle of (1 - x)(1 + x) - y*y and 2y."""
    re, im = z
    bound = 2.0**30 if re.bits == 32 else 2.0**300
    far = (re.abs() > bound) | (im.abs() > bound)
    a, y = far.where(0.5, re.abs()), far.where(0.5, im)
    gap = 1.0 - a
    real = _f("log1p", a * 4.0 / (gap * gap + y * y)) * 0.25
    imag = _f("atan2", y * 2.0, gap * (a + 1.0) - y * y) * 0.5
    size = _f("hypot", re * 2.0**-4, im * 2.0**-4)
    distant = ((re.abs() * 2.0**-4) / size) / size * 2.0**-4, re.lit(math.pi / 2).copysign(im)
    distant = _finite(size).where(distant[0], 0.0), im.isnan().where(im, distant[1])
    result = both(far, distant, (re.eq(0.0).where(0.0, real), imag))
    return result[0].copysign(re), result[1]


asinh = _turned(asin)  # the relation is its own inverse up to signs that cancel, both functions being odd
atan = _turned(atanh)

FUNCTIONS: dict[str, Callable[..., Value]] = {
    "exp": exp,
    "exp2": exp2,
    "expm1": expm1,
    "log": log,
    "log2": log2,
    "log10": log10,
    "log1p": log1p,
    "sin": sin,
    "cos": cos,
    "tan": tan,
    "asin": asin,
    "acos": acos,
    "atan": atan,
    "sinh": sinh,
    "cosh": cosh,
    "tanh": tanh,
    "asinh": asinh,
    "acosh": acosh,
    "atanh": atanh,
}
