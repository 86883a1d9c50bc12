"""Integer widths, written buffers, einsum and outputs under `vmap`, as gufuncs, and on tensors."""

from __future__ import annotations

import numpy as np
import pytest

import broadloom as bl
from broadloom.errors import TransformError
from broadloom.transforms.gufunc import gufunc_of
from broadloom.transforms.vmap import mapped
from tests.cases.conftest import assert_equal, on_tensors

TOP = 2**64 - 1
X = np.arange(24.0).reshape(2, 3, 4)

# A function of one example, the examples, and the result: the widths of case after case.
WIDTHS = {
    "uint8 wraps before it is widened": (
        lambda x: (x + x).astype(np.int16),
        (np.array([[200, 130], [1, 255]], np.uint8),),
        np.array([[144, 4], [2, 254]], np.int16),
    ),
    "int32 wraps before it is widened": (
        lambda x: (x + x).astype(np.int64),
        (np.array([[1_500_000_000], [-1_500_000_000]], np.int32),),
        np.array([[-1294967296], [1294967296]]),
    ),
    "iota is 64 bits wide": (
        lambda x: np.arange(5, dtype=np.int64) * x,
        (np.array([1_700_000_000, -1]),),
        np.array([[0, 1_700_000_000, 3_400_000_000, 5_100_000_000, 6_800_000_000], [0, -1, -2, -3, -4]]),
    ),
    "uint64 and a Python int": (
        lambda x: x + 1,
        (np.array([[TOP], [0]], np.uint64),),
        np.array([[0], [1]], np.uint64),
    ),
    "uint64 of no axes and a Python int": (lambda x: x + 1, (np.array([TOP, 3], np.uint64),), np.array([0, 4], "u8")),
    "cumprod of uint8 widens": (
        lambda x: np.cumprod(x),
        (np.array([[15, 15, 3], [2, 200, 200]], np.uint8),),
        np.array([[15, 225, 675], [2, 400, 80000]], np.uint64),
    ),
    "difference of uint8 after a cast": (
        lambda x, y: (abs(x.astype(np.int64) - y.astype(np.int64)), x - y),
        (np.array([[3, 250], [0, 1]], np.uint8), np.array([[9, 10], [1, 0]], np.uint8)),
        (np.array([[6, 240], [1, 1]]), np.array([[250, 240], [255, 1]], np.uint8)),
    ),
    "copysign with a negative zero": (
        lambda x: np.copysign(x, -0.0),
        (np.array([[1.5, -2.0, 0.0], [0.0, -0.0, 3.0]]),),
        np.array([[-1.5, -2.0, -0.0], [-0.0, -0.0, -3.0]]),
    ),
}
by_width = pytest.mark.parametrize(("function", "arguments", "want"), WIDTHS.values(), ids=WIDTHS)


@by_width
def test_widths_of_mapped_functions(check_mapped, function, arguments, want):
    with np.errstate(over="ignore"):
        check_mapped(function, *arguments, want=want)


@by_width
def test_widths_of_tensors(function, arguments, want):
    for k in range(2):
        expected = tuple(w[k] for w in want) if isinstance(want, tuple) else want[k]
        got = on_tensors(function, *(np.asarray(a[k]) for a in arguments))
        assert_equal(got, tuple(map(np.asarray, expected)) if isinstance(want, tuple) else np.asarray(expected))


def test_mapped_int32_matmul_wraps_and_its_row_sum_is_int64(check_mapped):
    x, y, z = (
        np.array([v, np.eye(2)], np.int32)
        for v in ([[70000, 3], [2, 50000]], [[40000, 1], [1, 40000]], [[20000, 2], [2, 30000]])
    )

    def both(x, y, z):
        one, other = x @ (y + z), x @ y + x @ z
        return one, other, one.sum(axis=1), other.sum(axis=1)

    product = np.array([[[-94967287, 420000], [270000, -794967290]], [[2, 0], [0, 2]]], np.int32)
    sums = np.array([[-94547287, -794697290], [2, 2]])
    check_mapped(both, x, y, z, want=(product, product, sums, sums))
    assert_equal(on_tensors(both, x[0], y[0], z[0]), (product[0], product[0], sums[0], sums[0]))


@pytest.mark.parametrize("made", [np.zeros, bl.zeros, lambda shape: np.full(shape, 0.0)], ids=["np", "bl", "full"])
def test_a_batched_value_is_written_into_a_fresh_buffer(ways, made):
    def core(x):
        m = made((3, 4))
        m[0, 0] = m[0, 1] + x[0, 0]
        m[1] += x[2]
        return m

    want = np.zeros((2, 3, 4))
    want[:, 0, 0] = [0, 12]
    want[:, 1] = [[8, 9, 10, 11], [20, 21, 22, 23]]
    roads = [bl.vmap(core), *ways(bl.vmap(core))]
    if made is bl.zeros:  # an array that NumPy makes outside of capture is no value of the interpreter
        roads.append(mapped(core))
    for road in roads:
        assert_equal(np.asarray(road(X)), want)


def test_a_batched_value_is_written_into_a_buffer_like_another(check_mapped):
    def core(x):
        m = np.zeros_like(x)
        m[0, 0] = m[0, 1] + x[0, 0]
        m[1] += x[2]
        m[2, ::2] = x[0, 1]
        return m

    check_mapped(core, X)


def test_an_array_of_numpy_s_own_does_not_take_a_batched_value():
    """Without capture, NumPy itself makes the array: the refusal says what to do."""

    def core(x):
        m = np.zeros(4)
        m[0] = x[0]
        return m

    for road in (mapped(core), gufunc_of("(n)->(n)", core)):
        with pytest.raises(TransformError, match=r"of a batched value.*bl\.zeros or np\.zeros_like"):
            road(X)


EINSUMS = {
    "an axis of one": ("ij,ij->ij", (np.ones((3, 2)), np.array([[0.0, 1.0]])), (3, 2)),
    "a batch of one": ("bij,bjk->bik", (np.arange(6.0).reshape(1, 2, 3), np.arange(24.0).reshape(4, 3, 2)), (4, 2, 2)),
    "a sum over an axis of one": ("ij,ij->i", (np.ones((3, 1)), np.arange(6.0).reshape(3, 2)), (3,)),
}


@pytest.mark.parametrize(("subscripts", "operands", "shape"), EINSUMS.values(), ids=EINSUMS)
def test_einsum_broadcasts_axes_of_one(check, check_mapped, subscripts, operands, shape):
    def f(a, b):
        return np.einsum(subscripts, a, b)

    want = np.einsum(subscripts, *operands)
    assert want.shape == shape
    check(f, *operands, want=want)
    check(lambda: f(np.ones((3, 2)), np.array([[0.0, 1.0]])) if subscripts == "ij,ij->ij" else f(*operands), want=want)
    assert_equal(on_tensors(f, *operands), want)
    a, b = operands
    check_mapped(f, np.stack([a, a + 1]), np.stack([b, 2 * b]))


def test_rows_of_einsum_by_hand(check):
    rows = np.array([[0.0, 1.0]] * 3)
    check(lambda a, b: np.einsum("ij,ij->ij", a, b), np.ones((3, 2)), np.array([[0.0, 1.0]]), want=rows)


def test_mapped_vecdot_refuses_an_output_that_would_need_a_reduction(check_mapped):
    """Neither the loop dims of a call nor the examples are summed into an output that lacks them."""
    x, y = np.arange(18.0).reshape(2, 3, 3), np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    check_mapped(lambda x, y: np.vecdot(x, y), x, y, want=np.array([[0.0, 3.0, 6.0], [10.0, 13.0, 16.0]]))
    total = np.zeros(())

    def into(x, y):
        return np.vecdot(x, y, out=total)

    for road in (bl.vmap(into), mapped(into)):
        with pytest.raises(ValueError, match="shape"):
            road(x, y)
        with pytest.raises(TransformError, match="a write to total"):
            road(x[:, 0], y)
    assert total == 0
    dot = bl.gufunc("(n),(n)->()")(lambda x, y: np.sum(x * y))
    for function in (dot, np.vecdot):
        with pytest.raises(ValueError):
            function(x[0], y[0], out=np.empty(()))
        with pytest.raises(ValueError):
            function(bl.asarray(x[0]), bl.asarray(y[0]), out=bl.asarray(np.empty(())))
        out = np.empty(3)
        assert function(x[0], y[0], out=out) is out
        np.testing.assert_array_equal(out, [0, 3, 6])


def test_a_mapped_output_is_written(roads):
    def into(x, y, out):
        return np.vecdot(x, y, out=out)

    x, y = np.arange(18.0).reshape(2, 3, 3), np.ones((2, 3))
    for road in roads(into):
        out = np.full((2, 3), 7.0)
        np.testing.assert_array_equal(road(x, y, out), x.sum(axis=-1))
        np.testing.assert_array_equal(out, x.sum(axis=-1))
