"""Products of short integers, whatever multiplies them: extreme values, layouts, spellings, threads, and no copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compiled.test_products import assert_without_copies, compiled, draw

Array = np.ndarray[Any, Any]
BYTES = [np.int8, np.uint8]
WORDS = [np.int8, np.uint8, np.int16, np.uint16]


def whole(x: Array, y: Array) -> Array:
    return np.asarray(x.astype(np.int32) @ y.astype(np.int32))


@pytest.mark.parametrize("x_dtype", WORDS)
@pytest.mark.parametrize("y_dtype", WORDS)
def test_every_layout(x_dtype: Any, y_dtype: Any, rng: np.random.Generator) -> None:
    for m, k, n in [(70, 75, 61), (64, 128, 64)]:
        for orders in ("CC", "CF", "FC", "FF"):
            x, y = (
                np.asarray(draw(rng, s, d), order=o)
                for s, d, o in zip([(m, k), (k, n)], (x_dtype, y_dtype), orders, strict=True)
            )
            f = compiled(whole, dynamic=False)
            np.testing.assert_array_equal(f(x, y), whole(x, y))
            assert_without_copies(f)


@pytest.mark.parametrize("x_dtype, low_x", [(np.int8, -128), (np.uint8, 255), (np.int16, -32768), (np.int16, 32767)])
@pytest.mark.parametrize("y_dtype, low_y", [(np.int8, -128), (np.uint8, 255), (np.int16, -32768), (np.uint16, 65535)])
def test_extreme_values_add_up(x_dtype: Any, low_x: int, y_dtype: Any, low_y: int) -> None:
    """Instructions that saturate would do so here; long sums go past 2**31."""
    f = compiled(whole, dynamic=False)
    for k in (66, 70_002):
        x, y = np.full((40, k), low_x, x_dtype), np.full((k, 40), low_y, y_dtype)
        want = (np.int64(low_x) * low_y * k).astype(np.int32)
        assert (f(x, y) == want).all()


@pytest.mark.parametrize("dtype", BYTES)
def test_sizes_of_the_call(dtype: Any, rng: np.random.Generator) -> None:
    f = compiled(whole, dynamic=True)
    for _ in range(40):
        m, k, n = (int(rng.choice([0, 1, 2, 5, 8, 9, 16, 17, 31, 49, 100, 130, 513, 2100])) for _ in range(3))
        x, y = draw(rng, (m, k), np.int8), draw(rng, (k, n), dtype)
        np.testing.assert_array_equal(f(x, y), whole(x, y))
    assert len(f.report().compiles) <= 6


@pytest.mark.parametrize("dynamic", [False, True])
def test_any_strides(dynamic: bool, rng: np.random.Generator) -> None:
    x, y = draw(rng, (801, 903), np.int8), draw(rng, (903, 701), np.int8)
    views = [
        (x[::5, ::3], y[::3, ::2]),
        (x[:90, ::-1], y[::-1, ::-1]),
        (x[1:, 1:][:50], y[1:903]),
        (x[:70, 3:100], y[5:102, 7:100]),
        (x[:300], x.T[:903, :300]),
        (np.lib.stride_tricks.sliding_window_view(x[0], 300)[:400], y[:300]),
        (np.broadcast_to(x[0], (90, 903)), np.broadcast_to(y[:, :1], (903, 80))),
    ]
    for a, b in views:
        f = compiled(whole, dynamic=dynamic)
        np.testing.assert_array_equal(f(a, b), whole(a, b))
        assert_without_copies(f)


def test_misaligned_words(rng: np.random.Generator) -> None:
    memory = rng.integers(0, 256, 2 * 90 * 90 + 1, dtype=np.uint8)
    x = np.ndarray((90, 90), np.int16, memory.data, 1)
    y = draw(rng, (90, 80), np.int16)
    np.testing.assert_array_equal(compiled(whole)(x, y), whole(x, y))


def test_stacks_and_one_matrix_for_all(rng: np.random.Generator) -> None:
    for left, right in [((3, 4, 70, 81), (81, 90)), ((5, 40, 50), (5, 50, 60)), ((4, 1, 90, 300), (3, 300, 41))]:
        for dynamic in (False, True):
            x, y = draw(rng, left, np.int8), draw(rng, right, np.int8)
            f = compiled(whole, dynamic=dynamic)
            np.testing.assert_array_equal(f(x, y), whole(x, y))
            assert_without_copies(f)


@pytest.mark.parametrize("shape", [(130, 3000, 120), (70, 90, 80), (1, 700, 3000), (3, 5000, 700)], ids=str)
def test_the_same_bits_for_any_number_of_threads(shape: tuple[int, int, int], rng: np.random.Generator) -> None:
    m, k, n = shape
    x, y = draw(rng, (m, k), np.int8), draw(rng, (k, n), np.int8)
    for threads in (1, 2, 3, 4):
        np.testing.assert_array_equal(compiled(whole, threads=threads)(x, y), whole(x, y))


def as_int32(x: Array) -> Array:
    return x.astype(np.int32)


SPELLINGS: dict[str, Any] = {
    "astype": whole,
    "one astype": lambda x, y: as_int32(x) @ y,
    "matmul": lambda x, y: np.matmul(x, y, dtype=np.int32),
    "dot": lambda x, y: np.dot(as_int32(x), as_int32(y)),
    "einsum": lambda x, y: np.einsum("ij,jk->ik", as_int32(x), as_int32(y)),
    "einsum, turned": lambda x, y: np.einsum("ij,jk->ki", as_int32(x), as_int32(y)),
    "einsum with a dtype": lambda x, y: np.einsum("ij,jk->ik", x, y, dtype=np.int32),
    "tensordot": lambda x, y: np.tensordot(as_int32(x), as_int32(y), 1),
    "a transpose": lambda x, y: (as_int32(y).T @ as_int32(x).T).T,
    "in bytes": lambda x, y: x @ y,
    "unsigned": lambda x, y: x.astype(np.uint32) @ y.astype(np.uint32),
}


@pytest.mark.parametrize("name", sorted(SPELLINGS))
def test_spellings_are_one_call(name: str, rng: np.random.Generator) -> None:
    x, y = draw(rng, (90, 83), np.int8), draw(rng, (83, 70), np.int8)
    f = compiled(SPELLINGS[name])
    got, want = f(x, y), SPELLINGS[name](x, y)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    assert_without_copies(f)


def test_requantised(rng: np.random.Generator) -> None:
    """Scale, bias, relu and the way back to bytes are done on the sums of each tile."""

    def layer(x: Array, w: Array, scale: Array, bias: Array) -> Array:
        sums = np.matmul(x, w, dtype=np.int32).astype(np.float32) * scale + bias
        return np.clip(np.rint(np.maximum(sums, 0)), -128, 127).astype(np.int8)

    x, w = draw(rng, (90, 131), np.int8), draw(rng, (131, 70), np.int8)
    scale, bias = (rng.normal(size=70) / 1000).astype(np.float32), rng.normal(size=70).astype(np.float32)
    for dynamic in (False, True):
        f = compiled(layer, dynamic=dynamic)
        np.testing.assert_array_equal(f(x, w, scale, bias), layer(x, w, scale, bias))
        assert_without_copies(f)


def test_operands_are_computed_where_they_are_packed(rng: np.random.Generator) -> None:
    def shifted(x: Array, y: Array) -> Array:
        return np.matmul(x ^ np.int8(85), np.maximum(y, np.int8(-100)))

    for orders in ("CC", "CF", "FC", "FF"):
        x, y = (np.asarray(draw(rng, s, np.int8), order=o) for s, o in zip([(90, 131), (131, 70)], orders, strict=True))
        for dynamic in (False, True):
            f = compiled(shifted, dynamic=dynamic)
            np.testing.assert_array_equal(f(x, y), shifted(x, y))
            kinds = [r.kind for r in f.report().kernels]
            assert kinds == ["matmul"] or dynamic


def test_two_products_of_one_module_keep_apart(rng: np.random.Generator) -> None:
    def both(x: Array, y: Array, z: Array) -> tuple[Array, Array, Array]:
        return whole(x, y), whole(x, z), whole(x, z.astype(np.int32))

    x, y, z = draw(rng, (64, 64), np.int8), draw(rng, (64, 64), np.int8), draw(rng, (64, 64), np.uint8)
    for got, want in zip(compiled(both)(x, y, z), both(x, y, z), strict=True):
        np.testing.assert_array_equal(got, want)


def test_the_report_says_how_and_why(rng: np.random.Generator) -> None:
    x, y = draw(rng, (64, 64), np.int8), draw(rng, (64, 64), np.int8)
    f = compiled(whole)
    f(x, y)
    assert any(words in str(f.report()) for words in ("in groups of", "one by one: the machine has no instruction"))
    g = compiled(lambda x, y: x @ y)
    g(x.astype(np.int64), y.astype(np.int64))
    assert "in groups of" not in str(g.report())


def quantised(x: Array, scale: float) -> Array:
    return np.asarray(np.clip(np.rint(x * np.float32(scale)), -127, 127).astype(np.int8))


def test_operands_that_are_quantised_stay_bytes(rng: np.random.Generator) -> None:
    """They are made where they are packed, or kept as bytes; never as what they are converted to."""

    def one(x: Array, w: Array) -> Array:
        return np.matmul(quantised(x, 30), w, dtype=np.int32)

    def by_rows(x: Array, w: Array) -> Array:
        scale = np.float32(127) / np.abs(x).max(axis=1, keepdims=True)
        return np.matmul(np.rint(x * scale).astype(np.int8), w, dtype=np.int32)

    def two(x: Array, w: Array) -> Array:
        hidden = np.maximum(np.matmul(quantised(x, 30), w, dtype=np.int32).astype(np.float32) * np.float32(1e-3), 0)
        return np.matmul(quantised(hidden, 20), w, dtype=np.int32)

    x, w = rng.normal(size=(128, 130)).astype(np.float32), draw(rng, (130, 130), np.int8)
    for function, kept in ((one, []), (by_rows, ["int8"]), (two, ["int8"])):
        for dynamic in (False, True):
            f = compiled(function, dynamic=dynamic)
            np.testing.assert_array_equal(f(x, w), function(x, w))
            memory = [a.dtype for a in f.report().allocations if a.dtype != "float32"]
            assert set(memory) <= {"int8"} and (memory == kept or dynamic)


def test_bytes_that_are_returned_as_well(rng: np.random.Generator) -> None:
    def both(x: Array, w: Array) -> tuple[Array, Array]:
        q = quantised(x, 30)
        return q, np.matmul(q, w, dtype=np.int32)

    x, w = rng.normal(size=(128, 130)).astype(np.float32), draw(rng, (130, 130), np.int8)
    for got, want in zip(compiled(both)(x, w), both(x, w), strict=True):
        np.testing.assert_array_equal(got, want)
