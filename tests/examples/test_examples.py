"""The examples: NumPy's answers, and as few kernels, buffers and transcendentals as they promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import broadloom as bl

FOLDER = Path(__file__).parents[2] / "examples"
TRANSCENDENTAL = {"exp", "log", "pow", "erf", "sin", "cos", "tanh", "sqrt"}


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return __import__


def compiled_and_checked(function, *arguments, **tolerance):
    compiled = bl.compile(function, fullgraph=True)
    got, want = compiled(*arguments), function(*arguments)
    for a, b in zip(*((r if isinstance(r, tuple) else (r,)) for r in (got, want)), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, **tolerance)
    return compiled.report()


@pytest.mark.every_python
def test_black_scholes_is_one_kernel_without_a_buffer(example):
    module = example("black_scholes")
    report = compiled_and_checked(module.price, *module.options(10_000), rtol=1e-10, atol=1e-11)
    (kernel,) = report.kernels
    assert report.allocations == ()
    assert set(kernel.stores) == {"out0", "out1"}
    counts = dict(kernel.counts)
    assert counts["log"] == 1 and counts["sqrt"] == 1 and counts["exp"] == 1
    assert counts["erf"] == 2


@pytest.mark.parametrize("name", ["china", "flower"])
def test_image_pipeline_is_three_kernels_and_one_power_for_each_byte(example, name):
    module = example("image_pipeline")
    photo = module.photographs()[name]
    compiled = bl.compile(module.enhance, fullgraph=True)
    got, want = compiled(photo).astype(int), module.enhance(photo).astype(int)
    # A last-place difference of the power may tip a pixel over a rounding boundary, rarely and by one.
    assert np.abs(got - want).max() <= 1 and (got != want).mean() < 1e-3
    report = compiled.report()
    assert len(report.kernels) <= 3
    rows, columns, channels = photo.shape
    in_points = [(op, n) for k in report.kernels for op, n in k.counts if op in TRANSCENDENTAL]
    in_tables = [(k, entries, op, n) for k in report.kernels for entries, ops in k.tables for op, n in ops]
    powers = [(k, entries, n) for k, entries, op, n in in_tables if op in TRANSCENDENTAL]
    assert in_points == []
    assert [(entries, n) for _, entries, n in powers] == [(256, 1)]
    assert powers[0][0].loops in (f"({rows}, {columns * channels})", f"({rows * columns * channels})")
    assert len(report.allocations) == 1


@pytest.mark.every_python
def test_heat_steps_are_numpys_to_the_bit(example):
    module = example("heat")
    report = compiled_and_checked(module.advance, module.plate(64), rtol=0, atol=0)
    assert len(report.kernels) <= 2 * module.STEPS


def test_a_heat_step_stores_each_element_once(example):
    """Per step one kernel over the interior, which reads the field before it and writes the field after it."""
    heat = example("heat")
    compiled = bl.compile(heat.advance)
    compiled(heat.plate(300))
    steps = [k for k in compiled.report().kernels if "multiply" in k.ops]
    assert len(steps) == heat.STEPS
    assert all(len([b for b in k.loads if b != "in1"]) == 1 for k in steps[1:]), steps
    assert all(len(k.stores) == 1 for k in steps[1:]), steps


def test_kmeans_step(example):
    module = example("kmeans")
    points, centres = module.digits()
    report = compiled_and_checked(module.kmeans_step, points, centres, rtol=1e-12)
    assert any(k.kind == "gemm" for k in report.kernels)
    label = bl.compile(module.assign, fullgraph=True)(points, centres)
    np.testing.assert_array_equal(label, module.assign(points, centres))


def test_demo_prints_its_table_and_saves_pictures(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "broadloom.cli", "demo", "--quick", "--out", str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        cwd=FOLDER.parent,
    )
    assert done.returncode == 0, done.stderr
    for row in ("Black-Scholes", "photograph china", "photograph flower", "heat", "k-means"):
        assert row in done.stdout
    saved = {f.name for f in tmp_path.iterdir()}
    assert saved == {"china-before.png", "china-after.png", "flower-before.png", "flower-after.png", "heat.png"}
