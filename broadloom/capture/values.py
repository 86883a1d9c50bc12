"""Tracked values: what the abstract evaluator computes with.

What goes in and out: Python values as the captured program would have them. Constants (None, bool, int, float,
complex, str, bytes, Ellipsis, NumPy scalars, ranges) stand for themselves; arrays and NumPy scalars that exist at
run time are `ArrayHandle`s, symbolic ints are `Expr`s; the classes below are everything else.

What holds: a value with a `source` existed before the call and is never changed; a value without one was made by
the captured program and may be changed freely. Two values are the same Python object only if they are one object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from enum import Enum
from types import CodeType
from typing import Any, TypeAlias

from broadloom.capture.guards import Term
from broadloom.capture.sources import FunctionGlobal, Global, Installed, Source
from broadloom.graph.storage import WeakScalar
from broadloom.records import dataclass
from broadloom.transforms.gufunc import GufuncRecord
from broadloom.transforms.vmap import Mapping as Mapped

Value: TypeAlias = Any


class Marker(Enum):
    """Stack entries that are no Python values."""

    NULL = "the empty slot of a call"
    UNBOUND = "a local without a value"
    NO_EXIT = "the exit of a context that does nothing"


@dataclass(eq=False, slots=True)
class Lazy:
    """An object reached through a source that nobody has looked at yet: no guard exists for it."""

    source: Source
    object: Any


@dataclass(eq=False, slots=True)
class Number:
    """A Python float, complex or int known only at run time. `value` is what it is in this call, None if it comes
    from array data; `term` says how guards compute it again, None if they cannot."""

    weak: WeakScalar
    value: float | complex | int | None = None
    term: Term | None = None

    @property
    def kind(self) -> str:
        return self.weak.kind


@dataclass(eq=False, slots=True)
class TupleValue:
    """A tuple or named tuple."""

    items: list[Value]
    source: Source | None = None
    type: type = tuple


@dataclass(eq=False, slots=True)
class ListValue:
    """A list."""

    items: list[Value]
    source: Source | None = None


@dataclass(eq=False, slots=True)
class DictValue:
    """A dict with constant keys. `external`: the real dict behind `source`, whose entries become lazy values when
    they are asked for; `complete` when all of its keys are guarded."""

    items: dict[Any, Value]
    source: Source | None = None
    external: dict[Any, Any] | None = None
    complete: bool = True


@dataclass(eq=False, slots=True)
class SetValue:
    """A set or frozenset of constants."""

    items: set[Any]
    frozen: bool = False
    source: Source | None = None


@dataclass(eq=False, slots=True)
class SliceValue:
    """A slice."""

    start: Value
    stop: Value
    step: Value
    source: Source | None = None


@dataclass(eq=False, slots=True)
class ObjectValue:
    """An object known by identity: a module, class, C function, ufunc, dtype, enum member."""

    object: Any
    source: Source | None = None


@dataclass(eq=False, slots=True)
class InstanceValue:
    """An instance of a class, known by its type; attributes are read as they are needed. Instances made by the
    program have no source and keep their attributes in `made`."""

    type: type
    object: Any = None
    source: Source | None = None
    made: dict[str, Value] | None = None
    class_source: Source | None = None


@dataclass(eq=False, slots=True)
class CellValue:
    """A closure cell; `external` cells belong to functions that existed before and are not written."""

    content: Value = Marker.UNBOUND
    external: bool = False


@dataclass(frozen=True, slots=True)
class Namespace:
    """A global namespace and how to name its entries: by `Global` for the compiled function's own."""

    mapping: Mapping[str, Any]
    function: Source | None = None

    def source(self, name: str) -> Source:
        module = self.mapping.get("__name__")
        if isinstance(module, str) and module.startswith("broadloom."):
            return Installed(module, name)
        return Global(name) if self.function is None else FunctionGlobal(self.function, name)


@dataclass(eq=False, slots=True)
class FunctionValue:
    """A Python function."""

    code: CodeType
    namespace: Namespace
    name: str
    defaults: list[Value] = field(default_factory=list)
    keyword_defaults: dict[str, Value] = field(default_factory=dict)
    closure: list[CellValue] = field(default_factory=list)
    source: Source | None = None
    object: Any = None


@dataclass(eq=False, slots=True)
class MethodValue:
    """A Python function bound to a first argument."""

    function: Value
    receiver: Value
    source: Source | None = None


@dataclass(eq=False, slots=True)
class NativeMethod:
    """A method of a built-in type or array, bound to its receiver."""

    receiver: Value
    name: str


@dataclass(eq=False, slots=True)
class PartialValue:
    """A `functools.partial`."""

    function: Value
    args: list[Value]
    kwargs: dict[str, Value]
    source: Source | None = None


@dataclass(eq=False, slots=True)
class MappedValue:
    """A function mapped by `vmap`."""

    function: Value
    mapping: Mapped
    source: Source | None = None


@dataclass(eq=False, slots=True)
class GufuncValue:
    """A gufunc of the user."""

    function: Value
    record: GufuncRecord
    source: Source | None = None


@dataclass(eq=False, slots=True)
class IteratorValue:
    """An iterator over tracked values, consumed once."""

    iterator: Iterator[Value]


@dataclass(eq=False, slots=True)
class SuperValue:
    """`super()` in a method: attributes are looked up behind `owner` in the order of the receiver's type."""

    owner: type
    receiver: Value


@dataclass(eq=False, slots=True)
class ContextValue:
    """A context manager that compiled code may ignore (`np.errstate`)."""

    name: str
