"""Rebuilding a graph node by node: what goes in are a graph and a rule, what comes out is the rewritten graph.

What holds: inputs, symbols, facts, memory orders and written inputs stay; each new node keeps the user line of the
node that it stands for; a node that no rule touches is copied with its types; if no rule fires at all, the very same
graph comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broadloom.graph.builder import GraphBuilder
from broadloom.graph.ir import Constant, Graph, Node, Output, ValueId, Write

# (builder, node, its operands in the new graph) -> the values that replace its results, or None to copy it
Rule = Callable[[GraphBuilder, Node, tuple[ValueId, ...]], Sequence[ValueId] | None]


def rewrite(graph: Graph, rule: Rule) -> Graph:
    """Applies `rule` to every node, in order of definition."""
    builder = GraphBuilder.like(graph)
    new = [ValueId(k) for k in range(len(graph.inputs))]
    changed = False
    for node in graph.nodes:
        builder.location = node.location
        operands = tuple(new[i] for i in node.inputs)
        replaced = rule(builder, node, operands)
        changed = changed or replaced is not None
        new.extend(copy_node(builder, graph, node, operands) if replaced is None else replaced)
    if not changed:
        return graph
    outputs = [Output(new[o.value], o.order) for o in graph.outputs]
    return builder.finish(outputs, [Write(w.input, new[w.value]) for w in graph.writes])


def copy_node(builder: GraphBuilder, graph: Graph, node: Node, operands: tuple[ValueId, ...]) -> tuple[ValueId, ...]:
    """The same call on other operands."""
    if isinstance(node.op, Constant):
        return (builder.add_constant(node.op, graph.constants),)
    return builder.add_node(node, operands)


def drop(graph: Graph, kept: Sequence[bool]) -> Graph:
    """The graph without the nodes for which `kept` is false; nothing that stays may use them."""
    if all(kept):
        return graph
    builder = GraphBuilder.like(graph)
    new: dict[ValueId, ValueId] = {ValueId(k): ValueId(k) for k in range(len(graph.inputs))}
    first = len(graph.inputs)
    for node, keep in zip(graph.nodes, kept, strict=True):
        if keep:
            builder.location = node.location
            results = copy_node(builder, graph, node, tuple(new[i] for i in node.inputs))
            new.update({ValueId(first + k): v for k, v in enumerate(results)})
        first += len(node.types)
    outputs = [Output(new[o.value], o.order) for o in graph.outputs]
    return builder.finish(outputs, [Write(w.input, new[w.value]) for w in graph.writes])
