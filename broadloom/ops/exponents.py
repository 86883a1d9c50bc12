"""Floats taken apart, and put together: mantissa, exponent, fraction, ldexp, spacing.

All are pointwise, with NumPy's results to the bit: no step rounds but the last one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from broadloom.dtypes import FLOATS, DType, int32, int64
from broadloom.errors import DTypeError
from broadloom.ops import rules
from broadloom.ops.pointwise import quiet, unary
from broadloom.ops.record import Op, Sample, Trait
from broadloom.ops.rules import UNORDERED, Array
from broadloom.ops.signature import Signature

_SIGNATURE = Signature(((), ()), ((),))
_CELLS = tuple((d, n) for d in FLOATS for n in (int32, int64))
_LIMIT = 2100  # beyond which every product is 0 or infinite
_EMPTY = rules.reasons(FLOATS, complexes=UNORDERED)


def _mantissa(x: Array) -> Array:
    return np.frexp(x)[0]


def _exponent(x: Array) -> Array:
    return np.frexp(x)[1]


def _fraction(x: Array) -> Array:
    return np.modf(x)[0]


def _ldexp(x: Array, n: Array) -> Array:
    return np.asarray(np.ldexp(x, np.clip(n, -_LIMIT, _LIMIT).astype(np.int32)))


def _ldexp_rule(dtypes: tuple[DType, ...], attrs: Mapping[str, Any]) -> tuple[DType, ...]:
    x = rules.require_cell("ldexp", dtypes[0], _EMPTY)
    if dtypes not in _CELLS:
        allowed = f"{', '.join(map(str, FLOATS))} and int32 or int64"
        raise DTypeError("ldexp has no such loop in NumPy", got=", ".join(map(str, dtypes)), allowed=allowed)
    return (x,)


_LDEXP = Op(
    name="ldexp",
    doc="""`ldexp(x, n)`: x * 2**n, rounded once; n is int32 or int64.""",
    signature=lambda attrs: _SIGNATURE,
    result_dtypes=_ldexp_rule,
    reference=quiet(_ldexp),
    arity=2,
    traits=frozenset({Trait.POINTWISE, Trait.CHEAP}),
    samples=(Sample(((), ())),),
    sample_dtypes=_CELLS,
    empty=_EMPTY,
)

OPS = (
    unary("mantissa", _mantissa, FLOATS, "The share of x in [0.5, 1) beside 2**exponent; 0, infinities and nan stay.",
          complexes=UNORDERED),
    unary("exponent", _exponent, FLOATS, "What 2 is raised to beside the mantissa, in int32; 0 of 0, infinity and nan.",
          result=int32, complexes=UNORDERED),
    unary("fraction", _fraction, FLOATS, "x without its integer part, with the sign of x; 0 of infinity.",
          complexes=UNORDERED),
    unary("spacing", np.spacing, FLOATS,
          "The distance to the next number away from zero, with the sign of x; of float16 to the next one above.",
          complexes=UNORDERED),
    _LDEXP,
)  # fmt: skip
