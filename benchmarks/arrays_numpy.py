"""The array namespace of NumPy: what the workloads are written over. SciPy has its error function, ml_dtypes its
bfloat16, and what NumPy writes in place or says by a keyword has a name here."""

from __future__ import annotations

from ml_dtypes import bfloat16
from numpy import (
    abs,  # NumPy's names
    add,
    astype,
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
from scipy.special import erf

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
    total = x.copy()
    add.at(total, places, values)
    return total


def matmul_int32(a, b):
    return matmul(a, b, dtype=int32)
