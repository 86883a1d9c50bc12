"""Guards, sizes, cache keys, errors: what must be noticed, and what must not."""

from __future__ import annotations

import operator
import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import broadloom as bl
from broadloom.graph.ir import Graph
from broadloom.graph.manager import PassContext
from broadloom.graph.rewrite import rewrite


@pytest.mark.parametrize("read", [lambda x, i: x[i], lambda x, i: x.take(i), lambda x, i: np.take(x, i)])
@pytest.mark.parametrize("index", [13, 10, -11])
def test_index_out_of_range_raises_as_numpy_does(ways, read, index):
    x = np.arange(10)
    with pytest.raises(IndexError) as expected:
        read(x, np.array([index]))
    for compiled in ways(read):
        for _ in range(2):
            with pytest.raises(IndexError) as raised:
                compiled(x, np.array([index]))
            assert str(raised.value).startswith(str(expected.value))
        np.testing.assert_array_equal(compiled(x, np.array([3])), read(x, np.array([3])))


def test_constant_index_out_of_range_raises_as_numpy_does():
    compiled = bl.compile(lambda x: x[[13]])
    with pytest.raises(IndexError, match="index 13 is out of bounds"):
        compiled(np.arange(10))


def test_out_that_would_need_a_reduction_is_refused(check):
    x, y = np.arange(9.0).reshape(3, 3), np.array([1.0, 0.0, 0.0])
    check(lambda x, y: np.vecdot(x, y), x, y, want=np.array([0.0, 3.0, 6.0]))

    def into(x, y, out):
        return np.vecdot(x, y, out=out)

    compiled = bl.compile(into)
    with pytest.warns(UserWarning, match="plain Python"), pytest.raises(ValueError):
        compiled(x, y, np.empty(()))


def helper(x):
    return np.sin(x) + 3


def test_swapped_global_is_followed(monkeypatch):
    compiled = bl.compile(lambda x: helper(x), fullgraph=True)
    np.testing.assert_allclose(compiled(np.array([1.0])), np.sin(1.0) + 3)
    monkeypatch.setitem(globals(), "helper", lambda x: np.cos(x))
    np.testing.assert_allclose(compiled(np.array([1.0])), 0.5403, atol=1e-4)


@pytest.mark.parametrize(
    "ops",
    [(np.add, np.multiply), (np.ndarray.__add__, np.ndarray.__mul__), (operator.add, operator.mul)],
    ids=["ufuncs", "ndarray methods", "operator"],
)
def test_closures_of_one_factory_stay_apart(ops):
    def factory(op):
        def f(a, b):
            return op(a, b)

        return bl.compile(f, fullgraph=True)

    first, second = map(factory, ops)
    for _ in range(2):
        np.testing.assert_array_equal(first(np.array([5]), np.array([4])), [9])
        np.testing.assert_array_equal(second(np.array([5]), np.array([4])), [20])


def test_swapped_cell_is_followed():
    op = np.add

    def f(a, b):
        return op(a, b)

    compiled = bl.compile(f, fullgraph=True)
    assert compiled(np.array([5]), np.array([4])) == 9
    op = np.multiply
    assert compiled(np.array([5]), np.array([4])) == 20


def test_parameter_named_inf():
    compiled = bl.compile(lambda inf: inf + 1, fullgraph=True)
    for value in (1.0, 2.0):
        np.testing.assert_array_equal(compiled(np.array([value])), [value + 1])
    assert len(compiled.report().compiles) == 1


def test_unused_input_is_not_guarded():
    compiled = bl.compile(lambda x, y: y + 2, fullgraph=True)
    for n in (0, 2, 1, 5):
        np.testing.assert_array_equal(compiled(np.zeros(n), np.ones(3)), [3, 3, 3])
    assert len(compiled.report().compiles) == 1


def test_one_kernel_serves_sizes_0_1_and_n():
    compiled = bl.compile(lambda x: x * 2, dynamic=True, fullgraph=True)
    for n in (1, 2, 0, 9):
        np.testing.assert_array_equal(compiled(np.arange(n)), np.arange(n) * 2)
    assert len(compiled.report().compiles) == 1


def test_second_size_makes_the_dim_symbolic():
    compiled = bl.compile(lambda x: (x * 2).sum(), fullgraph=True)
    for n in (3, 4, 5, 0, 1, 1000):
        assert compiled(np.arange(n)) == 2 * np.arange(n).sum()
    report = compiled.report()
    assert len(report.compiles) == 2
    assert "shape[0]" in report.recompiles[0].reason and "3" in report.recompiles[0].reason


@dataclass(frozen=True, slots=True)
class ReplaceSubtraction:
    """A user's pass: subtraction becomes another op."""

    name: ClassVar[str] = "replace-subtraction"
    by: str

    def run(self, graph: Graph, context: PassContext) -> Graph:
        def rule(b, node, operands):
            return (b.call(self.by, *operands),) if str(node.op) == "subtract" else None

        return rewrite(graph, rule)


def passes_by_class():
    """Two passes of one name and no options, that differ in their code alone."""

    def make(by):
        class Replace:
            name: ClassVar[str] = "replace"

            def run(self, graph, context):
                return rewrite(graph, lambda b, n, o: (b.call(by, *o),) if str(n.op) == "subtract" else None)

        return dataclass(frozen=True)(Replace)()

    return make("add"), make("multiply")


@pytest.mark.parametrize("pair", [(ReplaceSubtraction("add"), ReplaceSubtraction("multiply")), passes_by_class()])
def test_pass_is_part_of_the_cache_key(tmp_path, pair):
    a = np.array([3.0])
    for p, want in zip(pair, (6.0, 9.0), strict=True):
        options = {"cache_dir": tmp_path / "cache", "passes": (p,)}
        compiled = bl.compile(lambda x, y: x - y, fullgraph=True, options=options)
        np.testing.assert_array_equal(compiled(a, a), [want])
        assert compiled.report().compiles[0].cache == "miss"


def test_edit_of_a_comment_hits_the_cache(tmp_path):
    sources = ["def f(x):\n    return x + 1\n", "# said anew\n\ndef f(x):\n    # one more\n    return x + 1\n"]
    seen = []
    for source in sources:
        namespace: dict = {}
        exec(compile(source, "<test>", "exec"), namespace)
        compiled = bl.compile(namespace["f"], options={"cache_dir": tmp_path / "cache"})
        np.testing.assert_array_equal(compiled(np.zeros(2)), [1, 1])
        seen.append(compiled.report().compiles[0].cache)
    assert seen == ["miss", "hit"]


def test_numpy_idioms_keep_the_whole_graph(check):
    check(lambda x: x.sum() / len(x), np.array([[2.0, 4.0], [6.0, 8.0], [1.0, 3.0]]), want=np.float64(8.0))
    check(lambda x: x.astype(int), np.array([1.7, -2.7]), want=np.array([1, -2]))
    check(lambda x: np.linalg.norm(x), np.array([3.0, 4.0, 12.0]), want=np.float64(13.0))
    check(lambda x: x + np.linspace(0, 2, 5), np.zeros(5), want=np.array([0, 0.5, 1, 1.5, 2]))
    check(lambda: np.linspace(0, 2, 5), want=np.array([0, 0.5, 1, 1.5, 2]))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.reshape(-1, 2) + 1,
        lambda x: x.reshape(12, -1) * 2,
        lambda x: x.reshape(x.shape[0] // 4, 4).sum(axis=0),
        lambda x: x.reshape(3, -1, 2).T + 0.5,
    ],
)
def test_reshape_of_a_symbolic_size_is_guarded_by_divisibility_alone(f):
    compiled = bl.compile(f, dynamic=True)
    for n in (24, 36, 60, 120, 12):
        x = np.arange(float(n))
        np.testing.assert_array_equal(compiled(x), f(x))
    assert len(compiled.report().compiles) == 1
    with pytest.warns(UserWarning), pytest.raises(ValueError):
        bl.compile(lambda x: x.reshape(12, -1), dynamic=True)(np.arange(31.0))
    with warnings.catch_warnings(), pytest.raises(ValueError):
        warnings.simplefilter("ignore")
        bad = np.arange(31.0)
        f(bad)
        compiled(bad)


@pytest.mark.parametrize("shape", [(2, 0), (0, 2), (3, 0, 2), (0,)])
def test_index_arrays_without_elements(check, shape):
    index = np.zeros(shape, np.int64)
    check(lambda x, i: x[i], np.arange(5.0), index)
    check(lambda x, i: np.take(x, i + 1) * 2, np.arange(5.0), index)
