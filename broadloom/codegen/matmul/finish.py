"""What becomes of the sums of a tile: they are converted, go through the pointwise code that is fused behind the
product, and are stored.

What goes in: a tile of sums in memory that lies in the cache. What comes out: a loop over its rows, with the code for
all columns in it, whose vectors take turns instruction by instruction: a chain that waits for itself leaves room for
the next. What holds: each element is finished once, whatever tile it is in.
"""

from __future__ import annotations

from collections.abc import Mapping

from broadloom.codegen.body import Given, Place
from broadloom.codegen.llvm import FunctionBuilder, Val, i64
from broadloom.codegen.matmul.elements import Elements
from broadloom.codegen.matmul.numbers import Numbers
from broadloom.codegen.matmul.operands import Problem
from broadloom.fusion.boxes import flat_index
from broadloom.fusion.handlers import Recording, replay
from broadloom.fusion.ir import Body, Load
from broadloom.fusion.lower import loop_nest
from broadloom.symbolic import Symbol


def finishing_body(p: Problem) -> tuple[list[Symbol | None], Body]:
    """The variables of batch axes, row and column, and the code for one element, in which a load of the product means
    the value at hand."""
    _, index = loop_nest(p.c.shape, "o")
    variables = [x if isinstance(x, Symbol) else None for x in index]
    if p.epilogue is not None:
        order = [*range(len(index) - 2), len(index) - 1, len(index) - 2] if p.turned else range(len(index))
        given = iter(loop.variable for loop in p.epilogue.outer)
        for axis in order:
            variables[axis] = None if variables[axis] is None else next(given)
    recording = Recording()
    if p.epilogue is None or p.kept:
        at = flat_index(p.c, tuple(0 if v is None else v for v in variables))
        recording.store(p.result.buffer, at, recording.load(p.result.buffer, at, p.c_dtype))
    if p.epilogue is not None:
        for stage in p.epilogue.stages:
            replay(stage.body, recording)
    return variables, recording.body()


class Finisher:
    """Emits the code behind the sums into a function of tasks."""

    def __init__(
        self,
        p: Problem,
        numbers: Numbers,
        b: FunctionBuilder,
        ctx: Val,
        bases: Mapping[str, Val],
        sizes: Mapping[Symbol, Val],
    ) -> None:
        self.p, self.numbers, self.b = p, numbers, b
        variables, body = finishing_body(p)
        *batch, self.row, self.column = variables
        self.batch = list(zip(p.c.shape[:-2], batch, strict=True))
        places = {name: Place(base, p.table[name]) for name, base in bases.items()}
        self.elements = Elements(b, numbers, body, places, ctx, sizes)

    def finish(
        self,
        number: Val,
        sums: Val,
        step: Val,
        rows: tuple[Val, Val],
        columns: tuple[Val, Val],
        vectors: int,
        masked: bool,
    ) -> None:
        """Finishes a tile of matrix `number`, whose sums lie at `sums`, `step` from row to row; rows and columns are
        (first, how many)."""
        b, lanes, code = self.b, vectors * self.numbers.lanes, self.elements
        code.open_matrix(self.batch, number, code.indexer.value)
        mask = self.numbers.mask(b, columns[1], lanes=lanes) if masked else None

        def row(k: Val) -> None:
            code.open(self.row, b.add(rows[0], k))
            code.open(self.column, columns[0])
            address = self.numbers.at(b, self.p.total, sums, b.mul(k, step))
            value = self.numbers.load(b, self.p.total, address, lanes, mask)
            self._finish(value, lanes, mask)
            code.close()
            code.close()

        b.for_loop(i64(0), rows[1], row, name="finish", flags="nuw nsw")
        code.close()

    def _finish(self, value: Val, count: int, mask: Val | None) -> None:
        """So many columns."""
        b, p, body = self.b, self.p, self.elements.body
        if p.c_dtype is not p.total:
            value = self.numbers.emit(b, "cast", [(value,)], [p.total], p.c_dtype, {"dtype": p.c_dtype})[0]
        given: dict[int, Given] = {
            k: ((value,), p.c_dtype)
            for k, i in enumerate(body.instructions)
            if isinstance(i, Load) and i.buffer == p.result.buffer
        }
        self.elements.run(self.column, count, mask, given)
