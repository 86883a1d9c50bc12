"""The pure tensor graph, as data.

What goes in: inputs (arrays, runtime scalars, runtime sizes) with symbolic shapes and strides. What comes out:
values, one per node result, and the `writes` that the module puts back into mutated inputs at the end.

What holds: a graph is SSA over integer value ids - inputs first, then node results in order, no gaps; every id is
used only after its definition; nodes are op-table ops or constants; nothing is mutated; two graphs are equal when
their texts are (so 1, 1.0 and True stay apart). Source locations take no part in equality. One value may be the value
of several outputs and writes, and an input may be an output's value: each output is an array of its own all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal, NewType

import numpy as np

from broadloom.dtypes import DType
from broadloom.errors import Location
from broadloom.graph.text import format_graph
from broadloom.ops.record import Op
from broadloom.records import dataclass
from broadloom.symbolic import Relation, Size, Symbol

ValueId = NewType("ValueId", int)
Order = tuple[int, ...]  # a permutation of axes, outermost in memory first; C order is (0, 1, ..., n-1)


@dataclass(frozen=True, slots=True)
class TensorType:
    """dtype and shape; sizes are ints or symbolic expressions over the graph's symbols."""

    dtype: DType
    shape: tuple[Size, ...]

    @property
    def ndim(self) -> int:
        return len(self.shape)


@dataclass(frozen=True, slots=True)
class Input:
    """A graph input. `strides` are in elements: constants where the guard fixes them, expressions of sizes for
    contiguous axes, fresh symbols where any stride is admitted. A "scalar" is a 0-d runtime number (a Python
    float arrives as float64); a "size" is a Python int bound to the symbol that stands alone in `size`."""

    name: str
    type: TensorType
    strides: tuple[Size, ...]
    order: Order
    kind: Literal["array", "scalar", "size"] = "array"
    size: Symbol | None = None
    aligned: bool = True


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal array by (dtype, shape, bit pattern). Up to 64 bytes stand in `data`; larger arrays are named
    by the hex SHA-256 of their C-order bytes in `digest` and live in `Graph.constants`."""

    dtype: DType
    shape: tuple[int, ...]
    data: bytes | None
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """One op call. `attrs` are sorted by name so that equality and text are canonical."""

    op: Op | Constant
    inputs: tuple[ValueId, ...]
    attrs: tuple[tuple[str, Any], ...]
    types: tuple[TensorType, ...]
    location: Location | None = field(default=None, compare=False)

    @property
    def attributes(self) -> dict[str, Any]:
        return dict(self.attrs)


@dataclass(frozen=True, slots=True)
class Output:
    """A fresh array result: its value and the memory order NumPy would give it."""

    value: ValueId
    order: Order


@dataclass(frozen=True, slots=True)
class Write:
    """`value`, of the full shape of input number `input`, is written back into that input's memory."""

    input: int
    value: ValueId


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A pure function over arrays; see the module docstring for what holds.

    `facts` are the relations between sizes that were settled while the graph was recorded and are guarded: types are
    inferred under them. `constants` is the table of large arrays, by digest of their bytes.
    """

    name: str
    symbols: tuple[Symbol, ...]
    inputs: tuple[Input, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Output, ...]
    writes: tuple[Write, ...] = ()
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    facts: tuple[Relation, ...] = ()

    @property
    def types(self) -> tuple[TensorType, ...]:
        """The type of every value, by id."""
        return (*(i.type for i in self.inputs), *(t for n in self.nodes for t in n.types))

    def __str__(self) -> str:
        """The canonical text; `graph.parse.parse` is its inverse."""
        return format_graph(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            return NotImplemented
        return self is other or str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))
