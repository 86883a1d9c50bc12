"""How a product is cut: tiles of registers, blocks of the caches, and whether operands are packed.

What goes in: sizes, as far as they are known, strides, and facts of the machine. What comes out: numbers, by pure
functions of what goes in. What holds: no choice here changes a bit of the result.
"""

from __future__ import annotations

from broadloom.fusion.ir import Layout
from broadloom.fusion.products import CACHED_RIGHT
from broadloom.platform import Caches
from broadloom.records import dataclass
from broadloom.symbolic import Size, product

TILE_OVERHEAD = 24.0  # cycles of a tile beside its multiplications
FEW_TILES = 32  # tiles of rows up to which the last gets code of its own
DEAR_EDGE = 0.06  # where LLVM takes longer than many calls
SMALL = 256**3  # multiplications up to which LLVM takes longer than a thousand calls
SMALL_EDGE = 0.018  # share of these that an edge's code is worth: tiles that leave none take as long, or 1 % more
TASK_ROWS = 64
CACHED_SHARE = 4  # of the last cache, what one packed operand may take


@dataclass(frozen=True, slots=True)
class Shape:
    """Rows and vectors of a tile, and of those at the lower and right edge: 0 if there are none, -1 if that is not
    known, or not worth code of its own."""

    rows: int
    vectors: int
    last_rows: int
    last_vectors: int


@dataclass(frozen=True, slots=True)
class Machine:
    """Elements of a sum in a vector register, registers, caches; and what code of its own for an edge is worth, as a
    share of the time."""

    lanes: int
    registers: int
    caches: Caches
    edge: float = 0.005


def tile_shape(machine: Machine, m: Size, n: Size, k: Size) -> Shape:
    """The tiles of an m by n product.

    >>> zen = Machine(16, 32, Caches())
    >>> tile_shape(zen, 1024, 1024, 1024)
    Shape(rows=9, vectors=2, last_rows=-1, last_vectors=0)
    >>> tile_shape(zen, 64, 100, 64)
    Shape(rows=8, vectors=3, last_rows=0, last_vectors=1)
    >>> tile_shape(zen, 32, 128, 64)
    Shape(rows=8, vectors=2, last_rows=0, last_vectors=0)
    >>> tile_shape(Machine(8, 16, Caches()), 1024, 1024, 1024)
    Shape(rows=6, vectors=2, last_rows=-1, last_vectors=0)
    """
    best: tuple[float, Shape] | None = None
    count = product((m, n, k))
    edge = max(machine.edge, SMALL_EDGE) if isinstance(count, int) and count <= SMALL else machine.edge
    for vectors in (3, 2, 4, 1):
        most = min(9, (machine.registers - vectors - 2) // vectors)
        for rows in range(most, 0, -1) if isinstance(m, int) else (min(most, 8),):
            shape = _edges(machine, rows, vectors, m, n)
            edges = (shape.last_rows > 0) + (shape.last_vectors > 0)
            if machine.edge >= DEAR_EDGE and isinstance(m, int):
                edges += shape.last_rows < 0
            cost = _cost(machine, shape, m, n, k) * (1 + edge * edges)
            if best is None or cost < 0.995 * best[0]:
                best = cost, shape
    assert best is not None
    return best[1]


def _edges(machine: Machine, rows: int, vectors: int, m: Size, n: Size) -> Shape:
    last_rows = last_vectors = -1
    if isinstance(m, int) and (m % rows == 0 or m < FEW_TILES * rows):
        last_rows = m % rows
    if isinstance(n, int):
        last_vectors = -(-(n % (vectors * machine.lanes)) // machine.lanes)
    return Shape(rows, vectors, last_rows, last_vectors)


def _cost(machine: Machine, shape: Shape, m: Size, n: Size, k: Size) -> float:
    """Cycles for each step of the summation, in all tiles."""
    width = shape.vectors * machine.lanes
    height, length = (x if isinstance(x, int) else 1000 for x in (m, n))
    depth = max(k, 1) if isinstance(k, int) else 1000

    def cycles(rows: int, vectors: int) -> float:
        # Two multiplications and two loads a cycle; a sum waits four cycles for its last summand.
        return max(rows * vectors / 2, (rows + vectors) / 2, 4.0) + TILE_OVERHEAD / depth

    across, edge = divmod(length, width)
    down, rest = divmod(height, shape.rows)
    total = 0.0
    for rows, count in ((shape.rows, down), (rest if shape.last_rows > 0 else shape.rows, 1 if rest else 0)):
        full = cycles(rows, shape.vectors) * across
        last = cycles(rows, shape.last_vectors if shape.last_vectors > 0 else shape.vectors) if edge else 0.0
        total += count * (full + last)
    return total


def packs(machine: Machine, itemsize: int, layout: Layout, other: Size, tile: int) -> bool:
    """Whether an operand is copied, panel by panel, into memory that a tile reads in one piece; `layout` has the step
    of the summation first, `other` is how many rows (or columns) share the copy, `tile` how many of them a tile has.
    It is not where few share it, and not where it stays in the cache as it lies.

    >>> zen = Machine(16, 32, Caches())
    >>> packs(zen, 4, Layout((64, 64), (64, 1)), 64, 8)
    False
    >>> packs(zen, 4, Layout((1024, 1024), (1024, 1)), 1024, 8)
    True
    """
    depth, across = layout.shape[-2:]
    if layout.strides[-1] != 1:
        return True
    if isinstance(other, int) and other < 4 * tile:
        return False
    size = product((depth, across)) * itemsize
    return not (isinstance(size, int) and size <= machine.caches.second // CACHED_RIGHT)
