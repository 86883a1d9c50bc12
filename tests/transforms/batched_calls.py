"""Calls of ops under batching: which operands are batched, along which axes, over which builder.

What goes in: a call of the op table. What comes out: a `Case` - for each level of batching and operand the axis that
counts the examples, or none - its operands, and the call of it over any recorder. What holds: the expected result of a
case is the op's reference on each example alone; nothing here knows how an example becomes a part of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle
from broadloom.ops.infer import complete, infer
from broadloom.ops.record import Op, Trait
from broadloom.ops.sampling import operands
from broadloom.symbolic import Size
from broadloom.transforms.level import Level
from tests.compiled import equality
from tests.compiled.modules import Call
from tests.ops.comparing import assert_same, reorders

Array = np.ndarray[Any, Any]
Axes = tuple[int | None, ...]
LOOPS = ((), ("p",), ("p", "q"))  # loop dims of one example; what stands for them is decided by the run
Dims = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """A call under one or more levels of batching, the outermost first.

    `loops` names the loop dims of each operand within one example; `axes[level][operand]` is the axis that counts the
    examples in the operand as that level gets it; `out[level]` says where it goes in the results, from 0 (first) to 1
    (last).
    """

    call: Call
    loops: tuple[Dims, ...]
    axes: tuple[Axes, ...]
    out: tuple[float, ...]

    def __str__(self) -> str:
        return f"{self.call} loops {self.loops} in_axes {self.axes} out {self.out}"

    @property
    def ranks(self) -> tuple[int, ...]:
        """Axes of each operand within one example."""
        cores = self.call.sample.core_shapes
        return tuple(len(loop) + len(core) for loop, core in zip(self.loops, cores, strict=True))

    def levels_of(self, operand: int) -> tuple[int, ...]:
        """The levels that batch an operand."""
        return tuple(level for level, axes in enumerate(self.axes) if axes[operand] is not None)

    def shape(self, operand: int, inside: Sequence[Size], batch: Sequence[Size]) -> tuple[Size, ...]:
        """The operand's shape, of `inside` within one example."""
        shape = list(inside)
        for level in reversed(self.levels_of(operand)):
            shape.insert(self.axes[level][operand], batch[level])  # type: ignore[arg-type]
        return tuple(shape)

    def placed(self, operand: int, array: Array) -> Array:
        """An array with its batch axes in front, moved to where the case has them."""
        levels = self.levels_of(operand)
        for k in reversed(range(len(levels))):
            array = np.moveaxis(array, k, k + self.axes[levels[k]][operand])  # type: ignore[operator]
        return array

    def fronted(self, operand: int, array: Array) -> Array:
        """The inverse of `placed`."""
        levels = self.levels_of(operand)
        for k in range(len(levels)):
            array = np.moveaxis(array, k + self.axes[levels[k]][operand], k)  # type: ignore[operator]
        return array


def subsets(count: int) -> Iterator[tuple[bool, ...]]:
    """Every choice of batched operands but none."""
    return (chosen for chosen in product((True, False), repeat=count) if any(chosen))


def make_case(call: Call, batched: Sequence[Sequence[bool]], rng: np.random.Generator, rank: int | None = None) -> Case:
    """A case whose axes and loop dims are drawn; `batched[level][operand]`. `rank`: of the loop dims of an example."""
    dims = LOOPS[int(rng.integers(3)) if rank is None else rank]
    loops = tuple(_some(dims, rng) for _ in call.sample.core_shapes)
    ranks = [len(loop) + len(core) for loop, core in zip(loops, call.sample.core_shapes, strict=True)]
    axes: list[Axes] = []
    for chosen in reversed(batched):
        axes.insert(0, tuple(int(rng.integers(r + 1)) if b else None for r, b in zip(ranks, chosen, strict=True)))
        ranks = [r + b for r, b in zip(ranks, chosen, strict=True)]
    return Case(call, loops, tuple(axes), tuple(float(rng.choice((0, 0, rng.random(), 1))) for _ in batched))


def _some(dims: tuple[str, ...], rng: np.random.Generator) -> Dims:
    """Loop dims of one operand: as many of the last ones as the draw says, some of them 1."""
    kept = dims[int(rng.integers(len(dims) + 1)) :]
    return tuple(1 if rng.random() < 0.3 else d for d in kept)


def arrays_of(
    case: Case,
    call: Call,
    sizes: Mapping[str, int],
    batch: Sequence[int],
    rng: np.random.Generator,
    *,
    at_once: bool = False,
) -> list[Array]:
    """Operands, their batch axes where the case has them; `call` is the case's at the core sizes of this run. Values
    `at_once` are such that NumPy gives the same whatever the shapes are."""
    op, sample = call.op, call.sample
    edges = bool(rng.random() < 0.5) and not (op.has(Trait.LINALG) or (at_once and reorders(op)))
    if edges and op.has(Trait.POINTWISE) and not at_once:
        sample = replace(sample, low=None, high=None)
    fronts = [
        (*(batch[level] for level in case.levels_of(k)), *(sizes.get(d, d) for d in loop))  # type: ignore[call-overload]
        for k, loop in enumerate(case.loops)
    ]
    made = list(operands(sample, call.dtypes, rng, fronts, edges=edges))
    if op.name == "pow" and call.dtypes[0].kind == "i":
        made[1] = np.asarray(np.abs(made[1]) & np.iinfo(made[1].dtype).max)
    return [case.placed(k, a) for k, a in enumerate(made)]


def call_batched(
    case: Case, recorder: Recorder, handles: Sequence[ArrayHandle], batch: Sequence[Size], attrs: Mapping[str, Any]
) -> list[ArrayHandle]:
    """The results over `recorder`, each with the batch axes where the case asks for them."""
    levels: list[Level] = []
    below, inside = recorder, list(handles)
    for axes, size in zip(case.axes, batch[: len(case.axes)], strict=True):
        level = Level(below, size)
        inside = [level.argument(h, axis, "an argument") for h, axis in zip(inside, axes, strict=True)]
        below = level.recorder
        levels.append(level)
    returned = below.op(case.call.op.name, *inside, **attrs)
    results = list(returned if isinstance(returned, tuple) else (returned,))
    for level, out in zip(reversed(levels), reversed(case.out), strict=True):
        results = [level.result(r, round(out * r.ndim), "a result") for r in results]
    return results


Compare = Callable[[Op, Mapping[str, Any], Sequence[Array], tuple[Array, ...]], None]


def by_reference(op: Op, attrs: Mapping[str, Any], operands: Sequence[Array], got: tuple[Array, ...]) -> None:
    """What NumPy gives for one example: the last digits depend on whether its loops are vectors or not."""
    with np.errstate(all="ignore"):
        returned = op.reference(*operands, **attrs)
    for a, b in zip(got, returned if isinstance(returned, tuple) else (returned,), strict=True):
        assert_same(op, a, b)


def check(
    case: Case,
    call: Call,
    given: Sequence[Array],
    batch: Sequence[int],
    got: Sequence[Array],
    compare: Compare = equality.check,
) -> None:
    """Raises `AssertionError` where a result is not the stack of what each example gives alone."""
    op, attrs = call.op, complete(call.op, call.sample.attrs)
    fronted = [case.fronted(k, a) for k, a in enumerate(given)]
    inside = [a.shape[len(case.levels_of(k)) :] for k, a in enumerate(fronted)]
    types = infer(op, list(zip(call.dtypes, inside, strict=True)), attrs)
    stacked = []
    for a, (dtype, shape) in zip(got, types, strict=True):
        whole = tuple(shape)
        for size, out in zip(reversed(batch), reversed(case.out), strict=True):
            at = round(out * len(whole))
            whole = (*whole[:at], size, *whole[at:])
        assert a.dtype == dtype.numpy and a.shape == whole, f"{a.dtype}{a.shape} instead of {dtype}{whole}"
        for level, out in enumerate(case.out):
            inside_rank = len(shape) + len(batch) - 1 - level  # of the result as this level gets it
            a = np.moveaxis(a, level + round(out * inside_rank), level)
        stacked.append(a)
    every = list(np.ndindex(*batch))
    for at in every[:8] + every[8 :: max(1, len(every) // 24)] + every[-4:]:
        example = [a[tuple(at[level] for level in case.levels_of(k))] for k, a in enumerate(fronted)]
        try:
            compare(op, attrs, [np.asarray(x) for x in example], tuple(np.asarray(a[at]) for a in stacked))
        except (AssertionError, pytest.fail.Exception) as error:
            raise AssertionError(f"example {at}: {error}") from error
