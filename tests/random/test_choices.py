"""Choices and permutations: what may come out, how often, and the same eagerly, compiled and batched."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

import broadloom as bl
import broadloom.random as R
from broadloom.errors import BroadloomError

KEY = R.key(11)
P = np.array([0.1, 0.0, 0.4, 0.2, 0.3])
X = np.arange(24.0).reshape(4, 6)


def counted(draws, outcomes):
    """How often each outcome occurs among the rows."""
    seen = dict.fromkeys(outcomes, 0)
    for row in draws:
        seen[tuple(int(v) for v in row)] += 1
    return np.array(list(seen.values()))


def test_every_order_is_as_likely():
    draws = bl.vmap(lambda k: R.permutation(k, 4))(R.split(KEY, 12_000)).numpy()
    found = counted(draws, itertools.permutations(range(4)))
    assert stats.chisquare(found).pvalue > 1e-4


def test_a_permutation_keeps_the_slices():
    rows = R.permutation(KEY, X).numpy()
    order = R.permutation(KEY, 4).numpy()
    assert order.dtype == np.int64 and sorted(order.tolist()) == [0, 1, 2, 3]
    assert rows.tolist() == X[order].tolist()
    assert R.permutation(KEY, X, axis=1).tolist() == X[:, R.permutation(KEY, 6).numpy()].tolist()
    assert R.permutation(KEY, 0).shape == (0,) and R.permutation(KEY, np.empty((0, 2))).shape == (0, 2)


def test_permuted_shuffles_each_line_by_itself():
    lines = R.permuted(KEY, X, axis=1).numpy()
    assert np.sort(lines, 1).tolist() == X.tolist()
    assert len({tuple((line % 6).tolist()) for line in lines}) > 1
    columns = R.permuted(KEY, X, axis=0).numpy()
    assert np.sort(columns, 0).tolist() == X.tolist()
    every = R.permuted(KEY, X).numpy()
    assert every.shape == X.shape and sorted(every.ravel().tolist()) == X.ravel().tolist() and (every != X).any()
    assert X.tolist() == np.arange(24.0).reshape(4, 6).tolist()


def test_choices_with_chances():
    n = 50_000
    found = np.bincount(R.choice(KEY, 5, n, p=P).numpy(), minlength=5)
    assert found[1] == 0
    assert stats.chisquare(found[P > 0], n * P[P > 0]).pvalue > 1e-4
    scaled = R.choice(KEY, 5, n, p=8 * P).numpy()
    assert (scaled == R.choice(KEY, 5, n, p=P).numpy()).mean() > 0.999
    uniform = np.bincount(R.choice(KEY, 7, n).numpy(), minlength=7)
    assert stats.chisquare(uniform).pvalue > 1e-4


def test_choices_without_replacement():
    keys = R.split(KEY, 10_000)
    pairs = bl.vmap(lambda k: R.choice(k, 4, 2, replace=False))(keys).numpy()
    assert stats.chisquare(counted(pairs, itertools.permutations(range(4), 2))).pvalue > 1e-4
    weights = np.array([0.5, 0.2, 0.3])
    drawn = bl.vmap(lambda k: R.choice(k, 3, 2, replace=False, p=weights))(keys).numpy()
    outcomes = list(itertools.permutations(range(3), 2))
    expected = np.array([weights[i] * weights[j] / (1 - weights[i]) for i, j in outcomes])
    assert stats.chisquare(counted(drawn, outcomes), len(drawn) * expected).pvalue > 1e-4


def test_what_is_chosen_from():
    assert R.choice(KEY, 9).shape == ()
    assert set(R.choice(KEY, np.array([3, 5]), 50).tolist()) == {3, 5}
    assert R.choice(KEY, X, 3).shape == (3, 6) and R.choice(KEY, X, (2, 3), axis=1).shape == (4, 2, 3)
    assert sorted(R.choice(KEY, 6, (2, 3), replace=False).numpy().ravel().tolist()) == list(range(6))
    assert R.choice(KEY, 5, 0).shape == (0,) and R.choice(KEY, 0, 0).shape == (0,)


CALLS = [
    lambda k: R.permutation(k, 1000),
    lambda k: R.permutation(k, X, axis=1),
    lambda k: R.permuted(k, X),
    lambda k: R.permuted(k, X, axis=0),
    lambda k: R.choice(k, 1000, (7, 11)),
    lambda k: R.choice(k, 5, 77, p=P),
    lambda k: R.choice(k, X, 3, replace=False),
    lambda k: R.choice(k, 5, 3, replace=False, p=P),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_the_same_eager_compiled_and_batched(number):
    draw = CALLS[number]
    keys = R.split(KEY, 3).numpy()
    alone = [draw(k).numpy() for k in keys]
    compiled = bl.compile(draw, fullgraph=True)
    for k, expected in zip(keys, alone, strict=True):
        got = compiled(k)
        assert got.dtype == expected.dtype and got.tobytes() == expected.tobytes()
    assert np.asarray(bl.vmap(draw)(keys)).tolist() == np.stack(alone).tolist()
    assert np.asarray(bl.compile(bl.vmap(draw), fullgraph=True)(keys)).tolist() == np.stack(alone).tolist()


@pytest.mark.parametrize(
    ("call", "part"),
    [
        (lambda: R.choice(KEY, 0, 2), "choice from nothing"),
        (lambda: R.choice(KEY, -3), "0 or more"),
        (lambda: R.choice(KEY, 3, 4, replace=False), "up to 3"),
        (lambda: R.choice(KEY, 3, p=[0.5, 0.5]), "one for each element"),
        (lambda: R.choice(KEY, np.array(3.0)), "without axes"),
        (lambda: R.permutation(KEY, np.array(3.0)), "without axes"),
        (lambda: R.permutation(KEY, -1), "0 or more"),
    ],
)
def test_wrong_choices(call, part):
    with pytest.raises(BroadloomError, match=part) as caught:
        call()
    assert "remedy: " in str(caught.value)


def test_a_large_permutation_is_one():
    order = R.permutation(KEY, 100_000).numpy()
    assert np.array_equal(np.sort(order), np.arange(100_000))
    assert abs(np.corrcoef(order, np.arange(100_000))[0, 1]) < 4 / math.sqrt(100_000)
