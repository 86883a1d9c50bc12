"""Random programs of views and writes, mapped: on every road the stack of what a loop over the examples gives, the
same writes to the arguments, and results that share memory with nothing - or a refusal by name."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from broadloom.errors import GraphBreakError, TransformError
from tests.levels.sources import HalfDone, Source
from tests.transforms.roads import ROADS, assert_equal, looped

REFUSALS = (TransformError, GraphBreakError)
# Of a read-only array NumPy's own error is as good.
RAISES = (ValueError, TypeError, IndexError)


def source_of(seed: int, lines: int) -> tuple[str, list[np.ndarray]]:
    """The text of a function of arrays that are apart, and examples of its arguments."""
    source = Source(random.Random(seed))
    for k in range(source.rng.randint(1, 3)):
        source.add_argument()
        source.arguments[k] = source.names[f"x{k}"] = source.arguments[k].copy()
    examples = [x.copy() for x in source.arguments]
    try:
        for _ in range(lines):
            source.add_line()
    except HalfDone:
        assume(False)
    scalars = [n for n, v in source.names.items() if not isinstance(v, np.ndarray)]
    assume(not any(f"{n}." in line or f"={n}" in line for n in scalars for line in source.lines))  # tensors of no axes
    names = sorted(source.names)
    return source.text(source.rng.sample(names, min(len(names), 4))), examples


def batch(examples: list[np.ndarray], seed: int) -> tuple[list[np.ndarray], tuple[int | None, ...]]:
    """Some of the arguments with a batch axis anywhere, along which they differ, and where that is."""
    rng = random.Random(seed)
    size = rng.choice((1, 2, 3, 5))
    batched = [rng.random() < 0.65 for _ in examples]
    batched[rng.randrange(len(batched))] = True
    axes = tuple(rng.randrange(x.ndim + 1) if b else None for x, b in zip(examples, batched, strict=True))
    arrays = []
    for x, axis in zip(examples, axes, strict=True):
        with np.errstate(all="ignore"):
            varied = [x, *((x * (k + 2) + k).astype(x.dtype) for k in range(size - 1))]
        whole = x.copy() if axis is None else np.stack(varied, axis=axis)
        arrays.append(np.asfortranarray(whole) if rng.random() < 0.3 else whole)
    return arrays, axes


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=settings.default.max_examples // 2)
@given(st.integers(0, 2**32), st.integers(1, 6))
@example(91, 2)
@example(483, 1)
def test_mapped_programs(seed: int, lines: int) -> None:
    text, examples = source_of(seed, lines)
    arrays, axes = batch(examples, seed)
    scope: dict[str, Any] = {"np": np}
    exec(compile(text, "<random function>", "exec"), scope)
    expected = [x.copy(order="K") for x in arrays]
    raised: type[Exception] | None = None
    with np.errstate(all="ignore"):
        try:
            want = looped(scope["f"], axes, expected)
        except RAISES as error:
            raised = type(error)
        shared = zip(expected, arrays, axes, strict=True)
        forbidden = any(a is None and x.tobytes() != y.tobytes() for x, y, a in shared)
        for vmap in ROADS:
            given_arrays = [x.copy(order="K") for x in arrays]
            about = f"{vmap.__name__} in_axes {axes} of {[x.shape for x in arrays]}:\n{text}"
            try:
                got = vmap(scope["f"], axes)(*given_arrays)
            except (*REFUSALS, *RAISES) as error:
                refused = forbidden or raised or isinstance(error, REFUSALS)
                assert refused, f"{about}{error!r}"
                assert "(internal)" not in str(error), f"{about}{error}"
                continue
            assert not forbidden and raised is None, f"{about}nothing was raised"
            assert_equal(list(got), want, about)
            assert_equal(given_arrays, expected, f"arguments of {about}")
            pairs = [*itertools.product(got, given_arrays), *itertools.combinations(got, 2)]
            assert not any(np.shares_memory(a, b) for a, b in pairs), f"{about}results share memory"
