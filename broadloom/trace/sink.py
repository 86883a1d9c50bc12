"""Where events go: a bounded record in memory, and on request a JSON-lines file and lines on stderr.

What goes in: events, from any thread, before and after a fork. What comes out: `events`, newest last; with a
folder, one file per process `broadloom-PID-*.jsonl` with one event a line; for chosen topics, a line on stderr.
What holds: a line is written whole by one append, so threads need no lock and a fork leaves none held; a folder or
file that cannot be written is one warning, and the events stay in memory.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import TypeVar

from broadloom.errors import warn
from broadloom.trace.events import Event

E = TypeVar("E", bound=Event)


class Sink:
    """A receiver of events.

    >>> from broadloom.trace import CacheMiss
    >>> sink = Sink()
    >>> sink.emit(CacheMiss("k"))
    >>> [e.key for e in sink.of(CacheMiss)]
    ['k']
    """

    def __init__(
        self, directory: Path | None = None, logs: frozenset[str] = frozenset(), capacity: int = 1 << 14
    ) -> None:
        self.directory = directory
        self.logs = logs
        self._ring: deque[tuple[int, Event]] = deque(maxlen=capacity)
        self._numbers = itertools.count()
        self._files: dict[int, int] = {}  # process id -> descriptor
        self._unwritable = False

    @property
    def events(self) -> tuple[Event, ...]:
        """The events still in memory, in order of emission."""
        return tuple(event for _, event in sorted(self._ring.copy(), key=lambda pair: pair[0]))

    def of(self, kind: type[E]) -> tuple[E, ...]:
        """The events of one class that are still in memory."""
        return tuple(e for e in self.events if isinstance(e, kind))

    def emit(self, event: Event) -> None:
        """Record an event."""
        number = next(self._numbers)
        self._ring.append((number, event))
        if event.topic in self.logs:
            print(f"broadloom: {event.topic}: {event}", file=sys.stderr)
        if self.directory is not None and not self._unwritable:
            self._write(self.directory, number, event)

    def close(self) -> None:
        """Close this process's file; a later event opens it again."""
        descriptor = self._files.pop(os.getpid(), None)
        if descriptor is not None:
            os.close(descriptor)

    def _write(self, directory: Path, number: int, event: Event) -> None:
        head = {"number": number, "time": time.time(), "process": os.getpid(), "thread": threading.get_ident()}
        line = json.dumps({**head, **event.as_json()}, separators=(",", ":"), ensure_ascii=True) + "\n"
        try:
            data = line.encode("ascii")
            if os.write(self._descriptor(directory), data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self._unwritable = True
            warn(
                f"events cannot be written to {str(directory)!r}: {error.strerror}; they stay in memory; "
                f"remedy: point BROADLOOM_TRACE at a folder that you can write",
            )

    def _descriptor(self, directory: Path) -> int:
        process = os.getpid()
        known = self._files.get(process)
        if known is not None:
            return known
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"broadloom-{process}-{threading.get_native_id()}-{time.time_ns():x}.jsonl"
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        kept = self._files.setdefault(process, opened)
        if kept != opened:  # another thread was first: its file serves
            os.close(opened)
            path.unlink(missing_ok=True)
        return kept
