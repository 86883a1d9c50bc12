"""The innermost part of a product: some rows by some vectors of columns, whose sums stay in registers.

What goes in: what is known of a tile when code is made. What comes out: a function

    void (ptr a, i64 a_row, i64 a_step, ptr b, i64 b_step, i64 depth, ptr out, i64 out_row, i64 rows, i64 columns,
          i1 fresh)

that adds, to the sums at `out` (or to zero, if `fresh`), the products of `depth` columns of `a` and rows of `b`.
Steps count elements; the columns of `b` and of `out` lie side by side. Some tiles have more arguments: a `corrected`
one the address of what is added to all sums of a row; one that looks `ahead` an i64: with each step of the summation it
fetches so many lines of memory, from so many bytes behind the columns of `b` on; one that may store `past` the caches
an i1, whether it does, where vectors of `out` lie within lines.

What holds: an element of `out` is the sum of the sums of `SUM_BLOCK` products each, all in rising order, whatever the
tile it is in; the error does so grow with the length of a block, not with that of the whole. Rows beyond `rows` repeat
the last one and are not stored; columns beyond `columns` are neither read nor stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from broadloom.codegen.llvm import Function, FunctionBuilder, Param, Val, i1, i64
from broadloom.codegen.matmul.numbers import Numbers
from broadloom.codegen.memory import LINE, emit_prefetch, store_past
from broadloom.dtypes import DType
from broadloom.records import dataclass

SUM_BLOCK = 512  # products that are added up in a register before their sum is added to others


@dataclass(frozen=True, slots=True)
class Tile:
    """`rows` by `vectors`. `masked`: there may be fewer columns; `guarded`: there may be fewer rows; `long`: there may
    be more than one block of products; `continued`: there may be sums already; `corrected`: see above; `wide`:
    groups of two are widened, and their products added one by one; `ahead`: lines that are fetched at each step;
    `past`: sums may be stored past the caches."""

    a: DType
    b: DType
    rows: int
    vectors: int
    masked: bool
    guarded: bool
    long: bool
    continued: bool
    corrected: bool = False
    wide: bool = False
    ahead: int = 0
    past: bool = False

    @property
    def name(self) -> str:
        flags = "".join(
            letter
            for letter, on in zip(
                "mglcrwp",
                (self.masked, self.guarded, self.long, self.continued, self.corrected, self.wide, self.past),
                strict=True,
            )
            if on
        )
        return f"{self.a}.{self.b}.{self.rows}x{self.vectors}{flags}{self.ahead or ''}"


_PARAMS = (
    *(Param("ptr", "a", "noalias"), Param("i64", "a_row"), Param("i64", "a_step")),
    *(Param("ptr", "b", "noalias"), Param("i64", "b_step"), Param("i64", "depth")),
    *(Param("ptr", "out", "noalias"), Param("i64", "out_row"), Param("i64", "rows"), Param("i64", "columns")),
    Param("i1", "fresh"),
)


def _more(tile: Tile) -> tuple[tuple[Param, bool], ...]:
    """The arguments that only some tiles have."""
    corrections, leap, past = Param("ptr", "corrections", "noalias"), Param("i64", "leap"), Param("i1", "past")
    return (corrections, tile.corrected), (leap, tile.ahead > 0), (past, tile.past)


def tile_function(numbers: Numbers, tile: Tile) -> Function:
    """The function of a tile, made once in a module."""
    name = f"bl_tile.{numbers.name}.{tile.name}"
    # A large one is not optimised a second time where it is called.
    attributes = "noinline nounwind" if tile.long else "nounwind"
    params = (*_PARAMS, *(more for more, there in _more(tile) if there))
    return numbers.module.helper(name, "void", params, lambda b: _build(b, numbers, tile), attributes)


def _build(b: FunctionBuilder, numbers: Numbers, tile: Tile) -> None:
    a, a_row, a_step, right, b_step, depth, out, out_row, rows, columns, fresh = b.params[:11]
    more = dict(zip([p.name for p, there in _more(tile) if there], b.params[11:], strict=True))
    last = b.sub(rows, i64(1), "nsw")

    def row(k: int) -> Val:
        return b.intrinsic("smin", last, i64(k)) if tile.guarded and k else i64(k)

    starts = [numbers.at(b, tile.a, a, b.mul(row(k), a_row)) for k in range(tile.rows)]
    outs = [numbers.at(b, numbers.total, out, b.mul(i64(k), out_row)) for k in range(tile.rows)]
    masks = [numbers.mask(b, columns, v * numbers.lanes) if tile.masked else None for v in range(tile.vectors)]
    begins = [numbers.zero(numbers.vector)] * tile.rows
    if tile.corrected:
        places = [numbers.at(b, numbers.total, more["corrections"], row(k)) for k in range(tile.rows)]
        begins = [b.splat(numbers.load(b, numbers.total, at), numbers.lanes) for at in places]

    def block(first: Val, count: Val, from_zero: Val) -> None:
        leap = more.get("leap")
        sums = _sums(b, numbers, tile, starts, right, (a_step, b_step), masks, begins, first, count, leap)
        store = partial(_store, b, numbers, tile, outs, masks, rows, sums, from_zero)
        if tile.past:
            b.if_then(more["past"], partial(store, past=True), store)
        else:
            store()

    if not tile.long:
        block(i64(0), depth, fresh if tile.continued else i1(True))
    else:

        def one(first: Val) -> None:
            begins = b.icmp("eq", first, i64(0))
            block(first, b.intrinsic("smin", b.sub(depth, first), i64(SUM_BLOCK)), b.and_(begins, fresh))

        b.for_loop(i64(0), b.intrinsic("smax", depth, i64(1)), one, step=SUM_BLOCK, name="block")
    b.ret()


def _sums(
    b: FunctionBuilder,
    numbers: Numbers,
    tile: Tile,
    starts: Sequence[Val],
    right: Val,
    steps: tuple[Val, Val],
    masks: Sequence[Val | None],
    begins: Sequence[Val],
    first: Val,
    count: Val,
    leap: Val | None,
) -> list[list[Val]]:
    """The sums of `count` products from number `first` on, in registers; those of a row begin with `begins`. Lines that
    lie `leap` bytes further on are fetched meanwhile."""
    a_step, b_step = steps

    def add(_: Val, left_at: Val, right_at: Val, *sums: Val) -> list[Val]:
        left, base = b.hidden(left_at), numbers.at(b, tile.b, right, b.hidden(right_at))
        loaded = [
            numbers.load(b, tile.b, numbers.at(b, tile.b, base, v * numbers.lanes), numbers.lanes, mask)
            for v, mask in enumerate(masks)
        ]
        if leap is not None:
            for line in range(tile.ahead):
                emit_prefetch(b, b.gep("i8", base, b.add(leap, i64(line * LINE)), flags=""))
        pairs = [numbers.widened(b, x) for x in loaded] if tile.wide else []
        made: list[Val] = []
        for start in starts:
            one = b.splat(numbers.load(b, tile.a, numbers.at(b, tile.a, start, left)), numbers.lanes)
            if tile.wide:
                ones = numbers.widened(b, one)
                for pair in pairs:
                    total = sums[len(made)]
                    for x, y in zip(ones, pair, strict=True):
                        total = b.intrinsic("fma", x, y, total)
                    made.append(total)
                continue
            for x in loaded:
                made.append(numbers.multiply_add(b, one, x, sums[len(made)]))
        return [b.add(left_at, a_step, "nsw"), b.add(right_at, b_step, "nsw"), *made]

    carried = [b.mul(first, a_step), b.mul(first, b_step), *(x for x in begins for _ in range(tile.vectors))]
    done = b.for_loop(i64(0), count, add, carried, name="k", flags="nuw nsw")[2:]
    return [list(done[k * tile.vectors : (k + 1) * tile.vectors]) for k in range(tile.rows)]


def _store(
    b: FunctionBuilder,
    numbers: Numbers,
    tile: Tile,
    outs: Sequence[Val],
    masks: Sequence[Val | None],
    rows: Val,
    sums: Sequence[Sequence[Val]],
    from_zero: Val,
    past: bool = False,
) -> None:
    """Adds the sums to what is there, which is read in any case: code for both cases would be twice as long."""
    zero = numbers.zero(numbers.vector)

    def row(k: int) -> None:
        for v, (x, mask) in enumerate(zip(sums[k], masks, strict=True)):
            address = numbers.at(b, numbers.total, outs[k], v * numbers.lanes)
            if from_zero.text != "true":
                old = numbers.load(b, numbers.total, address, numbers.lanes, mask)
                x = numbers.plus(b, b.select(from_zero, zero, old), x)
            if past:
                store_past(b, x, address, numbers.lanes * numbers.total.itemsize)
            else:
                numbers.store(b, x, address, mask)

    for k in range(tile.rows):
        if tile.guarded and k:
            b.if_then(b.icmp("slt", i64(k), rows), partial(row, k))
        else:
            row(k)
