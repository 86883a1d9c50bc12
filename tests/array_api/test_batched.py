"""Functions of the namespace under `vmap` give, in kind and bits of shape, what a loop over the examples gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import broadloom as bl
from broadloom.errors import BroadloomError

X = np.array([[[0.5, -1.25, 2.0], [3.5, -0.0, 1.5]], [[1.0, 2, 3], [4, 0.1, -6]], [[0.0, 0, 1], [7, 8, 9.5]]])
SQUARE = np.stack([x @ x.T + np.eye(2) for x in X])


def of(room: Any, names: str, batch: np.ndarray) -> dict[str, tuple[Callable[[Any], Any], np.ndarray]]:
    return {f"{room.__name__.rpartition('.')[2]}.{name}": (getattr(room, name), batch) for name in names.split()}


def batched(**functions: Callable[[Any], Any]) -> dict[str, tuple[Callable[[Any], Any], np.ndarray]]:
    return {name: (f, X) for name, f in functions.items()}


FUNCTIONS = {
    **of(
        bl,
        """
        abs acos acosh asin asinh atan atanh ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan log log10
        log1p log2 logical_not negative positive real reciprocal round sign signbit sin sinh sqrt square tan tanh trunc
        sort argsort argmax argmin max min mean sum prod std var all any count_nonzero flip matrix_transpose tril triu
        zeros_like ones_like diff median ravel nan_to_num cumsum cumprod nansum nanmax ptp transpose fliplr flipud rot90
        angle sinc isreal nanmean nanstd average cov corrcoef diag trapezoid gradient unstack histogram lexsort ediff1d
        diagonal nanmedian nancumsum shape ndim size atleast_3d copy array
        """,
        X,
    ),
    **of(
        bl.linalg,
        """
        cholesky det diagonal eigh eigvalsh inv matrix_norm matrix_rank pinv qr slogdet svd svdvals trace vector_norm
        eig eigvals cond norm
        """,
        SQUARE,
    ),
    **of(bl.fft, "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftshift ifftshift fft2", X),
    "solve": (lambda x: bl.linalg.solve(x, x[0]), SQUARE),
    "matrix_power": (lambda x: bl.linalg.matrix_power(x, 3), SQUARE),
    **batched(
        arange=lambda x: x + bl.arange(3),
        bitwise_xor=lambda x: bl.bitwise_xor(bl.astype(x, bl.int8), 3),
        clip=lambda x: bl.clip(x, 0, 1),
        concat=lambda x: bl.concat([x, x], axis=None),
        cross=lambda x: bl.linalg.cross(x, x[::-1]),
        digitize=lambda x: bl.digitize(x, np.arange(3.0)),
        einsum=lambda x: bl.einsum("ij,kj->ik", x, x),
        eye=lambda x: x @ bl.eye(3),
        full=lambda x: bl.full((2,), 3.0) + x[:, 0],
        interp=lambda x: bl.interp(x, np.arange(3.0), np.arange(3.0) ** 2),
        isin=lambda x: bl.isin(x, bl.asarray([1.0, 2])),
        kron=lambda x: bl.kron(x, x),
        linspace=lambda x: bl.linspace(0, 1, 3) + x,
        lstsq=lambda x: bl.linalg.lstsq(x, x[:, 0])[0],
        meshgrid=lambda x: bl.meshgrid(x[0], x[1]),
        moveaxis=lambda x: bl.moveaxis(x, 0, 1),
        outer=lambda x: bl.outer(x[0], x[1]),
        pad=lambda x: bl.pad(x, 1),
        partition=lambda x: bl.partition(x, 1),
        quantile=lambda x: bl.quantile(x, 0.3, axis=1),
        repeat=lambda x: bl.repeat(x, 2, axis=0),
        roll=lambda x: bl.roll(x, 1),
        searchsorted=lambda x: bl.searchsorted(bl.sort(bl.ravel(x)), x),
        stack=lambda x: bl.stack([x, x]),
        take=lambda x: bl.take(x, bl.asarray([1, 0]), axis=0),
        take_along_axis=lambda x: bl.take_along_axis(x, bl.argsort(x)),
        tile=lambda x: bl.tile(x, (2, 1)),
        topk=lambda x: bl.topk(x, 2),
        where=lambda x: bl.where(x > 0, x, 0),
    ),
}
REFUSED = {
    "argwhere": bl.argwhere,
    "bincount": lambda x: bl.bincount(bl.astype(bl.abs(x[0]), bl.int64), minlength=9),
    "flatnonzero": bl.flatnonzero,
    "repeat": lambda x: bl.repeat(x, bl.asarray(bl.abs(x[:, 0]), dtype=bl.int64), axis=0),
    "unique": bl.unique,
}


def leaves(x: Any) -> list[np.ndarray]:
    return [leaf for part in x for leaf in leaves(part)] if isinstance(x, (tuple, list)) else [np.asarray(x)]


@pytest.mark.parametrize("name", FUNCTIONS)
@np.errstate(all="ignore")
def test_batched(name: str) -> None:
    function, batch = FUNCTIONS[name]
    rows = [leaves(function(bl.asarray(x))) for x in batch]
    expected = [np.stack(column) for column in zip(*rows, strict=True)]
    for given in (batch, np.asfortranarray(batch)):
        result = leaves(bl.vmap(function)(given))
        assert len(result) == len(expected)
        for r, e in zip(result, expected, strict=True):
            assert (r.dtype, r.shape) == (e.dtype, e.shape)
            np.testing.assert_allclose(r, e, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", REFUSED)
def test_sizes_that_depend_on_data_are_refused_by_name(name: str) -> None:
    with pytest.raises(BroadloomError, match=rf"np\.{name}.*remedy"):
        bl.vmap(REFUSED[name])(X)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: bl.expand_dims(x, axis=4),
        lambda x: bl.sum(x, axis=2),
        lambda x: np.swapaxes(x, 0, -3),
        lambda x: x[2],
        lambda x: x[:, -4],
        lambda x: x[0, 0, 0],
        lambda x: x[..., 0, ...],
        lambda x: x[np.array([0.5])],
        lambda x: bl.zeros(2)[np.array([True])],
    ],
)
def test_indices_and_axes_that_do_not_fit_raise_index_errors(f: Callable[[Any], Any]) -> None:
    with pytest.raises(IndexError) as raised:
        f(X[0])
    with pytest.raises(IndexError) as batched_raised:
        bl.vmap(f)(X)
    assert "remedy" in str(batched_raised.value) or any(__file__ in note for note in batched_raised.value.__notes__)
    assert isinstance(batched_raised.value, ValueError) or not isinstance(raised.value, ValueError)
