"""Which accesses of a kernel that runs tile by tile go through a small buffer on the stack.

What goes in: a kernel whose loops are final. What comes out: the kernel with these accesses turned to the buffers, and
what the buffers stand for. What holds: only what every point loads and nothing stores to is moved so, or what it
stores, once, and nothing loads; so it does not matter when it is moved.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from broadloom.codegen.plans import ALONG, DOWN, LEFT_TILE
from broadloom.dtypes import DType
from broadloom.fusion.handlers import Redirecting, accesses, bodies_of, instructions_of, replay
from broadloom.fusion.ir import Buffer, Indirect, Kernel, Layout, Load, Reduce, Stage, Store
from broadloom.fusion.tiling import tiled_loop
from broadloom.fusion.vectors import NEAR, stride
from broadloom.records import dataclass
from broadloom.symbolic import Size, Symbol, free_symbols

WIDEST = 8  # bytes of an element that is moved in squares
ROOM = 256 << 10  # bytes of all stack buffers of a kernel
PITCH = ALONG + LEFT_TILE  # elements of a row of a stack buffer
TOP, LEFT = Symbol("tile_top", 0), Symbol("tile_left", 0)  # where the tile begins


@dataclass(frozen=True, slots=True)
class Turned:
    """What a kernel loads of `buffer` at `index`, or stores there, is in the stack buffer `local` instead."""

    local: Buffer
    buffer: str
    index: Size
    stored: bool

    @property
    def bits(self) -> int:
        """Of an element."""
        return 8 * self.local.dtype.itemsize


def turned_of(kernel: Kernel) -> tuple[Kernel, tuple[Turned, ...]]:
    """The kernel with what it moves across tiles turned to stack buffers, and these."""
    number = tiled_loop(kernel)
    if number is None:
        return kernel, ()
    first, second = kernel.outer[number].variable, kernel.outer[-1].variable
    turned: dict[tuple[str, Size, str], Turned] = {}
    room = ROOM
    for buffer, index, mode, dtype in _moved(kernel):
        size = (DOWN + LEFT_TILE) * PITCH * dtype.itemsize
        if dtype.itemsize <= WIDEST and size <= room and _lies_across(index, first, second):
            room -= size
            local = Buffer(f"turned{len(turned)}", dtype, Layout((DOWN + LEFT_TILE, PITCH), (PITCH, 1)), "local")
            turned[buffer, index, mode] = Turned(local, buffer, index, mode != "load")
    if not turned:
        return kernel, ()
    place = (first - TOP) * PITCH + second - LEFT

    def moved(buffer: str, index: Size, mode: str) -> tuple[str, Size]:
        found = turned.get((buffer, index, mode))
        return (buffer, index) if found is None else (found.local.name, place)

    def redirected(stage: Stage) -> Stage:
        recording = Redirecting(place=moved)
        replay(stage.body, recording)
        return replace(stage, body=recording.body())

    return replace(kernel, stages=tuple(map(redirected, kernel.stages))), tuple(turned.values())


def _moved(kernel: Kernel) -> list[tuple[str, Size, str, DType]]:
    """What all points load, of buffers that nothing is stored to, or store, alone, to buffers that nothing is loaded
    from: buffer, index, mode and dtype."""
    modes = Counter((a.buffer, a.mode) for body in bodies_of(kernel) for a in accesses(body))
    unknown = {i.symbol for body in bodies_of(kernel) for i in instructions_of(body) if isinstance(i, Indirect)}
    found: dict[tuple[str, Size, str, DType], None] = {}
    for stage in kernel.stages:
        for i in stage.body.instructions:
            if not isinstance(i, Load | Store) or unknown & free_symbols(i.index):
                continue
            loads, stores, adds = (modes[i.buffer, mode] for mode in ("load", "set", "add"))
            if isinstance(i, Load) and not stores and not adds:
                found[i.buffer, i.index, "load", i.dtype] = None
            elif isinstance(i, Store) and stores == 1 and not loads and not adds:
                found[i.buffer, i.index, "set", _dtype_of(stage, i)] = None
    return list(found)


def _dtype_of(stage: Stage, store: Store) -> DType:
    value = stage.body.instructions[store.value]
    assert not isinstance(value, Store | Indirect | Reduce)  # which have no value
    return value.dtype


def _lies_across(index: Size, first: Symbol, second: Symbol) -> bool:
    step, along = stride(index, first), stride(index, second)
    return isinstance(step, int) and 0 < abs(step) <= NEAR and along not in (None, 0, 1)
