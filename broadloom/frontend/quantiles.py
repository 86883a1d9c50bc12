"""Medians, quantiles and percentiles: by a sort, then between the two elements beside a virtual index.

What goes in: the arguments of the NumPy function. What comes out: what NumPy gives, by its formulas and in its order
of operations; a slice that holds a nan gives nan.

What holds: a quantile that is a constant is checked to lie in [0, 1]; one that is known only at run time is not, and
one outside takes the outermost element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from broadloom import dtypes
from broadloom.dtypes import DType
from broadloom.frontend import shapes
from broadloom.frontend.indexing import getitem, take
from broadloom.frontend.operands import as_array, call, cast, constant, is_numpy_inexact, is_symbolic, result_dtype
from broadloom.frontend.reductions import NO_VALUE, np_mean, np_sum
from broadloom.frontend.shaping import np_moveaxis, np_swapaxes
from broadloom.frontend.ufuncs import apply, as_out, deliver
from broadloom.frontend.unsupported import Unsupported, plain_numpy_raises
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle, WeakScalar
from broadloom.records import dataclass
from broadloom.symbolic import Expr, Size, floordiv

Reduce = Callable[[ArrayHandle, int], ArrayHandle]


# ---- what they share -----------------------------------------------------------------------------------------------


def _reduced(r: Recorder, a: object, axis: object, keepdims: object, out: object, reduce: Reduce) -> ArrayHandle:
    """`reduce(x, axis)` over one or several axes, which are joined into one as NumPy does."""
    x = as_array(r, a)
    nd = x.ndim
    given = x
    if axis is None:
        axes = tuple(range(-nd, 0))
        given, where = shapes.reshape(r, r.copy(x, "C"), (shapes.count(x.shape),)), -1
    else:
        axes = shapes.axes_from_end(axis, nd)
        where = axes[0] if len(axes) == 1 else -1
        if len(axes) != 1:
            given = _joined(r, x, axes)
    result = reduce(given, where)
    target = as_out(out)
    kept = keepdims is not NO_VALUE and bool(keepdims)
    if kept:
        front = result.ndim - (nd - len(axes))
        rest = iter(result.shape[front:])
        spread = tuple(1 if i in axes else next(rest) for i in range(-nd, 0))
        result = shapes.reshape(r, result, (*result.shape[:front], *spread))
        result = r.copy(result) if result.numpy_scalar else result  # an array, even if it has no axes
    return result if target is None and kept else deliver(r, result, target, casting="unsafe")


def _joined(r: Recorder, x: ArrayHandle, axes: tuple[int, ...]) -> ArrayHandle:
    keep = [i for i in range(x.ndim) if i - x.ndim not in axes]
    for i, s in enumerate(keep):
        x = np_swapaxes(r, x, i, s)
    return shapes.reshape(r, x, (*x.shape[: len(keep)], shapes.count(x.shape[len(keep) :])))


def _with_nans(r: Recorder, result: ArrayHandle, last: ArrayHandle) -> ArrayHandle:
    """nan where the largest element is nan."""
    nan = call(r, "isnan", last)
    if result.dtype is not last.dtype:
        last = cast(r, last, result.dtype)
    return call(r, "where", nan, last, result)


# ---- median --------------------------------------------------------------------------------------------------------


def np_median(
    r: Recorder,
    a: object,
    axis: object = None,
    out: object = None,
    overwrite_input: object = False,
    keepdims: object = False,
) -> ArrayHandle:
    """`numpy.median`: the mean of the one or two elements in the middle."""
    return _reduced(r, a, axis, keepdims, out, lambda x, where: _median(r, x, where))


def _median(r: Recorder, x: ArrayHandle, axis: int) -> ArrayHandle:
    n = x.shape[axis]
    if shapes.same(r, n, 0):
        return np_mean(r, x, axis)
    part = call(r, "sort", x, axis=axis)
    low, high = floordiv(n - 1, 2), floordiv(n, 2)
    result = np_mean(r, shapes.cut(r, part, axis, low, high - low + 1), axis)
    if not is_numpy_inexact(x.dtype):
        return result
    return _with_nans(r, result, _element(r, part, axis, n - 1))


def _element(r: Recorder, x: ArrayHandle, axis: int, place: Size) -> ArrayHandle:
    return shapes.drop_axes(r, shapes.cut(r, x, axis, place, 1), [axis])


def np_nanmedian(
    r: Recorder,
    a: object,
    axis: object = None,
    out: object = None,
    overwrite_input: object = False,
    keepdims: object = NO_VALUE,
) -> ArrayHandle:
    """`numpy.nanmedian`: the median of what is no nan; nan where nothing is left."""
    x = as_array(r, a)
    if not is_numpy_inexact(x.dtype):
        return np_median(r, x, axis, out, overwrite_input, keepdims)
    return _reduced(r, x, axis, keepdims, out, lambda y, where: _nanmedian(r, y, where))


def _nanmedian(r: Recorder, x: ArrayHandle, axis: int) -> ArrayHandle:
    n = x.shape[axis]
    if shapes.same(r, n, 0):
        return np_mean(r, x, axis)
    part = call(r, "sort", x, axis=axis)
    present = np_sum(r, call(r, "logical_not", call(r, "isnan", x)), axis, None, None, True)
    two, zero = constant(r, 2, dtypes.int64), constant(r, 0, dtypes.int64)
    before = call(r, "maximum", apply(r, np.subtract, present, 1), zero)
    low, high = (call(r, "floor_divide", k, two) for k in (before, present))
    high = call(r, "minimum", high, cast(r, apply(r, np.subtract, n, 1), dtypes.int64))
    ends = [call(r, "take_along_axis", part, k, axis=axis) for k in (low, high)]
    middle = np_mean(r, shapes.join(r, ends, axis), axis)
    low_end = shapes.drop_axes(r, ends[0], [axis])
    odd = shapes.drop_axes(r, call(r, "equal", low, high), [axis])
    return call(r, "where", odd, low_end, middle)


# ---- quantiles -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Method:
    """How a quantile is found: `virtual(r, n, q)` is the virtual index; `gamma(r, gamma, virtual)` the weight of the
    upper neighbour, where the index is no integer."""

    virtual: Callable[[Recorder, Size, ArrayHandle], ArrayHandle]
    gamma: Callable[[Recorder, ArrayHandle, ArrayHandle], ArrayHandle] | None


def _scaled(r: Recorder, n: Size, q: ArrayHandle, less: int = 0) -> ArrayHandle:
    return apply(r, np.multiply, n - less, q)


def _closed(alpha: float, beta: float) -> Method:
    """Hyndman and Fan's continuous methods."""

    def virtual(r: Recorder, n: Size, q: ArrayHandle) -> ArrayHandle:
        shift = apply(r, np.add, alpha, apply(r, np.multiply, q, 1 - alpha - beta))
        return apply(r, np.subtract, apply(r, np.add, _scaled(r, n, q), shift), 1)

    return Method(virtual, _same)


def _same(r: Recorder, gamma: ArrayHandle, virtual: ArrayHandle) -> ArrayHandle:
    return gamma


def _either(r: Recorder, condition: ArrayHandle, yes: float, no: float, d: DType) -> ArrayHandle:
    return call(r, "where", condition, constant(r, yes, d), constant(r, no, d))


def _rounded(u: np.ufunc | None) -> Method:
    def virtual(r: Recorder, n: Size, q: ArrayHandle) -> ArrayHandle:
        index = _scaled(r, n, q, 1)
        return cast(r, call(r, "round", index) if u is None else apply(r, u, index), dtypes.int64)

    return Method(virtual, None)


def _midpoint(r: Recorder, n: Size, q: ArrayHandle) -> ArrayHandle:
    index = _scaled(r, n, q, 1)
    both = apply(r, np.add, apply(r, np.floor, index), apply(r, np.ceil, index))
    return apply(r, np.multiply, 0.5, both)


def _midpoint_gamma(r: Recorder, gamma: ArrayHandle, virtual: ArrayHandle) -> ArrayHandle:
    return _either(r, apply(r, np.equal, apply(r, np.remainder, virtual, 1), 0), 0.0, 0.5, virtual.dtype)


def _averaged_gamma(r: Recorder, gamma: ArrayHandle, virtual: ArrayHandle) -> ArrayHandle:
    return _either(r, apply(r, np.equal, gamma, 0), 0.5, 1.0, virtual.dtype)


def _discrete(shift: float, nearest: bool) -> Method:
    """The element below or above: below where the weight is 0 (and, for the nearest, the index is odd)."""

    def virtual(r: Recorder, n: Size, q: ArrayHandle) -> ArrayHandle:
        index = apply(r, np.subtract, _scaled(r, n, q), 1)
        if shift:
            index = apply(r, np.subtract, index, shift)
        previous = apply(r, np.floor, index)
        stays = apply(r, np.equal, apply(r, np.subtract, index, previous), 0)
        if nearest:
            stays = apply(r, np.logical_and, stays, apply(r, np.equal, apply(r, np.remainder, previous, 2), 1))
        chosen = call(r, "where", stays, previous, apply(r, np.add, previous, 1))
        return apply(r, np.maximum, cast(r, chosen, dtypes.int64), 0)

    return Method(virtual, None)


METHODS: Mapping[str, Method] = {
    "linear": Method(lambda r, n, q: _scaled(r, n, q, 1), _same),
    "lower": _rounded(np.floor),
    "higher": _rounded(np.ceil),
    "nearest": _rounded(None),
    "midpoint": Method(_midpoint, _midpoint_gamma),
    "inverted_cdf": _discrete(0, False),
    "closest_observation": _discrete(0.5, True),
    "averaged_inverted_cdf": Method(lambda r, n, q: apply(r, np.subtract, _scaled(r, n, q), 1), _averaged_gamma),
    "interpolated_inverted_cdf": _closed(0, 1),
    "hazen": _closed(0.5, 0.5),
    "weibull": _closed(0, 0),
    "median_unbiased": _closed(1 / 3.0, 1 / 3.0),
    "normal_unbiased": _closed(3 / 8.0, 3 / 8.0),
}


def np_quantile(
    r: Recorder,
    a: object,
    q: object,
    axis: object = None,
    out: object = None,
    overwrite_input: object = False,
    method: object = "linear",
    keepdims: object = False,
    *,
    weights: object = None,
) -> ArrayHandle:
    """`numpy.quantile`, without weights."""
    weak = type(q) in (int, float) or isinstance(q, (WeakScalar, Expr))
    if not is_symbolic(q):
        _check(np.asarray(q))
    return _quantile(r, a, as_array(r, q), weak, axis, out, method, keepdims, weights)


def np_percentile(
    r: Recorder,
    a: object,
    q: object,
    axis: object = None,
    out: object = None,
    overwrite_input: object = False,
    method: object = "linear",
    keepdims: object = False,
    *,
    weights: object = None,
) -> ArrayHandle:
    """`numpy.percentile`, without weights."""
    weak = type(q) in (int, float) or isinstance(q, (WeakScalar, Expr))
    if is_symbolic(q):
        given: ArrayHandle = apply(r, np.true_divide, as_array(r, q), 100)
        return _quantile(r, a, given, weak, axis, out, method, keepdims, weights)
    fractions = np.true_divide(np.asarray(q), 100)
    _check(fractions)
    return _quantile(r, a, as_array(r, fractions), weak, axis, out, method, keepdims, weights)


def _check(q: Any) -> None:
    if np.size(q) and not (np.min(q) >= 0 and np.max(q) <= 1):
        raise plain_numpy_raises("quantiles must be in the range [0, 1]")


def _quantile(
    r: Recorder,
    a: object,
    q: ArrayHandle,
    weak: bool,
    axis: object,
    out: object,
    method: object,
    keepdims: object,
    weights: object,
) -> ArrayHandle:
    if weights is not None:
        raise Unsupported("quantiles with weights", "leave weights out, or compute them outside the compiled function")
    chosen = METHODS.get(method) if isinstance(method, str) else None
    if chosen is None:
        raise plain_numpy_raises(f"{method!r} is not a valid method")
    x = as_array(r, a)
    if x.dtype.kind == "c":
        raise plain_numpy_raises("a must be an array of real numbers")
    if q.ndim > 2:
        raise plain_numpy_raises("q must be a scalar or 1d")

    def reduce(y: ArrayHandle, where: int) -> ArrayHandle:
        return _quantiles(r, y, where, q, weak, chosen, method == "linear")

    return _reduced(r, x, axis, keepdims, out, reduce)


def _quantiles(
    r: Recorder, x: ArrayHandle, axis: int, q: ArrayHandle, weak: bool, method: Method, linear: bool
) -> ArrayHandle:
    n = x.shape[axis]
    if shapes.same(r, n, 0):
        raise plain_numpy_raises("quantiles of no elements")
    sorted_ = call(r, "sort", r.copy(x, "C"), axis=axis)
    part = np_moveaxis(r, sorted_, axis, 0)
    virtual = method.virtual(r, n, q)
    if method.gamma is None or (linear and virtual.dtype.is_integer):
        result = take(r, part, virtual, 0)
    else:
        lower, upper = _neighbours(r, virtual, n)
        gamma = method.gamma(r, apply(r, np.subtract, virtual, cast(r, lower, virtual.dtype)), virtual)
        result = _between(r, getitem(r, part, lower), getitem(r, part, upper), gamma, weak, x.ndim - 1)
    if not is_numpy_inexact(x.dtype):
        return result
    return _with_nans(r, result, _element(r, part, -part.ndim, n - 1))


def _neighbours(r: Recorder, virtual: ArrayHandle, n: Size) -> tuple[ArrayHandle, ArrayHandle]:
    """The indices beside a virtual one; beyond the last element -1, and below the first 0, as in NumPy."""
    d = virtual.dtype
    previous = apply(r, np.floor, virtual)
    following = apply(r, np.add, previous, 1)
    above = apply(r, np.logical_or, apply(r, np.greater_equal, virtual, n - 1), call(r, "isnan", virtual))
    below = apply(r, np.less, virtual, 0)
    found = []
    for index in (previous, following):
        index = call(r, "where", above, constant(r, -1, d), index)
        found.append(cast(r, call(r, "where", below, constant(r, 0, d), index), dtypes.int64))
    return found[0], found[1]


def _between(
    r: Recorder, low: ArrayHandle, high: ArrayHandle, gamma: ArrayHandle, weak: bool, rank: int
) -> ArrayHandle:
    """NumPy's linear interpolation, which takes the end that is nearer; a weak weight has no say in the dtype."""
    difference = apply(r, np.subtract, high, low)
    rest = apply(r, np.subtract, 1, gamma)
    upper = apply(r, np.greater_equal, gamma, 0.5)
    if weak:
        d = result_dtype(r, difference, 0.5)
        gamma, rest = cast(r, gamma, d), cast(r, rest, d)
    else:
        gamma, rest, upper = (shapes.reshape(r, g, (*g.shape, *(1,) * rank)) for g in (gamma, rest, upper))
    result = apply(r, np.add, low, apply(r, np.multiply, difference, gamma))
    other = apply(r, np.subtract, high, apply(r, np.multiply, difference, rest))
    return call(r, "where", upper, cast(r, other, result.dtype), result)
