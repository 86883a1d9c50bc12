"""Byte strides at representative sizes: of inputs, of contiguous arrays, of views.

What goes in: shapes, strides and view calls. What comes out: the byte strides NumPy has there. A symbolic size stands
for an ordinary size above one, a symbolic stride for the one that `Input.order` implies; so the answer is right for
every size but 0 and 1, where NumPy's own choices change with the size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from broadloom.graph.ir import Input, Order, TensorType
from broadloom.records import dataclass
from broadloom.symbolic import Expr, Size, evaluate, free_symbols

Strides = tuple[int, ...]
GAP = 3  # how much wider a free stride is than a contiguous one
ORDINARY = 7  # what a symbolic size stands for, within its range


def representative(size: Size) -> int:
    """The value that a size stands for when an order is worked out."""
    if not isinstance(size, Expr):
        return size
    values: dict[Any, int] = {}
    for s in free_symbols(size):
        high = ORDINARY if s.hi is None else representative(s.hi)
        values[s] = max(s.lo, min(ORDINARY, high))
    return evaluate(size, values)


def representatives(shape: Sequence[Size]) -> tuple[int, ...]:
    return tuple(map(representative, shape))


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand at representative sizes."""

    shape: tuple[int, ...]
    strides: Strides
    itemsize: int


def input_strides(declared: Input, shape: Sequence[int] | None = None) -> Strides:
    """Representative byte strides of an input: constants as they are, symbols as `order` implies, with gaps, since an
    array of free strides is contiguous in no order. `shape`: of these sizes instead of representative ones."""
    shape = representatives(declared.type.shape) if shape is None else shape
    strides = [0] * len(shape)
    extent = 1
    for axis in reversed(declared.order):
        stride = declared.strides[axis]
        free = _is_free(stride, declared)
        strides[axis] = GAP * extent if free else representative(stride)
        extent = max(extent, abs(strides[axis]) * max(shape[axis], 1))
    return tuple(s * declared.type.dtype.itemsize for s in strides)


def has_free_strides(declared: Input) -> bool:
    """Whether some strides are known at run time alone, so that the representative ones may differ from them."""
    return any(_is_free(stride, declared) for stride in declared.strides)


def _is_free(stride: Size, declared: Input) -> bool:
    known = {s for size in declared.type.shape if isinstance(size, Expr) for s in free_symbols(size)}
    return isinstance(stride, Expr) and not set(free_symbols(stride)) <= known


def dense_strides(shape: Sequence[int], order: Order, itemsize: int) -> Strides:
    """Byte strides of a contiguous array whose axes lie in `order`, outermost first."""
    strides = [itemsize] * len(shape)
    step = itemsize
    for axis in reversed(order):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


def c_order(ndim: int) -> Order:
    return tuple(range(ndim))


def is_contiguous(shape: Sequence[int], strides: Strides, itemsize: int, *, fortran: bool = False) -> bool:
    """NumPy's flag: axes of one element do not count, an empty array is contiguous."""
    if 0 in shape:
        return True
    step = itemsize
    for axis in range(len(shape)) if fortran else reversed(range(len(shape))):
        if shape[axis] != 1:
            if strides[axis] != step:
                return False
            step *= shape[axis]
    return True


def is_fortran(x: Operand) -> bool:
    """What `numpy.isfortran` says."""
    return is_contiguous(x.shape, x.strides, x.itemsize, fortran=True) and not is_contiguous(
        x.shape, x.strides, x.itemsize
    )


# ---- views ----------------------------------------------------------------------------------------------------------


def reshape_strides(operand: Operand, shape: Sequence[int]) -> Strides | None:
    """Strides of the reshaped view, or None where NumPy has to copy."""
    new = tuple(shape)
    if new == operand.shape:
        return operand.strides
    if is_contiguous(operand.shape, operand.strides, operand.itemsize):
        return dense_strides(new, c_order(len(new)), operand.itemsize)
    old = [(n, s) for n, s in zip(operand.shape, operand.strides, strict=True) if n != 1]
    result: list[int] = []
    i = j = 0
    while i < len(old) and j < len(new):
        start_old, start_new = i, j
        count_old, count_new = old[i][0], new[j]
        while count_old != count_new:  # the shortest runs of axes of one size in all
            if count_new < count_old:
                j += 1
                if j == len(new):
                    return None
                count_new *= new[j]
            else:
                i += 1
                if i == len(old):
                    return None
                count_old *= old[i][0]
        if any(old[k][1] != old[k + 1][0] * old[k + 1][1] for k in range(start_old, i)):
            return None
        steps = [old[i][1]]
        for k in range(j, start_new, -1):
            steps.append(steps[-1] * new[k])
        result += reversed(steps)
        i, j = i + 1, j + 1
    last = result[-1] if result else operand.itemsize
    return (*result, *(last for _ in new[len(result) :]))


def _view_permute(x: Operand, attrs: Mapping[str, Any], result: TensorType) -> Strides:
    axes = attrs["axes"]
    loop = len(x.shape) - len(axes)
    return (*x.strides[:loop], *(x.strides[axis] for axis in axes))


def _view_reshape(x: Operand, attrs: Mapping[str, Any], result: TensorType) -> Strides:
    shape = representatives(result.shape)
    strides = reshape_strides(x, shape)
    return dense_strides(shape, c_order(len(shape)), x.itemsize) if strides is None else strides


def _view_expand(x: Operand, attrs: Mapping[str, Any], result: TensorType) -> Strides:
    shape = representatives(result.shape)
    added = len(shape) - len(x.shape)
    kept = (0 if n != m else s for n, m, s in zip(x.shape, shape[added:], x.strides, strict=True))
    return (*(0,) * added, *kept)


def _view_slice(x: Operand, attrs: Mapping[str, Any], result: TensorType) -> Strides:
    steps = attrs["steps"]
    loop = len(x.shape) - len(steps)
    core = (s * representative(step) for s, step in zip(x.strides[loop:], steps, strict=True))
    return (*x.strides[:loop], *core)


def _view_flip(x: Operand, attrs: Mapping[str, Any], result: TensorType) -> Strides:
    flipped = {axis % len(x.shape) for axis in attrs["axes"]}
    return tuple(-s if axis in flipped else s for axis, s in enumerate(x.strides))


def _view_diagonal(x: Operand, attrs: Mapping[str, Any], result: TensorType) -> Strides:
    ndim = len(x.shape)
    taken = (attrs["axis1"] % ndim, attrs["axis2"] % ndim)
    rest = (s for axis, s in enumerate(x.strides) if axis not in taken)
    return (*rest, x.strides[taken[0]] + x.strides[taken[1]])


def _view_dtype(x: Operand, attrs: Mapping[str, Any], result: TensorType) -> Strides:
    width = result.dtype.itemsize
    return x.strides if width == x.itemsize or not x.strides else (*x.strides[:-1], width)


VIEW_RULES: dict[str, Callable[[Operand, Mapping[str, Any], TensorType], Strides]] = {
    "permute": _view_permute,
    "reshape": _view_reshape,
    "expand": _view_expand,
    "slice": _view_slice,
    "flip": _view_flip,
    "diagonal": _view_diagonal,
    "view_dtype": _view_dtype,
}


def view_strides(name: str, attrs: Mapping[str, Any], operand: Operand, result: TensorType) -> Strides:
    """Byte strides of a view; views of views pass them on."""
    return VIEW_RULES[name](operand, attrs, result)
