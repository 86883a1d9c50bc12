"""Lowering of matrix products: loops for small ones, many small matrices side by side, tiles for the rest, BLAS where
it is faster (`fusion.products`).

The choice is a pure function of dtype, shape and whether operands lie in memory; the loops are a reduction like any
other, so their prologues fuse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broadloom import dtypes
from broadloom.dtypes import DType
from broadloom.fusion.boxes import Index, Inlining, StorageBox, TensorBox, broadcast_index, contiguous
from broadloom.fusion.dots import told
from broadloom.fusion.ir import Buffer, Compute, Extern, Layout, ReductionKind, Region
from broadloom.fusion.lower import Lowering, loop_nest
from broadloom.fusion.lowerings import lanes
from broadloom.fusion.lowerings.reductions import lower_fold
from broadloom.fusion.lowerings.sorting import strided_region
from broadloom.fusion.products import SUMS, Blas, Contraction, Template, is_turned
from broadloom.fusion.products import choose as choose_code
from broadloom.graph.ir import Node, TensorType, ValueId
from broadloom.ops.record import Op
from broadloom.passes.small_matrices import Choice, Either, Lanes, Library, choose
from broadloom.symbolic import Size, ge, product

SHORT = 8  # sides of matrices whose products are computed side by side in any case
SIDE_BY_SIDE = (dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128)

KINDS = {
    "vecdot": Contraction(False, False),
    "matvec": Contraction(True, False),
    "vecmat": Contraction(False, True),
}


def lower_contraction(state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox, y: TensorBox) -> TensorBox:
    """matmul, matvec, vecmat and vecdot."""
    op = node.op
    assert isinstance(op, Op)
    kind = KINDS.get(op.name) or Contraction(len(x.shape) > 1, len(y.shape) > 1)
    conjugated = op.name in ("vecdot", "vecmat") and x.dtype.kind == "c"
    stored = all(state.strided(t) is not None for t in (x, y))
    family = state.family
    how = choose_code(
        x.dtype, kind, _extents(kind, x, y), deterministic=state.deterministic, family=family, stored=stored
    )
    if isinstance(how, Blas):
        return _gemm(state, node, ids, x, y, how)
    if isinstance(how, Template) and not _is_made_on_the_way(state, kind, x, y):
        return _tiles(state, node, ids, x, y, kind, how)
    choice = _beside(state, node, kind, x, y)
    if isinstance(choice, Lanes):
        return lanes.lower_beside(state, node, ids, "lanes_matmul", (x, y), choice)[0]
    return _loops(state, node, ids, x, y, kind, conjugated)


def _extents(kind: Contraction, x: TensorBox, y: TensorBox) -> tuple[Size, Size, Size]:
    return (x.shape[-2] if kind.rows else 1, x.shape[-1], y.shape[-1] if kind.columns else 1)


def _is_made_on_the_way(state: Lowering, kind: Contraction, x: TensorBox, y: TensorBox) -> bool:
    """Whether the matrix that is multiplied by a vector is computed where it is read: to store it first would cost more
    than the product."""
    if kind.rows == kind.columns:
        return False
    matrix = x if kind.rows else y
    return matrix.storage.buffer is None and _converted(state, matrix, SUMS[matrix.dtype]) is None


def _beside(state: Lowering, node: Node, kind: Contraction, x: TensorBox, y: TensorBox) -> Choice:
    """Whether many small products are computed side by side. Facts of the right operand decide as well: it may be one
    matrix for all, or lie by columns."""
    if x.dtype not in SIDE_BY_SIDE or not (kind.rows and kind.columns):
        return Library("vectors")
    shape = node.types[0].shape
    shared = product(y.shape[:-2]) == 1
    found = state.strided(y)
    by_rows = found is None or found[1].strides[-1] == 1
    return choose_product(x.dtype, product(shape[:-2]), _extents(kind, x, y), shared=shared, by_rows=by_rows)


def choose_product(
    dtype: DType, count: Size, extents: tuple[Size, Size, Size], *, shared: bool, by_rows: bool
) -> Choice:
    """Whether `count` products (m, n) @ (n, p) are computed side by side, or by loops of their own. `shared`: there is
    one right matrix; `by_rows`: its rows lie in one piece. Loops are as fast, and fuse with what is around them, where
    rows of the right matrix fill vectors.

    >>> print(choose_product(dtypes.float64, 100, (4, 4, 4), shared=False, by_rows=True))
    side by side: 100 matrices with sides up to 4
    >>> print(choose_product(dtypes.float64, 100, (16, 16, 16), shared=False, by_rows=True))
    one by one: rows of the right matrix fill vectors
    """
    choice = choose(count, extents)
    if isinstance(choice, Either):
        return Library("sizes are not known")
    if isinstance(choice, Library) or dtype.kind == "c":
        return choice
    rows, depth, columns = (int(n) for n in extents if isinstance(n, int))
    if shared:
        return Library("one right matrix for all")
    if columns == 1 and max(rows, depth) > SHORT:
        return Library("matrices times vectors")
    if max(rows, depth, columns) > SHORT and by_rows and columns % SHORT == 0:
        return Library("rows of the right matrix fill vectors")
    return choice


# ---- our loops --------------------------------------------------------------------------------------------------


def _loops(
    state: Lowering,
    node: Node,
    ids: Sequence[ValueId],
    x: TensorBox,
    y: TensorBox,
    kind: Contraction,
    conjugated: bool,
) -> TensorBox:
    """A sum of products is a reduction like any other."""
    result = node.types[0]
    lead = len(result.shape) - kind.rows - kind.columns
    batch_shape, x_batch, y_batch = result.shape[:lead], x.shape[: -1 - kind.rows], y.shape[: -1 - kind.columns]
    fold = dtypes.float32 if result.dtype in (dtypes.float16, dtypes.bfloat16) else result.dtype
    reduction: ReductionKind = "any" if fold is dtypes.bool_ else "sum"
    times = "logical_and" if fold is dtypes.bool_ else "multiply"

    def factors(ops: Inlining, index: Index) -> int:
        batch, place, k = index[:lead], index[lead:-1], index[-1]
        x_index = (*broadcast_index(batch, x_batch, batch_shape), *place[: kind.rows], k)
        y_index = (*broadcast_index(batch, y_batch, batch_shape), k, *place[kind.rows :])
        left, right = _as(ops, x.load(ops, x_index), x.dtype, fold), _as(ops, y.load(ops, y_index), y.dtype, fold)
        if conjugated:
            left = ops.compute("conj", (left,), fold)
        return ops.compute(times, (left, right), fold)

    products = TensorBox(fold, (*result.shape, x.shape[-1]), factors, x.storage)
    axes = list(range(len(products.shape)))
    return lower_fold(state, node, ids, products, fold, reduction, axes[:-1], axes[-1:])


def _as(ops: Inlining, value: int, old: DType, new: DType) -> int:
    return value if old is new else ops.compute("cast", (value,), new, (("dtype", new),))


# ---- tiles ------------------------------------------------------------------------------------------------------


def _tiles(
    state: Lowering,
    node: Node,
    ids: Sequence[ValueId],
    x: TensorBox,
    y: TensorBox,
    kind: Contraction,
    how: Template,
) -> TensorBox:
    """The step of `codegen.matmul`. A vector is a matrix of one row or column."""
    result = node.types[0]
    total = SUMS[result.dtype]
    for t in (x, y):
        _keep_narrow(state, t, total)
    left, right = (_converted(state, t, total) or strided_region(state, t) for t in (x, y))

    def run(made: Buffer) -> None:
        target = Region(made.name, _with_ones(made.layout, not kind.rows, not kind.columns))
        batch = target.layout.shape[:-2]
        given = (_with_ones(left.layout, not kind.rows, False), _with_ones(right.layout, False, not kind.columns))
        operands = tuple(Region(r.buffer, broadcast_batch(y, batch)) for r, y in zip((left, right), given, strict=True))
        attrs = (("memory", state.site("memory", node)), ("total", total.name))
        first, second = (state.buffers[r.buffer].dtype for r in operands)
        m, n = target.layout.shape[-2:]
        k = operands[0].layout.shape[-1]
        sides = (n, m, k) if is_turned(target.layout) else (m, n, k)
        reason = f"{how}{told(state.dots, first, second, total, sides)}"
        state.operations.append(Extern(state.fresh("x"), "matmul", operands, (target,), attrs, reason=reason))

    return _stored(state, ids[0], result, lambda layout: _is_dense(layout, kind), run)


def _stored(
    state: Lowering, value: ValueId, type_: TensorType, fits: Callable[[Layout], bool], run: Callable[[Buffer], None]
) -> TensorBox:
    """The value that `run` stores in its place; or, where that does not lie as it has to, in a buffer that is copied
    there."""
    buffer = state.destination(value, type_.dtype, type_.shape)
    made = buffer if fits(buffer.layout) else state.buffer(type_.dtype, contiguous(type_.shape))
    run(made)
    if made is not buffer:
        state.copy_to(TensorBox.whole(StorageBox(type_.dtype, type_.shape, None, made)), buffer)
    return TensorBox.whole(StorageBox(type_.dtype, type_.shape, None, buffer))


def _converted(state: Lowering, x: TensorBox, total: DType) -> Region | None:
    """The memory of a tensor that is a conversion, to the dtype of the sums, of numbers in memory."""
    found = state.strided(x, cast_to=total)
    if found is None or not found[0].aligned or found[0].dtype.kind not in "iuf":
        return None
    return Region(found[0].name, found[1])


def _keep_narrow(state: Lowering, x: TensorBox, total: DType) -> None:
    """Where a tensor is a conversion, to the dtype of the sums, of short integers that are computed, these get a buffer
    and not what they become: it is smaller, and they can be multiplied in groups."""
    converted = x.storage
    if converted.buffer is not None or converted.dtype is not total or len(converted.operands) != 1:
        return
    (short,) = converted.operands
    if short.buffer is not None or short.dtype.kind not in "iu" or short.dtype.bits >= total.bits:
        return
    _, index = loop_nest(converted.shape, "v")
    ops = Inlining()
    converted.load(ops, index)
    *_, last = ops.instructions
    if last == Compute("cast", (len(ops.instructions) - 2,), total, (("dtype", total),)):
        state.realize(short)


def _with_ones(layout: Layout, row: bool, column: bool) -> Layout:
    """The layout of a vector as that of a matrix of one row, or of one column."""
    shape, strides = list(layout.shape), list(layout.strides)
    if row:
        shape.insert(-1, 1)
        strides.insert(-1, 1)
    if column:
        shape.append(1)
        strides.append(1)
    return Layout(tuple(shape), tuple(strides), layout.offset)


def _is_dense(layout: Layout, kind: Contraction) -> bool:
    """Whether rows or columns of a result lie in one piece."""
    axes = layout.strides[-2:] if kind.rows and kind.columns else layout.strides[-1:]
    return 1 in axes


# ---- BLAS -------------------------------------------------------------------------------------------------------


def _gemm(state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox, y: TensorBox, how: Blas) -> TensorBox:
    result = node.types[0]
    left, right = matrix_region(state, x), matrix_region(state, y)
    operands = tuple(Region(r.buffer, broadcast_batch(r.layout, result.shape[:-2])) for r in (left, right))

    def run(made: Buffer) -> None:
        target, attrs = Region(made.name, made.layout), (("dtype", result.dtype),)
        state.call(node, Extern(state.fresh("x"), "gemm", operands, (target,), attrs, reason=str(how)))

    return _stored(state, ids[0], result, _is_matrix, run)


def matrix_region(state: Lowering, x: TensorBox) -> Region:
    """The tensor as BLAS can take it, copied if its last two axes do not lie so."""
    if x.storage.buffer is None and x.storage.shape == x.shape:
        state.realize(x.storage)
    found = state.strided(x)
    if found is not None and _is_matrix(found[1]) and found[0].dtype is x.dtype:
        return Region(found[0].name, found[1])
    buffer, layout = state.dense(x)
    return Region(buffer.name, layout)


def _is_matrix(layout: Layout) -> bool:
    """One of the last two axes is dense and the other strides over at least its whole length."""
    (rows, columns), (row_step, column_step) = layout.shape[-2:], layout.strides[-2:]
    if any(not (isinstance(s, int) and s >= 0) and ge(s, 0) is not True for s in layout.strides):
        return False
    return (column_step == 1 and ge(row_step, columns) is True) or (row_step == 1 and ge(column_step, rows) is True)


def broadcast_batch(layout: Layout, batch: Sequence[Size]) -> Layout:
    lead = len(layout.shape) - 2
    skipped = len(batch) - lead
    strides: list[Size] = [0] * len(batch)
    for axis in range(lead):
        if layout.shape[axis] != 1 or batch[skipped + axis] == 1:
            strides[skipped + axis] = layout.strides[axis]
    return Layout((*batch, *layout.shape[-2:]), (*strides, *layout.strides[-2:]), layout.offset)


def lower_outer(state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox, y: TensorBox) -> TensorBox:
    result = node.types[0]
    batch = result.shape[:-2]

    def inner(ops: Inlining, index: Index) -> int:
        left = x.load(ops, (*broadcast_index(index[:-2], x.shape[:-1], batch), index[-2]))
        right = y.load(ops, (*broadcast_index(index[:-2], y.shape[:-1], batch), index[-1]))
        return ops.compute("multiply", (left, right), result.dtype)

    return state.pointwise(result.dtype, result.shape, inner, (x, y), "outer", 1)
