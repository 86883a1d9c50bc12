"""Differences, gradients, integrals, polynomials and covariances: short formulas along axes.

What goes in: the arguments of the NumPy function. What comes out: what NumPy gives, by its own formula.
"""

from __future__ import annotations

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
    is_numpy_inexact,
    is_sequence,
    numpy_since,
    result_dtype,
)
from broadloom.frontend.reductions import NO_VALUE, np_mean, np_sum
from broadloom.frontend.shaping import array_of, np_diagonal
from broadloom.frontend.ufuncs import apply, scalar
from broadloom.frontend.unsupported import Unsupported, plain_numpy_raises
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle
from broadloom.symbolic import ge, smax, sub


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
    if x.dtype is dtypes.bool_:
        raise plain_numpy_raises("numpy boolean subtract, the `-` operator, is not supported")
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
    if x.dtype is dtypes.bool_:
        raise plain_numpy_raises("numpy boolean subtract, the `-` operator, is not supported")
    if x.dtype.is_integer:
        x = cast(r, x, dtypes.float64)
    results = tuple(_gradient_along(r, x, a, h, edge_order) for a, h in zip(axes, spacing, strict=True))
    return results[0] if len(results) == 1 else results


def _in_order(axis: object, ndim: int) -> list[int]:
    wanted: Sequence[object] = axis if isinstance(axis, (tuple, list)) else (axis,)
    return [shapes.axis_from_end(a, ndim) % ndim for a in wanted]


def _gradient_along(r: Recorder, x: ArrayHandle, axis: int, h: object, edge_order: int) -> ArrayHandle:
    n = x.shape[axis]
    if not shapes.decide(r, ge(n, edge_order + 1)):
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
    d = x.dtype if is_numpy_inexact(x.dtype) else dtypes.float64
    parts = [cast(r, p, d) for p in (first, inner, last)]
    result = full_like(r, x, 0, d.numpy, "K", None)
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
    y = full_like(r, a, 0, None, "K", None)
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
    if not rowvar and _is_transposed(r, as_array(r, m)):
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
    return shapes.drop_axes(r, product, [0, 1]) if shapes.same(r, product.shape[0], 1) else product


def _is_transposed(r: Recorder, m: ArrayHandle) -> bool:
    """Whether `rowvar=False` turns the argument of `numpy.cov`: before NumPy 2.2 not if there is one row."""
    if not numpy_since("2.2.0"):
        return m.ndim == 2 and not shapes.same(r, m.shape[0], 1)
    return m.ndim == 2


def np_corrcoef(r: Recorder, x: object, y: object = None, rowvar: bool = True, *, dtype: object = None) -> ArrayHandle:
    """`numpy.corrcoef` of one array."""
    c = np_cov(r, x, y, rowvar, dtype=dtype)
    if c.ndim == 0:
        return apply(r, np.divide, c, c)
    deviations = call(r, "sqrt", call(r, "real", np_diagonal(r, c)))
    c = apply(r, np.divide, c, shapes.insert_axes(r, deviations, 1))
    c = apply(r, np.divide, c, deviations)
    if c.dtype.kind != "c":
        return _within_one(r, c)
    return call(r, "complex", *(_within_one(r, call(r, part, c)) for part in ("real", "imag")))


def _within_one(r: Recorder, x: ArrayHandle) -> ArrayHandle:
    return call(r, "clip", x, constant(r, -1, x.dtype), constant(r, 1, x.dtype))
