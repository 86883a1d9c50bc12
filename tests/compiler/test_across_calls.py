"""What changes between two calls of one compiled function: it follows, and what it keeps of the calls is bounded."""

from __future__ import annotations

import signal
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import broadloom as bl
from broadloom.compiler.refusals import STOPS
from broadloom.compiler.report import LATEST

REPLACED: Any = None
SPECIAL: dict[str, Any] = {
    "__bool__": lambda self: False,
    "__len__": lambda self: 0,
    "__getattribute__": lambda self, name: 7.0 if name == "w" else object.__getattribute__(self, name),
    "__getattr__": lambda self, name: 11.0,
    "__eq__": lambda self, other: True,
    "__ne__": lambda self, other: False,
    "__add__": lambda self, other: other - 3.0,
    "__iadd__": lambda self, other: other - 4.0,
    "__array_ufunc__": None,
}


def plain_class():
    class Plain:
        w = 2.0

        def __radd__(self, other):
            return other + 5.0

    return Plain


def uses(thing, x):
    if thing:
        x = x + 1.0
    if thing == 3:
        x = x * 2.0
    if thing != 3:
        x = x * 3.0
    if hasattr(thing, "absent"):
        x = x + thing.absent
    return x * thing.w


def adds(thing, x):
    thing += x
    return thing


def adds_to_array(thing, x):
    return 1.0 + thing + x


def makes(cls, x):
    made = cls()
    made.v = x * 2.0
    return made.v + 1.0


def plainly(function, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*args)
        except (TypeError, ValueError) as error:
            return type(error)


def agree(compiled, function, *args):
    np.testing.assert_array_equal(plainly(compiled, *args), plainly(function, *args))


@pytest.mark.parametrize("function", [uses, adds, adds_to_array])
@pytest.mark.parametrize("name", SPECIAL)
def test_special_method_that_comes_and_goes(function, name):
    cls, x = plain_class(), np.arange(4.0)
    compiled = bl.compile(function)
    agree(compiled, function, cls(), x)
    setattr(cls, name, SPECIAL[name])
    agree(compiled, function, cls(), x)
    delattr(cls, name)
    agree(compiled, function, cls(), x)


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("__init__", lambda self, *args: setattr(self, "u", 1)),
        ("__init__", lambda self, needed: None),
        ("__setattr__", lambda self, name, value: object.__setattr__(self, name, value - 1.0)),
        ("__getattribute__", lambda self, name: np.float64(4.0)),
        ("__new__", staticmethod(lambda cls: plain_class()())),
        ("v", property(lambda self: np.float64(9.0), lambda self, value: None)),
    ],
)
def test_class_of_an_object_made_inside_that_changes(name, method):
    cls, x = plain_class(), np.arange(4.0)
    compiled = bl.compile(makes)
    agree(compiled, makes, cls, x)
    setattr(cls, name, method)
    agree(compiled, makes, cls, x)


def test_arguments_that_hold_themselves_or_are_deeply_nested():
    def f(x, extra):
        return x * 2.0

    def g(x, extra):
        return x * 2.0 if x.sum() > 0 else x

    own: list[Any] = []
    own.append(own)
    deep: list[Any] = []
    for _ in range(20_000):
        deep = [deep]
    for function in (f, g):
        compiled = bl.compile(function)
        for extra in (own, deep, [own, deep], (own,), list(range(1000))):
            agree(compiled, function, np.arange(3.0), extra)
            agree(compiled, function, np.arange(3.0), extra)


def test_memory_of_refusals_is_bounded():
    def f(x, k):
        return x * k if x.sum() > k else x

    compiled = bl.compile(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(1500):
            np.testing.assert_array_equal(compiled(np.ones(2), k), f(np.ones(2), k))
    report = compiled.report()
    assert len(report.breaks) <= LATEST and len(report.recompiles) <= LATEST
    assert len(compiled._state.refusals.stops) <= STOPS


@pytest.mark.parametrize("place", ["global", "item", "entry", "attribute", "class"])
def test_objects_that_are_replaced_while_guards_are_checked(place):
    """Python code runs between two guards, here a profiler, else another thread or a finalizer."""
    space: dict[str, Any] = {}
    exec("def f(x, a, some, held):\n    w = reached(held)\n    return x * a * w[0] if 3 in some else x, w", space)
    readers = {
        "global": lambda held: REPLACED,
        "item": lambda held: held["list"][0],
        "entry": lambda held: held["array"],
        "attribute": lambda held: held["object"].w,
        "class": lambda held: held["object"].k,
    }
    space["reached"] = readers[place]
    globals()["REPLACED"] = np.ones(3)
    cls = type("Held", (), {"k": np.ones(3)})
    held = {"list": [np.ones(3)], "array": np.ones(3), "object": cls()}
    held["object"].w = np.ones(3)

    def replace():
        globals()["REPLACED"] = held["list"][0] = held["array"] = cls.k = held["object"].w = None

    def hook(frame, event, argument):
        if frame.f_code.co_name == "check" and frame.f_code.co_filename.endswith("table.py"):
            replace()

    compiled = bl.compile(space["f"], fullgraph=True)
    x = np.arange(3.0)
    compiled(x, 2.0, {1, 2, 3}, held)
    before = sys.getprofile()
    sys.setprofile(hook)
    try:
        result = compiled(x, 2.0, {1, 2, 3}, held)
    finally:
        sys.setprofile(before)
    assert held["array"] is None
    np.testing.assert_array_equal(result, (x * 2.0, np.ones(3)))


class Alarm(Exception):
    pass


@pytest.mark.parametrize("kind", [KeyboardInterrupt, Alarm])
@pytest.mark.parametrize("place", ["check", "capture", "cache_key"])
def test_what_a_signal_handler_raises_reaches_the_caller(place, kind):
    def handler(number, frame):
        raise kind

    def hook(frame, event, argument):
        if frame.f_code.co_name == place and event == "call":
            signal.raise_signal(signal.SIGALRM)

    def f(x, some):
        return x * 2.0 if 3 in some else x

    compiled = bl.compile(f, fullgraph=True)
    x, some = np.ones(3), {1, 2, 3}
    if place == "check":
        compiled(x, some)
    before = signal.signal(signal.SIGALRM, handler), sys.getprofile()
    sys.setprofile(hook)
    try:
        with pytest.raises(kind):
            compiled(x, some)
    finally:
        sys.setprofile(before[1])
        signal.signal(signal.SIGALRM, before[0])
    np.testing.assert_array_equal(compiled(x, some), f(x, some))
    assert len(compiled.report().compiles) == 1 and not compiled.report().breaks
