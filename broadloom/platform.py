"""Every assumption about the machine and the interpreter, in one place.

What goes in: nothing but the running process and, where named, an environment mapping. What comes out: numbers that
other rooms need (page size, processors, caches, cache folder), the list of reasons why native code is off, and
`describe()` for the doctor. What holds: importing this module never fails, on any machine; nothing is written.
"""

from __future__ import annotations

import gc
import math
import os
import platform
import signal
import struct
import sys
import sysconfig
import threading
import traceback
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from broadloom.records import dataclass

PYTHON_VERSIONS = ((3, 11), (3, 12), (3, 13))  # whose bytecode capture understands
MACHINES = ("x86_64", "aarch64")  # whose code the runtime links and calls
SYSTEMS = ("Linux",)


@dataclass(frozen=True, slots=True)
class Fact:
    """One finding about the machine; `remedy` is empty when `ok`."""

    name: str
    value: str
    ok: bool = True
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.value}" + ("" if self.ok else f" ({self.remedy})")


def is_cpython() -> bool:
    """Whether the interpreter is CPython, whose object layout the native entry reads."""
    return sys.implementation.name == "cpython"


def is_free_threaded() -> bool:
    """Whether the interpreter was built without the GIL."""
    return bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def is_64_bit_little_endian() -> bool:
    """Whether addresses have 64 bits and numbers their low byte first."""
    return struct.calcsize("P") == 8 and sys.byteorder == "little"


def raised_by_signal_handler(error: BaseException) -> bool:
    """Whether an exception comes from a signal handler, which may run, and raise, between any two instructions.

    >>> raised_by_signal_handler(ValueError())
    False
    """
    handlers = (signal.getsignal(number) for number in signal.valid_signals())
    methods = (
        getattr(h, "__func__", h) if hasattr(h, "__code__") else type(h).__call__ for h in handlers if callable(h)
    )
    codes = {getattr(m, "__code__", None) for m in methods}
    return any(frame.f_code in codes for frame, _ in traceback.walk_tb(error.__traceback__))


def page_size() -> int:
    """Bytes in a page of memory."""
    return os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def cpu_count() -> int:
    """How many processors this process may keep busy: its affinity, bounded by the container's quota; at least 1."""
    if hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0))
    else:
        allowed = os.cpu_count() or 1
    quota = _cpu_quota(Path("/sys/fs/cgroup/cpu.max"))
    return max(1, allowed if quota is None else min(allowed, quota))


def _cpu_quota(path: Path) -> int | None:
    """Whole processors under the control group's limit, rounded up; None without one."""
    try:
        quota, period = path.read_text().split()
        return None if quota == "max" else max(1, math.ceil(int(quota) / int(period)))
    except (OSError, ValueError, ZeroDivisionError):
        return None


@dataclass(frozen=True, slots=True)
class Caches:
    """Bytes of the data caches that one processor reaches: its own first two, and the last, which others share."""

    first: int = 32 << 10
    second: int = 512 << 10
    last: int = 8 << 20


USUAL_CACHES = Caches()


@cache
def caches() -> Caches:
    """The data caches of this machine, usual sizes where the system does not tell."""
    return caches_in(Path("/sys/devices/system/cpu/cpu0/cache"))


def caches_in(folder: Path) -> Caches:
    """The caches that a folder in the manner of Linux's sysfs describes.

    >>> caches_in(Path("/nowhere"))
    Caches(first=32768, second=524288, last=8388608)
    """
    sizes: dict[int, int] = {}
    for entry in sorted(folder.glob("index*")):
        try:
            kind, level, size = ((entry / name).read_text().strip() for name in ("type", "level", "size"))
            if kind in ("Data", "Unified") and level.isdecimal():
                sizes[int(level)] = int(size[:-1]) << {"K": 10, "M": 20, "G": 30}[size[-1:]]
        except (OSError, ValueError, KeyError):
            continue
    usual = USUAL_CACHES
    second = sizes.get(2, usual.second)
    last = sizes[max(sizes)] if sizes and max(sizes) > 2 else max(second, usual.last)
    return Caches(sizes.get(1, usual.first), second, last)


def default_cache_dir(environ: Mapping[str, str]) -> Path:
    """The folder for compiled objects: below XDG_CACHE_HOME where that is an absolute path, as the XDG base
    directory specification says, else below ~/.cache."""
    base = environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):
        return Path(base) / "broadloom"
    home = environ.get("HOME", "")
    return (Path(home) if os.path.isabs(home) else Path(os.path.expanduser("~"))) / ".cache" / "broadloom"


def describe() -> tuple[Fact, ...]:
    """What the doctor reports about interpreter, system and processor."""
    version = sys.version_info[:2]
    named = ", ".join(f"{a}.{b}" for a, b in PYTHON_VERSIONS)
    build = "free-threaded" if is_free_threaded() else "with the GIL"
    layout = f"{struct.calcsize('P') * 8}-bit {sys.byteorder}-endian"
    return (
        Fact(
            "python",
            f"{platform.python_implementation()} {platform.python_version()}",
            is_cpython() and version in PYTHON_VERSIONS,
            f"use CPython {named}",
        ),
        Fact("build", build, not is_free_threaded(), "use a build with the GIL"),
        Fact("words", layout, is_64_bit_little_endian(), "use a 64-bit little-endian machine"),
        Fact("system", platform.system(), platform.system() in SYSTEMS, f"use {', '.join(SYSTEMS)}"),
        Fact("machine", platform.machine(), platform.machine() in MACHINES, f"use {', '.join(MACHINES)}"),
        Fact("processors", str(cpu_count())),
        Fact("page size", f"{page_size()} bytes"),
        Fact("caches", ", ".join(f"{n >> 10} KB" for n in (caches().first, caches().second, caches().last))),
    )


def unsupported() -> tuple[Fact, ...]:
    """The facts that keep native code off; empty where compiled functions run natively."""
    return tuple(f for f in describe() if not f.ok)


class LockOwner:
    """Has a re-entrant `lock`. A child of `fork` gets a new one: the old may be in the hands of a thread that the child
    does not have, and its holder may be compiling, too long for `fork` to wait. So what the lock guards is in order
    between any two statements.

    >>> with LockOwner().lock:
    ...     pass
    """

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        _owners.add(self)


_owners: weakref.WeakSet[LockOwner] = weakref.WeakSet()


def _renew_locks() -> None:
    for owner in list(_owners):
        owner.lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_locks)


class _Pauses(LockOwner):
    """Who holds the collector of cycles off now, in all threads, and whether it is to run again afterwards. An
    interrupt between any two statements may cost time, but never leaves the collector off."""

    __slots__ = ("holders", "resumes")

    def __init__(self) -> None:
        super().__init__()
        self.holders: set[object] = set()
        self.resumes = False

    def begin(self, holder: object) -> None:
        with self.lock:
            if not self.holders:
                self.resumes = gc.isenabled()
            self.holders.add(holder)
            gc.disable()

    def end(self, holder: object) -> None:
        with self.lock:
            if self.resumes and self.holders <= {holder}:
                gc.enable()
            self.holders.discard(holder)

    def forget(self) -> None:
        """In a child of `fork`, which has no thread that would end a pause."""
        if self.resumes and self.holders:
            gc.enable()
        self.holders.clear()


_pauses = _Pauses()


@contextmanager
def collector_paused() -> Iterator[None]:
    """Python's collector of cycles stays off inside, in all threads.

    A compilation makes records by the hundred thousand, all alive and hardly any in a cycle: going through them again
    and again was a third of its time. On leaving the last of such blocks the collector is as it was.

    >>> with collector_paused():
    ...     gc.isenabled()
    False
    """
    holder = object()
    try:
        _pauses.begin(holder)
        yield
    finally:
        _pauses.end(holder)


os.register_at_fork(after_in_child=_pauses.forget)
