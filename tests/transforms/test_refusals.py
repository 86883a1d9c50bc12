"""What a mapped function may not do is refused by name, with the remedy; what NumPy raises keeps NumPy's classes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import broadloom as bl
from broadloom.errors import GraphBreakError, TransformError
from tests.transforms.roads import captured, compiled, dispatched, eager, in_python

X = np.arange(24.0).reshape(2, 3, 4)
N = np.array([1, 2])
SHARED = np.arange(4.0)
ON_DATA: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "nonzero": (lambda x: np.nonzero(x)[0], (X,), r"nonzero.*size of the result depends on data.*np\.where"),
    "where of one argument": (lambda x: np.where(x > 0)[0], (X,), r"np\.where of one argument.*give x and y"),
    "unique": (lambda x: np.unique(x), (X,), r"unique.*depends on data.*np\.sort"),
    "a selection": (lambda x: x[x > 3], (X,), r"boolean selection.*depends on data.*np\.where\(mask, x, 0\)"),
    "of a selection": (lambda x: x[x > 3] * 2, (X,), r"boolean selection.*np\.where\(mask, x, 0\)"),
    "bincount": (lambda x: np.bincount(x[0].astype(int)), (X,), r"length of np\.bincount depends on data.*length=n"),
    "repeats": (lambda x, n: np.repeat(x, n), (X, N), r"np\.repeat by an array.*depends on data.*constant"),
    "compress": (lambda x: np.compress(x[:, 0] > 0, x, axis=0), (X,), r"np\.compress.*np\.where"),
    "a slice": (lambda x, n: x[:n], (X, N), "slice bound.*pass the bound as an int"),
    "a size": (lambda n: np.zeros(n), (N,), "remedy"),
    "a range": (lambda x, n: sum(range(n)), (X, N), "remedy"),
    "a condition": (lambda x: x if x.sum() > 0 else -x, (X,), r"condition.*np\.where|control flow.*numpy\.where"),
    "a loop": (lambda x: max(x[0, 0], x[0, 1]), (X,), r"condition.*np\.where|control flow.*numpy\.where"),
    "a boolean": (lambda x: x.sum() and x, (X,), r"condition.*np\.where|control flow.*numpy\.where"),
    "an equality": (lambda x: np.array_equal(x, x), (X,), "array_equal.*return the array comparison"),
}


@pytest.mark.parametrize("name", ON_DATA)
@pytest.mark.parametrize("vmap", [eager, dispatched, compiled], ids=lambda f: f.__name__)
def test_what_depends_on_data(vmap: Any, name: str) -> None:
    function, arrays, words = ON_DATA[name]
    with pytest.raises((TransformError, GraphBreakError)) as caught:
        vmap(function)(*arrays)
    assert re.search(words, str(caught.value)), caught.value
    assert "remedy" in str(caught.value)


NUMPYS: dict[str, Callable[..., Any]] = {
    "shapes": lambda x: x + np.ones(5),
    "core dims": lambda x: x @ x,
    "an index": lambda x: x[3],
    "an index by name": lambda x: np.take(x, np.array([9]), axis=0),
    "too many indices": lambda x: x[0, 0, 0],
    "an axis": lambda x: x.sum(axis=2),
    "a reshape": lambda x: x.reshape(5, 5),
    "dtypes": lambda x: x & 1,
    "a join": lambda x: np.concatenate([x, SHARED]),
    "an assignment": lambda x: x.__setitem__(slice(1), np.ones(3)),
    "an integer": lambda x: x.astype(np.uint8) + 300,
    "a singular matrix": lambda x: np.linalg.inv(x[:2, :2] * 0),
    "an attribute": lambda x: x.nothing,
    "an output": lambda x: np.add(x, 1, out=np.empty((2, 2))),
    "a squeeze": lambda x: np.squeeze(x, axis=0),
    "an empty reduction": lambda x: x[:0].max(),
}


@pytest.mark.parametrize("name", NUMPYS)
@in_python
def test_errors_of_numpy_keep_their_classes(vmap: Any, name: str) -> None:
    with pytest.raises(Exception) as plain:
        NUMPYS[name](X[0].copy())
    with pytest.raises(plain.type) as caught:
        vmap(NUMPYS[name])(X.copy())
    if name not in ("a singular matrix", "an index by name", "an attribute", "an output"):  # met where it is computed
        assert str(caught.value) == str(plain.value)


def test_an_error_of_numpy_names_the_line() -> None:
    with pytest.raises(ValueError, match="broadcast") as caught:
        bl.vmap(NUMPYS["shapes"])(X)
    line = NUMPYS["shapes"].__code__.co_firstlineno
    assert any(f"{__file__}:{line}" in note for note in caught.value.__notes__)


def write_shared(x: Any) -> Any:
    SHARED[0] = 1.0
    return x


@captured
def test_a_write_to_a_global_array_changes_nothing(vmap: Any) -> None:
    with pytest.raises((TransformError, GraphBreakError), match=r"a write to SHARED.*batched argument"):
        vmap(write_shared)(X)
    assert SHARED.tolist() == [0.0, 1.0, 2.0, 3.0]


@in_python
def test_a_write_to_the_data_of_an_unbatched_argument(vmap: Any) -> None:
    """NumPy functions that take any object give the caller's own memory: it is read-only there."""

    def core(x: Any, shared: Any) -> Any:
        own = np.asfortranarray(shared)
        own *= 2
        return x + own

    shared = np.ones(4)
    with pytest.raises((ValueError, TransformError), match=r"read-only|a write to"):
        vmap(core, (0, None))(X, shared)
    assert shared.tolist() == [1.0] * 4


@in_python
def test_a_refused_function_has_written_nothing(vmap: Any) -> None:
    def core(x: Any) -> Any:
        x += 1
        return "text"

    x = X.copy()
    with pytest.raises(TransformError, match=r"returns what is no array.*str.*remedy"):
        vmap(core)(x)
    np.testing.assert_array_equal(x, X)


AXES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "an axis that is not there": (lambda v: v(lambda x: x, 3)(X), "in_axes 3 of an array of 3 axes"),
    "no axes": (lambda v: v(lambda x, y: x)(X, np.float64(3)), "pass None for it in in_axes"),
    "no array": (lambda v: v(lambda x, n: x)(X, "s"), "str.*pass None for it in in_axes"),
    "sizes": (lambda v: v(lambda x, y: x)(X, np.ones(3)), "the mapped axes differ in size.*2.*3.*remedy"),
    "axis_size": (lambda v: v(lambda y: y, axis_size=3)(SHARED), "differ in size.*4.*3"),
    "nothing mapped": (lambda v: v(lambda y: y, None)(SHARED), "no mapped argument.*axis_size"),
    "too few": (lambda v: v(lambda x, y: x, (0,))(X, X), r"in_axes does not fit.*\(0,\).*tuple of 2"),
    "another container": (lambda v: v(lambda d: d["a"], ({"b": 0},))({"a": X}), "in_axes does not fit"),
    "a word": (lambda v: v(lambda x: x, "0")(X), "in_axes.*ints, None"),
    "results differ": (lambda v: v(lambda x: x, 0, None)(X), "out_axes is None for result 0, which differs"),
    "out of range": (lambda v: v(lambda x: x.sum(), 0, 1)(X), "out_axes for result 0; got 1; allowed: -1 to 0"),
    "no part of out_axes": (lambda v: v(lambda x: (x, x), 0, (0,))(X), "out_axes does not fit"),
}


@pytest.mark.parametrize("name", AXES)
@pytest.mark.parametrize("vmap", [eager, dispatched, compiled], ids=lambda f: f.__name__)
def test_axes_that_do_not_fit(vmap: Any, name: str) -> None:
    call, words = AXES[name]
    with pytest.raises((TransformError, GraphBreakError), match=words):
        call(vmap)


@pytest.mark.parametrize("told", [{"randomness": "some"}, {"axis_size": -1}, {"chunk_size": 0}, {"axis_size": True}])
def test_what_vmap_is_told(told: Any) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(told))} of vmap.*allowed"):
        bl.vmap(np.sin, **told)
