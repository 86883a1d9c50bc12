"""Cheaper arithmetic of equal value: division by a power of two, small whole powers, signs moved outwards.

What holds: x / 2**k is x * 2**-k to the bit wherever 2**-k is a normal number. A small whole power is a product:
float32 squares, cubes and fourth powers through float64, which rounds once; float64 squares, which round once, and
cubes, within the 2 ULP that docs/math.md gives for them. Infinities, nans and signed zeros come out as pow gives them.
The sign of an operand becomes that of the result, or is dropped, where the function is odd or even to the bit; so that
f(x) and f(-x) are one evaluation.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from broadloom.dtypes import FLOATS, DType, float32, float64
from broadloom.graph.builder import GraphBuilder, constant_array
from broadloom.graph.ir import Constant, Graph, Node, ValueId
from broadloom.graph.manager import PassContext
from broadloom.graph.rewrite import rewrite
from broadloom.ops.record import Op
from broadloom.records import dataclass

ODD = frozenset(["sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "erf", "cbrt"])
EVEN = frozenset(["cos", "cosh", "abs", "square"])
WHOLE_POWERS: dict[DType, tuple[float, ...]] = {float32: (2.0, 3.0, 4.0), float64: (2.0, 3.0)}


@dataclass(frozen=True, slots=True)
class CheaperArithmetic:
    """Multiplication for division by a power of two and for small whole powers; one evaluation for f(x) and f(-x)."""

    name: ClassVar[str] = "cheaper-arithmetic"

    def run(self, graph: Graph, context: PassContext) -> Graph:
        numbers: dict[ValueId, float] = {}
        negated: dict[ValueId, ValueId] = {}  # what a float value is the negative of

        def rule(b: GraphBuilder, node: Node, operands: tuple[ValueId, ...]) -> tuple[ValueId, ...] | None:
            if isinstance(node.op, Constant):
                if not node.op.shape and node.op.dtype in FLOATS:
                    numbers[ValueId(b.count)] = float(constant_array(node.op, graph.constants))
                return None
            found = _simplified(b, node.op, operands, numbers)
            if found is None and node.types[0].dtype in FLOATS:
                if node.op.name == "negative" and operands[0] not in negated:
                    negated[ValueId(b.count)] = operands[0]
                found = _signed(b, node.op, operands, negated)
            return None if found is None or b.type_of(found) != node.types[0] else (found,)

        return rewrite(graph, rule)


def _signed(b: GraphBuilder, op: Op, operands: tuple[ValueId, ...], negated: dict[ValueId, ValueId]) -> ValueId | None:
    """The call with the signs of its operands moved out of it."""
    bare = tuple(negated.get(x, x) for x in operands)
    if bare == operands:
        return None
    value: ValueId
    if op.name == "negative":
        return bare[0]
    if op.name in EVEN:
        value = b.call(op, *bare)
        return value
    if op.name in ("add", "subtract"):
        if bare[0] != operands[0] or bare[1] == operands[1]:
            return None
        value = b.call("subtract" if op.name == "add" else "add", *bare)
        return value
    if op.name not in ODD and op.name not in ("multiply", "divide"):
        return None
    inner: ValueId = b.call(op, *bare)
    if bare[0] != operands[0] and bare[-1] != operands[-1] and len(operands) == 2:
        return inner  # two signs
    value = b.call("negative", inner)
    negated[value] = inner
    return value


def _simplified(
    b: GraphBuilder, op: Op, operands: tuple[ValueId, ...], numbers: dict[ValueId, float]
) -> ValueId | None:
    if len(operands) != 2 or operands[1] not in numbers:
        return None
    x, number = operands[0], numbers[operands[1]]
    dtype = b.type_of(x).dtype
    if op.name == "divide" and _has_exact_reciprocal(number, dtype):
        reciprocal = b.constant(np.asarray(1.0 / number).astype(dtype.numpy))
        product: ValueId = b.call("multiply", x, reciprocal)
        return product
    if op.name == "pow" and number in WHOLE_POWERS.get(dtype, ()):
        return _power(b, x, int(number), dtype)
    return None


def _has_exact_reciprocal(number: float, dtype: DType) -> bool:
    """Whether 1 / number is exact and a normal number of the dtype.

    >>> [_has_exact_reciprocal(n, float32) for n in (4.0, 3.0, 2.0**-149)]
    [True, False, False]
    """
    if not math.isfinite(number) or number == 0.0 or abs(math.frexp(number)[0]) != 0.5:
        return False
    limits = {"float16": (-14, 15), "bfloat16": (-126, 127), "float32": (-126, 127), "float64": (-1022, 1023)}
    low, high = limits[dtype.name]
    exponent = math.frexp(number)[1] - 1
    return low <= -exponent <= high and low <= exponent <= high


def _power(b: GraphBuilder, x: ValueId, n: int, dtype: DType) -> ValueId:
    wide = b.call("cast", x, dtype=float64) if dtype is float32 else x
    power: ValueId = b.call("multiply", wide, wide)
    if n > 2:
        power = b.call("multiply", power, wide if n == 3 else power)
    narrowed: ValueId = b.call("cast", power, dtype=float32) if dtype is float32 else power
    return narrowed
