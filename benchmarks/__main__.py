"""`python -m benchmarks [--peers] [--only NAME ...] [--memory both] [--document]`: run, show, and keep the numbers.

Results are written to benchmarks/results/, one JSON file and one picture a run; `--document` makes the run the one that
docs/performance.md shows.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import comparison, document, eager, first_call, limits, mapped, picture, results, tables, throughput
from benchmarks.columns import COLUMNS
from benchmarks.comparison import Plan
from benchmarks.processes import MEMORY, ROOT
from benchmarks.tables import Sheet, show_time
from benchmarks.targets import FirstCall, targets
from benchmarks.timing import Effort, Time
from benchmarks.workloads import BY_NAME, WORKLOADS

RESULTS = Path(__file__).parent / "results"
PEERS = ROOT / ".venv" / "peers"
EFFORT = Effort()


def show(console: Console, sheet: Sheet) -> None:
    table = Table(title=sheet.title)
    for index, name in enumerate(sheet.header):
        left = index == 0 or name in sheet.words
        table.add_column(name, justify="left" if left else "right", no_wrap=name != "what")
    for row in sheet.rows:
        table.add_row(*row)
    console.print(table)


def show_first_calls(console: Console) -> list[FirstCall]:
    table = Table(title="First call in a new process, 1000 elements")
    table.add_column("elementwise ops")
    for column in ("import", "empty cache", "warm cache", "second call"):
        table.add_column(column, justify="right")
    found: list[FirstCall] = []
    for kind, count in first_call.SIZES:
        with console.status(f"{count} ops: {kind}"):
            cold, warm = first_call.cold_and_warm(kind, count)
        found.append(FirstCall(kind, count, cold, warm))
        shown = (cold["import"], cold["first"], warm["first"], warm["second"])
        table.add_row(f"{count}: {kind}", *(show_time(s) for s in shown))
    console.print(table)
    return found


def show_eager(console: Console, budget: float) -> dict[str, Mapping[str, Time]]:
    table = Table(title="A call at once on 10 elements, the least of all times")
    for column in ("function", "numpy", "broadloom"):
        table.add_column(column, justify="left" if column == "function" else "right")
    with console.status("calls at once"):
        found = eager.measure(budget)
    for name, times in found.items():
        table.add_row(name, *(show_time(times[who].least) for who in ("numpy", "broadloom")))
    console.print(table)
    return found


def show_mapped(console: Console, budget: float) -> Mapping[str, Time]:
    table = Table(title=f"A function of {mapped.OPS} ops on 8192 vectors of 512, compiled")
    for column in ("batched", "median", "least", "first"):
        table.add_column(column, justify="left" if column == "batched" else "right")
    with console.status("mapped and by hand"):
        found = mapped.measure(budget)
    for name, t in found.items():
        table.add_row(name, *(show_time(s) for s in (t.median, t.least, t.first)))
    console.print(table)
    return found


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options of a run."""
    parser = argparse.ArgumentParser(prog="./dev bench", description="Times of compiled functions.")
    parser.add_argument(
        "--peers",
        type=Path,
        nargs="?",
        const=PEERS,
        metavar="FOLDER",
        help="compare with the peers of this environment as well (default .venv/peers)",
    )
    parser.add_argument("--only", nargs="*", metavar="NAME", help=f"some of: {', '.join(w.name for w in WORKLOADS)}")
    parser.add_argument("--columns", nargs="*", metavar="NAME", help=f"some of: {', '.join(COLUMNS)}")
    parser.add_argument("--budget", type=float, default=EFFORT.seconds, help="seconds a cell")
    parser.add_argument("--rounds", type=int, default=EFFORT.most, help="at most for a workload")
    parser.add_argument(
        "--memory",
        choices=(*MEMORY, "both"),
        default="fresh",
        help="large blocks as malloc has them (fresh, the default), or malloc told to keep them (kept)",
    )
    parser.add_argument("--threads", type=int, default=2, help="of every column (default 2)")
    parser.add_argument("--seed", type=int, default=0, help="of the order of the rounds (default 0)")
    parser.add_argument("--document", action="store_true", help="make this run the one in docs/performance.md")
    parser.add_argument("--render", action="store_true", help="measure nothing, write docs/performance.md anew")
    options = parser.parse_args(arguments)
    for what, given, known in (("workload", options.only, BY_NAME), ("column", options.columns, COLUMNS)):
        unknown = set(given or ()) - set(known)
        if unknown:
            parser.error(f"no {what} is named {', '.join(sorted(unknown))}")
    if options.document and (options.only or options.columns):
        parser.error("--document is of a run of everything: leave out --only and --columns")
    return options


def planned(options: argparse.Namespace, console: Console) -> Plan:
    """What to run; says which columns are left out."""
    wanted = [c for c in COLUMNS.values() if not options.columns or c.name in options.columns or c.name == "numpy"]
    peers_python = (options.peers or PEERS) / "bin" / "python"
    columns = [c for c in wanted if not c.peer]
    if options.peers:
        there = comparison.installed((c for c in wanted if c.peer), peers_python)
        columns += there
        for missing in (c.name for c in wanted if c.peer and c not in there):
            console.print(f"not installed, left out: {missing}")
    return Plan(
        [w for w in WORKLOADS if not options.only or w.name in options.only],
        columns,
        Path(sys.executable),
        peers_python,
        options.threads,
        tuple(MEMORY) if options.memory == "both" else (options.memory,),
        Effort(seconds=options.budget, most=options.rounds, least=min(EFFORT.least, options.rounds)),
        options.seed,
    )


def main() -> None:
    options = parse()
    console = Console()
    console.width = max(console.width, 170)
    if options.render:
        document.write()
        return
    chosen = planned(options, console)
    RESULTS.mkdir(exist_ok=True)
    with console.status("limits of the machine") as status:
        reached: list[limits.Limits] = []
        counts = (1, options.threads) if options.threads > 1 else (1,)
        say = status.update if console.is_terminal else console.print
        run = comparison.compare(chosen, say, RESULTS, lambda: reached.append(limits.measure(counts)))
        run.arithmetic = throughput.measure(options.threads)
    run.limits = limits.middle(reached)
    path = RESULTS / time.strftime("%Y%m%d-%H%M%S.json")
    path.write_text(results.to_json(run))  # before anything else can go wrong
    for memory in run.cells:
        show(console, tables.steady(run, memory, spreads=False))
    first = next(iter(run.cells))
    for sheet in (tables.first_calls(run, first), tables.peaks(run, first), tables.limits(run)):
        show(console, sheet)
    first_calls = [] if options.only else show_first_calls(console)
    at_once = {} if options.only else show_eager(console, options.budget / 5)
    by_vmap = {} if options.only else show_mapped(console, options.budget)
    promised = targets(run.times(), first_calls, at_once, by_vmap)
    run.promises = [{**dataclasses.asdict(t), "holds": t.holds} for t in promised]
    run.compile = [dataclasses.asdict(f) for f in first_calls]
    show(console, document.own_promises(run))
    for memory in run.cells:
        show(console, tables.bounds(run, memory))
        show(console, tables.promises(run, memory))
    for failure in tables.failures(run):
        console.print(f"not run: {failure}")
    keep(run, path, console, options.document)


def keep(run: results.Run, path: Path, console: Console, as_document: bool) -> None:
    """Write the run, its picture, and the document where asked for."""
    path.write_text(results.to_json(run))
    kept = [path]
    if picture.can_draw() and picture.draw(run, next(iter(run.cells)), path.with_suffix(".svg")):
        kept.append(path.with_suffix(".svg"))
    if as_document:
        document.DATA.write_text(results.to_json(run))
        document.write()
        kept += [document.DATA, document.TEXT]
    console.print("kept in " + ", ".join(str(f.relative_to(ROOT)) for f in kept))


if __name__ == "__main__":
    main()
