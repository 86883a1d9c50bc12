"""Tensors behave as arrays: text, copies, exchange with other libraries, NumPy's protocols, Python's operators."""

from __future__ import annotations

import copy
import operator
import pickle
from typing import Any

import numpy as np
import pytest

import broadloom as bl
from broadloom import errors as bl_errors
from broadloom.tensor.dispatch import call

T = bl.asarray
X = np.array([[1.0, -2.5, 3.0], [4.0, 0.5, -6.0]])


def same(result: Any, expected: Any) -> None:
    assert type(result) is bl.Tensor
    expected = np.asarray(expected)
    assert result.dtype == expected.dtype and result.shape == expected.shape
    np.testing.assert_array_equal(result.numpy(), expected)


@pytest.mark.parametrize(
    "x",
    [
        X,
        np.array(1.5),
        np.arange(3, dtype=np.int8),
        np.zeros((0, 2)),
        np.array([True, False]),
        np.arange(2000.0),
        np.array([1 + 2j], np.complex64),
        np.arange(24).reshape(2, 3, 4),
        np.array([1.5, 2.0], bl.bfloat16),
    ],
    ids=str,
)
def test_text_is_numpy_s_under_its_own_name(x: np.ndarray) -> None:
    expected = repr(x)
    named = repr(T(x))
    assert named.startswith("Tensor(") and " ".join(named.split())[7:] == " ".join(expected.split())[6:]
    assert str(T(x)) == str(x)
    if x.ndim == 0:
        assert f"{T(x):.3f}" == "1.500"


def test_pickled_and_copied_tensors_own_their_elements() -> None:
    x = T(X.copy())
    for other in (
        pickle.loads(pickle.dumps(x)),
        pickle.loads(pickle.dumps(x, protocol=2)),
        copy.copy(x),
        copy.deepcopy(x),
        x.copy(),
    ):
        same(other, X)
        other[0, 0] = 9
        assert x[0, 0] == 1 and other.version > 0
    row = x[0]
    same(pickle.loads(pickle.dumps(row)), X[0])
    a, b = copy.deepcopy([x, x])
    assert a is b


def test_fortran_order_survives_pickling() -> None:
    x = T(np.asfortranarray(X))
    assert pickle.loads(pickle.dumps(x)).flags.f_contiguous


def test_dlpack_shares_memory_both_ways() -> None:
    x = X.copy()
    for t in (bl.from_dlpack(x), bl.from_dlpack(T(x))):
        assert np.shares_memory(t.numpy(), x)
    back = np.from_dlpack(T(x))
    assert np.shares_memory(np.asarray(back), x)
    assert not np.shares_memory(bl.from_dlpack(x, copy=True).numpy(), x)
    assert T(x).__dlpack_device__() == (1, 0)
    with pytest.raises((ValueError, BufferError)):
        bl.from_dlpack(x, device="gpu")


def test_the_standard_s_attributes() -> None:
    x = T(X)
    assert (x.dtype, x.ndim, x.shape, x.size, x.device) == (bl.float64, 2, (2, 3), 6, "cpu")
    same(x.T, X.T)
    same(x.mT, X.T)
    assert x.__array_namespace__() is bl and x.__array_namespace__(api_version="2024.12") is bl
    with pytest.raises(ValueError, match=r"2024\.12"):
        x.__array_namespace__(api_version="1999.01")
    assert x.to_device("cpu") is x
    with pytest.raises(ValueError, match="cpu"):
        x.to_device("gpu")
    with pytest.raises(TypeError, match="asarray"):
        bl.Tensor()
    with pytest.raises(TypeError):
        hash(x)


BINARY = [
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow),
    *(operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne, divmod),
]


@pytest.mark.parametrize("op", BINARY, ids=lambda f: f.__name__)
def test_operators(op: Any) -> None:
    y = np.abs(X) + 1
    for a, b in ((X, y), (X, 2), (2.5, y), (X, y[0]), (X, np.float32(2)), (np.abs(X), y.astype(np.int8))):
        with np.errstate(all="ignore"):
            expected = op(a, b)
            for result in (op(wrapped(a), wrapped(b)), op(a, wrapped(b)) if np.ndim(b) else op(wrapped(a), b)):
                if op is divmod:
                    same(result[0], expected[0])
                    same(result[1], expected[1])
                else:
                    same(result, expected)


def wrapped(x: Any) -> Any:
    return T(x) if isinstance(x, np.ndarray) else x


@pytest.mark.parametrize(
    "op", [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift], ids=lambda f: f.__name__
)
def test_operators_of_bits(op: Any) -> None:
    a, b = np.array([6, 3, 12], np.uint8), np.array([1, 2, 3], np.uint8)
    same(op(T(a), T(b)), op(a, b))
    same(op(T(a), 2), op(a, 2))
    same(op(2, T(b)), op(2, b))


def test_unary_operators_and_numbers() -> None:
    x = T(X)
    same(-x, -X)
    same(+x, +X)
    same(abs(x), abs(X))
    same(~T([True, False]), [False, True])
    one = T(2.5)
    assert (float(one), int(one), complex(one), bool(one), one.item(), one.tolist()) == (
        2.5,
        2,
        2.5 + 0j,
        True,
        2.5,
        2.5,
    )
    assert [10, 20, 30][T(1)] == 20
    with pytest.raises(TypeError):
        operator.index(T(1.0))
    with pytest.raises(ValueError, match="ambiguous"):
        bool(x)
    with pytest.raises(TypeError):
        len(one)
    with pytest.raises(TypeError):
        iter(one)
    assert len(x) == 2 and 0.5 in x and 7 not in x
    for row, expected in zip(x, X, strict=True):
        same(row, expected)


INPLACE = [
    operator.iadd,
    operator.isub,
    operator.imul,
    operator.itruediv,
    operator.ifloordiv,
    operator.imod,
    operator.ipow,
]


@pytest.mark.parametrize("op", INPLACE, ids=lambda f: f.__name__)
def test_operators_in_place_keep_the_object_and_its_memory(op: Any) -> None:
    x, y = np.abs(X), np.abs(X)
    t = T(x)
    kept, view = t, t[0]
    before = view.version
    t = op(t, 2)
    op(y, 2)
    assert t is kept and view.version > before
    same(t, y)
    same(view, y[0])


def test_an_in_place_operator_raises_as_numpy_does() -> None:
    t = T([1, 2])
    with pytest.raises(TypeError):
        t /= 2
    with pytest.raises(ValueError, match="broadcast"):
        t += T([[1, 2], [3, 4]])


NUMPY = {
    "sum": lambda x: np.sum(x, axis=0),
    "sin": np.sin,
    "where": lambda x: np.where(x > 0, x, 0),
    "concatenate": lambda x: np.concatenate([x, x], axis=1),
    "sort": np.sort,
    "median": np.median,
    "einsum": lambda x: np.einsum("ij->j", x),
    "fft": np.fft.rfft,
    "norm": np.linalg.norm,
    "svd": lambda x: np.linalg.svd(x)[1],
    "add.reduce": lambda x: np.add.reduce(x, axis=1),
    "add.outer": lambda x: np.add.outer(x, x),
    "maximum.accumulate": np.maximum.accumulate,
    "where=": lambda x: np.add(x, 1, out=np.zeros_like(x), where=x > 0),
    "meshgrid": lambda x: np.meshgrid(x[0], x[1])[1],
    "broadcast_to": lambda x: np.broadcast_to(x, (2, 2, 3)),
    "average": lambda x: np.average(x, weights=x, axis=1),
    "interp": lambda x: np.interp(x, np.sort(x[0]), x[1]),
    "pad": lambda x: np.pad(x, 1),
    "array": lambda x: np.concatenate((x[:1], x[1:])),
    "apply_along_axis": lambda x: np.apply_along_axis(np.sum, 0, x),
    "quantile": lambda x: np.quantile(x, 0.25),
    "zeros_like": np.zeros_like,
}


@pytest.mark.parametrize("name", NUMPY)
def test_numpy_s_functions_give_tensors(name: str) -> None:
    same(NUMPY[name](T(X)), NUMPY[name](X))


METHODS: dict[str, tuple[Any, ...]] = {
    "all": (), "any": (0,), "argmax": (1,), "argmin": (), "argsort": (0,), "astype": (np.int8,), "clip": (0, 2),
    "conj": (), "copy": (), "cumprod": (), "cumsum": (1,), "diagonal": (), "dot": (np.ones(3),), "flatten": (),
    "max": (), "mean": (0,), "min": (), "prod": (), "ravel": ("F",), "repeat": (2, 1), "reshape": (3, 2), "round": (),
    "squeeze": (), "std": (), "sum": (), "swapaxes": (0, 1), "take": ([1, 0],), "trace": (), "transpose": (),
    "var": (1,), "view": (np.int64,),
}  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_methods_are_an_array_s(name: str) -> None:
    same(getattr(T(X), name)(*METHODS[name]), getattr(X, name)(*METHODS[name]))


def test_out_is_the_tensor_that_was_given() -> None:
    x, out = T(X), bl.zeros((2, 3))
    assert np.add(x, 1, out=out) is out and np.add(x, 1, out) is out and out.version == 2
    assert np.sum(x, axis=0, out=out[0]).version == 3
    fraction, whole = bl.zeros((2, 3)), bl.zeros((2, 3))
    f, w = np.modf(x, out=(fraction, whole))
    assert f is fraction and w is whole and fraction.version == 1
    np.add.at(out, (0, 0), 1)
    assert out.version == 4
    np.copyto(out, 7)
    same(out, np.full((2, 3), 7.0))
    array = np.zeros((2, 3))
    assert np.multiply(x, 2, out=array) is array
    np.testing.assert_array_equal(array, X * 2)
    kept = array
    array += x
    assert array is kept and np.array_equal(array, X * 3)
    whole = np.zeros((2, 3))
    f, w = np.modf(x, None, whole)
    assert type(f) is bl.Tensor and w is whole and np.array_equal(whole, np.trunc(X))
    with pytest.raises(ValueError, match="broadcast"):
        np.add(x, x, out=np.zeros(2))


def test_views_share_memory_and_version() -> None:
    x = T(X.copy())
    views = [x[0], x.T, x.reshape(6), x.ravel(), bl.flip(x), bl.expand_dims(x, 0), bl.moveaxis(x, 0, 1), x.real]
    before = x.version
    x[0, 1] = 11
    assert all(v.version == before + 1 for v in views) and views[0][1] == 11
    views[1][2, 0] = 12
    assert x[0, 2] == 12 and x.version == before + 2
    (row,) = np.broadcast_arrays(*[x[0]])
    parts = np.array_split(x, 2)
    assert row.version == before + 2 and all(p.version == before + 2 for p in parts)
    parts[1][0, 0] = 13
    assert x[1, 0] == 13 and x.version == before + 3
    fresh = x + 0
    fresh += 1
    assert x.version == before + 3
    assert np.meshgrid(*[fresh[0]], copy=False)[0].version == 1 and np.asarray([fresh, fresh]).shape == (2, 2, 3)
    for base in (x, x[1:]):
        windows = np.lib.stride_tricks.sliding_window_view(base, 1, axis=0)
        before = windows.version
        x[0] = 8
        assert windows.version == x.version > before


def test_what_is_no_array_is_left_to_its_own_operator() -> None:
    class Other:
        def __radd__(self, other: Any) -> str:
            return "other"

    assert T(X) + Other() == "other"
    with pytest.raises(TypeError):
        T(X) + "text"
    assert (T(X) == "text") is False


def test_the_straight_road_gives_what_the_other_gives() -> None:
    x = T(X)
    same(call(np.add, x, x), X + X)
    same(call(np.add, x, np.float32(1)), X + np.float32(1))
    same(call(np.add, [1, 2, 3], x), X + np.array([1, 2, 3]))
    same(call(np.add, T(1), 2), np.asarray(3))
    out = bl.zeros((2, 3))
    assert call(np.add, x, x, out) is out and out.version == 1
    same(call(np.modf, x)[0], np.modf(X)[0])
    with pytest.raises(TypeError):
        call(np.add, x)


def test_arrays_of_other_classes_stay_what_they_are() -> None:
    masked = np.ma.masked_array(X, X > 0)
    for result in (T(X) + masked, masked + T(X), np.add(T(X), masked), bl.sin(masked)):
        assert type(result) is np.ma.MaskedArray and (result.mask == (X > 0)).all()
    memory = X.view(np.memmap)
    same(T(memory), X)
    same(T(memory)[0] + 1, X[0] + 1)


@pytest.mark.parametrize("x", [["a"], [None], np.zeros(2, [("a", int)]), np.zeros(2, "M8[s]")], ids=str)
def test_tensors_hold_numbers(x: Any) -> None:
    with pytest.raises(bl_errors.DTypeError, match="numbers"):
        bl.asarray(x)


def test_parts_of_complex_numbers_are_set() -> None:
    x, real = T(np.ones(3, np.complex64)), T(np.ones(3))
    kept = x.real
    x.real, x.imag, real.real = [1, 2, 3], -1, 7
    np.testing.assert_array_equal(x, [1 - 1j, 2 - 1j, 3 - 1j])
    assert kept[2] == 3 and x.version == kept.version == 2 and real[0] == 7
    with pytest.raises(TypeError, match="imaginary"):
        real.imag = 0

    def halved(z):
        print(end="")
        z.imag = z.imag / 2
        return z.real

    pair = np.array([[1 + 2j], [3 - 4j]])
    np.testing.assert_array_equal(bl.vmap(halved)(pair), [[1], [3]])
    np.testing.assert_array_equal(pair, [[1 + 1j], [3 - 2j]])
