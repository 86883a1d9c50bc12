"""Symbolic integers for shapes, strides and loop indices.

What goes in: ints and symbols with bounds. What comes out: a `Size`, an int whenever the value is constant, else a
hash-consed `Expr`; bounds, relations and proofs about it; and `ShapeEnv`, which holds the size symbols of a capture.
"""

from broadloom.symbolic.expr import (
    Add,
    Expr,
    FloorDiv,
    Max,
    Min,
    Mod,
    Mul,
    Size,
    Symbol,
    add,
    interned_count,
    mul,
    product,
    size_key,
    sub,
    total,
)
from broadloom.symbolic.magnitude import LARGEST
from broadloom.symbolic.ranges import Range, nonnegative, positive, range_of
from broadloom.symbolic.relations import Relation, eq, ge, gt, le, lt, ne, proves
from broadloom.symbolic.shape_env import ShapeEnv
from broadloom.symbolic.simplify import exact_quotient, floordiv, mod, smax, smin
from broadloom.symbolic.text import parse
from broadloom.symbolic.walk import coefficient, evaluate, free_symbols, rewrite, substitute

__all__ = [
    "LARGEST",
    "Add",
    "Expr",
    "FloorDiv",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "Range",
    "Relation",
    "ShapeEnv",
    "Size",
    "Symbol",
    "add",
    "coefficient",
    "eq",
    "evaluate",
    "exact_quotient",
    "floordiv",
    "free_symbols",
    "ge",
    "gt",
    "interned_count",
    "le",
    "lt",
    "mod",
    "mul",
    "ne",
    "nonnegative",
    "parse",
    "positive",
    "product",
    "proves",
    "range_of",
    "rewrite",
    "size_key",
    "smax",
    "smin",
    "sub",
    "substitute",
    "total",
]
