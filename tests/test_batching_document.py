"""What docs/batching.md says of refusals and of memory is so; its examples run in `test_documents`."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import broadloom as bl
from broadloom.errors import GraphBreakError, TransformError

TEXT = (Path(__file__).parent.parent / "docs" / "batching.md").read_text()
X = np.arange(24.0).reshape(2, 3, 4)
weights = np.ones(4)
kept: list[bl.Tensor] = []


def condition(x):
    return x if x.sum() > 0 else -x


def write(x):
    weights[0] = x[0, 0]
    return x


def keep(x):
    kept.append(x * 2)
    return x


def use_what_was_kept():
    bl.vmap(keep)(X)
    return kept[-1] + 1


# By the words of the message in the table: calls that are refused with them.
REFUSED = {
    "depends on data": [
        lambda: bl.vmap(lambda x: x[x > 1])(X),
        lambda: bl.vmap(lambda x: np.nonzero(x))(X),
        lambda: bl.vmap(lambda x: np.unique(x))(X),
        lambda: bl.vmap(lambda x: np.where(x > 1))(X),
    ],
    "a condition of a batched value": [lambda: bl.vmap(condition)(X)],
    "int() of a batched value": [lambda: bl.vmap(lambda x: np.arange(int(x[0, 0])))(X)],
    "a write to weights, which belongs to the program around": [lambda: bl.vmap(write)(X)],
    "shares memory with another argument": [
        lambda: bl.vmap(lambda x, y: x.__iadd__(y), (0, 1))(*[np.ones((3, 3))] * 2),
        lambda: (lambda z: bl.vmap(lambda x, y: x.__iadd__(y))(z[1:], z[:-1]))(np.ones((3, 3))),
    ],
    "kept from a batched function": [use_what_was_kept],
    "without a batching rule of its own": [lambda: bl.vmap(lambda x: np.apply_along_axis(np.sum, 0, x))(X)],
    "drawn once, for all examples": [lambda: bl.vmap(lambda x: x + np.random.default_rng(0).random())(X)],
    "the mapped axes differ in size": [lambda: bl.vmap(lambda x, y: x, in_axes=(0, 1))(X, X)],
    "a mapped function returns what is no array": [lambda: bl.vmap(lambda x: "text")(X)],
    "out_axes is None for result 0": [lambda: bl.vmap(lambda x: x, out_axes=None)(X)],
}


def test_every_refusal_of_the_table_is_tried():
    said = re.findall(r"^\| [^|]+ \| `([^`|]+)` \| [^|]+ \|$", TEXT, re.MULTILINE)
    assert said == list(REFUSED)


@pytest.mark.parametrize("message", REFUSED)
def test_refusals_say_what_the_table_says(message):
    for call in REFUSED[message]:
        with pytest.raises(TransformError, match=re.escape(message)):
            call()
    assert weights.tolist() == [1.0] * 4


def test_what_is_taken_beside_the_refusals():
    def shared(x, n):
        y = x * 2 if n > 1 and x.shape[0] == 3 else x
        return y[y > 3].sum(), np.mean(y, where=y > 3)

    for got, want in zip(bl.vmap(shared, (0, None))(X, 2), zip(*(shared(x, 2) for x in X), strict=True), strict=True):
        np.testing.assert_array_equal(got, want)
    with pytest.raises(GraphBreakError):
        bl.compile(bl.vmap(condition), fullgraph=True)(X)


def test_the_function_runs_once_and_shared_calls_are_made_once():
    def core(x, y):
        kept.append(x)
        return x + np.sin(y)

    kept.clear()
    np.testing.assert_allclose(bl.vmap(core, (0, None))(X, weights), X + np.sin(weights), rtol=1e-15)
    assert len(kept) == 1
    graph = bl.make_graph(bl.vmap(lambda x, y: x + np.sin(y), (0, None)))(X, weights)
    assert [n.types[0].shape for n in graph.nodes if str(n.op) == "sin"] == [(4,)]


def test_outputs_with_fewer_loop_dims_are_refused():
    total = bl.gufunc("(n)->()")(lambda x: np.sum(x))
    for shape in ((), (3,), (2, 1), (1, 3)):
        with pytest.raises(ValueError):
            total(X, out=np.zeros(shape))


def test_chunks_change_nothing_in_compiled_code():
    reports = [bl.explain(bl.vmap(lambda x: np.sin(x).sum(), chunk_size=n))(X) for n in (None, 1)]
    assert len({(k.loops, k.counts) for r in reports for k in r.kernels}) == 1 == len(reports[1].kernels)
