"""What an emitter is: the types that the tables of this package share.

What goes in: a `Cell`, saying which cell of the op table is wanted, and the operands. What comes out: the value. A
real scalar is one `Lane`, a complex one a `Pair`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from broadloom.codegen.lane import Lane
from broadloom.dtypes import DType
from broadloom.records import dataclass

Pair = tuple[Lane, Lane]
Value = Lane | Pair


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the op table: operand dtypes, result dtype, attributes."""

    op: str
    operands: tuple[DType, ...]
    dtype: DType
    attrs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def signed(self) -> bool:
        """Whether the first operand is a signed integer."""
        return self.operands[0].kind == "i"


Emitter = Callable[..., Value]  # (cell, *operands) -> value
Row = Mapping[str, Emitter]  # by the kind of the operands: "b", "u", "i", "f", "c"
