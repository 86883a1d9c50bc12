"""The namespace: every name of the standard with its signature, and what the functions give, against NumPy."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import broadloom as bl
from broadloom.array_api import numpy_elementwise, numpy_numbers, numpy_shapes, numpy_sorting
from broadloom.errors import BroadloomError

Tensor = bl.Tensor
PACKAGE = Path(bl.__file__).parent


def words(text: str) -> list[str]:
    return text.split()


STANDARD = words(
    """
    arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like tril triu
    zeros zeros_like astype broadcast_arrays broadcast_to can_cast finfo iinfo isdtype result_type bool int8
    int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128 e inf nan newaxis pi abs
    acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_invert bitwise_or
    bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide equal exp expm1 floor floor_divide
    greater greater_equal hypot imag isfinite isinf isnan less less_equal log log1p log2 log10 logaddexp
    logical_and logical_not logical_or logical_xor maximum minimum multiply negative nextafter not_equal
    positive pow real reciprocal remainder round sign signbit sin sinh square sqrt subtract tan tanh trunc take
    take_along_axis matmul matrix_transpose tensordot vecdot concat expand_dims flip moveaxis permute_dims
    repeat reshape roll squeeze stack tile unstack argmax argmin count_nonzero nonzero searchsorted where
    unique_all unique_counts unique_inverse unique_values argsort sort cumulative_prod cumulative_sum max mean
    min prod std sum var all any diff __array_namespace_info__ __array_api_version__
    """
)
LINALG = words(
    """
    cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank matrix_transpose
    outer pinv qr slogdet solve svd svdvals tensordot trace vecdot vector_norm
    """
)
FFT = words(
    """
    fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift ifftshift
    """
)


@pytest.mark.parametrize(("room", "names"), [(bl, STANDARD), (bl.linalg, LINALG), (bl.fft, FFT)])
def test_every_name_of_the_standard_is_there(room: ModuleType, names: list[str]) -> None:
    assert [n for n in names if not hasattr(room, n)] == []


def test_public_names_exist_and_hide_no_room() -> None:
    assert [n for n in bl.__all__ if not hasattr(bl, n)] == []
    rooms = {p.stem for p in PACKAGE.iterdir()}
    assert [n for n in sorted(rooms & set(bl.__all__)) if not isinstance(getattr(bl, n), ModuleType)] == []


@pytest.mark.parametrize("room", [numpy_elementwise, numpy_numbers, numpy_shapes, numpy_sorting])
def test_all_of_numpy_s_functions_are_exported(room: ModuleType) -> None:
    own = {n for n, f in vars(room).items() if inspect.isfunction(f) and f.__module__ == room.__name__}
    assert own - set(bl.__all__) == set()
    for name in own:
        assert hasattr(np, name) and inspect.getdoc(getattr(bl, name))


def test_parameters_of_numpy_s_functions_are_numpy_s() -> None:
    for room in (numpy_numbers, numpy_shapes, numpy_sorting):
        for name, f in vars(room).items():
            if inspect.isfunction(f) and f.__module__ == room.__name__ and name not in ("einsum", "pad"):
                there = [n for n in inspect.signature(getattr(np, name)).parameters if n != "kwargs"]
                here = list(inspect.signature(f).parameters)
                assert [n for n in there if n in here] == here, name


X = np.array([[0.5, -1.25, 2.0], [3.5, -0.0, 1.5]])
N = np.array([[3, -2, 7], [1, 0, 5]])
B = np.array([[True, False, True], [False, False, True]])
SQUARE = np.array([[4.0, 1.0], [1.0, 3.0]])

UNARY = words(
    """
    abs acos acosh asin asinh atan atanh ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan log log10
    log1p log2 logical_not negative positive real reciprocal round sign signbit sin sinh sqrt square tan tanh
    trunc
    """
)
BINARY = words(
    """
    add atan2 copysign divide equal floor_divide greater greater_equal hypot less less_equal logaddexp
    logical_and logical_or logical_xor maximum minimum multiply nextafter not_equal pow remainder subtract
    """
)
BITS = words(
    """
    bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor
    """
)
NUMPY_NAMES = {"bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift"}


def same(result: Any, expected: Any) -> None:
    """Tensors with NumPy's values, dtypes and shapes, in containers of the same lengths."""
    if isinstance(expected, (tuple, list)):
        assert len(result) == len(expected)
        for r, x in zip(result, expected, strict=True):
            same(r, x)
        return
    assert type(result) is Tensor
    assert result.dtype == expected.dtype and result.shape == expected.shape
    np.testing.assert_array_equal(result.numpy(), expected)


@pytest.mark.parametrize("name", UNARY)
@np.errstate(all="ignore")
def test_unary(name: str) -> None:
    for x in (X, X[1], X[0, 0]):
        same(getattr(bl, name)(bl.asarray(x)), np.asarray(getattr(np, name)(x)))
        same(getattr(bl, name)(x), np.asarray(getattr(np, name)(x)))


@pytest.mark.parametrize("name", BINARY)
@np.errstate(all="ignore")
def test_binary(name: str) -> None:
    f, g = getattr(bl, name), getattr(np, name)
    same(f(bl.asarray(X), bl.asarray(X[1])), g(X, X[1]))
    same(f(bl.asarray(X), 2), g(X, 2))
    same(f(2.5, X), g(2.5, X))
    same(f(bl.asarray(X, dtype=bl.float32), 2.5), g(X.astype(np.float32), 2.5))


@pytest.mark.parametrize("name", BITS)
def test_bits(name: str) -> None:
    f, g = getattr(bl, name), getattr(np, NUMPY_NAMES.get(name, name))
    same(f(bl.asarray(abs(N)), 3), g(abs(N), 3))
    same(bl.bitwise_invert(bl.asarray(N)), ~N)


T = bl.asarray
CASES: dict[str, tuple[Any, Any]] = {
    "arange": (lambda: bl.arange(5), np.arange(5)),
    "arange, step": (lambda: bl.arange(1, 2, 0.25), np.arange(1, 2, 0.25)),
    "arange, no stop": (lambda: bl.arange(5, None, 2, dtype=bl.int8), np.arange(0, 5, 2, np.int8)),
    "asarray": (lambda: bl.asarray([1, 2], dtype=bl.float32), np.array([1, 2], np.float32)),
    "asarray of tensors": (lambda: bl.asarray([T(1), T(2)]), np.array([1, 2])),
    "empty": (lambda: bl.empty((0, 2)), np.empty((0, 2))),
    "eye": (lambda: bl.eye(2, 3, k=1), np.eye(2, 3, 1)),
    "from_dlpack": (lambda: bl.from_dlpack(X), X),
    "full": (lambda: bl.full((2,), 7), np.full(2, 7)),
    "full_like": (lambda: bl.full_like(T(N), 2.5), np.full_like(N, 2.5)),
    "linspace": (lambda: bl.linspace(0, 1, 4, endpoint=False), np.linspace(0, 1, 4, endpoint=False)),
    "meshgrid": (lambda: bl.meshgrid(T([1, 2]), T([3, 4, 5])), np.meshgrid([1, 2], [3, 4, 5])),
    "ones": (lambda: bl.ones(2, dtype=bl.uint8), np.ones(2, np.uint8)),
    "tril": (lambda: bl.tril(T(X), k=1), np.tril(X, 1)),
    "triu": (lambda: bl.triu(T(X)), np.triu(X)),
    "zeros": (lambda: bl.zeros((2, 1)), np.zeros((2, 1))),
    "zeros_like": (lambda: bl.zeros_like(T(N)), np.zeros_like(N)),
    "astype": (lambda: bl.astype(T(X), bl.int32), X.astype(np.int32)),
    "broadcast_arrays": (lambda: bl.broadcast_arrays(T(X), T([1])), np.broadcast_arrays(X, [1])),
    "broadcast_to": (lambda: bl.broadcast_to(T([1, 2]), (3, 2)), np.broadcast_to([1, 2], (3, 2))),
    "clip": (lambda: bl.clip(T(X), 0, 2), np.clip(X, 0, 2)),
    "clip below": (lambda: bl.clip(T(X), max=1), np.minimum(X, 1)),
    "take": (lambda: bl.take(T(X), T([2, 0]), axis=1), np.take(X, [2, 0], 1)),
    "take_along_axis": (lambda: bl.take_along_axis(T(X), T(X).argsort()), np.sort(X)),
    "matmul": (lambda: bl.matmul(T(X), T(X.T)), X @ X.T),
    "matrix_transpose": (lambda: bl.matrix_transpose(T(X)), X.T),
    "tensordot": (lambda: bl.tensordot(T(X), T(X), axes=((1,), (1,))), X @ X.T),
    "vecdot": (lambda: bl.vecdot(T(X), T(X)), np.vecdot(X, X)),
    "concat": (lambda: bl.concat([T(X), T(N)], axis=1), np.concatenate([X, N], 1)),
    "concat flat": (lambda: bl.concat([T(X), T(N[0])], axis=None), np.concatenate([X, N[0]], None)),
    "expand_dims": (lambda: bl.expand_dims(T(X), axis=1), X[:, None]),
    "flip": (lambda: bl.flip(T(X)), X[::-1, ::-1]),
    "moveaxis": (lambda: bl.moveaxis(T(X), 0, 1), X.T),
    "permute_dims": (lambda: bl.permute_dims(T(X), (1, 0)), X.T),
    "repeat": (lambda: bl.repeat(T(X), T([1, 2]), axis=0), np.repeat(X, [1, 2], 0)),
    "reshape": (lambda: bl.reshape(T(X), (3, -1)), X.reshape(3, 2)),
    "roll": (lambda: bl.roll(T(X), 1, axis=1), np.roll(X, 1, 1)),
    "squeeze": (lambda: bl.squeeze(T(X[:1]), axis=0), X[0]),
    "stack": (lambda: bl.stack([T(X), T(X)], axis=-1), np.stack([X, X], -1)),
    "tile": (lambda: bl.tile(T(X), (2, 1)), np.tile(X, (2, 1))),
    "unstack": (lambda: bl.unstack(T(X), axis=1), tuple(X.T)),
    "argmax": (lambda: bl.argmax(T(X), axis=1, keepdims=True), np.argmax(X, 1, keepdims=True)),
    "argmin": (lambda: bl.argmin(T(X)), np.asarray(np.argmin(X))),
    "count_nonzero": (lambda: bl.count_nonzero(T(N), axis=0), np.count_nonzero(N, axis=0)),
    "nonzero": (lambda: bl.nonzero(T(N)), np.nonzero(N)),
    "searchsorted": (lambda: bl.searchsorted(T([1, 2, 2]), T([2]), side="right"), np.array([3])),
    "where": (lambda: bl.where(T(B), T(X), 1), np.where(B, X, 1)),
    "argsort": (lambda: bl.argsort(T([2, 1, 2, 0])), np.array([3, 1, 0, 2])),
    "argsort down": (lambda: bl.argsort(T([[2, 1, 2, 0]]), descending=True), np.array([[0, 2, 1, 3]])),
    "argsort down, first axis": (
        lambda: bl.argsort(T([2, 2, 3])[:, None], axis=0, descending=True), np.array([[2], [0], [1]])
    ),
    "sort": (lambda: bl.sort(T(N), axis=0), np.sort(N, 0)),
    "sort down": (lambda: bl.sort(T(N), descending=True), np.sort(N)[:, ::-1]),
    "unique_values": (lambda: bl.unique_values(T([5, 1, 5, 3, 0])), np.array([0, 1, 3, 5])),
    "unique_values, nan": (lambda: bl.unique_values(T([np.nan, 1, np.nan])), np.array([1, np.nan, np.nan])),
    "unique_all": (lambda: bl.unique_all(T([2, 1, 2])), np.unique_all([2, 1, 2])),
    "cumulative_sum": (
        lambda: bl.cumulative_sum(T(N), axis=1, include_initial=True), np.array([[0, 3, 1, 8], [0, 1, 1, 6]])
    ),
    "cumulative_prod": (lambda: bl.cumulative_prod(T(N[0])), np.cumprod(N[0])),
    "max": (lambda: bl.max(T(X), axis=(0, 1)), np.asarray(X.max())),
    "mean": (lambda: bl.mean(T(N)), np.asarray(N.mean())),
    "min": (lambda: bl.min(T(X), axis=0, keepdims=True), X.min(0, keepdims=True)),
    "prod": (lambda: bl.prod(T(N), axis=1, dtype=bl.float32), np.prod(N, 1, np.float32)),
    "std": (lambda: bl.std(T(X), axis=1, correction=1), X.std(1, ddof=1)),
    "sum": (lambda: bl.sum(T(N.astype(np.int8))), np.asarray(N.sum())),
    "var": (lambda: bl.var(T(X), correction=0.5), np.asarray(X.var(ddof=0.5))),
    "all": (lambda: bl.all(T(N), axis=1), N.all(1)),
    "any": (lambda: bl.any(T(B)), np.asarray(True)),
    "diff": (lambda: bl.diff(T(X), prepend=T(X[:, :1])), np.diff(X, prepend=X[:, :1])),
    "diff, append": (lambda: bl.diff(T(X), n=2, append=T(X)), np.diff(X, 2, append=X)),
    "diff, both": (lambda: bl.diff(T(X), axis=0, append=T(X), prepend=T(X)), np.diff(np.vstack([X, X, X]), axis=0)),
    "cholesky": (lambda: bl.linalg.cholesky(T(SQUARE), upper=True), np.linalg.cholesky(SQUARE, upper=True)),
    "qr": (lambda: bl.linalg.qr(T(SQUARE)), np.linalg.qr(SQUARE)),
    "svd": (lambda: bl.linalg.svd(T(X), full_matrices=False), np.linalg.svd(X, full_matrices=False)),
    "eigh": (lambda: bl.linalg.eigh(T(SQUARE)), np.linalg.eigh(SQUARE)),
    "slogdet": (lambda: bl.linalg.slogdet(T(SQUARE)), tuple(map(np.asarray, np.linalg.slogdet(SQUARE)))),
    "solve": (lambda: bl.linalg.solve(T(SQUARE), T(SQUARE[0])), np.linalg.solve(SQUARE, SQUARE[0])),
    "vector_norm": (lambda: bl.linalg.vector_norm(T(X), axis=1), np.linalg.vector_norm(X, axis=1)),
    "fft": (lambda: bl.fft.fft(T(X), axis=0), np.fft.fft(X, axis=0)),
    "irfft": (lambda: bl.fft.irfft(T(X), n=5), np.fft.irfft(X, n=5)),
    "fftn": (lambda: bl.fft.fftn(T(X), norm="ortho"), np.fft.fftn(X, norm="ortho")),
    "fftfreq": (lambda: bl.fft.fftfreq(4, d=0.5, dtype=bl.float32), np.fft.fftfreq(4, 0.5).astype(np.float32)),
    "fftshift": (lambda: bl.fft.fftshift(T(X), axes=1), np.fft.fftshift(X, axes=1)),
    "einsum": (lambda: bl.einsum("ij,kj->ik", T(X), T(X)), np.einsum("ij,kj->ik", X, X)),
    "histogram": (lambda: bl.histogram(T(X), bins=3), np.histogram(X, bins=3)),
    "interp": (lambda: bl.interp(T([0.5]), T([0.0, 1.0]), T([2.0, 4.0])), np.array([3.0])),
    "median": (lambda: bl.median(T(X), axis=1), np.median(X, 1)),
    "split": (lambda: bl.split(T(X), 3, axis=1), np.split(X, 3, axis=1)),
    "unique": (lambda: bl.unique(T(N), return_counts=True), np.unique(N, return_counts=True)),
    "pad": (lambda: bl.pad(T(X), 1, mode="edge"), np.pad(X, 1, mode="edge")),
    "divmod": (lambda: bl.divmod(T(N), 2), divmod(N, 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    run, expected = CASES[name]
    same(run(), expected)


def test_dtypes() -> None:
    assert isinstance(bl.float32, np.dtype) and bl.float32 == np.float32 and bl.bool == np.bool
    assert bl.asarray([1.0], dtype=bl.bfloat16).dtype == bl.bfloat16
    assert bl.isdtype(bl.bfloat16, "real floating") and not bl.isdtype(bl.bool, "numeric")
    assert bl.isdtype(bl.int8, ("bool", bl.int8)) and bl.isdtype(bl.uint8, "integral")
    with pytest.raises(ValueError, match="signed integer"):
        bl.isdtype(bl.int8, "int")
    assert bl.result_type(T(X), 1, bl.complex64) == bl.complex128 and bl.result_type(bl.int8, 1) == bl.int8
    assert bl.can_cast(bl.int8, bl.int16) and not bl.can_cast(T(X), bl.int64)
    f = bl.finfo(T(X))
    assert (f.bits, f.eps, f.tiny, f.dtype) == (64, 2.0**-52, float(np.finfo(float).tiny), bl.float64)
    assert all(type(v) is float for v in (f.eps, f.max, f.min, f.smallest_normal, f.resolution))
    assert bl.finfo(bl.complex64).dtype == bl.float32 and bl.finfo(bl.bfloat16).eps == 2.0**-7
    assert (bl.iinfo(bl.uint8).max, bl.iinfo(T(N)).min, bl.iinfo("i2").dtype) == (255, -(2**63), bl.int16)


def test_inspection() -> None:
    info = bl.__array_namespace_info__()
    assert info.devices() == ["cpu"] and info.default_device() == "cpu"
    assert info.capabilities()["boolean indexing"] and info.default_dtypes()["integral"] == bl.int64
    assert info.dtypes(kind=("bool", "complex floating")) == {
        "bool": bl.bool, "complex64": bl.complex64, "complex128": bl.complex128
    }  # fmt: skip
    assert set(info.dtypes(device="cpu")) == {d.name for d in info.dtypes().values()} and len(info.dtypes()) == 13
    with pytest.raises(ValueError, match="integral"):
        info.dtypes(kind="int")
    with pytest.raises(ValueError, match="cpu"):
        info.dtypes(device="gpu")
    assert bl.__array_api_version__ == "2024.12"


def test_copies() -> None:
    x = T(X)
    assert x.numpy() is X and bl.asarray(x) is x
    assert not np.shares_memory(bl.asarray(x, copy=True).numpy(), X)
    with pytest.raises(ValueError, match="copy"):
        bl.asarray([1, 2], copy=False)
    with pytest.raises(ValueError, match="copy"):
        bl.asarray(x, dtype=bl.float32, copy=False)
    with pytest.raises(ValueError, match="copy"):
        bl.reshape(bl.asarray(X.T), (6,), copy=False)
    assert bl.astype(x, bl.float64, copy=False) is x and bl.astype(x, bl.float64) is not x
    for device in ("gpu", 1):
        with pytest.raises(ValueError, match="cpu"):
            bl.zeros(2, device=device)


@pytest.mark.parametrize(
    "run",
    [
        lambda x: bl.sum(bl.sin(x) * 2, axis=-1),
        lambda x: bl.concat([x, bl.flip(x)]) + bl.ones(6),
        lambda x: bl.where(x > 0, x, 0) + bl.mean(x, keepdims=True),
        lambda x: bl.stack([bl.square(x), bl.zeros_like(x)]),
        lambda x: bl.matmul(bl.eye(3), x) + bl.asarray([1.0, 2.0, 3.0]),
        lambda x: bl.diff(bl.cumulative_sum(x)),
        lambda x: bl.astype(bl.argmax(x), bl.float32) + bl.expand_dims(x, 0),
        lambda x: bl.var(x, correction=1) + bl.unstack(x)[0],
    ],
)
def test_batched(run: Any) -> None:
    batch = np.stack([X[0], X[1], X[0] + 1])
    expected = np.stack([run(T(x)).numpy() for x in batch])
    np.testing.assert_allclose(bl.vmap(run)(batch), expected, rtol=1e-15)
    same(bl.vmap(run)(T(batch)), bl.vmap(run)(batch))


@np.errstate(all="ignore")
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_expm1_of_complex_numbers_at_the_ends(dtype: type) -> None:
    inf, nan = np.inf, np.nan
    given = [-0.0, complex(-0.0, -0.0), inf, complex(inf, inf), complex(nan, 0), 1e-9j, complex(-inf, nan)]
    expected = [0.0, complex(0.0, -0.0), inf, complex(inf, nan), complex(nan, 0), 1e-9j, -1]
    z, e = bl.expm1(T(np.array(given, dtype))).numpy(), np.array(expected, dtype)
    np.testing.assert_allclose(z.real, e.real, atol=1e-17)
    np.testing.assert_allclose(z.imag, e.imag, atol=1e-17)
    np.testing.assert_array_equal(np.signbit(z.imag[:3]), np.signbit(e.imag[:3]))
    assert not np.signbit(z.real[:3]).any()
    assert bl.expm1(T(0.5)) == np.expm1(0.5)


# Their sizes depend on data, or they take objects of Python; see the refusals below.
OUTSIDE = words("nonzero unique_values unique_all unique repeat from_dlpack")
COMPILED = [name for name in CASES if name.partition(",")[0] not in OUTSIDE]


@pytest.mark.parametrize("start", range(8))
def test_compiled(start: int) -> None:
    names = COMPILED[start::8]
    runs: dict[str, Any] = {f"run{k}": CASES[name][0] for k, name in enumerate(names)}
    exec("def together():\n    return " + ", ".join(f"{run}()" for run in runs), runs)
    results = bl.compile(runs["together"], fullgraph=True)()
    for name, result in zip(names, results, strict=True):
        compare(name, result, CASES[name][1])


def compare(name: str, result: Any, expected: Any) -> None:
    if isinstance(expected, (tuple, list)):
        assert len(result) == len(expected)
        for r, e in zip(result, expected, strict=True):
            compare(name, r, e)
        return
    assert result.dtype == expected.dtype and result.shape == expected.shape, name
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-14, err_msg=name)


@pytest.mark.parametrize("name", ["nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values"])
def test_sizes_that_depend_on_data_are_refused_by_name(name: str) -> None:
    function = getattr(bl, name)
    shown = "unique" if name == "unique_values" else name
    with pytest.raises(BroadloomError, match=rf"np\.{shown}.*remedy"):
        bl.vmap(function)(X)
    with pytest.raises(BroadloomError, match=rf"np\.{shown}.*remedy"):
        bl.compile(function, fullgraph=True)(X)


def test_compiled_functions_take_and_give_tensors() -> None:
    @bl.compile(fullgraph=True)
    def f(x: Any, y: Any) -> Any:
        z = bl.where(x > 0, bl.exp(x), y) + bl.sum(x, axis=0, keepdims=True)
        return bl.concat([z, bl.ones_like(z)]), bl.expm1(x * 1j), bl.argsort(x, descending=True)

    for result, expected in zip(f(T(X), 2), f.__wrapped__(T(X), 2), strict=True):
        assert type(result) is Tensor
        compare("f", result, expected)


def test_axis_may_be_given_by_position_as_in_numpy() -> None:
    x = np.arange(6.0).reshape(2, 3)
    for name in ("sum", "prod", "max", "min", "mean", "std", "var", "all", "any", "argmax", "argmin", "count_nonzero"):
        np.testing.assert_array_equal(getattr(bl, name)(x, 0), getattr(np, name)(x, 0))
    for name in ("sort", "argsort", "flip"):
        np.testing.assert_array_equal(getattr(bl, name)(x, 0), getattr(np, name)(x, 0))
    for name, numpy_name in (("concat", "concatenate"), ("stack", "stack")):
        np.testing.assert_array_equal(getattr(bl, name)([x, x], 1), getattr(np, numpy_name)([x, x], 1))
    np.testing.assert_array_equal(bl.repeat(x, 2, 1), np.repeat(x, 2, 1))
    np.testing.assert_array_equal(bl.take(x, np.array([2, 0]), 1), np.take(x, [2, 0], 1))
