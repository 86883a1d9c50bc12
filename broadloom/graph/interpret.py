"""The interpreter, this level's oracle: what goes in are a graph and NumPy arrays, one an input; what comes out are
the outputs, fresh arrays in the graph's memory order, and the written inputs, changed in place.

What holds: every node is evaluated with its op's reference kernel; the sizes bound from the inputs fit all their
shapes; each reference returns what type inference promised (else `VerifyError`); nothing is written before all
values are known, so an error leaves the inputs as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from broadloom.dtypes import DType
from broadloom.errors import DTypeError, ShapeError, VerifyError
from broadloom.graph.builder import constant_array
from broadloom.graph.ir import Constant, Graph, Input, Node, Order
from broadloom.graph.storage import ViewCall
from broadloom.symbolic import Expr, Size, Symbol, evaluate

Bindings = Mapping[Symbol, int]


def interpret(graph: Graph, arguments: Sequence[Any]) -> tuple[np.ndarray, ...]:
    """The outputs of `graph`. Raises `ShapeError`/`DTypeError` for arguments that do not fit the inputs, and what
    the reference kernels raise (`IndexError`, `LinAlgError`)."""
    values, _ = evaluate_all(graph, arguments)
    outputs = tuple(ordered_copy(values[o.value], o.order) for o in graph.outputs)
    # copies, because a value may be a view of an input that another write changes
    written = [(w.input, values[w.value].copy()) for w in graph.writes]
    for target, value in written:
        arguments[target][...] = value
    return outputs


def evaluate_all(graph: Graph, arguments: Sequence[Any]) -> tuple[list[np.ndarray], dict[Symbol, int]]:
    """Every value of the graph, by id, and the sizes. Values may be views of the arguments."""
    bindings = bind_symbols(graph.inputs, arguments)
    values = [np.asarray(a, dtype=i.type.dtype.numpy) for i, a in zip(graph.inputs, arguments, strict=True)]
    for fact in graph.facts:
        if not fact.holds(bindings):
            raise ShapeError("the graph was made for other sizes", got=bindings, allowed=str(fact))
    for node in graph.nodes:
        values.extend(_evaluate_node(node, values, bindings, graph.constants, len(values)))
    return values, bindings


def bind_symbols(inputs: Sequence[Input], arguments: Sequence[Any]) -> dict[Symbol, int]:
    """The sizes and strides read off the arguments. Raises `ShapeError` or `DTypeError` if they do not fit."""
    if len(inputs) != len(arguments):
        raise ShapeError("wrong number of arguments", got=len(arguments), allowed=str(len(inputs)))
    bindings: dict[Symbol, int] = {}
    pairs: list[tuple[Input, Size, int]] = []
    for declared, argument in zip(inputs, arguments, strict=True):
        if declared.kind == "size" and declared.size is not None:
            pairs.append((declared, declared.size, int(argument)))
            continue
        array = np.asarray(argument)
        if declared.kind == "array" and array.dtype != declared.type.dtype.numpy:
            raise DTypeError(f"input {declared.name}", got=array.dtype, allowed=str(declared.type.dtype))
        if array.ndim != declared.type.ndim:
            raise ShapeError(f"input {declared.name}: axes", got=array.ndim, allowed=str(declared.type.ndim))
        pairs += [(declared, size, n) for size, n in zip(declared.type.shape, array.shape, strict=True)]
        # a size as the stride of a contiguous axis is not read off: NumPy's strides of empty arrays are arbitrary
        strides = zip(declared.strides, array.strides, strict=True)
        own = set(declared.type.shape)
        pairs += [(declared, s, n // array.itemsize) for s, n in strides if isinstance(s, Symbol) and s not in own]
    for _, size, actual in pairs:
        if isinstance(size, Symbol):
            bindings.setdefault(size, actual)
    for declared, size, actual in pairs:
        expected = concrete(size, bindings)
        if expected != actual:
            raise ShapeError(f"input {declared.name}: size", got=actual, allowed=f"{size} = {expected}")
    return bindings


def concrete(value: Any, bindings: Bindings) -> Any:
    """An attribute value or size with its symbols replaced by their values."""
    if isinstance(value, Expr):
        return evaluate(value, bindings)
    if isinstance(value, tuple):
        return tuple(concrete(v, bindings) for v in value)
    return value


def _evaluate_node(
    node: Node, values: Sequence[np.ndarray], bindings: Bindings, constants: Mapping[str, np.ndarray], first: int
) -> tuple[np.ndarray, ...]:
    if isinstance(node.op, Constant):
        return (constant_array(node.op, constants),)
    attrs = {name: concrete(value, bindings) for name, value in node.attrs}
    with np.errstate(all="ignore"):
        returned = node.op.reference(*(values[i] for i in node.inputs), **attrs)
    results = returned if isinstance(returned, tuple) else (returned,)
    for k, (result, expected) in enumerate(zip(results, node.types, strict=True)):
        shape = concrete(expected.shape, bindings)
        if not isinstance(result, np.ndarray) or result.shape != shape or result.dtype != expected.dtype.numpy:
            raise VerifyError(
                f"%{first + k} = {node.op.name}: the reference does not return the inferred type",
                got=f"{getattr(result, 'dtype', type(result))}{getattr(result, 'shape', '')}",
                allowed=f"{expected.dtype}{shape}",
                location=node.location,
            )
    return results


def ordered_copy(value: np.ndarray, order: Order) -> np.ndarray:
    """A fresh copy whose axes lie in memory in `order`, outermost first.

    >>> ordered_copy(np.zeros((2, 3)), (1, 0)).strides
    (8, 16)
    """
    memory = np.empty([value.shape[axis] for axis in order], dtype=value.dtype)
    copy = memory.transpose(np.argsort(np.array(order, dtype=np.intp)))
    copy[...] = value
    return copy


def apply_views(array: np.ndarray, views: Sequence[ViewCall], bindings: Bindings) -> np.ndarray:
    """`array` seen through a chain of views, as a NumPy view of the same memory.

    Raises `VerifyError` where NumPy has no such view: the recorder makes a copy there.
    """
    for call in views:
        attrs = {name: concrete(value, bindings) for name, value in call.attrs}
        view = VIEWS[call.op](array, **attrs)
        if view.size and not np.may_share_memory(view, array):
            raise VerifyError("a view call made a copy", got=f"{call.op} of strides {array.strides}")
        array = view
    return array


def _permute(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    loop = x.ndim - len(axes)
    return x.transpose((*range(loop), *(x.ndim + a for a in axes)))


def _reshape(x: np.ndarray, core: int, shape: tuple[int, ...]) -> np.ndarray:
    return x.reshape((*x.shape[: x.ndim - core], *shape))


def _expand(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    full = (*x.shape[: max(0, x.ndim - len(shape))], *shape)
    if full[len(full) - x.ndim :] == x.shape and all(n == 1 for n in full[: len(full) - x.ndim]):
        return x[(*(np.newaxis for _ in range(len(full) - x.ndim)), ...)]  # stays writeable
    return np.broadcast_to(x, full)


def _slice(x: np.ndarray, starts: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...]) -> np.ndarray:
    key: tuple[Any, ...] = (..., *map(slice_of, starts, sizes, steps))
    return np.asarray(x[key])


def slice_of(start: int, size: int, step: int) -> slice:
    """The Python slice of elements start + j*step, j < size."""
    if size == 0:
        return slice(0, 0, step or 1)
    stop = start + size * step
    return slice(start, None if stop < 0 else stop, step)


def _diagonal(x: np.ndarray, offset: int, axis1: int, axis2: int) -> np.ndarray:
    return np.diagonal(x, offset, axis1, axis2)


def _view_dtype(x: np.ndarray, dtype: DType) -> np.ndarray:
    return x.view(dtype.numpy)


def _flip(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    flipped = {x.ndim + a for a in axes}
    return np.asarray(x[(..., *(slice(None, None, -1) if a in flipped else slice(None) for a in range(x.ndim)))])


VIEWS: dict[str, Callable[..., np.ndarray]] = {
    "permute": _permute,
    "reshape": _reshape,
    "expand": _expand,
    "slice": _slice,
    "flip": _flip,
    "diagonal": _diagonal,
    "view_dtype": _view_dtype,
}
