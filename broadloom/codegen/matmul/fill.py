"""What is packed before the tasks of a product run: panels of the right operand; rows of a left one that is computed.

What goes in: the template, a builder in the function of a parallel loop over pieces or rows. What comes out: the code
of that loop. What holds: a piece is some rows of one panel; elements come from memory, or from a prologue. Elements
that are packed in groups are computed in their own dtype first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broadloom.codegen.llvm import FunctionBuilder, Val, i64
from broadloom.codegen.matmul.groups import Packing, packing_function
from broadloom.codegen.matmul.packing import panel_function
from broadloom.codegen.matmul.prologue import Prologue
from broadloom.codegen.matmul.task import BATCH, PACKED, STRIP
from broadloom.codegen.types import memory_type
from broadloom.dtypes import DType

if TYPE_CHECKING:
    from broadloom.codegen.matmul.step import Template

Range = tuple[Val, Val]  # the first, and how many
DEPTH_PIECE = 256  # rows of a panel that are packed at a time
PANELS = 4  # packed at a time where rows of groups lie in one piece: one would be a part of each line of the cache
PART = 64  # rows of a panel that are computed at a time before they are transposed
PART_STEP = PART + 16  # elements from one column of them to the next, in other sets of the cache


def pack_strip(t: Template, b: FunctionBuilder) -> None:
    """The pieces [begin, end) of the strip."""
    _, args, begin, end = b.params
    n, k = t.value(b, args, t.p.n), t.steps_of(b, args)
    strip, batch = (b.load("i64", t.slot(b, args, number)) for number in (STRIP, BATCH))
    packed = b.load("ptr", t.slot(b, args, PACKED))
    depth, columns_of_piece = i64(piece_depth(t)), i64(t.width * piece_panels(t))
    pieces = b.udiv(b.add(k, b.sub(depth, i64(1))), depth)
    panel = _Panels(t, b, batch) if t.made_right is None else _MadePanels(t, b, batch, t.made_right)

    def piece(number: Val) -> None:
        column = b.mul(b.udiv(number, pieces), columns_of_piece)
        first = b.mul(b.urem(number, pieces), depth)
        to = b.add(b.mul(column, k), b.mul(first, i64(t.width)))
        rows = first, b.intrinsic("smin", b.sub(k, first), depth)
        rows = t.elements_of(b, args, rows)
        columns = b.sub(n, b.add(strip, column))
        if piece_panels(t) > 1:
            in_strip = b.sub(t.strip_columns(b, k, n), column)
            columns = b.intrinsic("smin", b.intrinsic("smin", columns, in_strip), columns_of_piece)
        panel.pack(rows, (b.add(strip, column), columns), t.numbers.at(b, t.p.total, packed, to))

    b.for_loop(begin, end, piece, name="piece", flags="nuw nsw")


def piece_panels(t: Template) -> int:
    """Panels that are packed at a time."""
    return PANELS if t.group > 1 and t.made_right is None and t.p.b.strides[-1] == 1 else 1


def piece_depth(t: Template) -> int:
    """Rows of panels that are packed at a time."""
    return DEPTH_PIECE // piece_panels(t)


class _Panels:
    """Panels of an operand that lies in memory."""

    def __init__(self, t: Template, b: FunctionBuilder, batch: Val) -> None:
        self.b, self.numbers, self.dtype, strides = b, t.numbers, t.p.b_dtype, t.p.b.strides
        self.row_step, self.column_step = (t.value(b, b.params[1], s) for s in strides[-2:])
        along = "columns" if strides[-1] == 1 else "rows" if strides[-2] == 1 else ""
        self.copy = copy_of(t, t.p.b_dtype, along)
        self.source = t.matrix(b, b.params[1], "b", batch)

    def pack(self, rows: Range, columns: Range, target: Val) -> None:
        """Some rows of the panel of so many columns; of columns beyond its width nothing is read."""
        b = self.b
        at = b.add(b.mul(rows[0], self.row_step), b.mul(columns[0], self.column_step))
        source = self.numbers.at(b, self.dtype, self.source, at)
        self.copy(b, source, (self.row_step, self.column_step), rows[1], columns[1], target)


Copy = Callable[[FunctionBuilder, Val, tuple[Val, Val], Val, Val, Val], Val]


def copy_of(t: Template, dtype: DType, along: str) -> Copy:
    """Emits a copy of (a source, its steps to the next row and column, so many rows and columns) to a panel; `along`:
    as `panel_function` says. Rows are steps of the summation."""
    if t.numbers.grouping is None:
        panel = panel_function(t.numbers, dtype, t.shape.vectors, along)
        return lambda b, source, steps, rows, columns, to: b.call(panel, source, *steps, rows, columns, to)
    form = {"columns": "across", "rows": "turn"}.get(along, "any")
    even = t.even(t.p.k, t.group * t.numbers.lanes) if form == "turn" else t.even(t.p.n, t.width)
    groups = packing_function(t.numbers, Packing("right", dtype, form, t.width, t.whole_groups, even))
    panels = piece_panels(t)

    def copy(b: FunctionBuilder, source: Val, steps: tuple[Val, Val], rows: Val, columns: Val, to: Val) -> Val:
        width, step = i64(t.width), i64(0)
        if panels == 1:
            columns = b.intrinsic("smin", columns, width)
        else:
            step = b.mul(t.steps_of(b, b.params[1]), width)
        return b.call(groups, source, *steps, rows, columns, to, width, step)

    return copy


class _MadePanels:
    """Panels of an operand that is computed: row by row, or, where what it is computed of lies by columns, in parts
    that are transposed."""

    def __init__(self, t: Template, b: FunctionBuilder, batch: Val, made: Prologue) -> None:
        self.b, self.t, self.batch, self.made = b, t, batch, made
        self.direct = made.along_rows and t.group == 1
        if not self.direct:
            self.part = b.alloca(memory_type(made.stored), t.width * PART_STEP, 64)
            self.copy = copy_of(t, made.stored, "columns" if made.along_rows else "rows")

    def pack(self, rows: Range, columns: Range, target: Val) -> None:
        """Computes some rows of the panel of so many columns."""
        b, t, numbers = self.b, self.t, self.t.numbers
        args, width = b.params[1], i64(t.width)
        there = b.intrinsic("smin", columns[1], width)
        if self.direct:
            t.fill(b, "b", args, self.batch, rows[0], columns[0], rows[1], there, target, width)
            return

        def part(first: Val) -> None:
            count, begins = b.intrinsic("smin", b.sub(rows[1], first), i64(PART)), b.add(rows[0], first)
            if self.made.along_rows:
                t.fill(b, "b", args, self.batch, begins, columns[0], count, there, self.part, width)
                steps = width, i64(1)
            else:
                t.fill(b, "b", args, self.batch, columns[0], begins, there, count, self.part, i64(PART_STEP))
                steps = i64(1), i64(PART_STEP)
            to = numbers.at(b, t.p.total, target, b.mul(b.udiv(first, i64(t.group)), width))
            self.copy(b, self.part, steps, count, there, to)

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
