"""The block store and NumPy's handler on it: alignment, reuse, bound, realloc, other threads, shutdown."""

import ctypes
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from numpy._core.multiarray import get_handler_name

from broadloom.runtime import native
from broadloom.runtime.allocator import DEFAULT_LIMIT
from broadloom.runtime.results import result_array

MB = 1 << 20


@pytest.fixture
def store():
    yield
    native.limit_blocks(DEFAULT_LIMIT)


def workspace():
    lib = native.runtime()
    alloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(lib.address("bl_alloc"))
    free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(lib.address("bl_free"))
    return (lambda n: alloc(None, n)), (lambda p, n: free(None, p, n))


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 4096, MB - 1, MB, MB + 1, 3 * MB + 7, 9 * MB])
def test_workspaces_are_aligned_and_whole(size):
    alloc, free = workspace()
    blocks = [alloc(size) for _ in range(3)]
    for i, p in enumerate(blocks):
        assert p and p % 64 == 0
        ctypes.memset(p, i + 1, size)
    for i, p in enumerate(blocks):
        assert ctypes.string_at(p, size) == bytes([i + 1]) * size
        free(p, size)


def test_a_large_block_is_used_again(store):
    alloc, free = workspace()
    p = alloc(5 * MB + 3)
    free(p, 5 * MB + 3)
    before = native.block_statistics()
    q = alloc(5 * MB + 1)  # another size of the same class
    after = native.block_statistics()
    assert q == p and after.reused == before.reused + 1 and after.allocations == before.allocations + 1
    free(q, 5 * MB + 1)


def test_the_bound_holds_and_the_oldest_leaves_first(store):
    alloc, free = workspace()
    native.limit_blocks(20 * MB)
    sizes = [8 * MB, 6 * MB, 5 * MB, 4 * MB, 16 * MB]
    blocks = [alloc(n) for n in sizes]
    for p, n in zip(blocks, sizes, strict=True):
        free(p, n)
        assert native.block_statistics().kept_bytes <= 20 * MB
    before = native.block_statistics()
    p = alloc(16 * MB)
    assert native.block_statistics().reused == before.reused + 1
    native.limit_blocks(0)
    free(p, 16 * MB)
    assert native.block_statistics().released > before.released


def test_an_impossible_size_gives_null():
    alloc, free = workspace()
    assert alloc(1 << 61) is None
    assert alloc((1 << 62) + 1) is None
    free(None, 5)


def test_results_own_their_data_and_are_huge_page_aligned_up_to_the_page_of_the_header():
    x = result_array((3 * MB,), np.dtype(np.float32), (0,))
    assert x.flags.owndata and x.flags.writeable and x.base is None
    assert (x.ctypes.data - 4096) % (2 * MB) == 0
    x[:] = 3
    assert x.sum() == 9 * MB


@pytest.mark.parametrize("size", [MB, 2 * MB - 4096, 2 * MB - 64, 2 * MB, 5 * MB + 1])
def test_large_results_begin_with_a_page_and_are_whole(size):
    x = result_array((size,), np.dtype(np.uint8), (0,))
    assert x.ctypes.data % 4096 == 0
    x[:] = 7
    assert (x == 7).all()
    x.resize(size + MB, refcheck=False)  # the old size stands in the header
    assert (x[:size] == 7).all()


def flags_of_mapping(address):
    """What the system has been told of the memory that an address lies in, two letters each."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if found := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = int(found[1], 16) <= address < int(found[2], 16)
        elif inside and line.startswith("VmFlags:"):
            return line.split()[1:]
    return []


def test_large_blocks_are_to_have_huge_pages_where_the_system_has_any():
    told = Path("/sys/kernel/mm/transparent_hugepage").exists()
    alloc, free = workspace()
    small, large = alloc(MB), alloc(9 * MB)
    result = result_array((3 * MB,), np.dtype(np.float32), (0,))
    assert "hg" not in flags_of_mapping(small)
    assert [("hg" in flags_of_mapping(x)) for x in (large, result.ctypes.data)] == [told, told]
    free(small, MB)
    free(large, 9 * MB)


@pytest.mark.parametrize(("shape", "order"), [((1000, 700), (1, 0)), ((200, 90, 40), (1, 2, 0)), ((7,), (0,))])
def test_results_have_the_memory_order_asked_for(shape, order):
    x = result_array(shape, np.dtype(np.float64), order)
    assert x.shape == shape
    assert x.transpose(order).flags.c_contiguous


def test_resize_goes_through_the_handler():
    x = result_array((MB,), np.dtype(np.int32), (0,))
    x[:] = np.arange(MB)
    x.resize(2 * MB, refcheck=False)
    assert (x[:MB] == np.arange(MB)).all() and (x[MB:] == 0).all()
    x.resize(10, refcheck=False)
    assert x.tolist() == list(range(10))


def test_only_our_results_use_the_handler():
    names = [get_handler_name(result_array((n,), np.dtype(np.int8), (0,))) for n in (MB, MB - 1)]
    assert names == ["broadloom", "default_allocator"]
    assert get_handler_name() == "default_allocator" and get_handler_name(np.empty(MB)) == "default_allocator"
    before = native.block_statistics().allocations
    mine = result_array((MB,), np.dtype(np.float64), (0,))
    assert native.block_statistics().allocations == before + 1
    theirs = np.empty(MB)
    assert native.block_statistics().allocations == before + 1
    assert mine.nbytes == theirs.nbytes


def test_freeing_from_other_threads():
    arrays = [result_array((MB // 4 + i,), np.dtype(np.float64), (0,)) for i in range(16)]

    def drop():
        while arrays:
            try:
                arrays.pop()[:] = 1
            except IndexError:
                return

    threads = [threading.Thread(target=drop) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert native.block_statistics().kept_bytes <= DEFAULT_LIMIT


def test_results_may_outlive_everything_else():
    program = """
import sys, numpy as np
from broadloom.runtime.results import result_array
class Late:
    def __init__(self): self.x = result_array((1 << 20,), np.dtype("f8"), (0,))
    def __del__(self): self.x[0] = 1
sys.late = Late()
import builtins; builtins.kept = result_array((1 << 19,), np.dtype("f8"), (0,))
"""
    out = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60)
    assert (out.returncode, out.stderr) == (0, "")
