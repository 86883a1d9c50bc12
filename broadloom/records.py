"""Dataclasses that cost little to define: `dataclass` as in the standard library, for the many records of the IRs.

What goes in: a class with annotated fields. What comes out: the class that `dataclasses.dataclass` would make, to type
checkers, to `fields`, `replace` and `is_dataclass`, and in use. What holds: only `__init__` is compiled for each class;
comparing, hashing, printing and refusing assignment are functions shared by all. That makes a definition four times
as cheap, and definitions were half of the time that importing Broadloom took.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    from dataclasses import MISSING, FrozenInstanceError, fields
    from dataclasses import dataclass as _standard
    from operator import attrgetter
    from reprlib import recursive_repr

    def dataclass(cls=None, /, *, frozen=False, slots=False, eq=True, kw_only=False):
        """The class as a dataclass; the options are those of `dataclasses.dataclass`.

        >>> @dataclass(frozen=True, slots=True)
        ... class Point:
        ...     x: int
        ...     y: int = 0
        >>> Point(1), Point(1) == Point(1, 0), len({Point(1), Point(1)})
        (Point(x=1, y=0), True, 1)
        >>> Point(1).x = 2
        Traceback (most recent call last):
        dataclasses.FrozenInstanceError: cannot assign to field 'x'
        """

        def make(cls):
            own = vars(cls)
            explicit = {n for n in ("__init__", "__repr__", "__eq__", "__hash__") if n in own}
            if "__eq__" in own and own.get("__hash__") is None:
                explicit.discard("__hash__")  # Python's own None, there because of `__eq__`
            made = _standard(cls, init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)
            compared = tuple(f.name for f in fields(made) if f.compare)
            added = {"__init__": _initialiser(made, frozen), "__repr__": _repr}
            if eq:
                key = _key(compared)
                added["__eq__"] = _equality(key)
                added["__hash__"] = _hash(key) if frozen else None
            for name, value in added.items():
                if name not in explicit:
                    setattr(made, name, value)
            if frozen:
                made.__setattr__, made.__delattr__ = _no_assignment, _no_deletion
                made.__getstate__, made.__setstate__ = _state, _restore
            return made

        return make if cls is None else make(cls)

    def _initialiser(cls, frozen):
        """`__init__`: one parameter for each field, those by keyword only at the end."""
        scope = {"__name__": __name__, "_set": object.__setattr__, "_missing": MISSING}
        by_keyword, by_position, lines = [], [], []
        for k, f in enumerate(fields(cls)):
            made = f.default_factory is not MISSING
            has_default = made or f.default is not MISSING
            if has_default:
                scope[f"_default{k}"] = f.default_factory if made else f.default
            value = f.name
            if made:
                value = f"_default{k}() if {f.name} is _missing else {f.name}" if f.init else f"_default{k}()"
            if f.init:
                default = "" if not has_default else " = _missing" if made else f" = _default{k}"
                (by_keyword if f.kw_only else by_position).append(f.name + default)
            elif not has_default:
                continue  # `__post_init__` sets it
            elif not made:
                value = f"_default{k}"
            lines.append(f"_set(self, {f.name!r}, {value})" if frozen else f"self.{f.name} = {value}")
        if hasattr(cls, "__post_init__"):
            lines.append("self.__post_init__()")
        parameters = ["self", *by_position, *(["*", *by_keyword] if by_keyword else [])]
        exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(lines or ["pass"]), scope)
        made = scope["__init__"]
        made.__qualname__ = f"{cls.__qualname__}.__init__"
        made.__annotations__ = {f.name: f.type for f in fields(cls) if f.init} | {"return": None}
        return made

    def _key(names):
        """A function that gives the values to compare as a tuple."""
        if len(names) > 1:
            return attrgetter(*names)
        if not names:
            return lambda record: ()
        get = attrgetter(*names)
        return lambda record: (get(record),)

    def _equality(key):
        def __eq__(self, other):
            return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

        return __eq__

    def _hash(key):
        def __hash__(self):
            return hash(key(self))

        return __hash__

    @recursive_repr()
    def _repr(self):
        shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)
        return f"{self.__class__.__qualname__}({shown})"

    def _no_assignment(self, name, value):
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def _no_deletion(self, name):
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def _state(self):
        return [getattr(self, f.name) for f in fields(self)]

    def _restore(self, state):
        for f, value in zip(fields(self), state, strict=True):
            object.__setattr__(self, f.name, value)
