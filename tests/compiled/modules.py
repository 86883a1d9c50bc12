"""Many op calls in one compiled module.

What goes in: calls of the op table (op, sample, dtypes), loop shapes and a layout class. What comes out: a `Module`
that runs all of them on given operands, through passes, fusion, code generation and the linker. What holds: each call
has inputs of its own; loop sizes are shared by all calls, core sizes by none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from broadloom import trace
from broadloom.capture.recipe import FromOutput, TupleResult
from broadloom.capture.sources import Argument, Frame
from broadloom.compiler.api import toolchain
from broadloom.compiler.build import Stopwatch, Toolchain, build
from broadloom.dtypes import DType, int64
from broadloom.errors import DTypeError, ShapeError
from broadloom.graph.builder import GraphBuilder
from broadloom.graph.ir import Graph, Output, TensorType
from broadloom.graph.order import value_orders
from broadloom.ops.infer import complete, infer
from broadloom.ops.record import Op, Sample, Trait
from broadloom.ops.sampling import operand_dtypes
from broadloom.ops.table import OPS
from broadloom.runtime.python_entry import execute
from broadloom.runtime.spec import EntrySpec, inputs_of, outputs_of
from broadloom.symbolic import ShapeEnv, Size, Symbol
from tests.compiled.layouts import Array, Layout, LayoutClass, draw

Shape = tuple[int, ...]
Loops = tuple[tuple[Size, ...], ...]
SIZES = ("size", "rows", "cols", "shape", "sizes")  # attributes that share the symbols of equal core sizes
# Attributes that may be run-time sizes of their own, with their lowest and highest value in the tests.
VARYING = {"shifts": (-9, 9), "before": (0, 5), "after": (0, 5), "reps": (0, 4), "repeats": (0, 4), "starts": (0, 1)}
TOOLS = {fusion: toolchain(options={"use_cache": False, "fusion": fusion}) for fusion in (True, False)}


@dataclass(frozen=True, slots=True)
class Call:
    """One op on one of its samples; `dtypes` holds one per operand."""

    op: Op
    sample: Sample
    dtypes: tuple[DType, ...]

    def __str__(self) -> str:
        attrs = ", ".join(f"{k}={v}" for k, v in self.sample.attrs.items())
        shapes = ", ".join(f"{d}{list(s)}" for d, s in zip(self.dtypes, self.sample.core_shapes, strict=True))
        return f"{self.op}({shapes}) {{{attrs}}}"


def calls_of(op: Op, dtypes: tuple[DType, ...]) -> tuple[Call, ...]:
    """The op's samples with these dtypes. A width that does not fit (bitcast, view_dtype) leaves a sample out."""
    found = []
    for sample in op.samples:
        full = operand_dtypes(sample, dtypes)
        try:
            infer(op, list(zip(full, sample.core_shapes, strict=True)), sample.attrs)
        except (DTypeError, ShapeError):
            assert op.name in ("bitcast", "view_dtype"), f"{op}: the sample {sample} is refused"
            continue
        found.append(Call(op, sample, full))
    return tuple(found)


def cells() -> dict[tuple[str, tuple[DType, ...]], tuple[Call, ...]]:
    """All calls, by op and dtypes; empty where no sample fits the dtypes."""
    return {(op.name, dtypes): calls_of(op, dtypes) for op in OPS.values() for dtypes in op.sample_dtypes}


@dataclass(frozen=True, slots=True)
class Placed:
    """A call in a module: what is run, its inputs and outputs by number, and the symbols of its core sizes."""

    call: Call
    layouts: tuple[Layout, ...]
    loop_ranks: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attrs: Mapping[str, Any]
    cores: Mapping[int, Symbol]  # size in the sample -> symbol
    varying: Mapping[Symbol, tuple[int, str]]  # run-time attribute -> value in the sample, name
    sizes: tuple[Symbol, ...]  # of all these, those handed over as run-time sizes

    @property
    def hints(self) -> dict[Symbol, int]:
        """The sample's own value of every symbol."""
        varying = {s: value for s, (value, _) in self.varying.items()}
        return {s: size for size, s in self.cores.items()} | varying

    def at(self, values: Mapping[Symbol, int]) -> Sample:
        """The sample at other core sizes."""
        sizes = {hint: values[s] for hint, s in self.cores.items()}
        shapes = tuple(tuple(sizes.get(n, n) for n in shape) for shape in self.call.sample.core_shapes)
        domains = {i: (kind, sizes.get(n, n)) for i, (kind, n) in self.call.sample.domains.items()}
        attrs = {name: _at(value, values) for name, value in self.attrs.items()}
        return replace(self.call.sample, core_shapes=shapes, domains=domains, attrs=attrs)


def _at(value: Any, values: Mapping[Symbol, int]) -> Any:
    if isinstance(value, tuple):
        return tuple(_at(v, values) for v in value)
    return values[value] if isinstance(value, Symbol) else value


@dataclass(slots=True)
class Plan:
    """A graph in the making."""

    builder: GraphBuilder
    env: ShapeEnv
    layout: LayoutClass
    loops: Loops
    symbolic: bool
    rng: np.random.Generator
    placed: list[Placed] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    inputs: int = 0

    def add(self, call: Call) -> None:
        prefix = f"k{len(self.placed)}"
        cores: dict[int, Symbol] = {}

        def size(n: int) -> Size:
            if not self.symbolic or n < 2:
                return n
            if n not in cores:
                cores[n] = self.env.create(f"{prefix}_{n}", n)
            return cores[n]

        ids, layouts, ranks, first = [], [], [], self.inputs
        for k, (core, dtype) in enumerate(zip(call.sample.core_shapes, call.dtypes, strict=True)):
            loop = self.loops[k % len(self.loops)]
            shape = (*loop, *map(size, core))
            layout = draw(self.layout, len(shape), len(loop), self.rng)
            name = f"{prefix}_x{k}"
            type_ = TensorType(dtype, shape)
            strides = layout.strides(shape, name)
            ids.append(self.builder.input(name, type_, strides, layout.order, aligned=layout.aligned))
            layouts.append(layout)
            ranks.append(len(loop))
        attrs, varying = complete(call.op, call.sample.attrs), dict[Symbol, tuple[int, str]]()
        if self.symbolic and (call.op.has(Trait.CREATION) or self.rng.random() < 0.5):
            bound = set(cores.values())
            for name in SIZES:
                if name in attrs and call.op.name != "from_size":
                    attrs[name] = _each(attrs[name], size)
            attrs |= self._varying(attrs, prefix, varying)
            sizes = tuple(s for s in (*cores.values(), *varying) if s not in bound)
        else:
            sizes = ()
        for s in sizes:
            self.builder.input(f"size_{s}", TensorType(int64, ()), kind="size", size=s)
        self.inputs += len(ids) + len(sizes)
        made_values = self.builder.call_tuple(call.op, *ids, **attrs)
        outputs = tuple(range(len(self.values), len(self.values) + len(made_values)))
        self.values.extend(made_values)
        inputs = tuple(range(first, first + len(ids)))
        self.placed.append(Placed(call, tuple(layouts), tuple(ranks), inputs, outputs, attrs, cores, varying, sizes))

    def _varying(self, attrs: Mapping[str, Any], prefix: str, varying: dict[Symbol, tuple[int, str]]) -> dict[str, Any]:
        """Those of the attributes that may be run-time sizes, as symbols."""

        def symbol(name: str, value: int) -> Symbol:
            low = -(2**62) if name == "shifts" else 0
            made = self.env.create(f"{prefix}_{name}_{len(varying)}", value, low)
            varying[made] = value, name
            return made

        named = [name for name in VARYING if name in attrs and not _counts(name, attrs[name])]
        return {name: _each(attrs[name], lambda n, name=name: symbol(name, n)) for name in named}

    def finish(self) -> Graph:
        plain = self.builder.finish([Output(v, tuple(range(self.builder.type_of(v).ndim))) for v in self.values])
        orders = value_orders(plain)
        return replace(plain, outputs=tuple(Output(o.value, orders[o.value]) for o in plain.outputs))


def _each(value: Any, make: Callable[[int], Size]) -> Any:
    return tuple(map(make, value)) if isinstance(value, tuple) else make(value)


def _counts(name: str, value: object) -> bool:
    """A tuple of repeats, which holds constants."""
    return name == "repeats" and isinstance(value, tuple)


@dataclass(frozen=True, slots=True)
class Module:
    """Compiled calls."""

    graph: Graph
    placed: tuple[Placed, ...]
    spec: EntrySpec

    def run(self, arguments: Sequence[Any], threads: int = 1) -> tuple[Array, ...]:
        """All outputs, for the arrays and sizes of all inputs."""
        frame = Frame({i.name: x for i, x in zip(self.graph.inputs, arguments, strict=True)}, {})
        result: tuple[Array, ...] = execute(replace(self.spec, threads=threads), frame)
        return result


QUICK = toolchain(mode="fast-compile", options={"use_cache": False})


def compiled(graph: Graph, *, fusion: bool = True, tools: Toolchain | None = None) -> EntrySpec:
    """The graph's code behind an entry that returns all outputs."""
    built = build(graph, tools or TOOLS[fusion], trace.DumpSink(None).begin("test"), Stopwatch())
    sources = tuple(Argument(i.name) for i in graph.inputs)
    recipe = TupleResult(tuple(FromOutput(k) for k in range(len(graph.outputs))))
    return EntrySpec(
        graph.name, (), inputs_of(graph, sources), outputs_of(graph), recipe, built.library, sites=built.facts.sites
    )


def plan(
    calls: Sequence[Call], layout: LayoutClass, loops: Sequence[Shape], symbolic: bool, rng: np.random.Generator
) -> tuple[Graph, tuple[Placed, ...], tuple[Symbol, ...]]:
    """The graph of all calls, what is where in it, and the symbols of the loop sizes, in order of appearance.

    `loops` are the loop shapes of the even and the odd operands; where `symbolic`, sizes from 2 on are symbols.
    """
    env = ShapeEnv()
    symbols: dict[int, Symbol] = {}

    def size(n: int) -> Size:
        if not symbolic or n < 2:
            return n
        if n not in symbols:
            symbols[n] = env.create(f"n{len(symbols)}", n)
        return symbols[n]

    loop_sizes = tuple(tuple(map(size, loop)) for loop in loops)
    builder = GraphBuilder("ops", decide=lambda relation: env.decide(relation, None))
    making = Plan(builder, env, layout, loop_sizes, symbolic, rng)
    for call in calls:
        making.add(call)
    return making.finish(), tuple(making.placed), tuple(symbols.values())


def admitted(graph: Graph, values: Mapping[Symbol, int]) -> bool:
    """Whether the graph was recorded for such sizes."""
    return all(fact.holds(values) for fact in graph.facts)
