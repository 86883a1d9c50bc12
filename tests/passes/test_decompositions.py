"""Each decomposition against the reference kernel of the op it stands for, generated from the op table."""

import numpy as np
import pytest

from broadloom.dtypes import from_numpy
from broadloom.graph.builder import GraphBuilder
from broadloom.graph.interpret import interpret
from broadloom.graph.ir import Output, TensorType
from broadloom.graph.manager import PassContext
from broadloom.ops.infer import complete
from broadloom.ops.sampling import LOOP_SHAPES, operands
from broadloom.ops.table import OPS
from broadloom.passes.decompose import DECOMPOSITIONS, Decompose
from tests.ops.comparing import assert_same


def one_call(op, arrays, attrs):
    b = GraphBuilder("f")
    ids = [b.input(f"x{i}", TensorType(from_numpy(a.dtype), a.shape)) for i, a in enumerate(arrays)]
    results = b.call_tuple(op, *ids, **attrs)
    return b.finish([Output(r, tuple(range(b.type_of(r).ndim))) for r in results])


def decomposed(op, arrays, attrs):
    return Decompose().run(one_call(op, arrays, attrs), PassContext())


@pytest.mark.parametrize("name", DECOMPOSITIONS)
def test_a_decomposition_computes_what_its_op_does(name, rng):
    op = OPS[name]
    for sample in op.samples:
        for dtypes in op.sample_dtypes:
            for loops in LOOP_SHAPES:
                arrays = operands(sample, dtypes, rng, loops, edges=False)
                attrs = complete(op, sample.attrs)
                with np.errstate(all="ignore"):
                    got = interpret(decomposed(op, arrays, attrs), arrays)
                expected = op.reference(*arrays, **attrs)
                for x, y in zip(got, expected if isinstance(expected, tuple) else (expected,), strict=True):
                    assert_same(op, x, y)


@pytest.mark.parametrize("name", ["solve", "inv", "det", "cholesky"])
def test_linear_algebra_is_double_precision_as_in_numpy(name, rng):
    n = 40
    a = rng.standard_normal((n, n)).astype(np.float32)
    if name == "cholesky":
        a = a @ a.T + np.eye(n, dtype=np.float32)
    arrays = (a, rng.standard_normal((n, 2)).astype(np.float32))[: OPS[name].arity]
    (got,) = interpret(decomposed(OPS[name], arrays, {}), arrays)
    expected = getattr(np.linalg, name)(*arrays)
    np.testing.assert_array_max_ulp(got, expected, 1, np.float32)


def test_singular_matrices_raise_as_in_numpy():
    a = np.array([[1.0, 2.0], [2.0, 4.0]], np.float32)
    for name, arrays in (("inv", (a,)), ("solve", (a, a))):
        with pytest.raises(np.linalg.LinAlgError, match="Singular"):
            interpret(decomposed(OPS[name], arrays, {}), arrays)
    (det,) = interpret(decomposed(OPS["det"], (a,), {}), (a,))
    assert det == 0 and det.dtype == np.float32


def test_a_decomposition_leaves_no_op_that_decomposes_again():
    for name in DECOMPOSITIONS:
        op = OPS[name]
        arrays = operands(op.samples[0], op.sample_dtypes[0], np.random.default_rng(0))
        graph = decomposed(op, arrays, complete(op, op.samples[0].attrs))
        assert Decompose().run(graph, PassContext()) == graph
