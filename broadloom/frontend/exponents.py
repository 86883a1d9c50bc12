"""Functions that take floats apart or put them together by their exponents: frexp, ldexp, spacing.

What goes in: handles that have the dtypes of NumPy's loop. What comes out: what NumPy's loop gives, every bit of it:
no step rounds but the last one.
"""

from __future__ import annotations

import math

from broadloom import dtypes
from broadloom.frontend.operands import call, cast, constant, number
from broadloom.graph.storage import ArrayHandle, Recorder


def frexp(r: Recorder, x: ArrayHandle) -> tuple[ArrayHandle, ArrayHandle]:
    """The mantissa in [0.5, 1) and the int32 exponent; x itself and 0 where x is 0, infinite or nan."""
    wide = cast(r, x, dtypes.float32) if x.dtype.bits == 16 else x
    word = dtypes.BY_NAME[f"uint{wide.dtype.bits}"]
    digits, bias = (23, 127) if word.bits == 32 else (52, 1023)
    shift = digits + 1
    small = call(r, "less", call(r, "abs", wide), number(r, wide, 2.0 ** (1 - bias)))
    normal = call(r, "where", small, call(r, "multiply", wide, number(r, wide, 2.0**shift)), wide)
    bits = call(r, "bitcast", normal, dtype=word)
    field = ((1 << word.bits - 1 - digits) - 1) << digits
    rest = call(r, "bitwise_and", bits, constant(r, ~field & (1 << word.bits) - 1, word))
    half = call(r, "bitwise_or", rest, constant(r, (bias - 1) << digits, word))
    biased = call(r, "bitwise_and", bits, constant(r, field, word))
    biased = cast(r, call(r, "bitwise_right_shift", biased, constant(r, digits, word)), dtypes.int32)
    offset = call(r, "where", small, *(constant(r, k, dtypes.int32) for k in (bias - 1 + shift, bias - 1)))
    whole = call(r, "logical_and", call(r, "isfinite", wide), call(r, "not_equal", wide, number(r, wide, 0)))
    mantissa = call(r, "where", whole, call(r, "bitcast", half, dtype=wide.dtype), wide)
    exponent = call(r, "where", whole, call(r, "subtract", biased, offset), constant(r, 0, dtypes.int32))
    return cast(r, mantissa, x.dtype), exponent


def ldexp(r: Recorder, x: ArrayHandle, n: ArrayHandle) -> ArrayHandle:
    """x * 2**n, rounded once. Narrow floats in float64, which holds the product exactly; float64 by three factors."""
    if x.dtype is dtypes.float64:
        return _scaled(r, x, _clamped(r, n, 2100))
    wide = cast(r, x, dtypes.float64)
    return cast(r, call(r, "multiply", wide, _power(r, _clamped(r, n, 300))), x.dtype)


def _clamped(r: Recorder, n: ArrayHandle, limit: int) -> ArrayHandle:
    """n within [-limit, limit], beyond which every product is 0 or infinite, as int64."""
    above = call(r, "maximum", n, constant(r, -limit, n.dtype))
    return cast(r, call(r, "minimum", above, constant(r, limit, n.dtype)), dtypes.int64)


def _power(r: Recorder, n: ArrayHandle) -> ArrayHandle:
    """2**n for int64 n in [-1022, 1023]."""
    biased = call(r, "add", n, constant(r, 1023, dtypes.int64))
    bits = call(r, "bitwise_left_shift", biased, constant(r, 52, dtypes.int64))
    return call(r, "bitcast", bits, dtype=dtypes.float64)


def _scaled(r: Recorder, x: ArrayHandle, n: ArrayHandle) -> ArrayHandle:
    """Twice a step of 2**1023 or 2**-969 while n is out of range. What is left after a step down is below -53, so a
    product that the step has rounded to a subnormal number becomes 0 and is not rounded a second time."""

    def const(value: int) -> ArrayHandle:
        return constant(r, value, dtypes.int64)

    for _ in range(2):
        up, down = call(r, "greater", n, const(1023)), call(r, "less", n, const(-1022))
        step = call(r, "where", up, const(1023), call(r, "where", down, const(-969), const(0)))
        x, n = call(r, "multiply", x, _power(r, step)), call(r, "subtract", n, step)
    n = call(r, "maximum", call(r, "minimum", n, const(1023)), const(-1022))
    return call(r, "multiply", x, _power(r, n))


def spacing(r: Recorder, x: ArrayHandle) -> ArrayHandle:
    """The distance to the next number away from zero, with the sign of x; of float16 to the next number above. That of
    -0.0 is positive, except in bfloat16."""
    away = number(r, x, math.inf)
    if x.dtype is not dtypes.float16:
        is_zero = call(r, "equal", x, number(r, x, 0))
        signed = x if x.dtype is dtypes.bfloat16 else call(r, "where", is_zero, number(r, x, 0), x)
        away = call(r, "copysign", away, signed)
    gap = call(r, "subtract", call(r, "nextafter", x, away), x)
    return call(r, "where", call(r, "isinf", x), number(r, x, math.nan), gap)
