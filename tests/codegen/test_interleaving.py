"""Which loops are told to keep two vectors under way, and that the vectoriser does so."""

from __future__ import annotations

import pytest

from broadloom.codegen.driver import module_text
from broadloom.dtypes import float32, float64
from broadloom.runtime.target import assembly, host
from broadloom.symbolic import Symbol
from tests.fusion.graphs import graph_of, scheduled


def text_of(op, dtype):
    n = Symbol("s0")
    operands = ((n, 9), (8 * n,)) if op == "pow" else ((n, 9),)

    def make(b, *x):
        part = b.call("slice", x[0], starts=(0, 1), sizes=(n, 8), steps=(1, 1))
        return b.call(op, b.call("reshape", part, core=2, shape=(8 * n,)), *x[1:])  # is left to the vectoriser

    graph = graph_of(make, *operands, dtype=dtype)
    return module_text(scheduled(graph).program, host())


@pytest.mark.parametrize(
    ("op", "dtype", "hinted"), [("pow", float32, True), ("pow", float64, False), ("exp", float32, False)]
)
def test_float_powers_alone_are_interleaved(op, dtype, hinted):
    assert ("llvm.loop.interleave.count" in text_of(op, dtype)) == hinted


def test_interleaved_powers_divide_two_vectors_an_iteration():
    text = text_of("pow", float32)
    plain = text.replace('!"llvm.loop.interleave.count", i32 2', '!"llvm.loop.interleave.count", i32 1')
    assert plain != text
    packed = "vdivpd" if "vdivpd" in assembly(text) else "divpd"
    assert assembly(text).count(packed) >= assembly(plain).count(packed) + 1
