"""Runs the case files of this folder; `--update` rewrites what they expect."""

from __future__ import annotations

from pathlib import Path

import pytest

from broadloom.graph.manager import parse_pipeline
from broadloom.graph.parse import parse
from broadloom.passes.table import PASSES
from tests.passes.cases import CaseError, files, read, rewrite

FOLDER = Path(__file__).parent
CASES = [
    pytest.param(path, number, id=f"{path.stem}: {case.title}")
    for path in files(FOLDER)
    for number, case in enumerate(read(path.read_text(), path.name))
]


@pytest.mark.parametrize(("path", "number"), CASES)
def test_case(path: Path, number: int, request: pytest.FixtureRequest) -> None:
    text = path.read_text()
    case = read(text, path.name)[number]
    result = str(parse_pipeline(case.pipeline, PASSES).run(parse(case.given)))
    if request.config.getoption("--update") and result != case.expected:
        path.write_text(rewrite(text, {number: result}))
    else:
        assert result == case.expected, "run with --update to accept"


def test_every_pass_has_a_case_file() -> None:
    assert {p.stem.replace("_", "-") for p in files(FOLDER)} >= set(PASSES)


GOOD = "about\n%% case a\n%% pipeline dead-code\ngiven\n%% expect\nold\n\n%% case b\n%% pipeline x\ng\n%% expect\nold\n"


def test_rewriting_changes_the_expected_text_alone() -> None:
    assert rewrite(GOOD, {0: "new", 1: "newer"}) == GOOD.replace("old\n\n", "new\n\n").replace("old\n", "newer\n")
    assert rewrite(GOOD, {}) == GOOD


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("%% expect", "%% expcet", "case file:5: expected '%% expect'"),
        ("%% pipeline dead-code", "%% pipelines dead-code", "case file:3"),
        ("%% pipeline dead-code", "%% pipeline", "case file:3.*needs a text"),
        ("%% expect", "%%expect", "case file:5"),
        ("%% expect", "  %% expect", "case file:5"),
        ("%% case a\n", "", "case file:2: expected '%% case'"),
        ("%% expect\nold\n\n", "", "case file:5: expected '%% expect'"),
    ],
)
def test_mistyped_directives_fail(old: str, new: str, message: str) -> None:
    with pytest.raises(CaseError, match=message):
        read(GOOD.replace(old, new, 1))
