"""Kernels that walk down wide columns, cut into bands of whole rows.

What goes in: a kernel in its final form, whose points are the columns of a matrix and whose stages walk down its rows.
What comes out: several kernels that do the same band by band, and the workspace in which they hand on what they fold;
or None where the kernel is to stay as it is.

A thread with a share of the columns takes a short stretch of each row, far from that of the next row: neither what
fetches ahead nor what stores is made for that, and between two stages no cache holds the columns. In bands each thread
walks over memory as it lies. A phase is what needs no fold of its own: its kernel folds each band, another one, without
loops, puts the few bands together and runs what follows, and later phases load what was folded.

What holds: every element is computed once, by the same arithmetic; bands depend on sizes alone, so results are the same
for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from functools import partial

from broadloom.dtypes import DType
from broadloom.fusion.boxes import contiguous
from broadloom.fusion.handlers import Recording, accesses, effects_of, instructions_of, replay
from broadloom.fusion.ir import (
    COMBINED_BY,
    Accumulated,
    Accumulator,
    Body,
    Buffer,
    Compute,
    Kernel,
    Loop,
    Reduce,
    ReductionKind,
    Stage,
)
from broadloom.fusion.vectors import stride
from broadloom.records import dataclass
from broadloom.symbolic import Size, Symbol, free_symbols, product, smax, smin, substitute

FEWEST_COLUMNS = 64  # a row of fewer is no walk over memory either
BANDS = 16  # as many as are put together by a body that is soon made; threads may share one
LEAST_ROWS = 8  # of a band: what is handed on is a row for each
STRIP = 1 << 20  # bytes of as many columns as are folded side by side, from where on no cache near a core holds them
SIDE_BY_SIDE = 1024  # columns of these
MOST_COLUMNS = 4 * SIDE_BY_SIDE  # up to which a thread has but a few of them in its share of a row

_ACCUMULATE = ("sum", "prod")

Value = Callable[[Recording], int]


@dataclass(slots=True)
class _Phase:
    """Stages that walk down the rows, what they fold, and the stages without loops behind them."""

    down: list[Stage] = field(default_factory=list)
    folds: list[Accumulator] = field(default_factory=list)
    after: list[Stage] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Banded:
    """The kernels in the place of one, in order, their workspace, and why."""

    kernels: tuple[Kernel, ...]
    buffers: tuple[Buffer, ...]
    reason: str


class _Loading(Recording):
    """A recording in which accumulators are what earlier code folded."""

    def __init__(self, parent: Recording | None = None, values: Mapping[str, Value] | None = None) -> None:
        super().__init__(parent)
        self.values: Mapping[str, Value] = parent.values if isinstance(parent, _Loading) else values or {}

    def accumulated(self, name: str, dtype: DType) -> int:
        value = self.values.get(name)
        return super().accumulated(name, dtype) if value is None else value(self)


def in_bands(kernel: Kernel, buffers: Mapping[str, Buffer]) -> Banded | None:
    """The kernel in bands, if it is one that gains by them. `buffers` are all there are so far."""
    rows = _rows(kernel)
    if rows is None or kernel.serial or kernel.tables or kernel.local or kernel.rings or effects_of(kernel).raises:
        return None
    column, columns, phases = kernel.outer[0].variable, kernel.outer[0].extent, _phases(kernel)
    assert isinstance(columns, int)
    if phases is None or not all(_is_apart(p, column, columns, buffers) for p in phases):
        return None
    strip = strip_of(kernel, buffers)
    assert isinstance(strip, int)
    if rows < BANDS * LEAST_ROWS or strip <= STRIP:
        return None
    length = -(-rows // BANDS)
    reason = f"bands of {length} rows, as no cache near a core holds {strip} bytes of columns side by side"
    return _Cutting(kernel, buffers, rows, length).run(phases, reason)


# ---- which kernels ----------------------------------------------------------------------------------------------


def _rows(kernel: Kernel) -> int | None:
    """How many rows the stages of a kernel with one loop over columns walk down; None where they do not all."""
    if len(kernel.outer) != 1 or not kernel.accumulators:
        return None
    columns = kernel.outer[0].extent
    if not isinstance(columns, int) or not FEWEST_COLUMNS <= columns <= MOST_COLUMNS:
        return None
    looped = [s for s in kernel.stages if s.loops]
    if any(len(s.loops) != 1 or s.sequential or s.border for s in looped):
        return None
    extents = {s.loops[0].extent for s in looped}
    if len(extents) != 1:
        return None
    (rows,) = extents
    return rows if isinstance(rows, int) else None


def _phases(kernel: Kernel) -> list[_Phase] | None:
    """The stages, phase by phase; None where what is folded cannot be put together from parts."""
    known = {a.name: a for a in kernel.accumulators}
    phases: list[_Phase] = []
    folded: set[str] = set()
    for stage in kernel.stages:
        found = instructions_of(stage.body)
        read = {i.name for i in found if isinstance(i, Accumulated)}
        made = list(dict.fromkeys(i.name for i in found if isinstance(i, Reduce)))
        if not read <= folded or not all(
            name not in folded and is_of_parts(known[name].kind, known[name].dtype) for name in made
        ):
            return None
        if stage.loops:
            if not phases or phases[-1].after or read & {a.name for a in phases[-1].folds}:
                phases.append(_Phase())
            phases[-1].down.append(stage)
            phases[-1].folds += (known[name] for name in made)
            folded |= {*made}
        elif made or not phases:
            return None
        else:
            phases[-1].after.append(stage)
    return phases


def is_of_parts(kind: ReductionKind, dtype: DType) -> bool:
    """Whether a fold is put together from those of bands, without being rounded more often."""
    narrow = dtype.kind == "f" and dtype.bits == 16 and kind in _ACCUMULATE
    return kind in COMBINED_BY and not narrow


def _is_apart(phase: _Phase, column: Symbol, columns: int, buffers: Mapping[str, Buffer]) -> bool:
    """Whether a phase walks down rows that lie one behind the other, and reads no element that it stores at another
    point: its bands may run in any order."""
    row = Symbol("row", 0)
    places: dict[str, set[Size]] = {}
    stored: set[str] = set()
    for stage in phase.down:
        variable = stage.loops[0].variable
        for a in accesses(stage.body):
            across, down = stride(a.index, column), stride(a.index, variable)
            if across not in (0, 1) or not isinstance(down, int) or a.mode == "add":
                return False
            if across == 1 and 0 != down < columns:
                return False
            if a.mode == "set":
                if across == 0 or down == 0:
                    return False
                stored.add(a.buffer)
            size = buffers[a.buffer].dtype if a.dtype is None else a.dtype
            if size.itemsize != buffers[a.buffer].dtype.itemsize:
                return False
            places.setdefault(a.buffer, set()).add(substitute(a.index, {variable: row}))
    return all(len(places[name]) == 1 for name in stored)


def strip_of(kernel: Kernel, buffers: Mapping[str, Buffer]) -> Size:
    """Bytes of all elements that have a row and one of so many columns as are folded side by side, in a kernel whose
    last outer loop goes over columns."""
    column = kernel.outer[-1]
    rows: Size = 0
    found: set[str] = set()
    for stage in kernel.stages:
        down = {loop.variable for loop in stage.loops}
        places = ((a.buffer, free_symbols(a.index)) for a in accesses(stage.body))
        own = {name for name, free in places if column.variable in free and free & down}
        if own:
            first = dict.fromkeys((*(loop.variable for loop in kernel.outer), *down), 0)
            rows = smax(rows, product(substitute(loop.extent, first) for loop in stage.loops))
            found |= own
    return rows * smin(column.extent, SIDE_BY_SIDE) * sum(buffers[name].dtype.itemsize for name in found)


# ---- the kernels in its place -----------------------------------------------------------------------------------


class _Cutting:
    """One kernel that is cut into bands of `length` rows, the last of which may have fewer."""

    def __init__(self, kernel: Kernel, buffers: Mapping[str, Buffer], rows: int, length: int) -> None:
        self.kernel, self.rows, self.length, self.bands = kernel, rows, length, -(-rows // length)
        self.column = kernel.outer[0]
        self.taken = set(buffers)
        self.made: list[Buffer] = []
        self.totals: dict[str, Value] = {}  # what kernels have folded
        self.kernels: list[Kernel] = []

    def run(self, phases: Sequence[_Phase], reason: str) -> Banded:
        for number, phase in enumerate(phases):
            later = [*(s for p in phases[number + 1 :] for s in (*p.down, *p.after))]
            if phase.folds:
                self._together(phase, self._band_by_band(phase), _read(later))
                continue
            found = [a for s in phase.down for a in accesses(s.body)]
            if {a.buffer for a in found if a.mode == "set"} <= {a.buffer for a in found if a.mode == "load"}:
                self._band_by_band(phase)
            else:
                self._row_by_row(phase)
            if phase.after:
                self._add((self.column,), [Stage((), self._turned(s.body)) for s in phase.after])
        return Banded(tuple(self.kernels), tuple(self.made), reason)

    def _row_by_row(self, phase: _Phase) -> None:
        """What folds nothing: a kernel whose points are the elements, and which may store past the caches."""
        row = Symbol("row", 0, self.rows - 1)
        stages = [Stage((), self._turned(s.body, {s.loops[0].variable: row})) for s in phase.down]
        self._add((Loop(row, self.rows), self.column), stages)

    def _band_by_band(self, phase: _Phase) -> list[Buffer]:
        """A kernel that folds each band; where it stores what it folds."""
        band, columns = Symbol("band", 0, self.bands - 1), self.column.extent
        first = band * self.length
        even = self.rows % self.length == 0
        extent: Size = self.length if even else smin(self.length, self.rows - first)
        stages = []
        for stage in phase.down:
            variable = stage.loops[0].variable
            within = Symbol(variable.name, 0, self.length - 1)
            stages.append(Stage((Loop(within, extent),), self._turned(stage.body, {variable: first + within})))
        parts = [self._buffer(a.dtype, (self.bands, columns)) for a in phase.folds]
        if parts:
            stages.append(self._storing(phase.folds, parts, band * columns + self.column.variable))
        self._add((Loop(band, self.bands), self.column), stages, phase.folds)
        return parts

    def _together(self, phase: _Phase, parts: Sequence[Buffer], needed: Collection[str]) -> None:
        """A kernel that puts together what the bands have left, and runs the stages behind their loops."""
        columns, column = self.column.extent, self.column.variable
        recording = _Loading()
        joined: dict[str, Value] = {}
        for a, part in zip(phase.folds, parts, strict=True):
            values = [recording.load(part.name, band * columns + column, a.dtype) for band in range(self.bands)]
            while len(values) > 1:  # neighbours in pairs: sums of few terms each
                pairs = zip(values[::2], values[1::2], strict=False)
                left = values[-1:] if len(values) % 2 else []
                values = [recording.compute(COMBINED_BY[a.kind], pair, a.dtype) for pair in pairs] + left
            joined[a.name] = partial(_known, values[0])
            if a.name in needed:
                total = self._buffer(a.dtype, (columns,))
                recording.store(total.name, column, values[0])
                self.totals[a.name] = partial(_loaded, total.name, column, a.dtype)
        recording.values = {**self.totals, **joined}
        for stage in phase.after:
            replay(stage.body, recording)
        self._add((self.column,), [Stage((), recording.body())], origins=[a.kind for a in phase.folds])

    def _storing(self, folds: Sequence[Accumulator], places: Sequence[Buffer], index: Size) -> Stage:
        recording = Recording()
        for a, place in zip(folds, places, strict=True):
            recording.store(place.name, index, recording.accumulated(a.name, a.dtype))
        return Stage((), recording.body())

    def _turned(self, body: Body, symbols: Mapping[Symbol, Size] | None = None) -> Body:
        """The body in other variables, with what earlier kernels folded loaded."""
        recording = _Loading(values=self.totals)
        replay(body, recording, symbols=symbols)
        return recording.body()

    def _add(
        self,
        outer: tuple[Loop, ...],
        stages: Sequence[Stage],
        folds: Sequence[Accumulator] = (),
        origins: Sequence[str] = (),
    ) -> None:
        found = [i for s in stages for i in instructions_of(s.body)]
        ops = {i.op for i in found if isinstance(i, Compute)} | {a.kind for a in folds} | {*origins}
        origins = tuple(o for o in self.kernel.origins if o in ops) or self.kernel.origins
        name = f"{self.kernel.name}.{len(self.kernels)}" if self.kernels else self.kernel.name
        self.kernels.append(Kernel(name, outer, tuple(stages), tuple(folds), origins=origins))

    def _buffer(self, dtype: DType, shape: tuple[Size, ...]) -> Buffer:
        number = len(self.taken)
        while (name := f"b{number}") in self.taken:
            number += 1
        self.taken.add(name)
        self.made.append(Buffer(name, dtype, contiguous(shape), "workspace"))
        return self.made[-1]


def _read(stages: Sequence[Stage]) -> set[str]:
    return {i.name for s in stages for i in instructions_of(s.body) if isinstance(i, Accumulated)}


def _known(value: int, recording: Recording) -> int:
    return value


def _loaded(buffer: str, index: Size, dtype: DType, recording: Recording) -> int:
    return recording.load(buffer, index, dtype)
