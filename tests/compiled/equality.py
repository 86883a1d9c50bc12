"""Results of compiled ops against the reference kernels, by the equality contract.

What goes in: an op, its attributes, the operands, what was got. What comes out: nothing, or an `AssertionError` that
names the first element that differs. What holds: integers, bools and positions are exact; so are pointwise ops that
round once; the math library stays within its stated bounds of a value computed in wider numbers; reductions stay
within n * eps * sum |x|, and are exact where every partial result is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from broadloom.codegen.vmath import FUNCTIONS
from broadloom.dtypes import DType, from_numpy
from broadloom.ops.record import Op, Trait
from tests.codegen.loops import Case
from tests.codegen.test_emit import MATH, assert_same, steps_apart
from tests.ops import comparing

Array = np.ndarray[Any, Any]
LOOSE = 0.75  # rounding of the wide reference itself, in units of the last place
NO_WIDE = {"erf", "erfc", "exp2"}  # no long double version, or one that is off
NUMPY_NAMES = {"pow": "power", "atan2": "arctan2"} | {
    f"a{n}": f"arc{n}" for n in ("sin", "cos", "tan", "sinh", "cosh", "tanh")
}


def check(op: Op, attrs: Mapping[str, Any], operands: Sequence[Array], got: tuple[Array, ...]) -> None:
    """Raises `AssertionError` where the contract is broken."""
    with np.errstate(all="ignore"):
        returned = op.reference(*operands, **attrs)
        _check(op, attrs, operands, got, returned if isinstance(returned, tuple) else (returned,))


def _check(
    op: Op, attrs: Mapping[str, Any], operands: Sequence[Array], got: tuple[Array, ...], expected: tuple[Array, ...]
) -> None:
    for a, b in zip(got, expected, strict=True):
        assert a.dtype == b.dtype, f"dtype {a.dtype} instead of {b.dtype}"
        assert a.shape == b.shape, f"shape {a.shape} instead of {b.shape}"
    if op.has(Trait.POINTWISE):
        pointwise(op, attrs, operands, got[0], expected[0])
    elif op.name == "triangular_solve":
        residual(attrs, operands, got[0])
    elif op.name == "lu_solve":
        factored_residual(operands, got[0])
    elif op.name in FACTORS:
        factors(op, attrs, operands[0], got, expected)
    elif op.has(Trait.LINALG):
        for a, b in zip(got, expected, strict=True):
            comparing.assert_same(op, a, b)
    elif op.has(Trait.TRANSFORM):
        transformed(op, attrs, operands[0], got[0], expected[0])
    elif op.has(Trait.CONTRACTION):
        contraction(op, operands, got[0], expected[0])
    elif comparing.reorders(op) and got[0].dtype.kind not in "biu":
        summed(op, attrs, operands[0], got[0], expected[0])
    elif op.name == "scatter" and attrs["mode"] == "add" and got[0].dtype.kind in "fcV":
        added(op, attrs, operands, got[0], expected[0])
    else:
        for a, b in zip(got, expected, strict=True):
            # which of several nan NumPy gives as a complex extremum depends on the order it walks the memory in
            b = np.where(np.isnan(a) & np.isnan(b), a, b) if op.name in ("max", "min") and a.dtype.kind == "c" else b
            identical(a, b, either_zero=op.name in comparing.EITHER_ZERO)


def identical(got: Array, expected: Array, *, either_zero: bool = False) -> None:
    """Bit for bit, but for the payload of nan."""
    if got.dtype.kind in "biu":
        wrong = got != expected
    else:
        wrong = np.zeros(got.shape, bool)
        for a, b in _parts(got, expected):
            same = steps_apart(np.ascontiguousarray(a), np.ascontiguousarray(b)).reshape(a.shape) == 0
            wrong |= ~(same | (a == b)) if either_zero else ~same
    _refuse(wrong, got, expected)


def _parts(got: Array, expected: Array) -> list[tuple[Array, Array]]:
    if got.dtype.kind != "c":
        return [(got, expected)]
    return [(got.real, expected.real), (got.imag, expected.imag)]


def _refuse(wrong: Array, got: Array, expected: Array, operands: Sequence[Array] = ()) -> None:
    if not wrong.any():
        return
    at = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(wrong)))
    first = at if wrong.ndim else ()
    given = f" for {', '.join(repr(x[first]) for x in operands)}" if operands else ""
    pytest.fail(
        f"{np.count_nonzero(wrong)} of {wrong.size} elements differ; at {first} got {got[first]!r}, "
        f"expected {expected[first]!r}{given}"
    )


# ---- pointwise ------------------------------------------------------------------------------------------------------


def pointwise(op: Op, attrs: Mapping[str, Any], operands: Sequence[Array], got: Array, expected: Array) -> None:
    spread = [np.ascontiguousarray(np.broadcast_to(x, got.shape)).ravel() for x in operands]
    dtypes = tuple(from_numpy(x.dtype) for x in operands)
    flat, wanted = (np.ascontiguousarray(x).ravel() for x in (got, expected))
    if op.name in MATH and flat.dtype.kind == "c":  # NumPy's own lose digits near the zeros of their parts
        with np.errstate(all="ignore"):
            wanted = np.asarray(_function(op)(*map(widest, spread))).astype(flat.dtype)
    case = Case(op.name, dtypes, from_numpy(got.dtype), dict(attrs))
    assert_same(case, spread, flat, wanted)
    if (
        op.name in MATH
        and got.dtype in (np.float32, np.float64)
        and not (op.name in NO_WIDE and got.dtype == np.float64)
    ):
        _within_bounds(op, dtypes[0], spread, flat)


def _function(op: Op) -> Any:
    return getattr(np, NUMPY_NAMES.get(op.name, op.name))


def _within_bounds(op: Op, dtype: DType, operands: list[Array], got: Array) -> None:
    entry = FUNCTIONS[op.name]
    bound = entry.float_bound if dtype.bits == 32 else entry.double_bound
    wide = np.float64 if dtype.bits == 32 else np.longdouble
    function = op.reference if op.name in NO_WIDE else _function(op)
    with np.errstate(all="ignore"):
        exact = np.asarray(function(*(x.astype(wide) for x in operands)), wide)
        unit = np.abs(np.spacing(exact.astype(got.dtype))).astype(wide)
        if op.name in ("logaddexp", "logaddexp2"):
            unit = np.fmax.reduce([unit, *(np.abs(np.spacing(x)).astype(wide) for x in operands)])
        wrong = np.isfinite(exact) & np.isfinite(got) & ~(np.abs(got - exact) <= (bound + LOOSE) * unit)
    _refuse(wrong, got, exact, operands)


# ---- sums, products, scans ------------------------------------------------------------------------------------------


def eps_of(dtype: np.dtype[Any]) -> float:
    real = np.empty(0, dtype).real.dtype if dtype.kind == "c" else dtype
    return float(ml_dtypes.finfo(real).eps)  # type: ignore[no-untyped-call]


def widest(x: Array) -> Array:
    """The same values with many more digits."""
    return x.astype(np.clongdouble if x.dtype.kind == "c" else np.longdouble)


def summed(op: Op, attrs: Mapping[str, Any], x: Array, got: Array, expected: Array) -> None:
    """A reduction or scan whose order of operations is free."""
    if x.dtype.kind == "c" and op.name in ("sum", "cumsum"):
        summed(op, attrs, x.real, got.real, expected.real)
        return summed(op, attrs, x.imag, got.imag, expected.imag)
    eps = eps_of(x.dtype)
    axes = tuple(attrs["axes"]) if "axes" in attrs else (attrs["axis"],)
    count = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
    if exact_at_every_step(op, x, axes):
        return identical(got, expected, either_zero=True)
    with np.errstate(all="ignore"):
        finite = np.isfinite(x)
        magnitude, scale = _scale(op, attrs, np.where(finite, x, np.zeros((), x.dtype)), axes, count)
        # where a partial result may overflow, the order decides between inf, nan and a number
        overflow = ~(magnitude < float(ml_dtypes.finfo(_real_dtype(got)).max) / 4)  # type: ignore[no-untyped-call]
        wrong = ~_agree(op, got, expected, scale * eps) & ~(overflow & ~_any_nan(op, attrs, x))
    _refuse(wrong, got, expected)


def _agree(op: Op, got: Array, expected: Array, bound: Array) -> Array:
    """Equal, or finite and no further apart than `bound`. Of complex numbers that are not finite it is only asked that
    both are so, except for scattered sums."""
    by_parts = op.name == "scatter" or got.dtype.kind != "c"
    agreed = np.ones(got.shape, bool)
    for a, b in _parts(got, expected) if by_parts else [(got, expected)]:
        close = np.abs(widest(a) - widest(b)) <= bound
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        agreed &= same | (close & np.isfinite(b)) | (~np.isfinite(a) & ~np.isfinite(b) & (not by_parts))
    return agreed


def _any_nan(op: Op, attrs: Mapping[str, Any], x: Array) -> Array:
    """Where a nan is among what is summed."""
    if op.has(Trait.SCAN):
        return np.asarray(np.logical_or.accumulate(np.isnan(x), axis=attrs["axis"]))
    return np.asarray(np.any(np.isnan(x), axis=attrs["axes"], keepdims=attrs["keepdims"]))


def _real_dtype(x: Array) -> np.dtype[Any]:
    return x.real.dtype if x.dtype.kind == "c" else x.dtype


def exact_at_every_step(op: Op, x: Array, axes: tuple[int, ...]) -> bool:
    """Whether sums of the elements are small whole numbers: then every order gives the same bits."""
    if op.name not in ("sum", "cumsum") or x.size == 0:
        return False
    with np.errstate(all="ignore"):
        parts = widest(x)
        both = (parts.real, parts.imag) if x.dtype.kind == "c" else (parts,)
        whole = all(bool(np.all(p == np.trunc(p))) for p in both)
        return whole and bool(np.max(np.sum(np.abs(parts), axis=axes)) <= 1 / eps_of(x.dtype))


def _scale(op: Op, attrs: Mapping[str, Any], x: Array, axes: tuple[int, ...], count: int) -> tuple[Array, Array]:
    """The largest magnitude that a step may reach, and the bound of the error in units of eps."""
    wide, keep = widest(x), {"axis": axes, "keepdims": bool(attrs.get("keepdims"))}
    size = np.abs(wide)
    n = float(max(count, 1))
    if op.has(Trait.SCAN):
        running = np.add.accumulate if op.name == "cumsum" else np.multiply.accumulate
        magnitude = running(size if op.name == "cumsum" else np.maximum(size, 1), axis=axes[0])
        reached = magnitude if op.name == "cumsum" else running(size, axis=axes[0])
        return magnitude, 2 * n * reached + _tiny(x, n) * (1 if op.name == "cumsum" else magnitude)
    if op.name == "prod":
        largest = np.prod(np.maximum(size, 1), **keep) * np.prod(np.maximum(1, 1 / np.maximum(size, 1e-300)), **keep)
        return largest, 4 * n * np.prod(size, **keep) + _tiny(x, n) * np.prod(np.maximum(size, 1), **keep)
    total = np.sum(size, **keep)
    if op.name == "sum":
        return total, n * total + _tiny(x, n)
    if op.name == "mean":
        return total, (n + 2) * total / n + _tiny(x, n)
    if op.name == "logsumexp":
        return total, (n + 4) * np.ones_like(total) + 4 * np.max(size, **keep, initial=0)
    squares = np.sum(size * size, **keep)
    divisor = max(count - float(attrs.get("ddof", 0)), 0.0)
    variance = (2 * n + 8) * squares / divisor if divisor else squares
    if op.name == "var":
        return squares, variance + _tiny(x, n)
    with np.errstate(all="ignore"):
        return squares, np.sqrt(variance / eps_of(x.dtype)) + _tiny(x, n)


def _tiny(x: Array, n: float) -> float:
    """Errors of gradual underflow, in units of eps."""
    info: Any = ml_dtypes.finfo(_real_dtype(x))  # type: ignore[no-untyped-call]
    return 4 * n * float(info.smallest_normal)


def added(op: Op, attrs: Mapping[str, Any], operands: Sequence[Array], got: Array, expected: Array) -> None:
    """Additions into elements: `np.add.at` chooses its own order by the memory of its operands."""
    value, n = operands[1], operands[1].size + 1.0
    with np.errstate(all="ignore"):
        finite = [np.where(np.isfinite(x), np.abs(widest(x)), 0) for x in (operands[0], value)]
        scale = np.asarray(op.reference(*finite, *operands[2:], **attrs))
        overflow = ~(scale < float(ml_dtypes.finfo(_real_dtype(got)).max) / 4)  # type: ignore[no-untyped-call]
        wrong = ~_agree(op, got, expected, (n * scale + _tiny(got, n)) * eps_of(got.dtype)) & ~overflow
    _refuse(wrong, got, expected)


# ---- linear algebra -------------------------------------------------------------------------------------------------


def residual(attrs: Mapping[str, Any], operands: Sequence[Array], x: Array) -> None:
    """A triangular system may be ill-conditioned; its computed solution solves a system nearby all the same."""
    matrix, b = (y.astype(np.complex128 if y.dtype.kind == "c" else np.float64) for y in operands)
    matrix = np.tril(matrix) if attrs["lower"] else np.triu(matrix)
    n = matrix.shape[-1]
    if attrs["unit_diagonal"]:
        matrix[..., range(n), range(n)] = 1
    if attrs["transpose"]:
        matrix = np.swapaxes(matrix, -1, -2)
    left = np.abs(matrix @ x.astype(matrix.dtype) - b)
    wrong = ~(left <= 8 * (n + 1) * eps_of(x.dtype) * (np.abs(matrix) @ np.abs(x) + np.abs(b)))
    _refuse(wrong, x, left)


def factored_residual(operands: Sequence[Array], x: Array) -> None:
    """As `residual`, for the two triangles of a factorisation and its interchanges."""
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    lu, pivots, b = operands[0].astype(wide), operands[1], operands[2].astype(wide)
    n, loop = lu.shape[-1], x.shape[:-2]
    b = np.array(np.broadcast_to(b, x.shape))
    places = np.broadcast_to(pivots, (*loop, n))
    for point in np.ndindex(loop):
        for k in range(n):
            b[point][[k, places[point][k] - 1]] = b[point][[places[point][k] - 1, k]]
    lower, upper = np.tril(lu, -1) + np.eye(n), np.triu(lu)
    left = np.abs(lower @ (upper @ x.astype(wide)) - b)
    wrong = ~(left <= 8 * (n + 1) * eps_of(x.dtype) * (np.abs(lower) @ (np.abs(upper) @ np.abs(x)) + np.abs(b)))
    _refuse(wrong, x, left)


def _reconstructed(op: Op, attrs: Mapping[str, Any], a: Array, parts: Sequence[Array]) -> tuple[Array, Array]:
    """What the factors make, and what they should."""
    if op.name == "qr":
        return parts[0] @ parts[1], a
    if op.name == "svd":
        u, s, vh = parts
        k = s.shape[-1]
        return (u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a
    w, v = parts
    if op.name == "eigh":
        kept = np.tril(a, -1) if attrs["uplo"] == "L" else np.triu(a, 1)
        diagonal = np.einsum("...ii->...i", a).real[..., None, :] * np.eye(a.shape[-1])
        a = kept + np.conj(np.swapaxes(kept, -1, -2)) + diagonal
    return v * w[..., None, :], a @ v


def _orthonormal(x: Array) -> Array:
    """How far the columns are from orthonormal."""
    return np.abs(np.conj(np.swapaxes(x, -1, -2)) @ x - np.eye(x.shape[-1]))


FACTORS = {"qr": (0,), "svd": (0, 2), "eigh": (1,), "eig": ()}  # and which of the parts are orthonormal


def factors(op: Op, attrs: Mapping[str, Any], a: Array, got: Sequence[Array], expected: Sequence[Array]) -> None:
    """A decomposition makes its operand again. Its factors depend on rounding where values lie close together; the
    values themselves, of eigh and svd, do not."""
    wide, eps = np.complex128 if got[-1].dtype.kind == "c" else np.float64, eps_of(got[-1].dtype)
    a, parts = a.astype(wide), [np.asarray(x).astype(wide if x.ndim == a.ndim else x.dtype) for x in got]
    if not a.size or not np.prod(a.shape[-2:]):
        for x, y in zip(got, expected, strict=True):
            comparing.assert_same(op, x, y)
        return
    scale = 8 * sum(a.shape[-2:]) * eps * np.maximum(np.linalg.norm(a, axis=(-2, -1)), 1)[..., None, None]
    made, wanted = _reconstructed(op, attrs, a, parts)
    _refuse(~(np.abs(made - wanted) <= scale), made, wanted)
    for k in FACTORS[op.name]:
        left = _orthonormal(parts[k] if op.name != "svd" or k == 0 else np.swapaxes(parts[k], -1, -2))
        _refuse(~(left <= 8 * sum(a.shape[-2:]) * eps), left, np.zeros_like(left))
    for x, y in zip(got, expected, strict=True):
        if x.ndim < a.ndim and op.name != "eig":
            _refuse(~(np.abs(x - y) <= scale[..., 0]), x, y)
    if op.name == "qr":
        assert np.array_equal(got[1], np.triu(got[1]))


# ---- Fourier transforms ----------------------------------------------------------------------------------------------


def transformed(op: Op, attrs: Mapping[str, Any], x: Array, got: Array, expected: Array) -> None:
    """A row of finite numbers lies within the bound of docs/math.md; of another one no number is finite."""
    n = attrs["n"]
    given = x[..., : n // 2 + 1 if op.name == "irfft" else n]
    finite = np.isfinite(given).all(-1, keepdims=True)
    wide = widest(np.where(finite, given, np.zeros((), x.dtype)))
    scale = {"none": 1.0, "root": n**-0.5, "size": 1 / n}[attrs["norm"]]
    length = scale * np.sqrt(n * np.sum(np.abs(wide) ** 2, -1, keepdims=True)) * (2 if op.name == "irfft" else 1)
    largest = np.sum(np.abs(wide), -1, keepdims=True) * 2
    overflow = ~(largest < float(ml_dtypes.finfo(_real_dtype(got)).max) / 4)  # type: ignore[no-untyped-call]
    error = np.sqrt(np.sum(np.abs(widest(got) - widest(expected)) ** 2, -1, keepdims=True))
    bound = eps_of(got.dtype) * ((2 + math.log2(n)) * length + _tiny(got, n))
    wrong = np.broadcast_to(~(error <= 2 * bound) & finite & ~overflow, got.shape)
    if op.name != "irfft":
        wrong = wrong | (~finite & np.isfinite(got))
    _refuse(wrong, got, expected)


# ---- contractions ---------------------------------------------------------------------------------------------------


def contraction(op: Op, operands: Sequence[Array], got: Array, expected: Array) -> None:
    if got.dtype.kind in "biu" or (op.name == "outer" and got.dtype.kind != "c"):
        return identical(got, expected)
    n = 1 if op.name == "outer" else operands[0].shape[-1]
    with np.errstate(all="ignore"):
        scale = np.asarray(op.reference(*(np.abs(widest(x)) for x in operands)))  # sum |x||y|
        overflow = ~(scale < float(ml_dtypes.finfo(_real_dtype(got)).max) / 4)  # type: ignore[no-untyped-call]
        bound = ((2 * n + 4) * scale + _tiny(got, n)) * eps_of(got.dtype)
        wrong = ~_agree(op, got, expected, bound) & ~overflow
    _refuse(wrong, got, expected)
