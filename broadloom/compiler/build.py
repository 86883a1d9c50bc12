"""From a captured graph to linked code: passes, lowering, scheduling, LLVM, the object cache.

What goes in: a graph, options, a pipeline. What comes out: `Built` - the library, its facts, where it came from and
how long each stage took. What holds: the graph's canonical text with everything else that decides the bytes is the
cache's key, so a hit runs no pass and generates nothing; a cache that fails in any way only costs time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from functools import lru_cache
from pathlib import Path

from broadloom import trace
from broadloom.codegen.abi import features_of
from broadloom.codegen.driver import prepared_text
from broadloom.codegen.emit import emit
from broadloom.codegen.prepare import prepare
from broadloom.compiler.facts import ModuleFacts, facts_of, locations_of
from broadloom.errors import CacheError, warn
from broadloom.fusion.decide import Fuse
from broadloom.fusion.dots import Dot, dots_of
from broadloom.fusion.lower import lower
from broadloom.fusion.lowerings.table import LOWERINGS
from broadloom.fusion.schedule import Scheduled, schedule
from broadloom.fusion.tables import Tabulate
from broadloom.fusion.text import print_program
from broadloom.fusion.verify import verify as verify_program
from broadloom.graph.ir import Graph
from broadloom.graph.manager import PassContext, Pipeline
from broadloom.graph.order import value_orders
from broadloom.graph.text import format_graph
from broadloom.options import Options
from broadloom.passes.table import contracting
from broadloom.platform import USUAL_CACHES, Caches
from broadloom.records import dataclass
from broadloom.runtime import symbols
from broadloom.runtime.cache import ObjectCache, cache_key
from broadloom.runtime.link import Library, link, object_symbols
from broadloom.runtime.target import DEFAULT_LEVEL, Target, emit_object, host


@dataclass(slots=True)
class Stopwatch:
    """Seconds by stage, in order."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time inside to the stage `name`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


@dataclass(frozen=True, slots=True)
class Built:
    """Linked code of one graph. `cache` is "hit", "miss" or "off"."""

    library: Library
    facts: ModuleFacts
    cache: str


@dataclass(frozen=True, slots=True)
class Toolchain:
    """What turns graphs into code, besides the graph: options, passes, events, the level of LLVM's optimisation."""

    options: Options
    pipeline: Pipeline
    sink: trace.Sink
    level: int

    @property
    def brief(self) -> bool:
        """Whether code is to be made quickly."""
        return self.level < DEFAULT_LEVEL

    def passes(self, target: Target) -> Pipeline:
        """The passes for a machine: multiply-adds are fused where the options allow it and an instruction does it."""
        return contracting(self.pipeline) if self.options.contract and target.has_fma else self.pipeline

    def cache_key(self, graph: Graph, target: Target) -> str:
        """A digest of all that decides the object's bytes."""
        passes = self.passes(target).identity
        return cache_key(str(graph), target, options=self.options.key(), passes=passes, level=self.level)


def build(graph: Graph, tools: Toolchain, dump: trace.Dump, watch: Stopwatch) -> Built:
    """Code for `graph`, from the cache if it is there."""
    target = host()
    if dump:
        _dump_capture(graph, dump)
    store = object_store(tools.options.cache_dir) if tools.options.use_cache else None
    key = ""
    if store is not None:
        with watch.stage("cache"):
            key = tools.cache_key(graph, target)
            found = _found(store, key)
        tools.sink.emit(trace.CacheMiss(key) if found is None else trace.CacheHit(key, len(found[0])))
        if found is not None:
            with watch.stage("link"):
                return Built(_linked(found[0], graph.name), found[1], "hit")
    code, facts = _generate(graph, tools, target, dump, watch)
    if store is not None:
        with watch.stage("cache"):
            store.put(key, code, facts.to_json())
    with watch.stage("link"):
        return Built(_linked(code, graph.name), facts, "off" if store is None else "miss")


def _dump_capture(graph: Graph, dump: trace.Dump) -> None:
    """The captured graph, and beside it the arrays that its text names by digest."""
    dump.write("capture", "graph", format_graph(graph, locations=True))
    dump.arrays(graph.constants)


@lru_cache(maxsize=4)
def object_store(folder: Path) -> ObjectCache | None:
    """The cache in `folder`, opened once; None, with one warning, where it cannot be used."""
    try:
        return ObjectCache(folder)
    except CacheError as error:
        warn(f"{error}; compilation goes on without")
        return None


def _found(store: ObjectCache, key: str) -> tuple[bytes, ModuleFacts] | None:
    entry = store.get(key)
    if entry is None:
        return None
    try:
        return entry.data, ModuleFacts.from_json(entry.note)
    except (ValueError, KeyError, TypeError):
        return None  # of another layout: made anew and replaced


def _linked(code: bytes, name: str) -> Library:
    _, missing = object_symbols(code)
    return link({name: code}, symbols.resolve(missing))


def _generate(
    graph: Graph, tools: Toolchain, target: Target, dump: trace.Dump, watch: Stopwatch
) -> tuple[bytes, ModuleFacts]:
    constants = dict(graph.constants)

    def keep(stage: str, graph: Graph) -> None:
        dump.write(stage, "graph", format_graph(graph, locations=True))
        constants.update(graph.constants)

    with watch.stage("passes"):
        optimised = tools.passes(target).run(graph, PassContext(keep if dump else None))
    if len(constants) > len(graph.constants):  # passes made some
        dump.arrays(constants)
    with watch.stage("fusion"):
        options = tools.options
        scheduled = fuse(
            optimised,
            fusion=options.fusion,
            deterministic=options.deterministic,
            family=target.family,
            dots=dots_of(features_of(target.features), target.vector_bits),
            caches=target.caches,
        )
        verify_program(scheduled.program)
    if dump:
        dump.write("program", "loops", print_program(scheduled.program))
        dump.write("fusion", "txt", "\n".join(map(str, (*scheduled.decisions, *scheduled.tables))))
    with watch.stage("codegen"):
        prepared = prepare(scheduled.program, target.caches, brief=tools.brief)
        text = prepared_text(prepared, target, optimised.constants, emit=emit)
    if dump:
        dump.write("module", "ll", text)
    with watch.stage("llvm"):
        code = emit_object(text, target, tools.level)
    _tell(tools.sink, scheduled)
    return code, facts_of(scheduled, locations_of(graph), prepared.stores)


def fuse(
    graph: Graph,
    *,
    fusion: bool = True,
    deterministic: bool = False,
    family: str = "",
    dots: tuple[Dot, ...] = (),
    caches: Caches = USUAL_CACHES,
) -> Scheduled:
    """The loop program of a decomposed graph, for a family of machines with these instructions and caches."""
    lowered = lower(graph, value_orders(graph), LOWERINGS, deterministic=deterministic, family=family, dots=dots)
    return schedule(lowered, fusion=fusion, caches=caches)


def _tell(sink: trace.Sink, scheduled: Scheduled) -> None:
    for d in scheduled.decisions:
        sink.emit(trace.FusionDecision(d.first, d.second, isinstance(d.outcome, Fuse), d.outcome.reason))
    for t in scheduled.tables:
        sink.emit(trace.TableDecision(t.kernel, t.function, isinstance(t.outcome, Tabulate), t.outcome.reason))
