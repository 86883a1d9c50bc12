"""`LOWERINGS`: op name to lowering. Pointwise ops share one; what is decomposed before lowering stands in `ABSENT`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broadloom.fusion.lowerings import (
    contraction,
    decompositions,
    fft,
    indexing,
    lanes,
    linalg,
    movement,
    packing,
    random,
    reductions,
    scans,
    sorting,
    views,
)
from broadloom.fusion.lowerings.in_order import in_order
from broadloom.fusion.lowerings.pointwise import lower_pointwise, lower_power
from broadloom.ops.record import Trait
from broadloom.ops.table import OPS

LOWERINGS: dict[str, Callable[..., Any]] = {
    **{name: lower_pointwise for name, op in OPS.items() if op.has(Trait.POINTWISE)},
    "pow": lower_power,
    **dict.fromkeys(reductions.FOLDS, in_order(reductions.lower_reduction)),
    **dict.fromkeys(scans.FOLDS, scans.lower_scan),
    "argmax": in_order(reductions.lower_arg_reduction("argmax")),
    "argmin": in_order(reductions.lower_arg_reduction("argmin")),
    "permute": views.lower_permute,
    "reshape": views.lower_reshape,
    "expand": views.lower_expand,
    "slice": views.lower_slice,
    "diagonal": views.lower_diagonal,
    "view_dtype": views.lower_view_dtype,
    "flip": views.lower_flip,
    "roll": movement.lower_roll,
    "pad": movement.lower_pad,
    "extend": movement.lower_extend,
    "concat": movement.lower_concat,
    "stack": movement.lower_stack,
    "repeat": movement.lower_repeat,
    "tile": movement.lower_tile,
    "slice_update": movement.lower_slice_update,
    "unpack": packing.lower_unpack,
    "pack": packing.lower_pack,
    "iota": movement.lower_iota,
    "eye": movement.lower_eye,
    "from_size": movement.lower_from_size,
    "take": indexing.lower_take,
    "take_along_axis": indexing.lower_take_along_axis,
    "gather": indexing.lower_gather,
    "scatter": indexing.lower_scatter,
    **dict.fromkeys(("matmul", "matvec", "vecmat", "vecdot"), contraction.lower_contraction),
    "outer": contraction.lower_outer,
    **dict.fromkeys(("sort", "argsort"), sorting.lower_sort),
    **dict.fromkeys(("fft", "rfft", "irfft"), fft.lower_transform),
    "searchsorted": sorting.lower_searchsorted,
    "key_word": random.lower_key_word,
    "word_key": random.lower_word_key,
    "lu_factor": linalg.lower_lu_factor,
    "lu_solve": linalg.lower_lu_solve,
    "cholesky": linalg.lower_cholesky,
    "triangular_solve": linalg.lower_triangular_solve,
    **dict.fromkeys(("solve", "inv", "det", "slogdet"), lanes.lower_whole),
    "qr": decompositions.lower_qr,
    "qr_raw": decompositions.lower_qr_raw,
    "svd": decompositions.lower_svd,
    "svdvals": decompositions.lower_svdvals,
    "eigh": decompositions.lower_eigh,
    "eigvalsh": decompositions.lower_eigvalsh,
    "eig": decompositions.lower_eig,
    "eigvals": decompositions.lower_eigvals,
}

# Why an op of the table has no lowering: all of these are decomposed by the pass `decompose`.
ABSENT: dict[str, str] = {
    "mean": "sum over count",
    "var": "two passes over the mean",
    "std": "square root of var",
    "count_nonzero": "sum of a comparison",
    "logsumexp": "shifted exponentials, summed",
}
