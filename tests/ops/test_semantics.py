"""Values written by hand: the cells where other systems differ from NumPy, or where NumPy leaves a choice."""

import numpy as np
import pytest

from broadloom.dtypes import ALL, BY_NAME, FLOATS, INTEGERS, bfloat16
from broadloom.ops.sampling import numbers
from broadloom.ops.table import OPS


def call(name, *arrays, **attrs):
    return OPS[name].reference(*(np.asarray(a) for a in arrays), **attrs)


def cast(x, dtype):
    return call("cast", x, dtype=BY_NAME[dtype])


# ---- integers -----------------------------------------------------------------------------------------------------


def test_integers_wrap_at_their_width():
    x = np.array([200, 130], np.uint8)
    assert call("add", x, x).tolist() == [144, 4]
    x = np.array([3, 250], np.uint8)
    assert call("subtract", x, np.array([9, 10], np.uint8)).tolist() == [250, 240]
    x = np.array([1500000000], np.int32)
    assert cast(call("add", x, x), "int64").tolist() == [-1294967296]
    assert call("add", np.uint64(2**64 - 1), np.uint64(1)) == 0
    assert call("abs", np.int8(-128)) == -128
    assert call("negative", np.uint8(1)) == 255
    assert call("square", np.int16(300)) == 24464


def test_integer_division():
    for dtype in INTEGERS:
        x = np.array([7, 0, 1], dtype.numpy)
        zero = np.zeros(3, dtype.numpy)
        assert call("floor_divide", x, zero).tolist() == [0, 0, 0]
        assert call("remainder", x, zero).tolist() == [0, 0, 0]
        assert call("fmod", x, zero).tolist() == [0, 0, 0]
        if dtype.kind == "i":
            lowest = np.array([np.iinfo(dtype.numpy).min], dtype.numpy)
            minus = np.array([-1], dtype.numpy)
            assert call("floor_divide", lowest, minus) == lowest
            assert call("remainder", lowest, minus) == 0
    assert call("floor_divide", np.int64([-7, 7, -7]), np.int64([2, -2, -2])).tolist() == [-4, -4, 3]
    assert call("remainder", np.int64([-7, 7, -7]), np.int64([2, -2, -2])).tolist() == [1, -1, -1]
    assert call("fmod", np.int64([-7, 7, -7]), np.int64([2, -2, -2])).tolist() == [-1, 1, -1]


def test_shifts_past_the_width():
    for dtype in INTEGERS:
        x = np.array([1, 1, 5], dtype.numpy)
        s = np.array([dtype.bits - 1, dtype.bits, dtype.bits + 3], dtype.numpy)
        top = np.array([1], np.uint64) << np.uint64(dtype.bits - 1)
        assert call("bitwise_left_shift", x, s).astype(np.uint64)[1:].tolist() == [0, 0]
        assert call("bitwise_left_shift", x, s)[0] == top.astype(dtype.numpy)[0]
        assert call("bitwise_right_shift", x, s).tolist() == [0, 0, 0]
    negative = np.array([-5, -5], np.int32)
    assert call("bitwise_right_shift", negative, np.array([40, -1], np.int32)).tolist() == [-1, -1]
    assert call("bitwise_left_shift", negative, np.array([40, -1], np.int32)).tolist() == [0, 0]


def test_integer_powers():
    assert call("pow", np.int32([3, 2, -2]), np.int32([4, 31, 3])).tolist() == [81, -(2**31), -8]
    with pytest.raises(ValueError, match="negative integer powers"):
        call("pow", np.int64([2, 2]), np.int64([1, -1]))
    assert call("pow", np.uint8(3), np.uint8(200)) == pow(3, 200, 256)


def test_scans_and_sums_stay_in_the_operands_dtype():
    x = np.array([15, 15, 3], np.uint64)
    assert call("cumprod", x, axis=-1).tolist() == [15, 225, 675]
    narrow = call("cumprod", x.astype(np.uint8), axis=-1)
    assert narrow.dtype == np.uint8 and narrow.tolist() == [15, 225, 163]
    assert call("sum", np.array([True, True]), axes=(-1,), keepdims=False).dtype == bool


# ---- casts --------------------------------------------------------------------------------------------------------

OUT_OF_RANGE = [np.nan, np.inf, -np.inf, 3e9, -3e9, 1e19, -1e19, 2.0**63, 2.0**64, 300.7, -1.5]
LOW = -(2**31)
CASTS = {
    "int8": [0, 0, 0, 0, 0, 0, 0, 0, 0, 44, -1],
    "uint8": [0, 0, 0, 0, 0, 0, 0, 0, 0, 44, 255],
    "int16": [0, 0, 0, 0, 0, 0, 0, 0, 0, 300, -1],
    "uint16": [0, 0, 0, 0, 0, 0, 0, 0, 0, 300, 65535],
    "int32": [LOW, LOW, LOW, LOW, LOW, LOW, LOW, LOW, LOW, 300, -1],
    "uint32": [0, 0, 0, 3000000000, 1294967296, 0, 0, 0, 0, 300, 2**32 - 1],
    "int64": [-(2**63)] * 3 + [3000000000, -3000000000] + [-(2**63)] * 4 + [300, -1],
    "uint64": [2**63, 0, 2**63, 3000000000, 2**64 - 3000000000, 10**19, 2**63, 2**63, 0, 300, 2**64 - 1],
}


@pytest.mark.parametrize("target", CASTS)
def test_floats_out_of_range_have_one_value(target):
    assert cast(np.array(OUT_OF_RANGE), target).tolist() == CASTS[target]


def test_casts_are_numpys_where_numpy_has_one_value():
    rng = np.random.default_rng(3)
    for source in ALL:
        x = numbers((64,), source, rng)
        real = x.real if source.kind == "c" else x
        for target in ALL:
            with np.errstate(all="ignore"):
                expected = (x if target.kind in "bc" else real).astype(target.numpy)
            got = cast(x, target.name)
            if source.is_inexact and target.is_integer:
                wide = np.trunc(real.astype(np.float64))
                info = np.iinfo(target.numpy)
                fits = (wide >= info.min) & (wide < float(info.max))
                got, expected = got[fits], expected[fits]
            assert got.tobytes() == expected.tobytes(), f"{source} to {target}"


def test_nan_is_true_and_imaginary_parts_are_dropped():
    assert cast(np.array([np.nan, 0.0, -0.0, 1e-300]), "bool").tolist() == [True, False, False, True]
    assert cast(np.array([1 + 2j, 0j, 2j]), "bool").tolist() == [True, False, True]
    assert cast(np.array([1.5 + 2j]), "float32").tolist() == [1.5]
    assert cast(np.array([1e39]), "float32").tolist() == [np.inf]


def test_bitcast_keeps_the_bytes():
    x = np.array([1.0, -0.0, np.nan], np.float32)
    assert call("bitcast", x, dtype=BY_NAME["uint32"]).tolist() == [0x3F800000, 0x80000000, 0x7FC00000]
    assert call("bitcast", np.array([0, 1, 2, 255], np.uint8), dtype=BY_NAME["bool"]).tolist() == [False] + [True] * 3


# ---- floats -------------------------------------------------------------------------------------------------------


def test_sixteen_bit_floats_round_once_an_op():
    one = np.array([1.0], np.float16)
    tiny = np.array([2.0**-11], np.float16)
    assert call("add", call("add", one, tiny), tiny) == 1.0
    assert call("exp", np.array([12.0], np.float16)) == np.inf
    b = np.array([1.0], bfloat16.numpy)
    assert call("add", b, np.array([2.0**-8], bfloat16.numpy)).astype(float) == 1.0
    for name in ("erf", "erfc"):
        for dtype in FLOATS:
            assert call(name, np.array([0.5], dtype.numpy)).dtype == dtype.numpy


def test_signed_zeros_and_nans():
    assert np.signbit(call("copysign", np.array([1.5, -2, 0]), np.float64(-0.0))).tolist() == [True] * 3
    nan = np.array([np.nan, 1.0])
    one = np.array([1.0, np.nan])
    assert np.isnan(call("maximum", nan, one)).all() and call("fmax", nan, one).tolist() == [1.0, 1.0]
    assert np.isnan(call("minimum", nan, one)).all() and call("fmin", nan, one).tolist() == [1.0, 1.0]
    assert call("argmax", np.array([1, np.nan, 3, np.nan]), axis=-1, keepdims=False) == 1
    assert np.isnan(call("sign", np.float64(np.nan)))
    assert call("round", np.array([0.5, 1.5, 2.5, -0.5])).tolist() == [0, 2, 2, 0]


def test_reductions_over_nothing():
    x = np.zeros((2, 0))
    attrs = {"axes": (-1,), "keepdims": False}
    assert call("sum", x, **attrs).tolist() == [0, 0] and call("prod", x, **attrs).tolist() == [1, 1]
    assert call("any", x, **attrs).tolist() == [False] * 2 and call("all", x, **attrs).tolist() == [True] * 2
    assert np.isnan(call("mean", x, **attrs)).all() and np.isnan(call("var", x, **attrs)).all()
    assert call("logsumexp", x, **attrs).tolist() == [-np.inf] * 2
    assert call("count_nonzero", x, **attrs).tolist() == [0, 0]


def test_logsumexp_does_not_overflow():
    attrs = {"axes": (-1,), "keepdims": False}
    assert call("logsumexp", np.array([1000.0, 1000.0]), **attrs) == pytest.approx(1000 + np.log(2))
    assert call("logsumexp", np.array([-np.inf, -np.inf]), **attrs) == -np.inf
    assert call("logsumexp", np.array([np.inf, 1.0]), **attrs) == np.inf
    assert np.isnan(call("logsumexp", np.array([np.nan, 1.0]), **attrs))


def test_variance_with_ddof_past_the_count():
    assert call("var", np.array([1.0]), axes=(-1,), keepdims=False, ddof=1) != 0
    assert call("var", np.array([1.0, 3.0]), axes=(-1,), keepdims=False, ddof=0.5) == 2 / 1.5


# ---- indices ------------------------------------------------------------------------------------------------------


def test_indices_out_of_range_raise_as_numpy_does():
    x = np.arange(10)
    for i in (10, 13, -11):
        for name, attrs in (
            ("take", {"axis": -1, "index_rank": 1}),
            ("take_along_axis", {"axis": -1}),
            ("gather", {"axes": (-1,), "core": 1}),
        ):
            with pytest.raises(IndexError, match=f"index {i} is out of bounds for axis 0 with size 10"):
                call(name, x, np.array([0, i, 99]), **attrs)
        with pytest.raises(IndexError, match=f"index {i} is out of bounds for axis 0 with size 10"):
            call("scatter", x, np.array([1]), np.array([i]), axes=(-1,), core=1, mode="set", index_rank=1)
    with pytest.raises(IndexError, match="axis 1 with size 3"):
        call("gather", np.zeros((2, 3)), np.array([0]), np.array([3]), axes=(-2, -1), core=2)
    with pytest.raises(IndexError, match="size 0"):
        call("take", np.zeros(0), np.array([0]), axis=-1, index_rank=1)
    wide = np.array([2**64 - 1], np.uint64)
    with pytest.raises(IndexError, match="index 18446744073709551615"):
        call("take", x, wide, axis=-1, index_rank=1)


def test_scatter_of_equal_indices():
    x = np.zeros(3)
    value, index = np.arange(1.0, 1001.0), np.tile([0, 2], 500)
    attrs = {"axes": (-1,), "core": 1, "index_rank": 1}
    assert call("scatter", x, value, index, mode="set", **attrs).tolist() == [999, 0, 1000]
    assert call("scatter", x, value[::-1], index[::-1], mode="set", **attrs).tolist() == [1, 0, 2]
    assert call("scatter", x, value, index, mode="add", **attrs).tolist() == [250000, 0, 250500]
    assert x.tolist() == [0, 0, 0], "the operand is not written"


def test_scatter_takes_index_arrays_that_broadcast():
    x = np.zeros((3, 4))
    rows, cols = np.array([[0], [2]]), np.array([1, 3])
    got = call("scatter", x, np.ones((2, 2)), rows, cols, axes=(-2, -1), core=2, mode="set", index_rank=2)
    x[rows, cols] = 1
    assert np.array_equal(got, x)


# ---- linear algebra -----------------------------------------------------------------------------------------------

SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])


def test_singular_matrices():
    for name, operands in (("inv", ()), ("solve", (np.ones((2, 1)),))):
        with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
            call(name, SINGULAR, *operands)
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        call("lu_factor", SINGULAR, check_singular=True)
    assert call("det", SINGULAR) == 0.0
    lu, pivots = call("lu_factor", SINGULAR)
    assert lu[1, 1] == 0 and pivots.tolist() == [2, 2]
    assert not np.isfinite(call("lu_solve", lu, pivots, np.array([[1.0], [0.0]]))).any()


def test_cholesky_reads_the_lower_triangle_and_refuses_the_indefinite():
    a = np.array([[4.0, 99.0], [2.0, 3.0]])
    assert np.allclose(call("cholesky", a), [[2, 0], [1, np.sqrt(2)]])
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        call("cholesky", np.array([[1.0, 0.0], [0.0, -1.0]]))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_factors_multiply_back(dtype):
    rng = np.random.default_rng(4)
    a = numbers((5, 3, 3), BY_NAME[dtype], rng, edges=False)
    b = numbers((5, 3, 2), BY_NAME[dtype], rng, edges=False)
    lu, pivots = call("lu_factor", a)
    lower, upper = np.tril(lu, -1) + np.eye(3), np.triu(lu)
    product = lower @ upper
    for k in range(5):
        for row in reversed(range(3)):
            swap = [row, pivots[k, row] - 1]
            product[k, swap] = product[k, swap[::-1]]
    assert np.allclose(product, a, atol=1e-4)
    assert np.allclose(a @ call("lu_solve", lu, pivots, b), b, atol=1e-3)
    sign = np.prod(np.where(pivots == np.arange(1, 4), 1, -1), axis=-1)
    diagonal = np.prod(np.diagonal(lu, axis1=-2, axis2=-1), axis=-1)
    assert np.allclose(sign * diagonal, call("det", a), rtol=1e-3)


def test_vecmat_and_vecdot_conjugate_their_first_operand():
    x, y = np.array([1j, 2.0]), np.array([1j, 1.0])
    assert call("vecdot", x, y) == 3 + 0j
    assert call("vecmat", x, np.eye(2) + 0j).tolist() == [-1j, 2]
    assert call("outer", x, y)[0, 0] == -1


def test_powers_do_not_depend_on_how_the_exponent_is_given():
    x = np.array([-np.inf, -0.0, 2.0])
    for dtype in (np.float16, np.float32, np.float64):
        with np.errstate(all="ignore"):
            want = np.power(x.astype(dtype), np.full(3, 0.5, dtype))
        for y in (np.array(0.5, dtype), np.array([0.5], dtype), np.full(3, 0.5, dtype)):
            got = OPS["pow"].reference(x.astype(dtype), y)
            np.testing.assert_array_equal(got, want)
            assert np.signbit(got).tolist() == np.signbit(want).tolist() == [False, False, False]
        assert OPS["pow"].reference(np.array(-np.inf, dtype), np.array(0.5, dtype)) == np.inf
