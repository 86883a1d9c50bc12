"""Arithmetic on what a mask selects, and elements and views at indices known only at run time."""

from __future__ import annotations

import numpy as np
import pytest

import broadloom as bl

X = np.linspace(-3.0, 4.0, 35).reshape(5, 7)
Y = np.cos(X * 5)


def test_write_back_through_the_same_mask(check):
    def f(x, y):
        m = x > y
        x[m] = -x[m]
        x[m] *= y[m]
        x[~m] = np.sqrt(abs(y[~m])) + 1
        x[y > 0.5] = y[y > 0.5] / x[y > 0.5]
        x[m[:, 2]] = y[m[:, 2]] - x[m[:, 2]]
        y[m] = np.where(x[m] < 0, 0, x[m])

    check(f, X, Y)


def test_reductions_of_arithmetic(check):
    def f(x, y):
        m = x > 1
        same = x[m] == y[m]
        return np.sum(x[m] ** 2), same.any(), np.count_nonzero(x[m] > 2)

    whole, part = np.round(X), np.round(Y)
    check(f, whole, part)
    check(f, whole - 9, part)


def test_masks_beside_integers_and_slices(check):
    def f(x, y, t):
        row = x[:, 0] < y[:, 0]
        x[row, 1] = y[row, 2] + x[row, 3]
        x[row, 2:5] *= y[row, 1:4]
        x[row, ::2] = np.arange(4.0)
        x[1, x[1] > 0] = 4
        x[3, row[:1].repeat(7)] -= 1
        k = t[0, :, 0] > 6
        t[1, k, 2] *= 2
        t[-1, k] = -t[0, k]
        t[k[:3], 1, :] = 7
        t[1, k, None, ::2] += 1
        return x[row, 1].any(), np.count_nonzero(t[0, k, 1] - t[2, k, 3])

    check(f, X, Y, np.arange(60.0).reshape(3, 4, 5))


def test_how_many_elements_a_mask_selects(check):
    def f(x, y):
        m = x > y
        total = x[m].sum() / len(x[m])
        y[m] /= x[m].size
        rows = x[m[:, 0]]
        return total, (y * rows.size).sum(), rows.sum() + len(rows), x[m].size

    check(f, np.round(X), np.round(Y))


def test_unselected_integers_raise_nothing(check):
    def f(x):
        m = x > 0
        x[m] //= x[m]
        x[m] **= x[m]
        y = np.zeros(x.shape, x.dtype)
        y[m] = 100 // x[m]
        y[~m] = 2 ** -x[~m]
        return y

    check(f, np.arange(-5, 10))


def test_selected_negative_exponents_raise():
    f = bl.compile(lambda x: (2 ** x[x < 3]).sum(), fullgraph=True)
    assert f(np.arange(7)) == 7
    with pytest.raises(ValueError, match="Integers to negative integer powers"):
        f(np.arange(-1, 6))


def test_different_masks_do_not_combine():
    def f(x, m):
        t = x[m]
        m[0] = not_first
        x[m] = t

    not_first = np.array([False, True, True, False])
    x, m = np.arange(8.0).reshape(2, 4), np.array([[True, True, False, False], [True] * 4])
    with pytest.warns(UserWarning, match="another mask"):
        bl.compile(f)(x, m)
    assert x.tolist() == [[0, 0, 1, 3], [4, 5, 6, 7]]
    with pytest.raises(bl.errors.GraphBreakError, match="another mask"):
        bl.compile(f, fullgraph=True)(x, m)


def test_elements_at_computed_indices(check):
    def f(x, y, v):
        x[np.argmax(v), 2] = 7
        x[2, v.argmin()] += 3
        v[np.argmax(v)] *= -1
        k = np.argmin(v)
        v[k] = v[k] + v[-1]
        i, j = np.argmax(x[:, 0]), np.argmin(y[0])
        return x[i, j], y[-1, j], v[v.argmin() - 1], x[v[:2].astype(int)[0], 1]

    check(f, X, Y, np.array([2.0, -4.0, 0.5, 3.0]))


def test_computed_indices_out_of_range():
    def f(x, v):
        x[0] = 5
        return x[v.sum()]

    compiled = bl.compile(f, fullgraph=True)
    x = np.arange(4)
    assert compiled(x, np.array([1, -2])) == 3
    for v in (np.array([4]), np.array([-5, 0])):
        for g in (f, compiled):
            with pytest.raises(IndexError, match=f"index {v.sum()} is out of bounds for axis 0 with size 4"):
                g(x, v)


def test_views_at_computed_indices(check):
    def f(x, y, k):
        pivot = np.argmax(abs(x[:, 0]))
        kept = x[0].copy()
        x[0] = x[pivot]
        x[pivot] = kept
        row = y[k[0]]
        y += 1
        row[1:] *= x[k[1], 1:]
        y[0, k[2]] = 0
        for i in k:
            x[i] += y[i]
            x[:, i] -= x[:, i].reshape(5).max()
        block = x[k[0], :6].reshape(2, 3)
        block[:, 1] = 8
        return row.sum(), row * 2, block + 1

    check(f, np.round(X * 4), np.round(Y * 4), np.array([1, -1, 2]))
    check(f, np.asfortranarray(np.round(X)), np.round(Y)[::-1], np.array([4, 0, -3]))


def test_unused_view_at_an_index_out_of_range_raises():
    def f(x, k):
        x[k[0]]
        return x * 2

    compiled = bl.compile(f, fullgraph=True)
    assert compiled(X, np.array([-5])).shape == X.shape
    with pytest.raises(IndexError, match="index -6 is out of bounds for axis 0 with size 5"):
        compiled(X, np.array([-6]))


def test_view_at_a_computed_index_is_no_result():
    def f(x, k):
        return x[k[0]][1:]

    with pytest.warns(UserWarning, match="a view at an index known only at run time"):
        assert np.shares_memory(bl.compile(f)(X, np.array([2])), X)
