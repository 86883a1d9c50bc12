"""What an entry of the frontend is: how a callable, a method or an attribute of NumPy becomes op calls.

What goes in: a recorder, and the arguments as the user wrote them. What comes out: handles, or Python values where
NumPy gives those. What holds: packed integers go the way of `packed`, boolean selections that of `selection`; a call
without any runtime value is NumPy's own, at capture time; bad arguments raise `Unsupported`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from broadloom.errors import DTypeError, ShapeError
from broadloom.frontend import packed, selection
from broadloom.frontend.operands import is_symbolic, known_dtype
from broadloom.frontend.unsupported import Unsupported, plain_numpy_raises
from broadloom.graph.recorder import Recorder
from broadloom.records import dataclass


@dataclass(frozen=True)
class Entry:
    """One entry: `run(recorder, *args, **kwargs)`. `numpy` is the callable itself where a call of constants only may
    be left to it (pure functions; not those that make arrays, which belong in the graph)."""

    name: str
    run: Callable[..., Any]
    numpy: Callable[..., Any] | None = None
    selected: Callable[..., Any] | None = None  # for boolean selections among the arguments

    @property
    def signature(self) -> inspect.Signature:
        """Kept without `cached_property`, whose lock in Python 3.11 a child of `fork` may inherit held."""
        known: inspect.Signature | None = self.__dict__.get("_signature")
        if known is None:
            known = self.__dict__["_signature"] = inspect.signature(self.run)
        return known

    def __call__(self, r: Recorder, /, *args: Any, **kwargs: Any) -> Any:
        if packed.found(args) or packed.found(kwargs):
            try:
                return packed.run(self.name, self.plain, r, args, kwargs)
            except OverflowError as error:
                raise plain_numpy_raises(str(error)) from error
        return self.plain(r, *args, **kwargs)

    def plain(self, r: Recorder, /, *args: Any, **kwargs: Any) -> Any:
        """The call of arguments among which are no packed integers."""
        if self.numpy is not None and not is_symbolic(args) and not is_symbolic(kwargs):
            return self._constant(r, args, kwargs)
        try:
            self.signature.bind(r, *args, **kwargs)
        except TypeError as error:
            raise Unsupported(f"{self.name}: {error}", "leave out these arguments") from error
        run = self.run
        if selection.selects((args, kwargs)):
            if self.selected is None:
                selection.refuse(f"{self.name} of a boolean selection")
            run = self.selected
        try:
            return run(r, *args, **kwargs)
        except (ShapeError, DTypeError) as error:
            raise Unsupported(
                f"{self.name}: {error.what}; got {error.got}", error.remedy or "see NumPy's error"
            ) from error

    def _constant(self, r: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """NumPy's own answer for constants: Python and NumPy scalars stay such, arrays become fresh arrays."""
        if self.numpy is None:
            raise TypeError("no plain function")
        try:
            with np.errstate(all="ignore"):
                result = self.numpy(*args, **kwargs)
        except (ArithmeticError, TypeError, ValueError, IndexError, np.linalg.LinAlgError) as error:
            raise plain_numpy_raises(f"{self.name}: {error}") from error
        return inward(r, result)


def inward(r: Recorder, value: Any) -> Any:
    """A constant result: arrays enter the graph."""
    if isinstance(value, np.ndarray):
        known_dtype(value.dtype)
        return r.constant(value)
    if isinstance(value, tuple):
        return tuple.__new__(type(value), [inward(r, v) for v in value])  # a named tuple stays one
    return [inward(r, v) for v in value] if isinstance(value, list) else value
