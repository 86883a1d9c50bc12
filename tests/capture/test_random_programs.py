"""Random programs as Python text: statements with views, writes in place, aliases, loops, branches on sizes and
floats, helpers and containers. Each is captured whole and equals the plain function in values, types, identities,
shared memory and changes of its arguments."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from broadloom.capture.binding import frame_of
from broadloom.capture.breaks import CaptureBreak
from broadloom.capture.capture import capture
from broadloom.capture.context import Policy

ROWS, COLUMNS = 3, 4


def helper(a: Any, b: Any = 2, *, bump: bool = False) -> Any:
    if bump:
        a += 1
    return a * b


class Cell:
    def __init__(self, value: Any) -> None:
        self.value = value

    def get(self) -> Any:
        return self.value


@st.composite
def programs(draw: st.DrawFn) -> str:
    """The text of `def program(x, y, f, n)`: x of (3, 4) floats, y of (4,) ints, f a float, n an int."""
    matrices, vectors, numbers = ["x"], ["y", "x[0]"], ["f", "n"]
    lines: list[str] = []
    fresh = 0

    def name() -> str:
        nonlocal fresh
        fresh += 1
        return f"v{fresh}"

    for _ in range(draw(st.integers(1, 9))):
        m, other = draw(st.sampled_from(matrices)), draw(st.sampled_from(matrices))
        v, number = draw(st.sampled_from(vectors)), draw(st.sampled_from(numbers))
        new, i = name(), draw(st.integers(-3, 2))
        kind = draw(st.integers(0, 24))
        if kind == 0:
            lines.append(f"{new} = {m} + {other} * {number}")
            matrices.append(new)
        elif kind == 1:
            lines.append(f"{new} = {m}[{i}]")
            vectors.append(new)
        elif kind == 2:
            lines.append(f"{new} = {m}[::-1]")
            matrices.append(new)
        elif kind == 3:
            lines.append(f"{m}[{i}] = {v}")
        elif kind == 4:
            lines.append(f"{m}[:, 1:3] += {number}")
        elif kind == 5:
            lines.append(f"{m} += {other}" if m != "x[0]" else "pass")
        elif kind == 6:
            lines.append(f"{new} = {m}")
            matrices.append(new)
        elif kind == 7:
            lines.append(f"{new} = {m}.T.reshape(3, 4)")
            matrices.append(new)
        elif kind == 8:
            lines.append(f"{new} = {m}.reshape(-1)[:4]")
            vectors.append(new)
        elif kind == 9:
            lines.append(f"{new} = float({m}[{i}, 1])")
            numbers.append(new)
        elif kind == 10:
            lines.append(f"{new} = {m}.sum()")
            numbers.append(new)
        elif kind == 11:
            lines.append(f"for i, row in enumerate({m}):\n        row -= i")
        elif kind == 12:
            lines.append(f"{new} = helper({m}, bump={draw(st.booleans())})")
            matrices.append(new)
        elif kind == 13:
            lines.append(f"{new} = [{m}, {other}][{draw(st.integers(-2, 1))}]")
            matrices.append(new)
        elif kind == 14:
            lines.append(f"{new} = {m} if f > {draw(st.sampled_from(['0', '1.5', 'n']))} else {other} + 0")
            matrices.append(new)
        elif kind == 15:
            lines.append(f"{new} = {m} * 1 if {m}.shape[0] > 2 else {other}")
            matrices.append(new)
        elif kind == 16:
            lines.append(f"{new} = Cell({m}).get()")
            matrices.append(new)
        elif kind == 17:
            lines.append(f"{new} = np.concatenate([{m}[:1], {other}[1:]])")
            matrices.append(new)
        elif kind == 18:
            lines.append(f"np.multiply({m}, {number}, out={other})")
        elif kind == 19:
            lines.append(f"{m}[{m} > 3] -= 2")
        elif kind == 20:
            lines.append(f"{new} = f * {draw(st.integers(1, 3))} + len({m})")
            numbers.append(new)
        elif kind == 21:
            lines.append(f"{new} = sum(r * k for k, r in enumerate({m}))")
            vectors.append(new)
        elif kind == 22:
            lines.append(f"{new} = {v}[1:].max() + {v}[::2].min()")
            numbers.append(new)
        elif kind == 23:
            lines.append(f"{new} = {m}.astype(np.float32)")
            matrices.append(new)
        else:
            lines.append(f"{m}[1:] = {m}[:-1]")
    result = ", ".join([*matrices[-3:], *vectors[-2:], *numbers[-2:]])
    body = "\n".join(f"    {line}" for line in lines)
    return f"def program(x, y, f, n):\n{body}\n    return {result}, [{matrices[-1]}]\n"


def compiled(text: str) -> Callable[..., Any]:
    """The function that the text defines, with its lines known to tracebacks."""
    file = f"<program {hash(text)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {"np": np, "helper": helper, "Cell": Cell}
    exec(compile(text, file, "exec"), space)
    program: Callable[..., Any] = space["program"]
    return program


def arguments(layout: str, rows: int = ROWS, columns: int = COLUMNS, f: float = 1.5, n: int = 2) -> tuple[Any, ...]:
    x = np.arange(float(rows * columns)).reshape(rows, columns) - 5
    if layout == "F":
        x = np.asfortranarray(x)
    elif layout == "strided":
        x = np.repeat(x, 2, axis=1)[:, ::2]
    return x, np.arange(columns), f, n


@settings(max_examples=120, deadline=None)
@given(text=programs(), layout=st.sampled_from(["C", "F", "strided"]), dynamic=st.booleans())
def test_random_programs(harness: Any, text: str, layout: str, dynamic: bool) -> None:
    program = compiled(text)
    try:
        program(*arguments(layout))
    except (ValueError, TypeError) as error:  # NumPy rejects some programs: then so must capture
        assert harness.refused(program, *arguments(layout), policy=Policy(dynamic)), error
        return
    harness.check(program, lambda: arguments(layout), Policy(dynamic))


OTHERS = [
    (layout, rows, columns, f, n)
    for layout in ("C", "F", "strided")
    for rows, columns in ((3, 4), (5, 4), (3, 6), (1, 4), (3, 1), (0, 4), (4, 4), (1, 1))
    for f, n in ((1.5, 2), (-2.0, 5), (float("nan"), -3))
]


@settings(max_examples=25, deadline=None)
@given(
    text=programs(),
    layout=st.sampled_from(["C", "F", "strided"]),
    start=st.sampled_from([(3, 4), (1, 4), (3, 1), (4, 4)]),
    n=st.sampled_from([2, 0, -1]),
)
def test_guards_admit_only_what_is_right(harness: Any, text: str, layout: str, start: tuple[int, int], n: int) -> None:
    """One capture with symbolic sizes, then every other call that its guards let through. Strides are left out: where
    an axis has one element, NumPy's choice of the order of a result varies with the size."""
    program = compiled(text)
    try:
        captured = capture(program, arguments(layout, *start, n=n), {}, Policy(True))
    except CaptureBreak:
        return
    for other in OTHERS:
        if captured.check(frame_of(program, arguments(*other), {})) is None:
            harness.check(program, lambda other=other: arguments(*other), captured=captured, strides=False)
