"""Keyed choices and permutations: the entries of `bl.random` that pick among elements.

What goes in: a key, and an array or a number of elements. What comes out: fresh arrays. What holds: an order of n
elements is that of n random words of 64 bits, which a stable sort finds, so all orders are equally likely up to a part
in 2**65/n**2; a choice without replacement is the beginning of one.
"""

from __future__ import annotations

from broadloom.frontend import shapes
from broadloom.frontend.drawing import (
    NOT_NEGATIVE,
    Drawing,
    Number,
    drawing,
    invalid,
    parameter,
    positions,
    result_shape,
    word_of_key,
)
from broadloom.frontend.indexing import take, take_along_axis
from broadloom.frontend.operands import as_array, call, from_size
from broadloom.frontend.random import integers
from broadloom.frontend.searching import search
from broadloom.frontend.ufuncs import scalar
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle
from broadloom.symbolic import Expr, Size, le


def permutation(r: Recorder, key: object, x: object, axis: int = 0) -> ArrayHandle:
    """`bl.random.permutation`."""
    if isinstance(x, (int, Expr)):
        return _order(r, key, _count(x))
    a = as_array(r, x)
    if a.ndim == 0:
        raise invalid("a permutation of an array without axes", a.dtype, "an int, or an array with axes")
    where = shapes.axis_from_end(axis, a.ndim)
    return take(r, a, _order(r, key, a.shape[where]), axis=where)


def permuted(r: Recorder, key: object, x: object, axis: int | None = None) -> ArrayHandle:
    """`bl.random.permuted`."""
    a = as_array(r, x)
    flat = shapes.reshape(r, a, (shapes.count(a.shape),)) if axis is None else a
    where = -1 if axis is None else shapes.axis_from_end(axis, a.ndim)
    draw = drawing(r, key, flat.shape)
    shuffled = take_along_axis(r, flat, call(r, "argsort", draw.word(), axis=where), where)
    return r.copy(shapes.reshape(r, shuffled, a.shape), "C")


def choice(
    r: Recorder,
    key: object,
    a: object,
    size: object = None,
    replace: bool = True,
    p: object = None,
    axis: int = 0,
    shuffle: bool = True,
) -> ArrayHandle:
    """`bl.random.choice`."""
    x = None if isinstance(a, (int, Expr)) else as_array(r, a)
    if x is not None and x.ndim == 0:
        raise invalid("a choice from an array without axes", x.dtype, "an int, or an array with axes")
    where = -1 if x is None else shapes.axis_from_end(axis, x.ndim)
    n = _count(a) if x is None else x.shape[where]  # type: ignore[arg-type]
    shape = result_shape(r, size, ())
    chances = None if p is None else _chances(r, p, n)
    if not replace:
        index = _without_replacement(r, key, n, shape, chances)
    elif chances is None:
        index = _any_of(r, key, n, shape)
    else:
        index = _by_chance(r, key, shape, chances)
    return scalar(r, index) if x is None else take(r, x, index, axis=where)


def _count(n: int | Expr) -> Size:
    if isinstance(n, int) and n < 0:
        raise invalid("a number of elements", n, "0 or more")
    return n


def _chances(r: Recorder, p: object, n: Size) -> Number:
    chances, valid = parameter(r, "p", as_array(r, p), NOT_NEGATIVE)
    if chances.handle.ndim != 1 or not shapes.same(r, chances.handle.shape[0], n):
        raise invalid("the chances p of a choice", f"shape {chances.handle.shape}", f"({n},): one for each element")
    return chances if valid is None else chances.where(valid, 0.0)


def _order(r: Recorder, key: object, n: Size) -> ArrayHandle:
    """0, 1, ..., n - 1 in a random order."""
    return call(r, "argsort", drawing(r, key, (n,)).word(), axis=-1)


def _any_of(r: Recorder, key: object, n: Size, shape: shapes.Shape) -> ArrayHandle:
    if n == 0:
        if shapes.same(r, shapes.count(shape), 0):
            return r.copy(shapes.expand(r, from_size(r, 0), shape))
        raise invalid("a choice from nothing", n, "1 or more elements")
    return integers(r, key, 0, n if isinstance(n, int) else from_size(r, n), shape)


def _by_chance(r: Recorder, key: object, shape: shapes.Shape, chances: Number) -> ArrayHandle:
    """The first element at which the sum of the chances exceeds a uniform number times all of them."""
    sums = call(r, "cumsum", chances.handle, axis=-1)
    last = shapes.cut(r, sums, -1, chances.handle.shape[0] - 1, 1)
    draw = drawing(r, key, shape)
    drawn = search(r, call(r, "divide", sums, last), draw.unit().handle, "right")
    return draw.whole(drawn)


def _without_replacement(r: Recorder, key: object, n: Size, shape: shapes.Shape, chances: Number | None) -> ArrayHandle:
    """The first of all elements in a random order. With chances: in the order of exponential numbers, each over its
    element's chance, as if drawn one by one (Efraimidis, Spirakis, "Weighted random sampling with a reservoir")."""
    many = shapes.count(shape)
    if not shapes.decide(r, le(many, n)):
        raise invalid("a choice without replacement of more elements than there are", f"{many} of {n}", f"up to {n}")
    if chances is None:
        order = _order(r, key, n)
    else:
        draw = Drawing(r, word_of_key(r, key), positions(r, (n,)), (n,), (), None)
        order = call(r, "argsort", (draw.exponential() / chances).handle, axis=-1)
    return shapes.reshape(r, r.copy(shapes.cut(r, order, -1, 0, many)), shape)
