"""Math functions with bodies of their own: the same bits, called by vectors, and compiled once."""

import re

import numpy as np
import pytest

from broadloom import dtypes as d
from broadloom.codegen.outline import LIMIT, outline, vector_bits
from broadloom.codegen.vmath import FUNCTIONS
from broadloom.runtime.target import assembly, host
from tests.codegen.loops import Case, compile_loops, host_features, module_text

BINARY = ("atan2", "pow", "hypot", "fmod", "logaddexp", "logaddexp2")
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-310, -1e-40, 1e300, 0.5, -2.5, 710.0, 1e16, 3.0, -7.0]


def cases(name, dtype, count):
    return [Case(name, (dtype,) * (2 if name in BINARY else 1), dtype)] * count


@pytest.mark.parametrize("dtype", [d.float32, d.float64], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_bits_are_those_of_the_inlined_function(name, dtype, rng):
    one = compile_loops(cases(name, dtype, 1))[0]
    many = compile_loops(cases(name, dtype, LIMIT + 1), finish=outline)
    with np.errstate(over="ignore"):
        values = np.concatenate([SPECIAL, rng.normal(0, 3, 500), rng.normal(0, 1e3, 35)]).astype(dtype.numpy)
    operands = [values, rng.permutation(values)][: 2 if name in BINARY else 1]
    expected = one(*operands)
    for form in many:
        assert form(*operands).tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", [d.float32, d.float64], ids=str)
@pytest.mark.parametrize("name", ["sin", "exp", "pow"])
def test_loops_call_the_vector_form(name, dtype):
    count = LIMIT + 1
    text = assembly(module_text(cases(name, dtype, count), finish=outline), level=1)
    lanes = vector_bits(host_features()) // dtype.bits
    calls = re.findall(rf"(?:call|bl)\w*\s+\S*bl\.{name}\.v{lanes}f{dtype.bits}\b", text)
    assert len(calls) >= count


def test_few_call_sites_stay_inline():
    for name, dtype, count in (("exp", d.float64, LIMIT), ("sin", d.float32, LIMIT), ("sin", d.float64, 1)):
        text = module_text(cases(name, dtype, count), finish=outline)
        assert "vector-function-abi-variant" not in text and "alwaysinline" in text


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "pow"])
def test_a_long_function_is_compiled_once(name):
    text = module_text(cases(name, d.float64, 2), finish=outline)
    assert text.count("alwaysinline") == 0 and text.count("vector-function-abi-variant") == 1


def test_a_loop_with_wider_elements_beside_has_a_form():
    mixed = [Case("cast", (d.float64,), d.float32), *cases("exp", d.float32, LIMIT + 1)]
    lanes = vector_bits(host_features()) // 64
    assert f"@bl.exp.v{lanes}f32(" in module_text(mixed, finish=outline)


def test_the_width_is_that_of_the_target():
    assert vector_bits(frozenset({"avx2"})) == 256 and vector_bits(frozenset()) == 128
    assert vector_bits(frozenset({"avx2", "avx512f"})) == 512
    assert vector_bits(frozenset({"avx2", "avx512f", "prefer-256-bit"})) == 256
    assert vector_bits(host_features()) == host().vector_bits
