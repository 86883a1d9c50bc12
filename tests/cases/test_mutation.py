"""Views, writes and aliases: what is read before a write keeps its value, what is written is seen."""

from __future__ import annotations

import numpy as np
import pytest


def test_read_through_another_dtype_before_a_write(check):
    def f(x):
        y = x.view(np.int32) * 3
        x[1:3] = 7
        return y, x

    want = (np.array([0, 0, 3, 0, 6, 0, 9, 0], np.int32), np.array([0, 7, 7, 3]))
    check(f, np.arange(4), want=want)
    check(lambda: f(np.arange(4)), want=want)


def test_write_through_another_dtype(check):
    def f(x):
        before = x + 0
        x.view(np.uint8)[::8] = 255
        return before, x * 1

    check(f, np.arange(4))


@pytest.mark.parametrize("n", [1, 2, 6, 1000])
def test_reversed_into_itself(check, n):
    def f(a):
        a[:] = a[::-1]
        return a

    check(f, np.arange(n), want=np.arange(n)[::-1].copy())
    check(lambda: f(np.arange(n)), want=np.arange(n)[::-1].copy())


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_transposed_into_itself(check, n):
    def f(a):
        a[:] = a.T
        return a

    a = np.arange(n * n).reshape(n, n)
    check(f, a, want=a.T.copy())


@pytest.mark.parametrize("shift", [1, 3])
def test_shifted_into_itself(check, shift):
    def f(a):
        a[shift:] = a[:-shift]
        a[:-shift] += a[shift:]
        return a

    check(f, np.arange(100))


def test_update_at_equal_indices_counts_once(check):
    def f(x):
        x[[0, 0]] += x[[0, 0]]
        return x

    check(f, np.array([5.0, 7.0]), want=np.array([10.0, 7.0]))
    check(lambda: f(np.array([5.0, 7.0])), want=np.array([10.0, 7.0]))


def test_ufunc_at_counts_every_index(check):
    def f(x, i):
        np.add.at(x, i, 1.0)
        return x

    check(f, np.zeros(4), np.array([0, 0, 3, 0]), want=np.array([3.0, 0.0, 0.0, 1.0]))


def test_writing_into_a_concatenation_leaves_the_parts_alone(check):
    def f(u, w):
        c = np.concatenate([u, w])
        c[[0, 3]] = 9
        return c, u * 2, w * 2

    want = (np.array([9.0, 2.0, 3.0, 9.0]), np.array([2.0, 4.0]), np.array([6.0, 8.0]))
    check(f, np.array([1.0, 2.0]), np.array([3.0, 4.0]), want=want)
    check(lambda: f(np.array([1.0, 2.0]), np.array([3.0, 4.0])), want=want)


def test_parts_made_in_the_concatenation_keep_their_values(check):
    def f(u):
        a, b = np.exp(u), np.sin(u)
        c = np.concatenate([a, b])
        c[1:3] = 0
        return c, a, b + a

    check(f, np.array([0.5, 1.0, 2.0]))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("n", [4, 65])
def test_products_made_in_the_concatenation_lie_side_by_side(check, axis, n):
    """Small products are loops, large ones and those of symbolic sizes calls of BLAS."""

    def f(x, y, z):
        return np.concatenate([z, x @ y, (x + 1) @ y], axis=axis)

    x, y = np.arange(24.0 * n).reshape(n, 24) % 5 - 1, np.arange(24.0 * 32).reshape(24, 32) % 7 + 1
    check(f, x, y, np.ones((n, 32)))


def test_argmax_after_a_sine_in_place_and_a_transpose(check):
    m = np.array([[0.2, 1.5, 3, -1], [2, 0.9, -0.4, 1.2], [1.7, -2, 0.1, 0.6]])

    def f(m):
        s = m.copy()
        np.sin(s, out=s)
        return s.T.argmax(), s.argmax()

    check(f, m, want=(np.int64(3), np.int64(1)))


def test_dependent_loops_are_not_merged(ways):
    def f(n):
        k = np.arange(n) ** 2
        return k[1:] - k[:-1]

    for compiled in ways(f, options={"num_threads": 4}):
        for _ in range(100):
            np.testing.assert_array_equal(compiled(6), [1, 3, 5, 7, 9])
        np.testing.assert_array_equal(compiled(300_000), f(300_000))


def test_axis_as_a_positional_argument(check):
    x = np.arange(6).reshape(2, 3)
    check(lambda x: x.sum(0), x, want=np.array([3, 5, 7]))
    check(lambda x: np.sum(x, 0), x, want=np.array([3, 5, 7]))
    check(lambda x: (x.max(1), x.cumsum(0), x.argmin(1), np.mean(x, 0)), x)
