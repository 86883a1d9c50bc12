"""The parameters of a compiled function, in the order in which the native entry binds them.

What goes in: a function; the arguments of a call. What comes out: `Parameters`; the `Frame` that guards and recipes
look at, or None when the call does not fit (the plain function then raises its own TypeError). What holds: the
defaults are read at each call, so replacing them takes effect.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType
from typing import Any

from broadloom.capture.binding import BindingError, frame_of
from broadloom.capture.sources import Frame
from broadloom.records import dataclass


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a function. `names`: positional-only first, then positional, then keyword-only; `varargs`
    and `varkeywords` name the collecting ones."""

    function: FunctionType
    code: CodeType
    names: tuple[str, ...]
    positional: int
    positional_only: int
    varargs: str | None
    varkeywords: str | None

    @property
    def visible(self) -> tuple[str, ...]:
        """The names in the order in which the native entry hands arguments to Python: the collecting ones last."""
        return (*self.names, *(name for name in (self.varargs, self.varkeywords) if name is not None))

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Frame | None:
        """What guards look at for a call, or None when the call does not fit or the function has other code now.

        >>> def f(a, b=2, *c, d=4): pass
        >>> parameters_of(f).bind((1,), {"d": 5}).arguments
        {'a': 1, 'b': 2, 'd': 5, 'c': ()}
        """
        if self.function.__code__ is not self.code:
            return None
        try:
            return frame_of(self.function, args, kwargs)
        except BindingError:
            return None

    def frame_of(self, values: tuple[Any, ...]) -> Frame:
        """The same, for values in the order of `visible`."""
        arguments = dict(zip(self.visible, values, strict=True))
        return Frame(arguments, self.function.__globals__, self.function.__closure__ or ())


def parameters_of(function: Callable[..., Any]) -> Parameters:
    """The parameters of a Python function. Raises TypeError for any other callable."""
    if not isinstance(function, FunctionType):
        raise TypeError(f"a Python function is needed, got {type(function).__name__}")
    code = function.__code__
    positional, keyword_only = code.co_argcount, code.co_kwonlyargcount
    count = positional + keyword_only
    names = code.co_varnames[:count]
    rest = list(code.co_varnames[count:])
    varargs = rest.pop(0) if code.co_flags & inspect.CO_VARARGS else None
    varkeywords = rest.pop(0) if code.co_flags & inspect.CO_VARKEYWORDS else None
    return Parameters(function, code, names, positional, code.co_posonlyargcount, varargs, varkeywords)
