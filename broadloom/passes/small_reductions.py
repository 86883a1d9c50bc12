"""Reductions of a few elements inside reductions: written out, so that both are one loop and nothing is stored between.

What goes in: a graph with reductions over up to eight elements, all known. What comes out: those whose operand is
larger than all that it is computed from, and whose result is read by other reductions alone, as arithmetic on slices.
Pairwise distances in few dimensions are of this kind: the n x n numbers between the two reductions are then made where
the outer one reads them, and take no memory. What holds: elements are taken in C order, as a loop takes them.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Container, Mapping, Sequence
from typing import ClassVar

import numpy as np

from broadloom.dtypes import DType, float32, float64
from broadloom.graph.builder import GraphBuilder
from broadloom.graph.ir import Constant, Graph, Node, TensorType, ValueId
from broadloom.graph.manager import PassContext
from broadloom.graph.rewrite import rewrite
from broadloom.ops.record import Trait
from broadloom.records import dataclass
from broadloom.symbolic import Size

COMBINE = {
    "sum": "add",
    "prod": "multiply",
    "max": "maximum",
    "min": "minimum",
    "any": "logical_or",
    "all": "logical_and",
}
MOST_ELEMENTS = 8
MOST_CALLS = 64  # that are written out: evaluating the operand for each of its elements


@dataclass(frozen=True, slots=True)
class SmallReductions:
    """Reductions of a few elements, read by reductions, as arithmetic on slices."""

    name: ClassVar[str] = "small-reductions"

    def run(self, graph: Graph, context: PassContext) -> Graph:
        inner = _read_by_reductions(graph)
        if not inner:
            return graph
        first = len(graph.inputs)

        def rule(b: GraphBuilder, node: Node, operands: tuple[ValueId, ...]) -> tuple[ValueId, ...] | None:
            nonlocal first
            value = ValueId(first)
            first += len(node.types)
            return _written_out(b, node, operands[0]) if value in inner else None

        return rewrite(graph, rule)


def _read_by_reductions(graph: Graph) -> frozenset[ValueId]:
    """The small reductions whose results are read by other reductions alone, through pointwise ops; and whose operands
    have no other reader."""
    kept = {o.value for o in graph.outputs} | {w.value for w in graph.writes}
    readers: dict[ValueId, list[tuple[Node, ValueId]]] = {}
    nodes: list[tuple[Node, ValueId]] = []
    first = len(graph.inputs)
    for node in graph.nodes:
        nodes.append((node, ValueId(first)))
        first += len(node.types)
        for i in dict.fromkeys(node.inputs):
            readers.setdefault(i, []).append(nodes[-1])
    ends: dict[ValueId, bool] = {}  # whether what is computed from a value goes into reductions alone
    found = []
    for node, value in reversed(nodes):
        ends[value] = value not in kept and all(
            not isinstance(r.op, Constant)
            and (r.op.has(Trait.REDUCTION) or (r.op.has(Trait.POINTWISE) and len(r.types) == 1 and ends[v]))
            for r, v in readers.get(value, ())
        )
        if ends[value] and readers.get(value) and str(node.op) in COMBINE:
            (operand,) = node.inputs
            if operand not in kept and len(readers[operand]) == 1:
                found.append(value)
    return frozenset(found)


def _written_out(b: GraphBuilder, node: Node, operand: ValueId) -> tuple[ValueId, ...] | None:
    type, axes = b.type_of(operand), node.attributes["axes"]
    sizes = [type.shape[axis] for axis in axes]
    known = [n for n in sizes if isinstance(n, int)]
    elements = math.prod(known)
    if len(known) < len(sizes) or not 2 <= elements <= MOST_ELEMENTS or not _adds_as_it_is(str(node.op), type.dtype):
        return None
    chain = _chain(b, operand)
    if not chain or len(chain) * elements > MOST_CALLS:
        return None
    leaves = [i for v in chain for i in _node(b, v).inputs if i not in chain]
    if not all(_spread(b.type_of(leaf).shape, type, axes) for leaf in leaves):
        return None
    places = itertools.product(*map(range, known))
    parts = [_part(b, operand, chain, dict(zip(axes, place, strict=True))) for place in places]
    result = functools.reduce(lambda x, y: b.call(COMBINE[str(node.op)], x, y), parts)
    if str(node.op) == "sum" and type.dtype.kind == "f":  # a sum begins with zero: that of negative zeros is positive
        result = b.call("add", result, b.constant(np.zeros((), type.dtype.numpy)))
    if b.type_of(result) != node.types[0]:
        result = b.call("reshape", result, core=type.ndim, shape=node.types[0].shape)
    return (result,)


def _adds_as_it_is(name: str, dtype: DType) -> bool:
    """Whether the reduction's accumulator is of the operand's dtype, so that its op gives the same."""
    return dtype in (float32, float64) or dtype.kind in "iu" or (dtype.kind == "b" and name in ("any", "all"))


def _node(b: GraphBuilder, value: ValueId) -> Node:
    node = b.node_of(value)
    assert node is not None
    return node


def _chain(b: GraphBuilder, operand: ValueId) -> set[ValueId]:
    """The pointwise values that the operand is computed by, itself among them; empty if it is none."""
    found: set[ValueId] = set()
    waiting = [operand]
    while waiting and len(found) <= MOST_CALLS:
        value = waiting.pop()
        node = b.node_of(value)
        if node is None or isinstance(node.op, Constant) or value in found:
            continue
        if node.op.has(Trait.POINTWISE) and not node.op.has(Trait.MAY_RAISE) and len(node.types) == 1:
            found.add(value)
            waiting += node.inputs
    return found


def _spread(shape: Sequence[Size], over: TensorType, axes: Sequence[int]) -> bool:
    """Whether an array of this shape is repeated along an axis that stays."""
    stay = [a for a in range(-over.ndim, 0) if a not in axes and over.shape[a] != 1]
    return any(-a > len(shape) or shape[a] == 1 for a in stay)


def _part(b: GraphBuilder, operand: ValueId, chain: Container[ValueId], place: Mapping[int, int]) -> ValueId:
    """The elements at one place of the reduced axes, which stay as axes of one element."""
    made: dict[ValueId, ValueId] = {}

    def leaf(value: ValueId) -> ValueId:
        shape = b.type_of(value).shape
        cut = {a: k for a, k in place.items() if -a <= len(shape) and shape[a] != 1}
        if not cut:
            return value
        inner = range(min(cut), 0)
        starts, sizes = tuple(cut.get(a, 0) for a in inner), tuple(1 if a in cut else shape[a] for a in inner)
        piece: ValueId = b.call("slice", value, starts=starts, sizes=sizes, steps=(1,) * len(inner))
        return piece

    def part(value: ValueId) -> ValueId:
        if value not in made:
            if value in chain:
                node = _node(b, value)
                made[value] = b.call(str(node.op), *map(part, node.inputs), **node.attributes)
            else:
                made[value] = leaf(value)
        return made[value]

    return part(operand)
