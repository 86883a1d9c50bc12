"""The workloads: array programs as a user would write them.

What goes in: an array namespace, NumPy's or one like it. What comes out: the function, and arguments of a given
fraction of the full size. What holds: the functions are the same for every compiler; arguments come from a fixed
seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from examples import black_scholes, image_pipeline

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Workload:
    """`make(namespace)` gives the function, `arguments(scale)` its arguments; scale 1 is the size that is timed."""

    name: str
    what: str
    make: Callable[[Any], Function]
    arguments: Callable[[float], tuple[np.ndarray, ...]]


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def _normal(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return _rng().standard_normal(shape).astype(dtype)


def _complex(n: int, scale: float, *, rows: int = 0, single: bool = False) -> tuple[np.ndarray, ...]:
    """Complex numbers, `rows` rows or one; the scale tells how many rows, or else how many numbers."""
    shape = (_size(rows, scale), n) if rows else (_size(n, scale),)
    values = _normal(*shape, 2, dtype=np.float64).view(np.complex128)[..., 0]
    return (values.astype(np.complex64) if single else values,)


def _size(full: int, scale: float) -> int:
    return max(4, round(full * scale))


def gelu(xp: Any) -> Function:
    def gelu(x):
        return 0.5 * x * (1.0 + xp.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))

    return gelu


def softmax(xp: Any) -> Function:
    def softmax(x):
        shifted = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
        return shifted / xp.sum(shifted, axis=-1, keepdims=True)

    return softmax


def layer_norm(xp: Any) -> Function:
    def layer_norm(x, residual, scale, offset):
        h = x + residual
        centred = h - xp.mean(h, axis=-1, keepdims=True)
        variance = xp.mean(centred * centred, axis=-1, keepdims=True)
        return centred / xp.sqrt(variance + 1e-5) * scale + offset

    return layer_norm


def logsumexp(xp: Any) -> Function:
    def logsumexp(x):
        top = xp.max(x)
        return top + xp.log(xp.sum(xp.exp(x - top)))

    return logsumexp


def variance(xp: Any) -> Function:
    def variance(x):
        return xp.var(x)

    return variance


def kernel_sums(xp: Any) -> Function:
    def kernel_sums(x):
        difference = x[:, None, :] - x[None, :, :]
        return xp.sum(xp.exp(-0.5 * xp.sum(difference * difference, axis=-1)), axis=-1)

    return kernel_sums


def tiny(xp: Any) -> Function:
    def tiny(x, y):
        return xp.sin(x) * y + x

    return tiny


def cumulative_sum(xp: Any) -> Function:
    def cumulative_sum(x):
        return xp.cumsum(x)

    return cumulative_sum


def heat(xp: Any) -> Function:
    def heat(u):
        inner = u[1:-1, 1:-1]
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        return inner + 0.2 * (around - 4.0 * inner)

    return heat


def fft(xp: Any) -> Function:
    def fft(x):
        return xp.fft.fft(x)

    return fft


def spectra(xp: Any) -> Function:
    def spectra(x):
        return xp.log(xp.abs(xp.fft.rfft(x - xp.mean(x, axis=-1, keepdims=True), axis=-1)) + 1e-6)

    return spectra


def photograph(scale: float) -> tuple[np.ndarray, ...]:
    return (_rng().integers(0, 256, (_size(1080, scale), _size(1920, scale), 3), dtype=np.uint8),)


def shipped_photograph(name: str, scale: float) -> tuple[np.ndarray, ...]:
    (photo,) = (p for n, p in image_pipeline.photographs().items() if n == name)
    return (photo[: _size(photo.shape[0], scale)],)


WORKLOADS: tuple[Workload, ...] = (
    Workload("tiny", "sin(x)*y + x, 10 elements", tiny, lambda s: (_normal(10), _normal(10))),
    Workload("gelu-small", "tanh-gelu, 1e4 float32", gelu, lambda s: (_normal(_size(10_000, s)),)),
    Workload("gelu", "tanh-gelu, 1e7 float32", gelu, lambda s: (_normal(_size(10_000_000, s)),)),
    Workload(
        "black-scholes",
        "calls and puts of 1e6 options, float64",
        lambda xp: black_scholes.price,
        lambda s: black_scholes.options(_size(1_000_000, s)),
    ),
    *(
        Workload(
            f"image-{name}",
            "scikit-learn's photograph: tone, blur, sharpen",
            lambda xp: image_pipeline.enhance,
            partial(shipped_photograph, name),
        )
        for name in ("china", "flower")
    ),
    Workload("image", "1080x1920x3 uint8: tone, blur, sharpen", lambda xp: image_pipeline.enhance, photograph),
    Workload("softmax", "softmax over the last axis, 4096x1024", softmax, lambda s: (_normal(_size(4096, s), 1024),)),
    Workload(
        "layer-norm",
        "residual and layer norm, 8192x768",
        layer_norm,
        lambda s: (_normal(_size(8192, s), 768), _normal(_size(8192, s), 768), _normal(768), _normal(768)),
    ),
    Workload("logsumexp", "logsumexp of 1e7 to a scalar", logsumexp, lambda s: (_normal(_size(10_000_000, s)),)),
    Workload("variance", "variance of 1e7 to a scalar", variance, lambda s: (_normal(_size(10_000_000, s)),)),
    Workload(
        "kernel-sums", "row sums of exp(-d2/2), n=2000, d=3", kernel_sums, lambda s: (_normal(_size(2000, s), 3),)
    ),
    Workload("cumsum", "cumulative sum of 1e7", cumulative_sum, lambda s: (_normal(_size(10_000_000, s)),)),
    Workload(
        "heat", "five-point stencil, one step, 2048x2048", heat, lambda s: (_normal(_size(2048, s), _size(2048, s)),)
    ),
    *(
        Workload(f"fft-{n}", f"transform of {n} complex128", fft, partial(_complex, n))
        for n in (64, 1000, 1009, 4096, 65536, 1_000_000)
    ),
    Workload("fft", "transforms of 1000 rows of 256 complex64", fft, partial(_complex, 256, rows=1000, single=True)),
    Workload(
        "spectra",
        "log spectra of 1000 rows of 1024 float64",
        spectra,
        lambda s: (_normal(_size(1000, s), 1024, dtype=np.float64),),
    ),
)
