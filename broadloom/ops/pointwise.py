"""Pointwise ops: NumPy's ufuncs, casts, `where`, `clip` and the error functions.

Every signature is `(),...->()`. The operands of one op have equal dtypes, those of NumPy's own loop; where NumPy has
no loop for a dtype the cell is empty and the caller casts first, as NumPy does. What holds for every cell: integers
wrap around; float16 and bfloat16 results are rounded once an op; no floating-point warning is emitted. Between 0.0
and -0.0 maximum, minimum, fmax, fmin and clip may give either: NumPy's own scalar and vector loops differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from broadloom.dtypes import ALL, FLOATS, INTEGERS, DType, bfloat16, bool_, complex64, complex128, float32, uint8
from broadloom.errors import DTypeError
from broadloom.lazy import scipy_special
from broadloom.ops import rules
from broadloom.ops.fused import fma
from broadloom.ops.record import Op, Sample, Trait
from broadloom.ops.rules import CAST_FIRST, INEXACT, NO_BITS, NUMERIC, REAL, UNORDERED, Array
from broadloom.ops.signature import Signature

_SIGNATURES = {n: Signature(((),) * n, ((),)) for n in (1, 2, 3)}
Result = Literal["same", "bool", "real"] | DType
Traits = frozenset[Trait]
CHEAP: Traits = frozenset({Trait.CHEAP})
EXPENSIVE: Traits = frozenset({Trait.EXPENSIVE})
COMMUTATIVE: Traits = frozenset({Trait.CHEAP, Trait.COMMUTATIVE})
PLAIN: Traits = frozenset()
SINGLE_AND_DOUBLE = "machines fuse a product and a sum in float32 and float64"


def quiet(function: Callable[..., Any]) -> Callable[..., Array]:
    """`function` of arrays, without floating-point warnings, always returning an array."""

    def kernel(*arrays: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(function(*arrays))

    return kernel


def pointwise(
    name: str,
    arity: int,
    function: Callable[..., Any],
    allowed: tuple[DType, ...],
    doc: str,
    *,
    result: Result = "same",
    traits: Traits = CHEAP,
    low: float | None = None,
    high: float | None = None,
    raises: Callable[[tuple[DType, ...], Mapping[str, Any]], bool] | None = None,
    **why: str,
) -> Op:
    """An op that applies one NumPy function to operands of one dtype; `why` holds reasons for `rules.reasons`."""
    empty = rules.reasons(allowed, **why)
    return Op(
        name=name,
        doc=doc,
        signature=lambda attrs: _SIGNATURES[arity],
        result_dtypes=rules.same_rule(name, empty, result),
        reference=quiet(function),
        arity=arity,
        traits=traits | {Trait.POINTWISE} | ({Trait.MAY_RAISE} if raises else set()),
        samples=(Sample(((),) * arity, low=low, high=high),),
        sample_dtypes=tuple((d,) * arity for d in allowed),
        raises=raises,
        empty=empty,
    )


def unary(name: str, function: Callable[..., Any], allowed: tuple[DType, ...], doc: str, **options: Any) -> Op:
    return pointwise(name, 1, function, allowed, doc, **options)


def binary(name: str, function: Callable[..., Any], allowed: tuple[DType, ...], doc: str, **options: Any) -> Op:
    return pointwise(name, 2, function, allowed, doc, **options)


def math(name: str, function: Callable[..., Any], doc: str, **options: Any) -> Op:
    """A transcendental function of real and complex floating numbers."""
    return unary(name, function, options.pop("allowed", INEXACT), doc, traits=EXPENSIVE, **options)


def comparison(name: str, function: Callable[..., Any], doc: str, traits: Traits = CHEAP) -> Op:
    return binary(name, function, ALL, doc, result="bool", traits=traits)


# ---- kernels that are not one ufunc -------------------------------------------------------------------------------


def _pow(x: Array, y: Array) -> Array:
    """`numpy.power` of whole arrays: for one exponent of all elements, which has stride 0, NumPy's loop takes a square
    root where it is 0.5."""
    if y.dtype.kind not in "fc":
        return np.asarray(np.power(x, y))
    shape = np.broadcast_shapes(x.shape, y.shape)
    whole = np.array(np.broadcast_to(y, shape), copy=True, ndmin=1)
    return np.asarray(np.power(x, whole)).reshape(shape)


def _abs_or_same(function: Callable[..., Any], kinds: str) -> Callable[..., Any]:
    return lambda x: x.copy() if x.dtype.kind in kinds else function(x)


def _narrow(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` for a library without 16-bit loops: computed in float32 and rounded once."""

    def kernel(x: Array) -> Array:
        narrow = x.dtype.itemsize == 2
        return np.asarray(function(x.astype(np.float32) if narrow else x)).astype(x.dtype)

    return kernel


def _erf(x: Array) -> Any:
    return scipy_special.erf(x)


def _erfc(x: Array) -> Any:
    return scipy_special.erfc(x)


def _real(x: Array) -> Array:
    return x.real if x.dtype.kind == "c" else x


def _imag(x: Array) -> Array:
    return x.imag if x.dtype.kind == "c" else np.zeros_like(x)


def _where(condition: Array, x: Array, y: Array) -> Array:
    return np.where(condition, x, y)


def _complex(real: Array, imag: Array) -> Array:
    result = np.empty(np.broadcast_shapes(real.shape, imag.shape), np.result_type(real.dtype, np.complex64))
    result.real, result.imag = real, imag
    return result


def _signed(x: Array, bits: int) -> Array:
    """The truncated values that fit a signed integer of `bits`; the lowest integer for all others and nan."""
    limit = 2.0 ** (bits - 1)
    fits = (x >= -limit) & (x < limit)
    return np.asarray(np.where(fits, x, -limit).astype(np.int64))


def _to_integer(x: Array, dtype: DType) -> Array:
    """What a float becomes as an integer; see `cast` for the values out of range."""
    wide = np.trunc(x.astype(np.float64))
    if dtype.name == "uint64":
        top = np.uint64(1 << 63)
        upper = _signed(wide - 2.0**63, 64).view(np.uint64) ^ top
        return np.asarray(np.where(wide >= 2.0**63, upper, _signed(wide, 64).view(np.uint64)))
    bits = 64 if dtype.name in ("int64", "uint32") else 32
    return _signed(wide, bits).astype(dtype.numpy)


def _cast(x: Array, dtype: DType) -> Array:
    with np.errstate(all="ignore"):
        if x.dtype.kind == "c" and dtype.kind not in "bc":
            x = x.real
        if dtype.is_integer and x.dtype.kind not in "biu":
            return _to_integer(x, dtype)
        return x.astype(dtype.numpy)


def _bitcast(x: Array, dtype: DType) -> Array:
    source = np.ascontiguousarray(x).reshape(x.shape)
    return np.asarray(source.view(np.uint8) != 0) if dtype is bool_ else source.view(dtype.numpy)


# ---- records ------------------------------------------------------------------------------------------------------


def _where_rule(dtypes: tuple[DType, ...], attrs: Mapping[str, Any]) -> tuple[DType, ...]:
    if dtypes[0] is not bool_:
        raise DTypeError("where: the condition is not bool", got=dtypes[0], allowed="bool", remedy="cast it")
    return (rules.require_same("where", dtypes[1:]),)


def _complex_rule(dtypes: tuple[DType, ...], attrs: Mapping[str, Any]) -> tuple[DType, ...]:
    d = rules.require_cell("complex", rules.require_same("complex", dtypes), _COMPLEX_EMPTY)
    return (complex64 if d is float32 else complex128,)


def _cast_rule(dtypes: tuple[DType, ...], attrs: Mapping[str, Any]) -> tuple[DType, ...]:
    return (rules.read_dtype("cast", attrs),)


def _bitcast_rule(dtypes: tuple[DType, ...], attrs: Mapping[str, Any]) -> tuple[DType, ...]:
    dtype = rules.read_dtype("bitcast", attrs)
    if dtype.itemsize != dtypes[0].itemsize:
        same = ", ".join(d.name for d in ALL if d.itemsize == dtypes[0].itemsize)
        raise DTypeError(f"bitcast: {dtypes[0]} has another width than {dtype}", got=dtype, allowed=same)
    return (dtype,)


_PAIRS = tuple(d for d in FLOATS if d.bits in (32, 64))
_COMPLEX_EMPTY = rules.reasons(
    _PAIRS,
    bools=CAST_FIRST,
    halves="there is no complex dtype of two 16-bit parts",
    complexes="the parts of a complex number are real",
)

_CAST = Op(
    name="cast",
    doc="""The value as another dtype, by C's rules as NumPy applies them. Integers wrap; nonzero (nan too) is True;
    complex to real drops the imaginary part; bfloat16 is reached through float32. A float goes to an integer
    truncated. Where it does not fit: to int8, int16, uint8, uint16 and int32 as int32 and then wrapped, where
    what does not fit int32, and nan, is -2**31; to uint32 as int64 and then wrapped, to int64 likewise, where
    what does not fit, and nan, is -2**63; to uint64, values from 2**63 on less 2**63 as int64 with the top bit
    flipped, others as int64. That is NumPy's value wherever NumPy has one.""",
    signature=lambda attrs: _SIGNATURES[1],
    result_dtypes=_cast_rule,
    reference=_cast,
    arity=1,
    attr_names=("dtype",),
    traits=frozenset({Trait.POINTWISE, Trait.CHEAP}),
    samples=tuple(Sample(((),), {"dtype": d}) for d in ALL),
    sample_dtypes=tuple((d,) for d in ALL),
)

_BITCAST = Op(
    name="bitcast",
    doc="""The same bytes as another dtype of the same width. As bool, every byte but 0 is True.""",
    signature=lambda attrs: _SIGNATURES[1],
    result_dtypes=_bitcast_rule,
    reference=_bitcast,
    arity=1,
    attr_names=("dtype",),
    traits=frozenset({Trait.POINTWISE, Trait.CHEAP}),
    samples=tuple(Sample(((),), {"dtype": d}) for d in ALL),
    sample_dtypes=tuple((d,) for d in ALL),
)

_WHERE = Op(
    name="where",
    doc="""`where(condition, x, y)`: x where the bool condition holds, y elsewhere.""",
    signature=lambda attrs: _SIGNATURES[3],
    result_dtypes=_where_rule,
    reference=_where,
    arity=3,
    traits=frozenset({Trait.POINTWISE, Trait.CHEAP}),
    samples=(Sample(((), (), ())),),
    sample_dtypes=tuple((bool_, d, d) for d in ALL),
    principal=1,
)

_COMPLEX = Op(
    name="complex",
    doc="""`complex(real, imag)`: the complex number of two parts, bit for bit.""",
    signature=lambda attrs: _SIGNATURES[2],
    result_dtypes=_complex_rule,
    reference=_complex,
    arity=2,
    traits=frozenset({Trait.POINTWISE, Trait.CHEAP}),
    samples=(Sample(((), ())),),
    sample_dtypes=tuple((d, d) for d in _PAIRS),
    empty=_COMPLEX_EMPTY,
)


def _negative_power(dtypes: tuple[DType, ...], attrs: Mapping[str, Any]) -> bool:
    return dtypes[0].kind == "i"


_BOOLINT = (bool_, *INTEGERS)
_BITS = {"floats": NO_BITS, "halves": NO_BITS, "complexes": NO_BITS}
_REAL_ONLY = {"complexes": UNORDERED}
_NO_DIVISOR = "only integers have a greatest common divisor in NumPy"
_WHOLE = {"floats": _NO_DIVISOR, "halves": _NO_DIVISOR, "complexes": _NO_DIVISOR}

UNARY = (
    unary("abs", np.absolute, ALL, "Magnitude; real for complex. The lowest integer stays itself.", result="real"),
    unary("negative", np.negative, NUMERIC, "0 - x; integers wrap.", bools="NumPy refuses it: use logical_not"),
    unary("positive", np.positive, NUMERIC, "x itself.", bools="NumPy refuses boolean positive"),
    unary("sign", np.sign, NUMERIC, "-1, 0, 1, nan; for complex x/abs(x).", bools="NumPy refuses boolean sign"),
    unary("sqrt", np.sqrt, INEXACT, "Square root; nan for negative reals.", low=0.0, traits=PLAIN),
    math("cbrt", np.cbrt, "Cube root.", allowed=FLOATS),
    unary("square", np.square, NUMERIC, "x * x."),
    unary("reciprocal", np.reciprocal, NUMERIC, "1 / x; for integers float64's 1 / x, cast back (see cast).",
          traits=EXPENSIVE),
    math("exp", np.exp, "e**x."),
    math("exp2", np.exp2, "2**x."),
    math("expm1", np.expm1, "e**x - 1, exact near 0."),
    math("log", np.log, "Natural logarithm.", low=0.0),
    math("log2", np.log2, "Logarithm to base 2.", low=0.0),
    math("log10", np.log10, "Logarithm to base 10.", low=0.0),
    math("log1p", np.log1p, "log(1 + x), exact near 0.", low=-1.0),
    math("sin", np.sin, "Sine of radians."),
    math("cos", np.cos, "Cosine of radians."),
    math("tan", np.tan, "Tangent of radians."),
    math("asin", np.arcsin, "Arc sine in radians.", low=-1.0, high=1.0),
    math("acos", np.arccos, "Arc cosine in radians.", low=-1.0, high=1.0),
    math("atan", np.arctan, "Arc tangent in radians."),
    math("sinh", np.sinh, "Hyperbolic sine."),
    math("cosh", np.cosh, "Hyperbolic cosine."),
    math("tanh", np.tanh, "Hyperbolic tangent."),
    math("asinh", np.arcsinh, "Inverse hyperbolic sine."),
    math("acosh", np.arccosh, "Inverse hyperbolic cosine.", low=1.0),
    math("atanh", np.arctanh, "Inverse hyperbolic tangent.", low=-1.0, high=1.0),
    math("erf", _narrow(_erf), "Error function; 16-bit floats through float32.",
         allowed=FLOATS, complexes="the error functions are defined here on the real line alone"),
    math("erfc", _narrow(_erfc), "1 - erf(x), exact far out; 16-bit through float32.",
         allowed=FLOATS, complexes="the error functions are defined here on the real line alone"),
    unary("floor", np.floor, (bool_, *REAL), "Largest integer not above x; bool and integers are kept.", **_REAL_ONLY),
    unary("ceil", np.ceil, (bool_, *REAL), "Smallest integer not below x; bool and integers are kept.", **_REAL_ONLY),
    unary("trunc", np.trunc, (bool_, *REAL), "x without its fraction; bool and integers are kept.", **_REAL_ONLY),
    unary("round", _abs_or_same(np.rint, "iu"), NUMERIC, "Nearest integer, ties to even; integers are kept.",
          bools="NumPy rounds bool as float16: cast first"),
    unary("isnan", np.isnan, ALL, "x is nan (either part).", result="bool"),
    unary("isinf", np.isinf, ALL, "x is infinite (either part).", result="bool"),
    unary("isfinite", np.isfinite, ALL, "x is neither nan nor infinite.", result="bool"),
    unary("signbit", np.signbit, FLOATS, "The sign bit is set: also for -0.0 and -nan.", result="bool"),
    unary("logical_not", np.logical_not, ALL, "x == 0.", result="bool"),
    unary("bitwise_count", np.bitwise_count, INTEGERS, "The number of ones in |x|, by its bits as unsigned; uint8.",
          result=uint8, **_BITS),
    unary("bitwise_invert", np.invert, _BOOLINT, "All bits flipped; `not` for bool.", **_BITS),
    unary("conj", np.conjugate, NUMERIC, "Complex conjugate.", bools="NumPy has no boolean conjugate loop"),
    unary("real", _real, ALL, "The real part; x itself for real dtypes.", result="real"),
    unary("imag", _imag, ALL, "The imaginary part; 0 for real dtypes.", result="real"),
)  # fmt: skip

BINARY = (
    binary("add", np.add, ALL, "x + y; `or` for bool.", traits=COMMUTATIVE),
    binary("subtract", np.subtract, NUMERIC, "x - y.", bools="NumPy refuses boolean subtract: use bitwise_xor"),
    binary("multiply", np.multiply, ALL, "x * y; `and` for bool.", traits=COMMUTATIVE),
    binary("divide", np.divide, INEXACT, "x / y.", traits=EXPENSIVE, bools=CAST_FIRST),
    binary("floor_divide", np.floor_divide, REAL,
           "Floor of x / y. Integers by 0 give 0, the lowest by -1 itself.", traits=EXPENSIVE, **_REAL_ONLY),
    binary("remainder", np.remainder, REAL, "x - floor(x/y)*y, with the sign of y. Integers by 0 give 0.",
           traits=EXPENSIVE, **_REAL_ONLY),
    binary("fmod", np.fmod, REAL, "C's remainder, with the sign of x. Integers by 0 give 0.",
           traits=EXPENSIVE, **_REAL_ONLY),
    binary("pow", _pow, NUMERIC, "x ** y. Raises ValueError where a signed integer exponent is negative.",
           traits=EXPENSIVE, low=0.0, high=8.0, raises=_negative_power),
    binary("atan2", np.arctan2, FLOATS, "Angle of the point (y, x), given y first.", traits=EXPENSIVE),
    binary("hypot", np.hypot, FLOATS, "sqrt(x*x + y*y) without overflow.",
           traits=EXPENSIVE | {Trait.COMMUTATIVE}),
    binary("copysign", np.copysign, FLOATS, "|x| with the sign bit of y."),
    binary("nextafter", np.nextafter, FLOATS, "The float next to x in the direction of y."),
    binary("maximum", np.maximum, ALL, "Larger value; nan wins; complex by (real, imag)."),
    binary("minimum", np.minimum, ALL, "Smaller value; nan wins; complex by (real, imag)."),
    binary("fmax", np.fmax, ALL, "Larger value; a number wins over nan."),
    binary("fmin", np.fmin, ALL, "Smaller value; a number wins over nan."),
    binary("logaddexp", np.logaddexp, FLOATS, "log(exp(x) + exp(y)) without overflow.",
           traits=EXPENSIVE | {Trait.COMMUTATIVE}),
    binary("logaddexp2", np.logaddexp2, FLOATS, "log2(2**x + 2**y) without overflow.",
           traits=EXPENSIVE | {Trait.COMMUTATIVE}),
    binary("heaviside", np.heaviside, FLOATS, "0 below zero, 1 above, y at zero; nan stays."),
    binary("gcd", np.gcd, INTEGERS, "Greatest common divisor of |x| and |y|, by their bits as unsigned; 0 of zeros.",
           traits=EXPENSIVE | {Trait.COMMUTATIVE}, **_WHOLE),
    comparison("logical_and", np.logical_and, "x != 0 and y != 0.", COMMUTATIVE),
    comparison("logical_or", np.logical_or, "x != 0 or y != 0.", COMMUTATIVE),
    comparison("logical_xor", np.logical_xor, "Exactly one of x, y is not 0.", COMMUTATIVE),
    binary("bitwise_and", np.bitwise_and, _BOOLINT, "x & y.", traits=COMMUTATIVE, **_BITS),
    binary("bitwise_or", np.bitwise_or, _BOOLINT, "x | y.", traits=COMMUTATIVE, **_BITS),
    binary("bitwise_xor", np.bitwise_xor, _BOOLINT, "x ^ y.", traits=COMMUTATIVE, **_BITS),
    binary("bitwise_left_shift", np.left_shift, INTEGERS, "x << y; 0 where y is negative or past the width.", **_BITS),
    binary("bitwise_right_shift", np.right_shift, INTEGERS,
           "x >> y; where y is negative or past the width 0, or -1 for negative x.", **_BITS),
    comparison("equal", np.equal, "x == y.", COMMUTATIVE),
    comparison("not_equal", np.not_equal, "x != y.", COMMUTATIVE),
    comparison("less", np.less, "x < y; complex by (real, imag)."),
    comparison("less_equal", np.less_equal, "x <= y; complex by (real, imag)."),
    comparison("greater", np.greater, "x > y; complex by (real, imag)."),
    comparison("greater_equal", np.greater_equal, "x >= y; complex by (real, imag)."),
)  # fmt: skip

TERNARY = (
    pointwise("clip", 3, np.clip, tuple(d for d in ALL if d is not bfloat16),
              "`clip(x, low, high)`: x within [low, high]; high wins; nan anywhere is nan.",
              halves="NumPy has no bfloat16 loop and clips in float32: cast first"),
    pointwise("fma", 3, fma, tuple(d for d in FLOATS if d.bits >= 32),
              "`fma(x, y, z)`: x * y + z, rounded once. Only the pass contract-multiply-add makes it.",
              bools=SINGLE_AND_DOUBLE, ints=SINGLE_AND_DOUBLE, halves=SINGLE_AND_DOUBLE, complexes=SINGLE_AND_DOUBLE),
)  # fmt: skip

OPS = (*UNARY, *BINARY, *TERNARY, _CAST, _BITCAST, _WHERE, _COMPLEX)
