"""Packed integers, at once: layout, views, arithmetic modulo 2**bits, promotion,
conversions; Python's ints are the oracle."""

from __future__ import annotations

import copy
import itertools
import operator
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import broadloom as bl
from broadloom import dtypes
from broadloom.dtypes import ALL, INTEGERS, PACKED, DType, promote
from broadloom.tensor.packed import PackedTensor

SMALL = [d for d in PACKED if d.bits <= 4]
EACH = pytest.mark.parametrize("dtype", PACKED, ids=str)


def wrapped(value: int, dtype: DType) -> int:
    """The integer modulo 2**bits, in the range of the dtype."""
    value %= 1 << dtype.bits
    return value - (1 << dtype.bits) if dtype.kind == "i" and value >> (dtype.bits - 1) else value


def values_of(dtype: DType) -> list[int]:
    low, high = dtype.limits
    return list(range(low, high + 1))


def drawn(shape: Any, dtype: DType, rng: np.random.Generator) -> np.ndarray:
    low, high = dtype.limits
    return rng.integers(low, high + 1, shape).astype(dtype.wide.numpy)


def tensor(values: Any, dtype: DType) -> Any:
    return bl.asarray(values, dtype=dtype)


def assert_is(x: Any, want: Any, dtype: DType) -> None:
    assert type(x) is PackedTensor and x.dtype is dtype, (type(x), x.dtype)
    assert x.shape == np.shape(want)
    assert x.tolist() == np.asarray(want).tolist()


# ---- layout ----------------------------------------------------------------------------------------------------------


@EACH
@pytest.mark.parametrize("n", range(18))
def test_bytes_are_the_elements_without_gaps(dtype: DType, n: int, rng: np.random.Generator) -> None:
    values = drawn(n, dtype, rng)
    x = tensor(values, dtype)
    whole = sum((int(v) % (1 << dtype.bits)) << (k * dtype.bits) for k, v in enumerate(values))
    assert x.nbytes == (n * dtype.bits + 7) // 8
    assert int.from_bytes(x.tobytes(), "little") == whole and len(x.tobytes()) == x.nbytes
    (data,), metadata = x.__tensor_flatten__()
    assert data.dtype == np.uint8 and int.from_bytes(data.tobytes(), "little") == whole
    assert_is(PackedTensor.__tensor_unflatten__((data.copy(),), metadata), values, dtype)
    assert np.array_equal(np.asarray(x), values) and np.asarray(x).dtype == dtype.wide.numpy


def test_bytes_of_another_length_are_refused() -> None:
    (data,), metadata = tensor([1, 2, 3], bl.uint3).__tensor_flatten__()
    with pytest.raises(bl.errors.DTypeError, match=r"uint8\[3\]"):
        PackedTensor.__tensor_unflatten__((data[:2],), metadata)


@pytest.mark.parametrize("dtype", [bl.uint3, bl.int5, bl.uint4, bl.uint1], ids=str)
@pytest.mark.parametrize("n", [0, 1, 5, 9])
def test_every_slice_is_a_view_at_its_own_offset(dtype: DType, n: int, rng: np.random.Generator) -> None:
    values = drawn(n, dtype, rng)
    places = [None, *range(-n - 1, n + 2)]
    for start, stop, step in itertools.product(places, places, (None, 2, -1, -3)):
        key = slice(start, stop, step)
        x, plain = tensor(values, dtype), values.copy()
        assert_is(x[key], plain[key], dtype)
        plain[key] = 1 if dtype.limits[1] else 0
        x[key] = plain[key]
        assert_is(x, plain, dtype)


@EACH
def test_views_share_their_bytes(dtype: DType, rng: np.random.Generator) -> None:
    values = drawn((3, 5), dtype, rng)
    x = tensor(values, dtype)
    steps = [
        lambda a: a.T, lambda a: a[1:, ::-2], lambda a: a.reshape(5, 3), lambda a: a.T[1:4].T, lambda a: a[None, :, 1],
        lambda a: np.moveaxis(a, 0, 1), lambda a: np.flip(a, 1), lambda a: a[..., 2:], lambda a: np.diagonal(a),
        lambda a: np.swapaxes(a, 0, 1)[::2], lambda a: np.expand_dims(a, 1), lambda a: a.ravel(),
    ]  # fmt: skip
    for step in steps:
        assert_is(step(x), step(values), dtype)
        assert step(x)._bytes is x._bytes
        for other in steps:
            try:
                twice = other(step(values))
            except (ValueError, IndexError, np.exceptions.AxisError):
                continue
            assert_is(other(step(x)), twice, dtype)
    view = x[1:, ::2].T
    view[...] = 0
    values[1:, ::2] = 0
    assert_is(x, values, dtype)
    before = x.version
    view += 1
    values[1:, ::2] = wrapped(1, dtype)
    assert_is(x, values, dtype)
    assert view.version == x.version == before + 1
    single = x[0, 1]
    x[0, 1] = 0
    assert single.shape == () and int(single) == values[0, 1], "an element is a copy, as NumPy's scalars are"
    assert x.T.reshape(-1)._bytes is not x._bytes


def test_indices_of_all_kinds(rng: np.random.Generator) -> None:
    values = drawn((4, 6), bl.int3, rng)
    x = tensor(values, bl.int3)
    keys = [
        np.array([2, 0]), ([1, 2], [3, -1]), values > 0, (values[:, 0] > 0, slice(1, 3)), (..., 1), (2, None),
        (slice(None), [0, 5]), -1, (np.array([[0], [3]]), np.array([1, 2])), True,
    ]  # fmt: skip
    for key in keys:
        assert_is(x[key], values[key], bl.int3)
        again, plain = x.copy(), values.copy()
        again[key], plain[key] = -2, -2
        assert_is(again, plain, bl.int3)
    assert_is(x[tensor([1, 0, 3], bl.uint2)], values[[1, 0, 3]], bl.int3)
    with pytest.raises(IndexError):
        x[4]
    with pytest.raises(ValueError, match="broadcast"):
        x[0] = tensor([1, 2], bl.int3)


# ---- arithmetic ------------------------------------------------------------------------------------------------------


def floor_divide(a: int, b: int) -> int:
    return a // b if b else 0


def remainder(a: int, b: int) -> int:
    return a % b if b else 0


def fmod(a: int, b: int) -> int:
    return int(np.fmod(a, b)) if b else 0


def shifted(by: Any) -> Any:
    def shift(a: int, b: int) -> int:
        outside = b < 0 or b >= 8
        return (-1 if a < 0 and by is operator.rshift else 0) if outside else by(a, b)

    return shift


BINARY = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "floor_divide": floor_divide,
    "remainder": remainder, "fmod": fmod, "bitwise_and": operator.and_, "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor, "left_shift": shifted(operator.lshift), "right_shift": shifted(operator.rshift),
    "maximum": max, "minimum": min, "gcd": np.gcd, "lcm": np.lcm,
}  # fmt: skip
COMPARISONS = {
    "equal": operator.eq, "not_equal": operator.ne, "less": operator.lt, "less_equal": operator.le,
    "greater": operator.gt, "greater_equal": operator.ge,
}  # fmt: skip
UNARY = {
    "negative": operator.neg, "invert": operator.invert, "absolute": abs, "square": lambda a: a * a,
    "sign": lambda a: (a > 0) - (a < 0), "positive": operator.pos,
}  # fmt: skip


def all_pairs(dtype: DType) -> tuple[list[int], list[int]]:
    pairs = list(itertools.product(values_of(dtype), repeat=2))
    return [a for a, _ in pairs], [b for _, b in pairs]


def all_results(x: Any, y: Any) -> list[Any]:
    """Every binary and unary function, as the tables have them."""
    return [
        *(getattr(np, name)(x, y) for name in (*BINARY, *COMPARISONS)),
        *(getattr(np, name)(x) for name in UNARY),
    ]


@pytest.mark.parametrize("way", ["eager", "compiled"])
@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_every_pair_of_values(dtype: DType, way: str) -> None:
    first, second = all_pairs(dtype)
    x, y = tensor(first, dtype), tensor(second, dtype)
    function = all_results if way == "eager" else bl.compile(all_results, fullgraph=True)
    results = iter(function(x, y))
    for name, oracle in BINARY.items():
        want = [wrapped(int(oracle(a, b)), dtype) for a, b in zip(first, second, strict=True)]
        got = next(results)
        assert got.tolist() == want, name
        assert_is(got, want, dtype)
    for oracle in COMPARISONS.values():
        got = next(results)
        assert got.dtype == bool and got.tolist() == [oracle(a, b) for a, b in zip(first, second, strict=True)]
    for name, oracle in UNARY.items():
        assert next(results).tolist() == [wrapped(oracle(a), dtype) for a in first], name


@pytest.mark.parametrize("dtype", [d for d in SMALL if d.kind == "u"], ids=str)
def test_powers(dtype: DType) -> None:
    first, second = all_pairs(dtype)
    got = tensor(first, dtype) ** tensor(second, dtype)
    assert_is(got, [wrapped(a**b, dtype) for a, b in zip(first, second, strict=True)], dtype)


@EACH
def test_sums_and_other_results_are_those_of_8_bits(dtype: DType, rng: np.random.Generator) -> None:
    values = drawn((5, 7), dtype, rng)
    x = tensor(values, dtype)
    functions = [
        np.sum, np.prod, np.mean, np.var, np.std, np.any, np.all, np.argmax, np.argmin, np.cumsum, np.count_nonzero,
        np.cbrt, np.sin, np.bitwise_count, np.isnan, np.median, lambda a: a / 3, lambda a: a + 0.5,
        lambda a: a.astype("f4"),
        lambda a: a.astype(np.int64) * a, lambda a: a + np.float32(1), lambda a: np.sum(a, axis=1, keepdims=True),
        lambda a: np.linalg.norm(a), lambda a: np.logical_not(a), lambda a: np.nonzero(a)[0], lambda a: np.where(a)[1],
        lambda a: np.isclose(a, 1),
    ]  # fmt: skip
    for function in functions:
        got, want = function(x), function(values)
        assert type(got) is bl.Tensor and got.dtype == want.dtype and np.array_equal(got.numpy(), want)
    kept = [
        np.max, lambda a: a.min(axis=0), np.sort, lambda a: np.concatenate([a, a[:2]]), lambda a: np.where(a > 0, a, 0),
        lambda a: np.take(a, [4, 0], axis=0), lambda a: np.roll(a, 2), lambda a: np.stack([a, a], -1),
        lambda a: np.repeat(a, 2, 1), lambda a: np.tile(a, 2), lambda a: np.pad(a, 1), np.unique, lambda a: a.flatten(),
        lambda a: np.clip(a, 0, 1), lambda a: np.clip(a, -100, 100), lambda a: np.triu(a), lambda a: a.copy(),
        np.zeros_like,
        lambda a: np.broadcast_to(a, (2, 5, 7)), lambda a: np.full_like(a, 1), np.floor,
        lambda a: np.bitwise_or.reduce(a),
    ]  # fmt: skip
    for function in kept:
        assert_is(function(x), function(values), dtype)


def modulo(values: Any, dtype: DType) -> list[Any]:
    return np.vectorize(lambda v: wrapped(int(v), dtype), otypes=[int])(values).tolist()


@EACH
def test_products_and_differences_wrap_around(dtype: DType, rng: np.random.Generator) -> None:
    values = drawn((4, 4), dtype, rng)
    x, wide = tensor(values, dtype), values.astype(np.int64)
    functions = [
        np.matmul, np.kron, np.outer, lambda a, b: np.dot(a, b), lambda a, b: np.convolve(a[0], b[1]),
        lambda a, b: np.diff(a), lambda a, b: np.ptp(a, axis=0), lambda a, b: np.add.outer(a, b),
        lambda a, b: a * b - b, lambda a, b: np.trace(a),
        lambda a, b: np.subtract.reduce(a), lambda a, b: np.tensordot(a, b, 1), lambda a, b: np.inner(a, b),
    ]  # fmt: skip
    for function in functions:
        got, want = function(x, x.T), function(wide, wide.T)
        assert got.tolist() == (modulo(want, dtype) if type(got) is PackedTensor else want.tolist())
    assert_is(x.sum(dtype=dtype), modulo(wide.sum(), dtype), dtype)


# ---- promotion -------------------------------------------------------------------------------------------------------


def test_packed_dtypes_promote_to_the_narrowest_that_holds_all_values() -> None:
    integers = sorted((*PACKED, *INTEGERS), key=lambda d: (d.bits, d.kind == "i"))
    for a, b in itertools.product(PACKED, (*PACKED, *INTEGERS)):
        low, high = (f(x, y) for f, x, y in zip((min, max), a.limits, b.limits, strict=True))
        holding = [d for d in integers if d.limits[0] <= low and d.limits[1] >= high]
        if holding:
            assert promote(a, b) is promote(b, a) is holding[0], (a, b)
        else:
            assert promote(a, b) is dtypes.float64, "as NumPy has it for int8 and uint64"
    for a, b in itertools.product(PACKED, ALL):
        if not b.is_integer:
            assert promote(a, b) is (a if b is dtypes.bool_ else promote(a.wide, b))
    assert promote(bl.uint3, bl.int2, dtypes.bool_) is bl.int4


OTHERS = [*PACKED, *(d for d in ALL if d is not dtypes.bfloat16)]


@pytest.mark.parametrize("first", PACKED, ids=str)
def test_pairs_of_dtypes(first: DType, rng: np.random.Generator) -> None:
    a = drawn(9, first, rng)
    for second in OTHERS:
        b = drawn(9, second, rng) if second.is_packed else rng.integers(0, 2, 9).astype(second.numpy)
        x, y = tensor(a, first), tensor(b, second) if second.is_packed else bl.asarray(b)
        common = promote(first, second)
        for got in (x + y, y + x):
            if common.is_packed:
                assert_is(got, modulo(a.astype(int) + b.astype(int), common), common)
            else:
                want = a.astype(common.numpy) + b.astype(common.numpy)
                assert got.dtype == want.dtype and np.array_equal(got.numpy(), want)
        assert (x < y).tolist() == (a.astype(np.complex128) < b).tolist()
        both = np.concatenate([x, y])
        assert (both.dtype is common) if common.is_packed else (both.dtype == common.numpy)


@EACH
def test_python_ints_are_weak_and_must_fit(dtype: DType) -> None:
    low, high = dtype.limits
    x = tensor([low, high], dtype)
    assert_is(x + high, [wrapped(low + high, dtype), wrapped(2 * high, dtype)], dtype)
    assert_is(low - x, [0, wrapped(low - high, dtype)], dtype)
    for number in (high + 1, low - 1, 300):
        for function in (operator.add, operator.mul, operator.and_, np.maximum, operator.floordiv):
            with pytest.raises(OverflowError, match=f"Python integer {number} out of bounds for {dtype}"):
                function(x, number)
        with pytest.raises(OverflowError):
            x[0] = number
        with pytest.raises(OverflowError):
            x += number
        with pytest.raises(OverflowError):
            np.where(x > 0, x, number)
        with pytest.raises(OverflowError):
            tensor([number], dtype)
        with pytest.raises(OverflowError):
            bl.full(3, number, dtype=dtype)
        assert (x == number).tolist() == [False, False] and (x < number).tolist() == [number > 0] * 2
    assert_is(x, [low, high], dtype)


def test_numbers_that_are_no_elements_need_not_fit() -> None:
    x = tensor([1, 0, 1, 1] * 3, bl.uint1)
    assert_is(np.insert(x, 9, 0), np.insert(np.asarray(x), 9, 0), bl.uint1)
    assert_is(np.delete(x, 9), np.delete(np.asarray(x), 9), bl.uint1)
    assert_is(np.roll(x, 5), np.roll(np.asarray(x), 5), bl.uint1)
    assert_is(np.take(x, 7), np.asarray(x)[7], bl.uint1)
    assert_is(np.repeat(x, 3), np.repeat(np.asarray(x), 3), bl.uint1)
    assert_is(x**2, x.tolist(), bl.uint1)
    assert_is(np.pad(x, (0, 4)), [*x.tolist(), 0, 0, 0, 0], bl.uint1)
    for got, want in (
        (np.append(x, 9), np.append(np.asarray(x), 9)),  # a number that NumPy makes an int64 array of
        (np.add(x[:2], [9, 4]), np.array([10, 4])),
        (np.where(x[:2] > 0, x[:2], [9, 9]), np.array([1, 9])),
        (np.concatenate([x[:2], [5]]), np.array([1, 0, 5])),
        (np.polyval([7, 1], x[:2]), np.array([8, 1])),
        (np.convolve(x[:2], [2, 3]), np.array([2, 3, 0])),
    ):
        assert got.dtype == want.dtype == np.int64 and got.tolist() == want.tolist()
    for function in (lambda: np.pad(x, 1, constant_values=2), lambda: np.insert(x, 0, 2), lambda: np.full_like(x, 2)):
        with pytest.raises(OverflowError, match="out of bounds for uint1"):
            function()
    y = x.copy()
    for write in (lambda: y.__setitem__(slice(2), [0, 2]), lambda: y.fill(2), lambda: np.copyto(y, 2)):
        with pytest.raises(OverflowError, match="out of bounds for uint1"):
            write()
    y.fill(0)
    assert_is(y, [0] * 12, bl.uint1)
    np.copyto(y, 1, where=np.asarray(x) > 0)
    assert_is(y, x.tolist(), bl.uint1)


def test_writes_that_do_not_fit_are_refused() -> None:
    x = tensor([1, 2, 3], bl.uint3)
    for other in (np.array([1.5, 2, 3]), tensor([1, 2, 3], bl.int3), np.arange(3)):
        with pytest.raises(TypeError, match=r"cannot cast|Cannot cast"):
            x += other
    x += tensor([7, 7, 7], bl.uint5)
    assert_is(x, [0, 1, 2], bl.uint3)
    x[:] = np.array([9.7, 2.0, 15.0])
    assert_is(x, [1, 2, 7], bl.uint3)
    out = tensor([0, 0, 0], bl.uint3)
    assert np.add(x, x, out=out) is out
    assert_is(out, [2, 4, 6], bl.uint3)
    with pytest.raises(TypeError, match="out="):
        np.add(x, x, out=np.zeros(3, np.uint8))


def test_what_would_be_wrong_is_refused_by_name() -> None:
    x = tensor([1, 2, 3], bl.uint3)
    for function, name in (
        (lambda: x.view(np.int8), "view"),
        (lambda: np.packbits(x), "packbits"),
        (lambda: np.floor_divide.reduce(x), "floor_divide.reduce"),
        (lambda: np.lcm.reduce(x), "lcm.reduce"),
    ):
        with pytest.raises(TypeError, match=name) as caught:
            function()
        assert "astype" in str(caught.value)


# ---- conversions -----------------------------------------------------------------------------------------------------


@EACH
def test_conversions_both_ways(dtype: DType, rng: np.random.Generator) -> None:
    x = tensor(values_of(dtype), dtype)
    for other in ALL:
        if other is not dtypes.bfloat16:
            assert x.astype(other.numpy).numpy().tolist() == np.asarray(x).astype(other.numpy).tolist()
    for other in PACKED:
        assert_is(x.astype(other), [wrapped(v, other) for v in values_of(dtype)], other)
    wide = rng.integers(-1000, 1000, 20)
    assert_is(bl.astype(bl.asarray(wide), dtype), [wrapped(v, dtype) for v in wide.tolist()], dtype)
    assert_is(tensor(wide.astype(float) / 8, dtype), [wrapped(int(v / 8), dtype) for v in wide.tolist()], dtype)
    assert x.astype(dtype, copy=False) is x or x.astype(dtype, copy=False).tolist() == x.tolist()


@pytest.mark.parametrize("name", ["uint4", "int4", "uint2", "int2"])
def test_ml_dtypes(name: str) -> None:
    dtype, foreign = getattr(bl, name), getattr(ml_dtypes, name)
    x = tensor(values_of(dtype), dtype)
    there = np.asarray(x, dtype=foreign)
    assert there.dtype == foreign and there.astype(int).tolist() == values_of(dtype)
    assert_is(tensor(there, dtype), values_of(dtype), dtype)
    assert_is(x + there, [wrapped(2 * v, dtype) for v in values_of(dtype)], dtype)


def test_text_copies_and_pickles() -> None:
    x = tensor([[1, 2], [3, 7]], bl.uint3)
    assert repr(x) == "Tensor([[1, 2],\n        [3, 7]], dtype=uint3)"
    assert str(x[1]) == "[3 7]" and f"{x[0, 1]}" == "2"
    for again in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.T.copy().T):
        assert_is(again, [[1, 2], [3, 7]], bl.uint3)
        assert again._bytes is not x._bytes
    assert [int(r[1]) for r in x] == [2, 7] and len(x) == 2 and 7 in x
    assert bool(x[0, 0]) and float(x[1, 1]) == 7.0 and [10, 20, 30][x[0, 0]] == 20
    assert x.dtype is bl.uint3 and x.size == 4 and x.nbytes == 2 and x.itemsize == 1


@EACH
def test_making(dtype: DType) -> None:
    assert_is(bl.zeros((2, 3), dtype=dtype), np.zeros((2, 3), int), dtype)
    assert_is(bl.ones(3, dtype=dtype), [1, 1, 1], dtype)
    assert_is(bl.full((2,), dtype.limits[1], dtype=dtype), [dtype.limits[1]] * 2, dtype)
    assert_is(bl.eye(2, dtype=dtype), [[1, 0], [0, 1]], dtype)
    assert bl.iinfo(dtype).min == dtype.limits[0] and bl.iinfo(bl.ones(2, dtype=dtype)).max == dtype.limits[1]
    kinds = ("integral", "unsigned integer", "signed integer", "bool", dtype, bl.int8)
    assert [bl.isdtype(dtype, k) for k in kinds] == [True, dtype.kind == "u", dtype.kind == "i", False, True, False]
