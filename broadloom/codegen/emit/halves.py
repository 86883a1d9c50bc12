"""Ops on 16-bit floats that are a matter of bits; all others are computed in float32 and rounded once.

What goes in: float16 lanes (`half`) or bfloat16 lanes (`i16`); the cell says which. What comes out: the same kind
of lane, or i1.
"""

from __future__ import annotations

from broadloom.codegen.emit.casts import narrow, widen
from broadloom.codegen.emit.cell import Cell
from broadloom.codegen.lane import Lane
from broadloom.dtypes import float16

_SIGN, _MAGNITUDE = 0x8000, 0x7FFF


def _bits(x: Lane) -> Lane:
    return x.bitcast("i16")


def identity(_: Cell, x: Lane) -> Lane:
    return x


def negative(_: Cell, x: Lane) -> Lane:
    return (_bits(x) ^ _SIGN).bitcast(x.element)


def absolute(_: Cell, x: Lane) -> Lane:
    return (_bits(x) & _MAGNITUDE).bitcast(x.element)


def signbit(_: Cell, x: Lane) -> Lane:
    return _bits(x).slt(0)


def copysign(_: Cell, x: Lane, y: Lane) -> Lane:
    return ((_bits(x) & _MAGNITUDE) | (_bits(y) & _SIGN)).bitcast(x.element)


def zero(_: Cell, x: Lane) -> Lane:
    return _bits(x).lit(0).bitcast(x.element)


def nextafter(cell: Cell, x: Lane, y: Lane) -> Lane:
    """One step in the bit pattern: away from zero where y is farther out, else toward it. Of equal zeros the result is
    y, as in C, but in NumPy's float16, where it is x."""
    dtype = cell.operands[0]
    wide_x, wide_y = widen(x, dtype), widen(y, dtype)
    bits, other = _bits(x), _bits(y)
    outward = (wide_x < wide_y) ^ (wide_x < 0.0)
    stepped = outward.where(bits + 1, bits - 1)
    moved = wide_x.eq(0.0).where((other & _SIGN) | 1, stepped)
    kept = wide_x.eq(wide_y).where(bits if dtype is float16 else other, moved)
    result = wide_x.isnan().where(bits, wide_y.isnan().where(other, kept))
    return result.bitcast(x.element)


def spacing(cell: Cell, x: Lane) -> Lane:
    """The distance to the next number away from zero, with the sign of x; in float16 to the next number above."""
    dtype = cell.operands[0]
    bits, size = _bits(x), _bits(x) & _MAGNITUDE
    is_half = dtype is float16
    low = (bits.slt(0) & size.ne(0)).where(size - 1, size) if is_half else size
    gap = widen((low + 1).bitcast(x.element), dtype) - widen(low.bitcast(x.element), dtype)
    endless = size.eq(0x7C00 if is_half else 0x7F80)
    result = narrow(endless.where(gap.nan, gap), dtype)
    return result if is_half else (_bits(result) | (bits & _SIGN)).bitcast(x.element)
