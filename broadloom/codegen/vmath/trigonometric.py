"""sin, cos, tan, right for every argument however large.

What goes in: a float or double lane. What comes out: the function of it; nan for infinities.

Method (Payne and Hanek, Radian reduction for trigonometric functions, 1983): |x| = M * 2**e with an integer M, so
the quadrant and the fraction of x*2/pi depend on a window of the bits of 2/pi that starts at a place given by e. The
window is picked by a tree of selects over the bits of that place (a gather would cost more), multiplied by M in
32-bit limbs with the multiples of 4 falling off the top, and converted: to a pair of doubles for double, to one double
for float, whose polynomials are evaluated in double and rounded once.
"""

from __future__ import annotations

from broadloom.codegen.lane import Lane, poly
from broadloom.codegen.vmath import coefficients as c
from broadloom.codegen.vmath.exact import Double, fast_two_sum, two_prod

# The first 1216 bits of 2/pi behind the binary point.
_TWO_OVER_PI = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424d"
    "d2e006492eea09d1921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639"
    "835339f49c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f46"
    "3f669e5fea2d7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6bab",
    16,
)
_BITS = 1216
_LIMB = 0xFFFFFFFF
_PIO2 = (float.fromhex("0x1.921fb54442d18p+0"), float.fromhex("0x1.1a62633145c07p-54"))
_PIO4 = 0.78539816339744830962
_MAGIC = 0x4330000000000000  # the pattern of 2**52


def _words(zeros: int, count: int) -> list[int]:
    """2/pi behind `zeros` zero bits, cut into 64-bit words."""
    total = zeros + _BITS
    padded = _TWO_OVER_PI << (-total % 64)
    size = (total + 63) // 64
    return [(padded >> (64 * (size - 1 - k))) & 0xFFFFFFFFFFFFFFFF for k in range(min(count, size))]


def _window(place: Lane, zeros: int, steps: int, wanted: int) -> list[Lane]:
    """`wanted` 64-bit words of the bit string that start at bit `place`; place < 64 * 2**steps."""
    word = place.lshr(6)
    words: list[Lane] = [place.lit(w) for w in _words(zeros, 2**steps + wanted)]
    for k in range(steps - 1, -1, -1):
        keep = 2**k + wanted
        chosen = (word & 2**k).ne(0)
        words = [chosen.where(words[t + 2**k], words[t]) if t + 2**k < len(words) else words[t] for t in range(keep)]
    shift = place & 63
    return [words[t].intrinsic("fshl", words[t + 1], shift) for t in range(wanted)]


def _count(x: Lane) -> Lane:
    """An unsigned integer below 2**52 as a double."""
    return (x | _MAGIC).as_float() - 2.0**52


def _high(x: Lane) -> Lane:
    return x.lshr(32)


def _low(x: Lane) -> Lane:
    return x & _LIMB


def _quadrant(turn: Lane) -> tuple[Lane, Lane, Lane]:
    """(quadrant in the top two bits, upper and lower half of the rest as exact doubles) of a 64-bit fixed-point number
    with two bits before the point; the rest lies in [-1/2, 1/2)."""
    quadrant = (turn + (1 << 61)) & (3 << 62)
    shifted = turn - quadrant + (1 << 62)  # positive
    high = (_count(_high(shifted)) - 2.0**30) * 2.0**-30
    return quadrant, high, _count(_low(shifted)) * 2.0**-62


def _reduce_double(a: Lane) -> tuple[Lane, Double]:
    """(quadrant in the top bits, (r, low)) with a = quadrant*pi/2 + r + low, |r| <= pi/4, for a >= 0."""
    bits = a.as_int()
    exponent = bits.lshr(52)
    place = exponent.intrinsic("usub.sat", 1013)
    words = _window(place, 64, 5, 3)
    v = [half for w in words for half in (_high(w), _low(w))]
    m0 = _low(bits)
    m1 = _high(bits) & 0xFFFFF | 0x100000
    p02, p13, p03, p14 = m0 * v[2], m1 * v[3], m0 * v[3], m1 * v[4]
    c3 = _low(p03) + _low(p14) + _high(m0 * v[4]) + _high(m1 * v[5])
    c2 = _low(p02) + _low(p13) + _high(p03) + _high(p14) + _high(c3)
    turn = m0 * v[1] + m1 * v[2] + ((m0 * v[0] + m1 * v[1]) << 32) + _high(p02) + _high(p13) + _high(c2)
    below = (_low(c2) << 20) | _low(c3).lshr(12)
    quadrant, high, middle = _quadrant(turn)
    f_high, carry = fast_two_sum(high, middle)
    f_high, f_low = fast_two_sum(f_high, carry + _count(below) * 2.0**-114)
    product, error = two_prod(f_high, f_high.lit(_PIO2[0]))
    r, low = fast_two_sum(product, error + (f_high * _PIO2[1] + f_low * _PIO2[0]))
    small = a < _PIO4
    return small.where(0, quadrant), (small.where(a, r), small.where(0.0, low))


def _reduce_float(a: Lane) -> tuple[Lane, Lane]:
    """(quadrant in the top bits of an i64, r as a double) for a float a >= 0."""
    bits = a.as_int().convert("zext", "i64")
    place = bits.lshr(23).intrinsic("usub.sat", 120)
    v01, v2 = _window(place, 32, 2, 2)
    m = bits & 0x7FFFFF | 0x800000
    turn = ((m * _high(v01)) << 32) + m * _low(v01) + _high(m * _high(v2))
    quadrant, high, low = _quadrant(turn)
    wide = a.convert("fpext", "double")
    small = wide < _PIO4
    return small.where(0, quadrant), small.where(wide, (high + low) * _PIO2[0])


def _sin(r: Lane, low: Lane) -> Lane:
    z = r * r
    return r + (r * z).fma(poly(z, c.SIN_F64), low * z.fma(-0.5, 1.0))


def _cos(r: Lane, low: Lane) -> Lane:
    z = r * r
    half = z * 0.5
    w = 1.0 - half
    return w + (((1.0 - w) - half) + ((z * z).fma(poly(z, c.COS_F64), -(r * low))))


def _pair(x: Lane) -> tuple[Lane, Lane, Lane]:
    """(quadrant in the top bits, sin r, cos r) of |x|, in double."""
    a = x.abs()
    if x.bits == 64:
        quadrant, (r, low) = _reduce_double(a)
        return quadrant, _sin(r, low), _cos(r, low)
    quadrant, r = _reduce_float(a)
    z = r * r
    sine = r + r * z * poly(z, c.SIN_F32)
    cosine = (z * z).fma(poly(z, c.COS_F32), z.fma(-0.5, 1.0))
    return quadrant, sine, cosine


_ODD, _BACK = 1 << 62, 1 << 63


def _finish(x: Lane, result: Lane) -> Lane:
    """Rounded to the format of x; nan for infinities and nan."""
    if x.bits == 32:
        result = result.convert("fptrunc", "float")
    return (x.abs() < x.inf).where(result, x.nan)


def sin(x: Lane) -> Lane:
    quadrant, sine, cosine = _pair(x)
    chosen = (quadrant & _ODD).ne(0).where(cosine, sine)
    sign = x.as_int() if x.bits == 64 else x.as_int().convert("zext", "i64") << 32
    flip = (quadrant ^ sign) & _BACK
    return _finish(x, (chosen.as_int() ^ flip).as_float())


def cos(x: Lane) -> Lane:
    quadrant, sine, cosine = _pair(x)
    chosen = (quadrant & _ODD).ne(0).where(sine, cosine)
    flip = (quadrant + _ODD) & _BACK
    return _finish(x, (chosen.as_int() ^ flip).as_float())


def tan(x: Lane) -> Lane:
    quadrant, sine, cosine = _pair(x)
    odd = (quadrant & _ODD).ne(0)
    ratio = odd.where(-cosine, sine) / odd.where(sine, cosine)
    sign = x.as_int() if x.bits == 64 else x.as_int().convert("zext", "i64") << 32
    return _finish(x, (ratio.as_int() ^ (sign & _BACK)).as_float())
