"""Measuring: first calls, and steady times taken in turns so that a slow moment of the machine hits all alike."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Time:
    """Seconds: of the first call, and the median and the least of the later ones."""

    first: float
    median: float
    least: float


def first_call(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of one call, and what it returned."""
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def steady(calls: Mapping[str, Callable[[], Any]], budget: float) -> dict[str, list[float]]:
    """Seconds per call of each, measured in rounds of random order until `budget` seconds are spent on each. Short
    calls are repeated within a measurement, so that the clock does not show."""
    repeats = {}
    for name, call in calls.items():
        call()
        seconds, _ = first_call(call)
        repeats[name] = max(1, min(10_000, int(2e-3 / max(seconds, 1e-9))))
    times: dict[str, list[float]] = {name: [] for name in calls}
    spent = dict.fromkeys(calls, 0.0)
    while any(spent[name] < budget or len(times[name]) < 3 for name in calls):
        for name in random.sample(sorted(calls), len(calls)):
            count = range(repeats[name])
            call = calls[name]
            start = time.perf_counter()
            for _ in count:
                call()
            seconds = time.perf_counter() - start
            spent[name] += seconds
            times[name].append(seconds / len(count))
    return times


def summary(first: float, times: list[float]) -> Time:
    """The numbers that are shown."""
    return Time(first, statistics.median(times), min(times))


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which that share of the values lies, between two of them by a straight line."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


@dataclass(frozen=True, slots=True)
class Spread:
    """A median, and the bounds that a tenth of the values lies below and above."""

    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    return Spread(quantile(values, 0.5), quantile(values, 0.1), quantile(values, 0.9))


def paired(ours: Sequence[float | None], other: Sequence[float | None]) -> Spread | None:
    """The ratios of two columns, taken within each round that both took part in; None where there is no such round."""
    ratios = [a / b for a, b in zip(ours, other, strict=True) if a is not None and b is not None]
    return spread(ratios) if ratios else None


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


@dataclass(frozen=True, slots=True)
class Effort:
    """How long is measured: seconds spent on a column and workload, and how many rounds at least and at most. A
    measurement repeats short calls until it lasts `turn` seconds."""

    seconds: float = 0.3
    least: int = 7
    most: int = 30
    turn: float = 4e-3


FIRST = 3  # rounds that all take part in


def in_rounds(
    measure: Callable[[str, int], float],
    names: Sequence[str],
    ours: Collection[str],
    effort: Effort,
    draw: random.Random,
) -> dict[str, list[float | None]]:
    """Seconds a call of each column, one of each round, None for a round it did not take part in.

    `measure(name, count)` gives the seconds a call, of `count` calls. Each round takes the columns in random
    order. Ours and the two others that are fastest in the first three rounds are measured in all, the rest until its
    time is spent.
    """
    once = {name: measure(name, 1) for name in names}
    repeats = {name: max(1, min(10_000, int(effort.turn / max(s, 1e-9)))) for name, s in once.items()}
    leading = set(names)
    found: dict[str, list[float | None]] = {name: [] for name in names}
    spent = dict.fromkeys(names, 0.0)
    for index in range(effort.most):
        if index == FIRST:
            medians = {n: statistics.median(s for s in found[n] if s is not None) for n in names if n not in ours}
            leading = {*sorted(medians, key=lambda n: medians[n])[:2], *ours} & set(names)
        if index >= effort.least and all(spent[name] >= effort.seconds for name in leading):
            break
        for name in draw.sample(sorted(names), len(names)):
            if name in leading or spent[name] < effort.seconds:
                seconds = measure(name, repeats[name])
                spent[name] += seconds * repeats[name]
                found[name].append(seconds)
            else:
                found[name].append(None)
    return found
