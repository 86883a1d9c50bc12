"""The native runtime of this process: allocator and thread pool, linked once and never unloaded.

What goes in: the host target. What comes out: their addresses and, for Python, their counters. What holds: the
code stays until the process ends, past interpreter shutdown, because workers sleep in it and arrays may be freed
late; nothing is compiled before the first call.
"""

from __future__ import annotations

import ctypes
import os

from broadloom.errors import CodegenError
from broadloom.runtime import allocator, pool, target
from broadloom.runtime.allocator import BlockStatistics
from broadloom.runtime.cache import ObjectCache, cache_key
from broadloom.runtime.context import NO_SITE, Context
from broadloom.runtime.link import Library, keep_forever, link

# FastISel code: these functions wait for the system or are called once a call, and it compiles ten times as fast.
_LEVEL = 0


def runtime_text(machine: target.Target) -> str:
    """The LLVM IR of allocator and pool, for this process or for an exported library."""
    return allocator.allocator_text() + pool.pool_text(machine)


def c_functions() -> dict[str, int]:
    """The addresses of the C library's functions that the native runtime uses."""
    process = ctypes.CDLL(None)
    found: dict[str, int] = {}
    for name in (*allocator.C_FUNCTIONS, *pool.C_FUNCTIONS):
        function = getattr(process, name, None)
        if function is None:
            raise CodegenError("the C library lacks a function that the native runtime needs", got=name)
        found[name] = ctypes.cast(function, ctypes.c_void_p).value or 0
    return found


def compiled(text: str, level: int, store: ObjectCache | None) -> bytes:
    """The object of hand-written code for this machine, from the cache where it has it."""
    machine = target.host()
    key = None if store is None else cache_key(text, machine, level=level)
    if store is not None and key is not None:
        found = store.get(key)
        if found is not None:
            return found.data
    data = target.emit_object(text, machine, level)
    if store is not None and key is not None:
        store.put(key, data)
    return data


_runtime: Library | None = None


def runtime(store: ObjectCache | None = None) -> Library:
    """The native runtime of this process; the first call makes it, by way of the object cache if one is given."""
    global _runtime  # noqa: PLW0603 - one per process by nature: threads and memory
    if _runtime is None:
        with target.llvm_lock:
            if _runtime is None:
                data = compiled(runtime_text(target.host()), _LEVEL, store)
                made = keep_forever(link({"runtime": data}, c_functions()))
                _set_limit(made, min(allocator.DEFAULT_LIMIT, _memory() // 8))
                _runtime = made
    return _runtime


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _set_limit(library: Library, number_of_bytes: int) -> None:
    ctypes.CFUNCTYPE(None, ctypes.c_int64)(library.address("bl_store_limit"))(number_of_bytes)


def new_context(threads: int) -> Context:
    """A context for one run on at most `threads` threads."""
    native = runtime()
    return Context(
        alloc=native.address("bl_alloc"),
        free=native.address("bl_free"),
        parallel_for=native.address("bl_parallel_for"),
        threads=threads,
        site=NO_SITE,
    )


def worker_count() -> int:
    """How many worker threads the pool of this process has started."""
    return int(ctypes.CFUNCTYPE(ctypes.c_int32)(runtime().address("bl_pool_workers"))())


def block_statistics() -> BlockStatistics:
    """The counters of the store of large blocks."""
    out = (ctypes.c_int64 * 4)()
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(runtime().address("bl_store_statistics"))(ctypes.addressof(out))
    return BlockStatistics(*out)


def limit_blocks(number_of_bytes: int) -> None:
    """Bounds the bytes of large blocks that are kept for reuse; 0 keeps none."""
    _set_limit(runtime(), number_of_bytes)
