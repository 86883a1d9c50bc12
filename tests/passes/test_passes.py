"""Passes preserve what a graph computes, to the bit; decompositions to the accuracy of the ops they replace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broadloom import dtypes
from broadloom.graph.builder import GraphBuilder
from broadloom.graph.interpret import interpret
from broadloom.graph.ir import Graph, Output, TensorType
from broadloom.graph.manager import PassContext, parse_pipeline
from broadloom.ops.table import OPS
from broadloom.passes.decompose import Decompose
from broadloom.passes.remove_no_ops import holds_exactly
from broadloom.passes.table import PASSES, default_pipeline
from broadloom.symbolic import Symbol
from tests.graph.graphs import arguments, graphs
from tests.graph.programs import Program, programs

EXACT = [name for name in sorted(PASSES) if name not in ("decompose", "cheaper-arithmetic")]  # these have bounds
Arrays = list[np.ndarray]


def outcome(graph: Graph, inputs: Arrays) -> Any:
    """All that can be seen of a run: outputs with their layout, the inputs after it, or the error."""
    inputs = [x.copy(order="K") for x in inputs]
    try:
        outputs = interpret(graph, inputs)
    except (IndexError, ValueError) as error:
        return type(error).__name__
    seen = [(x.dtype, x.shape, x.tobytes("C")) for x in (*outputs, *inputs)]
    return seen, [x.strides for x in outputs]


@pytest.mark.parametrize("name", [*EXACT, ",".join(EXACT), "remove-no-ops,fold-constants,remove-no-ops,dead-code"])
@given(graphs(), st.integers(0, 2**32))
def test_passes_preserve_every_bit(name: str, graph: Graph, seed: int) -> None:
    inputs = arguments(graph, np.random.default_rng(seed))
    result = parse_pipeline(name, PASSES).run(graph)
    assert outcome(result, inputs) == outcome(graph, inputs)


@given(graphs(symbolic=True), st.sampled_from([1, 2, 9]))
def test_passes_preserve_every_bit_for_every_size(graph: Graph, size: int) -> None:
    result = parse_pipeline(",".join(EXACT), PASSES).run(graph)
    inputs = arguments(graph, np.random.default_rng(size), dict.fromkeys(graph.symbols, size))
    assert outcome(result, inputs) == outcome(graph, inputs)


@given(programs())
def test_passes_preserve_programs_of_views_and_writes(program: Program) -> None:
    graph = program.finish(program.pairs).graph
    result = default_pipeline().run(graph)
    assert len(result.nodes) <= len(graph.nodes)
    assert outcome(result, program.arguments) == outcome(graph, program.arguments)


@given(graphs())
def test_pipelines_are_deterministic_and_come_to_rest(graph: Graph) -> None:
    once = default_pipeline().run(graph)
    assert default_pipeline().run(graph) == once
    names = "dead-code,common-subexpressions,dead-code"
    settled = parse_pipeline(names, PASSES).run(once)
    assert parse_pipeline(names, PASSES).run(settled) is settled


def test_a_pass_that_finds_nothing_returns_the_same_graph() -> None:
    b = GraphBuilder("f")
    x = b.input("x", TensorType(dtypes.float64, (3,)))
    graph = b.finish([Output(b.call("exp", x), (0,))])
    for cls in PASSES.values():
        assert cls().run(graph, PassContext()) is graph


@pytest.mark.parametrize(
    ("matrix", "value"),
    [
        ([[2.0, 1.0], [4.0, 2.0]], 0.0),
        ([[0.0, 1.0], [1.0, 0.0]], -1.0),
        ([[1e200, 0.0, 0.0], [0.0, 1e200, 0.0], [0.0, 0.0, 1e-300]], 1e100),
        ([[-3.0]], -3.0),
    ],
)
def test_determinants_of_singular_swapped_and_extreme_matrices(matrix: list[list[float]], value: float) -> None:
    a = np.array(matrix)
    b = GraphBuilder("f")
    x = b.input("a", TensorType(dtypes.float64, a.shape))
    graph = Decompose().run(b.finish([Output(b.call("det", x), ())]), PassContext())
    (got,) = interpret(graph, [a])
    assert np.isclose(got, value, rtol=1e-12) and np.signbit(got) == np.signbit(np.linalg.det(a))


def test_decomposed_statistics_of_symbolic_sizes() -> None:
    n = Symbol("n")
    for name, extra in (("mean", {}), ("var", {"ddof": 1}), ("std", {"ddof": 0.5}), ("logsumexp", {})):
        b = GraphBuilder("f")
        x = b.input("x", TensorType(dtypes.float32, (n, 3)))
        graph = b.finish([Output(b.call(name, x, axes=(-2,), keepdims=False, **extra), (0,))])
        result = Decompose().run(graph, PassContext())
        for size in (1, 2, 50):
            data = np.random.default_rng(size).normal(size=(size, 3)).astype(np.float32)
            assert interpret(graph, [data])[0].tobytes() == interpret(result, [data])[0].tobytes()


@pytest.mark.parametrize("narrow", dtypes.ALL, ids=str)
@pytest.mark.parametrize("wide", dtypes.ALL, ids=str)
def test_exact_casts_are_exact(narrow: dtypes.DType, wide: dtypes.DType) -> None:
    """Extreme values of the narrow dtype survive the way there and back exactly where the table says so."""
    if narrow.kind == "b":
        values = np.array([False, True])
    elif narrow.is_integer:
        info = np.iinfo(narrow.numpy)
        values = np.array([info.min, info.max, info.max - 1, 1], narrow.numpy)
    else:
        bits = np.arange(1, 1 << 16, 37, dtype=np.uint16)
        real = bits.view(narrow.numpy) if narrow.bits == 16 else np.random.default_rng(0).normal(size=99)
        with np.errstate(invalid="ignore"):
            real = real[np.isfinite(real.astype(np.float64))]
        values = (real + 1j * real if narrow.kind == "c" else real).astype(narrow.numpy)
    there = OPS["cast"].reference(values, dtype=wide)
    back = OPS["cast"].reference(there, dtype=narrow)
    survived = bool(np.array_equal(back, values)) and wide.kind != "b"
    if holds_exactly(narrow, wide):
        assert survived or narrow.kind == "b"
    elif narrow.kind not in "fc" and wide.kind not in "uib":
        assert not survived
