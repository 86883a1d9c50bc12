"""NumPy's generalised ufuncs - matmul, vecdot, matvec, vecmat - with their keyword arguments.

What goes in: the arguments of the gufunc. What comes out: a NumPy scalar for a 0-d result, the output array where one
was given, else a fresh array.

What holds: the core dims are the last axes, or those that `axis` or `axes` name; loop dims broadcast, those of the
result also to an output's, whose core dims have to be the result's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from broadloom.frontend import shapes
from broadloom.frontend.linalg import contract, product
from broadloom.frontend.operands import as_array, known_dtype, resolve
from broadloom.frontend.ufuncs import as_out, deliver
from broadloom.frontend.unsupported import Unsupported, plain_numpy_raises
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle

Axes = tuple[int, ...]
CORES = {"vecdot": (1, 1), "matvec": (2, 1), "vecmat": (1, 2)}  # core dims of the operands


def np_matmul(r: Recorder, x1: object, x2: object, /, out: object = None, **kwargs: Any) -> ArrayHandle:
    """`numpy.matmul` and the @ operator."""
    return _gufunc(r, np.matmul, x1, x2, out, **kwargs)


def np_vecdot(r: Recorder, x1: object, x2: object, /, out: object = None, **kwargs: Any) -> ArrayHandle:
    """`numpy.vecdot`: the first operand is conjugated."""
    return _gufunc(r, np.vecdot, x1, x2, out, **kwargs)


def np_matvec(r: Recorder, x1: object, x2: object, /, out: object = None, **kwargs: Any) -> ArrayHandle:
    """`numpy.matvec`."""
    return _gufunc(r, np.matvec, x1, x2, out, **kwargs)


def np_vecmat(r: Recorder, x1: object, x2: object, /, out: object = None, **kwargs: Any) -> ArrayHandle:
    """`numpy.vecmat`: the vector is conjugated."""
    return _gufunc(r, np.vecmat, x1, x2, out, **kwargs)


def np_linalg_vecdot(r: Recorder, x1: object, x2: object, /, *, axis: object = -1) -> ArrayHandle:
    """`numpy.linalg.vecdot`."""
    return np_vecdot(r, x1, x2, axis=axis)


def _gufunc(
    r: Recorder,
    u: np.ufunc,
    x1: object,
    x2: object,
    out: object,
    *,
    casting: str = "same_kind",
    order: str = "K",
    dtype: object = None,
    subok: bool = True,
    axis: object = None,
    axes: object = None,
    keepdims: object = None,
) -> ArrayHandle:
    if order != "K":
        raise Unsupported(f"np.{u.__name__}(order={order!r}) is not captured", "leave order out, or copy the result")
    target = as_out(out)
    a, b = _of_loop(r, u, x1, x2, target, dtype, casting)
    cores = CORES.get(u.__name__) or (min(a.ndim, 2), min(b.ndim, 2))
    if a.ndim < cores[0] or b.ndim < cores[1] or 0 in cores:
        raise plain_numpy_raises(f"{u.__name__}: an input operand does not have enough dimensions")
    kept = bool(keepdims)
    if u is not np.vecdot and (keepdims is not None or axis is not None):
        raise plain_numpy_raises(f"{u.__name__} does not support keepdims= and axis=")
    core = 1 if kept else sum(cores) - 2  # core dims of the result
    first, second, placed = _axes(u, (*cores, core), axis, axes, plain=core == 0)
    a, b = _last(r, a, first), _last(r, b, second)
    value = product(r, a, b) if u is np.matmul else contract(r, u.__name__, a, b)
    if kept:
        value = shapes.insert_axes(r, value, value.ndim)
    if target is not None:
        value = _broadcast(r, value, target, core, placed)
    value = _placed(r, value, placed)
    return deliver(r, value, target, casting)


def _of_loop(
    r: Recorder, u: np.ufunc, a: object, b: object, target: ArrayHandle | None, dtype: object, casting: str
) -> tuple[ArrayHandle, ArrayHandle]:
    """The operands in the dtypes of the loop that the gufunc runs."""
    x, y = as_array(r, a), as_array(r, b)
    keys = (x.dtype.numpy, y.dtype.numpy, None if target is None else target.dtype.numpy)
    found = resolve(u, keys, None if dtype is None else (None, None, known_dtype(dtype).numpy), casting)
    return r.promote(x, found[0]), r.promote(y, found[1])


# ---- axes ------------------------------------------------------------------------------------------------------------


def _axes(
    u: np.ufunc, cores: Sequence[int], axis: object, axes: object, *, plain: bool
) -> tuple[Axes | None, Axes | None, Axes | None]:
    """The core axes of both operands and the result; None where they are the last ones. `plain`: the result has no
    core dims, so its entry may be left out."""
    if axis is not None:
        if axes is not None:
            raise plain_numpy_raises(f"{u.__name__}: cannot specify both axis and axes")
        at = _integers(axis)
        return at, at, () if plain else at
    if axes is None:
        return None, None, None
    if not isinstance(axes, list):
        raise plain_numpy_raises(f"{u.__name__}: axes should be a list")
    entries = [_integers(e) for e in axes]
    if len(entries) == 2 and plain:
        entries.append(())
    if len(entries) != 3 or any(len(e) != core for e, core in zip(entries, cores, strict=True)):
        raise plain_numpy_raises(f"{u.__name__}: axes should have an entry of the right length for each operand")
    return entries[0], entries[1], entries[2]


def _integers(entry: object) -> Axes:
    parts = entry if isinstance(entry, tuple | list) else (entry,)
    found = [shapes.as_size(p, "an axis") for p in parts]
    if not all(isinstance(p, int) for p in found):
        raise plain_numpy_raises("an axis is no constant")
    return tuple(int(str(p)) for p in found)


def _last(r: Recorder, x: ArrayHandle, axes: Axes | None) -> ArrayHandle:
    """The operand with its core axes last."""
    if axes is None:
        return x
    at = _from_front(axes, x.ndim)
    return shapes.permute(r, x, [*(k for k in range(x.ndim) if k not in at), *at])


def _placed(r: Recorder, x: ArrayHandle, axes: Axes | None) -> ArrayHandle:
    """The result, whose core dims are last, with these at `axes`."""
    if axes is None:
        return x
    at = _from_front(axes, x.ndim)
    loop = iter(range(x.ndim - len(at)))
    return shapes.permute(r, x, [x.ndim - len(at) + at.index(k) if k in at else next(loop) for k in range(x.ndim)])


def _from_front(axes: Axes, ndim: int) -> list[int]:
    at = [shapes.axis_from_end(a, ndim) + ndim for a in axes]
    if len(set(at)) < len(at):
        raise plain_numpy_raises("axes has a value repeated")
    return at


def _broadcast(r: Recorder, x: ArrayHandle, target: ArrayHandle, core: int, axes: Axes | None) -> ArrayHandle:
    """The result, its core dims last, with the loop dims of an output."""
    at = range(target.ndim - core, target.ndim) if axes is None else _from_front(axes, target.ndim)
    if target.ndim < x.ndim:
        raise plain_numpy_raises(f"the output has {target.ndim} axes, the result {x.ndim}")
    wanted = [target.shape[k] for k in at]
    if not shapes.same_shape(r, wanted, x.shape[x.ndim - core :]):
        raise plain_numpy_raises(f"the output has core dims {wanted}, the result shape {x.shape}")
    return shapes.expand(r, x, (*(n for k, n in enumerate(target.shape) if k not in at), *wanted))
