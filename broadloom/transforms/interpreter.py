"""A level of batching on the dispatch stack: its arguments and results are tensors and arrays.

What goes in: arrays, and tensors of whatever is below on the stack. What comes out: tensors that stand for a value of
each example, and afterwards the results below.

What holds: below is the interpreter on top of the stack, or, on an empty stack, a recorder over the eager interpreter,
whose values are the arrays themselves; what was written to them is copied into them at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from broadloom.errors import TransformError
from broadloom.frontend.unsupported import Unsupported
from broadloom.graph.ir import ValueId
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle
from broadloom.tensor.dispatch import Tensor, Traced, made, traced
from broadloom.tensor.eager import EagerBuilder
from broadloom.tensor.interpreted import RecordingInterpreter
from broadloom.tensor.packed import PackedTensor, from_numpy
from broadloom.tensor.stack import Interpreter, active
from broadloom.tensor.users import raised_at, user_name
from broadloom.transforms.level import Level, shared_write


class Ground(RecordingInterpreter):
    """The bottom of the stack, where values are arrays. It is an interpreter as well, though never on the stack."""

    def __init__(self) -> None:
        self.builder = EagerBuilder()
        self.recorder = Recorder(builder=self.builder)
        self._arrays: dict[int, tuple[Any, ArrayHandle, ValueId]] = {}  # by id; the object is kept alive
        self._given_out: list[Any] = []

    def lift(self, x: Any) -> ArrayHandle:
        """An array or tensor."""
        known = self._arrays.get(id(x))
        if known is None:
            array = x.numpy() if isinstance(x, Tensor) else np.asarray(x)
            value = self.builder.adopt(array)
            handle = self.recorder.adopt(value, writeable=array.flags.writeable)
            handle.tensor, handle.packed = isinstance(x, Tensor), x.dtype if isinstance(x, PackedTensor) else None
            known = self._arrays[id(x)] = x, handle, value
        return known[1]

    def concrete(self, value: ValueId) -> Any:
        """The array that a value is."""
        return self.builder.array(value)

    def tensor(self, handle: ArrayHandle) -> Tensor:
        """A result as a tensor with memory of its own, which it shares with no other result."""
        array = self.concrete(self.recorder.read(handle))
        if handle.packed is not None:
            return from_numpy(array, handle.packed)
        if not array.flags.owndata or self.holds(array) or any(array is a for a in self._given_out):
            array = array.copy()
        self._given_out.append(array)
        return made(array)  # type: ignore[no-any-return]

    def holds(self, array: Any) -> bool:
        """Whether an array is one of those that came in."""
        return any(self.builder.array(value) is array for _, _, value in self._arrays.values())

    def refuse_overlap(self) -> None:
        """Raises `TransformError` where an array that was written has elements in common with another one."""
        arrays = [(self.builder.array(before), h.storage.value != before) for _, h, before in self._arrays.values()]
        for k, (a, written) in enumerate(arrays):
            if written and any(_overlap(a, b) for j, (b, _) in enumerate(arrays) if j != k):
                raise shared_write()

    def write_back(self) -> None:
        """Copies what was written into the arrays. A value may be a view of an array that is written as well."""
        writes = [
            (x if isinstance(x, Tensor) else made(x), self.builder.array(handle.storage.value))
            for x, handle, before in self._arrays.values()
            if handle.storage.value != before
        ]
        values = [v if v.flags.owndata and not self.holds(v) else v.copy() for _, v in writes]
        for (target, _), value in zip(writes, values, strict=True):
            target[...] = value


def _overlap(a: Any, b: Any) -> bool:
    """Whether two arrays have an element in common; True where that is hard to tell."""
    try:
        return bool(np.shares_memory(a, b, max_work=100_000))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def bottom() -> Interpreter:
    """What a transformed function called here stands on: the top of the stack, or arrays."""
    stack = active()
    return stack[-1] if stack else Ground()


@contextmanager
def unmasked() -> Iterator[None]:
    """Errors of a user's function on tensors, as its author should see them.

    NumPy replaces what a tensor raises when it is assigned to an element of an array: here that is raised itself. What
    the frontend refuses outside of a call, such as the shape of a boolean selection, is a refusal of the transform.
    """
    try:
        yield
    except Unsupported as error:
        raise TransformError(error.what, remedy=error.remedy, location=raised_at(error)) from error
    except ValueError as error:
        if isinstance(error.__cause__, TransformError):
            raise error.__cause__ from None
        raise


class BatchInterpreter(RecordingInterpreter):
    """See the module docstring."""

    def __init__(self, below: Interpreter, level: Level) -> None:
        self.below, self.level = below, level
        self.recorder = level.recorder

    def argument(self, x: Any, axis: int | None) -> Tensor:
        """An argument, batched along `axis`."""
        name = partial(user_name, x, "an unbatched argument")
        return traced(self, self.level.argument(self.below.lift(x), axis, name))  # type: ignore[no-any-return]

    def lift(self, x: Any) -> ArrayHandle:
        """An array or tensor as a handle of this level."""
        if type(x) is Traced and x._interpreter is self:
            return x._handle
        return self.level.lift(self.below.lift(x), partial(user_name, x, "an array"))

    def concrete(self, value: ValueId) -> Any:
        """The array that a value is; raises `TransformError` for one that stands for many."""
        if self.level.builder.is_batched(value):
            raise TransformError("a batched value has no data of its own")
        return self.below.concrete(self.level.builder.inner_of(value))

    def result(self, x: Any, axis: int | None, place: str) -> Tensor:
        """A result below, with the batch axis at `axis`."""
        return self.below.tensor(self.level.result(self.lift(x), axis, place))  # type: ignore[no-any-return]

    def finish(self) -> None:
        """Lets writes to arguments take effect: after the results are made, which may be views of the arguments."""
        self.level.write_back()
        if isinstance(self.below, Ground):
            self.below.refuse_overlap()
            self.below.write_back()
