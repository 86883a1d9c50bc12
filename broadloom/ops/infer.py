"""Type inference: what an op call returns, from the op's record alone.

What goes in: an op, the (dtype, shape) of each operand, and the attributes; sizes may be symbolic. What comes out:
the (dtype, shape) of each result. What holds: nothing is computed, and whatever the reference kernel would refuse
because of dtypes, ranks, static sizes or attributes is refused here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from broadloom.dtypes import DType
from broadloom.errors import ShapeError
from broadloom.ops.record import Op
from broadloom.ops.signature import Decide, Shape

Type = tuple[DType, Shape]


def infer(op: Op, types: Sequence[Type], attrs: Mapping[str, Any], decide: Decide | None = None) -> tuple[Type, ...]:
    """The (dtype, shape) of each result of `op` on operands of `types`.

    `decide(relation) -> bool` settles what cannot be proven about symbolic sizes, as `ShapeEnv.decide` does; without
    it an open question about equal sizes is an error. Raises `ShapeError` for shapes and attributes, `DTypeError`
    for an empty cell of dtype and op.

    >>> from broadloom.dtypes import float64, int64
    >>> from broadloom.ops.table import OPS
    >>> infer(OPS["add"], [(int64, (4, 1)), (int64, (3,))], {})
    ((int64, (4, 3)),)
    >>> infer(OPS["sum"], [(float64, (2, 3))], {"axes": (-1,), "keepdims": False})
    ((float64, (2,)),)
    """
    attrs = complete(op, attrs)
    dtypes = tuple(dtype for dtype, _ in types)
    if op.arity is not None and len(types) != op.arity:
        raise ShapeError(f"{op.name}: wrong number of operands", got=len(types), allowed=str(op.arity))
    signature = op.signature(attrs)
    loop, dims = signature.bind([shape for _, shape in types], decide, op.name)
    results = op.result_dtypes(dtypes, attrs)
    if op.check is not None:
        dims = {**dims, **op.check(dims, dtypes, attrs, decide)}
    shapes = signature.output_shapes(loop, dims)
    return tuple(zip(results, shapes, strict=True))


def complete(op: Op, attrs: Mapping[str, Any]) -> dict[str, Any]:
    """`attrs` with the op's defaults filled in. Raises `ShapeError` for a missing or an unknown name."""
    filled = {**op.defaults, **attrs}
    for name in filled:
        if name not in op.attr_names:
            raise ShapeError(
                f"{op.name}: unknown attribute", got=repr(name), allowed=", ".join(op.attr_names) or "none"
            )
    for name in op.attr_names:
        if name not in filled:
            raise ShapeError(f"{op.name}: attribute {name!r} is missing", got=f"attributes {sorted(attrs)}")
    return filled
