"""Where the memory order of a storage comes from, so that it can be worked out again for other sizes.

What goes in: the handles that a storage was made from, and the rule that gave it its layout. What comes out: the layout
at sizes of one's choice.

What holds: a storage whose origin is `plain` lies in C order whatever the sizes are; most do, and nothing has to be
asked. Any other may lie otherwise where an axis has one element or none: an array that is contiguous in both orders
counts as one in C order, and an axis of one element is not compared with others.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from broadloom.dtypes import DType
from broadloom.errors import ShapeError
from broadloom.graph import order as orders
from broadloom.graph import strides as geometry
from broadloom.graph.ir import Input, TensorType
from broadloom.graph.order import Layout
from broadloom.graph.strides import Operand
from broadloom.ops.infer import infer
from broadloom.ops.record import Op
from broadloom.ops.table import OPS
from broadloom.records import dataclass
from broadloom.symbolic import Expr, Size, Symbol, evaluate

if TYPE_CHECKING:
    from broadloom.graph.storage import ArrayHandle, Storage

Values = Mapping[Symbol, int]
Rule = Callable[[Sequence[Operand], Values], Layout]
IN_ORDER = frozenset({"slice", "flip", "reshape", "view_dtype", "gather"})  # views that leave C order as it is


class Inadmissible(Exception):
    """No call that the guards let in has these sizes."""


@dataclass(eq=False, slots=True)
class Origin:
    """The handles that decide a layout, and how they do. `plain`: C order at all sizes; what is stored then has no
    operands here, so that a long program of such steps is not walked."""

    operands: tuple[ArrayHandle, ...]
    rule: Rule
    plain: bool


def plain_origin(type: TensorType) -> Origin:
    """C order."""

    def rule(_: Sequence[Operand], values: Values) -> Layout:
        shape = concrete(type.shape, values)
        return orders.dense_layout(shape, geometry.c_order(len(shape)), type.dtype.itemsize)

    return Origin((), rule, True)


def constant_origin(layout: Layout) -> Origin:
    """A literal's."""
    return Origin((), lambda _, values: layout, layout.order == geometry.c_order(len(layout.order)))


def input_origin(declared: Input, *, strided: bool) -> Origin:
    """An input's. Its guard lets in one kind: contiguous in C order, or in Fortran's alone, or strided in neither."""
    type, order = declared.type, declared.order
    falling = order == geometry.c_order(type.ndim) and not (strided and not _fall(geometry.input_strides(declared)))
    width = type.dtype.itemsize

    def contiguous(_: Sequence[Operand], values: Values) -> Layout:
        layout = orders.dense_layout(concrete(type.shape, values), order, width)
        if not falling and geometry.is_contiguous(concrete(type.shape, values), layout.strides, width):
            raise Inadmissible
        return layout

    def free(_: Sequence[Operand], values: Values) -> Layout:
        shape = concrete(type.shape, values)
        strides = geometry.input_strides(declared, shape)
        if any(geometry.is_contiguous(shape, strides, width, fortran=f) for f in (False, True)):
            raise Inadmissible
        return orders.virtual_layout(shape, strides, width)

    return Origin((), free if strided else contiguous, falling or type.ndim < 2)


def _fall(strides: Sequence[int]) -> bool:
    """Whether each axis has a smaller step than the one before, and none is zero."""
    return 0 not in strides and all(abs(a) > abs(b) for a, b in itertools.pairwise(strides))


def op_origin(
    op: Op, attrs: Mapping[str, Any], operands: Sequence[ArrayHandle], types: Sequence[TensorType], number: int
) -> Origin:
    """That of result `number` of an op."""

    def rule(given: Sequence[Operand], values: Values) -> Layout:
        known = {k: concrete(v, values) for k, v in attrs.items()}
        results = [TensorType(t.dtype, concrete(t.shape, values)) for t in types[number : number + 1]]
        return orders.result_layouts(op, known, given, results)[0]

    if op.name in geometry.VIEW_RULES:  # it keeps the strides of the operand
        return Origin(tuple(operands), rule, op.name in IN_ORDER and is_plain(operands[0]))
    always = types[number].ndim < 2 or orders.always_c(op, attrs, [h.type.ndim for h in operands])
    if always or all(map(is_plain, operands)):
        return plain_origin(types[number])
    return Origin(tuple(operands), rule, False)


def copy_origin(handle: ArrayHandle, order: str, like: ArrayHandle) -> Origin:
    """That of a copy with `order=` C, F, A or K, which an array `like` of as many axes decides."""
    type = handle.type

    def rule(given: Sequence[Operand], values: Values) -> Layout:
        return orders.dense_layout(
            concrete(type.shape, values), orders.ordered_copy(given[0], order), type.dtype.itemsize
        )

    plain = handle.ndim < 2 or order == "C" or (order != "F" and is_plain(like))
    return plain_origin(type) if plain else Origin((like,), rule, False)


def loop_origin(type: TensorType, operands: Sequence[ArrayHandle], summed: Sequence[Size]) -> Origin:
    """That of what one loop over the operands stores."""

    def rule(given: Sequence[Operand], values: Values) -> Layout:
        shape = concrete((*type.shape, *summed), values)
        kept = tuple(a for a in orders.iterator_order(shape, given) if a < type.ndim)
        return orders.dense_layout(shape[: type.ndim], kept, type.dtype.itemsize)

    plain = type.ndim < 2 or all(map(is_plain, operands))
    return plain_origin(type) if plain else Origin(tuple(operands), rule, False)


def promoted_origin(handle: ArrayHandle, dtype: DType) -> Origin:
    """That of an operand that is cast on the way into a loop."""

    def rule(given: Sequence[Operand], values: Values) -> Layout:
        (x,) = given
        strides = tuple(s // x.itemsize * dtype.itemsize for s in x.strides)
        return orders.virtual_layout(x.shape, strides, dtype.itemsize)

    return Origin((handle,), rule, is_plain(handle))


def is_plain(handle: ArrayHandle) -> bool:
    """Whether the strides fall along the axes, and none is zero, whatever the sizes are."""
    return handle.ndim == 0 or (handle.storage.origin.plain and all(v.op in IN_ORDER for v in handle.views))


# ---- at other sizes -------------------------------------------------------------------------------------------------


def behind(handles: Iterable[ArrayHandle]) -> list[ArrayHandle]:
    """These handles and all that their strides depend on, each behind its own operands."""
    found: dict[ArrayHandle, None] = {}
    waiting: list[tuple[ArrayHandle, bool]] = [(h, False) for h in handles]
    while waiting:
        handle, ready = waiting.pop()
        if ready:
            found[handle] = None
        elif handle not in found:
            waiting.append((handle, True))
            waiting += [(o, False) for o in handle.storage.origin.operands]
    return list(found)


def layouts_at(
    handles: Sequence[ArrayHandle], values: Values
) -> tuple[dict[ArrayHandle, Operand], dict[Storage, Layout]]:
    """Shapes and strides of `handles`, each of which stands behind its operands, and the layouts of their storages, at
    these sizes. Raises `Inadmissible`."""
    known: dict[ArrayHandle, Operand] = {}
    stored: dict[Storage, Layout] = {}
    for handle in handles:
        storage = handle.storage
        if storage not in stored:
            operands = [known[o] for o in storage.origin.operands]
            stored[storage] = storage.origin.rule(operands, values)
        known[handle] = _seen(handle, stored[storage], values)
    return known, stored


def _seen(handle: ArrayHandle, layout: Layout, values: Values) -> Operand:
    """A storage of this layout, through the views of a handle."""
    type = handle.storage.type
    x = Operand(concrete(type.shape, values), layout.strides, type.dtype.itemsize)
    dtype = type.dtype
    for view in handle.views:
        attrs = {k: concrete(v, values) for k, v in view.attrs}
        if view.indices:
            kept = [k for k in range(len(x.shape)) if k - len(x.shape) not in attrs["axes"]]
            x = Operand(tuple(x.shape[k] for k in kept), tuple(x.strides[k] for k in kept), x.itemsize)
            continue
        try:
            ((dtype, shape),) = infer(OPS[view.op], [(dtype, x.shape)], attrs)
        except ShapeError as error:
            raise Inadmissible from error
        strides = geometry.view_strides(view.op, attrs, x, TensorType(dtype, shape))
        x = Operand(concrete(shape, values), strides, dtype.itemsize)
    return x


def concrete(value: Any, values: Values) -> Any:
    """A size, or nested tuples of them and of other attributes, as numbers."""
    if isinstance(value, tuple):
        return tuple(concrete(v, values) for v in value)
    return evaluate(value, values) if isinstance(value, Expr) else value
