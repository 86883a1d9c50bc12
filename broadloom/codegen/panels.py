"""Which kernels are run in panels: products of matrices, whose sums a block of vector registers holds.

What goes in: a `Kernel`. What comes out: a `Panel`, or None. A panel is `ROWS` points of the last outer loop but one by
a vector of points of the last: for each step of the summation one vector is loaded and used in every row, and each row
has one number that all lanes use. What holds: the answer is a pure function of the kernel, the lanes too, so that each
sum adds up in the same order on every machine; whatever the body has beside such loads is pointwise.
"""

from __future__ import annotations

from broadloom.fusion.handlers import instructions_of
from broadloom.fusion.ir import (
    Accumulator,
    Body,
    Kernel,
    Load,
    Store,
)
from broadloom.fusion.vectors import is_plain, stride
from broadloom.records import dataclass
from broadloom.symbolic import Symbol, free_symbols

ROWS = 8
VECTOR_BYTES = 64
_DTYPES = ("float32", "float64", "int32", "int64", "uint32", "uint64")


@dataclass(frozen=True, slots=True)
class Panel:
    """The loop variables of rows and columns, and how many columns a vector takes."""

    row: Symbol
    column: Symbol
    lanes: int


def panel_of(kernel: Kernel) -> Panel | None:
    """The panel of a kernel that multiplies matrices, with what is fused before and after; None for others."""
    if kernel.serial or len(kernel.outer) < 2 or not kernel.accumulators:
        return None
    sizes = {a.dtype.itemsize for a in kernel.accumulators}
    if len(sizes) != 1 or not all(map(_is_sum, kernel.accumulators)):
        return None
    panel = Panel(kernel.outer[-2].variable, kernel.outer[-1].variable, VECTOR_BYTES // sizes.pop())
    looped = [bool(s.loops) for s in kernel.stages]
    if looped != sorted(looped, reverse=True) or any(s.loops and _stores(s.body) for s in kernel.stages):
        return None  # sums first: they may run again for a row, the rest may not
    extents = [loop.extent for stage in kernel.stages for loop in stage.loops]
    if any({panel.row, panel.column} & free_symbols(e) for e in extents):
        return None
    if not all(is_plain(i, panel.column) for s in kernel.stages for i in instructions_of(s.body)):
        return None
    return panel if any(s.loops and _multiplies(s.body, panel) for s in kernel.stages) else None


def _is_sum(a: Accumulator) -> bool:
    return a.kind == "sum" and a.dtype is a.value_dtype and a.dtype.name in _DTYPES


def _stores(body: Body) -> bool:
    return any(isinstance(i, Store) for i in instructions_of(body))


def _multiplies(body: Body, panel: Panel) -> bool:
    """Whether rows share what differs by column, and columns share what differs by row."""
    loads = [i.index for i in instructions_of(body) if isinstance(i, Load)]
    by_row = any(stride(e, panel.column) == 0 and panel.row in free_symbols(e) for e in loads)
    by_column = any(stride(e, panel.column) == 1 and panel.row not in free_symbols(e) for e in loads)
    return by_row and by_column
