"""The dtypes: names, widths, kinds, NumPy counterparts and promotion (NEP 50).

What goes in: NumPy dtypes, names, Python scalar types. What comes out: `DType` constants, one object a dtype,
so that identity is equality. Byte order is native everywhere; other byte orders are refused at the door.
"""

from __future__ import annotations

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

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return max(1, self.bits // 8)

    @property
    def numpy(self) -> np.dtype:
        """The NumPy dtype of the same layout."""
        return _NUMPY[self.name]

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


bool_ = DType("bool", "b", 1)
int8, int16, int32, int64 = (DType(f"int{b}", "i", b) for b in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (DType(f"uint{b}", "u", b) for b in (8, 16, 32, 64))
float16 = DType("float16", "f", 16)
bfloat16 = DType("bfloat16", "f", 16)
float32 = DType("float32", "f", 32)
float64 = DType("float64", "f", 64)
complex64 = DType("complex64", "c", 64)
complex128 = DType("complex128", "c", 128)

INTEGERS = (int8, int16, int32, int64, uint8, uint16, uint32, uint64)
FLOATS = (float16, bfloat16, float32, float64)
COMPLEXES = (complex64, complex128)
ALL = (bool_, *INTEGERS, *FLOATS, *COMPLEXES)
BY_NAME = {d.name: d for d in ALL}

_NUMPY: dict[str, np.dtype] = {
    d.name: np.dtype(ml_dtypes.bfloat16) if d.name == "bfloat16" else np.dtype(d.name) for d in ALL
}
_FROM_NUMPY = {n: BY_NAME[name] for name, n in _NUMPY.items()}


def from_numpy(dtype: object) -> DType:
    """The `DType` of anything `numpy.dtype` accepts.

    >>> from_numpy("i4")
    int32

    Raises `DTypeError` for dtypes outside the table: object, structured, strings, longdouble, other byte orders.
    """
    n = np.dtype(dtype)  # type: ignore[call-overload]
    found = _FROM_NUMPY.get(n)
    if found is None:
        raise DTypeError("dtype is not supported", got=n, allowed=", ".join(BY_NAME))
    return found


@cache
def promote(first: DType, *rest: DType) -> DType:
    """The common dtype by NumPy's promotion table.

    >>> promote(int32, float32), promote(uint64, int8)
    (float64, float64)
    """
    result = first.numpy
    for d in rest:
        try:
            result = np.promote_types(result, d.numpy)
        except TypeError as error:
            raise DTypeError("dtypes have no common dtype", got=f"{first}, {', '.join(map(str, rest))}") from error
    return from_numpy(result)
