"""Small graphs for the tests of lowering and scheduling."""

from __future__ import annotations

from collections.abc import Callable

from broadloom.dtypes import DType, float32
from broadloom.fusion.ir import Kernel
from broadloom.fusion.lower import lower
from broadloom.fusion.lowerings.table import LOWERINGS
from broadloom.fusion.schedule import Scheduled, schedule
from broadloom.graph.builder import GraphBuilder
from broadloom.graph.ir import Graph, Output, TensorType, ValueId
from broadloom.graph.order import value_orders


def graph_of(make: Callable[..., object], *shapes: tuple, dtype: DType = float32) -> Graph:
    """The graph of `make(builder, *inputs)`, which returns the value or the tuple of values to return."""
    builder = GraphBuilder("test")
    inputs = [builder.input(f"x{k}", TensorType(dtype, shape)) for k, shape in enumerate(shapes)]
    made = make(builder, *inputs)
    values: tuple[ValueId, ...] = made if isinstance(made, tuple) else (made,)
    return builder.finish([Output(v, tuple(range(builder.type_of(v).ndim))) for v in values])


def scheduled(graph: Graph, *, fusion: bool = True) -> Scheduled:
    return schedule(lower(graph, value_orders(graph), LOWERINGS), fusion=fusion)


def kernels(graph: Graph) -> tuple[Kernel, ...]:
    steps = scheduled(graph).program.steps
    assert all(isinstance(s, Kernel) for s in steps)
    return steps
