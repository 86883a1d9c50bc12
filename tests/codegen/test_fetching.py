"""What the next point loads is fetched while the last pass over this one runs."""

from __future__ import annotations

import numpy as np
import pytest

from broadloom.codegen.driver import module_text
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
