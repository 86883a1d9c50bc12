"""Floats taken apart, and put together: mantissa, exponent, fraction, ldexp, spacing.

What goes in: float or double lanes, and integer lanes beside for `ldexp`. What comes out: NumPy's results to the bit.
"""

from __future__ import annotations

from broadloom.codegen.emit.casts import narrow, widen
from broadloom.codegen.emit.cell import Cell
from broadloom.codegen.lane import Lane, has_scaling

_LIMIT = 2100  # beyond which every product with a power of two is 0 or infinite


def _format(x: Lane) -> tuple[int, int]:
    """Digits of the fraction, and the exponent's bias."""
    return (23, 127) if x.bits == 32 else (52, 1023)


def _normal(x: Lane) -> tuple[Lane, Lane]:
    """Whether x is subnormal or 0, and the bits of x, which then is made normal by two to the number of its digits."""
    digits, bias = _format(x)
    small = x.abs() < 2.0 ** (1 - bias)
    return small, small.where(x * 2.0 ** (digits + 1), x).as_int()


def _is_whole(x: Lane) -> Lane:
    """Neither 0, infinite nor nan."""
    return (x.abs() < x.inf) & x.ne(0.0)


def mantissa(_: Cell, x: Lane) -> Lane:
    digits, bias = _format(x)
    bits = _normal(x)[1]
    field = 2 * bias + 1 << digits
    half = ((bits & ~field) | (bias - 1 << digits)).as_float()
    return _is_whole(x).where(half, x)


def exponent(_: Cell, x: Lane) -> Lane:
    digits, bias = _format(x)
    small, bits = _normal(x)
    biased = (bits.lshr(digits) & 2 * bias + 1).convert("trunc", "i32")
    found = biased - small.where(biased.lit(bias + digits), bias - 1)
    return _is_whole(x).where(found, 0)


def fraction(_: Cell, x: Lane) -> Lane:
    part = x.abs().eq(x.inf).where(0.0, x - x.rounded("trunc"))
    return part.copysign(x)


def spacing(_: Cell, x: Lane) -> Lane:
    """To the next number in the bit pattern. That of -0.0 is positive."""
    size = x.abs()
    gap = (size.as_int() + 1).as_float() - size
    signed = x.eq(0.0).where(gap, gap.copysign(x))
    return size.eq(x.inf).where(x.nan, signed)


def ldexp(cell: Cell, x: Lane, n: Lane) -> Lane:
    """x * 2**n, rounded once. 16-bit floats in float32: what that rounds is 0 or infinite in them."""
    wide = widen(x, cell.dtype)
    count = n.intrinsic("smax", -_LIMIT).intrinsic("smin", _LIMIT).convert("trunc", "i32")
    if has_scaling(x.b.module):
        scaled = wide.scaled(count)
    elif wide.element == "double":
        scaled = _in_steps(wide, count)
    else:  # float64 holds the product
        factor = _power(count.intrinsic("smax", -300).intrinsic("smin", 300))
        scaled = (wide.convert("fpext", "double") * factor).convert("fptrunc", "float")
    return narrow(scaled, cell.dtype)


def _power(n: Lane) -> Lane:
    """2**n for n in [-1022, 1023]."""
    return ((n + 1023).convert("zext", "i64") << 52).as_float()


def _in_steps(x: Lane, n: Lane) -> Lane:
    """Twice a step of 2**1023 or 2**-969 while n is out of range. What is left after a step down is below -53, so a
    product that the step has rounded to a subnormal number becomes 0 and is not rounded a second time."""
    for _ in range(2):
        step = n.sgt(1023).where(n.lit(1023), n.slt(-1022).where(n.lit(-969), 0))
        x, n = x * _power(step), n - step
    return x * _power(n.intrinsic("smin", 1023).intrinsic("smax", -1022))
