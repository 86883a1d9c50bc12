"""What can happen during capture, compilation and calls: one frozen record per kind of event.

What goes in: plain values - strings, numbers, bools, None, tuples of these, and `Location`s. What comes out: records
that print as one line and convert to JSON. What holds: an event keeps no object of the user's alive, and its
`topic` is one of `options.LOG_TOPICS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import ClassVar

from broadloom.errors import Location
from broadloom.records import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events."""

    topic: ClassVar[str] = ""

    def as_json(self) -> dict[str, object]:
        """The fields as JSON values, the class's name under "event"."""
        values = {f.name: _plain(getattr(self, f.name)) for f in fields(self)}
        return {"event": type(self).__name__, **values}

    def __str__(self) -> str:
        parts = []
        for f in fields(self):
            value = getattr(self, f.name)
            if value is not None and value != "" and value != ():
                parts.append(f"{f.name}={_short(value)}")
        return f"{type(self).__name__}({', '.join(parts)})"


def _plain(value: object) -> object:
    if isinstance(value, Location):
        return {"file": value.file, "line": value.line, "function": value.function}
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else repr(value)  # JSON knows neither nan nor infinity
    return str(value)


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Location | int):
        return str(value)
    text = repr(value)
    return text if len(text) <= 200 else text[:197] + "..."


@dataclass(frozen=True, slots=True)
class CompileStart(Event):
    """A function has no fitting specialisation and compilation begins. `compile` counts within the process."""

    topic: ClassVar[str] = "compiles"
    function: str
    compile: int
    dynamic: bool | None = None
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class CompileEnd(Event):
    """Compilation `compile` ended: `error` is empty when it succeeded. Times are in seconds by stage, in order."""

    topic: ClassVar[str] = "compiles"
    function: str
    compile: int
    seconds: float
    stages: tuple[tuple[str, float], ...] = ()
    kernels: int = 0
    cached: bool = False
    error: str = ""


@dataclass(frozen=True, slots=True)
class GraphCaptured(Event):
    """A function became a graph."""

    topic: ClassVar[str] = "graphs"
    function: str
    inputs: int
    nodes: int
    outputs: int
    symbols: tuple[str, ...] = ()
    guards: int = 0


@dataclass(frozen=True, slots=True)
class GraphBreak(Event):
    """Code that cannot be captured: the plain function runs instead."""

    topic: ClassVar[str] = "breaks"
    function: str
    code: str
    context: str
    explanation: str
    hint: str
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class GuardFailed(Event):
    """A guard of an existing specialisation does not hold for a call: what it looked at, and both values."""

    topic: ClassVar[str] = "guards"
    function: str
    source: str
    guard: str
    old: str
    new: str
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class Recompile(Event):
    """No specialisation fits a call; `reasons` has one line for each that was tried."""

    topic: ClassVar[str] = "recompiles"
    function: str
    specialisations: int
    reasons: tuple[str, ...]
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class LimitReached(Event):
    """A function has as many specialisations as are allowed: the plain function runs from now on."""

    topic: ClassVar[str] = "recompiles"
    function: str
    limit: int
    reasons: tuple[str, ...]
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class PassRan(Event):
    """A graph pass ran; nodes before and after."""

    topic: ClassVar[str] = "passes"
    name: str
    before: int
    after: int
    seconds: float


@dataclass(frozen=True, slots=True)
class FusionDecision(Event):
    """Two operations were put into one kernel, or not, and why."""

    topic: ClassVar[str] = "fusion"
    first: str
    second: str
    fused: bool
    reason: str


@dataclass(frozen=True, slots=True)
class TableDecision(Event):
    """An expensive function of one byte was put into a table, or not, and why."""

    topic: ClassVar[str] = "fusion"
    kernel: str
    function: str
    tabulated: bool
    reason: str


@dataclass(frozen=True, slots=True)
class KernelEmitted(Event):
    """A kernel of the program: the ops fused into it and the buffers it touches."""

    topic: ClassVar[str] = "kernels"
    name: str
    origins: tuple[str, ...]
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    parallel: bool = True


@dataclass(frozen=True, slots=True)
class Allocation(Event):
    """A workspace or output buffer; `size` in bytes, an expression of the size symbols where it is not constant."""

    topic: ClassVar[str] = "allocations"
    buffer: str
    kind: str
    size: str
    reuses: str = ""


@dataclass(frozen=True, slots=True)
class CacheHit(Event):
    """The object cache had the module."""

    topic: ClassVar[str] = "cache"
    key: str
    size: int


@dataclass(frozen=True, slots=True)
class CacheMiss(Event):
    """The object cache did not have the module: it is generated."""

    topic: ClassVar[str] = "cache"
    key: str


@dataclass(frozen=True, slots=True)
class CacheProblem(Event):
    """The object cache, or an entry of it, could not be used; the module is generated."""

    topic: ClassVar[str] = "cache"
    key: str
    problem: str


@dataclass(frozen=True, slots=True)
class Skip(Event):
    """A call went to the plain function without an attempt to capture it."""

    topic: ClassVar[str] = "skips"
    function: str
    reason: str
    remedy: str = ""
    location: Location | None = None


EVENTS: tuple[type[Event], ...] = (
    CompileStart,
    CompileEnd,
    GraphCaptured,
    GraphBreak,
    GuardFailed,
    Recompile,
    LimitReached,
    PassRan,
    FusionDecision,
    TableDecision,
    KernelEmitted,
    Allocation,
    CacheHit,
    CacheMiss,
    CacheProblem,
    Skip,
)
