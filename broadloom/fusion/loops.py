"""The final shape of a kernel's loops: memory order, and as few of them as the accesses allow.

What goes in: a fused kernel, one loop per axis. What comes out: the same kernel with its outer loops sorted so that
the innermost walks memory in small steps, borders split off (`peel`), and neighbouring loops joined where every access
steps through both as through one. What holds: each point is run as often as before; only the order of outer points,
which is free, changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from broadloom.fusion.collapse import collapse
from broadloom.fusion.handlers import accesses, instructions_of
from broadloom.fusion.ir import Body, Kernel, Loop, Reduce, Stage
from broadloom.fusion.peel import peel
from broadloom.symbolic import Expr, Size, Symbol, coefficient, evaluate, free_symbols

GUESS = 1024  # the size that a symbol is taken for where strides are compared


def finalise(kernel: Kernel) -> Kernel:
    """Sort, split and join the loops of `kernel`."""
    return collapse(kernel if kernel.local else peel(in_memory_order(kernel)))


def in_memory_order(kernel: Kernel) -> Kernel:
    """The kernel with its loops sorted."""
    stages = tuple(replace(s, loops=_sorted_stage(s)) for s in kernel.stages)
    return replace(kernel, outer=_sorted(kernel), stages=stages)


def _guess(size: Size) -> int:
    return size if isinstance(size, int) else evaluate(size, dict.fromkeys(free_symbols(size), GUESS))


def _stride(index: Size, variable: Symbol) -> int:
    """The estimated step of `index` along `variable`, in elements; a large one where it is not affine."""
    if not isinstance(index, Expr) or variable not in free_symbols(index):
        return 0
    split = coefficient(index, variable)
    return GUESS * GUESS if split is None else abs(_guess(split[0]))


def _sorted(kernel: Kernel) -> tuple[Loop, ...]:
    """Outer loops by step. Those of a scatter all stay, as the last of equal indices wins."""
    if len(kernel.outer) < 2 or kernel.serial:
        return kernel.outer
    return by_step(kernel.outer, [s.body for s in kernel.stages])


def _sorted_stage(stage: Stage) -> tuple[Loop, ...]:
    """A stage's loops likewise, unless its iterations have an order: cumulative ops, first extremum."""
    ordered = stage.sequential or any(
        isinstance(i, Reduce) and i.position is not None for i in instructions_of(stage.body)
    )
    return stage.loops if ordered else by_step(stage.loops, [stage.body])


def by_step(loops: tuple[Loop, ...], bodies: Sequence[Body]) -> tuple[Loop, ...]:
    """The loops by falling step through what these bodies store, then through what they load; ties keep their order."""
    found = [a for body in bodies for a in accesses(body)]
    stores = [a.index for a in found if a.mode != "load"]
    loads = [a.index for a in found if a.mode == "load"]

    def weight(loop: Loop) -> tuple[int, int]:
        return (
            sum(_stride(i, loop.variable) for i in stores),
            sum(_stride(i, loop.variable) for i in loads),
        )

    return tuple(sorted(loops, key=weight, reverse=True))
