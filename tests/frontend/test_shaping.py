"""Reshape, transpose, views and copies, casts: shapes, strides, shared memory and flags as NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.harness import check, refused

pytestmark = pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")

LAYOUTS = {
    "c": lambda: np.arange(24.0).reshape(2, 3, 4),
    "f": lambda: np.asfortranarray(np.arange(24.0).reshape(2, 3, 4)),
    "t": lambda: np.arange(24.0).reshape(4, 2, 3).transpose(1, 2, 0),
    "strided": lambda: np.arange(96.0).reshape(4, 6, 4)[::2, ::2],
    "columns": lambda: np.arange(48.0).reshape(2, 3, 8)[:, :, ::2],
    "negative": lambda: np.arange(24.0).reshape(2, 3, 4)[::-1, :, ::-1],
    "complex": lambda: np.arange(24).reshape(2, 3, 4) * (1 + 2j),
    "int8": lambda: np.arange(24, dtype=np.int8).reshape(2, 3, 4),
}

EXPRESSIONS = {
    "reshape": lambda np, x: x.reshape(4, 6),
    "reshape-minus-one": lambda np, x: x.reshape(-1),
    "reshape-tuple": lambda np, x: np.reshape(x, (3, -1)),
    "reshape-split": lambda np, x: x.reshape(2, 3, 2, 2),
    "reshape-merge-last": lambda np, x: x.reshape(2, 12),
    "reshape-merge-first": lambda np, x: x.reshape(6, 4),
    "reshape-same": lambda np, x: x.reshape(2, 3, 4),
    "reshape-f": lambda np, x: x.reshape(4, 6, order="F"),
    "reshape-a": lambda np, x: np.reshape(x, (4, 6), order="A"),
    "reshape-copy": lambda np, x: x.reshape(4, 6, copy=True),
    "reshape-ones": lambda np, x: x.reshape(1, 2, 1, 3, 4, 1),
    "ravel": lambda np, x: x.ravel(),
    "ravel-f": lambda np, x: np.ravel(x, "F"),
    "ravel-a": lambda np, x: np.ravel(x, order="A"),
    "flatten": lambda np, x: x.flatten(),
    "flatten-f": lambda np, x: x.flatten("F"),
    "transpose": lambda np, x: (x.T, x.transpose(), np.transpose(x)),
    "transpose-axes": lambda np, x: (x.transpose(1, 0, 2), x.transpose((2, 0, -2)), np.transpose(x, [0, 2, 1])),
    "transpose-none": lambda np, x: x.transpose(None),
    "mT": lambda np, x: (x.mT, np.matrix_transpose(x), np.linalg.matrix_transpose(x)),
    "swapaxes": lambda np, x: (x.swapaxes(0, -1), np.swapaxes(x, 1, 2)),
    "moveaxis": lambda np, x: (np.moveaxis(x, 0, -1), np.moveaxis(x, [0, 1], [-1, 0])),
    "rollaxis": lambda np, x: (np.rollaxis(x, 2), np.rollaxis(x, 0, 3), np.rollaxis(x, 1)),
    "squeeze": lambda np, x: (x[:1].squeeze(), np.squeeze(x[:1, :, :1], 0), np.squeeze(x[:1, :, :1], axis=(0, -1))),
    "squeeze-nothing": lambda np, x: np.squeeze(x),
    "expand_dims": lambda np, x: (np.expand_dims(x, 0), np.expand_dims(x, (1, -1)), np.expand_dims(x, -2)),
    "atleast": lambda np, x: (np.atleast_1d(x), np.atleast_2d(x[0, 0]), np.atleast_3d(x[0]), np.atleast_3d(x[0, 0])),
    "atleast-several": lambda np, x: np.atleast_2d(x, x[0, 0], 3.0),
    "broadcast_to": lambda np, x: (np.broadcast_to(x, (5, 2, 3, 4)), np.broadcast_to(x, (2, 3, 4))),
    "broadcast_arrays": lambda np, x: np.broadcast_arrays(x, x),
    "flip": lambda np, x: (np.flip(x), np.flip(x, 0), np.flip(x, (1, -1)), np.flip(x, ())),
    "fliplr": lambda np, x: (np.fliplr(x), np.flipud(x)),
    "rot90": lambda np, x: (np.rot90(x), np.rot90(x, 2), np.rot90(x, 3), np.rot90(x, -1, (1, 2)), np.rot90(x, 4)),
    "diagonal": lambda np, x: (x.diagonal(), x.diagonal(1), np.diagonal(x, -1, 1, 2), np.diagonal(x, 0, 2, 0)),
    "diagonal-linalg": lambda np, x: np.linalg.diagonal(x, offset=1),
    "diag": lambda np, x: (np.diag(x[0]), np.diag(x[0, 0]), np.diag(x[0, 0], 1), np.diag(x[0], -1)),
    "diagflat": lambda np, x: np.diagflat(x[0, :2, :2]),
    "real-imag": lambda np, x: (x.real, x.imag, np.real(x)),
    "view": lambda np, x: x.view(),
    "view-same": lambda np, x: x.view(x.dtype),
    "astype": lambda np, x: (x.astype(np.float32), x.astype("f8"), x.astype(complex)),
    "astype-no-copy": lambda np, x: (x.astype(x.dtype, copy=False), x.astype(np.complex64, copy=False)),
    "astype-order": lambda np, x: (x.astype("c16", order="F"), x.astype("c16", order="C"), x.astype("c16", order="A")),
    "astype-order-no-copy": lambda np, x: x.astype(x.dtype, order="F", copy=False),
    "np-astype": lambda np, x: np.astype(x, np.complex64),
    "array": lambda np, x: (np.array(x), np.array(x, copy=False), np.array(x, dtype=complex, ndmin=5)),
    "array-order": lambda np, x: (np.array(x, order="F"), np.array(x, order="C"), np.array(x, order="A")),
    "asarray": lambda np, x: (np.asarray(x), np.asanyarray(x), np.asarray(x, dtype=np.complex64)),
    "asarray-order": lambda np, x: (np.asarray(x, order="F"), np.asarray(x, order="C"), np.asarray(x, copy=True)),
    "contiguous": lambda np, x: (np.ascontiguousarray(x), np.asfortranarray(x)),
    "require": lambda np, x: (np.require(x, requirements="C"), np.require(x, requirements=["F"]), np.require(x)),
    "copy": lambda np, x: (x.copy(), np.copy(x), x.copy("F"), x.copy(order="K"), np.copy(x, order="C")),
    "copy-a": lambda np, x: (x.copy("A"), np.copy(x, "A")),
    "zeros_like": lambda np, x: (np.zeros_like(x), np.ones_like(x, dtype="i4"), np.full_like(x, 3, order="C")),
    "zeros_like-shape": lambda np, x: np.zeros_like(x, shape=(3, 2), order="F"),
    "conj": lambda np, x: (x.conj(), x.conjugate(), np.conj(x)),
    "cumsum": lambda np, x: (x.cumsum(), np.cumsum(x, 1), x.cumprod(axis=-1), np.cumsum(x, 0, dtype="c16")),
    "split": lambda np, x: np.split(x, 2, axis=2),
    "split-points": lambda np, x: np.split(x, [1, 2, 7], axis=1),
    "array_split": lambda np, x: np.array_split(x, 3, axis=-1),
    "hvdsplit": lambda np, x: (np.hsplit(x, 3), np.vsplit(x, 2), np.dsplit(x, [1])),
    "unstack": lambda np, x: np.unstack(x, axis=1),
    "concatenate": lambda np, x: (np.concatenate([x, x]), np.concatenate((x, x[:, :1]), axis=1)),
    "concatenate-none": lambda np, x: np.concatenate([x, x[0]], axis=None),
    "concatenate-dtype": lambda np, x: np.concatenate([x, x], dtype="c8", axis=-1),
    "concatenate-array": lambda np, x: np.concatenate(x),
    "stack": lambda np, x: (np.stack([x, x]), np.stack([x, x], axis=-1), np.stack([x, x], 1)),
    "vhdstack": lambda np, x: (np.vstack([x, x]), np.hstack([x, x]), np.dstack([x, x]), np.hstack([x[0, 0], x[0, 1]])),
    "vstack-1d": lambda np, x: (np.vstack([x[0, 0], x[0, 1]]), np.dstack((x[0], x[1])), np.column_stack([x[0], x[1]])),
    "column_stack-1d": lambda np, x: np.column_stack((x[0, 0], x[0, 1])),
    "append": lambda np, x: (np.append(x, [1, 2]), np.append(x, x, 0)),
    "block": lambda np, x: np.block([[x[0], x[0]], [x[1], x[1]]]),
    "repeat": lambda np, x: (np.repeat(x, 2), x.repeat(2, axis=1), np.repeat(x, [0, 1, 2], 1)),
    "tile": lambda np, x: (np.tile(x, 2), np.tile(x, (2, 1, 1, 2)), np.tile(x, (1, 1, 1)), np.tile(x[0, 0], (2, 1))),
    "roll": lambda np, x: (np.roll(x, 1), np.roll(x, -2, 0), np.roll(x, (1, 2), (0, 2)), np.roll(x, 1, (0, 1))),
    "delete": lambda np, x: (np.delete(x, 1, 1), np.delete(x, [0, 2], axis=-1), np.delete(x, slice(0, 3))),
    "insert": lambda np, x: (np.insert(x, 1, 5, axis=1), np.insert(x[0, 0], 2, 7)),
    "resize": lambda np, x: (np.resize(x, (5, 6)), np.resize(x, 7)),
    "tril": lambda np, x: (np.tril(x), np.triu(x, 1), np.tril(x[0, 0], -1)),
    "meshgrid": lambda np, x: np.meshgrid(x[0, 0], x[0, :, 0]),
    "meshgrid-ij": lambda np, x: np.meshgrid(x[0, 0], x[0, :, 0], x[:, 0, 0], indexing="ij"),
    "meshgrid-sparse": lambda np, x: np.meshgrid(x[0, 0], x[0, :, 0], sparse=True),
    "take": lambda np, x: (x.take([0, 2], axis=2), np.take(x, 3), np.take(x, [[1, -1]]), x.take(1, 0)),
    "take-modes": lambda np, x: (np.take(x, [25, -30], mode="wrap"), np.take(x, [5, -1], axis=2, mode="clip")),
    "shape": lambda np, x: (x.shape, x.ndim, x.size, x.itemsize, x.nbytes, np.shape(x), np.size(x, 1), np.ndim(x)),
    "dtype": lambda np, x: (x.dtype, np.result_type(x, 1.0), np.can_cast(x.dtype, "f4"), np.iscomplexobj(x)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expression(name: str, layout: str) -> None:
    x = LAYOUTS[layout]()
    f = EXPRESSIONS[name]
    try:
        with np.errstate(all="ignore"):
            f(np, x)
    except (ValueError, TypeError):
        refused(f, x)
        return
    if name == "rotated" or (name == "meshgrid-sparse"):
        check(f, x, strides=False)
    else:
        check(f, x)


WRITES = {
    "slice": lambda np, x: x[1:].__setitem__(Ellipsis, 7),
    "transpose": lambda np, x: x.T.__setitem__((slice(None), 0), 7),
    "reshape": lambda np, x: x.reshape(-1).__setitem__(slice(0, 5), 7),
    "ravel": lambda np, x: x.ravel().__setitem__(0, 7),
    "swapaxes": lambda np, x: x.swapaxes(0, 1).__setitem__(1, 7),
    "flip": lambda np, x: np.flip(x, 0).__setitem__(0, 7),
    "squeeze": lambda np, x: x[:1].squeeze().__setitem__(0, 7),
    "real": lambda np, x: x.real.__setitem__((0, 0), 7),
    "imag": lambda np, x: x.imag.__setitem__((0, slice(1)), 7),
    "view": lambda np, x: x.view().__setitem__(0, 7),
    "split": lambda np, x: np.split(x, 2, axis=2)[1].__setitem__(Ellipsis, 7),
    "astype": lambda np, x: x.astype(x.dtype, copy=False).__setitem__(0, 7),
    "fill": lambda np, x: x[0].fill(3),
    "diag": lambda np, x: np.fill_diagonal(x[0, :3, :3], 5),
    "copyto": lambda np, x: np.copyto(x[0], x[1]),
    "copyto-where": lambda np, x: np.copyto(x, 5, where=x > 3),
    "putmask": lambda np, x: np.putmask(x, x > 3, 2),
    "meshgrid": lambda np, x: np.meshgrid(x[0, 0], x[0, 1])[0].__setitem__(0, 7),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", WRITES)
def test_write_through_views(name: str, layout: str) -> None:
    x = LAYOUTS[layout]()

    def f(np, x):
        y = x + 0
        before = y * 2
        WRITES[name](np, y)
        WRITES[name](np, x)
        return before, y, x * 2

    try:
        f(np, x.copy("K"))
    except ValueError:
        refused(f, x)
        return
    check(f, x)


def test_view_of_another_dtype() -> None:
    x = np.arange(8, dtype=np.int64).reshape(2, 4)
    check(lambda np, x: (x.view(np.int32), x.view("u1"), x.view(np.float64)), x)
    check(lambda np, x: (x.view(np.int64), x.view(np.complex64)), np.arange(12, dtype=np.int32).reshape(2, 6))
    check(lambda np, x: x[:, :2].view(np.int32), x)
    check(lambda np, x: x.T.view(np.float64), x)
    refused(lambda np, x: x.T.view(np.int32), x)
    refused(lambda np, x: x.view(np.int64), np.arange(9, dtype=np.int32).reshape(3, 3))
    check(lambda np, x: x.view(np.int64), np.array(1.5))
    check(lambda np, x: x[0].view(np.int64), np.array([1.5]))


def test_read_before_later_write_through_a_dtype_view() -> None:
    def f(np, x):
        y = x.view(np.int32) * 3
        x[1:3] = 7
        return y, x

    check(f, np.arange(4))


def test_writing_into_a_concatenation_leaves_the_parts_alone() -> None:
    def f(np, u, w):
        c = np.concatenate([u, w])
        c[[0, 3]] = 9
        return c, u * 2, w * 2

    check(f, np.array([1.0, 2.0]), np.array([3.0, 4.0]))


def test_zero_d_and_numpy_scalars() -> None:
    x, s = np.array(2.5), np.array([2.5, 1.0])
    check(lambda np, x: (x.T, x.reshape(1), x.reshape(()), x.ravel(), x.flatten(), x.copy(), np.copy(x), x[...]), x)
    check(lambda np, x: (x[()], x[None], x.squeeze(), np.squeeze(x), np.transpose(x), x.astype("f4"), x.real), x)
    check(lambda np, s: (s[0].T, s[0].reshape(1), s[0].reshape(()), s[0].ravel(), s[0].copy(), np.copy(s[0])), s)
    check(lambda np, s: (s[0][...], s[0][()], s[0][None], s[0].squeeze(), np.squeeze(s[0]), np.transpose(s[0])), s)
    check(lambda np, s: (s[0].astype("f4"), s[0].real, s[0].imag, s[0].round(), s[0].sum(), s[0].clip(0, 1)), s)
    check(lambda np, s: (np.asarray(s[0]), np.array(s[0]), np.atleast_1d(s[0]), np.broadcast_to(s[0], (2,))), s)
    check(lambda np, s: (np.isscalar(s[0]), np.isscalar(s), s[0].shape, s[0].dtype, s[0].ndim), s)
    check(lambda np, s: np.array([s[0], 1, s[1]]), s)
    check(lambda np, s: np.array([[s[0], 2.0], [3, s[1]]]), s.astype("f4"))
    check(lambda np, s: np.stack([s[0], s[1]]), s)
    refused(lambda np, s: s[0].__setitem__((), 3), s)


def test_refused_by_numpy_too() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    for f in (
        lambda np, x: x.reshape(5, 5),
        lambda np, x: x.reshape(-1, 5),
        lambda np, x: x.reshape(-1, -1),
        lambda np, x: x.transpose(0, 0, 1),
        lambda np, x: x.transpose(0, 1),
        lambda np, x: np.squeeze(x, 0),
        lambda np, x: x.swapaxes(0, 3),
        lambda np, x: np.moveaxis(x, [0, 0], [1, 2]),
        lambda np, x: np.broadcast_to(x, (2, 3, 5)),
        lambda np, x: np.concatenate([x, x[0]]),
        lambda np, x: np.concatenate([x, x[:, :1]], axis=2),
        lambda np, x: np.stack([x, x[0]]),
        lambda np, x: np.split(x, 2, axis=1),
        lambda np, x: x.astype("i4", casting="safe"),
        lambda np, x: np.expand_dims(x, (0, 0)),
        lambda np, x: x.sum(3),
    ):
        with pytest.raises((ValueError, TypeError)):
            f(np, x)
        refused(f, x)
