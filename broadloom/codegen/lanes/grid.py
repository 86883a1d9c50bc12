"""Where the numbers of a block of matrices are while it is worked on, and loops over their rows and columns.

What goes in: sizes. What comes out: a `Grid` of numbers with `get` and `set` by row and column, and an `Engine` with
loops. What holds: an algorithm is written once. Of sizes up to a few, its loops run while the code is made, and the
numbers are values of the function (`Unrolled`); of all others they are loops of the code, and the numbers lie in memory
as vectors, row by row (`Looped`), or column by column if that is how the matrices lie.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from broadloom.codegen.block_sort import as_is
from broadloom.codegen.lanes.numbers import Field, Number
from broadloom.codegen.llvm import FunctionBuilder, Val, const_int, i64, is_constant

Place = int | Val
TILE = 4  # rows or columns that are worked on together


class Held:
    """Numbers that are values of the function."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Place, Place], Number] = {}

    def get(self, row: Place, column: Place) -> Number:
        return self._numbers[row, column]

    def set(self, row: Place, column: Place, value: Number) -> None:
        self._numbers[row, column] = value


class Stored:
    """Numbers in memory from `base` on, in rows of `columns` (or columns of `rows`, if `by_columns`)."""

    def __init__(self, field: Field, base: Val, rows: Place, columns: Place, by_columns: bool) -> None:
        self.field, self.base, self.by_columns = field, base, by_columns
        self._length = rows if by_columns else columns

    def at(self, row: Place, column: Place, part: int = 0) -> Val:
        b = self.field.b
        if self.by_columns:
            row, column = column, row
        place = plus(b, times(b, row, self._length), column)
        return self.numbered(plus(b, times(b, place, self.field.parts), part))

    def numbered(self, number: Place) -> Val:
        """The address of a vector, counted from the first."""
        number = i64(number) if isinstance(number, int) else number
        return self.field.b.gep(self.field.type, self.base, number)

    def get(self, row: Place, column: Place) -> Number:
        return tuple(self.field.b.load(self.field.type, self.at(row, column, p)) for p in range(self.field.parts))

    def set(self, row: Place, column: Place, value: Number) -> None:
        for part, v in enumerate(value):
            self.field.b.store(v, self.at(row, column, part))


Grid = Held | Stored


def plus(b: FunctionBuilder, x: Place, y: Place) -> Place:
    return _arithmetic(b, "add", x, y)


def minus(b: FunctionBuilder, x: Place, y: Place) -> Place:
    return _arithmetic(b, "sub", x, y)


def times(b: FunctionBuilder, x: Place, y: Place) -> Place:
    return _arithmetic(b, "mul", x, y)


def _arithmetic(b: FunctionBuilder, opcode: str, x: Place, y: Place) -> Place:
    first, second = _known(x), _known(y)
    if first is not None and second is not None:
        return {"add": first + second, "sub": first - second, "mul": first * second}[opcode]
    if y == {"add": 0, "sub": 0, "mul": 1}[opcode]:
        return x
    if opcode != "sub" and x == {"add": 0, "mul": 1}[opcode]:
        return y
    left, right = (i64(v) if isinstance(v, int) else v for v in (x, y))
    return b.binary(opcode, left, right, "nsw")


def _known(v: Place) -> int | None:
    if isinstance(v, int):
        return v
    return int(v.text) if is_constant(v) else None


class Engine(ABC):
    """Loops, and branches that are worth it only where code is not unrolled."""

    def __init__(self, field: Field) -> None:
        self.field, self.b = field, field.b

    @abstractmethod
    def loop(
        self, low: Place, high: Place, body: Callable[..., Sequence[Val] | None], carried: Sequence[Val] = ()
    ) -> tuple[Val, ...]:
        """`body(i, *carried)` gives the carried values of the next round, for i from low up to high."""

    @abstractmethod
    def tiles(self, low: Place, high: Place, body: Callable[[list[Place]], None], size: int = TILE) -> None:
        """`body` for all places from low up to high: `size` of them together, a power of two, the last ones alone."""

    @abstractmethod
    def where_any(self, mask: Val, body: Callable[[], None]) -> None:
        """`body`, which changes nothing in lanes outside of the mask; left out if that has none."""


class Unrolled(Engine):
    """Loops that run while the code is made."""

    def loop(
        self, low: Place, high: Place, body: Callable[..., Sequence[Val] | None], carried: Sequence[Val] = ()
    ) -> tuple[Val, ...]:
        assert isinstance(low, int) and isinstance(high, int)
        for i in range(low, high):
            carried = body(i, *carried) or ()
        return tuple(carried)

    def tiles(self, low: Place, high: Place, body: Callable[[list[Place]], None], size: int = TILE) -> None:
        assert isinstance(low, int) and isinstance(high, int)
        for i in range(low, high):
            body([i])

    def where_any(self, mask: Val, body: Callable[[], None]) -> None:
        body()


class Looped(Engine):
    """Loops of the code."""

    def loop(
        self, low: Place, high: Place, body: Callable[..., Sequence[Val] | None], carried: Sequence[Val] = ()
    ) -> tuple[Val, ...]:
        start, end = (i64(v) if isinstance(v, int) else v for v in (low, high))
        return self.b.for_loop(start, end, body, carried, flags="nuw nsw", metadata=as_is(self.b))

    def tiles(self, low: Place, high: Place, body: Callable[[list[Place]], None], size: int = TILE) -> None:
        b = self.b
        start, end = (i64(v) if isinstance(v, int) else v for v in (low, high))
        count = b.sub(end, start)
        whole = b.add(start, b.and_(b.intrinsic("smax", count, i64(0)), i64(-size)))

        def together(i: Val) -> None:
            body([plus(b, i, k) for k in range(size)])

        b.for_loop(start, whole, together, step=size, flags="nuw nsw", name="tile", metadata=as_is(b))
        b.for_loop(whole, end, lambda i: body([i]), flags="nuw nsw", name="rest", metadata=as_is(b))

    def where_any(self, mask: Val, body: Callable[[], None]) -> None:
        bits = self.field.mask_bits(mask)
        self.b.if_then(self.b.icmp("ne", bits, const_int(bits.type, 0)), body)
