"""The final shape of a kernel's loops: memory order, and as few of them as the accesses allow.

What goes in: a fused kernel, one loop per axis. What comes out: the same kernel with its outer loops sorted so that
the innermost walks memory in small steps, and neighbouring loops joined where every access steps through both as
through one. What holds: each outer point and each stage iteration is run as often as before; only the order of
outer points, which is free, changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from broadloom.fusion.handlers import Recording, accesses, index_of, instructions_of, replay
from broadloom.fusion.ir import Body, Kernel, Loop, Reduce, Stage
from broadloom.symbolic import Expr, Size, Symbol, coefficient, evaluate, free_symbols, substitute

GUESS = 1024  # the size that a symbol is taken for where strides are compared


def finalise(kernel: Kernel) -> Kernel:
    """Sort and join the loops of `kernel`."""
    kernel = replace(kernel, outer=_sorted(kernel))
    kernel = _joined_outer(kernel)
    return replace(kernel, stages=tuple(_joined_stage(s) for s in kernel.stages))


def _guess(size: Size) -> int:
    return size if isinstance(size, int) else evaluate(size, dict.fromkeys(free_symbols(size), GUESS))


def _stride(index: Size, variable: Symbol) -> int:
    """The estimated step of `index` along `variable`, in elements; a large one where it is not affine."""
    if not isinstance(index, Expr) or variable not in free_symbols(index):
        return 0
    split = coefficient(index, variable)
    return GUESS * GUESS if split is None else abs(_guess(split[0]))


def _sorted(kernel: Kernel) -> tuple[Loop, ...]:
    """Outer loops by falling step of the stores, then of the loads; ties keep their order."""
    if len(kernel.outer) < 2:
        return kernel.outer
    return _by_step(kernel.outer, [s.body for s in kernel.stages])


def _sorted_stage(stage: Stage) -> tuple[Loop, ...]:
    """A stage's loops likewise, unless its iterations have an order: cumulative ops, first extremum."""
    ordered = stage.sequential or any(
        isinstance(i, Reduce) and i.position is not None for i in instructions_of(stage.body)
    )
    return stage.loops if ordered else _by_step(stage.loops, [stage.body])


def _by_step(loops: tuple[Loop, ...], bodies: Sequence[Body]) -> tuple[Loop, ...]:
    found = [a for body in bodies for a in accesses(body)]
    stores = [a.index for a in found if a.mode != "load"]
    loads = [a.index for a in found if a.mode == "load"]

    def weight(loop: Loop) -> tuple[int, int]:
        return (
            sum(_stride(i, loop.variable) for i in stores),
            sum(_stride(i, loop.variable) for i in loads),
        )

    return tuple(sorted(loops, key=weight, reverse=True))


def _indices(bodies: Sequence[Body]) -> list[Size]:
    found = (index_of(i) for body in bodies for i in instructions_of(body))
    return [i for i in found if i is not None]


def _join(first: Loop, second: Loop, indices: Sequence[Size]) -> tuple[Loop, dict[Symbol, Size]] | None:
    """One loop for two, `first` outside `second`, when each index steps evenly through both; the joined loop and
    what replaces the two variables (first by zero, second by the new variable)."""
    for index in indices:
        if not isinstance(index, Expr):
            continue
        used = free_symbols(index)
        if first.variable not in used and second.variable not in used:
            continue
        outer, inner = coefficient(index, first.variable), coefficient(index, second.variable)
        if outer is None or inner is None or outer[0] != inner[0] * second.extent:
            return None
    extent = first.extent * second.extent
    top = max(extent - 1, 0) if isinstance(extent, int) else extent - 1
    variable = Symbol(second.variable.name, 0, top)
    return Loop(variable, extent), {first.variable: 0, second.variable: variable}


def _rewritten(body: Body, symbols: dict[Symbol, Size]) -> Body:
    recording = Recording()
    replay(body, recording, symbols=symbols)
    return recording.body()


def _joined_outer(kernel: Kernel) -> Kernel:
    position = len(kernel.outer) - 2
    while position >= 0:
        first, second = kernel.outer[position : position + 2]
        extents = [loop.extent for s in kernel.stages for loop in s.loops]
        joined = _join(first, second, [*_indices([s.body for s in kernel.stages]), *extents])
        if joined is not None:
            loop, symbols = joined
            kernel = replace(
                kernel,
                outer=(*kernel.outer[:position], loop, *kernel.outer[position + 2 :]),
                stages=tuple(
                    Stage(
                        tuple(Loop(x.variable, substitute(x.extent, symbols)) for x in s.loops),
                        _rewritten(s.body, symbols),
                        s.sequential,
                    )
                    for s in kernel.stages
                ),
            )
        position -= 1
    return kernel


def _joined_stage(stage: Stage) -> Stage:
    stage = replace(stage, loops=_sorted_stage(stage))
    position = len(stage.loops) - 2
    while position >= 0:
        first, second = stage.loops[position : position + 2]
        joined = _join(first, second, _indices([stage.body]))
        if joined is not None:
            loop, symbols = joined
            stage = Stage(
                (*stage.loops[:position], loop, *stage.loops[position + 2 :]),
                _rewritten(stage.body, symbols),
                stage.sequential,
            )
        position -= 1
    return stage
