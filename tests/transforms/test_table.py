"""The batching law for the whole op table: `op(stacked) == stack(op)`, generated, so that no op escapes.

Every op, every subset of its operands batched, axes drawn by the seed, one level and two: computed at once, and
compiled with static and with symbolic sizes. `--full` takes every sample, dtype and axis.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from broadloom.errors import TransformError
from broadloom.graph.builder import GraphBuilder
from broadloom.graph.recorder import Recorder
from broadloom.ops.infer import complete
from broadloom.ops.record import Op
from broadloom.ops.table import OPS
from broadloom.tensor.eager import EagerBuilder
from broadloom.transforms.batching import BatchBuilder
from broadloom.transforms.level import Level
from tests.compiled.modules import Call, cells
from tests.transforms.batched_calls import Case, arrays_of, by_reference, call_batched, check, make_case, subsets
from tests.transforms.batched_modules import HINTS, failures, launches, plan

TOGETHER = 24  # cases a module
CALLS: dict[str, list[Call]] = {}
for (_name, _), _calls in cells().items():
    CALLS.setdefault(_name, []).extend(c for c in _calls if c.sample.core_shapes)
TAKERS = [op for op in OPS.values() if CALLS[op.name]]  # ops with operands
MODULES = 16


def cases_of(op: Op, rng: np.random.Generator, full: bool) -> Iterator[Case]:
    """Cases of an op: for every subset of operands one at a single level, and one below or above a level that batches
    any others, or none."""
    calls = CALLS[op.name]
    for arity in sorted({len(c.sample.core_shapes) for c in calls}):
        fitting = [c for c in calls if len(c.sample.core_shapes) == arity]
        for chosen in subsets(arity):
            for call in fitting if full else [fitting[int(rng.integers(len(fitting)))]]:
                yield from _every_axis(call, chosen, rng) if full else [make_case(call, (chosen,), rng)]
                other = tuple(bool(b) for b in rng.integers(0, 2, arity))
                levels = (chosen, other) if rng.random() < 0.5 else (other, chosen)
                yield make_case(fitting[int(rng.integers(len(fitting)))] if not full else call, levels, rng)


def _every_axis(call: Call, chosen: tuple[bool, ...], rng: np.random.Generator) -> Iterator[Case]:
    """One level, every axis of every batched operand."""
    case = make_case(call, (chosen,), rng)
    places = [range(rank + 1) if b else (None,) for rank, b in zip(case.ranks, chosen, strict=True)]
    return (replace(case, axes=(axes,)) for axes in product(*places))


def drawn(request: pytest.FixtureRequest, full: bool) -> list[Case]:
    """The cases of all ops, in an order of this run's seed, the same for every module."""
    rng = np.random.default_rng(request.config.option.seed)
    found = [case for op in TAKERS for case in cases_of(op, rng, full)]
    if not full:  # one level or two for each op and subset
        found = [pair[int(rng.integers(2))] for pair in zip(found[::2], found[1::2], strict=True)]
    return [found[int(k)] for k in rng.permutation(len(found))]


@pytest.mark.parametrize("op", TAKERS, ids=str)
def test_at_once(op: Op, request: pytest.FixtureRequest, rng: np.random.Generator) -> None:
    for case in cases_of(op, rng, request.config.getoption("--full")):
        sizes = {name: int(rng.choice((0, 1, 2, 2, 3))) for name in HINTS}
        batch = [sizes["B0"], sizes["B1"]][: len(case.axes)]
        builder = EagerBuilder()
        recorder = Recorder(builder=builder)
        arrays = arrays_of(case, case.call, sizes, batch, rng, at_once=True)
        handles = [recorder.adopt(builder.adopt(a)) for a in arrays]
        results = call_batched(case, recorder, handles, batch, complete(op, case.call.sample.attrs))
        try:
            check(case, case.call, arrays, batch, [builder.array(recorder.read(r)) for r in results], by_reference)
        except AssertionError as error:
            raise AssertionError(f"{case} at {sizes}: {error}") from error


@pytest.mark.parametrize("number", range(MODULES))
def test_compiled(number: int, request: pytest.FixtureRequest, rng: np.random.Generator) -> None:
    full = request.config.getoption("--full")
    chosen = drawn(request, full)[number::MODULES]
    found: list[str] = []
    for k, start in enumerate(range(0, len(chosen), TOGETHER)):
        symbolic = (number + k) % 2 == 0
        static = None if symbolic else {name: int(rng.choice((0, 1, 2, 3, 5))) for name in HINTS}
        found += failures(chosen[start : start + TOGETHER], static, rng)
    assert not found, f"{len(found)} failures:\n" + "\n".join(found[:20])


def grows(call: Call) -> bool:
    """A view of elements as wider ones."""
    return call.op.name == "view_dtype" and call.sample.attrs["dtype"].itemsize > call.dtypes[0].itemsize


def shares_a_matrix(case: Case) -> bool:
    """Equations whose matrix a level shares: it is factored once, which is a step of its own and less work."""
    return case.call.op.name == "solve" and any(axes[0] is None and axes[1] is not None for axes in case.axes)


def test_the_batched_form_launches_no_more_kernels(request: pytest.FixtureRequest, rng: np.random.Generator) -> None:
    worse = []
    for case in drawn(request, request.config.getoption("--full")):
        if grows(case.call):
            continue  # the bytes of an element may lie apart in the batch: they are brought together
        if shares_a_matrix(case):
            continue
        if all(any(a is not None for a in axes) for axes in case.axes):  # else the result is one more copy
            batched, alone = launches(case, rng)
            if batched > alone:
                worse.append(f"{case}: {batched}, one example {alone}")
    assert not worse, f"{len(worse)} of them:\n" + "\n".join(worse[:20])


def test_there_is_no_other_road(request: pytest.FixtureRequest, rng: np.random.Generator) -> None:
    """Each op is called once, as it is; the rest are views."""
    for case in drawn(request, False):
        graph = plan([case], HINTS, rng).graph
        names = [node.op.name for node in graph.nodes]
        assert names.count(case.call.op.name) >= 1
        own = [node for node in graph.nodes if node.op is case.call.op]
        assert len(own) == 1 or case.call.op.name in ("reshape", "permute", "expand")
        assert {n.op.name for n in graph.nodes if n.op is not case.call.op} <= {"reshape", "permute", "expand"}
        assert any(n.attributes == own[0].attributes for n in own)


def test_an_op_without_operands_is_the_same_for_all_examples() -> None:
    builder = BatchBuilder(GraphBuilder("f"), 5)
    for op in OPS.values():
        if not op.samples[0].core_shapes:
            results = builder.call_tuple(op, **complete(op, op.samples[0].attrs))
            assert not any(map(builder.is_batched, results))


def test_a_result_that_differs_has_an_axis() -> None:
    builder = EagerBuilder()
    recorder = Recorder(builder=builder)
    level = Level(recorder, 3)
    x = level.argument(recorder.adopt(builder.adopt(np.arange(3.0))), 0, "x")
    with pytest.raises(TransformError, match="out_axes is None"):
        level.result(level.recorder.op("sin", x), None, "result 0")
    shared = level.recorder.op("sin", level.argument(recorder.adopt(builder.adopt(np.arange(3.0))), None, "y"))
    assert builder.array(recorder.read(level.result(shared, None, "result 0"))).shape == (3,)
