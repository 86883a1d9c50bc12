"""Removes nodes that nothing needs. Ops that may raise are effects and stay, with what they need; so do inputs."""

from __future__ import annotations

from typing import ClassVar

from broadloom.dtypes import DType
from broadloom.graph.ir import Constant, Graph, Node, TensorType
from broadloom.graph.manager import PassContext
from broadloom.graph.rewrite import drop
from broadloom.records import dataclass


@dataclass(frozen=True, slots=True)
class DeadCode:
    """Keeps what outputs, writes and possible errors need."""

    name: ClassVar[str] = "dead-code"

    def run(self, graph: Graph, context: PassContext) -> Graph:
        types = graph.types
        needed = [False] * len(types)
        for value in (*(o.value for o in graph.outputs), *(w.value for w in graph.writes)):
            needed[value] = True
        kept: list[bool] = []
        end = len(types)
        for node in reversed(graph.nodes):
            first = end - len(node.types)
            keep = any(needed[first:end]) or may_raise(node, types)
            if keep:
                for i in node.inputs:
                    needed[i] = True
            kept.append(keep)
            end = first
        return drop(graph, kept[::-1])


def may_raise(node: Node, types: tuple[TensorType, ...]) -> bool:
    """Whether a node can raise at run time, which makes it an effect."""
    if isinstance(node.op, Constant):
        return False
    operands: tuple[DType, ...] = tuple(types[i].dtype for i in node.inputs)
    return node.op.may_raise(operands, node.attributes)
