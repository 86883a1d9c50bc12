"""Lowering of elements packed in bytes.

`unpack` is an index map: an element lies in one byte, or in two neighbouring ones. `pack` folds, for each byte, the few
elements that have bits in it, so that whatever makes an element is run inside that loop and no buffer stands between.
"""

from __future__ import annotations

from collections.abc import Sequence

from broadloom import dtypes
from broadloom.dtypes import DType
from broadloom.fusion.boxes import Index, Inlining, StorageBox, TensorBox, flat_index
from broadloom.fusion.ir import Accumulator
from broadloom.fusion.lower import Lowering, loop_nest
from broadloom.fusion.lowerings.movement import literal
from broadloom.graph.ir import Node, ValueId
from broadloom.symbolic import Size, floordiv, mod, smin


def _shift(ops: Inlining, op: str, value: int, by: int, dtype: DType) -> int:
    return ops.compute(f"bitwise_{op}_shift", (value, by), dtype)


def _cast(ops: Inlining, value: int, dtype: DType) -> int:
    return ops.compute("cast", (value,), dtype, (("dtype", dtype),))


def lower_unpack(state: Lowering, node: Node, ids: Sequence[ValueId], data: TensorBox) -> TensorBox:
    """Two bytes as one number of 16 bits, the element's bits moved to its top and back, which extends the sign."""
    result, bits, signed = node.types[0], node.attributes["bits"], node.attributes["signed"]
    wide = dtypes.int16 if signed else dtypes.uint16
    last = data.shape[-1] - 1

    def inner(ops: Inlining, index: Index) -> int:
        lead, place = index[:-1], index[-1] * bits
        byte = floordiv(place, 8)
        word = _cast(ops, data.load(ops, (*lead, byte)), dtypes.uint16)
        if 8 % bits:
            above = _cast(ops, data.load(ops, (*lead, smin(byte + 1, last))), dtypes.uint16)
            high = _shift(ops, "left", above, literal(ops, dtypes.uint16, 8), dtypes.uint16)
            word = ops.compute("bitwise_or", (word, high), dtypes.uint16)
        below = ops.index_value(mod(place, 8), dtypes.int64)
        top = ops.compute("subtract", (literal(ops, dtypes.int64, 16 - bits), below), dtypes.int64)
        word = _shift(ops, "left", word, _cast(ops, top, dtypes.uint16), dtypes.uint16)
        word = _cast(ops, word, wide)
        return _cast(ops, _shift(ops, "right", word, literal(ops, wide, 16 - bits), wide), result.dtype)

    return state.pointwise(result.dtype, result.shape, inner, (data,), "unpack", 1)


def lower_pack(state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox) -> TensorBox:
    """The byte at each place: the sum of the bits of the elements that begin or end in it."""
    result, bits = node.types[0], node.attributes["bits"]
    count = x.shape[-1]
    buffer = state.destination(ids[0], result.dtype, result.shape)
    outer, place = loop_nest(result.shape, "i")
    most = 8 // bits if 8 % bits == 0 else (bits + 6) // bits + 1  # elements that share one byte
    inner, (step,) = loop_nest([most], "r")
    element = floordiv(place[-1] * 8, bits) + step
    accumulator = Accumulator(state.fresh("acc"), "sum", dtypes.uint8, dtypes.uint8)

    def contribution(ops: Inlining) -> int:
        value = x.load(ops, (*place[:-1], _inside(element, count)))
        mask = literal(ops, dtypes.uint8, (1 << bits) - 1)
        field = ops.compute("bitwise_and", (_cast(ops, value, dtypes.uint8), mask), dtypes.uint8)
        # from `bits` below the byte's first bit, so that the shift is never negative
        up = ops.index_value(element * bits - place[-1] * 8 + bits, dtypes.int64)
        field = _shift(ops, "left", _cast(ops, field, dtypes.uint32), _cast(ops, up, dtypes.uint32), dtypes.uint32)
        return _cast(ops, _shift(ops, "right", field, literal(ops, dtypes.uint32, bits), dtypes.uint32), dtypes.uint8)

    def body(ops: Inlining) -> None:
        value = contribution(ops)
        if not (isinstance(count, int) and count % 8 == 0):  # the last group is filled up with zeros
            bounds = (ops.index_value(element, dtypes.int64), ops.index_value(count, dtypes.int64))
            there = ops.compute("less", bounds, dtypes.bool_)
            value = ops.compute("where", (there, value, literal(ops, dtypes.uint8, 0)), dtypes.uint8)
        ops.reduce(accumulator.name, value)

    def store(ops: Inlining) -> None:
        ops.store(buffer.name, flat_index(buffer.layout, place), ops.accumulated(accumulator.name, dtypes.uint8))

    state.reduction(accumulator, outer, inner, body, store, "pack")
    return TensorBox.whole(StorageBox(result.dtype, result.shape, None, buffer))


def _inside(element: Size, count: Size) -> Size:
    """The index of an element; of one behind the end, which only a byte's last step asks for, that of the last one."""
    return smin(element, count - 1)
