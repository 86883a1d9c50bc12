"""Text cases: IR in, pass pipeline, IR out.

A case file holds one or more cases:

    %% case what it shows
    %% pipeline dead-code,fold-constants{limit=4}
    graph f { ... }
    %% expect
    graph f { ... }

Lines before the first `%%` are comments. Each directive stands once a case, in this order; any other word after `%%`
is an error that names the line. `rewrite` puts new expectations into the file and leaves the rest as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

DIRECTIVES = ("case", "pipeline", "expect")


class CaseError(Exception):
    """A case file is malformed."""


@dataclass(frozen=True)
class Case:
    """One case; `first` and `end` are the lines of the expected text, for rewriting."""

    title: str
    pipeline: str
    given: str
    expected: str
    first: int
    end: int


def read(text: str, name: str = "case file") -> list[Case]:
    """The cases of a file. Raises `CaseError` with the line of the first mistake."""
    lines = text.splitlines()
    marks: list[tuple[int, str, str]] = []
    for k, line in enumerate(lines):
        if not line.lstrip().startswith("%%"):
            continue
        found = re.fullmatch(r"%% (\w+)(?: (.*\S))?\s*", line)
        expected = DIRECTIVES[len(marks) % len(DIRECTIVES)]
        if found is None or found[1] != expected:
            raise CaseError(f"{name}:{k + 1}: expected '%% {expected}', got {line!r}")
        if (found[2] is None) != (expected == "expect"):
            raise CaseError(f"{name}:{k + 1}: '%% {expected}' {'takes no' if found[2] else 'needs a'} text")
        marks.append((k, found[1], found[2] or ""))
    if not marks or len(marks) % len(DIRECTIVES):
        raise CaseError(f"{name}: the last case lacks '%% {DIRECTIVES[len(marks) % len(DIRECTIVES)]}'")
    ends = [k for k, _, _ in marks[3::3]] + [len(lines)]
    cases = []
    for (_, _, title), (start, _, pipeline), (middle, _, _), end in zip(
        marks[::3], marks[1::3], marks[2::3], ends, strict=True
    ):
        given, expected_text = "\n".join(lines[start + 1 : middle]), "\n".join(lines[middle + 1 : end])
        cases.append(Case(title, pipeline, given, expected_text.strip(), middle + 1, end))
    return cases


def rewrite(text: str, results: dict[int, str]) -> str:
    """The file with new expected texts, by number of the case."""
    cases = read(text)
    lines = text.splitlines()
    for number in sorted(results, reverse=True):
        case = cases[number]
        blank = [""] if case.end < len(lines) else []
        lines[case.first : case.end] = [*results[number].splitlines(), *blank]
    return "\n".join(lines) + "\n"


def files(folder: Path) -> list[Path]:
    """The case files of a folder."""
    return sorted(folder.glob("*.case"))
