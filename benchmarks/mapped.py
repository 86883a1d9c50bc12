"""What `bl.vmap` costs in compiled code: a function of one example, mapped, beside the same function batched by hand.

What goes in: seconds to spend. What comes out: the times of both. What holds: both are compiled, from 20 ops each, and
take the same arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

import broadloom as bl
from benchmarks import timing
from benchmarks.timing import Time
from benchmarks.workloads import Function

Arrays = tuple[np.ndarray, ...]
OPS = 20


def one(x, w):
    """Scale, normalise, activate and pool one vector."""
    h = x * w
    h = h - np.mean(h)
    h = h / np.sqrt(np.mean(h * h) + np.float32(1e-5))
    h = h * (np.float32(1) + np.tanh(h + np.float32(0.044715) * h * h * h))
    return np.sum(np.exp(h - np.max(h)) * h)


def by_hand(x, w):
    """`one` for many vectors, which lie along the last axis."""
    h = x * w
    h = h - np.mean(h, axis=-1, keepdims=True)
    h = h / np.sqrt(np.mean(h * h, axis=-1, keepdims=True) + np.float32(1e-5))
    h = h * (np.float32(1) + np.tanh(h + np.float32(0.044715) * h * h * h))
    return np.sum(np.exp(h - np.max(h, axis=-1, keepdims=True)) * h, axis=-1)


mapped = bl.vmap(one, in_axes=(0, None))


def arguments(examples: int, length: int = 512) -> Arrays:
    """Vectors as rows, and weights that all of them share."""
    rng = np.random.default_rng(0)
    return tuple(rng.standard_normal(shape).astype(np.float32) for shape in ((examples, length), (length,)))


def measure(budget: float, examples: int = 8192) -> Mapping[str, Time]:
    """The times of both, measured in turns."""
    given = arguments(examples)
    calls: dict[str, Callable[[], object]] = {}
    firsts = {}
    functions: dict[str, Function] = {"by hand": by_hand, "vmap": mapped}
    for name, function in functions.items():
        compiled = bl.compile(function, fullgraph=True)
        calls[name] = lambda f=compiled: f(*given)
        firsts[name], _ = timing.first_call(calls[name])
    return {name: timing.summary(firsts[name], times) for name, times in timing.steady(calls, budget).items()}
