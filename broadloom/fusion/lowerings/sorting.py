"""Lowering of sorting and searching to steps with kernels of their own.

A sort reads rows where they lie and writes them in their final place, and copies columns; a search reads the sorted
rows broadcast against the values. Complex numbers are sorted by several sorts, see `passes.decompose`.
"""

from __future__ import annotations

from collections.abc import Sequence

from broadloom.fusion.boxes import StorageBox, TensorBox, contiguous
from broadloom.fusion.ir import Extern, Layout, Region
from broadloom.fusion.lower import Lowering
from broadloom.graph.ir import Node, ValueId
from broadloom.ops.record import Op
from broadloom.symbolic import Size


def strided_region(state: Lowering, x: TensorBox) -> Region:
    """The tensor as it lies in memory, copied where it is no strided view of elements of its dtype."""
    if x.storage.buffer is None and x.storage.shape == x.shape:
        state.realize(x.storage)
    found = state.strided(x)
    if found is None or found[0].dtype is not x.dtype or not found[0].aligned:
        buffer = state.buffer(x.dtype, contiguous(x.shape))
        state.copy_to(x, buffer)
        found = buffer, buffer.layout
    return Region(found[0].name, found[1])


def _last(layout: Layout, axis: int) -> Layout:
    """The layout with `axis` behind all others."""

    def moved(items: tuple[Size, ...]) -> tuple[Size, ...]:
        at = len(items) + axis
        return (*items[:at], *items[at + 1 :], items[at])

    return Layout(moved(layout.shape), moved(layout.strides), layout.offset)


def _result(state: Lowering, node: Node, ids: Sequence[ValueId]) -> tuple[TensorBox, Region]:
    result = node.types[0]
    buffer = state.destination(ids[0], result.dtype, result.shape)
    return TensorBox.whole(StorageBox(result.dtype, result.shape, None, buffer)), Region(buffer.name, buffer.layout)


def _rows_last(shape: Sequence[Size], axis: int) -> Layout:
    """A dense layout whose rows along `axis` lie in one piece."""
    at = len(shape) + axis
    return contiguous(shape, (*(k for k in range(len(shape)) if k != at), at))


def lower_sort(state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox) -> TensorBox:
    """Columns (an axis other than the last) are copied to where their elements lie in one piece, and back, in tiles
    that fit the cache: walking along a column would fetch a line of the cache for each element. Rows are read and
    written in their places, so that a batched sort takes the steps of a single one wherever its batch axis is."""
    assert isinstance(node.op, Op)
    axis, result = node.attributes["axis"], node.types[0]
    if axis != -1 and (x.storage.buffer is None or _is_apart(state, x, axis)):
        dense = state.buffer(x.dtype, _rows_last(x.shape, axis))
        state.copy_to(x, dense)
        given = Region(dense.name, dense.layout)
    else:
        given = strided_region(state, x)
    target = state.awaited(ids[0])
    made = target
    if made is None or (axis != -1 and made.layout.strides[axis] != 1):
        made = state.buffer(result.dtype, _rows_last(result.shape, axis))
    attrs = (("dtype", x.dtype), ("descending", node.attributes["descending"]))
    regions = [Region(r.buffer, _last(r.layout, axis)) for r in (given, Region(made.name, made.layout))]
    site = state.site("memory", node)
    state.operations.append(Extern(state.fresh("s"), node.op.name, (regions[0],), (regions[1],), attrs, site))
    box = TensorBox.whole(StorageBox(result.dtype, result.shape, None, made))
    if target is None or target is made:
        return box
    state.copy_to(box, target)
    return TensorBox.whole(StorageBox(result.dtype, result.shape, None, target))


def _is_apart(state: Lowering, x: TensorBox, axis: int) -> bool:
    """Whether the elements along an axis of a tensor in memory are known to lie apart."""
    found = state.strided(x)
    return found is not None and found[1].strides[axis] != 1


def lower_searchsorted(
    state: Lowering, node: Node, ids: Sequence[ValueId], sorted_: TensorBox, values: TensorBox
) -> TensorBox:
    rows, points = strided_region(state, sorted_), strided_region(state, values)
    box, made = _result(state, node, ids)
    loop = made.layout.shape
    operands = (
        Region(rows.buffer, broadcast_loop(rows.layout, loop, 1)),
        Region(points.buffer, broadcast_loop(points.layout, loop, 0)),
    )
    attrs = (("dtype", values.dtype), ("side", node.attributes["side"]))
    state.operations.append(Extern(state.fresh("s"), "search", operands, (made,), attrs))
    return box


def broadcast_loop(layout: Layout, loop: Sequence[Size], core: int) -> Layout:
    """The layout with its loop dims broadcast to `loop`."""
    lead = len(layout.shape) - core
    skipped = len(loop) - lead
    strides: list[Size] = [0] * len(loop)
    for axis in range(lead):
        if layout.shape[axis] != 1 or loop[skipped + axis] == 1:
            strides[skipped + axis] = layout.strides[axis]
    return Layout((*loop, *layout.shape[lead:]), (*strides, *layout.strides[lead:]), layout.offset)
