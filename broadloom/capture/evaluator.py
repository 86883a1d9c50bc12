"""The abstract evaluator: normalised instructions over tracked values.

What goes in: a bound Python function. What comes out: its tracked result, or an iterator for a generator.

What holds: every step carries the user's line; exception handlers are never entered, because a step that raises stops
the capture.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from broadloom.capture.breaks import Code
from broadloom.capture.context import MAX_STEPS, Context
from broadloom.capture.instructions import HANDLERS, Activation
from broadloom.capture.values import FunctionValue, IteratorValue, Value
from broadloom.frontend.unsupported import DependsOnData


def run_function(c: Context, function: FunctionValue, local: dict[str, Value]) -> Value:
    """Evaluate a call; `local` holds one value for each parameter."""
    if function.code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        c.refuse(Code.UNSUPPORTED_PYTHON, function.name, "an async function", "make it an ordinary function")
    activation = Activation(function, local)
    if function.code.co_flags & inspect.CO_GENERATOR:
        return IteratorValue(_generate(c, activation))
    for kind, value in _steps(c, activation):
        if kind == "return":
            return value
    raise AssertionError("code ends with a return")


def _generate(c: Context, activation: Activation) -> Iterator[Value]:
    back = c.location
    for kind, value in _steps(c, activation):
        if kind == "return":
            return
        c.return_to(back)
        yield value
        back = c.location
        activation.stack.append(None)


def _steps(c: Context, a: Activation) -> Iterator[tuple[str, Value]]:
    """Run until a yield or return; go on after a yield."""
    while True:
        instruction = a.instructions[a.position]
        a.position += 1
        c.steps += 1
        if c.steps > MAX_STEPS:
            c.refuse(
                Code.TOO_LONG,
                "a loop",
                f"more than {MAX_STEPS} steps were followed",
                "loops are unrolled: make the trip count smaller, or use array operations",
            )
        c.at(a.code, instruction.line)
        if instruction.op in ("return", "yield"):
            yield instruction.op, a.stack.pop()
            continue
        steps = c.root.steps if a.position - 1 in a.caught else None
        try:
            HANDLERS[instruction.op](c, a, instruction.arg)
            if steps is not None:
                _check_caught(c, steps)
        except DependsOnData as refusal:  # a direct question to a boolean selection
            hint = refusal.remedy or "call it outside the compiled function"
            c.refuse(Code.DATA_DEPENDENT, "a boolean selection", refusal.what, hint)


def _check_caught(c: Context, since: int) -> None:
    """Refuse what may raise at run time where the function would catch it."""
    op = c.root.raising(since)
    if op is not None:
        c.refuse(
            Code.UNSUPPORTED_PYTHON,
            f"{op} in a try statement",
            "the data may make it raise, and compiled code does not go on with the handler",
            "move it out of the try statement",
        )
