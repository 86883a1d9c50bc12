"""Evaluates calls whose operands are constants, with the ops' reference kernels: the same bits and dtype."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from broadloom.graph.builder import GraphBuilder, constant_array
from broadloom.graph.ir import Constant, Graph, Node, ValueId
from broadloom.graph.manager import PassContext
from broadloom.graph.rewrite import rewrite
from broadloom.ops.record import Op, Trait
from broadloom.records import dataclass
from broadloom.symbolic import Expr


@dataclass(frozen=True, slots=True)
class FoldConstants:
    """Results of up to `limit` elements become constants.

    Creation ops and views of constants are seen through but stay as they are: an iota or a broadcast constant
    costs a kernel nothing, an array of constants costs it loads.
    """

    limit: int = 64

    name: ClassVar[str] = "fold-constants"

    def run(self, graph: Graph, context: PassContext) -> Graph:
        known: dict[ValueId, np.ndarray] = {}

        def rule(b: GraphBuilder, node: Node, operands: tuple[ValueId, ...]) -> tuple[ValueId, ...] | None:
            first = ValueId(b.count)
            if isinstance(node.op, Constant):
                if math.prod(node.op.shape) <= self.limit:
                    known[first] = constant_array(node.op, graph.constants)
                return None
            if not all(i in known for i in operands) or not self._admits(node, node.op):
                return None
            results = evaluate(node.op, node, [known[i] for i in operands])
            if results is None:
                return None
            if node.op.has(Trait.CREATION) or (node.op.has(Trait.VIEW) and results[0].size > 1):
                known.update({ValueId(first + k): r for k, r in enumerate(results)})
                return None
            folded = tuple(b.constant(r) for r in results)
            known.update(dict(zip(folded, results, strict=True)))
            return folded

        return rewrite(graph, rule)

    def _admits(self, node: Node, op: Op) -> bool:
        """Small static results of ops that mean the same everywhere (LAPACK's last bits differ by machine)."""
        if op.has(Trait.LINALG) or op.has(Trait.CONTRACTION) or _has_symbols(node.attrs):
            return False
        sizes = [n for t in node.types for n in t.shape]
        return not _has_symbols(tuple(sizes)) and all(math.prod(_ints(t.shape)) <= self.limit for t in node.types)


def _ints(sizes: tuple[object, ...]) -> list[int]:
    return [n for n in sizes if isinstance(n, int)]


def _has_symbols(value: object) -> bool:
    return isinstance(value, Expr) or (isinstance(value, tuple) and any(map(_has_symbols, value)))


def evaluate(op: Op, node: Node, operands: list[np.ndarray]) -> tuple[np.ndarray, ...] | None:
    """The results of a call, or None if it raises: then the program must raise when it runs, not now."""
    try:
        with np.errstate(all="ignore"):
            returned = op.reference(*operands, **node.attributes)
    except (IndexError, ValueError, ArithmeticError):  # LinAlgError is a ValueError
        return None
    return returned if isinstance(returned, tuple) else (returned,)
