"""The kernel of one step on small matrices, of which each vector holds as many as it has lanes.

What goes in: an `Extern` with a routine of `ROUTINES`, whose operands and results may lie in any strides. What comes
out: a kernel of the ABI over blocks of matrices, and how to launch it.

| routine        | operands -> results        | what                                                       | wide |
|----------------|----------------------------|------------------------------------------------------------|------|
| lanes_solve    | a, b -> x                  | a @ x == b; a singular matrix is a failure                 | yes  |
| lanes_inv      | a -> x                     | the inverse; a singular matrix is a failure                | yes  |
| lanes_det      | a -> d                     | the determinant                                            | yes  |
| lanes_slogdet  | a -> sign, log             | its sign and the logarithm of its magnitude                | yes  |
| lanes_cholesky | a -> l                     | zeros above the diagonal; not positive definite: a failure | yes  |
| lanes_eigvalsh | a -> w                     | attribute uplo; rotations that do not end are a failure    | yes  |
| lanes_eigh     | a -> w, v                  | with the vectors                                           | yes  |
| lanes_lu       | a -> lu, pivots            | LAPACK's getrf; with a site, a singular matrix fails       |      |
| lanes_lu_solve | lu, pivots, b -> x         | LAPACK's getrs                                             |      |
| lanes_trsm     | a, b -> x                  | attributes lower, transpose, unit                          |      |
| lanes_matmul   | x, y -> z                  | the product                                                |      |

"Wide" routines compute in double precision whatever the operands' precision.

What holds: no side of a matrix is longer than `LIMIT` (the caller sees to it); the lanes of the last block beyond the
last matrix repeat that; a result may lie where the operand of its shape lies; a matrix has the same bits whatever is
beside it; a failure has the number of its matrix for a key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

from broadloom.codegen import abi
from broadloom.codegen.lane import Lane
from broadloom.codegen.lanes.algorithms import Algorithms
from broadloom.codegen.lanes.grid import Engine, Grid, Held, Looped, Place, Stored, Unrolled
from broadloom.codegen.lanes.jacobi import Jacobi
from broadloom.codegen.lanes.moving import Matrices, Mover
from broadloom.codegen.lanes.numbers import Field, Number
from broadloom.codegen.llvm import NULL, Function, FunctionBuilder, Param, Val, const_int, i32, i64
from broadloom.codegen.module import ModuleBuilder
from broadloom.codegen.outline import vector_bits
from broadloom.codegen.sorting import Launch
from broadloom.codegen.types import memory_type
from broadloom.codegen.vmath import body as math
from broadloom.errors import VerifyError
from broadloom.fusion.ir import Buffer, Extern, Layout, Region
from broadloom.passes.small_matrices import LIMIT
from broadloom.records import dataclass
from broadloom.symbolic import Expr, Size, product

ON_STACK = 1 << 14  # bytes of grids that lie on the stack
UNROLLED = 4

CORES: dict[str, tuple[tuple[str, int], ...]] = {  # roles, and how many core axes each has
    "lanes_solve": (("a", 2), ("b", 2), ("x", 2)),
    "lanes_inv": (("a", 2), ("x", 2)),
    "lanes_det": (("a", 2), ("d", 0)),
    "lanes_slogdet": (("a", 2), ("sign", 0), ("log", 0)),
    "lanes_cholesky": (("a", 2), ("l", 2)),
    "lanes_eigvalsh": (("a", 2), ("w", 1)),
    "lanes_eigh": (("a", 2), ("w", 1), ("v", 2)),
    "lanes_lu": (("a", 2), ("lu", 2), ("pivots", 1)),
    "lanes_lu_solve": (("lu", 2), ("pivots", 1), ("b", 2), ("x", 2)),
    "lanes_trsm": (("a", 2), ("b", 2), ("x", 2)),
    "lanes_matmul": (("x", 2), ("y", 2), ("z", 2)),
}
ROUTINES = frozenset(CORES)
ROTATING = ("lanes_eigvalsh", "lanes_eigh")
WIDE = frozenset(("lanes_solve", "lanes_inv", "lanes_det", "lanes_slogdet", "lanes_cholesky", *ROTATING))
KEPT = {"lanes_lu_solve": ("lu",), "lanes_trsm": ("a",), "lanes_matmul": ("x", "y")}  # operands that stay as they are


@dataclass(frozen=True, slots=True)
class Axis:
    """A batch axis: its size, and its stride in each region."""

    size: Size
    strides: tuple[Size, ...]


def launch(module: ModuleBuilder, step: Extern, buffers: Mapping[str, Buffer]) -> Launch:
    """The kernel of a step."""
    kernel = _Kernel(module, step, buffers)
    regions = (*step.operands, *step.results)
    count = product(a.size for a in kernel.axes)
    lanes = kernel.field_lanes
    return Launch(
        kernel.function,
        tuple(r.buffer for r in regions),
        (*kernel.words, _memory_site(step)),
        (count + lanes - 1) // lanes,
        _work(step),
        0.4 if kernel.parts == 1 else 1.2,
    )


def _memory_site(step: Extern) -> int:
    """The site of a lack of memory."""
    site = dict(step.attrs).get("memory", step.site)
    assert isinstance(site, int)
    return site


def _work(step: Extern) -> Size:
    """About how many multiply-adds, loads and stores one block takes."""
    core = [
        r.layout.shape[-rank:] for r, (_, rank) in zip(_regions(step), CORES[step.routine], strict=True) if rank == 2
    ]
    rows, columns = core[0]
    if step.routine in ROTATING:
        return 64 + 40 * len(step.results) * rows * rows * columns
    width = core[-1][-1]
    return 16 + rows * columns * (8 + columns // 3) + rows * width * (8 + columns)


def _regions(step: Extern) -> tuple[Region, ...]:
    return (*step.operands, *step.results)


def _axes(step: Extern) -> tuple[Axis, ...]:
    """The batch axes; neighbours that all regions walk as one are joined."""
    layouts = [r.layout for r in _regions(step)]
    ranks = [rank for _, rank in CORES[step.routine]]
    strides = [y.strides[: len(y.strides) - rank] for y, rank in zip(layouts, ranks, strict=True)]
    batch = layouts[len(step.operands)].shape[: len(strides[len(step.operands)])]
    found: list[Axis] = []
    for axis, size in enumerate(batch):
        steps = tuple(s[axis] for s in strides)
        if size == 1:
            continue
        if found and all(old == size * new for old, new in zip(found[-1].strides, steps, strict=True)):
            found[-1] = Axis(found[-1].size * size, steps)
        else:
            found.append(Axis(size, steps))
    return tuple(found)


class _Kernel:
    """Builds the kernel function of a step."""

    def __init__(self, module: ModuleBuilder, step: Extern, buffers: Mapping[str, Buffer]) -> None:
        self.step, self.attrs = step, dict(step.attrs)
        self.roles = [name for name, _ in CORES[step.routine]]
        self.regions = dict(zip(self.roles, _regions(step), strict=True))
        self.ranks = dict(CORES[step.routine])
        self.dtypes = {role: buffers[r.buffer].dtype for role, r in self.regions.items()}
        self.dtype = self.dtypes[self.roles[0]]
        if self.dtype.name not in ("float32", "float64", "complex64", "complex128"):
            raise VerifyError("small matrices have no such dtype", got=f"{step.routine} of {self.dtype}")
        self.parts = 2 if self.dtype.kind == "c" else 1
        self.element = "double" if step.routine in WIDE else memory_type(self.dtype.real)
        self.field_lanes = vector_bits(module.features) // (64 if self.element == "double" else 32)
        self.axes = _axes(step)
        self.words: list[Size] = []
        told = "; ".join(
            [
                *(step.routine, str(self.dtype), str(step.site >= 0)),
                *(str(a) for a in step.attrs if a[0] != "memory"),
                *(str(r.layout) for r in _regions(step)),
            ]
        )
        name = f"bl_{step.routine}_{self.dtype.name}_{hashlib.blake2b(told.encode(), digest_size=6).hexdigest()}"
        params = [Param("ptr", "ctx"), Param("ptr", "args"), Param("i64", "begin"), Param("i64", "end")]
        self._values: dict[Size, Val] = {}
        self._held: tuple[Val, Val] | None = None
        self.function: Function = module.helper(name, "i32", params, self._build, "noinline nounwind")
        if not self.words:  # built for an equal step before
            self.words = self._symbolic()

    # -- sizes --

    def _symbolic(self) -> list[Size]:
        """The sizes that are known at run time alone, each once."""
        sizes: list[Size] = [n for r in self.regions.values() for n in (*r.layout.shape, *r.layout.strides)]
        sizes += [r.layout.offset for r in self.regions.values()]
        sizes += [n for a in self.axes for n in (a.size, *a.strides)]
        sizes.append(product(a.size for a in self.axes))
        return list(dict.fromkeys(n for n in sizes if isinstance(n, Expr)))

    def size(self, n: Size) -> Place:
        return n if isinstance(n, int) else self._values[n]

    def value(self, n: Size) -> Val:
        found = self.size(n)
        return i64(found) if isinstance(found, int) else found

    # -- the function --

    def _build(self, b: FunctionBuilder) -> None:
        self.b = b
        self.ctx, self.args, begin, end = b.params
        self.words = self._symbolic()
        self.bases = {r: b.load("ptr", b.gep("i64", self.args, i64(k))) for k, r in enumerate(self.roles)}
        for k, n in enumerate(self.words, start=len(self.roles)):
            self._values[n] = b.load("i64", b.gep("i64", self.args, i64(k)))
        self.field = Field(b, self.element, self.field_lanes, self.parts)
        self.engine: Engine = Unrolled(self.field) if self._is_short() else Looped(self.field)
        self.mover, self.algorithms = Mover(self.engine), Algorithms(self.engine)
        self.matrices = {role: self._matrices(role) for role in self.roles}
        self.count = self.value(product(a.size for a in self.axes))
        grids = self._grids()
        for role in KEPT.get(self.step.routine, ()):
            if self._is_single(role):
                start = b.gep(self.matrices[role].element, self.bases[role], self._numbers(role, self._offset(role)))
                self.mover.load(self.matrices[role], [start], grids[role])
        b.for_loop(begin, end, lambda block: self._block(block, grids), flags="nuw nsw", name="block")
        self._release()
        b.ret(i32(0))

    def _is_short(self) -> bool:
        if self.step.routine in ROTATING:
            return False
        sides = [
            n for role in self.roles if self.ranks[role] for n in self.regions[role].layout.shape[-self.ranks[role] :]
        ]
        return all(isinstance(n, int) and n <= UNROLLED for n in sides)

    def _matrices(self, role: str) -> Matrices:
        layout, rank = self.regions[role].layout, self.ranks[role]
        kind = "i32" if role == "pivots" else memory_type(self.dtypes[role].real)
        if rank == 0:
            return Matrices(1, 1, 0, 0, "", kind)
        if rank == 1:
            return Matrices(self.size(layout.shape[-1]), 1, self.size(layout.strides[-1]), 0, "", kind)
        rows, columns = (self.size(n) for n in layout.shape[-2:])
        row_step, column_step = (self.size(n) for n in layout.strides[-2:])
        return Matrices(rows, columns, row_step, column_step, _dense(layout), kind)

    def _is_single(self, role: str) -> bool:
        number = self.roles.index(role)
        return all(a.strides[number] == 0 for a in self.axes)

    # -- grids --

    def _grids(self) -> dict[str, Grid]:
        """A grid for each operand that is a matrix, and for what is made otherwise."""
        wanted = [r for r in self.roles if self.ranks[r] == 2]
        made = {"lanes_inv": ["a", "x"], "lanes_eigh": ["a", "v"], "lanes_matmul": ["x", "y", "z"]}
        wanted = made.get(self.step.routine, [r for r in wanted if r in self.roles[: len(self.step.operands)]])
        if isinstance(self.engine, Unrolled):
            return {role: Held() for role in wanted}
        lengths = {role: self._vectors(role) for role in wanted}
        width = self.field_lanes * (8 if self.element == "double" else 4)
        memory = self._memory(sum(lengths.values()) * width)
        grids: dict[str, Grid] = {}
        at = 0
        for role in wanted:
            m = self.matrices[role]
            base = self.b.gep("i8", memory, i64(at * width))
            grids[role] = Stored(self.field, base, m.rows, m.columns, m.dense == "columns")
            at += lengths[role]
        return grids

    def _vectors(self, role: str) -> int:
        rows, columns = (n if isinstance(n, int) else LIMIT for n in self.regions[role].layout.shape[-2:])
        return max(rows * columns * self.parts, 1)

    def _memory(self, size: int) -> Val:
        b = self.b
        if size <= ON_STACK:
            return b.alloca("i8", size, 64)
        total = i64(size)
        memory = b.call_pointer(b.load("ptr", abi.field(b, self.ctx, abi.CTX_ALLOC)), "ptr", self.ctx, total)

        def none() -> None:
            abi.fail(b, self.ctx, self._site(0), i64(0), total, i64(0))
            b.ret(i32(0))

        b.if_then(b.icmp("eq", memory, NULL), none)
        self._held = memory, total
        return memory

    def _site(self, number: int) -> Val:
        """The site of a lack of memory, or that of a matrix that fails: the last two words."""
        at = len(self.roles) + len(self.words) + number
        return self.b.trunc(self.b.load("i64", self.b.gep("i64", self.args, i64(at))), "i32")

    def _release(self) -> None:
        if self._held:
            free = self.b.load("ptr", abi.field(self.b, self.ctx, abi.CTX_FREE))
            self.b.call_pointer(free, "void", self.ctx, *self._held)

    # -- blocks --

    def _offset(self, role: str) -> Val:
        return self.value(self.regions[role].layout.offset)

    def _numbers(self, role: str, elements: Val) -> Val:
        return self.b.mul(elements, i64(2)) if self.dtypes[role].kind == "c" else elements

    def _starts(self, block: Val) -> dict[str, list[Val]]:
        """The address of the matrix of every lane, by role."""
        b = self.b
        first = b.mul(block, i64(self.field_lanes))
        last = b.sub(self.count, i64(1))
        found: dict[str, list[Val]] = {role: [] for role in self.roles}
        for lane in range(self.field_lanes):
            rest = b.intrinsic("smin", b.add(first, i64(lane)), last)
            at = {role: self._offset(role) for role in self.roles}
            for number in reversed(range(len(self.axes))):
                axis, index = self.axes[number], rest
                if number:
                    extent = self.value(axis.size)
                    index, rest = b.urem(rest, extent), b.udiv(rest, extent)
                for k, role in enumerate(self.roles):
                    if axis.strides[k] != 0:
                        at[role] = b.add(at[role], b.mul(index, self.value(axis.strides[k])))
            for role in self.roles:
                kind = self.matrices[role].element
                found[role].append(b.gep(kind, self.bases[role], self._numbers(role, at[role])))
        return found

    def _block(self, block: Val, grids: Mapping[str, Grid]) -> None:
        starts = self._starts(block)
        kept = KEPT.get(self.step.routine, ())
        for role in self.roles[: len(self.step.operands)]:
            if self.ranks[role] == 2 and not (role in kept and self._is_single(role)):
                self.mover.load(self.matrices[role], starts[role], grids[role])
        run: Callable[..., Val | None] = getattr(self, f"_{self.step.routine.removeprefix('lanes_')}")
        bad = run(grids, starts)
        if bad is not None and self.step.site >= 0:
            self._report(block, bad)

    def _report(self, block: Val, bad: Val) -> None:
        b = self.b

        def failed() -> None:
            lane = b.intrinsic("cttz", bad, const_int("i1", 1))
            number = b.add(b.mul(block, i64(self.field_lanes)), b.zext(lane, "i64"))
            abi.fail(b, self.ctx, self._site(1), number, number, i64(1))

        b.if_then(b.icmp("ne", bad, const_int(bad.type, 0)), failed)

    def _store(self, role: str, starts: Mapping[str, Sequence[Val]], grid: Grid) -> None:
        self.mover.store(self.matrices[role], starts[role], grid)

    # -- routines --

    def _solve(self, grids: Mapping[str, Grid], starts: Mapping[str, list[Val]]) -> Val:
        a, x, n, columns = grids["a"], grids["b"], self.matrices["a"].rows, self.matrices["b"].columns
        bad, _ = self.algorithms.factor(a, n, (x, columns), whole=False)
        self.algorithms.back(a, x, n, columns)
        self._store("x", starts, x)
        return bad

    def _inv(self, grids: Mapping[str, Grid], starts: Mapping[str, list[Val]]) -> Val:
        a, x, n = grids["a"], grids["x"], self.matrices["a"].rows
        self.algorithms.identity(x, n)
        bad, _ = self.algorithms.factor(a, n, (x, n), whole=False)
        self.algorithms.back(a, x, n, n)
        self._store("x", starts, x)
        return bad

    def _det(self, grids: Mapping[str, Grid], starts: Mapping[str, list[Val]]) -> None:
        field, a, n = self.field, grids["a"], self.matrices["a"].rows
        singular, odd = self.algorithms.factor(a, n, whole=False)
        value, exponent = self.algorithms.diagonal_product(a, n, odd)
        zero = self._mask(singular)
        found = field.select(zero, field.constant(0.0), field.joined(value, exponent))
        self.mover.store_numbers(self.matrices["d"], starts["d"], found)

    def _slogdet(self, grids: Mapping[str, Grid], starts: Mapping[str, list[Val]]) -> None:
        field, b, a, n = self.field, self.b, grids["a"], self.matrices["a"].rows
        singular, odd = self.algorithms.factor(a, n, whole=False)
        value, exponent = self.algorithms.diagonal_product(a, n, odd)
        zero = self._mask(singular)
        if self.parts == 1:
            size = b.intrinsic("fabs", value[0])
            sign: Number = (b.select(b.fcmp("olt", value[0], field.real(0.0)), field.real(-1.0), field.real(1.0)),)
        else:
            size = b.intrinsic("sqrt", b.fadd(b.fmul(value[0], value[0]), b.fmul(value[1], value[1])))
            sign = tuple(b.fdiv(part, size) for part in value)
        log = b.intrinsic("fmuladd", exponent, field.real(0.6931471805599453), math("log", [Lane(b, size)]).v)
        self.mover.store_numbers(self.matrices["sign"], starts["sign"], field.select(zero, field.constant(0.0), sign))
        log = b.select(zero, field.real(float("-inf")), log)
        self.mover.store_numbers(self.matrices["log"], starts["log"], (log,))

    def _mask(self, bits: Val) -> Val:
        return self.b.bitcast(bits, f"<{self.field_lanes} x i1>")

    def _cholesky(self, grids: Mapping[str, Grid], starts: Mapping[str, list[Val]]) -> Val:
        a, n = grids["a"], self.matrices["a"].rows
        bad = self.algorithms.cholesky(a, n)
        self.algorithms.clear_above(a, n)
        self._store("l", starts, a)
        return bad

    def _eigh(self, grids: Mapping[str, Grid], starts: Mapping[str, list[Val]]) -> Val:
        bad = self._eigvalsh(grids, starts)
        self._store("v", starts, grids["v"])
        return bad

    def _eigvalsh(self, grids: Mapping[str, Grid], starts: Mapping[str, list[Val]]) -> Val:
        a, m = grids["a"], self.matrices["w"]
        assert isinstance(a, Stored)
        bad = Jacobi(self.engine, a, m.rows, grids.get("v")).eigenvalues(lower=self.attrs["uplo"] == "L")
        self.engine.loop(0, m.rows, lambda k: self.mover.store_vector(m, starts["w"], k, a.get(k, k)[0]))
        return bad

    def _lu(self, grids: Mapping[str, Grid], starts: Mapping[str, list[Val]]) -> Val:
        step = self.matrices["pivots"].row_step
        bad, _ = self.algorithms.factor(
            grids["a"],
            self.matrices["a"].rows,
            pivots=lambda k, pivot: self.mover.store_pivot(starts["pivots"], step, k, pivot),
        )
        self._store("lu", starts, grids["a"])
        return bad

    def _lu_solve(self, grids: Mapping[str, Grid], starts: Mapping[str, list[Val]]) -> None:
        lu, x, n, columns = grids["lu"], grids["b"], self.matrices["lu"].rows, self.matrices["b"].columns
        step = self.matrices["pivots"].row_step
        self.algorithms.permute(x, n, columns, lambda k: self.mover.load_pivot(starts["pivots"], step, k))
        self.algorithms.substitute(lu.get, x, n, columns, forward=True, unit=True)
        self.algorithms.back(lu, x, n, columns)
        self._store("x", starts, x)

    def _trsm(self, grids: Mapping[str, Grid], starts: Mapping[str, list[Val]]) -> None:
        a, x, n, columns = grids["a"], grids["b"], self.matrices["a"].rows, self.matrices["b"].columns
        lower, transpose, unit = (bool(self.attrs[k]) for k in ("lower", "transpose", "unit"))
        element = (lambda i, j: a.get(j, i)) if transpose else a.get
        self.algorithms.substitute(element, x, n, columns, forward=lower != transpose, unit=unit)
        self._store("x", starts, x)

    def _matmul(self, grids: Mapping[str, Grid], starts: Mapping[str, list[Val]]) -> None:
        x, y = self.matrices["x"], self.matrices["y"]
        self.algorithms.product(grids["x"], grids["y"], grids["z"], (x.rows, x.columns, y.columns))
        self._store("z", starts, grids["z"])


def _dense(layout: Layout) -> str:
    """Whether the elements of a matrix follow each other, and in which order."""
    (rows, columns), (row_step, column_step) = layout.shape[-2:], layout.strides[-2:]
    if (column_step == 1 or columns == 1) and (row_step == columns or rows == 1):
        return "rows"
    return "columns" if (row_step == 1 or rows == 1) and (column_step == rows or columns == 1) else ""
