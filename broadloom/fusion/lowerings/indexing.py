"""Lowering of data-dependent indexing: each run-time index is checked where it is used, then is an index like any.

A gather is pointwise, with `Indirect` symbols in its loads. A scatter is a copy of the operand and a kernel that runs
in order over the index points, so that the last of equal indices wins as in NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from broadloom import dtypes
from broadloom.fusion.boxes import Index, Inlining, StorageBox, TensorBox, broadcast_index, contiguous, flat_index
from broadloom.fusion.handlers import replay
from broadloom.fusion.ir import Kernel, Stage
from broadloom.fusion.lower import Lowering, loop_nest
from broadloom.fusion.value_ranges import ValueRanges, is_index
from broadloom.graph.ir import Node, Order, ValueId
from broadloom.records import dataclass
from broadloom.symbolic import Size, Symbol


@dataclass(frozen=True, slots=True)
class _Check:
    """A check of the elements of an index array. Of several bad ones NumPy names the first in `order`, which is the
    memory order of the array, or for `take`, and what it does by the same way, C order (None)."""

    site: int
    order: Order | None

    def key(self, indices: TensorBox, index: Index) -> Size:
        return flat_index(contiguous(indices.shape, self.order), index)


def _checked(ops: Inlining, indices: TensorBox, index: Index, size: Size, check: _Check) -> Symbol:
    value = indices.load(ops, index)
    if indices.dtype is not dtypes.int64:
        value = ops.compute("cast", (value,), dtypes.int64, (("dtype", dtypes.int64),))
    if ops.parent is None and is_index(replay(ops.body(), ValueRanges())[value], size):
        return ops.indirect(value, size, -1)
    return ops.indirect(value, size, check.site, check.key(indices, index))


def _aligned(index: Index, shape: Sequence[Size], core: int, loop: Sequence[Size]) -> Index:
    """The loop part of an operand's index: its shape's axes before the last `core`, for a point of `loop`."""
    return broadcast_index(index[: len(loop)], shape[: len(shape) - core], loop)


def lower_take(state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox, indices: TensorBox) -> TensorBox:
    """Elements of core axis `axis` at the last `index_rank` axes of the indices, which stand in its place."""
    result, rank = node.types[0], node.attributes["index_rank"]
    core = -node.attributes["axis"]
    loop = result.shape[: len(result.shape) - rank - core + 1]
    check = _Check(state.site("index", node, len(x.shape) - core), None)

    def inner(ops: Inlining, index: Index) -> int:
        chosen, rest = index[len(loop) : len(loop) + rank], index[len(loop) + rank :]
        place = (*_aligned(index, indices.shape, rank, loop), *chosen)
        found = _checked(ops, indices, place, x.shape[-core], check)
        return x.load(ops, (*_aligned(index, x.shape, core, loop), found, *rest))

    return state.pointwise(result.dtype, result.shape, inner, (x, indices), "take", 6)


def lower_take_along_axis(
    state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox, indices: TensorBox
) -> TensorBox:
    result = node.types[0]
    core = -node.attributes["axis"]
    axis = len(result.shape) - core
    check = _Check(state.site("index", node, len(x.shape) - core), state.orders[node.inputs[1]])

    def inner(ops: Inlining, index: Index) -> int:
        place = broadcast_index(index, indices.shape, result.shape)
        found = _checked(ops, indices, place, x.shape[-core], check)
        tail = broadcast_index(index[axis + 1 :], x.shape[len(x.shape) - core + 1 :], result.shape[axis + 1 :])
        return x.load(ops, (*_aligned(index, x.shape, core, result.shape[:axis]), found, *tail))

    return state.pointwise(result.dtype, result.shape, inner, (x, indices), "take_along_axis", 6)


def lower_gather(state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox, *indices: TensorBox) -> TensorBox:
    """Index array number k reads core axis `axes[k]`; the index arrays' axes are loop dims."""
    result, axes, core = node.types[0], node.attributes["axes"], node.attributes["core"]
    rest = [a for a in range(-core, 0) if a not in axes]
    loop = result.shape[: len(result.shape) - len(rest)]
    checks = [
        _Check(state.site("index", node, len(x.shape) + a), state.orders[v])
        for a, v in zip(axes, node.inputs[1:], strict=True)
    ]
    if sum(len(box.shape) > 0 for box in indices) == 1 and any(x.shape[a] != 1 for a in rest):
        checks = [replace(c, order=None) for c in checks]  # NumPy takes whole rows

    def inner(ops: Inlining, index: Index) -> int:
        source: list[Size] = [0] * core
        for box, axis, check in zip(indices, axes, checks, strict=True):
            source[axis] = _checked(ops, box, _aligned(index, box.shape, 0, loop), x.shape[axis], check)
        for axis, i in zip(rest, index[len(loop) :], strict=True):
            source[axis] = i
        return x.load(ops, (*_aligned(index, x.shape, core, loop), *source))

    return state.pointwise(result.dtype, result.shape, inner, (x, *indices), "gather", 6)


def lower_scatter(
    state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox, value: TensorBox, *indices: TensorBox
) -> TensorBox:
    """A copy of `x`, into which the points of the index arrays are stored or added in order."""
    result, axes, core = node.types[0], node.attributes["axes"], node.attributes["core"]
    rest = [a for a in range(-core, 0) if a not in axes]
    loop = result.shape[: len(result.shape) - core]
    rank = node.attributes["index_rank"]
    points = value.shape[len(value.shape) - len(rest) - rank :][:rank]
    buffer = state.updated(x, ids[0], node)
    checks = [
        _Check(state.site("index", node, len(result.shape) + a), state.orders[v])
        for a, v in zip(axes, node.inputs[2:], strict=True)
    ]
    loops, index = loop_nest((*loop, *points, *(result.shape[a] for a in rest)), "i")
    point, others = index[len(loop) : len(loop) + rank], index[len(loop) + rank :]

    def body(ops: Inlining) -> None:
        target: list[Size] = [0] * core
        for box, axis, check in zip(indices, axes, checks, strict=True):
            own = min(rank, len(box.shape))
            within = broadcast_index(point, box.shape[len(box.shape) - own :], points)
            place = (*_aligned(index, box.shape, own, loop), *within)
            target[axis] = _checked(ops, box, place, result.shape[axis], check)
        for axis, i in zip(rest, others, strict=True):
            target[axis] = i
        given = value.load(ops, (*_aligned(index, value.shape, len(rest) + rank, loop), *point, *others))
        where = flat_index(buffer.layout, (*index[: len(loop)], *target))
        ops.store(buffer.name, where, given, node.attributes["mode"])

    recorded = state.record(body)
    state.operations.append(
        Kernel(state.fresh("k"), loops, (Stage((), recorded.body()),), serial=True, origins=("scatter",))
    )
    return TensorBox.whole(StorageBox(result.dtype, result.shape, None, buffer))
