"""Plans of Fourier transforms, and the accuracy of the code that follows them."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

import broadloom as bl
from broadloom.codegen.fft import plan

SIZES = (1, 2, 3, 8, 13, 16, 17, 61, 127, 243, 360, 512, 1000, 1009, 1024, 2310, 4096)
LARGE = (10007, 3 * 2**15, 2**16, 2**16 + 1)  # two tables of factors, a long chirp


def test_factors_make_the_size_of_radices_that_are_hard_coded() -> None:
    for n in range(1, 400):
        radices = plan.factors(n)
        smooth = max((p for p in range(2, n + 1) if n % p == 0 and all(p % q for q in range(2, p))), default=1) <= 13
        assert (radices is not None) == smooth
        assert radices is None or (math.prod(radices) == n and set(radices) <= {2, 4, 8, *plan.PRIMES})


def test_a_convolution_is_long_enough_and_smooth() -> None:
    for n in (17, 19, 1009, 10007, 65537):
        p = plan.plan_of(n)
        assert p.chirp == n and 2 * n - 1 <= p.size <= 2.2 * n + 8 and plan.factors(p.size) is not None


def test_roots_are_rounded_correctly() -> None:
    for n in (3, 7, 8, 12, 1000, 1 << 20):
        for k in (0, 1, 2, n // 8, n // 4, n // 3, n - 1, 5 * n + 3):
            real, imaginary = (float(part.astype(np.float64)[0]) for part in plan.roots(np.array([k]), n))
            with mpmath.workprec(120):
                exact = mpmath.expjpi(-mpmath.mpf(2 * (k % n)) / n)
            assert real == float(exact.real) or abs(exact.real) < 1e-18
            assert imaginary == float(exact.imag) or abs(exact.imag) < 1e-18


def test_split_factors_are_those_of_one_table() -> None:
    p = plan.Pass(8, 3 * (1 << 15), 1)
    assert plan.is_split(p)
    table = plan.twiddles(p, np.dtype(np.float64), False).reshape(-1, 7, 2).view(np.complex128)[..., 0]
    fine, coarse = table[: plan.BLOCK], table[plan.BLOCK :]
    points = np.arange(p.m)
    whole = np.exp(-2j * np.pi * np.multiply.outer(points, np.arange(1, 8)) / (8 * p.m))
    assert np.abs(coarse[points // plan.BLOCK] * fine[points % plan.BLOCK] - whole).max() < 3e-15


def rows(rng: np.random.Generator, dtype: type, *shape: int) -> np.ndarray:
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)


def relative(got: np.ndarray, exact: np.ndarray) -> float:
    """The length of the error by that of the exact vector, in units of eps."""
    error = np.sqrt(np.sum(np.abs(got - exact) ** 2) / np.sum(np.abs(exact) ** 2))
    return float(error) / float(np.finfo(got.dtype).eps)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("n", [*SIZES, *LARGE])
def test_errors_lie_within_the_bound(n: int, dtype: type, rng: np.random.Generator) -> None:
    x = rows(rng, dtype, max(1, 2000 // n), n)  # many short rows: the error of a single one varies by as much as itself
    half, real = x[:, : n // 2 + 1].copy(), x.real.copy()
    f = bl.compile(
        lambda x, half, real: (np.fft.fft(x), np.fft.ifft(x), np.fft.rfft(real), np.fft.irfft(half, n)), fullgraph=True
    )
    wide, wide_half = x.astype(np.clongdouble), half.astype(np.clongdouble)
    exact = np.fft.fft(wide), np.fft.ifft(wide), np.fft.rfft(wide.real), np.fft.irfft(wide_half, n)
    for got, e in zip(f(x, half, real), exact, strict=True):
        assert relative(got, e) <= 0.3 * (2 + math.log2(n))


def test_numbers_that_are_not_random_lie_within_the_bound() -> None:
    n = 5 * 1024
    f = bl.compile(lambda x: np.fft.fft(x), fullgraph=True)
    t = np.arange(n)
    for x in (np.ones(n), t == 7, np.cos(0.1 * t), 1e300 * (-1.0) ** t / n, np.exp(-((t - n / 2) ** 2))):
        z = x.astype(complex)
        assert relative(f(z), np.fft.fft(z.astype(np.clongdouble))) <= 2 + math.log2(n)


@pytest.mark.parametrize("n", [1, 6, 17, 96, 1000, 1024])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_a_row_has_the_same_bits_alone_and_among_others(n: int, dtype: type, rng: np.random.Generator) -> None:
    x = rows(rng, dtype, 19, n)

    def f(x: np.ndarray) -> tuple[np.ndarray, ...]:
        return np.fft.fft(x), np.fft.rfft(x.real), np.fft.irfft(x, n), np.fft.ifft(x, axis=0)

    together = bl.compile(f, fullgraph=True, dynamic=False)(x)
    alone = bl.compile(lambda x: f(x)[:3], fullgraph=True)
    for k in (0, 3, 18):
        for got, whole in zip(alone(x[k : k + 1].copy()), together, strict=False):
            assert got[0].tobytes() == whole[k].tobytes()
    columns = bl.compile(lambda x: np.fft.ifft(x), fullgraph=True)(x.T[:1].copy())
    assert columns[0].tobytes() == together[3][:, 0].tobytes()


def test_threads_change_no_bits(rng: np.random.Generator) -> None:
    for shape in ((300, 256), (40, 1009), (5, 1 << 14)):
        x = rows(rng, np.complex128, *shape)
        results = []
        for threads in (1, 2, 3):
            results.append(bl.compile(lambda x: np.fft.fft(x), options={"num_threads": threads})(x).tobytes())
        assert len(set(results)) == 1
