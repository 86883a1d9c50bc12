"""Memory with bytes around it that nobody may write: what comparing values cannot see.

What goes in: code that makes arrays and runs compiled functions within `guarded()`. What comes out: an error from
`check()` where a byte in front of or behind an array or a workspace was written. What holds: meanwhile all arrays of
this thread, NumPy's and results of any size, and all workspaces come from here, each buffer of them by itself, unless
the function that makes them was compiled outside; memory is filled with a mark before it is used and with another after
it was given back, so that what is read too early or too late is seen in the values. In the modes of pages, a read
outside of a block ends the process.
"""

from __future__ import annotations

import ctypes
import mmap
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import pytest

from broadloom.runtime import entry, native, probe, results
from broadloom.runtime.context import NO_SITE, Context
from broadloom.runtime.link import Library, keep_forever, link
from tests import workspaces

Mode = Literal["zones", "end", "begin"]
MODES: tuple[Mode, ...] = ("zones", "end", "begin")  # in the order of their numbers in the native code
ZONE = 1024
MARK, GONE = 0xA5, 0xDB
NAME = "red zones"
VALUES: dict[str, object] = {
    "SLOTS": 1 << 16,
    "ZONE": ZONE,
    "TWICE": 2 * ZONE,
    "BEFORE": ZONE + 63,
    "AROUND": 2 * ZONE + 128,
    "PAGE": mmap.PAGESIZE,
    "LAST": mmap.PAGESIZE - 1,
    "PAGES": 2 * mmap.PAGESIZE,
    "MARK": MARK - 256,
    "GONE": GONE - 256,
    "NAME": 'c"' + NAME + "\\00" * (127 - len(NAME)) + '"',
}
C_FUNCTIONS = ("malloc", "free", "mmap", "munmap", "mprotect", "memcmp", "memset", "memcpy")


@cache
def _library() -> Library:
    text = (Path(__file__).parent / "red_zones.ll").read_text(encoding="utf-8")
    text = re.sub(r"\$([A-Z]+)", lambda m: str(VALUES[m[1]]), text)
    process = ctypes.CDLL(None)
    found = {n: ctypes.cast(getattr(process, n), ctypes.c_void_p).value or 0 for n in C_FUNCTIONS}
    return keep_forever(link({"zones": native.compiled(text, 0, None)}, found))


@cache
def _handler() -> Any:
    address = ctypes.CFUNCTYPE(ctypes.c_void_p)(_library().address("zones_handler"))()
    return results._capsule_new(address, results._CAPSULE_NAME, None)


@dataclass(frozen=True)
class _Runtime:
    """The native runtime, but for workspaces."""

    plain: Library

    def address(self, name: str) -> int:
        own = {"bl_alloc": "zones_alloc", "bl_free": "zones_free"}
        return _library().address(own[name]) if name in own else self.plain.address(name)


@cache
def _definition() -> Any:
    """The native entry, linked with workspaces of ours."""
    runtime = _Runtime(native.runtime())
    with mock.patch.object(native, "runtime", lambda store=None: runtime):
        return entry._made(None)


def _context(threads: int) -> Context:
    """As `native.new_context`."""
    runtime = _Runtime(native.runtime())
    alloc, free, parallel = map(runtime.address, ("bl_alloc", "bl_free", "bl_parallel_for"))
    return Context(alloc=alloc, free=free, parallel_for=parallel, threads=threads, site=NO_SITE)


def check() -> None:
    """Raises `AssertionError` where a byte around a block was written since the last check."""
    found = (ctypes.c_int64 * 4)()
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_library().address("zones_check"))(ctypes.addressof(found))
    count, data, size, offset = found
    if count:
        place = f"{-offset} bytes in front of" if offset < 0 else f"{offset - size} bytes behind"
        what = "given back twice" if size < 0 else f"written {place} its {size} bytes"
        raise AssertionError(f"{count} blocks are damaged, first the one at {data:#x}: {what}")


def workspaces_taken() -> int:
    """How many workspaces have been taken from here so far."""
    return int(ctypes.CFUNCTYPE(ctypes.c_int64)(_library().address("zones_workspaces"))())


def set_mode(mode: Mode) -> None:
    """How blocks are made from now on."""
    ctypes.CFUNCTYPE(None, ctypes.c_int32)(_library().address("zones_mode"))(MODES.index(mode))


@contextmanager
def numpy_arrays() -> Iterator[None]:
    """Arrays that NumPy makes in this thread come from here meanwhile."""
    before = results._set_handler()(_handler())
    try:
        yield
    finally:
        results._set_handler()(before)


@contextmanager
def guarded(mode: Mode = "zones") -> Iterator[None]:
    """Arrays that are made meanwhile, and workspaces of functions that are compiled meanwhile, come from here; their
    surroundings are looked at in the end."""
    set_mode(mode)
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(results, "handler", _handler))
        stack.enter_context(mock.patch.object(native, "new_context", _context))
        stack.enter_context(workspaces.apart())
        if not probe.mismatches():
            stack.enter_context(mock.patch.object(entry, "_definition", _definition()))
        stack.enter_context(numpy_arrays())
        yield
    set_mode("zones")
    check()


@pytest.fixture(autouse=True)
def red_zones() -> Iterator[None]:
    """For the conftest of a folder: each test runs within zones."""
    with guarded():
        yield
