"""Ops that read or write where integer arrays say: take, take_along_axis, gather, scatter.

Index operands are integers of any width; an index lies in [-n, n), negative ones count from the end; any other
raises IndexError at run time with NumPy's message. What holds: all indices are checked before anything is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from broadloom.dtypes import ALL, DType, int32, int64, uint8
from broadloom.errors import ShapeError
from broadloom.ops import rules
from broadloom.ops.movement import loop_shape, with_loop
from broadloom.ops.record import Op, Sample, Trait
from broadloom.ops.rules import Array
from broadloom.ops.signature import Dim, Signature

Ints = tuple[int, ...]


def _wrapped(index: Array, size: int, axis: int) -> Array:
    """The indices as non-negative int64. Raises `IndexError` for the first that is out of bounds."""
    bad = np.ravel((index < -size) | (index >= size))
    if bad.any():
        first = np.ravel(index)[int(np.argmax(bad))]
        raise IndexError(f"index {first} is out of bounds for axis {axis} with size {size}")
    wide = np.array(index, np.int64, order="C")
    return np.asarray(np.where(wide < 0, wide + size, wide))


def _grid(loop: Ints, further: int) -> tuple[Array, ...]:
    """Index arrays that run over the loop dims, with `further` axes of size 1 behind."""
    rank = len(loop) + further
    return tuple(np.arange(n).reshape((-1,) + (1,) * (rank - d - 1)) for d, n in enumerate(loop))


def _read(x: Array, indices: tuple[Array, ...], axes: Ints, core: int) -> Array:
    """x at `indices`, which are loop dims; the core axes that are not indexed follow."""
    checked = tuple(_wrapped(i, x.shape[a], x.ndim + a) for i, a in zip(indices, axes, strict=True))
    loop = loop_shape((x, *checked), (core, *[0] * len(checked)))
    full = with_loop(x, loop, core)
    front = np.moveaxis(full, axes, range(len(loop), len(loop) + len(axes)))
    return np.asarray(front[(*_grid(loop, 0), *checked)])


def _index_rule(name: str, values: int) -> rules.Rule:
    """The first `values` operands have one dtype, the others are integers."""

    def rule(dtypes: tuple[DType, ...], attrs: Mapping[str, Any]) -> tuple[DType, ...]:
        rules.require_index(name, dtypes[values:])
        return (rules.require_same(name, dtypes[:values]),)

    return rule


def indexed(
    name: str,
    signature: Callable[[Mapping[str, Any]], Signature],
    reference: Callable[..., Array],
    attr_names: tuple[str, ...],
    samples: tuple[Sample, ...],
    doc: str,
    *,
    arity: int | None,
    values: int = 1,
    trait: Trait = Trait.GATHER,
) -> Op:
    """An op of `values` operands of one dtype and index operands behind; every dtype has a cell."""
    return Op(
        name=name,
        doc=doc,
        signature=signature,
        result_dtypes=_index_rule(name, values),
        reference=reference,
        arity=arity,
        attr_names=attr_names,
        traits=frozenset({trait, Trait.MAY_RAISE}),
        samples=samples,
        sample_dtypes=tuple((d,) * values + (i,) for d, i in ((d, _INDEX.get(d, int64)) for d in ALL)),
    )


_INDEX = {int64: uint8, uint8: int32}  # index dtypes other than int64, with these value dtypes


def _index_dims(name: str, attrs: Mapping[str, Any]) -> tuple[Dim, ...]:
    """The core dims of the index operands, `index_rank` of them. Raises `ShapeError`."""
    rank = rules.read_size(name, attrs, "index_rank")
    if not isinstance(rank, int):
        raise ShapeError(f"{name}: index_rank is a number of axes", got=rank, allowed="an int")
    return tuple(Dim(f"i{j}") for j in range(rank))


# ---- take, take_along_axis ----------------------------------------------------------------------------------------


def _take_signature(attrs: Mapping[str, Any]) -> Signature:
    dims = rules.named(-rules.read_axis("take", attrs))
    index = _index_dims("take", attrs)
    return Signature((dims, index), ((*index, *dims[1:]),))


def _take(x: Array, indices: Array, axis: int, index_rank: int) -> Array:
    core = -axis
    checked = _wrapped(indices, x.shape[axis], x.ndim + axis)
    opened = x.reshape(x.shape[: x.ndim - core] + (1,) * index_rank + x.shape[x.ndim - core :])
    return _read(opened, (checked,), (axis,), core)


def _along_signature(attrs: Mapping[str, Any]) -> Signature:
    dims = rules.named(-rules.read_axis("take_along_axis", attrs))
    rest = tuple(Dim(d.size, broadcastable=True) for d in dims[1:])
    return Signature(((dims[0], *rest), (Dim("k"), *rest)), ((Dim("k"), *dims[1:]),))


def _take_along_axis(x: Array, indices: Array, axis: int) -> Array:
    rest = -axis - 1
    checked = _wrapped(indices, x.shape[axis], x.ndim + axis)
    tail = np.broadcast_shapes(x.shape[x.ndim - rest :], checked.shape[checked.ndim - rest :])
    loop = loop_shape((x, checked), (rest + 1, rest + 1))
    full, index = (np.broadcast_to(a, (*loop, a.shape[axis], *tail)) for a in (x, checked))
    return np.take_along_axis(full, index, axis)


# ---- gather, scatter ----------------------------------------------------------------------------------------------


def _core(name: str, attrs: Mapping[str, Any]) -> int:
    """The number of core axes of the indexed operand. Raises `ShapeError`."""
    core = rules.read_size(name, attrs, "core")
    if not isinstance(core, int) or core < rules.depth(attrs["axes"]):
        raise ShapeError(f"{name}: core is too small for axes {attrs['axes']}", got=core, allowed="an int")
    return core


def _gather_signature(attrs: Mapping[str, Any]) -> Signature:
    axes = rules.read_axes("gather", attrs, ordered=False)
    dims = rules.named(_core("gather", attrs))
    read = {dims[a] for a in axes}
    return Signature((dims, *[()] * len(axes)), (tuple(d for d in dims if d not in read),))


def _gather(x: Array, *indices: Array, axes: Ints, core: int) -> Array:
    return _read(x, indices, axes, core)


def _scatter_signature(attrs: Mapping[str, Any]) -> Signature:
    axes = rules.read_axes("scatter", attrs, ordered=False)
    rules.read_choice("scatter", attrs, "mode", "set", "add")
    dims = rules.named(_core("scatter", attrs))
    written = {dims[a] for a in axes}
    points = _index_dims("scatter", attrs)
    value = (*points, *(d for d in dims if d not in written))
    index = tuple(Dim(p.size, optional=True, broadcastable=True) for p in points)
    return Signature((dims, value, *[index] * len(axes)), (dims,))


def _padded(index: Array, rank: int) -> Array:
    return index.reshape((1,) * (rank - index.ndim) + index.shape)


def _scatter(x: Array, value: Array, *indices: Array, axes: Ints, core: int, mode: str, index_rank: int) -> Array:
    rest = core - len(axes) + index_rank
    checked = tuple(_wrapped(i, x.shape[a], x.ndim + a) for i, a in zip(indices, axes, strict=True))
    ranks = tuple(min(index_rank, i.ndim) for i in checked)
    loop = loop_shape((x, value, *checked), (core, rest, *ranks))
    points = value.shape[value.ndim - rest :][:index_rank]
    result = with_loop(x, loop, core).copy()
    front = np.moveaxis(result, axes, range(len(loop), len(loop) + len(axes)))
    spread = (np.broadcast_to(_padded(i, index_rank), loop + points).copy() for i in checked)
    key = (*_grid(loop, index_rank), *spread)
    with np.errstate(all="ignore"):
        if mode == "add":
            np.add.at(front, key, with_loop(value, loop, rest))
        else:
            front[key] = value
    return result


def _taken(shape: Ints, index: Ints, axis: int) -> Sample:
    domain = {1: ("index", shape[axis])}
    return Sample((shape, index), {"axis": axis, "index_rank": len(index)}, domains=domain)  # type: ignore[arg-type]


def _along(shape: Ints, index: Ints, axis: int) -> Sample:
    return Sample((shape, index), {"axis": axis}, domains={1: ("index", shape[axis])})


def _scattered(shape: Ints, value: Ints, axes: Ints, mode: str, *indices: Ints) -> Sample:
    domains = {2 + j: ("index", shape[a]) for j, a in enumerate(axes)}
    rank = len(value) - len(shape) + len(axes)
    attrs: dict[str, Any] = {"axes": axes, "core": len(shape), "mode": mode, "index_rank": rank}
    indices = indices or ((value[0],),) * len(axes)
    return Sample((shape, value, *indices), attrs, domains=domains)  # type: ignore[arg-type]


OPS = (
    indexed(
        "take",
        _take_signature,
        _take,
        ("axis", "index_rank"),
        (_taken((5,), (), -1), _taken((5,), (3,), -1), _taken((4, 2), (2, 3), -2), _taken((4, 2), (0,), -2)),
        """`take(x, indices)`: the elements of core axis `axis` that the indices name. The last `index_rank` axes of
        the indices stand in that axis' place; axes before them are loop dims.""",
        arity=2,
    ),
    indexed(
        "take_along_axis",
        _along_signature,
        _take_along_axis,
        ("axis",),
        (_along((5,), (3,), -1), _along((4, 3), (2, 3), -2), _along((4, 3), (2, 1), -2), _along((4, 1), (2, 3), -2)),
        """`take_along_axis(x, indices)`: result[k, b] = x[indices[k, b], b] for core axis `axis` and what is behind
        it; axes behind it broadcast.""",
        arity=2,
    ),
    indexed(
        "gather",
        _gather_signature,
        _gather,
        ("axes", "core"),
        (
            Sample(((5,), ()), {"axes": (-1,), "core": 1}, domains={1: ("index", 5)}),
            Sample(((4, 3), ()), {"axes": (-2,), "core": 2}, domains={1: ("index", 4)}),
            Sample(((4, 3), ()), {"axes": (-1,), "core": 2}, domains={1: ("index", 3)}),
            Sample(((4, 3, 2), (), ()), {"axes": (-1, -3), "core": 3}, domains={1: ("index", 2), 2: ("index", 4)}),
        ),
        """`gather(x, *indices)`: x, whose last `core` axes are core, at one index array per axis of `axes`. The index
        arrays have no core dims: they broadcast with each other and with x's loop dims, and their dims come before
        the core axes that are not indexed. So advanced indexing of a whole array has core == x.ndim.""",
        arity=None,
    ),
    indexed(
        "scatter",
        _scatter_signature,
        _scatter,
        ("axes", "core", "mode", "index_rank"),
        (
            _scattered((5,), (7,), (-1,), "set"),
            _scattered((5,), (7,), (-1,), "add"),
            _scattered((4, 3), (6, 3), (-2,), "add"),
            _scattered((4, 3), (5,), (-2, -1), "set"),
            _scattered((4, 2, 3), (5, 2), (-3, -1), "add"),
            _scattered((4, 3), (0, 3), (-2,), "set"),
            _scattered((3, 2), (), (-1, -2), "set", (), ()),
            _scattered((4, 3), (2, 5), (-2, -1), "add", (2, 1), (1, 5)),
        ),
        """`scatter(x, value, *indices)`: x with value[j] put ("set": of equal indices the last wins) or added ("add":
        in order of j) at the indices' element j. Index arrays, one per axis of `axes` and in its order, have
        `index_rank` core axes, which broadcast to value's first core axes; behind these, value has the core axes of
        x that are not indexed. x has `core` core axes.""",
        arity=None,
        values=2,
        trait=Trait.SCATTER,
    ),
)
