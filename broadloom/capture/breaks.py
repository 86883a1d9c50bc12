"""Graph breaks: why a function was not captured, as a record.

What goes in: the facts at the place where capture stopped. What comes out: a frozen `Break`, carried by
`CaptureBreak`. The caller decides: the plain function runs and the break is counted, or it is raised.

What holds: codes are stable names that users may filter on; a break happens before anything that a user could see.
"""

from __future__ import annotations

from enum import StrEnum

from broadloom.capture.guards import Guard
from broadloom.errors import GraphBreakError, Location
from broadloom.records import dataclass


class Code(StrEnum):
    """The kinds of breaks."""

    ARRAY_CONDITION = "array-condition"  # Python control flow on the data of an array
    DATA_DEPENDENT = "data-dependent"  # a size, index or Python number that only the data can tell
    UNKNOWN_CALL = "unknown-call"
    UNSUPPORTED_NUMPY = "unsupported-numpy"  # the frontend has no entry, or not for these arguments
    UNSUPPORTED_PYTHON = "unsupported-python"  # a construct of the language
    UNSUPPORTED_TYPE = "unsupported-type"  # an object that capture cannot look into
    RANDOM = "random"
    CLOCK = "clock"
    SIDE_EFFECT = "side-effect"  # printing, files, environment
    EXTERNAL_MUTATION = "external-mutation"  # writing to a Python object that was there before the call
    RAISES = "raises"  # the plain function raises here
    READ_ONLY = "read-only"
    TOO_LONG = "too-long"  # more steps or deeper recursion than capture follows
    RESULT = "result"  # an object that cannot be made anew by a recipe
    ARRAY_KIND = "array-kind"  # skip: an array that compiled code does not take
    OVERLAP = "overlap"  # skip: arguments share memory and one of them is written
    INTERNAL = "internal"  # a defect of Broadloom, met while it captured or compiled


SKIPS = frozenset({Code.ARRAY_KIND, Code.OVERLAP})


@dataclass(frozen=True, slots=True)
class Break:
    """One refusal.

    >>> print(Break(Code.RANDOM, "rng.normal()", "random numbers", "draw them outside", Location("m.py", 3, "f")))
    m.py:3 in f: random: rng.normal(): random numbers; draw them outside
    """

    code: Code
    context: str  # the piece of the program, in short
    explanation: str
    hint: str
    location: Location | None

    @property
    def skip(self) -> bool:
        """A property of the arguments of this call rather than of the function: it is counted apart."""
        return self.code in SKIPS

    def __str__(self) -> str:
        place = "" if self.location is None else f"{self.location}: "
        return f"{place}{self.code}: {self.context}: {self.explanation}; {self.hint}"

    def error(self) -> GraphBreakError:
        """The exception for `fullgraph=True`."""
        return GraphBreakError(
            f"the function cannot be captured as one graph ({self.code}): {self.explanation}",
            got=self.context,
            remedy=self.hint,
            location=self.location,
        )


class CaptureBreak(Exception):
    """Capture stops here. `guards` are what it had relied on by then: a call for which they hold stops here, too."""

    def __init__(self, record: Break, guards: tuple[Guard, ...] = ()) -> None:
        super().__init__(str(record))
        self.record = record
        self.guards = guards
