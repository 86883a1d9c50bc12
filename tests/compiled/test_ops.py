"""Every op of the table, compiled, against its reference kernel: generated, so that no op and no dtype escapes.

Calls are compiled some tens to a module, in an order that the seed decides. The daily run takes each cell of op and
dtypes once, at one of its samples, layout classes and loop shapes, static or symbolic; `--full` takes the product.
"""

from __future__ import annotations

import numpy as np
import pytest

from broadloom.dtypes import ALL
from broadloom.ops.record import Trait
from broadloom.ops.table import OPS
from tests.compiled.checking import configurations, failures, resized
from tests.compiled.modules import Call, cells

TOGETHER = 24  # calls a module
CELLS = cells()
MODULES = -(-len([c for c in CELLS.values() if c]) // TOGETHER)


def shuffled(request: pytest.FixtureRequest) -> list[tuple[Call, ...]]:
    """All cells that have calls, in the order of this run's seed."""
    found = [calls for calls in CELLS.values() if calls]
    order = np.random.default_rng(request.config.option.seed).permutation(len(found))
    return [found[k] for k in order]


@pytest.mark.parametrize(
    "number", [pytest.param(k, marks=[pytest.mark.every_python] if k % 8 < 2 else []) for k in range(MODULES)]
)
def test_compiled_ops_give_what_their_references_give(
    number: int, request: pytest.FixtureRequest, rng: np.random.Generator
) -> None:
    chosen = shuffled(request)[number * TOGETHER : (number + 1) * TOGETHER]
    found: list[str] = []
    if request.config.getoption("--full"):
        every = [call for calls in chosen for call in calls]
        for part in (every[k : k + TOGETHER] for k in range(0, len(every), TOGETHER)):
            for c in configurations(rng):
                as_they_are = c.symbolic or rng.random() < 0.5
                found += failures(part if as_they_are else [resized(call, rng) for call in part], c, rng)
    else:
        # half of the daily modules are symbolic ones at many sizes, half static ones
        choices = [c for c in configurations(rng) if c.symbolic == bool(number % 2)]
        configuration = choices[int(rng.integers(len(choices)))]
        drawn = [calls[int(rng.integers(len(calls)))] for calls in chosen]
        found = failures(drawn if configuration.symbolic else [resized(c, rng) for c in drawn], configuration, rng)
    assert not found, f"{len(found)} failures:\n" + "\n".join(found[:20])


def test_no_op_and_no_dtype_escapes() -> None:
    assert {name for name, _ in CELLS} == set(OPS)
    for op in OPS.values():
        covered = {dtypes[op.principal] for name, dtypes in CELLS if name == op.name and dtypes}
        if op.has(Trait.CREATION):
            covered = {s.attrs["dtype"] for s in op.samples if "dtype" in s.attrs} or set(ALL)
        assert covered | set(op.empty) == set(ALL), f"{op} lacks dtypes"
    assert [key for key, calls in CELLS.items() if not calls] == []


def test_each_run_takes_every_cell(request: pytest.FixtureRequest) -> None:
    taken = [calls[0] for k in range(MODULES) for calls in shuffled(request)[k * TOGETHER : (k + 1) * TOGETHER]]
    assert {(c.op.name, c.dtypes[: len(c.op.sample_dtypes[0])]) for c in taken} == set(CELLS)
