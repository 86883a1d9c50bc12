"""Measuring: first calls, and steady times taken in turns so that a slow moment of the machine hits all alike."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping
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
