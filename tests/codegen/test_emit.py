"""Emitted scalars against the reference kernels of the op table: every op, every dtype with a cell, edge values."""

from __future__ import annotations

import itertools
import re

import ml_dtypes
import numpy as np
import pytest
from llvmlite import binding

import broadloom as bl
from broadloom.codegen.emit import EMITTERS, emit, has_cell
from broadloom.codegen.llvm import Param, Val, const_int, vector
from broadloom.codegen.module import ModuleBuilder
from broadloom.codegen.types import register_type
from broadloom.codegen.vmath import FUNCTIONS
from broadloom.dtypes import (
    ALL,
    BY_NAME,
    DType,
    bfloat16,
    bool_,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    uint8,
)
from broadloom.errors import DTypeError
from broadloom.ops.record import Op, Sample, Trait
from broadloom.ops.sampling import edge_values, numbers, operand_dtypes
from broadloom.ops.table import OPS
from broadloom.runtime.link import object_symbols
from broadloom.runtime.target import Target, emit_object, host, parse
from tests.codegen.loops import Array, Case, compile_loops, host_features, loop_assembly, module_text

POINTWISE = {name: op for name, op in OPS.items() if op.has(Trait.POINTWISE)}
# Ops whose results may differ from NumPy's in the last places.
MATH = frozenset(FUNCTIONS) - {"fmod"}
# Where operands compare equal but are 0.0 and -0.0, NumPy's own loops differ in which one they return.
TIES = frozenset(("maximum", "minimum", "fmax", "fmin", "clip"))


def cases_of(op: Op) -> list[tuple[Case, Sample]]:
    found = []
    for sample in op.samples:
        for dtypes in op.sample_dtypes:
            operands = operand_dtypes(sample, dtypes)
            try:
                (dtype,) = op.result_dtypes(operands, sample.attrs)
            except DTypeError:  # an empty cell: bitcast to another width
                continue
            found.append((Case(op.name, operands, dtype, dict(sample.attrs)), sample))
    return found


def operands_for(case: Case, sample: Sample, rng: np.random.Generator) -> list[Array]:
    """Every combination of edge values, and random ones."""
    edges = [edge_values(d) if d.kind != "c" else complex_edges(d) for d in case.operands]
    if len(case.operands) == 3:
        edges = [e[rng.permutation(len(e))[:7]] for e in edges]
    grid = [np.array(column) for column in zip(*itertools.product(*edges), strict=True)]
    random = [numbers((200,), d, rng, low=sample.low, high=sample.high) for d in case.operands]
    wide = [_wide(d, rng) for d in case.operands]
    parts = [np.concatenate(p) for p in zip(grid, random, wide, strict=True)]
    if case.op == "pow" and case.operands[0].kind == "i":  # NumPy raises on negative exponents
        parts[1] = np.abs(parts[1]) & np.iinfo(parts[1].dtype).max
    return parts


def complex_edges(dtype: DType) -> Array:
    part = edge_values(BY_NAME["float32" if dtype.bits == 64 else "float64"])
    result = np.empty((len(part), len(part)), dtype.numpy)
    result.real, result.imag = part[:, None], part[None, :]
    return result.ravel()


def _wide(dtype: DType, rng: np.random.Generator) -> Array:
    """Any bit pattern but signalling nan, which NumPy's own loops treat in several ways."""
    raw = rng.integers(0, 256, 100 * dtype.itemsize, dtype=np.uint8)
    if dtype is bool_:
        return (raw & 1).astype(bool)
    part = raw.view(dtype.real.numpy)
    if dtype.kind in "fc":
        with np.errstate(invalid="ignore"):
            part[np.isnan(part)] = np.nan
    return part.view(dtype.numpy)


def steps_apart(got: Array, expected: Array) -> Array:
    """How many representable values lie between two real float arrays; nan beside nan is 0."""
    signed = {2: np.int16, 4: np.int32, 8: np.int64}[got.dtype.itemsize]
    order = [np.where(b < 0, np.iinfo(signed).min - b, b) for b in (got.view(signed), expected.view(signed))]
    unsigned = np.dtype(f"u{got.dtype.itemsize}")
    apart = (np.maximum(*order) - np.minimum(*order)).view(unsigned).astype(np.float64)  # wraps to the right distance
    with np.errstate(invalid="ignore"):  # of signalling nan
        return np.where((got != got) & (expected != expected), 0.0, apart)


def assert_same(case: Case, operands: list[Array], got: Array, expected: Array) -> None:
    assert got.dtype == expected.dtype
    if got.dtype.kind in "biu":
        wrong = got != expected
    elif got.dtype.kind == "c":
        wrong = _complex_wrong(case, operands, got, expected)
    else:
        inexact = case.op in MATH or (case.operands[0].kind == "c" and case.op == "abs")
        allowed = 0.0 if not inexact else 1.0 if got.dtype.itemsize == 2 else 5.0
        apart = steps_apart(got, expected)
        if case.op in TIES:
            apart = np.where(got == expected, 0.0, apart)
        wrong = ~(apart <= allowed) & ~_excused(case, operands, got, expected)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        given = ", ".join(repr(x[at]) for x in operands)
        pytest.fail(f"{case}: {wrong.sum()} wrong; at ({given}) got {got[at]!r}, expected {expected[at]!r}")


def _excused(case: Case, operands: list[Array], got: Array, expected: Array) -> Array:
    """Where the reference itself is off: sums that cancel in logaddexp and logaddexp2, the far tail of SciPy's erfc."""
    scale = {"erfc": [expected], "logaddexp": operands, "logaddexp2": operands}.get(case.op)
    if scale is None:
        return np.zeros(got.shape, bool)
    size = np.max(np.abs(np.array(scale, np.float64)), axis=0)
    factor = 400.0 if case.op == "erfc" else 5.0
    eps = float(ml_dtypes.finfo(got.dtype).eps)
    with np.errstate(all="ignore"):
        return np.abs(got.astype(np.float64) - expected.astype(np.float64)) <= factor * eps * size


def _complex_wrong(case: Case, operands: list[Array], got: Array, expected: Array) -> Array:
    """Complex products and functions are compared by distance, on moderate operands; the rest part by part."""
    part = got.real.dtype
    if case.op not in MATH and case.op not in ("multiply", "square", "sqrt", "divide", "reciprocal", "sign"):
        parts = [(got.real, expected.real), (got.imag, expected.imag)]
        ties = case.op in TIES
        return np.any([~((steps_apart(g.copy(), e.copy()) == 0) | (ties & (g == e))) for g, e in parts], axis=0)
    sizes = [np.maximum(np.abs(x.real), np.abs(x.imag)) for x in operands]
    least = [np.minimum(np.abs(x.real), np.abs(x.imag)) for x in operands]
    moderate = np.all([(s < 30) & (s > 1e-3) & ((m == 0) | (m > 1e-3)) for s, m in zip(sizes, least, strict=True)], 0)
    moderate &= np.isfinite(expected)
    eps = float(np.finfo(part).eps)
    limit = eps * (400.0 if case.op == "pow" else 16.0)
    with np.errstate(all="ignore"):
        size = np.abs(expected)
        if case.op == "log1p":  # NumPy's takes the logarithm of a rounded 1 + x
            size = np.maximum(size, 1)
        return moderate & ~(np.abs(got - expected) <= limit * size)


def references(case: Case, op: Op, operands: list[Array]) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(op.reference(*operands, **case.attrs))


def test_every_pointwise_op_has_a_row() -> None:
    assert set(EMITTERS) == set(POINTWISE)


@pytest.mark.parametrize("name", sorted(POINTWISE))
def test_every_cell_has_an_emitter(name: str) -> None:
    op = POINTWISE[name]
    cells = {operand_dtypes(op.samples[0], d)[-1] for d in op.sample_dtypes}
    emitted = {d for d in ALL if has_cell(name, [d])}
    assert cells <= emitted
    assert {d.kind for d in cells} == {d.kind for d in emitted}  # 16-bit floats come with the wider ones


@pytest.mark.parametrize("name", sorted(POINTWISE))
def test_agrees_with_the_reference(name: str, rng: np.random.Generator) -> None:
    op = POINTWISE[name]
    cases = cases_of(op)
    for (case, sample), function in zip(cases, compile_loops([c for c, _ in cases]), strict=True):
        operands = operands_for(case, sample, rng)
        assert_same(case, operands, function(*operands), references(case, op, operands))


def test_agrees_without_fused_multiply_add_or_half_conversion(rng: np.random.Generator) -> None:
    names = ("add", "cast", "floor_divide", "remainder", "fmod", "floor", "ceil", "trunc", "round", "pow", "erfc")
    chosen = [
        (case, sample)
        for name in names
        for case, sample in cases_of(POINTWISE[name])
        if case.operands[0].kind == "f" and case.dtype.kind == "f"
    ]
    plain = host_features() - {"fma", "sse4.1", "f16c"}
    for (case, sample), function in zip(chosen, compile_loops([c for c, _ in chosen], plain), strict=True):
        operands = operands_for(case, sample, rng)
        assert_same(case, operands, function(*operands), references(case, POINTWISE[case.op], operands))


def test_an_empty_cell_is_refused() -> None:
    with pytest.raises(DTypeError, match="no code for subtract on bool, bool"):
        module_text([Case("subtract", (bool_, bool_), bool_)])
    with pytest.raises(DTypeError, match="no code for matmul"):
        module_text([Case("matmul", (float32, float32), float32)])


def test_a_power_takes_as_many_steps_as_its_exponent_has_bits() -> None:
    """One loop, not code for each bit of the type: 64 squarings took longer to compile than all the rest."""
    text = module_text([Case("pow", (int64, int64), int64)] * 2)
    assert text.count(" mul ") == 2 and text.count("define internal i64 @bl.power.i64") == 1


def test_negative_integer_powers_are_the_integer_part() -> None:
    (function,) = compile_loops([Case("pow", (int8, int8), int8)])
    base, exponent = np.array([2, 1, -1, -1, 0], np.int8), np.array([-1, -3, -3, -4, -1], np.int8)
    assert function(base, exponent).tolist() == [0, 1, -1, 1, 0]


def test_literal_exponents_take_few_products() -> None:
    def power(n: int, type_: str) -> str:
        f = ModuleBuilder("m").function("f", type_, [Param(type_, "x")])
        f.ret(*emit(f, "pow", [(f.params[0],), (const_int(type_, n),)], (int64, int64), int64))
        return str(f)

    assert [power(n, "i64").count("mul") for n in (0, 1, 2, 3, 10)] == [0, 0, 1, 2, 4]
    assert power(10, "<4 x i64>").count("mul") == 4
    (function,) = compile_loops([Case("pow", (int64, int64), int64)])
    x = np.arange(-5, 5)
    assert function(x, np.full(10, 10)).tolist() == (x**10).tolist()


def test_doubles_near_a_tie_round_as_numpys_do() -> None:
    x = np.array([1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-11 + 2.0**-40])
    cases = [Case("cast", (float64,), d, {"dtype": d}) for d in (float16, bfloat16)]
    for case, function in zip(cases, compile_loops(cases), strict=True):
        assert function(x).tobytes() == x.astype(case.dtype.numpy).tobytes()


@pytest.mark.parametrize(
    "case",
    [
        Case("floor_divide", (int32, int32), int32),
        Case("remainder", (int8, int8), int8),
        Case("bitwise_left_shift", (int32, int32), int32),
        Case("maximum", (float64, float64), float64),
        Case("floor", (float32,), float32),
        Case("clip", (float32, float32, float32), float32),
        Case("cast", (float64,), int32, {"dtype": int32}),
        Case("cast", (uint8,), float32, {"dtype": float32}),
        Case("where", (bool_, float64, float64), float64),
        Case("divide", (complex128, complex128), complex128),
    ],
    ids=str,
)
def test_a_loop_is_vector_code_without_calls(case: Case) -> None:
    text = loop_assembly(case)
    assert not re.search(r"^\s+(call|bl|blr)\b", text, re.MULTILINE)
    assert re.search(r"%[yz]mm|\bv\d+\.(2d|4s)", text) or "avx" not in host_features()


@pytest.mark.parametrize("name", sorted(POINTWISE))
def test_vectors_are_taken_lane_by_lane(name: str) -> None:
    """The same emitters serve code that is written in vectors: the text passes the builder's checks and LLVM's."""
    m = ModuleBuilder("vectors", triple=host().triple, features=host_features())
    for k, (case, _) in enumerate(cases_of(POINTWISE[name])):
        types = [[vector(t, 4) for t in register_type(d)] for d in case.operands]
        params = [[Param(t, f"x{j}.{part}") for part, t in enumerate(ts)] for j, ts in enumerate(types)]
        f = m.function(f"f{k}", "void", [*itertools.chain(*params), Param("ptr", "out")])
        args = [tuple(Val(p.type, f"%{p.name}") for p in ps) for ps in params]
        for value in emit(f, name, args, case.operands, case.dtype, case.attrs):
            f.store(value, f.params[-1])
        f.ret()
    parse(str(m), host())


def test_complex_products_round_every_step(rng: np.random.Generator) -> None:
    """NumPy's vector loops fuse some of these steps where the machine can, its scalar loops do not."""
    x, y = (rng.normal(size=50) + 1j * rng.normal(size=50) for _ in "xy")
    (product,) = compile_loops([Case("multiply", (complex128, complex128), complex128)])
    got = product(x, y)
    assert got.real.tolist() == (x.real * y.real - x.imag * y.imag).tolist()
    assert got.imag.tolist() == (x.real * y.imag + x.imag * y.real).tolist()


@pytest.mark.parametrize(
    "triple, cpu", [("x86_64-unknown-linux-gnu", "x86-64"), ("aarch64-unknown-linux-gnu", "generic")]
)
def test_the_oldest_machines_need_no_library(triple: str, cpu: str) -> None:
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    names = ("add", "cast", "remainder", "round", "floor", "exp", "sin", "pow", "hypot", "nextafter")
    chosen = [c for name in names for c, _ in cases_of(POINTWISE[name]) if c.operands[0].kind == "f"]
    text = module_text(chosen, frozenset(), triple)
    _, wanted = object_symbols(emit_object(text, Target(triple, cpu, "", False, 128), 0))
    assert wanted <= {"memcpy", "memset"}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_nextafter_of_special_values(dtype: type) -> None:
    values = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, np.finfo(dtype).max, np.finfo(dtype).tiny], dtype)
    x, y = np.repeat(values, len(values)), np.tile(values, len(values))
    with np.errstate(all="ignore"):
        want = np.nextafter(x, y)
    got = bl.compile(lambda x, y: np.nextafter(x, y))(x, y)
    assert np.array_equal(got, want, equal_nan=True) and np.array_equal(np.signbit(got), np.signbit(want))
