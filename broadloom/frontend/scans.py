"""Cumulative sums and products, and `ufunc.accumulate`, with NumPy's widening of small integers.

What goes in: array, axis, dtype, out. What comes out: a fresh array; without an axis that of the flattened array.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from broadloom.frontend import shapes
from broadloom.frontend.creation import full_like
from broadloom.frontend.nan_reductions import without_nans
from broadloom.frontend.operands import as_array, call, known_dtype
from broadloom.frontend.reductions import accumulator, accumulator_into
from broadloom.frontend.ufuncs import as_out, deliver
from broadloom.frontend.unsupported import Unsupported, plain_numpy_raises
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle

SCANS: dict[np.ufunc, str] = {np.add: "cumsum", np.multiply: "cumprod", np.maximum: "cummax", np.minimum: "cummin"}


def _scan(r: Recorder, u: np.ufunc, x: ArrayHandle, axis: int, dtype: object, out: object) -> ArrayHandle:
    target = as_out(out)
    if dtype is not None:
        d = known_dtype(dtype)
    else:
        d = accumulator(u, x.dtype) if target is None else accumulator_into(x.dtype, target.dtype)
    result = call(r, SCANS[u], r.promote(x, d), axis=axis)
    return deliver(r, result, target, casting="unsafe")


def _cumulative(u: np.ufunc) -> Callable[..., ArrayHandle]:
    def run(r: Recorder, a: object, axis: object = None, dtype: object = None, out: object = None) -> ArrayHandle:
        x = as_array(r, a)
        if axis is None:
            x, where = shapes.reshape(r, x, (shapes.count(x.shape),)), -1
        elif x.ndim == 0:
            x, where = shapes.reshape(r, x, (1,)), shapes.axis_from_end(axis, 1)
        else:
            where = shapes.axis_from_end(axis, x.ndim)
        return _scan(r, u, x, where, dtype, out)

    return run


np_cumsum, np_cumprod = _cumulative(np.add), _cumulative(np.multiply)


def _nan_cumulative(plain: Callable[..., ArrayHandle], neutral: float) -> Callable[..., ArrayHandle]:
    def run(r: Recorder, a: object, axis: object = None, dtype: object = None, out: object = None) -> ArrayHandle:
        return plain(r, without_nans(r, a, neutral)[0], axis, dtype, out)

    return run


np_nancumsum, np_nancumprod = _nan_cumulative(np_cumsum, 0), _nan_cumulative(np_cumprod, 1)


def _cumulative_api(u: np.ufunc) -> Callable[..., ArrayHandle]:
    def run(
        r: Recorder,
        x: object,
        /,
        *,
        axis: object = None,
        dtype: object = None,
        out: object = None,
        include_initial: bool = False,
    ) -> ArrayHandle:
        a = as_array(r, x)
        if axis is None:
            if a.ndim != 1:
                raise plain_numpy_raises("axis is needed for arrays of more than one dimension")
            axis = 0
        where = shapes.axis_from_end(axis, a.ndim)
        if not include_initial:
            return _scan(r, u, a, where, dtype, out)
        if out is not None:
            raise Unsupported("a cumulative function with include_initial and out", "assign the result")
        result = _scan(r, u, a, where, dtype, None)
        shape = list(result.shape)
        shape[where] = 1
        first = full_like(r, result, u.identity, None, "K", tuple(shape))
        return shapes.join(r, [first, result], where)

    return run


np_cumulative_sum, np_cumulative_prod = _cumulative_api(np.add), _cumulative_api(np.multiply)


def ufunc_accumulate(
    r: Recorder, u: np.ufunc, array: object, axis: object = 0, dtype: object = None, out: object = None
) -> ArrayHandle:
    """`u.accumulate(array)` for add, multiply, maximum and minimum."""
    if u not in SCANS:
        raise Unsupported(f"np.{u.__name__}.accumulate", "use cumsum, cumprod, maximum or minimum.accumulate")
    x = as_array(r, array)
    if x.ndim == 0:
        raise plain_numpy_raises("cannot accumulate on a scalar")
    return _scan(r, u, x, shapes.axis_from_end(axis, x.ndim), dtype, out)
