"""`python -m benchmarks [--peers] [--only NAME ...] [--budget SECONDS]`: run, show, and keep the numbers.

Results are also written to benchmarks/results/, one JSON file a run.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import eager, first_call, mapped, peers, timing
from benchmarks.targets import FirstCall, Target, targets
from benchmarks.timing import Time
from benchmarks.workloads import WORKLOADS, Workload

RESULTS = Path(__file__).parent / "results"


def run_workload(workload: Workload, names: list[str], budget: float) -> dict[str, Time | str]:
    """The times of one workload by compiler; a text where a compiler cannot take it."""
    arguments = workload.arguments(1.0)
    calls, firsts = {}, {}
    found: dict[str, Time | str] = {}
    for name in names:
        function = {**peers.OWN, **peers.OTHERS}[name](workload)
        try:
            firsts[name], result = timing.first_call(lambda f=function: f(*arguments))
        except Exception as error:  # noqa: BLE001  # a peer's failure is a result, whatever it raises
            found[name] = f"{type(error).__name__}: {error}".splitlines()[0][:80]
            continue
        if name == "numpy":
            expected = result
        elif not close(result, expected):
            found[name] = "wrong result"
            continue
        calls[name] = lambda f=function: f(*arguments)
    for name, times in timing.steady(calls, budget).items():
        found[name] = timing.summary(firsts[name], times)
    return found


def close(result: object, expected: object) -> bool:
    """Equal enough that the same work was done: one step for integers, float32 rounding for floats."""
    a, b = np.asarray(result), np.asarray(expected)
    if a.shape != b.shape:
        return False
    if b.dtype.kind in "iub":
        return int(np.max(np.abs(a.astype(np.int64) - b.astype(np.int64)), initial=0)) <= 1
    return bool(np.allclose(a, b, rtol=1e-3, atol=1e-3 * float(np.max(np.abs(b), initial=0))))


def show_time(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.2f} us"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


def show_workloads(console: Console, results: dict[str, dict[str, Time | str]], names: list[str]) -> None:
    table = Table(title="Median time of a call, and of the first")
    table.add_column("workload")
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("broadloom, first", justify="right", no_wrap=True)
    table.add_column("x NumPy", justify="right", no_wrap=True)
    failures = []
    for workload, row in results.items():
        shown = [show_time(t.median) if isinstance(t := row[name], Time) else "-" for name in names]
        failures += [f"{workload}, {name}: {t}" for name, t in row.items() if isinstance(t, str)]
        own, base = row["broadloom"], row["numpy"]
        if isinstance(own, Time) and isinstance(base, Time):
            shown += [show_time(own.first), f"{base.median / own.median:.1f}"]
        table.add_row(workload, *shown)
    console.print(table)
    for failure in failures:
        console.print(f"not run: {failure}")


def show_first_calls(console: Console) -> list[FirstCall]:
    table = Table(title="First call in a new process, 1000 elements")
    table.add_column("elementwise ops")
    for column in ("import", "empty cache", "warm cache", "second call"):
        table.add_column(column, justify="right")
    found: list[FirstCall] = []
    for kind, count in first_call.SIZES:
        with console.status(f"{count} ops: {kind}"):
            cold, warm = first_call.cold_and_warm(kind, count)
        found.append(FirstCall(kind, count, cold, warm))
        shown = (cold["import"], cold["first"], warm["first"], warm["second"])
        table.add_row(f"{count}: {kind}", *(show_time(s) for s in shown))
    console.print(table)
    return found


def show_eager(console: Console, budget: float) -> dict[str, Mapping[str, Time]]:
    table = Table(title="A call at once on 10 elements, the least of all times")
    for column in ("function", "numpy", "broadloom"):
        table.add_column(column, justify="left" if column == "function" else "right")
    with console.status("calls at once"):
        found = eager.measure(budget)
    for name, times in found.items():
        table.add_row(name, *(show_time(times[who].least) for who in ("numpy", "broadloom")))
    console.print(table)
    return found


def show_mapped(console: Console, budget: float) -> Mapping[str, Time]:
    table = Table(title=f"A function of {mapped.OPS} ops on 8192 vectors of 512, compiled")
    for column in ("batched", "median", "least", "first"):
        table.add_column(column, justify="left" if column == "batched" else "right")
    with console.status("mapped and by hand"):
        found = mapped.measure(budget)
    for name, t in found.items():
        table.add_row(name, *(show_time(s) for s in (t.median, t.least, t.first)))
    console.print(table)
    return found


def show_targets(console: Console, promised: list[Target]) -> None:
    table = Table(title="Promises")
    for column, side in (("what", "left"), ("promised", "right"), ("measured", "right"), ("kept", "left")):
        table.add_column(column, justify=side)  # type: ignore[arg-type]  # rich's own names
    for t in promised:
        bound = "at least" if t.least else "at most"
        table.add_row(
            t.what, f"{bound} {t.allowed:g} {t.unit}", f"{t.measured:.3g} {t.unit}", "yes" if t.holds else "NO"
        )
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench", description="Times of compiled functions.")
    parser.add_argument("--peers", action="store_true", help="compare with numba, jax and torch as well")
    parser.add_argument("--only", nargs="*", metavar="NAME", help=f"some of: {', '.join(w.name for w in WORKLOADS)}")
    parser.add_argument("--budget", type=float, default=1.0, help="seconds spent on each cell (default 1)")
    options = parser.parse_args()
    unknown = set(options.only or ()) - {w.name for w in WORKLOADS}
    if unknown:
        parser.error(f"no workload is named {', '.join(sorted(unknown))}")
    console = Console()
    console.width = max(console.width, 120)
    names = list(peers.OWN)
    if options.peers:
        names += [p for p in peers.OTHERS if peers.installed(p)]
        for missing in (p for p in peers.OTHERS if not peers.installed(p)):
            console.print(f"not installed, left out: {missing}")
    results = {}
    for workload in WORKLOADS:
        if not options.only or workload.name in options.only:
            with console.status(workload.what):
                results[workload.name] = run_workload(workload, names, options.budget)
    show_workloads(console, results, names)
    first_calls = [] if options.only else show_first_calls(console)
    at_once = {} if options.only else show_eager(console, options.budget / 5)
    by_vmap = {} if options.only else show_mapped(console, options.budget)
    promised = list(targets(results, first_calls, at_once, by_vmap))
    show_targets(console, promised)
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / time.strftime("%Y%m%d-%H%M%S.json")
    kept = {
        w: {n: dataclasses.asdict(t) if isinstance(t, Time) else t for n, t in r.items()} for w, r in results.items()
    }
    machine = {"machine": platform.machine(), "python": platform.python_version(), "numpy": np.__version__}
    path.write_text(
        json.dumps({**machine, "workloads": kept, "compile": [dataclasses.asdict(f) for f in first_calls]}, indent=1)
        + "\n"
    )
    console.print(f"kept in {path.relative_to(first_call.ROOT)}")


if __name__ == "__main__":
    main()
