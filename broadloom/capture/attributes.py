"""Attributes: reading them without running user code, and refusing to set those of objects that existed before.

What goes in: a tracked value and a name. What comes out: the attribute as a tracked value, or `Marker.UNBOUND`.

What holds: lookup follows Python's rules (class before instance for data descriptors, then the instance, then the
class), with a guard for each entry that was found or found missing; a property is inlined as the function it is.
"""

from __future__ import annotations

import enum
import functools
import importlib
import inspect
import sys
import types
from typing import Any, NoReturn

import numpy as np

from broadloom.capture.breaks import Code
from broadloom.capture.bridge import describe, frontend, inward
from broadloom.capture.containers import is_constant
from broadloom.capture.context import Context
from broadloom.capture.guards import IdentityGuard, PresenceGuard
from broadloom.capture.inputs import compiled_function, is_a, realise
from broadloom.capture.sources import Attribute, ClassEntry, InstanceEntry, Module, Source, TypeEntry
from broadloom.capture.values import (
    DictValue,
    FunctionValue,
    InstanceValue,
    Lazy,
    ListValue,
    Marker,
    MethodValue,
    NativeMethod,
    Number,
    ObjectValue,
    PartialValue,
    SetValue,
    SliceValue,
    SuperValue,
    TupleValue,
    Value,
)
from broadloom.dtypes import DType
from broadloom.frontend.members import ATTRIBUTES
from broadloom.frontend.members import METHODS as ARRAY_METHODS
from broadloom.graph.storage import ArrayHandle
from broadloom.lazy import LazyModule
from broadloom.symbolic import Expr
from broadloom.tensor.dispatch import Tensor
from broadloom.tensor.packed import PackedTensor
from broadloom.transforms.gufunc import Gufunc
from broadloom.transforms.vmap import Vmapped

HEAP_TYPE = 1 << 9  # the flag of classes made by Python code
SAFE_OBJECTS = (np.dtype, DType, np.ufunc, np.finfo, np.iinfo, types.BuiltinFunctionType)  # attributes run no user code
NUMPY_ON_DEMAND = frozenset({"numpy.fft", "numpy.ma", "numpy.polynomial", "numpy.random"})  # imported at first use
MISSING = object()
TENSOR_METHODS = frozenset({"numpy", "to_device", "__array_namespace__"})


def get_attribute(c: Context, v: Value, name: str) -> Value:
    """`v.name`; a missing attribute is refused, since the plain function raises."""
    found = find_attribute(c, v, name)
    if found is Marker.UNBOUND:
        c.raises(f"{describe(realise(c, v))}.{name}", f"AttributeError: no attribute {name!r}")
    return found


def find_attribute(c: Context, v: Value, name: str) -> Value:
    """`v.name`, or `Marker.UNBOUND` if there is none."""
    v = realise(c, v)
    match v:
        case ArrayHandle():
            return _of_array(c, v, name)
        case InstanceValue():
            return _of_instance(c, v, name)
        case ObjectValue(object=x):
            return _of_object(c, v, x, name)
        case SuperValue():
            return _of_super(c, v, name)
        case FunctionValue():
            return _of_function(c, v, name)
        case SliceValue():
            return getattr(v, name) if name in ("start", "stop", "step") else Marker.UNBOUND
        case MethodValue():
            known = {"__func__": v.function, "__self__": v.receiver}
            return known[name] if name in known else find_attribute(c, v.function, name)
        case PartialValue():
            known = {"func": v.function, "args": TupleValue(v.args), "keywords": DictValue(v.kwargs)}
            return known.get(name, Marker.UNBOUND)
        case TupleValue() if name in getattr(v.type, "_fields", ()):
            return v.items[v.type._fields.index(name)]  # type: ignore[attr-defined]
    kind = python_type(v)
    if isinstance(v, Number | Expr) and name in ("real", "imag"):
        return _part(v, name)
    if kind is not None and hasattr(kind, name):
        return _of_builtin(c, v, kind, name)
    return Marker.UNBOUND


def _of_builtin(c: Context, v: Value, kind: type, name: str) -> Value:
    entry = inspect.getattr_static(kind, name)
    if is_a(entry, types.MethodDescriptorType | types.WrapperDescriptorType | types.ClassMethodDescriptorType):
        return NativeMethod(v, name)
    if is_constant(v):
        return inward(getattr(v, name))
    if is_a(entry, (types.FunctionType, property)):  # of a named tuple's class
        source = None if getattr(v, "source", None) is None else ClassEntry(v.source, name)
        if source is not None and is_a(entry, types.FunctionType):
            return MethodValue(realise(c, Lazy(source, entry)), v)
    if name == "__class__":
        return ObjectValue(kind)
    return NativeMethod(v, name)


def _part(v: Value, name: str) -> Value:
    if name == "real" and (isinstance(v, Expr) or v.kind != "c"):
        return v
    return 0 if isinstance(v, Expr) else 0.0 if v.kind == "f" else Marker.UNBOUND


def python_type(v: Value) -> type | None:
    """`type(v)` where it is known."""
    match v:
        case ArrayHandle():
            if v.packed is not None:
                return PackedTensor
            return v.dtype.numpy.type if v.numpy_scalar else Tensor if v.tensor else np.ndarray
        case TupleValue() | InstanceValue():
            return v.type
        case ListValue():
            return list
        case DictValue():
            return dict
        case SetValue():
            return frozenset if v.frozen else set
        case SliceValue():
            return slice
        case Number():
            return {"f": float, "c": complex, "i": int}[v.kind]
        case Expr():
            return int
        case ObjectValue(object=x):
            return type(x)
        case FunctionValue():
            return types.FunctionType
        case MethodValue():
            return types.MethodType
        case PartialValue():
            return functools.partial
    return type(v) if is_constant(v) else None


def _of_array(c: Context, x: ArrayHandle, name: str) -> Value:
    if name in ATTRIBUTES:
        return frontend(c, f"array.{name}", ATTRIBUTES[name], [x], {})
    if name == "__class__":
        return ObjectValue(python_type(x))
    if not hasattr(python_type(x), name):
        return Marker.UNBOUND
    if (
        name in ARRAY_METHODS
        or (x.tensor and name in TENSOR_METHODS)
        or callable(inspect.getattr_static(np.ndarray, name, None))
    ):
        return NativeMethod(x, name)
    c.refuse(
        Code.UNSUPPORTED_NUMPY,
        f"array.{name}",
        "this attribute of arrays is not captured",
        "read it outside the compiled function",
    )


# ---- instances of user classes --------------------------------------------------------------------------------------


def class_entry(v: InstanceValue, name: str) -> Any:
    """The raw entry of `name` in the class, `MISSING` if there is none."""
    for owner in v.type.__mro__:
        if name in owner.__dict__:
            return owner.__dict__[name]
    return MISSING


def class_source(v: InstanceValue, name: str) -> Source | None:
    """Where a class entry is found again."""
    if v.source is not None:
        return ClassEntry(v.source, name)
    return None if v.class_source is None else TypeEntry(v.class_source, name)


def special_entry(c: Context, v: InstanceValue, name: str) -> Any:
    """The raw entry of what Python looks up in the class alone; that it is missing, or is no Python function, is
    guarded."""
    entry, source = class_entry(v, name), class_source(v, name)
    if source is not None and entry is MISSING:
        c.guard(PresenceGuard(source, False))
    elif source is not None and not is_a(entry, types.FunctionType):
        c.guard(IdentityGuard(source, entry))
    return entry


def class_function(c: Context, v: Value, name: str) -> Value | None:
    """The Python function `name` in the class of an instance, not bound; None if there is none."""
    if not isinstance(v, InstanceValue):
        return None
    entry = special_entry(c, v, name)
    source = class_source(v, name)
    if not is_a(entry, types.FunctionType) or source is None:
        return None
    return realise(c, Lazy(source, entry))


def has_own(v: InstanceValue, name: str) -> bool:
    """Whether the class of an instance defines a special method otherwise than `object` does."""
    entry = class_entry(v, name)
    return entry is not MISSING and entry is not None and entry is not object.__dict__.get(name)


def refuse_class(c: Context, v: InstanceValue, what: str) -> NoReturn:
    """Refuse an operation that the class of an instance does in a way that is not Python code."""
    c.refuse(
        Code.UNSUPPORTED_TYPE,
        f"{what} of a {v.type.__name__}",
        "capture does not follow what objects of this type do here",
        "do it outside the compiled function and pass the result in",
    )


def _of_instance(c: Context, v: InstanceValue, name: str) -> Value:
    if isinstance(special_entry(c, v, "__getattribute__"), types.FunctionType):
        _refuse_attribute(c, v, name, "its class defines __getattribute__")
    entry = class_entry(v, name)
    source = class_source(v, name)
    if entry is not MISSING and _is_data_descriptor(entry):
        return _data_descriptor(c, v, name, entry, source)
    own = _own_entry(c, v, name)
    if own is not Marker.UNBOUND:
        return own
    if entry is MISSING:
        if v.type is LazyModule and v.object is not None:
            module = v.object.load()
            return _of_module(c, ObjectValue(module, Module(module.__name__)), module, name)
        if special_entry(c, v, "__getattr__") is not MISSING:
            _refuse_attribute(c, v, name, "its class defines __getattr__")
        if source is not None:
            c.guard(PresenceGuard(source, False))
        return Marker.UNBOUND
    return _class_attribute(c, v, name, entry, source)


def _own_entry(c: Context, v: InstanceValue, name: str) -> Value:
    """An entry of the instance itself."""
    if v.made is not None:
        return v.made.get(name, Marker.UNBOUND)
    try:
        own = object.__getattribute__(v.object, "__dict__")
    except AttributeError:
        return Marker.UNBOUND
    assert v.source is not None
    if name in own:
        return Lazy(Attribute(v.source, name), own[name])
    c.guard(PresenceGuard(InstanceEntry(v.source, name), False))
    return Marker.UNBOUND


def _is_data_descriptor(entry: Any) -> bool:
    return is_a(entry, property | types.MemberDescriptorType | types.GetSetDescriptorType) or (
        any("__set__" in k.__dict__ or "__delete__" in k.__dict__ for k in type(entry).__mro__)
    )


def _data_descriptor(c: Context, v: InstanceValue, name: str, entry: Any, source: Source | None) -> Value:
    if type(entry) is property and is_a(entry.fget, types.FunctionType) and source is not None:
        c.guard(IdentityGuard(source, entry))
        return c.call(Lazy(Attribute(source, "fget"), entry.fget), v)
    if is_a(entry, types.MemberDescriptorType):
        if v.made is not None:
            return v.made.get(name, Marker.UNBOUND)
        try:
            value = entry.__get__(v.object, v.type)
        except AttributeError:
            return Marker.UNBOUND
        assert v.source is not None
        return Lazy(Attribute(v.source, name), value)
    if name == "__class__":
        return ObjectValue(v.type, v.class_source)
    if name == "__dict__" and v.made is None:
        assert v.source is not None
        return Lazy(Attribute(v.source, name), object.__getattribute__(v.object, name))
    _refuse_attribute(c, v, name, f"it is a descriptor of type {type(entry).__name__}")


def _class_attribute(c: Context, v: InstanceValue, name: str, entry: Any, source: Source | None) -> Value:
    if source is None:
        _refuse_attribute(c, v, name, "its class cannot be guarded")
    if is_a(entry, types.FunctionType):
        return MethodValue(realise(c, Lazy(source, entry)), v)
    if compiled_function(entry) is not None or is_a(entry, Vmapped | Gufunc):
        return MethodValue(realise(c, Lazy(source, entry)), v)
    if is_a(entry, staticmethod):
        return Lazy(Attribute(source, "__func__"), entry.__func__)
    if is_a(entry, classmethod):
        function = realise(c, Lazy(Attribute(source, "__func__"), entry.__func__))
        own_class = v.class_source if v.source is None else Attribute(v.source, "__class__")
        return MethodValue(function, ObjectValue(v.type, own_class))
    if is_a(entry, types.MethodDescriptorType | types.WrapperDescriptorType) or (
        type(entry).__module__ == "builtins" and callable(entry) and not is_a(entry, type)
    ):
        return NativeMethod(v, name)
    if any("__get__" in k.__dict__ for k in type(entry).__mro__) and not is_plain_object(entry):
        if not v.type.__flags__ & HEAP_TYPE:  # a method of a class written in C
            return NativeMethod(v, name)
        _refuse_attribute(c, v, name, f"it is a descriptor of type {type(entry).__name__}")
    return Lazy(source, entry)


def is_plain_object(x: Any) -> bool:
    """Objects whose `__get__` does not bind in a class body: C functions, types."""
    return isinstance(x, type | types.BuiltinFunctionType | np.ufunc)


def _refuse_attribute(c: Context, v: InstanceValue, name: str, why: str) -> NoReturn:
    c.refuse(
        Code.UNSUPPORTED_PYTHON,
        f"{v.type.__name__}.{name}",
        f"this attribute cannot be read without running user code: {why}",
        "read it outside the compiled function and pass the value",
    )


# ---- modules, classes, C objects ------------------------------------------------------------------------------------


def _of_object(c: Context, v: ObjectValue, x: Any, name: str) -> Value:
    if isinstance(x, types.ModuleType):
        return _of_module(c, v, x, name)
    if isinstance(x, type):
        return _of_class(c, v, x, name)
    if isinstance(x, enum.Enum):
        if name in ("value", "name"):
            return inward(getattr(x, f"_{name}_"))
    elif isinstance(x, SAFE_OBJECTS) or type(x) is type(np.sum):
        if not hasattr(x, name):
            return Marker.UNBOUND
        value = getattr(x, name)
        return NativeMethod(v, name) if callable(value) and not isinstance(value, type) else inward(value)
    c.refuse(
        Code.UNSUPPORTED_TYPE,
        f"{describe(v)}.{name}",
        "capture does not look into objects of this type",
        "read the attribute outside the compiled function",
    )


def _of_module(c: Context, v: ObjectValue, x: types.ModuleType, name: str) -> Value:
    if name not in x.__dict__:
        below = f"{x.__name__}.{name}"
        if below in sys.modules or below in NUMPY_ON_DEMAND:
            return Lazy(Module(below), importlib.import_module(below))
        if "__getattr__" in x.__dict__:
            c.refuse(
                Code.UNSUPPORTED_PYTHON,
                f"{x.__name__}.{name}",
                "the module makes this attribute on demand",
                "import it before the call",
            )
        c.guard(PresenceGuard(Attribute(v.source or Module(x.__name__), name), False))
        return Marker.UNBOUND
    if v.source is None:
        return Lazy(Attribute(Module(x.__name__), name), x.__dict__[name])
    return Lazy(Attribute(v.source, name), x.__dict__[name])


def _of_class(c: Context, v: ObjectValue, x: type, name: str) -> Value:
    if isinstance(x, enum.EnumMeta) and name in x._member_map_:
        return ObjectValue(x._member_map_[name])
    if type(x).__getattribute__ is not type.__getattribute__:
        c.refuse(Code.UNSUPPORTED_PYTHON, f"{x.__name__}.{name}", "the metaclass has user code", "read it outside")
    for owner in x.__mro__:
        if name in owner.__dict__:
            return _class_member(c, v, x, name, owner.__dict__[name])
    if name in ("__name__", "__qualname__", "__module__", "__mro__"):
        return inward(type.__getattribute__(x, name)) if name != "__mro__" else Marker.UNBOUND
    return Marker.UNBOUND


def _class_member(c: Context, v: ObjectValue, x: type, name: str, entry: Any) -> Value:
    if name in ("__name__", "__qualname__", "__module__", "__doc__"):
        return inward(type.__getattribute__(x, name))
    immutable = not x.__flags__ & HEAP_TYPE
    if is_a(entry, types.MethodDescriptorType | types.WrapperDescriptorType | types.BuiltinFunctionType):
        return ObjectValue(entry)
    if is_a(entry, types.ClassMethodDescriptorType) or (
        is_a(entry, staticmethod) and not is_a(entry.__func__, types.FunctionType)
    ):
        return ObjectValue(type.__getattribute__(x, name))
    if v.source is None and not immutable:
        c.refuse(Code.UNSUPPORTED_PYTHON, f"{x.__name__}.{name}", "the class cannot be guarded", "name it by a global")
    source = None if v.source is None else Attribute(v.source, name)
    if source is None:
        return inward(type.__getattribute__(x, name))
    if compiled_function(entry) is not None:
        return Lazy(source, entry)
    if is_a(entry, staticmethod):
        return Lazy(source, entry.__func__)
    if is_a(entry, classmethod) and is_a(entry.__func__, types.FunctionType):
        function = realise(c, Lazy(Attribute(source, "__func__"), entry.__func__))
        return MethodValue(function, v)
    if any("__get__" in k.__dict__ for k in type(entry).__mro__) and not isinstance(
        entry, types.FunctionType | type | types.BuiltinFunctionType
    ):
        c.refuse(
            Code.UNSUPPORTED_PYTHON, f"{x.__name__}.{name}", "a descriptor on a class", "read it outside and pass it"
        )
    return Lazy(source, entry)


def _of_super(c: Context, v: SuperValue, name: str) -> Value:
    receiver = realise(c, v.receiver)
    if not isinstance(receiver, InstanceValue) or v.owner not in receiver.type.__mro__:
        c.refuse(Code.UNSUPPORTED_PYTHON, f"super().{name}", "super outside a method of an instance", "call the class")
    order = receiver.type.__mro__
    start = order.index(v.owner) + 1
    cls = receiver.class_source if receiver.source is None else Attribute(receiver.source, "__class__")
    for owner in order[start:]:
        if name in owner.__dict__:
            entry = owner.__dict__[name]
            source = None if cls is None else TypeEntry(cls, name, start)
            if _is_data_descriptor(entry):
                return _data_descriptor(c, receiver, name, entry, source)
            return _class_attribute(c, receiver, name, entry, source)
    return Marker.UNBOUND


def _of_function(c: Context, v: FunctionValue, name: str) -> Value:
    if name in ("__name__", "__qualname__", "__module__"):
        return v.name if name == "__name__" else v.code.co_qualname if name == "__qualname__" else Marker.UNBOUND
    if v.object is not None and v.source is not None and name in v.object.__dict__:
        return Lazy(Attribute(v.source, name), v.object.__dict__[name])
    c.refuse(
        Code.UNSUPPORTED_PYTHON, f"function.{name}", "this attribute of functions is not followed", "read it outside"
    )


# ---- setting --------------------------------------------------------------------------------------------------------


def _stays(c: Context, v: InstanceValue, name: str, value: Value) -> bool:
    """Whether an assignment ends `self.w += ...` of an array, which has been written in place and is there."""
    if not isinstance(value, ArrayHandle) or value.numpy_scalar:
        return False
    entry = class_entry(v, name)
    intercepted = isinstance(special_entry(c, v, "__setattr__"), types.FunctionType) or (
        entry is not MISSING and _is_data_descriptor(entry) and not is_a(entry, types.MemberDescriptorType)
    )
    return not intercepted and realise(c, find_attribute(c, v, name)) is value


def set_attribute(c: Context, v: Value, name: str, value: Value) -> None:
    """`v.name = value`, for instances that the program made."""
    v = realise(c, v)
    if isinstance(v, InstanceValue) and v.made is not None:
        entry = special_entry(c, v, name)
        plain_slot = is_a(entry, types.MemberDescriptorType)
        if special_entry(c, v, "__setattr__") is object.__setattr__ and (
            entry is MISSING or plain_slot or not _is_data_descriptor(entry)
        ):
            v.made[name] = value
            return
        c.refuse(
            Code.UNSUPPORTED_PYTHON, f"{v.type.__name__}.{name} = ...", "the class intercepts it", "use a plain class"
        )
    if isinstance(v, InstanceValue) and _stays(c, v, name, realise(c, value)):
        return
    if isinstance(v, ArrayHandle):
        c.refuse(
            Code.UNSUPPORTED_NUMPY,
            f"array.{name} = ...",
            "setting attributes of arrays is not captured",
            "use reshape, view or item assignment",
        )
    c.refuse(
        Code.EXTERNAL_MUTATION,
        f"{describe(v)}.{name} = ...",
        "the object existed before the call, and compiled code changes arrays only",
        "return the new value and set it outside the compiled function",
    )
