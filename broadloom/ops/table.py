"""The op table: every op by its name.

What goes in: the families' records. What comes out: `OPS`, the one explicit table that graphs, passes, the frontend,
lowering and emission look ops up in. What holds: names are unique; a layer's own table is complete against this one.

Composed by the frontend instead of being ops, since a fixed formula gives NumPy's values: arange, linspace, full,
zeros, ones (iota, arithmetic and expand), squeeze, expand_dims, moveaxis, swapaxes (permute, reshape), divmod, modf,
trunc-free rounding to decimals (multiply, round, divide), mask assignment (where), triu and tril (where over iota),
trace (diagonal, sum), einsum (views, products, sums, matmul), pinv, lstsq, matrix_rank and the norms by singular
values (svd), ptp (max, min, subtract), average, degrees and radians (multiply).
"""

from __future__ import annotations

from broadloom.ops import (
    contraction,
    creation,
    decompositions,
    exponents,
    fft,
    indexing,
    interpolation,
    linalg,
    movement,
    packing,
    pointwise,
    random,
    reductions,
    scans,
    sorting,
    views,
)
from broadloom.ops.record import Op

FAMILIES: tuple[tuple[Op, ...], ...] = (
    pointwise.OPS,
    exponents.OPS,
    interpolation.OPS,
    reductions.OPS,
    scans.OPS,
    sorting.OPS,
    creation.OPS,
    views.OPS,
    movement.OPS,
    packing.OPS,
    indexing.OPS,
    contraction.OPS,
    linalg.OPS,
    decompositions.OPS,
    random.OPS,
    fft.OPS,
)

OPS: dict[str, Op] = {op.name: op for family in FAMILIES for op in family}
