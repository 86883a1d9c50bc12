"""Reductions, with NumPy's accumulator dtypes, axes, keepdims, initial, where, ddof and out.

What goes in: the arguments of the NumPy function or method. What comes out: a NumPy scalar handle when no axis is
left, else an array handle; out= itself where it was given.

What holds: the accumulator dtype is the one NumPy's own ufunc reduces in; a reduction without identity over no
elements is refused, so that NumPy's ValueError is seen.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from broadloom import dtypes
from broadloom.dtypes import DType
from broadloom.frontend import shapes
from broadloom.frontend.loops import unchanged
from broadloom.frontend.operands import (
    as_array,
    call,
    cast,
    constant,
    from_size,
    known_dtype,
    lift,
    operand,
    result_dtype,
)
from broadloom.frontend.ufuncs import apply, as_mask, as_out, deliver, ufunc
from broadloom.frontend.unsupported import Unsupported, plain_numpy_raises
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle
from broadloom.symbolic import Size, ne

NO_VALUE = np._NoValue
Out = ArrayHandle | None


@lru_cache(maxsize=1024)
def accumulator(u: np.ufunc, d: DType) -> DType:
    """The dtype in which NumPy's ufunc reduces: int64 for the small ints of add and multiply."""
    try:
        return known_dtype(u.reduce(np.ones(1, d.numpy)).dtype)
    except TypeError as error:
        raise plain_numpy_raises(f"{u.__name__}.reduce: {error}") from error


def accumulator_into(d: DType, out: DType) -> DType:
    """The dtype in which NumPy adds or multiplies where an output is given: it counts in place of the usual one."""
    return dtypes.promote(d, out)


def _truth(keepdims: object) -> bool:
    if isinstance(keepdims, (np.bool, float)):  # some functions of NumPy take them
        raise Unsupported(f"keepdims of type {type(keepdims).__name__}", "pass a Python bool")
    return keepdims is not NO_VALUE and bool(keepdims)


def is_given(value: object) -> bool:
    return value is not NO_VALUE and value is not None


def _require_elements(r: Recorder, x: ArrayHandle, axes: tuple[int, ...], what: str) -> None:
    for a in axes:
        if shapes.same(r, x.shape[a], 0):
            raise plain_numpy_raises(f"{what} of a zero-size axis")


def reduce_with(
    r: Recorder,
    u: np.ufunc,
    op: str,
    a: object,
    axis: object = None,
    dtype: object = None,
    out: object = None,
    keepdims: object = False,
    initial: object = NO_VALUE,
    where: object = True,
) -> ArrayHandle:
    """`u.reduce(a, ...)`, where the op `op` is that reduction."""
    x = as_array(r, a)
    # NumPy lets axis 0 and -1 pass for a 0-d array, here and in no other place.
    axes = () if x.ndim == 0 and axis in (0, -1) else shapes.axes_from_end(axis, x.ndim)
    target = as_out(out)
    has_identity = u.identity is not None
    if dtype is not None:
        d = known_dtype(dtype)
    elif target is not None and op in ("sum", "prod"):
        d = accumulator_into(x.dtype, target.dtype)
    else:
        d = accumulator(u, x.dtype)
    truth = op in ("all", "any")
    x = x if truth else cast(r, x, d)
    mask = where is not True
    if mask:
        x = _masked(r, u, x, where, initial)
    elif not has_identity and not is_given(initial):
        _require_elements(r, x, axes, f"{op} without initial")
    if not axes:
        result = as_bool(r, x) if truth else unchanged(r, x)
    elif is_given(initial) and not has_identity:
        result = _extreme_of_maybe_empty(r, op, x, axes, _truth(keepdims), initial)
    else:
        name = {"sum": "any", "prod": "all", "max": "any", "min": "all"}.get(op, op) if d is dtypes.bool_ else op
        result = call(r, name, x, axes=axes, keepdims=_truth(keepdims))
    if is_given(initial):
        start = operand(r, initial)
        if truth:
            result = apply(r, u, result, as_array(r, initial))
        else:
            result = ufunc(r, u, result, lift(r, start, d))
    return deliver(r, result, target, casting="unsafe" if op in ("sum", "prod") else "same_kind")


def as_bool(r: Recorder, x: ArrayHandle) -> ArrayHandle:
    """The truth of each element, as a fresh array."""
    return call(r, "not_equal", x, constant(r, 0, x.dtype))


def _masked(r: Recorder, u: np.ufunc, x: ArrayHandle, where: object, initial: object) -> ArrayHandle:
    neutral = u.identity if u.identity is not None else initial
    if not is_given(neutral):
        raise plain_numpy_raises(f"{u.__name__}.reduce with where= needs initial=")
    mask = shapes.expand(r, as_mask(r, where), x.shape)
    return call(r, "where", mask, x, lift(r, operand(r, neutral), x.dtype))


def _extreme_of_maybe_empty(
    r: Recorder, op: str, x: ArrayHandle, axes: tuple[int, ...], keepdims: bool, initial: object
) -> ArrayHandle:
    """max or min with initial=, which NumPy allows over no elements: put initial beside the elements."""
    for a in axes:
        if shapes.same(r, x.shape[a], 0):
            result = call(r, "sum", x, axes=axes, keepdims=keepdims)  # for its layout
            r.write(result, shapes.expand(r, lift(r, operand(r, initial), x.dtype), result.shape))
            return result
    return call(r, op, x, axes=axes, keepdims=keepdims)


def _reduction(u: np.ufunc, op: str) -> Callable[..., ArrayHandle]:
    def run(
        r: Recorder,
        a: object,
        axis: object = None,
        dtype: object = None,
        out: object = None,
        keepdims: object = NO_VALUE,
        initial: object = NO_VALUE,
        where: object = True,
    ) -> ArrayHandle:
        return reduce_with(r, u, op, a, axis, dtype, out, keepdims, initial, True if where is NO_VALUE else where)

    return run


def _reduction_without_dtype(u: np.ufunc, op: str) -> Callable[..., ArrayHandle]:
    def run(
        r: Recorder,
        a: object,
        axis: object = None,
        out: object = None,
        keepdims: object = NO_VALUE,
        initial: object = NO_VALUE,
        where: object = True,
    ) -> ArrayHandle:
        return reduce_with(r, u, op, a, axis, None, out, keepdims, initial, True if where is NO_VALUE else where)

    return run


def _truth_reduction(u: np.ufunc, op: str) -> Callable[..., ArrayHandle]:
    def run(
        r: Recorder,
        a: object,
        axis: object = None,
        out: object = None,
        keepdims: object = NO_VALUE,
        *,
        where: object = True,
    ) -> ArrayHandle:
        return reduce_with(r, u, op, a, axis, None, out, keepdims, NO_VALUE, True if where is NO_VALUE else where)

    return run


np_sum, np_prod = _reduction(np.add, "sum"), _reduction(np.multiply, "prod")
np_max, np_min = _reduction_without_dtype(np.maximum, "max"), _reduction_without_dtype(np.minimum, "min")
np_all, np_any = _truth_reduction(np.logical_and, "all"), _truth_reduction(np.logical_or, "any")


# ---- mean, var, std ------------------------------------------------------------------------------------------------


def element_count(r: Recorder, x: ArrayHandle, axes: tuple[int, ...]) -> Size:
    """How many elements each result is made of."""
    return shapes.count(x.shape[a] for a in axes)


def _mean_dtypes(x: DType, dtype: object) -> tuple[DType, DType]:
    """(dtype computed in, dtype of the result) of mean."""
    if dtype is not None:
        d = known_dtype(dtype)
        return d, d
    if x.kind in "bui":
        return dtypes.float64, dtypes.float64
    return (dtypes.float32, x) if x is dtypes.float16 else (x, x)


def np_mean(
    r: Recorder,
    a: object,
    axis: object = None,
    dtype: object = None,
    out: object = None,
    keepdims: object = NO_VALUE,
    *,
    where: object = NO_VALUE,
) -> ArrayHandle:
    """`numpy.mean`."""
    x = as_array(r, a)
    axes = shapes.axes_from_end(axis, x.ndim)
    computed, final = _mean_dtypes(x.dtype, dtype)
    target = as_out(out)
    if dtype is None and target is not None:
        final = computed
    masked = where is not NO_VALUE and where is not True
    n = np_sum(r, shapes.expand(r, as_mask(r, where), x.shape), axis, None, None, keepdims) if masked else None
    if computed.kind in "bui":
        total = np_sum(r, x, axis, computed, None, keepdims, where=where)
        result = apply(r, np.true_divide, total, from_size(r, element_count(r, x, axes)) if n is None else n)
        return deliver(r, cast(r, result, final), target, casting="unsafe")
    x = cast(r, x, computed)
    if n is not None:
        total = np_sum(r, x, axis, None, None, keepdims, where=where)
        result = call(r, "divide", total, cast(r, n, computed))
    elif axes:
        result = call(r, "mean", x, axes=axes, keepdims=_truth(keepdims))
    else:
        result = r.copy(x)
    return deliver(r, cast(r, result, final), target, casting="unsafe")


def _spread(op: str) -> Callable[..., ArrayHandle]:
    """`numpy.var` or `numpy.std`."""

    def run(
        r: Recorder,
        a: object,
        axis: object = None,
        dtype: object = None,
        out: object = None,
        ddof: object = 0,
        keepdims: object = NO_VALUE,
        *,
        where: object = NO_VALUE,
        mean: object = NO_VALUE,
        correction: object = NO_VALUE,
    ) -> ArrayHandle:
        return spread(r, op, a, axis, dtype, out, ddof, keepdims, where, mean, correction)

    return run


np_var, np_std = _spread("var"), _spread("std")


def constant_degrees(op: str, ddof: object, correction: object) -> int | float:
    """The degrees of freedom taken off, from whichever of the two arguments was given."""
    degrees = ddof if correction is NO_VALUE else correction
    if not isinstance(degrees, (int, float)):
        raise Unsupported(f"np.{op} with ddof that is not a constant number", "give a constant ddof")
    return degrees


def spread(
    r: Recorder,
    op: str,
    a: object,
    axis: object,
    dtype: object,
    out: object,
    ddof: object,
    keepdims: object,
    where: object,
    mean: object,
    correction: object,
) -> ArrayHandle:
    x = as_array(r, a)
    axes = shapes.axes_from_end(axis, x.ndim)
    computed, final = _mean_dtypes(x.dtype, dtype)
    if computed.kind in "bui":
        raise Unsupported(f"np.{op} with an integer dtype=", "leave dtype out or give a float dtype")
    final = final.real if dtype is None else final
    if dtype is None and out is not None:
        final = computed.real
    degrees = constant_degrees(op, ddof, correction)
    x = cast(r, x, computed)
    if is_given(mean) or (where is not NO_VALUE and where is not True) or not axes:
        result = spread_of_selected(r, op, x, axis, axes, degrees, keepdims, where, mean)
    else:
        result = call(r, op, x, axes=axes, keepdims=_truth(keepdims), ddof=degrees)
    return deliver(r, cast(r, result, final), as_out(out), casting="unsafe")


def spread_of_selected(
    r: Recorder,
    op: str,
    x: ArrayHandle,
    axis: object,
    axes: tuple[int, ...],
    ddof: float,
    keepdims: object,
    where: object,
    mean: object,
) -> ArrayHandle:
    """var with where= or mean=: NumPy's two passes, written out."""
    selected = where is not NO_VALUE and where is not True
    mask: object = shapes.expand(r, as_mask(r, where), x.shape) if selected else True
    if selected:
        n: object = np_sum(r, mask, axis, None, None, keepdims)
        n_keep: object = np_sum(r, mask, axis, None, None, True)
    else:
        n = n_keep = from_size(r, element_count(r, x, axes))
    if is_given(mean):
        center = as_array(r, mean)
    else:
        total = np_sum(r, x, axis, None, None, True, where=mask)
        center = apply(r, np.true_divide, total, cast(r, as_array(r, n_keep), x.dtype))
    deviation = apply(r, np.subtract, x, center)
    if deviation.dtype.kind == "c":
        squares = call(
            r, "add", call(r, "square", call(r, "real", deviation)), call(r, "square", call(r, "imag", deviation))
        )
    else:
        squares = call(r, "square", deviation)
    total = np_sum(r, squares, axis, None, None, keepdims, where=mask)
    divisor = apply(r, np.maximum, apply(r, np.subtract, n, ddof), 0)
    result = call(r, "divide", total, cast(r, divisor, total.dtype))
    return call(r, "sqrt", result) if op == "std" else result


# ---- positions and counts ------------------------------------------------------------------------------------------


def _arg_extreme(op: str) -> Callable[..., ArrayHandle]:
    def run(
        r: Recorder, a: object, axis: object = None, out: object = None, *, keepdims: object = NO_VALUE
    ) -> ArrayHandle:
        x = as_array(r, a)
        target = as_out(out)
        if target is not None and not np.can_cast(target.dtype.numpy, np.intp, "safe"):
            raise plain_numpy_raises(f"cannot cast from {target.dtype} to {np.dtype(np.intp)} by the rule 'safe'")
        if axis is None:
            _require_elements(r, x, tuple(range(-x.ndim, 0)), op)
            flat = shapes.reshape(r, x, (shapes.count(x.shape),))
            result = call(r, op, flat, axis=-1, keepdims=False)
            if _truth(keepdims):
                result = shapes.reshape(r, result, (1,) * x.ndim)
        else:
            if x.ndim == 0:
                x = shapes.reshape(r, x, (1,))
                result = call(r, op, x, axis=shapes.axis_from_end(axis, 1), keepdims=False)
                return deliver(r, result, target, "unsafe")
            where = shapes.axis_from_end(axis, x.ndim)
            _require_elements(r, x, (where,), op)
            result = call(r, op, x, axis=where, keepdims=_truth(keepdims))
        return deliver(r, result, target, "unsafe")

    return run


np_argmax, np_argmin = _arg_extreme("argmax"), _arg_extreme("argmin")


def np_count_nonzero(r: Recorder, a: object, axis: object = None, *, keepdims: object = False) -> ArrayHandle:
    """`numpy.count_nonzero`; an integer scalar when no axis is left."""
    x = as_array(r, a)
    axes = () if x.ndim == 0 and axis in (0, -1) else shapes.axes_from_end(axis, x.ndim)
    if not axes:
        return deliver(r, cast(r, as_bool(r, x), dtypes.int64), None)
    return deliver(r, call(r, "count_nonzero", x, axes=axes, keepdims=_truth(keepdims)), None)


def np_ptp(r: Recorder, a: object, axis: object = None, out: object = None, keepdims: object = NO_VALUE) -> ArrayHandle:
    """`numpy.ptp`: max minus min."""
    low = np_min(r, a, axis, None, keepdims)
    return deliver(r, apply(r, np.subtract, np_max(r, a, axis, None, keepdims), low), as_out(out))


def np_average(
    r: Recorder,
    a: object,
    axis: object = None,
    weights: object = None,
    returned: bool = False,
    *,
    keepdims: object = NO_VALUE,
) -> Any:
    """`numpy.average`."""
    x = as_array(r, a)
    if weights is None:
        average = np_mean(r, x, axis, None, None, keepdims)
        if not all(shapes.decide(r, ne(n, 0)) for n in average.shape):
            raise plain_numpy_raises("division by zero")
        axes = shapes.axes_from_end(axis, x.ndim)
        total: Any = from_size(r, element_count(r, x, axes))
        total = deliver(r, cast(r, total, average.dtype), None)
    else:
        w = as_array(r, weights)
        inputs = result_dtype(r, x, w)
        if x.dtype.kind in "bui":
            inputs = result_dtype(r, inputs.numpy, np.float64)
        if not shapes.same_shape(r, x.shape, w.shape):
            if w.ndim != 1 or isinstance(axis, tuple) or axis is None:
                raise Unsupported("np.average with weights of another shape", "broadcast the weights to the array")
            where = shapes.axis_from_end(axis, x.ndim)
            if not shapes.same(r, w.shape[0], x.shape[where]):
                raise plain_numpy_raises("length of weights not compatible with specified axis")
            w = shapes.reshape(r, w, tuple(s if i == where else 1 for i, s in enumerate(x.shape, -x.ndim)))
        total = np_sum(r, w, axis, inputs, None, keepdims)
        product = apply(r, np.multiply, x, w)
        average = apply(r, np.true_divide, np_sum(r, product, axis, inputs, None, keepdims), total)
    if not returned:
        return average
    if total.shape != average.shape:
        total = r.copy(shapes.expand(r, total, average.shape))
    return average, total


# ---- ufunc.reduce --------------------------------------------------------------------------------------------------

REDUCTION_OPS: dict[np.ufunc, str] = {
    np.add: "sum",
    np.multiply: "prod",
    np.maximum: "max",
    np.minimum: "min",
    np.logical_and: "all",
    np.logical_or: "any",
}
UNROLL = 64  # other ufuncs are folded along a static axis of at most this many elements


def ufunc_reduce(
    r: Recorder,
    u: np.ufunc,
    array: object,
    axis: object = 0,
    dtype: object = None,
    out: object = None,
    keepdims: object = False,
    initial: object = NO_VALUE,
    where: object = True,
) -> ArrayHandle:
    """`u.reduce(array, axis=0, ...)`."""
    op = REDUCTION_OPS.get(u)
    if op in ("all", "any") and dtype is not None and known_dtype(dtype) is not dtypes.bool_:
        raise Unsupported(f"np.{u.__name__}.reduce with a dtype", "cast the result")
    if op is not None:
        dtype = None if op in ("all", "any") else dtype
        return reduce_with(r, u, op, array, axis, dtype, out, keepdims, initial, where)
    x = as_array(r, array)
    if u is np.logaddexp and where is True and not is_given(initial):
        d = accumulator(u, x.dtype) if dtype is None else known_dtype(dtype)
        axes = shapes.axes_from_end(axis, x.ndim)
        return deliver(r, call(r, "logsumexp", cast(r, x, d), axes=axes, keepdims=bool(keepdims)), as_out(out))
    if where is not True or is_given(initial) or u.nin != 2 or u.nout != 1:
        raise Unsupported(f"np.{u.__name__}.reduce with these arguments", "use sum, prod, max, min, all or any")
    if (isinstance(axis, tuple) and len(axis) != 1) or (axis is None and x.ndim != 1):
        raise Unsupported(f"np.{u.__name__}.reduce over several axes", "reduce one axis at a time")
    axes = shapes.axes_from_end(axis, x.ndim)
    n = x.shape[axes[0]]
    if not isinstance(n, int) or not 0 < n <= UNROLL:
        raise Unsupported(f"np.{u.__name__}.reduce over {n} elements", f"only 1 to {UNROLL} elements are unrolled")
    d = accumulator(u, x.dtype) if dtype is None else known_dtype(dtype)
    pieces = [cast(r, shapes.cut(r, x, axes[0], i, 1), d) for i in range(n)]
    if n == 1:  # what the first element becomes: of more, the rest makes the same of it
        pieces = [r.copy(pieces[0])] if u.identity is None else [constant(r, u.identity, d), *pieces]
    result = pieces[0]
    for piece in pieces[1:]:
        result = cast(r, apply(r, u, result, piece), d)
    return deliver(r, result if keepdims else shapes.drop_axes(r, result, axes), as_out(out))
