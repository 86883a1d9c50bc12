"""`x[mask]`, whose size depends on data, as far as its size does not matter.

What goes in: an array and a boolean array over its leading axes. What comes out: a `Selection`, which stands for the
selected elements by the whole array and the mask. Pointwise functions run on the whole array; sums, means and the
like reduce with where=; `x[mask] op= v` and `x[mask] = f(x[mask])` write back where the mask holds.

What holds: the size of a selection is a number at run time; asking for its shape or returning it is refused. Nothing
raises for an element that is not selected. Selections combine where their masks are one and the same value.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from broadloom.dtypes import DType
from broadloom.frontend import shapes
from broadloom.frontend.operands import call, cast, constant, from_size
from broadloom.frontend.unsupported import DependsOnData, plain_numpy_raises
from broadloom.graph.ir import Node, ValueId
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle, WeakScalar
from broadloom.symbolic import Expr

REMEDY = "use np.where(mask, x, 0), a where= argument, or assign with x[mask] = value"


def refuse(what: str = "the size of a boolean selection") -> NoReturn:
    """A selection asked for what depends on its size."""
    raise DependsOnData(f"{what}: it depends on data", REMEDY)


class Selection(ArrayHandle):
    """The elements of `full` where `mask` holds; `mask` covers the leading axes of `full`. Both are values that
    nothing writes to. What a handle tells of its shape or memory is refused here."""

    __slots__ = ("full", "mask")

    def __init__(self, full: ArrayHandle, mask: ArrayHandle) -> None:
        self.full, self.mask = full, mask
        self.numpy_scalar, self.sealed, self.tensor, self.packed = False, False, False, None

    @property
    def writeable(self) -> bool:
        return True

    @property
    def dtype(self) -> DType:
        return self.full.dtype

    @property
    def rest(self) -> int:
        """How many axes lie behind those of the mask."""
        return self.full.ndim - self.mask.ndim

    @property
    def ndim(self) -> int:
        return 1 + self.rest

    @property
    def storage(self) -> Any:  # type: ignore[override]
        refuse("the memory of a boolean selection")

    @property
    def views(self) -> Any:  # type: ignore[override]
        refuse("the memory of a boolean selection")

    @property
    def type(self) -> Any:  # type: ignore[override]
        refuse()

    @property
    def strides(self) -> Any:  # type: ignore[override]
        refuse("the memory of a boolean selection")

    @property
    def shape(self) -> Any:
        refuse()


def select(r: Recorder, x: ArrayHandle, mask: ArrayHandle) -> Selection:
    """`x[mask]`."""
    if not shapes.same_shape(r, x.shape[: mask.ndim], mask.shape):
        raise plain_numpy_raises("boolean index did not match indexed array")
    return Selection(r.copy(x), r.copy(mask))


def selections(x: object) -> Iterator[Selection]:
    """Those among arguments."""
    if isinstance(x, Selection):
        yield x
    elif isinstance(x, (list, tuple)):
        for e in x:
            yield from selections(e)
    elif isinstance(x, dict):
        yield from selections(tuple(x.values()))


def selects(x: object) -> bool:
    """Is there one among arguments?"""
    return next(selections(x), None) is not None


def same_value(r: Recorder, a: ValueId, b: ValueId, depth: int = 8) -> bool:
    """Are two graph values equal because they are the same computation?"""
    if a == b:
        return True
    first, second = r.builder.node_of(a), r.builder.node_of(b)
    if depth == 0 or first is None or second is None or len(first.types) > 1:
        return False
    return _same_call(first, second) and all(
        same_value(r, i, j, depth - 1) for i, j in zip(first.inputs, second.inputs, strict=True)
    )


def _same_call(a: Node, b: Node) -> bool:
    return a.op == b.op and a.attrs == b.attrs and a.types == b.types and len(a.inputs) == len(b.inputs)


def same_mask(r: Recorder, a: ArrayHandle, b: ArrayHandle) -> bool:
    """Do two masks select the same elements for certain?"""
    return a.shape == b.shape and same_value(r, r.read(a), r.read(b))


def over(r: Recorder, x: Selection) -> ArrayHandle:
    """The mask with axes of one element for those behind it."""
    return shapes.insert_axes(r, x.mask, x.mask.ndim, x.rest)


# ---- handlers: how an entry takes selections -----------------------------------------------------------------------

Run = Callable[..., Any]


def pointwise(run: Run, inputs: int | None = None) -> Run:
    """An elementwise entry: on the whole arrays, the result selected again. `inputs`: how many arguments by position
    it reads, where any further ones are outputs."""

    def handler(r: Recorder, *args: Any, **kwargs: Any) -> Any:
        found = list(selections(args))
        if not found or selects(kwargs):
            refuse("a boolean selection in this argument")
        first = found[0]
        if any(s.rest != first.rest or not same_mask(r, s.mask, first.mask) for s in found):
            refuse("boolean selections by different masks")
        others = [a for a in (*args, *kwargs.values()) if not isinstance(a, Selection)]
        if any(isinstance(a, (list, tuple)) or getattr(a, "ndim", 0) > first.rest for a in others):
            refuse("a boolean selection together with an array of its size")
        if _writes(run, inputs, (r, *args), kwargs):
            refuse("out= or where= with a boolean selection")
        result = run(r, *(a.full if isinstance(a, Selection) else a for a in args), **kwargs)
        if isinstance(result, tuple):
            return tuple(Selection(part, first.mask) for part in result)
        kept = next((s for s in found if s.full is result), None)  # NumPy gives the argument itself
        return Selection(result, first.mask) if kept is None else kept

    return handler


def _writes(run: Run, inputs: int | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Is there an out= or where= among the arguments?"""
    if inputs is not None and len(args) - 1 > inputs:
        return True
    given = kwargs if inputs is not None else inspect.signature(run).bind(*args, **kwargs).arguments
    return given.get("out") is not None or given.get("where", True) is not True


def power(run: Run) -> Run:
    """A power: integers raise for negative exponents, so those that are not selected become 0."""
    plain = pointwise(run, 2)

    def handler(r: Recorder, *args: Any, **kwargs: Any) -> Any:
        exponent = args[1] if len(args) > 1 else None
        if isinstance(exponent, (WeakScalar, Expr)) and isinstance(args[0], ArrayHandle) and args[0].dtype.kind == "i":
            refuse("a boolean selection to the power of an int known only at run time")
        if isinstance(exponent, ArrayHandle) and exponent.dtype.kind == "i":
            chosen = next(selections(args))
            value = exponent.full if isinstance(exponent, Selection) else exponent
            if isinstance(exponent, Selection) or exponent.ndim <= chosen.rest:
                whole = call(r, "where", over(r, chosen), value, constant(r, 0, value.dtype))
                mask = exponent.mask if isinstance(exponent, Selection) else chosen.mask
                args = (args[0], Selection(whole, mask), *args[2:])
        return plain(r, *args, **kwargs)

    return handler


def inplace(plain: Run) -> Run:
    """`x[mask] op= y`, for the handler of `x[mask] op y`: the selection changes its value, to its own dtype."""

    def handler(r: Recorder, x: Any, y: Any) -> Any:
        if not isinstance(x, Selection):
            refuse("a boolean selection written into an array of its size")
        result = plain(r, x, y)
        if not np.can_cast(result.dtype.numpy, x.dtype.numpy, "same_kind"):
            raise plain_numpy_raises(f"cannot cast output from {result.dtype} to {x.dtype} by rule 'same_kind'")
        if not shapes.same_shape(r, result.full.shape, x.full.shape):
            raise plain_numpy_raises("the right side does not broadcast to the selection")
        x.full = cast(r, result.full, x.dtype)
        return x

    return handler


def reduction(run: Run) -> Run:
    """A reduction of all that is selected, or along the axis of what is selected: the whole array with where=. Along
    an axis behind that one, each selected element has a result of its own."""
    signature = inspect.signature(run)

    def handler(r: Recorder, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(r, *args, **kwargs)
        x = bound.arguments.pop("a")
        if not isinstance(x, Selection) or selects(tuple(bound.arguments.values())):
            refuse("a boolean selection in this argument")
        if "where" in bound.arguments or bound.arguments.get("keepdims", False) is True:
            refuse("where= or keepdims= with a boolean selection")
        given = {name: value for name, value in bound.arguments.items() if name not in ("r", "axis")}
        axis = bound.arguments.get("axis")
        if axis is None:
            axes = None
        elif isinstance(axis, int) and -x.ndim <= axis < x.ndim:
            axes = tuple(range(x.mask.ndim))
            if axis % x.ndim and given.get("out") is None:
                return Selection(run(r, x.full, axis=axis % x.ndim - 1 + x.mask.ndim, **given), x.mask)
            if axis % x.ndim:
                refuse("a reduction of a boolean selection into out=")
        else:
            refuse("a reduction of a boolean selection along several axes")
        where = shapes.expand(r, over(r, x), x.full.shape)
        return run(r, x.full, axis=axes, where=where, **given)

    return handler


def with_zeros(run: Run) -> Run:
    """A sum of products over all of one selection or two: whole vectors with 0 where nothing is selected."""

    def handler(r: Recorder, *args: Any, **kwargs: Any) -> Any:
        if kwargs or not all(isinstance(a, Selection) for a in args):
            refuse("a boolean selection in this argument")
        first = args[0]
        if len(args) > 1 and any(a.rest or not same_mask(r, a.mask, first.mask) for a in args):
            refuse("a product of boolean selections by different masks, or of several axes")
        return run(r, *(_flat_with_zeros(r, a) for a in args))

    return handler


def _flat_with_zeros(r: Recorder, x: Selection) -> ArrayHandle:
    whole = call(r, "where", over(r, x), x.full, constant(r, 0, x.dtype))
    return shapes.reshape(r, whole, (shapes.count(whole.shape),))


def count_nonzero(run: Run) -> Run:
    """How many selected elements are not zero."""

    def handler(r: Recorder, a: Any) -> Any:
        nonzero = call(r, "not_equal", a.full, constant(r, 0, a.dtype))
        chosen = call(r, "logical_and", nonzero, over(r, a))
        return run(r, chosen)

    return handler


def length(r: Recorder, x: Selection) -> WeakScalar:
    """`len(x[mask])`, which only the data can tell: a Python int at run time."""
    chosen = call(r, "count_nonzero", x.mask, axes=tuple(range(-x.mask.ndim, 0)), keepdims=False)
    return WeakScalar(r.as_scalar(chosen), "i")


def size(r: Recorder, x: Selection) -> WeakScalar:
    """`x[mask].size`."""
    behind = from_size(r, shapes.count(x.full.shape[x.mask.ndim :]))
    return WeakScalar(r.as_scalar(call(r, "multiply", length(r, x).handle, behind)), "i")


def dtype_only(run: Run) -> Run:
    """Attributes that say nothing of the size."""

    def handler(r: Recorder, x: Any) -> Any:
        return run(r, x.full)

    return handler


def ndim(r: Recorder, x: Any) -> int:
    """`x[mask].ndim`."""
    return int(x.ndim)
