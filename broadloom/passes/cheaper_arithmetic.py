"""Cheaper arithmetic of equal value: division by a power of two, small whole powers.

What holds: x / 2**k is x * 2**-k to the bit wherever 2**-k is a normal number. A small whole power is a product:
float32 squares, cubes and fourth powers through float64, which rounds once; float64 squares, which round once, and
cubes, within the 2 ULP that docs/math.md gives for them. Infinities, nans and signed zeros come out as pow gives them.
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

WHOLE_POWERS: dict[DType, tuple[float, ...]] = {float32: (2.0, 3.0, 4.0), float64: (2.0, 3.0)}


@dataclass(frozen=True, slots=True)
class CheaperArithmetic:
    """Multiplication for division by a power of two and for small whole powers."""

    name: ClassVar[str] = "cheaper-arithmetic"

    def run(self, graph: Graph, context: PassContext) -> Graph:
        numbers: dict[ValueId, float] = {}

        def rule(b: GraphBuilder, node: Node, operands: tuple[ValueId, ...]) -> tuple[ValueId, ...] | None:
            if isinstance(node.op, Constant):
                if not node.op.shape and node.op.dtype in FLOATS:
                    numbers[ValueId(b.count)] = float(constant_array(node.op, graph.constants))
                return None
            return _simplified(b, node.op, operands, numbers)

        return rewrite(graph, rule)


def _simplified(
    b: GraphBuilder, op: Op, operands: tuple[ValueId, ...], numbers: dict[ValueId, float]
) -> tuple[ValueId, ...] | None:
    if len(operands) != 2 or operands[1] not in numbers:
        return None
    x, number = operands[0], numbers[operands[1]]
    dtype = b.type_of(x).dtype
    if op.name == "divide" and _has_exact_reciprocal(number, dtype):
        reciprocal = b.constant(np.asarray(1.0 / number).astype(dtype.numpy))
        return (b.call("multiply", x, reciprocal),)
    if op.name == "pow" and number in WHOLE_POWERS.get(dtype, ()):
        return (_power(b, x, int(number), dtype),)
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
