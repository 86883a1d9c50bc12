"""Functions of NumPy that are short formulas over ufuncs: where, clip, round, select, isclose, ...

What goes in: the arguments of the NumPy function. What comes out: what NumPy gives, by NumPy's own formula and in
its order of operations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy._core import umath

from broadloom import dtypes
from broadloom.frontend import shapes
from broadloom.frontend.casting import imag
from broadloom.frontend.operands import (
    as_array,
    call,
    cast,
    constant,
    is_numpy_inexact,
    is_sequence,
    lift,
    operand,
    result_dtype,
)
from broadloom.frontend.reductions import NO_VALUE
from broadloom.frontend.ufuncs import apply, as_out, deliver, full, run_ufunc, scalar
from broadloom.frontend.unsupported import DependsOnData, Unsupported, plain_numpy_raises
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle

CLIP: np.ufunc = umath.clip  # type: ignore[attr-defined]  # which `numpy.clip` calls where both bounds are given


def np_where(r: Recorder, condition: object, x: object = NO_VALUE, y: object = NO_VALUE, /) -> ArrayHandle:
    """`numpy.where` of three arguments; always an array."""
    if x is NO_VALUE or y is NO_VALUE:
        raise DependsOnData("np.where of one argument: the size of the result depends on data", "give x and y")
    mask = truth(r, as_array(r, condition))
    d = result_dtype(r, x, y)
    return call(r, "where", mask, lift(r, operand(r, x), d), lift(r, operand(r, y), d))


def truth(r: Recorder, x: ArrayHandle) -> ArrayHandle:
    """Is each element true?"""
    return x if x.dtype is dtypes.bool_ else call(r, "not_equal", x, constant(r, 0, x.dtype))


def np_select(
    r: Recorder, condlist: Sequence[object], choicelist: Sequence[object], default: object = 0
) -> ArrayHandle:
    """`numpy.select`: the first choice whose condition holds."""
    if len(condlist) != len(choicelist) or not condlist:
        raise plain_numpy_raises("list of cases must be same length as list of conditions")
    d = result_dtype(r, *choicelist, default)
    conditions = [as_array(r, c) for c in condlist]
    if any(c.dtype is not dtypes.bool_ for c in conditions):
        raise plain_numpy_raises("conditions must be boolean")
    result = cast(r, as_array(r, default), d)  # NumPy fills with it, by any cast
    choices = [lift(r, operand(r, c), d) for c in choicelist]
    for condition, choice in reversed(list(zip(conditions, choices, strict=True))):
        result = call(r, "where", condition, choice, result)
    return r.copy(result, "C")


def np_choose(r: Recorder, a: object, choices: object, out: object = None, mode: str = "raise") -> ArrayHandle:
    """`numpy.choose` with mode "clip" or "wrap", from a list of choices."""
    if mode not in ("clip", "wrap") or not is_sequence(choices):
        raise Unsupported("np.choose that may raise", "give mode='clip' or use np.where")
    index = as_array(r, a)
    if not np.can_cast(index.dtype.numpy, np.intp, "safe"):
        raise plain_numpy_raises(f"cannot cast array data from {index.dtype} to {np.dtype(np.intp)} by the rule 'safe'")
    options = [as_array(r, c) for c in choices]  # type: ignore[attr-defined]
    d = result_dtype(r, *options)
    last = len(options) - 1
    if mode == "wrap":
        index = apply(r, np.remainder, index, len(options))
    result = cast(r, options[last], d)
    for i in range(last - 1, -1, -1):
        below = apply(r, np.less_equal, index, i) if mode == "clip" else apply(r, np.equal, index, i)
        result = call(r, "where", below, cast(r, options[i], d), result)
    return deliver(r, r.copy(result, "C"), as_out(out))


def np_clip(
    r: Recorder,
    a: object,
    a_min: object = NO_VALUE,
    a_max: object = NO_VALUE,
    out: object = None,
    *,
    min: object = NO_VALUE,
    max: object = NO_VALUE,
    **kwargs: Any,
) -> ArrayHandle:
    """`numpy.clip`."""
    low = min if a_min is NO_VALUE else a_min
    high = max if a_max is NO_VALUE else a_max
    return method_clip(r, a, None if low is NO_VALUE else low, None if high is NO_VALUE else high, out, **kwargs)


def method_clip(
    r: Recorder, a: object, min: object = None, max: object = None, out: object = None, **kwargs: Any
) -> ArrayHandle:
    """`x.clip`: one bound is a maximum or minimum, two are NumPy's clip loop."""
    x = as_array(r, a)
    if x.dtype.is_integer:  # bounds beyond the dtype bound nothing
        info = np.iinfo(x.dtype.numpy)
        min = None if type(min) is int and min <= info.min else min
        max = None if type(max) is int and max >= info.max else max
    if min is None and max is None:
        return apply(r, np.positive, x, out=out, **kwargs)
    if min is None:
        return apply(r, np.minimum, x, max, out=out, **kwargs)
    if max is None:
        return apply(r, np.maximum, x, min, out=out, **kwargs)
    result: ArrayHandle = run_ufunc(r, CLIP, _clip_loop, (x, min, max), out, **kwargs)
    return result


def _clip_loop(r: Recorder, u: np.ufunc, args: tuple[ArrayHandle, ...], loop_dtypes: object) -> ArrayHandle:
    """minimum(maximum(x, low), high), in the dtype that NumPy's loop has for all three."""
    return call(r, "clip", *args)


def np_round(r: Recorder, a: object, decimals: int = 0, out: object = None) -> ArrayHandle:
    """`numpy.round`: half to even; decimals by NumPy's scaling with a power of ten."""
    x = as_array(r, a)
    target = as_out(out)
    if not isinstance(decimals, (int, np.integer)):
        raise Unsupported("np.round with decimals that are not constant", "give a constant")
    if x.dtype.kind == "b":
        if decimals != 0:
            raise plain_numpy_raises("booleans cannot be scaled by a power of ten in place")
        if target is not None:
            raise Unsupported("np.round of booleans with out=", "cast first")
        return deliver(r, cast(r, apply(r, np.rint, x), dtypes.float16), None)
    if x.dtype.is_integer:
        if decimals >= 0:
            return deliver(r, r.copy(x), target)
        if target is not None:
            raise Unsupported("np.round of integers to tens with out=", "assign the result: out[...] = np.round(x, -1)")
        tens = as_array(r, np_round(r, cast(r, x, dtypes.float64), decimals))
        return deliver(r, r.copy(cast(r, tens, x.dtype), _plain_order(r, x)), None)
    if x.dtype.kind == "c":
        parts = [np_round(r, call(r, part, x), decimals) for part in ("real", "imag")]
        result = r.copy(x)  # NumPy rounds the parts of a copy
        r.write(result, call(r, "complex", *parts))
        return deliver(r, result, target)
    if decimals == 0:
        return deliver(r, call(r, "round", x), target)
    power = 10.0 ** abs(int(decimals))
    first, second = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    factor = constant(r, power, x.dtype)
    rounded = call(r, second, call(r, "round", call(r, first, x, factor)), factor)
    return deliver(r, rounded if target is not None else r.copy(rounded, _plain_order(r, x)), target)


def _plain_order(r: Recorder, x: ArrayHandle) -> Literal["C", "F"]:
    """The order of an array that NumPy makes for results like `x` before it computes: Fortran's for such alone."""
    return "F" if r.contiguous(x, fortran=True) and not r.contiguous(x) else "C"


def np_fix(r: Recorder, x: object, out: object = None) -> ArrayHandle:
    """`numpy.fix`."""
    return apply(r, np.trunc, x, out=out)


def np_nan_to_num(
    r: Recorder, x: object, copy: bool = True, nan: object = 0.0, posinf: object = None, neginf: object = None
) -> ArrayHandle:
    """`numpy.nan_to_num`."""
    if not copy and (not isinstance(x, ArrayHandle) or x.numpy_scalar):
        raise plain_numpy_raises("unable to avoid a copy of what is no array")
    a = as_array(r, x)
    result = r.copy(a)  # NumPy fills a copy
    if a.dtype.kind == "c":
        parts = [np_nan_to_num(r, call(r, part, a), True, nan, posinf, neginf) for part in ("real", "imag")]
        r.write(result, call(r, "complex", *parts))
    if a.dtype.kind == "f" and is_numpy_inexact(a.dtype):
        info = np.finfo(a.dtype.numpy)
        largest, lowest = (constant(r, bound, a.dtype) for bound in (info.max, info.min))
        finite = call(r, "clip", a, lowest, largest)
        replaced = call(r, "where", call(r, "isnan", a), lift(r, operand(r, nan), a.dtype), finite)
        for infinity, value in ((math.inf, posinf), (-math.inf, neginf)):
            if value is not None:
                test = call(r, "equal", a, constant(r, infinity, a.dtype))
                replaced = call(r, "where", test, lift(r, operand(r, value), a.dtype), replaced)
        r.write(result, shapes.expand(r, replaced, result.shape))
    if not copy and isinstance(x, ArrayHandle):
        r.write(x, result)
        return x if x.ndim else r.as_scalar(x)
    return scalar(r, result)


def np_angle(r: Recorder, z: object, deg: bool = False) -> ArrayHandle:
    """`numpy.angle`."""
    x = as_array(r, z)
    im: ArrayHandle | int
    if x.dtype.kind == "c":
        re, im = call(r, "real", x), call(r, "imag", x)
    else:
        re, im = x, 0
    result = apply(r, np.arctan2, im, re)
    return apply(r, np.multiply, result, 180 / math.pi) if deg else result


def np_sinc(r: Recorder, x: object) -> ArrayHandle:
    """`numpy.sinc`."""
    a = as_array(r, x)
    y = apply(r, np.multiply, a, math.pi)
    tiny = constant(r, np.finfo(y.dtype.numpy).eps, y.dtype)
    y = np_where(r, y, y, tiny)
    return apply(r, np.divide, apply(r, np.sin, y), y)


def np_isclose(
    r: Recorder, a: object, b: object, rtol: object = 1e-05, atol: object = 1e-08, equal_nan: bool = False
) -> ArrayHandle:
    """`numpy.isclose`."""
    x, y = as_array(r, a), as_array(r, b)
    if y.dtype.kind in "bui":
        y = cast(r, y, result_dtype(r, y, 1.0))
    bound = apply(r, np.add, atol, apply(r, np.multiply, rtol, apply(r, np.absolute, y)))
    near = apply(r, np.less_equal, apply(r, np.absolute, apply(r, np.subtract, x, y)), bound)
    result = apply(r, np.logical_and, near, apply(r, np.isfinite, y))
    result = apply(r, np.logical_or, result, apply(r, np.equal, x, y))
    if equal_nan:
        both = apply(r, np.logical_and, apply(r, np.isnan, x), apply(r, np.isnan, y))
        result = apply(r, np.logical_or, result, both)
    return scalar(r, result)


def np_isposinf(r: Recorder, x: object, out: object = None) -> ArrayHandle:
    """`numpy.isposinf`."""
    sign = apply(r, np.logical_not, apply(r, np.signbit, x))
    return apply(r, np.logical_and, apply(r, np.isinf, x), sign, out=out)


def np_isneginf(r: Recorder, x: object, out: object = None) -> ArrayHandle:
    """`numpy.isneginf`."""
    return apply(r, np.logical_and, apply(r, np.isinf, x), apply(r, np.signbit, x), out=out)


def np_isreal(r: Recorder, x: object) -> ArrayHandle:
    """`numpy.isreal`."""
    return apply(r, np.equal, imag(r, as_array(r, x)), 0)


def np_iscomplex(r: Recorder, x: object) -> ArrayHandle:
    """`numpy.iscomplex`."""
    a = as_array(r, x)
    if a.dtype.kind == "c":
        return apply(r, np.not_equal, imag(r, a), 0)
    return scalar(r, full(r, a.shape, False, dtypes.bool_))
