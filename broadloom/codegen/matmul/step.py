"""The code of one product: which parts of it are tasks, and what is packed before they run.

What goes in: an `Extern` of the routine "matmul" (a of (batch, m, k), b of (batch, k, n), in any strides), the buffers,
facts of the machine. What comes out: a function `void (ptr ctx, ptr args)` that runs the step, and what its
argument block holds: addresses of buffers, then values of `words`, the number of its site, then slots of its own.

A task is some rows by some columns of one product of the batch. Where operands are read as they lie, all tasks are one
parallel loop. Where the right one is packed, the columns are done in strips that fit a share of the last cache: one
parallel loop packs the strip, the next runs its tasks. Of many matrices, each thread packs and multiplies whole ones.
Where a row and a matrix give too few tasks for the threads, the summation is shared out: one parallel loop makes the
sums of its blocks, the next adds those up.

What holds: the sums of an element are added in the order that `tile` says, whatever the tasks are, and so the bits are
the same for any number of threads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from broadloom.codegen import abi
from broadloom.codegen.accumulators import Emit
from broadloom.codegen.llvm import NULL, Function, FunctionBuilder, Param, Val, i32, i64
from broadloom.codegen.matmul.blocks import CACHED_SHARE, DEAR_EDGE, TASK_ROWS, Machine, packs, tile_shape
from broadloom.codegen.matmul.calls import Memory, allocate, free, parallel, share_out, take, threads
from broadloom.codegen.matmul.fill import compute_rows, pack_strip, piece_depth, piece_panels
from broadloom.codegen.matmul.numbers import Numbers
from broadloom.codegen.matmul.operands import Problem, problem_of, row_by_row
from broadloom.codegen.matmul.prologue import Prologue
from broadloom.codegen.matmul.range import can_be_looked_through, look_through
from broadloom.codegen.matmul.task import BATCH, DOTS, NEXT, PACKED, PARTS, SCRATCH, SLOTS, STRIP, Task
from broadloom.codegen.matmul.thin import ACROSS_COLUMNS, ALONG_COLUMNS, COLUMNS
from broadloom.codegen.matmul.tile import SUM_BLOCK
from broadloom.codegen.memory import LINE, emit_fence
from broadloom.codegen.module import ModuleBuilder
from broadloom.codegen.outline import vector_bits
from broadloom.fusion.cost import PARALLEL_COST
from broadloom.fusion.dots import dots_of
from broadloom.fusion.dots import grouping as find_grouping
from broadloom.fusion.ir import Buffer, Extern
from broadloom.fusion.products import FEW_ROWS, SUMS_PER_UNIT, TASK_COLUMNS
from broadloom.platform import Caches
from broadloom.records import dataclass
from broadloom.symbolic import Size, product, range_of, total

_STEP = (Param("ptr", "ctx"), Param("ptr", "args"))
_KERNEL = (Param("ptr", "ctx"), Param("ptr", "args"), Param("i64", "begin"), Param("i64", "end"))
THIN_PER_UNIT = 8  # products of a row and a matrix in a unit of cost
WIDENED = 4  # registers that a tile takes more which widens its groups
SHORT_ROW = 8 * LINE  # bytes of a row in which the processor sees no stream
STREAMED_SHARE = 3  # of the last cache, what many matrices take at most that others of this processor leave there
# matrices that a worker takes in turn at most, and how often it does at least
MATRICES_TOGETHER = 8
TURNS = 8
PACKING_COST = 0.4  # cost units of an element that is packed


@dataclass(frozen=True, slots=True)
class Launch:
    """A step's function and its argument block: buffers, words, the site, and as many slots of its own."""

    function: Function
    buffers: tuple[str, ...]
    words: tuple[Size, ...]
    site: int
    slots: int


def launch(module: ModuleBuilder, step: Extern, buffers: Mapping[str, Buffer], caches: Caches, emit: Emit) -> Launch:
    """The function of a step."""
    whole = problem_of(step, buffers)
    rows = row_by_row(whole)
    if rows is None or isinstance(whole.m, int):
        template = Template(module, rows or whole, caches, emit)
        function = template.function
    else:
        few, template = (Template(module, p, caches, emit) for p in (rows, replace(whole, words=rows.words)))
        function = _few_or_many(module, few, template)
    return Launch(function, template.buffers, template.words, whole.site, SLOTS)


def _few_or_many(module: ModuleBuilder, few: Template, many: Template) -> Function:
    """The function that multiplies row by row where there are few rows."""

    def build(b: FunctionBuilder) -> None:
        rows = many.value(b, b.params[1], many.p.m)
        chosen = b.select(b.icmp("slt", rows, i64(FEW_ROWS)), few.function.pointer, many.function.pointer)
        b.call_pointer(chosen, "void", *b.params)
        b.ret()

    return module.helper(f"{many.name}.few_or_many", "void", _STEP, build, "noinline nounwind")


def machine_of(module: ModuleBuilder, lanes: int, caches: Caches) -> Machine:
    """What is known of the machine that a module is for."""
    many = "avx512vl" in module.features or module.triple.startswith(("aarch64", "arm64"))
    return Machine(lanes, 32 if many else 16, caches)


class Template:
    """Builds the functions of a product."""

    def __init__(self, module: ModuleBuilder, problem: Problem, caches: Caches, emit: Emit) -> None:
        self.module, self.p, self.caches = module, problem, caches
        grouping = None
        if not problem.thin:
            dots = dots_of(module.features, vector_bits(module.features))
            grouping = find_grouping(dots, problem.a_dtype, problem.b_dtype, problem.total)
            if grouping is not None and grouping.dot.flushes and not can_be_looked_through(problem):
                grouping = None
        self.checked = grouping is not None and grouping.dot.flushes
        self.numbers = Numbers(module, emit, problem.total, grouping)
        self.group = self.numbers.group
        self.steps: Size = (problem.k + (self.group - 1)) // self.group  # of the summation, a summand each
        self.machine = machine_of(module, self.numbers.lanes, caches)
        if grouping is not None:
            registers = self.machine.registers - (WIDENED if self.checked else 0)
            self.machine = replace(self.machine, edge=DEAR_EDGE, registers=registers)
        self.shape = tile_shape(self.machine, problem.m, problem.n, self.steps)
        self.width = self.shape.vectors * self.numbers.lanes
        self.itemsize = problem.total.itemsize
        self.buffers, self.words = problem.buffers, problem.words
        self.places = {s: len(self.buffers) + k for k, s in enumerate(self.words)}
        self.site_at = len(self.buffers) + len(self.words)
        self.first_slot = self.site_at + 1
        self._choose()
        told = f"{problem.text}; {self.caches}; {vector_bits(module.features)}"
        self.name = f"bl_matmul.{hashlib.blake2b(told.encode(), digest_size=6).hexdigest()}"
        self.function: Function = module.helper(self.name, "void", _STEP, self._host, abi.ONCE)

    def kernel(
        self, name: str, build: Callable[[FunctionBuilder], None], attributes: str = "noinline nounwind"
    ) -> Function:
        """A function of a parallel loop."""

        def whole(b: FunctionBuilder) -> None:
            build(b)
            b.ret(i32(0))

        return self.module.helper(f"{self.name}.{name}", "i32", _KERNEL, whole, attributes)

    # -- choices --

    def _choose(self) -> None:
        p = self.p
        self.made_left, self.made_right = map(self._prologue, "ab")
        self.depth = self._depth(2)
        if self.made_left is not None and not (isinstance(self.steps, int) and self.steps <= self.depth):
            self.depth = self._depth(4)  # rows that are computed share the cache with what they are computed of
        self.task_rows = max(1, TASK_ROWS // self.shape.rows) * self.shape.rows
        self.task_columns = max(1, TASK_COLUMNS // self.width) * self.width
        if p.thin:
            self.task_columns = ACROSS_COLUMNS if p.thin == "across" else ALONG_COLUMNS
        natural = packs(self.machine, self.itemsize, p.b, p.m, self.shape.rows)
        grouped = self.numbers.grouping is not None
        self.packed_right = grouped or (not p.thin and (self.made_right is not None or natural))
        dense = p.a.strides[-1] == 1 and p.a_dtype is p.total and not grouped
        self.packed_left = not p.thin and (self.made_left is not None or (self.packed_right and not dense))
        packed = self.packed_right or self.packed_left
        self.deep = packed and not (isinstance(self.steps, int) and self.steps <= self.depth)
        self.whole_rows = bool(p.thin) and self.made_left is not None  # they are computed before all else
        self.corrected = self.numbers.grouping is not None and self.numbers.grouping.correction != 0
        self.scratch_left = self._left_bytes() if self.packed_left else 0
        self.scratch_sums = self.task_rows * self.task_columns * self.itemsize if self.deep and not p.plain else 0
        self.scratch = self.scratch_left + self.scratch_sums
        cost = p.cost(self.numbers.lanes * self.group)
        if p.thin and cost is not None:
            cost *= SUMS_PER_UNIT * self.numbers.lanes / THIN_PER_UNIT
        if cost is not None and self.made_left is not None:
            elements = product((p.count, p.m, p.k))
            cost = cost + self.made_left.cost * elements if isinstance(elements, int) else None
        self.single = not self.packed_right and cost is not None and cost <= PARALLEL_COST
        long = not (isinstance(p.k, int) and p.k <= SUM_BLOCK)
        self.in_parts = p.thin == "across" and long and not self.single
        self.shared_right = all(s == 0 or n == 1 for n, s in zip(p.b.shape[:-2], p.b.strides[:-2], strict=True))

    @property
    def looks_ahead(self) -> bool:
        """Whether a task fetches what the next matrix has at its place: of many matrices that are read as they lie,
        each tile of which is a strip that the processor does not foresee."""
        return not (self.p.thin or self.packed_right or self.packed_left or self.single or self.p.count == 1)

    @property
    def fetches_rows(self) -> bool:
        """Whether it fetches rows of the left operand, too: short ones, in which the processor sees no stream."""
        p = self.p
        short = isinstance(p.k, int) and p.k * p.a_dtype.itemsize <= SHORT_ROW
        return self.looks_ahead and short and p.a.strides[-1] == 1

    @property
    def stores_past(self) -> bool:
        """Whether results may be stored past the caches: of many matrices that stream through them, in whole lines."""
        p, line = self.p, LINE // self.itemsize
        if not (self.looks_ahead and p.plain and p.table[p.result.buffer].kind == "output"):
            return False
        steps = [s for n, s in zip(p.c.shape[:-1], p.c.strides[:-1], strict=True) if n != 1]
        in_lines = all(self.even(s, line) for s in steps) and self.even(p.n, self.numbers.lanes)
        most = range_of(self.moved).hi
        much = not (isinstance(most, int) and most <= self.streamed)
        return in_lines and much and isinstance(p.k, int) and p.k <= SUM_BLOCK

    @property
    def streamed(self) -> int:
        """Bytes from which on they do."""
        return self.caches.last // STREAMED_SHARE

    @property
    def moved(self) -> Size:
        """Bytes of the operands and the result."""
        sizes: list[Size] = []
        for region, dtype in map(self.p.role, "abc"):
            layout = region.layout
            used = [n for n, s in zip(layout.shape, layout.strides, strict=True) if s != 0]
            sizes.append(product(used) * dtype.itemsize)
        return total(sizes)

    def _left_bytes(self) -> int:
        """Of the memory for rows of the left operand that are packed; of groups, for corrections and for elements that
        are computed first, too."""
        size = self.task_rows * (self.depth + 16) * self.itemsize
        if self.numbers.grouping is None:
            return size
        self.corrections_at = self.padded_rows * (self.depth + 16) * self.itemsize
        self.made_at = self.corrections_at + self.padded_rows * self.itemsize
        return self.made_at + (0 if self.made_left is None else self.padded_rows * (self.depth + 16) * self.itemsize)

    @property
    def whole_groups(self) -> bool:
        """Whether the summation is known to have whole groups."""
        return self.even(self.p.k, self.group)

    @staticmethod
    def even(size: Size, step: int) -> bool:
        """Whether a size is known to be a multiple."""
        return isinstance(size, int) and size % step == 0

    @property
    def padded_rows(self) -> int:
        """Rows of a task, in whole vectors."""
        return -(-self.task_rows // self.numbers.lanes) * self.numbers.lanes

    def _depth(self, parts: int) -> int:
        """Steps of a summation for which the rows of a task take one of so many parts of the second cache."""
        return max(SUM_BLOCK, self.caches.second // (parts * TASK_ROWS * self.itemsize) // SUM_BLOCK * SUM_BLOCK)

    def _prologue(self, role: str) -> Prologue | None:
        kernel = self.p.prologue(role)
        if kernel is None:
            return None
        stored = self.p.total if self.group == 1 else self.p.role(role)[1]
        return Prologue(self.p, self.numbers, role, kernel, self.width, self.value, self.base, stored)

    def fill(self, b: FunctionBuilder, role: str, *args: Val) -> None:
        """Computes elements of an operand (`codegen.matmul.prologue`)."""
        made = self.made_left if role == "a" else self.made_right
        assert made is not None
        b.call(made.function(f"{self.name}.made.{role}"), *args)

    # -- values --

    def value(self, b: FunctionBuilder, args: Val, size: Size) -> Val:
        """A size, in a function that has the argument block."""
        if isinstance(size, int):
            return i64(size)
        return b.load("i64", b.gep("i64", args, i64(self.places[size])))

    def steps_of(self, b: FunctionBuilder, args: Val) -> Val:
        """How many summands there are, of a row and a column."""
        k = self.value(b, args, self.p.k)
        return k if self.group == 1 else b.udiv(b.add(k, i64(self.group - 1)), i64(self.group))

    def elements_of(self, b: FunctionBuilder, args: Val, steps: tuple[Val, Val]) -> tuple[Val, Val]:
        """(first, how many) elements of some steps."""
        if self.group == 1:
            return steps
        first, count = (b.mul(x, i64(self.group)) for x in steps)
        return first, b.intrinsic("smin", count, b.sub(self.value(b, args, self.p.k), first))

    def _site(self, b: FunctionBuilder) -> Val:
        """The number of the step's site."""
        return b.trunc(b.load("i64", b.gep("i64", b.params[1], i64(self.site_at))), "i32")

    def slot(self, b: FunctionBuilder, args: Val, number: int) -> Val:
        return b.gep("i64", args, i64(self.first_slot + number))

    def base(self, b: FunctionBuilder, args: Val, buffer: str) -> Val:
        return b.load("ptr", b.gep("i64", args, i64(self.buffers.index(buffer))))

    # -- the function of the step --

    def _host(self, b: FunctionBuilder) -> None:
        ctx, args = b.params
        value = partial(self.value, b, args)
        m, n, k = value(self.p.m), value(self.p.n), self.steps_of(b, args)
        batch = value(self.p.count)
        tasks = self.kernel("tasks", self._tasks)
        row_blocks = b.udiv(b.add(m, i64(self.task_rows - 1)), i64(self.task_rows))
        if not self.packed_right:
            width = self.columns_of_task(b, n)
            count = b.mul(b.mul(batch, row_blocks), b.udiv(b.sub(b.add(n, width), i64(1)), width))
            cost = self._task_cost(b, m, n, k)
            own = self._before_tasks(b, batch, k)
            if self.single:
                b.call(tasks, ctx, args, i64(0), count)
            else:
                held = self._sums_of_blocks(b, count, cost, (n, k), own) if self.in_parts else None
                share_out(b, tasks, self.slot(b, args, NEXT), count, cost)
                if held is not None:
                    b.if_then(b.icmp("ne", held[0], NULL), partial(free, b, held))
            if own is not None:
                free(b, own)
            b.ret()
            return
        if self.checked:
            look_through(self, b, m, n)
        size = self._packed_size(b, k, n)
        workers = threads(b)
        total = b.add(size, b.mul(workers, i64(self.scratch))) if self.scratch else size
        blocks = b.udiv(b.add(n, i64(self.task_columns - 1)), i64(self.task_columns))
        beside = None if self.shared_right else self._beside(b, batch, b.mul(row_blocks, blocks), size)
        if beside is not None:
            total = b.select(beside, b.mul(workers, b.add(size, i64(self.scratch))), total)
        own = allocate(b, total, self._site(b))
        b.store(own[0], self.slot(b, args, PACKED))
        b.store(b.gep("i8", own[0], size), self.slot(b, args, SCRATCH))
        pack = self.kernel("pack", partial(pack_strip, self), abi.ONCE)

        def strip_at(pieces: Val, columns: Val) -> None:
            each = PACKING_COST + (0.0 if self.made_right is None else self.made_right.cost)
            columns_of_piece = self.width * piece_panels(self)
            cost = b.mul(b.intrinsic("smin", k, i64(piece_depth(self))), i64(int(each * columns_of_piece)))
            parallel(b, pack, pieces, cost)
            blocks = b.udiv(b.add(columns, i64(self.task_columns - 1)), i64(self.task_columns))
            count = b.mul(row_blocks, blocks)
            if self.shared_right:
                count = b.mul(count, batch)
            share_out(b, tasks, self.slot(b, args, NEXT), count, self._task_cost(b, m, n, k))

        def in_turn() -> None:
            one = partial(self._strips, b, args, strip_at)
            b.for_loop(i64(0), self.times_packed(b, batch), one, name="batch")

        if beside is None:
            in_turn()
        else:
            matrices = self.kernel("matrices", partial(self._matrices, pack, tasks))
            cost = b.udiv(b.mul(b.mul(m, n), k), i64(SUMS_PER_UNIT * self.numbers.lanes))
            cost = b.intrinsic("smax", cost, i64(1))
            b.if_then(beside, partial(share_out, b, matrices, self.slot(b, args, NEXT), batch, cost), in_turn)
        free(b, own)
        b.ret()

    def times_packed(self, b: FunctionBuilder, batch: Val) -> Val:
        """How often the right operand is packed: once for all matrices that share it, if there are any; where there are
        none, it has no memory."""
        return b.intrinsic("smin", batch, i64(1)) if self.shared_right else batch

    def _strips(self, b: FunctionBuilder, args: Val, run: Callable[[Val, Val], None], number: Val) -> None:
        """Runs `run(pieces, columns)` for the strips of matrix `number`: how much there is to pack, and of how many
        columns."""
        n, k = self.value(b, args, self.p.n), self.steps_of(b, args)
        strip, depth = self.strip_columns(b, k, n), piece_depth(self)
        pieces = b.udiv(b.add(k, i64(depth - 1)), i64(depth))
        b.store(number, self.slot(b, args, BATCH))

        def one(first: Val) -> None:
            b.store(first, self.slot(b, args, STRIP))
            columns = b.intrinsic("smin", strip, b.sub(n, first))
            width = self.width * piece_panels(self)
            run(b.mul(b.udiv(b.add(columns, i64(width - 1)), i64(width)), pieces), columns)

        b.for_loop(i64(0), n, one, step=strip, name="strip")

    def _packed_size(self, b: FunctionBuilder, k: Val, n: Val) -> Val:
        """Bytes of a strip that is packed, in whole lines of the cache."""
        size = b.mul(b.mul(k, self.strip_columns(b, k, n)), i64(self.itemsize))
        return b.and_(b.add(size, i64(127)), i64(-64))

    # -- many matrices --

    def _beside(self, b: FunctionBuilder, batch: Val, tasks: Val, size: Val) -> Val | None:
        """i1: whether threads take whole matrices, which each packs for itself: where there are so many that none waits
        long for the last, or one by one they would leave threads without tasks; and where what is packed at a time fits
        the cache. None if it never is."""
        if self.p.count == 1:
            return None
        workers = threads(b)
        short = b.and_(b.icmp("slt", tasks, b.mul(workers, i64(2))), b.icmp("sge", batch, workers))
        many = b.or_(b.icmp("sge", batch, b.mul(workers, i64(8))), short)
        fits = b.icmp("sle", b.mul(workers, size), i64(self.caches.last // CACHED_SHARE))
        return b.and_(b.and_(many, b.icmp("sgt", workers, i64(1))), fits)

    def _matrices(self, pack: Function, tasks: Function, b: FunctionBuilder) -> None:
        """The matrices that the workers [begin, end) get hold of; each has an argument block and memory of its own."""
        ctx, args, begin, end = b.params
        own = b.alloca("i64", self.first_slot + SLOTS, 8)
        copied = [*range(self.first_slot), *([self.first_slot + DOTS] if self.checked else [])]
        for at in copied:
            b.store(b.load("i64", b.gep("i64", args, i64(at))), b.gep("i64", own, i64(at)))
        batch, n = (self.value(b, args, x) for x in (self.p.count, self.p.n))
        k = self.steps_of(b, args)
        size = self._packed_size(b, k, n)
        step, all_memory = b.add(size, i64(self.scratch)), b.load("ptr", self.slot(b, args, PACKED))

        def strip(pieces: Val, columns: Val) -> None:
            b.call(pack, ctx, own, i64(0), pieces)
            b.store(i64(0), self.slot(b, own, NEXT))
            b.call(tasks, ctx, own, i64(0), i64(1))

        def worker(number: Val) -> None:
            memory = b.gep("i8", all_memory, b.mul(number, step))
            b.store(memory, self.slot(b, own, PACKED))
            b.store(b.gep("i8", memory, size), self.slot(b, own, SCRATCH))
            take(b, self.slot(b, args, NEXT), batch, partial(self._strips, b, own, strip))

        b.for_loop(begin, end, worker, name="worker", flags="nuw nsw")

    def _before_tasks(self, b: FunctionBuilder, rows: Val, k: Val) -> Memory | None:
        """Memory of tasks that read the right operand as it lies: for what each worker packs, or for rows that are
        computed here."""
        args = b.params[1]
        if self.whole_rows:
            assert self.made_left is not None
            total = b.add(b.mul(b.mul(rows, k), i64(self.itemsize)), i64(64))
            own = allocate(b, total, self._site(b))
            b.store(own[0], self.slot(b, args, PACKED))
            cost = b.mul(k, i64(max(1, int(1000 * self.made_left.cost))))
            parallel(b, self.kernel("rows", partial(compute_rows, self), abi.ONCE), rows, b.udiv(cost, i64(1000)))
            return own
        if not self.scratch:
            return None
        workers = i64(1) if self.single else threads(b)
        own = allocate(b, b.mul(workers, i64(self.scratch)), self._site(b))
        b.store(own[0], self.slot(b, args, SCRATCH))
        return own

    # -- sums in parts --

    def _too_few(self, b: FunctionBuilder, count: Val, cost: Val, k: Val) -> Val:
        """i1: whether so many tasks leave threads without work that is worth one, which parts of sums would give."""
        workers = threads(b)
        few = b.icmp("slt", count, b.mul(workers, i64(2)))
        worth = b.icmp("sgt", b.mul(count, cost), i64(int(PARALLEL_COST)))
        several = b.and_(b.icmp("sgt", workers, i64(1)), b.icmp("sgt", k, i64(SUM_BLOCK)))
        return b.and_(b.and_(few, worth), several)

    def _sums_of_blocks(
        self, b: FunctionBuilder, tasks: Val, cost: Val, sizes: tuple[Val, Val], own: Memory | None
    ) -> Memory:
        """Where there are too few tasks: makes the sums of all blocks of the summation, in memory that is returned, and
        that the tasks then add up; `own` is what the step has allocated before."""
        (n, k), batch = sizes, self.value(b, b.params[1], self.p.count)
        place = self.slot(b, b.params[1], PARTS)
        b.store(NULL, place)

        def make() -> Memory:
            blocks = b.udiv(b.add(k, i64(SUM_BLOCK - 1)), i64(SUM_BLOCK))
            total = b.mul(b.mul(b.mul(blocks, batch), self.padded(b, n)), i64(self.itemsize))
            memory, _ = allocate(b, total, self._site(b), own)
            b.store(memory, place)
            each = b.mul(b.intrinsic("smin", n, i64(self.task_columns)), i64(SUM_BLOCK // THIN_PER_UNIT))
            parallel(b, self.kernel("parts", self._parts, abi.ONCE), b.mul(tasks, blocks), each)
            return memory, total

        memory, total = b.if_then(self._too_few(b, tasks, cost, k), make, lambda: (NULL, i64(0)))
        return memory, total

    def padded(self, b: FunctionBuilder, n: Val) -> Val:
        """The columns of the sums of a block, in whole vectors."""
        return b.and_(b.add(n, i64(self.numbers.lanes - 1)), i64(-self.numbers.lanes))

    def _parts(self, b: FunctionBuilder) -> None:
        """The sums [begin, end) of blocks."""
        _, args, begin, end = b.params
        b.for_loop(begin, end, Task(self, b, args, sums_only=True).part, name="part", flags="nuw nsw")

    # -- how much there is to do --

    def columns_of_task(self, b: FunctionBuilder, n: Val) -> Val:
        """The columns of a task; fewer where each of few columns is read for itself."""
        if self.p.thin != "along":
            return i64(self.task_columns)
        some = b.select(b.icmp("slt", n, i64(ALONG_COLUMNS)), i64(COLUMNS), i64(4 * COLUMNS))
        return b.select(b.icmp("slt", n, i64(16 * ALONG_COLUMNS)), some, i64(ALONG_COLUMNS))

    def strip_columns(self, b: FunctionBuilder, k: Val, n: Val) -> Val:
        """How many columns are packed at a time: what fits the cache, in whole tasks."""
        room = i64(self.caches.last // CACHED_SHARE // self.itemsize)
        fits = b.udiv(room, b.intrinsic("smax", k, i64(1)))
        fits = b.mul(b.udiv(fits, i64(self.task_columns)), i64(self.task_columns))
        padded = b.mul(b.udiv(b.add(n, i64(self.width - 1)), i64(self.width)), i64(self.width))
        return b.intrinsic(
            "smin", b.intrinsic("smax", fits, i64(self.task_columns)), b.intrinsic("smax", padded, i64(1))
        )

    def _task_cost(self, b: FunctionBuilder, m: Val, n: Val, k: Val) -> Val:
        """Cost units of one task, about."""
        rows, columns = b.intrinsic("smin", m, i64(self.task_rows)), b.intrinsic("smin", n, self.columns_of_task(b, n))
        per_unit = THIN_PER_UNIT if self.p.thin else SUMS_PER_UNIT * self.numbers.lanes
        cost = b.udiv(b.mul(b.mul(rows, columns), k), i64(per_unit))
        if self.made_left is None or self.whole_rows:
            return cost
        return b.add(cost, b.udiv(b.mul(b.mul(rows, k), i64(int(1000 * self.made_left.cost))), i64(1000)))

    def matrix(self, b: FunctionBuilder, args: Val, role: str, number: Val) -> Val:
        """The address of matrix `number` of the batch."""
        region, dtype = self.p.role(role)
        return self.numbers.at(b, dtype, self.base(b, args, region.buffer), self.offset(b, args, role, number))

    def offset(self, b: FunctionBuilder, args: Val, role: str, number: Val) -> Val:
        """Where that lies in its buffer, in elements."""
        layout = self.p.role(role)[0].layout
        at = self.value(b, args, layout.offset)
        for size, stride in reversed(list(zip(layout.shape[:-2], layout.strides[:-2], strict=True))):
            if size == 1:
                continue
            extent = self.value(b, args, size)
            at = b.add(at, b.mul(b.urem(number, extent), self.value(b, args, stride)))
            number = b.udiv(number, extent)
        return at

    # -- tasks --

    def _tasks_together(self, b: FunctionBuilder, count: Val, task: Task) -> Val:
        """How many tasks a worker takes in turn, so that it is the one that gets to the matrix it looks ahead to: whole
        matrices, and so few that no worker waits long for the last."""
        each = b.mul(task.row_blocks, task.column_blocks)
        share = b.udiv(count, b.mul(b.mul(threads(b), each), i64(TURNS)))
        return b.mul(each, b.intrinsic("smax", b.intrinsic("smin", share, i64(MATRICES_TOGETHER)), i64(1)))

    def _tasks(self, b: FunctionBuilder) -> None:
        """The tasks [begin, end); or, where there may be threads, those that the workers [begin, end) get hold of."""
        _, args, begin, end = b.params
        task = Task(self, b, args)
        if self.single:
            task.begin()
            memory = b.load("ptr", self.slot(b, args, SCRATCH)) if self.scratch else NULL
            b.for_loop(begin, end, lambda number: task.run(number, memory), name="task", flags="nuw nsw")
            return
        count = task.count()

        def worker(number: Val) -> None:
            memory = NULL
            if self.scratch:
                memory = b.gep("i8", b.load("ptr", self.slot(b, args, SCRATCH)), b.mul(number, i64(self.scratch)))
            task.begin()
            together = self._tasks_together(b, count, task) if self.looks_ahead else None
            take(b, self.slot(b, args, NEXT), count, lambda taken: task.run(taken, memory), together)

        b.for_loop(begin, end, worker, name="worker", flags="nuw nsw")
        if self.stores_past:
            emit_fence(b)
