"""Calls of LAPACK's decompositions, which need a workspace whose size LAPACK itself is asked for.

What goes in: the emitter of library calls, and an `Extern` whose routine stands in `FACTORISATIONS`. What comes out:
code that asks for the size once, allocates, calls the routine once per matrix of the batch, and frees.

| routine | results                                  | attributes                                              |
|---------|------------------------------------------|---------------------------------------------------------|
| geqrf   | a, tau                                   |                                                         |
| orgqr   | a, tau: the columns of q in place of a   | (ungqr for complex numbers)                             |
| gesdd   | a, s, and u, vt unless job is "N"        | job "A" "S" "N"                                         |
| evd     | a, w: eigenvectors in place of a         | vectors, uplo "L" "U" (syevd, heevd)                    |
| geev    | a, w (real: wr, wi), vr if vectors       | vectors                                                 |

What holds: matrices are column-major, vectors (batch axes, n) dense; what LAPACK computes in `a` beyond the results is
lost; a nonzero `info` is a failure, as is infinity or nan in an operand of geev.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from broadloom.codegen import abi
from broadloom.codegen.llvm import FunctionBuilder, Val, const_float, i32, i64
from broadloom.codegen.types import memory_type
from broadloom.dtypes import DType, int32
from broadloom.errors import VerifyError
from broadloom.fusion.ir import Layout
from broadloom.records import dataclass
from broadloom.symbolic import Size, smax, smin

Attributes = Mapping[str, Any]
Layouts = Mapping[str, Layout]
Vals = Mapping[str, Val]
ALIGNMENT = 64


class Emitter(Protocol):
    """What this file asks of `extern.ExternEmitter`."""

    b: FunctionBuilder
    ctx: Val
    too_large: Any

    @property
    def indexer(self) -> Any: ...
    def integer(self, name: str, size: Size) -> Val: ...
    def letter(self, name: str, letter: str) -> Val: ...
    def slot(self, type_: str, name: str) -> Val: ...
    def library(self, name: str, *args: Val) -> None: ...


@dataclass(frozen=True, slots=True)
class Call:
    """One call: attributes, the matrices' dtype, layouts and addresses by role, the workspace and its lengths."""

    e: Emitter
    attrs: Attributes
    dtype: DType
    layouts: Layouts
    at: Vals
    work: Vals
    info: Val

    def rows(self, role: str = "a") -> Val:
        return self.e.integer(f"{role}.rows", self.layouts[role].shape[-2])

    def columns(self, role: str = "a") -> Val:
        return self.e.integer(f"{role}.columns", self.layouts[role].shape[-1])

    def matrix(self, role: str = "a") -> tuple[Val, Val]:
        """Address and leading dimension."""
        layout = self.layouts[role]
        if layout.strides[-2] != 1:
            raise VerifyError("matrix operand must be column-major", got=f"{role}: {layout}")
        return self.at[role], self.e.integer(f"{role}.leading", smax(layout.strides[-1], layout.shape[-2], 1))

    def no_matrix(self) -> tuple[Val, Val]:
        return self.at["a"], self.e.integer("one", 1)

    def asked(self, *names: str) -> tuple[Val, ...]:
        """Pieces of the workspace, each followed by its length."""
        return tuple(v for name in names for v in (self.work[name], self.work[f"l{name}"]))


@dataclass(frozen=True, slots=True)
class Factorisation:
    """`roles(attrs, complex)` names operands and results; `asked` the pieces of the workspace whose size LAPACK tells,
    `given(attrs, dtype, layouts)` the sizes of the others; `arguments` are those of `name(complex)`, without info."""

    name: Callable[[bool], str]
    roles: Callable[[Attributes, bool], tuple[str, ...]]
    arguments: Callable[[Call], tuple[Val, ...]]
    asked: Callable[[bool], tuple[str, ...]] = lambda is_complex: ("work",)
    given: Callable[[Attributes, bool, Layouts], dict[str, Size]] = lambda attrs, is_complex, layouts: {}
    finite: bool = False  # infinity and nan are refused


def element(piece: str, dtype: DType) -> tuple[str, int]:
    """The LLVM type of an element of a piece of the workspace, and how many of them one is."""
    if piece == "iwork":
        return memory_type(int32), 1
    return memory_type(dtype.real), 2 if piece == "work" and dtype.kind == "c" else 1


# ---- workspaces -----------------------------------------------------------------------------------------------------


def ask(e: Emitter, f: Factorisation, attrs: Attributes, dtype: DType, layouts: Layouts) -> dict[str, Val]:
    """The number of elements, i64, of every piece of the workspace."""
    b, is_complex = e.b, dtype.kind == "c"
    given = f.given(attrs, is_complex, layouts)
    names = (*f.asked(is_complex), *given)
    work = {name: e.slot(f"[2 x {element(name, dtype)[0]}]", f"ask {name}") for name in names}
    for name in f.asked(is_complex):
        work[f"l{name}"] = e.integer(f"l{name}", 0)
        b.store(i32(-1), work[f"l{name}"])
    unused = e.slot("[2 x double]", "unused")
    run(e, f, attrs, dtype, layouts, dict.fromkeys(f.roles(attrs, is_complex), unused), work)
    sizes = {name: e.indexer.value(smax(size, 1)) for name, size in given.items()}
    for name in f.asked(is_complex):
        kind, _ = element(name, dtype)
        told = b.load(kind, work[name])
        told = b.sext(told, "i64") if kind == "i32" else b.fptosi(told, "i64")
        sizes[name] = b.intrinsic("smax", told, i64(1))
        b.store(b.trunc(sizes[name], "i32"), work[f"l{name}"])
    return sizes


def allocate(e: Emitter, f: Factorisation, dtype: DType, sizes: Vals) -> tuple[dict[str, Val], Val, Val]:
    """The pieces of the workspace with pointers to their lengths, the block that they lie in, and its size."""
    b = e.b
    offsets: dict[str, Val] = {}
    total = i64(0)
    for name, size in sizes.items():
        kind, count = element(name, dtype)
        offsets[name] = total
        bytes_ = b.mul(size, i64(count * (8 if kind == "double" else 4)))
        total = b.add(total, b.and_(b.add(bytes_, i64(ALIGNMENT - 1)), i64(-ALIGNMENT)))
    block = b.call_pointer(b.load("ptr", abi.field(b, e.ctx, abi.CTX_ALLOC)), "ptr", e.ctx, total)
    b.store(total, abi.field(b, e.ctx, abi.ERROR_PAYLOAD))
    ready = b.block("ready")
    b.cond_br(b.icmp("eq", block, Val("ptr", "null")), e.too_large, ready)
    b.at(ready)
    work = {name: b.gep("i8", block, offset) for name, offset in offsets.items()}
    for name in f.asked(dtype.kind == "c"):
        work[f"l{name}"] = e.slot("i32", f"l{name}")
    return work, block, total


def release(e: Emitter, block: Val, size: Val) -> None:
    b = e.b
    b.call_pointer(b.load("ptr", abi.field(b, e.ctx, abi.CTX_FREE)), "void", e.ctx, block, size)


# ---- calls ----------------------------------------------------------------------------------------------------------


def run(e: Emitter, f: Factorisation, attrs: Attributes, dtype: DType, layouts: Layouts, at: Vals, work: Vals) -> Val:
    """Emits one call, and returns the pointer to its `info`."""
    letter = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}[dtype.name]
    call = Call(e, attrs, dtype, layouts, at, work, e.integer("info", 0))
    arguments = (*f.arguments(call), call.info)
    e.library(f"bl_{letter}{f.name(dtype.kind == 'c')}", *arguments)
    return call.info


def all_finite(e: Emitter, layout: Layout, at: Val, dtype: DType) -> Val:
    """i1: whether the elements of a dense matrix are finite."""
    b, kind = e.b, memory_type(dtype)
    count = e.indexer.value(layout.shape[-2] * layout.shape[-1] * (2 if dtype.kind == "c" else 1))

    def add(k: Val, total: Val) -> tuple[Val, ...]:
        x = b.load(kind, b.gep(kind, at, k))
        return (b.fadd(total, b.fsub(x, x)),)  # 0, or nan from the first bad one on

    zero = const_float(kind, 0.0)
    (total,) = b.for_loop(i64(0), count, add, (zero,), name="finite", flags="nuw nsw")
    return b.fcmp("oeq", total, zero)


def _geqrf(c: Call) -> tuple[Val, ...]:
    return (c.rows(), c.columns(), *c.matrix(), c.at["tau"], *c.asked("work"))


def _orgqr(c: Call) -> tuple[Val, ...]:
    reflectors = c.e.integer("reflectors", c.layouts["tau"].shape[-1])
    return (c.rows(), c.columns(), reflectors, *c.matrix(), c.at["tau"], *c.asked("work"))


def _gesdd(c: Call) -> tuple[Val, ...]:
    job = str(c.attrs["job"])
    vectors = (*c.matrix("u"), *c.matrix("vt")) if job != "N" else c.no_matrix() * 2
    real = (c.work["rwork"],) if c.dtype.kind == "c" else ()
    start = (c.e.letter("job", job), c.rows(), c.columns(), *c.matrix(), c.at["s"])
    return (*start, *vectors, *c.asked("work"), *real, c.work["iwork"])


def _gesdd_sizes(attrs: Attributes, is_complex: bool, layouts: Layouts) -> dict[str, Size]:
    rows, columns = layouts["a"].shape[-2:]
    least, most = smin(rows, columns), smax(rows, columns)
    sizes: dict[str, Size] = {"iwork": 8 * least}
    if is_complex:  # what every version of LAPACK is content with
        sizes["rwork"] = 7 * least
        if attrs["job"] != "N":
            sizes["rwork"] = smax(5 * least * least + 7 * least, 2 * most * least + 2 * least * least + least)
    return sizes


def _evd(c: Call) -> tuple[Val, ...]:
    pieces = ("work", "rwork", "iwork") if c.dtype.kind == "c" else ("work", "iwork")
    letters = (_vectors(c, "vectors"), c.e.letter("uplo", str(c.attrs["uplo"])))
    return (*letters, c.columns(), *c.matrix(), c.at["w"], *c.asked(*pieces))


def _geev(c: Call) -> tuple[Val, ...]:
    vectors = c.matrix("vr") if c.attrs["vectors"] else c.no_matrix()
    values = (c.at["w"],) if c.dtype.kind == "c" else (c.at["wr"], c.at["wi"])
    start = (c.e.letter("left", "N"), _vectors(c, "right"), c.columns(), *c.matrix(), *values)
    real = (c.work["rwork"],) if c.dtype.kind == "c" else ()
    return (*start, *c.no_matrix(), *vectors, *c.asked("work"), *real)


def _vectors(c: Call, name: str) -> Val:
    return c.e.letter(name, "V" if c.attrs["vectors"] else "N")


def _geev_roles(attrs: Attributes, is_complex: bool) -> tuple[str, ...]:
    return ("a", *(("w",) if is_complex else ("wr", "wi")), *(("vr",) if attrs["vectors"] else ()))


FACTORISATIONS: dict[str, Factorisation] = {
    "geqrf": Factorisation(lambda c: "geqrf", lambda attrs, c: ("a", "tau"), _geqrf),
    "orgqr": Factorisation(lambda c: "ungqr" if c else "orgqr", lambda attrs, c: ("a", "tau"), _orgqr),
    "gesdd": Factorisation(
        lambda c: "gesdd",
        lambda attrs, c: ("a", "s", *(() if attrs["job"] == "N" else ("u", "vt"))),
        _gesdd,
        given=_gesdd_sizes,
    ),
    "evd": Factorisation(
        lambda c: "heevd" if c else "syevd",
        lambda attrs, c: ("a", "w"),
        _evd,
        asked=lambda c: ("work", "rwork", "iwork") if c else ("work", "iwork"),
    ),
    "geev": Factorisation(
        lambda c: "geev",
        _geev_roles,
        _geev,
        given=lambda attrs, c, layouts: {"rwork": 2 * layouts["a"].shape[-1]} if c else {},
        finite=True,
    ),
}
