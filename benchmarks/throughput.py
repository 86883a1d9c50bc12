"""The least time that a loop's arithmetic takes: its vector instructions, at the rates at which they can be started.

What goes in: a compiled workload's assembly. What comes out: seconds a call, for as many threads as are asked for.
What holds: it is a lower bound. Instructions are taken as independent of each other, moves and memory cost nothing,
and of the classes (multiplications and multiply-adds, additions, divisions, all together) only the dearest counts. The
rates are measured, in loops of independent chains, so no table of processors is needed.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import llvmlite.binding as llvm
import numpy as np

import broadloom as bl
from benchmarks.limits import best
from benchmarks.processes import ROOT, environment, processors
from benchmarks.workloads import BY_NAME
from broadloom.runtime import target

CHAINS = {16: 24}  # by lanes: enough to hide latencies, few enough for the registers
TURNS = 200_000
WORKLOADS = ("gelu", "logsumexp")  # whose time may be that of their arithmetic rather than of memory
# What an instruction of each class is in LLVM text, of a chain's last value %x.
CLASSES = {
    "multiply": "%v = call <W x float> @llvm.fma.vWf32(<W x float> %x, <W x float> %b, <W x float> %c)",
    "add": "%v = fadd <W x float> %x, %b",
    "divide": "%v = fdiv <W x float> %b, %x",
}
PATTERNS = {
    "multiply": re.compile(r"v(?:mul|fn?m(?:add|sub|addsub|subadd)\d*)p[sd]$|f(?:mul|mla|mls)$"),
    "add": re.compile(r"v(?:add|sub)p[sd]$|f(?:add|sub)$"),
    "divide": re.compile(r"v(?:div|sqrt)p[sd]$|f(?:div|sqrt)$"),
}
VECTOR = re.compile(r"^\t(?!\w+s[sd]\b).*(?:[xyz]mm\d|\bv\d+\.)")  # not x86's instructions on one number
# Copies are renamed away, and loads and stores have ports of their own.
FREE = re.compile(r"v(?:mov|broadcast|insert|extract)|v?zero|ld|st|mov")


@dataclass(frozen=True, slots=True)
class Loop:
    """An innermost loop: its vector instructions by class, `all` of them, for that many `elements` of an iteration."""

    elements: int
    counts: dict[str, int]


def chain_count(lanes: int) -> int:
    return CHAINS.get(lanes, 12)


def chains(name: str, lanes: int) -> str:
    """A function that runs independent chains of one class, or of multiplications and additions in turn."""
    kinds = ["multiply", "add"] if name == "all" else [name]
    vector = f"<{lanes} x float>"
    head, body, end = [], [], []
    for k in range(chain_count(lanes)):
        head.append(f"  %x{k} = phi {vector} [%b, %entry], [%y{k}, %loop]")
        line = CLASSES[kinds[k % len(kinds)]].replace("W", str(lanes))
        body.append("  " + line.replace("%v", f"%y{k}").replace("%x", f"%x{k}"))
        end.append(f"  store volatile {vector} %y{k}, ptr %out, align 4")
    return "\n".join(
        (
            f"define void @{name}(ptr %out, i64 %n) {{",
            "entry:",
            f"  %b = load volatile {vector}, ptr %out, align 4",
            f"  %c = load volatile {vector}, ptr %out, align 4",
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [0, %entry], [%next, %loop]",
            *head,
            *body,
            "  %next = add i64 %i, 1",
            "  %more = icmp ult i64 %next, %n",
            "  br i1 %more, label %loop, label %end",
            "end:",
            *end,
            "  ret void",
            "}\n",
        )
    )


def rates(lanes: int) -> dict[str, float]:
    """Seconds of an instruction of each class on vectors of float32, when nothing is waited for."""
    names = (*CLASSES, "all")
    text = f"declare <{lanes} x float> @llvm.fma.v{lanes}f32(<{lanes} x float>, <{lanes} x float>, <{lanes} x float>)\n"
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(text + "".join(chains(n, lanes) for n in names))
    module.verify()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2, jit=True
    )
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    room = (ctypes.c_float * lanes)(*[1.0] * lanes)
    found = {}
    for name in names:
        loop = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(engine.get_function_address(name))
        found[name] = best(lambda loop=loop: loop(ctypes.addressof(room), TURNS)) / TURNS / chain_count(lanes)
    return found


def loops(assembly: str) -> Iterator[tuple[Loop, ...]]:
    """Of each function the innermost vector loops, but those that only take what is left: they have fewer elements an
    iteration, less than half of the most."""
    for function in re.split(r"^\.Lfunc_end\d+:", assembly, flags=re.M):
        parts = re.split(r"^(\.?\w+):", function, flags=re.M)
        found = [
            loop
            for label, block in zip(parts[1::2], parts[2::2], strict=True)
            if (loop := innermost(label, block)) is not None
        ]
        if found:
            most = max(loop.elements for loop in found)
            yield tuple(loop for loop in found if 2 * loop.elements >= most)


def innermost(label: str, block: str) -> Loop | None:
    """The loop that a block is, if it jumps to itself and has vectors in it."""
    end = re.search(rf"^\s*(?:j\w+|b\.\w+)\s+{re.escape(label)}\s*$", block, flags=re.M)
    if end is None:
        return None
    body = block[: end.start()]
    steps = [abs(int(m[1])) for m in re.finditer(r"^\s*(?:addq\s+\$|add\s+\w+, \w+, #)(-?\d+)", body, flags=re.M)]
    vectors = [line.split()[0] for line in body.splitlines() if VECTOR.search(line)]
    counts = Counter(kind for name in vectors for kind, pattern in PATTERNS.items() if pattern.match(name))
    counts["all"] = sum(not FREE.match(name) for name in vectors)
    return Loop(max(steps), dict(counts)) if steps and counts["all"] else None


def seconds(loop: Loop, rate: dict[str, float]) -> float:
    """The least time of an element."""
    return max(loop.counts.get(kind, 0) * rate[kind] for kind in rate) / loop.elements


def assembly_of(name: str) -> tuple[str, int]:
    """The assembly of a workload's module, and the number of elements of its first argument."""
    workload = BY_NAME[name]
    arguments = workload.arguments(1.0)
    with TemporaryDirectory() as folder:
        options = {"dump_dir": Path(folder), "cache_dir": Path(folder) / "cache"}
        bl.compile(workload.make(np), fullgraph=True, options=options)(*arguments)
        (module,) = Path(folder).rglob("*_module.ll")
        return target.assembly(module.read_text()), arguments[0].size


def least_seconds(threads: int) -> dict[str, float]:
    """Seconds a call of each of `WORKLOADS`: for the dearest loop of one function, that with the least, since one at
    least runs for all elements."""
    rate = rates(target.host().lanes(32))
    found = {}
    for name in WORKLOADS:
        text, elements = assembly_of(name)
        dearest = [max(seconds(loop, rate) for loop in own) for own in loops(text)]
        found[name] = min(dearest, default=0.0) * elements / threads
    return found


def measure(threads: int) -> dict[str, float]:
    """`least_seconds`, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.throughput", str(threads)]
    found: dict[str, float] = json.loads(
        subprocess.check_output(command, env=environment(threads, "fresh", Path(os.devnull)), cwd=ROOT)
    )
    return found


if __name__ == "__main__":
    os.sched_setaffinity(0, processors(int(sys.argv[1])))
    print(json.dumps(least_seconds(int(sys.argv[1]))))
