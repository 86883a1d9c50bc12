"""What is worth several threads: estimates that order kernels as their times do."""

from __future__ import annotations

import pytest

from broadloom.dtypes import DType, float32, float64, int64
from broadloom.fusion.cost import PARALLEL_COST, body_cost
from broadloom.fusion.handlers import Recording
from broadloom.fusion.ir import Body
from broadloom.symbolic import Symbol


def loop(op: str, dtype: DType) -> Body:
    """A body that loads, computes once and stores."""
    i, recording = Symbol("i0"), Recording()
    recording.store("out0", i, recording.compute(op, (recording.load("in0", i, dtype),), dtype))
    return recording.body()


@pytest.mark.parametrize(
    ("op", "dtype", "points"),
    [("add", float32, 50_000), ("exp", float32, 20_000), ("sin", float64, 3_000), ("remainder", int64, 8_000)],
)
def test_a_few_microseconds_are_not_shared(op: str, dtype: DType, points: int) -> None:
    cost = body_cost(loop(op, dtype))
    assert cost * points < PARALLEL_COST < cost * points * 8


def test_wider_and_dearer_costs_more() -> None:
    costs = [body_cost(loop(op, float32)) for op in ("add", "divide", "exp", "erf", "sin", "fmod")]
    assert costs == sorted(costs)
    assert body_cost(loop("sin", float64)) > body_cost(loop("sin", float32))
    assert body_cost(loop("remainder", int64)) < body_cost(loop("remainder", float64))
