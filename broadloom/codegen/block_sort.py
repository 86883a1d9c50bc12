"""Sorting of BLOCK integer keys in vector registers, by networks: LLVM functions of our own.

What goes in: the bits of a key. What comes out: `column_sort` and `block_sort`, functions `void (ptr keys, ptr places)`
that sort a block in place, and the 64-bit places beside the keys if there are such. The first sorts each run of ROWS
elements, the second leaves runs of `run_length`.

What holds: what is done does not depend on the data. A block becomes a matrix with a run in each lane by transposition,
and memory again by another; a network of Batcher's sorts the lanes. Keys alone are merged further, by bitonic networks,
until the block is one run. A network is not stable: keys with places are compared by place where they are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from broadloom.codegen.llvm import Function, FunctionBuilder, Param, Val, i64, vector
from broadloom.codegen.module import ModuleBuilder
from broadloom.codegen.transpose import transposed

LANES, ROWS = 8, 16
BLOCK = LANES * ROWS


def run_length(placed: bool) -> int:
    """How long the sorted runs of a block are."""
    return ROWS if placed else BLOCK


def column_sort(module: ModuleBuilder, bits: int, placed: bool) -> Function:
    """The function that sorts the runs of a block, of keys of `bits` bits."""
    return _function(module, "columns", bits, placed, lambda b: _sort_columns(b, f"i{bits}", placed))


def block_sort(module: ModuleBuilder, bits: int, placed: bool) -> Function:
    """The function that sorts the runs of a block and, where there are no places, merges them."""
    columns = column_sort(module, bits, placed)
    if placed:
        return columns

    def build(b: FunctionBuilder) -> None:
        b.call(columns, *b.params)
        _merge_runs(b, f"i{bits}", b.params[0])
        b.ret()

    return _function(module, "block", bits, placed, build)


def _function(
    module: ModuleBuilder, name: str, bits: int, placed: bool, build: Callable[[FunctionBuilder], None]
) -> Function:
    params = [Param("ptr", "keys"), Param("ptr", "places")]
    name = f"bl_{name}_i{bits}{'_placed' if placed else ''}"
    return module.helper(name, "void", params, build, "noinline nounwind")


def batcher(n: int) -> Iterator[tuple[int, int]]:
    """The comparators of Batcher's odd-even merge sort for n elements, a power of 2, in order.

    >>> list(batcher(4))
    [(0, 1), (2, 3), (0, 2), (1, 3), (1, 2)]
    """
    p = 1
    while p < n:
        k = p
        while k >= 1:
            for j in range(k % p, n - k, 2 * k):
                for i in range(j, min(j + k, n - k)):
                    if i // (2 * p) == (i + k) // (2 * p):
                        yield i, i + k
            k //= 2
        p *= 2


def _sort_columns(b: FunctionBuilder, key: str, placed: bool) -> None:
    keys, places = b.params
    kinds = [(key, keys), ("i64", places)] if placed else [(key, keys)]
    works = [b.alloca(vector(kind, LANES), ROWS, 64) for kind, _ in kinds]
    for (kind, base), work in zip(kinds, works, strict=True):
        _transpose(b, kind, base, ROWS, work, LANES)
    if placed:
        _network_of_pairs(b, key, *works)
    else:
        _network(b, key, works[0])
    for (kind, base), work in zip(kinds, works, strict=True):
        _transpose(b, kind, work, LANES, base, ROWS)
    b.ret()


# ---- rows ---------------------------------------------------------------------------------------------------------


def _row(b: FunctionBuilder, kind: str, base: Val, row: Val | int) -> Val:
    """The address of a row of LANES elements."""
    at = i64(row * LANES) if isinstance(row, int) else b.mul(row, i64(LANES))
    return b.gep(kind, base, at)


def _rows(b: FunctionBuilder, key: str, base: Val, count: int) -> list[Val]:
    return [b.load(vector(key, LANES), _row(b, key, base, row), 1) for row in range(count)]


def _put(b: FunctionBuilder, key: str, base: Val, rows: Sequence[Val]) -> None:
    for row, value in enumerate(rows):
        b.store(value, _row(b, key, base, row), 1)


def _compare(b: FunctionBuilder, rows: list[Val], i: int, j: int) -> None:
    """Puts the smaller of two rows, lane by lane, first."""
    x, y = rows[i], rows[j]
    rows[i], rows[j] = b.intrinsic("smin", x, y), b.intrinsic("smax", x, y)


# ---- the columns ----------------------------------------------------------------------------------------------------


def _network(b: FunctionBuilder, key: str, keys: Val) -> None:
    """Sorts each column of keys."""
    rows = _rows(b, key, keys, ROWS)
    for i, j in batcher(ROWS):
        _compare(b, rows, i, j)
    _put(b, key, keys, rows)


def _network_of_pairs(b: FunctionBuilder, key: str, keys: Val, places: Val) -> None:
    """Sorts each column of keys with places. The comparators stand in a table: LLVM takes long over many of them in a
    row, and the registers would not hold all the rows."""
    pairs = list(batcher(ROWS))
    table = b.module.table("bl_comparators", "i64", [str(row) for pair in pairs for row in pair])

    def compare(k: Val) -> None:
        i, j = (b.load("i64", b.gep("i64", table, b.add(b.shl(k, i64(1)), i64(part)))) for part in (0, 1))
        at = [[_row(b, kind, base, row) for row in (i, j)] for kind, base in ((key, keys), ("i64", places))]
        (x, y), (p, q) = (
            [b.load(vector(kind, LANES), a) for a in pair] for kind, pair in zip((key, "i64"), at, strict=True)
        )
        behind = b.and_(b.icmp("eq", x, y), b.icmp("sgt", p, q))
        swap = b.or_(b.icmp("sgt", x, y), behind)
        for (first, second), u, v in zip(at, (x, p), (y, q), strict=True):
            b.store(b.select(swap, v, u), first)
            b.store(b.select(swap, u, v), second)

    b.for_loop(i64(0), i64(len(pairs)), compare, name="compare", metadata=as_is(b))


def _transpose(b: FunctionBuilder, kind: str, source: Val, step: int, target: Val, width: int) -> None:
    """Transposes a matrix of ROWS * LANES elements with `step` elements a row into one with `width`: square by square,
    in a function of its own, since LLVM takes long over many shuffles in a row."""
    square = b.module.helper(
        f"bl_transpose_{kind}",
        "void",
        [Param("ptr", "source"), Param("i64", "step"), Param("ptr", "target"), Param("i64", "width")],
        lambda inner: _transpose_square(inner, kind),
        "noinline nounwind",
    )
    for part in range(ROWS // LANES):
        start, end = (part * (LANES if n == ROWS else LANES * LANES) for n in (step, width))
        b.call(square, b.gep(kind, source, i64(start)), i64(step), b.gep(kind, target, i64(end)), i64(width))


def _transpose_square(b: FunctionBuilder, kind: str) -> None:
    source, step, target, width = b.params
    at = [b.gep(kind, source, b.mul(step, i64(row))) for row in range(LANES)]
    rows = transposed(b, [b.load(vector(kind, LANES), a, 1) for a in at])
    for row, part in enumerate(rows):
        b.store(part, b.gep(kind, target, b.mul(width, i64(row))), 1)
    b.ret()


# ---- merging --------------------------------------------------------------------------------------------------------


def _merge_runs(b: FunctionBuilder, key: str, keys: Val) -> None:
    """The runs of a block of keys as one: by bitonic networks, first between rows, then within them."""
    rows = 2 * ROWS // LANES
    while rows <= ROWS:
        for start in range(0, ROWS, rows):
            b.call(_between(b.module, key, rows), _row(b, key, keys, start))
        b.for_loop(
            i64(0), i64(ROWS), lambda row: _order(b, key, _row(b, key, keys, row)), name="order", metadata=as_is(b)
        )
        rows *= 2


def _between(module: ModuleBuilder, key: str, count: int) -> Function:
    """The function that takes two runs, of `count` rows together, to rows that follow each other and are bitonic each:
    with the second run backwards, the two are a bitonic sequence."""

    def build(b: FunctionBuilder) -> None:
        rows = _rows(b, key, b.params[0], count)
        half = count // 2
        backwards = range(LANES - 1, -1, -1)
        rows[half:] = [b.shuffle(v, v, backwards) for v in reversed(rows[half:])]
        distance = half
        while distance:
            for i in (k for k in range(count) if not k & distance):
                _compare(b, rows, i, i + distance)
            distance //= 2
        _put(b, key, b.params[0], rows)
        b.ret()

    return module.helper(f"bl_between_{key}_{count}", "void", [Param("ptr", "keys")], build, "noinline nounwind")


def _order(b: FunctionBuilder, key: str, at: Val) -> None:
    """Sorts one row that is bitonic."""
    keys, distance = b.load(vector(key, LANES), at, 1), LANES // 2
    while distance:
        other = b.shuffle(keys, keys, [k ^ distance for k in range(LANES)])
        low, high = b.intrinsic("smin", keys, other), b.intrinsic("smax", keys, other)
        keys = b.shuffle(low, high, [k if not k & distance else LANES + k for k in range(LANES)])
        distance //= 2
    b.store(keys, at, 1)


def as_is(b: FunctionBuilder) -> str:
    """The metadata of a loop that gains nothing by being unrolled or vectorised, but would cost time to compile."""
    module = b.module
    off = ('!"llvm.loop.unroll.disable"', '!"llvm.loop.vectorize.enable", i1 false')
    return f", !llvm.loop {module.metadata(', '.join(('self', *map(module.metadata, off))), distinct=True)}"
