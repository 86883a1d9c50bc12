"""Memory and index expressions of the interpreter of loop programs.

What goes in: arrays, and expressions over ints and arrays. What comes out: `Memory`, bytes that are read and written
element by element, and the values of expressions. What holds: no access outside of a buffer goes unseen.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from broadloom.dtypes import DType
from broadloom.errors import VerifyError
from broadloom.fusion.ir import Region
from broadloom.records import dataclass
from broadloom.symbolic import Add, Expr, FloorDiv, Max, Min, Mod, Mul, Size, Symbol
from broadloom.symbolic import evaluate as evaluate_size

Array = np.ndarray[Any, Any]
Environment = dict[Symbol, Any]


@dataclass(slots=True)
class Memory:
    """Bytes, and where among them element 0 lies."""

    data: Array
    origin: int
    owner: object = None

    def positions(self, index: Any, dtype: DType) -> Array:
        at = self.origin + np.asarray(index, np.int64).reshape(-1) * dtype.itemsize
        if at.size and (at.min() < 0 or at.max() + dtype.itemsize > self.data.size):
            raise VerifyError("access outside of a buffer", got=f"bytes {at.min()} to {at.max()} of {self.data.size}")
        found: Array = at[:, None] + np.arange(dtype.itemsize)
        return found

    def load(self, index: Any, dtype: DType) -> Array:
        raw = np.ascontiguousarray(self.data[self.positions(index, dtype)])
        if dtype.kind == "b":
            truth: Array = np.not_equal(raw.reshape(-1), 0)
            return truth
        found: Array = raw.view(dtype.numpy).reshape(-1)
        return found

    def store(self, index: Any, values: Array, dtype: DType) -> None:
        raw = np.ascontiguousarray(values, dtype.numpy).reshape(-1, 1).view(np.uint8)
        self.data[self.positions(index, dtype)] = raw

    def view(self, region: Region, dtype: DType, symbols: Environment) -> Array:
        """The strided array of a library call's operand."""
        shape = tuple(evaluate_size(s, symbols) for s in region.layout.shape)
        strides = tuple(evaluate_size(s, symbols) * dtype.itemsize for s in region.layout.strides)
        offset = self.origin + evaluate_size(region.layout.offset, symbols) * dtype.itemsize
        return np.ndarray(shape, dtype.numpy, self.data, offset, strides)


def memory_of(array: Array) -> Memory:
    """All bytes that the elements of an array span."""
    low = high = array.ctypes.data
    for size, stride in zip(array.shape, array.strides, strict=True):
        low += min(0, (size - 1) * stride)
        high += max(0, (size - 1) * stride)
    if array.size == 0:
        return Memory(np.zeros(0, np.uint8), 0)
    n = high + array.itemsize - low
    data = np.frombuffer(memoryview((ctypes.c_uint8 * n).from_address(low)).cast("B"), np.uint8)
    return Memory(data, array.ctypes.data - low, array)


# ---- index expressions --------------------------------------------------------------------------------------------


def index_of(e: Size, symbols: Environment) -> Any:
    """The value of an expression over ints and int64 arrays.

    >>> i = Symbol("i")
    >>> index_of(2 * i + 1, {i: np.arange(3)}).tolist()
    [1, 3, 5]
    """
    if not isinstance(e, Expr):
        return e
    if isinstance(e, Symbol):
        if e not in symbols:
            raise VerifyError("index symbol is not bound", got=e)
        return symbols[e]
    if isinstance(e, Add):
        return sum((c * index_of(m, symbols) for m, c in e.terms), e.constant)
    if isinstance(e, Mul):
        value: Any = e.coefficient
        for f in e.factors:
            value = value * index_of(f, symbols)
        return value
    if isinstance(e, FloorDiv):
        return index_of(e.dividend, symbols) // index_of(e.divisor, symbols)
    if isinstance(e, Mod):
        return index_of(e.dividend, symbols) % index_of(e.divisor, symbols)
    assert isinstance(e, Min | Max)
    values = [index_of(o, symbols) for o in e.operands]
    result = values[0]
    for v in values[1:]:
        result = np.minimum(result, v) if isinstance(e, Min) else np.maximum(result, v)
    return result
