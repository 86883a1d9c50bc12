"""Lists, dicts and arrays as things that are read by key and changed.

What goes in: tracked containers. What comes out: their entries, or a refusal to change what existed before the call.

What holds: a dict that existed before is guarded key by key as it is read, and as a whole when its keys matter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from broadloom.capture import numbers
from broadloom.capture.breaks import Code
from broadloom.capture.bridge import describe
from broadloom.capture.context import Context
from broadloom.capture.guards import KeysGuard, PresenceGuard
from broadloom.capture.inputs import realise
from broadloom.capture.sources import Item
from broadloom.capture.values import (
    DictValue,
    FunctionValue,
    Lazy,
    ListValue,
    Marker,
    Number,
    ObjectValue,
    SetValue,
    TupleValue,
    Value,
)
from broadloom.graph.storage import ArrayHandle
from broadloom.symbolic import Expr

CONSTANTS = (type(None), bool, int, float, complex, str, bytes, type(...), np.generic, range)


def is_constant(v: Value) -> bool:
    """A value that stands for itself."""
    return isinstance(v, CONSTANTS)


def check_mutable(c: Context, v: ListValue | DictValue | SetValue, what: str) -> None:
    """Refuse to change a container that existed before the call."""
    if v.source is not None:
        c.refuse(
            Code.EXTERNAL_MUTATION,
            f"{what} on {v.source}",
            f"the {describe(v)} existed before the call, and compiled code changes arrays only",
            "build a new container inside the function and return it",
        )


def check_write(c: Context, x: ArrayHandle) -> None:
    """Refuse to write into a read-only array: NumPy raises there."""
    if not x.writeable:
        c.refuse(
            Code.READ_ONLY,
            "a write into a read-only array",
            "NumPy raises ValueError: assignment destination is read-only",
            "pass a writeable array, or copy it first",
        )


def entries(c: Context, d: DictValue) -> dict[Any, Value]:
    """All entries of a dict; the keys of one that existed before are guarded."""
    if d.complete or d.external is None or d.source is None:
        return d.items
    for key in d.external:
        if not isinstance(key, CONSTANTS) or isinstance(key, np.generic | range):
            c.refuse(
                Code.UNSUPPORTED_TYPE,
                f"a dict with a key of type {type(key).__name__}",
                "only strings, numbers and None are followed as keys",
                "use string keys",
            )
    c.guard(KeysGuard(d.source, tuple(d.external)))
    d.items = {k: d.items.get(k, Lazy(Item(d.source, k), v)) for k, v in d.external.items()}
    d.complete = True
    return d.items


def lookup(c: Context, d: DictValue, key: Value) -> Value:
    """The entry for a key, `Marker.UNBOUND` if there is none."""
    k = constant_key(c, key)
    if k in d.items:
        return d.items[k]
    if d.complete or d.external is None or d.source is None:
        return Marker.UNBOUND
    where = Item(d.source, k)
    if k not in d.external:
        c.guard(PresenceGuard(where, False))
        return Marker.UNBOUND
    c.guard(PresenceGuard(where, True))
    d.items[k] = Lazy(where, d.external[k])
    return d.items[k]


def constant_key(c: Context, key: Value) -> Any:
    """A dict key or set member as a Python object."""
    key = realise(c, key)
    if isinstance(key, Number | Expr):
        return numbers.constant(c, key)
    if isinstance(key, TupleValue):
        return tuple(constant_key(c, k) for k in key.items)
    if isinstance(key, ObjectValue) and isinstance(key.object, type | np.dtype):
        return key.object
    if isinstance(key, ArrayHandle) and key in c.scalars:
        return c.constant_scalar(key)
    if isinstance(key, FunctionValue) and key.object is not None:
        return key.object
    if is_constant(key):
        return key
    c.refuse(
        Code.UNSUPPORTED_PYTHON,
        f"a {describe(key)} as a dict key or set member",
        "only constants are followed as keys",
        "use strings, numbers or tuples of these",
    )


def plain(c: Context, v: Value) -> Any:
    """A constant, or a tuple, list or dict of constants, as the Python object; anything else is refused."""
    v = realise(c, v)
    if isinstance(v, TupleValue):
        return tuple(plain(c, i) for i in v.items)
    if isinstance(v, ListValue):
        return [plain(c, i) for i in v.items]
    if isinstance(v, DictValue):
        return {k: plain(c, i) for k, i in entries(c, v).items()}
    if isinstance(v, Number | Expr):
        return numbers.constant(c, v)
    if isinstance(v, ObjectValue) and isinstance(v.object, np.dtype | type):
        return v.object
    if is_constant(v):
        return v
    if isinstance(v, ArrayHandle):
        scalar = c.constant_scalar(v)
        if scalar is not None:
            return scalar
        c.refuse(
            Code.DATA_DEPENDENT,
            f"the value of a {describe(v)}",
            "this step needs the data of an array while the function is captured",
            "do it outside the compiled function, on its result",
        )
    c.refuse(
        Code.UNSUPPORTED_PYTHON,
        f"a {describe(v)} here",
        "this step is followed for constants only",
        "use numbers, strings, or tuples and lists of these",
    )
