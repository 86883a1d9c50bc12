"""Library calls: BLAS and LAPACK through Fortran-style pointers.

What goes in: an `Extern`, whose regions give the buffer and layout (batch axes, rows, columns; element strides) of
each operand and result. What comes out: code that calls the routine once per matrix of the batch.

| routine | operands -> results | layouts and attributes                                                            |
|---------|---------------------|-----------------------------------------------------------------------------------|
| gemm    | a, b -> c           | any                                                                               |
| getrf   | a -> a, pivots      | a column-major; pivots (batch axes, n), int32, LAPACK's 1-based numbers           |
| getrs   | a, pivots, b -> b   | a, b column-major; trans "N" "T" "C"                                              |
| potrf   | a -> a              | lower; the other triangle is left as it is                                        |
| trsm    | a, b -> b           | b column-major; lower, trans, unit; a zero diagonal gives inf or nan              |

Decompositions, which need a workspace, stand in `codegen.factorisations`.

What holds: one stride of every matrix is the constant 1, and which one decides row- or column-major; sizes are
passed as 32-bit integers, larger ones are refused at run time; a call takes no more threads than the run has, and one
where its work is not worth waking another (`runtime.blas`); a positive `info` (a singular matrix, one that is not
positive definite) is a failure at the step's site, keyed by the matrix's number, unless the step has no site.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from broadloom.codegen import abi, factorisations
from broadloom.codegen.factorisations import FACTORISATIONS, Factorisation
from broadloom.codegen.index import Indexer
from broadloom.codegen.llvm import Block, FunctionBuilder, Val, const_float, i8, i32, i64
from broadloom.codegen.types import memory_type
from broadloom.dtypes import DType
from broadloom.errors import VerifyError
from broadloom.fusion.cost import PARALLEL_COST
from broadloom.fusion.ir import NOT_FINITE, Buffer, Extern, Layout, Region
from broadloom.records import dataclass
from broadloom.symbolic import Size, product, smax, smin

LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
PER_UNIT = 8  # multiplications of one thread in a unit of cost, a nanosecond
_FLIP = {"N": "T", "T": "N"}


@dataclass(slots=True)
class ExternEmitter:
    """Emits library calls into the driver function."""

    b: FunctionBuilder
    indexer: Indexer
    ctx: Val
    too_large: Block  # where sizes beyond 32 bits lead
    _temporaries: dict[tuple[str, str], Val]
    _threads: Val = i64(1)  # that a call may take

    def emit(self, step: Extern, bases: Mapping[str, Val], buffers: Mapping[str, Buffer]) -> None:
        """The calls of one step; `bases` are the buffers' addresses."""
        attrs, dtype = dict(step.attrs), buffers[step.operands[0].buffer].dtype
        factorisation = FACTORISATIONS.get(step.routine)
        if dtype.name not in LETTERS or not (factorisation or step.routine in _ROUTINES):
            raise VerifyError("no such library routine", got=f"{step.routine} of {dtype}")
        roles = factorisation.roles(attrs, dtype.kind == "c") if factorisation else _ROUTINES[step.routine][0]
        given = (*step.operands, *(r for r in step.results if r not in step.operands))
        regions = dict(zip(roles, given, strict=True))
        layouts = {role: region.layout for role, region in regions.items()}
        batch = layouts[roles[0]].shape[:-2]
        self._threads = self._worth(work_of(step.routine, layouts, dtype))

        def addresses(number: Val) -> dict[str, Val]:
            return {r: self._address(bases[x.buffer], x, batch, number, buffers) for r, x in regions.items()}

        if factorisation:
            self._factorise(step, factorisation, attrs, dtype, layouts, addresses, product(batch))
            return
        call = _ROUTINES[step.routine][1]
        self._each(product(batch), step, lambda n: call(self, step, attrs, layouts, addresses(n), dtype, n))

    def _worth(self, work: Size) -> Val:
        """How many threads a call of so many multiplications may take: those of the run, or one."""
        b = self.b
        threads = b.load("i64", abi.field(b, self.ctx, abi.CTX_THREADS))
        least = int(PARALLEL_COST * PER_UNIT)
        if isinstance(work, int):
            return threads if work > least else i64(1)
        return b.select(b.icmp("sgt", self.indexer.value(work), i64(least)), threads, i64(1))

    def _each(self, count: Size, step: Extern, one: Callable[[Val], None]) -> None:
        if count == 1:
            one(i64(0))
        else:
            self.b.for_loop(i64(0), self.indexer.value(count), one, name=step.routine, flags="nuw nsw")

    def _factorise(
        self,
        step: Extern,
        f: Factorisation,
        attrs: Attributes,
        dtype: DType,
        layouts: Layouts,
        addresses: Callable[[Val], dict[str, Val]],
        count: Size,
    ) -> None:
        """The calls of a decomposition, in one workspace."""
        sizes = factorisations.ask(self, f, attrs, dtype, layouts)
        work, block, total = factorisations.allocate(self, f, dtype, sizes)

        def one(number: Val) -> None:
            at = addresses(number)

            def call() -> None:
                info = factorisations.run(self, f, attrs, dtype, layouts, at, work)
                self.report(step, info, number, "ne")

            def refuse() -> None:
                abi.fail(self.b, self.ctx, i32(step.site), number, number, i64(NOT_FINITE))

            if not f.finite:
                return call()
            self.b.if_then(factorisations.all_finite(self, layouts["a"], at["a"], dtype), call, refuse)

        self._each(count, step, one)
        factorisations.release(self, block, total)

    def _address(
        self, base: Val, region: Region, batch: Sequence[Size], number: Val, buffers: Mapping[str, Buffer]
    ) -> Val:
        """The address of matrix or vector `number` of a batched operand."""
        b, layout, dtype = self.b, region.layout, buffers[region.buffer].dtype
        offset, rest = self.indexer.value(layout.offset), number
        for size, stride in zip(reversed(batch), reversed(layout.strides[: len(batch)]), strict=True):
            extent = self.indexer.value(size)
            offset = b.add(offset, b.mul(b.urem(rest, extent), self.indexer.value(stride)))
            rest = b.udiv(rest, extent)
        return b.gep(memory_type(dtype), base, b.mul(offset, i64(2)) if dtype.kind == "c" else offset)

    # -- arguments by pointer --

    def integer(self, name: str, size: Size) -> Val:
        """A pointer to a 32-bit size."""
        b = self.b
        slot = self.slot("i32", name)
        value = self.indexer.value(size)
        if isinstance(size, int) and size < 1 << 31:
            b.store(i32(size), slot)
            return slot
        fits = b.block("fits")
        b.cond_br(b.icmp("slt", value, i64(1 << 31)), fits, self.too_large)
        b.at(fits)
        b.store(b.trunc(value, "i32"), slot)
        return slot

    def letter(self, name: str, letter: str) -> Val:
        slot = self.slot("i8", name)
        self.b.store(i8(ord(letter)), slot)
        return slot

    def number(self, name: str, value: float, dtype: DType) -> Val:
        element = memory_type(dtype)
        slot = self.slot(f"[2 x {element}]", name)
        self.b.store(const_float(element, value), slot)
        self.b.store(const_float(element, 0.0), self.b.gep(element, slot, i64(1)))
        return slot

    def slot(self, type_: str, name: str) -> Val:
        found = self._temporaries.get((type_, name))
        if found is None:
            found = self._temporaries[type_, name] = self.b.alloca(type_)
        return found

    def library(self, name: str, *args: Val) -> None:
        """A call of the library, on threads of ours alone."""
        b = self.b
        b.call(b.module.declare(abi.BLAS_ENTER, "void", ("i64",)), self._threads)
        b.call(b.module.declare(name, "void", ("ptr",) * len(args)), *args)
        b.call(b.module.declare(abi.BLAS_LEAVE, "void", ()))

    def report(self, step: Extern, info: Val, number: Val, failing: str = "sgt") -> None:
        """An `info` that is so (greater than zero) is a failure at the step's site."""
        if step.site < 0:
            return
        b = self.b
        value = b.load("i32", info)

        def failed() -> None:
            abi.fail(b, self.ctx, i32(step.site), number, number, b.sext(value, "i64"))

        b.if_then(b.icmp(failing, value, i32(0)), failed)


def new_emitter(b: FunctionBuilder, indexer: Indexer, ctx: Val, too_large: Block) -> ExternEmitter:
    return ExternEmitter(b, indexer, ctx, too_large, {})


def work_of(routine: str, layouts: Layouts, dtype: DType) -> Size:
    """About how many real multiplications a call makes.

    >>> square = Layout((64, 64), (64, 1))
    >>> from broadloom.dtypes import complex64, float64
    >>> work_of("gemm", {"a": square, "b": square, "c": square}, float64)
    262144
    >>> work_of("getrf", {"a": square}, complex64), work_of("evd", {"a": square}, float64)
    (349524, 2621440)
    """
    rows, columns = layouts["a"].shape[-2:]
    if routine == "gemm":
        work: Size = rows * columns * layouts["b"].shape[-1]
    elif routine in ("getrs", "trsm"):
        work = rows * columns * layouts["b"].shape[-1] // (1 if routine == "getrs" else 2)
    elif routine in ("gesdd", "evd", "geev"):
        work = 10 * rows * columns * smin(rows, columns)
    else:
        work = rows * columns * smin(rows, columns) // 3
    return 4 * work if dtype.kind == "c" else work


def is_column_major(layout: Layout) -> bool:
    """Whether a matrix's rows lie next to each other; raises `VerifyError` when neither stride is 1.

    >>> is_column_major(Layout((4, 3), (1, 4))), is_column_major(Layout((4, 3), (3, 1)))
    (True, False)
    """
    if layout.strides[-1] == 1:
        return False
    if layout.strides[-2] == 1:
        return True
    raise VerifyError("matrix operand has no unit stride", got=layout)


def _leading(layout: Layout) -> Size:
    """The leading dimension; at least what the routine demands, also where only one column is there."""
    column = is_column_major(layout)
    return smax(layout.strides[-1 if column else -2], layout.shape[-2 if column else -1], 1)


def _column_major(role: str, layout: Layout) -> None:
    # Of a single column, both strides may be 1.
    if not (layout.strides[-2] == 1):
        raise VerifyError("matrix operand must be column-major", got=f"{role}: {layout}")


def _leading_of_columns(layout: Layout) -> Size:
    return smax(layout.strides[-1], layout.shape[-2], 1)


Layouts = Mapping[str, Layout]
Addresses = Mapping[str, Val]
Attributes = Mapping[str, Any]


def _gemm(
    e: ExternEmitter, step: Extern, attrs: Attributes, lay: Layouts, at: Addresses, dtype: DType, number: Val
) -> None:
    flipped = not is_column_major(lay["c"])  # a row-major product is computed as its transpose
    first, second = ("b", "a") if flipped else ("a", "b")
    rows, columns = lay["c"].shape[-2:]
    if flipped:
        rows, columns = columns, rows
    depth = lay["a"].shape[-1]

    def transposed(role: str) -> str:
        return "N" if is_column_major(lay[role]) != flipped else "T"

    e.library(
        f"bl_{LETTERS[dtype.name]}gemm",
        e.letter("transa", transposed(first)),
        e.letter("transb", transposed(second)),
        e.integer("m", rows),
        e.integer("n", columns),
        e.integer("k", depth),
        e.number("one", 1.0, dtype),
        at[first],
        e.integer("lda", _leading(lay[first])),
        at[second],
        e.integer("ldb", _leading(lay[second])),
        e.number("zero", 0.0, dtype),
        at["c"],
        e.integer("ldc", _leading(lay["c"])),
    )


def _getrf(
    e: ExternEmitter, step: Extern, attrs: Attributes, lay: Layouts, at: Addresses, dtype: DType, number: Val
) -> None:
    _column_major("a", lay["a"])
    rows, columns = lay["a"].shape[-2:]
    info = e.integer("info", 0)
    e.library(
        f"bl_{LETTERS[dtype.name]}getrf",
        e.integer("m", rows),
        e.integer("n", columns),
        at["a"],
        e.integer("lda", _leading_of_columns(lay["a"])),
        at["pivots"],
        info,
    )
    e.report(step, info, number)


def _getrs(
    e: ExternEmitter, step: Extern, attrs: Attributes, lay: Layouts, at: Addresses, dtype: DType, number: Val
) -> None:
    # Not LAPACK's getrs: OpenBLAS's wakes all threads for the smallest matrix.
    _column_major("a", lay["a"])
    _column_major("b", lay["b"])
    trans = str(attrs.get("trans", "N"))
    if trans == "N":
        _swap_rows(e, lay, at, dtype, backwards=False)
    for lower in (True, False) if trans == "N" else (False, True):
        _solve_triangle(e, lay, at, dtype, lower=lower, trans=trans, unit=lower)
    if trans != "N":
        _swap_rows(e, lay, at, dtype, backwards=True)


def _swap_rows(e: ExternEmitter, lay: Layouts, at: Addresses, dtype: DType, *, backwards: bool) -> None:
    """The exchanges of a factorisation, made on the rows of `b`, or undone."""
    b, element, parts = e.b, memory_type(dtype), 2 if dtype.kind == "c" else 1
    rows, columns = (e.indexer.value(n) for n in (lay["a"].shape[-1], lay["b"].shape[-1]))
    stride = b.mul(e.indexer.value(lay["b"].strides[-1]), i64(parts))

    def column(j: Val) -> None:
        start = b.gep(element, at["b"], b.mul(j, stride))

        def exchange(i: Val) -> None:
            k = b.sub(b.sub(rows, i64(1)), i) if backwards else i
            other = b.sub(b.sext(b.load("i32", b.gep("i32", at["pivots"], k)), "i64"), i64(1))
            for part in range(parts):
                one, two = (b.gep(element, start, b.add(b.mul(r, i64(parts)), i64(part))) for r in (k, other))
                x, y = b.load(element, one), b.load(element, two)
                b.store(y, one)
                b.store(x, two)

        b.for_loop(i64(0), rows, exchange, name="row")

    b.for_loop(i64(0), columns, column, name="column")


def _potrf(
    e: ExternEmitter, step: Extern, attrs: Attributes, lay: Layouts, at: Addresses, dtype: DType, number: Val
) -> None:
    # Row-major memory is the transpose (of a Hermitian matrix: the conjugate), whose other triangle is factored.
    lower = bool(attrs.get("lower", True)) == is_column_major(lay["a"])
    info = e.integer("info", 0)
    e.library(
        f"bl_{LETTERS[dtype.name]}potrf",
        e.letter("uplo", "L" if lower else "U"),
        e.integer("n", lay["a"].shape[-1]),
        at["a"],
        e.integer("lda", _leading(lay["a"])),
        info,
    )
    e.report(step, info, number)


def _trsm(
    e: ExternEmitter, step: Extern, attrs: Attributes, lay: Layouts, at: Addresses, dtype: DType, number: Val
) -> None:
    # Not LAPACK's trtrs: that refuses a zero diagonal, and OpenBLAS's wakes all threads for the smallest matrix.
    _column_major("b", lay["b"])
    lower, trans = bool(attrs.get("lower", True)), str(attrs.get("trans", "N"))
    if not is_column_major(lay["a"]):
        if trans == "C":
            raise VerifyError("a conjugate transpose needs a column-major matrix", got=lay["a"])
        lower, trans = not lower, _FLIP[trans]
    _solve_triangle(e, lay, at, dtype, lower=lower, trans=trans, unit=bool(attrs.get("unit")))


def _solve_triangle(
    e: ExternEmitter, lay: Layouts, at: Addresses, dtype: DType, *, lower: bool, trans: str, unit: bool
) -> None:
    """`b` becomes the solution for one triangle of `a`, as it lies in column-major memory."""
    e.library(
        f"bl_{LETTERS[dtype.name]}trsm",
        e.letter("side", "L"),
        e.letter("uplo", "L" if lower else "U"),
        e.letter("trans", trans),
        e.letter("diag", "U" if unit else "N"),
        e.integer("n", lay["a"].shape[-1]),
        e.integer("nrhs", lay["b"].shape[-1]),
        e.number("one", 1.0, dtype),
        at["a"],
        e.integer("lda", _leading(lay["a"])),
        at["b"],
        e.integer("ldb", _leading_of_columns(lay["b"])),
    )


_ROUTINES: dict[str, tuple[tuple[str, ...], Callable[..., None]]] = {
    "gemm": (("a", "b", "c"), _gemm),
    "getrf": (("a", "pivots"), _getrf),
    "getrs": (("a", "pivots", "b"), _getrs),
    "potrf": (("a",), _potrf),
    "trsm": (("a", "b"), _trsm),
}
ROUTINES = frozenset((*_ROUTINES, *FACTORISATIONS))
