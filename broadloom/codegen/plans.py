"""How a kernel's loops are run: which plan, and where long sums are cut.

What goes in: a `Kernel`. What comes out: answers, pure functions of the kernel: nothing here depends on the machine
or on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from broadloom.codegen.accumulators import Accumulators
from broadloom.codegen.panels import ROWS, panel_of
from broadloom.fusion.cost import body_cost
from broadloom.fusion.handlers import Recording, accesses, index_of, instructions_of, operands_of, replay, without_dead
from broadloom.fusion.ir import (
    Accumulated,
    Body,
    Compute,
    IndexValue,
    Indirect,
    Kernel,
    Literalv,
    Load,
    Loop,
    Operand,
    Reduce,
    Running,
    Stage,
    Store,
)
from broadloom.fusion.merge import LONG_SEARCH, SHORT_SEARCH
from broadloom.fusion.tiling import tiled_loop
from broadloom.fusion.vectors import stride
from broadloom.symbolic import Symbol, free_symbols, smax, smin

COLUMN_LANES = 1024  # outer points folded side by side, fewer where their accumulators would not fit the stack
COLUMN_STACK = 64 << 10
POINT_CHUNK = 4096  # elements summed before their sum goes to the compensated total
COLUMN_CHUNK = 256
COLUMN_STEP = 64  # columns that a thread's share is a multiple of, and a multiple of those that vectors take
SHORT = 0.6  # cost units of a body that keeps what stays the same
DOWN, ALONG = 64, 64  # points of a tile: along the other loop, and along the last one
LEFT_TILE = 16  # points along a side that are no tile of their own but part of the one before
FETCHED = 2 << 10  # bytes from one point to the next, from where on the next one's are fetched
STOP_CHUNK = 512  # elements after which an any or all looks whether it is decided
SEARCH_BLOCK = 1024  # elements of an argmax whose extremum is found before its position is looked for


def runs_in_columns(kernel: Kernel) -> bool:
    """Whether outer points are folded side by side: the last outer loop walks through memory in unit steps and the
    stages' innermost loops do not."""
    if (
        kernel.serial
        or kernel.local
        or not kernel.outer
        or not any(s.loops for s in kernel.stages)
        or panel_of(kernel) is not None
    ):
        return False
    last = kernel.outer[-1]
    if isinstance(last.extent, int) and last.extent < 4:
        return False
    score = 0
    for stage in kernel.stages:
        for loop in stage.loops:
            if last.variable in free_symbols(loop.extent):
                return False
        if stage.loops:
            inner = stage.loops[-1].variable
            for access in accesses(stage.body):
                if {last.variable, inner} <= free_symbols(access.index):  # others are no long walk in either
                    score += (stride(access.index, last.variable) == 1) - (stride(access.index, inner) == 1)
    return score > 0


def runs_in_steps(kernel: Kernel) -> bool:
    """Whether outer points are folded side by side, and those of the last outer loop are whole steps. A kernel function
    is given ranges of steps then, and needs no code for less than one."""
    extent = kernel.outer[-1].extent if kernel.outer and not kernel.rings else None
    return isinstance(extent, int) and extent > 0 and extent % COLUMN_STEP == 0 and runs_in_columns(kernel)


def ranged_loops(kernel: Kernel) -> tuple[tuple[Loop, ...], int]:
    """The loops over whose linearised points a kernel function is given a range, and how many outer points of the
    kernel each of them stands for, in time: a vector of columns takes that of one point by itself."""
    panel = panel_of(kernel)
    if panel is not None:
        rows, columns = kernel.outer[-2:]
        return (*kernel.outer[:-2], _tiles(rows, ROWS), _tiles(columns, panel.lanes)), ROWS
    if runs_in_steps(kernel):
        return (*kernel.outer[:-1], _tiles(kernel.outer[-1], COLUMN_STEP)), COLUMN_STEP
    tiled = tiled_loop(kernel)
    if tiled is None:
        return kernel.outer, 1
    others = tuple(loop for k, loop in enumerate(kernel.outer[:-1]) if k != tiled)
    down, along = _tiles(kernel.outer[tiled], DOWN, LEFT_TILE), _tiles(kernel.outer[-1], ALONG, LEFT_TILE)
    return (*others, down, along), DOWN * ALONG


def _tiles(loop: Loop, side: int, least: int = 1) -> Loop:
    """The loop over the tiles of a loop; fewer points than `least` are no tile of their own, unless they are all."""
    count = (loop.extent + side - least) // side
    if least > 1:
        count = smax(count, smin(loop.extent, 1))
    return Loop(Symbol(f"tile_{loop.variable.name}", 0, count - 1), count)


def chunked_loop(loops: Sequence[Loop], chunk: int) -> tuple[int, int] | None:
    """Which loop of a summing stage is cut into chunks, and into how many iterations each, so that a chunk has about
    `chunk` elements; None when the whole stage is one chunk.

    >>> from broadloom.symbolic import Symbol
    >>> n, i, j = Symbol("n"), Symbol("i"), Symbol("j")
    >>> chunked_loop([Loop(i, n), Loop(j, 16)], 64), chunked_loop([Loop(i, 4), Loop(j, 16)], 64)
    ((0, 4), None)
    """
    inside = 1
    for k in range(len(loops) - 1, -1, -1):
        extent = loops[k].extent
        if not isinstance(extent, int) or inside * extent > chunk:
            return k, max(1, chunk // max(inside, 1))
        inside *= extent
    return None


def _unvarying(body: Body, variable: Symbol, stored: frozenset[str], known: frozenset[str] = frozenset()) -> set[int]:
    """The instructions of a body that do not depend on `variable` and may be run outside of the loop over it. `known`:
    accumulators that the loop only reads."""
    free: set[int] = set()
    varying = {variable}
    for number, i in enumerate(body.instructions):
        index = index_of(i)
        bound = index is not None and bool(varying & free_symbols(index))
        movable = isinstance(i, Load | Literalv | IndexValue | Compute | Indirect)
        movable |= isinstance(i, Accumulated) and i.name in known
        if isinstance(i, Load) and i.buffer in stored:
            movable = False
        if movable and not bound and all(o in free for o in operands_of(i)):
            free.add(number)
        elif isinstance(i, Indirect):
            varying.add(i.symbol)
    return free


def hoisted_checks(body: Body, variable: Symbol, stored: frozenset[str]) -> frozenset[int]:
    """The run-time checks of a body that do not depend on `variable`, with the instructions they need: they are run
    once outside of the loop over it, which then may vectorise. `stored`: buffers whose loads must stay inside."""
    free = _unvarying(body, variable, stored)
    needed: set[int] = set()
    for number in sorted(free, reverse=True):
        i = body.instructions[number]
        if isinstance(i, Indirect) or number in needed:
            needed |= {number, *operands_of(i)}
    return frozenset(needed)


def hoisted_values(body: Body, variable: Symbol, stored: frozenset[str]) -> frozenset[int]:
    """The loads and computations of a long body that do not depend on `variable`, with what they need. Short ones, of
    which LLVM's code generator keeps them in registers, would only run a tenth slower."""
    if body_cost(body) <= SHORT:
        return frozenset()
    folded = {i.name for i in instructions_of(body) if isinstance(i, Reduce | Running)}
    known = frozenset(i.name for i in instructions_of(body) if isinstance(i, Accumulated)) - folded
    free = _unvarying(body, variable, stored, known)
    found = (body.instructions[n] for n in free)
    return frozenset(free if any(isinstance(i, Load | Compute | Accumulated) for i in found) else ())


def loads_ahead(kernel: Kernel, stage: Stage, variable: Symbol) -> tuple[Load, ...]:
    """The loads of the next point of the last outer loop that are fetched while `stage` runs along `variable`: those
    that it is the last to make again, after an earlier stage, while they lie in the cache. Memory would else rest."""
    if not kernel.outer or stage not in kernel.stages:
        return ()
    number = kernel.stages.index(stage)
    before, after = kernel.stages[:number], kernel.stages[number + 1 :]
    found = []
    for i in dict.fromkeys(stage.body.instructions):
        if isinstance(i, Load) and stride(i.index, variable) == 1:
            step = stride(i.index, kernel.outer[-1].variable)
            again = any(i in s.body.instructions for s in before) and not any(i in s.body.instructions for s in after)
            if again and isinstance(step, int) and step * i.dtype.itemsize >= FETCHED:
                found.append(replace(i, index=i.index + step))
    return tuple(found)


def combines(kernel: Kernel, stage: Stage) -> bool:
    """Whether a stage puts together what chunks left, of which there are few: it runs once, over numbers that depend
    on where the last chunk ends, so its loop is not worth the time that LLVM takes to make vectors of it."""
    if kernel.outer or not stage.loops or not isinstance(stage.loops[-1].extent, int):
        return False
    last = stage.loops[-1].variable
    return any(
        isinstance(i, IndexValue) and not isinstance(stride(i.index, last), int) for i in instructions_of(stage.body)
    )


def searches(stage: Stage, accumulators: Accumulators) -> bool:
    """Whether a stage does nothing but one argmax or argmin of plain numbers, so that its body may run twice."""
    effects = [i for i in instructions_of(stage.body) if isinstance(i, Store | Indirect | Reduce | Running)]
    if len(effects) != 1 or not isinstance(effects[0], Reduce) or not stage.loops:
        return False
    slots = accumulators.slots[effects[0].name]
    return slots.accumulator.kind in ("argmax", "argmin") and slots.dtype.kind in "iufb"


def is_worth_a_search(stage: Stage, *, in_vectors: bool) -> bool:
    """Whether its loop is so long that looking for the extremum first pays."""
    extent = stage.loops[-1].extent
    return not isinstance(extent, int) or extent >= (SHORT_SEARCH if in_vectors else LONG_SEARCH)


def extremum_of(stage: Stage) -> Stage:
    """A stage that does nothing but one argmax or argmin, as one that folds what is compared, without its position."""

    class Folding(Recording):
        def reduce(self, name: str, value: Operand, _: Operand | None = None) -> None:
            super().reduce(name, value)

    folding = Folding()
    replay(stage.body, folding)
    return replace(stage, body=without_dead(folding.body()))


def stops(stage: Stage, accumulators: Accumulators) -> bool:
    """Whether a stage does nothing but one any or all, so that what follows the first hit need not be looked at."""
    effects = [i for i in instructions_of(stage.body) if isinstance(i, Store | Indirect | Reduce | Running)]
    if len(effects) != 1 or not isinstance(effects[0], Reduce):
        return False
    return accumulators.slots[effects[0].name].accumulator.kind in ("any", "all")
