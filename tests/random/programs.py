"""A function of `bl.random` as a graph, and that graph as native code: what the tests of bits share.

What goes in: an entry of the frontend, which arguments are arrays of the program, and the others. What comes out: the
results of its compiled graph, for sizes that are constants or symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from broadloom.dtypes import from_numpy
from broadloom.frontend.table import FUNCTIONS
from broadloom.graph.ir import Graph, TensorType
from broadloom.graph.recorder import Recorder
from broadloom.symbolic import ShapeEnv
from tests.compiled.modules import Module, compiled
from tests.random.cases import Case

Array = np.ndarray[Any, Any]


def recorded(entry: Any, arrays: dict[str, Array], **others: Any) -> Graph:
    """The graph of a call whose `arrays` are inputs."""
    r = Recorder("f")
    handles = {name: r.input(name, TensorType(from_numpy(x.dtype), x.shape)) for name, x in arrays.items()}
    return r.finish([FUNCTIONS[entry](r, **handles, **others)]).graph


def native(entry: Any, arrays: dict[str, Array], threads: int = 1, **others: Any) -> Array:
    """The result of a call, compiled."""
    graph = recorded(entry, arrays, **others)
    return Module(graph, (), compiled(graph)).run(list(arrays.values()), threads)[0]


def native_of_any_size(entry: Any, key: Array, sizes: list[tuple[int, ...]], **others: Any) -> list[Array]:
    """The results of a call for several sizes, compiled once: each axis is a symbol, read off an input."""
    env = ShapeEnv()
    rank = len(sizes[0])
    symbols = tuple(env.create(f"n{k}", sizes[0][k]) for k in range(rank))
    r = Recorder("f", env)
    k = r.input("key", TensorType(from_numpy(key.dtype), key.shape))
    r.input("like", TensorType(from_numpy(np.dtype(np.int8)), symbols))
    graph = r.finish([FUNCTIONS[entry](r, k, size=symbols, **others)]).graph
    module = Module(graph, (), compiled(graph))
    return [module.run([key, np.zeros(size, np.int8)])[0] for size in sizes]


def native_of_all(cases: Sequence[Case], key: Array, size: tuple[int, ...]) -> Callable[[int], tuple[Array, ...]]:
    """The results of all cases, compiled together, as a function of the number of threads."""
    r = Recorder("f")
    k = r.input("key", TensorType(from_numpy(key.dtype), key.shape))
    graph = r.finish([FUNCTIONS[c.entry](r, k, size=size, **c.parameters) for c in cases]).graph
    module = Module(graph, (), compiled(graph))
    return lambda threads: module.run([key], threads)
