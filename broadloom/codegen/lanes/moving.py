"""Blocks of matrices between the caller's arrays and grids of vectors.

What goes in: a `Place` of every lane's matrix, and how its elements lie. What comes out: code that fills a grid, or
writes it. What holds: matrices whose elements follow each other are moved as squares of as many numbers as there are
lanes, transposed in registers, never beyond a matrix's end; all others number by number. Numbers in memory may be
floats where those of the grid are doubles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broadloom.codegen.lanes.grid import Engine, Grid, Held, Place, Stored, Unrolled, plus, times
from broadloom.codegen.lanes.numbers import Field, Number
from broadloom.codegen.llvm import Val, i64, vector
from broadloom.codegen.transpose import transposed
from broadloom.records import dataclass

Keep = Callable[[Place, Val], None]


@dataclass(frozen=True, slots=True)
class Matrices:
    """How the matrices of an operand lie: rows and columns, the steps between them in elements, whether the elements
    follow each other ("rows" or "columns" in one piece), and the type of a number in memory."""

    rows: Place
    columns: Place
    row_step: Place
    column_step: Place
    dense: str  # "rows", "columns" or "" for neither
    element: str

    def offset(self, field: Field, row: Place, column: Place, part: int) -> Val:
        """How many numbers behind its start an element lies."""
        b = field.b
        place = plus(b, times(b, row, self.row_step), times(b, column, self.column_step))
        found = plus(b, times(b, place, field.parts), part)
        return i64(found) if isinstance(found, int) else found


@dataclass(frozen=True, slots=True)
class Mover:
    """Moves blocks with the loops of an engine."""

    engine: Engine

    @property
    def field(self) -> Field:
        return self.engine.field

    # -- in --

    def load(self, m: Matrices, starts: Sequence[Val], grid: Grid) -> None:
        """The matrices at `starts`; a single one for all lanes."""
        if m.dense and len(starts) > 1:
            self._load_dense(m, starts, grid)
            return

        def row(i: Place) -> None:
            def column(j: Place) -> None:
                offsets = [m.offset(self.field, i, j, part) for part in range(self.field.parts)]
                grid.set(i, j, tuple(self._gather(m, starts, o) for o in offsets))

            self.engine.loop(0, m.columns, column)

        self.engine.loop(0, m.rows, row)

    def _gather(self, m: Matrices, starts: Sequence[Val], offset: Val) -> Val:
        b, lanes = self.field.b, self.field.lanes
        values = [b.load(m.element, b.gep(m.element, start, offset)) for start in starts]
        found = b.splat(values[0], lanes)
        for lane, value in enumerate(values[1:], start=1):
            found = b.insert(found, value, lane)
        return self._widened(found)

    def _widened(self, x: Val) -> Val:
        return x if x.type == self.field.type else self.field.b.fpext(x, self.field.type)

    def _load_dense(self, m: Matrices, starts: Sequence[Val], grid: Grid) -> None:
        b, field = self.field.b, self.field
        held: dict[Place, Val] = {}

        def keep(number: Place, value: Val) -> None:
            if isinstance(grid, Stored):
                b.store(value, grid.numbered(number))
            else:
                held[number] = value

        def square(first: Place) -> None:
            at = i64(first) if isinstance(first, int) else first
            rows = [
                b.load(vector(m.element, field.lanes), b.gep(m.element, s, at), 4 if m.element == "float" else 8)
                for s in starts
            ]
            for k, v in enumerate(transposed(b, rows)):
                keep(plus(b, first, k), self._widened(v))

        def single(number: Place) -> None:
            keep(number, self._gather(m, starts, i64(number) if isinstance(number, int) else number))

        self._squares(times(b, times(b, m.rows, m.columns), field.parts), square, single)
        if isinstance(grid, Held):
            for row, column, numbers in self._order(m):
                grid.set(row, column, tuple(held[n] for n in numbers))

    def _order(self, m: Matrices) -> list[tuple[int, int, list[int]]]:
        """Rows and columns of a dense matrix, with the numbers in memory of the parts of each element."""
        assert isinstance(m.rows, int) and isinstance(m.columns, int)
        parts = self.field.parts
        found = []
        for i in range(m.rows):
            for j in range(m.columns):
                place = i * m.columns + j if m.dense == "rows" else j * m.rows + i
                found.append((i, j, [place * parts + part for part in range(parts)]))
        return found

    def _squares(self, count: Place, square: Callable[[Place], None], single: Callable[[Place], None]) -> None:
        """Takes all numbers, as many together as there are lanes: the last ones once more with some before them, or
        one by one if they are few."""
        lanes, b = self.field.lanes, self.field.b
        if not isinstance(count, int):
            squares = b.and_(count, i64(-lanes))
            b.for_loop(i64(0), squares, square, step=lanes, flags="nuw nsw", name="square")
            b.for_loop(squares, count, single, flags="nuw nsw", name="single")
            return
        rest = count % lanes
        whole = count - rest
        if whole > 2 * lanes and not isinstance(self.engine, Unrolled):
            b.for_loop(i64(0), i64(whole), square, step=lanes, flags="nuw nsw", name="square")
        else:
            for first in range(0, whole, lanes):
                square(first)
        if whole and rest > lanes // 4:
            square(count - lanes)
        else:
            for number in range(whole, count):
                single(number)

    # -- out --

    def store(self, m: Matrices, starts: Sequence[Val], grid: Grid) -> None:
        """Writes the matrices."""
        vectors = 1 in (m.rows, m.columns)
        if m.dense and (isinstance(grid, Held) or vectors or grid.by_columns == (m.dense == "columns")):
            self._store_dense(m, starts, grid)
            return

        def row(i: Place) -> None:
            def column(j: Place) -> None:
                for part, value in enumerate(grid.get(i, j)):
                    self._scatter(m, starts, m.offset(self.field, i, j, part), value)

            self.engine.loop(0, m.columns, column)

        self.engine.loop(0, m.rows, row)

    def _scatter(self, m: Matrices, starts: Sequence[Val], offset: Val, value: Val) -> None:
        b = self.field.b
        value = self._narrowed(m, value)
        for lane, start in enumerate(starts):
            b.store(b.extract(value, lane), b.gep(m.element, start, offset))

    def _narrowed(self, m: Matrices, x: Val) -> Val:
        wanted = vector(m.element, self.field.lanes)
        return x if x.type == wanted else self.field.b.fptrunc(x, wanted)

    def _store_dense(self, m: Matrices, starts: Sequence[Val], grid: Grid) -> None:
        b, field = self.field.b, self.field
        held: dict[Place, Val] = {}
        if isinstance(grid, Held):
            for row, column, numbers in self._order(m):
                held.update(zip(numbers, grid.get(row, column), strict=True))

        def take(number: Place) -> Val:
            value = b.load(field.type, grid.numbered(number)) if isinstance(grid, Stored) else held[number]
            return self._narrowed(m, value)

        def square(first: Place) -> None:
            at = i64(first) if isinstance(first, int) else first
            rows = transposed(b, [take(plus(b, first, k)) for k in range(field.lanes)])
            for start, row in zip(starts, rows, strict=True):
                b.store(row, b.gep(m.element, start, at), 4 if m.element == "float" else 8)

        def single(number: Place) -> None:
            value, at = take(number), i64(number) if isinstance(number, int) else number
            for lane, start in enumerate(starts):
                b.store(b.extract(value, lane), b.gep(m.element, start, at))

        self._squares(times(b, times(b, m.rows, m.columns), field.parts), square, single)

    # -- pivots --

    def load_pivot(self, starts: Sequence[Val], step: Place, k: Place) -> Val:
        """The rows, counted from 0, that row k was interchanged with."""
        b, field = self.field.b, self.field
        place = times(b, k, step)
        at = i64(place) if isinstance(place, int) else place
        values = [b.load("i32", b.gep("i32", start, at)) for start in starts]
        found = b.splat(values[0], field.lanes)
        for lane, value in enumerate(values[1:], start=1):
            found = b.insert(found, value, lane)
        wide = found if field.element == "float" else b.sext(found, field.integer)
        return b.sub(wide, field.count(1))

    def store_pivot(self, starts: Sequence[Val], step: Place, k: Place, pivot: Val) -> None:
        """Writes rows, counted from 0, as LAPACK counts them."""
        b, field = self.field.b, self.field
        place = times(b, k, step)
        at = i64(place) if isinstance(place, int) else place
        counted = b.add(pivot, field.count(1))
        narrow = counted if field.element == "float" else b.trunc(counted, vector("i32", field.lanes))
        for lane, start in enumerate(starts):
            b.store(b.extract(narrow, lane), b.gep("i32", start, at))

    def store_vector(self, m: Matrices, starts: Sequence[Val], k: Place, value: Val) -> None:
        """Writes element k, a real number, of each lane's vector."""
        place = times(self.field.b, k, m.row_step)
        self._scatter(m, starts, i64(place) if isinstance(place, int) else place, value)

    def store_numbers(self, m: Matrices, starts: Sequence[Val], value: Number) -> None:
        """Writes one number of each lane."""
        for part, v in enumerate(value):
            self._scatter(m, starts, i64(part), v)
