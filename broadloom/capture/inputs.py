"""Looking at objects that existed before the call: each kind becomes a tracked value and a guard.

What goes in: a source and the object found there. What comes out: the tracked value; arrays and floats become graph
inputs, containers become lazy entries.

What holds: a source is looked at once and gives one value; an array reached by two sources is one input, guarded to
stay one; what an object's class could do in user code (properties, `__getattr__`, subclasses of containers) is never
triggered.
"""

from __future__ import annotations

import enum
import functools
import operator
import types
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from broadloom import dtypes
from broadloom.capture.breaks import Code
from broadloom.capture.context import LARGEST_INT, ArrayInput, Context, PackedInput, Scalar, Specialised
from broadloom.capture.guards import (
    ArrayGuard,
    CompareGuard,
    ConstantGuard,
    FloatGuard,
    IdentityGuard,
    IntGuard,
    KeysGuard,
    LengthGuard,
    SameObjectGuard,
    TypeGuard,
    axis_kinds,
    layout_of,
    memory_order,
    size_source,
)
from broadloom.capture.sources import Attribute, Item, Source
from broadloom.capture.values import (
    CellValue,
    DictValue,
    FunctionValue,
    GufuncValue,
    InstanceValue,
    Lazy,
    ListValue,
    MappedValue,
    MethodValue,
    Namespace,
    Number,
    ObjectValue,
    PartialValue,
    SetValue,
    SliceValue,
    TupleValue,
    Value,
)
from broadloom.errors import DTypeError
from broadloom.frontend import packed
from broadloom.frontend.table import REFUSED, entry_of
from broadloom.graph.ir import TensorType
from broadloom.graph.storage import ArrayHandle, WeakScalar
from broadloom.symbolic import Size, Symbol
from broadloom.tensor import dispatch
from broadloom.tensor.dispatch import Tensor, Traced
from broadloom.tensor.packed import PackedTensor
from broadloom.transforms.gufunc import Gufunc, gufunc_of
from broadloom.transforms.vmap import Vmapped, mapped

LOWEST = -(2**62)  # of strides
INTRINSICS = (dispatch.call, mapped, gufunc_of)  # functions of this package that are known, not followed
CONSTANTS = (type(None), bool, str, bytes, type(Ellipsis))
IDENTIFIED = (
    types.ModuleType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.GenericAlias,
    types.UnionType,
    np.ufunc,
    np.dtype,
    dtypes.DType,
    type(np.sum),  # NumPy's dispatched functions
    operator.itemgetter,
    operator.attrgetter,
)
# Floats found in these modules are constants of the program: math.pi, np.inf.
CONSTANT_MODULES = frozenset({"math", "cmath", "numpy", "scipy.constants", "sys"})


def realise(c: Context, value: Value) -> Value:
    """The value behind a `Lazy`; any other value as it is."""
    if isinstance(value, Lazy):
        if value.source not in c.realised:
            c.realised[value.source] = _look(c, value.source, value.object)
        value = c.realised[value.source]
    if isinstance(value, ArrayHandle):
        return c.here(value)
    if isinstance(value, Number) and value.weak.handle.storage.owner is not c.recorder:
        return replace(value, weak=WeakScalar(c.here(value.weak.handle), value.weak.kind))
    return value


def is_a(x: Any, kinds: Any) -> bool:
    """`isinstance` by the type alone: `isinstance` itself may read `__class__` of the object, which is user code."""
    return issubclass(type(x), kinds)


def _look(c: Context, source: Source, x: Any) -> Value:
    kind = type(x)
    look = _LOOKS.get(kind)
    if look is not None:
        return look(c, source, x)
    if kind in CONSTANTS:
        c.guard(ConstantGuard(source, x))
        return x
    if is_a(x, np.ndarray):
        c.refuse(
            Code.ARRAY_KIND,
            str(source),
            f"{kind.__name__} is a subclass of numpy.ndarray with behaviour of its own",
            "pass numpy.asarray(x)",
        )
    if is_a(x, np.generic):
        return _numpy_scalar(c, source, x)
    if is_a(x, (*IDENTIFIED, type, enum.Enum, np.finfo, np.iinfo)):
        c.guard(IdentityGuard(source, x))
        return ObjectValue(x, source)
    if is_a(x, tuple) and hasattr(kind, "_fields") and kind.__iter__ is tuple.__iter__:
        c.guard(LengthGuard(source, len(x), kind))
        return TupleValue([Lazy(Item(source, i), e) for i, e in enumerate(x)], source, kind)
    c.guard(TypeGuard(source, kind))
    inner = compiled_function(x)
    if inner is not None:
        return realise(c, Lazy(Attribute(source, "__wrapped__"), inner))
    return InstanceValue(kind, x, source)


def compiled_function(x: Any) -> types.FunctionType | None:
    """The function behind an object made by `broadloom.compile`, which is inlined; None for anything else."""
    if not any(str(k.__module__).startswith("broadloom.") and k.__name__ == "Compiled" for k in type(x).__mro__):
        return None
    inner = object.__getattribute__(x, "__dict__").get("__wrapped__")
    return inner if isinstance(inner, types.FunctionType) else None


def _int(c: Context, source: Source, x: int) -> Value:
    c.observed[source] = x
    if not c.policy.varies(source, x) or abs(x) > LARGEST_INT:
        c.guard(ConstantGuard(source, x))
        return x
    lo = 0 if x >= 0 else -LARGEST_INT
    c.guard(IntGuard(source, lo))
    c.guard(CompareGuard(source, "<=", LARGEST_INT, True))
    symbol = c.symbol(source, x, lo, LARGEST_INT)
    c.root.size_input(c.input_name(source), symbol)
    c.arguments.append(source)
    return symbol


def _number(c: Context, source: Source, x: float | complex) -> Value:
    if type(x) is float and isinstance(source, Attribute) and _names_constant_module(c, source):
        c.guard(ConstantGuard(source, x))
        return x
    complex_ = type(x) is complex
    c.guard(FloatGuard(source, complex_))
    handle = c.root.scalar_input(c.input_name(source), dtypes.complex128 if complex_ else dtypes.float64)
    c.arguments.append(source)
    return Number(WeakScalar(handle, "c" if complex_ else "f"), x, source)


def _names_constant_module(c: Context, source: Attribute) -> bool:
    owner = c.realised.get(source.of)
    return (
        isinstance(owner, ObjectValue)
        and isinstance(owner.object, types.ModuleType)
        and owner.object.__name__ in CONSTANT_MODULES
    )


def _numpy_scalar(c: Context, source: Source, x: np.generic) -> Value:
    try:
        dtype = dtypes.from_numpy(x.dtype)
    except DTypeError:
        c.refuse(Code.ARRAY_KIND, str(source), f"a NumPy scalar of dtype {x.dtype}", "pass a number of a plain dtype")
    c.guard(TypeGuard(source, type(x)))
    handle = c.root.scalar_input(c.input_name(source), dtype)
    handle.numpy_scalar = True
    c.scalars[handle] = Scalar(x, ((source, x),))
    c.arguments.append(source)
    return handle


def _array(c: Context, source: Source, x: np.ndarray[Any, Any]) -> Value:
    known = c.arrays.get(id(x))
    if known is not None:
        c.guard(SameObjectGuard(known.source, source))
        return known.handle
    try:
        dtype = dtypes.from_numpy(x.dtype)
    except DTypeError:
        c.refuse(
            Code.ARRAY_KIND,
            str(source),
            f"an array of dtype {x.dtype}",
            "pass an array of bool, int, float or complex dtype in native byte order",
        )
    if any(s % x.itemsize for s, n in zip(x.strides, x.shape, strict=True) if n > 1):
        c.refuse(Code.ARRAY_KIND, str(source), "strides that are no whole number of elements", "pass a copy")
    place = c.reserve_guard()
    shape, sizes = _sizes(c, source, x)
    handle = c.root.input(
        c.input_name(source),
        TensorType(dtype, shape),
        _strides(c, source, x),
        memory_order(x),
        aligned=bool(x.flags.aligned),
        writeable=bool(x.flags.writeable),
        fix=lambda: _fix(source, x.ndim),
    )
    c.arguments.append(source)
    c.arrays[id(x)] = ArrayInput(source, x, handle, sizes, place, c.location)
    return handle


def _sizes(c: Context, source: Source, x: np.ndarray[Any, Any]) -> tuple[tuple[Size, ...], tuple[int | None, ...]]:
    shape: list[Size] = []
    for axis, n in enumerate(x.shape):
        where = size_source(source, axis)
        c.observed[where] = n
        shape.append(c.symbol(where, n) if c.policy.varies(where, n) else n)
    return tuple(shape), tuple(n if isinstance(n, int) else None for n in shape)


def _strides(c: Context, source: Source, x: np.ndarray[Any, Any]) -> tuple[Size, ...] | None:
    """Element strides of a strided array, guarded where they have to be constants; None for a contiguous one, where the
    order says all."""
    if layout_of(x) != "strided":
        return None
    strides = Attribute(source, "strides")
    if strides in c.policy.constant:
        for axis, s in enumerate(x.strides):
            c.guard(ConstantGuard(Item(strides, axis), s))
        return tuple(s // x.itemsize for s in x.strides)
    name = f"stride_{len(c.arguments)}"
    fixed = {"unit": 1, "zero": 0}
    return tuple(
        fixed[kind] if kind in fixed else Symbol(f"{name}_{axis}", LOWEST) for axis, kind in enumerate(axis_kinds(x))
    )


def array_guard(a: ArrayInput, written: bool) -> ArrayGuard:
    """The guard of an array input."""
    x, layout = a.array, layout_of(a.array)
    return ArrayGuard(
        a.source,
        dtypes.from_numpy(x.dtype),
        a.sizes,
        layout,
        memory_order(x),
        axis_kinds(x) if layout == "strided" else (),
        bool(x.flags.aligned),
        written,
        location=a.location,
    )


def _fix(source: Source, ndim: int) -> NoReturn:
    """Begin again with the strides and sizes of an array as constants: something was decided by them."""
    raise Specialised(frozenset((Attribute(source, "strides"), *(size_source(source, a) for a in range(ndim)))))


def _sequence(c: Context, source: Source, x: Any) -> Value:
    c.guard(LengthGuard(source, len(x), type(x)))
    items = [Lazy(Item(source, i), e) for i, e in enumerate(x)]
    return TupleValue(items, source) if type(x) is tuple else ListValue(items, source)


def _dict(c: Context, source: Source, x: dict[Any, Any]) -> Value:
    if source in c.fresh_dicts:
        c.guard(KeysGuard(source, tuple(x)))
        return DictValue({k: Lazy(Item(source, k), v) for k, v in x.items()})
    c.guard(TypeGuard(source, dict))
    return DictValue({}, source, x, complete=False)


def _set(c: Context, source: Source, x: set[Any] | frozenset[Any]) -> Value:
    if not all(type(e) in (*CONSTANTS, int, float, complex) for e in x):
        c.guard(TypeGuard(source, type(x)))
        return InstanceValue(type(x), x, source)
    c.guard(ConstantGuard(source, frozenset(x) if type(x) is frozenset else set(x)))
    return SetValue(set(x), type(x) is frozenset, source)


def _tensor(c: Context, source: Source, x: Tensor) -> Value:
    c.guard(TypeGuard(source, Tensor))
    handle = as_tensor(_array(c, Attribute(source, "_array"), x._array))
    c.tensor_inputs[handle] = source
    return handle


def as_array(c: Context, x: ArrayHandle) -> ArrayHandle:
    """The array behind a tensor, which shares its memory; of packed integers one with memory of its own."""
    if x.packed is not None:
        return c.recorder.copy(x)
    return replace(x, numpy_scalar=False, tensor=False)


def _traced(c: Context, source: Source, x: Traced) -> Value:
    what = "a tensor that stands for one of many, in a mapped function that runs in Python"
    c.refuse(Code.ARRAY_KIND, str(source), what, "nothing: it is mapped all the same")


def as_tensor(x: ArrayHandle) -> ArrayHandle:
    """The tensor that shares the memory of an array."""
    return replace(x, numpy_scalar=False, tensor=True)


def _packed(c: Context, source: Source, x: PackedTensor) -> Value:
    """A tensor of packed integers, by the subclass protocol: its bytes come in, and are unpacked at once."""
    known = next((p for p in c.packed_inputs.values() if p.tensor is x), None)
    if known is not None:
        c.guard(SameObjectGuard(known.source, source))
        return known.handle
    c.guard(TypeGuard(source, PackedTensor))
    for name in ("dtype", "ndim", "is_whole"):
        c.guard(ConstantGuard(Attribute(source, name), getattr(x, name)))
    (data,), metadata = x.__tensor_flatten__()
    stored = _array(c, Attribute(source, "packed_bytes"), data)
    shape = tuple(_size(c, size_source(source, axis), n) for axis, n in enumerate(metadata.shape))
    handle = as_tensor(packed.unpack(c.root, stored, metadata.dtype, shape))
    c.packed_inputs[handle] = PackedInput(source, x, stored, handle, handle.storage.version)
    return handle


def _size(c: Context, source: Source, n: int) -> Size:
    """A size that no array of the graph has: symbolic where it varies, and then an input of its own."""
    c.observed[source] = n
    if not c.policy.varies(source, n):
        c.guard(ConstantGuard(source, n))
        return n
    c.guard(IntGuard(source, 0))
    symbol = c.symbol(source, n)
    c.root.size_input(c.input_name(source), symbol)
    c.arguments.append(source)
    return symbol


def _vmapped(c: Context, source: Source, x: Vmapped) -> Value:
    c.guard(TypeGuard(source, Vmapped))
    place = Attribute(source, "mapping")
    axes = x.mapping.in_axes, x.mapping.out_axes
    if all(type(a) in (int, type(None)) for a in axes):
        for name in ("in_axes", "out_axes", "axis_size", "randomness"):
            c.guard(ConstantGuard(Attribute(place, name), getattr(x.mapping, name)))
    else:
        c.guard(IdentityGuard(place, x.mapping))
    return MappedValue(Lazy(Attribute(source, "function"), x.function), x.mapping, source)


def _gufunc(c: Context, source: Source, x: Gufunc) -> Value:
    c.guard(TypeGuard(source, Gufunc))
    c.guard(IdentityGuard(Attribute(source, "record"), x.record))
    return GufuncValue(Lazy(Attribute(source, "function"), x.function), x.record, source)


def _slice(c: Context, source: Source, x: slice) -> Value:
    c.guard(TypeGuard(source, slice))
    start, stop, step = (Lazy(Attribute(source, name), getattr(x, name)) for name in ("start", "stop", "step"))
    return SliceValue(start, stop, step, source)


def _range(c: Context, source: Source, x: range) -> Value:
    c.guard(TypeGuard(source, range))
    for name in ("start", "stop", "step"):
        c.guard(ConstantGuard(Attribute(source, name), getattr(x, name)))
    return x


def _function(c: Context, source: Source, x: types.FunctionType) -> Value:
    if x in INTRINSICS or x in REFUSED or entry_of(x) is not None:  # np.eye and its kin are plain Python functions
        c.guard(IdentityGuard(source, x))
        return ObjectValue(x, source)
    c.guard(TypeGuard(source, types.FunctionType))
    c.guard(IdentityGuard(Attribute(source, "__code__"), x.__code__))
    return function_value(c, source, x)


def function_value(c: Context, source: Source, x: types.FunctionType) -> FunctionValue:
    """A function that existed before; its defaults and cells are looked at when they are used."""
    namespace = Namespace(x.__globals__, None if x.__globals__ is c.namespace else source)
    places = [
        Attribute(Item(Attribute(source, "__closure__"), i), "cell_contents") for i in range(len(x.__closure__ or ()))
    ]
    c.names.update(zip(places, x.__code__.co_freevars, strict=True))
    cells = [
        CellValue(_cell_content(place, cell), external=True)
        for place, cell in zip(places, x.__closure__ or (), strict=True)
    ]
    defaults = [Lazy(Item(Attribute(source, "__defaults__"), i), d) for i, d in enumerate(x.__defaults__ or ())]
    keywords = {k: Lazy(Item(Attribute(source, "__kwdefaults__"), k), d) for k, d in (x.__kwdefaults__ or {}).items()}
    return FunctionValue(x.__code__, namespace, x.__name__, list(defaults), dict(keywords), cells, source, x)


def _cell_content(source: Source, cell: types.CellType) -> Value:
    try:
        return Lazy(source, cell.cell_contents)
    except ValueError:
        return CellValue().content


def _method(c: Context, source: Source, x: types.MethodType) -> Value:
    c.guard(TypeGuard(source, types.MethodType))
    function = Lazy(Attribute(source, "__func__"), x.__func__)
    return MethodValue(function, Lazy(Attribute(source, "__self__"), x.__self__), source)


def _partial(c: Context, source: Source, x: functools.partial[Any]) -> Value:
    c.guard(TypeGuard(source, functools.partial))
    function = Lazy(Attribute(source, "func"), x.func)
    args = realise(c, Lazy(Attribute(source, "args"), x.args))
    keywords = Attribute(source, "keywords")
    c.guard(LengthGuard(keywords, len(x.keywords), dict))
    return PartialValue(function, args.items, {k: Lazy(Item(keywords, k), v) for k, v in x.keywords.items()}, source)


_LOOKS: dict[type, Callable[[Context, Source, Any], Value]] = {
    int: _int,
    float: _number,
    complex: _number,
    np.ndarray: _array,
    np.memmap: _array,
    tuple: _sequence,
    list: _sequence,
    dict: _dict,
    slice: _slice,
    range: _range,
    set: _set,
    frozenset: _set,
    types.FunctionType: _function,
    types.MethodType: _method,
    functools.partial: _partial,
    Tensor: _tensor,
    Traced: _traced,
    PackedTensor: _packed,
    Vmapped: _vmapped,
    Gufunc: _gufunc,
}
