"""The way to the frontend and back: tracked values become what its entries take, and its results tracked values.

What goes in: an entry of the frontend and tracked arguments. What comes out: tracked results. A refusal of the
frontend becomes a break, after one more attempt in which symbolic ints and runtime floats among the arguments
(an axis, a number of sections) are specialised.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np

from broadloom.capture import numbers
from broadloom.capture.breaks import Code
from broadloom.capture.context import MAX_CALLS, Context, Scalar
from broadloom.capture.inputs import as_array, as_tensor, realise
from broadloom.capture.values import (
    DictValue,
    InstanceValue,
    IteratorValue,
    ListValue,
    Number,
    ObjectValue,
    SetValue,
    SliceValue,
    TupleValue,
    Value,
)
from broadloom.dtypes import DType
from broadloom.errors import DTypeError, ShapeError, TransformError, VerifyError
from broadloom.frontend.selection import Selection
from broadloom.frontend.unsupported import DependsOnData, Unsupported
from broadloom.graph.storage import ArrayHandle, WeakScalar
from broadloom.symbolic import Expr

REFUSALS = (Unsupported, ShapeError, DTypeError, VerifyError)
MAKING_ARRAYS = frozenset({"np.array", "np.asarray", "np.asanyarray", "np.ascontiguousarray", "np.asfortranarray"})
OBJECTS = (
    type,
    types.UnionType,
    types.GenericAlias,
    types.ModuleType,
    np.dtype,
    DType,
    np.ufunc,
    types.BuiltinFunctionType,
    np.finfo,
    np.iinfo,
)


def is_array(v: Value) -> bool:
    """An array or NumPy scalar of the graph, or a NumPy scalar constant."""
    return isinstance(v, ArrayHandle | np.generic)


def outward(c: Context, v: Value) -> Any:
    """A tracked value as the frontend takes it."""
    v = realise(c, v)
    match v:
        case TupleValue(items):
            return tuple(outward(c, i) for i in items)
        case ListValue(items):
            return [outward(c, i) for i in items]
        case Number(weak):
            c.numbers[weak.handle] = v
            return weak
        case SliceValue(start, stop, step):
            return slice(outward(c, start), outward(c, stop), outward(c, step))
        case ObjectValue(object=x):
            return x
        case SetValue(items):
            return items
    if isinstance(v, DictValue):
        return {k: outward(c, i) for k, i in v.items.items()}
    if isinstance(v, ArrayHandle | Expr | np.generic | range | int | float | complex | str | bytes | None | type(...)):
        return v
    c.refuse(
        Code.UNSUPPORTED_TYPE,
        f"a {describe(v)} as an argument of NumPy",
        "compiled code gives NumPy arrays, numbers, dtypes and containers of these",
        "call this NumPy function outside the compiled function",
    )


def inward(v: Any) -> Value:
    """A result of the frontend as a tracked value."""
    if isinstance(v, tuple):
        return TupleValue([inward(i) for i in v], None, type(v))
    if isinstance(v, list):
        return ListValue([inward(i) for i in v])
    if isinstance(v, WeakScalar):
        return Number(v)
    if isinstance(v, slice):
        return SliceValue(v.start, v.stop, v.step)
    if isinstance(v, np.ndindex):
        return IteratorValue(TupleValue(list(index)) for index in v)
    return ObjectValue(v) if isinstance(v, OBJECTS) else v


def describe(v: Value) -> str:
    """The kind of a tracked value, for messages."""
    match v:
        case ObjectValue(object=x):
            return f"{type(x).__name__} {getattr(x, '__name__', '')}".strip()
        case ArrayHandle():
            return "NumPy scalar" if v.numpy_scalar else "Tensor" if v.tensor else "numpy.ndarray"
        case Number():
            return {"f": "float", "c": "complex", "i": "int"}[v.kind]
        case Expr():
            return "int"
    kind = getattr(v, "type", None)
    return kind.__name__ if isinstance(kind, type) else type(v).__name__.removesuffix("Value").lower()


def frontend(c: Context, name: str, entry: Callable[..., Any], args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Call an entry of the frontend."""
    c.calls += 1
    if c.calls > MAX_CALLS:
        c.refuse(
            Code.TOO_LONG,
            name,
            f"more than {MAX_CALLS} calls of NumPy were followed",
            "loops are unrolled: make the trip count smaller, or use array operations",
        )
    outs = [outward(c, a) for a in args]
    kwargs = {k: v for k, v in kwargs.items() if not _not_given(c, v)}
    named = {k: outward(c, a) for k, a in kwargs.items()}
    tensors = c.makes_tensors or _any_tensor(outs) or _any_tensor(list(named.values()))
    if tensors and not c.makes_tensors and name in MAKING_ARRAYS:
        outs, tensors = [_arrays(c, x) for x in outs], False
    try:
        result = entry(c.recorder, *outs, **named)
        if tensors:
            return inward(_tensors(c, result))
        if c.scalars and isinstance(result, ArrayHandle) and result.numpy_scalar:
            _follow_scalar(c, entry, outs, named, result)
        return inward(result)
    except TransformError as error:
        c.transform_raises(name, error)
    except (*REFUSALS, TypeError) as error:  # TypeError: a symbolic int stands where only an int can
        first = error
    fixed = [_constants(c, realise(c, a)) for a in args], {k: _constants(c, realise(c, a)) for k, a in kwargs.items()}
    if fixed != (outs, named):
        try:
            result = entry(c.recorder, *fixed[0], **fixed[1])
            return inward(_tensors(c, result) if tensors else result)
        except REFUSALS as error:
            first = error
    if isinstance(first, TypeError) and not isinstance(first, DTypeError):
        raise first
    c.refuse(
        Code.DATA_DEPENDENT if isinstance(first, DependsOnData) else Code.UNSUPPORTED_NUMPY,
        name,
        first.what if first.got is None else f"{first.what}; got {first.got}",
        first.remedy or "call it outside the compiled function",
    )


def _arrays(c: Context, x: Any) -> Any:
    """An argument with arrays in the place of tensors, as NumPy sees them where it makes an array of its own."""
    if isinstance(x, list | tuple):
        return type(x)(_arrays(c, e) for e in x) if type(x) in (list, tuple) else x
    return as_array(c, x) if isinstance(x, ArrayHandle) and x.tensor else x


def _any_tensor(x: Any) -> bool:
    """Whether there is a tensor among arguments, at any depth."""
    if isinstance(x, ArrayHandle):
        return x.tensor
    return isinstance(x, list | tuple) and any(map(_any_tensor, x))


def _tensors(c: Context, result: Any) -> Any:
    """A result with its arrays as tensors, of which those without axes stand for NumPy's scalars."""
    if isinstance(result, tuple):
        return tuple.__new__(type(result), (_tensors(c, r) for r in result))
    if isinstance(result, list):
        return [_tensors(c, r) for r in result]
    if isinstance(result, np.generic | np.ndarray) or result is None:
        return result if result is None else as_tensor(c.recorder.constant(np.asarray(result)))
    if not isinstance(result, ArrayHandle) or isinstance(result, Selection) or result.tensor:
        return result
    if not result.numpy_scalar:
        return as_tensor(result)
    made = as_tensor(c.recorder.copy(result))
    made.packed = result.packed
    return made


def _not_given(c: Context, v: Value) -> bool:
    """Whether a keyword has the value by which NumPy's own functions say that it was left out."""
    v = realise(c, v)
    return isinstance(v, InstanceValue) and v.object is np._NoValue


def _follow_scalar(c: Context, entry: Any, args: list[Any], kwargs: dict[str, Any], result: ArrayHandle) -> None:
    """Note what a NumPy scalar is that was computed from scalar arguments alone, in case its value is needed."""
    function = getattr(entry, "numpy", None)
    values = [*args, *kwargs.values()]
    handles = [v for v in values if isinstance(v, ArrayHandle)]
    if function is None or not handles or not all(h in c.scalars for h in handles):
        return
    if not all(isinstance(v, ArrayHandle | np.generic | int | float | complex | str | type | None) for v in values):
        return
    known = {k: c.scalars[v].value if isinstance(v, ArrayHandle) else v for k, v in kwargs.items()}
    try:
        with np.errstate(all="ignore"):
            value = function(*(c.scalars[v].value if isinstance(v, ArrayHandle) else v for v in args), **known)
    except (TypeError, ValueError, ArithmeticError):
        return  # a graph of it exists all the same
    if isinstance(value, np.generic) and value.dtype == result.dtype.numpy:
        roots = dict.fromkeys(root for h in handles for root in c.scalars[h].roots)
        c.scalars[result] = Scalar(value, tuple(roots))


def _constants(c: Context, v: Value) -> Any:
    """As `outward`, with symbolic ints and runtime floats specialised."""
    match v:
        case TupleValue(items):
            return tuple(_constants(c, realise(c, i)) for i in items)
        case ListValue(items):
            return [_constants(c, realise(c, i)) for i in items]
        case SliceValue(start, stop, step):
            return slice(*(_constants(c, realise(c, i)) for i in (start, stop, step)))
    if isinstance(v, Expr) or (isinstance(v, Number) and v.value is not None):
        return numbers.constant(c, v)
    if isinstance(v, ArrayHandle):
        scalar = c.constant_scalar(v)
        return v if scalar is None else scalar
    return outward(c, v)
