"""Kernels on memory between two pages that fault: a read or write outside of an array ends the process.

Run as `python -m tests.compiled.guard_pages PART SEED COUNT`; what runs is printed before, so that the last line names
the culprit.
What holds: inputs, results and workspaces lie flush at the end of their pages, or at the beginning.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import broadloom as bl
from tests import red_zones
from tests.compiled.checking import configurations, failures, resized
from tests.compiled.modules import cells
from tests.levels.test_updates import differences, random_updates

SIZES = (0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 70)
LAYOUTS = ("C", "F", "reversed", "steps", "unaligned")
SIDES: tuple[red_zones.Mode, ...] = ("end", "begin")
TOGETHER = 12  # calls of ops a module


def laid_out(values: Any, layout: str, side: red_zones.Mode) -> Any:
    """The values in memory that reaches up to the page."""
    match layout:
        case "F":
            x = np.empty(values.shape, values.dtype, "F")
        case "reversed":
            x = np.empty(values.shape, values.dtype)[(slice(None, None, -1),) * values.ndim]
        case "steps":
            wide = tuple(2 * n - 1 if n else 0 for n in values.shape)
            x = np.empty(wide, values.dtype)[(slice(None, None, 2),) * values.ndim]
        case "unaligned":
            x = np.ndarray(values.shape, values.dtype, np.empty(values.nbytes + 1, np.uint8)[int(side == "begin") :])
        case _:
            x = np.empty(values.shape, values.dtype)
    x[...] = values
    return x


def stencil(x: Any) -> Any:
    y = x.copy()
    y[1:-1, 1:-1] = x[1:-1, 2:] + x[1:-1, :-2] + x[2:, 1:-1] + x[:-2, 1:-1]
    return y


def in_place(x: Any) -> Any:
    x[1:] -= x[:-1]
    x[:, ::2] *= 2
    return x.sum()


def small_matrices(x: Any) -> Any:
    m = x.reshape(-1)[: x.size // 9 * 9].reshape(-1, 3, 3)
    return np.linalg.det(m), np.linalg.inv(m / 99 + np.eye(3)), np.linalg.solve(m / 99 + np.eye(3), m)


def scattered(x: Any, i: Any) -> Any:
    x[i] += 1
    return x[::-1].copy()


FUNCTIONS: dict[str, tuple[Any, str]] = {
    "pointwise": (lambda x: np.sqrt(abs(x)) * 2 + x, "m"),
    "stencil": (stencil, "m"),
    "in place": (in_place, "m"),
    "pad": (lambda x: np.pad(x, ((2, 1), (0, 3)), mode="wrap") if x.size else x, "m"),
    "concat": (lambda x: np.concatenate([x, x[1:] * 2, x[:2]], axis=0), "m"),
    "transposed": (lambda x: np.ascontiguousarray(x.T) + 1, "m"),
    "with its transpose": (lambda x: (x @ x.T) + (x @ x.T).T, "m"),
    "product": (lambda x: x.T @ x, "m"),
    "product of short integers": (lambda x: np.matmul(x.T, x, dtype=np.int32), "m"),
    "product of bfloat16": (lambda x: (x.T @ x).astype(np.float32), "m"),
    "product by columns of short integers": (lambda x: np.matmul(x, x.T, dtype=np.int32), "m"),
    "sums": (lambda x: (x.sum(axis=0), x.sum(axis=1), (x * x).sum()), "m"),
    "scans": (lambda x: (np.cumsum(x, axis=0), np.cumsum(x, axis=1)), "m"),
    "transforms": (
        lambda x: (
            np.fft.fft(x + 1j, 12),
            np.fft.rfft(x, 24, axis=0),
            np.fft.irfft(np.fft.fft(x, 9), 17),
            np.fft.fft(x, 9),
        ),
        "m",
    ),
    "softmax": (lambda x: np.exp(x - x.sum(axis=1, keepdims=True) / 99), "m"),
    "gather": (lambda x, i: x[i] * 2, "mi"),
    "scatter": (scattered, "mi"),
    "roll": (lambda x: np.roll(x, (2, -1), (0, 1)), "m"),
    "sort": (lambda x: (np.sort(x, axis=0), np.sort(x, axis=1)), "m"),
    "argsort": (lambda x: (np.argsort(x, axis=0, stable=True), np.argsort(x, axis=1, stable=True)), "m"),
    "searchsorted": (lambda x: np.searchsorted(np.sort(x, axis=None), x), "m"),
    "repeat": (lambda x: np.repeat(x, 3, axis=1)[:, 1:], "m"),
    "solve": (lambda x: np.linalg.solve(x @ x.T + 99 * np.eye(len(x)), x), "m"),
    "small matrices": (small_matrices, "m"),
}


def functions(rng: np.random.Generator, count: int) -> None:
    """Some of the functions above."""
    for name in rng.permutation(list(FUNCTIONS))[:count]:
        function, kinds = FUNCTIONS[name]
        dtypes = ["f8"] if name in ("solve", "small matrices") else ["f8", "f4", "i4"]
        dtypes = ["i1", "u1", "i2"] if "short integers" in name else ["bfloat16"] if "bfloat16" in name else dtypes
        dtype = str(rng.choice(dtypes))
        dynamic, threads = (None, True)[rng.integers(2)], int(rng.integers(1, 3))
        compiled: Any = bl.compile(function, dynamic=dynamic, options={"num_threads": threads})
        for _ in range(4):
            shape = tuple(int(n) for n in rng.choice(SIZES, 2))
            values = [rng.integers(-3, 4, shape).astype(dtype)]
            if "i" in kinds:
                values.append(rng.integers(-shape[0], shape[0], 9) if shape[0] else np.zeros(0, np.int64))
            layout = str(rng.choice(LAYOUTS))
            for side in SIDES:
                print(name, dtype, shape, layout, f"dynamic={dynamic} threads={threads} {side}", flush=True)
                red_zones.set_mode(side)
                given, kept = ([laid_out(v, layout, side) for v in values] for _ in range(2))
                got, want = compiled(*given), function(*kept)
                red_zones.check()
                parts = zip((got, want), (given, kept), strict=True)
                for a, b in zip(*([*(r if isinstance(r, tuple) else (r,)), *x] for r, x in parts), strict=True):
                    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
        assert compiled.report().compiles, f"{name} was not compiled"


def ops(rng: np.random.Generator, count: int) -> None:
    """Modules of ops of the table, each in one configuration."""
    every = [calls for calls in cells().values() if calls]
    for number in range(count):
        chosen = [every[k] for k in rng.choice(len(every), TOGETHER, replace=False)]
        calls = [c[int(rng.integers(len(c)))] for c in chosen]
        choices = configurations(rng)
        c = choices[int(rng.integers(len(choices)))]
        calls = calls if c.symbolic else [resized(call, rng) for call in calls]
        side = SIDES[number % 2]
        print(side, c, *map(str, calls), flush=True)
        red_zones.set_mode(side)
        found = failures(calls, c, rng)
        red_zones.check()
        assert not found, "\n".join(found)


def updates(rng: np.random.Generator, count: int) -> None:
    """Random functions that store into what they made."""
    for number in range(count):
        source = random_updates(int(rng.integers(1 << 32)), 10)
        text, dynamic, side = source.text(), random.Random(number).choice((None, True, False)), SIDES[number % 2]
        print(side, f"dynamic={dynamic}", text, flush=True)
        red_zones.set_mode(side)
        found = differences(text, [w.arguments for w in source.worlds], dynamic=dynamic)
        assert not found, "\n".join(found)


PARTS: dict[str, Callable[[np.random.Generator, int], None]] = {"functions": functions, "ops": ops, "updates": updates}


def main(part: str, seed: int, count: int) -> None:
    warnings.simplefilter("ignore")
    with red_zones.guarded("end"), np.errstate(all="ignore"):
        PARTS[part](np.random.default_rng(seed), count)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
