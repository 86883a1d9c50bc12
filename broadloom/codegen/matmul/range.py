"""Whether operands in bfloat16 can be multiplied by an instruction that has no subnormal numbers.

What goes in: the template, a builder in the function of the step. What comes out: code that looks through both operands
and stores the answer in the argument block. What holds: where it says yes, no operand has a subnormal number, an
infinity or nan; sums of products are zero or normal, since they are multiples of the last bit of the least product; and
no product, nor the sum of two, is infinite. So sums differ from those of float32 by their rounding alone. The answer is
that of the whole product, so tasks have the same bits whoever runs them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from broadloom.codegen import abi
from broadloom.codegen.llvm import Function, FunctionBuilder, Param, Val, const_int, i64, lanes_of, vector
from broadloom.codegen.matmul.calls import parallel
from broadloom.codegen.matmul.operands import Problem
from broadloom.codegen.matmul.task import DOTS, HIGH_A, HIGH_B, LOW_A, LOW_B
from broadloom.codegen.memory import masked_load, some_lanes
from broadloom.codegen.module import ModuleBuilder
from broadloom.codegen.outline import vector_bits
from broadloom.fusion.dots import LEAST_SIDE, worth_looking

if TYPE_CHECKING:
    from broadloom.codegen.matmul.step import Template

MAGNITUDE = 0x7FFF  # bits without the sign
EXPONENT_AT, LARGEST = 7, 254  # where the exponent begins; that of the largest numbers
LEAST_SUM = 2 * 127 + 2 * 7 - 126  # of exponents: the product's last bit is the least normal float32
MOST_SUM = 2 * 127 + 124  # products stay below 2**126, and sums of two are numbers


def can_be_looked_through(p: Problem) -> bool:
    """Whether both operands lie in memory, by rows or columns, and may be used often."""
    if p.prologues or not worth_looking(p.m, p.n, p.k):
        return False
    return all(1 in layout.strides[-2:] for layout in (p.a, p.b))


def look_through(t: Template, b: FunctionBuilder, m: Val, n: Val) -> None:
    """Stores whether the instruction may be used; where it would not pay to look, it is not."""
    args = b.params[1]
    b.store(i64(0), t.slot(b, args, DOTS))
    often = b.and_(b.icmp("sge", m, i64(LEAST_SIDE)), b.icmp("sge", n, i64(LEAST_SIDE)))
    b.if_then(often, partial(_look, t, b, args))


def _look(t: Template, b: FunctionBuilder, args: Val) -> None:
    found: list[tuple[Val, Val]] = []
    for role, low, high in (("a", LOW_A, HIGH_A), ("b", LOW_B, HIGH_B)):
        b.store(i64(0xFFFF), t.slot(b, args, low))
        b.store(i64(0), t.slot(b, args, high))
        lines, inner = _lines(t, b, args, role)
        kernel = t.kernel(f"range.{role}", partial(_range, t, role, (low, high)), abi.ONCE)
        parallel(b, kernel, lines, b.add(b.udiv(inner, i64(64)), i64(1)))
        least = b.add(b.load("i64", t.slot(b, args, low)), i64(1))
        most = b.load("i64", t.slot(b, args, high))
        found.append((b.lshr(least, i64(EXPONENT_AT)), b.lshr(most, i64(EXPONENT_AT))))
    (low_a, high_a), (low_b, high_b) = found
    conditions = [
        *(b.icmp("sge", x, i64(1)) for x in (low_a, low_b)),
        *(b.icmp("sle", x, i64(LARGEST)) for x in (high_a, high_b)),
        b.icmp("sge", b.add(low_a, low_b), i64(LEAST_SUM)),
        b.icmp("sle", b.add(high_a, high_b), i64(MOST_SUM)),
    ]
    answer = conditions[0]
    for condition in conditions[1:]:
        answer = b.and_(answer, condition)
    b.store(b.zext(answer, "i64"), t.slot(b, args, DOTS))


def _lines(t: Template, b: FunctionBuilder, args: Val, role: str) -> tuple[Val, Val]:
    """How many rows or columns there are in one piece, and of how many elements; a matrix for all counts once."""
    layout = t.p.role(role)[0].layout
    outer, inner = layout.shape[-2:] if layout.strides[-1] == 1 else layout.shape[-2:][::-1]
    count, size = t.value(b, args, outer), t.value(b, args, inner)
    matrices = t.value(b, args, t.p.count)
    if all(s == 0 or n == 1 for n, s in zip(layout.shape[:-2], layout.strides[:-2], strict=True)):
        matrices = b.intrinsic("smin", matrices, i64(1))
    return b.mul(count, matrices), size


def _range(t: Template, role: str, slots: tuple[int, int], b: FunctionBuilder) -> None:
    """The lines [begin, end) of an operand: its least magnitude but zero, less one, and its largest."""
    _, args, begin, end = b.params
    region, dtype = t.p.role(role)
    layout, type_ = region.layout, vector("i16", vector_bits(t.module.features) // 16)
    _, inner = _lines(t, b, args, role)
    outer = t.value(b, args, layout.shape[-2] if layout.strides[-1] == 1 else layout.shape[-1])
    step = t.value(b, args, layout.strides[-2] if layout.strides[-1] == 1 else layout.strides[-1])
    found = [b.alloca(type_, 1, 64) for _ in slots]
    for place, value in zip(found, (0xFFFF, 0), strict=True):
        b.store(const_int(type_, value), place)

    def line(number: Val) -> None:
        matrix = t.matrix(b, args, role, b.udiv(number, outer))
        start = t.numbers.at(b, dtype, matrix, b.mul(b.urem(number, outer), step))
        b.call(_line_function(t.module, type_), start, inner, *found)

    b.for_loop(begin, end, line, name="line", flags="nuw nsw")
    for name, slot, place in zip(("umin", "umax"), slots, found, strict=True):
        one = b.zext(b.intrinsic(f"vector.reduce.{name}", b.load(type_, place)), "i64")
        b.emit(f"atomicrmw {name} ptr {t.slot(b, args, slot).text}, {one} monotonic")


def _line_function(module: ModuleBuilder, type_: str) -> Function:
    """`void (ptr source, i64 count, ptr low, ptr high)`: folds elements in one piece into vectors of what was found."""
    params = (Param("ptr", "source"), Param("i64", "count"), Param("ptr", "low"), Param("ptr", "high"))

    def build(b: FunctionBuilder) -> None:
        source, count, *places = b.params
        lanes = lanes_of(type_)

        def fold(words: Val, low: Val, high: Val) -> tuple[Val, Val]:
            size = b.and_(words, const_int(type_, MAGNITUDE))
            less = b.add(size, const_int(type_, -1))  # zero is the largest
            return b.intrinsic("umin", low, less), b.intrinsic("umax", high, size)

        def some(k: Val, low: Val, high: Val) -> tuple[Val, Val]:
            return fold(b.load(type_, b.gep("i16", source, k), 2), low, high)

        whole = b.and_(count, i64(-lanes))
        given = [b.load(type_, place) for place in places]
        found = b.for_loop(i64(0), whole, some, given, step=lanes, name="some", flags="nuw nsw")
        mask = some_lanes(b, b.sub(count, whole), lanes)
        found = fold(masked_load(b, type_, b.gep("i16", source, whole), 2, mask), *found)
        for value, place in zip(found, places, strict=True):
            b.store(value, place)
        b.ret()

    return module.helper(f"bl_range.{lanes_of(type_)}", "void", params, build, "noinline nounwind")
