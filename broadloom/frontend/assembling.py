"""Arrays joined, repeated, rolled and taken apart.

What goes in: lists of arrays, counts, sections. What comes out: fresh arrays for what NumPy copies (concatenate,
stack, repeat, tile, roll), views for what it views (the split family, unstack).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from broadloom.dtypes import DType
from broadloom.frontend import shapes
from broadloom.frontend.indexing import getitem, take
from broadloom.frontend.operands import as_array, call, constant, is_symbolic, known_dtype, placed, promote
from broadloom.frontend.shaping import array_of, np_atleast_1d, np_atleast_2d, np_atleast_3d, reshaped
from broadloom.frontend.ufuncs import as_out, deliver, scalar
from broadloom.frontend.unsupported import Unsupported, plain_numpy_raises
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle
from broadloom.symbolic import Size, add, floordiv, sub


def as_list(r: Recorder, arrays: object) -> list[ArrayHandle]:
    """A sequence of arrays; an array is the sequence of its first axis."""
    if isinstance(arrays, (list, tuple)):
        return [array_of(r, a) for a in arrays]
    x = array_of(r, arrays)
    if x.ndim == 0:
        raise plain_numpy_raises("a sequence of arrays is needed")
    return rows(r, x, 0)


def rows(r: Recorder, x: ArrayHandle, axis: int) -> list[ArrayHandle]:
    """The views of `x` at each place of an axis of static size."""
    n = x.shape[axis]
    if not isinstance(n, int):
        raise Unsupported("going through an axis of symbolic size", "compile with static sizes or write array code")
    views = [shapes.drop_axes(r, shapes.cut(r, x, axis, i, 1), [axis]) for i in range(n)]
    return [scalar(r, v) for v in views]


def common_dtype(arrays: Sequence[ArrayHandle], dtype: object, casting: object) -> DType:
    """The dtype of a join, checked against the casting rule."""
    d = promote(*(a.dtype for a in arrays)) if dtype is None else known_dtype(dtype)
    for a in arrays:
        if not np.can_cast(a.dtype.numpy, d.numpy, casting):  # type: ignore[arg-type]
            raise plain_numpy_raises(f"cannot cast from {a.dtype} to {d} by rule {casting!r}")
    return d


def np_concatenate(
    r: Recorder,
    arrays: object,
    /,
    axis: object = 0,
    out: object = None,
    *,
    dtype: object = None,
    casting: str = "same_kind",
) -> ArrayHandle:
    """`numpy.concatenate`."""
    parts = as_list(r, arrays)
    if not parts:
        raise plain_numpy_raises("need at least one array to concatenate")
    if axis is None:
        parts = [shapes.reshape(r, p, (shapes.count(p.shape),)) for p in parts]
        axis = 0
    if any(p.ndim != parts[0].ndim for p in parts) or parts[0].ndim == 0:
        raise plain_numpy_raises("arrays to concatenate must have the same number of dims, at least one")
    where = shapes.axis_from_end(axis, parts[0].ndim)
    target = as_out(out)
    d = common_dtype(parts, dtype, casting)
    result = shapes.join(r, [r.promote(p, d) for p in parts], where)
    return deliver(r, result, target, casting=casting)


def np_stack(
    r: Recorder,
    arrays: object,
    axis: object = 0,
    out: object = None,
    *,
    dtype: object = None,
    casting: str = "same_kind",
) -> ArrayHandle:
    """`numpy.stack`."""
    parts = as_list(r, arrays)
    if not parts:
        raise plain_numpy_raises("need at least one array to stack")
    if not all(shapes.same_shape(r, p.shape, parts[0].shape) for p in parts):
        raise plain_numpy_raises("all input arrays must have the same shape")
    where = shapes.axis_from_end(axis, parts[0].ndim + 1)
    d = common_dtype(parts, dtype, casting)
    place = where + parts[0].ndim + 1
    spread = [shapes.insert_axes(r, p, place) for p in parts]
    result = shapes.join(r, [r.promote(p, d) for p in spread], where)
    return deliver(r, result, as_out(out), casting=casting)


def _stacker(least: Callable[..., Any], axis: Callable[[ArrayHandle], int]) -> Callable[..., ArrayHandle]:
    def run(r: Recorder, tup: object, *, dtype: object = None, casting: str = "same_kind") -> ArrayHandle:
        parts = as_list(r, tup)
        if not parts:
            raise plain_numpy_raises("need at least one array to concatenate")
        grown = [least(r, p) for p in parts]
        return np_concatenate(r, grown, axis(grown[0]), dtype=dtype, casting=casting)

    return run


np_vstack = _stacker(np_atleast_2d, lambda first: 0)
np_hstack = _stacker(np_atleast_1d, lambda first: 0 if first.ndim == 1 else 1)
np_dstack = _stacker(np_atleast_3d, lambda first: 2)


def np_column_stack(r: Recorder, tup: object) -> ArrayHandle:
    """`numpy.column_stack`."""
    columns = []
    for x in as_list(r, tup):
        if x.ndim < 2:
            x = shapes.permute(r, _two_dims(r, x), [1, 0])
        columns.append(x)
    return np_concatenate(r, columns, 1)


def _two_dims(r: Recorder, x: ArrayHandle) -> ArrayHandle:
    return shapes.insert_axes(r, x, 0, 2 - x.ndim)


def np_append(r: Recorder, arr: object, values: object, axis: object = None) -> ArrayHandle:
    """`numpy.append`."""
    x, v = array_of(r, arr), array_of(r, values)
    if axis is None:
        x, v = (shapes.reshape(r, a, (shapes.count(a.shape),)) for a in (x, v))
        axis = 0
    return np_concatenate(r, [x, v], axis)


def np_block(r: Recorder, arrays: object) -> ArrayHandle:
    """`numpy.block`: nested lists of blocks, the innermost joined along the last axis."""
    depth = _depth(arrays)
    leaves: list[ArrayHandle] = []
    _collect(r, arrays, leaves)
    ndim = max(depth, *(x.ndim for x in leaves))
    return r.copy(_block(r, arrays, depth, ndim)) if depth == 0 else _block(r, arrays, depth, ndim)


def _depth(arrays: object) -> int:
    if not isinstance(arrays, list):
        return 0
    depths = {_depth(a) for a in arrays}
    if len(depths) != 1:
        raise plain_numpy_raises("list depths are mismatched")
    return 1 + depths.pop()


def _collect(r: Recorder, arrays: object, leaves: list[ArrayHandle]) -> None:
    if isinstance(arrays, list):
        for a in arrays:
            _collect(r, a, leaves)
    else:
        leaves.append(as_array(r, arrays))


def _block(r: Recorder, arrays: object, depth: int, ndim: int) -> ArrayHandle:
    if not isinstance(arrays, list):
        x = array_of(r, arrays)
        return shapes.insert_axes(r, x, 0, ndim - x.ndim) if x.ndim < ndim else x
    return np_concatenate(r, [_block(r, a, depth - 1, ndim) for a in arrays], -depth)


# ---- splitting -------------------------------------------------------------------------------------------------------


def np_array_split(r: Recorder, ary: object, indices_or_sections: Any, axis: object = 0) -> list[ArrayHandle]:
    """`numpy.array_split`: views."""
    x = array_of(r, ary)
    where = shapes.axis_from_end(axis, x.ndim)
    n = x.shape[where]
    if isinstance(indices_or_sections, (list, tuple, np.ndarray)):
        pieces = _pieces_at(n, [shapes.as_size(i, "a split point") for i in indices_or_sections])
    else:
        pieces = _equal_pieces(n, shapes.as_size(indices_or_sections, "a number of sections"))
    return [_piece(r, x, where, start, size) for start, size in pieces]


def _pieces_at(n: Size, points: list[Size]) -> list[tuple[Size, Size]]:
    """(start, size) of the pieces between given points."""
    bounds = [0, *(p for p in points if isinstance(p, int))]
    if not isinstance(n, int) or len(bounds) != len(points) + 1:
        raise Unsupported("splitting a symbolic size at given points", "slice the array yourself")
    cuts = [range(n)[a:b] for a, b in itertools.pairwise([*bounds, n])]
    return [(c.start, len(c)) for c in cuts]


def _equal_pieces(n: Size, sections: Size) -> list[tuple[Size, Size]]:
    """(start, size) of so many pieces, the first ones longer by one where it does not divide."""
    if not isinstance(sections, int) or sections <= 0:
        raise plain_numpy_raises("number sections must be larger than 0")
    sizes = [floordiv(add(n, sections - 1 - i), sections) for i in range(sections)]
    starts: list[Size] = [0]
    for size in sizes[:-1]:
        starts.append(add(starts[-1], size))
    return list(zip(starts, sizes, strict=True))


def _piece(r: Recorder, x: ArrayHandle, where: int, start: Size, size: Size) -> ArrayHandle:
    return shapes.cut(r, x, where, 0 if size == 0 else start, size)


def np_split(r: Recorder, ary: object, indices_or_sections: Any, axis: object = 0) -> list[ArrayHandle]:
    """`numpy.split`: equal sections, or at given points."""
    x = array_of(r, ary)
    if not isinstance(indices_or_sections, (list, tuple, np.ndarray)):
        sections = shapes.as_size(indices_or_sections, "a number of sections")
        n = x.shape[shapes.axis_from_end(axis, x.ndim)]
        if not isinstance(sections, int) or sections <= 0 or not shapes.same(r, n % sections, 0):
            raise plain_numpy_raises("array split does not result in an equal division")
    return np_array_split(r, x, indices_or_sections, axis)


def _splitter(axis: Callable[[ArrayHandle], int], least: int) -> Callable[..., list[ArrayHandle]]:
    def run(r: Recorder, ary: object, indices_or_sections: Any) -> list[ArrayHandle]:
        x = array_of(r, ary)
        if x.ndim < least:
            raise plain_numpy_raises(f"only works on arrays of {least} or more dimensions")
        return np_split(r, x, indices_or_sections, axis(x))

    return run


np_hsplit = _splitter(lambda x: 1 if x.ndim > 1 else 0, 1)
np_vsplit = _splitter(lambda x: 0, 2)
np_dsplit = _splitter(lambda x: 2, 3)


def np_unstack(r: Recorder, x: object, /, *, axis: object = 0) -> tuple[ArrayHandle, ...]:
    """`numpy.unstack`: views."""
    a = array_of(r, x)
    if a.ndim == 0:
        raise plain_numpy_raises("input array must be at least 1-d")
    return tuple(rows(r, a, shapes.axis_from_end(axis, a.ndim)))


# ---- repeating, rolling, inserting -----------------------------------------------------------------------------------


def np_repeat(r: Recorder, a: object, repeats: object, axis: object = None) -> ArrayHandle:
    """`numpy.repeat`."""
    x = as_array(r, a)
    if axis is None or x.ndim == 0:
        x, axis = shapes.reshape(r, x, (shapes.count(x.shape),)), axis or 0
    where = shapes.axis_from_end(axis, x.ndim)
    if is_symbolic(repeats) and isinstance(repeats, ArrayHandle):
        raise Unsupported("np.repeat by an array: the size of the result depends on data", "repeat by a constant")
    given = [repeats] if not isinstance(repeats, (list, tuple, np.ndarray)) else list(repeats)
    counts = tuple(shapes.as_size(c, "a number of repetitions") for c in given)
    shapes.not_negative(r, counts, "repeats may not contain negative values.")
    if len(counts) == 1:
        return call(r, "repeat", x, repeats=counts[0], axis=where)
    n = x.shape[where]
    if not shapes.same(r, n, len(counts)):
        raise plain_numpy_raises("repeats does not fit the axis")
    return call(r, "repeat", x, repeats=counts, axis=where)


def np_tile(r: Recorder, A: object, reps: object) -> ArrayHandle:
    """`numpy.tile`."""
    x = array_of(r, A)
    counts = shapes.as_shape(reps)
    if len(counts) < x.ndim:
        counts = (*(1,) * (x.ndim - len(counts)), *counts)
    if all(c == 1 for c in counts) and isinstance(A, ArrayHandle):
        return _grown(r, r.copy(x), len(counts))
    x = _grown(r, x, len(counts))
    if 0 in x.shape:  # NumPy has nothing to repeat, and gives a view
        return reshaped(r, x, tuple(shapes.count(pair) for pair in zip(x.shape, counts, strict=True)))
    return call(r, "tile", x, reps=counts) if counts else r.copy(x)


def _grown(r: Recorder, x: ArrayHandle, ndim: int) -> ArrayHandle:
    return shapes.insert_axes(r, x, 0, ndim - x.ndim) if x.ndim < ndim else x


def np_roll(r: Recorder, a: object, shift: object, axis: object = None) -> ArrayHandle:
    """`numpy.roll`."""
    x = array_of(r, a)
    shift_list = list(shift) if isinstance(shift, (list, tuple)) else [shift]
    shifts = [shapes.as_size(s, "a shift") for s in shift_list]
    if axis is None:
        flat = shapes.reshape(r, x, (shapes.count(x.shape),))
        rolled = _roll(r, flat, [(-1, s) for s in shifts])
        return shapes.reshape(r, rolled, x.shape)
    axis_list = list(axis) if isinstance(axis, (list, tuple)) else [axis]
    if len(shifts) != len(axis_list):
        if 1 not in (len(shifts), len(axis_list)):
            raise plain_numpy_raises("shift and axis do not fit")
        n = max(len(shifts), len(axis_list))
        shifts = shifts * n if len(shifts) == 1 else shifts
        axis_list = axis_list * n if len(axis_list) == 1 else axis_list
    return _roll(r, x, [(shapes.axis_from_end(a, x.ndim), s) for a, s in zip(axis_list, shifts, strict=True)])


def _roll(r: Recorder, x: ArrayHandle, moves: Sequence[tuple[int, Size]]) -> ArrayHandle:
    total: dict[int, Size] = {}
    for axis, shift in moves:
        total[axis] = total.get(axis, 0) + shift
    axes = tuple(sorted(total))
    if not axes:
        return r.copy(x)
    return call(r, "roll", x, shifts=tuple(total[a] for a in axes), axes=axes)


def np_delete(r: Recorder, arr: object, obj: object, axis: object = None) -> ArrayHandle:
    """`numpy.delete` of constant places."""
    x, where, n = _static_axis(r, arr, obj, axis, "np.delete")
    kept = _plain(np.delete, np.arange(n), obj)
    if not isinstance(obj, (int, np.integer, slice)) and np.size(np.asarray(obj)) != 1:
        # NumPy indexes by a mask here, and lays the result out as advanced indexing does.
        return getitem(r, x, (*(slice(None),) * (where % x.ndim), kept))
    return r.copy(take(r, x, constant(r, kept), where), "A", like=x)


def np_insert(r: Recorder, arr: object, obj: object, values: object, axis: object = None) -> ArrayHandle:
    """`numpy.insert` before one constant place."""
    x, where, n = _static_axis(r, arr, obj, axis, "np.insert")
    if not isinstance(obj, int) or not -n <= obj <= n:
        raise Unsupported("np.insert at several places", "use np.concatenate of the pieces")
    at = obj % n if obj < 0 else obj
    v = placed(r, values, x.dtype)
    if v.ndim > 1 or (v.ndim == 1 and x.ndim > 1):
        raise Unsupported("np.insert of several values", "use np.concatenate of the pieces")
    shape = list(x.shape)
    shape[where] = v.shape[0] if v.ndim else 1
    piece = shapes.expand(r, v, tuple(shape))
    before, after = shapes.cut(r, x, where, 0, at), shapes.cut(r, x, where, at, sub(n, at))
    joined = call(r, "concat", before, piece, after, axis=where)
    return r.copy(joined, "A", like=x)


def _static_axis(r: Recorder, arr: object, obj: object, axis: object, what: str) -> tuple[ArrayHandle, int, int]:
    x = array_of(r, arr)
    if is_symbolic(obj):
        raise Unsupported(f"{what} at places known only at run time", "use constant places")
    if axis is None:
        x, axis = shapes.reshape(r, x, (shapes.count(x.shape),)), 0
    where = shapes.axis_from_end(axis, x.ndim)
    n = x.shape[where]
    if not isinstance(n, int):
        raise Unsupported(f"{what} on a symbolic size", "slice and concatenate")
    return x, where, n


def _plain(function: Callable[..., Any], *args: object) -> np.ndarray:
    try:
        return np.asarray(function(*args))
    except (IndexError, TypeError, ValueError) as error:
        raise plain_numpy_raises(str(error)) from error


def np_resize(r: Recorder, a: object, new_shape: object) -> ArrayHandle:
    """`numpy.resize`: the elements repeated as often as needed."""
    x = array_of(r, a)
    sizes = shapes.as_shape(new_shape)
    total, n = shapes.count(sizes), shapes.count(x.shape)
    if not isinstance(total, int) or not isinstance(n, int) or n == 0:
        raise Unsupported("np.resize of symbolic or empty sizes", "use np.tile and a slice")
    flat = shapes.reshape(r, x, (n,))
    repeated = call(r, "tile", flat, reps=(-(-total // n),)) if total > n else r.copy(flat)
    return shapes.reshape(r, shapes.cut(r, repeated, 0, 0, total), sizes)
