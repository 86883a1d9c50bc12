"""Every ufunc of the table, on every dtype, against NumPy: dtypes, values, kinds, layouts, out= and where=."""

from __future__ import annotations

import operator

import numpy as np
import pytest

from broadloom.dtypes import ALL
from broadloom.frontend import FUNCTIONS
from broadloom.frontend.table import UFUNCS
from tests.frontend.harness import check, refused

ELEMENTWISE = [u for u in UFUNCS if u not in (np.matmul, np.vecdot, np.matvec, np.vecmat)]
VALUES = [0, 1, 2, 3, 5, 7, 100, 120, 1, 0, 2, 6]


def sample(dtype: np.dtype, shift: int = 0) -> np.ndarray:
    x = np.roll(np.array(VALUES), shift)
    if dtype.kind in "if" or dtype.name == "bfloat16":
        x = x * np.where(np.arange(12) % 4 == 1, -1, 1)
    a = x.astype(dtype).reshape(3, 4)
    if dtype.kind == "f":
        a[0, 0], a[1, 1], a[2, 2] = np.nan, np.inf, -0.0
    if dtype.kind == "c":
        a = a * np.array(1 + 0.5j, dtype)
    return a


def numpy_takes(u: np.ufunc, *args: object) -> bool:
    try:
        with np.errstate(all="ignore"):
            u(*args)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


@pytest.mark.parametrize("u", ELEMENTWISE, ids=lambda u: u.__name__)
def test_unary_or_same_dtypes(u: np.ufunc) -> None:
    for d in ALL:
        args = [sample(d.numpy, k) for k in range(u.nin)]
        if u in (np.power, np.float_power, np.left_shift, np.right_shift):
            args[1] = (np.abs(args[1]) if d.kind != "b" else args[1]).astype(d.numpy)
        # composed functions of the library round differently in the last bit
        exact = u not in (np.logaddexp2,)
        if u is np.ldexp:
            args[1] = np.arange(-6, 6).reshape(3, 4).astype(d.numpy if d.kind in "bi" else np.int8)
        if numpy_takes(u, *args):
            check(lambda np, *a: getattr(np, u.__name__)(*a), *args, exact=exact)
        else:
            refused(lambda np, *a: getattr(np, u.__name__)(*a), *args)


MIXED = [np.add, np.multiply, np.divide, np.floor_divide, np.maximum, np.less, np.equal, np.arctan2, np.logical_and]


@pytest.mark.parametrize("u", MIXED, ids=lambda u: u.__name__)
def test_pairs_of_dtypes(u: np.ufunc) -> None:
    for d in ALL:
        for e in ALL:
            a, b = sample(d.numpy), sample(e.numpy, 1)
            if numpy_takes(u, a, b):
                check(lambda np, a, b: getattr(np, u.__name__)(a, b), a, b)
            else:
                refused(lambda np, a, b: getattr(np, u.__name__)(a, b), a, b)


PYTHON_NUMBERS = [True, 0, 1, 3, -1, 127, 128, 255, 256, 300, -129, 2**31, 2**63, 2**64 - 1, 2**64, 0.5, 1e300, 2j]


@pytest.mark.parametrize("number", PYTHON_NUMBERS, ids=str)
@pytest.mark.parametrize("op", ["add", "mul", "truediv", "lt", "eq", "ge", "ne"])
def test_python_numbers_are_weak(op: str, number: complex) -> None:
    function = getattr(operator, op)
    for d in ALL:
        a = sample(d.numpy)
        for f in (lambda np, a: function(a, number), lambda np, a: function(number, a)):
            with np.errstate(all="ignore"):
                try:
                    f(np, a)
                except (OverflowError, TypeError):
                    refused(f, a)
                    continue
            check(f, a)


NUMPY_SCALARS = [np.float32(1.5), np.float64(1.5), np.int8(3), np.uint64(3), np.bool(True), np.complex64(1j)]


@pytest.mark.parametrize("scalar", NUMPY_SCALARS, ids=lambda s: type(s).__name__)
def test_numpy_scalars_are_strong(scalar: np.generic) -> None:
    for d in ALL:
        a = sample(d.numpy)
        check(lambda np, a: a * scalar, a)
        check(lambda np, a: a[0, 1] + scalar, a)


def test_comparisons_of_int64_and_uint64_are_exact() -> None:
    a = np.array([-1, 0, 2**62, -(2**63), 5], np.int64)
    b = np.array([2**64 - 1, 0, 2**62, 2**63, 4], np.uint64)
    for op in ("lt", "le", "gt", "ge", "eq", "ne"):
        function = getattr(operator, op)
        check(lambda np, a, b, f=function: (f(a, b), f(b, a)), a, b)


def test_runtime_python_floats_are_weak() -> None:
    for d in ALL:
        if d.kind != "b":
            check(lambda np, a, y: a * y + y, sample(d.numpy), 1.25)
    check(lambda np, y: np.sin(y), 0.5)


LAYOUTS = {
    "c": lambda: np.arange(24.0).reshape(2, 3, 4),
    "f": lambda: np.asfortranarray(np.arange(24.0).reshape(2, 3, 4)),
    "t": lambda: np.arange(24.0).reshape(4, 2, 3).transpose(1, 2, 0),
    "strided": lambda: np.arange(96.0).reshape(4, 6, 4)[::2, ::2],
    "negative": lambda: np.arange(24.0).reshape(2, 3, 4)[::-1, :, ::-1],
    "broadcast": lambda: np.broadcast_to(np.arange(4.0), (2, 3, 4)),
}


@pytest.mark.parametrize("first", LAYOUTS)
@pytest.mark.parametrize("second", LAYOUTS)
def test_memory_order_of_results(first: str, second: str) -> None:
    a, b = LAYOUTS[first](), LAYOUTS[second]()
    check(lambda np, a, b: (a + b, np.sin(a), a.astype("f4"), np.less(b, a), a + b[0], np.float32(2) * b), a, b)


def test_out_is_written_and_returned() -> None:
    a, out = np.linspace(0, 1, 6), np.zeros(6)
    check(lambda np, a, out: np.sin(a, out=out), a, out)
    check(lambda np, a, out: np.add(a, 1, out), a, out)
    check(lambda np, a, out: np.multiply(a, 2, out=(out,)), a, np.zeros(6, np.float32))
    check(lambda np, a, out: np.add(a, a, out=out, casting="unsafe"), a, np.zeros(6, np.int32))
    check(lambda np, a, out: np.add(a[:3], 1, out=out), a, np.zeros((2, 3)))
    check(lambda np, a, out: np.add(a, 1, out=a[::-1]), a, out)
    check(lambda np, a, out: np.divmod(a, 0.3, out=(out, None)), a, out)
    check(lambda np, a, out: np.exp(a, out=out[::2]), a, np.zeros(12))


def test_out_that_numpy_refuses() -> None:
    a = np.linspace(0, 1, 6)
    refused(lambda np, a, out: np.add(a, 1, out=out), a, np.zeros(6, np.int32))
    refused(lambda np, a, out: np.add(a, 1, out=out), a, np.zeros(5))
    locked = np.zeros(6)
    locked.flags.writeable = False
    refused(lambda np, a, out: np.add(a, 1, out=out), a, locked)


def test_where_leaves_the_rest_of_out() -> None:
    a, out = np.linspace(0, 1, 6), np.full(6, 9.0)
    check(lambda np, a, out: np.sqrt(a, out=out, where=a > 0.5), a, out)
    check(lambda np, a, out: np.add(a, 1, out=out, where=False), a, out)
    check(lambda np, a, m: np.add(a, 1, out=a, where=m), a, np.array([1, 0, 1, 1, 0, 1], bool))
    refused(lambda np, a, m: np.add(a, 1, where=m), a, np.array([1, 0, 1, 1, 0, 1]))


def test_dtype_and_casting() -> None:
    a = np.arange(6, dtype=np.int32)
    check(lambda np, a: np.add(a, 1, dtype=np.float32), a)
    check(lambda np, a: np.sin(a, dtype="f4"), a)
    check(lambda np, a: np.multiply(a, a, signature=("i8", "i8", "i8")), a)
    check(lambda np, a: np.add(a, 1.5, dtype=np.int32, casting="unsafe"), a)
    refused(lambda np, a: np.add(a, 1.5, dtype=np.int32), a)


def test_zero_d_results_are_scalars() -> None:
    a = np.array(2.5)
    check(lambda np, a: (np.sin(a), a + 1, -a, a < 3, np.divmod(a, 2), a * np.ones(1)), a)
    check(lambda np, a, out: np.sin(a, out=out), a, np.array(0.0))


@pytest.mark.parametrize("exponent", [-1, 0, 0.5, 1, 2, 3, np.float32(0.5), np.float64(2), np.int8(-1)], ids=repr)
def test_power_by_one_exponent(exponent: float, rng: np.random.Generator) -> None:
    """NumPy's loop over one exponent is not the function that it is over an array of exponents, by bits."""
    for d in (np.float32, np.float64):
        a = np.concatenate([rng.lognormal(0, 3, 1000), [np.inf, -np.inf, np.nan, 0, -0.0, -2.5]]).astype(d)
        check(lambda np, a: np.power(a, exponent), a, exact=exponent in (-1, 0, 0.5, 1, 2))
        check(lambda np, a, out: np.power(a, exponent, out=out, where=a > 1), a, np.zeros_like(a))


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, -2, 0.5, -0.5, 2.0, 1.5, np.float32(2), np.int64(2)], ids=repr)
def test_power_operator(exponent: float) -> None:
    for d in ALL:
        if d.kind == "b":
            continue
        a = sample(d.numpy)
        f = lambda np, a: a**exponent  # noqa: E731
        try:
            with np.errstate(all="ignore"):
                f(np, a)
        except (ValueError, TypeError, OverflowError):
            refused(f, a)
            continue
        check(f, a)
        check(lambda np, a: np.power(a, exponent), a)


def test_inplace_operators() -> None:
    a, b = np.linspace(1, 2, 6).reshape(2, 3), np.arange(3.0)

    def f(np, a, b):
        a += 1
        a *= b
        a[0] -= 2
        a /= 2
        a **= 2
        c = a.sum()
        c += 1
        return a, c

    check(f, a, b)

    def g(np, a, b):
        a //= 2
        a %= 3
        a <<= 1
        a |= b
        a ^= 1
        return a

    check(g, np.arange(6), np.arange(6))
    refused(lambda np, a, b: operator_iadd(a, b), np.arange(3), np.ones(3))


def operator_iadd(a, b):
    a += b
    return a


def test_ufunc_methods() -> None:
    a, b = np.arange(1.0, 4), np.arange(4)
    check(lambda np, a, b: np.multiply.outer(a, b), a, b)
    check(lambda np, a, b: np.add.outer(a, 1), a, b)
    check(lambda np, a, b: (np.add.reduce(a), np.multiply.reduce(b), np.maximum.reduce(a), np.minimum.reduce(b)), a, b)
    check(lambda np, a, b: (np.logical_and.reduce(a), np.logical_or.reduce(b)), a, b)
    check(lambda np, a, b: np.add.reduce(a.reshape(3, 1) + b), a, b)
    check(lambda np, a, b: np.add.reduce(a.reshape(3, 1) + b, axis=(0, 1), keepdims=True), a, b)
    check(lambda np, a, b: (np.add.accumulate(b), np.maximum.accumulate(a[::-1]), np.multiply.accumulate(a)), a, b)
    check(lambda np, a, b: (np.bitwise_xor.reduce(b), np.subtract.reduce(a), np.bitwise_or.reduce(b)), a, b)
    check(lambda np, a, b: np.hypot.reduce(a), a, b)


def test_every_ufunc_of_the_table_is_an_entry() -> None:
    for u in UFUNCS:
        assert u in FUNCTIONS


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 2.0, True])
def test_powers_of_bools(exponent: object) -> None:
    check(lambda np, x: x**exponent, np.array([[True, False], [False, True]]))
