"""Lowering of pointwise ops: operands aligned at their last axes, size-1 axes read at 0. A power of signed integers
checks its exponents, as NumPy does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from broadloom import dtypes
from broadloom.fusion.boxes import Index, Inlining, TensorBox, broadcast_index
from broadloom.fusion.lower import COSTS, Lowering
from broadloom.graph.ir import Constant, Node, ValueId
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


def lower_power(state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox, y: TensorBox) -> TensorBox:
    """Pointwise; a negative exponent of a signed integer is a ValueError. The check takes `exponent < 0` for an index
    into an axis of one element."""
    if x.dtype.kind != "i" or _never_negative(state, node.inputs[1]):
        return lower_pointwise(state, node, ids, x, y)
    site = state.site("value", node)

    def load(ops: Inlining, index: Index) -> int:
        exponent = y.load(ops, index)
        zero = ops.literal(y.dtype, bytes(y.dtype.itemsize))
        negative = ops.compute("less", (exponent, zero), dtypes.bool_)
        ops.indirect(ops.compute("cast", (negative,), dtypes.int64, (("dtype", dtypes.int64),)), 1, site)
        return exponent

    return lower_pointwise(state, node, ids, x, TensorBox(y.dtype, y.shape, load, y.storage))


def _never_negative(state: Lowering, value: ValueId) -> bool:
    """Whether a value is a constant without negative elements."""
    first = len(state.graph.inputs)
    for node in state.graph.nodes:
        if first <= value < first + len(node.types):
            if not isinstance(node.op, Constant) or node.op.data is None:
                return False
            return not (np.frombuffer(node.op.data, node.op.dtype.numpy) < 0).any()
        first += len(node.types)
    return False
