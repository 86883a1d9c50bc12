"""Python's operators on tracked values: arithmetic, comparison, truth, identity, containment.

What goes in: the operator's symbol and tracked values. What comes out: a tracked value.

What holds: arrays go to NumPy's ufuncs, in-place operators on arrays write into them; constants are computed by
Python itself; user classes' operator methods are inlined.
"""

from __future__ import annotations

import enum
import operator
from types import FunctionType
from typing import Any

import numpy as np

from broadloom import dtypes
from broadloom.capture import numbers
from broadloom.capture.attributes import class_function, has_own, refuse_class, special_entry
from broadloom.capture.breaks import Code
from broadloom.capture.bridge import describe, frontend, inward, is_array
from broadloom.capture.containers import CONSTANTS, check_mutable, check_write, entries, is_constant, lookup
from broadloom.capture.context import Context
from broadloom.capture.guards import NotSameObjectGuard, arithmetic
from broadloom.capture.inputs import realise
from broadloom.capture.items import iterate
from broadloom.capture.values import (
    DictValue,
    FunctionValue,
    InstanceValue,
    Lazy,
    ListValue,
    Marker,
    Number,
    ObjectValue,
    SetValue,
    SliceValue,
    TupleValue,
    Value,
)
from broadloom.frontend.table import FUNCTIONS
from broadloom.graph.storage import ArrayHandle, WeakScalar
from broadloom.symbolic import Expr, ne

OPERATORS: dict[str, Any] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "@": operator.matmul, "&": operator.and_, "|": operator.or_,
    "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift, "<": operator.lt, "<=": operator.le,
    "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
INPLACE: dict[str, Any] = {
    "+": operator.iadd, "-": operator.isub, "*": operator.imul, "/": operator.itruediv, "//": operator.ifloordiv,
    "%": operator.imod, "**": operator.ipow, "@": operator.imatmul, "&": operator.iand, "|": operator.ior,
    "^": operator.ixor, "<<": operator.ilshift, ">>": operator.irshift,
}  # fmt: skip
UNARY: dict[str, Any] = {"-": operator.neg, "+": operator.pos, "~": operator.invert}
METHODS = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul",
    "&": "and", "|": "or", "^": "xor", "<<": "lshift", ">>": "rshift",
}  # fmt: skip
COMPARISONS = {"<": "lt", "<=": "le", "==": "eq", "!=": "ne", ">": "gt", ">=": "ge"}
_SWAPPED = {"<": ">", "<=": ">=", "==": "==", "!=": "!=", ">": "<", ">=": "<="}


def binary(c: Context, op: str, a: Value, b: Value) -> Value:
    """`a op b`."""
    a, b = realise(c, a), realise(c, b)
    if isinstance(a, InstanceValue) or isinstance(b, InstanceValue):
        return _dunder(c, op, a, b)
    if _is_complex(a) and isinstance(b, ArrayHandle) and b.numpy_scalar and b.dtype is dtypes.float64:
        return numbers.binary(c, op, a, Number(WeakScalar(b, "f")))  # np.float64 is a float to Python's complex
    if isinstance(a, ArrayHandle) or isinstance(b, ArrayHandle):
        return _array(c, op, a, b)
    if isinstance(a, np.generic) or isinstance(b, np.generic):
        return _array(c, op, a, b) if not (is_constant(a) and is_constant(b)) else _python(c, op, a, b)
    if numbers.is_number(a) and numbers.is_number(b):
        runtime = numbers.is_runtime(a) or numbers.is_runtime(b)
        return numbers.binary(c, op, a, b) if runtime else _python(c, op, a, b)
    container = _containers(c, op, a, b)
    return container if container is not None else _python(c, op, _plain(c, a), _plain(c, b))


def _is_complex(v: Value) -> bool:
    return type(v) is complex or (isinstance(v, Number) and v.kind == "c")


def _array(c: Context, op: str, a: Value, b: Value, in_place: bool = False) -> Value:
    for v in (a, b):
        if isinstance(v, InstanceValue | FunctionValue | DictValue | SetValue) or v is None or isinstance(v, str):
            c.refuse(
                Code.UNSUPPORTED_NUMPY,
                f"{describe(a)} {op} {describe(b)}",
                "compiled arrays combine with arrays and numbers only",
                "convert the operand to an array or number first",
            )
    table = INPLACE if in_place else OPERATORS
    return frontend(c, f"{describe(a)} {op}{'=' if in_place else ''} {describe(b)}", FUNCTIONS[table[op]], [a, b], {})


def _python(c: Context, op: str, a: Any, b: Any) -> Value:
    try:
        with np.errstate(all="ignore"):
            return inward(numbers.python(c, op, a, b))
    except KeyError as error:
        c.raises(f"{op} on {describe(a)} and {describe(b)}", f"KeyError: {error}")


def _plain(c: Context, v: Value) -> Any:
    """Constants, and tuples of constants as the right side of `%` on strings."""
    if isinstance(v, TupleValue):
        return tuple(_plain(c, realise(c, i)) for i in v.items)
    if isinstance(v, Number | Expr):
        return numbers.constant(c, v)
    if isinstance(v, ObjectValue) and isinstance(v.object, np.dtype | type):
        return v.object
    if is_constant(v):
        return v
    c.refuse(
        Code.UNSUPPORTED_PYTHON,
        f"an operator on a {describe(v)}",
        "this operator is not followed for this operand",
        "use arrays, numbers, lists, tuples or strings",
    )


def _containers(c: Context, op: str, a: Value, b: Value) -> Value | None:
    if op == "*" and isinstance(b, TupleValue | ListValue):
        a, b = b, a
    if op == "*" and isinstance(a, TupleValue | ListValue) and isinstance(b, int | Expr):
        items = a.items * numbers.constant(c, b)
        return TupleValue(items) if isinstance(a, TupleValue) else ListValue(items)
    if op == "+" and isinstance(a, TupleValue) and isinstance(b, TupleValue):
        return TupleValue(a.items + b.items)
    if op == "+" and isinstance(a, ListValue) and isinstance(b, ListValue):
        return ListValue(a.items + b.items)
    if isinstance(a, SetValue) and isinstance(b, SetValue) and op in "|&-^":
        return SetValue(arithmetic(op, a.items, b.items))
    if op == "|" and isinstance(a, DictValue) and isinstance(b, DictValue):
        return DictValue({**entries(c, a), **entries(c, b)})
    return None


def _dunder(c: Context, op: str, a: Value, b: Value) -> Value:
    """The operator methods of user classes."""
    names = COMPARISONS if op in COMPARISONS else METHODS
    right = f"__{COMPARISONS[_SWAPPED[op]]}__" if op in COMPARISONS else f"__r{METHODS[op]}__"
    if is_array(a) and (not isinstance(b, InstanceValue) or special_entry(c, b, "__array_ufunc__") is not None):
        return _array(c, op, a, b)  # NumPy takes the operation, unless the class declines it
    for receiver, other, name in ((a, b, f"__{names[op]}__"), (b, a, right)):
        if isinstance(receiver, InstanceValue):
            method = class_function(c, receiver, name)
            inverted = method is None and name == "__ne__" and not has_own(receiver, name)
            if inverted:  # what `object.__ne__` does
                method = class_function(c, receiver, "__eq__")
            if method is not None:
                result = c.call(method, receiver, other)
                if not (isinstance(result, ObjectValue) and result.object is NotImplemented):
                    return not truth(c, result) if inverted else result
        elif not is_constant(receiver):
            break
    for receiver in (a, b):
        name = f"__{names[op]}__"
        if (
            isinstance(receiver, InstanceValue)
            and has_own(receiver, name)
            and class_function(c, receiver, name) is None
        ):
            refuse_class(c, receiver, op)
    if op in ("==", "!="):
        return is_same(c, a, b) is (op == "==")
    c.raises(f"{describe(a)} {op} {describe(b)}", "TypeError: unsupported operand types")


def inplace(c: Context, op: str, a: Value, b: Value) -> Value:
    """`a op= b`."""
    a, b = realise(c, a), realise(c, b)
    if isinstance(a, ArrayHandle) and not a.numpy_scalar:
        check_write(c, a)
        return _array(c, op, a, b, in_place=True)
    if isinstance(a, ListValue) and op == "+":
        check_mutable(c, a, "+=")
        a.items.extend(iterate(c, b))
        return a
    if isinstance(a, ListValue) and op == "*":
        check_mutable(c, a, "*=")
        a.items[:] = a.items * numbers.constant(c, b)
        return a
    if isinstance(a, DictValue) and op == "|" and isinstance(b, DictValue):
        check_mutable(c, a, "|=")
        a.items.update(entries(c, b))
        return a
    if isinstance(a, InstanceValue):
        method = class_function(c, a, f"__i{METHODS[op]}__")
        if method is not None:
            return c.call(method, a, b)
    return binary(c, op, a, b)


def unary(c: Context, op: str, a: Value) -> Value:
    """`-a`, `+a`, `~a`, `not a`."""
    if op == "not":
        return not truth(c, a)
    a = realise(c, a)
    if isinstance(a, ArrayHandle):
        return frontend(c, f"{op}{describe(a)}", FUNCTIONS[UNARY[op]], [a], {})
    if isinstance(a, InstanceValue):
        method = class_function(c, a, {"-": "__neg__", "+": "__pos__", "~": "__invert__"}[op])
        if method is not None:
            return c.call(method, a)
    if isinstance(a, Number | Expr):
        if op == "~":
            return -1 - numbers.constant(c, a)
        return numbers.unary(c, "-" if op == "-" else "+", a)
    if not is_constant(a):
        c.raises(f"{op}{describe(a)}", "TypeError: bad operand type")
    try:
        with np.errstate(all="ignore"):
            return UNARY[op](a)
    except TypeError as error:
        c.raises(f"{op}{describe(a)}", f"TypeError: {error}")


def compare(c: Context, op: str, a: Value, b: Value) -> Value:
    """`a op b` for a comparison."""
    a, b = realise(c, a), realise(c, b)
    if isinstance(a, InstanceValue) or isinstance(b, InstanceValue):
        return _dunder(c, op, a, b)
    if isinstance(a, ArrayHandle) or isinstance(b, ArrayHandle):
        return _array(c, op, a, b)
    if numbers.is_number(a) and numbers.is_number(b) and (numbers.is_runtime(a) or numbers.is_runtime(b)):
        return numbers.compare(c, op, a, b)  # type: ignore[arg-type]
    if isinstance(a, TupleValue | ListValue) and type(a) is type(b):
        return _sequences(c, op, a, b)
    scalars = all(isinstance(x, bool | int | float | complex | np.generic) for x in (a, b))  # may give a np.bool
    if op in ("==", "!=") and not scalars:
        return _equal(c, a, b) is (op == "==")
    if isinstance(a, SetValue) and isinstance(b, SetValue):
        return arithmetic(op, a.items, b.items)
    try:
        with np.errstate(all="ignore"):
            return arithmetic(op, _plain(c, a), _plain(c, b))
    except TypeError as error:
        c.raises(f"{describe(a)} {op} {describe(b)}", f"TypeError: {error}")


def _equal(c: Context, a: Value, b: Value) -> Any:
    if isinstance(a, DictValue) and isinstance(b, DictValue):
        x, y = entries(c, a), entries(c, b)
        return x.keys() == y.keys() and all(truth(c, compare(c, "==", x[k], y[k])) for k in x)
    if isinstance(a, SetValue) and isinstance(b, SetValue):
        return a.items == b.items
    if isinstance(a, SliceValue) and isinstance(b, SliceValue):
        parts = ((a.start, b.start), (a.stop, b.stop), (a.step, b.step))
        return all(truth(c, compare(c, "==", x, y)) for x, y in parts)
    x, y = (v.object if isinstance(v, ObjectValue) else v for v in (a, b))
    safe = (*CONSTANTS, np.dtype, type)
    if isinstance(x, safe) and isinstance(y, safe):
        try:
            return bool(x == y)
        except TypeError:  # a string that is no dtype
            return False
    return is_same(c, a, b)


def _sequences(c: Context, op: str, a: Any, b: Any) -> Value:
    """Sequences compare by their first differing items; `==` of lengths first."""
    if op in ("==", "!="):
        same = len(a.items) == len(b.items) and all(is_equal(c, x, y) for x, y in zip(a.items, b.items, strict=True))
        return same is (op == "==")
    for x, y in zip(a.items, b.items, strict=False):
        if not is_equal(c, x, y):
            return compare(c, op, x, y)
    return arithmetic(op, len(a.items), len(b.items))


def is_equal(c: Context, a: Value, b: Value) -> bool:
    """`a is b or a == b`, as containers compare."""
    a, b = realise(c, a), realise(c, b)
    if a is b:
        return True
    runtime = isinstance(a, Expr | Number) or isinstance(b, Expr | Number)
    return (not runtime and is_same(c, a, b)) or truth(c, compare(c, "==", a, b))


def _may_be_a_number(v: Value) -> bool:
    return numbers.is_number(v) and not isinstance(v, bool)


def is_same(c: Context, a: Value, b: Value) -> bool:
    """`a is b`."""
    if a is b or (isinstance(a, Lazy) and isinstance(b, Lazy) and a.source == b.source):
        return True
    a, b = realise(c, a), realise(c, b)
    if a is b:
        return True
    if isinstance(a, Expr | Number) or isinstance(b, Expr | Number):
        if not (_may_be_a_number(a) and _may_be_a_number(b)):
            return False
        c.refuse(Code.UNSUPPORTED_PYTHON, "is", "the identity of numbers is not defined", "use ==")
    if isinstance(a, ObjectValue) and isinstance(b, ObjectValue):
        return a.object is b.object
    sources = _source(c, a), _source(c, b)
    if sources[0] is not None and sources[1] is not None:
        same = _object(c, a) is _object(c, b)
        if not same:
            c.guard(NotSameObjectGuard(sources[0], sources[1]))
        return same
    if is_constant(a) and is_constant(b):
        return type(a) is type(b) and a == b and not isinstance(a, float)
    return False


def _source(c: Context, v: Value) -> Any:
    if isinstance(v, ArrayHandle):
        return next((a.source for a in c.arrays.values() if a.handle is v), None)
    return getattr(v, "source", None)


def _object(c: Context, v: Value) -> Any:
    if isinstance(v, ArrayHandle):
        return next(a.array for a in c.arrays.values() if a.handle is v)
    return v.object if hasattr(v, "object") else v


def contains(c: Context, item: Value, container: Value) -> bool:
    """`item in container`."""
    container, item = realise(c, container), realise(c, item)
    if isinstance(container, DictValue):
        return lookup(c, container, item) is not Marker.UNBOUND
    if isinstance(container, SetValue):
        return _plain(c, item) in container.items
    if isinstance(container, TupleValue | ListValue):
        return any(is_equal(c, x, item) for x in container.items)
    if isinstance(container, str | bytes | range):
        try:
            return _plain(c, item) in container
        except TypeError as error:
            c.raises("in", f"TypeError: {error}")
    if isinstance(container, InstanceValue):
        method = class_function(c, container, "__contains__")
        if method is not None:
            return bool(truth(c, c.call(method, container, item)))
        refuse_class(c, container, "in")
    c.refuse(
        Code.ARRAY_CONDITION if is_array(container) else Code.UNSUPPORTED_PYTHON,
        f"in {describe(container)}",
        "membership in this container is not followed",
        "use numpy.isin for arrays",
    )


def truth(c: Context, v: Value) -> bool:
    """`bool(v)` as Python control flow needs it."""
    v = realise(c, v)
    if isinstance(v, ArrayHandle):
        scalar = c.constant_scalar(v)
        if scalar is not None:
            return bool(scalar)
        c.refuse(
            Code.ARRAY_CONDITION,
            "the truth of an array",
            "Python control flow depends on the data of an array",
            "use numpy.where, or compute both branches",
        )
    if isinstance(v, Expr):
        return c.decide(ne(v, 0))
    if isinstance(v, Number):
        return numbers.compare(c, "!=", v, 0)
    if isinstance(v, TupleValue | ListValue | SetValue):
        return bool(v.items)
    if isinstance(v, DictValue):
        return bool(entries(c, v))
    if isinstance(v, InstanceValue):
        for name in ("__bool__", "__len__"):
            method = class_function(c, v, name)
            if method is not None:
                return truth(c, c.call(method, v))
            if has_own(v, name):
                refuse_class(c, v, "the truth")
        return True
    if isinstance(v, ObjectValue) and isinstance(v.object, enum.Enum):
        return _truth_of_member(c, v.object)
    return bool(v) if is_constant(v) else True


def _truth_of_member(c: Context, member: enum.Enum) -> bool:
    for owner in type(member).__mro__:
        if isinstance(owner.__dict__.get("__bool__"), FunctionType) and owner.__module__ != "enum":
            c.refuse(Code.UNSUPPORTED_PYTHON, str(member), "the enum decides by user code what is true", "use ==")
    return bool(member)
