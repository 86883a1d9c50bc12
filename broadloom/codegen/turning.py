"""Squares of elements, turned in registers: what lies side by side along one loop then does so along another.

What goes in: vectors of elements, one from each place along the loop that they are to lie along. What comes out: as
many vectors; the k-th holds element k of each that went in. What holds: nothing but elements moves; their numbers are
powers of two.

The first exchanges stay within the 128 bits that all targets' interleaving instructions work on, the others move these
as wholes: all of them are one instruction each.
"""

from __future__ import annotations

from collections.abc import Sequence

from broadloom.codegen.llvm import FunctionBuilder, Val, element_of, lanes_of
from broadloom.codegen.outline import vector_bits
from broadloom.codegen.types import width

LANE = 128  # bits
MOST = 16  # elements along a side


def side_of(bits: int, features: frozenset[str]) -> int:
    """Elements of so many bits along the side of a square that is turned at once."""
    return min(MOST, vector_bits(features) // bits)


def turn(b: FunctionBuilder, rows: Sequence[Val]) -> list[Val]:
    """The columns of a square of elements, given its rows."""
    side = len(rows)
    within = min(side, LANE // width(element_of(rows[0].type)))
    groups = [_interleaved(b, rows[k : k + within], within) for k in range(0, side, within)]
    found = [_gathered(b, [g[k] for g in groups], within) for k in range(within)]
    return [found[k % within][k // within] for k in range(side)]


def _interleaved(b: FunctionBuilder, rows: Sequence[Val], within: int) -> list[Val]:
    """The squares of `within` elements that lie side by side in as many vectors, each turned."""
    side, found, half = lanes_of(rows[0].type), list(rows), within // 2
    low = [n for start in range(0, side, within) for k in range(half) for n in (start + k, side + start + k)]
    high = [n + half for n in low]
    for _ in range(within.bit_length() - 1):
        pairs = zip(found[:half], found[half:], strict=True)
        found = [b.shuffle(x, y, lanes) for x, y in pairs for lanes in (low, high)]
    return found


def _gathered(b: FunctionBuilder, vectors: list[Val], within: int) -> list[Val]:
    """The square whose elements are `within` numbers side by side, turned."""
    count, side = len(vectors), lanes_of(vectors[0].type)
    even = [n for n in range(2 * side) if n // within % 2 == 0]
    odd = [n + within for n in even]
    for _ in range(count.bit_length() - 1):
        pairs = list(zip(vectors[::2], vectors[1::2], strict=True))
        vectors = [b.shuffle(x, y, lanes) for lanes in (even, odd) for x, y in pairs]
    return vectors
