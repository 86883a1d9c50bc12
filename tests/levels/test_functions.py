"""Random NumPy functions give, compiled, what they give plain: values, types, strides, flags, shared memory, identity,
and what they did to their arguments - some of which are, or overlap, each other."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import broadloom as bl
from tests.levels.comparing import clones, relations, seen
from tests.levels.sources import HalfDone, Source


def random_source(seed: int, lines: int) -> tuple[str, list[np.ndarray]]:
    """The text of a function and its arguments."""
    source = Source(random.Random(seed))
    for _ in range(source.rng.randint(1, 3)):
        source.add_argument()
    initial = clones(source.arguments)
    try:
        for _ in range(lines):
            source.add_line()
    except HalfDone:
        assume(False)
    names = sorted(source.names)
    return source.text(source.rng.sample(names, min(len(names), 4))), initial


@pytest.mark.filterwarnings("ignore")  # a break is as good: then the plain function runs
@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(1, 7))
def test_compiled_functions_are_the_plain_ones(seed: int, lines: int) -> None:
    text, arguments = random_source(seed, lines)
    scope: dict[str, Any] = {"np": np}
    exec(compile(text, "<random function>", "exec"), scope)
    plain, compiled = clones(arguments), clones(arguments)
    with np.errstate(all="ignore"):
        expected = list(scope["f"](*plain))
        got = list(bl.compile(scope["f"])(*compiled))
    assert [*map(seen, (*got, *compiled))] == [*map(seen, (*expected, *plain))], text
    assert relations([*got, *compiled]) == relations([*expected, *plain]), text
