"""Every rule of the verifier refuses the graph that breaks it, by name."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from broadloom import dtypes
from broadloom.errors import VerifyError
from broadloom.graph.ir import Constant, Graph, Output, TensorType, ValueId, Write
from broadloom.graph.parse import parse
from broadloom.graph.verify import verify
from broadloom.symbolic import Symbol

TEXT = """\
graph f (n: [0, inf]) {
  %0 = input x: float32[n, 3] strides (3, 1)
  %1 = size k: int64[] = n
  %2 = constant float32[] 2.0
  %3 = multiply(%0, %2) : float32[n, 3]
  %4 = sum(%3) {axes=(-1,), keepdims=False} : float32[n]
  return %4 order (0,), %3 order (1, 0)
  write x = %3
}"""


def edited(old: str, new: str) -> Graph:
    assert old in TEXT
    return parse(TEXT.replace(old, new))


def test_the_whole_graph_is_good() -> None:
    verify(parse(TEXT))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("multiply(%0, %2)", "multiply(%0, %3)", r"%3 = multiply: a value is used after its definition"),
        ("multiply(%0, %2)", "multiply(%0)", r"%3 = multiply: the op takes 2 operands; got 1"),
        ("multiply(%0, %2)", "multiply(%0, %1)", r"%3 = multiply: the op refuses its operands"),
        ("keepdims=False", "keepdims=0", r"%4 = sum: the op refuses"),
        ("{axes=(-1,), keepdims=False}", "{keepdims=False, axes=(-1,)}", "sorted by name"),
        ("{axes=(-1,), keepdims=False}", "{axes=(-1,)}", "the op refuses"),
        (": float32[n]", ": float32[3]", r"%4 = sum: the types are those that the op infers, float32\[n\]"),
        (": float32[n]", ": float64[n]", "the types are those"),
        ("strides (3, 1)", "strides (3,)", "one stride an axis"),
        ("strides (3, 1)", "strides (3, 1) order (0, 0)", "permutation of 2 axes"),
        ("%3 order (1, 0)", "%3 order (1,)", "output 1: the order is a permutation"),
        ("%3 order (1, 0)", "%9 order (1, 0)", "output 1: the value is defined"),
        ("write x = %3", "write x = %4", "the value has the type of the input"),
        ("write x = %3", "write k = %1", "only array inputs are written"),
        ("write x = %3", "write x = %3\n  write x = %3", "at most one write"),
        ("size k: int64[]", "size x: int64[]", "input names are distinct"),
        ("size k: int64[]", "size k: int32[]", "a size is int64"),
        ("(n: [0, inf])", "(n: [0, inf], m: [0, inf])", "symbol m: a symbol stands alone in some input"),
    ],
)
def test_rules_of_text_graphs(old: str, new: str, message: str) -> None:
    with pytest.raises(VerifyError, match=message):
        verify(edited(old, new))


def changed(**fields: Any) -> Graph:
    return dataclasses.replace(parse(TEXT), **fields)


def with_input(**fields: Any) -> Graph:
    graph = parse(TEXT)
    return dataclasses.replace(graph, inputs=(dataclasses.replace(graph.inputs[0], **fields), *graph.inputs[1:]))


def with_constant(literal: Constant, table: dict[str, np.ndarray]) -> Graph:
    graph = parse(TEXT)
    node = dataclasses.replace(graph.nodes[0], op=literal, types=(TensorType(literal.dtype, literal.shape),))
    return dataclasses.replace(graph, nodes=(node, *graph.nodes[1:]), constants=table)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (changed(symbols=()), "every symbol is declared"),
        (changed(symbols=(Symbol("n"), Symbol("n", 1))), "distinct identifiers"),
        (changed(symbols=(Symbol("float32"),)), "none a word of the text"),
        (changed(symbols=(Symbol("m", 0, Symbol("n")), Symbol("n"))), "earlier symbols only"),
        (changed(writes=(Write(7, ValueId(3)),)), "only array inputs"),
        (changed(outputs=(Output(ValueId(-1), ()),)), "the value is defined"),
        (with_input(kind="scalar"), "scalars and sizes have no axes"),
        (with_input(size=Symbol("n")), "exactly the size inputs"),
        (with_constant(Constant(dtypes.float32, (), b"\0" * 8), {}), "has 4 bytes"),
        (with_constant(Constant(dtypes.float32, (99,), b"\0" * 396), {}), "more in the table"),
        (with_constant(Constant(dtypes.float32, (), None, "0" * 64), {}), "up to 64 bytes stand in the constant"),
        (with_constant(Constant(dtypes.float32, (99,), None, "0" * 64), {}), "lacks an array"),
        (
            with_constant(Constant(dtypes.float32, (99,), None, "0" * 64), {"0" * 64: np.zeros(3)}),
            "size of the constant",
        ),
    ],
)
def test_rules_that_text_cannot_break(graph: Graph, message: str) -> None:
    with pytest.raises(VerifyError, match=message):
        verify(graph)


def test_facts_speak_of_declared_symbols_and_settle_types() -> None:
    text = """\
graph f (n: [0, inf], m: [0, inf]) {
  assume n == m
  %0 = input x: float32[n] strides (1,)
  %1 = input y: float32[m] strides (1,)
  %2 = add(%0, %1) : float32[n]
  return %2 order (0,)
}"""
    verify(parse(text))
    with pytest.raises(VerifyError, match="cannot be proven"):
        verify(parse(text.replace("  assume n == m\n", "")))
