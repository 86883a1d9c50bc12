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
def test_image_pipeline_is_one_kernel_without_workspace_and_one_power_for_each_byte(example, name):
    module = example("image_pipeline")
    photo = module.photographs()[name]
    compiled = bl.compile(module.enhance, fullgraph=True)
    got, want = compiled(photo).astype(int), module.enhance(photo).astype(int)
    # A last-place difference of the power may tip a pixel over a rounding boundary, rarely and by one.
    assert np.abs(got - want).max() <= 1 and (got != want).mean() < 1e-3
    report = compiled.report()
    assert len(report.kernels) == 1 and report.kernels[0].loops.startswith(f"({len(photo)}) x ")
    in_points = [(op, n) for k in report.kernels for op, n in k.counts if op in TRANSCENDENTAL]
    in_tables = [(k, entries, op, n) for k in report.kernels for entries, ops in k.tables for op, n in ops]
    powers = [(k, entries, n) for k, entries, op, n in in_tables if op in TRANSCENDENTAL]
    assert in_points == []
    assert [(entries, n) for _, entries, n in powers] == [(256, 1)]
    assert not report.allocations


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
    assert any(k.kind == "matmul" for k in report.kernels)
    label = bl.compile(module.assign, fullgraph=True)(points, centres)
    np.testing.assert_array_equal(label, module.assign(points, centres))


def eager_and_compiled(function, *arguments):
    """The results of a mapped function as it is and compiled, and the report."""
    compiled = bl.compile(function, fullgraph=True)
    return (function(*arguments), compiled(*arguments)), compiled.report()


@pytest.mark.every_python
def test_kalman_filter_of_many_objects_is_the_loop_over_them(example):
    kalman = example("kalman")
    measured, state, spread, position = kalman.objects(60, 6)
    want = np.stack([kalman.follow(*one) for one in zip(measured, state, spread, strict=True)])
    both, report = eager_and_compiled(kalman.follow_all, measured, state, spread)
    for got in both:
        assert got.dtype == want.dtype and got.shape == want.shape == (60, 6, 4)
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-11)
    error = [np.sqrt(np.mean((x - position) ** 2)) for x in (measured, want[..., :2])]
    assert error[1] < 0.9 * error[0]
    # One solution a step for all objects, and as many kernels as for one of them.
    assert sum(k.kind == "lanes_solve" for k in report.kernels) == 6
    alone = bl.explain(kalman.follow)(measured[0], state[0], spread[0]).kernels
    assert len(report.kernels) <= len(alone)


@pytest.mark.every_python
def test_american_puts_of_many_strikes_are_the_loop_over_them(example):
    module, european = example("american_options"), example("black_scholes")
    spot, strike, years, volatility = market = module.market(9, 7)
    assert strike.shape == (9, 1) and years.shape == (7,)
    want = np.vectorize(module.american_put.__wrapped__)(*market)
    both, report = eager_and_compiled(module.american_put, *market)
    for got in both:
        assert got.dtype == want.dtype and got.shape == want.shape == (9, 7)
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)
    assert len(report.kernels) <= module.STEPS + 2
    assert (want >= np.maximum(strike - spot, 0)).all()
    assert (want > european.price(spot, strike, years, volatility)[1] - 0.1).all()
    module.STEPS = 200  # many steps come near the price in continuous time: Hull's example gives 4.28 to 4.29
    module.RATE = 0.1
    assert float(module.american_put(50.0, 50.0, 5 / 12, 0.4)) == pytest.approx(4.283, abs=0.01)


def test_statistics_of_tiles_are_the_loop_over_them(example):
    module = example("image_statistics")
    x = module.tiles(example("image_pipeline").photographs()["china"], 64)
    assert x.shape == (6, 10, 64, 64, 3)
    rows = [[module.statistics(tile) for tile in row] for row in x]
    want = [np.array([[one[k] for one in row] for row in rows]) for k in range(5)]
    both, _ = eager_and_compiled(module.statistics_of_tiles, x)
    for got in both:
        for a, b in zip(got, want, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape == (6, 10)
            np.testing.assert_allclose(a, b, rtol=1e-5)


def test_statistics_of_images_that_are_known_by_hand(example):
    module = example("image_statistics")
    flat, halves = np.full((8, 8, 3), 100, np.uint8), np.zeros((8, 8, 3), np.uint8)
    halves[:, 4:] = 255
    for got in eager_and_compiled(bl.vmap(module.statistics), np.stack([flat, halves]))[0]:
        mean, deviation, contrast, edges, entropy = got
        np.testing.assert_allclose(mean, [100 / 255, 0.5], rtol=1e-6)
        np.testing.assert_allclose(deviation, [0, 0.5], atol=1e-7)
        np.testing.assert_allclose(contrast, [0, 1], atol=1e-7)
        np.testing.assert_allclose(edges, [0, 16 * 2 / 6], rtol=1e-6)  # the two columns beside the edge
        np.testing.assert_allclose(entropy, [0, 1], atol=1e-12)


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
    batched = ("Kalman, 50 objects", "American puts, 8x5", "statistics, 6x10 tiles")
    for row in ("Black-Scholes", "photograph china", "photograph flower", "heat", "k-means", *batched):
        assert row in done.stdout
    saved = {f.name for f in tmp_path.iterdir()}
    assert saved == {"china-before.png", "china-after.png", "flower-before.png", "flower-after.png", "heat.png"}
