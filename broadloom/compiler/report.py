"""What a compiled function tells about itself: tuples of records, each printable with the user's line.

What goes in: records, appended by the driver while it works. What comes out: `CompileReport`, a frozen snapshot.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import field

from broadloom.capture.breaks import Break
from broadloom.capture.guards import Guard
from broadloom.errors import Location
from broadloom.fusion.schedule import Decision
from broadloom.fusion.tables import TableDecision
from broadloom.graph.ir import Graph
from broadloom.records import dataclass

LATEST = 256  # records of calls that were not served, which may be any number


@dataclass(frozen=True, slots=True)
class Compile:
    """One compilation: the number of the specialisation, where its object came from, and the seconds of each stage."""

    number: int
    cache: str  # "hit", "miss", "off"
    seconds: tuple[tuple[str, float], ...]
    location: Location | None

    @property
    def total(self) -> float:
        """Seconds from capture to the linked entry."""
        return sum(s for _, s in self.seconds)

    def __str__(self) -> str:
        stages = ", ".join(f"{name} {1e3 * s:.1f}" for name, s in self.seconds)
        return f"compile {self.number}: {1e3 * self.total:.1f} ms (cache {self.cache}; {stages})"


@dataclass(frozen=True, slots=True)
class Recompile:
    """Why a call did not fit an earlier specialisation."""

    specialisation: int
    reason: str

    def __str__(self) -> str:
        return f"specialisation {self.specialisation} did not fit: {self.reason}"


@dataclass(frozen=True, slots=True)
class KernelRecord:
    """One kernel or library call of the module: what ops it does, its loops, and what it moves."""

    specialisation: int
    name: str
    kind: str  # "kernel" or the library routine
    ops: tuple[str, ...]
    loops: str
    loads: tuple[str, ...]
    stores: tuple[str, ...]
    counts: tuple[tuple[str, int], ...] = ()  # evaluations of each op per innermost point
    tables: tuple[tuple[int, tuple[tuple[str, int], ...]], ...] = ()  # entries, and evaluations of each op per entry
    reason: str = ""  # why this routine and no other; why a kernel stores past the caches or runs side by side

    def __str__(self) -> str:
        moved = f"loads {', '.join(self.loads) or 'nothing'}; stores {', '.join(self.stores) or 'nothing'}"
        looked_up = "".join(f"; a table of {n} entries of {'+'.join(op for op, _ in ops)}" for n, ops in self.tables)
        why = f"; {self.reason}" if self.reason else ""
        return f"{self.name}: {'+'.join(self.ops) or self.kind} over {self.loops}; {moved}{looked_up}{why}"


@dataclass(frozen=True, slots=True)
class Skip:
    """Calls that ran as plain Python because of their arguments, and how many."""

    reason: str
    count: int

    def __str__(self) -> str:
        return f"{self.count} call{'s' if self.count != 1 else ''} ran as plain Python: {self.reason}"


@dataclass(frozen=True, slots=True)
class AllocationRecord:
    """A workspace buffer of a specialisation that needs memory of its own."""

    specialisation: int
    buffer: str
    dtype: str
    shape: str

    def __str__(self) -> str:
        return f"{self.buffer}: {self.dtype}[{self.shape}] of workspace"


@dataclass(frozen=True, slots=True)
class CompileReport:
    """A snapshot of what a compiled function has done so far."""

    name: str
    compiles: tuple[Compile, ...] = ()
    graphs: tuple[Graph, ...] = ()
    breaks: tuple[Break, ...] = ()
    recompiles: tuple[Recompile, ...] = ()
    guards: tuple[Guard, ...] = ()
    kernels: tuple[KernelRecord, ...] = ()
    fusions: tuple[Decision, ...] = ()
    saved: tuple[object, ...] = ()
    skips: tuple[Skip, ...] = ()
    allocations: tuple[AllocationRecord, ...] = ()
    tables: tuple[TableDecision, ...] = ()

    def __str__(self) -> str:
        sections = {
            "compiles": self.compiles,
            "breaks": self.breaks,
            "recompiles": self.recompiles,
            "guards": self.guards,
            "kernels": self.kernels,
            "fusion decisions": self.fusions,
            "tables": self.tables,
            "skips": self.skips,
            "allocations": self.allocations,
        }
        lines = [f"report of {self.name}"]
        for title, records in sections.items():
            if records:
                lines += [f"  {title}", *(f"    {r}" for r in records)]
        return "\n".join(lines)


@dataclass(slots=True)
class Journal:
    """The growing side of a report; one per compiled function, written under its lock."""

    name: str
    compiles: list[Compile] = field(default_factory=list)
    graphs: list[Graph] = field(default_factory=list)
    breaks: deque[Break] = field(default_factory=lambda: deque(maxlen=LATEST))
    recompiles: deque[Recompile] = field(default_factory=lambda: deque(maxlen=LATEST))
    guards: list[Guard] = field(default_factory=list)
    kernels: list[KernelRecord] = field(default_factory=list)
    fusions: list[Decision] = field(default_factory=list)
    skips: Counter[str] = field(default_factory=Counter)
    allocations: list[AllocationRecord] = field(default_factory=list)
    tables: list[TableDecision] = field(default_factory=list)

    def snapshot(self) -> CompileReport:
        """The report as of now."""
        return CompileReport(
            self.name,
            tuple(self.compiles),
            tuple(self.graphs),
            tuple(self.breaks),
            tuple(self.recompiles),
            tuple(self.guards),
            tuple(self.kernels),
            tuple(self.fusions),
            (),
            tuple(Skip(reason, count) for reason, count in self.skips.items()),
            tuple(self.allocations),
            tuple(self.tables),
        )
