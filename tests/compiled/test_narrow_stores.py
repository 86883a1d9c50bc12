"""Integers that are cut down to fewer bits as they are stored: what lies behind the last of them stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import broadloom as bl

Array = np.ndarray[Any, Any]
WIDE = {"int64": ("int32", "uint32", "int16", "uint8"), "uint32": ("int16", "uint8"), "int16": ("int8", "uint8")}


@pytest.mark.parametrize("shape", [(9,), (17,), (33,), (65,), (129,), (3, 9), (2, 33), (2, 1, 65)])
@pytest.mark.parametrize(("wide", "narrow"), [(w, n) for w, found in WIDE.items() for n in found])
def test_one_element_behind_whole_vectors(wide: str, narrow: str, shape: tuple[int, ...], rng: Any) -> None:
    """LLVM knows the mask of the last vector where sizes are known."""

    def function(x: Array, cut: Array) -> Array:
        y = x * 0.5  # the elements are wanted as they are, too
        cut[...] = x.astype(narrow)
        return y

    room = np.full((*shape[:-1], shape[-1] + 16), 77, narrow)
    x = rng.integers(0, 1 << 14, (*shape[:-1], shape[-1] + 3)).astype(wide)[..., 1:-2]
    f = bl.compile(function, fullgraph=True, dynamic=False)
    np.testing.assert_array_equal(f(x, room[..., : shape[-1]]), x * 0.5)
    np.testing.assert_array_equal(room[..., : shape[-1]], x.astype(narrow))
    assert (room[..., shape[-1] :] == 77).all()
