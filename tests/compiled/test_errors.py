"""Run-time errors of compiled ops: of NumPy's class, naming what failed first, with nothing delivered.

Static and symbolic, on one thread and on several; the function goes on working after an error.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import broadloom as bl
from broadloom.dtypes import complex128, float32, float64, int8, int64
from broadloom.ops.table import OPS
from tests.compiled.layouts import LAYOUTS, Array, Layout, LayoutClass, arranged
from tests.compiled.modules import Call, Module, calls_of, compiled, plan

LOOPS = ((3,), (3,))
pytestmark = pytest.mark.every_python


def module_of(call: Call, layout: LayoutClass, symbolic: bool, rng: np.random.Generator) -> Module:
    while True:
        graph, placed, _ = plan([call], layout, LOOPS, symbolic, rng)
        if not any("zero" in x.kinds for x in placed[0].layouts):
            return Module(graph, placed, compiled(graph))


def run(module: Module, arrays: list[Array], rng: np.random.Generator, threads: int = 1) -> tuple[Array, ...]:
    (placed,) = module.placed
    # never along zero strides: all loop points would be one, and the test could not choose which of them fails
    laid = [arranged(x, _moving(layout), 0, rng) for x, layout in zip(arrays, placed.layouts, strict=True)]
    return module.run(laid, threads)


def ways(request: pytest.FixtureRequest, rng: np.random.Generator) -> list[tuple[LayoutClass, bool]]:
    """All layout classes, static and symbolic; a drawn one of each kind in the daily run."""
    every = [(layout, symbolic) for layout in LAYOUTS for symbolic in (False, True)]
    chosen = every if request.config.getoption("--full") else [every[int(k)] for k in rng.permutation(len(every))[:2]]
    return [(layout, symbolic) for layout, symbolic in chosen]


def _moving(layout: Layout) -> Layout:
    return replace(layout, kinds=tuple("any" if kind == "zero" else kind for kind in layout.kinds))


# The arrays of one call with loop dims, the index that is out of range, the axis as NumPy counts it, and its size.
INDEXED: dict[str, tuple[int, int]] = {"take": (1, 1), "take_along_axis": (1, 1), "gather": (1, 1), "scatter": (2, 1)}


@pytest.mark.parametrize("name", INDEXED)
@pytest.mark.parametrize("bad", [5, 1000, -6, 2**40, -(2**63)])
def test_an_index_out_of_range(name: str, bad: int, request: pytest.FixtureRequest, rng: np.random.Generator) -> None:
    operand, axis = INDEXED[name]
    call = next(c for c in calls_of(OPS[name], _dtypes(name)) if c.sample.core_shapes[0] == (5,))
    for layout, symbolic in ways(request, rng):
        module = module_of(call, layout, symbolic, rng)
        arrays = _operands(call, rng)
        reference = OPS[name].reference
        expected = reference(*arrays, **call.sample.attrs)
        np.testing.assert_array_equal(run(module, arrays, rng)[0], expected)
        point = tuple(int(rng.integers(n)) for n in arrays[operand].shape)
        wrong = [x.copy() for x in arrays]
        wrong[operand][point] = bad
        with pytest.raises(IndexError) as numpys:
            reference(*wrong, **call.sample.attrs)
        for threads in (1, 2):
            with pytest.raises(IndexError) as ours:
                run(module, wrong, rng, threads)
            message = f"index {bad} is out of bounds for axis {axis} with size 5"
            assert str(numpys.value) == message
            assert str(ours.value) == f"{message} (in {name})"
        np.testing.assert_array_equal(run(module, arrays, rng)[0], expected)
        if name != "take" and (layout == "f" or layout == "strided"):
            continue  # NumPy goes through the memory of the index array, which the reference does not have like this
        many = wrong[operand].ravel()
        many[rng.permutation(many.size)[:3]] = bad // 2 - np.arange(1, 4) * 100 * (1 if bad < 0 else -1)
        with pytest.raises(IndexError) as numpys:
            reference(*wrong, **call.sample.attrs)
        with pytest.raises(IndexError) as ours:
            run(module, wrong, rng, 2)
        assert str(ours.value) == f"{numpys.value} (in {name})"


def _dtypes(name: str) -> tuple[Any, ...]:
    return {"scatter": (float64, float64, int64)}.get(name, (float64, int64))


def _operands(call: Call, rng: np.random.Generator) -> list[Array]:
    arrays: list[Array] = []
    for k, core in enumerate(call.sample.core_shapes):
        shape = (3, *core)
        if k in call.sample.domains:
            arrays.append(rng.integers(-5, 5, shape))
        else:
            arrays.append(rng.standard_normal(shape))
    return arrays


def test_the_first_of_many_bad_indices_is_named_on_any_number_of_threads(rng: np.random.Generator) -> None:
    call = next(c for c in calls_of(OPS["take"], (float64, int64)) if c.sample.core_shapes == ((5,), (3,)))
    graph, placed, _ = plan([call], "c", ((), ()), True, rng)
    module = Module(graph, placed, compiled(graph))
    x, indices = np.arange(10.0), rng.integers(-10, 10, 300_000)
    for first in (299_999, 150_000, 7):
        indices[first] = 10 + first
        for threads in (1, 2, 3):
            with pytest.raises(IndexError, match=f"index {10 + first} is out of bounds for axis 0 with size 10"):
                module.run([x, indices], threads)


@pytest.mark.parametrize("name", ["solve", "inv", "cholesky"])
@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
def test_a_matrix_that_has_no_answer(
    name: str, dtype: Any, request: pytest.FixtureRequest, rng: np.random.Generator
) -> None:
    call = next(c for c in calls_of(OPS[name], (dtype, dtype)[: OPS[name].arity]) if c.sample.core_shapes[0] == (3, 3))
    for layout, symbolic in ways(request, rng):
        module = module_of(call, layout, symbolic, rng)
        matrix = np.tile(4 * np.eye(3, dtype=dtype.numpy), (3, 1, 1))
        right = rng.standard_normal((3, 3, 2)).astype(dtype.numpy)
        arrays = [matrix, right][: len(call.sample.core_shapes)]
        expected = OPS[name].reference(*arrays)
        np.testing.assert_allclose(run(module, arrays, rng)[0], expected, rtol=1e-5)
        broken = matrix.copy()
        broken[1:, 2, 2] = -1.0 if name == "cholesky" else 0.0
        with pytest.raises(np.linalg.LinAlgError) as numpys:
            OPS[name].reference(broken, *arrays[1:])
        with pytest.raises(np.linalg.LinAlgError) as ours:
            run(module, [broken, *arrays[1:]], rng)
        assert str(ours.value).startswith(str(numpys.value))
        assert "matrix 1 of the stack" in str(ours.value)
        np.testing.assert_allclose(run(module, arrays, rng)[0], expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["svd", "svdvals", "eig", "eigvals"])
@pytest.mark.parametrize("dtype", [float32, float64, complex128], ids=str)
def test_a_matrix_that_has_no_decomposition(
    name: str, dtype: Any, request: pytest.FixtureRequest, rng: np.random.Generator
) -> None:
    call = next(c for c in calls_of(OPS[name], (dtype,)) if c.sample.core_shapes[0] == (3, 3))
    for layout, symbolic in ways(request, rng):
        module = module_of(call, layout, symbolic, rng)
        matrix = rng.standard_normal((3, 3, 3)).astype(dtype.numpy)
        (values, *_) = OPS[name].reference(matrix, **call.sample.attrs)
        assert np.isfinite(values).all()
        for bad in [np.nan, np.inf][: 1 if "svd" in name else 2]:  # SVD makes nan of infinity, as in NumPy
            broken = matrix.copy()
            broken[1:, 2, 1] = bad
            with pytest.raises(np.linalg.LinAlgError) as numpys:
                OPS[name].reference(broken, **call.sample.attrs)
            with pytest.raises(np.linalg.LinAlgError) as ours:
                run(module, [broken], rng)
            assert str(ours.value) == f"{numpys.value} (matrix 1 of the stack, in {name})"
        assert all(np.isfinite(x).all() for x in run(module, [matrix], rng))


def test_what_is_merely_singular_gives_inf_or_nan_or_zero(rng: np.random.Generator) -> None:
    singular = np.zeros((3, 3, 3))
    right = np.ones((3, 3, 2))
    (det,) = run(module_of(calls_of(OPS["det"], (float64,))[0], "c", True, rng), [singular], rng)
    assert np.array_equal(det, np.zeros(3))
    for call in calls_of(OPS["triangular_solve"], (float64, float64)):
        if call.sample.core_shapes[0] == (3, 3) and not call.sample.attrs["unit_diagonal"]:
            (x,) = run(module_of(call, "f", False, rng), [singular, right], rng)
            assert not np.isfinite(x).any()
            break


@pytest.mark.parametrize("dtype", [int8, int64], ids=str)
def test_a_negative_integer_exponent(dtype: Any, request: pytest.FixtureRequest, rng: np.random.Generator) -> None:
    (call,) = calls_of(OPS["pow"], (dtype, dtype))
    for layout, symbolic in ways(request, rng):
        module = module_of(call, layout, symbolic, rng)
        x, y = np.array([2, 3, -4], dtype.numpy), np.array([3, 0, 2], dtype.numpy)
        assert run(module, [x, y], rng)[0].tolist() == [8, 1, 16]
        y[1] = -1
        with pytest.raises(ValueError, match="Integers to negative integer powers are not allowed"):
            OPS["pow"].reference(x, y)
        with pytest.raises(ValueError, match="negative integer power"):
            run(module, [x, y], rng)


# Statements over x of 4 and y of (4, 4), each with an index of its own: where two are out of range, the first is named,
# though kernels of one form, or over the same indices, are one.
STATEMENTS = (
    ("y[i0, j]", "np.exp(y[i1, 0])", "y[i2, j]"),
    ("y[i0, j]", "x[2:][i1]", "y[i2, j]"),
    ("y[i0, j]", "x[i1[::-1]]", "y[i2, j]"),
    ("np.take_along_axis(x, i0, 0)", "x[i1]", "x[i2] + x[i0]"),
    ("np.take_along_axis(x, i0, 0)", "np.take(y, i1, axis=1)", "x[i2] + x[i0]"),
    ("x[i0] * 2", "np.linalg.solve(y[i1][:, :1] * 0, y[:1, :1])", "x[i2] + x[i0]"),
)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("statements", STATEMENTS, ids=" ; ".join)
def test_the_first_statement_that_fails_is_named(statements: tuple[str, ...], dynamic: bool) -> None:
    space: dict[str, Any] = {"np": np}
    exec(f"def f(x, y, j, i0, i1, i2):\n    return {', '.join(statements)}\n", space)
    f = bl.compile(space["f"], dynamic=dynamic, fullgraph=True)
    zero = np.zeros(1, np.int64)
    for first, second in ((0, 1), (0, 2), (1, 2), (2, 1), (2, 0)):
        indices = [zero, zero, zero]
        indices[first], indices[second] = np.array([100]), np.array([-100])
        arguments = (np.ones(4), np.ones((4, 4)), zero, *indices)
        with pytest.raises((IndexError, np.linalg.LinAlgError)) as want:
            space["f"](*arguments)
        with pytest.raises(type(want.value)) as got:
            f(*arguments)
        assert str(got.value).startswith(str(want.value))
