"""Where the user's code is, for messages: the line that runs now, and the name that an object has there.

What goes in: nothing but Python's stack. What comes out: places and names of the user's own frames; those of this
package, of NumPy and of Python's library are passed over.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType

from broadloom.errors import Location

PASSED_OVER = ("broadloom.", "numpy.", "contextlib", "functools")


def user_location() -> Location | None:
    """The innermost line of the user's code, None if there is none."""
    for frame in _user_frames():
        code = frame.f_code
        return Location(code.co_filename, frame.f_lineno, code.co_qualname)
    return None


def raised_at(error: BaseException) -> Location | None:
    """The innermost line of the user's code that an error came through, None if there is none."""
    found, step = None, error.__traceback__
    while step is not None:
        if _is_user(step.tb_frame):
            found = step
        step = step.tb_next
    if found is None:
        return None
    code = found.tb_frame.f_code
    return Location(code.co_filename, found.tb_lineno, code.co_qualname)


def user_name(x: object, default: str) -> str:
    """The name by which the user's code knows an object, searched from the innermost frame."""
    for frame in _user_frames():
        for scope in (frame.f_locals, frame.f_globals):
            for name, value in scope.items():
                if value is x and not name.startswith("__"):
                    return name
    return default


def _user_frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if _is_user(frame):
            yield frame
        frame = frame.f_back


def _is_user(frame: FrameType) -> bool:
    return not str(frame.f_globals.get("__name__", "")).startswith(PASSED_OVER)
