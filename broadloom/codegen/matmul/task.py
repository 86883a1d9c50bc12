"""What a task of a product does: some rows by some columns of one product of the batch.

What goes in: the template that cut the product into tasks, a builder at the place of the code, the argument block. What
comes out: code that computes task number so and so, or the sums of one block of the summation for it. What holds: the
sums of an element are added in the order that `tile` says, whichever task they are in; a worker packs rows of the left
operand once for as many tasks in turn as share them, where all of their elements fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from broadloom.codegen.llvm import NULL, FunctionBuilder, Val, i1, i64
from broadloom.codegen.matmul.finish import Finisher
from broadloom.codegen.matmul.left import LeftPacking
from broadloom.codegen.matmul.thin import adding_function, thin_function
from broadloom.codegen.matmul.tile import SUM_BLOCK, Tile, tile_function
from broadloom.codegen.memory import LINE, emit_prefetch, has_masks
from broadloom.symbolic import Symbol

if TYPE_CHECKING:
    from broadloom.codegen.matmul.step import Template

# slots of the argument block, behind the words
PACKED, BATCH, STRIP, NEXT, SCRATCH, PARTS, DOTS, LOW_A, HIGH_A, LOW_B, HIGH_B, SLOTS = range(12)


class Task:
    """Emits what a task does."""

    def __init__(self, template: Template, b: FunctionBuilder, args: Val, *, sums_only: bool = False) -> None:
        self.t, self.p, self.b, self.args = template, template.p, b, args
        self.numbers, self.shape = template.numbers, template.shape
        value = partial(template.value, b, args)
        self.m, self.n, self.k = value(self.p.m), value(self.p.n), template.steps_of(b, args)
        self.a_row, self.a_step = map(value, self.p.a.strides[-2:])
        self.row_blocks = self._blocks(self.m, template.task_rows)
        if template.packed_right:
            self.strip = b.load("i64", template.slot(b, args, STRIP))
            self.batch = b.load("i64", template.slot(b, args, BATCH))
            self.packed = b.load("ptr", template.slot(b, args, PACKED))
            self.width = b.intrinsic("smin", template.strip_columns(b, self.k, self.n), b.sub(self.n, self.strip))
        else:
            self.strip, self.width = i64(0), self.n
        self.task_columns = template.columns_of_task(b, self.n)
        self.column_blocks = b.udiv(b.sub(b.add(self.width, self.task_columns), i64(1)), self.task_columns)
        if template.stores_past:
            self.past = self._stores_past()
        if template.checked:
            self.dots = b.icmp("ne", b.load("i64", template.slot(b, args, DOTS)), i64(0))
        if template.packed_left and not template.deep:
            self.held = b.alloca("i64")  # which rows lie packed
        if not self.p.plain and not sums_only:
            room = template.task_columns if self.p.thin else self.shape.rows * template.width
            self.tile = b.alloca(self.numbers.element, room, 64)
            bases = {name: template.base(b, args, name) for name in self.p.buffers}
            sizes = {w: value(w) for w in self.p.words if isinstance(w, Symbol)}
            self.finisher = Finisher(self.p, self.numbers, b, b.params[0], bases, sizes)

    def _stores_past(self) -> Val:
        """i1: whether this call moves more than the caches keep, and its result begins with a line."""
        b, t = self.b, self.t
        address = b.cast("ptrtoint", t.matrix(b, self.args, "c", i64(0)), "i64")
        begins = b.icmp("eq", b.and_(address, i64(LINE - 1)), i64(0))
        return b.and_(begins, b.icmp("sgt", self._moved(), i64(t.streamed)))

    def _moved(self) -> Val:
        """Bytes of the operands and the result; where that depends on the call, as if no matrix were used twice."""
        b, p = self.b, self.p
        if isinstance(self.t.moved, int):
            return i64(self.t.moved)
        left, right = b.mul(self.m, self.k), b.mul(self.k, self.n)
        parts = [(left, p.a_dtype), (right, p.b_dtype), (b.mul(self.m, self.n), p.c_dtype)]
        each = i64(0)
        for elements, dtype in parts:
            each = b.add(each, b.mul(elements, i64(dtype.itemsize)))
        return b.mul(each, self.t.value(b, self.args, p.count))

    def begin(self) -> None:
        """Nothing is packed yet: the code for a worker begins with this."""
        if self.t.packed_left and not self.t.deep:
            self.b.store(i64(-1), self.held)

    def _blocks(self, size: Val, block: int) -> Val:
        return self.b.udiv(self.b.add(size, i64(block - 1)), i64(block))

    def count(self) -> Val:
        count = self.b.mul(self.row_blocks, self.column_blocks)
        whole = self.t.shared_right or not self.t.packed_right
        return self.b.mul(count, self.t.value(self.b, self.args, self.p.count)) if whole else count

    def run(self, number: Val, scratch: Val) -> None:
        """One task: columns first, so that neighbours share rows."""
        b, t = self.b, self.t
        column_block, rest = b.urem(number, self.column_blocks), b.udiv(number, self.column_blocks)
        row_block, batch = b.urem(rest, self.row_blocks), b.udiv(rest, self.row_blocks)
        if t.packed_right and not t.shared_right:
            batch = self.batch
        top = b.mul(row_block, i64(t.task_rows))
        bottom = b.intrinsic("smin", b.add(top, i64(t.task_rows)), self.m)
        left, right = self._columns_at(column_block)
        self.scratch, self.top, self.left, self.number, self.block = scratch, top, left, batch, rest
        self.a = self._left_of(batch)
        self.c = t.matrix(b, self.args, "c", batch) if self.p.plain else NULL
        self.right = self.packed if t.packed_right else t.matrix(b, self.args, "b", batch)
        if t.looks_ahead:
            self._look_ahead(batch)
        if self.p.thin:
            self._row(left, b.sub(right, left))
            return
        if not t.deep:
            self._piece(i64(0), self.k, (top, bottom, left, right), i1(True), i1(True))
            return

        def piece(first: Val) -> None:
            count = b.intrinsic("smin", b.sub(self.k, first), i64(t.depth))
            last = b.icmp("sge", b.add(first, i64(t.depth)), self.k)
            self._piece(first, count, (top, bottom, left, right), b.icmp("eq", first, i64(0)), last)

        b.for_loop(i64(0), b.intrinsic("smax", self.k, i64(1)), piece, step=t.depth, name="depth")

    def _look_ahead(self, batch: Val) -> None:
        """How many bytes the next matrix of each operand lies behind this one; the last one takes itself for it."""
        b, t = self.b, self.t
        following = b.intrinsic("smin", b.add(batch, i64(1)), b.sub(t.value(b, self.args, self.p.count), i64(1)))
        self.leaps: list[Val] = []
        for role in "ab":
            here, there = (t.offset(b, self.args, role, x) for x in (batch, following))
            self.leaps.append(b.mul(b.sub(there, here), i64(self.p.role(role)[1].itemsize)))

    def _left_of(self, batch: Val) -> Val:
        """The address of the left operand, where it has one."""
        b, t = self.b, self.t
        if not t.whole_rows:
            return NULL if t.made_left is not None else t.matrix(b, self.args, "a", batch)
        rows = b.load("ptr", t.slot(b, self.args, PACKED))
        return self.numbers.at(b, self.p.total, rows, b.mul(batch, self.k))

    def _columns_at(self, block: Val) -> tuple[Val, Val]:
        """The first column of a task, and that behind its last."""
        left = self.b.mul(block, self.task_columns)
        return left, self.b.intrinsic("smin", self.b.add(left, self.task_columns), self.width)

    def _row(self, left: Val, columns: Val) -> None:
        """The columns of a task, of a product of one row."""
        b, p = self.b, self.p
        out = self.numbers.at(b, p.total, self.c, left) if p.plain else self.tile
        whole = partial(self._thin, left, columns, (i64(0), self.k), out)
        if self.t.in_parts:
            parts = b.load("ptr", self.t.slot(b, self.args, PARTS))
            b.if_then(b.icmp("eq", parts, NULL), whole, partial(self._add_parts, left, columns, out))
        else:
            whole()
        if not p.plain:
            self._finish_columns(left, columns, out)

    def _add_parts(self, left: Val, columns: Val, out: Val) -> None:
        """The sums of the sums of all blocks."""
        b, t = self.b, self.t
        step = b.mul(t.value(b, self.args, self.p.count), t.padded(b, self.n))
        blocks = self._blocks(self.k, SUM_BLOCK)
        b.call(adding_function(self.numbers), self._part_at(self.number, left), step, blocks, columns, out)

    def _thin(self, left: Val, columns: Val, steps: tuple[Val, Val], out: Val) -> None:
        """Sums of (first, how many) steps of the summation."""
        b, p = self.b, self.p
        along = p.thin == "along"
        b_row, b_column = (self.t.value(b, self.args, s) for s in p.b.strides[-2:])
        at = b.add(b.mul(left, b_column), b.mul(steps[0], b_row))
        start = self.numbers.at(b, p.b_dtype, self.right, at)
        a_dtype, a_step = (p.total, i64(1)) if self.t.whole_rows else (p.a_dtype, self.a_step)
        row = self.numbers.at(b, a_dtype, self.a, b.mul(steps[0], a_step))
        function = thin_function(self.numbers, a_dtype, p.b_dtype, along)
        b.call(function, row, a_step, start, b_column if along else b_row, steps[1], columns, out)

    def part(self, number: Val) -> None:
        """The sums of one block of the summation, for the columns of a task: first columns, then rows that share the
        matrix, so that neighbours read memory in its order and once."""
        b, t = self.b, self.t
        batches = t.value(b, self.args, self.p.count)
        column_block, rest = b.urem(number, self.column_blocks), b.udiv(number, self.column_blocks)
        batch, block = b.urem(rest, batches), b.udiv(rest, batches)
        left, right = self._columns_at(column_block)
        self.a, self.right = self._left_of(batch), t.matrix(b, self.args, "b", batch)
        first = b.mul(block, i64(SUM_BLOCK))
        steps = first, b.intrinsic("smin", b.sub(self.k, first), i64(SUM_BLOCK))
        self._thin(left, b.sub(right, left), steps, self._part_at(rest, left))

    def _part_at(self, number: Val, left: Val) -> Val:
        """Where the sums of a row and a block lie."""
        b, parts = self.b, self.b.load("ptr", self.t.slot(self.b, self.args, PARTS))
        return self.numbers.at(b, self.p.total, parts, b.add(b.mul(number, self.t.padded(b, self.n)), left))

    def _finish_columns(self, left: Val, columns: Val, out: Val) -> None:
        """What follows the sums of a row."""
        b, p = self.b, self.p

        def part(first: Val) -> None:
            count = b.intrinsic("smin", b.sub(columns, first), i64(self.numbers.lanes))
            sums = self.numbers.at(b, p.total, out, first)
            place = (b.add(left, first), count)
            self.finisher.finish(self.number, sums, i64(0), (i64(0), i64(1)), place, 1, True)

        b.for_loop(i64(0), columns, part, step=self.numbers.lanes, name="part", flags="nuw nsw")

    def _piece(self, first: Val, count: Val, box: tuple[Val, Val, Val, Val], fresh: Val, last: Val) -> None:
        """`count` steps of the summation, for all tiles of a task."""
        b, t, p = self.b, self.t, self.p
        top, bottom, left, right = box
        a_row, a_step = self.a_row, self.a_step
        if t.packed_left:
            a_row, a_step = self._packed_left((top, b.sub(bottom, top)), (first, count))
            start, a_dtype = self.scratch, p.total
        else:
            start = self.numbers.at(b, p.a_dtype, self.a, b.add(b.mul(top, a_row), b.mul(first, a_step)))
            a_dtype = p.a_dtype

        def panel(column: Val) -> None:
            columns = b.sub(right, column)
            if t.packed_right:
                at, b_step = b.add(b.mul(column, self.k), b.mul(first, i64(t.width))), i64(t.width)
            else:
                b_step = t.value(b, self.args, p.b.strides[-2])
                at = b.add(b.mul(column, t.value(b, self.args, p.b.strides[-1])), b.mul(first, b_step))
            b_dtype = p.total if t.packed_right else p.b_dtype
            panel_at = self.numbers.at(b, b_dtype, self.right, at)

            def rows_of(vectors: int, masked: bool) -> None:
                def tile(row: Val, height: int, guarded: bool) -> None:
                    flags = (masked, guarded, self._is_long(), t.deep, t.corrected)
                    past = t.stores_past and not masked
                    spec = Tile(a_dtype, b_dtype, height, vectors, *flags, ahead=self._lines_ahead(vectors), past=past)
                    at = self.numbers.at(b, a_dtype, start, b.mul(b.sub(row, top), a_row))
                    out, out_row = self._out(row, column)
                    rows = b.intrinsic("smin", b.sub(bottom, row), i64(height)) if guarded else i64(height)
                    if guarded or not p.plain:
                        columns_there = b.intrinsic("smin", columns, i64(vectors * self.numbers.lanes))
                    else:
                        columns_there = columns
                    given = [at, a_row, a_step, panel_at, b_step, count, out, out_row, rows, columns_there, fresh]
                    if t.corrected:
                        corrections = b.gep("i8", self.scratch, i64(t.corrections_at))
                        given.append(self.numbers.at(b, p.total, corrections, b.sub(row, top)))
                    if spec.ahead:
                        given.append(self._leap(row, vectors))
                    if spec.past:
                        given.append(self.past)
                    if t.fetches_rows:
                        b.if_then(b.icmp("eq", column, i64(0)), partial(self._fetch_rows, at, height, count))
                    self._call_tile(spec, given)
                    if not p.plain:
                        there = (b.add(column, self.strip), columns_there)
                        tile_at = (self.number, out, out_row, (row, rows), there)
                        finish = partial(self.finisher.finish, *tile_at, vectors, masked)
                        if last.text == "true":
                            finish()
                        else:
                            b.if_then(last, finish)

                self._rows(top, bottom, tile)

            self._columns(columns, rows_of)

        b.for_loop(left, right, panel, step=t.width, name="panel", flags="nuw nsw")

    def _lines(self, vectors: int) -> int:
        """Lines of memory that a row of a panel takes."""
        return max(1, vectors * self.numbers.lanes * self.p.b_dtype.itemsize // LINE)

    def _lines_ahead(self, vectors: int) -> int:
        """Lines that each tile fetches at a step of the summation, so that the tiles of a panel fetch the whole of the
        next one."""
        if not self.t.looks_ahead or self.t.shared_right:
            return 0
        tiles = -(-self.p.m // self.shape.rows) if isinstance(self.p.m, int) else self._lines(vectors)
        return -(-self._lines(vectors) // tiles)

    def _leap(self, row: Val, vectors: int) -> Val:
        """Where the lines lie that the tile of this row fetches, in bytes behind the row of its panel: others than the
        tiles above it do. Where these fetch all, it fetches what it reads itself, which is in the nearest cache."""
        b, each = self.b, self._lines_ahead(vectors)
        tile = b.udiv(row, i64(self.shape.rows))
        first = b.mul(tile, i64(each))
        left = b.icmp("slt", first, i64(self._lines(vectors)))
        return b.select(left, b.add(self.leaps[1], b.mul(first, i64(LINE))), i64(0))

    def _fetch_rows(self, start: Val, rows: int, count: Val) -> None:
        """Fetches the next matrix's rows of a tile."""
        b, p = self.b, self.p
        length = b.mul(count, i64(p.a_dtype.itemsize))
        pitch = b.mul(self.a_row, i64(p.a_dtype.itemsize))

        def row(k: Val) -> None:
            at = b.gep("i8", start, b.add(self.leaps[0], b.mul(k, pitch)), flags="")
            b.for_loop(i64(0), length, lambda x: emit_prefetch(b, b.gep("i8", at, x, flags="")), step=LINE, name="line")

        b.for_loop(i64(0), i64(rows), row, name="fetch")

    def _call_tile(self, tile: Tile, given: Sequence[Val]) -> None:
        b, function = self.b, tile_function(self.numbers, tile)
        if not self.t.checked:
            b.call(function, *given)
            return
        wide = tile_function(self.numbers, replace(tile, wide=True))
        b.call_pointer(b.select(self.dots, function.pointer, wide.pointer), "void", *given)

    def _packed_left(self, rows: tuple[Val, Val], steps: tuple[Val, Val]) -> tuple[Val, Val]:
        """Packs (first, how many) rows and steps of the summation, unless the last task had the same; the steps from
        row to row and along a row."""
        b, left = self.b, LeftPacking(self.t, self.b, self.args, self.scratch)
        place = (self.number, self.a, self.a_row, self.a_step)
        if self.t.deep:
            left.pack(place, rows, steps)
            return left.row_step, left.step

        def pack() -> None:
            b.store(self.block, self.held)
            left.pack(place, rows, steps)

        b.if_then(b.icmp("ne", b.load("i64", self.held), self.block), pack)
        return left.row_step, left.step

    def _is_long(self) -> bool:
        """Whether sums are made of sums of blocks: where there is rounding."""
        return self.p.total.kind == "f" and not (isinstance(self.p.k, int) and self.p.k <= SUM_BLOCK)

    def _out(self, row: Val, column: Val) -> tuple[Val, Val]:
        """Where the sums of a tile are kept: in the result, in scratch while the summation goes on, or on the stack."""
        b, t = self.b, self.t
        if self.p.plain:
            step = t.value(b, self.args, self.p.c.strides[-2])
            at = b.add(b.mul(row, step), b.add(column, self.strip))
            return self.numbers.at(b, self.p.total, self.c, at), step
        if t.deep:
            step = i64(t.task_columns)
            at = b.add(b.mul(b.sub(row, self.top), step), b.sub(column, self.left))
            return self.numbers.at(b, self.p.total, b.gep("i8", self.scratch, i64(t.scratch_left)), at), step
        return self.tile, i64(t.width)

    def _rows(self, top: Val, bottom: Val, tile: Callable[[Val, int, bool], None]) -> None:
        """Runs `tile(row, height, guarded)` down a panel; a last tile of another height has code of its own where that
        height is known."""
        b, shape, m = self.b, self.shape, self.p.m
        if shape.last_rows <= 0:
            guarded = shape.last_rows < 0
            b.for_loop(top, bottom, lambda row: tile(row, shape.rows, guarded), step=shape.rows, name="tile")
            return
        if isinstance(m, int) and m >= shape.rows:
            whole = b.sub(bottom, i64(shape.rows - 1))
            b.for_loop(top, whole, lambda row: tile(row, shape.rows, False), step=shape.rows, name="tile")
        assert isinstance(m, int)
        first = i64(m - shape.last_rows)
        b.if_then(b.icmp("eq", bottom, i64(m)), lambda: tile(first, shape.last_rows, False))

    def _columns(self, columns: Val, rows_of: Callable[[int, bool], None]) -> None:
        """Runs `rows_of(vectors, masked)` for a panel."""
        b, shape, n, lanes = self.b, self.shape, self.p.n, self.numbers.lanes
        if shape.last_vectors == 0:
            rows_of(shape.vectors, False)
            return
        edge = shape.last_vectors if shape.last_vectors > 0 else shape.vectors
        masked = not (isinstance(n, int) and n % lanes == 0)
        if (isinstance(n, int) and n < self.t.width) or (shape.last_vectors < 0 and has_masks(self.t.module.features)):
            rows_of(edge, masked)  # one tile for all columns, where masks take no time but a second tile LLVM's
            return
        b.if_then(
            b.icmp("sge", columns, i64(self.t.width)),
            lambda: rows_of(shape.vectors, False),
            lambda: rows_of(edge, masked),
        )
