"""Which legal fusions are worth it: pure functions of facts, returning their reason.

What goes in: two kernels in program order. What comes out: `Fuse` or `NoFuse(reason)`. Nothing here changes a kernel.
"""

from __future__ import annotations

from broadloom.fusion.handlers import effects_of
from broadloom.fusion.ir import Kernel, Loop
from broadloom.fusion.loops import in_memory_order
from broadloom.fusion.merge import SMALL, NoFuse, is_pointwise, is_small
from broadloom.fusion.tiling import walks_far_across
from broadloom.records import dataclass
from broadloom.symbolic import Size, product

ENOUGH_ROWS = 16  # outer points that keep the threads busy when the rest moves inside a row


@dataclass(frozen=True, slots=True)
class Fuse:
    """Two kernels become one, because of `reason`."""

    reason: str


BOTH_SMALL = Fuse("both are small")


def worthwhile(a: Kernel, b: Kernel) -> Fuse | NoFuse:
    """Whether fusing saves memory traffic without taking parallelism away, or else a launch of what is small."""
    answer = _saves(a, b)
    return BOTH_SMALL if isinstance(answer, NoFuse) and is_small(a) and is_small(b) else answer


def _saves(a: Kernel, b: Kernel) -> Fuse | NoFuse:
    stored, loaded = effects_of(a).stored, effects_of(b).read
    if stored & loaded and any(s.loops for s in b.stages) and walks_far_across(in_memory_order(a)):
        return NoFuse("its operands disagree on the fast axis: it is made tile by tile")
    if stored & loaded:
        reason = f"{', '.join(sorted(stored & loaded))} stays in registers or cache"
    elif common := effects_of(a).read & loaded:
        reason = f"{', '.join(sorted(common))} is read once"
    else:
        return NoFuse("nothing is shared")
    return _serialises(a, b) or Fuse(reason)


def _serialises(a: Kernel, b: Kernel) -> NoFuse | None:
    """Fusing kernels of different rank moves loops of one inside the points of the other."""
    if len(a.outer) == len(b.outer):
        return None
    large, small = (a, b) if len(a.outer) > len(b.outer) else (b, a)
    if not is_pointwise(large):
        return NoFuse("iteration spaces differ in rank")
    rows, points = _count(small.outer), _count(large.outer)
    few_rows = isinstance(rows, int) and rows < ENOUGH_ROWS
    few_points = isinstance(points, int) and points <= SMALL
    if few_rows and not few_points:
        return NoFuse(f"only {rows} rows would be left to run in parallel")
    return None


def _count(loops: tuple[Loop, ...]) -> Size:
    return product(loop.extent for loop in loops)
