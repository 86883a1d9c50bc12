"""What is promised of the comparison, beside what was measured.

What goes in: a `Run`, and how memory was kept. What comes out: one `Line` a promise. What holds: a promise whose
measurement is missing has no line; times against a peer's, which are paired, are missed only where their spread leaves
no doubt, all else is judged by medians.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.columns import OURS
from benchmarks.results import Run
from benchmarks.timing import Spread, geometric_mean, paired

# whose times are compared with those of the best peer
STEADY_LINES = frozenset(
    ("W1a", "W1b", "W2", "W3a", "W3b", "W4", "W5a", "W5b", "W6", "W7", "W11b", "W11c", "W12", "W13", "W14", "W15a")
)
MEMORY_SHARE = 0.8  # of the triad
ARITHMETIC_LINES = ("W1b", "W5a")  # whose limit is memory or their own instructions
TRIAD_LINES = {
    "W4": MEMORY_SHARE,
    "W5b": MEMORY_SHARE,
    "W15a": MEMORY_SHARE,
    "copy": MEMORY_SHARE,
    "matrix-vector": 0.9,
}
OPENBLAS, ANY_BLAS = ("numpy",), ("numpy", "torch")  # the columns that run OpenBLAS, and MKL
BLAS_LINES = {
    "matmul 64": (1.3, ANY_BLAS),
    "matmul 1024": (0.95, OPENBLAS),
    "matmul 2048": (0.95, OPENBLAS),
    "matmul batched": (1.3, ANY_BLAS),
}
MEAN, FASTER_START, WARM_SHARE, EPILOGUE = 0.6, 20.0, 0.5, 1.03

# Why a line is missed, as it was measured, and what was tried; by "line: kind", or by the kind for all lines of it.
REASONS: dict[str, str] = {
    "W1b: share": "43 vector instructions in one chain for 16 elements, four such side by side: 24 GB/s a core, which "
    "memory outruns where two cores have 67; one at a time they run at 20",
    "W3b: time": "rows lie 4 KB apart, so a block of columns has few sets of the caches to lie in, and its passes move "
    "about 96 MB where 32 would do; in a loop by hand, a copy of each block in one piece takes 0.97 ms",
    "W15a: share": "each chunk is read twice, from memory and from the cache, and scanned in double precision: of 15 "
    "vector instructions for 8 elements 6 are shuffles or conversions, 33 GB/s a core; chunks of half and twice the "
    "size change nothing, without fetching the next chunk it takes 1.3 times as long",
    "matmul 64: speed": "the multiply-adds take 1.96 us at their peak rate and a call that does little 0.18, BLAS "
    "2.80: 1.31 is the most there is, and 0.08 us pass between the 11 tiles; nothing is packed and no thread is "
    "asked for; the loop over products unrolled 2, 4 and 8 times takes 0.5, 0.8 and 1 % longer",
    "dense gelu: epilogue": "on one thread the way through the nearest cache adds 0.9 % and gelu 1.9 %, which is about "
    "the time of its 25 multiplications for 16 elements, two a cycle; where vectors do not take turns it is 0.3 to "
    "0.8 % more; six additions fewer in tanh make no difference that could be told from noise",
    "first call over jax's": "50 to 85 % of a first call is LLVM's. Where all vectors are written out, its passes take "
    "2 to 5 ms and its code generator 7 to 40; its quick one (fast-compile) saves half, but code runs 1.2 to 5 times "
    "as long; its level 1 saves 5 %; without loop strength reduction, which is for a whole process to say, it is 15 %",
    "W11b: first call over torch-compile's": "torch calls LAPACK. Of 58 ms LLVM's code generator takes 43, of which "
    "the quick one saves 15: most is the choice of instructions for the shuffles that transpose 8x8 blocks",
    "W11c: first call over torch-compile's": "torch calls LAPACK. Of 42 ms LLVM's code generator takes 32, of which "
    "the quick one saves 13: shuffles, as in solves",
    "first call over torch-compile's": "as over jax's; where torch falls back to its eager kernels (solve, cholesky, "
    "cumsum) it takes 60 to 140 ms, and a bare run of LLVM 2 to 3",
    "W7: first call over torch-compile's": "28 of 64 ms are the 50 steps themselves, which the call makes; the rest as "
    "over jax's",
    "W7: warm first call over torch-compile's": "28 ms are the 50 steps themselves, which the call makes",
    "warm first call over torch-compile's": "torch falls back to its eager kernels, which it calls after 60 to 140 ms: "
    "a fortieth is 1.5 to 3.5 ms, as long as it takes to capture a function, to read its object and to link it",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One promise. `measured` is to be `allowed` at most, or where `least` is set at least; `kind` is what of."""

    workload: str
    what: str
    allowed: float
    measured: Spread
    kind: str
    least: bool = False

    @property
    def reason(self) -> str:
        """Why it is missed, if that is known."""
        return REASONS.get(f"{self.workload}: {self.kind}") or REASONS.get(self.kind, "")

    @property
    def holds(self) -> bool:
        """Whether it is kept: a time against a peer's as far as its spread can tell, all else in the median."""
        if self.least:
            return self.measured.median >= self.allowed
        return (self.measured.low if self.kind == "time" else self.measured.median) <= self.allowed


def lines(run: Run, memory: str) -> Iterator[Line]:
    """All promises that this run can judge."""
    yield from steady_lines(run, memory)
    yield from bandwidth_lines(run, memory)
    yield from arithmetic_lines(run, memory)
    yield from product_lines(run, memory)
    yield from first_call_lines(run, memory)


def exact(value: float) -> Spread:
    return Spread(value, value, value)


def steady_lines(run: Run, memory: str) -> Iterator[Line]:
    """At or below the best of all peers, and well below in the mean."""
    ratios = []
    for workload, facts in run.workloads.items():
        ratio = run.ratio(memory, workload)
        if facts.line in STEADY_LINES and ratio is not None:
            ratios.append(ratio.spread.median)
            yield Line(facts.line, f"{workload}: time over the best peer's ({ratio.peer})", 1.0, ratio.spread, "time")
    if len(ratios) > 1:
        yield Line(
            "all W", f"geometric mean of these {len(ratios)} ratios", MEAN, exact(geometric_mean(ratios)), "mean"
        )


def triad(run: Run) -> float:
    """GB/s of STREAM's triad, its stores as the program states them, for the threads of the run; 0 where it was not
    measured. Stores past the caches reach more, which nothing that only reads can have: `tables.bounds` shows both."""
    return run.limits.get(str(run.settings.get("threads")), {}).get("triad", 0.0)


def bandwidth_lines(run: Run, memory: str) -> Iterator[Line]:
    """Shares of the triad, on the bytes that have to be moved."""
    for workload, facts in run.workloads.items():
        cell = run.measured(memory, workload).get(OURS)
        if facts.line in TRIAD_LINES and cell is not None and triad(run):
            most = facts.bytes / 1e9 / triad(run)
            share = Spread(most / cell.spread.median, most / cell.spread.high, most / cell.spread.low)
            yield Line(
                facts.line, f"{workload}: share of the triad", TRIAD_LINES[facts.line], share, "share", least=True
            )


def least_seconds(run: Run, workload: str) -> float:
    """The least time of a call: of the bytes that have to be moved, or of the instructions of its dearest loop."""
    moved = run.workloads[workload].bytes / 1e9 / triad(run) if triad(run) else 0.0
    return max(moved, run.arithmetic.get(workload, 0.0))


def arithmetic_lines(run: Run, memory: str) -> Iterator[Line]:
    """Shares of the larger of two limits, memory and arithmetic."""
    for workload, facts in run.workloads.items():
        cell = run.measured(memory, workload).get(OURS)
        if facts.line in ARITHMETIC_LINES and cell is not None and workload in run.arithmetic:
            least, s = least_seconds(run, workload), cell.spread
            kind = "memory" if least > run.arithmetic[workload] else "arithmetic"
            what = f"{workload}: share of the larger limit ({kind})"
            share = Spread(least / s.median, least / s.high, least / s.low)
            yield Line(facts.line, what, MEMORY_SHARE, share, "share", least=True)


def product_lines(run: Run, memory: str) -> Iterator[Line]:
    """Matrix products against BLAS, and what an epilogue adds to one."""
    by_line = {facts.line: name for name, facts in run.workloads.items()}
    for line, (allowed, columns) in BLAS_LINES.items():
        cells = run.measured(memory, by_line.get(line, ""))
        blas = min((n for n in columns if n in cells), key=lambda n: cells[n].spread.median, default=None)
        if blas is not None and OURS in cells:
            speed = paired(cells[blas].seconds, cells[OURS].seconds)
            if speed is not None:
                yield Line(
                    line, f"{by_line[line]}: speed over that of BLAS ({blas})", allowed, speed, "speed", least=True
                )
    ours = [run.measured(memory, by_line.get(line, "")).get(OURS) for line in ("dense gelu", "matmul 1024")]
    if ours[0] is not None and ours[1] is not None:
        a, b = ours[0].spread, ours[1].spread
        ratio = Spread(a.median / b.median, a.low / b.high, a.high / b.low)
        yield Line("dense gelu", "dense-gelu: time over that of the product alone", EPILOGUE, ratio, "epilogue")


def first_call_lines(run: Run, memory: str) -> Iterator[Line]:
    """First calls no later than jax's and long before torch.compile's, and with a warm cache in half of that."""
    for workload, facts in run.workloads.items():
        cells = run.measured(memory, workload)
        if not facts.line.startswith("W") or OURS not in cells:
            continue
        for kind, ours, peer, allowed in (
            ("cold", cells[OURS].cold, "jax", 1.0),
            ("cold", cells[OURS].cold, "torch-compile", 1 / FASTER_START),
            ("warm", cells[OURS].warm, "jax", WARM_SHARE),
            ("warm", cells[OURS].warm, "torch-compile", WARM_SHARE / FASTER_START),
        ):
            theirs = cells[peer].cold if peer in cells else None
            if ours is not None and theirs is not None:
                what = f"{workload}: first call, {kind}, over {peer}'s, cold"
                which = "first call" if kind == "cold" else "warm first call"
                yield Line(facts.line, what, allowed, exact(ours / theirs), f"{which} over {peer}'s")
