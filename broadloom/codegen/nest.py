"""The loops of one kernel function around its bodies.

What goes in: a `Kernel`, the addresses of its buffers and the values of its symbols. What comes out: the code of a
function that runs a range [begin, end) of the linearised outer points.

What holds: a kernel function runs any range [begin, end) of the linearised outer points, and the result of a point
does not depend on the range it is in; the innermost loop is a plain counted loop whose addresses are base plus
offset. Four plans:

- *points*: for each outer point the stages run in order, their loops inside.
- *columns*: where the stage loops stride through memory and the last outer loop does not (a sum over the first
  axis), blocks of outer points are folded side by side, the stage loops outside, so that loads are contiguous.
- *tiles*: where some accesses walk along another outer loop than the last (a transposition), the function runs a
  range of square tiles instead of points, so that each cache line is used while it is there.
- *panels*: where matrices are multiplied (`panels.py`), the function runs a range of tiles of some rows by a vector of
  columns, whose sums stay in registers.

Tables lie on the stack and are filled before the loops, each time the function runs. So do local buffers; the rows of
rings are filled as the last outer loop needs them, which begins some values early for that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from broadloom.codegen.accumulators import Accumulators, Emit, Search
from broadloom.codegen.body import BodyEmitter, Given, Lanes, Place
from broadloom.codegen.index import Indexer
from broadloom.codegen.llvm import Block, FunctionBuilder, Phi, Val, i1, i64
from broadloom.codegen.memory import LINE, emit_fence, emit_prefetch, first_lanes
from broadloom.codegen.panels import ROWS, Panel, panel_of
from broadloom.codegen.plans import (
    COLUMN_CHUNK,
    COLUMN_LANES,
    COLUMN_STACK,
    POINT_CHUNK,
    SEARCH_BLOCK,
    TILE,
    chunked_loop,
    hoisted_checks,
    loads_ahead,
    ranged_loops,
    runs_in_columns,
    searches,
    tiled_loop,
)
from broadloom.codegen.rows import Row, row_of
from broadloom.codegen.streams import Stream, points_together, steps_of
from broadloom.codegen.types import memory_type, register_type
from broadloom.dtypes import float32
from broadloom.fusion.handlers import Access, accesses, bodies_of, instructions_of
from broadloom.fusion.ir import Body, Buffer, Compute, Kernel, Layout, Load, Loop, Reduce, Ring, Running, Stage, Table
from broadloom.fusion.memory_plan import elements
from broadloom.symbolic import Symbol, smin


def local_place(b: FunctionBuilder, buffer: Buffer) -> Place:
    """Stack memory for a buffer of constant size."""
    parts = len(register_type(buffer.dtype))
    count = elements(buffer.layout)
    assert isinstance(count, int)
    return Place(b.alloca(memory_type(buffer.dtype), max(count, 1) * parts, 64), buffer)


def _table_place(b: FunctionBuilder, table: Table) -> Place:
    return local_place(b, Buffer(table.name, table.dtype, Layout((table.entries,), (1,)), "local"))


class NestBuilder:
    """Builds the body function of one kernel: call `build` once."""

    def __init__(
        self,
        b: FunctionBuilder,
        emit: Emit,
        kernel: Kernel,
        places: Mapping[str, Place],
        symbols: Mapping[Symbol, Val],
        sites: Mapping[int, Val],
        stream: Stream | None = None,
    ) -> None:
        self.b, self.emit, self.kernel, self.sites, self.stream = b, emit, kernel, sites, stream
        self.places = {**places, **{t.name: _table_place(b, t) for t in kernel.tables}}
        self.panel = panel_of(kernel)
        self.vector: Lanes | None = None
        self.columns = runs_in_columns(kernel)
        self.tiled = tiled_loop(kernel)
        self.stored = frozenset(a.buffer for x in bodies_of(kernel) for a in accesses(x) if a.mode != "load")
        self.given: dict[int, Mapping[int, Given]] = {}
        self.lane_count = i64(1)
        self.loops, _ = ranged_loops(kernel)
        self.chunk = POINT_CHUNK if self.panel is None and not self.columns else COLUMN_CHUNK
        self.ctx, self.begin, self.end = b.params[0], b.params[-2], b.params[-1]
        self.indexer = Indexer(b)
        self.indexer.open(b.fenced())
        for symbol, value in symbols.items():
            self.indexer.bind(symbol, value)
        width = sum(24 * (1 + (a.value_dtype.kind == "c")) for a in kernel.accumulators)
        self.lanes = max(64, min(COLUMN_LANES, COLUMN_STACK // max(1, width)) // 64 * 64) if self.columns else 1
        if self.panel is None:
            self.accumulators = self._accumulators(self.lanes)
        else:  # in registers while they are summed, in memory after that
            self.rows = [self._accumulators(1) for _ in range(ROWS)]
            self.accumulators = self.spill = self._accumulators(ROWS)

    def _accumulators(self, lanes: int) -> Accumulators:
        running: set[str] = set()
        compensated: set[str] = set()
        kinds = {a.name: a for a in self.kernel.accumulators}
        for stage in self.kernel.stages:
            for i in instructions_of(stage.body):
                if isinstance(i, Running):
                    running.add(i.name)
                if isinstance(i, Reduce) and chunked_loop(stage.loops, self.chunk) is not None:
                    a = kinds[i.name]
                    if a.kind == "sum" and a.dtype.is_inexact:
                        compensated.add(i.name)
        return Accumulators(
            self.b,
            self.emit,
            self.kernel.accumulators,
            running=frozenset(running),
            compensated=frozenset(compensated - running),
            lanes=lanes,
            width=1 if self.panel is None else self.panel.lanes,
        )

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

    def _guarded(self, run: Callable[[], None]) -> None:
        self.indexer.open(self.b.fenced())
        run()
        self.indexer.close()

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
            counters.insert(0, b.binary("urem", rest, extent))
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
        if not self.columns:
            run = self._panel if self.panel is not None else self._point if self.tiled is None else self._tile
            plain = self.tiled is None and not any(s.loops for s in self.kernel.stages)
            flat = self.kernel.stages if plain else ()
            if self.stream is None:
                self._hoisting(flat, variable, start, end, lambda: self._loop(variable, start, end, run))
            else:
                self._streaming(self.stream, start, end)
            return

        def block(first: Val) -> None:
            lanes = b.intrinsic("smin", b.sub(end, first, "nsw"), i64(self.lanes))
            self.indexer.open(b.fenced())
            self._side_by_side(first, lanes)
            self.indexer.close()

        b.for_loop(start, end, block, step=self.lanes, name="block")

    def _loop(
        self,
        variable: Symbol,
        start: Val,
        end: Val,
        run: Callable[[], None],
        bodies: Sequence[Body] | None = None,
        *,
        vectorise: bool = True,
        border: bool = False,
    ) -> None:
        """One loop with its level of hoisted code, around these bodies or those of the stages."""

        def iteration(value: Val) -> None:
            self.indexer.open(self.b.fenced())
            self.indexer.bind(variable, value)
            run()
            self.indexer.close()

        metadata = self._interleaving([s.body for s in self.kernel.stages] if bodies is None else bodies)
        if border:
            metadata = self._hints("vectorize.enable, i1 false", "unroll.disable")
        elif not vectorise:
            metadata = self._hints("vectorize.enable, i1 false")
        self.b.for_loop(start, end, iteration, name=variable.name, flags="nuw nsw", metadata=metadata)

    def _interleaving(self, bodies: Sequence[Body]) -> str:
        """Two vectors an iteration where one is a long chain of dependent instructions in few lanes: a float32 power
        is computed in double, half a register of floats at a time, and runs 1.25 times as fast so."""
        if not any(
            isinstance(i, Compute) and i.op == "pow" and i.dtype is float32
            for body in bodies
            for i in instructions_of(body)
        ):
            return ""
        return self._hints("interleave.count, i32 2")

    def _hints(self, *hints: str) -> str:
        """Metadata that tells LLVM how to run a loop."""
        module = self.b.module
        parts = (hint.partition(", ") for hint in hints)
        numbers = ", ".join(module.metadata(f'!"llvm.loop.{name}"{comma}{value}') for name, comma, value in parts)
        return f", !llvm.loop {module.metadata(f'self, {numbers}', distinct=True)}"

    def _hoisting(
        self, stages: Sequence[Stage], variable: Symbol, start: Val, end: Val, run: Callable[[], None]
    ) -> None:
        """`run` emits the innermost loop, over [start, end), around the bodies of `stages`; checks that stay the same
        in it are made before it."""
        found = [(s, hoisted_checks(s.body, variable, self.stored)) for s in stages]
        found = [(s, numbers) for s, numbers in found if numbers]
        if not found:
            run()
            return
        b = self.b
        enter, after = b.block("enter"), b.block("after")
        b.cond_br(b.icmp("slt", start, end), enter, after)  # no iteration, no check
        b.at(enter)
        bound: list[tuple[Symbol, Val]] = []
        self.indexer.open(None)
        self.indexer.bind(variable, i64(0))  # for keys: the first of the iterations, which all fail alike
        for stage, numbers in found:
            emitter = self._emitter(None, after, {})
            self.given[id(stage)] = emitter.run_some(stage.body, numbers)
            bound += emitter.bound
        self.indexer.close()
        self.indexer.open(b.fenced())
        for symbol, index in bound:
            self.indexer.bind(symbol, index)
        run()
        self.indexer.close()
        for stage, _ in found:
            del self.given[id(stage)]
        b.br(after)
        b.at(after)

    # -- stores past the caches --

    def _streaming(self, stream: Stream, start: Val, end: Val) -> None:
        """The points [start, end) of the last outer loop: vectors of them, where each stored one is a line or an even
        part of one, and one by one those before and after. If the call is too small for stores past the caches, or the
        results begin at different places in their lines, all points go one by one."""
        b, variable = self.b, self.loops[-1].variable
        unit = points_together(stream, {n: self.places[n].buffer for n in stream.buffers})
        lanes = unit * steps_of(self.kernel, b.module.features)
        past = i1(True) if stream.always else b.icmp("sgt", self.indexer.value(stream.bytes), i64(stream.limit))
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
            self._loop(variable, *own, self._point, vectorise=not few)
            self.indexer.close()

        b.for_loop(first, last, vectors, step=lanes, name="vector", flags="nuw nsw")
        b.for_loop(i64(0), i64(2), single, name="part", flags="nuw nsw")

    def _address(self, access: Access, variable: Symbol, point: Val) -> Val:
        """The address of a store at one point, as a number."""
        place = self.places[access.buffer]
        element, parts = memory_type(place.buffer.dtype), len(register_type(place.buffer.dtype))
        self.indexer.open(None)
        self.indexer.bind(variable, point)
        address = self.indexer.address(place.base, access.index, element, parts)
        self.indexer.close()
        return self.b.cast("ptrtoint", address, "i64")

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

    # -- tiles --

    def _tile(self) -> None:
        """All points of one tile."""
        assert self.tiled is not None
        sides = zip((self.kernel.outer[self.tiled], self.kernel.outer[-1]), self.loops[-2:], strict=True)
        bounds = []
        for loop, tile in sides:
            start = self.indexer.value(tile.variable * TILE)
            end = self.indexer.value(smin(tile.variable * TILE + TILE, loop.extent))
            bounds.append((loop.variable, start, end))
        (first, top, bottom), (second, left, right) = bounds

        def row() -> None:
            self._hoisting(
                self.kernel.stages, second, left, right, lambda: self._loop(second, left, right, self._point)
            )

        self._loop(first, top, bottom, row)

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

    # -- points --

    def _point(self) -> None:
        """All stages, for one outer point."""
        self.accumulators.start(None)
        for stage in self.kernel.stages:
            self._stage(stage, lambda run: run(None))

    # -- columns --

    def _side_by_side(self, first: Val, lanes: Val) -> None:
        """All stages, for a block of points of the last outer loop."""
        variable = self.kernel.outer[-1].variable

        def each(run: Callable[[Val | None], None]) -> None:
            def iteration(lane: Val) -> None:
                point = self.b.add(first, lane, "nuw nsw")
                self.indexer.open(self.b.fenced())
                self.indexer.bind(variable, point)
                run(lane)
                self.indexer.close()

            self.b.for_loop(i64(0), lanes, iteration, name="lane", flags="nuw nsw")

        self.lane_count = lanes
        each(self.accumulators.start)
        for stage in self.kernel.stages:
            self._stage(stage, each)

    # -- stages --

    def _stage(self, stage: Stage, each: Callable[[Callable[[Val | None], None]], None]) -> None:
        """The loops of a stage; `each` runs its argument for the point, or for each lane."""
        reduced = {i.name for i in instructions_of(stage.body) if isinstance(i, Reduce)}
        chunked = [n for n, s in self.accumulators.slots.items() if s.compensated and n in reduced]
        cut = chunked_loop(stage.loops, self.chunk) if chunked else None

        def flush(lane: Val | None) -> None:
            for name in chunked:
                self.accumulators.flush(name, lane)

        searching = not self.columns and searches(stage, self.accumulators)
        row = self._row(stage)

        def whole(run: Callable[[], None]) -> None:
            """What adds up to one chunk."""
            if row is None:
                run()
            else:
                self._in_vectors(row, reduced, run)

        def loop_over(k: int, start: Val, end: Val) -> None:
            variable = stage.loops[k].variable
            if row is not None and k == len(stage.loops) - 1:
                self._vector_loop(stage, row, start, end)
                return
            innermost = [stage] if k == len(stage.loops) - 1 and not self.columns else []
            border = stage.border and k == len(stage.loops) - 1
            run = partial(self._loop, variable, start, end, lambda: nest(k + 1), border=border)
            self._hoisting(innermost, variable, start, end, run)

        def nest(k: int) -> None:
            if k == len(stage.loops):
                run = partial(each, lambda lane: self._body(stage, lane))
                if self.columns:
                    self._hoisting([stage], self.loops[-1].variable, i64(0), self.lane_count, run)
                else:
                    run()
                return
            loop = stage.loops[k]
            if searching and k == len(stage.loops) - 1:
                self._search(stage, loop)
                return
            extent = self.indexer.value(loop.extent)
            if cut is None or cut[0] != k:
                loop_over(k, i64(0), extent)
                return

            def chunk(start: Val) -> None:
                end = self.b.intrinsic("smin", extent, self.b.add(start, i64(cut[1]), "nuw nsw"))
                whole(lambda: loop_over(k, start, end))
                each(flush)

            self.b.for_loop(i64(0), extent, chunk, step=cut[1], name="chunk", flags="nuw nsw")

        if cut is None:
            whole(lambda: nest(0))
        else:
            nest(0)
        if chunked and cut is None:  # a short stage of a sum that is chunked elsewhere
            each(flush)

    # -- rows --

    def _row(self, stage: Stage) -> Row | None:
        if self.columns or self.panel is not None or self.tiled is not None:
            return None
        return row_of(stage, {a.name: a for a in self.kernel.accumulators}, self.b.module.features)

    def _in_vectors(self, row: Row, reduced: set[str], run: Callable[[], None]) -> None:
        """`run` emits loops whose folds go to vectors, which are put together behind them."""
        found = [a for a in self.kernel.accumulators if a.name in reduced]
        none = frozenset[str]()
        vectors = Accumulators(self.b, self.emit, found, running=none, compensated=none, width=row.count)
        vectors.start(None)
        self.accumulators.vectors = vectors
        run()
        self.accumulators.vectors = None
        self.accumulators.absorb(vectors)

    def _vector_loop(self, stage: Stage, row: Row, start: Val, end: Val) -> None:
        """The innermost loop of a stage, a vector of its iterations at a time, and what is left of it."""
        b, extent = self.b, stage.loops[-1].extent
        length = b.sub(end, start, "nsw")
        whole = b.sub(length, b.binary("urem", length, i64(row.count)), "nsw")
        full = b.add(start, whole, "nsw")
        ahead = loads_ahead(self.kernel, stage, row.variable)

        def step(value: Val, mask: Val | None) -> None:
            self.indexer.open(b.fenced())
            self.indexer.bind(row.variable, value)
            self.vector = Lanes(row.variable, row.count, mask)
            vectors = self.accumulators.vectors
            assert vectors is not None
            vectors.mask = mask
            if mask is None:
                self._fetch(ahead, row)
            self._body(stage, None)
            self.vector = vectors.mask = None
            self.indexer.close()

        if not isinstance(extent, int) or extent >= row.count:
            b.for_loop(start, full, lambda value: step(value, None), step=row.count, name="vector", flags="nuw nsw")
        if isinstance(extent, int) and extent % row.count == 0:
            return  # chunks are as even
        if not row.masked:
            vectors, self.accumulators.vectors = self.accumulators.vectors, None
            self._loop(row.variable, full, end, lambda: self._body(stage, None), vectorise=False)
            self.accumulators.vectors = vectors
            return

        def rest() -> None:
            step(full, first_lanes(b, b.sub(end, full, "nsw"), row.count))

        b.if_then(b.icmp("slt", full, end), rest)

    def _fetch(self, ahead: Sequence[Load], row: Row) -> None:
        """Fetches what the next point of the last outer loop loads where this one loads a vector."""
        b = self.b
        self.indexer.open(None)
        for load in ahead:
            element, base = memory_type(load.dtype), self.places[load.buffer].base
            address = self.indexer.address(base, load.index, element, len(register_type(load.dtype)))
            for line in range(0, row.count * load.dtype.itemsize, LINE):
                emit_prefetch(b, b.gep("i8", address, i64(line), flags=""))  # the next point may be shorter
        self.indexer.close()

    def _search(self, stage: Stage, loop: Loop) -> None:
        """The innermost loop of an argmax: block by block the extremum, and its position only where it beats all
        before. Both inner loops vectorise, which a search that carries the position along does not."""
        b, extent = self.b, self.indexer.value(loop.extent)
        name = next(i.name for i in stage.body.instructions if isinstance(i, Reduce))

        def block(start: Val) -> None:
            end = b.intrinsic("smin", extent, b.add(start, i64(SEARCH_BLOCK), "nuw nsw"))

            def pass_over(search: Search) -> None:
                self.accumulators.search = search
                self._loop(loop.variable, start, end, lambda: self._body(stage, None))
                self.accumulators.search = Search.NONE

            self.accumulators.start_block(name)
            pass_over(Search.EXTREMUM)
            b.if_then(self.accumulators.block_wins(name), lambda: pass_over(Search.POSITION))
            self.accumulators.finish_block(name)

        b.for_loop(i64(0), extent, block, step=SEARCH_BLOCK, name="search", flags="nuw nsw")

    def _body(self, stage: Stage, lane: Val | None) -> None:
        b = self.b
        leave = b.block("leave")
        self.indexer.open(None)
        emitter = self._emitter(lane, leave, self.given.get(id(stage), {}))
        emitter.run(stage.body)
        self.indexer.close()
        if emitter.left:
            b.br(leave)
            b.at(leave)

    def _emitter(self, lane: Val | None, leave: Block, given: Mapping[int, Given]) -> BodyEmitter:
        return BodyEmitter(
            self.b,
            self.emit,
            self.indexer,
            self.places,
            self.accumulators,
            self.ctx,
            self.sites,
            lane,
            leave,
            given,
            self.vector,
        )
