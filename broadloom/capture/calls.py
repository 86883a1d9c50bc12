"""Calls: Python functions are inlined, NumPy and builtins go through tables, everything else is refused.

What goes in: a tracked callable and tracked arguments. What comes out: the tracked result.

What holds: nothing is called for real but functions without effects on constants.
"""

from __future__ import annotations

import io
import types
from typing import Any

import numpy as np

from broadloom.capture.attributes import HEAP_TYPE, class_function, class_source, special_entry
from broadloom.capture.binding import BindingError, bind
from broadloom.capture.breaks import Code
from broadloom.capture.bridge import describe, frontend
from broadloom.capture.builtins import BUILTINS
from broadloom.capture.containers import is_constant
from broadloom.capture.context import MAX_DEPTH, Context
from broadloom.capture.guards import LengthGuard
from broadloom.capture.inputs import realise
from broadloom.capture.mapped import call_gufunc, call_mapped, make_gufunc, make_mapped
from broadloom.capture.methods import call_entry, call_method, unknown_call
from broadloom.capture.sources import Attribute
from broadloom.capture.values import (
    DictValue,
    FunctionValue,
    GufuncValue,
    InstanceValue,
    Lazy,
    MappedValue,
    Marker,
    MethodValue,
    NativeMethod,
    ObjectValue,
    PartialValue,
    TupleValue,
    Value,
)
from broadloom.frontend.special import name_of
from broadloom.frontend.table import REFUSED, entry_of, ufunc_method
from broadloom.frontend.unsupported import Unsupported
from broadloom.graph.storage import ArrayHandle
from broadloom.tensor import dispatch
from broadloom.transforms.gufunc import gufunc_of
from broadloom.transforms.vmap import mapped

RANDOM_MODULES = ("numpy.random", "random", "secrets", "uuid")
CLOCK_MODULES = ("time", "datetime")
EFFECT_MODULES = (
    *("io", "_io", "os", "posix", "sys", "subprocess", "logging", "socket", "shutil", "pathlib"),
    *("warnings", "_warnings", "builtins"),
)


def call(c: Context, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`function(*args, **kwargs)`."""
    function = realise(c, function)
    match function:
        case FunctionValue():
            return call_function(c, function, args, kwargs)
        case MethodValue(target, receiver):
            return call(c, target, [receiver, *args], kwargs)
        case PartialValue(target, first, named):
            return call(c, target, [*first, *args], {**named, **kwargs})
        case NativeMethod(receiver, name):
            return _native_method(c, receiver, name, args, kwargs)
        case ObjectValue(object=x):
            return _call_object(c, function, x, args, kwargs)
        case InstanceValue():
            return _call_instance(c, function, args, kwargs)
        case MappedValue():
            return call_mapped(c, function, args, kwargs)
        case GufuncValue():
            return call_gufunc(c, function, args, kwargs)
        case Marker.NO_EXIT:
            return None
    c.raises(f"{describe(function)}(...)", f"TypeError: {describe(function)} object is not callable")


# ---- Python functions -----------------------------------------------------------------------------------------------


def call_function(c: Context, f: FunctionValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Inline a Python function."""
    _check_module(c, f.namespace.mapping.get("__name__"), f.name)
    try:
        bound = bind(f.code, f.defaults, f.keyword_defaults, args, kwargs)
    except BindingError as error:
        c.raises(f"{f.name}(...)", f"TypeError: {f.name}() {error}")
    if f.source is not None and bound.from_default:
        if f.defaults:
            c.guard(LengthGuard(Attribute(f.source, "__defaults__"), len(f.defaults), tuple))
        if f.keyword_defaults:
            c.guard(LengthGuard(Attribute(f.source, "__kwdefaults__"), len(f.keyword_defaults), dict))
    local = dict(bound.named)
    if bound.rest is not None:
        local[bound.rest[0]] = TupleValue(bound.rest[1])
    if bound.keywords is not None:
        local[bound.keywords[0]] = DictValue(bound.keywords[1])
    if c.depth >= MAX_DEPTH:
        c.refuse(Code.TOO_LONG, f"{f.name}(...)", f"calls nest deeper than {MAX_DEPTH}", "replace recursion by a loop")
    back = c.location
    c.depth += 1
    result = c.run(c, f, local)
    c.depth -= 1
    c.return_to(back)
    return result


def _check_module(c: Context, module: object, name: str) -> None:
    """Refuse functions of modules whose purpose is an effect."""
    if not isinstance(module, str):
        return
    what = f"{module}.{name}"
    if _within(module, RANDOM_MODULES):
        _random(c, what)
    if _within(module, CLOCK_MODULES):
        _clock(c, what)
    if _within(module, EFFECT_MODULES):
        _effect(c, what)


def _within(module: str, prefixes: tuple[str, ...]) -> bool:
    return any(module == p or module.startswith(f"{p}.") for p in prefixes)


def _random(c: Context, what: str) -> Any:
    c.refuse(
        Code.RANDOM,
        f"{what}(...)",
        "random numbers would be drawn once, while the function is captured",
        "take keys and bl.random, or draw them before the call and pass them in",
    )


def _clock(c: Context, what: str) -> Any:
    c.refuse(
        Code.CLOCK,
        f"{what}(...)",
        "the time would be read once, while the function is captured",
        "read it before the call and pass it in",
    )


def _effect(c: Context, what: str) -> Any:
    c.refuse(
        Code.SIDE_EFFECT,
        f"{what}(...)",
        "compiled code has no effects but on arrays",
        "do it outside the compiled function",
    )


# ---- objects --------------------------------------------------------------------------------------------------------


def _call_object(c: Context, v: ObjectValue, x: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    try:
        builtin, entry = BUILTINS.get(x), entry_of(x)
    except TypeError:  # not hashable
        builtin = entry = None
    if builtin is not None:
        return call_entry(c, getattr(x, "__name__", str(x)), builtin, args, kwargs)
    if x is dispatch.call and args:
        return _through_the_door(c, args, kwargs)
    if x is mapped and args:
        return make_mapped(c, *args)
    if x is gufunc_of and len(args) >= 2:
        return make_gufunc(c, *args[:2])
    if entry is not None:
        return frontend(c, entry.name, entry, args, kwargs)
    if isinstance(x, types.MethodDescriptorType | types.WrapperDescriptorType) and args:
        return _descriptor(c, x, args, kwargs)
    if isinstance(x, type):
        return _instantiate(c, v, x, args, kwargs)
    _refuse_object(c, v, x)


def _through_the_door(c: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A function of this package: whatever it is given, its arrays are tensors."""
    with c.tensors():
        return call(c, args[0], args[1:], kwargs)


def _descriptor(c: Context, x: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`ndarray.sum(x)`, `list.append(v, 1)`, `object.__setattr__(self, name, value)`."""
    receiver = realise(c, args[0])
    expected = x.__objclass__
    if expected is np.ndarray and not (isinstance(receiver, ArrayHandle) and not receiver.numpy_scalar):
        c.raises(f"ndarray.{x.__name__}", "TypeError: the receiver is no ndarray")
    return call_method(c, receiver, x.__name__, args[1:], kwargs)


def _refuse_object(c: Context, v: ObjectValue, x: Any) -> Any:
    module, name = _origin(x)
    what = f"{module}.{name}" if module else name
    if _within(module, RANDOM_MODULES):
        _random(c, what)
    if _within(module, CLOCK_MODULES):
        _clock(c, what)
    special = name_of(x) if type(x) is np.ufunc else None  # of NumPy's class, wherever it comes from
    if special is not None or module == "numpy" or module.startswith("numpy."):
        c.refuse(
            Code.UNSUPPORTED_NUMPY,
            f"scipy.special.{special}(...)" if special else f"{what}(...)",
            f"this {'SciPy' if special else 'NumPy'} function is not captured",
            REFUSED.get(x, "call it outside the compiled function"),
        )
    if _within(module, EFFECT_MODULES):
        _effect(c, what)
    unknown_call(c, what)


def _origin(x: Any) -> tuple[str, str]:
    """The module and name of a C function or object, for messages and to tell randomness and clocks."""

    def read(name: str) -> Any:
        try:
            return object.__getattribute__(x, name)
        except AttributeError:
            return None

    owner, module, name = read("__self__"), read("__module__"), read("__name__")
    if isinstance(owner, types.ModuleType):
        module = module or owner.__name__
    elif isinstance(owner, type):
        module = owner.__module__
    elif owner is not None or not isinstance(module, str):
        module = type(x if owner is None else owner).__module__
    return str(module), name if isinstance(name, str) else type(x).__name__


def _native_method(c: Context, receiver: Value, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    receiver = realise(c, receiver)
    if isinstance(receiver, ObjectValue) and isinstance(receiver.object, np.ufunc):
        what = f"np.{receiver.object.__name__}.{name}"
        try:
            entry = ufunc_method(receiver.object, name)
        except Unsupported as error:
            c.refuse(Code.UNSUPPORTED_NUMPY, what, error.what, error.remedy or "call it outside")
        return frontend(c, what, entry, args, kwargs)
    if isinstance(receiver, InstanceValue) and receiver.made is None:
        if isinstance(receiver.object, io.IOBase):
            _effect(c, f"{receiver.type.__name__}.{name}")
        module = type(receiver.object).__module__
        what = f"{module}.{receiver.type.__name__}.{name}"
        if _within(module, RANDOM_MODULES):
            _random(c, what)
        if _within(module, CLOCK_MODULES):
            _clock(c, what)
        unknown_call(c, what)
    return call_method(c, receiver, name, args, kwargs)


# ---- instances ------------------------------------------------------------------------------------------------------


def _call_instance(c: Context, v: InstanceValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    method = class_function(c, v, "__call__")
    if method is not None:
        return call(c, method, [v, *args], kwargs)
    if v.object is not None:
        _check_module(c, *_origin(v.object))
    module = str(v.type.__module__)
    if module == "numpy" or module.startswith("numpy."):
        c.refuse(
            Code.UNSUPPORTED_NUMPY,
            f"{module}.{v.type.__name__} object",
            "this NumPy object is not captured",
            "call it outside the compiled function",
        )
    unknown_call(c, f"{v.type.__name__} object")


def _instantiate(c: Context, v: ObjectValue, x: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """An instance of a plain user class, of a named tuple, or an exception that is about to be raised."""
    if issubclass(x, BaseException):
        return InstanceValue(x, None, None, {}, v.source)
    _check_module(c, x.__module__, x.__name__)
    if issubclass(x, tuple) and hasattr(x, "_fields"):
        return _named_tuple(c, v, x, args, kwargs)
    made = InstanceValue(x, None, None, {}, v.source)
    plain_class = (
        v.source is not None
        and type(x).__call__ is type.__call__
        and not getattr(x, "__abstractmethods__", None)
        and isinstance(special_entry(c, made, "__getattribute__"), types.WrapperDescriptorType)
        and special_entry(c, made, "__new__") is object.__dict__["__new__"]
        and all(k.__module__ == "builtins" or k.__flags__ & HEAP_TYPE for k in x.__mro__)
        and not issubclass(x, dict | list | set | int | float | str | np.ndarray)
    )
    if not plain_class:
        if x.__module__ == "numpy" or str(x.__module__).startswith("numpy."):
            c.refuse(
                Code.UNSUPPORTED_NUMPY, f"{x.__name__}(...)", "this NumPy class is not captured", "make it outside"
            )
        unknown_call(c, x.__name__)
    init = special_entry(c, made, "__init__")
    source = class_source(made, "__init__")
    if isinstance(init, types.FunctionType) and source is not None:
        call(c, Lazy(source, init), [made, *args], kwargs)
    elif args or kwargs:
        c.raises(f"{x.__name__}(...)", f"TypeError: {x.__name__}() takes no arguments")
    return made


def _named_tuple(c: Context, v: ObjectValue, x: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
    fields: tuple[str, ...] = x._fields  # type: ignore[attr-defined]
    defaults: dict[str, Any] = getattr(x, "_field_defaults", {})
    given = dict(zip(fields, args, strict=False))
    if len(args) > len(fields) or given.keys() & kwargs.keys() or not kwargs.keys() <= set(fields):
        c.raises(f"{x.__name__}(...)", "TypeError: the arguments do not fit the fields")
    given |= kwargs
    missing = [f for f in fields if f not in given]
    if any(f not in defaults or not is_constant(defaults[f]) for f in missing):
        c.raises(f"{x.__name__}(...)", f"TypeError: missing fields {missing}")
    return TupleValue([given[f] if f in given else defaults[f] for f in fields], None, x)
