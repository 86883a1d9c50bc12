"""Counting: histogram, its edges, and bincount of a length that is given.

What goes in: the arguments of the NumPy function. What comes out: what NumPy gives, with its bin edges to the bit.

What holds: the number of bins is known when the function is captured. What NumPy raises for the data - edges that
fall, a range that is not finite - is raised where these are constants.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from broadloom import dtypes
from broadloom.dtypes import DType
from broadloom.frontend import shapes
from broadloom.frontend.creation import np_linspace
from broadloom.frontend.differences import np_diff
from broadloom.frontend.indexing import take
from broadloom.frontend.operands import as_array, call, cast, constant, is_symbolic, lift, operand, result_dtype
from broadloom.frontend.reductions import np_max, np_min, np_sum
from broadloom.frontend.searching import search
from broadloom.frontend.sorting import flat
from broadloom.frontend.ufuncs import apply, full
from broadloom.frontend.unsupported import DependsOnData, Unsupported, plain_numpy_raises
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle
from broadloom.records import dataclass
from broadloom.symbolic import Size, ge

UNSIGNED = {dtypes.int8: dtypes.uint8, dtypes.int16: dtypes.uint16, dtypes.int32: dtypes.uint32}
UNSIGNED |= {dtypes.int64: dtypes.uint64}


def counts(r: Recorder, places: ArrayHandle, length: Size, weights: ArrayHandle | None, d: DType) -> ArrayHandle:
    """How often each of 0 .. length - 1 stands in `places`, or the sum of the weights there. A place outside raises."""
    start = full(r, (length,), 0, d)
    one = weights if weights is not None else constant(r, 1, d)
    values = shapes.expand(r, one, places.shape)
    return call(r, "scatter", start, values, places, axes=(-1,), core=1, index_rank=1, mode="add")


# ---- bincount ------------------------------------------------------------------------------------------------------


def np_bincount(r: Recorder, x: object, /, weights: object = None, minlength: object = 0) -> ArrayHandle:
    """`numpy.bincount`: how long the result is, only the data can tell."""
    raise DependsOnData("the length of np.bincount depends on data", "use bl.bincount(x, length=n)")


def bincount(
    r: Recorder, x: object, weights: object = None, minlength: object = 0, *, length: object = None
) -> ArrayHandle:
    """`bincount` into `length` bins; a number that has none raises an IndexError."""
    if length is None:
        return np_bincount(r, x, weights, minlength)
    places, n = as_array(r, x), shapes.as_size(length, "length")
    if places.ndim != 1 or not (places.dtype.is_integer or places.dtype is dtypes.bool_):
        raise plain_numpy_raises("bincount counts integers of one dimension")
    if not shapes.decide(r, ge(n, shapes.as_size(minlength, "minlength"))) or not shapes.decide(r, ge(n, 0)):
        raise plain_numpy_raises("length is less than minlength or negative")
    places = cast(r, places, dtypes.int64)
    # A negative index would count from the end.
    negative = apply(r, np.less, places, 0)
    places = call(r, "where", negative, apply(r, np.subtract, places, n), places)
    if weights is None:
        return counts(r, places, n, None, dtypes.int64)
    each = cast(r, as_array(r, weights), dtypes.float64)
    if not shapes.same_shape(r, each.shape, places.shape):
        raise plain_numpy_raises("the weights and list don't have the same length")
    return counts(r, places, n, each, dtypes.float64)


# ---- edges ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Uniform:
    """Bins of one width: their outer edges and their number."""

    first: Any
    last: Any
    number: int


def _data(r: Recorder, a: object, weights: object) -> tuple[ArrayHandle, ArrayHandle | None]:
    x = as_array(r, a)
    if x.dtype is dtypes.bool_:
        x = cast(r, x, dtypes.uint8)
    w = None if weights is None else as_array(r, weights)
    if w is not None and not shapes.same_shape(r, w.shape, x.shape):
        raise plain_numpy_raises("weights should have the same shape as a.")
    return flat(r, x), None if w is None else flat(r, w)


def _outer(r: Recorder, x: ArrayHandle, range_: object) -> tuple[Any, Any]:
    """First and last edge: of the range that is given, else of the data; an empty range is widened."""
    if range_ is not None:
        if not isinstance(range_, (tuple, list)) or len(range_) != 2:
            raise Unsupported("a histogram range that is no pair", "give range=(first, last)")
        first, last = range_
        if not is_symbolic(range_):
            if first > last or not (np.isfinite(first) and np.isfinite(last)):
                raise plain_numpy_raises("max must be larger than min in range parameter, and both finite")
            return (first - 0.5, last + 0.5) if first == last else (first, last)
        first, last = as_array(r, first), as_array(r, last)
    elif shapes.same(r, x.shape[0], 0):
        return 0, 1
    else:
        first, last = np_min(r, x), np_max(r, x)
    d = result_dtype(r, first, last)
    same = apply(r, np.equal, first, last)
    if d.is_integer:  # only the edges are widened, and these are float64
        first, last = cast(r, first, dtypes.float64), cast(r, last, dtypes.float64)
    lower, upper = apply(r, np.subtract, first, 0.5), apply(r, np.add, last, 0.5)
    return call(r, "where", same, lower, first), call(r, "where", same, upper, last)


def _edges(r: Recorder, x: ArrayHandle, bins: Any, range_: object) -> tuple[ArrayHandle, Uniform | None]:
    if isinstance(bins, str):
        raise DependsOnData(f"the number of bins by {bins!r} depends on data", "give the number of bins")
    if isinstance(bins, (list, tuple, np.ndarray)) or (isinstance(bins, ArrayHandle) and bins.ndim):
        edges = as_array(r, bins)
        if edges.ndim != 1:
            raise plain_numpy_raises("`bins` must be 1d, when an array")
        if not is_symbolic(bins) and np.any(np.asarray(bins)[:-1] > np.asarray(bins)[1:]):
            raise plain_numpy_raises("`bins` must increase monotonically, when an array")
        return edges, None
    if is_symbolic(bins):
        raise DependsOnData("the number of bins is known only at run time", "give it as a constant")
    try:
        number = operator.index(bins)
    except TypeError as error:
        raise plain_numpy_raises("`bins` must be an integer, a string, or an array") from error
    if number < 1:
        raise plain_numpy_raises("`bins` must be positive, when an integer")
    first, last = _outer(r, x, range_)
    d = result_dtype(r, first, last, x)
    if d.is_integer:
        d = dtypes.float64
    edges = np_linspace(r, first, last, number + 1, True, False, d.numpy)
    return edges, Uniform(first, last, number)


def np_histogram_bin_edges(
    r: Recorder, a: object, bins: object = 10, range: object = None, weights: object = None
) -> ArrayHandle:
    """`numpy.histogram_bin_edges` for a number of bins, or for edges."""
    x, _ = _data(r, a, weights)
    return _edges(r, x, bins, range)[0]


# ---- histogram -----------------------------------------------------------------------------------------------------


def np_histogram(
    r: Recorder,
    a: object,
    bins: object = 10,
    range: object = None,
    density: object = None,
    weights: object = None,
) -> tuple[ArrayHandle, ArrayHandle]:
    """`numpy.histogram` for a number of bins, or for edges."""
    x, w = _data(r, a, weights)
    edges, uniform = _edges(r, x, bins, range)
    d = dtypes.int64 if w is None else w.dtype
    if d.kind == "c" or d is dtypes.bool_:
        raise Unsupported(f"a histogram with {d} weights", "use float weights, and two histograms for complex ones")
    number = edges.shape[0] - 1 if uniform is None else uniform.number
    places = _places(r, x, edges, number) if uniform is None else _uniform_places(r, x, edges, uniform)
    # What lies outside is counted in a bin behind the last.
    summed = d if w is None or d.kind != "f" else dtypes.float64
    each = None if w is None else cast(r, w, summed)
    n = counts(r, places, number + 1, each, summed)
    n = cast(r, r.copy(shapes.cut(r, n, -1, 0, number)), d)
    if not density:
        return n, edges
    width = cast(r, np_diff(r, edges), dtypes.float64)
    return apply(r, np.true_divide, apply(r, np.true_divide, n, width), np_sum(r, n)), edges


def _places(r: Recorder, x: ArrayHandle, edges: ArrayHandle, number: Size) -> ArrayHandle:
    """The bin of each element, or `number`; the last bin holds its upper edge."""
    found = apply(r, np.subtract, search(r, edges, x, "right"), 1)
    top = shapes.reshape(r, shapes.cut(r, edges, -1, number, 1), ())
    found = call(r, "where", apply(r, np.equal, x, top), cast(r, apply(r, np.subtract, number, 1), dtypes.int64), found)
    outside = apply(r, np.logical_or, apply(r, np.less, found, 0), apply(r, np.greater_equal, found, number))
    return call(r, "where", outside, lift(r, operand(r, number), dtypes.int64), found)


def _uniform_places(r: Recorder, x: ArrayHandle, edges: ArrayHandle, u: Uniform) -> ArrayHandle:
    """NumPy's bins of equal width: computed, then put right by one where the edges say otherwise."""
    keep = apply(r, np.logical_and, apply(r, np.greater_equal, x, u.first), apply(r, np.less_equal, x, u.last))
    value = cast(r, x, edges.dtype)
    span = _distance(r, u.last, u.first)
    fraction = apply(r, np.true_divide, _distance(r, value, u.first), span)
    place = apply(r, np.multiply, fraction, u.number)
    zero = constant(r, 0, place.dtype)
    index = cast(r, call(r, "where", keep, place, zero), dtypes.int64)
    last = constant(r, u.number - 1, dtypes.int64)
    index = call(r, "maximum", call(r, "minimum", index, last), constant(r, 0, dtypes.int64))
    one = constant(r, 1, dtypes.int64)
    below = apply(r, np.less, value, take(r, edges, index))
    index = call(r, "where", below, call(r, "subtract", index, one), index)
    index = call(r, "maximum", index, constant(r, 0, dtypes.int64))
    above = apply(r, np.greater_equal, value, take(r, edges, call(r, "add", index, one)))
    above = apply(r, np.logical_and, above, call(r, "not_equal", index, last))
    index = call(r, "where", above, call(r, "add", index, one), index)
    return call(r, "where", keep, index, constant(r, u.number, dtypes.int64))


def _distance(r: Recorder, a: Any, b: Any) -> ArrayHandle:
    """a - b for a >= b; of integers as unsigned ones, which cannot overflow."""
    d = result_dtype(r, a, b)
    unsigned = UNSIGNED.get(d)
    if unsigned is None:
        return apply(r, np.subtract, a, b)
    first, second = (cast(r, lift(r, operand(r, x), d), unsigned) for x in (a, b))
    return call(r, "subtract", first, second)
