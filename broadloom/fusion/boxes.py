"""Values on their way from graph to loops: a tensor is a view of a storage, a storage is a function or a buffer.

What goes in: inner functions `inner(ops, index) -> value`. What comes out: `TensorBox`, whose `load` gives the value
at an index, through whatever views lie between, and `StorageBox`, which is either still a function (and will be
inlined where it is used) or a realised buffer.

What holds: views are index maps and cost nothing; a storage is realised at most once; an inner function may be run
any number of times and has no effect but on the handler it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from broadloom.dtypes import DType
from broadloom.errors import VerifyError
from broadloom.fusion.handlers import Recording
from broadloom.fusion.ir import Buffer, Layout
from broadloom.records import dataclass
from broadloom.symbolic import Size

Index = tuple[Size, ...]
Inner = Callable[["Inlining", Index], int]


@dataclass(slots=True, eq=False)
class StorageBox:
    """A value of `dtype` and `shape`: `inner` until realised, `buffer` after. `cost` estimates the work of one
    evaluation of `inner` in plain arithmetic instructions; `depth` bounds the nesting of inlined functions."""

    dtype: DType
    shape: tuple[Size, ...]
    inner: Inner | None
    buffer: Buffer | None = None
    cost: int = 0
    depth: int = 0
    origins: tuple[str, ...] = ()
    operands: tuple[StorageBox, ...] = ()  # what `inner` may read

    def reads(self, buffer: Buffer) -> bool:
        """Whether the value lies in `buffer` or is still to be computed from it."""
        pending, seen = [self], {id(self)}
        while pending:
            storage = pending.pop()
            if storage.buffer is not None:
                if storage.buffer.name == buffer.name:
                    return True
                continue
            new = [o for o in storage.operands if id(o) not in seen]
            seen.update(map(id, new))
            pending.extend(new)
        return False

    def load(self, ops: Inlining, index: Index) -> int:
        if self.buffer is not None:
            return ops.load(self.buffer.name, flat_index(self.buffer.layout, index), self.dtype)
        return ops.inline(self, index)


@dataclass(frozen=True, slots=True, eq=False)
class TensorBox:
    """A graph value: `load(ops, index)` is its element at `index`; `storage` is what a view looks at."""

    dtype: DType
    shape: tuple[Size, ...]
    load: Inner
    storage: StorageBox

    @staticmethod
    def whole(storage: StorageBox) -> TensorBox:
        return TensorBox(storage.dtype, storage.shape, storage.load, storage)

    @property
    def is_whole(self) -> bool:
        """Whether the tensor is its storage, element for element, and not a view of it."""
        return self.load == self.storage.load

    def view(self, shape: Sequence[Size], index_map: Callable[[Index], Index]) -> TensorBox:
        """The tensor of `shape` whose element at `index` is this one's at `index_map(index)`."""
        inner = self.load
        return TensorBox(self.dtype, tuple(shape), lambda ops, index: inner(ops, index_map(index)), self.storage)


class WindowedProducer(Exception):
    """Control flow of recording: `storage` is dear and was asked for at several indices, so it must be realised."""

    def __init__(self, storage: StorageBox) -> None:
        super().__init__(storage.origins)
        self.storage = storage


@dataclass(frozen=True, slots=True)
class Inline:
    """Decision: evaluate the producer again at each index."""


@dataclass(frozen=True, slots=True)
class Realize:
    """Decision: keep the producer in a buffer, because of `reason`."""

    reason: str


WINDOW_BUDGET = 24  # plain instructions of recomputation that one element may cost before a buffer is cheaper


def inline_or_realize(cost: int, reads: int) -> Inline | Realize:
    """Whether a producer of `cost` is recomputed at each of `reads` different indices.

    >>> inline_or_realize(cost=2, reads=9), inline_or_realize(cost=40, reads=2)
    (Inline(), Realize(reason='recomputing 40 instructions at 2 indices'))
    """
    if reads > 1 and (reads - 1) * cost > WINDOW_BUDGET:
        return Realize(f"recomputing {cost} instructions at {reads} indices")
    return Inline()


class Inlining(Recording):
    """A `Recording` that evaluates unrealised storages in place, each index of each storage once. It stands for so many
    `points` of the result: an index for each of them is no window."""

    def __init__(self, parent: Recording | None = None, points: int = 1) -> None:
        super().__init__(parent)
        self._inlined: dict[tuple[int, Index], int] = {}
        self._reads: dict[int, int] = parent._reads if isinstance(parent, Inlining) else {}
        self._points: int = parent._points if isinstance(parent, Inlining) else points

    def inline(self, storage: StorageBox, index: Index) -> int:
        key = (id(storage), index)
        level: Any = self
        while isinstance(level, Inlining):
            if key in level._inlined:
                return level._inlined[key]
            level = level.parent
        reads = self._reads[id(storage)] = self._reads.get(id(storage), 0) + 1
        if isinstance(inline_or_realize(storage.cost, -(-reads // self._points)), Realize):
            raise WindowedProducer(storage)
        assert storage.inner is not None, "a storage is a function or a buffer"
        operand = self._inlined[key] = storage.inner(self, index)
        return operand


def flat_index(layout: Layout, index: Index) -> Size:
    """The element offset of `index`.

    >>> flat_index(Layout((2, 3), (3, 1), 4), (1, 2))
    9
    """
    flat: Size = layout.offset
    for i, stride in zip(index, layout.strides, strict=True):
        flat = flat + i * stride
    return flat


def broadcast_index(index: Index, shape: Sequence[Size], into: Sequence[Size]) -> Index:
    """The index into an operand of `shape` for `index` into the broadcast shape `into`.

    >>> broadcast_index((4, 2), (1, 3), (5, 3)), broadcast_index((4, 2), (3,), (5, 3))
    ((0, 2), (2,))
    """
    skipped = len(into) - len(shape)
    return tuple(
        0 if size == 1 and into[skipped + axis] != 1 else index[skipped + axis] for axis, size in enumerate(shape)
    )


def contiguous(shape: Sequence[Size], order: Sequence[int] | None = None) -> Layout:
    """The dense layout of `shape` with axes in memory `order`, outermost first (default: C order).

    >>> contiguous((2, 3, 5)).strides, contiguous((2, 3), order=(1, 0)).strides
    ((15, 5, 1), (1, 2))
    """
    axes = range(len(shape)) if order is None else order
    if sorted(axes) != list(range(len(shape))):
        raise VerifyError("a memory order leaves out axes, or names too many", got=f"{order} for shape {shape}")
    strides: list[Size] = [1] * len(shape)
    step: Size = 1
    for axis in reversed(axes):
        strides[axis] = step
        # An axis of size 0 must not zero the strides of the others.
        step = step * (1 if shape[axis] == 0 else shape[axis])
    return Layout(tuple(shape), tuple(strides))
