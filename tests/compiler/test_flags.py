"""Arguments of NumPy's functions that switch something on or off, given as the call has them: Python bools, numbers,
NumPy scalars, arrays without axes. The compiled function does what the plain one does for each."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import broadloom as bl
from broadloom.errors import GraphBreakError

CALLS = {
    "sum": lambda x, q: x.sum(0, keepdims=q),
    "mean": lambda x, q: x.mean(keepdims=q),
    "argmax": lambda x, q: np.argmax(x, axis=1, keepdims=q),
    "median": lambda x, q: np.median(x, axis=0, keepdims=q),
    "linspace": lambda x, q: np.linspace(0, 1, 5, endpoint=q),
    "cov of rows": lambda x, q: np.cov(x, rowvar=q),
    "cov with bias": lambda x, q: np.cov(x, bias=q),
    "copy of nan_to_num": lambda x, q: np.shares_memory(x, np.nan_to_num(x, copy=q)),
    "astype": lambda x, q: x.astype(x.dtype, copy=q),
    "average": lambda x, q: np.average(x, 0, returned=q),
    "histogram": lambda x, q: np.histogram(x, 3, density=q),
    "meshgrid": lambda x, q: np.meshgrid(x[0], x[1], sparse=q),
    "vander": lambda x, q: np.vander(x[0], increasing=q),
    "angle": lambda x, q: np.angle(x, deg=q),
    "isclose": lambda x, q: np.isclose(x, x * np.nan, equal_nan=q),
    "digitize": lambda x, q: np.digitize(x, [0.0, 2.0], right=q),
    "svd": lambda x, q: np.linalg.svd(x, compute_uv=q)[0].shape,  # vectors of one value may differ
    "pinv": lambda x, q: np.linalg.pinv(x, hermitian=q),
    "axis": lambda x, q: x.sum(axis=q),
    "axis of cumsum": lambda x, q: np.cumsum(x, axis=q),
    "axis of concatenate": lambda x, q: np.concatenate([x, x], axis=q),
    "degrees of freedom": lambda x, q: x.std(ddof=q),
    "size": lambda x, q: x.reshape((4, 4, q)),
}
FLAGS = (True, False, 0, 1, 0.0, 1.0, np.True_, np.False_, np.int64(0), np.float64(0), np.array(False), np.array(1))


def outcome(f, q):
    x = np.arange(16.0).reshape(4, 4) - 3
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            result = f(x, q)
        except (TypeError, ValueError, IndexError) as error:
            return type(error)
    return [result is x, *(result if isinstance(result, tuple | list) else [result])]


@pytest.mark.parametrize("call", CALLS)
def test_a_flag_means_what_it_means_to_numpy(call):
    f = bl.compile(CALLS[call])
    for q in FLAGS:
        got, want = outcome(f, q), outcome(CALLS[call], q)
        if isinstance(want, type):
            assert got is want, repr(q)
            continue
        assert [type(r) for r in got] == [type(r) for r in want], repr(q)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, err_msg=repr(q), strict=True)


def test_a_flag_that_is_a_numpy_scalar_is_guarded_by_its_value():
    f = bl.compile(lambda x, q: np.linspace(0, x[0], 5, endpoint=q), fullgraph=True)
    for q in (np.True_, np.False_, np.True_):
        np.testing.assert_allclose(f(np.ones(1), q), np.linspace(0, 1, 5, endpoint=bool(q)))
    assert len(f.report().compiles) == 2


def test_a_flag_from_data_is_refused():
    f = bl.compile(lambda x: np.linspace(0, 1, 5, endpoint=x.any()), fullgraph=True)
    with pytest.raises(GraphBreakError, match="an array stands where a bool has to be known"):
        f(np.ones(3))
