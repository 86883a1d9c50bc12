"""Matrix decompositions at every level: the graph's interpreter, the interpreter of loop programs, native code."""

from __future__ import annotations

import numpy as np
import pytest

from broadloom.compiler.build import fuse
from broadloom.dtypes import DType, complex64, complex128, float32, float64
from broadloom.fusion.evaluate import Failure, evaluate
from broadloom.fusion.parse import parse
from broadloom.fusion.text import print_program
from broadloom.graph.builder import GraphBuilder
from broadloom.graph.interpret import interpret
from broadloom.graph.ir import Graph, Output, TensorType
from broadloom.ops.table import OPS
from broadloom.passes.table import default_pipeline
from broadloom.runtime.context import exception
from tests.codegen.programs import Failed, Native
from tests.compiled import equality

CALLS = [
    (name, dict(sample.attrs))
    for name in ("qr", "qr_raw", "svd", "svdvals", "eigh", "eigvalsh", "eig", "eigvals", "slogdet")
    for sample in {str(s.attrs): s for s in OPS[name].samples}.values()
]


def graph_of(name: str, attrs: dict[str, object], dtype: DType, shape: tuple[int, ...]) -> Graph:
    b = GraphBuilder("f")
    results = b.call_tuple(name, b.input("a", TensorType(dtype, shape)), **attrs)
    graph = b.finish([Output(r, tuple(range(b.type_of(r).ndim))) for r in results])
    return default_pipeline().run(graph)


@pytest.mark.parametrize(("name", "attrs"), CALLS, ids=str)
@pytest.mark.parametrize("dtype", [float32, float64, complex64, complex128], ids=str)
def test_all_levels_agree(name: str, attrs: dict[str, object], dtype: DType, rng: np.random.Generator) -> None:
    square = OPS[name].signature(attrs).core_ranks(1) == (2,) and "(n,n)->" in str(OPS[name].signature(attrs))
    for shape in ((2, 3, 3), (1, 1), (2, 0, 0)) if square else ((2, 4, 3), (2, 5), (3, 0), (0, 2)):
        a = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype.kind == "c" else 0)
        a = (a + 6 * np.eye(*shape[-2:])).astype(dtype.numpy)
        graph = graph_of(name, attrs, dtype, shape)
        program = fuse(graph).program
        assert parse(print_program(program)) == program
        for outputs in (interpret(graph, [a]), evaluate(program, [a]), Native(program)(a)):
            equality.check(OPS[name], attrs, [a], tuple(outputs))


@pytest.mark.parametrize("name", ["svd", "svdvals", "eig", "eigvals"])
@pytest.mark.parametrize("dtype", [float64, complex128], ids=str)
def test_the_first_bad_matrix_is_the_same_at_every_level(name: str, dtype: DType) -> None:
    a = np.tile(np.eye(3, dtype=dtype.numpy), (4, 1, 1))
    a[1:3, 0, 1] = np.nan
    attrs = {"full_matrices": True} if name == "svd" else {}
    graph = graph_of(name, attrs, dtype, a.shape)
    program = fuse(graph).program
    with pytest.raises(np.linalg.LinAlgError) as numpys:
        interpret(graph, [a])
    with pytest.raises(Failure) as interpreted:
        evaluate(program, [a])
    with pytest.raises(Failed) as failed:
        Native(program)(a)
    assert interpreted.value.payload[0] == failed.value.payload[0] == 1
    for payload in (interpreted.value.payload, failed.value.payload):
        error = exception(program.sites, failed.value.code, failed.value.site, payload)
        assert str(error) == f"{numpys.value} (matrix 1 of the stack, in {name})"


def test_q_is_made_only_where_it_is_asked_for() -> None:
    b = GraphBuilder("f")
    q, r = b.call_tuple("qr", b.input("a", TensorType(float64, (4, 3))), mode="reduced")
    for value, count in ((q, 2), (r, 1)):
        program = fuse(b.finish([Output(value, (0, 1))])).program
        assert sum(hasattr(step, "routine") for step in program.steps) == count
