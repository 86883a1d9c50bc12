"""What is wrong is said before anything is computed: what, got, allowed, remedy. In arrays it becomes nan."""

import numpy as np
import pytest

import broadloom as bl
import broadloom.random as R
from broadloom.errors import BroadloomError
from broadloom.frontend import random as entries
from tests.random.programs import native

KEY = R.key(1)
LEAST = -(2**63)

WRONG = [
    (lambda: R.normal(5), "no key", "bl.random.key"),
    (lambda: R.normal(np.zeros(2)), "no key", "uint32[2]"),
    (lambda: R.normal(np.zeros(3, np.uint32)), "no key", "uint32[2]"),
    (lambda: R.normal(R.split(KEY, 3)), "no key", "bl.vmap"),
    (lambda: R.key(2**64), "64 bits", "2**64 - 1"),
    (lambda: R.key(1.5), "a seed", "an integer"),
    (lambda: R.key(np.array(1.5)), "a seed", "an integer"),
    (lambda: R.fold_in(KEY, 2**70), "64 bits", "2**64 - 1"),
    (lambda: R.fold_in(KEY, np.array(0.5)), "fold in", "an integer"),
    (lambda: R.normal(KEY, 0.0, -1.0), "parameter scale", "0 or more"),
    (lambda: R.exponential(KEY, np.float32(-1)), "parameter scale", "0 or more"),
    (lambda: R.gamma(KEY, -0.5), "parameter shape", "0 or more"),
    (lambda: R.beta(KEY, 0.0, 1.0), "parameter a", "more than 0"),
    (lambda: R.poisson(KEY, -1), "parameter lam", "0 or more"),
    (lambda: R.binomial(KEY, 5, 1.5), "parameter p", "0 to 1"),
    (lambda: R.binomial(KEY, -5, 0.5), "parameter n", "0 or more"),
    (lambda: R.geometric(KEY, 0.0), "parameter p", "more than 0, up to 1"),
    (lambda: R.logseries(KEY, 1.0), "parameter p", "without 1"),
    (lambda: R.zipf(KEY, 1), "parameter a", "more than 1"),
    (lambda: R.normal(KEY, 1j), "parameter loc", "real"),
    (lambda: R.triangular(KEY, 2.0, 1.0, 3.0), "triangle", "left <= mode <= right"),
    (lambda: R.normal(KEY, size=-1), "negative", "0 or more"),
    (lambda: R.normal(KEY, np.zeros(3), size=(2,)), "broadcast", "size"),
    (lambda: R.normal(KEY, np.zeros((2, 3)), size=(3,)), "broadcast", "size"),
    (lambda: R.normal(KEY, dtype=np.int32), "dtype", "float64"),
    (lambda: R.poisson(KEY, dtype=np.float32), "dtype", "int64"),
    (lambda: R.bits(KEY, dtype=np.int32), "dtype", "uint32"),
    (lambda: R.integers(KEY, 5, 5), "no integer", "low below high"),
    (lambda: R.integers(KEY, 5, 4, endpoint=True), "no integer", "low below high"),
    (lambda: R.integers(KEY, 0, 257, dtype=np.uint8), "high does not fit", "256"),
    (lambda: R.integers(KEY, -1, 5, dtype=np.uint8), "low does not fit", "255"),
    (lambda: R.integers(KEY, 0, 3, dtype=np.float64), "dtype", "integer"),
    (lambda: R.integers(KEY, np.array(0.5), 3), "bound", "integers"),
    (lambda: R.dirichlet(KEY, np.ones((2, 2))), "alpha", "one axis"),
    (lambda: R.dirichlet(KEY, np.empty(0)), "alpha", "1 or more"),
    (lambda: R.multinomial(KEY, 3, 0.5), "pvals", "axis"),
    (lambda: R.multinomial(KEY, 3, np.full(1001, 1 / 1001)), "1001 categories", "1000"),
    (lambda: R.multivariate_normal(KEY, np.zeros(3), np.eye(2)), "mean and cov", "(n, n)"),
]


@pytest.mark.parametrize("k", range(len(WRONG)))
def test_wrong_arguments(k):
    call, *parts = WRONG[k]
    with pytest.raises(BroadloomError) as caught:
        call()
    assert isinstance(caught.value, ValueError | TypeError)
    for part in parts:
        assert part in str(caught.value)
    assert "remedy: " in str(caught.value)


def test_parameters_in_arrays_give_nan():
    scale = np.array([1.0, -1.0, np.nan, 0.0])
    for got in (R.normal(KEY, 0.0, scale).numpy(), native(entries.normal, {"key": KEY.numpy(), "scale": scale})):
        assert np.isnan(got).tolist() == [False, True, True, False]
    p = np.array([0.5, 1.5, np.nan, -0.1])
    for got in (R.binomial(KEY, 5, p).numpy(), native(entries.binomial, {"key": KEY.numpy(), "p": p}, n=5)):
        assert got[1:].tolist() == [LEAST] * 3 and got[0] >= 0
    assert R.bernoulli(KEY, np.array([1.0, 1.5, np.nan])).tolist() == [True, False, False]
    assert R.integers(KEY, np.array([3, 3]), np.array([4, 1])).tolist() == [3, 3]
    assert np.isnan(R.triangular(KEY, np.array([0.0, 2.0]), 1.0, 3.0).numpy()).tolist() == [False, True]
    for name, good in (("poisson", 4.0), ("gamma", 2.0), ("chisquare", 2.0), ("weibull", 2.0), ("pareto", 2.0)):
        got = getattr(R, name)(KEY, np.array([good, -good, np.nan])).numpy()
        bad = got == LEAST if got.dtype.kind == "i" else np.isnan(got)
        assert bad.tolist() == [False, True, True], name


def test_infinite_parameters_end():
    assert R.standard_gamma(KEY, np.array([np.inf])).tolist() == [np.inf]
    assert R.poisson(KEY, np.array([np.inf, 1e30])).tolist() == [LEAST] * 2


def test_numpys_own_generators_stay_refused_with_the_remedy():
    @bl.compile(fullgraph=True)
    def f(x):
        return x + np.random.normal(size=3)

    with pytest.raises(BroadloomError, match=r"bl\.random"):
        f(np.zeros(3))
