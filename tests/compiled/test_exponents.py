"""frexp, ldexp, spacing, gcd and lcm, compiled, against NumPy: every 16-bit float, wide ones over all exponents."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import broadloom as bl
from broadloom.dtypes import INTEGERS

Array = np.ndarray[Any, Any]
SIXTEEN = np.arange(65536, dtype=np.uint16)
FLOATS = ["float16", "bfloat16", "float32", "float64"]


def floats(name: str, rng: np.random.Generator) -> Array:
    """All floats of 16 bits; of others random bits, a third of them subnormal."""
    if name in ("float16", "bfloat16"):
        return SIXTEEN.view(ml_dtypes.bfloat16 if name == "bfloat16" else np.float16)
    word, digits = (np.uint32, 23) if name == "float32" else (np.uint64, 52)
    whole = rng.integers(0, np.iinfo(word).max, 20000, word, endpoint=True)
    small = rng.integers(0, 1 << digits, 10000, word)
    edges = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0, -2.0], name)
    return np.concatenate([whole.view(name), small.view(name), edges])


def assert_bits(got: Array, want: Array) -> None:
    """Equal with their signs; one nan is as good as another."""
    assert got.dtype == want.dtype
    a, b = got.astype(np.float64), want.astype(np.float64)
    wrong = ~((a == b) & (np.signbit(a) == np.signbit(b)) | np.isnan(a) & np.isnan(b))
    assert not wrong.any(), (got[wrong], want[wrong])


@pytest.mark.parametrize("name", FLOATS)
def test_parts_and_spacing(name: str, rng: np.random.Generator) -> None:
    x = floats(name, rng)
    with np.errstate(all="ignore"):
        (mantissa, exponent), gaps = bl.compile(lambda x: (np.frexp(x), np.spacing(x)), fullgraph=True)(x)
        want, wanted = np.frexp(x)
        assert_bits(mantissa, want)
        assert exponent.dtype == np.int32 and np.array_equal(exponent, wanted)
        assert_bits(gaps, np.spacing(x))


@pytest.mark.parametrize("name", FLOATS)
def test_scaling_rounds_once(name: str, rng: np.random.Generator) -> None:
    x = floats(name, rng)
    compiled = bl.compile(lambda x, n: np.ldexp(x, n), fullgraph=True)
    info = ml_dtypes.finfo(x.dtype)
    with np.errstate(all="ignore"):
        own = np.frexp(x)[1]
        lowest = int(info.minexp) - int(info.nmant)
        for n in (
            rng.integers(-40, 40, x.size),
            rng.integers(-2200, 2200, x.size),
            lowest - own + rng.integers(-3, 60, x.size),  # results around the smallest subnormal number
            rng.integers(-(2**31), 2**31, x.size),
        ):
            assert_bits(compiled(x, n.astype(np.int32)), np.ldexp(x, n.astype(np.int32)))
        if name != "bfloat16":
            long = rng.integers(-(2**63), 2**63 - 1, x.size)
            assert_bits(compiled(x, long), np.ldexp(x, long))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_divisors(dtype: Any, rng: np.random.Generator) -> None:
    info = np.iinfo(dtype.numpy)
    x, y = (rng.integers(info.min, info.max, 3000, dtype.numpy, endpoint=True) for _ in range(2))
    for values in (x, y):
        values[:1000] = rng.integers(max(info.min, -30), 30, 1000)
    edges = np.array([0, 1, info.min, info.max], dtype.numpy)
    x[:16], y[:16] = np.repeat(edges, 4), np.tile(edges, 4)
    divisor, multiple = bl.compile(lambda x, y: (np.gcd(x, y), np.lcm(x, y)), fullgraph=True)(x, y)
    assert divisor.dtype == multiple.dtype == dtype.numpy
    assert np.array_equal(divisor, np.gcd(x, y))
    assert np.array_equal(multiple, np.lcm(x, y))
