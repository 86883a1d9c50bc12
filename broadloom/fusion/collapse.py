"""Joins neighbouring loops that walk memory as one.

What goes in: a `Kernel`. What comes out: the same kernel with fewer loops, where every index expression sees two
neighbouring loops i, j only as `i * extent(j) + j`.

What holds: the points and the order of iteration stay the same, and so does every address and the key of every check.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from broadloom.fusion.handlers import index_of, instructions_of, with_stages
from broadloom.fusion.ir import Body, IndexValue, Indirect, Instruction, Kernel, Load, Loop, Masked, Stage, Store
from broadloom.records import dataclass
from broadloom.symbolic import Size, Symbol, coefficient, free_symbols, mul, substitute


def collapse(kernel: Kernel) -> Kernel:
    """The kernel with its outer loops and each stage's loops joined as far as possible."""
    if kernel.local:  # whose outer loops have a meaning each
        return with_stages(kernel, _joined)
    stages = [_joined(stage) for stage in kernel.stages]
    extents = [loop.extent for s in stages for loop in s.loops]
    outer, bodies = _collapse(kernel.outer, tuple(s.body for s in stages), extents)
    if outer is kernel.outer and all(s is t for s, t in zip(stages, kernel.stages, strict=True)):
        return kernel
    joined = tuple(replace(s, body=b) for s, b in zip(stages, bodies, strict=True))
    return replace(kernel, outer=outer, stages=joined)


def _joined(stage: Stage) -> Stage:
    loops, (body,) = _collapse(stage.loops, (stage.body,), ())
    return replace(stage, loops=loops, body=body)


def _collapse(
    loops: tuple[Loop, ...], bodies: tuple[Body, ...], extents: Sequence[Size]
) -> tuple[tuple[Loop, ...], tuple[Body, ...]]:
    """Joins pairs from the inside out. `extents` are further expressions over the loops, which must not occur."""
    k = len(loops) - 2
    while k >= 0:
        first, second = loops[k], loops[k + 1]
        later = [loop.extent for loop in loops[k + 1 :]]
        if second.extent == 0:  # never run, and no place is that many times another
            k -= 1
            continue
        if first.variable in _symbols([*later, *extents]) or second.variable in _symbols(extents):
            k -= 1
            continue
        indices = {e for body in bodies for e in _indices(body)}
        if all(_joins(e, first.variable, second) for e in indices):
            extent = mul(first.extent, second.extent)
            variable = Symbol(f"{first.variable.name}{second.variable.name}", 0, extent - 1)
            values: dict[Symbol, Size] = {first.variable: 0, second.variable: variable}
            apart: dict[Symbol, Size] = {first.variable: variable // second.extent}
            apart[second.variable] = variable % second.extent
            bodies = tuple(_rewritten(body, _Joined(first.variable, second, values, apart)) for body in bodies)
            loops = (*loops[:k], Loop(variable, extent), *loops[k + 2 :])
        k -= 1
    return loops, bodies


def _symbols(sizes: Iterable[Size]) -> set[Symbol]:
    return {s for e in sizes for s in free_symbols(e)}


def _indices(body: Body) -> list[Size]:
    return [e for i in instructions_of(body) if (e := index_of(i)) is not None]


def _joins(e: Size, first: Symbol, second: Loop) -> bool:
    """Whether e depends on the pair only through first * extent(second) + second."""
    if isinstance(e, int) or not ({first, second.variable} & free_symbols(e)):
        return True
    outer = coefficient(e, first)
    if outer is None:
        return False
    inner = coefficient(outer[1], second.variable)
    if inner is None or outer[0] != mul(inner[0], second.extent):
        return False
    return second.variable not in free_symbols(inner[0]) | free_symbols(outer[0])


@dataclass(frozen=True, slots=True)
class _Joined:
    """A pair of loops that became one: what their variables are in expressions that join, and in others."""

    first: Symbol
    second: Loop
    values: dict[Symbol, Size]
    apart: dict[Symbol, Size]

    def key(self, e: Size) -> Size:
        """The key of a check, which is no address and hinders no joining."""
        return substitute(e, self.values if _joins(e, self.first, self.second) else self.apart)


def _rewritten(body: Body, joined: _Joined) -> Body:
    return Body(tuple(_rewrite(i, joined) for i in body.instructions), body.base)


def _rewrite(i: Instruction, joined: _Joined) -> Instruction:
    match i:
        case Load() | Store() | IndexValue():
            return replace(i, index=substitute(i.index, joined.values))
        case Indirect():
            return replace(i, size=substitute(i.size, joined.values), key=joined.key(i.key))
        case Masked():
            return replace(i, body=_rewritten(i.body, joined))
    return i
