"""The thread pool under observation: which kernels were split, and how many threads ran each.

What goes in: a number of threads, and code that runs compiled functions. What comes out: a `Job` for each kernel that
was handed to the pool. What holds: the native pool does the work; a thread that takes its first chunk of a job waits
until as many threads as the job has room for have taken one, so that a job of several chunks is run by several threads
on any machine, however short it is. Kernels take every chance to be split where the code was made under `fine_grain`.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np

from broadloom.dtypes import bfloat16
from broadloom.fusion import merge
from broadloom.runtime import entry, native, probe
from broadloom.runtime.context import NO_SITE, Context

KERNEL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
PARALLEL = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)
ARITHMETIC = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
# Looks of a hundredth of a second for a worker to wake up: a pool that has lost one is a failure. They are counted, not
# timed, so that a process that is stopped meanwhile, or has to share its processor with many, is not out of patience.
PATIENCE = 2000


@dataclass(slots=True)
class Job:
    """A kernel that was handed to the pool."""

    points: int
    room: int  # how many threads it is for
    chunks: list[tuple[int, int]] = field(default_factory=list)
    threads: set[int] = field(default_factory=set)

    def check(self) -> None:
        """Every point was run once, by as many threads as there was room for."""
        chunks = sorted(self.chunks)
        assert [begin for begin, _ in chunks] == [0, *(end for _, end in chunks[:-1])], self
        assert chunks[-1][1] == self.points, self
        assert len(self.threads) >= self.room, self


class Pool:
    """Stands between generated code and the native pool."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.threads = 1
        self._run = PARALLEL(native.runtime().address("bl_parallel_for"))
        self._given = PARALLEL(self._parallel)
        self._chunk = ARITHMETIC(native.runtime().address("bl_pool_chunk"))

    @contextmanager
    def run(self, threads: int) -> Iterator[list[Job]]:
        """Runs take so many threads meanwhile; gives their jobs."""
        self.threads, self.jobs = threads, []
        yield self.jobs
        for job in self.jobs:  # not in the callback, which no exception leaves
            job.check()

    def context(self, threads: int) -> Context:
        """As `native.new_context`, for as many threads as this pool is set to."""
        runtime = native.runtime()
        return Context(
            alloc=runtime.address("bl_alloc"),
            free=runtime.address("bl_free"),
            parallel_for=ctypes.cast(self._given, ctypes.c_void_p).value,
            threads=self.threads,
            site=NO_SITE,
        )

    def _parallel(self, ctx: int, kernel: int, args: int, points: int, grain: int) -> int:
        job = Job(points, self._room(points, grain))
        run, changed = KERNEL(kernel), threading.Condition()
        self.jobs.append(job)

        def chunk(ctx: int, args: int, begin: int, end: int) -> int:
            with changed:
                job.chunks.append((begin, end))
                job.threads.add(threading.get_ident())
                changed.notify_all()
                for _ in range(PATIENCE):
                    if changed.wait_for(lambda: len(job.threads) >= job.room, 0.01):
                        break
            return int(run(ctx, args, begin, end))

        held = KERNEL(chunk)
        return int(self._run(ctx, ctypes.cast(held, ctypes.c_void_p).value, args, points, grain))

    def _room(self, points: int, grain: int) -> int:
        """How many threads a job occupies: no more than it has chunks."""
        if self.threads < 2 or points <= max(1, grain):
            return 1
        return min(self.threads, -(-points // self._chunk(points, grain, self.threads)))


def bits(x: np.ndarray[Any, Any]) -> bytes:
    """The bits of an array, with one nan for all: its sign is that of whichever operand the processor's instruction
    takes it from, and which instruction that is, of a vector or a single one, depends on the split."""
    parts = x.astype(x.dtype, order="C", copy=True).reshape(-1)
    if x.dtype.kind == "c":
        parts = parts.view(parts.real.dtype)
    if x.dtype.kind in "fc" or x.dtype == bfloat16.numpy:
        parts[np.isnan(parts)] = np.nan
    return parts.tobytes()


@contextmanager
def observed() -> Iterator[Pool]:
    """A pool that all runs go through meanwhile. Functions must be compiled meanwhile, too: they are entered by way of
    Python, where a context can be replaced."""
    pool = Pool()
    with ExitStack() as stack:
        for module in (probe, entry.probe):
            stack.enter_context(mock.patch.object(module, "mismatches", lambda: ("observed",)))
        stack.enter_context(mock.patch.object(native, "new_context", pool.context))
        yield pool


@contextmanager
def fine_grain() -> Iterator[None]:
    """Code made meanwhile splits whatever has more than one point, however little work that is, and leaves no kernels
    to one thread for their few points."""
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(merge, "SMALL", 0))
        for name, module in sorted(sys.modules.items()):
            if name.startswith("broadloom."):
                for constant, value in (("PARALLEL_COST", 0.0), ("CHUNK_COST", 1.0)):
                    if constant in vars(module):
                        stack.enter_context(mock.patch.object(module, constant, value))
        yield
