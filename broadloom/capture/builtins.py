"""Python's builtins and a few library functions on tracked values: one table, keyed by the function itself.

What goes in: tracked arguments. What comes out: tracked results.

What holds: an entry does what the builtin does, or refuses; nothing here prints, imports or calls unknown code.
"""

from __future__ import annotations

import cmath
import functools
import itertools
import math
import operator
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from broadloom import dtypes
from broadloom.capture import items, methods, numbers, operators
from broadloom.capture.attributes import class_function, find_attribute, get_attribute, python_type, set_attribute
from broadloom.capture.breaks import Code
from broadloom.capture.bridge import describe, frontend, inward
from broadloom.capture.containers import constant_key, plain
from broadloom.capture.context import Context
from broadloom.capture.inputs import realise
from broadloom.capture.items import iterate
from broadloom.capture.values import (
    ContextValue,
    DictValue,
    FunctionValue,
    InstanceValue,
    IteratorValue,
    ListValue,
    Marker,
    MethodValue,
    Number,
    ObjectValue,
    PartialValue,
    SetValue,
    SliceValue,
    TupleValue,
    Value,
)
from broadloom.frontend.table import FUNCTIONS
from broadloom.graph.storage import ArrayHandle
from broadloom.symbolic import Expr, gt, lt

Builtin = Callable[..., Value]  # (context, *arguments, **keywords)


def _len(c: Context, v: Value) -> Value:
    return items.length(c, v)


def _float(c: Context, v: Value = 0.0) -> Value:
    v = realise(c, v)
    if isinstance(v, ArrayHandle):
        x = _single(c, v, "float")
        if x.dtype.kind == "c":
            c.raises("float(array)", "TypeError: complex to float")
        return methods.python_number(c, x, dtypes.float64, "f")
    return numbers.to_float(c, v) if isinstance(v, Number | Expr) else _convert(c, float, v)


def _complex(c: Context, *parts: Value) -> Value:
    values = [realise(c, p) for p in parts]
    if len(values) == 1 and isinstance(values[0], ArrayHandle):
        x = _single(c, values[0], "complex")
        return methods.python_number(c, x, dtypes.complex128, "c")
    return _convert(c, complex, *values)


def _int(c: Context, v: Value = 0, *base: Value) -> Value:
    v = realise(c, v)
    if isinstance(v, Expr) or (isinstance(v, Number) and v.kind == "i"):
        return v
    if isinstance(v, ArrayHandle):
        x = _single(c, v, "int")
        if x in c.scalars:
            return _convert(c, int, x)
        if x.dtype.kind not in "bi" and x.dtype not in (dtypes.uint8, dtypes.uint16, dtypes.uint32):
            _data(c, "int(array)", "NumPy raises or gives a large int for some values")
        return methods.python_number(c, x, dtypes.int64, "i")
    return _convert(c, int, v, *base)


def _bool(c: Context, v: Value = False) -> Value:
    return operators.truth(c, v)


def _str(c: Context, v: Value = "") -> Value:
    return _convert(c, str, v)


def _convert(c: Context, kind: Callable[..., Any], *args: Value) -> Value:
    try:
        return inward(kind(*(plain(c, a) for a in args)))
    except (ValueError, TypeError, OverflowError) as error:
        c.raises(f"{kind.__name__}(...)", f"{type(error).__name__}: {error}")


def _single(c: Context, x: ArrayHandle, what: str) -> ArrayHandle:
    """The one element of a 0-d array (NumPy refuses others, or warns)."""
    if x.ndim:
        c.refuse(
            Code.DATA_DEPENDENT,
            f"{what}(array)",
            "a Python number from an array with axes",
            "index the element first, or use astype",
        )
    return x


def _data(c: Context, what: str, why: str) -> Any:
    c.refuse(
        Code.DATA_DEPENDENT, what, f"a Python number that depends on array data: {why}", "use astype, or keep the array"
    )


def _abs(c: Context, v: Value) -> Value:
    v = realise(c, v)
    if isinstance(v, ArrayHandle):
        return frontend(c, "abs(array)", FUNCTIONS[np.absolute], [v], {})
    if isinstance(v, Number | Expr):
        return numbers.unary(c, "abs", v)
    method = class_function(c, v, "__abs__")
    return c.call(method, v) if method is not None else _pure(abs)(c, v)


def _extremum(name: str) -> Builtin:
    comparison = {"max": ">", "min": "<"}[name]

    def run(c: Context, *args: Value, key: Value = None, default: Value = Marker.UNBOUND) -> Value:
        values = list(iterate(c, args[0])) if len(args) == 1 else list(args)
        if not values:
            if default is Marker.UNBOUND:
                c.raises(f"{name}()", "ValueError: the iterable is empty")
            return default
        key = None if realise(c, key) is None else key
        if key is None and len(values) > 1 and all(isinstance(realise(c, v), Expr | int) for v in values):
            return _size_extremum(c, name, [realise(c, v) for v in values])
        best, best_key = values[0], values[0] if key is None else c.call(key, values[0])
        for v in values[1:]:
            k = v if key is None else c.call(key, v)
            if operators.truth(c, operators.compare(c, comparison, k, best_key)):
                best, best_key = v, k
        return best

    return run


def _size_extremum(c: Context, name: str, sizes: list[Any]) -> Value:
    best = sizes[0]
    for s in sizes[1:]:
        if c.decide(gt(s, best) if name == "max" else lt(s, best)):
            best = s
    return best


def _sum(c: Context, values: Value, start: Value = 0) -> Value:
    total = start
    for v in iterate(c, values):
        total = operators.binary(c, "+", total, v)
    return total


def _quantifier(stop_at: bool) -> Builtin:
    def run(c: Context, values: Value) -> Value:
        return any(operators.truth(c, v) is stop_at for v in iterate(c, values)) is stop_at

    return run


def _zip(c: Context, *sequences: Value, strict: Value = False) -> Value:
    iterators = [iterate(c, s) for s in sequences]

    def rows() -> Iterator[Value]:
        while iterators:
            row = []
            for i, it in enumerate(iterators):
                item = next(it, Marker.UNBOUND)
                if item is Marker.UNBOUND:
                    if operators.truth(c, strict) and (
                        i or any(next(o, Marker.UNBOUND) is not Marker.UNBOUND for o in iterators[1:])
                    ):
                        c.raises("zip(strict=True)", "ValueError: the arguments have different lengths")
                    return
                row.append(item)
            yield TupleValue(row)

    return IteratorValue(rows())


def _enumerate(c: Context, values: Value, start: Value = 0) -> Value:
    first = plain(c, start)
    return IteratorValue(TupleValue([i, v]) for i, v in enumerate(iterate(c, values), first))


def _map(c: Context, function: Value, *sequences: Value) -> Value:
    rows = zip(*(iterate(c, s) for s in sequences), strict=False)
    return IteratorValue(c.call(function, *row) for row in rows)


def _filter(c: Context, function: Value, values: Value) -> Value:
    f = realise(c, function)
    return IteratorValue(v for v in iterate(c, values) if operators.truth(c, v if f is None else c.call(f, v)))


def _reversed(c: Context, values: Value) -> Value:
    v = realise(c, values)
    if isinstance(v, ArrayHandle):
        size = items.length(c, v)
        n = c.constant_int(v.shape[0] if isinstance(size, Number) else size)  # a boolean selection has no shape
        return IteratorValue(items.subscript(c, v, i) for i in reversed(range(n)))
    return IteratorValue(iter(list(iterate(c, v))[::-1]))


def _sorted(c: Context, values: Value, *, key: Value = None, reverse: Value = False) -> Value:
    return ListValue(methods.sorted_items(c, list(iterate(c, values)), realise(c, key), reverse))


def _iter(c: Context, v: Value) -> Value:
    return IteratorValue(iterate(c, v))


def _next(c: Context, v: Value, default: Value = Marker.UNBOUND) -> Value:
    found = next(iterate(c, v), default)
    if found is Marker.UNBOUND:
        c.raises("next()", "StopIteration")
    return found


def _tuple(c: Context, values: Value = ()) -> Value:
    v = realise(c, values)
    if isinstance(v, TupleValue) and v.type is tuple:
        return v
    return TupleValue([] if v == () else list(iterate(c, v)))


def _list(c: Context, values: Value = ()) -> Value:
    return ListValue([] if values == () else list(iterate(c, values)))


def _set(frozen: bool) -> Builtin:
    def run(c: Context, values: Value = ()) -> Value:
        made = [] if values == () else [constant_key(c, v) for v in iterate(c, values)]
        return SetValue(set(made), frozen)

    return run


def _dict(c: Context, /, *args: Value, **more: Value) -> Value:
    return DictValue({**(methods.as_entries(c, args[0]) if args else {}), **more})


def _slice(c: Context, *bounds: Value) -> Value:
    if len(bounds) == 1:
        return SliceValue(None, bounds[0], None)
    return SliceValue(*bounds, *(None,) * (3 - len(bounds)))


def _type(c: Context, v: Value, *more: Value) -> Value:
    v = realise(c, v)
    kind = python_type(v)
    if kind is None or more:
        c.refuse(Code.UNSUPPORTED_PYTHON, "type(...)", "this use of type is not followed", "use a plain class")
    if isinstance(v, InstanceValue):
        return get_attribute(c, v, "__class__")
    return ObjectValue(kind)


def _isinstance(c: Context, v: Value, classes: Value) -> Value:
    kind = python_type(realise(c, v))
    wanted = _classes(c, classes)
    if kind is None:
        c.refuse(
            Code.UNSUPPORTED_PYTHON, "isinstance", f"the type of a {describe(v)} is not followed", "use a plain type"
        )
    return issubclass(kind, wanted)


def _issubclass(c: Context, v: Value, classes: Value) -> Value:
    kind = plain(c, v)
    return isinstance(kind, type) and issubclass(kind, _classes(c, classes))


def _classes(c: Context, v: Value) -> tuple[type, ...]:
    v = realise(c, v)
    if isinstance(v, TupleValue):
        return tuple(k for i in v.items for k in _classes(c, i))
    if isinstance(v, ObjectValue) and isinstance(v.object, types.UnionType):
        return tuple(k for k in v.object.__args__ if isinstance(k, type))
    if isinstance(v, ObjectValue) and isinstance(v.object, type):
        plain_check = type(v.object).__instancecheck__ is type.__instancecheck__
        if plain_check or v.object.__module__ in ("collections.abc", "numbers", "typing", "os", "abc"):
            return (v.object,)
    if v is None:
        return (type(None),)
    c.refuse(
        Code.UNSUPPORTED_PYTHON, "isinstance", "the class decides by user code what its instances are", "use type()"
    )


def _getattr(c: Context, v: Value, name: Value, default: Value = Marker.UNBOUND) -> Value:
    found = find_attribute(c, v, plain(c, name))
    if found is not Marker.UNBOUND:
        return found
    return get_attribute(c, v, plain(c, name)) if default is Marker.UNBOUND else default


def _hasattr(c: Context, v: Value, name: Value) -> Value:
    return find_attribute(c, v, plain(c, name)) is not Marker.UNBOUND


def _setattr(c: Context, v: Value, name: Value, value: Value) -> None:
    set_attribute(c, v, plain(c, name), value)


def _callable(c: Context, v: Value) -> Value:
    v = realise(c, v)
    if isinstance(v, ObjectValue):
        return callable(v.object)
    return isinstance(v, FunctionValue | MethodValue | PartialValue) or class_function(c, v, "__call__") is not None


def _round(c: Context, v: Value, digits: Value = None) -> Value:
    v, digits = realise(c, v), realise(c, digits)
    if isinstance(v, ArrayHandle):
        if not v.numpy_scalar:
            c.raises("round(array)", "TypeError: type numpy.ndarray doesn't define __round__ method")
        if digits is None:
            _data(c, "round(scalar)", "Python rounds it to an int")
        return frontend(c, "round(scalar)", FUNCTIONS[np.round], [v, digits], {})
    if isinstance(v, Expr):
        return v
    return _convert(c, round, v, *([] if digits is None else [digits]))


def _divmod(c: Context, a: Value, b: Value) -> Value:
    a, b = realise(c, a), realise(c, b)
    if isinstance(a, ArrayHandle) or isinstance(b, ArrayHandle):
        return frontend(c, "divmod", FUNCTIONS[np.divmod], [a, b], {})
    return TupleValue([operators.binary(c, "//", a, b), operators.binary(c, "%", a, b)])


def _pow(c: Context, a: Value, b: Value, modulus: Value = None) -> Value:
    if realise(c, modulus) is not None:
        return _convert(c, pow, a, b, modulus)
    return operators.binary(c, "**", a, b)


def _print(c: Context, /, *args: Value, **kwargs: Value) -> Value:
    c.refuse(
        Code.SIDE_EFFECT, "print(...)", "compiled code does not print", "print the result outside the compiled function"
    )


def _id(c: Context, v: Value) -> Value:
    c.refuse(Code.UNSUPPORTED_PYTHON, "id(...)", "addresses of objects change from call to call", "compare with `is`")


def _pure(function: Callable[..., Any]) -> Builtin:
    """A function without effects, called for real on constants."""

    def run(c: Context, /, *args: Value, **kwargs: Value) -> Value:
        values = [plain(c, a) for a in args]
        try:
            return inward(function(*values, **{k: plain(c, a) for k, a in kwargs.items()}))
        except (ValueError, TypeError, ArithmeticError, LookupError) as error:
            c.raises(f"{function.__name__}(...)", f"{type(error).__name__}: {error}")

    return run


def _math(name: str) -> Builtin:
    def run(c: Context, *args: Value) -> Value:
        values = [realise(c, a) for a in args]
        if any(isinstance(v, ArrayHandle) for v in values):
            c.refuse(
                Code.DATA_DEPENDENT,
                f"math.{name}(array)",
                "math gives a Python float, and raises where NumPy gives nan or inf",
                f"use the NumPy function of that name instead of math.{name}",
            )
        if any(numbers.is_runtime(v) for v in values) and all(numbers.is_number(v) for v in values):
            return numbers.math_function(c, name, values)
        return _pure(getattr(math, name))(c, *values)

    return run


def _operator(op: str) -> Builtin:
    return lambda c, a, b: operators.binary(c, op, a, b)


def _inplace_operator(op: str) -> Builtin:
    return lambda c, a, b: operators.inplace(c, op, a, b)


def _comparison(op: str) -> Builtin:
    return lambda c, a, b: operators.compare(c, op, a, b)


def _unary(op: str) -> Builtin:
    return lambda c, a: operators.unary(c, op, a)


def _reduce(c: Context, function: Value, values: Value, initial: Value = Marker.UNBOUND) -> Value:
    it = iterate(c, values)
    total = next(it, Marker.UNBOUND) if initial is Marker.UNBOUND else initial
    if total is Marker.UNBOUND:
        c.raises("reduce()", "TypeError: reduce() of empty iterable with no initial value")
    for v in it:
        total = c.call(function, total, v)
    return total


def _partial(c: Context, function: Value, /, *args: Value, **kwargs: Value) -> Value:
    return PartialValue(function, list(args), dict(kwargs))


def _product(c: Context, *sequences: Value, repeat: Value = 1) -> Value:
    pools = [list(iterate(c, s)) for s in sequences] * plain(c, repeat)
    return IteratorValue(TupleValue(list(row)) for row in itertools.product(*pools))


def _chain(c: Context, *sequences: Value) -> Value:
    return IteratorValue(v for s in sequences for v in iterate(c, s))


def _itertool(function: Callable[..., Any]) -> Builtin:
    """combinations, permutations, pairwise: tuples of the items."""

    def run(c: Context, values: Value, *rest: Value) -> Value:
        rows = function(list(iterate(c, values)), *(plain(c, r) for r in rest))
        return IteratorValue(TupleValue(list(row)) for row in rows)

    return run


def _islice(c: Context, values: Value, *bounds: Value) -> Value:
    return IteratorValue(itertools.islice(iterate(c, values), *(plain(c, b) for b in bounds)))


def _errstate(c: Context, /, *args: Value, **kwargs: Value) -> Value:
    return ContextValue("errstate")


def _math_prod(c: Context, values: Value, *, start: Value = 1) -> Value:
    total = start
    for v in iterate(c, values):
        total = operators.binary(c, "*", total, v)
    return total


BUILTINS: dict[Any, Builtin] = {
    len: _len, float: _float, complex: _complex, int: _int, bool: _bool, str: _str, abs: _abs,
    max: _extremum("max"), min: _extremum("min"), sum: _sum, any: _quantifier(True), all: _quantifier(False),
    range: items.symbolic_range, zip: _zip, enumerate: _enumerate, map: _map, filter: _filter,
    reversed: _reversed, sorted: _sorted, iter: _iter, next: _next, tuple: _tuple, list: _list, set: _set(False),
    frozenset: _set(True), dict: _dict, slice: _slice, type: _type, isinstance: _isinstance,
    issubclass: _issubclass, getattr: _getattr, hasattr: _hasattr, setattr: _setattr, callable: _callable,
    round: _round, divmod: _divmod, pow: _pow, print: _print, id: _id,
    **{f: _pure(f) for f in (repr, chr, ord, hex, bin, oct, ascii, format, hash)},
    math.prod: _math_prod,
    **{getattr(cmath, n): _pure(getattr(cmath, n)) for n in dir(cmath) if callable(getattr(cmath, n)) and n[0] != "_"},
    **{getattr(math, n): _math(n) for n in dir(math) if callable(getattr(math, n)) and n[0] != "_" and n != "prod"},
    **{getattr(operator, n): _operator(o) for n, o in (
        ("add", "+"), ("sub", "-"), ("mul", "*"), ("truediv", "/"), ("floordiv", "//"), ("mod", "%"), ("pow", "**"),
        ("matmul", "@"), ("and_", "&"), ("or_", "|"), ("xor", "^"), ("lshift", "<<"), ("rshift", ">>"),
    )},
    **{getattr(operator, n): _inplace_operator(o) for n, o in (
        ("iadd", "+"), ("isub", "-"), ("imul", "*"), ("itruediv", "/"), ("ifloordiv", "//"), ("imod", "%"),
        ("ipow", "**"), ("imatmul", "@"), ("iand", "&"), ("ior", "|"), ("ixor", "^"),
    )},
    **{getattr(operator, n): _comparison(o) for o, n in operators.COMPARISONS.items()},
    operator.neg: _unary("-"), operator.pos: _unary("+"), operator.invert: _unary("~"), operator.abs: _abs,
    operator.not_: lambda c, v: not operators.truth(c, v), operator.truth: _bool,
    operator.is_: operators.is_same, operator.getitem: items.subscript, operator.setitem: items.store,
    operator.contains: lambda c, a, b: operators.contains(c, b, a), operator.index: _int,
    functools.reduce: _reduce, functools.partial: _partial,
    itertools.product: _product, itertools.chain: _chain, itertools.islice: _islice,
    itertools.combinations: _itertool(itertools.combinations), itertools.pairwise: _itertool(itertools.pairwise),
    itertools.permutations: _itertool(itertools.permutations),
    np.errstate: _errstate,
    np.dtype: _pure(np.dtype), np.finfo: _pure(np.finfo), np.iinfo: _pure(np.iinfo),
    np.issubdtype: _pure(np.issubdtype), np.promote_types: _pure(np.promote_types),
}  # fmt: skip
