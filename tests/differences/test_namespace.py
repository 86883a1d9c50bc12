"""The namespace, tensors and mapped functions: each statement of docs/differences.md, and NumPy's own answer."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import broadloom as bl
from broadloom.errors import DTypeError, TransformError

INF, NAN = np.inf, np.nan


@pytest.mark.difference("The namespace follows the standard, 2024.12.")
def test_the_namespace_says_which_standard_it_follows():
    assert bl.__array_api_version__ == "2024.12"
    assert bl.asarray(1).__array_namespace__(api_version="2024.12") is bl


@pytest.mark.difference("Floor division of infinity, and of a number by an infinity of the other sign,")
@np.errstate(all="ignore")
def test_floor_division_by_infinity_is_numpy_s_and_python_s():
    for x, y, standard in (
        (INF, 2.0, INF),
        (INF, -2.0, -INF),
        (-INF, 2.0, -INF),
        (-INF, -2.0, INF),
        (1.0, -INF, -0.0),
        (-1.0, INF, -0.0),
    ):
        t = bl.asarray(x)
        results = [bl.floor_divide(t, y), t // y]
        t //= y
        for result in (*results, t):
            np.testing.assert_array_equal(result.numpy(), np.floor_divide(x, y))
            np.testing.assert_array_equal(result.numpy(), x // y)
            assert result.item() != standard


@pytest.mark.difference("`tanh` of a complex number whose real part is infinite")
def test_the_zero_of_tanh_at_infinity_has_the_sign_of_the_limit():
    for b in (0.5, 2.0, 4.0, 5.0):
        z = bl.tanh(bl.asarray(complex(INF, b))).item()
        assert z == np.tanh(complex(INF, b)) == 1
        assert np.signbit(z.imag) == np.signbit(np.sin(2 * b)) == np.signbit(np.tanh(complex(10, b)).imag)


@pytest.mark.difference("A dtype is a `numpy.dtype`, and NumPy's float64 equals None.")
def test_the_dtype_that_equals_none():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert bl.float64 == None and bl.float32 != None  # noqa: E711
    assert not bl.can_cast(bl.complex64, bl.float64)


@pytest.mark.difference("Where NumPy's own functions differ from the standard, those of the namespace follow")
@pytest.mark.difference("`bl.expm1` of a complex number is nan at an infinity only in the parts")
@np.errstate(all="ignore")
def test_expm1_of_complex_infinity():
    z = np.array([complex(INF, 0), complex(-INF, INF), complex(-0.0, 0)])
    ours, numpy_s = bl.expm1(bl.asarray(z)).numpy(), np.expm1(z)
    np.testing.assert_array_equal(ours, [complex(INF, 0), -1, 0])
    assert not np.signbit(ours.real[2]) and np.signbit(numpy_s.real[2])
    assert np.isnan(numpy_s.imag[:2]).all()


@pytest.mark.difference("`bl.unique_values` gives the elements sorted")
def test_unique_values_are_sorted():
    x = np.random.default_rng(0).integers(0, 1000, 500)
    ours = bl.unique_values(bl.asarray(x)).numpy()
    assert (np.diff(ours) > 0).all() and set(ours) == set(np.unique_values(x))


@pytest.mark.difference("A function of a tensor, be it `bl`'s or NumPy's, gives a tensor without axes")
def test_tensors_without_axes_stand_for_scalars():
    x = bl.asarray([1.0, 2.0])
    for result in (bl.sum(x), np.sum(x), x.sum(), x[0], np.max(x), bl.vecdot(x, x)):
        assert type(result) is bl.Tensor and result.shape == ()
    assert type(np.sum(x.numpy())) is np.float64


@pytest.mark.difference("A tensor of no axes, where NumPy gives a scalar, can be written:")
def test_a_tensor_of_no_axes_is_no_number():
    array = np.arange(3.0)
    scalar, tensor = array.sum(), bl.asarray(array).sum()
    other, same = scalar, tensor
    scalar += 1
    tensor += 1
    assert (scalar, other) == (4, 3) and tensor is same and same.item() == 4
    assert hash(other) == hash(3.0) and isinstance(other, float) and not isinstance(tensor, float)
    with pytest.raises(TypeError, match="unhashable"):
        hash(tensor)
    assert [float(tensor), int(tensor), tensor.item()] == [4.0, 4, 4.0]


@pytest.mark.difference("`bl.asarray` takes numbers and truth values;")
@pytest.mark.parametrize("values", [["a"], [b"a"], [None], np.array(["2024-01-01"], "M8[D]"), np.zeros(2, "i4,f4")])
def test_arrays_of_what_is_no_number_are_refused(values):
    assert np.asarray(values).size
    with pytest.raises(DTypeError):
        bl.asarray(values)


@pytest.mark.difference("`bl.vmap(f)` gives what stacking the results of a loop over the examples gives,")
@pytest.mark.difference("The function is called once.")
def test_mapped_functions_are_called_once():
    x, seen = np.arange(24.0).reshape(2, 3, 4), []

    def f(row):
        seen.append(row)
        return np.sin(row).cumsum(axis=1), row.max() - row[0, 0]

    loop = [np.stack(column) for column in zip(*map(f, x), strict=True)]
    assert len(seen) == 2
    for got, want in zip(bl.vmap(f)(x), loop, strict=True):
        assert type(got) is np.ndarray and got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
    assert len(seen) == 3


@pytest.mark.difference("One example looks as if it lay in C order:")
@pytest.mark.parametrize("order", ["K", "A"])
def test_one_example_lies_in_c_order(order):
    x = np.arange(24.0).reshape(2, 3, 4).swapaxes(1, 2)

    def f(example):
        return example.ravel(order)

    assert not x[0].flags.c_contiguous
    for mapped in (bl.vmap(f), bl.compile(bl.vmap(f), fullgraph=True)):
        np.testing.assert_array_equal(mapped(x), [example.ravel("C") for example in x])
        assert not np.array_equal(mapped(x), np.stack([f(example) for example in x]))


@pytest.mark.difference("The memory order of the results is not promised.")
def test_results_of_mapped_functions_share_no_memory():
    x = np.arange(24.0).reshape(2, 3, 4)
    for f in (lambda e: e, lambda e: e.T, lambda e: e[1:]):
        for mapped in (bl.vmap(f), bl.compile(bl.vmap(f), fullgraph=True)):
            got = mapped(x)
            np.testing.assert_array_equal(got, np.stack([f(e) for e in x]))
            assert not np.shares_memory(got, x) and np.shares_memory(f(x[0]), x)


@pytest.mark.difference("A draw from a key that all examples share is refused,")
def test_draws_from_a_shared_key():
    key = bl.random.key(3)
    with pytest.raises(TransformError, match="a key that all examples share"):
        bl.vmap(lambda x: x + bl.random.normal(key))(np.zeros(4))
    same = bl.vmap(lambda x: x + bl.random.normal(key), randomness="same")(np.zeros(4))
    assert len(set(same.tolist())) == 1
