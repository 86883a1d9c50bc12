"""The batching interpreter: a builder that runs a program for many examples by calling each op once on all of them.

What goes in: op calls on values of one example. What comes out: the same calls on an inner builder - one that makes a
graph, one that computes, or another of this kind - whose values hold all examples, their batch axis in front.

What holds: there is one rule and no table of ops. Where an operand is batched, 1s are put behind its batch axis until
all batched operands have the same number of loop dims, and the op is called as it is: its attributes speak of core
dims and count from the end, and its loop dims broadcast (NEP 20), so an axis in front changes nothing. A call whose
operands are all unbatched stays unbatched, and is made once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from broadloom.dtypes import uint64
from broadloom.errors import Location, ShapeError, TransformError, VerifyError
from broadloom.graph.builder import Builder, canonical_attributes
from broadloom.graph.ir import Node, TensorType, ValueId
from broadloom.ops.infer import infer
from broadloom.ops.record import Op
from broadloom.ops.signature import equal
from broadloom.ops.table import OPS
from broadloom.records import dataclass
from broadloom.symbolic import Relation, Size

Randomness = Literal["error", "same", "different"]
EXAMPLE = 0xFFFFFFFD << 32  # the stream of random numbers that the keys of examples are made from


@dataclass(frozen=True, slots=True)
class Batched:
    """A value of one example: `inner` is the inner builder's value, which has the batch axis in front if `batched`."""

    inner: ValueId
    type: TensorType
    batched: bool
    node: Node | None = None


class BatchBuilder:
    """See the module docstring.

    >>> from broadloom import dtypes
    >>> from broadloom.graph.builder import GraphBuilder
    >>> graph = GraphBuilder("f")
    >>> b = BatchBuilder(graph, 5)
    >>> x = b.adopt(graph.input("x", TensorType(dtypes.float32, (5, 3))), batched=True)
    >>> y = b.adopt(graph.input("y", TensorType(dtypes.float32, (2, 3))), batched=False)
    >>> z = b.call("add", x, y)
    >>> b.type_of(z).shape, graph.type_of(b.inner_of(z)).shape
    ((2, 3), (5, 2, 3))
    """

    def __init__(self, inner: Builder, size: Size, randomness: Randomness = "error") -> None:
        """`size`: the number of examples. `randomness`: what a draw from a key that all of them share does."""
        self.inner, self.size, self.randomness = inner, size, randomness
        self._values: list[Batched] = []

    @property
    def location(self) -> Location | None:
        """The user's line that the next calls belong to."""
        return self.inner.location

    @location.setter
    def location(self, value: Location | None) -> None:
        self.inner.location = value

    # ---- in and out ---------------------------------------------------------------------------------------------

    def adopt(self, inner: ValueId, *, batched: bool) -> ValueId:
        """A value of the inner builder, which has the batch axis in front if `batched`.

        Raises `ShapeError` if that axis is not as long as the batch."""
        found = self.inner.type_of(inner)
        if not batched:
            return self._define(Batched(inner, found, False))
        if not found.shape or equal(found.shape[0], self.size, self.decide) is not True:
            raise ShapeError("a batched value needs the batch axis in front", got=found, allowed=f"{self.size} first")
        return self._define(Batched(inner, TensorType(found.dtype, found.shape[1:]), True))

    def inner_of(self, value: ValueId) -> ValueId:
        """The inner builder's value."""
        return self._values[value].inner

    def is_batched(self, value: ValueId) -> bool:
        """Whether examples may differ in this value."""
        return self._values[value].batched

    def materialised(self, value: ValueId) -> ValueId:
        """The inner value with the batch axis in front, also where all examples share one."""
        v = self._values[value]
        if v.batched:
            return v.inner
        shape = v.type.shape
        lead = self.inner.call("reshape", v.inner, core=len(shape), shape=(1, *shape))
        expanded: ValueId = self.inner.call("expand", lead, shape=(self.size, *shape))
        return expanded

    # ---- as every builder ---------------------------------------------------------------------------------------

    def call_tuple(self, op: str | Op, *inputs: ValueId, **attrs: Any) -> tuple[ValueId, ...]:
        """Calls an op for all examples; always a tuple of results. Raises as `ops.infer` does."""
        record = OPS.get(op) if isinstance(op, str) else op
        if record is None:
            raise VerifyError("no such op in the op table", got=repr(op))
        operands = [self._values[i] for i in inputs]
        canonical = canonical_attributes(record, attrs)
        given = dict(canonical)
        types = self.infer(record, [v.type for v in operands], given)
        batched = any(v.batched for v in operands)
        inner = self._aligned(record, given, operands) if batched else [v.inner for v in operands]
        results = self.inner.call_tuple(record, *inner, **given)
        node = Node(record, inputs, canonical, types, self.location)
        return tuple(self._define(Batched(i, t, batched, node)) for i, t in zip(results, types, strict=True))

    def call(self, op: str | Op, *inputs: ValueId, **attrs: Any) -> Any:
        """Calls an op; a `ValueId` for an op of one result, else a tuple of them."""
        results = self.call_tuple(op, *inputs, **attrs)
        return results[0] if len(results) == 1 else results

    def constant(self, value: Any) -> ValueId:
        """A literal array, the same for all examples."""
        inner = self.inner.constant(value)
        return self._define(Batched(inner, self.inner.type_of(inner), False, self.inner.node_of(inner)))

    def infer(self, op: Op, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> tuple[TensorType, ...]:
        """The types of an op's results for one example."""
        inferred = infer(op, [(t.dtype, t.shape) for t in operands], attrs, self.decide)
        return tuple(TensorType(dtype, tuple(shape)) for dtype, shape in inferred)

    def type_of(self, value: ValueId) -> TensorType:
        """The type that one example sees."""
        return self._values[value].type

    def decide(self, relation: Relation) -> Any:
        """Whether a relation between sizes holds, as the inner builder says."""
        return self.inner.decide(relation)

    def node_of(self, value: ValueId) -> Node | None:
        """The call that a value is a result of, in terms of one example; None for a value that was adopted."""
        return self._values[value].node

    def key_to_draw(self, word: ValueId) -> ValueId:
        """A key of each example's own: where all share one, by `randomness` an error, that key, or one made of it and
        the example's number."""
        v = self._values[word]
        inner = self.inner.key_to_draw(v.inner)
        if v.batched or self.randomness == "same":
            return self.adopt(inner, batched=v.batched)
        if self.randomness == "error":
            raise TransformError(
                "random numbers drawn with a key that all examples share",
                got="an unbatched key",
                allowed="a key for each example",
                remedy="map the function over bl.random.split(key, n), or give vmap randomness='same' or 'different'",
                location=self.location,
            )
        shape = (self.size, *(1,) * self.inner.type_of(inner).ndim)
        number = self.inner.call("iota", size=self.size, dtype=uint64)
        index = self.inner.call("reshape", number, core=1, shape=shape)
        stream = self.inner.constant(np.uint64(EXAMPLE))
        return self.adopt(self.inner.call("philox", index, stream, inner, word=0), batched=True)

    # ---- the rule -----------------------------------------------------------------------------------------------

    def _aligned(self, op: Op, attrs: Mapping[str, Any], operands: Sequence[Batched]) -> list[ValueId]:
        """The inner operands, all of the batched ones with the same number of loop dims behind the batch axis."""
        cores = op.signature(attrs).core_ranks(len(operands))
        loops = [max(0, v.type.ndim - core) for v, core in zip(operands, cores, strict=True)]
        rank = max(loops)
        return [
            self._padded(v, loop, rank, core) if v.batched else v.inner
            for v, loop, core in zip(operands, loops, cores, strict=True)
        ]

    def _padded(self, v: Batched, loop: int, rank: int, core: int) -> ValueId:
        """1s in front of the loop dims, up to `rank`, and of the core dims where they may be left out (`n?|1`)."""
        shape = v.type.shape
        lacking = core - (len(shape) - loop)
        if loop == rank and not lacking:
            return v.inner
        padded = (*(1,) * (rank - loop), *shape[:loop], *(1,) * lacking, *shape[loop:])
        reshaped: ValueId = self.inner.call("reshape", v.inner, core=len(shape), shape=padded)
        return reshaped

    def _define(self, value: Batched) -> ValueId:
        self._values.append(value)
        return ValueId(len(self._values) - 1)
