"""How a transform of a given size is taken apart, and the tables that its passes read.

What goes in: the size. What comes out: a `Plan`, and arrays of cosines and sines in the precision of the transform.

What holds: the plan depends on the size alone, so a row has the same bits alone and among others; every table entry
is computed in long double from an angle reduced exactly, and rounded once.

A size whose prime factors are at most 13 is a chain of Stockham passes (decimation in frequency): a pass of radix r
sees the data as [r][m][s], transforms the first axis, multiplies by powers of the (r*m)-th root and stores
[m][r][s]; s is the product of the radices before. Other sizes go through Bluestein's convolution with a chirp, of a
smooth size of at least 2n - 1.

Source: P. N. Swarztrauber, FFT algorithms for vector computers, Parallel Computing 1 (1984); L. I. Bluestein, IEEE
Trans. Audio Electroacoust. 18 (1970).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from broadloom.records import dataclass

Array = np.ndarray[Any, Any]
PRIMES = (13, 11, 7, 5, 3)  # radices that are hard-coded, beside 2, 4 and 8


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass over all points: radix, and the two other axes of the data as it sees them."""

    radix: int
    m: int
    s: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The passes for `size` points; with `chirp`, of the convolution that a transform of `chirp` points becomes."""

    size: int
    passes: tuple[Pass, ...]
    chirp: int = 0

    @property
    def points(self) -> int:
        """How many points go in and come out."""
        return self.chirp or self.size


def factors(n: int) -> tuple[int, ...] | None:
    """The radices for n points, powers of two first; None if a prime factor is too large.

    >>> factors(1024), factors(360), factors(1), factors(34)
    ((8, 8, 4, 4), (8, 5, 3, 3), (), None)
    """
    twos = (n & -n).bit_length() - 1
    rest = n >> twos
    found: list[int] = []
    if twos:
        eights, left = divmod(twos, 3)
        if left == 1 and eights:
            found = [8] * (eights - 1) + [4, 4]
        else:
            found = [8] * eights + [2**left] * (left > 0)
    for prime in PRIMES:
        while rest % prime == 0:
            found.append(prime)
            rest //= prime
    return tuple(found) if rest == 1 else None


@lru_cache(maxsize=256)
def plan_of(n: int) -> Plan:
    """The plan for n >= 1 points.

    >>> plan_of(17).size, plan_of(17).chirp
    (40, 17)
    """
    radices = factors(n)
    if radices is not None:
        return Plan(n, _passes(n, radices))
    size = _smooth(2 * n - 1)
    whole = factors(size)
    assert whole is not None
    return Plan(size, _passes(size, whole), n)


def _passes(n: int, radices: tuple[int, ...]) -> tuple[Pass, ...]:
    found, m, s = [], n, 1
    for r in radices:
        m //= r
        found.append(Pass(r, m, s))
        s *= r
    return tuple(found)


def _smooth(least: int) -> int:
    """The smallest size from `least` on that is eight times a product of 2, 3 and 5."""
    best = 8
    while best < least:
        best *= 2
    five = 8
    while five < best:
        three = five
        while three < best:
            size = three
            while size < least:
                size *= 2
            best = min(best, size)
            three *= 3
        five *= 5
    return best


# ---- tables ---------------------------------------------------------------------------------------------------------


def roots(k: Array, n: int) -> tuple[Array, Array]:
    """Real and imaginary part of exp(-2j pi k/n) in long double, from an angle within an eighth of the circle.

    >>> [part.astype(float).tolist() for part in roots(np.array([1, 3]), 8)]
    [[0.7071067811865476, -0.7071067811865476], [-0.7071067811865476, -0.7071067811865476]]
    """
    eighth, rest = np.divmod(8 * (np.asarray(k, np.int64) % n), n)  # in [0, 8); the angle is (eighth + rest/n) pi/4
    odd = eighth % 2 == 1
    part = np.where(odd, n - rest, rest).astype(np.longdouble)
    angle = part * (_PI / 4) / n
    c, s = np.cos(angle), np.sin(angle)
    quarter = ((eighth + 1) // 2) % 4  # the multiple of pi/2 nearest to the angle
    s = np.where(odd, -s, s)
    real = np.choose(quarter, [c, -s, -c, s])
    imaginary = np.choose(quarter, [s, c, -s, -c])
    return real + np.longdouble(0), -imaginary


_PI = np.longdouble("3.14159265358979323846264338327950288")


BLOCK = 1024
SPLIT = 1 << 17  # factors of a pass from where on there are two tables, whose entries are multiplied


def is_split(p: Pass) -> bool:
    """Whether the factors of a pass are products of one of a block and one of a point within the block: a table of
    all would be as large as the data, in the code and in the cache."""
    return p.m * (p.radix - 1) >= SPLIT


def twiddles(p: Pass, dtype: np.dtype[Any], columns: bool) -> Array:
    """The factors of a pass for j = 1 .. radix-1: by point and then by j as pairs, or with `columns` by j and part
    and then by point. Where the pass is split, those of the first `BLOCK` points, followed by those of each block's
    first point, by block and then by j as pairs."""
    if not is_split(p):
        return _factors(p, np.arange(p.m), dtype, columns).ravel()
    fine = _factors(p, np.arange(BLOCK), dtype, columns)
    coarse = _factors(p, np.arange(0, p.m, BLOCK), dtype, False)
    return np.concatenate([fine.ravel(), coarse.ravel()])


def _factors(p: Pass, points: Array, dtype: np.dtype[Any], columns: bool) -> Array:
    table = np.empty((len(points), p.radix - 1, 2), np.longdouble)
    table[..., 0], table[..., 1] = roots(np.multiply.outer(points, np.arange(1, p.radix)), p.m * p.radix)
    return np.ascontiguousarray(table.transpose(1, 2, 0) if columns else table, dtype)


def halves(n: int, dtype: np.dtype[Any]) -> Array:
    """Pairs exp(-2j pi k/n) as [k][part], k = 0 .. n//2."""
    return np.ascontiguousarray(np.stack(roots(np.arange(n // 2 + 1), n), -1), dtype)


@lru_cache(maxsize=4)
def _chirp(n: int) -> tuple[Array, Array]:
    """exp(-1j pi k*k/n) for k < n."""
    k = np.arange(n, dtype=object) if n > 1 << 31 else np.arange(n, dtype=np.int64)
    return roots(np.asarray(k * k % (2 * n), np.int64), 2 * n)


def chirp(n: int, dtype: np.dtype[Any]) -> Array:
    """The factors of Bluestein's algorithm before and after the convolution, as [k][part]."""
    return np.ascontiguousarray(np.stack(_chirp(n), -1), dtype)


def chirp_spectrum(n: int, size: int, dtype: np.dtype[Any]) -> Array:
    """The transform of the conjugate chirp, wrapped around `size` points and divided by `size`, as [k][part]."""
    real, imaginary = _chirp(n)
    wave = np.zeros(size, np.clongdouble)
    wave.real[:n], wave.imag[:n] = real, -imaginary
    wave[size - n + 1 :] = wave[1:n][::-1]
    spectrum = np.fft.fft(wave) / size
    return np.ascontiguousarray(np.stack([spectrum.real, spectrum.imag], -1), dtype)
