"""The same bits everywhere: eager, interpreted, compiled for one size and for any, in vectors and their tails, on
several threads, and for each example of a batch."""

import ml_dtypes
import numpy as np
import pytest

import broadloom as bl
import broadloom.random as R
from broadloom.frontend import random as entries
from broadloom.frontend import random_vectors as vectors
from broadloom.graph.interpret import interpret
from broadloom.ops.random import ENTRIES
from broadloom.ops.table import OPS
from tests.codegen.loops import Case as LoopCase
from tests.codegen.loops import compile_loops
from tests.random.cases import ALL, EACH_ONCE
from tests.random.programs import native, native_of_all, native_of_any_size, recorded

SIZES = [(0,), (1,), (2,), (3,), (4,), (5,), (7,), (64,), (1001,), (4099,)]
KEY = R.key(2024).numpy()


def same(a, b):
    a, b = (np.asarray(x) for x in (a, b))
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("case", ALL, ids=str)
def test_eager_compiled_and_symbolic(case):
    whole = case.function(KEY, **case.parameters, size=SIZES[-1]).numpy()
    for size, result in zip(SIZES, native_of_any_size(case.entry, KEY, SIZES, **case.parameters), strict=True):
        same(result, whole[: size[0]])  # an element knows nothing of how many there are
    same(native(case.entry, {"key": KEY}, size=(1001,), **case.parameters), whole[:1001])
    graph = recorded(case.entry, {"key": KEY}, size=(64,), **case.parameters)
    same(interpret(graph, [KEY])[0], whole[:64])
    same(case.function(KEY, **case.parameters, size=(13, 7)).numpy(), whole[:91].reshape(13, 7))


@pytest.mark.parametrize("case", EACH_ONCE, ids=str)
def test_parameters_that_are_arrays(case, rng):
    numbers = {k: v for k, v in case.parameters.items() if not isinstance(v, bool)}
    flags = {k: v for k, v in case.parameters.items() if isinstance(v, bool)}
    arrays = {k: np.full((5, 1), v) for k, v in numbers.items()}
    eager = case.function(KEY, **arrays, **flags, size=(5, 17)).numpy()
    same(eager, case.function(KEY, **case.parameters, size=(5, 17)).numpy())
    same(native(case.entry, {"key": KEY, **arrays}, size=(5, 17), **flags), eager)
    if arrays:
        same(case.function(KEY, **arrays, **flags).numpy(), case.function(KEY, **case.parameters, size=(5, 1)).numpy())


@pytest.mark.parametrize("case", EACH_ONCE, ids=str)
def test_each_example_has_what_its_key_gives_alone(case):
    keys = R.split(KEY, 6)
    draw = lambda key: case.function(key, **case.parameters, size=(3, 5))  # noqa: E731
    alone = np.stack([draw(keys[k]).numpy() for k in range(6)])
    same(bl.vmap(draw)(keys).numpy(), alone)
    twice = bl.vmap(bl.vmap(draw))(R.split(KEY, (2, 3))).numpy()
    same(twice.reshape(6, 3, 5), np.stack([draw(R.split(KEY, (2, 3)).numpy().reshape(6, 2)[k]) for k in range(6)]))


def test_parameters_may_differ_between_examples_that_share_a_key():
    scales = np.array([1.0, 2.0, 4.0])
    got = bl.vmap(lambda s: R.normal(KEY, 0.0, s, size=4), randomness="same")(scales)
    same(got, np.stack([R.normal(KEY, 0.0, s, size=4).numpy() for s in scales]))


def test_threads_do_not_matter():
    """One program of all distributions: each of its kernels is large enough to be shared out."""
    run = native_of_all(EACH_ONCE, KEY, (70_001,))
    for one, three in zip(run(1), run(3), strict=True):
        same(one, three)


@pytest.mark.parametrize("features", [frozenset(), frozenset({"avx2", "sse4.1"})], ids=["128", "256"])
@pytest.mark.parametrize("name", ENTRIES)
def test_the_length_of_vectors_does_not_matter(name, features, rng):
    """Other forms of the loops, and rounding without an instruction for it."""
    entry = ENTRIES[name]
    words = [rng.integers(0, 2**64, 3001, dtype=np.uint64) for d in entry.operands if d.kind == "u"]
    numbers = [rng.uniform(0, 30, 3001) for d in entry.operands if d.kind == "f"]
    if name == "random_binomial":
        numbers = [np.floor(10 * numbers[0]), numbers[1] / 30]
    for attrs in entry.attrs:
        case = LoopCase(name, entry.operands, entry.result, attrs)
        expected = OPS[name].reference(*numbers, *words, **attrs)
        for chosen in (features, None):
            (loop,) = compile_loops([case], chosen)
            same(loop(*numbers, *words), expected)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_floats_are_rounded_once(dtype):
    d = bl_dtype(dtype)
    whole = R.normal(KEY, 1.0, 2.0, size=1000).numpy()
    rounded = whole.astype(np.float32).astype(d) if dtype == "bfloat16" else whole.astype(d)
    same(R.normal(KEY, 1.0, 2.0, size=1000, dtype=d).numpy(), rounded)
    same(native(entries.normal, {"key": KEY}, loc=1.0, scale=2.0, size=(1000,), dtype=d), rounded)


def bl_dtype(name):
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def test_vectors():
    alpha = np.array([0.1, 2.0, 5.0, 0.7, 1.0])
    eager = R.dirichlet(KEY, alpha, size=(4, 3)).numpy()
    assert eager.shape == (4, 3, 5)
    same(native(vectors.dirichlet, {"key": KEY, "alpha": alpha}, size=(4, 3)), eager)
    pvals = np.array([0.1, 0.0, 0.4, 0.3, 0.2])
    eager = R.multinomial(KEY, 50, pvals, size=(6,)).numpy()
    same(native(vectors.multinomial, {"key": KEY, "pvals": pvals}, n=50, size=(6,)), eager)
    keys = R.split(KEY, 3)
    same(
        bl.vmap(lambda k, a: R.dirichlet(k, a, size=2))(keys, np.stack([alpha, alpha * 2, alpha * 3])).numpy(),
        np.stack([R.dirichlet(keys[k], alpha * (k + 1), size=2).numpy() for k in range(3)]),
    )


def test_multivariate_normal_is_equal_to_rounding():
    cov = np.array([[2.0, 0.5, 0.1], [0.5, 1.0, 0.3], [0.1, 0.3, 3.0]])
    mean = np.array([1.0, -2.0, 0.5])
    eager = R.multivariate_normal(KEY, mean, cov, size=200).numpy()
    z = R.standard_normal(KEY, size=(200, 3)).numpy()
    np.testing.assert_allclose(eager, mean + z @ np.linalg.cholesky(cov).T, rtol=1e-13, atol=1e-13)
    got = native(vectors.multivariate_normal, {"key": KEY, "mean": mean, "cov": cov}, size=(200,))
    np.testing.assert_allclose(got, eager, rtol=1e-13, atol=1e-13)


def test_values_that_stay():
    """A few numbers, so that a change of any formula or counter is seen."""
    key = R.key(42)
    normal = R.normal(key, size=3).tolist()
    assert [x.hex() for x in normal] == ["-0x1.54ac03c1a032bp-1", "-0x1.6f135c80fefcbp+0", "0x1.147f0a3f6edbap-3"]
    assert [x.hex() for x in R.standard_gamma(key, 0.5, size=2).tolist()] == [
        "0x1.2ad74088af00bp-1",
        "0x1.f3642403943f7p-2",
    ]
    assert R.integers(key, 0, 1000, size=5).tolist() == [340, 454, 773, 379, 235]
    assert R.poisson(key, 20.0, size=5).tolist() == [20, 18, 22, 22, 25]


def test_results_without_axes():
    got = R.normal(KEY)
    assert got.shape == () and got.dtype == np.float64
    same(got.numpy(), R.normal(KEY, size=1).numpy()[0])
    assert R.normal(KEY, np.zeros((2, 1)), np.ones(3)).shape == (2, 3)
    assert R.integers(KEY, 5).shape == ()
