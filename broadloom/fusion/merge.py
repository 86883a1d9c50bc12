"""Merging two kernels into one: the legality and the mechanics.

What goes in: kernels A and B, A earlier in the program. What comes out: the merged kernel, or `NoFuse` with the
reason. Of the ways to match their loops the first is taken in which what flows between them, or what both read, is
met at the same points. What holds: the merged kernel computes, at each outer point, what A and then B computed there;
B reads what A stored only at the same point, as a value where the stages could be merged and through memory
otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, permutations

from broadloom.dtypes import DType
from broadloom.fusion.handlers import (
    Access,
    Recording,
    accesses,
    count_ops,
    facts_of,
    instructions_of,
    may_raise,
    replay,
)
from broadloom.fusion.ir import Accumulated, Body, Indirect, Kernel, Loop, Reduce, ReductionKind, Running, Stage
from broadloom.fusion.vectors import stride
from broadloom.records import dataclass
from broadloom.symbolic import Size, Symbol, coefficient, product, substitute

MAX_BODY_OPS = 200
MAX_STAGES = 64  # stages have a price that ops do not show: the time for a kernel grows faster than their number
SMALL = 4096  # points that one thread computes sooner than a second kernel is called
LONG_SEARCH = 64  # iterations of an any or all, or of a search in scalars, from where on it gets a loop of its own
SHORT_SEARCH = 9  # the same of an argmax or argmin in vectors
MAX_MAPPINGS = 6  # loop correspondences tried before two iteration spaces count as different


@dataclass(frozen=True, slots=True)
class NoFuse:
    """Two kernels stay apart, because of `reason`."""

    reason: str


class Forwarding(Recording):
    """A recording in which a load of an element that was just stored is the stored value."""

    def __init__(self, parent: Recording | None = None) -> None:
        super().__init__(parent)
        self._stored: dict[str, dict[Size, int]] = {}

    def store(self, buffer: str, index: Size, value: int, mode: str = "set") -> None:
        super().store(buffer, index, value, mode)
        self._stored[buffer] = {index: value} if mode == "set" else {}

    def load(self, buffer: str, index: Size, dtype: DType) -> int:
        level: Recording | None = self
        while isinstance(level, Forwarding):
            if buffer in level._stored:
                value = level._stored[buffer].get(index)
                if value is not None:
                    return value
                break
            level = level.parent
        return super().load(buffer, index, dtype)


def is_pointwise(kernel: Kernel) -> bool:
    """One stage without loops: any subset of the outer loops may be moved inside."""
    return len(kernel.stages) == 1 and not kernel.stages[0].loops and not kernel.accumulators and not kernel.serial


def is_small(kernel: Kernel) -> bool:
    """Whether one thread computes all points sooner than a second kernel is called, and they can be one point."""
    if kernel.outer and not is_pointwise(kernel):
        return False
    return _is_quick(kernel)


def _is_quick(kernel: Kernel) -> bool:
    """Whether one thread computes all points sooner than a second kernel is called."""
    inner = max((product(loop.extent for loop in s.loops) for s in kernel.stages), key=_as_int, default=1)
    return _as_int(product(loop.extent for loop in kernel.outer) * inner) <= SMALL


def _as_int(size: Size) -> int:
    return size if isinstance(size, int) else SMALL + 1


def merge(a: Kernel, b: Kernel, dtypes: Mapping[str, DType]) -> Kernel | NoFuse:
    """A and then B as one kernel. `dtypes` are those of the buffers."""
    if a.serial or b.serial:
        return NoFuse("a scatter runs in order")
    if sum(count_ops(s.body) for k in (a, b) for s in k.stages) > MAX_BODY_OPS:
        return NoFuse(f"the body would exceed {MAX_BODY_OPS} ops")
    if len(a.stages) + len(b.stages) > MAX_STAGES:
        return NoFuse(f"the kernel would exceed {MAX_STAGES} stages")
    if is_small(a) and is_small(b):
        return _late_write(a, b) or _combined(_inside(a), _inside(b), dtypes)
    reason = NoFuse(f"iteration spaces differ: {_extents(a.outer)} and {_extents(b.outer)}")
    for left, right in islice(_aligned(a, b), MAX_MAPPINGS):
        conflict = _conflict(left, right, dtypes) or _apart(left, right)
        if conflict is None:
            return _combined(left, right, dtypes)
        reason = conflict
    return reason


def _extents(loops: Sequence[Loop]) -> str:
    return "(" + ", ".join(str(loop.extent) for loop in loops) + ")"


# ---- iteration spaces -------------------------------------------------------------------------------------------


def _aligned(a: Kernel, b: Kernel) -> Iterator[tuple[Kernel, Kernel]]:
    """Both kernels over the same outer loops, in every way that the extents allow; likely ways first."""
    if len(a.outer) == len(b.outer):
        for chosen in _matches(b.outer, a.outer):
            yield a, _renamed(b, dict(zip((x.variable for x in b.outer), chosen, strict=True)), a.outer)
    elif len(a.outer) > len(b.outer) and is_pointwise(a) and b.outer:
        for chosen in _matches(b.outer, a.outer):
            mapping = dict(zip((x.variable for x in b.outer), chosen, strict=True))
            outer = tuple(next(x for x in a.outer if x.variable is v) for v in mapping.values())
            yield _demoted(a, outer), _renamed(b, mapping, outer)
    elif len(b.outer) > len(a.outer) and is_pointwise(b) and a.outer:
        for chosen in _matches(a.outer, b.outer):
            mapping = dict(zip(chosen, (x.variable for x in a.outer), strict=True))
            kept = tuple(next(x for x in b.outer if x.variable is v) for v in chosen)
            yield a, _renamed(_demoted(b, kept, avoid=a.outer), mapping, a.outer)


def _matches(small: Sequence[Loop], large: Sequence[Loop]) -> Iterator[tuple[Symbol, ...]]:
    """Ways to give each loop of `small` its own loop of `large` with the same extent."""
    if [x.extent for x in small] == [x.extent for x in large[: len(small)]]:
        yield tuple(x.variable for x in large[: len(small)])
    if len(large) > 5:
        return
    for candidate in permutations(large, len(small)):
        same = all(x.extent == y.extent for x, y in zip(small, candidate, strict=True))
        if same and list(candidate) != list(large[: len(small)]):
            yield tuple(x.variable for x in candidate)


def _inside(kernel: Kernel) -> Kernel:
    """The kernel with its outer loops moved into each stage: one point that does everything, in order."""
    return _demoted(kernel, ()) if kernel.outer else kernel


def _renamed(kernel: Kernel, mapping: Mapping[Symbol, Symbol], outer: tuple[Loop, ...]) -> Kernel:
    changed = {old: new for old, new in mapping.items() if old is not new}
    if not changed:
        return replace(kernel, outer=outer)
    stages = tuple(
        Stage(
            tuple(Loop(x.variable, substitute(x.extent, changed)) for x in s.loops),
            _replayed(s.body, changed),
            s.sequential,
        )
        for s in kernel.stages
    )
    return replace(kernel, outer=outer, stages=stages)


def _demoted(kernel: Kernel, outer: tuple[Loop, ...], avoid: tuple[Loop, ...] = ()) -> Kernel:
    """A pointwise kernel with all loops but `outer` moved into its stage, under the names of stage loops."""
    inner = [x for x in kernel.outer if x not in outer]
    mapping: dict[Symbol, Symbol] = {}
    loops = []
    for position, loop in enumerate(inner):
        variable = Symbol(f"r{position}", loop.variable.lo, loop.variable.hi)
        mapping[loop.variable] = variable
        loops.append(Loop(variable, loop.extent))
    return replace(kernel, outer=outer, stages=(Stage(tuple(loops), _replayed(kernel.stages[0].body, mapping)),))


def _replayed(body: Body, symbols: Mapping[Symbol, Size]) -> Body:
    recording = Recording()
    replay(body, recording, symbols=symbols)
    return recording.body()


# ---- dependences ------------------------------------------------------------------------------------------------


def _kernel_accesses(kernel: Kernel) -> list[Access]:
    return [access for stage in kernel.stages for access in accesses(stage.body)]


def _conflict(a: Kernel, b: Kernel, dtypes: Mapping[str, DType]) -> NoFuse | None:
    """Why B's point may not follow A's at once: it touches what other points of A make or use."""
    stored_by_a: dict[str, list[Access]] = {}
    loaded_by_a: dict[str, list[Access]] = {}
    for access in _kernel_accesses(a):
        (loaded_by_a if access.mode == "load" else stored_by_a).setdefault(access.buffer, []).append(access)
    for access in _kernel_accesses(b):
        others = list(stored_by_a.get(access.buffer, ()))
        if access.mode != "load":
            others += loaded_by_a.get(access.buffer, [])
        for other in others:
            if other.index != access.index:
                return NoFuse(f"{access.buffer} is read at another point than it is stored")
            if any(x.dtype not in (None, dtypes[x.buffer]) for x in (access, other)):
                return NoFuse(f"{access.buffer} is seen through another dtype")
    return _late_write(a, b)


def _apart(a: Kernel, b: Kernel) -> NoFuse | None:
    """Why kernels that do no more than read the same had better not do it at the same points: one goes along the rows
    of what the other goes along the columns of, so that nothing would be read once and one of them out of order."""
    if _is_quick(a) and _is_quick(b):
        return None
    mine, others = _kernel_accesses(a), _kernel_accesses(b)
    pairs = [(x, y) for x in mine for y in others if x.buffer == y.buffer]
    if any(x.mode != "load" or y.mode != "load" for x, y in pairs):
        return None
    variables = [loop.variable for loop in a.outer]
    if pairs and not any(_same_way(x.index, y.index, variables) for x, y in pairs):
        return NoFuse(f"they go through {', '.join(sorted({x.buffer for x, _ in pairs}))} along different axes")
    return NoFuse("one goes along rows, the other down columns") if _lean(a) * _lean(b) < 0 else None


def _lean(kernel: Kernel) -> int:
    """Above 0 where the stages' loops go down columns of what they store, or load, and below where along rows."""
    if not kernel.outer:
        return 0
    lean = 0
    for stage in (s for s in kernel.stages if s.loops):
        found = accesses(stage.body)
        for x in [x for x in found if x.mode != "load"] or found:
            lean += stride(x.index, kernel.outer[-1].variable) == 1
            lean -= stride(x.index, stage.loops[-1].variable) == 1
    return lean


def _same_way(x: Size, y: Size, variables: Sequence[Symbol]) -> bool:
    """Whether indices move by the same steps along these loops, as far as they move by steps."""
    steps = ((coefficient(x, v), coefficient(y, v)) for v in variables)
    return all(p is None or q is None or p[0] == q[0] for p, q in steps)


def _late_write(a: Kernel, b: Kernel) -> NoFuse | None:
    """Inputs are written only after every check has passed: a check and such a write stay apart."""
    for raising, writing in ((a, b), (b, a)):
        stores = (x for x in _kernel_accesses(writing) if x.mode != "load")
        if any(may_raise(s.body) for s in raising.stages) and any(x.buffer.startswith("in") for x in stores):
            return NoFuse("an input is written back only after every check has passed")
    return None


# ---- stages -----------------------------------------------------------------------------------------------------


def _combined(a: Kernel, b: Kernel, dtypes: Mapping[str, DType]) -> Kernel:
    stages = list(a.stages)
    kinds = {x.name: x.kind for x in (*a.accumulators, *b.accumulators)}
    for stage in b.stages:
        place = _place(stages, stage, dtypes, partial(_hinder, kinds=kinds, outer=a.outer))
        if place is None:
            stages.append(stage)
        else:
            stages[place] = _joined(stages[place], stage)
    return Kernel(
        a.name,
        a.outer,
        tuple(stages),
        (*a.accumulators, *b.accumulators),
        origins=(*a.origins, *b.origins),
    )


def _joined(first: Stage, second: Stage) -> Stage:
    recording = Forwarding()
    replay(first.body, recording)
    replay(second.body, recording)
    return Stage(first.loops, recording.body(), first.sequential or second.sequential)


def _place(
    stages: Sequence[Stage], stage: Stage, dtypes: Mapping[str, DType], hinder: Callable[[Stage, Stage], bool]
) -> int | None:
    """The earliest stage over the same loops that `stage` may join: nothing it needs is made later, and they do not
    `hinder` each other."""
    earliest = len(stages)
    for position in range(len(stages) - 1, -1, -1):
        other = stages[position]
        if _made_accumulators(other.body) & _used_accumulators(stage.body):
            break
        joins = other.loops == stage.loops and not hinder(other, stage)
        if joins and _side_by_side(other.body, stage.body, dtypes):
            earliest = position
        if _touches(other.body, stage.body):
            break
    return earliest if earliest < len(stages) else None


def _hinder(one: Stage, other: Stage, kinds: Mapping[str, ReductionKind], outer: Sequence[Loop]) -> bool:
    """Whether two stages along a row are quicker one after the other, where both could run at once. A search goes block
    by block to the place of an extremum, or up to the first hit of an any or all. A gather has a check in it, and a
    fold next to either would lose its vectors. Columns run side by side, where it does not matter. `kinds` are those of
    the accumulators."""
    extent = _as_int(one.loops[-1].extent) if one.loops else 0
    if extent < SHORT_SEARCH:
        return False
    if outer and any(stride(x.index, outer[-1].variable) == 1 for s in (one, other) for x in accesses(s.body)):
        return False
    folds = [_made_accumulators(s.body) for s in (one, other)]
    found = {kinds[name] for f in folds for name in f if name in kinds}
    if found & {"argmax", "argmin"}:
        return True
    if extent < LONG_SEARCH or found & {"any", "all"}:
        return extent >= LONG_SEARCH
    gathers = [any(isinstance(i, Indirect) for i in instructions_of(s.body)) for s in (one, other)]
    return any(folds[k] and not gathers[k] and gathers[1 - k] for k in (0, 1))


def _made_accumulators(body: Body) -> set[str]:
    return {i.name for i in instructions_of(body) if isinstance(i, Reduce | Running)}


def _used_accumulators(body: Body) -> set[str]:
    return {i.name for i in instructions_of(body) if isinstance(i, Accumulated)}


def _side_by_side(first: Body, second: Body, dtypes: Mapping[str, DType]) -> bool:
    """Whether both bodies may run in one iteration: what one stores, the other uses at the same element only."""
    if not _touches(first, second):
        return True
    for x in accesses(first):
        for y in accesses(second):
            if x.buffer != y.buffer or x.mode == y.mode == "load":
                continue
            if x.index != y.index or any(z.dtype not in (None, dtypes[z.buffer]) for z in (x, y)):
                return False
    return True


def _touches(first: Body, second: Body) -> bool:
    """Whether the bodies share a buffer that one of them stores."""
    one, two = facts_of(first), facts_of(second)
    return bool(one.stored & (two.loaded | two.stored) or two.stored & one.loaded)
