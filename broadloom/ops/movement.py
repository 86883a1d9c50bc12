"""Data movement: rearranged copies of operands, no arithmetic.

Attributes speak of core axes, counted from the end. `concat` and `stack` take one or more operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from broadloom.dtypes import ALL, DType
from broadloom.errors import ShapeError
from broadloom.ops import rules
from broadloom.ops.record import Dims, Op, Sample, Trait
from broadloom.ops.rules import Array
from broadloom.ops.signature import Combine, Count, Decide, Dim, Expression, Signature, holds
from broadloom.ops.views import Check, check_slices, read_slices, slice_key
from broadloom.symbolic import add, lt, smax

Ints = tuple[int, ...]


def movement(
    name: str,
    arity: int | None,
    signature: Callable[[Mapping[str, Any]], Signature],
    reference: Callable[..., Array],
    attr_names: tuple[str, ...],
    samples: tuple[Sample, ...],
    doc: str,
    check: Check | None = None,
) -> Op:
    """An op that moves elements of operands of one dtype; every dtype has a cell."""
    operands = max(len(samples[0].core_shapes), 1)
    return Op(
        name=name,
        doc=doc,
        signature=signature,
        result_dtypes=rules.same_rule(name, {}),
        reference=reference,
        arity=arity,
        attr_names=attr_names,
        traits=frozenset({Trait.CHEAP}),
        samples=samples,
        sample_dtypes=tuple((d,) * operands for d in ALL),
        check=check,
    )


def loop_shape(arrays: tuple[Array, ...], ranks: Ints) -> Ints:
    """The broadcast loop shape of arrays whose last `ranks` axes are core."""
    return np.broadcast_shapes(*(a.shape[: a.ndim - r] for a, r in zip(arrays, ranks, strict=True)))


def with_loop(x: Array, loop: Ints, rank: int) -> Array:
    """`x` broadcast to the loop shape, its last `rank` axes kept."""
    return np.broadcast_to(x, loop + x.shape[x.ndim - rank :])


# ---- flip, roll, pad ----------------------------------------------------------------------------------------------


def _flip_signature(attrs: Mapping[str, Any]) -> Signature:
    dims = rules.named(rules.depth(rules.read_axes("flip", attrs)))
    return Signature((dims,), (dims,))


def _flip(x: Array, axes: Ints) -> Array:
    return np.asarray(np.flip(x, axes))


def _roll_signature(attrs: Mapping[str, Any]) -> Signature:
    axes = rules.read_axes("roll", attrs)
    shifts = rules.read_sizes("roll", attrs, "shifts", None)
    if len(shifts) != len(axes):
        raise ShapeError("roll: shifts and axes differ in length", got=f"{shifts}, {axes}")
    dims = rules.named(rules.depth(axes))
    return Signature((dims,), (dims,))


def _roll(x: Array, shifts: Ints, axes: Ints) -> Array:
    return np.roll(x, shifts, axes)


def _padded(name: str, attrs: Mapping[str, Any]) -> tuple[tuple[Dim, ...], tuple[Expression, ...]]:
    """The core dims of the operand, and of the result: with `before` and `after` elements more along each axis."""
    before, after = (rules.read_sizes(name, attrs, side) for side in ("before", "after"))
    if len(before) != len(after):
        raise ShapeError(f"{name}: before and after differ in length", got=f"{before}, {after}")
    dims = rules.named(len(before))
    sides = zip(dims, before, after, strict=True)
    return dims, tuple(Combine("+", Combine("+", d, Dim(b)), Dim(a)) for d, b, a in sides)


def _pad_signature(attrs: Mapping[str, Any]) -> Signature:
    dims, core = _padded("pad", attrs)
    return Signature((dims, ()), (core,))


def _pad(x: Array, value: Array, before: Ints, after: Ints) -> Array:
    k = len(before)
    loop = loop_shape((x, value), (k, 0))
    core = x.shape[x.ndim - k :]
    result = np.empty(loop + tuple(b + n + a for b, n, a in zip(before, core, after, strict=True)), x.dtype)
    inner: tuple[Any, ...] = (..., *(slice(b, b + n) for b, n in zip(before, core, strict=True)))
    result[...] = value.reshape(value.shape + (1,) * k)
    result[inner] = x
    return result


EXTENSIONS = ("edge", "reflect", "symmetric", "wrap")


def _extend_signature(attrs: Mapping[str, Any]) -> Signature:
    dims, core = _padded("extend", attrs)
    if attrs["mode"] not in EXTENSIONS:
        raise ShapeError("extend: unknown mode", got=attrs["mode"], allowed=", ".join(EXTENSIONS))
    return Signature((dims,), (core,))


def _extend_check(dims: Dims, dtypes: tuple[DType, ...], attrs: Mapping[str, Any], decide: Decide | None) -> Dims:
    """What an axis is continued by lies within one period of it. An open question passes without `decide`."""
    mode, widths = attrs["mode"], list(zip(attrs["before"], attrs["after"], strict=True))
    for n, width in zip(rules.dim_names(len(widths)), widths, strict=True):
        if width == (0, 0):
            continue
        least = [1] if mode == "edge" else [add(w, 1) if mode == "reflect" else smax(w, 1) for w in width]
        if any(holds(lt(dims[n], m), decide) for m in least):
            raise ShapeError(
                f"extend: an axis is too short to be continued by {mode!r}",
                got=f"{dims[n]} elements, before and after {width}",
                allowed=f"at least {', '.join(map(str, least))} elements",
            )
    return {}


def _extend(x: Array, before: Ints, after: Ints, mode: Any) -> Array:
    loop = ((0, 0),) * (x.ndim - len(before))
    return np.pad(x, (*loop, *zip(before, after, strict=True)), mode=mode)


# ---- concat, stack ------------------------------------------------------------------------------------------------


def _concat_signature(attrs: Mapping[str, Any]) -> Signature:
    names = rules.dim_names(-rules.read_axis("concat", attrs))
    dims = (Dim(names[0], each=True), *map(Dim, names[1:]))
    return Signature((dims,), (dims,), variadic=True)


def _concat(*arrays: Array, axis: int) -> Array:
    loop = loop_shape(arrays, (-axis,) * len(arrays))
    return np.concatenate([with_loop(a, loop, -axis) for a in arrays], axis=axis)


def _stack_signature(attrs: Mapping[str, Any]) -> Signature:
    dims = rules.named(-rules.read_axis("stack", attrs) - 1)
    return Signature((dims,), ((Count(), *dims),), variadic=True)


def _stack(*arrays: Array, axis: int) -> Array:
    rank = -axis - 1
    loop = loop_shape(arrays, (rank,) * len(arrays))
    return np.stack([with_loop(a, loop, rank) for a in arrays], axis=axis)


# ---- repeat, tile -------------------------------------------------------------------------------------------------


def _repeat_signature(attrs: Mapping[str, Any]) -> Signature:
    dims = rules.named(-rules.read_axis("repeat", attrs))
    repeats = attrs["repeats"]
    if isinstance(repeats, tuple):
        counts = rules.read_sizes("repeat", attrs, "repeats")
        if not all(isinstance(c, int) for c in counts):
            raise ShapeError("repeat: a tuple of repeats holds ints", got=repeats)
        return Signature(((Dim(len(counts)), *dims[1:]),), ((Dim(sum(counts)), *dims[1:]),))
    first = Combine("*", dims[0], Dim(rules.read_size("repeat", attrs, "repeats")))
    return Signature((dims,), ((first, *dims[1:]),))


def _repeat(x: Array, repeats: int | Ints, axis: int) -> Array:
    return np.repeat(x, repeats, axis)


def _tile_signature(attrs: Mapping[str, Any]) -> Signature:
    reps = rules.read_sizes("tile", attrs, "reps")
    dims = rules.named(len(reps))
    core: tuple[Expression, ...] = tuple(Combine("*", d, Dim(r)) for d, r in zip(dims, reps, strict=True))
    return Signature((dims,), (core,))


def _tile(x: Array, reps: Ints) -> Array:
    return np.tile(x, (1,) * (x.ndim - len(reps)) + reps)


# ---- slice_update -------------------------------------------------------------------------------------------------


def _slice_update_signature(attrs: Mapping[str, Any]) -> Signature:
    _, sizes, _ = read_slices("slice_update", attrs)
    dims = rules.named(len(sizes))
    return Signature((dims, tuple(map(Dim, sizes))), (dims,))


def _slice_update(x: Array, value: Array, starts: Ints, sizes: Ints, steps: Ints) -> Array:
    k = len(sizes)
    result = with_loop(x, loop_shape((x, value), (k, k)), k).copy()
    result[slice_key(starts, sizes, steps)] = value
    return result


def _update(shape: Ints, starts: Ints, sizes: Ints, steps: Ints) -> Sample:
    return Sample((shape, sizes), {"starts": starts, "sizes": sizes, "steps": steps})


OPS = (
    movement(
        "flip",
        1,
        _flip_signature,
        _flip,
        ("axes",),
        (Sample(((3,),), {"axes": (-1,)}), Sample(((2, 3),), {"axes": (-2,)}), Sample(((2, 3),), {"axes": (-2, -1)})),
        "Each of `axes` reversed.",
    ),
    movement(
        "roll",
        1,
        _roll_signature,
        _roll,
        ("shifts", "axes"),
        (
            Sample(((5,),), {"shifts": (2,), "axes": (-1,)}),
            Sample(((3, 4),), {"shifts": (-1, 7), "axes": (-2, -1)}),
            Sample(((3, 2),), {"shifts": (1,), "axes": (-2,)}),
            Sample(((0,),), {"shifts": (1,), "axes": (-1,)}),
        ),
        "Axis `axes[i]` rotated by `shifts[i]`: element j comes from j - shift modulo its size.",
    ),
    movement(
        "pad",
        2,
        _pad_signature,
        _pad,
        ("before", "after"),
        (
            Sample(((3,), ()), {"before": (1,), "after": (2,)}),
            Sample(((2, 3), ()), {"before": (0, 2), "after": (1, 0)}),
            Sample(((0,), ()), {"before": (2,), "after": (1,)}),
        ),
        "`pad(x, value)`: x with before[i] and after[i] elements of the 0-d value around core axis i.",
    ),
    movement(
        "extend",
        1,
        _extend_signature,
        _extend,
        ("before", "after", "mode"),
        (
            Sample(((3,),), {"before": (1,), "after": (2,), "mode": "edge"}),
            Sample(((2, 4),), {"before": (0, 3), "after": (1, 0), "mode": "reflect"}),
            Sample(((3, 2),), {"before": (2, 1), "after": (3, 2), "mode": "symmetric"}),
            Sample(((2, 3),), {"before": (1, 3), "after": (2, 0), "mode": "wrap"}),
        ),
        """x continued by before[i] and after[i] elements around core axis i, which is not empty: its last one again
        ("edge"), its elements backwards without or with the last one ("reflect", "symmetric"), or from its other end
        ("wrap"); the last three within one period.""",
        check=_extend_check,
    ),
    movement(
        "concat",
        None,
        _concat_signature,
        _concat,
        ("axis",),
        (
            Sample(((2,), (3,)), {"axis": -1}),
            Sample(((2, 3), (1, 3)), {"axis": -2}),
            Sample(((0,), (2,)), {"axis": -1}),
        ),
        "The operands one after the other along core axis `axis`; the axes behind it agree.",
    ),
    movement(
        "stack",
        None,
        _stack_signature,
        _stack,
        ("axis",),
        (Sample(((), ()), {"axis": -1}), Sample(((2,), (2,)), {"axis": -2}), Sample(((2, 3), (2, 3)), {"axis": -3})),
        "The operands along a new axis, which is axis `axis` of the result.",
    ),
    movement(
        "repeat",
        1,
        _repeat_signature,
        _repeat,
        ("repeats", "axis"),
        (
            Sample(((3,),), {"repeats": 2, "axis": -1}),
            Sample(((2, 3),), {"repeats": 3, "axis": -2}),
            Sample(((3,),), {"repeats": (2, 0, 1), "axis": -1}),
            Sample(((3,),), {"repeats": 0, "axis": -1}),
        ),
        "Each element of the axis `repeats` times in a row, or `repeats[i]` times for a tuple of ints.",
    ),
    movement(
        "tile",
        1,
        _tile_signature,
        _tile,
        ("reps",),
        (Sample(((3,),), {"reps": (2,)}), Sample(((2, 3),), {"reps": (2, 3)}), Sample(((2,),), {"reps": (0,)})),
        "The last len(reps) axes, whole, reps[i] times.",
    ),
    movement(
        "slice_update",
        2,
        _slice_update_signature,
        _slice_update,
        ("starts", "sizes", "steps"),
        (
            _update((6,), (1,), (4,), (1,)),
            _update((6,), (5,), (3,), (-2,)),
            _update((4, 5), (0, 4), (2, 5), (3, -1)),
            _update((3,), (0,), (0,), (1,)),
        ),
        "`slice_update(x, value)`: x with the elements that `slice` of the same attributes reads replaced by value.",
        check_slices("slice_update"),
    ),
)
