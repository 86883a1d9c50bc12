"""Sources: where a value that the captured function read comes from, as data.

What goes in: nothing. What comes out: hashable paths such as `L['x'].shape[0]` that can be walked again at every
call, by `fetch` here and by the generated native entry.

What holds: fetching runs no user code - attributes are read without `__getattr__` and without properties, items
only from exact tuples, lists and dicts; a path that no longer exists raises `SourceMissing`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import CellType, ModuleType
from typing import Any

from broadloom.records import dataclass


class SourceMissing(LookupError):
    """A path does not exist in this call: the guard that asked for it fails."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What one call can see: `arguments` by parameter name with the defaults filled in (`*args` as one tuple,
    `**kwargs` as one dict), the function's global namespace, and its closure cells in `co_freevars` order."""

    arguments: Mapping[str, Any]
    globals: Mapping[str, Any]
    closure: tuple[CellType, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """Base of all sources."""

    def fetch(self, frame: Frame) -> Any:
        """The object at this path in `frame`; raises `SourceMissing`."""
        raise NotImplementedError

    @property
    def base(self) -> Source | None:
        """The path one step shorter, None at a root."""
        return None


@dataclass(frozen=True, slots=True)
class Argument(Source):
    """A parameter of the compiled function.

    >>> str(Argument("x"))
    "L['x']"
    """

    name: str

    def fetch(self, frame: Frame) -> Any:
        try:
            return frame.arguments[self.name]
        except KeyError:
            raise SourceMissing(self) from None

    def __str__(self) -> str:
        return f"L[{self.name!r}]"


@dataclass(frozen=True, slots=True)
class Global(Source):
    """A name looked up as `LOAD_GLOBAL` does: in the function's globals, then in its builtins."""

    name: str

    def fetch(self, frame: Frame) -> Any:
        return _global(frame.globals, self.name, self)

    def __str__(self) -> str:
        return f"G[{self.name!r}]"


@dataclass(frozen=True, slots=True)
class Cell(Source):
    """The content of closure cell number `index` of the compiled function."""

    name: str
    index: int

    def fetch(self, frame: Frame) -> Any:
        try:
            return frame.closure[self.index].cell_contents
        except (IndexError, ValueError):
            raise SourceMissing(self) from None

    def __str__(self) -> str:
        return f"C[{self.name!r}]"


@dataclass(frozen=True, slots=True)
class Attribute(Source):
    """An attribute found without running user code: a module's entry, a type's attribute, or what
    `object.__getattribute__` gives. Capture uses it only where the type of `of` is guarded and defines no
    property of that name.

    >>> str(Item(Attribute(Argument("x"), "shape"), 0))
    "L['x'].shape[0]"
    """

    of: Source
    name: str

    def fetch(self, frame: Frame) -> Any:
        owner = self.of.fetch(frame)
        try:
            if isinstance(owner, ModuleType):
                return owner.__dict__[self.name]
            if isinstance(owner, type):
                return type.__getattribute__(owner, self.name)
            return object.__getattribute__(owner, self.name)
        except (KeyError, AttributeError, ValueError):
            raise SourceMissing(self) from None

    @property
    def base(self) -> Source | None:
        return self.of

    def __str__(self) -> str:
        return f"{self.of}.{self.name}"


@dataclass(frozen=True, slots=True)
class ClassEntry(Source):
    """The raw entry of `name` in the class of `of`, found along the method resolution order, not bound."""

    of: Source
    name: str

    def fetch(self, frame: Frame) -> Any:
        for owner in type(self.of.fetch(frame)).__mro__:
            if self.name in owner.__dict__:
                return owner.__dict__[self.name]
        raise SourceMissing(self)

    @property
    def base(self) -> Source | None:
        return self.of

    def __str__(self) -> str:
        return f"type({self.of}).{self.name}"


@dataclass(frozen=True, slots=True)
class TypeEntry(Source):
    """The raw entry of `name` in the class `of` itself, found along its resolution order from number `start` on."""

    of: Source
    name: str
    start: int = 0

    def fetch(self, frame: Frame) -> Any:
        cls = self.of.fetch(frame)
        if isinstance(cls, type):
            for owner in cls.__mro__[self.start :]:
                if self.name in owner.__dict__:
                    return owner.__dict__[self.name]
        raise SourceMissing(self)

    @property
    def base(self) -> Source | None:
        return self.of

    def __str__(self) -> str:
        return f"{self.of}.__mro__[{self.start}:].{self.name}" if self.start else f"{self.of}.{self.name}"


@dataclass(frozen=True, slots=True)
class InstanceEntry(Source):
    """The entry of `name` in the `__dict__` of the instance `of`."""

    of: Source
    name: str

    def fetch(self, frame: Frame) -> Any:
        owner = self.of.fetch(frame)
        try:
            return object.__getattribute__(owner, "__dict__")[self.name]
        except (KeyError, AttributeError):
            raise SourceMissing(self) from None

    @property
    def base(self) -> Source | None:
        return self.of

    def __str__(self) -> str:
        return f"vars({self.of})[{self.name!r}]"


@dataclass(frozen=True, slots=True)
class Item(Source):
    """An item of an exact tuple, list or dict, by a constant index or key."""

    of: Source
    key: Any

    def fetch(self, frame: Frame) -> Any:
        owner = self.of.fetch(frame)
        if type(owner) not in (tuple, list, dict) and not (isinstance(owner, tuple) and type(self.key) is int):
            raise SourceMissing(self)
        try:
            return tuple.__getitem__(owner, self.key) if isinstance(owner, tuple) else owner[self.key]
        except (LookupError, TypeError):
            raise SourceMissing(self) from None

    @property
    def base(self) -> Source | None:
        return self.of

    def __str__(self) -> str:
        return f"{self.of}[{self.key!r}]"


@dataclass(frozen=True, slots=True)
class Module(Source):
    """A module that is already imported, by its full name."""

    name: str

    def fetch(self, frame: Frame) -> Any:
        try:
            return sys.modules[self.name]
        except KeyError:
            raise SourceMissing(self) from None

    def __str__(self) -> str:
        return f"sys.modules[{self.name!r}]"


@dataclass(frozen=True, slots=True)
class Installed(Source):
    """A name of one of this package's own modules, which nobody changes: what is found there needs no guard."""

    module: str
    name: str

    def fetch(self, frame: Frame) -> Any:
        try:
            return sys.modules[self.module].__dict__[self.name]
        except KeyError:
            raise SourceMissing(self) from None

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


def is_installed(source: Source | None) -> bool:
    """Whether a path begins in one of this package's own modules."""
    while source is not None:
        if isinstance(source, Installed):
            return True
        source = source.base
    return False


@dataclass(frozen=True, slots=True)
class FunctionGlobal(Source):
    """A global of an inlined function `of` that lives in another namespace than the compiled function."""

    of: Source
    name: str

    def fetch(self, frame: Frame) -> Any:
        function = self.of.fetch(frame)
        try:
            namespace = object.__getattribute__(function, "__globals__")
        except AttributeError:
            raise SourceMissing(self) from None
        return _global(namespace, self.name, self)

    @property
    def base(self) -> Source | None:
        return self.of

    def __str__(self) -> str:
        return f"{self.of}.__globals__[{self.name!r}]"


def _global(namespace: Mapping[str, Any], name: str, source: Source) -> Any:
    if name in namespace:
        return namespace[name]
    builtins = namespace.get("__builtins__", {})
    table = builtins.__dict__ if isinstance(builtins, ModuleType) else builtins
    try:
        return table[name]
    except KeyError:
        raise SourceMissing(source) from None
