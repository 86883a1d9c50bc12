"""Lowering of QR, singular values and eigenvalues to LAPACK calls on column-major copies.

Operands have double precision (the pass `decompose` sees to it). What LAPACK gives in another form than NumPy - the
triangle of QR, the eigenvectors of a real matrix in pairs of columns - is put right where it is read.
"""

from __future__ import annotations

from collections.abc import Sequence

from broadloom import dtypes
from broadloom.dtypes import DType
from broadloom.fusion.boxes import Index, Inlining, StorageBox, TensorBox, contiguous
from broadloom.fusion.ir import Buffer, Extern, Region
from broadloom.fusion.lower import Lowering
from broadloom.fusion.lowerings.lanes import lower_beside
from broadloom.fusion.lowerings.linalg import columns_first, copied, delivered, region_of
from broadloom.graph.ir import Node, TensorType, ValueId
from broadloom.passes.small_matrices import Choice, Lanes, choose
from broadloom.symbolic import Size, ge, product, smin


def _call(
    state: Lowering, node: Node, routine: str, results: Sequence[Buffer], site: int = -1, **attrs: object
) -> None:
    """A call that works in place on its results, the first of which holds the operand."""
    regions: tuple[Region, ...] = tuple(map(region_of, results))
    state.call(node, Extern(state.fresh("x"), routine, regions[:1], regions, tuple(sorted(attrs.items())), site))


def _vector(state: Lowering, dtype: DType, shape: Sequence[Size]) -> Buffer:
    return state.buffer(dtype, contiguous(shape))


def _matrix(state: Lowering, dtype: DType, shape: Sequence[Size]) -> Buffer:
    return state.buffer(dtype, columns_first(shape))


def _whole(buffer: Buffer) -> TensorBox:
    return TensorBox.whole(StorageBox(buffer.dtype, buffer.layout.shape, None, buffer))


def _given(state: Lowering, value: ValueId, buffer: Buffer, type: TensorType) -> TensorBox:
    return delivered(state, value, buffer, type.dtype, type.shape)


def _number(ops: Inlining, i: Size) -> int:
    return ops.index_value(i, dtypes.int64)


def _zero(ops: Inlining, dtype: DType) -> int:
    return ops.literal(dtype, bytes(dtype.itemsize))


# ---- QR -------------------------------------------------------------------------------------------------------------


def _reflectors(state: Lowering, node: Node, a: TensorBox) -> tuple[Buffer, Buffer]:
    """The result of geqrf."""
    rows, columns = a.shape[-2:]
    h = copied(state, a, a.shape, columns_first(a.shape), "qr")
    tau = _vector(state, a.dtype, (*a.shape[:-2], smin(rows, columns)))
    _call(state, node, "geqrf", (h, tau), dtype=a.dtype)
    return h, tau


def lower_qr_raw(state: Lowering, node: Node, ids: Sequence[ValueId], a: TensorBox) -> tuple[TensorBox, ...]:
    made = _reflectors(state, node, a)
    return tuple(_given(state, i, buffer, t) for i, buffer, t in zip(ids, made, node.types, strict=True))


def lower_qr(state: Lowering, node: Node, ids: Sequence[ValueId], a: TensorBox) -> tuple[TensorBox, TensorBox]:
    """q is not made where nobody asks for it."""
    h, tau = _reflectors(state, node, a)
    factored, dtype, columns = _whole(h), a.dtype, a.shape[-1]
    q = _matrix(state, dtype, node.types[0].shape)
    if state.remaining[ids[0]]:

        def start(ops: Inlining, index: Index) -> int:
            if ge(columns, q.layout.shape[-1]) is True:
                return factored.load(ops, index)
            has = ops.compute("less", (_number(ops, index[-1]), _number(ops, columns)), dtypes.bool_)
            return ops.masked(has, lambda nested: factored.load(nested, index), _zero(ops, dtype), dtype)

        state.fill(q, q.layout, start, ("qr",))
        regions = (region_of(q), region_of(tau))
        state.call(node, Extern(state.fresh("x"), "orgqr", regions, regions[:1], (("dtype", dtype),)))

    def triangle(ops: Inlining, index: Index) -> int:
        row, column = (_number(ops, i) for i in index[-2:])
        kept = ops.compute("less_equal", (row, column), dtypes.bool_)
        return ops.compute("where", (kept, factored.load(ops, index), _zero(ops, dtype)), dtype)

    r = state.pointwise(dtype, node.types[1].shape, triangle, (factored,), "triu", 2)
    return _given(state, ids[0], q, node.types[0]), r


# ---- singular values ------------------------------------------------------------------------------------------------


def _singular(
    state: Lowering, node: Node, a: TensorBox, job: str, vectors: Sequence[TensorType] = ()
) -> tuple[Buffer, ...]:
    """s, or s, u and vh."""
    rows, columns = a.shape[-2:]
    least = smin(rows, columns)
    held = copied(state, a, a.shape, columns_first(a.shape), "svd")
    s = _vector(state, a.dtype.real, (*a.shape[:-2], least))
    made = tuple(_matrix(state, t.dtype, t.shape) for t in vectors)
    if job == "A" and ge(least, 1) is not True:  # without singular values LAPACK leaves u and vh alone
        for buffer in made:
            _fill_with_identity(state, buffer)
    _call(state, node, "gesdd", (held, s, *made), state.site("linalg", node), dtype=a.dtype, job=job)
    return (s, *made)


def _fill_with_identity(state: Lowering, buffer: Buffer) -> None:
    one = buffer.dtype.numpy.type(1).tobytes()

    def inner(ops: Inlining, index: Index) -> int:
        row, column = (_number(ops, i) for i in index[-2:])
        same = ops.compute("equal", (row, column), dtypes.bool_)
        values = (same, ops.literal(buffer.dtype, one), _zero(ops, buffer.dtype))
        return ops.compute("where", values, buffer.dtype)

    state.fill(buffer, buffer.layout, inner, ("svd",))


def lower_svd(state: Lowering, node: Node, ids: Sequence[ValueId], a: TensorBox) -> tuple[TensorBox, ...]:
    job = "A" if node.attributes["full_matrices"] else "S"
    s, u, vh = _singular(state, node, a, job, (node.types[0], node.types[2]))
    return tuple(_given(state, i, buffer, t) for i, buffer, t in zip(ids, (u, s, vh), node.types, strict=True))


def lower_svdvals(state: Lowering, node: Node, ids: Sequence[ValueId], a: TensorBox) -> TensorBox:
    (s,) = _singular(state, node, a, "N")
    return _given(state, ids[0], s, node.types[0])


# ---- eigenvalues ----------------------------------------------------------------------------------------------------


def _hermitian(state: Lowering, node: Node, a: TensorBox, vectors: bool) -> tuple[Buffer, Buffer]:
    held = copied(state, a, a.shape, columns_first(a.shape), "eigh")
    w = _vector(state, a.dtype.real, a.shape[:-1])
    attrs = {"dtype": a.dtype, "uplo": node.attributes["uplo"], "vectors": vectors}
    _call(state, node, "evd", (held, w), state.site("linalg", node), **attrs)
    return w, held


def _rotated(a: TensorBox) -> Choice:
    return choose(product(a.shape[:-2]), a.shape[-2:], rotated=True)


def lower_eigh(state: Lowering, node: Node, ids: Sequence[ValueId], a: TensorBox) -> tuple[TensorBox, ...]:
    choice = _rotated(a)
    if isinstance(choice, Lanes):
        uplo = node.attributes["uplo"]
        return lower_beside(state, node, ids, "lanes_eigh", (a,), choice, raises=True, uplo=uplo)
    made = _hermitian(state, node, a, True)
    return tuple(_given(state, i, buffer, t) for i, buffer, t in zip(ids, made, node.types, strict=True))


def lower_eigvalsh(state: Lowering, node: Node, ids: Sequence[ValueId], a: TensorBox) -> TensorBox:
    choice = _rotated(a)
    if isinstance(choice, Lanes):
        uplo = node.attributes["uplo"]
        return lower_beside(state, node, ids, "lanes_eigvalsh", (a,), choice, raises=True, uplo=uplo)[0]
    w, _ = _hermitian(state, node, a, False)
    return _given(state, ids[0], w, node.types[0])


def _general(state: Lowering, node: Node, a: TensorBox, vectors: bool) -> tuple[Buffer, ...]:
    """w or, for a real matrix, its real and imaginary parts; then the vectors, if asked for."""
    held = copied(state, a, a.shape, columns_first(a.shape), "eig")
    values = [_vector(state, a.dtype, a.shape[:-1]) for _ in range(1 if a.dtype.kind == "c" else 2)]
    made = (*values, *((_matrix(state, a.dtype, a.shape),) if vectors else ()))
    _call(state, node, "geev", (held, *made), state.site("linalg", node), dtype=a.dtype, vectors=vectors)
    return made


def _paired(state: Lowering, type: TensorType, real: TensorBox, imaginary: TensorBox) -> TensorBox:
    def inner(ops: Inlining, index: Index) -> int:
        return ops.compute("complex", (real.load(ops, index), imaginary.load(ops, index)), type.dtype)

    return state.pointwise(type.dtype, type.shape, inner, (real, imaginary), "eig", 1)


def lower_eig(state: Lowering, node: Node, ids: Sequence[ValueId], a: TensorBox) -> tuple[TensorBox, ...]:
    made = _general(state, node, a, True)
    if a.dtype.kind == "c":
        return tuple(_given(state, i, buffer, t) for i, buffer, t in zip(ids, made, node.types, strict=True))
    real, imaginary, vectors = map(_whole, made)
    values = _paired(state, node.types[0], real, imaginary)
    return values, _unpaired(state, node.types[1], imaginary, vectors)


def _unpaired(state: Lowering, type: TensorType, imaginary: TensorBox, vectors: TensorBox) -> TensorBox:
    """A conjugate pair of eigenvectors, that of the positive imaginary part first, stands in two real columns: the
    real part, then the imaginary part of the first."""
    part = vectors.dtype

    def inner(ops: Inlining, index: Index) -> int:
        row, column = index[:-1], index[-1]
        w, zero = imaginary.load(ops, (*index[:-2], column)), _zero(ops, part)
        first = ops.compute("greater", (w, zero), dtypes.bool_)
        second = ops.compute("less", (w, zero), dtypes.bool_)
        own = vectors.load(ops, index)
        after = ops.masked(first, lambda nested: vectors.load(nested, (*row, column + 1)), zero, part)
        before = ops.masked(second, lambda nested: vectors.load(nested, (*row, column - 1)), own, part)
        minus = ops.compute("negative", (own,), part)
        return ops.compute("complex", (before, ops.compute("where", (second, minus, after), part)), type.dtype)

    return state.pointwise(type.dtype, type.shape, inner, (imaginary, vectors), "eig", 6)


def lower_eigvals(state: Lowering, node: Node, ids: Sequence[ValueId], a: TensorBox) -> TensorBox:
    made = _general(state, node, a, False)
    if a.dtype.kind == "c":
        return _given(state, ids[0], made[0], node.types[0])
    real, imaginary = map(_whole, made)
    return _paired(state, node.types[0], real, imaginary)
