"""The benchmarks measure work that is done: every workload runs, small, and the chains are as long as they say."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import first_call, timing
from benchmarks.__main__ import close
from benchmarks.workloads import WORKLOADS, Workload


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.name)
def test_workloads_run(workload: Workload) -> None:
    arguments = workload.arguments(0.001)
    result = np.asarray(workload.make(np)(*arguments))
    assert result.size and np.isfinite(result).all()
    assert close(result, result) and not close(result + 2, result)
    again = workload.arguments(0.001)
    assert all(np.array_equal(a, b) for a, b in zip(arguments, again, strict=True))


def test_chains_have_the_length_they_name() -> None:
    lines = first_call.chain_source(50).splitlines()
    assert len(lines) == 52 and len({line.split("= ")[1] for line in lines[1:-1]}) == 5


def test_steady_measures_every_call() -> None:
    calls = {"a": lambda: sum(range(10)), "b": lambda: None}
    times = timing.steady(calls, 0.001)
    assert set(times) == {"a", "b"} and all(len(t) >= 3 and min(t) > 0 for t in times.values())
