"""Values: each statement of docs/differences.md about them, and NumPy's own answer where the two differ."""

from __future__ import annotations

import warnings
from fractions import Fraction

import ml_dtypes
import mpmath
import numpy as np
import pytest

import broadloom as bl
from broadloom.codegen.vmath import FUNCTIONS
from broadloom.runtime.target import host

FLOATS = (np.float32, np.float64)


def compiled(function, **arguments):
    return bl.compile(function, fullgraph=True, **arguments)


def same_bits(got, want):
    assert type(got) is type(want) and got.dtype == want.dtype and got.tobytes() == want.tobytes()


def quietly(function, *arguments):
    with np.errstate(all="ignore"):
        return function(*arguments)


@pytest.mark.difference("Floating-point warnings and `np.errstate` are not honoured in compiled code.")
def test_compiled_code_neither_warns_nor_raises_for_floats():
    def f(x):
        with np.errstate(all="raise"):
            return 1 / x + np.log(-x), x * 1e308 * 1e308

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with np.errstate(all="raise"):
            first, second = compiled(f)(np.array([0.0, 1.0]))
    assert np.isnan(first).all() and np.isinf(second[1])
    with pytest.raises(FloatingPointError):
        f(np.array([0.0, 1.0]))


@pytest.mark.difference("Integers, bools, indices, shapes and dtypes are exact.")
def test_integers_wrap_at_their_own_width(rng):
    def f(x, y):
        return (x + y).sum(), (x * y).astype(np.int64) + 1, (x - y) > 0

    for dtype in (np.int8, np.uint8, np.int16, np.uint32):
        info = np.iinfo(dtype)
        x, y = (rng.integers(info.min, info.max, 300, dtype, endpoint=True) for _ in "xy")
        for got, want in zip(compiled(f)(x, y), f(x, y), strict=True):
            same_bits(got, want)
    x = np.full(4, 100, np.int8)
    assert compiled(f)(x, x)[0] == 4 * (200 - 256)


@pytest.mark.difference("`+ - * /` and `sqrt` on floats are bit-equal.")
@pytest.mark.parametrize("dtype", FLOATS)
def test_arithmetic_is_bit_equal_unless_contraction_is_asked_for(dtype, rng):
    def f(x, y, z):
        return (x * y + z) / (x - y), np.sqrt(abs(x)) * z - y

    x, y, z = (rng.normal(size=1000).astype(dtype) * 10.0 ** rng.integers(-8, 8, 1000).astype(dtype) for _ in "xyz")
    for got, want in zip(compiled(f)(x, y, z), f(x, y, z), strict=True):
        same_bits(got, want)
    fused = compiled(lambda x, y, z: x * y + z, options={"contract": True})(x, y, -x * y)
    exact = [Fraction(float(a)) * Fraction(float(b)) + Fraction(float(-a * b)) for a, b in zip(x, y, strict=True)]
    assert fused.tolist() == ([float(e) for e in exact] if host().has_fma else [0.0] * 1000)


@pytest.mark.difference("float16 and bfloat16: each op rounds to its dtype, as NumPy's does.")
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_each_op_on_half_precision_rounds(dtype, rng):
    def f(x, y):
        return x * y + x - y

    x, y = (rng.normal(size=500).astype(dtype) for _ in "xy")
    same_bits(compiled(f)(x, y), f(x, y))
    assert (f(x, y) != f(x.astype(np.float32), y.astype(np.float32)).astype(dtype)).any(), "rounding once differs"


@pytest.mark.difference("Transcendental functions lie within a stated number of units in the last place")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["exp", "log", "sin", "tanh"])
def test_functions_lie_within_their_bounds(name, dtype, rng):
    x = rng.uniform(0.01, 20, 200).astype(dtype)
    got = compiled(lambda x: getattr(np, name)(x))(x)
    bound = FUNCTIONS[name].float_bound if dtype is np.float32 else FUNCTIONS[name].double_bound
    with mpmath.workprec(200):
        for a, y in zip(x.tolist(), got, strict=True):
            exact = getattr(mpmath, name)(mpmath.mpf(a))
            assert abs(mpmath.mpf(float(y)) - exact) <= (bound + 0.01) * mpmath.mpf(float(np.spacing(abs(y))))


@pytest.mark.difference("Products and squares of complex numbers round at every step.")
def test_complex_products_round_at_every_step(rng):
    x, y = (rng.normal(size=500) + 1j * rng.normal(size=500) for _ in "xy")
    got = compiled(lambda x, y: (x * y, np.square(x)))(x, y)
    for (a, b), product in zip(((x, y), (x, x)), got, strict=True):
        same_bits(product.real.copy(), a.real * b.real - a.imag * b.imag)
        same_bits(product.imag.copy(), a.real * b.imag + a.imag * b.real)


@pytest.mark.difference("A product over complex numbers with an infinity depends on whether")
def test_complex_products_of_an_infinity_are_not_finite():
    f = compiled(lambda x: (x.prod(dtype=complex), x.prod(axis=-1, dtype=complex)))
    for x in (np.array([-np.inf]), np.array([2.0, np.inf, -1.0]), np.array([[np.inf, 1.0], [2.0, 3.0]])):
        got, want = f(x), quietly(lambda x=x: (x.prod(dtype=complex), x.prod(axis=-1, dtype=complex)))
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(np.isfinite(a), np.isfinite(b))
            np.testing.assert_array_equal(np.where(np.isfinite(b), a, 0), np.where(np.isfinite(b), b, 0))


@pytest.mark.difference("Which of several nans a complex `max` or `min` gives")
def test_complex_extremes_of_nans_are_nan(rng):
    x = rng.normal(size=(40, 30)) + 1j * rng.normal(size=(40, 30))
    x[rng.random(x.shape) < 0.05] = complex(np.nan, 1)
    x[rng.random(x.shape) < 0.05] = complex(2, np.nan)

    def f(x):
        return x.max(axis=0), x.min(axis=1), x.max()

    for got, want in zip(compiled(f)(x), f(x), strict=True):
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        np.testing.assert_array_equal(np.where(np.isnan(want), 0, got), np.where(np.isnan(want), 0, want))


@pytest.mark.difference("Sums of complex products (`matmul`, `dot`, `vecdot` and their kin) are not finite")
@pytest.mark.parametrize("function", [lambda x, y: x @ y, lambda x, y: np.vecdot(x, y.T), lambda x, y: np.dot(x, y)])
def test_contractions_of_complex_infinities_are_not_finite(function, rng):
    x, y = (rng.normal(size=(9, 9)) + 1j * rng.normal(size=(9, 9)) for _ in "xy")
    x[2, 3], y[4, 5] = complex(np.inf, 1), complex(0, -np.inf)
    for deterministic in (False, True):
        got = compiled(function, options={"deterministic": deterministic})(x, y)
        want = quietly(function, x, y)
        assert np.array_equal(np.isfinite(got), np.isfinite(want))
        np.testing.assert_allclose(got[np.isfinite(want)], want[np.isfinite(want)], rtol=1e-12, atol=1e-12)


@pytest.mark.difference("`x ** a` with a Python float `a` that is an argument is the function `pow`.")
def test_powers_by_a_number_known_at_run_time():
    x = np.array([-0.0, -np.inf, 4.0, 2.0])
    f = compiled(lambda x, a: x**a)
    assert f(x, 0.5).tolist()[:3] == [0.0, np.inf, 2.0] and not np.signbit(f(x, 0.5)[0])
    want = quietly(lambda: x**0.5)
    assert np.signbit(want[0]) and np.isnan(want[1])
    np.testing.assert_allclose(f(x, 0.5)[2:], want[2:], rtol=3e-16)
    same_bits(compiled(lambda x: x**0.5)(x)[[0, 2, 3]], want[[0, 2, 3]])
    same_bits(compiled(lambda x: np.power(x, 0.5))(x)[[0, 2, 3]], want[[0, 2, 3]])
    one = np.array([0.5])
    assert np.isnan(quietly(np.power, x, one)[1])
    assert compiled(lambda x, y: np.power(x, y))(x, one).tolist()[:3] == [0.0, np.inf, 2.0]


@pytest.mark.difference("A ufunc with `where=` and without `out=` gives 0 where the mask is false;")
def test_masked_ufuncs_without_out_give_zero():
    def f(x, m):
        return np.add(x, 1, where=m), np.negative(x, where=m), np.greater(x, 0, where=m)

    x, m = np.arange(1.0, 7.0), np.array([True, False, True, True, False, False])
    for got, unmasked in zip(compiled(f)(x, m), f(x, True), strict=True):
        same_bits(got, np.where(m, unmasked, np.zeros((), unmasked.dtype)))


@pytest.mark.difference("A ufunc with `where=` leaves the elements of `out` that are not selected as they are;")
def test_masked_ufuncs_leave_the_other_elements_alone():
    x, m = np.arange(1, 7), np.array([True, False, True, True, False, False])
    got = compiled(lambda x, m: np.signbit(x, out=x, where=m))(x, m)
    assert got is x and x.tolist() == [0, 2, 0, 0, 5, 6]


@pytest.mark.difference("A gufunc with an output that has more loop dims than the result, and overlaps an operand,")
def test_gufuncs_take_operands_as_they_were():
    x, y = np.arange(16.0).reshape(4, 4) % 5, np.ones((4, 4))
    sums = x.sum(axis=1)
    got = compiled(lambda x, y: np.vecdot(x, y, out=x))(x, y)
    assert got is x and x.tolist() == [sums.tolist()] * 4


@pytest.mark.difference("`np.concatenate`, `stack` and their kin with an `out` that overlaps an operand")
def test_concatenations_take_operands_as_they_were():
    def turned(x):
        return np.concatenate([x[1:], x[:1]], out=x)

    x, theirs = np.arange(5.0), np.arange(5.0)
    assert compiled(turned)(x) is x and x.tolist() == [1, 2, 3, 4, 0]
    assert turned(theirs).tolist() == [1, 2, 3, 4, 1]


@pytest.mark.difference("Arrays that `np.broadcast_arrays` repeats elements of are read-only")
def test_broadcast_arrays_are_read_only():
    got = compiled(lambda x, y: np.broadcast_arrays(x, y))(np.ones(1), np.ones(5))
    assert [a.flags.writeable for a in got] == [False, True]


@pytest.mark.difference("`log1p` of a complex number keeps a real part that is tiny; NumPy's gives 0.")
def test_log1p_of_complex_numbers_keeps_tiny_real_parts():
    x = np.array([1e-300 + 1e-300j, 1e-20 - 1e-25j])
    assert compiled(lambda x: np.log1p(x))(x).tolist() == x.tolist()
    assert np.log1p(x).real.tolist() == [0, 0]


@pytest.mark.difference("`var` and `std` of float16 are computed in float32 and rounded once")
def test_the_variance_of_half_precision_overflows_where_it_does_not_fit():
    x = (3 * np.random.default_rng(0).standard_normal(50000)).astype(np.float16)
    got = compiled(lambda x: (np.var(x), np.std(x)))(x)
    exact = np.var(x.astype(np.float64)), np.std(x.astype(np.float64))
    assert all(g.dtype == np.float16 and abs(g - e) <= 0.01 for g, e in zip(got, exact, strict=True))
    assert np.isinf(quietly(np.var, x)) and np.isinf(quietly(np.std, x))
    assert np.isinf(compiled(lambda x: np.var(x))(np.tile(np.array([-500, 500], np.float16), 100)))


@pytest.mark.difference("Running sums of float32 and float64 along more than 8192 elements")
def test_long_running_sums_are_nearer_to_the_exact_ones():
    compiled = bl.compile(lambda x: np.cumsum(x))
    x = np.random.default_rng(0).random(30000).astype(np.float32)
    exact = np.cumsum(x.astype(np.float64))
    assert not np.array_equal(compiled(x), np.cumsum(x))
    assert np.max(np.abs(compiled(x) - exact)) < np.max(np.abs(np.cumsum(x) - exact)) / 10
    assert np.array_equal(compiled(x[:8192]), np.cumsum(x[:8192]))
    zeros = np.full(9000, np.float32(-0.0))
    assert not np.signbit(compiled(zeros)).all() and np.signbit(compiled(zeros[:8192])).all()


@pytest.mark.difference("Sums and other float reductions may be reassociated.")
@pytest.mark.parametrize("dtype", FLOATS)
def test_sums_stay_within_the_bound(dtype, rng):
    f = compiled(lambda x: (x.sum(), x.sum(axis=0), x.sum(axis=1), x.cumsum(axis=1)[:, -1]))
    for shape in ((1, 5000), (5000, 1), (70, 80)):
        x = (rng.normal(size=shape) * 10.0 ** rng.integers(-6, 6, shape)).astype(dtype)
        axes = ((0, 1), 0, 1, 1)
        for got, axis in zip(f(x), axes, strict=True):
            n = np.prod([shape[a] for a in (axis if isinstance(axis, tuple) else (axis,))])
            exact = x.astype(np.longdouble).sum(axis=axis)
            bound = n * np.finfo(dtype).eps * abs(x.astype(np.longdouble)).sum(axis=axis)
            assert (abs(got - exact) <= bound).all()


@pytest.mark.difference("Where C leaves integer results undefined")
def test_integer_results_that_c_leaves_undefined():
    for dtype in (np.int8, np.int32, np.int64, np.uint8, np.uint32, np.uint64):
        info = np.iinfo(dtype)
        x = np.array([info.min, info.max, 7, 0], dtype)
        y = np.array([-1 % (1 << info.bits) if info.min == 0 else -1, 0, info.bits, info.bits + 3], dtype)

        def f(x, y):
            return x // y, x % y, x << abs(y), x >> abs(y)

        for got, want in zip(compiled(f)(x, y), quietly(f, x, y), strict=True):
            same_bits(got, want)


@pytest.mark.difference("Where C leaves integer results undefined")
def test_floats_out_of_range_become_the_same_integer_everywhere():
    x = np.resize(np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, -5.5, 3e9, 300.7]), 8 * 40)
    for dtype in (np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint32):
        got = compiled(lambda x, dtype=dtype: x.astype(dtype))(x)
        assert (got.reshape(40, 8) == got[:8]).all(), "one value, wherever the element stands"
        alone = [compiled(lambda x, dtype=dtype: x.astype(dtype))(x[k : k + 1])[0] for k in range(8)]
        assert alone == got[:8].tolist()
    by_int64 = quietly(lambda: x.astype(np.int64).astype(np.uint32))
    same_bits(compiled(lambda x: x.astype(np.uint32))(x), by_int64)


@pytest.mark.difference("A NumPy scalar that is assigned to an element or a slice of integers")
@pytest.mark.parametrize("place", [0, slice(None)])
def test_numpy_scalars_in_places_of_integers_are_converted_as_arrays_are(place):
    def f(x, v):
        x[place] = v
        return x

    for v in (np.float64(np.nan), np.float32(300.5), np.int64(300)):
        by_array = quietly(f, np.zeros(2, np.int8), np.array(v))
        same_bits(compiled(f)(np.zeros(2, np.int8), v), by_array)
        with pytest.raises((ValueError, OverflowError)):
            quietly(f, np.zeros(2, np.int8), v)
    same_bits(compiled(f)(np.zeros(2, np.uint8), np.int64(300)), quietly(f, np.zeros(2, np.uint8), np.int64(300)))


@pytest.mark.difference("Between 0.0 and -0.0, `maximum`, `minimum`")
def test_extremes_of_zeros_are_zeros(rng):
    x, y = (np.where(rng.random(100) < 0.5, 0.0, -0.0) for _ in "xy")

    def f(x, y):
        both = np.maximum(x, y), np.minimum(x, y), np.fmax(x, y), np.fmin(x, y), np.clip(x, y, 0.0)
        return *both, x.max(), x.min()

    for got, want in zip(compiled(f)(x, y), f(x, y), strict=True):
        assert np.array_equal(got, want) and not np.any(got)


@pytest.mark.difference("A signalling nan counts as a quiet one;")
@pytest.mark.parametrize(("dtype", "bits"), [(np.float32, 0x7FA00000), (np.float64, 0x7FF4000000000000)])
def test_signalling_nan_counts_as_quiet(dtype, bits):
    integer = np.dtype(f"i{np.dtype(dtype).itemsize}").type
    signalling = np.full(9, bits, integer).view(dtype)
    quiet, ones = np.full(9, np.nan, dtype), np.ones(9, dtype)

    def f(x, y):
        return x + y, np.fmax(x, y), np.maximum(x, y), y**x, np.isnan(x), np.fmin(y, x)

    for a, b in zip(compiled(f)(signalling, ones), compiled(f)(quiet, ones), strict=True):
        np.testing.assert_array_equal(a, b)
    assert (compiled(f)(signalling, ones)[1] == 1).all()


@pytest.mark.difference("Every sort is stable, whatever `kind` asks for")
def test_sorts_are_stable(rng):
    x = rng.integers(0, 3, 500)
    places = compiled(lambda x: (np.argsort(x), np.argpartition(x, 9), np.argsort(x, kind="heapsort")))(x)
    for got in places:
        assert np.array_equal(got, np.argsort(x, kind="stable"))
    assert not np.array_equal(np.argsort(x, kind="heapsort"), places[0])
    zeros = np.tile([0.0, -0.0], 40)
    same_bits(compiled(lambda x: np.sort(x))(zeros), zeros)
    same_bits(compiled(lambda x: np.partition(x, 250))(x), np.sort(x))
    y = rng.permutation(5000)
    assert not np.array_equal(np.partition(y, 2500), compiled(lambda y: np.partition(y, 2500))(y))


@pytest.mark.difference("A nan in bfloat16 is sorted behind all numbers")
def test_a_nan_in_bfloat16_is_sorted_to_the_end():
    x = np.array([3, np.nan, 1, 2], ml_dtypes.bfloat16)
    values, places = compiled(lambda x: (np.sort(x), np.argsort(x)))(x)
    assert np.isnan(values[-1]) and not np.isnan(np.sort(x)[-1])
    assert places.tolist() == [2, 3, 0, 1]


@pytest.mark.difference("Bins, edges, ranges and quantiles that are known only at run time are not checked")
def test_what_is_known_only_at_run_time_is_not_checked():
    x, bins = np.array([0.5, 1.5]), np.array([0.0, 2.0, 1.0])
    assert set(compiled(lambda x, b: np.digitize(x, b))(x, bins).tolist()) <= {0, 1, 2, 3}
    assert compiled(lambda x, b: np.histogram(x, b)[0])(x, bins).shape == (2,)
    assert np.isnan(compiled(lambda x: np.histogram(x, 3)[1])(np.array([1.0, np.nan]))).all()
    assert (
        10
        <= compiled(lambda x, p, f: np.interp(x, p, f))(
            np.array([2.5]), np.array([3.0, 1, 2]), np.array([10.0, 20, 40])
        )[0]
        <= 40
    )
    assert compiled(lambda x, q: np.quantile(x, q))(x, np.array([-0.5, 1.5])).tolist() == [0.5, 1.5]
    for f, arguments in (
        (np.digitize, (x, bins)),
        (np.histogram, (x, bins)),
        (np.histogram, ([1.0, np.nan], 3)),
        (np.quantile, (x, 1.5)),
    ):
        with pytest.raises(ValueError, match=r"must|range"):
            f(*arguments)
    order = np.array([-2, -1])
    assert compiled(lambda x, o: np.searchsorted(x, 1.0, sorter=o))(x, order) == 1
    with pytest.raises(ValueError, match="out of range"):
        np.searchsorted(x, 1.0, sorter=order)


@pytest.mark.difference("Fourier transforms lie within the bound")
def test_fourier_transforms_lie_within_their_bound(rng):
    x = (rng.normal(size=360) + 1j * rng.normal(size=360)).astype(np.complex64)
    exact = np.fft.fft(x.astype(np.clongdouble))
    got, theirs = compiled(lambda x: np.fft.fft(x))(x), np.fft.fft(x)
    error, own = (float(np.linalg.norm(y - exact) / np.linalg.norm(exact)) for y in (got, theirs))
    assert own < error <= float(np.finfo(np.float32).eps) * (2 + np.log2(360))


@pytest.mark.difference("Products of floats (`prod`) are reassociated as well;")
def test_products_are_reassociated(rng):
    g = compiled(lambda x: np.prod(x))
    for dtype in FLOATS:
        for n in (7, 300, 5000, 100_000):
            x = np.exp(rng.normal(scale=0.01, size=n)).astype(dtype)
            exact = np.prod(x.astype(np.longdouble))
            assert abs(g(x) - exact) <= n * np.finfo(dtype).eps * abs(exact)
            assert np.prod(x) == np.multiply.accumulate(x)[-1]  # NumPy multiplies one by one
    x = np.full(2000, 4.0)
    x[0] = 0
    assert quietly(np.prod, x) == 0 and np.isnan(quietly(np.prod, x[::-1].copy()))
    for y in (x, x[::-1].copy()):
        assert g(y) == 0 or np.isnan(g(y))
    x = np.repeat([0.25, 4.0], 1000)
    assert quietly(np.prod, x) == 0 and quietly(np.prod, x[::-1].copy()) == np.inf
    assert g(x) in (0, 1) and g(x[::-1].copy()) in (1, np.inf)


@pytest.mark.difference("`np.fft.irfft` of an axis without elements gives zeros")
def test_the_inverse_transform_of_nothing_is_zero():
    got = compiled(lambda x: np.fft.irfft(x, 4))(np.zeros((3, 0), complex))
    assert got.tolist() == [[0.0] * 4] * 3
