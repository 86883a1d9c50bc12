"""What happened and why: structured events, the sink that receives them, and stage dumps.

What goes in: event records and texts of stages. What comes out: records in memory, JSON lines, log lines, numbered
dump files. What holds: telling never changes or stops what is told about.
"""

from broadloom.trace.dump import Dump, DumpSink
from broadloom.trace.events import (
    EVENTS,
    Allocation,
    CacheHit,
    CacheMiss,
    CacheProblem,
    CompileEnd,
    CompileStart,
    Event,
    FusionDecision,
    GraphBreak,
    GraphCaptured,
    GuardFailed,
    KernelEmitted,
    LimitReached,
    PassRan,
    Recompile,
    Skip,
    TableDecision,
)
from broadloom.trace.sink import Sink

__all__ = [
    "EVENTS",
    "Allocation",
    "CacheHit",
    "CacheMiss",
    "CacheProblem",
    "CompileEnd",
    "CompileStart",
    "Dump",
    "DumpSink",
    "Event",
    "FusionDecision",
    "GraphBreak",
    "GraphCaptured",
    "GuardFailed",
    "KernelEmitted",
    "LimitReached",
    "PassRan",
    "Recompile",
    "Sink",
    "Skip",
    "TableDecision",
]
