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

from collections.abc import Mapping, Sequence
from dataclasses import replace

from broadloom.fusion.decide import Fuse
from broadloom.fusion.handlers import effects_of, facts_of
from broadloom.fusion.ir import Buffer, Extern, Kernel
from broadloom.fusion.loops import in_memory_order
from broadloom.fusion.merge import NoFuse, is_pointwise
from broadloom.fusion.tables import TableDecision, tabulate
from broadloom.fusion.window_chains import Chain, member, strip_width, too_few_rows
from broadloom.fusion.window_kernel import chain_kernel
from broadloom.records import dataclass

Steps = Sequence[Kernel | Extern]


@dataclass(frozen=True, slots=True)
class Through:
    """A decision on a producer and its reader: names of kernels, and `Fuse` or `NoFuse`."""

    first: Kernel
    second: Kernel
    outcome: Fuse | NoFuse


def through_windows(
    steps: Steps, buffers: Mapping[str, Buffer], tables: list[TableDecision] | None
) -> tuple[list[Kernel | Extern], dict[str, Buffer], list[Through]]:
    """The steps with chains fused, the buffers, and what was decided. What is decided on tables of the fused kernels
    goes to `tables`; without it there are none."""
    found, known, decisions = list(steps), dict(buffers), list[Through]()
    position = len(found) - 1
    while position > 0:
        last = found[position]
        if isinstance(last, Kernel) and is_pointwise(last):
            taken, fused, local = _fused(found, position, known, decisions, tables)
            if fused is not None:
                known.update(local)
                found[position] = fused
                for k in taken:
                    del found[k]
                position -= len(taken)
        position -= 1
    return found, known, decisions


def _fused(
    steps: Steps,
    position: int,
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
    for k in range(position - 1, -1, -1):
        producer = steps[k]
        if not isinstance(producer, Kernel):
            continue
        buffer = _made(producer, last, chain, buffers)
        if buffer is None:
            continue
        fixed = _movable(steps, k, position, taken, buffer.name)
        outcome = fixed or member(chain, in_memory_order(producer), buffer)
        if isinstance(outcome, NoFuse):
            weighed.append(Through(producer, last, outcome))
        else:
            chain.members.append(outcome)
            taken.append(k)
            rows = "piece by piece" if outcome.row is None else f"row by row, {outcome.slots} at a time"
            weighed.append(Through(producer, last, Fuse(f"{buffer.name} is made {rows}")))
    if not taken:
        decisions += weighed
        return [], None, {}
    width = too_few_rows(chain) or strip_width(chain)
    if isinstance(width, NoFuse):
        decisions += [replace(d, outcome=width) for d in weighed]
        return [], None, {}
    decisions += weighed
    if tables is not None:
        _tabulate(chain, buffers, tables)
    return (taken, *chain_kernel(chain, width))


def _tabulate(chain: Chain, buffers: Mapping[str, Buffer], decisions: list[TableDecision]) -> None:
    """Puts functions of one byte into tables, in all kernels of a chain."""
    for m in chain.members:
        m.kernel, made = tabulate(m.kernel, buffers)
        decisions += [replace(d, kernel=chain.last.name) for d in made]
    chain.last, made = tabulate(chain.last, buffers)
    decisions += made


def _made(producer: Kernel, last: Kernel, chain: Chain, buffers: Mapping[str, Buffer]) -> Buffer | None:
    """The one workspace buffer that a producer makes for kernels of the chain."""
    read = {b for k in (last, *(m.kernel for m in chain.members)) for b in effects_of(k).loaded}
    made = sorted(effects_of(producer).stored & read)
    if not made:
        return None
    name = made[0]
    return buffers[name] if buffers[name].kind == "workspace" else None


def _movable(steps: Steps, producer: int, position: int, taken: Sequence[int], buffer: str) -> NoFuse | None:
    """Why a producer cannot be computed where its readers are."""
    kernel = steps[producer]
    assert isinstance(kernel, Kernel)
    if not is_pointwise(kernel) or kernel.local or not kernel.outer:
        return NoFuse(f"{buffer} is not made element by element")
    body = kernel.stages[0].body
    facts = facts_of(body)
    if facts.stored != {buffer} or buffer in facts.loaded or any(a.mode == "add" for a in facts.accesses):
        return NoFuse(f"{buffer} is not all that is made")
    if facts.raises:
        return NoFuse("a check is made once for each element")
    chain = {*taken, position}
    for number, step in enumerate(steps):
        effects = effects_of(step)
        if number not in chain and number != producer and buffer in effects.touched:
            return NoFuse(f"{buffer} is read by other kernels, or made by several")
        overwrites = producer < number <= position and number not in taken and effects.stored & facts.loaded
        if overwrites:
            return NoFuse(f"what {buffer} is made from is overwritten before it is read")
    return None
