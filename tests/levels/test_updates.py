"""Random functions that store into joins, copies and views, and read the parts again, give what the plain ones give: at
every size of their arguments, with sizes that are constants, symbols, or become symbols; and no byte beside an array is
written."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import broadloom as bl
from tests import red_zones
from tests.levels.comparing import clones, relations, seen
from tests.levels.updates import Updates, random_sizes


def random_updates(seed: int, lines: int) -> Updates:
    """The function after so many attempts at a line."""
    rng = random.Random(seed)
    source = Updates(rng, random_sizes(rng))
    for _ in range(lines):
        source.add_line()
    source.add_read()
    source.add_read()
    return source


def differences(text: str, worlds: Sequence[Sequence[Any]], **how: Any) -> list[str]:
    """What a caller sees differ between the plain function and the compiled one, at each of these arguments. Where one
    has no elements, values alone count: NumPy's memory order may follow the strides that it has, and a view may be a
    fresh array."""
    scope: dict[str, Any] = {"np": np}
    exec(compile(text, "<random function>", "exec"), scope)
    f, found = bl.compile(scope["f"], **how), []
    for arguments in worlds:
        plain, compiled = clones(list(arguments)), clones(list(arguments))
        with np.errstate(all="ignore"):
            want, got = list(scope["f"](*plain)), list(f(*compiled))
        red_zones.check()
        shapes = [x.shape for x in arguments]
        whole = all(x.size for x in arguments)
        for k, (a, b) in enumerate(zip([*got, *compiled], [*want, *plain], strict=True)):
            if seen(a, layout=whole) != seen(b, layout=whole):
                place = f"result {k}" if k < len(got) else f"argument {k - len(got)} afterwards"
                found.append(f"{shapes}: {place}: {seen(a)[:5]} {a} instead of {seen(b)[:5]} {b}")
        if whole and relations([*got, *compiled]) != relations([*want, *plain]):
            found.append(f"{shapes}: what shares memory with what")
    return found


@pytest.mark.filterwarnings("ignore")  # a break is as good: then the plain function runs
@settings(max_examples=settings.default.max_examples // 4)  # of those that a daily or a full run has
@given(st.integers(0, 2**32), st.integers(4, 14), st.sampled_from([None, True, False]))
def test_compiled_updates_are_the_plain_ones(seed: int, lines: int, dynamic: bool | None) -> None:
    source = random_updates(seed, lines)
    text = source.text()
    assert not differences(text, [w.arguments for w in source.worlds], dynamic=dynamic), text
