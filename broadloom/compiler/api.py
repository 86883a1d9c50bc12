"""`bl.compile`, `bl.explain`, `bl.make_graph`: what users call.

What goes in: a Python function over NumPy arrays. What comes out: a `Compiled` callable with the function's name,
signature and meaning; a report; a graph.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from functools import cache
from types import FunctionType, MethodType
from typing import Any, TypeVar, cast, overload

from broadloom import trace
from broadloom.capture.breaks import CaptureBreak
from broadloom.capture.capture import capture
from broadloom.capture.context import Policy
from broadloom.compiler.build import Toolchain
from broadloom.compiler.compiled import State
from broadloom.compiler.mapping import caller
from broadloom.compiler.report import CompileReport
from broadloom.errors import OptionsError
from broadloom.graph.ir import Graph
from broadloom.graph.manager import Pass, Pipeline
from broadloom.options import Options
from broadloom.passes.table import default_pipeline
from broadloom.runtime.target import DEFAULT_LEVEL, QUICK_LEVEL
from broadloom.transforms.gufunc import Gufunc
from broadloom.transforms.vmap import Vmapped

F = TypeVar("F", bound=Callable[..., Any])

LEVELS = {"default": DEFAULT_LEVEL, "fast-compile": QUICK_LEVEL}  # mode: level of code generation
BACKENDS = ("native",)


class Compiled:
    """A compiled function. Calling it calls native code; the rest is here.

    Instances belong to subclasses whose `__call__` is the native entry (see `compile`).
    """

    _state: State
    __wrapped__: Callable[..., Any]
    __signature__: inspect.Signature

    def report(self) -> CompileReport:
        """What has been compiled so far, and why: compiles, graphs, breaks, recompiles, guards, kernels, ..."""
        return self._state.journal.snapshot()

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(cast(Callable[..., Any], self), instance)

    def __repr__(self) -> str:
        return f"<compiled {self._state.journal.name}>"

    def __copy__(self) -> Compiled:
        return self  # as functions are

    def __deepcopy__(self, memo: dict[int, Any]) -> Compiled:
        return self

    def __reduce__(self) -> str:
        """By name, as functions are pickled: the other process imports the module and compiles there."""
        name: str = self.__wrapped__.__qualname__
        found: Any = sys.modules.get(self.__wrapped__.__module__)
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is not self:
            raise OptionsError(
                "a compiled function that its module does not have under its name cannot be pickled",
                got=repr(self),
                remedy="pickle the function and compile it there",
            )
        return name


@cache
def default_sink() -> trace.Sink:
    """The process's event sink, as the environment asks for it."""
    options = default_options()
    return trace.Sink(options.trace_dir, options.logs)


@cache
def default_options() -> Options:
    """The options that the environment gives, read once. Raises `OptionsError` for a nonsensical variable."""
    return Options.from_environment(os.environ)


@overload
def compile(fn: F, /) -> F: ...
@overload
def compile(
    fn: F,
    /,
    *,
    dynamic: bool | None = None,
    fullgraph: bool = False,
    backend: str = "native",
    mode: str = "default",
    options: Mapping[str, object] | None = None,
) -> F: ...
@overload
def compile(
    fn: None = None,
    /,
    *,
    dynamic: bool | None = None,
    fullgraph: bool = False,
    backend: str = "native",
    mode: str = "default",
    options: Mapping[str, object] | None = None,
) -> Callable[[F], F]: ...
def compile(
    fn: Any = None,
    /,
    *,
    dynamic: bool | None = None,
    fullgraph: bool = False,
    backend: str = "native",
    mode: str = "default",
    options: Mapping[str, object] | None = None,
) -> Any:
    """Compile a function of NumPy arrays; also a decorator, with or without arguments.

    The result takes and returns what the function does, and gives NumPy's answers by the equality contract of
    docs/differences.md. Code is made at the first call for each kind of arguments.

    `dynamic`: True makes all sizes symbolic at once, False never, None those that change. `fullgraph`: raise
    `GraphBreakError` where the function cannot be captured, rather than run it as plain Python. `mode`: "default", or
    "fast-compile" for code of the same values that takes less time to make and more to run. `options`: fields of
    `broadloom.options.Options`, and `passes`, a sequence of graph passes that run before the usual ones.

    >>> import numpy as np
    >>> @compile
    ... def f(x, y):
    ...     return np.sin(x) * y + x
    >>> f(np.zeros(3), np.ones(3))
    array([0., 0., 0.])
    >>> len(f.report().compiles)
    1

    Raises `OptionsError` for a wrong argument of `compile` itself, or of the environment.
    """
    if fn is None:
        return functools.partial(
            compile, dynamic=dynamic, fullgraph=fullgraph, backend=backend, mode=mode, options=options
        )
    fn = _written(fn)
    if isinstance(fn, MethodType):
        inner = compile(fn.__func__, dynamic=dynamic, fullgraph=fullgraph, backend=backend, mode=mode, options=options)
        return MethodType(inner, fn.__self__)
    if not isinstance(fn, FunctionType):
        raise OptionsError(
            "bl.compile takes a Python function",
            got=type(fn).__name__,
            allowed="functions, lambdas, bound methods",
            remedy="wrap the call in a function",
        )
    tools = toolchain(mode, backend, options)
    if not (dynamic is None or isinstance(dynamic, bool)) or not isinstance(fullgraph, bool):
        raise OptionsError(
            "wrong argument of bl.compile",
            got=f"dynamic={dynamic!r}, fullgraph={fullgraph!r}",
            allowed="dynamic: True, False or None; fullgraph: True or False",
            remedy="correct it",
        )
    state = State(fn, tools, dynamic=dynamic, fullgraph=fullgraph)
    return _callable(fn, state)


def _written(fn: Any) -> Any:
    """What is captured: of a compiled function the one it was made of, of a mapped one a function that calls it."""
    if isinstance(fn, Compiled):
        fn = fn.__wrapped__
    return caller(fn) if isinstance(fn, Vmapped | Gufunc) else fn


def _callable(fn: FunctionType, state: State) -> Compiled:
    """An object of a class of its own, whose call slot is the native entry."""
    namespace: dict[str, Any] = {"__call__": state.entry.call, "__doc__": fn.__doc__, "__module__": fn.__module__}
    made: Compiled = type("Compiled", (Compiled,), namespace)()
    made._state = state
    functools.update_wrapper(cast(Callable[..., Any], made), fn)
    made.__signature__ = inspect.signature(fn)
    return made


def toolchain(mode: str = "default", backend: str = "native", options: Mapping[str, object] | None = None) -> Toolchain:
    """The checked tools for these arguments of `compile`."""
    if mode not in LEVELS:
        raise OptionsError("unknown mode", got=repr(mode), allowed=", ".join(LEVELS))
    if backend not in BACKENDS:
        raise OptionsError("unknown backend", got=repr(backend), allowed=", ".join(BACKENDS))
    if not (options is None or (isinstance(options, Mapping) and all(isinstance(name, str) for name in options))):
        raise OptionsError(
            "options of bl.compile must be a mapping from names to values",
            got=repr(options),
            allowed="None or a dict such as {'num_threads': 2}",
            remedy="correct it",
        )
    chosen = dict(options or {})
    extra = chosen.pop("passes", ())
    pipeline = default_pipeline()
    if extra:
        pipeline = Pipeline((*_checked_passes(extra), *pipeline.passes))
    return Toolchain(default_options().replace(**chosen), pipeline, default_sink(), LEVELS[mode])


def _checked_passes(extra: object) -> tuple[Pass, ...]:
    if not isinstance(extra, tuple | list) or not all(hasattr(p, "run") and hasattr(p, "name") for p in extra):
        raise OptionsError(
            "passes must be a sequence of graph passes", got=repr(extra), allowed="frozen dataclasses with name and run"
        )
    return tuple(extra)


def make_graph(fn: Callable[..., Any], *, dynamic: bool | None = None) -> Callable[..., Graph]:
    """A callable that captures `fn` on its arguments and returns the graph, without running or compiling it.

    >>> import numpy as np
    >>> graph = make_graph(lambda x: x + 1)(np.zeros(3, np.float32))
    >>> [str(n.op) for n in graph.nodes if str(n.op) == "add"]
    ['add']

    The callable raises `GraphBreakError` where capture stops.
    """

    def trace_only(*args: Any, **kwargs: Any) -> Graph:
        try:
            return capture(_written(fn), args, kwargs, Policy(dynamic)).graph
        except CaptureBreak as stopped:
            raise stopped.record.error() from None

    return trace_only


def explain(fn: Callable[..., Any], **arguments: Any) -> Callable[..., CompileReport]:
    """A callable that compiles `fn`, calls it once and returns its report; `arguments` are those of `compile`.

    >>> import numpy as np
    >>> report = explain(lambda x: x * 2)(np.zeros(3))
    >>> len(report.kernels), len(report.breaks)
    (1, 0)
    """

    def call(*args: Any, **kwargs: Any) -> CompileReport:
        compiled: Any = compile(fn, **arguments)
        compiled(*args, **kwargs)
        return cast(CompileReport, compiled.report())

    return call
