"""The threads that SciPy's BLAS and LAPACK take in our calls: no more than the run has.

What goes in: the library that SciPy's capsules come from. What comes out: `bl_blas_enter(threads)` and
`bl_blas_leave()`, between which generated code calls it. OpenBLAS has one count for the process, and functions that
read and set it, under a prefix that depends on who built it; other libraries have none that are known here, and then
both functions do nothing, which `control` tells.

What holds: the count is never raised. Calls at the same time run on the least of their counts; when the last of them
ends, the count that the first found is back, unless somebody else has set another meanwhile, so that other users of
the library keep theirs. Any thread may call, with or without the GIL; a child of `fork` starts outside of all calls.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache

from broadloom.codegen.abi import BLAS_ENTER, BLAS_LEAVE
from broadloom.lazy import cython_blas
from broadloom.records import dataclass
from broadloom.runtime import target
from broadloom.runtime.link import Library, keep_forever, link
from broadloom.runtime.text import ll_text

PREFIXES = ("scipy_openblas", "openblas")  # as SciPy's own packages name it, and as it is named elsewhere
UNCONTROLLED = "the library takes as many threads as it likes: it has no known function that sets their number"


@dataclass(frozen=True, slots=True)
class Control:
    """The addresses of `int get()` and `void set(int)`, and how the second is called."""

    name: str
    get: int
    set: int


def control_of(library: ctypes.CDLL) -> Control | None:
    """The functions that a library, or one that it is linked with, offers; None if there are none."""
    for prefix in PREFIXES:
        names = (f"{prefix}_get_num_threads", f"{prefix}_set_num_threads")
        get, put = (getattr(library, name, None) for name in names)
        if get is not None and put is not None:
            read, write = (ctypes.cast(f, ctypes.c_void_p).value or 0 for f in (get, put))
            return Control(names[1], read, write)
    return None


@cache
def control() -> Control | None:
    """How the count of SciPy's library is read and set; imports SciPy."""
    return control_of(ctypes.CDLL(cython_blas.load().__file__))


def linked(found: Control) -> Library:
    """The two functions, for a library."""
    data = target.emit_object(ll_text("blas"), target.host(), 0)
    return link({"blas": data}, {"bl_blas_get": found.get, "bl_blas_set": found.set})


@cache
def _functions() -> Library:
    found = control()
    if found is None:
        text = f"define void @{BLAS_ENTER}(i64 %n) {{\n  ret void\n}}\ndefine void @{BLAS_LEAVE}() {{\n  ret void\n}}\n"
        return keep_forever(link({"blas": target.emit_object(text, target.host(), 0)}))
    made = keep_forever(linked(found))
    os.register_at_fork(after_in_child=ctypes.CFUNCTYPE(None)(made.address("bl_blas_forked")))
    return made


def functions() -> dict[str, int]:
    """The addresses of both, by name."""
    return {name: _functions().address(name) for name in (BLAS_ENTER, BLAS_LEAVE)}
