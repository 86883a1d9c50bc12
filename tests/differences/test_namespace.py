"""The namespace: each statement of docs/differences.md about the array API standard, and NumPy's own answer."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import broadloom as bl

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
