"""Random programs over memory in every position: compiled, they do what NumPy does, to every byte of it.

Arrays are carved out of one buffer: an element or a byte off, with steps of either sign, apart or overlapping; their
sizes are none, one, odd, and around vectors. Programs write through views and into `out=`. The code is made so that
whatever has more than one point is split, and run on one to four threads. The whole buffer is compared afterwards, so
that a byte beside an array that changes is seen.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import broadloom as bl
from tests.capture.test_random_programs import compiled as defined
from tests.compiled.pool import Pool, fine_grain, observed

Array = np.ndarray[Any, Any]
ROWS = (0, 1, 2, 3, 5, 8, 17)
COLUMNS = (0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 33, 65, 70, 129)
DTYPES = ("f8", "f4", "i4", "u1", "c8")
DAILY = 25

# x, y and z have one shape (rows, columns), v has (columns,); i is a small int.
STATEMENTS = (
    "x[1:] += x[:-1]",
    "x[:-1] += x[1:]",
    "x[:, 1:] += x[:, :-1]",
    "x[:, 1:] -= x[:, :-1] * 2",
    "x[::-1] += y",
    "x[:, ::2] = y[:, ::2] + z[:, ::2]",
    "x[...] = x[:, ::-1]",
    "x[1:, 1:] = x[:-1, :-1]",
    "y[:] = x[::-1, ::-1]",
    "np.add(x, y, out=z)",
    "np.multiply(x[:, 1:], y[:, :-1], out=x[:, :-1])",
    "np.subtract(x[1:], y[:-1], out=y[1:])",
    "np.maximum(x, z, out=x)",
    "np.copyto(x, v)",
    "x += v",
    "v += x.sum(axis=0).astype(v.dtype)",
    "v[1:] += v[:-1]",
    "v[::-1] -= v",
    "v[...] = v[::-1]",
    "x[...] = np.cumsum(y, axis=0)",
    "x[...] = np.cumsum(y, axis=1)",
    "np.cumsum(v, out=v)",
    "x[i % 3 :] = x[: max(len(x) - i % 3, 0)] + 1",
    "z[...] = np.roll(x, i, axis=1)",
    "z[...] = np.flip(y, 0) + x",
    "x[...] = np.sort(y.real, axis=1)",
    "x[x.real > y.real] = 1",
    "z[...] = np.where(x.real > 2, y, z[::-1])",
    "y[1:-1] = x[:-2] + x[2:] - 2 * x[1:-1]",
    "y[:, 1:-1] = (x[:, :-2] + x[:, 2:]) * 2 - x[:, 1:-1]",
    "x[1:-1, 1:-1] = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]",
    "x *= 2; y -= x; x += y",
    "z[...] = np.pad(x, 1)[1:-1, 2:]",
    "z[...] = np.concatenate([y[1:], x[:1]])",
    "x.T[...] = y.T + z.T",
    "v[...] = x[i % len(x)] + 1 if len(x) else 3",
)
RESULTS = (
    "x.sum()",
    "y.sum(axis=0)",
    "x.sum(axis=1)",
    "(x * y).sum(axis=1)",
    "np.cumsum(z, axis=1)",
    "x + y.T.T[::-1]",
    "x[::-1, ::2] * 2",
    "x @ y.T",
    "x.T @ z",
    "x @ v",
    "v.copy()",
    "np.sort(z.real, axis=0)",
    "x.astype(np.complex64)",
    "x[:, :, None] + v[:3]",
    "np.abs(x).max(initial=0)",
    "np.ascontiguousarray(x.T)",
    "(x - x.sum(axis=1, keepdims=True)) * 2",
    "(x - x.sum(axis=0)) * 2",
    "x.real.argmax(axis=1) if x.shape[1] else 0",
)


# Of one argument b, elements enough, and the sizes r and c: memory that is read and written may overlap in these alone.
VIEWS = (
    "b[{k} : {k} + r * c].reshape(r, c)",
    "b[c + {k} : c + {k} + r * c].reshape(r, c)",
    "b[{k} : {k} + r * c][::-1].reshape(r, c)",
    "b[{k} : {k} + 2 * r * c : 2].reshape(r, c)",
    "b[{k} : {k} + r * (c + 2)].reshape(r, c + 2)[:, 1:-1]",
    "b[{k} : {k} + r * (c + 1)].reshape(r, c + 1)[::-1, 1:]",
    "b[{k} : {k} + r * c].reshape(c, r).T",
)


def program(rng: np.random.Generator) -> str:
    """The text of `def program(x, y, z, v, i)`, or of `def program(b, r, c, i)`, which takes the arrays out of b."""
    lines = [str(rng.choice(STATEMENTS)) for _ in range(rng.integers(1, 6))]
    results = [str(rng.choice(RESULTS)) for _ in range(rng.integers(1, 4))]
    given = "x, y, z, v"
    if rng.random() < 0.7:
        taken = [f"{name} = {rng.choice(VIEWS).format(k=rng.integers(4))}" for name in "xyz"]
        taken.append(f"v = {rng.choice(('b[-c - 1 :][:c]', 'b[1 : c + 1]', 'b[: 2 * c : 2]', 'b[: c][::-1]'))}")
        lines[:0], given = taken, "b, r, c"
    body = "\n".join(f"    {line}" for line in lines)
    return f"def program({given}, i):\n{body}\n    return {', '.join(results)},\n"


class Memory:
    """A buffer, and arrays in it; equal memories are made of equal draws."""

    def __init__(self, dtype: str, shape: tuple[int, int], seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.dtype, self.rng, self.shape = np.dtype(dtype), rng, shape
        rows, columns = shape
        room = 64 + 3 * (2 * rows + 1) * (2 * columns + 2)  # elements
        values = rng.integers(0, 9, room).astype(self.dtype)
        self.off = int(rng.integers(self.dtype.itemsize)) if rng.random() < 0.3 else 0  # bytes
        self.bytes = np.zeros(room * self.dtype.itemsize + self.off, np.uint8)
        self.elements = self.bytes[self.off :].view(self.dtype)
        self.elements[...] = values
        self.together = rng.random() < 0.6
        self.matrices = tuple(self._matrix(shape, k) for k in range(3))
        self.vector = self._vector(shape)

    def _matrix(self, shape: tuple[int, int], number: int) -> Array:
        rows, columns = shape
        step, gap = int(self.rng.choice((1, 1, 1, 2))), int(self.rng.choice((0, 0, 1, 3)))
        wide = columns * step + gap
        if self.together:
            start = int(self.rng.choice((0, 1, columns, wide, 2, 0)))
        else:
            start = number * (2 * rows + 1) * (2 * columns + 2) + int(self.rng.integers(2))
        size = self.elements.itemsize
        x = np.ndarray(shape, self.dtype, self.bytes.data, self.off + start * size, (wide * size, step * size))
        if self.rng.random() < 0.15:
            x = x[::-1]
        if self.rng.random() < 0.15:
            x = x[:, ::-1]
        return x

    def _vector(self, shape: tuple[int, int]) -> Array:
        rows, columns = shape
        if rows and self.together and self.rng.random() < 0.5:
            return self.matrices[int(self.rng.integers(3))][int(self.rng.integers(rows))]
        v = self.elements[len(self.elements) - columns :]
        return v[::-1] if self.rng.random() < 0.2 else v

    def arguments(self, names: tuple[str, ...]) -> list[Any]:
        if names[0] == "b":
            return [self.elements, *self.shape, 2]
        return [*self.matrices, self.vector, 2]


def outcome(function: Callable[..., Any], arguments: list[Any]) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return [np.asarray(x) for x in function(*arguments)]
        except (ValueError, TypeError, IndexError) as error:
            return type(error)


def check(text: str, pool: Pool, rng: np.random.Generator, calls: int = 4) -> list[int]:
    """Calls the program on several memories; how many threads ran each job."""
    plain = defined(text)
    dtype, dynamic = str(rng.choice(DTYPES)), (None, True, False)[rng.integers(3)]
    options = {"use_cache": False, "max_specialisations": calls}
    function: Any = bl.compile(plain, dynamic=dynamic, options=options)
    names = tuple(inspect.signature(plain).parameters)
    ran: list[int] = []
    for _ in range(calls):
        shape, seed = (int(rng.choice(ROWS)), int(rng.choice(COLUMNS))), int(rng.integers(1 << 31))
        ours, theirs = Memory(dtype, shape, seed), Memory(dtype, shape, seed)
        with pool.run(int(rng.integers(1, 5))) as jobs:
            got = outcome(function, ours.arguments(names))
        ran += [len(job.threads) for job in jobs]
        want = outcome(plain, theirs.arguments(names))
        about = f"{text}{dtype} {shape} memory {seed} dynamic={dynamic} threads={pool.threads}"
        if isinstance(want, type) or isinstance(got, type):
            assert got is want, about
            continue
        for a, b in zip(got, want, strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape), about
            assert_equal(a, b, about)
        assert_equal(ours.elements, theirs.elements, about)
        assert (ours.bytes[: ours.off] == 0).all(), about
    assert all(b.code == "overlap" for b in function.report().breaks), f"{text}{function.report().breaks}"
    return ran


def assert_equal(a: Array, b: Array, about: str) -> None:
    """Integers are exact; sums of floats are taken in any order."""
    if a.dtype.kind not in "fc":
        np.testing.assert_array_equal(a, b, err_msg=about)
        return
    eps = float(np.finfo(a.dtype).eps)
    scale = float(np.abs(b[np.isfinite(b)]).max(initial=1))
    np.testing.assert_allclose(a, b, rtol=1000 * eps, atol=1000 * eps * scale, err_msg=about)


def test_programs_over_views(request: pytest.FixtureRequest, rng: np.random.Generator) -> None:
    ran: list[int] = []
    with observed() as pool, fine_grain():
        for _ in range(1000 if request.config.getoption("--full") else DAILY):
            ran += check(program(rng), pool, rng)
    assert max(ran) > 1  # each job by as many as it had room for; how many that was depends on what was drawn


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_all_threads_take_part(threads: int) -> None:
    memory = Memory("f8", (17, 129), 0)
    with observed() as pool, fine_grain():
        function: Any = bl.compile(lambda x, y: x * y + 1, options={"use_cache": False})
        with pool.run(threads) as jobs:
            got = function(*memory.matrices[:2])
    np.testing.assert_array_equal(got, memory.matrices[0] * memory.matrices[1] + 1)
    assert [job.room for job in jobs] == [threads]  # workers that earlier jobs needed may take part as well
    assert all(len(job.threads) >= threads for job in jobs)
