"""Conversions between all dtypes, with one written value for each case that C leaves undefined.

What goes in: a value and its dtype, and the dtype wanted. What comes out: the value converted.

What holds, for floats outside the integer's range and nan: int64 and int32 give their smallest value; narrower
signed and unsigned types take the low bits of the int32 value, uint32 of the int64 value; uint64 wraps negative
values and gives 0 from 2**64 up and 2**63 for nan and below -2**63. nan is true. A complex loses its imaginary part.
float16 is rounded once, half to even, from float32 and float64; bfloat16 from float32, and from float64 by way of
float32, as NumPy's bfloat16 is; both from integers by way of float32.
"""

from __future__ import annotations

from broadloom.codegen.emit.cell import Pair, Value
from broadloom.codegen.lane import Lane, has_half
from broadloom.dtypes import DType, bfloat16, float16

FLOAT = {"float32": "float", "float64": "double"}


# ---- half and bfloat ----------------------------------------------------------------------------------------------


def half_to_float(x: Lane) -> Lane:
    """half -> float, exact."""
    if has_half(x.b.module):
        return x.convert("fpext", "float")
    bits = x.bitcast("i16").convert("zext", "i32")
    magnitude = bits & 0x7FFF
    normal = ((magnitude << 13) + (112 << 23)).as_float()
    subnormal = magnitude.convert("sitofp", "float") * 2.0**-24
    special = ((magnitude << 13) | 0x7F800000).as_float()
    value = magnitude.ult(0x400).where(subnormal, magnitude.ult(0x7C00).where(normal, special))
    return (value.as_int() | ((bits & 0x8000) << 16)).as_float()


def float_to_half(x: Lane) -> Lane:
    """float -> half, half to even."""
    if has_half(x.b.module):
        return x.convert("fptrunc", "half")
    bits = x.as_int()
    magnitude = bits & 0x7FFFFFFF
    normal = (magnitude + 0xFFF + (magnitude.lshr(13) & 1) - (112 << 23)).lshr(13)
    # |x| + 0.5 has the ulp 2**-24 of the half subnormals, so the sum rounds as they do.
    subnormal = (magnitude.as_float() + 0.5).as_int() - 0x3F000000
    result = magnitude.ult(0x38800000).where(subnormal, normal)
    result = magnitude.ult(0x477FF000).where(result, 0x7C00)
    nan = (magnitude.lshr(13) & 0x3FF) | 0x7E00
    result = magnitude.icmp("ugt", 0x7F800000).where(nan, result)
    return (result | (bits.lshr(16) & 0x8000)).convert("trunc", "i16").bitcast("half")


def bfloat_to_float(x: Lane) -> Lane:
    """bfloat16 bits (i16) -> float, exact."""
    return (x.convert("zext", "i32") << 16).as_float()


def float_to_bfloat(x: Lane) -> Lane:
    """float -> bfloat16 bits, half to even; a nan keeps its sign and becomes the quiet one."""
    bits = x.as_int()
    rounded = (bits + 0x7FFF + (bits.lshr(16) & 1)).lshr(16)
    nan = (bits.lshr(16) & 0x8000) | 0x7FC0
    return x.isnan().where(nan, rounded).convert("trunc", "i16")


def double_to_odd(x: Lane) -> Lane:
    """double -> float, inexact results made odd, so that rounding on to fewer bits rounds only once."""
    near = x.convert("fptrunc", "float")
    back = near.convert("fpext", "double")
    bits = near.as_int()
    toward_zero = (back.abs() > x.abs()).where(bits - 1, bits)
    odd = (toward_zero | 1).as_float()
    return ((back < x) | (back > x)).where(odd, near)


def widen(x: Lane, dtype: DType) -> Lane:
    """A float16 or bfloat16 lane as float; other lanes as they are."""
    if dtype is float16:
        return half_to_float(x)
    return bfloat_to_float(x) if dtype is bfloat16 else x


def narrow(x: Lane, dtype: DType) -> Lane:
    """A float lane as float16 or bfloat16; as it is for other dtypes."""
    if dtype is float16:
        return float_to_half(x)
    return float_to_bfloat(x) if dtype is bfloat16 else x


# ---- float to integer ---------------------------------------------------------------------------------------------


def _to_signed(x: Lane, bits: int) -> Lane:
    """Toward zero as i32 or i64; the smallest value out of range and for nan."""
    bound = 2.0 ** (bits - 1)
    inside = (x < bound) & (x >= -bound)
    if bits == 32 and x.bits == 64:
        inside = (x < bound) & (x > -bound - 1.0)
    converted = inside.where(x, 0.0).convert("fptosi", f"i{bits}")
    return inside.where(converted, 1 << (bits - 1))


def _float_to_int(x: Lane, dtype: DType) -> Lane:
    if dtype.bits < 32 or dtype.name == "int32":
        return _to_signed(x, 32).convert("trunc", f"i{dtype.bits}")
    if dtype.name == "uint64":
        bound = 2.0**63
        high = x >= bound
        shifted = high.where(x - bound, x)
        converted = _to_signed(shifted, 64)
        return high.where(converted ^ (1 << 63), converted)
    return _to_signed(x, 64).convert("trunc", f"i{dtype.bits}")


# ---- the cast -----------------------------------------------------------------------------------------------------


def _real(x: Lane, source: DType, target: DType) -> Lane:
    """A real value to a real dtype other than its own."""
    if target.kind == "b":
        if source.kind == "f":
            return widen(x, source).ne(0.0)
        return x.ne(0)
    if source.kind == "f":
        if target.kind == "f":
            return _float(x, source, target)
        return _float_to_int(widen(x, source), target)
    signed = source.kind == "i"
    if target.kind == "f":
        number = x.convert("sitofp" if signed else "uitofp", FLOAT.get(target.name, "float"))
        return narrow(number, target)
    if x.bits == target.bits:
        return x
    return x.convert("trunc" if target.bits < source.bits else "sext" if signed else "zext", f"i{target.bits}")


def _float(x: Lane, source: DType, target: DType) -> Lane:
    wide = widen(x, source)
    if target.name in FLOAT:
        element = FLOAT[target.name]
        if wide.element == element:
            return wide
        return wide.convert("fpext" if element == "double" else "fptrunc", element)
    if wide.element == "double":
        wide = double_to_odd(wide) if target is float16 else wide.convert("fptrunc", "float")
    return narrow(wide, target)


def cast(x: Value, source: DType, target: DType) -> Value:
    """`x` of dtype `source` as `target`."""
    if source is target:
        return x
    if isinstance(x, tuple):
        if target.kind == "c":
            return _as_pair(x[0], x[1], source.real, target.real)
        if target.kind == "b":
            return x[0].ne(0.0) | x[1].ne(0.0)
        return x[0] if source.real is target else _real(x[0], source.real, target)
    if target.kind == "c":
        part = x if source is target.real else _real(x, source, target.real)
        return part, part.lit(0.0)
    return _real(x, source, target)


def _as_pair(re: Lane, im: Lane, source: DType, target: DType) -> Pair:
    return _real(re, source, target), _real(im, source, target)
