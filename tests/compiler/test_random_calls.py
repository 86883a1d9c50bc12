"""Random programs, each compiled once and called with arguments that change between calls in size, dtype, layout, kind
of number, sharing and flags: every call gives what the plain function gives, and does to its arguments the same."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import broadloom as bl
from tests.capture.test_random_programs import compiled as defined
from tests.capture.test_random_programs import programs

LAYOUTS = ("C", "F", "columns", "rows", "reversed", "zero", "unaligned", "read-only", "odd")
NUMBERS = (1.5, -2.0, 2, 0, True, np.float32(2), np.float64(-1.5), np.int8(3), np.int64(2), float("nan"), 1j)
COUNTS = (2, -1, 0, 5, True, np.int64(2))
SIZES = ((3, 4), (3, 4), (5, 4), (3, 6), (1, 4), (3, 1), (4, 4), (0, 4), (1, 1), (2, 4))
DTYPES = ("f8", "f8", "f4", "i4", "u1", ">f8", "c16")

calls = st.tuples(
    st.sampled_from(SIZES),
    st.sampled_from(DTYPES),
    st.sampled_from(LAYOUTS),
    st.sampled_from(("apart", "row", "same memory")),
    st.sampled_from(NUMBERS),
    st.sampled_from(COUNTS),
)


def laid_out(values: Any, layout: str) -> Any:
    rows = len(values)
    match layout:
        case "F":
            return np.asfortranarray(values)
        case "columns":
            return np.repeat(values, 2, axis=1)[:, ::2]
        case "rows":
            return np.repeat(values, 3, axis=0)[::3]
        case "reversed":
            return np.ascontiguousarray(values[::-1, ::-1])[::-1, ::-1]
        case "zero" if rows:
            return np.lib.stride_tricks.as_strided(values.copy(), values.shape, (0, values.itemsize))
        case "unaligned":
            room = np.zeros(values.nbytes + 1, np.uint8)[1:].view(values.dtype).reshape(values.shape)
            room[...] = values
            return room
        case "read-only":
            fixed = values.copy()
            fixed.flags.writeable = False
            return fixed
        case "odd" if rows == 1:  # the stride of an axis of one element says nothing
            return np.lib.stride_tricks.as_strided(values.copy(), values.shape, (7, values.itemsize))
    return values.copy()


def arguments(call: Any) -> tuple[Any, ...]:
    (rows, columns), dtype, layout, sharing, f, n = call
    x = laid_out((np.arange(float(rows * columns)).reshape(rows, columns) % 7 + 1).astype(dtype), layout)
    if sharing == "row" and rows:
        return x, x[-1], f, n
    if sharing == "same memory" and x.flags.c_contiguous and columns:
        return x, x.reshape(-1)[:columns], f, n
    return x, np.arange(columns), f, n


def flat(value: Any) -> list[Any]:
    return [part for v in value for part in flat(v)] if isinstance(value, tuple | list) else [value]


def facts(part: Any) -> tuple[Any, ...]:
    if not isinstance(part, np.ndarray):
        return type(part), np.asarray(part).dtype
    return type(part), part.dtype, part.shape, part.flags.writeable


def outcome(function: Any, given: tuple[Any, ...]) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            parts = flat(function(*given))
        except (ValueError, TypeError, IndexError, OverflowError) as error:
            return type(error)
    arrays = [a for a in (*given[:2], *parts) if isinstance(a, np.ndarray)]
    shared = [np.may_share_memory(a, b) for a in arrays for b in arrays if a.size and b.size]
    return parts, [facts(p) for p in parts], shared, [p is g for p in parts for g in given]


def check(text: str, sequence: list[Any], dynamic: bool | None) -> None:
    program = defined(text)
    function = bl.compile(program, dynamic=dynamic, options={"max_specialisations": 6})
    for call in sequence:
        first, second = arguments(call), arguments(call)
        got, want = outcome(function, first), outcome(program, second)
        about = f"{text}{call} dynamic={dynamic}"
        if isinstance(want, type) or isinstance(got, type):
            assert got is want, about
            continue
        assert got[1:] == want[1:], about
        for a, b in zip((*got[0], *first[:2]), (*want[0], *second[:2]), strict=True):
            close = 1e-5 if np.asarray(b).dtype.char in "fF" else 1e-12
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=close, atol=close, err_msg=about)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(), st.lists(calls, min_size=3, max_size=7), st.sampled_from([None, None, True, False]))
def test_calls_that_change(text: str, sequence: list[Any], dynamic: bool | None) -> None:
    check(text, sequence, dynamic)
