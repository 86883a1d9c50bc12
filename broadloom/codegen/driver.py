"""The driver: `bl_plan` and `bl_run`, the two entries of module A.

What goes in: a verified `Program` and the target. What comes out: the text of the one module that holds the
program's kernels, its constants and the code that calls them in order.

What holds: sizes and strides are read from the inputs at entry; one workspace is allocated for all temporary buffers
and freed on every path; a step runs on several threads only where its estimated work pays for it; after a step that
may fail, a recorded failure ends the run; equal programs give equal text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

import numpy as np

from broadloom.codegen import abi, extern, scans, sorting
from broadloom.codegen.accumulators import Emit
from broadloom.codegen.arguments import ArgumentBlock
from broadloom.codegen.emit import emit as emit_op
from broadloom.codegen.fft import step as fft
from broadloom.codegen.index import Indexer
from broadloom.codegen.kernels import KernelEmitter, Signature
from broadloom.codegen.lanes import choice as beside
from broadloom.codegen.lanes import step as lanes
from broadloom.codegen.llvm import Function, FunctionBuilder, Param, Val, const_float, i32, i64, is_constant
from broadloom.codegen.matmul import step as matmul
from broadloom.codegen.module import ModuleBuilder
from broadloom.codegen.outline import outline
from broadloom.codegen.parts import READY
from broadloom.codegen.plans import COLUMN_STEP, ranged_loops, runs_in_columns, runs_in_steps
from broadloom.codegen.prepare import Prepared, may_be_small, prepare
from broadloom.codegen.streams import Stream
from broadloom.dtypes import float16, float64
from broadloom.errors import VerifyError
from broadloom.fusion.bands import SIDE_BY_SIDE, STRIP, strip_of
from broadloom.fusion.cost import CHUNK_COST, PARALLEL_COST, body_cost, tables_cost
from broadloom.fusion.ir import Buffer, Extern, Kernel, Program
from broadloom.fusion.memory_plan import MemoryPlan, buffers_of, plan_memory
from broadloom.fusion.tables import ENOUGH, without_tables
from broadloom.platform import Caches
from broadloom.symbolic import Size, Symbol, floordiv, product, smin, substitute

LEAD_SHARE = 10  # times the rows that a chunk fills for its first point alone that it has points at least
FEW_THREADS = 4  # that leave columns which no cache holds to one, where their pieces of rows would be short
TABLES_SHARE = 8  # times the work of filling its tables that a chunk has at least


class Target(Protocol):
    """What code generation asks of a target; `runtime.target.Target` is one."""

    @property
    def triple(self) -> str: ...
    @property
    def features(self) -> str: ...
    @property
    def caches(self) -> Caches: ...


def module_text(
    program: Program, target: Target, constants: Mapping[str, np.ndarray] | None = None, *, emit: Emit = emit_op
) -> str:
    """As `prepared_text`, of a program as it was scheduled."""
    return prepared_text(prepare(program, target.caches), target, constants, emit=emit)


def prepared_text(
    prepared: Prepared, target: Target, constants: Mapping[str, np.ndarray] | None = None, *, emit: Emit = emit_op
) -> str:
    """The LLVM text of module A for a program.

    `constants` holds the arrays that constant buffers name by digest (`Graph.constants`). The module defines

        i32 @bl_plan(ptr in, ptr out)            fills shape and strides of every `out`
        i32 @bl_run(ptr ctx, ptr in, ptr out)    computes; returns `abi.OK`, `FAILED` or `OUT_OF_MEMORY`

    on arrays of `bl_array` and the `ctx` of `codegen.abi`. External symbols are the routines of `codegen.extern`
    (`bl_dgemm`, ...). Raises `VerifyError` for a program that breaks an invariant.
    """
    program, rows = prepared.program, prepared.rows
    module = ModuleBuilder(program.name, triple=target.triple, features=abi.features_of(target.features))
    kernels = KernelEmitter(module, {b.name: b for b in program.buffers}, emit, brief=prepared.brief)
    own = {n: s for n, s in enumerate(program.steps) if isinstance(s, Kernel)}
    direct = {n: without_tables(s) for n, s in own.items() if may_be_small(s)}
    stores = [x if isinstance(x, Stream) else None for x in prepared.stores]
    signatures = {n: kernels.kernel(s, rows[n], stores[n]) for n, s in own.items()}
    others = {n: (s, kernels.kernel(s, rows[n], stores[n])) for n, s in direct.items()}
    _build_plan(module, program)
    products = {
        n: matmul.launch(module, s, kernels.buffers, target.caches, emit)
        for n, s in enumerate(program.steps)
        if isinstance(s, Extern) and s.routine == "matmul"
    }
    last = target.caches.last
    _Run(module, program, plan_memory(program), signatures, others, products, constants or {}, last).build()
    quick = prepared.brief and not module.sums
    outline(module, brief=quick)
    module.mark(READY)
    if quick:
        for function in module.functions:
            function.plain = False
    text = str(module)
    if " half" not in text:
        return text
    _define_rounding(module)
    return str(module)


def _define_rounding(module: ModuleBuilder) -> None:
    """LLVM's code generator may join two roundings, double to float and float to half, into one, and calls a function
    of the compiler's own library for it. This is that function."""
    b = module.function(
        "__truncdfhf2", "half", [Param("double", "x")], linkage="weak_odr hidden", attributes="nounwind"
    )
    (rounded,) = emit_op(b, "cast", [b.params], [float64], float16, {"dtype": float16})
    b.ret(rounded)


# ---- entry values -------------------------------------------------------------------------------------------------


def _array(b: FunctionBuilder, arrays: Val, position: int, offset: int) -> Val:
    return abi.field(b, arrays, position * abi.ARRAY_SIZE + offset)


def _bind_symbols(b: FunctionBuilder, program: Program, inputs: Val) -> Indexer:
    """Reads every size symbol off the inputs, and opens an indexer on them."""
    by_position = {x.position: x for x in program.buffers if x.kind == "input"}
    values: dict[Symbol, Val] = {}
    for symbol, position, what, axis in program.bindings:
        if what == "value":
            data = b.load("ptr", _array(b, inputs, position, abi.ARRAY_DATA))
            values[symbol] = b.load("i64", data)
            continue
        table = abi.ARRAY_SHAPE if what == "size" else abi.ARRAY_STRIDES
        sizes = b.load("ptr", _array(b, inputs, position, table))
        value = b.load("i64", b.gep("i64", sizes, i64(axis)))
        if what == "stride":
            value = b.value("i64", f"sdiv exact i64 {value.text}, {by_position[position].dtype.itemsize}")
        values[symbol] = value
    unbound = [s for s in program.symbols if s not in values]
    if unbound:
        raise VerifyError("size symbol has no binding", got=", ".join(map(str, unbound)))
    indexer = Indexer(b)
    indexer.open(b.fenced())
    for symbol, value in values.items():
        indexer.bind(symbol, value)
    return indexer


def _build_plan(module: ModuleBuilder, program: Program) -> None:
    """`bl_plan`: shapes and byte strides of the outputs."""
    b = module.function("bl_plan", "i32", [Param("ptr", "in"), Param("ptr", "out")], attributes=abi.ONCE)
    inputs, outputs = b.params
    indexer = _bind_symbols(b, program, inputs)
    for buffer in program.buffers:
        if buffer.kind != "output":
            continue
        shape = b.load("ptr", _array(b, outputs, buffer.position, abi.ARRAY_SHAPE))
        strides = b.load("ptr", _array(b, outputs, buffer.position, abi.ARRAY_STRIDES))
        for axis, (size, stride) in enumerate(zip(buffer.layout.shape, buffer.layout.strides, strict=True)):
            b.store(indexer.value(size), b.gep("i64", shape, i64(axis)))
            b.store(indexer.value(stride * buffer.dtype.itemsize), b.gep("i64", strides, i64(axis)))
    b.ret(i32(abi.OK))


# ---- bl_run -------------------------------------------------------------------------------------------------------


# Routines that are kernels of our own: what others need besides the library's call is code of `bl_run`.
_OWN = frozenset((*sorting.ROUTINES, *lanes.ROUTINES, *fft.ROUTINES))


def _is_template(step: Kernel | Extern) -> bool:
    return isinstance(step, Extern) and step.routine in sorting.ROUTINES | lanes.ROUTINES | scans.ROUTINES


class _Run:
    """Builds `bl_run`."""

    def __init__(
        self,
        module: ModuleBuilder,
        program: Program,
        plan: MemoryPlan,
        signatures: Mapping[int, Signature],
        others: Mapping[int, tuple[Kernel, Signature]],
        products: Mapping[int, matmul.Launch],
        constants: Mapping[str, np.ndarray],
        last_cache: int,
    ) -> None:
        params = [Param("ptr", "ctx"), Param("ptr", "in"), Param("ptr", "out")]
        calls = any(isinstance(s, Extern) and s.routine not in _OWN for s in program.steps)
        self.b = module.function("bl_run", "i32", params, attributes="nounwind" if calls else abi.ONCE)
        self.module, self.program, self.plan, self.signatures = module, program, plan, signatures
        self.others, self.products, self.constants, self.last_cache = others, products, constants, last_cache
        self.ctx, self.inputs, self.outputs = self.b.params
        self.out_of_memory, self.failed = self.b.block("memory"), self.b.block("failed")
        self.bases: dict[str, Val] = {}
        self.buffers = {x.name: x for x in program.buffers}
        known = (*signatures.values(), *(s for _, s in others.values()))
        slots = [len(s.buffers) + len(s.words) + len(s.sites) for s in known]
        self.launches = {n: self._template(s) for n, s in enumerate(program.steps) if _is_template(s)}
        self.beside = {n: self._template(x) for n, s in enumerate(program.steps) if (x := beside.other_of(s))}
        launches = (*self.launches.values(), *self.beside.values())
        slots += [len(x.buffers) + len(x.words) + 1 for x in launches]
        self.transforms = {
            number: fft.work_of(step, module, self.buffers[step.operands[0].buffer].dtype)
            for number, step in enumerate(program.steps)
            if isinstance(step, Extern) and step.routine in fft.ROUTINES
        }
        self.transform_kernels: dict[object, fft.Kernel] = {}
        slots += [len(x.buffers) + len(x.words) + 1 + x.slots for x in products.values()]
        slots += [fft.arguments(work) for work in self.transforms.values()]
        self.block = ArgumentBlock(self.b, max((1, *slots)))

    def build(self) -> None:
        b = self.b
        self.indexer = _bind_symbols(b, self.program, self.inputs)
        self._bind_buffers()
        workspace = self._allocate()
        externs = extern.new_emitter(b, self.indexer, self.ctx, self.out_of_memory)
        for number, step in enumerate(self.program.steps):
            if number in self.transforms:
                self._transform(number)
                continue
            if isinstance(step, Extern):
                if number in self.products:
                    self._multiply(self.products[number])
                elif number in self.launches:
                    self._launch_template(self.launches[number], step.site)
                elif number in self.beside:
                    launch = partial(self._launch_template, self.beside[number], step.site)
                    call = partial(externs.emit, step, self.bases, self.buffers)
                    self.block.either(beside.allowed(b, self.indexer, step), launch, call)
                else:
                    externs.emit(step, self.bases, self.buffers)
                fallible = step.site >= 0 or "memory" in dict(step.attrs)
            else:
                self._choose(number, step)
                fallible = bool(self.signatures[number].sites)
            if fallible:
                following = b.block("next")
                b.cond_br(abi.has_failed(b, self.ctx), self.failed, following)
                b.at(following)
        self._release(workspace)
        b.ret(i32(abi.OK))
        for block, code in ((self.failed, abi.FAILED), (self.out_of_memory, abi.OUT_OF_MEMORY)):
            b.at(block)
            self._release(workspace)
            b.ret(i32(code))

    # -- buffers --

    def _bind_buffers(self) -> None:
        b = self.b
        used = {n for s in self.signatures.values() for n in s.buffers}
        used |= {n for s in self.program.steps if isinstance(s, Extern) for n in buffers_of(s)}
        for buffer in self.program.buffers:
            if buffer.name not in used or buffer.kind == "workspace":
                continue
            if buffer.kind == "constant":
                self.bases[buffer.name] = self._constant(buffer)
                continue
            arrays = self.inputs if buffer.kind == "input" else self.outputs
            self.bases[buffer.name] = b.load("ptr", _array(b, arrays, buffer.position, abi.ARRAY_DATA))

    def _constant(self, buffer: Buffer) -> Val:
        constant = buffer.constant
        if constant is None:
            raise VerifyError("constant buffer without data", got=buffer.name)
        data = constant.data
        if data is None:
            array = self.constants.get(constant.digest or "")
            if array is None:
                raise VerifyError("constant is not in the table", got=constant.digest)
            data = np.ascontiguousarray(array).tobytes()
        return self.module.data(data or b"\0")

    def _allocate(self) -> Val | None:
        """The workspace: a stack slot that holds its address and size, None when there is nothing to hold."""
        b, scratch = self.b, max((work.scratch for work in self.transforms.values()), default=0)
        total = self.plan.total + scratch
        if total == 0:
            return None
        slot = b.alloca("[2 x i64]", 1, 8)
        size, overflow = self.indexer.checked(total)
        b.store(i64(0), slot)
        b.store(size, b.gep("i64", slot, i64(1)))
        b.store(size, abi.field(b, self.ctx, abi.ERROR_PAYLOAD))
        sound = b.block("sound")
        b.cond_br(overflow, self.out_of_memory, sound)
        b.at(sound)
        allocate = b.load("ptr", abi.field(b, self.ctx, abi.CTX_ALLOC))
        base = b.call_pointer(allocate, "ptr", self.ctx, size)
        b.store(base, slot)
        ready = b.block("ready")
        b.cond_br(b.icmp("eq", base, Val("ptr", "null")), self.out_of_memory, ready)
        b.at(ready)
        # An offset is the sum of all sizes before it, so each is taken from the one before.
        before: Size = 0
        place, places = base, dict[Size, Val]()
        for offset in dict.fromkeys((*self.plan.offsets.values(), self.plan.total)):
            places[offset] = place = b.gep("i8", place, self.indexer.value(offset - before))
            before = offset
        self.bases.update((name, places[offset]) for name, offset in self.plan.offsets.items())
        self.scratch = places[self.plan.total]
        return slot

    def _release(self, slot: Val | None) -> None:
        if slot is None:
            return
        b = self.b
        base = b.load("ptr", slot)

        def free() -> None:
            release = b.load("ptr", abi.field(b, self.ctx, abi.CTX_FREE))
            b.call_pointer(release, "void", self.ctx, base, b.load("i64", b.gep("i64", slot, i64(1))))

        b.if_then(b.icmp("ne", base, Val("ptr", "null")), free)

    # -- kernels --

    def _choose(self, number: int, kernel: Kernel) -> None:
        """Calls a kernel, or the one without its tables where there are too few points for them."""
        signature, other = self.signatures[number], self.others.get(number)
        if other is None:
            self._launch(kernel, signature)
            return
        saved = self.b.fsub(self._cost(other[0]), self._cost(kernel))
        worth = self.b.fcmp("oge", saved, const_float("double", ENOUGH * tables_cost(kernel)))
        self.block.either(worth, lambda: self._launch(kernel, signature), lambda: self._launch(*other))

    def _cost(self, kernel: Kernel) -> Val:
        """Cost units of all points, a double."""
        loops, block = ranged_loops(kernel)
        count = self.b.sitofp(self._count(product(loop.extent for loop in loops)), "double")
        return self.b.fmul(self._as_double(self._point_cost(kernel, block)), count)

    def _launch(self, kernel: Kernel, signature: Signature) -> None:
        """Fills the argument block and calls a kernel, on several threads where that pays."""
        b = self.b
        values = [self.bases[n] for n in signature.buffers]
        values += [self.indexer.value(s) for s in signature.words]
        values += [i64(s) for s in signature.sites]
        self.block.fill(values)
        loops, block = ranged_loops(kernel)
        points = product(loop.extent for loop in loops)
        count = self._count(points)

        each = self._point_cost(kernel, block)
        least = max(CHUNK_COST, TABLES_SHARE * tables_cost(kernel))  # each chunk fills the tables
        if kernel.serial or not kernel.outer or points == 1:
            b.call(signature.function, self.ctx, self.block.memory, i64(0), count)
        else:
            widened = partial(self._widened, kernel) if runs_in_columns(kernel) else None
            fewest = max(1, LEAD_SHARE * kernel.lead)
            self._run_points(signature.function, points, count, each, least, widened=widened, fewest=fewest)

    def _run_points(
        self,
        function: Function,
        points: Size,
        count: Val,
        each: float | Val,
        least: float,
        *,
        widened: Callable[[Val, Val], Val] | None = None,
        fewest: int = 1,
    ) -> None:
        """Runs the points of a kernel, which cost `each` units, on several threads where that pays; a chunk of them
        costs `least` or more, has no fewer than `fewest`, or more yet: `widened` makes the chunk from that and the
        count."""
        b = self.b

        def serial() -> None:
            b.call(function, self.ctx, self.block.memory, i64(0), count)

        def parallel(grain: Val) -> None:
            self._parallel(function, count, grain if widened is None else widened(grain, count))

        if points == 1:
            serial()
            return
        if isinstance(points, int) and isinstance(each, float):
            if points * each <= PARALLEL_COST:
                serial()
            else:
                parallel(i64(max(fewest, int(least / each))))
            return
        cost = self._as_double(each)
        worth = b.fcmp("ogt", b.fmul(cost, b.sitofp(count, "double")), const_float("double", PARALLEL_COST))

        def counted() -> None:
            grain = b.fptosi(b.fdiv(const_float("double", least), cost), "i64")
            parallel(b.intrinsic("smax", grain, i64(fewest)))

        b.if_then(worth, counted, serial)

    def _widened(self, kernel: Kernel, grain: Val, count: Val) -> Val:
        """Two chunks a thread, of whole steps: a narrow one takes a short stretch of each row, which was measured to be
        three to ten times as slow. Where no cache near a core holds the columns, a chunk of less than a page of each
        row was measured to be five times as slow as whole rows: few threads leave these to one."""
        b, step = self.b, 1 if runs_in_steps(kernel) else COLUMN_STEP
        threads = b.load("i64", abi.field(b, self.ctx, abi.CTX_THREADS))
        parts = b.intrinsic("smax", b.mul(threads, i64(2)), i64(1))
        wanted = b.intrinsic("smax", grain, b.udiv(b.add(count, b.sub(parts, i64(1))), parts))
        strip = strip_of(kernel, self.buffers)
        if not isinstance(strip, int) or strip > STRIP:
            width = smin(kernel.outer[-1].extent, SIDE_BY_SIDE)
            least = self.indexer.value(width if step > 1 else floordiv(width, COLUMN_STEP))
            far = b.icmp("sgt", self.indexer.value(strip), i64(STRIP))
            few = b.and_(far, b.icmp("sle", threads, i64(FEW_THREADS)))
            wanted = b.intrinsic("smax", wanted, b.select(few, least, i64(1)))
        return b.mul(b.udiv(b.add(wanted, i64(step - 1)), i64(step)), i64(step))

    def _template(self, step: Kernel | Extern) -> sorting.Launch:
        assert isinstance(step, Extern)
        if step.routine in lanes.ROUTINES:
            return lanes.launch(self.module, step, self.buffers)
        if step.routine in scans.ROUTINES:
            return scans.launch(self.module, step, self.buffers, self.last_cache)
        return sorting.launch(self.module, step, self.buffers[step.operands[0].buffer].dtype)

    def _launch_template(self, launch: sorting.Launch, site: int) -> None:
        """As `_launch`, for a kernel that is no loop nest."""
        values = [*(self.bases[n] for n in launch.buffers), *map(self.indexer.value, launch.words), i64(site)]
        self.block.fill(values)
        each = self._length_cost(launch.length, launch.cost)
        self._run_points(launch.function, launch.points, self._count(launch.points), each, CHUNK_COST)

    def _length_cost(self, length: Size, cost: float) -> float | Val:
        if isinstance(length, int):
            return cost * length
        return self.b.fmul(self.b.sitofp(self.indexer.value(length), "double"), const_float("double", cost))

    # -- products of matrices --

    def _multiply(self, launch: matmul.Launch) -> None:
        b = self.b
        words = map(self.indexer.value, launch.words)
        values = [*(self.bases[n] for n in launch.buffers), *words, i64(launch.site)]
        self.block.fill(values, written=launch.slots)
        b.call(launch.function, self.ctx, self.block.memory)

    # -- Fourier transforms --

    def _transform(self, number: int) -> None:
        """Runs the kernel with rows side by side where there are enough rows, else that for single ones."""
        work = self.transforms[number]
        runs = [partial(self._launch_transform, work, self._transform_kernel(number, rows)) for rows in work.widths]
        if len(runs) == 1:
            runs[0]()
            return
        assert work.lane is not None
        rows = self.indexer.value(work.axes[work.lane].size)
        self.block.either(self.b.icmp("sge", rows, i64(work.lanes)), *runs)

    def _transform_kernel(self, number: int, rows: int) -> fft.Kernel:
        """The kernel for so many rows side by side: a new one, or that of an earlier step of the same form."""
        form = self.transforms[number].form, rows
        kernel = self.transform_kernels.get(form)
        if kernel is None:
            kernel = fft.Kernel(self.module, self.transforms[number], rows, f"fft{number}.{rows}")
            self.transform_kernels[form] = kernel
        return kernel

    def _launch_transform(self, work: fft.Work, kernel: fft.Kernel) -> None:
        """Shares the groups of rows out among chunks; one chunk where the work pays for one thread only."""
        b, rows = self.b, kernel.rows
        groups = self._count(work.groups(rows))
        most = work.chunks(rows)
        paying = b.udiv(b.mul(groups, i64(int(work.cost(rows)) + 1)), i64(int(CHUNK_COST)))
        threads = b.load("i64", abi.field(b, self.ctx, abi.CTX_THREADS))
        for limit in (i64(most), b.mul(threads, i64(2))):
            paying = b.intrinsic("umin", paying, limit)
        parallel = b.and_(b.icmp("ugt", threads, i64(1)), b.icmp("ugt", paying, i64(int(PARALLEL_COST / CHUNK_COST))))
        wanted = b.select(parallel, paying, i64(1))
        share = b.udiv(b.add(groups, b.sub(wanted, i64(1))), wanted)
        ends = (self.bases[work.step.operands[0].buffer], self.bases[work.step.results[0].buffer])
        values = [*ends, self.scratch, groups, share, *(self.indexer.value(s) for s in kernel.symbols)]
        self.block.fill(values)

        def serial() -> None:
            b.call(kernel.function, self.ctx, self.block.memory, i64(0), i64(1))

        b.if_then(parallel, lambda: self._parallel(kernel.function, wanted, i64(1)), serial)

    def _count(self, points: Size) -> Val:
        """The number of points. One that does not fit 64 bits could never be run: it ends as a lack of memory does,
        rather than as a kernel that runs no point."""
        if isinstance(points, int):
            if points >= 1 << 63:
                raise VerifyError("kernel has more points than can be counted", got=points)
            return i64(points)
        count, overflow = self.indexer.checked(points)
        if not is_constant(overflow):
            b = self.b
            counted = b.block("counted")
            b.cond_br(overflow, self.out_of_memory, counted)
            b.at(counted)
        return count

    def _parallel(self, function: Function, count: Val, grain: Val) -> None:
        b = self.b
        run = b.load("ptr", abi.field(b, self.ctx, abi.CTX_PARALLEL_FOR))
        b.call_pointer(run, "i32", self.ctx, function.pointer, self.block.memory, count, grain)

    def _point_cost(self, kernel: Kernel, block: int) -> float | Val:
        """Cost units of `block` outer points: a number, or a double where stages have symbolic lengths."""
        b = self.b
        first = dict.fromkeys((*(loop.variable for loop in kernel.outer), *(r.row for r in kernel.rings)), 0)
        constant, terms = 0.0, list[Val]()
        stages = [(s, r.step) for r in kernel.rings for s in r.stages] + [(s, 1) for s in kernel.stages]
        for stage, times in stages:
            cost = body_cost(stage.body) * block * times
            length: Size = product(substitute(loop.extent, first) for loop in stage.loops)
            if isinstance(length, int):
                constant += cost * length
            else:
                rounds = b.sitofp(self.indexer.value(length), "double")
                terms.append(b.fmul(rounds, const_float("double", cost)))
        if not terms:
            return constant
        total = const_float("double", constant)
        for term in terms:
            total = b.fadd(total, term)
        return total

    def _as_double(self, cost: float | Val) -> Val:
        return const_float("double", cost) if isinstance(cost, float) else cost


__all__ = ["Target", "module_text", "prepared_text"]
