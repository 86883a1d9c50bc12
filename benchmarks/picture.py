"""The picture of a run: our time over the best peer's, one bar a workload.

What goes in: a `Run`. What comes out: an SVG file, the same for the same run. It is drawn where matplotlib is there.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

from benchmarks.results import Run

FASTER, SLOWER, GREY = "#2b7a4b", "#b5482f", "#555555"
SETTINGS = {"svg.hashsalt": "broadloom", "svg.fonttype": "none", "font.size": 9.0}


def can_draw() -> bool:
    return importlib.util.find_spec("matplotlib") is not None


def draw(run: Run, memory: str, path: Path) -> int:
    """Write the picture; the number of bars."""
    ratios = [(w, r) for w in run.cells[memory] if (r := run.ratio(memory, w)) is not None]
    matplotlib = importlib.import_module("matplotlib")
    figure_module = importlib.import_module("matplotlib.figure")
    medians = [r.spread.median for _, r in ratios]
    below = [max(0.0, r.spread.median - r.spread.low) for _, r in ratios]
    above = [max(0.0, r.spread.high - r.spread.median) for _, r in ratios]
    with matplotlib.rc_context(SETTINGS):
        figure = figure_module.Figure(figsize=(8, 1 + 0.24 * len(ratios)), layout="constrained")
        axes = figure.subplots()
        colours = [FASTER if m <= 1 else SLOWER for m in medians]
        places = range(len(ratios))
        lengths = [m - 1 for m in medians]
        axes.barh(places, lengths, left=1.0, xerr=(below, above), color=colours, ecolor=GREY, error_kw={"lw": 0.8})
        axes.set_yticks(places, [f"{run.workloads[w].line} {w}".strip() for w, _ in ratios])
        axes.set_xscale("log")
        axes.axvline(1.0, color="black", lw=1)
        for place, (_, r) in enumerate(ratios):
            slower = r.spread.median > 1
            edge, offset, side = (r.spread.high, 4, "left") if slower else (r.spread.low, -4, "right")
            where = {"textcoords": "offset points", "va": "center", "ha": side}
            axes.annotate(r.peer, (edge, place), (offset, 0), color=GREY, size=7, **where)
        axes.margins(x=0.2, y=0.01)
        axes.invert_yaxis()
        axes.set_xlabel(f"time over the best peer's (named), spread of rounds; memory {memory}; less is better")
        figure.savefig(path, format="svg", metadata={"Date": None})
    return len(ratios)
