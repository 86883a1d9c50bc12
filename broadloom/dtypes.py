"""The dtypes: names, widths, kinds, NumPy counterparts and promotion (NEP 50).

What goes in: NumPy dtypes, names, Python scalar types. What comes out: `DType` constants, one object a dtype,
so that identity is equality. Byte order is native everywhere; other byte orders are refused at the door.

Integers of 1 to 7 bits (`PACKED`) are no dtypes of ops: they lie packed in bytes, and are computed with in the 8-bit
integer that is their `wide`, modulo 2**bits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Literal

import ml_dtypes
import numpy as np

from broadloom.errors import DTypeError
from broadloom.records import dataclass

Kind = Literal["b", "u", "i", "f", "c"]


@dataclass(frozen=True, slots=True)
class DType:
    """One element type.

    >>> float32.bits, float32.kind, float32.itemsize, float32.numpy
    (32, 'f', 4, dtype('float32'))
    """

    name: str
    kind: Kind
    bits: int

    def __hash__(self) -> int:
        return hash(self.name)  # which no two have in common: instructions are looked up by the hundred thousand

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return max(1, self.bits // 8)

    @property
    def numpy(self) -> np.dtype:
        """The NumPy dtype of the same layout. Raises `DTypeError` for packed integers, which have none."""
        if self.is_packed:
            raise DTypeError("packed integers have no NumPy dtype", got=self, remedy=f"take {self.wide}")
        return _NUMPY[self.name]

    @property
    def is_packed(self) -> bool:
        """An integer of less than 8 bits, several of which share a byte."""
        return self.bits < 8 and self.kind in "ui"

    @property
    def wide(self) -> DType:
        """The dtype that elements have while they are computed with: uint8 or int8 for packed integers."""
        return (uint8 if self.kind == "u" else int8) if self.is_packed else self

    @property
    def limits(self) -> tuple[int, int]:
        """The lowest and highest value of an integer dtype."""
        return (0, (1 << self.bits) - 1) if self.kind == "u" else (-(1 << self.bits - 1), (1 << self.bits - 1) - 1)

    @property
    def is_integer(self) -> bool:
        return self.kind in "ui"

    @property
    def is_inexact(self) -> bool:
        return self.kind in "fc"

    @property
    def real(self) -> DType:
        """The dtype of the real part: float32 for complex64, itself for real dtypes."""
        return {"complex64": float32, "complex128": float64}.get(self.name, self)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[[str], DType], tuple[str]]:
        """By name: a copy is the dtype itself."""
        return named, (self.name,)


bool_ = DType("bool", "b", 1)
int8, int16, int32, int64 = (DType(f"int{b}", "i", b) for b in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (DType(f"uint{b}", "u", b) for b in (8, 16, 32, 64))
float16 = DType("float16", "f", 16)
bfloat16 = DType("bfloat16", "f", 16)
float32 = DType("float32", "f", 32)
float64 = DType("float64", "f", 64)
complex64 = DType("complex64", "c", 64)
complex128 = DType("complex128", "c", 128)

uint1, uint2, uint3, uint4, uint5, uint6, uint7 = (DType(f"uint{b}", "u", b) for b in range(1, 8))
int2, int3, int4, int5, int6, int7 = (DType(f"int{b}", "i", b) for b in range(2, 8))

INTEGERS = (int8, int16, int32, int64, uint8, uint16, uint32, uint64)
FLOATS = (float16, bfloat16, float32, float64)
COMPLEXES = (complex64, complex128)
PACKED = (uint1, uint2, uint3, uint4, uint5, uint6, uint7, int2, int3, int4, int5, int6, int7)
ALL = (bool_, *INTEGERS, *FLOATS, *COMPLEXES)
BY_NAME = {d.name: d for d in ALL}

_NUMPY: dict[str, np.dtype] = {
    d.name: np.dtype(ml_dtypes.bfloat16) if d.name == "bfloat16" else np.dtype(d.name) for d in ALL
}
_FROM_NUMPY = {n: BY_NAME[name] for name, n in _NUMPY.items()}


def named(name: str) -> DType:
    """The dtype of this name, packed integers among them.

    >>> named("uint3") is uint3
    True
    """
    return next(d for d in (*ALL, *PACKED) if d.name == name)


def from_numpy(dtype: object) -> DType:
    """The `DType` of anything `numpy.dtype` accepts; a `DType` as it is.

    >>> from_numpy("i4")
    int32

    Raises `DTypeError` for dtypes outside the table: object, structured, strings, longdouble, other byte orders.
    """
    if isinstance(dtype, DType):
        return dtype
    n = np.dtype(dtype)  # type: ignore[call-overload]
    found = _FROM_NUMPY.get(n)
    if found is None:
        raise DTypeError("dtype is not supported", got=n, allowed=", ".join(BY_NAME))
    return found


@cache
def promote(first: DType, *rest: DType) -> DType:
    """The common dtype by NumPy's promotion table. Packed integers follow its idea: the narrowest dtype that holds all
    values, where they meet integers; beside others they count as uint8 or int8.

    >>> promote(int32, float32), promote(uint64, int8)
    (float64, float64)
    >>> promote(uint3, uint4), promote(uint3, int3), promote(uint7, int7), promote(uint3, int8), promote(int3, uint8)
    (uint4, int4, int8, int8, int16)
    """
    if first.is_packed or any(d.is_packed for d in rest):
        return _promote_packed((first, *rest))
    result = first.numpy
    for d in rest:
        try:
            result = np.promote_types(result, d.numpy)
        except TypeError as error:
            raise DTypeError("dtypes have no common dtype", got=f"{first}, {', '.join(map(str, rest))}") from error
    return from_numpy(result)


def _promote_packed(found: tuple[DType, ...]) -> DType:
    packed = [d for d in found if d.is_packed]
    others = [d for d in found if not d.is_packed]
    bits = {kind: max((d.bits for d in packed if d.kind == kind), default=0) for kind in "ui"}
    signed = max(bits["i"], bits["u"] + 1) if bits["i"] else 0
    narrow = _integer("i", signed) if signed else _integer("u", bits["u"])
    if not others:
        return narrow
    rest = promote(others[0], *others[1:])
    if rest is bool_:
        return narrow
    return rest if rest.is_integer and narrow.kind == "u" else promote(rest, narrow.wide)


def _integer(kind: str, bits: int) -> DType:
    return next(d for d in (*PACKED, int8, uint8) if d.kind == kind and d.bits == bits)
