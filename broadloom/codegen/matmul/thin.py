"""Products of one row and a matrix, which read each element of the matrix once: as fast as memory gives it.

What goes in: a row `a` of `depth` elements and a matrix `b` of as many rows. What comes out: functions

    void (ptr a, i64 a_step, ptr b, i64 b_step, i64 depth, i64 columns, ptr out)

that store the sums of some columns. In "across", the columns of `b` lie side by side and `b_step` leads to the next
row: several rows are read at a time, and their products added to sums that lie in the first cache. In "along", the
elements of a column lie side by side and `b_step` leads to the next column: several columns are read at a time, and
their sums stay in registers.

What holds: the order of a sum depends on `depth` and the vector width alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from broadloom.codegen.accumulators import halves
from broadloom.codegen.llvm import Function, FunctionBuilder, Param, Val, i64, lanes_of
from broadloom.codegen.matmul.numbers import Numbers
from broadloom.codegen.matmul.tile import SUM_BLOCK
from broadloom.dtypes import DType

ACROSS_COLUMNS = 1024  # columns of a task, whose sums lie in the first cache
ALONG_COLUMNS = 64
ROWS = 8  # read at a time
COLUMNS = 4  # read at a time
VECTORS = 2  # of each column

_PARAMS = (
    *(Param("ptr", "a", "noalias"), Param("i64", "a_step"), Param("ptr", "b", "noalias"), Param("i64", "b_step")),
    *(Param("i64", "depth"), Param("i64", "columns"), Param("ptr", "out", "noalias")),
)


def thin_function(numbers: Numbers, a: DType, b: DType, along: bool) -> Function:
    """The function for operands of these dtypes, made once in a module."""
    build = _along if along else _across
    name = f"bl_thin.{'along' if along else 'across'}.{numbers.total}.{a}.{b}"
    return numbers.module.helper(name, "void", _PARAMS, lambda f: build(f, numbers, a, b), "noinline nounwind")


# ---- columns side by side -----------------------------------------------------------------------------------------


def _across(b: FunctionBuilder, numbers: Numbers, a_dtype: DType, b_dtype: DType) -> None:
    a, a_step, right, b_step, depth, columns, out = b.params
    lanes = numbers.lanes
    sums = b.alloca(numbers.vector, ACROSS_COLUMNS // lanes, 64)
    whole = b.and_(columns, i64(-lanes))

    def vectors(run: partial[None]) -> None:
        """Runs `run(column, mask)` for all columns."""
        b.for_loop(i64(0), whole, lambda j: run(j, None), step=lanes, name="column", flags="nuw nsw")
        rest = b.sub(columns, whole)
        b.if_then(b.icmp("sgt", rest, i64(0)), lambda: run(whole, numbers.mask(b, rest)))

    def block(first: Val) -> None:
        last = b.add(first, b.intrinsic("smin", b.sub(depth, first), i64(SUM_BLOCK)))
        vectors(partial(_clear, b, numbers, sums))
        some = b.add(first, b.and_(b.sub(last, first), i64(-ROWS)))

        def rows(k: Val, count: int) -> None:
            factors, starts = [], []
            for r in range(count):
                row = b.add(k, i64(r))
                x = numbers.load(b, a_dtype, numbers.at(b, a_dtype, a, b.mul(row, a_step)))
                factors.append(b.splat(x, lanes))
                starts.append(numbers.at(b, b_dtype, right, b.mul(row, b_step)))
            vectors(partial(_add_rows, b, numbers, b_dtype, sums, factors, starts))

        b.for_loop(first, some, lambda k: rows(k, ROWS), step=ROWS, name="rows", flags="nuw nsw")
        b.for_loop(some, last, lambda k: rows(k, 1), name="row", flags="nuw nsw")
        fresh = b.icmp("eq", first, i64(0))
        b.if_then(
            fresh,
            lambda: vectors(partial(_move, b, numbers, sums, out, False)),
            lambda: vectors(partial(_move, b, numbers, sums, out, True)),
        )

    b.for_loop(i64(0), b.intrinsic("smax", depth, i64(1)), block, step=SUM_BLOCK, name="block")
    b.ret()


def _clear(b: FunctionBuilder, numbers: Numbers, sums: Val, column: Val, mask: Val | None) -> None:
    numbers.store(b, numbers.zero(numbers.vector), numbers.at(b, numbers.total, sums, column))


def _add_rows(
    b: FunctionBuilder,
    numbers: Numbers,
    dtype: DType,
    sums: Val,
    factors: Sequence[Val],
    starts: Sequence[Val],
    column: Val,
    mask: Val | None,
) -> None:
    place = numbers.at(b, numbers.total, sums, column)
    total = numbers.load(b, numbers.total, place, numbers.lanes)
    for factor, start in zip(factors, starts, strict=True):
        x = numbers.load(b, dtype, numbers.at(b, dtype, start, column), numbers.lanes, mask)
        total = numbers.multiply_add(b, factor, x, total)
    numbers.store(b, total, place)


def _move(
    b: FunctionBuilder, numbers: Numbers, sums: Val, out: Val, added: bool, column: Val, mask: Val | None
) -> None:
    total = numbers.load(b, numbers.total, numbers.at(b, numbers.total, sums, column), numbers.lanes)
    target = numbers.at(b, numbers.total, out, column)
    if added:
        total = numbers.plus(b, numbers.load(b, numbers.total, target, numbers.lanes, mask), total)
    numbers.store(b, total, target, mask)


def adding_function(numbers: Numbers) -> Function:
    """`void (ptr parts, i64 step, i64 count, i64 columns, ptr out)`: adds up rows of sums that lie `step` elements
    apart, as "across" adds those of its blocks; each row is as long as whole vectors."""
    params = (Param("ptr", "parts", "noalias"), *(Param("i64", n) for n in ("step", "count", "columns")))
    params = (*params, Param("ptr", "out", "noalias"))
    name = f"bl_thin.adding.{numbers.total}"
    return numbers.module.helper(name, "void", params, lambda b: _adding(b, numbers), "noinline nounwind")


def _adding(b: FunctionBuilder, numbers: Numbers) -> None:
    parts, step, count, columns, out = b.params

    def vector(column: Val) -> None:
        start = numbers.at(b, numbers.total, parts, column)

        def add(number: Val, total: Val) -> tuple[Val, ...]:
            part = numbers.at(b, numbers.total, start, b.mul(number, step))
            return (numbers.plus(b, total, numbers.load(b, numbers.total, part, numbers.lanes)),)

        first = numbers.load(b, numbers.total, start, numbers.lanes)
        (total,) = b.for_loop(i64(1), count, add, (first,), name="part", flags="nuw nsw")
        target, rest = numbers.at(b, numbers.total, out, column), b.sub(columns, column)
        whole = b.icmp("sge", rest, i64(numbers.lanes))
        edge = partial(numbers.store, b, total, target, numbers.mask(b, rest))
        b.if_then(whole, partial(numbers.store, b, total, target), edge)

    b.for_loop(i64(0), columns, vector, step=numbers.lanes, name="column", flags="nuw nsw")
    b.ret()


# ---- elements of a column side by side ----------------------------------------------------------------------------


def _along(b: FunctionBuilder, numbers: Numbers, a_dtype: DType, b_dtype: DType) -> None:
    a, _, right, b_step, depth, columns, out = b.params
    some = b.and_(columns, i64(-COLUMNS))

    def together(column: Val, count: int) -> None:
        starts = [numbers.at(b, b_dtype, right, b.mul(b.add(column, i64(c)), b_step)) for c in range(count)]
        for c, total in enumerate(_dots(b, numbers, (a_dtype, b_dtype), a, starts, depth)):
            b.store(total, numbers.at(b, numbers.total, out, b.add(column, i64(c))), numbers.total.itemsize)

    b.for_loop(i64(0), some, lambda j: together(j, COLUMNS), step=COLUMNS, name="columns", flags="nuw nsw")
    b.for_loop(some, columns, lambda j: together(j, 1), name="column", flags="nuw nsw")
    b.ret()


def _dots(
    b: FunctionBuilder, numbers: Numbers, dtypes: tuple[DType, DType], a: Val, starts: Sequence[Val], depth: Val
) -> list[Val]:
    """The sums of products of the row and of each column."""
    lanes, zero = numbers.lanes, numbers.zero(numbers.vector)
    step, per_block = VECTORS * lanes, SUM_BLOCK * VECTORS * lanes
    whole = b.and_(depth, i64(-step))

    def loaded(k: Val, mask: Val | None) -> tuple[Val, list[Val]]:
        x = numbers.load(b, dtypes[0], numbers.at(b, dtypes[0], a, k), lanes, mask)
        return x, [numbers.load(b, dtypes[1], numbers.at(b, dtypes[1], s, k), lanes, mask) for s in starts]

    def add(k: Val, *sums: Val) -> list[Val]:
        made: list[Val] = []
        for v in range(VECTORS):
            x, others = loaded(b.add(k, i64(v * lanes)), None)
            made += [numbers.multiply_add(b, x, y, sums[len(made) + c]) for c, y in enumerate(others)]
        return made

    def block(first: Val, *totals: Val) -> list[Val]:
        end = b.intrinsic("smin", whole, b.add(first, i64(per_block)))
        found = b.for_loop(first, end, add, [zero] * (VECTORS * len(starts)), step=step, name="k", flags="nuw nsw")
        return [numbers.plus(b, t, x) for t, x in zip(totals, found, strict=True)]

    totals = list(b.for_loop(i64(0), whole, block, [zero] * (VECTORS * len(starts)), step=per_block, name="block"))
    sums = [numbers.plus(b, totals[c], totals[len(starts) + c]) for c in range(len(starts))]

    def tail(k: Val, *sums: Val) -> list[Val]:
        mask = numbers.mask(b, b.intrinsic("smin", b.sub(depth, k), i64(lanes)))
        x, others = loaded(k, mask)
        return [numbers.multiply_add(b, x, y, s) for y, s in zip(others, sums, strict=True)]

    done = b.for_loop(whole, depth, tail, sums, step=lanes, name="tail", flags="nuw nsw")
    return [_across_lanes(b, numbers, x) for x in done]


def _across_lanes(b: FunctionBuilder, numbers: Numbers, x: Val) -> Val:
    """The sum of a vector's lanes, by halves."""
    while lanes_of(x.type) > 1:
        x = numbers.plus(b, *halves(b, x))
    return x
