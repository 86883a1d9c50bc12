"""Sources and guards by themselves: what each admits, and the words when it does not."""

from __future__ import annotations

import math
from types import CellType

import numpy as np
import pytest

from broadloom import dtypes
from broadloom.capture.guards import (
    ArrayGuard,
    CompareGuard,
    ConstantGuard,
    DisjointGuard,
    FloatGuard,
    IdentityGuard,
    IntGuard,
    KeysGuard,
    LengthGuard,
    NotSameObjectGuard,
    PresenceGuard,
    SameObjectGuard,
    TypeGuard,
    axis_kinds,
    layout_of,
    memory_order,
    overlaps_itself,
    size_source,
)
from broadloom.capture.sources import (
    Argument,
    Attribute,
    Cell,
    ClassEntry,
    Frame,
    FunctionGlobal,
    Global,
    InstanceEntry,
    Item,
    SourceMissing,
)
from broadloom.errors import Location

X, Y = Argument("x"), Argument("y")


def frame(**arguments: object) -> Frame:
    return Frame(arguments, {"g": 7, "__builtins__": {"len": len}}, (CellType(11),))


class Thing:
    setting = 3

    def __init__(self) -> None:
        self.w = 5

    def __getattr__(self, name: str) -> int:
        raise RuntimeError("user code ran")


def test_sources_fetch_and_print() -> None:
    f = frame(x={"k": (1, 2)}, y=Thing(), f=test_sources_fetch_and_print)
    cases = [
        (Argument("x"), "L['x']", {"k": (1, 2)}),
        (Global("g"), "G['g']", 7),
        (Global("len"), "G['len']", len),
        (Cell("c", 0), "C['c']", 11),
        (Item(Item(X, "k"), 1), "L['x']['k'][1]", 2),
        (Attribute(Y, "w"), "L['y'].w", 5),
        (ClassEntry(Y, "setting"), "type(L['y']).setting", 3),
        (InstanceEntry(Y, "w"), "vars(L['y'])['w']", 5),
        (FunctionGlobal(Argument("f"), "X"), "L['f'].__globals__['X']", X),
    ]
    for source, text, value in cases:
        assert str(source) == text
        assert source.fetch(f) == value


@pytest.mark.parametrize(
    "source",
    [
        Argument("z"),
        Global("nothing"),
        Cell("c", 3),
        Item(X, "q"),
        Attribute(Y, "missing"),
        InstanceEntry(Y, "setting"),
        Item(Y, 0),
    ],
)
def test_a_missing_path_fails_the_guard_and_runs_no_user_code(source: object) -> None:
    f = frame(x={}, y=Thing())
    with pytest.raises(SourceMissing):
        source.fetch(f)  # type: ignore[attr-defined]
    guard = TypeGuard(source, int)  # type: ignore[arg-type]
    assert not guard.check(f)
    assert "does not exist" in guard.explain(f)


@pytest.mark.parametrize("value", [1, True, 1.0, 0.0, -0.0, math.nan, None, "1", b"1", ..., 1 + 0j])
def test_constants_are_type_exact(value: object) -> None:
    others = [1, True, 1.0, 0.0, -0.0, math.nan, None, "1", b"1", ..., 1 + 0j]
    guard = ConstantGuard(X, value)
    assert [o for o in others if guard.check(frame(x=o))] == [value] or value != value
    assert guard.check(frame(x=value))
    assert len({ConstantGuard(X, o) for o in others}) == len(others)


def test_explain_names_source_old_new_and_line() -> None:
    guard = ArrayGuard(X, dtypes.float64, (3, None), "c", (0, 1), location=Location("m.py", 4, "f"))
    assert guard.check(frame(x=np.zeros((3, 9))))
    assert guard.explain(frame(x=np.zeros((4, 9)))) == "L['x'].shape[0] was 3 and is 4 (read at m.py:4 in f)"
    assert "L['x'].dtype was float64 and is float32" in guard.explain(frame(x=np.zeros((3, 9), np.float32)))
    assert "layout was C-contiguous and is Fortran-contiguous" in guard.explain(frame(x=np.zeros((3, 9), order="F")))
    assert ConstantGuard(X, 2).explain(frame(x=3)) == "L['x'] was 2 and is 3"
    assert str(size_source(X, 1)) == "L['x'].shape[1]"


def test_array_guard_on_kinds_of_arrays() -> None:
    base = np.zeros((4, 6))
    guard = ArrayGuard(X, dtypes.float64, (None, None), "c", (0, 1))
    assert guard.check(frame(x=base))
    assert guard.check(frame(x=np.zeros((0, 5)))) and guard.check(frame(x=np.zeros((1, 1))))
    rejected = [base[:, ::2], base.astype(">f8"), base.view(np.recarray), np.ma.array(base), base[0], [1.0], base.T]
    assert not any(guard.check(frame(x=r)) for r in rejected)
    unaligned = np.frombuffer(bytes(8 * 24 + 1), dtype=np.uint8)[1:].view(np.float64).reshape(4, 6)
    assert not guard.check(frame(x=unaligned))
    assert ArrayGuard(X, dtypes.float64, (4, 6), "c", (0, 1), aligned=False).check(frame(x=unaligned))
    written = ArrayGuard(X, dtypes.float64, (4, 6), "c", (0, 1), written=True)
    assert written.check(frame(x=base))
    base.flags.writeable = False
    assert not written.check(frame(x=base)) and "writeable" in written.explain(frame(x=base))


def test_strided_arrays_agree_in_kinds_and_order() -> None:
    base = np.zeros((4, 6, 5))
    x = base[::2, :, :3]
    guard = ArrayGuard(X, dtypes.float64, x.shape, "strided", memory_order(x), axis_kinds(x))
    assert axis_kinds(x) == ("any", "any", "unit") and layout_of(x) == "strided"
    assert guard.check(frame(x=np.zeros((9, 6, 7))[:2, :, 2:5]))
    assert not guard.check(frame(x=np.zeros((2, 6, 6))[:, :, ::2]))  # last axis not unit
    assert not guard.check(frame(x=np.zeros((6, 2, 4)).transpose(1, 0, 2)[:, :, :3]))  # other order
    assert not guard.check(frame(x=np.lib.stride_tricks.as_strided(base, x.shape, (48, 0, 8))))  # does not move
    spread = np.broadcast_to(np.zeros(6), (4, 6))
    assert axis_kinds(spread) == ("zero", "unit")
    assert overlaps_itself(spread) and not overlaps_itself(base[:, ::-1, 1:])
    window = np.lib.stride_tricks.sliding_window_view(np.arange(5), 2)
    assert overlaps_itself(window)


def test_the_small_guards() -> None:
    a, b = np.zeros(3), np.zeros(3)
    yes = [
        (FloatGuard(X), {"x": math.nan}),
        (FloatGuard(X, complex_=True), {"x": 1j}),
        (IntGuard(X), {"x": 0}),
        (IntGuard(X, lo=-(2**62)), {"x": -4}),
        (LengthGuard(X, 2, list), {"x": [1, 2]}),
        (KeysGuard(X, ("a", 1)), {"x": {"a": 0, 1: 0}}),
        (PresenceGuard(Item(X, "a"), True), {"x": {"a": 0}}),
        (PresenceGuard(Item(X, "a"), False), {"x": {}}),
        (CompareGuard(X, ">", 0, True), {"x": 0.5}),
        (CompareGuard(X, "<", Y, False), {"x": 2.0, "y": 1}),
        (SameObjectGuard(X, Y), {"x": a, "y": a}),
        (NotSameObjectGuard(X, Y), {"x": a, "y": b}),
        (DisjointGuard(X, (Y,)), {"x": a, "y": b}),
        (IdentityGuard(X, np.sin), {"x": np.sin}),
    ]
    no = [
        (FloatGuard(X), {"x": 1}),
        (IntGuard(X), {"x": True}),
        (IntGuard(X), {"x": -1}),
        (LengthGuard(X, 2, list), {"x": (1, 2)}),
        (KeysGuard(X, ("a", 1)), {"x": {"a": 0, True: 0}}),
        (KeysGuard(X, ("a", "b")), {"x": {"b": 0, "a": 0}}),
        (PresenceGuard(Item(X, "a"), True), {"x": {}}),
        (CompareGuard(X, ">", 0, True), {"x": -0.5}),
        (SameObjectGuard(X, Y), {"x": a, "y": b}),
        (NotSameObjectGuard(X, Y), {"x": a, "y": a}),
        (DisjointGuard(X, (Y,)), {"x": a, "y": a[1:]}),
        (IdentityGuard(X, np.sin), {"x": np.cos}),
    ]
    for guard, arguments in yes:
        assert guard.check(frame(**arguments)), guard
    for guard, arguments in no:
        assert not guard.check(frame(**arguments)), guard
        assert guard.explain(frame(**arguments)), guard
