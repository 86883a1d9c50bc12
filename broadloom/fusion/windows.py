"""Chains of stencils through line buffers: a value that is read through a window is computed row by row, just before
its reader needs it, and never held as a whole.

What goes in: the steps of a program, in order, and its buffers. What comes out: fewer steps. A producer of one body,
whose buffer only kernels of the same chain read, becomes part of the last kernel of the chain. `window_chains` says
whether it can, and `window_kernel` builds what becomes of them.

What holds: the reader's points and their arithmetic stay as they are, and so does that of the producer, which computes
an element again only where two threads, or two strips of a row, meet. A kernel is moved down to its reader only over
steps that do not store what it loads. Each decision is kept with its reason.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from broadloom.fusion.decide import Fuse
from broadloom.fusion.handlers import effects_of, facts_of
from broadloom.fusion.ir import Buffer, Extern, Kernel
from broadloom.fusion.loops import in_memory_order
from broadloom.fusion.merge import NoFuse, is_pointwise
from broadloom.fusion.tables import TableDecision, tabulate
from broadloom.fusion.window_chains import Chain, Member, member, strip_width, too_few_rows
from broadloom.fusion.window_kernel import chain_kernel
from broadloom.records import dataclass

Steps = Sequence[Kernel | Extern]


@dataclass(frozen=True, slots=True)
class Through:
    """A decision on a producer and its reader: names of kernels, and `Fuse` or `NoFuse`."""

    first: Kernel
    second: Kernel
    outcome: Fuse | NoFuse


class Uses:
    """The steps that store and that touch each buffer, by number, in order; so are looked up what would otherwise be
    looked for in all steps, for each of them."""

    def __init__(self, steps: Steps) -> None:
        self.storing: dict[str, list[int]] = {}
        self.touching: dict[str, list[int]] = {}
        for number, step in enumerate(steps):
            self.add(number, step)

    def add(self, number: int, step: Kernel | Extern) -> None:
        effects = effects_of(step)
        for users, names in ((self.storing, effects.stored), (self.touching, effects.touched)):
            for name in names:
                bisect.insort(users.setdefault(name, []), number)

    def remove(self, number: int, step: Kernel | Extern) -> None:
        effects = effects_of(step)
        for users, names in ((self.storing, effects.stored), (self.touching, effects.touched)):
            for name in names:
                users[name].remove(number)


def through_windows(
    steps: Steps, buffers: Mapping[str, Buffer], tables: list[TableDecision] | None
) -> tuple[list[Kernel | Extern], dict[str, Buffer], list[Through]]:
    """The steps with chains fused, the buffers, and what was decided. What is decided on tables of the fused kernels
    goes to `tables`; without it there are none."""
    found, known, decisions = list(steps), dict(buffers), list[Through]()
    uses, gone = Uses(found), set[int]()
    for position in range(len(found) - 1, 0, -1):
        last = found[position]
        if position not in gone and isinstance(last, Kernel) and is_pointwise(last):
            taken, fused, local = _fused(found, position, uses, known, decisions, tables)
            if fused is not None:
                known.update(local)
                for k in (*taken, position):
                    uses.remove(k, found[k])
                found[position] = fused
                uses.add(position, fused)
                gone.update(taken)
    return [s for k, s in enumerate(found) if k not in gone], known, decisions


def _fused(
    steps: Steps,
    position: int,
    uses: Uses,
    buffers: Mapping[str, Buffer],
    decisions: list[Through],
    tables: list[TableDecision] | None,
) -> tuple[list[int], Kernel | None, dict[str, Buffer]]:
    """The numbers of the producers that go into step number `position`, the last one first, and what becomes of it."""
    given = steps[position]
    assert isinstance(given, Kernel)
    last = in_memory_order(given)
    chain, taken = Chain(last), list[int]()
    weighed: list[Through] = []
    read = set(effects_of(last).loaded)
    waiting = _producers(read, position, uses, buffers)
    while waiting:
        k = max(waiting)
        waiting.remove(k)
        producer = steps[k]
        if not isinstance(producer, Kernel):
            continue
        buffer = buffers[min(effects_of(producer).stored & read)]
        if buffer.kind != "workspace":
            continue
        outcome = _movable(producer, k, position, taken, buffer.name, uses) or _joined(chain, producer, buffer)
        if isinstance(outcome, NoFuse):
            weighed.append(Through(producer, last, outcome))
        else:
            taken.append(k)
            read |= effects_of(producer).loaded
            waiting |= _producers(effects_of(producer).loaded, k, uses, buffers)
            rows = "piece by piece" if outcome.row is None else f"row by row, {outcome.slots} at a time"
            weighed.append(Through(producer, last, Fuse(f"{buffer.name} is made {rows}")))
    decisions += weighed
    if not taken:
        return [], None, {}
    if tables is not None:
        _tabulate(chain, buffers, tables)
    width = strip_width(chain)
    assert not isinstance(width, NoFuse)
    return (taken, *chain_kernel(chain, width))


def _joined(chain: Chain, producer: Kernel, buffer: Buffer) -> Member | NoFuse:
    """The producer as a member of the chain, which it joins if what all members keep of their rows stays in the cache.
    A longer chain is cut there: what is left begins one of its own, which its first reader is the last kernel of."""
    outcome = member(chain, in_memory_order(producer), buffer)
    refused: NoFuse | None = None
    if isinstance(outcome, Member):
        chain.members.append(outcome)
        width = too_few_rows(chain) or strip_width(chain)
        if not isinstance(width, NoFuse):
            return outcome
        chain.members.pop()
        refused = width
    if not chain.members:
        chain.roles.clear()
    return refused or outcome


def _producers(read: Iterable[str], before: int, uses: Uses, buffers: Mapping[str, Buffer]) -> set[int]:
    """The numbers of the steps before number `before` that store one of these buffers in the workspace."""
    names = (b for b in read if buffers[b].kind == "workspace")
    return {k for b in names for k in uses.storing.get(b, ()) if k < before}


def _tabulate(chain: Chain, buffers: Mapping[str, Buffer], decisions: list[TableDecision]) -> None:
    """Puts functions of one byte into tables, in all kernels of a chain."""
    for m in chain.members:
        m.kernel, made = tabulate(m.kernel, buffers)
        decisions += [replace(d, kernel=chain.last.name) for d in made]
    chain.last, made = tabulate(chain.last, buffers)
    decisions += made


def _movable(
    kernel: Kernel, producer: int, position: int, taken: Sequence[int], buffer: str, uses: Uses
) -> NoFuse | None:
    """Why a producer, step number `producer`, cannot be computed where its readers are."""
    if not is_pointwise(kernel) or kernel.local or not kernel.outer:
        return NoFuse(f"{buffer} is not made element by element")
    body = kernel.stages[0].body
    facts = facts_of(body)
    if facts.stored != {buffer} or buffer in facts.loaded or any(a.mode == "add" for a in facts.accesses):
        return NoFuse(f"{buffer} is not all that is made")
    if facts.raises:
        return NoFuse("a check is made once for each element")
    chain = {*taken, position, producer}
    others = (k for k in uses.touching[buffer] if k not in chain)
    between = (k for b in facts.loaded for k in uses.storing.get(b, ()) if producer < k <= position and k not in taken)
    elsewhere, overwriting = min(others, default=None), min(between, default=None)
    if elsewhere is not None and (overwriting is None or elsewhere <= overwriting):
        return NoFuse(f"{buffer} is read by other kernels, or made by several")
    if overwriting is not None:
        return NoFuse(f"what {buffer} is made from is overwritten before it is read")
    return None
