"""The identity of a class of code: what goes in is a pass class, what comes out is a digest for cache keys.

What holds: two classes that do different things have different digests - the digest covers the source of the module
that defines the class, and the code of its methods with their constants, defaults, closures and the functions of the
same module that they call, so that classes made by one factory, or typed at a prompt, are told apart as well. What
the digest cannot see into gets a fresh token, which costs a cache miss and never a false hit.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
import uuid
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))


def code_identity(cls: type) -> str:
    """32 hex digits that stand for what the class does.

    >>> class A:
    ...     def run(self): return 1
    >>> class B:
    ...     def run(self): return 2
    >>> code_identity(A) == code_identity(A), code_identity(A) == code_identity(B)
    (True, False)
    """
    digest = hashlib.sha256()
    for part in (f"{cls.__module__}.{cls.__qualname__}", _module_source(cls), *_class(cls, set())):
        digest.update(f"{len(part)}:{part}".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:32]


def _module_source(cls: type) -> str:
    module = sys.modules.get(cls.__module__)
    if module is None:
        return ""
    try:
        return inspect.getsource(module)
    except (OSError, TypeError):  # a prompt, a notebook cell, an extension module
        return ""


def _class(cls: type, seen: set[int]) -> Iterator[str]:
    for base in cls.__mro__[1:]:
        if base is not object and base.__module__ == cls.__module__:
            yield from _value(base, cls.__module__, seen)
        else:
            yield f"{base.__module__}.{base.__qualname__}"
    for name, value in sorted(vars(cls).items()):
        if name in ("__dict__", "__weakref__", "__doc__", "__dataclass_fields__", "__dataclass_params__"):
            continue
        if isinstance(value, FunctionType) and value.__module__ != cls.__module__:
            continue  # made by a decorator of another module, such as dataclass
        yield name
        yield from _value(value, cls.__module__, seen)


def _value(value: Any, module: str, seen: set[int]) -> Iterator[str]:
    if isinstance(value, _PLAIN):
        yield f"{type(value).__name__} {value!r}"
        return
    if id(value) in seen:
        yield "seen"
        return
    seen.add(id(value))
    if isinstance(value, tuple | list | frozenset | set | dict):
        yield type(value).__name__
        ordered = sorted(value, key=repr) if isinstance(value, frozenset | set) else value
        for item in value.items() if isinstance(value, dict) else ordered:
            yield from _value(item, module, seen)
    elif isinstance(value, FunctionType):
        yield from _function(value, module, seen)
    elif isinstance(value, staticmethod | classmethod):
        yield from _value(value.__func__, module, seen)
    elif isinstance(value, property):
        for accessor in (value.fget, value.fset, value.fdel):
            yield from _value(accessor, module, seen)
    elif isinstance(value, type) and value.__module__ == module:
        yield from _class(value, seen)
    elif hasattr(value, "__module__") and hasattr(value, "__qualname__"):
        yield f"{value.__module__}.{value.__qualname__}"
    elif inspect.ismodule(value) or inspect.isdatadescriptor(value):
        yield repr(getattr(value, "__name__", type(value).__name__))
    else:
        yield f"{type(value).__name__} {uuid.uuid4()}"


def _function(function: FunctionType, module: str, seen: set[int]) -> Iterator[str]:
    if function.__module__ != module:
        yield f"{function.__module__}.{function.__qualname__}"
        return
    yield from _code(function.__code__)
    yield from _value(function.__defaults__, module, seen)
    yield from _value(function.__kwdefaults__, module, seen)
    for cell in function.__closure__ or ():
        try:
            yield from _value(cell.cell_contents, module, seen)
        except ValueError:  # an empty cell
            yield "empty"
    for name in _names(function.__code__):
        if name in function.__globals__:
            used = function.__globals__[name]
            if isinstance(used, _PLAIN | tuple) or getattr(used, "__module__", None) == module:
                yield from _value(used, module, seen)


def _names(code: CodeType) -> list[str]:
    nested = (name for c in code.co_consts if isinstance(c, CodeType) for name in _names(c))
    return sorted({*code.co_names, *nested})


def _code(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code(constant)
        else:
            yield f"{type(constant).__name__} {constant!r}"
