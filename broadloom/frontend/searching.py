"""Searching in sorted arrays, and what rests on it: searchsorted, digitize, interp, isin.

What goes in: the arguments of the NumPy function. What comes out: fresh arrays or NumPy scalars, as NumPy gives them.

What holds: of an array that is not sorted, some position comes out, as in NumPy; what NumPy checks about the data of
bins is checked where the bins are constants.
"""

from __future__ import annotations

import numpy as np

from broadloom import dtypes
from broadloom.dtypes import DType
from broadloom.frontend import shapes
from broadloom.frontend.elementwise import truth
from broadloom.frontend.indexing import take
from broadloom.frontend.operands import as_array, call, cast, constant, from_size, is_symbolic, promote
from broadloom.frontend.sorting import flat
from broadloom.frontend.ufuncs import apply, deliver
from broadloom.frontend.unsupported import plain_numpy_raises
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle
from broadloom.symbolic import Size, ge, le

FEW = 12  # elements that are compared one by one rather than sorted


def np_searchsorted(r: Recorder, a: object, v: object, side: object = "left", sorter: object = None) -> ArrayHandle:
    """`numpy.searchsorted`."""
    sorted_, values = as_array(r, a), as_array(r, v)
    if sorted_.ndim != 1:
        raise plain_numpy_raises("the sorted array must have one dimension")
    if sorter is not None:
        order = as_array(r, sorter)
        if not order.dtype.is_integer:
            raise plain_numpy_raises("sorter must only contain integers")
        if order.ndim != 1 or not shapes.same(r, order.shape[0], sorted_.shape[0]):
            raise plain_numpy_raises("sorter.size must equal a.size")
        sorted_ = take(r, sorted_, order)
    return deliver(r, search(r, sorted_, values, _side(side)), None)


def _side(side: object) -> str:
    if not isinstance(side, str) or side.lower() not in ("l", "left", "r", "right"):
        raise plain_numpy_raises(f"search side must be 'left' or 'right' (got {side!r})")
    return "left" if side.lower()[0] == "l" else "right"


def search(r: Recorder, sorted_: ArrayHandle, values: ArrayHandle, side: str) -> ArrayHandle:
    """The places of the values in the sorted array, in their common dtype."""
    d = promote(sorted_.dtype, values.dtype)
    return call(r, "searchsorted", cast(r, sorted_, d), cast(r, values, d), side=side)


def np_digitize(r: Recorder, x: object, bins: object, right: object = False) -> ArrayHandle:
    """`numpy.digitize`; bins may run up or down, which is found out at run time where they are no constants."""
    values, edges = as_array(r, x), as_array(r, bins)
    if values.dtype.kind == "c":
        raise plain_numpy_raises("x may not be complex")
    if edges.ndim != 1:
        raise plain_numpy_raises("bins must have one dimension")
    side = "left" if right else "right"
    if not is_symbolic(bins):
        known = np.asarray(bins)
        if known.size > 1 and not (np.all(known[1:] >= known[:-1]) or np.all(known[1:] <= known[:-1])):
            raise plain_numpy_raises("bins must be monotonically increasing or decreasing")
        down = bool(known.size > 1 and known[-1] < known[0])
        return deliver(r, _down(r, edges, values, right) if down else search(r, edges, values, side), None)
    up = search(r, edges, values, side)
    n = edges.shape[0]
    if not shapes.decide(r, ge(n, 2)):
        return deliver(r, up, None)
    first, last = _at(r, edges, 0), _at(r, edges, n - 1)
    falls = apply(r, np.less, last, first)
    return deliver(r, call(r, "where", falls, _down(r, edges, values, right), up), None)


def _down(r: Recorder, edges: ArrayHandle, values: ArrayHandle, right: object) -> ArrayHandle:
    """The places in bins that run down: counted from the other end."""
    backwards = call(r, "flip", edges, axes=(-1,))
    return apply(r, np.subtract, edges.shape[0], search(r, backwards, values, "left" if right else "right"))


def _at(r: Recorder, x: ArrayHandle, place: Size) -> ArrayHandle:
    """Element `place` of a 1-D array, 0-d."""
    return shapes.reshape(r, shapes.cut(r, x, -1, place, 1), ())


# ---- interp --------------------------------------------------------------------------------------------------------


def np_interp(
    r: Recorder,
    x: object,
    xp: object,
    fp: object,
    left: object = None,
    right: object = None,
    period: object = None,
) -> ArrayHandle:
    """`numpy.interp`, in float64 or complex128."""
    values, points, heights = as_array(r, x), as_array(r, xp), as_array(r, fp)
    d = dtypes.complex128 if heights.dtype.kind == "c" else dtypes.float64
    values, points = (_real(r, a) for a in (values, points))
    heights = cast(r, heights, d)
    if points.ndim != 1 or heights.ndim != 1:
        raise plain_numpy_raises("data points must be 1-D sequences")
    n = points.shape[0]
    if not shapes.same(r, n, heights.shape[0]):
        raise plain_numpy_raises("fp and xp are not of the same length")
    if shapes.same(r, n, 0):
        raise plain_numpy_raises("array of sample points is empty")
    if period is not None:
        values, points, heights = _periodic(r, values, points, heights, period)
        left = right = None
        n = n + 2
    low = _at(r, heights, 0) if left is None else cast(r, as_array(r, left), d)
    high = _at(r, heights, n - 1) if right is None else cast(r, as_array(r, right), d)
    return deliver(r, _interpolated(r, values, points, heights, low, high), None)


def _real(r: Recorder, x: ArrayHandle) -> ArrayHandle:
    if x.dtype.kind == "c":
        raise plain_numpy_raises("complex sample points cannot be cast to float64 safely")
    return cast(r, x, dtypes.float64)


def _periodic(
    r: Recorder, values: ArrayHandle, points: ArrayHandle, heights: ArrayHandle, period: object
) -> tuple[ArrayHandle, ArrayHandle, ArrayHandle]:
    """Values and points taken into one period, which is continued by a point on either side."""
    if not is_symbolic(period) and period == 0:
        raise plain_numpy_raises("period must be a non-zero value")
    width = cast(r, apply(r, np.absolute, as_array(r, period)), dtypes.float64)
    values, points = apply(r, np.remainder, values, width), apply(r, np.remainder, points, width)
    order = call(r, "argsort", points, axis=-1)
    points, heights = (call(r, "take_along_axis", a, order, axis=-1) for a in (points, heights))
    n = points.shape[0]
    before, after = shapes.cut(r, points, -1, n - 1, 1), shapes.cut(r, points, -1, 0, 1)
    ends = apply(r, np.subtract, before, width), apply(r, np.add, after, width)
    last, first = shapes.cut(r, heights, -1, n - 1, 1), shapes.cut(r, heights, -1, 0, 1)
    return values, shapes.join(r, [ends[0], points, ends[1]], -1), shapes.join(r, [last, heights, first], -1)


def _interpolated(
    r: Recorder, x: ArrayHandle, xp: ArrayHandle, fp: ArrayHandle, low: ArrayHandle, high: ArrayHandle
) -> ArrayHandle:
    """NumPy's loop, point by point; a point of the data gives its own height."""
    n, d = xp.shape[0], fp.dtype
    bottom, top = _at(r, xp, 0), _at(r, xp, n - 1)
    outside = [(apply(r, np.less, x, bottom), low), (apply(r, np.greater, x, top), high)]
    if shapes.same(r, n, 1):
        return _picked(r, outside, shapes.expand(r, _at(r, fp, 0), x.shape))
    found = call(r, "subtract", search(r, xp, x, "right"), constant(r, 1, dtypes.int64))
    place = call(r, "clip", found, constant(r, 0, dtypes.int64), from_size(r, n - 2))
    heights = [fp] if d.kind != "c" else [call(r, part, fp) for part in ("real", "imag")]
    ends = [(shapes.cut(r, a, -1, 0, n - 1), shapes.cut(r, a, -1, 1, n - 1)) for a in (xp, *heights)]
    (x0, x1), *ys = [(take(r, first, place), take(r, second, place)) for first, second in ends]
    lines = [call(r, "interpolate", x, x0, x1, y0, y1, inverse=d.kind == "c") for y0, y1 in ys]
    if d.kind != "c":
        return _picked(r, outside, lines[0])
    return _picked(r, [(call(r, "isnan", x), cast(r, x, d)), *outside], call(r, "complex", *lines))


def _picked(r: Recorder, cases: list[tuple[ArrayHandle, ArrayHandle]], otherwise: ArrayHandle) -> ArrayHandle:
    """The value of the first case that holds."""
    result = otherwise
    for condition, value in reversed(cases):
        result = call(r, "where", condition, value, result)
    return r.copy(result, "C")


# ---- isin ----------------------------------------------------------------------------------------------------------


def np_isin(
    r: Recorder,
    element: object,
    test_elements: object,
    assume_unique: object = False,
    invert: object = False,
    *,
    kind: object = None,
) -> ArrayHandle:
    """`numpy.isin`: compared one by one with a few elements, searched among many."""
    if kind not in (None, "sort", "table"):
        raise plain_numpy_raises(f"invalid kind: {kind!r}")
    x, others = as_array(r, element), as_array(r, test_elements)
    d = promote(x.dtype, others.dtype)
    x, others = cast(r, x, d), cast(r, flat(r, others), d)
    found = _found(r, x, others, d)
    result = call(r, "logical_not", found) if invert else found
    return r.copy(truth(r, result), "C")


def _found(r: Recorder, x: ArrayHandle, others: ArrayHandle, d: DType) -> ArrayHandle:
    n = others.shape[0]
    if shapes.same(r, n, 0):
        return shapes.expand(r, constant(r, False), x.shape)
    if shapes.decide(r, le(n, FEW)):
        pairs = call(r, "equal", shapes.insert_axes(r, x, x.ndim), others)
        return call(r, "any", pairs, axes=(-1,), keepdims=False)
    ordered = call(r, "sort", others, axis=-1)
    place = call(r, "searchsorted", ordered, x, side="left")
    inside = call(r, "minimum", place, cast(r, apply(r, np.subtract, n, 1), dtypes.int64))
    return call(r, "equal", take(r, ordered, inside), x)
