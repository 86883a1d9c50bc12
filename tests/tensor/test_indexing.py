"""Indexing is complete: what NumPy takes as a key, it is read and assigned by, as views where NumPy gives views."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import broadloom as bl

T = bl.asarray
X = np.arange(24.0).reshape(2, 3, 4)
KEYS: dict[str, Any] = {
    "int": 1,
    "negative": -1,
    "slice": slice(None, None, -1),
    "ellipsis": (..., 1),
    "newaxis": (None, slice(1), None),
    "none and all": (),
    "ints": (1, 2, 3),
    "int array": np.array([1, 0, 1]),
    "list": [1, 0],
    "int arrays": (np.array([[0], [1]]), np.array([2, 0])),
    "int array behind a slice": (slice(None), np.array([2, 0]), 1),
    "arrays apart": (np.array([0, 1]), slice(None), np.array([3, 1])),
    "mask": X % 5 < 2,
    "mask of the first axis": np.array([False, True]),
    "mask and slice": (slice(None), np.array([True, False, True]), slice(1, 3)),
    "mask and ints": (np.array([True, True]), np.array([0, 2])),
    "scalar mask": True,
    "false": np.False_,
    "empty": np.array([], np.intp),
    "0-d int": np.array(1),
    "uint8": np.array([1, 1], np.uint8),
}


def as_tensors(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(as_tensors(k) for k in key)
    return T(key) if isinstance(key, np.ndarray) else key


@pytest.mark.parametrize("name", KEYS)
def test_read(name: str) -> None:
    key = KEYS[name]
    expected = np.asarray(X[key])
    for k in (key, as_tensors(key)):
        x = T(X)
        result = x[k]
        assert type(result) is bl.Tensor and result.dtype == expected.dtype
        np.testing.assert_array_equal(result.numpy(), expected)
        is_view = np.asarray(X[key]).base is not None and np.shares_memory(X[key], X)
        assert np.shares_memory(result.numpy(), X) == is_view


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("value", [7, np.float32(2.5), "like", "tensor"], ids=str)
def test_assign(name: str, value: Any) -> None:
    key = KEYS[name]
    if isinstance(value, str):
        value = np.asarray(X[key]) * 2 + 1
    a, x = X.copy(), T(X.copy())
    a[key] = value
    x[as_tensors(key)] = T(value) if isinstance(value, np.ndarray) else value
    np.testing.assert_array_equal(x.numpy(), a)
    assert x.version == 1


def test_assignment_through_a_view_and_to_itself() -> None:
    x = T(np.arange(5))
    x[1:] = x[:-1]
    np.testing.assert_array_equal(x.numpy(), [0, 0, 1, 2, 3])
    x[::2][1] = 9
    np.testing.assert_array_equal(x.numpy(), [0, 0, 9, 2, 3])
    x[[0, 0]] += 1
    np.testing.assert_array_equal(x.numpy(), [1, 0, 9, 2, 3])


@pytest.mark.parametrize(
    ("key", "error"),
    [(5, IndexError), ((0, 0, 0, 0), IndexError), (1.0, IndexError), (np.array([3]), IndexError), ("a", IndexError),
     (np.ones((3, 3), bool), IndexError), ((..., ...), IndexError)],
)  # fmt: skip
def test_bad_keys_raise_as_numpy_does(key: Any, error: type[Exception]) -> None:
    with pytest.raises(error) as expected:
        X[key]
    with pytest.raises(error) as raised:
        T(X)[key]
    assert str(raised.value) == str(expected.value)
    x = T(X.copy())
    with pytest.raises(error):
        x[key] = 0
    with pytest.raises(ValueError, match="broadcast"):
        x[0] = np.zeros(7)


def test_a_read_only_array_refuses_assignment() -> None:
    frozen = X.copy()
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        T(frozen)[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        bl.broadcast_to(T(X), (2, 2, 3, 4))[0] = 1
