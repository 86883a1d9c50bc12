"""Long programs: what compiling them does grows as they do. Work is counted here; `benchmarks.chains` takes times."""

from __future__ import annotations

import gc
import os
import threading
from collections import Counter
from typing import ClassVar

import numpy as np
import pytest

import broadloom as bl
from broadloom import platform
from broadloom.codegen import kernels
from broadloom.codegen.driver import module_text
from broadloom.compiler.api import make_graph
from broadloom.compiler.build import fuse
from broadloom.dtypes import float64
from broadloom.errors import GraphBreakError
from broadloom.fusion import window_chains, windows
from broadloom.fusion.ir import Buffer, Extern, Layout, Program, Region
from broadloom.fusion.memory_plan import plan_memory
from broadloom.graph.ir import Graph
from broadloom.graph.manager import PassContext
from broadloom.passes.table import default_pipeline
from broadloom.records import dataclass
from broadloom.runtime.target import host
from tests.workspaces import together


def digitized(turns):
    def function(x, bins):
        for _ in range(turns):
            x = np.digitize(x, bins) * 0.5
        return x

    return function


def program_of(function, *arrays):
    return fuse(default_pipeline().run(make_graph(function)(*arrays))).program


def text_of(function, *arrays, dynamic=True):
    graph = default_pipeline().run(make_graph(function, dynamic=dynamic)(*arrays))
    return module_text(fuse(graph).program, host())


# ---- searches, and kernels between them ---------------------------------------------------------------------------


def test_kernels_of_one_form_are_written_once(monkeypatch):
    built = []
    build = kernels.NestBuilder.build
    monkeypatch.setattr(kernels.NestBuilder, "build", lambda self: built.append(self) or build(self))
    program = program_of(digitized(12), np.arange(2000.0), np.arange(5.0))
    text = module_text(program, host())
    assert len(program.steps) > 30
    assert len(built) <= 3 and text.count("define internal void @kernel.") <= 3


def pieces_of(count):
    return lambda x: np.concatenate([x[i : i + 5] for i in range(count)])


def test_where_a_piece_goes_is_computed_before_its_kernel(rng):
    longest = []
    for count in (20, 40, 80):
        text = text_of(pieces_of(count), np.arange(200.0))
        assert text.count("define internal void @kernel.") == count
        longest.append(max(part.count("\n") for part in text.split("define ") if "@kernel." in part[:60]))
    assert longest[0] == longest[1] == longest[2]
    f = bl.compile(pieces_of(40), fullgraph=True, dynamic=True)
    for size in (0, 1, 3, 20, 41, 44, 200):
        x = rng.normal(size=size)
        np.testing.assert_array_equal(f(x), pieces_of(40)(x))
    assert len(f.report().compiles) == 1


def run_of(turns):
    with together():
        text = module_text(program_of(digitized(turns), np.arange(2000.0), np.arange(5.0)), host())
    run = text[text.index("@bl_run(") :]
    return run[: run.index("\n}")]


def test_a_launch_stores_what_changed_alone():
    short, long = run_of(6), run_of(12)
    launches = 3 * 6
    for instruction, most in (("store ", 5), ("getelementptr ", 6)):
        assert long.count(instruction) - short.count(instruction) <= most * launches
    assert long.count("getelementptr inbounds i8, ptr %t") - short.count("getelementptr inbounds i8, ptr %t") == 0


def grown(turns):
    def function(a, b):
        for _ in range(turns):
            a = np.concatenate([a, b]) + 1
        return a

    return function


def test_places_of_growing_buffers_are_taken_one_from_the_other(rng):
    """Each of them is as far as all before it together."""
    counts = []
    for turns in (10, 20, 40):
        text = text_of(grown(turns), np.arange(5.0), np.arange(7.0))
        run = text[text.index("@bl_run(") :]
        counts.append(run[: run.index("\n}")].count("\n"))
    assert counts[2] - counts[1] <= 2.1 * (counts[1] - counts[0])
    compiled = bl.compile(grown(20), dynamic=True, fullgraph=True)
    for n, m in ((5, 7), (2, 3), (1000, 11), (0, 4), (1, 1)):
        a, b = rng.normal(size=n), rng.normal(size=m)
        np.testing.assert_array_equal(compiled(a, b), grown(20)(a, b))


def test_launches_by_turns_of_branches_find_their_words(rng):
    """Small matrices go to a kernel or to LAPACK by the number that a call has, between kernels and products."""

    def function(a, b):
        for _ in range(3):
            b = np.linalg.solve(a, b) + b
            b = np.linalg.solve(a, b @ a)
        return b

    compiled = bl.compile(function, dynamic=True, fullgraph=True)
    for n in (1, 2, 3, 40, 2, 40):
        a = rng.normal(size=(n, 3, 3)) + 4 * np.eye(3)
        b = rng.normal(size=(n, 3, 3))
        np.testing.assert_allclose(compiled(a, b), function(a, b), rtol=1e-9)


def test_transforms_by_turns_of_branches_find_their_words(rng):
    """One row at a time or several side by side, by the number that a call has."""

    def function(x, w):
        for _ in range(2):
            x = np.fft.fft(x) @ w
            x = np.fft.ifft(np.sort(x.real, axis=-1) + np.cumsum(x.imag, axis=-1))
        return x

    compiled = bl.compile(function, dynamic=True, fullgraph=True)
    w = rng.normal(size=(30, 30)) / 30
    for n in (2, 3, 50, 2, 9):
        x = rng.normal(size=(n, 30))
        np.testing.assert_allclose(compiled(x, w), function(x, w), rtol=1e-6, atol=1e-9)


def test_a_digitized_chain_has_the_values_of_numpy(rng):
    x = rng.normal(size=301) * 4
    for bins in (np.array([-1.0, 0.0, 0.5, 3.0]), np.array([2.0, 1.0, -3.0])):
        compiled = bl.compile(digitized(9), fullgraph=True)
        assert compiled(x, bins).tobytes() == digitized(9)(x, bins).tobytes()


def test_producers_are_looked_for_among_those_of_a_buffer(monkeypatch):
    asked = Counter()
    effects_of = windows.effects_of

    def counting(step):
        asked[turns] += 1
        return effects_of(step)

    monkeypatch.setattr(windows, "effects_of", counting)
    for turns in (20, 40):
        program_of(digitized(turns), np.arange(2000.0), np.arange(5.0))
    assert asked[40] <= 2.2 * asked[20]


# ---- products and small matrices ----------------------------------------------------------------------------------


def products(turns):
    def function(a, b):
        for _ in range(turns):
            a = a @ b
        return a

    return function


def activated(turns):
    def function(a, b):
        for _ in range(turns):
            a = np.maximum(a @ b, 0.5)
        return a

    return function


def solved(turns):
    def function(a, b):
        for _ in range(turns):
            a = np.linalg.solve(b, a)
        return a

    return function


@pytest.mark.parametrize("make", [products, activated])
@pytest.mark.parametrize("dynamic", [True, False])
def test_products_of_one_kind_are_one_function(make, dynamic):
    a = np.zeros((200, 300) if not dynamic else (8, 8))
    b = np.zeros((300, 300) if not dynamic else (8, 8))
    counts = [text_of(make(turns), a, b, dynamic=dynamic).count("\ndefine ") for turns in (4, 8)]
    assert counts[0] == counts[1], "the first, those between and the last"


def test_solves_of_one_kind_are_one_function():
    a, b = np.ones((9, 5, 5)), np.ones((9, 5, 5)) + np.eye(5)
    counts = [text_of(solved(turns), a, b, dynamic=False).count("\ndefine ") for turns in (4, 8)]
    assert counts[0] == counts[1]


@pytest.mark.parametrize("dynamic", [True, False])
def test_transforms_of_one_kind_are_one_function(dynamic):
    def transformed(turns):
        def function(x):
            for _ in range(turns):
                x = np.fft.ifft(np.fft.fft(x))
            return x

        return function

    x = np.ones((3, 24), complex)
    counts = [text_of(transformed(turns), x, dynamic=dynamic).count("\ndefine ") for turns in (4, 8)]
    assert counts[0] == counts[1]


def test_a_failure_in_shared_code_names_its_own_line():
    def function(a, b, c):
        x = np.linalg.solve(b, a)
        x = np.linalg.solve(b, x)
        x = np.linalg.solve(c, x)
        return x

    compiled = bl.compile(function, fullgraph=True)
    a, b = np.ones((9, 5, 5)), np.ones((9, 5, 5)) + np.eye(5)
    compiled(a, b, b)
    line = function.__code__.co_firstlineno
    for singular, at in (((a, b), 1), ((b, a), 3)):
        with pytest.raises(np.linalg.LinAlgError) as raised:
            compiled(b, *singular)
        assert f":{line + at}" in str(raised.value) or any(
            f":{line + at}" in note for note in getattr(raised.value, "__notes__", ())
        )


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("n", [3, 7, 90])
def test_chains_of_products_have_the_values_of_numpy(n, dynamic, rng):
    a, b = rng.normal(size=(n + 1, n)), rng.normal(size=(n, n)) / n
    for make in (products, activated):
        compiled = bl.compile(make(4), fullgraph=True, dynamic=dynamic)
        np.testing.assert_allclose(compiled(a, b), make(4)(a, b), rtol=1e-10)


# ---- the memory plan ----------------------------------------------------------------------------------------------


def first_fit(sizes, spans):
    """The plan as it is defined: the lowest place beside all that is alive at the same time."""
    placed, offsets = [], []
    for size, (begin, end) in zip(sizes, spans, strict=True):
        at = 0
        for start, stop, (other_begin, other_end) in sorted(placed):
            if other_end < begin or end < other_begin:
                continue
            if at + size <= start:
                break
            at = max(at, stop)
        offsets.append(at)
        placed.append((at, at + size, (begin, end)))
    return offsets, max(stop for _, stop, _ in placed)


@pytest.mark.parametrize("seed", range(20))
def test_static_buffers_lie_where_they_fit_first(seed):
    draw = np.random.default_rng(seed)
    count = int(draw.integers(1, 30))
    begins = sorted(int(n) for n in draw.integers(0, 20, count))
    spans = [(begin, begin + int(draw.integers(0, 6))) for begin in begins]
    elements = [int(n) * 8 for n in draw.integers(1, 9, count)]
    buffers = [Buffer(f"b{k}", float64, Layout((n,), (1,)), "workspace") for k, n in enumerate(elements)]
    steps = tuple(
        Extern(f"call{at}", "sort", used, used)
        for at in range(26)
        for used in [tuple(Region(b.name, b.layout) for b, s in zip(buffers, spans, strict=True) if at in s)]
    )
    plan = plan_memory(Program("p", (), (), tuple(buffers), steps, ()))
    offsets, total = first_fit([n * 8 for n in elements], spans)
    assert [plan.offsets[b.name] for b in buffers] == offsets and plan.total == total


# ---- the collector of cycles --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ask:
    """A pass that looks whether the collector is on."""

    name: ClassVar[str] = "ask"
    found: ClassVar[list[bool]] = []

    def run(self, graph: Graph, context: PassContext) -> Graph:
        self.found.append(gc.isenabled())
        return graph


def compiled_with_ask(function=lambda x: x * 3 + 1):
    Ask.found.clear()
    return bl.compile(function, options={"passes": [Ask()], "use_cache": False})


def test_the_collector_rests_while_a_function_is_compiled():
    assert gc.isenabled()
    compiled_with_ask()(np.arange(5.0))
    assert Ask.found == [False] and gc.isenabled()


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    try:
        compiled_with_ask()(np.arange(5.0))
        assert Ask.found == [False] and not gc.isenabled()
    finally:
        gc.enable()


def test_the_collector_runs_again_after_a_refused_capture():
    with pytest.raises(GraphBreakError):
        bl.compile(lambda x: print(x), fullgraph=True)(np.arange(3.0))
    assert gc.isenabled()


def test_the_last_of_several_pauses_ends_it():
    inside, leave = threading.Event(), threading.Event()

    def other():
        with platform.collector_paused():
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=other)
    with platform.collector_paused():
        thread.start()
        inside.wait(60)
        with platform.collector_paused():
            pass
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_of_fork_does_not_inherit_the_pause_of_a_thread():
    with platform.collector_paused():
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.isenabled() else 1)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0 and gc.isenabled()


# ---- stencils one behind the other ------------------------------------------------------------------------------


def averaged(turns):
    def function(x):
        for _ in range(turns):
            x = (x[1:] + x[:-1]) * 0.5
        return x

    return function


def padded(turns):
    def function(x):
        for _ in range(turns):
            p = np.pad(x, 1, mode="edge")
            x = (p[:-2] + p[1:-1] + p[2:]) / 3
        return x

    return function


@pytest.mark.parametrize("stencils", (averaged, padded))
@pytest.mark.parametrize("size", (None, 100_000))
def test_a_long_chain_of_stencils_is_cut_where_its_rows_leave_the_cache(stencils, size, monkeypatch, rng):
    looked, weighed = Counter(), Counter()
    loads_of, member = window_chains.loads_of, windows.member

    def counting(*given):
        looked[turns] += 1
        return loads_of(*given)

    def weighing(*given):
        weighed[turns] += 1
        return member(*given)

    monkeypatch.setattr(window_chains, "loads_of", counting)
    monkeypatch.setattr(windows, "member", weighing)
    kernels = {}
    for turns in (40, 80):
        graph = make_graph(stencils(turns), dynamic=size is None)(np.arange(float(size or 5000)))
        kernels[turns] = len(fuse(default_pipeline().run(graph)).program.steps)
    assert kernels[40] <= 4 and kernels[80] <= 2.2 * kernels[40]  # a dozen or more of them in each
    assert weighed[40] <= 50 and weighed[80] <= 2.2 * weighed[40]
    assert looked[40] <= 50 and looked[80] <= 2.2 * looked[40]
    compiled = bl.compile(stencils(60), dynamic=size is None, fullgraph=True)
    for n in (size,) if size else (5000, 61, 100, 70_001):
        x = rng.normal(size=n)
        np.testing.assert_allclose(compiled(x), stencils(60)(x), rtol=1e-12)
