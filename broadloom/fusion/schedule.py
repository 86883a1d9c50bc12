"""The scheduler: operations in program order become fused kernels, and each decision is kept with its reason.

What goes in: `Lowered`. What comes out: a `Program` and the decisions taken, those on tables too. What holds: kernels
keep a legal order of the program; a kernel moves up over another only if neither touches what the other stores;
workspace buffers that no kernel loads are neither stored nor allocated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from broadloom.dtypes import DType
from broadloom.fusion.bands import in_bands
from broadloom.fusion.buffers import keep_scalars, share_buffers
from broadloom.fusion.decide import Fuse, worthwhile
from broadloom.fusion.epilogue import fuse_epilogues
from broadloom.fusion.handlers import accesses, effects_of, instructions_of, without_dead
from broadloom.fusion.ir import Accumulated, Buffer, Extern, Kernel, Program, Reduce, Running
from broadloom.fusion.loops import finalise
from broadloom.fusion.lower import Lowered
from broadloom.fusion.merge import NoFuse, merge
from broadloom.fusion.prologue import fuse_prologues
from broadloom.fusion.shifts import fold_shifted
from broadloom.fusion.tables import TableDecision, tabulate
from broadloom.fusion.windows import through_windows
from broadloom.platform import USUAL_CACHES, Caches
from broadloom.records import dataclass

LOOK_BACK = 24  # groups looked at for each operation: bounds the time for long programs


@dataclass(frozen=True, slots=True)
class Decision:
    """Why two operations became one kernel, or did not."""

    first: str
    second: str
    outcome: Fuse | NoFuse

    def __str__(self) -> str:
        verb = "fused" if isinstance(self.outcome, Fuse) else "not fused"
        return f"{self.first} + {self.second}: {verb}, {self.outcome.reason}"


@dataclass(frozen=True, slots=True)
class Scheduled:
    """The program and the decisions, in the order they were taken."""

    program: Program
    decisions: tuple[Decision, ...]
    tables: tuple[TableDecision, ...] = ()


def schedule(lowered: Lowered, *, fusion: bool = True, tables: bool = True, caches: Caches = USUAL_CACHES) -> Scheduled:
    """Group the operations. With `fusion=False` each operation stays a kernel of its own, with `tables=False` each
    point computes what it needs. `caches` are those of the machine."""
    decisions: list[Decision] = []
    if fusion:
        operations, folded, shifted = fold_shifted(lowered.operations, lowered.buffers)
        lowered = replace(lowered, operations=tuple(operations), buffers=tuple(folded))
        decisions += (Decision(s.first, s.second, Fuse(s.reason)) for s in shifted)
    dtypes = {b.name: b.dtype for b in lowered.buffers}
    groups: list[Kernel | Extern] = []
    for operation in lowered.operations:
        if fusion and isinstance(operation, Kernel):
            _insert(groups, operation, dtypes, decisions)
        else:
            groups.append(operation)
    groups = [keep_scalars(s) if isinstance(s, Kernel) else s for s in groups]
    kept: Sequence[Kernel | Extern] = _without_dead(groups, lowered)
    known = {b.name: b for b in lowered.buffers}
    weighed: list[TableDecision] = []
    if fusion:
        outputs = frozenset(b.name for b in lowered.buffers if b.kind in ("input", "output"))
        kept, known, windowed = through_windows(kept, known, weighed if tables else None)
        decisions += [Decision(_label(w.first), _label(w.second), w.outcome) for w in windowed]
        kept, ahead = fuse_prologues(kept, known, caches, _depends)
        decisions += [Decision(_name(a), _name(b), outcome) for a, b, outcome in ahead]
    steps: Sequence[Kernel | Extern] = share_buffers(kept, known)
    if fusion:
        steps, taken = fuse_epilogues(steps, outputs, _depends)
        decisions += [Decision(_name(a), _name(b), outcome) for a, b, outcome in taken]
    steps = [finalise(s) if isinstance(s, Kernel) else s for s in steps]
    if fusion:
        steps, known = _in_bands(steps, known, decisions)
    named = _named(steps)
    names = {old.name: new.name for old, new in zip(steps, named, strict=True)}
    weighed = [replace(d, kernel=names[d.kernel]) for d in weighed]
    if tables:
        named = _tabulated(named, known, weighed)
    used = _used(named)
    buffers = tuple(b for b in known.values() if b.kind in ("input", "output") or b.name in used)
    program = Program(lowered.name, lowered.symbols, lowered.bindings, buffers, named, lowered.sites)
    return Scheduled(program, tuple(decisions), tuple(weighed))


def _in_bands(
    steps: Sequence[Kernel | Extern], buffers: Mapping[str, Buffer], decisions: list[Decision]
) -> tuple[list[Kernel | Extern], dict[str, Buffer]]:
    """The steps with wide columns cut into bands, and all buffers."""
    found: list[Kernel | Extern] = []
    known = dict(buffers)
    for step in steps:
        banded = in_bands(step, known) if isinstance(step, Kernel) else None
        if banded is None:
            found.append(step)
            continue
        found += banded.kernels
        known |= {b.name: b for b in banded.buffers}
        decisions += (Decision(_label(a), _label(b), NoFuse(banded.reason)) for a, b in pairwise(banded.kernels))
    return found, known


def _tabulated(
    steps: Sequence[Kernel | Extern], buffers: Mapping[str, Buffer], weighed: list[TableDecision]
) -> tuple[Kernel | Extern, ...]:
    found: list[Kernel | Extern] = []
    for step in steps:
        if isinstance(step, Kernel) and not step.local:
            step, decisions = tabulate(step, buffers)
            weighed += decisions
        found.append(step)
    return tuple(found)


# ---- grouping ---------------------------------------------------------------------------------------------------


def _insert(
    groups: list[Kernel | Extern], kernel: Kernel, dtypes: Mapping[str, DType], decisions: list[Decision]
) -> None:
    """Fuse `kernel` with the nearest group that takes it; the result is offered to earlier groups in turn."""
    position = len(groups)
    moving = kernel
    while True:
        found = _partner(groups, position, moving, dtypes, decisions)
        if found is None:
            break
        index, merged = found
        if position < len(groups):
            del groups[position]
        groups[index] = moving = merged
        position = index
    if position == len(groups):
        groups.append(moving)


def _partner(
    groups: Sequence[Kernel | Extern],
    position: int,
    kernel: Kernel,
    dtypes: Mapping[str, DType],
    decisions: list[Decision],
) -> tuple[int, Kernel] | None:
    """The nearest group before `position` that `kernel` fuses with, not moving it over a group it depends on."""
    for index in range(position - 1, max(-1, position - 1 - LOOK_BACK), -1):
        group = groups[index]
        if isinstance(group, Kernel):
            outcome: Fuse | NoFuse = worthwhile(group, kernel)
            if isinstance(outcome, Fuse):
                merged = merge(group, kernel, dtypes)
                if isinstance(merged, Kernel):
                    decisions.append(Decision(_label(group), _label(kernel), outcome))
                    return index, merged
                outcome = merged
            if outcome.reason != "nothing is shared":
                decisions.append(Decision(_label(group), _label(kernel), outcome))
        if _depends(kernel, group):
            return None
    return None


def _label(kernel: Kernel) -> str:
    ops = [o for o in dict.fromkeys(kernel.origins) if o != "copy"] or ["copy"]
    return f"{kernel.name}[{'+'.join(ops[:6])}{'+...' if len(ops) > 6 else ''}]"


def _name(step: Kernel | Extern) -> str:
    return _label(step) if isinstance(step, Kernel) else f"{step.name}[{step.routine}]"


def _depends(later: Kernel | Extern, earlier: Kernel | Extern) -> bool:
    """Whether `later` must stay behind `earlier`. Inputs are written only after every check that precedes; of two
    checks that fail the first in the program is the one that is told."""
    after, before = effects_of(later), effects_of(earlier)
    if after.loaded & before.stored or after.stored & before.touched or (after.raises and before.raises):
        return True
    writes_input, before_writes_input = (any(b.startswith("in") for b in e.stored) for e in (after, before))
    return (before.raises and writes_input) or (after.raises and before_writes_input)


# ---- dead stores ------------------------------------------------------------------------------------------------


def _without_dead(groups: Sequence[Kernel | Extern], lowered: Lowered) -> list[Kernel | Extern]:
    """The groups without stores to workspace that no later (or same) group loads, and without what that idles."""
    workspace = {b.name for b in lowered.buffers if b.kind == "workspace"}
    needed: set[str] = set()
    kept: list[Kernel | Extern] = []
    for step in reversed(groups):
        if isinstance(step, Kernel):
            step = _pruned(step, workspace, needed)
            if not step.stages:
                continue
        needed |= effects_of(step).loaded
        kept.append(step)
    kept.reverse()
    return kept


def _pruned(kernel: Kernel, workspace: set[str], needed: set[str]) -> Kernel:
    while True:
        loaded = {x.buffer for s in kernel.stages for x in accesses(s.body) if x.mode == "load"}
        read = {i.name for s in kernel.stages for i in instructions_of(s.body) if isinstance(i, Accumulated)}
        stores = frozenset(
            b for b in effects_of(kernel).stored if b in workspace and b not in needed and b not in loaded
        )
        folds = frozenset(a.name for a in kernel.accumulators) - read
        stages = (replace(s, body=without_dead(s.body, stores, folds)) for s in kernel.stages)
        kept = tuple(s for s in stages if s.body.instructions)
        made = {i.name for s in kept for i in instructions_of(s.body) if isinstance(i, Reduce | Running)}
        changed = replace(kernel, stages=kept, accumulators=tuple(a for a in kernel.accumulators if a.name in made))
        if changed == kernel:
            return kernel
        kernel = changed


# ---- names ------------------------------------------------------------------------------------------------------


def _named(steps: Sequence[Kernel | Extern]) -> tuple[Kernel | Extern, ...]:
    return tuple(
        replace(step, name=f"{'kernel' if isinstance(step, Kernel) else 'call'}{position}")
        for position, step in enumerate(steps)
    )


def _used(steps: Sequence[Kernel | Extern]) -> set[str]:
    return {name for step in steps for name in effects_of(step).touched}
