"""One level of batching: handles of the recorder below become handles of one example, and results come back.

What goes in: handles of the recorder below, each with the axis that counts the examples or without one. What comes
out: handles of `recorder`, which records over a `BatchBuilder`; then, of results, handles below.

What holds: below, all examples are held, their axis in front. Whoever runs the function between the two - Python on
tensors, or the abstract evaluator - uses `recorder` for every call. A write to an argument goes back to the handle that
it came from; what is lifted was reached from outside, and a write to it is refused by its name.
"""

from __future__ import annotations

from collections.abc import Callable

from broadloom.errors import Location, TransformError
from broadloom.graph.builder import Builder
from broadloom.graph.ir import ValueId
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle
from broadloom.records import dataclass
from broadloom.symbolic import Size
from broadloom.transforms.batching import BatchBuilder, Randomness


@dataclass(frozen=True, slots=True)
class Argument:
    """A handle of one example, where it came from, and its value at the start."""

    inside: ArrayHandle
    outside: ArrayHandle
    axis: int
    value: ValueId


class Level:
    """See the module docstring."""

    def __init__(self, below: Recorder, size: Size, randomness: Randomness = "error") -> None:
        self.below = below
        self.builder = BatchBuilder(below.builder, size, randomness)
        self.recorder = below.over(self.builder)
        self.recorder.location = below.location
        self._arguments: list[Argument] = []
        self._lifted: dict[ArrayHandle, tuple[int, ArrayHandle]] = {}

    def argument(
        self, x: ArrayHandle, axis: int | None, name: Callable[[], str], *, writeable: bool = True
    ) -> ArrayHandle:
        """An argument, batched along `axis`, or the same for all examples. Writes go back if it is `writeable`.

        What is given twice is one argument, so that each sees what is written to the other."""
        if axis is None:
            return self.lift(x, name)
        for a in self._arguments:
            if a.axis == axis and _is_same(a.outside, x) and a.inside.writeable == (writeable and x.writeable):
                return a.inside
        value = self.builder.adopt(to_front(self.below.builder, self.below.read(x), axis), batched=True)
        handle = self.recorder.adopt(value, writeable=writeable and x.writeable)
        handle.tensor, handle.packed = x.tensor, x.packed
        self._arguments.append(Argument(handle, x, axis, value))
        return handle

    def lift(self, x: ArrayHandle, name: Callable[[], str]) -> ArrayHandle:
        """A handle below, as all examples see it; `name` tells what the user calls it."""
        version, known = self._lifted.get(x, (-1, x))
        if version != x.storage.version:
            value = self.builder.adopt(self.below.read(x), batched=False)
            known = self.recorder.adopt(value, writeable=x.writeable, captured=name)
            known.numpy_scalar, known.tensor, known.packed = x.numpy_scalar, x.tensor, x.packed
            self._lifted[x] = x.storage.version, known
        return known

    def result(self, x: ArrayHandle, axis: int | None, place: str) -> ArrayHandle:
        """A result below, with the batch axis at `axis`; None: it has none. Raises `TransformError`."""
        value = self.recorder.read(x)
        if axis is None:
            if self.builder.is_batched(value):
                raise TransformError(
                    f"out_axes is None for {place}, which differs between examples",
                    allowed="an axis",
                    remedy="give an axis in out_axes, or reduce the result",
                )
            moved = self.builder.inner_of(value)
        else:
            moved = from_front(self.below.builder, self.builder.materialised(value), axis, place)
        handle = self.below.adopt(moved)
        handle.tensor, handle.packed = x.tensor, x.packed
        return handle

    def write_back(self) -> None:
        """Gives the arguments below the elements that were written to them."""
        builder = self.below.builder
        for a in self._arguments:
            value = a.inside.storage.value
            if value != a.value:
                others = (*(o.outside for o in self._arguments if o is not a), *self._lifted)
                if any(_is_same(o, a.outside) for o in others):
                    raise shared_write(self.recorder.location)
                moved = from_front(builder, self.builder.materialised(value), a.axis, "an argument")
                if builder.type_of(moved) != a.outside.type:  # the batch is named by another argument's symbol
                    moved = builder.call("expand", moved, shape=a.outside.shape)
                self.below.write(a.outside, self.below.adopt(moved))


def _is_same(x: ArrayHandle, y: ArrayHandle) -> bool:
    return x.storage is y.storage and x.views == y.views


def shared_write(location: Location | None = None) -> TransformError:
    """The refusal of a write that examples would see of each other in a loop, and do not if they run together."""
    return TransformError(
        "a write to a batched argument that shares memory with another argument or a captured array",
        got="examples that would see each other's writes",
        allowed="writes to arguments that are apart; an array given twice, along one axis",
        remedy="pass a copy of one of them",
        location=location,
    )


def to_front(b: Builder, value: ValueId, axis: int) -> ValueId:
    """The value with `axis`, counted from the front, moved to the front."""
    ndim = b.type_of(value).ndim
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
    order = (*range(1, axis + 1), 0, *range(axis + 1, ndim))
    moved: ValueId = b.call("permute", value, axes=tuple(a - ndim for a in order))
    return moved
