"""Indexing, complete: `x[key]`, and the functions that read at indices.

What goes in: a handle and a key as the user wrote it. What comes out: a view where NumPy gives a view, a NumPy
scalar where every axis has an integer, a fresh array for advanced indexing.

What holds: the dims of advanced indices land where NumPy puts them - in the place of the indices if these stand
together, else in front. A constant integer out of range is refused, so that NumPy raises; index arrays are checked
at run time by the gather itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from broadloom import dtypes
from broadloom.frontend import shapes
from broadloom.frontend.operands import (
    as_array,
    call,
    cast,
    constant,
    from_size,
    is_sequence,
    is_symbolic,
)
from broadloom.frontend.selection import select
from broadloom.frontend.shapes import decide
from broadloom.frontend.ufuncs import full
from broadloom.frontend.unsupported import Unsupported, bad_index, plain_numpy_raises
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle, WeakScalar
from broadloom.records import dataclass
from broadloom.symbolic import Expr, Max, Min, Size, Symbol, add, floordiv, ge, le, lt, smax, smin, sub


@dataclass(frozen=True, slots=True)
class Cut:
    """A slice of one axis: `size` elements from `start` by `step`."""

    start: Size
    size: Size
    step: int


@dataclass(frozen=True, slots=True)
class Pick:
    """One element of one axis."""

    at: Size


@dataclass(frozen=True, slots=True)
class Fancy:
    """An integer index array for one axis."""

    indices: ArrayHandle


@dataclass(frozen=True, slots=True)
class Mask:
    """A boolean array for as many axes as it has; `constant` is its value where that is known."""

    mask: ArrayHandle
    constant: np.ndarray | None = None


Part = Cut | Pick | Fancy | Mask | None
BASIC = (Cut, Pick, type(None))
FAR = 2**62  # beyond all sizes, and far enough from the end of 64 bits to be added to one


# ---- parsing the key -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Parsed:
    """A key, one part for each axis or new axis. `ellipsis`: an Ellipsis stood in it. `gap`: the number of the part
    before which an Ellipsis stood for no axis; it still sets index arrays apart."""

    parts: tuple[Part, ...]
    ellipsis: bool
    gap: int | None = None


def parse(r: Recorder, x: ArrayHandle, key: object) -> Parsed:
    """The key in normal form for `x`."""
    items = list(key) if isinstance(key, tuple) else [key]
    items = [_prepare(r, item) for item in items]
    ellipses = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(ellipses) > 1:
        raise bad_index("an index can only have a single ellipsis ('...')")
    used = sum(_axes_used(item) for item in items)
    if used > x.ndim:
        raise bad_index(f"too many indices: the array has {x.ndim} dims, {used} were indexed")
    fill = [slice(None)] * (x.ndim - used)
    at = ellipses[0] if ellipses else len(items)
    items[at : at + len(ellipses)] = fill
    parts: list[Part] = []
    axis = 0
    for item in items:
        parts.append(_part(r, x, axis, item))
        axis += _axes_used(item)
    return Parsed(tuple(parts), bool(ellipses), at if ellipses and not fill else None)


def _prepare(r: Recorder, item: object) -> object:
    """Lists become arrays; constant masks and arrays keep their values."""
    if isinstance(item, (bool, np.bool)):
        return constant(r, bool(item))
    if is_sequence(item) or isinstance(item, np.ndarray):
        if not is_symbolic(item):
            array = known_array(item)
            if array.dtype == np.float64 and array.size == 0:
                array = array.astype(np.intp)
            if array.dtype == np.bool and array.ndim:
                return _ConstantMask(array)
            return constant(r, array)
        return as_array(r, item)
    if isinstance(item, WeakScalar):
        raise Unsupported("a Python number known only at run time used as an index", "pass it as a constant int")
    if isinstance(item, (float, complex, str)):
        raise plain_numpy_raises(
            "only integers, slices, Ellipsis, None and integer or boolean arrays are valid indices"
        )
    return item


def known_array(item: object) -> np.ndarray:
    """A constant nested list as an array."""
    try:
        return np.asarray(item)
    except ValueError as error:
        raise plain_numpy_raises(str(error)) from error


@dataclass(frozen=True, slots=True)
class _ConstantMask:
    mask: np.ndarray


def _axes_used(item: object) -> int:
    if item is None or item is Ellipsis:
        return 0
    if isinstance(item, ArrayHandle) and item.dtype is dtypes.bool_:
        return item.ndim
    return item.mask.ndim if isinstance(item, _ConstantMask) else 1


def _part(r: Recorder, x: ArrayHandle, axis: int, item: object) -> Part:
    if item is None:
        return None
    n: Size = x.shape[axis] if axis < x.ndim else 1
    if isinstance(item, slice):
        return _slice(r, item, n)
    if isinstance(item, _ConstantMask):
        covered = x.shape[axis : axis + item.mask.ndim]
        if not shapes.same_shape(r, covered, item.mask.shape):
            raise bad_index(f"boolean index of shape {item.mask.shape} did not match axes of sizes {covered}")
        return Mask(constant(r, item.mask), item.mask)
    if isinstance(item, ArrayHandle):
        if item.dtype is dtypes.bool_:
            return Mask(item)
        if not item.dtype.is_integer:
            raise bad_index("arrays used as indices must be of integer (or boolean) type")
        return Fancy(item)
    return Pick(_integer(r, shapes.as_size(item, "an index"), n))


def _integer(r: Recorder, i: Size, n: Size) -> Size:
    """An integer index, checked against the size and counted from the front."""
    negative = decide(r, lt(i, 0))
    at = add(i, n) if negative else i
    if not decide(r, ge(at, 0)) or not decide(r, lt(at, n)):
        raise bad_index(f"index {i} is out of bounds for axis with size {n}")
    return at


def _bound(r: Recorder, value: object) -> Size | None:
    if value is None:
        return None
    if isinstance(value, (ArrayHandle, WeakScalar)):
        raise Unsupported("a slice bound that depends on the data of an array", "pass the bound as an int")
    if isinstance(value, (int, np.integer)):  # Python cuts bounds off, too, where no size reaches
        return max(-FAR, min(int(value), FAR))
    return shapes.as_size(value, "a slice bound")


def _slice(r: Recorder, s: slice, n: Size) -> Cut:
    """Python's slice rules, for symbolic sizes too. Clamps that the result cannot depend on are left out, so that
    `x[1:]` and `x[:-1]` have one and the same symbolic size. Clamps of many or of what is clamped twice are decided by
    the sizes at hand, so that the sizes of slices of slices stay small."""
    start, stop, step = _bound(r, s.start), _bound(r, s.stop), _bound(r, s.step)
    step = 1 if step is None else step
    if not isinstance(step, int):
        raise Unsupported("a slice step that is a symbolic int", "use a constant step")
    if step == 0:
        raise plain_numpy_raises("slice step cannot be zero")
    if isinstance(n, int) and (start is None or isinstance(start, int)) and (stop is None or isinstance(stop, int)):
        found = range(*slice(start, stop, step).indices(n))
        return Cut(found.start if len(found) else 0, len(found), step)
    if step > 0:
        low: Size = 0 if start is None else start
        if not decide(r, ge(low, 0)):
            low = _clamped(r, smax, add(n, low), 0)
        high: Size = n if stop is None else stop
        high = _clamped(r, smin, high, n) if decide(r, ge(high, 0)) else add(n, high)
        size = _clamped(r, smax, floordiv(add(sub(high, low), step - 1), step), 0)
        return Cut(low, size, step)
    high = sub(n, 1) if start is None else start
    high = _clamped(r, smin, high, sub(n, 1)) if start is None or decide(r, ge(high, 0)) else add(n, high)
    low = -1
    if stop is not None:
        low = stop if decide(r, ge(stop, 0)) else _clamped(r, smax, add(n, stop), -1)
    size = _clamped(r, smax, floordiv(add(sub(high, low), -step - 1), -step), 0)
    return Cut(high, size, step)


def _clamped(r: Recorder, clamp: Callable[[Size, Size], Size], size: Size, bound: Size) -> Size:
    """`smin` or `smax` of two sizes; one of them, by a question, where the other would nest clamps in clamps."""
    clamped = clamp(size, bound)
    if not isinstance(clamped, Min | Max) or (len(clamped.operands) <= 3 and _clamps(clamped) <= 2):
        return clamped
    return size if decide(r, ge(size, bound) if clamp is smax else le(size, bound)) else bound


def _clamps(size: Size) -> int:
    """How deep clamps nest in an expression."""
    if not isinstance(size, Expr) or isinstance(size, Symbol):
        return 0
    return isinstance(size, Min | Max) + max(map(_clamps, size.args))


# ---- views -----------------------------------------------------------------------------------------------------------


def basic_view(r: Recorder, x: ArrayHandle, parts: Sequence[Part]) -> ArrayHandle:
    """The view for slices, integers and new axes; index arrays count as whole axes."""
    starts: list[Size] = []
    sizes: list[Size] = []
    steps: list[int] = []
    shape: list[Size | None] = []
    axis = 0
    for part in parts:
        if part is None:
            shape.append(None)
            continue
        n = x.shape[axis]
        cut = part if isinstance(part, Cut) else Cut(part.at, 1, 1) if isinstance(part, Pick) else Cut(0, n, 1)
        starts.append(cut.start)
        sizes.append(cut.size)
        steps.append(cut.step)
        if not isinstance(part, Pick):
            shape.append(cut.size)
        axis += 1
    view = x
    if any(s != 0 for s in starts) or tuple(sizes) != x.shape or any(s != 1 for s in steps):
        view = r.view("slice", x, starts=tuple(starts), sizes=tuple(sizes), steps=tuple(steps))
    kept = tuple(n for n in shape if n is not None)
    if kept != view.shape:
        view = r.view("reshape", view, core=view.ndim, shape=kept)
    if len(kept) != len(shape):
        view = new_axes(r, view, [i for i, n in enumerate(shape) if n is None])
    return same_array(r, x) if view is x else view


def new_axes(r: Recorder, x: ArrayHandle, places: Sequence[int]) -> ArrayHandle:
    """A view with new axes of one element, which have stride 0, as number `places` of the result."""
    view = r.view("expand", x, shape=(*(1,) * len(places), *x.shape))
    old = iter(range(len(places), view.ndim))
    new = iter(range(len(places)))
    return shapes.permute(r, view, [next(new) if i in places else next(old) for i in range(view.ndim)])


def same_array(r: Recorder, x: ArrayHandle) -> ArrayHandle:
    """Another array object over the same memory: `x[...]`, `x.view()`."""
    return dataclasses.replace(x, numpy_scalar=False)


def getitem(r: Recorder, x: object, key: object) -> ArrayHandle:
    """`x[key]`."""
    x = as_array(r, x)
    parsed = parse(r, x, key)
    if all(isinstance(p, BASIC) for p in parsed.parts):
        view = basic_view(r, x, parsed.parts)
        # A NumPy scalar has no axis to take a view of: x[()] on a 0-d array is a scalar as well.
        if not parsed.ellipsis and view.ndim == 0:
            return r.as_scalar(view)
        return _detached(r, view) if x.numpy_scalar else view
    if any(isinstance(p, Mask) for p in parsed.parts):
        found = masked_view(r, x, parsed.parts)
        if found is not None:
            return select(r, *found)
        parsed = without_masks(r, parsed)
    if _only_integers(parsed.parts):
        return _pick_at_run_time(r, x, parsed)
    base, indices, axes, place = separate(r, x, parsed)
    taken = _gather(r, base, indices, axes)
    ndim = index_rank(indices)
    return _move_front_to(r, taken, ndim, place)


def masked_view(r: Recorder, x: ArrayHandle, parts: Sequence[Part]) -> tuple[ArrayHandle, ArrayHandle] | None:
    """For a key of one runtime mask with integers before it and basic parts behind: the view in which the mask covers
    the leading axes, and the mask. Integers beside a mask are index arrays; by NumPy's rule, too, what is selected
    then comes first."""
    at = next((i for i, p in enumerate(parts) if not isinstance(p, Pick)), len(parts))
    first = parts[at] if at < len(parts) else None
    if not isinstance(first, Mask) or first.constant is not None or first.mask.ndim == 0:
        return None
    if not all(isinstance(p, BASIC) for p in parts[at + 1 :]):
        return None
    sizes = x.shape[at : at + first.mask.ndim]
    if not shapes.same_shape(r, sizes, first.mask.shape):
        raise bad_index("boolean index did not match indexed array")
    whole = [Cut(0, n, 1) for n in sizes]
    return basic_view(r, x, [*parts[:at], *whole, *parts[at + 1 :]]), first.mask


def _detached(r: Recorder, view: ArrayHandle) -> ArrayHandle:
    """What indexing a NumPy scalar gives: an array of its own."""
    return r.copy(view)


def _only_integers(parts: Sequence[Part]) -> bool:
    """Are all index arrays 0-d? NumPy then treats them as integers."""
    return all(p.indices.ndim == 0 for p in parts if isinstance(p, Fancy))


def _pick_at_run_time(r: Recorder, x: ArrayHandle, parsed: Parsed) -> ArrayHandle:
    """Integers known only at run time: a scalar, a view, or a copy where a 0-d array, which makes NumPy copy, is among
    them."""
    fancy = [p for p in parsed.parts if isinstance(p, Fancy)]
    base = basic_view(r, x, parsed.parts)
    axes = _fancy_axes(parsed.parts)
    indices = [p.indices for p in fancy]
    if all(i.numpy_scalar for i in indices) and (base.ndim > len(axes) or parsed.ellipsis):
        return r.pick(base, axes, indices)
    taken = _gather(r, base, indices, axes)
    return taken if taken.ndim or parsed.ellipsis else r.as_scalar(taken)


def _fancy_axes(parts: Sequence[Part]) -> list[int]:
    """The axes of the basic view that have an index array."""
    axes, axis = [], 0
    for part in parts:
        if isinstance(part, Fancy):
            axes.append(axis)
        if not isinstance(part, Pick):
            axis += 1
    return axes


def separate(r: Recorder, x: ArrayHandle, parsed: Parsed) -> tuple[ArrayHandle, list[ArrayHandle], list[int], int]:
    """The basic view, the index arrays with their axes in it, and the axis where the index dims land.

    An integer beside an index array is an index array too, by NumPy's rule."""
    parts = parsed.parts
    advanced = [i for i, p in enumerate(parts) if isinstance(p, (Fancy, Pick))]
    first, last = advanced[0], advanced[-1]
    together = advanced == list(range(first, last + 1)) and not (parsed.gap and first < parsed.gap <= last)
    turned = [
        Fancy(from_size(r, p.at) if isinstance(p.at, Expr) else constant(r, p.at, dtypes.int64))
        if isinstance(p, Pick)
        else p
        for p in parts
    ]
    base = basic_view(r, x, turned)
    axes = _fancy_axes(turned)
    indices = [p.indices for p in turned if isinstance(p, Fancy)]
    return base, indices, axes, axes[0] if together else 0


def index_rank(indices: Sequence[ArrayHandle]) -> int:
    """How many dims the index arrays broadcast to."""
    return max(i.ndim for i in indices)


def _gather(r: Recorder, x: ArrayHandle, indices: Sequence[ArrayHandle], axes: Sequence[int]) -> ArrayHandle:
    """Index dims first, then the axes that are left. Without index elements nothing is read, so nothing is checked."""
    index_shape = shapes.broadcast_shapes(r, *(i.shape for i in indices))
    if 0 in index_shape:
        rest = tuple(s for i, s in enumerate(x.shape) if i not in axes)
        return full(r, (*index_shape, *rest), 0, x.dtype)
    result: ArrayHandle = call(r, "gather", x, *indices, axes=tuple(a - x.ndim for a in axes), core=x.ndim)
    return result


def _move_front_to(r: Recorder, x: ArrayHandle, n: int, place: int) -> ArrayHandle:
    """The first `n` axes moved behind the next `place` axes."""
    return shapes.permute(r, x, [*range(n, n + place), *range(n), *range(n + place, x.ndim)])


def without_masks(r: Recorder, parsed: Parsed) -> Parsed:
    """Constant masks become the index arrays of their true elements."""
    turned: list[Part] = []
    gap = None
    for i, part in enumerate(parsed.parts):
        if i == parsed.gap:
            gap = len(turned)
        if not isinstance(part, Mask):
            turned.append(part)
            continue
        value = part.constant
        if value is None or value.ndim == 0:
            raise Unsupported(
                "indexing by a boolean array: the size of the result depends on data",
                "use np.where(mask, x, 0), a where= argument, or assign with x[mask] = value",
            )
        turned.extend(Fancy(constant(r, i)) for i in value.nonzero())
    return Parsed(tuple(turned), parsed.ellipsis, gap)


def take(
    r: Recorder, a: object, indices: object, axis: object = None, out: object = None, mode: str = "raise"
) -> ArrayHandle:
    """`numpy.take`."""
    x, index = as_array(r, a), as_array(r, indices)
    if out is not None:
        raise Unsupported("np.take with out=", "assign the result: out[...] = np.take(...)")
    if isinstance(indices, list) and not indices:
        index = cast(r, index, dtypes.int64)
    if index.dtype.kind not in "ui":
        raise plain_numpy_raises("np.take needs integer indices")
    if axis is None or x.ndim == 0:
        x = shapes.reshape(r, x, (shapes.count(x.shape),))
        where = shapes.axis_from_end(axis or 0, 1)
    else:
        where = shapes.axis_from_end(axis, x.ndim)
    if mode != "raise":
        index = _into_range(r, r.promote(index, dtypes.int64), x.shape[where], mode)
    result = call(r, "take", x, index, axis=where, index_rank=index.ndim)
    return r.as_scalar(result) if result.ndim == 0 else result


def _into_range(r: Recorder, index: ArrayHandle, n: Size, mode: str) -> ArrayHandle:
    size = from_size(r, n)
    if mode == "wrap":
        return call(r, "remainder", index, size)
    if mode == "clip":
        last = call(r, "subtract", size, constant(r, 1, dtypes.int64))
        return call(r, "clip", index, constant(r, 0, dtypes.int64), last)
    raise plain_numpy_raises(f"unknown mode {mode!r}")


def take_along_axis(r: Recorder, arr: object, indices: object, axis: object = -1) -> ArrayHandle:
    """`numpy.take_along_axis`."""
    x, index = as_array(r, arr), as_array(r, indices)
    if axis is None:
        x, axis = shapes.reshape(r, x, (shapes.count(x.shape),)), 0
    if not index.dtype.is_integer or index.ndim != x.ndim:
        raise plain_numpy_raises("indices must be integers, with as many dims as the array")
    return call(r, "take_along_axis", x, cast(r, index, dtypes.int64), axis=shapes.axis_from_end(axis, x.ndim))


def compress(r: Recorder, condition: object, a: object, axis: object = None, out: object = None) -> ArrayHandle:
    """`numpy.compress`, for a condition that is constant."""
    if is_symbolic(condition) or out is not None:
        raise Unsupported("np.compress by a runtime condition", "use np.where or a constant condition")
    x = as_array(r, a)
    found = np.flatnonzero(np.asarray(condition))
    return take(r, x, constant(r, found), axis)
