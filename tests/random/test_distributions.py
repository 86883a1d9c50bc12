"""The numbers are distributed as they should be: fixed keys, so that no run fails by chance. Thresholds leave a correct
generator a chance of about 1e-4 a test, had the keys not been chosen before."""

import math

import numpy as np
import pytest
from scipy import stats

import broadloom.random as R
from tests.random.cases import CONTINUOUS, COUNTS

N = 100_000
KEY = R.key(5)
FOURTH_MOMENTS_INFINITE = ("f", "noncentral_f", "pareto")


@pytest.mark.parametrize("case", CONTINUOUS, ids=str)
def test_continuous_distributions(case):
    x = case.function(KEY, **case.parameters, size=N).numpy()
    assert stats.kstest(x, case.law.cdf).pvalue > 1e-4
    if np.isfinite(case.law.var()) and case.name not in FOURTH_MOMENTS_INFINITE:
        spread = case.law.std()
        assert abs(x.mean() - case.law.mean()) < 4 * spread / math.sqrt(N)
        kurtosis = float(case.law.stats("k"))
        if np.isfinite(kurtosis):
            assert abs(x.var() / spread**2 - 1) < 5 * math.sqrt((kurtosis + 2) / N)


@pytest.mark.parametrize("case", COUNTS, ids=str)
def test_counts(case):
    """Chi-square over some tens of bins between quantiles."""
    x = case.function(KEY, **case.parameters, size=N).numpy()
    tops = np.unique(case.law.ppf(np.linspace(0.001, 0.999, 50)))
    counts = np.diff(np.searchsorted(np.sort(x), tops, side="right"), prepend=0, append=N)
    counts[-1] = N - counts[:-1].sum()
    expected = N * np.diff(case.law.cdf(tops), prepend=0, append=1)
    used = expected > 5
    assert counts[~used].sum() <= 30
    if used.sum() > 1:
        chi = ((counts[used] - expected[used]) ** 2 / expected[used]).sum()
        assert stats.chi2.sf(chi, used.sum() - 1) > 1e-4
    assert abs(x.mean() - case.law.mean()) < 4 * case.law.std() / math.sqrt(N)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_uniform_numbers_take_every_bit(dtype):
    x = R.random(KEY, N, dtype).numpy()
    digits = np.finfo(dtype).nmant + 1
    whole = x.astype(np.float64) * 2.0**digits
    assert x.dtype == dtype and (x >= 0).all() and (x < 1).all() and (whole == np.floor(whole)).all()
    ones = np.array([(whole.astype(np.int64) >> k & 1).mean() for k in range(digits)])
    assert np.abs(ones - 0.5).max() < 4.5 * 0.5 / math.sqrt(N)


def test_bernoulli():
    for p in (0.0, 0.03, 0.5, 1.0):
        x = R.bernoulli(KEY, p, N).numpy()
        assert x.dtype == bool and abs(x.mean() - p) <= 4 * math.sqrt(p * (1 - p) / N)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_every_bit_is_fair(dtype):
    x = R.bits(KEY, N, dtype).numpy()
    ones = np.array([(x >> dtype(k) & dtype(1)).mean() for k in range(8 * x.itemsize)])
    assert x.dtype == dtype and np.abs(ones - 0.5).max() < 4.5 * 0.5 / math.sqrt(N)


# ---- neighbours ------------------------------------------------------------------------------------------------------


def test_neighbouring_lanes_do_not_repeat():
    """No groups of equal numbers, of 4 or any other length, and no word that two elements share."""
    words = R.bits(KEY, N, np.uint64).numpy()
    assert len(np.unique(words)) == N
    halves = words.view(np.uint32)
    assert len(np.unique(halves)) > 2 * N * (1 - 1.5 * N / 2**32)
    masks = R.bernoulli(KEY, 0.5, 4 * 5000).numpy().reshape(-1, 4).sum(1)
    found = np.bincount(masks, minlength=5)
    assert stats.chisquare(found, 5000 * np.array([1, 4, 6, 4, 1]) / 16).pvalue > 1e-4


@pytest.mark.parametrize("lag", [1, 2, 3, 4, 5, 8, 16, 64])
def test_neighbouring_lanes_are_not_correlated(lag):
    for x in (
        R.random(KEY, N).numpy() - 0.5,
        R.normal(KEY, size=N).numpy(),
        R.random(KEY, N, np.float32).numpy() - 0.5,
    ):
        r = np.corrcoef(x[:-lag], x[lag:])[0, 1]
        assert abs(r) < 4.5 / math.sqrt(N)


def test_words_and_draws_are_not_correlated():
    low = R.bits(KEY, N // 5, np.uint64).numpy()
    bits = np.array([(low >> np.uint64(k) & np.uint64(1)).astype(np.float64) for k in range(64)])
    r = np.corrcoef(bits) - np.eye(64)
    assert np.abs(r).max() < 5.5 / math.sqrt(N // 5)


def test_split_keys_give_independent_numbers():
    keys = R.split(KEY, 40)
    x = np.stack([R.normal(keys[k], size=5000).numpy() for k in range(40)] + [R.normal(KEY, size=5000).numpy()])
    assert np.abs(np.corrcoef(x) - np.eye(41)).max() < 5 / math.sqrt(5000)
    first = np.array([R.random(k).item() for k in R.split(KEY, 2000)])  # one number of each key
    assert stats.kstest(first, "uniform").pvalue > 1e-4
    assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) < 4.5 / math.sqrt(2000)
    seeds = np.array([R.random(R.key(k)).item() for k in range(2000)])
    assert stats.kstest(seeds, "uniform").pvalue > 1e-4
    assert abs(np.corrcoef(seeds[:-1], seeds[1:])[0, 1]) < 4.5 / math.sqrt(2000)


# ---- tails and corners -----------------------------------------------------------------------------------------------


def test_tails_are_as_long_as_they_should_be():
    n = 4_000_000
    x = np.sort(np.abs(R.standard_normal(KEY, n, np.float32).numpy()))
    for distance in (3.0, 4.0, 4.75):
        expected = n * 2 * stats.norm.sf(distance)
        assert abs((x > distance).sum() - expected) < 4 * math.sqrt(expected)
    e = R.standard_exponential(KEY, n).numpy()
    for distance in (8.0, 11.0):
        expected = n * math.exp(-distance)
        assert abs((e > distance).sum() - expected) < 4 * math.sqrt(expected)


def test_integers_over_whole_dtypes():
    for d in (np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64):
        info = np.iinfo(d)
        x = R.integers(KEY, info.min, info.max, N, d, endpoint=True).numpy()
        assert x.dtype == d
        scaled = (x.astype(np.float64) - float(info.min)) / (float(info.max) - float(info.min))
        assert abs(scaled.mean() - 0.5) < 4 / math.sqrt(12 * N)
        assert scaled.min() < 0.001 and scaled.max() > 0.999
    assert R.integers(KEY, 0, 2, 8, bool).numpy().dtype == bool
    assert set(R.integers(KEY, 2**64 - 3, 2**64, 100, np.uint64).tolist()) == {2**64 - 3, 2**64 - 2, 2**64 - 1}
    assert R.integers(KEY, 7, 8, 5).tolist() == [7] * 5


def test_degenerate_parameters():
    assert R.normal(KEY, 3.0, 0.0, 4).tolist() == [3.0] * 4
    assert R.exponential(KEY, 0.0, 2).tolist() == [0.0, 0.0]
    assert R.gamma(KEY, 0.0, 2.0, 3).tolist() == [0.0] * 3
    assert R.weibull(KEY, 0.0, 3).tolist() == [0.0] * 3
    assert R.poisson(KEY, 0.0, 3).tolist() == [0] * 3
    assert R.binomial(KEY, 0, 0.5, 3).tolist() == [0] * 3
    assert R.binomial(KEY, [5, 2000], [[0.0], [1.0]]).tolist() == [[0, 0], [5, 2000]]
    assert R.geometric(KEY, 1.0, 3).tolist() == [1] * 3
    assert R.negative_binomial(KEY, 3.0, 1.0, 3).tolist() == [0] * 3
    assert R.zipf(KEY, 2000.0, 3).tolist() == [1] * 3
    near_one = R.zipf(KEY, 1.0001, 100).numpy()
    assert near_one.min() >= 1 and near_one.max() > 2**50
    turned = R.vonmises(KEY, np.array([0.0, 3.0, 100.0]), 2.0, (1000, 3)).numpy()
    assert np.abs(turned).max() <= math.pi
    np.testing.assert_allclose(R.vonmises(KEY, 0.5, 1e30, 3).numpy(), 0.5, rtol=1e-13)
    assert R.logseries(KEY, 0.0, 3).tolist() == [1] * 3
    tiny = R.beta(KEY, 1e-3, 1e-3, 1000).numpy()
    assert ((tiny >= 0) & (tiny <= 1)).all() and 0.4 < tiny.mean() < 0.6


# ---- vectors ---------------------------------------------------------------------------------------------------------


def test_dirichlet():
    alpha = np.array([0.2, 1.0, 3.0, 0.8])
    x = R.dirichlet(KEY, alpha, N).numpy()
    np.testing.assert_allclose(x.sum(-1), 1, rtol=1e-14)
    for k, a in enumerate(alpha):
        assert stats.kstest(x[:, k], stats.beta(a, alpha.sum() - a).cdf).pvalue > 1e-4
    tiny = R.dirichlet(KEY, np.full(3, 1e-4), 50).numpy()
    np.testing.assert_allclose(tiny.sum(-1), 1)


def test_multinomial():
    p = np.array([0.1, 0.2, 0.0, 0.3, 0.4])
    x = R.multinomial(KEY, 30, p, 20_000).numpy()
    assert x.dtype == np.int64 and (x.sum(-1) == 30).all() and (x[:, 2] == 0).all()
    for k in (0, 1, 3, 4):
        assert abs(x[:, k].mean() - 30 * p[k]) < 4 * math.sqrt(30 * p[k] * (1 - p[k]) / 20_000)
    assert abs(np.cov(x[:, 0], x[:, 1])[0, 1] + 30 * 0.02) < 0.1
    assert R.multinomial(KEY, np.array([3, 5]), np.array([0.5, 0.5]), (4, 2)).numpy().sum(-1).tolist() == [[3, 5]] * 4
    assert R.multinomial(KEY, 9, [1.0]).tolist() == [9]


def test_multivariate_normal():
    cov = np.array([[2.0, 0.6], [0.6, 1.0]])
    x = R.multivariate_normal(KEY, np.array([1.0, -1.0]), cov, N).numpy()
    assert np.abs(x.mean(0) - [1, -1]).max() < 0.02 and np.abs(np.cov(x.T) - cov).max() < 0.04
