"""Random programs of views and writes give the same bits at every level: graph, passes, loop program, native code."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from broadloom.compiler.build import fuse
from broadloom.fusion.evaluate import evaluate
from broadloom.fusion.verify import verify
from broadloom.graph.interpret import interpret
from broadloom.graph.ir import Graph
from broadloom.graph.parse import parse
from broadloom.passes.table import default_pipeline
from tests.codegen.programs import Native
from tests.graph.programs import Program, programs

Arrays = list[np.ndarray]


def seen(outputs: Arrays, inputs: Arrays) -> list[object]:
    """What a caller sees: values and layouts of the outputs, the inputs afterwards."""
    return [(x.dtype, x.shape, x.strides if x.size else None, x.tobytes("C")) for x in (*outputs, *inputs)]


def recorded(program: Program) -> tuple[Graph, list[object]]:
    """The graph of some of the program's arrays, and what its interpreter makes of the arguments."""
    results = program.rng.sample(program.pairs, min(len(program.pairs), 6))
    graph = program.finish(results).graph
    inputs = copies(program)
    return graph, seen(list(interpret(graph, inputs)), inputs)


def copies(program: Program) -> Arrays:
    return [x.copy(order="K") for x in program.arguments]


@pytest.mark.parametrize("fusion", [True, False], ids=["fused", "unfused"])
@given(programs())
def test_loop_programs_agree(fusion: bool, program: Program) -> None:
    graph, expected = recorded(program)
    optimised = default_pipeline().run(graph)
    loops = fuse(optimised, fusion=fusion).program
    verify(loops)
    inputs = copies(program)
    assert seen(list(evaluate(loops, inputs, optimised.constants)), inputs) == expected


def test_a_fresh_array_assigned_its_own_reverse_in_place() -> None:
    """The value is not made where the update is going to lie: it is read while that is written."""
    graph = parse("""\
graph f {
  %0 = input x: int32[5] strides (1,)
  %1 = negative(%0) : int32[5]
  %2 = slice_update(%1, %1) {sizes=(5,), starts=(4,), steps=(-1,)} : int32[5]
  return %2 order (0,)
}""")
    for fusion in (True, False):
        program = fuse(graph, fusion=fusion).program
        x = np.arange(5, dtype=np.int32)
        for outputs in (evaluate(program, [x]), Native(program)(x)):
            assert outputs[0].tolist() == [-4, -3, -2, -1, 0]


@settings(max_examples=40)
@given(programs())
def test_native_code_agrees(program: Program) -> None:
    graph, expected = recorded(program)
    optimised = default_pipeline().run(graph)
    native = Native(fuse(optimised).program, constants=optimised.constants)
    inputs = copies(program)
    assert seen(native(*inputs), inputs) == expected
