"""What each normalised instruction does to an activation: its stack, its slots, its position.

What goes in: the context, an activation, the instruction's argument. What comes out: nothing; the activation has
changed, and steps may be recorded. What holds: one handler for each instruction of the vocabulary but `return` and
`yield`, at which the evaluator leaves the activation.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from broadloom.capture import items, operators
from broadloom.capture.attributes import find_attribute, get_attribute, set_attribute
from broadloom.capture.breaks import Code
from broadloom.capture.bridge import describe
from broadloom.capture.containers import constant_key, entries, plain
from broadloom.capture.context import Context
from broadloom.capture.inputs import realise
from broadloom.capture.methods import as_entries
from broadloom.capture.normalise import caught, local_names, normalise
from broadloom.capture.sources import Module
from broadloom.capture.values import (
    CellValue,
    ContextValue,
    DictValue,
    FunctionValue,
    IteratorValue,
    Lazy,
    ListValue,
    Marker,
    Namespace,
    ObjectValue,
    SetValue,
    SliceValue,
    SuperValue,
    TupleValue,
    Value,
)


class Activation:
    """One call of a Python function: its slots, stack and position."""

    __slots__ = ("caught", "code", "fast", "function", "instructions", "names", "namespace", "position", "stack")

    def __init__(self, function: FunctionValue, local: dict[str, Value]) -> None:
        self.function = function
        self.code = function.code
        self.names = local_names(function.code)
        self.namespace: Namespace = function.namespace
        self.instructions = normalise(function.code)
        self.caught = caught(function.code)
        self.position = 0
        self.stack: list[Value] = []
        self.fast: list[Value] = [Marker.UNBOUND] * len(self.names)
        for i, name in enumerate(self.names[: self.code.co_nlocals]):
            self.fast[i] = local.get(name, Marker.UNBOUND)
        free = len(self.code.co_freevars)
        if free:
            self.fast[len(self.names) - free :] = function.closure

    def pop_many(self, n: int) -> list[Value]:
        """The top `n` values, deepest first."""
        if n == 0:
            return []
        taken = self.stack[-n:]
        del self.stack[-n:]
        return taken


# ---- stack and locals -----------------------------------------------------------------------------------------------


def _pop(c: Context, a: Activation, arg: Any) -> None:
    a.stack.pop()


def _push_null(c: Context, a: Activation, arg: Any) -> None:
    a.stack.append(Marker.NULL)


def _return_generator(c: Context, a: Activation, arg: Any) -> None:
    a.stack.append(None)


def _copy(c: Context, a: Activation, n: int) -> None:
    a.stack.append(a.stack[-n])


def _swap(c: Context, a: Activation, n: int) -> None:
    a.stack[-1], a.stack[-n] = a.stack[-n], a.stack[-1]


def _const(c: Context, a: Activation, value: Any) -> None:
    a.stack.append(_literal(value))


def _literal(value: Any) -> Value:
    """A constant of the code as a tracked value."""
    if isinstance(value, tuple):
        return TupleValue([_literal(v) for v in value])
    if isinstance(value, frozenset):
        return SetValue(set(value), frozen=True)
    if isinstance(value, slice):
        return SliceValue(value.start, value.stop, value.step)
    return value


def _load_fast(c: Context, a: Activation, i: int) -> None:
    value = a.fast[i]
    if value is Marker.UNBOUND:
        c.raises(a.names[i], f"UnboundLocalError: local variable {a.names[i]!r} has no value")
    a.stack.append(value)


def _load_fast_and_clear(c: Context, a: Activation, i: int) -> None:
    a.stack.append(a.fast[i])
    a.fast[i] = Marker.UNBOUND


def _store_fast(c: Context, a: Activation, i: int) -> None:
    a.fast[i] = a.stack.pop()


def _delete_fast(c: Context, a: Activation, i: int) -> None:
    a.fast[i] = Marker.UNBOUND


def _make_cell(c: Context, a: Activation, i: int) -> None:
    a.fast[i] = CellValue(a.fast[i])


def _load_deref(c: Context, a: Activation, i: int) -> None:
    value = a.fast[i].content
    if value is Marker.UNBOUND:
        c.raises(a.names[i], f"NameError: free variable {a.names[i]!r} has no value")
    a.stack.append(value)


def _store_deref(c: Context, a: Activation, i: int) -> None:
    cell: CellValue = a.fast[i]
    if cell.external:
        c.refuse(
            Code.EXTERNAL_MUTATION,
            f"nonlocal {a.names[i]}",
            "the variable belongs to a function that was called before",
            "return the new value instead",
        )
    cell.content = a.stack.pop()


def _delete_deref(c: Context, a: Activation, i: int) -> None:
    a.stack.append(Marker.UNBOUND)
    _store_deref(c, a, i)


def _load_global(c: Context, a: Activation, name: str) -> None:
    space = a.namespace
    source = space.source(name)
    mapping = space.mapping
    if name not in mapping:
        builtins = mapping.get("__builtins__", {})
        mapping = builtins if isinstance(builtins, dict) else builtins.__dict__
        if name not in mapping:
            c.raises(name, f"NameError: name {name!r} is not defined")
    a.stack.append(Lazy(source, mapping[name]))


def _store_global(c: Context, a: Activation, name: str) -> None:
    c.refuse(
        Code.EXTERNAL_MUTATION,
        f"global {name}",
        "compiled code does not write global variables",
        "return the value and assign it outside the compiled function",
    )


def _load_assertion_error(c: Context, a: Activation, arg: Any) -> None:
    a.stack.append(ObjectValue(AssertionError))


# ---- operators ------------------------------------------------------------------------------------------------------


def _binary(c: Context, a: Activation, op: str) -> None:
    right, left = a.stack.pop(), a.stack.pop()
    a.stack.append(operators.binary(c, op, left, right))


def _inplace(c: Context, a: Activation, op: str) -> None:
    right, left = a.stack.pop(), a.stack.pop()
    a.stack.append(operators.inplace(c, op, left, right))


def _unary(c: Context, a: Activation, op: str) -> None:
    a.stack.append(operators.unary(c, op, a.stack.pop()))


def _compare(c: Context, a: Activation, op: str) -> None:
    right, left = a.stack.pop(), a.stack.pop()
    a.stack.append(operators.compare(c, op, left, right))


def _is(c: Context, a: Activation, invert: int) -> None:
    right, left = a.stack.pop(), a.stack.pop()
    a.stack.append(operators.is_same(c, left, right) is not bool(invert))


def _contains(c: Context, a: Activation, invert: int) -> None:
    container, item = a.stack.pop(), a.stack.pop()
    a.stack.append(operators.contains(c, item, container) is not bool(invert))


def _to_bool(c: Context, a: Activation, arg: Any) -> None:
    a.stack.append(operators.truth(c, a.stack.pop()))


def _subscript(c: Context, a: Activation, arg: Any) -> None:
    key, container = a.stack.pop(), a.stack.pop()
    a.stack.append(items.subscript(c, container, key))


def _store_subscript(c: Context, a: Activation, arg: Any) -> None:
    key, container, value = a.stack.pop(), a.stack.pop(), a.stack.pop()
    items.store(c, container, key, value)


def _delete_subscript(c: Context, a: Activation, arg: Any) -> None:
    key, container = a.stack.pop(), a.stack.pop()
    items.delete(c, container, key)


# ---- attributes and imports -----------------------------------------------------------------------------------------


def _load_attr(c: Context, a: Activation, name: str) -> None:
    a.stack.append(get_attribute(c, a.stack.pop(), name))


def _load_super_attr(c: Context, a: Activation, name: str) -> None:
    receiver, owner, _ = a.stack.pop(), realise(c, a.stack.pop()), a.stack.pop()
    a.stack.append(get_attribute(c, SuperValue(owner.object, receiver), name))


def _store_attr(c: Context, a: Activation, name: str) -> None:
    owner, value = a.stack.pop(), a.stack.pop()
    set_attribute(c, owner, name, value)


def _import_name(c: Context, a: Activation, name: str) -> None:
    names, level = a.stack.pop(), a.stack.pop()
    package = a.namespace.mapping.get("__package__") or ""
    if level:
        package = package.rsplit(".", level - 1)[0] if level > 1 else package
        name = f"{package}.{name}" if name else package
    target = name if names is not None else name.split(".")[0]
    if name not in sys.modules or target not in sys.modules:
        c.refuse(
            Code.SIDE_EFFECT,
            f"import {name}",
            "the module is not imported yet, and importing runs its code",
            "import it at the top of the file",
        )
    a.stack.append(Lazy(Module(target), sys.modules[target]))


def _import_from(c: Context, a: Activation, name: str) -> None:
    found = find_attribute(c, a.stack[-1], name)
    if found is Marker.UNBOUND:
        c.raises(f"import {name}", f"ImportError: cannot import name {name!r}")
    a.stack.append(found)


# ---- building -------------------------------------------------------------------------------------------------------


def _build_tuple(c: Context, a: Activation, n: int) -> None:
    a.stack.append(TupleValue(a.pop_many(n)))


def _build_list(c: Context, a: Activation, n: int) -> None:
    a.stack.append(ListValue(a.pop_many(n)))


def _build_set(c: Context, a: Activation, n: int) -> None:
    a.stack.append(SetValue({constant_key(c, v) for v in a.pop_many(n)}))


def _build_map(c: Context, a: Activation, n: int) -> None:
    flat = a.pop_many(2 * n)
    a.stack.append(DictValue({constant_key(c, k): v for k, v in zip(flat[::2], flat[1::2], strict=True)}))


def _build_const_key_map(c: Context, a: Activation, n: int) -> None:
    keys = plain(c, a.stack.pop())
    a.stack.append(DictValue(dict(zip(keys, a.pop_many(n), strict=True))))


def _build_string(c: Context, a: Activation, n: int) -> None:
    a.stack.append("".join(a.pop_many(n)))


def _build_slice(c: Context, a: Activation, n: int) -> None:
    parts = a.pop_many(n)
    a.stack.append(SliceValue(parts[0], parts[1], parts[2] if n == 3 else None))


def _list_extend(c: Context, a: Activation, i: int) -> None:
    more = a.stack.pop()
    a.stack[-i].items.extend(list(items.iterate(c, more)))


def _list_append(c: Context, a: Activation, i: int) -> None:
    item = a.stack.pop()
    a.stack[-i].items.append(item)


def _set_add(c: Context, a: Activation, i: int) -> None:
    item = a.stack.pop()
    a.stack[-i].items.add(constant_key(c, item))


def _set_update(c: Context, a: Activation, i: int) -> None:
    more = a.stack.pop()
    a.stack[-i].items.update(constant_key(c, v) for v in items.iterate(c, more))


def _map_add(c: Context, a: Activation, i: int) -> None:
    value, key = a.stack.pop(), a.stack.pop()
    a.stack[-i].items[constant_key(c, key)] = value


def _dict_update(c: Context, a: Activation, i: int) -> None:
    more = a.stack.pop()
    a.stack[-i].items.update(as_entries(c, more))


def _dict_merge(c: Context, a: Activation, i: int) -> None:
    more = as_entries(c, a.stack.pop())
    target: DictValue = a.stack[-i]
    twice = sorted(target.items.keys() & more.keys())
    if twice:
        c.raises("call", f"TypeError: multiple values for keyword arguments {twice}")
    target.items.update(more)


def _list_to_tuple(c: Context, a: Activation, arg: Any) -> None:
    a.stack.append(TupleValue(a.stack.pop().items))


def _convert(c: Context, a: Activation, kind: int) -> None:
    value = plain(c, a.stack.pop())
    a.stack.append(str(value) if kind == 1 else repr(value) if kind == 2 else ascii(value))


def _format(c: Context, a: Activation, with_spec: bool) -> None:
    spec = a.stack.pop() if with_spec else ""
    value = plain(c, a.stack.pop())
    try:
        a.stack.append(format(value, spec))
    except (ValueError, TypeError) as error:
        c.raises("f-string", f"{type(error).__name__}: {error}")


# ---- unpacking, loops, jumps ----------------------------------------------------------------------------------------


def _unpack(c: Context, a: Activation, n: int) -> None:
    a.stack.extend(reversed(items.unpack(c, a.stack.pop(), n)))


def _unpack_ex(c: Context, a: Activation, counts: tuple[int, int]) -> None:
    a.stack.extend(reversed(items.unpack_with_rest(c, a.stack.pop(), *counts)))


def _get_iter(c: Context, a: Activation, arg: Any) -> None:
    a.stack.append(IteratorValue(items.iterate(c, a.stack.pop())))


def _get_len(c: Context, a: Activation, arg: Any) -> None:
    a.stack.append(items.length(c, a.stack[-1]))


def _match_sequence(c: Context, a: Activation, arg: Any) -> None:
    a.stack.append(isinstance(realise(c, a.stack[-1]), TupleValue | ListValue | range))


def _for_iter(c: Context, a: Activation, target: tuple[int, Any]) -> None:
    item = next(items.iterate(c, a.stack[-1]), Marker.UNBOUND)
    if item is Marker.UNBOUND:
        a.stack.pop()
        a.position = target[0]
    else:
        a.stack.append(item)


def _send(c: Context, a: Activation, target: tuple[int, bool]) -> None:
    sent = a.stack.pop()
    if sent is not None:
        c.refuse(
            Code.UNSUPPORTED_PYTHON, "generator.send", "values sent to generators are not followed", "use arguments"
        )
    item = next(items.iterate(c, a.stack[-1]), Marker.UNBOUND)
    if item is Marker.UNBOUND:
        if target[1]:
            a.stack.pop()
        a.stack.append(None)  # the value of `yield from`; generators that return one are rare
        a.position = target[0]
    else:
        a.stack.append(item)


def _jump(c: Context, a: Activation, target: tuple[int, Any]) -> None:
    a.position = target[0]


def _pop_jump(c: Context, a: Activation, target: tuple[int, str]) -> None:
    value, condition = a.stack.pop(), target[1]
    if condition in ("true", "false"):
        taken = operators.truth(c, value) is (condition == "true")
    else:
        taken = operators.is_same(c, value, None) is (condition == "none")
    if taken:
        a.position = target[0]


# ---- functions, calls, contexts -------------------------------------------------------------------------------------


def _make_function(c: Context, a: Activation, arg: Any) -> None:
    code = a.stack.pop()
    a.stack.append(FunctionValue(code, a.namespace, code.co_name))


def _set_function_attribute(c: Context, a: Activation, kind: int) -> None:
    function: FunctionValue = a.stack.pop()
    value = a.stack.pop()
    if kind == 8:
        function.closure = value.items
    elif kind == 2:
        function.keyword_defaults = dict(entries(c, value))
    elif kind == 1:
        function.defaults = value.items
    a.stack.append(function)


def _call(c: Context, a: Activation, shape: tuple[int, tuple[str, ...]]) -> None:
    n, names = shape
    values = a.pop_many(n)
    split = n - len(names)
    _call_with(c, a, values[:split], dict(zip(names, values[split:], strict=True)))


def _call_kw(c: Context, a: Activation, n: int) -> None:
    names = plain(c, a.stack.pop())
    _call(c, a, (n, names))


def _call_ex(c: Context, a: Activation, with_keywords: bool) -> None:
    named = as_entries(c, a.stack.pop()) if with_keywords else {}
    args = list(items.iterate(c, a.stack.pop()))
    _call_with(c, a, args, named)


def _call_with(c: Context, a: Activation, args: list[Value], kwargs: dict[str, Value]) -> None:
    second, first = a.stack.pop(), a.stack.pop()
    if first is Marker.NULL:
        function = second
    elif second is Marker.NULL:
        function = first
    else:
        function, args = first, [second, *args]
    target = realise(c, function)
    if isinstance(target, ObjectValue) and target.object is super:
        a.stack.append(_super(c, a, args))
        return
    a.stack.append(c.call_value(target, args, kwargs))


def _super(c: Context, a: Activation, args: list[Value]) -> Value:
    """`super()` finds its class in the cell `__class__` and its receiver in the first parameter."""
    if args:
        owner, receiver = realise(c, args[0]), args[1]
    else:
        if "__class__" not in a.names or not a.code.co_argcount:
            c.refuse(Code.UNSUPPORTED_PYTHON, "super()", "super outside a method", "name the class")
        owner = realise(c, a.fast[a.names.index("__class__")].content)
        first = a.fast[0]
        receiver = first.content if isinstance(first, CellValue) else first
    return SuperValue(owner.object, receiver)


def _before_with(c: Context, a: Activation, arg: Any) -> None:
    manager = realise(c, a.stack.pop())
    if not isinstance(manager, ContextValue):
        c.refuse(
            Code.UNSUPPORTED_PYTHON,
            f"with {describe(manager)}",
            "only numpy.errstate is followed as a context",
            "open the context around the compiled function",
        )
    a.stack.append(Marker.NO_EXIT)
    a.stack.append(None)


def _raise(c: Context, a: Activation, n: int) -> None:
    error = realise(c, a.stack[-1]) if a.stack else None
    kind = getattr(error, "type", None) or getattr(error, "object", None)
    c.raises("raise", kind.__name__ if isinstance(kind, type) else "an exception")


def _unsupported(c: Context, a: Activation, name: str) -> None:
    c.refuse(
        Code.UNSUPPORTED_PYTHON,
        name,
        "this construct of the language is not followed",
        "move it out of the compiled function",
    )


def _delete_attr(c: Context, a: Activation, name: str) -> None:
    _unsupported(c, a, f"del .{name}")


Handler = Callable[[Context, Activation, Any], None]
HANDLERS: dict[str, Handler] = {
    "pop": _pop, "push_null": _push_null, "copy": _copy, "swap": _swap, "const": _const,
    "return_generator": _return_generator,
    "load_fast": _load_fast, "load_fast_and_clear": _load_fast_and_clear, "store_fast": _store_fast,
    "delete_fast": _delete_fast, "make_cell": _make_cell, "load_deref": _load_deref, "store_deref": _store_deref,
    "delete_deref": _delete_deref, "load_global": _load_global, "store_global": _store_global,
    "load_assertion_error": _load_assertion_error,
    "binary": _binary, "inplace": _inplace, "unary": _unary, "compare": _compare, "is": _is, "contains": _contains,
    "to_bool": _to_bool, "subscript": _subscript, "store_subscript": _store_subscript,
    "delete_subscript": _delete_subscript,
    "load_attr": _load_attr, "load_super_attr": _load_super_attr, "store_attr": _store_attr,
    "delete_attr": _delete_attr, "import_name": _import_name, "import_from": _import_from,
    "build_tuple": _build_tuple, "build_list": _build_list, "build_set": _build_set, "build_map": _build_map,
    "build_const_key_map": _build_const_key_map, "build_string": _build_string, "build_slice": _build_slice,
    "list_extend": _list_extend, "list_append": _list_append, "set_add": _set_add, "set_update": _set_update,
    "map_add": _map_add, "dict_update": _dict_update, "dict_merge": _dict_merge, "list_to_tuple": _list_to_tuple,
    "convert": _convert, "format": _format,
    "unpack": _unpack, "unpack_ex": _unpack_ex, "get_iter": _get_iter, "get_len": _get_len,
    "match_sequence": _match_sequence, "for_iter": _for_iter, "send": _send, "jump": _jump, "pop_jump": _pop_jump,
    "make_function": _make_function, "set_function_attribute": _set_function_attribute,
    "call": _call, "call_kw": _call_kw, "call_ex": _call_ex,
    "before_with": _before_with, "raise": _raise, "unsupported": _unsupported,
}  # fmt: skip
