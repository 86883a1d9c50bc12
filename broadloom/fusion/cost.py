"""What a kernel is estimated to cost, and from where on it is worth several threads.

What goes in: a body, or one instruction. What comes out: cost units, of about a nanosecond each on one core. A pure
function of what goes in, so that decisions depend on nothing but the program and its sizes.
"""

from __future__ import annotations

from broadloom.fusion.ir import (
    Body,
    Compute,
    Indirect,
    Instruction,
    Kernel,
    Load,
    Lookup,
    Masked,
    Reduce,
    Running,
    Store,
)

PARALLEL_COST = 20_000.0  # units of serial work below which waking a thread costs more than it saves
CHUNK_COST = 8_000.0  # the least work that a chunk handed to a thread has

# Units of one float32 in 256-bit vectors, measured on loops whose data lie in the cache. A wider float takes as many
# times as long as it is wider; integers have no vectors for division.
_UNITS = {
    **dict.fromkeys(["divide", "reciprocal", "sqrt", "interpolate"], 0.2),
    **dict.fromkeys(["exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "tanh", "hypot"], 0.5),
    **dict.fromkeys(["asin", "acos", "atan", "atan2", "cosh", "sinh", "erf", "cbrt"], 1.0),
    **dict.fromkeys(["sin", "cos", "tan", "asinh", "acosh", "atanh", "pow", "erfc", "logaddexp", "logaddexp2"], 2.0),
    **dict.fromkeys(["floor_divide", "remainder", "fmod"], 5.0),
    **{f"portable_{name}": 0.4 for name in ("log", "log1p", "exp", "expm1", "sinpi", "cospi")},
    "philox": 1.2,
    "random_below": 1.5,
    "random_unit": 0.1,
    "random_normal": 1.8,
    "random_gamma": 4.5,
    "random_vonmises": 5.0,
    "random_zipf": 8.0,
    "random_poisson": 15.0,
    "random_binomial": 30.0,
}
_INTEGER_DIVISION = 1.5
LOOKUP_COST = 0.7  # a gathered load, which takes one and a half times as long as exp
_FREE = frozenset(["positive", "conj", "real", "imag", "complex", "bitcast"])


def body_cost(body: Body) -> float:
    """Cost units of one iteration.

    >>> body_cost(Body(())) < 1
    True
    """
    return 0.05 + sum(map(instruction_cost, body.instructions))


def tables_cost(kernel: Kernel) -> float:
    """Cost units of filling a kernel's tables once."""
    return sum(t.entries * body_cost(t.body) for t in kernel.tables)


def instruction_cost(i: Instruction) -> float:
    """Cost units of one evaluation."""
    match i:
        case Compute(op, _, dtype, _):
            unit = 0.0 if op in _FREE else _UNITS.get(op, 0.04)
            if dtype.kind in "fc":
                return unit * max(1.0, dtype.bits / 32)
            return min(unit, _INTEGER_DIVISION)
        case Load() | Store():
            return 0.1
        case Indirect():
            return 1.0
        case Reduce() | Running():
            return 0.3
        case Lookup():
            return LOOKUP_COST
        case Masked(_, body, _, _, _):
            return 0.1 + body_cost(body)
    return 0.02
