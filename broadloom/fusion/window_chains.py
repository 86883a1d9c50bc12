"""Chains of stencils, and what one of them needs of a producer.

What goes in: a `Chain` - the last kernel, and the producers that are part of it already - and one producer more. What
comes out: the producer as a `Member` - what each axis of its buffer is for the last kernel, and how many elements along
it a point of that kernel needs - or the reason why it cannot be one; then the width of the strips that rows are cut
into.

What holds: each point of the last kernel finds what it reads, and what the members between read for it, among the
elements that `Extent` says; an index that an end of an axis cuts off finds the element at that end among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

from broadloom.fusion.handlers import effects_of
from broadloom.fusion.ir import Buffer, Kernel, Load, Loop, Store
from broadloom.fusion.merge import NoFuse
from broadloom.fusion.peel import FEW_POINTS
from broadloom.fusion.window_maps import Reach, along_axes, loads_of, points_of, reach_of
from broadloom.records import dataclass
from broadloom.symbolic import Size, Symbol, coefficient, free_symbols, le, product, substitute

LOCAL_BYTES = 48 << 10  # of all rings of a kernel: they lie on the stack, and stay in the nearest caches
SHORT_ROW = 64  # elements behind an axis below which its entries are no rows: pieces of them are read as one
PIECE = 8192  # elements of a piece of a row where rows are not run through
HALO_SHARE = 10  # times its neighbourhood that a strip is wide at least
SMALL_WINDOW = 16  # rows before and behind a point that any image has enough rows for
ENOUGH_SHARES = 4  # threads that a tall window is to leave work for


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a buffer in a chain, and what it is for the chain's last kernel: "batch" is one of its outer loops,
    element for element; "row" is the axis that the ring runs along; "strip" is cut into strips; the rest is "inner"."""

    loop: Loop  # of the producer
    role: str
    stride: Size


@dataclass(frozen=True, slots=True)
class Extent:
    """What one point of a loop of the last kernel needs of an axis: elements step * point + [low, high], the last
    ones of them new; `live` is the first one that is read while the newest is made."""

    step: int
    low: int
    high: int
    live: int


@dataclass(slots=True)
class Member:
    """A producer that becomes part of the chain's last kernel."""

    kernel: Kernel
    buffer: Buffer
    axes: tuple[Axis, ...]
    row: Extent | None
    strip: Extent
    indices: dict[Size, tuple[Size, ...]]  # by the offset that a kernel of the chain accesses

    def axis(self, role: str) -> Axis:
        return next(a for a in self.axes if a.role == role)

    @property
    def slots(self) -> int:
        return 1 if self.row is None else self.row.high - self.row.live + 1

    @property
    def inner(self) -> int:
        size = product(a.loop.extent for a in self.axes if a.role == "inner")
        assert isinstance(size, int)
        return size


@dataclass(slots=True)
class Chain:
    """The last kernel of a chain, the roles of its loops, and its producers, the last one first."""

    last: Kernel
    roles: dict[Symbol, str] = field(default_factory=dict)
    members: list[Member] = field(default_factory=list)

    def loop(self, role: str) -> Loop | None:
        return next((x for x in self.last.outer if self.roles.get(x.variable) == role), None)

    @property
    def batch(self) -> tuple[Symbol, ...]:
        return tuple(x.variable for x in self.last.outer if self.roles.get(x.variable) == "batch")


# ---- one producer -----------------------------------------------------------------------------------------------


def member(chain: Chain, producer: Kernel, buffer: Buffer) -> Member | NoFuse:
    """The producer as part of the chain, if each reader's windows allow."""
    points = product(buffer.layout.shape)
    if isinstance(points, int) and points < FEW_POINTS:
        return NoFuse(f"{buffer.name} is small")
    axes = _axes_of(producer, buffer)
    if axes is None:
        return NoFuse(f"{buffer.name} is not filled axis by axis")
    indices: dict[Size, tuple[Size, ...]] = {}
    extents: dict[str, Extent] = {}
    roles: tuple[str, ...] | None = None
    for reader, reader_roles, scale in _readers(chain, buffer.name):
        loads = loads_of(reader.stages[0].body, buffer.name, points_of(reader.outer))
        looked = _windows(reader, loads, buffer, axes, indices)
        if isinstance(looked, NoFuse):
            return looked
        windows, cut_off = looked
        if not reader_roles:
            outcome = _assign(chain, windows, axes, cut_off)
            if outcome is not None:
                return outcome
            reader_roles = chain.roles
        seen = _roles(chain, windows, reader_roles, buffer, cut_off)
        if isinstance(seen, NoFuse):
            return seen
        if roles not in (None, seen):
            return NoFuse(f"{buffer.name} is read along different axes")
        roles = seen
        for k, (role, reach) in enumerate(zip(roles, windows, strict=True)):
            if role in ("row", "strip"):
                assert isinstance(reach, Reach)
                if role == "row" and k in cut_off and reach.high < 0:
                    return NoFuse(f"a window over {buffer.name} may lie before its first row as a whole")
                joined = _joined(extents.get(role), _scaled(reach, scale.get(role)))
                if joined is None:
                    return NoFuse(f"{buffer.name} is read at different speeds")
                extents[role] = joined
    assert roles is not None
    named = tuple(replace(a, role=role) for a, role in zip(axes, roles, strict=True))
    if any(a.role == "inner" and not isinstance(a.loop.extent, int) for a in named):
        return NoFuse(f"how long the inner axes of {buffer.name} are is not known")
    given = points_of(chain.last.outer)
    for axis in named:
        if axis.role in extents and not _meets(extents[axis.role], axis.loop.extent, chain.loop(axis.role), given):
            return NoFuse(f"a window over {buffer.name} may lie beyond its ends as a whole")
    return Member(producer, buffer, named, extents.get("row"), extents["strip"], indices)


def _axes_of(producer: Kernel, buffer: Buffer) -> tuple[Axis, ...] | None:
    """The axes of a buffer in memory order, with the producer's loops that fill them; those of size 1 are none."""
    layout = buffer.layout
    axes = [(n, s) for n, s in zip(layout.shape, layout.strides, strict=True) if n != 1]
    stores = [i for i in producer.stages[0].body.instructions if isinstance(i, Store)]
    if len(stores) != 1 or layout.offset != 0 or len(axes) != len(producer.outer):
        return None
    index, found = stores[0].index, list[Axis]()
    for loop in producer.outer:  # sorted: the outermost in memory first
        stride = next((s for n, s in axes if n == loop.extent and _step(index, loop.variable) == s), None)
        if stride is None:
            return None
        found.append(Axis(loop, "", stride))
    whole: Size = 0
    for axis in found:
        whole = whole + axis.loop.variable * axis.stride
    inside: Size = 1
    for axis in reversed(found):
        if axis.stride != inside:
            return None
        inside = inside * axis.loop.extent
    return tuple(found) if whole == index else None


def _step(index: Size, variable: Symbol) -> Size:
    """How far an index that is a sum over loops moves along one of them."""
    return substitute(index, {variable: 1}) - substitute(index, {variable: 0})


def _readers(chain: Chain, buffer: str) -> Iterator[tuple[Kernel, dict[Symbol, str], dict[str, Extent]]]:
    """The kernels of the chain that load a buffer, what their loops are, and what a point of the last one needs of
    them."""
    for m in chain.members:
        if buffer not in effects_of(m.kernel).loaded:
            continue
        needed = {"strip": m.strip} if m.row is None else {"strip": m.strip, "row": m.row}
        yield m.kernel, {a.loop.variable: a.role for a in m.axes}, needed
    if buffer in effects_of(chain.last).loaded:
        yield chain.last, chain.roles, {}


def _windows(
    reader: Kernel,
    loads: Sequence[tuple[Load, dict[Symbol, Size]]],
    buffer: Buffer,
    axes: Sequence[Axis],
    indices: dict[Size, tuple[Size, ...]],
) -> tuple[list[Reach | frozenset[Symbol]], frozenset[int]] | NoFuse:
    """For each axis the reach of all loads together, or the loops that the index depends on where there is none; and
    the axes whose ends cut some index off."""
    strides, sizes = [a.stride for a in axes], [a.loop.extent for a in axes]
    variables = [x.variable for x in reader.outer]
    found: list[Reach | frozenset[Symbol] | None] = [None] * len(axes)
    cut_off: set[int] = set()
    for load, known in loads:
        if load.dtype is not buffer.dtype:
            return NoFuse(f"{buffer.name} is seen through another dtype")
        places = along_axes(load.index, strides, sizes, variables, known)
        if places is None:
            return NoFuse(f"where {buffer.name} is read is not known along each axis")
        indices[load.index] = places
        for k, (place, size) in enumerate(zip(places, sizes, strict=True)):
            reach = reach_of(place, size, variables)
            found[k] = _union(found[k], reach or frozenset(v for v in variables if v in free_symbols(place)))
            if reach is not None and reach.variable is not None and coefficient(place, reach.variable) is None:
                cut_off.add(k)
    return [f for f in found if f is not None], frozenset(cut_off)


def _meets(needed: Extent, size: Size, loop: Loop | None, points: Mapping[Symbol, Size]) -> bool:
    """Whether an axis of `size` has an element that a point of the last kernel needs, for each point, the first and
    the last among them. Only then do all windows that the ends cut off, of the readers between as well, find the
    element at that end among those that are made for the point."""
    v = None if loop is None else points.get(loop.variable, loop.variable)
    if not isinstance(v, Symbol) or v.hi is None:
        return False
    return needed.high >= 0 and le(v.hi * needed.step + needed.low, size - 1) is True


def _union(old: Reach | frozenset[Symbol] | None, new: Reach | frozenset[Symbol]) -> Reach | frozenset[Symbol]:
    if old is None:
        return new
    if isinstance(old, Reach) and isinstance(new, Reach) and old.variable is new.variable and old.step == new.step:
        return Reach(old.variable, old.step, min(old.low, new.low), max(old.high, new.high))
    return _loops_of(old) | _loops_of(new)


def _is_point(window: Reach | frozenset[Symbol]) -> bool:
    return isinstance(window, Reach) and window.is_point


def _loops_of(window: Reach | frozenset[Symbol]) -> frozenset[Symbol]:
    if isinstance(window, Reach):
        return frozenset() if window.variable is None else frozenset([window.variable])
    return window


def _assign(
    chain: Chain, windows: Sequence[Reach | frozenset[Symbol]], axes: Sequence[Axis], cut_off: frozenset[int]
) -> NoFuse | None:
    """Give the loops of the last kernel their roles, by the windows through which it reads its nearest producer."""
    first = next((k for k, w in enumerate(windows) if not _is_point(w) or k in cut_off), None)
    if first is None:
        return NoFuse("nothing is read through a window")
    behind = product(a.loop.extent for a in axes[first + 1 :])
    if isinstance(behind, int) and behind < SHORT_ROW:
        first -= 1  # rows of a window of one, if there are rows
    order = ["batch"] * first + ["row"] * (first >= 0) + ["strip"]
    order += ["inner"] * (len(axes) - len(order))
    roles: dict[Symbol, str] = {}
    for role, window in zip(order, windows, strict=False):
        if role != "inner":
            if not isinstance(window, Reach) or window.variable is None or window.variable in roles:
                return NoFuse("the window does not move evenly along an axis")
            roles[window.variable] = role
    given = [roles.get(x.variable, "inner") for x in chain.last.outer]
    if given[: len(roles)] != [r for r in order if r != "inner"] or "inner" in given[: len(roles)]:
        return NoFuse("the loops of the reader are in another order")
    chain.roles.update({x.variable: role for x, role in zip(chain.last.outer, given, strict=True)})
    return None


def _roles(
    chain: Chain,
    windows: Sequence[Reach | frozenset[Symbol]],
    roles: Mapping[Symbol, str],
    buffer: Buffer,
    cut_off: frozenset[int],
) -> tuple[str, ...] | NoFuse:
    """What each axis of a buffer is, by the loops of a reader that move along it."""
    found: list[str] = []
    for k, window in enumerate(windows):
        used = {roles[v] for v in _loops_of(window)}
        if used <= {"inner"}:
            found.append("inner")
        elif isinstance(window, Reach) and (used != {"batch"} or (window.is_point and k not in cut_off)):
            found.append(used.pop())
        else:
            return NoFuse(f"the window over {buffer.name} does not move evenly along an axis")
    outer = [r for r in found if r != "inner"]
    wanted = ["batch"] * len(chain.batch) + (["row"] if chain.loop("row") else []) + ["strip"]
    if outer != wanted or found[: len(outer)] != outer:
        return NoFuse(f"{buffer.name} has not the axes of its reader")
    return tuple(found)


def _scaled(reach: Reach, reader: Extent | None) -> Extent:
    """What a point of the last kernel needs where the reader's own points are what `reader` tells."""
    if reader is None:
        return Extent(reach.step, reach.low, reach.high, reach.low)
    s = reach.step
    newest = reader.high + 1 - reader.step  # the first of the reader's elements that a point adds
    return Extent(s * reader.step, s * reader.low + reach.low, s * reader.high + reach.high, s * newest + reach.low)


def _joined(one: Extent | None, other: Extent) -> Extent | None:
    if one is None:
        return other
    if one.step != other.step:
        return None
    return Extent(one.step, min(one.low, other.low), max(one.high, other.high), min(one.live, other.live))


# ---- strips -----------------------------------------------------------------------------------------------------


def too_few_rows(chain: Chain) -> NoFuse | None:
    """Why the rows of a reader cannot be shared out among threads, each of which begins with those of a window."""
    rows = chain.loop("row")
    window = max((m.row.high - m.row.low for m in chain.members if m.row is not None), default=0)
    if rows is None or not isinstance(rows.extent, int) or window <= SMALL_WINDOW:
        return None
    if rows.extent < ENOUGH_SHARES * HALO_SHARE * window:
        return NoFuse(f"a window of {window + 1} rows is tall beside {rows.extent} rows")
    return None


def strip_width(chain: Chain) -> Size | NoFuse:
    """How many values of the strip loop are run together: all, or as many as let the rings stay in the cache."""
    loop = chain.loop("strip")
    assert loop is not None
    fixed = slope = halo = 0
    for m in chain.members:
        each = m.slots * m.inner * m.buffer.dtype.itemsize
        reach = m.strip.high - m.strip.low
        fixed += each * (reach + 1 - m.strip.step)
        slope += each * m.strip.step
        halo = max(halo, -(-reach // m.strip.step))
    most = (LOCAL_BYTES - fixed) // slope
    inner = product(x.extent for x in chain.last.outer if chain.roles[x.variable] == "inner")
    if chain.loop("row") is None and isinstance(inner, int) and inner > 0:
        most = min(most, max(1, PIECE // inner))
    if isinstance(loop.extent, int) and 0 < loop.extent <= most:
        return loop.extent
    narrow = isinstance(inner, int) and most * inner < SHORT_ROW
    if most < 1 or most < HALO_SHARE * halo or narrow:
        return NoFuse(f"a window of {max(m.slots for m in chain.members)} rows does not stay in the cache")
    if isinstance(loop.extent, int):
        strips = max(1, -(-loop.extent // most))
        return -(-loop.extent // strips)
    return most
