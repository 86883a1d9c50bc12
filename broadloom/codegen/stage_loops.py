"""The loops of a kernel's stages, for one outer point or for a block of them side by side.

What goes in: stages. What comes out: their loops (`inner_loops.py`), one in the other; those of a search for the place
of an extremum go through a block twice. What holds: sums are cut into chunks of one length, so that a result does not
depend on where a loop runs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from broadloom.codegen.accumulators import Search, any_lane
from broadloom.codegen.inner_loops import Each, InnerLoops
from broadloom.codegen.llvm import Block, Val, i1, i64
from broadloom.codegen.outline import vector_bits
from broadloom.codegen.plans import (
    SEARCH_BLOCK,
    STOP_CHUNK,
    chunked_loop,
    combines,
    extremum_of,
    hoisted_values,
    is_worth_a_search,
    searches,
    stops,
)
from broadloom.codegen.rows import Row, search_of
from broadloom.codegen.types import width
from broadloom.fusion.handlers import instructions_of
from broadloom.fusion.ir import (
    Accumulator,
    Reduce,
    Stage,
)
from broadloom.records import dataclass


@dataclass(frozen=True, slots=True)
class Searching:
    """An argmax or argmin: the stage that folds its extremum instead, and the vectors that both passes run in, if they
    do."""

    accumulator: Accumulator
    folding: Stage
    row: Row | None


class StageLoops(InnerLoops):
    """Builds the loops inside of a kernel's outer points; `NestBuilder` builds those over the points."""

    # -- stages --

    def _stage(self, stage: Stage, each: Each) -> None:
        """The loops of a stage; `each` runs its argument for the point, or for each lane."""
        reduced = {i.name for i in instructions_of(stage.body) if isinstance(i, Reduce)}
        chunked = [n for n, s in self.accumulators.slots.items() if s.compensated and n in reduced]
        stopping = not self.columns and self.panel is None and stops(stage, self.accumulators)
        cut = chunked_loop(stage.loops, self.chunk if chunked else STOP_CHUNK) if chunked or stopping else None

        def flush() -> None:
            def run(lane: Val | None) -> None:
                for name in chunked:
                    self.accumulators.flush(name, lane)

            (each if not self.columns else self._all_lanes)(run)

        searching = self._searching(stage)
        row, beside = self._row(stage), self._beside(stage)

        def whole(run: Callable[[], None]) -> None:
            """What adds up to one chunk."""
            if row is None:
                run()
            else:
                self._in_vectors(row, reduced, run)

        def loop_over(k: int, start: Val, end: Val) -> None:
            variable = stage.loops[k].variable
            if row is not None and k == len(stage.loops) - 1:
                run = partial(self._vector_loop, stage, row, start, end)
                self._hoisting([stage], variable, start, end, run, hoisted_values)
                return
            innermost = [stage] if k == len(stage.loops) - 1 and not self.columns else []
            border = stage.border and k == len(stage.loops) - 1
            vectorise = not combines(self.kernel, stage)
            run = partial(self._loop, variable, start, end, lambda: nest(k + 1), border=border, vectorise=vectorise)
            self._hoisting(innermost, variable, start, end, run)

        def nest(k: int) -> None:
            if k == len(stage.loops):
                self.beside = beside
                run = partial(each, lambda lane: self._body(stage, lane))
                if self.columns:
                    self._hoisting([stage], self.kernel.outer[-1].variable, i64(0), self.lane_count, run)
                else:
                    run()
                self.beside = None
                return
            loop = stage.loops[k]
            if searching is not None and k == len(stage.loops) - 1:
                self._search(stage, searching)
                return
            extent = self.indexer.value(loop.extent)
            if cut is None or cut[0] != k:
                loop_over(k, i64(0), extent)
                return

            def chunk(start: Val) -> None:
                end = self.b.intrinsic("smin", extent, self.b.add(start, i64(cut[1]), "nuw nsw"))
                run = partial(whole, partial(loop_over, k, start, end))
                if stopping:
                    is_open = self.accumulators.is_open(*reduced)
                    self.b.if_then(is_open, lambda: self._guarded(run))
                else:
                    run()
                flush()

            self.b.for_loop(i64(0), extent, chunk, step=cut[1], name="chunk", flags="nuw nsw")

        if cut is None:
            whole(lambda: nest(0))
        else:
            nest(0)
        if chunked and cut is None:  # a short stage of a sum that is chunked elsewhere
            flush()

    # -- searches --

    def _searching(self, stage: Stage) -> Searching | None:
        """How a stage looks for the place of an extremum, if that is all it does."""
        if self.columns or not searches(stage, self.accumulators):
            return None
        name = next(i.name for i in stage.body.instructions if isinstance(i, Reduce))
        accumulator, folding = self.accumulators.slots[name].accumulator, extremum_of(stage)
        in_rows = self.panel is None and self.tiled is None
        row = search_of(folding, accumulator, self.b.module.features) if in_rows else None
        worth = is_worth_a_search(stage, in_vectors=row is not None)
        return Searching(accumulator, folding, row) if worth else None

    def _search(self, stage: Stage, search: Searching) -> None:
        """The innermost loop of an argmax: block by block the extremum, and its position only where it beats all
        before. Both inner loops run in vectors, which a search that carries the position along does not do as well. Of
        two values there are, the extremum is known."""
        b, loop, row, folding = self.b, stage.loops[-1], search.row, search.folding
        name, known = search.accumulator.name, search.accumulator.value_dtype.kind == "b"
        extent = self.indexer.value(loop.extent)

        def pass_over(what: Search, start: Val, end: Val) -> None:
            self.accumulators.search = what
            self._loop(loop.variable, start, end, lambda: self._body(stage, None))
            self.accumulators.search = Search.NONE

        def block(start: Val) -> None:
            end = b.intrinsic("smin", extent, b.add(start, i64(SEARCH_BLOCK), "nuw nsw"))
            self.indexer.open(b.fenced())
            self.accumulators.start_block(name, extremum_known=known)
            if row is None:
                extremum, place = (partial(pass_over, s, start, end) for s in (Search.EXTREMUM, Search.POSITION))
            else:
                extremum = partial(self._extremum_in_vectors, name, folding, row, start, end)
                place = partial(self._place_in_vectors, name, stage, folding, row, start, end)
            if not known:
                extremum()
            b.if_then(self.accumulators.block_wins(name), lambda: self._guarded(place))
            self.accumulators.finish_block(name)
            self.indexer.close()

        b.for_loop(i64(0), extent, block, step=SEARCH_BLOCK, name="search", flags="nuw nsw")

    def _extremum_in_vectors(self, name: str, folding: Stage, row: Row, start: Val, end: Val) -> None:
        """That of a block, by folds of vectors."""
        vectors = self.accumulators.extremum_vectors(name, row.count)
        vectors.start(None)
        self.accumulators.vectors, self.accumulators.search = vectors, Search.EXTREMUM
        self._vector_loop(folding, row, start, end)
        self.accumulators.vectors, self.accumulators.search = None, Search.NONE
        self.accumulators.absorb_extremum(name, vectors)

    def _place_in_vectors(self, name: str, stage: Stage, folding: Stage, row: Row, start: Val, end: Val) -> None:
        """The position of the first element of a block that is its extremum, in vectors up to the one that holds it."""
        b, found, after = self.b, self.b.block("found"), self.b.block("after")
        vectors = self.accumulators.extremum_vectors(name, row.count)
        vectors.sought = self.accumulators.extremum(name)
        lanes = vector_bits(b.module.features) // max(8, width(vectors.sought.type))
        exits: list[tuple[Val, Val, Block]] = []

        def step(value: Val, left: Val | None = None) -> None:
            self._vector_step(folding, row, value, left)
            hits, following = vectors.hits, b.block("following")
            assert hits is not None
            exits.append((value, b.bitcast(hits, f"i{row.count}"), b.current))
            b.cond_br(any_lane(b, hits, lanes), found, following)
            b.at(following)

        def scalar() -> None:
            self.accumulators.search = Search.POSITION
            self._body(stage, None)
            self.accumulators.search = Search.NONE

        self.accumulators.vectors = vectors
        self._row_steps(folding, row, start, end, step, scalar)
        self.accumulators.vectors = None
        if not exits:  # fewer elements than a vector has, and no masks
            return
        b.br(after)
        b.at(found)
        value = b.phi("i64", *((v, block) for v, _, block in exits)).value
        bits = b.phi(f"i{row.count}", *((x, block) for _, x, block in exits)).value
        place = b.int_cast(b.intrinsic("cttz", bits, i1(True)), "i64", signed=False)
        first = b.add(value, place, "nuw nsw")
        self.indexer.open(b.fenced())
        self.indexer.bind(row.variable, first)
        self.accumulators.search = Search.FOUND
        self._body(stage, None)
        self.accumulators.search = Search.NONE
        self.indexer.close()
        b.br(after)
        b.at(after)
