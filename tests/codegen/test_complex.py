"""Complex functions at zeros, infinities and nan, on both sides of branch cuts, and far from 1: as NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from broadloom.codegen.emit.complex_math import FUNCTIONS
from broadloom.dtypes import DType, complex64, complex128
from broadloom.ops.table import OPS
from tests.codegen.loops import Array, Case, compile_loops

SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 30.0, -80.0, np.inf, -np.inf, np.nan)
UNARY = sorted({*FUNCTIONS, "sqrt", "sign", "reciprocal", "square"})
BINARY = ("pow", "divide", "multiply")


def grid(values: tuple[float, ...], dtype: DType) -> Array:
    """Every pair of parts."""
    result = np.empty((len(values), len(values)), dtype.numpy)
    result.real, result.imag = np.array(values)[:, None], np.array(values)[None, :]
    return result.ravel()


def agree(got: Array, expected: Array, limit: float, scale: Array | None = None) -> Array:
    """Equal with the sign of zero, both nan, or close against `scale`, which zeros have to be only if it is given."""
    size = np.abs(expected) if scale is None else scale
    with np.errstate(all="ignore"):
        same = (got == expected) & ((got != 0) | (np.signbit(got) == np.signbit(expected)))
        close = (np.abs(got - expected) <= limit * size) & ((size > 0) & (expected != 0) | (scale is not None))
        return same | (np.isnan(got) & np.isnan(expected)) | close


def check(name: str, dtype: DType, operands: list[Array], loose: bool = False) -> None:
    (function,) = compile_loops([Case(name, (dtype,) * len(operands), dtype)])
    got, expected = function(*operands), OPS[name].reference(*operands)
    eps = float(np.finfo(dtype.numpy).eps) * (400 if name == "pow" else 16)
    with np.errstate(all="ignore"):
        scale = np.abs(expected) if loose or name == "pow" else None
    fine = agree(got.real, expected.real, eps, scale) & agree(got.imag, expected.imag, eps, scale)
    # beside a nan part C leaves the sign of a zero or of an infinity open
    fine |= np.isnan(got.imag) & np.isnan(expected.imag) & agree(abs(got.real), abs(expected.real), eps, scale)
    fine |= np.isnan(got.real) & np.isnan(expected.real) & agree(abs(got.imag), abs(expected.imag), eps, scale)
    wrong = np.flatnonzero(~fine)
    shown = [(*(x[k].item() for x in operands), got[k].item(), expected[k].item()) for k in wrong[:3]]
    assert not len(wrong), f"{name} {dtype}, operands, got, expected: {shown}"


@pytest.mark.parametrize("dtype", [complex64, complex128], ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_special_values(name: str, dtype: DType) -> None:
    check(name, dtype, [grid(SPECIAL, dtype)])


@pytest.mark.parametrize("dtype", [complex64, complex128], ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_special_pairs(name: str, dtype: DType) -> None:
    x = grid(SPECIAL, dtype)
    check(name, dtype, [np.repeat(x, x.size), np.tile(x, x.size)])


@pytest.mark.parametrize("name", sorted({*UNARY} - {"square", "exp2"}))
def test_no_overflow_or_underflow_on_the_way(name: str) -> None:
    x = grid((1e300, -1e300, 1e-300, 3.0, -1e160, 1e-160, 700.5, -20.5), complex128)
    if name == "log1p":  # NumPy's own loses the real part of what is tiny
        x = x[(np.abs(x.real) > 1) & (np.abs(x.imag) > 1)]
    check(name, complex128, [x], loose=True)


def test_log1p_keeps_tiny_real_parts() -> None:
    (function,) = compile_loops([Case("log1p", (complex128,), complex128)])
    x = np.array([1e-300 + 1e-300j, 1e-20 - 1e-25j])
    assert function(x).tolist() == x.tolist()


def test_integer_powers_of_integers_are_exact() -> None:
    (function,) = compile_loops([Case("pow", (complex128, complex128), complex128)])
    base = np.array([1 + 2j, 3 - 1j, 2j, 1 + 1j])
    for n in (1, 2, 3, 5, 10):
        expected = base.copy()
        for _ in range(n - 1):
            expected = expected * base
        assert function(base, np.full(4, n, complex)).tolist() == expected.tolist()
