"""A compiled function: specialisations, their guards, and what happens on a miss.

What goes in: a Python function and the arguments of `bl.compile`. What comes out: a callable that gives what the
function gives. The native entry tries the specialisations; only a call that fits none comes here, is captured, built
and added - or runs as plain Python, counted and explained.

What holds: a refused capture has touched nothing, and neither has one that failed by a defect of our own, which counts
as a break; a specialisation is added whole or not at all, so an interrupt
leaves none behind; a function never has more specialisations than its bound, and says so loudly when it is met.
"""

from __future__ import annotations

import os
import traceback
from dataclasses import replace
from types import FunctionType
from typing import Any

from broadloom import platform, trace
from broadloom.capture.breaks import Break, CaptureBreak, Code
from broadloom.capture.capture import Captured, capture
from broadloom.capture.context import Policy
from broadloom.capture.sources import Frame
from broadloom.codegen.extern import ROUTINES
from broadloom.compiler.build import Stopwatch, Toolchain, build, object_store
from broadloom.compiler.refusals import Refusals, kinds_of
from broadloom.compiler.report import Compile, Journal, KernelRecord, Recompile
from broadloom.errors import Location, OptionsError, warn
from broadloom.runtime import blas
from broadloom.runtime.entry import Entry, prepare
from broadloom.runtime.spec import EntrySpec, inputs_of, outputs_of


class State(platform.LockOwner):
    """All that a compiled function knows; `lock` guards what changes."""

    def __init__(self, function: FunctionType, tools: Toolchain, *, dynamic: bool | None, fullgraph: bool) -> None:
        super().__init__()
        self.function, self.tools, self.dynamic, self.fullgraph = function, tools, dynamic, fullgraph
        self.policy = Policy(dynamic)
        self.refusals = Refusals()
        self.warned: set[str] = set()
        self.limit_told = False
        self.journal = Journal(function.__qualname__)
        prepare(object_store(tools.options.cache_dir) if tools.options.use_cache else None)
        self.entry = Entry(function, self.miss)

    # ---- the way of a call that fits nothing ----

    def miss(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Serve a call that no specialisation fits."""
        frame = self.entry.frame(args, kwargs)
        if frame is None:
            return self.function(*args, **kwargs)  # which raises TypeError for arguments that do not fit it
        with self.lock:
            spec = self._found(frame, args, kwargs)
        if spec is None:
            return self.function(*args, **kwargs)
        return self.entry.execute(spec, frame)

    def _found(self, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> EntrySpec | None:
        """A specialisation that fits: another thread may have added it while this one waited for the lock."""
        kinds = kinds_of(args, kwargs)
        reason = self.refusals.reason(frame, kinds)
        if reason is not None:
            self.journal.skips[reason] += 1
            return None
        fitting = (s for s in self.entry.specs if all(g.check(frame) for g in s.guards))
        return next(fitting, None) or self._specialise(frame, args, kwargs, kinds)

    def _specialise(
        self, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any], kinds: object
    ) -> EntrySpec | None:
        if len(self.entry.specs) >= self.tools.options.max_specialisations:
            self._tell_limit(frame)
            return None
        watch = Stopwatch()
        self._explain_misses(frame)
        number = len(self.journal.compiles)
        self.tools.sink.emit(trace.CompileStart(self.journal.name, number, self.dynamic, _location(self.function)))
        try:
            with platform.collector_paused():
                with watch.stage("capture"):
                    captured = capture(self.function, args, kwargs, self.policy)
                spec = self._built(captured, watch, number)
        except CaptureBreak as stopped:
            self._refuse(stopped, kinds)
            return None
        except OptionsError:
            raise
        except Exception as error:  # the one fallback boundary: the plain function gives the answer
            if platform.raised_by_signal_handler(error):
                raise
            failed = CaptureBreak(_internal(error, self.function))
            failed.__cause__ = error
            self._refuse(failed, kinds)
            return None
        self.entry.add(spec)
        self.policy = self.policy.after(captured.observed)
        return spec

    def _built(self, captured: Captured, watch: Stopwatch, number: int) -> EntrySpec:
        journal, options = self.journal, self.tools.options
        dump = trace.DumpSink(options.dump_dir).begin(journal.name)
        built = build(captured.graph, self.tools, dump, watch)
        journal.graphs.append(captured.graph)
        journal.guards.extend(captured.guards)
        journal.kernels.extend(map(_with_threads, built.facts.kernels))
        journal.fusions.extend(built.facts.fusions)
        journal.tables.extend(built.facts.tables)
        journal.allocations.extend(built.facts.allocations)
        record = Compile(number, built.cache, tuple(watch.seconds.items()), _location(self.function))
        journal.compiles.append(record)
        self.tools.sink.emit(
            trace.CompileEnd(
                journal.name, number, record.total, record.seconds, len(built.facts.kernels), built.cache == "hit"
            )
        )
        return EntrySpec(
            journal.name,
            captured.guards,
            inputs_of(captured.graph, captured.arguments),
            outputs_of(captured.graph),
            captured.result,
            built.library,
            captured.symbols,
            built.facts.located([n.location for n in captured.graph.nodes]),
            options.num_threads,
            _release_elements(options.release_gil_us),
        )

    # ---- what went wrong, said ----

    def _explain_misses(self, frame: Frame) -> None:
        specs = self.entry.specs
        if not specs:
            return
        reasons = []
        for number, spec in enumerate(specs):
            failed = next((g for g in spec.guards if not g.check(frame)), None)
            if failed is not None:
                reasons.append(failed.explain(frame))
                self.journal.recompiles.append(Recompile(number, reasons[-1]))
        self.tools.sink.emit(trace.Recompile(self.journal.name, len(specs), tuple(reasons), _location(self.function)))

    def _tell_limit(self, frame: Frame) -> None:
        limit = self.tools.options.max_specialisations
        reason = f"the bound of {limit} specialisations was met"
        self.journal.skips[reason] += 1
        if self.limit_told:
            return
        self.limit_told = True
        self._explain_misses(frame)
        last = self.journal.recompiles[-1].reason if self.journal.recompiles else ""
        self.tools.sink.emit(trace.LimitReached(self.journal.name, limit, (last,), _location(self.function)))
        other = ", or dynamic=True" if self.dynamic is not True and ".shape[" in last else ""
        warn(
            f"{self.journal.name} has {limit} specialisations, and a call fits none of them ({last}); "
            f"it runs as plain Python; remedy: options={{'max_specialisations': {2 * limit}}}{other}"
        )

    def _refuse(self, stopped: CaptureBreak, kinds: object) -> None:
        """Note a break or skip, so that the next such call need not be captured again; raises under `fullgraph`."""
        record, sink = stopped.record, self.tools.sink
        if self.fullgraph:
            raise record.error() from stopped.__cause__
        self.refusals.add(stopped, kinds)
        if record.skip:
            self.journal.skips[str(record)] += 1
            sink.emit(trace.Skip(self.journal.name, record.explanation, record.hint, record.location))
            return
        self.journal.breaks.append(record)
        sink.emit(
            trace.GraphBreak(
                self.journal.name, record.code, record.context, record.explanation, record.hint, record.location
            )
        )
        if str(record) not in self.warned:
            self.warned.add(str(record))
            warn(f"{self.journal.name} runs as plain Python: {record}")


def _internal(error: Exception, function: FunctionType) -> Break:
    """The record of a defect of our own."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    return Break(
        Code.INTERNAL,
        f"{type(error).__name__} in {os.path.basename(where.filename)}:{where.lineno}",
        str(error) or "no message",
        "report it, with the dump that BROADLOOM_DUMP writes; the plain function gives the result",
        _location(function),
    )


def _with_threads(record: KernelRecord) -> KernelRecord:
    """The record of a library call says so where it takes as many threads as it likes."""
    if record.kind not in ROUTINES or blas.control() is not None:
        return record
    return replace(record, reason="; ".join(filter(None, (record.reason, blas.UNCONTROLLED))))


def _release_elements(microseconds: float) -> int:
    """The GIL is released where the arrays of a call have so many elements, at about a nanosecond each."""
    return max(1, int(microseconds * 1e3))


def _location(function: FunctionType) -> Location:
    code = function.__code__
    return Location(code.co_filename, code.co_firstlineno, code.co_qualname)
