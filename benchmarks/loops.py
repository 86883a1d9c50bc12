"""The workloads as loops written by hand, for numba: what a user of it would write, on all threads.

Only the process of its column imports this. Sums may be reassociated, as everybody else does; nothing else is relaxed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, prange

parallel = njit(parallel=True, cache=True)
parallel_sums = njit(parallel=True, cache=True, fastmath={"reassoc", "nsz"})
serial = njit(cache=True)
f4 = np.float32
PIECES = 64  # of a long sum


@parallel
def trifle(x):
    out = np.empty_like(x)
    for i in prange(x.size):
        out[i] = math.sqrt(x[i])
    return out


@serial
def tiny(x, y):
    return np.sin(x) * y + x


@serial
def gelu_small(x):
    out = np.empty_like(x)
    for i in range(x.size):
        v = x[i]
        out[i] = f4(0.5) * v * (f4(1) + math.tanh(f4(0.7978845608) * (v + f4(0.044715) * v * v * v)))
    return out


@parallel
def gelu(x):
    out = np.empty_like(x)
    for i in prange(x.size):
        v = x[i]
        out[i] = f4(0.5) * v * (f4(1) + math.tanh(f4(0.7978845608) * (v + f4(0.044715) * v * v * v)))
    return out


@parallel
def black_scholes(spot, strike, years, volatility):
    call, put = np.empty_like(spot), np.empty_like(spot)
    for i in prange(spot.size):
        spread = volatility[i] * math.sqrt(years[i])
        d1 = (math.log(spot[i] / strike[i]) + (0.02 + 0.5 * volatility[i] * volatility[i]) * years[i]) / spread
        discounted = strike[i] * math.exp(-0.02 * years[i])
        below1 = 0.5 * (1.0 + math.erf(d1 * 0.5**0.5))
        below2 = 0.5 * (1.0 + math.erf((d1 - spread) * 0.5**0.5))
        call[i] = spot[i] * below1 - discounted * below2
        put[i] = discounted * (1.0 - below2) - spot[i] * (1.0 - below1)
    return call, put


@parallel_sums
def softmax(x):
    out = np.empty_like(x)
    for i in prange(x.shape[0]):
        top = x[i, 0]
        for j in range(1, x.shape[1]):
            top = max(top, x[i, j])
        total = f4(0)
        for j in range(x.shape[1]):
            e = math.exp(x[i, j] - top)
            out[i, j] = e
            total += e
        share = f4(1) / total
        for j in range(x.shape[1]):
            out[i, j] *= share
    return out


@parallel_sums
def softmax_columns(x):
    out = np.empty_like(x)
    rows, columns = x.shape
    width = 64
    for block in prange((columns + width - 1) // width):
        start, stop = block * width, min(columns, block * width + width)
        top, total = x[0, start:stop].copy(), np.zeros(stop - start, np.float32)
        for i in range(1, rows):
            for j in range(start, stop):
                top[j - start] = max(top[j - start], x[i, j])
        for i in range(rows):
            for j in range(start, stop):
                e = math.exp(x[i, j] - top[j - start])
                out[i, j] = e
                total[j - start] += e
        for i in range(rows):
            for j in range(start, stop):
                out[i, j] /= total[j - start]
    return out


@parallel_sums
def layer_norm(x, residual, scale, offset):
    out = np.empty_like(x)
    n = x.shape[1]
    for i in prange(x.shape[0]):
        total = f4(0)
        for j in range(n):
            h = x[i, j] + residual[i, j]
            out[i, j] = h
            total += h
        mean = total / f4(n)
        squares = f4(0)
        for j in range(n):
            d = out[i, j] - mean
            squares += d * d
        factor = f4(1) / math.sqrt(squares / f4(n) + f4(1e-5))
        for j in range(n):
            out[i, j] = (out[i, j] - mean) * factor * scale[j] + offset[j]
    return out


@parallel_sums
def logsumexp(x):
    tops, totals = np.empty(PIECES, np.float32), np.empty(PIECES, np.float32)
    step = (x.size + PIECES - 1) // PIECES
    for p in prange(PIECES):
        top = f4(-np.inf)
        for i in range(p * step, min(x.size, (p + 1) * step)):
            top = max(top, x[i])
        tops[p] = top
    top = tops.max()
    for p in prange(PIECES):
        total = f4(0)
        for i in range(p * step, min(x.size, (p + 1) * step)):
            total += math.exp(x[i] - top)
        totals[p] = total
    return top + math.log(totals.sum())


@parallel_sums
def variance(x):
    sums = np.empty(PIECES)
    step = (x.size + PIECES - 1) // PIECES
    for p in prange(PIECES):
        total = f4(0)
        for i in range(p * step, min(x.size, (p + 1) * step)):
            total += x[i]
        sums[p] = total
    mean = f4(sums.sum() / x.size)
    for p in prange(PIECES):
        total = f4(0)
        for i in range(p * step, min(x.size, (p + 1) * step)):
            total += (x[i] - mean) * (x[i] - mean)
        sums[p] = total
    return f4(sums.sum() / x.size)


@parallel_sums
def kernel_sums(x):
    n = x.shape[0]
    out = np.empty(n, np.float32)
    for i in prange(n):
        total = f4(0)
        for j in range(n):
            a, b, c = x[i, 0] - x[j, 0], x[i, 1] - x[j, 1], x[i, 2] - x[j, 2]
            total += math.exp(f4(-0.5) * (a * a + b * b + c * c))
        out[i] = total
    return out


@parallel
def heat(u):
    rows, columns = u.shape
    out = np.empty((rows - 2, columns - 2), u.dtype)
    for i in prange(rows - 2):
        for j in range(columns - 2):
            c = u[i + 1, j + 1]
            around = u[i, j + 1] + u[i + 2, j + 1] + u[i + 1, j] + u[i + 1, j + 2]
            out[i, j] = c + f4(0.2) * (around - f4(4) * c)
    return out


@parallel
def heat_steps(u):
    rows, columns = u.shape
    now, following = u.copy(), np.zeros_like(u)
    for _ in range(50):
        for i in prange(1, rows - 1):
            for j in range(1, columns - 1):
                c = now[i, j]
                around = now[i - 1, j] + now[i + 1, j] + now[i, j - 1] + now[i, j + 1]
                following[i, j] = c + f4(0.2) * (around - f4(4) * c)
        now, following = following, now
        following[0], following[-1], following[:, 0], following[:, -1] = f4(0), f4(0), f4(0), f4(0)
    return now


@parallel
def solve(a, b):
    """By elimination with partial pivoting."""
    count, n = b.shape
    out = np.empty_like(b)
    for k in prange(count):
        m, x = a[k].copy(), b[k].copy()
        for c in range(n):
            best = c
            for r in range(c + 1, n):
                if abs(m[r, c]) > abs(m[best, c]):
                    best = r
            if best != c:
                for j in range(c, n):
                    m[c, j], m[best, j] = m[best, j], m[c, j]
                x[c], x[best] = x[best], x[c]
            for r in range(c + 1, n):
                factor = m[r, c] / m[c, c]
                for j in range(c + 1, n):
                    m[r, j] -= factor * m[c, j]
                x[r] -= factor * x[c]
        for c in range(n - 1, -1, -1):
            v = x[c]
            for j in range(c + 1, n):
                v -= m[c, j] * x[j]
            x[c] = v / m[c, c]
        out[k] = x
    return out


@parallel
def cholesky(a):
    count, n, _ = a.shape
    out = np.zeros_like(a)
    for k in prange(count):
        for i in range(n):
            for j in range(i + 1):
                v = a[k, i, j]
                for c in range(j):
                    v -= out[k, i, c] * out[k, j, c]
                out[k, i, j] = math.sqrt(v) if i == j else v / out[k, j, j]
    return out


@parallel
def tone_blur(photo):
    """Tones by a table of the 256 values there are."""
    rows, columns, channels = photo.shape
    table = np.empty(256, np.float32)
    for v in range(256):
        table[v] = min(f4(v) * f4(1.15 / 255), f4(1)) ** f4(0.8)
    out = np.empty_like(photo)
    for i in prange(rows):
        above, below = max(i - 1, 0), min(i + 1, rows - 1)
        line = np.empty((columns, channels), np.float32)
        for j in range(columns):
            for c in range(channels):
                middle = f4(2) * table[photo[i, j, c]]
                line[j, c] = (table[photo[above, j, c]] + middle + table[photo[below, j, c]]) / f4(4)
        for j in range(columns):
            left, right = max(j - 1, 0), min(j + 1, columns - 1)
            for c in range(channels):
                v = (line[left, c] + f4(2) * line[j, c] + line[right, c]) / f4(4)
                out[i, j, c] = np.uint8(v * f4(255) + f4(0.5))
    return out


@parallel_sums
def n_body(position, velocity, mass):
    n = mass.size
    moved, placed = np.empty_like(velocity), np.empty_like(position)
    for i in prange(n):
        x, y, z = 0.0, 0.0, 0.0
        for j in range(n):
            a, b, c = position[j, 0] - position[i, 0], position[j, 1] - position[i, 1], position[j, 2] - position[i, 2]
            square = a * a + b * b + c * c + 1e-3
            pull = mass[j] / (square * math.sqrt(square))
            x, y, z = x + a * pull, y + b * pull, z + c * pull
        moved[i, 0], moved[i, 1], moved[i, 2] = (
            velocity[i, 0] + 0.001 * x,
            velocity[i, 1] + 0.001 * y,
            velocity[i, 2] + 0.001 * z,
        )
        for c in range(3):
            placed[i, c] = position[i, c] + 0.001 * moved[i, c]
    return placed, moved


@serial
def cumsum(x):
    out = np.empty_like(x)
    total = f4(0)
    for i in range(x.size):
        total += x[i]
        out[i] = total
    return out


@serial
def recurrence(h, a, b):
    state = h.copy()
    for _ in range(1000):
        for i in range(state.size):
            state[i] = a[i] * state[i] + b[i]
    return state


@parallel
def take_rows(table, rows):
    out = np.empty((rows.size, table.shape[1]), table.dtype)
    for i in prange(rows.size):
        out[i] = table[rows[i]]
    return out


@parallel
def take_along(x, order):
    out = np.empty_like(x)
    for i in prange(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = x[i, order[i, j]]
    return out


@serial
def scatter_add(total, places, values):
    out = total.copy()
    for i in range(places.size):
        out[places[i]] += values[i]
    return out


@parallel
def scatter_rows(total, places, values):
    """A block of columns to each thread, so that no two add to the same number."""
    out = total.copy()
    width = 16
    for block in prange((out.shape[1] + width - 1) // width):
        start, stop = block * width, min(out.shape[1], block * width + width)
        for i in range(places.size):
            for j in range(start, stop):
                out[places[i], j] += values[i, j]
    return out


@parallel
def transposed_sum(x, y):
    """In squares that a cache holds."""
    rows, columns = x.shape
    out = np.empty_like(x)
    width = 32
    for block in prange((rows + width - 1) // width):
        for left in range(0, columns, width):
            for i in range(block * width, min(rows, block * width + width)):
                for j in range(left, min(columns, left + width)):
                    out[i, j] = x[i, j] + y[j, i]
    return out


@parallel
def channels_first(photo):
    rows, columns, channels = photo.shape
    out = np.empty((channels, rows, columns), np.float32)
    for i in prange(rows):
        for c in range(channels):
            for j in range(columns):
                out[c, i, j] = f4(photo[i, j, c]) * f4(1 / 255)
    return out


@parallel_sums
def column_sums(x):
    rows, columns = x.shape
    sums = np.zeros((PIECES, columns), np.float32)
    step = (rows + PIECES - 1) // PIECES
    for p in prange(PIECES):
        for i in range(p * step, min(rows, (p + 1) * step)):
            for j in range(columns):
                sums[p, j] += x[i, j]
    return sums.sum(axis=0)


@parallel
def scaled_copy(x):
    out = np.empty_like(x)
    for i in prange(x.size):
        out[i] = x[i] * f4(0.5)
    return out


# By the name of the workload.
LOOPS: dict[str, Callable[..., Any]] = {
    "trifle": trifle,
    "tiny": tiny,
    "gelu-small": gelu_small,
    "gelu": gelu,
    "black-scholes": black_scholes,
    "softmax": softmax,
    "softmax-columns": softmax_columns,
    "layer-norm": layer_norm,
    "logsumexp": logsumexp,
    "variance": variance,
    "kernel-sums": kernel_sums,
    "heat-steps": heat_steps,
    "heat": heat,
    "solve": solve,
    "cholesky": cholesky,
    "tone-blur": tone_blur,
    "n-body": n_body,
    "cumsum": cumsum,
    "recurrence": recurrence,
    "scaled-copy": scaled_copy,
    "take-rows": take_rows,
    "take-along-axis": take_along,
    "scatter-add": scatter_add,
    "scatter-rows": scatter_rows,
    "transposed-sum": transposed_sum,
    "channels-first": channels_first,
    "column-sums": column_sums,
}
