"""What the families of ops share: type rules with a reason for every empty cell, and checks of attributes.

What goes in: the dtypes that an op takes and the reasons why it takes no others. What comes out: a type rule and
the table of reasons. What holds: every dtype is either allowed or has a reason, and the `DTypeError` says it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from broadloom.dtypes import ALL, COMPLEXES, FLOATS, INTEGERS, DType, bool_, int64
from broadloom.errors import DTypeError, ShapeError
from broadloom.ops.signature import Dim, Expression
from broadloom.symbolic import Expr, Size

Array = np.ndarray[Any, Any]
Rule = Callable[[tuple[DType, ...], Mapping[str, Any]], tuple[DType, ...]]

INEXACT = (*FLOATS, *COMPLEXES)
NUMERIC = (*INTEGERS, *INEXACT)
REAL = (*INTEGERS, *FLOATS)
LAPACK = tuple(d for d in INEXACT if d.name not in ("float16", "bfloat16"))

CAST_FIRST = "NumPy has no loop for it and computes in a floating dtype: cast to the dtype NumPy chooses first"
BOOL_CAST_FIRST = "NumPy has no boolean loop for it and computes in int8 or float16: cast first"
NO_BITS = "only integers and bool have bitwise operations in NumPy"
NO_COMPLEX = "not defined for complex numbers in NumPy"
UNORDERED = "complex numbers have no order to compute it by; NumPy has no loop"
NO_HALF_LAPACK = "LAPACK and numpy.linalg have no 16-bit routines: cast to float32 first"


def reasons(
    allowed: Sequence[DType],
    *,
    bools: str = BOOL_CAST_FIRST,
    ints: str = CAST_FIRST,
    halves: str = CAST_FIRST,
    floats: str = CAST_FIRST,
    complexes: str = NO_COMPLEX,
) -> dict[DType, str]:
    """The reason for every dtype that is not allowed, chosen by its kind."""
    by_kind = {"b": bools, "i": ints, "u": ints, "f": floats, "c": complexes}
    missing = [d for d in ALL if d not in allowed]
    return {d: halves if d.kind == "f" and d.bits == 16 else by_kind[d.kind] for d in missing}


def require_same(op: str, dtypes: Sequence[DType]) -> DType:
    """The one dtype of operands that must agree. Raises `DTypeError`."""
    if any(d is not dtypes[0] for d in dtypes):
        raise DTypeError(
            f"{op}: operand dtypes differ",
            got=", ".join(map(str, dtypes)),
            allowed="equal dtypes",
            remedy="cast the operands to their common dtype first",
        )
    return dtypes[0]


def require_cell(op: str, dtype: DType, empty: Mapping[DType, str]) -> DType:
    """`dtype`, unless the op has no cell for it. Raises `DTypeError` with the written reason."""
    if dtype in empty:
        allowed = ", ".join(d.name for d in ALL if d not in empty)
        raise DTypeError(f"{op} is not defined for {dtype}: {empty[dtype]}", got=dtype, allowed=allowed)
    return dtype


def require_index(op: str, dtypes: Sequence[DType]) -> None:
    """Index operands are integers. Raises `DTypeError`."""
    for d in dtypes:
        if not d.is_integer:
            raise DTypeError(f"{op}: an index operand is not an integer", got=d, allowed=", ".join(map(str, INTEGERS)))


def same_rule(
    op: str, empty: Mapping[DType, str], result: Literal["same", "bool", "real", "index"] | DType = "same"
) -> Rule:
    """All operands have one dtype with a cell; the result has it too, or is bool, its real dtype, int64 or as given."""

    def rule(dtypes: tuple[DType, ...], attrs: Mapping[str, Any]) -> tuple[DType, ...]:
        d = require_cell(op, require_same(op, dtypes), empty)
        if isinstance(result, DType):
            return (result,)
        return ({"same": d, "bool": bool_, "real": d.real, "index": int64}[result],)

    return rule


def dim_names(rank: int) -> tuple[str, ...]:
    """Names for `rank` core dims: a, b, c, ..."""
    return tuple("abcdefghijklmnopqrstuvwxyz"[i] if rank <= 26 else f"d{i}" for i in range(rank))


def named(rank: int) -> tuple[Dim, ...]:
    """`rank` core dims with names of their own."""
    return tuple(Dim(n) for n in dim_names(rank))


def outs(*dims: Expression) -> tuple[tuple[Expression, ...], ...]:
    """The outputs of a signature with one result."""
    return (dims,)


def read_axis(op: str, attrs: Mapping[str, Any], name: str = "axis") -> int:
    """A core axis, counted from the end. Raises `ShapeError`."""
    axis = attrs[name]
    if not isinstance(axis, int) or isinstance(axis, bool) or axis >= 0:
        raise ShapeError(
            f"{op}: {name} must count from the end",
            got=repr(axis),
            allowed="a negative int",
            remedy="subtract the rank",
        )
    return axis


def read_axes(op: str, attrs: Mapping[str, Any], name: str = "axes", ordered: bool = True) -> tuple[int, ...]:
    """Core axes, negative and distinct, sorted where the order means nothing. Raises `ShapeError`."""
    axes: tuple[int, ...] = attrs[name]
    valid = isinstance(axes, tuple) and all(isinstance(a, int) and not isinstance(a, bool) and a < 0 for a in axes)
    if not valid or len(set(axes)) != len(axes) or (ordered and list(axes) != sorted(axes)):
        raise ShapeError(
            f"{op}: {name} must be distinct axes counted from the end",
            got=repr(axes),
            allowed=f"a {'sorted ' if ordered else ''}tuple of negative ints",
        )
    return axes


def depth(axes: Sequence[int]) -> int:
    """How many core dims axes that count from the end reach."""
    return -min(axes, default=0)


def read_sizes(op: str, attrs: Mapping[str, Any], name: str, lowest: int | None = 0) -> tuple[Size, ...]:
    """A tuple of sizes, symbolic or ints of at least `lowest`. Raises `ShapeError`."""
    sizes = attrs[name]
    if not isinstance(sizes, tuple) or not all(_is_size(s, lowest) for s in sizes):
        what = "ints" if lowest is None else f"ints of at least {lowest}"
        raise ShapeError(f"{op}: {name} is not a tuple of sizes", got=repr(sizes), allowed=f"{what}, or symbolic")
    return sizes


def read_size(op: str, attrs: Mapping[str, Any], name: str, lowest: int | None = 0) -> Size:
    """One size, as `read_sizes`."""
    return read_sizes(op, {name: (attrs[name],)}, name, lowest)[0]


def read_dtype(op: str, attrs: Mapping[str, Any], name: str = "dtype") -> DType:
    """A dtype attribute. Raises `DTypeError`."""
    dtype = attrs[name]
    if not isinstance(dtype, DType):
        raise DTypeError(f"{op}: {name} is not a dtype", got=repr(dtype), allowed=", ".join(d.name for d in ALL))
    return dtype


def read_choice(op: str, attrs: Mapping[str, Any], name: str, *choices: object) -> Any:
    """An attribute with few values. Raises `ShapeError`."""
    value = attrs[name]
    if not any(value is c or (isinstance(c, str) and value == c) for c in choices):
        raise ShapeError(f"{op}: {name} has no such value", got=repr(value), allowed=", ".join(map(repr, choices)))
    return value


def _is_size(size: object, lowest: int | None) -> bool:
    if isinstance(size, Expr):
        return True
    return isinstance(size, int) and not isinstance(size, bool) and (lowest is None or size >= lowest)
