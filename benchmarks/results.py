"""A run of the comparison as data: what was measured, and what follows from it.

What goes in: cells. What comes out: best peers, ratios, and JSON that reads back as the same run. What holds: nothing
that can be computed is stored, so that a table drawn from a kept run is the table that was printed.
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

from benchmarks.columns import COLUMNS, OURS
from benchmarks.timing import Spread, Time, paired, spread

PEERS = tuple(name for name in COLUMNS if name != OURS)  # NumPy is one to be faster than
# Of the largest value of NumPy's result, by its dtype. Sums that NumPy takes one value after the other are as far off
# as that themselves.
TOLERANCES = {"bfloat16": 1e-2, "float32": 1e-3, "float64": 1e-7}


@dataclass(frozen=True, slots=True)
class Cell:
    """One column on one workload: seconds a call of each round (None: not in that round), of the first call with an
    empty and with a filled cache, the most memory in bytes, and the error. Or else the reason why it `failed`."""

    seconds: tuple[float | None, ...] = ()
    cold: float | None = None
    warm: float | None = None
    peak: int | None = None
    error: float = 0.0
    failed: str = ""

    @property
    def spread(self) -> Spread:
        return spread([s for s in self.seconds if s is not None])

    @property
    def time(self) -> Time:
        """The numbers in short."""
        return Time(self.cold or 0.0, self.spread.median, min(s for s in self.seconds if s is not None))


@dataclass(frozen=True, slots=True)
class Facts:
    """What a table has to know of a workload; `bytes` are those of its arguments and results."""

    what: str
    line: str
    bound: str
    flops: float
    bytes: int


@dataclass(frozen=True, slots=True)
class Ratio:
    """Our time over the best peer's, by rounds."""

    peer: str
    spread: Spread


@dataclass(slots=True)
class Run:
    """One run. `cells` by how memory is kept, workload and column; `limits` by number of threads; `arithmetic` has the
    least seconds a call that the instructions of some workloads take."""

    machine: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    limits: dict[str, dict[str, float]] = field(default_factory=dict)
    arithmetic: dict[str, float] = field(default_factory=dict)
    workloads: dict[str, Facts] = field(default_factory=dict)
    cells: dict[str, dict[str, dict[str, Cell]]] = field(default_factory=dict)
    promises: list[dict[str, Any]] = field(default_factory=list)
    compile: list[dict[str, Any]] = field(default_factory=list)

    def measured(self, memory: str, workload: str) -> dict[str, Cell]:
        """The columns that have times."""
        return {name: c for name, c in self.cells.get(memory, {}).get(workload, {}).items() if not c.failed}

    def best_peer(self, memory: str, workload: str) -> str | None:
        """The column other than ours with the least median."""
        cells = self.measured(memory, workload)
        return min((n for n in PEERS if n in cells), key=lambda n: cells[n].spread.median, default=None)

    def ratio(self, memory: str, workload: str) -> Ratio | None:
        """Our time over the best peer's; None where one of the two is missing."""
        cells, peer = self.measured(memory, workload), self.best_peer(memory, workload)
        if peer is None or OURS not in cells:
            return None
        ratios = paired(cells[OURS].seconds, cells[peer].seconds)
        return ratios and Ratio(peer, ratios)

    def times(self) -> dict[str, dict[str, Time | str]]:
        """By workload and column, of the first way that memory was kept."""
        first = next(iter(self.cells.values()), {})
        return {w: {n: c.failed or c.time for n, c in row.items()} for w, row in first.items()}


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _plain(cell: Cell) -> dict[str, Any]:
    """A cell without what is not there, in as many digits as mean something."""
    found = {k: v for k, v in dataclasses.asdict(cell).items() if v not in (None, "", ())}
    for name in ("cold", "warm", "error"):
        if name in found:
            found[name] = _rounded(found[name])
    if "seconds" in found:
        found["seconds"] = [s and _rounded(s) for s in found["seconds"]]
    return found


def to_json(run: Run) -> str:
    """The run as text: one line a cell."""
    rest = {f.name: getattr(run, f.name) for f in dataclasses.fields(run) if f.name != "cells"}
    rest["workloads"] = {name: dataclasses.asdict(facts) for name, facts in run.workloads.items()}
    lines = [
        f"  {json.dumps(memory)}: {{\n"
        + ",\n".join(
            f"   {json.dumps(workload)}: {{\n"
            + ",\n".join(f"    {json.dumps(name)}: {json.dumps(_plain(cell))}" for name, cell in row.items())
            + "}"
            for workload, row in rows.items()
        )
        + "}"
        for memory, rows in run.cells.items()
    ]
    return json.dumps(rest, indent=1)[:-2] + ',\n "cells": {\n' + ",\n".join(lines) + "\n }\n}\n"


def from_json(text: str) -> Run:
    """The run that was written."""
    data = json.loads(text)
    data["workloads"] = {name: Facts(**facts) for name, facts in data["workloads"].items()}
    data["cells"] = {
        memory: {
            workload: {n: Cell(**{**c, "seconds": tuple(c.get("seconds", ()))}) for n, c in row.items()}
            for workload, row in rows.items()
        }
        for memory, rows in data["cells"].items()
    }
    return Run(**data)


def read(path: Path) -> Run:
    return from_json(path.read_text())


def error(result: Any, expected: Any) -> float:
    """How far a result is from NumPy's: the largest difference over the largest value for floats, in steps for
    integers; infinite where shapes differ."""
    a, b = np.asarray(result), np.asarray(expected)
    if a.shape != b.shape:
        return math.inf
    if b.dtype == bfloat16:
        a, b = a.astype(np.float32), b.astype(np.float32)
    if b.dtype.kind in "iub":
        return float(np.max(np.abs(a.astype(np.int64) - b.astype(np.int64)), initial=0))
    most = float(np.max(np.abs(b), initial=0))
    difference = float(np.max(np.abs(a - b), initial=0))
    return difference / most if most else difference


def close(result: Any, expected: Any) -> bool:
    """Equal enough that the same work was done: one step for integers, `TOLERANCES` for floats."""
    b = np.asarray(expected)
    allowed = 1.0 if b.dtype.kind in "iub" else TOLERANCES[b.real.dtype.name]
    return error(result, b) <= allowed


def compared(results: tuple[np.ndarray, ...], expected: tuple[np.ndarray, ...]) -> tuple[float, bool]:
    """The largest error of several results, and whether all are close."""
    if len(results) != len(expected):
        return math.inf, False
    pairs = list(zip(results, expected, strict=True))
    return max(error(a, b) for a, b in pairs), all(close(a, b) for a, b in pairs)
