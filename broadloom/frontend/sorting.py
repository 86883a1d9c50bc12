"""Sorting: sort, argsort, partition, lexsort, topk.

What goes in: the arguments of the NumPy function or method. What comes out: fresh arrays, in the memory order of
NumPy's; the methods `sort` and `partition` write their array.

What holds: every sort is stable, whatever `kind` asks for. A partition is a full sort, which is a partition for every
`kth`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from broadloom import dtypes
from broadloom.frontend import shapes
from broadloom.frontend.operands import as_array, call, cast, constant
from broadloom.frontend.ufuncs import deliver
from broadloom.frontend.unsupported import Unsupported, plain_numpy_raises
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle
from broadloom.symbolic import ge, le

KINDS = frozenset(("quicksort", "heapsort", "mergesort", "stable", "quick", "heap", "merge", "q", "h", "m", "s"))


class TopK(NamedTuple):
    """What `topk` gives: the values, and where they stood along the axis."""

    values: object
    indices: object


def _checked(kind: object, order: object, stable: object) -> None:
    """The arguments that choose an algorithm; the result is that of a stable one."""
    if order is not None:
        raise plain_numpy_raises("order= is for arrays with fields")
    if kind is not None and stable is not None:
        raise plain_numpy_raises("kind and stable cannot be given at the same time")
    if kind is not None and (not isinstance(kind, str) or kind.lower() not in KINDS):
        raise plain_numpy_raises(f"there is no sort of kind {kind!r}")


def flat(r: Recorder, x: ArrayHandle) -> ArrayHandle:
    """The elements in C order, along one axis."""
    return shapes.reshape(r, x, (shapes.count(x.shape),))


def along(r: Recorder, x: ArrayHandle, axis: object) -> tuple[ArrayHandle, int]:
    """The array that is sorted, and its axis from the end; without an axis, the flattened array."""
    if axis is None:
        return flat(r, x), -1
    return x, shapes.axis_from_end(axis, x.ndim)


def np_sort(
    r: Recorder, a: object, axis: object = -1, kind: object = None, order: object = None, *, stable: object = None
) -> ArrayHandle:
    """`numpy.sort`."""
    _checked(kind, order, stable)
    x, where = along(r, as_array(r, a), axis)
    return call(r, "sort", x, axis=where)


def np_argsort(
    r: Recorder, a: object, axis: object = -1, kind: object = None, order: object = None, *, stable: object = None
) -> ArrayHandle:
    """`numpy.argsort`."""
    _checked(kind, order, stable)
    x = as_array(r, a)
    if x.ndim == 0 and axis is not None:
        x = shapes.reshape(r, x, (1,))
    x, where = along(r, x, axis)
    return call(r, "argsort", x, axis=where)


def method_sort(
    r: Recorder,
    x: ArrayHandle,
    axis: object = -1,
    kind: object = None,
    order: object = None,
    *,
    stable: object = None,
) -> None:
    """`x.sort`: the array itself is sorted."""
    if not x.writeable:
        raise plain_numpy_raises("the array is read-only")
    if axis is None:
        raise plain_numpy_raises("an axis is needed to sort in place")
    r.write(x, np_sort(r, x, axis, kind, order, stable=stable))


def np_sort_complex(r: Recorder, a: object) -> ArrayHandle:
    """`numpy.sort_complex`."""
    x = np_sort(r, a)
    if x.dtype.kind == "c":
        return x
    return cast(r, x, dtypes.complex64 if x.dtype.name in ("int8", "uint8", "int16", "uint16") else dtypes.complex128)


# ---- partitions ----------------------------------------------------------------------------------------------------


def _check_kth(r: Recorder, kth: object, x: ArrayHandle, axis: int, kind: object, order: object) -> None:
    if kind != "introselect" or order is not None:
        raise plain_numpy_raises("kind must be 'introselect', and order= is for arrays with fields")
    if isinstance(kth, ArrayHandle):
        raise Unsupported("a partition around positions that are known only at run time", "use np.sort")
    for k in kth if isinstance(kth, (list, tuple)) else np.asarray(kth).ravel().tolist():
        place, n = shapes.as_size(k, "kth"), x.shape[axis]
        if not (shapes.decide(r, ge(place + n, 0)) and shapes.decide(r, le(place + 1, n))):
            raise plain_numpy_raises(f"kth(={k}) out of bounds ({n})")


def np_partition(
    r: Recorder, a: object, kth: object, axis: object = -1, kind: object = "introselect", order: object = None
) -> ArrayHandle:
    """`numpy.partition`: a full sort."""
    x, where = along(r, as_array(r, a), axis)
    _check_kth(r, kth, x, where, kind, order)
    return call(r, "sort", x, axis=where)


def np_argpartition(
    r: Recorder, a: object, kth: object, axis: object = -1, kind: object = "introselect", order: object = None
) -> ArrayHandle:
    """`numpy.argpartition`: a full argsort."""
    x = as_array(r, a)
    if x.ndim == 0 and axis is not None:
        x = shapes.reshape(r, x, (1,))
    x, where = along(r, x, axis)
    _check_kth(r, kth, x, where, kind, order)
    return call(r, "argsort", x, axis=where)


def method_partition(
    r: Recorder, x: ArrayHandle, kth: object, axis: object = -1, kind: object = "introselect", order: object = None
) -> None:
    """`x.partition`: the array itself is sorted."""
    if not x.writeable:
        raise plain_numpy_raises("the array is read-only")
    if axis is None:
        raise plain_numpy_raises("an axis is needed to partition in place")
    r.write(x, np_partition(r, x, kth, axis, kind, order))


# ---- by several keys, the largest ----------------------------------------------------------------------------------


def np_lexsort(r: Recorder, keys: object, axis: object = -1) -> ArrayHandle:
    """`numpy.lexsort`: by the last key, then by the one before it, and so on: stable sorts, the first key first."""
    if isinstance(keys, (list, tuple)):
        each = [as_array(r, k) for k in keys]
    else:
        x = as_array(r, keys)
        if x.ndim == 0 or not isinstance(x.shape[0], int):
            raise Unsupported("np.lexsort of an unknown number of keys", "give a tuple of keys")
        each = [_row(r, x, k) for k in range(x.shape[0])]
    if not each:
        raise plain_numpy_raises("need sequence of keys with len > 0 in lexsort")
    if any(not shapes.same_shape(r, k.shape, each[0].shape) for k in each[1:]):
        raise plain_numpy_raises("all keys need to be the same shape")
    if each[0].ndim == 0:
        shapes.axis_from_end(axis, 1)
        return deliver(r, constant(r, 0, dtypes.int64), None)
    where = shapes.axis_from_end(axis, each[0].ndim)
    order = call(r, "argsort", each[0], axis=where)
    for key in each[1:]:
        further = call(r, "argsort", call(r, "take_along_axis", key, order, axis=where), axis=where)
        order = call(r, "take_along_axis", order, further, axis=where)
    return order


def _row(r: Recorder, x: ArrayHandle, k: int) -> ArrayHandle:
    return shapes.drop_axes(r, shapes.cut(r, x, 0, k, 1), [0])


def topk(r: Recorder, x: object, k: object, *, axis: object = -1, largest: object = True) -> TopK:
    """The `k` largest or smallest elements along `axis`, in order."""
    a = as_array(r, x)
    where = shapes.axis_from_end(axis, a.ndim)
    size, n = shapes.as_size(k, "k"), a.shape[where]
    if not (shapes.decide(r, ge(size, 0)) and shapes.decide(r, le(size, n))):
        raise plain_numpy_raises(f"topk: k={k} elements of an axis of {n}")
    order = call(r, "argsort", a, axis=where, descending=bool(largest))
    indices = r.copy(shapes.cut(r, order, where, 0, size), "C")
    return TopK(call(r, "take_along_axis", a, indices, axis=where), indices)


# ---- Array API -----------------------------------------------------------------------------------------------------


def sort(r: Recorder, x: object, /, *, axis: object = -1, descending: object = False, stable: object = True) -> object:
    """`sort` of the Array API."""
    a = as_array(r, x)
    return call(r, "sort", a, axis=shapes.axis_from_end(axis, a.ndim), descending=bool(descending))


def argsort(
    r: Recorder, x: object, /, *, axis: object = -1, descending: object = False, stable: object = True
) -> object:
    """`argsort` of the Array API."""
    a = as_array(r, x)
    return call(r, "argsort", a, axis=shapes.axis_from_end(axis, a.ndim), descending=bool(descending))
