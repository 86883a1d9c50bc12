"""Copies of operands in the order in which tiles read them.

What goes in: strided operands. What comes out: functions that copy a part, converted to summands.

- Panels of the right operand: `width` columns, row after row. The columns beyond the last are left as they are.
- A block of the left operand: rows one after the other, or columns, whichever the operand's elements are nearer to.

What holds: elements side by side are read in vectors; where they follow each other in the other direction, squares of
them are transposed in registers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from broadloom.codegen.llvm import Function, FunctionBuilder, Param, Val, i64
from broadloom.codegen.matmul.numbers import Numbers
from broadloom.codegen.transpose import transposed
from broadloom.dtypes import DType

_PANEL = (
    *(Param("ptr", "source", "noalias"), Param("i64", "row_step"), Param("i64", "column_step"), Param("i64", "rows")),
    *(Param("i64", "columns"), Param("ptr", "target", "noalias")),
)
_BLOCK = (
    *(Param("ptr", "source", "noalias"), Param("i64", "outer_step"), Param("i64", "inner_step")),
    *(Param("i64", "outer"), Param("i64", "inner"), Param("ptr", "target", "noalias"), Param("i64", "target_step")),
)


def panel_function(numbers: Numbers, dtype: DType, vectors: int, along: str) -> Function:
    """Copies `rows` rows of up to `vectors` vectors of columns. `along`: "columns" if these lie side by side, "rows"
    if the elements of a column do, "" if neither."""
    name = f"bl_panel.{numbers.total}.{dtype}.{vectors}.{along or 'any'}"
    build = {"columns": _by_columns, "rows": _by_rows}.get(along, _by_elements)
    return numbers.module.helper(name, "void", _PANEL, lambda b: build(b, numbers, dtype, vectors), "noinline nounwind")


def _by_columns(b: FunctionBuilder, numbers: Numbers, dtype: DType, vectors: int) -> None:
    b.hides = True
    source, row_step, _, rows, columns, target = b.params
    width = vectors * numbers.lanes

    def copy(masks: list[Val | None]) -> None:
        def row(k: Val) -> None:
            at, to = numbers.at(b, dtype, source, b.mul(k, row_step)), b.mul(k, i64(width))
            for v, mask in enumerate(masks):
                x = numbers.load(b, dtype, numbers.at(b, dtype, at, v * numbers.lanes), numbers.lanes, mask)
                numbers.store(b, x, numbers.at(b, numbers.total, target, b.add(to, i64(v * numbers.lanes))))

        b.for_loop(i64(0), rows, row, name="row", flags="nuw nsw")

    def part() -> None:
        copy([numbers.mask(b, columns, v * numbers.lanes) for v in range(vectors)])

    b.if_then(b.icmp("sge", columns, i64(width)), lambda: copy([None] * vectors), part)
    b.ret()


def _by_rows(b: FunctionBuilder, numbers: Numbers, dtype: DType, vectors: int) -> None:
    """Squares; columns beyond the last repeat that."""
    b.hides = True
    source, _, column_step, rows, columns, target = b.params
    lanes, width = numbers.lanes, vectors * numbers.lanes
    last = b.sub(columns, i64(1))

    def strip(first: Val) -> None:
        starts = [
            numbers.at(b, dtype, source, b.mul(b.intrinsic("smin", b.add(first, i64(j)), last), column_step))
            for j in range(lanes)
        ]

        def square(k: Val, to: Val) -> tuple[Val, ...]:
            found = [numbers.load(b, dtype, numbers.at(b, dtype, s, k), lanes) for s in starts]
            for j, x in enumerate(transposed(b, found)):
                numbers.store(b, x, numbers.at(b, numbers.total, target, b.add(to, i64(j * width))))
            return (b.add(to, i64(lanes * width), "nuw nsw"),)

        whole = b.and_(rows, i64(-lanes))
        # Where the copies of a row go is carried: of a sum in an address LLVM asks each time who else has a use for it.
        done = b.for_loop(i64(0), whole, square, (first,), step=lanes, name="square", flags="nuw nsw")

        def single(k: Val, to: Val) -> tuple[Val, ...]:
            for j, s in enumerate(starts):
                x = numbers.load(b, dtype, numbers.at(b, dtype, s, k))
                numbers.store(b, x, numbers.at(b, numbers.total, target, b.add(to, i64(j))))
            return (b.add(to, i64(width), "nuw nsw"),)

        b.for_loop(whole, rows, single, done, name="single", flags="nuw nsw")

    b.for_loop(i64(0), b.intrinsic("smin", columns, i64(width)), strip, step=lanes, name="strip")
    b.ret()


def _by_elements(b: FunctionBuilder, numbers: Numbers, dtype: DType, vectors: int) -> None:
    source, row_step, column_step, rows, columns, target = b.params
    width = i64(vectors * numbers.lanes)
    _copy(
        b, numbers, dtype, (source, row_step, column_step), (rows, b.intrinsic("smin", columns, width)), (target, width)
    )
    b.ret()


def block_function(numbers: Numbers, dtype: DType) -> Function:
    """Copies `outer` times `inner` elements, the inner ones side by side."""
    name = f"bl_block.{numbers.total}.{dtype}"

    def build(b: FunctionBuilder) -> None:
        source, outer_step, inner_step, outer, inner, target, target_step = b.params

        def copy(step: Val) -> Callable[[], None]:
            return lambda: _copy(b, numbers, dtype, (source, outer_step, step), (outer, inner), (target, target_step))

        def copy_vectors() -> None:
            whole = b.and_(inner, i64(-numbers.lanes))

            def line(k: Val) -> None:
                at = numbers.at(b, dtype, source, b.mul(k, outer_step))
                to = numbers.at(b, numbers.total, target, b.mul(k, target_step))

                def part(j: Val, count: int) -> None:
                    x = numbers.load(b, dtype, numbers.at(b, dtype, at, j), count)
                    numbers.store(b, x, numbers.at(b, numbers.total, to, j))

                vectors = partial(part, count=numbers.lanes)
                b.for_loop(i64(0), whole, vectors, step=numbers.lanes, name="inner", flags="nuw nsw")
                b.for_loop(whole, inner, partial(part, count=1), name="rest", flags="nuw nsw")

            b.for_loop(i64(0), outer, line, name="outer", flags="nuw nsw")

        b.if_then(b.icmp("eq", inner_step, i64(1)), copy_vectors, copy(inner_step))
        b.ret()

    return numbers.module.helper(name, "void", _BLOCK, build, "noinline nounwind")


def _copy(
    b: FunctionBuilder,
    numbers: Numbers,
    dtype: DType,
    source: tuple[Val, Val, Val],
    counts: tuple[Val, Val],
    target: tuple[Val, Val],
) -> None:
    """Element by element."""
    start, outer_step, inner_step = source

    def outer(k: Val) -> None:
        at = numbers.at(b, dtype, start, b.mul(k, outer_step))
        to = numbers.at(b, numbers.total, target[0], b.mul(k, target[1]))

        def inner(j: Val) -> None:
            x = numbers.load(b, dtype, numbers.at(b, dtype, at, b.mul(j, inner_step)))
            numbers.store(b, x, numbers.at(b, numbers.total, to, j))

        b.for_loop(i64(0), counts[1], inner, name="inner", flags="nuw nsw")

    b.for_loop(i64(0), counts[0], outer, name="outer", flags="nuw nsw")
