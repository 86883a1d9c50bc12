"""Every function of the frontend on packed integers: right modulo 2**bits, or refused by name, never silently wrong."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import broadloom as bl
from broadloom.dtypes import PACKED, DType
from broadloom.frontend import FUNCTIONS
from broadloom.tensor.dispatch import call
from broadloom.tensor.packed import PackedTensor
from tests.tensor.test_packed import drawn, modulo, tensor

# They give 8-bit integers that are no packed ones.
EIGHT_BITS = {np.bitwise_count, np.uint8, np.int8}
NUMPYS = [
    f for f in FUNCTIONS if (getattr(f, "__module__", None) or "numpy").startswith(("numpy", "_operator", "builtins"))
]


def numpys(function: Callable[..., Any], *arrays: np.ndarray) -> tuple[Any, ...] | None:
    """What NumPy gives, as a tuple; None where it refuses."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            result = function(*(a.copy() for a in arrays))
        except (TypeError, ValueError, LookupError, np.linalg.LinAlgError):
            return None
    return tuple(result) if isinstance(result, tuple | list) else (result,)


def taken(function: Callable[..., Any], dtype: DType, count: int, rng: np.random.Generator) -> bool:
    """Whether a function takes so many packed matrices, which it then does rightly."""
    values = [drawn((4, 4), dtype, rng) for _ in range(count)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = call(function, *(tensor(v, dtype) for v in values))
        except (TypeError, ValueError, LookupError, ArithmeticError, bl.errors.BroadloomError):
            return False
    narrow, wide = numpys(function, *values), numpys(function, *(v.astype(np.int64) for v in values))
    if narrow is None or wide is None:
        return False
    for got, small, big in zip(result if isinstance(result, tuple | list) else (result,), narrow, wide, strict=True):
        where = f"{function} of {count} {dtype}"
        if isinstance(got, PackedTensor):
            assert got.dtype is dtype and got.tolist() == modulo(np.asarray(big), dtype), where
        elif isinstance(got, bl.Tensor):
            assert got.dtype == np.asarray(small).dtype, where
            assert np.allclose(got.numpy(), small, equal_nan=True), where
            assert got.dtype not in (np.int8, np.uint8) or function in EIGHT_BITS, where
        else:
            assert not isinstance(got, np.ndarray), where
    return True


@pytest.mark.parametrize("dtype", PACKED, ids=str)
def test_every_function(dtype: DType, rng: np.random.Generator) -> None:
    found = {f for f in NUMPYS for count in (1, 2) if taken(f, dtype, count, rng)}
    assert {np.add, np.sum, np.sort, np.matmul, np.concatenate, np.unique, np.where} & found >= {
        np.add,
        np.sum,
        np.sort,
    }
    assert len(found) > 150
