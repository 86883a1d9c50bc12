"""Symbolic sizes: recorded once with an example, interpreted for other sizes, compared with NumPy at each."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import broadloom as bl
from broadloom.dtypes import from_numpy, int64
from broadloom.frontend import Unsupported
from broadloom.graph.interpret import concrete, interpret
from broadloom.graph.ir import TensorType
from broadloom.graph.recorder import Recorder
from broadloom.symbolic import Relation, ShapeEnv, Symbol
from tests.frontend.harness import Namespace, Traced, compare, leaves, place_array


def record_symbolic(f: Callable[..., Any], hints: Sequence[int]) -> tuple[Any, Any, ShapeEnv]:
    """Record f(np, x, y, n, m) for x of shape (n, m), y of shape (n,), symbolic n and m with these hints."""
    env = ShapeEnv()
    n, m = (env.create(name, hint) for name, hint in zip("nm", hints, strict=True))
    r = Recorder("f", env)
    d = from_numpy(np.float64)
    x = Traced(r, r.input("x", TensorType(d, (n, m))))
    y = Traced(r, r.input("y", TensorType(d, (n,))))
    r.size_input("n", n)
    r.size_input("m", m)
    result = f(Namespace(r), x, y, n, m)
    return r, result, env


def _keeps_within_64_bits(guard: Relation) -> bool:
    """Whether a guard only says that a size is not so large that no memory holds the arrays."""
    return guard.kind == "le" and isinstance(guard.lhs, Symbol) and isinstance(guard.rhs, int) and guard.rhs >= 2**28


def check_sizes(f: Callable[..., Any], *, guards: int = 0, exact: bool = True, sizes: Sequence[Any] = ()) -> None:
    r, result, env = record_symbolic(f, (6, 4))
    asked = [g for g in env.guards if not _keeps_within_64_bits(g)]
    assert len(asked) <= guards, [str(g) for g in asked]
    got = leaves(result)
    recorded = r.finish([g.value for g in got if isinstance(g, Traced)])
    for n, m in sizes or ((6, 4), (3, 5), (1, 1), (2, 7), (0, 3)):
        if not all(g.holds(dict(zip(env.symbols, (n, m), strict=True))) for g in env.guards):
            continue
        x = np.arange(float(n * m)).reshape(n, m) / 3 - 2
        y = np.arange(float(n)) - 1.5
        theirs, ours = [x.copy(), y.copy()], [x.copy(), y.copy()]
        with np.errstate(all="ignore"):
            expected = leaves(f(np, *theirs, n, m))
        outputs = interpret(recorded.graph, [*ours, n, m])
        places = iter(recorded.places)
        for g, e in zip(got, expected, strict=True):
            if isinstance(g, Traced):
                place = next(places)
                bound = dict(zip(env.symbols, (n, m), strict=True))
                compare(place_array(bind(place, bound), outputs, ours), e, exact, False)
        for a, e in zip(ours, theirs, strict=True):
            compare(a, e, exact, False)


def bind(place: Any, sizes: Any) -> Any:
    steps = tuple(replace(v, attrs=tuple((k, concrete(a, sizes)) for k, a in v.attrs)) for v in place.views)
    return replace(place, views=steps)


def assign(np, x, y, n, m):
    x[1:] = y[:, None][1:]
    x[::2, 0] += 1
    x[-1:] *= 2
    x[x > 2] = 0
    y[:] = y[::-1]


EXPRESSIONS = {
    "elementwise": lambda np, x, y, n, m: np.sin(x) * 2 + y[:, None],
    "slices": lambda np, x, y, n, m: (x[1:], x[:-1], x[:, ::2], x[::-1], x[2:5], x[-3:], x[:3, 1:-1], y[::-2]),
    "neighbours": lambda np, x, y, n, m: (y[1:] - y[:-1], y[2:] + y[:-2], x[1:, 1:] * x[:-1, :-1]),
    "negative-steps": lambda np, x, y, n, m: (x[3::-1], y[:1:-1], y[-2::-2], x[:, 2:0:-1]),
    "reshape": lambda np, x, y, n, m: (x.reshape(-1), x.reshape(n * m), x.reshape(m, n), x.T.reshape(-1), x.ravel()),
    "reshape-rows": lambda np, x, y, n, m: (x.reshape(n, 1, m), x.reshape(1, -1), x.reshape(n, m, 1)),
    "transpose": lambda np, x, y, n, m: (x.T, np.swapaxes(x, 0, 1), np.moveaxis(x, 0, -1), np.flip(x), np.flip(x, 0)),
    "sums": lambda np, x, y, n, m: (x.sum(), x.sum(0), x.sum(1, keepdims=True), x.any(), np.count_nonzero(x, 0)),
    "cumulative": lambda np, x, y, n, m: (x.cumsum(0), x.cumsum(), y.cumprod()),
    "creation": lambda np, x, y, n, m: (
        np.zeros(n),
        np.ones((n, m)),
        np.full((m,), 2.5),
        np.zeros_like(x),
        np.empty(0),
    ),
    "arange": lambda np, x, y, n, m: (np.arange(n), np.arange(2, n), np.arange(n, 0, -2), np.arange(n, dtype="f4")),
    "sizes-as-values": lambda np, x, y, n, m: (x * n, y + m, x / x.shape[0], np.sum(y) / len(y) if False else y * n),
    "joins": lambda np, x, y, n, m: (
        np.concatenate([x, x]),
        np.concatenate([y, y[1:]]),
        np.stack([y, y]),
        np.tile(y, 2),
    ),
    "repeat": lambda np, x, y, n, m: (np.repeat(y, 3), np.roll(y, 1), np.roll(x, (1, -2), (0, 1)), np.repeat(x, 2, 1)),
    "pad": lambda np, x, y, n, m: (np.pad(x, 1), np.pad(y, (0, 2), constant_values=3)),
    "broadcast": lambda np, x, y, n, m: (
        np.broadcast_to(y[:, None], (n, m)),
        np.broadcast_to(y, (3, n)),
        x + y[:, None],
    ),
    "outer": lambda np, x, y, n, m: (np.outer(y, y), np.add.outer(y, y), y[:, None] - y[None]),
    "matmul": lambda np, x, y, n, m: (x.T @ x, x @ x.T, y @ x, x.T @ y, np.dot(y, y)),
    "triangles": lambda np, x, y, n, m: (np.tril(x), np.triu(x, 1), np.eye(n), np.tri(n, m)),
    "clip": lambda np, x, y, n, m: (x.clip(0, 1), np.where(x > 0, x, 0), np.round(x, 1)),
    "diagonal": lambda np, x, y, n, m: (np.diagonal(x), np.trace(x), np.diag(y)),
    "array_split": lambda np, x, y, n, m: np.array_split(y, 4),
    "logaddexp": lambda np, x, y, n, m: np.logaddexp.reduce(x, axis=0),
    "meshgrid": lambda np, x, y, n, m: np.meshgrid(y, y),
    "indices": lambda np, x, y, n, m: np.indices((n, 2)),
    "shape": lambda np, x, y, n, m: (np.zeros(x.shape), np.zeros((x.size,)), np.zeros(np.shape(y))),
}

GUARDED = {
    "symbolic-bounds": lambda np, x, y, n, m: (y[: n - 1], y[n // 2 :], x[n - 3 : n], y[::2][: n // 3]),
    "assign": assign,
    "mean": lambda np, x, y, n, m: (x.mean(), x.mean(0), x.var(1), x.std()),
    "max": lambda np, x, y, n, m: (x.max(), x.max(0), np.argmax(x, 1), x.argmin()),
    "integers": lambda np, x, y, n, m: (x[0], x[-1], x[2, 1], y[n - 1], x[:, 0]),
    "integer-assign": lambda np, x, y, n, m: (x.__setitem__(0, 1), y.__setitem__(-1, y[0] * 2))[:0],
    "edges": lambda np, x, y, n, m: (np.pad(x, 1, "edge"), np.pad(y, 2, "reflect"), np.pad(x, 1, "symmetric")),
    "wrap": lambda np, x, y, n, m: np.pad(y, (1, 2), mode="wrap"),
    "diff": lambda np, x, y, n, m: (np.diff(y), np.diff(x, axis=0), np.gradient(y)),
    "split": lambda np, x, y, n, m: np.split(y, 2),
    "linspace": lambda np, x, y, n, m: (np.linspace(0, 1, n), np.linspace(0, 2, m, endpoint=False)),
    "convolve": lambda np, x, y, n, m: np.convolve(y, [1.0, 2.0, 1.0], "same"),
    "gather": lambda np, x, y, n, m: (y[[0, 1, -1]], x[:, [0, 1]], y.take([1])),
    "squeeze": lambda np, x, y, n, m: (np.squeeze(x[:1]), np.expand_dims(y, 0)),
    "norm": lambda np, x, y, n, m: (np.linalg.norm(x), np.linalg.norm(x, axis=1), np.average(x, 0)),
    "reshape-divide": lambda np, x, y, n, m: (x.reshape(-1, 2), x.reshape(2, -1)),
    "covariance": lambda np, x, y, n, m: (np.cov(x), np.cov(x, rowvar=False), np.cov(y)),
    "nested-list": lambda np, x, y, n, m: (np.array([x[0], x[1]]), np.maximum.reduce([y, y[::-1], y + x[:, 0]])),
    "turns": lambda np, x, y, n, m: (np.rot90(x, n), np.rot90(x, n - 1), np.rot90(x, m), np.rot90(x, m + 1)),
    "equal-sizes": lambda np, x, y, n, m: x[:4, :4] + x[:4, :4].T,
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_one_recording_serves_all_sizes(name: str) -> None:
    check_sizes(EXPRESSIONS[name], exact=name not in ("sums", "logaddexp", "cumulative", "matmul", "diagonal"))


@pytest.mark.parametrize("name", GUARDED)
def test_with_guards(name: str) -> None:
    sizes = ((6, 4), (8, 5), (4, 6), (10, 4))
    check_sizes(GUARDED[name], guards=8, exact=False, sizes=sizes)


def test_equal_sizes_found_by_looking_become_a_guard() -> None:
    def f(np, x, y, n, m):
        return y[: n - 2] + x[0, :]

    _, _, env = record_symbolic(f, (6, 4))
    assert any(g.kind == "eq" for g in env.guards)


@pytest.mark.parametrize("order", [1, 2])
def test_gradient_guards_that_there_are_enough_elements(order: int) -> None:
    _, _, env = record_symbolic(lambda np, x, y, n, m: np.gradient(y, edge_order=order), (6, 4))
    assert f"{order + 1} <= n" in [str(g) for g in env.guards]


def test_a_size_to_find_beside_a_symbolic_one_guards_that_it_is_not_zero() -> None:
    _, _, env = record_symbolic(lambda np, x, y, n, m: x.reshape(n // 2, 2, -1), (6, 4))
    zero = dict.fromkeys(env.symbols, 0)
    assert any(not g.holds(zero) for g in env.guards)


def test_a_symbolic_int_must_fit_a_small_dtype() -> None:
    with pytest.raises(Unsupported, match="int8"):
        record_symbolic(lambda np, x, y, n, m: np.zeros(3, np.int8) + n, (6, 4))
    assert int64.bits == 64


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("far", [2**62, 2**63 - 1, -(2**63), 2**64 + 1, -(2**70)])
def test_numbers_beyond_all_sizes(far, dynamic):
    """Bounds of slices are cut off, as Python does; a shift that 64 bits do not hold is left to NumPy."""
    x = np.arange(42.0).reshape(6, 7)
    for bounds in (slice(far), slice(far, None), slice(None, far), slice(None, None, far), slice(-far, far, 2)):
        compiled = bl.compile(lambda x, bounds=bounds: x[bounds] + 1, dynamic=dynamic, fullgraph=True)
        for given in (x, x[:5], x[:1]):
            np.testing.assert_array_equal(compiled(given), given[bounds] + 1)
    rolled = bl.compile(lambda x, by: np.roll(x, by, 0), dynamic=dynamic)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for given in (x, x[:5], x[:4]):
            np.testing.assert_array_equal(rolled(given, far), np.roll(given, far, 0))
