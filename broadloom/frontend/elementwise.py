"""Functions of NumPy that are short formulas over ufuncs: where, clip, round, select, isclose, diff, gradient, ...

What goes in: the arguments of the NumPy function. What comes out: what NumPy gives, by NumPy's own formula and in
its order of operations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from broadloom import dtypes
from broadloom.frontend import shapes
from broadloom.frontend.creation import full_like
from broadloom.frontend.operands import (
    as_array,
    call,
    cast,
    constant,
    from_size,
    is_sequence,
    lift,
    operand,
    result_dtype,
)
from broadloom.frontend.reductions import NO_VALUE, np_mean, np_sum
from broadloom.frontend.shaping import array_of, np_diagonal, np_imag
from broadloom.frontend.ufuncs import apply, as_out, deliver, deliver_broadcast, full, scalar
from broadloom.frontend.unsupported import Unsupported, plain_numpy_raises
from broadloom.graph.storage import ArrayHandle, Recorder, WeakScalar
from broadloom.symbolic import Expr, smax, sub


def np_where(r: Recorder, condition: object, x: object = NO_VALUE, y: object = NO_VALUE, /) -> ArrayHandle:
    """`numpy.where` of three arguments; always an array."""
    if x is NO_VALUE or y is NO_VALUE:
        raise Unsupported("np.where of one argument: the size of the result depends on data", "give x and y")
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
    result = lift(r, operand(r, default), d)
    choices = [lift(r, operand(r, c), d) for c in choicelist]
    for condition, choice in reversed(list(zip(conditions, choices, strict=True))):
        result = call(r, "where", condition, choice, result)
    return r.copy(result, "C")


def np_choose(r: Recorder, a: object, choices: object, out: object = None, mode: str = "raise") -> ArrayHandle:
    """`numpy.choose` with mode "clip" or "wrap", from a list of choices."""
    if mode not in ("clip", "wrap") or not is_sequence(choices):
        raise Unsupported("np.choose that may raise", "give mode='clip' or use np.where")
    index = as_array(r, a)
    options = [as_array(r, c) for c in choices]  # type: ignore[attr-defined]
    d = result_dtype(r, *options)
    last = len(options) - 1
    if mode == "wrap":
        index = apply(r, np.remainder, index, len(options))
    result = cast(r, options[last], d)
    for i in range(last - 1, -1, -1):
        below = apply(r, np.less_equal, index, i) if mode == "clip" else apply(r, np.equal, index, i)
        result = call(r, "where", below, cast(r, options[i], d), result)
    return deliver(r, result, as_out(out))


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
    if min is None and max is None:
        return apply(r, np.positive, a, out=out, **kwargs)
    x = as_array(r, a) if not isinstance(a, (int, float, complex, WeakScalar, Expr)) else a
    if min is None:
        return apply(r, np.minimum, x, max, out=out, **kwargs)
    if max is None:
        return apply(r, np.maximum, x, min, out=out, **kwargs)
    # NumPy's clip loop is minimum(maximum(x, low), high), in the common dtype of all three.
    d = result_dtype(r, x, min, max)
    if d is dtypes.bool_:
        raise Unsupported("np.clip of booleans", "use np.logical_and and np.logical_or")
    dtype = kwargs.pop("dtype", None)
    casting = kwargs.pop("casting", "same_kind")
    where = kwargs.pop("where", True)
    if kwargs or dtype is not None or where is not True:
        raise Unsupported("np.clip with ufunc arguments", "use np.minimum(np.maximum(x, low), high)")
    parts = [lift(r, operand(r, v), d) for v in (x, min, max)]
    result = call(r, "clip", *parts)
    return deliver_broadcast(r, result, as_out(out), None, casting)


def np_round(r: Recorder, a: object, decimals: int = 0, out: object = None) -> ArrayHandle:
    """`numpy.round`: half to even; decimals by NumPy's scaling with a power of ten."""
    x = as_array(r, a)
    target = as_out(out)
    if not isinstance(decimals, (int, np.integer)):
        raise Unsupported("np.round with decimals that are not constant", "give a constant")
    if x.dtype.kind == "b":
        if target is not None:
            raise Unsupported("np.round of booleans with out=", "cast first")
        return deliver(r, cast(r, apply(r, np.rint, x), dtypes.float16), None)
    if x.dtype.is_integer:
        if decimals >= 0:
            return deliver(r, r.copy(x), target)
        raise Unsupported("np.round of integers to tens", "divide, round and multiply yourself")
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
    return deliver(r, call(r, second, call(r, "round", call(r, first, x, factor)), factor), target)


def np_fix(r: Recorder, x: object, out: object = None) -> ArrayHandle:
    """`numpy.fix`."""
    return apply(r, np.trunc, x, out=out)


def np_nan_to_num(
    r: Recorder, x: object, copy: bool = True, nan: object = 0.0, posinf: object = None, neginf: object = None
) -> ArrayHandle:
    """`numpy.nan_to_num`."""
    a = as_array(r, x)
    result = r.copy(a)  # NumPy fills a copy
    if a.dtype.kind == "c":
        parts = [np_nan_to_num(r, call(r, part, a), True, nan, posinf, neginf) for part in ("real", "imag")]
        r.write(result, call(r, "complex", *parts))
    if a.dtype.kind == "f":
        info = np.finfo(a.dtype.numpy) if a.dtype is not dtypes.bfloat16 else None
        if info is None:
            raise Unsupported("np.nan_to_num of bfloat16", "cast to float32 first")
        replaced = a
        for test, value in (
            (call(r, "isnan", a), nan),
            (call(r, "equal", a, constant(r, math.inf, a.dtype)), info.max if posinf is None else posinf),
            (call(r, "equal", a, constant(r, -math.inf, a.dtype)), info.min if neginf is None else neginf),
        ):
            replaced = call(r, "where", test, lift(r, operand(r, value), a.dtype), replaced)
        r.write(result, shapes.expand(r, replaced, result.shape))
    if not copy and isinstance(x, ArrayHandle) and not x.numpy_scalar:
        r.write(x, result)
        return x
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
    y = apply(r, np.multiply, a, constant(r, math.pi, a.dtype) if a.dtype.is_inexact else math.pi)
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
    return apply(r, np.equal, np_imag(r, as_array(r, x)), 0)


def np_iscomplex(r: Recorder, x: object) -> ArrayHandle:
    """`numpy.iscomplex`."""
    a = as_array(r, x)
    if a.dtype.kind == "c":
        return apply(r, np.not_equal, np_imag(r, a), 0)
    return scalar(r, full(r, a.shape, False, dtypes.bool_))


# ---- differences -----------------------------------------------------------------------------------------------------


def np_diff(
    r: Recorder, a: object, n: int = 1, axis: object = -1, prepend: object = NO_VALUE, append: object = NO_VALUE
) -> ArrayHandle:
    """`numpy.diff`."""
    if n == 0 and isinstance(a, ArrayHandle):
        return a
    if n < 0:
        raise plain_numpy_raises("order must be non-negative")
    x = array_of(r, a)
    where = shapes.axis_from_end(axis, x.ndim)
    x = _with_ends(r, x, where, prepend, append)
    u = np.not_equal if x.dtype is dtypes.bool_ else np.subtract
    for _ in range(n):
        x = apply(r, u, *_neighbours(r, x, where))
    return x


def _neighbours(r: Recorder, x: ArrayHandle, where: int) -> tuple[ArrayHandle, ArrayHandle]:
    """`x[1:]` and `x[:-1]` along an axis."""
    m = smax(sub(x.shape[where], 1), 0)
    return shapes.cut(r, x, where, 0 if m == 0 else 1, m), shapes.cut(r, x, where, 0, m)


def _with_ends(r: Recorder, x: ArrayHandle, where: int, prepend: object, append: object) -> ArrayHandle:
    parts: list[ArrayHandle] = [x]
    for value, front in ((prepend, True), (append, False)):
        if value is NO_VALUE:
            continue
        end = as_array(r, value)
        if end.ndim == 0:
            shape = list(x.shape)
            shape[where] = 1
            end = shapes.expand(r, end, tuple(shape))
        parts.insert(0 if front else len(parts), end)
    if len(parts) == 1:
        return x
    common = result_dtype(r, *(p.dtype.numpy for p in parts))
    return shapes.join(r, [r.promote(p, common) for p in parts], where)


def np_ediff1d(r: Recorder, ary: object, to_end: object = None, to_begin: object = None) -> ArrayHandle:
    """`numpy.ediff1d`, without ends."""
    if to_end is not None or to_begin is not None:
        raise Unsupported("np.ediff1d with ends", "use np.diff with prepend= and append=")
    x = as_array(r, ary)
    return np_diff(r, shapes.reshape(r, x, (shapes.count(x.shape),)))


def np_gradient(r: Recorder, f: object, *varargs: object, axis: object = None, edge_order: int = 1) -> Any:
    """`numpy.gradient` with constant spacing."""
    x = as_array(r, f)
    axes = [a % x.ndim for a in shapes.axes_from_end(axis, x.ndim)] if axis is None else _in_order(axis, x.ndim)
    if any(as_array(r, v).ndim for v in varargs):
        raise Unsupported("np.gradient with coordinate arrays", "use constant spacing")
    if len(varargs) not in (0, 1, len(axes)):
        raise plain_numpy_raises("invalid number of arguments")
    spacing: list[object] = list(varargs) if len(varargs) == len(axes) else [varargs[0] if varargs else 1.0] * len(axes)
    if edge_order not in (1, 2):
        raise Unsupported("np.gradient with edge_order above 2", "use edge_order 1 or 2")
    if x.dtype.kind in "bui":
        x = cast(r, x, dtypes.float64)
    results = tuple(_gradient_along(r, x, a, h, edge_order) for a, h in zip(axes, spacing, strict=True))
    return results[0] if len(results) == 1 else results


def _in_order(axis: object, ndim: int) -> list[int]:
    wanted: Sequence[object] = axis if isinstance(axis, (tuple, list)) else (axis,)
    return [shapes.axis_from_end(a, ndim) % ndim for a in wanted]


def _gradient_along(r: Recorder, x: ArrayHandle, axis: int, h: object, edge_order: int) -> ArrayHandle:
    n = x.shape[axis]
    if isinstance(n, int) and n < edge_order + 1:
        raise plain_numpy_raises("shape of array too small to calculate a numerical gradient")

    def at(i: int) -> ArrayHandle:
        return shapes.cut(r, x, axis, i if i >= 0 else sub(n, -i), 1)

    m = sub(n, 2)
    difference = apply(r, np.subtract, shapes.cut(r, x, axis, 2, m), shapes.cut(r, x, axis, 0, m))
    inner = apply(r, np.divide, difference, apply(r, np.multiply, 2.0, h))
    if edge_order == 1:
        first = apply(r, np.divide, apply(r, np.subtract, at(1), at(0)), h)
        last = apply(r, np.divide, apply(r, np.subtract, at(-1), at(-2)), h)
    else:
        first = _combination(r, h, ((-1.5, at(0)), (2.0, at(1)), (-0.5, at(2))))
        last = _combination(r, h, ((0.5, at(-3)), (-2.0, at(-2)), (1.5, at(-1))))
    parts = [cast(r, p, x.dtype) for p in (first, inner, last)]
    result = full_like(r, x, 0, None, "K", None)
    r.write(result, call(r, "concat", *parts, axis=axis - x.ndim))
    return result


def _combination(r: Recorder, h: object, terms: Sequence[tuple[float, ArrayHandle]]) -> ArrayHandle:
    products = [apply(r, np.multiply, apply(r, np.divide, coefficient, h), value) for coefficient, value in terms]
    total = products[0]
    for p in products[1:]:
        total = apply(r, np.add, total, p)
    return total


def np_trapezoid(r: Recorder, y: object, x: object = None, dx: object = 1.0, axis: object = -1) -> ArrayHandle:
    """`numpy.trapezoid`."""
    values = as_array(r, y)
    where = shapes.axis_from_end(axis, values.ndim)
    width: object = dx
    if x is not None:
        points = as_array(r, x)
        if points.ndim == 1:
            width = np_diff(r, points)
            width = shapes.reshape(r, width, (*width.shape, *(1,) * (-1 - where)))
        else:
            width = np_diff(r, points, axis=where)
    pairs = apply(r, np.add, *_neighbours(r, values, where))
    return np_sum(r, apply(r, np.divide, apply(r, np.multiply, width, pairs), 2.0), where)


def np_polyval(r: Recorder, p: object, x: object) -> ArrayHandle:
    """`numpy.polyval`: Horner's rule over the coefficients, whose number is constant."""
    coefficients = p if is_sequence(p) else None
    if coefficients is None:
        handle = as_array(r, p)
        n = handle.shape[0] if handle.ndim else 1
        if handle.ndim != 1 or not isinstance(n, int) or n > 64:
            raise Unsupported("np.polyval with coefficients of unknown number", "pass a list of coefficients")
        coefficients = [shapes.drop_axes(r, shapes.cut(r, handle, -1, i, 1), [0]) for i in range(n)]
    a = as_array(r, x)
    parts = [as_array(r, c) for c in coefficients]  # type: ignore[attr-defined]
    common = result_dtype(r, *(q.dtype.numpy for q in parts))
    y = apply(r, np.multiply, a, 0)
    y = call(r, "where", constant(r, True), constant(r, 0, a.dtype), y)
    for q in parts:
        y = apply(r, np.add, apply(r, np.multiply, y, a), cast(r, q, common))
    return scalar(r, y)


def np_cov(
    r: Recorder,
    m: object,
    y: object = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: object = None,
    fweights: object = None,
    aweights: object = None,
    *,
    dtype: object = None,
) -> ArrayHandle:
    """`numpy.cov` of one array, without weights."""
    if y is not None or fweights is not None or aweights is not None or dtype is not None:
        raise Unsupported("np.cov with y, weights or dtype", "stack the arrays and leave the weights out")
    x = as_array(r, m)
    if x.ndim > 2:
        raise plain_numpy_raises("m has more than 2 dimensions")
    x = cast(r, x, result_dtype(r, x.dtype.numpy, np.float64))
    x = shapes.insert_axes(r, x, 0, 2 - x.ndim) if x.ndim < 2 else x
    if not rowvar and x.shape[0] != 1:
        x = shapes.permute(r, x, [1, 0])
    degrees = (0 if bias else 1) if ddof is None else ddof
    n = x.shape[1]
    centered = apply(r, np.subtract, x, np_mean(r, x, 1, keepdims=True))
    transposed = shapes.permute(r, centered, [1, 0])
    if x.dtype.kind == "c":
        transposed = call(r, "conj", transposed)
    product = call(r, "matmul", centered, transposed)
    factor = apply(r, np.maximum, apply(r, np.subtract, cast(r, from_size(r, n), dtypes.float64), degrees), 0.0)
    product = apply(r, np.multiply, product, apply(r, np.true_divide, 1, factor))
    gone = [i for i, s in enumerate(product.shape) if s == 1]
    return shapes.drop_axes(r, product, gone) if gone else product


def np_corrcoef(r: Recorder, x: object, y: object = None, rowvar: bool = True, *, dtype: object = None) -> ArrayHandle:
    """`numpy.corrcoef` of one array."""
    c = np_cov(r, x, y, rowvar, dtype=dtype)
    if c.dtype.kind == "c":
        raise Unsupported("np.corrcoef of complex numbers", "use np.cov")
    if c.ndim == 0:
        return apply(r, np.divide, c, c)
    deviations = call(r, "sqrt", np_diagonal(r, c))
    c = call(r, "divide", c, shapes.insert_axes(r, deviations, 1))
    c = call(r, "divide", c, deviations)
    return call(r, "clip", c, constant(r, -1, c.dtype), constant(r, 1, c.dtype))
