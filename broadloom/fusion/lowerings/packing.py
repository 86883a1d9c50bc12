"""Lowering of elements packed in bytes.

`unpack` is an index map: an element lies in one byte, or in two neighbouring ones. `pack` makes the eight elements of a
group and stores the bytes that they fill, so that whatever makes an element runs once, and no buffer stands between.
"""

from __future__ import annotations

from collections.abc import Sequence

from broadloom import dtypes
from broadloom.dtypes import DType
from broadloom.fusion.boxes import Index, Inlining, StorageBox, TensorBox, flat_index
from broadloom.fusion.ir import Kernel, Stage
from broadloom.fusion.lower import Lowering, loop_nest
from broadloom.fusion.lowerings.movement import literal
from broadloom.graph.ir import Node, ValueId
from broadloom.symbolic import floordiv, mod, smin

GROUP = 8  # elements, which end where a byte does


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
    """Each point of the kernel is a group: eight elements, and the bytes that they fill."""
    result, bits = node.types[0], node.attributes["bits"]
    count = x.shape[-1]
    buffer = state.destination(ids[0], result.dtype, result.shape)
    loops, index = loop_nest((*result.shape[:-1], floordiv(count + GROUP - 1, GROUP)), "i")
    lead, group = index[:-1], index[-1]
    whole = isinstance(count, int) and count % GROUP == 0

    def field(ops: Inlining, k: int) -> int:
        """The bits of element k of the group, as uint16; behind the end there are zeros."""
        place = (*lead, group * GROUP + k)
        if whole:
            value = x.load(ops, place)
        else:
            bounds = (ops.index_value(place[-1], dtypes.int64), ops.index_value(count, dtypes.int64))
            there = ops.compute("less", bounds, dtypes.bool_)
            value = ops.masked(there, lambda nested: x.load(nested, place), literal(ops, x.dtype, 0), x.dtype)
        mask = literal(ops, dtypes.uint16, (1 << bits) - 1)
        return ops.compute(
            "bitwise_and", (_cast(ops, _cast(ops, value, dtypes.uint8), dtypes.uint16), mask), dtypes.uint16
        )

    def body(ops: Inlining) -> None:
        fields = [field(ops, k) for k in range(GROUP)]
        for byte in range(bits):
            first, last = 8 * byte // bits, (8 * byte + 7) // bits  # the elements that have bits in it
            joined: int | None = None
            for k in range(first, last + 1):
                by = k * bits - 8 * byte
                moved = literal(ops, dtypes.uint16, abs(by))
                part = _shift(ops, "left" if by > 0 else "right", fields[k], moved, dtypes.uint16)
                joined = part if joined is None else ops.compute("bitwise_or", (joined, part), dtypes.uint16)
            assert joined is not None
            place = flat_index(buffer.layout, (*lead, group * bits + byte))
            ops.store(buffer.name, place, _cast(ops, joined, dtypes.uint8))

    made = state.record(body, points=GROUP)
    origins = (*x.storage.origins, "pack")
    state.operations.append(Kernel(state.fresh("k"), loops, (Stage((), made.body()),), origins=origins))
    return TensorBox.whole(StorageBox(result.dtype, result.shape, None, buffer))
