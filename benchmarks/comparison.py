"""The comparison itself: all columns on all workloads, in one run.

What goes in: workloads, columns, and how to measure. What comes out: a `Run`. What holds: each column has a process of
its own for the whole run; on each workload the columns take turns in random order, so that what disturbs the machine
disturbs all alike; a result that differs from NumPy's is a failure and has no time.
"""

from __future__ import annotations

import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.columns import LIMIT, OURS, PART, TRIAD, Column
from benchmarks.processes import MEMORY, ROOT, ColumnError, Process, environment
from benchmarks.results import Cell, Facts, Run, compared
from benchmarks.timing import Effort, in_rounds
from benchmarks.worker import load, save
from benchmarks.workloads import Workload

PAUSE, LONGEST_PAUSE = 0.03, 1.0  # seconds between measurements
FIRST_CALLS = 3  # of each workload with an empty cache
LONG = 0.05  # calls that take as long need no untimed one before them: caches are the least of it


@dataclass(frozen=True, slots=True)
class Plan:
    """How a run is made. `pythons` has the interpreters of our own columns and of the peers."""

    workloads: Sequence[Workload]
    columns: Sequence[Column]
    own_python: Path
    peers_python: Path
    threads: int = 2
    memory: Sequence[str] = ("fresh",)
    effort: Effort = field(default_factory=Effort)
    seed: int = 0
    scale: float = 1.0

    def process(self, column: Column, memory: str, folder: Path, caches: Path | None = None) -> Process:
        """A process of the column, whose compiled code is kept in `caches`."""
        python = self.peers_python if column.peer else self.own_python
        variables = environment(self.threads, memory, caches or folder / "caches")
        return Process(column, python, self.threads, variables, folder / f"{column.name}.log")


def installed(columns: Iterable[Column], python: Path) -> list[Column]:
    """Those columns whose packages the interpreter finds."""
    wanted = list(columns)
    if not python.exists():
        return []
    code = "import importlib.util as u, json, sys; print(json.dumps([bool(u.find_spec(n)) for n in sys.argv[1:]]))"
    answer = subprocess.check_output([str(python), "-c", code, *(c.package for c in wanted)], cwd=ROOT)
    return [c for c, there in zip(wanted, json.loads(answer), strict=True) if there]


def machine() -> dict[str, object]:
    """The facts that the numbers depend on."""
    information = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    lines = [line.split(":", 1) for line in information.split("\n\n")[0].splitlines() if ":" in line]
    facts = {name.strip(): value.strip() for name, value in lines}
    known = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "asimd", "sve")
    return {
        "processor": facts.get("model name", platform.processor()),
        "family and model": f"{facts.get('cpu family', '?')}, {facts.get('model', '?')}",
        "vectors": [f for f in known if f in (facts.get("flags") or facts.get("Features") or "").split()],
        "cores": len(os.sched_getaffinity(0)),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.machine()}, {' '.join(platform.libc_ver())}",
        "python": platform.python_version(),
    }


def load_now() -> list[float]:
    return [round(x, 2) for x in os.getloadavg()]


def supply(arguments: Path) -> None:
    """Touch and give back as much memory as the first call with the arguments kept in a folder may need. The host of a
    virtual machine takes what lies idle: 32 MB from there take 90 ms, where pages that the system has take 2."""
    size = 64 * 2**20 + 4 * sum(f.stat().st_size for f in arguments.iterdir())
    np.empty(size, np.uint8)[:: os.sysconf("SC_PAGE_SIZE")] = 1


def first_calls(plan: Plan, folder: Path, say: Callable[[str], None]) -> dict[str, dict[str, float]]:
    """Seconds of first calls with an empty cache, by workload and column, the median of `FIRST_CALLS` processes between
    which the other columns take their turns; the last leaves its cache filled. Failures show later, with reasons."""
    found: dict[str, dict[str, list[float]]] = {w.name: {} for w in plan.workloads}
    for turn in reversed(range(FIRST_CALLS)):
        caches = folder / (f"caches{turn}" if turn else "caches")
        for column in plan.columns:
            if column.compiles:
                process = plan.process(column, "fresh", folder, caches)
                for workload in plan.workloads:
                    say(f"first call, {column.name}: {workload.name}")
                    with suppress(ColumnError):
                        answer = first_call(process, workload, folder)
                        if answer is not None:
                            found[workload.name].setdefault(column.name, []).append(answer["seconds"])
                process.close()
    return {w: {c: statistics.median(seconds) for c, seconds in row.items()} for w, row in found.items()}


def first_call(process: Process, workload: Workload, folder: Path, kept: Path | None = None) -> dict[str, Any] | None:
    """What a process answers that loads a workload and runs it first, its result put into `kept`; None where the column
    leaves it out. Raises `ColumnError`."""
    if not process.ask("load", name=workload.name, folder=str(folder / workload.name))["has"]:
        return None
    supply(folder / workload.name)
    return process.ask("first", folder=None if kept is None else str(kept))


def prepare(process: Process, workload: Workload, folder: Path) -> Cell | None:
    """Load a workload, run it first, compare with NumPy's result; None where the column leaves it out."""
    kept = folder / "results" / process.column.name
    try:
        answer = first_call(process, workload, folder, kept)
    except ColumnError as failure:
        return Cell(failed=str(failure))
    if answer is None:
        return None
    error, close = compared(load(kept), load(folder / "results" / "numpy"))
    if not close:
        return Cell(error=error, failed=f"wrong result, off by {error:.2g}")
    return Cell(warm=answer["seconds"] if process.column.compiles else None, peak=answer["peak"], error=error)


def settle(processes: Iterable[Process]) -> None:
    """Pause until all threads of all processes sleep: those of OpenBLAS spin for 2**28 cycles after a product, and
    whoever comes next would share its processors with them."""
    time.sleep(PAUSE)
    ends = time.perf_counter() + LONGEST_PAUSE
    while any(process.runs() for process in processes) and time.perf_counter() < ends:
        time.sleep(1e-3)


def steady(
    processes: dict[str, Process], plan: Plan, draw: random.Random, has_part: bool
) -> tuple[dict[str, list[float | None]], dict[str, str]]:
    """The times of the prepared processes, that of our part, and the failures of those that broke down on the way."""
    failures: dict[str, str] = {}
    long: set[str] = set()

    def measure(name: str, count: int) -> float:
        settle(processes.values())
        part = name == PART
        try:
            process = processes[OURS if part else name]
            seconds: float = process.ask("time", count=count, untimed=name not in long, part=part)["seconds"]
        except ColumnError as failure:
            failures.setdefault(name, str(failure))
            return float("inf")
        if seconds > LONG:
            long.add(name)
        return seconds

    names = [*processes, PART] if has_part and OURS in processes else list(processes)
    return in_rounds(measure, names, (OURS, PART, TRIAD), plan.effort, draw), failures


def measure_workload(
    processes: dict[str, Process], limit: Process, workload: Workload, plan: Plan, folder: Path, draw: random.Random
) -> dict[str, Cell]:
    """All columns on one workload, and the triad where memory is the limit: its rate has its hours, as the machine."""
    cells: dict[str, Cell] = {}
    for name, process in processes.items():
        cell = prepare(process, workload, folder)
        if cell is not None:
            cells[name] = cell
    ready = {name: processes[name] for name, cell in cells.items() if not cell.failed}
    if workload.bound:
        limit.ask("load", name=workload.name, folder=str(folder / workload.name))
        ready[TRIAD] = limit
    times, failures = steady(ready, plan, draw, workload.part is not None)
    for name, seconds in times.items():
        old = cells.get(name, Cell())
        failed = failures.get(name, "")
        cells[name] = Cell(() if failed else tuple(seconds), None, old.warm, old.peak, old.error, failed)
    return cells


def with_cold(cells: dict[str, Cell], cold: dict[str, float]) -> dict[str, Cell]:
    return {n: Cell(c.seconds, cold.get(n), c.warm, c.peak, c.error, c.failed) for n, c in cells.items()}


def facts(workload: Workload, folder: Path) -> Facts:
    moved = sum(a.nbytes for part in (folder / workload.name, folder / "results" / "numpy") for a in load(part))
    return Facts(workload.what, workload.line, workload.bound, workload.flops, moved)


def compare(
    plan: Plan, say: Callable[[str], None], logs: Path | None = None, between: Callable[[], None] = lambda: None
) -> Run:
    """Make the run; `say` is told what is being done, `logs` is a folder for what the columns print; `between` is
    called before each way of memory, and at the end."""
    run = Run(machine=machine(), settings={"threads": plan.threads, "seed": plan.seed, "effort": asdict(plan.effort)})
    run.machine["load before"] = load_now()
    run.settings["memory"] = {memory: MEMORY[memory] for memory in plan.memory}
    with TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        if logs is not None:
            stack.callback(lambda: [shutil.copy(f, logs) for f in folder.glob("*.log")])
        for workload in plan.workloads:
            say(f"arguments: {workload.name}")
            save(folder / workload.name, workload.arguments(plan.scale))
        cold = first_calls(plan, folder, say)
        for memory in plan.memory:
            between()
            processes = {c.name: plan.process(c, memory, folder) for c in plan.columns}
            limit = plan.process(LIMIT, memory, folder)
            for process in (*processes.values(), limit):
                stack.callback(process.close)
            rows: dict[str, dict[str, Cell]] = {}
            for workload in plan.workloads:
                say(f"memory {memory}: {workload.name}")
                draw = random.Random(f"{plan.seed} {memory} {workload.name}")
                cells = measure_workload(processes, limit, workload, plan, folder, draw)
                rows[workload.name] = with_cold(cells, cold[workload.name])
                run.workloads[workload.name] = facts(workload, folder)
                shutil.rmtree(folder / "results")
            run.cells[memory] = rows
            run.versions = {n: p.version for n, p in processes.items() if p.version}
            for process in (*processes.values(), limit):
                process.close()
        between()
    run.machine["load after"] = load_now()
    return run
