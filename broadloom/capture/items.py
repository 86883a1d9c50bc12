"""Items: iteration, unpacking, subscripts and their assignment.

What goes in: tracked values. What comes out: items as tracked values; writes into arrays go through the storage
model, writes into containers happen only to those that the program made.

What holds: an iterator hands out items in Python's order and only as they are asked for; iterating an array fixes the
length of its first axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from broadloom.capture import numbers
from broadloom.capture.attributes import class_function, has_own, refuse_class
from broadloom.capture.breaks import Code
from broadloom.capture.bridge import describe, frontend, inward
from broadloom.capture.containers import (
    check_mutable,
    check_write,
    constant_key,
    entries,
    is_constant,
    lookup,
    plain,
)
from broadloom.capture.context import Context
from broadloom.capture.inputs import realise
from broadloom.capture.values import (
    DictValue,
    InstanceValue,
    IteratorValue,
    ListValue,
    Marker,
    Number,
    SetValue,
    SliceValue,
    TupleValue,
    Value,
)
from broadloom.frontend.members import getitem, setitem
from broadloom.frontend.selection import Selection
from broadloom.frontend.selection import length as selection_length
from broadloom.graph.storage import ArrayHandle
from broadloom.symbolic import Expr, Size


def iterate(c: Context, v: Value) -> Iterator[Value]:
    """`iter(v)`."""
    v = realise(c, v)
    match v:
        case IteratorValue(iterator):
            return iterator
        case TupleValue(items) | ListValue(items):
            return iter(items)
        case DictValue():
            return iter(list(entries(c, v)))
        case SetValue(items):
            if v.source is not None and len(items) > 1:
                c.refuse(
                    Code.UNSUPPORTED_TYPE,
                    f"iteration over the set {v.source}",
                    "the order of a set is not part of its value, and no guard can hold it",
                    "iterate over sorted(...) or a tuple made outside",
                )
            return iter(items)
    if isinstance(v, str | bytes | range):
        return iter(v)
    if isinstance(v, ArrayHandle):
        return _rows(c, v)
    method = class_function(c, v, "__iter__")
    if method is not None:
        return iterate(c, c.call(method, v))
    if isinstance(v, InstanceValue) and (has_own(v, "__iter__") or has_own(v, "__getitem__")):
        refuse_class(c, v, "iteration")
    c.raises(f"iter({describe(v)})", f"TypeError: {describe(v)} object is not iterable")


def _rows(c: Context, x: ArrayHandle) -> Iterator[Value]:
    if x.ndim == 0:
        c.raises("iter(array)", "TypeError: iteration over a 0-d array")
    n = c.constant_int(x.shape[0])
    return (frontend(c, "iteration over an array", getitem, [x, i], {}) for i in range(n))


def unpack(c: Context, v: Value, n: int) -> list[Value]:
    """The `n` items of `a, b, ... = v`."""
    items = list(iterate(c, v))
    if len(items) != n:
        c.raises("unpacking", f"ValueError: {len(items)} values for {n} names")
    return items


def unpack_with_rest(c: Context, v: Value, before: int, after: int) -> list[Value]:
    """The items of `a, *rest, b = v`."""
    items = list(iterate(c, v))
    if len(items) < before + after:
        c.raises("unpacking", f"ValueError: {len(items)} values for {before + after} names")
    end = len(items) - after
    return [*items[:before], ListValue(items[before:end]), *items[end:]]


def subscript(c: Context, v: Value, key: Value) -> Value:
    """`v[key]`."""
    v, key = realise(c, v), realise(c, key)
    match v:
        case TupleValue(items) | ListValue(items):
            return _of_sequence(c, v, items, key)
        case DictValue():
            found = lookup(c, v, key)
            if found is Marker.UNBOUND:
                c.raises(f"dict[{key!r}]", "KeyError")
            return found
    if isinstance(v, ArrayHandle):
        return frontend(c, "array[...]", getitem, [v, key], {})
    if is_constant(v):
        index = python_index(c, key)
        try:
            return inward(v[index])
        except (LookupError, TypeError, ValueError) as error:
            c.raises(f"{describe(v)}[...]", f"{type(error).__name__}: {error}")
    method = class_function(c, v, "__getitem__")
    if method is not None:
        return c.call(method, v, key)
    if isinstance(v, InstanceValue) and has_own(v, "__getitem__"):
        refuse_class(c, v, "an item")
    c.raises(f"{describe(v)}[...]", "TypeError: not subscriptable")


def python_index(c: Context, key: Value) -> Any:
    """An index or slice into a Python sequence."""
    key = realise(c, key)
    if isinstance(key, SliceValue):
        return slice(*(plain(c, part) for part in (key.start, key.stop, key.step)))
    if isinstance(key, ArrayHandle):
        scalar = c.constant_scalar(key)
        if scalar is not None:
            return scalar
        c.refuse(
            Code.DATA_DEPENDENT,
            "an array element as the index into a Python sequence",
            "which item is meant depends on the data of an array",
            "stack the items into one array and index that",
        )
    return numbers.constant(c, key)


def _of_sequence(c: Context, v: TupleValue | ListValue, items: list[Value], key: Value) -> Value:
    index = python_index(c, key)
    try:
        found = items[index]
    except (IndexError, TypeError, ValueError) as error:
        c.raises(f"{describe(v)}[{index!r}]", f"{type(error).__name__}: {error}")
    if isinstance(index, slice):
        return TupleValue(found) if isinstance(v, TupleValue) else ListValue(found)
    return found


def store(c: Context, v: Value, key: Value, value: Value) -> None:
    """`v[key] = value`."""
    v = realise(c, v)
    match v:
        case ListValue(items):
            index = python_index(c, key)
            if _is_there(c, value, lambda: _of_sequence(c, v, items, index)):
                return
            check_mutable(c, v, "item assignment")
            try:
                items[index] = list(iterate(c, value)) if isinstance(index, slice) else value
            except (IndexError, TypeError, ValueError) as error:
                c.raises(f"list[{index!r}] = ...", f"{type(error).__name__}: {error}")
            return
        case DictValue():
            if _is_there(c, value, lambda: lookup(c, v, key)):
                return
            check_mutable(c, v, "item assignment")
            v.items[constant_key(c, key)] = value
            return
    if isinstance(v, ArrayHandle) and not v.numpy_scalar:
        check_write(c, v)
        if not _is_own_view(c, v, realise(c, key), realise(c, value)):
            frontend(c, "array[...] = ...", setitem, [v, key, value], {})
        return
    method = class_function(c, v, "__setitem__")
    if method is not None:
        c.call(method, v, key, value)
        return
    if isinstance(v, InstanceValue) and has_own(v, "__setitem__"):
        refuse_class(c, v, "item assignment")
    c.raises(f"{describe(v)}[...] = ...", "TypeError: object does not support item assignment")


def _is_there(c: Context, value: Value, current: Callable[[], Value]) -> bool:
    """Whether an assignment ends `owner[key] += ...` of an array, which has been written in place and is there."""
    stored = realise(c, value)
    return isinstance(stored, ArrayHandle) and not stored.numpy_scalar and realise(c, current()) is stored


def _is_own_view(c: Context, x: ArrayHandle, key: Value, value: Value) -> bool:
    """Whether `x[key] = value` ends `x[key] += ...`: the view was written in place, and storing it changes nothing."""
    if not isinstance(value, ArrayHandle) or isinstance(value, Selection):
        return False
    if value.storage is not x.storage or not _is_basic(key):
        return False
    view = frontend(c, "array[...]", getitem, [x, key], {})
    return isinstance(view, ArrayHandle) and view.storage is x.storage and view.views == value.views


def _is_basic(key: Value) -> bool:
    if isinstance(key, TupleValue):
        return all(map(_is_basic, key.items))
    if isinstance(key, ArrayHandle):
        return key.numpy_scalar and key.dtype.is_integer
    return key is None or isinstance(key, SliceValue | Expr | type(...)) or type(key) is int


def delete(c: Context, v: Value, key: Value) -> None:
    """`del v[key]`."""
    v = realise(c, v)
    if isinstance(v, ListValue | DictValue):
        check_mutable(c, v, "del")
        try:
            del v.items[python_index(c, key) if isinstance(v, ListValue) else constant_key(c, key)]
        except LookupError as error:
            c.raises(f"del {describe(v)}[...]", f"{type(error).__name__}: {error}")
        return
    c.raises(f"del {describe(v)}[...]", "TypeError: object does not support item deletion")


def length(c: Context, v: Value) -> Size | Number:
    """`len(v)`."""
    v = realise(c, v)
    if isinstance(v, Selection):
        return Number(selection_length(c.recorder, v))
    match v:
        case TupleValue(items) | ListValue(items) | SetValue(items):
            return len(items)
        case DictValue():
            return len(entries(c, v))
    if isinstance(v, ArrayHandle) and v.ndim and not v.numpy_scalar:
        return v.shape[0]
    if isinstance(v, str | bytes | range):
        return len(v)
    method = class_function(c, v, "__len__")
    if method is not None:
        result = c.call(method, v)
        if isinstance(result, int | Expr):
            return result
    if isinstance(v, InstanceValue) and has_own(v, "__len__"):
        refuse_class(c, v, "the length")
    c.raises(f"len({describe(v)})", f"TypeError: object of type {describe(v)} has no len()")


def symbolic_range(c: Context, *bounds: Value) -> Value:
    """`range(...)`: its bounds are constants of the program, since the loop is unrolled."""
    values = [plain(c, b) for b in bounds]
    try:
        return range(*values)
    except (TypeError, ValueError) as error:
        c.raises("range", f"{type(error).__name__}: {error}")
