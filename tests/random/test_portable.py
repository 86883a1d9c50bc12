"""The elementary functions of random numbers: their errors, and polynomials that are those of the math library."""

import mpmath
import numpy as np
import pytest

from broadloom.codegen.vmath import coefficients
from broadloom.ops import portable
from broadloom.ops.random import NUMPY
from broadloom.ops.table import OPS


def test_the_polynomials_are_those_of_the_math_library():
    assert portable.EXP == coefficients.EXP_F64
    assert portable.LOG == coefficients.LOG_F64
    assert portable.SIN == coefficients.SIN_F64
    assert portable.COS == coefficients.COS_F64
    assert portable.ATAN == coefficients.ATAN_F64


def near_zero(rng, n):
    return rng.choice([-1, 1], n) * np.exp(rng.uniform(-40, -1, n))


SAMPLES = {
    "log": lambda rng, n: np.concatenate([rng.uniform(0, 2, n), np.exp(rng.uniform(-745, 700, n))]),
    "log1p": lambda rng, n: np.concatenate([rng.uniform(-1, 2, n), near_zero(rng, n), np.exp(rng.uniform(0, 700, n))]),
    "exp": lambda rng, n: np.concatenate([rng.uniform(-2, 2, n), rng.uniform(-745, 709, n)]),
    "expm1": lambda rng, n: np.concatenate([rng.uniform(-2, 2, n), rng.uniform(-60, 709, n), near_zero(rng, n)]),
    "sinpi": lambda rng, n: rng.uniform(-2, 2, n),
    "cospi": lambda rng, n: rng.uniform(-2, 2, n),
}
EXACT = {"sinpi": mpmath.sinpi, "cospi": mpmath.cospi}


def error(got, x, exact):
    """In units of the last place."""
    true = exact(mpmath.mpf(float(x)))
    unit = np.spacing(abs(float(true))) or 5e-324
    return float(abs(mpmath.mpf(float(got)) - true) / unit)


@pytest.mark.parametrize("name", SAMPLES)
def test_errors(name, rng):
    x = SAMPLES[name](rng, 700)
    got = OPS[f"portable_{name}"].reference(x)
    with mpmath.workprec(160):
        exact = EXACT.get(name) or getattr(mpmath, name)
        assert max(error(g, v, exact) for g, v in zip(got, x, strict=True)) < 2


def test_the_arc_tangent(rng):
    x = np.concatenate([rng.uniform(0, 3, 500), np.exp(rng.uniform(-40, 40, 500)), [0.0, np.inf]])
    got = portable.atan_positive(NUMPY, x)
    np.testing.assert_allclose(got, np.arctan(x), rtol=5e-16)


@pytest.mark.parametrize("name", ["log", "log1p", "exp", "expm1"])
def test_special_values(name):
    x = np.array([0.0, -0.0, 1.0, -1.0, 2.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1.7e308, -1.7e308])
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x)
    got = OPS[f"portable_{name}"].reference(x)
    np.testing.assert_allclose(got, expected, rtol=1e-15)
    assert np.signbit(got[expected == 0]).tolist() == np.signbit(expected[expected == 0]).tolist()
