"""Fused multiply-adds for products that are only added to something or subtracted.

What goes in: a graph. What comes out: x * y + z, z + x * y, x * y - z and z - x * y as `fma`, where the product has no
other reader and the dtype is float32 or float64; negation is exact, so differences need no op of their own. What holds:
the product's own rounding is gone and nothing else; of a sum of two products the first is fused. Values change, so this
pass runs only where the option `contract` asks for it.
"""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from broadloom.dtypes import float32, float64
from broadloom.graph.builder import GraphBuilder
from broadloom.graph.ir import Graph, Node, ValueId
from broadloom.graph.manager import PassContext
from broadloom.graph.rewrite import rewrite
from broadloom.records import dataclass

Factors = tuple[ValueId, ValueId]


@dataclass(frozen=True, slots=True)
class ContractMultiplyAdd:
    """`fma` for a product and the sum or difference that alone reads it."""

    name: ClassVar[str] = "contract-multiply-add"

    def run(self, graph: Graph, context: PassContext) -> Graph:
        readers = Counter(i for node in graph.nodes for i in node.inputs)
        readers.update(o.value for o in graph.outputs)
        readers.update(w.value for w in graph.writes)
        products: dict[ValueId, Factors] = {}  # by value of the new graph: those with one reader
        first = len(graph.inputs)

        def rule(b: GraphBuilder, node: Node, operands: tuple[ValueId, ...]) -> tuple[ValueId, ...] | None:
            nonlocal first
            value = ValueId(first)
            first += len(node.types)
            name = str(node.op)
            if name in ("add", "subtract"):
                return _fused(b, name, operands, products)
            if name in ("multiply", "square") and node.types[0].dtype in (float32, float64) and readers[value] == 1:
                products[ValueId(b.count)] = (operands[0], operands[-1])
            return None

        return rewrite(graph, rule)


def _fused(
    b: GraphBuilder, name: str, operands: tuple[ValueId, ...], products: dict[ValueId, Factors]
) -> tuple[ValueId, ...] | None:
    x, y = operands
    if x in products:
        return (b.call("fma", *products[x], y if name == "add" else b.call("negative", y)),)
    if y in products:
        left, right = products[y]
        return (b.call("fma", left if name == "add" else b.call("negative", left), right, x),)
    return None
