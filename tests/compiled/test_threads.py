"""Compiled kernels give the same bits on any number of threads, and the right ones on arrays that threads share.

One symbolic module a dtype holds reductions over inner, outer and all axes, scans along both, pointwise ops, a
scatter and a gather; it runs on shapes where threads split outer points, inner points, or one long reduction.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from broadloom.dtypes import DType, bool_, complex64, float16, float32, float64, int8, int64
from broadloom.ops.infer import infer
from broadloom.ops.record import Trait
from broadloom.ops.sampling import operands
from broadloom.ops.table import OPS
from tests.compiled import equality
from tests.compiled.layouts import Array
from tests.compiled.modules import Call, Module, Placed, calls_of, compiled, plan

SHAPES = ((3, 70_001), (70_001, 3), (1, 200_003), (200_003, 1), (517, 431))
LARGEST = 2_000_000  # elements
SHARED = [
    *(op.name for op in OPS.values() if op.has(Trait.REDUCTION) or op.has(Trait.SCAN)),
    "exp", "multiply", "divide", "where", "take", "scatter", "roll", "flip", "sort", "argsort",
]  # fmt: skip


def chosen(dtype: DType) -> list[Call]:
    """The calls of one module: of each op those samples that have two core axes, pointwise ops as they are."""
    found = []
    for name in SHARED:
        op = OPS[name]
        for dtypes in op.sample_dtypes:
            if dtypes[op.principal] is not dtype:
                continue
            for call in calls_of(op, dtypes):
                shapes = call.sample.core_shapes
                if op.has(Trait.POINTWISE) or shapes[0] in ((3, 4), (2, 3), (4, 3), (4, 2)):
                    found.append(call)
    return found


def arrays_of(placed: Placed, shape: tuple[int, int], rng: np.random.Generator) -> list[Array]:
    """Operands whose two core axes have the sizes of `shape`; other sizes stay."""
    first = placed.call.sample.core_shapes[0]
    own = dict(zip(first, shape, strict=True)) if first else {}
    sample = placed.at(
        {symbol: own.get(hint, hint) for hint, symbol in placed.cores.items()}
        | {s: hint for s, (hint, _) in placed.varying.items()}
    )
    types = list(zip(placed.call.dtypes, sample.core_shapes, strict=True))
    if any(math.prod(result) > LARGEST for _, result in infer(placed.call.op, types, sample.attrs)):
        sample = placed.call.sample  # indices of the size of an axis beside it: too many elements
    loop = () if first else (shape[0] * shape[1],)
    return list(operands(replace(sample, low=None, high=None), placed.call.dtypes, rng, (loop, loop), edges=False))


@pytest.mark.parametrize(
    "dtype",
    [bool_, int8, int64, float16, pytest.param(float32, marks=pytest.mark.every_python), float64, complex64],
    ids=str,
)
def test_bits_do_not_depend_on_the_number_of_threads(
    dtype: DType, request: pytest.FixtureRequest, rng: np.random.Generator
) -> None:
    calls = chosen(dtype)
    if not request.config.getoption("--full"):
        calls = [calls[int(k)] for k in rng.permutation(len(calls))[:30]]
    for start in range(0, len(calls), 15):
        part = calls[start : start + 15]
        loops = [((7,), (7,)) if call.op.has(Trait.POINTWISE) else ((), ()) for call in part]
        for loop in dict.fromkeys(loops):
            together = [call for call, own in zip(part, loops, strict=True) if own == loop]
            graph, placed, _ = plan(together, "c", loop, True, rng)
            module = Module(graph, placed, compiled(graph))
            shapes = SHAPES if request.config.getoption("--full") else [SHAPES[int(k)] for k in rng.permutation(5)[:2]]
            for shape in shapes:
                check(module, shape, rng)


def check(module: Module, shape: tuple[int, int], rng: np.random.Generator) -> None:
    given = [arrays_of(p, shape, rng) for p in module.placed]
    sizes = [[placed.hints[s] for s in placed.sizes] for placed in module.placed]
    arguments = [x for arrays, own in zip(given, sizes, strict=True) for x in (*arrays, *own)]
    alone = module.run(arguments, 1)
    for threads in (2, 3, 7):
        for k, (a, b) in enumerate(zip(module.run(arguments, threads), alone, strict=True)):
            assert a.tobytes() == b.tobytes(), f"output {k} of {', '.join(str(p.call) for p in module.placed)} {shape}"
    for placed, arrays in zip(module.placed, given, strict=True):
        got = tuple(alone[k] for k in placed.outputs)
        try:
            equality.check(placed.call.op, {**placed.call.op.defaults, **placed.call.sample.attrs}, arrays, got)
        except pytest.fail.Exception as error:
            pytest.fail(f"{placed.call} at {shape}: {error}")
