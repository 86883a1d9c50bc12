"""The op record: everything that is mathematics about an op stands in one `Op`.

What goes in: a name, the core signature as a function of the attributes, the type rule, the NumPy reference
kernel, traits and sample inputs. What comes out: a frozen `Op`, entered in `ops.table.OPS`.

What holds: an operand's shape is loop dims followed by core dims; loop dims broadcast. Attributes speak only of
core dims and count axes from the end, so a new axis in front of every operand never changes an op.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import Enum
from typing import Any, Literal

from broadloom.dtypes import DType
from broadloom.ops.signature import Decide, Signature
from broadloom.records import dataclass
from broadloom.symbolic import Size


class Trait(Enum):
    """What passes may ask of an op."""

    POINTWISE = "pointwise"  # signature is (),()->(): no core dims
    REDUCTION = "reduction"
    SCAN = "scan"
    VIEW = "view"  # an index map of its operand, no arithmetic
    CREATION = "creation"  # no array operand
    CONTRACTION = "contraction"  # matmul and its kin
    GATHER = "gather"
    SCATTER = "scatter"
    LINALG = "linalg"
    SORT = "sort"  # orders the elements of an axis, or searches them
    TRANSFORM = "transform"  # Fourier transforms
    MAY_RAISE = "may_raise"  # an effect: dead-code elimination keeps it
    COMMUTATIVE = "commutative"
    CHEAP = "cheap"  # costs no more than a load: recompute rather than store
    EXPENSIVE = "expensive"  # transcendental or division: never inlined into a window of readers


Attrs = Mapping[str, Any]  # values: int, bool, str, None, DType, Size, and tuples of these
Dims = Mapping[str, Size]

Domain = Literal["index", "definite", "regular", "lower", "upper", "lu", "pivots", "sorted"]


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample call for the generated tests: core shapes of the operands and the attributes.

    `low`/`high` bound the generated real values where the op's domain is bounded (log: low > 0). `domains` names,
    by operand, the kind of value that is no free number: ("index", n) lies in [-n, n); "definite" is a Hermitian
    positive definite matrix, "regular" a well-conditioned one, "lower", "upper" and "lu" triangular ones with a
    diagonal away from zero, "pivots" LAPACK's row interchanges, "sorted" any numbers in order along the last axis.
    `ops.sampling` makes the arrays.
    """

    core_shapes: tuple[tuple[int, ...], ...]
    attrs: Attrs = field(default_factory=dict)
    low: float | None = None
    high: float | None = None
    domains: Mapping[int, tuple[Domain, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """One op. `reference(*arrays, **attrs)` is the NumPy kernel on whole operands (loop dims included) and is
    the definition of the op's meaning; it returns an ndarray or a tuple of them, with exactly the inferred
    shape and dtype. It may return a view of an operand.

    `attr_names` are required unless `defaults` has a value. `check(dims, dtypes, attrs, decide)` refuses what the
    signature cannot (a size that does not divide, a bound that is passed) and returns the output sizes that the
    signature marks with `!`. `raises(dtypes, attrs)` refines the trait MAY_RAISE. `empty` gives the reason for
    every dtype of operand number `principal` that has no cell (for a creation op: of the attribute `dtype`).
    """

    name: str
    doc: str
    signature: Callable[[Attrs], Signature]
    result_dtypes: Callable[[tuple[DType, ...], Attrs], tuple[DType, ...]]  # raises DTypeError for an empty cell
    reference: Callable[..., Any]
    arity: int | None  # None: variadic (concat, stack) or set by the attributes (gather, scatter)
    attr_names: tuple[str, ...] = ()
    traits: frozenset[Trait] = frozenset()
    samples: tuple[Sample, ...] = ()
    sample_dtypes: tuple[tuple[DType, ...], ...] = ()  # operand dtype tuples with a non-empty cell, for the tests
    defaults: Attrs = field(default_factory=dict)
    check: Callable[[Dims, tuple[DType, ...], Attrs, Decide | None], Dims] | None = None
    raises: Callable[[tuple[DType, ...], Attrs], bool] | None = None
    empty: Mapping[DType, str] = field(default_factory=dict)
    principal: int = 0

    def has(self, trait: Trait) -> bool:
        return trait in self.traits

    def may_raise(self, dtypes: tuple[DType, ...], attrs: Attrs) -> bool:
        """Whether a call with these operand dtypes and attributes can raise at run time: an effect."""
        if self.raises is not None:
            return self.raises(dtypes, {**self.defaults, **attrs})
        return Trait.MAY_RAISE in self.traits

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        """Ops of one table are told apart by name."""
        return isinstance(other, Op) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)
