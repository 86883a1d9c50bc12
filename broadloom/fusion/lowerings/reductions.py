"""Lowering of reductions.

A reduction is a fold stage over the reduced axes and a stage that stores the result. A long reduction to few results
is split into chunks of fixed length - two kernels, the chunks in parallel - so that the split, and with it the
rounding, never depends on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broadloom import dtypes
from broadloom.dtypes import DType
from broadloom.fusion.bands import FEWEST_COLUMNS as BANDS_FROM
from broadloom.fusion.bands import is_of_parts
from broadloom.fusion.boxes import Index, Inlining, StorageBox, TensorBox, contiguous, flat_index
from broadloom.fusion.handlers import accesses, instructions_of
from broadloom.fusion.ir import Accumulator, Body, Buffer, Indirect, Layout, Load, Loop, ReductionKind
from broadloom.fusion.loops import by_step
from broadloom.fusion.lower import Lowering, loop_nest
from broadloom.fusion.vectors import stride
from broadloom.graph.ir import Node, ValueId
from broadloom.ops.record import Op
from broadloom.symbolic import Size, Symbol, floordiv, mod, product, smax, smin, total

CHUNK = 8192  # elements folded by one point of a split reduction: they lie in the nearest cache for a second look
LONG = 4 * CHUNK  # elements from which on a reduction to few results is split
FEW_RESULTS = 16  # outer points that keep the threads busy without a split
FEW_COLUMNS = 256  # the same, where neighbouring points are folded side by side
FEWEST_COLUMNS = 4  # that are folded side by side
ABREAST = 256  # bytes of rows of few columns that are folded side by side, as if they were one


FOLDS: dict[str, ReductionKind] = {
    "sum": "sum",
    "prod": "prod",
    "max": "max",
    "min": "min",
    "any": "any",
    "all": "all",
}
# NumPy adds float16 in float32 and rounds once at the end.
WIDER: dict[tuple[str, DType], DType] = {
    ("sum", dtypes.float16): dtypes.float32,
    ("sum", dtypes.bfloat16): dtypes.float32,
}


def _split_axes(ndim: int, axes: Sequence[int]) -> tuple[list[int], list[int]]:
    reduced = sorted(a + ndim for a in axes)
    return [a for a in range(ndim) if a not in reduced], reduced


def _loops(shape: Sequence[Size], axes: Sequence[int], prefix: str) -> tuple[tuple[Loop, ...], dict[int, Size]]:
    loops, index = loop_nest([shape[a] for a in axes], prefix)
    return loops, dict(zip(axes, index, strict=True))


def lower_reduction(state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox) -> TensorBox:
    """sum, prod, max, min, any, all over `axes`."""
    op = node.op
    assert isinstance(op, Op)
    kept, reduced = _split_axes(len(x.shape), node.attributes["axes"])
    kind = FOLDS[op.name]
    if kind in ("any", "all") and x.dtype is not dtypes.bool_:
        raw = x
        x = TensorBox(
            dtypes.bool_,
            raw.shape,
            lambda ops, i: ops.compute("cast", (raw.load(ops, i),), dtypes.bool_, (("dtype", dtypes.bool_),)),
            raw.storage,
        )
    fold = WIDER.get((kind, x.dtype), x.dtype)
    if all(x.shape[a] == 1 for a in reduced):
        return _of_one(state, node, x, kept, fold)
    return lower_fold(state, node, ids, x, fold, kind, kept, reduced)


def lower_fold(
    state: Lowering,
    node: Node,
    ids: Sequence[ValueId],
    x: TensorBox,
    fold: DType,
    kind: ReductionKind,
    kept: list[int],
    reduced: list[int],
) -> TensorBox:
    """The result of `node`: `x` folded in dtype `fold` over the `reduced` axes, for each point of the `kept` ones."""
    op, result = node.op, node.types[0]
    assert isinstance(op, Op)
    rank, kept_axes = len(x.shape), kept
    in_columns = _is_long(x.shape, kept, reduced, FEW_COLUMNS) and _in_columns(state, x, kept)
    in_columns = in_columns and not _is_for_bands(state, x, fold, kind, kept, reduced)
    if in_columns or _is_long(x.shape, kept, reduced):
        rows = _abreast(state, x, fold, kept, reduced) if in_columns else 1
        x, kept, reduced = _chunked(state, node, x, fold, kind, reduced, in_columns=in_columns, rows=rows)
    buffer = state.destination(ids[0], result.dtype, result.shape)
    outer, outer_index = _loops(x.shape, kept, "i")
    inner, inner_index = _loops(x.shape, reduced, "r")
    index = outer_index | inner_index
    place = _result_index(node, rank, dict(zip(kept_axes, outer_index.values(), strict=True)))
    accumulator = Accumulator(state.fresh("acc"), kind, fold, fold)

    def body(ops: Inlining) -> None:
        value = x.load(ops, tuple(index[a] for a in range(len(x.shape))))
        ops.reduce(accumulator.name, _cast(ops, value, x.dtype, fold))

    def store(ops: Inlining) -> None:
        total = _cast(ops, ops.accumulated(accumulator.name, fold), fold, result.dtype)
        ops.store(buffer.name, flat_index(buffer.layout, place), total)

    state.reduction(accumulator, outer, inner, body, store, op.name)
    return TensorBox.whole(StorageBox(result.dtype, result.shape, None, buffer))


def _of_one(state: Lowering, node: Node, x: TensorBox, kept: Sequence[int], fold: DType) -> TensorBox:
    """A reduction of single elements: themselves, in the result's dtype."""
    op, result = node.op, node.types[0]
    assert isinstance(op, Op)
    places = kept if not node.attributes.get("keepdims") else range(len(x.shape))

    def load(ops: Inlining, index: Index) -> int:
        given = dict(zip(places, index, strict=True))
        value = x.load(ops, tuple(given[a] if a in kept else 0 for a in range(len(x.shape))))
        return _cast(ops, _cast(ops, value, x.dtype, fold), fold, result.dtype)

    return state.pointwise(result.dtype, result.shape, load, (x,), op.name, 1)


def _result_index(node: Node, rank: int, kept: dict[int, Size]) -> Index:
    """Where an outer point stores its result: `kept` maps the kept axes to their indices; under `keepdims` the
    reduced axes stay, with size 1."""
    if node.attributes.get("keepdims"):
        return tuple(kept.get(a, 0) for a in range(rank))
    return tuple(kept.values())


def _cast(ops: Inlining, value: int, old: DType, new: DType) -> int:
    return value if old is new else ops.compute("cast", (value,), new, (("dtype", new),))


def _in_columns(state: Lowering, x: TensorBox, kept: Sequence[int]) -> bool:
    """Whether neighbours in memory belong to different results."""
    return bool(kept) and _memory_order(state, x, range(len(x.shape)))[-1] in kept


def _is_long(shape: Sequence[Size], kept: Sequence[int], reduced: Sequence[int], most: int = FEW_RESULTS) -> bool:
    results, length = product(shape[a] for a in kept), product(shape[a] for a in reduced)
    few = isinstance(results, int) and results < most
    return few and not (isinstance(length, int) and length < LONG)


def _chunked(
    state: Lowering,
    node: Node,
    x: TensorBox,
    fold: DType,
    kind: ReductionKind,
    reduced: Sequence[int],
    *,
    in_columns: bool,
    rows: int = 1,
) -> tuple[TensorBox, list[int], list[int]]:
    """Fold each chunk of the reduced axes on its own; the partial results, kept and reduced axes of what is left to
    do: the partial results have the chunks as their last axis, and the kept axes before. A chunk is some entries of one
    axis and all of those that are faster in memory. With `in_columns`, results of one chunk are neighbours in memory
    as what they are made of, and are folded side by side: of so many `rows` at once, which are a chunk each. What rows
    are left in the end are partial results as they are."""
    kept = [a for a in range(len(x.shape)) if a not in reduced]
    slower, axis, faster = _cut(x.shape, _memory_order(state, x, reduced))
    rest = product(x.shape[a] for a in faster)
    length = smax(1, floordiv(CHUNK, smax(1, rest) * rows))
    size, extra = floordiv(x.shape[axis], rows), mod(x.shape[axis], rows)
    pieces = floordiv(size + (length - 1), length)
    chunks = product((*(x.shape[a] for a in slower), pieces))
    shape = (*(x.shape[a] for a in kept), chunks * rows + extra)
    places = tuple(range(len(shape)))
    partial = state.buffer(fold, contiguous(shape, (places[-1], *places[:-1]) if in_columns else places))
    outer, outer_index = _loops(x.shape, kept, "i")
    (chunk_loop,), (chunk,) = loop_nest([chunks], "j") if chunks != 1 else ((Loop(Symbol("j0", 0, 0), 1),), (0,))
    inner, inner_index = _loops(x.shape, faster, "r")
    index = outer_index | inner_index
    left, first = (floordiv(chunk, pieces), mod(chunk, pieces) * length) if slower else (chunk, chunk * length)
    for a in reversed(slower):
        index[a], left = (left, 0) if a == slower[0] else (mod(left, x.shape[a]), floordiv(left, x.shape[a]))
    within = Symbol(f"r{len(faster)}", 0, length - 1)
    row_loops, (row,) = loop_nest([rows], "g")
    index[axis] = (first + within) * rows + row
    loops = (Loop(within, smin(length, size - first)), *inner)
    accumulator = Accumulator(state.fresh("acc"), kind, fold, fold)

    def body(ops: Inlining) -> None:
        value = x.load(ops, tuple(index[a] for a in range(len(x.shape))))
        ops.reduce(accumulator.name, _cast(ops, value, x.dtype, fold))

    def store(ops: Inlining) -> None:
        place = (*(outer_index[a] for a in kept), chunk * rows + row)
        ops.store(partial.name, flat_index(partial.layout, place), ops.accumulated(accumulator.name, fold))

    assert isinstance(node.op, Op)
    state.reduction(accumulator, (*outer, chunk_loop, *row_loops), loops, body, store, node.op.name)
    if extra != 0:
        *strides, step = partial.layout.strides
        left_over = Layout((*shape[:-1], extra), (*strides, step), chunks * rows * step)

        def load(ops: Inlining, at: Index) -> int:
            places = dict(zip(kept, at, strict=False)) | {axis: size * rows + at[-1]}
            return _cast(ops, x.load(ops, tuple(places[a] for a in range(len(x.shape)))), x.dtype, fold)

        state.fill(partial, left_over, load, (node.op.name,))
    box = TensorBox.whole(StorageBox(fold, shape, None, partial))
    return box, list(range(len(kept))), [len(kept)]


def _is_for_bands(
    state: Lowering, x: TensorBox, fold: DType, kind: ReductionKind, kept: Sequence[int], reduced: Sequence[int]
) -> bool:
    """Whether columns are so many that `bands` cuts them with all that goes down them, which chunks would part."""
    across = [a for a in kept if x.shape[a] != 1]
    if len(across) != 1 or len(reduced) != 1 or not is_of_parts(kind, fold):
        return False
    columns, rows = x.shape[across[0]], x.shape[reduced[0]]
    if not isinstance(columns, int) or not isinstance(rows, int) or columns < BANDS_FROM:
        return False
    _, index, body = _reading(state, x)
    column, row = index[across[0]], index[reduced[0]]
    assert isinstance(column, Symbol) and isinstance(row, Symbol)
    steps = [(stride(a.index, column), stride(a.index, row)) for a in accesses(body)]
    whole = all(c in (0, 1) and isinstance(r, int) and (c == 0 or r == 0 or r >= columns) for c, r in steps)
    return whole and not any(isinstance(i, Indirect) for i in instructions_of(body))


def _reading(state: Lowering, x: TensorBox) -> tuple[Sequence[Loop], Index, Body]:
    """Loops over all of a box, the index that they make, and what it takes to make the element there."""
    loops, index = loop_nest(x.shape, "i")

    def load(ops: Inlining) -> None:
        x.load(ops, index)

    return loops, index, state.record(load).body()


def _abreast(state: Lowering, x: TensorBox, fold: DType, kept: Sequence[int], reduced: Sequence[int]) -> int:
    """How many rows are folded side by side, as if they were one: where they have so few columns that one alone would
    fill no vectors, and lie side by side in all that is loaded."""
    columns = product(x.shape[a] for a in kept)
    if len(reduced) != 1 or not isinstance(columns, int) or columns < FEWEST_COLUMNS:
        return 1
    rows = ABREAST // (columns * max(x.dtype.itemsize, fold.itemsize))
    loops, index, body = _reading(state, x)
    found = [a.index for a in accesses(body)]
    extents = {loop.variable: loop.extent for loop in loops}

    (row,) = (v for a in reduced if isinstance(v := index[a], Symbol))
    across = [v for a in kept if isinstance(v := index[a], Symbol)]

    def lies_even(place: Size) -> bool:
        steps = [stride(place, v) for v in across]
        ends = [s * (extents[v] - 1) for s, v in zip(steps, across, strict=True) if s is not None]
        return stride(place, row) == columns and len(ends) == len(across) and total(ends) == columns - 1

    return rows if rows > 1 and all(map(lies_even, found)) else 1


def _memory_order(state: Lowering, x: TensorBox, axes: Sequence[int]) -> list[int]:
    """The axes, the fastest in memory last."""
    if sum(x.shape[a] != 1 for a in axes) < 2:
        return sorted(axes, key=lambda a: x.shape[a] != 1)
    loops, index = loop_nest(x.shape, "i")

    def load(ops: Inlining) -> None:
        x.load(ops, index)

    places = dict(zip((i for i in index if i != 0), loops, strict=True))
    own = {places[index[a]]: a for a in axes if index[a] != 0}
    order = by_step(tuple(own), [state.record(load).body()])
    return [*(a for a in axes if index[a] == 0), *(own[loop] for loop in order)]


def _cut(shape: Sequence[Size], order: Sequence[int]) -> tuple[list[int], int, list[int]]:
    """The axis that is cut, and those that are slower and faster in memory: as many of the fastest as make a chunk, or,
    where sizes are symbols, the first of these: how much of it makes a chunk is found in the call."""
    k = next((k for k, a in enumerate(order) if not isinstance(shape[a], int)), None)
    if k is None:
        k, elements = len(order) - 1, product(shape[a] for a in order[-1:])
        while k > 0 and isinstance(elements, int) and elements <= CHUNK:
            k, elements = k - 1, elements * shape[order[k - 1]]
    return list(order[:k]), order[k], list(order[k + 1 :])


def lower_arg_reduction(kind: ReductionKind) -> Callable[..., TensorBox]:
    """argmax or argmin along one axis: the accumulator keeps the extremum and its position."""

    def lower(state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox) -> TensorBox:
        result = node.types[0]
        kept, reduced = _split_axes(len(x.shape), [node.attributes["axis"]])
        buffer = state.destination(ids[0], result.dtype, result.shape)
        x = _in_steps(state, x, reduced[0])
        outer, outer_index = _loops(x.shape, kept, "i")
        place = _result_index(node, len(x.shape), outer_index)
        if _is_long(x.shape, kept, reduced) and _chunks(x.shape[reduced[0]]) != 1:
            _arg_of_chunks(state, kind, x, reduced[0], buffer, place)
            return TensorBox.whole(StorageBox(result.dtype, result.shape, None, buffer))
        inner, inner_index = _loops(x.shape, reduced, "r")
        index = outer_index | inner_index
        accumulator = Accumulator(state.fresh("acc"), kind, dtypes.int64, x.dtype)

        def body(ops: Inlining) -> None:
            value = x.load(ops, tuple(index[a] for a in range(len(x.shape))))
            ops.reduce(accumulator.name, value, ops.index_value(inner_index[reduced[0]], dtypes.int64))

        state.reduction(accumulator, outer, inner, body, _store_position(accumulator, buffer, place), kind)
        return TensorBox.whole(StorageBox(result.dtype, result.shape, None, buffer))

    return lower


def _in_steps(state: Lowering, x: TensorBox, axis: int) -> TensorBox:
    """The tensor, or a copy of a large one whose elements along `axis` lie at no one step - axes that are one in
    another order than memory has them - as each is looked at twice, and in vectors."""
    size = product(x.shape)
    if isinstance(size, int) and size < LONG:
        return x
    index = loop_nest(x.shape, "i")[1]
    along = index[axis]

    def load(ops: Inlining) -> None:
        x.load(ops, index)

    if not isinstance(along, Symbol):
        return x
    loads = (i for i in state.record(load).body().instructions if isinstance(i, Load))
    if all(stride(i.index, along) is not None for i in loads):
        return x
    copied = state.buffer(x.dtype, contiguous(x.shape))
    state.copy_to(x, copied)
    return TensorBox.whole(StorageBox(x.dtype, x.shape, None, copied))


def _chunks(size: Size) -> Size:
    return floordiv(size + (CHUNK - 1), CHUNK)


def _store_position(accumulator: Accumulator, buffer: Buffer, place: Index) -> Callable[[Inlining], None]:
    def store(ops: Inlining) -> None:
        found = ops.accumulated(accumulator.name, dtypes.int64)
        ops.store(buffer.name, flat_index(buffer.layout, place), found)

    return store


def _arg_of_chunks(state: Lowering, kind: ReductionKind, x: TensorBox, axis: int, buffer: Buffer, place: Index) -> None:
    """The position in each chunk, and then that of the best of these elements, which are looked at again."""
    kept, size = [a for a in range(len(x.shape)) if a != axis], x.shape[axis]
    chunks = _chunks(size)
    outer, outer_index = _loops(x.shape, kept, "i")
    (chunk_loop,), (chunk,) = loop_nest([chunks], "j")
    within = Symbol("r0", 0, CHUNK - 1)
    positions = state.buffer(dtypes.int64, contiguous((*(x.shape[a] for a in kept), chunks)))
    first, second = (Accumulator(state.fresh("acc"), kind, dtypes.int64, x.dtype) for _ in range(2))

    def load(ops: Inlining, position: Size) -> int:
        return x.load(ops, tuple(position if a == axis else outer_index[a] for a in range(len(x.shape))))

    def fold(ops: Inlining) -> None:
        position = chunk * CHUNK + within
        ops.reduce(first.name, load(ops, position), ops.index_value(position, dtypes.int64))

    inside = (Loop(within, smin(CHUNK, size - chunk * CHUNK)),)
    at = (*(outer_index[a] for a in kept), chunk)
    state.reduction(first, (*outer, chunk_loop), inside, fold, _store_position(first, positions, at), kind)
    (number_loop,), (number,) = loop_nest([chunks], "r")

    def choose(ops: Inlining) -> None:
        found = (*(outer_index[a] for a in kept), number)
        position = ops.load(positions.name, flat_index(positions.layout, found), dtypes.int64)
        ops.reduce(second.name, load(ops, ops.indirect(position, size, -1)), position)

    state.reduction(second, outer, (number_loop,), choose, _store_position(second, buffer, place), kind)
