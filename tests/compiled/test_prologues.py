"""Pointwise code before a product of matrices: it is computed where the product packs its operands, or the report says
why not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import broadloom as bl
from broadloom.compiler.api import make_graph
from broadloom.compiler.build import fuse
from broadloom.dtypes import bfloat16
from broadloom.fusion.evaluate import evaluate
from broadloom.fusion.ir import Extern
from broadloom.fusion.parse import parse
from broadloom.fusion.text import print_program
from broadloom.fusion.verify import verify
from broadloom.passes.table import default_pipeline

from .test_products import FLOATS, INTEGERS, Array, draw

Function = Callable[..., Any]


def relu(x: Array, w: Array) -> Any:
    return np.maximum(x, 0) @ w


def linear(x: Array, w: Array) -> Any:
    return (2 * x + 1) @ w


def right(x: Array, w: Array) -> Any:
    return x @ (w * 3 - 1)


def both(x: Array, w: Array) -> Any:
    return np.maximum(x, 0) @ np.minimum(w, 1)


def both_transposed(x: Array, w: Array) -> Any:
    return (np.minimum(w, 1).T @ np.maximum(x, 0).T).T


def before_and_behind(x: Array, w: Array) -> Any:
    return np.maximum((x - 1) @ (w * 2), 0) + 1


PAIRS = [relu, linear, right, both, both_transposed, before_and_behind]


def compiled(function: Function, threads: int = 2, dynamic: bool = False, **options: Any) -> Any:
    return bl.compile(function, fullgraph=True, dynamic=dynamic, options={"num_threads": threads, **options})


def assert_fused(f: Any, count: int = 1) -> None:
    """Products alone are run, in no memory beside."""
    report = f.report()
    assert [r.kind for r in report.kernels] == ["matmul"] * len(report.compiles)
    assert report.allocations == ()
    assert sum("is computed where it is packed" in str(d) for d in report.fusions) == count * len(report.compiles)


def check(function: Function, *arrays: Array, count: int = 1, dynamic: bool = False) -> None:
    """In one step, with the bits of separate steps on one thread."""
    apart = np.asarray(compiled(function, 1, dynamic=dynamic, fusion=False)(*arrays))
    want = function(*arrays)
    assert apart.dtype == want.dtype
    f = compiled(function, 3, dynamic)
    assert np.asarray(f(*arrays)).tobytes() == apart.tobytes()
    assert_fused(f, count)
    if want.dtype.kind in "iu":
        np.testing.assert_array_equal(apart, want)
    else:
        exact = function(*(a.astype(np.float64) for a in arrays))
        halves = any(a.dtype.itemsize == 2 for a in arrays)
        error = 2.0 ** (-6 if halves else -17) * (np.abs(exact).max(initial=0) + 1)
        np.testing.assert_allclose(apart.astype(np.float64), exact, rtol=0, atol=error)


SHAPES = [(33, 70, 29), (147, 1100, 49), (300, 40, 600), (70, 1, 900)]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", PAIRS, ids=lambda f: f.__name__)
def test_every_edge(function: Function, dynamic: bool, rng: np.random.Generator) -> None:
    for m, k, n in SHAPES:
        x, w = draw(rng, (m, k), np.float32), draw(rng, (k, n), np.float32)
        check(function, x, w, count=1 if function in (relu, linear, right) else 2, dynamic=dynamic)


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_same_bits_for_any_number_of_threads(dynamic: bool, rng: np.random.Generator) -> None:
    x, w = draw(rng, (130, 1500), np.float32), draw(rng, (1500, 600), np.float32)
    alone, *others = (compiled(both, t, dynamic)(x, w).tobytes() for t in (1, 2, 3, 4))
    assert all(other == alone for other in others)


@pytest.mark.parametrize("function", PAIRS, ids=lambda f: f.__name__)
def test_sizes_of_the_call(function: Function, rng: np.random.Generator) -> None:
    """Few rows too, which are computed as a whole: the right matrix is then read as it lies."""
    f = compiled(function, dynamic=True)
    for _ in range(20):
        m, k, n = (int(rng.choice([0, 2, 3, 5, 8, 16, 17, 31, 49, 130, 513])) for _ in range(3))
        x, w = draw(rng, (m, k), np.float64), draw(rng, (k, n), np.float64)
        np.testing.assert_allclose(f(x, w), function(x, w), rtol=1e-9, atol=1e-9)
    assert f.report().allocations == () and {r.kind for r in f.report().kernels} == {"matmul"}
    assert len(f.report().compiles) <= 3


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, np.float16, bfloat16.numpy], ids=lambda d: np.dtype(d).name)
def test_every_dtype(dtype: Any, rng: np.random.Generator) -> None:
    one = np.ones((), dtype)

    def function(x: Array, w: Array) -> Any:
        return np.maximum(x, one) @ (w * one + one)

    x, w = draw(rng, (70, 130), dtype), draw(rng, (130, 45), dtype)
    check(function, x, w, count=2)
    check(function, np.asfortranarray(x), np.asfortranarray(w), count=2)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("scales", [(1, 90), (80, 1), (80, 90), ()], ids=str)
def test_weights_of_few_bits(scales: tuple[int, ...], dynamic: bool, rng: np.random.Generator) -> None:
    """Numbers times a scale for each column, each row, each of them or all."""
    x, q = draw(rng, (50, 80), np.float32), draw(rng, (80, 90), np.int8)
    scale = np.asarray(np.abs(draw(rng, scales, np.float32)))

    def dequantised(x: Array, q: Array, scale: Array) -> Any:
        return x @ (q * scale)

    check(dequantised, x, q, scale, dynamic=dynamic)
    check(
        lambda x, q, scale: x @ ((q.astype(np.float32) - 3) * scale),
        x,
        *map(np.asfortranarray, (q, scale)),
        dynamic=dynamic,
    )
    check(lambda x, q, scale: x @ (q.astype(np.float32) * scale).T, x, draw(rng, (90, 80), np.int8), scale.T.copy())


@pytest.mark.parametrize("dynamic", [False, True])
def test_masks_and_several_arrays(dynamic: bool, rng: np.random.Generator) -> None:
    x, w = draw(rng, (60, 80), np.float32), draw(rng, (80, 90), np.float32)
    mask = draw(rng, (80, 90), np.float32) > 0
    check(lambda x, w, mask: x @ (w * mask), x, w, mask, dynamic=dynamic)
    check(lambda x, w, mask: x @ np.where(mask, w, 0), x, w, mask, dynamic=dynamic)
    row, column = draw(rng, (80,), np.float32), draw(rng, (60, 1), np.float32)
    check(lambda x, w, row, column: (x * column + row) @ w, x, w, row, column, dynamic=dynamic)


def layouts(x: Array) -> list[Array]:
    """Arrays of the same shape that lie otherwise."""
    wide = np.zeros((x.shape[0] * 2, x.shape[1] * 3), x.dtype)
    wide[::2, ::3] = x
    bytes_ = np.zeros(x.nbytes + 1, np.uint8)
    misaligned = bytes_[1:].view(x.dtype).reshape(x.shape)
    misaligned[...] = x
    padded = np.zeros((x.shape[0], x.shape[1] + 5), x.dtype)
    padded[:, 3:-2] = x
    row, column = (np.broadcast_to(y, x.shape) for y in (x[:1], x[:, :1]))
    return [x, np.asfortranarray(x), wide[::2, ::3], x[::-1], x[:, ::-1], misaligned, padded[:, 3:-2], row, column]


def test_operands_that_lie_anyhow(rng: np.random.Generator) -> None:
    """Where nothing lies side by side along either axis, the operand is stored first."""
    xs, ws = layouts(draw(rng, (50, 70), np.float32)), layouts(draw(rng, (70, 60), np.float32))
    for number, (x, w) in enumerate(zip(xs, [ws[-1], *ws[:-1]], strict=True)):
        f, apart = compiled(both), compiled(both, fusion=False)
        got = f(x, w)
        np.testing.assert_array_equal(got, apart(x, w))
        np.testing.assert_allclose(got, both(x, w), rtol=1e-4, atol=1e-3)
        why = [str(d) for d in f.report().fusions]
        assert len(f.report().allocations) == sum("along either axis" in d for d in why) <= 1, number
        assert sum("is computed where it is packed" in d for d in why) == 2 - len(f.report().allocations), number


STACKS = [
    ((3, 4, 70, 80), (80, 90)),
    ((2, 40, 300), (2, 300, 300)),
    ((70, 300), (3, 300, 300)),
    ((4, 1, 90, 300), (3, 300, 300)),
    ((1, 90, 300), (1, 300, 45)),
]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("shapes", STACKS, ids=str)
def test_stacks(shapes: tuple[tuple[int, ...], ...], dynamic: bool, rng: np.random.Generator) -> None:
    x, w = (draw(rng, s, np.float64) for s in shapes)
    check(relu, x, w, dynamic=dynamic)
    if not (dynamic and x.ndim == 4 and w.ndim == 3):  # the right one would be packed any number of times
        check(before_and_behind, x, w, count=2, dynamic=dynamic)
    check(lambda x, w: np.maximum(np.swapaxes(x, -1, -2), 0) @ w, np.swapaxes(x, -1, -2).copy(), w, dynamic=dynamic)


def test_small_matrices_of_a_stack_are_not_packed(rng: np.random.Generator) -> None:
    x, w = draw(rng, (40, 32, 64), np.float32), draw(rng, (40, 64, 128), np.float32)
    check(relu, x, w)
    assert "small and read as they lie" in why_not(right, x, w)


@pytest.mark.parametrize("function", PAIRS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", [(0, 70, 30), (70, 0, 30), (70, 30, 0)], ids=str)
def test_nothing(shape: tuple[int, int, int], function: Function) -> None:
    """Products of no rows, no summands, no columns."""
    m, k, n = shape
    for dynamic in (False, True):
        got = compiled(function, dynamic=dynamic)(np.ones((m, k), np.float32), np.ones((k, n), np.float32))
        np.testing.assert_array_equal(got, function(np.ones((m, k), np.float32), np.ones((k, n), np.float32)))


def test_arguments_that_overlap(rng: np.random.Generator) -> None:
    """Operands that are computed of the same rows, one further down than the other, or one turned."""
    base = draw(rng, (160, 80), np.float32)
    for first in (0, 1, 40):
        check(both, base[:80], base[first : first + 80], count=2)
        check(both, base[:80], base[first : first + 80].T, count=2)


def test_a_right_matrix_is_read_once_for_many_rows(rng: np.random.Generator) -> None:
    """Dear code is worth it where each element is computed once."""
    x, w = draw(rng, (300, 64), np.float32), draw(rng, (64, 200), np.float32)
    check(lambda x, w: np.exp(x) @ np.tanh(w), x, w, count=2)


# ---- refusals -----------------------------------------------------------------------------------------------------


def why_not(function: Function, *arrays: Array) -> str:
    """What the report says of a product whose operands are stored; with the right result."""
    f = bl.compile(function, fullgraph=True, dynamic=False)
    got, want = f(*arrays), function(*arrays)
    for a, b in zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]:
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)
    return "; ".join(str(d) for d in f.report().fusions if "not fused" in str(d))


def test_reasons(rng: np.random.Generator) -> None:
    x, w, v = (draw(rng, s, np.float32) / 8 for s in ((300, 70), (70, 600), (4, 3000)))
    assert "the left operand is packed 3 times, and 0.6 units" in why_not(lambda x, w: np.exp(x) @ w, x, w)
    assert "so few rows" in why_not(relu, v, draw(rng, (3000, 50), np.float32))
    assert "has more readers" in why_not(lambda x, w: (relu(x, w), np.maximum(x, 0) @ w[:, :300]), x, w)
    assert "is seen by the caller" in why_not(lambda x, w: (relu(x, w), np.maximum(x, 0)), x, w)
    assert "is both operands" in why_not(lambda x: np.maximum(x, 0) @ np.maximum(x, 0).T, x)
    assert "not pointwise" in why_not(lambda x, w: (x / x.sum(axis=1, keepdims=True)) @ w, np.abs(x) + 1, w)
    assert "is finished behind the product" in why_not(lambda x, w: relu(x @ w, w.T), x, w)
    assert "along either axis" in why_not(relu, np.repeat(np.repeat(x, 2, 0), 2, 1)[::2, ::2], w)
    twice = why_not(lambda x: (np.exp(x).T * 2) @ np.exp(x), x / 4)
    assert twice.count("too dear to be computed twice") == 2
    strided = np.zeros((70, 1200), np.float32)
    assert "along either axis" in why_not(right, x, strided[:, ::2])


def test_both_operands_of_one_array(rng: np.random.Generator) -> None:
    """Cheap code is computed for each of them."""
    check(lambda x: (np.maximum(x, 0).T * 2) @ np.maximum(x, 0), draw(rng, (90, 80), np.float32), count=2)


def test_code_that_stores_for_others_too(rng: np.random.Generator) -> None:
    """The product takes its part out of a kernel, what others need stays."""
    x, w = draw(rng, (90, 80), np.float32), draw(rng, (80, 70), np.float32)

    def function(x: Array, w: Array) -> Any:
        return np.maximum(x, 0) @ w, x - 1

    f = compiled(function)
    for a, b in zip(f(x, w), function(x, w), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    assert sorted(r.kind for r in f.report().kernels) == ["kernel", "matmul"] and f.report().allocations == ()


def test_what_is_written_is_read_before(rng: np.random.Generator) -> None:
    def update(x: Array, w: Array) -> None:
        y = np.maximum(x, 0)
        x -= 1
        x += y @ w

    def overwritten(x: Array, w: Array) -> None:
        x[...] = np.maximum(x, 0) @ w

    for function in (update, overwritten):
        for dynamic in (False, True):
            x, w = draw(rng, (80, 80), np.float64), draw(rng, (80, 80), np.float64)
            want = x.copy()
            function(want, w)
            compiled(function, dynamic=dynamic)(x, w)
            np.testing.assert_allclose(x, want, rtol=1e-10, atol=1e-10)


# ---- the report, the program ----------------------------------------------------------------------------------------


def test_the_report_names_the_code_before_a_product(rng: np.random.Generator) -> None:
    x, q, scale = draw(rng, (90, 80), np.float32), draw(rng, (80, 70), np.int8), draw(rng, (70,), np.float32)
    f = compiled(lambda x, q, scale: np.maximum(np.maximum(x, 0) @ (q * scale), 0))
    f(x, q, scale)
    (record,) = f.report().kernels
    assert record.ops == ("maximum", "cast", "multiply", "matmul", "maximum")
    assert sorted(record.loads) == ["in0", "in1", "in2"] and record.stores == ("out0",)
    assert dict(record.counts) == {"maximum": 2, "cast": 1, "multiply": 1}


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_program_is_printed_parsed_and_interpreted(dynamic: bool, rng: np.random.Generator) -> None:
    x, w = draw(rng, (64, 70), np.float64), draw(rng, (70, 90), np.float64)
    optimised = default_pipeline().run(make_graph(before_and_behind, dynamic=dynamic)(x, w))
    program = fuse(optimised).program
    (step,) = program.steps
    assert isinstance(step, Extern) and step.epilogue is not None and len(step.prologues) == 2
    verify(program)
    assert print_program(program).count("\n  prologue\n") == 2
    assert parse(print_program(program)) == program
    (made,) = evaluate(program, [x, w], optimised.constants)
    np.testing.assert_allclose(made, before_and_behind(x, w), rtol=1e-12, atol=1e-12)
