"""`numpy.pad`, axis by axis as NumPy does it: constants through the pad op, other modes by joining views.

What goes in: array, widths, mode and its arguments. What comes out: a fresh array. Modes that mirror or wrap join
reversed or shifted slices, so no index array is made and nothing can be out of range.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from broadloom.frontend import shapes
from broadloom.frontend.operands import call, cast, is_symbolic, lift, operand
from broadloom.frontend.reductions import np_max, np_mean, np_min
from broadloom.frontend.shaping import array_of, is_fortran, reversed_along
from broadloom.frontend.unsupported import Unsupported, plain_numpy_raises
from broadloom.graph.storage import ArrayHandle, Recorder
from broadloom.symbolic import Size, le, sub

Pair = tuple[Any, Any]
Side = Callable[[Recorder, ArrayHandle, int, Size], ArrayHandle]


def np_pad(r: Recorder, array: object, pad_width: object, mode: object = "constant", **kwargs: Any) -> ArrayHandle:
    """`numpy.pad`."""
    x = array_of(r, array)
    if callable(mode):
        raise Unsupported("np.pad with a function as mode", "use a named mode")
    allowed = {"constant": {"constant_values"}, "empty": set(), "edge": set(), "wrap": set()}
    allowed |= {m: {"reflect_type"} for m in ("reflect", "symmetric")}
    allowed |= {m: {"stat_length"} for m in ("maximum", "minimum", "mean")}
    if mode not in allowed or not set(kwargs) <= allowed[str(mode)]:
        raise Unsupported(f"np.pad with mode {mode!r} and {sorted(kwargs)}", f"use one of {', '.join(allowed)}")
    widths = [
        (shapes.as_size(before, "a pad width"), shapes.as_size(after, "a pad width"))
        for before, after in _pairs(pad_width, x.ndim)
    ]
    if any(isinstance(w, int) and w < 0 for pair in widths for w in pair):
        raise plain_numpy_raises("index can't contain negative values")
    if mode in ("constant", "empty"):
        return _pad_constant(r, x, widths, _pairs(kwargs.get("constant_values", 0), x.ndim))
    if kwargs.get("reflect_type", "even") != "even":
        raise Unsupported("np.pad with reflect_type='odd'", "use reflect_type='even'")
    stat = _pairs(kwargs.get("stat_length"), x.ndim)
    result = x
    for axis in range(x.ndim):
        before, after = widths[axis]
        if before != 0 or after != 0:
            result = _pad_axis(r, result, axis, str(mode), before, after, stat[axis])
    return r.copy(result, "F" if is_fortran(x) else "C")


def _pairs(value: object, ndim: int) -> list[Pair]:
    """One (before, after) for each axis, from any of the forms NumPy takes."""
    if isinstance(value, dict):
        pairs: list[Pair] = [(0, 0)] * ndim
        for axis, width in value.items():
            pairs[shapes.axis_from_end(axis, ndim)] = _pairs(width, 1)[0]
        return pairs
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, (list, tuple)):
        return [(value, value)] * ndim
    items = [tuple(v) if isinstance(v, (list, tuple)) else v for v in value]
    if all(not isinstance(v, tuple) for v in items):
        if len(items) == 1:
            return [(items[0], items[0])] * ndim
        if len(items) == 2:
            return [(items[0], items[1])] * ndim
    elif all(isinstance(v, tuple) for v in items):
        spread = [(v[0], v[-1]) for v in items if isinstance(v, tuple) and len(v) in (1, 2)]
        if len(spread) == len(items) == 1:
            return spread * ndim
        if len(spread) == len(items) == ndim:
            return spread
    raise plain_numpy_raises(f"operands could not be broadcast together with shape ({ndim}, 2)")


def _pad_constant(r: Recorder, x: ArrayHandle, widths: list[Pair], values: list[Pair]) -> ArrayHandle:
    first = values[0][0] if values else 0
    uniform = all(not is_symbolic(v) and v == first for pair in values for v in pair)
    if uniform:
        before, after = tuple(w[0] for w in widths), tuple(w[1] for w in widths)
        number = lift(r, operand(r, first), x.dtype)
        return call(r, "pad", x, number, before=before, after=after) if x.ndim else r.copy(x)
    result = x
    for axis, ((before, after), (low, high)) in enumerate(zip(widths, values, strict=True)):
        parts = []
        for width, value in ((before, low), (after, high)):
            shape = list(result.shape)
            shape[axis] = width
            parts.append(shapes.expand(r, lift(r, operand(r, value), x.dtype), tuple(shape)))
        result = call(r, "concat", parts[0], result, parts[1], axis=axis - x.ndim)
    return r.copy(result, "F" if is_fortran(x) else "C")


def _pad_axis(r: Recorder, x: ArrayHandle, axis: int, mode: str, before: Size, after: Size, stat: Pair) -> ArrayHandle:
    n = x.shape[axis]
    if shapes.same(r, n, 0):
        raise plain_numpy_raises(f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'")
    where = axis - x.ndim
    if mode in ("maximum", "minimum", "mean"):
        parts = [_stat(r, x, where, mode, before, stat[0], True), x, _stat(r, x, where, mode, after, stat[1], False)]
        return call(r, "concat", *parts, axis=where)
    if mode == "edge":
        shape = list(x.shape)
        sides = []
        for at, width in ((0, before), (sub(n, 1), after)):
            shape[axis] = width
            sides.append(shapes.expand(r, shapes.cut(r, x, where, at, 1), tuple(shape)))
        return call(r, "concat", sides[0], x, sides[1], axis=where)
    return _pad_periodic(r, x, where, mode, before, after)


def _pad_periodic(r: Recorder, x: ArrayHandle, where: int, mode: str, before: Size, after: Size) -> ArrayHandle:
    """reflect, symmetric and wrap: pieces of one period laid beside the array, as many as are needed."""
    n = x.shape[where]
    if mode == "reflect" and shapes.same(r, n, 1):
        return _pad_axis(r, x, where % x.ndim, "edge", before, after, (None, None))
    reach = sub(n, 1) if mode == "reflect" else n
    for width in (before, after):
        if not isinstance(width, int) or not shapes.decide(r, le(width, reach)):
            return _pad_far(r, x, where, mode, before, after)
    if mode == "wrap":
        left, right = shapes.cut(r, x, where, sub(n, before), before), shapes.cut(r, x, where, 0, after)
    else:
        skip = 1 if mode == "reflect" else 0
        left = reversed_along(r, shapes.cut(r, x, where, skip, before), [where])
        right = reversed_along(r, shapes.cut(r, x, where, sub(n, after + skip), after), [where])
    return call(r, "concat", left, x, right, axis=where)


def _pad_far(r: Recorder, x: ArrayHandle, where: int, mode: str, before: Size, after: Size) -> ArrayHandle:
    n = x.shape[where]
    if not (isinstance(n, int) and isinstance(before, int) and isinstance(after, int)):
        raise Unsupported(f"np.pad(mode={mode!r}) wider than a symbolic axis", "pad by less than the size")
    places = np.pad(np.arange(n), (before, after), mode=mode)  # type: ignore[call-overload]
    result: ArrayHandle = call(r, "take", x, r.constant(places), axis=where, index_rank=1)
    return result


def _stat(r: Recorder, x: ArrayHandle, where: int, mode: str, width: Size, length: object, front: bool) -> ArrayHandle:
    n = x.shape[where]
    part = x
    if length is not None:
        k = shapes.as_size(length, "stat_length")
        if not isinstance(k, int) or (k <= 0 and mode != "mean"):
            raise plain_numpy_raises("stat_length of 0 yields no value for padding")
        if shapes.decide(r, le(k, n)):
            part = shapes.cut(r, x, where, 0 if front else sub(n, k), k)
    if mode == "mean":
        value = np_mean(r, part, where, keepdims=True)
        if x.dtype.kind in "ui":
            value = call(r, "round", value)
        value = cast(r, value, x.dtype)
    else:
        value = (np_max if mode == "maximum" else np_min)(r, part, where, keepdims=True)
    shape = list(x.shape)
    shape[where] = width
    return shapes.expand(r, value, tuple(shape))
