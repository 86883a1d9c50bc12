"""Whether linear algebra on a stack of small matrices is done on many of them at once, a matrix to a lane.

What goes in: how many matrices there are, and the lengths of their sides. What comes out: `Lanes`, `Library` (LAPACK,
matrix by matrix) or, where that depends on sizes that are known at run time alone, `Either` - with the reason.

>>> print(choose(1000, (8, 8))); print(choose(1000, (64, 64))); print(choose(2, (8, 8)))
side by side: 1000 matrices with sides up to 8
one by one: a side of 64 is longer than 32
one by one: only 2 matrices
>>> print(choose(6, (32, 32))); print(choose(6, (32, 32), rotated=True)); print(choose(8, (32, 32), rotated=True))
side by side: 6 matrices with sides up to 32
one by one: only 6 matrices to rotate
side by side: 8 matrices with sides up to 32

Eigenvalues are found by rotations, which are more work than what LAPACK does to one matrix. Processor time for 64
matrices of doubles over LAPACK's, on one thread of AVX-512, for sides of 20, 24, 26, 28, 30 and 32: with vectors 0.40,
0.46, 0.55, 0.58, 0.62 and 1.00 (32 rows of 32 vectors fall into few sets of the nearest cache), values alone 0.68,
0.81, 0.94, 1.00, 1.06 and 1.14. Threads share the blocks of matrices, where LAPACK is called on one: the time for 500,
on two threads, is 0.31, 0.28, 0.25, 0.48, 0.50 and 0.56 of LAPACK's, for values alone 0.23, 0.31, 0.61, 0.64, 0.65 and
0.65. Half a block takes as long as a whole one: of 4 matrices with a side of 16 it is 0.60 and 0.72 of LAPACK's time,
but 0.9 and 1.9 with one of 24, 2.0 and 2.4 with one of 32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from broadloom.records import dataclass
from broadloom.symbolic import Size

LIMIT = 32  # the longest side: the matrices of a block stay in the cache
FEW = 4  # fewer matrices leave too many lanes idle
FEW_ROTATED = 8  # of longer sides, where LAPACK's work counts for more than its call
SHORT = 16


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


def choose(count: Size, sides: Sequence[Size], *, rotated: bool = False) -> Choice:
    """How `count` matrices with these sides are treated; `rotated` ones are turned until they are diagonal. A number of
    matrices that is not known is taken for a large one: where the sides are short, a block of matrices costs little
    more than a call for one."""
    known = [n for n in sides if isinstance(n, int)]
    longest = max(known, default=0)
    few = FEW_ROTATED if rotated and longest > SHORT else FEW
    if longest > LIMIT:
        return Library(f"a side of {longest} is longer than {LIMIT}")
    if isinstance(count, int) and count < few:
        return Library(f"only {count} matri{'x' if count == 1 else 'ces'}{' to rotate' if few > FEW else ''}")
    if len(known) < len(sides):
        return Either(f"side by side if there are {few} matrices or more, with sides up to {LIMIT}")
    return Lanes(f"{count} matrices with sides up to {longest}")
