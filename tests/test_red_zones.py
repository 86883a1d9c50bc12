"""The zones notice what they are there for: each test writes, or reads, where it must not."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from numpy._core.multiarray import get_handler_name

import broadloom as bl
from broadloom.dtypes import float64
from broadloom.graph.parse import parse
from broadloom.runtime import native, python_entry, target
from broadloom.runtime.link import link
from tests import red_zones, workspaces
from tests.codegen.programs import SIZES, N, Native, Written, array, loop, pointwise, program
from tests.compiled.modules import compiled

MB = 1 << 20


def written(address: int) -> None:
    ctypes.memset(address, 1, 1)


@pytest.mark.parametrize("mode", red_zones.MODES)
def test_code_that_stays_in_its_arrays_is_not_blamed(mode):
    with red_zones.guarded(mode):
        f = bl.compile(lambda x: (np.sort(x, axis=0), x @ x.T, x.sum()), fullgraph=True)
        for n in (1, 5, 70):
            x = np.arange(3.0 * n).reshape(n, 3)[::-1]
            for got, want in zip(f(x), (np.sort(x, axis=0), x @ x.T, x.sum()), strict=True):
                np.testing.assert_array_equal(got, want)
                red_zones.check()


@pytest.mark.parametrize("size", [0, 1, 17, 4096, MB // 8 + 3])
def test_a_byte_beside_a_result_or_an_argument(size):
    with red_zones.guarded():
        x = np.ones(size)
        y = bl.compile(lambda x: x + 1, fullgraph=True)(x)
        assert [get_handler_name(a) for a in (x, y)] == [red_zones.NAME] * 2
        for a in (x, y):
            places = (a.ctypes.data - 1, a.ctypes.data - red_zones.ZONE, a.ctypes.data + max(1, a.nbytes))
            for place in (*places, places[-1] + red_zones.ZONE - 1):
                written(place)
                with pytest.raises(AssertionError, match=r"1 blocks .* written \d+ bytes (behind|in front of) its"):
                    red_zones.check()
                red_zones.check()  # told once


def test_damage_is_noticed_when_a_block_is_given_back():
    with red_zones.guarded():
        x = np.ones(3)
        written(x.ctypes.data + 24)
        del x
        with pytest.raises(AssertionError, match="written 0 bytes behind its 24 bytes"):
            red_zones.check()


def test_a_kernel_that_goes_too_far():
    """A module for ten elements is given results of nine."""
    graph = parse("""\
graph f {
  %0 = input x: float64[10] strides (1,)
  %1 = negative(%0) : float64[10]
  return %1 order (0,)
}""")
    with red_zones.guarded():
        spec = compiled(graph)
        from_ten = python_entry.result_array
        shorter = mock.patch.object(python_entry, "result_array", lambda shape, *rest: from_ten((9,), *rest))
        frame = python_entry.Frame({"x": np.arange(10.0)}, {})
        python_entry.execute(spec, frame)
        red_zones.check()
        with shorter:
            python_entry.execute(replace(spec, threads=1), frame)
        with pytest.raises(AssertionError, match="written 0 bytes behind its 72 bytes"):
            red_zones.check()


WORKSPACE = """
define void @work(ptr %ctx, i64 %size, i64 %place) {
  %alloc = load ptr, ptr %ctx
  %f = getelementptr i8, ptr %ctx, i64 8
  %free = load ptr, ptr %f
  %p = call ptr %alloc(ptr %ctx, i64 %size)
  %q = getelementptr i8, ptr %p, i64 %place
  store i8 1, ptr %q
  call void %free(ptr %ctx, ptr %p, i64 %size)
  ret void
}"""


@pytest.mark.parametrize(
    ("place", "text"), [(40, "0 bytes behind"), (-2, "2 bytes in front of"), (39, None), (0, None)]
)
def test_native_code_beside_its_workspace(place: int, text: str | None):
    library = link([target.emit_object(WORKSPACE, target.host())], {})
    work = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(library.address("work"))
    with red_zones.guarded():
        context = native.new_context(1)
        work(ctypes.addressof(context), 40, place)
        if text is not None:
            with pytest.raises(AssertionError, match=f"written {text} its 40 bytes"):
                red_zones.check()


def test_workspaces_of_compiled_functions_come_from_zones():
    with red_zones.guarded():
        f = bl.compile(lambda x: np.sort(np.cumsum(x, axis=0), axis=0)[::-1].cumsum(axis=1), fullgraph=True)
        before = red_zones.workspaces_taken()
        f(np.ones((30, 40)))
        assert f.report().allocations and red_zones.workspaces_taken() > before


def test_what_is_given_back_twice():
    with red_zones.guarded():
        context = native.new_context(1)
        give = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(context.free)
        p = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(context.alloc)(None, 8)
        give(None, p, 8)
        give(None, p, 8)
        with pytest.raises(AssertionError, match="given back twice"):
            red_zones.check()


def test_memory_is_marked_before_it_is_used():
    with red_zones.guarded():
        assert (np.empty(100, np.uint8) == red_zones.MARK).all()
        assert not np.zeros(100).any()


def test_arrays_may_grow_and_outlive_the_zones():
    with red_zones.guarded():
        x = np.arange(5)
        x.resize(1000, refcheck=False)
        assert x[:5].tolist() == [0, 1, 2, 3, 4] and not x[5:].any()
    assert get_handler_name(x) == red_zones.NAME and get_handler_name() == "default_allocator"
    del x
    red_zones.check()


@pytest.mark.parametrize("fails", [False, True])
def test_workspaces_of_programs_by_hand(fails):
    """`Native` has zones of its own. In one block, what nine elements are rounded up by would hide the tenth."""
    w = Written()
    i = loop("i", N + 1 if fails else N)
    w.store("w", i.variable, w.load("x", 0, float64))
    r = Written()
    j = loop("j", N)
    r.store("o", j.variable, r.load("w", j.variable, float64))
    kinds = (("x", "input"), ("w", "workspace"), ("o", "output"))
    buffers = [array(name, float64, (N,), kind, 0 if kind != "workspace" else -1) for name, kind in kinds]
    steps = [pointwise([i], w.body(), "a"), pointwise([j], r.body(), "b")]
    with workspaces.apart():
        run = Native(program(steps, buffers, [N], SIZES[:1]))
    if fails:
        with pytest.raises(AssertionError, match="beside a workspace"):
            run(np.ones(9))
    else:
        assert run(np.ones(9))[0].tolist() == [1] * 9
    assert run.allocated == 9 * 8


CHILD = """
import ctypes, sys
import numpy as np
from tests import red_zones, workspaces
with red_zones.guarded(sys.argv[1]):
    x = np.ones(100, np.uint8)
    ctypes.string_at(x.ctypes.data + int(sys.argv[2]), 1)
"""


@pytest.mark.parametrize(
    ("mode", "place", "code"), [("end", 99, 0), ("end", 100, -11), ("begin", 0, 0), ("begin", -1, -11)]
)
def test_reads_outside_of_pages_end_the_process(mode: str, place: int, code: int):
    command = [sys.executable, "-c", CHILD, mode, str(place)]
    assert subprocess.run(command, check=False, capture_output=True, timeout=60).returncode == code


def test_all_is_as_before_after_an_error():
    kept: tuple[Callable[..., Any], ...] = (native.new_context, red_zones.results.handler)
    with pytest.raises(KeyError), red_zones.guarded():
        raise KeyError
    assert (native.new_context, red_zones.results.handler) == kept and get_handler_name() == "default_allocator"
