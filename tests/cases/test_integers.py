"""Integer widths and dtypes that other systems got wrong after fusing or widening."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cases.conftest import assert_equal


@pytest.mark.parametrize(
    ("narrow", "wide", "values", "want"),
    [("u1", "i2", [200, 130], [144, 4]), ("i4", "i8", [1500000000], [-1294967296])],
)
def test_sum_wraps_at_its_own_width_before_it_is_widened(check, narrow, wide, values, want):
    check(lambda x: (x + x).astype(wide), np.array(values, narrow), want=np.array(want, wide))
    check(lambda: (np.array(values, narrow) + np.array(values, narrow)).astype(wide), want=np.array(want, wide))


def test_every_narrow_op_wraps_before_a_cast(check):
    x = np.array([250, 3, 128, 255], np.uint8)
    for op in (np.add, np.subtract, np.multiply, np.left_shift):
        check(lambda a, b, op=op: op(a, b).astype(np.int64), x, np.array([7, 5, 2, 1], np.uint8))
        check(lambda a, b, op=op: op(a, b).astype(np.float64), x.astype(np.int8), np.array([7, 5, 2, 1], np.int8))


def test_iota_is_64_bits_wide(check):
    want = np.array([0, 1_700_000_000, 3_400_000_000, 5_100_000_000, 6_800_000_000])
    check(lambda x: np.arange(5, dtype=np.int64) * x, np.array([1_700_000_000]), want=want)
    check(lambda: np.arange(5, dtype=np.int64) * np.array([1_700_000_000]), want=want)


def test_int32_matmul_wraps_and_its_row_sum_is_int64(check):
    x, y, z = (
        np.array(v, np.int32) for v in ([[70000, 3], [2, 50000]], [[40000, 1], [1, 40000]], [[20000, 2], [2, 30000]])
    )
    product = np.array([[-94967287, 420000], [270000, -794967290]], np.int32)
    check(lambda x, y, z: x @ (y + z), x, y, z, want=product)
    check(lambda x, y, z: x @ y + x @ z, x, y, z, want=product)
    sums = np.array([-94547287, -794697290], np.int64)
    check(lambda x, y, z: (x @ (y + z)).sum(axis=1), x, y, z, want=sums)
    check(lambda x, y, z: (x @ y + x @ z).sum(axis=1), x, y, z, want=sums)

    def inside():
        x = np.array([[70000, 3], [2, 50000]], np.int32)
        y, z = np.array([[40000, 1], [1, 40000]], np.int32), np.array([[20000, 2], [2, 30000]], np.int32)
        return x @ (y + z), x @ y + x @ z, (x @ (y + z)).sum(axis=1), (x @ y + x @ z).sum(axis=1)

    check(inside, want=(product, product, sums, sums))


def test_uint64_plus_python_int_stays_uint64(check):
    top = 2**64 - 1
    check(lambda x: x + 1, np.array([top], np.uint64), want=np.array([0], np.uint64))
    check(lambda: np.array([top], np.uint64) + 1, want=np.array([0], np.uint64))
    with np.errstate(over="ignore"):
        check(lambda x: x + 1, np.array(top, np.uint64), want=np.uint64(0))
        check(lambda x: x + 1, np.uint64(top), want=np.uint64(0))
        check(lambda: np.array(top, np.uint64) + 1, want=np.uint64(0))


def test_cumprod_of_uint8_widens(check):
    want = np.array([15, 225, 675], np.uint64)
    check(lambda x: np.cumprod(x), np.array([15, 15, 3], np.uint8), want=want)
    check(lambda: np.cumprod(np.array([15, 15, 3], np.uint8)), want=want)


def test_difference_of_uint8(check):
    x, y = np.array([3, 250], np.uint8), np.array([9, 10], np.uint8)
    check(lambda x, y: abs(x.astype(np.int64) - y.astype(np.int64)), x, y, want=np.array([6, 240]))
    check(lambda x, y: x - y, x, y, want=np.array([250, 240], np.uint8))

    def inside():
        x, y = np.array([3, 250], np.uint8), np.array([9, 10], np.uint8)
        return abs(x.astype(np.int64) - y.astype(np.int64)), x - y

    check(inside, want=(np.array([6, 240]), np.array([250, 240], np.uint8)))


def test_copysign_with_a_negative_zero(check):
    want = np.array([-1.5, -2.0, -0.0])
    check(lambda x: np.copysign(x, -0.0), np.array([1.5, -2.0, 0.0]), want=want)
    check(lambda: np.copysign(np.array([1.5, -2.0, 0.0]), -0.0), want=want)
    check(lambda x, s: np.copysign(x, s), np.array([1.5, -2.0, 0.0]), -0.0, want=want)
    assert_equal(np.signbit(want), np.array([True, True, True]))
