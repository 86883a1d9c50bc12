"""Borders: the interior of a padded or continued array is computed without a test, and no bit differs by that."""

from __future__ import annotations

import numpy as np
import pytest

from broadloom.compiler.api import make_graph
from broadloom.fusion import peel
from broadloom.fusion.evaluate import evaluate
from broadloom.fusion.handlers import accesses, instructions_of
from broadloom.fusion.ir import Kernel, Masked
from broadloom.fusion.lower import lower
from broadloom.fusion.lowerings.table import LOWERINGS
from broadloom.fusion.parse import parse
from broadloom.fusion.schedule import schedule
from broadloom.fusion.text import print_program
from broadloom.fusion.verify import verify
from broadloom.graph.order import value_orders
from broadloom.passes.table import default_pipeline
from broadloom.symbolic import Expr, Max, Min, Mod, free_symbols

from .programs import Native

MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


def program_of(function, *arrays, dynamic=False):
    graph = default_pipeline().run(make_graph(function, dynamic=dynamic)(*arrays))
    program = schedule(lower(graph, value_orders(graph), LOWERINGS)).program
    verify(program)
    assert parse(print_program(program)).steps == program.steps
    return program


def kernel_of(program):
    (kernel,) = (s for s in program.steps if isinstance(s, Kernel))
    return kernel


def choices(stage):
    """What the innermost loop of a stage has to choose between."""
    inner = stage.loops[-1].variable
    chosen = [i for i in instructions_of(stage.body) if isinstance(i, Masked)]
    for a in accesses(stage.body):
        chosen += [e for e in parts(a.index) if isinstance(e, Min | Max | Mod) and inner in free_symbols(e)]
    return chosen


def parts(e):
    if isinstance(e, Expr):
        yield e
        for part in e.args:
            yield from parts(part)


def heat(u):
    inner = u[1:-1, 1:-1]
    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    return np.pad(inner + 0.2 * (around - 4.0 * inner), ((1, 1), (1, 1)))


def spread(mode, axes=(0, 1)):
    """A formula of four places along these axes."""

    def spread(x):
        p = np.pad(x, [(2, 1) if a in axes else (0, 0) for a in range(x.ndim)], mode=mode)
        ends = [
            tuple(slice(k, n - 3 + k) if a in axes else slice(None) for a, n in enumerate(p.shape)) for k in range(4)
        ]
        return p[ends[0]] - 2 * p[ends[1]] + p[ends[2]] * p[ends[3]]

    return spread


def spread_of_two_axes(mode):
    def spread(x):
        p = np.pad(x, ((2, 1), (2, 1)), mode=mode)
        return p[:-3, :-3] - 2 * p[1:-2, 1:-2] + p[2:-1, 2:-1] * p[3:, 3:]

    return spread


@pytest.fixture
def small(monkeypatch):
    """Small kernels are split too."""
    monkeypatch.setattr(peel, "FEW_POINTS", 0)


def same(function, arrays, *, dynamic=False, sizes=None, split=(0.013, 0.37, 0.5)):
    """The program's results, natively in parts and by the interpreter, have the bits of NumPy's."""
    program = program_of(function, *arrays, dynamic=dynamic)
    native = Native(program, split=split, always_split=True)
    for given in (arrays,) if sizes is None else sizes:
        want = function(*given)
        for (got,) in (native(*given), evaluate(program, given)):
            assert got.shape == want.shape and got.dtype == want.dtype and got.tobytes() == want.tobytes()
    return program


def test_a_padded_stencil_is_one_kernel_whose_interior_tests_nothing(rng):
    x = rng.standard_normal((150, 300)).astype(np.float32)
    kernel = kernel_of(same(heat, [x]))
    interior, border = kernel.stages
    assert not choices(interior) and not interior.border
    assert choices(border) and border.border
    assert len(kernel.outer) == 1  # rows in parallel


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((150, 200), (0, 1)),
        ((130, 140, 3), (0, 1)),
        ((2, 3, 90, 80), (2, 3)),
        ((40_000,), (0,)),
        ((3, 20_001), (1,)),
        ((80, 90, 100), (0, 1, 2)),
        ((300, 40), (0,)),
    ],
)
def test_every_mode_in_every_layout(mode, shape, axes, rng, small):
    x = rng.standard_normal(shape).astype(np.float32)
    kernel = kernel_of(same(spread(mode, axes), [x]))
    if axes == (0,) and len(shape) > 1 and mode != "constant":
        assert not kernel.stages[0].loops  # found once a row
        return
    assert [s.border for s in kernel.stages] == [False, True]
    assert not choices(kernel.stages[0])


@pytest.mark.parametrize("mode", MODES)
def test_one_module_for_all_sizes(mode, rng):
    sizes = [(37, 61), (1, 1), (1, 40), (2, 3), (5, 1), (3, 2), (64, 129)]
    if mode == "constant":
        sizes += [(0, 5), (5, 0)]
    if mode in ("reflect", "symmetric", "wrap"):
        sizes = [s for s in sizes if min(s) >= 3]
    given = [[rng.standard_normal(s).astype(np.float32)] for s in sizes]
    kernel = kernel_of(same(spread_of_two_axes(mode), given[0], dynamic=True, sizes=given))
    assert [s.border for s in kernel.stages] == [False, True]


def test_padded_stencils_of_all_sizes(rng):
    sizes = [(40, 70), (3, 3), (2, 5), (2, 2), (3, 200)]
    given = [[rng.standard_normal(s).astype(np.float32)] for s in sizes]
    same(heat, given[0], dynamic=True, sizes=given)


def test_views_and_other_dtypes(rng, small):
    base = rng.integers(-100, 100, (140, 160)).astype(np.int16)
    for x in (base[::2, 3:], base[:, ::-1], base.T, base[1:, 1:], base.astype(np.complex64)):
        same(spread("edge"), [x])
        same(spread("constant"), [x])


def test_a_wide_row_without_others_is_cut_into_strips(rng):
    x = rng.standard_normal(100_000).astype(np.float32)
    kernel = kernel_of(same(spread("edge"), [x]))
    (strips,) = kernel.outer
    assert strips.extent == -(-100_000 // peel.STRIP)


@pytest.mark.parametrize("mode", MODES)
def test_an_extended_array_itself(mode, rng):
    x = rng.standard_normal((200, 150)).astype(np.float32)
    kernel_of(same(lambda x: np.pad(x, ((3, 0), (1, 2)), mode=mode), [x]))


def test_thick_borders_and_small_kernels_stay_whole(rng):
    x = rng.standard_normal((200, 150)).astype(np.float32)
    kernel = kernel_of(same(lambda x: np.pad(x, 40, mode="edge"), [x]))
    assert len(kernel.stages) == 1
    kernel = kernel_of(same(spread("edge"), [x[:40, :50].copy()]))
    assert len(kernel.stages) == 1


def periodic_heat(u):
    around = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1)
    return u + np.float32(0.1) * (around - 4 * u)


def test_a_rolled_stencil_is_one_kernel_whose_interior_tests_nothing(rng, small):
    for shape in ((150, 300), (64, 65)):
        kernel = kernel_of(same(periodic_heat, [rng.standard_normal(shape).astype(np.float32)]))
        assert not choices(kernel.stages[0]) and kernel.stages[1].border
        assert len(kernel.outer) == 1


def test_a_rolled_stencil_of_all_sizes(rng):
    sizes = [(37, 61), (1, 1), (1, 40), (2, 1), (0, 3), (3, 0), (64, 129)]
    given = [[rng.standard_normal(s).astype(np.float32)] for s in sizes]
    kernel = kernel_of(same(periodic_heat, given[0], dynamic=True, sizes=given))
    assert [s.border for s in kernel.stages] == [False, True]


@pytest.mark.parametrize("shift", [0, 1, -1, 3, 70, -70, 199, 200, 201, -403, 10**12])
def test_rolls_by_any_shift(shift, rng, small):
    x = rng.standard_normal((130, 200)).astype(np.float32)
    for axis in (0, 1, (0, 1), None):
        by = (shift, 2 * shift) if axis == (0, 1) else shift
        for given in (x, x.T.copy().T, x[::-1, ::2]):
            same(lambda x, axis=axis, by=by: np.roll(x, by, axis) * 2, [given])


def test_only_a_roll_far_along_the_last_axis_is_stored(rng):
    x = rng.standard_normal((300, 400)).astype(np.float32)
    for shift, axis, kernels in ((130, 0, 1), (2, 1, 1), (-2, 1, 1), (130, 1, 3)):
        steps = same(lambda x, shift=shift, axis=axis: np.roll(x, shift, axis) * 2, [x]).steps
        assert len(steps) == kernels
