"""NumPy's functions, compiled, on every dtype that NumPy takes them for: generated, so that no dtype escapes.

Ufuncs are those that `numpy` has, not those of a table: for each dtype, and for pairs of dtypes drawn by the seed. What
NumPy refuses, compiled code leaves to NumPy.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import broadloom as bl
from broadloom.codegen.vmath import FUNCTIONS as MATH
from broadloom.dtypes import ALL, DType
from broadloom.frontend import FUNCTIONS
from broadloom.frontend.loops import OPS
from broadloom.ops.sampling import numbers

Array = np.ndarray[Any, Any]
UFUNCS = sorted({u for u in vars(np).values() if isinstance(u, np.ufunc)}, key=lambda u: u.__name__)
DATES = {np.isnat}
ELEMENTWISE = [u for u in UFUNCS if u.signature is None and u not in DATES]
COUNTS = (np.power, np.left_shift, np.right_shift)


def approximate(u: np.ufunc, args: Sequence[Array]) -> bool:
    """Whether the last bits are the math library's, or those of a complex product."""
    name = OPS.get(u, "")
    by_library = name in MATH and MATH[name].float_bound > 0
    return by_library or any(a.dtype.kind == "c" for a in args)


def operands(u: np.ufunc, dtypes: Sequence[DType], rng: np.random.Generator) -> list[Array]:
    # phases of huge exponents mean nothing
    phases = u in (np.power, np.float_power) and any(d.kind == "c" for d in dtypes)
    args = [numbers((3, 7), d, rng, edges=not phases) for d in dtypes]
    if u in COUNTS and dtypes[1].is_integer:
        args[1] = np.abs(args[1]) & args[1].dtype.type(63)
    if u is np.ldexp and not dtypes[1].is_integer and dtypes[0] == dtypes[1]:
        args[1] = rng.integers(-40, 40, (3, 7)).astype(np.int32)
    return args


def numpys(f: Callable[..., Any], args: Sequence[Array]) -> Any:
    """What NumPy gives; None where it refuses."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return f(*args)
        except (TypeError, ValueError):
            return None


def assert_close(got: Any, want: Any, exact: bool, where: str) -> None:
    if isinstance(want, tuple | list):
        assert type(got) is type(want) and len(got) == len(want), where
        for a, b in zip(got, want, strict=True):
            assert_close(a, b, exact, where)
        return
    assert type(got) is type(want), where
    assert got.dtype == want.dtype and got.shape == want.shape, f"{where}: {got.dtype}{got.shape}, {want.dtype}"
    if want.dtype.kind in "biu":
        assert np.array_equal(got, want), f"{where}: {got}, NumPy {want}"
        return
    wide = np.clongdouble if want.dtype.kind == "c" else np.longdouble
    with np.errstate(all="ignore"):
        a, b = np.asarray(got).astype(wide), np.asarray(want).astype(wide)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        if want.dtype.kind == "c":  # what infinities and overflows give by parts is differences.md's
            same |= ~np.isfinite(b) | ~np.isfinite(a)
        if not exact:
            info: Any = ml_dtypes.finfo(want.dtype)
            tolerance = float(info.eps) * (1000 if want.dtype.kind == "c" else 4)
            cancels = want.dtype.kind == "c" or "logaddexp" in where  # the error is that of the operands
            same |= np.abs(a - b) <= tolerance * (np.abs(b) + cancels) + 4 * float(info.smallest_subnormal)
    assert same.all(), f"{where}: {got[~same]}, NumPy {want[~same]}"


def test_every_ufunc_is_an_entry() -> None:
    assert [u.__name__ for u in UFUNCS if u not in FUNCTIONS] == [u.__name__ for u in DATES]


@pytest.mark.parametrize("u", ELEMENTWISE, ids=lambda u: u.__name__)
def test_ufuncs_of_every_dtype(u: np.ufunc, rng: np.random.Generator) -> None:
    choices = [(d,) * u.nin for d in ALL]
    if u.nin == 2:
        choices += [(d, ALL[int(rng.integers(len(ALL)))]) for d in ALL]
    cells = [(dtypes, args) for dtypes in choices for args in [operands(u, dtypes, rng)] if numpys(u, args) is not None]
    flat = [a for _, args in cells for a in args]

    def all_cells(*xs: Array) -> tuple[Any, ...]:
        return tuple(u(*xs[k : k + u.nin]) for k in range(0, len(xs), u.nin))

    results = bl.compile(all_cells, fullgraph=True)(*flat)
    assert len(cells) >= 4
    for (dtypes, args), got in zip(cells, results, strict=True):
        assert_close(got, numpys(u, args), not approximate(u, args), f"{u.__name__} {dtypes} {args}")


REDUCTIONS = (
    "sum prod max min mean var std any all argmax argmin count_nonzero ptp average nansum nanprod nanmax nanmin "
)
REDUCTIONS += "nanmean nanvar nanstd cumsum cumprod nancumsum nancumprod cumulative_sum cumulative_prod"
FORMULAS = (
    "round fix nan_to_num angle sinc isposinf isneginf isreal iscomplex diff ediff1d gradient trapezoid real imag "
)
FORMULAS += "flip cov corrcoef"
PRODUCTS = "dot inner outer vdot kron matmul vecdot convolve isclose append polyval"

ONE: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in (REDUCTIONS + " " + FORMULAS).split()},
    "clip": lambda x: np.clip(x, 0, 3),
    "clip-below": lambda x: x.clip(1),
    "round-1": lambda x: np.round(x, 1),
    "round-tens": lambda x: np.round(x * 7, -1),
    "norm": np.linalg.norm,
    "squares": lambda x: (x**2, x**3, 2**x),
    "roots": lambda x: (x**0.5, x**2.5),
    "weak": lambda x: (3 + x, 3 * x, x // 3, x % 3, x / 3, x > 3, 3.5 + x),
    "where": lambda x: np.where(x > 1, x, 1),
    "axes": lambda x: (x.reshape(2, 6).sum(0), x.reshape(2, 6).mean(1), x.reshape(2, 6).var(1, ddof=1)),
    "bits": lambda x: (np.bitwise_xor.reduce(x), np.bitwise_and.reduce(x), ~x, x << 1, x >> 1),
    "divisors": lambda x: (np.gcd.reduce(x), np.lcm.reduce(x[:4]), np.gcd.outer(x, x)),
    "extremes": lambda x: (np.maximum.accumulate(x), np.minimum.accumulate(x)),
    "full": lambda x: (np.full_like(x, 1), np.zeros_like(x), np.ones_like(x)),
}
TWO: dict[str, Callable[..., Any]] = {name: getattr(np, name) for name in PRODUCTS.split()}


@pytest.mark.parametrize("name", [*ONE, *TWO])
def test_functions_of_every_dtype(name: str) -> None:
    """Small whole numbers, so that NumPy's order of sums means nothing."""
    f = ONE.get(name) or TWO[name]
    for d in ALL:
        x = (np.arange(12) % (2 if d.kind == "b" else 13)).astype(d.numpy)
        args = [x] if name in ONE else [x, np.roll(x, 1)]
        want = numpys(f, args)
        compiled = bl.compile(lambda *a: f(*a), fullgraph=True)
        if want is None:
            with pytest.raises(bl.errors.GraphBreakError):
                compiled(*args)
        else:
            assert_close(compiled(*args), want, False, f"{name} {d}")


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_sign_of_special_complex_numbers_is_numpys_to_the_bit(dtype):
    info: Any = np.finfo(dtype)
    parts = [0.0, 1.0, 3.0, np.inf, np.nan, info.max, info.max / 2, info.max / 3, np.sqrt(info.max)]
    parts += [info.tiny, info.tiny * (1 + info.eps), info.smallest_subnormal, 3 * info.smallest_subnormal]
    parts += [np.sqrt(info.tiny)]
    values = np.array([*parts, *(-p for p in parts)], info.dtype)
    z = np.empty((len(values), len(values)), dtype)
    z.real, z.imag = values[:, None], values
    with np.errstate(all="ignore"):
        want, each = np.sign(z), bl.vmap(lambda row: np.sign(row))(z)
    for got in (bl.compile(lambda z: np.sign(z), fullgraph=True)(z), np.asarray(bl.sign(bl.asarray(z))), each):
        for a, b in ((got.real, want.real), (got.imag, want.imag)):
            same = (a == b) & (np.signbit(a) == np.signbit(b)) | np.isnan(a) & np.isnan(b)
            assert same.all(), [(z[k], got[k], want[k]) for k in zip(*np.nonzero(~same), strict=True)]
