"""Squares of vectors, transposed in registers.

What goes in: as many vectors as each has elements, a power of two. What comes out: vector k has element k of each.
What holds: each step is an instruction of x86 without a table of places, first within 128 bits, then of whole 128 bits:
LLVM's code generator finds these at once, where it looks long for what an arbitrary exchange could be made of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broadloom.codegen.llvm import FunctionBuilder, Val, lanes_of
from broadloom.codegen.types import width
from broadloom.codegen.values import element_of

_LANE = 128  # bits

Places = Callable[[bool], list[int]]


def transposed(b: FunctionBuilder, rows: Sequence[Val]) -> list[Val]:
    """A square of vectors, transposed.

    >>> from broadloom.codegen.llvm import Param
    >>> from broadloom.codegen.module import ModuleBuilder
    >>> f = ModuleBuilder("m").function("f", "void", [Param("<2 x double>", "x"), Param("<2 x double>", "y")])
    >>> len(transposed(f, f.params)), f.instructions
    (2, 2)
    """
    count = lanes_of(rows[0].type)
    own = min(count, max(1, _LANE // width(element_of(rows[0].type))))  # elements of 128 bits
    lanes = count // own

    def alternate(second: bool) -> list[int]:
        """Of each 128 bits the first or second half, in turns with those of another vector."""
        starts = [lane * own + (own // 2 if second else 0) for lane in range(lanes)]
        return [start + k + other for start in starts for k in range(own // 2) for other in (0, count)]

    def every_second(second: bool) -> list[int]:
        """Every second 128 bits, then those of another vector."""
        starts = [other + lane * own for other in (0, count) for lane in range(int(second), lanes, 2)]
        return [start + k for start in starts for k in range(own)]

    # `groups[g][k]`: in each 128 bits, one element of each row of group g
    groups = [_alternating(b, rows[first : first + own], alternate) for first in range(0, count, own)]
    if lanes == 1:
        return groups[0]
    columns = [_separated(b, [group[k] for group in groups], every_second) for k in range(own)]
    return [columns[k % own][k // own] for k in range(count)]


def _alternating(b: FunctionBuilder, rows: Sequence[Val], places: Places) -> list[Val]:
    """One stream of the elements of all rows in turns."""
    streams = [[row] for row in rows]
    while len(streams) > 1:
        half = len(streams) // 2
        streams = [
            [b.shuffle(u, v, places(second)) for u, v in zip(x, y, strict=True) for second in (False, True)]
            for x, y in zip(streams[:half], streams[half:], strict=True)
        ]
    return streams[0]


def _separated(b: FunctionBuilder, rows: Sequence[Val], places: Places) -> list[Val]:
    """The first 128 bits of all rows, then the second, and so on."""
    if len(rows) == 1:
        return list(rows)
    pairs = list(zip(rows[::2], rows[1::2], strict=True))
    even, odd = ([b.shuffle(x, y, places(second)) for x, y in pairs] for second in (False, True))
    found = _separated(b, even, places), _separated(b, odd, places)
    return [v for pair in zip(*found, strict=True) for v in pair]
