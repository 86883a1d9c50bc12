"""Lowering of views: index maps from the result's index to the operand's. Nothing is computed or copied, except
where a reinterpretation of memory needs its operand to lie densely."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from broadloom.dtypes import bool_, int64
from broadloom.fusion.boxes import Index, Inlining, TensorBox, broadcast_index
from broadloom.fusion.lower import Lowering
from broadloom.graph.ir import Node, ValueId
from broadloom.symbolic import Size, floordiv, mod, product


def lower_permute(state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox) -> TensorBox:
    axes: tuple[int, ...] = node.attributes["axes"]
    lead = len(x.shape) - len(axes)

    def index_map(index: Index) -> Index:
        core: list[Size] = [0] * len(axes)
        for position, axis in enumerate(axes):
            core[axis] = index[lead + position]
        return (*index[:lead], *core)

    return x.view(node.types[0].shape, index_map)


def lower_expand(state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox) -> TensorBox:
    shape = node.types[0].shape
    return x.view(shape, lambda index: broadcast_index(index, x.shape, shape))


def lower_slice(state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox) -> TensorBox:
    starts, steps = node.attributes["starts"], node.attributes["steps"]
    lead = len(x.shape) - len(starts)

    def index_map(index: Index) -> Index:
        core = (start + i * step for start, step, i in zip(starts, steps, index[lead:], strict=True))
        return (*index[:lead], *core)

    return x.view(node.types[0].shape, index_map)


def lower_flip(state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox) -> TensorBox:
    axes = {axis + len(x.shape) for axis in node.attributes["axes"]}

    def index_map(index: Index) -> Index:
        return tuple(x.shape[a] - 1 - i if a in axes else i for a, i in enumerate(index))

    return x.view(node.types[0].shape, index_map)


def lower_diagonal(state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox) -> TensorBox:
    offset, ndim = node.attributes["offset"], len(x.shape)
    axis1, axis2 = node.attributes["axis1"] + ndim, node.attributes["axis2"] + ndim
    others = [a for a in range(ndim) if a not in (axis1, axis2)]

    def index_map(index: Index) -> Index:
        full: list[Size] = [0] * ndim
        for a, i in zip(others, index[:-1], strict=True):
            full[a] = i
        full[axis1] = index[-1] + max(-offset, 0)
        full[axis2] = index[-1] + max(offset, 0)
        return tuple(full)

    return x.view(node.types[0].shape, index_map)


def lower_reshape(state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox) -> TensorBox:
    """Axes are matched in groups of equal size, so that unchanged axes stay as they are; within a group of a dense
    storage the linear index is used as it is, else it is taken apart by division."""
    shape = node.types[0].shape
    groups = reshape_groups(x.shape, shape)
    if groups is None:
        groups = [(range(len(x.shape)), range(len(shape)))]

    def index_map(index: Index) -> Index:
        source: list[Size] = []
        for old, new in groups:
            linear: Size = 0
            for axis in new:
                linear = linear * shape[axis] + index[axis]
            source.extend(unravel(linear, [x.shape[a] for a in old]))
        return tuple(source)

    found = state.strided(x)
    if found is not None and all(_dense(found[1].strides, x.shape, old) for old, _ in groups):
        buffer, layout = found

        def load(ops: Inlining, index: Index) -> int:
            flat: Size = layout.offset
            for old, new in groups:
                linear: Size = 0
                for axis in new:
                    linear = linear * shape[axis] + index[axis]
                flat = flat + linear * (layout.strides[old[-1]] if len(old) else 0)
            return ops.load(buffer.name, flat, x.dtype)

        return TensorBox(x.dtype, shape, load, x.storage)
    return x.view(shape, index_map)


def reshape_groups(old: Sequence[Size], new: Sequence[Size]) -> list[tuple[range, range]] | None:
    """Runs of axes of `old` and `new` with equal products, as short as they come; None if only the whole matches.

    >>> reshape_groups((4, 6, 5), (4, 2, 3, 5))
    [(range(0, 1), range(0, 1)), (range(1, 2), range(1, 3)), (range(2, 3), range(3, 4))]
    """
    groups: list[tuple[range, range]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        first, second = i, j
        left: Size = 1
        right: Size = 1
        if i < len(old):
            left, i = old[i], i + 1
        if j < len(new):
            right, j = new[j], j + 1
        while left != right:
            if isinstance(left, int) and isinstance(right, int):
                grow_left = left < right
            else:
                grow_left = (i - first) <= (j - second)
            if grow_left and i < len(old):
                left, i = left * old[i], i + 1
            elif j < len(new):
                right, j = right * new[j], j + 1
            elif i < len(old):
                left, i = left * old[i], i + 1
            else:
                return None
            if left == 0 or right == 0:
                return None
        groups.append((range(first, i), range(second, j)))
    return groups


def unravel(linear: Size, shape: Sequence[Size]) -> list[Size]:
    """The index into C-ordered `shape` of element number `linear`.

    >>> unravel(7, (2, 5))
    [1, 2]
    """
    index: list[Size] = []
    for axis in range(len(shape)):
        inner = product(shape[axis + 1 :])
        if shape[axis] in (0, 1) or inner == 0:  # the only element, or none
            index.append(0)
            continue
        part = floordiv(linear, inner)
        index.append(part if axis == 0 else mod(part, shape[axis]))
    return index


def _dense(strides: Sequence[Size], shape: Sequence[Size], axes: range) -> bool:
    return all(strides[a] == strides[a + 1] * shape[a + 1] for a in axes[:-1])


def lower_view_dtype(state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox) -> TensorBox:
    """The same bytes as elements of another dtype. Where elements grow, the operand must lie densely; a part of an
    element is found wherever that lies. The parts of complex numbers that lie nowhere are computed from these."""
    result = node.types[0]
    old, new = x.dtype.itemsize, result.dtype.itemsize
    found = state.strided(x) if old >= new else None
    if found is None and x.dtype.kind == "c" and result.dtype is x.dtype.real:
        return TensorBox(result.dtype, result.shape, partial(_part, x), x.storage)
    buffer, layout = found or state.dense(x)
    strides = tuple(_rescaled(s, old, new) for s in layout.strides)
    offset = _rescaled(layout.offset, old, new)
    parts, dense = max(old // new, 1), layout.strides[-1] == 1

    def load(ops: Inlining, index: Index) -> int:
        flat: Size = offset + index[-1]
        if not dense:
            flat = offset + floordiv(index[-1], parts) * strides[-1] + mod(index[-1], parts)
        for i, stride in zip(index[:-1], strides[:-1], strict=True):
            flat = flat + i * stride
        return ops.load(buffer.name, flat, result.dtype)

    return TensorBox(result.dtype, result.shape, load, x.storage)


def _part(x: TensorBox, ops: Inlining, index: Index) -> int:
    """The real part of a complex number at an even last index, the imaginary one at an odd."""
    z = x.load(ops, (*index[:-1], floordiv(index[-1], 2)))
    which = mod(index[-1], 2)
    if isinstance(which, int):
        return ops.compute("imag" if which else "real", (z,), x.dtype.real)
    real, imag = (ops.compute(part, (z,), x.dtype.real) for part in ("real", "imag"))
    is_odd = ops.compute("cast", (ops.index_value(which, int64),), bool_, (("dtype", bool_),))
    return ops.compute("where", (is_odd, imag, real), x.dtype.real)


def _rescaled(count: Size, old: int, new: int) -> Size:
    """`count` elements of `old` bytes as elements of `new` bytes; exact, since the sizes divide."""
    return count * (old // new) if old >= new else floordiv(count, new // old)
