"""The object cache: compiled code on disk, in a folder of the user's own.

What goes in: a key that covers all that decides the bytes, and the bytes. What comes out: the bytes again, in this
or another process, or None. What holds:

- What the cache holds is executed, so a folder or file that belongs to somebody else, or that others can write to,
  is refused; access goes through a descriptor of the checked folder, so a swapped path changes nothing.
- A file is written under another name and renamed: readers see a whole entry or none, and any number of processes
  may work at once. A header carries format, key, lengths and checksum; what does not match - truncated, foreign,
  damaged, of another format - is a miss and is replaced. Nothing is unpickled.
- The folder is bounded in bytes; the entries that were used longest ago leave first.
- After opening, no failure of the file system reaches the caller: it is counted, and the code compiled anew.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
import struct
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from broadloom import platform
from broadloom.errors import CacheError
from broadloom.records import dataclass
from broadloom.runtime.context import ABI_VERSION
from broadloom.runtime.target import Target, toolchain_version

FORMAT = 1
DEFAULT_LIMIT = 256 << 20
_SUFFIX, _TEMPORARY = ".entry", ".partial"
_OWN = re.compile(r"[0-9a-f]{64}\.entry|[0-9]+\.[0-9a-f]{16}\.partial")  # others' files in the folder are left alone
_HEADER = struct.Struct("<4sI32sQQ32s")  # magic, format, key, length of the note, length of the data, checksum of both
_MAGIC = b"BLOC"
_STALE_SECONDS = 3600.0  # a temporary file this old belongs to a process that died
_TOUCH_SECONDS = 60.0  # the time of last use need not be more exact than this
_REMEDY = "choose a folder of your own with BROADLOOM_CACHE_DIR, or run: chmod 700 on it"


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """What is stored under a key: code, and a text that goes with it."""

    data: bytes
    note: str


@dataclass(slots=True)
class CacheStatistics:
    """Counters of one process: entries found, not found, written; files refused as damaged or foreign; failed writes;
    entries that left to keep the bound."""

    hits: int = 0
    misses: int = 0
    stores: int = 0
    refused: int = 0
    failures: int = 0
    evicted: int = 0


# ---- keys -----------------------------------------------------------------------------------------------------------


@cache
def source_digest() -> str:
    """A digest of Broadloom's own source: other code may generate other code."""
    root = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    digest = hashlib.sha256()
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            if name.endswith((".py", ".ll")):
                path = os.path.join(folder, name)
                _add(digest, path.removeprefix(root).encode())
                with open(path, "rb", buffering=0) as file:
                    _add(digest, file.read())
    return digest.hexdigest()


def _add(digest: hashlib._Hash, part: bytes) -> None:
    digest.update(struct.pack("<Q", len(part)))  # with lengths, so that parts cannot run into each other
    digest.update(part)


def cache_key(
    text: str, target: Target, *, options: str = "", passes: str = "", level: int = 2, python_tag: str = ""
) -> str:
    """The key of what is compiled from `text`.

    `text`: the canonical text that decides the code; `options` and `passes`: the identities of all that acted on it,
    backends and registered passes included; `python_tag`: for code that depends on the interpreter. The digest of
    Broadloom's source, the versions of llvmlite and LLVM, the target and the ABI's version are part of every key.

    >>> from broadloom.runtime.target import host
    >>> cache_key("a", host()) == cache_key("a", host()), cache_key("a", host()) == cache_key("a", host(), passes="p")
    (True, False)
    """
    digest = hashlib.sha256()
    parts = (text, options, passes, str(level), python_tag, source_digest(), toolchain_version(), target.triple,
             target.cpu, target.features, str(target.has_fma), str(target.vector_bits), str(target.caches),
             str(ABI_VERSION))  # fmt: skip
    for part in parts:
        _add(digest, part.encode())
    return digest.hexdigest()


# ---- the folder -----------------------------------------------------------------------------------------------------


def _refusal(facts: os.stat_result) -> str | None:
    if facts.st_uid != os.geteuid():
        return f"it belongs to user {facts.st_uid}"
    if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others can write to it (mode {stat.S_IMODE(facts.st_mode):03o})"
    return None


def _open_folder(folder: Path) -> int:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise CacheError("the object cache cannot be used", got=f"{folder}: {error}", remedy=_REMEDY) from error
    reason = _refusal(os.fstat(descriptor))
    if reason is not None:
        os.close(descriptor)
        raise CacheError(
            "the object cache is not safe to execute code from", got=f"{folder}: {reason}",
            allowed="a folder that belongs to you and that only you can write to", remedy=_REMEDY,
        )  # fmt: skip
    return descriptor


class ObjectCache(platform.LockOwner):
    """An open cache folder. Close it, or use it in a `with` statement.

    Raises `CacheError` when the folder cannot be made or opened, belongs to somebody else, or others can write to it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as d, ObjectCache(Path(d) / "cache") as store:
    ...     store.put("00" * 32, b"code", "a note")
    ...     store.get("00" * 32)
    True
    CacheEntry(data=b'code', note='a note')
    """

    def __init__(self, folder: Path, limit: int = DEFAULT_LIMIT) -> None:
        super().__init__()
        self.folder, self.limit = folder, limit
        self.statistics = CacheStatistics()
        self._descriptor = _open_folder(folder)
        self._size: int | None = None  # bytes in the folder, as far as this process knows; None before the first look

    def __enter__(self) -> ObjectCache:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            self.close()

    def close(self) -> None:
        """Closes the folder; later calls find nothing and store nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    # ---- reading ----------------------------------------------------------------------------------------------------

    def get(self, key: str) -> CacheEntry | None:
        """The entry of a key (64 hexadecimal digits), or None."""
        name = _file_name(key)
        try:
            found = self._read(name, key)
        except OSError as error:
            if error.errno != errno.ENOENT:
                self._count("refused")
            found = None
        self._count("misses" if found is None else "hits")
        return found

    def _read(self, name: str, key: str) -> CacheEntry | None:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a planted pipe must not block us
        descriptor = os.open(name, flags, dir_fd=self._descriptor)
        with open(descriptor, "rb") as file:
            facts = os.fstat(descriptor)
            data = file.read() if stat.S_ISREG(facts.st_mode) and _refusal(facts) is None else b""
        entry = _parse(data, key)
        if entry is None:
            self._count("refused")
        elif time.time() - facts.st_mtime > _TOUCH_SECONDS:
            with contextlib.suppress(OSError):
                os.utime(name, dir_fd=self._descriptor, follow_symlinks=False)
        return entry

    # ---- writing ----------------------------------------------------------------------------------------------------

    def put(self, key: str, data: bytes, note: str = "") -> bool:
        """Stores an entry; False when it could not be stored."""
        name = _file_name(key)
        content = _format(key, data, note)
        if len(content) > self.limit:
            return False
        temporary = f"{os.getpid()}.{os.urandom(8).hex()}{_TEMPORARY}"
        try:
            self._write(temporary, name, content)
        except OSError:
            self._count("failures")
            return False
        self._count("stores")
        self._bound(len(content))
        return True

    def _write(self, temporary: str, name: str, content: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, 0o600, dir_fd=self._descriptor)
        try:
            with open(descriptor, "wb") as file:
                file.write(content)
            try:
                os.rename(temporary, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
            except IsADirectoryError:
                os.rmdir(name, dir_fd=self._descriptor)
                os.rename(temporary, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except BaseException:  # an interrupt too must not leave a piece behind
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=self._descriptor)
            raise

    def _bound(self, added: int) -> None:
        with self.lock:
            known = self._size
            self._size = None if known is None else known + added
            if self._size is not None and self._size <= self.limit:
                return
        files = sorted(self._files())  # oldest use first
        total = sum(size for _, size, _ in files)
        goal = self.limit if total <= self.limit else self.limit * 9 // 10
        for used, size, name in files:
            dead = name.endswith(_TEMPORARY) and time.time() - used > _STALE_SECONDS
            if dead or (total > goal and not name.endswith(_TEMPORARY)):
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=self._descriptor)
                    self._count("evicted")
                total -= size
        with self.lock:
            self._size = total

    def _files(self) -> Iterator[tuple[float, int, str]]:
        try:
            names = os.listdir(self._descriptor)
        except OSError:
            return
        for name in names:
            if _OWN.fullmatch(name):
                with contextlib.suppress(OSError):
                    facts = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
                    yield facts.st_mtime, facts.st_size, name

    # ---- housekeeping -----------------------------------------------------------------------------------------------

    def contents(self) -> tuple[int, int]:
        """How many entries the folder holds, and their bytes."""
        sizes = [size for _, size, name in self._files() if name.endswith(_SUFFIX)]
        return len(sizes), sum(sizes)

    def clear(self) -> int:
        """Removes all entries; returns how many."""
        removed = 0
        for _, _, name in self._files():
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=self._descriptor)
                removed += name.endswith(_SUFFIX)
        with self.lock:
            self._size = None
        return removed

    def _count(self, name: str) -> None:
        with self.lock:
            setattr(self.statistics, name, getattr(self.statistics, name) + 1)


# ---- entries --------------------------------------------------------------------------------------------------------


def _file_name(key: str) -> str:
    if len(key) != 64 or not set(key) <= set("0123456789abcdef"):
        raise CacheError("not a key of the object cache", got=repr(key), allowed="64 hexadecimal digits")
    return key + _SUFFIX


def _format(key: str, data: bytes, note: str) -> bytes:
    text = note.encode()
    checksum = hashlib.sha256(text + data).digest()
    return _HEADER.pack(_MAGIC, FORMAT, bytes.fromhex(key), len(text), len(data), checksum) + text + data


def _parse(content: bytes, key: str) -> CacheEntry | None:
    if len(content) < _HEADER.size:
        return None
    magic, version, owner, text_length, data_length, checksum = _HEADER.unpack_from(content)
    body = content[_HEADER.size :]
    if (magic, version, owner) != (_MAGIC, FORMAT, bytes.fromhex(key)) or len(body) != text_length + data_length:
        return None
    if hashlib.sha256(body).digest() != checksum:
        return None
    try:
        note = body[:text_length].decode()
    except UnicodeDecodeError:
        return None
    return CacheEntry(body[text_length:], note)
