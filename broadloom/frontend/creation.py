"""Arrays from nothing: zeros, full, arange, linspace, eye, tri, meshgrid and their kin.

What goes in: shapes, numbers and dtypes, sizes possibly symbolic. What comes out: fresh writeable arrays with
NumPy's exact lengths and values: `arange` is start + i*delta with NumPy's delta, `linspace` NumPy's own steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from broadloom import dtypes
from broadloom.dtypes import DType
from broadloom.frontend import shapes
from broadloom.frontend.casting import converted
from broadloom.frontend.operands import (
    as_array,
    call,
    cast,
    constant,
    from_size,
    is_symbolic,
    known_dtype,
    lift,
    operand,
    result_dtype,
)
from broadloom.frontend.reductions import np_any
from broadloom.frontend.shaping import array_of, is_fortran, np_diagonal, order_of, permuted
from broadloom.frontend.ufuncs import apply
from broadloom.frontend.unsupported import Unsupported, plain_numpy_raises
from broadloom.graph.order import copy_order
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle, WeakScalar
from broadloom.symbolic import Expr, Size, floordiv, smax, smin, sub


def filled(r: Recorder, shape: object, value: object, dtype: DType, order: object = "C") -> ArrayHandle:
    """A fresh array of one value."""
    number = lift(r, operand(r, value), dtype)
    kind = order_of(order)
    if kind not in "CF":
        raise plain_numpy_raises("only 'C' or 'F' order is permitted")
    sizes = shapes.as_shape(shape)
    shapes.not_negative(r, sizes, "negative dimensions are not allowed")
    return r.copy(shapes.expand(r, number, sizes), kind)


def _all(value: int) -> Callable[..., ArrayHandle]:
    """`numpy.zeros` or `numpy.ones`."""

    def run(
        r: Recorder,
        shape: object,
        dtype: object = None,
        order: object = "C",
        *,
        device: object = None,
        like: object = None,
    ) -> ArrayHandle:
        return filled(r, shape, value, known_dtype(dtype), order)

    return run


np_zeros, np_ones = _all(0), _all(1)


def np_full(
    r: Recorder,
    shape: object,
    fill_value: object,
    dtype: object = None,
    order: object = "C",
    *,
    device: object = None,
    like: object = None,
) -> ArrayHandle:
    """`numpy.full`."""
    value = as_array(r, fill_value) if dtype is None else None
    d = value.dtype if value is not None else known_dtype(dtype)
    return filled(r, shape, fill_value, d, order)


def full_like(r: Recorder, a: object, value: object, dtype: object, order: object, shape: object) -> ArrayHandle:
    """A fresh array of one value with the dtype, shape and memory order of `a` unless they are given."""
    x = array_of(r, a)
    d = x.dtype if dtype is None else known_dtype(dtype)
    kind = order_of(order)
    if shape is not None:
        new = shapes.as_shape(shape)
        fortran = kind == "F" or (kind in "AK" and is_fortran(r, x))
        if kind == "K" and len(new) == x.ndim and not x.is_c_contiguous and not x.is_f_contiguous:
            outer_first = copy_order(x.operand)
            r.arranged_by(x, copy_order, outer_first)
            inverse = [outer_first.index(i) for i in range(x.ndim)]
            return permuted(r, filled(r, tuple(new[i] for i in outer_first), value, d), inverse)
        return filled(r, new, value, d, "F" if fortran else "C")
    number = lift(r, operand(r, value), d)
    result = converted(r, x, d, kind, True)
    r.write(result, shapes.expand(r, number, result.shape))
    return result


def _all_like(value: int) -> Callable[..., ArrayHandle]:
    """`numpy.zeros_like` or `numpy.ones_like`."""

    def run(
        r: Recorder,
        a: object,
        dtype: object = None,
        order: object = "K",
        subok: bool = True,
        shape: object = None,
        *,
        device: object = None,
    ) -> ArrayHandle:
        return full_like(r, a, value, dtype, order, shape)

    return run


np_zeros_like, np_ones_like = _all_like(0), _all_like(1)


def np_full_like(
    r: Recorder,
    a: object,
    fill_value: object,
    dtype: object = None,
    order: object = "K",
    subok: bool = True,
    shape: object = None,
    *,
    device: object = None,
) -> ArrayHandle:
    """`numpy.full_like`."""
    return full_like(r, a, fill_value, dtype, order, shape)


# ---- sequences -------------------------------------------------------------------------------------------------------


def iota(r: Recorder, n: Size, dtype: DType = dtypes.int64) -> ArrayHandle:
    """0, 1, ..., n - 1."""
    return call(r, "iota", size=n, dtype=dtype)


def np_arange(
    r: Recorder,
    start_or_stop: object,
    /,
    stop: object = None,
    step: object = 1,
    dtype: object = None,
    *,
    device: object = None,
    like: object = None,
) -> ArrayHandle:
    """`numpy.arange`: element i is start + i*delta, delta the difference of the first two elements in the dtype."""
    start: object = 0
    if stop is None:
        stop = start_or_stop
    else:
        start = start_or_stop
    for x in (start, stop, step):
        if isinstance(x, (ArrayHandle, WeakScalar)):
            raise Unsupported("np.arange with a bound known only at run time", "pass the bounds as ints")
    if step is None:
        step = 1
    if dtype is None and any(isinstance(x, int) and not -(2**63) <= x < 2**63 for x in (start, stop, step)):
        raise Unsupported("np.arange of ints of more than 64 bits", "give a dtype")
    d = _arange_dtype(start, stop, step) if dtype is None else known_dtype(dtype)
    if not any(isinstance(x, Expr) for x in (start, stop, step)):
        return _static_arange(r, start, stop, step, d)
    if not isinstance(step, int) or step == 0 or not all(isinstance(x, (int, Expr)) for x in (start, stop)):
        raise Unsupported("np.arange of a symbolic int with float bounds or a symbolic step", "use integer bounds")
    low, high = shapes.as_size(start), shapes.as_size(stop)
    distance = sub(high, low) if step > 0 else sub(low, high)
    n = smax(floordiv(distance + abs(step) - 1, abs(step)), 0)
    if d is dtypes.bool_:
        raise Unsupported("np.arange of bools with a symbolic size", "use an integer dtype")
    first = from_size(r, low, d) if isinstance(low, Expr) else constant(r, low, d)
    return _progression(r, n, first, constant(r, step, d), d, starts_at_zero=low == 0)


def _arange_dtype(*bounds: object) -> DType:
    """NumPy's own choice, asked for with empty bounds of the same types."""
    kinds: list[Any] = [int if isinstance(x, Expr) else type(x) for x in bounds]
    start, stop, step = kinds
    try:
        return known_dtype(np.arange(start(0), stop(0), step(1)).dtype)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise plain_numpy_raises(f"np.arange: {error}") from error


def _static_arange(r: Recorder, start: Any, stop: Any, step: Any, d: DType) -> ArrayHandle:
    try:
        with np.errstate(all="ignore"):
            # NumPy's own length: a small dtype must not make a large array here.
            n = max(0, math.ceil((stop - start) / step))
            head = np.arange(start, start + min(n, 2) * step, step, dtype=d.numpy)[:2]
    except (ArithmeticError, TypeError, ValueError) as error:
        raise plain_numpy_raises(f"np.arange: {error}") from error
    if n <= 2 or d is dtypes.bool_:
        return constant(r, np.arange(start, stop, step, dtype=d.numpy))
    if len(head) < 2:
        raise Unsupported("np.arange with rounded bounds", "use np.linspace")
    with np.errstate(all="ignore"):
        delta = head[1] - head[0]
    zero = bool(head[0] == 0 and not np.signbit(head[0].real)) if d.kind != "u" else bool(head[0] == 0)
    return _progression(r, n, constant(r, head[0], d), constant(r, delta, d), d, starts_at_zero=zero)


def _progression(
    r: Recorder, n: Size, first: ArrayHandle, delta: ArrayHandle, d: DType, starts_at_zero: bool
) -> ArrayHandle:
    wide = dtypes.float32 if d in (dtypes.float16, dtypes.bfloat16) else d
    steps = iota(r, n, d) if d.is_integer else cast(r, iota(r, n), wide)
    scaled = call(r, "multiply", steps, cast(r, delta, wide))
    result = scaled if starts_at_zero and d.is_integer else call(r, "add", cast(r, first, wide), scaled)
    return cast(r, result, d)


def np_linspace(
    r: Recorder,
    start: object,
    stop: object,
    num: object = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: object = None,
    axis: object = 0,
    *,
    device: object = None,
) -> Any:
    """`numpy.linspace`."""
    n = shapes.as_size(num, "num")
    shapes.not_negative(r, (n,), f"number of samples, {n}, must be non-negative")
    div = sub(n, 1) if endpoint else n
    if not isinstance(div, int) and shapes.same(r, div, 0):
        div = 0
    low, high = as_array(r, start), as_array(r, stop)
    computed = result_dtype(r, start, stop, 0.0)
    final = computed if dtype is None else known_dtype(dtype)
    delta = call(r, "subtract", cast(r, high, computed), cast(r, low, computed))
    scalars = delta.ndim == 0
    y = shapes.insert_axes(r, cast(r, iota(r, n), computed), 1, delta.ndim)
    step: ArrayHandle = constant(r, math.nan, computed)
    if isinstance(div, int) and div <= 0:
        y = call(r, "multiply", y, delta)
    else:
        divisor = cast(r, from_size(r, div), computed)
        step = call(r, "divide", delta, divisor)
        zero = call(r, "equal", step, constant(r, 0, computed))
        zero = zero if scalars else np_any(r, zero)
        by_step = call(r, "multiply", y, step)
        y = call(r, "where", zero, call(r, "multiply", call(r, "divide", y, divisor), delta), by_step)
    y = cast(r, apply(r, np.add, y, low), computed)
    if endpoint and decide_more_than_one(r, n):
        last = shapes.expand(r, cast(r, high, y.dtype), y.shape[1:])
        r.write(shapes.cut(r, y, 0, sub(n, 1), 1), shapes.insert_axes(r, last, 0))
    if shapes.axis_from_end(axis, y.ndim) % y.ndim:
        where = shapes.axis_from_end(axis, y.ndim) % y.ndim
        y = permuted(r, y, [*range(1, where + 1), 0, *range(where + 1, y.ndim)])
    if final.is_integer:
        y = apply(r, np.floor, y)
    y = cast(r, y, final)
    return (y, r.as_scalar(step) if step.ndim == 0 else step) if retstep else y


def decide_more_than_one(r: Recorder, n: Size) -> bool:
    """Is n above 1?"""
    return n > 1 if isinstance(n, int) else not shapes.same(r, smin(n, 2), n) or shapes.same(r, n, 2)


def np_logspace(
    r: Recorder,
    start: object,
    stop: object,
    num: object = 50,
    endpoint: bool = True,
    base: object = 10.0,
    dtype: object = None,
    axis: object = 0,
) -> ArrayHandle:
    """`numpy.logspace`."""
    if as_array(r, base).ndim:
        raise Unsupported("np.logspace with an array of bases", "use base ** np.linspace(...)")
    y = np_linspace(r, start, stop, num, endpoint, axis=axis)
    result = apply(r, np.power, base, y)
    return result if dtype is None else cast(r, result, known_dtype(dtype))


def np_geomspace(
    r: Recorder,
    start: object,
    stop: object,
    num: object = 50,
    endpoint: bool = True,
    dtype: object = None,
    axis: object = 0,
) -> ArrayHandle:
    """`numpy.geomspace`, for constants."""
    if any(is_symbolic(x) for x in (start, stop, num)):
        raise Unsupported("np.geomspace of runtime values", "use np.exp(np.linspace(np.log(a), np.log(b), n))")
    return constant(r, np.geomspace(start, stop, num, endpoint, dtype, axis))  # type: ignore[call-overload]


# ---- matrices --------------------------------------------------------------------------------------------------------


def np_eye(
    r: Recorder,
    N: object,
    M: object = None,
    k: object = 0,
    dtype: object = float,
    order: object = "C",
    *,
    device: object = None,
    like: object = None,
) -> ArrayHandle:
    """`numpy.eye`."""
    rows = shapes.as_size(N)
    columns = rows if M is None else shapes.as_size(M)
    result: ArrayHandle = call(r, "eye", rows=rows, cols=columns, offset=shapes.as_size(k), dtype=known_dtype(dtype))
    return result if order_of(order) == "C" else r.copy(result, order_of(order))


def np_identity(r: Recorder, n: object, dtype: object = None, *, like: object = None) -> ArrayHandle:
    """`numpy.identity`."""
    return np_eye(r, n, dtype=dtype)


def _triangle(r: Recorder, rows: Size, columns: Size, k: object) -> ArrayHandle:
    """True at and below diagonal number k."""
    i = shapes.insert_axes(r, iota(r, rows), 1)
    shift = shapes.as_size(k, "a diagonal")
    if isinstance(shift, int) and abs(shift) > 2**62:
        raise Unsupported("a diagonal of more than 62 bits", "give one within the matrix")
    j = call(r, "subtract", iota(r, columns), from_size(r, shift))
    return call(r, "greater_equal", i, j)


def np_tri(
    r: Recorder, N: object, M: object = None, k: object = 0, dtype: object = float, *, like: object = None
) -> ArrayHandle:
    """`numpy.tri`."""
    rows = shapes.as_size(N)
    return cast(r, _triangle(r, rows, rows if M is None else shapes.as_size(M), k), known_dtype(dtype))


def np_tril(r: Recorder, m: object, k: int = 0) -> ArrayHandle:
    """`numpy.tril`."""
    x = as_array(r, m)
    x = shapes.expand(r, x, (x.shape[0], x.shape[0])) if x.ndim == 1 else x
    _require_matrix(x)
    return call(r, "where", _triangle(r, x.shape[-2], x.shape[-1], k), x, constant(r, 0, x.dtype))


def np_triu(r: Recorder, m: object, k: int = 0) -> ArrayHandle:
    """`numpy.triu`."""
    x = as_array(r, m)
    x = shapes.expand(r, x, (x.shape[0], x.shape[0])) if x.ndim == 1 else x
    _require_matrix(x)
    return call(r, "where", _triangle(r, x.shape[-2], x.shape[-1], k - 1), constant(r, 0, x.dtype), x)


def _require_matrix(x: ArrayHandle) -> None:
    if x.ndim < 1:
        raise plain_numpy_raises("a matrix is needed")


def np_diag(r: Recorder, v: object, k: int = 0) -> ArrayHandle:
    """`numpy.diag`: the matrix of a diagonal, or the diagonal of a matrix (a read-only view)."""
    x = array_of(r, v)
    if x.ndim == 2:
        return np_diagonal(r, x, k)
    if x.ndim != 1:
        raise plain_numpy_raises("input must be 1- or 2-d")
    n = shapes.as_size(x.shape[0] + abs(k))
    result = filled(r, (n, n), 0, x.dtype)
    where = r.view("diagonal", result, offset=k, axis1=-2, axis2=-1)
    r.write(where, x)
    return result


def np_diagflat(r: Recorder, v: object, k: int = 0) -> ArrayHandle:
    """`numpy.diagflat`."""
    x = array_of(r, v)
    return np_diag(r, shapes.reshape(r, x, (shapes.count(x.shape),)), k)


def np_vander(r: Recorder, x: object, N: object = None, increasing: bool = False) -> ArrayHandle:
    """`numpy.vander`."""
    a = as_array(r, x)
    if a.ndim != 1:
        raise plain_numpy_raises("x must be a one-dimensional array or sequence")
    n = a.shape[0] if N is None else shapes.as_size(N)
    if not isinstance(n, int) or n > 64:
        raise Unsupported("np.vander with many columns", "give N, at most 64")
    d = known_dtype(np.promote_types(a.dtype.numpy, np.int64))
    column = cast(r, a, d)
    columns = [filled(r, a.shape, 1, d)]
    for _ in range(n - 1):
        columns.append(call(r, "multiply", columns[-1], column))
    chosen = columns[:n] if increasing else columns[:n][::-1]
    return call(r, "stack", *chosen, axis=-1)


# ---- grids -----------------------------------------------------------------------------------------------------------


def np_meshgrid(
    r: Recorder, *xi: object, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> tuple[ArrayHandle, ...]:
    """`numpy.meshgrid`."""
    if indexing not in ("xy", "ij"):
        raise plain_numpy_raises("valid values for indexing are 'xy' and 'ij'")
    n = len(xi)
    arrays = [array_of(r, x) for x in xi]
    grids: list[ArrayHandle] = []
    for i, x in enumerate(arrays):
        place = 1 - i if indexing == "xy" and n > 1 and i < 2 else i
        size = shapes.count(x.shape)
        grids.append(shapes.reshape(r, x, (*(1,) * place, size, *(1,) * (n - 1 - place))))
    if not sparse:
        common = shapes.broadcast_shapes(r, *(g.shape for g in grids))
        grids = [shapes.expand(r, g, common) for g in grids]
        if not copy:
            raise Unsupported("np.meshgrid(copy=False)", "use sparse=True")
    return tuple(r.copy(g, "C") for g in grids) if copy else tuple(grids)


def np_indices(r: Recorder, dimensions: Sequence[Any], dtype: object = int, sparse: bool = False) -> Any:
    """`numpy.indices`."""
    d = known_dtype(dtype)
    sizes = shapes.as_shape(dimensions)
    n = len(sizes)
    axes = [shapes.reshape(r, iota(r, s, d), (*(1,) * i, s, *(1,) * (n - 1 - i))) for i, s in enumerate(sizes)]
    if sparse:
        return tuple(axes)
    if not axes:
        return filled(r, (0,), 0, d)
    return call(r, "stack", *(shapes.expand(r, a, sizes) for a in axes), axis=-1 - n)
