"""Runs a module of calls at many sizes and compares every output with the reference.

What goes in: calls, a configuration (layout class, loop shapes, static or symbolic), a random generator. What comes
out: a list of failures, each naming call, configuration, sizes and the first element that differs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from broadloom.errors import ShapeError
from broadloom.ops.infer import infer
from broadloom.ops.record import Sample, Trait
from broadloom.ops.sampling import LOOP_SHAPES, operands
from broadloom.symbolic import Symbol, free_symbols
from tests.compiled import equality
from tests.compiled.layouts import LAYOUTS, Array, LayoutClass, arranged
from tests.compiled.modules import SIZES, VARYING, Call, Module, Placed, Shape, admitted, compiled, plan

SYMBOLIC_LOOPS: tuple[tuple[Shape, Shape], ...] = (((), ()), ((7,), (7,)), ((5, 1), (1, 4)), ((3, 4), (4,)))
LARGEST = 6000  # elements of the core of an operand or result
CORE_SIZES = (0, 1, 2, 3, 4, 5, 8, 9, 16, 17, 33, 70, 257, 1025)


@dataclass(frozen=True, slots=True)
class Configuration:
    """One way to compile calls."""

    layout: LayoutClass
    loops: tuple[Shape, Shape]
    symbolic: bool
    fusion: bool = True  # without, each op is a kernel of its own

    def __str__(self) -> str:
        kind = "symbolic" if self.symbolic else "static"
        return f"{kind} {self.layout} loops {self.loops[0]}x{self.loops[1]}{'' if self.fusion else ' not fused'}"


def configurations(rng: np.random.Generator) -> tuple[Configuration, ...]:
    """The whole product of layout classes and loop shapes; the sizes of some static shapes are drawn."""
    n = int(rng.integers(2, 71))
    drawn = (((n,), (n,)), ((int(rng.integers(1000, 1100)),),) * 2)
    static = (*LOOP_SHAPES, drawn[int(rng.integers(2))])
    return tuple(
        Configuration(layout, loops, symbolic, bool(rng.random() < 0.7))
        for layout in LAYOUTS
        for symbolic, choices in ((True, SYMBOLIC_LOOPS), (False, static))
        for loops in choices
    )


def resized(call: Call, rng: np.random.Generator) -> Call:
    """The call at other core sizes, or as it is where it does not admit those drawn."""
    sample = call.sample
    own = {n for shape in sample.core_shapes for n in shape if n > 1}
    sizes = {n: int(rng.choice(CORE_SIZES)) for n in sorted(own)}
    shapes = tuple(tuple(sizes.get(n, n) for n in shape) for shape in sample.core_shapes)
    domains = {k: (kind, sizes.get(n, n)) for k, (kind, n) in sample.domains.items()}
    attrs = {k: _resized(v, sizes) if k in SIZES else v for k, v in sample.attrs.items()}
    changed = replace(sample, core_shapes=shapes, domains=domains, attrs=attrs)
    return replace(call, sample=changed) if own and accepted(call, changed) else call


def _resized(value: Any, sizes: Mapping[int, int]) -> Any:
    return tuple(sizes.get(n, n) for n in value) if isinstance(value, tuple) else sizes.get(value, value)


def failures(calls: Sequence[Call], c: Configuration, rng: np.random.Generator) -> list[str]:
    """What is wrong with the compiled code of these calls. A module that cannot be made is made call by call."""
    try:
        graph, placed, symbols = plan(calls, c.layout, c.loops, c.symbolic, rng)
        module = Module(graph, placed, compiled(graph, fusion=c.fusion))
    except Exception as error:  # noqa: BLE001 - whatever it is, the calls at fault are to be named
        if len(calls) == 1:
            return [f"{calls[0]} {c}: cannot be compiled: {type(error).__name__}: {error}"]
        half = len(calls) // 2
        found = failures(calls[:half], c, rng) + failures(calls[half:], c, rng)
        return found or [f"{', '.join(map(str, calls))} {c}: only together: {type(error).__name__}: {error}"]
    return [f"{f}" for sizes in loop_sizes(c, symbols, rng) for f in _at(module, c, sizes, rng)]


def loop_sizes(c: Configuration, symbols: Sequence[Symbol], rng: np.random.Generator) -> Iterator[dict[Symbol, int]]:
    """Values of the loop symbols to run at: none, one, few, vector bodies with and without a tail."""
    small, tail, long = (int(n) for n in (rng.integers(2, 10), rng.integers(10, 71), rng.integers(1000, 1100)))
    if not symbols:
        choices: tuple[tuple[int, ...], ...] = ((),) * 4
    elif len(symbols) == 1:
        choices = ((small,), (tail,), (long,), (int(rng.integers(1, 71)),), (1,), (0,))
    else:
        choices = ((small, tail), (1, small), (0, small), (tail, 1), (small, 0), (2, int(rng.integers(70, 140))))
    for sizes in choices:
        yield dict(zip(symbols, sizes, strict=True))


def _at(module: Module, c: Configuration, loops: Mapping[Symbol, int], rng: np.random.Generator) -> list[str]:
    values = dict(loops)
    samples = [_sized(module, p, values, rng) for p in module.placed]
    arguments: list[Any] = []
    given: list[tuple[Array, ...]] = []
    shapes = loop_shapes(c, loops)
    for placed, sample in zip(module.placed, samples, strict=True):
        arrays = operands_of(placed, sample, shapes, rng)
        laid = tuple(
            arranged(x, layout, rank, rng)
            for x, layout, rank in zip(arrays, placed.layouts, placed.loop_ranks, strict=True)
        )
        given.append(laid)
        arguments.extend((*laid, *(values[s] for s in placed.sizes)))
    assert admitted(module.graph, values), "sizes that the graph was not recorded for"
    before = [x.copy() if isinstance(x, np.ndarray) else x for x in arguments]
    try:
        outputs = module.run(arguments, threads=int(rng.integers(1, 4)))
    except Exception as error:  # noqa: BLE001 - none of these operands may raise anything
        return [f"{c} {loops}: the run of {', '.join(map(str, module.placed))} raised {type(error).__name__}: {error}"]
    found = []
    for x, kept in zip(arguments, before, strict=True):
        if isinstance(x, np.ndarray) and x.tobytes() != kept.tobytes():
            found.append(f"{c} {loops}: an operand was written to")
    for placed, sample, arrays in zip(module.placed, samples, given, strict=True):
        got = tuple(outputs[k] for k in placed.outputs)
        attrs = {**placed.call.op.defaults, **sample.attrs}
        try:
            equality.check(placed.call.op, attrs, arrays, got)
        except (AssertionError, pytest.fail.Exception) as error:
            strides = [(x.shape, x.strides) for x in arrays]
            found.append(f"{placed.call} {c} {strides}: {error}")
    return found


def loop_shapes(c: Configuration, loops: Mapping[Symbol, int]) -> tuple[Shape, Shape]:
    """The loop shapes at these values of the loop symbols."""
    hints = list(dict.fromkeys(n for shape in c.loops for n in shape if n >= 2)) if c.symbolic else []
    sizes = dict(zip(hints, loops.values(), strict=True))
    first, second = (tuple(sizes.get(n, n) for n in shape) for shape in c.loops)
    return first, second


def _sized(module: Module, placed: Placed, values: dict[Symbol, int], rng: np.random.Generator) -> Sample:
    """The call's sample at core sizes of this run, which are added to `values`: others than the sample's where the
    graph was recorded for any."""
    hints = placed.hints
    if hints and rng.random() < 0.7:
        drawn = {s: int(rng.choice((0, 1, 2, 3, 5, 9, 17, 40))) for s in placed.cores.values()}
        ranges = {s: VARYING[name] for s, (_, name) in placed.varying.items()}
        drawn |= {s: int(rng.integers(low, high + 1)) for s, (low, high) in ranges.items()}
        facts = (f for f in module.graph.facts if hints.keys() & (free_symbols(f.lhs) | free_symbols(f.rhs)))
        if all(f.holds({**values, **drawn}) for f in facts) and accepted(placed.call, placed.at(drawn)):
            values.update(drawn)
            return placed.at(drawn)
    values.update(hints)
    return placed.at(hints)


def accepted(call: Call, sample: Sample) -> bool:
    """Whether the op takes these sizes, and no result is too large for a test."""
    try:
        results = infer(call.op, list(zip(call.dtypes, sample.core_shapes, strict=True)), sample.attrs)
    except ShapeError:
        return False
    if any(kind == "index" and n == 0 for kind, n in sample.domains.values()):
        return False  # no index is in range, and there may be some
    most = 500 if call.op.has(Trait.LINALG) else LARGEST
    return all(math.prod(shape) <= most for shape in (*sample.core_shapes, *(s for _, s in results)))


def operands_of(placed: Placed, sample: Sample, loops: tuple[Shape, Shape], rng: np.random.Generator) -> list[Array]:
    """Operands for one run. Half of the runs leave the op's domain and meet all edge values."""
    op, dtypes = placed.call.op, placed.call.dtypes
    edges = bool(rng.random() < 0.6) and not op.has(Trait.LINALG)
    if edges and op.has(Trait.POINTWISE):
        sample = replace(sample, low=None, high=None)
    arrays = list(operands(sample, dtypes, rng, loops, edges=edges))
    if op.name == "pow" and dtypes[0].kind == "i":
        arrays[1] = np.asarray(np.abs(arrays[1]) & np.iinfo(arrays[1].dtype).max)
    return arrays
