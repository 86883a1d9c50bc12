"""Memory layouts for the operands of compiled ops.

What goes in: an array and a `Layout`. What comes out: an array of the same values in such memory, and how a graph
declares it. What holds: along a "zero" axis, which is always a loop axis, all values are those of the first element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from broadloom.graph.builder import contiguous_strides
from broadloom.symbolic import Size, Symbol

Array = np.ndarray[Any, Any]
LayoutClass = Literal["c", "f", "strided", "unaligned"]
Kind = Literal["any", "unit", "zero"]
LAYOUTS: tuple[LayoutClass, ...] = ("c", "f", "strided", "unaligned")
LOWEST = -(2**62)


@dataclass(frozen=True, slots=True)
class Layout:
    """One operand's memory: `order` lists its axes, outermost first; `kinds` are given where it is strided."""

    order: tuple[int, ...]
    kinds: tuple[Kind, ...] = ()
    aligned: bool = True

    def strides(self, shape: Sequence[Size], name: str) -> tuple[Size, ...]:
        """Element strides as a graph input declares them: symbols where any stride is admitted."""
        if not self.kinds:
            return contiguous_strides(shape, self.order)
        fixed = {"unit": 1, "zero": 0}
        return tuple(fixed.get(k, Symbol(f"{name}_stride_{axis}", LOWEST)) for axis, k in enumerate(self.kinds))


def draw(layout: LayoutClass, rank: int, loop_rank: int, rng: np.random.Generator) -> Layout:
    """A layout of the class for an operand of `rank` axes, whose first `loop_rank` are loop axes."""
    if layout == "f":
        return Layout(tuple(reversed(range(rank))))
    if layout != "strided":
        return Layout(tuple(range(rank)), aligned=layout != "unaligned")
    order = tuple(int(axis) for axis in rng.permutation(rank))
    kinds: list[Kind] = ["any"] * rank
    for axis in range(loop_rank):
        if rng.random() < 0.2:
            kinds[axis] = "zero"
    if rank and rng.random() < 0.4 and kinds[order[-1]] == "any":
        kinds[order[-1]] = "unit"
    return Layout(order, tuple(kinds), bool(rng.random() < 0.8))


def arranged(array: Array, layout: Layout, loop_rank: int, rng: np.random.Generator) -> Array:
    """The values of `array` in memory as `layout` says. General strides are drawn anew: negative, with gaps, zero."""
    steps = [1] * array.ndim
    for axis, kind in enumerate(layout.kinds):
        admitted = {"any": (-3, -2, -1, 1, 2, 3) + (0,) * (2 * (axis < loop_rank)), "unit": (1,), "zero": (0,)}[kind]
        steps[axis] = int(rng.choice(admitted))
    kept = [n if s else min(n, 1) for n, s in zip(array.shape, steps, strict=True)]
    room = _room([kept[axis] * max(1, abs(steps[axis])) for axis in layout.order], array.dtype, layout.aligned, rng)
    view = room.transpose(np.argsort(np.array(layout.order, np.intp)))
    view = view[(..., *(slice(None, None, s or 1) for s in steps))]
    view[...] = array[(..., *(slice(0, n) for n in kept))]
    strides = [0 if s == 0 else b for s, b in zip(steps, view.strides, strict=True)]
    return np.lib.stride_tricks.as_strided(view, array.shape, strides)


def _room(shape: Sequence[int], dtype: np.dtype[Any], aligned: bool, rng: np.random.Generator) -> Array:
    """Memory of any content, aligned as the dtype asks for and no more; one byte beside that unless aligned. It reaches
    up to the end of what was allocated, so that a byte behind it is nobody's."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    front = 16 + dtype.alignment * int(rng.integers(8))
    memory = np.empty(front + size, np.uint8)
    memory[:] = 1 if dtype.kind == "b" else 0xA5
    start = front - (memory.ctypes.data + front - (0 if aligned else 1)) % dtype.alignment
    return np.ndarray(tuple(shape), dtype, memory.data, start)
