"""Contractions over axes of one element that other systems refused or got wrong."""

from __future__ import annotations

import numpy as np


def test_einsum_broadcasts_axes_of_one_element(check):
    check(lambda a, b: np.einsum("ij,ij->ij", a, b), np.ones((3, 2)), np.array([[0, 1]]), want=np.array([[0.0, 1]] * 3))
    check(lambda: np.einsum("ij,ij->ij", np.ones((3, 2)), np.array([[0, 1]])), want=np.array([[0.0, 1]] * 3))
    a, b = np.arange(6.0).reshape(1, 2, 3), np.arange(24.0).reshape(4, 3, 2)
    check(lambda a, b: np.einsum("bij,bjk->bik", a, b), a, b, want=a @ b)
    check(lambda a, b: np.einsum("bij,bjk->bik", a, b), a.astype(int), b.astype(int), want=(a @ b).astype(int))
    assert (a @ b).shape == (4, 2, 2)
