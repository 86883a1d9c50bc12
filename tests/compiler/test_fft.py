"""numpy.fft compiled: every function, size, axis, norm and dtype against NumPy's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import broadloom as bl

F = np.fft
COMPLEX = ("fft", "ifft", "irfft", "hfft")
REAL = ("rfft", "ihfft")
SEVERAL = ("fft2", "ifft2", "irfft2", "fftn", "ifftn", "irfftn", "rfft2", "rfftn")


def same(got: Any, want: Any, *, digits: float = 1.0) -> None:
    assert type(got) is type(want) and got.dtype == want.dtype and got.shape == want.shape
    assert got.strides == want.strides or got.size == 0 or 1 in got.shape
    if not want.size:
        return
    eps = float(np.finfo(want.dtype).eps)
    bound = digits * eps * (8 + 2 * math.log2(want.size + 1)) * (np.linalg.norm(want.astype(complex)) + 1e-300)
    assert np.linalg.norm(got.astype(complex) - want) <= bound


def check(f: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Compiles f without a break and compares all of its results with NumPy's."""
    compiled = bl.compile(f, fullgraph=True, **options)
    got, want = compiled(*arguments), f(*arguments)
    pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
    for a, b in pairs:
        same(a, b)
    return compiled


def numbers(rng: np.random.Generator, dtype: Any, *shape: int) -> np.ndarray:
    x = rng.standard_normal(shape) * 9
    kind = np.dtype(dtype).kind
    return (x + 1j * rng.standard_normal(shape) if kind == "c" else x if kind in "fV" else abs(x)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("first", range(1, 65, 8))
def test_every_size_from_1_to_64(first: int, dtype: type, rng: np.random.Generator) -> None:
    sizes = range(first, first + 8)
    batch = int(rng.choice([1, 3, 5, 9]))

    def f(*rows: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(g for n, x in zip(sizes, rows, strict=True) for g in (F.fft(x), F.rfft(x.real), F.irfft(x, n)))

    check(f, *(numbers(rng, dtype, batch, n) for n in sizes))


@pytest.mark.parametrize("name", [*COMPLEX, *REAL])
def test_points_axes_and_norms(name: str, rng: np.random.Generator) -> None:
    one = getattr(F, name)
    x = numbers(rng, np.float64 if name in REAL else np.complex128, 5, 9, 6)

    def f(x: np.ndarray) -> tuple[np.ndarray, ...]:
        found = [one(x), one(x, norm="ortho"), one(x, norm="forward"), one(x, norm="backward")]
        found += [one(x, n, axis) for n in (1, 4, 7, 12) for axis in (0, -2, 2)]
        return tuple(found)

    check(f, x)


@pytest.mark.parametrize("name", SEVERAL)
def test_several_axes(name: str, rng: np.random.Generator) -> None:
    several = getattr(F, name)
    x = numbers(rng, np.float64 if name.startswith("r") else np.complex128, 4, 5, 6)

    def f(x: np.ndarray) -> tuple[np.ndarray, ...]:
        return (
            several(x),
            several(x, s=(3, 8), axes=(0, 2), norm="ortho"),
            several(x, s=(-1, 7), axes=(2, 1)),
            several(x, axes=(1,), norm="forward"),
            several(x, axes=(1, 1)) if "i" not in name and "r" not in name[:1] else several(x),
        )

    check(f, x)


@pytest.mark.parametrize(
    "dtype", ["?", "i1", "u2", "i4", "u8", "e", "f", "d", "F", "D", ml_dtypes.bfloat16], ids=lambda d: np.dtype(d).name
)
def test_dtypes(dtype: Any, rng: np.random.Generator) -> None:
    x = numbers(rng, dtype, 3, 10)
    names = [*COMPLEX, *(() if np.dtype(dtype).kind == "c" else REAL)]
    if dtype is ml_dtypes.bfloat16:
        names.remove("hfft")  # NumPy's conjugate knows no bfloat16

    def f(x: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(getattr(F, n)(x, norm=norm) for n in names for norm in (None, "ortho", "forward"))

    check(f, x)


@pytest.mark.parametrize("n", [101, 128, 343, 1000, 1009, 1024, 4096, 6006, 10007])
def test_large_sizes_and_batches(n: int, rng: np.random.Generator) -> None:
    x = numbers(rng, np.complex128, 6, n)
    check(lambda x: (F.fft(x[0]), F.ifft(x), F.rfft(x.real), F.irfft(x, n), F.fft(x, axis=0)), x)


def test_operands_in_any_strides(rng: np.random.Generator) -> None:
    x = numbers(rng, np.complex128, 9, 14, 20)

    def f(*xs: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(g for x in xs for g in (F.fft(x, axis=-1), F.fft(x, axis=0), F.rfft(x.real), F.irfft(x, axis=1)))

    views = (
        x.T,
        np.asfortranarray(x),
        x[::2, ::-1],
        x[:, :, 3],
        x.transpose(1, 0, 2),
        np.broadcast_to(x[0], (3, 14, 20)),
    )
    check(f, *views)
    unaligned = np.frombuffer(b"." + x.tobytes(), np.uint8)[1:].view(np.complex128).reshape(x.shape)
    check(f, unaligned)


def test_other_axes_stay_symbolic(rng: np.random.Generator) -> None:
    def f(x: np.ndarray) -> tuple[np.ndarray, ...]:
        return F.fft(x), F.rfft(x.real, axis=-1), F.irfft(x, 12), F.ifft(x * 2, 16, axis=-1)

    compiled = bl.compile(f, fullgraph=True, dynamic=True)
    for rows in (7, 2, 1, 3, 4, 5, 8, 33, 0):
        x = numbers(rng, np.complex128, rows, 12)
        for a, b in zip(compiled(x), f(x), strict=True):
            same(a, b)
    assert len(compiled.report().compiles) <= 3


def test_a_transformed_axis_is_specialised(rng: np.random.Generator) -> None:
    compiled = bl.compile(lambda x: F.fft(x), fullgraph=True)
    for n in (8, 9, 8, 10, 9):
        x = numbers(rng, np.complex128, n)
        same(compiled(x), F.fft(x))
    assert len(compiled.report().compiles) >= 3


def test_given_points_leave_the_length_symbolic(rng: np.random.Generator) -> None:
    def f(x: np.ndarray) -> tuple[np.ndarray, ...]:
        return F.fft(x, 16), F.rfft(x.real, 11), F.rfft(x.real, 12), F.irfft(x, 10)

    compiled = bl.compile(f, fullgraph=True, dynamic=True)
    for n in (9, 16, 3, 11, 12, 20, 1, 5):
        x = numbers(rng, np.complex128, n)
        for a, b in zip(compiled(x), f(x), strict=True):
            same(a, b)
    assert len(compiled.report().compiles) <= 3


def test_out_is_written_and_returned(rng: np.random.Generator) -> None:
    x = numbers(rng, np.complex128, 4, 6)

    def f(x: np.ndarray, out: np.ndarray) -> np.ndarray:
        return F.fftn(F.ifft(x, axis=0), out=out)

    ours, theirs = np.empty_like(x), np.empty_like(x)
    result = bl.compile(f, fullgraph=True)(x, ours)
    assert result is ours
    f(x, theirs)
    same(ours, theirs)
    narrow = np.empty((4, 6), np.complex64)
    bl.compile(f, fullgraph=True)(x, narrow)
    assert np.allclose(narrow, theirs, rtol=1e-5)


def test_real_numbers_have_a_symmetric_transform(rng: np.random.Generator) -> None:
    for n in (1, 2, 9, 16, 51):
        y = check(lambda x: F.fft(x), numbers(rng, np.float64, 5, n))(numbers(rng, np.float64, 5, n))[2]
        assert y[0].imag == 0 and np.array_equal(y[1:], np.conj(y[1:][::-1]))


def test_frequencies_and_shifts(rng: np.random.Generator) -> None:
    x = rng.standard_normal((4, 5))
    exact = bl.compile(
        lambda x, d: (
            *(F.fftfreq(n) for n in (1, 2, 5, 8)),
            F.rfftfreq(9, 0.3),
            F.fftfreq(x.shape[0], d),
            F.rfftfreq(x.shape[1], np.float32(0.1)),
            F.fftshift(x),
            F.ifftshift(x),
            F.fftshift(x, 1),
            F.ifftshift(x, (0,)),
            F.ifftshift(F.fftshift(x, axes=(1, 0)), axes=(1, 0)),
        ),
        fullgraph=True,
        dynamic=True,
    )
    for d in (0.25, 3.0):
        got = exact(x, d)
        want = (
            *(F.fftfreq(n) for n in (1, 2, 5, 8)),
            F.rfftfreq(9, 0.3),
            F.fftfreq(4, d),
            F.rfftfreq(5, np.float32(0.1)),
            F.fftshift(x),
            F.ifftshift(x),
            F.fftshift(x, 1),
            F.ifftshift(x, (0,)),
            x,
        )
        for a, b in zip(got, want, strict=True):
            assert a.dtype == b.dtype and np.array_equal(a, b)


ERRORS: tuple[Callable[[np.ndarray], Any], ...] = (
    lambda x: F.fft(x, 0),
    lambda x: F.fft(x, -1),
    lambda x: F.irfft(x[:, :1]),
    lambda x: F.fft(x, axis=2),
    lambda x: F.fft(x, norm="other"),
    lambda x: F.fft(x, 2.5),
    lambda x: F.fft(x[:, :0]),
    lambda x: F.rfft(x + 1j),
    lambda x: F.fftn(x, s=(2,), axes=(0, 1)),
    lambda x: F.rfftn(x, axes=()),
    lambda x: F.fftfreq(0),
    lambda x: F.fftfreq(2.0),
    lambda x: F.fftshift(x, axes=3),
    lambda x: F.fft(x, out=np.empty(3, complex)),
)


@pytest.mark.parametrize("f", ERRORS)
def test_numpys_errors_are_raised(f: Callable[[np.ndarray], Any]) -> None:
    x = np.ones((3, 4))
    with pytest.raises(Exception) as want:
        f(x)
    with pytest.raises(type(want.value)) as got, pytest.warns(UserWarning, match="NumPy raises for it"):
        bl.compile(f)(x)
    assert str(got.value) == str(want.value)


def test_nothing_is_transformed_over_no_axes(rng: np.random.Generator) -> None:
    x = numbers(rng, np.float64, 2, 3)
    assert bl.compile(lambda x: F.fftn(x, axes=()), fullgraph=True)(x) is x


def test_results_are_stored_where_they_are_returned(rng: np.random.Generator) -> None:
    x = numbers(rng, np.complex128, 6, 7, 8)
    kernels = check(lambda x: F.fftn(x), x).report().kernels
    assert [k.kind for k in kernels] == ["fft", "fft", "fft"]
    for row in (x[0, :1], x[0, :, :1]):
        assert [k.kind for k in check(lambda x: F.fft(x, axis=-1), row).report().kernels] == ["fft"]
    y = x.real.copy()
    assert [k.kind for k in check(lambda y: F.rfft2(y), y).report().kernels] == ["rfft", "fft"]
    assert [k.kind for k in check(lambda y: F.fft(y, axis=1), y).report().kernels] == ["rfft", "kernel"]


def test_a_transform_is_written_into_its_operand(rng: np.random.Generator) -> None:
    def f(x: np.ndarray) -> np.ndarray:
        x[...] = F.fft(x)
        x[1:] = F.ifft(x[1:], axis=0)
        return x

    x = numbers(rng, np.complex128, 5, 8)
    ours, theirs = x.copy(), x.copy()
    result = bl.compile(f, fullgraph=True)(ours)
    f(theirs)
    assert result is ours
    same(ours, theirs)
