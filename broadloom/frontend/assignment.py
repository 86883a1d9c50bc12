"""Writing into arrays: `x[key] = value`, `np.add.at`, `np.copyto` and their kin.

What goes in: a handle, a key and a value as the user wrote them. What comes out: nothing; the recorder holds the
write. What holds: any cast is allowed but a Python number has to fit; of repeated indices the last write wins, except
in `ufunc.at`, where each counts; a mask assigns what does not depend on how many elements it selects.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from broadloom import dtypes
from broadloom.frontend import shapes
from broadloom.frontend.indexing import (
    BASIC,
    Cut,
    Fancy,
    Mask,
    Parsed,
    Part,
    Pick,
    basic_view,
    index_rank,
    masked_view,
    parse,
    separate,
    without_masks,
)
from broadloom.frontend.operands import (
    as_array,
    call,
    cast,
    constant,
    is_sequence,
    lift,
    operand,
    placed,
)
from broadloom.frontend.selection import Selection, over, refuse, same_mask, selects
from broadloom.frontend.ufuncs import as_mask
from broadloom.frontend.unsupported import Unsupported, plain_numpy_raises
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle
from broadloom.symbolic import Size


def setitem(r: Recorder, x: object, key: object, value: object) -> None:
    """`x[key] = value`."""
    if not isinstance(x, ArrayHandle) or x.numpy_scalar:
        raise plain_numpy_raises("only an array takes index assignment")
    if not x.writeable:
        raise plain_numpy_raises("assignment destination is read-only")
    parsed = parse(r, x, key)
    if all(isinstance(p, Pick) or (isinstance(p, Fancy) and p.indices.ndim == 0) for p in parsed.parts):
        _check_element(r, value, parsed.ellipsis)
    v = assigned(r, value, x.dtype)
    if all(isinstance(p, BASIC) for p in parsed.parts):
        view = basic_view(r, x, parsed.parts)
        r.write(view, fit(r, v, view.shape))
        return
    if any(isinstance(p, Mask) for p in parsed.parts):
        if _assign_where(r, x, parsed.parts, v):
            return
        parsed = without_masks(r, parsed)
    scatter(r, x, parsed, v, "set")


def set_selected(r: Recorder, x: object, key: object, value: object) -> None:
    """`x[key] = value` with a boolean selection among these: `value` was selected by the mask in `key`."""
    if not isinstance(x, ArrayHandle) or isinstance(x, Selection) or selects(key):
        refuse("an index or index assignment of a boolean selection")
    if not x.writeable or x.numpy_scalar:
        raise plain_numpy_raises("assignment destination is read-only")
    found = masked_view(r, x, parse(r, x, key).parts)
    if found is None or not isinstance(value, Selection):
        refuse("a boolean selection assigned at another index")
    view, mask = found
    if not same_mask(r, mask, value.mask):
        refuse("a boolean selection assigned through another mask")
    behind = value.full.shape[value.mask.ndim :]
    if not shapes.same_shape(r, behind, view.shape[mask.ndim :]):
        refuse("a boolean selection assigned to another shape")
    chosen = call(r, "where", over(r, value), cast(r, value.full, x.dtype), view)
    r.write(view, shapes.expand(r, chosen, view.shape))


def assigned(r: Recorder, value: object, dtype: dtypes.DType) -> ArrayHandle:
    """A value for a place of `dtype`: any cast is allowed, but a Python number has to fit."""
    return r.copy(placed(r, value, dtype))


def _check_element(r: Recorder, value: object, view: bool) -> None:
    """Into one element NumPy puts numbers only; through `...`, which makes a view of it, arrays of one element, too."""
    if is_sequence(value) or (not view and as_array(r, value).ndim):
        raise Unsupported("one element is set to a sequence or an array with axes", "index the value, or set a slice")


def fit(r: Recorder, v: ArrayHandle, shape: shapes.Shape) -> ArrayHandle:
    """`v` broadcast to `shape`; leading axes of one element that are too many fall away."""
    while v.ndim > len(shape) and shapes.same(r, v.shape[0], 1):
        v = shapes.drop_axes(r, v, [0])
    return shapes.expand(r, v, shape)


def _no_larger(r: Recorder, v: ArrayHandle, shape: shapes.Shape) -> ArrayHandle:
    """`v` broadcast to `shape`, as `ufunc.at` does it: it may not have more axes."""
    if v.ndim > len(shape):
        raise plain_numpy_raises("array is not broadcastable to correct shape")
    return shapes.expand(r, v, shape)


def _assign_where(r: Recorder, x: ArrayHandle, parts: Sequence[Part], v: ArrayHandle) -> bool:
    """Assignment through one mask of a value that does not depend on how many elements it selects."""
    masks = [p for p in parts if isinstance(p, Mask)]
    others = [p for p in parts if not isinstance(p, Mask)]
    if len(masks) != 1 or not all(isinstance(p, BASIC) for p in others):
        return False
    mask = masks[0].mask
    found = None if masks[0].constant is not None else masked_view(r, x, parts)
    before = () if found is not None else parts[: parts.index(masks[0])]
    if found is not None:
        view = found[0]
    elif any(isinstance(p, Pick) for p in others):
        return False
    else:
        after = parts[len(before) + 1 :]
        view = basic_view(r, x, [*before, *[Cut(0, n, 1) for n in _masked_sizes(x, before, mask)], *after])
    leading = len(before)
    trailing = view.ndim - leading - mask.ndim
    if not shapes.same_shape(r, view.shape[leading : leading + mask.ndim], mask.shape):
        raise plain_numpy_raises("the shape of the boolean index does not match the indexed array")
    # The value has the shape (before, selected, after); only one element along `selected` can be spread.
    if v.ndim > trailing:
        if not shapes.same(r, v.shape[v.ndim - trailing - 1], 1):
            return False
        front = v.shape[: v.ndim - trailing - 1]
        v = shapes.reshape(r, v, (*front, *(1,) * mask.ndim, *v.shape[v.ndim - trailing :]))
    v = fit(r, v, view.shape)
    mask = shapes.insert_axes(r, mask, mask.ndim, trailing)
    r.write(view, call(r, "where", shapes.expand(r, mask, view.shape), v, view))
    return True


def _masked_sizes(x: ArrayHandle, before: Sequence[Part], mask: ArrayHandle) -> Sequence[Size]:
    first = sum(p is not None for p in before)
    return x.shape[first : first + mask.ndim]


def scatter(r: Recorder, x: ArrayHandle, parsed: Parsed, v: ArrayHandle, mode: str) -> None:
    """Write `v` at index arrays: the last write to an element wins ("set"), or all are added ("add")."""
    base, indices, axes, place = separate(r, x, parsed)
    n = index_rank(indices)
    index_shape = shapes.broadcast_shapes(r, *(i.shape for i in indices))
    rest = tuple(s for i, s in enumerate(base.shape) if i not in axes)
    if 0 in index_shape:
        fit(r, v, (*rest[:place], *index_shape, *rest[place:]))
        return
    shape = (*rest[:place], *index_shape, *rest[place:])
    v = fit(r, v, shape) if mode == "set" else _no_larger(r, v, shape)
    v = shapes.permute(r, v, [*range(place, place + n), *range(place), *range(place + n, v.ndim)])
    axes_from_end = tuple(a - base.ndim for a in axes)
    result = call(r, "scatter", base, v, *indices, axes=axes_from_end, core=base.ndim, mode=mode, index_rank=n)
    r.write(base, result)


def ufunc_at(r: Recorder, u: np.ufunc, a: object, indices: object, b: object = None) -> None:
    """`u.at(a, indices, b)`: like `a[indices] = u(a[indices], b)`, but repeated indices count each time."""
    if not isinstance(a, ArrayHandle) or not a.writeable:
        raise plain_numpy_raises("ufunc.at needs a writeable array")
    if u not in (np.add, np.subtract):
        raise Unsupported(f"np.{u.__name__}.at", "use np.add.at, or a[idx] op= b if no index is repeated")
    if a.dtype is dtypes.bool_:
        raise Unsupported(f"np.{u.__name__}.at on bools", "count in integers, or write a[idx] |= b")
    value = operand(r, b)
    if value.handle is not None and not np.can_cast(value.handle.dtype.numpy, a.dtype.numpy, "same_kind"):
        raise plain_numpy_raises("cannot cast the operand of ufunc.at")
    v = lift(r, value, a.dtype)
    if u is np.subtract:
        v = call(r, "negative", v)
    parsed = parse(r, a, indices)
    if any(isinstance(p, Mask) for p in parsed.parts):
        try:
            parsed = without_masks(r, parsed)
        except Unsupported as error:
            sign = "+" if u is np.add else "-"
            remedy = f"write a[mask] {sign}= b, which is the same: a mask repeats no index"
            raise Unsupported(f"np.{u.__name__}.at where a mask of this call's data is true", remedy) from error
    if all(isinstance(p, BASIC) for p in parsed.parts):
        view = basic_view(r, a, parsed.parts)
        r.write(view, call(r, "add", view, _no_larger(r, v, view.shape)))
        return
    scatter(r, a, parsed, v, "add")


def fill(r: Recorder, x: ArrayHandle, value: object) -> None:
    """`x.fill(value)`."""
    _check_element(r, value, view=False)
    setitem(r, x, Ellipsis, value)


def np_copyto(r: Recorder, dst: object, src: object, casting: str = "same_kind", where: object = True) -> None:
    """`numpy.copyto`."""
    if not isinstance(dst, ArrayHandle) or not dst.writeable or dst.numpy_scalar:
        raise plain_numpy_raises("np.copyto needs a writeable array")
    source = operand(r, src)
    if isinstance(source.key, np.dtype):
        allowed = np.can_cast(source.key, dst.dtype.numpy, casting)  # type: ignore[arg-type]
    elif casting in ("no", "equiv"):
        raise Unsupported(f"np.copyto of a Python number by rule {casting!r}", "use casting='same_kind'")
    else:
        example = {int: 0, float: 0.0, complex: 0j}[source.key]
        allowed = casting == "unsafe" or np.result_type(dst.dtype.numpy, example) == dst.dtype.numpy
    if not allowed:
        raise plain_numpy_raises("cannot cast the source of np.copyto")
    value = fit(r, lift(r, source, dst.dtype), dst.shape)
    if where is not True:
        mask = as_mask(r, where)
        value = call(r, "where", shapes.expand(r, mask, dst.shape), value, dst)
    r.write(dst, value)


def np_putmask(r: Recorder, a: object, mask: object, values: object) -> None:
    """`numpy.putmask` with one value."""
    if not isinstance(a, ArrayHandle) or not a.writeable or as_array(r, values).ndim:
        raise Unsupported("np.putmask of several values", "use np.where, or a[mask] = value")
    m = as_array(r, mask)
    if not shapes.same_shape(r, m.shape, a.shape):
        raise plain_numpy_raises("putmask: mask and data must be the same size")
    m = m if m.dtype is dtypes.bool_ else call(r, "not_equal", m, constant(r, 0, m.dtype))
    r.write(a, call(r, "where", m, shapes.expand(r, placed(r, values, a.dtype), a.shape), a))


def np_fill_diagonal(r: Recorder, a: object, val: object, wrap: bool = False) -> None:
    """`numpy.fill_diagonal` of a matrix with one value."""
    if not isinstance(a, ArrayHandle) or not a.writeable or a.ndim != 2 or as_array(r, val).ndim:
        raise Unsupported("np.fill_diagonal beyond one value in a matrix", "assign with index arrays")
    if wrap:
        raise Unsupported("np.fill_diagonal(wrap=True)", "assign with index arrays")
    where = r.view("diagonal", a, offset=0, axis1=-2, axis2=-1)
    r.write(where, shapes.expand(r, placed(r, val, a.dtype), where.shape))
