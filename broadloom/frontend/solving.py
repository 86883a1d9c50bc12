"""numpy.linalg's solve, inverse, determinants, Cholesky factor and powers.

What goes in: the arguments of the NumPy function. What comes out: fresh arrays of NumPy's dtype - integers are solved
in float64, float32 stays - and NumPy scalars for determinants of one matrix.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from broadloom import dtypes
from broadloom.frontend import shapes
from broadloom.frontend.gufuncs import np_matmul
from broadloom.frontend.operands import as_array, call, cast, result_dtype
from broadloom.frontend.shaping import np_transpose
from broadloom.frontend.ufuncs import conjugate_method, deliver, scalar
from broadloom.frontend.unsupported import Unsupported, plain_numpy_raises
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle

SLOGDET: Any = type(np.linalg.slogdet(np.eye(1)))


def linalg_operand(r: Recorder, a: object) -> ArrayHandle:
    """A matrix in the dtype of the result. numpy.linalg refuses float16, and takes bfloat16 as no float of its own."""
    x = as_array(r, a)
    if x.dtype is dtypes.float16:
        raise plain_numpy_raises("array type float16 is unsupported in linalg")
    return x if x.dtype.is_inexact and x.dtype is not dtypes.bfloat16 else cast(r, x, dtypes.float64)


def matrices(r: Recorder, a: object) -> ArrayHandle:
    """A matrix or a stack of them."""
    x = linalg_operand(r, a)
    if x.ndim < 2:
        raise plain_numpy_raises(f"{x.ndim}-dimensional array given. Array must be at least two-dimensional")
    return x


def square(r: Recorder, a: object) -> ArrayHandle:
    """A square matrix or a stack of them."""
    x = matrices(r, a)
    if not shapes.same(r, x.shape[-1], x.shape[-2]):
        raise plain_numpy_raises("last 2 dimensions of the array must be square")
    return x


def transposed(r: Recorder, x: ArrayHandle) -> ArrayHandle:
    """The view with the last two axes interchanged."""
    return shapes.permute(r, x, [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])


def np_solve(r: Recorder, a: object, b: object) -> ArrayHandle:
    """`numpy.linalg.solve`; a 1-d b is a vector, otherwise the last two axes are matrices."""
    x, y = square(r, a), linalg_operand(r, b)
    d = result_dtype(r, x.dtype.numpy, y.dtype.numpy)
    x, y = cast(r, x, d), cast(r, y, d)
    if y.ndim == 0:
        raise plain_numpy_raises("b has no dimension to solve for")
    if y.ndim == 1:
        column = shapes.insert_axes(r, y, 1)
        solved = call(r, "solve", x, column)
        return shapes.drop_axes(r, solved, [-1])
    return call(r, "solve", x, y)


def np_inv(r: Recorder, a: object) -> ArrayHandle:
    """`numpy.linalg.inv`."""
    return call(r, "inv", square(r, a))


def np_det(r: Recorder, a: object) -> ArrayHandle:
    """`numpy.linalg.det`."""
    return deliver(r, call(r, "det", square(r, a)), None)


def np_slogdet(r: Recorder, a: object) -> Any:
    """`numpy.linalg.slogdet`."""
    sign, logs = r.op("slogdet", square(r, a))
    return SLOGDET(scalar(r, sign), scalar(r, logs))


def np_cholesky(r: Recorder, a: object, /, *, upper: bool = False) -> ArrayHandle:
    """`numpy.linalg.cholesky`; the upper factor is that of the upper triangle."""
    x = square(r, a)
    if not upper:
        return call(r, "cholesky", x)
    lower = call(r, "cholesky", conjugate_method(r, transposed(r, x)))
    return r.copy(transposed(r, conjugate_method(r, lower)), "C")


def np_matrix_power(r: Recorder, a: object, n: object) -> ArrayHandle:
    """`numpy.linalg.matrix_power` for a constant power, by NumPy's own order of products."""
    x = as_array(r, a)
    if x.ndim < 2 or not shapes.same(r, x.shape[-1], x.shape[-2]):
        raise plain_numpy_raises("last 2 dimensions of the array must be square")
    try:
        power = operator.index(n)  # type: ignore[arg-type]
    except TypeError as error:
        raise Unsupported("matrix_power with a power that is not constant", "give a constant int") from error
    if power == 0:
        result = r.copy(x)
        eye = call(r, "eye", rows=x.shape[-1], cols=x.shape[-1], offset=0, dtype=x.dtype)
        r.write(result, shapes.expand(r, eye, x.shape))
        return result
    if power < 0:
        x, power = np_inv(r, x), -power
    if power in (1, 2, 3):
        made = x
        for _ in range(power - 1):
            made = np_matmul(r, made, x)
        return made
    made, factor = _squarings(r, x, power)
    return made if factor is None else np_matmul(r, made, factor)


def _squarings(r: Recorder, x: ArrayHandle, power: int) -> tuple[ArrayHandle, ArrayHandle | None]:
    """The product of the squares that the bits of the power ask for, all but the last one, and that."""
    found: ArrayHandle | None = None
    factor = x
    while True:
        power, bit = divmod(power, 2)
        if not power:
            return (factor, None) if found is None else (found, factor)
        if bit:
            found = factor if found is None else np_matmul(r, found, factor)
        factor = np_matmul(r, factor, factor)


def np_tensorinv(r: Recorder, a: object, ind: int = 2) -> ArrayHandle:
    """`numpy.linalg.tensorinv`."""
    x = as_array(r, a)
    if ind <= 0:
        raise plain_numpy_raises("Invalid ind argument.")
    columns = shapes.count(x.shape[ind:])
    rows = shapes.count(x.shape[:ind])
    if not shapes.same(r, rows, columns):
        raise plain_numpy_raises("last 2 dimensions of the array must be square")
    inverse = np_inv(r, shapes.reshape(r, x, (columns, columns)))
    return shapes.reshape(r, inverse, (*x.shape[ind:], *x.shape[:ind]))


def np_tensorsolve(r: Recorder, a: object, b: object, axes: Sequence[int] | None = None) -> ArrayHandle:
    """`numpy.linalg.tensorsolve`."""
    x, y = as_array(r, a), as_array(r, b)
    if axes is not None:
        order = list(range(x.ndim))
        for k in axes:
            order.remove(k)
            order.insert(x.ndim, k)
        x = np_transpose(r, x, order)
    shape = x.shape[y.ndim :] if x.ndim != y.ndim else x.shape
    n = shapes.count(shape)
    if not shapes.same(r, shapes.count(x.shape), n * n):
        raise plain_numpy_raises(
            "Input arrays must satisfy the requirement prod(a.shape[b.ndim:]) == prod(a.shape[:b.ndim])"
        )
    flat = shapes.reshape(r, y, (shapes.count(y.shape),))
    return shapes.reshape(r, np_solve(r, shapes.reshape(r, x, (n, n)), flat), shape)
