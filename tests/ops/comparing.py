"""How results are compared: exact bit patterns where NumPy's are promised, else a tolerance by dtype."""

import numpy as np

from broadloom.ops.record import Trait

ORDERED = {"max", "min", "any", "all", "count_nonzero", "argmax", "argmin", "cummax", "cummin"}
EITHER_ZERO = {"maximum", "minimum", "fmax", "fmin", "clip", "max", "min", "cummax", "cummin"}
INEXACT_TRAITS = (Trait.REDUCTION, Trait.SCAN, Trait.CONTRACTION, Trait.LINALG, Trait.TRANSFORM)
RTOL = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 4e-6, "float64": 1e-12, "complex64": 1e-5, "complex128": 1e-12}


def reorders(op):
    """Whether the op may sum in another order, or call a library: compared with a tolerance, and without edges."""
    return op.name not in ORDERED and any(op.has(t) for t in INEXACT_TRAITS)


def assert_same(op, got, expected):
    """Equal dtype, shape and values; bit for bit unless the op reorders sums or is transcendental."""
    assert got.dtype == expected.dtype, f"{got.dtype} instead of {expected.dtype}"
    assert got.shape == expected.shape, f"{got.shape} instead of {expected.shape}"
    tolerance = RTOL.get(got.dtype.name)
    if tolerance is None:
        assert np.array_equal(got, expected)
        return
    got, expected = (a.astype(np.result_type(a.dtype, np.float32)) for a in (got, expected))
    if reorders(op) or op.has(Trait.EXPENSIVE):
        with np.errstate(all="ignore"):
            scale = 20 * tolerance if reorders(op) else 0.0
            np.testing.assert_allclose(got, expected, rtol=tolerance, atol=scale, equal_nan=True)
        return
    for a, b in ((got.real, expected.real), (got.imag, expected.imag)):
        nan = np.isnan(a)
        assert np.array_equal(nan, np.isnan(b))
        assert np.array_equal(a[~nan], b[~nan])
        if op.name not in EITHER_ZERO:  # NumPy's scalar and vector loops choose differently between 0.0 and -0.0
            assert np.array_equal(np.signbit(a[~nan]), np.signbit(b[~nan]))
