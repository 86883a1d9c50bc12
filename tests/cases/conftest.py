"""Every case is compiled in all of these ways: static and dynamic sizes, fusion on and off, a cold and a warm cache.

A function of one example is also mapped: at once, by the dispatch stack, and compiled in each of the ways.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import broadloom as bl
from broadloom.transforms.vmap import mapped

WAYS = list(itertools.product((None, True, False), (True, False)))


@pytest.fixture(params=WAYS, ids=lambda way: f"dynamic={way[0]},fusion={way[1]}")
def ways(request, tmp_path):
    """`ways(f)`: the compiled forms of `f` under one setting: first with an empty cache, then with a filled one."""
    dynamic, fusion = request.param

    folders = itertools.count()

    def compiled(function, **arguments):
        folder = tmp_path / f"cache{next(folders)}"
        options = {"fusion": fusion, "cache_dir": folder, **arguments.pop("options", {})}
        for expected in ("miss", "hit"):
            made = bl.compile(function, dynamic=dynamic, fullgraph=True, options=options, **arguments)
            yield made
            assert {c.cache for c in made.report().compiles} <= {expected}, "each way compiles, or reads, as it should"

    return compiled


def assert_equal(got, want):
    """Equal in type, dtype, shape and bits; containers item by item."""
    assert type(got) is type(want)
    if isinstance(want, tuple | list):
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            assert_equal(a, b)
    elif isinstance(want, np.ndarray | np.generic):
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_array_equal(got, want)
        if want.dtype.kind in "fc":
            np.testing.assert_array_equal(np.signbit(got.real), np.signbit(want.real))
    else:
        assert got == want


@pytest.fixture
def check(ways):
    """`check(f, *args, want=...)`: every compiled form gives `want`, which is what the plain function gives."""

    def run(function, *arguments, want=None):
        plain = function(*(a.copy() if isinstance(a, np.ndarray) else a for a in arguments))
        if want is not None:
            assert_equal(plain, want)
        for compiled in ways(function):
            for _ in range(2):
                given = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
                again = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
                assert_equal(compiled(*given), function(*again))
                for a, b in zip(given, again, strict=True):
                    if isinstance(a, np.ndarray):
                        np.testing.assert_array_equal(a, b)

    return run


def stacked(results):
    """The results of single examples along a new first axis; tuples item by item."""
    if isinstance(results[0], tuple):
        return tuple(stacked(column) for column in zip(*results, strict=True))
    return np.stack(results)


@pytest.fixture
def roads(ways):
    """`roads(f)`: the mapped forms of `f`: at once, by the dispatch stack, and compiled."""

    def run(function, **arguments):
        yield bl.vmap(function, **arguments)
        yield mapped(function, **arguments)
        yield from ways(bl.vmap(function, **arguments))

    return run


@pytest.fixture
def check_mapped(roads):
    """`check_mapped(f, *args, want=...)`: on every road, examples along the first axis of each argument give `want`,
    which is what a loop over them gives."""

    def run(function, *arguments, want=None):
        loop = stacked([function(*(a[k] for a in arguments)) for k in range(len(arguments[0]))])
        if want is not None:
            assert_equal(loop, want)
        for road in roads(function):
            for _ in range(2):
                assert_equal(road(*(a.copy() for a in arguments)), loop)

    return run


def on_tensors(function, *arguments):
    """What the function gives at once for tensors, as arrays."""
    result = function(*(bl.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments))
    parts = result if isinstance(result, tuple) else (result,)
    assert all(isinstance(p, bl.Tensor) for p in parts)
    arrays = tuple(p.numpy() for p in parts)
    return arrays if isinstance(result, tuple) else arrays[0]
