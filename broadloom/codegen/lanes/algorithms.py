"""Factorisations, solutions and products of small matrices, all lanes at once.

What goes in: grids of numbers, and their sizes. What comes out: the results in the grids, and masks of the lanes that
failed, as integers with a bit a lane. What holds: pivots are LAPACK's - the first of the largest |re| + |im| of the
column - and rows are exchanged by selection, lane by lane; no lane's failure disturbs another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broadloom.codegen.lanes.grid import Engine, Grid, Place, minus, plus
from broadloom.codegen.lanes.numbers import Field, Number
from broadloom.codegen.llvm import Val, const_int, i64
from broadloom.records import dataclass

Element = Callable[[Place, Place], Number]


@dataclass(frozen=True, slots=True)
class Algorithms:
    """Emits them, with the loops of an engine."""

    engine: Engine

    @property
    def field(self) -> Field:
        return self.engine.field

    @property
    def _none(self) -> Val:
        return const_int(f"i{self.field.lanes}", 0)

    # -- LU --

    def factor(
        self,
        a: Grid,
        n: Place,
        right: tuple[Grid, Place] | None = None,
        pivots: Callable[[Place, Val], None] | None = None,
        whole: bool = True,
    ) -> tuple[Val, Val]:
        """L and U in place of `a`, the lanes with a zero pivot and those with an odd number of interchanges. What is
        done to the rows is done to those of `right`, with so many columns, too; without `whole`, L is not put in order.
        """
        field, b, engine = self.field, self.engine.b, self.engine

        def step(k: Place, singular: Val, odd: Val) -> tuple[Val, Val]:
            after = plus(b, k, 1)
            pivot = self._search(a, k, n)
            if pivots:
                pivots(k, pivot)

            def exchange(i: Place) -> None:
                mask = b.icmp("eq", pivot, field.count(i))

                def rows() -> None:
                    self._exchange(a, mask, k, i, 0 if whole else k, n)
                    if right:
                        self._exchange(right[0], mask, k, i, 0, right[1])

                engine.where_any(mask, rows)

            engine.loop(after, n, exchange)
            value = a.get(k, k)
            zero = field.is_zero(value)
            self._eliminate(a, k, n, value, zero, right)
            moved = b.icmp("ne", pivot, field.count(k))
            return b.or_(singular, field.mask_bits(zero)), b.xor(odd, field.mask_bits(moved))

        singular, odd = engine.loop(0, n, step, (self._none, self._none))
        return singular, odd

    def _search(self, a: Grid, k: Place, n: Place) -> Val:
        field, b = self.field, self.engine.b

        def look(i: Place, best: Val, place: Val) -> tuple[Val, Val]:
            size = field.size(a.get(i, k))
            more = b.fcmp("ogt", size, best)
            return b.select(more, size, best), b.select(more, field.count(i), place)

        start = (field.size(a.get(k, k)), field.count(k))
        return self.engine.loop(plus(b, k, 1), n, look, start)[1]

    def _exchange(self, a: Grid, mask: Val, k: Place, i: Place, low: Place, high: Place) -> None:
        """Rows k and i, in the lanes of the mask."""

        def column(j: Place) -> None:
            x, y = a.get(k, j), a.get(i, j)
            a.set(k, j, self.field.select(mask, y, x))
            a.set(i, j, self.field.select(mask, x, y))

        self.engine.loop(low, high, column)

    def _eliminate(
        self, a: Grid, k: Place, n: Place, pivot: Number, zero: Val, right: tuple[Grid, Place] | None
    ) -> None:
        field, b = self.field, self.engine.b
        # Below a zero pivot there are zeros alone, which stay.
        inverse = field.inverse(field.select(zero, field.constant(1.0), pivot))
        after = plus(b, k, 1)

        def rows(places: list[Place]) -> None:
            factors = [inverse.of(a.get(i, k)) for i in places]
            for i, factor in zip(places, factors, strict=True):
                a.set(i, k, factor)
            self._subtract(a, places, factors, k, after, n)
            if right:
                self._subtract(right[0], places, factors, k, 0, right[1])

        self.engine.tiles(after, n, rows)

    def _subtract(
        self, a: Grid, places: Sequence[Place], factors: Sequence[Number], k: Place, low: Place, high: Place
    ) -> None:
        """From each row, its factor times row k."""

        def column(j: Place) -> None:
            upper = a.get(k, j)
            for i, factor in zip(places, factors, strict=True):
                a.set(i, j, self.field.sub_product(a.get(i, j), factor, upper))

        self.engine.loop(low, high, column)

    def permute(self, x: Grid, n: Place, columns: Place, pivots: Callable[[Place], Val]) -> None:
        """The interchanges of a factorisation; `pivots` gives rows, counted from 0."""
        b, field = self.engine.b, self.field

        def step(k: Place) -> None:
            pivot = pivots(k)
            engine = self.engine

            def exchange(i: Place) -> None:
                mask = b.and_(b.icmp("eq", pivot, field.count(i)), b.icmp("ne", pivot, field.count(k)))
                engine.where_any(mask, lambda: self._exchange(x, mask, k, i, 0, columns))

            engine.loop(0, n, exchange)

        self.engine.loop(0, n, step)

    # -- triangles --

    def substitute(self, element: Element, x: Grid, n: Place, columns: Place, forward: bool, unit: bool) -> None:
        """x becomes the solution for a triangular matrix."""
        field, b = self.field, self.engine.b

        def step(number: Place) -> None:
            i = number if forward else minus(b, minus(b, n, 1), number)
            low, high = (0, i) if forward else (plus(b, i, 1), n)
            inverse = None if unit else field.inverse(element(i, i))

            def together(places: list[Place]) -> None:
                def term(t: Place, *totals: Val) -> tuple[Val, ...]:
                    factor = element(i, t)
                    numbers = self._numbers(totals)
                    made = [
                        field.sub_product(total, factor, x.get(t, c)) for total, c in zip(numbers, places, strict=True)
                    ]
                    return tuple(part for number in made for part in number)

                start = tuple(part for c in places for part in x.get(i, c))
                for c, total in zip(places, self._numbers(self.engine.loop(low, high, term, start)), strict=True):
                    x.set(i, c, inverse.of(total) if inverse else total)

            self.engine.tiles(0, columns, together)

        self.engine.loop(0, n, step)

    def _numbers(self, flat: Sequence[Val]) -> list[Number]:
        parts = self.field.parts
        return [tuple(flat[k : k + parts]) for k in range(0, len(flat), parts)]

    def back(self, a: Grid, x: Grid, n: Place, columns: Place) -> None:
        """x becomes the solution for U of a factorisation."""
        self.substitute(a.get, x, n, columns, forward=False, unit=False)

    def cholesky(self, a: Grid, n: Place) -> Val:
        """The lower factor in place of the lower triangle; the lanes that are not positive definite."""
        field, b, engine = self.field, self.engine.b, self.engine

        def step(j: Place, bad: Val) -> tuple[Val]:
            def square(t: Place, total: Val) -> tuple[Val]:
                return (field.sub_square(total, a.get(j, t)),)

            (left,) = engine.loop(0, j, square, (a.get(j, j)[0],))
            wrong = b.fcmp("ole", left, field.real(0.0))  # as in OpenBLAS, nan goes through
            root = b.intrinsic("sqrt", left)
            a.set(j, j, (root, *field.constant(0.0)[1:]))
            inverse = b.fdiv(field.real(1.0), root)

            def rows(places: list[Place]) -> None:
                def term(t: Place, *totals: Val) -> tuple[Val, ...]:
                    factor = field.conj(a.get(j, t))
                    numbers = self._numbers(totals)
                    made = [
                        field.sub_product(total, a.get(i, t), factor) for total, i in zip(numbers, places, strict=True)
                    ]
                    return tuple(part for number in made for part in number)

                start = tuple(part for i in places for part in a.get(i, j))
                for i, total in zip(places, self._numbers(engine.loop(0, j, term, start)), strict=True):
                    a.set(i, j, field.scaled(total, inverse))

            engine.tiles(plus(b, j, 1), n, rows)
            return (b.or_(bad, field.mask_bits(wrong)),)

        return engine.loop(0, n, step, (self._none,))[0]

    def clear_above(self, a: Grid, n: Place) -> None:
        """Zeros above the diagonal."""
        zero = self.field.constant(0.0)

        def row(i: Place) -> None:
            self.engine.loop(plus(self.engine.b, i, 1), n, lambda j: a.set(i, j, zero))

        self.engine.loop(0, n, row)

    def identity(self, x: Grid, n: Place) -> None:
        """The identity matrix."""
        zero, one, b = self.field.constant(0.0), self.field.constant(1.0), self.engine.b

        def row(i: Place) -> None:
            def column(j: Place) -> None:
                if isinstance(i, int) and isinstance(j, int):
                    x.set(i, j, one if i == j else zero)
                else:
                    same = b.icmp("eq", *(i64(v) if isinstance(v, int) else v for v in (i, j)))
                    x.set(i, j, self.field.select(same, one, zero))

            self.engine.loop(0, n, column)

        self.engine.loop(0, n, row)

    # -- determinants --

    def diagonal_product(self, a: Grid, n: Place, odd: Val) -> tuple[Number, Val]:
        """(y, e): the determinant by its factors is y * 2**e, where y does not over- or underflow. As in NumPy, nan
        counts as positive."""
        field, b = self.field, self.engine.b

        def step(k: Place, *carried: Val) -> tuple[Val, ...]:
            *product, exponent, negative = carried
            value = a.get(k, k)
            if field.parts == 1:
                minus_ = b.fcmp("olt", value[0], field.real(0.0))
                negative = b.xor(negative, field.mask_bits(minus_))
                value = (b.intrinsic("fabs", value[0]),)
            value, power = field.split(value)
            return (*field.mul(tuple(product), value), b.fadd(exponent, power), negative)

        start = (*field.constant(1.0), field.real(0.0), odd)
        *product, exponent, negative = self.engine.loop(0, n, step, start)
        mask = b.bitcast(negative, f"<{field.lanes} x i1>")
        return field.select(mask, tuple(b.fneg(p) for p in product), tuple(product)), exponent

    # -- products --

    def product(self, x: Grid, y: Grid, result: Grid, sizes: tuple[Place, Place, Place]) -> None:
        """x (rows, depth) times y (depth, columns)."""
        field, (rows, depth, columns) = self.field, sizes

        def block(lines: list[Place], places: list[Place]) -> None:
            def term(t: Place, *totals: Val) -> tuple[Val, ...]:
                left = [x.get(i, t) for i in lines]
                right = [y.get(t, c) for c in places]
                pairs = [(p, q) for p in left for q in right]
                made = [field.add_product(n, *pair) for n, pair in zip(self._numbers(totals), pairs, strict=True)]
                return tuple(part for number in made for part in number)

            start = field.constant(0.0) * (len(lines) * len(places))
            found = iter(self._numbers(self.engine.loop(0, depth, term, start)))
            for i in lines:
                for c in places:
                    result.set(i, c, next(found))

        def row(lines: list[Place]) -> None:
            self.engine.tiles(0, columns, lambda places: block(lines, places))

        self.engine.tiles(0, rows, row, 4 // field.parts if field.registers >= 32 else 2 // field.parts)
