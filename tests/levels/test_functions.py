"""Random NumPy functions give, compiled, what they give plain: values, types, strides, flags, shared memory, identity,
and what they did to their arguments - some of which are, or overlap, each other."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import broadloom as bl
from tests.levels.sources import HalfDone, Source


def clones(arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Copies that share memory, and are one object, where the originals do."""
    bases: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    made: dict[int, np.ndarray] = {}
    for x in arrays:
        base = x
        while isinstance(base.base, np.ndarray):
            base = base.base
        _, memory = bases.setdefault(id(base), (base, base.copy(order="K")))
        offset = x.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        made.setdefault(id(x), np.ndarray(x.shape, x.dtype, memory, offset, x.strides))
    return [made[id(x)] for x in arrays]


def seen(value: Any) -> Any:
    """All that can be seen of a result; nans are alike, strides of one-element axes do not count."""
    if not isinstance(value, np.ndarray | np.generic):
        return type(value), value
    x = np.asarray(value)
    data = np.where(np.isnan(x), np.nan, x).tobytes() if x.dtype.kind in "fc" else x.tobytes()
    strides = [s for s, n in zip(x.strides, x.shape, strict=True) if n > 1] if x.size else None
    writeable = isinstance(value, np.ndarray) and value.flags.writeable
    return type(value), x.dtype, x.shape, strides, writeable, data


def relations(values: list[Any]) -> list[tuple[bool, bool]]:
    """Identity and shared memory of each pair of arrays."""
    arrays = [v for v in values if isinstance(v, np.ndarray)]
    return [(a is b, np.shares_memory(a, b)) for a, b in itertools.combinations(arrays, 2)]


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
