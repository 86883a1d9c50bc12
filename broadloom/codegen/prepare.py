"""What is settled about a program before its code is written.

What goes in: a verified program, and the caches of the machine. What comes out: `Prepared` - the loops that its kernels
have in code, the row buffers of each, and how each stores its results. What holds: code and report are made from the
same answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from broadloom.codegen.row_buffers import Kept, keep_rows
from broadloom.codegen.streams import Keep, Stream, choose
from broadloom.codegen.unroll import unroll
from broadloom.fusion.collapse import collapse
from broadloom.fusion.ir import Buffer, Extern, Kernel, Program
from broadloom.fusion.memory_plan import buffers_of
from broadloom.platform import Caches
from broadloom.records import dataclass


@dataclass(frozen=True, slots=True)
class Prepared:
    """The program whose kernels are as in code; by the numbers of steps, the rows that kernels keep on the stack, and
    how results are stored: None for what is no kernel."""

    program: Program
    rows: Mapping[int, tuple[Buffer, ...]]
    stores: tuple[Stream | Keep | None, ...]


def prepare(program: Program, caches: Caches) -> Prepared:
    """Unrolls and joins loops, finds row buffers, and chooses between stores past the caches and through them."""
    buffers = {b.name: b for b in program.buffers}
    steps = tuple(collapse(unroll(s)) if isinstance(s, Kernel) else s for s in program.steps)
    kept = _keep_rows(steps, buffers)
    steps = tuple(kept[n].kernel if n in kept else s for n, s in enumerate(steps))
    rows = {n: k.rows for n, k in kept.items()}
    return Prepared(replace(program, steps=steps), rows, choose(steps, buffers, caches.last))


def _keep_rows(steps: Sequence[Kernel | Extern], buffers: Mapping[str, Buffer]) -> dict[int, Kept]:
    """Each kernel by its number, with its row buffers."""
    users = Counter(name for step in steps for name in buffers_of(step))
    private = frozenset(name for name, count in users.items() if count == 1 and buffers[name].kind == "workspace")
    return {n: keep_rows(s, buffers, private) for n, s in enumerate(steps) if isinstance(s, Kernel)}
