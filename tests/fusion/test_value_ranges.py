"""Bounds of integers in bodies: sound for every op, and what they save."""

from __future__ import annotations

import numpy as np
import pytest

from broadloom.dtypes import INTEGERS, int8, int64, uint8
from broadloom.fusion.handlers import instructions_of, may_raise
from broadloom.fusion.ir import Indirect
from broadloom.fusion.value_ranges import RULES, ValueRanges, dtype_bounds
from broadloom.graph.builder import GraphBuilder
from broadloom.graph.ir import Output, TensorType
from broadloom.ops.table import OPS
from tests.fusion.graphs import scheduled


@pytest.mark.parametrize("dtype", [int8, uint8, int64])
@pytest.mark.parametrize("op", [o for o in RULES if o not in ("where", "cast")])
def test_bounds_hold_every_result(op, dtype, rng):
    low, high = dtype_bounds(dtype)
    arity = OPS[op].arity
    for _ in range(30):
        ends = np.sort(rng.integers(low, high, (arity, 2), endpoint=True, dtype=dtype.numpy), axis=1)
        bounds = ValueRanges().compute(op, tuple((int(a), int(b)) for a, b in ends), dtype)
        drawn = [rng.integers(a, b, 50, endpoint=True, dtype=dtype.numpy) for a, b in ends]
        values = [np.concatenate([d, np.array([a, b], dtype.numpy)]) for d, (a, b) in zip(drawn, ends, strict=True)]
        values = [np.repeat(v, 3) if k else np.tile(v, 3) for k, v in enumerate(values)]
        result = OPS[op].reference(*values)
        assert bounds[0] <= int(result.min()) and int(result.max()) <= bounds[1]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_a_cast_that_may_wrap_gives_the_whole_dtype(dtype):
    low, high = dtype_bounds(dtype)
    assert ValueRanges().compute("cast", ((low, high + 1),), dtype) == (low, high)
    assert ValueRanges().compute("cast", ((3, 5),), dtype) == (3, 5)


def checks(make, *types):
    builder = GraphBuilder("test")
    inputs = [builder.input(f"x{k}", t) for k, t in enumerate(types)]
    value = make(builder, *inputs)
    graph = builder.finish([Output(value, tuple(range(builder.type_of(value).ndim)))])
    (kernel,) = scheduled(graph).program.steps
    found = [i for s in kernel.stages for i in instructions_of(s.body) if isinstance(i, Indirect)]
    return found, any(may_raise(s.body) for s in kernel.stages)


def test_table_of_256_entries_needs_no_check_for_bytes():
    table, image = TensorType(int64, (256,)), TensorType(uint8, (40, 30))
    found, raises = checks(lambda b, t, i: b.call("take", t, i, axis=-1, index_rank=2), table, image)
    assert [i.site for i in found] == [-1] and not raises
    short = TensorType(int64, (255,))
    found, raises = checks(lambda b, t, i: b.call("take", t, i, axis=-1, index_rank=2), short, image)
    assert [i.site for i in found] == [0] and raises


def test_clipped_and_counted_indices_need_no_check():
    def clipped(b, t, i):
        return b.call(
            "take", t, b.call("clip", i, b.constant(np.int64(0)), b.constant(np.int64(9))), axis=-1, index_rank=1
        )

    found, raises = checks(clipped, TensorType(int64, (10,)), TensorType(int64, (7,)))
    assert [i.site for i in found] == [-1] and not raises

    def counted(b, t):
        return b.call("take", t, b.call("iota", size=10, dtype=int64), axis=-1, index_rank=1)

    found, _ = checks(counted, TensorType(int64, (10,)))
    assert [i.site for i in found] == [-1]
