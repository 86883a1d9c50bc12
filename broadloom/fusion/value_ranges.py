"""Value ranges: the handler that bounds the integers of a body.

What goes in: a body, run with `ValueRanges`. What comes out: for each integer value the interval that holds it
whatever the data, from dtypes, index expressions and what the ops do; floats, complex numbers and bools have none.

What holds: a bound is a proof. An op that could wrap around at its dtype's width gives the dtype's own range.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broadloom.dtypes import DType
from broadloom.fusion.handlers import Handler
from broadloom.symbolic import Range, Size, Symbol, ge, lt, range_of

Bounds = tuple[int, int]


def dtype_bounds(dtype: DType) -> Bounds | None:
    """The least and the largest value of an integer dtype, None for others.

    >>> from broadloom.dtypes import float32, uint8
    >>> dtype_bounds(uint8), dtype_bounds(float32)
    ((0, 255), None)
    """
    if dtype.kind == "u":
        return 0, 2**dtype.bits - 1
    if dtype.kind == "i":
        return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1
    return None


class ValueRanges:
    """The handler; a value is its `Bounds`, or None where nothing is known of it."""

    def load(self, buffer: str, index: Size, dtype: DType) -> Bounds | None:
        return dtype_bounds(dtype)

    def store(self, buffer: str, index: Size, value: Any, mode: str = "set") -> None:
        return None

    def literal(self, dtype: DType, data: bytes) -> Bounds | None:
        if not dtype.is_integer:
            return None
        value = int.from_bytes(data, "little", signed=dtype.kind == "i")
        return value, value

    def index_value(self, index: Size, dtype: DType) -> Bounds | None:
        return _within(range_of(index), dtype)

    def compute(
        self, op: str, args: tuple[Any, ...], dtype: DType, attrs: tuple[tuple[str, object], ...] = ()
    ) -> Bounds | None:
        rule = RULES.get(op)
        whole = dtype_bounds(dtype)
        if rule is None or whole is None or any(a is None for a in args[1 if op == "where" else 0 :]):
            return whole
        low, high = rule(*args)
        return (low, high) if whole[0] <= low and high <= whole[1] else whole

    def indirect(self, value: Any, size: Size, site: int, key: Size = 0) -> Symbol:
        return Symbol("t", 0, size - 1)

    def reduce(self, name: str, value: Any, position: Any | None = None) -> None:
        return None

    def running(self, name: str, value: Any, dtype: DType) -> Bounds | None:
        return dtype_bounds(dtype)

    def accumulated(self, name: str, dtype: DType) -> Bounds | None:
        return dtype_bounds(dtype)

    def masked(self, mask: Any, inner: Callable[[Handler], Any], other: Any, dtype: DType) -> Bounds | None:
        value = inner(self)
        return _hull(value, other) if value is not None and other is not None else dtype_bounds(dtype)

    def lookup(self, table: str, value: Any, dtype: DType) -> Bounds | None:
        return dtype_bounds(dtype)


def _within(found: Range, dtype: DType) -> Bounds | None:
    whole = dtype_bounds(dtype)
    if whole is None:
        return None
    low = whole[0] if found.lo is None else found.lo
    high = whole[1] if found.hi is None else found.hi
    return (low, high) if whole[0] <= low and high <= whole[1] else whole


def _hull(a: Bounds, b: Bounds) -> Bounds:
    return min(a[0], b[0]), max(a[1], b[1])


def _corners(op: Callable[[int, int], int]) -> Callable[[Bounds, Bounds], Bounds]:
    def rule(a: Bounds, b: Bounds) -> Bounds:
        values = [op(x, y) for x in a for y in b]
        return min(values), max(values)

    return rule


def _remainder(a: Bounds, b: Bounds) -> Bounds:
    """Python's remainder by a positive divisor; NumPy gives 0 for a zero one."""
    if b[0] < 0:
        return min(a[0], b[0]), max(a[1], b[1], -b[0])
    return (0, max(0, b[1] - 1)) if not 0 <= a[0] <= a[1] < b[0] else a


def _floor_divide(a: Bounds, b: Bounds) -> Bounds:
    if b[0] <= 0:
        reach = max(abs(a[0]), abs(a[1]))
        return -reach, reach
    values = [x // y for x in a for y in b]
    return min(values), max(values)


# Exact rules, in unbounded integers; `compute` falls back on the dtype where the result could wrap around.
RULES: dict[str, Callable[..., Bounds]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "subtract": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "multiply": _corners(lambda x, y: x * y),
    "negative": lambda a: (-a[1], -a[0]),
    "abs": lambda a: (0 if a[0] <= 0 <= a[1] else min(map(abs, a)), max(map(abs, a))),
    "maximum": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "minimum": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "clip": lambda x, low, high: (
        min(max(x[0], low[0]), high[0]),
        min(max(x[1], low[1]), high[1]),
    ),
    "remainder": _remainder,
    "floor_divide": _floor_divide,
    "where": lambda condition, a, b: _hull(a, b),
    "cast": lambda a: a,
    "positive": lambda a: a,
    "bitwise_and": lambda a, b: (
        (0, min(x[1] for x in (a, b) if x[0] >= 0))
        if a[0] >= 0 or b[0] >= 0
        else (min(a[0], b[0]) * 2, max(a[1], b[1]))
    ),
}


def is_index(bounds: Bounds | None, size: Size) -> bool:
    """Whether every value within `bounds` is a valid index, not negative, of an axis of `size`.

    >>> is_index((0, 255), 256), is_index((-1, 255), 256), is_index((0, 256), 256)
    (True, False, False)
    """
    return bounds is not None and ge(bounds[0], 0) is True and lt(bounds[1], size) is True
