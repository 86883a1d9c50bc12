"""Recipes: how the result of a call is put together from the graph's outputs and the call's own objects.

What goes in: the graph's output arrays (one per `Graph.outputs`), the call's `Frame`, the values of the symbols.
What comes out: the object that the plain function would have returned, in type, identity and shared memory.

What holds: the same `Recipe` object at two places of a result stands for one Python object; containers and
constants are fresh in each call; a view is replayed with NumPy on the real array, so its strides, flags and
subclass are NumPy's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from broadloom.capture.sources import Frame, Source
from broadloom.dtypes import DType
from broadloom.records import dataclass
from broadloom.symbolic import Size, Symbol, evaluate
from broadloom.tensor import dispatch
from broadloom.tensor.packed import Metadata, PackedTensor


@dataclass(frozen=True, slots=True)
class Recipe:
    """Base of all recipes."""


@dataclass(frozen=True, slots=True)
class FromOutput(Recipe):
    """Output number `index`: as an array, as a NumPy scalar, or as a Python number (float, complex, int, bool)."""

    index: int
    kind: Literal["array", "scalar", "python"] = "array"


@dataclass(frozen=True, slots=True)
class FromInput(Recipe):
    """The very object that the caller handed in or that the function reached."""

    source: Source


@dataclass(frozen=True, slots=True)
class ViewOf(Recipe):
    """A view: `views` (op name, attributes) applied in turn to the array that `base` makes. With no views it is a
    second array object on the same memory. It is as writeable as NumPy's views leave it, or not at all if `sealed`."""

    base: Recipe
    views: tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]
    sealed: bool = False


@dataclass(frozen=True, slots=True)
class TensorOf(Recipe):
    """A tensor of the array that `base` makes; it shares the version of the tensor at `owner`, whose memory it sees."""

    base: Recipe
    owner: Source | None = None


@dataclass(frozen=True, slots=True)
class PackedOf(Recipe):
    """A tensor of packed integers, in the bytes that `base` makes."""

    base: Recipe
    dtype: DType
    shape: tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Counted(Recipe):
    """What `base` makes, after the tensors at `written` have counted a write."""

    base: Recipe
    written: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class ConstantResult(Recipe):
    """An immutable Python object, or an array of which each call gets its own copy."""

    value: Any


@dataclass(frozen=True, slots=True)
class SizeResult(Recipe):
    """A Python int computed from the symbolic sizes."""

    size: Size


@dataclass(frozen=True, slots=True)
class TupleResult(Recipe):
    """A tuple; `type` is the class for a named tuple."""

    items: tuple[Recipe, ...]
    type: type = tuple


@dataclass(frozen=True, slots=True)
class ListResult(Recipe):
    """A new list."""

    items: tuple[Recipe, ...]


@dataclass(frozen=True, slots=True)
class DictResult(Recipe):
    """A new dict, in this order."""

    items: tuple[tuple[Recipe, Recipe], ...]


@dataclass(frozen=True, slots=True)
class SetResult(Recipe):
    """A new set (or frozenset)."""

    items: tuple[Recipe, ...]
    frozen: bool = False


@dataclass(frozen=True, slots=True)
class SliceResult(Recipe):
    """A slice of Python values."""

    start: Recipe
    stop: Recipe
    step: Recipe


def rebuild(
    recipe: Recipe,
    outputs: Sequence[np.ndarray[Any, Any]],
    frame: Frame,
    symbols: Mapping[Symbol, int],
) -> Any:
    """The result of one call.

    >>> from broadloom.capture.sources import Argument
    >>> recipe = TupleResult((FromOutput(0, "scalar"), FromInput(Argument("x"))))
    >>> rebuild(recipe, [np.array(2.5)], Frame({"x": "same"}, {}), {})
    (np.float64(2.5), 'same')
    """
    return _Rebuild(outputs, frame, symbols, {}).make(recipe)


@dataclass(slots=True)
class _Rebuild:
    outputs: Sequence[np.ndarray[Any, Any]]
    frame: Frame
    symbols: Mapping[Symbol, int]
    made: dict[int, Any]

    def make(self, recipe: Recipe) -> Any:
        if id(recipe) not in self.made:
            self.made[id(recipe)] = self._make(recipe)
        return self.made[id(recipe)]

    def _make(self, recipe: Recipe) -> Any:
        match recipe:
            case FromOutput(index, kind):
                output = self.outputs[index]
                return output if kind == "array" else output[()] if kind == "scalar" else output.item()
            case FromInput(source):
                return source.fetch(self.frame)
            case ViewOf(base, views, sealed):
                x = self.make(base)[...]  # a new array object, even if it shows all of the base
                for name, attrs in views:
                    x = apply_view(x, name, {k: self._concrete(v) for k, v in attrs})
                if sealed:
                    x.flags.writeable = False
                return x
            case TensorOf(base, owner):
                return dispatch.made(self.make(base), None if owner is None else owner.fetch(self.frame)._version)
            case PackedOf(base, dtype, shape):
                return PackedTensor.__tensor_unflatten__((self.make(base),), Metadata(dtype, self._concrete(shape)))
            case Counted(base, written):
                for source in written:
                    source.fetch(self.frame)._version.count += 1
                return self.make(base)
            case ConstantResult(value):
                return value.copy() if isinstance(value, np.ndarray) else value
            case SizeResult(size):
                return self._concrete(size)
            case TupleResult(items, cls):
                made = tuple(self.make(i) for i in items)
                return made if cls is tuple else tuple.__new__(cls, made)
            case ListResult(items):
                return [self.make(i) for i in items]
            case DictResult(items):
                return {self.make(k): self.make(v) for k, v in items}
            case SetResult(items, frozen):
                return frozenset(map(self.make, items)) if frozen else {self.make(i) for i in items}
            case SliceResult(start, stop, step):
                return slice(self.make(start), self.make(stop), self.make(step))
        raise TypeError(f"not a recipe: {recipe!r}")

    def _concrete(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(self._concrete(v) for v in value)
        if value is None or isinstance(value, int | str | DType):
            return value
        return evaluate(value, self.symbols)


def apply_view(x: np.ndarray[Any, Any], name: str, attrs: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    """One op of the view family on a real array, sharing memory with it.

    >>> x = np.arange(6).reshape(2, 3)
    >>> apply_view(x, "slice", {"starts": (1, 2), "sizes": (1, 3), "steps": (1, -1)})
    array([[5, 4, 3]])
    """
    match name:
        case "permute":
            lead = x.ndim - len(attrs["axes"])
            return x.transpose(*range(lead), *(a % x.ndim for a in attrs["axes"]))
        case "reshape":
            return x.reshape((*x.shape[: x.ndim - attrs["core"]], *attrs["shape"]))
        case "expand":
            added = len(attrs["shape"]) - x.ndim
            if attrs["shape"] == (*(1,) * added, *x.shape):  # np.newaxis: the view stays writeable
                fresh_axes: np.ndarray[Any, Any] = x[(*(None,) * added, ...)]
                return fresh_axes
            return np.broadcast_to(x, attrs["shape"], subok=True)
        case "slice":
            ranges = zip(attrs["starts"], attrs["sizes"], attrs["steps"], strict=True)
            key: tuple[Any, ...] = (..., *(_slice(*r) for r in ranges))
            view: np.ndarray[Any, Any] = x[key]
            return view
        case "diagonal":
            diagonal = x.diagonal(attrs["offset"], attrs["axis1"], attrs["axis2"])
            diagonal.flags.writeable = x.flags.writeable  # np.diagonal's own is read-only, that of np.einsum is not
            return diagonal
        case "view_dtype":
            return x.view(attrs["dtype"].numpy)
    raise TypeError(f"{name} is not a view op")


def _slice(start: int, size: int, step: int) -> slice:
    if size == 0:
        return slice(0, 0, 1)
    stop = start + size * step
    return slice(start, None if stop < 0 else stop, step)
