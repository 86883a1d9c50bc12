"""`vmap`: a function of one example becomes a function of many.

What goes in: a function, and for each array among its arguments the axis that counts the examples. What comes out: a
function that takes all examples at once and calls each op of the function once.

What holds: the result is what stacking the results of a loop over the examples gives; the batch axis of every array
stands in front while the function runs, wherever it was in the argument. Writes to batched arguments reach the
caller's arrays. In chunks, each example gives the same bits.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from broadloom.errors import OptionsError, TransformError
from broadloom.frontend.unsupported import Unsupported
from broadloom.records import dataclass
from broadloom.tensor.dispatch import Tensor, call
from broadloom.tensor.stack import running
from broadloom.transforms.batching import Randomness
from broadloom.transforms.interpreter import BatchInterpreter, bottom, unmasked
from broadloom.transforms.level import Level
from broadloom.transforms.pytree import Structure, broadcast_prefix, flatten, unflatten

NUMBERS = (int, float, complex, np.generic)


@dataclass(frozen=True, slots=True)
class Mapping:
    """How a function is mapped: what `vmap` was told."""

    in_axes: Any
    out_axes: Any
    axis_size: int | None
    randomness: Randomness
    chunk_size: int | None


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a call, flattened: leaves, the axis of each (None: the same for all), and their structure."""

    leaves: tuple[Any, ...]
    axes: tuple[int | None, ...]
    structure: Structure
    size: int


def arguments_of(mapping: Mapping, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    """The flattened arguments and the number of examples. Raises `TransformError` where they do not fit."""
    leaves, structure = flatten((args, kwargs))
    in_axes = mapping.in_axes
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    axes = broadcast_prefix(in_axes, structure.parts[0], "in_axes")
    axes += [0] * structure.parts[1].leaves  # arguments by name are mapped along their first axis
    checked = tuple(_axis_of(x, a) for x, a in zip(leaves, axes, strict=True))
    return Arguments(tuple(leaves), checked, structure, _size_of(mapping, leaves, checked))


def _axis_of(leaf: Any, axis: Any) -> int | None:
    """The axis of a leaf, counted from the front."""
    if axis is None:
        return None
    if isinstance(axis, bool) or not hasattr(axis, "__index__"):
        raise TransformError("in_axes", got=repr(axis), allowed="ints, None, and containers of these")
    shape = np.shape(leaf) if isinstance(leaf, NUMBERS) else getattr(leaf, "shape", None)
    if shape is None:
        raise TransformError(
            "an argument without axes is mapped",
            got=type(leaf).__name__,
            allowed="arrays and tensors",
            remedy="pass None for it in in_axes",
        )
    at = operator.index(axis)
    if not -len(shape) <= at < len(shape):
        remedy = "pass None for it in in_axes" if not shape else "correct in_axes"
        raise TransformError(f"in_axes {at} of an array of {len(shape)} axes", got=f"shape {shape}", remedy=remedy)
    return at % len(shape)


def _size_of(mapping: Mapping, leaves: Sequence[Any], axes: Sequence[int | None]) -> int:
    sizes = {leaf.shape[a] for leaf, a in zip(leaves, axes, strict=True) if a is not None}
    if mapping.axis_size is not None:
        sizes.add(mapping.axis_size)
    if len(sizes) == 1:
        return int(sizes.pop())
    if not sizes:
        raise TransformError(
            "vmap of no mapped argument", allowed="one axis that is not None", remedy="give axis_size, or an axis"
        )
    shapes = [f"shape {leaf.shape} along {a}" for leaf, a in zip(leaves, axes, strict=True) if a is not None]
    given = [] if mapping.axis_size is None else [f"axis_size {mapping.axis_size}"]
    raise TransformError(
        "the mapped axes differ in size", got="; ".join(shapes + given), remedy="map axes of one size, or give None"
    )


def by_dispatch(mapped: Vmapped, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call by the dispatch stack: the function runs in Python, on tensors that stand for one of many."""
    given = arguments_of(mapped.mapping, args, kwargs)
    return in_chunks(mapped.mapping, given, lambda part: _run(mapped.function, mapped.mapping, part))


def _run(function: Callable[..., Any], mapping: Mapping, given: Arguments) -> Any:
    below = bottom()
    level = BatchInterpreter(below, Level(below.recorder, given.size, mapping.randomness))
    inputs = [
        level.argument(x, a) if isinstance(x, (np.ndarray, Tensor)) or a is not None else x
        for x, a in zip(given.leaves, given.axes, strict=True)
    ]
    args, named = unflatten(inputs, given.structure)
    with unmasked():
        with running(level):
            returned = function(*args, **named)
        results, structure = _results(level, mapping, returned)
        level.finish()
    if not any(isinstance(x, Tensor) for x in given.leaves):
        results = [plain(r) for r in results]
    return unflatten(results, structure)


def _results(level: BatchInterpreter, mapping: Mapping, returned: Any) -> tuple[list[Any], Structure]:
    """What the function returned, as results below."""
    leaves, structure = flatten(returned)
    axes = broadcast_prefix(mapping.out_axes, structure, "out_axes")
    return [_result(level, x, a, f"result {k}") for k, (x, a) in enumerate(zip(leaves, axes, strict=True))], structure


def _result(level: BatchInterpreter, leaf: Any, axis: int | None, place: str) -> Tensor:
    if not isinstance(leaf, (*NUMBERS, np.ndarray, Tensor)):
        raise TransformError(
            "a mapped function returns what is no array",
            got=type(leaf).__name__,
            allowed="arrays, numbers, and tuples, lists and dicts of these",
            remedy="return arrays",
        )
    try:
        return level.result(leaf, axis, place)
    except Unsupported as error:
        raise TransformError(f"{place} of a mapped function: {error.what}", remedy=error.remedy) from error


def plain(x: Any) -> Any:
    """What arrays in give: arrays out, where nothing around the function is traced."""
    return x._array if type(x) is Tensor else x


def in_chunks(mapping: Mapping, given: Arguments, run: Callable[[Arguments], Any]) -> Any:
    """What `run` gives for all examples, which it gets so many at a time as the mapping says.

    What an example draws from a shared key depends on its number among all: such examples stay together.
    """
    chunk = mapping.chunk_size
    if chunk is None or chunk >= given.size or mapping.randomness == "different":
        return run(given)
    pieces = []
    for start in range(0, given.size, chunk):
        stop = min(given.size, start + chunk)
        parts: dict[tuple[int, int | None], Any] = {  # what is given twice stays one array
            (id(x), a): x[(*(slice(None),) * a, slice(start, stop))]
            for x, a in zip(given.leaves, given.axes, strict=True)
            if a is not None
        }
        leaves = tuple(parts.get((id(x), a), x) for x, a in zip(given.leaves, given.axes, strict=True))
        pieces.append(run(Arguments(leaves, given.axes, given.structure, stop - start)))
    flat = [flatten(p) for p in pieces]
    structure = flat[0][1]
    axes = broadcast_prefix(mapping.out_axes, structure, "out_axes")
    columns = zip(*(leaves for leaves, _ in flat), strict=True)
    joined = [c[0] if a is None else _joined(c, a) for c, a in zip(columns, axes, strict=True)]
    return unflatten(joined, structure)


def _joined(parts: Sequence[Any], axis: int) -> Any:
    return call(np.concatenate, parts, axis=axis) if isinstance(parts[0], Tensor) else np.concatenate(parts, axis=axis)


Evaluate = Callable[["Vmapped", tuple[Any, ...], dict[str, Any]], Any]


class Vmapped:
    """A mapped function; see `vmap`. `evaluate(mapped, args, kwargs)` is how a call of it runs."""

    def __init__(
        self,
        function: Callable[..., Any],
        mapping: Mapping,
        evaluate: Evaluate,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function, self.mapping, self.evaluate = function, mapping, evaluate
        self.captures: Any = None  # what `evaluate` knows of earlier calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.evaluate(self, args, kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<vmap of {getattr(self.function, '__qualname__', self.function)!s}>"


def mapping(
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_size: int | None = None,
    randomness: Randomness = "error",
    chunk_size: int | None = None,
) -> Mapping:
    """The checked arguments of `vmap`. Raises `OptionsError`."""
    if randomness not in ("error", "same", "different"):
        raise OptionsError("randomness of vmap", got=repr(randomness), allowed="'error', 'same', 'different'")
    for name, value, least in (("axis_size", axis_size, 0), ("chunk_size", chunk_size, 1)):
        if value is not None and (isinstance(value, bool) or not hasattr(value, "__index__") or value < least):
            raise OptionsError(f"{name} of vmap", got=repr(value), allowed=f"None, or an int of at least {least}")
    return Mapping(in_axes, out_axes, axis_size, randomness, chunk_size)


def mapped(
    fn: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_size: int | None = None,
    randomness: Randomness = "error",
    chunk_size: int | None = None,
    evaluate: Evaluate | None = None,
) -> Vmapped:
    """A mapped function whose calls run by `evaluate`, by the dispatch stack if it is not given."""
    return Vmapped(fn, mapping(in_axes, out_axes, axis_size, randomness, chunk_size), evaluate or by_dispatch)
