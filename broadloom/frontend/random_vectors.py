"""Keyed random vectors and choices: the entries of `bl.random` whose results are not one number an element.

What goes in: a key, parameters with an axis of their own, or an array to choose from. What comes out: fresh arrays.
What holds: sums over categories are added in a fixed order, so these too have the same bits everywhere; only
`multivariate_normal` leaves products to the linear algebra, whose last bits depend on the library.
"""

from __future__ import annotations

from broadloom import dtypes
from broadloom.frontend import shapes, solving
from broadloom.frontend.drawing import (
    CHANCE,
    NOT_NEGATIVE,
    Drawing,
    Number,
    drawing,
    float_dtype,
    invalid,
    key_to_draw,
    parameter,
    positions,
    result_shape,
    static_size,
)
from broadloom.frontend.operands import as_array, call, cast
from broadloom.frontend.reductions import np_max
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle

MOST_CATEGORIES = 1000  # of a multinomial, whose categories are drawn one after the other


def total(r: Recorder, x: ArrayHandle) -> ArrayHandle:
    """The sum along the last axis, as the last of the cumulative sums, whose order is no choice of anybody's."""
    return shapes.cut(r, call(r, "cumsum", x, axis=-1), -1, x.shape[-1] - 1, 1)


def dirichlet(r: Recorder, key: object, alpha: object, size: object = None, dtype: object = None) -> ArrayHandle:
    """`bl.random.dirichlet`."""
    a = as_array(r, alpha)
    if a.ndim != 1:
        raise invalid("alpha of a Dirichlet distribution", f"{a.ndim} axes", "one axis", "map it with bl.vmap")
    if shapes.same(r, a.shape[0], 0):
        raise invalid("alpha of a Dirichlet distribution", "no elements", "1 or more")
    number, valid = parameter(r, "alpha", a, NOT_NEGATIVE)
    shape = (*result_shape(r, size, ()), a.shape[0])
    draw = Drawing(r, key_to_draw(r, key), positions(r, shape), shape, (), valid)
    x, y = draw.gamma(number)
    logs = (x.log() + y).handle
    shifted = Number(r, call(r, "subtract", logs, np_max(r, logs, -1, keepdims=True))).exp()
    return draw.finish(Number(r, call(r, "divide", shifted.handle, total(r, shifted.handle))), float_dtype(dtype))


def multinomial(r: Recorder, key: object, n: object, pvals: object, size: object = None) -> ArrayHandle:
    """`bl.random.multinomial`."""
    chances, _ = parameter(r, "pvals", as_array(r, pvals), CHANCE)
    p = chances.handle
    if p.ndim < 1:
        raise invalid("pvals of a multinomial distribution", "a number", "an axis of chances")
    count = static_size(p.shape[-1], "a multinomial distribution")
    if not 0 < count <= MOST_CATEGORIES:
        raise invalid("pvals of a multinomial distribution", f"{count} categories", f"1 to {MOST_CATEGORIES}")
    columns = [Number(r, shapes.drop_axes(r, shapes.cut(r, p, -1, k, 1), [-1])) for k in range(count)]
    draw = drawing(r, key, size, ("n", n, NOT_NEGATIVE), *(("pvals", c.handle, CHANCE) for c in columns))
    trials, *columns = draw.parameters
    left, rest, drawn = trials, trials.of(1.0), []
    for k, chance in enumerate(columns[:-1]):
        share = chance / rest
        one = share.of(1.0)
        share = share.where(share.compare("less", 1.0), one)
        found = draw.binomial(left, share.where(chance.of(0.0).compare("less", chance), 0.0), k)
        drawn.append(found)
        left, rest = left - found, rest - chance
    results = [draw.finish(x, dtypes.int64) for x in (*drawn, left)]
    return call(r, "stack", *results, axis=-1)


def multivariate_normal(
    r: Recorder, key: object, mean: object, cov: object, size: object = None, dtype: object = None
) -> ArrayHandle:
    """`bl.random.multivariate_normal`."""
    m = cast(r, as_array(r, mean), dtypes.float64)
    c = cast(r, as_array(r, cov), dtypes.float64)
    if m.ndim != 1 or c.ndim != 2 or not shapes.same_shape(r, c.shape, (m.shape[0], m.shape[0])):
        raise invalid("mean and cov", f"shapes {m.shape} and {c.shape}", "(n,) and (n, n)", "map it with bl.vmap")
    shape = (*result_shape(r, size, ()), m.shape[0])
    draw = Drawing(r, key_to_draw(r, key), positions(r, shape), shape, (), None)
    factor = solving.np_cholesky(r, c)
    z = draw.whole(draw.normal().handle)
    x = call(r, "matvec", factor, z)
    return draw.whole(cast(r, call(r, "add", m, x), float_dtype(dtype)))
