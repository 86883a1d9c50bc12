"""Sample operands for the tests that are generated from the op table.

What goes in: an op's `Sample`, one of its dtype tuples, loop shapes and a random generator. What comes out: arrays
that the op accepts. What holds: the same generator state gives the same arrays; with `edges`, numbers include 0, 1,
the dtype's extremes, nan, infinities and -0.0 wherever the sample does not bound its domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from broadloom.dtypes import DType
from broadloom.ops.record import Domain, Sample
from broadloom.ops.rules import Array

Shape = tuple[int, ...]
LOOP_SHAPES: tuple[tuple[Shape, Shape], ...] = (((), ()), ((0,), (0,)), ((1,), (1,)), ((5, 1), (1, 4)))


def operand_dtypes(sample: Sample, dtypes: tuple[DType, ...]) -> tuple[DType, ...]:
    """One dtype per operand: the last of `dtypes` stands for all further operands."""
    return dtypes + dtypes[-1:] * (len(sample.core_shapes) - len(dtypes))


def operands(
    sample: Sample,
    dtypes: tuple[DType, ...],
    rng: np.random.Generator,
    loops: Sequence[Shape] = ((), ()),
    edges: bool = True,
) -> tuple[Array, ...]:
    """Operands for one call. Operand number i has loop shape `loops[i % 2]` in front of its core shape."""
    arrays = []
    for i, (core, dtype) in enumerate(zip(sample.core_shapes, operand_dtypes(sample, dtypes), strict=True)):
        shape = (*loops[i % len(loops)], *core)
        if i in sample.domains:
            arrays.append(_in_domain(*sample.domains[i], shape, dtype, rng, edges))
        else:
            arrays.append(numbers(shape, dtype, rng, low=sample.low, high=sample.high, edges=edges))
    return tuple(arrays)


def numbers(
    shape: Shape,
    dtype: DType,
    rng: np.random.Generator,
    *,
    low: float | None = None,
    high: float | None = None,
    edges: bool = True,
) -> Array:
    """Random values of a dtype, within [low, high] where these are given; a quarter of them edge values."""
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind == "c":
        part = dtype.numpy.type(0).real.dtype
        real, imag = (_reals(shape, np.dtype(part), rng, low, high, edges) for _ in range(2))
        result = np.empty(shape, dtype.numpy)
        result.real, result.imag = real, imag
        return result
    if dtype.is_integer:
        return _integers(shape, dtype, rng, low, high, edges)
    return _reals(shape, dtype.numpy, rng, low, high, edges)


def edge_values(dtype: DType) -> Array:
    """0, 1, max, max - 1, min of an integer dtype; 0, -0.0, 1, extremes, infinities and nan of a real floating one.

    >>> from broadloom.dtypes import int8
    >>> edge_values(int8)
    array([   0,    1,  127,  126, -128,   -1], dtype=int8)
    """
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        return np.array([0, 1, info.max, info.max - 1, info.min, -1 if info.min else 2], dtype.numpy)
    return _float_edges(dtype.numpy)


def _float_edges(dtype: np.dtype[Any]) -> Array:
    info: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    extremes = [float(info.max), float(-info.max), float(info.smallest_normal), float(info.smallest_subnormal)]
    return np.array([0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, *extremes]).astype(dtype)


def _mixed(values: Array, choices: Array, rng: np.random.Generator) -> Array:
    pick = rng.random(values.shape) < 0.25
    return np.where(pick, rng.choice(choices, values.shape), values) if values.size else values


def _integers(
    shape: Shape, dtype: DType, rng: np.random.Generator, low: float | None, high: float | None, edges: bool
) -> Array:
    bottom = int(low) if low is not None else (-9 if dtype.kind == "i" else 0)
    top = int(high) if high is not None else 9
    values = rng.integers(bottom, top + 1, shape).astype(dtype.numpy)
    if not edges or low is not None or high is not None:
        return values
    return _mixed(values, edge_values(dtype), rng)


def _reals(
    shape: Shape, dtype: np.dtype[Any], rng: np.random.Generator, low: float | None, high: float | None, edges: bool
) -> Array:
    if low is None and high is None:
        values = (3.0 * rng.standard_normal(shape)).astype(dtype)
        return _mixed(values, _float_edges(dtype), rng) if edges else values
    bottom = low if low is not None else -10.0
    top = high if high is not None else bottom + 10.0
    return np.asarray(rng.uniform(bottom, top, shape)).astype(dtype)


def _in_domain(domain: Domain, n: int, shape: Shape, dtype: DType, rng: np.random.Generator, edges: bool) -> Array:
    """Values of a named kind; see `Sample.domains`."""
    if domain == "sorted":
        values = numbers(shape, dtype, rng, edges=edges)
        keys = values.astype(np.float32) if dtype.name == "bfloat16" else values  # which has no order in NumPy
        return np.take_along_axis(values, np.argsort(keys, axis=-1, stable=True), -1)
    if domain == "index":
        return np.asarray(rng.integers(0 if dtype.kind == "u" else -n, max(n, 1), shape)).astype(dtype.numpy)
    if domain == "pivots":
        first = np.broadcast_to(np.arange(1, n + 1), shape)
        return np.asarray(rng.integers(first, n + 1)).astype(dtype.numpy)
    matrix = numbers(shape, dtype, rng, edges=False)
    shift = (2 * n + 3) * np.eye(n, dtype=dtype.numpy)
    if domain == "definite":
        product: Array = matrix @ np.conjugate(np.swapaxes(matrix, -1, -2))
        return np.asarray(product + shift).astype(dtype.numpy)
    return np.asarray(matrix + shift).astype(dtype.numpy)
