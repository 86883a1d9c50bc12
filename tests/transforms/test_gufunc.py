"""Gufuncs of users, on the roads of `vmap`'s tests."""

import numpy as np
import pytest

import broadloom as bl
from broadloom.errors import OptionsError, ParseError, TransformError
from broadloom.tensor.dispatch import Tensor, made
from broadloom.transforms.gufunc import gufunc_of

RNG = np.random.default_rng(5)
A, B = RNG.normal(size=(5, 1, 2, 3)), RNG.normal(size=(4, 3, 6))
X = RNG.normal(size=(3, 4, 5))


def eager(signature, core):
    return bl.gufunc(signature)(core)


def dispatched(signature, core):
    return gufunc_of(signature, core)


def compiled(signature, core):
    return bl.compile(bl.gufunc(signature)(core), fullgraph=True)


def compiled_around(signature, core):
    inner = bl.gufunc(signature)(core)
    return bl.compile(lambda *args, **kwargs: inner(*args, **kwargs), fullgraph=True, dynamic=True)


ROADS = [eager, dispatched, compiled, compiled_around]
by_road = pytest.mark.parametrize("gufunc", ROADS, ids=lambda f: f.__name__)


@by_road
def test_loop_dims_broadcast(gufunc):
    product = gufunc("(m,n),(n,p)->(m,p)", lambda a, b: np.sum(a[:, :, None] * b, axis=1))
    np.testing.assert_allclose(product(A, B), A @ B, rtol=1e-12)
    np.testing.assert_allclose(product(A[0, 0], B), A[0, 0] @ B, rtol=1e-12)


@by_road
@pytest.mark.parametrize(
    "shapes", [((3,), (3,)), ((2, 3), (3,)), ((3,), (4, 3, 2)), ((5, 1, 2, 3), (4, 3, 6))], ids=str
)
def test_optional_dims(gufunc, shapes):
    a, b = (RNG.normal(size=s) for s in shapes)
    got = gufunc("(m?,n),(n,p?)->(m?,p?)", lambda a, b: a @ b)(a, b)
    np.testing.assert_allclose(got, a @ b, rtol=1e-12)
    assert np.shape(got) == np.shape(a @ b)


@by_road
def test_broadcastable_and_fixed_dims(gufunc):
    dot = gufunc("(3|1),(3|1)->()", lambda a, b: np.sum(a * b))
    np.testing.assert_allclose(dot(np.ones((2, 1)), np.arange(3.0)), [3.0, 3.0])
    np.testing.assert_allclose(dot(np.ones((2, 3)), np.arange(3.0)), [3.0, 3.0])


@pytest.mark.parametrize("gufunc", ROADS[:3], ids=lambda f: f.__name__)  # a kernel of np.convolve has a known size
def test_expressions_in_results(gufunc):
    convolve = gufunc("(m),(n)->(m+n-1)", lambda a, b: np.convolve(a, b))
    got = convolve(X, np.array([1.0, -2.0]))
    np.testing.assert_allclose(got, np.apply_along_axis(np.convolve, -1, X, [1.0, -2.0]), rtol=1e-12)


@by_road
def test_axis_keepdims_and_several_results(gufunc):
    moments = gufunc("(n)->(),()", lambda x: (np.mean(x), np.std(x)))
    for axis in (0, 1, -1):
        mean, std = moments(X, axis=axis)
        np.testing.assert_allclose(mean, X.mean(axis), rtol=1e-12)
        np.testing.assert_allclose(std, X.std(axis), rtol=1e-12)
        mean, std = moments(X, axis=axis, keepdims=True)
        np.testing.assert_allclose(std, X.std(axis, keepdims=True), rtol=1e-12)


@by_road
def test_axes_as_numpy_has_them(gufunc):
    product = gufunc("(m,n),(n,p)->(m,p)", lambda a, b: a @ b)
    a, b = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(3, 5, 4))
    axes = [(0, 1), (0, 1), (-1, 0)]
    np.testing.assert_allclose(product(a, b, axes=axes), np.matmul(a, b, axes=axes), rtol=1e-12)


@by_road
def test_out_is_written_and_returned(gufunc):
    moments = gufunc("(n)->(),()", lambda x: (np.mean(x), np.std(x)))
    out = np.empty((3, 4)), np.empty((3, 4), np.float32)
    got = moments(X, out=out)
    assert got[0] is out[0] and got[1] is out[1]
    np.testing.assert_allclose(out[0], X.mean(-1), rtol=1e-12)
    np.testing.assert_allclose(out[1], X.std(-1), rtol=1e-6)


@pytest.mark.parametrize("gufunc", [eager, dispatched], ids=lambda f: f.__name__)
def test_refusals(gufunc):
    total = gufunc("(n)->()", lambda x: x.sum())
    with pytest.raises(ValueError, match="output has 0 axes"):
        total(X, out=np.empty(()))
    with pytest.raises(ValueError, match="core dim n is 3, not 5"):
        gufunc("(n),(n)->()", lambda x, y: x @ y)(X, np.ones(3))
    with pytest.raises(TransformError, match="another shape than its signature says"):
        gufunc("(n)->()", lambda x: x)(X)
    with pytest.raises(TransformError, match="another number of results"):
        gufunc("(n)->(),()", lambda x: x.sum())(X)
    with pytest.raises(ValueError, match="read-only"):
        gufunc("(n)->()", lambda x: x.fill(1.0) or x.sum())(X)
    with pytest.raises(ValueError, match="cannot cast"):
        total(X, out=np.empty((3, 4), np.int64))
    with pytest.raises((TypeError, bl.errors.GraphBreakError), match="unknown keyword argument; got where"):
        total(X, where=True)
    with pytest.raises(ParseError):
        gufunc("(n->()", lambda x: x)
    with pytest.raises(TypeError, match="takes 1 operands"):
        total(X, X, X)


@by_road
def test_tensors_and_scalars(gufunc):
    total = gufunc("(n)->()", lambda x: np.sum(x))
    assert isinstance(total(made(X)), Tensor)
    assert type(total(X[0, 0])) is np.float64


@by_road
def test_it_maps_as_any_op(gufunc):
    weighted = bl.gufunc("(n),(n)->()")(lambda x, w: np.sum(x * w) / np.sum(w))
    w = RNG.random(4)
    got = gufunc("(n,k),(n)->(k)", bl.vmap(weighted, in_axes=(1, None)))(X.transpose(0, 1, 2), w)
    np.testing.assert_allclose(got, np.einsum("bnk,n->bk", X, w) / w.sum(), rtol=1e-12)


def test_vectorize():
    def clip(x, limit, scale=2.0):
        return np.where(x > limit, limit, x) * scale

    x, limit = np.arange(12.0).reshape(3, 4), np.array([1.0, 5.0, 7.0, 100.0])
    np.testing.assert_array_equal(bl.vectorize(clip)(x, limit), np.minimum(x, limit) * 2)
    normed = bl.vectorize(lambda v: v / np.sqrt(v @ v), signature="(n)->(n)")
    np.testing.assert_allclose(normed(X), X / np.linalg.norm(X, axis=-1, keepdims=True), rtol=1e-12)
    with pytest.raises(OptionsError, match="fixed number of arguments"):
        bl.vectorize(lambda *xs: xs[0])


def test_compiled_it_is_fused_over_the_loop_dims():
    core = bl.gufunc("(n),(n)->()")(lambda x, w: np.sum(np.exp(x) * w))

    def batched(x, w):
        return np.sum(np.exp(x) * w, axis=-1)

    kernels = [len(bl.explain(f)(X, X).kernels) for f in (core, batched)]
    assert kernels[0] == kernels[1] == 1


@by_road
@pytest.mark.parametrize("shape", [(2, 3), (4, 2, 3)], ids=["no loop dims", "loop dims"])
def test_operands_are_neither_given_away_nor_written_to(gufunc, shape):
    def turned(x):
        return x.T, x, x[0]

    def scaled(x):
        x *= 2
        return x

    x = RNG.normal(size=shape)
    results = gufunc("(m,n)->(n,m),(m,n),(n)", turned)(x)
    for got, want in zip(results, (np.swapaxes(x, -1, -2), x, x[..., 0, :]), strict=True):
        np.testing.assert_array_equal(got, want)
        assert not np.shares_memory(got, x)
        assert got.flags.writeable
    before = x.copy()
    with pytest.raises((TransformError, ValueError, bl.errors.GraphBreakError), match=r"read-only|a write to"):
        gufunc("(m,n)->(m,n)", scaled)(x)
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("shape", [(3,), (2, 3)], ids=["no loop dims", "loop dims"])
def test_a_core_that_holds_for_one_size(shape):
    def swapped(x):
        return np.stack([x[2], x[1], x[0]])

    x = RNG.normal(size=shape)
    np.testing.assert_array_equal(compiled_around("(n)->(n)", swapped)(x), x[..., ::-1])
