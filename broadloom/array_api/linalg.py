"""Linear algebra of the array API standard, the `linalg` extension included, and what NumPy's `linalg` has beyond it.

What goes in: tensors whose last two axes are matrices, or whose last is vectors; the axes before them broadcast. What
comes out: tensors, or named tuples of them. A matrix that a function cannot take raises `numpy.linalg.LinAlgError`.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from broadloom.frontend import decompositions
from broadloom.tensor.dispatch import call

LinAlgError = np.linalg.LinAlgError


def matmul(x1: Any, x2: Any, /) -> Any:
    """The matrix product; a vector counts as a row on the left, a column on the right."""
    return call(np.matmul, x1, x2)


def matrix_transpose(x: Any, /) -> Any:
    """A view with the last two axes exchanged."""
    return call(np.matrix_transpose, x)


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    """The sum of products over so many last axes of `x1` and first of `x2`, or over two lists of axes."""
    return call(np.tensordot, x1, x2, axes=axes)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The sum of products along an axis, of the conjugate of `x1`."""
    return call(np.vecdot, x1, x2, axis=axis)


def cholesky(x: Any, /, *, upper: bool = False) -> Any:
    """The lower (or upper) triangular factor of a positive definite Hermitian matrix."""
    return call(np.linalg.cholesky, x, upper=upper)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The cross product of vectors of three elements."""
    return call(np.linalg.cross, x1, x2, axis=axis)


def det(x: Any, /) -> Any:
    """The determinant."""
    return call(np.linalg.det, x)


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """The diagonal that is `offset` places above the main one."""
    return call(np.linalg.diagonal, x, offset=offset)


def eigh(x: Any, /) -> Any:
    """The eigenvalues, in rising order, and eigenvectors of a Hermitian matrix."""
    return call(np.linalg.eigh, x)


def eigvalsh(x: Any, /) -> Any:
    """The eigenvalues of a Hermitian matrix, in rising order."""
    return call(np.linalg.eigvalsh, x)


def inv(x: Any, /) -> Any:
    """The inverse."""
    return call(np.linalg.inv, x)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """A norm of matrices: "fro", "nuc", or 1, 2, inf and their negatives."""
    return call(np.linalg.matrix_norm, x, keepdims=keepdims, ord=ord)


def matrix_power(x: Any, n: int, /) -> Any:
    """A matrix multiplied by itself; its inverse for negative `n`."""
    return call(np.linalg.matrix_power, x, n)


def matrix_rank(x: Any, /, *, rtol: Any = None) -> Any:
    """How many singular values are greater than `rtol` times the greatest."""
    return call(np.linalg.matrix_rank, x, rtol=rtol)


def outer(x1: Any, x2: Any, /) -> Any:
    """The products of all pairs of elements of two vectors."""
    return call(np.linalg.outer, x1, x2)


def pinv(x: Any, /, *, rtol: Any = None) -> Any:
    """The pseudo-inverse; singular values below `rtol` times the greatest count as zero."""
    return call(np.linalg.pinv, x, rtol=rtol)


def qr(x: Any, /, *, mode: Literal["reduced", "complete"] = "reduced") -> Any:
    """An orthonormal and an upper triangular factor."""
    return call(np.linalg.qr, x, mode=mode)


def slogdet(x: Any, /) -> Any:
    """The sign of the determinant and the logarithm of its size."""
    return call(np.linalg.slogdet, x)


def solve(x1: Any, x2: Any, /) -> Any:
    """The solution of `x1 @ x == x2`; an `x2` of one axis is a vector."""
    return call(np.linalg.solve, x1, x2)


def svd(x: Any, /, *, full_matrices: bool = True) -> Any:
    """The factors U, S and Vh; the singular values S in falling order."""
    return call(np.linalg.svd, x, full_matrices=full_matrices)


def svdvals(x: Any, /) -> Any:
    """The singular values, in falling order."""
    return call(np.linalg.svdvals, x)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sum along a diagonal; of small integers in 64 bits."""
    return call(np.linalg.trace, x, offset=offset, dtype=dtype)


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """A norm of vectors along the axes, all of them by default."""
    return call(np.linalg.vector_norm, x, axis=axis, keepdims=keepdims, ord=ord)


# ---- NumPy's own -----------------------------------------------------------------------------------------------------


def cond(x: Any, p: Any = None) -> Any:
    """The condition number in a norm, by default the ratio of the greatest to the least singular value."""
    return call(np.linalg.cond, x, p)


def eig(a: Any) -> Any:
    """The eigenvalues and right eigenvectors, always complex; NumPy's are real where no eigenvalue is complex."""
    return call(decompositions.eig, a)


def eigvals(a: Any) -> Any:
    """The eigenvalues, always complex; NumPy's are real where none is complex."""
    return call(decompositions.eigvals, a)


def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """The solution of least squares, its residuals, the rank, and the singular values."""
    return call(np.linalg.lstsq, a, b, rcond)


def multi_dot(arrays: Any) -> Any:
    """The matrix product of several arrays, in the cheapest order."""
    return call(np.linalg.multi_dot, arrays)


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """A norm of vectors or of matrices."""
    return call(np.linalg.norm, x, ord, axis, keepdims)


def tensorinv(a: Any, ind: int = 2) -> Any:
    """The inverse with respect to `tensordot` over the first `ind` axes."""
    return call(np.linalg.tensorinv, a, ind)


def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    """The solution of `tensordot(a, x, x.ndim) == b`."""
    return call(np.linalg.tensorsolve, a, b, axes)
