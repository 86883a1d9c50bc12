"""The tables of a run, the same for the terminal and for the document.

What goes in: a `Run`. What comes out: `Sheet`s of text. What holds: nothing but the run is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.columns import COLUMNS, OURS
from benchmarks.lines import lines, share_of_limit
from benchmarks.results import Cell, Run
from benchmarks.timing import Spread


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table: the first column is of words, as are those named in `words`; the others are of numbers."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: frozenset[str] = frozenset()


def show_time(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.3g} us"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def show_spread(s: Spread) -> str:
    return f"{s.median:.2f} ({s.low:.2f}-{s.high:.2f})"


def show_times(s: Spread) -> str:
    """A median with its bounds in the same unit."""
    unit, factor = ("us", 1e6) if s.median < 1e-3 else ("ms", 1e3) if s.median < 1 else ("s", 1.0)
    return f"{s.median * factor:.3g} {unit} ({s.low * factor:.3g}-{s.high * factor:.3g})"


def columns_of(run: Run) -> list[str]:
    """The columns that have any time, ours last."""
    there = {n for rows in run.cells.values() for row in rows.values() for n in row}
    return [n for n in COLUMNS if n in there and n != OURS] + [n for n in (OURS,) if n in there]


def steady(run: Run, memory: str, spreads: bool) -> Sheet:
    """Times of a call, and the ratio to the best peer."""
    names = columns_of(run)
    rows = []
    for workload in run.cells[memory]:
        cells, ratio = run.measured(memory, workload), run.ratio(memory, workload)
        shown = [
            (show_times(cells[n].spread) if spreads else show_time(cells[n].spread.median)) if n in cells else "-"
            for n in names
        ]
        best = (ratio.peer, show_spread(ratio.spread)) if ratio else ("-", "-")
        rows.append((workload, run.workloads[workload].line, *shown, *best))
    header = ("workload", "line", *names, "best peer", "ours over it")
    return Sheet(f"Time of a call, memory {memory}", header, tuple(rows), frozenset({"line", "best peer"}))


def first_calls(run: Run, memory: str) -> Sheet:
    """Seconds of first calls, cache empty and filled."""
    names = [n for n in columns_of(run) if COLUMNS[n].compiles]

    def shown(cell: Cell | None) -> str:
        if cell is None or cell.failed:
            return "-"
        return " / ".join("-" if s is None else f"{s:.3f}" for s in (cell.cold, cell.warm))

    rows = tuple((w, *(shown(row.get(n)) for n in names)) for w, row in run.cells[memory].items())
    return Sheet("First call in seconds, cache empty / filled", ("workload", *names), rows)


def peaks(run: Run, memory: str) -> Sheet:
    """The most memory in a call, arguments and results included."""
    names = columns_of(run)

    def shown(cell: Cell | None) -> str:
        return "-" if cell is None or cell.failed or cell.peak is None else f"{cell.peak / 2**20:.1f}"

    rows = tuple(
        (w, f"{run.workloads[w].bytes / 2**20:.1f}", *(shown(row.get(n)) for n in names))
        for w, row in run.cells[memory].items()
    )
    return Sheet("Most memory in MB, beyond that of the idle process", ("workload", "arguments, results", *names), rows)


def limits(run: Run) -> Sheet:
    """What the machine can do."""
    names = {
        "triad": "triad, GB/s",
        "triad_past_caches": "triad, stores past the caches, GB/s",
        "read": "reading alone, GB/s",
        "matmul": "product of 2048x2048 float32 (OpenBLAS), GFLOP/s",
    }
    rows = tuple((names[k], *(f"{v[k]:.1f}" for v in run.limits.values())) for k in names)
    header = ("limit", *(f"{t} thread{'s' if t != '1' else ''}" for t in run.limits))
    return Sheet("Limits of the machine", header, rows if run.limits else ())


def bounds(run: Run, memory: str) -> Sheet:
    """How near we are to the limits."""
    threads = run.limits.get(str(run.settings.get("threads")), {})
    rows = []
    for workload, facts in run.workloads.items():
        cell = run.measured(memory, workload).get(OURS)
        if cell is None or not threads:
            continue
        share = share_of_limit(run, memory, workload)
        if share is not None:
            least = run.arithmetic.get(workload)
            rate = f"{facts.bytes / cell.spread.median / 1e9:.1f} GB/s"
            has_to = f"{facts.bytes / 1e6:.1f} MB" + (f", {show_time(least)} of arithmetic" if least else "")
            what = "the larger of triad and arithmetic" if least else "the triad"
            rows.append((workload, has_to, rate, f"{share.median:.0%} of {what}"))
        elif facts.flops:
            rate = facts.flops / cell.spread.median / 1e9
            of = f"{rate / threads['matmul']:.0%} of the product"
            rows.append((workload, f"{facts.flops / 1e6:.1f} MFLOP", f"{rate:.1f} GFLOP/s", of))
    return Sheet(f"Our distance from the limits, memory {memory}", ("workload", "has to", "rate", "share"), tuple(rows))


def verdict(reason: str, *, holds: bool) -> str:
    """Whether a promise is kept, and if not, why, as far as that is known."""
    return "yes" if holds else f"NO: {reason}" if reason else "NO"


def promises(run: Run, memory: str) -> Sheet:
    """The lines, kept and missed, these with their reasons."""
    rows = []
    for line in lines(run, memory):
        bound = f"at {'least' if line.least else 'most'} {line.allowed:g}"
        exact = line.measured.low == line.measured.high
        measured = f"{line.measured.median:.2f}" if exact else show_spread(line.measured)
        rows.append((line.workload, line.what, bound, measured, verdict(line.reason, holds=line.holds)))
    header = ("line", "what", "promised", "measured", "kept")
    return Sheet(f"Promises against peers and limits, memory {memory}", header, tuple(rows), frozenset(header))


def failures(run: Run) -> Iterator[str]:
    """What has no time, and why."""
    for memory, rows in run.cells.items():
        for workload, row in rows.items():
            yield from (f"{workload}, {n}, memory {memory}: {c.failed}" for n, c in row.items() if c.failed)
