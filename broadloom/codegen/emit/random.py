"""Random numbers in native code: the functions of `ops.portable` and `ops.rejection` run on lanes.

What goes in: lanes of words and of double. What comes out: a lane of words or of double. What holds: the bits are
those of the reference kernels, as the instructions are the same; no instruction is fused. A distribution that loops
becomes a function of the module with a vector form, in which a vector of elements tries until each has been accepted;
LLVM's vectoriser calls it by the attribute `vector-function-abi-variant` of the scalar one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broadloom.codegen import lane, llvm
from broadloom.codegen.emit.cell import Cell, Emitter, Row
from broadloom.codegen.lane import Lane
from broadloom.codegen.llvm import Function, FunctionBuilder, Param, Val
from broadloom.codegen.module import ModuleBuilder
from broadloom.codegen.outline import vector_bits
from broadloom.codegen.types import register_type
from broadloom.ops.portable import State, Step
from broadloom.ops.random import ENTRIES

_LOOPED = "noinline nounwind willreturn memory(none)"


class LaneMaths:
    """The handler of `ops.portable` for lanes, scalar or vector."""

    def __init__(self, b: FunctionBuilder) -> None:
        self.b = b

    def where(self, condition: Lane, x: Lane | float, y: Lane | float) -> Lane:
        return condition.where(x, y)

    def equal(self, x: Lane, y: Lane | float) -> Lane:
        return x.eq(y)

    def right(self, x: Lane, count: int) -> Lane:
        return x.lshr(count)

    def pattern(self, x: Lane) -> Lane:
        return x.as_int()

    def number(self, pattern: Lane) -> Lane:
        return pattern.as_float()

    def sqrt(self, x: Lane) -> Lane:
        return x.sqrt()

    def floor(self, x: Lane) -> Lane:
        return x.rounded("floor")

    def like(self, x: Lane, value: float) -> Lane:
        return x.lit(value)

    def loop(self, step: Step, args: State, state: State, waiting: Lane, limit: int) -> State:
        """All lanes of a vector take part in each step; those that do not wait keep what they have."""
        b, entry = self.b, self.b.current
        head, body, done = b.block("head"), b.block("trial"), b.block("done")
        zero = Lane(b, llvm.const_int(llvm.like(state[0].type, "i64"), 0))
        b.br(head)
        b.at(head)
        starts = (zero, waiting, *state)
        phis = [b.phi(start.type, (start.v, entry)) for start in starts]
        t, pending, *current = (Lane(b, phi.value) for phi in phis)
        b.cond_br(_any(pending).v, body, done)
        b.at(body)
        new, finished = step(self, t, args, tuple(current))
        following = t + 1
        left = pending & ~finished & following.ult(limit)
        kept = [pending.where(x, y) for x, y in zip(new, current, strict=True)]
        for phi, value in zip(phis, (following, left, *kept), strict=True):
            phi.add(value.v, b.current)
        b.br(head)
        b.at(done)
        return tuple(current)


def _any(truth: Lane) -> Lane:
    """Whether any lane is true."""
    if truth.type == truth.element:
        return truth
    name = f"llvm.vector.reduce.or.{llvm.mangle(truth.type)}"
    return Lane(truth.b, truth.b.call(truth.b.module.declare(name, truth.element, [truth.type]), truth.v))


def _helper(module: ModuleBuilder, name: str, attrs: Mapping[str, Any], lanes: int) -> Function:
    """The function of an op for scalars (`lanes` 1) or vectors, defined in the module when first used."""
    entry = ENTRIES[name]
    operands, stem = [register_type(d)[0] for d in entry.operands], _stem(name, attrs)
    results = list(register_type(entry.result))

    def body(x: list[Lane]) -> list[Lane]:
        return [entry.function(LaneMaths(x[0].b), *x, **attrs)]

    if not entry.looped:
        return lane.function(module, stem, operands, results, lanes, body)
    attributes, wide = _LOOPED, vector_bits(module.features) // 64
    spelled = f"bl.{stem}.{llvm.mangle(llvm.vector(results[0], lanes))}"
    if lanes == 1 < wide:
        form = _helper(module, name, attrs, wide)
        # Kept and of small size, it is left as it is: LLVM would take away parameters that are the same in all calls,
        # or make copies for their values, of which no vector form is known.
        module.keep([form.pointer, Val("ptr", f"@{spelled}")])
        variant = f"_ZGV_LLVM_N{wide}{'v' * len(operands)}_{spelled}({form.name[1:]})"
        attributes += f' optsize "vector-function-abi-variant"="{variant}"'
    params = [Param(llvm.vector(t, lanes), f"x{k}") for k, t in enumerate(operands)]

    def build(b: FunctionBuilder) -> None:
        b.ret(body([Lane(b, p) for p in b.params])[0].v)

    return module.helper(spelled, llvm.vector(results[0], lanes), params, build, attributes)


def _stem(name: str, attrs: Mapping[str, Any]) -> str:
    return f"random.{name}{''.join(f'.{value}' for value in attrs.values())}".lower()


def _emitter(name: str) -> Emitter:
    def emit(cell: Cell, *operands: Lane) -> Lane:
        b = operands[0].b
        function = _helper(b.module, name, cell.attrs, llvm.lanes_of(operands[0].type))
        return Lane(b, b.call(function, *(x.v for x in operands)))

    return emit


ROWS: dict[str, Row] = {name: {entry.operands[-1].kind: _emitter(name)} for name, entry in ENTRIES.items()}
