"""One column's process: `python -m benchmarks.worker COLUMN THREADS`, told on standard input what to do.

What goes in: one JSON object a line, `{"do": name, ...}`. What comes out: one JSON object a line for each, with what
was asked for, or `{"error": text}`. What holds: one workload is loaded at a time; whatever a library prints goes to
standard error; a failure of a column is an answer and not the end.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
import time
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

from benchmarks.columns import COLUMNS, LIMIT, Column, Prepared, forget, start
from benchmarks.processes import processors
from benchmarks.workloads import BY_NAME

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def resident(field: str) -> int:
    """Bytes of this process: VmRSS now, VmHWM at most since the last reset."""
    (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith(field + ":"))
    return int(line.split()[1]) * 1024


def save(folder: Path, arrays: tuple[np.ndarray, ...]) -> None:
    """Keep arrays as files 0.npy, 1.npy, ...; bfloat16, which the format has no name for, as 0.bfloat16.npy."""
    folder.mkdir(parents=True, exist_ok=True)
    for index, array in enumerate(arrays):
        if array.dtype == bfloat16:
            np.save(folder / f"{index}.bfloat16.npy", array.view(np.uint16))
        else:
            np.save(folder / f"{index}.npy", array)


def load(folder: Path) -> tuple[np.ndarray, ...]:
    """The arrays that were kept in a folder."""
    files = sorted(folder.glob("*.npy"), key=lambda f: int(f.name.split(".")[0]))
    return tuple(np.load(f).view(bfloat16) if ".bfloat16." in f.name else np.load(f) for f in files)


class Session:
    """The state of the process, and a method for each thing it can be told."""

    def __init__(self, column: Column, threads: int) -> None:
        self.column, self.threads = column, threads
        self.prepared: Prepared | None = None
        self.base = 0

    def start(self) -> dict[str, Any]:
        return {"version": start(self.column, self.threads)}

    def load(self, name: str, folder: str) -> dict[str, Any]:
        """Take up a workload; `{"has": False}` where the column leaves it out."""
        self.prepared = None
        forget(self.column)
        ctypes.CDLL(None).malloc_trim(0)
        self.base = resident("VmRSS")
        self.prepared = self.column.prepare(BY_NAME[name], load(Path(folder)))
        return {"has": self.prepared is not None}

    def first(self, folder: str | None = None) -> dict[str, Any]:
        """The first call's seconds; with a folder, its result is kept there, and the peak of a later call is taken."""
        assert self.prepared is not None
        began = time.perf_counter()
        result = self.prepared.call()
        seconds = time.perf_counter() - began
        if folder is None:
            return {"seconds": seconds}
        results = result if isinstance(result, tuple | list) else (result,)
        save(Path(folder), tuple(self.prepared.to_numpy(r) for r in results))
        del result, results
        gc.collect()
        self.prepared.call()
        try:
            CLEAR.write_text("5")
        except OSError:  # not allowed here
            return {"seconds": seconds, "peak": None}
        self.prepared.call()
        return {"seconds": seconds, "peak": max(0, resident("VmHWM") - self.base)}

    def time(self, count: int, untimed: bool, part: bool) -> dict[str, Any]:
        """Seconds a call, of `count` calls in a row, after an untimed one; of the part, if asked for."""
        assert self.prepared is not None
        call = self.prepared.part if part else self.prepared.call
        assert call is not None
        if untimed:
            call()
        gc.disable()
        began = time.perf_counter()
        for _ in repeat(None, count):
            call()
        seconds = time.perf_counter() - began
        gc.enable()
        return {"seconds": seconds / count}

    def answer(self, order: dict[str, Any]) -> dict[str, Any]:
        try:
            found: dict[str, Any] = getattr(self, order.pop("do"))(**order)
        except Exception as error:  # noqa: BLE001  # compilers raise classes of their own; the process has more to run
            return {"error": f"{type(error).__name__}: {error}".splitlines()[0][:120]}
        return found


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    threads = int(sys.argv[2])
    os.sched_setaffinity(0, processors(threads))  # before any library counts the processors
    session = Session({**COLUMNS, LIMIT.name: LIMIT}[sys.argv[1]], threads)
    for line in sys.stdin:
        answers.write(json.dumps(session.answer(json.loads(line))) + "\n")


if __name__ == "__main__":
    main()
