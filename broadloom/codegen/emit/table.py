"""The table of emitters: for each pointwise op, a column for each kind of operand dtype.

Columns: "b" bool, "u" and "i" integers, "f" floats, "c" complexes. A missing column is an empty cell of the op table.
"""

from __future__ import annotations

from collections.abc import Callable

from broadloom.codegen import vmath
from broadloom.codegen.emit import booleans, complex_math, complexes, exponents, floats, halves, integers, random
from broadloom.codegen.emit.cell import Cell, Emitter, Row, Value
from broadloom.codegen.lane import Lane


def _row(b: Emitter | None = None, i: Emitter | None = None, f: Emitter | None = None, c: Emitter | None = None) -> Row:
    """A row; `i` serves signed and unsigned integers."""
    columns = (("b", b), ("u", i), ("i", i), ("f", f), ("c", c))
    return {kind: emitter for kind, emitter in columns if emitter is not None}


def _every(emitter: Emitter) -> Row:
    return dict.fromkeys("buifc", emitter)


def _math(name: str, c: Emitter | None = None) -> Row:
    """A function of the math library on floats."""

    def real(_: Cell, *x: Lane) -> Lane:
        return vmath.call(name, *x)

    return _row(f=real, c=c)


def _complex_math(name: str) -> Row:
    """A function of the math library that complexes have too."""
    function: Callable[..., Value] = complex_math.FUNCTIONS[name]

    def pair(_: Cell, *z: Value) -> Value:
        return function(*z)

    return _math(name, pair)


_ROUNDED = {"b": integers.identity, "u": integers.identity, "i": integers.identity}
_COMPLEX_MATH = "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh"

EMITTERS: dict[str, Row] = {
    # unary
    "abs": _row(integers.identity, integers.absolute, floats.absolute, complexes.absolute),
    "negative": _row(None, integers.negative, floats.negative, complexes.negative),
    "positive": _row(None, integers.identity, floats.identity, complexes.identity),
    "sign": _row(None, integers.sign, floats.sign, complexes.sign),
    "sqrt": _row(None, None, floats.sqrt, lambda _, z: complex_math.sqrt(z)),
    "cbrt": _math("cbrt"),
    "square": _row(None, integers.square, floats.square, complexes.square),
    "reciprocal": _row(None, integers.reciprocal, floats.reciprocal, complexes.reciprocal),
    **{name: _complex_math(name) for name in _COMPLEX_MATH.split()},
    "erf": _math("erf"),
    "erfc": _math("erfc"),
    "floor": {**_ROUNDED, "f": floats.floor},
    "ceil": {**_ROUNDED, "f": floats.ceil},
    "trunc": {**_ROUNDED, "f": floats.trunc},
    "round": _row(None, integers.identity, floats.round_even, complexes.round_even),
    "isnan": _row(integers.never, integers.never, floats.isnan, complexes.isnan),
    "isinf": _row(integers.never, integers.never, floats.isinf, complexes.isinf),
    "isfinite": _row(integers.always, integers.always, floats.isfinite, complexes.isfinite),
    "signbit": _row(f=floats.signbit),
    "logical_not": _every(booleans.logical_not),
    "bitwise_count": _row(None, integers.bitwise_count),
    "bitwise_invert": _row(booleans.invert, integers.bitwise_invert),
    "conj": _row(None, integers.identity, floats.identity, complexes.conj),
    "real": _row(integers.identity, integers.identity, floats.identity, complexes.real),
    "imag": _row(integers.zero, integers.zero, floats.zero, complexes.imag),
    "cast": _every(booleans.cast),
    "bitcast": _every(booleans.bitcast),
    # binary
    "add": _row(booleans.either, integers.add, floats.add, complexes.add),
    "subtract": _row(None, integers.subtract, floats.subtract, complexes.subtract),
    "multiply": _row(booleans.both, integers.multiply, floats.multiply, complexes.multiply),
    "divide": _row(None, None, floats.divide, complexes.divide),
    "floor_divide": _row(None, integers.floor_divide, floats.floor_divide),
    "remainder": _row(None, integers.remainder, floats.remainder),
    "fmod": _row(None, integers.fmod, floats.fmod),
    "pow": _row(None, integers.power, lambda _, x, y: vmath.call("pow", x, y), lambda _, x, y: complex_math.pow_(x, y)),
    "atan2": _math("atan2"),
    "hypot": _math("hypot"),
    "copysign": _row(None, None, floats.copysign),
    "nextafter": _row(None, None, floats.nextafter),
    "maximum": _row(booleans.either, integers.maximum, floats.maximum, complexes.maximum),
    "minimum": _row(booleans.both, integers.minimum, floats.minimum, complexes.minimum),
    "fmax": _row(booleans.either, integers.maximum, floats.fmax, complexes.fmax),
    "fmin": _row(booleans.both, integers.minimum, floats.fmin, complexes.fmin),
    "logaddexp": _math("logaddexp"),
    "logaddexp2": _math("logaddexp2"),
    "heaviside": _row(f=floats.heaviside),
    "mantissa": _row(f=exponents.mantissa),
    "exponent": _row(f=exponents.exponent),
    "fraction": _row(f=exponents.fraction),
    "spacing": _row(f=exponents.spacing),
    "ldexp": {"i": exponents.ldexp},
    "gcd": _row(None, integers.gcd),
    "logical_and": _every(booleans.logical_and),
    "logical_or": _every(booleans.logical_or),
    "logical_xor": _every(booleans.logical_xor),
    "bitwise_and": _row(booleans.both, integers.bitwise_and),
    "bitwise_or": _row(booleans.either, integers.bitwise_or),
    "bitwise_xor": _row(booleans.differ, integers.bitwise_xor),
    "bitwise_left_shift": _row(None, integers.left_shift),
    "bitwise_right_shift": _row(None, integers.right_shift),
    "equal": _row(booleans.alike, integers.equal, floats.equal, complexes.equal),
    "not_equal": _row(booleans.differ, integers.not_equal, floats.not_equal, complexes.not_equal),
    "less": _row(booleans.less, integers.less, floats.less, complexes.less),
    "less_equal": _row(booleans.less_equal, integers.less_equal, floats.less_equal, complexes.less_equal),
    "greater": _row(booleans.greater, integers.greater, floats.greater, complexes.greater),
    "greater_equal": _row(
        booleans.greater_equal, integers.greater_equal, floats.greater_equal, complexes.greater_equal
    ),
    "complex": _row(f=complexes.make),
    # ternary
    "where": _every(booleans.where),
    "interpolate": _row(f=floats.interpolate),
    "clip": _row(booleans.clip, integers.clip, floats.clip, complexes.clip),
    "fma": _row(f=floats.fma),
    **random.ROWS,
}

# 16-bit floats: ops whose ordinary emitter takes them as they are, and ops with an emitter of their own.
HALF_NATIVE = frozenset(("cast", "bitcast", "where", "logical_not", "logical_and", "logical_or", "logical_xor"))
HALF_ROWS: dict[str, Emitter] = {
    "abs": halves.absolute,
    "negative": halves.negative,
    "positive": halves.identity,
    "conj": halves.identity,
    "real": halves.identity,
    "imag": halves.zero,
    "signbit": halves.signbit,
    "copysign": halves.copysign,
    "nextafter": halves.nextafter,
    "spacing": halves.spacing,
}
