"""Elements of less than 8 bits in bytes, and the places of views in them.

What goes in: flat integers and a packed dtype, or bytes. What comes out: the other; and for a view, where its elements
are. What holds: bytes come in whole groups of eight elements, so that element and byte boundaries meet at group ends.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from broadloom.dtypes import DType
from broadloom.records import dataclass

Array = np.ndarray[Any, Any]
GROUP = 8  # elements, which end where a byte does


def pack_bytes(values: Array, dtype: DType) -> Array:
    """The bytes of flat integers, modulo 2**bits.

    >>> from broadloom import dtypes
    >>> pack_bytes(np.array([1, 2, 3]), dtypes.uint3)
    array([209,   0,   0], dtype=uint8)
    """
    fields = np.zeros((-(-values.size // GROUP), GROUP), np.uint64)
    fields.reshape(-1)[: values.size] = values.reshape(-1).astype(np.uint8) & np.uint8((1 << dtype.bits) - 1)
    words = np.bitwise_or.reduce(fields << _starts(dtype), axis=1)
    data: Array = words[:, None].view(np.uint8)[:, : dtype.bits]
    return data.reshape(-1).copy()


def unpack_bytes(data: Array, dtype: DType) -> Array:
    """The elements of whole groups of bytes, in the wide dtype.

    >>> from broadloom import dtypes
    >>> unpack_bytes(np.array([209, 0, 0], np.uint8), dtypes.uint3)
    array([1, 2, 3, 0, 0, 0, 0, 0], dtype=uint8)
    """
    words = np.zeros((data.size // dtype.bits, GROUP), np.uint8)
    words[:, : dtype.bits] = data.reshape(-1, dtype.bits)
    fields = (words.view(np.uint64) >> _starts(dtype)).astype(np.uint8).reshape(-1)
    if dtype.kind == "u":
        return fields & np.uint8(dtype.limits[1])
    spare = np.int8(8 - dtype.bits)
    return (fields.view(np.int8) << spare) >> spare


def _starts(dtype: DType) -> Array:
    """Where each element of a group begins in its bits."""
    return np.arange(GROUP, dtype=np.uint64) * np.uint64(dtype.bits)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the elements of a tensor lie: its shape, and the number of its first element and the strides, in elements
    of the whole."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def window(self) -> tuple[int, int]:
        """The whole groups that hold all elements: the first, and one behind the last."""
        if not self.size:
            return 0, 0
        spans = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        low = self.offset + sum(min(0, s) for s in spans)
        high = self.offset + sum(max(0, s) for s in spans)
        return low // GROUP, high // GROUP + 1

    def in_array(self, flat: Array, first: int) -> Array:
        """The elements in an array of one byte each, which begins at element `first` of the whole."""
        if not self.size:
            return np.zeros(self.shape, flat.dtype)
        return np.lib.stride_tricks.as_strided(flat[self.offset - first :], self.shape, self.strides)


def dense(shape: tuple[int, ...]) -> Place:
    """Elements without gaps, the last axis running fastest."""
    return Place(shape, tuple(math.prod(shape[k + 1 :]) for k in range(len(shape))))
