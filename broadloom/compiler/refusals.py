"""What capture refused before: which calls run as plain Python without being tried again.

What goes in: breaks, with the guards that capture had relied on when it stopped. What comes out: for a later call,
the reason why it runs plainly, or None where it is worth another try. What holds: a call is refused only if it would
stop at the same place again - its guards hold - or if one place has stopped calls of its kind again and again,
whatever their sizes. The memory is bounded.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field
from typing import Any

import numpy as np

from broadloom.capture.breaks import CaptureBreak, Code
from broadloom.capture.guards import Guard
from broadloom.capture.sources import Frame
from broadloom.records import dataclass
from broadloom.tensor.dispatch import Tensor

MOST = 32  # refusals with guards that are kept
MAX_ITEMS, MAX_NESTING = 64, 4  # how far kinds look into arguments
STOPS = 1024  # places and kinds that are counted
OFTEN = 4  # stops at one place after which the kind of the arguments is enough
_PLAIN = (int, float, complex, str, bytes, bool, type(None))
# These depend on more than the kinds of the arguments: on sizes, or on where arrays lie.
PARTICULAR = frozenset({Code.RAISES, Code.OVERLAP, Code.READ_ONLY})


@dataclass(slots=True)
class Refusals:
    """The memory of one compiled function."""

    guarded: list[tuple[tuple[Guard, ...], str]] = field(default_factory=list)
    kinds: dict[object, str] = field(default_factory=dict)
    stops: Counter[tuple[object, str]] = field(default_factory=Counter)

    def add(self, stopped: CaptureBreak, kinds: object) -> None:
        """Remember a break that a call with arguments of these kinds met."""
        record, reason = stopped.record, str(stopped.record)
        if record.code is Code.OVERLAP:
            return  # other arrays of the same kinds may lie apart
        if len(self.stops) >= STOPS:
            self.stops.clear()
        self.stops[kinds, reason] += 1
        often = self.stops[kinds, reason] >= OFTEN and record.code not in PARTICULAR
        if record.code in (Code.ARRAY_KIND, Code.INTERNAL) or often:
            if len(self.kinds) < MOST:
                self.kinds[kinds] = reason
        elif stopped.guards:
            self.guarded = [*self.guarded[-MOST + 1 :], (stopped.guards, reason)]

    def reason(self, frame: Frame, kinds: object) -> str | None:
        """Why a call runs as plain Python, if it is known to."""
        reason = self.kinds.get(kinds)
        if reason is not None:
            return reason
        holding = (why for guards, why in self.guarded if all(g.check(frame) for g in guards))
        return next(holding, None)


def kinds_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    """What a refusal is remembered by: dtypes and ranks of arrays, values of plain constants, types of the rest."""

    def kind(x: Any, depth: int = 0) -> object:
        if isinstance(x, np.ndarray | Tensor):
            return type(x), x.dtype, x.ndim
        if type(x) in (tuple, list) and len(x) <= MAX_ITEMS and depth < MAX_NESTING:
            return type(x), tuple(kind(e, depth + 1) for e in x)
        if type(x) in _PLAIN and not isinstance(x, float | complex):
            return type(x), x
        return type(x)

    return tuple(map(kind, args)), tuple((k, kind(v)) for k, v in sorted(kwargs.items()))
