"""`numpy.pad`: constants through the pad op, what comes from the array itself through the op extend, and statistics
axis by axis, as NumPy does it.

What goes in: array, widths, mode and its arguments. What comes out: a fresh array. No index array is made, but where
an array is continued by more than itself, and nothing can be out of range.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from broadloom.frontend import shapes
from broadloom.frontend.operands import call, cast, is_symbolic, lift, operand
from broadloom.frontend.reductions import np_max, np_mean, np_min
from broadloom.frontend.shaping import array_of
from broadloom.frontend.unsupported import Unsupported, plain_numpy_raises
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle
from broadloom.ops.movement import EXTENSIONS
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
    shapes.not_negative(r, (w for pair in widths for w in pair), "index can't contain negative values")
    if mode in ("constant", "empty"):
        return _pad_constant(r, x, widths, _pairs(kwargs.get("constant_values", 0), x.ndim))
    if kwargs.get("reflect_type", "even") != "even":
        raise Unsupported("np.pad with reflect_type='odd'", "use reflect_type='even'")
    if mode in EXTENSIONS:
        return _extended(r, x, str(mode), widths)
    stat = _pairs(kwargs.get("stat_length"), x.ndim)
    result = x
    for axis in range(x.ndim):
        before, after = widths[axis]
        if before != 0 or after != 0:
            _refuse_empty(r, x.shape[axis], axis)
            result = _pad_with_statistics(r, result, axis - x.ndim, str(mode), before, after, stat[axis])
    return r.copy(result, "A", like=x)


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
        padded = call(r, "pad", x, number, before=before, after=after) if x.ndim else x
        return r.copy(padded, "A", like=x)
    result = x
    for axis, ((before, after), (low, high)) in enumerate(zip(widths, values, strict=True)):
        parts = []
        for width, value in ((before, low), (after, high)):
            shape = list(result.shape)
            shape[axis] = width
            parts.append(shapes.expand(r, lift(r, operand(r, value), x.dtype), tuple(shape)))
        result = call(r, "concat", parts[0], result, parts[1], axis=axis - x.ndim)
    return r.copy(result, "A", like=x)


def _refuse_empty(r: Recorder, n: Size, axis: int) -> None:
    if shapes.same(r, n, 0):
        raise plain_numpy_raises(f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'")


def _extended(r: Recorder, x: ArrayHandle, mode: str, widths: list[Pair]) -> ArrayHandle:
    """edge, reflect, symmetric and wrap: one index map for all axes, but where an axis is continued further than by
    one period of itself."""
    result, modes = x, [mode] * x.ndim
    for axis, (before, after) in enumerate(widths):
        if before == 0 and after == 0:
            continue
        n = x.shape[axis]
        _refuse_empty(r, n, axis)
        if mode == "reflect" and shapes.same(r, n, 1):
            modes[axis] = "edge"
        if modes[axis] != "edge" and not _within_period(r, n, mode, before, after):
            result, modes[axis] = _pad_far(r, result, axis - x.ndim, mode, before, after), ""
    for how in dict.fromkeys(m for m, width in zip(modes, widths, strict=True) if m and width != (0, 0)):
        before, after = zip(*(w if m == how else (0, 0) for w, m in zip(widths, modes, strict=True)), strict=True)
        result = call(r, "extend", result, before=before, after=after, mode=how)
    return r.copy(result, "A", like=x)


def _within_period(r: Recorder, n: Size, mode: str, before: Size, after: Size) -> bool:
    reach = sub(n, 1) if mode == "reflect" else n
    return all(isinstance(w, int) and (w == 0 or shapes.decide(r, le(w, reach))) for w in (before, after))


def _pad_far(r: Recorder, x: ArrayHandle, where: int, mode: str, before: Size, after: Size) -> ArrayHandle:
    n = x.shape[where]
    if not (isinstance(n, int) and isinstance(before, int) and isinstance(after, int)):
        raise Unsupported(f"np.pad(mode={mode!r}) wider than a symbolic axis", "pad by less than the size")
    places = np.pad(np.arange(n), (before, after), mode=mode)  # type: ignore[call-overload]
    result: ArrayHandle = call(r, "take", x, r.constant(places), axis=where, index_rank=1)
    return result


def _pad_with_statistics(
    r: Recorder, x: ArrayHandle, where: int, mode: str, before: Size, after: Size, stat: Pair
) -> ArrayHandle:
    parts = [_stat(r, x, where, mode, before, stat[0], True), x, _stat(r, x, where, mode, after, stat[1], False)]
    return call(r, "concat", *parts, axis=where)


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
