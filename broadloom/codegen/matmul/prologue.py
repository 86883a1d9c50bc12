"""Elements of an operand that are computed where they would be copied: pointwise code in front of a product.

What goes in: a product whose operand has a prologue. What comes out: a function

    void (ptr args, i64 number, i64 outer_first, i64 inner_first, i64 outer, i64 inner, ptr target, i64 target_step)

that computes `outer` times `inner` elements of matrix `number` of the operand, from the two first ones on, and stores
them as summands: the inner ones side by side, the outer ones `target_step` apart. The inner axis is that along which
what the code loads lies side by side. What holds: an element goes through the dtype of the operand, as if it had been
stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from broadloom.codegen.accumulators import Accumulators
from broadloom.codegen.body import BodyEmitter, Lanes, Place
from broadloom.codegen.index import Indexer
from broadloom.codegen.llvm import NULL, Function, FunctionBuilder, Param, Val, i64
from broadloom.codegen.matmul.numbers import Numbers
from broadloom.codegen.matmul.operands import Problem
from broadloom.errors import VerifyError
from broadloom.fusion.ir import Body, Kernel, Load, Store
from broadloom.fusion.prologue import axes_of, evaluation_cost, inner_axis
from broadloom.fusion.vectors import NO_COLUMN
from broadloom.symbolic import Size, Symbol

_PARAMS = (
    *(Param("ptr", "args"), Param("i64", "number"), Param("i64", "outer_first"), Param("i64", "inner_first")),
    *(Param("i64", "outer"), Param("i64", "inner"), Param("ptr", "target", "noalias"), Param("i64", "target_step")),
)


class Prologue:
    """The code that makes operand `role` of a product. `value` and `base` emit a size, and the address of a buffer, in
    a function that has the argument block; so many elements are computed side by side as `lanes` says."""

    def __init__(
        self,
        p: Problem,
        numbers: Numbers,
        role: str,
        kernel: Kernel,
        lanes: int,
        value: Callable[[FunctionBuilder, Val, Size], Val],
        base: Callable[[FunctionBuilder, Val, str], Val],
    ) -> None:
        region, self.dtype = p.role(role)
        axes, body = axes_of(kernel, region), kernel.stages[0].body
        inner = None if axes is None else inner_axis(body, axes)
        if axes is None or inner is None:
            raise VerifyError("prologue does not make an operand", got=kernel.name)
        self.p, self.numbers, self.lanes, self.value, self.base = p, numbers, lanes, value, base
        self.along_rows = inner == -1  # whether the elements of a row are the inner ones
        self.batch = list(zip(region.layout.shape[:-2], axes[:-2], strict=True))
        self.outer, self.inner = (axes[-2], axes[-1]) if self.along_rows else (axes[-1], axes[-2])
        self.body, self.cost = _without_store(body), evaluation_cost(body)

    def function(self, name: str) -> Function:
        """The function, under a name of the product's."""
        return self.numbers.module.helper(name, "void", _PARAMS, self._build, "noinline nounwind")

    def _build(self, b: FunctionBuilder) -> None:
        args, number, outer_first, inner_first, outer, inner, target, target_step = b.params
        p, few = self.p, self.numbers.lanes
        places = {n: Place(self.base(b, args, n), p.table[n]) for n in p.buffers if n in self._loaded()}
        sizes = {w: self.value(b, args, w) for w in p.words if isinstance(w, Symbol)}
        self._bind(b, number, sizes)
        whole = b.mul(b.udiv(inner, i64(self.lanes)), i64(self.lanes))

        def row(k: Val) -> None:
            self._open(b, self.outer, b.add(outer_first, k))
            to = self.numbers.at(b, p.total, target, b.mul(k, target_step))

            def part(j: Val, lanes: int, mask: Val | None) -> None:
                self._open(b, self.inner, b.add(inner_first, j))
                elements = self._elements(b, places, lanes, mask)
                self.numbers.store(b, elements, self.numbers.at(b, p.total, to, j), mask)
                self.indexer.close()

            def rest(j: Val) -> None:
                part(j, few, self.numbers.mask(b, b.sub(inner, j)))

            b.for_loop(
                i64(0), whole, lambda j: part(j, self.lanes, None), step=self.lanes, name="inner", flags="nuw nsw"
            )
            b.for_loop(whole, inner, rest, step=few, name="rest", flags="nuw nsw")
            self.indexer.close()

        b.for_loop(i64(0), outer, row, name="outer", flags="nuw nsw")
        b.ret()

    def _loaded(self) -> set[str]:
        return {i.buffer for i in self.body.instructions if isinstance(i, Load)}

    def _bind(self, b: FunctionBuilder, number: Val, sizes: Mapping[Symbol, Val]) -> None:
        """Gives sizes and the variables of batch axes their values."""
        found = dict(sizes)
        extents = {size: self.value(b, b.params[0], size) for size, _ in self.batch}
        for size, variable in reversed(self.batch):
            if size == 1:
                continue
            if variable is not None:
                found[variable] = b.binary("urem", number, extents[size])
            number = b.udiv(number, extents[size])
        self.indexer = Indexer(b)
        self.indexer.open(b.fenced())
        for symbol, value in found.items():
            self.indexer.bind(symbol, value)

    def _open(self, b: FunctionBuilder, variable: Symbol | None, value: Val) -> None:
        """Opens a level in which the variable has this value."""
        self.indexer.open(b.fenced())
        if variable is not None:
            self.indexer.bind(variable, value)

    def _elements(self, b: FunctionBuilder, places: Mapping[str, Place], count: int, mask: Val | None) -> Val:
        """So many summands from the inner variable's value on."""
        none = Accumulators(b, self.numbers.emit, (), running=frozenset(), compensated=frozenset(), lanes=1, width=1)
        leave = b.block("leave")  # for checks, of which there are none
        self.indexer.open(None)
        lanes = Lanes(NO_COLUMN if self.inner is None else self.inner, count, mask)
        emitter = BodyEmitter(b, self.numbers.emit, self.indexer, places, none, NULL, {}, None, leave, lanes=lanes)
        value = emitter.run(self.body)
        assert value is not None
        self.indexer.close()
        (spread,) = lanes.spread(b, value)
        return self.numbers.summand(b, self.dtype, spread)


def _without_store(body: Body) -> Body:
    """The code up to the value that is stored."""
    (value,) = [i.value for i in body.instructions if isinstance(i, Store)]
    return replace(body, instructions=body.instructions[: value + 1])
