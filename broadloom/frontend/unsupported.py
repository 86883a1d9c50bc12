"""The one way the frontend says no.

What goes in: what was asked and what the user can do instead. What comes out: `Unsupported`, which capture turns
into a graph break; the plain function then runs, and where NumPy itself would raise, NumPy's own error is seen.
"""

from __future__ import annotations

from broadloom.errors import BroadloomError


class Unsupported(BroadloomError):
    """This call cannot be captured: the author of the function may act on `remedy`, or leave it to plain NumPy.

    >>> print(Unsupported("np.sort is not captured", "sort outside the compiled function"))
    np.sort is not captured; remedy: sort outside the compiled function
    """

    def __init__(self, what: str, remedy: str = "run this part outside the compiled function") -> None:
        super().__init__(what, remedy=remedy)


class DependsOnData(Unsupported):
    """This call needs to know what only the data can tell, such as how many elements a mask selects."""


class NumpyRaises(Unsupported):
    """This call is one that NumPy itself rejects: the plain function raises NumPy's own error."""


class BadIndex(NumpyRaises):
    """This call has an index or axis that does not fit the array: NumPy raises an IndexError."""


def bad_index(what: str) -> BadIndex:
    """A refusal for an index or axis that does not fit the array."""
    return BadIndex(what, "correct the call: NumPy raises for it as well")


def plain_numpy_raises(what: str) -> NumpyRaises:
    """A refusal for a call that NumPy itself rejects."""
    return NumpyRaises(what, "correct the call: NumPy raises for it as well")
