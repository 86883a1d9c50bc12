"""Shapes changed, values kept: reshape, transpose, squeeze, flip, broadcast_to, diagonal and their kin.

What goes in: the arguments of the NumPy function or method. What comes out: a view wherever NumPy gives a view, a
copy where it copies (`reshape` of an array whose strides do not allow a view, `ravel` of a non-contiguous one).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from broadloom.frontend import shapes
from broadloom.frontend.indexing import new_axes, same_array
from broadloom.frontend.operands import as_array
from broadloom.frontend.unsupported import Unsupported, plain_numpy_raises
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle
from broadloom.graph.strides import is_fortran as is_fortran_operand
from broadloom.symbolic import mod, sub

Order = Literal["K", "C", "F", "A"]
ORDERS: dict[object, Order] = {None: "C", "K": "K", "C": "C", "F": "F", "A": "A"}


def array_of(r: Recorder, x: object) -> ArrayHandle:
    """`numpy.asanyarray(x)`: a NumPy scalar becomes a 0-d array of its own."""
    a = as_array(r, x)
    return r.copy(a) if a.numpy_scalar else a


def kept_scalar(r: Recorder, x: object, result: ArrayHandle) -> ArrayHandle:
    """Methods of NumPy scalars give scalars for 0-d results."""
    scalar = (isinstance(x, ArrayHandle) and x.numpy_scalar) or isinstance(x, np.generic)
    return r.as_scalar(result) if scalar and result.ndim == 0 else result


def order_of(order: object) -> Order:
    """An `order=` argument."""
    if isinstance(order, str):
        order = order.upper()
    found = ORDERS.get(order)
    if found is None:
        raise plain_numpy_raises(f"order must be one of 'C', 'F', 'A' or 'K', got {order!r}")
    return found


def is_fortran(r: Recorder, x: ArrayHandle) -> bool:
    """What `numpy.isfortran` says, where a result is arranged by it."""
    r.arranged_by(x, is_fortran_operand, answer := x.is_fortran)
    return answer


# ---- reshape, ravel, flatten -----------------------------------------------------------------------------------------


def np_reshape(r: Recorder, a: object, /, shape: object, order: object = "C", *, copy: object = None) -> ArrayHandle:
    """`numpy.reshape`."""
    x = array_of(r, a)
    total = shapes.count(x.shape)
    new = shapes.resolve_minus_one(r, shapes.as_shape(shape), total)
    kind = order_of(order)
    if kind == "K":
        raise plain_numpy_raises("order 'K' is not permitted for reshaping")
    if copy is True:
        x = r.copy(x, "F" if kind == "F" else "C")
    if kind == "F" or (kind == "A" and r.contiguous(x, fortran=True) and not r.contiguous(x)):
        result = np_transpose(r, reshaped(r, np_transpose(r, x), tuple(reversed(new))))
    else:
        result = reshaped(r, x, new)
    if copy is False and result.storage is not x.storage:
        raise plain_numpy_raises("unable to avoid creating a copy while reshaping")
    return kept_scalar(r, a, result)


def reshaped(r: Recorder, x: ArrayHandle, shape: shapes.Shape) -> ArrayHandle:
    """`x` in another shape: always another array object."""
    result = shapes.reshape(r, x, shape)
    return same_array(r, x) if result is x else result


def method_reshape(
    r: Recorder, a: ArrayHandle, *shape: object, order: object = "C", copy: object = None
) -> ArrayHandle:
    """`x.reshape(2, 3)` or `x.reshape((2, 3))`."""
    return np_reshape(r, a, shape[0] if len(shape) == 1 else shape, order, copy=copy)


def np_ravel(r: Recorder, a: object, order: object = "C") -> ArrayHandle:
    """`numpy.ravel`: a view of a contiguous array, else a copy."""
    x = array_of(r, a)
    kind = order_of(order)
    if kind == "A" or kind == "K":
        if kind == "K" and not x.is_c_contiguous and not x.is_f_contiguous:
            raise Unsupported("ravel(order='K') of an array that is not contiguous", "use order='C'")
        kind = "F" if is_fortran(r, x) else "C"
    if kind == "F":
        x = np_transpose(r, x)
    flat = (shapes.count(x.shape),)
    return reshaped(r, x, flat) if r.contiguous(x) else _flat_copy(r, x, flat)


def np_flatten(r: Recorder, a: object, order: object = "C") -> ArrayHandle:
    """`ndarray.flatten`: always a copy."""
    x = array_of(r, a)
    kind = order_of(order)
    if kind in "AK":
        if kind == "K" and not x.is_c_contiguous and not x.is_f_contiguous:
            raise Unsupported("flatten(order='K') of an array that is not contiguous", "use order='C'")
        kind = "F" if is_fortran(r, x) else "C"
    x = np_transpose(r, x) if kind == "F" else x
    return _flat_copy(r, x, (shapes.count(x.shape),))


def _flat_copy(r: Recorder, x: ArrayHandle, flat: shapes.Shape) -> ArrayHandle:
    """The elements in C order as an array that owns them, not a view of a copy of the shape of `x`."""
    return r.copy(reshaped(r, r.copy(x, "C"), flat), "C")


# ---- axes ------------------------------------------------------------------------------------------------------------


def np_transpose(r: Recorder, a: object, axes: object = None) -> ArrayHandle:
    """`numpy.transpose`."""
    x = array_of(r, a)
    if axes is None:
        order = list(reversed(range(x.ndim)))
    else:
        wanted: Sequence[object] = axes if isinstance(axes, (tuple, list)) else (axes,)
        order = [shapes.axis_from_end(axis, x.ndim) % x.ndim for axis in wanted]
        if sorted(order) != list(range(x.ndim)):
            raise plain_numpy_raises("axes don't match array")
    return kept_scalar(r, a, permuted(r, x, order))


def permuted(r: Recorder, x: ArrayHandle, axes: Sequence[int]) -> ArrayHandle:
    """A view with the axes in another order: always another array object."""
    result = shapes.permute(r, x, axes)
    return same_array(r, x) if result is x else result


def method_transpose(r: Recorder, a: ArrayHandle, *axes: object) -> ArrayHandle:
    """`x.transpose()`, `x.transpose(1, 0)` or `x.transpose((1, 0))`."""
    if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
        return np_transpose(r, a, axes[0])
    return np_transpose(r, a, axes if axes else None)


def np_swapaxes(r: Recorder, a: object, axis1: object, axis2: object) -> ArrayHandle:
    """`numpy.swapaxes`."""
    x = array_of(r, a)
    i, j = (shapes.axis_from_end(axis, x.ndim) % x.ndim for axis in (axis1, axis2))
    order = list(range(x.ndim))
    order[i], order[j] = j, i
    return permuted(r, x, order)


def np_moveaxis(r: Recorder, a: object, source: object, destination: object) -> ArrayHandle:
    """`numpy.moveaxis`."""
    x = array_of(r, a)
    sources = _distinct(source, x.ndim)
    destinations = _distinct(destination, x.ndim)
    if len(sources) != len(destinations):
        raise plain_numpy_raises("source and destination must have the same number of elements")
    order = [n for n in range(x.ndim) if n not in sources]
    for place, axis in sorted(zip(destinations, sources, strict=True)):
        order.insert(place, axis)
    return permuted(r, x, order)


def _distinct(axes: object, ndim: int) -> list[int]:
    wanted: Sequence[object] = axes if isinstance(axes, (tuple, list)) else (axes,)
    found = [shapes.axis_from_end(axis, ndim) % ndim for axis in wanted]
    if len(set(found)) != len(found):
        raise plain_numpy_raises("repeated axis")
    return found


def np_rollaxis(r: Recorder, a: object, axis: object, start: int = 0) -> ArrayHandle:
    """`numpy.rollaxis`."""
    x = array_of(r, a)
    n = x.ndim
    where = shapes.axis_from_end(axis, n) % n
    start = start + n if start < 0 else start
    if not 0 <= start <= n:
        raise plain_numpy_raises(f"start {start} is out of bounds")
    start -= where < start
    order = [i for i in range(n) if i != where]
    order.insert(start, where)
    return permuted(r, x, order)


def np_matrix_transpose(r: Recorder, x: object, /) -> ArrayHandle:
    """`numpy.matrix_transpose` and `x.mT`."""
    a = array_of(r, x)
    if a.ndim < 2:
        raise plain_numpy_raises("matrix transpose needs two dims")
    return np_swapaxes(r, a, -1, -2)


def np_squeeze(r: Recorder, a: object, axis: object = None) -> ArrayHandle:
    """`numpy.squeeze`."""
    x = array_of(r, a)
    if axis is None:
        gone = [i for i, size in enumerate(x.shape) if shapes.same(r, size, 1)]
    else:
        gone = list(shapes.axes_from_end(axis, x.ndim))
        if not all(shapes.same(r, x.shape[i], 1) for i in gone):
            raise plain_numpy_raises("cannot select an axis to squeeze out which has size not equal to one")
    if not gone:
        return kept_scalar(r, a, x if axis is None else same_array(r, x))
    return kept_scalar(r, a, shapes.drop_axes(r, x, gone))


def np_expand_dims(r: Recorder, a: object, axis: object) -> ArrayHandle:
    """`numpy.expand_dims`."""
    x = array_of(r, a)
    wanted = axis if isinstance(axis, (tuple, list)) else (axis,)
    ndim = x.ndim + len(wanted)
    places = {n % ndim for n in shapes.axes_from_end(tuple(wanted), ndim)}
    sizes = iter(x.shape)
    return shapes.reshape(r, x, tuple(1 if i in places else next(sizes) for i in range(ndim)))


def _atleast(r: Recorder, arrays: Sequence[object], n: int) -> Any:
    results = tuple(_one_atleast(r, array_of(r, a), n) for a in arrays)
    return results[0] if len(results) == 1 else results


def _one_atleast(r: Recorder, x: ArrayHandle, n: int) -> ArrayHandle:
    if x.ndim >= n:
        return x
    if x.ndim == 0:
        return shapes.reshape(r, x, (1,) * n)
    places = [[], [0], [0, 2], [2]] if n == 3 else [[], [0]]
    return new_axes(r, x, places[x.ndim + (n == 3)])


def np_atleast_1d(r: Recorder, *arys: object) -> Any:
    """`numpy.atleast_1d`."""
    return _atleast(r, arys, 1)


def np_atleast_2d(r: Recorder, *arys: object) -> Any:
    """`numpy.atleast_2d`."""
    return _atleast(r, arys, 2)


def np_atleast_3d(r: Recorder, *arys: object) -> Any:
    """`numpy.atleast_3d`."""
    return _atleast(r, arys, 3)


# ---- broadcasting ----------------------------------------------------------------------------------------------------


def np_broadcast_to(r: Recorder, array: object, shape: object, subok: bool = False) -> ArrayHandle:
    """`numpy.broadcast_to`: a read-only view."""
    x = array_of(r, array)
    new = shapes.as_shape(shape)
    result = shapes.expand(r, x, new)
    result = same_array(r, x) if result is x else result
    result.sealed = True
    return result


def np_broadcast_arrays(r: Recorder, *args: object, subok: bool = False) -> tuple[ArrayHandle, ...]:
    """`numpy.broadcast_arrays`; views, those that repeat elements read-only."""
    arrays = [array_of(r, a) for a in args]
    common = shapes.broadcast_shapes(r, *(a.shape for a in arrays))
    same = [shapes.same_shape(r, a.shape, common) for a in arrays]
    if all(same):
        return tuple(arrays)
    return tuple(same_array(r, a) if s else np_broadcast_to(r, a, common) for a, s in zip(arrays, same, strict=True))


# ---- flips and diagonals ---------------------------------------------------------------------------------------------


def np_flip(r: Recorder, m: object, axis: object = None) -> ArrayHandle:
    """`numpy.flip`: a view."""
    x = array_of(r, m)
    axes = shapes.axes_from_end(axis, x.ndim)
    return reversed_along(r, x, axes) if x.ndim else r.as_scalar(x)


def reversed_along(r: Recorder, x: ArrayHandle, axes: Sequence[int]) -> ArrayHandle:
    """The view that walks the axes backwards."""
    if not axes:
        return same_array(r, x)
    back = {axis % x.ndim for axis in axes}
    starts = tuple(sub(n, 1) if i in back and n != 0 else 0 for i, n in enumerate(x.shape))
    return r.view("slice", x, starts=starts, sizes=x.shape, steps=tuple(-1 if i in back else 1 for i in range(x.ndim)))


def np_fliplr(r: Recorder, m: object) -> ArrayHandle:
    """`numpy.fliplr`."""
    x = array_of(r, m)
    if x.ndim < 2:
        raise plain_numpy_raises("input must be >= 2-d")
    return reversed_along(r, x, (1 - x.ndim,))


def np_flipud(r: Recorder, m: object) -> ArrayHandle:
    """`numpy.flipud`."""
    x = array_of(r, m)
    if x.ndim < 1:
        raise plain_numpy_raises("input must be >= 1-d")
    return reversed_along(r, x, (-x.ndim,))


def np_rot90(r: Recorder, m: object, k: int = 1, axes: Sequence[int] = (0, 1)) -> ArrayHandle:
    """`numpy.rot90`: a view."""
    x = array_of(r, m)
    if len(axes) != 2:
        raise plain_numpy_raises("len(axes) must be 2")
    i, j = (shapes.axis_from_end(axis, x.ndim) for axis in axes)
    if i == j:
        raise plain_numpy_raises("axes must be different")
    turns = mod(shapes.as_size(k, "the number of turns"), 4)
    if shapes.same(r, turns, 0):
        return same_array(r, x)
    if shapes.same(r, turns, 2):
        return reversed_along(r, x, (i, j))
    if shapes.same(r, turns, 1):
        return np_swapaxes(r, reversed_along(r, x, (j,)), i, j)
    return reversed_along(r, np_swapaxes(r, x, i, j), (j,))


def np_diagonal(r: Recorder, a: object, offset: int = 0, axis1: object = 0, axis2: object = 1) -> ArrayHandle:
    """`numpy.diagonal`: a read-only view."""
    x = array_of(r, a)
    if x.ndim < 2:
        raise plain_numpy_raises("diag requires an array of at least two dimensions")
    i, j = shapes.axis_from_end(axis1, x.ndim), shapes.axis_from_end(axis2, x.ndim)
    if i == j:
        raise plain_numpy_raises("axis1 and axis2 cannot be the same")
    result = r.view("diagonal", x, offset=shapes.as_size(offset), axis1=i, axis2=j)
    result.sealed = True
    return result
