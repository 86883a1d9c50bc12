"""Products of short integers by instructions that multiply groups: which a target takes, and that it makes them."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from llvmlite import binding

from broadloom.codegen.abi import features_of
from broadloom.codegen.driver import module_text
from broadloom.codegen.outline import vector_bits
from broadloom.dtypes import bfloat16, float32, int8, int16, int32, uint8, uint16
from broadloom.fusion.dots import dots_of, grouping
from broadloom.runtime.target import Target, assembly, host

from . import programs
from .programs import FEATURES, Native
from .test_matmul import program

INTEGERS = {np.int8: int8, np.uint8: uint8, np.int16: int16, np.uint16: uint16}
DOTS = re.compile(r"\b(vpdpbusd|vpdpwssd|vpmaddwd|pmaddwd|sdot|udot|usdot)\b")
X86 = "x86_64-unknown-linux-gnu"
ARM = "aarch64-unknown-linux-gnu"
MACHINES = {
    "vnni, wide": (X86, "+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512vnni,+avx2,+fma", 512, "vpdpbusd"),
    "vnni, halves": (X86, "+avx512f,+avx512bw,+avx512vl,+avx512vnni,+avx2,+fma,+prefer-256-bit", 256, "vpdpbusd"),
    "vnni without masks": (X86, "+avx2,+avx,+fma,+avxvnni", 256, "vpdpbusd"),
    "avx512 alone": (X86, "+avx512f,+avx512bw,+avx512vl,+avx2,+fma", 512, "vpmaddwd"),
    "avx2 alone": (X86, "+avx2,+avx,+fma", 256, "vpmaddwd"),
    "the oldest": (X86, "+sse2", 128, "pmaddwd"),
    "arm with dots": (ARM, "+neon,+dotprod", 128, "sdot"),
    "arm without": (ARM, "+neon", 128, ""),
}


def whole(x, y):
    return x.astype(np.int32) @ y.astype(np.int32)


def draw(rng, shape, dtype):
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


@pytest.fixture(scope="module")
def targets():
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_a_machine_takes_the_instruction_that_it_has(name, targets):
    triple, features, bits, wanted = MACHINES[name]
    assert vector_bits(features_of(features)) == bits
    x = np.ones((64, 96), np.int8)
    for dynamic in (False, True):
        text = module_text(program(whole, x, x.T, dynamic=dynamic), Target(triple, "", features, bits > 128, bits))
        found = set(DOTS.findall(assembly(text, Target(triple, "", features, bits > 128, bits))))
        assert found == ({wanted} if wanted else set())


@pytest.mark.parametrize(
    "left, right, wanted", [(uint8, uint8, "udot"), (int8, uint8, "sdot"), (uint8, int8, "udot"), (int16, int16, None)]
)
def test_signs_on_arm(left, right, wanted):
    plain, mixed = (dots_of(frozenset(("neon", "dotprod", *more)), 128) for more in ((), ("i8mm",)))
    found = grouping(plain, left, right, int32)
    assert (None if found is None else found.dot.name) == wanted
    if left is not right:
        assert grouping(mixed, left, right, int32).dot.name == "usdot"


def test_this_machine_reads_its_own_features():
    """One instruction for each dtype of operands, or none, as the facts of the target say."""
    dots = dots_of(features_of(host().features), host().vector_bits)
    for x, left in INTEGERS.items():
        for y, right in INTEGERS.items():
            text = module_text(program(whole, np.ones((64, 96), x), np.ones((96, 64), y)), host())
            found = grouping(dots, left, right, int32)
            wanted = set() if found is None else {found.dot.name}
            assert set(DOTS.findall(assembly(text))) == wanted


PAIRS = [((33, 70), (70, 39)), ((100, 1101), (1101, 90)), ((9, 3), (3, 1100)), ((64, 64), (64, 64)), ((40, 0), (0, 30))]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("features", sorted(FEATURES))
def test_sums_wrap_around_on_every_machine(features, dynamic, rng, monkeypatch):
    target = replace(host(), features=FEATURES[features])
    monkeypatch.setattr(programs, "host", lambda: target)
    for left, right in PAIRS:
        for x_dtype, y_dtype in [(np.int8, np.int8), (np.uint8, np.int8), (np.int8, np.uint8), (np.uint8, np.uint8)]:
            x, y = draw(rng, left, x_dtype), draw(rng, right, y_dtype)
            p = program(whole, x, y, dynamic=dynamic)
            assert [s.routine for s in p.steps if hasattr(s, "routine")] in (["matmul"], [])
            np.testing.assert_array_equal(Native(p)(x, y)[0], whole(x, y))
    x, y = draw(rng, (70, 330), np.int16), draw(rng, (330, 50), np.uint16)
    np.testing.assert_array_equal(Native(program(whole, x, y, dynamic=dynamic))(x, y)[0], whole(x, y))


@pytest.mark.parametrize("dynamic", [False, True])
def test_pairs_of_bfloat16(dynamic):
    """Where the machine has the instruction, there is code with and without it; nowhere else, nor for few elements."""
    dots = dots_of(features_of(host().features), host().vector_bits)
    wanted = grouping(dots, bfloat16, bfloat16, float32) is not None
    x = np.ones((128, 128), bfloat16.numpy)
    text = module_text(program(lambda x, y: x @ y, x, x + x, dynamic=dynamic), host())
    wide = any(t.rpartition(".")[2].endswith("w") for t in re.findall(r"@(bl_tile\.[^(]+)\(", text))
    assert ("vdpbf16ps" in assembly(text)) == wanted == wide
    x = np.ones((64, 64), bfloat16.numpy)
    code = assembly(module_text(program(lambda x, y: x @ y, x, x + x, dynamic=dynamic), host()))
    assert ("vdpbf16ps" in code) == (wanted and dynamic)


@pytest.mark.parametrize("features", sorted(FEATURES))
def test_bfloat16_on_every_machine(features, rng, monkeypatch):
    target = replace(host(), features=FEATURES[features])
    monkeypatch.setattr(programs, "host", lambda: target)
    x, y = (rng.integers(-8, 9, s).astype(bfloat16.numpy) for s in ((100, 111), (111, 120)))
    p = program(lambda x, y: x.astype(np.float32) @ y.astype(np.float32), x, y)
    np.testing.assert_array_equal(Native(p)(x, y)[0], x.astype(np.float32) @ y.astype(np.float32))


def test_the_text_of_a_product_of_bytes_is_short():
    """One tile, and no code for edges that are not there."""
    x = np.ones((512, 512), np.int8)
    text = module_text(program(whole, x, x + 1), host())
    assert text.count("\n") < 900 and len(set(re.findall(r"@(bl_tile\.[^(]+)\(", text))) == 1
