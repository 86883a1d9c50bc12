"""Matrix decompositions on the last two axes: QR, singular values, eigenvalues.

Dtypes, precision and errors are those of numpy.linalg, whose functions are the references: float32 and complex64 are
computed in double precision and rounded. `eig` and `eigvals` are always complex; NumPy makes them real where the data
allow it, which no type can say beforehand. Eigenvalues of Hermitian matrices ascend, singular values descend.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from broadloom.ops.linalg import SWITCH, always, linalg, matrix
from broadloom.ops.record import Sample
from broadloom.ops.rules import Array

MODES = ("reduced", "complete")
TRIANGLES = ("L", "U")


def _qr(a: Array, mode: str) -> tuple[Array, Array]:
    return tuple(np.linalg.qr(a, mode=mode))  # type: ignore[call-overload]


def _qr_raw(a: Array) -> tuple[Array, Array]:
    h, tau = np.linalg.qr(a, mode="raw")
    return np.swapaxes(h, -1, -2), tau


def _svd(a: Array, full_matrices: bool) -> tuple[Array, ...]:
    return tuple(np.linalg.svd(a, full_matrices=full_matrices))


def _eigh(a: Array, uplo: Literal["L", "U"]) -> tuple[Array, ...]:
    return tuple(np.linalg.eigh(a, uplo))


def _eigvalsh(a: Array, uplo: Literal["L", "U"]) -> Array:
    return np.linalg.eigvalsh(a, uplo)


def _eig(a: Array) -> tuple[Array, Array]:
    w, v = np.linalg.eig(a)
    kind = np.result_type(a.dtype, np.complex64)
    return w.astype(kind), v.astype(kind)


def _eigvals(a: Array) -> Array:
    return np.linalg.eigvals(a).astype(np.result_type(a.dtype, np.complex64))


def _qr_signature(attrs: Mapping[str, Any]) -> str:
    return "(m,n)->(m,min(m,n)),(min(m,n),n)" if attrs["mode"] == "reduced" else "(m,n)->(m,m),(m,n)"


def _svd_signature(attrs: Mapping[str, Any]) -> str:
    if attrs["full_matrices"]:
        return "(m,n)->(m,m),(min(m,n)),(n,n)"
    return "(m,n)->(m,min(m,n)),(min(m,n)),(min(m,n),n)"


_SHAPES = ((3, 3), (4, 2), (2, 4), (0, 2), (2, 0), (1, 1))


def _samples(name: str, *values: object) -> tuple[Sample, ...]:
    return tuple(_rectangle(shape, {name: value}) for value in values for shape in _SHAPES)


def _rectangle(shape: tuple[int, int], attrs: Mapping[str, Any]) -> Sample:
    return Sample((shape,), attrs, low=-9.0, high=9.0)  # nan and infinity raise


def _triangles(*sizes: int) -> tuple[Sample, ...]:
    return tuple(matrix(n, "regular", {"uplo": uplo}) for n in sizes for uplo in TRIANGLES)


OPS = (
    linalg("qr", _qr_signature, _qr, _samples("mode", *MODES),
           """`qr(a, mode)`: (q, r) with q @ r == a, q's columns orthonormal, r upper triangular. Mode "reduced" has
           min(m, n) columns of q, "complete" all m.""",
           results=("same", "same"), choices={"mode": MODES}),
    linalg("qr_raw", "(m,n)->(m,n),(min(m,n))", _qr_raw, tuple(_rectangle(shape, {}) for shape in _SHAPES),
           """LAPACK's geqrf: (h, tau). r is the upper triangle of h; below it stand the Householder vectors v_k, whose
           first element is 1, and q is the product of the I - tau_k v_k v_k^H.""",
           results=("same", "same")),
    linalg("svd", _svd_signature, _svd, _samples("full_matrices", *SWITCH),
           """(u, s, vh) with (u * s) @ vh == a for the first min(m, n) columns of u and rows of vh; `full_matrices`:
           u and vh are square. Raises LinAlgError if the iteration does not converge, as for nan.""",
           results=("same", "real", "same"), choices={"full_matrices": SWITCH}, raises=always),
    linalg("svdvals", "(m,n)->(min(m,n))", lambda a: np.linalg.svd(a, compute_uv=False),
           tuple(_rectangle(shape, {}) for shape in _SHAPES),
           "The singular values, in descending order. Raises LinAlgError as svd does.", results=("real",),
           raises=always),
    linalg("eigh", "(n,n)->(n),(n,n)", _eigh, _triangles(3, 1, 0),
           """(w, v) of a Hermitian matrix, of which the triangle `uplo` is read: a @ v == v * w, w ascending. Raises
           LinAlgError if the iteration does not converge.""",
           results=("real", "same"), choices={"uplo": TRIANGLES}, raises=always),
    linalg("eigvalsh", "(n,n)->(n)", _eigvalsh, _triangles(3, 1, 0),
           "The eigenvalues of a Hermitian matrix, ascending; reads and raises as eigh does.",
           results=("real",), choices={"uplo": TRIANGLES}, raises=always),
    linalg("eig", "(n,n)->(n),(n,n)", _eig, tuple(matrix(n, "regular") for n in (3, 1, 0)),
           """(w, v) with a @ v == v * w, both complex. Raises LinAlgError for infinity and nan, or if the iteration
           does not converge.""",
           results=("complex", "complex"), raises=always),
    linalg("eigvals", "(n,n)->(n)", _eigvals, tuple(matrix(n, "regular") for n in (3, 1, 0)),
           "The eigenvalues, complex. Raises as eig does.", results=("complex",), raises=always),
    linalg("slogdet", "(n,n)->(),()", lambda a: tuple(map(np.asarray, np.linalg.slogdet(a))),
           tuple(matrix(n, "regular") for n in (3, 1, 0)),
           """(sign, log(abs(det))) of the determinant, which may lie far out of range; 0 and -inf for a singular
           matrix, a complex number of magnitude 1 for a complex one.""",
           results=("same", "real")),
)  # fmt: skip
