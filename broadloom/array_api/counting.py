"""Functions of this package's own that sort or count: `topk`, and `bincount` with a length.

What goes in: tensors or arrays. What comes out: tensors. What holds: the sizes of the results follow from the
arguments' shapes and numbers, so both run batched and compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from broadloom.frontend import histograms, sorting
from broadloom.tensor.dispatch import call


def topk(x: Any, k: int, *, axis: int = -1, largest: bool = True) -> Any:
    """The `k` largest elements along an axis, or the smallest, in order: a named tuple of `values` and `indices`.

    Of equal elements the one of lower index comes first. The order is that of `sort`: nan counts as larger than all
    numbers, so the largest begin with the nans and the smallest end with them; complex numbers are compared by real
    part, then by imaginary part. Raises where the axis has fewer than `k` elements.

    >>> topk(np.array([3.0, 1.0, 4.0, 1.0]), 2)
    TopK(values=Tensor([4., 3.]), indices=Tensor([2, 0]))
    >>> topk(np.array([3.0, 1.0, 4.0, 1.0]), 2, largest=False).indices
    Tensor([1, 3])
    """
    return call(sorting.topk, x, k, axis=axis, largest=largest)


def bincount(x: Any, /, weights: Any = None, minlength: Any = 0, *, length: Any = None) -> Any:
    """How often each number from 0 on stands among the elements, or the sum of their weights.

    How long the result is, only the data can tell; a batched or compiled function needs `length`, the number of bins.
    With it a number that has no bin raises `IndexError`.

    >>> bincount(np.array([1, 1, 3]))
    Tensor([0, 2, 0, 1])
    >>> bincount(np.array([1, 1, 3]), length=6)
    Tensor([0, 2, 0, 1, 0, 0])
    """
    if length is None:
        return call(np.bincount, x, weights=weights, minlength=minlength)
    return call(histograms.bincount, x, weights, minlength, length=length)
