"""Scalar LLVM code for every pointwise op of the op table, in every dtype that has a cell.

What goes in: a builder, an op name, operands in registers with their dtypes, the result dtype, the attributes. What
comes out: the result in registers. Values are `codegen.types.register_type`'s: i1 for bool, iN, half, i16 for
bfloat16, float, double, a pair for complex.

What holds: the code is free of branches, memory and library calls, so a loop around it vectorises; results are
NumPy's (the same bits in exact ops, the bounds of docs/math.md in the others); LLVM's undefined and poison cases
are never reached, whatever the operands; a float16 or bfloat16 op is computed in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from broadloom.codegen.emit.casts import narrow, widen
from broadloom.codegen.emit.cell import Cell, Row, Value
from broadloom.codegen.emit.functions import called
from broadloom.codegen.emit.table import EMITTERS, HALF_NATIVE, HALF_ROWS
from broadloom.codegen.lane import Lane
from broadloom.codegen.llvm import FunctionBuilder, Val
from broadloom.dtypes import DType, float32
from broadloom.errors import DTypeError

Scalar = tuple[Val, ...]

__all__ = ["EMITTERS", "Scalar", "emit", "has_cell"]


def has_cell(op: str, operands: Sequence[DType]) -> bool:
    """Whether `emit` takes this op on operands of these dtypes. The last operand's kind chooses the column, as the
    first of `where` is its condition.

    >>> from broadloom.dtypes import bool_, int8
    >>> has_cell("add", [int8, int8]), has_cell("subtract", [bool_, bool_])
    (True, False)
    """
    last = operands[-1]
    return last.kind in EMITTERS.get(op, {}) and not (op == "complex" and last.bits == 16)


def emit(
    b: FunctionBuilder,
    op: str,
    args: Sequence[Scalar],
    arg_dtypes: Sequence[DType],
    dtype: DType,
    attrs: Mapping[str, Any] | None = None,
) -> Scalar:
    """Emits `op` on `args` into `b`. Raises `DTypeError` where the table has no such cell."""
    cell = Cell(op, tuple(arg_dtypes), dtype, attrs or {})
    row: Row = EMITTERS.get(op, {})
    if not has_cell(op, cell.operands):
        allowed = f"kinds {', '.join(sorted(row))}" if row else "a pointwise op of the op table"
        raise DTypeError(f"no code for {op} on {', '.join(map(str, arg_dtypes))}", got=op, allowed=allowed)
    operands = [_value(b, a) for a in args]
    last = cell.operands[-1]
    if last.kind == "f" and last.bits == 16 and op not in HALF_NATIVE:
        result = _through_float(cell, operands, row)
    else:
        result = called(cell, row[last.kind], operands)
    return (result[0].v, result[1].v) if isinstance(result, tuple) else (result.v,)


def _value(b: FunctionBuilder, scalar: Scalar) -> Value:
    if len(scalar) == 2:
        return Lane(b, scalar[0]), Lane(b, scalar[1])
    return Lane(b, scalar[0])


def _through_float(cell: Cell, operands: Sequence[Value], row: Row) -> Value:
    """A 16-bit float op: by its bits where that is its nature, otherwise in float32, rounded once."""
    if cell.op in HALF_ROWS:
        return HALF_ROWS[cell.op](cell, *operands)
    lanes = [widen(x, d) for x, d in zip(operands, cell.operands, strict=True) if isinstance(x, Lane)]
    inner = Cell(cell.op, (float32,) * len(lanes), float32 if cell.dtype.kind == "f" else cell.dtype, cell.attrs)
    result = called(inner, row["f"], lanes)
    if isinstance(result, tuple):
        raise DTypeError(f"no complex dtype has parts of {cell.operands[0]}", got=cell.op)
    return narrow(result, cell.dtype) if cell.dtype.kind == "f" else result
