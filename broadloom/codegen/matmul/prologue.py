"""Elements of an operand that are computed where they would be copied: pointwise code in front of a product.

What goes in: a product whose operand has a prologue. What comes out: a function

    void (ptr args, i64 number, i64 outer_first, i64 inner_first, i64 outer, i64 inner, ptr target, i64 target_step)

that computes `outer` times `inner` elements of matrix `number` of the operand, from the two first ones on, and stores
them as summands, or in the dtype `stored`: the inner ones side by side, the outer ones `target_step` apart. The inner
axis is that along which what the code loads lies side by side. What holds: an element goes through the dtype of the
operand, as if it had been stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from broadloom.codegen.body import Place
from broadloom.codegen.llvm import NULL, Function, FunctionBuilder, Param, Val, i64
from broadloom.codegen.matmul.elements import Elements
from broadloom.codegen.matmul.numbers import Numbers
from broadloom.codegen.matmul.operands import Problem
from broadloom.dtypes import DType
from broadloom.errors import VerifyError
from broadloom.fusion.handlers import facts_of
from broadloom.fusion.ir import Body, Kernel, Store
from broadloom.fusion.prologue import axes_of, evaluation_cost, inner_axis
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
        stored: DType,
    ) -> None:
        region, self.dtype = p.role(role)
        self.stored = stored
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
        places = {n: Place(self.base(b, args, n), p.table[n]) for n in p.buffers if n in facts_of(self.body).loaded}
        sizes = {w: self.value(b, args, w) for w in p.words if isinstance(w, Symbol)}
        code = Elements(b, self.numbers, self.body, places, NULL, sizes)
        code.open_matrix(self.batch, number, partial(self.value, b, args))
        whole = b.mul(b.udiv(inner, i64(self.lanes)), i64(self.lanes))

        def row(k: Val) -> None:
            code.open(self.outer, b.add(outer_first, k))
            to = self.numbers.at(b, self.stored, target, b.mul(k, target_step))

            def part(j: Val, count: int, mask: Val | None) -> None:
                code.open(self.inner, b.add(inner_first, j))
                lanes, value = code.run(self.inner, count, mask)
                assert value is not None
                (spread,) = lanes.spread(b, value)
                if self.stored is not self.dtype:
                    spread = self.numbers.summand(b, self.dtype, spread)
                self.numbers.store(b, spread, self.numbers.at(b, self.stored, to, j), mask, self.stored)
                code.close()

            def full(j: Val) -> None:
                part(j, self.lanes, None)

            def rest(j: Val) -> None:
                part(j, few, self.numbers.mask(b, b.sub(inner, j)))

            b.for_loop(i64(0), whole, full, step=self.lanes, name="inner", flags="nuw nsw")
            b.for_loop(whole, inner, rest, step=few, name="rest", flags="nuw nsw")
            code.close()

        b.for_loop(i64(0), outer, row, name="outer", flags="nuw nsw")
        b.ret()


def _without_store(body: Body) -> Body:
    """The code up to the value that is stored."""
    (value,) = [i.value for i in body.instructions if isinstance(i, Store)]
    return replace(body, instructions=body.instructions[: value + 1])
