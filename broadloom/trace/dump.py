"""Stage dumps: the text of a program after each stage, numbered in order.

What goes in: a folder and the texts. What comes out: one folder per compilation, `NAME.K`, with files such as
`000_capture.graph`. What holds: a folder is created by exactly one compilation, whatever runs beside it; files are
written whole or not at all; a folder that cannot be written is one warning and never an error.
"""

from __future__ import annotations

import io
import itertools
import os
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from broadloom.errors import warn

_UNSAFE = re.compile(r"[^\w.-]+")
_MOST = 1_000_000


class DumpSink:
    """The writer of dumps; without a folder it does nothing.

    >>> DumpSink(None).begin("f").write("capture", "graph", "graph f() {}")
    """

    def __init__(self, directory: Path | None) -> None:
        self.directory = directory
        self._warned = False

    def begin(self, name: str) -> Dump:
        """A new compilation's dump."""
        if self.directory is None:
            return Dump(self, None)
        stem = _UNSAFE.sub("_", name)[:80].lstrip(".") or "function"
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            for k in range(_MOST):
                folder = self.directory / f"{stem}.{k}"
                try:
                    folder.mkdir()
                except FileExistsError:
                    continue
                return Dump(self, folder)
        except OSError as error:
            self.warn(error)
        return Dump(self, None)

    def warn(self, error: OSError) -> None:
        """Say once that dumps cannot be written."""
        if not self._warned:
            self._warned = True
            warn(
                f"dumps cannot be written to {str(self.directory)!r}: {error.strerror}; compilation goes on without; "
                f"remedy: point BROADLOOM_DUMP at a folder that you can write",
            )


class Dump:
    """The dumps of one compilation."""

    def __init__(self, sink: DumpSink, folder: Path | None) -> None:
        self._sink = sink
        self.folder = folder
        self._numbers = itertools.count()

    def __bool__(self) -> bool:
        """False where a text need not even be made."""
        return self.folder is not None

    def write(self, stage: str, suffix: str, text: str) -> Path | None:
        """Write one stage; returns the file, or None where nothing is written."""
        if self.folder is None:
            return None
        name = f"{next(self._numbers):03d}_{_UNSAFE.sub('_', stage)}.{suffix}"
        return self._put(name, (text if text.endswith("\n") else text + "\n").encode())

    def arrays(self, arrays: Mapping[str, np.ndarray]) -> Path | None:
        """Write the arrays that the texts name by digest, in place of those written before."""
        if self.folder is None or not arrays:
            return None
        content = io.BytesIO()
        np.savez(content, allow_pickle=False, **arrays)
        return self._put("constants.npz", content.getvalue())

    def _put(self, name: str, content: bytes) -> Path | None:
        assert self.folder is not None
        path = self.folder / name
        partial = path.with_name(path.name + ".partial")
        try:
            partial.write_bytes(content)
            os.replace(partial, path)
        except OSError as error:
            self._sink.warn(error)
            self.folder = None
            return None
        return path
