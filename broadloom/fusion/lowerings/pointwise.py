"""Lowering of pointwise ops: operands aligned at their last axes, size-1 axes read at 0."""

from __future__ import annotations

from collections.abc import Sequence

from broadloom.fusion.boxes import Index, Inlining, TensorBox, broadcast_index
from broadloom.fusion.lower import COSTS, Lowering
from broadloom.graph.ir import Node, ValueId
from broadloom.ops.record import Op, Trait


def lower_pointwise(state: Lowering, node: Node, ids: Sequence[ValueId], *operands: TensorBox) -> TensorBox:
    """Any op with core signature of scalars: one `Compute` at each index."""
    op, result = node.op, node.types[0]
    assert isinstance(op, Op)
    name, attrs = op.name, node.attrs

    def inner(ops: Inlining, index: Index) -> int:
        args = tuple(o.load(ops, broadcast_index(index, o.shape, result.shape)) for o in operands)
        return ops.compute(name, args, result.dtype, attrs)

    return state.pointwise(result.dtype, result.shape, inner, operands, name, COSTS[op.has(Trait.EXPENSIVE)])
