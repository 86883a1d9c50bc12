"""The exceptions of Broadloom: few, and each class says who must act.

What goes in: the facts of a failure. What comes out: one message in a fixed order - what happened, what was
got, what is allowed, the remedy, and the user's line. Errors that NumPy itself would raise at run time
(`IndexError`, `ValueError`, `numpy.linalg.LinAlgError`, ...) keep NumPy's classes and are not here.
"""

from __future__ import annotations

import inspect
import warnings

from broadloom.records import dataclass


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the user's source: `file:line in function`.

    >>> str(Location("model.py", 12, "step"))
    'model.py:12 in step'
    """

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


def warn(text: str) -> None:
    """A warning at the line of the user that called Broadloom."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("broadloom."):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, stacklevel=level)


class BroadloomError(Exception):
    """Base of all errors raised by Broadloom itself.

    >>> print(OptionsError("unknown option", got="'fsat'", allowed="'fast', 'default'", remedy="correct the name"))
    unknown option; got 'fsat'; allowed: 'fast', 'default'; remedy: correct the name
    """

    def __init__(
        self,
        what: str,
        *,
        got: object = None,
        allowed: str | None = None,
        remedy: str | None = None,
        location: Location | None = None,
    ) -> None:
        self.what, self.got, self.allowed, self.remedy, self.location = what, got, allowed, remedy, location
        parts = [what]
        if got is not None:
            parts.append(f"got {got}")
        if allowed is not None:
            parts.append(f"allowed: {allowed}")
        if remedy is not None:
            parts.append(f"remedy: {remedy}")
        if location is not None:
            parts.append(f"at {location}")
        super().__init__("; ".join(parts))


class OptionsError(BroadloomError, ValueError):
    """An option or environment variable is wrong: whoever configured the run must act."""


class GraphBreakError(BroadloomError):
    """`fullgraph=True` met code that cannot be captured: the author of the function must act."""


class ShapeError(BroadloomError, ValueError):
    """Shapes do not fit an op: the caller must act."""


class IndexingError(ShapeError, IndexError):
    """An index or an axis does not fit an array: the caller must act. An `IndexError` as NumPy's `AxisError` is."""


class DTypeError(BroadloomError, TypeError):
    """A dtype is not supported or does not fit an op: the caller must act."""


class TransformError(BroadloomError):
    """A transformed function (`vmap`, `gufunc`) does what it cannot: the author of the function must act.

    No TypeError or ValueError, which NumPy would take for one of its own while it asks for data, and replace.
    """


class ParseError(BroadloomError, ValueError):
    """A textual form (signature, expression, graph, loop program) is malformed: its author must act."""


class VerifyError(BroadloomError):
    """An IR breaks an invariant: a defect of Broadloom or of a registered pass; report it."""


class CodegenError(BroadloomError):
    """LLVM refused a module or a target is missing: a defect of Broadloom or of the installation; report it."""


class CacheError(BroadloomError, OSError):
    """The object cache folder is unsafe or unusable: whoever owns the machine must act."""
