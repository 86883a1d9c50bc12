"""The block of memory through which `bl_run` hands kernels their arguments.

What goes in: the words of one launch after another. What comes out: stores of those that the block does not hold
already. What holds: a callee finds all of its words; it writes none of them but those behind, which the launch names.
A long program launches the same few kernels again and again, so most words stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broadloom.codegen.llvm import FunctionBuilder, Val, i64


class ArgumentBlock:
    """So many words on the stack, and what they hold where the builder stands."""

    def __init__(self, b: FunctionBuilder, words: int) -> None:
        self.b, self.memory = b, b.alloca("i64", max(1, words), 8)
        self._held: dict[int, Val] = {}

    def fill(self, values: Sequence[Val], written: int = 0) -> None:
        """Stores the words of a launch, whose callee writes so many words behind them."""
        for k, value in enumerate(values):
            if self._held.get(k) != value:
                self._held[k] = value
                self.b.store(value, self.b.gep("i64", self.memory, i64(k)))
        for k in range(len(values), len(values) + written):
            self._held.pop(k, None)

    def either(self, condition: Val, *launches: Callable[[], None]) -> None:
        """Runs one of two launches, or the only one if the condition holds; either finds what is held before."""
        held, arms = dict(self._held), list[dict[int, Val]]()

        def arm(launch: Callable[[], None]) -> None:
            self._held = dict(held)
            launch()
            arms.append(self._held)

        self.b.if_then(condition, *(lambda launch=launch: arm(launch) for launch in launches))
        if len(arms) == 1:
            arms.append(held)
        self._held = {k: value for k, value in arms[0].items() if arms[1].get(k) == value}
