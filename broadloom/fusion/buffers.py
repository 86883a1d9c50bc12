"""Fewer buffers: scalars per outer point stay in registers, and a buffer that dies makes room for its successor.

What goes in: scheduled kernels. What comes out: the same program with fewer loads, stores and buffers.
What holds: every remaining load sees the value it saw before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from broadloom.dtypes import DType
from broadloom.fusion.handlers import Recording, accesses, effects_of, facts_of, operands_of, replay, with_stages
from broadloom.fusion.ir import (
    Accumulated,
    Body,
    Buffer,
    Compute,
    Extern,
    IndexValue,
    Instruction,
    Kernel,
    Literalv,
    Load,
    Masked,
    Stage,
    Store,
)
from broadloom.records import dataclass
from broadloom.symbolic import Size, Symbol, substitute

FREE = Compute | Accumulated | Literalv | IndexValue  # of memory
MAX_RECOMPUTED = 12  # instructions of a per-point scalar that a later stage computes again rather than loads


# ---- scalars of an outer point ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scalar:
    """The body that computes a stored per-point value from accumulators, the operand that is the value, its dtype."""

    body: Body
    value: int
    dtype: DType


class Rematerialising(Recording):
    """A recording that computes a known scalar again where it would be loaded."""

    def __init__(self, parent: Recording | None = None) -> None:
        super().__init__(parent)
        self.scalars: Mapping[tuple[str, Size], Scalar] = parent.scalars if isinstance(parent, Rematerialising) else {}

    def load(self, buffer: str, index: Size, dtype: DType) -> int:
        scalar = self.scalars.get((buffer, index))
        if scalar is None or scalar.dtype is not dtype:  # its bytes may be seen as those of another
            return super().load(buffer, index, dtype)
        value: int = replay(scalar.body, self)[scalar.value]
        return value


def keep_scalars(kernel: Kernel) -> Kernel:
    """Replace loads of what an earlier stage without loops stored by the computation from its accumulators."""
    known: dict[tuple[str, Size], Scalar] = {}
    stages = []
    for stage in kernel.stages:
        recording = Rematerialising()
        recording.scalars = dict(known)
        replay(stage.body, recording)
        stage = replace(stage, body=recording.body())
        stages.append(stage)
        stored = {a.buffer for a in accesses(stage.body) if a.mode != "load"}
        known = {key: scalar for key, scalar in known.items() if key[0] not in stored}
        if not stage.loops:
            known.update(_scalars(stage.body))
    return replace(kernel, stages=tuple(stages))


def _scalars(body: Body) -> dict[tuple[str, Size], Scalar]:
    """Stored values of a body that depend on nothing in memory."""
    found = {}
    for instruction in body.instructions:
        if isinstance(instruction, Store) and instruction.mode == "set":
            needed = _slice(body, instruction.value)
            if needed is not None:
                found[instruction.buffer, instruction.index] = needed
    return found


def _slice(body: Body, value: int) -> Scalar | None:
    """The instructions that `value` needs, if they are few and free of memory."""
    stored = body.instructions[value]
    if not isinstance(stored, FREE):
        return None
    needed: set[int] = set()
    pending = [value]
    while pending:
        operand = pending.pop()
        if operand in needed:
            continue
        needed.add(operand)
        instruction = body.instructions[operand]
        if len(needed) > MAX_RECOMPUTED or not isinstance(instruction, FREE):
            return None
        pending.extend(operands_of(instruction))
    order = sorted(needed)
    position = {operand: k for k, operand in enumerate(order)}
    instructions = tuple(
        replace(i, args=tuple(position[a] for a in i.args)) if isinstance(i, Compute) else i
        for i in (body.instructions[o] for o in order)
    )
    return Scalar(Body(instructions), position[value], stored.dtype)


# ---- storage taken over -----------------------------------------------------------------------------------------


def share_buffers(steps: Sequence[Kernel | Extern], buffers: Mapping[str, Buffer]) -> list[Kernel | Extern]:
    """Where a workspace buffer is read for the last time at the very elements that another buffer of its shape gets
    for the first time, both become one."""
    steps = list(steps)
    users: dict[str, list[int]] = {}  # by buffer, the steps that touch it
    for number, step in enumerate(steps):
        for name in effects_of(step).touched:
            users.setdefault(name, []).append(number)
    heirs: dict[str, str] = {}  # by buffer that was taken over, the one that has its place then
    for number, step in enumerate(steps):
        if isinstance(step, Kernel) and not step.local:  # else rows are read before others are stored
            steps[number] = step = _renamed(step, {x: _last(heirs, x) for x in effects_of(step).touched if x in heirs})
            for old, new in _successions(step, users, number, buffers):
                heirs[old] = new
                users[new] = sorted({*users.pop(old), *users[new]})
    names: dict[str, str] = {}
    for old, new in reversed(heirs.items()):
        names[old] = names.get(new, new)
    return [_renamed(step, names) for step in steps]


def _last(heirs: Mapping[str, str], name: str) -> str:
    while name in heirs:
        name = heirs[name]
    return name


def _buffers(stage: Stage) -> frozenset[str]:
    facts = facts_of(stage.body)
    return facts.loaded | facts.stored


def _successions(
    kernel: Kernel | Extern, users: Mapping[str, Sequence[int]], number: int, buffers: Mapping[str, Buffer]
) -> list[tuple[str, str]]:
    assert isinstance(kernel, Kernel)
    here = effects_of(kernel).touched
    dying = sorted(b for b in here if users[b][-1] == number and buffers[b].kind == "workspace")
    born = sorted(b for b in here if users[b][0] == number and buffers[b].kind in ("workspace", "output"))
    found: list[tuple[str, str]] = []
    taken: set[str] = set()
    for old in dying:
        for new in born:
            fits = buffers[old].dtype is buffers[new].dtype and buffers[old].layout == buffers[new].layout
            if old != new and fits and not {old, new} & taken and _follows(kernel, old, new, buffers[old].dtype):
                found.append((old, new))
                taken |= {old, new}
    return found


def _follows(kernel: Kernel, old: str, new: str, dtype: DType) -> bool:
    """Whether each element of `new` is stored after the last load of that element of `old`, and not before the last
    store to it."""
    if kernel.outer and not _apart(kernel.stages, old, new):
        return False
    first_store: int | None = None
    for position, stage in enumerate(kernel.stages):
        if not {old, new} & _buffers(stage):
            continue
        found = accesses(stage.body)
        stores = {a.index for a in found if a.buffer == new and a.mode != "load"}
        loads = {a.index for a in found if a.buffer == old and a.mode == "load"}
        if any(a.buffer == new and a.mode == "add" for a in found):
            return False
        if any(a.buffer == old and a.dtype not in (None, dtype) for a in found):
            return False  # seen through another dtype: indices are not comparable
        if first_store is not None and (loads or any(a.buffer == old for a in found)):
            return False
        if stores:
            if len(stores) > 1 or not loads <= stores or any(a.buffer == old and a.mode != "load" for a in found):
                return False
            last_load = max((k for k, i in enumerate(stage.body.instructions) if _loads(i, old)), default=-1)
            store = min(k for k, i in enumerate(stage.body.instructions) if isinstance(i, Store) and i.buffer == new)
            if store < last_load:
                return False
            first_store = position if first_store is None else first_store
    return first_store is not None


def _apart(stages: Sequence[Stage], old: str, new: str) -> bool:
    """Whether no outer point loads an element of `old` in whose place another point stores one of `new`: as far as we
    look, whether each load is at the element that the point stores, whatever the loop variables of its stage are
    called. A matmul loads a row at each of its elements and fails this."""
    stored = {(e, i) for s in stages for e, i in _elements(s, new, "set")}
    return all((e, i) in stored for s in stages for e, i in _elements(s, old, "load"))


def _elements(stage: Stage, buffer: str, mode: str) -> Iterator[tuple[tuple[Size, ...], Size]]:
    """The accesses of a stage to a buffer, as the extents of its loops and an index with variables of fixed names."""
    if buffer not in _buffers(stage):
        return
    loops = stage.loops
    fixed = {x.variable: Symbol(f"at{k}", x.variable.lo, x.variable.hi) for k, x in enumerate(loops)}
    extents = tuple(substitute(x.extent, fixed) for x in loops)
    for a in accesses(stage.body):
        if a.buffer == buffer and a.mode == mode:
            yield extents, substitute(a.index, fixed)


def _loads(instruction: Instruction, buffer: str) -> bool:
    match instruction:
        case Load(name):
            return name == buffer
        case Masked(_, body):
            return buffer in facts_of(body).read
    return False


def _renamed(step: Kernel | Extern, names: Mapping[str, str]) -> Kernel | Extern:
    if names.keys().isdisjoint(effects_of(step).touched):
        return step
    if isinstance(step, Extern):
        regions = [
            tuple(replace(r, buffer=names.get(r.buffer, r.buffer)) for r in group)
            for group in (step.operands, step.results)
        ]
        prologues = tuple(_renamed_kernel(p, names) for p in step.prologues)
        return replace(step, operands=regions[0], results=regions[1], prologues=prologues)
    return _renamed_kernel(step, names)


def _renamed_kernel(step: Kernel, names: Mapping[str, str]) -> Kernel:
    def renamed(body: Body) -> Body:
        if names.keys().isdisjoint(facts_of(body).loaded | facts_of(body).stored):
            return body
        recording = Recording()
        replay(body, recording, buffers=names)
        return recording.body()

    tables = tuple(replace(t, body=renamed(t.body)) for t in step.tables)
    return replace(with_stages(step, lambda s: replace(s, body=renamed(s.body))), tables=tables)
