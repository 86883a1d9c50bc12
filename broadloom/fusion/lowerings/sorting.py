"""Lowering of sorting and searching to steps with kernels of their own.

A sort reads its operand where it lies, whatever the strides, and writes the result in its final place; a search reads
the sorted rows broadcast against the values. Complex numbers are sorted by several sorts, see `passes.decompose`.
"""

from __future__ import annotations

from collections.abc import Sequence

from broadloom.fusion.boxes import StorageBox, TensorBox, contiguous
from broadloom.fusion.ir import Extern, Layout, Region
from broadloom.fusion.lower import Lowering
from broadloom.graph.ir import Node, ValueId
from broadloom.ops.record import Op
from broadloom.symbolic import Size


def _region(state: Lowering, x: TensorBox) -> Region:
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


def lower_sort(state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox) -> TensorBox:
    assert isinstance(node.op, Op)
    axis = node.attributes["axis"]
    given = _region(state, x)
    box, made = _result(state, node, ids)
    attrs = (("dtype", x.dtype), ("descending", node.attributes["descending"]))
    regions = [Region(r.buffer, _last(r.layout, axis)) for r in (given, made)]
    site = state.site("memory", node)
    state.operations.append(Extern(state.fresh("s"), node.op.name, (regions[0],), (regions[1],), attrs, site))
    return box


def lower_searchsorted(
    state: Lowering, node: Node, ids: Sequence[ValueId], sorted_: TensorBox, values: TensorBox
) -> TensorBox:
    rows, points = _region(state, sorted_), _region(state, values)
    box, made = _result(state, node, ids)
    loop = made.layout.shape
    operands = (
        Region(rows.buffer, _broadcast(rows.layout, loop, 1)),
        Region(points.buffer, _broadcast(points.layout, loop, 0)),
    )
    attrs = (("dtype", values.dtype), ("side", node.attributes["side"]))
    state.operations.append(Extern(state.fresh("s"), "search", operands, (made,), attrs))
    return box


def _broadcast(layout: Layout, loop: Sequence[Size], core: int) -> Layout:
    """The layout with its loop dims broadcast to `loop`."""
    lead = len(layout.shape) - core
    skipped = len(loop) - lead
    strides: list[Size] = [0] * len(loop)
    for axis in range(lead):
        if layout.shape[axis] != 1 or loop[skipped + axis] == 1:
            strides[skipped + axis] = layout.strides[axis]
    return Layout((*loop, *layout.shape[lead:]), (*strides, *layout.strides[lead:]), layout.offset)
