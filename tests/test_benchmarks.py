"""The benchmarks measure work that is done: every workload runs, small, and the chains are as long as they say."""

from __future__ import annotations

import ast
import dataclasses
import json
import math
import os
import random
import resource
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

import broadloom as bl
from benchmarks import __main__ as command
from benchmarks import (
    arrays_numpy,
    columns,
    comparison,
    document,
    eager,
    first_call,
    limits,
    mapped,
    picture,
    tables,
    throughput,
    timing,
    worker,
)
from benchmarks.columns import COLUMNS, OURS, PART, TRIAD
from benchmarks.comparison import Plan
from benchmarks.lines import BLAS_LINES, MEMORY_SHARES, REASONS, STEADY_LINES, lines
from benchmarks.processes import CHOSEN_PROCESSOR, MEMORY, ColumnError, Process, environment
from benchmarks.results import Cell, Facts, Run, close, compared, error, from_json, read, to_json
from benchmarks.targets import REASONS as OWN_REASONS
from benchmarks.targets import FirstCall, targets
from benchmarks.timing import Effort, Spread, Time
from benchmarks.worker import save
from benchmarks.workloads import BY_NAME, WORKLOADS, Workload
from broadloom.runtime import native, target

FULL_LINES = {
    *("W1a", "W1b", "W2", "W3a", "W3b", "W4", "W5a", "W5b", "W6", "W7", "W11b", "W11c", "W12", "W13", "W14", "W15a"),
    *("W9a", "W10", "W15b"),
    *("copy", "matmul 64", "matmul 1024", "matmul 2048", "matmul batched", "matrix-vector", "dense gelu"),
}


def arrays(result: Any) -> tuple[np.ndarray, ...]:
    return tuple(map(np.asarray, result if isinstance(result, tuple) else (result,)))


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.name)
def test_workloads_run_and_agree(workload: Workload) -> None:
    arguments = workload.arguments(0.001)
    expected = columns.numpy(workload, arguments).call()
    assert all(a.size and np.isfinite(a).all() for a in arrays(expected))
    found = columns.broadloom(workload, arguments).call()
    assert compared(arrays(found), arrays(expected))[1]
    assert [a.dtype for a in arrays(found)] == [a.dtype for a in arrays(expected)]
    again = workload.arguments(0.001)
    assert all(np.array_equal(a, b) for a, b in zip(arguments, again, strict=True))


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.name)
def test_workloads_are_captured_whole(workload: Workload) -> None:
    compiled = bl.compile(workload.make(arrays_numpy), fullgraph=True)
    compiled(*workload.arguments(0.001))
    assert compiled.report().breaks == ()


def test_the_registry_has_every_line_once() -> None:
    named = [w.line for w in WORKLOADS if w.line]
    assert set(named) == FULL_LINES and len(named) == len(FULL_LINES)
    assert set(MEMORY_SHARES) | set(BLAS_LINES) | STEADY_LINES <= FULL_LINES
    assert len(BY_NAME) == len(WORKLOADS)


def assigned(file: str, name: str) -> ast.Dict:
    """The table that a module of a peer assigns to a name; such a module can only be imported where the peer is."""
    tree = ast.parse((document.ROOT / "benchmarks" / file).read_text())
    (table,) = (n.value for n in tree.body if isinstance(n, ast.AnnAssign) and ast.unparse(n.target) == name)
    assert isinstance(table, ast.Dict)
    return table


@pytest.mark.parametrize(("file", "name"), [("loops.py", "LOOPS"), ("arrays_torch.py", "LIBRARY")])
def test_what_peers_have_beside_the_workloads_belongs_to_one(file: str, name: str) -> None:
    keys = {ast.literal_eval(k) for k in assigned(file, name).keys if k is not None}
    assert keys and keys <= set(BY_NAME) | {columns.TRIFLE.name}


def test_the_namespaces_have_the_same_names() -> None:
    names = set(arrays_numpy.__all__)
    trees = [ast.parse((document.ROOT / "benchmarks" / f"arrays_{peer}.py").read_text()) for peer in ("jax", "torch")]
    for tree in trees:
        imported = {a.name for n in tree.body if isinstance(n, ast.ImportFrom) for a in n.names}
        assert names <= imported | {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}


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


def test_results_are_compared_by_dtype() -> None:
    single, double = np.float32([0, 1000]), np.array([0.0, 1000.0])
    assert close(single + np.float32(0.9), single) and not close(single + np.float32(1.1), single)
    assert close(double + 9e-5, double) and not close(double + 1.1e-4, double)
    assert close(np.complex64([1 + 1j]), np.complex64([1 + 1.0005j]))
    pixels = np.uint8([0, 255])
    assert close(np.uint8([1, 254]), pixels) and not close(np.uint8([2, 255]), pixels)
    assert error(np.uint8([255]), np.uint8([0])) == 255
    half = np.array([0, 1000], bfloat16)
    assert close(half + bfloat16(4), half) and not close(half + bfloat16(16), half)
    assert not close(np.zeros(3), np.zeros((3, 1))) and not close(np.array([np.nan, 1000]), double)
    assert compared((single, single + 10), (single, single)) == (0.01, False)
    assert compared((single,), (single, single)) == (math.inf, False)


def test_quantiles_and_means() -> None:
    values = [5.0, 1.0, 3.0, 2.0, 4.0]
    assert timing.quantile(values, 0.5) == 3 and timing.quantile(values, 0.1) == pytest.approx(1.4)
    assert timing.quantile([7.0], 0.9) == 7
    assert timing.spread(values) == Spread(3, pytest.approx(1.4), pytest.approx(4.6))
    assert timing.geometric_mean([0.5, 2.0, 1.0]) == pytest.approx(1)


def test_ratios_are_taken_within_rounds() -> None:
    # the machine was twice as slow in the second round, for both
    ratios = timing.paired([1.0, 2.0, 1.0, None], [2.0, 4.0, None, 1.0])
    assert ratios == Spread(0.5, 0.5, 0.5)
    assert timing.paired([1.0, None], [None, 1.0]) is None


def test_rounds_take_all_columns_in_random_order_and_the_leading_ones_to_the_end() -> None:
    cost = {"ours": 0.125, "fast": 0.125, "second": 0.25, "slow": 0.5, "slowest": 3.0}
    asked: list[tuple[str, int]] = []

    def measure(name: str, count: int) -> float:
        asked.append((name, count))
        return cost[name]

    found = timing.in_rounds(measure, list(cost), ("ours",), Effort(1.0, 5, 20), random.Random(1))
    taken = {name: sum(s is not None for s in seconds) for name, seconds in found.items()}
    assert {len(s) for s in found.values()} == {8}  # until the fastest have had their second
    assert taken == {"ours": 8, "fast": 8, "second": 8, "slow": 3, "slowest": 3}
    assert asked[:5] == [(name, 1) for name in cost]
    rounds = [tuple(n for n, _ in asked[5 + 5 * r : 10 + 5 * r]) for r in range(3)]
    assert len(set(rounds)) > 1 and all(set(r) == set(cost) for r in rounds)
    short = timing.in_rounds(lambda n, c: 1e-6, ["ours"], ("ours",), Effort(1.0, 2, 4), random.Random(1))
    assert short == {"ours": [1e-6] * 4}


def a_run() -> Run:
    """A run in which our column is best, second or missing, and one has failed."""
    facts = {
        "softmax": Facts("rows", "W3a", "", 0.0, 32 * 10**6),
        "layer-norm": Facts("rows", "W4", "memory", 0.0, 10**9),
        "matmul-64": Facts("product", "matmul 64", "", 524288.0, 49152),
        "heat": Facts("stencil", "", "", 0.0, 10),
        "gelu": Facts("pointwise", "W1b", "", 0.0, 3 * 10**9),
        "fft": Facts("rows", "", "", 0.0, 10),
        "dense-gelu": Facts("product", "dense gelu", "", 0.0, 10),
    }
    at_15_gb = round(limits.TRIAD_BYTES / 15e9, 5)
    cells = {
        "softmax": {
            "numpy": Cell((4.0, 8.0, 4.0)),
            "torch-compile": Cell((3.0, 6.0, None), 2.0, 0.5, 2**20, 1e-7),
            "jax": Cell((2.0, 4.0, 2.0), 0.1, 0.05, 2**21),
            "broadloom": Cell((1.0, 2.0, 1.0), 0.12, 0.02, 2**20),
        },
        "layer-norm": {
            "numpy": Cell((0.05, 0.05, 0.5)),
            "broadloom": Cell((0.1, 0.1, 1.0), 0.1, 0.01),
            TRIAD: Cell((at_15_gb, at_15_gb, 10 * at_15_gb)),  # memory was slower for a while, for all alike
        },
        "matmul-64": {"numpy": Cell((2e-6,) * 3), "broadloom": Cell((1e-6, 1e-6, 1e-6))},
        "heat": {"numpy": Cell((1.0,)), "jax": Cell(failed="ValueError: no"), "broadloom": Cell(failed="wrong result")},
        "gelu": {"broadloom": Cell((0.25, 0.25, 0.25)), TRIAD: Cell((at_15_gb,) * 3)},
        "fft": {"jax": Cell((), 0.02, 0.01, failed="wrong result"), "broadloom": Cell((1.0,) * 3, 0.1, 0.01)},
        "dense-gelu": {  # the machine was slower from round to round, for both
            "broadloom": Cell((1.02, 2.04, 4.0)),
            PART: Cell((1.0, 2.0, 4.0)),
        },
    }
    reached = {"1": dict.fromkeys(("triad", "triad_past_caches", "read", "matmul"), 10.0)}
    reached["2"] = {"triad": 15.0, "triad_past_caches": 20.0, "read": 30.0, "matmul": 200.0}
    machine = {**comparison.machine(), "load before": [1.0, 2.0, 3.0], "load after": [1.5, 2.0, 3.0]}
    own = [{"what": "a call", "allowed": 2.0, "measured": 1.0, "unit": "us", "least": False, "holds": True}]
    return Run(
        machine, {"threads": 2}, {"numpy": "2.4"}, reached, {"gelu": 0.1}, facts, {"fresh": cells, "kept": cells}, own
    )


def test_a_run_reads_back_as_it_was_written() -> None:
    run = a_run()
    assert from_json(to_json(run)) == run
    assert json.loads(to_json(run))["cells"]["fresh"]["heat"]["jax"] == {"error": 0.0, "failed": "ValueError: no"}


def test_the_best_peer_and_the_ratio_to_it() -> None:
    run = a_run()
    assert run.best_peer("fresh", "softmax") == "jax"
    ratio = run.ratio("fresh", "softmax")
    assert ratio is not None and ratio.peer == "jax" and ratio.spread == Spread(0.5, 0.5, 0.5)
    assert run.ratio("fresh", "heat") is None and run.ratio("kept", "absent") is None
    assert (
        run.times()["softmax"]["broadloom"] == Time(0.12, 1.0, 1.0) and run.times()["heat"]["jax"] == "ValueError: no"
    )


def test_lines_are_judged_by_the_spread() -> None:
    run = a_run()
    found = {line.what: (round(line.measured.median, 3), line.holds) for line in lines(run, "fresh")}
    assert found == {
        "softmax: time over the best peer's (jax)": (0.5, True),
        "layer-norm: time over the best peer's (numpy)": (2.0, False),
        "geometric mean of these 2 ratios": (1.0, False),
        "layer-norm: share of the triad": (0.667, False),
        "gelu: share of the larger limit (memory)": (0.8, True),
        "matmul-64: speed over that of BLAS (numpy)": (2.0, True),
        "softmax: first call, cold, over jax's, cold": (1.2, False),
        "softmax: first call, cold, over torch-compile's, cold": (0.06, False),
        "softmax: first call, warm, over jax's, cold": (0.2, True),
        "softmax: first call, warm, over torch-compile's, cold": (0.01, True),
        "dense-gelu: time over that of the product alone": (1.02, True),
    }
    run.cells["fresh"]["fft"]["jax"] = Cell((1.0,) * 3, 0.02, 0.01)  # nothing but its first call is promised
    found = {line.what: (line.workload, line.reason) for line in lines(run, "fresh") if "fft" in line.what}
    assert found == {
        "fft: first call, cold, over jax's, cold": ("fft", REASONS["fft: first call over jax's"]),
        "fft: first call, warm, over jax's, cold": ("fft", ""),
    }
    run.arithmetic["gelu"] = 0.225
    assert "gelu: share of the larger limit (arithmetic)" in {
        x.what for x in lines(run, "fresh") if x.measured.low == 0.9
    }
    reasons = {line.what: line.reason for line in lines(run, "fresh")}
    assert reasons["softmax: first call, cold, over jax's, cold"] == REASONS["W3a: first call over jax's"]
    assert (
        reasons["softmax: first call, cold, over torch-compile's, cold"] == REASONS["first call over torch-compile's"]
    )
    assert reasons["gelu: share of the larger limit (arithmetic)"] == REASONS["W1b: share"]
    cells = run.cells["fresh"]
    cells["softmax"]["broadloom"] = Cell((1.8, 6.0, 2.5))  # 0.9, 1.5 and 1.25 of jax's: slower, but not beyond doubt
    assert next(lines(run, "fresh")).holds
    cells["softmax"]["broadloom"] = Cell((2.2, 6.0, 2.5))
    assert not next(lines(run, "fresh")).holds
    assert list(lines(Run(), "fresh")) == []


def test_reasons_belong_to_lines() -> None:
    """Each is of a kind of line, or of a line and a kind."""
    kinds = {"time", "mean", "share", "speed", "epilogue"}
    kinds |= {f"{w}first call over {p}'s" for w in ("", "warm ") for p in ("jax", "torch-compile")}
    for name in REASONS:
        line, _, kind = name.rpartition(": ")
        assert kind in kinds and line in FULL_LINES | set(BY_NAME) | {""}, name
    kept = json.loads(document.DATA.read_text())["promises"]
    assert OWN_REASONS.keys() <= {p["what"] for p in kept}
    missed = [row for row in document.own_promises(read(document.DATA)).rows if row[-1] != "yes"]
    assert all(row[-1] == f"NO: {OWN_REASONS[row[0]]}" for row in missed)


def test_the_tables_show_what_the_run_holds() -> None:
    run = a_run()
    sheet = tables.steady(run, "fresh", spreads=False)
    assert sheet.header[2:] == ("numpy", "torch-compile", "jax", "broadloom", "best peer", "ours over it")
    assert sheet.rows[0] == ("softmax", "W3a", "4 s", "4.5 s", "2 s", "1 s", "jax", "0.50 (0.50-0.50)")
    assert sheet.rows[3] == ("heat", "", "1 s", "-", "-", "-", "-", "-")
    assert tables.steady(run, "fresh", spreads=True).rows[2][2] == "2 us (2-2)"
    assert tables.first_calls(run, "fresh").rows[0] == ("softmax", "2.000 / 0.500", "0.100 / 0.050", "0.120 / 0.020")
    assert tables.peaks(run, "fresh").rows[0][3:] == ("1.0", "2.0", "1.0")
    assert tables.bounds(run, "fresh").rows == (
        ("layer-norm", "1000.0 MB", "10.0 GB/s", "67% of the triad"),
        ("matmul-64", "0.5 MFLOP", "524.3 GFLOP/s", "262% of the product"),
        ("gelu", "3000.0 MB, 100 ms of arithmetic", "12.0 GB/s", "80% of the larger of triad and arithmetic"),
    )
    assert list(tables.failures(run))[:2] == [
        "heat, jax, memory fresh: ValueError: no",
        "heat, broadloom, memory fresh: wrong result",
    ]
    for rows in (tables.limits(run), tables.promises(run, "kept"), sheet):
        assert all(len(row) == len(rows.header) for row in rows.rows)


def test_the_picture_has_a_bar_for_each_ratio(tmp_path: Path) -> None:
    run = a_run()
    assert picture.can_draw()
    files = [tmp_path / "a.svg", tmp_path / "b.svg"]
    assert [picture.draw(run, "fresh", f) for f in files] == [3, 3]
    text = files[0].read_text()
    assert text == files[1].read_text()
    assert all(name in text for name in ("W3a softmax", "W4 layer-norm", "matmul 64 matmul-64", "jax"))
    assert "heat" not in text


def test_the_document_is_written_from_its_data(tmp_path: Path) -> None:
    source, target = tmp_path / "run.json", tmp_path / "page.md"
    source.write_text(to_json(a_run()))
    document.write(source, target)
    text = target.read_text()
    assert text == document.text(a_run()) and (tmp_path / "page.svg").exists()
    assert "6 kept, 5 missed" in text
    assert "| softmax | W3a | 4 s (4-7.2) |" in text and "heat, jax, memory kept: ValueError: no" in text


def test_the_document_says_when_the_machine_was_shared() -> None:
    run = a_run()
    assert document.SHARED not in document.text(run)
    run.machine["load before"] = [9.0, 8.0, 7.0]
    assert document.SHARED in document.text(run)


def test_the_committed_document_is_what_its_data_give() -> None:
    assert document.TEXT.read_text() == document.text(document.read(document.DATA))
    run = document.read(document.DATA)
    shown = {facts.line for facts in run.workloads.values()} - {""}
    assert STEADY_LINES | set(MEMORY_SHARES) | set(BLAS_LINES) <= shown == FULL_LINES
    assert set(run.cells) == set(MEMORY) and set(run.cells["fresh"]) == set(BY_NAME)


def test_processes_get_threads_caches_and_the_processor_s_own_code(tmp_path: Path, monkeypatch: Any) -> None:
    for name in (*CHOSEN_PROCESSOR, "MALLOC_ARENA_MAX"):
        monkeypatch.setenv(name, "7")
    fresh, kept = (environment(3, memory, tmp_path) for memory in MEMORY)
    assert not {*CHOSEN_PROCESSOR, "MALLOC_ARENA_MAX"} & set(fresh)
    assert fresh["BROADLOOM_NUM_THREADS"] == fresh["OMP_NUM_THREADS"] == "3"
    assert fresh["BROADLOOM_CACHE_DIR"].startswith(str(tmp_path))
    assert {k: v for k, v in kept.items() if k not in fresh} == MEMORY["kept"] != {}


def test_arrays_are_kept_with_their_dtypes(tmp_path: Path) -> None:
    given = (*(np.arange(k, dtype=np.int8) for k in range(12)), np.array([1, 1.5], bfloat16), np.ones((2, 0)))
    worker.save(tmp_path / "some", given)
    found = worker.load(tmp_path / "some")
    assert [(a.dtype, a.shape, a.tobytes()) for a in found] == [(a.dtype, a.shape, a.tobytes()) for a in given]


def test_a_process_says_what_it_could_not_do(tmp_path: Path) -> None:
    process = Process(COLUMNS["numpy"], Path(sys.executable), 1, environment(1, "fresh", tmp_path), tmp_path / "log")
    try:
        with pytest.raises(ColumnError, match="KeyError: 'absent'"):
            process.ask("load", name="absent", folder=str(tmp_path))
        assert process.ask("load", name="tiny", folder=str(tmp_path)) == {"has": True} and process.version
        with pytest.raises(ColumnError, match="TypeError"):  # no arguments were kept there
            process.ask("first")
    finally:
        process.close()
    gone = Process(COLUMNS["numpy"], Path("/bin/false"), 1, {}, tmp_path / "log")
    with pytest.raises(ColumnError, match="process ended with 1"):
        gone.ask("first")


def test_a_turn_begins_when_no_other_column_runs(tmp_path: Path) -> None:
    process = Process(COLUMNS["numpy"], Path(sys.executable), 1, environment(1, "fresh", tmp_path), tmp_path / "log")
    assert not process.runs()
    try:
        save(tmp_path / "tiny", BY_NAME["tiny"].arguments(1.0))
        process.ask("load", name="tiny", folder=str(tmp_path / "tiny"))
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(process.ask, "time", count=100_000, untimed=False, part=False)
            while not process.runs():
                assert not answer.done()
            comparison.settle([process])
            assert answer.done() and not process.runs()
        assert answer.result()["seconds"] > 0
    finally:
        process.close()


def test_a_first_call_finds_pages_at_hand(tmp_path: Path) -> None:
    save(tmp_path, (np.ones(1 << 21),))  # 16 MB
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, worker.resident("VmRSS")
    comparison.supply(tmp_path)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    assert faults >= (64 + 4 * 16) // 2  # of 2 MB each at most
    assert worker.resident("VmRSS") < began + 16 * 2**20  # and all are given back


def test_no_workload_inherits_the_memory_of_another() -> None:
    workload = BY_NAME["gelu"]
    call = columns.broadloom(workload, workload.arguments(0.2)).call
    call()
    assert native.block_statistics().kept_bytes >= 8_000_000
    columns.forget(COLUMNS[OURS])
    assert native.block_statistics().kept_bytes <= 1 << 20
    call()
    assert native.block_statistics().kept_bytes >= 8_000_000


def test_columns_that_are_not_installed_are_left_out() -> None:
    python = Path(sys.executable)
    absent = dataclasses.replace(COLUMNS["numpy"], package="no_such_package")
    assert comparison.installed((absent, COLUMNS["numpy"]), python) == [COLUMNS["numpy"]]
    assert comparison.installed((COLUMNS["numpy"],), Path("/nowhere/python")) == []


def test_a_small_run_measures_every_column_and_finds_wrong_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = Path(sys.executable)
    chosen = [BY_NAME["n-body"], BY_NAME["softmax"]]
    effort = Effort(0.001, 2, 2)
    plan = Plan(chosen, [COLUMNS["numpy"], COLUMNS[OURS]], python, python, 1, ("kept",), effort, 0, 0.01)
    said: list[str] = []
    run = comparison.compare(plan, said.append, tmp_path)
    assert list(run.cells) == ["kept"] and list(run.cells["kept"]) == ["n-body", "softmax"]
    for row in run.cells["kept"].values():
        ours = row[OURS]
        assert list(row) == ["numpy", OURS] and not ours.failed and row["numpy"].cold is None
        assert ours.cold is not None and ours.warm is not None and min(ours.cold, ours.warm) > 0
        assert all(len(c.seconds) == 2 and None not in c.seconds for c in row.values())
        assert ours.peak is None or ours.peak >= 0
    assert run.workloads["softmax"].bytes == 2 * 41 * 1024 * 4
    assert set(run.versions) == {"numpy", OURS} and len(run.machine["load before"]) == 3
    assert (tmp_path / f"{OURS}.log").exists() and any("softmax" in s for s in said)
    monkeypatch.setattr(comparison, "compared", lambda a, b: (0.5, False))
    wrong = comparison.compare(dataclasses.replace(plan, workloads=chosen[:1]), said.append)
    assert wrong.cells["kept"]["n-body"][OURS].failed == "wrong result, off by 0.5"


def test_first_calls_are_medians_of_processes_that_each_found_an_empty_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = Path(sys.executable)
    plan = Plan([BY_NAME["tiny"]], [COLUMNS["numpy"], COLUMNS[OURS]], python, python, 1)
    save(tmp_path / "tiny", BY_NAME["tiny"].arguments(1.0))
    taken: list[float] = []
    kept: list[int] = []
    ask = Process.ask

    def watched(self: Process, what: str, **details: object) -> dict[str, Any]:
        if what == "first":
            kept.append(sum(f.is_file() for f in Path(self.variables["BROADLOOM_CACHE_DIR"]).rglob("*")))
        answer = ask(self, what, **details)
        if what == "first":
            taken.append(answer["seconds"])
        return answer

    monkeypatch.setattr(Process, "ask", watched)
    found = comparison.first_calls(plan, tmp_path, lambda text: None)
    assert found == {"tiny": {OURS: sorted(taken)[1]}} and len(set(taken)) == comparison.FIRST_CALLS == 3
    now = [sum(f.is_file() for f in (tmp_path / f"caches{n}").rglob("*")) for n in (2, 1, "")]
    assert len(set(kept)) == 1 and all(after > before for before, after in zip(kept, now, strict=True))


def test_the_product_alone_takes_its_turn_in_the_same_rounds() -> None:
    python = Path(sys.executable)
    effort = Effort(0.001, 3, 3)
    plan = Plan(
        [BY_NAME["dense-gelu"]], [COLUMNS["numpy"], COLUMNS[OURS]], python, python, 1, effort=effort, scale=0.01
    )
    row = comparison.compare(plan, lambda text: None).cells["fresh"]["dense-gelu"]
    assert list(row) == ["numpy", OURS, PART]
    assert all(len(cell.seconds) == 3 and None not in cell.seconds for cell in row.values())
    x, weight, bias = BY_NAME["dense-gelu"].arguments(0.01)
    prepared = columns.broadloom(BY_NAME["dense-gelu"], (x, weight, bias))
    assert prepared.part is not None
    np.testing.assert_allclose(prepared.part(), x @ weight, rtol=1e-5, atol=1e-6)
    assert [w.name for w in WORKLOADS if w.part] == ["dense-gelu"]


def test_the_triad_takes_its_turn_where_memory_is_the_limit() -> None:
    python = Path(sys.executable)
    effort = Effort(0.001, 3, 3)
    chosen = [BY_NAME["variance"], BY_NAME["tiny"]]
    plan = Plan(chosen, [COLUMNS["numpy"], COLUMNS[OURS]], python, python, 1, effort=effort, scale=0.01)
    run = comparison.compare(plan, lambda text: None)
    assert {name: TRIAD in row for name, row in run.cells["fresh"].items()} == {"variance": True, "tiny": False}
    triad = run.cells["fresh"]["variance"][TRIAD]
    assert len(triad.seconds) == 3 and None not in triad.seconds and not triad.failed
    rate = limits.TRIAD_BYTES / triad.spread.median / 1e9
    assert 0.3 < rate < 2000  # the whole of the arrays was moved, at the rate of a memory
    (share,) = (line for line in lines(run, "fresh") if line.kind == "share")
    assert share.what == "variance: share of the triad"
    promised = {w.line for w in WORKLOADS if w.bound} - {""}
    assert promised == set(MEMORY_SHARES)


def test_the_limits_are_those_of_loops_that_compute() -> None:
    engine, addresses = limits.machine_code()
    assert engine is not None and set(addresses) == set(limits.BYTES)
    found = limits.bandwidths(2, 1 << 12)
    assert set(found) == set(limits.BYTES) and all(v > 0 for v in found.values())
    assert limits.products(64) > 0
    assert limits.aligned(128).ctypes.data % 64 == 0 and limits.aligned(128).size == 128


def test_rates_are_those_of_instructions_that_run() -> None:
    found = throughput.rates(target.host().lanes(32))
    assert set(found) == {"multiply", "add", "divide", "all"} and all(1e-12 < s < 1e-6 for s in found.values())
    assert found["divide"] > found["multiply"] > 0.4 * found["all"]


def test_the_instructions_of_a_loop_are_counted() -> None:
    text = """f:
\tvmulps\t%zmm0, %zmm1, %zmm2
.LBB0_1:
\tvmovups\t(%rsi,%rax,4), %zmm0
\tvfmadd213ps\t%zmm2, %zmm1, %zmm0
\tvmulps\t(%rdi), %zmm0, %zmm3
\tvaddps\t%zmm2, %zmm0, %zmm0
\tvandps\t%zmm2, %zmm0, %zmm0
\tvmulss\t%xmm2, %xmm1, %xmm4
\taddq\t$32, %rax
\tcmpq\t%rax, %rcx
\tjne\t.LBB0_1
\tvaddps\t%zmm2, %zmm0, %zmm0
.Lfunc_end0:
"""
    ((loop,),) = throughput.loops(text + text.replace("LBB0_1", "LBB1_1").replace("jne", "call"))
    assert loop == throughput.Loop(32, {"multiply": 2, "add": 1, "all": 4})
    rate = {"multiply": 3.0, "add": 4.0, "divide": 9.0, "all": 1.0}
    assert throughput.seconds(loop, rate) == 6 / 32
    sums, elements = throughput.assembly_of("gelu")
    assert elements == 10**7 and max(loop.counts["multiply"] for own in throughput.loops(sums) for loop in own) >= 20


def test_options_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.parse([]).peers is None and command.parse([]).memory == "fresh"
    assert command.parse(["--peers", "--only", "softmax"]).peers == command.PEERS
    for wrong, said in (
        (["--only", "sotfmax"], "no workload is named sotfmax"),
        (["--columns", "fortran"], "no column is named fortran"),
        (["--document", "--only", "softmax"], "leave out --only"),
    ):
        with pytest.raises(SystemExit):
            command.parse(wrong)
        assert said in capsys.readouterr().err
    assert os.access(document.ROOT / "benchmarks" / "peers.txt", os.R_OK)
