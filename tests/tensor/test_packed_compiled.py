"""Packed integers in compiled and mapped functions: the same as at once, in one kernel, written in place."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import broadloom as bl
from broadloom.dtypes import PACKED, DType
from broadloom.tensor.packed import PackedTensor
from tests.tensor.test_packed import assert_is, drawn, tensor

EACH = pytest.mark.parametrize("dtype", PACKED, ids=str)


def assert_same(got: Any, want: Any) -> None:
    if isinstance(want, tuple):
        assert type(got) is tuple and len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            assert_same(a, b)
        return
    assert type(got) is type(want)
    if isinstance(want, bl.Tensor | np.ndarray):
        assert got.dtype == want.dtype and got.shape == want.shape
        assert np.asarray(got).tolist() == np.asarray(want).tolist()
    else:
        assert got == want


def check(function: Callable[..., Any], *args: Any, kernels: int | None = None, **options: Any) -> Any:
    """The compiled function gives what the function gives, writes to the arguments included."""
    compiled: Any = bl.compile(function, fullgraph=True, **options)
    for _ in range(2):
        given, again = ([a.copy() if isinstance(a, bl.Tensor) else a for a in args] for _ in range(2))
        assert_same(compiled(*given), function(*again))
        for a, b in zip(given, again, strict=True):
            assert_same(a, b)
            assert not isinstance(a, bl.Tensor) or (a.version > 0) == (b.version > 0)
    report = compiled.report()
    assert len(report.compiles) == 1 and not report.skips
    if kernels is not None:
        assert len(report.kernels) == kernels, report.kernels
    return compiled


FUSED: dict[str, Callable[..., Any]] = {
    "arithmetic": lambda x, y: (x + y) * x - y,
    "bits": lambda x, y: (x & y) ^ (~x | y),
    "chosen": lambda x, y: np.where(x > y, x, y) + x,
    "compared": lambda x, y: x <= y,
    "ordered": lambda x, y: np.minimum(x, np.maximum(y, -x)),
    "quotients": lambda x, y: x // y + x % y,
    "shifts": lambda x, y: (x << abs(y)) + (x >> abs(y)),
    "widened": lambda x, y: x.astype(np.int64) * y + 1000,
    "floats": lambda x, y: x * np.float32(0.5) + y,
}


@EACH
@pytest.mark.parametrize("name", FUSED)
def test_a_function_is_one_kernel(name: str, dtype: DType, rng: np.random.Generator) -> None:
    x, y = (tensor(drawn(17, dtype, rng), dtype) for _ in range(2))
    check(FUSED[name], x, y, kernels=1)


@EACH
def test_every_length(dtype: DType, rng: np.random.Generator) -> None:
    compiled = bl.compile(lambda x, y: (x + y, x.sum()), fullgraph=True)
    for n in range(18):
        x, y = (tensor(drawn(n, dtype, rng), dtype) for _ in range(2))
        assert_same(compiled(x, y), (x + y, x.sum()))
        assert len(compiled(x, y)[0].tobytes()) == (n * dtype.bits + 7) // 8
    assert len(compiled.report().compiles) <= 3, "the second length makes it symbolic"
    square = bl.compile(lambda x: (x.T + x[:, ::-1].T, x.nbytes), dynamic=True, fullgraph=True)
    for n, m in ((3, 5), (4, 4), (1, 7), (0, 3), (9, 1)):
        x = tensor(drawn((n, m), dtype, rng), dtype)
        assert_same(square(x), (x.T + x[:, ::-1].T, x.nbytes))


@EACH
def test_long_arrays(dtype: DType, rng: np.random.Generator) -> None:
    for n in (4096, 100_003):
        x, y = (tensor(drawn(n, dtype, rng), dtype) for _ in range(2))
        check(lambda x, y: x * y + x, x, y, kernels=1)


SHAPES: dict[str, Callable[..., Any]] = {
    "transposed": lambda x: x.T + x.T,
    "sliced": lambda x: x[1:, ::-2] - x[:1, ::-2],
    "reshaped": lambda x: x.reshape(-1)[3:14],
    "joined": lambda x: np.concatenate([x, x[::-1]], axis=1),
    "reduced": lambda x: (x.max(axis=0), x.min(), x.sum(axis=1), x.mean(), np.any(x)),
    "multiplied": lambda x: x @ x.T,
    "picked": lambda x: np.take(x, np.array([2, 0]), axis=0)[:, 1],
    "rows": lambda x: tuple(r + r for r in x),
    "element": lambda x: (x[1, 2], x[0, 0] + x[2, 4]),
    "scanned": lambda x: np.cumsum(x, axis=1),
    "sorted": lambda x: np.sort(x, axis=1),
    "padded": lambda x: np.pad(x, 1),
    "told": lambda x: (x.dtype, x.shape, x.nbytes, x.ndim, len(x)),
    "cast": lambda x: (x.astype(bl.uint2), x.astype(np.float32), bl.asarray(x + np.int64(9), dtype=bl.int6)),
    "made": lambda x: (np.zeros_like(x) + x, np.full_like(x, 1), bl.ones((2, 3), dtype=bl.uint5)),
}


@pytest.mark.parametrize("dtype", [bl.uint1, bl.uint3, bl.uint4, bl.int2, bl.int5], ids=str)
@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str, dtype: DType, rng: np.random.Generator) -> None:
    check(SHAPES[name], tensor(drawn((3, 5), dtype, rng), dtype))


def fill_in(x: Any, y: Any) -> Any:
    x[1:4] = y[::-1][:3]
    x += 1
    y[0] = 0
    return x, x[::2] * y[: x[::2].shape[0]]


@EACH
def test_writes_reach_the_arguments(dtype: DType, rng: np.random.Generator) -> None:
    x, y = (tensor(drawn(n, dtype, rng), dtype) for n in (9, 7))
    if dtype.limits[1] < 1:
        return
    check(fill_in, x, y)
    check(fill_in, x, y, dynamic=True)
    compiled = bl.compile(fill_in, fullgraph=True)
    a = x.copy()
    assert compiled(a, y.copy())[0] is a


def test_views_as_arguments(rng: np.random.Generator) -> None:
    x = tensor(drawn((4, 6), bl.uint3, rng), bl.uint3)
    compiled = bl.compile(lambda x: x + x, fullgraph=True)
    for view in (x, x[1:, 1:], x.T, x[:, ::-1], x[2], x[0, 3:5], x[:0]):
        assert_same(compiled(view), view + view)
    other = tensor(drawn((4, 6), bl.int3, rng), bl.int3)
    assert_same(compiled(other), other + other)

    def write(x: Any) -> Any:
        x += 1
        return x

    whole = x.copy()
    with pytest.raises(bl.errors.GraphBreakError, match="view of packed integers is written"):
        bl.compile(write, fullgraph=True)(whole[1:, ::2])
    assert_is(whole, x.tolist(), bl.uint3)
    bl.compile(write)(whole[1:, ::2])
    assert_is(whole[1:, ::2], (x[1:, ::2] + 1).tolist(), bl.uint3)
    assert_is(whole[0], x[0].tolist(), bl.uint3)


def test_one_tensor_twice_and_two_on_the_same_bytes(rng: np.random.Generator) -> None:
    def write(x: Any, y: Any) -> Any:
        x += 1
        return x + y

    x = tensor(drawn(9, bl.uint4, rng), bl.uint4)
    compiled = bl.compile(write, fullgraph=True)
    y, z = x.copy(), x.copy()
    assert_same(compiled(y, z), x + 1 + x)
    y, z = x.copy(), x.copy()
    assert_same(compiled(y, y), write(z, z))
    assert_same(y, z)
    y, z = x.copy(), x.copy()
    with pytest.raises(bl.errors.GraphBreakError, match="view of packed integers"):
        compiled(y, y[:])
    assert_same(bl.compile(write)(z, z[:]), x + 1 + x + 1)


@EACH
def test_mapped_functions_are_loops(dtype: DType, rng: np.random.Generator) -> None:
    x, y = tensor(drawn((4, 5), dtype, rng), dtype), tensor(drawn(5, dtype, rng), dtype)

    def one(x: Any, y: Any) -> Any:
        return x[::2] * x.max() + y[::2], x.sum(), x > y

    want = [one(row, y) for row in x]
    for function in (bl.vmap(one, in_axes=(0, None)), bl.compile(lambda x, y: bl.vmap(one, in_axes=(0, None))(x, y))):
        first, second, third = function(x, y)
        assert_is(first, [w[0].tolist() for w in want], dtype)
        assert second.tolist() == [int(w[1]) for w in want] and third.tolist() == [w[2].tolist() for w in want]
    columns = bl.vmap(lambda x: x + x[0], in_axes=1, out_axes=1)(x)
    assert_is(columns, (x + x[0]).tolist(), dtype)
    chunked = bl.vmap(lambda x: x + x, chunk_size=3)(x)
    assert_is(chunked, (x + x).tolist(), dtype)
    nested = bl.vmap(bl.vmap(lambda a, b: a * b, in_axes=(None, 0)), in_axes=(0, None))(x[0], y)
    assert_is(nested, np.multiply.outer(x[0], y).tolist(), dtype)


def test_a_mapped_function_that_cannot_be_captured(rng: np.random.Generator) -> None:
    seen: list[Any] = []

    def one(x: Any, y: Any) -> Any:
        seen.append(type(x).__name__)
        seen.clear()
        x += 1
        return np.where(y > 0, x, y) + y

    values, other = drawn((3, 5), bl.uint3, rng), drawn(5, bl.uint3, rng)
    x, y = tensor(values, bl.uint3), tensor(other, bl.uint3)
    got = bl.vmap(one, in_axes=(0, None))(x, y)
    assert_is(x, ((values + 1) % 8).tolist(), bl.uint3)
    assert_is(got, ((np.where(other > 0, (values + 1) % 8, other) + other) % 8).tolist(), bl.uint3)


def test_what_is_refused_at_once_is_refused_compiled() -> None:
    x = tensor([1, 2, 3], bl.uint3)
    for function, error in ((lambda x: x + 9, OverflowError), (lambda x: x.view(np.int8), TypeError)):
        with pytest.raises(bl.errors.GraphBreakError):
            bl.compile(function, fullgraph=True)(x)
        with pytest.warns(UserWarning), pytest.raises(error):
            bl.compile(function)(x)


def test_arrays_are_packed_inside(rng: np.random.Generator) -> None:
    compiled = bl.compile(lambda x: bl.asarray(x, dtype=bl.uint3) * 3, fullgraph=True)
    values = rng.integers(-50, 50, 21)
    got = compiled(values)
    assert type(got) is PackedTensor
    assert_is(got, (values * 3 % 8).tolist(), bl.uint3)
    assert len(compiled.report().kernels) == 1


def test_tensors_reached_from_outside_and_in_containers(rng: np.random.Generator) -> None:
    x = tensor(drawn(9, bl.uint3, rng), bl.uint3)
    for y in (x, np.arange(9), np.arange(9, dtype=np.int8), bl.asarray(np.arange(9.0))):
        check(lambda y: y + x, y)
    got = bl.compile(lambda d: {k: v * 2 for k, v in d.items()}, fullgraph=True)({"a": x, "b": np.arange(9)})
    assert_is(got["a"], (x * 2).tolist(), bl.uint3)
    assert type(got["b"]) is bl.Tensor or got["b"].tolist() == list(range(0, 18, 2))
    compiled = bl.compile(lambda x, n: x + n, fullgraph=True)
    for n in (1, 2, 3):
        assert_same(compiled(x, n), x + n)
    check(lambda x, n: x * n, x, 1.5)


def test_arrays_that_numpy_makes_are_its_own(rng: np.random.Generator) -> None:
    x, y = tensor(drawn(9, bl.uint3, rng), bl.uint3), bl.asarray(np.arange(3.0))
    for function in (
        lambda x: np.asarray(x),
        lambda x: np.array(x) * 3,
        lambda x: np.ascontiguousarray(x) + 200,
        lambda x: np.array([x[0], x[1]]),
        lambda x: x.numpy(),
        lambda x: (isinstance(x, bl.Tensor), isinstance(x, bl.PackedTensor), type(x) is bl.Tensor),
    ):
        check(function, x)
        check(function, y)

    def write(x: Any) -> Any:
        array = x.numpy()
        array[0] = 77
        return array

    check(write, x)


STEPS = (
    "{t} = {a} + {b}", "{t} = {a} - {b}", "{t} = {a} * {b}", "{t} = {a} // {b}", "{t} = {a} % {b}", "{t} = {a} & {b}",
    "{t} = np.maximum({a}, {b})", "{t} = np.where({a} > {b}, {a}, {b})", "{t} = -{a}", "{t} = ~{a}", "{t} = {a}[::-1]",
    "{t} = {a} + 1", "{t} = {a}[::-1].copy()", "{t} = np.roll({a}, 2)", "{t} = {a} >> 1", "{t} = abs({a})",
    "{a}[1:4] = {b}[2:5]", "{a} += {a}", "{a}[{b} > 0] = 1", "{a}[::2] *= {b}[::2]",
)  # fmt: skip


def program(rng: np.random.Generator, steps: int) -> str:
    """The text of a function of x, y and z: steps with views and writes."""
    names, lines = ["x", "y", "z"], []
    for k in range(steps):
        step = STEPS[int(rng.integers(len(STEPS)))]
        a, b = rng.choice(names, 2)
        lines.append("    " + step.format(a=a, b=b, t=f"t{k}"))
        if "{t}" in step:
            names.append(f"t{k}")
    return "\n".join(["def f(x, y, z):", *lines, f"    return {', '.join(names)}, x.sum(), {names[-1]}.mean()"])


@pytest.mark.parametrize("number", range(8))
def test_random_programs(number: int, rng: np.random.Generator) -> None:
    names: dict[str, Any] = {"np": np}
    text = program(rng, int(rng.integers(2, 9)))
    exec(text, names)
    dtypes = rng.choice(len(PACKED), 3) if number % 2 else [int(rng.integers(len(PACKED)))] * 3
    given = [tensor(drawn(int(rng.integers(5, 6)) + 12 * (number > 3), PACKED[k], rng), PACKED[k]) for k in dtypes]

    def outcome(function: Callable[..., Any]) -> Any:
        args = [x.copy() for x in given]
        try:
            found = function(*args)
        except (OverflowError, TypeError) as error:
            return type(error)
        return [(np.asarray(x).tolist(), str(x.dtype)) for x in (*found, *args)]

    compiled = bl.compile(names["f"], dynamic=bool(rng.integers(2)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a program that raises, that it is not compiled
        assert outcome(compiled) == outcome(names["f"]), text
