"""Which of several bad indices is named: the one that NumPy names, in whatever order the loops run."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import broadloom as bl

Array = np.ndarray[Any, Any]


def reduced_over_the_outer_axis(x: Array, i: Array) -> object:
    return np.take(x, i).sum(axis=0)


def reduced_over_both(x: Array, i: Array) -> object:
    return np.take(x, i).sum(axis=1), x[i].max(axis=0)


def searched(x: Array, i: Array) -> object:
    return np.take(x, i).argmax(axis=0)


def scanned(x: Array, i: Array) -> object:
    return np.cumsum(np.take(x, i), axis=0), np.cumsum(x[i], axis=1)


def transposed(x: Array, i: Array) -> object:
    return np.ascontiguousarray(x[i].T), np.take(x, i.T) + 1


def turned(x: Array, i: Array) -> object:
    return np.take(x, i[::-1]) + np.take(x, i)


def rows(x: Array, i: Array) -> object:
    return np.outer(x, x)[i].sum(axis=0)


def columns(x: Array, i: Array) -> object:
    return np.outer(x, x)[:, i].sum(axis=1)


def two_arrays(x: Array, i: Array) -> object:
    return np.outer(x, x)[i, i // 2].sum(axis=0)


def along_an_axis(x: Array, i: Array) -> object:
    return np.take_along_axis(np.outer(np.ones(i.shape[0]), x), i, 1).sum(axis=0)


def a_later_op_that_is_checked_first(x: Array, i: Array) -> object:
    first = np.take(x, i[:, 0])
    return (x[i // 2] + first[:, None]).sum(axis=0)


def written(x: Array, i: Array) -> object:
    y = x.copy()
    y[i] = 3.0
    return y


def written_in_place(x: Array, i: Array) -> object:
    x[i] = i * 1.0
    return x.sum()


def added(x: Array, i: Array) -> object:
    y = x.copy()
    np.add.at(y, i, 1.0)
    return y


FUNCTIONS: tuple[Callable[[Array, Array], object], ...] = (
    reduced_over_the_outer_axis,
    reduced_over_both,
    searched,
    scanned,
    transposed,
    turned,
    rows,
    columns,
    two_arrays,
    along_an_axis,
    a_later_op_that_is_checked_first,
    written,
    written_in_place,
    added,
)


def laid_out(i: Array) -> list[Array]:
    """The same index array in several orders of memory."""
    n, m = i.shape
    wide, tall = np.zeros((n, 2 * m), i.dtype), np.zeros((2 * n, m), i.dtype, order="F")
    wide[:, ::2], tall[::2] = i, i
    return [i, np.asfortranarray(i), wide[:, ::2], tall[::2], np.asfortranarray(i.astype(np.int32))]


def message(f: Callable[..., object], *arrays: Array) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # a fall back to NumPy would show nothing
        with pytest.raises(IndexError) as caught:
            f(*arrays)
    return str(caught.value)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_the_first_bad_index_of_an_outer_reduction(dynamic: bool) -> None:
    compiled = bl.compile(reduced_over_the_outer_axis, dynamic=dynamic, fullgraph=True)
    x, i = np.arange(10.0), np.zeros((4, 300), int)
    i[1, 2], i[0, 250] = 50, 60
    assert message(compiled, x, i).startswith("index 60 is out of bounds for axis 0 with size 10 (in take")


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_the_bad_index_that_numpy_names(
    function: Callable[[Array, Array], object], dynamic: bool, rng: np.random.Generator
) -> None:
    options = {"num_threads": int(rng.integers(1, 8)), "max_specialisations": 16}
    compiled = bl.compile(function, dynamic=dynamic, fullgraph=True, options=options)
    x = np.arange(10.0)
    for shape in ((4, 300), (70, 65)) if dynamic else ((70, 65),):
        given = rng.integers(-10, 10, shape)
        for _ in range(2):
            i = given.copy()
            i[rng.integers(shape[0], size=5), rng.integers(shape[1], size=5)] = 50 + rng.permutation(50)[:5]
            for arranged in laid_out(i):
                ours = message(compiled, x, arranged)
                assert ours.startswith(f"{message(function, x, arranged)} (in ")
        np.testing.assert_array_equal(x, np.arange(10.0))


@pytest.mark.parametrize("threads", range(1, 8))
def test_any_number_of_threads_names_the_same(threads: int, rng: np.random.Generator) -> None:
    compiled = bl.compile(two_arrays, fullgraph=True, options={"num_threads": threads})
    x, i = np.arange(10.0), np.asfortranarray(rng.integers(-10, 10, (300, 1000)))
    for _ in range(3):
        i[rng.integers(300, size=9), rng.integers(1000, size=9)] = 20 + rng.permutation(50)[:9]
        assert message(compiled, x, i).startswith(f"{message(two_arrays, x, i)} (in ")


def gathered_twice(x: Array, w: Array, i: Array, j: Array) -> object:
    p = x[i]
    q = w[j]
    return np.concatenate([q, p]).sum(axis=0), q.T + p.T


@pytest.mark.parametrize("sizes", [(10, 20), (0, 20), (10, 0), (0, 0)], ids=str)
def test_the_earlier_op_is_named_also_where_an_axis_is_empty(sizes: tuple[int, int], rng: np.random.Generator) -> None:
    compiled = bl.compile(gathered_twice, dynamic=True, fullgraph=True)
    x, w = np.arange(sizes[0]) * 1.0, np.arange(sizes[1]) * 1.0
    i, j = (rng.integers(0, max(n, 1), (60, 70)) for n in sizes)
    i[50, 3], i[7, 60], j[2, 2], j[1, 69] = 91, 92, 93, 94
    for order in ("C", "F"):
        arrays = (x, w, np.asarray(i, order=order), np.asarray(j, order=order))
        assert message(compiled, *arrays).startswith(f"{message(gathered_twice, *arrays)} (in ")
