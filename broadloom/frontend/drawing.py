"""What the distributions of `frontend.random` share: keys, counters, parameters, and formulas of float64 numbers.

What goes in: a key, parameters and a size as users write them. What comes out: a `Drawing`, which gives for each
element of the result words, uniform, normal and gamma numbers of its own.

What holds: element number i, in C order, of a result uses the counters (i, draw, stream) alone, so that numbers depend
on key and position only. Formulas are made of ops that have the same bits in NumPy and in native code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from broadloom import dtypes
from broadloom.dtypes import DType
from broadloom.frontend import shapes
from broadloom.frontend.operands import as_array, call, cast, constant, known_dtype
from broadloom.frontend.ufuncs import scalar
from broadloom.frontend.unsupported import NumpyRaises, Unsupported
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle
from broadloom.records import dataclass
from broadloom.symbolic import Expr, Size

SPLIT, FOLD = 0xFFFFFFFF << 32, 0xFFFFFFFE << 32  # the streams that keys are made from, of examples the one below;
# drawing uses lower ones
_NUMBERS = (int, float, np.bool_, np.integer, np.floating)


def invalid(what: str, got: object, allowed: str, remedy: str = "correct the argument") -> NumpyRaises:
    """The error for an argument that no distribution has, known before anything is computed."""
    return NumpyRaises(f"{what}; got {got}; allowed: {allowed}", remedy)


# ---- keys ------------------------------------------------------------------------------------------------------------


def word_of_key(r: Recorder, key: object) -> ArrayHandle:
    """The key as one word of 64 bits. Raises for what is no key."""
    if not isinstance(key, (ArrayHandle, np.ndarray)):
        raise invalid("no key", type(key).__name__, "an array of bl.random.key", "pass bl.random.key(seed)")
    k = as_array(r, key)
    if k.dtype is not dtypes.uint32 or k.ndim != 1 or not shapes.same(r, k.shape[0], 2):
        many = k.dtype is dtypes.uint32 and k.ndim > 1
        remedy = "map the function over the keys with bl.vmap" if many else "pass bl.random.key(seed)"
        raise invalid("no key", f"an array {k.type}", "uint32[2]", remedy)
    return call(r, "key_word", k)


def key_to_draw(r: Recorder, key: object) -> ArrayHandle:
    """The word of the key that numbers are drawn with, which is each example's own in a batched program."""
    return r.key_to_draw(word_of_key(r, key))


def key_of_words(r: Recorder, words: ArrayHandle) -> ArrayHandle:
    """Words as keys: a new last axis of 2."""
    return call(r, "word_key", words)


def word(r: Recorder, value: int) -> ArrayHandle:
    """A constant word."""
    return constant(r, value % 2**64, dtypes.uint64)


# ---- formulas --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """A float64 value of the program, with operators."""

    r: Recorder
    handle: ArrayHandle

    def of(self, value: float) -> Number:
        return Number(self.r, constant(self.r, value, dtypes.float64))

    def _call(self, op: str, *others: Number | float) -> Number:
        rest = [(o if isinstance(o, Number) else self.of(o)).handle for o in others]
        return Number(self.r, call(self.r, op, self.handle, *rest))

    def __add__(self, other: Number | float) -> Number:
        return self._call("add", other)

    def __sub__(self, other: Number | float) -> Number:
        return self._call("subtract", other)

    def __rsub__(self, other: float) -> Number:
        return self.of(other) - self

    def __mul__(self, other: Number | float) -> Number:
        return self._call("multiply", other)

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: Number | float) -> Number:
        return self._call("divide", other)

    def __rtruediv__(self, other: float) -> Number:
        return self.of(other) / self

    def __neg__(self) -> Number:
        return self._call("negative")

    def sqrt(self) -> Number:
        return self._call("sqrt")

    def floor(self) -> Number:
        return self._call("floor")

    def log(self) -> Number:
        return self._call("portable_log")

    def log1p(self) -> Number:
        return self._call("portable_log1p")

    def exp(self) -> Number:
        return self._call("portable_exp")

    def expm1(self) -> Number:
        return self._call("portable_expm1")

    def sinpi(self) -> Number:
        return self._call("portable_sinpi")

    def cospi(self) -> Number:
        return self._call("portable_cospi")

    def compare(self, op: str, other: Number | float) -> ArrayHandle:
        """Where "less", "less_equal", "equal" or "greater" holds."""
        return self._call(op, other).handle

    def where(self, condition: ArrayHandle, other: Number | float) -> Number:
        """This number where the condition holds, elsewhere the other."""
        rest = other if isinstance(other, Number) else self.of(other)
        return Number(self.r, call(self.r, "where", condition, self.handle, rest.handle))


# ---- parameters ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Domain:
    """The values that a parameter may have: how they are called, a test of a number, and one in the program."""

    name: str
    holds: Callable[[float], bool]
    test: Callable[[Number], ArrayHandle] | None


def _within(x: Number) -> ArrayHandle:
    low, high = x.of(0.0).compare("less_equal", x), x.compare("less_equal", 1.0)
    return call(x.r, "logical_and", low, high)


ANY = Domain("a number", lambda x: True, None)
NOT_NEGATIVE = Domain("0 or more", lambda x: x >= 0, lambda x: x.of(0.0).compare("less_equal", x))
POSITIVE = Domain("more than 0", lambda x: x > 0, lambda x: x.of(0.0).compare("less", x))
CHANCE = Domain("0 to 1", lambda x: 0 <= x <= 1, _within)
POSITIVE_CHANCE = Domain(
    "more than 0, up to 1",
    lambda x: 0 < x <= 1,
    lambda x: call(x.r, "logical_and", x.of(0.0).compare("less", x), x.compare("less_equal", 1.0)),
)
ABOVE_ONE = Domain("more than 1", lambda x: x > 1, lambda x: x.of(1.0).compare("less", x))
CHANCE_BELOW_ONE = Domain(
    "0 to 1, without 1",
    lambda x: 0 <= x < 1,
    lambda x: call(x.r, "logical_and", x.of(0.0).compare("less_equal", x), x.compare("less", 1.0)),
)
Given = tuple[str, object, Domain]


def parameter(r: Recorder, name: str, value: object, domain: Domain) -> tuple[Number, ArrayHandle | None]:
    """A parameter as float64, and where it is valid if that is known at run time alone. Raises for a number outside."""
    if isinstance(value, _NUMBERS) and not (domain.holds(float(value)) or math.isnan(value)):
        raise invalid(f"the parameter {name}", value, domain.name)
    x = as_array(r, value)
    if x.dtype.kind == "c":
        raise invalid(f"the parameter {name}", x.dtype, "real numbers", "take its real part")
    number = Number(r, cast(r, x, dtypes.float64))
    return number, None if isinstance(value, _NUMBERS) or domain.test is None else domain.test(number)


def result_shape(r: Recorder, size: object, given: Sequence[ArrayHandle]) -> shapes.Shape:
    """The shape of a result: `size`, into which all parameters broadcast, or what they broadcast to."""
    common = shapes.broadcast_shapes(r, *(x.shape for x in given))
    if size is None:
        return common
    shape = shapes.as_shape(size)
    for n in shape:
        if not isinstance(n, Expr) and n < 0:
            raise invalid("a size is negative", size, "0 or more")
    if len(common) > len(shape) or not shapes.same_shape(r, shapes.broadcast_shapes(r, common, shape), shape):
        raise invalid("the parameters do not broadcast into size", f"parameters {common}, size {shape}", "equal or 1")
    return shape


# ---- drawing ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """The random numbers of one call: those of each element of a result of `shape`; `parameters` as float64 and
    `valid`, where they are."""

    r: Recorder
    key: ArrayHandle
    index: ArrayHandle
    shape: shapes.Shape
    parameters: tuple[Number, ...]
    valid: ArrayHandle | None

    def counter(self, draw: int, stream: int = 0) -> ArrayHandle:
        return word(self.r, draw | stream << 32)

    def word(self, draw: int = 0, which: int = 0) -> ArrayHandle:
        """64 random bits; a draw has two words."""
        return call(self.r, "philox", self.index, self.counter(draw), self.key, word=which)

    def unit(self, draw: int = 0, which: int = 0) -> Number:
        """Uniform in [0, 1), a multiple of 2**-53."""
        return Number(self.r, call(self.r, "random_unit", self.word(draw, which), positive=False))

    def positive(self, draw: int = 0, which: int = 0) -> Number:
        """Uniform in (0, 1], of 64 bits."""
        return Number(self.r, call(self.r, "random_unit", self.word(draw, which), positive=True))

    def coin(self, draw: int = 0, which: int = 1) -> ArrayHandle:
        """True or false, each with a chance of 1/2: the last bit of a word."""
        return cast(self.r, call(self.r, "bitwise_and", self.word(draw, which), word(self.r, 1)), dtypes.bool_)

    def normal(self, draw: int = 0) -> Number:
        """Standard normal; takes both words."""
        return Number(self.r, call(self.r, "random_normal", self.index, self.counter(draw), self.key))

    def exponential(self, draw: int = 0, which: int = 0) -> Number:
        """Standard exponential, as fine as 64 bits in its tail: up to 45."""
        return -self.positive(draw, which).log()

    def gamma(self, shape: Number, stream: int = 0) -> tuple[Number, Number]:
        """(x, y) with x*exp(y) a standard gamma number; y is 0 from shape 1 on, below it the logarithm of u**(1/shape),
        which carries a number of shape + 1 down."""
        small = shape.compare("less", 1.0)
        raised = (shape + 1.0).where(small, shape)
        x = Number(self.r, call(self.r, "random_gamma", raised.handle, self.index, self.key, self.counter(0, stream)))
        u = Number(
            self.r,
            call(
                self.r,
                "random_unit",
                call(self.r, "philox", self.index, self.counter(2**31, stream), self.key, word=0),
                positive=True,
            ),
        )
        return x, (u.log() / shape).where(small, 0.0)

    def poisson(self, mean: Number, stream: int = 0) -> Number:
        return Number(
            self.r, call(self.r, "random_poisson", mean.handle, self.index, self.key, self.counter(0, stream))
        )

    def vonmises(self, kappa: Number) -> Number:
        return Number(self.r, call(self.r, "random_vonmises", kappa.handle, self.index, self.key, self.counter(0)))

    def zipf(self, a: Number) -> Number:
        return Number(self.r, call(self.r, "random_zipf", a.handle, self.index, self.key, self.counter(0)))

    def binomial(self, trials: Number, chance: Number, stream: int = 0) -> Number:
        operands = (trials.handle, chance.handle, self.index, self.key, self.counter(0, stream))
        return Number(self.r, call(self.r, "random_binomial", *operands))

    def finish(self, x: Number, dtype: DType) -> ArrayHandle:
        """The result: nan where a parameter is invalid, rounded once to its dtype, in C order; a nan becomes the least
        integer."""
        if self.valid is not None:
            x = x.where(self.valid, math.nan)
        return self.whole(cast(self.r, x.handle, dtype))

    def whole(self, x: ArrayHandle) -> ArrayHandle:
        """A result of the full shape, in C order."""
        return scalar(self.r, self.r.copy(shapes.expand(self.r, x, self.shape), "C"))


def drawing(r: Recorder, key: object, size: object, *given: Given, core: shapes.Shape = ()) -> Drawing:
    """The drawing of a call with these parameters; `core` stands behind the size in the result."""
    numbers, tests = [], []
    for name, value, domain in given:
        number, test = parameter(r, name, value, domain)
        numbers.append(number)
        tests += [] if test is None else [test]
    shape = (*result_shape(r, size, [n.handle for n in numbers]), *core)
    valid = None
    for test in tests:
        valid = test if valid is None else call(r, "logical_and", valid, test)
    return Drawing(r, key_to_draw(r, key), positions(r, shape), shape, tuple(numbers), valid)


def positions(r: Recorder, shape: shapes.Shape) -> ArrayHandle:
    """The number of each element in C order, as words."""
    if not shape:
        return word(r, 0)
    total: Size = shapes.count(shape)
    return shapes.reshape(r, call(r, "iota", size=total, dtype=dtypes.uint64), shape)


def float_dtype(dtype: object) -> DType:
    """A real floating dtype; float64 if none is given."""
    d = known_dtype(dtype)
    if d.kind != "f":
        raise invalid("the dtype of a continuous distribution", d, ", ".join(map(str, dtypes.FLOATS)))
    return d


def integer_dtype(dtype: object) -> DType:
    """An integer dtype; int64 if none is given."""
    d = dtypes.int64 if dtype is None else known_dtype(dtype)
    if not d.is_integer:
        raise invalid("the dtype of a count", d, ", ".join(map(str, dtypes.INTEGERS)))
    return d


def static_size(n: Size, what: str) -> int:
    """A size that must be known."""
    if isinstance(n, Expr):
        raise Unsupported(f"{what} of a symbolic size", "compile it with static sizes")
    return n
