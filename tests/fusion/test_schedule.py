"""What fuses with what, and why not; buffers and loops that remain."""

from __future__ import annotations

import re

import numpy as np
import pytest

import broadloom as bl
from broadloom.dtypes import complex128, float32, float64
from broadloom.fusion import buffers, handlers, window_chains
from broadloom.fusion.collapse import collapse
from broadloom.fusion.decide import Fuse
from broadloom.fusion.evaluate import evaluate
from broadloom.fusion.handlers import accesses, count_ops, instructions_of
from broadloom.fusion.ir import Body, Compute, Indirect, Kernel, Literalv, Loop, Stage, Store
from broadloom.fusion.lower import MAX_DEPTH
from broadloom.fusion.lowerings.table import ABSENT, LOWERINGS
from broadloom.fusion.merge import MAX_BODY_OPS, MAX_STAGES, NoFuse
from broadloom.graph.builder import GraphBuilder
from broadloom.graph.ir import Output, TensorType, Write
from broadloom.ops.table import OPS
from broadloom.symbolic import Symbol
from tests.fusion.graphs import graph_of, kernels, scheduled

N = Symbol("s0")


def workspace(program):
    return [b.name for b in program.buffers if b.kind == "workspace"]


def test_every_op_is_lowered_or_decomposed():
    assert set(LOWERINGS) | set(ABSENT) == set(OPS)
    assert not set(LOWERINGS) & set(ABSENT)


@pytest.mark.parametrize("axis", [-1, -2])
def test_softmax_is_one_kernel_without_workspace(axis):
    def softmax(b, x):
        e = b.call("exp", b.call("subtract", x, b.call("max", x, axes=(axis,), keepdims=True)))
        return b.call("divide", e, b.call("sum", e, axes=(axis,), keepdims=True))

    program = scheduled(graph_of(softmax, (N, 1024))).program
    (kernel,) = program.steps
    assert [len(s.loops) for s in kernel.stages] == [1, 1, 1]
    assert workspace(program) == []
    exps = [i for s in kernel.stages for i in instructions_of(s.body) if isinstance(i, Compute) and i.op == "exp"]
    assert len(exps) == 1


def test_shared_dear_value_is_computed_once():
    def f(b, x):
        e = b.call("exp", x)
        return b.call("add", e, x), b.call("multiply", e, e)

    (kernel,) = kernels(graph_of(f, (N, 5)))
    ops = [i.op for s in kernel.stages for i in instructions_of(s.body) if isinstance(i, Compute)]
    assert sorted(ops) == ["add", "exp", "multiply"]
    assert len(kernel.outer) == 1  # both axes joined


def test_window_over_a_dear_producer_reads_a_buffer_of_a_piece():
    def f(b, x):
        e = b.call("exp", x)
        left = b.call("slice", e, starts=(0,), sizes=(99998,), steps=(1,))
        right = b.call("slice", e, starts=(2,), sizes=(99998,), steps=(1,))
        return b.call("add", left, right)

    found = scheduled(graph_of(f, (100000,)))
    (kernel,) = found.program.steps
    first, second = kernel.stages
    assert [i.op for i in first.body.instructions if isinstance(i, Compute)] == ["exp"]
    assert [i.op for i in second.body.instructions if isinstance(i, Compute)] == ["add"]
    assert any("read at another point" in d.outcome.reason or "differ" in d.outcome.reason for d in found.decisions)
    assert any(d.outcome == Fuse("b0 is made piece by piece") for d in found.decisions)
    (buffer,) = (b for b in found.program.buffers if b.name in kernel.local)
    pieces = -(-99998 // window_chains.PIECE)
    assert buffer.kind == "local" and buffer.layout.shape == (1, -(-99998 // pieces) + 2, 1)  # pieces of equal length


def test_window_over_a_cheap_producer_is_recomputed():
    def f(b, x):
        d = b.call("negative", x)
        parts = [b.call("slice", d, starts=(k,), sizes=(96,), steps=(1,)) for k in range(5)]
        total = parts[0]
        for p in parts[1:]:
            total = b.call("add", total, p)
        return total

    program = scheduled(graph_of(f, (100,))).program
    assert len(program.steps) == 1
    assert workspace(program) == []


def test_long_chain_is_split_into_bounded_bodies():
    def f(b, x):
        for _ in range(1000):
            x = b.call("add", b.call("multiply", x, x), x)
        return x

    found = kernels(graph_of(f, (N,)))
    sizes = [sum(count_ops(s.body) for s in k.stages) for k in found]
    assert sum(sizes) == 2000
    assert max(sizes) <= MAX_BODY_OPS
    assert len(found) <= 2 * 2000 // MAX_BODY_OPS + 1
    assert MAX_DEPTH < 100


def test_long_chain_of_small_reductions_is_split_into_bounded_kernels():
    def f(b, x):
        for _ in range(2 * MAX_STAGES):
            mean = b.call("sum", x, axes=(-1,), keepdims=True)
            x = b.call("slice_update", x, mean, starts=(0,), sizes=(1,), steps=(1,))
        return x

    found = kernels(graph_of(f, (8,)))
    assert max(len(k.stages) for k in found) <= MAX_STAGES
    assert len(found) < 12


def test_whole_sum_is_split_by_fixed_chunks():
    first, second = kernels(graph_of(lambda b, x: b.call("sum", x, axes=(-1,), keepdims=False), (N,)))
    assert str(first.outer[0].extent) == "(s0 + 8191)//8192"
    assert "min" in str(first.stages[0].loops[0].extent)
    assert second.outer == ()


def test_updates_of_a_fresh_array_are_made_in_place():
    def f(b, x):
        m = b.call("multiply", x, x)
        one = {"sizes": (1, 4), "steps": (1, 1)}
        m = b.call("slice_update", m, b.call("slice", x, starts=(0, 0), **one), starts=(1, 0), **one)
        return b.call("slice_update", m, b.call("slice", x, starts=(2, 0), **one), starts=(0, 0), **one)

    program = scheduled(graph_of(f, (3, 4))).program
    assert workspace(program) == []
    stored = [a.buffer for k in program.steps for s in k.stages for a in accesses(s.body) if a.mode != "load"]
    assert set(stored) == {"out0"}


def test_update_keeps_a_value_that_is_read_again():
    def f(b, x):
        m = b.call("exp", x)
        one = {"starts": (0,), "sizes": (1,), "steps": (1,)}
        changed = b.call("slice_update", m, b.call("slice", x, **one), **one)
        return changed, b.call("add", m, m)

    program = scheduled(graph_of(f, (10,))).program
    stores = [i for k in program.steps for s in k.stages for i in instructions_of(s.body) if isinstance(i, Store)]
    assert {i.buffer for i in stores} >= {"out0", "out1"}


def test_dying_buffer_makes_room_for_its_successor():
    def f(b, x):
        for _ in range(150):
            x = b.call("multiply", b.call("sin", x), x)
        return x

    program = scheduled(graph_of(f, (N,))).program
    assert len(program.steps) > 1
    assert workspace(program) == []


@pytest.mark.parametrize("case", ["rows", "columns"])
def test_a_buffer_that_other_points_still_read_makes_no_room(case):
    """Each element of a matmul, or of a sum of products, reads a whole row or column of the product before it."""

    def f(b, x):
        y = b.call("matmul", x, x)
        z = b.call("matmul", *((y, x) if case == "rows" else (x, y)))
        return b.call("tanh", z)

    program = scheduled(graph_of(f, (16, 16))).program
    for step in program.steps:
        for stage in step.stages if len(step.outer) == 2 else ():
            stored = {a.buffer for a in accesses(step.stages[-1].body) if a.mode != "load"}
            assert not stored & {a.buffer for a in accesses(stage.body) if a.mode == "load"}, str(step)
    assert len(workspace(program)) == 1


def test_refusals_carry_a_reason():
    def f(b, x, y):
        return b.call("add", x, x), b.call("sum", b.call("multiply", x, x), axes=(-1,), keepdims=False)

    found = scheduled(graph_of(f, (4, 20000), (3,)))
    refused = [d for d in found.decisions if isinstance(d.outcome, NoFuse)]
    assert refused and all(re.search("[a-z]", d.outcome.reason) for d in refused)
    assert any("parallel" in d.outcome.reason for d in refused)
    assert all(isinstance(d.outcome, Fuse | NoFuse) for d in found.decisions)


def test_kernels_that_read_the_same_another_way_stay_apart():
    """Rows and columns of a square array have equal extents, and would be summed at the same points."""

    def sums(b, x):
        return tuple(b.call("sum", x, axes=(axis,), keepdims=False) for axis in (-1, -2))

    def twice(b, x):
        return b.call("multiply", x, x), b.call("add", b.call("permute", x, axes=(-1, -2)), x)

    for shape in ((300, 300), (N, N)):
        found = scheduled(graph_of(sums, shape))
        assert len(found.program.steps) == 2
        assert any("along different axes" in d.outcome.reason for d in found.decisions)
        (kernel,) = scheduled(graph_of(twice, shape)).program.steps  # one of its loads goes the same way
        assert len(kernel.stages) == 1
    assert len(scheduled(graph_of(sums, (8, 8))).program.steps) == 1  # a launch costs more


def test_without_fusion_each_operation_is_a_kernel():
    def f(b, x):
        return b.call("sum", b.call("exp", x), axes=(-1,), keepdims=False), b.call("exp", x)

    graph = graph_of(f, (64, 64))
    assert len(scheduled(graph, fusion=False).program.steps) > len(scheduled(graph).program.steps)


def test_loops_follow_memory():
    def f(b, x):
        return b.call("add", b.call("permute", x, axes=(-1, -2)), b.call("permute", x, axes=(-1, -2)))

    builder_graph = graph_of(f, (8, 6))
    (kernel,) = kernels(builder_graph)
    assert [str(loop.extent) for loop in kernel.outer] == ["6", "8"]


def written(make, shape):
    builder = GraphBuilder("test")
    x = builder.input("x", TensorType(float32, shape))
    value, outputs = make(builder, x)
    return builder.finish([Output(v, tuple(range(builder.type_of(v).ndim))) for v in outputs], [Write(0, value)])


def test_window_of_an_input_is_written_in_place():
    def f(b, x):
        update = {"starts": (2,), "sizes": (3,), "steps": (1,)}
        return b.call("slice_update", x, b.constant(np.zeros(3, np.float32)), **update), ()

    (kernel,) = scheduled(written(f, (100000,))).program.steps
    assert [str(loop.extent) for loop in kernel.outer] == ["3"]
    assert {a.buffer for a in accesses(kernel.stages[0].body) if a.mode == "set"} == {"in0"}


def test_value_read_before_a_write_is_made_first():
    def f(b, x):
        update = {"starts": (2,), "sizes": (3,), "steps": (1,)}
        before = b.call("multiply", x, x)
        return b.call("slice_update", x, b.constant(np.zeros(3, np.float32)), **update), (before,)

    first, second = scheduled(written(f, (100000,))).program.steps
    assert {a.buffer for a in accesses(first.stages[0].body) if a.mode == "set"} == {"out0"}
    assert {a.buffer for a in accesses(second.stages[0].body) if a.mode == "set"} == {"in0"}


def test_whole_input_is_updated_by_one_kernel():
    (kernel,) = scheduled(written(lambda b, x: (b.call("add", x, x), ()), (N,))).program.steps
    assert [(a.buffer, a.mode) for a in accesses(kernel.stages[0].body)] == [("in0", "load"), ("in0", "set")]


def test_reversed_input_goes_through_a_copy():
    found = scheduled(written(lambda b, x: (b.call("flip", x, axes=(-1,)), ()), (N,))).program
    assert len(found.steps) == 2
    assert len(workspace(found)) == 1


@pytest.mark.parametrize("shape", [(1000, 1000), (N, N)])
def test_update_of_nearly_all_copies_the_frame_alone(shape):
    def f(b, x):
        inner = {"starts": (1, 1), "sizes": tuple(n - 2 for n in shape), "steps": (1, 1)}
        return b.call("slice_update", x, b.call("slice", b.call("exp", x), **inner), **inner)

    found = kernels(graph_of(f, shape))
    loops = [[str(loop.extent) for loop in k.outer] for k in found if "copy" in k.origins]
    assert not [extents for extents in loops if extents in (["1000000"], ["s0**2"], ["s0", "s0"])]


def test_an_update_of_an_array_without_elements_stores_nothing():
    """An empty window may start behind the end of its axis; there is no frame around it."""

    def f(b, x, value):
        return b.call("slice_update", x, value, starts=(1, 1), sizes=(0, 62), steps=(1, 1))

    for kernel in kernels(graph_of(f, (0, 64), (0, 62))):
        for stage in kernel.stages:
            assert any(loop.extent == 0 for loop in (*kernel.outer, *stage.loops))


def test_the_facts_of_a_body_are_found_out_once(monkeypatch):
    """Scheduling looks at each body that arises, not at all bodies at each step."""
    counted = []
    found = handlers._facts
    monkeypatch.setattr(handlers, "_facts", lambda body: counted.append(1) or found(body))

    def count(length):
        def f(b, x):
            for _ in range(length):
                x = b.call("subtract", x, b.call("max", x, axes=(-1,), keepdims=True))
            return x

        counted.clear()
        scheduled(graph_of(f, (1000,)))
        return len(counted)

    short, long = count(10), count(20)
    assert long < 2.3 * short, (short, long)


def test_a_check_is_found_without_looking_at_the_others(monkeypatch):
    compared = []
    monkeypatch.setattr(Indirect, "__eq__", lambda one, other: compared.append(1) or one is other)
    recording = handlers.Recording()
    first, again = ([recording.indirect(k, N, 0) for k in range(50)] for _ in range(2))
    assert first == again and len({s.name for s in first}) == 50
    assert not compared


def test_loops_that_never_run_stay_apart():
    loops = tuple(Loop(Symbol(f"i{k}", 0, max(n - 1, 0)), n) for k, n in enumerate((2, 0)))
    body = Body((Literalv(float32, bytes(4)), Store("b", 0, 0)))
    kernel = Kernel("k", loops, (Stage((), body),))
    assert [loop.extent for loop in collapse(kernel).outer] == [2, 0]


@pytest.mark.parametrize("op", ["cumsum", "sort"])
def test_a_value_that_is_an_output_with_its_axes_moved_is_made_there(op):
    def f(b, x):
        return b.call("permute", b.call(op, x, axis=-1), axes=(-1, -3, -2))

    program = scheduled(graph_of(f, (3, N, 5))).program
    assert len(program.steps) == 1
    assert workspace(program) == []


def test_parts_of_computed_complex_numbers_stay_in_registers():
    def parts(b, x):
        z = b.call("reshape", b.call("square", x), shape=(1000, 1), core=1)
        pairs = b.call("view_dtype", z, dtype=float64)
        real, imag = (b.call("slice", pairs, starts=(k,), sizes=(1,), steps=(1,)) for k in range(2))
        return b.call("subtract", real, imag), b.call("negative", pairs)

    program = scheduled(graph_of(parts, (1000,), dtype=complex128)).program
    assert workspace(program) == []
    x = np.linspace(-1, 1, 1000) + 1j * np.linspace(3, -2, 1000)
    squares = (x * x).reshape(-1, 1)
    difference, negative = evaluate(program, [x])
    np.testing.assert_array_equal(difference, squares.real - squares.imag)
    np.testing.assert_array_equal(negative, -squares.view(np.float64))


def test_renaming_of_buffers_is_linear(monkeypatch):
    """Each search takes over the buffer of the one before."""
    counts = []
    for length in (10, 20, 40):
        replays = []
        monkeypatch.setattr(buffers, "replay", lambda *a, r=replays, **k: r.append(1) or handlers.replay(*a, **k))

        def chain(b, rows, x, length=length):
            for _ in range(length):
                found = b.call("searchsorted", rows, x, side="left")
                x = b.call("multiply", x, b.call("cast", found, dtype=float32))
            return x

        program = scheduled(graph_of(chain, (5,), (1000,))).program
        assert len(workspace(program)) == length, "only what each search finds"
        counts.append(len(replays))
    assert counts[2] - counts[1] <= 2 * (counts[1] - counts[0])


@pytest.mark.parametrize(("columns", "rows"), [(2, 1), (3, 1), (4, 8), (8, 4), (11, 2), (20, 1), (63, 1)])
def test_few_columns_are_folded_in_chunks_of_rows_side_by_side(columns, rows):
    """Rows that fill no vectors several at once, as if they were one."""
    x = np.random.default_rng(5).random((70_000, columns))
    compiled = bl.compile(lambda x: (x.sum(0), x.T.sum(1), x.max(0)), fullgraph=True)
    for got, want in zip(compiled(x), (x.sum(0), x.sum(0), x.max(0)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13)
    first = compiled.report().kernels[0]
    assert first.loops.startswith(f"(9, {columns * rows})")


def test_rows_that_do_not_lie_side_by_side_are_folded_one_by_one():
    x = np.random.default_rng(5).random((70_000, 16))
    weights = x[0, :8].copy()
    for function in (lambda x, w: x[:, :8].sum(0), lambda x, w: (x[:, 8:] * w).sum(0), lambda x, w: x[::-1, :8].sum(0)):
        compiled = bl.compile(function, fullgraph=True)
        np.testing.assert_allclose(compiled(x, weights), function(x, weights), rtol=1e-13)
        assert compiled.report().kernels[0].loops.startswith("(9, 8)")
