"""Integers of less than 8 bits, taken out of bytes and put into them.

What goes in: bytes (uint8), or elements in uint8 or int8. What comes out: the other. What holds: element number i has
bits i * bits to (i + 1) * bits of the bytes, the lowest first, without gaps; bytes come in whole groups of eight
elements, the last of which is filled up with zeros.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from broadloom.dtypes import ALL, DType, int8, uint8
from broadloom.errors import ShapeError
from broadloom.ops import rules
from broadloom.ops.record import Dims, Op, Sample, Trait
from broadloom.ops.rules import Array
from broadloom.ops.signature import Combine, Decide, Dim, Signature, holds
from broadloom.symbolic import lt, mul

_BYTES = "packed integers lie in bytes, which are uint8"
_ELEMENTS = "elements of less than 8 bits are held in uint8 or int8"
_EMPTY = {
    "unpack": {d: _BYTES for d in ALL if d is not uint8},
    "pack": {d: _ELEMENTS for d in ALL if d not in (uint8, int8)},
}


def read_bits(op: str, attrs: Mapping[str, Any]) -> int:
    """The bits of an element. Raises `ShapeError`."""
    bits = attrs["bits"]
    if type(bits) is not int or not 0 < bits < 8:
        raise ShapeError(f"{op}: bits of an element", got=repr(bits), allowed="1 to 7")
    return bits


def _unpack_signature(attrs: Mapping[str, Any]) -> Signature:
    read_bits("unpack", attrs)
    rules.read_choice("unpack", attrs, "signed", False, True)
    return Signature(((Dim("n"),),), ((Dim(rules.read_size("unpack", attrs, "size")),),))


def _check_unpack(dims: Dims, dtypes: tuple[DType, ...], attrs: Mapping[str, Any], decide: Decide | None) -> Dims:
    size, bits = attrs["size"], attrs["bits"]
    if holds(lt(mul(dims["n"], 8), mul(size, bits)), decide) is True:
        raise ShapeError("unpack: too few bytes", got=dims["n"], allowed=f"{size} elements of {bits} bits")
    return {}


def _unpack_dtypes(dtypes: tuple[DType, ...], attrs: Mapping[str, Any]) -> tuple[DType, ...]:
    rules.require_cell("unpack", rules.require_same("unpack", dtypes), _EMPTY["unpack"])
    return (int8 if attrs["signed"] else uint8,)


def _unpack(x: Array, bits: int, signed: bool, size: int) -> Array:
    each = np.unpackbits(x, axis=-1, count=size * bits, bitorder="little")
    each = each.reshape(*x.shape[:-1], size, bits)
    values = np.zeros((*x.shape[:-1], size), np.uint8)
    for k in range(bits):
        values |= each[..., k] << np.uint8(k)
    if not signed:
        return values
    spare = np.int8(8 - bits)
    return (values.view(np.int8) << spare) >> spare


def _pack_signature(attrs: Mapping[str, Any]) -> Signature:
    groups = Combine("//", Combine("+", Dim("n"), Dim(7)), Dim(8))
    return Signature(((Dim("n"),),), ((Combine("*", groups, Dim(read_bits("pack", attrs))),),))


def _pack_dtypes(dtypes: tuple[DType, ...], attrs: Mapping[str, Any]) -> tuple[DType, ...]:
    rules.require_cell("pack", rules.require_same("pack", dtypes), _EMPTY["pack"])
    return (uint8,)


def _pack(x: Array, bits: int) -> Array:
    *lead, n = x.shape
    count = (n + 7) // 8 * 8
    each = np.zeros((*lead, count, bits), np.uint8)
    for k in range(bits):
        each[..., :n, k] = (x.view(np.uint8) >> np.uint8(k)) & np.uint8(1)
    return np.packbits(each.reshape(*lead, count * bits), axis=-1, bitorder="little")


def _unpacked(bits: int, signed: bool, count: int, size: int) -> Sample:
    return Sample(((count,),), {"bits": bits, "signed": signed, "size": size})


_UNPACK = Op(
    name="unpack",
    doc="`size` integers of `bits` bits, the first elements that lie in the bytes; sign extended where `signed`.",
    signature=_unpack_signature,
    result_dtypes=_unpack_dtypes,
    reference=lambda x, **attrs: _unpack(np.ascontiguousarray(x), **attrs),
    arity=1,
    attr_names=("bits", "signed", "size"),
    traits=frozenset({Trait.CHEAP}),
    samples=(
        _unpacked(3, False, 6, 13),
        _unpacked(4, True, 4, 8),
        _unpacked(1, False, 2, 11),
        _unpacked(7, True, 7, 8),
        _unpacked(5, True, 5, 3),
        _unpacked(2, False, 0, 0),
    ),
    sample_dtypes=((uint8,),),
    check=_check_unpack,
    empty=_EMPTY["unpack"],
)

_PACK = Op(
    name="pack",
    doc="The bytes of integers modulo 2**`bits`.",
    signature=_pack_signature,
    result_dtypes=_pack_dtypes,
    reference=lambda x, bits: _pack(np.ascontiguousarray(x), bits),
    arity=1,
    attr_names=("bits",),
    traits=frozenset({Trait.CHEAP}),
    samples=tuple(
        Sample(((count,),), {"bits": bits})
        for count, bits in ((13, 3), (8, 4), (11, 1), (9, 7), (3, 5), (0, 2), (17, 6))
    ),
    sample_dtypes=((uint8,), (int8,)),
    empty=_EMPTY["pack"],
)

OPS = (_UNPACK, _PACK)
