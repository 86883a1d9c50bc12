"""Contractions: matmul and its kin, with NumPy's signatures and its conjugation.

Integers wrap around, bool is `or` of `and`, float16 is accumulated in float32 and rounded once, as in NumPy. Sums run
in no fixed order (see the equality contract).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from broadloom.dtypes import ALL, bfloat16
from broadloom.ops import rules
from broadloom.ops.record import Op, Sample, Trait
from broadloom.ops.rules import Array
from broadloom.ops.signature import Signature

_ALLOWED = tuple(d for d in ALL if d is not bfloat16)
_NO_BF16 = "NumPy has no bfloat16 loop: it multiplies as float32, cast first"


def contraction(name: str, signature: str, function: Callable[..., Any], shapes: tuple[Any, ...], doc: str) -> Op:
    """A gufunc of two operands of one dtype."""
    parsed = Signature.parse(signature)
    empty = rules.reasons(_ALLOWED, halves=_NO_BF16)

    def reference(x: Array, y: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(function(x, y))

    return Op(
        name=name,
        doc=doc,
        signature=lambda attrs: parsed,
        result_dtypes=rules.same_rule(name, empty),
        reference=reference,
        arity=2,
        traits=frozenset({Trait.CONTRACTION}),
        samples=tuple(Sample(s) for s in shapes),
        sample_dtypes=tuple((d, d) for d in _ALLOWED),
        empty=empty,
    )


def _matvec(x: Array, y: Array) -> Array:
    return np.asarray(np.matmul(x, y[..., np.newaxis])[..., 0])


def _vecmat(x: Array, y: Array) -> Array:
    row = np.conj(x) if x.dtype.kind == "c" else x
    return np.asarray(np.matmul(row[..., np.newaxis, :], y)[..., 0, :])


def _outer(x: Array, y: Array) -> Array:
    return np.asarray(x[..., :, np.newaxis] * y[..., np.newaxis, :])


OPS = (
    contraction("matmul", "(m,n),(n,p)->(m,p)", np.matmul, (((2, 3), (3, 4)), ((1, 0), (0, 2)), ((0, 2), (2, 3))),
                "Matrix by matrix."),
    contraction("matvec", "(m,n),(n)->(m)", _matvec, (((2, 3), (3,)), ((2, 0), (0,))), "Matrix by vector."),
    contraction("vecmat", "(n),(n,p)->(p)", _vecmat, (((3,), (3, 2)), ((0,), (0, 2))),
                "Vector by matrix; a complex vector is conjugated."),
    contraction("vecdot", "(n),(n)->()", np.vecdot, (((3,), (3,)), ((0,), (0,))),
                "Inner product; a complex first operand is conjugated."),
    contraction("outer", "(m),(n)->(m,n)", _outer, (((2,), (3,)), ((0,), (3,))), "All products, none conjugated."),
)  # fmt: skip
