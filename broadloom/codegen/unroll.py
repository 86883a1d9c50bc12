"""Unrolls short loops of constant length, so that the loop around them is the one that vectorises.

What goes in: a `Kernel`. What comes out: the same kernel without stage loops of at most `SHORT` iterations in
innermost place, and without a last outer loop as short: its points become parts of one body, with accumulators of
their own, unless vectors of neighbouring points add up as fast with far less code.

What holds: each point computes the same values in the same order. Kernels with run-time checks stay as they are,
because a check of an empty axis leaves the body, and with it all points that would be in it.
"""

from __future__ import annotations

from dataclasses import replace

from broadloom.codegen.panels import panel_of
from broadloom.codegen.plans import runs_in_columns
from broadloom.codegen.rows import HEAVY
from broadloom.fusion.cost import body_cost
from broadloom.fusion.handlers import Recording, bodies_of, instructions_of, replay, with_stages
from broadloom.fusion.ir import Accumulator, Body, Indirect, Kernel, Stage
from broadloom.symbolic import Symbol, free_symbols

SHORT = 8
PICKED = 4  # points whose elements are picked from what is read with all that lies between
MAX_INSTRUCTIONS = 256


def unroll(kernel: Kernel) -> Kernel:
    """The kernel with its short loops unrolled, where that keeps bodies small."""
    found = [i for body in bodies_of(kernel) for i in instructions_of(body)]
    if kernel.serial or any(isinstance(i, Indirect) for i in found):
        return kernel
    kernel = with_stages(kernel, _unroll_stage)
    return kernel if kernel.local else _unroll_last(kernel)


def _repeated(body: Body, variable: Symbol, count: int, accumulators: tuple[Accumulator, ...] = ()) -> Body:
    """The body for each value of `variable` in turn; given accumulators get a number for each."""
    recording = Recording()
    for value in range(count):
        names = {a.name: _numbered(a.name, value) for a in accumulators}
        replay(body, recording, symbols={variable: value}, accumulators=names)
    return recording.body()


def _numbered(name: str, number: int) -> str:
    return f"{name}.{number}"


def _unroll_stage(stage: Stage) -> Stage:
    while stage.loops and not stage.border:
        loop = stage.loops[-1]
        size = len(instructions_of(stage.body))
        if not isinstance(loop.extent, int) or not 0 < loop.extent <= SHORT or size * loop.extent > MAX_INSTRUCTIONS:
            break
        stage = replace(stage, loops=stage.loops[:-1], body=_repeated(stage.body, loop.variable, loop.extent))
    return stage


def _unroll_last(kernel: Kernel) -> Kernel:
    if not kernel.outer:
        return kernel
    loop = kernel.outer[-1]
    extents = [x.extent for s in kernel.stages for x in s.loops]
    size = sum(len(instructions_of(s.body)) for s in kernel.stages)
    if not isinstance(loop.extent, int) or not 0 < loop.extent <= SHORT or size * loop.extent > MAX_INSTRUCTIONS:
        return kernel
    if (loop.extent >= 4 and panel_of(kernel) is not None) or _is_a_sum_beside(kernel):
        return kernel
    alone = len(kernel.outer) == 1 and not extents
    if alone or any(loop.variable in free_symbols(e) for e in extents):
        return kernel
    stages = tuple(
        replace(s, body=_repeated(s.body, loop.variable, loop.extent, kernel.accumulators)) for s in kernel.stages
    )
    numbered = tuple(replace(a, name=_numbered(a.name, k)) for k in range(loop.extent) for a in kernel.accumulators)
    return replace(kernel, outer=kernel.outer[:-1], stages=stages, accumulators=numbered)


def _is_a_sum_beside(kernel: Kernel) -> bool:
    """Whether a kernel does little but add up columns in one pass. Written out, each column gathers its elements one by
    one: sums of five to eight columns in vectors of these were measured to take 0.4 to 1.05 of the time, and their code
    a half to a twentieth of the lines. Long bodies gain less than their half empty vectors waste."""
    passes = [s for s in kernel.stages if s.loops]
    if len(passes) != 1 or [a.kind for a in kernel.accumulators] != ["sum"] or not runs_in_columns(kernel):
        return False
    extent = kernel.outer[-1].extent
    plain = kernel.accumulators[0].dtype.kind in "iuf"
    return plain and isinstance(extent, int) and extent > PICKED and body_cost(passes[0].body) <= HEAVY
