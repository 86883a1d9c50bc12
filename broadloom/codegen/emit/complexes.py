"""Complex arithmetic on pairs (real, imaginary), with NumPy's formulas where results are compared bit by bit.

What goes in: pairs of float or double lanes. What comes out: a pair, or a real or i1 lane.

What holds: division and reciprocal are Smith's; order is lexicographic and false where an imaginary part is nan;
maximum and minimum hand on the first operand that holds a nan; the magnitude neither overflows nor underflows.
"""

from __future__ import annotations

from broadloom.codegen import vmath
from broadloom.codegen.emit.cell import Cell, Pair
from broadloom.codegen.lane import Lane


def both(condition: Lane, yes: Pair, no: Pair) -> Pair:
    """Selects a whole pair."""
    return condition.where(yes[0], no[0]), condition.where(yes[1], no[1])


def times(x: Pair, y: Pair) -> Pair:
    """The product by its definition."""
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


def quotient(x: Pair, y: Pair) -> Pair:
    """Smith's division: scaled by the larger part of the divisor; by zero, parts are divided by zero."""
    (a, b), (c, d) = x, y
    wide = c.abs() >= d.abs()
    big, small = wide.where(c, d), wide.where(d, c)
    ratio = small / big
    scale = 1.0 / (big + small * ratio)
    p, q = wide.where(a, b), wide.where(b, a)
    real = (p + q * ratio) * scale
    turned = wide.where(b, b * ratio) - wide.where(a * ratio, a)
    result = real, turned * scale
    at_zero = c.eq(0.0) & d.eq(0.0)
    return both(at_zero, (a / c.abs(), b / c.abs()), result)


# ---- arithmetic ---------------------------------------------------------------------------------------------------


def add(_: Cell, x: Pair, y: Pair) -> Pair:
    return x[0] + y[0], x[1] + y[1]


def subtract(_: Cell, x: Pair, y: Pair) -> Pair:
    return x[0] - y[0], x[1] - y[1]


def multiply(_: Cell, x: Pair, y: Pair) -> Pair:
    return times(x, y)


def divide(_: Cell, x: Pair, y: Pair) -> Pair:
    return quotient(x, y)


def negative(_: Cell, x: Pair) -> Pair:
    return -x[0], -x[1]


def identity(_: Cell, x: Pair) -> Pair:
    return x


def conj(_: Cell, x: Pair) -> Pair:
    return x[0], -x[1]


def real(_: Cell, x: Pair) -> Lane:
    return x[0]


def imag(_: Cell, x: Pair) -> Lane:
    return x[1]


def make(_: Cell, re: Lane, im: Lane) -> Pair:
    return re, im


def absolute(_: Cell, x: Pair) -> Lane:
    return vmath.call("hypot", *x)


def square(_: Cell, x: Pair) -> Pair:
    return x[0] * x[0] - x[1] * x[1], x[0] * x[1] + x[1] * x[0]


def reciprocal(_: Cell, x: Pair) -> Pair:
    re, im = x
    wide = im.abs() <= re.abs()
    big, small = wide.where(re, im), wide.where(im, re)
    ratio = small / big
    scale = big + small * ratio
    return wide.where(1.0, ratio) / scale, wide.where(-ratio, -1.0) / scale


def sign(_: Cell, x: Pair) -> Pair:
    """z/|z|; 0 for 0; an infinite part alone gives its direction; nan for the rest. Where |z| overflows though z is
    finite, it is the direction of the imaginary part, as NumPy has it."""
    re, im = x
    size = vmath.call("hypot", re, im)
    direction = re / size, im / size
    endless = re.abs().eq(re.inf)
    along = endless.where(re.lit(1.0).copysign(re), 0.0), endless.where(0.0, im.lit(1.0).copysign(im))
    direction = both(size.eq(re.inf), along, direction)
    direction = both(size.eq(0.0), (re.lit(0.0), re.lit(0.0)), direction)
    unknown = size.isnan() | (endless & im.abs().eq(im.inf))
    return both(unknown, (re.nan, re.nan), direction)


# ---- order --------------------------------------------------------------------------------------------------------


def _ordered(x: Pair, y: Pair) -> Lane:
    return ~(x[1].isnan() | y[1].isnan())


def _has_nan(x: Pair) -> Lane:
    return x[0].isnan() | x[1].isnan()


def equal(_: Cell, x: Pair, y: Pair) -> Lane:
    return x[0].eq(y[0]) & x[1].eq(y[1])


def not_equal(_: Cell, x: Pair, y: Pair) -> Lane:
    return x[0].ne(y[0]) | x[1].ne(y[1])


def less(_: Cell, x: Pair, y: Pair) -> Lane:
    return ((x[0] < y[0]) & _ordered(x, y)) | (x[0].eq(y[0]) & (x[1] < y[1]))


def less_equal(_: Cell, x: Pair, y: Pair) -> Lane:
    return ((x[0] < y[0]) & _ordered(x, y)) | (x[0].eq(y[0]) & (x[1] <= y[1]))


def greater(cell: Cell, x: Pair, y: Pair) -> Lane:
    return less(cell, y, x)


def greater_equal(cell: Cell, x: Pair, y: Pair) -> Lane:
    return less_equal(cell, y, x)


def maximum(cell: Cell, x: Pair, y: Pair) -> Pair:
    return both(_has_nan(x) | greater_equal(cell, x, y), x, y)


def minimum(cell: Cell, x: Pair, y: Pair) -> Pair:
    return both(_has_nan(x) | less_equal(cell, x, y), x, y)


def fmax(cell: Cell, x: Pair, y: Pair) -> Pair:
    return both(_has_nan(y) | greater_equal(cell, x, y), x, y)


def fmin(cell: Cell, x: Pair, y: Pair) -> Pair:
    return both(_has_nan(y) | less_equal(cell, x, y), x, y)


def _before(x: Pair, y: Pair) -> Lane:
    """Plain lexicographic order, which takes an imaginary nan for no obstacle: clip's."""
    return x[0].eq(y[0]).where(x[1] < y[1], x[0] < y[0])


def clip(_: Cell, x: Pair, low: Pair, high: Pair) -> Pair:
    """minimum(maximum(x, low), high); on a tie the bound is taken."""
    above = both(_has_nan(x) | _before(low, x), x, low)
    return both(_has_nan(above) | _before(above, high), above, high)


def isnan(_: Cell, x: Pair) -> Lane:
    return _has_nan(x)


def isinf(_: Cell, x: Pair) -> Lane:
    return x[0].abs().eq(x[0].inf) | x[1].abs().eq(x[1].inf)


def isfinite(_: Cell, x: Pair) -> Lane:
    return (x[0].abs() < x[0].inf) & (x[1].abs() < x[1].inf)


def round_even(_: Cell, x: Pair) -> Pair:
    return x[0].rounded("roundeven"), x[1].rounded("roundeven")
