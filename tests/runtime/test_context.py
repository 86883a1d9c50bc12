"""The structures of the native ABI, and the exceptions made from error records."""

import ctypes

import numpy as np
import pytest

from broadloom.codegen import abi
from broadloom.errors import CodegenError, Location
from broadloom.fusion.ir import Site
from broadloom.runtime.context import ArrayRecord, Context, exception


def test_the_structures_are_those_of_the_generated_code():
    assert ctypes.sizeof(Context) == abi.CTX_SIZE and ctypes.sizeof(ArrayRecord) == abi.ARRAY_SIZE
    for name, offset in [("alloc", abi.CTX_ALLOC), ("free", abi.CTX_FREE), ("parallel_for", abi.CTX_PARALLEL_FOR),
                         ("threads", abi.CTX_THREADS), ("lock", abi.ERROR_LOCK), ("site", abi.ERROR_SITE),
                         ("key", abi.ERROR_KEY), ("payload", abi.ERROR_PAYLOAD)]:  # fmt: skip
        assert getattr(Context, name).offset == offset
    for name, offset in [("data", abi.ARRAY_DATA), ("ndim", abi.ARRAY_NDIM), ("dtype", abi.ARRAY_DTYPE),
                         ("shape", abi.ARRAY_SHAPE), ("strides", abi.ARRAY_STRIDES)]:  # fmt: skip
        assert getattr(ArrayRecord, name).offset == offset


def test_index_errors_begin_with_numpys_text():
    with pytest.raises(IndexError) as numpys:
        np.arange(10)[[13]]
    ours = exception([Site("index", "gather", 0, Location("m.py", 3, "f"))], abi.FAILED, 0, [13, 10, 0, 0])
    assert type(ours) is IndexError
    assert str(ours) == f"{numpys.value} (in gather at m.py:3 in f)"


def test_singular_matrices_begin_with_numpys_text():
    with pytest.raises(np.linalg.LinAlgError) as numpys:
        np.linalg.inv(np.zeros((2, 2)))
    ours = exception([Site("linalg", "inv", -1)], abi.FAILED, 0, [7, 0, 0, 0])
    assert type(ours) is np.linalg.LinAlgError and str(ours) == f"{numpys.value} (matrix 7 of the stack, in inv)"


def test_other_failures():
    assert type(exception([Site("value", "check", -1)], abi.FAILED, 0, [1, 0, 0, 0])) is ValueError
    assert type(exception([Site("memory", "x", -1)], abi.FAILED, 0, [1, 0, 0, 0])) is MemoryError
    assert type(exception([], abi.OUT_OF_MEMORY, -1, [9, 0, 0, 0])) is MemoryError
    assert type(exception([], abi.FAILED, -1, [0, 0, 0, 0])) is CodegenError
    assert type(exception([Site("index", "x", 0)], abi.FAILED, 5, [0, 0, 0, 0])) is CodegenError
