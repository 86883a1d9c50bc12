"""What is kept beside an object in the cache: all that a run and a report need to know of it besides its code.

What goes in: a scheduled program, and how its steps store their results. What comes out: `ModuleFacts`, and its JSON
text. What holds: facts name places in the user's program by the number of the captured node, never by file and line, so
that they stay true when the user's file is edited around the function.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from broadloom.codegen.streams import Keep, Stream
from broadloom.compiler.report import AllocationRecord, KernelRecord
from broadloom.errors import Location
from broadloom.fusion.decide import Fuse
from broadloom.fusion.handlers import accesses, bodies_of, instructions_of, stages_of
from broadloom.fusion.ir import Body, Compute, Extern, Kernel, Site
from broadloom.fusion.memory_plan import buffers_of, unstored
from broadloom.fusion.merge import NoFuse
from broadloom.fusion.schedule import Decision, Scheduled
from broadloom.fusion.tables import Direct, TableDecision, Tabulate
from broadloom.graph.ir import Graph
from broadloom.records import dataclass

Locations = Sequence[Location | None]


@dataclass(frozen=True, slots=True)
class ModuleFacts:
    """`sites` carry, in place of a location, the number of the captured node they stand for (-1: none)."""

    sites: tuple[Site, ...]
    site_nodes: tuple[int, ...]
    kernels: tuple[KernelRecord, ...]
    fusions: tuple[Decision, ...]
    tables: tuple[TableDecision, ...]
    allocations: tuple[AllocationRecord, ...]

    def located(self, locations: Locations) -> tuple[Site, ...]:
        """The sites with the user's lines of this capture."""
        return tuple(
            replace(site, location=locations[node] if node >= 0 else None)
            for site, node in zip(self.sites, self.site_nodes, strict=True)
        )

    def to_json(self) -> str:
        """A text that `from_json` reads back."""
        return json.dumps(
            {
                "sites": [[s.code, s.op, s.axis, n] for s, n in zip(self.sites, self.site_nodes, strict=True)],
                "kernels": [asdict(k) for k in self.kernels],
                "fusions": [[d.first, d.second, isinstance(d.outcome, Fuse), d.outcome.reason] for d in self.fusions],
                "tables": [[t.kernel, t.function, _in_table(t), t.outcome.reason] for t in self.tables],
                "allocations": [asdict(a) for a in self.allocations],
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str) -> ModuleFacts:
        """The facts of a text made by `to_json`. Raises ValueError, KeyError or TypeError for any other text."""
        data = json.loads(text)
        return cls(
            tuple(Site(code, op, axis) for code, op, axis, _ in data["sites"]),
            tuple(int(node) for *_, node in data["sites"]),
            tuple(_kernel_from(record) for record in data["kernels"]),
            tuple(Decision(a, b, Fuse(why) if yes else NoFuse(why)) for a, b, yes, why in data["fusions"]),
            tuple(TableDecision(a, b, Tabulate(why) if yes else Direct(why)) for a, b, yes, why in data["tables"]),
            tuple(AllocationRecord(**record) for record in data["allocations"]),
        )


def _in_table(decision: TableDecision) -> bool:
    return isinstance(decision.outcome, Tabulate)


def _kernel_from(record: dict[str, Any]) -> KernelRecord:
    """The record of a JSON object, whose lists are tuples."""

    def frozen(value: Any) -> Any:
        return tuple(map(frozen, value)) if isinstance(value, list) else value

    return KernelRecord(**{name: frozen(value) for name, value in record.items()})


def locations_of(graph: Graph) -> tuple[Location | None, ...]:
    """The user's line of each node."""
    return tuple(node.location for node in graph.nodes)


def facts_of(scheduled: Scheduled, locations: Locations, stores: Sequence[Stream | Keep | None]) -> ModuleFacts:
    """The facts of a program that was made from a graph whose nodes stand at `locations`, and whose steps store their
    results in these ways."""
    program = scheduled.program
    first = {place: number for number, place in reversed(list(enumerate(locations))) if place is not None}
    nodes = tuple(-1 if s.location is None else first.get(s.location, -1) for s in program.sites)
    sites = tuple(replace(s, location=None) for s in program.sites)
    used = {name for step in program.steps for name in buffers_of(step)}
    workspace = (b for b in program.buffers if b.kind == "workspace" and b.name in used)
    return ModuleFacts(
        sites,
        nodes,
        tuple(_kernel_record(step, how) for step, how in zip(program.steps, stores, strict=True)),
        scheduled.decisions,
        scheduled.tables,
        tuple(AllocationRecord(0, b.name, str(b.dtype), ", ".join(map(str, b.layout.shape))) for b in workspace),
    )


def _kernel_record(step: Kernel | Extern, how: Stream | Keep | None) -> KernelRecord:
    if isinstance(step, Extern):
        return _call_record(step)
    found = [a for body in bodies_of(step) for a in accesses(body)]
    loads = dict.fromkeys(a.buffer for a in found if a.mode == "load")
    stores = dict.fromkeys(a.buffer for a in found if a.mode != "load")
    ops = tuple(o for o in dict.fromkeys(step.origins) if o != "copy" or len(set(step.origins)) == 1)
    counts = _counts([s.body for s in stages_of(step) if not s.border])
    tables = tuple((t.entries, _counts([t.body])) for t in step.tables)
    reason = how.reason if isinstance(how, Stream) or (how is not None and how.shown) else ""
    return KernelRecord(0, step.name, "kernel", ops, _loops(step), tuple(loads), tuple(stores), counts, tables, reason)


def _call_record(step: Extern) -> KernelRecord:
    """The record of a library call or of a product, with the code that is fused with it."""
    taken, made = (dict.fromkeys(r.buffer for r in group) for group in (step.operands, step.results))
    loops, gone = _sizes(step.results[0].layout.shape), unstored(step)
    before = [_kernel_record(kernel, None) for kernel in step.prologues]
    behind = [] if step.epilogue is None else [_kernel_record(step.epilogue, None)]
    loads = [*taken, *(b for k in before for b in k.loads), *(b for k in behind for b in k.loads if b not in made)]
    stores = [*made, *(b for k in behind for b in k.stores)]
    taken, made = (dict.fromkeys(b for b in group if b not in gone) for group in (loads, stores))
    ops: tuple[str, ...] = ()
    counts = Counter[str]()
    if before or behind:
        ops = (*(o for k in before for o in k.ops), step.routine, *(o for k in behind for o in k.ops))
    for kernel in (*before, *behind):
        counts.update(dict(kernel.counts))
    found = tuple(sorted(counts.items()))
    return KernelRecord(0, step.name, step.routine, ops, loops, tuple(taken), tuple(made), found, reason=step.reason)


def _counts(bodies: Sequence[Body]) -> tuple[tuple[str, int], ...]:
    """How often each op is evaluated where each body runs once."""
    found = Counter(i.op for body in bodies for i in instructions_of(body) if isinstance(i, Compute))
    return tuple(sorted(found.items()))


def _sizes(shape: Sequence[object]) -> str:
    return "(" + ", ".join(map(str, shape)) + ")"


def _loops(kernel: Kernel) -> str:
    outer = _sizes([loop.extent for loop in kernel.outer])
    stages = [_sizes([loop.extent for loop in s.loops]) for s in kernel.stages if s.loops]
    return outer if not stages else f"{outer} x [{'; '.join(stages)}]"
