"""What the loops of a kernel are made of: plain counted loops, loops over vectors, and the code for one point.

What goes in: a `Kernel`, the addresses of its buffers and the values of its symbols. What comes out: code at the
current place. What holds: the innermost loop is a plain counted loop whose addresses are base plus offset, or a loop
over vectors (`rows.py`); what does not change in a loop stands before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from broadloom.codegen.accumulators import Accumulators, Emit
from broadloom.codegen.body import BodyEmitter, Given, Lanes, Place
from broadloom.codegen.index import Indexer
from broadloom.codegen.llvm import Block, FunctionBuilder, Val, i1, i64
from broadloom.codegen.memory import LINE, emit_prefetch, some_lanes
from broadloom.codegen.panels import ROWS, panel_of
from broadloom.codegen.plans import (
    COLUMN_CHUNK,
    COLUMN_LANES,
    COLUMN_STACK,
    POINT_CHUNK,
    chunked_loop,
    hoisted_checks,
    loads_ahead,
    ranged_loops,
    runs_in_columns,
    runs_in_steps,
)
from broadloom.codegen.rows import Row, accumulators_of, beside_of, row_of
from broadloom.codegen.streams import Stream, points_together
from broadloom.codegen.turned import turned_of
from broadloom.codegen.types import memory_type, register_type
from broadloom.dtypes import DType, float32
from broadloom.fusion.handlers import Access, accesses, bodies_of, instructions_of
from broadloom.fusion.ir import (
    Body,
    Buffer,
    Compute,
    Kernel,
    Layout,
    Load,
    Reduce,
    Running,
    Stage,
    Table,
)
from broadloom.fusion.memory_plan import elements
from broadloom.fusion.tiling import tiled_loop
from broadloom.symbolic import Size, Symbol

Run = Callable[[Val | None], None]
Each = Callable[[Run], None]

_SUMS = ("sum", "prod")  # whose order in a plain loop is for LLVM to choose


def local_place(b: FunctionBuilder, buffer: Buffer) -> Place:
    """Stack memory for a buffer of constant size."""
    parts = len(register_type(buffer.dtype))
    count = elements(buffer.layout)
    assert isinstance(count, int)
    return Place(b.alloca(memory_type(buffer.dtype), max(count, 1) * parts, 64), buffer)


def _table_place(b: FunctionBuilder, table: Table) -> Place:
    return local_place(b, Buffer(table.name, table.dtype, Layout((table.entries,), (1,)), "local"))


class InnerLoops:
    """Holds what all loops of a kernel share, and builds single ones."""

    def __init__(
        self,
        b: FunctionBuilder,
        emit: Emit,
        kernel: Kernel,
        places: Mapping[str, Place],
        symbols: Mapping[Symbol, Val],
        sites: Mapping[int, Val],
        stream: Stream | None = None,
        *,
        brief: bool = False,
    ) -> None:
        self.b, self.emit, self.sites, self.stream = b, emit, sites, stream
        self.kernel, self.turned = turned_of(kernel)
        self.fetched = kernel  # with all that it moves to and from memory
        self.brief = brief  # whether what is left of a row is no loop of its own, where the target has masks
        self.places = {**places, **{t.name: _table_place(b, t) for t in kernel.tables}}
        self.places |= {t.local.name: local_place(b, t.local) for t in self.turned}
        self.panel = panel_of(kernel)
        self.vector: Lanes | None = None
        self.columns, self.stepped = runs_in_columns(kernel), runs_in_steps(kernel)
        self.tiled = tiled_loop(kernel)
        self.stored = frozenset(a.buffer for x in bodies_of(self.kernel) for a in accesses(x) if a.mode != "load")
        self.given: dict[int, Mapping[int, Given]] = {}
        self.lane_count = i64(1)
        self.before_stages = b.current
        self.lane_masks: dict[int, Val] = {}
        self.one_step = 0  # columns of which all that are there are one step, if it is not 0
        self.all_lanes = False  # whether all lanes of the last outer loop are there
        self.beside: Row | None = None  # how the lanes at hand run in vectors
        self.loops, _ = ranged_loops(kernel)
        self.chunk = POINT_CHUNK if self.panel is None and not self.columns else COLUMN_CHUNK
        self.ctx, self.begin, self.end = b.params[0], b.params[-2], b.params[-1]
        self.indexer = Indexer(b)
        self.indexer.open(b.fenced())
        for symbol, value in symbols.items():
            self.indexer.bind(symbol, value)
        width = sum(24 * (1 + (a.value_dtype.kind == "c")) for a in kernel.accumulators)
        self.lanes = self._lanes(COLUMN_STACK // max(1, width)) if self.columns else 1
        if self.panel is None:
            self.accumulators = self._accumulators(self.lanes)
        else:  # in registers while they are summed, in memory after that
            self.rows = [self._accumulators(1) for _ in range(ROWS)]
            self.accumulators = self.spill = self._accumulators(ROWS)

    def _lanes(self, most: int) -> int:
        """Outer points side by side: whole steps of the widest vectors, no more than there are."""
        extent = self.kernel.outer[-1].extent
        many = min(COLUMN_LANES, most) if not isinstance(extent, int) else min(COLUMN_LANES, most, extent + 63)
        return max(64, many // 64 * 64)

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

    def _all_lanes(self, run: Run) -> None:
        """Runs what works on accumulators alone, for all lanes and those that make the last vector whole."""
        count = accumulators_of(self.kernel.outer[-1], self.kernel.accumulators, self.b.module.features)
        self.accumulators.span = self.one_step or count
        if self.one_step or self._takes_one_step(count):
            run(i64(0))
        else:
            self.b.for_loop(i64(0), self.lane_count, run, step=count, name="lane", flags="nuw nsw")
        self.accumulators.span = 1

    def _takes_one_step(self, count: int) -> bool:
        """Whether so many lanes are all there are: without a loop over them, they stay in registers."""
        extent = self.kernel.outer[-1].extent
        return isinstance(extent, int) and extent <= count

    def _guarded(self, run: Callable[[], None]) -> None:
        self.indexer.open(self.b.fenced())
        run()
        self.indexer.close()

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
            loops = self.b.loops
            run()
            self.indexer.close()
            if vectorise and not border and not self.columns and self.vector is None and self.b.loops == loops:
                self.b.plain = True
                self.b.module.sums |= any(a.dtype.is_inexact and a.kind in _SUMS for a in self.kernel.accumulators)

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
        self,
        stages: Sequence[Stage],
        variable: Symbol,
        start: Val,
        end: Val,
        run: Callable[[], None],
        hoisted: Callable[[Body, Symbol, frozenset[str]], frozenset[int]] = hoisted_checks,
    ) -> None:
        """`run` emits the innermost loop, over [start, end), around the bodies of `stages`; checks that stay the same
        in it are made before it, or what else is `hoisted`."""
        found = [(s, hoisted(s.body, variable, self.stored)) for s in stages]
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

    # -- rows --

    def _row(self, stage: Stage) -> Row | None:
        if self.columns or self.panel is not None or self.tiled is not None:
            return None
        accumulators = {a.name: a for a in self.kernel.accumulators}
        return row_of(stage, accumulators, self.b.module.features, few=self._reads_partials(stage))

    def _beside(self, stage: Stage) -> Row | None:
        if not self.columns:
            return None
        accumulators = {a.name: a for a in self.kernel.accumulators}
        return beside_of(stage, self.kernel.outer[-1], accumulators, self.b.module.features)

    def _reads_partials(self, stage: Stage) -> bool:
        """Whether a stage runs once, over what other kernels have left: far fewer numbers than these went through."""
        loads = [i for i in instructions_of(stage.body) if isinstance(i, Load)]
        kinds = {self.places[i.buffer].buffer.kind for i in loads}
        return not self.kernel.outer and len(stage.loops) == 1 and kinds == {"workspace"}

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
        ahead = loads_ahead(self.kernel, stage, row.variable)
        past, unit = self._past(stage, row)
        when = self._begins_with_lines(stage, row, start, unit) if past else None

        def step(value: Val, left: Val | None = None) -> None:
            self._vector_step(stage, row, value, left, past if left is None else (), unit, when, ahead)

        self._row_steps(stage, row, start, end, step, lambda: self._body(stage, None))

    def _vector_step(
        self,
        stage: Stage,
        row: Row,
        value: Val,
        left: Val | None,
        past: tuple[str, ...] = (),
        unit: int = 1,
        when: Val | None = None,
        ahead: Sequence[Load] = (),
    ) -> None:
        """A body for a vector of iterations from `value` on, or for the `left` ones that there are of them."""
        mask = None if left is None else some_lanes(self.b, left, row.count)
        value = self.b.hidden(value)
        self.indexer.open(self.b.fenced())
        self.indexer.bind(row.variable, value)
        self.vector = Lanes(row.variable, row.count, mask, past, unit, when, left)
        vectors = self.accumulators.vectors
        assert vectors is not None
        vectors.mask = mask
        if mask is None:
            self._fetch(ahead, row)
        self._body(stage, None)
        self.vector = vectors.mask = None
        self.indexer.close()

    def _row_steps(
        self, stage: Stage, row: Row, start: Val, end: Val, step: Callable[..., None], scalar: Callable[[], None]
    ) -> None:
        """The steps of a row, and what is left of it: under a mask, or as scalars."""
        b, extent = self.b, stage.loops[-1].extent

        def some(value: Val) -> None:
            step(value, b.sub(end, value, "nsw"))

        even = isinstance(extent, int) and extent % row.count == 0
        if row.masked and not even and (self.brief or row.once):
            b.for_loop(start, end, some, step=row.count, name="vector", flags="nuw nsw")
            return
        full = self._whole(row.count, start, end)
        if not isinstance(extent, int) or extent >= row.count:
            b.for_loop(start, full, step, step=row.count, name="vector", flags="nuw nsw")
        if even:
            return  # chunks are as well
        if not row.masked:
            vectors, self.accumulators.vectors = self.accumulators.vectors, None
            self._loop(row.variable, full, end, scalar, vectorise=False)
            self.accumulators.vectors = vectors
            return
        b.if_then(b.icmp("slt", full, end), lambda: some(full))

    def _whole(self, count: int, start: Val, end: Val) -> Val:
        """Where the last whole vector from `start` on ends."""
        b = self.b
        length = b.sub(end, start, "nsw")
        return b.add(start, b.sub(length, b.urem(length, i64(count)), "nsw"), "nsw")

    def _past(self, stage: Stage, row: Row) -> tuple[tuple[str, ...], int]:
        """The buffers that vectors of a row store past the caches, and how many elements go at once."""
        stream = self.stream
        if stream is None:
            return (), 1
        own = {a.buffer for a in accesses(stage.body)}
        unit = points_together(stream, {n: self.places[n].buffer for n in stream.buffers})
        return tuple(n for n in stream.buffers if n in own), min(unit, row.count)

    def _pays(self, stream: Stream) -> Val:
        """Whether stores past the caches pay in this call."""
        return i1(True) if stream.always else self.b.icmp("sgt", self.indexer.value(stream.bytes), i64(stream.limit))

    def _begins_with_lines(self, stage: Stage, row: Row, start: Val, unit: int) -> Val:
        """Whether vectors from `start` on may go past the caches: it pays, and what they store begins with a line."""
        b, stream = self.b, self.stream
        assert stream is not None
        even = self._pays(stream)
        for access in accesses(stage.body):
            if access.buffer in stream.buffers:
                size = self.places[access.buffer].buffer.dtype.itemsize
                within = b.and_(self._address(access, row.variable, start), i64(unit * size - 1))
                even = b.and_(even, b.icmp("eq", within, i64(0)))
        return even

    def _address(self, access: Access, variable: Symbol, point: Val) -> Val:
        """The address of a store at one point, as a number."""
        self.indexer.open(None)
        self.indexer.bind(variable, point)
        address = self._element(access.buffer, access.index, self.places[access.buffer].buffer.dtype)
        self.indexer.close()
        return self.b.cast("ptrtoint", address, "i64")

    def _element(self, buffer: str, index: Size, dtype: DType) -> Val:
        """Where an element of a buffer lies, seen as one of this dtype."""
        return self.indexer.address(self.places[buffer].base, index, memory_type(dtype), len(register_type(dtype)))

    def _fetch(self, ahead: Sequence[Load], row: Row) -> None:
        """Fetches what the next point of the last outer loop loads where this one loads a vector."""
        b = self.b
        self.indexer.open(None)
        for load in ahead:
            address = self._element(load.buffer, load.index, load.dtype)
            for line in range(0, row.count * load.dtype.itemsize, LINE):
                emit_prefetch(b, b.gep("i8", address, i64(line), flags=""))  # the next point may be shorter
        self.indexer.close()
