"""The verifier of loop programs.

What goes in: a `Program`. What comes out: nothing, or a `VerifyError` that names the step and what is wrong.

What holds afterwards: operands come before their uses and have the dtypes that are asked for; buffers, sites,
accumulators and tables exist; every symbol of an index is bound where it is used, and one name means one symbol;
inputs, outputs and constants are described completely; constants are not stored to; a table is a pure function of its
key and of memory that its kernel does not store to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from broadloom.dtypes import DType, bool_, int64
from broadloom.errors import DTypeError, VerifyError
from broadloom.fusion.handlers import effects_of, facts_of
from broadloom.fusion.ir import (
    Accumulated,
    Accumulator,
    Body,
    Buffer,
    Compute,
    Extern,
    IndexValue,
    Indirect,
    Instruction,
    Kernel,
    Literalv,
    Load,
    Lookup,
    Loop,
    Masked,
    Program,
    Reduce,
    Ring,
    Running,
    Stage,
    Store,
    Table,
)
from broadloom.fusion.merge import is_pointwise
from broadloom.fusion.prologue import axes_of
from broadloom.ops.table import OPS
from broadloom.records import dataclass
from broadloom.symbolic import Size, Symbol, free_symbols


def verify(program: Program) -> None:
    """Raises `VerifyError` when `program` breaks an invariant."""
    bound = [b[0] for b in program.bindings]
    if len(set(bound)) != len(bound) or set(bound) != set(program.symbols):
        raise VerifyError("size symbols and bindings differ", got=f"{list(program.symbols)}, bound {bound}")
    buffers = {b.name: b for b in program.buffers}
    if len(buffers) != len(program.buffers):
        raise VerifyError("two buffers have one name", got=", ".join(b.name for b in program.buffers))
    symbols = {s.name: s for s in program.symbols}
    for buffer in program.buffers:
        _verify_buffer(buffer, symbols)
    for kind in ("input", "output"):
        positions = sorted(b.position for b in program.buffers if b.kind == kind)
        if len(set(positions)) != len(positions) or (kind == "output" and positions != list(range(len(positions)))):
            raise VerifyError(f"{kind} buffers are misnumbered", got=positions)
    local = [n for step in program.steps if isinstance(step, Kernel) for n in step.local]
    if sorted(local) != sorted(b.name for b in program.buffers if b.kind == "local"):
        raise VerifyError("local buffers are not those of one kernel each", got=", ".join(local))
    for step in program.steps:
        if isinstance(step, Kernel):
            _KernelVerifier(step, buffers, len(program.sites), dict(symbols)).run()
        else:
            _verify_extern(step, buffers, len(program.sites), symbols)


def _verify_buffer(buffer: Buffer, symbols: Mapping[str, Symbol]) -> None:
    layout = buffer.layout
    if len(layout.shape) != len(layout.strides):
        raise VerifyError("layout has not one stride an axis", got=f"{buffer.name}: {layout}")
    for size in (*layout.shape, *layout.strides, layout.offset):
        _verify_size(size, symbols, buffer.name)
    if (buffer.kind in ("input", "output")) != (buffer.position >= 0):
        raise VerifyError("buffer position does not fit its kind", got=f"{buffer.name}: {buffer.position}")
    if buffer.kind == "local" and not all(isinstance(n, int) for n in (*layout.shape, *layout.strides)):
        raise VerifyError("local buffer is of no constant size", got=f"{buffer.name}: {layout}")
    if (buffer.kind == "constant") != (buffer.constant is not None):
        raise VerifyError("constant data does not fit the buffer's kind", got=buffer.name)


def _verify_size(size: Size, symbols: Mapping[str, Symbol], where: str) -> None:
    for symbol in () if isinstance(size, int) else free_symbols(size):
        if symbols.get(symbol.name) is not symbol:
            raise VerifyError("symbol is not bound here", got=f"{symbol} in {size}, {where}")


def _verify_extern(step: Extern, buffers: Mapping[str, Buffer], sites: int, symbols: Mapping[str, Symbol]) -> None:
    for region in (*step.operands, *step.results):
        if region.buffer not in buffers:
            raise VerifyError("no such buffer", got=f"{region.buffer} in {step.name}")
        for size in (*region.layout.shape, *region.layout.strides, region.layout.offset):
            _verify_size(size, symbols, step.name)
    if any(buffers[r.buffer].kind == "constant" for r in step.results):
        raise VerifyError("constant is stored to", got=step.name)
    for kernel in step.prologues:
        made = [r for r in step.operands if {r.buffer} == effects_of(kernel).stored]
        if len(made) != 1 or axes_of(kernel, made[0]) is None:
            raise VerifyError("prologue does not make an operand", got=step.name)
    for kernel in step.fused:
        if not is_pointwise(kernel):
            raise VerifyError("code that is fused with a product is not pointwise", got=step.name)
        _KernelVerifier(kernel, buffers, sites, dict(symbols)).run()
    if step.site >= sites:
        raise VerifyError("no such site", got=f"{step.site} in {step.name}")


@dataclass(slots=True)
class _KernelVerifier:
    kernel: Kernel
    buffers: Mapping[str, Buffer]
    sites: int
    symbols: dict[str, Symbol]
    tables: Mapping[str, Table] = field(default_factory=dict)

    def fail(self, what: str, got: object) -> VerifyError:
        return VerifyError(what, got=f"{got} in {self.kernel.name}")

    def run(self) -> None:
        accumulators = {a.name: a for a in self.kernel.accumulators}
        if len(accumulators) != len(self.kernel.accumulators):
            raise self.fail("two accumulators have one name", list(accumulators))
        tables = {t.name: t for t in self.kernel.tables}
        if len(tables) != len(self.kernel.tables) or tables.keys() & self.buffers.keys():
            raise self.fail("a table has the name of another table or of a buffer", list(tables))
        for table in self.kernel.tables:
            self.table(table)
        self.tables = tables
        self.open(self.kernel.outer)
        for ring in self.kernel.rings:
            self.ring(ring)
        self.stages(self.kernel.stages, accumulators)

    def stages(self, stages: Sequence[Stage], accumulators: Mapping[str, Accumulator]) -> None:
        for stage in stages:
            outside = dict(self.symbols)
            self.open(stage.loops)
            self.body(stage.body, [], accumulators)
            self.symbols = outside

    def ring(self, ring: Ring) -> None:
        if ring.buffer not in self.kernel.local or not self.kernel.outer:
            raise self.fail("ring without a local buffer, or without a loop to run along", ring.buffer)
        if ring.step < 1 or ring.behind > ring.ahead:
            raise self.fail("ring does not move forward", f"step {ring.step}, {ring.behind} to {ring.ahead}")
        outside = dict(self.symbols)
        last = self.kernel.outer[-1].variable
        del self.symbols[last.name]  # rows are filled ahead of it
        self.size(ring.extent)
        self.bind(ring.row)
        self.stages(ring.stages, {})
        if any(facts_of(s.body).stored != {ring.buffer} for s in ring.stages):
            raise self.fail("ring's stages do not fill it, or more", ring.buffer)
        self.symbols = outside

    def table(self, table: Table) -> None:
        if table.key.itemsize != 1 or (table.variable.lo, table.variable.hi) != (0, table.entries - 1):
            raise self.fail("table is not over the values of one byte", f"{table.key}, {table.variable}")
        outside = dict(self.symbols)
        self.bind(table.variable)
        dtypes: list[DType | None] = []
        self.body(table.body, dtypes, {})
        self.symbols = outside
        if not dtypes or dtypes[-1] is not table.dtype:
            raise self.fail("table does not end with its entry", table.name)
        if not all(isinstance(i, Literalv | IndexValue | Compute | Load) for i in table.body.instructions):
            raise self.fail("table is no pure function", table.name)
        stored = {b for s in self.kernel.stages for b in facts_of(s.body).stored}
        if stored & facts_of(table.body).loaded:
            raise self.fail("table reads what its kernel stores", table.name)

    def open(self, loops: Sequence[Loop]) -> None:
        for loop in loops:
            self.size(loop.extent)
            self.bind(loop.variable)

    def bind(self, symbol: Symbol) -> None:
        if symbol.name in self.symbols:
            raise self.fail("symbol name is bound twice", symbol)
        self.symbols[symbol.name] = symbol

    def size(self, size: Size) -> None:
        _verify_size(size, self.symbols, self.kernel.name)

    def body(self, body: Body, dtypes: list[DType | None], accumulators: Mapping[str, Accumulator]) -> None:
        if body.base != len(dtypes):
            raise self.fail("body's base is not where its numbers begin", body.base)
        for instruction in body.instructions:
            dtypes.append(self.instruction(instruction, dtypes, accumulators))

    def operand(self, operand: int, dtypes: Sequence[DType | None]) -> DType:
        found = dtypes[operand] if 0 <= operand < len(dtypes) else None
        if found is None:
            raise self.fail("operand has no value", f"%{operand}")
        return found

    def buffer(self, name: str) -> Buffer:
        if name not in self.buffers:
            raise self.fail("no such buffer", name)
        if self.buffers[name].kind == "local" and name not in self.kernel.local:
            raise self.fail("local buffer of another kernel", name)
        return self.buffers[name]

    def instruction(
        self, i: Instruction, dtypes: list[DType | None], accumulators: Mapping[str, Accumulator]
    ) -> DType | None:
        match i:
            case Load(buffer, index, dtype):
                self.buffer(buffer)
                self.size(index)
                return dtype
            case Store():
                self.store(i, dtypes)
                return None
            case Literalv(dtype, data):
                if len(data) != dtype.itemsize:
                    raise self.fail("literal has the wrong number of bytes", f"{dtype} {data.hex()}")
                return dtype
            case IndexValue(index, dtype):
                self.size(index)
                return dtype
            case Compute():
                return self.compute(i, [self.operand(a, dtypes) for a in i.args])
            case Indirect(value, size, symbol, site, key):
                if not self.operand(value, dtypes).is_integer or not -1 <= site < self.sites:
                    raise self.fail("check has no integer index or no site", f"{i}")
                self.size(size)
                self.size(key)
                self.bind(symbol)
                return None
            case Reduce(name, value, position):
                self.fold(name, accumulators, self.operand(value, dtypes))
                if position is not None and self.operand(position, dtypes) is not int64:
                    raise self.fail("position is not int64", name)
                if (position is not None) != (accumulators[name].kind in ("argmax", "argmin")):
                    raise self.fail("position does not fit the accumulator's kind", name)
                return None
            case Running(name, value, dtype):
                self.fold(name, accumulators, self.operand(value, dtypes))
                return dtype
            case Accumulated(name, dtype):
                if name not in accumulators or accumulators[name].dtype is not dtype:
                    raise self.fail("no such accumulator, or of another dtype", name)
                return dtype
            case Masked():
                return self.masked(i, dtypes, accumulators)
            case Lookup(name, value, dtype):
                table = self.tables.get(name)
                if table is None or table.dtype is not dtype or self.operand(value, dtypes) is not table.key:
                    raise self.fail("no such table, or of other dtypes", i)
                return dtype
        raise self.fail("unknown instruction", type(i).__name__)

    def store(self, i: Store, dtypes: Sequence[DType | None]) -> None:
        dtype, buffer = self.operand(i.value, dtypes), self.buffer(i.buffer)
        self.size(i.index)
        if buffer.kind == "constant":
            raise self.fail("constant is stored to", i.buffer)
        if buffer.dtype.itemsize != dtype.itemsize and buffer.dtype is not dtype:
            raise self.fail("value does not have the buffer's width", f"{dtype} into {i.buffer}: {buffer.dtype}")

    def fold(self, name: str, accumulators: Mapping[str, Accumulator], dtype: DType) -> None:
        found = accumulators.get(name)
        if found is None:
            raise self.fail("no such accumulator", name)
        if dtype not in (found.value_dtype, found.dtype):
            raise self.fail("value does not have the accumulator's dtype", f"{dtype} into {name}: {found.value_dtype}")

    def compute(self, i: Compute, operands: list[DType]) -> DType:
        op = OPS.get(i.op)
        if op is None:
            raise self.fail("no such op", i.op)
        try:
            (expected,) = op.result_dtypes(tuple(operands), dict(i.attrs))
        except DTypeError as error:
            raise self.fail(str(error), i) from error
        if expected is not i.dtype:
            raise self.fail(f"result should be {expected}", i)
        return i.dtype

    def masked(self, i: Masked, dtypes: list[DType | None], accumulators: Mapping[str, Accumulator]) -> DType:
        if self.operand(i.mask, dtypes) is not bool_ or self.operand(i.other, dtypes) is not i.dtype:
            raise self.fail("masked operands have the wrong dtypes", i)
        outside, inner = dict(self.symbols), list(dtypes)
        self.body(i.body, inner, accumulators)
        if self.operand(i.value, inner) is not i.dtype:
            raise self.fail("masked value has the wrong dtype", i)
        self.symbols = outside
        return i.dtype
