"""What the code must not hold: notes of work left over, handlers that catch everything, documents nobody is led to."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("broadloom", "tests", "examples", "benchmarks", "tools", "docs", ".ci")
TEXTS = [ROOT / "README.md", ROOT / "dev", ROOT / "pyproject.toml"]
TEXTS += [f for folder in FOLDERS for f in sorted((ROOT / folder).rglob("*")) if f.suffix in (".py", ".ll", ".md", "")]
PACKAGE = sorted((ROOT / "broadloom").rglob("*.py"))
LEFT_OVER = re.compile(r"\b(?:TO[D]O|FIX[M]E|X[X]X)\b")
# the one place where whatever an optional road raises gives way to the plain function
FALLBACK = "broadloom/compiler/compiled.py"


def test_no_notes_of_work_left_over() -> None:
    found = [f"{f}: {m.group()}" for f in TEXTS if f.is_file() for m in LEFT_OVER.finditer(f.read_text())]
    assert found == []


def catching_everything(tree: ast.Module) -> Iterator[ast.ExceptHandler]:
    """The handlers that catch every exception and do not end by raising it again."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            broad = any(k is None or ast.unparse(k) in ("Exception", "BaseException") for k in kinds)
            last = node.body[-1]
            if broad and not (isinstance(last, ast.Raise) and last.exc is None):
                yield node


@pytest.mark.parametrize(
    ("handler", "count"),
    [("except:", 1), ("except Exception as e:", 1), ("except (OSError, BaseException):", 1), ("except ValueError:", 0)],
)
def test_handlers_that_catch_everything_are_found(handler: str, count: int) -> None:
    for body, expected in (("return", count), ("raise", 0)):
        tree = ast.parse(f"def f():\n    try:\n        g()\n    {handler}\n        {body}\n")
        assert len(list(catching_everything(tree))) == expected


def test_only_the_fallback_catches_everything() -> None:
    found = [
        f.relative_to(ROOT).as_posix() for f in PACKAGE for _ in catching_everything(ast.parse(f.read_text(), str(f)))
    ]
    assert found == [FALLBACK]


def test_every_document_is_linked() -> None:
    pages = {f.name for f in (ROOT / "docs").glob("*.md")}
    text = "".join(f.read_text() for f in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")))
    linked = {target.rpartition("/")[2] for target in re.findall(r"\]\(([^)#]+\.md)\)", text)}
    assert linked == pages
