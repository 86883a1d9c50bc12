"""Rows of a transform between the caller's arrays and planar data.

What goes in: where the rows lie (`Rows`), how many elements each has, and the planes, in which `width` rows lie side by
side: element i of row l at i * width + l. What comes out: code that moves them. What holds: the width is 1 or the
lanes of a vector; an element is one number, or a pair of which the second lies `second` numbers behind the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broadloom.codegen.fft.passes import Numbers, by_vectors, interleaved
from broadloom.codegen.llvm import FunctionBuilder, Val, const_float, i64
from broadloom.codegen.transpose import transposed
from broadloom.records import dataclass


@dataclass(frozen=True, slots=True)
class Rows:
    """The address of element 0 of row 0, and strides in numbers: from element to element, from row to row, from the
    first to the second number of an element."""

    base: Val
    element: Val
    row: Val
    second: Val
    parts: int

    @property
    def dense(self) -> bool:
        """Whether the numbers of a row follow each other."""
        return self.element == i64(self.parts) and self._paired

    @property
    def abreast(self) -> bool:
        """Whether the elements of one index of all rows follow each other."""
        return self.row == i64(self.parts) and self._paired

    @property
    def _paired(self) -> bool:
        return self.parts == 1 or self.second == i64(1)

    def at(self, b: FunctionBuilder, i: Val, lane: int = 0, part: int = 0) -> Val:
        """How many numbers behind the base a number lies."""
        offset = b.mul(i, self.element)
        if lane:
            offset = b.add(offset, b.mul(i64(lane), self.row))
        return b.add(offset, self.second) if part else offset


Planes = Sequence[Val]


@dataclass(frozen=True, slots=True)
class Mover:
    """Moves rows in the function of `b`."""

    numbers: Numbers
    b: FunctionBuilder
    width: int

    # -- in --

    def load(self, rows: Rows, count: Val, planes: Planes) -> None:
        """The first `count` elements of each row; the second plane gets zeros where elements have one number."""
        b, lanes = self.b, self.numbers.lanes
        if self.width == 1:
            if rows.dense:
                by_vectors(b, count, lanes, lambda i, n: self._keep(planes, i, self._run(rows, i, n)))
            else:
                b.for_loop(i64(0), count, lambda i: self.load_one(rows, i, planes), flags="nuw nsw")
        elif rows.abreast:
            self._each(i64(0), count, lambda i: self._keep(planes, i, self._run(rows, i, lanes)))
        elif rows.row == i64(1):
            self._each(i64(0), count, lambda i: self._keep(planes, i, self._beside(rows, i)))
        elif rows.dense and lanes % rows.parts == 0:
            self._load_squares(rows, count, planes)
        else:
            self._each(i64(0), count, lambda i: self.load_one(rows, i, planes))

    def load_one(self, rows: Rows, i: Val, planes: Planes, parts: int = 2) -> None:
        """Element i of each row, number by number; only its first number if `parts` is 1."""
        b, numbers = self.b, self.numbers
        found = []
        for part in range(min(parts, rows.parts)):
            values = [numbers.load(b, rows.base, rows.at(b, i, lane, part), 1) for lane in range(self.width)]
            found.append(self._vector(values))
        self._keep(planes, i, found)

    def clear(self, start: Val, end: Val, planes: Planes) -> None:
        """Zeros from element `start` to `end`."""
        zero = self._splat(0.0)
        self._each(start, end, lambda i: self._keep(planes, i, [zero, zero]))

    def clear_second(self, planes: Planes) -> None:
        """A zero for the second number of the first element."""
        self.numbers.store(self.b, self._splat(0.0), planes[1], i64(0))

    def _run(self, rows: Rows, i: Val, lanes: int) -> list[Val]:
        """The numbers of `lanes` elements that follow each other, by part."""
        b, numbers = self.b, self.numbers
        at = rows.at(b, i)
        if rows.parts == 1:
            return [numbers.load(b, rows.base, at, lanes)]
        if lanes == 1:
            return [numbers.load(b, rows.base, b.add(at, i64(part)), 1) for part in (0, 1)]
        low, high = (numbers.load(b, rows.base, b.add(at, i64(k * lanes)), lanes) for k in (0, 1))
        return [b.shuffle(low, high, range(part, 2 * lanes, 2)) for part in (0, 1)]

    def _beside(self, rows: Rows, i: Val) -> list[Val]:
        """One element of rows that lie one number apart."""
        return [
            self.numbers.load(self.b, rows.base, rows.at(self.b, i, 0, part), self.width) for part in range(rows.parts)
        ]

    def _load_squares(self, rows: Rows, count: Val, planes: Planes) -> None:
        """As many numbers of each row as there are rows, transposed in registers."""
        b, lanes, each = self.b, self.width, self.width // rows.parts
        full = b.and_(count, i64(-each))

        def square(i: Val) -> None:
            columns = transposed(
                b, [self.numbers.load(b, rows.base, rows.at(b, i, lane), lanes) for lane in range(lanes)]
            )
            for k in range(each):
                self._keep(planes, b.add(i, i64(k)), columns[k * rows.parts : (k + 1) * rows.parts])

        b.for_loop(i64(0), full, square, step=each, flags="nuw nsw", name="square")
        self._each(full, count, lambda i: self.load_one(rows, i, planes))

    # -- out --

    def store(self, rows: Rows, count: Val, planes: Planes, scale: float) -> None:
        """The first `count` elements of each row, times `scale`; only the first plane where elements have one
        number."""
        b, lanes = self.b, self.numbers.lanes

        def take(i: Val, n: int) -> list[Val]:
            found = []
            for part in range(rows.parts):
                value = self.numbers.load(b, planes[part], b.mul(i, i64(self.width)), n)
                found.append(value if scale == 1 else b.fmul(value, self._splat(scale, n)))
            return found

        def one(i: Val) -> None:
            for part, value in enumerate(take(i, self.width)):
                for lane in range(self.width):
                    number = value if self.width == 1 else b.extract(value, lane)
                    self.numbers.store(b, number, rows.base, rows.at(b, i, lane, part))

        if self.width == 1:
            if rows.dense:
                by_vectors(b, count, lanes, lambda i, n: self._put_run(rows, i, take(i, n)))
            else:
                b.for_loop(i64(0), count, one, flags="nuw nsw")
        elif rows.abreast:
            self._each(i64(0), count, lambda i: self._put_run(rows, i, take(i, lanes)))
        elif rows.row == i64(1):
            self._each(i64(0), count, lambda i: self._put_beside(rows, i, take(i, lanes)))
        elif rows.dense and lanes % rows.parts == 0:
            each = lanes // rows.parts
            full = b.and_(count, i64(-each))

            def square(i: Val) -> None:
                columns = [v for k in range(each) for v in take(b.add(i, i64(k)), lanes)]
                for lane, row in enumerate(transposed(b, columns)):
                    self.numbers.store(b, row, rows.base, rows.at(b, i, lane))

            b.for_loop(i64(0), full, square, step=each, flags="nuw nsw", name="square")
            self._each(full, count, one)
        else:
            self._each(i64(0), count, one)

    def _put_run(self, rows: Rows, i: Val, values: Sequence[Val]) -> None:
        b, numbers, at = self.b, self.numbers, rows.at(self.b, i)
        single = values[0].type == numbers.type
        stored = values if len(values) == 1 or single else interleaved(b, [[v] for v in values])
        lanes = 1 if single else numbers.lanes
        for k, v in enumerate(stored):
            numbers.store(b, v, rows.base, b.add(at, i64(k * lanes)))

    def _put_beside(self, rows: Rows, i: Val, values: Sequence[Val]) -> None:
        for part, v in enumerate(values):
            self.numbers.store(self.b, v, rows.base, rows.at(self.b, i, 0, part))

    # -- planes --

    def _keep(self, planes: Planes, i: Val, values: Sequence[Val]) -> None:
        """Stores element i, or the elements from i on of a single row; a second part that is not given is zero."""
        at = self.b.mul(i, i64(self.width))
        self.numbers.store(self.b, values[0], planes[0], at)
        second = values[1] if len(values) > 1 else _zero_like(values[0])
        self.numbers.store(self.b, second, planes[1], at)

    def _each(self, start: Val, end: Val, body: Callable[[Val], None]) -> None:
        self.b.for_loop(start, end, body, flags="nuw nsw", name="each")

    def _vector(self, values: Sequence[Val]) -> Val:
        if self.width == 1:
            return values[0]
        result = self.b.splat(values[0], self.width)
        for lane, v in enumerate(values[1:], start=1):
            result = self.b.insert(result, v, lane)
        return result

    def _splat(self, value: float, lanes: int | None = None) -> Val:
        return self.b.splat(const_float(self.numbers.type, value), lanes or self.width)


def _zero_like(x: Val) -> Val:
    return const_float(x.type, 0.0)
