"""What a caller sees of a function's results and arguments."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np


def clones(arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Copies that share memory, and are one object, where the originals do."""
    bases: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    made: dict[int, np.ndarray] = {}
    for x in arrays:
        base = x
        while isinstance(base.base, np.ndarray):
            base = base.base
        _, memory = bases.setdefault(id(base), (base, base.copy(order="K")))
        offset = x.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        made.setdefault(id(x), np.ndarray(x.shape, x.dtype, memory, offset, x.strides))
    return [made[id(x)] for x in arrays]


def seen(value: Any, *, layout: bool = True) -> Any:
    """All that can be seen of a result; nans are alike, strides of one-element axes do not count. Without `layout`, not
    how it lies in memory, and whether that may be written."""
    if not isinstance(value, np.ndarray | np.generic):
        return type(value), value
    x = np.asarray(value)
    data = np.where(np.isnan(x), np.nan, x).tobytes() if x.dtype.kind in "fc" else x.tobytes()
    strides = [s for s, n in zip(x.strides, x.shape, strict=True) if n > 1] if x.size and layout else None
    writeable = layout and isinstance(value, np.ndarray) and value.flags.writeable
    return type(value), x.dtype, x.shape, strides, writeable, data


def relations(values: list[Any]) -> list[tuple[bool, bool]]:
    """Identity and shared memory of each pair of arrays."""
    arrays = [v for v in values if isinstance(v, np.ndarray)]
    return [(a is b, np.shares_memory(a, b)) for a, b in itertools.combinations(arrays, 2)]
