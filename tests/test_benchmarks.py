"""The benchmarks measure work that is done: every workload runs, small, and the chains are as long as they say."""

from __future__ import annotations

import numpy as np
import pytest

import broadloom as bl
from benchmarks import eager, first_call, mapped, timing
from benchmarks.__main__ import close
from benchmarks.targets import FirstCall, targets
from benchmarks.timing import Time
from benchmarks.workloads import WORKLOADS, Workload


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.name)
def test_workloads_run(workload: Workload) -> None:
    arguments = workload.arguments(0.001)
    result = np.asarray(workload.make(np)(*arguments))
    assert result.size and np.isfinite(result).all()
    assert close(result, result) and not close(result + 2, result)
    again = workload.arguments(0.001)
    assert all(np.array_equal(a, b) for a, b in zip(arguments, again, strict=True))


@pytest.mark.parametrize("kind", first_call.CHAINS)
def test_chains_have_the_length_they_name(kind: str) -> None:
    lines = first_call.chain_source(kind, 50).splitlines()
    assert len(lines) == 52
    assert {line.split("= ", 1)[1] for line in lines[1:-1]} <= set(first_call.CHAINS[kind] or first_call.UNLIKE)
    assert first_call.chain_source(kind, 50).splitlines() == lines


def test_promises_are_judged_by_what_was_measured() -> None:
    first = [
        FirstCall(
            "mixed", 10, {"numpy": 0.1, "import": 0.1, "first": 0.05}, {"numpy": 0.2, "import": 0.2, "first": 0.01}
        ),
        FirstCall("mixed", 1000, *[{"numpy": 1.0, "import": 1.0, "first": 1.0}] * 2),
        FirstCall("mixed", 2000, *[{"numpy": 1.0, "import": 1.0, "first": 2.5}] * 2),
    ]
    times = {"black-scholes": {"numpy": Time(1, 0.3, 0.3), "broadloom": Time(1, 0.1, 0.1)}, "tiny": {"broadloom": "no"}}
    at_once = {"add(x, x)": {"numpy": Time(1, 5e-7, 4e-7), "broadloom": Time(1, 2e-6, 1.7e-6)}}
    by_vmap = {"by hand": Time(1, 3, 2), "vmap": Time(1, 4, 2.5)}
    found = {t.what: (round(t.measured, 6), t.holds) for t in targets(times, first, at_once, by_vmap)}
    assert found == {
        "bl.add on 10 elements, beyond twice np.add": (0.9, True),
        "vmap of 20 ops, compiled, over the same batched by hand": (1.25, False),
        "import broadloom, NumPy's import included": (200, True),
        "first call of 10 ops (mixed)": (50, True),
        "first call of 1000 ops (mixed)": (1, True),
        "2000 ops against 1000 (mixed)": (2.5, False),
        "black-scholes, NumPy's time over ours": (3, False),
    }
    assert list(targets({}, [], {}, {})) == []


def test_steady_measures_every_call() -> None:
    calls = {"a": lambda: sum(range(10)), "b": lambda: None}
    times = timing.steady(calls, 0.001)
    assert set(times) == {"a", "b"} and all(len(t) >= 3 and min(t) > 0 for t in times.values())


def test_calls_at_once_give_what_numpy_gives() -> None:
    for theirs, ours in eager.CALLS.values():
        np.testing.assert_array_equal(np.asarray(ours()), theirs())
    times = eager.measure(0.001)
    assert set(times) == set(eager.CALLS) and all(t.least > 0 for pair in times.values() for t in pair.values())


def test_a_mapped_function_is_compiled_to_the_kernels_of_the_one_batched_by_hand() -> None:
    given = mapped.arguments(16, 40)
    alone = bl.make_graph(mapped.one)(given[0][0], given[1])
    assert sum(len(n.inputs) > 0 for n in alone.nodes) == mapped.OPS
    reports, results = [], []
    for function in (mapped.mapped, mapped.by_hand):
        compiled = bl.compile(function, fullgraph=True)
        results.append(compiled(*given))
        reports.append(compiled.report())
    np.testing.assert_array_equal(*results)
    np.testing.assert_allclose(results[0], [mapped.one(x, given[1]) for x in given[0]], rtol=2e-5)
    loops, counts, stores = (
        [[getattr(k, what) for k in r.kernels] for r in reports] for what in ("loops", "counts", "stores")
    )
    assert loops[0] == loops[1] and counts[0] == counts[1] and stores[0] == stores[1]
    assert len(loops[0]) == 1
    times = mapped.measure(0.001, 4)
    assert set(times) == {"by hand", "vmap"} and all(t.least > 0 for t in times.values())
