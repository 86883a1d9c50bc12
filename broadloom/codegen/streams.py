"""Stores past the caches, for results that no cache could keep.

What goes in: the steps of a program, and the bytes of the last cache. What comes out: for each kernel a `Stream` or a
`Keep`, with the reason, and how many points are stored together.

A store to a line that is in no cache reads the line first: a third of what `x * 0.5` moves. A non-temporal store does
not, but evicts what it writes, so it pays for memory that would be evicted anyway. LLVM does not vectorise loops with
such stores, so these are written for vectors: of points, where a kernel has no loops inside of its points - a plain
loop does the points before the first whole line and after the last -, or of the elements of a row (`rows.py`), where
rows begin with lines.

What holds: values do not depend on it. Lines are in memory, for all threads, before the kernel function returns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broadloom.codegen.memory import LINE
from broadloom.codegen.panels import panel_of
from broadloom.codegen.plans import runs_in_columns
from broadloom.codegen.rows import points_of, row_of
from broadloom.codegen.turned import turned_of
from broadloom.fusion.cost import body_cost
from broadloom.fusion.handlers import Access, accesses, effects_of, instructions_of
from broadloom.fusion.ir import Buffer, Extern, Kernel, Loop, Stage
from broadloom.fusion.tiling import tiled_loop
from broadloom.fusion.vectors import is_plain, stride
from broadloom.records import dataclass
from broadloom.symbolic import Size, free_symbols, product, range_of, total

LIGHT = 0.6  # cost units of a point up to which code is made for both ways where it depends on the call which pays
MIDDLING = 1.5  # up to which as many vectors are computed in one step as there are registers for
LEAST_ROW = 4 << 10  # bytes of a row below which its first and last lines count


@dataclass(frozen=True, slots=True)
class Stream:
    """`buffers` are stored past the caches, because of `reason`; where `bytes` is symbolic, by the calls that move more
    than `limit`."""

    buffers: tuple[str, ...]
    bytes: Size
    limit: int
    reason: str

    @property
    def always(self) -> bool:
        """Whether all calls do."""
        return _exceeds(self.bytes, self.limit)


@dataclass(frozen=True, slots=True)
class Keep:
    """A kernel's results go through the caches, because of `reason`, which with `shown` says how the kernel runs."""

    reason: str
    shown: bool = False


def choose(
    steps: Sequence[Kernel | Extern], buffers: Mapping[str, Buffer], last: int
) -> tuple[Stream | Keep | None, ...]:
    """For each step how its results are stored; None for what is no kernel. `last`: bytes of the last cache."""
    readers: dict[str, set[int]] = {}
    for number, step in enumerate(steps):
        for name in effects_of(step).loaded:
            readers.setdefault(name, set()).add(number)
    return tuple(
        _choose(step, buffers, last, {b for b in effects_of(step).stored if readers.get(b, set()) - {number}})
        if isinstance(step, Kernel)
        else None
        for number, step in enumerate(steps)
    )


def _choose(kernel: Kernel, buffers: Mapping[str, Buffer], last: int, read: set[str]) -> Stream | Keep:
    found = [a for s in kernel.stages for a in accesses(s.body)]
    if kernel.serial or kernel.local or not kernel.outer:
        return Keep("its points are no plain walk through memory")
    if runs_in_columns(kernel):
        return Keep("neighbouring points side by side, as loops within them stride through memory", shown=True)
    if panel_of(kernel) is not None:
        return Keep("its points are no plain walk through memory")
    if tiled_loop(kernel) is not None:
        return _choose_tiles(kernel, found, buffers, last, read)
    if any(s.loops for s in kernel.stages):
        return _choose_rows(kernel, buffers, last, read)
    column = kernel.outer[-1].variable
    if kernel.tables or not all(is_plain(i, column) for s in kernel.stages for i in instructions_of(s.body)):
        return Keep("its points are not computed side by side by plain vectors")
    moved = _bytes(kernel, found, buffers)
    bounds = range_of(moved)
    if isinstance(bounds.hi, int) and bounds.hi <= last:
        return Keep(f"the caches hold the {bounds.hi} bytes that it moves")
    if not _exceeds(moved, last) and sum(body_cost(s.body) for s in kernel.stages) > LIGHT:
        return Keep("its arithmetic takes longer than its stores, and code for both ways takes longer to make")
    chosen = [n for n in dict.fromkeys(a.buffer for a in found) if _is_sequential(n, kernel, found, buffers)]
    own = [n for n in chosen if buffers[n].kind != "input"]
    chosen = own or chosen[:1]  # memory of the caller's begins anywhere in a line
    return _decided(chosen, moved, buffers, last, read)


def _choose_tiles(
    kernel: Kernel, found: Sequence[Access], buffers: Mapping[str, Buffer], last: int, read: set[str]
) -> Stream | Keep:
    """The answer for a kernel that runs tile by tile, whose rows are stored past the caches where they begin with
    lines."""
    if points_of(turned_of(kernel)[0], frozenset(), tiled=True) is None:
        return Keep("its points are not computed side by side by plain vectors")
    moved = _bytes(kernel, found, buffers)
    bounds = range_of(moved)
    if isinstance(bounds.hi, int) and bounds.hi <= last:
        return Keep(f"the caches hold the {bounds.hi} bytes that it moves")
    chosen = [n for n in dict.fromkeys(a.buffer for a in found) if _is_in_lines(n, kernel, found, buffers[n])]
    return _decided(chosen, moved, buffers, last, read)


def _is_in_lines(name: str, kernel: Kernel, found: Sequence[Access], buffer: Buffer) -> bool:
    """Whether a buffer is stored once at each point and not loaded, side by side along the last loop, and each row of
    it begins as far into a line as the first, for all that is known."""
    own = [a for a in found if a.buffer == name]
    if len(own) != 1 or own[0].mode != "set" or buffer.kind == "input" or not buffer.aligned:
        return False
    *steps, along = (stride(own[0].index, loop.variable) for loop in kernel.outer)
    return along == 1 and not any(isinstance(s, int) and s * buffer.dtype.itemsize % LINE for s in steps)


def _choose_rows(kernel: Kernel, buffers: Mapping[str, Buffer], last: int, read: set[str]) -> Stream | Keep:
    """The answer for a kernel with loops inside of its points."""
    outer = {loop.variable for loop in kernel.outer}
    if any(outer & free_symbols(loop.extent) for s in kernel.stages for loop in s.loops):
        return Keep("its rows differ in length")
    moved = _bytes_of_rows(kernel, buffers)
    bounds = range_of(moved)
    if isinstance(bounds.hi, int) and bounds.hi < last:
        return Keep(f"the caches hold the {bounds.hi} bytes that it moves")
    found = [a.buffer for s in kernel.stages for a in accesses(s.body)]
    once = [n for n in dict.fromkeys(found) if found.count(n) == 1 and n in buffers]
    chosen = [n for n in once if any(_begins_with_lines(n, s, kernel, buffers[n]) for s in kernel.stages)]
    return _decided(chosen, moved, buffers, last - 1, read)  # what fills the whole cache does not stay


def _decided(
    chosen: Sequence[str], moved: Size, buffers: Mapping[str, Buffer], last: int, read: set[str]
) -> Stream | Keep:
    """The answer, where these buffers may be stored past the caches."""
    chosen = [n for n in chosen if n not in read or _exceeds(_size(buffers[n]), last)]
    if not chosen:
        return Keep("nothing is stored once, side by side, and not read again at once")
    sure = "" if isinstance(moved, int) else ", where it does"
    reason = f"it moves {moved} bytes, more than the {last} that the caches hold{sure}"
    return Stream(tuple(chosen), moved, last, f"stores {', '.join(chosen)} past the caches: {reason}")


def _exceeds(size: Size, last: int) -> bool:
    low = range_of(size).lo
    return isinstance(low, int) and low > last


def _size(buffer: Buffer) -> Size:
    return product(buffer.layout.shape) * buffer.dtype.itemsize


def _is_sequential(name: str, kernel: Kernel, found: Sequence[Access], buffers: Mapping[str, Buffer]) -> bool:
    """Whether a buffer is stored once at each point and not loaded, and the points of the last loop lie side by side,
    in rows that are long."""
    own = [a for a in found if a.buffer == name]
    last, itemsize = kernel.outer[-1], buffers[name].dtype.itemsize
    if len(own) != 1 or own[0].mode != "set" or stride(own[0].index, last.variable) != 1 or not buffers[name].aligned:
        return False
    return not isinstance(last.extent, int) or last.extent * itemsize >= LEAST_ROW


def _begins_with_lines(name: str, stage: Stage, kernel: Kernel, buffer: Buffer) -> bool:
    """Whether a stage that runs in vectors stores a buffer along its innermost loop, and each row of it begins as
    far into a line as the first, for all that is known."""
    own = [a for a in accesses(stage.body) if a.buffer == name]
    if not own or own[0].mode != "set" or buffer.kind == "input" or not buffer.aligned or not stage.loops:
        return False
    if row_of(stage, {a.name: a for a in kernel.accumulators}, frozenset()) is None:
        return False
    if stride(own[0].index, stage.loops[-1].variable) != 1:
        return False
    steps = [stride(own[0].index, loop.variable) for loop in (*kernel.outer, *stage.loops[:-1])]
    return not any(isinstance(s, int) and s * buffer.dtype.itemsize % LINE for s in steps)


def _bytes_of_rows(kernel: Kernel, buffers: Mapping[str, Buffer]) -> Size:
    """Bytes of all elements of memory that the kernel loads and stores, each counted once."""
    seen: dict[str, Size] = {}
    for stage in kernel.stages:
        loops: tuple[Loop, ...] = (*kernel.outer, *stage.loops)
        for a in accesses(stage.body):
            if a.buffer in buffers:
                used = free_symbols(a.index)
                elements = product(loop.extent for loop in loops if loop.variable in used)
                seen.setdefault(a.buffer, elements * buffers[a.buffer].dtype.itemsize)
    return total(seen.values())


def _bytes(kernel: Kernel, found: Sequence[Access], buffers: Mapping[str, Buffer]) -> Size:
    """Bytes of all elements that the kernel stores, and of the buffers that it loads an element of at each point."""
    points = product(loop.extent for loop in kernel.outer)
    variables = {loop.variable for loop in kernel.outer}
    seen: dict[str, int] = {}
    for a in found:
        if variables <= free_symbols(a.index):
            seen[a.buffer] = buffers[a.buffer].dtype.itemsize
    return points * sum(seen.values())


# ---- code -----------------------------------------------------------------------------------------------------------


def points_together(stream: Stream, buffers: Mapping[str, Buffer]) -> int:
    """How many points are stored together: a line of the widest dtype, or of four bytes."""
    return LINE // max(4, *(buffers[n].dtype.itemsize for n in stream.buffers))


def steps_of(kernel: Kernel, features: frozenset[str]) -> int:
    """How many of these are computed in one step: as many as keep a chain of instructions from waiting for itself,
    where there are registers for them and what is left at the end of a row does not count. Long bodies, whose code
    takes time to make, have more to do at once by themselves."""
    if len(kernel.outer) > 1:
        return 1
    most = 4 if "avx512f" in features or "neon" in features else 2
    cost = sum(body_cost(s.body) for s in kernel.stages)
    return most if cost <= MIDDLING else most // 2 if cost <= 2 * MIDDLING else 1
