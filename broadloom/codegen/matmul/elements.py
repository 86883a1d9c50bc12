"""Pointwise code around a product, on the elements of matrices: in front of an operand, or behind the sums.

What goes in: a body, the addresses of its buffers, and values of the sizes in it. What comes out: levels in which the
variables of batch, row and column have values, and the code for a vector of columns in them. What holds: the code has
no checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from broadloom.codegen.accumulators import Accumulators, Scalar
from broadloom.codegen.body import BodyEmitter, Given, Lanes, Place
from broadloom.codegen.index import Indexer
from broadloom.codegen.llvm import FunctionBuilder, Val
from broadloom.codegen.matmul.numbers import Numbers
from broadloom.fusion.ir import Body
from broadloom.fusion.vectors import NO_COLUMN
from broadloom.symbolic import Size, Symbol


class Elements:
    """Emits the code of one body into a function; `ctx` is that of the call."""

    def __init__(
        self,
        b: FunctionBuilder,
        numbers: Numbers,
        body: Body,
        places: Mapping[str, Place],
        ctx: Val,
        sizes: Mapping[Symbol, Val],
    ) -> None:
        self.b, self.numbers, self.body, self.places, self.ctx = b, numbers, body, places, ctx
        self.indexer = Indexer(b)
        self._open(sizes)
        self.none = Accumulators(b, numbers.emit, (), running=frozenset(), compensated=frozenset(), lanes=1, width=1)

    def _open(self, values: Mapping[Symbol, Val]) -> None:
        self.indexer.open(self.b.fenced())  # behind the values: what depends on them alone goes there
        for variable, value in values.items():
            self.indexer.bind(variable, value)

    def open(self, variable: Symbol | None, value: Val) -> None:
        """Opens a level in which the variable has this value."""
        self._open({} if variable is None else {variable: value})

    def open_matrix(
        self, axes: Sequence[tuple[Size, Symbol | None]], number: Val, value: Callable[[Size], Val]
    ) -> None:
        """Opens a level for matrix `number` of a batch with axes of these sizes and variables, None for an axis of one
        element or one that the code does not move along; `value` emits a size."""
        found: dict[Symbol, Val] = {}
        for size, variable in reversed(axes):
            if size == 1:
                continue
            extent = value(size)
            if variable is not None:
                found[variable] = self.b.urem(number, extent)
            number = self.b.udiv(number, extent)
        self._open(found)

    def close(self) -> None:
        """Closes the innermost level."""
        self.indexer.close()

    def run(
        self, column: Symbol | None, count: int, mask: Val | None, given: Mapping[int, Given] | None = None
    ) -> tuple[Lanes, Scalar | None]:
        """The code for so many columns from the one on that `column` is, where `mask` says if it is there; the value of
        its last instruction. `given` are values of instructions that are not to be run."""
        leave = self.b.block("leave")  # for checks, of which there are none
        self.indexer.open(None)
        lanes = Lanes(NO_COLUMN if column is None else column, count, mask)
        emitter = BodyEmitter(
            *(self.b, self.numbers.emit, self.indexer, self.places, self.none, self.ctx, {}, None, leave),
            given=given or {},
            lanes=lanes,
        )
        value = emitter.run(self.body)
        self.indexer.close()
        return lanes, value
