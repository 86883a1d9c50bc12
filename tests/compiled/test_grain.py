"""What is handed to several threads, and what is not worth waking one: kernels of every kind, small and large.

A pool that has room for four threads looks on. Sizes known beforehand are weighed in the compiler, symbolic ones in the
call; both have to decide alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import broadloom as bl
from tests.compiled.pool import observed

Array = np.ndarray[Any, Any]


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def heat(x: Array) -> Array:
    return np.asarray(x[1:-1, 1:-1] + 0.2 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]))


Shapes = tuple[tuple[int, ...], ...]
# A function, the shapes of its arguments where one thread is enough, and where several pay.
KERNELS: dict[str, tuple[Callable[..., Any], Shapes, Shapes]] = {
    "points": (lambda x, y: x * y + x, ((1000,), (1000,)), ((1_000_000,), (1_000_000,))),
    "dear points": (lambda x: np.sin(x), ((500,),), ((100_000,),)),
    "rows": (softmax, ((10, 100),), ((400, 1000),)),
    "columns": (lambda x: x.sum(0), ((30, 100),), ((400, 3000),)),
    "a sum": (lambda x: x.sum(), ((9000,),), ((1_000_000,),)),
    "stencil": (heat, ((40, 50),), ((900, 1000),)),
    "transposition": (lambda x, y: x.T + y, ((50, 40), (40, 50)), ((900, 800), (800, 900))),
    "scan": (lambda x: np.cumsum(x), ((20_000,),), ((500_000,),)),
    "scans of rows": (lambda x: np.maximum.accumulate(x, axis=-1), ((20, 100),), ((300, 1000),)),
    "sort": (lambda x: np.sort(x, -1), ((20, 30),), ((2000, 100),)),
    "product": (lambda x, y: x @ y, ((64, 64), (64, 64)), ((300, 300), (300, 300))),
    "a packed matrix": (lambda x, y: x @ y, ((8, 100), (100, 300)), ((300, 300), (300, 300))),
    "products": (lambda x, y: x @ y, ((4, 40, 40), (4, 40, 40)), ((10, 200, 200), (10, 200, 200))),
    "matrix and vector": (lambda x, y: x @ y, ((100, 100), (100,)), ((2000, 2000), (2000,))),
    "one row": (lambda x, y: x @ y, ((1, 100), (100, 100)), ((1, 2000), (2000, 2000))),
    "one row, few columns": (lambda x, y: x @ y, ((1, 600), (600, 100)), ((1, 9000), (9000, 200))),
    "small matrices": (lambda x: np.linalg.inv(x), ((8, 4, 4),), ((5000, 4, 4),)),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_only_what_pays_is_shared_out(name: str, dynamic: bool, rng: np.random.Generator) -> None:
    function, *sizes = KERNELS[name]
    with observed() as pool:
        compiled = bl.compile(function, fullgraph=True, dynamic=dynamic)
        for shapes, several in zip(sizes, (False, True), strict=True):
            arguments = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
            with pool.run(4) as jobs:
                compiled(*arguments)
            assert any(len(job.threads) > 1 for job in jobs) == several, jobs


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("rows", [60, 700])
def test_few_elements_of_a_window_are_made_twice(rows: int, dynamic: bool, rng: np.random.Generator) -> None:
    """Each chunk of rows makes two more than its own anew: a sine a pixel, and a fifth of one at most besides."""

    def smoothed(x: Array) -> Array:
        y = np.sin(x)
        return np.asarray(y[:-2] + 2 * y[1:-1] + y[2:])

    x = rng.standard_normal((rows, 2000)).astype(np.float32)
    with observed() as pool:
        compiled = bl.compile(smoothed, fullgraph=True, dynamic=dynamic)
        for threads in (1, 2, 3, 4):
            with pool.run(threads) as jobs:
                compiled(x)
            assert len(compiled.report().kernels) == 1 and not compiled.report().allocations
            for job in jobs:
                made = sum(end - begin + 2 for begin, end in job.chunks)
                assert job.points == rows - 2 and made <= 1.2 * rows
            assert threads == 1 or len(jobs) == 1
