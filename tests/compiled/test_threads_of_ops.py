"""Each op of the table on 1, 2, 3 and 4 threads: the same bits, from kernels that several threads did run.

The code is made so that whatever has more than one point is split (`pool.fine_grain`), at sizes beyond vectors; what
several threads do on arrays of real size stands in `test_threads`.
"""

from __future__ import annotations

import numpy as np
import pytest

from broadloom.dtypes import DType
from broadloom.ops.record import Op
from broadloom.ops.table import OPS
from tests.compiled.checking import Configuration, loop_shapes, operands_of
from tests.compiled.layouts import LAYOUTS, arranged
from tests.compiled.modules import Module, cells, compiled, plan
from tests.compiled.pool import Pool, bits, fine_grain, observed

THREADS = (1, 2, 3, 4)
DAILY = 40
UNSPLIT = {"from_size"}  # a number


def failures(pool: Pool, op: Op, dtypes: tuple[DType, ...], rng: np.random.Generator) -> tuple[list[str], int]:
    """What differs between numbers of threads, and how many jobs several threads ran."""
    layout = LAYOUTS[rng.integers(len(LAYOUTS))]
    n = int(rng.integers(1500, 2500))
    loops = (((n,), (n,)), ((40, n // 40), (40, n // 40)), ((n, 1), (1, 3)))[rng.integers(3)]
    c = Configuration(layout, loops, symbolic=bool(rng.random() < 0.5), fusion=bool(rng.random() < 0.8))
    calls = cells()[op.name, dtypes]
    if not calls:
        return [], -1
    with fine_grain():
        graph, placed, symbols = plan(calls, c.layout, c.loops, c.symbolic, rng)
        module = Module(graph, placed, compiled(graph, fusion=c.fusion))
    sizes = dict.fromkeys(n for shape in loops for n in shape if n > 1) if c.symbolic else ()
    values = dict(zip(symbols, sizes, strict=True))
    arguments: list[object] = []
    for call in placed:
        sample = call.at(call.hints)
        arrays = operands_of(call, sample, loop_shapes(c, values), rng)
        arguments += [arranged(x, y, n, rng) for x, y, n in zip(arrays, call.layouts, call.loop_ranks, strict=True)]
        arguments += [call.hints[s] for s in call.sizes]
    wanted, found, split = None, list[str](), 0
    for threads in THREADS:
        with pool.run(threads) as jobs:
            got = list(map(bits, module.run(arguments, threads)))
        split += sum(len(job.threads) > 1 for job in jobs)
        wanted = wanted or got
        found += [
            f"{c}: output {k} of {', '.join(map(str, calls))} on {threads} threads"
            for k, (a, b) in enumerate(zip(got, wanted, strict=True))
            if a != b
        ]
    return found, split


def test_bits_of_each_op(request: pytest.FixtureRequest, rng: np.random.Generator) -> None:
    every = list(cells())
    if not request.config.getoption("--full"):
        every = [every[k] for k in rng.permutation(len(every))[:DAILY]]
    wrong: list[str] = []
    unsplit: set[str] = set()
    with observed() as pool, np.errstate(all="ignore"):
        for name, dtypes in every:
            found, split = failures(pool, OPS[name], dtypes, rng)
            wrong += found
            if split == 0:
                unsplit.add(name)
    assert not wrong, "\n".join(wrong[:20])
    assert unsplit <= UNSPLIT, f"no kernel of {sorted(unsplit - UNSPLIT)} was split"
