"""The memory plan: where each workspace buffer lies within the one block that a run allocates.

What goes in: a `Program`. What comes out: an offset in bytes for every buffer of kind "workspace", and the size of
the block; both may be symbolic.

What holds: offsets are multiples of 64; two buffers overlap only if no step uses both and the uses of one all come
before the uses of the other. Buffers of constant size are placed first fit; symbolic ones share a slot when the
slot's size is proven to suffice, for which the few slots that were made last are asked.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping

from broadloom.fusion.handlers import effects_of
from broadloom.fusion.ir import Buffer, Extern, Kernel, Layout, Program
from broadloom.records import dataclass
from broadloom.symbolic import Size, le, proves, smax

ALIGNMENT = 64
PROOFS = 4  # for one buffer


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Offsets by buffer name, in bytes, and the total."""

    offsets: Mapping[str, Size]
    total: Size


def elements(layout: Layout) -> Size:
    """How many elements from offset 0 a layout spans (strides are not negative).

    >>> elements(Layout((3, 4), (4, 1))), elements(Layout((0, 4), (4, 1)))
    (12, 0)
    """
    if any(s == 0 for s in layout.shape if isinstance(s, int)):
        return 0
    last: Size = layout.offset + 1
    for size, stride in zip(layout.shape, layout.strides, strict=True):
        # A symbolic size of 0 must not make the span negative.
        last = last + (smax(size, 1) - 1) * stride
    return last


def buffers_of(step: Kernel | Extern) -> frozenset[str]:
    """The buffers that a step reads or writes."""
    touched = effects_of(step).touched
    return touched - unstored(step) if isinstance(step, Extern) else touched


def unstored(step: Extern) -> frozenset[str]:
    """The buffers without memory: those that stand for operands which prologues make, and that which stands for the
    product where the epilogue alone takes it."""
    gone = frozenset[str]().union(*(effects_of(p).stored for p in step.prologues))
    if step.epilogue is None or dict(step.attrs).get("kept"):
        return gone
    return gone | (frozenset(r.buffer for r in step.results) - effects_of(step.epilogue).stored)


def plan_memory(program: Program) -> MemoryPlan:
    """First fit over the intervals between first and last use."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for number, step in enumerate(program.steps):
        for name in buffers_of(step):
            first.setdefault(name, number)
            last[name] = number
    used = [b for b in program.buffers if b.kind == "workspace" and b.name in first]
    used.sort(key=lambda b: first[b.name])
    spans = {b.name: (first[b.name], last[b.name]) for b in used}
    offsets: dict[str, Size] = {}
    static = _place_static([b for b in used if isinstance(_bytes(b), int)], spans, offsets)
    total = _place_symbolic([b for b in used if not isinstance(_bytes(b), int)], spans, offsets, static)
    return MemoryPlan(offsets, total)


def _bytes(buffer: Buffer) -> Size:
    return elements(buffer.layout) * buffer.dtype.itemsize


def _aligned(size: Size) -> Size:
    """So many bytes, rounded up to the alignment; never 0, so that addresses stay apart."""
    if isinstance(size, int):
        return max(1, -(-size // ALIGNMENT)) * ALIGNMENT
    return (size + ALIGNMENT) // ALIGNMENT * ALIGNMENT


def _place_static(buffers: list[Buffer], spans: Mapping[str, tuple[int, int]], offsets: dict[str, Size]) -> int:
    """Offsets for buffers in the order of their first use; the bytes that they take together."""
    live: list[tuple[int, int, int]] = []  # start, end and last use of those that are still used, in memory order
    total = 0
    for buffer in buffers:
        size, (begin, end) = _aligned(_bytes(buffer)), spans[buffer.name]
        assert isinstance(size, int)
        live = [p for p in live if p[2] >= begin]
        at = 0
        for start, stop, _ in live:
            if at + size <= start:
                break
            at = max(at, stop)
        offsets[buffer.name] = at
        bisect.insort(live, (at, at + size, end))
        total = max(total, at + size)
    return total


def _place_symbolic(
    buffers: list[Buffer], spans: Mapping[str, tuple[int, int]], offsets: dict[str, Size], base: int
) -> Size:
    slots: list[tuple[Size, Size, int]] = []  # offset, size before it is rounded up, last step that uses it
    total: Size = base
    for buffer in buffers:
        size, (begin, end) = _bytes(buffer), spans[buffer.name]
        free = [k for k, (_, _, busy) in enumerate(slots) if busy < begin]
        fitting = [k for k in free if slots[k][1] is size]
        if not fitting:
            fitting = [k for k in free[-PROOFS:] if proves(le(size, slots[k][1])) is True]
        if fitting:
            offset, room, _ = slots[fitting[0]]
            offsets[buffer.name], slots[fitting[0]] = offset, (offset, room, end)
        else:
            offsets[buffer.name] = total
            slots.append((total, size, end))
            total = total + _aligned(size)
    return total
