"""What is packed before the tasks of a product run: panels of the right operand; rows of a left one that is computed.

What goes in: the template, a builder in the function of a parallel loop over pieces or rows. What comes out: the code
of that loop. What holds: a piece is some rows of one panel; elements come from memory, or from a prologue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broadloom.codegen.llvm import FunctionBuilder, Val, i64
from broadloom.codegen.matmul.packing import panel_function
from broadloom.codegen.matmul.prologue import Prologue
from broadloom.codegen.matmul.task import BATCH, PACKED, STRIP

if TYPE_CHECKING:
    from broadloom.codegen.matmul.step import Template

Range = tuple[Val, Val]  # the first, and how many
DEPTH_PIECE = 256  # rows of a strip that are packed at a time
PART = 64  # rows of a panel that are computed at a time before they are transposed
PART_STEP = PART + 16  # elements from one column of them to the next, in other sets of the cache


def pack_strip(t: Template, b: FunctionBuilder) -> None:
    """The pieces [begin, end) of the strip."""
    _, args, begin, end = b.params
    n, k = (t.value(b, args, x) for x in (t.p.n, t.p.k))
    strip, batch = (b.load("i64", t.slot(b, args, number)) for number in (STRIP, BATCH))
    packed = b.load("ptr", t.slot(b, args, PACKED))
    pieces = b.udiv(b.add(k, i64(DEPTH_PIECE - 1)), i64(DEPTH_PIECE))
    panel = _Panels(t, b, batch) if t.made_right is None else _MadePanels(t, b, batch, t.made_right)

    def piece(number: Val) -> None:
        column = b.mul(b.udiv(number, pieces), i64(t.width))
        first = b.mul(b.urem(number, pieces), i64(DEPTH_PIECE))
        to = b.add(b.mul(column, k), b.mul(first, i64(t.width)))
        rows = first, b.intrinsic("smin", b.sub(k, first), i64(DEPTH_PIECE))
        column = b.add(strip, column)
        panel.pack(rows, (column, b.sub(n, column)), t.numbers.at(b, t.p.total, packed, to))

    b.for_loop(begin, end, piece, name="piece", flags="nuw nsw")


class _Panels:
    """Panels of an operand that lies in memory."""

    def __init__(self, t: Template, b: FunctionBuilder, batch: Val) -> None:
        self.b, self.numbers, self.dtype, strides = b, t.numbers, t.p.b_dtype, t.p.b.strides
        self.row_step, self.column_step = (t.value(b, b.params[1], s) for s in strides[-2:])
        along = "columns" if strides[-1] == 1 else "rows" if strides[-2] == 1 else ""
        self.copy = panel_function(t.numbers, t.p.b_dtype, t.shape.vectors, along)
        self.source = t.matrix(b, b.params[1], "b", batch)

    def pack(self, rows: Range, columns: Range, target: Val) -> None:
        """Some rows of the panel of so many columns; of columns beyond its width nothing is read."""
        b = self.b
        at = b.add(b.mul(rows[0], self.row_step), b.mul(columns[0], self.column_step))
        source = self.numbers.at(b, self.dtype, self.source, at)
        b.call(self.copy, source, self.row_step, self.column_step, rows[1], columns[1], target)


class _MadePanels:
    """Panels of an operand that is computed: row by row, or, where what it is computed of lies by columns, in parts
    that are transposed."""

    def __init__(self, t: Template, b: FunctionBuilder, batch: Val, made: Prologue) -> None:
        self.b, self.t, self.batch, self.made = b, t, batch, made
        if not made.along_rows:
            self.part = b.alloca(t.numbers.element, t.width * PART_STEP, 64)
            self.copy = panel_function(t.numbers, t.p.total, t.shape.vectors, "rows")

    def pack(self, rows: Range, columns: Range, target: Val) -> None:
        """Computes some rows of the panel of so many columns."""
        b, t, numbers = self.b, self.t, self.t.numbers
        args, width = b.params[1], i64(t.width)
        there = b.intrinsic("smin", columns[1], width)
        if self.made.along_rows:
            t.fill(b, "b", args, self.batch, rows[0], columns[0], rows[1], there, target, width)
            return

        def part(first: Val) -> None:
            count, step = b.intrinsic("smin", b.sub(rows[1], first), i64(PART)), i64(PART_STEP)
            t.fill(b, "b", args, self.batch, columns[0], b.add(rows[0], first), there, count, self.part, step)
            to = numbers.at(b, t.p.total, target, b.mul(first, width))
            b.call(self.copy, self.part, i64(1), step, count, there, to)

        b.for_loop(i64(0), rows[1], part, step=PART, name="part", flags="nuw nsw")


def compute_rows(t: Template, b: FunctionBuilder) -> None:
    """The rows [begin, end) of a left operand that is computed, each a matrix of its own."""
    _, args, begin, end = b.params
    k, memory = t.value(b, args, t.p.k), b.load("ptr", t.slot(b, args, PACKED))
    made = t.made_left
    assert made is not None

    def row(number: Val) -> None:
        to = t.numbers.at(b, t.p.total, memory, b.mul(number, k))
        outer, inner, step = (i64(1), k, k) if made.along_rows else (k, i64(1), i64(1))
        t.fill(b, "a", args, number, i64(0), i64(0), outer, inner, to, step)

    b.for_loop(begin, end, row, name="row", flags="nuw nsw")
