"""Sorting along one core axis, and binary search in sorted arrays.

The order is NumPy's: numbers by value, complex ones by real part and then imaginary part; nan behind all others, and
complex numbers with a nan in the order R + Rj, R + nanj, nan + Rj, nan + nanj. 0.0 and -0.0 are equal. What is equal
stays in its order: every sort is stable, a descending one too, in which nan comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from broadloom.dtypes import ALL, DType, int64
from broadloom.ops import rules
from broadloom.ops.movement import loop_shape, with_loop
from broadloom.ops.record import Op, Sample, Trait
from broadloom.ops.rules import Array
from broadloom.ops.signature import Dim, Signature


def _sort_signature(name: str) -> Callable[[Mapping[str, Any]], Signature]:
    def signature(attrs: Mapping[str, Any]) -> Signature:
        rules.read_choice(name, attrs, "descending", True, False)
        dims = rules.named(-rules.read_axis(name, attrs))
        return Signature((dims,), (dims,))

    return signature


def comparable(x: Array) -> Array:
    """`x` in a dtype that NumPy sorts rightly: bfloat16, whose nans it does not know, as float32."""
    return x.astype(np.float32) if x.dtype.name == "bfloat16" else x


def _argsort(x: Array, axis: int, descending: bool = False) -> Array:
    keys = comparable(x)
    if not descending:
        return np.argsort(keys, axis=axis, stable=True)
    # Backwards and back again: equal elements keep their order.
    backwards = np.argsort(np.flip(keys, axis), axis=axis, stable=True)
    return np.asarray(np.flip(x.shape[axis] - 1 - backwards, axis))


def _sort(x: Array, axis: int, descending: bool = False) -> Array:
    return np.take_along_axis(x, _argsort(x, axis, descending), axis)


def _sorting(name: str, reference: Callable[..., Array], result: Literal["same", "index"], doc: str) -> Op:
    return Op(
        name=name,
        doc=doc,
        signature=_sort_signature(name),
        result_dtypes=rules.same_rule(name, {}, result),
        reference=reference,
        arity=1,
        attr_names=("axis", "descending"),
        traits=frozenset({Trait.SORT}),
        samples=(
            Sample(((7,),), {"axis": -1}),
            Sample(((3, 4),), {"axis": -2}),
            Sample(((40,),), {"axis": -1, "descending": True}),
            Sample(((1,),), {"axis": -1}),
            Sample(((0,),), {"axis": -1}),
        ),
        sample_dtypes=tuple((d,) for d in ALL),
        defaults={"descending": False},
    )


def _search_signature(attrs: Mapping[str, Any]) -> Signature:
    rules.read_choice("searchsorted", attrs, "side", "left", "right")
    return Signature(((Dim("n"),), ()), ((),))


def _search_rule(dtypes: tuple[DType, ...], attrs: Mapping[str, Any]) -> tuple[DType, ...]:
    rules.require_same("searchsorted", dtypes)
    return (int64,)


def _searchsorted(sorted_: Array, values: Array, side: str) -> Array:
    haystack, needles = comparable(sorted_), comparable(values)
    if haystack.ndim == 1:
        return np.asarray(np.searchsorted(haystack, needles, side))  # type: ignore[call-overload]
    loop = loop_shape((haystack, needles), (1, 0))
    each, every = with_loop(haystack, loop, 1), with_loop(needles, loop, 0)
    result = np.empty(loop, np.int64)
    for point in np.ndindex(loop):
        result[point] = np.searchsorted(each[point], every[point], side)  # type: ignore[call-overload]
    return result


def _search_sample(n: int, side: str) -> Sample:
    return Sample(((n,), ()), {"side": side}, domains={0: ("sorted", n)})


OPS = (
    _sorting("sort", _sort, "same", "The elements of axis `axis` in order, or with `descending` from the largest."),
    _sorting(
        "argsort", _argsort, "index", "The positions of the elements of axis `axis` in the order of `sort`; int64."
    ),
    Op(
        name="searchsorted",
        doc="""`searchsorted(sorted, value)`: where `value` is to be inserted to keep the order: before equal elements
        for side "left", behind them for "right"; int64. An array that is not sorted gives some position.""",
        signature=_search_signature,
        result_dtypes=_search_rule,
        reference=_searchsorted,
        arity=2,
        attr_names=("side",),
        traits=frozenset({Trait.SORT}),
        samples=tuple(_search_sample(n, side) for n, side in ((7, "left"), (7, "right"), (1, "left"), (0, "right"))),
        sample_dtypes=tuple((d, d) for d in ALL),
    ),
)
