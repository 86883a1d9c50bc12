"""The template of matrix products on machines with narrower vectors, and the text of its module."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from broadloom.codegen.abi import features_of
from broadloom.codegen.driver import module_text
from broadloom.codegen.matmul.blocks import Machine, tile_shape
from broadloom.codegen.memory import has_masks
from broadloom.compiler.api import make_graph
from broadloom.compiler.build import fuse
from broadloom.passes.table import default_pipeline
from broadloom.platform import Caches
from broadloom.runtime.target import host

from . import programs
from .programs import FEATURES, Native

PAIRS = [((33, 70), (70, 39)), ((100, 1100), (1100, 90)), ((300, 80), (80,)), ((80,), (80, 300)), ((3, 900), (900, 70))]


def layer(x, y):
    return np.maximum(x @ y, 0) * 2


def program(function, *arrays, dynamic=False):
    return fuse(default_pipeline().run(make_graph(function, dynamic=dynamic)(*arrays))).program


def operands(rng, pair, dtype):
    if np.dtype(dtype).kind == "i":
        return [rng.integers(-100, 100, s).astype(dtype) for s in pair]
    return [rng.integers(-8, 9, s).astype(dtype) / 8 for s in pair]  # whose sums are exact


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.int32])
@pytest.mark.parametrize("features", sorted(FEATURES))
def test_machines_with_other_vectors(features, dtype, dynamic, rng, monkeypatch):
    target = replace(host(), features=FEATURES[features])
    monkeypatch.setattr(programs, "host", lambda: target)
    for pair in PAIRS:
        x, y = operands(rng, pair, dtype)
        p = program(layer, x, y, dynamic=dynamic)
        (step,) = p.steps
        assert step.routine == "matmul" and step.epilogue is not None
        np.testing.assert_array_equal(Native(p)(x, y)[0], layer(x, y))


def computed_operands(x, y):
    return np.maximum(x, 0) @ (y * 2)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
@pytest.mark.parametrize("features", sorted(FEATURES))
def test_operands_are_computed_in_other_vectors(features, dtype, dynamic, rng, monkeypatch):
    target = replace(host(), features=FEATURES[features])
    monkeypatch.setattr(programs, "host", lambda: target)
    for pair in [((33, 70), (70, 39)), ((100, 1100), (1100, 90))]:
        for order in "CF":
            x, y = (np.asarray(a, order=order) for a in operands(rng, pair, dtype))
            p = program(computed_operands, x, y, dynamic=dynamic)
            (step,) = p.steps
            assert step.routine == "matmul" and len(step.prologues) == 2
            np.testing.assert_array_equal(Native(p)(x, y)[0], computed_operands(x, y))


def test_the_text_of_a_product_is_short():
    x = np.ones((1024, 1024), np.float32)
    for dynamic, lines in ((False, 900), (True, 1850)):
        text = module_text(program(lambda x, y: x @ y, x, x + 1, dynamic=dynamic), host())
        assert text.count("\n") < lines and not re.search(r"@bl_sgemm", text)
        tiles = re.findall(r"define .*@bl_tile", text)
        assert len(tiles) == (2 if dynamic and not has_masks(features_of(host().features)) else 1)


def test_a_small_product_has_one_tile_where_that_takes_no_longer():
    """Each further one takes LLVM as long as a thousand calls."""
    a, b = np.ones((512, 32, 64), np.float32), np.ones((512, 64, 128), np.float32)
    text = module_text(program(lambda x, y: x @ y, a, b), host())
    assert len(re.findall(r"define .*@bl_tile", text)) <= 2
    for machine in (Machine(16, 32, Caches()), Machine(8, 32, Caches()), Machine(8, 16, Caches())):
        small = tile_shape(machine, 32, 128, 64)
        assert (small.last_rows, small.last_vectors) == (0, 0)


@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize("turned", [False, True])
def test_few_rows_read_the_matrix_where_it_lies(rows, turned):
    """A row or two at a time, as fast as memory gives it; several by tiles, or apart where columns are read along.
    Nothing is packed."""
    x, w = np.ones((rows, 700), np.float32), np.ones((1500, 700) if turned else (700, 1500), np.float32)

    def function(x, w):
        return x @ (w.T if turned else w)

    text = module_text(program(function, x, w), host())
    apart = turned or rows < 3
    assert (f"@bl_thin.{'along' if turned else 'across'}." in text) == apart
    assert ".pack(" not in text and ("@bl_tile." in text) != apart
    either = module_text(program(function, x, w, dynamic=True), host())
    assert "@bl_thin." in either and "@bl_tile." in either


def test_vectors_of_a_row_are_finished_together():
    """So that their instructions take turns: one multiplication in the text, of as many lanes as a tile has columns."""
    x = np.ones((1024, 1024), np.float32)
    text = module_text(program(lambda x, y: (x @ y) * 3.0, x, x + 1), host())
    (lanes,) = re.findall(r"fmul <(\d+) x float>", text)
    assert int(lanes) > host().lanes(32)
