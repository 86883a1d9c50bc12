"""The array namespace of NumPy, with SciPy's error function: what the workloads are written over."""

from __future__ import annotations

from numpy import (
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
from scipy.special import erf

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
