"""Cumulative ops along one core axis (attribute `axis`, negative).

The result has the operand's shape and dtype: the caller casts first (NumPy's cumsum of int8 runs in int64). float16
and bfloat16 are rounded at each step, as NumPy's accumulate does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from broadloom.dtypes import ALL
from broadloom.ops import rules
from broadloom.ops.record import Op, Sample, Trait
from broadloom.ops.rules import Array
from broadloom.ops.signature import Signature


def scan(name: str, ufunc: np.ufunc, doc: str) -> Op:
    """The running value of a binary ufunc."""

    def signature(attrs: Mapping[str, Any]) -> Signature:
        dims = rules.named(-rules.read_axis(name, attrs))
        return Signature((dims,), (dims,))

    def reference(x: Array, axis: int) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(ufunc.accumulate(x, axis=axis, dtype=x.dtype))

    return Op(
        name=name,
        doc=doc,
        signature=signature,
        result_dtypes=rules.same_rule(name, {}),
        reference=reference,
        arity=1,
        attr_names=("axis",),
        traits=frozenset({Trait.SCAN}),
        samples=(Sample(((4,),), {"axis": -1}), Sample(((3, 4),), {"axis": -2}), Sample(((0,),), {"axis": -1})),
        sample_dtypes=tuple((d,) for d in ALL),
    )


OPS = (
    scan("cumsum", np.add, "Running sum; bool means `or`."),
    scan("cumprod", np.multiply, "Running product; bool means `and`."),
    scan("cummax", np.maximum, "Running maximum; nan stays."),
    scan("cummin", np.minimum, "Running minimum; nan stays."),
)
