"""Operands in groups, as instructions take them that multiply several short integers for each sum (`fusion.dots`).

What goes in: strided operands. What comes out: functions that copy a part in words of 32 bits. A word has a group: some
neighbours along the summation, of one row of the left operand or one column of the right one. What holds: words lie as
summands do in `packing`, so that tiles read them alike; neighbours beyond the end of the summation are zeros, or do not
matter since they meet zeros; what lies beside an operand in memory is not read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from broadloom.codegen.accumulators import halves
from broadloom.codegen.llvm import Function, FunctionBuilder, Param, Val, const_int, i64, lanes_of, like, vector
from broadloom.codegen.matmul.numbers import Numbers
from broadloom.codegen.memory import has_masks, masked_load
from broadloom.codegen.transpose import transposed
from broadloom.dtypes import DType
from broadloom.records import dataclass

_PARAMS = (
    *(Param("ptr", "source", "noalias"), Param("i64", "step"), Param("i64", "across"), Param("i64", "depth")),
    *(Param("i64", "count"), Param("ptr", "target", "noalias"), Param("i64", "target_step")),
    Param("i64", "panel_step"),
)


@dataclass(frozen=True, slots=True)
class Packing:
    """How groups of an operand are made. `side`: "left" or "right"; `dtype`: that of its elements in memory; `form`:
    "across" if neighbouring rows or columns lie side by side, "along" if neighbours in a group do and a row is kept in
    one piece, "turn" if they do and a group of each row or column follows the other, "any" if neither; `chunk`: how
    many rows or columns are copied at a time in "across"; `whole`: groups are known to be whole; `even`: there are
    whole vectors, along what lies side by side."""

    side: str
    dtype: DType
    form: str
    chunk: int
    whole: bool
    even: bool

    @property
    def name(self) -> str:
        flags = "".join(letter for letter, on in zip("we", (self.whole, self.even), strict=True) if on)
        return f"{self.side}.{self.dtype}.{self.form}.{self.chunk}{flags}"


def packing_function(numbers: Numbers, packing: Packing) -> Function:
    """`void (ptr source, i64 step, i64 across, i64 depth, i64 count, ptr target, i64 target_step, i64 panel_step)`:
    copies `depth` steps of the summation, which are `step` elements apart, of `count` rows or columns, `across`
    elements apart. Words go `target_step` apart from group to group, from row to row in the form "along"; panels of
    columns `panel_step`."""
    return numbers.module.helper(
        f"bl_groups.{numbers.name}.{packing.name}",
        "void",
        _PARAMS,
        lambda b: _Packer(b, numbers, packing).build(),
        "noinline nounwind",
    )


class _Packer:
    """Emits the code of one copy."""

    def __init__(self, b: FunctionBuilder, numbers: Numbers, packing: Packing) -> None:
        assert numbers.grouping is not None
        self.b, self.numbers, self.packing = b, numbers, packing
        dot = numbers.grouping.dot
        self.packed = dot.left if packing.side == "left" else dot.right
        self.group, self.lanes = dot.group, numbers.lanes
        self.flipped = packing.side == "right" and numbers.grouping.correction != 0
        self.source, self.step, self.across, self.depth, self.count, self.target, self.target_step = b.params[:7]

    def build(self) -> None:
        """The function's body."""
        b = self.b
        whole = b.udiv(self.depth, i64(self.group))
        forms = {"along": self._by_rows, "turn": self._by_squares}
        forms.get(self.packing.form, self._by_groups)(whole)
        b.ret()

    # -- words --

    def _field(self, x: Val) -> Val:
        """Elements as the instruction takes them, each at the low end of a word."""
        b, bits = self.b, self.packed.bits
        if self.packing.dtype.bits < bits:
            x = b.int_cast(x, like(x.type, f"i{bits}"), self.packing.dtype.kind == "i")
        return b.zext(x, like(x.type, "i32"))

    def _joined(self, fields: Sequence[Val]) -> Val:
        b, bits = self.b, self.packed.bits
        word = fields[0]
        for k, x in enumerate(fields[1:], 1):
            word = b.or_(word, b.shl(x, const_int(x.type, k * bits)))
        return self._flip(word)

    def _flip(self, words: Val) -> Val:
        """Words with the highest bit of each element exchanged, where the instruction takes other signs."""
        if not self.flipped:
            return words
        ones = sum(1 << (k + 1) * self.packed.bits - 1 for k in range(self.group))
        return self.b.xor(words, const_int(words.type, ones))

    def _at(self, k: Val, x: Val) -> Val:
        """The address of step `k` of row or column `x`."""
        b = self.b
        return self.numbers.at(b, self.packing.dtype, self.source, b.add(b.mul(k, self.step), b.mul(x, self.across)))

    def _words(self, k: Val, x: Val, lanes: int, mask: Val | None = None, partly: bool = False) -> Val:
        """The group that begins with step `k`, of `lanes` rows or columns side by side from `x` on; `partly`: it may go
        beyond the end."""
        b, dtype = self.b, self.packing.dtype
        type_ = vector(f"i{dtype.bits}", lanes) if lanes > 1 else f"i{dtype.bits}"
        last, fields = b.sub(self.depth, i64(1)), []
        for j in range(self.group):
            step = b.add(k, i64(j))
            address = self._at(b.intrinsic("smin", step, last) if partly else step, x)
            if mask is None:
                found = b.load(type_, address, dtype.itemsize)
            else:
                found = masked_load(b, type_, address, dtype.itemsize, mask)
            if partly:
                found = b.select(b.icmp("sle", step, last), found, const_int(type_, 0))
            fields.append(self._field(found))
        return self._joined(fields)

    def _row_words(self, k: Val, x: Val, lanes: int) -> Val:
        """So many groups of one row or column, whose neighbours lie side by side."""
        b, dtype = self.b, self.packing.dtype
        found = b.load(vector(f"i{dtype.bits}", lanes * self.group), self._at(k, x), dtype.itemsize)
        if dtype.bits < self.packed.bits:
            found = b.int_cast(found, like(found.type, f"i{self.packed.bits}"), dtype.kind == "i")
        return self._flip(b.bitcast(found, vector("i32", lanes) if lanes > 1 else "i32"))

    def _put(self, words: Val, at: Val, mask: Val | None = None) -> None:
        b = self.b
        if self.numbers.element != "i32":
            words = b.bitcast(words, like(words.type, self.numbers.element))
        self.numbers.store(b, words, self.numbers.at(b, self.numbers.total, self.target, at), mask)

    # -- forms --

    def _by_groups(self, whole: Val) -> None:
        """Group by group, of many rows or columns at a time, or of one."""
        b = self.b
        many = self.packing.chunk if self.packing.form == "across" else 1
        masks = many > 1 and has_masks(self.numbers.module.features)
        some = (
            b.and_(self.count, i64(-many))
            if many & (many - 1) == 0
            else b.mul(b.udiv(self.count, i64(many)), i64(many))
        )

        def group(number: Val, partly: bool) -> None:
            first, to = b.mul(number, i64(self.group)), b.mul(number, self.target_step)

            def put(x: Val, lanes: int, mask: Val | None) -> None:
                self._put(self._words(first, x, lanes, mask, partly), b.add(to, self._place(x)), mask)

            b.for_loop(i64(0), some, lambda x: put(x, many, None), step=many, name="some", flags="nuw nsw")
            if many == 1 or self.packing.even:
                return
            rest = self.lanes if masks else 1

            def edge(x: Val) -> None:
                put(x, rest, self.numbers.mask(b, b.sub(self.count, x)) if masks else None)

            b.for_loop(some, self.count, edge, step=rest, name="edge", flags="nuw nsw")

        b.for_loop(i64(0), whole, partial(group, partly=False), name="group", flags="nuw nsw")
        self._part(whole, partial(group, whole, partly=True))

    def _place(self, x: Val) -> Val:
        """Where a column goes, of several panels."""
        if self.packing.side == "left" or self.packing.form != "across":
            return x
        b, width = self.b, i64(self.packing.chunk)
        return b.add(b.mul(b.udiv(x, width), b.params[7]), b.urem(x, width))

    def _part(self, whole: Val, run: Callable[[], None]) -> None:
        """The group that may be there in part."""
        if not self.packing.whole:
            b = self.b
            b.if_then(b.icmp("sgt", self.depth, b.mul(whole, i64(self.group))), run)

    def _by_rows(self, whole: Val) -> None:
        """Row by row; zeros follow up to the end of a vector, so that a row can be read in vectors."""
        b = self.b
        some = b.and_(whole, i64(-self.lanes))

        def row(x: Val) -> None:
            to = b.mul(x, self.target_step)

            def put(number: Val, lanes: int) -> None:
                self._put(self._row_words(b.mul(number, i64(self.group)), x, lanes), b.add(to, number))

            zeros = const_int(vector("i32", self.lanes) if self.lanes > 1 else "i32", 0)
            b.for_loop(i64(0), some, lambda g: put(g, self.lanes), step=self.lanes, name="vector", flags="nuw nsw")
            self._put(zeros, b.add(to, whole))
            if self.packing.even:
                return
            b.for_loop(some, whole, lambda g: put(g, 1), name="word", flags="nuw nsw")
            part = b.mul(whole, i64(self.group))
            self._part(whole, lambda: self._put(self._words(part, x, 1, None, True), b.add(to, whole)))

        b.for_loop(i64(0), self.count, row, name="row", flags="nuw nsw")

    def _by_squares(self, whole: Val) -> None:
        """Squares of groups, transposed; columns beyond the last repeat that."""
        b, lanes = self.b, self.lanes
        last = b.sub(self.count, i64(1))
        some = b.and_(whole, i64(-lanes))

        def strip(first: Val) -> None:
            columns = [b.intrinsic("smin", b.add(first, i64(j)), last) for j in range(lanes)]

            def square(number: Val) -> None:
                k = b.mul(number, i64(self.group))
                found = [self._row_words(k, x, lanes) for x in columns]
                to = b.add(b.mul(number, self.target_step), first)
                for j, words in enumerate(transposed(b, found)):
                    self._put(words, b.add(to, b.mul(i64(j), self.target_step)))

            b.for_loop(i64(0), some, square, step=lanes, name="square", flags="nuw nsw")
            if self.packing.even:
                return

            def single(number: Val, partly: bool) -> None:
                k, to = b.mul(number, i64(self.group)), b.add(b.mul(number, self.target_step), first)

                def one(j: Val) -> None:
                    x = b.intrinsic("smin", b.add(first, j), last)
                    words = self._words(k, x, 1, None, True) if partly else self._row_words(k, x, 1)
                    self._put(words, b.add(to, j))

                b.for_loop(i64(0), i64(lanes), one, name="one", flags="nuw nsw")

            b.for_loop(some, whole, partial(single, partly=False), name="single", flags="nuw nsw")
            self._part(whole, partial(single, whole, partly=True))

        b.for_loop(i64(0), self.count, strip, step=lanes, name="strip", flags="nuw nsw")


# ---- corrections --------------------------------------------------------------------------------------------------

_SUMS = (
    *(Param("ptr", "source", "noalias"), Param("i64", "row_step"), Param("i64", "step"), Param("i64", "rows")),
    *(Param("i64", "groups"), Param("ptr", "target", "noalias")),
)


def corrections_function(numbers: Numbers, by_rows: bool) -> Function:
    """`void (ptr source, i64 row_step, i64 step, i64 rows, i64 groups, ptr target)`: what the sums of each row of a
    packed left operand begin with. `by_rows`: a row lies in one piece; else rows lie side by side, as many as vectors
    hold."""
    build = _sums_along if by_rows else _sums_across
    name = f"bl_groups.{numbers.name}.{'rows' if by_rows else 'columns'}.sums"
    return numbers.module.helper(name, "void", _SUMS, lambda b: build(b, numbers), "noinline nounwind")


def _ones(numbers: Numbers) -> Val:
    assert numbers.grouping is not None
    bits = numbers.grouping.dot.right.bits
    return const_int(numbers.vector, sum(1 << k for k in range(0, 32, bits)))


def _worth(b: FunctionBuilder, numbers: Numbers, sums: Val) -> Val:
    assert numbers.grouping is not None
    return b.mul(sums, const_int(sums.type, numbers.grouping.correction))


def _sums_along(b: FunctionBuilder, numbers: Numbers) -> None:
    source, row_step, _, rows, groups, target = b.params

    def row(x: Val) -> None:
        start = numbers.at(b, numbers.total, source, b.mul(x, row_step))

        def add(g: Val, total: Val) -> tuple[Val, ...]:
            words = numbers.load(b, numbers.total, numbers.at(b, numbers.total, start, g), numbers.lanes)
            return (numbers.multiply_add(b, words, _ones(numbers), total),)

        zero = numbers.zero(numbers.vector)
        (total,) = b.for_loop(i64(0), groups, add, (zero,), step=numbers.lanes, name="word", flags="nuw nsw")
        while lanes_of(total.type) > 1:
            total = b.add(*halves(b, total))
        numbers.store(b, _worth(b, numbers, total), numbers.at(b, numbers.total, target, x))

    b.for_loop(i64(0), rows, row, name="row", flags="nuw nsw")
    b.ret()


def _sums_across(b: FunctionBuilder, numbers: Numbers) -> None:
    source, _, step, rows, groups, target = b.params

    def some(x: Val) -> None:
        def add(g: Val, total: Val) -> tuple[Val, ...]:
            at = numbers.at(b, numbers.total, source, b.add(b.mul(g, step), x))
            return (numbers.multiply_add(b, numbers.load(b, numbers.total, at, numbers.lanes), _ones(numbers), total),)

        (total,) = b.for_loop(i64(0), groups, add, (numbers.zero(numbers.vector),), name="word", flags="nuw nsw")
        numbers.store(b, _worth(b, numbers, total), numbers.at(b, numbers.total, target, x))

    b.for_loop(i64(0), rows, some, step=numbers.lanes, name="some", flags="nuw nsw")
    b.ret()
