"""The array namespace of JAX. Only the process of its column imports it."""

from __future__ import annotations

from jax.numpy import (
    abs,  # NumPy's names
    astype,
    bfloat16,
    concatenate,
    cumsum,
    exp,
    fft,
    float32,
    int32,
    linalg,
    log,
    matmul,
    max,
    mean,
    minimum,
    moveaxis,
    pad,
    sin,
    sqrt,
    sum,
    take,
    take_along_axis,
    tanh,
    uint8,
    var,
)
from jax.scipy.special import erf

__all__ = [
    "abs",
    "add_at",
    "astype",
    "bfloat16",
    "concatenate",
    "cumsum",
    "erf",
    "exp",
    "fft",
    "float32",
    "linalg",
    "log",
    "matmul_int32",
    "max",
    "mean",
    "minimum",
    "moveaxis",
    "pad",
    "sin",
    "sqrt",
    "sum",
    "take",
    "take_along_axis",
    "tanh",
    "uint8",
    "var",
]


def add_at(x, places, values):
    return x.at[places].add(values)


def matmul_int32(a, b):
    return matmul(a, b, preferred_element_type=int32)
