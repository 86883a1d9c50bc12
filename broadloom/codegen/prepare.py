"""What is settled about a program before its code is written.

What goes in: a verified program, the caches of the machine, and whether its code is to be made quickly (`brief`). What
comes out: `Prepared` - the loops that its kernels have in code, the row buffers of each, and how each stores its
results. What holds: code and report are made from the same answer; brief code has the same values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from broadloom.codegen.row_buffers import Kept, keep_rows
from broadloom.codegen.streams import Keep, Stream, choose
from broadloom.codegen.unroll import unroll
from broadloom.fusion.collapse import collapse
from broadloom.fusion.handlers import stages_of
from broadloom.fusion.ir import Buffer, Extern, Kernel, Program
from broadloom.fusion.memory_plan import buffers_of
from broadloom.fusion.tables import without_tables
from broadloom.platform import Caches
from broadloom.records import dataclass
from broadloom.symbolic import free_symbols


@dataclass(frozen=True, slots=True)
class Prepared:
    """The program whose kernels are as in code; by the numbers of steps, the rows that kernels keep on the stack, and
    how results are stored: None for what is no kernel. `brief`: each loop is made once, not also for other calls."""

    program: Program
    rows: Mapping[int, tuple[Buffer, ...]]
    stores: tuple[Stream | Keep | None, ...]
    brief: bool = False


def prepare(program: Program, caches: Caches, *, brief: bool = False) -> Prepared:
    """Unrolls and joins loops, finds row buffers, and chooses between stores past the caches and through them."""
    buffers = {b.name: b for b in program.buffers}
    steps = tuple(collapse(unroll(s)) if isinstance(s, Kernel) else s for s in program.steps)
    if brief:
        steps = tuple(without_tables(s) if isinstance(s, Kernel) and may_be_small(s) else s for s in steps)
    kept = _keep_rows(steps, buffers)
    steps = tuple(kept[n].kernel if n in kept else s for n, s in enumerate(steps))
    rows = {n: k.rows for n, k in kept.items()}
    if brief:
        reason = "code for stores past the caches takes time to make"
        stores: tuple[Stream | Keep | None, ...] = tuple(Keep(reason) if isinstance(s, Kernel) else None for s in steps)
    else:
        stores = choose(steps, buffers, caches.last)
    return Prepared(replace(program, steps=steps), rows, stores, brief)


def may_be_small(kernel: Kernel) -> bool:
    """Whether it depends on the call if the kernel's tables pay."""
    loops = (*kernel.outer, *(loop for s in stages_of(kernel) for loop in s.loops))
    own = {*(loop.variable for loop in loops), *(r.row for r in kernel.rings)}
    return bool(kernel.tables) and any(not free_symbols(loop.extent) <= own for loop in loops)


def _keep_rows(steps: Sequence[Kernel | Extern], buffers: Mapping[str, Buffer]) -> dict[int, Kept]:
    """Each kernel by its number, with its row buffers."""
    users = Counter(name for step in steps for name in buffers_of(step))
    private = frozenset(name for name, count in users.items() if count == 1 and buffers[name].kind == "workspace")
    return {n: keep_rows(s, buffers, private) for n, s in enumerate(steps) if isinstance(s, Kernel)}
