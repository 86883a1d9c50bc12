"""What is promised of the comparison, beside what was measured.

What goes in: a `Run`, and how memory was kept. What comes out: one `Line` a promise. What holds: a promise whose
measurement is missing has no line; times against a peer's are missed only where their spread leaves no doubt, all
else is judged by medians.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.columns import OURS, PART, TRIAD
from benchmarks.limits import TRIAD_BYTES
from benchmarks.results import Run
from benchmarks.timing import Spread, geometric_mean, paired, spread

# whose times are compared with those of the best peer
STEADY_LINES = frozenset(
    ("W1a", "W1b", "W2", "W3a", "W3b", "W4", "W5a", "W5b", "W6", "W7", "W11b", "W11c", "W12", "W13", "W14", "W15a")
)
# of the rate of STREAM's triad with ordinary stores: with stores past the caches it reaches more, which nothing that
# only reads can have
MEMORY_SHARES = {**dict.fromkeys(("W1b", "W4", "W5a", "W5b", "W15a", "copy"), 0.8), "matrix-vector": 0.9}
OPENBLAS, ANY_BLAS = ("numpy",), ("numpy", "torch")  # the columns that run OpenBLAS, and MKL
BLAS_LINES = {
    "matmul 64": (1.3, ANY_BLAS),
    "matmul 1024": (0.95, OPENBLAS),
    "matmul 2048": (0.95, OPENBLAS),
    "matmul batched": (1.3, ANY_BLAS),
}
MEAN, FASTER_START, WARM_SHARE, EPILOGUE = 0.6, 20.0, 0.5, 1.03

QUICK = "LLVM's quick code generator saves half of its time, but code runs 1.2 to 5 times as long"
OTHER_RUN = "another run on the same day"
FFT = (
    "jax and torch call a transform that is compiled already. Ours is made for its length: of 32 ms for 64, 41 for "
    "1000 and 1009, 90 for 65536 and 146 for a million LLVM takes 24, 31, 46 and 65, texts and tables of roots 3 to 6, "
    "35 and 46. With loops that show their counters to LLVM's loop strength reduction it is 30 % more"
)
LIBRARY_FFTS = ("fft", *(f"fft-{n}" for n in (64, 1000, 1009, 4096, 65536, 1_000_000)))
LIBRARY_PRODUCTS = ("matmul 64", "matmul 1024", "matmul 2048", "matmul batched", "matmul-symbolic")
CALLED_BY_TORCH = ("W15a", *LIBRARY_PRODUCTS, "matmul-int8", "matmul-bfloat16", *LIBRARY_FFTS)
# Why a line is missed, as it was measured, and what was tried; by "line: kind", or by the kind for all lines of it. A
# line that has no name in the list of promises goes by its workload's. Parts of first calls are processor time.
REASONS: dict[str, str] = {
    "W1b: share": "43 vector instructions in one chain for 16 elements, four such side by side. Their limit was "
    "measured before the rounds, at rates that the processor did not keep: rounds of this run took 0.41 to 1.19 of it, "
    f"and {OTHER_RUN} had 0.84 of the limit, with memory kept all of it",
    "W5a: share": "in the cache and on one thread 16 numbers take 4.8 ns, 0.7 for their maximum and 3.8 for "
    "exponentials and sum, of which the limit counts 3.1; the next chunk is fetched meanwhile. To scale by a float "
    "saves two of 25 instructions and 6 % of the exponential, where there is AVX-512 alone: left out",
    "W5b: share": "alone it reads its 40 MB in 0.9 to 1.1 ms, after other work has filled the caches in 1.7, where a "
    "plain sum takes 1.5: chunks are gone over twice, the second time in the cache. Where the array begins in a line "
    "or a page, and how large pages are, makes 0.1 ms",
    "W7: time": "at 2048x2048 both wait for memory: an image read and one written are just what the last cache has, of "
    f"which a guest gets a part. {OTHER_RUN.capitalize()} had 0.98 and 0.88 of numba's time. Where the caches hold "
    "both images a step takes 11 us against 15 to 18 (256x256), 0.20 ms against 0.23 to 0.25 (1024x1024). Ten "
    "distances of input and result modulo 4096 make no difference; rows begin one number into a line, and are not "
    "stored past the caches",
    "W15a: share": "each chunk is read twice, from memory and from the cache, and scanned in double precision: of 15 "
    "vector instructions for 8 elements 6 are shuffles or conversions; chunks of half and twice the size change "
    "nothing, without fetching the next chunk it takes 1.3 times as long",
    "matmul 64: speed": "the multiply-adds take 4.44 us at their peak rate and a call that does little 0.18, BLAS 5.8: "
    "1.25 is the most there is on one thread; nothing is packed; 22 shapes of tiles take 4.9 to 5.1 us. To wake a "
    "second thread takes longer than the product",
    "matmul 2048: speed": "the rounds of this run took 0.74 to 1.10 of BLAS's speed with memory kept, and 0.95 to 1.03 "
    f"fresh; OpenBLAS alone had 180 GFLOP/s before it and 204 before {OTHER_RUN}, which had 1.07",
    "dense gelu: epilogue": "on one thread the way through the nearest cache adds 0.9 % and gelu 1.9 %, which is about "
    "the time of its 25 multiplications for 16 elements, two a cycle; where vectors do not take turns it is 0.3 to "
    "0.8 % more; six additions fewer in tanh make no difference that could be told from noise",
    "first call over jax's": "40 to 80 % of a first call is LLVM's. Where all vectors are written out, its passes take "
    "2 to 5 ms and its code generator 7 to 40; its quick one (fast-compile) saves half, but code runs 1.2 to 5 times "
    "as long; its level 1 saves 5 %; loops that hide their counters from its loop strength reduction save 5 to 30 %, "
    "where code does not run longer for it",
    "W3a: first call over jax's": f"of 23 ms LLVM takes 11, the call 1; {QUICK}",
    "W9a: first call over jax's": "of 311 ms LLVM takes 231, its code generator most of it: six products, each with "
    f"tiles, packing and what is pointwise around it; {OTHER_RUN} had 232 ms and 0.79 of jax's",
    "W3b: first call over jax's": "of 61 to 64 ms two thirds are LLVM's: three passes over bands of rows, and two "
    "kernels that put the bands together, which take 10. Whole steps of columns, without code for parts of one, "
    f"brought it from 83. Bands save 3 ms of each call; {QUICK}",
    "W5a: first call over jax's": f"of 43 ms LLVM takes 26; {OTHER_RUN} had 39 ms and 0.66 of jax's; {QUICK}",
    "W6: first call over jax's": f"of 50 ms LLVM takes 24, the passes over the graph and fusion 9; {OTHER_RUN} had 30 "
    f"ms and 0.63 of jax's; {QUICK}",
    "W13: first call over jax's": f"of 115 ms LLVM takes 80: a ring of rows; {QUICK}",
    "copy: first call over jax's": "18 of 64 ms of processor time compile, 15 are the call; the rest is the system's, "
    "which clears 256 MB of new pages",
    "dense gelu: first call over jax's": "jax calls a product that is compiled already. Of 74 ms LLVM takes 45, for "
    "our own with packing, its tiles and what follows each; the call itself takes 11",
    **{
        f"{line}: first call over jax's": "jax calls a product that is compiled already. Of ours, 19 ms for 64, 52 for "
        "1024 and 39 for the batch, LLVM takes 12, 30 and 25: a tile or two, what hands out tasks, and packing where "
        "there is any; of 155 ms for 2048 the product is 80 to 100; for all sizes at once 99 of 127: code for few rows "
        "as well. What runs once for each task is optimised, or small products take 5 to 10 % longer. Tiles that leave "
        "no edges brought the batch from 70"
        for line in LIBRARY_PRODUCTS
    },
    "matmul-int8: first call over jax's": "of 57 ms LLVM takes 45: tiles whose products come in groups of four, and "
    "packing",
    "matmul-symbolic: warm first call over jax's": "9 to 13 ms against 6 to capture, read and link, of which the "
    "product and the pages of its 28 MB are 4",
    "fft-1000000: warm first call over jax's": "of 30 to 37 ms the call is 17 to 20, with new pages for its result and "
    "as much workspace, and what is left to the compiler 10",
    "matmul 1024: warm first call over jax's": "11 of 16 ms are the product itself, and of jax's 38 as well; a first "
    "call with a filled cache is made once, and one that is disturbed shows as it is",
    "matmul 2048: warm first call over jax's": "80 to 100 ms are the product itself, and of jax's as well",
    "take-along-axis: warm first call over jax's": f"50 ms, of which {OTHER_RUN} had 5: a first call with a filled "
    "cache is made once, and one that is disturbed shows as it is",
    **{
        f"{line}: first call over jax's": f"a quiet process takes 42 to 60 ms, of which LLVM has 26 to 40, and "
        f"{OTHER_RUN} had 48 and 50. The host of a guest takes idle pages back: new ones for 32 MB were measured to "
        "take 90 ms"
        for line in ("scatter-rows", "transposed-sum")
    },
    "column-sums: first call over jax's": "of 28 to 33 ms LLVM takes 17: sums of 984 chunks, and a kernel that puts "
    "them together, which in vectors of its eight columns has a twentieth of the code",
    **{f"{line}: first call over jax's": FFT for line in LIBRARY_FFTS},
    **{
        f"{line}: first call over torch-compile's": "torch.compile compiles nothing here, but calls a library after 50 "
        "to 140 ms: a twentieth is 2.5 to 7 ms, and a bare run of LLVM takes 2 to 3"
        for line in CALLED_BY_TORCH
    },
    **{
        f"{line}: warm first call over torch-compile's": "torch.compile compiles nothing here, but calls a library "
        "after 50 to 140 ms: a fortieth is 1.3 to 3.5 ms, as long as it takes to capture a function, to read its "
        "object and to link it"
        for line in ("W11b", "W11c", *CALLED_BY_TORCH)
    },
    "W11b: first call over torch-compile's": "torch calls LAPACK. Of 43 ms LLVM takes 33 (nearly twice that before "
    "blocks were transposed by shuffles that are one instruction each)",
    "W11c: first call over torch-compile's": "torch calls LAPACK. Of 35 ms LLVM takes 26, of which loop strength "
    "reduction has a quarter; loops that hide their counters from it run 3 % longer",
    "copy: first call over torch-compile's": "as over jax's",
    "copy: warm first call over torch-compile's": "a fortieth of a second is less than the call takes with new pages "
    "for its 256 MB, 20 to 24 ms",
    "take-along-axis: warm first call over torch-compile's": "as over jax's",
    "matrix-vector: warm first call over torch-compile's": "a fortieth of a second is hardly more than the call takes, "
    "which reads 256 MB in 8 ms",
    "first call over torch-compile's": "as over jax's",
    "W10: first call over torch-compile's": "of 500 ms of processor time LLVM takes 265, capture, passes and fusion "
    "146: 22 kernels for the products, norms and what is pointwise around them of four layers",
    "W7: first call over torch-compile's": "40 to 70 of 70 to 120 ms are the 50 steps themselves, which the call "
    "makes; of the rest, 30 ms, LLVM takes 13",
    "W7: warm first call over torch-compile's": "40 to 70 ms are the 50 steps themselves, which the call makes",
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
    yield from limit_lines(run, memory)
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


def least_seconds(run: Run, memory: str, workload: str) -> tuple[float | None, ...]:
    """The least time of a call, one of each round: of the bytes that have to be moved, at the rate that STREAM's triad
    had in that round, or of the instructions of its dearest loop. Empty where the triad took no turns."""
    triad = run.measured(memory, workload).get(TRIAD)
    moved, arithmetic = run.workloads[workload].bytes / TRIAD_BYTES, run.arithmetic.get(workload, 0.0)
    return tuple(s and max(s * moved, arithmetic) for s in triad.seconds) if triad else ()


def share_of_limit(run: Run, memory: str, workload: str) -> Spread | None:
    """The least time of a call over ours, by rounds; None where one of the two is missing."""
    ours, least = run.measured(memory, workload).get(OURS), least_seconds(run, memory, workload)
    return paired(least, ours.seconds) if ours is not None and least else None


def limit_lines(run: Run, memory: str) -> Iterator[Line]:
    """Shares of what memory allows, or of the larger of memory and arithmetic."""
    for workload, facts in run.workloads.items():
        share = share_of_limit(run, memory, workload)
        if facts.line in MEMORY_SHARES and share is not None:
            arithmetic = run.arithmetic.get(workload)
            least = spread([s for s in least_seconds(run, memory, workload) if s is not None]).median
            kind = "arithmetic" if arithmetic == least else "memory"
            what = "the triad" if arithmetic is None else f"the larger limit ({kind})"
            allowed = MEMORY_SHARES[facts.line]
            yield Line(facts.line, f"{workload}: share of {what}", allowed, share, "share", least=True)


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
    for workload, facts in run.workloads.items():
        cells = run.measured(memory, workload)
        ratio = paired(cells[OURS].seconds, cells[PART].seconds) if {OURS, PART} <= cells.keys() else None
        if ratio is not None:
            what = f"{workload}: time over that of the product alone"
            yield Line(facts.line or workload, what, EPILOGUE, ratio, "epilogue")


def first_call_lines(run: Run, memory: str) -> Iterator[Line]:
    """First calls no later than jax's and long before torch.compile's, and with a warm cache in half of that."""
    for workload, facts in run.workloads.items():
        cells = run.measured(memory, workload)
        if OURS not in cells:
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
                yield Line(facts.line or workload, what, allowed, exact(ours / theirs), f"{which} over {peer}'s")
