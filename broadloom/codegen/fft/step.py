"""The kernel of one transform step: rows in groups, groups in chunks, chunks in parallel.

What goes in: an `Extern` with the routine "fft", "rfft" or "irfft", whose operand and result may lie in any strides.
What comes out: kernels of the ABI over chunk numbers, and how to launch them.

What holds: the lanes of a vector are rows that lie along one batch axis, where there are as many, else the elements
of a single row; the last group of an axis overlaps the one before, and stores the same once more. The chunks share
nothing but the operand; each has its own part of the scratch memory. Rows have the same bits whatever is beside them.

| routine | operand -> result                                                                                       |
|---------|---------------------------------------------------------------------------------------------------------|
| fft     | (m) -> (n) complex, cut off or extended with zeros to n                                                 |
| rfft    | (m) real -> (n//2 + 1) complex, the same                                                                |
| irfft   | (m) complex -> (n) real; n//2 + 1 elements are looked at, of the first and the last the real part alone |

Attributes: `n`, `norm` ("none", "root" or "size": divided by nothing, the square root of n, or n), and for fft
`inverse`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from broadloom.codegen.fft.passes import Numbers
from broadloom.codegen.fft.plan import Plan, plan_of
from broadloom.codegen.fft.rows import Mover, Planes, Rows
from broadloom.codegen.fft.transform import Transform
from broadloom.codegen.index import Indexer
from broadloom.codegen.llvm import Function, Param, Val, i32, i64
from broadloom.codegen.module import ModuleBuilder
from broadloom.codegen.outline import vector_bits
from broadloom.codegen.types import memory_type
from broadloom.dtypes import DType
from broadloom.fusion.ir import Extern
from broadloom.records import dataclass
from broadloom.symbolic import Size, Symbol, free_symbols, product, smin

ROUTINES = ("fft", "rfft", "irfft")
CHUNKS = 16  # parts that run in parallel, at most
CHUNK_SCRATCH = 1 << 20  # bytes that the planes of rows side by side may take: they should stay in the cache
STRIDED_SCRATCH = 1 << 23  # the same where a single row would be gathered from far apart
ALL_SCRATCH = 1 << 26
_PAD = 192  # bytes between planes, so that their elements do not meet in the same cache sets


@dataclass(frozen=True, slots=True)
class Axis:
    """A batch axis: its size, and its strides in elements of operand and result."""

    size: Size
    source: Size
    target: Size


@dataclass(frozen=True, slots=True)
class Work:
    """What the kernels of a step do: `lane` is the number of the axis whose rows lie side by side, if any."""

    step: Extern
    dtype: DType  # of the real numbers
    axes: tuple[Axis, ...]
    lane: int | None
    lanes: int
    plan: Plan

    @property
    def n(self) -> int:
        n = dict(self.step.attrs)["n"]
        assert isinstance(n, int)
        return n

    @property
    def form(self) -> object:
        """All that decides the code, which gets the memory as arguments."""
        layouts = tuple(r.layout for r in (*self.step.operands, *self.step.results))
        return self.step.routine, self.step.attrs, layouts, self.dtype, self.axes, self.lane, self.lanes

    @property
    def paired(self) -> bool:
        """Whether real numbers are taken two by two."""
        return self.step.routine != "fft" and self.n % 2 == 0

    @property
    def scale(self) -> float:
        return {"none": 1.0, "root": 1 / math.sqrt(self.n), "size": 1 / self.n}[str(dict(self.step.attrs)["norm"])]

    def plane(self, rows: int) -> int:
        """Bytes of one plane for so many rows side by side."""
        points = max(self.plan.size, self.n // 2 + 1 if self.paired else self.n)
        return -(-points * rows * self.dtype.itemsize // 64) * 64 + _PAD

    def chunk(self, rows: int) -> int:
        return 4 * self.plane(rows)

    def chunks(self, rows: int) -> int:
        """How many chunks there may be at once."""
        groups = self.groups(rows)
        most = max(1, min(CHUNKS, ALL_SCRATCH // self.chunk(rows)))
        return min(most, max(groups, 1)) if isinstance(groups, int) else most

    def groups(self, rows: int) -> Size:
        sizes = [a.size for a in self.axes]
        if rows > 1:
            assert self.lane is not None
            sizes[self.lane] = (sizes[self.lane] + rows - 1) // rows
        return product(sizes)

    @property
    def scratch(self) -> int:
        return max(self.chunk(r) * self.chunks(r) for r in self.widths)

    @property
    def widths(self) -> tuple[int, ...]:
        """The numbers of rows side by side that there are kernels for."""
        if self.lane is None or self.lanes == 1:
            return (1,)
        size = self.axes[self.lane].size
        return (self.lanes,) if isinstance(size, int) else (self.lanes, 1)

    def cost(self, rows: int) -> float:
        """Cost units of one group."""
        points = self.plan.size * (3 if self.plan.chirp else 1)
        return 5 + rows * points * (2 + math.log2(self.plan.size + 1)) * 0.06 * self.dtype.itemsize / (
            1 if rows > 1 else 2
        )


def work_of(step: Extern, module: ModuleBuilder, dtype: DType) -> Work:
    """What is to be done for a step whose operand has `dtype`."""
    real = dtype.real
    n = dict(step.attrs)["n"]
    assert isinstance(n, int)
    lanes = vector_bits(module.features) // real.bits
    axes = _axes(step)
    paired = step.routine != "fft" and n % 2 == 0
    work = Work(step, real, axes, None, lanes, plan_of(n // 2 if paired else n))
    return Work(step, real, axes, _lane_axis(work), lanes, work.plan)


def _axes(step: Extern) -> tuple[Axis, ...]:
    """The batch axes; neighbours that are walked as one are joined."""
    source, target = step.operands[0].layout, step.results[0].layout
    found: list[Axis] = []
    for size, x, y in zip(source.shape[:-1], source.strides[:-1], target.strides[:-1], strict=True):
        if size == 1:
            continue
        if found and found[-1].source == size * x and found[-1].target == size * y:
            found[-1] = Axis(found[-1].size * size, x, y)
        else:
            found.append(Axis(size, x, y))
    return tuple(found)


def _lane_axis(work: Work) -> int | None:
    """The axis of rows side by side: such that vectors are loaded or stored as they lie, or else the last."""
    best: tuple[int, int] | None = None
    for number, axis in enumerate(work.axes):
        if isinstance(axis.size, int) and axis.size < work.lanes:
            continue
        limit = STRIDED_SCRATCH if axis.source == 1 or axis.target == 1 else CHUNK_SCRATCH
        if work.chunk(work.lanes) > limit:
            continue
        rank = 2 * (axis.source == 1) + (axis.target == 1) - 4 * (not isinstance(axis.size, int))
        if best is None or (rank, number) > best:
            best = rank, number
    return None if best is None else best[1]


# ---- kernels --------------------------------------------------------------------------------------------------------


_FIXED = ("source", "target", "scratch", "groups", "share")


class Kernel:
    """A kernel over chunks, for one number of rows side by side. `symbols` are the sizes that it wants handed over
    behind the fixed arguments."""

    def __init__(self, module: ModuleBuilder, work: Work, rows: int, name: str) -> None:
        self.work, self.rows = work, rows
        params = [Param("ptr", "ctx"), Param("ptr", "args"), Param("i64", "begin"), Param("i64", "end")]
        self.b = b = module.function(name, "i32", params, linkage="internal", attributes="nounwind")
        b.hides = True
        element = memory_type(work.dtype)
        self.numbers = Numbers(module, element, work.dtype.numpy, work.lanes)
        _, args, begin, end = b.params
        self.fixed = dict(
            zip(
                _FIXED,
                (b.load("ptr" if k < 3 else "i64", b.gep("i64", args, i64(k)), 8) for k in range(len(_FIXED))),
                strict=True,
            )
        )
        self.symbols = sorted(_symbols(work), key=lambda s: s.name)
        self.indexer = Indexer(b)
        self.indexer.open(None)
        for k, symbol in enumerate(self.symbols, start=len(_FIXED)):
            self.indexer.bind(symbol, b.load("i64", b.gep("i64", args, i64(k)), 8))
        self.sizes = {size: self.indexer.value(size) for size in _sizes(work)}
        b.for_loop(begin, end, self._chunk, flags="nuw nsw", name="chunk")
        b.ret(i32(0))

    @property
    def function(self) -> Function:
        return self.b.ref

    def _size(self, size: Size) -> Val:
        return i64(size) if isinstance(size, int) else self.sizes[size]

    def _chunk(self, number: Val) -> None:
        b, work = self.b, self.work
        scratch = b.gep("i8", self.fixed["scratch"], b.mul(number, i64(work.chunk(self.rows))))
        planes = [b.gep("i8", scratch, i64(k * work.plane(self.rows))) for k in range(4)]
        first = b.mul(number, self.fixed["share"])
        last = b.intrinsic("smin", b.add(first, self.fixed["share"]), self.fixed["groups"])
        b.for_loop(first, last, lambda g: self._group(g, planes), flags="nuw nsw", name="group")

    def _group(self, number: Val, planes: Planes) -> None:
        """Finds the rows of a group, and transforms them."""
        b, work, rest = self.b, self.work, number
        source, target = (self._size(r.layout.offset) for r in (work.step.operands[0], work.step.results[0]))
        for k in reversed(range(len(work.axes))):
            axis = work.axes[k]
            size, wide = self._size(axis.size), k == work.lane and self.rows > 1
            extent = b.udiv(b.add(size, i64(self.rows - 1)), i64(self.rows)) if wide else size
            index = rest
            if k:
                index, rest = b.urem(rest, extent), b.udiv(rest, extent)
            if wide:
                index = b.intrinsic("smin", b.mul(index, i64(self.rows)), b.sub(size, i64(self.rows)))
            source = b.add(source, b.mul(index, self._size(axis.source)))
            target = b.add(target, b.mul(index, self._size(axis.target)))
        _Group(self, planes, source, target).run()


@dataclass(frozen=True, slots=True)
class _Group:
    """The rows of one group, which begin so many elements behind the bases."""

    kernel: Kernel
    planes: Planes
    source: Val
    target: Val

    def run(self) -> None:
        {"fft": self._complex, "rfft": self._real, "irfft": self._hermitian}[self.kernel.work.step.routine]()

    @property
    def _mover(self) -> Mover:
        return Mover(self.kernel.numbers, self.kernel.b, self.kernel.rows)

    @property
    def _transform(self) -> Transform:
        return Transform(self.kernel.numbers, self.kernel.b, self.kernel.rows)

    def _rows(self, which: str, complex_: bool, paired: bool = False) -> Rows:
        """The rows of operand or result in units of numbers; `paired` takes real numbers two by two."""
        k, b = self.kernel, self.kernel.b
        layout = (k.work.step.operands if which == "source" else k.work.step.results)[0].layout
        parts = 2 if complex_ else 1
        step = layout.strides[-1]
        row = 0 if k.work.lane is None else getattr(k.work.axes[k.work.lane], which)
        offset = self.source if which == "source" else self.target
        base = b.gep(k.numbers.type, k.fixed[which], b.mul(offset, i64(parts)), flags="")
        second = step if paired else 1
        return Rows(
            base,
            self._times(step, 2 if complex_ or paired else 1),
            self._times(row, parts),
            self._times(second, 1),
            2 if complex_ or paired else 1,
        )

    def _times(self, size: Size, factor: int) -> Val:
        if isinstance(size, int):
            return i64(size * factor)
        value = self.kernel._size(size)
        return value if factor == 1 else self.kernel.b.mul(value, i64(factor))

    def _given(self, most: int) -> tuple[Size, Val]:
        """How many elements there are, at most `most`."""
        given = _count(self.kernel.work, most)
        return given, self.kernel._size(given)

    def _extend(self, given: Size, count: Val, most: int, planes: Planes) -> None:
        if given != most:
            self._mover.clear(count, i64(most), planes)

    def _complex(self) -> None:
        work, planes = self.kernel.work, self.planes
        x, y = planes[:2], planes[2:]
        given, count = self._given(work.n)
        self._mover.load(self._rows("source", True), count, x)
        self._extend(given, count, work.n, x)
        x, _ = self._transform.run(work.plan, x, y, bool(dict(work.step.attrs)["inverse"]))
        self._mover.store(self._rows("target", True), i64(work.n), x, work.scale)

    def _real(self) -> None:
        work, planes, b = self.kernel.work, self.planes, self.kernel.b
        x, y = planes[:2], planes[2:]
        given, count = self._given(work.n)
        rows = self._rows("source", False, work.paired)
        if work.paired:
            half = b.udiv(count, i64(2))
            self._mover.load(rows, half, x)
            if given != work.n:
                self._extend(-1, half, work.n // 2, x)
                self._when_odd(given, count, lambda: self._mover.load_one(rows, half, x, 1))
        else:
            self._mover.load(rows, count, x)
            self._extend(given, count, work.n, x)
        x, y = self._transform.run(work.plan, x, y, False)
        if work.paired:
            self._transform.separate(work.n, x, y)
            x = y
        else:
            self._mover.clear_second(x)
        self._mover.store(self._rows("target", True), i64(work.n // 2 + 1), x, work.scale)

    def _when_odd(self, given: Size, count: Val, then: Callable[[], None]) -> None:
        b = self.kernel.b
        if not isinstance(given, int):
            b.if_then(b.icmp("ne", b.and_(count, i64(1)), i64(0)), then)
        elif given % 2:
            then()

    def _hermitian(self) -> None:
        work, planes = self.kernel.work, self.planes
        x, y = planes[:2], planes[2:]
        most = work.n // 2 + 1
        given, count = self._given(most)
        self._mover.load(self._rows("source", True), count, x)
        self._extend(given, count, most, x)
        if work.paired:
            self._transform.combine(work.n, x, y)
            x, y = y, x
        else:
            self._transform.mirror(work.n, x)
        x, _ = self._transform.run(work.plan, x, y, True)
        count = i64(work.n // 2 if work.paired else work.n)
        self._mover.store(self._rows("target", False, work.paired), count, x, work.scale)


def _count(work: Work, most: int) -> Size:
    return smin(work.step.operands[0].layout.shape[-1], most)


def _sizes(work: Work) -> list[Size]:
    """All sizes that the kernel works with."""
    step = work.step
    found: list[Size] = [r.layout.offset for r in (step.operands[0], step.results[0])]
    found += [r.layout.strides[-1] for r in (step.operands[0], step.results[0])]
    found += [size for a in work.axes for size in (a.size, a.source, a.target)]
    return [*found, _count(work, work.n), _count(work, work.n // 2 + 1)]


def _symbols(work: Work) -> set[Symbol]:
    return {s for size in _sizes(work) if not isinstance(size, int) for s in free_symbols(size)}


def arguments(work: Work) -> int:
    """How many arguments the kernels of a step take."""
    return len(_FIXED) + len(_symbols(work))
