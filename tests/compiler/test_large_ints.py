"""Symbolic ints whose arithmetic leaves 64 bits: Python's unbounded integers decide, and NumPy's own errors."""

from __future__ import annotations

import numpy as np
import pytest

import broadloom as bl
from broadloom.errors import BroadloomError
from broadloom.fusion import memory_plan

LARGE = 2**31 - 1
x = np.arange(1.0, 4.0)
NUMBERS = [
    lambda x, n: np.zeros(n * n * n // (n * n)).sum() + np.zeros(n * n * n // (n * n)).size,
    lambda x, n: x * (2**66 % n),
    lambda x, n: x * (2**70 // n),
    lambda x, n: x * (n % 2**66),
    lambda x, n: x * (n // 2**66),
    lambda x, n: x * (n + 2**63),
    lambda x, n: x * (n * n * 3 - 2**64),
    lambda x, n: x * (-(n * n * n) // (n + 7)),
    lambda x, n: x * (n * n * n / 7),
    lambda x, n: x * ((n * n + 1) / 3),
    lambda x, n: x * n**8,
    lambda x, n: x * max(n, 2**65),
    lambda x, n: x * min(n * n * n, 2**65),
    lambda x, n: x * divmod(2**70, n)[1],
    lambda x, n: x * sum([n] * 5 + [2**63]),
    lambda x, n: x * (x.shape[0] * 2**62 + n),
    lambda x, n: x * float(n * n * n),
    lambda x, n: x[: n * n * n],
    lambda x, n: x[-n * n * n :],
    lambda x, n: np.arange(n * n * 2 - 1, n * n * 2 + 2),
    lambda x, n: x + 1 if n * n * n < 2**64 else x - 1,
]


@pytest.mark.parametrize("fn", NUMBERS)
def test_ints_are_unbounded(fn) -> None:
    compiled = bl.compile(fn, dynamic=True, fullgraph=True)
    for n in (3, 2**22, 5, 2**21 + 1, 94906267):
        want, got = fn(x, n), compiled(x, n)
        assert np.asarray(got).dtype == np.asarray(want).dtype
        np.testing.assert_array_equal(got, want)


def test_sizes_of_views_without_memory_are_unbounded() -> None:
    def f(x, y):
        return x[:3] * (x.size * y.size * x.size * y.size), y[:2] * (x.shape[0] ** 4 + 1)

    compiled = bl.compile(f, dynamic=True, fullgraph=True)
    for n, m in ((4, 5), (10**5, 10**6), (10**6, 10**5), (7, 9)):
        a, b = (np.broadcast_to(np.float64(1.5), (k,)) for k in (n, m))
        for got, want in zip(compiled(a, b), f(a, b), strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "fn",
    [
        lambda x, n: x + np.zeros((n, n, n)).sum(),
        lambda x, n: x + np.broadcast_to(x, (n, n, 3)).sum(),
        lambda x, n: x + np.ones((n, 0, n, n)).sum(),
        lambda x, n: x + np.zeros((n, n, n), np.int8).size,
    ],
)
def test_arrays_beyond_64_bits_are_numpys_error(fn, dynamic) -> None:
    compiled = bl.compile(fn, dynamic=dynamic)
    np.testing.assert_array_equal(compiled(x, 2), fn(x, 2))
    with pytest.raises(ValueError, match=r"too big|too large"), pytest.warns(UserWarning, match="runs as plain"):
        compiled(x, LARGE)
    strict = bl.compile(fn, dynamic=dynamic, fullgraph=True)
    with pytest.raises(BroadloomError, match="an array is too big"):
        strict(x, LARGE)


def test_an_outer_shape_is_guarded_against_its_own_overflow() -> None:
    def f(x, y):
        return (x[:, None, None] + y[:, None] + y).sum()

    compiled = bl.compile(f, dynamic=True)
    assert compiled(x, x[:2]) == f(x, x[:2])
    wide = np.broadcast_to(np.float64(1), (2**22,))
    with pytest.raises(MemoryError, match="Unable to alloc"), pytest.warns(UserWarning, match="an array is too big"):
        compiled(wide, wide)


@pytest.mark.parametrize(
    "fn",
    [
        lambda a, n: np.concatenate([np.ones(n), a]),
        lambda a, n: a * len(np.zeros(n)),
        lambda a, n: (np.zeros((n, 3)).shape, a),
        lambda a, n: np.broadcast_to(a, (n, a.size)).sum(0),
        lambda a, n: np.full((2, n), 3).sum() + a,
        lambda a, n: np.eye(n).sum() + a,
        lambda a, n: np.repeat(a, n),
        lambda a, n: np.repeat(a, [3, n, 3, 3, 3, 3]),
        lambda a, n: np.repeat(a[:0], n),
        lambda a, n: np.linspace(0, 1, n).sum() + a,
        lambda a, n: np.empty((0, n)).size + a,
        lambda a, n: np.pad(a, n),
        lambda a, n: np.tri(n).sum() + a,
        lambda a, n: np.bincount(np.arange(3), minlength=n).sum() + a,
        lambda a, n: np.indices((n, 2)).sum() + a,
        lambda a, n: np.fft.rfft(a, n).size + a,
        lambda a, n: np.tile(a, n),
        lambda a, n: np.lib.stride_tricks.sliding_window_view(a, n).sum(),
        lambda a, n: np.hanning(n).sum() + a,
        lambda a, n: a.reshape(n, -1),
        lambda a, n: np.arange(n).sum() + a,
        lambda a, n: np.identity(n).sum() + a,
    ],
)
@pytest.mark.filterwarnings("ignore:.*runs as plain Python")
def test_a_size_that_turns_negative_is_numpys_error(fn) -> None:
    a = np.arange(6.0)
    compiled = bl.compile(fn, dynamic=True)
    for n in (3, 2, -1, 1, -5, 6):
        try:
            want = fn(a, n)
        except ValueError as error:
            with pytest.raises(ValueError, match=str(error)[:20]):
                compiled(a, n)
            continue
        got = compiled(a, n)
        for g, w in zip(*((r if isinstance(r, tuple) else (r,)) for r in (got, want)), strict=True):
            np.testing.assert_array_equal(g, w)


def test_bounds_of_arange_beyond_64_bits_are_numpys() -> None:
    compiled = bl.compile(lambda n, m: np.arange(n, n + m), dynamic=True)
    for n, m in ((3, 4), (2, 3)):
        np.testing.assert_array_equal(compiled(n, m), np.arange(n, n + m))
    with pytest.warns(UserWarning, match="more than 64 bits"):
        got = compiled(2**63 - 3, 5)
    assert got.dtype == np.arange(2**63 - 3, 2**63 + 2).dtype


def _sliced(a, k):
    for _ in range(12):
        a = a[k:][: len(a) - 1] * 2
    return a


def _averaged(a):
    for _ in range(12):
        a = a[1:] + a[:-1]
    return a


@pytest.mark.parametrize("fn", [_sliced, _averaged])
def test_sizes_of_slices_of_slices_stay_small(fn) -> None:
    compiled = bl.compile(fn, dynamic=True, fullgraph=True, options={"max_specialisations": 30})
    a = np.arange(40.0)
    rest = (1,) if fn is _sliced else ()
    np.testing.assert_array_equal(compiled(a, *rest), fn(a, *rest))
    (graph,) = compiled.report().graphs
    longest = max(len(str(n)) for node in graph.nodes for t in node.types for n in t.shape)
    assert longest < 60
    for n in (30, 13, 12, 5, 1, 0):
        for k in (1, 0, 2, 50)[: 4 if rest else 1]:
            got, want = (f(a[:n], *rest and (k,)) for f in (compiled, fn))
            np.testing.assert_array_equal(got, want)


def test_a_chain_of_symbolic_sizes_reuses_memory_with_few_proofs(monkeypatch) -> None:

    asked = []
    proves = memory_plan.proves
    monkeypatch.setattr(memory_plan, "proves", lambda relation: asked.append(relation) or proves(relation))

    def f(a):
        for i in range(20):
            a = np.concatenate([a, a[: -i or None]])[: a.size]
        return a

    compiled = bl.compile(f, dynamic=True)
    a = np.arange(50.0)
    np.testing.assert_array_equal(compiled(a), f(a))
    assert 0 < len(asked) <= memory_plan.PROOFS * 40
