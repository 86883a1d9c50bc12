"""Memory for results and workspaces, as native code: large blocks are kept and used again.

What goes in: sizes. What comes out: memory aligned to 64 bytes, large results to pages; NumPy's memory handler (NEP 49)
on top of it, so that an array made by a compiled function owns its data as any other array does. A fresh page costs
about 0.6 us, more than the arithmetic on it, hence the keeping.

What holds: blocks of 1 MB and more come in size classes (four per doubling) and go back to a store that is bounded
in bytes, the oldest leaving first; from 2 MB on they are aligned to huge pages. The store's state lies in one page
that is wiped in a child of `fork`, so no lock is inherited. Every function may be called from any thread, with or
without the GIL, and after the interpreter has gone; a store that is busy is passed by. No Python code is involved.
The text contains no address and links into a shared library as well.
"""

from __future__ import annotations

from broadloom.records import dataclass
from broadloom.runtime.text import ll_text

LARGE_BLOCK = 1 << 20
DEFAULT_LIMIT = 512 << 20  # bytes kept at most
SLOTS = 64

# The names that the text asks of the C library.
C_FUNCTIONS = ("mmap", "munmap", "madvise", "malloc", "free")


@dataclass(frozen=True, slots=True)
class BlockStatistics:
    """Counters of the store since the process began (or was forked): large blocks handed out, how many of these
    were kept ones, bytes kept now, and blocks given back to the system."""

    allocations: int
    reused: int
    kept_bytes: int
    released: int


def allocator_text() -> str:
    """The LLVM IR of the allocator. It defines `bl_alloc(ctx, size)`, `bl_free(ctx, p, size)`, `bl_result_handler()`,
    `bl_store_limit(bytes)` and `bl_store_statistics(out)`."""
    name = "broadloom"
    array = 'c"' + name + "\\00" * (127 - len(name)) + '"'
    return ll_text("store", "workspace", "results", values={"SLOTS": SLOTS, "LIMIT": DEFAULT_LIMIT, "NAME": array})
