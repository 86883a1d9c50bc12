"""The entry: native and Python forms serve the same calls with the same results and the same misses."""

import contextlib
import ctypes
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import types
import weakref

import numpy as np
import pytest

from broadloom import dtypes as d
from broadloom.capture import guards as g
from broadloom.capture import recipe as r
from broadloom.capture.sources import (
    Argument,
    Attribute,
    Cell,
    ClassEntry,
    FunctionGlobal,
    Global,
    InstanceEntry,
    Item,
    Module,
)
from broadloom.errors import CodegenError, Location
from broadloom.fusion.ir import Site
from broadloom.runtime.entry import Entry
from broadloom.runtime.native import block_statistics
from broadloom.runtime.python_entry import holds
from broadloom.runtime.spec import EntryInput, EntryOutput, EntrySpec
from broadloom.runtime.target import emit_object, host
from broadloom.symbolic import Symbol, le, smax
from tests.runtime import modules

X, Y, S = Argument("x"), Argument("y"), Argument("s")
MISS = object()


def array_guard(source, dtype=d.float64, sizes=(None,), layout="c", order=None, **more):
    return g.ArrayGuard(source, dtype, sizes, layout, order or tuple(range(len(sizes))), **more)


def axpy_spec(guards=(), recipe=None, s=S, **more):
    base = (array_guard(X), array_guard(Y), g.FloatGuard(S)) if s is S else (array_guard(X), array_guard(Y))
    return EntrySpec(
        "axpy",
        (*base, *guards),
        (EntryInput(X, "array", d.float64), EntryInput(Y, "array", d.float64), EntryInput(s, "scalar", d.float64)),
        (EntryOutput(d.float64, 1, (0,)),),
        recipe or r.FromOutput(0),
        modules.axpy(),
        sites=(Site("index", "take", 0, Location("model.py", 12, "step")),),
        **more,
    )


def plain(x, y, s=2.0):
    return x + y * s


@pytest.fixture(params=["native", "python"])
def form(request):
    return request.param == "native"


def make(form, fn, *specs, on_miss=None):
    entry = Entry(fn, on_miss or (lambda args, kwargs: MISS), native=form)
    assert entry.is_native == form
    for spec in specs:
        entry.add(spec)
        assert entry.serves_natively(spec) == form
    return entry


x3, y3 = np.array([1.0, 2, 3]), np.array([10.0, 20, 30])


# ---- calls ----------------------------------------------------------------------------------------------------------


def test_a_call_is_served(form):
    spec = axpy_spec()
    entry = make(form, plain, spec)
    for _ in range(3):
        out = entry.call(x3, y3, 0.5)
        assert type(out) is np.ndarray and out.dtype == np.float64 and out.flags.owndata and out.flags.writeable
        assert out.tolist() == [6, 12, 18]
    assert entry.hits(spec) == 3


def test_a_call_defines_no_types(monkeypatch):
    """The types of native functions are made once: making them costs more than a call."""
    entry = make(False, plain, axpy_spec())
    entry.call(x3, y3, 0.5)

    def refuse(*types):
        raise AssertionError("a type was made during a call")

    monkeypatch.setattr(ctypes, "PYFUNCTYPE", refuse)
    monkeypatch.setattr(ctypes, "CFUNCTYPE", refuse)
    assert entry.call(x3, y3, 0.5).tolist() == [6, 12, 18]


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((x3, y3, 2.0), {}),
        ((x3, y3), {}),
        ((x3,), {"y": y3}),
        ((), {"y": y3, "x": x3}),
        ((x3,), {"s": 2.0, "y": y3}),
        ((x3,), {"".join(["s"]): 2.0, "".join(["", "y"]): y3}),
    ],
)
def test_arguments_are_bound_as_python_does(form, args, kwargs):
    entry = make(form, plain, axpy_spec())
    assert entry.call(*args, **kwargs).tolist() == [21, 42, 63]


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {}), ((x3,), {}), ((x3, y3, 1.0, 4), {}), ((x3, y3), {"x": x3}), ((x3, y3), {"z": 1}), ((x3,), {"s": 1.0})],
)
def test_calls_that_do_not_fit_go_to_python_as_they_came(form, args, kwargs):
    seen = []
    entry = make(form, plain, axpy_spec(), on_miss=lambda a, k: seen.append((a, k)) or MISS)
    assert entry.call(*args, **kwargs) is MISS
    assert len(seen) == 1 and seen[0][0] == args and list(seen[0][1]) == list(kwargs)


def test_parameter_kinds(form):
    def fn(x, /, y, *rest, s=0.5, t=7):
        pass

    guards = (g.LengthGuard(Argument("rest"), 1, tuple), g.ConstantGuard(Item(Argument("rest"), 0), "a"))
    entry = make(form, fn, axpy_spec((*guards, g.ConstantGuard(Argument("t"), 7))))
    assert entry.call(x3, y3, "a").tolist() == [6, 12, 18]
    assert entry.call(x3, y3, "a", s=1.0).tolist() == [11, 22, 33]
    assert entry.call(x3, y3) is MISS
    assert entry.call(x3, y3, "a", "b") is MISS
    assert entry.call(x3, y3, "a", t=8) is MISS
    assert entry.call(y=y3, x=x3) is MISS


def test_collected_keywords(form):
    def fn(x, /, y, s=2.0, **more):
        pass

    guards = (g.KeysGuard(Argument("more"), ("a", "x")), g.ConstantGuard(Item(Argument("more"), "a"), 1))
    entry = make(form, fn, axpy_spec(guards))
    assert entry.call(x3, y3, a=1, x=0).tolist() == [21, 42, 63]
    assert entry.call(x3, **{"y": y3, "".join(["", "a"]): 1, "s": 1.0, "x": 2}).tolist() == [11, 22, 33]
    for wrong in ({"x": 0, "a": 1}, {"a": 1}, {"a": 2, "x": 0}, {"a": 1, "x": 0, "b": 0}, {"a": 1, "b": 0}, {}):
        assert entry.call(x3, y3, **wrong) is MISS
    assert entry.call(x3, y3, y3, a=1, s=3.0, x=0) is MISS  # s given twice


def test_collected_keywords_behind_collected_arguments(form):
    def fn(x, y, *rest, s=2.0, **more):
        pass

    guards = (g.LengthGuard(Argument("rest"), 1, tuple), g.KeysGuard(Argument("more"), ("é",)))
    in_python = g.ConstantGuard(Item(Argument("more"), "é"), np.float32(2))  # which has no native form
    entry = make(form, fn, axpy_spec((*guards, in_python)))
    assert entry.call(x3, y3, 7, é=np.float32(2)).tolist() == [21, 42, 63]
    assert entry.call(x3, y3, 7, é=np.float32(3)) is MISS
    assert entry.call(x3, y3, é=np.float32(2)) is MISS


def test_a_dict_of_collected_keywords_is_the_call_s_own(form):
    def fn(**more):
        pass

    entry = make(form, fn, EntrySpec("s", (), (), (), r.FromInput(Argument("more")), modules.copies()))
    given = {"a": [1], "b": 2}
    got = entry.call(**given)
    assert got == given and got is not given and list(got) == ["a", "b"] and got["a"] is given["a"]
    assert entry.call() == {} and entry.call() is not entry.call()
    before = sys.getrefcount(given["a"])
    for _ in range(100):
        entry.call(**given)
    after = sys.getrefcount(given["a"])
    assert after == before


def test_a_parameter_may_be_called_self(form):
    def fn(self, args, kwargs):
        pass

    entry = make(form, fn, EntrySpec("s", (), (), (), r.FromInput(Argument("self")), modules.copies()))
    assert entry.call(1, 2, 3) == 1
    assert entry.call(kwargs=1, args=2, self=[3]) == [3]


def test_new_defaults_and_new_code_are_noticed(form):
    def fn(x, y, s=2.0):
        pass

    entry = make(form, fn, axpy_spec())
    assert entry.call(x3, y3).tolist() == [21, 42, 63]
    fn.__defaults__ = (1.0,)
    assert entry.call(x3, y3).tolist() == [11, 22, 33]
    fn.__defaults__ = None
    assert entry.call(x3, y3) is MISS
    fn.__defaults__ = (1.0,)
    fn.__code__ = (lambda x, y, s: None).__code__
    assert entry.call(x3, y3) is MISS


def test_the_next_specialisation_is_tried_and_python_only_at_the_end(form):
    first, second = axpy_spec((array_guard(X, sizes=(3,)),)), axpy_spec((array_guard(X, sizes=(2,)),))
    seen = []
    entry = make(form, plain, first, second, on_miss=lambda a, k: seen.append(a) or MISS)
    assert entry.call(x3, y3).tolist() == [21, 42, 63]
    assert entry.call(x3[:2], y3[:2]).tolist() == [21, 42]
    assert (entry.hits(first), entry.hits(second), seen) == (1, 1, [])
    assert entry.call(x3[:1], y3[:1]) is MISS and len(seen) == 1
    entry.replace((second,))
    assert entry.call(x3, y3) is MISS


def test_a_specialisation_added_during_a_miss_serves_from_then_on(form):
    entry = make(form, plain)

    def compile_now(args, kwargs):
        entry.add(axpy_spec())
        return "compiled"

    entry._on_miss = compile_now
    assert entry.call(x3, y3) == "compiled"
    assert entry.call(x3, y3).tolist() == [21, 42, 63]


def test_exceptions_of_the_miss_pass_through(form):
    def fail(args, kwargs):
        raise KeyError("from the user's function")

    entry = make(form, plain, on_miss=fail)
    with pytest.raises(KeyError, match="user's function"):
        entry.call(1)


def test_an_object_of_a_subclass_is_called_through_it(form):
    entry = make(form, plain, axpy_spec())
    compiled = type("Compiled", (), {"__call__": entry.call})()
    assert (compiled if form else entry.call)(x3, y3, s=1.0).tolist() == [11, 22, 33]


# ---- array guards ---------------------------------------------------------------------------------------------------

BASE = np.arange(48.0).reshape(4, 12)
READONLY = np.arange(6.0)
READONLY.flags.writeable = False
ARRAYS = {
    "plain": np.arange(6.0),
    "two axes": BASE,
    "transposed": BASE.T,
    "step": np.arange(12.0)[::2],
    "reversed": np.arange(6.0)[::-1],
    "columns": BASE[:, 2:7],
    "column step": BASE[:, ::3],
    "broadcast": np.broadcast_to(np.arange(6.0), (3, 6)),
    "zero axis": np.zeros((0, 5)),
    "one element": np.zeros((1, 1))[:, ::1],
    "rank 0": np.array(3.0),
    "float32": np.arange(6, dtype=np.float32),
    "int64": np.arange(6),
    "long long": np.arange(6, dtype=np.longlong),
    "complex": np.arange(6) + 1j,
    "bool": np.zeros(6, bool),
    "half": np.zeros(6, np.float16),
    "bfloat16": np.zeros(6, d.bfloat16.numpy),
    "big endian": np.arange(6, dtype=">f8"),
    "unpickled": pickle.loads(pickle.dumps(np.arange(6.0))),
    "read-only": READONLY,
    "unaligned": np.zeros(49, np.int8)[1:].view(np.float64),
    "part of an element": np.zeros(6, [("a", np.float64), ("b", np.int32)])["a"],
    "subclass": np.arange(6.0).view(np.matrix),
    "masked": np.ma.arange(6.0),
    "object": np.array([1.0, None], object),
    "string": np.array(["a"]),
    "record": np.zeros(3, [("a", float)]),
    "datetime": np.zeros(6, "M8[s]"),
    "longdouble": np.zeros(6, np.longdouble),
    "a list": [1.0],
    "a number": 1.0,
    "nothing": None,
    "type": np.ndarray,
    "three axes": np.arange(24.0).reshape(2, 3, 4).transpose(1, 0, 2),
    "interleaved": np.lib.stride_tricks.as_strided(np.arange(64.0), (3, 2, 4), (128, 64, 16)),
    "huge broadcast": np.broadcast_to(np.zeros((1, 3, 1)), (1 << 20, 3, 1 << 20)),
    "overlapping": np.lib.stride_tricks.as_strided(np.arange(8.0), (4, 4), (8, 8)),
}
GUARDS = {}
for _name, _x in ARRAYS.items():
    if type(_x) is np.ndarray and _x.dtype.kind in "biufc" and _x.dtype.isnative and _x.dtype != np.longdouble:
        for _written in (False, True):
            for _sizes in (_x.shape, (None,) * _x.ndim):
                _guard = g.ArrayGuard(
                    X,
                    d.from_numpy(_x.dtype),
                    _sizes,
                    g.layout_of(_x),
                    g.memory_order(_x),
                    axes=g.axis_kinds(_x),
                    aligned=bool(_x.flags.aligned),
                    written=_written,
                )
                GUARDS[f"{_name}{' written' if _written else ''}{' fixed' if _sizes == _x.shape else ''}"] = _guard


@pytest.mark.parametrize("name", GUARDS)
def test_every_array_guard_agrees_with_its_python_form_on_every_array(name):
    def fn(x):
        pass

    spec = EntrySpec("guards", (GUARDS[name],), (), (), r.ConstantResult("served"), modules.copies())
    seen = []
    entry = Entry(fn, lambda args, kwargs: seen.append(args) or MISS)
    entry.add(spec)
    # The native answer alone: what Python serves after a native miss is told apart by the counter.
    for what, x in ARRAYS.items():
        expected = holds(spec, entry.frame((x,), {}))
        before = entry._tables[spec].hits.value
        assert (entry.call(x) is not MISS) == expected, what
        assert (entry._tables[spec].hits.value > before) == expected, what


def test_array_guards_agree_on_random_strides(rng):
    buffer = np.zeros(4096)

    def random_array(ndim):
        shape, steps = rng.integers(0, 5, ndim), rng.integers(-9, 10, ndim)
        return np.lib.stride_tricks.as_strided(buffer[2048:], tuple(shape), tuple(8 * steps))

    for _ in range(60):
        x = random_array(rng.integers(1, 5))
        guard = g.ArrayGuard(X, d.float64, (None,) * x.ndim, g.layout_of(x), g.memory_order(x),
                             axes=g.axis_kinds(x), written=bool(rng.integers(2)))  # fmt: skip
        spec = EntrySpec("guards", (guard,), (), (), r.ConstantResult("served"), modules.copies())
        entry = Entry(one, lambda args, kwargs: MISS)
        entry.add(spec)
        for other in (x, *(random_array(x.ndim) for _ in range(30))):
            before = entry.hits(spec)
            expected = holds(spec, entry.frame((other,), {}))
            assert (entry.call(other) is not MISS) == expected, (x.shape, x.strides, other.shape, other.strides)
            assert (entry._tables[spec].hits.value > before) == expected


def test_memory_maps_are_arrays(form, tmp_path):
    file = np.memmap(tmp_path / "x", np.float64, "w+", shape=(3,))
    file[:] = x3
    entry = make(form, plain, axpy_spec())
    assert entry.call(file, y3).tolist() == [21, 42, 63]


# ---- other guards ---------------------------------------------------------------------------------------------------

VALUE = 5


class Layer:
    scale = 3.0

    def __init__(self):
        self.weight = 7


def check_guards(guards, fn, held, not_held):
    spec = EntrySpec("guards", tuple(guards), (), (), r.ConstantResult("served"), modules.copies())
    entry = Entry(fn, lambda args, kwargs: MISS)
    entry.add(spec)
    for args, expected in [*((a, True) for a in held), *((a, False) for a in not_held)]:
        assert holds(spec, entry.frame(args, {})) == expected, args
        before = entry._tables[spec].hits.value
        assert (entry.call(*args) == "served") == expected, args
        assert (entry._tables[spec].hits.value > before) == expected, args


def one(x):
    pass


def two(x, y):
    pass


def test_constant_guards():
    for value, equal, other in [
        (1, [1, int("1")], [True, 1.0, 2, np.int64(1), "1", None]),
        (10**30, [10**30 + 0], [10**30 + 1]),
        (True, [True], [1, False, np.True_]),
        (None, [None], [0, False]),
        (0.0, [0.0], [-0.0, 0, 0j]),
        (float("nan"), [float("nan")], [-float("nan"), 1.0]),
        (complex(1, -0.0), [complex(1, -0.0)], [1 + 0j, 1.0]),
        ("abc", ["".join(["ab", "c"])], ["abd", b"abc", 1]),
        (b"abc", [bytes([97, 98, 99])], ["abc"]),
        (..., [...], [None]),
    ]:
        check_guards([g.ConstantGuard(X, value)], one, [(v,) for v in equal], [(v,) for v in other])


def test_type_and_number_guards():
    check_guards([g.TypeGuard(X, Layer)], one, [(Layer(),)], [(type("L", (Layer,), {})(),), (Layer,), (1,)])
    check_guards([g.FloatGuard(X)], one, [(1.5,), (float("nan"),)], [(1,), (1j,), (np.float64(1),), (True,)])
    check_guards([g.FloatGuard(X, complex_=True)], one, [(1j,)], [(1.5,)])
    others = [(-1,), (2**62 + 1,), (2**70,), (True,), (1.0,), (np.int64(1),)]
    check_guards([g.IntGuard(X)], one, [(0,), (2**62,)], others)
    check_guards([g.IntGuard(X, lo=-5)], one, [(-5,)], [(-6,), (-(2**70),)])


def test_container_guards():
    check_guards(
        [g.LengthGuard(X, 2, tuple), g.ConstantGuard(Item(X, 1), 4)], one,
        [((3, 4),)], [((3, 5),), ((3, 4, 5),), ([3, 4],), (None,)],
    )  # fmt: skip
    check_guards([g.ConstantGuard(Item(X, 0), 4)], one, [([4],), ((4, 1),), ({0: 4},)], [([],), ({},), (4,), ([5],)])
    check_guards([g.ConstantGuard(Item(X, -1), 4)], one, [([1, 4],)], [([4, 1],), ([],)])
    check_guards([g.ConstantGuard(Item(X, "k"), 4)], one, [({"k": 4},)], [({},), ({"k": 5},), ([4],)])
    check_guards([g.KeysGuard(X, ("a", "b"))], one, [({"a": 1, "b": 2},)], [({"b": 1, "a": 2},), ({"a": 1},), (1,)])
    name, ordered = type("Name", (str,), {}), type("Dict", (dict,), {})
    others = [({"b": 1, "a": 2},), ({"a": 1, name("b"): 2},), ({"a": 1, 2: 2},), (ordered(a=1, b=2),)]
    check_guards([g.KeysGuard(X, ("a", "b"))], one, [({"a": 1, "".join(["", "b"]): 2},)], others)
    check_guards([g.KeysGuard(X, ("a", 1))], one, [({"a": 1, 1: 2},)], [({"a": 1, True: 2},)])
    check_guards([g.PresenceGuard(Item(X, "k"), True)], one, [({"k": 4},)], [({},)])
    check_guards([g.PresenceGuard(Item(X, "k"), False)], one, [({},)], [({"k": 4},)])


def test_object_guards():
    layer, other = Layer(), Layer()
    other.weight = 8
    check_guards([g.ConstantGuard(Attribute(X, "weight"), 7)], one, [(layer,)], [(other,), (1,), (None,), (int,)])
    check_guards([g.ConstantGuard(InstanceEntry(X, "weight"), 7)], one, [(layer,)], [(other,), (1,), (Layer,)])
    check_guards([g.ConstantGuard(ClassEntry(X, "scale"), 3.0)], one, [(layer,)], [(1,), (None,)])
    check_guards([g.IdentityGuard(ClassEntry(X, "__init__"), Layer.__init__)], one, [(layer,)], [(1,)])
    check_guards([g.ConstantGuard(Attribute(X, "scale"), 3.0)], one, [(Layer,), (layer,)], [(int,)])
    check_guards([g.IdentityGuard(Attribute(Module("numpy"), "sin"), np.sin)], one, [(0,)], [])
    check_guards([g.PresenceGuard(Module("no_such_module"), False)], one, [(0,)], [])
    check_guards([g.IdentityGuard(Attribute(X, "sin"), np.sin)], one, [(np,)], [(types,), (1,)])
    check_guards([g.PresenceGuard(InstanceEntry(X, "bias"), False)], one, [(layer,)], [])


def test_identity_guards():
    thing = []
    check_guards([g.IdentityGuard(X, thing)], one, [(thing,)], [([],), (None,)])
    check_guards([g.SameObjectGuard(X, Y)], two, [(x3, x3)], [(x3, x3.copy())])
    check_guards([g.NotSameObjectGuard(X, Y)], two, [(x3, x3.copy())], [(x3, x3)])


def test_guards_on_globals_cells_and_functions():
    captured = 1

    def fn(x):
        return captured

    module = types.ModuleType("user")
    exec("HELP = 1\ndef f(x): return HELP + len(x)", module.__dict__)
    for source, function, change in [
        (Cell("captured", 0), fn, "captured"),
        (Global("HELP"), module.f, "global"),
    ]:
        spec = EntrySpec("g", (g.ConstantGuard(source, 1),), (), (), r.ConstantResult("served"), modules.copies())
        entry = Entry(function, lambda args, kwargs: MISS)
        entry.add(spec)
        assert entry.serves_natively(spec) and entry.call(0) == "served"
        if change == "captured":
            captured = 2
        else:
            module.HELP = 2
        assert entry.call(0) is MISS
        if change == "captured":
            del captured
        else:
            del module.HELP
        assert entry.call(0) is MISS
    entry = Entry(module.f, lambda args, kwargs: MISS)
    entry.add(
        EntrySpec("g", (g.IdentityGuard(Global("len"), len), g.PresenceGuard(Global("HELP"), False)), (), (),
                  r.ConstantResult("served"), modules.copies())
    )  # fmt: skip
    assert entry.call(0) == "served"
    module.len = sum
    assert entry.call(0) is MISS
    del module.len
    module.HELP = 3
    assert entry.call(0) is MISS
    check_guards([g.ConstantGuard(FunctionGlobal(X, "HELP"), 3)], one, [(module.f,)], [(one,), (len,), (3,)])


def test_shape_relations():
    n, m = Symbol("n"), Symbol("m")
    sizes = ((n, g.size_source(X, 0)), (m, g.size_source(Y, 0)))
    both = (array_guard(X), array_guard(Y))

    def of(*lengths):
        return tuple(np.zeros(k) for k in lengths)

    check_guards([*both, g.ShapeGuard(le(2 * n + 1, m), sizes)], two, [of(1, 3), of(0, 1)], [of(1, 2), of(5, 10)])
    check_guards([*both, g.ShapeGuard(le((n * m) // 4, m % 3), sizes)], two, [of(1, 2), of(2, 2)], [of(4, 6)])
    check_guards([*both, g.ShapeGuard(le(smax(n, m), 4), sizes)], two, [of(4, 3)], [of(5, 3), of(3, 5)])
    check_guards([g.ShapeGuard(le(n, m), ((n, X), (m, Y)))], two, [(1, 2)], [(2, 1)])
    rank0 = np.array(1.0)
    check_guards([g.CompareGuard(g.size_source(X, 0), "<", 3, True)], one, [(np.zeros(2),)], [(np.zeros(3),), (rank0,)])
    check_guards([g.CompareGuard(g.size_source(X, 0), "==", 3, False)], one, [(np.zeros(2),)], [(np.zeros(3),)])
    check_guards([g.CompareGuard(g.size_source(X, 0), ">", g.size_source(Y, 0), True)], two, [of(3, 2)], [of(2, 3)])
    check_guards([g.IntGuard(X), g.CompareGuard(X, "<", 5, True)], one, [(4,)], [(5,), (4.0,)])
    term = g.SizeTerm(n // 2 - m, ((n, g.size_source(X, 0)), (m, Y)))
    check_guards([g.CompareGuard(term, ">=", -1, True)], two, [(np.zeros(9), 5)], [(np.zeros(9), 6)])


def test_float_relations():
    nan, isfloat = float("nan"), g.FloatGuard(X)
    for operator, held, not_held in [
        ("<", [2.4, -1.0], [2.5, 3.0, nan, 2]),
        ("<=", [2.5], [2.6, nan]),
        ("==", [2.5], [nan, 2.4]),
        ("!=", [2.4, nan], [2.5]),
    ]:
        guards = [isfloat, g.CompareGuard(X, operator, 2.5, True)]
        check_guards(guards, one, [(v,) for v in held], [(v,) for v in not_held])
    check_guards([isfloat, g.CompareGuard(X, "<", 2, False)], one, [(2.0,), (nan,)], [(1.9,)])
    both = (isfloat, g.FloatGuard(Y))
    check_guards([*both, g.CompareGuard(X, ">", Y, True)], two, [(2.0, 1.0)], [(1.0, 1.0), (nan, 1.0)])
    check_guards([*both, g.CompareGuard(X, ">=", Y, False)], two, [(1.0, 2.0), (nan, 1.0)], [(1.0, 1.0)])
    # a constant on the smaller side, and what only Python checks
    check_guards([isfloat, g.CompareGuard(X, ">", 2.5, True)], one, [(3.0,)], [(2.5,), (nan,)])
    term = g.Arithmetic("/", (1.0, X))
    check_guards([isfloat, g.DefinedGuard(term), g.CompareGuard(term, "<", 1, True)], one, [(2.0,)], [(0.0,), (0.5,)])
    check_guards([g.CompareGuard(X, "<", 2.5, True)], one, [(2,), (2.4,)], [(3,)])


def test_overlap():
    base = np.arange(20.0)
    check_guards(
        [g.DisjointGuard(X, (Y,))], two,
        [(base[:10], base[10:]), (base[10:], base[:10]), (base[:0], base), (base[9::-1], base[10:])],
        [(base, base), (base[:11], base[10:]), (base[::2], base[1::2]), (base[10::-1], base[10:])],
    )  # fmt: skip


# ---- inputs, outputs, results ---------------------------------------------------------------------------------------


def test_runtime_numbers(form):
    def fn(a, b, c, e, n, x):
        pass

    inputs = [("a", "scalar", d.float64), ("b", "scalar", d.complex128), ("c", "scalar", d.float32),
              ("e", "scalar", d.bfloat16), ("n", "size", d.int64)]  # fmt: skip
    dtypes = [d.float64, d.complex128, d.float32, d.bfloat16, d.int64, d.int64]
    spec = EntrySpec(
        "numbers",
        (),
        (*(EntryInput(Argument(n), k, t) for n, k, t in inputs), EntryInput(g.size_source(X, 0), "size", d.int64)),
        tuple(EntryOutput(t, 0, ()) for t in dtypes),
        r.TupleResult((*(r.FromOutput(k, "scalar") for k in range(5)), r.FromOutput(5, "python"))),
        modules.copies(8, 16, 4, 2, 8, 8),
    )
    entry = make(form, fn, spec)
    half = d.bfloat16.numpy.type(2.5)
    out = entry.call(1.5, 2 - 3j, np.float32(4.25), half, -7, np.zeros((9, 2)))
    assert out == (1.5, 2 - 3j, np.float32(4.25), half, -7, 9)
    assert [type(v) for v in out] == [np.float64, np.complex128, np.float32, type(half), np.int64, int]


def test_python_numbers_as_results(form):
    def fn(a, b, n, x):
        pass

    kinds = [("a", "scalar", d.float64), ("b", "scalar", d.complex128), ("n", "size", d.int64),
             ("x", "scalar", d.bool_)]  # fmt: skip
    spec = EntrySpec(
        "numbers", (), tuple(EntryInput(Argument(n), k, t) for n, k, t in kinds),
        tuple(EntryOutput(t, 0, ()) for _, _, t in kinds),
        r.ListResult(tuple(r.FromOutput(k, "python") for k in range(4))), modules.copies(8, 16, 8, 1),
    )  # fmt: skip
    out = make(form, fn, spec).call(0.5, 1j, 12, np.True_)
    assert out == [0.5, 1j, 12, True] and [type(v) for v in out] == [float, complex, int, bool]


def test_an_output_of_rank_0_may_be_an_array(form):
    spec = EntrySpec("a", (), (EntryInput(X, "scalar", d.float64),), (EntryOutput(d.float64, 0, ()),), r.FromOutput(0),
                     modules.copies(8))  # fmt: skip
    out = make(form, one, spec).call(2.5)
    assert type(out) is np.ndarray and out.shape == () and out == 2.5


@pytest.mark.parametrize("dtype", d.ALL, ids=str)
def test_every_dtype_as_input_and_output(form, dtype):
    x = np.arange(12).astype(dtype.numpy).reshape(3, 4)
    library = modules.copy_like_first(dtype.itemsize)
    spec = EntrySpec("copy", (array_guard(X, dtype, (None, None)),), (EntryInput(X, "array", dtype),),
                     (EntryOutput(dtype, 2, (0, 1)),), r.FromOutput(0), library)  # fmt: skip
    out = make(form, one, spec).call(x)
    assert out.dtype == x.dtype and out.shape == x.shape and out.tobytes() == x.tobytes()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0)])
@pytest.mark.parametrize("shape", [(2, 3, 4), (0, 3, 2), (3, 5, 2), (60, 70, 80)])
def test_results_have_the_memory_order_of_numpy(form, order, shape, rng):
    x = rng.random([shape[a] for a in order]).transpose(np.argsort(order))
    layout = g.layout_of(x)
    guard = array_guard(X, d.float64, (None,) * 3, layout, order, axes=("any", "any", "any"))
    spec = EntrySpec("copy", () if x.size == 0 else (guard,), (EntryInput(X, "array", d.float64),),
                     (EntryOutput(d.float64, 3, order),), r.FromOutput(0), modules.copy_like_first(8))  # fmt: skip
    out = make(form, one, spec).call(x)
    assert np.array_equal(out, x) and out.base is None and out.flags.owndata
    assert out.strides == np.positive(x).strides


def test_large_results_come_from_the_store(form):
    x = np.ones(1 << 18)
    before = block_statistics().allocations
    entry = make(form, plain, axpy_spec())
    for _ in range(3):
        out = entry.call(x, x)
        assert out.flags.owndata and (out == 3).all()
        del out
    assert block_statistics().allocations == before + 3
    assert np.empty(1 << 18).size and block_statistics().allocations == before + 3


def test_result_recipes(form):
    fresh = [1]
    output = r.FromOutput(0)
    named = __import__("collections").namedtuple("Pair", "a b")
    shared = r.ListResult((output,))
    for recipe, check in [
        (r.FromInput(X), lambda v: v is x3),
        (r.ConstantResult(None), lambda v: v is None),
        (r.ConstantResult("text"), lambda v: v == "text"),
        (r.TupleResult((output, r.FromInput(X), r.ConstantResult(3))), lambda v: v[1] is x3 and v[0].sum() == 126),
        (r.TupleResult((output, r.ListResult((output, r.TupleResult(()))))),
         lambda v: v[0] is v[1][0] and v[1][1] == ()),
        (r.DictResult(((r.ConstantResult("k"), output),)), lambda v: v["k"].tolist() == [21, 42, 63]),
        (r.TupleResult((output, r.FromInput(X)), named), lambda v: type(v) is named and v.b is x3),
        (r.TupleResult((r.TupleResult((r.TupleResult(()), output), named), r.ConstantResult(3))),
         lambda v: type(v[0]) is named and v[0].a == () and v[0].b.sum() == 126 and v[1] == 3),
        (r.TupleResult((shared, shared)), lambda v: v[0] is v[1]),
        (r.ViewOf(output, (("slice", (("starts", (2,)), ("sizes", (3,)), ("steps", (-1,)))),)),
         lambda v: v.tolist() == [63, 42, 21] and v.base is not None),
        (r.ViewOf(r.FromInput(X), (("slice", (("starts", (1,)), ("sizes", (2,)), ("steps", (1,)))),)),
         lambda v: np.shares_memory(v, x3) and v.tolist() == [2, 3]),
        (r.ConstantResult(np.arange(3)), lambda v: v.tolist() == [0, 1, 2] and not fresh.clear()),
        (r.SizeResult(Symbol("n") + 1), lambda v: v == 4),
    ]:  # fmt: skip
        spec = axpy_spec(recipe=recipe, symbols=((Symbol("n"), g.size_source(X, 0)),))
        assert check(make(form, plain, spec).call(x3, y3)), recipe


# ---- failures -------------------------------------------------------------------------------------------------------


def test_an_error_of_the_kernel_is_numpys_with_the_users_line(form):
    entry = make(form, plain, axpy_spec())
    bad = np.array([0, 1, -1.0, 4])
    for _ in range(3):
        with pytest.raises(IndexError, match=r"^index 2 is out of bounds for axis 0 with size 4 \(in take at model"):
            entry.call(bad, bad)
    assert entry.call(x3, y3).tolist() == [21, 42, 63]


def test_a_plan_that_fails_is_an_error(form):
    entry = make(form, one, EntrySpec("f", (), (), (), r.ConstantResult(1), modules.copies(plan_code=9)))
    with pytest.raises(CodegenError, match=r"could not plan.*code 9"):
        entry.call(0)


def test_too_large_a_result_is_a_memory_error(form):
    x = np.broadcast_to(np.zeros(1), (1 << 50,))
    spec = EntrySpec("copy", (), (EntryInput(X, "array", d.float64),), (EntryOutput(d.float64, 1, (0,)),),
                     r.FromOutput(0), modules.copy_like_first(8))  # fmt: skip
    with pytest.raises(MemoryError):
        make(form, one, spec).call(x)


def test_no_reference_is_lost_or_kept(form):
    entry = make(form, plain, axpy_spec((g.KeysGuard(Argument("s"), ()),)), axpy_spec(),
                 axpy_spec((array_guard(X, d.float32),)))  # fmt: skip
    bad = np.array([-1.0, 0, 0])
    things = [x3, y3, bad, np.float64, plain, MISS, x3.dtype]

    def exercise():
        for _ in range(200):
            entry.call(x3, y3)
            entry.call(x3, y=y3, s=1.5)
            entry.call(x3, 1)
            with contextlib.suppress(IndexError):
                entry.call(bad, y3)

    for _ in range(3):  # ctypes and the interpreter fill their caches
        exercise()
    gc.collect()
    before, blocks = [sys.getrefcount(t) for t in things], sys.getallocatedblocks()
    exercise()
    gc.collect()
    assert [sys.getrefcount(t) for t in things] == before
    assert abs(sys.getallocatedblocks() - blocks) < 190  # one block lost for each kind of call would be 200


def test_an_entry_is_collected_with_its_code(form):
    def fn(x, y, s=2.0):
        pass

    entry = make(form, fn, axpy_spec())
    entry.call(x3, y3)
    gone = weakref.ref(fn)
    del entry, fn
    gc.collect()
    assert gone() is None


# ---- threads --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", [None, 0])
def test_threads_may_call_at_once_while_specialisations_change(form, release):
    specs = [axpy_spec(release_elements=release) for _ in range(3)]
    entry = make(form, plain, specs[0])
    wrong = []
    stop = threading.Event()

    def caller(k):
        x = np.full(1000 + k, float(k))
        while not stop.is_set():
            out = entry.call(x, x, 2.0)
            if out.shape != x.shape or not (out == 3.0 * k).all():
                wrong.append(k)

    threads = [threading.Thread(target=caller, args=(k,)) for k in range(1, 4)]
    for t in threads:
        t.start()
    for k in range(300):
        entry.replace((specs[k % 3], specs[(k + 1) % 3]))
    stop.set()
    for t in threads:
        t.join()
    assert not wrong


def test_a_miss_may_call_the_entry_again(form):
    entry = make(form, plain, axpy_spec())
    entry._on_miss = lambda args, kwargs: entry.call(x3, y3)
    assert entry.call("no array", 1).tolist() == [21, 42, 63]


def test_an_interrupt_at_any_moment_loses_nothing(form):
    class Interrupt(BaseException):
        pass

    def interrupt(*_):
        raise Interrupt

    entry = make(form, plain, axpy_spec(release_elements=0))
    entry.call(x3, y3)
    gc.collect()  # entries of other tests, which refer to the same objects
    before = [sys.getrefcount(t) for t in (x3, y3, plain)]
    old = signal.signal(signal.SIGALRM, interrupt)
    seen = 0
    gc.disable()  # what a handler raises inside a callback of the collector is dropped by the interpreter
    try:
        for k in range(100):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-4 + 1e-6 * k, 5)  # again, should one be dropped all the same
                while True:
                    entry.call(x3, y3)
            except Interrupt:
                signal.setitimer(signal.ITIMER_REAL, 0)
                seen += 1
    finally:
        gc.enable()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert seen == 100 and entry.call(x3, y3).tolist() == [21, 42, 63]
    gc.collect()
    assert [sys.getrefcount(t) for t in (x3, y3, plain)] == before


def test_the_gil_is_released_for_large_work_only():
    """While a kernel runs without the GIL, another thread gets on; a kernel cannot observe this, a callback can."""
    seen = []
    callback = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)

    @callback
    def run(ctx, inputs, outputs):  # takes the GIL itself, as ctypes callbacks do
        seen.append(True)
        return 0

    class FakeLibrary:
        def address(self, name):
            return modules.copies().address("bl_plan") if name == "bl_plan" else ctypes.cast(run, ctypes.c_void_p).value

    spec = EntrySpec("f", (), (EntryInput(X, "array", d.float64),), (), r.ConstantResult("served"), FakeLibrary(),
                     release_elements=100)  # fmt: skip
    entry = make(True, one, spec)
    assert entry.call(np.zeros(100)) == "served" and len(seen) == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_while_other_threads_compile_and_call(form):
    entry = make(form, plain, axpy_spec())
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            emit_object("define i32 @f() { ret i32 1 }", host())
            entry.replace((axpy_spec(),))
            entry.call(x3, y3)

    threads = [threading.Thread(target=busy) for _ in range(3)]
    for t in threads:
        t.start()
    try:
        for _ in range(5):
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    signal.alarm(20)
                    emit_object("define i32 @f() { ret i32 2 }", host())
                    entry.add(axpy_spec())
                    code = 0 if entry.call(x3, y3).tolist() == [21, 42, 63] else 2
                finally:
                    os._exit(code)
            assert os.waitpid(pid, 0)[1] == 0
    finally:
        stop.set()
        for t in threads:
            t.join()


PREPARED = """
import sys
from pathlib import Path
from broadloom.runtime import entry
from broadloom.runtime.cache import ObjectCache
with ObjectCache(Path(sys.argv[1])) as store:
    entry.prepare(store)
    print(store.statistics.hits, store.statistics.stores, entry.self_test())
"""


def test_the_hand_written_code_comes_from_the_object_cache(tmp_path):
    def run():
        arguments = [sys.executable, "-c", PREPARED, str(tmp_path / "cache")]
        return subprocess.run(arguments, check=True, capture_output=True, text=True).stdout.split()

    assert run() == ["0", "2", "native"]
    assert run() == ["2", "0", "native"]
