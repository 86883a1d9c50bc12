"""The harness of the capture tests: capture, interpret the graph, rebuild the result, compare with the plain call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from broadloom.capture.binding import frame_of
from broadloom.capture.breaks import Break, CaptureBreak
from broadloom.capture.capture import Captured, capture
from broadloom.capture.context import Policy
from broadloom.capture.recipe import rebuild
from broadloom.graph.interpret import interpret


class Harness:
    """`check(fn, make)`: the captured function behaves as the plain one on the arguments that `make()` gives."""

    def run(self, captured: Captured, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The call by the captured graph, after its guards have been checked."""
        frame = frame_of(fn, args, kwargs)
        failed = captured.check(frame)
        assert failed is None, failed.explain(frame)
        symbols = {symbol: source.fetch(frame) for symbol, source in captured.symbols}
        outputs = interpret(captured.graph, [s.fetch(frame) for s in captured.arguments])
        return rebuild(captured.result, outputs, frame, symbols)

    def check(
        self,
        fn: Any,
        make: Callable[[], tuple[Any, ...]],
        policy: Policy | None = None,
        captured: Captured | None = None,
        rtol: float = 0.0,
        strides: bool = True,
    ) -> Captured:
        """Compare values, dtypes, kinds, identities, shared memory, strides, flags and changes of the arguments."""
        mine, theirs, untouched = (_split(make()) for _ in range(3))
        if captured is None:
            captured = capture(fn, *mine, policy)
            assert_same(mine, untouched, "capture changed the arguments")
        got = self.run(captured, fn, *mine)
        expected = fn(*theirs[0], **theirs[1])
        assert_same((got, mine), (expected, theirs), fn.__name__, rtol, strides)
        return captured

    def refused(self, fn: Any, *args: Any, policy: Policy | None = None, **kwargs: Any) -> Break:
        """The break that capturing gives."""
        with pytest.raises(CaptureBreak) as caught:
            capture(fn, args, kwargs, policy)
        return caught.value.record


def _split(made: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """`make` may end in a dict marked as keywords."""
    if made and isinstance(made[-1], Keywords):
        return made[:-1], dict(made[-1])
    return made, {}


class Keywords(dict):  # type: ignore[type-arg]
    """Keyword arguments among the made arguments."""


def assert_same(a: Any, b: Any, what: str, rtol: float = 0.0, strides: bool = True) -> None:
    """Two object graphs are alike: values, types, and which places hold one object or share memory."""
    places_a: list[Any] = []
    places_b: list[Any] = []
    _compare(a, b, what, places_a, places_b, rtol, strides)
    for i in range(len(places_a)):
        for j in range(i):
            both = (places_a[i] is places_a[j], places_b[i] is places_b[j])
            assert both[0] == both[1], f"{what}: identity of parts {j} and {i}"
            x, y, u, v = places_a[i], places_a[j], places_b[i], places_b[j]
            if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
                assert np.shares_memory(x, y) == np.shares_memory(u, v), f"{what}: shared memory of parts {j} and {i}"


def _compare(a: Any, b: Any, what: str, places_a: list[Any], places_b: list[Any], rtol: float, strides: bool) -> None:
    assert type(a) is type(b), f"{what}: {type(a)} and {type(b)}: {a!r}, {b!r}"
    if isinstance(a, np.ndarray):
        assert (a.dtype, a.shape, a.flags.writeable) == (b.dtype, b.shape, b.flags.writeable), what
        if a.size and strides:
            moving = [axis for axis, n in enumerate(a.shape) if n > 1]
            assert [a.strides[i] for i in moving] == [b.strides[i] for i in moving], what
        np.testing.assert_allclose(a, b, rtol, 0, err_msg=what)
    elif isinstance(a, np.generic | float | complex):
        np.testing.assert_allclose(a, b, rtol, 0, err_msg=what)
        assert np.signbit(np.real(a)) == np.signbit(np.real(b)) or np.isnan(a), what
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), what
        for x, y in zip(a, b, strict=True):
            _compare(x, y, what, places_a, places_b, rtol, strides)
    elif isinstance(a, dict):
        assert list(a) == list(b), what
        for k in a:
            _compare(a[k], b[k], what, places_a, places_b, rtol, strides)
    elif hasattr(a, "__dict__") and not isinstance(a, type) and not callable(a):
        _compare(vars(a), vars(b), what, places_a, places_b, rtol, strides)
    elif not callable(a) and type(a).__eq__ is not object.__eq__:
        assert a == b, what
    if isinstance(a, np.ndarray | list | dict):
        places_a.append(a)
        places_b.append(b)


@pytest.fixture(scope="session")
def harness() -> Harness:
    return Harness()


@pytest.fixture(scope="session")
def keywords() -> type[Keywords]:
    return Keywords
