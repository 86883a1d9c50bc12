"""Inverses of views: how a write through a view becomes a new value of its base.

What goes in: the builder, the base's value, the new value of the whole view, and the view's attributes. What comes
out: the base's new value. What holds: viewing the result gives the new value back, and nothing else has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from broadloom import dtypes
from broadloom.graph.builder import Builder
from broadloom.graph.ir import TensorType, ValueId

Inverse = Callable[[Builder, ValueId, ValueId, dict[str, Any]], ValueId]


def _put_permute(b: Builder, base: ValueId, value: ValueId, attrs: dict[str, Any]) -> ValueId:
    axes: tuple[int, ...] = attrs["axes"]
    inverse = [0] * len(axes)
    for j, axis in enumerate(axes):
        inverse[axis] = j - len(axes)
    return b.call_tuple("permute", value, axes=tuple(inverse))[0]


def _put_reshape(b: Builder, base: ValueId, value: ValueId, attrs: dict[str, Any]) -> ValueId:
    shape = b.type_of(base).shape
    core: int = attrs["core"]
    return b.call_tuple("reshape", value, core=len(attrs["shape"]), shape=shape[len(shape) - core :])[0]


def _put_expand(b: Builder, base: ValueId, value: ValueId, attrs: dict[str, Any]) -> ValueId:
    # only views that add axes of one element are writeable
    return b.call_tuple("reshape", value, core=b.type_of(value).ndim, shape=b.type_of(base).shape)[0]


def _put_slice(b: Builder, base: ValueId, value: ValueId, attrs: dict[str, Any]) -> ValueId:
    return b.call_tuple("slice_update", base, value, **attrs)[0]


def _put_flip(b: Builder, base: ValueId, value: ValueId, attrs: dict[str, Any]) -> ValueId:
    return b.call_tuple("flip", value, **attrs)[0]


def _put_view_dtype(b: Builder, base: ValueId, value: ValueId, attrs: dict[str, Any]) -> ValueId:
    return b.call_tuple("view_dtype", value, dtype=b.type_of(base).dtype)[0]


def _put_diagonal(b: Builder, base: ValueId, value: ValueId, attrs: dict[str, Any]) -> ValueId:
    offset, axis1, axis2 = attrs["offset"], attrs["axis1"], attrs["axis2"]
    ndim = b.type_of(value).ndim
    core = max(-axis1, -axis2) - 1  # of the value: what is left of the base's core, then the diagonal
    size = b.type_of(value).shape[ndim - 1]
    iota = b.call_tuple("iota", size=size, dtype=dtypes.int64)[0]
    shifted = b.call_tuple("add", iota, b.constant(np.int64(abs(offset))))[0] if offset else iota
    rows, columns = (iota, shifted) if offset >= 0 else (shifted, iota)
    front = b.call_tuple("permute", value, axes=(-1, *range(-core, -1)))[0]
    scattered = {"axes": (axis1, axis2), "core": core + 1, "mode": "set", "index_rank": 1}
    return b.call_tuple("scatter", base, front, rows, columns, **scattered)[0]


INVERSES: dict[str, Inverse] = {
    "permute": _put_permute,
    "reshape": _put_reshape,
    "expand": _put_expand,
    "slice": _put_slice,
    "flip": _put_flip,
    "view_dtype": _put_view_dtype,
    "diagonal": _put_diagonal,
}


def keeps_writeable(name: str, old: TensorType, new: TensorType) -> bool:
    """Whether NumPy leaves a view writeable: all but those that repeat elements."""
    added = new.ndim - old.ndim
    return name != "expand" or (all(n == 1 for n in new.shape[:added]) and new.shape[added:] == old.shape)
