"""Long expressions of sizes in a kernel as words of its argument block: computed once a call, before it is launched.

What goes in: a kernel. What comes out: the same kernel, in which a symbol stands for each long part of an extent or
index that no loop changes, and what the symbols stand for. What holds: a symbol has the range of what it stands for.

Parts of a long concatenation begin at sums of minima and maxima of sizes. Each kernel would compute its own, and LLVM
takes more than quadratic time to look for what changes in a loop among so many terms. Kernels that differ in such a
word alone are one function.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from broadloom.fusion.handlers import accesses, instructions_of
from broadloom.fusion.ir import Body, Indirect, Instruction, Kernel, Load, Loop, Masked, Stage, Store
from broadloom.symbolic import Add, Expr, Size, Symbol, free_symbols, range_of, total

LONG = 8  # nodes of an expression that is a word


def with_words(kernel: Kernel) -> tuple[Kernel, Mapping[Symbol, Size]]:
    """The kernel with words, and their values; the same kernel where nothing in it is long."""
    loops, bodies = (*kernel.outer, *(v for s in kernel.stages for v in s.loops)), [s.body for s in kernel.stages]
    sizes = (*(loop.extent for loop in loops), *(a.index for body in bodies for a in accesses(body)))
    if not any(map(_is_long, sizes)):
        return kernel, {}
    looked_up = {i.symbol for body in bodies for i in instructions_of(body) if isinstance(i, Indirect)}
    words = _Words(looked_up | {loop.variable for loop in loops})
    outer = tuple(map(words.loop, kernel.outer))
    stages = tuple(map(words.stage, kernel.stages))
    if not words.values:
        return kernel, {}
    return replace(kernel, outer=outer, stages=stages), words.values


class _Words:
    """Puts symbols in place of what is long and changes with none of the `variables`."""

    def __init__(self, variables: set[Symbol]) -> None:
        self.variables = variables
        self.values: dict[Symbol, Size] = {}
        self._symbols: dict[Size, Symbol] = {}

    def loop(self, loop: Loop) -> Loop:
        extent = self.size(loop.extent)
        return loop if extent is loop.extent else Loop(loop.variable, extent)

    def stage(self, stage: Stage) -> Stage:
        return replace(stage, loops=tuple(map(self.loop, stage.loops)), body=self.body(stage.body))

    def body(self, body: Body) -> Body:
        return replace(body, instructions=tuple(map(self._instruction, body.instructions)))

    def _instruction(self, instruction: Instruction) -> Instruction:
        if isinstance(instruction, Masked):
            return replace(instruction, body=self.body(instruction.body))
        if isinstance(instruction, Load | Store):
            index = self.size(instruction.index)
            return instruction if index is instruction.index else replace(instruction, index=index)
        return instruction

    def size(self, e: Size) -> Size:
        """The expression with words."""
        if not isinstance(e, Expr) or not _is_long(e):
            return e
        if free_symbols(e).isdisjoint(self.variables):
            return self._word(e)
        if not isinstance(e, Add):
            return e
        still = [(m, c) for m, c in e.terms if free_symbols(m).isdisjoint(self.variables)]
        offset = total([*(m * c for m, c in still), e.constant])
        if not isinstance(offset, Expr) or not _is_long(offset):
            return e
        return e - offset + self._word(offset)

    def _word(self, e: Expr) -> Symbol:
        found = self._symbols.get(e)
        if found is None:
            known = range_of(e)
            low = -(1 << 62) if known.lo is None else known.lo
            found = self._symbols[e] = Symbol(f"word{len(self._symbols)}", low, known.hi)
            self.values[found] = e
        return found


def _is_long(e: Size) -> bool:
    """Whether an expression has as many nodes as a word is worth."""
    count, pending = 0, [e] if isinstance(e, Expr) else []
    while pending and count < LONG:
        node = pending.pop()
        count += 1
        if not isinstance(node, Symbol):
            parts = [m for m, _ in node.terms] if isinstance(node, Add) else node.args
            pending += [p for p in parts if isinstance(p, Expr)]
    return count >= LONG
