"""Shapes and axes: normalising what users write, and the questions that symbolic sizes raise.

What goes in: axes, shapes and sizes as NumPy takes them. What comes out: negative axes, tuples of sizes,
broadcast shapes. A question that symbolic sizes leave open is put to the recorder, which answers by the example at
hand and keeps a guard; what NumPy rejects is `Unsupported`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, SupportsIndex

import numpy as np

from broadloom.frontend.unsupported import Unsupported, bad_index, plain_numpy_raises
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle
from broadloom.ops.signature import holds
from broadloom.symbolic import Expr, Relation, Size, eq, floordiv, ge, mul, product

Shape = tuple[Size, ...]


def decide(r: Recorder, relation: Relation | bool) -> bool:
    """The truth of a relation between sizes: known, proven, or decided now and guarded."""
    answer = holds(relation, r.builder.decide)
    if answer is None:
        raise Unsupported(f"whether {relation} holds is not known", "compile with static sizes")
    return answer


def same(r: Recorder, a: Size, b: Size) -> bool:
    """Are two sizes equal?"""
    return a is b or decide(r, eq(a, b))


def not_negative(r: Recorder, sizes: Iterable[Size], error: str) -> None:
    """Refuses a negative size, with NumPy's error."""
    if not all(decide(r, ge(size, 0)) for size in sizes):
        raise plain_numpy_raises(error)


def as_size(x: object, what: str = "a size") -> Size:
    """A size given by the user: an int, a NumPy integer or a symbolic int."""
    if isinstance(x, Expr):
        return x
    if isinstance(x, ArrayHandle):
        raise Unsupported(f"{what} depends on the data of an array", "compute it before and pass it as an int")
    if not isinstance(x, SupportsIndex):
        raise plain_numpy_raises(f"{what} must be an int, got {type(x).__name__}")
    try:
        size = operator.index(x)
    except TypeError as error:  # an array that is no single integer
        raise plain_numpy_raises(f"{what} must be an int, got {type(x).__name__}") from error
    if not -(2**63) <= size < 2**63:
        raise Unsupported(f"{what} of more than 64 bits", "take it modulo the size that it is used with")
    return size


def as_shape(x: object) -> Shape:
    """A shape given as one int or a sequence of ints."""
    if isinstance(x, (list, tuple)):
        if any(isinstance(e, (bool, np.bool)) for e in x):  # some functions of NumPy take them
            raise Unsupported("a size is a bool", "pass an int")
        return tuple(as_size(e, "a shape") for e in x)
    if isinstance(x, np.ndarray):
        return tuple(int(e) for e in x)
    if isinstance(x, (bool, np.bool)):
        raise Unsupported("a size is a bool", "pass an int")
    return (as_size(x, "a shape"),)


def axis_from_end(axis: object, ndim: int) -> int:
    """One axis, as a negative number."""
    if isinstance(axis, (bool, np.bool)):  # some functions of NumPy take them
        raise Unsupported("an axis is a bool", "pass an int")
    a = as_size(axis, "an axis")
    if not isinstance(a, int):
        raise Unsupported("an axis is a symbolic int", "use a constant axis")
    if not -ndim <= a < ndim:
        raise bad_index(f"axis {a} is out of bounds for array of dimension {ndim}")
    return a if a < 0 else a - ndim


def axes_from_end(axis: object, ndim: int) -> tuple[int, ...]:
    """The axes of a reduction - None is all of them - negative and sorted."""
    if axis is None:
        return tuple(range(-ndim, 0))
    axes = [axis_from_end(a, ndim) for a in axis] if isinstance(axis, (tuple, list)) else [axis_from_end(axis, ndim)]
    if len(set(axes)) != len(axes):
        raise plain_numpy_raises("duplicate value in 'axis'")
    return tuple(sorted(axes))


def broadcast_sizes(r: Recorder, a: Size, b: Size) -> Size:
    """The size that two sizes of one axis broadcast to."""
    if a is b or a == b:
        return a
    if b == 1:
        return a
    if a == 1:
        return b
    if isinstance(a, Expr) or isinstance(b, Expr):
        if same(r, a, b):
            return a if isinstance(a, int) else b
        if isinstance(a, Expr) and same(r, a, 1):
            return b
        if isinstance(b, Expr) and same(r, b, 1):
            return a
    raise plain_numpy_raises(f"sizes {a} and {b} do not broadcast")


def broadcast_shapes(r: Recorder, *shapes: Sequence[Size]) -> Shape:
    """The shape that the shapes broadcast to."""
    ndim = max((len(s) for s in shapes), default=0)
    result: list[Size] = [1] * ndim
    for shape in shapes:
        offset = ndim - len(shape)
        for i, size in enumerate(shape):
            result[offset + i] = broadcast_sizes(r, result[offset + i], size)
    return tuple(result)


def same_shape(r: Recorder, a: Sequence[Size], b: Sequence[Size]) -> bool:
    """Are two shapes equal?"""
    return len(a) == len(b) and all(same(r, x, y) for x, y in zip(a, b, strict=True))


def expand(r: Recorder, x: ArrayHandle, shape: Shape) -> ArrayHandle:
    """`x` broadcast to `shape`; `x` itself if it has that shape."""
    if x.shape == shape:
        return x
    if not same_shape(r, broadcast_shapes(r, x.shape, shape), shape):
        raise plain_numpy_raises(f"shape {x.shape} does not broadcast to {shape}")
    return r.view("expand", x, shape=shape)


def count(sizes: Iterable[Any]) -> Size:
    """The product of sizes."""
    return product(tuple(sizes))


def reshape(r: Recorder, x: ArrayHandle, shape: Shape) -> ArrayHandle:
    """`x` in another shape, whose sizes are known to fit: a view where NumPy gives one, else a copy."""
    if x.shape == shape:
        return x
    # An array made of a NumPy scalar is an array of its own.
    return r.reshape(r.copy(x) if x.numpy_scalar else x, shape)


def insert_axes(r: Recorder, x: ArrayHandle, where: int, n: int = 1) -> ArrayHandle:
    """New axes of size 1 before axis number `where`."""
    return reshape(r, x, (*x.shape[:where], *(1,) * n, *x.shape[where:]))


def drop_axes(r: Recorder, x: ArrayHandle, axes: Iterable[int]) -> ArrayHandle:
    """Without the given axes, whose size is 1."""
    gone = {a % x.ndim for a in axes}
    return reshape(r, x, tuple(s for i, s in enumerate(x.shape) if i not in gone))


def permute(r: Recorder, x: ArrayHandle, axes: Sequence[int]) -> ArrayHandle:
    """Result axis j is axis `axes[j]` of `x`."""
    negative = tuple(a if a < 0 else a - x.ndim for a in axes)
    return x if negative == tuple(range(-x.ndim, 0)) else r.view("permute", x, axes=negative)


def move_axis_last(r: Recorder, x: ArrayHandle, axis: int) -> ArrayHandle:
    """`axis` becomes the last one."""
    a = axis % x.ndim
    return permute(r, x, [*(i for i in range(x.ndim) if i != a), a])


def cut(r: Recorder, x: ArrayHandle, axis: int, start: Size, size: Size, step: int = 1) -> ArrayHandle:
    """The view of `size` elements along `axis` from `start` by `step`, all in range."""
    a = axis % x.ndim
    core = x.ndim - a
    rest = x.shape[a + 1 :]
    return r.view(
        "slice",
        x,
        starts=(start, *(0,) * (core - 1)),
        sizes=(size, *rest),
        steps=(step, *(1,) * (core - 1)),
    )


def resolve_minus_one(r: Recorder, shape: Shape, total: Size) -> Shape:
    """The shape with its -1 replaced; checks that the sizes multiply to `total`."""
    holes = [i for i, s in enumerate(shape) if isinstance(s, int) and s < 0]
    if len(holes) > 1 or any(shape[i] != -1 for i in holes):
        raise plain_numpy_raises(f"cannot reshape into {shape}: only one size may be -1")
    if holes:
        known = count(s for i, s in enumerate(shape) if i != holes[0])
        if decide(r, eq(known, 0)):
            raise plain_numpy_raises(f"cannot reshape {total} elements into {shape}")
        size = floordiv(total, known)
        shape = (*shape[: holes[0]], size, *shape[holes[0] + 1 :])
        if not same(r, mul(size, known), total):
            raise plain_numpy_raises(f"cannot reshape {total} elements into {shape}")
    elif not same(r, count(shape), total):
        raise plain_numpy_raises(f"cannot reshape {total} elements into {shape}")
    return shape


def join(r: Recorder, parts: Sequence[ArrayHandle], axis: int) -> ArrayHandle:
    """The parts, of one dtype, one after the other. The other axes must agree: unlike the op, NumPy broadcasts none."""
    first = parts[0]
    for part in parts[1:]:
        for i in range(-first.ndim, 0):
            if i != axis and (part.ndim != first.ndim or not same(r, part.shape[i], first.shape[i])):
                raise plain_numpy_raises("all the input array dimensions except for the concatenation axis must match")
    result: ArrayHandle = r.op("concat", *parts, axis=axis)
    return result
