"""Memory order: what NumPy would choose for every result.

What goes in: op, attributes, and for each operand its shape and byte strides, at representative sizes (see
`graph.strides`). What comes out: the order and the byte strides that NumPy gives the result.

What holds: the order is NumPy's for all sizes but 0 and 1, and there differs only in strides of one-element axes.
Strides of pass-through ops may be zero or negative ("virtual" strides of a value that nobody stores); the order of
their layout is the one that a fresh array would have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from broadloom.graph.ir import Constant, Graph, Order, TensorType
from broadloom.graph.strides import (
    VIEW_RULES,
    Operand,
    Strides,
    c_order,
    dense_strides,
    input_strides,
    is_contiguous,
    is_fortran,
    representatives,
    view_strides,
)
from broadloom.ops.record import Op, Trait
from broadloom.records import dataclass


def iterator_order(shape: Sequence[int], operands: Sequence[Operand]) -> Order:
    """The K rule of `numpy.nditer`: the axes sorted so that the operands are walked with small steps inside.

    Two axes are compared by every operand that moves along both; if operands disagree, C order wins; if none
    compares them, they stay as they are. An insertion sort, as in NumPy, because the relation is not transitive.
    """
    ndim = len(shape)
    steps = [_broadcast_strides(o, ndim) for o in operands]
    inner_first = list(range(ndim - 1, -1, -1))
    for i in range(1, ndim):
        axis, position = inner_first[i], i
        for j in range(i - 1, -1, -1):
            verdict = _moves_inside(steps, axis, inner_first[j])
            if verdict:
                position = j
            elif verdict is False:
                break
        inner_first.insert(position, inner_first.pop(i))
    return tuple(reversed(inner_first))


def ufunc_order(shape: Sequence[int], operands: Sequence[Operand]) -> Order:
    """The K rule of a ufunc: operands of one shape (beside 0-d ones) that are all C or all Fortran contiguous pass
    that on, also where an axis of one element has an odd stride; else the iterator decides."""
    arrays = [o for o in operands if o.shape]
    if all(o.shape == tuple(shape) for o in arrays):
        if all(is_contiguous(o.shape, o.strides, o.itemsize) for o in arrays):
            return c_order(len(shape))
        if all(is_contiguous(o.shape, o.strides, o.itemsize, fortran=True) for o in arrays):
            return tuple(reversed(range(len(shape))))
    return iterator_order(shape, operands)


def _broadcast_strides(operand: Operand, ndim: int) -> Strides:
    moving = tuple(0 if n == 1 else s for n, s in zip(operand.shape, operand.strides, strict=True))
    return (0,) * (ndim - len(moving)) + moving


def _moves_inside(steps: Sequence[Strides], axis: int, other: int) -> bool | None:
    """Whether `axis` belongs inside `other`; None if no operand can tell."""
    verdict: bool | None = None
    for s in steps:
        if s[axis] != 0 and s[other] != 0:
            if abs(s[other]) <= abs(s[axis]):
                verdict = False
            elif verdict is None:
                verdict = True
    return verdict


def copy_order(operand: Operand) -> Order:
    """The order of `copy`, `astype` and `*_like` with order K: C and Fortran arrays keep theirs, else by stride."""
    ndim = len(operand.shape)
    if ndim <= 1 or is_contiguous(operand.shape, operand.strides, operand.itemsize):
        return c_order(ndim)
    if is_contiguous(operand.shape, operand.strides, operand.itemsize, fortran=True):
        return tuple(reversed(range(ndim)))
    return tuple(sorted(range(ndim), key=lambda axis: (-abs(operand.strides[axis]), axis)))


def ordered_copy(operand: Operand, order: str) -> Order:
    """The order of a copy with `order=` C, F, A or K."""
    if order == "K":
        return copy_order(operand)
    c = c_order(len(operand.shape))
    return tuple(reversed(c)) if order == "F" or (order == "A" and is_fortran(operand)) else c


# ---- fresh results --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Layout:
    """The order a value would be stored in and its representative byte strides. They say the same of a value that
    is stored; a value that only passes through keeps the strides that its reader would see."""

    order: Order
    strides: Strides


def _c(operands: Sequence[Operand], attrs: Mapping[str, Any], shape: tuple[int, ...]) -> Order:
    return c_order(len(shape))


def _copy(operands: Sequence[Operand], attrs: Mapping[str, Any], shape: tuple[int, ...]) -> Order:
    """The order of the operand; loop dims that it does not have go around it."""
    added = len(shape) - len(operands[0].shape)
    return (*range(added), *(added + axis for axis in copy_order(operands[0])))


def _reduction(operands: Sequence[Operand], attrs: Mapping[str, Any], shape: tuple[int, ...]) -> Order:
    """The axes that stay keep their order in the operand; those kept with one element keep their place in it."""
    x = operands[0]
    ndim = len(x.shape)
    reduced = {axis % ndim for axis in attrs["axes"]}
    order = iterator_order(x.shape, operands)
    if attrs.get("keepdims"):
        return order
    stay = [axis for axis in order if axis not in reduced]
    number = {axis: k for k, axis in enumerate(a for a in range(ndim) if a not in reduced)}
    return tuple(number[axis] for axis in stay)


def _pad(operands: Sequence[Operand], attrs: Mapping[str, Any], shape: tuple[int, ...]) -> Order:
    c = c_order(len(shape))  # to whose axes the fill may bring loop dims
    return tuple(reversed(c)) if is_fortran(operands[0]) else c


def _tile(operands: Sequence[Operand], attrs: Mapping[str, Any], shape: tuple[int, ...]) -> Order:
    return copy_order(operands[0]) if shape == operands[0].shape else c_order(len(shape))


def _concat(operands: Sequence[Operand], attrs: Mapping[str, Any], shape: tuple[int, ...]) -> Order:
    """`numpy.concatenate` sorts the axes by the strides of all parts, C order winning where they disagree."""
    operands = [_full_rank(o, len(shape)) for o in operands]
    order = list(range(len(shape)))
    for i in range(1, len(order)):
        axis, position = order[i], i
        for j in range(i - 1, -1, -1):
            verdict = _moves_outside(operands, axis, order[j])
            if verdict:
                position = j
            elif verdict is False:
                break
        order.insert(position, order.pop(i))
    return tuple(order)


def _full_rank(operand: Operand, ndim: int) -> Operand:
    added = ndim - len(operand.shape)
    return Operand((1,) * added + operand.shape, (0,) * added + operand.strides, operand.itemsize)


def _moves_outside(operands: Sequence[Operand], axis: int, other: int) -> bool | None:
    verdict: bool | None = None
    for o in operands:
        if o.shape[axis] != 1 and o.shape[other] != 1:
            if abs(o.strides[axis]) <= abs(o.strides[other]):
                verdict = False
            elif verdict is None:
                verdict = True
    return verdict


def _stack(operands: Sequence[Operand], attrs: Mapping[str, Any], shape: tuple[int, ...]) -> Order:
    at = attrs["axis"] % len(shape)
    widened = [
        Operand((*o.shape[:at], 1, *o.shape[at:]), (*o.strides[:at], 0, *o.strides[at:]), o.itemsize) for o in operands
    ]
    return _concat(widened, attrs, shape)


def _gather(operands: Sequence[Operand], attrs: Mapping[str, Any], shape: tuple[int, ...]) -> Order:
    """The index dims in front: by the K rule over the index arrays where nothing else is left to copy, else in C
    order; then the axes that stay, sorted by stride."""
    x, *indices = operands
    indexed = {axis % len(x.shape) for axis in attrs["axes"]}
    rest = [axis for axis in range(len(x.shape)) if axis not in indexed]
    front = len(shape) - len(rest)
    single = all(x.shape[axis] == 1 for axis in rest)
    outer = iterator_order(shape[:front], indices) if single else c_order(front)
    kept = sorted(range(len(rest)), key=lambda k: (-abs(x.strides[rest[k]]), k))
    return (*outer, *(front + k for k in kept))


def _along(operands: Sequence[Operand], attrs: Mapping[str, Any], shape: tuple[int, ...]) -> Order:
    return iterator_order(shape, operands[1:])


def _qr_raw(operands: Sequence[Operand], attrs: Mapping[str, Any], shape: tuple[int, ...]) -> Order:
    """NumPy factors a copy of the matrix in place; the coefficients are a gufunc's result."""
    x = operands[0]
    if len(shape) == len(x.shape):
        return copy_order(x)
    loops = Operand(x.shape[:-2], x.strides[:-2], x.itemsize)
    return (*iterator_order(loops.shape, [loops]), len(shape) - 1)


def _where(operands: Sequence[Operand], attrs: Mapping[str, Any], shape: tuple[int, ...]) -> Order:
    return iterator_order(shape, operands)


Rule = Callable[[Sequence[Operand], Mapping[str, Any], tuple[int, ...]], Order]

# by op where NumPy's function decides for itself; the others by trait, below
ORDER_RULES: dict[str, Rule] = {
    "cast": _copy,
    "bitcast": _copy,
    "argmax": _c,
    "argmin": _c,
    "concat": _concat,
    "stack": _stack,
    "pad": _pad,
    "extend": _pad,
    "tile": _tile,
    "roll": _copy,
    "unpack": _c,
    "pack": _c,
    "sort": _copy,
    "argsort": _c,
    "slice_update": _copy,
    "scatter": _copy,
    "outer": _c,
    "where": _where,
    "gather": _gather,
    "take_along_axis": _along,
    "qr_raw": _qr_raw,
}


def result_layouts(
    op: Op, attrs: Mapping[str, Any], operands: Sequence[Operand], results: Sequence[TensorType]
) -> tuple[Layout, ...]:
    """The layout NumPy would give each result of an op, from the layouts of its operands."""
    return tuple(_result_layout(op, attrs, operands, r) for r in results)


def _result_layout(op: Op, attrs: Mapping[str, Any], operands: Sequence[Operand], result: TensorType) -> Layout:
    shape, width = representatives(result.shape), result.dtype.itemsize
    if op.name in VIEW_RULES:
        return virtual_layout(shape, view_strides(op.name, attrs, operands[0], result), width)
    if op.name in ORDER_RULES:
        order = ORDER_RULES[op.name](operands, attrs, shape)
    elif op.has(Trait.TRANSFORM):
        order = copy_order(operands[0])
    elif op.has(Trait.POINTWISE):
        order = ufunc_order(shape, operands)
    elif op.has(Trait.SCAN):
        order = iterator_order(shape, operands)
    elif op.has(Trait.REDUCTION):
        order = _reduction(operands, attrs, shape)
    elif op.has(Trait.CONTRACTION) or op.has(Trait.LINALG):
        order = _generalised(op, attrs, operands, shape)
    else:
        order = c_order(len(shape))
    return Layout(order, dense_strides(shape, order, width))


def always_c(op: Op, attrs: Mapping[str, Any], ranks: Sequence[int]) -> bool:
    """Whether the results lie in C order whatever the strides of the operands, of these ranks, are."""
    if op.name in VIEW_RULES or op.name in ORDER_RULES:
        return ORDER_RULES.get(op.name) is _c
    if op.has(Trait.TRANSFORM) or op.has(Trait.POINTWISE) or op.has(Trait.SCAN) or op.has(Trait.REDUCTION):
        return False
    if op.has(Trait.CONTRACTION) or op.has(Trait.LINALG):
        cores = op.signature(attrs).core_ranks(len(ranks))
        return max((n - k for n, k in zip(ranks, cores, strict=True)), default=0) < 2
    return True


def _generalised(op: Op, attrs: Mapping[str, Any], operands: Sequence[Operand], shape: tuple[int, ...]) -> Order:
    """A gufunc walks its loop dims by the K rule; the core dims of its results are in C order inside of them."""
    cores = op.signature(attrs).core_ranks(len(operands))
    loops = [
        Operand(o.shape[: len(o.shape) - k], o.strides[: len(o.shape) - k], o.itemsize)
        for o, k in zip(operands, cores, strict=True)
    ]
    depth = max((len(o.shape) for o in loops), default=0)
    return (*iterator_order(shape[:depth], loops), *range(depth, len(shape)))


def virtual_layout(shape: Sequence[int], strides: Strides, itemsize: int) -> Layout:
    """The layout of a value that passes through with these strides."""
    return Layout(iterator_order(shape, [Operand(tuple(shape), strides, itemsize)]), strides)


def dense_layout(shape: Sequence[int], order: Order, itemsize: int) -> Layout:
    """The layout of a stored value."""
    return Layout(order, dense_strides(shape, order, itemsize))


def value_orders(graph: Graph) -> tuple[Order, ...]:
    """The memory order of every value of a graph, by id: what NumPy would give the arrays in between."""
    layouts = [
        virtual_layout(representatives(i.type.shape), input_strides(i), i.type.dtype.itemsize) for i in graph.inputs
    ]
    types = [i.type for i in graph.inputs]
    for node in graph.nodes:
        if isinstance(node.op, Constant):
            shape = node.op.shape
            layouts.append(dense_layout(shape, c_order(len(shape)), node.op.dtype.itemsize))
        else:
            given = [
                Operand(representatives(types[i].shape), layouts[i].strides, types[i].dtype.itemsize)
                for i in node.inputs
            ]
            layouts.extend(result_layouts(node.op, node.attributes, given, node.types))
        types.extend(node.types)
    return tuple(layout.order for layout in layouts)
