"""`vmap` on its three roads: captured and computed, by the dispatch stack, and compiled."""

import random
import subprocess
import sys

import numpy as np
import pytest

import broadloom as bl
from broadloom.errors import TransformError
from broadloom.tensor.dispatch import Tensor, made
from tests.transforms.roads import by_road, captured, compiled, dispatched, eager, in_python

X = np.arange(24.0).reshape(2, 3, 4)


@by_road
def test_a_function_of_one_example(vmap):
    got = vmap(lambda x: np.sin(x).sum(axis=0) + x[0])(X)
    np.testing.assert_allclose(got, np.sin(X).sum(axis=1) + X[:, 0], rtol=1e-12)
    assert type(got) is np.ndarray


@by_road
def test_axes_in_and_out(vmap):
    got = vmap(lambda x, y: x * y, in_axes=(1, None), out_axes=-1)(X, X[:, 0])
    np.testing.assert_array_equal(got, np.stack([X[:, i] * X[:, 0] for i in range(3)], axis=-1))


@by_road
def test_nested(vmap):
    got = vmap(bl.vmap(lambda x, y: x - 2 * y, (0, None)), (None, 1))(X[0].T, X[1])
    want = [[X[0].T[i] - 2 * X[1][:, j] for i in range(4)] for j in range(4)]
    np.testing.assert_array_equal(got, want)


@captured
def test_a_batched_value_is_written_into_a_fresh_array_of_numpy(vmap):
    def core(x):
        m = np.zeros((3, 4))
        m[0, 0] = m[0, 1] + x[0, 0]
        m[1] += x[2]
        return m

    m = vmap(core)(X)
    np.testing.assert_array_equal(m[:, 0, 0], [0, 12])
    np.testing.assert_array_equal(m[:, 1], [[8, 9, 10, 11], [20, 21, 22, 23]])
    m[:, 0, 0] = m[:, 1] = 0
    assert not m.any()


@by_road
def test_a_write_to_a_batched_argument_reaches_the_caller(vmap):
    x = X.copy()

    def core(row):
        row += 1
        return row.T

    got = vmap(core, in_axes=1, out_axes=2)(x)
    np.testing.assert_array_equal(x, X + 1)
    np.testing.assert_array_equal(got, np.stack([(X[:, i] + 1).T for i in range(3)], axis=2))


@in_python
def test_a_write_to_a_captured_array_is_refused_by_its_name(vmap):
    weights = made(np.ones(4))

    def core(x):
        weights[0] = x[0, 0]
        return x

    with pytest.raises(TransformError, match="a write to weights"):
        vmap(core)(X)
    assert weights.tolist() == [1.0] * 4


@in_python
def test_a_condition_on_a_batched_value_is_refused_with_the_remedy(vmap):
    def core(x):
        return x if x.sum() > 0 else -x

    with pytest.raises(TransformError, match=r"a condition of a batched value.*np\.where") as caught:
        vmap(core)(X)
    assert caught.value.location.line == core.__code__.co_firstlineno + 1


@by_road
def test_containers(vmap):
    got = vmap(lambda d, pair: {"s": d["a"] + pair[0], "n": (pair[1], 1.0)}, in_axes=({"a": 0, "b": None}, (0, None)))(
        {"a": X, "b": 3}, (X, 2.0)
    )
    np.testing.assert_array_equal(got["s"], 2 * X)
    np.testing.assert_array_equal(got["n"][0], [2.0, 2.0])
    np.testing.assert_array_equal(got["n"][1], [1.0, 1.0])


@by_road
def test_tensors_in_tensors_out(vmap):
    got = vmap(lambda x: np.cos(x))(made(X))
    assert isinstance(got, Tensor)
    np.testing.assert_allclose(got.numpy(), np.cos(X), rtol=1e-14)


def test_chunks_give_the_same_bits():
    x = np.random.default_rng(0).normal(size=(7, 33, 5))
    whole = eager(lambda x: np.sin(x).sum(axis=0) @ x.T, in_axes=1)(x.transpose(1, 0, 2))
    for road in (eager, dispatched):
        for size in (1, 2, 3, 7, 100):
            got = road(lambda x: np.sin(x).sum(axis=0) @ x.T, in_axes=1, chunk_size=size)(x.transpose(1, 0, 2))
            assert got.tobytes() == whole.tobytes()


TABLE = np.ones(4)


@pytest.mark.parametrize("vmap", [eager, compiled], ids=lambda f: f.__name__)
def test_a_write_to_a_global_array_of_numpy_is_refused_by_its_name(vmap):
    def core(x):
        TABLE[1] = x[0, 0]
        return x

    with pytest.raises(Exception, match="a write to TABLE, which belongs to the program around"):
        vmap(core)(X)
    assert TABLE.tolist() == [1.0] * 4


def test_python_tells_where_a_batched_value_meets_an_array_that_numpy_made(capsys):
    def core(x):
        print("python")
        m = np.zeros(4)
        m[1] = x[0, 0]
        return m

    with pytest.raises(TransformError, match=r"float\(\) of a batched value.*bl\.zeros") as caught:
        eager(core)(X)
    assert caught.value.location.line == core.__code__.co_firstlineno + 3
    assert capsys.readouterr().out == "python\n"


@pytest.mark.parametrize(
    "function",
    [bl.vmap(np.sin), bl.gufunc("()->()")(np.sin), bl.compile(lambda x: np.sin(x)), bl.compile(bl.vmap(np.sin))],
    ids=["vmap", "gufunc", "compiled", "compiled vmap"],
)
def test_graphs_of_what_is_no_plain_function(function):
    graph = bl.make_graph(function)(np.ones(3))
    assert [str(n.op) for n in graph.nodes] == ["sin"]
    assert graph.nodes[0].types[0].shape == (3,)


@pytest.mark.parametrize("vmap", [eager, dispatched], ids=lambda f: f.__name__)
def test_sizes_that_depend_on_data_are_refused_with_the_remedy(vmap):
    def scaled(x):
        return x * x[x > 1].shape[0] if x.ndim == 1 else x

    for core in (lambda x: x[x > 1], lambda x: np.nonzero(x)[0], lambda x: np.unique(x), lambda x: np.where(x > 1)):
        with pytest.raises(TransformError, match=r"depends on data.*remedy"):
            vmap(core)(X[0])
    np.testing.assert_array_equal(dispatched(lambda x: x[x > 1].sum())(X[0]), [5, 22, 38])
    with pytest.raises(TransformError, match=r"the size of a boolean selection.*remedy") as caught:
        dispatched(scaled)(X[0])
    assert caught.value.location.line == scaled.__code__.co_firstlineno + 1


def test_a_value_kept_from_a_mapped_function_is_refused_by_what_it_is():
    kept = []

    def core(x):
        kept.append(x * 2)
        return x

    bl.vmap(core)(X)
    for use in (lambda t: t + 1, np.asarray, bool, lambda t: bl.vmap(lambda x: x + t)(X)):
        with pytest.raises(TransformError, match=r"kept from a batched function.*return it from the function"):
            use(kept[0])


@by_road
@pytest.mark.parametrize("chunk", [None, 1, 2])
def test_draws_from_a_shared_key_differ_in_chunks_too(vmap, chunk):
    key = bl.random.key(1)
    got = vmap(lambda x: bl.random.normal(key) + 0 * x, randomness="different", chunk_size=chunk)(np.zeros(5))
    want = vmap(lambda x: bl.random.normal(key) + 0 * x, randomness="different")(np.zeros(5))
    np.testing.assert_array_equal(got, want)
    assert len(set(got.tolist())) == 5


def test_draws_without_a_key_are_refused_where_they_would_be_shared():
    def noisy(x):
        return x + np.random.default_rng(3).normal()

    for draw in (noisy, lambda x: x + random.random()):
        for mode in ("error", "different"):
            with pytest.raises(TransformError, match=r"drawn once, for all examples.*bl\.random\.split"):
                bl.vmap(draw, randomness=mode)(X)
    same = bl.vmap(noisy, randomness="same")(X) - X
    assert np.ptp(same) < 1e-12 and abs(same[0, 0, 0]) > 0.01
    with pytest.raises(TransformError, match="drawn once"):
        bl.gufunc("()->()")(noisy)(X)


def test_draws_are_refused_before_numpy_has_imported_its_generators():
    program = """
import sys, numpy as np, broadloom as bl
assert "numpy.random" not in sys.modules
try:
    bl.vmap(lambda x: x + np.random.random())(np.zeros(3))
except bl.errors.TransformError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=120)
    assert "drawn once, for all examples" in done.stdout


@pytest.mark.parametrize("make", [bl.vmap, bl.gufunc("(n)->(n)")], ids=["vmap", "gufunc"])
def test_reports_and_breaks_of_mapped_functions_name_the_function(make):
    def core(x):
        return "text" if x.ndim == 0 else x * 2

    compiled = bl.compile(make(core))
    np.testing.assert_array_equal(compiled(X), X * 2)
    place = compiled.report().compiles[0].location
    assert (place.file, place.line) == (__file__, core.__code__.co_firstlineno)
    assert place.function == core.__qualname__
    with pytest.raises(bl.errors.GraphBreakError, match=__file__):
        bl.compile(make(lambda x: "text"), fullgraph=True)(X)


def test_compiled_functions_are_mapped_wherever_they_stand(capsys, recwarn):
    inner = bl.compile(lambda row: np.sin(row).sum() * row)
    want = np.sin(X[0]).sum(axis=1, keepdims=True) * X[0]

    def in_python(row):
        print("python")
        return inner(row)

    for f in (bl.vmap(inner), bl.compile(bl.vmap(inner), fullgraph=True), bl.vmap(in_python)):
        np.testing.assert_allclose(f(X[0]), want, rtol=1e-12)
    assert capsys.readouterr().out == "python\n"
    assert not recwarn.list and not inner.report().breaks and inner.report().skips


class Model:
    def __init__(self):
        self.weights = np.arange(4.0)

    def one(self, row):
        return row @ self.weights

    many = bl.vmap(one, in_axes=(None, 0))


def test_methods_are_mapped():
    model = Model()
    np.testing.assert_array_equal(bl.vmap(model.one)(X[0]), X[0] @ model.weights)
    np.testing.assert_array_equal(model.many(X[0]), X[0] @ model.weights)


@by_road
def test_results_hold_what_they_held_before_later_writes(vmap):
    def f(x, y):
        before, old, column = x.copy(), y.T.copy(), np.broadcast_to(y[0], (2, 4)).copy()
        np.multiply(x, 2, out=x)
        y[...] = y[::-1]
        return before, old, column, x, y

    got, want = (X.copy(), X + 1), (X.copy(), X + 1)
    results = vmap(f)(*got)
    loop = [[np.array(r) for r in f(want[0][i], want[1][i])] for i in range(2)]
    for result, examples in zip(results, zip(*loop, strict=True), strict=True):
        np.testing.assert_array_equal(result, np.stack(examples))
    np.testing.assert_array_equal(got, want)


@by_road
def test_arguments_that_get_each_others_elements(vmap):
    def swap(x, y, z):
        x[...], y[...], z[...] = y.copy(), z[::-1].copy(), x.copy()
        return x.sum()

    x, y, z = X.copy(), X + 100, X + 200
    vmap(swap)(x, y, z)
    np.testing.assert_array_equal((x, y, z), (X + 100, X[:, ::-1] + 200, X))


@by_road
def test_results_share_memory_with_nothing(vmap):
    def f(x):
        y = x + 1
        return y, y, y.T, x, x

    x = X.copy()
    results = vmap(f)(x)
    arrays = [x, *results]
    for i, a in enumerate(arrays):
        assert not any(np.shares_memory(a, b) for b in arrays[:i])


@by_road
def test_scalars_of_arrays_are_numpys(vmap):
    def f(x):
        total = x.sum()
        total /= 4  # a new number; in place it could not be one of float64
        largest = x[np.argmax(x[:, 0])]  # a view, since the index is a number
        x[1] = 50
        first = x[0, 0]
        first += 100
        return total, largest, first, x, np.all(x) ** 2

    got, want = X.astype(np.int64), X.astype(np.int64)
    results = vmap(f)(got)
    loop = [[np.array(r) for r in f(w)] for w in want]
    for result, examples in zip(results, zip(*loop, strict=True), strict=True):
        np.testing.assert_array_equal(result, np.stack(examples))
        assert result.dtype == examples[0].dtype
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("vmap", [eager, dispatched])
@pytest.mark.parametrize(
    "write",
    [
        lambda c: np.place(c, c > 1, [7]),
        lambda c: np.put(c, [0], 7),
        lambda c: np.put_along_axis(c, np.array([0]), 7, 0),
        lambda c: c.put([0], 7),
        lambda c: np.asarray(c).fill(7),
        lambda c: c.flat.__setitem__(0, 7),
    ],
    ids=["place", "put", "put_along_axis", "put method", "asarray", "flat"],
)
def test_functions_that_are_no_ops_cannot_write_to_what_examples_share(vmap, write):
    c = np.arange(4.0)

    def f(x, c):
        write(c)
        return x + c

    with pytest.raises((TransformError, ValueError), match=r"write|read-only"):
        vmap(f, (0, None))(X[0], c)
    np.testing.assert_array_equal(c, np.arange(4.0))


def test_a_function_that_is_of_no_module():
    scope = {"np": np}
    exec("def f(x):\n    print(end='')\n    return np.linalg.norm(x)", scope)
    assert scope["f"].__module__ is None
    np.testing.assert_allclose(bl.vmap(bl.compile(scope["f"]))(X[0]), np.linalg.norm(X[0], axis=1))


@by_road
@pytest.mark.parametrize("chunk", [None, 1])
def test_an_array_given_twice_is_one_argument(vmap, chunk):
    def f(x, y):
        x += 1
        return y.sum()

    got = X[0].copy()
    np.testing.assert_array_equal(vmap(f, chunk_size=chunk)(got, got), (X[0] + 1).sum(axis=1))
    np.testing.assert_array_equal(got, X[0] + 1)


@by_road
@pytest.mark.parametrize(
    ("in_axes", "given"),
    [
        ((0, 1), lambda x: (x, x)),
        ((0, None), lambda x: (x, x)),
        ((0, 0), lambda x: (x[1:], x[:-1])),
        ((0, 0), lambda x: (x, x[::-1])),
    ],
    ids=["two axes", "one alike for all", "shifted", "reversed"],
)
def test_writes_that_examples_would_see_of_each_other_are_refused(vmap, in_axes, given):
    def f(x, y):
        x += y.sum()
        return x * 2

    x = np.arange(16.0).reshape(4, 4)
    before = x.copy()
    with pytest.raises((TransformError, bl.errors.GraphBreakError), match=r"shares memory|overlap"):
        vmap(f, in_axes)(*given(x))
    np.testing.assert_array_equal(x, before)


@by_road
def test_arguments_that_are_parts_of_one_array_are_written(vmap):
    def f(x, y):
        x += y.sum()
        y[...] = 0
        return x * 1

    x = np.arange(16.0).reshape(4, 4)
    want = x[:2] + x[2:].sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(vmap(f)(x[:2], x[2:]), want)
    np.testing.assert_array_equal(x, np.concatenate([want, np.zeros((2, 4))]))


def test_an_axis_of_one_that_a_guard_has_fixed_joins_reshapes() -> None:
    x = np.arange(48.0).reshape(3, 1, 4, 4)
    mapped = bl.compile(lambda a: bl.vmap(lambda e: np.squeeze(e).ravel())(a), dynamic=True, fullgraph=True)
    np.testing.assert_array_equal(mapped(x), x.reshape(3, 16))
    np.testing.assert_array_equal(mapped(x[:, :, :2]), x[:, :, :2].reshape(3, 8))
