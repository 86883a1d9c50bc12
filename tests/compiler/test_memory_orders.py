"""Which axes have one element or none decides the memory order of some results: compiled once, a function gives NumPy's
strides for all sizes, and is compiled anew for those where the order is another."""

from __future__ import annotations

import linecache
import warnings

import numpy as np
import pytest

import broadloom as bl
from broadloom.capture import memory_orders
from broadloom.symbolic import evaluate

SIZES = (0, 1, 1, 2, 3, 4, 8)
VIEWS = (
    "x.T", "np.swapaxes(x, 0, -1)", "x[1:]", "x[::-1]", "x[..., ::2]", "x[..., ::-1]", "np.moveaxis(x, 0, -1)",
    "x[:, :1]", "x[1:, :-1]", "x[None]", "x[..., None]", "np.flip(x)", "np.broadcast_to(x[:1], x.shape)",
    "x.reshape(x.shape[::-1])", "x[..., 0:1]", "x.T[..., 1:]", "x[..., ::8]",
)  # fmt: skip
OPS = (
    "x + 1", "x * x", "x + x[0]", "y + x", "np.maximum(x, y)", "np.where(x > 2, x, 0)", "np.conj(x)", "np.exp(x)",
    "np.pad(x, 1)", "np.pad(x, (1, 0))", "np.pad(x, 1, mode='edge') if x.size else x", "x.copy()", "np.copy(x)",
    "x.copy('A')", "x.astype(np.float32)", "np.zeros_like(x)", "x.sum(axis=0)", "x.sum(axis=0, keepdims=True)",
    "x.sum(axis=-1, keepdims=True)", "x.max(axis=-1, keepdims=True, initial=0)", "np.cumsum(x, axis=0)",
    "np.roll(x, 1, axis=0)", "np.concatenate([x, x + 1], axis=-1)", "np.stack([x, x])", "np.stack([x, x], axis=-1)",
    "np.sort(x, axis=-1)", "np.repeat(x, 2, axis=0)", "x[[0, 0]] if len(x) else x", "np.take(x, [0], axis=-1)",
    "x @ np.swapaxes(x, -1, -2)", "x.flatten('A').reshape(-1, 1)",
)  # fmt: skip


def seen(x):
    """Type, sizes and strides, but for those that find no element."""
    strides = () if x.size == 0 else tuple(s for s, n in zip(x.strides, x.shape, strict=True) if n > 1)
    return (
        type(x),
        x.dtype,
        x.shape,
        strides,
        x.flags.c_contiguous,
        x.flags.f_contiguous,
        x.size == 0 or x.flags.writeable,
    )


def compiles(function):
    return len(function.report().compiles)


def array(rng, shape):
    """An array of which NumPy may not know the order: permuted, sliced with steps of either sign, broadcast."""
    permutation = rng.permutation(len(shape))
    kinds = [str(rng.choice(("plain", "plain", "plain", "step", "back", "same"))) for _ in shape]
    inner = [{"plain": n, "step": 2 * n, "back": n, "same": 1}[k] for k, n in zip(kinds, shape, strict=True)]
    memory = np.arange(float(np.prod(inner))).reshape([inner[a] for a in permutation])
    steps = {"plain": None, "step": 2, "back": -1, "same": None}
    x = memory.transpose(np.argsort(permutation))[tuple(slice(None, None, steps[k]) for k in kinds)]
    x = np.broadcast_to(x, shape)
    x.flags.writeable = False
    return x


def program(rng):
    """`def f(x, y)`: views and steps whose results have orders of their own."""
    lines = [f"    x = {rng.choice(VIEWS if rng.random() < 0.45 else OPS)}\n" for _ in range(rng.integers(1, 6))]
    text = f"def f(x, y):\n{''.join(lines)}    return x, x + 1\n"
    file = f"<order {abs(hash(text))}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space = {"np": np}
    exec(compile(text, file, "exec"), space)
    return text, space["f"]


def outcome(function, x, y):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return function(x, y)
        except (ValueError, IndexError) as error:
            return type(error)


def test_random_programs_have_numpys_strides(request, rng):
    for _ in range(2000 if request.config.getoption("--full") else 25):
        text, f = program(rng)
        dynamic, ndim = (None, True, True, False)[rng.integers(4)], int(rng.integers(2, 4))
        g = bl.compile(f, dynamic=dynamic, options={"use_cache": False, "max_specialisations": 30})
        for _ in range(6):
            shape = tuple(int(n) for n in rng.choice(SIZES, ndim))
            if 0 in shape and ("sum" in text or "max(" in text):
                continue  # a difference that is listed
            x = array(rng, shape)
            y = array(rng, shape[::-1] if rng.random() < 0.3 else shape)
            want, got = outcome(f, x, y), outcome(g, x, y)
            about = f"{text}{x.shape} {x.strides}, {y.shape} {y.strides}, dynamic={dynamic}"
            if isinstance(want, type):
                assert got is want, about
                continue
            for a, b in zip(got, want, strict=True):
                assert seen(a) == seen(b), about
                np.testing.assert_allclose(a, b, rtol=1e-5, err_msg=about)
                assert a.size == 0 or np.shares_memory(a, x) == np.shares_memory(b, x), about


CASES = {
    "contiguous in both orders": (lambda x: np.pad(x.T, (1, 0)), np.ones((1, 8))),
    "swapped": (lambda x: np.pad(np.swapaxes(x, 0, -1), (1, 0)), np.ones((1, 8))),
    "without elements": (lambda x: np.pad(x.swapaxes(0, 2), 2), np.ones((2, 0, 17))),
    "broadcast": (lambda x: x + 1, np.broadcast_to(np.arange(12).reshape(12, 1, 1), (12, 9, 1))),
    "zero strides": (lambda x: np.conj(x), np.lib.stride_tricks.as_strided(np.arange(12), (4, 3, 1), (8, 0, 0))),
    "cut to one": (lambda x: np.pad(x[1:].T, (1, 0)), np.ones((2, 8))),
    "two axes of one": (lambda x: np.pad(x.transpose(2, 1, 0), 1), np.ones((1, 1, 5))),
    "step beyond ordinary sizes": (lambda x: np.pad(x[:, ::8].T, (1, 0)), np.ones((3, 30))),
    "by an order": (lambda x: np.pad(x.T.copy("A"), (1, 0)), np.ones((1, 8))),
    "by its kin": (lambda x: np.pad(x.T, ((1, 0), (2, 1)), mode="edge"), np.ones((1, 8))),
    "no empty array of an empty one": (lambda x: np.pad(x, (1, 0))[..., ::-1].reshape(-1, 1), np.ones((0, 4))),
    "a view of an argument": (lambda x: x.reshape(x.shape[::-1]) + 1, np.ones((8, 2, 8))[::2, :, ::2]),
    "a view by strides": (lambda x: x.reshape(x.shape[-1:] + x.shape[:-1]) + 1, np.ones((8, 2, 2)).transpose(2, 0, 1)),
    "an order in Python": (lambda x: np.pad(np.zeros_like(x.T, shape=(4, 4)), 1), np.ones((1, 8))),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dynamic", [False, True, None])
def test_sizes_of_one_and_none(name, dynamic):
    f, x = CASES[name]
    g = bl.compile(f, dynamic=dynamic, fullgraph=True)
    if dynamic is None:  # the sizes become symbols first
        for more in (2, 3):
            wider = np.ones(tuple(n + more for n in x.shape))
            assert g(wider).strides == f(wider).strides
    assert g(x).strides == f(x).strides
    assert g(x).shape == f(x).shape


def test_one_recording_serves_all_sizes_where_the_order_is_one():
    def f(x, y):
        return x + 1, np.pad(x, 1), x.T + 1, x.T @ y, x.T.sum(axis=0), y.T.copy(), (x - x.mean(axis=0)).T

    g = bl.compile(f, dynamic=True, fullgraph=True)
    for shape in ((3, 4), (1, 4), (4, 1), (1, 1), (0, 3), (3, 0), (2, 2)):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            x = np.ones(shape)
            for got, want in zip(g(x, x), f(x, x), strict=True):
                assert seen(got) == seen(want)
    assert compiles(g) == 1

    h = bl.compile(lambda x: x + 1, dynamic=True, fullgraph=True)
    for shape in ((2, 3, 4), (1, 3, 4), (2, 1, 4), (2, 3, 1), (5, 7, 9)):
        x = np.ones(shape[::-1]).T
        assert h(x).strides == (x + 1).strides
    assert compiles(h) == 1


def test_recompiles_are_as_many_as_there_are_orders():
    g = bl.compile(lambda x: np.pad(x.T, (1, 0)), fullgraph=True)
    for n in (4, 3, 2, 17, 1, 5, 1, 0, 6, 0, 9):
        x = np.ones((n, 8))
        assert g(x).strides == np.pad(x.T, (1, 0)).strides
    assert compiles(g) == 4  # 4, any n from two on, one and none
    assert any("no longer satisfy 2 <= s0: s0 = L['x'].shape[0] = 1" in r.reason for r in g.report().recompiles)


def test_a_stride_of_zero_is_a_layout_of_its_own():
    def f(x):
        return x.T + 1

    g = bl.compile(f, dynamic=True, fullgraph=True)
    for x in (np.ones((6, 8))[:, ::2], np.broadcast_to(np.ones((6, 2))[:, :1], (6, 4)), np.ones((8, 8))[::2, ::2]):
        assert g(x).strides == f(x).strides
    assert compiles(g) == 2


def test_long_programs_of_permuted_arrays_are_not_tried_out():
    def f(x):
        y = x.T
        for _ in range(300):
            y = y * 2 + 1
        return np.pad(y, (1, 0))

    g = bl.compile(f, dynamic=True, fullgraph=True, options={"use_cache": False})
    for shape in ((3, 4), (5, 6), (1, 4)):
        x = np.ones(shape)
        assert g(x).strides == f(x).strides
    assert compiles(g) == 2


def test_sizes_that_guards_rule_out_count(monkeypatch):
    """Of many sizes there are too many choices to look at, also where guards allow hardly any."""
    looked_at = []
    monkeypatch.setattr(memory_orders, "evaluate", lambda n, values: looked_at.append(n) or evaluate(n, values))

    def long(*arrays):
        if any(x.shape[0] < 50 for x in arrays):
            return arrays[0]
        return np.concatenate([arrays[k][: arrays[k + 1].shape[0] // 2] for k in range(12)]) * 2

    f = bl.compile(long, fullgraph=True, dynamic=True)
    for size in (60, 75):
        arrays = [np.asfortranarray(np.arange(3.0 * (size + k)).reshape(-1, 3)) for k in range(13)]
        got, want = f(*arrays), long(*arrays)
        np.testing.assert_array_equal(got, want)
        assert got.strides == want.strides
    assert 0 < len(looked_at) < 20 * memory_orders.MOST_STEPS


def test_a_size_may_be_divided_by_one_that_is_tried_as_none():
    def f(x, y):
        n = x.shape[0] - 1
        v = x[1:].reshape(n, -1)
        m = min(v.shape[0], y.shape[0])
        return np.stack([v[:m], y[:m]], 1).reshape(2 * m, -1)

    g = bl.compile(f, fullgraph=True, dynamic=True)
    for n, m in ((5, 4), (4, 7), (2, 1)):
        x, y = (np.asfortranarray(np.arange(3.0 * k).reshape(k, 3)) for k in (n, m))
        np.testing.assert_array_equal(g(x, y), f(x, y))
        assert g(x, y).strides == f(x, y).strides


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "function",
    [lambda x: np.array([x, x * 2]), lambda x: np.asarray([[x, x]]), lambda x: np.array([x, x], order="F"), np.stack],
    ids=["array", "nested", "fortran", "stack"],
)
def test_arrays_of_lists_of_arrays(function, dynamic):
    """They are in C order, whatever the parts are; `np.stack` takes the order of the parts."""
    x = np.asfortranarray(np.arange(12.0).reshape(3, 4))
    given = [x, x] if function is np.stack else x
    want = function(given)
    got = bl.compile(lambda *xs: function(list(xs) if function is np.stack else xs[0]), dynamic=dynamic)(
        *(given if isinstance(given, list) else [given])
    )
    assert got.strides == want.strides
    np.testing.assert_array_equal(got, want)
