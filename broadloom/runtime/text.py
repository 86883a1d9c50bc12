"""The LLVM IR that is written by hand, in the files of `runtime/ll`.

What goes in: a file's name and the values of its `$NAMES`. What comes out: the text. What holds: every placeholder
gets a value; a file contains no address, so its code links into this process and into a shared library alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from broadloom.errors import CodegenError

_FOLDER = Path(__file__).parent / "ll"
_PLACEHOLDER = re.compile(r"\$([A-Z][A-Z0-9_]*)")


@cache
def _file(name: str) -> str:
    return (_FOLDER / f"{name}.ll").read_text(encoding="utf-8")


def ll_text(*names: str, values: Mapping[str, object] | None = None) -> str:
    """The text of these files, one after the other, with `$NAME` replaced by `values["NAME"]`.

    >>> "$" in ll_text("workspace")
    False

    Raises `CodegenError` for a placeholder without a value.
    """
    known = {} if values is None else values

    def value(match: re.Match[str]) -> str:
        if match[1] not in known:
            raise CodegenError("a placeholder of the hand-written code has no value", got=match[0])
        return str(known[match[1]])

    return "\n".join(_PLACEHOLDER.sub(value, _file(name)) for name in names)
