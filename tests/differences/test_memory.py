"""Memory, threads and errors: each statement of docs/differences.md about them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy._core.multiarray import get_handler_name

import broadloom as bl
from broadloom.runtime.allocator import DEFAULT_LIMIT


def compiled(function, **arguments):
    return bl.compile(function, fullgraph=True, **arguments)


def seen(x, argument):
    """What can be seen of a result."""
    if not isinstance(x, np.ndarray):
        return type(x), x.dtype, x
    strides = tuple(s for s, n in zip(x.strides, x.shape, strict=True) if n > 1)
    flags = x.flags.writeable, x.flags.owndata, x.flags.c_contiguous, x.flags.f_contiguous
    return type(x), x.dtype, x.shape, strides, flags, x is argument, np.shares_memory(x, argument), x.tolist()


@pytest.mark.difference("Apart from what stands here, a compiled function gives what NumPy gives:")
@pytest.mark.parametrize("dynamic", [False, True])
def test_results_are_like_numpys_in_all_that_can_be_seen(dynamic):
    def f(x):
        shown = x, x.T, x[1:, ::-1], x.flatten(), x.ravel(), x.T.ravel(), x.T.flatten("F"), x.reshape(-1)
        return *shown, x.sum(), x.sum(axis=0), x * 2, x.T + 1, np.broadcast_to(x[0], x.shape), x.astype(np.float32)

    g = compiled(f, dynamic=dynamic)
    for x in (np.arange(12.0).reshape(3, 4), np.arange(12.0).reshape(4, 3).T, np.arange(48.0).reshape(6, 8)[::2, ::2]):
        got, want = g(x), f(x)
        assert [seen(y, x) for y in got] == [seen(y, x) for y in want]
        shared = [[np.shares_memory(a, b) for a in r[:8] for b in r[:8]] for r in (got, want)]
        assert shared[0] == shared[1]


@pytest.mark.difference("The stride of an axis of one element may differ,")
@pytest.mark.parametrize("dynamic", [False, True])
def test_only_strides_of_one_element_may_differ(dynamic):
    def f(x):
        return x.T + 1, x * 2, np.broadcast_to(x, x.shape), x.T.copy("A")

    g = compiled(f, dynamic=dynamic)
    differ = 0
    for shape in ((3, 4), (1, 4), (4, 1), (1, 1)):
        for x in (np.ones(shape), np.ones(shape[::-1]).T):
            for got, want in zip(g(x), f(x), strict=True):
                assert seen(got, x) == seen(want, x)
                differ += got.strides != want.strides
    assert differ or not dynamic


@pytest.mark.difference("Where the result of an operator has the size and dtype of an operand that nothing else")
@pytest.mark.parametrize("dynamic", [False, True])
def test_memory_that_is_taken_over_has_no_say_in_the_order(dynamic):
    def f(x, y):
        return (x * 2) - y

    g = compiled(f, dynamic=dynamic)
    for n, order in ((40, "C"), (400, "F")):
        x, y = np.asfortranarray(np.arange(n * n, dtype=float).reshape(n, n)), np.ones((n, n))
        assert f(x, y).flags[f"{order}_CONTIGUOUS"]
        assert g(x, y).flags.c_contiguous
        np.testing.assert_array_equal(g(x, y), f(x, y))


@pytest.mark.difference("A reduction along an axis without elements takes the argument as one in C order;")
@pytest.mark.parametrize("dynamic", [False, True])
def test_reductions_of_nothing_are_in_c_order(dynamic):
    def f(x):
        return x.sum(axis=-1)

    x = np.ones((3, 4, 5)).T[..., :0]
    got, want = compiled(f, dynamic=dynamic)(x), f(x)
    assert (got.tolist(), got.strides, want.strides) == (want.tolist(), (32, 8), (8, 40))


@pytest.mark.difference(
    "The memory order of a reduction of a broadcast array, or of what `np.linalg` makes of one, may"
)
def test_solutions_of_broadcast_matrices_differ_in_memory_order_only():
    a, b = np.array([[[[2, 1], [1, 3]]], [[[1, 0], [4, 1]]]], np.int32), np.array([3.0, 5.0])

    def f(a, b):
        return np.linalg.solve(np.broadcast_to(a, (3, *a.shape)), b)

    for dynamic in (False, True):
        got, want = bl.compile(f, dynamic=dynamic)(a, b), f(a, b)
        np.testing.assert_allclose(got, want)
        assert got.dtype == want.dtype and got.transpose(np.argsort(got.strides)[::-1]).flags.c_contiguous


@pytest.mark.difference(
    "The memory order of a reduction of a broadcast array, or of what `np.linalg` makes of one, may"
)
def test_reductions_of_broadcast_arrays_differ_in_memory_order_only():
    base = np.arange(2 * 3 * 4, dtype=np.int32).reshape(4, 3, 2)[:1, :1]

    def f(x):
        return x.mean(axis=0), x.sum(axis=-1), x.var(axis=1)

    def inside(x):
        return f(np.broadcast_to(x, (4, 3, 2)))

    for g, x in ((f, np.broadcast_to(base, (4, 3, 2))), (inside, base)):
        pairs = list(zip(compiled(g)(x), g(x), strict=True))
        for got, want in pairs:
            np.testing.assert_array_equal(got, want)
            assert got.dtype == want.dtype and sorted(got.strides)[0] == got.itemsize
            assert got.flags.c_contiguous or got.flags.f_contiguous
        assert [got.strides == want.strides for got, want in pairs] == [False, True, False]


@pytest.mark.difference("Where a size that is a symbol happens to be 0,")
def test_arrays_without_elements_may_be_fresh():
    def f(x):
        return np.asfortranarray(x), x.ravel("F"), x * 2

    g = compiled(f, dynamic=True)
    g(np.ones((3, 4)))
    x = np.ones((0, 4))
    got, want = g(x), f(x)
    assert [(y.dtype, y.shape, y.flags.writeable) for y in got] == [(y.dtype, y.shape, y.flags.writeable) for y in want]
    assert want[0] is x and got[0] is not x and want[1].base is x and got[1].base is None
    assert not any(np.shares_memory(y, x) for y in (*got, *want))


@pytest.mark.difference("A view of a `numpy.memmap` argument is a `memmap`, and a fresh result a plain array.")
def test_memory_maps(tmp_path):
    def f(x):
        return x[1:], x * 2, x.copy(), x.astype(np.float32), x.flatten(), np.zeros_like(x), np.asarray(x)

    x = np.memmap(tmp_path / "x", np.float64, "w+", shape=(4,))
    x[:] = [1, 2, 3, 4]
    got, want = compiled(f)(x), f(x)
    assert [type(y) for y in got] == [np.memmap, *[np.ndarray] * 5, np.memmap] and got[-1] is x
    assert [type(y) for y in want] == [np.memmap, np.ndarray, *[np.memmap] * 4, np.ndarray]
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.shares_memory(got[0], x) and not any(np.shares_memory(y, x) for y in got[1:-1])


@pytest.mark.difference("Generated kernels give the same bits for any number of threads")
def test_bits_do_not_depend_on_threads_and_library_calls_are_listed(rng):
    x, z = rng.normal(size=(600, 500)), rng.normal(size=(60, 50)) * (1 + 1j)

    def f(x):
        return x.sum(), x.sum(axis=0), np.exp(x).mean(axis=1), x.cumsum(axis=0), x @ x.T

    alone, *others = ([y.tobytes() for y in compiled(f, options={"num_threads": n})(x)] for n in (1, 2, 5))
    assert all(other == alone for other in others)
    product, loops = compiled(lambda x: x @ x.T), compiled(lambda x: x @ x.T, options={"deterministic": True})
    np.testing.assert_allclose(product(z), loops(z), rtol=1e-10, atol=1e-10)
    assert any(k.kind == "gemm" for k in product.report().kernels)
    assert {k.kind for k in loops.report().kernels} == {"kernel"}


@pytest.mark.difference("Results own their data, as NumPy's do.")
def test_large_results_come_from_the_handler_of_broadloom():
    f = compiled(lambda x: x * 2)
    large, small = f(np.ones(1 << 17)), f(np.ones((1 << 17) - 100))
    assert large.flags.owndata and small.flags.owndata
    assert get_handler_name(large) == "broadloom"
    assert get_handler_name(small) == get_handler_name(np.ones(1 << 17)) == get_handler_name()
    assert DEFAULT_LIMIT <= 512 << 20


def doubled_and_reversed(x):
    y = x * 2
    return y[::-1], y


@pytest.mark.difference("Results own their data, as NumPy's do.")
def test_views_among_results_share_a_block():
    view, whole = compiled(doubled_and_reversed)(np.arange(5.0))
    assert np.shares_memory(view, whole) and not whole.flags.owndata and view.base is not whole
    view, whole = doubled_and_reversed(np.arange(5.0))
    assert whole.flags.owndata and view.base is whole


@pytest.mark.difference("An array that is assigned to a part of itself is read as it was before")
@pytest.mark.parametrize("dynamic", [False, True])
def test_overlapping_parts_are_read_before_they_are_written(dynamic):
    def f(x):
        x[2:7] = x[:9:2]
        return x

    got, want = compiled(f, dynamic=dynamic)(np.arange(10)), f(np.arange(10))
    assert got.tolist() == [0, 1, 0, 2, 4, 6, 8, 7, 8, 9] and want.tolist() != got.tolist()


@pytest.mark.difference("An error that NumPy raises for a value, such as an index out of range,")
def test_errors_name_the_first_element_and_leave_outputs_alone():
    def f(x, i, out):
        np.multiply(x, 2, out=out)
        return x[i]

    g = compiled(f)
    x, out = np.arange(100.0), np.zeros(100)
    i = np.zeros(300_000, np.int64)
    i[[250_001, 123_456, 299_999]] = 500, -200, 700
    for _ in range(3):
        with pytest.raises(IndexError, match="index -200 is out of bounds for axis 0 with size 100"):
            g(x, i, out)
    assert not out.any()
    with pytest.raises(IndexError, match="index -200 is out of bounds"):
        f(x, i, out)
    assert out.any()


@pytest.mark.difference("A view of packed integers that a compiled or mapped function returns")
def test_views_of_packed_integers_are_fresh_where_compiled():
    def f(x):
        return x, x[1:]

    x = bl.asarray([1, 2, 3], dtype=bl.uint3)
    same, view = compiled(f)(x)
    assert same is x
    x[1:] = 0
    assert f(x)[1].tolist() == [0, 0] and view.tolist() == [2, 3]
