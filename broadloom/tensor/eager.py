"""The eager interpreter: a builder that computes each op call at once, with the op's reference kernel.

What goes in: op calls on arrays. What comes out: arrays of the inferred types. What holds: a value never changes, so
a kernel may return a view of its operand; an array that belongs to somebody else is adopted, never written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from broadloom import dtypes
from broadloom.errors import Location, VerifyError
from broadloom.graph.builder import canonical_attributes
from broadloom.graph.ir import Node, TensorType, ValueId
from broadloom.ops.infer import infer
from broadloom.ops.record import Op
from broadloom.ops.table import OPS
from broadloom.symbolic import Relation

Array = np.ndarray[Any, Any]


class EagerBuilder:
    """See the module docstring.

    >>> b = EagerBuilder()
    >>> x = b.constant(np.array([1.0, 2.0]))
    >>> b.array(b.call("add", x, x))
    array([2., 4.])
    """

    def __init__(self) -> None:
        self.location: Location | None = None  # kernels compute at once: no call is told later where it came from
        self._arrays: list[Array] = []

    def adopt(self, array: Array) -> ValueId:
        """An array as it stands, without a copy; whoever changes it changes the value."""
        dtypes.from_numpy(array.dtype)
        return self._define(array)

    def array(self, value: ValueId) -> Array:
        """The array that a value is."""
        return self._arrays[value]

    # ---- as every builder ---------------------------------------------------------------------------------------

    def call_tuple(self, op: str | Op, *inputs: ValueId, **attrs: Any) -> tuple[ValueId, ...]:
        """Computes an op; always a tuple of results. Raises as `ops.infer` and the reference kernel do."""
        record = OPS.get(op) if isinstance(op, str) else op
        if record is None:
            raise VerifyError("no such op in the op table", got=repr(op))
        operands = [self._arrays[i] for i in inputs]
        given = dict(canonical_attributes(record, attrs))
        self.infer(record, [self.type_of(i) for i in inputs], given)
        with np.errstate(all="ignore"):
            returned = record.reference(*operands, **given)
        results = returned if isinstance(returned, tuple) else (returned,)
        return tuple(self._define(r) for r in results)

    def call(self, op: str | Op, *inputs: ValueId, **attrs: Any) -> Any:
        """Computes an op; a `ValueId` for an op of one result, else a tuple of them."""
        results = self.call_tuple(op, *inputs, **attrs)
        return results[0] if len(results) == 1 else results

    def constant(self, value: Any) -> ValueId:
        """A literal array, copied."""
        return self.adopt(np.array(value))

    def infer(self, op: Op, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> tuple[TensorType, ...]:
        """The types of an op's results."""
        inferred = infer(op, [(t.dtype, t.shape) for t in operands], attrs)
        return tuple(TensorType(dtype, tuple(shape)) for dtype, shape in inferred)

    def type_of(self, value: ValueId) -> TensorType:
        array = self._arrays[value]
        return TensorType(dtypes.from_numpy(array.dtype), array.shape)

    def decide(self, relation: Relation) -> None:
        """All sizes are known: no question is left open."""
        return None

    def key_to_draw(self, word: ValueId) -> ValueId:
        """The key itself."""
        return word

    def node_of(self, value: ValueId) -> Node | None:
        """How a value came about is not kept."""
        return None

    def _define(self, array: Array) -> ValueId:
        self._arrays.append(array)
        return ValueId(len(self._arrays) - 1)
