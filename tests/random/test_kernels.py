"""Native code of random numbers: one kernel without buffers, and vectors also where a distribution loops."""

import re

import numpy as np
import pytest

import broadloom as bl
import broadloom.random as R
from broadloom import dtypes
from broadloom.codegen.driver import module_text
from broadloom.codegen.outline import vector_bits
from broadloom.frontend import random as entries
from broadloom.frontend.table import FUNCTIONS
from broadloom.graph.ir import TensorType
from broadloom.graph.manager import PassContext
from broadloom.graph.recorder import Recorder
from broadloom.passes.table import default_pipeline
from broadloom.runtime.target import assembly, host
from tests.codegen.loops import host_features
from tests.fusion.graphs import scheduled
from tests.random.programs import recorded

KEY = R.key(3).numpy()


def program_of(graph):
    return scheduled(default_pipeline().run(graph, PassContext())).program


def test_numbers_fuse_into_what_reads_them():
    """Words, numbers and the sum of their squares are one kernel without a buffer between."""
    r = Recorder("f")
    k = r.input("key", TensorType(dtypes.uint32, (2,)))
    x = FUNCTIONS[entries.normal](r, k, 0.0, 2.0, size=(1000,))
    program = program_of(r.finish([FUNCTIONS[np.sum](r, FUNCTIONS[np.square](r, x))]).graph)
    assert len(program.steps) == 1
    assert [b for b in program.buffers if b.kind == "workspace"] == []


@pytest.mark.parametrize(
    ("entry", "parameters"),
    [
        (entries.gamma, {"shape": 2.5}),
        (entries.gamma, {"shape": np.linspace(0.5, 3, 1000)}),
        (entries.poisson, {"lam": 30.0}),
        (entries.binomial, {"n": 9, "p": 0.5}),
    ],
)
def test_loops_call_the_vector_form(entry, parameters):
    """Also where a parameter is the same for all elements."""
    arrays = {"key": KEY} | {k: v for k, v in parameters.items() if isinstance(v, np.ndarray)}
    others = {k: v for k, v in parameters.items() if k not in arrays}
    text = module_text(program_of(recorded(entry, arrays, size=(1000,), **others)), host())
    lanes = vector_bits(host_features()) // 64
    assert re.search(rf"(?:call|bl)\w*\s+\S*bl\.random\.random_{entry.__name__}\.v{lanes}f64", assembly(text))


def test_a_batched_function_is_one_kernel():
    def draw(key, scale):
        return R.normal(key, 0.0, scale, size=100) * 2.0

    f = bl.compile(bl.vmap(draw), fullgraph=True)
    keys, scales = R.split(KEY, 5).numpy(), np.arange(1.0, 6.0)
    got = f(keys, scales)
    assert np.array_equal(got, np.stack([np.asarray(draw(k, s)) for k, s in zip(keys, scales, strict=True)]))
    assert len(f.report().kernels) == 1


def test_sizes_that_vary_are_compiled_once_more():
    dirichlet = bl.compile(lambda alpha, key: R.dirichlet(key, alpha, 4), fullgraph=True)
    order = bl.compile(lambda n, key: R.permutation(key, n), fullgraph=True)
    half = bl.compile(lambda x, key: R.choice(key, x, x.shape[0] // 2, replace=False), fullgraph=True)
    for n in (3, 4, 5, 50):
        alpha = np.linspace(0.1, 2, n)
        assert dirichlet(alpha, KEY).tobytes() == np.asarray(R.dirichlet(KEY, alpha, 4)).tobytes()
        assert order(n, KEY).tolist() == R.permutation(KEY, n).tolist()
        assert half(alpha, KEY).tolist() == R.choice(KEY, alpha, n // 2, replace=False).tolist()
    for f in (dirichlet, order, half):
        assert len(f.report().compiles) == 2


def test_a_captured_function_gives_the_bits_of_the_eager_one():
    @bl.compile(fullgraph=True)
    def step(seed, number, x):
        noise, mask = R.split(R.fold_in(R.key(seed), number))
        return (x + R.normal(noise, size=x.shape)) * R.bernoulli(mask, 0.9, x.shape)

    x = np.linspace(0, 1, 257)
    for number in (1, 2, 3):
        got = step(7, number, x)
        assert isinstance(got, np.ndarray)
        assert got.tobytes() == np.asarray(step.__wrapped__(7, number, x)).tobytes()
