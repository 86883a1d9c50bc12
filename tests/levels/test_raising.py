"""Ops that raise do so at every level, with NumPy's class of error."""

from __future__ import annotations

import numpy as np
import pytest

from broadloom.compiler.build import fuse
from broadloom.fusion.evaluate import Failure, evaluate
from broadloom.graph.interpret import interpret
from broadloom.graph.parse import parse
from broadloom.passes.table import default_pipeline
from broadloom.runtime.context import exception
from tests.codegen.programs import Failed, Native

POWER = """\
graph f {
  %0 = input x: int32[2, 3] strides (3, 1)
  %1 = input y: int32[3] strides (1,)
  %2 = pow(%0, %1) : int32[2, 3]
  return %2 order (0, 1)
}"""


@pytest.mark.parametrize("exponent", [[1, 2, 3], [0, 31, -1], [-(2**31), 0, 0]])
def test_integers_to_negative_powers(exponent: list[int]) -> None:
    graph = parse(POWER)
    inputs = [np.arange(1, 7, dtype=np.int32).reshape(2, 3), np.array(exponent, np.int32)]
    program = fuse(default_pipeline().run(graph)).program
    native = Native(program)
    if min(exponent) >= 0:
        expected = inputs[0] ** inputs[1]
        for got in (interpret(graph, inputs), evaluate(program, inputs), native(*inputs)):
            assert np.array_equal(got[0], expected)
        return
    with pytest.raises(ValueError, match="negative integer powers"):
        interpret(graph, inputs)
    with pytest.raises(Failure):
        evaluate(program, inputs)
    with pytest.raises(Failed) as failed:
        native(*inputs)
    error = exception(program.sites, failed.value.code, failed.value.site, failed.value.payload)
    assert type(error) is ValueError and "Integers to negative integer powers" in str(error)


def test_a_constant_exponent_needs_no_check() -> None:
    text = POWER.replace("%1 = input y: int32[3] strides (1,)", "%1 = constant int32[] 3")
    assert fuse(parse(text)).program.sites == ()
    assert len(fuse(parse(text.replace("constant int32[] 3", "constant int32[] -3"))).program.sites) == 1
