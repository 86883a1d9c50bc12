"""Chains of stencils through line buffers: a value that is read through a window is computed row by row, just before
its reader needs it, and never held as a whole.

What goes in: the steps of a program, in order, and its buffers. What comes out: fewer steps. A producer of one body,
whose buffer only kernels of the same chain read, becomes a `Ring` of the last kernel of the chain: a few rows of the
buffer, as many as are read at once. Where the window lies along the innermost axis, a piece of a row with its
neighbourhood takes the place of the ring.

What holds: the reader's points and their arithmetic stay as they are, and so does that of the producer, which computes
an element again only where two threads, or two strips of a row, meet. A kernel is moved down to its reader only over
steps that neither store what it loads. Each decision is kept with its reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

from broadloom.dtypes import DType
from broadloom.fusion.decide import Fuse
from broadloom.fusion.handlers import Recording, Redirecting, Redirection, effects_of, facts_of, replay, unmoved
from broadloom.fusion.ir import Body, Buffer, Extern, Kernel, Layout, Load, Loop, Ring, Stage, Store, Table
from broadloom.fusion.loops import in_memory_order
from broadloom.fusion.merge import NoFuse, is_pointwise
from broadloom.fusion.peel import FEW_POINTS, borders_of, stages_over
from broadloom.fusion.tables import TableDecision, tabulate
from broadloom.fusion.window_maps import Reach, along_axes, loads_of, points_of, reach_of
from broadloom.records import dataclass
from broadloom.symbolic import Size, Symbol, coefficient, free_symbols, le, mod, product, smax, smin, substitute

LOCAL_BYTES = 48 << 10  # of all rings of a kernel: they lie on the stack, and stay in the nearest caches
SHORT_ROW = 64  # elements behind an axis below which its entries are no rows: pieces of them are read as one
PIECE = 8192  # elements of a piece of a row where rows are not run through
HALO_SHARE = 10  # times its neighbourhood that a strip is wide at least
SMALL_WINDOW = 16  # rows before and behind a point that any image has enough rows for
ENOUGH_SHARES = 4  # threads that a tall window is to leave work for

Steps = Sequence[Kernel | Extern]


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


# ---- programs ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Through:
    """A decision on a producer and its reader: names of kernels, and `Fuse` or `NoFuse`."""

    first: Kernel
    second: Kernel
    outcome: Fuse | NoFuse


def through_windows(
    steps: Steps, buffers: Mapping[str, Buffer], tables: list[TableDecision] | None
) -> tuple[list[Kernel | Extern], dict[str, Buffer], list[Through]]:
    """The steps with chains fused, the buffers, and what was decided. What is decided on tables of the fused kernels
    goes to `tables`; without it there are none."""
    found, known, decisions = list(steps), dict(buffers), list[Through]()
    position = len(found) - 1
    while position > 0:
        last = found[position]
        if isinstance(last, Kernel) and is_pointwise(last):
            taken, fused, local = _fused(found, position, known, decisions, tables)
            if fused is not None:
                known.update(local)
                found[position] = fused
                for k in taken:
                    del found[k]
                position -= len(taken)
        position -= 1
    return found, known, decisions


def _fused(
    steps: Steps,
    position: int,
    buffers: Mapping[str, Buffer],
    decisions: list[Through],
    tables: list[TableDecision] | None,
) -> tuple[list[int], Kernel | None, dict[str, Buffer]]:
    """The numbers of the producers that go into step number `position`, the last one first, and what becomes of it."""
    given = steps[position]
    assert isinstance(given, Kernel)
    last = in_memory_order(given)
    chain, taken = Chain(last), list[int]()
    weighed: list[Through] = []
    for k in range(position - 1, -1, -1):
        producer = steps[k]
        if not isinstance(producer, Kernel):
            continue
        buffer = _made(producer, last, chain, buffers)
        if buffer is None:
            continue
        fixed = _movable(steps, k, position, taken, buffer.name)
        outcome = fixed or _member(chain, in_memory_order(producer), buffer)
        if isinstance(outcome, NoFuse):
            weighed.append(Through(producer, last, outcome))
        else:
            chain.members.append(outcome)
            taken.append(k)
            rows = "piece by piece" if outcome.row is None else f"row by row, {outcome.slots} at a time"
            weighed.append(Through(producer, last, Fuse(f"{buffer.name} is made {rows}")))
    if not taken:
        decisions += weighed
        return [], None, {}
    width = _too_few_rows(chain) or _strip_width(chain)
    if isinstance(width, NoFuse):
        decisions += [replace(d, outcome=width) for d in weighed]
        return [], None, {}
    decisions += weighed
    if tables is not None:
        _tabulate(chain, buffers, tables)
    return (taken, *_Building(chain, width).build())


def _tabulate(chain: Chain, buffers: Mapping[str, Buffer], decisions: list[TableDecision]) -> None:
    """Puts functions of one byte into tables, in all kernels of a chain."""
    for m in chain.members:
        m.kernel, made = tabulate(m.kernel, buffers)
        decisions += [replace(d, kernel=chain.last.name) for d in made]
    chain.last, made = tabulate(chain.last, buffers)
    decisions += made


def _made(producer: Kernel, last: Kernel, chain: Chain, buffers: Mapping[str, Buffer]) -> Buffer | None:
    """The one workspace buffer that a producer makes for kernels of the chain."""
    read = {b for k in (last, *(m.kernel for m in chain.members)) for b in effects_of(k).loaded}
    made = sorted(effects_of(producer).stored & read)
    if not made:
        return None
    name = made[0]
    return buffers[name] if buffers[name].kind == "workspace" else None


def _movable(steps: Steps, producer: int, position: int, taken: Sequence[int], buffer: str) -> NoFuse | None:
    """Why a producer cannot be computed where its readers are."""
    kernel = steps[producer]
    assert isinstance(kernel, Kernel)
    if not is_pointwise(kernel) or kernel.local or not kernel.outer:
        return NoFuse(f"{buffer} is not made element by element")
    body = kernel.stages[0].body
    facts = facts_of(body)
    if facts.stored != {buffer} or buffer in facts.loaded or any(a.mode == "add" for a in facts.accesses):
        return NoFuse(f"{buffer} is not all that is made")
    if facts.raises:
        return NoFuse("a check is made once for each element")
    chain = {*taken, position}
    for number, step in enumerate(steps):
        effects = effects_of(step)
        if number not in chain and number != producer and buffer in effects.touched:
            return NoFuse(f"{buffer} is read by other kernels, or made by several")
        overwrites = producer < number <= position and number not in taken and effects.stored & facts.loaded
        if overwrites:
            return NoFuse(f"what {buffer} is made from is overwritten before it is read")
    return None


# ---- one producer -----------------------------------------------------------------------------------------------


def _member(chain: Chain, producer: Kernel, buffer: Buffer) -> Member | NoFuse:
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
    for reader, reader_roles, scale in _readers(chain):
        loads = loads_of(reader.stages[0].body, buffer.name, points_of(reader.outer))
        if not loads:
            continue
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


def _readers(chain: Chain) -> Iterator[tuple[Kernel, dict[Symbol, str], dict[str, Extent]]]:
    """The kernels of the chain, what their loops are, and what a point of the last one needs of them."""
    for m in chain.members:
        needed = {"strip": m.strip} if m.row is None else {"strip": m.strip, "row": m.row}
        yield m.kernel, {a.loop.variable: a.role for a in m.axes}, needed
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


def _too_few_rows(chain: Chain) -> NoFuse | None:
    """Why the rows of a reader cannot be shared out among threads, each of which begins with those of a window."""
    rows = chain.loop("row")
    window = max((m.row.high - m.row.low for m in chain.members if m.row is not None), default=0)
    if rows is None or not isinstance(rows.extent, int) or window <= SMALL_WINDOW:
        return None
    if rows.extent < ENOUGH_SHARES * HALO_SHARE * window:
        return NoFuse(f"a window of {window + 1} rows is tall beside {rows.extent} rows")
    return None


def _strip_width(chain: Chain) -> Size | NoFuse:
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


# ---- the kernel -------------------------------------------------------------------------------------------------


class _Renaming(Redirecting):
    """A recording in which tables, too, have other names."""

    def __init__(self, parent: Recording | None = None, place: Redirection = unmoved, tables: Mapping[str, str] = {}):
        super().__init__(parent, place)
        self.tables: Mapping[str, str] = parent.tables if isinstance(parent, _Renaming) else tables

    def lookup(self, table: str, value: int, dtype: DType) -> int:
        return super().lookup(self.tables.get(table, table), value, dtype)


@dataclass(slots=True)
class _Building:
    """The fused kernel in the making."""

    chain: Chain
    width: Size
    strip: Symbol | None = None
    places: dict[tuple[str, Size], Size] = field(default_factory=dict)
    local: dict[str, Buffer] = field(default_factory=dict)

    def build(self) -> tuple[Kernel, dict[str, Buffer]]:
        chain, last = self.chain, self.chain.last
        strip_loop, row_loop = chain.loop("strip"), chain.loop("row")
        assert strip_loop is not None
        batch = tuple(x for x in last.outer if chain.roles[x.variable] == "batch")
        outer = batch
        if self.width != strip_loop.extent:
            strips = (strip_loop.extent + self.width - 1) // self.width
            self.strip = Symbol(f"strip_{strip_loop.variable.name}", 0, strips - 1)
            outer = (*outer, Loop(self.strip, strips))
        if row_loop is not None:
            outer = (*outer, row_loop)
        for m in chain.members:
            self.place(m)
        names, tables = self.tables()
        producers = [(m, self.stages_of(m, names[id(m.kernel)])) for m in reversed(chain.members)]
        own = self.stages(last, {}, last.outer, *self.range_of_last(), names[id(last)])
        rings: tuple[Ring, ...] = ()
        if row_loop is not None:
            rings = tuple(self.ring(m, stages) for m, stages in producers)
        else:
            own = (*(s for _, stages in producers for s in stages), *own)
        kernels = (*(m.kernel for m, _ in producers), last)
        origins = tuple(o for k in kernels for o in k.origins)
        kernel = Kernel(last.name, outer, own, (), False, origins, tables, tuple(self.local), rings)
        return kernel, self.local

    # -- places --

    def start(self) -> Size:
        return 0 if self.strip is None else self.strip * self.width

    def range_of_last(self) -> tuple[Size, Size]:
        loop = self.chain.loop("strip")
        assert loop is not None
        if self.strip is None:
            return 0, loop.extent
        return self.start(), smin(loop.extent, self.start() + self.width)

    def range_of(self, m: Member) -> tuple[Size, Size]:
        """The elements of its strip axis that a strip needs of a buffer."""
        n, reach = m.axis("strip").loop.extent, m.strip
        start, end = self.range_of_last()
        first = smax(0, smin(n - 1, start * reach.step + reach.low))
        return first, smin(n, smax(1, (end - 1) * reach.step + reach.high + 1))

    def place(self, m: Member) -> None:
        """Where the elements of a buffer lie in the local one."""
        assert isinstance(self.width, int)
        span = m.strip.step * (self.width - 1) + m.strip.high - m.strip.low + 1
        shape = (m.slots, span, m.inner)
        layout = Layout(shape, (span * m.inner, m.inner, 1))
        self.local[m.buffer.name] = Buffer(m.buffer.name, m.buffer.dtype, layout, "local")
        first, _ = self.range_of(m)
        own = tuple(a.loop.variable for a in m.axes)
        whole: Size = 0
        for axis in m.axes:
            whole = whole + axis.loop.variable * axis.stride
        for index, parts in ((whole, own), *m.indices.items()):
            at: Size = 0
            for axis, part in zip(m.axes, parts, strict=True):
                if axis.role == "row":
                    at = at + mod(part, m.slots) * (span * m.inner)
                elif axis.role == "strip":
                    at = at + (part - first) * m.inner
                elif axis.role == "inner":
                    at = at + part * axis.stride
            self.places[m.buffer.name, index] = at

    # -- stages --

    def tables(self) -> tuple[dict[int, dict[str, str]], tuple[Table, ...]]:
        """New names for the tables of each kernel, and all tables; equal ones are one."""
        names: dict[int, dict[str, str]] = {}
        known: dict[Table, str] = {}
        for kernel in (*(m.kernel for m in reversed(self.chain.members)), self.chain.last):
            own = names[id(kernel)] = {}
            for table in kernel.tables:
                own[table.name] = known.setdefault(replace(table, name=""), f"table{len(known)}")
        return names, tuple(replace(t, name=name) for t, name in known.items())

    def stages_of(self, m: Member, tables: Mapping[str, str]) -> tuple[Stage, ...]:
        """The stages that fill a row, or a piece of one."""
        renamed: dict[Symbol, Size] = {}
        loops: list[Loop] = []
        batch = iter(self.chain.batch)
        for axis in m.axes:
            old = axis.loop.variable
            if axis.role == "batch":
                variable = next(batch)
            else:
                variable = Symbol(f"{old.name}_{m.buffer.name}", old.lo, old.hi)
            renamed[old] = variable
            loops.append(Loop(variable, axis.loop.extent))
        return self.stages(m.kernel, renamed, loops, *self.range_of(m), tables)

    def stages(
        self,
        kernel: Kernel,
        renamed: Mapping[Symbol, Size],
        loops: Sequence[Loop],
        start: Size,
        end: Size,
        tables: Mapping[str, str],
    ) -> tuple[Stage, ...]:
        body = self.redirected(kernel.stages[0].body, tables)
        if renamed:
            recording = Recording()
            replay(body, recording, symbols=renamed)
            body = recording.body()
        split = len(self.chain.batch) + (self.chain.loop("row") is not None)
        borders = borders_of(body, loops, split)
        return stages_over(body, loops[split], start, end, tuple(loops[split + 1 :]), borders)

    def redirection(self, buffer: str, index: Size, mode: str) -> tuple[str, Size]:
        return buffer, self.places.get((buffer, index), index)

    def redirected(self, body: Body, tables: Mapping[str, str]) -> Body:
        recording = _Renaming(None, self.redirection, tables)
        replay(body, recording)
        return recording.body()

    def ring(self, m: Member, stages: tuple[Stage, ...]) -> Ring:
        assert m.row is not None
        loop = m.axis("row").loop
        old = loop.variable
        row = Symbol(f"{old.name}_{m.buffer.name}", old.lo, old.hi)
        return Ring(m.buffer.name, row, loop.extent, m.row.step, m.row.high, m.row.low, stages)
