"""docs/performance.md, written from docs/performance.json and from nothing else.

What goes in: a `Run`. What comes out: the text, and the picture beside it. What holds: the same run gives
the same text.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks import picture, tables
from benchmarks.columns import OURS
from benchmarks.processes import ROOT
from benchmarks.results import Run, read
from benchmarks.tables import Sheet
from benchmarks.targets import REASONS

DATA, TEXT = ROOT / "docs" / "performance.json", ROOT / "docs" / "performance.md"

HEAD = """\
# Performance

The last full comparison, as `./dev bench --peers --memory both --document` measured and wrote it. Timings are of one
run on one machine: compare within a table, not between tables.
"""

HOW = """\
## How it is measured

- Each column is a process of its own for the whole run, in the project's environment or, for the peers, in one that
  `./dev bench --peers` makes (`.venv/peers`). All have the same number of threads, on the same processors.
- Each workload is one function over an array namespace, `benchmarks/workloads.py`, which NumPy runs, and Broadloom,
  `torch.compile` and `jax.jit` compile; `torch` runs it op by op. `torch-library` is what PyTorch's library has in one
  piece, `numba` a loop written by hand. Arguments are converted before anything is timed.
- On each workload the columns take turns, in random order in each round, after an untimed call. A turn begins when no
  thread of any column runs: those of OpenBLAS spin for a tenth of a second after a product. A time is the median of
  the rounds, with what a tenth of them lies below and above. A ratio is taken within each round, and so are its bounds.
- Of `heat-steps` and `recurrence`, NumPy, torch, `torch.compile` and Broadloom run one step 50 or 1000 times from
  Python; jax and numba compile all of it.
- `matmul-symbolic` is compiled by Broadloom for all sizes at once (`dynamic=True`), by the peers for those they are
  given. The product alone, which `dense-gelu` is to cost little more than, takes its turns in the same rounds.
- A result that is not NumPy's, within 1e-2 (bfloat16), 1e-3 (single precision) or 1e-7 (double) of its largest value or
  one step of an integer, has no time.
- First calls are made in a process that has compiled a trifle before; with an empty cache - the median of three such
  processes, between which the other columns have theirs -, and with one that another such process has filled. Before
  each, memory is touched and given back, so that the system has pages at hand.
- The most memory is that of a call, beyond the memory of the process before it loaded the workload, so arguments are
  in it, and code that was made.
- Memory "fresh" is glibc's malloc as it is, which returns large blocks to the system, so that each large result costs
  page faults. "kept" tells it to keep them, for all columns alike. Broadloom keeps large blocks itself in both.
- Promised shares are of the triad with ordinary stores, as STREAM has it, on the threads of the run; it takes its turns
  in the same rounds, in a process of its own, since memory that other machines share has its hours. Bytes are those of
  arguments and results, read or written once.

## How to repeat it

```
./dev bench --peers                              # all columns, memory fresh; a table, JSON and a picture
./dev bench --peers --only softmax layer-norm    # some workloads
./dev bench --peers --memory both --document     # what is shown here; rewrites this page
./dev bench                                      # NumPy and Broadloom alone
```

`benchmarks/peers.txt` lists what is installed for the peers. Those that are missing are left out by name.
"""


def markdown(sheet: Sheet) -> str:
    sides = ["---" if i == 0 or n in sheet.words else "---:" for i, n in enumerate(sheet.header)]
    rows = [sheet.header, sides, *sheet.rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def machine(run: Run) -> str:
    """The machine, the versions, and how loaded it was."""
    m = run.machine
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    before, after = (", ".join(f"{x:g}" for x in m[f"load {when}"]) for when in ("before", "after"))
    return f"""\
## The machine

{m["processor"]} (family and model {m["family and model"]}; {", ".join(m["vectors"])}), {m["cores"]} cores,
{m["memory"] / 2**30:.0f} GB, {m["system"]}, Python {m["python"]}; {run.settings["threads"]} threads.
Columns: {versions}.

Load averages (1, 5, 15 minutes) before the run: {before}; after it: {after}. The run itself makes about
{run.settings["threads"]}. Where the load was higher, other work disturbed the times, and the spread shows it.
"""


def disturbed(run: Run) -> bool:
    """Whether other work took a large part of the processors, in the last minute before the run."""
    return bool(run.machine["load before"][0] > 1.5 * run.settings["threads"])


SHARED = """\
**Other work took most of the machine during this run.** What it shows is that everything runs and agrees; a time is a
sign at best. Threads that wait for each other by spinning, as OpenMP's do in torch, torch.compile and numba, lose most.
"""


def parts(run: Run, picture_name: str) -> Iterator[str]:
    yield HEAD
    if disturbed(run):
        yield SHARED
    yield machine(run)
    yield markdown(tables.limits(run))
    first = next(iter(run.cells))
    for memory in run.cells:
        sheet = tables.promises(run, memory)
        missed = sum(row[-1] != "yes" for row in sheet.rows)
        yield f"## {sheet.title}\n\n{len(sheet.rows) - missed} kept, {missed} missed.\n"
        yield markdown(sheet)
    yield f"## Our time over the best peer's\n\n![one bar a workload]({picture_name})\n"
    for memory in run.cells:
        for sheet in (tables.steady(run, memory, spreads=True), tables.bounds(run, memory)):
            yield f"## {sheet.title}\n"
            yield markdown(sheet)
    for sheet in (tables.first_calls(run, first), tables.peaks(run, first)):
        yield f"## {sheet.title}\n"
        yield markdown(sheet)
    if run.promises:
        yield f"## Promises about {OURS} alone\n"
        yield markdown(own_promises(run))
    failed = list(tables.failures(run))
    if failed:
        yield "## Not run\n\n" + "\n".join(f"- {f}" for f in failed) + "\n"
    yield HOW


def own_promises(run: Run) -> Sheet:
    """The promises of `targets`, as the run kept them."""
    rows = tuple(
        (
            p["what"],
            f"at {'least' if p['least'] else 'most'} {p['allowed']:g} {p['unit']}",
            f"{p['measured']:.3g} {p['unit']}",
            tables.verdict(REASONS.get(p["what"], ""), holds=p["holds"]),
        )
        for p in run.promises
    )
    return Sheet("Promises", ("what", "promised", "measured", "kept"), rows, frozenset({"kept"}))


def text(run: Run, picture_name: str = "performance.svg") -> str:
    """The page."""
    return "\n".join(parts(run, picture_name))


def write(source: Path = DATA, target: Path = TEXT) -> None:
    """Write the page and, where matplotlib is there, the picture."""
    run = read(source)
    target.write_text(text(run))
    if picture.can_draw():
        picture.draw(run, next(iter(run.cells)), target.with_suffix(".svg"))
