"""Products of matrices and vectors.

What goes in: the arguments of the NumPy function. What comes out: a NumPy scalar for a 0-d result, else a fresh
array. Operands are promoted as NumPy's loops are; bool products are logical.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from broadloom import dtypes
from broadloom.frontend import shapes
from broadloom.frontend.operands import (
    as_array,
    call,
    cast,
    constant,
    result_dtype,
)
from broadloom.frontend.reductions import np_sum
from broadloom.frontend.shaping import np_diagonal, np_moveaxis
from broadloom.frontend.ufuncs import apply, as_out, deliver
from broadloom.frontend.unsupported import Unsupported, plain_numpy_raises
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle
from broadloom.graph.strides import representative


def _pair(r: Recorder, a: object, b: object) -> tuple[ArrayHandle, ArrayHandle]:
    """The operands in their common dtype, as the functions that are no ufuncs take them."""
    x, y = as_array(r, a), as_array(r, b)
    d = result_dtype(r, x.dtype.numpy, y.dtype.numpy)
    return r.promote(x, d), r.promote(y, d)


def contract(r: Recorder, op: str, a: ArrayHandle, b: ArrayHandle) -> ArrayHandle:
    """Call a contraction; bools go through integers, as there is no logical product, and bfloat16, which has no
    loop but a dot product that adds up in float32, through float32."""
    if a.dtype is dtypes.bfloat16:
        return cast(r, call(r, op, cast(r, a, dtypes.float32), cast(r, b, dtypes.float32)), dtypes.bfloat16)
    if a.dtype is dtypes.bool_:
        counted = call(r, op, r.promote(a, dtypes.int64), r.promote(b, dtypes.int64))
        return call(r, "not_equal", counted, constant(r, 0, dtypes.int64))
    result: ArrayHandle = call(r, op, a, b)
    return result


def product(r: Recorder, a: ArrayHandle, b: ArrayHandle) -> ArrayHandle:
    """The product of matrices, or of a matrix and a vector, or of vectors, as `numpy.matmul` takes them."""
    op = {(1, 1): "vecdot", (1, 2): "vecmat", (2, 1): "matvec", (2, 2): "matmul"}[min(a.ndim, 2), min(b.ndim, 2)]
    if op in ("vecdot", "vecmat") and a.dtype.kind == "c":
        a = call(r, "conj", a)  # those two conjugate their first operand, matmul does not
    return contract(r, op, a, b)


def _finish(r: Recorder, result: ArrayHandle, out: object, casting: str) -> ArrayHandle:
    return deliver(r, result, as_out(out), casting=casting)


def np_dot(r: Recorder, a: object, b: object, out: object = None) -> ArrayHandle:
    """`numpy.dot`: the last axis of a with the last but one of b."""
    x, y = _pair(r, a, b)
    if x.ndim == 0 or y.ndim == 0:
        result = _scaled(r, x, y)
    elif x.ndim <= 2 and y.ndim <= 2:
        result = product(r, x, y)
    else:
        result = _tensordot(r, x, y, [x.ndim - 1], [max(y.ndim - 2, 0)])
    if isinstance(out, ArrayHandle) and not out.is_c_contiguous:
        raise plain_numpy_raises("output array is not acceptable (must be a C-Array)")
    return _finish(r, result, out, "no")


def _scaled(r: Recorder, x: ArrayHandle, y: ArrayHandle) -> ArrayHandle:
    """A product with a number. Where BLAS has the dtype, NumPy adds multiples of x to zeros: the result is in C order,
    -0.0 becomes 0.0, and nothing is added for a factor of zero."""
    product = apply(r, np.multiply, x, y)
    if not (product.dtype.is_inexact and product.dtype.bits > 16 and 0 < product.ndim <= 2):
        return product
    zero = constant(r, 0, product.dtype)
    factor = x if x.ndim == 0 else y
    added = call(r, "add", zero, product)
    return r.copy(call(r, "where", call(r, "equal", factor, zero), zero, added), "C")


def np_inner(r: Recorder, a: object, b: object, /) -> ArrayHandle:
    """`numpy.inner`: the last axes."""
    x, y = _pair(r, a, b)
    if x.ndim == 0 or y.ndim == 0:
        return _scaled(r, x, y)
    return deliver(r, _tensordot(r, x, y, [x.ndim - 1], [y.ndim - 1]), None)


def np_vdot(r: Recorder, a: object, b: object, /) -> ArrayHandle:
    """`numpy.vdot`: both flattened, the first conjugated."""
    x, y = _pair(r, a, b)
    flat = [shapes.reshape(r, v, (shapes.count(v.shape),)) for v in (x, y)]
    return deliver(r, contract(r, "vecdot", *flat), None)


def np_outer(r: Recorder, a: object, b: object, out: object = None) -> ArrayHandle:
    """`numpy.outer`: both flattened."""
    x, y = as_array(r, a), as_array(r, b)
    column = shapes.reshape(r, x, (shapes.count(x.shape), 1))
    row = shapes.reshape(r, y, (1, shapes.count(y.shape)))
    return apply(r, np.multiply, column, row, out=out)


def np_tensordot(r: Recorder, a: object, b: object, axes: Any = 2) -> ArrayHandle:
    """`numpy.tensordot`."""
    x, y = _pair(r, a, b)
    if isinstance(axes, (list, tuple)):
        left, right = axes
        left = list(left) if isinstance(left, (list, tuple)) else [left]
        right = list(right) if isinstance(right, (list, tuple)) else [right]
    else:
        n = shapes.as_size(axes, "a number of axes")
        if not isinstance(n, int):
            raise Unsupported("a number of axes is a symbolic int", "use a constant")
        left, right = list(range(-n, 0)), list(range(n))
    if len(left) != len(right):
        raise plain_numpy_raises("shape-mismatch for sum")
    i = [shapes.axis_from_end(v, x.ndim) % x.ndim for v in left]
    j = [shapes.axis_from_end(v, y.ndim) % y.ndim for v in right]
    return _tensordot(r, x, y, i, j)


def _tensordot(r: Recorder, x: ArrayHandle, y: ArrayHandle, i: Sequence[int], j: Sequence[int]) -> ArrayHandle:
    """Contract axes i of x with axes j of y; the axes left of x, then those of y."""
    if not shapes.same_shape(r, [x.shape[a] for a in i], [y.shape[a] for a in j]):
        raise plain_numpy_raises("shape-mismatch for sum")
    rest_x = [a for a in range(x.ndim) if a not in i]
    rest_y = [a for a in range(y.ndim) if a not in j]
    k = shapes.count(x.shape[a] for a in i)
    shape_x, shape_y = tuple(x.shape[a] for a in rest_x), tuple(y.shape[a] for a in rest_y)
    left = shapes.reshape(r, shapes.permute(r, x, [*rest_x, *i]), (shapes.count(shape_x), k))
    right = shapes.reshape(r, shapes.permute(r, y, [*j, *rest_y]), (k, shapes.count(shape_y)))
    return shapes.reshape(r, contract(r, "matmul", left, right), (*shape_x, *shape_y))


def np_kron(r: Recorder, a: object, b: object) -> ArrayHandle:
    """`numpy.kron`."""
    x, y = as_array(r, a), as_array(r, b)
    if x.ndim == 0 or y.ndim == 0:
        return apply(r, np.multiply, x, y)
    ndim = max(x.ndim, y.ndim)
    x, y = shapes.insert_axes(r, x, 0, ndim - x.ndim), shapes.insert_axes(r, y, 0, ndim - y.ndim)
    left = shapes.reshape(r, x, tuple(s for n in x.shape for s in (n, 1)))
    right = shapes.reshape(r, y, tuple(s for n in y.shape for s in (1, n)))
    product = apply(r, np.multiply, left, right)
    return shapes.reshape(r, product, tuple(m * n for m, n in zip(x.shape, y.shape, strict=True)))


def np_trace(
    r: Recorder,
    a: object,
    offset: int = 0,
    axis1: object = 0,
    axis2: object = 1,
    dtype: object = None,
    out: object = None,
) -> ArrayHandle:
    """`numpy.trace`."""
    return np_sum(r, np_diagonal(r, a, offset, axis1, axis2), -1, dtype, out)


def np_cross(
    r: Recorder, a: object, b: object, axisa: object = -1, axisb: object = -1, axisc: object = -1, axis: object = None
) -> ArrayHandle:
    """`numpy.cross` of vectors of three elements."""
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = as_array(r, a), as_array(r, b)
    x = shapes.move_axis_last(r, x, shapes.axis_from_end(axisa, x.ndim))
    y = shapes.move_axis_last(r, y, shapes.axis_from_end(axisb, y.ndim))
    if not (shapes.same(r, x.shape[-1], 3) and shapes.same(r, y.shape[-1], 3)):
        raise Unsupported("np.cross of vectors that have not three elements", "use three elements")
    ax, ay, az = (shapes.drop_axes(r, shapes.cut(r, x, -1, i, 1), [-1]) for i in range(3))
    bx, by, bz = (shapes.drop_axes(r, shapes.cut(r, y, -1, i, 1), [-1]) for i in range(3))
    parts = []
    for p, q, s, t in ((ay, bz, az, by), (az, bx, ax, bz), (ax, by, ay, bx)):
        parts.append(apply(r, np.subtract, apply(r, np.multiply, p, q), apply(r, np.multiply, s, t)))
    where = shapes.axis_from_end(axisc, parts[0].ndim + 1)
    return np_moveaxis(r, r.copy(call(r, "stack", *parts, axis=-1), "C"), -1, where)


def np_multi_dot(r: Recorder, arrays: Sequence[object], *, out: object = None) -> ArrayHandle:
    """`numpy.linalg.multi_dot`, in the order that takes the fewest multiplications."""
    if len(arrays) < 2:
        raise plain_numpy_raises("expecting at least two arrays")
    if len(arrays) == 2:
        return np_dot(r, arrays[0], arrays[1], out)
    matrices = [as_array(r, a) for a in arrays]
    first, last = matrices[0].ndim == 1, matrices[-1].ndim == 1
    if first:
        matrices[0] = shapes.insert_axes(r, matrices[0], 0)
    if last:
        matrices[-1] = shapes.insert_axes(r, matrices[-1], 1)
    if any(m.ndim != 2 for m in matrices):
        raise plain_numpy_raises("multi_dot takes matrices, and vectors at the ends")
    result = _chain(r, matrices, _splits([representative(m.shape[0]) for m in matrices], matrices[-1]), out)
    if first and last:
        return deliver(r, shapes.reshape(r, result, ()), None)
    return shapes.reshape(r, result, (shapes.count(result.shape),)) if first or last else result


def _splits(rows: Sequence[int], last: ArrayHandle) -> dict[tuple[int, int], int]:
    """Where to split each run of matrices for the fewest multiplications: Cormen et al., Introduction to Algorithms,
    15.2. What the order is changes no result but by rounding, so ordinary sizes stand for symbolic ones."""
    n, sizes = len(rows), [*rows, representative(last.shape[1])]
    cost = {(i, i): 0 for i in range(n)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            costs = [cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j)]
            cost[i, j] = min(costs)
            split[i, j] = i + costs.index(cost[i, j])
    return split


def _chain(
    r: Recorder, matrices: Sequence[ArrayHandle], splits: Mapping[tuple[int, int], int], out: object
) -> ArrayHandle:
    def product(i: int, j: int, out: object = None) -> ArrayHandle:
        if i == j:
            return matrices[i]
        k = splits[i, j]
        return np_dot(r, product(i, k), product(k + 1, j), out)

    return product(0, len(matrices) - 1, out)


# ---- numpy.linalg's Array API spellings ------------------------------------------------------------------------------


def np_linalg_tensordot(r: Recorder, x1: object, x2: object, /, *, axes: Any = 2) -> ArrayHandle:
    """`numpy.linalg.tensordot`."""
    return np_tensordot(r, x1, x2, axes)


def np_linalg_outer(r: Recorder, x1: object, x2: object, /) -> ArrayHandle:
    """`numpy.linalg.outer` of two vectors."""
    if as_array(r, x1).ndim != 1 or as_array(r, x2).ndim != 1:
        raise plain_numpy_raises("input arrays must be one-dimensional")
    return np_outer(r, x1, x2)


def np_linalg_cross(r: Recorder, x1: object, x2: object, /, *, axis: object = -1) -> ArrayHandle:
    """`numpy.linalg.cross`."""
    return np_cross(r, x1, x2, axis=axis)


def np_linalg_trace(r: Recorder, x: object, /, *, offset: int = 0, dtype: object = None) -> ArrayHandle:
    """`numpy.linalg.trace`: of the last two axes."""
    return np_trace(r, x, offset, -2, -1, dtype)


def np_linalg_diagonal(r: Recorder, x: object, /, *, offset: int = 0) -> ArrayHandle:
    """`numpy.linalg.diagonal`: of the last two axes."""
    return np_diagonal(r, x, offset, -2, -1)
