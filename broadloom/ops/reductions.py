"""Reductions over core axes, and argmax/argmin over one.

Attributes: `axes` (negative, sorted; may be empty) and `keepdims`. The core is as deep as the axes reach; kept axes
inside it pass through. The accumulator has the operand's dtype: the caller casts first (NumPy sums int8 in int64).
Over no elements: sum 0, prod 1, any False, all True, count 0, logsumexp -inf, mean and var nan; max, min, argmax
and argmin along an axis of size 0 are refused at inference, as NumPy refuses them, even where the result is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from broadloom.dtypes import ALL, FLOATS, DType
from broadloom.errors import ShapeError
from broadloom.ops import rules
from broadloom.ops.record import Dims, Op, Sample, Trait
from broadloom.ops.rules import INEXACT, Array
from broadloom.ops.signature import Decide, Dim, Expression, Signature, holds
from broadloom.symbolic import eq

Axes = tuple[int, ...]
_SUM_FIRST = "a mean of them is a float: NumPy computes it in float64, cast first"


def _signature(name: str, axes: Axes, keepdims: bool) -> Signature:
    dims = rules.named(rules.depth(axes))
    reduced = {len(dims) + a for a in axes}
    core: list[Expression] = []
    for i, d in enumerate(dims):
        if i not in reduced:
            core.append(d)
        elif keepdims:
            core.append(Dim(1))
    return Signature((dims,), rules.outs(*core))


def _over_axes(name: str) -> Callable[[Mapping[str, Any]], Signature]:
    def signature(attrs: Mapping[str, Any]) -> Signature:
        keepdims = rules.read_choice(name, attrs, "keepdims", True, False)
        ddof = attrs.get("ddof", 0)
        if not isinstance(ddof, int | float) or isinstance(ddof, bool):
            raise ShapeError(f"{name}: ddof is not a number", got=repr(ddof), allowed="an int or a float")
        return _signature(name, rules.read_axes(name, attrs), keepdims)

    return signature


def _over_axis(name: str) -> Callable[[Mapping[str, Any]], Signature]:
    def signature(attrs: Mapping[str, Any]) -> Signature:
        keepdims = rules.read_choice(name, attrs, "keepdims", True, False)
        return _signature(name, (rules.read_axis(name, attrs),), keepdims)

    return signature


def _not_empty(name: str) -> Callable[[Dims, tuple[DType, ...], Mapping[str, Any], Decide | None], Dims]:
    """Refuses to reduce over no elements where no identity exists. An open question passes without `decide`."""

    def check(dims: Dims, dtypes: tuple[DType, ...], attrs: Mapping[str, Any], decide: Decide | None) -> Dims:
        axes = attrs["axes"] if "axes" in attrs else (attrs["axis"],)
        names = rules.dim_names(rules.depth(axes))
        reduced = {names[a] for a in axes}
        for n in names:
            if n in reduced and holds(eq(dims[n], 0), decide):
                raise ShapeError(
                    f"{name} over no elements has no value",
                    got=f"size {dims[n]}",
                    allowed="at least one element along each reduced axis",
                    remedy="give an initial value",
                )
        return {}

    return check


_SAMPLES = tuple(
    Sample(((3, 4),), {"axes": axes, "keepdims": keep})
    for axes in ((-1,), (-2,), (-2, -1), ())
    for keep in (False, True)
)
_FEW = (
    Sample(((3, 4),), {"axis": -1, "keepdims": False}),
    Sample(((3, 4),), {"axis": -2, "keepdims": True}),
    Sample(((3, 4),), {"axis": -2, "keepdims": False}),
)


def reduction(
    name: str,
    reference: Callable[..., Array],
    allowed: tuple[DType, ...],
    doc: str,
    *,
    result: Literal["same", "bool", "real", "index"] = "same",
    nonempty: bool = False,
    single: bool = False,
    extra: Mapping[str, Any] | None = None,
    why: Mapping[str, str] | None = None,
) -> Op:
    """A reduction; `single` ones take `axis` instead of `axes`; `extra` holds further attributes' defaults."""
    empty = rules.reasons(allowed, **(why or {}))
    samples = _FEW if single else _SAMPLES
    if extra:
        samples += (Sample(((3, 4),), {"axes": (-1,), "keepdims": False, **dict.fromkeys(extra, 1)}),)

    def kernel(x: Array, **attrs: Any) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(reference(x, **attrs))

    return Op(
        name=name,
        doc=doc,
        signature=_over_axis(name) if single else _over_axes(name),
        result_dtypes=rules.same_rule(name, empty, result),
        reference=kernel,
        arity=1,
        attr_names=("axis" if single else "axes", "keepdims", *(extra or ())),
        traits=frozenset({Trait.REDUCTION}),
        samples=samples,
        sample_dtypes=tuple((d,) for d in allowed),
        defaults=dict(extra or {}),
        check=_not_empty(name) if nonempty else None,
        empty=empty,
    )


def _count(x: Array, axes: Axes) -> int:
    return int(np.prod([x.shape[a] for a in axes], dtype=np.int64))


def _sum(x: Array, axes: Axes, keepdims: bool) -> Array:
    return np.asarray(np.sum(x, axis=axes, keepdims=keepdims, dtype=x.dtype))


def _prod(x: Array, axes: Axes, keepdims: bool) -> Array:
    return np.asarray(np.prod(x, axis=axes, keepdims=keepdims, dtype=x.dtype))


def _mean(x: Array, axes: Axes, keepdims: bool) -> Array:
    """As NumPy: 16-bit floats are summed and divided in float32."""
    wide = np.dtype(np.float32) if x.dtype == np.float16 else x.dtype
    total = np.asarray(np.sum(x, axis=axes, keepdims=keepdims, dtype=wide))
    count = np.array(_count(x, axes)).astype(total.real.dtype)
    return np.asarray(np.true_divide(total, count)).astype(x.dtype)


def _var(x: Array, axes: Axes, keepdims: bool, ddof: float = 0) -> Array:
    """Two passes, as NumPy: the mean, then the mean square of what is left."""
    real = x.real.dtype
    total = np.sum(x, axis=axes, keepdims=True)
    mean = np.true_divide(total, np.array(_count(x, axes)).astype(real)).astype(x.dtype)
    rest = np.subtract(x, mean)
    square = np.multiply(rest, rest) if x.dtype.kind != "c" else np.multiply(rest, np.conjugate(rest)).real
    total = np.sum(square, axis=axes, keepdims=keepdims)
    divisor = np.array(max(_count(x, axes) - ddof, 0)).astype(real)
    return np.asarray(np.true_divide(total, divisor)).astype(real)


def _std(x: Array, axes: Axes, keepdims: bool, ddof: float = 0) -> Array:
    return np.asarray(np.sqrt(_var(x, axes, keepdims, ddof)))


def _logsumexp(x: Array, axes: Axes, keepdims: bool) -> Array:
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x
    top = np.max(wide, axis=axes, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0).astype(wide.dtype)
    total = np.log(np.sum(np.exp(wide - top), axis=axes, keepdims=True)) + top
    result = total if keepdims else np.squeeze(total, axis=axes)
    return np.asarray(result).astype(x.dtype)


def _max(x: Array, axes: Axes, keepdims: bool) -> Array:
    return np.asarray(np.max(x, axis=axes, keepdims=keepdims))


def _min(x: Array, axes: Axes, keepdims: bool) -> Array:
    return np.asarray(np.min(x, axis=axes, keepdims=keepdims))


def _any(x: Array, axes: Axes, keepdims: bool) -> Array:
    return np.asarray(np.any(x != 0, axis=axes, keepdims=keepdims))


def _all(x: Array, axes: Axes, keepdims: bool) -> Array:
    return np.asarray(np.all(x != 0, axis=axes, keepdims=keepdims))


def _count_nonzero(x: Array, axes: Axes, keepdims: bool) -> Array:
    return np.asarray(np.sum(x != 0, axis=axes, keepdims=keepdims, dtype=np.int64))


def _argmax(x: Array, axis: int, keepdims: bool) -> Array:
    return np.asarray(np.argmax(x, axis=axis, keepdims=keepdims), np.int64)


def _argmin(x: Array, axis: int, keepdims: bool) -> Array:
    return np.asarray(np.argmin(x, axis=axis, keepdims=keepdims), np.int64)


_MEAN = {"bools": _SUM_FIRST, "ints": _SUM_FIRST}
_NO_LSE = {"complexes": "its shift by the maximum needs an order; NumPy's logaddexp is real too"}

OPS = (
    reduction("sum", _sum, ALL, "Sum; bool means `or`."),
    reduction("prod", _prod, ALL, "Product; bool means `and`."),
    reduction("max", _max, ALL, "Largest value; nan wins; complex by (real, imag).", nonempty=True),
    reduction("min", _min, ALL, "Smallest value; nan wins; complex by (real, imag).", nonempty=True),
    reduction("mean", _mean, INEXACT, "Sum by count; float16 in float32, rounded once.", why=_MEAN),
    reduction("var", _var, INEXACT, "Mean square distance from the mean, over count - ddof (at least 0); real.",
              result="real", extra={"ddof": 0}, why=_MEAN),
    reduction("std", _std, INEXACT, "Square root of var; real.", result="real", extra={"ddof": 0}, why=_MEAN),
    reduction("any", _any, ALL, "Some element is not 0 (nan is not).", result="bool"),
    reduction("all", _all, ALL, "No element is 0.", result="bool"),
    reduction("count_nonzero", _count_nonzero, ALL, "How many elements are not 0; int64.", result="index"),
    reduction("logsumexp", _logsumexp, FLOATS, "log(sum(exp(x))) without overflow; 16-bit in float32.", why=_NO_LSE),
    reduction("argmax", _argmax, ALL, "First position of the maximum, the first nan if there is one; int64.",
              result="index", nonempty=True, single=True),
    reduction("argmin", _argmin, ALL, "First position of the minimum, the first nan if there is one; int64.",
              result="index", nonempty=True, single=True),
)  # fmt: skip
