"""Rewrites ops into the ops that lowering has.

What holds: `DECOMPOSITIONS` is the whole list; a decomposition computes what NumPy computes, in NumPy's precision
(the mean of float16 in float32, the variance in two passes); it speaks of core axes only, so loop dims pass through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from broadloom import dtypes
from broadloom.dtypes import DType
from broadloom.graph.builder import GraphBuilder
from broadloom.graph.ir import Graph, Node, ValueId
from broadloom.graph.manager import PassContext
from broadloom.graph.rewrite import rewrite
from broadloom.ops.record import Op
from broadloom.passes.small_matrices import Lanes, choose
from broadloom.records import dataclass
from broadloom.symbolic import Expr, Size, product

Operands = tuple[ValueId, ...]
# One value, or one for each result; None: the call stays.
Decomposition = Callable[[GraphBuilder, Operands, dict[str, Any]], ValueId | Operands | None]


@dataclass(frozen=True, slots=True)
class Decompose:
    """Applies every decomposition of the table."""

    name: ClassVar[str] = "decompose"

    def run(self, graph: Graph, context: PassContext) -> Graph:
        def rule(b: GraphBuilder, node: Node, operands: Operands) -> Operands | None:
            decomposition = DECOMPOSITIONS.get(node.op.name) if isinstance(node.op, Op) else None
            made = None if decomposition is None else decomposition(b, operands, node.attributes)
            return made if made is None or isinstance(made, tuple) else (made,)

        return rewrite(graph, rule)


def _call(b: GraphBuilder, op: str, *operands: ValueId, **attrs: Any) -> ValueId:
    return b.call_tuple(op, *operands, **attrs)[0]


def _cast(b: GraphBuilder, x: ValueId, dtype: DType) -> ValueId:
    return x if b.type_of(x).dtype is dtype else _call(b, "cast", x, dtype=dtype)


def _scalar(b: GraphBuilder, value: float, dtype: DType) -> ValueId:
    with np.errstate(over="ignore"):  # a count beyond float16 is inf, as in NumPy
        return b.constant(np.float64(value).astype(dtype.numpy))


def _count(b: GraphBuilder, x: ValueId, axes: Sequence[int]) -> Size:
    shape = b.type_of(x).shape
    return product(shape[axis] for axis in axes)


def _number(b: GraphBuilder, size: Size, dtype: DType, less: float = 0) -> ValueId:
    """`max(size - less, 0)` as a 0-d float: computed in float64 and rounded once, as NumPy does."""
    if not isinstance(size, Expr):
        return _scalar(b, max(size - less, 0), dtype)
    value = _cast(b, _call(b, "from_size", size=size), dtypes.float64)
    if less:
        left = _call(b, "subtract", value, _scalar(b, less, dtypes.float64))
        value = _call(b, "maximum", left, _scalar(b, 0, dtypes.float64))
    return _cast(b, value, dtype)


def _divide(b: GraphBuilder, x: ValueId, count: ValueId) -> ValueId:
    return _call(b, "divide", x, _cast(b, count, b.type_of(x).dtype))


def _mean(b: GraphBuilder, operands: Operands, attrs: dict[str, Any]) -> ValueId:
    (x,) = operands
    dtype = b.type_of(x).dtype
    wide = dtypes.float32 if dtype is dtypes.float16 else dtype
    total = _call(b, "sum", _cast(b, x, wide), **attrs)
    return _cast(b, _divide(b, total, _number(b, _count(b, x, attrs["axes"]), wide.real)), dtype)


def _var(b: GraphBuilder, operands: Operands, attrs: dict[str, Any]) -> ValueId:
    (x,) = operands
    axes, dtype = attrs["axes"], b.type_of(x).dtype
    count = _count(b, x, axes)
    total = _call(b, "sum", x, axes=axes, keepdims=True)
    rest = _call(b, "subtract", x, _divide(b, total, _number(b, count, dtype.real)))
    if dtype.kind == "c":
        square = _call(b, "real", _call(b, "multiply", rest, _call(b, "conj", rest)))
    else:
        square = _call(b, "multiply", rest, rest)
    total = _call(b, "sum", square, axes=axes, keepdims=attrs["keepdims"])
    return _divide(b, total, _number(b, count, dtype.real, attrs["ddof"]))


def _std(b: GraphBuilder, operands: Operands, attrs: dict[str, Any]) -> ValueId:
    return _call(b, "sqrt", _var(b, operands, attrs))


def _count_nonzero(b: GraphBuilder, operands: Operands, attrs: dict[str, Any]) -> ValueId:
    nonzero = _cast(b, operands[0], dtypes.bool_)
    return _call(b, "sum", _cast(b, nonzero, dtypes.int64), **attrs)


def _logsumexp(b: GraphBuilder, operands: Operands, attrs: dict[str, Any]) -> ValueId:
    """The shift by the maximum keeps exp in range; an infinite maximum shifts by nothing."""
    (x,) = operands
    dtype, axes = b.type_of(x).dtype, attrs["axes"]
    x = _cast(b, x, dtypes.float32 if dtype.bits == 16 else dtype)
    wide = b.type_of(x).dtype
    if _count(b, x, axes) == 0:
        return _cast(b, _call(b, "log", _call(b, "sum", x, **attrs)), dtype)
    top = _call(b, "max", x, axes=axes, keepdims=True)
    top = _call(b, "where", _call(b, "isfinite", top), top, _scalar(b, 0, wide))
    total = _call(b, "sum", _call(b, "exp", _call(b, "subtract", x, top)), axes=axes, keepdims=True)
    result = _cast(b, _call(b, "add", _call(b, "log", total), top), dtype)
    if attrs["keepdims"]:
        return result
    depth = -min(axes, default=0)
    core = b.type_of(result).shape[b.type_of(result).ndim - depth :]
    kept = tuple(n for k, n in enumerate(core) if k - depth not in axes)
    return _call(b, "reshape", result, core=depth, shape=kept)


def _double(b: GraphBuilder, x: ValueId) -> ValueId:
    """numpy.linalg computes in double precision and rounds the result, whatever the operands' precision."""
    return _cast(b, x, dtypes.complex128 if b.type_of(x).dtype.kind == "c" else dtypes.float64)


def _beside(b: GraphBuilder, *operands: ValueId, rotated: bool = False) -> bool:
    """Whether each loop point has a small matrix of its own, so that the op stays whole: many are done at once, in
    double precision as NumPy does them. A matrix that all points share is factored once instead."""
    shapes = [b.type_of(x).shape for x in operands]
    loop, *others = (s[:-2] for s in shapes)
    choice = choose(product(loop), [n for s in shapes for n in s[-2:]], rotated=rotated)
    return all(_broadcasts_into(other, loop) for other in others) and isinstance(choice, Lanes)


def _broadcasts_into(shape: Sequence[Size], other: Sequence[Size]) -> bool:
    """Whether two shapes broadcast to the second one."""
    return len(shape) <= len(other) and all(n in (1, m) for n, m in zip(reversed(shape), reversed(other), strict=False))


def _solve(b: GraphBuilder, operands: Operands, attrs: dict[str, Any]) -> ValueId | None:
    return None if _beside(b, *operands) else _solved(b, *operands)


def _solved(b: GraphBuilder, a: ValueId, right: ValueId) -> ValueId:
    lu, pivots = b.call_tuple("lu_factor", _double(b, a), check_singular=True)
    return _cast(b, _call(b, "lu_solve", lu, pivots, _double(b, right)), b.type_of(right).dtype)


def _widened(name: str) -> Decomposition:
    """The op on operands in double precision, its results rounded. One that has them already stays."""

    def decomposition(b: GraphBuilder, operands: Operands, attrs: dict[str, Any]) -> Operands | None:
        (a,) = operands
        wide = _double(b, a)
        if wide == a or (name in _ROTATED and _beside(b, a, rotated=_ROTATED[name])):
            return None
        results = b.call_tuple(name, wide, **attrs)
        return tuple(_cast(b, x, _NARROW.get(b.type_of(x).dtype, b.type_of(x).dtype)) for x in results)

    return decomposition


def _inv(b: GraphBuilder, operands: Operands, attrs: dict[str, Any]) -> ValueId | None:
    (a,) = operands
    if _beside(b, a):
        return None
    type = b.type_of(a)
    n = type.shape[-2]  # the size that the type rule gives both axes of the result
    return _solved(b, a, _call(b, "eye", rows=n, cols=n, offset=0, dtype=type.dtype))


def _slogdet(b: GraphBuilder, operands: Operands, attrs: dict[str, Any]) -> Operands | None:
    return None if _beside(b, *operands) else _sign_and_log(b, *operands)


def _sign_and_log(b: GraphBuilder, matrix: ValueId) -> Operands:
    """The sign of the interchanges and of the diagonal of U, and the sum of its logs. As in NumPy, nan counts as
    positive."""
    dtype = b.type_of(matrix).dtype
    a = _double(b, matrix)
    type = b.type_of(a)
    last: dict[str, Any] = {"axes": (-1,), "keepdims": False}
    lu, pivots = b.call_tuple("lu_factor", a)
    diagonal = _call(b, "diagonal", lu, offset=0, axis1=-2, axis2=-1)
    logs = _call(b, "sum", _call(b, "log", _call(b, "abs", diagonal)), **last)
    position = _call(b, "iota", size=type.shape[-1], dtype=dtypes.int32)
    moved = _call(b, "not_equal", pivots, _call(b, "add", position, b.constant(np.int32(1))))
    zero, minus, plus = (b.constant(np.array(n, type.dtype.numpy)) for n in (0, -1, 1))
    if type.dtype.kind == "c":
        own = _call(b, "sign", diagonal)
    else:
        own = _call(b, "where", _call(b, "less", diagonal, zero), minus, plus)
    signs = _call(b, "prod", _call(b, "multiply", own, _call(b, "where", moved, minus, plus)), **last)
    singular = _call(b, "any", _call(b, "equal", diagonal, zero), **last)
    sign = _call(b, "where", singular, zero, signs)
    least = b.constant(np.array(-np.inf, type.dtype.real.numpy))
    return _cast(b, sign, dtype), _cast(b, _call(b, "where", singular, least, logs), dtype.real)


def _det(b: GraphBuilder, operands: Operands, attrs: dict[str, Any]) -> ValueId | None:
    """As numpy.linalg: the sign times exp of the sum of logs, which neither over- nor underflows on the way."""
    if _beside(b, *operands):
        return None
    sign, logs = _sign_and_log(b, _double(b, operands[0]))
    magnitude = _cast(b, _call(b, "exp", logs), b.type_of(sign).dtype)
    return _cast(b, _call(b, "multiply", sign, magnitude), b.type_of(operands[0]).dtype)


# What stays whole for many small matrices, and whether these are rotated.
_ROTATED = {"cholesky": False, "eigvalsh": True, "eigh": True}
_NARROW = {dtypes.float64: dtypes.float32, dtypes.complex128: dtypes.complex64}


# ---- sorting ------------------------------------------------------------------------------------------------------


def _sort(b: GraphBuilder, operands: Operands, attrs: dict[str, Any]) -> ValueId | None:
    (x,) = operands
    if b.type_of(x).dtype.kind != "c":
        return None
    order = _argsort(b, operands, attrs)
    assert order is not None
    return _call(b, "take_along_axis", x, order, axis=attrs["axis"])


def _argsort(b: GraphBuilder, operands: Operands, attrs: dict[str, Any]) -> ValueId | None:
    """Complex numbers by three stable sorts: by imaginary part, by real part, by which parts are nan."""
    (x,) = operands
    dtype, axis = b.type_of(x).dtype, attrs["axis"]
    if dtype.kind != "c":
        return None
    zero, keys = _scalar(b, 0, dtype.real), []
    nans: list[ValueId] = []
    for part in ("imag", "real"):
        value = _call(b, part, x)
        nan = _call(b, "isnan", value)
        keys.append(_call(b, "where", nan, zero, value))
        nans.append(_cast(b, nan, dtypes.uint8))
    twice = _call(b, "add", nans[1], nans[1])
    keys.append(_call(b, "add", twice, nans[0]))
    order = _call(b, "argsort", keys[0], **attrs)
    for key in keys[1:]:
        further = _call(b, "argsort", _call(b, "take_along_axis", key, order, axis=axis), **attrs)
        order = _call(b, "take_along_axis", order, further, axis=axis)
    return order


DECOMPOSITIONS: dict[str, Decomposition] = {
    "mean": _mean,
    "var": _var,
    "std": _std,
    "count_nonzero": _count_nonzero,
    "logsumexp": _logsumexp,
    "solve": _solve,
    "inv": _inv,
    "det": _det,
    "slogdet": _slogdet,
    **{
        name: _widened(name)
        for name in ("cholesky", "qr", "qr_raw", "svd", "svdvals", "eigh", "eigvalsh", "eig", "eigvals")
    },
    "sort": _sort,
    "argsort": _argsort,
}
