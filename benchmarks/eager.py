"""What a call of an array function costs at once, beside NumPy's own, on arrays so small that the call is all there is.

What goes in: seconds to spend. What comes out: for each function the times of NumPy's on arrays and ours on tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import broadloom as bl
from benchmarks import timing
from benchmarks.timing import Time

A = np.arange(10.0)
T = bl.asarray(A)
CALLS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "add(x, x)": (lambda: np.add(A, A), lambda: bl.add(T, T)),
    "x + 1": (lambda: A + 1, lambda: T + 1),
    "sin(x)": (lambda: np.sin(A), lambda: bl.sin(T)),
    "sum(x)": (lambda: np.sum(A), lambda: bl.sum(T)),
    "x[2:]": (lambda: A[2:], lambda: T[2:]),
}


def measure(budget: float) -> dict[str, Mapping[str, Time]]:
    """The times of each function, NumPy's and ours measured in turns."""
    found = {}
    for name, (theirs, ours) in CALLS.items():
        times = timing.steady({"numpy": theirs, "broadloom": ours}, budget)
        found[name] = {who: timing.summary(seconds[0], seconds) for who, seconds in times.items()}
    return found
