"""What each ufunc computes, as ops: one entry for each NumPy ufunc.

What goes in: handles that have the dtypes of the resolved loop. What comes out: a handle, or one for each result.
Where one op is the ufunc, the entry is the op's name; where NumPy's loop is a short formula, the entry is that
formula with NumPy's own order of operations, so that results are bit-equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from broadloom import dtypes
from broadloom.dtypes import DType
from broadloom.frontend.operands import call, cast, constant
from broadloom.frontend.unsupported import Unsupported
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle

Results = ArrayHandle | tuple[ArrayHandle, ...]
Loop = Callable[..., Results]

OPS: dict[np.ufunc, str] = {
    np.add: "add",
    np.subtract: "subtract",
    np.multiply: "multiply",
    np.divide: "divide",
    np.floor_divide: "floor_divide",
    np.remainder: "remainder",
    np.fmod: "fmod",
    np.power: "pow",
    np.float_power: "pow",
    np.arctan2: "atan2",
    np.hypot: "hypot",
    np.copysign: "copysign",
    np.nextafter: "nextafter",
    np.maximum: "maximum",
    np.minimum: "minimum",
    np.fmax: "fmax",
    np.fmin: "fmin",
    np.logaddexp: "logaddexp",
    np.logaddexp2: "logaddexp2",
    np.heaviside: "heaviside",
    np.ldexp: "ldexp",
    np.spacing: "spacing",
    np.gcd: "gcd",
    np.logical_and: "logical_and",
    np.logical_or: "logical_or",
    np.logical_xor: "logical_xor",
    np.logical_not: "logical_not",
    np.bitwise_and: "bitwise_and",
    np.bitwise_or: "bitwise_or",
    np.bitwise_xor: "bitwise_xor",
    np.left_shift: "bitwise_left_shift",
    np.right_shift: "bitwise_right_shift",
    np.invert: "bitwise_invert",
    np.bitwise_count: "bitwise_count",
    np.equal: "equal",
    np.not_equal: "not_equal",
    np.less: "less",
    np.less_equal: "less_equal",
    np.greater: "greater",
    np.greater_equal: "greater_equal",
    np.absolute: "abs",
    np.fabs: "abs",
    np.negative: "negative",
    np.positive: "positive",
    np.sign: "sign",
    np.sqrt: "sqrt",
    np.cbrt: "cbrt",
    np.square: "square",
    np.reciprocal: "reciprocal",
    np.exp: "exp",
    np.exp2: "exp2",
    np.expm1: "expm1",
    np.log: "log",
    np.log2: "log2",
    np.log10: "log10",
    np.log1p: "log1p",
    np.sin: "sin",
    np.cos: "cos",
    np.tan: "tan",
    np.arcsin: "asin",
    np.arccos: "acos",
    np.arctan: "atan",
    np.sinh: "sinh",
    np.cosh: "cosh",
    np.tanh: "tanh",
    np.arcsinh: "asinh",
    np.arccosh: "acosh",
    np.arctanh: "atanh",
    np.floor: "floor",
    np.ceil: "ceil",
    np.trunc: "trunc",
    np.rint: "round",
    np.isnan: "isnan",
    np.isinf: "isinf",
    np.isfinite: "isfinite",
    np.signbit: "signbit",
    np.conjugate: "conj",
}

# NumPy's loops on bool are logic; where it has none (subtract, negative, positive), resolving the loop has raised.
BOOL_OPS: dict[np.ufunc, str] = {
    np.add: "logical_or",
    np.multiply: "logical_and",
    np.maximum: "logical_or",
    np.minimum: "logical_and",
    np.fmax: "logical_or",
    np.fmin: "logical_and",
    np.invert: "logical_not",
    np.bitwise_and: "logical_and",
    np.bitwise_or: "logical_or",
    np.bitwise_xor: "logical_xor",
    np.not_equal: "logical_xor",
}

UNCHANGED_ON_INTEGERS = frozenset({np.floor, np.ceil, np.trunc, np.conjugate, np.positive})
COMPARISONS = frozenset({np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal})


def loop(r: Recorder, u: np.ufunc, args: tuple[ArrayHandle, ...], loop_dtypes: tuple[DType, ...]) -> Results:
    """Run the loop of `u` for operands that have the loop's dtypes."""
    composed = COMPOSED.get(u)
    if composed is not None:
        results = composed(r, *args)
        if isinstance(results, tuple):
            return tuple(r.arrange(x, args) for x in results)
        return r.arrange(results, args)
    first = args[0].dtype
    if u in COMPARISONS and first is not args[1].dtype:
        return _compare_signs_apart(r, u, *args)
    if (u in UNCHANGED_ON_INTEGERS and first.kind in "bui") or (u is np.absolute and first.kind in "bu"):
        return unchanged(r, args[0])
    if u in (np.isnan, np.isinf) and first.kind in "bui":
        return call(r, "not_equal", args[0], args[0])
    if u is np.isfinite and first.kind in "bui":
        return call(r, "equal", args[0], args[0])
    name = BOOL_OPS.get(u) if first is dtypes.bool_ else None
    name = name or OPS.get(u)
    if name is None:
        raise Unsupported(f"np.{u.__name__} is not captured", "call it outside the compiled function")
    result = call(r, name, *args)
    return cast(r, result, loop_dtypes[-1]) if isinstance(result, ArrayHandle) else result


def unchanged(r: Recorder, x: ArrayHandle) -> ArrayHandle:
    """The values of `x` as a ufunc would return them: a fresh array in the iterator's order."""
    if x.dtype is dtypes.bool_:
        return call(r, "not_equal", x, constant(r, False))
    return call(r, "positive", x)


def _compare_signs_apart(r: Recorder, u: np.ufunc, a: ArrayHandle, b: ArrayHandle) -> ArrayHandle:
    """int64 against uint64, exactly: a negative number is below all of the other side."""
    signed_first = a.dtype is dtypes.int64
    signed = a if signed_first else b
    negative = call(r, "less", signed, constant(r, 0, dtypes.int64))
    cast_a, cast_b = cast(r, a, dtypes.uint64), cast(r, b, dtypes.uint64)
    compared = call(r, OPS[u], cast_a, cast_b)
    below = {np.less, np.less_equal} if signed_first else {np.greater, np.greater_equal}
    if u in below or u is np.not_equal:
        return call(r, "logical_or", negative, compared)
    return call(r, "logical_and", call(r, "logical_not", negative), compared)


def _scaled(numerator: float, denominator: float) -> Loop:
    """x * (numerator / denominator), the quotient rounded in the dtype of the loop (float16 runs in float32)."""

    def run(r: Recorder, x: ArrayHandle) -> ArrayHandle:
        wide = dtypes.float32 if x.dtype.bits == 16 else x.dtype
        scalar = wide.numpy.type
        factor = scalar(numerator) / scalar(denominator)
        return cast(r, call(r, "multiply", cast(r, x, wide), constant(r, factor, wide)), x.dtype)

    return run


def _divmod(r: Recorder, x: ArrayHandle, y: ArrayHandle) -> Results:
    return call(r, "floor_divide", x, y), call(r, "remainder", x, y)


def _modf(r: Recorder, x: ArrayHandle) -> Results:
    return call(r, "fraction", x), call(r, "trunc", x)


def _lcm(r: Recorder, x: ArrayHandle, y: ArrayHandle) -> ArrayHandle:
    """|x| / gcd * |y| without sign, and 0 where both are 0; it wraps around, as NumPy's."""
    word = dtypes.BY_NAME[f"uint{x.dtype.bits}"]
    a, b = (cast(r, call(r, "abs", v), word) for v in (x, y))
    return cast(r, call(r, "multiply", call(r, "floor_divide", a, call(r, "gcd", a, b)), b), x.dtype)


def _frexp(r: Recorder, x: ArrayHandle) -> Results:
    return call(r, "mantissa", x), call(r, "exponent", x)


COMPOSED: dict[np.ufunc, Loop] = {
    np.deg2rad: _scaled(math.pi, 180.0),
    np.radians: _scaled(math.pi, 180.0),
    np.rad2deg: _scaled(180.0, math.pi),
    np.degrees: _scaled(180.0, math.pi),
    np.divmod: _divmod,
    np.modf: _modf,
    np.frexp: _frexp,
    np.lcm: _lcm,
}
