"""Ops on bool, and ops that treat every dtype alike: logic, selection, casts, bit patterns.

What goes in: i1 lanes, or values of any dtype. What comes out: the value. `add` of bools is or, `multiply` is and.
"""

from __future__ import annotations

from broadloom.codegen.emit.casts import cast as convert
from broadloom.codegen.emit.cell import Cell, Value
from broadloom.codegen.lane import Lane
from broadloom.codegen.types import register_type
from broadloom.dtypes import bool_


def either(_: Cell, x: Lane, y: Lane) -> Lane:
    return x | y


def both(_: Cell, x: Lane, y: Lane) -> Lane:
    return x & y


def differ(_: Cell, x: Lane, y: Lane) -> Lane:
    return x ^ y


def alike(_: Cell, x: Lane, y: Lane) -> Lane:
    return ~(x ^ y)


def less(_: Cell, x: Lane, y: Lane) -> Lane:
    return ~x & y


def less_equal(_: Cell, x: Lane, y: Lane) -> Lane:
    return ~x | y


def greater(_: Cell, x: Lane, y: Lane) -> Lane:
    return x & ~y


def greater_equal(_: Cell, x: Lane, y: Lane) -> Lane:
    return x | ~y


def invert(_: Cell, x: Lane) -> Lane:
    return ~x


def clip(_: Cell, x: Lane, low: Lane, high: Lane) -> Lane:
    return (x | low) & high


# ---- every dtype --------------------------------------------------------------------------------------------------


def truth(cell: Cell, x: Value, position: int = 0) -> Lane:
    """Whether a value counts as true: not zero; nan is true."""
    result = convert(x, cell.operands[position], bool_)
    if isinstance(result, tuple):
        raise TypeError("a bool is one lane")
    return result


def logical_not(cell: Cell, x: Value) -> Lane:
    return ~truth(cell, x)


def logical_and(cell: Cell, x: Value, y: Value) -> Lane:
    return truth(cell, x) & truth(cell, y, 1)


def logical_or(cell: Cell, x: Value, y: Value) -> Lane:
    return truth(cell, x) | truth(cell, y, 1)


def logical_xor(cell: Cell, x: Value, y: Value) -> Lane:
    return truth(cell, x) ^ truth(cell, y, 1)


def where(_: Cell, condition: Lane, x: Value, y: Value) -> Value:
    if isinstance(x, tuple) and isinstance(y, tuple):
        return condition.where(x[0], y[0]), condition.where(x[1], y[1])
    if isinstance(x, tuple) or isinstance(y, tuple):
        raise TypeError("the choices of where have one dtype")
    return condition.where(x, y)


def cast(cell: Cell, x: Value) -> Value:
    return convert(x, cell.operands[0], cell.dtype)


def bitcast(cell: Cell, x: Value) -> Value:
    """The same bits as another dtype of the same width; a bool becomes, and is made of, a byte."""
    source, target = cell.operands[0], cell.dtype
    if isinstance(x, tuple):
        if target.kind == "c":
            return x
        joined = x[0].as_int().convert("zext", f"i{source.bits}")
        high = x[1].as_int().convert("zext", f"i{source.bits}") << (source.bits // 2)
        return (joined | high).bitcast(register_type(target)[0])
    if target.kind == "c":
        part = register_type(target)[0]
        bits = x.bitcast(f"i{target.bits}")
        half = f"i{target.bits // 2}"
        high = bits.lshr(target.bits // 2)
        return bits.convert("trunc", half).bitcast(part), high.convert("trunc", half).bitcast(part)
    if target.kind == "b":
        return x.bitcast("i8").ne(0) if source.kind != "b" else x
    if source.kind == "b":
        return x.convert("zext", "i8")
    return x.bitcast(register_type(target)[0])
