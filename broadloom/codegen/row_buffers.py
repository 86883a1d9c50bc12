"""Row buffers: what a kernel hands from pass to pass over a row stays on the stack instead of going through memory.

What goes in: a kernel whose loops are final, and what is known of the program's buffers. What comes out: the kernel
with such accesses turned to buffers of one row each, and those buffers.

What holds: each load sees the value it saw before. A buffer is replaced where one stage of an outer point stores it,
element by element side by side, later stages of the same point load those elements, and either the last stage that
stores them again makes what others see, or nothing outside of the kernel sees any of it. So memory is written once, a
workspace not at all, and a row stays in the nearest cache whatever the size of the whole.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from broadloom.codegen.panels import panel_of
from broadloom.codegen.plans import runs_in_columns
from broadloom.dtypes import DType
from broadloom.fusion.handlers import Redirecting, accesses, facts_of, replay
from broadloom.fusion.ir import Buffer, Kernel, Layout, Load, Loop, Stage, Store
from broadloom.fusion.tiling import tiled_loop
from broadloom.fusion.vectors import stride
from broadloom.records import dataclass
from broadloom.symbolic import Size, Symbol, free_symbols, product, substitute

ROOM = 16 << 10  # bytes of all row buffers of a kernel, which share the nearest cache with the rows that are read


@dataclass(frozen=True, slots=True)
class Kept:
    """The kernel, and its row buffers: its accesses to them count elements from the start of the row."""

    kernel: Kernel
    rows: tuple[Buffer, ...] = ()


def keep_rows(kernel: Kernel, buffers: Mapping[str, Buffer], private: Collection[str]) -> Kept:
    """The kernel with row buffers, as many as there is room for. `private`: workspace that no other step uses."""
    if kernel.serial or kernel.local or not kernel.outer or not any(s.loops for s in kernel.stages):
        return Kept(kernel)
    if runs_in_columns(kernel) or panel_of(kernel) is not None or tiled_loop(kernel) is not None:
        return Kept(kernel)
    rows: list[Buffer] = []
    room = ROOM
    for name in dict.fromkeys(a.buffer for s in kernel.stages for a in accesses(s.body) if a.mode == "set"):
        buffer = buffers[name]
        if buffer.kind not in ("workspace", "output"):
            continue
        span = _span(kernel.stages, name, buffer.dtype, name in private)
        if span is None or span.elements * buffer.dtype.itemsize > room:
            continue
        room -= span.elements * buffer.dtype.itemsize
        row = Buffer(f"row{len(rows)}", buffer.dtype, Layout((span.elements,), (1,)), "workspace")
        rows.append(row)
        stages = tuple(
            _turned(s, name, row.name, span.last == number) if number <= span.last else s
            for number, s in enumerate(kernel.stages)
        )
        kernel = replace(kernel, stages=stages)
    return Kept(kernel, tuple(rows))


@dataclass(frozen=True, slots=True)
class _Span:
    """Elements of a row, and the stage whose store is to memory; a number behind all where none is."""

    elements: int
    last: int


def _span(stages: Sequence[Stage], name: str, dtype: DType, private: bool) -> _Span | None:
    """Where a buffer may be replaced, None where it may not."""
    used = [n for n, s in enumerate(stages) if name in facts_of(s.body).stored | facts_of(s.body).loaded]
    storing = [n for n in used if name in facts_of(stages[n].body).stored]
    last = len(stages) if private else storing[-1]
    within = [n for n in used if n <= last]
    if within[0] != storing[0] or (not private and len(storing) < 2):
        return None
    shapes = {_shape(stages[n], name, dtype, n == storing[0], n == last) for n in within}
    if len(shapes) != 1 or None in shapes:
        return None
    extents, _ = shapes.pop() or ((), 0)
    elements = product(extents)
    return _Span(elements, last) if isinstance(elements, int) and elements > 0 else None


def _shape(stage: Stage, name: str, dtype: DType, first: bool, last: bool) -> tuple[tuple[Size, ...], Size] | None:
    """The extents of a stage's loops and the one index at which it uses a buffer, in variables of fixed names. None
    where there are several, or the elements do not lie side by side. Nothing is loaded before the store of the first
    stage, which would be of an earlier kernel, nor after that of the last."""
    top = [i for i in stage.body.instructions if isinstance(i, Load | Store) and i.buffer == name]
    if len(top) != sum(a.buffer == name for a in accesses(stage.body)) or not stage.loops:
        return None
    if any(isinstance(i, Store) and i.mode != "set" for i in top):
        return None
    if any(isinstance(i, Load) and i.dtype is not dtype for i in top):
        return None
    stores = [k for k, i in enumerate(top) if isinstance(i, Store)]
    if len(stores) > 1 or (first and stores != [0]) or (last and stores != [len(top) - 1]):
        return None
    indices = {i.index for i in top}
    if len(indices) != 1:
        return None
    (index,) = indices
    if not _is_side_by_side(index, stage.loops):
        return None
    fixed: dict[Symbol, Size] = {x.variable: Symbol(f"at{k}", 0) for k, x in enumerate(stage.loops)}
    return tuple(x.extent for x in stage.loops), substitute(index, fixed)


def _is_side_by_side(index: Size, loops: Sequence[Loop]) -> bool:
    step: Size = 1
    variables = {x.variable for x in loops}
    for x in reversed(loops):
        if stride(index, x.variable) != step or variables & free_symbols(x.extent):
            return False
        step = step * x.extent
    return True


def _turned(stage: Stage, name: str, row: str, last: bool) -> Stage:
    """The stage with its accesses to a buffer turned to a row; in the last one, those before its store."""
    if name not in facts_of(stage.body).stored | facts_of(stage.body).loaded:
        return stage
    position: Size = 0
    for loop in stage.loops:
        position = position * loop.extent + loop.variable

    def turned(buffer: str, index: Size, mode: str) -> tuple[str, Size]:
        return (row, position) if buffer == name and not (last and mode != "load") else (buffer, index)

    recording = Redirecting(place=turned)
    replay(stage.body, recording)
    return replace(stage, body=recording.body())
