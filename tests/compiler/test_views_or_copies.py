"""Whether NumPy reshapes without a copy depends on sizes: one compiled function, called with many, shares what NumPy
shares and writes where NumPy writes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import broadloom as bl

VIEWS = ("x.T", "x[::2]", "x[1:]", "x[:, 1:]", "x[::-1]", "x[:, :2]", "x[None]", "x[:3].T", "x[..., None]", "x.T[1:]")
SHAPES = ("-1", "2, -1", "-1, 2", "3, -1", "len(x), -1", "-1, len(x)", "x.shape[-1], -1", "-1, 2, x.shape[-1]", "4, -1")
ENDS = (
    "y[...] += 1; return x.sum(), y",
    "y[0] = -1; return y",
    "x[...] = 5; return y",
    "return y",
    "return x, y.T",
    "y += x.sum(); return x * 2",
)
LAYOUTS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "strided": lambda x: np.repeat(x, 2, axis=0)[::2],
}


def drawn(rng):
    lines = [f"    x = {rng.choice(VIEWS)}\n" for _ in range(rng.integers(0, 3))]
    reshaped = rng.choice(("x.reshape({})", "np.ravel(x)", "np.reshape(x, ({},))")).format(rng.choice(SHAPES))
    text = f"def f(x):\n{''.join(lines)}    y = {reshaped}\n    {rng.choice(ENDS)}\n"
    space = {"np": np}
    exec(text, space)
    return text, space["f"]


def outcome(function, x):
    """The result, the argument afterwards, and which parts share memory."""
    try:
        result = function(x)
    except (ValueError, IndexError) as error:
        return type(error)
    parts = result if isinstance(result, tuple) else (result,)
    arrays = [x, *(p for p in parts if isinstance(p, np.ndarray))]
    sharing = [np.shares_memory(a, b) for a in arrays for b in arrays]
    return [np.asarray(p).tolist() for p in parts], x.tolist(), sharing


def test_reshapes_at_many_sizes(rng):
    for _ in range(20):
        text, f = drawn(rng)
        layout, dynamic = str(rng.choice(list(LAYOUTS))), bool(rng.random() < 0.5) or None
        compiled = bl.compile(f, dynamic=dynamic, options={"max_specialisations": 30})
        for rows, columns in rng.choice((1, 2, 3, 4, 4, 6, 8, 12), (8, 2)):
            arguments = [LAYOUTS[layout](np.arange(float(rows * columns)).reshape(rows, columns)) for _ in range(2)]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                got, want = outcome(compiled, arguments[0]), outcome(f, arguments[1])
            assert got == want, f"{text}{layout} {rows}x{columns} dynamic={dynamic}"


@pytest.mark.parametrize("dynamic", [None, True])
def test_reshape_that_is_a_view_at_one_size_alone(dynamic):
    def f(x):
        y = x.reshape(2, -1)
        y[0] = -1.0
        return y

    compiled = bl.compile(f, dynamic=dynamic, fullgraph=True)
    for rows in (4, 6, 2, 8, 2):
        arguments = [np.asfortranarray(np.arange(rows * 6.0).reshape(rows, 6)) for _ in range(2)]
        assert outcome(compiled, arguments[0]) == outcome(f, arguments[1])


def test_reshape_of_a_contiguous_array_needs_no_guards_on_sizes():
    compiled = bl.compile(lambda x: x[1:, None].reshape(-1), dynamic=True, fullgraph=True)
    for rows in (5, 2, 1, 9):
        x = np.zeros((rows, 4))
        assert np.shares_memory(compiled(x), x) is (rows > 1)
    assert len(compiled.report().compiles) == 1


@pytest.mark.parametrize("sizes", [(0, 3), (3, 0), (1, 0)], ids=str)
def test_views_of_a_slice_that_is_empty(sizes):
    """A guard says so: no other size is asked for."""

    def f(b, rows, columns):
        x = b[0 : 2 * rows * columns : 2].reshape(rows, columns)
        x[...] = 1
        return np.ascontiguousarray(x.T)

    got = bl.compile(f, fullgraph=True, dynamic=True)(np.arange(50.0), *sizes)
    assert got.shape == sizes[::-1]
