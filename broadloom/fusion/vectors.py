"""Which instructions can run for a vector of points, side by side along one variable.

What goes in: instructions and the variable. What comes out: answers that are pure functions of these.
"""

from __future__ import annotations

from collections.abc import Iterable

from broadloom.dtypes import DType
from broadloom.fusion.ir import Accumulated, Compute, Instruction, Literalv, Load, Lookup, Reduce, Store
from broadloom.records import dataclass
from broadloom.symbolic import Add, Size, Symbol, coefficient

NO_COLUMN = Symbol("no_column", 0, 0)  # in the place of a column where there is but one
NEAR = 4  # elements from one to the next up to which they are read together with what lies between


def is_plain(i: Instruction, column: Symbol) -> bool:
    """Whether an instruction works on vectors of columns: pointwise, with memory the same for all or side by side."""
    match i:
        case Load(_, index, dtype):
            return dtype.kind != "c" and stride(index, column) in (0, 1)
        case Store(_, index, _, mode):
            return mode == "set" and stride(index, column) == 1
        case Compute(_, _, dtype, _) | Literalv(dtype, _) | Accumulated(_, dtype) | Lookup(_, _, dtype):
            return dtype.kind != "c"
        case Reduce(_, _, position):
            return position is None
    return False


def stride(index: Size, variable: Symbol) -> Size | None:
    """The step of an index along a loop variable, None where it has no one step."""
    split = coefficient(index, variable)
    return None if split is None else split[0]


def is_near(step: Size | None, dtype: DType) -> bool:
    """Whether elements so far apart are read together with what lies between them; complex ones are pairs."""
    most = NEAR // 2 if dtype.kind == "c" else NEAR
    return isinstance(step, int) and -most <= step <= most


@dataclass(frozen=True, slots=True)
class Reach:
    """What is read together: from the elements at `index` on, `span` more behind each."""

    index: Size
    step: int
    span: int


def reaches(loads: Iterable[Load], column: Symbol) -> dict[tuple[str, DType, Size], tuple[Reach, int]]:
    """For each load of near elements that do not lie side by side, as complex ones never do, what it is read with, and
    how far behind the first of that it lies: loads of what lies between elements share one read."""
    groups: dict[tuple[str, DType, Size, int], set[int]] = {}
    for i in loads:
        step = stride(i.index, column)
        is_side_by_side = step == 1 and i.dtype.kind != "c"
        if isinstance(step, int) and step != 0 and not is_side_by_side and is_near(step, i.dtype):
            first = _constant(i.index)
            groups.setdefault((i.buffer, i.dtype, i.index - first, step), set()).add(first)
    found: dict[tuple[str, DType, Size], tuple[Reach, int]] = {}
    for (buffer, dtype, index, step), firsts in groups.items():
        rest = sorted(firsts)
        while rest:
            shared = [n for n in rest if n - rest[0] < abs(step)]
            reach = Reach(index + rest[0], step, shared[-1] - shared[0])
            found |= {(buffer, dtype, index + n): (reach, n - rest[0]) for n in shared}
            rest = rest[len(shared) :]
    return found


def _constant(index: Size) -> int:
    return index if isinstance(index, int) else index.constant if isinstance(index, Add) else 0
