"""Whether linear algebra on a stack of small matrices is done on many of them at once, a matrix to a lane.

What goes in: how many matrices there are, and the lengths of their sides. What comes out: `Lanes`, `Library` (LAPACK,
matrix by matrix) or, where that depends on sizes that are known at run time alone, `Either` - with the reason.

>>> print(choose(1000, (8, 8))); print(choose(1000, (64, 64))); print(choose(2, (8, 8)))
side by side: 1000 matrices with sides up to 8
one by one: a side of 64 is longer than 32
one by one: only 2 matrices
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from broadloom.records import dataclass
from broadloom.symbolic import Size

LIMIT = 32  # the longest side: the matrices of a block stay in the cache
ROTATED = 24  # the longest side where eigenvalues are found by rotations, which are many
FEW = 4  # fewer matrices leave too many lanes idle


@dataclass(frozen=True, slots=True)
class Choice:
    """How something is computed, and why."""

    label: ClassVar[str]
    reason: str

    def __str__(self) -> str:
        return f"{self.label}: {self.reason}"


class Lanes(Choice):
    """Kernels of our own, whose vectors hold an element of several matrices."""

    __slots__ = ()
    label = "side by side"


class Library(Choice):
    """Calls of LAPACK."""

    __slots__ = ()
    label = "one by one"


class Either(Choice):
    """Both are there; each call takes one of them."""

    __slots__ = ()
    label = "by the sizes of the call"


def choose(count: Size, sides: Sequence[Size], limit: int = LIMIT) -> Choice:
    """How `count` matrices with these sides are treated. A number of matrices that is not known is taken for a large
    one: where the sides are short, a block of matrices costs little more than a call for one."""
    known = [n for n in sides if isinstance(n, int)]
    longest = max(known, default=0)
    if longest > limit:
        return Library(f"a side of {longest} is longer than {limit}")
    if isinstance(count, int) and count < FEW:
        return Library(f"only {count} matri{'x' if count == 1 else 'ces'}")
    if len(known) < len(sides):
        return Either(f"side by side if there are {FEW} matrices or more, with sides up to {limit}")
    return Lanes(f"{count} matrices with sides up to {longest}")
