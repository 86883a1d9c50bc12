"""The library calls, sorts, searches and scans of the interpreter of loop programs, in plain NumPy.

What goes in: an `Extern` and the strided arrays of its operands and results. What comes out: results written in
place, as LAPACK would, or the first bad matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from broadloom.dtypes import BY_NAME
from broadloom.fusion.evaluate_memory import Array
from broadloom.fusion.ir import NOT_FINITE, Extern
from broadloom.fusion.lowerings.scans import FOLDS
from broadloom.ops.table import OPS


def call(step: Extern, views: list[Array]) -> tuple[int, int] | None:
    """Runs the step; the number of the first bad matrix and its `info`, where the step reports them."""
    attrs = dict(step.attrs)
    if step.routine == "gemm":
        a, b, c = views
        c[...] = a @ b
        return None
    if step.routine == "matmul":
        a, b, c = views
        total = BY_NAME[str(attrs["total"])].numpy
        with np.errstate(all="ignore"):
            c[...] = (a.astype(total) @ b.astype(total)).astype(c.dtype)
        return None
    if step.routine in ("fft", "rfft", "irfft"):
        x, result = views
        result[...] = OPS[step.routine].reference(x, **attrs)
        return None
    if step.routine in FOLDS:
        views[1][...] = OPS[step.routine].reference(views[0], axis=-1)
        return None
    if step.routine in ("sort", "argsort", "search"):
        _sorting(step.routine, attrs, *views)
        return None
    if step.routine in _BESIDE:
        return _beside(step, attrs, views)
    batch = views[len(step.operands)].shape[:-2]
    for number, index in enumerate(np.ndindex(*batch)):
        bad = _ROUTINES[step.routine](attrs, *(v[index] for v in views))
        if bad and step.site >= 0:
            return number, bad
    return None


def _beside(step: Extern, attrs: Mapping[str, Any], views: list[Array]) -> tuple[int, int] | None:
    """Many small matrices, one after the other."""
    op, cores = _BESIDE[step.routine]
    given = {"unit": "unit_diagonal"}
    chosen = {given.get(k, k): v for k, v in attrs.items() if k in ("lower", "transpose", "unit", "uplo")}
    if op == "lu_factor":
        chosen["check_singular"] = step.site >= 0
    operands, results = views[: len(step.operands)], views[len(step.operands) :]
    batch = results[0].shape[: results[0].ndim - cores]
    for number, index in enumerate(np.ndindex(*batch)):
        try:
            found = OPS[op].reference(*(v[index] for v in operands), **chosen)
        except np.linalg.LinAlgError:
            if step.site >= 0:
                return number, 1
            continue
        for result, value in zip(results, found if isinstance(found, tuple) else (found,), strict=True):
            result[index] = value
    return None


_BESIDE = {  # the op, and how many core axes its first result has
    "lanes_solve": ("solve", 2),
    "lanes_inv": ("inv", 2),
    "lanes_det": ("det", 0),
    "lanes_slogdet": ("slogdet", 0),
    "lanes_eigvalsh": ("eigvalsh", 1),
    "lanes_eigh": ("eigh", 1),
    "lanes_cholesky": ("cholesky", 2),
    "lanes_lu": ("lu_factor", 2),
    "lanes_lu_solve": ("lu_solve", 2),
    "lanes_trsm": ("triangular_solve", 2),
    "lanes_matmul": ("matmul", 2),
}


def _sorting(routine: str, attrs: Mapping[str, Any], *views: Array) -> None:
    *operands, result = views
    if routine == "search":
        result[...] = OPS["searchsorted"].reference(*operands, side=attrs["side"])
    else:
        result[...] = OPS[routine].reference(*operands, axis=-1, descending=attrs["descending"])


def _getrf(attrs: Mapping[str, Any], a: Array, lu: Array, pivots: Array) -> int:
    bad = 0
    rows, columns = lu.shape
    with np.errstate(all="ignore"):
        for k in range(min(rows, columns)):
            best = k + int(np.argmax(np.abs(lu[k:, k].real) + np.abs(lu[k:, k].imag)))
            pivots[k] = best + 1
            if lu[best, k] == 0:
                bad = bad or k + 1
                continue
            lu[[k, best]] = lu[[best, k]]
            lu[k + 1 :, k] /= lu[k, k]
            lu[k + 1 :, k + 1 :] -= np.outer(lu[k + 1 :, k], lu[k, k + 1 :])
    return bad


def _getrs(attrs: Mapping[str, Any], lu: Array, pivots: Array, b: Array, x: Array) -> int:
    n = lu.shape[-1]
    lower, upper = np.tril(lu, -1) + np.eye(n, dtype=lu.dtype), np.triu(lu)
    order = np.arange(n)
    for k, pivot in enumerate(pivots.tolist()):
        order[[k, pivot - 1]] = order[[pivot - 1, k]]
    trans = attrs.get("trans", "N")
    whole = lower @ upper
    whole = whole[np.argsort(order)]
    whole = {"N": whole, "T": whole.T, "C": whole.conj().T}[trans]
    x[...] = np.linalg.solve(whole, x)
    return 0


def _potrf(attrs: Mapping[str, Any], a: Array, factor: Array) -> int:
    lower = attrs.get("lower", True)
    whole = np.tril(factor) if lower else np.triu(factor).conj().T
    whole = whole + np.tril(whole, -1).conj().T
    try:
        found = np.linalg.cholesky(whole)
    except np.linalg.LinAlgError:
        return 1
    rows, columns = np.tril_indices(factor.shape[0])
    if lower:
        factor[rows, columns] = found[rows, columns]
    else:
        factor[columns, rows] = found[rows, columns].conj()
    return 0


def _trsm(attrs: Mapping[str, Any], a: Array, b: Array, x: Array) -> int:
    """By substitution: a zero diagonal gives inf or nan."""
    trans = attrs.get("trans", "N")
    matrix = {"N": a, "T": a.T, "C": a.conj().T}[trans]
    rows = range(len(matrix))
    forward = attrs.get("lower", True) == (trans == "N")
    for i in rows if forward else reversed(rows):
        solved = slice(0, i) if forward else slice(i + 1, None)
        x[i] -= matrix[i, solved] @ x[solved]
        if not attrs.get("unit"):
            x[i] /= matrix[i, i]
    return 0


# ---- decompositions: operands and results are one and the same, so each is given twice -------------------------------


def _geqrf(attrs: Mapping[str, Any], a: Array, h: Array, tau: Array) -> int:
    raw, tau[...] = np.linalg.qr(h, mode="raw")
    h[...] = raw.T
    return 0


def _orgqr(attrs: Mapping[str, Any], a: Array, tau: Array, q: Array) -> int:
    """The product of the reflectors, applied to the columns of the identity."""
    result = np.eye(*q.shape, dtype=q.dtype)
    for k in reversed(range(tau.size)):
        v = np.concatenate([np.zeros(k, q.dtype), [1], q[k + 1 :, k]])
        result -= tau[k] * np.outer(v, v.conj() @ result)
    q[...] = result
    return 0


def _gesdd(attrs: Mapping[str, Any], a: Array, held: Array, s: Array, *vectors: Array) -> int:
    try:
        if attrs["job"] == "N":
            s[...] = np.linalg.svd(held, compute_uv=False)
        elif s.size:  # without singular values LAPACK leaves the vectors alone
            u, vt = vectors
            u[...], s[...], vt[...] = np.linalg.svd(held, full_matrices=attrs["job"] == "A")
    except np.linalg.LinAlgError:
        return 1
    return 0


def _evd(attrs: Mapping[str, Any], a: Array, v: Array, w: Array) -> int:
    if attrs["vectors"]:
        w[...], v[...] = np.linalg.eigh(v, attrs["uplo"])
    else:
        w[...] = np.linalg.eigvalsh(v, attrs["uplo"])
    return 0


def _geev(attrs: Mapping[str, Any], a: Array, held: Array, *results: Array) -> int:
    if not np.isfinite(held).all():
        return NOT_FINITE
    if attrs["vectors"]:
        w, v = np.linalg.eig(held)
        paired = np.where(w.imag < 0, -v.imag, v.real) if held.dtype.kind == "f" else v
        results[-1][...] = paired
    else:
        w = np.linalg.eigvals(held)
    if held.dtype.kind == "c":
        results[0][...] = w
    else:
        results[0][...], results[1][...] = w.real, w.imag
    return 0


_ROUTINES: dict[str, Callable[..., int]] = {
    "getrf": _getrf,
    "getrs": _getrs,
    "potrf": _potrf,
    "trsm": _trsm,
    "geqrf": _geqrf,
    "orgqr": _orgqr,
    "gesdd": _gesdd,
    "evd": _evd,
    "geev": _geev,
}
