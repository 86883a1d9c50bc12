"""How a product of matrices is computed: by which code, and why.

What goes in: dtypes, sizes as far as they are known, the machine's family. What comes out: `Loops` (a nest like any
other, with which everything around fuses), `Template` (`codegen.matmul`) or `Blas`, with the reason. Many small
products beside each other are chosen by `passes.small_matrices`, among those that would be loops.

What holds: the choice is a pure function of these facts; where BLAS is faster, the committed table says so.
"""

from __future__ import annotations

from broadloom import dtypes
from broadloom.dtypes import DType
from broadloom.fusion.ir import Layout
from broadloom.passes.small_matrices import Choice
from broadloom.records import dataclass
from broadloom.symbolic import Size, product

SMALL_PRODUCT = 32 * 32 * 32  # multiply-adds below which the loops are as fast
FEW_ROWS = 6  # rows up to which a matrix is rather read once for each than packed
ROWS_READ_APART = 3  # rows up to which it is, rather than read as it lies by tiles of all rows
TASK_COLUMNS = 256  # about as many columns are computed with one packed block of the left operand
CACHED_RIGHT = 4  # of the second cache, what a right operand takes that is read as it lies
SUMS_PER_UNIT = 6  # vectors of products that are added in a unit of cost, a nanosecond
SMALL_MATRIX = 64 * 64  # elements of a matrix below which its product with a vector is left to the loops

# Columns of a matrix that loops take out of vectors of its rows, by shuffles: a tile of so few would leave most lanes
# idle. They read the matrix once for each row of the left one, so that has few, too; and it is not computed on the way.
FEW_COLUMNS = (2, 3)
ROWS_BEFORE_FEW_COLUMNS = 8
FEW_COLUMNS_DTYPES = (dtypes.float32, dtypes.float64)

# Where BLAS is faster than the template, by dtype and class ("matrices", "row": a matrix and a vector), with the family
# of machines it was measured on, or "" for all: there the template has no code of its own.
BLAS_FASTER: dict[tuple[str, str, str], str] = {
    ("complex64", "matrices", ""): "complex numbers have no tiles",
    ("complex128", "matrices", ""): "complex numbers have no tiles",
}
SUMS = {
    **dict.fromkeys((dtypes.float16, dtypes.bfloat16, dtypes.float32), dtypes.float32),
    dtypes.float64: dtypes.float64,
    **dict.fromkeys((dtypes.int8, dtypes.int16, dtypes.uint8, dtypes.uint16, dtypes.int32), dtypes.int32),
    dtypes.uint32: dtypes.uint32,
    dtypes.int64: dtypes.int64,
    dtypes.uint64: dtypes.uint64,
}  # of which dtype the sums are: integers of fewer bits wrap around in the end


class Loops(Choice):
    """A loop nest with a reduction."""

    __slots__ = ()
    label = "loops"


class Template(Choice):
    """Tiles of registers, in blocks of the caches."""

    __slots__ = ()
    label = "tiles"


class Blas(Choice):
    """A call of the library."""

    __slots__ = ()
    label = "BLAS"


@dataclass(frozen=True, slots=True)
class Contraction:
    """x[batch, m?, n] times y[batch, n, p?]: `rows` and `columns` tell whether m and p are there."""

    rows: bool
    columns: bool

    @property
    def shape_class(self) -> str:
        """The class in the table."""
        return "matrices" if self.rows and self.columns else "row" if self.rows or self.columns else "number"


def choose(
    dtype: DType,
    kind: Contraction,
    extents: tuple[Size, Size, Size],
    *,
    deterministic: bool,
    family: str = "",
    stored: bool = False,
) -> Choice:
    """The choice for a product with the sizes m, n, p. `stored`: both operands lie in memory.

    >>> both = Contraction(True, True)
    >>> print(choose(dtypes.float32, both, (512, 512, 512), deterministic=False))
    tiles: 134217728 multiplications of float32
    >>> print(choose(dtypes.float32, both, (8, 8, 8), deterministic=False))
    loops: only 512 multiplications
    >>> print(choose(dtypes.float32, both, (1, 100000, 1), deterministic=False))
    loops: a sum of products is a reduction like any other
    >>> print(choose(dtypes.float32, both, (3, 100000, 2), deterministic=False, stored=True))
    loops: sums of few rows and columns are reductions like any other
    >>> print(choose(dtypes.complex64, both, (512, 512, 512), deterministic=False))
    BLAS: complex numbers have no tiles
    >>> print(choose(dtypes.complex64, both, (512, 512, 512), deterministic=True))
    loops: complex64 has no tiles, and BLAS is not deterministic
    """
    work, (rows, _, columns) = product(extents), extents
    kind = Contraction(kind.rows and rows != 1, kind.columns and columns != 1)  # one row or column is a vector
    if kind.shape_class == "number":
        return Loops("a sum of products is a reduction like any other")
    if stored and dtype in FEW_COLUMNS_DTYPES and _are_few(rows, columns):
        return Loops("sums of few rows and columns are reductions like any other")
    least = SMALL_PRODUCT if kind.shape_class == "matrices" else SMALL_MATRIX
    if isinstance(work, int) and work < least:
        return Loops(f"only {work} multiplications")
    for machines in (family, ""):
        found = BLAS_FASTER.get((dtype.name, kind.shape_class, machines))
        if found is not None and not deterministic:
            return Blas(found)
    if dtype not in SUMS:
        why = ", and BLAS is not deterministic" if deterministic and dtype.kind == "c" else ""
        return Loops(f"{dtype} has no tiles{why}")
    return Template(f"{work if isinstance(work, int) else 'any number of'} multiplications of {dtype}")


def _are_few(rows: Size, columns: Size) -> bool:
    if columns in FEW_COLUMNS:
        return isinstance(rows, int) and rows <= ROWS_BEFORE_FEW_COLUMNS
    return rows in FEW_COLUMNS and columns == 1


def is_turned(layout: Layout) -> bool:
    """Whether the template computes a product as its transpose, so that columns of the result lie side by side."""
    return layout.strides[-1] != 1 or (layout.shape[-1] == 1 and layout.strides[-2] == 1)
