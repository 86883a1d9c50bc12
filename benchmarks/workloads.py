"""The workloads: array programs as a user would write them, each written once over an array namespace.

What goes in: an array namespace, NumPy's or one like it. What comes out: the function, and arguments of a given
fraction of the full size. What holds: the functions are the same for every column of the comparison; arguments come
from a fixed seed. Two columns have more to say and say it beside: loops by hand (`loops.py`, numba) and what a library
ships as one function (`arrays_torch.py`, LIBRARY).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

from examples import black_scholes as example_prices
from examples import image_pipeline

Function = Callable[..., Any]
Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True, slots=True)
class Workload:
    """`make(namespace)` gives the function, `arguments(scale)` its arguments; scale 1 is the size that is timed.

    `line` is its name in the list of promises, empty where no more is promised than of all. A function with `steps`
    maps a state, its first argument, to the next one and is run that often in a call. `bound` is what limits it:
    "memory" where its arguments and results have to come through memory, "arithmetic" where the larger of that and of
    its own instructions is, else empty. `flops` are multiplications and
    additions at scale 1, where they are all that counts. `numpy_only` functions are written with NumPy itself and have
    no other namespace. `symbolic` ones are compiled by us for all sizes at once. `part` makes a function of the same
    arguments, whose time is taken in the same rounds: what the whole function is to cost little more than.
    """

    name: str
    what: str
    make: Callable[[Any], Function]
    arguments: Callable[[float], Arrays]
    line: str = ""
    steps: int = 1
    bound: str = ""
    flops: float = 0.0
    numpy_only: bool = False
    symbolic: bool = False
    part: Callable[[Any], Function] | None = None


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


def heat_step(xp: Any) -> Function:
    def heat_step(u):
        inner = u[1:-1, 1:-1]
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        return xp.pad(inner + 0.2 * (around - 4.0 * inner), ((1, 1), (1, 1)))

    return heat_step


def black_scholes(xp: Any) -> Function:
    def black_scholes(spot, strike, years, volatility):
        spread = volatility * xp.sqrt(years)
        d1 = (xp.log(spot / strike) + (0.02 + 0.5 * volatility * volatility) * years) / spread
        d2 = d1 - spread
        discounted = strike * xp.exp(-0.02 * years)
        below1, below2 = 0.5 * (1.0 + xp.erf(d1 * 0.5**0.5)), 0.5 * (1.0 + xp.erf(d2 * 0.5**0.5))
        call = spot * below1 - discounted * below2
        return call, discounted * (1.0 - below2) - spot * (1.0 - below1)

    return black_scholes


def softmax_columns(xp: Any) -> Function:
    def softmax_columns(x):
        shifted = xp.exp(x - xp.max(x, axis=0, keepdims=True))
        return shifted / xp.sum(shifted, axis=0, keepdims=True)

    return softmax_columns


def solve(xp: Any) -> Function:
    def solve(a, b):
        return xp.linalg.solve(a, b[..., None])[..., 0]

    return solve


def cholesky(xp: Any) -> Function:
    def cholesky(a):
        return xp.linalg.cholesky(a)

    return cholesky


def tone_blur(xp: Any) -> Function:
    def tone_blur(photo):
        toned = xp.minimum(xp.astype(photo, xp.float32) * (1.15 / 255), 1.0) ** 0.8
        padded = xp.pad(toned, ((1, 1), (1, 1), (0, 0)), mode="edge")
        rows = (padded[:-2] + 2 * padded[1:-1] + padded[2:]) / 4
        blurred = (rows[:, :-2] + 2 * rows[:, 1:-1] + rows[:, 2:]) / 4
        return xp.astype(blurred * 255 + 0.5, xp.uint8)

    return tone_blur


def n_body(xp: Any) -> Function:
    def n_body(position, velocity, mass):
        apart = position[None, :, :] - position[:, None, :]
        square = xp.sum(apart * apart, axis=-1) + 1e-3
        pull = mass / (square * xp.sqrt(square))
        moved = velocity + 0.001 * xp.sum(apart * pull[:, :, None], axis=1)
        return position + 0.001 * moved, moved

    return n_body


def scaled_copy(xp: Any) -> Function:
    def scaled_copy(x):
        return x * 0.5

    return scaled_copy


def product(xp: Any) -> Function:
    def product(a, b):
        return a @ b

    return product


def dense_gelu(xp: Any) -> Function:
    def dense_gelu(x, weight, bias):
        h = x @ weight + bias
        return 0.5 * h * (1.0 + xp.tanh(0.7978845608 * (h + 0.044715 * h * h * h)))

    return dense_gelu


def scaled_dense(xp: Any) -> Function:
    def scaled_dense(x, mean, scale, weight):
        return (x - mean) * scale @ weight

    return scaled_dense


def product_of_dense(xp: Any) -> Function:
    def product_of_dense(x, weight, bias):
        return x @ weight

    return product_of_dense


def integer_product(xp: Any) -> Function:
    def integer_product(a, b):
        return xp.matmul_int32(a, b)

    return integer_product


def narrow_product(xp: Any) -> Function:
    def narrow_product(a, b):
        return xp.astype(a @ b, xp.bfloat16)

    return narrow_product


def take_rows(xp: Any) -> Function:
    def take_rows(table, rows):
        return xp.take(table, rows, axis=0)

    return take_rows


def take_along(xp: Any) -> Function:
    def take_along(x, order):
        return xp.take_along_axis(x, order, axis=1)

    return take_along


def scatter_add(xp: Any) -> Function:
    def scatter_add(total, places, values):
        return xp.add_at(total, places, values)

    return scatter_add


def transposed_sum(xp: Any) -> Function:
    def transposed_sum(x, y):
        return x + y.T

    return transposed_sum


def channels_first(xp: Any) -> Function:
    def channels_first(photo):
        return xp.astype(xp.moveaxis(photo, -1, 0), xp.float32) * (1 / 255)

    return channels_first


def column_sums(xp: Any) -> Function:
    def column_sums(x):
        return xp.sum(x, axis=0)

    return column_sums


def fft(xp: Any) -> Function:
    def fft(x):
        return xp.fft.fft(x)

    return fft


def spectra(xp: Any) -> Function:
    def spectra(x):
        return xp.log(xp.abs(xp.fft.rfft(x - xp.mean(x, axis=-1, keepdims=True), axis=-1)) + 1e-6)

    return spectra


HEADS = 4


def normalise(xp: Any) -> Function:
    def normalise(x, scale, offset):
        centred = x - xp.mean(x, axis=-1, keepdims=True)
        return centred / xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True) + 1e-5) * scale + offset

    return normalise


def transformer_block(xp: Any) -> Function:
    normalised, shares, activated = normalise(xp), softmax(xp), gelu(xp)

    def transformer_block(x, qkv, out, up, down, scale, offset):
        batch, time, width = x.shape
        h = (normalised(x, scale[0], offset[0]) @ qkv).reshape(batch, time, 3, HEADS, width // HEADS)
        query, key, value = h[:, :, 0].swapaxes(1, 2), h[:, :, 1].swapaxes(1, 2), h[:, :, 2].swapaxes(1, 2)
        weights = shares(query @ key.swapaxes(2, 3) * (width // HEADS) ** -0.5)
        x = x + (weights @ value).swapaxes(1, 2).reshape(batch, time, width) @ out
        return x + activated(normalised(x, scale[1], offset[1]) @ up) @ down

    return transformer_block


def decode(xp: Any) -> Function:
    normalised, shares, activated = normalise(xp), softmax(xp), gelu(xp)

    def decode(x, keys, values, qkv, out, up, down, scale, offset, vocabulary):
        width = x.shape[1]
        for layer in range(qkv.shape[0]):
            h = (normalised(x, scale[layer, 0], offset[layer, 0]) @ qkv[layer]).reshape(3, HEADS, 1, width // HEADS)
            key = xp.concatenate((keys[layer], h[1]), axis=1)
            value = xp.concatenate((values[layer], h[2]), axis=1)
            weights = shares(h[0] @ key.swapaxes(1, 2) * (width // HEADS) ** -0.5)
            x = x + (weights @ value).reshape(1, width) @ out[layer]
            x = x + activated(normalised(x, scale[layer, 1], offset[layer, 1]) @ up[layer]) @ down[layer]
        return x @ vocabulary

    return decode


def recurrence(xp: Any) -> Function:
    def recurrence(h, a, b):
        return a * h + b

    return recurrence


def photograph(scale: float) -> Arrays:
    return (_rng().integers(0, 256, (_size(1080, scale), _size(1920, scale), 3), dtype=np.uint8),)


def shipped_photograph(name: str, scale: float) -> Arrays:
    (photo,) = (p for n, p in image_pipeline.photographs().items() if n == name)
    return (photo[: _size(photo.shape[0], scale)],)


def systems(scale: float) -> Arrays:
    """Well-conditioned 8x8 systems."""
    a = _normal(_size(10_000, scale), 8, 9)
    return a[..., :8] + 8 * np.eye(8, dtype=np.float32), a[..., 8].copy()


def definite(scale: float) -> Arrays:
    """Symmetric positive definite 8x8 matrices."""
    a = _normal(_size(10_000, scale), 8, 8)
    return (a @ a.swapaxes(-1, -2) + np.eye(8, dtype=np.float32),)


def bodies(scale: float) -> Arrays:
    n = _size(1000, scale)
    values = _normal(n, 7, dtype=np.float64)
    return values[:, :3].copy(), values[:, 3:6].copy(), np.abs(values[:, 6])


def square(n: int, scale: float) -> Arrays:
    m = min(n, _size(n, scale))
    values = _normal(2, m, m)
    return values[0], values[1]


def batched(scale: float) -> Arrays:
    n = _size(512, scale)
    return _normal(n, 32, 64), _normal(n, 64, 128)


def bytes_to_multiply(scale: float) -> Arrays:
    n = _size(512, scale)
    a, b = _rng().integers(-128, 128, (2, n, n), dtype=np.int8)
    return a, b


def halves_to_multiply(scale: float) -> Arrays:
    a, b = square(512, scale)
    return a.astype(bfloat16), b.astype(bfloat16)


def rows_of_a_table(scale: float) -> Arrays:
    n = _size(10_000, scale)
    return _normal(n, 256), _rng().integers(0, n, 2 * n)


def order_in_rows(scale: float) -> Arrays:
    x = _normal(_size(2000, scale), 1000)
    return x, np.argsort(x, axis=1)


def values_to_add(scale: float) -> Arrays:
    n = _size(10_000, scale)
    return _normal(n), _rng().integers(0, n, 100 * n), _normal(100 * n)


def rows_to_add(scale: float) -> Arrays:
    table, rows = rows_of_a_table(scale)
    return table, rows, _normal(rows.size, 256)


def two_squares(scale: float) -> Arrays:
    return square(2048, scale)


def matrix_vector(scale: float) -> Arrays:
    n = _size(8192, scale)
    return _normal(n, 8192), _normal(8192)


def dense(scale: float) -> Arrays:
    n = _size(1024, scale)
    return _normal(n, n), _normal(n, n) / np.float32(n**0.5), _normal(n)


def scaled(scale: float) -> Arrays:
    return _normal(_size(100_000, scale), 64), _normal(64), np.abs(_normal(64)), _normal(64, 64)


def _weights(width: int, *layers: int) -> Arrays:
    """Of transformer layers: qkv, out, up, down, and the scales and offsets of two norms."""
    sizes = ((width, 3 * width), (width, width), (width, 4 * width), (4 * width, width))
    matrices = tuple(_normal(*layers, *s) / np.float32(s[0] ** 0.5) for s in sizes)
    return *matrices, 1 + 0.1 * _normal(*layers, 2, width), 0.1 * _normal(*layers, 2, width)


def tokens(scale: float) -> Arrays:
    width = 64 * _size(4, scale)
    return _normal(4, _size(128, scale), width), *_weights(width)


def cached_tokens(scale: float) -> Arrays:
    width, layers = 64 * _size(4, scale), _size(4, scale)
    cache = _normal(2, layers, HEADS, _size(128, scale), width // HEADS)
    vocabulary = _normal(width, _size(1000, scale)) / np.float32(width**0.5)
    return _normal(1, width), cache[0], cache[1], *_weights(width, layers), vocabulary


def decaying(scale: float) -> Arrays:
    h, a, b = _normal(3, _size(256, scale))
    return h, np.tanh(a), b


WORKLOADS: tuple[Workload, ...] = (
    Workload("tiny", "sin(x)*y + x, 10 elements", tiny, lambda s: (_normal(10), _normal(10)), line="W12"),
    Workload("gelu-small", "tanh-gelu, 1e4 float32", gelu, lambda s: (_normal(_size(10_000, s)),), line="W1a"),
    Workload(
        "gelu",
        "tanh-gelu, 1e7 float32",
        gelu,
        lambda s: (_normal(_size(10_000_000, s)),),
        line="W1b",
        bound="arithmetic",
    ),
    Workload(
        "black-scholes",
        "calls and puts of 1e6 options, float64",
        black_scholes,
        lambda s: example_prices.options(_size(1_000_000, s)),
        line="W2",
    ),
    Workload(
        "softmax",
        "softmax over the last axis, 4096x1024",
        softmax,
        lambda s: (_normal(_size(4096, s), 1024),),
        line="W3a",
    ),
    Workload(
        "softmax-columns",
        "softmax over the first axis, 4096x1024",
        softmax_columns,
        lambda s: (_normal(_size(4096, s), 1024),),
        line="W3b",
    ),
    Workload(
        "layer-norm",
        "residual and layer norm, 8192x768",
        layer_norm,
        lambda s: (_normal(_size(8192, s), 768), _normal(_size(8192, s), 768), _normal(768), _normal(768)),
        line="W4",
        bound="memory",
    ),
    Workload(
        "logsumexp",
        "logsumexp of 1e7 to a scalar",
        logsumexp,
        lambda s: (_normal(_size(10_000_000, s)),),
        line="W5a",
        bound="arithmetic",
    ),
    Workload(
        "variance",
        "variance of 1e7 to a scalar",
        variance,
        lambda s: (_normal(_size(10_000_000, s)),),
        line="W5b",
        bound="memory",
    ),
    Workload(
        "kernel-sums",
        "row sums of exp(-d2/2), n=2000, d=3",
        kernel_sums,
        lambda s: (_normal(_size(2000, s), 3),),
        line="W6",
    ),
    Workload(
        "heat-steps",
        "five-point stencil, 2048x2048, 50 steps",
        heat_step,
        lambda s: (_normal(_size(2048, s), _size(2048, s)),),
        line="W7",
        steps=50,
    ),
    Workload("transformer", "transformer block, batch 4, 128 tokens, width 256", transformer_block, tokens, line="W9a"),
    Workload("decode", "a token of a GPT of 4 layers, width 256, 128 cached", decode, cached_tokens, line="W10"),
    Workload("solve", "10000 systems of 8x8", solve, systems, line="W11b"),
    Workload("cholesky", "10000 Cholesky factors of 8x8", cholesky, definite, line="W11c"),
    Workload(
        "tone-blur", "1080x1920x3 uint8: brightness, gamma, 3x3 blur, to uint8", tone_blur, photograph, line="W13"
    ),
    Workload("n-body", "1000 bodies, float64, one step", n_body, bodies, line="W14"),
    Workload(
        "cumsum",
        "cumulative sum of 1e7",
        cumulative_sum,
        lambda s: (_normal(_size(10_000_000, s)),),
        line="W15a",
        bound="memory",
    ),
    Workload("recurrence", "h = a*h + b, width 256, 1000 steps", recurrence, decaying, line="W15b", steps=1000),
    Workload(
        "scaled-copy",
        "x * 0.5 on 256 MB",
        scaled_copy,
        lambda s: (_normal(_size(1 << 26, s)),),
        line="copy",
        bound="memory",
    ),
    *(
        Workload(
            f"matmul-{n}", f"{n}x{n} times {n}x{n}", product, partial(square, n), line=f"matmul {n}", flops=2.0 * n**3
        )
        for n in (64, 1024, 2048)
    ),
    Workload(
        "matmul-batched",
        "512 times 32x64 by 64x128",
        product,
        batched,
        line="matmul batched",
        flops=2.0 * 512 * 32 * 128 * 64,
    ),
    Workload(
        "matmul-symbolic",
        "512 times 32x64 by 64x128, compiled for all sizes",
        product,
        batched,
        flops=2.0 * 512 * 32 * 128 * 64,
        symbolic=True,
    ),
    Workload("matmul-int8", "512x512 int8 times int8 to int32", integer_product, bytes_to_multiply, flops=2.0 * 512**3),
    Workload(
        "matmul-bfloat16", "512x512 times 512x512, bfloat16", narrow_product, halves_to_multiply, flops=2.0 * 512**3
    ),
    Workload("matrix-vector", "8192x8192 times a vector", product, matrix_vector, line="matrix-vector", bound="memory"),
    Workload(
        "scaled-dense", "(x - mean) * scale @ w, 1e5x64 times 64x64", scaled_dense, scaled, flops=2.0 * 1e5 * 64**2
    ),
    Workload(
        "dense-gelu",
        "gelu of x @ w + b, 1024",
        dense_gelu,
        dense,
        line="dense gelu",
        flops=2.0 * 1024**3,
        part=product_of_dense,
    ),
    Workload("take-rows", "20000 rows of a table of 10000x256", take_rows, rows_of_a_table),
    Workload("take-along-axis", "2000 rows of 1000, each in its order", take_along, order_in_rows),
    Workload("scatter-add", "1e6 values added at 10000 places", scatter_add, values_to_add),
    Workload("scatter-rows", "20000 rows of 256 added to 10000", scatter_add, rows_to_add),
    Workload("transposed-sum", "x + y.T, 2048x2048", transposed_sum, two_squares, bound="memory"),
    Workload("channels-first", "1080x1920x3 uint8 to 3x1080x1920 float32", channels_first, photograph, bound="memory"),
    Workload(
        "column-sums",
        "sums of 8 columns of 1e6",
        column_sums,
        lambda s: (_normal(_size(1_000_000, s), 8),),
        bound="memory",
    ),
    *(
        Workload(
            f"image-{name}",
            "scikit-learn's photograph: tone, blur, sharpen",
            lambda xp: image_pipeline.enhance,
            partial(shipped_photograph, name),
            numpy_only=True,
        )
        for name in ("china", "flower")
    ),
    Workload(
        "image",
        "1080x1920x3 uint8: tone, blur, sharpen",
        lambda xp: image_pipeline.enhance,
        photograph,
        numpy_only=True,
    ),
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
BY_NAME = {w.name: w for w in WORKLOADS}
