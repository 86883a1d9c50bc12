"""What the next point loads is fetched while the last pass over this one runs."""

from __future__ import annotations

import numpy as np
import pytest

import broadloom as bl
from broadloom.codegen.abi import features_of
from broadloom.codegen.driver import module_text
from broadloom.codegen.memory import LINE
from broadloom.codegen.plans import ALONG
from broadloom.codegen.tiles import side_of
from broadloom.compiler.api import make_graph
from broadloom.compiler.build import fuse
from broadloom.passes.table import default_pipeline
from broadloom.runtime.target import host


def fetches(function, shape, dynamic=False):
    graph = default_pipeline().run(make_graph(function, dynamic=dynamic)(np.ones(shape, np.float32)))
    return module_text(fuse(graph).program, host()).count("call void @llvm.prefetch")


@pytest.mark.parametrize("dynamic", [False, True])
def test_two_passes_over_chunks_fetch_the_next(dynamic):
    assert fetches(lambda x: np.var(x), 100_000, dynamic) > 0


def test_one_pass_and_short_rows_do_not():
    assert fetches(lambda x: np.sum(x), 100_000) == 0
    assert fetches(lambda x: x / np.sum(x, axis=-1, keepdims=True), (100, 100)) == 0


def test_only_the_last_pass_does():
    def f(x):
        centred = x - np.mean(x, axis=-1, keepdims=True)
        return centred / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True))

    one = fetches(lambda x: x - np.mean(x, axis=-1, keepdims=True), (100, 4096))
    assert fetches(f, (100, 4096)) <= one


def test_a_tile_fetches_rows_and_columns_of_the_next():
    lines = -(-ALONG * 4 // LINE) + 1  # of a row of a tile, which may begin within a line
    side = side_of(32, features_of(host().features))  # columns of a square
    assert fetches(lambda x: x.T + x, (300, 300)) == 2 * lines + side  # a load, a store, and a load across
    assert fetches(lambda x: x.T.copy(), (300, 200)) == lines + side
    assert fetches(lambda x: x + 1, (300, 300)) == 0


@pytest.mark.parametrize("shape", [(33, 65), (64, 64), (100, 257), (1000, 40)])
def test_tiles_at_every_edge(shape, rng):
    x = rng.standard_normal(shape).astype(np.float32)
    places = rng.integers(0, shape[1], shape[1])

    def f(x, places):
        return x.T * 2, (x[:, places].T + 1).copy(), x[::-1].T + np.arange(shape[1])[:, None]

    for dynamic in (False, True):
        for got, want in zip(bl.compile(f, dynamic=dynamic, fullgraph=True)(x, places), f(x, places), strict=True):
            np.testing.assert_array_equal(got, want)
