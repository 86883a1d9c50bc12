"""The math library: elementary functions as branch-free LLVM code, for float and double.

What goes in: a name and lanes. What comes out: a call of an internal, always inlined function of the module, added at
its first use. What holds: no branch, no memory, no library call, so that a loop around a call vectorises; the special
values of IEEE 754 and C99; for float and double the errors of `BOUNDS`, which tests measure and docs/math.md states.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from broadloom.codegen import lane
from broadloom.codegen.lane import Lane
from broadloom.codegen.vmath import coefficients as c
from broadloom.codegen.vmath import error_function, exponential, inverse, logarithm, power, trigonometric
from broadloom.errors import CodegenError
from broadloom.records import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """One function: what builds it, and its largest error in float and double, in units of the last place. Float is
    built by `build` too, or where `via_double` is given by that, on doubles, and rounded once."""

    build: Callable[..., Lane]
    float_bound: float
    double_bound: float
    via_double: Callable[..., Lane] | None = None


FUNCTIONS: dict[str, Entry] = {
    "exp": Entry(exponential.exp, 1.0, 1.0),
    "exp2": Entry(exponential.exp2, 1.0, 1.0),
    "expm1": Entry(exponential.expm1, 1.0, 1.5),
    "log": Entry(logarithm.log, 1.0, 1.0),
    "log2": Entry(logarithm.log2, 1.0, 1.0),
    "log10": Entry(logarithm.log10, 1.0, 1.0),
    "log1p": Entry(logarithm.log1p, 1.0, 1.0),
    "sin": Entry(trigonometric.sin, 1.0, 1.0),
    "cos": Entry(trigonometric.cos, 1.0, 1.0),
    "tan": Entry(trigonometric.tan, 1.0, 2.0),
    "asin": Entry(inverse.asin, 1.0, 2.0, partial(inverse.asin, tail=c.ASIN_F32)),
    "acos": Entry(inverse.acos, 1.0, 1.5, partial(inverse.acos, tail=c.ASIN_F32)),
    "atan": Entry(inverse.atan, 1.0, 2.0, partial(inverse.atan, tail=c.ATAN_F32)),
    "atan2": Entry(inverse.atan2, 1.0, 2.0),
    "sinh": Entry(exponential.sinh, 1.0, 2.0, exponential.sinh),
    "cosh": Entry(exponential.cosh, 1.0, 1.5, exponential.cosh),
    "tanh": Entry(exponential.tanh, 1.0, 2.0),
    "asinh": Entry(logarithm.asinh, 1.0, 2.0, logarithm.asinh),
    "acosh": Entry(logarithm.acosh, 1.0, 2.0, logarithm.acosh),
    "atanh": Entry(logarithm.atanh, 1.0, 2.0, logarithm.atanh),
    "erf": Entry(error_function.erf, 1.0, 1.25),
    "erfc": Entry(error_function.erfc, 1.0, 2.0, error_function.erfc),
    "pow": Entry(power.pow, 1.0, 1.0),
    "cbrt": Entry(power.cbrt, 1.0, 1.0, power.cbrt),
    "hypot": Entry(power.hypot, 1.0, 1.25),
    "fmod": Entry(power.fmod, 0.0, 0.0),
    "logaddexp": Entry(logarithm.logaddexp, 1.0, 2.0, logarithm.logaddexp),
    "logaddexp2": Entry(logarithm.logaddexp2, 1.0, 2.0, logarithm.logaddexp2),
}


def call(name: str, *args: Lane) -> Lane:
    """The function `name` of float or double lanes, defined in the module when first used."""
    type_, element = args[0].type, args[0].element
    if element not in ("float", "double") or any(a.type != type_ for a in args):
        raise CodegenError(f"math function {name} on other types", got=type_, allowed="float or double, all equal")
    return lane.call(name, args, [element], lambda lanes: [body(name, lanes)])[0]


def body(name: str, lanes: list[Lane]) -> Lane:
    """The instructions of the function `name` on these lanes, in place."""
    entry = FUNCTIONS[name]
    if entry.via_double is not None and lanes[0].element == "float":
        return entry.via_double(*(x.convert("fpext", "double") for x in lanes)).convert("fptrunc", "float")
    return entry.build(*lanes)
