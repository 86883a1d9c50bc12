"""The array namespace of JAX. Only the process of its column imports it."""

from __future__ import annotations

from jax.numpy import (
    abs,  # NumPy's names
    astype,
    concatenate,
    cumsum,
    exp,
    fft,
    float32,
    linalg,
    log,
    max,
    mean,
    minimum,
    pad,
    sin,
    sqrt,
    sum,
    tanh,
    uint8,
    var,
)
from jax.scipy.special import erf

__all__ = [
    "abs",
    "astype",
    "concatenate",
    "cumsum",
    "erf",
    "exp",
    "fft",
    "float32",
    "linalg",
    "log",
    "max",
    "mean",
    "minimum",
    "pad",
    "sin",
    "sqrt",
    "sum",
    "tanh",
    "uint8",
    "var",
]
