"""The storage model: writes through views become values, and programs agree with NumPy in all that can be seen."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import pytest
from hypothesis import given

from broadloom import dtypes
from broadloom.errors import DTypeError, ShapeError, VerifyError
from broadloom.graph.interpret import apply_views, interpret
from broadloom.graph.ir import TensorType
from broadloom.graph.parse import parse
from broadloom.graph.recorder import Recorded, Recorder
from broadloom.graph.verify import verify
from broadloom.symbolic import ShapeEnv, Symbol, floordiv
from tests.graph.programs import Program, programs


def run(recorded: Recorded, arguments: list[np.ndarray]) -> list[np.ndarray]:
    """The results of a recording, as the arrays that the user would get."""
    outputs = interpret(recorded.graph, arguments)
    bases = {"output": outputs, "input": arguments}
    return [apply_views(bases[p.kind][p.index], p.views, {}) for p in recorded.places]


def bits(x: np.ndarray) -> bytes:
    return x.tobytes("C")


def strides(x: np.ndarray) -> list[int]:
    return [s for s, n in zip(x.strides, x.shape, strict=True) if n > 1] if x.size else []


@given(programs())
def test_random_programs_agree_with_numpy(program: Program) -> None:
    results = program.rng.sample(program.pairs, min(len(program.pairs), 10))
    recorded = program.finish(results)
    verify(recorded.graph)
    arguments = [a.copy(order="K") for a in program.arguments]
    got = run(recorded, arguments)
    for argument, pair in zip(arguments, program.inputs, strict=True):
        assert bits(argument) == bits(pair.array), "an input after the call"
    for g, p in zip(got, results, strict=True):
        assert (g.dtype, g.shape, bits(g)) == (p.array.dtype, p.array.shape, bits(p.array)), "a result"
        assert strides(g) == strides(p.array), "the strides of a result"
    mine, numpys = [*arguments, *got], [*(p.array for p in program.inputs), *(p.array for p in results)]
    for i in range(len(mine)):
        for j in range(i):
            assert np.shares_memory(mine[i], mine[j]) == np.shares_memory(numpys[i], numpys[j]), "shared memory"


@given(programs())
def test_recorded_graphs_round_trip(program: Program) -> None:
    graph = program.finish(program.pairs).graph
    assert parse(str(graph), constants=graph.constants) == graph
    assert str(parse(str(graph))) == str(graph)


def array_input(r: Recorder, name: str, x: np.ndarray) -> Any:
    strides = tuple(s // x.itemsize for s in x.strides)
    return r.input(name, TensorType(dtypes.from_numpy(x.dtype), x.shape), strides)


def whole(n: int, start: int = 0, step: int = 1) -> dict[str, tuple[int, ...]]:
    return {"starts": (start,), "sizes": (n,), "steps": (step,)}


def test_a_read_before_a_write_through_another_dtype_keeps_its_value() -> None:
    x = np.arange(4, dtype=np.int64)
    r = Recorder()
    h = array_input(r, "x", x)
    y = r.op("multiply", r.view("view_dtype", h, dtype=dtypes.int32), r.constant(np.int32(3)))
    r.write(r.view("slice", h, **whole(2, 1)), r.constant(np.array([7, 7])))
    got = run(r.finish([y, h]), [x])
    assert got[0].tolist() == [0, 0, 3, 0, 6, 0, 9, 0]
    assert got[1] is x and x.tolist() == [0, 7, 7, 3]


@pytest.mark.parametrize("n", [1, 2, 6, 1000])
def test_an_array_assigned_its_own_reverse(n: int) -> None:
    x = np.arange(n)
    r = Recorder()
    h = array_input(r, "x", x)
    r.write(r.view("slice", h, **whole(n)), r.view("slice", h, **whole(n, n - 1, -1)))
    run(r.finish([]), [x])
    assert x.tolist() == list(range(n))[::-1]


def test_a_matrix_assigned_its_own_transpose() -> None:
    x = np.arange(9.0).reshape(3, 3)
    expected = x.T.copy()
    r = Recorder()
    h = array_input(r, "x", x)
    r.write(h, r.view("permute", h, axes=(-1, -2)))
    run(r.finish([]), [x])
    assert np.array_equal(x, expected)


def test_writing_into_a_concatenation_leaves_the_parts_alone() -> None:
    u, w = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    r = Recorder()
    a, b = array_input(r, "u", u), array_input(r, "w", w)
    c = r.op("concat", a, b, axis=-1)
    r.write(r.view("slice", c, **whole(2, 0, 3)), r.constant(np.array([9.0, 9.0])))
    doubled = [r.op("add", x, x) for x in (a, b)]
    got = run(r.finish([c, *doubled]), [u, w])
    assert [g.tolist() for g in got] == [[9, 2, 3, 9], [2, 4], [6, 8]]


def test_an_update_at_equal_indices_writes_once() -> None:
    """x[[0, 0]] += x[[0, 0]] reads both, adds, and writes both: not twice the sum."""
    x = np.array([5.0, 7.0])
    r = Recorder()
    h = array_input(r, "x", x)
    index = r.constant(np.array([0, 0]))
    total = r.op("add", *(r.op("gather", h, index, axes=(-1,), core=1) for _ in range(2)))
    r.write(h, r.op("scatter", h, total, index, axes=(-1,), core=1, mode="set", index_rank=1))
    run(r.finish([]), [x])
    assert x.tolist() == [10.0, 7.0]


def test_an_argmax_after_a_write_and_a_transpose_sees_the_written_values() -> None:
    m = np.array([[0.2, 1.5, 3, -1], [2, 0.9, -0.4, 1.2], [1.7, -2, 0.1, 0.6]])
    r = Recorder()
    s = r.copy(array_input(r, "m", m))
    r.write(s, r.op("sin", s))
    turned = r.view("permute", s, axes=(-1, -2))
    flat = [r.reshape(x, (12,)) for x in (turned, s)]
    got = run(r.finish([r.op("argmax", x, axis=-1, keepdims=False) for x in flat]), [m])
    assert [int(g) for g in got] == [3, 1]


def test_a_scalar_is_not_changed_by_a_later_write() -> None:
    x = np.array([1.0, 2.0])
    r = Recorder()
    h = array_input(r, "x", x)
    first = r.reshape(r.view("slice", h, **whole(1)), ())
    scalar = r.as_scalar(first)
    r.write(first, r.constant(np.array(5.0)))
    recorded = r.finish([scalar, first])
    assert [p.scalar for p in recorded.places] == [True, False]
    got = run(recorded, [x])
    assert (got[0][()], got[1][()]) == (1.0, 5.0)


def test_two_argument_names_of_one_array_are_one_storage() -> None:
    x = np.zeros(3)
    r = Recorder()
    h = array_input(r, "x", x)
    other = r.view("slice", h, **whole(3))
    r.write(h, r.constant(np.ones(3)))
    total = r.op("sum", other, axes=(-1,), keepdims=False)
    assert run(r.finish([total]), [x])[0] == 3.0


def test_writes_need_the_target_type_and_a_writeable_target() -> None:
    r = Recorder()
    h = r.input("x", TensorType(dtypes.float64, (3,)))
    with pytest.raises(ShapeError, match="target's type"):
        r.write(h, r.constant(np.zeros(2)))
    spread = r.view("expand", h, shape=(2, 3))
    assert not spread.writeable
    with pytest.raises(VerifyError, match="not writeable"):
        r.write(spread, spread)
    read_only = r.input("y", TensorType(dtypes.float64, (3,)), writeable=False)
    assert not r.view("flip", read_only, axes=(-1,)).writeable


@pytest.mark.parametrize(("first", "second"), [(dtypes.uint8, dtypes.bool_), (dtypes.bool_, dtypes.uint8)])
def test_bytes_and_bools_are_not_written_through_each_other(first: dtypes.DType, second: dtypes.DType) -> None:
    """The byte 2 is True as well, but would not come back as 2."""
    r = Recorder()
    view = r.view("view_dtype", r.input("x", TensorType(first, (3,))), dtype=second)
    assert view.writeable
    with pytest.raises(DTypeError, match="between bool and another dtype"):
        r.write(view, view)


class Again(Exception):
    """The recording has to begin anew."""


def again() -> NoReturn:
    raise Again


def strided_input(r: Recorder, x: np.ndarray, *, free: bool) -> Any:
    """An input that is contiguous in no order, as capture makes it at first and with constant strides."""
    steps: Any = [Symbol(f"s{axis}") if free else s // x.itemsize for axis, s in enumerate(x.strides)]
    order = tuple(sorted(range(x.ndim), key=lambda axis: -abs(x.strides[axis])))
    return r.input("x", TensorType(dtypes.from_numpy(x.dtype), x.shape), tuple(steps), order, fix=again)


def test_a_recording_begins_anew_where_a_view_depends_on_free_strides() -> None:
    x = np.arange(24.0).reshape(4, 6)[:, ::2]  # rows follow each other: NumPy flattens it without a copy
    r = Recorder()
    h = strided_input(r, x, free=True)
    assert not h.is_c_contiguous and not h.is_f_contiguous
    assert r.reshape(h, (4, 3, 1)).storage is h.storage
    with pytest.raises(Again):
        r.reshape(h, (12,))


def test_constant_strides_decide_views() -> None:
    memory = np.arange(48.0)
    for x in (memory[:24].reshape(4, 6)[:, ::2], memory.reshape(4, 12)[:, ::4], memory[:24].reshape(4, 6)[:, 1:5]):
        r = Recorder()
        h = strided_input(r, x, free=False)
        assert not h.is_c_contiguous and not h.is_f_contiguous
        for shape in ((12,), (2, 2, 3), (4, 3, 1), (6, 2), (2, x.size // 2), (x.size,)):
            if np.prod(shape) == x.size:
                got = r.reshape(h, shape)
                assert (got.storage is h.storage) == np.shares_memory(x, x.reshape(shape))
                assert got.strides == x.reshape(shape).strides


def test_reversed_arrays_are_not_contiguous() -> None:
    x = np.arange(3.0)[::-1]
    r = Recorder()
    h = strided_input(r, x, free=True)
    assert not h.is_c_contiguous
    assert r.reshape(h, (3, 1)).storage is h.storage
    row = r.view("slice", h, **whole(1))
    assert row.is_c_contiguous


def test_free_strides_without_an_array_are_refused_where_a_view_depends_on_them() -> None:
    r = Recorder()
    h = r.input("x", TensorType(dtypes.float64, (4, 3)), (Symbol("s"), Symbol("t")))
    with pytest.raises(ShapeError, match="depends on the strides"):
        r.reshape(h, (12,))


def test_an_equality_that_cannot_be_solved_fixes_its_symbols() -> None:
    env = ShapeEnv()
    n, m = env.create("n", 1), env.create("m", 4)
    r = Recorder("f", env)
    x, y = (r.input(str(s), TensorType(dtypes.float64, (s,))) for s in (n, m))
    half = r.view("slice", x, starts=(0,), sizes=(floordiv(n + 1, 2),), steps=(2,))
    graph = r.finish([r.op("multiply", half, y)]).graph
    assert "n == 1" in [str(f) for f in graph.facts] and "n == 1" in [str(g) for g in env.guards]
    verify(graph)


def test_promoted_operands_count_with_their_own_strides() -> None:
    """As in a ufunc, which casts in the iterator's buffer: the broadcast axis of x says nothing about order."""
    x = np.broadcast_to(np.arange(3, dtype=np.float32)[:, None], (3, 4))
    y = np.asfortranarray(np.ones((3, 4)))
    r = Recorder()
    a = r.input("x", TensorType(dtypes.float32, x.shape), (1, 0))
    b = r.input("y", TensorType(dtypes.float64, y.shape), (1, 3), (1, 0))
    total = r.op("add", r.promote(a, dtypes.float64), b)
    assert total.strides == (x + y).strides


def test_symbolic_sizes_pass_through_writes() -> None:
    env = ShapeEnv()
    n = env.create("n", 6)
    r = Recorder("f", env)
    h = r.input("x", TensorType(dtypes.float64, (n,)))
    half = r.view("slice", h, starts=(0,), sizes=(floordiv(n + 1, 2),), steps=(2,))
    r.write(half, r.op("negative", half))
    recorded = r.finish([h])
    verify(recorded.graph)
    for size in (0, 1, 5):
        x = np.arange(1.0, size + 1)
        expected = x.copy()
        expected[::2] *= -1
        interpret(recorded.graph, [x])
        assert np.array_equal(x, expected)


def test_questions_about_sizes_are_asked_once_and_kept_as_facts() -> None:
    env = ShapeEnv()
    n, m = env.create("n", 6), env.create("m", 6)
    r = Recorder("f", env)
    a, b = (r.input(str(s), TensorType(dtypes.float64, (s,))) for s in (n, m))
    graph = r.finish([r.op("add", a, b)]).graph
    assert [str(f) for f in graph.facts] == [str(g) for g in env.guards] and len(graph.facts) == 1
    verify(graph)
    assert parse(str(graph)) == graph
    with pytest.raises(ShapeError, match="other sizes"):
        interpret(graph, [np.zeros(2), np.zeros(3)])
