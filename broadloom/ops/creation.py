"""Creation ops: arrays from attributes alone.

Signatures have no operands: `->(size)`. Sizes may be symbolic in a graph; a reference kernel gets plain ints. `full`,
`zeros`, `arange` and `linspace` are compositions of these with pointwise ops, by NumPy's own formulas, in the
frontend.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from broadloom.dtypes import ALL, DType, int64
from broadloom.ops import rules
from broadloom.ops.record import Op, Sample, Trait
from broadloom.ops.rules import Array
from broadloom.ops.signature import Dim, Signature

_TRAITS = frozenset({Trait.CREATION, Trait.CHEAP})


def creation(
    name: str,
    reference: Callable[..., Array],
    sizes: tuple[str, ...],
    attr_names: tuple[str, ...],
    samples: tuple[Mapping[str, Any], ...],
    doc: str,
) -> Op:
    """An op without operands; the attributes `sizes` are the output's shape, `dtype` its dtype."""

    def signature(attrs: Mapping[str, Any]) -> Signature:
        if "offset" in attr_names:
            rules.read_size(name, attrs, "offset", None)
        return Signature((), (tuple(Dim(rules.read_size(name, attrs, s)) for s in sizes),))

    def result(dtypes: tuple[DType, ...], attrs: Mapping[str, Any]) -> tuple[DType, ...]:
        return (rules.read_dtype(name, attrs),)

    return Op(
        name=name,
        doc=doc,
        signature=signature,
        result_dtypes=result,
        reference=reference,
        arity=0,
        attr_names=attr_names,
        traits=_TRAITS,
        samples=tuple(Sample((), attrs) for attrs in samples),
        sample_dtypes=((),),
    )


def _iota(*, size: int, dtype: DType) -> Array:
    return np.arange(size, dtype=np.int64).astype(dtype.numpy)


def _eye(*, rows: int, cols: int, offset: int, dtype: DType) -> Array:
    return np.eye(rows, cols, k=offset, dtype=dtype.numpy)


def _from_size(*, size: int) -> Array:
    return np.array(size, np.int64)


def _from_size_signature(attrs: Mapping[str, Any]) -> Signature:
    rules.read_size("from_size", attrs, "size", None)
    return Signature((), ((),))


_SHAPES = (
    {"rows": 3, "cols": 3, "offset": 0},
    {"rows": 2, "cols": 4, "offset": 1},
    {"rows": 4, "cols": 2, "offset": -2},
)

OPS = (
    creation(
        "iota",
        _iota,
        ("size",),
        ("size", "dtype"),
        (*({"size": 5, "dtype": d} for d in ALL), {"size": 0, "dtype": int64}),
        "0, 1, ..., size - 1, counted in int64 and cast to `dtype` (small integers wrap).",
    ),
    creation(
        "eye",
        _eye,
        ("rows", "cols"),
        ("rows", "cols", "offset", "dtype"),
        tuple({**shape, "dtype": d} for shape in _SHAPES for d in ALL),
        "A (rows, cols) matrix with ones where column - row == offset and zeros elsewhere.",
    ),
    Op(
        name="from_size",
        doc="The value of an integer that may be symbolic, as a 0-d int64 array.",
        signature=_from_size_signature,
        result_dtypes=lambda dtypes, attrs: (int64,),
        reference=_from_size,
        arity=0,
        attr_names=("size",),
        traits=_TRAITS,
        samples=(Sample((), {"size": 7}), Sample((), {"size": -3})),
        sample_dtypes=((),),
    ),
)
