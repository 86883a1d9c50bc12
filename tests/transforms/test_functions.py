"""Functions of one example, written as NumPy's users write them, on every road: indices, writes, mixed ranks, shared
arrays, reductions, products, and what moves elements. `tests/array_api/test_batched.py` goes over the namespace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import broadloom as bl
from tests.transforms.roads import assert_equal, by_road, captured, eager, in_python, looped

R = np.random.default_rng(0)
BATCH = 3
X, Y = R.normal(size=(BATCH, 4, 5)), R.normal(size=(BATCH, 4, 5))
V, S = R.normal(size=(BATCH, 5)), R.normal(size=BATCH)
M = X @ X.transpose(0, 2, 1) + 4 * np.eye(4)
J, K = R.integers(-4, 4, (BATCH, 6)), R.integers(-4, 4, BATCH)  # indices into four elements
U1, U2 = R.normal(size=5), R.normal(size=(4, 5))  # the same for all examples
SHARED = bl.asarray(U2)
INDEX = np.array([[1, 0], [2, 3]])


def fresh(x: Any) -> Any:
    m = np.zeros((3, 4))
    m[0, 0] = m[0, 1] + x[0, 0]
    m[1] += x[2, :4]
    return m


def windows(x: Any) -> Any:
    y = np.zeros_like(x)
    y[1:3] = x[::2]
    y[..., -1] += 2
    y[:, [0, 2]] *= x[:, [1, 1]]
    return y


def masks(x: Any) -> Any:
    y = x.copy()
    y[y > 0.5] = 0
    y[~(x > 0)] *= -1
    y[x[:, 0] > 0] += 10
    return y


def views_of_views(x: Any) -> Any:
    z = x.T.copy()
    v = z[::-1][1:]
    v += 1
    v[0] = 7
    v.T[1] -= x[0, :4]
    z[1:, None][...] *= 2
    return z, v


def batched_index(x: Any, i: Any) -> Any:
    o = np.zeros(4)
    o[i] = x[0, :1]
    np.add.at(o, i, 1.0)
    p = np.ones((4, 5))
    p[i] = 7.0
    p[i, 0] += x[0, 0]
    return o, p


def into_outputs(x: Any) -> Any:
    o, total = np.empty((4, 5)), np.empty(5)
    np.sin(x, out=o)
    np.multiply(o, 2, out=o, where=x > 0)
    x.sum(axis=0, out=total)
    np.copyto(o, x, where=x < -1)
    return o, total + np.add.reduce(x, axis=0)


def pieces(x: Any) -> Any:
    return np.divmod(x, 0.3), np.frexp(x), np.modf(x)


def by_element(s: Any) -> Any:
    m = np.eye(2)
    m[0, 1] = s
    m[1, 0] -= s
    return m @ m


def loops(x: Any) -> Any:
    total = 0.0
    for row in x:
        total = total + row.max()
    a, b, c, d = x
    return total, a * d - b * c, [r[::-1] for r in x], x / len(x) + x.shape[1] + x.size + x.ndim


def defined_inside(x: Any) -> Any:
    def scale(y: Any, by: float = 2.0) -> Any:
        return y * by + U1

    return scale(x, by=3.0), (lambda y: y - x[0])(U2)


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "slices": (lambda x: (x[1:, ::-2], x[:, None, ..., None], x[..., 0] + x[..., -1].sum(), x[-1], x[2:1]), (X,)),
    "integer arrays": (lambda x: (x[[0, -1]], x[INDEX], x[np.array([[0], [1]]), np.array([1, 2, 3])], x[[]]), (X,)),
    "arrays apart": (lambda x: (x[[0, 1], None, [1, 2]], x[np.ix_([0, 2], [1, 3])], x[:, [0, 0]]), (X,)),
    "batched indices": (lambda x, i: (x[i], x[i, 1], x[i][:, i % 5]), (X, J)),
    "batched index into a shared array": (lambda i: (SHARED[i], SHARED[:, i], np.take(SHARED, i, axis=1)), (J,)),
    "one batched index": (lambda x, k: (SHARED[k], x[k], x[:, k], x[k, k], x[k, 1:]), (X, K)),
    "shared index": (lambda x: (np.take(x, INDEX, axis=0), x.take([3, 7]), np.take(x, -1, axis=1)), (X,)),
    "along an axis": (lambda x: np.take_along_axis(x, np.argsort(x, axis=1), axis=1), (X,)),
    "masks read": (lambda x: (x[x > 0].sum(), np.where(x > 0, x, -x), x.sum(where=x > 0), np.mean(x[x > 0])), (X,)),
    "constant masks": (lambda x: (x[[True, False, True, False]], x[:, [False, False, True, True, True]]), (X,)),
    "fresh": (fresh, (X,)),
    "windows": (windows, (X,)),
    "masks written": (masks, (X,)),
    "views of views": (views_of_views, (X,)),
    "batched indices written": (batched_index, (X, J)),
    "outputs": (into_outputs, (X,)),
    "several results": (pieces, (X,)),
    "by element": (by_element, (S,)),
    "Python loops": (loops, (X,)),
    "functions inside": (defined_inside, (X,)),
    "ranks": (lambda s, x, v: (s * U2, x + s, v * x, v[:, None] * v, s + U1, s * 2.0, x - U1), (S, X, V)),
    "reductions": (
        lambda x: (x.sum(), x.sum(axis=(0, 1), keepdims=True), x.mean(axis=None, keepdims=True), np.var(x, ddof=1)),
        (X,),
    ),
    "more reductions": (
        lambda x: (x.argmax(), np.argmin(x, axis=1, keepdims=True), np.any(x > 1), np.max(x, initial=5.0), x.std(-1)),
        (X,),
    ),
    "scans": (lambda x: (np.cumsum(x), np.cumsum(x, axis=1), x.cumprod(0), np.maximum.accumulate(x, axis=1)), (X,)),
    "order": (lambda x: (np.sort(x), np.sort(x, axis=None), np.argsort(x, axis=0), np.median(x, axis=0)), (X,)),
    "searches": (lambda x, v: (np.searchsorted(np.sort(x.ravel()), v), np.searchsorted([0.0, 1.0], v)), (X, V)),
    "shapes": (
        lambda x: (x.reshape(-1), x.reshape(2, -1), x.reshape(-1, order="F"), x.T.ravel(), x.T.flatten("F"), x.T),
        (X,),
    ),
    "axes": (
        lambda x: (x[None].transpose(2, 0, 1), np.moveaxis(x, 0, -1), x[:1].squeeze(), np.expand_dims(x, (0, 2))),
        (X,),
    ),
    "movement": (
        lambda x: (np.roll(x, 2), np.roll(x, (1, 2), axis=(0, 1)), np.tile(x, (2, 1, 2)), np.flip(x), np.rot90(x)),
        (X,),
    ),
    "repeats": (lambda x: (np.repeat(x, [1, 0, 2, 3], axis=0), np.repeat(x, 2), np.pad(x, ((1, 2), (0, 1)))), (X,)),
    "joins": (
        lambda x, v, s: (np.concatenate([x, U2]), np.concatenate([v, [s], U1]), np.stack([x, U2], axis=1)),
        (X, V, S),
    ),
    "more joins": (
        lambda x, v: (np.vstack([U2, v]), np.column_stack([v, U1]), np.split(x, 2), np.append(v, 3.0)),
        (X, V),
    ),
    "products": (lambda x, y: (x @ y.T, x @ U1, U2.T @ x, np.dot(x, y.T), np.tensordot(x, U2)), (X, Y)),
    "vector products": (lambda v, x: (v @ x.T, np.outer(v, U1), np.inner(x, U1), np.vdot(v, U1), v @ v), (V, X)),
    "einsum": (
        lambda x, y, m: (np.einsum("ij,kj,kl->il", x, y, m), np.einsum("ii->i", m), np.einsum("ij,j", x, U1)),
        (X, Y, M),
    ),
    "linear algebra": (
        lambda m, v: (np.linalg.inv(m), np.linalg.det(m), np.linalg.solve(m, v[:4]), np.linalg.cholesky(m)),
        (M, V),
    ),
    "a shared matrix": (lambda v: np.linalg.solve(M[0], v[:4]), (V,)),
    "norms": (lambda x: (np.linalg.norm(x), np.linalg.norm(x, axis=1), np.linalg.norm(x, np.inf, axis=-1)), (X,)),
    "integers": (lambda i: (i // 2, i % 3, i << 1, i & 1, ~i, i**2, i / 2, -i), (J,)),
    "casts": (lambda x: (x.astype(np.int32), x.view(np.int64), x.sum(dtype=np.float32), x * np.float32(2)), (X,)),
    "complex": (lambda x: ((x * 1j).imag, np.abs(np.exp(1j * x)), np.conj(x + 1j)), (X,)),
    "creation": (lambda s: (np.linspace(0, s, 4), np.arange(4) * s, np.full_like(s, 3), np.mgrid[0:2, 0:3] * s), (S,)),
    "numbers of shared arrays": (lambda x: (float(U1[0]) * x, x * U1[0].item(), x if len(U1) > 9 else x + 1), (X,)),
}
# These write to arrays that NumPy makes, which only capture sees.
MADE_BY_NUMPY = ("fresh", "batched indices written", "outputs", "by element")
GROUPS = [[n for n in FUNCTIONS if n not in MADE_BY_NUMPY][k::6] for k in range(6)]


def axes_of(arrays: tuple[Any, ...], rng: np.random.Generator) -> tuple[int, ...]:
    return tuple(int(rng.integers(a.ndim)) for a in arrays)


@pytest.mark.parametrize("names", GROUPS, ids=lambda names: names[0])
@by_road
def test_the_stack_of_the_loop(vmap: Any, names: list[str], rng: np.random.Generator) -> None:
    check(vmap, names, rng)


@captured
def test_arrays_that_numpy_makes(vmap: Any, rng: np.random.Generator) -> None:
    check(vmap, MADE_BY_NUMPY, rng)


def check(vmap: Any, names: Sequence[str], rng: np.random.Generator) -> None:
    chosen = [FUNCTIONS[name] for name in names]
    axes = [axes_of(arrays, rng) for _, arrays in chosen]
    given = [
        [np.array(np.moveaxis(a, 0, k), order="FC"[int(rng.integers(2))]) for a, k in zip(arrays, at, strict=True)]
        for (_, arrays), at in zip(chosen, axes, strict=True)
    ]
    bounds = np.cumsum([0, *map(len, given)]).tolist()

    def all_of_them(*xs: Any) -> Any:
        return [f(*xs[bounds[k] : bounds[k + 1]]) for k, (f, _) in enumerate(chosen)]

    results = vmap(all_of_them, tuple(a for at in axes for a in at))(*(x for xs in given for x in xs))
    for name, (f, _), at, xs, got in zip(names, chosen, axes, given, results, strict=True):
        assert_equal(got, looped(f, at, xs), f"{name} in_axes {at}")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_example_and_one(name: str) -> None:
    f, arrays = FUNCTIONS[name]
    for size in (0, 1):
        got = eager(f)(*(a[:size] for a in arrays))
        want = looped(f, (0,) * len(arrays), [a[:1] for a in arrays])
        assert_equal(got, want if size else cut(want), name)


def cut(tree: Any) -> Any:
    return [cut(t) for t in tree] if isinstance(tree, list) else tree[:0]


@in_python
def test_a_mask_that_all_examples_share(vmap: Any) -> None:
    mask, rows = np.array([True, False, True, False]), SHARED[:, 0] > 0

    def core(x: Any) -> Any:
        y = x.copy()
        y[:, np.arange(5) > 2] = 0
        y[rows] += 1
        return x[mask], x[rows, 1], y

    assert_equal(vmap(core)(X), looped(core, (0,), [X]))


@captured
def test_an_array_of_numpy_at_batched_indices(vmap: Any) -> None:
    assert_equal(vmap(lambda i: (U2[i], U2[:, i[0]]))(J), looped(lambda i: (U2[i], U2[:, i[0]]), (0,), [J]))


@pytest.mark.parametrize("name", ["windows", "batched indices", "masks written", "order", "linear algebra"])
@by_road
def test_mapped_twice(vmap: Any, name: str) -> None:
    f, arrays = FUNCTIONS[name]
    doubled = [np.stack([a, a[::-1]], axis=-1) for a in arrays]
    got = vmap(bl.vmap(f, 0), -1)(*doubled)
    assert_equal(got, looped(lambda *xs: looped(f, (0,) * len(xs), xs), [a.ndim - 1 for a in doubled], doubled), name)
