"""`bl.vmap` and `bl.gufunc`: mapped functions that are called from plain Python.

What goes in: a function of one example. What comes out: a function of many, whose calls are captured as those of a
compiled function are, and computed op by op with the reference kernels; what cannot be captured runs in Python, on
tensors that stand for one of many (`transforms.vmap`).

What holds: both roads batch by the same rule and give the same values. Capture comes first because it sees all that the
function does, arrays that NumPy makes inside included; a refused capture has touched nothing. A capture is kept and
used again while its guards hold.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from broadloom.capture.binding import frame_of
from broadloom.capture.breaks import CaptureBreak, Code
from broadloom.capture.capture import Captured, capture
from broadloom.capture.recipe import rebuild
from broadloom.capture.sources import Frame
from broadloom.compiler.refusals import Refusals, kinds_of
from broadloom.errors import OptionsError, TransformError
from broadloom.graph.interpret import interpret
from broadloom.platform import collector_paused
from broadloom.tensor.dispatch import Traced
from broadloom.tensor.stack import active
from broadloom.transforms.batching import Randomness
from broadloom.transforms.gufunc import Gufunc, gufunc_of
from broadloom.transforms.gufunc import by_dispatch as gufunc_by_dispatch
from broadloom.transforms.pytree import flatten, unflatten
from broadloom.transforms.vmap import Vmapped, arguments_of, in_chunks, mapped
from broadloom.transforms.vmap import by_dispatch as vmap_by_dispatch

KEPT = 16  # captures of one mapped function


def vmap(
    fn: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    *,
    axis_size: int | None = None,
    randomness: Randomness = "error",
    chunk_size: int | None = None,
) -> Vmapped:
    """A function of one example, as a function of many.

    `in_axes`: for each argument the axis that counts the examples, None for one that all share; an int for all of
    them, or containers that follow those of the arguments. Arguments by name are mapped along axis 0. `out_axes`: where
    that axis stands in the results. `axis_size`: the number of examples, where no argument tells. `chunk_size`: so many
    examples at a time. `randomness`: what a draw from a key that all examples share does - raise, give all the "same"
    numbers, or "different" ones, which depend on the number of the example and are drawn for all at a time.

    The function is written with NumPy or with this package, for arrays without the axis. Each call of an array
    function is made once for all examples, by NumPy's rule for loop dims, so there is none that cannot be batched but
    those whose sizes depend on data. Arrays in, arrays out; tensors in, tensors out.

    Raises `TransformError` for axes that do not fit; for a condition or a size that depends on a batched value; and
    for a write to an array that was reached from outside.

    >>> import numpy as np
    >>> vmap(np.dot)(np.ones((2, 3)), np.arange(6.0).reshape(2, 3))
    array([ 3., 12.])
    >>> vmap(lambda x, y: x * y, in_axes=(0, None))(np.arange(3), 10)
    array([ 0, 10, 20])
    """
    return mapped(fn, in_axes, out_axes, axis_size, randomness, chunk_size, by_capture)


def vectorize(fn: Callable[..., Any], *, signature: str | None = None) -> Gufunc:
    """A function of scalars, or by `signature` of arrays of its core dims, as a gufunc: as `numpy.vectorize`, without a
    loop in Python. Without a signature all arguments and the result are scalars.

    >>> import numpy as np
    >>> vectorize(lambda x, limit: np.where(x > limit, limit, x))(np.arange(4), np.array([[1], [2]]))
    array([[0, 1, 1, 1],
           [0, 1, 2, 2]])
    >>> vectorize(lambda v: v / np.linalg.norm(v), signature="(n)->(n)")(np.array([[3.0, 4.0]]))
    array([[0.6, 0.8]])

    Raises as `gufunc`, and `OptionsError` for a function whose number of arguments is not fixed, without a signature.
    """
    if signature is None:
        kinds = [p.kind for p in inspect.signature(fn).parameters.values() if p.default is p.empty]
        if any(
            kind not in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for kind in kinds
        ):
            raise OptionsError(
                "vectorize of a function without a fixed number of arguments by position",
                got=str(inspect.signature(fn)),
                remedy="give a signature such as '(),()->()'",
            )
        signature = ",".join(["()"] * len(kinds)) + "->()"
    return gufunc_of(signature, fn, by_capture)


def caller(function: Vmapped | Gufunc) -> FunctionType:
    """A Python function that calls a mapped one, under its name, with its signature, and in messages at its place."""
    call: Any = functools.wraps(function)(lambda *args, **kwargs: function(*args, **kwargs))  # noqa: PLW0108  # of one line, the place
    code = getattr(function.function, "__code__", None)
    if code is not None:
        place = {n: getattr(code, n) for n in ("co_filename", "co_firstlineno", "co_name", "co_qualname")}
        call.__code__ = call.__code__.replace(**place)
    made: FunctionType = call
    return made


def gufunc(signature: str) -> Callable[[Callable[..., Any]], Gufunc]:
    """A decorator that makes a core function an op: it broadcasts, maps, compiles, and takes `out=` and `axes=`.

    `signature` is in NumPy's grammar: named dims, `n?` that operands may leave out, `n|1` that may be 1, fixed sizes,
    and expressions in the results. The function is written for arrays that have the core dims alone, with NumPy or
    this package; it is called once for all loop elements. A call takes the operands, and by name `out`, `axes`, `axis`,
    `keepdims`, `dtype` and `casting`, as NumPy's gufuncs do.

    >>> import numpy as np
    >>> @gufunc("(n),(n)->()")
    ... def weighted_mean(x, w):
    ...     return np.sum(x * w) / np.sum(w)
    >>> weighted_mean(np.arange(6.0).reshape(2, 3), np.array([1.0, 0.0, 1.0]))
    array([1., 4.])

    Raises `ParseError` for the signature; a call raises ValueError for shapes that do not fit it, and `TransformError`
    where the function returns other shapes than it says. Source: NEP 20.
    """
    return lambda core: gufunc_of(signature, core, by_capture)


class Captures:
    """What is known of a mapped function: captures with their guards, and what could not be captured."""

    def __init__(self, function: Vmapped | Gufunc) -> None:
        self.function = caller(function)
        self.randomness = function.mapping.randomness if isinstance(function, Vmapped) else "error"
        self.kept: list[Captured] = []
        self.refusals = Refusals()

    def find(self, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Captured | None:
        """The capture for a call, made if there is none; None if the function cannot be captured."""
        found = next((c for c in self.kept if c.check(frame) is None), None)
        if found is not None:
            return found
        what = kinds_of(args, kwargs)
        if self.refusals.reason(frame, what) is not None:
            return None
        try:
            with collector_paused():
                found = capture(self.function, args, kwargs)
        except CaptureBreak as stopped:
            if isinstance(stopped.__cause__, TransformError):
                raise stopped.__cause__ from None
            if stopped.record.code is Code.RANDOM and self.randomness != "same":
                raise _shared_draws(stopped) from None
            self.refusals.add(stopped, what)
            return None
        self.kept = [found, *self.kept[: KEPT - 1]]
        return found


def _shared_draws(stopped: CaptureBreak) -> TransformError:
    """What run in Python would be one draw for all examples, where a loop over them draws for each."""
    return TransformError(
        "random numbers of a mapped function that would be drawn once, for all examples",
        got=stopped.record.context,
        allowed="bl.random with a key for each example, or randomness='same'",
        remedy="map over bl.random.split(key, n), or draw before the call and map over the numbers",
        location=stopped.record.location,
    )


def by_capture(function: Vmapped | Gufunc, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of a mapped function: captured and computed, or else by the dispatch stack."""
    dispatch: Callable[..., Any] = gufunc_by_dispatch if isinstance(function, Gufunc) else vmap_by_dispatch
    if active() or any(type(x) is Traced for x in flatten((args, kwargs))[0]):
        return dispatch(function, args, kwargs)
    if function.captures is None:
        function.captures = Captures(function)
    captures: Captures = function.captures

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        frame = frame_of(captures.function, args, kwargs)
        captured = captures.find(frame, args, kwargs)
        return dispatch(function, args, kwargs) if captured is None else _computed(captured, frame)

    if isinstance(function, Gufunc):
        return run(args, kwargs)
    given = arguments_of(function.mapping, args, kwargs)
    return in_chunks(function.mapping, given, lambda part: run(*unflatten(part.leaves, part.structure)))


def _computed(captured: Captured, frame: Frame) -> Any:
    outputs = interpret(captured.graph, [source.fetch(frame) for source in captured.arguments])
    symbols = {symbol: source.fetch(frame) for symbol, source in captured.symbols}
    return rebuild(captured.result, outputs, frame, symbols)
