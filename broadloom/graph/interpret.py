"""The interpreter, this level's oracle: what goes in are a graph and NumPy arrays, one an input; what comes out are
the outputs, fresh arrays in the graph's memory order, and the written inputs, changed in place.

What holds: every node is evaluated with its op's reference kernel; the sizes bound from the inputs fit all their
shapes; each reference returns what type inference promised (else `VerifyError`); nothing is written before all
values are known, so an error leaves the inputs as they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from broadloom.errors import DTypeError, ShapeError, VerifyError
from broadloom.graph.builder import constant_array
from broadloom.graph.ir import Constant, Graph, Input, Node, Order
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
        strides = zip(declared.strides, array.strides, strict=True)
        pairs += [(declared, s, n // array.itemsize) for s, n in strides if isinstance(s, Symbol)]
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
