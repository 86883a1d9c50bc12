"""Lowering of dense linear algebra to LAPACK calls on copies of the operands, and of many small matrices to kernels.

LAPACK's routines work in place, so an operand is first copied into the result's buffer, column-major where the routine
asks for it; the matrices of a batch follow each other. A factorisation that fails reports the first bad matrix.
"""

from __future__ import annotations

from collections.abc import Sequence

from broadloom import dtypes
from broadloom.dtypes import DType
from broadloom.fusion.boxes import Index, Inlining, StorageBox, TensorBox, broadcast_index, contiguous
from broadloom.fusion.ir import Buffer, Extern, Layout, Region
from broadloom.fusion.lower import Lowering
from broadloom.fusion.lowerings import lanes
from broadloom.fusion.lowerings.contraction import broadcast_batch, matrix_region
from broadloom.graph.ir import Node, ValueId
from broadloom.passes.small_matrices import Choice, Either, Lanes
from broadloom.symbolic import Size, ge


def columns_first(shape: Sequence[Size]) -> Layout:
    """The layout of a batch of column-major matrices.

    >>> columns_first((5, 2, 3)).strides
    (6, 1, 2)
    """
    n = len(shape)
    return contiguous(shape, (*range(n - 2), n - 1, n - 2))


def copied(state: Lowering, x: TensorBox, shape: Sequence[Size], layout: Layout, origin: str) -> Buffer:
    """A new buffer of `layout` that holds `x` broadcast to `shape`."""
    buffer = state.buffer(x.dtype, layout)
    state.fill(
        buffer,
        layout,
        lambda ops, index: x.load(ops, broadcast_index(index, x.shape, shape)),
        (*x.storage.origins, origin),
    )
    return buffer


def delivered(state: Lowering, value: ValueId, buffer: Buffer, dtype: DType, shape: Sequence[Size]) -> TensorBox:
    """The result that lies in `buffer`; moved if the value is an output, which has a buffer of its own."""
    box = TensorBox.whole(StorageBox(dtype, tuple(shape), None, buffer))
    target = state.awaited(value)
    if target is None:
        return box
    state.copy_to(box, target)
    return TensorBox.whole(StorageBox(dtype, tuple(shape), None, target))


def region_of(buffer: Buffer) -> Region:
    return Region(buffer.name, buffer.layout)


def _call(
    state: Lowering,
    node: Node,
    routine: str,
    operands: tuple[Region, ...],
    results: tuple[Region, ...],
    choice: Choice,
    site: int = -1,
    **attrs: object,
) -> None:
    """A call, which is made by a kernel for many small matrices where the sizes that are met allow it."""
    if isinstance(choice, Either):
        attrs |= {"lanes": True, "memory": state.site("memory", node)}
    given = tuple(sorted(attrs.items()))
    state.call(node, Extern(state.fresh("x"), routine, operands, results, given, site, str(choice)))


def lower_lu_factor(state: Lowering, node: Node, ids: Sequence[ValueId], a: TensorBox) -> tuple[TensorBox, TensorBox]:
    factors, pivots = node.types
    choice = lanes.choice_of(factors.shape, (a,))
    checked = bool(node.attributes["check_singular"])
    if isinstance(choice, Lanes):
        made = lanes.lower_beside(state, node, ids, "lanes_lu", (a,), choice, raises=checked)
        return made[0], made[1]
    lu = copied(state, a, factors.shape, columns_first(factors.shape), "lu_factor")
    swaps = state.buffer(dtypes.int32, contiguous(pivots.shape))
    site = state.site("linalg", node) if checked else -1
    matrix, rows = region_of(lu), region_of(swaps)
    _call(state, node, "getrf", (matrix,), (matrix, rows), choice, site, dtype=a.dtype)
    return (
        delivered(state, ids[0], lu, factors.dtype, factors.shape),
        delivered(state, ids[1], swaps, pivots.dtype, pivots.shape),
    )


def _column_region(state: Lowering, x: TensorBox) -> Region:
    """The matrices of `x` as they lie if they are column-major, else a column-major copy."""
    if x.storage.buffer is None and x.storage.shape == x.shape:
        state.realize(x.storage)
    found = state.strided(x)
    if found is not None:
        buffer, layout = found
        steps = layout.strides
        if steps[-2] == 1 and ge(steps[-1], layout.shape[-2]) is True and all(ge(s, 0) is True for s in steps):
            return Region(buffer.name, layout)
    return region_of(copied(state, x, x.shape, columns_first(x.shape), "copy"))


def lower_lu_solve(
    state: Lowering, node: Node, ids: Sequence[ValueId], lu: TensorBox, pivots: TensorBox, b: TensorBox
) -> TensorBox:
    result = node.types[0]
    choice = lanes.choice_of(result.shape, (lu, b))
    if isinstance(choice, Lanes):
        return lanes.lower_beside(state, node, ids, "lanes_lu_solve", (lu, pivots, b), choice)[0]
    batch = result.shape[:-2]
    matrix = _column_region(state, lu)
    found = state.strided(state.realized(pivots))
    if found is None or found[1].strides[-1] != 1:
        found = state.dense(pivots)
    swaps = Region(found[0].name, _broadcast_vector(found[1], batch))
    x = copied(state, b, result.shape, columns_first(result.shape), "lu_solve")
    operands = (Region(matrix.buffer, broadcast_batch(matrix.layout, batch)), swaps)
    held = region_of(x)
    _call(state, node, "getrs", (*operands, held), (held,), choice, dtype=result.dtype, trans="N")
    return delivered(state, ids[0], x, result.dtype, result.shape)


def _broadcast_vector(layout: Layout, batch: Sequence[Size]) -> Layout:
    lead = len(layout.shape) - 1
    skipped = len(batch) - lead
    strides: list[Size] = [0] * len(batch)
    for axis in range(lead):
        if layout.shape[axis] != 1 or batch[skipped + axis] == 1:
            strides[skipped + axis] = layout.strides[axis]
    return Layout((*batch, layout.shape[-1]), (*strides, layout.strides[-1]), layout.offset)


def lower_cholesky(state: Lowering, node: Node, ids: Sequence[ValueId], a: TensorBox) -> TensorBox:
    """The factor of the lower triangle; what lies above the diagonal is cleared where it is read."""
    result = node.types[0]
    choice = lanes.choice_of(result.shape, (a,))
    if isinstance(choice, Lanes):
        return lanes.lower_beside(state, node, ids, "lanes_cholesky", (a,), choice, raises=True)[0]
    factor = copied(state, a, result.shape, contiguous(result.shape), "cholesky")
    site = state.site("linalg", node)
    matrix = region_of(factor)
    _call(state, node, "potrf", (matrix,), (matrix,), choice, site, dtype=a.dtype, lower=True)
    raw = TensorBox.whole(StorageBox(result.dtype, result.shape, None, factor))

    def inner(ops: Inlining, index: Index) -> int:
        row, column = (ops.index_value(i, dtypes.int64) for i in index[-2:])
        below = ops.compute("greater_equal", (row, column), dtypes.bool_)
        zero = ops.literal(result.dtype, bytes(result.dtype.itemsize))
        return ops.compute("where", (below, raw.load(ops, index), zero), result.dtype)

    return state.pointwise(result.dtype, result.shape, inner, (raw,), "tril", 2)


def lower_triangular_solve(
    state: Lowering, node: Node, ids: Sequence[ValueId], a: TensorBox, b: TensorBox
) -> TensorBox:
    result, attributes = node.types[0], node.attributes
    choice = lanes.choice_of(result.shape, (a, b))
    if isinstance(choice, Lanes):
        attrs = {
            "lower": attributes["lower"],
            "transpose": attributes["transpose"],
            "unit": attributes["unit_diagonal"],
        }
        return lanes.lower_beside(state, node, ids, "lanes_trsm", (a, b), choice, **attrs)[0]
    matrix = matrix_region(state, a)
    x = copied(state, b, result.shape, columns_first(result.shape), "triangular_solve")
    operand, held = Region(matrix.buffer, broadcast_batch(matrix.layout, result.shape[:-2])), region_of(x)
    trans = "T" if attributes["transpose"] else "N"
    unit = attributes["unit_diagonal"]
    _call(
        state,
        node,
        "trsm",
        (operand, held),
        (held,),
        choice,
        dtype=result.dtype,
        lower=attributes["lower"],
        trans=trans,
        unit=unit,
    )
    return delivered(state, ids[0], x, result.dtype, result.shape)
