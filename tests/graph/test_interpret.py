"""The interpreter: sizes are bound and checked, writes come last, orders are kept, errors leave inputs alone."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broadloom.errors import DTypeError, ShapeError, VerifyError
from broadloom.graph.interpret import interpret, ordered_copy
from broadloom.graph.parse import parse
from tests.graph.graphs import arguments, graphs

SWAP = """\
graph swap (n: [0, inf]) {
  %0 = input x: float64[n] strides (1,)
  %1 = input y: float64[n] strides (1,)
  return
  write x = %1
  write y = %0
}"""


def test_writes_are_made_together() -> None:
    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    interpret(parse(SWAP), [x, y])
    assert (x.tolist(), y.tolist()) == ([3, 4], [1, 2])


def test_an_error_leaves_the_inputs_alone() -> None:
    graph = parse("""\
graph f {
  %0 = input x: int64[3] strides (1,)
  %1 = input i: int64[] strides ()
  %2 = negative(%0) : int64[3]
  %3 = take(%0, %1) {axis=-1, index_rank=0} : int64[]
  return %3 order ()
  write x = %2
}""")
    x = np.arange(3)
    with pytest.raises(IndexError, match="axis 0 with size 3"):
        interpret(graph, [x, np.array(3)])
    assert x.tolist() == [0, 1, 2]
    assert interpret(graph, [x, np.array(-1)])[0] == 2


def test_outputs_are_fresh_also_where_they_are_an_input() -> None:
    graph = parse("graph f {\n  %0 = input x: int64[2, 3] strides (3, 1)\n  return %0 order (1, 0), %0 order (0, 1)\n}")
    x = np.arange(6).reshape(2, 3)
    first, second = interpret(graph, [x])
    assert first.strides == (8, 16) and second.strides == (24, 8)
    assert not any(np.shares_memory(a, b) for a, b in ((first, x), (second, x), (first, second)))


def test_sizes_strides_and_scalars_are_bound() -> None:
    graph = parse("""\
graph f (n: [0, inf], s: [0, inf], k: [0, inf]) {
  %0 = input x: float64[n, 2*n] strides (s, 1)
  %1 = scalar alpha: float64[]
  %2 = size k: int64[] = k
  %3 = from_size() {size=n + s + k} : int64[]
  %4 = multiply(%0, %1) : float64[n, 2*n]
  return %3 order (), %4 order (0, 1)
}""")
    x = np.ones((3, 8))[:, :6]
    total, scaled = interpret(graph, [x, 2.5, 100])
    assert total == 3 + 8 + 100 and (scaled == 2.5).all()
    with pytest.raises(ShapeError, match=r"input x: size; got 7; allowed: 2\*n = 6"):
        interpret(graph, [np.ones((3, 7)), 2.5, 100])
    with pytest.raises(ShapeError, match="axes"):
        interpret(graph, [np.ones(3), 2.5, 100])
    with pytest.raises(DTypeError, match="input x"):
        interpret(graph, [np.ones((3, 6), np.float32), 2.5, 100])
    with pytest.raises(ShapeError, match="number of arguments"):
        interpret(graph, [x])


def test_a_reference_that_breaks_its_promise_is_named() -> None:
    graph = parse("graph f {\n  %0 = input x: int64[2] strides (1,)\n  %1 = negative(%0) : int64[2]\n  return\n}")
    node = graph.nodes[0]
    broken = dataclasses.replace(node, op=dataclasses.replace(node.op, reference=lambda x: x.astype(np.int32)))
    with pytest.raises(VerifyError, match="%1 = negative: the reference does not return"):
        interpret(dataclasses.replace(graph, nodes=(broken,)), [np.arange(2)])


@given(st.permutations(range(3)))
def test_ordered_copies_have_the_order(order: list[int]) -> None:
    x = np.arange(24).reshape(2, 3, 4)
    copy = ordered_copy(x, tuple(order))
    assert np.array_equal(copy, x) and copy.transpose(order).flags.c_contiguous


@given(graphs(), st.integers(0, 2**32))
def test_references_return_what_is_inferred(graph: object, seed: int) -> None:
    try:
        interpret(graph, arguments(graph, np.random.default_rng(seed)))  # type: ignore[arg-type]
    except ValueError as error:
        assert "negative integer powers" in str(error)
