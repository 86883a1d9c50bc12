"""The loops over the points of a kernel's last outer loop: one by one, in vectors, or past the caches.

What goes in: a kernel that runs in points, the addresses of its buffers, and a range of its last outer loop. What comes
out: code for these points at the current place.
"""

from __future__ import annotations

from broadloom.codegen.body import Lanes
from broadloom.codegen.llvm import Val, i64
from broadloom.codegen.memory import some_lanes
from broadloom.codegen.rows import Row, points_of
from broadloom.codegen.stage_loops import StageLoops
from broadloom.codegen.streams import Stream, points_together, steps_of
from broadloom.fusion.handlers import accesses

Past = tuple[tuple[str, ...], int, Val]  # the buffers that are stored past the caches, elements of a store, and if


class PointLoops(StageLoops):
    """Builds the loops over points."""

    def _point(self) -> None:
        """All stages, for one outer point."""
        self.accumulators.start(None)
        for stage in self.kernel.stages:
            self._stage(stage, lambda run: run(None))

    # -- points in vectors --

    def _row_of_points(self) -> Row | None:
        """How the points run in vectors of our own making, if they do."""
        if self.columns or self.panel is not None or any(s.loops for s in self.kernel.stages):
            return None
        return points_of(self.kernel, self.b.module.features, tiled=self.tiled is not None)

    def _vectors(self, row: Row, start: Val, end: Val, past: Past | None = None) -> None:
        """The points [start, end) a vector at a time, and then what is left; all of them under masks where code for
        both takes longer to make than masks take to run. Whole vectors may go past the caches."""
        b, extent = self.b, self.kernel.outer[-1].extent

        def step(value: Val, count: int = row.count, left: Val | None = None) -> None:
            mask = None if left is None else some_lanes(b, left, count)
            self.indexer.open(b.fenced())
            self.indexer.bind(row.variable, value)
            if past is None or left is not None:
                self.vector = Lanes(row.variable, count, mask, left=left)
            else:
                self.vector = Lanes(row.variable, count, None, *past)
            single = self.accumulators
            if single.slots:
                self.accumulators = self._accumulators(count)
                self.accumulators.span = count
            self._point()
            self.vector, self.accumulators = None, single
            self.indexer.close()

        def rest(value: Val) -> None:
            step(value, row.rest, b.sub(end, value, "nsw"))

        if row.masked and (row.once or self.brief):
            b.for_loop(start, end, rest, step=row.rest, name="vector", flags="nuw nsw")
            return
        full = self._whole(row.count, start, end)
        if not isinstance(extent, int) or extent >= row.count:
            b.for_loop(start, full, step, step=row.count, name="vector", flags="nuw nsw")
        if not row.masked:
            self._loop(row.variable, full, end, self._point, vectorise=False)
            return
        b.for_loop(full, end, rest, step=row.rest, name="rest", flags="nuw nsw")

    # -- stores past the caches --

    def _streaming(self, stream: Stream, start: Val, end: Val) -> None:
        """The points [start, end) of the last outer loop: vectors of them, where each stored one is a line or an even
        part of one, and one by one those before and after. If the call is too small for stores past the caches, or the
        results begin at different places in their lines, all points go one by one."""
        b, variable = self.b, self.loops[-1].variable
        unit = points_together(stream, {n: self.places[n].buffer for n in stream.buffers})
        lanes = unit * steps_of(self.kernel, b.module.features)
        past = self._pays(stream)
        before: Val | None = None
        for stage in self.kernel.stages:
            for access in accesses(stage.body):
                if access.buffer in stream.buffers:
                    size = self.places[access.buffer].buffer.dtype.itemsize
                    address = self._address(access, variable, start)
                    if before is None:
                        behind = b.and_(b.sub(i64(0), address), i64(unit * size - 1))
                        before = b.udiv(behind, i64(size))
                    place = b.add(address, b.mul(before, i64(size)))
                    even = b.icmp("eq", b.and_(place, i64(unit * size - 1)), i64(0))
                    past = b.and_(past, even)
        assert before is not None
        first = b.select(past, b.intrinsic("smin", b.add(start, before), end), end)
        count = b.and_(b.sub(end, first), i64(-lanes))
        last = b.add(first, count)
        few = stream.always and len(stream.buffers) == 1  # points that go one by one

        def vectors(point: Val) -> None:
            self.indexer.open(b.fenced())
            self.indexer.bind(variable, point)
            self.vector = Lanes(variable, lanes, None, stream.buffers, unit)
            self._point()
            self.vector = None
            self.indexer.close()

        def single(part: Val) -> None:
            is_head = b.icmp("eq", part, i64(0))
            self.indexer.open(b.fenced())
            own = b.select(is_head, start, last), b.select(is_head, first, end)
            points = None if few else self._row_of_points()
            if points is None:
                self._loop(variable, *own, self._point, vectorise=not few)
            else:
                self._vectors(points, *own)
            self.indexer.close()

        b.for_loop(first, last, vectors, step=lanes, name="vector", flags="nuw nsw")
        b.for_loop(i64(0), i64(2), single, name="part", flags="nuw nsw")
