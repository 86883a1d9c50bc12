"""What a capture is guarded by: everything it read and nothing else; what changes is noticed, what does not matter
is admitted; which sizes become symbolic."""

from __future__ import annotations

import functools
import types
from typing import Any

import numpy as np
import pytest

import broadloom as bl
from broadloom.capture.binding import frame_of
from broadloom.capture.capture import Captured, capture
from broadloom.capture.context import Policy
from broadloom.capture.guards import ArrayGuard, DisjointGuard, IntGuard, SameObjectGuard, ShapeGuard
from broadloom.capture.sources import Argument, Source

THIS = globals()


def sources(captured: Captured) -> set[str]:
    """The sources of all guards, as text."""
    return {str(getattr(g, n)) for g in captured.guards for n in ("source", "left", "first") if hasattr(g, n)}


def fails(captured: Captured, fn: Any, *args: Any, **kwargs: Any) -> str | None:
    """What the first failing guard explains for these arguments, None if all hold."""
    frame = frame_of(fn, args, kwargs)
    guard = captured.check(frame)
    return None if guard is None else guard.explain(frame)


def h(x):
    return np.sin(x) + 3


def calls_h(x):
    return h(x)


def by_factory(operation):
    def f(a, b):
        return operation(a, b)

    return f


# ---- swapped globals, closures, code (case 39) ----------------------------------------------------------------------


def test_a_replaced_global_function_is_noticed_and_followed(harness, monkeypatch) -> None:
    x = np.array([1.0])
    captured = harness.check(calls_h, lambda: (x.copy(),))
    monkeypatch.setitem(THIS, "h", lambda x: np.cos(x) + 0)
    assert "G['h'].__code__ was code of h" in (fails(captured, calls_h, x) or "")
    again = harness.check(calls_h, lambda: (x.copy(),))
    np.testing.assert_allclose(harness.run(again, calls_h, (x,), {}), np.cos(1.0) + 0)


def test_replaced_code_defaults_and_builtins_are_noticed(monkeypatch) -> None:
    def g(x, k=2, *, j=3):
        return x * k + j

    def f(x):
        return g(x) + len(x)

    x = np.arange(3.0)
    assert fails(capture(f, (x,), {}), f, x) is None
    captured = capture(f, (x,), {})
    g.__defaults__ = (5,)
    assert "__defaults__[0] was 2 and is 5" in (fails(captured, f, x) or "")
    captured = capture(f, (x,), {})
    g.__kwdefaults__ = {"j": 4}
    assert "__kwdefaults__['j'] was 3 and is 4" in (fails(captured, f, x) or "")
    captured = capture(f, (x,), {})
    g.__code__ = (lambda x, k, *, j: x - k).__code__
    assert "__code__" in (fails(captured, f, x) or "")
    captured = capture(f, (x,), {})
    monkeypatch.setitem(THIS, "len", lambda v: 100)
    assert "G['len']" in (fails(captured, f, x) or "")


@pytest.mark.parametrize("dtype", [np.int64, np.float32])
def test_factory_closures_over_ufuncs_and_slot_methods(harness, dtype) -> None:
    for add, multiply in ((np.add, np.multiply), (np.ndarray.__add__, np.ndarray.__mul__)):
        plus, times = by_factory(add), by_factory(multiply)
        a, b = np.asarray(5, dtype), np.asarray(4, dtype)
        first = harness.check(plus, lambda a=a, b=b: (a, b))
        assert harness.run(first, plus, (a, b), {}) == 9
        assert "C['operation']" in (fails(first, times, a, b) or "")
        second = harness.check(times, lambda a=a, b=b: (a, b))
        assert harness.run(second, times, (a, b), {}) == 20


def test_factory_closures_on_plain_ints(harness) -> None:
    for operation, value in ((np.add, 9), (np.multiply, 20)):
        f = by_factory(operation)
        captured = harness.check(f, lambda: (5, 4))
        assert harness.run(captured, f, (5, 4), {}) == value
    harness.refused(by_factory(np.ndarray.__add__), 5, 4)  # TypeError in the plain function as well


def test_a_parameter_named_inf_works_twice(harness) -> None:
    def f(x, inf):
        return x + inf

    for _ in range(2):
        captured = harness.check(f, lambda: (np.arange(3.0), 2.0))
        assert fails(captured, f, np.arange(3.0), np.inf) is None


# ---- what is not read is not guarded (case 40) ----------------------------------------------------------------------


def test_unused_inputs_add_no_guard(harness) -> None:
    def f(x, y, unused=None, *rest, **more):
        return y + 2

    captured = harness.check(f, lambda: (np.arange(0.0), np.arange(3.0)))
    assert sources(captured) == {"L['y']"}
    for n in (0, 2, 1, 5):
        assert fails(captured, f, np.arange(float(n)), np.arange(3.0), object(), 1, 2, k=3) is None


def test_passing_on_and_returning_is_no_reading() -> None:
    def inner(a, b):
        return {"a": a, "b": [a, b]}

    def f(x, y):
        return inner(x, y)

    captured = capture(f, (1, "s"), {})
    assert {s for s in sources(captured) if "L[" in s} == set()
    assert captured.arguments == ()


def test_only_the_entries_that_are_read_are_guarded() -> None:
    def f(d, o):
        return d["w"] * o.scale

    o = types.SimpleNamespace(scale=2.0, other=1)
    captured = capture(f, ({"w": np.ones(2), "b": 1}, o), {})
    assert not any("'b'" in s or "other" in s for s in sources(captured))
    assert fails(captured, f, {"w": np.ones(2), "c": 3}, types.SimpleNamespace(scale=7.5)) is None
    assert "L['d']['w']" in (fails(captured, f, {}, o) or "")
    assert "does not exist" in (fails(captured, f, {"w": np.ones(2)}, types.SimpleNamespace()) or "")


# ---- values ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [True, 1, "a", None, False, 0])
def test_constants_are_guarded_type_exact(value) -> None:
    def f(x, k):
        return x if k else x + 1

    captured = capture(f, (np.ones(2), value), {})
    for other in (True, 1, 1.0, "a", "b", None, False, 0):
        same = type(other) is type(value) and other == value
        assert (fails(captured, f, np.ones(2), other) is None) is same


def test_floats_are_runtime_inputs(harness) -> None:
    def f(x, a):
        return x * a + np.float64(1)

    captured = harness.check(f, lambda: (np.ones(2), 0.5))
    for a in (1e300, -0.0, float("nan"), float("inf"), 0.5):
        harness.check(f, lambda a=a: (np.ones(2), a), captured=captured)
    assert "type(L['a']) was float and is int" in (fails(captured, f, np.ones(2), 1) or "")


def test_a_branch_on_a_float_is_guarded_by_its_outcome(harness) -> None:
    def f(x, a, b):
        return x * a if 2 * a > b else x - a

    captured = harness.check(f, lambda: (np.ones(2), 1.0, 0.5))
    harness.check(f, lambda: (np.ones(2), 7.0, 1.5), captured=captured)
    assert "((2 * L['a']) > L['b']) was True" in (fails(captured, f, np.ones(2), 1.0, 5.0) or "")
    assert fails(captured, f, np.ones(2), float("nan"), 5.0) is not None


def test_python_arithmetic_that_would_raise_is_guarded() -> None:
    def f(x, a):
        return x * (1 / a)

    captured = capture(f, (np.ones(2), 2.0), {})
    assert fails(captured, f, np.ones(2), 0.5) is None
    assert fails(captured, f, np.ones(2), 0.0) is not None  # ZeroDivisionError in the plain function


def test_numpy_scalars_are_strong_runtime_inputs(harness) -> None:
    def f(x, s):
        return x * s

    captured = harness.check(f, lambda: (np.ones(2, np.float32), np.float64(2)))
    harness.check(f, lambda: (np.ones(2, np.float32), np.float64(5)), captured=captured)
    assert fails(captured, f, np.ones(2, np.float32), np.float32(2)) is not None
    assert fails(captured, f, np.ones(2, np.float32), 2.0) is not None


# ---- arrays ---------------------------------------------------------------------------------------------------------

TABLE = np.array([1.0, 2.0])


def reads_the_table(x):
    return x + TABLE


def test_global_and_closure_arrays_are_inputs_and_never_baked_in(harness) -> None:
    captured = harness.check(reads_the_table, lambda: (np.zeros(2),))
    assert [str(s) for s in captured.arguments] == ["L['x']", "G['TABLE']"]
    cell = np.array([1.0, 2.0])
    f = lambda x: x * cell  # noqa: E731
    captured = harness.check(f, lambda: (np.ones(2),))
    cell[0] = 50
    np.testing.assert_array_equal(harness.run(captured, f, (np.ones(2),), {}), [50, 2])


def test_one_array_twice_is_one_input_and_must_stay_so(harness) -> None:
    def f(x, y):
        x[0] = 1
        return y + 1

    def shared() -> tuple[np.ndarray, np.ndarray]:
        a = np.zeros(3)
        return a, a

    captured = harness.check(f, shared)
    assert len(captured.arguments) == 1
    assert any(isinstance(g, SameObjectGuard) for g in captured.guards)
    assert "were one object and are two" in (fails(captured, f, np.zeros(3), np.zeros(3)) or "")


def test_a_written_array_is_guarded_against_overlap_and_read_only(harness) -> None:
    def f(x, y):
        x[:] = y
        return y[0]

    captured = harness.check(f, lambda: (np.zeros(3), np.ones(3)))
    assert [str(g.written) for g in captured.guards if isinstance(g, DisjointGuard)] == ["L['x']"]
    base = np.zeros(6)
    assert "shares memory" in (fails(captured, f, base[:3], base[2:5]) or "")
    base.flags.writeable = False
    assert "writeable" in (fails(captured, f, base[:3], np.ones(3)) or "")
    assert fails(captured, f, np.ones(3), base[:3]) is None


def test_arrays_that_are_only_read_may_overlap(harness) -> None:
    captured = harness.check(lambda x, y: x + y, lambda: (np.zeros(3), np.ones(3)))
    base = np.arange(4.0)
    assert fails(captured, lambda x, y: x + y, base[:3], base[1:]) is None


def test_dtype_layout_and_rank_are_guarded() -> None:
    f = lambda x: x + 1  # noqa: E731
    captured = capture(f, (np.zeros((2, 3)),), {})
    others = [np.zeros((2, 3), np.float32), np.zeros((2, 3), order="F"), np.zeros((3, 2)), np.zeros((2, 3, 1))]
    assert all(fails(captured, f, o) for o in others)


def test_memory_mapped_arguments(harness, tmp_path) -> None:
    def f(x):
        return x + 1, x[1:], x, x.sum(), x.copy(), np.asarray(x)

    x = np.memmap(tmp_path / "x", dtype=np.float64, mode="w+", shape=(4,))
    x[:] = range(4)
    captured = capture(f, (x,), {})
    got, expected = harness.run(captured, f, (x,), {}), f(x)
    assert all(np.array_equal(a, b) for a, b in zip(got, expected, strict=True))
    assert [type(a) for a in got[:4]] == [type(b) for b in expected[:4]]
    assert got[2] is x and np.shares_memory(got[1], x)
    assert type(got[4]) is np.ndarray and got[5] is x  # as docs/differences.md says


# ---- symbolic sizes -------------------------------------------------------------------------------------------------


def twice(x):
    return x * 2


def test_dynamic_serves_all_sizes_with_one_capture(harness) -> None:
    for start in (0, 1, 3):
        captured = harness.check(twice, lambda n=start: (np.arange(float(n)),), Policy(dynamic=True))
        assert not any(isinstance(g, ShapeGuard) for g in captured.guards)
        for n in (1, 2, 0, 9):
            harness.check(twice, lambda n=n: (np.arange(float(n)),), captured=captured)


def test_a_size_that_changed_becomes_symbolic(harness) -> None:
    def f(x, y):
        return x.sum(axis=0) + y

    make = lambda n: (np.ones((n, 4)), np.ones(4))  # noqa: E731
    first = harness.check(f, lambda: make(3))
    assert first.symbols == ()
    assert "L['x'].shape[0] was 3 and is 5" in (fails(first, f, *make(5)) or "")
    policy = Policy().after(first.observed)
    second = harness.check(f, lambda: make(5), policy)
    assert [str(s) for _, s in second.symbols] == ["L['x'].shape[0]"]
    for n in (0, 1, 3, 100):
        harness.check(f, lambda n=n: make(n), captured=second)
    assert capture(f, make(3), {}, policy).symbols == ()  # the same size again: nothing varied
    assert capture(f, make(5), {}, Policy(False, policy.seen)).symbols == ()


def test_a_symbolic_axis_held_to_one_element_decides_no_memory_order() -> None:
    x, z = np.asfortranarray(np.arange(20.0).reshape(4, 5)), np.arange(5.0).reshape(1, 5)
    for f in (lambda x, z: x - z, lambda x, z: z * 2 + x, lambda x, z: np.heaviside(x, z)):
        expected, got = f(x, z), bl.compile(f, dynamic=True, fullgraph=True)(x, z)
        assert got.strides == expected.strides == (8, 32)
        np.testing.assert_array_equal(got, expected)


def test_broadcasting_of_symbolic_sizes_is_guarded(harness) -> None:
    f = lambda x, y: x + y  # noqa: E731
    same = harness.check(f, lambda: (np.ones(3), np.ones(3)), Policy(True))
    harness.check(f, lambda: (np.ones(8), np.ones(8)), captured=same)
    assert "no longer satisfy" in (fails(same, f, np.ones(8), np.ones(1)) or "")
    one = harness.check(f, lambda: (np.ones(3), np.ones(1)), Policy(True))
    harness.check(f, lambda: (np.ones(7), np.ones(1)), captured=one)
    assert fails(one, f, np.ones(3), np.ones(3)) is not None


def test_ints_specialise_until_they_vary(harness) -> None:
    def f(x, n):
        return x * n + np.arange(n).sum()

    first = harness.check(f, lambda: (np.ones(2), 3))
    assert "L['n'] was 3 and is 4" in (fails(first, f, np.ones(2), 4) or "")
    second = harness.check(f, lambda: (np.ones(2), 4), Policy().after(first.observed))
    assert [type(g) for g in second.guards if getattr(g, "source", None) == Argument("n")] == [IntGuard]
    for n in (0, 1, 17):
        harness.check(f, lambda n=n: (np.ones(2), n), captured=second)
    assert fails(second, f, np.ones(2), True) is not None
    assert fails(second, f, np.ones(2), -1) is not None


def test_an_int_that_must_be_constant_is_specialised(harness) -> None:
    def f(x, axis, n):
        return x.sum(axis=axis), [x + i for i in range(n)]

    captured = harness.check(f, lambda: (np.ones((2, 3)), 1, 2), Policy(True))
    assert fails(captured, f, np.ones((5, 6)), 1, 2) is None
    assert fails(captured, f, np.ones((2, 3)), 0, 2) is not None
    assert fails(captured, f, np.ones((2, 3)), 1, 3) is not None


def test_negative_ints(harness) -> None:
    f = lambda x, n: x + n  # noqa: E731
    captured = harness.check(f, lambda: (np.arange(3), -4), Policy(True))
    harness.check(f, lambda: (np.arange(3), 7), captured=captured)


def test_a_branch_on_a_size_is_guarded(harness) -> None:
    def f(x):
        return x + 1 if len(x) > 3 else x - 1

    captured = harness.check(f, lambda: (np.ones(5),), Policy(True))
    harness.check(f, lambda: (np.ones(50),), captured=captured)
    text = fails(captured, f, np.ones(2)) or ""
    assert "4 <= s0" in text and "L['x'].shape[0] = 2" in text and __file__ in text


def test_layouts_under_symbolic_sizes(harness) -> None:
    f = lambda x: (x + 1, x.T, x[1:])  # noqa: E731
    makers = [
        lambda n, m: np.arange(float(n * m)).reshape(n, m),
        lambda n, m: np.arange(float(n * m)).reshape(m, n).T,
        lambda n, m: np.arange(float(2 * n * m)).reshape(n, 2 * m)[:, ::2],
        lambda n, m: np.arange(float(3 * n * m)).reshape(n, 3 * m)[:, :m],
        lambda n, m: np.broadcast_to(np.arange(float(m)), (n, m)),
    ]
    for maker in makers:
        captured = harness.check(f, lambda maker=maker: (maker(3, 4),), Policy(True))
        for n, m in ((2, 5), (7, 3)):
            harness.check(f, lambda maker=maker, n=n, m=m: (maker(n, m),), captured=captured)


# ---- classes --------------------------------------------------------------------------------------------------------


class Model:
    rate = 2.0

    def __init__(self, w: Any) -> None:
        self.w = w

    def step(self, x: Any) -> Any:
        return x * self.w * self.rate


class Other(Model):
    pass


def run_step(m, x):
    return m.step(x)


def test_instances_are_guarded_by_type_and_by_what_was_read(harness, monkeypatch) -> None:
    m, x = Model(np.ones(2)), np.ones(2)
    captured = harness.check(run_step, lambda: (Model(np.ones(2)), np.ones(2)))
    another = Model(np.full(2, 5.0))
    np.testing.assert_array_equal(harness.run(captured, run_step, (another, x), {}), [10, 10])
    assert "type(L['m']) was Model and is Other" in (fails(captured, run_step, Other(np.ones(2)), x) or "")
    shadowed = Model(np.ones(2))
    shadowed.step = lambda x: x  # type: ignore[method-assign]
    assert fails(captured, run_step, shadowed, x) is not None
    own_rate = Model(np.ones(2))
    own_rate.rate = 3.0
    assert fails(captured, run_step, own_rate, x) is not None
    monkeypatch.setattr(Model, "step", lambda self, x: x)
    assert "type(L['m']).step.__code__" in (fails(captured, run_step, m, x) or "")


def test_bound_methods_capture_like_functions(harness) -> None:
    m = Model(np.ones(2))
    captured = harness.check(m.step, lambda: (np.ones(2),))
    assert [str(s) for s in captured.arguments] == ["L['x']", "L['self'].w", "type(L['self']).rate"]


def test_partials_and_nested_containers(harness) -> None:
    def f(g, items):
        return g(items[0]["a"], items[1])

    def make() -> tuple[Any, ...]:
        return functools.partial(lambda k, x, y: x * y + k, 2), [{"a": np.ones(2)}, 3.0]

    captured = harness.check(f, make)
    assert "L['items'][0]['a']" in [str(s) for s in captured.arguments]
    g, items = make()
    assert fails(captured, f, g, [*items, 4]) is not None


def test_guards_are_in_an_order_that_can_be_checked() -> None:
    """A guard on what is reached through a path stands behind the guards on the path's owners."""

    def f(m, d, items):
        return m.step(d["x"]) + items[0][1]

    captured = capture(f, (Model(np.ones(2)), {"x": np.ones(2)}, [(1, 2.0)]), {})
    seen: set[Source] = set()
    for g in captured.guards:
        source = getattr(g, "source", None)
        if source is not None:
            base = source.base
            if base is not None and not isinstance(g, ArrayGuard):
                assert base in seen or base.base is not None, str(source)
            seen.add(source)
    assert len(set(captured.guards)) == len(captured.guards)


def test_compiled_functions_and_methods_are_inlined(harness) -> None:
    @bl.compile
    def inner(x, k=2.0):
        return x * k

    class Holder:
        def __init__(self) -> None:
            self.w = np.ones(3)

        @bl.compile
        def method(self, x):
            return self.w * x

    def outer(x, holder):
        return inner(x) + holder.method(x) + Holder.method(holder, x)

    captured = harness.check(outer, lambda: (np.arange(3.0), Holder()))
    assert [n.op.name for n in captured.graph.nodes] == ["multiply", "multiply", "add", "multiply", "add"]


# ---- view or copy ---------------------------------------------------------------------------------------------------


def test_view_or_copy_is_guarded_where_a_later_write_would_show_it(harness) -> None:
    def f(x):
        v = (x + 0)[::-1]
        flat = v.reshape(-1)
        v[0] = 100
        return flat * 1, v * 1

    captured = harness.check(f, lambda: (np.ones((3, 4)),), Policy(True))
    harness.check(f, lambda: (np.ones((5, 2)),), captured=captured)
    assert fails(captured, f, np.ones((1, 4))) is not None  # one reversed row is contiguous: reshape is a view
    harness.check(f, lambda: (np.ones((1, 4)),), Policy(True))


def test_view_or_copy_is_not_guarded_where_nobody_can_tell(harness) -> None:
    def f(x):
        return x.T.reshape(-1).sum(), (x[::-1] + 0).reshape(-1) * 2, (x.T + 1).ravel().sum()

    captured = harness.check(f, lambda: (np.ones((3, 4)),), Policy(True))
    for shape in ((1, 4), (4, 1), (1, 1), (0, 3), (6, 2)):
        harness.check(f, lambda s=shape: (np.ones(s),), captured=captured)


def test_views_of_a_shape_that_fits_some_sizes_only(harness) -> None:
    def f(x):
        return x + x, x.T.reshape(3, 4).reshape(-1)[:4]

    harness.check(f, lambda: (np.asfortranarray(np.arange(12.0).reshape(3, 4)),), Policy(True))


def test_reshape_to_swapped_sizes_of_a_strided_array_is_a_copy(harness) -> None:
    def f(x):
        y = x.reshape(x.shape[1], x.shape[0])
        y[0] = 7
        return y

    make = lambda n, m: (np.ones((n, 2 * m))[:, ::2],)  # noqa: E731
    for policy in (Policy(True), Policy(False)):
        captured = harness.check(f, lambda: make(3, 5), policy)
        assert fails(captured, f, *make(4, 4)) is not None  # equal sizes: then it is a view


def test_strides_are_guarded_where_merging_axes_depends_on_them(harness) -> None:
    def f(x):
        y = x.reshape(6, 4)
        y[0] = 7
        return x * 1

    mergeable = lambda: (np.ones((2, 3, 8))[:, :, ::2],)  # noqa: E731
    separate = lambda: (np.ones((2, 6, 8))[:, ::2, ::2],)  # noqa: E731
    captured = harness.check(f, mergeable)
    assert "strides" in (fails(captured, f, *separate()) or "")
    harness.check(f, separate)
