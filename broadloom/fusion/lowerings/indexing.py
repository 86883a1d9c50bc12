"""Lowering of data-dependent indexing: each run-time index is checked where it is used, then is an index like any.

A gather is pointwise, with `Indirect` symbols in its loads. A scatter is a copy of the operand and a kernel that runs
in order over the index points, so that the last of equal indices wins as in NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence

from broadloom import dtypes
from broadloom.fusion.boxes import Index, Inlining, StorageBox, TensorBox, flat_index
from broadloom.fusion.ir import Kernel, Stage
from broadloom.fusion.lower import Lowering, loop_nest
from broadloom.fusion.lowerings.pointwise import broadcast_index
from broadloom.graph.ir import Node, ValueId
from broadloom.symbolic import Size, Symbol


def _checked(state: Lowering, ops: Inlining, indices: TensorBox, index: Index, size: Size, site: int) -> Symbol:
    value = indices.load(ops, index)
    if indices.dtype is not dtypes.int64:
        value = ops.compute("cast", (value,), dtypes.int64, (("dtype", dtypes.int64),))
    return ops.indirect(value, size, site)


def lower_take(state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox, indices: TensorBox) -> TensorBox:
    """Whole slices of `x` along `axis`, chosen by indices of any rank."""
    result = node.types[0]
    axis = node.attributes["axis"] + len(x.shape)
    site = state.site("index", node, axis)

    def inner(ops: Inlining, index: Index) -> int:
        chosen = index[axis : axis + len(indices.shape)]
        found = _checked(state, ops, indices, chosen, x.shape[axis], site)
        return x.load(ops, (*index[:axis], found, *index[axis + len(indices.shape) :]))

    return state.pointwise(result.dtype, result.shape, inner, (x, indices), "take", 6)


def lower_take_along_axis(
    state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox, indices: TensorBox
) -> TensorBox:
    result = node.types[0]
    axis = node.attributes["axis"] + len(result.shape)
    site = state.site("index", node, axis)

    def inner(ops: Inlining, index: Index) -> int:
        place = broadcast_index(index, indices.shape, result.shape)
        found = _checked(state, ops, indices, place, x.shape[axis], site)
        source = broadcast_index(index, x.shape, result.shape)
        return x.load(ops, (*source[:axis], found, *source[axis + 1 :]))

    return state.pointwise(result.dtype, result.shape, inner, (x, indices), "take_along_axis", 6)


def _index_points(indices: Sequence[TensorBox]) -> tuple[Size, ...]:
    """The broadcast shape of index arrays."""
    rank = max(len(i.shape) for i in indices)
    shape: list[Size] = [1] * rank
    for box in indices:
        for k, size in enumerate(box.shape, start=rank - len(box.shape)):
            if size != 1:
                shape[k] = size
    return tuple(shape)


def lower_gather(state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox, *indices: TensorBox) -> TensorBox:
    """Advanced indexing: index array number k reads core axis `axes[k]`; index dims land in front of the core."""
    result = node.types[0]
    axes = [a + len(x.shape) for a in node.attributes["axes"]]
    sites = [state.site("index", node, a) for a in axes]
    points = _index_points(indices)
    rest = [a for a in range(len(x.shape)) if a not in axes]

    def inner(ops: Inlining, index: Index) -> int:
        chosen, others = index[: len(points)], index[len(points) :]
        source: list[Size] = [0] * len(x.shape)
        for box, axis, site in zip(indices, axes, sites, strict=True):
            place = broadcast_index(chosen, box.shape, points)
            source[axis] = _checked(state, ops, box, place, x.shape[axis], site)
        for axis, i in zip(rest, others, strict=True):
            source[axis] = i
        return x.load(ops, tuple(source))

    return state.pointwise(result.dtype, result.shape, inner, (x, *indices), "gather", 6)


def lower_scatter(
    state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox, value: TensorBox, *indices: TensorBox
) -> TensorBox:
    result, attrs = node.types[0], node.attributes
    buffer = state.destination(ids[0], result.dtype, result.shape)
    state.fill(
        buffer,
        buffer.layout,
        lambda ops, i: x.load(ops, broadcast_index(i, x.shape, result.shape)),
        (*x.storage.origins, "copy"),
    )
    axes = [a + len(result.shape) for a in attrs["axes"]]
    sites = [state.site("index", node, a) for a in axes]
    points = _index_points(indices)
    rest = [a for a in range(len(result.shape)) if a not in axes]
    shape = (*points, *(result.shape[a] for a in rest))
    loops, index = loop_nest(shape, "i")

    def body(ops: Inlining) -> None:
        chosen, others = index[: len(points)], index[len(points) :]
        target: list[Size] = [0] * len(result.shape)
        for box, axis, site in zip(indices, axes, sites, strict=True):
            place = broadcast_index(chosen, box.shape, points)
            target[axis] = _checked(state, ops, box, place, result.shape[axis], site)
        for axis, i in zip(rest, others, strict=True):
            target[axis] = i
        given = value.load(ops, broadcast_index(index, value.shape, shape))
        ops.store(buffer.name, flat_index(buffer.layout, tuple(target)), given, attrs["mode"])

    recorded = state.record(body)
    state.operations.append(
        Kernel(state.fresh("k"), loops, (Stage((), recorded.body()),), serial=True, origins=("scatter",))
    )
    return TensorBox.whole(StorageBox(result.dtype, result.shape, None, buffer))
