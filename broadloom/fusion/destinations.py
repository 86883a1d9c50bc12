"""Where values are to be made: ahead of lowering, so that nothing is made in one place and moved to another.

What goes in: a graph, the uses of its values, and the output buffers that wait for some of them. What comes out: more
entries of the same kind - a value that is only updated into an output is made in the output's buffer from the start,
a part of a concatenation in its place in the whole, a value that is only an output with its axes in another order in
that output's memory.

What holds: a value gets at most one destination, of its own dtype and shape; whether it could be made there is seen
when it is lowered, and if not, it is copied. A value that is read after its place was updated has another place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from broadloom.dtypes import DType
from broadloom.fusion.boxes import contiguous
from broadloom.fusion.ir import Buffer, Layout
from broadloom.graph.ir import Graph, Node, Order, TensorType, ValueId
from broadloom.ops.record import Op, Trait
from broadloom.symbolic import Size

UPDATES = ("slice_update", "scatter")  # ops whose result is their first operand, changed in places
INLINED = (Trait.POINTWISE, Trait.GATHER, Trait.CREATION, Trait.VIEW)  # made where they are read, not in a buffer
Destinations = dict[ValueId, Buffer]
NewBuffer = Callable[[DType, Layout], Buffer]


def reserve(
    graph: Graph, orders: Sequence[Order], uses: Counter[int], destinations: Destinations, new: NewBuffer
) -> None:
    """Add destinations, from the end of the graph to its beginning; `new` makes a workspace buffer."""
    types = graph.types
    fresh, stored = _fresh(graph, (Trait.VIEW,)), _fresh(graph, INLINED) | _raising(graph)
    changed: set[int] = set()  # values that are updated where they lie, and what lies in them
    value = len(types)
    for node in reversed(graph.nodes):
        value -= len(node.types)
        if not isinstance(node.op, Op):
            continue
        result = ValueId(value)
        if node.op.name in UPDATES and result in destinations:
            operand = node.inputs[0]
            # A value that is written into itself is read on the way.
            once = uses[operand] == 1 and operand not in node.inputs[1:]
            if once and operand not in destinations and types[operand] == node.types[0]:
                destinations[operand] = destinations[result]
                changed.add(operand)
        elif node.op.name == "permute" and result in destinations:
            operand = node.inputs[0]
            if operand in stored and uses[operand] == 1 and operand not in destinations:
                destinations[operand] = _permuted(destinations[result], node.attributes["axes"])
                if result in changed:
                    changed.add(operand)
        elif node.op.name == "concat":
            parts = [v for v in node.inputs if v in fresh and node.inputs.count(v) == 1 and v not in destinations]
            if result in changed:  # no part may be read after the update
                parts = [v for v in parts if uses[v] == 1]
                changed.update(parts)
            if any(types[v].ndim == node.types[0].ndim for v in parts):
                if result not in destinations:
                    destinations[result] = new(node.types[0].dtype, contiguous(node.types[0].shape, orders[result]))
                _reserve_parts(types, node, parts, destinations[result], destinations)


def _reserve_parts(
    types: Sequence[TensorType], node: Node, parts: Sequence[ValueId], whole: Buffer, destinations: Destinations
) -> None:
    """Give each of `parts` that is stored as it is its place in the concatenation's buffer."""
    t, axis = node.types[0], node.attributes["axis"] + node.types[0].ndim
    start: Size = 0
    for v in node.inputs:
        given = types[v].shape
        size = given[axis - t.ndim]
        shape = tuple(size if a == axis else n for a, n in enumerate(t.shape))
        if v in parts and given == shape:
            destinations[v] = replace(whole, layout=window(whole.layout, axis, start, size))
        start = start + size


def _permuted(buffer: Buffer, axes: tuple[int, ...]) -> Buffer:
    """The buffer as the operand of a permute whose result it holds."""
    layout = buffer.layout
    lead = len(layout.shape) - len(axes)
    source = [*range(lead), *(lead + axis + len(axes) for axis in axes)]  # of each axis of the result
    place = sorted(range(len(source)), key=source.__getitem__)
    shape, strides = (tuple(items[p] for p in place) for items in (layout.shape, layout.strides))
    return replace(buffer, layout=Layout(shape, strides, layout.offset))


def window(layout: Layout, axis: int, start: Size, size: Size) -> Layout:
    """The layout of `size` entries of `axis` from `start` on.

    >>> window(contiguous((4, 3)), 0, 1, 2)
    Layout(shape=(2, 3), strides=(3, 1), offset=3)
    """
    shape = tuple(size if a == axis else n for a, n in enumerate(layout.shape))
    return Layout(shape, layout.strides, layout.offset + start * layout.strides[axis])


def _raising(graph: Graph) -> set[int]:
    """The values of calls that may raise, which are made where they stand in the program."""
    types, position = graph.types, len(graph.inputs)
    found: set[int] = set()
    for node in graph.nodes:
        if may_raise(types, node):
            found.update(range(position, position + len(node.types)))
        position += len(node.types)
    return found


def may_raise(types: Sequence[TensorType], node: Node) -> bool:
    """Whether a call can raise at run time."""
    if not isinstance(node.op, Op) or not node.op.has(Trait.MAY_RAISE):
        return False
    return node.op.may_raise(tuple(types[i].dtype for i in node.inputs), node.attributes)


def _fresh(graph: Graph, but: Sequence[Trait]) -> set[int]:
    """The values that are made by an op that has none of these traits: not inputs and constants."""
    position = len(graph.inputs)
    found: set[int] = set()
    for node in graph.nodes:
        if isinstance(node.op, Op) and not any(map(node.op.has, but)):
            found.update(range(position, position + len(node.types)))
        position += len(node.types)
    return found
