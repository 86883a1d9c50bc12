"""Keyed random numbers: the entries of `bl.random`, where each function is described.

What goes in: a key and the parameters of NumPy's `Generator`. What comes out: fresh arrays; a NumPy scalar where the
result has no axes. What holds: numbers are computed in float64, by formulas of ops whose bits are the same everywhere,
and rounded once to the dtype of the result. A parameter outside its domain raises if it is a number; in an array it
gives nan, and the least integer where the result is one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from broadloom import dtypes
from broadloom.dtypes import DType
from broadloom.frontend.drawing import (
    ABOVE_ONE,
    ANY,
    CHANCE,
    CHANCE_BELOW_ONE,
    FOLD,
    NOT_NEGATIVE,
    POSITIVE,
    POSITIVE_CHANCE,
    SPLIT,
    Drawing,
    Number,
    drawing,
    float_dtype,
    integer_dtype,
    invalid,
    key_of_words,
    key_to_draw,
    positions,
    result_shape,
    word,
    word_of_key,
)
from broadloom.frontend.operands import as_array, call, cast, constant, known_dtype
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle, WeakScalar

# ---- keys ------------------------------------------------------------------------------------------------------------


def key(r: Recorder, seed: object) -> ArrayHandle:
    """`bl.random.key`."""
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool):
        if not -(2**63) <= int(seed) < 2**64:
            raise invalid("a seed needs more than 64 bits", seed, "-2**63 to 2**64 - 1", "take it modulo 2**64")
        return r.copy(constant(r, [int(seed) % 2**32, (int(seed) >> 32) % 2**32], dtypes.uint32))
    if not isinstance(seed, (ArrayHandle, WeakScalar)):
        raise invalid("a seed", type(seed).__name__, "an integer")
    x = as_array(r, seed)
    if not x.dtype.is_integer:
        raise invalid("a seed", x.dtype, "an integer")
    return key_of_words(r, cast(r, x, dtypes.uint64))


def split(r: Recorder, key: object, n: object = 2) -> ArrayHandle:
    """`bl.random.split`."""
    shape = result_shape(r, n, ())
    return key_of_words(r, call(r, "philox", positions(r, shape), word(r, SPLIT), word_of_key(r, key), word=0))


def fold_in(r: Recorder, key: object, data: object) -> ArrayHandle:
    """`bl.random.fold_in`."""
    if isinstance(data, int) and not -(2**63) <= data < 2**64:
        raise invalid("a number to fold in needs more than 64 bits", data, "-2**63 to 2**64 - 1")
    x = word(r, data) if isinstance(data, int) else as_array(r, data)
    if not x.dtype.is_integer:
        raise invalid("a number to fold in", x.dtype, "an integer")
    return key_of_words(r, call(r, "philox", cast(r, x, dtypes.uint64), word(r, FOLD), word_of_key(r, key), word=0))


# ---- bits and uniform numbers ----------------------------------------------------------------------------------------


def bits(r: Recorder, key: object, size: object = None, dtype: object = None) -> ArrayHandle:
    """`bl.random.bits`."""
    d = dtypes.uint64 if dtype is None else known_dtype(dtype)
    if d.kind != "u":
        raise invalid("the dtype of bits", d, "uint8, uint16, uint32, uint64")
    draw = drawing(r, key, size)
    return draw.whole(cast(r, draw.word(), d))


def random(r: Recorder, key: object, size: object = None, dtype: object = None) -> ArrayHandle:
    """`bl.random.random`: as many bits as the dtype has in [1/2, 1)."""
    d, draw = float_dtype(dtype), drawing(r, key, size)
    if d is dtypes.float64:
        return draw.whole(draw.unit().handle)
    precision = {"float32": 24, "float16": 11, "bfloat16": 8}[d.name]
    upper = cast(r, call(r, "bitwise_right_shift", draw.word(), word(r, 64 - precision)), dtypes.uint32)
    small = call(r, "multiply", cast(r, upper, dtypes.float32), constant(r, 2.0**-precision, dtypes.float32))
    return draw.whole(cast(r, small, d))


def uniform(
    r: Recorder, key: object, low: object = 0.0, high: object = 1.0, size: object = None, dtype: object = None
) -> ArrayHandle:
    """`bl.random.uniform`."""
    draw = drawing(r, key, size, ("low", low, ANY), ("high", high, ANY))
    first, last = draw.parameters
    return draw.finish(first + (last - first) * draw.unit(), float_dtype(dtype))


def bernoulli(r: Recorder, key: object, p: object = 0.5, size: object = None) -> ArrayHandle:
    """`bl.random.bernoulli`: false where p is not in [0, 1]."""
    draw = drawing(r, key, size, ("p", p, CHANCE))
    drawn = draw.unit().compare("less", draw.parameters[0])
    return draw.whole(drawn if draw.valid is None else call(r, "logical_and", drawn, draw.valid))


def integers(
    r: Recorder,
    key: object,
    low: object,
    high: object = None,
    size: object = None,
    dtype: object = None,
    endpoint: bool = False,
) -> ArrayHandle:
    """`bl.random.integers`."""
    d = dtypes.int64 if dtype is None else known_dtype(dtype)
    if not d.is_integer and d is not dtypes.bool_:
        raise invalid("the dtype of integers", d, "bool and integer dtypes")
    low, high = (0, low) if high is None else (low, high)
    wide = dtypes.uint64 if d is dtypes.uint64 else dtypes.int64
    first, last, static = _bounds(r, low, high, endpoint, d, wide)
    draw = Drawing(r, key_to_draw(r, key), word(r, 0), result_shape(r, size, (first, last)), (), None)
    draw = Drawing(r, draw.key, positions(r, draw.shape), draw.shape, (), None)
    count = call(r, "add", call(r, "subtract", _as_word(r, last), _as_word(r, first)), word(r, 1))
    if not static:
        count = call(r, "where", call(r, "less", last, first), word(r, 1), count)
    offset = call(r, "random_below", draw.index, draw.counter(0), draw.key, count)
    total = call(r, "add", _as_word(r, first), offset)
    return draw.whole(cast(r, total if wide is dtypes.uint64 else call(r, "bitcast", total, dtype=wide), d))


def _as_word(r: Recorder, x: ArrayHandle) -> ArrayHandle:
    return x if x.dtype is dtypes.uint64 else call(r, "bitcast", x, dtype=dtypes.uint64)


def _bounds(
    r: Recorder, low: Any, high: Any, endpoint: bool, d: DType, wide: DType
) -> tuple[ArrayHandle, ArrayHandle, bool]:
    """The first and the last integer, of the dtype `wide`, and whether they are known. Raises for an empty range and
    for what the dtype does not hold."""
    limits = (0, 1) if d is dtypes.bool_ else (int(np.iinfo(d.numpy).min), int(np.iinfo(d.numpy).max))
    known = [isinstance(x, (int, np.integer)) for x in (low, high)]
    if known[0] and not limits[0] <= int(low) <= limits[1]:
        raise invalid("low does not fit the dtype", f"{low} for {d}", f"{limits[0]} to {limits[1]}")
    past = 0 if endpoint else 1
    if known[1] and not limits[0] <= int(high) - past <= limits[1]:
        raise invalid("high does not fit the dtype", f"{high} for {d}", f"{limits[0] + past} to {limits[1] + past}")
    if all(known) and int(high) - past < int(low):
        raise invalid("no integer lies between low and high", f"low={low}, high={high}", "low below high")
    first = _bound(r, int(low) if known[0] else low, wide)
    last = _bound(r, int(high) - past if known[1] else high, wide)
    if not endpoint and not known[1]:
        last = call(r, "subtract", last, constant(r, 1, wide))
    return first, last, all(known)


def _bound(r: Recorder, x: object, wide: DType) -> ArrayHandle:
    if isinstance(x, int):
        return constant(r, x, wide)
    a = as_array(r, x)
    if not a.dtype.is_integer and a.dtype is not dtypes.bool_:
        raise invalid("a bound of integers", a.dtype, "integers", "round it first")
    return cast(r, a, wide)


# ---- normal numbers and what is made of them -------------------------------------------------------------------------


def standard_normal(r: Recorder, key: object, size: object = None, dtype: object = None) -> ArrayHandle:
    """`bl.random.standard_normal`."""
    draw = drawing(r, key, size)
    return draw.finish(draw.normal(), float_dtype(dtype))


def normal(
    r: Recorder, key: object, loc: object = 0.0, scale: object = 1.0, size: object = None, dtype: object = None
) -> ArrayHandle:
    """`bl.random.normal`."""
    draw = drawing(r, key, size, ("loc", loc, ANY), ("scale", scale, NOT_NEGATIVE))
    mean, deviation = draw.parameters
    return draw.finish(mean + deviation * draw.normal(), float_dtype(dtype))


def lognormal(
    r: Recorder, key: object, mean: object = 0.0, sigma: object = 1.0, size: object = None, dtype: object = None
) -> ArrayHandle:
    """`bl.random.lognormal`."""
    draw = drawing(r, key, size, ("mean", mean, ANY), ("sigma", sigma, NOT_NEGATIVE))
    centre, deviation = draw.parameters
    return draw.finish((centre + deviation * draw.normal()).exp(), float_dtype(dtype))


def wald(
    r: Recorder, key: object, mean: object, scale: object, size: object = None, dtype: object = None
) -> ArrayHandle:
    """`bl.random.wald`."""
    draw = drawing(r, key, size, ("mean", mean, POSITIVE), ("scale", scale, POSITIVE))
    centre, shape = draw.parameters
    z = draw.normal(0)
    half = centre * z * z / (shape + shape)
    # the smaller root of the quadratic, as 1 over the larger: no digits cancel
    smaller = centre / (1.0 + half + (half * (half + 2.0)).sqrt())
    larger = centre * (centre / smaller)
    first = draw.unit(1).compare("less_equal", centre / (centre + smaller))
    return draw.finish(smaller.where(first, larger), float_dtype(dtype))


# ---- exponential numbers and what is made of them --------------------------------------------------------------------


def standard_exponential(r: Recorder, key: object, size: object = None, dtype: object = None) -> ArrayHandle:
    """`bl.random.standard_exponential`."""
    draw = drawing(r, key, size)
    return draw.finish(draw.exponential(), float_dtype(dtype))


def exponential(
    r: Recorder, key: object, scale: object = 1.0, size: object = None, dtype: object = None
) -> ArrayHandle:
    """`bl.random.exponential`."""
    draw = drawing(r, key, size, ("scale", scale, NOT_NEGATIVE))
    return draw.finish(draw.parameters[0] * draw.exponential(), float_dtype(dtype))


def laplace(
    r: Recorder, key: object, loc: object = 0.0, scale: object = 1.0, size: object = None, dtype: object = None
) -> ArrayHandle:
    """`bl.random.laplace`."""
    draw = drawing(r, key, size, ("loc", loc, ANY), ("scale", scale, NOT_NEGATIVE))
    centre, width = draw.parameters
    x = draw.exponential()
    return draw.finish(centre + width * x.where(draw.coin(), -x), float_dtype(dtype))


def logistic(
    r: Recorder, key: object, loc: object = 0.0, scale: object = 1.0, size: object = None, dtype: object = None
) -> ArrayHandle:
    """`bl.random.logistic`."""
    draw = drawing(r, key, size, ("loc", loc, ANY), ("scale", scale, NOT_NEGATIVE))
    centre, width = draw.parameters
    half = draw.positive() * 0.5
    x = (half / (1.0 - half)).log()
    return draw.finish(centre + width * x.where(draw.coin(), -x), float_dtype(dtype))


def gumbel(
    r: Recorder, key: object, loc: object = 0.0, scale: object = 1.0, size: object = None, dtype: object = None
) -> ArrayHandle:
    """`bl.random.gumbel`."""
    draw = drawing(r, key, size, ("loc", loc, ANY), ("scale", scale, NOT_NEGATIVE))
    centre, width = draw.parameters
    return draw.finish(centre - width * _fine(draw).log(), float_dtype(dtype))


def _fine(draw: Drawing) -> Number:
    """A standard exponential number that is as fine as 64 bits near 0, and up to 37."""
    u = draw.positive()
    return -(-u.where(u.compare("less", 1.0), 1.0 - 2.0**-53)).log1p()


def standard_cauchy(r: Recorder, key: object, size: object = None, dtype: object = None) -> ArrayHandle:
    """`bl.random.standard_cauchy`."""
    draw = drawing(r, key, size)
    half = draw.positive() * 0.5
    x = half.cospi() / half.sinpi()
    return draw.finish(x.where(draw.coin(), -x), float_dtype(dtype))


def rayleigh(r: Recorder, key: object, scale: object = 1.0, size: object = None, dtype: object = None) -> ArrayHandle:
    """`bl.random.rayleigh`."""
    draw = drawing(r, key, size, ("scale", scale, NOT_NEGATIVE))
    return draw.finish(draw.parameters[0] * (draw.exponential() * 2.0).sqrt(), float_dtype(dtype))


def weibull(r: Recorder, key: object, a: object, size: object = None, dtype: object = None) -> ArrayHandle:
    """`bl.random.weibull`: 0 where a is 0."""
    draw = drawing(r, key, size, ("a", a, NOT_NEGATIVE))
    (shape,) = draw.parameters
    x = (draw.exponential().log() / shape).exp()
    return draw.finish(x.where(draw.parameters[0].of(0.0).compare("less", shape), 0.0), float_dtype(dtype))


def pareto(r: Recorder, key: object, a: object, size: object = None, dtype: object = None) -> ArrayHandle:
    """`bl.random.pareto`."""
    draw = drawing(r, key, size, ("a", a, POSITIVE))
    return draw.finish((draw.exponential() / draw.parameters[0]).expm1(), float_dtype(dtype))


def power(r: Recorder, key: object, a: object, size: object = None, dtype: object = None) -> ArrayHandle:
    """`bl.random.power`."""
    draw = drawing(r, key, size, ("a", a, POSITIVE))
    return draw.finish((draw.positive().log() / draw.parameters[0]).exp(), float_dtype(dtype))


def triangular(
    r: Recorder, key: object, left: object, mode: object, right: object, size: object = None, dtype: object = None
) -> ArrayHandle:
    """`bl.random.triangular`."""
    if all(isinstance(x, (int, float)) for x in (left, mode, right)) and not (left <= mode <= right and left < right):  # type: ignore[operator]
        raise invalid("the corners of a triangle", f"{left}, {mode}, {right}", "left <= mode <= right, left < right")
    draw = drawing(r, key, size, ("left", left, ANY), ("mode", mode, ANY), ("right", right, ANY))
    low, top, high = draw.parameters
    ordered = call(r, "logical_and", low.compare("less_equal", top), top.compare("less_equal", high))
    valid = call(r, "logical_and", ordered, low.compare("less", high))
    base, u = high - low, draw.unit()
    rising = low + (u * base * (top - low)).sqrt()
    falling = high - ((1.0 - u) * base * (high - top)).sqrt()
    x = rising.where((u * base).compare("less_equal", top - low), falling)
    return draw.finish(x.where(valid, math.nan), float_dtype(dtype))


# ---- gamma numbers and what is made of them --------------------------------------------------------------------------


def _gamma(draw: Drawing, shape: Number, stream: int = 0) -> Number:
    x, y = draw.gamma(shape, stream)
    return x * y.exp()


def _log_gamma(draw: Drawing, shape: Number, stream: int = 0) -> Number:
    """The logarithm of a gamma number, where the number itself may underflow."""
    x, y = draw.gamma(shape, stream)
    return x.log() + y


def standard_gamma(r: Recorder, key: object, shape: object, size: object = None, dtype: object = None) -> ArrayHandle:
    """`bl.random.standard_gamma`."""
    return gamma(r, key, shape, 1.0, size, dtype)


def gamma(
    r: Recorder, key: object, shape: object, scale: object = 1.0, size: object = None, dtype: object = None
) -> ArrayHandle:
    """`bl.random.gamma`."""
    draw = drawing(r, key, size, ("shape", shape, NOT_NEGATIVE), ("scale", scale, NOT_NEGATIVE))
    return draw.finish(_gamma(draw, draw.parameters[0]) * draw.parameters[1], float_dtype(dtype))


def chisquare(r: Recorder, key: object, df: object, size: object = None, dtype: object = None) -> ArrayHandle:
    """`bl.random.chisquare`."""
    draw = drawing(r, key, size, ("df", df, POSITIVE))
    return draw.finish(_gamma(draw, draw.parameters[0] * 0.5) * 2.0, float_dtype(dtype))


def noncentral_chisquare(
    r: Recorder, key: object, df: object, nonc: object, size: object = None, dtype: object = None
) -> ArrayHandle:
    """`bl.random.noncentral_chisquare`."""
    draw = drawing(r, key, size, ("df", df, POSITIVE), ("nonc", nonc, NOT_NEGATIVE))
    return draw.finish(_noncentral(draw, *draw.parameters), float_dtype(dtype))


def noncentral_f(
    r: Recorder, key: object, dfnum: object, dfden: object, nonc: object, size: object = None, dtype: object = None
) -> ArrayHandle:
    """`bl.random.noncentral_f`."""
    given = (("dfnum", dfnum, POSITIVE), ("dfden", dfden, POSITIVE), ("nonc", nonc, NOT_NEGATIVE))
    draw = drawing(r, key, size, *given)
    n, d, shift = draw.parameters
    divisor = _gamma(draw, d * 0.5, 2) * 2.0
    return draw.finish(_noncentral(draw, n, shift) * d / (divisor * n), float_dtype(dtype))


def _noncentral(draw: Drawing, df: Number, shift: Number) -> Number:
    """A chi-square number with a Poisson number of further pairs of degrees of freedom, of mean shift/2."""
    pairs = draw.poisson(shift * 0.5, 1)
    return _gamma(draw, df * 0.5 + pairs) * 2.0


def f(r: Recorder, key: object, dfnum: object, dfden: object, size: object = None, dtype: object = None) -> ArrayHandle:
    """`bl.random.f`."""
    draw = drawing(r, key, size, ("dfnum", dfnum, POSITIVE), ("dfden", dfden, POSITIVE))
    n, d = draw.parameters
    ratio = (_log_gamma(draw, n * 0.5, 0) - _log_gamma(draw, d * 0.5, 1)).exp()
    return draw.finish(ratio * (d / n), float_dtype(dtype))


def standard_t(r: Recorder, key: object, df: object, size: object = None, dtype: object = None) -> ArrayHandle:
    """`bl.random.standard_t`."""
    draw = drawing(r, key, size, ("df", df, POSITIVE))
    half = draw.parameters[0] * 0.5
    # the drawing's streams: 0 is the normal's, 1 the gamma's
    return draw.finish(draw.normal() * half.sqrt() * (_log_gamma(draw, half, 1) * -0.5).exp(), float_dtype(dtype))


def beta(r: Recorder, key: object, a: object, b: object, size: object = None, dtype: object = None) -> ArrayHandle:
    """`bl.random.beta`."""
    draw = drawing(r, key, size, ("a", a, POSITIVE), ("b", b, POSITIVE))
    first, second = draw.parameters
    odds = _log_gamma(draw, second, 1) - _log_gamma(draw, first, 0)
    return draw.finish(1.0 / (1.0 + odds.exp()), float_dtype(dtype))


def vonmises(
    r: Recorder, key: object, mu: object, kappa: object, size: object = None, dtype: object = None
) -> ArrayHandle:
    """`bl.random.vonmises`."""
    draw = drawing(r, key, size, ("mu", mu, ANY), ("kappa", kappa, NOT_NEGATIVE))
    centre, concentration = draw.parameters
    angle = centre + draw.vonmises(concentration)
    turns = (angle * (0.5 / math.pi) + 0.5).floor()
    return draw.finish(angle - turns * (2 * math.pi), float_dtype(dtype))


# ---- counts ----------------------------------------------------------------------------------------------------------


def poisson(r: Recorder, key: object, lam: object = 1.0, size: object = None, dtype: object = None) -> ArrayHandle:
    """`bl.random.poisson`."""
    draw = drawing(r, key, size, ("lam", lam, NOT_NEGATIVE))
    return draw.finish(draw.poisson(draw.parameters[0]), integer_dtype(dtype))


def binomial(r: Recorder, key: object, n: object, p: object, size: object = None, dtype: object = None) -> ArrayHandle:
    """`bl.random.binomial`."""
    draw = drawing(r, key, size, ("n", n, NOT_NEGATIVE), ("p", p, CHANCE))
    trials, chance = draw.parameters
    return draw.finish(draw.binomial(trials, chance), integer_dtype(dtype))


def negative_binomial(
    r: Recorder, key: object, n: object, p: object, size: object = None, dtype: object = None
) -> ArrayHandle:
    """`bl.random.negative_binomial`."""
    draw = drawing(r, key, size, ("n", n, POSITIVE), ("p", p, POSITIVE_CHANCE))
    successes, chance = draw.parameters
    mean = _gamma(draw, successes, 0) * ((1.0 - chance) / chance)
    return draw.finish(draw.poisson(mean, 1), integer_dtype(dtype))


def zipf(r: Recorder, key: object, a: object, size: object = None, dtype: object = None) -> ArrayHandle:
    """`bl.random.zipf`."""
    draw = drawing(r, key, size, ("a", a, ABOVE_ONE))
    return draw.finish(draw.zipf(draw.parameters[0]), integer_dtype(dtype))


def logseries(r: Recorder, key: object, p: object, size: object = None, dtype: object = None) -> ArrayHandle:
    """`bl.random.logseries`."""
    draw = drawing(r, key, size, ("p", p, CHANCE_BELOW_ONE))
    rate = (-draw.parameters[0]).log1p()
    u, q = draw.positive(), -(rate * draw.positive(0, 1)).expm1()
    long = 1.0 + (u.log() / q.log()).floor()
    short = u.of(1.0).where(q.compare("less", u), 2.0)
    x = long.where(u.compare("less_equal", q * q), short)
    return draw.finish(x.where(u.of(0.0).compare("less", q), 1.0), integer_dtype(dtype))


def geometric(r: Recorder, key: object, p: object, size: object = None, dtype: object = None) -> ArrayHandle:
    """`bl.random.geometric`."""
    draw = drawing(r, key, size, ("p", p, POSITIVE_CHANCE))
    failures = (draw.positive().log() / (-draw.parameters[0]).log1p()).floor()
    most = failures.of(2.0**63 - 1024)
    return draw.finish(1.0 + failures.where(failures.compare("less", most), most), integer_dtype(dtype))
