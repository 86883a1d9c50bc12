"""The loops of a kernel that runs tile by tile (`fusion.tiling`): what lies across is turned in registers.

What goes in: a tiled kernel, the addresses of its buffers, and a tile. What comes out: code for all points of the tile.

What holds: elements that lie side by side along the other loop than the one that vectors walk along (`turned.py`) are
moved square by square (`transpose.py`) to or from a small buffer on the stack, in which they lie as the vectors do; so
each line of memory is used while it is there, whatever takes its place in the cache. A tile has as many points along
each side as a square, unless the whole loop has fewer: then elements are moved one by one. The last of a row of squares
ends with the tile, so elements that it shares with the one before are moved twice.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from broadloom.codegen.llvm import Val, i64, vector
from broadloom.codegen.memory import LINE, emit_prefetch
from broadloom.codegen.outline import vector_bits
from broadloom.codegen.plans import ALONG, DOWN
from broadloom.codegen.points import Past, PointLoops
from broadloom.codegen.rows import Row
from broadloom.codegen.steps import load_window, store_near
from broadloom.codegen.streams import points_together
from broadloom.codegen.transpose import transposed
from broadloom.codegen.turned import LEFT, PITCH, TOP, Turned
from broadloom.fusion.handlers import Access, accesses, bodies_of, instructions_of
from broadloom.fusion.ir import Indirect, Loop
from broadloom.fusion.vectors import stride
from broadloom.records import dataclass
from broadloom.symbolic import Symbol, free_symbols

MOST = 16  # elements along a side of a square


@dataclass(frozen=True, slots=True)
class Side:
    """The points [start, end) of a loop."""

    loop: Loop
    start: Val
    end: Val


def side_of(bits: int, features: frozenset[str]) -> int:
    """Elements of so many bits along the side of a square that is turned at once."""
    return min(MOST, vector_bits(features) // bits)


class TileLoops(PointLoops):
    """Builds the loops of tiles."""

    def _tile(self) -> None:
        """All points of one tile."""
        assert self.tiled is not None
        first, second = (
            self._side(loop, tile, points)
            for loop, tile, points in (
                (self.kernel.outer[self.tiled], self.loops[-2], DOWN),
                (self.kernel.outer[-1], self.loops[-1], ALONG),
            )
        )
        self.even = self._lying_along(second.loop.variable)
        self.indexer.bind(TOP, first.start)
        self.indexer.bind(LEFT, second.start)
        self._squares([t for t in self.turned if not t.stored], first, second)
        self._loop(first.loop.variable, first.start, first.end, partial(self._row_of_tile, second))
        self._squares([t for t in self.turned if t.stored], first, second)

    def _side(self, loop: Loop, tile: Loop, points: int) -> Side:
        """The points of a loop that are in the tile at hand; the last tile has what is left."""
        b = self.b
        start = self.indexer.value(tile.variable * points)
        is_last = b.icmp("eq", self.indexer.value(tile.variable + 1), self.indexer.value(tile.extent))
        return Side(loop, start, b.select(is_last, self.indexer.value(loop.extent), b.add(start, i64(points), "nsw")))

    def _row_of_tile(self, side: Side) -> None:
        variable = side.loop.variable
        self._fetch_row(side)
        row = self._row_of_points()
        if row is not None:
            self._vectors(row, side.start, side.end, self._past_caches(row, side))
            return
        run = partial(self._loop, variable, side.start, side.end, self._point)
        self._hoisting(self.kernel.stages, variable, side.start, side.end, run)

    def _past_caches(self, row: Row, side: Side) -> Past | None:
        """How a row of a tile is stored past the caches, if it is."""
        if self.stream is None:
            return None
        buffers = {n: self.places[n].buffer for n in self.stream.buffers}
        unit = min(row.count, points_together(self.stream, buffers))
        when = self._pays(self.stream)
        for stage in self.kernel.stages:
            when = self.b.and_(when, self._begins_with_lines(stage, row, side.start, unit))
        return self.stream.buffers, unit, when

    # -- squares --

    def _squares(self, turned: list[Turned], first: Side, second: Side) -> None:
        """Moves all elements of a tile between memory and stack buffers."""
        b = self.b
        for t in turned:
            n = side_of(t.bits, b.module.features)
            square = partial(self._all, first, second, n, partial(self._square, t, n, second.loop.variable))
            if all(isinstance(s.loop.extent, int) for s in (first, second)):  # which is long, or there were no tiles
                square()
                continue
            fits = [b.icmp("sge", b.sub(s.end, s.start, "nsw"), i64(n)) for s in (first, second)]
            single = partial(self._all, first, second, 1, partial(self._single, t))
            b.if_then(b.and_(*fits), partial(self._guarded, square), partial(self._guarded, single))

    def _all(self, first: Side, second: Side, step: int, run: Callable[[], None]) -> None:
        """Runs something for each `step` points of both sides; the last ones end with the side."""

        def over(side: Side, inner: Callable[[], None]) -> None:
            def at(point: Val) -> None:
                place = self.b.intrinsic("smin", point, self.b.sub(side.end, i64(step), "nsw"))
                self.indexer.open(self.b.fenced())
                self.indexer.bind(side.loop.variable, place)
                inner()
                self.indexer.close()

            self.b.for_loop(side.start, side.end, at, step=step, name="square", flags="nuw nsw")

        over(second, partial(over, first, run))

    def _ends(self, turned: Turned) -> tuple[Val, Val, int]:
        """The addresses in memory and in the stack buffer of the first element at hand, and the alignment there."""
        assert self.tiled is not None
        first, second = self.kernel.outer[self.tiled].variable, self.kernel.outer[-1].variable
        place, dtype = (first - TOP) * PITCH + second - LEFT, turned.local.dtype
        there = self._element(turned.buffer, turned.index, dtype)
        return there, self._element(turned.local.name, place, dtype), self.places[turned.buffer].alignment(dtype)

    def _single(self, turned: Turned) -> None:
        """Moves one element."""
        there, here, align = self._ends(turned)
        element = f"i{turned.bits}"
        if turned.stored:
            self.b.store(self.b.load(element, here, 1), there, align)
        else:
            self.b.store(self.b.load(element, there, align), here, 1)

    def _square(self, turned: Turned, n: int, second: Symbol) -> None:
        """Moves a square of `n` by `n` elements."""
        assert self.tiled is not None
        b, element = self.b, f"i{turned.bits}"
        there, here, align = self._ends(turned)
        step = stride(turned.index, self.kernel.outer[self.tiled].variable)
        apart = stride(turned.index, second)
        assert isinstance(step, int) and apart is not None
        pitch = self.indexer.value(apart)
        places = [b.gep(element, there, b.mul(pitch, i64(k), "nsw"), flags="") for k in range(n)]
        rows = [b.gep(element, here, i64(k * PITCH)) for k in range(n)]
        leap = b.mul(pitch, i64(ALONG), "nsw")
        for place in places:
            emit_prefetch(b, b.gep(element, place, leap, flags=""))
        align_here = min(turned.bits // 8, 8)
        if turned.stored:
            columns = transposed(b, [b.load(vector(element, n), r, align_here) for r in rows])
            for column, place in zip(columns, places, strict=True):
                store_near(b, column, place, align, step, None)
            return
        for row, place in zip(
            transposed(b, [self._near(element, p, align, n, step) for p in places]), rows, strict=True
        ):
            b.store(row, place, align_here)

    def _near(self, element: str, address: Val, align: int, count: int, step: int) -> Val:
        """Elements a step apart."""
        if step == 1:
            return self.b.load(vector(element, count), address, align)
        return load_window(self.b, element, address, align, (count, step, 0), None).pick(self.b, 0)

    # -- fetching --

    def _lying_along(self, variable: Symbol) -> list[Access]:
        """What memory is loaded and stored side by side along a loop."""
        bodies = list(bodies_of(self.fetched))
        looked_up = {i.symbol for body in bodies for i in instructions_of(body) if isinstance(i, Indirect)}
        found = dict.fromkeys(a for body in bodies for a in accesses(body))
        return [a for a in found if stride(a.index, variable) == 1 and not looked_up & free_symbols(a.index)]

    def _fetch_row(self, second: Side) -> None:
        """Fetches the same row of the tile behind this one."""
        past = () if self.stream is None else self.stream.buffers
        lines = [a for a in self.even if a.mode == "load" or a.buffer not in past]
        self.indexer.open(None)
        self.indexer.bind(second.loop.variable, self.b.add(second.start, i64(ALONG), "nsw"))
        for access in lines:
            dtype = self.places[access.buffer].buffer.dtype
            self._fetch_piece(self._element(access.buffer, access.index, dtype), ALONG * dtype.itemsize)
        self.indexer.close()

    def _fetch_piece(self, address: Val, size: int) -> None:
        """Fetches so many bytes; it may be fewer, or none, at the end of a row."""
        for offset in (*range(0, size, LINE), size - 1):
            emit_prefetch(self.b, self.b.gep("i8", address, i64(offset), flags=""))
