"""A product as the template sees it: its sizes, its operands, what becomes of its sums.

What goes in: an `Extern` of the routine "matmul". What comes out: a `Problem`, in which the columns of the result lie
side by side: where its rows do, the transpose is computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from broadloom.codegen.forms import form_of
from broadloom.codegen.matmul.tile import SUM_BLOCK
from broadloom.dtypes import BY_NAME, DType
from broadloom.errors import VerifyError
from broadloom.fusion.handlers import bodies_of, effects_of, index_of, instructions_of
from broadloom.fusion.ir import Buffer, Extern, Indirect, Kernel, Layout, Region
from broadloom.fusion.memory_plan import unstored
from broadloom.fusion.products import FEW_ROWS, ROWS_READ_APART, SUMS_PER_UNIT, TASK_COLUMNS, is_turned
from broadloom.records import dataclass
from broadloom.symbolic import Expr, Size, Symbol, free_symbols, product


@dataclass(frozen=True, slots=True)
class Problem:
    """a (batch, m, k) times b (batch, k, n) is c (batch, m, n). `plain`: the sums are stored as they are."""

    left: Region
    right: Region
    result: Region
    a_dtype: DType
    b_dtype: DType
    c_dtype: DType
    total: DType
    epilogue: Kernel | None
    prologues: Mapping[str, Kernel]  # by the buffer that stands for the operand
    kept: bool  # whether the product itself is stored, where there is an epilogue
    turned: bool  # whether the last two axes of the step are exchanged here
    site: int
    buffers: tuple[str, ...]
    words: tuple[Size, ...]
    table: Mapping[str, Buffer]

    @property
    def a(self) -> Layout:
        return self.left.layout

    @property
    def b(self) -> Layout:
        return self.right.layout

    @property
    def c(self) -> Layout:
        return self.result.layout

    @property
    def m(self) -> Size:
        return self.c.shape[-2]

    @property
    def n(self) -> Size:
        return self.c.shape[-1]

    @property
    def k(self) -> Size:
        return self.a.shape[-1]

    @property
    def count(self) -> Size:
        return product(self.c.shape[:-2])

    @property
    def thin(self) -> str:
        """For products of one row: "across" if columns of b lie side by side, "along" if the elements of each do."""
        if self.m != 1 or self.n == 1 or self.right.buffer in self.prologues:
            return ""
        if self.b.strides[-1] == 1:
            return "across"
        return "along" if self.b.strides[-2] == 1 and (self.a.strides[-1] == 1 or self.k == 1) else ""

    @property
    def plain(self) -> bool:
        return self.epilogue is None and self.c_dtype is self.total

    def prologue(self, role: str) -> Kernel | None:
        """The code that makes the elements of operand "a" or "b"."""
        return self.prologues.get(self.role(role)[0].buffer)

    def role(self, role: str) -> tuple[Region, DType]:
        """Region and dtype of "a", "b" or "c"."""
        found = {"a": (self.left, self.a_dtype), "b": (self.right, self.b_dtype), "c": (self.result, self.c_dtype)}
        return found[role]

    def cost(self, lanes: int) -> float | None:
        """Cost units of all, if the sizes are known."""
        work = product((self.count, self.m, self.n, self.k))
        return work / (SUMS_PER_UNIT * lanes) if isinstance(work, int) else None

    @property
    def text(self) -> str:
        """All that decides the code, which gets the buffers and the site as arguments."""
        dtypes = f"{self.a_dtype} {self.b_dtype} {self.c_dtype} {self.total}"
        regions = (self.left, self.right, self.result)
        layouts = " ".join(str(x.layout) for x in regions)
        known = [self.table[n] for n in self.buffers]
        memory = " ".join(f"{x.kind}:{x.aligned}:{x.dtype}" for x in known)
        names = tuple(dict.fromkeys((*self.buffers, *(x.buffer for x in regions))))
        places = [names.index(x.buffer) for x in regions]
        around = [self._form(k, names) for k in (self.epilogue, self.prologue("a"), self.prologue("b"))]
        return f"{layouts} {dtypes} {around} {self.kept} {self.turned} {places} {memory}"

    def _form(self, kernel: Kernel | None, names: tuple[str, ...]) -> object:
        if kernel is None:
            return None
        found = [i for body in bodies_of(kernel) for i in instructions_of(body)]
        sites = tuple(dict.fromkeys(i.site for i in found if isinstance(i, Indirect)))
        return sites, form_of(kernel, names, sites, self.table)


def problem_of(step: Extern, buffers: Mapping[str, Buffer]) -> Problem:
    """The product of a step."""
    (left, right), (result,), attrs = step.operands, step.results, dict(step.attrs)
    turned = is_turned(result.layout)
    if turned:
        left, right, result = _turned(right), _turned(left), _turned(result)
    if not (result.layout.strides[-1] == 1):
        raise VerifyError("neither rows nor columns of a product lie side by side", got=step.results[0].layout)
    total = BY_NAME[str(attrs["total"])]
    names = dict.fromkeys((left.buffer, right.buffer, result.buffer))
    sizes: list[Size] = []
    for region in (left, right, result):
        sizes += [*region.layout.shape, *region.layout.strides, region.layout.offset]
    sizes.append(product(result.layout.shape[:-2]))
    for kernel in step.fused:
        used, outside = _needs(kernel)
        names.update(dict.fromkeys(used))
        sizes += outside
    for gone in unstored(step):
        del names[gone]
    if step.fused or buffers[result.buffer].dtype is not total:  # code whose indices are made of the sizes' symbols
        symbols = sorted(frozenset().union(*map(free_symbols, sizes)), key=lambda s: s.sort_key)
        sizes += symbols
    words = tuple(dict.fromkeys(n for n in sizes if isinstance(n, Expr)))
    site = attrs["memory"]
    if not isinstance(site, int):
        raise VerifyError("a product has no site for a lack of memory", got=step.name)
    return Problem(
        left=left,
        right=right,
        result=result,
        a_dtype=buffers[left.buffer].dtype,
        b_dtype=buffers[right.buffer].dtype,
        c_dtype=buffers[result.buffer].dtype,
        total=total,
        epilogue=step.epilogue,
        prologues={name: p for p in step.prologues for name in effects_of(p).stored},
        kept=bool(attrs.get("kept")),
        turned=turned,
        site=site,
        buffers=tuple(names),
        words=words,
        table=buffers,
    )


def row_by_row(p: Problem) -> Problem | None:
    """The same product, of one row for each row of the left matrix, if it may have few rows and they can be multiplied
    so."""
    if p.turned or p.m == 1 or (isinstance(p.m, int) and p.m >= FEW_ROWS):
        return None
    left, right, result = _row_axis(p.left), _row_axis(p.right, shared=p.m), _row_axis(p.result)
    found = replace(p, left=left, right=right, result=result)
    sizes = [product(found.c.shape[:-2]), *p.words]
    found = replace(found, words=tuple(dict.fromkeys(n for n in sizes if isinstance(n, Expr))))
    tiled = found.thin == "across" and isinstance(p.m, int) and p.m >= ROWS_READ_APART and not _is_one_task(p)
    return found if found.thin and not tiled else None


def _is_one_task(p: Problem) -> bool:
    """Whether tiles would be one thread's, where a long sum can be cut into parts for several."""
    return isinstance(p.n, int) and p.n <= TASK_COLUMNS and not (isinstance(p.k, int) and p.k <= SUM_BLOCK)


def _row_axis(region: Region, shared: Size | None = None) -> Region:
    """The rows as a batch axis, of matrices of one row; of a matrix that is `shared`, an axis along which it stays."""
    y = region.layout
    if shared is not None:
        shape, strides = (*y.shape[:-2], shared, *y.shape[-2:]), (*y.strides[:-2], 0, *y.strides[-2:])
    else:
        shape, strides = (*y.shape[:-1], 1, y.shape[-1]), (*y.strides[:-1], 1, y.strides[-1])
    return replace(region, layout=Layout(shape, strides, y.offset))


def _turned(region: Region) -> Region:
    layout = region.layout
    shape = (*layout.shape[:-2], layout.shape[-1], layout.shape[-2])
    strides = (*layout.strides[:-2], layout.strides[-1], layout.strides[-2])
    return replace(region, layout=Layout(shape, strides, layout.offset))


def _needs(kernel: Kernel) -> tuple[list[str], list[Symbol]]:
    """Buffers and size symbols of code before or behind a product."""
    local = {loop.variable for loop in kernel.outer}
    names: dict[str, None] = {}
    symbols: dict[Symbol, None] = {}
    for stage in kernel.stages:
        for instruction in instructions_of(stage.body):
            buffer, index = getattr(instruction, "buffer", None), index_of(instruction)
            if buffer is not None:
                names.setdefault(buffer)
            if index is not None and not isinstance(index, int):
                symbols.update(dict.fromkeys(s for s in free_symbols(index) if s not in local))
    return list(names), sorted(symbols, key=lambda s: s.sort_key)
