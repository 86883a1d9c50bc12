# ruff: noqa: B023, C405, RUF005 - ways of writing are what is tested
"""More of the table of constructs: aliasing and writes in every disguise, scopes, idioms of NumPy programs."""

from __future__ import annotations

import abc
import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from broadloom.capture.context import Policy

CASES: list[tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = []
EPS = 1e-3
NAMES = ("a", "b")
LIMITS = {"low": -1.0, "high": 5}
ALLOWED = {"relu", "tanh"}


def case(*make: Callable[[], Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function with the makers of its arguments."""

    def enter(fn: Callable[..., Any]) -> Callable[..., Any]:
        CASES.append((fn, lambda: tuple(m() for m in make)))
        return fn

    return enter


def v() -> np.ndarray:
    return np.arange(6.0) - 2


def m() -> np.ndarray:
    return np.arange(12.0).reshape(3, 4) - 5


def square() -> np.ndarray:
    return np.arange(16.0).reshape(4, 4)


# ---- aliasing and writes ---------------------------------------------------------------------------------------------


@case(m)
def rows_written_in_a_loop(x):
    for i, row in enumerate(x):
        row += i
        row[0] = -row[1]
    return x


@case(v)
def names_are_aliases(x):
    y = x
    y += 1
    a = b = np.zeros(3)
    a[0] = 1
    t = (x, [b])
    t[0][1] = 7
    t[1][0][2] = 8
    return x, y, b, t


@case(v, v)
def swapped_names(x, y):
    x, y = y, x
    x[0] = 100
    return x, y


@case(v)
def scalars_are_values_and_slices_are_views(x):
    s, view, copied = x[0], x[0:1], x[0:1].copy()
    x[0] = 100
    t = x.sum()
    t += 1
    u = np.asarray(x[1])
    was, item = float(u), u.item()
    u += 5
    return s, view, copied, t, u, was, item, x


@case(square)
def self_assignment(a):
    a[:] = a[::-1]
    a[:] = a.T
    a[1:] = a[:-1]
    a[:, 0], a[:, 1] = a[:, 1], a[:, 0].copy()
    return a


@case(v)
def duplicate_indices(x):
    x[[0, 0]] += x[[0, 0]]
    np.add.at(x, [1, 1, 2], 1.0)
    x[x < 0] *= -1
    x[np.array([3, 4])] = [10, 20]
    return x


@case(lambda: np.arange(4), lambda: np.arange(4.0))
def dtype_views(x, f):
    y = x.view(np.int32) * 3
    x[1:3] = 7
    g = f.view(np.int64)
    g[0] = 1
    return y, x, f, g


@case(m)
def views_of_views(x):
    a = x[1:]
    b = a.T
    c = b[::2]
    c[0] = 50
    a[:, -1] = 60
    return a, b, c, x.ravel(), x.reshape(2, 6)[0]


@case(v, v)
def concatenation_is_a_copy(u, w):
    c = np.concatenate([u, w])
    c[[0, 3]] = 9
    d = np.stack([u, w])
    d[0] = 1
    return c, u * 2, w * 2, d


@case(v)
def in_place_functions(x):
    np.sin(x, out=x)
    np.clip(x, -0.5, 0.5, out=x)
    y = np.zeros(6)
    y[...] = x
    np.copyto(y[:2], 3.0)
    y.fill(2)
    z = np.multiply(x, 3, out=y)
    np.add(x, 1, out=y, where=x > 0)
    return x, y, z


@case(v)
def mutated_inside_a_callee(x):
    def bump(a, by=1):
        a += by
        return a

    y = bump(x[:3])
    bump(y, by=x[4])
    return y, x


@case(lambda: [v(), v()], lambda: [v(), v()])
def optimizer(weights, gradients):
    for w, g in zip(weights, gradients, strict=True):
        w -= EPS * g
    return [w * 1 for w in weights]


@case(lambda: np.asfortranarray(m()), lambda: m()[:, ::2])
def writes_keep_layout(f, s):
    f *= 2
    s += 1
    return f + 1, s + 1, f.copy(), np.zeros_like(f), f[1:], f.T


class Trainer:
    def __init__(self):
        self.w = v()
        self.state = {"m": v(), "list": [v(), v()]}

    def step(self, g, rate):
        self.w -= rate * g
        self.state["m"] *= 0.9
        self.state["list"][1] += g
        return self.w * 2


@case(Trainer, v, lambda: 0.5)
def arrays_of_objects_in_place(trainer, g, rate):
    return trainer.step(g, rate), trainer.w, trainer.state["m"] + 1


@case(v, lambda: np.int64(2), lambda: np.bool_(True), lambda: np.float64(1.5))
def numpy_scalars_as_python_values(x, n, flag, f):
    y = x * 2 if flag else x
    z = [y + i for i in range(n)]
    return z, np.zeros(n), x[n], x[:n], [10, 20, 30][n], y * n, y.sum(axis=n - n), f * n, np.full(n, f), int(n), n


@case(v, lambda: 0.5, lambda: 2.5)
def sorting(x, a, b):
    table = {"b": x, "a": x + 1}
    ordered = dict(sorted(table.items()))
    pairs = sorted([(2, x), (1, x * 2), (3, None)], reverse=True)
    numbers = sorted([b, a, 1.5]), sorted([3, 1, 2], key=lambda k: -k), sorted("bca"), sorted([(1, 2), (1, 1)])
    items = [x.shape[0], 2]
    items.sort(reverse=False)
    return ordered, pairs, numbers, items, sorted(["bb", "a", "cc"], key=len, reverse=True)


@case(m)
def masked_elements(x):
    mask = x > 0
    x[mask] += 10
    x[x < -2] **= 2
    x[mask] *= x[mask]
    total = x[mask].sum(), np.mean(x[mask]), x[~mask].prod(), (x[mask] if False else x).any(), x[mask].all()
    mask[0] = False
    x[mask] = 0
    return total, x, mask


@case(v)
def odds_and_ends(x):
    out = [i * j for i, j in np.ndindex(2, 3)]
    kinds = isinstance(x, np.ndarray | list), isinstance(3, type | int), isinstance("a", (int, str | None))
    pieces = np.s_[1:3], np.index_exp[::2]
    n = x.shape[0]
    return out, kinds, x[pieces[0]], x[pieces[1]], n is None, n is not False, n & 3, n << 1, 7 | 8, np.r_[x, 1.0]


# ---- scopes ----------------------------------------------------------------------------------------------------------


@case(v)
def scopes(x):
    total = 0
    funcs = [lambda y, i=i: y + i for i in range(3)]
    late = [lambda y: y + i for i in range(3)]
    if (n := len(x)) > 2:
        total = n

    def outer():
        count = 0

        def middle():
            nonlocal count
            count += 1

            def deepest():
                nonlocal count, total
                count += 10
                total += 1

            deepest()
            return count

        return middle() + middle()

    result = outer()
    y: np.ndarray = x * result
    del n
    return [f(x) for f in funcs], [f(x) for f in late], y, total


@case(v)
def loops_with_else(x):
    for i in range(3):
        if i == 5:
            break
    else:
        x = x + 1
    n = 3
    while n:
        n -= 1
        if n == 1:
            break
    else:
        x = x * 0
    for (a, b), c in zip([(1, 2), (3, 4)], "xy", strict=True):
        x = x + a * b + len(c)
    for i in range(5, 0, -2):
        for j in range(i):
            if j == 2:
                continue
            if j == 3:
                break
            x = x + j
    return x


@case(v, lambda: False)
def early_returns(x, verbose):
    """Has a docstring."""
    if verbose:
        print("never followed")
    for i in range(10):
        if i == 3:
            return x + i
    return x


@case(v)
def finally_and_context(x):
    def inner():
        try:
            return x + 1
        finally:
            seen.append("finally")

    seen: list[str] = []
    with np.errstate(all="ignore"):
        y = inner()
        with np.errstate(over="raise"):
            return y, seen


@case(lambda: (1, v()), lambda: {"scale": 2.0})
def pass_through(args, kwargs):
    def target(n, x, *, scale=1.0, **rest):
        return x * scale + n, rest

    def forward(*a, **k):
        k.setdefault("extra", 3)
        return target(*a, **k)

    return forward(*args, **kwargs), forward(*args, **{**kwargs, "scale": 5})


@case(v)
def shared_iterators(x):
    it = iter([1, 2, 3, 4])
    pairs = list(zip(it, it, strict=False))
    rest = iter((x, x + 1))
    first = next(rest)
    left = [y * 2 for y in rest]
    cum = list(itertools.chain([1], (2,)))
    return pairs, first, left, cum, next(iter([]), None), list(map(sum, pairs)), dict(zip("ab", pairs, strict=True))


@case(v)
def generator_pipeline(x):
    def pairs(items):
        previous = None
        for item in items:
            if previous is not None:
                yield previous, item
            previous = item

    def scaled():
        for a, b in pairs(x[i] for i in range(3)):
            yield a * b
        return

    return sum(scaled()), list(pairs("abc")), any(a == "b" for a, _ in pairs("abc")), scaled.__name__


@case(v)
def decorated_functions(x):
    return plain_twice(lambda y: y + 1)(x), partial_user(3)(x)


def plain_twice(f):
    def wrapper(*args, **kwargs):
        return f(f(*args, **kwargs))

    return wrapper


def partial_user(k):
    return functools.partial(np.add, k)


# ---- classes ---------------------------------------------------------------------------------------------------------


class Base(abc.ABC):
    __slots__ = ("scale", "weights")
    bias = 0.25

    def __init__(self, weights, scale=1.0):
        self.weights = weights
        self.scale = scale

    @abc.abstractmethod
    def apply(self, x): ...

    @property
    def total(self):
        return self.weights.sum() * self.scale

    def __add__(self, other):
        return self.weights + other

    def __radd__(self, other):
        return self.weights + other

    def __eq__(self, other):
        return self.scale == other.scale

    def __hash__(self):
        return 0

    def __bool__(self):
        return self.scale > 0

    def __iter__(self):
        yield self.weights
        yield self.scale


class Scaled(Base):
    __slots__ = ("name",)

    def __init__(self, weights, *, name="scaled"):
        super().__init__(weights, scale=2.0)
        self.name = name

    def apply(self, x):
        return x * self.scale + self.bias + self.total

    @property
    def total(self):
        return super().scale + 1.0


class Network:
    def __init__(self, *layers):
        self.layers = list(layers)
        self.names = {layer.name: i for i, layer in enumerate(layers)}

    def __call__(self, x):
        for layer in self.layers:
            x = layer.apply(x)
        return x


@case(lambda: Network(Scaled(v(), name="a"), Scaled(v(), name="b")), v)
def slotted_classes(net, x):
    first, second = net.layers
    w, s = first
    return net(x), w, s, first == second, first + 1, 1 + second.bias, bool(first), net.names["b"], not first


@dataclass
class Params:
    w: Any
    b: Any = 1.0

    @property
    def size(self):
        return self.w.size


@case(lambda: Params(v()), lambda: [Params(v(), 2.0)])
def dataclass_arguments(p, more):
    q = more[0]
    p.w[0] = 5
    made = Params(p.w, q.b)
    return p.w * p.b + q.w * q.b, p.size, made.size, Params(1, 2) == Params(1, 2), Params(1) != Params(2), p


# ---- idioms ----------------------------------------------------------------------------------------------------------


@case(m, lambda: 2)
def shapes(x, k):
    n, c = x.shape
    last = x.shape[-1]
    head = x.shape[:1]
    a = np.zeros(x.shape) + np.zeros((n, last)) + np.ones_like(x)
    b = np.arange(n)[:, None] * np.arange(c)
    d = x.reshape(n * c), x.reshape(-1, c // k), x.reshape(n, c // k, k).sum(-1), x[: n // 2], x[..., -1], x[None]
    e = x.shape == (3, 4), len(x.shape), x.size == n * c, head + (1,), x.ndim, min(n, c), max(n, c) * 2, n - c
    return a, b, d, e, f"{n}x{c}", n / c, n % 2 == 1, (n + 1) // 2, [n] * 2, -n, abs(n - c), divmod(n, 2), n**2


@case(m)
def normalise(x):
    mean = x.mean(axis=0)
    std = x.std(axis=0, keepdims=True)
    z = (x - mean) / (std + EPS)
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=1)[:, np.newaxis]
    return p, -np.sum(p * np.log(p)), p.argmax(-1), np.clip(z, LIMITS["low"], LIMITS["high"])


@case(m, v)
def dtypes_and_kinds(x, y):
    a = x.astype(np.float32), x.astype("int16"), y.astype(bool), x.astype(dtype=y.dtype)
    b = x.dtype == np.float64, x.dtype.kind, x.dtype.name, np.finfo(x.dtype).eps * y, np.iinfo(np.int32).max
    c = np.float32(y.sum()), np.int64(3) * y, isinstance(y.sum(), np.floating), isinstance(y, np.ndarray)
    d = np.result_type(x, np.float32), np.dtype("f4").itemsize, np.issubdtype(x.dtype, np.floating), type(y[0])
    return a, b, c, d, x.dtype in (np.float32, np.float64), {np.dtype("f8"): 1}[x.dtype], y.dtype.type(2)


@case(m)
def ufunc_methods(x):
    return (
        np.add.reduce(x),
        np.multiply.accumulate(x, axis=1),
        np.subtract.outer(x[0], x[1]),
        np.maximum.reduce(x, axis=None),
    )


@case(m)
def linear_algebra(x):
    return x @ x.T, x.dot(x[0]), np.dot(x[0], x[1]), np.outer(x[0], x[1]), x.T @ x[:, 0], np.linalg.norm(x), np.trace(x)


@case(v, lambda: "relu", lambda: {"relu", "none"})
def sets_and_names(x, name, choices):
    if name in ALLOWED and name in choices and name not in ("x",) and len(choices) == 2:
        x = np.maximum(x, 0)
    return x, name.startswith("re"), name + "!", name.upper(), sorted({3, 1, 2}), set([1]) <= {1, 2}


@case(v, lambda: 2.0)
def python_float_arithmetic(x, a):
    half = a / 2
    w = [math.exp(-0.5 * (i / a) ** 2) for i in range(3)]
    s = sum(w)
    w = [k / s for k in w]
    y = sum(k * x for k in w)
    t = float(x.sum())
    return y, half, w, t * a, t + x, float(x[1]) - x, int(a), round(a), a == 2.0, f"{a:.1f}", str(a), a > 1 or a < 0


@case(lambda: 1 + 2j, v, lambda: np.complex64(1j))
def complex_numbers(z, x, w):
    y = x * z
    return y, y.real, y.imag, np.abs(y), np.conj(y), z + 1, -z, w * x, z * x.sum(), y.real + 1, np.angle(y)


@case(v)
def stencil(u):
    new = u.copy()
    for _ in range(3):
        new[1:-1] = u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
        u, new = new, u.copy()
    return u


@case(lambda: square().astype(np.uint8))
def integer_image(img):
    f = img.astype(np.float32) / 255
    g = np.clip((f - f.mean()) * 1.5 + 0.5, 0, 1) ** (1 / 2.2)
    padded = np.pad(g, 1, mode="edge")
    blur = sum(padded[i : i + 4, j : j + 4] for i in range(3) for j in range(3)) / 9
    return (blur * 255 + 0.5).astype(np.uint8), img + img, (img + img).astype(np.int16)


@case(m, lambda: np.arange(8.0).reshape(2, 4))
def kmeans_step(points, centres):
    d = ((points[:, None, :] - centres[None]) ** 2).sum(-1)
    nearest = d.argmin(axis=1)
    onehot = (nearest[:, None] == np.arange(len(centres))).astype(points.dtype)
    counts = onehot.sum(axis=0)
    return onehot.T @ points / np.maximum(counts, 1)[:, None], nearest, d.min(axis=1).mean()


@case(lambda: 100.0 + v(), lambda: 0.02, lambda: 0.3)
def black_scholes(spot, rate, sigma, strike=100.0, t=1.0):
    d1 = (np.log(spot / strike) + (rate + 0.5 * sigma**2) * t) / (sigma * math.sqrt(t))
    d2 = d1 - sigma * math.sqrt(t)
    discount = strike * math.exp(-rate * t)

    def cdf(z):
        return 1 / (1 + np.exp(-1.702 * z))

    call = spot * cdf(d1) - discount * cdf(d2)
    return call, call - spot + discount


@case(v)
def polynomial(x):
    total = np.zeros_like(x)
    for c in reversed([1.0, -2.0, 0.5]):
        total = total * x + c
    return total, functools.reduce(lambda acc, k: acc * x + k, (1, 2, 3), 0), np.polyval([1, 2, 3], x)


@case(v)
def none_and_defaults(x, y=None, *, axis=None, out=None, names=NAMES):
    y = x if y is None else y
    out = np.empty_like(x) if out is None else out
    np.multiply(x, 2, out=out)
    return y.sum(axis=axis), out, names, "a" in names, [n * 2 for n in names], axis is None and out is not None


# math.exp and NumPy's exp round differently in the last place
ROUNDED = (python_float_arithmetic, black_scholes)


@pytest.mark.parametrize(("fn", "make"), CASES, ids=[f.__name__ for f, _ in CASES])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "symbolic"])
def test_construct(harness, fn, make, dynamic) -> None:
    harness.check(fn, make, Policy(dynamic), rtol=1e-14 if fn in ROUNDED else 0)
