"""What is reduced, in an order that reductions walk along.

What goes in: the lowering of a reduction of one operand. What comes out: the same, of an operand that is in memory
where it is made of such as disagree on the fast axis: it is made tile by tile then, and the reduction walks along its
own fast axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broadloom.fusion.boxes import Inlining, TensorBox
from broadloom.fusion.ir import Kernel, Stage
from broadloom.fusion.loops import by_step
from broadloom.fusion.lower import Lowering, loop_nest
from broadloom.fusion.tiling import walks_far_across
from broadloom.graph.ir import Node, ValueId
from broadloom.symbolic import product

Reduction = Callable[[Lowering, Node, Sequence[ValueId], TensorBox], TensorBox]


def in_order(lower: Reduction) -> Reduction:
    """The lowering `lower`, of an operand that does not walk far across what it is made of."""

    def lowered(state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox) -> TensorBox:
        return lower(state, node, ids, _in_order(state, x))

    return lowered


def _in_order(state: Lowering, x: TensorBox) -> TensorBox:
    if x.storage.buffer is not None or product(x.storage.shape) != product(x.shape):
        return x
    loops, index = loop_nest(x.shape, "i")

    def load(ops: Inlining) -> None:
        x.load(ops, index)

    body = state.record(load).body()
    made = Kernel("", by_step(loops, [body]), (Stage((), body),))
    return state.realized(x) if walks_far_across(made) else x
