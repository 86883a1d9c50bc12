"""Functions of one byte in compiled functions: the same on any number of threads, and told in the report."""

from __future__ import annotations

import numpy as np
import pytest

import broadloom as bl
from broadloom.compiler.api import default_sink
from broadloom.trace import TableDecision


def tone(x, gamma):
    return (x.astype(np.float32) / 255) ** gamma


@pytest.fixture
def photo(rng):
    return rng.integers(0, 256, (777, 501), dtype=np.uint8)


def direct(photo, gamma):
    """Each byte's value as the points of a small array get it, where no table pays."""
    bytes_ = np.arange(256, dtype=np.uint8)
    compiled = bl.compile(tone, fullgraph=True)
    values = compiled(bytes_, gamma)
    assert not any(k.tables for k in compiled.report().kernels)
    return values[photo]


def test_any_number_of_threads_gives_the_bits_of_direct_evaluation(photo):
    want = direct(photo, np.float32(0.8))
    for threads in (1, 2, 3, 8):
        compiled = bl.compile(tone, fullgraph=True, options={"num_threads": threads})
        assert compiled(photo, np.float32(0.8)).tobytes() == want.tobytes()
        assert any(k.tables for k in compiled.report().kernels)
        # Another exponent is another table in the same code.
        assert compiled(photo, np.float32(-1.3)).tobytes() == direct(photo, np.float32(-1.3)).tobytes()
        assert len(compiled.report().compiles) == 1


def test_the_report_counts_what_is_evaluated(photo):
    for _ in range(2):  # the second time, the facts come from the object cache
        compiled = bl.compile(tone, fullgraph=True)
        compiled(photo, np.float32(0.8))
        report = compiled.report()
        (kernel,) = report.kernels
        assert kernel.counts == ()
        assert kernel.tables == ((256, (("cast", 1), ("divide", 1), ("pow", 1))),)
        assert "a table of 256 entries of cast+divide+pow" in str(kernel)
        (decision,) = report.tables
        assert "cast+divide+pow of uint8: in a table, 256 entries for 389277 points" in str(decision)
        assert str(decision) in str(report)
    assert report.compiles[0].cache == "hit"


def softened(x, gamma):
    """Whose rows, where they are long, are made in strips, with ends that depend on the strip."""
    t = np.pad(tone(x, gamma), 1, mode="edge")
    rows = (t[:-2] + 2 * t[1:-1] + t[2:]) / 4
    return (rows[:, :-2] + 2 * rows[:, 1:-1] + rows[:, 2:]) / 4


@pytest.mark.parametrize("function", [tone, softened])
def test_code_without_the_table_is_made_where_the_call_has_to_choose(function, tmp_path, rng):
    photo, gamma = rng.integers(0, 256, (60, 20_000), dtype=np.uint8), np.float32(0.8)
    for dynamic, kernels in ((False, 1), (True, 2)):
        options = {"dump_dir": tmp_path / str(dynamic), "use_cache": False}
        compiled = bl.compile(function, fullgraph=True, dynamic=dynamic, options=options)
        np.testing.assert_allclose(compiled(photo, gamma), function(photo, gamma), rtol=1e-5)
        (text,) = (p.read_text() for p in options["dump_dir"].rglob("*_module.ll"))
        assert compiled.report().kernels[0].tables and len(compiled.report().kernels) == 1
        assert text.count("define internal i32 @kernel.") == kernels


def test_dump_and_trace_tell_the_decision(photo, tmp_path):
    options = {"dump_dir": tmp_path, "use_cache": False}
    bl.compile(tone, fullgraph=True, options=options)(photo, np.float32(0.8))
    (text,) = (p.read_text() for p in tmp_path.rglob("*fusion*"))
    assert "in a table, 256 entries" in text
    assert any("table table0 byte: [0, 255] uint8 -> float32" in p.read_text() for p in tmp_path.rglob("*.loops"))
    event = default_sink().of(TableDecision)[-1]
    assert event.tabulated and event.function == "cast+divide+pow of uint8"


def test_arrays_that_are_written_in_place(photo, rng):
    def brighten(out, x, scale):
        out *= np.sin(x.astype(np.float32) * scale)
        x[:] = np.sin(x.astype(np.float32)) * 100

    out, x, scale = rng.random(photo.shape, np.float32), photo.copy(), np.array(0.01, np.float32)
    want_out, want_x = out.copy(), photo.copy()
    want_out *= np.sin(want_x.astype(np.float32) * scale)
    want_x[:] = np.sin(want_x.astype(np.float32)) * 100
    compiled = bl.compile(brighten, fullgraph=True)
    compiled(out, x, scale)
    np.testing.assert_allclose(out, want_out, rtol=1e-5, atol=1e-6)
    assert np.abs(x.astype(int) - want_x).max() <= 1
    assert any(k.tables for k in compiled.report().kernels)
