"""What a kernel is estimated to cost, and from where on it is worth several threads.

What goes in: a body. What comes out: cost units, of about a nanosecond each on one core. A pure function of the body,
so that the decision to run in parallel depends on nothing but the program and its sizes.
"""

from __future__ import annotations

from broadloom.fusion.ir import Body, Compute, Indirect, Instruction, Load, Masked, Reduce, Running, Store

PARALLEL_COST = 20_000.0  # units of serial work below which waking a thread costs more than it saves
CHUNK_COST = 8_000.0  # the least work that a chunk handed to a thread has

_DEAR = frozenset(
    {
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "acosh",
        "atanh",
        "erf",
        "erfc",
        "pow",
        "atan2",
        "hypot",
        "cbrt",
        "logaddexp",
    }
)
_DIVIDING = frozenset(["divide", "floor_divide", "remainder", "fmod", "reciprocal", "sqrt"])
_FREE = frozenset(["positive", "conj", "real", "imag", "complex", "bitcast"])


def body_cost(body: Body) -> float:
    """Cost units of one iteration.

    >>> body_cost(Body(())) < 1
    True
    """
    return 0.05 + sum(map(_instruction_cost, body.instructions))


def _instruction_cost(i: Instruction) -> float:
    match i:
        case Compute(op, _, dtype, _):
            scale = (dtype.bits / 32) if dtype.kind in "fc" else 1.0
            unit = 2.0 if op in _DEAR else 0.5 if op in _DIVIDING else 0.0 if op in _FREE else 0.06
            return unit * max(1.0, scale)
        case Load() | Store():
            return 0.12
        case Indirect():
            return 1.0
        case Reduce() | Running():
            return 0.3
        case Masked(_, body, _, _, _):
            return 0.1 + body_cost(body)
    return 0.02
