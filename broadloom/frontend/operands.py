"""Operands: what NumPy's promotion sees of each argument, and its value brought to the dtype of a loop.

What goes in: array handles, runtime Python numbers (`WeakScalar`), symbolic ints, Python and NumPy scalars, nested
lists of these. What comes out: `Operand`s with the key that `numpy.ufunc.resolve_dtypes` takes - a dtype when
strong, `int`, `float` or `complex` when weak (NEP 50) - and handles of an exact dtype.

What holds: dtypes are resolved by NumPy itself, at capture time, never by a copy of its rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from broadloom import dtypes
from broadloom.dtypes import DType
from broadloom.errors import DTypeError
from broadloom.frontend import shapes
from broadloom.frontend.unsupported import Unsupported, plain_numpy_raises
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle, WeakScalar
from broadloom.records import dataclass
from broadloom.symbolic import Expr, ge, le, range_of

WEAK_KINDS: dict[str, type] = {"i": int, "f": float, "c": complex}


def call(r: Recorder, name: str, *handles: ArrayHandle, **attrs: Any) -> ArrayHandle:
    """Call an op that has one result."""
    result: ArrayHandle = r.op(name, *handles, **attrs)
    return result


def is_sequence(x: object) -> bool:
    """A Python list or tuple, which NumPy would make an array of."""
    return isinstance(x, (list, tuple))


def is_symbolic(x: object) -> bool:
    """Does this argument, or anything nested in it, exist only at run time?"""
    if isinstance(x, (ArrayHandle, WeakScalar, Expr)):
        return True
    if isinstance(x, (list, tuple)):
        return any(is_symbolic(e) for e in x)
    if isinstance(x, slice):
        return any(is_symbolic(e) for e in (x.start, x.stop, x.step))
    if isinstance(x, dict):
        return any(is_symbolic(e) for e in x.values())
    return False


def known_dtype(n: object) -> DType:
    """The `DType` of a NumPy dtype, name or scalar type; `Unsupported` for those outside the table."""
    if isinstance(n, DType):
        return n
    if n is None:
        return dtypes.float64
    try:
        return dtypes.from_numpy(n)
    except DTypeError as error:
        raise Unsupported(error.what, f"use one of {error.allowed}") from error
    except TypeError as error:
        raise plain_numpy_raises(f"{n!r} is not a dtype") from error


@dataclass(frozen=True, slots=True)
class Operand:
    """One argument of a ufunc: `key` is what the resolver sees. A weak number has no handle, as it has no dtype yet;
    `number` is the value of a Python or NumPy number."""

    key: np.dtype[Any] | type
    handle: ArrayHandle | None
    number: int | float | complex | Expr | WeakScalar | None = None

    @property
    def shape(self) -> tuple[Any, ...]:
        return () if self.handle is None else self.handle.shape


def operand(r: Recorder, x: object) -> Operand:
    """Classify one argument as NEP 50 does."""
    if isinstance(x, ArrayHandle):
        return Operand(x.dtype.numpy, x)
    if isinstance(x, WeakScalar):
        return Operand(WEAK_KINDS[x.kind], None, x)
    if isinstance(x, Expr):
        return Operand(int, None, x)
    if isinstance(x, (int, float, complex)) and not isinstance(x, (bool, np.generic)):
        return Operand(int if isinstance(x, int) else float if isinstance(x, float) else complex, None, x)
    handle = as_array(r, x)
    return Operand(handle.dtype.numpy, handle, x.item() if isinstance(x, (np.integer, np.bool)) else None)


def constant(r: Recorder, value: object, dtype: DType | None = None) -> ArrayHandle:
    """A literal; Python numbers that do not fit raise in NumPy and are refused here."""
    array = _literal(value, dtype)
    known_dtype(array.dtype)
    return r.constant(array)


def _literal(value: object, dtype: DType | None) -> np.ndarray:
    try:
        with np.errstate(all="ignore"):
            return np.array(value, dtype=None if dtype is None else dtype.numpy)
    except (OverflowError, TypeError, ValueError) as error:
        raise plain_numpy_raises(str(error)) from error


def from_size(r: Recorder, size: Expr | int, dtype: DType = dtypes.int64) -> ArrayHandle:
    """A 0-d array holding a size."""
    if isinstance(size, int):
        return constant(r, size, dtype)
    if dtype.is_integer and dtype is not dtypes.int64:
        info, known = np.iinfo(dtype.numpy), range_of(size)
        if known.lo is None or known.hi is None or known.lo < info.min or known.hi > info.max:
            raise Unsupported(
                f"the symbolic int {size} may not fit {dtype}", f"convert it yourself: np.int64(n).astype({dtype})"
            )
    return cast(r, call(r, "from_size", size=size), dtype)


def lift(r: Recorder, x: Operand, dtype: DType) -> ArrayHandle:
    """The operand as a handle of exactly `dtype`."""
    if x.handle is not None:
        return r.promote(x.handle, dtype)
    if isinstance(x.number, WeakScalar):
        if dtype.is_integer and dtype is not dtypes.int64:
            raise Unsupported(f"a runtime Python int may not fit {dtype}", "pass it as a NumPy scalar of that dtype")
        return cast(r, x.number.handle, dtype)
    if isinstance(x.number, Expr):
        return from_size(r, x.number, dtype)
    return constant(r, x.number, dtype)


def placed(r: Recorder, x: object, dtype: DType) -> ArrayHandle:
    """What NumPy puts into a place of `dtype`: any cast is allowed, but a Python number has to fit."""
    check_numbers(r, x, dtype)
    if isinstance(x, (WeakScalar, Expr)):
        return cast(r, as_array(r, x), dtype)
    return lift(r, operand(r, x), dtype)


def check_numbers(r: Recorder, x: object, dtype: DType) -> None:
    """Python numbers, alone or in lists, fit `dtype`: NumPy puts them through `int` and `float`, which raise for nan,
    numbers out of range and complex ones. What this call only knows is guarded."""
    if not is_symbolic(x):
        if is_sequence(x) or (isinstance(x, (int, float, complex)) and not isinstance(x, np.generic)):
            _literal(x, dtype)
    elif isinstance(x, (list, tuple)):
        for item in x:
            check_numbers(r, item, dtype)
    elif isinstance(x, WeakScalar) and x.kind == "c":
        if dtype.kind not in "bc":
            raise plain_numpy_raises("a complex number does not fit a place for real ones")
    elif dtype.is_integer and isinstance(x, Expr):
        info = np.iinfo(dtype.numpy)
        if dtype is not dtypes.int64 and not (shapes.decide(r, ge(x, info.min)) and shapes.decide(r, le(x, info.max))):
            raise plain_numpy_raises(f"a Python int is out of bounds for {dtype}")
    elif dtype.is_integer and isinstance(x, WeakScalar) and (x.kind == "f" or dtype is not dtypes.int64):
        info = np.iinfo(dtype.numpy)
        fitting = r.number_within(x, info.min, info.max)
        if fitting is None:
            raise Unsupported(f"a runtime Python number may not fit {dtype}", "keep it as an array, and use astype")
        if not fitting:
            raise plain_numpy_raises(f"a Python number cannot be converted to {dtype}")


def cast(r: Recorder, x: ArrayHandle, dtype: DType) -> ArrayHandle:
    """`x` itself when it has the dtype already, else a converted copy (C conversion rules, as `astype`)."""
    return x if x.dtype is dtype else call(r, "cast", x, dtype=dtype)


def number(r: Recorder, like: ArrayHandle, value: float) -> ArrayHandle:
    """A 0-d constant of the dtype of `like`."""
    return constant(r, value, like.dtype)


def as_array(r: Recorder, x: object) -> ArrayHandle:
    """What `numpy.asarray(x)` is, without a copy of arrays; Python numbers get NumPy's default dtypes."""
    if isinstance(x, ArrayHandle):
        return x
    if isinstance(x, WeakScalar):
        return x.handle
    if isinstance(x, Expr):
        return from_size(r, x)
    if isinstance(x, (list, tuple)):
        return _assemble(r, x) if is_symbolic(x) else constant(r, x)
    if isinstance(x, (bool, int, float, complex, np.generic, np.ndarray)):
        return constant(r, x)
    raise Unsupported(f"an argument of type {type(x).__name__} is not an array", "pass an array or a number")


def _assemble(r: Recorder, items: Sequence[object]) -> ArrayHandle:
    """An array, in C order, from a nested list in which some leaves are runtime values."""
    parts = [as_array(r, item) for item in items]
    if not all(shapes.same_shape(r, p.shape, parts[0].shape) for p in parts[1:]):
        raise plain_numpy_raises("the nested list is ragged")
    common = promote(*(p.dtype for p in parts))
    # `np.stack` would take the memory order of the parts
    return r.copy(call(r, "stack", *(cast(r, p, common) for p in parts), axis=-1 - parts[0].ndim), "C")


def promote(*found: DType) -> DType:
    """The common dtype; `Unsupported` when there is none in the table."""
    try:
        return dtypes.promote(*found)
    except DTypeError as error:
        raise plain_numpy_raises(error.what) from error


def result_dtype(r: Recorder, *xs: object) -> DType:
    """`numpy.result_type` of arguments: strong dtypes, and Python numbers weakly (NEP 50)."""
    weak = {int: 0, float: 0.0, complex: 0j}
    keys: list[Any] = []
    for x in xs:
        if isinstance(x, (np.dtype, type, str)):
            keys.append(x)
        else:
            key = operand(r, x).key
            keys.append(key if isinstance(key, np.dtype) else weak[key])
    try:
        return known_dtype(np.result_type(*keys))
    except TypeError as error:
        raise plain_numpy_raises(str(error)) from error


@lru_cache(maxsize=4096)
def resolve(
    u: np.ufunc,
    keys: tuple[np.dtype[Any] | type | None, ...],
    signature: tuple[np.dtype[Any] | None, ...] | None,
    casting: str,
    reduction: bool = False,
) -> tuple[DType, ...]:
    """The dtypes of the loop NumPy runs, one for each operand and result."""
    given: dict[str, Any] = {"casting": casting, "reduction": reduction}
    if signature is not None:
        given["signature"] = signature
    try:
        found = u.resolve_dtypes(keys, **given)
    except (TypeError, ValueError) as error:
        raise plain_numpy_raises(f"{u.__name__}: {error}") from error
    return tuple(known_dtype(d) for d in found)


@cache
def numpy_since(version: str) -> bool:
    """Whether the NumPy at hand is of this version or a later one, where its meaning has changed."""
    return np.lib.NumpyVersion(np.__version__) >= version


def is_numpy_inexact(dtype: DType) -> bool:
    """Whether NumPy counts the dtype among its inexact ones. It does not count bfloat16, which is registered from
    outside: where NumPy asks, bfloat16 goes the way of integers.

    >>> is_numpy_inexact(dtypes.float16), is_numpy_inexact(dtypes.bfloat16)
    (True, False)
    """
    return np.issubdtype(dtype.numpy, np.inexact)


def fits(value: int, dtype: DType) -> bool:
    """Is the Python int in the range of the integer dtype?"""
    info = np.iinfo(dtype.numpy)
    return info.min <= value <= info.max
