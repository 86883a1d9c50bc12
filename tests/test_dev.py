"""The command script: it explains itself and refuses what it does not know."""

from __future__ import annotations

import subprocess
from pathlib import Path

DEV = Path(__file__).parent.parent / "dev"


def test_help_names_every_command() -> None:
    text = subprocess.check_output([DEV, "help"], text=True)
    assert all(f"  {command}" in text for command in ("demo", "test", "check", "bench", "help"))


def test_an_unknown_command_is_an_error() -> None:
    run = subprocess.run([DEV, "tset"], capture_output=True, text=True, check=False)
    assert run.returncode == 1 and "unknown command: tset" in run.stderr and "usage" in run.stderr


def test_an_unfit_interpreter_is_an_error(tmp_path: Path) -> None:
    environment = {"PYTHON": "/bin/true", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    for python, said in (("/nowhere/python", "is not CPython 3.11"), ("/bin/false", "is not CPython 3.11")):
        environment["PYTHON"] = python
        run = subprocess.run([DEV, "check"], capture_output=True, text=True, check=False, env=environment)
        assert run.returncode == 1 and said in run.stderr
