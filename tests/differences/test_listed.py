"""Every difference that is listed has a test that shows it, and every such test shows a difference that is listed."""

from __future__ import annotations

import ast
from pathlib import Path

FOLDER = Path(__file__).parent
LIST = FOLDER.parents[1] / "docs" / "differences.md"


def statements(text: str) -> list[str]:
    """The bullets and paragraphs of a document, each on one line, without headings."""
    blocks: list[str] = []
    for line in text.splitlines():
        if line.startswith("- "):
            blocks.append(line[2:])
        elif not line or line.startswith("#"):
            blocks.append("")
        else:
            blocks[-1] = f"{blocks[-1]} {line.strip()}".strip()
    return [b for b in blocks if b]


def shown() -> set[str]:
    """The first words that stand in `pytest.mark.difference(...)` of this folder."""
    found = set()
    for file in FOLDER.glob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.difference":
                found.add(ast.literal_eval(node.args[0]))
    return found


def test_statements_are_told_apart() -> None:
    assert statements("# t\n\nA b\nc.\n\n- d\n  e\n- f\n") == ["A b c.", "d e", "f"]


def test_every_listed_difference_is_shown_by_a_test() -> None:
    listed, firsts = statements(LIST.read_text()), shown()
    assert [s for s in listed if not any(s.startswith(first) for first in firsts)] == []
    assert {first for first in firsts if sum(s.startswith(first) for s in listed) != 1} == set()
