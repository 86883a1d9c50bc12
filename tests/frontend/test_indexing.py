"""Indexing and index assignment, complete, against NumPy: values, layouts, views, copies and written arguments."""

from __future__ import annotations

import numpy as np
import pytest

from broadloom.errors import VerifyError
from broadloom.frontend import Unsupported
from broadloom.graph.interpret import interpret
from tests.frontend.harness import check, record, refused

LAYOUTS = {
    "c": lambda: np.arange(60.0).reshape(3, 4, 5),
    "f": lambda: np.asfortranarray(np.arange(60.0).reshape(3, 4, 5)),
    "t": lambda: np.arange(60.0).reshape(5, 3, 4).transpose(1, 2, 0),
    "negative": lambda: np.arange(60, dtype=np.int32).reshape(3, 4, 5)[::-1, :, ::-1],
}

I1 = np.array([2, 0, -1])
I2 = np.array([[0, 1], [-1, 2]])
KEYS = {
    "int": 1,
    "negative-int": -1,
    "ints": (1, 2, 3),
    "numpy-int": np.int16(2),
    "int-middle": (slice(None), 2),
    "int-last": (..., 0),
    "ints-ellipsis": (1, 2, 3, ...),
    "slice": slice(1, 3),
    "slices": (slice(None, 2), slice(1, None), slice(-2, None)),
    "steps": (slice(None, None, 2), slice(3, None, -2), slice(None, None, -1)),
    "far": (slice(-100, 100), slice(100, -100, -1), slice(2, 100)),
    "empty": (slice(2, 1), slice(3, 3)),
    "none": (None, slice(None), None, 1),
    "ellipsis": ...,
    "nothing": (),
    "bool-none": (None, ..., None),
    "list": [0, 2],
    "array": I1,
    "array-2d": I2,
    "array-middle": (slice(None), I1),
    "array-last": (..., I2),
    "two-arrays": (I1, I1),
    "two-arrays-broadcast": (I2, I1[:2]),
    "arrays-apart": (I1, slice(None), I1),
    "arrays-apart-by-ellipsis": (slice(None), I1, ..., I1),
    "arrays-before-ellipsis": (slice(None), I1, I1, ...),
    "array-and-int": (I1, 0),
    "int-and-array-apart": (0, slice(None), I1),
    "array-int-apart-none": (I1, None, 0),
    "array-slice": (I1, slice(1, 3), slice(None, None, 2)),
    "slice-array": (slice(1, 3), I1, slice(None, None, -2)),
    "three-arrays": (I1, I1, I1),
    "none-array": (None, I1),
    "array-none": (I1, None),
    "empty-array": np.array([], np.intp),
    "empty-list": [],
    "uint8-array": I1.astype(np.uint8) % 3,
    "constant-mask": [True, False, True],
    "constant-mask-2d": np.arange(12).reshape(3, 4) % 5 == 0,
    "mask-and-int": ([True, False, True], 1),
    "zero-d-array": np.array(1),
    "zero-d-array-and-slice": (np.array(1), slice(2)),
    "zero-d-arrays": (np.array(1), np.array(2), np.array(0)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", KEYS)
def test_getitem(name: str, layout: str) -> None:
    key = KEYS[name]
    check(lambda np, x: x[key], LAYOUTS[layout]())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", KEYS)
def test_setitem(name: str, layout: str) -> None:
    key = KEYS[name]
    x = LAYOUTS[layout]()

    def f(np, x):
        y = x * 2
        y[key] = 7
        x[key] = y[key] + 1
        return y

    check(f, x.copy("K"))

    def g(np, x):
        x[key] += 3
        return x

    check(g, x.copy("K"))
    values = np.arange(float(x[key].size)).reshape(np.shape(x[key]))

    def h(np, x, v):
        x[key] = v

    check(h, x.copy("K"), values)


RUNTIME_KEYS = {
    "array": lambda i, j: i,
    "array-middle": lambda i, j: (slice(None), i),
    "pair": lambda i, j: (i, i),
    "broadcast": lambda i, j: (j, i[:2]),
    "apart": lambda i, j: (i, slice(1, 4), i),
    "last": lambda i, j: (..., j),
    "scalar": lambda i, j: (i[0], i[1], i[0]),
    "scalar-and-array": lambda i, j: (i[0], i),
    "zero-d": lambda i, j: (i.sum(keepdims=True)[0:1].reshape(()) * 0, j),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", RUNTIME_KEYS)
def test_runtime_index_arrays(name: str, layout: str) -> None:
    key = RUNTIME_KEYS[name]
    x = LAYOUTS[layout]()
    check(lambda np, x, i, j: x[key(i, j)], x, I1, I2)

    def f(np, x, i, j):
        x[key(i, j)] = 5
        x[key(i, j)] += 2

    check(f, x.copy("K"), I1, I2.astype(np.int32))


def test_zero_d_array_index_makes_a_copy() -> None:
    x = np.arange(6.0).reshape(2, 3)
    check(lambda np, x, i: x[i], x, np.array(1))


def test_views_at_integers_known_only_at_run_time() -> None:
    i = np.array([1, -1, 0])

    def f(np, x, i):
        row, column = x[i[0]], x[..., i[2]]
        x[0] = 5
        row += 1
        row[1:] *= column[:1]
        column[i[1]] = 9
        flat = x[i[1], :, None].reshape(-1)
        flat[::2] = -3
        point = x[i[0], i[1], ...]
        point[...] = 4
        x[i[2]] -= x[i[0]]
        return row * 2, row.copy(), x[i[0]].sum(), point + 1, x[0, i[1]][None]

    check(f, np.arange(12.0).reshape(3, 4), i)
    check(f, np.arange(12).reshape(4, 3).T, i.astype(np.uint8) % 3)
    for layout in LAYOUTS.values():
        check(lambda np, x, i: (x[i[0]] * 2, x[:, i[1]] + x[:, 0], x[i[2], :, i[0]] - 1), layout(), i)

    x = np.arange(12.0).reshape(3, 4)
    for get in (lambda np, x, i: x[i[0]], lambda np, x, i: x[i[0]][1:]):
        r, result, _ = record(get, [x, i])
        with pytest.raises(VerifyError, match="a result that is a view at a run-time index"):
            r.finish([result.value])

    def unused(np, x, i):
        x[i[0]]
        return x + 1

    r, result, _ = record(unused, [x, i])
    with pytest.raises(IndexError, match="index 3 is out of bounds for axis 0 with size 3"):
        interpret(r.finish([result.value]).graph, [x, np.array([3, 0, 0])])


def test_masks() -> None:
    x = np.arange(12.0).reshape(3, 4)
    m, row = x % 3 == 0, np.array([True, False, True])

    def assign(np, x, m, row):
        x[m] = -1
        x[~m] = x[0, 1]
        x[row] = 8
        x[row, :] = np.arange(4.0)
        x[:, [0, 1]][row] = 3
        x[m] = np.array([5.0])

    check(assign, x, m, row)

    def assign_more(np, x, m, row):
        x[x > 5] = 0
        x[row, 1:3] = -2
        x[:, m[0]] = 4
        x[..., None][m] = 6

    check(assign_more, x, m, row)
    refused(lambda np, x, m, row: x.__setitem__(m, np.arange(4.0)), x, m, row)
    refused(lambda np, x, m, row: x.__setitem__(row[:2], 1), x, m, row)


def test_self_assignment_reversed() -> None:
    def f(np, a):
        a[:] = a[::-1]
        return a

    for n in (0, 1, 2, 6, 1000):
        check(f, np.arange(n))

    def g(np, a):
        a[:] = a.T

    check(g, np.arange(9.0).reshape(3, 3))


def test_duplicate_indices() -> None:
    def f(np, x):
        x[[0, 0]] += x[[0, 0]]
        return x

    check(f, np.array([5.0, 7.0]))

    def g(np, x, i, v):
        x[i] = v

    check(g, np.zeros(3), np.array([0, 0, 1]), np.array([1.0, 2.0, 3.0]))


def test_add_at() -> None:
    def f(np, x, i, v):
        np.add.at(x, i, v)
        np.subtract.at(x, i, 1)
        np.add.at(x, [0, 0, 2], 10)
        np.add.at(x, slice(1, 3), v[:2])

    check(f, np.zeros(4), np.array([0, 0, -1, 2]), np.arange(4.0))

    def g(np, x, i, v):
        np.add.at(x, (i, i), 2)
        np.add.at(x, (slice(None), i), v)

    check(g, np.arange(16).reshape(4, 4), np.array([0, 0, 1]), np.arange(3))
    for text, x in (("bools", np.ones(3, bool)), ("mask", np.arange(3))):
        with pytest.raises(Unsupported, match=text):
            record(lambda np, x, m: np.add.at(x, m, 1), (x, x > 1))


def test_values_are_cast_and_broadcast() -> None:
    x = np.zeros((2, 3), np.int32)
    check(lambda np, x: x.__setitem__(0, 2.7), x)
    check(lambda np, x, v: x.__setitem__(Ellipsis, v), x, np.array([1.5, -2.5, 3.0]))
    check(lambda np, x, v: x.__setitem__(Ellipsis, v), x, np.ones((1, 1, 2, 3)))
    check(lambda np, x: x.__setitem__((slice(None), 1), [4, 5]), x)
    refused(lambda np, x: x.__setitem__(0, 2**40), x)
    refused(lambda np, x: x.__setitem__(0, [1, 2]), x)
    refused(lambda np, x, v: x.__setitem__(0, v), x, np.ones((2, 3)))


def test_what_numpy_refuses() -> None:
    x = np.arange(12.0).reshape(3, 4)
    for key in (3, -4, (0, 4), (0, 0, 0), 1.0, "a", (..., ...), np.array([0.5]), [[1, 2], [3]], slice(None, None, 0)):
        refused(lambda np, x, key=key: x[key], x)
    locked = x.copy()
    locked.flags.writeable = False
    refused(lambda np, x: x.__setitem__(0, 1), locked)
    refused(lambda np, x: np.broadcast_to(x, (2, 3, 4)).__setitem__(0, 1), x)
    refused(lambda np, x: x.diagonal().__setitem__(0, 1), x)


@pytest.mark.parametrize("f", [lambda np, x: x[[13]], lambda np, x: x.take([13]), lambda np, x: np.take(x, [-11])])
def test_index_out_of_range_raises_at_run_time(f) -> None:
    x = np.arange(10)
    r, result, _ = record(f, [x])
    graph = r.finish([result.value]).graph
    with pytest.raises(IndexError) as theirs:
        f(np, x)
    with pytest.raises(IndexError) as ours:
        interpret(graph, [x])
    assert str(ours.value) == str(theirs.value)


def test_take_along_axis_and_compress() -> None:
    x = np.arange(12.0).reshape(3, 4)
    i = np.array([[0, 1, -1, 2]])
    check(lambda np, x, i: (np.take_along_axis(x, i, 0), np.take_along_axis(x, i.reshape(4, 1)[:3], 1)), x, i)
    check(lambda np, x, i: np.take_along_axis(x, i[0], None), x, i)
    check(lambda np, x, i: np.take_along_axis(x, np.argmax(x, 1, keepdims=True), 1), x, i)
    check(lambda np, x, i: (np.compress([True, False, True], x, 0), x.compress([0, 1])), x, i)
    refused(lambda np, x, i: np.compress(x[0] > 1, x, 0), x, i)


def test_boolean_selections_whose_size_does_not_matter() -> None:
    x = np.arange(12.0).reshape(3, 4) - 4
    m, row = x % 3 == 0, np.array([True, False, True])

    def update(np, x, m, row):
        x[m] += 1
        x[x > 3] *= 2
        x[x > 3] = x[x > 3] - 1
        x[row] /= 2
        x[row] += np.arange(4.0)
        x[m] = np.clip(np.sin(x[m]) * 2, -1, 1).round(1)
        t = x[m]
        x[0] += x[row].size
        u = t
        t += 5
        x[m] = u

    check(update, x, m, row)

    def integers(np, x, m, row):
        x[m] += 1
        x[m] //= 2
        x[m] **= 2
        x[m] = x[m].astype(float) * 1.5

    check(integers, x.astype(int), m, row)

    def reduce(np, x, m, row):
        return (
            x[m].sum(),
            np.mean(x[m]),
            x[row].sum(0),
            x[m].any(),
            np.std(x[m] * 2),
            np.count_nonzero(x[m]),
            x[m].dtype,
        )

    check(reduce, x, m, row, exact=False)

    def combine(np, x, m, row, y):
        x[m] = -x[m]
        x[m] *= y[m]
        x[m] = np.sqrt(y[m]) + np.where(x[m] > y[m], x[m], y.sum())
        x[y > 1] = y[y > 1] ** 2
        x[row] = np.maximum(x[row], y[row]) * x[row].sum()
        a, b = divmod(x[m], y[m])
        a += x[0, 0]
        a -= np.float64(3)
        y[m] = a * b
        c = x[m].conj()
        c += 1
        t = x[m]
        u = t.astype(t.dtype, copy=False)
        u += 1
        return np.sum(x[m] ** 2), (x[m] - y[m]).mean(), (x[m] < y[m]).sum(), t.sum(), c.sum(), x[row].sum(axis=1).sum()

    check(combine, x, m, row, np.cos(x), exact=False)
    check(lambda np, x, m: (x[m].sum(), x[m].mean(), x[m].ndim), x, np.zeros((3, 4), bool), exact=False)


def test_products_and_norms_of_boolean_selections() -> None:
    x = np.arange(12).reshape(3, 4) - 4

    def f(np, x, y, m):
        t, u = x[m], y[m]
        return (
            t @ u,
            np.dot(t, u),
            np.inner(t, t),
            np.vdot(u, t),
            t.dot(u),
            np.linalg.norm(t),
            np.linalg.norm(x[m[:, 0]]),
        )

    for m in (x % 3 == 0, x > 20):
        check(f, x, 1 - x, m, exact=False)
        check(f, x.astype(np.int8), x > 1, m, exact=False)
        check(f, x * np.float32(0.5), np.where(m, x, np.inf), m, exact=False)
        check(f, x * 1j, x + 2j, m, exact=False)


def test_unselected_exponents_raise_nothing() -> None:
    x = np.arange(-4, 8).reshape(3, 4)

    def f(np, x):
        m = x >= 0
        two, e = x[m] * 0 + 2, x[m]
        y = x * 0
        y[m] = np.power(2, x[m])
        x[m] = x[m] ** x[m]
        e **= x[m]
        return y, e.sum(), (two ** np.int64(3)).sum(), np.power(x[m], abs(x[0, 0])).sum(), (x[m] ** 3).sum()

    check(f, x)
    check(f, x - 10)

    def negative(np, x):
        return (x[x < 0] ** x[x < 0]).sum()

    r, result, _ = record(negative, [x])
    recorded = r.finish([result.value])
    with pytest.raises(ValueError, match="negative integer powers"):
        interpret(recorded.graph, [x])


def test_masks_count_as_the_same_by_value_not_by_name() -> None:
    x = np.arange(12.0).reshape(3, 4) - 4

    def stale(np, x, m):
        t = x[m]
        m[0, 0] = ~m[0, 0]
        x[m] = t

    refused(stale, x, x > 0)

    def changed(np, x, y):
        x[x > 0] = y[x > 0]
        t = x[x > 0]
        x += 1
        x[x > 0] = t

    refused(changed, x, x)

    def view(np, x, m):
        x[m[...]] = x[m] + 1
        x[m.copy()] = x[m[:, :]] + 1

    check(view, x, x > 0)


def test_boolean_selections_are_refused_where_their_size_matters() -> None:
    x = np.arange(12).reshape(3, 4)
    m, other = x % 3 == 0, x % 2 == 0
    for f in (
        lambda np, x, m, o: x[m].shape,
        lambda np, x, m, o: x[m].max(),
        lambda np, x, m, o: x[m].reshape(-1),
        lambda np, x, m, o: x[m][0],
        lambda np, x, m, o: x[m] + x[o],
        lambda np, x, m, o: x[m] + np.arange(4),
        lambda np, x, m, o: x.__setitem__(o, x[m]),
        lambda np, x, m, o: np.concatenate([x[m], x[m]]),
        lambda np, x, m, o: np.power(x[m], x[o]),
        lambda np, x, m, o: np.clip(x[m], a_min=x, a_max=x),
        lambda np, x, m, o: np.clip(x[m], 0, 1, x[m]),
        lambda np, x, m, o: np.sqrt(2.0, x[m]),
        lambda np, x, m, o: x[m[0]].sum(1, out=x[:, 0]),
        lambda np, x, m, o: np.where(o, x[m], 0),
        lambda np, x, m, o: x[m] @ x[o],
        lambda np, x, m, o: x[m[:, 0]] @ x[m[:, 0]],
        lambda np, x, m, o: np.dot(x[m], 2),
        lambda np, x, m, o: x.__iadd__(x[m]),
        lambda np, x, m, o: x.__setitem__(m[:2], 1),
        lambda np, x, m, o: x[m[:2]],
        lambda np, x, m, o: np.add(x[m], 1, where=False),
        lambda np, x, m, o: np.zeros_like(x[m]),
        lambda np, x, m, o: x[:, m[0]],
        lambda np, x, m, o: x[0, [1, 2], m[0]],
        lambda np, x, m, o: np.array([x[m], 1]),
    ):
        refused(f, x, m, other)
    r, result, _ = record(lambda np, x, m: x[m], [x, m])
    with pytest.raises(Unsupported, match="depends on data"):
        r.finish([result.value])
