"""What the documents say is so: the README's program runs, its variables exist, the rooms stand in their order."""

from __future__ import annotations

import dataclasses
import doctest
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

import broadloom as bl
from broadloom.options import VARIABLES, Options

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
LAYERS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]["layers"]


@pytest.mark.every_python
def test_the_program_in_the_readme_gives_numpy_s_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (source,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    file = tmp_path / "program.py"
    file.write_text(source.replace("10_000_000", "10_000"))
    names: dict[str, object] = {"__name__": "program"}
    exec(compile(file.read_text(), str(file), "exec"), names)
    gelu, x, y = names["gelu"], names["x"], names["y"]
    assert isinstance(gelu, bl.Compiled) and isinstance(x, np.ndarray) and isinstance(y, np.ndarray)
    assert gelu.report().breaks == () and len(gelu.report().kernels) == 1
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, gelu.__wrapped__(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("document", ["README.md", "docs/batching.md"])
def test_examples_in_documents_run(document: str) -> None:
    text = "\n".join(re.findall(r"```pycon\n(.*?)```", (ROOT / document).read_text(), re.DOTALL))
    examples = doctest.DocTestParser().get_doctest(text, {}, document, document, 0)
    assert examples.examples and doctest.DocTestRunner().run(examples).failed == 0


def test_the_readme_names_every_variable() -> None:
    assert set(re.findall(r"`(BROADLOOM_\w+)", README)) == set(VARIABLES)


def test_the_readme_names_every_option_with_its_default() -> None:
    defaults = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", README, re.MULTILINE))
    for field in dataclasses.fields(Options):
        assert f"`{field.name}`" in README, field.name
        if isinstance(field.default, bool | int | float):
            assert float(defaults[field.name].strip("`").replace("True", "1").replace("False", "0")) == field.default


def test_the_rooms_of_the_architecture_are_those_that_are_checked() -> None:
    rooms = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE)
    assert rooms == [layer.strip("()") for layer in reversed(LAYERS)]


def test_the_first_difference_is_the_one_that_surprises_most() -> None:
    lines = (ROOT / "docs" / "differences.md").read_text().splitlines()
    assert lines[2] == "Floating-point warnings and `np.errstate` are not honoured in compiled code."
