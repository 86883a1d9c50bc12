"""Division by powers of two, small whole powers, signs: when they are replaced, and that the values stay."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import erf

import broadloom as bl
from broadloom.dtypes import float16, float32, float64, from_numpy
from broadloom.graph.builder import GraphBuilder
from broadloom.graph.interpret import interpret
from broadloom.graph.ir import Output, TensorType
from broadloom.graph.manager import PassContext
from broadloom.passes.cheaper_arithmetic import EVEN, ODD, CheaperArithmetic

SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, -7.25]


def before_and_after(op, number, dtype):
    b = GraphBuilder("test")
    x = b.input("x", TensorType(dtype, (len(SPECIAL) + 1000,)))
    graph = b.finish([Output(b.call(op, x, b.constant(np.asarray(number, dtype.numpy))), (0,))])
    return graph, CheaperArithmetic().run(graph, PassContext())


def values(dtype, rng):
    drawn = np.concatenate([SPECIAL, rng.normal(size=1000) * 10.0 ** rng.integers(-5, 5, 1000)])
    with np.errstate(over="ignore"):
        return drawn.astype(dtype.numpy)


@pytest.mark.parametrize("dtype", [float16, float32, float64])
@pytest.mark.parametrize("number", [4.0, -0.5, 1024.0])
def test_division_by_a_power_of_two_is_a_product_of_the_same_bits(number, dtype, rng):
    graph, changed = before_and_after("divide", number, dtype)
    assert [str(n.op) for n in changed.nodes if str(n.op) in ("divide", "multiply")] == ["multiply"]
    with np.errstate(all="ignore"):
        x = values(dtype, rng)
        (want,), (got,) = interpret(graph, [x]), interpret(changed, [x])
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize("number", [3.0, 0.0, np.inf, np.nan, 2.0**-149, 2.0**127])
def test_other_divisions_stay(number):
    graph, changed = before_and_after("divide", number, float32)
    assert changed is graph


@pytest.mark.parametrize(("dtype", "number"), [(float32, 2), (float32, 3), (float32, 4), (float64, 2), (float64, 3)])
def test_small_whole_powers_are_products_within_the_bound(dtype, number, rng):
    _, changed = before_and_after("pow", number, dtype)
    assert not any(str(n.op) == "pow" for n in changed.nodes)
    with np.errstate(all="ignore"):
        x = values(dtype, rng)
        (got,) = interpret(changed, [x])
        exact = x.astype(np.longdouble) ** number
        want = exact.astype(dtype.numpy)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        np.testing.assert_array_equal(np.signbit(got[~np.isnan(got)]), np.signbit(want[~np.isnan(want)]))
        finite = np.isfinite(want)
        np.testing.assert_array_equal(got[~finite & ~np.isnan(want)], want[~finite & ~np.isnan(want)])
        distance = np.abs(got[finite] - exact[finite]) / np.spacing(np.abs(want[finite]))
    assert distance.max() <= (0.51 if from_numpy(got.dtype) is float32 else 2.0)


@pytest.mark.parametrize("number", [4.0, 2.5, -1.0, 0.0])
def test_other_powers_stay(number):
    graph, changed = before_and_after("pow", number, float64)
    assert changed is graph


@pytest.mark.parametrize("dtype", [float16, float32, float64], ids=str)
@pytest.mark.parametrize("name", sorted(ODD | EVEN))
def test_odd_and_even_functions_are_so_to_the_bit(name, dtype, rng):
    """In compiled code; the rewriting of signs rests on it."""
    function = (
        erf if name == "erf" else getattr(np, f"arc{name[1:]}" if name.startswith("a") and name != "abs" else name)
    )
    compiled = bl.compile(lambda x: function(x), fullgraph=True)
    inputs = values(dtype, rng)
    inputs[np.isnan(inputs)] = 1.5
    plus, minus = compiled(inputs), compiled(-inputs)
    expected = plus if name in EVEN else -plus
    finite = ~np.isnan(plus)
    assert minus[finite].tobytes() == expected[finite].tobytes()
    assert np.isnan(minus[~finite]).all()


@pytest.mark.parametrize("op", ["multiply", "divide", "add", "subtract"])
@pytest.mark.parametrize("signs", [(True, False), (False, True), (True, True)])
def test_signs_of_operands_change_no_bit(op, signs, rng):
    b = GraphBuilder("test")
    given = [b.input(n, TensorType(float64, (len(SPECIAL) + 1000,))) for n in "xy"]
    operands = [b.call("negative", v) if s else v for v, s in zip(given, signs, strict=True)]
    graph = b.finish([Output(b.call(op, *operands), (0,))])
    changed = CheaperArithmetic().run(graph, PassContext())
    with np.errstate(all="ignore"):
        x = values(float64, rng)
        y = rng.permutation(x)
        (want,), (got,) = interpret(graph, [x, y]), interpret(changed, [x, y])
    numbers = ~np.isnan(want)
    assert got[numbers].tobytes() == want[numbers].tobytes() and np.isnan(got[~numbers]).all()
