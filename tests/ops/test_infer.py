"""Inference agrees with the reference kernels on every op, dtype and loop shape, and refuses what they cannot do."""

import warnings

import numpy as np
import pytest

from broadloom.dtypes import ALL, bool_, float32, float64, from_numpy, int32, int64, uint8
from broadloom.errors import DTypeError, ShapeError
from broadloom.ops.infer import infer
from broadloom.ops.sampling import LOOP_SHAPES, operands
from broadloom.ops.table import OPS
from broadloom.symbolic import ShapeEnv, Symbol


@pytest.mark.parametrize("op", OPS.values(), ids=str)
def test_inferred_types_are_the_reference_kernels(op, rng):
    checked = 0
    for sample in op.samples:
        for dtypes in op.sample_dtypes:
            for loops in LOOP_SHAPES:
                arrays = operands(sample, dtypes, rng, loops)
                types = [(from_numpy(a.dtype), a.shape) for a in arrays]
                if op.name in ("bitcast", "view_dtype"):
                    try:
                        expected = infer(op, types, sample.attrs)
                    except (DTypeError, ShapeError):
                        continue  # widths that do not fit
                else:
                    expected = infer(op, types, sample.attrs)
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    results = op.reference(*arrays, **sample.attrs)
                results = results if isinstance(results, tuple) else (results,)
                assert all(type(r) is np.ndarray for r in results)
                assert tuple((from_numpy(r.dtype), r.shape) for r in results) == expected
                checked += 1
    assert checked >= 4


def refused(name, types, attrs, words, error=ShapeError):
    with pytest.raises(error) as caught:
        infer(OPS[name], types, attrs)
    assert words in str(caught.value), str(caught.value)


def test_shapes_that_cannot_be():
    x = (float64, (3, 4))
    refused("add", [x], {}, "wrong number of operands")
    refused("add", [x, (float64, (3,))], {}, "do not broadcast")
    refused("reshape", [x], {"core": 2, "shape": (5, 2)}, "number of elements changes")
    refused("slice", [x], {"starts": (0,), "sizes": (5,), "steps": (1,)}, "leaves its axis")
    refused("slice", [x], {"starts": (1,), "sizes": (3,), "steps": (-1,)}, "leaves its axis")
    refused("slice_update", [x, (float64, (3, 1))], {"starts": (4,), "sizes": (1,), "steps": (1,)}, "leaves its axis")
    refused("slice_update", [x, (float64, (2,))], {"starts": (0,), "sizes": (1,), "steps": (1,)}, "is 2, not 1")
    refused("expand", [x], {"shape": (3, 5)}, "is 4, not 5")
    refused("permute", [x], {"axes": (-1, -3)}, "leave out an axis")
    refused("concat", [x, (float64, (2, 5))], {"axis": -2}, "core dim b")
    refused("concat", [], {"axis": -2}, "wrong number of operands")
    refused("matmul", [x, x], {}, "core dim n is 3, not 4")
    refused("inv", [x], {}, "core dim n is 4, not 3")
    refused("view_dtype", [(uint8, (6,))], {"dtype": int32}, "no multiple")
    refused("diagonal", [x], {"offset": 0, "axis1": -1, "axis2": -1}, "two axes")
    refused("take", [x, (int64, (2,))], {"axis": -1}, "'index_rank' is missing")
    refused("gather", [x, (int64, (2,))], {"axes": (-2,), "core": 1}, "core is too small")
    refused("pad", [x, (float64, ())], {"before": (-1,), "after": (0,)}, "before is not a tuple of sizes")


def test_dtypes_that_cannot_be():
    refused("add", [(float64, ()), (float32, ())], {}, "operand dtypes differ", DTypeError)
    refused("where", [(int64, ()), (float32, ()), (float32, ())], {}, "condition is not bool", DTypeError)
    refused("take", [(float64, (3,)), (float64, ())], {"axis": -1, "index_rank": 0}, "not an integer", DTypeError)
    refused("take", [(float64, (3,)), (bool_, ())], {"axis": -1, "index_rank": 0}, "not an integer", DTypeError)
    refused("bitcast", [(float64, ())], {"dtype": int32}, "another width", DTypeError)
    refused("sqrt", [(int64, ())], {}, "cast to the dtype NumPy chooses", DTypeError)
    lu_types = [(float64, (2, 2)), (int64, (2,)), (float64, (2, 1))]
    refused("lu_solve", lu_types, {}, "pivots have another dtype", DTypeError)


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_no_elements_have_no_extremum(name):
    attrs = {"axis": -1} if name.startswith("arg") else {"axes": (-1,)}
    refused(name, [(float64, (3, 0))], {**attrs, "keepdims": False}, "over no elements")
    deeper = {"axis": -2} if name.startswith("arg") else {"axes": (-2,)}
    refused(name, [(float64, (0, 0))], {**deeper, "keepdims": False}, "over no elements")  # as NumPy, though empty
    (result,) = infer(OPS[name], [(float64, (3, 0))], {**deeper, "keepdims": False})
    assert result[1] == (0,)


def test_symbolic_sizes():
    n, m = Symbol("n"), Symbol("m")
    keep = {"axes": (-1,), "keepdims": True}
    assert infer(OPS["add"], [(int64, (n, 1)), (int64, (m,))], {}) == ((int64, (n, m)),)
    assert infer(OPS["max"], [(int64, (n,))], keep) == ((int64, (1,)),)
    assert infer(OPS["iota"], [], {"size": n, "dtype": int64}) == ((int64, (n,)),)
    assert infer(OPS["reshape"], [(int64, (n, m))], {"core": 2, "shape": (m * n,)}) == ((int64, (m * n,)),)
    assert infer(OPS["pad"], [(int64, (n,)), (int64, ())], {"before": (m,), "after": (1,)}) == ((int64, (n + m + 1,)),)
    assert infer(OPS["view_dtype"], [(int64, (n,))], {"dtype": uint8}) == ((uint8, (8 * n,)),)
    assert infer(OPS["view_dtype"], [(uint8, (8 * n,))], {"dtype": int64}) == ((int64, (n,)),)
    assert infer(OPS["repeat"], [(int64, (n,))], {"repeats": 3, "axis": -1}) == ((int64, (3 * n,)),)
    assert infer(OPS["concat"], [(int64, (n,)), (int64, (m,))], {"axis": -1}) == ((int64, (n + m,)),)
    assert infer(OPS["expand"], [(int64, (1,))], {"shape": (n, m)}) == ((int64, (n, m)),)
    cut = {"starts": (1,), "sizes": (n - 1,), "steps": (1,)}
    assert infer(OPS["slice"], [(int64, (n,))], cut) == ((int64, (n - 1,)),)
    diagonal = {"offset": 0, "axis1": -2, "axis2": -1}
    assert infer(OPS["diagonal"], [(int64, (n, n))], diagonal) == ((int64, (n,)),)
    refused("reshape", [(int64, (n, m))], {"core": 2, "shape": (n,)}, "cannot be proven")


def test_questions_go_to_the_shape_environment():
    env = ShapeEnv()
    n, m = env.create("n", 4), env.create("m", 4)
    types = [(float64, (n,)), (float64, (m,))]
    (result,) = infer(OPS["add"], types, {}, lambda relation: env.decide(relation, None))
    assert result == (float64, (n,)) and len(env.guards) == 1
    infer(OPS["max"], types[:1], {"axes": (-1,), "keepdims": False}, lambda relation: env.decide(relation, None))
    assert len(env.guards) == 2, "that there is an element is guarded"


def test_casts_reach_every_dtype():
    for source in ALL:
        for target in ALL:
            assert infer(OPS["cast"], [(source, (2,))], {"dtype": target}) == ((target, (2,)),)
