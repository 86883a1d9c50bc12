"""The array namespace of PyTorch under NumPy's names, and its library functions for whole workloads (LIBRARY).

Only the processes of its columns import it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import abs, bfloat16, exp, fft, float32, linalg, log, moveaxis, sin, sqrt, tanh, uint8  # NumPy's names
from torch.nn import functional
from torch.special import erf

__all__ = [
    "abs",
    "bfloat16",
    "erf",
    "exp",
    "fft",
    "float32",
    "linalg",
    "log",
    "moveaxis",
    "sin",
    "sqrt",
    "tanh",
    "uint8",
]


def add_at(x, places, values):
    return torch.index_add(x, 0, places, values)


def astype(x, dtype):
    return x.to(dtype)


def concatenate(parts, axis=0):
    return torch.cat(parts, dim=axis)


def cumsum(x):
    return torch.cumsum(x, 0)


def matmul_int32(a, b):
    return torch._int_mm(a, b)  # the one product of bytes that it has, and multiplies itself


def max(x, axis=None, keepdims=False):
    return torch.amax(x, dim=() if axis is None else axis, keepdim=keepdims)


def mean(x, axis=None, keepdims=False):
    return torch.mean(x, dim=axis, keepdim=keepdims)


def minimum(x, y):
    return torch.clamp(x, max=y)


def pad(x, widths, mode="constant"):
    """NumPy's, of zeros, or of edges along the first two axes of three."""
    if mode == "constant":
        return functional.pad(x, [w for pair in reversed(widths) for w in pair])
    planes = functional.pad(x.permute(2, 0, 1), [w for pair in reversed(widths[:2]) for w in pair], mode="replicate")
    return planes.permute(1, 2, 0)


def sum(x, axis=None, keepdims=False):
    return torch.sum(x, dim=axis, keepdim=keepdims)


def take(x, places, axis):
    return torch.index_select(x, axis, places)


def take_along_axis(x, places, axis):
    return torch.gather(x, axis, places)


def var(x):
    return torch.var(x, correction=0)


def dense_gelu(x, weight, bias):
    return functional.gelu(torch.addmm(bias, x, weight), approximate="tanh")


def kernel_sums(x):
    """Distances by the library, which takes them by a matrix product from 25 points on unless told otherwise."""
    distance = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")
    return torch.exp(distance.square_().mul_(-0.5)).sum(-1)


def layer_norm(x, residual, scale, offset):
    return functional.layer_norm(x + residual, x.shape[-1:], scale, offset, 1e-5)


def transformer_block(x, qkv, out, up, down, scale, offset):
    batch, time, width = x.shape
    h = functional.layer_norm(x, (width,), scale[0], offset[0], 1e-5) @ qkv
    query, key, value = h.reshape(batch, time, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
    mixed = functional.scaled_dot_product_attention(query, key, value)
    x = x + mixed.transpose(1, 2).reshape(batch, time, width) @ out
    h = functional.layer_norm(x, (width,), scale[1], offset[1], 1e-5)
    return x + functional.gelu(h @ up, approximate="tanh") @ down


# What PyTorch's library has in one piece, by the name of the workload.
LIBRARY: dict[str, Callable[..., Any]] = {
    "gelu-small": lambda x: functional.gelu(x, approximate="tanh"),
    "gelu": lambda x: functional.gelu(x, approximate="tanh"),
    "softmax": lambda x: torch.softmax(x, -1),
    "softmax-columns": lambda x: torch.softmax(x, 0),
    "layer-norm": layer_norm,
    "logsumexp": lambda x: torch.logsumexp(x, 0),
    "variance": lambda x: torch.var(x, correction=0),
    "kernel-sums": kernel_sums,
    "dense-gelu": dense_gelu,
    "transformer": transformer_block,
}
