"""The native sorts and searches: every way through the kernels, against NumPy's stable sort."""

from __future__ import annotations

import numpy as np
import pytest

import broadloom as bl
from broadloom.codegen.block_sort import BLOCK
from broadloom.codegen.key_sort import RADIX_FROM

LENGTHS = (*range(20), 31, 33, 64, 100, 255, 257, 1000)
DTYPES = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8")


def full_range(n: int, d: np.dtype, rng: np.random.Generator) -> np.ndarray:
    """Any bit patterns: all nans, subnormals, infinities and zeros of a float."""
    if d.kind == "b":
        return rng.integers(0, 2, n).astype(bool)
    return rng.integers(0, 256, n * d.itemsize, dtype=np.uint8).view(d)


def few(n: int, d: np.dtype, rng: np.random.Generator) -> np.ndarray:
    """Many equal elements, with zeros of both signs and nans where there are such."""
    values = [0, 1, 3, 1] if d.kind in "bu" else [0, 1, -3, 1]
    values += [-0.0, np.nan, np.inf, -0.0] if d.kind == "f" else []
    return rng.choice(np.array(values).astype(d), n)


def ordered(n: int, d: np.dtype, rng: np.random.Generator) -> np.ndarray:
    return np.sort(full_range(n, d, rng), stable=True)


def backwards(n: int, d: np.dtype, rng: np.random.Generator) -> np.ndarray:
    return ordered(n, d, rng)[::-1]


KINDS = (full_range, few, ordered, backwards)


@pytest.mark.parametrize("name", DTYPES)
def test_every_length_and_kind_of_data(name: str, rng: np.random.Generator) -> None:
    d = np.dtype(name)

    @bl.compile(fullgraph=True, dynamic=True)
    def f(x):
        down = bl.argsort(x, descending=True)
        return np.sort(x, stable=True), np.argsort(x, stable=True), bl.sort(x, descending=True), down

    turns = {RADIX_FROM[placed][max(8 * d.itemsize, 8)] for placed in (False, True)}
    longer = (n + k for n in turns if n < 1 << 20 for k in (-1, 0, 77))
    for n in (*LENGTHS, *longer, BLOCK, 2 * BLOCK + 1, 7 * BLOCK - 1):
        for kind in KINDS:
            x = kind(n, d, rng)
            up, places, down, places_down = f(x)
            with np.errstate(all="ignore"):
                expected = np.argsort(x, stable=True)
                backwards = (n - 1 - np.argsort(x[::-1], stable=True))[::-1]
            assert np.array_equal(places, expected), (n, kind)
            assert np.array_equal(places_down, backwards), (n, kind)
            for got, order in ((up, expected), (down, backwards)):
                assert got.dtype == d
                assert_bits(got, x[order])
    assert len(f.report().compiles) <= 2  # of contiguous arrays, and of any


def assert_bits(got: np.ndarray, expected: np.ndarray) -> None:
    """Bit for bit, which also tells nans and zeros apart."""
    assert got.tobytes() == np.ascontiguousarray(expected).tobytes()


@pytest.mark.parametrize("dynamic", [False, True])
def test_axes_strides_and_empty_arrays(dynamic: bool, rng: np.random.Generator) -> None:
    @bl.compile(fullgraph=True, dynamic=dynamic)
    def f(x):
        return np.sort(x, axis=0), np.sort(x[:, ::-2], axis=1), np.argsort(x.T, axis=0, stable=True), np.sort(x + 1)

    for shape in ((7, 5), (1, 9), (30, 1), (0, 4), (4, 0), (3, 41)) if dynamic else ((7, 5), (1, 9)):
        x = rng.standard_normal(shape)
        for y in (x, np.asfortranarray(x), np.repeat(x, 2, axis=0)[::2], x[::-1]):
            expected = np.sort(y, axis=0), np.sort(y[:, ::-2], axis=1), np.argsort(y.T, axis=0), np.sort(y + 1)
            for got, want in zip(f(y), expected, strict=True):
                assert np.array_equal(got, want) and got.shape == want.shape


def test_many_rows_on_several_threads(rng: np.random.Generator) -> None:
    x = rng.integers(0, 50, (300, 9, 200)).astype(np.int32)
    f = bl.compile(lambda x: (np.sort(x, axis=1), np.argsort(x, axis=-1)), fullgraph=True, options={"num_threads": 3})
    for _ in range(3):
        values, places = f(x)
        assert np.array_equal(values, np.sort(x, axis=1))
        assert np.array_equal(places, np.argsort(x, axis=-1, stable=True))


def test_a_sort_in_place_of_part_of_an_argument(rng: np.random.Generator) -> None:
    def f(x):
        x[1:-1].sort()
        return x * 2

    x, y = (np.arange(20.0)[::-1].copy() for _ in "xy")
    assert np.array_equal(bl.compile(f, fullgraph=True)(x), f(y)) and np.array_equal(x, y)


def test_memory_that_cannot_be_had_is_an_error() -> None:
    @bl.compile(fullgraph=True, dynamic=True)
    def f(x):
        return np.argsort(x)[:1]

    row = np.broadcast_to(np.zeros(1, np.int8), (1 << 46,))
    with pytest.raises(MemoryError):
        f(row)


@pytest.mark.parametrize("dynamic", [False, True])
def test_searches_of_every_length(dynamic: bool, rng: np.random.Generator) -> None:
    @bl.compile(fullgraph=True, dynamic=dynamic)
    def f(a, v):
        return np.searchsorted(a, v), np.searchsorted(a, v.T, side="right"), np.searchsorted(a[::-1][::-1], v[0, 0])

    for n in (0, 1, 2, 3, 7, 8, 100) if dynamic else (0, 1, 100):
        a = np.sort(np.append(rng.integers(-3, 3, max(n - 1, 0)), [np.nan] * min(n, 1)))
        v = rng.choice([-4, -3, -0.0, 0.5, 2, 9, np.nan, np.inf], (3, 5))
        for got, want in zip(
            f(a, v), (np.searchsorted(a, v), np.searchsorted(a, v.T, "right"), np.searchsorted(a, v[0, 0])), strict=True
        ):
            assert np.array_equal(got, want) and got.dtype == want.dtype


def test_a_batch_of_sorted_rows_is_searched_by_one_kernel(rng: np.random.Generator) -> None:
    rows, values = np.sort(rng.standard_normal((6, 40))), rng.standard_normal((6, 3))
    f = bl.compile(lambda a, v: bl.vmap(np.searchsorted)(a, v), fullgraph=True)
    expected = np.stack([np.searchsorted(a, v) for a, v in zip(rows, values, strict=True)])
    assert np.array_equal(f(rows, values), expected)
    assert [k.kind for k in f.report().kernels] == ["search"]
    assert np.array_equal(
        bl.vmap(np.searchsorted, in_axes=(0, None))(rows, values[0]), [np.searchsorted(a, values[0]) for a in rows]
    )


def test_complex_numbers(rng: np.random.Generator) -> None:
    parts = np.array([0.0, -0.0, 1, -1, np.nan, np.inf, -np.inf])
    z = np.empty(200, complex)
    z.real, z.imag = rng.choice(parts, (2, 200))
    f = bl.compile(lambda z: (np.sort(z), np.argsort(z), np.searchsorted(np.sort(z), z)), fullgraph=True)
    values, places, found = f(z)
    assert np.array_equal(places, np.argsort(z, stable=True))
    assert_bits(values, z[places])
    assert np.array_equal(found, np.searchsorted(z[places], z))


@pytest.mark.parametrize("dynamic", [False, True])
def test_what_rests_on_sorts(dynamic: bool, rng: np.random.Generator) -> None:
    def f(x, p, h):
        return (
            np.median(x, axis=0), np.quantile(x, [0.1, 0.5], axis=1), np.percentile(x, 90), np.nanmedian(x),
            np.interp(x, p, h), np.digitize(x, p), np.isin(x, p), np.histogram(x, 5)[0], np.histogram(x, p)[0],
            np.lexsort((x[:, 0], np.round(x[:, 1]))), np.partition(x, 2, axis=0)[2],
        )  # fmt: skip

    compiled = bl.compile(f, fullgraph=True, dynamic=dynamic)
    for shape in ((4, 9), (5, 8), (11, 3)):
        x, p = rng.standard_normal(shape), np.sort(rng.standard_normal(20))
        for k, (got, want) in enumerate(zip(compiled(x, p, p**2), f(x, p, p**2), strict=True)):
            assert np.array_equal(got, want) and type(got) is type(want), k


def test_topk_at_once_batched_and_compiled(rng: np.random.Generator) -> None:
    x = rng.integers(0, 9, (4, 30)).astype(float)
    x[0, :3] = np.nan
    down = 29 - np.argsort(x[:, ::-1], axis=1, stable=True)[:, ::-1]
    up = np.argsort(x, axis=1, stable=True)
    for largest, order in ((True, down), (False, up)):

        def best(x, largest=largest):
            return bl.topk(x, 5, largest=largest)

        for got in (best(x), bl.vmap(best)(x), bl.compile(best, fullgraph=True)(x), best(bl.asarray(x))):
            assert type(got).__name__ == "TopK"
            values, indices = (np.asarray(part) for part in got)
            assert np.array_equal(indices, order[:, :5]) and indices.dtype == np.int64
            assert np.array_equal(values, np.take_along_axis(x, order[:, :5], 1), equal_nan=True)
    assert np.array_equal(np.asarray(bl.topk(x, 2, axis=0).indices), np.asarray(bl.topk(x.T, 2).indices).T)
    assert np.asarray(bl.topk(x, 0).values).shape == (4, 0)
    for k in (31, -1):
        with pytest.raises(bl.errors.ShapeError, match="topk"):
            bl.topk(x, k)


def test_bincount_with_a_length(rng: np.random.Generator) -> None:
    x, w = rng.integers(0, 6, (3, 40)), rng.integers(0, 9, (3, 40)).astype(float)
    expected = np.stack([np.bincount(row, minlength=8) for row in x])
    weighted = np.stack([np.bincount(row, v, minlength=8) for row, v in zip(x, w, strict=True)])
    batched = bl.vmap(lambda x: bl.bincount(x, length=8))
    assert np.array_equal(batched(x), expected)
    assert np.array_equal(bl.compile(batched, fullgraph=True)(x), expected)
    assert np.array_equal(bl.vmap(lambda x, w: bl.bincount(x, w, length=8))(x, w), weighted)
    assert np.array_equal(np.asarray(bl.bincount(x[0])), np.bincount(x[0]))
    counted = bl.compile(lambda x: bl.bincount(x, length=3), fullgraph=True)
    for bad in ([0, 3], [1, -1]):
        for f in (counted, lambda x: bl.bincount(x, length=3)):
            with pytest.raises(IndexError, match="size 3"):
                f(np.array(bad))


def test_a_size_that_depends_on_data_breaks_the_graph_and_runs_as_it_is() -> None:
    def f(x):
        return np.unique(x) + 1

    with pytest.warns(UserWarning, match="unique"):
        g = bl.compile(f)
        assert np.array_equal(g(np.array([3, 1, 3])), [2, 4])
    (record,) = g.report().breaks
    assert record.code == "data-dependent"
