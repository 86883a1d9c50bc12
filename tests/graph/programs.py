"""Random array programs run twice at once: by NumPy on arrays, and by a `Recorder` on handles.

`Program.step` draws one step and does it on both sides: views of every kind, dtype views, arithmetic, copies, and
writes through whatever view comes up. `finish` records the graph.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from broadloom import dtypes
from broadloom.dtypes import DType
from broadloom.graph.ir import TensorType
from broadloom.graph.recorder import Recorded, Recorder
from broadloom.graph.storage import ArrayHandle

DTYPES = (dtypes.int64, dtypes.int32, dtypes.uint8, dtypes.float64, dtypes.float32)


@dataclass(repr=False)
class Pair:
    """One array of the program, on both sides."""

    array: np.ndarray
    handle: ArrayHandle


@dataclass(repr=False)
class Program:
    """`arguments` are the inputs as they were before the first step."""

    rng: random.Random
    recorder: Recorder = field(default_factory=lambda: Recorder("program"))
    arguments: list[np.ndarray] = field(default_factory=list)
    inputs: list[Pair] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)

    def __repr__(self) -> str:
        return str(self.finish(self.pairs).graph)

    def coin(self) -> bool:
        return self.rng.random() < 0.5

    def shape(self) -> tuple[int, ...]:
        return tuple(self.rng.choice((1, 2, 3, 4)) for _ in range(self.rng.choice((0, 1, 1, 2, 2, 3))))

    def shuffled(self, n: int) -> list[int]:
        return self.rng.sample(range(n), n)

    def add_input(self) -> None:
        shape, dtype = self.shape(), self.rng.choice(DTYPES)
        order = tuple(self.shuffled(len(shape)))
        memory = np.arange(1, 1 + int(np.prod(shape))).astype(dtype.numpy).reshape([shape[a] for a in order])
        array = memory.transpose(np.argsort(order).tolist()) if order else memory
        strides = tuple(s // array.itemsize for s in array.strides)
        number = len(self.arguments)
        handle = self.recorder.input(f"x{number}", TensorType(dtype, shape), strides, order)
        self.arguments.append(array.copy(order="K"))
        self.inputs.append(Pair(array, handle))
        self.pairs.append(self.inputs[-1])

    def step(self) -> None:
        kind = self.rng.choice(STEPS)
        pair = self.rng.choice(self.pairs[-4:] if self.coin() else self.pairs)
        made = getattr(self, kind)(pair)
        if made is not None:
            array, handle = made
            assert tuple(array.shape) == handle.shape and dtypes.from_numpy(array.dtype) is handle.dtype
            self.pairs.append(Pair(array, handle))

    def finish(self, results: list[Pair]) -> Recorded:
        return self.recorder.finish([p.handle for p in results])

    # ---- views ------------------------------------------------------------------------------------------------

    def do_slice(self, p: Pair) -> Any:
        starts, sizes, steps, key = [], [], [], []
        for n in p.array.shape:
            step = self.rng.choice([1, 1, 2, -1, -2])
            first, second = sorted((self.rng.randint(0, n), self.rng.randint(0, n)))
            span = range(first, second)[::step]
            start, size = (span[0], len(span)) if len(span) else (0, 0)
            starts.append(start)
            sizes.append(size)
            steps.append(step)
            stop = start + size * step
            key.append(slice(start, None if stop < 0 else stop, step) if size else slice(0, 0, step))
        attrs = {"starts": tuple(starts), "sizes": tuple(sizes), "steps": tuple(steps)}
        return p.array[(..., *key)], self.recorder.view("slice", p.handle, **attrs)

    def do_permute(self, p: Pair) -> Any:
        axes = self.shuffled(p.array.ndim)
        negative = tuple(a - p.array.ndim for a in axes)
        return p.array.transpose(axes), self.recorder.view("permute", p.handle, axes=negative)

    def do_reshape(self, p: Pair) -> Any:
        size = p.array.size
        options = [(size,), (*p.array.shape, 1), (1, *p.array.shape)]
        options += [(d, size // d) for d in range(2, size) if size % d == 0]
        shape = self.rng.choice(options)
        return p.array.reshape(shape), self.recorder.reshape(p.handle, shape)

    def do_diagonal(self, p: Pair) -> Any:
        if p.array.ndim < 2:
            return None
        a, b = self.shuffled(p.array.ndim)[:2]
        offset = self.rng.randint(-2, 2)
        attrs = {"offset": offset, "axis1": a - p.array.ndim, "axis2": b - p.array.ndim}
        view = np.diagonal(p.array, offset, a, b)
        if p.array.flags.writeable:
            view.flags.writeable = True
        return view, self.recorder.view("diagonal", p.handle, **attrs)

    def do_flip(self, p: Pair) -> Any:
        axes = tuple(a for a in range(p.array.ndim) if self.coin())
        negative = tuple(a - p.array.ndim for a in axes)
        key = (slice(None, None, -1 if a in axes else 1) for a in range(p.array.ndim))
        return p.array[(..., *key)], self.recorder.view("flip", p.handle, axes=negative)

    def do_view_dtype(self, p: Pair) -> Any:
        dtype: DType = self.rng.choice(DTYPES)
        try:
            view = p.array.view(dtype.numpy)
        except ValueError:
            return None
        if not p.array.ndim:
            return None
        return view, self.recorder.view("view_dtype", p.handle, dtype=dtype)

    def do_expand(self, p: Pair) -> Any:
        if self.coin():
            return p.array[np.newaxis], self.recorder.view("expand", p.handle, shape=(1, *p.array.shape))
        shape = (2, *p.array.shape)
        return np.broadcast_to(p.array, shape), self.recorder.view("expand", p.handle, shape=shape)

    # ---- values -----------------------------------------------------------------------------------------------

    def do_copy(self, p: Pair) -> Any:
        order = self.rng.choice("KCFA")
        return p.array.copy(order=order), self.recorder.copy(p.handle, order)

    def do_cast(self, p: Pair) -> Any:
        dtype: DType = self.rng.choice((dtypes.int64, dtypes.float64))
        if p.array.dtype.kind == "f" and dtype.is_integer:
            return None
        return p.array.astype(dtype.numpy), self.recorder.op("cast", p.handle, dtype=dtype)

    def do_unary(self, p: Pair) -> Any:
        with np.errstate(all="ignore"):
            return np.asarray(np.square(p.array)), self.recorder.op("square", p.handle)

    def do_binary(self, p: Pair) -> Any:
        q = self.rng.choice([q for q in self.pairs if q.array.dtype == p.array.dtype])
        try:
            np.broadcast_shapes(p.array.shape, q.array.shape)
        except ValueError:
            return None
        with np.errstate(all="ignore"):
            return np.asarray(np.add(p.array, q.array)), self.recorder.op("add", p.handle, q.handle)

    def do_sum(self, p: Pair) -> Any:
        if not p.array.ndim or p.array.dtype.kind == "f":
            return None
        axis = self.rng.randint(0, p.array.ndim - 1)
        result = np.asarray(p.array.sum(axis=axis, dtype=p.array.dtype))
        return result, self.recorder.op("sum", p.handle, axes=(axis - p.array.ndim,), keepdims=False)

    # ---- writes -----------------------------------------------------------------------------------------------

    def do_write(self, p: Pair) -> Any:
        """Overwrites a view with another array of its type, perhaps one that shares its memory, or with a number."""
        assert p.handle.writeable <= p.array.flags.writeable
        if not p.handle.writeable:
            return None
        same = [q for q in self.pairs if q.handle.type == p.handle.type]
        if self.coin():
            q = self.rng.choice(same)
            p.array[...] = q.array
            self.recorder.write(p.handle, q.handle)
        else:
            number = self.recorder.constant(np.full(p.array.shape, 77).astype(p.array.dtype))
            p.array[...] = 77
            self.recorder.write(p.handle, number)
        return None


STEPS = [
    "do_slice", "do_slice", "do_permute", "do_reshape", "do_diagonal", "do_flip", "do_view_dtype", "do_expand",
    "do_copy", "do_cast", "do_unary", "do_binary", "do_sum", "do_write", "do_write", "do_write",
]  # fmt: skip


@st.composite
def programs(draw: Any, max_steps: int = 40) -> Program:
    """A program after all of its steps. The steps come from a seed, since drawn one by one they would mostly be
    the simplest ones; the number of steps shrinks."""
    program = Program(random.Random(draw(st.integers(0, 2**32))))
    for _ in range(draw(st.integers(1, 3))):
        program.add_input()
    for _ in range(draw(st.integers(1, max_steps))):
        program.step()
    return program
