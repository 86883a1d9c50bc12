"""Lowering of Fourier transforms: one step over all rows, read and stored where they lie."""

from __future__ import annotations

from collections.abc import Sequence

from broadloom.fusion.boxes import StorageBox, TensorBox, contiguous
from broadloom.fusion.ir import Extern, Region
from broadloom.fusion.lower import Lowering
from broadloom.graph.ir import Node, ValueId
from broadloom.ops.record import Op


def lower_transform(state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox) -> TensorBox:
    result = node.types[0]
    source = _strided(state, x)
    buffer = state.destination(ids[0], result.dtype, result.shape)
    assert isinstance(node.op, Op)
    attrs = tuple(sorted(node.attributes.items()))
    target = Region(buffer.name, buffer.layout)
    state.operations.append(Extern(state.fresh("x"), node.op.name, (source,), (target,), attrs))
    return TensorBox.whole(StorageBox(result.dtype, result.shape, None, buffer))


def _strided(state: Lowering, x: TensorBox) -> Region:
    """The operand as it lies, if it is a strided view of aligned memory; else a copy."""
    if x.storage.buffer is None and x.storage.shape == x.shape:
        state.realize(x.storage)
    found = state.strided(x)
    if found is not None and found[0].aligned:
        return Region(found[0].name, found[1])
    copy = state.buffer(x.dtype, contiguous(x.shape))
    state.copy_to(x, copy)
    return Region(copy.name, copy.layout)
