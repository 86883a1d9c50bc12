"""The identity of a class of code: what goes in is a pass class, what comes out is a digest for cache keys.

What holds: two classes that do different things have different digests - the digest covers the source of the module
that defines the class, and the code of its methods with their constants, defaults and closures, so that classes made
by one factory are told apart as well; where there is no source (a prompt), also the globals that the methods use. What
the digest cannot see into gets a fresh token, which costs a cache miss and never a false hit.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import os
import sys
from collections.abc import Iterator
from functools import cache
from types import CodeType, FunctionType
from typing import Any

_BOOKKEEPING = frozenset({"__dict__", "__weakref__", "__doc__", "__dataclass_fields__", "__dataclass_params__"})
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
    source = _module_source(cls.__module__)
    for part in (f"{cls.__module__}.{cls.__qualname__}", source, *_Walk(cls.__module__, not source).of_class(cls)):
        digest.update(f"{len(part)}:{part}".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:32]


@cache
def _module_source(name: str) -> str:
    """The source of a module as it was when first asked for."""
    try:
        return inspect.getsource(sys.modules[name])
    except (KeyError, OSError, TypeError):  # a prompt, a notebook cell, an extension module
        return ""


class _Walk:
    """Yields texts that stand for all that a class is made of, within its module."""

    def __init__(self, module: str, with_globals: bool) -> None:
        self.module, self.with_globals = module, with_globals
        self.seen: dict[int, Any] = {}  # by id, and kept alive, so that no id is used twice

    def of_class(self, cls: type) -> Iterator[str]:
        for base in cls.__mro__[1:]:
            if base is not object and base.__module__ == self.module:
                yield from self.of_value(base)
            else:
                yield f"{base.__module__}.{base.__qualname__}"
        for name, value in sorted(vars(cls).items()):
            made_by_decorator = isinstance(value, FunctionType) and value.__module__ != self.module
            if name not in _BOOKKEEPING and not made_by_decorator:
                yield name
                yield from self.of_value(value)

    def of_value(self, value: Any) -> Iterator[str]:
        if isinstance(value, _PLAIN):
            yield f"{type(value).__name__} {value!r}"
            return
        if id(value) in self.seen:
            yield "seen"
            return
        self.seen[id(value)] = value
        if isinstance(value, tuple | list | frozenset | set | dict):
            yield type(value).__name__
            ordered = sorted(value, key=repr) if isinstance(value, frozenset | set) else value
            for item in value.items() if isinstance(value, dict) else ordered:
                yield from self.of_value(item)
        elif isinstance(value, FunctionType):
            yield from self.of_function(value)
        elif isinstance(value, staticmethod | classmethod):
            yield from self.of_value(value.__func__)
        elif isinstance(value, property):
            yield from self.of_value((value.fget, value.fset, value.fdel))
        elif isinstance(value, type) and value.__module__ == self.module:
            yield from self.of_class(value)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            yield type(value).__qualname__
            yield from self.of_value([getattr(value, f.name) for f in dataclasses.fields(value)])
        elif hasattr(value, "__module__") and hasattr(value, "__qualname__"):
            yield f"{value.__module__}.{value.__qualname__}"
        elif inspect.ismodule(value) or inspect.isdatadescriptor(value):
            yield str(getattr(value, "__name__", type(value).__name__))
        else:
            yield f"{type(value).__name__} {os.urandom(16).hex()}"

    def of_function(self, function: FunctionType) -> Iterator[str]:
        if function.__module__ != self.module:
            yield f"{function.__module__}.{function.__qualname__}"
            return
        yield from _code(function.__code__)
        yield from self.of_value((function.__defaults__, function.__kwdefaults__))
        for cell in function.__closure__ or ():
            try:
                yield from self.of_value(cell.cell_contents)
            except ValueError:
                yield "empty cell"
        if self.with_globals:
            for name in _names(function.__code__):
                if name in function.__globals__:
                    yield from self.of_value(function.__globals__[name])


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
            ordered = sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant
            yield f"{type(constant).__name__} {ordered!r}"
