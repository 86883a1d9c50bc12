"""The processes of the columns, as the measuring one sees them.

What goes in: a column, the interpreter it runs under, how its memory is kept, and folders. What comes out: a `Process`
that is told what to do and answers. What holds: every process gets the same number of threads on the same processors,
its caches of compiled code in the folder it is given, and the processor that a library chooses for itself.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.columns import Column

ROOT = Path(__file__).parent.parent
# What glibc's malloc does with large blocks: "fresh", its own way, returns them to the system and gets fresh pages for
# the next; "kept" takes all from one heap that never shrinks.
MEMORY: dict[str, dict[str, str]] = {
    "fresh": {},
    "kept": {
        "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
        "MALLOC_MMAP_THRESHOLD_": str(1 << 40),
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_ARENA_MAX": "1",
    },
}
THREAD_COUNTS = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "BROADLOOM_NUM_THREADS"),
)
CHOSEN_PROCESSOR = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
LONGEST = 300.0  # seconds that an answer may take


class ColumnError(Exception):
    """What a column could not do, in its own words."""


def environment(threads: int, memory: str, caches: Path) -> dict[str, str]:
    """The variables of a column's process."""
    kept = {k: v for k, v in os.environ.items() if k not in CHOSEN_PROCESSOR and not k.startswith("MALLOC_")}
    return {
        **kept,
        **dict.fromkeys(THREAD_COUNTS, str(threads)),
        **MEMORY[memory],
        "BROADLOOM_CACHE_DIR": str(caches / "broadloom"),
        "NUMBA_CACHE_DIR": str(caches / "numba"),
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "torch"),
        "JAX_COMPILATION_CACHE_DIR": str(caches / "jax"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "JAX_PLATFORMS": "cpu",
    }


def processors(threads: int) -> set[int]:
    """The processors that the processes run on."""
    return set(sorted(os.sched_getaffinity(0))[:threads])


class Process:
    """A column's process; it starts with the first order and again after it died."""

    def __init__(self, column: Column, python: Path, threads: int, variables: Mapping[str, str], log: Path) -> None:
        self.column, self.python, self.threads = column, python, threads
        self.variables, self.log = dict(variables), log
        self.version = ""
        self._child: subprocess.Popen[bytes] | None = None

    def ask(self, do: str, **order: Any) -> dict[str, Any]:
        """Tell the process what to do and wait for the answer. Raises `ColumnError`."""
        if self._child is None:
            self._child = self._begin()
            self.version = self._exchange({"do": "start"})["version"]
        return self._exchange({"do": do, **order})

    def runs(self) -> bool:
        """Whether a thread of the process has a processor or waits for one; False where the system does not tell."""
        tasks = Path(f"/proc/{self._child.pid if self._child is not None else 0}/task")
        with suppress(FileNotFoundError, ProcessLookupError):  # of a thread that ends meanwhile
            return any(f.read_text().rsplit(")", 1)[1].split()[0] == "R" for f in tasks.glob("*/stat"))
        return False

    def _begin(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [str(self.python), "-m", "benchmarks.worker", self.column.name, str(self.threads)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=self.variables,
                cwd=ROOT,
            )

    def _exchange(self, order: dict[str, Any]) -> dict[str, Any]:
        child = self._child
        assert child is not None and child.stdin is not None and child.stdout is not None
        late, line = False, b""
        with suppress(BrokenPipeError):
            child.stdin.write(json.dumps(order).encode() + b"\n")
            child.stdin.flush()
            late = not select.select([child.stdout], [], [], LONGEST)[0]
            line = b"" if late else child.stdout.readline()
        if not line:
            self.close(at_once=late)
            raise ColumnError(f"over {LONGEST:g} s" if late else f"process ended with {child.returncode}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ColumnError(answer["error"])
        return answer

    def close(self, at_once: bool = True) -> None:
        """End the process, or wait for one that ends by itself."""
        if self._child is not None:
            if at_once:
                self._child.kill()
            self._child.wait()
            for pipe in (self._child.stdin, self._child.stdout):
                if pipe is not None:
                    with suppress(BrokenPipeError):  # of what it did not read any more
                        pipe.close()
            self._child = None
