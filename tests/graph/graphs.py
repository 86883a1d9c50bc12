"""Random graphs over the whole op table: each node is a sample call of some op on earlier values where they fit, else
on fresh inputs or constants. Symbolic sizes occur where an op admits any size."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
from hypothesis import strategies as st

from broadloom import dtypes
from broadloom.dtypes import DType
from broadloom.errors import BroadloomError
from broadloom.graph.builder import GraphBuilder
from broadloom.graph.interpret import concrete
from broadloom.graph.ir import Graph, Output, TensorType, ValueId, Write
from broadloom.ops.record import Op, Sample, Trait
from broadloom.ops.table import OPS
from broadloom.symbolic import Symbol

USUAL = (dtypes.float64, dtypes.float32, dtypes.int64, dtypes.int32, dtypes.uint8, dtypes.bool_)


class _Maker:
    def __init__(self, rng: random.Random, symbolic: bool) -> None:
        self.rng = rng
        self.builder = GraphBuilder("random graph" if rng.random() < 0.2 else "f")
        self.symbols = [Symbol("n"), Symbol("m", 1, 9)] if symbolic else []
        self.by_type: dict[TensorType, list[ValueId]] = {}
        self.inputs = 0

    def keep(self, value: ValueId) -> ValueId:
        self.by_type.setdefault(self.builder.type_of(value), []).append(value)
        return value

    def input(self, type: TensorType) -> ValueId:
        self.inputs += 1
        order = tuple(self.rng.sample(range(type.ndim), type.ndim))
        name = f"x{self.inputs}" if self.rng.random() < 0.8 else f"L['x'].a[{self.inputs}]#\""
        return self.keep(self.builder.input(name, type, None, order, aligned=self.rng.random() < 0.9))

    def constant(self, type: TensorType) -> ValueId:
        shape = tuple(n for n in type.shape if isinstance(n, int))
        raw = self.rng.randbytes(math.prod(shape) * type.dtype.itemsize)
        array = np.frombuffer(raw, np.uint8)
        array = (array & 1 if type.dtype is dtypes.bool_ else array).view(type.dtype.numpy).reshape(shape)
        if self.rng.random() < 0.6:  # an ordinary number, and often a neutral one
            array = np.full(shape, self.rng.choice([0, 1, -0.0, 2])).astype(type.dtype.numpy)
        return self.keep(self.builder.constant(array))

    def value(self, type: TensorType, domain: bool = False) -> ValueId:
        found = self.by_type.get(type, [])
        static = all(isinstance(n, int) for n in type.shape)
        if domain and static:  # indices in range, whatever the array
            return self.keep(self.builder.constant(np.zeros(type.shape, type.dtype.numpy)))
        if found and self.rng.random() < 0.8:
            return self.rng.choice(found)
        if static and self.rng.random() < 0.3:
            return self.constant(type)
        return self.input(type)

    def node(self) -> None:
        op: Op = self.rng.choice([op for op in OPS.values() if not op.has(Trait.LINALG)])
        cells = [c for c in op.sample_dtypes if all(d in USUAL for d in c)] or list(op.sample_dtypes)
        cell: tuple[DType, ...] = self.rng.choice(cells)
        sample: Sample = self.rng.choice(op.samples)
        count = len(sample.core_shapes)
        cell = cell if len(cell) == count else (*cell[:-1], *(cell[-1] for _ in range(count - len(cell) + 1)))
        loop: tuple[Any, ...] = ()
        if op.has(Trait.POINTWISE) or self.rng.random() < 0.2:
            loop = self.rng.choice(
                [(), (2,), (2, 3), (4,), *((s,) for s in self.symbols), *((s, 3) for s in self.symbols)]
            )
        operands = []
        for k, (core, dtype) in enumerate(zip(sample.core_shapes, cell, strict=True)):
            # indices go without loop dims: scatter's values decide their number
            operands.append(self.value(TensorType(dtype, (*loop, *core)), k in sample.domains))
        self.keep_all(op, operands, dict(sample.attrs))

    def keep_all(self, op: Op, operands: list[ValueId], attrs: dict[str, Any]) -> None:
        try:
            results = self.builder.call_tuple(op, *operands, **attrs)
        except BroadloomError:
            return
        for value in results:
            self.keep(value)

    def view_chain(self) -> None:
        """Views on views, which the passes join."""
        types = [t for t in self.by_type if t.ndim and all(isinstance(n, int) and n for n in t.shape)]
        if not types:
            return
        value = self.rng.choice(self.by_type[self.rng.choice(types)])
        type = self.builder.type_of(value)
        shape = [int(str(n)) for n in type.shape]
        name = self.rng.choice(["permute", "reshape", "slice", "flip", "expand", "cast"])
        core = self.rng.randint(1, type.ndim)
        last = shape[-core:]
        attrs: dict[str, Any] = {
            "permute": lambda: {"axes": tuple(a - core for a in self.rng.sample(range(core), core))},
            "reshape": lambda: {"core": core, "shape": self.rng.choice([(math.prod(last),), (1, *last), tuple(last)])},
            "slice": lambda: self.slices(last),
            "flip": lambda: {"axes": tuple(a - core for a in range(core) if self.rng.random() < 0.5)},
            "expand": lambda: {"shape": (2, *shape)},
            "cast": lambda: {"dtype": self.rng.choice(USUAL)},
        }[name]()
        if math.prod(shape) < 200:
            self.keep(self.builder.call(name, value, **attrs))

    def slices(self, shape: list[int]) -> dict[str, tuple[int, ...]]:
        picks = [
            range(n)[self.rng.choice([slice(None), slice(None, None, -1), slice(1, None), slice(0, None, 2)])]
            for n in shape
        ]
        starts = tuple(p[0] if len(p) else 0 for p in picks)
        return {"starts": starts, "sizes": tuple(map(len, picks)), "steps": tuple(p.step for p in picks)}

    def finish(self) -> Graph:
        values = [v for found in self.by_type.values() for v in found]
        chosen = self.rng.sample(values, min(len(values), 4))
        outputs = []
        for v in chosen:
            ndim = self.builder.type_of(v).ndim
            outputs.append(Output(v, tuple(self.rng.sample(range(ndim), ndim))))
        bare = self.builder.finish([])
        writes = []
        for k, declared in enumerate(bare.inputs):
            if self.rng.random() < 0.3:
                writes.append(Write(k, self.rng.choice(self.by_type[declared.type])))
        return self.builder.finish(outputs, writes)


@st.composite
def graphs(draw: Any, symbolic: bool = False) -> Graph:
    """A random graph of up to 30 calls."""
    maker = _Maker(random.Random(draw(st.integers(0, 2**32))), symbolic)
    maker.input(TensorType(dtypes.float64, (3, 4)))
    for symbol in maker.symbols:
        maker.input(TensorType(dtypes.float64, (symbol,)))
    for _ in range(draw(st.integers(1, 30))):
        maker.node() if maker.rng.random() < 0.6 else maker.view_chain()
    return maker.finish()


def arguments(graph: Graph, rng: np.random.Generator, sizes: dict[Symbol, int] | None = None) -> list[np.ndarray]:
    """Arrays for the inputs, with special values among them."""
    result = []
    for declared in graph.inputs:
        shape = concrete(declared.type.shape, sizes or {})
        dtype = declared.type.dtype
        if dtype.kind in "fc":
            special = np.array([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 0.5, -3.25])
            values = np.where(rng.random(shape) < 0.3, rng.choice(special, shape), rng.normal(size=shape) * 4)
        else:
            values = rng.integers(0, 3, shape)
        result.append(np.asarray(values).astype(dtype.numpy))
    return result
