"""Searches that end with their first hit: any and all look at nothing behind the chunk that decides them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import broadloom as bl
from broadloom.codegen.plans import STOP_CHUNK

LENGTHS = [0, 1, 5, STOP_CHUNK - 1, STOP_CHUNK, STOP_CHUNK + 1, 3 * STOP_CHUNK + 7, 20_001]

# A second page that nobody may read follows the first: what reads on is ended by the system.
BEHIND_A_HIT = """
import ctypes, mmap, sys
import numpy as np
import broadloom as bl

size = mmap.PAGESIZE
room = mmap.mmap(-1, 4 * size)
x = np.frombuffer(room, dtype=np.float32)
truth = sys.argv[1] == "any"
x[:] = float(not truth)
x[100] = float(truth)
f = bl.compile(lambda x: (x > 0).any() if truth else (x > 0).all())
f(x.copy())
libc = ctypes.CDLL(None, use_errno=True)
address = ctypes.c_void_p(x.ctypes.data + size)
assert libc.mprotect(address, ctypes.c_size_t(3 * size), 0) == 0
print(bool(f(x)))
"""


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("n", LENGTHS)
def test_hits_anywhere(n, dynamic):
    found = bl.compile(lambda x: (np.any(x > 0.5), np.all(x < 0.5), np.any(x)), dynamic=dynamic, fullgraph=True)
    for hit in {None, 0, n // 2, n - 1, min(n - 1, STOP_CHUNK), max(0, n - STOP_CHUNK)}:
        x = np.zeros(n, np.float32)
        if hit is not None and n:
            x[hit] = 1
        for given in (x, np.repeat(x, 2)[::2], x[::-1]):
            assert found(given) == (np.any(given > 0.5), np.all(given < 0.5), np.any(given))


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int64, np.float16, np.float64, np.complex64])
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1), (1, 2)])
def test_axes_and_masks(rng, dtype, axis):
    x = (rng.random((3, 40, 700)) > 0.999).astype(dtype)
    x[1] = rng.random((40, 700)) > 0.001
    x[2, 5:] = 1
    where = rng.random(x.shape) > 0.5

    def both(x, where):
        return np.any(x, axis=axis, where=where), np.all(x, axis=axis), np.any(x, axis=axis), np.all(x != 0, axis=axis)

    for got, wanted in zip(bl.compile(both, fullgraph=True)(x, where), both(x, where), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("kind", ["any", "all"])
def test_nothing_behind_a_hit_is_read(kind):
    command = [sys.executable, "-c", BEHIND_A_HIT, kind]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, f"{kind == 'any'}\n"), done.stderr


def test_a_bad_index_behind_a_hit_is_an_error(rng):
    x, places = np.ones(10), np.zeros(5000, np.int64)
    places[4999] = 10

    with pytest.raises(IndexError, match="index 10 is out of bounds"):
        bl.compile(lambda x, places: np.any(x[places] > 0), fullgraph=True)(x, places)
