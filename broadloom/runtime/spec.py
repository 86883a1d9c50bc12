"""What one specialisation of a compiled function is, for the entry: guards, inputs, outputs, result.

What goes in: a captured function's guards, sources and recipe, and the library with its code. What comes out: a
frozen `EntrySpec`, served by the native entry and by the Python entry with one meaning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from broadloom.capture.guards import Guard
from broadloom.capture.recipe import Recipe
from broadloom.capture.sources import Source
from broadloom.dtypes import DType
from broadloom.records import dataclass
from broadloom.runtime.link import Library

if TYPE_CHECKING:
    from broadloom.fusion.ir import Site
    from broadloom.graph.ir import Graph
    from broadloom.symbolic import Symbol


@dataclass(frozen=True, slots=True)
class EntryInput:
    """One argument of the module: an array, a runtime number (a 0-d value of `dtype`: a Python float or complex, or
    a NumPy scalar), or a runtime size (a Python int, handed over as 0-d int64)."""

    source: Source
    kind: Literal["array", "scalar", "size"]
    dtype: DType


@dataclass(frozen=True, slots=True)
class EntryOutput:
    """One array that the module fills: `order` lists the axes by memory, outermost first."""

    dtype: DType
    ndim: int
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class EntrySpec:
    """One specialisation. Two specs are equal only when they are the same object.

    `library` holds `bl_plan` and `bl_run` under the names `plan` and `run` and stays alive with the spec.
    `symbols`: where the symbols of the recipe are read. `threads`: at most so many. `release_elements`: the GIL is
    released when the elements of all array inputs and outputs are at least so many; None never releases it.
    """

    name: str
    guards: tuple[Guard, ...]
    inputs: tuple[EntryInput, ...]
    outputs: tuple[EntryOutput, ...]
    recipe: Recipe
    library: Library
    symbols: tuple[tuple[Symbol, Source], ...] = ()
    sites: tuple[Site, ...] = ()
    threads: int = 1
    release_elements: int | None = None
    plan: str = "bl_plan"
    run: str = "bl_run"


def inputs_of(graph: Graph, sources: tuple[Source, ...]) -> tuple[EntryInput, ...]:
    """The entry's inputs for a graph whose inputs come from `sources`."""
    return tuple(EntryInput(s, i.kind, i.type.dtype) for i, s in zip(graph.inputs, sources, strict=True))


def outputs_of(graph: Graph) -> tuple[EntryOutput, ...]:
    """The entry's outputs for a graph."""
    types = graph.types
    return tuple(EntryOutput(types[o.value].dtype, types[o.value].ndim, o.order) for o in graph.outputs)
