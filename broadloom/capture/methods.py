"""Methods of Python's built-in types on tracked values.

What goes in: the receiver, the method's name, arguments. What comes out: what the method returns.

What holds: lists, dicts and sets are changed only if the program made them; methods of strings and numbers are
called for real, on constants, as they have no effects.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, Literal

from broadloom import dtypes
from broadloom.capture import operators
from broadloom.capture.attributes import TENSOR_METHODS, python_type
from broadloom.capture.breaks import Code
from broadloom.capture.bridge import describe, frontend, inward
from broadloom.capture.containers import check_mutable, check_write, constant_key, entries, is_constant, lookup, plain
from broadloom.capture.context import Context
from broadloom.capture.inputs import as_array, realise
from broadloom.capture.items import delete, iterate, length, store, subscript
from broadloom.capture.sources import Module
from broadloom.capture.values import (
    DictValue,
    InstanceValue,
    IteratorValue,
    ListValue,
    Marker,
    Number,
    ObjectValue,
    SetValue,
    TupleValue,
    Value,
)
from broadloom.frontend.members import METHODS as ARRAY_METHODS
from broadloom.graph.storage import ArrayHandle, WeakScalar
from broadloom.symbolic import Expr

WRITING_METHODS = frozenset({"fill", "sort", "itemset", "put", "partition", "resize", "setfield"})
BINARY_DUNDERS = {f"__{name}__": op for op, name in operators.METHODS.items()}
REFLECTED_DUNDERS = {f"__r{name}__": op for op, name in operators.METHODS.items()}
INPLACE_DUNDERS = {f"__i{name}__": op for op, name in operators.METHODS.items()}
COMPARE_DUNDERS = {f"__{name}__": op for op, name in operators.COMPARISONS.items()}
UNARY_DUNDERS = {"__neg__": "-", "__pos__": "+", "__invert__": "~"}


def call_method(c: Context, receiver: Value, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`receiver.name(*args, **kwargs)` of a built-in type or array."""
    receiver = realise(c, receiver)
    if isinstance(receiver, ArrayHandle):
        return _array_method(c, receiver, name, args, kwargs)
    dunder = _dunder(c, receiver, name, args) if not kwargs else Marker.UNBOUND
    if dunder is not Marker.UNBOUND:
        return dunder
    kind = python_type(receiver)
    table = _TABLES.get(kind) if kind is not None else None
    if table is not None and name in table:
        return call_entry(c, f"{describe(receiver)}.{name}", table[name], [receiver, *args], kwargs)
    if isinstance(receiver, Number | Expr):
        receiver = plain(c, receiver)
    if is_constant(receiver):
        return _of_constant(c, receiver, name, args, kwargs)
    if isinstance(receiver, InstanceValue) and receiver.made is not None:
        if name == "__setattr__" and len(args) == 2:  # object.__setattr__ in the constructor of a frozen dataclass
            receiver.made[constant_key(c, args[0])] = args[1]
            return None
        if name == "__init__" and not args:  # object's own
            return None
    if isinstance(receiver, TupleValue) and name in ("_replace", "_asdict"):
        return _of_named_tuple(c, receiver, name, kwargs)
    unknown_call(c, f"{describe(receiver)}.{name}")


def call_entry(
    c: Context, name: str, entry: Callable[..., Value], args: list[Value], kwargs: dict[str, Value]
) -> Value:
    """Call what stands in a table for a function of Python; refused where it does not take the arguments."""
    try:
        return entry(c, *args, **kwargs)
    except TypeError as error:
        trace = error.__traceback__
        if trace is not None and trace.tb_next is not None:
            raise
        c.refuse(
            Code.UNSUPPORTED_PYTHON,
            f"{name}(...)",
            f"these arguments are not followed: {error}",
            "use the plain form of the call",
        )


def unknown_call(c: Context, what: str) -> Any:
    """Refuse a call that nobody knows."""
    c.refuse(
        Code.UNKNOWN_CALL,
        f"{what}(...)",
        "capture does not know what this call does, and does not run it to find out",
        "call it outside the compiled function and pass the result in",
    )


def _array_method(c: Context, x: ArrayHandle, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if name in WRITING_METHODS:
        check_write(c, x)
    entry = ARRAY_METHODS.get(name)
    if entry is not None:
        return frontend(c, f"array.{name}", entry, [x, *args], kwargs)
    found = _dunder(c, x, name, args) if not kwargs else Marker.UNBOUND
    if found is not Marker.UNBOUND:
        return found
    if x.tensor and name in TENSOR_METHODS:
        return _tensor_method(c, x, name, args)
    if name == "item" and not args and not kwargs and x.ndim == 0:
        return _item(c, x)
    if name in ("tolist", "tobytes", "tofile", "dump", "dumps"):
        c.refuse(
            Code.DATA_DEPENDENT,
            f"array.{name}",
            "Python objects made from the data of an array",
            "convert the result of the compiled function instead",
        )
    c.refuse(
        Code.UNSUPPORTED_NUMPY,
        f"array.{name}",
        "this method of arrays is not captured",
        "call it outside the compiled function",
    )


def _tensor_method(c: Context, x: ArrayHandle, name: str, args: list[Value]) -> Value:
    """What a tensor has beyond an ndarray."""
    if name == "numpy":
        return as_array(c, x)
    if name == "__array_namespace__":
        return ObjectValue(sys.modules["broadloom"], Module("broadloom"))
    if [plain(c, a) for a in args] != ["cpu"]:
        c.raises("x.to_device", "ValueError: the one device is 'cpu'")
    return x


def _item(c: Context, x: ArrayHandle) -> Value:
    """`x.item()` of one element, where a runtime Python number can hold it."""
    wide = {"f": dtypes.float64, "c": dtypes.complex128, "i": dtypes.int64, "u": dtypes.int64}.get(x.dtype.kind)
    if wide is None or x.dtype is dtypes.uint64:
        c.refuse(
            Code.DATA_DEPENDENT,
            "array.item",
            f"a Python object made from an element of dtype {x.dtype}",
            "keep the element as an array or NumPy scalar",
        )
    return python_number(c, x, wide, "f" if x.dtype.kind == "f" else "c" if x.dtype.kind == "c" else "i")


def python_number(c: Context, x: ArrayHandle, dtype: dtypes.DType, kind: Literal["i", "f", "c"]) -> Number:
    """The element of a 0-d array as a Python number: its value now, whatever is written into the array later."""
    handle = x if x.dtype is dtype else c.recorder.op("cast", x, dtype=dtype)
    return Number(WeakScalar(c.recorder.as_scalar(handle), kind))


def _dunder(c: Context, v: Value, name: str, args: list[Value]) -> Value:
    """Special methods called by name."""
    if name in BINARY_DUNDERS and len(args) == 1:
        return operators.binary(c, BINARY_DUNDERS[name], v, args[0])
    if name in REFLECTED_DUNDERS and len(args) == 1:
        return operators.binary(c, REFLECTED_DUNDERS[name], args[0], v)
    if name in INPLACE_DUNDERS and len(args) == 1:
        return operators.inplace(c, INPLACE_DUNDERS[name], v, args[0])
    if name in COMPARE_DUNDERS and len(args) == 1:
        return operators.compare(c, COMPARE_DUNDERS[name], v, args[0])
    if name in UNARY_DUNDERS and not args:
        return operators.unary(c, UNARY_DUNDERS[name], v)
    match name, args:
        case "__getitem__", [key]:
            return subscript(c, v, key)
        case "__setitem__", [key, value]:
            return store(c, v, key, value)
        case "__delitem__", [key]:
            return delete(c, v, key)
        case "__len__", []:
            return length(c, v)
        case "__contains__", [item]:
            return operators.contains(c, item, v)
        case "__iter__", []:
            return IteratorValue(iterate(c, v))
        case "__abs__", []:
            return c.call(ObjectValue(abs), v)
    return Marker.UNBOUND


def _of_constant(c: Context, receiver: Any, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A method of a str, bytes, number or range: no effects, so it is called."""
    if name == "join" and isinstance(receiver, str | bytes) and len(args) == 1:
        values: list[Any] = [[plain(c, i) for i in iterate(c, args[0])]]
    else:
        values = [plain(c, a) for a in args]
    method = getattr(receiver, name, None)
    if not callable(method):
        c.raises(f"{describe(receiver)}.{name}", "AttributeError")
    try:
        return inward(method(*values, **{k: plain(c, a) for k, a in kwargs.items()}))
    except (ValueError, TypeError, LookupError, ArithmeticError) as error:
        c.raises(f"{describe(receiver)}.{name}", f"{type(error).__name__}: {error}")


def _of_named_tuple(c: Context, v: TupleValue, name: str, kwargs: dict[str, Value]) -> Value:
    fields: tuple[str, ...] = v.type._fields  # type: ignore[attr-defined]
    if name == "_asdict":
        return DictValue(dict(zip(fields, v.items, strict=True)))
    if not kwargs.keys() <= set(fields):
        c.raises("_replace", "ValueError: unexpected field names")
    return TupleValue([kwargs.get(f, i) for f, i in zip(fields, v.items, strict=True)], None, v.type)


# ---- lists, tuples --------------------------------------------------------------------------------------------------


def _append(c: Context, v: ListValue, item: Value, /) -> None:
    check_mutable(c, v, "append")
    v.items.append(item)


def _extend(c: Context, v: ListValue, more: Value, /) -> None:
    check_mutable(c, v, "extend")
    v.items.extend(list(iterate(c, more)))


def _insert(c: Context, v: ListValue, at: Value, item: Value, /) -> None:
    check_mutable(c, v, "insert")
    v.items.insert(plain(c, at), item)


def _pop(c: Context, v: ListValue, at: Value = -1, /) -> Value:
    check_mutable(c, v, "pop")
    try:
        return v.items.pop(plain(c, at))
    except (IndexError, TypeError) as error:
        c.raises("list.pop", f"{type(error).__name__}: {error}")


def _clear(c: Context, v: ListValue | DictValue | SetValue, /) -> None:
    check_mutable(c, v, "clear")
    v.items.clear()


def _reverse(c: Context, v: ListValue, /) -> None:
    check_mutable(c, v, "reverse")
    v.items.reverse()


def _sort(c: Context, v: ListValue, /, *, key: Value = None, reverse: Value = False) -> None:
    check_mutable(c, v, "sort")
    v.items[:] = sorted_items(c, v.items, key, reverse)


def sorted_items(c: Context, items: list[Value], key: Value, reverse: Value) -> list[Value]:
    """Items in the order of their keys, which are compared as Python compares them: by `<` alone."""

    def compared(a: Value, b: Value) -> int:
        if operators.truth(c, operators.compare(c, "<", a, b)):
            return -1
        return 1 if operators.truth(c, operators.compare(c, "<", b, a)) else 0

    keys = [i if key is None else c.call(key, i) for i in items]
    ranks = list(map(functools.cmp_to_key(compared), keys))
    order = sorted(range(len(items)), key=ranks.__getitem__, reverse=operators.truth(c, reverse))
    return [items[i] for i in order]


def _remove(c: Context, v: ListValue, item: Value, /) -> None:
    check_mutable(c, v, "remove")
    del v.items[_index(c, v, item)]


def _index(c: Context, v: ListValue | TupleValue, item: Value, /) -> int:
    for i, x in enumerate(v.items):
        if operators.is_equal(c, x, item):
            return i
    c.raises("index", "ValueError: not in the sequence")


def _count(c: Context, v: ListValue | TupleValue, item: Value, /) -> int:
    return sum(operators.is_equal(c, x, item) for x in v.items)


def _copy_list(c: Context, v: ListValue, /) -> ListValue:
    return ListValue(list(v.items))


# ---- dicts ----------------------------------------------------------------------------------------------------------


def _get(c: Context, v: DictValue, key: Value, default: Value = None, /) -> Value:
    found = lookup(c, v, key)
    return default if found is Marker.UNBOUND else found


def _dict_pop(c: Context, v: DictValue, key: Value, default: Value = Marker.UNBOUND, /) -> Value:
    check_mutable(c, v, "pop")
    found = v.items.pop(constant_key(c, key), default)
    if found is Marker.UNBOUND:
        c.raises("dict.pop", "KeyError")
    return found


def _setdefault(c: Context, v: DictValue, key: Value, default: Value = None, /) -> Value:
    check_mutable(c, v, "setdefault")
    return v.items.setdefault(constant_key(c, key), default)


def _update(c: Context, v: DictValue, /, *others: Value, **more: Value) -> None:
    check_mutable(c, v, "update")
    for other in others:
        v.items.update(as_entries(c, other))
    v.items.update(more)


def as_entries(c: Context, v: Value) -> dict[Any, Value]:
    """The entries of a mapping, or of an iterable of pairs."""
    v = realise(c, v)
    if isinstance(v, DictValue):
        return dict(entries(c, v))
    pairs = [list(iterate(c, pair)) for pair in iterate(c, v)]
    if any(len(p) != 2 for p in pairs):
        c.raises("dict", "ValueError: an element is no pair")
    return {constant_key(c, k): x for k, x in pairs}


def _keys(c: Context, v: DictValue, /) -> Value:
    return TupleValue(list(entries(c, v)))


def _values(c: Context, v: DictValue, /) -> Value:
    return TupleValue(list(entries(c, v).values()))


def _items(c: Context, v: DictValue, /) -> Value:
    return TupleValue([TupleValue([k, x]) for k, x in entries(c, v).items()])


def _copy_dict(c: Context, v: DictValue, /) -> DictValue:
    return DictValue(dict(entries(c, v)))


# ---- sets -----------------------------------------------------------------------------------------------------------


def _add(c: Context, v: SetValue, item: Value, /) -> None:
    check_mutable(c, v, "add")
    v.items.add(constant_key(c, item))


def _discard(c: Context, v: SetValue, item: Value, /) -> None:
    check_mutable(c, v, "discard")
    v.items.discard(constant_key(c, item))


def _set_update(c: Context, v: SetValue, /, *others: Value) -> None:
    check_mutable(c, v, "update")
    for other in others:
        v.items.update(constant_key(c, i) for i in iterate(c, other))


def _set_operation(name: str) -> Callable[..., Any]:
    def run(c: Context, v: SetValue, /, *others: Value) -> Value:
        result = getattr(v.items, name)(*({constant_key(c, i) for i in iterate(c, o)} for o in others))
        return SetValue(set(result), v.frozen) if isinstance(result, set | frozenset) else result

    return run


_SEQUENCE = {"index": _index, "count": _count}
_TABLES: dict[type, dict[str, Callable[..., Any]]] = {
    list: {
        **_SEQUENCE, "append": _append, "extend": _extend, "insert": _insert, "pop": _pop, "clear": _clear,
        "reverse": _reverse, "sort": _sort, "remove": _remove, "copy": _copy_list,
    },
    tuple: _SEQUENCE,
    dict: {
        "get": _get, "pop": _dict_pop, "setdefault": _setdefault, "update": _update, "keys": _keys,
        "values": _values, "items": _items, "copy": _copy_dict, "clear": _clear,
    },
    set: {
        "add": _add, "discard": _discard, "update": _set_update, "clear": _clear,
        **{n: _set_operation(n) for n in (
            "union", "intersection", "difference", "symmetric_difference", "issubset", "issuperset", "isdisjoint",
            "copy",
        )},
    },
}  # fmt: skip
_TABLES[frozenset] = {k: f for k, f in _TABLES[set].items() if k not in ("add", "discard", "update", "clear")}
