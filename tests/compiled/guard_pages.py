"""Kernels on memory between two pages that fault: a read or write outside of an array ends the process.

Run as `python -m tests.compiled.guard_pages SEED`; what runs is printed before, so that the last line
names the culprit.
What holds: inputs, results and workspaces lie flush at the end of their pages, or at the beginning.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import warnings
from typing import Any

import numpy as np

import broadloom as bl
from broadloom.runtime import entry, native, probe, python_entry
from broadloom.runtime.context import NO_SITE, Context

PAGE = mmap.PAGESIZE
SIZES = (0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 70)
LAYOUTS = ("C", "F", "reversed", "steps", "unaligned")
_protect = ctypes.CDLL(None).mprotect
_protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class Block:
    """`size` bytes with a page that faults on either side; flush with one of them."""

    def __init__(self, size: int, at_end: bool, align: int) -> None:
        body = max(1, -(-size // PAGE)) * PAGE
        self._memory = mmap.mmap(-1, body + 2 * PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        ctypes.memset(start + PAGE, 0xA5, body)
        self._ends = (start, start + PAGE + body)
        for end in self._ends:
            _protect(end, PAGE, 0)
        self.address = start + PAGE + ((body - size) // align * align if at_end else 0)
        self.__array_interface__ = {"data": (self.address, False), "shape": (size,), "typestr": "|u1", "version": 3}

    def __del__(self) -> None:
        for end in self._ends:
            _protect(end, PAGE, mmap.PROT_READ | mmap.PROT_WRITE)


class Room:
    """Where arrays, results and workspaces are made."""

    def __init__(self) -> None:
        self.at_end = True
        self.workspaces: dict[int, Block] = {}
        self._alloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(self._take)
        self._free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(self._give)

    def array(self, shape: tuple[int, ...], dtype: Any, order: tuple[int, ...], align: int = 0) -> Any:
        """As `runtime.results.result_array`."""
        dtype = np.dtype(dtype)
        steps, step = [0] * len(shape), dtype.itemsize
        for axis in reversed(order):
            steps[axis] = step
            step *= max(1, shape[axis])
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        block = Block(max(size, dtype.itemsize), self.at_end, align or dtype.alignment)
        return np.ndarray(shape, dtype, np.asarray(block), 0, steps)

    def laid_out(self, values: Any, layout: str) -> Any:
        """The values in memory of this room."""
        forwards = tuple(range(values.ndim))
        match layout:
            case "F":
                x = self.array(values.shape, values.dtype, forwards[::-1])
            case "reversed":
                x = self.array(values.shape, values.dtype, forwards)[(slice(None, None, -1),) * values.ndim]
            case "steps":
                wide = tuple(2 * n - 1 if n else 0 for n in values.shape)
                x = self.array(wide, values.dtype, forwards)[(slice(None, None, 2),) * values.ndim]
            case "unaligned":
                room = self.array((values.nbytes + 1,), np.uint8, (0,))
                x = np.ndarray(values.shape, values.dtype, room[int(self.at_end) :])
            case _:
                x = self.array(values.shape, values.dtype, forwards)
        x[...] = values
        return x

    def context(self, threads: int) -> Context:
        """As `native.new_context`."""
        alloc, free = (ctypes.cast(f, ctypes.c_void_p).value for f in (self._alloc, self._free))
        assert alloc is not None and free is not None
        parallel = native.runtime().address("bl_parallel_for")
        return Context(alloc=alloc, free=free, parallel_for=parallel, threads=threads, site=NO_SITE)

    def _take(self, context: int, size: int) -> int:
        block = Block(size, self.at_end, 64)
        self.workspaces[block.address] = block
        return block.address

    def _give(self, context: int, address: int, size: int) -> None:
        del self.workspaces[address]


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
TAKING = {"sort", "argsort"}  # their kernels take memory themselves, which Python gives to its own thread alone here


def main(seed: int) -> None:
    rng, room = np.random.default_rng(seed), Room()
    probe.mismatches = entry.probe.mismatches = lambda: ("guard pages",)  # type: ignore[assignment]
    python_entry.result_array, native.new_context = room.array, room.context  # type: ignore[assignment]
    warnings.simplefilter("ignore")
    for name in rng.permutation(list(FUNCTIONS))[:9]:
        function, kinds = FUNCTIONS[name]
        dtypes = ["f8"] if name in ("solve", "small matrices") else ["f8", "f4", "i4"]
        dtypes = ["i1", "u1", "i2"] if "short integers" in name else ["bfloat16"] if "bfloat16" in name else dtypes
        dtype = str(rng.choice(dtypes))
        dynamic, threads = (None, True)[rng.integers(2)], int(rng.integers(1, 3)) if name not in TAKING else 1
        compiled: Any = bl.compile(function, dynamic=dynamic, options={"num_threads": threads})
        for _ in range(4):
            shape = tuple(int(n) for n in rng.choice(SIZES, 2))
            values = [rng.integers(-3, 4, shape).astype(dtype)]
            if "i" in kinds:
                values.append(rng.integers(-shape[0], shape[0], 9) if shape[0] else np.zeros(0, np.int64))
            layout = str(rng.choice(LAYOUTS))
            for room.at_end in (True, False):
                print(
                    name, dtype, shape, layout, f"dynamic={dynamic} threads={threads} at_end={room.at_end}", flush=True
                )
                given, kept = ([room.laid_out(v, layout) for v in values] for _ in range(2))
                got, want = compiled(*given), function(*kept)
                parts = zip((got, want), (given, kept), strict=True)
                for a, b in zip(*([*(r if isinstance(r, tuple) else (r,)), *x] for r, x in parts), strict=True):
                    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
                assert not room.workspaces
        assert compiled.report().compiles, f"{name} was not compiled"


if __name__ == "__main__":
    main(int(sys.argv[1]))
