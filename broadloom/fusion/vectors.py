"""Which instructions can run for a vector of points, side by side along one variable.

What goes in: instructions and the variable. What comes out: answers that are pure functions of these.
"""

from __future__ import annotations

from broadloom.fusion.ir import Accumulated, Compute, Instruction, Literalv, Load, Lookup, Reduce, Store
from broadloom.symbolic import Size, Symbol, coefficient


def is_plain(i: Instruction, column: Symbol) -> bool:
    """Whether an instruction works on vectors of columns: pointwise, with memory the same for all or side by side."""
    match i:
        case Load(_, index, dtype):
            return dtype.kind != "c" and stride(index, column) in (0, 1)
        case Store(_, index, _, mode):
            return mode == "set" and stride(index, column) == 1
        case Compute(_, _, dtype, _) | Literalv(dtype, _) | Accumulated(_, dtype) | Lookup(_, _, dtype):
            return dtype.kind != "c"
        case Reduce(_, _, position):
            return position is None
    return False


def stride(index: Size, variable: Symbol) -> Size | None:
    """The step of an index along a loop variable, None where it has no one step."""
    split = coefficient(index, variable)
    return None if split is None else split[0]
