# ruff: noqa: C416, PLC0415, PLW0603, RUF059 - the constructs are what is tested
"""Refusals: each kind of code that cannot be captured gives a record with its code, the user's line and a remedy, and
leaves everything as it was. PYTEST_DONT_REWRITE: an assert is one of the constructs."""

from __future__ import annotations

import datetime
import decimal
import math
import random
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import broadloom as bl
from broadloom.capture.breaks import Break, Code
from broadloom.errors import GraphBreakError, Location

RNG = np.random.default_rng(0)
STATE: dict[str, Any] = {"n": 0}
TOTAL = 0
Case = tuple[Code, Callable[..., Any], Callable[[], tuple[Any, ...]]]
CASES: list[Case] = []
TOUCHED: list[str] = []


def refused(code: Code, make: Callable[[], tuple[Any, ...]]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function whose last line is refused with `code`."""

    def enter(fn: Callable[..., Any]) -> Callable[..., Any]:
        CASES.append((code, fn, make))
        return fn

    return enter


def v() -> tuple[np.ndarray]:
    return (np.arange(4.0),)


class Thing:
    def __init__(self) -> None:
        self.x = np.arange(3.0)

    def __getattr__(self, name: str) -> int:
        TOUCHED.append(name)
        return 3


class Watched:
    def __init__(self) -> None:
        self.items: list[Any] = []
        self.w = 1.0

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


class Descriptor:
    def __get__(self, instance: Any, owner: Any) -> int:
        TOUCHED.append("get")
        return 3


class Managed:
    def __enter__(self) -> None:
        TOUCHED.append("enter")

    def __exit__(self, *error: object) -> None:
        TOUCHED.append("exit")


class Described:
    d = Descriptor()


# ---- control flow on data -------------------------------------------------------------------------------------------


@refused(Code.ARRAY_CONDITION, v)
def array_in_if(x):
    if x.sum() > 0:
        return x
    return -x


@refused(Code.ARRAY_CONDITION, v)
def array_in_while(x):
    while x.any():
        x = x - 1
    return x


@refused(Code.ARRAY_CONDITION, v)
def array_in_and(x):
    return x[0] and x[1]


@refused(Code.ARRAY_CONDITION, v)
def array_in_assert(x):
    assert x.max() > 0
    return x


@refused(Code.ARRAY_CONDITION, v)
def array_in_not(x):
    return not x[0]


@refused(Code.ARRAY_CONDITION, v)
def array_in_max(x):
    return max(x[0], x[1])


@refused(Code.ARRAY_CONDITION, v)
def array_in_bool(x):
    return bool(x[0])


@refused(Code.ARRAY_CONDITION, v)
def float_of_data_in_if(x):
    return 1 if float(x[0]) > 2 else 0


@refused(Code.ARRAY_CONDITION, v)
def item_in_array(x):
    return 3 in x


@refused(Code.DATA_DEPENDENT, v)
def range_over_data(x):
    return [i for i in range(int(x.astype(int).sum()))]


@refused(Code.DATA_DEPENDENT, v)
def data_in_format(x):
    return f"{x[0]}"


@refused(Code.DATA_DEPENDENT, v)
def data_as_list_index(x):
    return [1, 2, 3][x.astype(int)[0]]


@refused(Code.DATA_DEPENDENT, v)
def data_through_math(x):
    return math.sqrt(x[1])


@refused(Code.DATA_DEPENDENT, v)
def tolist(x):
    return x.tolist()


# ---- calls ----------------------------------------------------------------------------------------------------------


@refused(Code.UNKNOWN_CALL, lambda: (np.arange(3.0), decimal.Decimal(2)))
def unknown_object(x, amount):
    return x, amount.sqrt()


@refused(Code.RANDOM, v)
def random_generator(x):
    return x + RNG.normal(size=4)


@refused(Code.RANDOM, v)
def random_legacy(x):
    return x + np.random.rand(4)


@refused(Code.RANDOM, v)
def random_python(x):
    return x * random.random()


@refused(Code.RANDOM, v)
def random_python_function(x):
    return x * random.choice([1, 2])


@refused(Code.CLOCK, v)
def clock(x):
    return x * time.time()


@refused(Code.CLOCK, v)
def calendar(x):
    return x * datetime.datetime.now().year


@refused(Code.SIDE_EFFECT, v)
def printing(x):
    print("hello")
    return x


@refused(Code.SIDE_EFFECT, v)
def opening(x):
    return open("/nonexistent/broadloom")


@refused(Code.SIDE_EFFECT, v)
def writing_to_stdout(x):
    return sys.stdout.write("x")


@refused(Code.SIDE_EFFECT, v)
def importing_something_new(x):
    import this

    return this


@refused(Code.UNSUPPORTED_NUMPY, v)
def unsupported_function(x):
    return np.unwrap(x)


@refused(Code.UNSUPPORTED_NUMPY, v)
def operator_method_with_keywords(x):
    return x.__add__(x, casting="unsafe")


@refused(Code.UNSUPPORTED_PYTHON, v)
def list_method_with_keywords(x):
    return [x].append(object=1)


@refused(Code.UNSUPPORTED_PYTHON, v)
def list_method_with_more_arguments(x):
    return x * [1, 2, 1].index(1, 1)


@refused(Code.UNSUPPORTED_NUMPY, v)
def numpy_raises(x):
    return x + np.zeros(3)


@refused(Code.UNSUPPORTED_NUMPY, lambda: (np.arange(4), 0.5))
def same_kind_cast(x, f):
    x += f
    return x


# ---- mutation of what existed before --------------------------------------------------------------------------------


@refused(Code.EXTERNAL_MUTATION, lambda: (np.arange(3.0), []))
def append_to_argument(x, items):
    x[0] = 5
    items.append(x)


@refused(Code.EXTERNAL_MUTATION, lambda: ({"a": 1},))
def set_item_of_argument(d):
    d["b"] = 2


@refused(Code.EXTERNAL_MUTATION, lambda: (Watched(), 1.0))
def set_attribute(o, x):
    o.w = x


@refused(Code.EXTERNAL_MUTATION, lambda: (Watched(), 1.0))
def augmented_attribute(o, x):
    o.items += [x]


@refused(Code.EXTERNAL_MUTATION, v)
def write_a_global(x):
    global TOTAL
    TOTAL = x


@refused(Code.EXTERNAL_MUTATION, v)
def write_into_a_global(x):
    STATE["n"] += 1


def _make_nonlocal():
    n = 0

    def count(x):
        nonlocal n
        n += 1
        return x * n

    return count


write_a_nonlocal = _make_nonlocal()
CASES.append((Code.EXTERNAL_MUTATION, write_a_nonlocal, v))


# ---- the language ---------------------------------------------------------------------------------------------------


@refused(Code.RAISES, v)
def raising(x):
    raise ValueError("always")


@refused(Code.RAISES, lambda: (3,))
def failing_assert(n):
    assert n == 4


@refused(Code.RAISES, lambda: ({"a": 1},))
def missing_key(d):
    return d["b"]


@refused(Code.RAISES, lambda: ([1, 2],))
def missing_item(items):
    return items[5]


@refused(Code.RAISES, lambda: (1.0,))
def zero_division(f):
    return f / 0


@refused(Code.RAISES, lambda: (-1.0,))
def domain_error(f):
    return math.sqrt(f)


@refused(Code.RAISES, v)
def missing_attribute(x):
    return x.nonsense


@refused(Code.RAISES, v)
def unbound_local(x):
    if x.ndim == 2:
        y = 1
    return y


@refused(Code.RAISES, v)
def undefined_name(x):
    return no_such_name(x)  # noqa: F821


@refused(Code.RAISES, lambda: ((1, 2, 3),))
def bad_unpacking(t):
    a, b = t


@refused(Code.UNSUPPORTED_PYTHON, lambda: (Thing(),))
def dynamic_attribute(o):
    return o.anything


@refused(Code.UNSUPPORTED_PYTHON, lambda: (Described(),))
def user_descriptor(o):
    return o.d


class Proxy:
    @property
    def __class__(self):  # type: ignore[override]
        TOUCHED.append("class")
        return np.ndarray

    def __eq__(self, other: object) -> bool:
        TOUCHED.append("eq")
        return True

    __hash__ = None  # type: ignore[assignment]


@refused(Code.RAISES, lambda: (Proxy(), {"p": Proxy()}))
def pretender(p, d):
    return d["p"] if p is None else p + 1


class Meta(type):
    def __instancecheck__(cls, instance: object) -> bool:
        TOUCHED.append("instancecheck")
        return True


class Checked(metaclass=Meta):
    pass


@refused(Code.UNSUPPORTED_PYTHON, v)
def user_instance_check(x):
    return isinstance(x, Checked)


@refused(Code.UNSUPPORTED_PYTHON, v)
async def coroutine(x):
    return x


@refused(Code.RESULT, v)
def generator(x):
    yield x


@refused(Code.UNSUPPORTED_TYPE, lambda: ((i for i in range(3)),))
def foreign_generator(g):
    return sum(g)


@refused(Code.UNSUPPORTED_TYPE, lambda: (decimal.Decimal(0),))
def truth_of_a_c_object(d):
    return 1 if d else 2


@refused(Code.UNSUPPORTED_TYPE, lambda: (decimal.Decimal(0), decimal.Decimal(0)))
def equality_of_c_objects(d, e):
    return d == e


@refused(Code.UNSUPPORTED_PYTHON, v)
def other_context(x):
    with Managed():
        return x


@refused(Code.UNSUPPORTED_PYTHON, v)
def class_inside(x):
    class A:
        pass

    return x


@refused(Code.TOO_LONG, v)
def endless(x):
    while True:
        pass


def _recursive(x):
    return _recursive(x)


@refused(Code.TOO_LONG, v)
def endless_recursion(x):
    return _recursive(x)


@refused(Code.TOO_LONG, lambda: (10, 100000))
def enormous(a, b):
    return a**b


@refused(Code.TOO_LONG, lambda: ([0.5] * 2000,))
def many_floats(items):
    return np.array(items)


@refused(Code.TOO_LONG, lambda: (np.arange(3.0), list(range(30_000))))
def many_ints(x, items):
    return x + sum(items)


@refused(Code.RESULT, v)
def function_made_inside(x):
    return lambda: x


# ---- arrays that compiled code does not take ------------------------------------------------------------------------


def read_only() -> tuple[np.ndarray]:
    x = np.arange(4.0)
    x.flags.writeable = False
    return (x,)


@refused(Code.READ_ONLY, read_only)
def write_read_only(x):
    x[0] = 1


@refused(Code.READ_ONLY, read_only)
def write_read_only_view(x):
    x[1:] += 1


@refused(Code.READ_ONLY, v)
def write_broadcast(x):
    np.broadcast_to(x, (2, 4))[0] = 1


def overlapping() -> tuple[np.ndarray, np.ndarray]:
    base = np.arange(6.0)
    return base[1:], base[:-1]


@refused(Code.OVERLAP, overlapping)
def write_overlapping(x, y):
    x[:] = y


def self_overlapping() -> tuple[np.ndarray]:
    return (np.lib.stride_tricks.as_strided(np.arange(6.0), (3, 2), (8, 8)),)


@refused(Code.OVERLAP, self_overlapping)
def write_self_overlapping(x):
    x[0, 0] = 1


ARRAY_KINDS = [
    np.ma.array([1.0, 2.0]),
    np.arange(3.0).view(np.recarray),
    np.array([1, "a"], dtype=object),
    np.array([1.0], dtype=">f8"),
    np.array([1.0], dtype=np.longdouble),
    np.array(["2020-01-01"], dtype="M8[D]"),
    np.array(["text"]),
    np.zeros(2, dtype=[("a", float)]),
    np.longdouble(3),
    np.datetime64("2020-01-01"),
]


@pytest.mark.parametrize("x", ARRAY_KINDS, ids=[f"{type(x).__name__}-{x.dtype.char}" for x in ARRAY_KINDS])
def test_kinds_of_arrays_that_are_skipped(harness, x) -> None:
    record = harness.refused(lambda x: x + 1, x)
    assert record.code is Code.ARRAY_KIND and record.skip


@pytest.mark.parametrize(("code", "fn", "make"), CASES, ids=[fn.__name__ for _, fn, _ in CASES])
def test_break(harness, capsys, code, fn, make) -> None:
    args = make()
    before = _text((args, STATE, TOTAL, RNG.bit_generator.state, TOUCHED))
    record: Break = harness.refused(fn, *args)
    assert _text((args, STATE, TOTAL, RNG.bit_generator.state, TOUCHED)) == before
    assert record.code is code, record
    assert record.skip is (code is Code.OVERLAP)
    assert capsys.readouterr().out == ""
    assert record.location is not None and record.location.file == __file__
    start = fn.__code__.co_firstlineno
    if fn is not endless_recursion:
        assert start <= record.location.line <= start + 8
    assert record.context and record.explanation and record.hint
    error = record.error()
    assert isinstance(error, GraphBreakError)
    assert str(record.location) in str(error) and record.hint in str(error)


def _text(state: Any) -> str:
    """All that a user could see, as text; looked at by type, since some of the objects watch who asks."""
    kind = type(state)
    if kind in (tuple, list):
        return f"[{', '.join(map(_text, state))}]"
    return repr(vars(state) if kind in (Watched, Thing, Described) else state)


def test_the_line_is_the_innermost(harness) -> None:
    def inner(y):
        return np.unwrap(y)

    record = harness.refused(lambda x: inner(x) + 1, np.zeros(3))
    line = inner.__code__.co_firstlineno + 1
    assert record.location == Location(__file__, line, inner.__code__.co_qualname)


def test_a_call_that_does_not_bind(harness) -> None:
    record = harness.refused(lambda x: x, 1, 2)
    assert record.code is Code.RAISES and "takes 1 positional" in record.explanation


def test_what_is_no_python_function_is_a_type_error(harness) -> None:
    with pytest.raises(TypeError, match="Python function"):
        harness.refused(np.sin, 1.0)


@pytest.mark.parametrize(
    "core",
    [
        lambda x: bl.unstack(x + 1)[0],
        lambda x: bl.nonzero(x + 1)[0],
        lambda x: bl.reshape(x + 1, (5, 5)),
        lambda x: bl.random.normal(bl.random.key(0), 0, -1) * x,
    ],
    ids=["unstack", "nonzero", "reshape", "random"],
)
def test_breaks_in_functions_of_the_package_name_the_line_that_called_them(core) -> None:
    with pytest.raises(GraphBreakError) as caught:
        bl.compile(core, fullgraph=True, dynamic=True)(np.ones((3, 3)))
    place = caught.value.location
    assert place is not None
    assert (place.file, place.line) == (__file__, core.__code__.co_firstlineno)
