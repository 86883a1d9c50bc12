"""What passes over a row hand on stays on the stack: which buffers, what is left in memory, and that values stay."""

from __future__ import annotations

import numpy as np
import pytest

import broadloom as bl
from broadloom.codegen import prepare, row_buffers
from broadloom.codegen.driver import module_text
from broadloom.codegen.row_buffers import ROOM, Kept, keep_rows
from broadloom.dtypes import float32
from broadloom.fusion.handlers import accesses
from broadloom.fusion.ir import Accumulated, Accumulator, Kernel, Reduce, Stage
from broadloom.runtime.target import host
from broadloom.symbolic import Symbol

from .programs import Native, Written, array, loop
from .programs import program as by_hand
from .test_panels import kernels, program
from .test_rows import layer_norm, softmax


def kept(function, *arrays):
    """The only kernel of a function, with its row buffers."""
    p = program(function, *arrays)
    (kernel,) = kernels(p)
    private = {b.name for b in p.buffers if b.kind == "workspace"}
    return keep_rows(kernel, {b.name: b for b in p.buffers}, private)


def touched(kernel, mode):
    return [a.buffer for s in kernel.stages for a in accesses(s.body) if a.mode == mode]


def without_row_buffers(function, monkeypatch):
    with monkeypatch.context() as m:
        m.setattr(prepare, "keep_rows", lambda kernel, buffers, private: Kept(kernel))
        return function()


def test_memory_is_written_once(rng):
    x = rng.normal(size=(20, 300)).astype(np.float32)
    found = kept(softmax, x)
    assert touched(found.kernel, "set") == ["row0", "out0"]
    assert touched(found.kernel, "load") == ["in0", "in0", "row0"]
    assert [(r.dtype, r.layout.shape) for r in found.rows] == [(float32, (300,))]
    scale = rng.normal(size=300).astype(np.float32)
    found = kept(layer_norm, x, x + 1, scale, scale)
    assert touched(found.kernel, "set") == ["row0", "out0"] and "out0" not in touched(found.kernel, "load")


def test_a_workspace_of_rows_is_not_allocated(rng, monkeypatch):
    def attended(x, values):
        return np.sum(softmax(x) * values, axis=-1)

    x, values = rng.normal(size=(2, 40, 333))
    p = program(attended, x, values)
    native = Native(p)
    (got,) = native(x, values)
    assert native.allocated == 0
    plain = without_row_buffers(lambda: Native(p), monkeypatch)
    assert got.tobytes() == plain(x, values)[0].tobytes() and plain.allocated >= x.nbytes


@pytest.mark.parametrize("function", [softmax, lambda x: layer_norm(x, x * 2, x[0], x[1])])
@pytest.mark.parametrize("shape", [(1, 40), (9, 33), (40, 257), (20, 4096), (17, 5000)])
def test_values_stay(function, shape, rng, monkeypatch):
    x = rng.normal(size=(max(2, shape[0]), shape[1])).astype(np.float32)
    p = program(function, x)
    (got,), (want,) = Native(p)(x), without_row_buffers(lambda: Native(p), monkeypatch)(x)
    assert got.tobytes() == want.tobytes()


def test_rows_of_several_axes_and_dtypes(rng, monkeypatch):
    def standardised(x):
        h = x.astype(np.float16)
        centred = h - np.max(h, axis=(-2, -1), keepdims=True)
        small = np.exp(centred.astype(np.float32))
        return (small / np.sum(small, axis=(-2, -1), keepdims=True)).astype(np.float16), centred

    x = rng.integers(0, 200, (17, 8, 25), dtype=np.uint8)
    p = program(standardised, x)
    got, want = Native(p)(x), without_row_buffers(lambda: Native(p), monkeypatch)(x)
    assert [g.tobytes() for g in got] == [w.tobytes() for w in want]


def test_rows_that_there_is_no_room_for(rng):
    x = rng.normal(size=(20, ROOM // 8 + 1))
    assert kept(softmax, x).rows == ()
    assert kept(softmax, x[:, 1:]).rows != ()
    assert kept(lambda x: x.sum(-1), x[:, 1:]).rows == ()
    assert kept(lambda x: np.exp(x - x.max(0)) / x.max(0), x[:, :40].copy()).rows == ()  # runs in columns


def passes(*stages):
    """A kernel over 5 rows of "x" of float32, whose stages store and load rows of "o"."""
    i, j = loop("i", 5), loop("j", 40)
    at = i.variable * 40 + j.variable
    made = []
    for stage in stages:
        w = Written()
        value = w.load("x", at, float32)
        for step in stage.split():
            if step == "load":
                value = w.op("add", value, w.load("o", at, float32), dtype=float32)
            elif step == "ahead":
                value = w.op("add", value, w.load("o", at + 1, float32), dtype=float32)
            else:
                w.store("o", at, value)
        w.put(Reduce("a", value))
        made.append(Stage((j,), w.body()))
    s = Written()
    s.store("p", i.variable, s.put(Accumulated("a", float32)))
    kernel = Kernel("k", (i,), (*made, Stage((), s.body())), (Accumulator("a", "sum", float32, float32),))
    buffers = [
        array("x", float32, (5, 40), "input", 0),
        array("o", float32, (5, 40), "output", 0),
        array("p", float32, (5,), "output", 1),
    ]
    return kernel, buffers


@pytest.mark.parametrize(
    ("stages", "stored"),
    [
        (("store", "load", "load store"), ["row0", "o", "p"]),
        (("store", "load store", "load store"), ["row0", "row0", "o", "p"]),
        (("store", "load store", "load"), ["row0", "o", "p"]),  # what is loaded behind the last store is in memory
        (("store", "load"), ["o", "p"]),
        (("load store", "load store"), ["o", "o", "p"]),  # what an earlier kernel stored
        (("store", "ahead store"), ["o", "o", "p"]),  # what another point stores
        (("store", "store load"), ["o", "o", "p"]),
    ],
)
def test_which_buffers_are_replaced(stages, stored, rng):
    kernel, buffers = passes(*stages)
    found = keep_rows(kernel, {b.name: b for b in buffers}, ())
    assert touched(found.kernel, "set") == stored
    if "ahead" not in "".join(stages) and stages[0] == "store":
        x = rng.normal(size=(5, 40)).astype(np.float32)
        row, total, magnitude = np.zeros_like(x), np.zeros(5), 0.0
        for stage in stages:
            value = x
            for step in stage.split():
                value, row = (value + row, row) if step == "load" else (value, value)
            total, magnitude = total + value.sum(-1, np.float64), magnitude + np.abs(value).sum()
        out, sums = Native(by_hand([kernel], buffers))(x)
        assert out.tobytes() == row.tobytes()
        np.testing.assert_allclose(sums, total, rtol=1e-6, atol=1e-6 * magnitude)  # sums may cancel out


def test_a_row_whose_length_is_not_known_stays_in_memory(rng):
    x = rng.normal(size=(6, 50))
    p = program(softmax, x, dynamic=True)
    (kernel,) = kernels(p)
    assert keep_rows(kernel, {b.name: b for b in p.buffers}, ()).rows == ()
    np.testing.assert_allclose(Native(p)(x)[0], softmax(x), rtol=1e-14)
    assert isinstance(p.symbols[0], Symbol)


def test_threads_have_row_buffers_of_their_own(rng):
    x = rng.normal(size=(2000, 256)).astype(np.float32)
    results = {n: bl.compile(softmax, options={"num_threads": n})(x).tobytes() for n in (1, 2, 3, 4)}
    assert len(set(results.values())) == 1


def test_equal_programs_give_equal_text(rng):
    x = rng.normal(size=(20, 300)).astype(np.float32)
    assert module_text(program(softmax, x), host()) == module_text(program(softmax, x), host())
    assert host().caches.first >= row_buffers.ROOM
