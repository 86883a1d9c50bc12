"""Rows of the left operand that a task packs: from memory, or computed; summands in order, or in groups.

What goes in: the template, a builder in a task, the memory of the worker. What comes out: code that packs some rows and
steps of the summation. What holds: the memory begins with the rows; of groups, what their sums begin with, and elements
that are computed before they are grouped, follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broadloom.codegen.llvm import FunctionBuilder, Val, i64
from broadloom.codegen.matmul.groups import Packing, corrections_function, packing_function
from broadloom.codegen.matmul.packing import block_function

if TYPE_CHECKING:
    from broadloom.codegen.matmul.step import Template

Range = tuple[Val, Val]  # the first, and how many
Place = tuple[Val, Val, Val, Val]  # number of the matrix, its address, its steps from row to row and along a row


class LeftPacking:
    """`row_step` and `step` lead from a packed row to the next, and along it."""

    def __init__(self, t: Template, b: FunctionBuilder, args: Val, memory: Val) -> None:
        self.t, self.b, self.args, self.memory = t, b, args, memory
        strides, made = t.p.a.strides, t.made_left
        self.by_rows = strides[-2] != 1 if made is None else made.along_rows
        if t.group > 1 and made is None:
            self.by_rows = strides[-1] == 1
        rows = t.task_rows if t.group == 1 else t.padded_rows
        self.row_step, self.step = (i64(t.depth + 16), i64(1)) if self.by_rows else (i64(1), i64(rows))

    def pack(self, place: Place, rows: Range, steps: Range) -> None:
        """Packs some rows and steps of the summation of a matrix."""
        if self.t.group > 1:
            self._pack_groups(place, rows, steps)
            return
        b, t, p = self.b, self.t, self.t.p
        number, matrix, row_step, step = place
        outer, inner = (rows, steps) if self.by_rows else (steps, rows)
        target_step = self.row_step if self.by_rows else self.step
        if t.made_left is not None:
            given = (outer[0], inner[0], outer[1], inner[1], self.memory, target_step)
            t.fill(b, "a", self.args, number, *given)
        else:
            at = b.add(b.mul(rows[0], row_step), b.mul(steps[0], step))
            start, block = t.numbers.at(b, p.a_dtype, matrix, at), block_function(t.numbers, p.a_dtype)
            out, along = (row_step, step) if self.by_rows else (step, row_step)
            b.call(block, start, out, along, outer[1], inner[1], self.memory, target_step)

    def _pack_groups(self, place: Place, rows: Range, steps: Range) -> None:
        b, t, dtype = self.b, self.t, self.t.p.a_dtype
        number, start, row_step, step = place
        elements = t.elements_of(b, self.args, steps)
        form = "along" if self.by_rows else "across"
        if t.made_left is not None:
            start = b.gep("i8", self.memory, i64(t.made_at))
            outer, inner = (rows, elements) if self.by_rows else (elements, rows)
            apart = i64((t.depth + 16) * t.group if self.by_rows else t.padded_rows)
            t.fill(b, "a", self.args, number, outer[0], inner[0], outer[1], inner[1], start, apart)
            row_step, step = (apart, i64(1)) if self.by_rows else (i64(1), apart)
        else:
            at = b.add(b.mul(rows[0], row_step), b.mul(elements[0], step))
            start = t.numbers.at(b, dtype, start, at)
            form = form if 1 in t.p.a.strides[-2:] else "any"
        even = self.by_rows and t.even(t.p.k, t.group * t.numbers.lanes)
        packing = packing_function(t.numbers, Packing("left", dtype, form, t.numbers.lanes, t.whole_groups, even))
        target_step = self.row_step if self.by_rows else self.step
        b.call(packing, start, step, row_step, elements[1], rows[1], self.memory, target_step, i64(0))
        if t.corrected:
            sums = corrections_function(t.numbers, self.by_rows)
            target = b.gep("i8", self.memory, i64(t.corrections_at))
            b.call(sums, self.memory, self.row_step, self.step, rows[1], steps[1], target)
