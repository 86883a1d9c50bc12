"""Lowering of ops that place data anew: concatenation, padding, repetition, partial update, creation.

Repetition and rolling are index maps. A pad is a masked load, so that its reader may take it in. Concatenation and
partial updates store pieces into one buffer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from broadloom import dtypes
from broadloom.dtypes import DType
from broadloom.fusion.boxes import Index, Inlining, StorageBox, TensorBox
from broadloom.fusion.ir import Buffer, Layout
from broadloom.fusion.lower import Lowering
from broadloom.fusion.lowerings.pointwise import broadcast_index
from broadloom.graph.ir import Node, ValueId
from broadloom.symbolic import Size, floordiv, ge, lt, mod


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


def lower_concat(state: Lowering, node: Node, ids: Sequence[ValueId], *parts: TensorBox) -> TensorBox:
    result = node.types[0]
    axis = node.attributes["axis"] + len(result.shape)
    buffer = state.destination(ids[0], result.dtype, result.shape)
    start: Size = 0
    for part in parts:
        size = part.shape[axis + len(part.shape) - len(result.shape)]
        shape = (*result.shape[:axis], size, *result.shape[axis + 1 :])
        starts = [start if a == axis else 0 for a in range(len(shape))]
        piece = _window(buffer.layout, starts, shape, [1] * len(shape))
        source = part.load
        given = part.shape
        state.fill(
            buffer,
            piece,
            lambda ops, i, source=source, given=given, shape=shape: source(ops, broadcast_index(i, given, shape)),
            (*part.storage.origins, "concat"),
        )
        start = start + size
    return _in_buffer(buffer, result.dtype, result.shape)


def lower_pad(state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox, fill: TensorBox) -> TensorBox:
    """Inside the operand's range its element, elsewhere the fill value. Only axes that are padded are tested."""
    result = node.types[0]
    before, after = node.attributes["before"], node.attributes["after"]
    lead = len(x.shape) - len(before)

    def inner(ops: Inlining, index: Index) -> int:
        core = tuple(i - b for i, b in zip(index[lead:], before, strict=True))
        mask: int | None = None
        for position, (i, b, a) in enumerate(zip(core, before, after, strict=True)):
            for test in _range_tests(ops, i, x.shape[lead + position], b, a):
                mask = test if mask is None else ops.compute("logical_and", (mask, test), dtypes.bool_)
        source = (*index[:lead], *core)
        if mask is None:
            return x.load(ops, source)
        outside = fill.load(ops, broadcast_index(index, fill.shape, result.shape))
        return ops.masked(mask, lambda nested: x.load(nested, source), outside, result.dtype)

    return state.pointwise(result.dtype, result.shape, inner, (x, fill), "pad", 4)


def _range_tests(ops: Inlining, i: Size, size: Size, before: Size, after: Size) -> list[int]:
    """Values of bool that tell whether 0 <= i < size, those that may fail only."""
    tests = []
    bound = lambda value: ops.index_value(value, dtypes.int64)  # noqa: E731
    if before != 0 and not ge(i, 0) is True:
        tests.append(ops.compute("greater_equal", (bound(i), bound(0)), dtypes.bool_))
    if after != 0 and not lt(i, size) is True:
        tests.append(ops.compute("less", (bound(i), bound(size)), dtypes.bool_))
    return tests


def lower_repeat(state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox) -> TensorBox:
    axis, repeats = node.attributes["axis"] + len(x.shape), node.attributes["repeats"]
    return x.view(
        node.types[0].shape,
        lambda index: tuple(floordiv(i, repeats) if a == axis else i for a, i in enumerate(index)),
    )


def lower_tile(state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox) -> TensorBox:
    return x.view(
        node.types[0].shape,
        lambda index: tuple(
            i if size == n else mod(i, size)
            for i, size, n in zip(index, x.shape, node.types[0].shape, strict=True)
        ),
    )


def lower_roll(state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox) -> TensorBox:
    """Each axis in two pieces stored to their new places: no division in the loops."""
    result = node.types[0]
    ndim = len(x.shape)
    box = x
    for shift, negative in zip(node.attributes["shifts"], node.attributes["axes"], strict=True):
        axis = negative + ndim
        size = box.shape[axis]
        if size == 0:
            continue
        last = axis == node.attributes["axes"][-1] + ndim
        moved = mod(shift, size)
        buffer = (
            state.destination(ids[0], result.dtype, result.shape)
            if last
            else state.buffer(result.dtype, Layout(box.shape, state_strides(box.shape)))
        )
        for start, source_start, length in ((0, size - moved, moved), (moved, 0, size - moved)):
            shape = tuple(length if a == axis else n for a, n in enumerate(box.shape))
            target = [start if a == axis else 0 for a in range(ndim)]
            origin = tuple(source_start if a == axis else 0 for a in range(ndim))
            piece = _window(buffer.layout, target, shape, [1] * ndim)
            load = box.load
            state.fill(
                buffer,
                piece,
                lambda ops, i, load=load, origin=origin: load(
                    ops, tuple(a + b for a, b in zip(i, origin, strict=True))
                ),
                (*box.storage.origins, "roll"),
            )
        box = _in_buffer(buffer, result.dtype, result.shape)
    return box


def lower_slice_update(
    state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox, value: TensorBox
) -> TensorBox:
    """A copy of the operand with `value` stored over a strided window."""
    result, attrs = node.types[0], node.attributes
    buffer = state.destination(ids[0], result.dtype, result.shape)
    window = _window(buffer.layout, attrs["starts"], attrs["sizes"], attrs["steps"])
    if all(s == n for s, n in zip(window.shape, result.shape, strict=True)) and all(
        s == 1 for s in attrs["steps"]
    ):
        pass  # everything is overwritten: nothing of the operand is left
    else:
        state.fill(
            buffer,
            buffer.layout,
            lambda ops, i: x.load(ops, broadcast_index(i, x.shape, result.shape)),
            (*x.storage.origins, "copy"),
        )
    state.fill(
        buffer,
        window,
        lambda ops, i: value.load(ops, broadcast_index(i, value.shape, window.shape)),
        (*value.storage.origins, "slice_update"),
    )
    return _in_buffer(buffer, result.dtype, result.shape)


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
    return state.pointwise(
        dtypes.int64, (), lambda ops, index: ops.index_value(size, dtypes.int64), (), "from_size", 1
    )


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
