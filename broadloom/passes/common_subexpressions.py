"""Computes equal calls once. Operands of commutative ops are compared in any order where that changes no bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from broadloom.graph.builder import GraphBuilder
from broadloom.graph.ir import Constant, Graph, Node, TensorType, ValueId
from broadloom.graph.manager import PassContext
from broadloom.graph.rewrite import rewrite
from broadloom.graph.text import format_value
from broadloom.ops.record import Trait
from broadloom.records import dataclass

_UNCHECKED = ("check_singular", False)


@dataclass(frozen=True, slots=True)
class CommonSubexpressions:
    """The first of several equal calls serves for all of them."""

    name: ClassVar[str] = "common-subexpressions"

    def run(self, graph: Graph, context: PassContext) -> Graph:
        known: dict[Any, tuple[ValueId, ...]] = {}

        def rule(b: GraphBuilder, node: Node, operands: tuple[ValueId, ...]) -> tuple[ValueId, ...] | None:
            types = tuple(b.type_of(i) for i in operands)
            key = call_key(node, operands, types)
            found = known.get(key)
            if found is None and _UNCHECKED in node.attrs:
                found = known.get(call_key(_checked(node), operands, types))
            if found is None:
                first = ValueId(b.count)
                known[key] = tuple(ValueId(first + k) for k in range(len(node.types)))
            return found

        return rewrite(graph, rule)


def _checked(node: Node) -> Node:
    """The call that raises for a singular matrix besides: after it, there is none, and its results serve as well."""
    return replace(node, attrs=tuple((n, True if (n, value) == _UNCHECKED else value) for n, value in node.attrs))


def call_key(node: Node, operands: tuple[ValueId, ...], types: tuple[TensorType, ...]) -> Any:
    """Equal keys: the same op, attributes that are the same to the bit, and the same operands."""
    if isinstance(node.op, Constant):
        return node.op
    # not for floats: of two nans the first one's payload survives, and max(0.0, -0.0) depends on the order
    if node.op.has(Trait.COMMUTATIVE) and not any(t.dtype.is_inexact for t in types):
        operands = tuple(sorted(operands))
    return node.op.name, operands, format_value(node.attrs) if node.attrs else ""
