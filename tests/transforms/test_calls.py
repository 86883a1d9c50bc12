"""How mapped functions are made and called: axes of every form, containers, names, sizes, chunks, nesting, and every
kind of callable, on every road."""

from __future__ import annotations

import functools
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import broadloom as bl
from tests.transforms.roads import assert_equal, by_road, eager, in_python, looped

X = np.arange(24.0).reshape(2, 3, 4)
W = np.arange(4.0)
Pair = namedtuple("Pair", "first second")


@by_road
@pytest.mark.parametrize("axis", range(-3, 3))
def test_every_axis(vmap: Any, axis: int) -> None:
    got = vmap(lambda x: (x, x.sum(axis=0), x.T), axis, (axis, -1, 1))(X)
    moved = np.moveaxis(X, axis, 0)
    assert_equal(got[0], np.moveaxis(moved, 0, axis))
    assert_equal(got[1], moved.sum(axis=1).T)
    assert_equal(got[2], np.moveaxis(moved.swapaxes(1, 2), 0, 1))


@by_road
def test_containers_of_axes(vmap: Any) -> None:
    def core(d: Any, pair: Any, *rest: Any) -> Any:
        return {"s": d["a"] + pair.first, "t": (rest[0][1], [pair.second * 2])}, Pair(d["b"], 1.0)

    axes = ({"b": None, "a": 1}, Pair(-1, None), [None, 0])
    got = vmap(core, axes, ({"s": 2, "t": 0}, Pair(None, 0)))(
        {"a": X, "b": W}, Pair(X.transpose(0, 2, 1), W), [None, np.arange(3)]
    )
    assert_equal(got[0]["s"], np.moveaxis(X + X, 1, 2))
    assert_equal(got[0]["t"][0], np.arange(3))
    assert_equal(got[0]["t"][1][0], np.stack([W * 2] * 3))
    assert type(got[1]) is Pair
    assert_equal(got[1].first, W)
    assert_equal(got[1].second, np.ones(3))


@by_road
def test_what_is_no_array(vmap: Any) -> None:
    got = vmap(
        lambda x, how, none, n: x.sum(axis=0) * n if how == "sum" and none is None else x, (0, None, None, None)
    )(X, "sum", None, 3)
    assert_equal(got, X.sum(axis=1) * 3)


@by_road
def test_names_and_defaults(vmap: Any) -> None:
    def core(x: Any, *, by: Any, plus: float = 1.0) -> Any:
        return x * by + plus

    assert_equal(vmap(core)(X, by=np.array([1.0, 2.0])), X * np.array([1.0, 2.0])[:, None, None] + 1)


@by_road
def test_a_given_number_of_examples(vmap: Any) -> None:
    assert_equal(vmap(lambda: np.zeros(2), axis_size=3)(), np.zeros((3, 2)))
    assert_equal(vmap(lambda y: y + 1, None, axis_size=3)(W), np.stack([W + 1] * 3))
    assert_equal(vmap(lambda y: y + 1, None, axis_size=0)(W), np.zeros((0, 4)))
    assert_equal(vmap(lambda x: x, axis_size=2)(X), X)


@by_road
@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_chunks(vmap: Any, size: int) -> None:
    def core(x: Any, y: Any) -> Any:
        x += 1
        return np.cumsum(x), (y * 2, x @ x)

    whole, x = np.arange(35.0).reshape(7, 5) / 3, np.arange(35.0).reshape(7, 5).T.copy() / 3
    want = looped(core, (0, None), [whole, W])
    got = vmap(core, (1, None), (1, (None, 0)), chunk_size=size)(x, W)
    assert got[0].T.tobytes() == want[0].tobytes()
    assert_equal(got[1][0], W * 2)
    assert_equal(got[1][1], want[1][1])
    np.testing.assert_array_equal(x, whole.T)


@by_road
def test_three_deep(vmap: Any) -> None:
    deep = vmap(bl.vmap(bl.vmap(lambda x, y, s: x * y + s, (0, None, None)), (-1, 0, None), -1), (1, None, None), 1)
    a, b = np.arange(24.0).reshape(4, 2, 3), np.arange(3.0)
    got = deep(a, b, 2.0)
    # level 1 maps axis 1 of a, level 2 the last of what is left and b, level 3 what is left
    want = np.empty((4, 2, 3))
    for i, j, k in np.ndindex(2, 3, 4):
        want[k, i, j] = a[k, i, j] * b[j] + 2.0
    assert_equal(got, want)


@by_road
def test_inner_maps_see_outer_examples(vmap: Any) -> None:
    def core(x: Any) -> Any:
        inner = bl.vmap(lambda y: (y @ x.T, x[0]), out_axes=(0, None))(np.ones((5, 4)))
        each = bl.vmap(lambda r, s: r * s + x.sum(), (0, None))(x, W)
        return inner, each, bl.vmap(lambda y: y * x.sum())(np.arange(3.0))

    got = vmap(core)(X)
    assert_equal(got[0][0], np.stack([np.ones((5, 4)) @ x.T for x in X]))
    assert_equal(got[0][1], X[:, 0])
    assert_equal(got[1], np.stack([x * W + x.sum() for x in X]))
    assert_equal(got[2], np.stack([np.arange(3.0) * x.sum() for x in X]))


@by_road
def test_an_inner_map_writes_to_a_batched_array(vmap: Any) -> None:
    def core(x: Any) -> Any:
        y = x.copy()

        def inner(row: Any, s: Any) -> Any:
            row += s
            return row[0]

        first = bl.vmap(inner)(y, x[:, 1])
        return y, first

    got = vmap(core)(X)
    assert_equal(got[0], X + X[:, :, 1:2])
    assert_equal(got[1], (X + X[:, :, 1:2])[:, :, 0])


def decorated(function: Any) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs) + 1

    return call


class Model:
    """Functions of one example as a class has them."""

    scale = 2.0

    def __init__(self) -> None:
        self.weights = np.arange(4.0)

    def method(self, x: Any) -> Any:
        return x * self.weights * self.scale

    @staticmethod
    def static(x: Any) -> Any:
        return x + 1

    @classmethod
    def of_class(cls, x: Any) -> Any:
        return x * cls.scale

    def __call__(self, x: Any) -> Any:
        return x - self.weights

    @functools.partial(bl.vmap, in_axes=(None, 0))
    def mapped(self, x: Any) -> Any:
        return x * self.weights


MODEL = Model()
CALLABLES = {
    "method": (MODEL.method, X * W * 2),
    "static method": (MODEL.static, X + 1),
    "class method": (Model.of_class, X * 2),
    "instance": (MODEL, X - W),
    "partial by name": (functools.partial(lambda x, y: x * y, y=3.0), X * 3),
    "partial by place": (functools.partial(lambda y, x: x * y, W), X * W),
    "lambda": (lambda x: x - 1, X - 1),
    "ufunc": (np.sin, np.sin(X)),
    "function of NumPy": (np.linalg.norm, np.array([np.linalg.norm(x) for x in X])),
    "function of the namespace": (bl.sum, X.sum(axis=(1, 2))),
    "decorated": (decorated(lambda x: x * 2), X * 2 + 1),
    "compiled": (bl.compile(lambda x: x * 2), X * 2),
    "mapped": (bl.vmap(lambda r: r.sum()), X.sum(axis=2)),
}


@pytest.mark.filterwarnings("ignore:<lambda> runs as plain Python")  # a compiled function, on a tensor of many
@pytest.mark.parametrize("name", CALLABLES)
@by_road
def test_callables(vmap: Any, name: str) -> None:
    function, want = CALLABLES[name]
    assert_equal(vmap(function)(X), want)


def test_a_mapped_method() -> None:
    assert_equal(MODEL.mapped(X), X * W)
    assert_equal(bl.compile(lambda x: MODEL.mapped(x), fullgraph=True)(X), X * W)
    assert Model.mapped.__name__ == "mapped" and "Model.mapped" in repr(Model.mapped)


@in_python
def test_a_function_that_prints(vmap: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def core(x: Any) -> Any:
        print("one of", x.shape)
        return x * 2

    assert_equal(vmap(core)(X), X * 2)
    assert capsys.readouterr().out == "one of (3, 4)\n"


@by_road
def test_results_are_arrays_of_their_own(vmap: Any) -> None:
    x = X.copy()

    def core(row: Any) -> Any:
        y = row + 1
        return row, y, y, y[0], W, 3, row.shape[0] == 3

    got = vmap(core)(x)
    assert_equal(list(got), [X, X + 1, X + 1, X[:, 0] + 1, np.stack([W, W]), np.array([3, 3]), np.array([True, True])])
    for k, a in enumerate(got):
        assert (a.flags.writeable and a.flags.owndata) or a.base is not None
        assert not any(np.shares_memory(a, b) for b in (x, W, *got[:k]))


@by_road
def test_arguments_that_are_replaced_by_each_other(vmap: Any) -> None:
    def swap(a: Any, b: Any) -> Any:
        a[:], b[:] = b[::-1].copy(), a[::-1]
        return a

    a, b = np.arange(6.0).reshape(2, 3), np.arange(6.0, 12).reshape(3, 2)
    got = vmap(swap, (0, 1))(a, b)
    assert a.tolist() == [[10, 8, 6], [11, 9, 7]] and b.T.tolist() == [[6, 8, 10], [7, 9, 11]]
    assert_equal(got, a)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float16", "float32", "complex64", "bool"])
@by_road
def test_promotion_is_that_of_one_example(vmap: Any, dtype: str) -> None:
    x = np.arange(3).astype(dtype)  # one example is a 0-d array
    assert_equal(
        list(
            vmap(lambda s: (s * 2, s + 1.5, s * np.float32(2), s * W.astype(np.float32), -s if dtype != "bool" else s))(
                x
            )
        ),
        looped(
            lambda s: (s * 2, s + 1.5, s * np.float32(2), s * W.astype(np.float32), -s if dtype != "bool" else s),
            (0,),
            [x],
        ),
    )


def test_views_are_decided_for_the_sizes_at_hand() -> None:
    """Whether a reshape is a view may depend on an axis of one element: a capture for any size guards it."""

    def core(x: Any) -> Any:
        y = x.T
        y.reshape(-1)[0] = 5
        return x

    def around(x: Any) -> Any:
        return bl.vmap(core)(x)

    compiled = bl.compile(around, dynamic=True, fullgraph=True)
    for shape in ((2, 3, 1), (2, 3, 2), (4, 5, 1), (3, 1, 7), (1, 1, 1)):
        x, y = np.zeros(shape), np.zeros(shape)
        assert_equal(compiled(x), looped(core, (0,), [y]))
        np.testing.assert_array_equal(x, y)
        assert_equal(eager(core)(np.zeros(shape)), y)
