"""What the machine can do: memory bandwidth and matrix products, for as many threads as are asked for.

What goes in: numbers of threads. What comes out: GB/s of a[i] = b[i] + s * c[i] on arrays far beyond the caches (the
triad of J. D. McCalpin's STREAM, which counts 12 bytes an element: what a store reads first is not counted), with
ordinary and with non-temporal stores, and GB/s of reading alone; GFLOP/s of NumPy's product of 2048x2048 float32
matrices.
What holds: the loops are LLVM text of our own, so that no C compiler is needed; each thread has a piece and a core.
"""

from __future__ import annotations

import ctypes
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np

from benchmarks.processes import ROOT, environment, processors

Limits = dict[str, dict[str, float]]  # by number of threads, then by what is measured
ELEMENTS = 1 << 26  # of each array: 256 MB
LANES = 16
TRIAD = """
define void @NAME(ptr noalias %a, ptr noalias %b, ptr noalias %c, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %pb = getelementptr float, ptr %b, i64 %i
  %pc = getelementptr float, ptr %c, i64 %i
  %pa = getelementptr float, ptr %a, i64 %i
  %vb = load <16 x float>, ptr %pb, align 64
  %vc = load <16 x float>, ptr %pc, align 64
  %scaled = fmul <16 x float> %vc, splat (float 0x3FE0000000000000)
  %sum = fadd <16 x float> %vb, %scaled
  store <16 x float> %sum, ptr %pa, align 64HOW
  %next = add i64 %i, 16
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""
READ = """
define void @read(ptr noalias %a, ptr noalias %b, ptr noalias %c, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %s0 = phi <16 x float> [zeroinitializer, %entry], [%t0, %loop]
  %s1 = phi <16 x float> [zeroinitializer, %entry], [%t1, %loop]
  %p0 = getelementptr float, ptr %b, i64 %i
  %p1 = getelementptr float, ptr %p0, i64 16
  %v0 = load <16 x float>, ptr %p0, align 64
  %v1 = load <16 x float>, ptr %p1, align 64
  %t0 = fadd <16 x float> %s0, %v0
  %t1 = fadd <16 x float> %s1, %v1
  %next = add i64 %i, 32
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  %s = fadd <16 x float> %t0, %t1
  store <16 x float> %s, ptr %a, align 64
  ret void
}
"""
TEXT = (
    TRIAD.replace("NAME", "triad").replace("HOW", "")
    + TRIAD.replace("NAME", "triad_past_caches").replace("HOW", ", !nontemporal !0")
    + READ
    + "!0 = !{i32 1}\n"
)
BYTES = {"triad": 12, "triad_past_caches": 12, "read": 4}  # an element
TRIAD_BYTES = BYTES["triad"] * ELEMENTS  # a call


def machine_code() -> tuple[llvm.ExecutionEngine, dict[str, int]]:
    """The loops for this processor: their owner, and their addresses by name."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(TEXT)
    module.verify()
    features = llvm.get_host_cpu_features().flatten()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=3, jit=True
    )
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine, {name: engine.get_function_address(name) for name in BYTES}


def best(call: Callable[[], object], repeats: int = 15) -> float:
    """The least seconds of some calls; a limit is what can be reached."""
    call()
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def aligned(elements: int) -> np.ndarray:
    """Ones, on a boundary of 64 bytes."""
    room = np.ones(elements + LANES, np.float32)
    skipped = -room.ctypes.data % 64 // 4
    return room[skipped : skipped + elements]


def loops(threads: int, elements: int = ELEMENTS) -> dict[str, Callable[[], object]]:
    """A call of each loop, on arrays that all share; every thread has a piece of them."""
    engine, addresses = machine_code()
    a, b, c = (aligned(elements) for _ in range(3))
    piece = elements // threads // 64 * 64
    pool = ThreadPoolExecutor(threads)

    def call(address: int) -> Callable[[], object]:
        loop = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)(address)
        pieces = [[x.ctypes.data + 4 * piece * t for x in (a, b, c)] for t in range(threads)]

        def run(kept: object = (engine, a, b, c)) -> object:  # what the addresses are of
            return list(pool.map(lambda p: loop(*p, piece), pieces))

        return run

    return {name: call(address) for name, address in addresses.items()}


def bandwidths(threads: int, elements: int = ELEMENTS) -> dict[str, float]:
    """GB/s of each loop."""
    calls = loops(threads, elements)
    return {name: BYTES[name] * elements / best(call) / 1e9 for name, call in calls.items()}


def products(size: int = 2048) -> float:
    """GFLOP/s of NumPy's product of square float32 matrices."""
    a = np.ones((size, size), np.float32)
    return 2.0 * size**3 / best(lambda: a @ a) / 1e9


def middle(several: Sequence[Limits]) -> Limits:
    """The medians of what was measured at several times: memory that other machines share has its hours.

    >>> middle([{"2": {"read": 50.0}}, {"2": {"read": 86.0}}, {"2": {"read": 51.0}}])
    {'2': {'read': 51.0}}
    """
    return {
        threads: {name: statistics.median(m[threads][name] for m in several) for name in found}
        for threads, found in several[0].items()
    }


def measure(counts: tuple[int, ...]) -> Limits:
    """The limits for each number of threads, each in a process of its own."""
    found = {}
    for threads in counts:
        command = [sys.executable, "-m", "benchmarks.limits", str(threads)]
        variables = environment(threads, "fresh", Path(os.devnull))
        found[str(threads)] = json.loads(subprocess.check_output(command, env=variables, cwd=ROOT))
    return found


if __name__ == "__main__":
    asked = int(sys.argv[1])
    os.sched_setaffinity(0, processors(asked))
    print(json.dumps({**bandwidths(asked), "matmul": products()}))
