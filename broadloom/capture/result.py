"""From the tracked result of a function to a recipe.

What goes in: the tracked result. What comes out: the handles that the graph must deliver, and, once the recorder has
placed them, the recipe.

What holds: what existed before is handed back itself; containers that the program made are made anew; one tracked
object gives one recipe object, so that identities inside the result are kept.
"""

from __future__ import annotations

import types
from collections.abc import Sequence

import numpy as np

from broadloom.capture.breaks import Code
from broadloom.capture.bridge import describe
from broadloom.capture.containers import is_constant
from broadloom.capture.context import Context
from broadloom.capture.recipe import (
    ConstantResult,
    DictResult,
    FromInput,
    FromOutput,
    ListResult,
    PackedOf,
    Recipe,
    SetResult,
    SizeResult,
    SliceResult,
    TensorOf,
    TupleResult,
    ViewOf,
)
from broadloom.capture.sources import Attribute, Source
from broadloom.capture.values import (
    DictValue,
    FunctionValue,
    InstanceValue,
    Lazy,
    ListValue,
    Number,
    ObjectValue,
    SetValue,
    SliceValue,
    TupleValue,
    Value,
)
from broadloom.dtypes import DType
from broadloom.frontend import packed
from broadloom.frontend.selection import Selection
from broadloom.graph.recorder import Place
from broadloom.graph.storage import ArrayHandle
from broadloom.symbolic import Expr

Handles = dict[ArrayHandle, int]


def collect(c: Context, result: Value) -> list[ArrayHandle]:
    """The handles among a result, each once; refuses what no recipe can make."""
    found: dict[ArrayHandle, None] = {}
    _walk(c, result, found, set())
    return list(found)


def _walk(c: Context, v: Value, found: dict[ArrayHandle, None], inside: set[int]) -> None:
    if isinstance(v, Lazy) or (getattr(v, "source", None) is not None and not isinstance(v, ArrayHandle)):
        return
    if isinstance(v, Number):
        v = v.weak.handle
    if isinstance(v, Selection):
        hint = "return np.where(mask, x, 0), or index outside the compiled function"
        c.refuse(Code.RESULT, "x[mask]", "the size of a boolean selection depends on data", hint)
    if isinstance(v, ArrayHandle):
        if any(call.indices for call in v.views):
            what, hint = "a view at an index known only at run time", "return a copy of it"
            c.refuse(Code.RESULT, "x[i]", what, hint)
        if v.packed is not None:
            if v not in c.packed_inputs:
                found[_bytes_of(c, v)] = None
        elif not any(a.handle is v for a in c.arrays.values()) and v not in c.tensor_inputs:
            found[v] = None
        return
    if id(v) in inside:
        c.refuse(Code.RESULT, "a container that contains itself", "no recipe makes it", "return its parts")
    inside = inside | {id(v)}
    for part in _parts(c, v):
        _walk(c, part, found, inside)


def _bytes_of(c: Context, x: ArrayHandle) -> ArrayHandle:
    """The bytes of a result of packed integers."""
    if x not in c.packed_results:
        c.packed_results[x] = packed.pack(c.root, x)
    return c.packed_results[x]


def _parts(c: Context, v: Value) -> Sequence[Value]:
    match v:
        case TupleValue(items) | ListValue(items):
            return items
        case DictValue(items):
            return [*items.values()]
        case SliceValue(start, stop, step):
            return [start, stop, step]
        case SetValue():
            return []
        case ObjectValue(object=x) if isinstance(
            x, type | np.dtype | DType | np.ufunc | types.ModuleType | types.BuiltinFunctionType
        ):
            return []
    if is_constant(v) or isinstance(v, Expr):
        return []
    made = isinstance(v, InstanceValue | FunctionValue)
    c.refuse(
        Code.RESULT,
        f"a {describe(v)} in the result",
        "an object made inside the function cannot be made anew by the compiled one" if made else "it has no recipe",
        "return arrays, numbers, and tuples, lists or dicts of these",
    )


def recipe_of(c: Context, result: Value, handles: Sequence[ArrayHandle], places: Sequence[Place]) -> Recipe:
    """The recipe, with each handle at its place."""
    return _Maker(c, dict(zip(handles, places, strict=True))).make(result)


class _Maker:
    def __init__(self, c: Context, places: dict[ArrayHandle, Place]) -> None:
        self.c = c
        self.places = places
        self.made: dict[int, tuple[Value, Recipe]] = {}  # the value is kept so that its id stays its own
        self.bases: dict[int, Recipe] = {}

    def make(self, v: Value) -> Recipe:
        if is_constant(v):
            return ConstantResult(v)
        known = self.made.get(id(v))
        if known is None:
            known = self.made[id(v)] = (v, self._make(v))
        return known[1]

    def _make(self, v: Value) -> Recipe:
        source: Source | None = getattr(v, "source", None)
        if source is not None:
            return FromInput(source)
        match v:
            case ArrayHandle(packed=dtype) if dtype is not None:
                known = self.c.packed_inputs.get(v)
                if known is not None:
                    return FromInput(known.source)
                return PackedOf(self._array(self.c.packed_results[v]), dtype, v.shape)
            case ArrayHandle():
                tensors = self.c.tensor_inputs or self.c.packed_inputs
                return self._tensor(v) if v.tensor and tensors else self._array(v)
            case Number():
                return self._number(v)
            case TupleValue():
                return TupleResult(tuple(self.make(i) for i in v.items), v.type)
            case ListValue():
                return ListResult(tuple(self.make(i) for i in v.items))
            case DictValue():
                return DictResult(tuple((ConstantResult(k), self.make(i)) for k, i in v.items.items()))
            case SetValue():
                return SetResult(tuple(ConstantResult(i) for i in v.items), v.frozen)
            case SliceValue():
                return SliceResult(self.make(v.start), self.make(v.stop), self.make(v.step))
            case ObjectValue():
                return ConstantResult(v.object)
        return SizeResult(v)

    def _number(self, v: Number) -> Recipe:
        place = self.places[v.weak.handle]
        if isinstance(v.term, Source):
            return FromInput(v.term)
        if place.kind == "input":
            return FromInput(self.c.arguments[place.index])
        return FromOutput(place.index, "python")

    def _tensor(self, x: ArrayHandle) -> Recipe:
        """A tensor. Where no argument was one, results are arrays, as the arguments are."""
        known = self.c.tensor_inputs.get(x)
        if known is not None:
            return FromInput(known)
        place = self.places[x]
        if place.kind == "output":
            return TensorOf(self._array(x))
        array = self.c.arguments[place.index]
        owner = next((s for s in self.c.tensor_inputs.values() if Attribute(s, "_array") == array), None)
        return TensorOf(self._array(x), owner)

    def _array(self, x: ArrayHandle) -> Recipe:
        known = next((a for a in self.c.arrays.values() if a.handle is x), None)
        if known is not None:
            return FromInput(known.source)
        place = self.places[x]
        if place.kind == "input":
            base: Recipe = FromInput(self.c.arguments[place.index])
            if x.numpy_scalar and not place.views:
                return base
        elif not place.views:
            if x.numpy_scalar:
                return FromOutput(place.index, "scalar")
            first = place.index not in self.bases
            base = self._output(place.index)
            return base if first and not x.sealed else ViewOf(base, (), x.sealed)
        else:
            base = self._output(place.index)
        return ViewOf(base, tuple((v.op, v.attrs) for v in place.views), x.sealed)

    def _output(self, index: int) -> Recipe:
        """The array of an output, shared by all results that see it."""
        return self.bases.setdefault(index, FromOutput(index))
