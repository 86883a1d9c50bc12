"""Relations between sizes: ``==``, ``!=``, ``<``, ``<=`` as data, and proofs of them.

What goes in: two `Size`s. What comes out: a plain bool where bounds settle the relation, else a `Relation` in one
canonical form, so that the same question asked in other words is an equal object.

What holds: positive terms stand on one side each, coefficients have no common divisor, and integers are used:
``2*n < 7`` is ``n <= 3``.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from typing import Literal

from broadloom.records import dataclass
from broadloom.symbolic.expr import Expr, Size, Symbol, from_terms, split_terms, sub
from broadloom.symbolic.ranges import nonnegative, range_of
from broadloom.symbolic.walk import evaluate, free_symbols, substitute

_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<="}


@dataclass(frozen=True, slots=True)
class Relation:
    """``lhs kind rhs``; made by `eq ne lt le gt ge`, which bring it into canonical form.

    >>> str(ge(Symbol("n"), 4))
    '4 <= n'
    """

    kind: Literal["eq", "ne", "lt", "le"]
    lhs: Size
    rhs: Size

    def __bool__(self) -> bool:
        raise TypeError(f"the truth of {self} is not known; use proves() or ShapeEnv.decide()")

    def __str__(self) -> str:
        return f"{self.lhs} {_SIGNS[self.kind]} {self.rhs}"

    def negated(self) -> Relation | bool:
        """The relation that holds exactly when this one does not."""
        match self.kind:
            case "eq":
                return ne(self.lhs, self.rhs)
            case "ne":
                return eq(self.lhs, self.rhs)
            case "lt":
                return le(self.rhs, self.lhs)
            case "le":
                return lt(self.rhs, self.lhs)

    def holds(self, values: Mapping[Symbol, int]) -> bool:
        """Whether the relation is true for these values of its symbols."""
        a, b = evaluate(self.lhs, values), evaluate(self.rhs, values)
        match self.kind:
            case "eq":
                return a == b
            case "ne":
                return a != b
            case "lt":
                return a < b
            case "le":
                return a <= b

    def substituted(self, values: Mapping[Symbol, Size]) -> Relation | bool:
        """The relation with symbols replaced."""
        return _MAKERS[self.kind](substitute(self.lhs, values), substitute(self.rhs, values))

    @property
    def symbols(self) -> frozenset[Symbol]:
        """The symbols that occur on either side."""
        return free_symbols(self.lhs) | free_symbols(self.rhs)


def eq(a: Size, b: Size) -> Relation | bool:
    """``a == b``."""
    return _equality("eq", a, b)


def ne(a: Size, b: Size) -> Relation | bool:
    """``a != b``."""
    return _equality("ne", a, b)


def le(a: Size, b: Size) -> Relation | bool:
    """``a <= b``."""
    difference = sub(b, a)
    if not isinstance(difference, Expr):
        return difference >= 0
    if nonnegative(difference):
        return True
    if nonnegative(sub(-1, difference)):
        return False
    terms, constant = split_terms(difference)
    divisor = gcd(*(c for _, c in terms))
    lhs, rhs = _sides({m: c // divisor for m, c in terms}, constant // divisor)
    if constant // divisor == -1 and isinstance(lhs, Expr) and isinstance(rhs, Expr):
        return Relation("lt", sub(lhs, 1), rhs)
    return Relation("le", lhs, rhs)


def lt(a: Size, b: Size) -> Relation | bool:
    """``a < b``."""
    return le(a, sub(b, 1))


def ge(a: Size, b: Size) -> Relation | bool:
    """``a >= b``."""
    return le(b, a)


def gt(a: Size, b: Size) -> Relation | bool:
    """``a > b``."""
    return lt(b, a)


def _equality(kind: Literal["eq", "ne"], a: Size, b: Size) -> Relation | bool:
    difference = sub(a, b)
    if not isinstance(difference, Expr):
        return (difference == 0) == (kind == "eq")
    if 0 not in range_of(difference) or nonnegative(sub(difference, 1)) or nonnegative(sub(-1, difference)):
        return kind == "ne"
    terms, constant = split_terms(difference)
    divisor = gcd(*(c for _, c in terms))
    if constant % divisor:
        return kind == "ne"
    if terms[0][1] < 0:
        divisor = -divisor
    rhs, lhs = _sides({m: c // divisor for m, c in terms}, constant // divisor)
    return Relation(kind, lhs, rhs)


def _sides(terms: dict[Expr, int], constant: int) -> tuple[Size, Size]:
    """(lhs, rhs) with only positive coefficients and ``rhs - lhs`` the given sum; a constant that would stand
    alone on its side beside nothing stays there."""
    rhs = from_terms({m: c for m, c in terms.items() if c > 0}, max(constant, 0))
    lhs = from_terms({m: -c for m, c in terms.items() if c < 0}, max(-constant, 0))
    return lhs, rhs


_MAKERS = {"eq": eq, "ne": ne, "lt": lt, "le": le}


def proves(relation: Relation | bool) -> bool | None:
    """True or False where the bounds of the symbols settle the relation, else None.

    >>> n = Symbol("n")
    >>> proves(lt(n, n + 1)), proves(eq(n, 3))
    (True, None)
    """
    if isinstance(relation, bool):
        return relation
    again = _MAKERS[relation.kind](relation.lhs, relation.rhs)
    return again if isinstance(again, bool) else None
