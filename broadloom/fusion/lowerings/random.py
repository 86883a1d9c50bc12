"""Lowering of keys: two words of 32 bits joined to one, and one taken apart, where they are read."""

from __future__ import annotations

from collections.abc import Sequence

from broadloom import dtypes
from broadloom.fusion.boxes import Index, Inlining, TensorBox
from broadloom.fusion.lower import Lowering
from broadloom.graph.ir import Node, ValueId

_WORD = (("dtype", dtypes.uint64),)
_BITS = (32).to_bytes(8, "little")


def lower_key_word(state: Lowering, node: Node, ids: Sequence[ValueId], key: TensorBox) -> TensorBox:
    result = node.types[0]

    def inner(ops: Inlining, index: Index) -> int:
        low, high = (ops.compute("cast", (key.load(ops, (*index, n)),), dtypes.uint64, _WORD) for n in (0, 1))
        shifted = ops.compute("bitwise_left_shift", (high, ops.literal(dtypes.uint64, _BITS)), dtypes.uint64)
        return ops.compute("bitwise_or", (low, shifted), dtypes.uint64)

    return state.pointwise(result.dtype, result.shape, inner, (key,), "key_word", 4)


def lower_word_key(state: Lowering, node: Node, ids: Sequence[ValueId], word: TensorBox) -> TensorBox:
    result = node.types[0]

    def inner(ops: Inlining, index: Index) -> int:
        whole = word.load(ops, index[:-1])
        shift = ops.index_value(index[-1] * 32, dtypes.uint64)
        part = ops.compute("bitwise_right_shift", (whole, shift), dtypes.uint64)
        return ops.compute("cast", (part,), dtypes.uint32, (("dtype", dtypes.uint32),))

    return state.pointwise(result.dtype, result.shape, inner, (word,), "word_key", 3)
