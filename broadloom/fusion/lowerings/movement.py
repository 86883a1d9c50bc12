"""Lowering of ops that place data anew: concatenation, padding, repetition, partial update, creation.

Repetition, extension beyond the edges and most rolling are index maps. A pad is a masked load, so that its reader may
take it in. Concatenation, partial updates and a roll far along the last axis store pieces into one buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from broadloom import dtypes
from broadloom.dtypes import DType
from broadloom.fusion.boxes import Index, Inlining, StorageBox, TensorBox, broadcast_index
from broadloom.fusion.destinations import window
from broadloom.fusion.ir import Buffer, Layout
from broadloom.fusion.lower import Lowering
from broadloom.fusion.peel import is_thin
from broadloom.graph.ir import Node, ValueId
from broadloom.symbolic import Size, floordiv, ge, lt, mod, product, smax, smin


def literal(ops: Inlining, dtype: DType, value: object) -> int:
    """The constant `value` as `dtype`."""
    return ops.literal(dtype, np.asarray(value).astype(dtype.numpy).tobytes())


def _in_buffer(buffer: Buffer, dtype: DType, shape: Sequence[Size]) -> TensorBox:
    return TensorBox.whole(StorageBox(dtype, tuple(shape), None, buffer))


def _window(layout: Layout, starts: Sequence[Size], sizes: Sequence[Size], steps: Sequence[Size]) -> Layout:
    """The layout of a strided window into the last axes of `layout`."""
    lead = len(layout.shape) - len(starts)
    offset, strides = layout.offset, list(layout.strides)
    for position, (start, step) in enumerate(zip(starts, steps, strict=True)):
        offset = offset + start * strides[lead + position]
        strides[lead + position] = strides[lead + position] * step
    return Layout((*layout.shape[:lead], *sizes), tuple(strides), offset)


def _store_piece(
    state: Lowering, buffer: Buffer, piece: Layout, box: TensorBox, origin: str, shift: Index | None = None
) -> None:
    """Store `box`, read from index `shift` on and broadcast where it has fewer axes, into a window of `buffer`."""

    def inner(ops: Inlining, index: Index) -> int:
        moved = index if shift is None else tuple(i + s for i, s in zip(index, shift, strict=True))
        return box.load(ops, broadcast_index(moved, box.shape, piece.shape))

    state.fill(buffer, piece, inner, (*box.storage.origins, origin))


def lower_concat(state: Lowering, node: Node, ids: Sequence[ValueId], *parts: TensorBox) -> TensorBox:
    """Each part stored to its place, unless it was made there."""
    result = node.types[0]
    axis = node.attributes["axis"] + len(result.shape)
    buffer = state.destination(ids[0], result.dtype, result.shape)
    start: Size = 0
    for part in parts:
        size = part.shape[node.attributes["axis"]]
        piece = window(buffer.layout, axis, start, size)
        if not state.lies_in(part, replace(buffer, layout=piece)):
            _store_piece(state, buffer, piece, part, "concat")
        start = start + size
    return _in_buffer(buffer, result.dtype, result.shape)


def lower_stack(state: Lowering, node: Node, ids: Sequence[ValueId], *parts: TensorBox) -> TensorBox:
    result = node.types[0]
    axis = node.attributes["axis"] + len(result.shape)
    buffer = state.destination(ids[0], result.dtype, result.shape)
    layout = buffer.layout
    rest = [a for a in range(len(result.shape)) if a != axis]
    for position, part in enumerate(parts):
        piece = Layout(
            tuple(layout.shape[a] for a in rest),
            tuple(layout.strides[a] for a in rest),
            layout.offset + position * layout.strides[axis],
        )
        _store_piece(state, buffer, piece, part, "stack")
    return _in_buffer(buffer, result.dtype, result.shape)


def lower_pad(state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox, fill: TensorBox) -> TensorBox:
    """Inside the operand's range its element, elsewhere the fill value. Only axes that are padded are tested."""
    result = node.types[0]
    before, after = node.attributes["before"], node.attributes["after"]
    core = len(before)
    loop = result.shape[: len(result.shape) - core]
    sizes = x.shape[len(x.shape) - core :]

    def inner(ops: Inlining, index: Index) -> int:
        source = tuple(i - b for i, b in zip(index[len(loop) :], before, strict=True))
        mask: int | None = None
        for i, size, b, a in zip(source, sizes, before, after, strict=True):
            for test in _range_tests(ops, i, size, b, a):
                mask = test if mask is None else ops.compute("logical_and", (mask, test), dtypes.bool_)
        full = (*broadcast_index(index[: len(loop)], x.shape[: len(x.shape) - core], loop), *source)
        if mask is None:
            return x.load(ops, full)
        outside = fill.load(ops, broadcast_index(index[: len(loop)], fill.shape, loop))
        return ops.masked(mask, lambda nested: x.load(nested, full), outside, result.dtype)

    return state.pointwise(result.dtype, result.shape, inner, (x, fill), "pad", 4)


def _range_tests(ops: Inlining, i: Size, size: Size, before: Size, after: Size) -> list[int]:
    """Values of bool that tell whether 0 <= i < size, those that may fail only."""
    tests = []
    if before != 0 and ge(i, 0) is not True:
        bounds = (ops.index_value(i, dtypes.int64), ops.index_value(0, dtypes.int64))
        tests.append(ops.compute("greater_equal", bounds, dtypes.bool_))
    if after != 0 and lt(i, size) is not True:
        bounds = (ops.index_value(i, dtypes.int64), ops.index_value(size, dtypes.int64))
        tests.append(ops.compute("less", bounds, dtypes.bool_))
    return tests


def lower_extend(state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox) -> TensorBox:
    """An index map: what lies beyond an edge is read where it comes from."""
    result, mode = node.types[0], node.attributes["mode"]
    before, after = node.attributes["before"], node.attributes["after"]
    lead = len(result.shape) - len(before)
    core = tuple(zip(x.shape[lead:], before, after, strict=True))

    def index_map(index: Index) -> Index:
        inside = (_beyond(mode, i - b, n, b, a) for i, (n, b, a) in zip(index[lead:], core, strict=True))
        return (*index[:lead], *inside)

    return x.view(result.shape, index_map)


def _beyond(mode: str, i: Size, n: Size, before: Size, after: Size) -> Size:
    """Where element `i` of an extended axis of size `n` comes from.

    >>> [_beyond("reflect", i, 4, 2, 2) for i in range(-2, 6)], [_beyond("wrap", i, 4, 1, 1) for i in range(-1, 5)]
    ([2, 1, 0, 1, 2, 3, 2, 1], [3, 0, 1, 2, 3, 0])
    """
    if before == 0 and after == 0:
        return i
    if mode == "wrap":
        return mod(i, n)
    if mode == "edge":
        return smin(smax(i, 0), n - 1)
    shared = 0 if mode == "reflect" else 1  # whether the last element comes twice
    if before != 0:
        i = smax(0, i, -i - shared)
    # That it lies within the axis is said too, where bounds do not prove it.
    return smax(0, smin(i, n - 1, 2 * (n - 1) + shared - i)) if after != 0 else smin(i, n - 1)


def lower_repeat(state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox) -> TensorBox:
    """Equal counts are a division of the index; different counts store each element's run."""
    result, repeats = node.types[0], node.attributes["repeats"]
    axis = node.attributes["axis"] + len(x.shape)
    if not isinstance(repeats, tuple):
        return x.view(
            result.shape,
            lambda index: tuple(floordiv(i, smax(repeats, 1)) if a == axis else i for a, i in enumerate(index)),
        )
    buffer = state.destination(ids[0], result.dtype, result.shape)
    start = 0
    for position, count in enumerate(repeats):
        shape = tuple(count if a == axis else n for a, n in enumerate(result.shape))
        starts = [start if a == axis else 0 for a in range(len(shape))]
        element = x.view(shape, partial(_at, axis, position))
        _store_piece(state, buffer, _window(buffer.layout, starts, shape, [1] * len(shape)), element, "repeat")
        start += count
    return _in_buffer(buffer, result.dtype, result.shape)


def _at(axis: int, position: Size, index: Index) -> Index:
    return tuple(position if a == axis else i for a, i in enumerate(index))


def lower_tile(state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox) -> TensorBox:
    shape = node.types[0].shape

    def index_map(index: Index) -> Index:
        sizes = zip(index, x.shape, shape, strict=True)
        return tuple(i if size == n else 0 if size == 0 else mod(i, size) for i, size, n in sizes)

    return x.view(shape, index_map)


def lower_roll(state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox) -> TensorBox:
    """An index map over the axes where that costs no division in the loops; then two pieces stored to their new places
    along the last axis, if it is not among them."""
    ndim = len(x.shape)
    shifts: dict[int, Size] = {}
    for shift, negative in zip(node.attributes["shifts"], node.attributes["axes"], strict=True):
        shifts[negative + ndim] = shifts.get(negative + ndim, 0) + shift
    shifts = {axis: shift for axis, shift in shifts.items() if x.shape[axis] != 0}
    mapped = [axis for axis, shift in shifts.items() if axis != ndim - 1 or _turns_at_an_end(shift, x.shape[axis])]

    def index_map(index: Index) -> Index:
        return tuple(mod(i - shifts[a], x.shape[a]) if a in mapped else i for a, i in enumerate(index))

    box = x.view(x.shape, index_map) if mapped else x
    last = ndim - 1
    if last in mapped or last not in shifts:
        return box
    buffer = state.destination(ids[0], x.dtype, x.shape)
    size = x.shape[last]
    moved = mod(shifts[last], size)
    for start, source, length in ((0, size - moved, moved), (moved, 0, size - moved)):
        piece = _window(buffer.layout, (*[0] * last, start), (*x.shape[:last], length), [1] * ndim)
        _store_piece(state, buffer, piece, box, "roll", (*[0] * last, source))
    return _in_buffer(buffer, x.dtype, x.shape)


def _turns_at_an_end(shift: Size, n: Size) -> bool:
    """Whether a roll leaves a thin border of its axis to those elements that come from the other end."""
    return isinstance(shift, int) and (is_thin(abs(shift), n) or shift == 0)


def lower_slice_update(
    state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox, value: TensorBox
) -> TensorBox:
    """A copy of the operand, or its own memory where nobody reads it again, with `value` stored over a window. Where
    the window covers nearly all, only the frame around it is copied."""
    result = node.types[0]
    starts, sizes, steps = (node.attributes[name] for name in ("starts", "sizes", "steps"))
    lead = len(result.shape) - len(sizes)
    margins = _margins(starts, sizes, steps, result.shape[lead:])
    buffer = None if margins is None else state.taken_over(x, ids[0], node)
    if margins is None:
        buffer = state.updated(x, ids[0], node)
    elif buffer is None:
        buffer = state.destination(ids[0], result.dtype, result.shape)
        _copy_frame(state, buffer, x, margins, lead)
    _store_piece(state, buffer, _window(buffer.layout, starts, sizes, steps), value, "slice_update")
    return _in_buffer(buffer, result.dtype, result.shape)


THIN = 4  # a frame is thin when it holds at most one in so many elements,
SYMBOLIC_MARGIN = 8  # or, where an axis is symbolic, at most so many entries of it


def _margins(
    starts: Sequence[Size], sizes: Sequence[Size], steps: Sequence[Size], shape: Sequence[Size]
) -> list[tuple[int, int]] | None:
    """How many entries each axis has before and after a dense window that leaves a thin frame, else None. An empty
    window has no frame: it may start behind the end.

    >>> _margins((1, 1), (98, 98), (1, 1), (100, 100)), _margins((1, 1), (9, 9), (1, 1), (100, 100))
    ([(1, 1), (1, 1)], None)
    """
    found: list[tuple[int, int]] = []
    for start, size, step, n in zip(starts, sizes, steps, shape, strict=True):
        if step not in (1, -1) or size == 0:
            return None
        before = start if step == 1 else start - size + 1
        after = n - before - size
        if not isinstance(before, int) or not isinstance(after, int):
            return None
        if not isinstance(n, int) and before + after > SYMBOLIC_MARGIN:
            return None
        found.append((before, after))
    total, inside = product(shape), product(sizes)
    if isinstance(total, int) and isinstance(inside, int) and (total - inside) * THIN > total:
        return None
    return found


def _shifted(given: Sequence[Size], shape: Sequence[Size], by: Index, index: Index) -> Index:
    """The index into an operand of shape `given` for `index` + `by` into its broadcast `shape`."""
    return broadcast_index(tuple(i + s for i, s in zip(index, by, strict=True)), given, shape)


def _copy_frame(state: Lowering, buffer: Buffer, x: TensorBox, margins: Sequence[tuple[int, int]], lead: int) -> None:
    """Copy what lies outside of the window, axis by axis: slabs over the whole of later axes, within the window's
    range of earlier ones."""
    shape = buffer.layout.shape
    starts: list[Size] = [0] * len(shape)
    sizes = list(shape)
    for axis, (before, after) in enumerate(margins, start=lead):
        for start, size in ((0, before), (shape[axis] - after, after)):
            if size == 0:
                continue
            at, extent = [*starts], [*sizes]
            at[axis], extent[axis] = start, size
            piece = _window(buffer.layout, at, extent, [1] * len(shape))
            slab = x.view(extent, partial(_shifted, x.shape, shape, tuple(at)))
            _store_piece(state, buffer, piece, slab, "copy")
        starts[axis], sizes[axis] = before, shape[axis] - before - after


# ---- creation ---------------------------------------------------------------------------------------------------


def lower_iota(state: Lowering, node: Node, ids: Sequence[ValueId]) -> TensorBox:
    result = node.types[0]

    def inner(ops: Inlining, index: Index) -> int:
        value = ops.index_value(index[-1], dtypes.int64)
        if result.dtype is dtypes.int64:
            return value
        return ops.compute("cast", (value,), result.dtype, (("dtype", result.dtype),))

    return state.pointwise(result.dtype, result.shape, inner, (), "iota", 1)


def lower_from_size(state: Lowering, node: Node, ids: Sequence[ValueId]) -> TensorBox:
    size = node.attributes["size"]
    return state.pointwise(dtypes.int64, (), lambda ops, index: ops.index_value(size, dtypes.int64), (), "from_size", 1)


def lower_eye(state: Lowering, node: Node, ids: Sequence[ValueId]) -> TensorBox:
    result, offset = node.types[0], node.attributes["offset"]

    def inner(ops: Inlining, index: Index) -> int:
        row = ops.index_value(index[-2] + offset, dtypes.int64)
        column = ops.index_value(index[-1], dtypes.int64)
        on = ops.compute("equal", (row, column), dtypes.bool_)
        if result.dtype is dtypes.bool_:
            return on
        return ops.compute("cast", (on,), result.dtype, (("dtype", result.dtype),))

    return state.pointwise(result.dtype, result.shape, inner, (), "eye", 2)
