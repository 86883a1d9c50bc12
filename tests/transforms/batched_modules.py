"""Many batched calls in one compiled module, run at many sizes.

What goes in: cases, whether sizes are symbols, a random generator. What comes out: the failures, each naming its case
and sizes; and for one case the number of kernels of its batched and its plain form. What holds: the numbers of
examples and the loop sizes are shared by all calls of a module, core sizes by none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from broadloom.capture.sources import Frame
from broadloom.compiler.build import fuse
from broadloom.dtypes import int64
from broadloom.fusion.decide import BOTH_SMALL
from broadloom.graph.builder import GraphBuilder
from broadloom.graph.ir import Graph, Output, TensorType
from broadloom.graph.manager import PassContext
from broadloom.graph.order import value_orders
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle
from broadloom.ops.infer import complete
from broadloom.runtime.python_entry import execute
from broadloom.runtime.spec import EntrySpec
from broadloom.runtime.target import host
from broadloom.symbolic import ShapeEnv, Size, Symbol
from tests.compiled.checking import accepted
from tests.compiled.layouts import LAYOUTS, Array, Layout, LayoutClass, arranged, draw
from tests.compiled.modules import SIZES, TOOLS, Call, admitted, compiled
from tests.transforms.batched_calls import Case, arrays_of, call_batched, check

HINTS = {"p": 3, "q": 4, "B0": 5, "B1": 6}


@dataclass(frozen=True, slots=True)
class Placed:
    """A case in a module: the layouts of its operands, its inputs and outputs by number, the symbols of its cores."""

    case: Case
    layouts: tuple[Layout, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    cores: Mapping[int, Symbol]

    def at(self, values: Mapping[Symbol, int]) -> Call:
        """The case's call at other core sizes."""
        call, sizes = self.case.call, {n: values[s] for n, s in self.cores.items()}
        sample = call.sample
        shapes = tuple(tuple(sizes.get(n, n) for n in shape) for shape in sample.core_shapes)
        domains = {k: (kind, sizes.get(n, n)) for k, (kind, n) in sample.domains.items()}
        attrs = {k: _resized(v, sizes) if k in SIZES else v for k, v in sample.attrs.items()}
        return replace(call, sample=replace(sample, core_shapes=shapes, domains=domains, attrs=attrs))


@dataclass(frozen=True, slots=True)
class Planned:
    """A graph of many cases."""

    graph: Graph
    placed: tuple[Placed, ...]
    sizes: Mapping[str, Size]


def plan(
    cases: Sequence[Case],
    static: Mapping[str, int] | None,
    rng: np.random.Generator,
    layouts: Sequence[LayoutClass] = LAYOUTS,
) -> Planned:
    """The graph of all cases; sizes are symbols, or as `static` says. Operands lie as one of `layouts` says."""
    env = ShapeEnv()
    sizes: Mapping[str, Size] = static or {name: env.create(name, hint) for name, hint in HINTS.items()}
    builder = GraphBuilder("batched", decide=lambda relation: env.decide(relation, None))
    recorder = Recorder(builder=builder)
    placed: list[Placed] = []
    values: list[Any] = []
    inputs = 0
    for number, case in enumerate(cases):
        cores: dict[int, Symbol] = {}

        def size(n: int, cores: dict[int, Symbol] = cores, number: int = number) -> Size:
            if static is not None or n < 2:
                return n
            if n not in cores:
                cores[n] = env.create(f"k{number}_{n}", n)
            return cores[n]

        def layout(rank: int) -> Layout:
            return draw(layouts[int(rng.integers(len(layouts)))], rank, 0, rng)

        handles, laid = _inputs(case, f"k{number}", recorder, sizes, size, layout)
        attrs = complete(case.call.op, case.call.sample.attrs)
        resized = {k: _resized(v, cores) for k, v in attrs.items() if k in SIZES}
        results = call_batched(case, recorder, handles, [sizes["B0"], sizes["B1"]], attrs | resized)
        outputs = tuple(range(len(values), len(values) + len(results)))
        values.extend(recorder.read(r) for r in results)
        placed.append(Placed(case, laid, tuple(range(inputs, inputs + len(handles))), outputs, cores))
        inputs += len(handles)
    for s in (sizes["B0"], sizes["B1"]):
        if isinstance(s, Symbol):  # a result may be batched where no operand is
            builder.input(f"size_{s}", TensorType(int64, ()), kind="size", size=s)
    plain = builder.finish([Output(v, tuple(range(builder.type_of(v).ndim))) for v in values])
    orders = value_orders(plain)
    graph = replace(plain, outputs=tuple(Output(o.value, orders[o.value]) for o in plain.outputs))
    return Planned(graph, tuple(placed), sizes)


def _inputs(
    case: Case,
    prefix: str,
    recorder: Recorder,
    sizes: Mapping[str, Size],
    size: Callable[[int], Size],
    lay: Callable[[int], Layout],
) -> tuple[list[ArrayHandle], tuple[Layout, ...]]:
    handles, layouts = [], []
    for k, (loop, core) in enumerate(zip(case.loops, case.call.sample.core_shapes, strict=True)):
        inside = (*(sizes[d] if isinstance(d, str) else d for d in loop), *map(size, core))
        shape = case.shape(k, inside, [sizes["B0"], sizes["B1"]])
        layout = lay(len(shape))
        name = f"{prefix}_x{k}"
        type_ = TensorType(case.call.dtypes[k], shape)
        value = recorder.builder.input(name, type_, layout.strides(shape, name), layout.order, aligned=layout.aligned)
        handles.append(recorder.adopt(value))
        layouts.append(layout)
    return handles, tuple(layouts)


def _resized(value: Any, sizes: Mapping[int, Size]) -> Any:
    """A size attribute, or a tuple of them, with other sizes in place of those of the sample."""
    return tuple(_resized(v, sizes) for v in value) if isinstance(value, tuple) else sizes.get(value, value)


def failures(cases: Sequence[Case], static: Mapping[str, int] | None, rng: np.random.Generator) -> list[str]:
    """What is wrong with the compiled code of these cases. A module that cannot be made is made case by case."""
    kind = "symbolic" if static is None else f"static {static}"
    try:
        planned = plan(cases, static, rng)
        spec = compiled(planned.graph)
    except Exception as error:  # noqa: BLE001 - whatever it is, the cases at fault are to be named
        if len(cases) == 1:
            return [f"{cases[0]} {kind}: cannot be compiled: {type(error).__name__}: {error}"]
        half = len(cases) // 2
        found = failures(cases[:half], static, rng) + failures(cases[half:], static, rng)
        return found or [f"{', '.join(map(str, cases))} {kind}: only together: {type(error).__name__}: {error}"]
    return [f for sizes in _runs(static, rng) for f in _at(planned, spec, sizes, rng)]


def _runs(static: Mapping[str, int] | None, rng: np.random.Generator) -> Iterator[Mapping[str, int]]:
    """Sizes to run at: no example, one, few, many in the outer or the inner level; loop dims the same."""
    if static is not None:
        yield from (static, static)
        return
    small, tail, many = (int(rng.integers(*between)) for between in ((2, 5), (9, 40), (400, 900)))
    for batch in ((small, 2), (1, small), (2, 1), (tail, 1), (many, 1), (0, 2), (2, 0)):
        loops = rng.choice((1, 2) if batch[0] == many else (0, 1, 1, 2, 3, 5, 9), 2)  # several threads share the many
        yield {"B0": batch[0], "B1": batch[1], "p": int(loops[0]), "q": int(loops[1])}


def _at(planned: Planned, spec: EntrySpec, sizes: Mapping[str, int], rng: np.random.Generator) -> list[str]:
    graph, batch = planned.graph, (sizes["B0"], sizes["B1"])
    values = {s: sizes[name] for name, s in planned.sizes.items() if isinstance(s, Symbol)}
    calls = [_sized(planned, p, values, rng) for p in planned.placed]
    given = [
        [
            arranged(a, layout, 0, rng)
            for a, layout in zip(arrays_of(p.case, call, sizes, batch, rng), p.layouts, strict=True)
        ]
        for p, call in zip(planned.placed, calls, strict=True)
    ]
    assert admitted(graph, values), f"sizes that the graph was not recorded for: {sizes}, {graph.facts}"
    arguments = [*(a for arrays in given for a in arrays), *batch]  # the last two only where sizes are symbols
    frame = Frame({i.name: x for i, x in zip(graph.inputs, arguments, strict=False)}, {})
    try:
        outputs: Sequence[Array] = execute(replace(spec, threads=int(rng.integers(1, 4))), frame)
    except Exception as error:  # noqa: BLE001 - none of these operands may raise anything
        return [f"{sizes}: the run of {', '.join(str(p.case) for p in planned.placed)} raised {error!r}"]
    found = []
    for p, call, arrays in zip(planned.placed, calls, given, strict=True):
        depth = len(p.case.axes)
        try:
            check(p.case, call, arrays, batch[:depth], [outputs[k] for k in p.outputs])
        except (AssertionError, pytest.fail.Exception) as error:
            found.append(f"{p.case} at {sizes}, {[(a.shape, a.strides) for a in arrays]}: {error}")
    return found


def _sized(planned: Planned, p: Placed, values: dict[Symbol, int], rng: np.random.Generator) -> Call:
    """The call at core sizes of this run, which are added to `values`."""
    if p.cores and rng.random() < 0.5:
        drawn = {s: int(rng.choice((0, 1, 2, 3, 5, 9, 17))) for s in p.cores.values()}
        facts = planned.graph.facts
        known = {**values, **drawn}
        own = [f for f in facts if f.symbols & drawn.keys()]
        if all(f.holds(known) for f in own) and accepted(p.case.call, p.at(drawn).sample):
            values.update(drawn)
            return p.at(drawn)
    values.update({s: n for n, s in p.cores.items()})
    return p.case.call


# ---- launches -------------------------------------------------------------------------------------------------------


def launches(case: Case, rng: np.random.Generator) -> tuple[int, int]:
    """The kernels and library calls of the batched form, and those of one example. What is joined only because it is
    small counts apart: a batch of it need not be small."""
    single = replace(case, axes=(), out=())
    batched, alone = (plan([c], HINTS, rng, ("c",)).graph for c in (case, single))
    return _steps(batched), _steps(alone)


def _steps(graph: Graph) -> int:
    passed = TOOLS[True].passes(host()).run(graph, PassContext(None))
    scheduled = fuse(passed)
    small = sum(d.outcome == BOTH_SMALL for d in scheduled.decisions)
    return len(scheduled.program.steps) + small
