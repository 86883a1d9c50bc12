"""Records: dataclasses that are made cheaply behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar

import pytest

import broadloom
from broadloom import records

OPTIONS = [
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "eq": False},
    {"frozen": True, "slots": True, "kw_only": True},
    {"frozen": True},
    {"slots": True},
    {"slots": True, "eq": False},
    {},
]


def classes(dataclass: Callable[..., Any], options: dict[str, bool]) -> tuple[type, type, type]:
    """A base, a class derived from it, and one with methods of its own."""

    @dataclass(**options)
    class Base:
        kind: ClassVar[str] = "base"
        x: int
        y: tuple[int, ...] = ()

    @dataclass(**options)
    class Derived(Base):
        z: list[int] = field(default_factory=list)
        note: str = field(default="", compare=False, repr=False)
        total: int = field(init=False)
        memo: object = field(default=None, init=False, compare=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "total", self.x + len(self.y))

    @dataclass(**options)
    class Own:
        x: float

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

        def __repr__(self) -> str:
            return "own"

    return Base, Derived, Own


def outcome(call: Callable[[], Any]) -> object:
    try:
        return call()
    except (TypeError, AttributeError) as error:
        return type(error), str(error).rpartition(".")[2]


PROBES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "repr": lambda b, d, o: (repr(b(x=1)), repr(d(x=1, y=(2,), note="n")), repr(o(x=1.0))),
    "defaults": lambda b, d, o: (d(x=1).z, d(x=1).z is not d(x=1).z, d(x=1).note, d(x=1, y=(1, 2)).total, b.kind),
    "positions": lambda b, d, o: (b(1, (2,)).y, d(1, (2,), [3]).z),
    "missing": lambda b, d, o: b(),
    "unknown": lambda b, d, o: b(x=1, w=2),
    "signature": lambda b, d, o: [str(inspect.signature(c)).replace("<factory>", "_") for c in (b, o)],
    "equal": lambda b, d, o: (b(x=1) == b(x=1), b(x=1) == b(x=2), b(x=1) == d(x=1), d(x=1, note="p") == d(x=1)),
    "other": lambda b, d, o: (b(x=1) == 1, b(x=1) != 1, o(x=1.0) == 5),
    "hash": lambda b, d, o: (hash(b(x=1)) == hash(b(x=1)), hash(o(x=1.0))),
    "set": lambda b, d, o: setattr(b(x=1), "x", 2),
    "new": lambda b, d, o: outcome(lambda: setattr(b(x=1), "w", 2)) is None,
    "delete": lambda b, d, o: delattr(b(x=1), "x"),
    "fields": lambda b, d, o: [(f.name, f.type, f.init, f.compare) for f in dataclasses.fields(d)],
    "replace": lambda b, d, o: dataclasses.replace(d(x=1, y=(1,)), x=5).total,
    "match": lambda b, d, o: d.__match_args__,
    "slots": lambda b, d, o: (
        hasattr(b(x=1), "__dict__"),
        getattr(b, "__slots__", None),
        getattr(d, "__slots__", None),
    ),
    "copy": lambda b, d, o: (repr(copy.copy(d(x=1, z=[3]))), repr(copy.deepcopy(d(x=1, z=[3])))),
    "dict": lambda b, d, o: dataclasses.asdict(d(x=1, z=[3])),
    "name": lambda b, d, o: b.__init__.__qualname__.rpartition(".")[2],
}


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("probe", PROBES)
def test_as_the_standard_library_has_it(probe: str, options: dict[str, bool]) -> None:
    standard, ours = classes(dataclasses.dataclass, options), classes(records.dataclass, options)
    expected = outcome(lambda: PROBES[probe](*standard))
    assert outcome(lambda: PROBES[probe](*ours)) == expected


def test_a_record_that_holds_itself_prints() -> None:
    @records.dataclass
    class Node:
        inside: object = None

    node = Node()
    node.inside = node
    assert repr(node).endswith("Node(inside=...)")


def test_frozen_records_pickle() -> None:
    guard = broadloom.errors.Location("f.py", 3, "f")
    assert pickle.loads(pickle.dumps(guard)) == guard


def test_defining_a_record_compiles_one_method() -> None:
    """What makes the import cheap: no class has a compiled `__eq__`, `__hash__`, `__repr__` or `__setattr__`."""
    found = 0
    for module in pkgutil.walk_packages(broadloom.__path__, "broadloom."):
        if module.name.endswith("__main__"):
            continue
        for cls in vars(importlib.import_module(module.name)).values():
            if isinstance(cls, type) and cls.__module__ == module.name and dataclasses.is_dataclass(cls):
                found += 1
                for name in ("__eq__", "__hash__", "__repr__", "__setattr__", "__delattr__"):
                    code = getattr(vars(cls).get(name), "__code__", None)
                    assert code is None or code.co_filename != "<string>", (
                        f"{cls.__name__}: import dataclass from broadloom.records"
                    )
    assert found > 150
