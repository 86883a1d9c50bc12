# ruff: noqa: B905, C405, C409, C416, PLC0415, RUF005, UP031, SIM905 - the table is there to hold every way of writing it
"""A table of Python constructs: each captured whole, equal to the plain function in every respect, under static and
under symbolic sizes."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
import pytest

from broadloom.capture.context import Policy

CASES: list[tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = []


def case(make: Callable[[], tuple[Any, ...]]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function with the maker of its arguments."""

    def enter(fn: Callable[..., Any]) -> Callable[..., Any]:
        CASES.append((fn, make))
        return fn

    return enter


def vector(n: int = 6) -> np.ndarray:
    return np.arange(n, dtype=np.float64) + 1


def matrix() -> np.ndarray:
    return np.arange(12.0).reshape(3, 4) / 3


SCALE = 2.5
COUNT = 3
TABLE = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
Point = namedtuple("Point", ["x", "y"])


class Colour(Enum):
    RED = 1
    BLUE = 2


# ---- arguments, globals, results ------------------------------------------------------------------------------------


@case(lambda: (vector(),))
def identity(x):
    return x


@case(lambda: (vector(), {"k": vector(3)}, [1, "s", None]))
def nested_identity(x, d, items):
    return {"x": x, "d": d, "first": items[0], "all": items, "k": d["k"]}


@case(lambda: (vector(), 2.0, 3, True, None, "mean"))
def scalars(x, f, i, b, n, s):
    y = x * f + i
    if b:
        y = y + 1
    if n is None and s == "mean":
        return y.mean(), f, i, b, n, s
    return y


@case(lambda: (vector(),))
def globals_of_all_kinds(x):
    return x * SCALE + COUNT + TABLE


@case(lambda: (vector(), math.nan, -0.0, 1j, np.float32(3), np.int8(100)))
def special_scalars(x, nan, zero, j, f, i):
    return x * nan, x * 0 + zero, np.copysign(x, zero), x + j, x.astype(np.float32) * f, i + i, x + f


@case(lambda: (vector(),))
def default_arguments(x, a=2.0, *, b=None, c=3):
    return x * a + c if b is None else b


@case(lambda: (vector(), vector(), vector()))
def star_arguments(x, *rest, **more):
    total = x
    for r in rest:
        total = total + r
    return total, len(rest), len(more)


def _keyword_arguments(x, *rest, scale=1.0, **more):
    x = x * scale
    for name, value in more.items():
        x = x + value * len(name)
    return x, sorted(more), more


@case(lambda: (vector(), vector()))
def same_storage_results(x, y):
    z = x + y
    return z, z[1:], z.reshape(2, 3), z.T, [z, z], (z[::2], z[1:])


@case(lambda: (matrix(),))
def views_of_arguments(x):
    return x.T, x[1], x[1:, ::-1], x.reshape(4, 3), x[:, None], x.ravel(), x[...], x[0, 0], x.diagonal()


@case(lambda: (matrix(),))
def scalars_and_zero_d(x):
    return x.sum(), x[1, 2], np.sum(x, axis=0, keepdims=True), np.array(3.5), np.asarray(x.max()), x.mean()


@case(lambda: ())
def constants_are_fresh():
    return np.zeros(3), np.arange(4), np.array([1, 2, 3]), [1, 2], {"a": (1, 2)}, 1, "s", None, np.pi, 1.5, -0.0


@case(lambda: (vector(),))
def python_numbers_out(x):
    return float(x.sum()), x.shape, x.ndim, len(x), x.size, x.dtype, x.nbytes, int(x.astype(np.int64).sum())


@case(lambda: (vector(3), 0.5))
def named_tuples(x, f):
    p = Point(x * f, y=2)
    return p, p.x + p.y, p._replace(y=x), p[0]


@case(lambda: (Point(vector(3), 2.0),))
def named_tuple_argument(p):
    a, b = p
    return a * b, p.x + p.y, p, len(p)


@case(lambda: (vector(),))
def slices_as_values(x):
    s = slice(1, 4)
    t = slice(None, None, 2)
    return x[s], x[t], s.start, s, x[s][t]


@case(lambda: (vector(), slice(1, None, 2), range(1, 3), (0, 2)))
def slice_arguments(x, s, r, pair):
    return x[s], [x[i] for i in r], x[pair[0] : pair[1]], list(r)


# ---- control flow ---------------------------------------------------------------------------------------------------


@case(lambda: (vector(), 3))
def loops(x, n):
    total = np.zeros_like(x)
    for i in range(n):
        if i == 1:
            continue
        total = total + x * i
    total = total + 100
    while n > 0:
        n -= 1
        total = total + n
        if n == 1:
            break
    return total


@case(lambda: ([vector(2), vector(3), vector(4)], (1, 2.0, 3)))
def loop_kinds(arrays, factors):
    out = []
    for i, (a, f) in enumerate(zip(arrays, factors)):
        out.append(a * f + i)
    for a in reversed(arrays):
        out.append(a.sum())
    for key, value in {"a": 1, "b": 2}.items():
        out.append(key * value)
    for key in {"x": 1}:
        out.append(key)
    for ch in "ab":
        out.append(ch)
    return out


@case(lambda: (matrix(),))
def loop_over_an_array(x):
    total = 0
    for row in x:
        total = total + row * row[0]
    for i, row in enumerate(x):
        total = total + i * row
    a, b, c = x
    first, *rest = x
    return total, a, b + c, first, rest, list(x)


@case(lambda: (vector(),))
def comprehensions(x):
    squares = [x * i for i in range(4) if i % 2 == 0]
    table = {i: x + i for i in range(3)}
    letters = {len(s) for s in ("a", "bb", "cc")}
    total = sum(x[i] for i in range(3))
    nested = [[i * j for j in range(2)] for i in range(2)]
    scope = 5
    shadow = [scope for scope in range(3)]
    return squares, table, sorted(letters), total, nested, scope, shadow, tuple(v for v in (1, 2))


@case(lambda: (vector(),))
def generators(x):
    def count(n):
        i = 0
        while i < n:
            yield x * i
            i += 1

    def chain(n):
        yield from count(n)
        yield x

    return list(chain(2)), sum(count(3)), next(count(1)), max(len(v) for v in count(2))


@case(lambda: (vector(), None))
def conditional_expressions(x, y):
    a = x if y is None else y
    b = y or 3
    c = x.ndim == 1 and x.shape[0] > 2
    d = 1 < x.ndim + 1 <= 3
    e = not c
    assert c, "never"
    return a, b, c, d, e


@case(lambda: (vector(),))
def try_without_raising(x):
    try:
        y = x + 1
    except ValueError:
        y = x
    else:
        y = y * 2
    finally:
        z = y - 1
    with np.errstate(divide="ignore"):
        w = 1 / z
    return y, z, w


@case(lambda: (vector(), "double"))
def matching(x, how):
    if how in ("double", "twice"):
        x = x * 2
    match how:
        case "half":
            x = x / 2
        case "double":
            x = x + 1
        case _:
            x = x - 1
    match x.shape:
        case (n,):
            return x, n
        case _:
            return x


# ---- functions ------------------------------------------------------------------------------------------------------


def helper(x, k=2, *, shift=0.0):
    return x * k + shift


def compose(*functions):
    def composed(x):
        for f in functions:
            x = f(x)
        return x

    return composed


double_then_sin = compose(lambda v: v * 2, np.sin)


def factorial(n, x):
    return x if n == 0 else factorial(n - 1, x * n)


@case(lambda: (vector(),))
def inlined_functions(x):
    return helper(x), helper(x, 3), helper(x, shift=1.5), helper(*[x], k=4), double_then_sin(x), factorial(3, x)


@case(lambda: (vector(), lambda v: v + 1, np.cos, functools.partial(helper, k=5)))
def function_arguments(x, f, g, p):
    return f(x), g(x), p(x), (lambda a, b=3: a * b)(x)


def keywords(**given):
    return given


@case(lambda: (vector(),))
def keywords_of_every_name(x):
    made = dict([("a", x)], c=x, self=2)
    made.update(c=x + 1, v=3, args=x, function=4)
    later = functools.partial(keywords, c=x, function=1, args=2)
    return made, later(self=x, kwargs=3), keywords(c=1, name=x, receiver=2)


@case(lambda: (vector(), 2.5, 3, 1 - 2j))
def parts_of_python_numbers(x, f, n, z):
    return np.real(f), np.imag(f), np.real(n), np.imag(n), np.real(z), np.imag(z), x * np.imag(z), np.real(x[0])


@case(lambda: (vector(),))
def closures(x):
    scale = 2.0

    def inner(y):
        nonlocal scale
        scale = scale + 1
        return y * scale

    first = inner(x)

    def adder(n):
        return lambda v: v + n

    return first, inner(x), scale, adder(4)(x), [f(x) for f in (adder(1), adder(2))]


@case(lambda: (vector(),))
def imports_inside(x):
    import math as m

    import numpy
    from numpy import cos, linalg
    from numpy.linalg import norm

    return numpy.sin(x) * m.pi, cos(x), linalg.norm(x), norm(x)


@case(lambda: (vector(), vector()))
def operator_module(x, y):
    return (
        operator.add(x, y),
        operator.mul(x, 2),
        operator.neg(x),
        functools.reduce(operator.add, [x, y, x]),
        operator.getitem(x, 1),
        operator.lt(x, y),
        np.ndarray.__add__(x, y),
        np.ndarray.sum(x),
    )


# ---- classes --------------------------------------------------------------------------------------------------------


class Layer:
    gain = 2.0

    def __init__(self, n):
        self.w = vector(n)
        self.config = {"bias": 0.5, "name": "layer"}
        self.children = []

    @property
    def doubled(self):
        return self.w * 2

    @staticmethod
    def square(v):
        return v * v

    @classmethod
    def make(cls, v):
        return v * cls.gain

    def __call__(self, x):
        return self.forward(x) + self.config["bias"]

    def forward(self, x):
        return x * self.w * self.gain

    def __getitem__(self, i):
        return self.w[i]

    def __len__(self):
        return len(self.w)

    def __matmul__(self, other):
        return self.w * other

    def __contains__(self, item):
        return item == 3


class Deeper(Layer):
    def forward(self, x):
        return super().forward(x) + 1


@case(lambda: (Layer(6), vector()))
def instances(layer, x):
    y = layer(x) + layer.doubled + layer.square(x) + layer.make(x) + Layer.make(x) + Layer.square(x)
    return y, layer[1:], len(layer), layer @ x, layer.w, 3 in layer, isinstance(layer, Layer), hasattr(layer, "nothing")


@case(lambda: (Deeper(6), vector()))
def inheritance(layer, x):
    return layer(x), type(layer) is Deeper, getattr(layer, "missing", 7), layer.config.get("none", 3)


@dataclass
class State:
    position: Any
    speed: Any = 2.0
    names: list[str] = field(default_factory=lambda: ["a"])

    def moved(self, dt):
        return State(self.position + self.speed * dt, self.speed)


@dataclass(frozen=True)
class Frozen:
    a: Any
    b: int = 2


@case(lambda: (State(vector()), 0.5))
def dataclasses_inside(state, dt):
    new = state.moved(dt)
    again = State(position=new.position, speed=3.0)
    again.speed = 4.0
    frozen = Frozen(new.position)
    return new.position, again.position * again.speed, frozen.a + frozen.b


class Counter:
    def __init__(self, x):
        self.x = x
        self.n = 0

    def step(self, y):
        self.n += 1
        self.x = self.x + y
        return self


@case(lambda: (vector(),))
def objects_inside(x):
    c = Counter(x)
    c.step(x).step(1)
    return c.x, c.n


@case(lambda: (vector(), Colour.RED))
def enums(x, colour):
    if colour is Colour.RED:
        x = x + colour.value
    return x, colour == Colour.BLUE, colour


# ---- containers -----------------------------------------------------------------------------------------------------


@case(lambda: (vector(), [1, 2, 3], {"a": 1, "b": 2.0}))
def container_methods(x, items, d):
    a = []
    a.append(x)
    a.extend([x + 1, x + 2])
    a.insert(0, x - 1)
    last = a.pop()
    a += [last]
    b = a[1:3]
    a[0] = x * 9
    copied = list(items)
    copied.reverse()
    e = dict(d)
    e["c"] = x
    e.update(z=3)
    e |= {"y": 4}
    removed = e.pop("a")
    keys = list(e)
    del e["b"]
    s = {1, 2} | {3}
    s.add(4)
    return a, b, copied, e, removed, keys, sorted(s), 2 in items, "b" in d, d["b"] * x, len(d), items + [4], (1,) + (2,)


@case(lambda: (vector(), {"w": vector(), "b": {"inner": 2.0}}))
def parameters(x, params):
    y = x * params["w"] + params["b"]["inner"]
    return y, {k: v for k, v in params.items()}, params.get("none"), [k for k in params]


@case(lambda: (vector(),))
def builtins_of_python(x):
    return (
        abs(-3),
        abs(x - 3),
        max(1, 2, 3),
        min([4, 2]),
        max([1, 5, 3], key=lambda v: -v),
        sum([x, x]),
        sum([1, 2], 3),
        list(zip([1, 2], "ab")),
        list(map(lambda a, b: a + b, [1, 2], [3, 4])),
        list(filter(None, [0, 1, 2])),
        sorted([3, 1, 2], reverse=True),
        any(v > 1 for v in (1, 2)),
        all([]),
        round(2.567, 2),
        divmod(7, 2),
        pow(2, 5),
        int("12"),
        float("1.5"),
        str(3),
        bool([]),
        isinstance(x, np.ndarray),
        isinstance(3, (int, str)),
        type(x) is np.ndarray,
        callable(len),
        list(itertools.product([1, 2], repeat=2)),
        list(enumerate("ab", 1)),
        f"{3:>4}{'a'!r}{1.5:.2f}",
        "%d-%s" % (1, "b"),
        "a,b".split(","),
        " ".join(["a", "b"]),
        "abc".upper()[::-1],
        (5).bit_length(),
        complex(1, 2).imag,
        hash(3),
        divmod(x, 2),
        round(x.sum(), 1),
        next(iter([1, 2])),
        math.prod([2, 3]),
        math.floor(2.5),
        math.gcd(4, 6),
        tuple([1, 2]),
        set([1]) == {1},
    )


# ---- arithmetic on Python numbers -----------------------------------------------------------------------------------


@case(lambda: (vector(), 0.3, 4, 2.5))
def runtime_floats(x, a, n, b):
    c = a * 2 + n / 3 - b
    d = math.sqrt(b) * math.exp(-a) + math.log(b) + math.pi + math.atan2(a, b) + a**2 + b**0.5
    e = -a + abs(-b) + (a // b) + (b % a) + n * a
    if a < b and a > 0:
        c = c + 1
    return x * c, x + d, e, c, x / a, max(a, b), min(a, 1), 1.0 / b


@case(lambda: (vector(), 3))
def ints_from_shapes(x, n):
    m = x.shape[0] // 2
    rest = x.shape[0] % 4
    y = x[:m] + x[m : 2 * m]
    return (
        y,
        rest,
        m * n,
        x.reshape(-1, 1) + n,
        x.sum() / len(x),
        x / x.shape[0],
        np.zeros(m),
        -m,
        m == 3,
        x.shape == (6,),
    )


@case(lambda: (vector(), np.float64(2.0)))
def numpy_scalars(x, s):
    t = x.sum()
    return (
        t * 2,
        s + 1,
        s * x,
        t.dtype,
        s,
        -s,
        abs(s),
        t > 1,
        np.sqrt(s),
        s == 2,
        t.astype(np.int32),
        +t,
        np.float32(2) * x,
    )


# ---- writes ---------------------------------------------------------------------------------------------------------


@case(lambda: (vector(), 2.0))
def writes_to_arguments(x, a):
    x[0] = a
    x[1:3] += 1
    x *= 2
    x[::-1][0] = 7
    return x.sum()


@case(lambda: (matrix(), vector(4)))
def writes_through_views(m, v):
    row = m[1]
    row[:] = v
    m.T[0] = 5
    col = m[:, 1]
    col += 1
    m[m > 4] = 0
    d = m.reshape(-1)
    d[2] = -1
    return row, col, m.sum()


@case(lambda: (vector(), vector()))
def out_arguments(x, y):
    np.add(x, y, out=y)
    z = np.empty_like(x)
    np.multiply(x, 2, z)
    np.sin(z, out=z)
    return np.exp(x, out=x), z


@case(lambda: (vector(),))
def read_before_write(x):
    before = x[1:] * 1
    shown = x[1:]
    x[2] = 100
    return before, shown, x


@case(lambda: (lambda v: (v, v))(vector()))
def same_array_twice(x, y):
    x[0] = 9
    return x + y, x is y, y


@case(lambda: (lambda v: ([v, v], {"a": v}))(vector()))
def same_array_in_containers(items, d):
    items[0][1] = 5
    return items[1], d["a"], items[0] is d["a"]


@case(lambda: (np.arange(6, dtype=np.int8), np.arange(6, dtype=np.float32)))
def inplace_casts(i, f):
    f += 1.5
    f += i
    i += 3
    i <<= 1
    f **= 2
    f //= 2
    return f, i


@case(lambda: (lambda b: (b[1:], b[:3]))(vector()))
def overlapping_but_only_read(x, y):
    return x[:3] + y, x


@case(lambda: (np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1), np.arange(24.0).reshape(4, 6)[:, ::3]))
def layouts(x, y):
    x[0] = 1
    return x + 1, y * 2, x.copy(), y + x[:, :, 0]


@case(lambda: (np.broadcast_to(np.arange(3.0), (2, 3)), np.arange(6.0)[::-1]))
def zero_and_negative_strides(x, y):
    return x + 1, y[:3] * x, y.copy(), x.sum(axis=0)


@case(lambda: (np.frombuffer(bytes(range(49)), dtype=np.uint8)[1:].view(np.int32),))
def unaligned_and_read_only(x):
    return x + 1, x[1:]


@case(lambda: (np.zeros((0, 3)), np.zeros((1, 3)), np.float32(1.5)))
def empty_arrays(x, y, s):
    return x + 1, x.sum(axis=0), y * s, np.concatenate([x, y])


# ---- the cases of the shared list -----------------------------------------------------------------------------------


@case(lambda: ())
def axis_by_position():
    return np.arange(6).reshape(2, 3).sum(0)


@case(lambda: (np.arange(6).reshape(2, 3),))
def axis_by_position_on_argument(x):
    return x.sum(0), x.sum(1), x.max(-1)


@case(lambda: (np.array([[2, 4], [6, 8], [1, 3]]),))
def numpy_idioms(x):
    return x.sum() / len(x), x.astype(int), np.linalg.norm([3, 4, 12]), np.linspace(0, 2, 5)


@pytest.mark.filterwarnings("ignore:overflow encountered in scalar add")
@pytest.mark.parametrize(("fn", "make"), CASES, ids=[f.__name__ for f, _ in CASES])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "symbolic"])
def test_construct(harness, fn, make, dynamic) -> None:
    harness.check(fn, make, Policy(dynamic))


def test_keyword_arguments(harness, keywords) -> None:
    harness.check(_keyword_arguments, lambda: (vector(), keywords(scale=2.0, ab=1, c=vector())))


def test_every_step_has_the_line_of_the_user(harness) -> None:
    def f(x):
        y = np.sin(x)
        return helper(y)

    captured = harness.check(f, lambda: (vector(),))
    first = f.__code__.co_firstlineno
    where = [(n.location.function.rsplit(".", 1)[-1], n.location.line) for n in captured.graph.nodes]
    assert where[0] == ("f", first + 1)
    assert where[-1] == ("helper", helper.__code__.co_firstlineno + 1)
    assert all(n.location.file == __file__ for n in captured.graph.nodes)
