"""The dispatch stack: which interpreter a call of an array function reaches.

What goes in: interpreters, pushed for the time that a transformed function runs. What comes out: the innermost one.
What holds: this is the only ambient state of the package; it belongs to one thread or task (`contextvars`), and an
interpreter is off the stack when its block is left, however it is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from broadloom.frontend.entry import Entry
from broadloom.graph.ir import ValueId
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle


class Interpreter(Protocol):
    """An interpreter on the stack: a recorder whose builder gives the ops of a program another meaning."""

    recorder: Recorder

    def lift(self, x: Any) -> ArrayHandle:
        """An array or tensor from outside of the interpreter, as one of its own."""
        ...

    def tensor(self, handle: ArrayHandle) -> Any:
        """A handle of this interpreter as a tensor."""
        ...

    def call(
        self, name: str, function: Any, entry: Entry | None, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """A call of an array function that reached the interpreter; `entry` is the function's own in the frontend."""
        ...

    def concrete(self, value: ValueId) -> Any:
        """The array that a value is, if it is one; raises `TransformError` where it stands for many."""
        ...


_stack: ContextVar[tuple[Interpreter, ...]] = ContextVar("broadloom_dispatch", default=())
active = _stack.get


@contextmanager
def running(interpreter: Interpreter) -> Iterator[None]:
    """Calls inside the block reach `interpreter`."""
    token = _stack.set((*_stack.get(), interpreter))
    try:
        yield
    finally:
        _stack.reset(token)


@contextmanager
def outside(interpreter: Interpreter) -> Iterator[None]:
    """Calls inside the block reach what is below `interpreter`."""
    stack = _stack.get()
    token = _stack.set(stack[: stack.index(interpreter)])
    try:
        yield
    finally:
        _stack.reset(token)
