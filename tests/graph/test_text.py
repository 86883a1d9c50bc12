"""Printer and parser: inverse of each other, deterministic, and exact about bits."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broadloom import dtypes
from broadloom.errors import Location, ParseError, VerifyError
from broadloom.graph.builder import GraphBuilder
from broadloom.graph.ir import Constant, Graph, Node, Output, TensorType
from broadloom.graph.parse import ValueParser, parse
from broadloom.graph.text import format_graph, format_value
from broadloom.graph.verify import verify
from broadloom.symbolic import Symbol
from tests.graph.graphs import graphs

EXAMPLE = """\
graph f (s0: [0, inf], k: [1, 64]) {
  assume k <= s0
  %0 = input x: float32[s0, 3] strides (3, 1)
  %1 = input "L['y'] # \\"quoted\\"": float32[3, k] strides (1, 3) order (1, 0) unaligned
  %2 = scalar alpha: float64[]
  %3 = size k: int64[] = k
  %4 = constant float32[2] 1.5, nan:0x7fc00001
  %5 = constant complex64[] (-0.0, inf)
  %6 = add(%0, %0) : float32[s0, 3]
  %7 = sum(%6) {axes=(-1,), keepdims=False} : float32[s0]
  %8, %9 = lu_factor(%10) {check_singular=False} : float64[2, 2], int32[2]
  return %7 order (0,), %6 order (1, 0)
  write x = %6
}"""


def test_the_documented_form_parses_and_prints_back() -> None:
    text = EXAMPLE.replace("lu_factor(%10)", "lu_factor(%2)")
    assert str(parse(text)) == text


@given(graphs(), st.booleans())
def test_random_graphs_round_trip(graph: Graph, symbolic: bool) -> None:
    verify(graph)
    again = parse(str(graph), constants=graph.constants)
    assert again == graph and str(again) == str(graph)
    verify(again)


@given(graphs(symbolic=True))
def test_random_symbolic_graphs_round_trip(graph: Graph) -> None:
    verify(graph)
    assert parse(str(graph), constants=graph.constants) == graph


SIZES = st.sampled_from([0, 3, -2, Symbol("n"), 2 * Symbol("n") + 1, (Symbol("n") + 3) // 4])
ATOMS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(), st.sampled_from(dtypes.ALL), SIZES
)
VALUES = st.recursive(ATOMS, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=8)


@given(VALUES)
def test_attribute_values_round_trip_to_type_and_bits(value: Any) -> None:
    text = format_value(value)
    back = ValueParser({"n": Symbol("n")}).value(text)
    assert format_value(back) == text and type(back) is type(value)
    if isinstance(value, float) and value == value:
        assert struct.pack("d", back) == struct.pack("d", value)


def test_values_that_compare_equal_print_differently() -> None:
    values = (1, 1.0, True, 0.0, -0.0, 0, False, "1", None, "None", (1,), ((1,),))
    assert len({format_value(v) for v in values}) == len(values)


@pytest.mark.parametrize("value", [np.int64(1), [1], 1j, {"a": 1}, object()])
def test_values_of_other_types_are_refused(value: Any) -> None:
    with pytest.raises(VerifyError, match="does not admit"):
        format_value(value)


@given(st.sampled_from(dtypes.ALL), st.binary(min_size=48, max_size=48))
def test_constants_round_trip_bit_by_bit(dtype: dtypes.DType, data: bytes) -> None:
    if dtype is dtypes.bool_:
        data = bytes(b & 1 for b in data)
    shape = (48 // dtype.itemsize,)
    literal = Constant(dtype, shape, data)
    graph = Graph("f", (), (), (Node(literal, (), (), (TensorType(dtype, shape),)),), ())
    assert parse(str(graph)).nodes[0].op == literal


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16])
def test_every_16_bit_float_round_trips(dtype: dtypes.DType) -> None:
    data = np.arange(1 << 16, dtype=np.uint16).tobytes()
    literal = Constant(dtype, (1 << 16,), data)
    graph = Graph("f", (), (), (Node(literal, (), (), (TensorType(dtype, (1 << 16,)),)),), ())
    assert parse(str(graph)).nodes[0].op == literal


def test_graphs_that_differ_in_the_type_of_an_attribute_are_not_equal() -> None:
    def graph(ddof: float) -> Graph:
        b = GraphBuilder("f")
        x = b.input("x", TensorType(dtypes.float64, (3,)))
        return b.finish([Output(b.call("var", x, axes=(-1,), keepdims=False, ddof=ddof), ())])

    assert graph(1) == graph(1) and hash(graph(1)) == hash(graph(1))
    assert graph(1) != graph(1.0)


def test_locations_are_comments_on_demand() -> None:
    b = GraphBuilder("f")
    x = b.input("x", TensorType(dtypes.float64, (3,)))
    b.location = Location("a # model.py", 12, "step")
    graph = b.finish([Output(b.call("negative", x), (0,))])
    assert "model.py" not in str(graph)
    text = format_graph(graph, locations=True)
    assert "  # a # model.py:12 in step" in text
    assert parse(text) == graph


def test_large_constants_stand_beside_the_graph_and_share_equal_bytes() -> None:
    b = GraphBuilder("f")
    data = np.arange(100)
    first, second = b.constant(data), b.constant(data.view(np.float64).reshape(10, 10))
    graph = b.finish([Output(first, (0,)), Output(second, (0, 1))])
    assert len(graph.constants) == 1 and "sha256:" in str(graph)
    verify(graph)
    with pytest.raises(VerifyError, match="constant table"):
        verify(parse(str(graph)))
    verify(parse(str(graph), constants=graph.constants))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("graph f", "grph f", "expected 'graph'"),
        ("%6 = add", "%7 = add", "numbered in order"),
        ("add(", "ad(", "no op named 'ad'"),
        ("float32[s0]", "float33[s0]", "unknown dtype"),
        ("float32[s0]", "float32[s1]", "cannot read the size"),
        ("(-1,), keepdims", "(-1,), keepdims==", "line 10"),
        ("write x", "write z", "no input named"),
        ("\n}", "", "expected '}'"),
        ("order (1, 0)\n", "order (1, 0) junk\n", "unexpected text"),
        ("float32[2] 1.5", "float32[2] 1,5", "2 elements"),
        ("strides (3, 1)", "", "expected 'strides'"),
        ("  return", "  retrun", "expected '%'"),
    ],
)
def test_malformed_text_is_refused_with_its_line(old: str, new: str, message: str) -> None:
    text = EXAMPLE.replace("lu_factor(%10)", "lu_factor(%2)")
    assert old in text
    with pytest.raises(ParseError, match=message):
        parse(text.replace(old, new))
