"""Binding arguments to the parameters of a Python function, for real objects and for tracked values alike.

What goes in: a code object, defaults, positional and keyword arguments. What comes out: one value for each parameter
name, `*args` as a list of the rest, `**kwargs` as a dict.

What holds: the rules are those of a Python call; where Python raises TypeError, `BindingError` says why.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from types import CodeType, FunctionType, MethodType
from typing import Any

from broadloom.capture.sources import Frame
from broadloom.records import dataclass


class BindingError(TypeError):
    """The arguments do not fit the parameters."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Parameters in order; `from_default` names those that took their default."""

    named: dict[str, Any]
    rest: tuple[str, list[Any]] | None
    keywords: tuple[str, dict[str, Any]] | None
    from_default: frozenset[str]


def bind(
    code: CodeType,
    defaults: Sequence[Any],
    keyword_defaults: Mapping[str, Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Bound:
    """Bind a call.

    >>> def f(a, b=2, *rest, c, **more): ...
    >>> b = bind(f.__code__, (2,), {}, (1,), {"c": 3, "d": 4})
    >>> b.named, b.rest, b.keywords, sorted(b.from_default)
    ({'a': 1, 'b': 2, 'c': 3}, ('rest', []), ('more', {'d': 4}), ['b'])
    """
    n, k = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames
    positional, keyword_only = names[:n], names[n : n + k]
    named: dict[str, Any] = dict(zip(positional, args, strict=False))
    extra: dict[str, Any] = {}
    for name, value in kwargs.items():
        if name in keyword_only or name in positional[code.co_posonlyargcount :]:
            if name in named:
                raise BindingError(f"got multiple values for argument {name!r}")
            named[name] = value
        else:
            extra[name] = value
    used = set()
    by_default = {**dict(zip(positional[n - len(defaults) :], defaults, strict=True)), **keyword_defaults}
    for name in (*positional, *keyword_only):
        if name not in named:
            if name not in by_default:
                raise BindingError(f"missing argument {name!r}")
            named[name] = by_default[name]
            used.add(name)
    at = n + k
    rest = keywords = None
    if code.co_flags & inspect.CO_VARARGS:
        rest = (names[at], list(args[n:]))
        at += 1
    elif len(args) > n:
        raise BindingError(f"takes {n} positional arguments but {len(args)} were given")
    if code.co_flags & inspect.CO_VARKEYWORDS:
        keywords = (names[at], extra)
    elif extra:
        raise BindingError(f"got unexpected keyword arguments {sorted(extra)}")
    return Bound({name: named[name] for name in (*positional, *keyword_only)}, rest, keywords, frozenset(used))


def frame_of(fn: FunctionType | MethodType, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Frame:
    """What a call of `fn` can see, for guards and recipes. Raises `BindingError`.

    >>> frame_of(lambda x, *, y=3: x, (1,), {}).arguments
    {'x': 1, 'y': 3}
    """
    function, args = plain_function(fn, args)
    bound = bind(function.__code__, function.__defaults__ or (), function.__kwdefaults__ or {}, args, kwargs)
    arguments = dict(bound.named)
    if bound.rest is not None:
        arguments[bound.rest[0]] = tuple(bound.rest[1])
    if bound.keywords is not None:
        arguments[bound.keywords[0]] = bound.keywords[1]
    return Frame(arguments, function.__globals__, function.__closure__ or ())


def plain_function(fn: FunctionType | MethodType, args: Sequence[Any]) -> tuple[FunctionType, Sequence[Any]]:
    """The function behind a bound method, and its arguments with the receiver in front.

    Raises `TypeError` for a callable that is not made of Python code.
    """
    while isinstance(fn, MethodType):
        args = (fn.__self__, *args)
        fn = fn.__func__  # type: ignore[assignment]
    if not isinstance(fn, FunctionType):
        raise TypeError(f"a Python function or method is needed to capture; got {type(fn).__name__}")
    return fn, args
