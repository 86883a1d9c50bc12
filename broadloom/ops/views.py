"""The view family: index maps of one operand, no arithmetic.

Attributes speak of core axes, counted from the end; the number of entries of `axes`, `starts`, `shape` is the depth
of the core. What holds: a result element is one operand element, untouched (`view_dtype`: its bytes).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from broadloom.dtypes import ALL, DType, bool_
from broadloom.errors import ShapeError
from broadloom.ops import rules
from broadloom.ops.record import Dims, Op, Sample, Trait
from broadloom.ops.rules import Array
from broadloom.ops.signature import Combine, Decide, Dim, Expression, Signature, equal, holds
from broadloom.symbolic import Expr, Size, add, eq, floordiv, le, lt, mod, mul, product, sub

Check = Callable[[Dims, tuple[DType, ...], Mapping[str, Any], Decide | None], Dims]


def view(
    name: str,
    signature: Callable[[Mapping[str, Any]], Signature],
    reference: Callable[..., Array],
    attr_names: tuple[str, ...],
    samples: tuple[Sample, ...],
    doc: str,
    check: Check | None = None,
) -> Op:
    """An op that shows its operand's elements elsewhere; every dtype has a cell."""
    return Op(
        name=name,
        doc=doc,
        signature=signature,
        result_dtypes=rules.same_rule(name, {}),
        reference=reference,
        arity=1,
        attr_names=attr_names,
        traits=frozenset({Trait.VIEW, Trait.CHEAP}),
        samples=samples,
        sample_dtypes=tuple((d,) for d in ALL),
        check=check,
    )


# ---- permute ------------------------------------------------------------------------------------------------------


def _permute_signature(attrs: Mapping[str, Any]) -> Signature:
    axes = rules.read_axes("permute", attrs, ordered=False)
    if sorted(axes) != list(range(-len(axes), 0)):
        raise ShapeError("permute: axes leave out an axis", got=axes, allowed=f"an order of -{len(axes)}, ..., -1")
    dims = rules.named(len(axes))
    return Signature((dims,), (tuple(dims[a] for a in axes),))


def _permute(x: Array, axes: tuple[int, ...]) -> Array:
    loop = x.ndim - len(axes)
    return x.transpose((*range(loop), *(x.ndim + a for a in axes)))


# ---- reshape and expand -------------------------------------------------------------------------------------------


def _reshape_signature(attrs: Mapping[str, Any]) -> Signature:
    core = rules.read_size("reshape", attrs, "core")
    if not isinstance(core, int):
        raise ShapeError("reshape: core is a number of axes", got=core, allowed="an int")
    shape = rules.read_sizes("reshape", attrs, "shape")
    return Signature((rules.named(core),), (tuple(Dim(s) for s in shape),))


def _reshape_check(dims: Dims, dtypes: tuple[DType, ...], attrs: Mapping[str, Any], decide: Decide | None) -> Dims:
    sizes = [dims[n] for n in rules.dim_names(attrs["core"])]
    before, after = product(sizes), product(attrs["shape"])
    # what both have is left out first: axes in front, as a batch's, then leave the question as it was
    own, new = _without_common(sizes, attrs["shape"])
    same = equal(product(own), product(new), decide)
    if same is not True and equal(before, after, decide) is not True:
        raise ShapeError(
            "reshape: the number of elements changes, or cannot be proven equal",
            got=f"{before} elements into shape ({', '.join(map(str, attrs['shape']))})",
            allowed=f"a shape of {before} elements",
        )
    return {}


def _without_common(a: Iterable[Size], b: Iterable[Size]) -> tuple[list[Size], list[Size]]:
    """Both lists of sizes without the symbolic ones that both have. (A number may be 0.)"""
    left, right = [], list(b)
    for size in a:
        if isinstance(size, Expr) and size in right:
            right.remove(size)
        else:
            left.append(size)
    return left, right


def _reshape(x: Array, core: int, shape: tuple[int, ...]) -> Array:
    return x.reshape(x.shape[: x.ndim - core] + shape)


def _expand_signature(attrs: Mapping[str, Any]) -> Signature:
    shape = rules.read_sizes("expand", attrs, "shape")
    dims = tuple(Dim(s, optional=True, broadcastable=True) for s in shape)
    return Signature((dims,), (tuple(Dim(s) for s in shape),))


def _expand(x: Array, shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(x, x.shape[: max(0, x.ndim - len(shape))] + shape)


# ---- slice --------------------------------------------------------------------------------------------------------


def read_slices(op: str, attrs: Mapping[str, Any]) -> tuple[tuple[Size, ...], tuple[Size, ...], tuple[Size, ...]]:
    """The attributes starts, sizes and steps, one entry per core axis. Raises `ShapeError`."""
    starts = rules.read_sizes(op, attrs, "starts", None)
    sizes = rules.read_sizes(op, attrs, "sizes")
    steps = rules.read_sizes(op, attrs, "steps", None)
    if not len(starts) == len(sizes) == len(steps):
        raise ShapeError(f"{op}: starts, sizes and steps differ in length", got=f"{starts}, {sizes}, {steps}")
    return starts, sizes, steps


def check_slices(op: str) -> Check:
    """Refuses a slice that is known to leave its axis: element j of the axis is start + j*step."""

    def check(dims: Dims, dtypes: tuple[DType, ...], attrs: Mapping[str, Any], decide: Decide | None) -> Dims:
        starts, sizes, steps = read_slices(op, attrs)
        names = rules.dim_names(len(starts))
        for name, start, size, step in zip(names, starts, sizes, steps, strict=True):
            if holds(eq(size, 0)) is not False:
                continue
            last = add(start, mul(sub(size, 1), step))
            for end in (start, last):
                if holds(le(0, end)) is False or holds(lt(end, dims[name])) is False:
                    raise ShapeError(
                        f"{op}: a slice leaves its axis",
                        got=f"start {start}, size {size}, step {step} on size {dims[name]}",
                        allowed="0 <= start + j*step < size of the axis",
                    )
        return {}

    return check


def _slice_signature(attrs: Mapping[str, Any]) -> Signature:
    _, sizes, _ = read_slices("slice", attrs)
    return Signature((rules.named(len(sizes)),), (tuple(Dim(s) for s in sizes),))


def slice_key(starts: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...]) -> tuple[Any, ...]:
    """The NumPy index of a slice over the last axes."""
    key: list[Any] = [...]
    for start, size, step in zip(starts, sizes, steps, strict=True):
        stop = start + size * step
        if size == 0:
            key.append(slice(0, 0))
        elif step == 0:
            key.append(np.full(size, start))
        else:
            key.append(slice(start, None if stop < 0 else stop, step))
    return tuple(key)


def _slice(x: Array, starts: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...]) -> Array:
    return np.asarray(x[slice_key(starts, sizes, steps)])


# ---- diagonal and view_dtype --------------------------------------------------------------------------------------


def _diagonal_signature(attrs: Mapping[str, Any]) -> Signature:
    axes = (rules.read_axis("diagonal", attrs, "axis1"), rules.read_axis("diagonal", attrs, "axis2"))
    offset = rules.read_size("diagonal", attrs, "offset", None)
    if axes[0] == axes[1] or not isinstance(offset, int):
        raise ShapeError("diagonal: needs two axes and an int offset", got=f"axes {axes}, offset {offset}")
    dims = rules.named(rules.depth(axes))
    rows, cols = dims[axes[0]], dims[axes[1]]
    length: Expression = Combine("min", rows, cols)
    if offset:
        shorter = Combine("-", cols if offset > 0 else rows, Dim(abs(offset)))
        length = Combine("max", Combine("min", rows if offset > 0 else cols, shorter), Dim(0))
    rest = tuple(d for d in dims if d not in (rows, cols))
    return Signature((dims,), ((*rest, length),))


def _diagonal(x: Array, offset: int, axis1: int, axis2: int) -> Array:
    return np.diagonal(x, offset, axis1, axis2)


def _view_dtype_rule(dtypes: tuple[DType, ...], attrs: Mapping[str, Any]) -> tuple[DType, ...]:
    return (rules.read_dtype("view_dtype", attrs),)


def _view_dtype_check(dims: Dims, dtypes: tuple[DType, ...], attrs: Mapping[str, Any], decide: Decide | None) -> Dims:
    old, new = dtypes[0].itemsize, attrs["dtype"].itemsize
    n = dims["n"]
    if new <= old:
        return {"m": mul(n, old // new)}
    if holds(eq(mod(n, new // old), 0), decide) is not True:
        raise ShapeError(
            f"view_dtype: the last axis in bytes is no multiple of {attrs['dtype']}'s size",
            got=f"{n} elements of {old} bytes",
            allowed=f"a multiple of {new // old} elements",
        )
    return {"m": floordiv(n, new // old)}


def _view_dtype(x: Array, dtype: DType) -> Array:
    source = np.ascontiguousarray(x)
    if dtype is bool_:
        return np.asarray(source.view(np.uint8) != 0)
    return source.view(dtype.numpy)


_VIEW_DTYPE_SIGNATURE = Signature.parse("(n)->(m!)")
_VIEW_DTYPE = Op(
    name="view_dtype",
    doc="""The bytes of the last axis as another dtype, little-endian, as `ndarray.view`: its size grows or shrinks
    by the ratio of the widths. As bool, every byte but 0 is True.""",
    signature=lambda attrs: _VIEW_DTYPE_SIGNATURE,
    result_dtypes=_view_dtype_rule,
    reference=_view_dtype,
    arity=1,
    attr_names=("dtype",),
    traits=frozenset({Trait.VIEW, Trait.CHEAP}),
    samples=tuple(Sample(((16,),), {"dtype": d}) for d in ALL),
    sample_dtypes=tuple((d,) for d in ALL),
    check=_view_dtype_check,
)


def _sliced(shape: tuple[int, ...], starts: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...]) -> Sample:
    return Sample((shape,), {"starts": starts, "sizes": sizes, "steps": steps})


OPS = (
    view(
        "permute",
        _permute_signature,
        _permute,
        ("axes",),
        tuple(
            Sample((shape,), {"axes": axes})
            for shape, axes in (((2, 3), (-1, -2)), ((2, 3, 4), (-1, -3, -2)), ((3,), (-1,)), ((), ()))
        ),
        "Core axis j of the result is the operand's axis `axes[j]`.",
    ),
    view(
        "reshape",
        _reshape_signature,
        _reshape,
        ("core", "shape"),
        tuple(
            Sample((old,), {"core": len(old), "shape": new})
            for old, new in (((2, 6), (3, 4)), ((), (1, 1)), ((4,), (2, 2)), ((2, 2), (4,)), ((1,), ()), ((0, 3), (0,)))
        ),
        "The last `core` axes, in C order, as `shape`.",
        _reshape_check,
    ),
    view(
        "expand",
        _expand_signature,
        _expand,
        ("shape",),
        tuple(
            Sample((old,), {"shape": new})
            for old, new in (((1, 3), (2, 3)), ((3, 1), (3, 4)), ((), ()), ((1,), (0,)), ((2,), (2,)))
        ),
        """The last `len(shape)` axes broadcast to `shape`. Axes of the operand that are missing there count as 1.""",
    ),
    view(
        "slice",
        _slice_signature,
        _slice,
        ("starts", "sizes", "steps"),
        (
            _sliced((6,), (1,), (4,), (1,)),
            _sliced((6,), (5,), (3,), (-2,)),
            _sliced((4, 5), (0, 4), (2, 5), (3, -1)),
            _sliced((3,), (0,), (0,), (1,)),
        ),
        """Elements start + j*step for j < size of each of the last axes; steps may be negative. Bounds that are known
        to be passed are refused; symbolic ones are the caller's to keep.""",
        check_slices("slice"),
    ),
    view(
        "diagonal",
        _diagonal_signature,
        _diagonal,
        ("offset", "axis1", "axis2"),
        tuple(
            Sample((shape,), {"offset": offset, "axis1": a, "axis2": b})
            for shape, offset, a, b in (
                ((3, 4), 0, -2, -1),
                ((3, 4), 2, -2, -1),
                ((3, 4), -1, -1, -2),
                ((3, 2, 4), 1, -3, -1),
                ((2, 2), 5, -2, -1),
            )
        ),
        "The elements with axis2 - axis1 index == offset, as the last axis; the other core axes stay in order.",
    ),
    _VIEW_DTYPE,
)
