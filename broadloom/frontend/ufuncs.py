"""The ufunc protocol: promotion, broadcasting, out=, where=, dtype=, casting=, and the ufunc methods.

What goes in: a NumPy ufunc and its arguments as the user wrote them. What comes out: a NumPy scalar handle for a
0-d result, an array handle otherwise, the out array itself where out= was given, a tuple for several results.

What holds: the loop's dtypes are those NumPy resolves; a write to out= happens through the storage model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from broadloom import dtypes
from broadloom.dtypes import DType
from broadloom.frontend import shapes
from broadloom.frontend.loops import COMPARISONS, loop
from broadloom.frontend.operands import (
    Operand,
    as_array,
    call,
    cast,
    constant,
    fits,
    known_dtype,
    lift,
    operand,
    resolve,
)
from broadloom.frontend.unsupported import Unsupported, plain_numpy_raises
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle
from broadloom.symbolic import Size


def ufunc(
    r: Recorder,
    u: np.ufunc,
    *args: object,
    out: object = None,
    where: object = True,
    dtype: object = None,
    casting: str = "same_kind",
    order: str = "K",
    subok: bool = True,
    signature: object = None,
) -> Any:
    """Call `u(*args, ...)`."""
    return run_ufunc(r, u, loop, args, out, where, dtype, casting, order, signature)


def run_ufunc(
    r: Recorder,
    u: np.ufunc,
    compute: Callable[..., Any],
    args: tuple[object, ...],
    out: object = None,
    where: object = True,
    dtype: object = None,
    casting: str = "same_kind",
    order: str = "K",
    signature: object = None,
) -> Any:
    """The protocol, for the loop `compute(recorder, u, operands, dtypes)`."""
    if not u.nin <= len(args) <= u.nargs:
        raise plain_numpy_raises(f"{u.__name__} takes {u.nin} arguments, got {len(args)}")
    outs = _outs(u, args[u.nin :], out)
    operands = tuple(operand(r, x) for x in args[: u.nin])
    loop_dtypes = resolve(
        u,
        (*(o.key for o in operands), *(None if o is None else o.dtype.numpy for o in outs)),
        _signature(u, dtype, signature),
        casting,
    )
    if u is np.power and loop_dtypes[1].kind == "i" and isinstance(operands[1].number, int) and operands[1].number < 0:
        raise plain_numpy_raises("integers to negative integer powers are not allowed")
    folded = _compare_out_of_range(r, u, operands, loop_dtypes)
    if folded is None:
        lifted = tuple(lift(r, o, d) for o, d in zip(operands, loop_dtypes[: u.nin], strict=True))
        results = compute(r, u, lifted, loop_dtypes)
    else:
        results = folded
    mask = None if where is True else as_mask(r, where)
    given = [o.handle for o in operands if o.handle is not None] + [o for o in outs if o is not None]
    values = _iterated(r, results if isinstance(results, tuple) else (results,), outs, mask, given)
    values = [in_order(r, v, order) if o is None else v for v, o in zip(values, outs, strict=True)]
    delivered = tuple(deliver_broadcast(r, v, o, mask, casting) for v, o in zip(values, outs, strict=True))
    return delivered if len(delivered) > 1 else delivered[0]


def _outs(u: np.ufunc, positional: Sequence[object], out: object) -> tuple[ArrayHandle | None, ...]:
    if out is None:
        outs: tuple[object, ...] = (*positional, *(None,) * (u.nout - len(positional)))
    elif positional:
        raise plain_numpy_raises("out given both by position and by name")
    else:
        outs = out if isinstance(out, tuple) else (out,)
        if len(outs) != u.nout:
            raise plain_numpy_raises(f"out must have {u.nout} entries")
    return tuple(as_out(o) for o in outs)


def as_out(out: object) -> ArrayHandle | None:
    """The array that out= names, writeable."""
    if isinstance(out, tuple) and len(out) == 1:
        out = out[0]
    if out is None:
        return None
    if not isinstance(out, ArrayHandle) or out.numpy_scalar:
        raise plain_numpy_raises("out must be an array")
    if not out.writeable:
        raise plain_numpy_raises("output array is read-only")
    return out


def _signature(u: np.ufunc, dtype: object, signature: object) -> tuple[np.dtype[Any] | None, ...] | None:
    if dtype is not None:
        if signature is not None:
            raise plain_numpy_raises("give dtype or signature, not both")
        return (*(None,) * u.nin, *(known_dtype(dtype).numpy,) * u.nout)
    if signature is None:
        return None
    if isinstance(signature, tuple) and len(signature) == u.nargs:
        return tuple(None if s is None else known_dtype(s).numpy for s in signature)
    raise Unsupported("a ufunc signature given as text", "give a tuple of dtypes, or dtype=")


def _iterated(
    r: Recorder,
    values: Sequence[ArrayHandle],
    outs: Sequence[ArrayHandle | None],
    mask: ArrayHandle | None,
    given: Sequence[ArrayHandle],
) -> list[ArrayHandle]:
    """The results in the shape of NumPy's one loop, over which operands, outputs and mask broadcast together; an
    output has to have it."""
    if len(values) == 1 or all(o is None for o in outs):
        return list(values)
    written = [o for o in outs if o is not None]
    if any(x.storage is y.storage and not _apart(x, y) for k, x in enumerate(written) for y in written[:k]):
        raise Unsupported("outputs of one call that share memory", "give arrays that are apart")
    arrays = [*values, *(o for o in outs if o is not None), *(() if mask is None else (mask,))]
    shape = shapes.broadcast_shapes(r, *(x.shape for x in arrays))
    for o in outs:
        if o is not None and not shapes.same_shape(r, o.shape, shape):
            raise plain_numpy_raises(f"non-broadcastable output operand with shape {o.shape}; the loop has {shape}")
    return [
        v if o is not None else r.arrange(shapes.expand(r, v, shape), given) for v, o in zip(values, outs, strict=True)
    ]


def _apart(x: ArrayHandle, y: ArrayHandle) -> bool:
    """Whether two views of one array are known to have no element in common: where they part, it is by slices."""
    for p, q in zip(x.views, y.views, strict=False):
        if p != q:
            places = ([p.attributes[k] for k in ("starts", "sizes", "steps")] for p in (p, q))
            return p.op == q.op == "slice" and any(
                _no_common(*a, *b) for a, b in zip(*(zip(*place, strict=True) for place in places), strict=True)
            )
    return False


def _no_common(start: Size, size: Size, step: Size, start2: Size, size2: Size, step2: Size) -> bool:
    """Whether two ranges, start, start + step and so on, have no number in common."""
    if not (isinstance(start, int) and isinstance(start2, int) and isinstance(step, int) and isinstance(step2, int)):
        return False
    if step and step == step2 and (start - start2) % step:
        return True
    if not (isinstance(size, int) and isinstance(size2, int)):
        return False
    ends = start + (size - 1) * step, start2 + (size2 - 1) * step2
    return (
        not (size and size2) or max(start, ends[0]) < min(start2, ends[1]) or max(start2, ends[1]) < min(start, ends[0])
    )


def as_mask(r: Recorder, where: object) -> ArrayHandle:
    """The where= argument, which NumPy casts to bool safely."""
    mask = as_array(r, where)
    if mask.dtype is not dtypes.bool_:
        raise plain_numpy_raises("where= must be boolean")
    return mask


def in_order(r: Recorder, value: ArrayHandle, order: str) -> ArrayHandle:
    """A fresh result in the memory order that `order=` asks for."""
    if order == "K":
        return value
    if order == "A":
        raise Unsupported("the order 'A' of a ufunc", "say 'C', 'F' or 'K'")
    if order not in ("C", "F"):
        raise plain_numpy_raises(f"order must be one of 'C', 'F', 'A', or 'K' (got {order!r})")
    return r.copy(value, "F" if order == "F" else "C")


def scalar(r: Recorder, value: ArrayHandle) -> ArrayHandle:
    """A 0-d result as the NumPy scalar it is; anything else as it is."""
    return r.as_scalar(value) if value.ndim == 0 else value


def deliver(r: Recorder, value: ArrayHandle, out: ArrayHandle | None, casting: str = "same_kind") -> ArrayHandle:
    """Give `value` to the caller: written into `out`, which has its shape, or as a fresh result."""
    if out is None:
        return scalar(r, value)
    if not shapes.same_shape(r, value.shape, out.shape):
        raise plain_numpy_raises(f"the output array has shape {out.shape}, the result {value.shape}")
    return deliver_broadcast(r, value, out, None, casting)


def deliver_broadcast(
    r: Recorder, value: ArrayHandle, out: ArrayHandle | None, mask: ArrayHandle | None, casting: str
) -> ArrayHandle:
    """As `deliver`, in the way of a ufunc: the value broadcasts to `out` and is written where `mask` allows."""
    if out is None:
        if mask is None:
            return scalar(r, value)
        # NumPy leaves unselected elements uninitialised; zero is as good a value as any.
        return scalar(r, call(r, "where", mask, value, constant(r, 0, value.dtype)))
    if not np.can_cast(value.dtype.numpy, out.dtype.numpy, casting=casting):  # type: ignore[arg-type]
        raise plain_numpy_raises(f"cannot cast output from {value.dtype} to {out.dtype} by rule {casting!r}")
    value = shapes.expand(r, cast(r, value, out.dtype), out.shape)
    if mask is not None:
        value = call(r, "where", shapes.expand(r, mask, out.shape), value, out)
    r.write(out, value)
    return out


_EXTREME: dict[np.ufunc, tuple[bool, bool]] = {  # result for (other < number, other > number)
    np.equal: (False, False),
    np.not_equal: (True, True),
    np.less: (True, False),
    np.less_equal: (True, False),
    np.greater: (False, True),
    np.greater_equal: (False, True),
}


def _compare_out_of_range(
    r: Recorder, u: np.ufunc, operands: tuple[Operand, ...], loop_dtypes: tuple[DType, ...]
) -> ArrayHandle | None:
    """Integers against a Python int beyond their dtype: NumPy 2 compares the true values, so the answer is known."""
    if u not in COMPARISONS or not loop_dtypes[0].is_integer:
        return None
    for i, o in enumerate(operands):
        other = operands[1 - i]
        if not isinstance(o.number, int) or fits(o.number, loop_dtypes[i]):
            continue
        if other.handle is None or not other.handle.dtype.is_integer:
            continue
        other_is_less = o.number > 0
        answer = _EXTREME[u][0 if other_is_less == (i == 1) else 1]
        return r.arrange(full(r, other.shape, answer, dtypes.bool_), [other.handle])
    return None


def full(r: Recorder, shape: shapes.Shape, value: object, dtype: DType) -> ArrayHandle:
    """A fresh array of one value."""
    scalar_value = lift(r, operand(r, value), dtype)
    return r.copy(shapes.expand(r, scalar_value, shape))


def apply(r: Recorder, u: np.ufunc, *args: object, **kwargs: Any) -> ArrayHandle:
    """`u(*args, ...)` with one result, for compositions."""
    result = ufunc(r, u, *args, **kwargs)
    if not isinstance(result, ArrayHandle):
        raise TypeError(f"{u.__name__} has several results")
    return result


# ---- ufunc methods -------------------------------------------------------------------------------------------------


def outer(r: Recorder, u: np.ufunc, a: object, b: object, **kwargs: Any) -> Any:
    """`u.outer(a, b)`: every pair. Python numbers become arrays, and count as such in promotion."""
    if u.nin != 2:
        raise plain_numpy_raises(f"{u.__name__}.outer needs a ufunc of two arguments")
    x, y = as_array(r, a), as_array(r, b)
    return ufunc(r, u, shapes.insert_axes(r, x, x.ndim, y.ndim), y, **kwargs)


POWERS_FAST: dict[object, np.ufunc] = {-1: np.reciprocal, 0.5: np.sqrt, 1: np.positive, 2: np.square}


def power(r: Recorder, a: object, b: object, *outs: object, **kwargs: Any) -> Any:
    """`numpy.power`, whose loops over float32 and float64 are other functions where all elements have one exponent of
    `POWERS_FAST`."""
    is_number = isinstance(b, (int, float, np.integer, np.floating)) and not isinstance(b, bool)
    fast = POWERS_FAST.get(b) if is_number else None
    kwargs.pop("subok", None)
    return run_ufunc(r, np.power, loop if fast is None else partial(_power_by, fast), (a, b, *outs), **kwargs)


def _power_by(
    fast: np.ufunc, r: Recorder, u: np.ufunc, args: tuple[ArrayHandle, ...], loop_dtypes: tuple[DType, ...]
) -> Any:
    by = fast if loop_dtypes[0] in (dtypes.float32, dtypes.float64) else u
    return loop(r, by, args[: by.nin], (*loop_dtypes[: by.nin], loop_dtypes[-1]))


def power_operator(r: Recorder, a: object, b: object, **kwargs: Any) -> Any:
    """`a ** b`: as NumPy's operator, which takes square, sqrt and reciprocal for those constant exponents."""
    if isinstance(a, ArrayHandle) and isinstance(b, (int, float)) and not isinstance(b, (bool, np.generic)):
        fast = POWERS_FAST.get(b)
        exact_kind = a.dtype.kind in "fc" or (fast is np.square and isinstance(b, int) and a.dtype.kind in "bui")
        if fast is not None and exact_kind and not a.numpy_scalar and a.dtype is not dtypes.bfloat16:
            return ufunc(r, fast, a, **kwargs)
    # the operator of NumPy's scalars is C's pow
    return ufunc(r, np.power, a, b, **kwargs) if _is_scalar(a) else power(r, a, b, **kwargs)


def _is_scalar(a: object) -> bool:
    return isinstance(a, np.generic) or (isinstance(a, ArrayHandle) and a.numpy_scalar)


def conjugate_method(r: Recorder, a: ArrayHandle, out: object = None) -> ArrayHandle:
    """`x.conj()`: the array itself if it is real."""
    if out is None and a.dtype.kind != "c":
        return a
    return apply(r, np.conjugate, a, out=out)
