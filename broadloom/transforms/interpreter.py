"""One level of batching on the dispatch stack.

What goes in: arrays and tensors, batched along an axis or the same for all examples, and those that the function
reaches from outside. What comes out: handles of a recorder over a `BatchBuilder`, and, afterwards, the results and the
new values of arguments that were written.

What holds: the level below - another level, or arrays themselves - holds all examples, their axis in front. What the
function reaches from outside is read, once it is used; a write to it is refused by its name.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from broadloom.errors import TransformError
from broadloom.graph.builder import Builder
from broadloom.graph.ir import ValueId
from broadloom.graph.storage import ArrayHandle, Recorder
from broadloom.tensor.dispatch import Tensor, Traced, made, traced
from broadloom.tensor.eager import EagerBuilder
from broadloom.tensor.stack import Interpreter, active
from broadloom.tensor.users import user_name
from broadloom.transforms.batching import BatchBuilder


class Below:
    """What a level of batching stands on: the interpreter on top of the stack, or arrays."""

    def __init__(self) -> None:
        stack = active()
        self.interpreter: Interpreter | None = stack[-1] if stack else None
        self.eager = EagerBuilder()

    @property
    def builder(self) -> Builder:
        return self.eager if self.interpreter is None else self.interpreter.recorder.builder

    def value(self, x: Any) -> ValueId:
        """An array or tensor as a value of the builder."""
        if self.interpreter is not None:
            return self.interpreter.recorder.read(self.interpreter.lift(x))
        return self.eager.adopt(_array(x))

    def tensor(self, value: ValueId) -> Tensor:
        """A value of the builder as a tensor."""
        if self.interpreter is None:
            return made(self.eager.array(value))  # type: ignore[no-any-return]
        return traced(self.interpreter, self.interpreter.recorder.adopt(value))  # type: ignore[no-any-return]

    def concrete(self, value: ValueId) -> Any:
        """The array that a value is."""
        return self.eager.array(value) if self.interpreter is None else self.interpreter.concrete(value)

    def write(self, x: Any, value: ValueId) -> None:
        """Gives an argument, in the caller's memory, new elements."""
        if self.interpreter is None:
            np.copyto(_array(x), self.eager.array(value))
        else:
            target = self.interpreter.lift(x)
            self.interpreter.recorder.write(target, self.interpreter.recorder.adopt(value))


def _array(x: Any) -> np.ndarray[Any, Any]:
    return x.numpy() if isinstance(x, Tensor) else np.asarray(x)


class BatchInterpreter:
    """See the module docstring."""

    def __init__(self, size: int) -> None:
        self.below = Below()
        self.builder = BatchBuilder(self.below.builder, size)
        self.recorder = Recorder(builder=self.builder)
        self._lifted: dict[int, tuple[Any, ArrayHandle]] = {}  # by the id of the object, which is kept alive

    def argument(self, x: Any, axis: int | None) -> Traced:
        """An argument, batched along `axis`."""
        value = self.below.value(x)
        if axis is not None:
            value = to_front(self.below.builder, value, axis)
        held = self.builder.adopt(value, batched=axis is not None)
        handle = self.recorder.adopt(held, captured=None if axis is not None else user_name(x, "an unbatched argument"))
        return traced(self, handle)  # type: ignore[no-any-return]

    def lift(self, x: Any) -> ArrayHandle:
        """An array or tensor as a handle of this level: as it is, or the same for all examples."""
        if type(x) is Traced and x._interpreter is self:
            return x._handle
        known = self._lifted.get(id(x))
        if known is None:
            value = self.builder.adopt(self.below.value(x), batched=False)
            name = user_name(x, "an array")
            known = self._lifted[id(x)] = x, self.recorder.adopt(value, captured=name)
        return known[1]

    def concrete(self, value: ValueId) -> Any:
        """The array that a value is; raises `TransformError` for one that stands for many."""
        if self.builder.is_batched(value):
            raise TransformError("a batched value has no data of its own")
        return self.below.concrete(self.builder.inner_of(value))

    def result(self, x: Any, axis: int | None, place: str) -> Tensor:
        """A result with the batch axis at `axis`; None: it has none."""
        value = self.recorder.read(self.lift(x))
        if axis is None:
            if self.builder.is_batched(value):
                raise TransformError(
                    f"out_axes is None for {place}, which differs between examples",
                    allowed="an axis",
                    remedy="give an axis in out_axes, or reduce the result",
                )
            return self.below.tensor(self.builder.inner_of(value))
        return self.below.tensor(from_front(self.below.builder, self.builder.materialised(value), axis, place))


def to_front(b: Builder, value: ValueId, axis: int) -> ValueId:
    """The value with `axis` moved to the front."""
    ndim = b.type_of(value).ndim
    axis += ndim if axis < 0 else 0
    if axis == 0:
        return value
    order = (axis, *(a for a in range(ndim) if a != axis))
    moved: ValueId = b.call("permute", value, axes=tuple(a - ndim for a in order))
    return moved


def from_front(b: Builder, value: ValueId, axis: int, place: str) -> ValueId:
    """The value with its first axis moved to `axis`. Raises `TransformError` where there is no such axis."""
    ndim = b.type_of(value).ndim
    if not -ndim <= axis < ndim:
        raise TransformError(f"out_axes for {place}", got=axis, allowed=f"{-ndim} to {ndim - 1}", remedy="correct it")
    axis += ndim if axis < 0 else 0
    if axis == 0:
        return value
    order = [*range(1, axis + 1), 0, *range(axis + 1, ndim)]
    moved: ValueId = b.call("permute", value, axes=tuple(a - ndim for a in order))
    return moved
