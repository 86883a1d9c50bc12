"""Views of memory under another dtype as operands of library calls and of kernels that read memory as it lies."""

import numpy as np
import pytest

import broadloom as bl

RNG = np.random.default_rng(11)
FUNCTIONS = {
    "product": lambda b, y, as_: b.view(as_) @ y,
    "product of a result": lambda b, y, as_: (b * 2).view(as_) @ y,
    "product of a slice": lambda b, y, as_: b.view(as_)[:, ::2] @ y[::2],
    "sort": lambda b, y, as_: np.sort(b.view(as_), axis=0),
    "solve": lambda b, y, as_: np.linalg.solve(b.view(as_)[:64, :64] + 100 * np.eye(64), y[:64]),
    "transform": lambda b, y, as_: np.fft.fft(b.view(as_)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    ("dtype", "as_"),
    [(np.int64, np.float64), (np.complex128, np.float64), (np.float64, np.complex128), (np.complex64, np.float32)],
    ids=str,
)
def test_the_dtype_of_a_view_counts(dtype, as_, name):
    base = (
        RNG.normal(size=(128, 128)).view(np.int64) if dtype is np.int64 else RNG.normal(size=(128, 128)).astype(dtype)
    )
    y = RNG.normal(size=(base.view(as_).shape[-1], 96)).astype(as_)
    f = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        want = f(base, y, as_)
    got = bl.compile(f, fullgraph=True)(base, y, as_)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-3 if as_ is np.float32 else 1e-9, atol=1e-4)
