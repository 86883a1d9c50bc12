"""The loops of one kernel function over its outer points, around those of its stages (`stage_loops.py`).

What goes in: a `Kernel`, the addresses of its buffers and the values of its symbols. What comes out: the code of a
function that runs a range [begin, end) of the linearised outer points.

What holds: a kernel function runs any range [begin, end) of the linearised outer points, and the result of a point
does not depend on the range it is in. Four plans:

- *points*: for each outer point the stages run in order, their loops inside.
- *columns*: where the stage loops stride through memory and the last outer loop does not (a sum over the first
  axis), blocks of outer points are folded side by side, the stage loops outside, so that loads are contiguous. What
  is folded lies in arrays on the stack; vectors of neighbouring points walk along them (`rows.beside_of`).
- *tiles*: where some accesses walk along another outer loop than the last (a transposition), the function runs a
  range of square tiles instead of points, so that each cache line is used while it is there.
- *panels*: where matrices are multiplied (`panels.py`), the function runs a range of tiles of some rows by a vector of
  columns, whose sums stay in registers.

Tables lie on the stack and are filled before the loops, each time the function runs. So do local buffers; the rows of
rings are filled as the last outer loop needs them, which begins some values early for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from broadloom.codegen.body import Lanes
from broadloom.codegen.inner_loops import Run
from broadloom.codegen.llvm import Phi, Val, i64
from broadloom.codegen.memory import emit_fence, first_lanes, some_lanes
from broadloom.codegen.panels import ROWS, Panel
from broadloom.codegen.plans import COLUMN_STEP
from broadloom.codegen.rows import LONG, Row
from broadloom.codegen.tiles import TileLoops
from broadloom.fusion.cost import body_cost
from broadloom.fusion.ir import Ring, Table
from broadloom.symbolic import Symbol, smin


class NestBuilder(TileLoops):
    """Builds the body function of one kernel: call `build` once."""

    def build(self) -> None:
        b, outer = self.b, self.loops
        if self.kernel.tables:
            b.if_then(b.icmp("slt", self.begin, self.end), lambda: self._guarded(self._fill))
        if not outer:
            b.if_then(b.icmp("slt", self.begin, self.end), lambda: self._guarded(self._point))
        elif len(outer) == 1:
            self._segment(self.begin, self.end)
        else:
            b.if_then(b.icmp("slt", self.begin, self.end), self._rows)
        if self.stream is not None:
            emit_fence(b)
        b.ret()

    def _fill(self) -> None:
        """Fills the tables."""
        for table in self.kernel.tables:
            run = partial(self._enter, table)
            self._loop(table.variable, i64(0), i64(table.entries), run, bodies=[table.body])

    def _enter(self, table: Table) -> None:
        self.indexer.open(None)
        emitter = self._emitter(None, self.b.block("leave"), {})
        value = emitter.run(table.body)
        assert value is not None
        emitter.enter(table, value)
        self.indexer.close()

    def _rows(self) -> None:
        """Loops over rows of the last outer loop; the first and last may be partial."""
        b, loops = self.b, self.loops
        extents = [self.indexer.value(loop.extent) for loop in loops]
        rest, counters = self.begin, list[Val]()
        for extent in reversed(extents):
            counters.insert(0, b.urem(rest, extent))
            rest = b.udiv(rest, extent)
        length = extents[-1]

        head, inside, out = b.block("rows"), b.block("row"), b.block("rows.end")
        before = b.current
        b.br(head)
        b.at(head)
        at = b.phi("i64", (self.begin, before))
        column = b.phi("i64", (counters[-1], before))
        phis = [b.phi("i64", (c, before)) for c in counters[:-1]]
        b.cond_br(b.icmp("slt", at.value, self.end), inside, out)
        b.at(inside)
        self.indexer.open(b.fenced())
        for loop, phi in zip(loops[:-1], phis, strict=True):
            self.indexer.bind(loop.variable, phi.value)
        left, room = b.sub(self.end, at.value, "nsw"), b.sub(length, column.value, "nsw")
        count = b.intrinsic("smin", left, room)
        self._segment(column.value, b.add(column.value, count, "nsw"))
        self.indexer.close()
        self._advance(phis, extents[:-1])
        at.add(b.add(at.value, count, "nsw"), b.current)
        column.add(i64(0), b.current)
        b.br(head)
        b.at(out)

    def _advance(self, phis: Sequence[Phi], extents: Sequence[Val]) -> None:
        """The outer counters at the next row."""
        b = self.b
        carry = i64(1)
        for phi, extent in zip(reversed(phis), reversed(extents), strict=True):
            following = b.add(phi.value, carry, "nsw")
            wraps = b.icmp("eq", following, extent)
            phi.add(b.select(wraps, i64(0), following), b.current)
            carry = b.zext(wraps, "i64")

    def _segment(self, start: Val, end: Val) -> None:
        """The points [start, end) of the last outer loop."""
        b = self.b
        variable = self.loops[-1].variable
        if self.kernel.rings:
            self._windows(variable, start, end)
            return
        points = self._row_of_points() if self.tiled is None else None
        if points is not None and self.stream is None:
            self._vectors(points, start, end)
            return
        if not self.columns:
            run = self._panel if self.panel is not None else self._point if self.tiled is None else self._tile
            plain = self.tiled is None and not any(s.loops for s in self.kernel.stages)
            flat = self.kernel.stages if plain else ()
            if self.stream is None or not plain:
                self._hoisting(flat, variable, start, end, lambda: self._loop(variable, start, end, run))
            else:
                self._streaming(self.stream, start, end)
            return

        def block(first: Val) -> None:
            lanes = b.intrinsic("smin", b.sub(end, first, "nsw"), i64(self.lanes))
            run = partial(self._guarded, partial(self._side_by_side, first, lanes))
            few = self._few_columns()
            if self._fills_a_step():
                whole = b.icmp("eq", lanes, self.indexer.value(self.kernel.outer[-1].extent))
                b.if_then(whole, partial(self._all_there, run), run)
            elif few:
                b.if_then(b.icmp("sle", lanes, i64(few)), partial(self._in_one_step, few, run), run)
            else:
                run()

        if self.stepped:
            start, end = (b.mul(x, i64(COLUMN_STEP), "nuw nsw") for x in (start, end))
        b.for_loop(start, end, block, step=self.lanes, name="block")

    # -- windows --

    def _windows(self, variable: Symbol, start: Val, end: Val) -> None:
        """The points [start, end) of the last outer loop, each after the rows of the rings that it needs."""
        b, rings = self.b, self.kernel.rings
        extents = [self.indexer.value(r.extent) for r in rings]

        def moved(value: Val, step: int, by: int) -> Val:
            return b.add(b.mul(value, i64(step), "nsw"), i64(by), "nsw")

        def clipped(value: Val, top: Val) -> Val:
            return b.intrinsic("smax", b.intrinsic("smin", value, top), i64(0))

        def point(value: Val, *rows: Val) -> list[Val]:
            stops = []
            for ring, extent, row in zip(rings, extents, rows, strict=True):
                stop = clipped(moved(value, ring.step, ring.ahead + 1), extent)
                self._loop(ring.row, row, stop, partial(self._ring, ring), bodies=())
                stops.append(b.intrinsic("smax", row, stop))
            self.indexer.open(b.fenced())
            self.indexer.bind(variable, value)
            b.if_then(b.icmp("sge", value, start), lambda: self._guarded(self._point))
            self.indexer.close()
            return stops

        first = [
            clipped(moved(start, r.step, r.behind), b.sub(n, i64(1), "nsw"))
            for r, n in zip(rings, extents, strict=True)
        ]
        lead = b.sub(start, i64(self.kernel.lead), "nsw")
        begin = b.select(b.icmp("slt", start, end), lead, end)  # no point needs no rows
        b.for_loop(begin, end, point, first, name=variable.name)

    def _ring(self, ring: Ring) -> None:
        """One row of a ring."""
        for stage in ring.stages:
            self._stage(stage, lambda run: run(None))

    # -- panels --

    def _panel(self) -> None:
        """All points of one panel; at the edges of the matrix there are fewer."""
        panel, b = self.panel, self.b
        assert panel is not None
        extent = self.kernel.outer[-1].extent
        left = self.indexer.value(self.loops[-1].variable * panel.lanes)
        self.indexer.bind(panel.column, left)
        if isinstance(extent, int) and extent % panel.lanes == 0:
            self._panel_rows(panel, None)
            return
        room = b.sub(self.indexer.value(extent), left, "nsw")
        mask = first_lanes(b, room, panel.lanes)
        narrow = isinstance(extent, int) and extent < panel.lanes
        if narrow or "avx512vl" in b.module.features:  # where a mask costs nothing, half the code will do
            self._panel_rows(panel, mask)
            return
        b.if_then(
            b.icmp("sge", room, i64(panel.lanes)),
            lambda: self._guarded(lambda: self._panel_rows(panel, None)),
            lambda: self._guarded(lambda: self._panel_rows(panel, mask)),
        )

    def _panel_rows(self, panel: Panel, mask: Val | None) -> None:
        """The rows of a panel: the sums of all together, then what is left, row by row. Where there are fewer rows
        the last is summed more than once, and stored once."""
        b, extent = self.b, self.kernel.outer[-2].extent
        self.vector = Lanes(panel.column, panel.lanes, mask)
        first = self.loops[-2].variable * ROWS
        top, count = self.indexer.value(first), self.indexer.value(smin(extent - first, ROWS))
        last = b.sub(count, i64(1), "nsw")

        def at(row: Val, run: Callable[[Val | None], None], lane: Val | None) -> None:
            self.indexer.open(b.fenced())
            self.indexer.bind(panel.row, row)
            run(lane)
            self.indexer.close()

        def together(run: Callable[[Val | None], None]) -> None:
            for k, accumulators in enumerate(self.rows):
                self.accumulators = accumulators
                at(b.add(top, b.intrinsic("smin", last, i64(k)), "nuw nsw"), run, None)

        def one_by_one(run: Callable[[Val | None], None]) -> None:
            b.for_loop(i64(0), count, lambda k: at(b.add(top, k, "nuw nsw"), run, k), name="row", flags="nuw nsw")

        def start(lane: Val | None) -> None:
            self.accumulators.start(lane)  # of the row at hand

        self._guarded(partial(together, start))
        for stage in (s for s in self.kernel.stages if s.loops):
            self._guarded(partial(self._stage, stage, together))
        for k, row in enumerate(self.rows):
            self.spill.take(row, i64(k))
        self.accumulators = self.spill
        for stage in (s for s in self.kernel.stages if not s.loops):
            self._stage(stage, one_by_one)
        self.vector = None

    # -- columns --

    def _side_by_side(self, first: Val, lanes: Val) -> None:
        """All stages, for a block of points of the last outer loop."""

        def each(run: Run) -> None:
            if self.beside is None:
                self.b.plain = True
                self.b.for_loop(i64(0), lanes, partial(self._lane, run, first), name="lane", flags="nuw nsw")
            else:
                self._beside_in_vectors(self.beside, run, first, lanes)

        self.lane_count, self.before_stages = lanes, self.b.fenced()
        self.lane_masks.clear()
        self._all_lanes(self.accumulators.start)
        for stage in self.kernel.stages:
            self._stage(stage, each)

    def _fills_a_step(self) -> bool:
        """Whether all columns are one step of a stage of short code, which is then there once more without masks: these
        take three times as long where what they load does not begin with a line."""
        if self.brief or self.stepped or self._is_long():
            return False
        found = (self._beside(s) for s in self.kernel.stages if s.loops)
        return any(row is not None and row.masked and row.count == self.kernel.outer[-1].extent for row in found)

    def _all_there(self, run: Callable[[], None]) -> None:
        self.all_lanes = True
        run()
        self.all_lanes = False

    def _few_columns(self) -> int:
        """Columns of one register, where only the call knows how many there are; for so few there is code once more,
        whose sums stay in registers over the rows. 0 where there is not."""
        rows = [self._beside(s) for s in self.kernel.stages]
        if isinstance(self.kernel.outer[-1].extent, int) or self.brief or self._is_long():
            return 0
        found = [row.rest if row is not None and row.masked else 0 for row in rows]
        return min(found) if self.kernel.accumulators else 0

    def _is_long(self) -> bool:
        return sum(body_cost(s.body) for s in self.kernel.stages) > LONG

    def _in_one_step(self, count: int, run: Callable[[], None]) -> None:
        many, self.accumulators = self.accumulators, self._accumulators(count)
        self.one_step = count
        run()
        self.one_step, self.accumulators = 0, many

    def _lane(self, run: Run, first: Val, lane: Val) -> None:
        """What is run for a lane, or a vector of lanes, of those from the point `first` on."""
        point = self.b.add(first, lane, "nuw nsw")
        self.indexer.open(self.b.fenced())
        self.indexer.bind(self.kernel.outer[-1].variable, point)
        run(lane)
        self.indexer.close()

    def _first_lanes(self, count: int) -> Val:
        """Which of so many lanes are there; the same in all stages."""
        if count not in self.lane_masks:
            with self.b.before_end(self.before_stages):
                self.lane_masks[count] = some_lanes(self.b, self.lane_count, count)
        return self.lane_masks[count]

    def _beside_in_vectors(self, row: Row, run: Run, first: Val, lanes: Val) -> None:
        """Runs vectors of lanes, whose accumulators lie side by side, and then what is left of them."""
        b = self.b

        def step(lane: Val, count: int = row.count, mask: Val | None = None) -> None:
            self.vector, self.accumulators.span = Lanes(row.variable, count, mask), count
            self._lane(run, first, lane if lane == i64(0) else b.hidden(lane))
            self.vector, self.accumulators.span = None, 1

        def rest(lane: Val) -> None:
            step(lane, row.rest, some_lanes(b, b.sub(lanes, lane, "nsw"), row.rest))

        if self.one_step:
            step(i64(0), self.one_step, self._first_lanes(self.one_step))
            return
        if row.masked and self._takes_one_step(row.count):
            whole = (self.stepped or self.all_lanes) and row.count == self.kernel.outer[-1].extent
            step(i64(0), row.count, None if whole else self._first_lanes(row.count))
            return
        even = self.stepped and COLUMN_STEP % row.count == 0
        if row.masked and self.brief and not even:
            b.for_loop(i64(0), lanes, rest, step=row.rest, name="lane", flags="nuw nsw")
            return
        full = lanes if even else self._whole(row.count, i64(0), lanes)
        b.for_loop(i64(0), full, step, step=row.count, name="lane", flags="nuw nsw")
        if even:
            return
        if row.masked:
            b.for_loop(full, lanes, rest, step=row.rest, name="rest", flags="nuw nsw")
        else:
            hints = self._hints("vectorize.enable, i1 false")
            single = partial(self._lane, run, first)
            b.for_loop(full, lanes, single, name="lane", flags="nuw nsw", metadata=hints)
