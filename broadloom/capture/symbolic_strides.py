"""Strides of views at symbolic sizes: whether NumPy reshapes them without a copy, and whether they are contiguous.

What goes in: a storage of known memory order or constant strides, the views on it, and a function that settles
equalities and comparisons of sizes. What comes out: NumPy's answer, which holds wherever the relations that were
settled hold.
What holds: the steps are NumPy's own; every comparison on the way is settled, none is sampled. Arrays without
elements are left out: they share nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from broadloom.dtypes import DType, int64
from broadloom.errors import ShapeError
from broadloom.graph.ir import Order
from broadloom.graph.storage import Storage, ViewCall
from broadloom.ops.infer import infer
from broadloom.ops.table import OPS
from broadloom.records import dataclass
from broadloom.symbolic import Relation, Size, eq, lt

Decide = Callable[[Relation | bool], bool]
Sizes = tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Walked:
    """An array's sizes and byte strides. `decide` settles relations between sizes."""

    shape: Sizes
    strides: Sizes
    dtype: DType
    decide: Decide

    def equal(self, a: Size, b: Size) -> bool:
        return self.decide(eq(a, b))

    @property
    def long_axes(self) -> list[tuple[Size, Size]]:
        """Size and stride of the axes of more than one element."""
        return [(n, s) for n, s in zip(self.shape, self.strides, strict=True) if not self.equal(n, 1)]

    def contiguous(self, *, fortran: bool) -> bool:
        """NumPy's flag of an array that has elements."""
        step: Size = self.dtype.itemsize
        axes = self.long_axes
        for n, s in axes if fortran else reversed(axes):
            if not self.equal(s, step):
                return False
            step = step * n
        return True

    def reshaped(self, shape: Sizes) -> Sizes | None:
        """Strides of the reshaped view, or None where NumPy has to copy; `graph.strides` does the same for numbers."""
        old = self.long_axes
        result: list[Size] = []
        i = j = 0
        while i < len(old) and j < len(shape):
            start_old, start_new = i, j
            count_old, count_new = old[i][0], shape[j]
            while not self.equal(count_old, count_new):  # the shortest runs of axes of one size in all
                if self.decide(lt(count_new, count_old)):
                    j += 1
                    if j == len(shape):
                        return None
                    count_new = count_new * shape[j]
                else:
                    i += 1
                    if i == len(old):
                        return None
                    count_old = count_old * old[i][0]
            if not all(self.equal(old[k][1], old[k + 1][0] * old[k + 1][1]) for k in range(start_old, i)):
                return None
            steps = [old[i][1]]
            for k in range(j, start_new, -1):
                steps.append(steps[-1] * shape[k])
            result += reversed(steps)
            i, j = i + 1, j + 1
        last = result[-1] if result else self.dtype.itemsize
        return (*result, *(last for _ in shape[len(result) :]))


def walk(storage: Storage, views: Sequence[ViewCall], decide: Decide) -> Walked | None:
    """The array that `views` show of a storage; None where one of them is no view at these sizes."""
    dtype, shape = storage.type.dtype, storage.type.shape
    layout = storage.layout
    begin = layout.strides if storage.strided else _dense(shape, layout.order, dtype.itemsize)
    x = Walked(shape, begin, dtype, decide)
    for view in views:
        attrs = view.attributes
        indices: list[tuple[DType, Sizes]] = [(int64, ()) for _ in view.indices]
        ((dtype, shape),) = infer(OPS[view.op], [(x.dtype, x.shape), *indices], attrs, decide)
        strides = _RULES[view.op](x, attrs, shape)
        if strides is None:
            return None
        x = Walked(shape, strides if dtype.itemsize == x.dtype.itemsize else _narrowed(strides, dtype), dtype, decide)
    return x


def always_contiguous(storage: Storage, views: Sequence[ViewCall]) -> bool:
    """Whether an array is C-contiguous whatever its sizes are; nothing is settled."""
    try:
        x = walk(storage, views, lambda relation: relation if isinstance(relation, bool) else False)
    except ShapeError:  # the views fit some sizes only
        return False
    if x is None:
        return False
    dense = _dense(x.shape, tuple(range(len(x.shape))), x.dtype.itemsize)
    return all(n == 1 or s == step for n, s, step in zip(x.shape, x.strides, dense, strict=True))


def _dense(shape: Sizes, order: Order, itemsize: int) -> Sizes:
    strides: list[Size] = [itemsize] * len(shape)
    step: Size = itemsize
    for axis in reversed(order):
        strides[axis] = step
        step = step * shape[axis]
    return tuple(strides)


def _narrowed(strides: Sizes, dtype: DType) -> Sizes:
    """After a change of the element's width, which is along the last axis."""
    return (*strides[:-1], dtype.itemsize) if strides else ()


def _permute(x: Walked, attrs: Mapping[str, Any], shape: Sizes) -> Sizes:
    axes = attrs["axes"]
    return (*x.strides[: len(x.shape) - len(axes)], *(x.strides[axis] for axis in axes))


def _reshape(x: Walked, attrs: Mapping[str, Any], shape: Sizes) -> Sizes | None:
    return x.reshaped(shape)


def _expand(x: Walked, attrs: Mapping[str, Any], shape: Sizes) -> Sizes:
    added = len(shape) - len(x.shape)
    kept = (s if x.equal(n, m) else 0 for n, m, s in zip(x.shape, shape[added:], x.strides, strict=True))
    return (*(0,) * added, *kept)


def _slice(x: Walked, attrs: Mapping[str, Any], shape: Sizes) -> Sizes:
    steps = attrs["steps"]
    loop = len(x.shape) - len(steps)
    return (*x.strides[:loop], *(s * step for s, step in zip(x.strides[loop:], steps, strict=True)))


def _flip(x: Walked, attrs: Mapping[str, Any], shape: Sizes) -> Sizes:
    flipped = {axis % len(x.shape) for axis in attrs["axes"]}
    return tuple(s * -1 if axis in flipped else s for axis, s in enumerate(x.strides))


def _diagonal(x: Walked, attrs: Mapping[str, Any], shape: Sizes) -> Sizes:
    ndim = len(x.shape)
    taken = (attrs["axis1"] % ndim, attrs["axis2"] % ndim)
    rest = (s for axis, s in enumerate(x.strides) if axis not in taken)
    return (*rest, x.strides[taken[0]] + x.strides[taken[1]])


def _gather(x: Walked, attrs: Mapping[str, Any], shape: Sizes) -> Sizes:
    return tuple(s for axis, s in enumerate(x.strides) if axis - len(x.strides) not in attrs["axes"])


def _same(x: Walked, attrs: Mapping[str, Any], shape: Sizes) -> Sizes:
    return x.strides


_RULES: dict[str, Callable[[Walked, Mapping[str, Any], Sizes], Sizes | None]] = {
    "permute": _permute,
    "reshape": _reshape,
    "expand": _expand,
    "slice": _slice,
    "flip": _flip,
    "diagonal": _diagonal,
    "gather": _gather,
    "view_dtype": _same,
}
