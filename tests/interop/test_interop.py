"""Every function that docs/interop.md lists is called on tensors and gives what it gives for arrays."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "interop.md").read_text()
CLIENTS = ("scipy", "sklearn", "small")
ROW = re.compile(r"^\| `([\w.]+)` \| (.*) \|$", re.MULTILINE)


def listed() -> dict[tuple[str, str, str], None]:
    """(what is given, module, function) of each name in the tables, which stand under one heading for each kind."""
    found = {}
    for kind, heading in (
        ("tensors", "## Tensors in, tensors out"),
        ("arrays", "## Tensors in, arrays and numbers out"),
    ):
        section = TEXT.partition(heading)[2].partition("\n## ")[0]
        for module, names in ROW.findall(section):
            found.update({(kind, module, name): None for name in re.findall(r"`([\w.]+)`", names)})
    return found


@cache
def outcomes(client: str) -> dict[tuple[str, str, str], str]:
    """What each call of a client gives, in a process of its own: SciPy reads its setting when it is imported."""
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    command = [sys.executable, "-m", "tests.interop", client]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {
        (kind, module, name): outcome
        for kind, table in json.loads(done.stdout).items()
        for module, calls in table.items()
        for name, outcome in calls.items()
    }


def client_of(module: str) -> str:
    return module.partition(".")[0] if module.startswith(("scipy", "sklearn")) else "small"


def test_the_page_lists_what_is_called() -> None:
    called = {key for client in CLIENTS for key in outcomes(client)}
    assert set(listed()) == called


@pytest.mark.parametrize("key", listed(), ids=lambda key: ".".join(key[1:]))
def test_listed_function(key: tuple[str, str, str]) -> None:
    assert outcomes(client_of(key[1]))[key] == key[0]
