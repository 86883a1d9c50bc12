"""The loop IR, as data: what lowering makes, the scheduler groups and code generation prints as LLVM.

Two levels. *Operations* (`ComputedBuffer`, `Extern`) say how each buffer is made, one at a time. *Kernels* are the
scheduler's result: a nest of outer loops, run in parallel, around stages that run in order for each outer point.

What holds: a body is flat SSA in the order it was recorded; an operand is the index of an earlier instruction;
loads and stores address elements of a named buffer by one integer expression over loop variables, size symbols and
indirect symbols. All sizes and strides count elements and may be symbolic. A store is the only effect of a body,
besides checks. Within one kernel no buffer is loaded at an element that another outer point stores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from broadloom.dtypes import DType
from broadloom.errors import Location
from broadloom.graph.ir import Constant
from broadloom.records import dataclass
from broadloom.symbolic import Size, Symbol

# ---- buffers ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Layout:
    """Where element (i0, i1, ...) lies: offset + sum(i * stride), in elements."""

    shape: tuple[Size, ...]
    strides: tuple[Size, ...]
    offset: Size = 0


@dataclass(frozen=True, slots=True)
class Buffer:
    """A piece of memory. `kind`: "input" and "output" belong to the caller, number `position`; "workspace" is
    planned by the memory plan; "constant" is emitted into the module's read-only data; "local", of constant size, is
    what each run of a range of points of the one kernel that names it has to itself."""

    name: str
    dtype: DType
    layout: Layout
    kind: Literal["input", "output", "workspace", "constant", "local"]
    position: int = -1
    constant: Constant | None = None
    aligned: bool = True


# ---- bodies -----------------------------------------------------------------------------------------------------

Operand = int  # index of an earlier instruction of the same body


@dataclass(frozen=True, slots=True)
class Load:
    """One element. Where `dtype` is not the buffer's, the memory is reinterpreted and `index` counts elements of
    `dtype` (a view through another dtype)."""

    buffer: str
    index: Size
    dtype: DType


@dataclass(frozen=True, slots=True)
class Store:
    """mode "add" accumulates into memory (scatter); "set" overwrites."""

    buffer: str
    index: Size
    value: Operand
    mode: Literal["set", "add"] = "set"


@dataclass(frozen=True, slots=True)
class Literalv:
    """A constant scalar, by bit pattern (little-endian bytes of the dtype)."""

    dtype: DType
    data: bytes


@dataclass(frozen=True, slots=True)
class IndexValue:
    """The value of an integer expression over loop variables and sizes, as `dtype` (int64 unless proven)."""

    index: Size
    dtype: DType


@dataclass(frozen=True, slots=True)
class Compute:
    """A pointwise op of the op table on scalars: `add`, `exp`, `where`, `cast`, ... Operand dtypes are already
    what the op's type rule asks for."""

    op: str
    args: tuple[Operand, ...]
    dtype: DType
    attrs: tuple[tuple[str, object], ...] = ()


@dataclass(frozen=True, slots=True)
class Indirect:
    """Binds `symbol` to a run-time index: a negative value gets `size` added once, then 0 <= index < size is
    checked; a failure reports `site` of the program's site table with (index as given, size), and the iteration goes
    on with index 0, or ends here where the axis is empty. Of several failures that with the lowest (site, `key`) is
    reported: `key` is where the index stands in its index array, in the order in which NumPy looks at it, whatever
    the order of the loops. A value that is proven to be in range has the site -1 and is taken as it is."""

    value: Operand
    size: Size
    symbol: Symbol
    site: int
    key: Size = 0


@dataclass(frozen=True, slots=True)
class Reduce:
    """Folds `value` into accumulator `name` of the kernel over this stage's loops. For argmax/argmin the
    accumulator is (value, position), `position` being the linear index operand; the first extremum wins and nan
    counts as one, as in NumPy."""

    name: str
    value: Operand
    position: Operand | None = None


@dataclass(frozen=True, slots=True)
class Running:
    """As `Reduce`, and yields the accumulator's value after this iteration: a cumulative op. Its stage runs its
    loops in order."""

    name: str
    value: Operand
    dtype: DType


@dataclass(frozen=True, slots=True)
class Accumulated:
    """The final value of an accumulator of an earlier stage (for argmax/argmin, the position)."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class Masked:
    """The instructions `body` run only where `mask` holds (so their loads stay in bounds); the result is `value`
    there (an operand of the masked body or of an enclosing one) and `other` elsewhere. Padding and shifted windows
    use it."""

    mask: Operand
    body: Body
    value: Operand
    other: Operand
    dtype: DType


@dataclass(frozen=True, slots=True)
class Lookup:
    """The entry of the kernel's table `table` for `value`, which has the table's key dtype."""

    table: str
    value: Operand
    dtype: DType


Instruction = (
    Load | Store | Literalv | IndexValue | Compute | Indirect | Reduce | Running | Accumulated | Masked | Lookup
)


@dataclass(frozen=True, slots=True)
class Body:
    """Recorded instructions, in order. Within a `Masked` body, operand k counts through the enclosing body first:
    ids below `base` are the enclosing body's, `base` is where this body's own ids begin. `facts` keeps what
    `handlers.facts_of` found out, which follows from the instructions and is no part of equality."""

    instructions: tuple[Instruction, ...]
    base: int = 0
    facts: object = field(default=None, init=False, compare=False, repr=False)


# ---- operations -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Loop:
    """`for variable in range(extent)`; the variable is a symbol with range [0, extent - 1]. The extent of a stage's
    loop may depend on outer variables (the last chunk of a split reduction is shorter: `min(chunk, n - c*chunk)`)."""

    variable: Symbol
    extent: Size


ReductionKind = Literal["sum", "prod", "max", "min", "fmax", "fmin", "any", "all", "xor", "argmax", "argmin"]
# By the kinds whose parts an op puts together, to a fold of the whole: that op.
COMBINED_BY: Mapping[ReductionKind, str] = {
    "sum": "add",
    "prod": "multiply",
    "max": "maximum",
    "min": "minimum",
    "fmax": "fmax",
    "fmin": "fmin",
    "any": "logical_or",
    "all": "logical_and",
    "xor": "bitwise_xor",
}


@dataclass(frozen=True, slots=True)
class Accumulator:
    """`dtype` is both the type of the fold and of its result (int64 position for argmax/argmin, whose compared
    values have `value_dtype`)."""

    name: str
    kind: ReductionKind
    dtype: DType
    value_dtype: DType


@dataclass(frozen=True, slots=True)
class Stage:
    """`for loops: body`. Without loops, the body runs once per outer point. A `border` is what few iterations beside
    those of other stages are left for: its code is to be short, not fast."""

    loops: tuple[Loop, ...]
    body: Body
    sequential: bool = False  # Running inside: iterations in order
    border: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A function of one byte by its values: entry k is for the value of `key` (uint8, int8 or bool) with the bits k.
    The last instruction of `body`, run with `variable` = k, is the entry. All that it loads stays as it is while the
    kernel runs. Every range of points that is run has the table to itself."""

    name: str
    key: DType
    dtype: DType
    variable: Symbol
    body: Body

    @property
    def entries(self) -> int:
        """How many values the key has."""
        return 2 if self.key.kind == "b" else 256


@dataclass(frozen=True, slots=True)
class Ring:
    """A window of rows of a value, which are computed just before they are read; the local buffer holds as many of
    its `extent` rows as are read at once, a row in the place of one that is read no more.

    A run of consecutive values [begin, end) of the last outer loop, whose other loops stand still, has next = clip(step
    * begin + behind, 0, extent - 1). At each value y, for all rings in order, the `stages` fill the rows from next to
    clip(step * y + ahead + 1, 0, extent), one after the other, and next moves there; then the kernel's stages run.
    Enough values before `begin` precede, at which only rings are filled, that a value adds at most `step` rows."""

    buffer: str
    row: Symbol
    extent: Size
    step: int
    ahead: int
    behind: int
    stages: tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class Kernel:
    """For every point of `outer` (any order, in parallel unless `serial`): accumulators start at their identity,
    then the stages run in order, after those of the rings that the point needs. The tables are filled before. `local`
    names the kernel's own buffers: at a point, nothing is read of them but what a ring or an earlier stage put in.
    `facts` keeps what `handlers.effects_of` found out, as that of a body does."""

    name: str
    outer: tuple[Loop, ...]
    stages: tuple[Stage, ...]
    accumulators: tuple[Accumulator, ...] = ()
    serial: bool = False  # scatter with possibly equal indices
    origins: tuple[str, ...] = ()  # op names fused here, for the report
    tables: tuple[Table, ...] = ()
    local: tuple[str, ...] = ()
    rings: tuple[Ring, ...] = ()
    facts: object = field(default=None, init=False, compare=False, repr=False)

    @property
    def lead(self) -> int:
        """How many values before the first one of a run the rings begin."""
        return max((-((r.behind - r.ahead - 1) // r.step) - 1 for r in self.rings), default=0)


@dataclass(frozen=True, slots=True)
class Region:
    """A strided part of a buffer, as a library call sees it: batch axes, then the matrix or vector axes."""

    buffer: str
    layout: Layout


@dataclass(frozen=True, slots=True)
class Extern:
    """A step that is no loop nest. Either it is a library call: BLAS or LAPACK, once per element of the results'
    batch axes; an operand's batch axis of stride 0 is broadcast. "gemm" takes matrices (m, n) and (n, p) and stores
    (m, p), each with one of its last two strides 1; the factorisations work in place on results that hold a copy of
    the operand. Or it is a kernel of our own: "sort" and "argsort" along the last axis and "search" of values in sorted
    rows (`codegen.sorting`); "cumsum", "cumprod", "cummax" and "cummin" along the last axis (`codegen.scans`), whose
    second result is a workspace of zeros; "fft", "rfft" and "irfft" along the last axis, in any strides
    (`codegen.fft.step`); those whose names begin with "lanes_", on many small matrices in any strides
    (`codegen.lanes.step`); and "matmul" (`codegen.matmul.step`), of (m, k) and (k, n) in any strides, summed in the
    dtype `total`. A call with the attribute `lanes` is made by such a kernel where the sizes of the call allow it
    (`codegen.lanes.choice`)."""

    name: str
    routine: str  # "gemm", "getrf", ...: the tables of `codegen.extern` and `codegen.factorisations`
    operands: tuple[Region, ...]
    results: tuple[Region, ...]
    attrs: tuple[tuple[str, object], ...] = ()
    site: int = -1
    reason: str = field(default="", compare=False)  # why this routine, for the report
    epilogue: Kernel | None = None  # of "matmul": pointwise code over the result's axes, which loads the product
    prologues: tuple[Kernel, ...] = ()  # of "matmul": pointwise code that stores an operand, which has no memory then

    @property
    def fused(self) -> tuple[Kernel, ...]:
        """The code before and behind a product that is part of the step."""
        return self.prologues if self.epilogue is None else (*self.prologues, self.epilogue)


NOT_FINITE = -1000  # in the place of LAPACK's `info`: an operand holds infinity or nan


@dataclass(frozen=True, slots=True)
class Site:
    """What a run-time failure is reported with: `code` "index" gives IndexError, "linalg" LinAlgError,
    "value" ValueError, "memory" MemoryError. `op`, `axis` and the user's line complete the message."""

    code: Literal["index", "linalg", "value", "memory"]
    op: str
    axis: int
    location: Location | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Program:
    """What code generation takes: buffers, kernels and library calls in order, and the site table. `inputs` and
    `outputs` of the graph are the buffers of these kinds; a written input is a buffer of kind "input" that a
    kernel stores to."""

    name: str
    symbols: tuple[Symbol, ...]  # size symbols: bound at entry from the inputs' sizes and strides
    bindings: tuple[tuple[Symbol, int, Literal["size", "stride", "value"], int], ...]  # symbol, input, what, axis
    buffers: tuple[Buffer, ...]
    steps: tuple[Kernel | Extern, ...]
    sites: tuple[Site, ...] = ()
