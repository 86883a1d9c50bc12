"""The nan-functions: reductions that leave out nans.

What goes in: the arguments of the NumPy function. What comes out: as for the plain reduction, of an array whose nans
are replaced by a neutral value; nan where nothing is left, in the memory order of NumPy's filled copy.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from broadloom.dtypes import DType
from broadloom.frontend import shapes
from broadloom.frontend.operands import (
    as_array,
    call,
    cast,
    constant,
)
from broadloom.frontend.reductions import (
    NO_VALUE,
    constant_degrees,
    is_given,
    np_all,
    np_max,
    np_mean,
    np_min,
    np_prod,
    np_sum,
    spread,
    spread_of_selected,
)
from broadloom.frontend.ufuncs import apply, as_out, deliver
from broadloom.frontend.unsupported import Unsupported
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle


def knows_nans(dtype: DType) -> bool:
    """Whether NumPy leaves out nans of this dtype: those of bfloat16 it does not know as such."""
    return issubclass(dtype.numpy.type, np.inexact)


def without_nans(r: Recorder, a: object, replacement: complex) -> tuple[ArrayHandle, ArrayHandle | None]:
    """The array with its nans replaced, and where they were; the array itself if it can have none."""
    x = as_array(r, a)
    return _filled(r, x, replacement) if knows_nans(x.dtype) else (x, None)


def _filled(r: Recorder, x: ArrayHandle, replacement: complex) -> tuple[ArrayHandle, ArrayHandle]:
    missing = call(r, "isnan", x)
    filled = r.copy(x)  # NumPy fills a copy, whose memory order the result follows
    r.write(filled, call(r, "where", missing, constant(r, replacement, x.dtype), x))
    return filled, missing


def _nan_sum(plain: Callable[..., ArrayHandle], neutral: float) -> Callable[..., ArrayHandle]:
    def run(
        r: Recorder,
        a: object,
        axis: object = None,
        dtype: object = None,
        out: object = None,
        keepdims: object = NO_VALUE,
        initial: object = NO_VALUE,
        where: object = NO_VALUE,
    ) -> ArrayHandle:
        x, _ = without_nans(r, a, neutral)
        return plain(r, x, axis, dtype, out, keepdims, initial, where)

    return run


np_nansum, np_nanprod = _nan_sum(np_sum, 0), _nan_sum(np_prod, 1)


def _nan_extreme(plain: Callable[..., ArrayHandle], u: np.ufunc, worst: float) -> Callable[..., ArrayHandle]:
    def run(
        r: Recorder,
        a: object,
        axis: object = None,
        out: object = None,
        keepdims: object = NO_VALUE,
        initial: object = NO_VALUE,
        where: object = NO_VALUE,
    ) -> ArrayHandle:
        if is_given(initial) or (where is not NO_VALUE and where is not True):
            raise Unsupported("a nan-function with initial= or where=", "fill the missing elements with np.where")
        x = as_array(r, a)
        if x.dtype.kind not in "fc":
            return plain(r, x, axis, out, keepdims)
        filled, missing = _filled(r, x, complex(worst, worst) if x.dtype.kind == "c" else worst)
        result = plain(r, filled, axis, None, keepdims)
        nothing = np_all(r, missing, axis, None, keepdims)
        value = call(r, "where", nothing, constant(r, math.nan, x.dtype), result)
        if out is None and result.ndim:
            result = plain(r, x, axis, None, keepdims)  # for its memory order: NumPy reduces the array itself
            r.write(result, value)
            return result
        return deliver(r, value, as_out(out))

    return run


np_nanmax, np_nanmin = _nan_extreme(np_max, np.fmax, -math.inf), _nan_extreme(np_min, np.fmin, math.inf)


def np_nanmean(
    r: Recorder,
    a: object,
    axis: object = None,
    dtype: object = None,
    out: object = None,
    keepdims: object = NO_VALUE,
    *,
    where: object = NO_VALUE,
) -> ArrayHandle:
    """`numpy.nanmean`."""
    x, missing = without_nans(r, a, 0)
    if missing is None:
        return np_mean(r, x, axis, dtype, out, keepdims, where=where)
    present = call(r, "logical_not", missing)
    n = np_sum(r, present, axis, np.intp, None, keepdims, where=where)
    total = np_sum(r, x, axis, dtype, None, keepdims, where=where)
    result = call(r, "divide", total, cast(r, n, total.dtype))
    if out is None and total.ndim:
        r.write(total, result)  # NumPy divides in place
        return total
    return deliver(r, result, as_out(out), casting="unsafe")


def _nan_spread(op: str) -> Callable[..., ArrayHandle]:
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
        x = as_array(r, a)
        if not knows_nans(x.dtype):
            return spread(r, op, x, axis, dtype, out, ddof, keepdims, where, mean, correction)
        if (where is not NO_VALUE and where is not True) or dtype is not None:
            raise Unsupported(f"np.nan{op} with where= or dtype=", f"use np.{op}(..., where=~np.isnan(x))")
        degrees = constant_degrees(f"nan{op}", ddof, correction)
        present = call(r, "logical_not", call(r, "isnan", x))
        axes = shapes.axes_from_end(axis, x.ndim)
        result = spread_of_selected(r, op, x, axis, axes, degrees, keepdims, present, mean)
        n = np_sum(r, present, axis, None, None, keepdims)
        too_few = apply(r, np.less_equal, n, degrees)
        result = call(r, "where", too_few, constant(r, math.nan, result.dtype), result)
        return deliver(r, result, as_out(out), casting="unsafe")

    return run


np_nanvar, np_nanstd = _nan_spread("var"), _nan_spread("std")
