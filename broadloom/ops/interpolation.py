"""The value of a line at a point, as NumPy's `interp` computes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from broadloom.dtypes import DType, float64
from broadloom.ops import rules
from broadloom.ops.record import Op, Sample, Trait
from broadloom.ops.rules import Array
from broadloom.ops.signature import Signature

_SIGNATURE = Signature(((),) * 5, ((),))
_DOUBLE = "NumPy's interp computes in float64: cast first"
_EMPTY = rules.reasons(
    (float64,), bools=_DOUBLE, ints=_DOUBLE, halves=_DOUBLE, floats=_DOUBLE, complexes="NumPy interpolates the parts"
)


def _rule(dtypes: tuple[DType, ...], attrs: Mapping[str, Any]) -> tuple[DType, ...]:
    rules.read_choice("interpolate", attrs, "inverse", False, True)
    return (rules.require_cell("interpolate", rules.require_same("interpolate", dtypes), _EMPTY),)


def _interpolate(x: Array, x0: Array, x1: Array, y0: Array, y1: Array, *, inverse: bool) -> Array:
    with np.errstate(all="ignore"):
        rise, run = y1 - y0, x1 - x0
        slope = rise * (1.0 / run) if inverse else rise / run
        first, second = slope * (x - x0) + y0, slope * (x - x1) + y1
        second = np.where(np.isnan(second) & (y0 == y1), y0, second)
        line = np.where(np.isnan(first), second, first)
        return np.where(np.isnan(x), x, np.where(x == x1, y1, np.where(x == x0, y0, line)))


OPS = (
    Op(
        name="interpolate",
        doc="""`interpolate(x, x0, x1, y0, y1)`: at x, the line through (x0, y0) and (x1, y1), exactly their heights
    there. From the other end where the first gives nan; flat where both heights are equal; x itself where it is nan.
    With `inverse` the slope is the rise times 1 / run, as for the parts of complex heights.""",
        signature=lambda attrs: _SIGNATURE,
        result_dtypes=_rule,
        reference=_interpolate,
        arity=5,
        attr_names=("inverse",),
        traits=frozenset({Trait.POINTWISE, Trait.EXPENSIVE}),
        samples=tuple(Sample(((),) * 5, {"inverse": b}) for b in (False, True)),
        sample_dtypes=((float64,) * 5,),
        empty=_EMPTY,
    ),
)
