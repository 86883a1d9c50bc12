"""`scipy.special`, as far as ops reach: looked up by name when the user has imported it, never imported from here.

What goes in: a callable of `scipy.special`. What comes out: its loop, or None. Dtypes resolve through SciPy's own
ufuncs, so float16 and integers become what SciPy makes of them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from broadloom.frontend import shapes
from broadloom.frontend.loops import Loop
from broadloom.frontend.operands import as_array, call, cast, number
from broadloom.frontend.reductions import np_max, np_sum
from broadloom.frontend.ufuncs import apply, scalar
from broadloom.frontend.unsupported import Unsupported
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle


def _named(op: str) -> Loop:
    def run(r: Recorder, *args: ArrayHandle) -> ArrayHandle:
        return call(r, op, *args)

    return run


def _expit(r: Recorder, x: ArrayHandle) -> ArrayHandle:
    """1 / (1 + exp(-x))."""
    one = number(r, x, 1)
    return call(r, "divide", one, call(r, "add", one, call(r, "exp", call(r, "negative", x))))


def _logit(r: Recorder, x: ArrayHandle) -> ArrayHandle:
    """log(x / (1 - x))."""
    return call(r, "log", call(r, "divide", x, call(r, "subtract", number(r, x, 1), x)))


def _log_expit(r: Recorder, x: ArrayHandle) -> ArrayHandle:
    """-log1p(exp(-x)), without overflow for very negative x."""
    negative = call(r, "less", x, number(r, x, 0))
    decay = call(r, "log1p", call(r, "exp", call(r, "negative", call(r, "abs", x))))
    return call(r, "subtract", call(r, "where", negative, x, number(r, x, 0)), decay)


def _zero_times(op: str) -> Loop:
    """x * op(y), which is 0 for x == 0 unless y is nan."""

    def run(r: Recorder, x: ArrayHandle, y: ArrayHandle) -> ArrayHandle:
        product = call(r, "multiply", x, call(r, op, y))
        is_zero = call(r, "equal", x, number(r, x, 0))
        is_zero = call(r, "logical_and", is_zero, call(r, "logical_not", call(r, "isnan", y)))
        return call(r, "where", is_zero, number(r, x, 0), product)

    return run


def _entr(r: Recorder, x: ArrayHandle) -> ArrayHandle:
    """-x log x; 0 at 0, -inf below."""
    zero = number(r, x, 0)
    value = call(r, "multiply", call(r, "negative", x), call(r, "log", x))
    value = call(r, "where", call(r, "equal", x, zero), zero, value)
    return call(r, "where", call(r, "less", x, zero), number(r, x, -math.inf), value)


def _ndtr(r: Recorder, x: ArrayHandle) -> ArrayHandle:
    """The normal distribution function: by erf in the middle and erfc in the tails."""
    half, one = number(r, x, 0.5), number(r, x, 1)
    z = call(r, "multiply", x, number(r, x, math.sqrt(0.5)))
    distance = call(r, "abs", z)
    middle = call(r, "add", half, call(r, "multiply", half, call(r, "erf", z)))
    tail = call(r, "multiply", half, call(r, "erfc", distance))
    upper = call(r, "greater", z, number(r, x, 0))
    outer = call(r, "where", upper, call(r, "subtract", one, tail), tail)
    return call(r, "where", call(r, "less", distance, number(r, x, math.sqrt(0.5))), middle, outer)


def _exp10(r: Recorder, x: ArrayHandle) -> ArrayHandle:
    return call(r, "pow", number(r, x, 10), x)


def _huber(r: Recorder, delta: ArrayHandle, x: ArrayHandle) -> ArrayHandle:
    """Quadratic within delta, linear outside, inf for negative delta."""
    size, half = call(r, "abs", x), number(r, x, 0.5)
    near = call(r, "multiply", half, call(r, "square", x))
    far = call(r, "multiply", delta, call(r, "subtract", size, call(r, "multiply", half, delta)))
    value = call(r, "where", call(r, "less_equal", size, delta), near, far)
    return call(r, "where", call(r, "less", delta, number(r, x, 0)), number(r, x, math.inf), value)


LOOPS: dict[str, Loop] = {
    "erf": _named("erf"),
    "erfc": _named("erfc"),
    "log1p": _named("log1p"),
    "expm1": _named("expm1"),
    "exp2": _named("exp2"),
    "cbrt": _named("cbrt"),
    "exp10": _exp10,
    "expit": _expit,
    "logit": _logit,
    "log_expit": _log_expit,
    "xlogy": _zero_times("log"),
    "xlog1py": _zero_times("log1p"),
    "entr": _entr,
    "ndtr": _ndtr,
    "huber": _huber,
}


def _real(r: Recorder, x: object) -> ArrayHandle:
    a = as_array(r, x)
    if a.dtype.kind == "c" or a.dtype.bits == 16:
        raise Unsupported(f"softmax or logsumexp of {a.dtype}", "cast to float32 or float64")
    return a if a.dtype.is_inexact else cast(r, a, apply(r, np.exp, a).dtype)


def _softmax(r: Recorder, x: object, axis: object = None) -> ArrayHandle:
    """exp(x - max) over its sum."""
    a = _real(r, x)
    powers = call(r, "exp", call(r, "subtract", a, np_max(r, a, axis, keepdims=True)))
    return scalar(r, call(r, "divide", powers, np_sum(r, powers, axis, keepdims=True)))


def _log_softmax(r: Recorder, x: object, axis: object = None) -> ArrayHandle:
    """x - max, less the logarithm of the sum of its powers."""
    a = _real(r, x)
    shifted = call(r, "subtract", a, np_max(r, a, axis, keepdims=True))
    total = call(r, "log", np_sum(r, call(r, "exp", shifted), axis, keepdims=True))
    return scalar(r, call(r, "subtract", shifted, total))


def _logsumexp(r: Recorder, a: object, axis: object = None, *, keepdims: bool = False) -> ArrayHandle:
    """log(sum(exp(a)))."""
    x = _real(r, a)
    axes = shapes.axes_from_end(axis, x.ndim)
    return scalar(r, call(r, "logsumexp", x, axes=axes, keepdims=keepdims))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "logsumexp": _logsumexp,
}


def name_of(function: object) -> str | None:
    """Its name, if it is a function of `scipy.special` that has been imported."""
    module = sys.modules.get("scipy.special")
    name = getattr(function, "__name__", None)
    if module is None or not isinstance(name, str) or getattr(module, name, None) is not function:
        return None
    return name
