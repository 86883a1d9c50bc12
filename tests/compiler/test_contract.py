"""The option `contract`: fused multiply-adds with it, NumPy's bits without."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import broadloom as bl
from broadloom.codegen.driver import module_text
from broadloom.codegen.emit import emit
from broadloom.compiler.api import make_graph, toolchain
from broadloom.compiler.build import fuse
from broadloom.dtypes import float64
from broadloom.graph.builder import GraphBuilder
from broadloom.graph.ir import Output, TensorType
from broadloom.runtime.target import assembly, host

needs_fma = pytest.mark.skipif(not host().has_fma, reason="the machine has no fused multiply-add")


FORMULAS = [lambda x, y, z: x * y + z, lambda x, y, z: z - x * y, lambda x, y, z: x * y - z]
EACH = pytest.mark.parametrize("formula", FORMULAS, ids=["sum", "from", "difference"])


def operands(dtype, rng):
    """Numbers whose sums cancel, so that the product's own rounding shows."""
    x, y = (rng.normal(size=500).astype(dtype) for _ in "xy")
    return x, y, x * y * rng.choice([1, -1], 500).astype(dtype)


@EACH
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_without_the_option_the_bits_are_numpy_s(formula, dtype, rng):
    args = operands(dtype, rng)
    assert bl.compile(formula)(*args).tobytes() == formula(*args).tobytes()


@needs_fma
@EACH
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_with_the_option_there_is_one_rounding(formula, dtype, rng):
    x, y, z = operands(dtype, rng)
    fused = bl.compile(formula, options={"contract": True})(x, y, z)
    fractions = ([Fraction(float(v)) for v in a] for a in (x, y, z))
    exact = [formula(*f) for f in zip(*fractions, strict=True)]
    assert fused.tobytes() != formula(x, y, z).tobytes()
    assert fused.tolist() == [float(dtype(float(v))) for v in exact]


@needs_fma
@EACH
@pytest.mark.parametrize("contract", [False, True])
def test_the_code_has_the_instruction_only_where_it_was_asked_for(formula, contract, rng):
    tools = toolchain(options={"contract": contract})
    graph = tools.passes(host()).run(make_graph(formula)(*operands(np.float32, rng)))
    text = assembly(module_text(fuse(graph).program, host(), graph.constants, emit=emit))
    assert bool(re.search(r"\bv?fn?m(add|sub|la|ls)", text)) == contract


def test_a_machine_without_the_instruction_keeps_products_and_sums(rng):
    tools = toolchain(options={"contract": True})
    plain = replace(host(), has_fma=False)
    graph = tools.passes(plain).run(make_graph(FORMULAS[0])(*operands(np.float32, rng)))
    assert not any(str(n.op) == "fma" for n in graph.nodes)


def test_the_op_itself_needs_no_instruction():
    """Where it stands in a graph and the machine cannot, the C library computes it."""
    b = GraphBuilder("g")
    ids = [b.input(name, TensorType(float64, (4,))) for name in "xyz"]
    graph = b.finish([Output(b.call("fma", *ids), (0,))])
    text = module_text(fuse(graph).program, replace(host(), features="", has_fma=False), {}, emit=emit)
    assert "llvm.fma" in text


def test_the_cache_tells_them_apart(rng):
    graph = make_graph(FORMULAS[0])(*operands(np.float32, rng))
    keys = {toolchain(options={"contract": c}).cache_key(graph, host()) for c in (False, True)}
    assert len(keys) == 2
