"""The command script: it explains itself and refuses what it does not know."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

DEV = Path(__file__).parent.parent / "dev"


def test_help_names_every_command() -> None:
    text = subprocess.check_output([DEV, "help"], text=True)
    assert all(f"  {command}" in text for command in ("demo", "test", "check", "bench", "help"))


def test_an_unknown_command_is_an_error() -> None:
    run = subprocess.run([DEV, "tset"], capture_output=True, text=True, check=False)
    assert run.returncode == 1 and "unknown command: tset" in run.stderr and "usage" in run.stderr


@pytest.mark.parametrize("python", ["/nowhere/python", "/bin/true"])
def test_an_unfit_interpreter_is_an_error(python: str, tmp_path: Path) -> None:
    copy = tmp_path / "dev"
    copy.write_bytes(DEV.read_bytes())
    environment = {"PYTHON": python, "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    run = subprocess.run(
        ["bash", copy, "check"], capture_output=True, text=True, check=False, env=environment, stdin=subprocess.DEVNULL
    )
    if python == "/nowhere/python":
        assert run.returncode == 1 and "is not CPython 3.11" in run.stderr
    else:
        assert run.returncode == 1 and "no working venv" in run.stderr  # a program that is no Python, but says yes
