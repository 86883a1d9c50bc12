"""Objects and symbol addresses in, callable code out.

What goes in: relocatable objects and a table of addresses (functions of CPython, NumPy, BLAS, our own native
runtime). What comes out: a `Library` with an address per defined function. What holds: the code lives as long as
the `Library` is referenced, so whoever keeps an address keeps the library; every undefined name is resolved by us
before LLVM's linker is asked, because its error names the requester and not what is missing; functions of the C
library that kernels need or LLVM introduces on its own (memcpy, fmod, ...) are always there.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from broadloom.errors import CodegenError
from broadloom.lazy import llvm
from broadloom.runtime.target import llvm_lock

# What LLVM's passes and code generators call without being asked: loops recognised as copies, frem, rounding on
# CPUs without the instruction. And what kernels call that wait for each other.
C_LIBRARY = (
    "memcpy", "memmove", "memset", "memcmp", "bcmp",
    "fmod", "fmodf", "floor", "floorf", "ceil", "ceilf", "trunc", "truncf", "rint", "rintf",
    "nearbyint", "nearbyintf", "roundeven", "roundevenf", "round", "roundf", "fma", "fmaf", "sqrt", "sqrtf",
    "sched_yield",
)  # fmt: skip


# What unloads the code of a library, by its name: not held by the library itself, where the collector of cycles would
# come upon it, in any thread and without the lock.
_trackers: dict[str, Any] = {}


class Library:
    """Linked code. `address(name)` is the address of a defined function; it is valid while this object lives;
    dropping the last reference unloads the code.
    """

    __slots__ = ("_addresses", "name")

    def __init__(self, name: str, addresses: Mapping[str, int], tracker: Any) -> None:
        self.name, self._addresses = name, dict(addresses)
        _trackers[name] = tracker

    def __del__(self) -> None:
        # Unloading goes through LLVM, so it takes the lock; at the end of the process nothing is unloaded.
        if not sys.is_finalizing():
            with llvm_lock:
                del _trackers[self.name]

    def address(self, name: str) -> int:
        """The address of `name`. Raises `CodegenError` when the library does not define it."""
        try:
            return self._addresses[name]
        except KeyError:
            allowed = ", ".join(sorted(self._addresses)) or "nothing"
            raise CodegenError("no such function in the linked library", got=name, allowed=allowed) from None

    @property
    def names(self) -> frozenset[str]:
        """The functions that the library defines."""
        return frozenset(self._addresses)

    def __repr__(self) -> str:
        return f"Library({self.name}: {', '.join(sorted(self._addresses))})"


def keep_forever(library: Library) -> Library:
    """Keeps the code until the process ends, past interpreter shutdown: for code that other threads may be in."""
    for thing in (library, _trackers[library.name], _jit()):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    return library


# ---- what an object defines and what it asks for ------------------------------------------------------------------

_UNDEFINED, _GLOBAL, _WEAK, _FUNCTION = 0, 1, 2, 2
_SYMBOL_TABLE, _SYMBOL_SIZE = 2, 24


def object_symbols(data: bytes) -> tuple[frozenset[str], frozenset[str]]:
    """(functions defined, names asked for) of an ELF-64 little-endian relocatable object.

    Raises `CodegenError` when `data` is not such an object.
    """
    if data[:6] != b"\x7fELF\x02\x01":
        raise CodegenError("not an object file", got=repr(data[:6]), allowed="64-bit little-endian ELF")
    defined: set[str] = set()
    wanted: set[str] = set()
    try:
        (table,) = struct.unpack_from("<Q", data, 40)
        size, count = struct.unpack_from("<HH", data, 58)
        sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
        for section in sections:
            if section[1] != _SYMBOL_TABLE:
                continue
            names = sections[section[6]][4]
            for at in range(section[4] + _SYMBOL_SIZE, section[4] + section[5], _SYMBOL_SIZE):
                name, info, _, where = struct.unpack_from("<IBBH", data, at)
                if info >> 4 not in (_GLOBAL, _WEAK):
                    continue
                start = names + name
                text = data[start : data.index(b"\0", start)].decode()
                if where == _UNDEFINED:
                    wanted.add(text)
                elif info & 15 == _FUNCTION:
                    defined.add(text)
    except (struct.error, ValueError, IndexError) as error:
        raise CodegenError("truncated or damaged object file", got=f"{len(data)} bytes") from error
    wanted.discard("_GLOBAL_OFFSET_TABLE_")
    return frozenset(defined), frozenset(wanted)


@cache
def _c_library() -> dict[str, int]:
    found: dict[str, int] = {}
    for library in (ctypes.CDLL(None), ctypes.CDLL("libm.so.6")):
        for name in C_LIBRARY:
            function = getattr(library, name, None)
            if function is not None:
                found.setdefault(name, ctypes.cast(function, ctypes.c_void_p).value or 0)
    return found


# ---- linking --------------------------------------------------------------------------------------------------------


@cache
def _jit() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # JITLink places all sections of an object together, so that the small code model's relocations always reach.
    return llvm.create_lljit_compiler(use_jit_link=True)


_serial = itertools.count()


def _resolve(wanted: Iterable[str], symbols: Mapping[str, int]) -> dict[str, int]:
    known = _c_library()
    resolved: dict[str, int] = {}
    missing = []
    for name in sorted(wanted):
        address = symbols.get(name) or known.get(name)
        if address:
            resolved[name] = address
        else:
            missing.append(name)
    if missing:
        raise CodegenError(
            "generated code calls functions that nothing provides",
            got=", ".join(missing),
            remedy="pass their addresses in `symbols`",
        )
    return resolved


def link(objects: Mapping[str, bytes] | Iterable[bytes], symbols: Mapping[str, int] | None = None) -> Library:
    """Links objects into callable code.

    `objects`: relocatable objects, by name or in sequence; they may refer to each other. `symbols`: addresses by
    name. Raises `CodegenError` for a name that nothing defines, a name defined twice, or a damaged object.
    """
    named = dict(objects) if isinstance(objects, Mapping) else {f"object {i}": o for i, o in enumerate(objects)}
    owner: dict[str, str] = {}
    wanted: set[str] = set()
    for object_name, data in named.items():
        defined, asked = object_symbols(data)
        for function in defined:
            if function in owner:
                raise CodegenError(f"{function} is defined twice", got=f"{owner[function]} and {object_name}")
            owner[function] = object_name
        wanted |= asked
    resolved = _resolve(wanted - owner.keys(), symbols or {})
    builder = llvm.JITLibraryBuilder()
    for data in named.values():
        builder.add_object_img(data)
    for name, address in resolved.items():
        builder.import_symbol(name, address)
    for name in owner:
        builder.export_symbol(name)
    with llvm_lock:
        title = f"broadloom.{next(_serial)}"
        try:
            tracker = builder.link(_jit(), title)
        except RuntimeError as error:
            raise CodegenError("LLVM could not link generated code", got=str(error)) from error
    return Library(title, {name: tracker[name] for name in owner}, tracker)
