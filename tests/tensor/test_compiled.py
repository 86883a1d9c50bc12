"""Tensors as arguments and results of compiled functions."""

import sys

import numpy as np
import pytest

import broadloom as bl
from broadloom.tensor.dispatch import Tensor

A = np.arange(6.0).reshape(2, 3)


@pytest.fixture
def t():
    return bl.asarray(A.copy())


def compiled(fn, **kwargs):
    return bl.compile(fn, fullgraph=True, **kwargs)


def test_results_are_tensors_in_the_places_of_the_result(t):
    f = compiled(lambda t: (t + 1, [t * 2, t.sum()], t))
    for _ in range(3):
        plus, (twice, total), same = f(t)
        assert all(type(x) is Tensor for x in (plus, twice, total)) and same is t
        assert total.shape == () and total.dtype == np.float64
        np.testing.assert_array_equal(plus.numpy(), A + 1)
        np.testing.assert_array_equal(twice.numpy(), A * 2)
    assert sys.getrefcount(plus) == 2
    assert len(f.report().compiles) == 1


def test_one_tensor_at_two_places_is_one_object(t):
    def f(t):
        y = t + 1
        return y, y

    a, b = compiled(f)(t)
    assert a is b


def test_a_write_reaches_the_tensor_and_is_counted(t):
    def f(t):
        t[0] = 7
        return t[1]

    before = t.version
    row = compiled(f)(t)
    assert t.tolist() == [[7.0] * 3, [3.0, 4.0, 5.0]] and t.version == before + 1
    row += 1
    assert t.tolist()[1] == [4.0, 5.0, 6.0]
    assert t.version == row.version == before + 2


def test_tensors_and_arrays_stay_apart(t):
    x, y = compiled(lambda t, a: (t * a, a * 2))(t, A)
    assert type(x) is Tensor and type(y) is np.ndarray


def test_arrays_in_arrays_out():
    assert type(compiled(lambda a: bl.sin(a))(A)) is np.ndarray


def test_another_class_of_argument_is_another_specialisation(t):
    f = compiled(lambda x: np.cos(x) + x.mT.sum())
    assert type(f(t)) is Tensor and type(f(A)) is np.ndarray and type(f(t)) is Tensor
    assert len(f.report().compiles) == 2


def test_sizes_become_symbolic():
    f = compiled(lambda t: bl.concat([t, t + 1]).sum(axis=0), dynamic=True)
    for n in (1, 2, 5):
        got = f(bl.ones((n, 3)))
        assert type(got) is Tensor and got.tolist() == [3.0 * n] * 3
    assert len(f.report().compiles) == 1


def test_methods_of_a_tensor(t):
    def f(t):
        xp = t.__array_namespace__()
        return xp.asarray(t.numpy().sum() + t.to_device("cpu").max()), t.device, isinstance(t, bl.Tensor)

    value, device, known = compiled(f)(t)
    assert float(value) == 20.0 and device == "cpu" and known is True
