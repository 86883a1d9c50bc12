"""The shared fixtures: a run can be repeated from the seed it prints."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PROBE = """
import hypothesis, hypothesis.strategies as st
drawn = []
def test_draw(rng):
    print("numpy", rng.integers(1 << 60))
@hypothesis.given(st.integers(0, 1 << 60))
def test_hypothesis(n):
    drawn.append(n)
def test_show():
    print("hypothesis", hash(tuple(drawn)))
"""


def _run(folder: Path, *options: str) -> tuple[list[str], str]:
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-s",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            str(folder),
            str(folder),
            *options,
        ],
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    shown = [word for word in run.stdout.replace(".", " ").split("\n") if "numpy" in word or "hypothesis 1" in word]
    return shown, run.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text((Path(__file__).parent / "conftest.py").read_text())
    (tmp_path / "test_probe.py").write_text(PROBE)
    return tmp_path


def test_a_run_repeats_from_its_seed_and_the_seed_rotates(folder: Path) -> None:
    first, text = _run(folder)
    printed = text.split("broadloom seed: ")[1].split()[0]
    again, _ = _run(folder, "--seed", printed)
    other, _ = _run(folder)
    assert first == again != other


def test_tests_have_their_own_cache_and_no_options_of_the_user() -> None:
    assert [v for v in os.environ if v.startswith("BROADLOOM_")] == ["BROADLOOM_CACHE_DIR"]
    assert "broadloom-tests-" in os.environ["BROADLOOM_CACHE_DIR"]


def test_seeds_differ_between_tests(seed: int, rng: np.random.Generator) -> None:
    assert rng.integers(1 << 60) == np.random.default_rng(seed).integers(1 << 60)
