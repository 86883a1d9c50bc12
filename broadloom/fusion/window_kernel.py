"""The one kernel of a chain of stencils.

What goes in: a `Chain`, and how many values of its strip loop are run together. What comes out: a kernel with a `Ring`
for each producer - a few rows of its buffer, as many as are read at once - or, where the window lies along the
innermost axis, with stages that make a piece of a row with its neighbourhood first; and the local buffers that take the
place of the producers' own.

What holds: a producer's element is computed by the same body as before, and is in its local buffer while something
that is computed still reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from broadloom.dtypes import DType
from broadloom.fusion.handlers import Recording, Redirecting, Redirection, replay, unmoved
from broadloom.fusion.ir import Body, Buffer, Kernel, Layout, Loop, Ring, Stage, Table
from broadloom.fusion.peel import borders_of, stages_over
from broadloom.fusion.window_chains import Chain, Member
from broadloom.records import dataclass
from broadloom.symbolic import Size, Symbol, mod, smax, smin


def chain_kernel(chain: Chain, width: Size) -> tuple[Kernel, dict[str, Buffer]]:
    """The kernel, under the name of the chain's last one, and its local buffers."""
    return _Building(chain, width).build()


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
