"""Events, sinks and dumps: from threads, across fork, and where nothing can be written."""

from __future__ import annotations

import dataclasses
import json
import os
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

from broadloom.errors import Location
from broadloom.trace import (
    EVENTS,
    CacheHit,
    CacheMiss,
    CompileEnd,
    DumpSink,
    Event,
    FusionDecision,
    GraphBreak,
    Recompile,
    Sink,
    events,
)

BREAK = GraphBreak("f", "unknown-call", "foo()", "not known", "remove it", Location("m.py", 3, "f"))


def _lines(folder: Path) -> list[list[dict[str, object]]]:
    return [[json.loads(line) for line in p.read_text().splitlines()] for p in sorted(folder.glob("*.jsonl"))]


def test_events_print_as_one_line_and_convert_to_json() -> None:
    end = CompileEnd("f", 1, float("inf"), stages=(("capture", 0.25),))
    assert json.loads(json.dumps(end.as_json(), allow_nan=False))["stages"] == [["capture", 0.25]]
    assert BREAK.as_json()["location"] == {"file": "m.py", "line": 3, "function": "f"}
    assert "m.py:3 in f" in str(BREAK) and "\n" not in str(dataclasses.replace(BREAK, context="a\nb"))


def test_all_events_are_frozen_and_listed() -> None:
    defined = {c for c in vars(events).values() if isinstance(c, type) and issubclass(c, Event) and c is not Event}
    assert set(EVENTS) == defined
    for kind in EVENTS:
        assert dataclasses.fields(kind) and "__dict__" not in dir(kind)
    with pytest.raises(dataclasses.FrozenInstanceError):
        BREAK.code = "other"  # type: ignore[misc]


def test_memory_is_bounded_and_ordered() -> None:
    sink = Sink(capacity=3)
    for k in range(5):
        sink.emit(CacheMiss(str(k)))
    assert [e.key for e in sink.of(CacheMiss)] == ["2", "3", "4"]
    assert sink.of(Recompile) == ()


def test_one_whole_line_for_each_event_from_many_threads(tmp_path: Path) -> None:
    sink = Sink(tmp_path / "deep" / "folder")
    barrier = threading.Barrier(4)

    def work(name: str) -> None:
        barrier.wait()
        for k in range(200):
            sink.emit(FusionDecision(name, "x" * 500, True, str(k)))

    threads = [threading.Thread(target=work, args=(str(t),)) for t in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    sink.close()
    (lines,) = _lines(tmp_path / "deep" / "folder")
    assert sorted((e["first"], int(str(e["reason"]))) for e in lines) == sorted(
        (str(t), k) for t in range(4) for k in range(200)
    )
    assert len({e["number"] for e in lines}) == 800


def test_a_forked_child_writes_its_own_file(tmp_path: Path) -> None:
    sink = Sink(tmp_path)
    sink.emit(CacheMiss("parent"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork under pytest-xdist's threads
        child = os.fork()
    if child == 0:
        sink.emit(CacheMiss("child"))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    sink.emit(CacheHit("parent", 3))
    files = {tuple(str(e["key"]) for e in lines): {e["process"] for e in lines} for lines in _lines(tmp_path)}
    assert files == {("parent", "parent"): {os.getpid()}, ("child",): {child}}


def test_an_unwritable_folder_is_one_warning_and_nothing_is_lost(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    sink = Sink(blocked / "below")
    with pytest.warns(UserWarning, match="BROADLOOM_TRACE") as caught:
        sink.emit(CacheMiss("a"))
        sink.emit(CacheMiss("b"))
    assert len(caught) == 1
    assert [e.key for e in sink.of(CacheMiss)] == ["a", "b"]


def test_a_full_disk_is_one_warning(tmp_path: Path) -> None:
    sink = Sink(tmp_path)
    sink._files[os.getpid()] = os.open("/dev/full", os.O_WRONLY)
    with pytest.warns(UserWarning, match="No space left") as caught:
        sink.emit(CacheMiss("a"))
        sink.emit(CacheMiss("b"))
    assert len(caught) == 1 and len(sink.events) == 2
    sink.close()


def test_chosen_topics_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    sink = Sink(logs=frozenset({"cache"}))
    sink.emit(CacheMiss("k"))
    sink.emit(BREAK)
    assert capsys.readouterr().err == "broadloom: cache: CacheMiss(key='k')\n"


def test_dumps_are_numbered_in_a_folder_of_their_own(tmp_path: Path) -> None:
    sink = DumpSink(tmp_path / "dumps")
    first, second = sink.begin("f"), sink.begin("f")
    odd = sink.begin("../../<lambda>")
    assert first and second and odd.folder is not None and odd.folder.parent == tmp_path / "dumps"
    assert first.write("capture", "graph", "graph f() {}") == tmp_path / "dumps" / "f.0" / "000_capture.graph"
    path = first.write("dead-code", "graph", "graph f() {}\n")
    assert path is not None and path.name == "001_dead-code.graph" and path.read_text() == "graph f() {}\n"
    assert second.folder == tmp_path / "dumps" / "f.1"
    assert not DumpSink(None).begin("f")


def test_dumps_that_cannot_be_written_are_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    sink = DumpSink(tmp_path / "file")
    with pytest.warns(UserWarning, match="BROADLOOM_DUMP") as caught:
        assert sink.begin("f").write("capture", "graph", "") is None
        assert sink.begin("g").write("capture", "graph", "") is None
    assert len(caught) == 1
    writable = DumpSink(tmp_path / "ok")
    dump = writable.begin("f")
    assert dump.folder is not None
    assert dump.arrays({}) is None and dump.arrays({"a": np.zeros(2)}) == dump.folder / "constants.npz"
    (dump.folder / "constants.npz").unlink()
    dump.folder.rmdir()
    with pytest.warns(UserWarning, match="BROADLOOM_DUMP"):
        assert dump.write("capture", "graph", "") is None
    removed = DumpSink(tmp_path / "ok").begin("f")
    assert removed.folder is not None
    removed.folder.rmdir()
    with pytest.warns(UserWarning, match="BROADLOOM_DUMP"):
        assert removed.arrays({"a": np.zeros(2)}) is None
