"""Ops of long code: a module that has one often calls it, so that its text grows by no more than a few lines an op."""

import re

import pytest

from broadloom import dtypes as d
from broadloom.codegen.emit import emit, has_cell
from broadloom.codegen.llvm import Param, const_int
from broadloom.codegen.module import ModuleBuilder
from broadloom.codegen.outline import COPIES, outline
from broadloom.errors import DTypeError
from broadloom.ops.record import Op, Trait
from broadloom.ops.sampling import operand_dtypes
from broadloom.ops.table import OPS
from tests.codegen.loops import Case, compile_loops, module_text

BOUND = 40  # instructions an op, those called often left out; in all loops, with loads, stores and steps
FEW, MANY = COPIES // 20, COPIES // 15  # more than `outline` inlines of what has more instructions than 20
COUNT = COPIES // 10
POINTWISE = sorted(n for n, op in OPS.items() if op.has(Trait.POINTWISE))


def cases_of(op: Op) -> list[Case]:
    found = []
    sample = op.samples[0]
    for dtypes in op.sample_dtypes:
        operands = operand_dtypes(sample, dtypes)
        try:
            (dtype,) = op.result_dtypes(operands, sample.attrs)
        except DTypeError:  # an empty cell
            continue
        if has_cell(op.name, operands):
            found.append(Case(op.name, operands, dtype, dict(sample.attrs)))
    return found


def inlined(text: str) -> dict[str, int]:
    """How many instructions each function has when what is to be inlined is."""
    bodies = dict(re.findall(r"^define [^@]*@([\w.]+)\((.*?)^}", text, re.MULTILINE | re.DOTALL))
    merged = {f for f, body in bodies.items() if " alwaysinline " in body.split("\n")[0]}
    sizes: dict[str, int] = {}

    def size(name: str) -> int:
        if name not in sizes:
            called = [c for c in re.findall(r" call [^@]*@([\w.]+)\(", bodies[name]) if c in merged]
            sizes[name] = bodies[name].count(" = ") + sum(map(size, called))
        return sizes[name]

    return {f: size(f) for f in bodies if f not in merged}


@pytest.mark.parametrize("name", POINTWISE)
def test_the_code_of_an_op_does_not_grow_with_its_number(name):
    for case in cases_of(OPS[name]):
        few, many = (inlined(module_text([case] * n, finish=outline)) for n in (FEW, MANY))
        grown = (sum(many.values()) - sum(few.values())) / (MANY - FEW)
        assert grown <= BOUND, f"{case}: {grown} instructions for each"


@pytest.mark.parametrize(
    "case",
    [
        Case("floor_divide", (d.int64, d.int64), d.int64),
        Case("remainder", (d.int32, d.int32), d.int32),
        Case("remainder", (d.float32, d.float32), d.float32),
        Case("divide", (d.complex64, d.complex64), d.complex64),
        Case("exp", (d.complex128,), d.complex128),
        Case("pow", (d.complex64, d.complex64), d.complex64),
        Case("sign", (d.complex128,), d.complex128),
    ],
    ids=str,
)
def test_many_give_the_bits_of_one(case, rng):
    (one,) = compile_loops([case])
    text = module_text([case] * COUNT, finish=outline)
    assert re.search(rf'@bl\.{case.op}\.\d+\.\w+\(.*"vector-function-abi-variant"', text)
    many = compile_loops([case] * COUNT, finish=outline)
    operands = [(rng.normal(0, 3, 77) * (1 + 1j if t.kind == "c" else 10)).astype(t.numpy) for t in case.operands]
    operands[-1][:3] = 0
    expected = one(*operands).tobytes()
    assert {many[k](*operands).tobytes() for k in (0, COUNT // 2, COUNT - 1)} == {expected}


def test_few_ops_stay_inline():
    case = Case("floor_divide", (d.int32, d.int32), d.int32)
    assert "noinline" not in module_text([case] * 20, finish=outline)


def test_a_literal_divisor_is_part_of_the_function():
    m = ModuleBuilder("m")
    f = m.function("f", "i64", [Param("i64", "x")])
    (value,) = emit(f, "floor_divide", [f.params, (const_int("i64", 3),)], [d.int64, d.int64], d.int64)
    f.ret(value)
    assert re.search(r"@bl\.floor_divide\.0\.i64\(i64 %x\)", str(m))
