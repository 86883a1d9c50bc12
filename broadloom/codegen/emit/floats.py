"""Float arithmetic with NumPy's meaning: nan propagation, signed zeros, Python's floor division.

What goes in: float or double lanes. What comes out: the lane NumPy's loop would store; + - * / sqrt and the
remainders are exact to the bit.
"""

from __future__ import annotations

from broadloom.codegen import vmath
from broadloom.codegen.emit.cell import Cell
from broadloom.codegen.lane import Lane


def add(_: Cell, x: Lane, y: Lane) -> Lane:
    return x + y


def subtract(_: Cell, x: Lane, y: Lane) -> Lane:
    return x - y


def multiply(_: Cell, x: Lane, y: Lane) -> Lane:
    return x * y


def divide(_: Cell, x: Lane, y: Lane) -> Lane:
    return x / y


def fma(_: Cell, x: Lane, y: Lane, z: Lane) -> Lane:
    """Rounded once on every target: LLVM calls the C library where there is no instruction."""
    return x.intrinsic("fma", y, z)


def negative(_: Cell, x: Lane) -> Lane:
    return -x


def absolute(_: Cell, x: Lane) -> Lane:
    return x.abs()


def identity(_: Cell, x: Lane) -> Lane:
    return x


def sign(_: Cell, x: Lane) -> Lane:
    """-1, 0 or 1; +0 for both zeros; nan stays."""
    return (x > 0.0).where(1.0, (x < 0.0).where(-1.0, x.eq(0.0).where(0.0, x)))


def square(_: Cell, x: Lane) -> Lane:
    return x * x


def reciprocal(_: Cell, x: Lane) -> Lane:
    return 1.0 / x


def sqrt(_: Cell, x: Lane) -> Lane:
    return x.sqrt()


# ---- division -----------------------------------------------------------------------------------------------------


def fmod(_: Cell, x: Lane, y: Lane) -> Lane:
    return vmath.call("fmod", x, y)


def _floor_step(x: Lane, y: Lane) -> tuple[Lane, Lane]:
    """(fmod(x, y), whether it must move by y to get the sign of y)."""
    rest = vmath.call("fmod", x, y)
    return rest, rest.ne(0.0) & ((y < 0.0) ^ (rest < 0.0))


def floor_divide(_: Cell, x: Lane, y: Lane) -> Lane:
    rest, step = _floor_step(x, y)
    quotient = (x - rest) / y
    quotient = step.where(quotient - 1.0, quotient)
    floor = quotient.rounded("floor")
    floor = ((quotient - floor) > 0.5).where(floor + 1.0, floor)
    plain = x / y
    result = quotient.ne(0.0).where(floor, plain.lit(0.0).copysign(plain))
    return y.eq(0.0).where(plain, result)


def remainder(_: Cell, x: Lane, y: Lane) -> Lane:
    rest, step = _floor_step(x, y)
    signed = rest.ne(0.0).where(step.where(rest + y, rest), rest.copysign(y))
    return y.eq(0.0).where(rest, signed)


# ---- order --------------------------------------------------------------------------------------------------------


def maximum(_: Cell, x: Lane, y: Lane) -> Lane:
    return ((x >= y) | x.isnan()).where(x, y)


def minimum(_: Cell, x: Lane, y: Lane) -> Lane:
    return ((x <= y) | x.isnan()).where(x, y)


def fmax(_: Cell, x: Lane, y: Lane) -> Lane:
    return ((x >= y) | y.isnan()).where(x, y)


def fmin(_: Cell, x: Lane, y: Lane) -> Lane:
    return ((x <= y) | y.isnan()).where(x, y)


def clip(_: Cell, x: Lane, low: Lane, high: Lane) -> Lane:
    """minimum(maximum(x, low), high); on a tie the bound is taken."""
    above = ((x > low) | x.isnan()).where(x, low)
    return ((above < high) | above.isnan()).where(above, high)


def equal(_: Cell, x: Lane, y: Lane) -> Lane:
    return x.eq(y)


def not_equal(_: Cell, x: Lane, y: Lane) -> Lane:
    return x.ne(y)


def less(_: Cell, x: Lane, y: Lane) -> Lane:
    return x < y


def less_equal(_: Cell, x: Lane, y: Lane) -> Lane:
    return x <= y


def greater(_: Cell, x: Lane, y: Lane) -> Lane:
    return x > y


def greater_equal(_: Cell, x: Lane, y: Lane) -> Lane:
    return x >= y


# ---- rounding and bits --------------------------------------------------------------------------------------------


def floor(_: Cell, x: Lane) -> Lane:
    return x.rounded("floor")


def ceil(_: Cell, x: Lane) -> Lane:
    return x.rounded("ceil")


def trunc(_: Cell, x: Lane) -> Lane:
    return x.rounded("trunc")


def round_even(_: Cell, x: Lane) -> Lane:
    return x.rounded("roundeven")


def isnan(_: Cell, x: Lane) -> Lane:
    return x.isnan()


def isinf(_: Cell, x: Lane) -> Lane:
    return x.abs().eq(x.inf)


def isfinite(_: Cell, x: Lane) -> Lane:
    return x.abs() < x.inf


def signbit(_: Cell, x: Lane) -> Lane:
    return x.as_int().slt(0)


def copysign(_: Cell, x: Lane, y: Lane) -> Lane:
    return x.copysign(y)


def interpolate(cell: Cell, x: Lane, x0: Lane, x1: Lane, y0: Lane, y1: Lane) -> Lane:
    rise, run = y1 - y0, x1 - x0
    slope = rise * (1.0 / run) if cell.attrs["inverse"] else rise / run
    first, second = slope * (x - x0) + y0, slope * (x - x1) + y1
    second = (second.isnan() & y0.eq(y1)).where(y0, second)
    line = first.isnan().where(second, first)
    return x.isnan().where(x, x.eq(x1).where(y1, x.eq(x0).where(y0, line)))


def heaviside(_: Cell, x: Lane, at_zero: Lane) -> Lane:
    step = (x < 0.0).where(0.0, x.eq(0.0).where(at_zero, 1.0))
    return x.isnan().where(x, step)


def nextafter(_: Cell, x: Lane, y: Lane) -> Lane:
    """One step in the bit pattern: away from zero where y is farther out, else toward it."""
    bits = x.as_int()
    outward = (x < y) ^ (x < 0.0)
    stepped = outward.where(bits + 1, bits - 1).as_float()
    smallest = x.as_int().lit(1).as_float().copysign(y)
    moved = x.eq(0.0).where(smallest, stepped)
    return (x.isnan() | y.isnan()).where(x + y, x.eq(y).where(y, moved))


def zero(_: Cell, x: Lane) -> Lane:
    """The imaginary part of a real value."""
    return x.lit(0.0)
