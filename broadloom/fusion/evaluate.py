"""The interpreter of loop programs: runs a `Program` with NumPy, for tests and for comparing levels.

What goes in: a `Program` and the input arrays. What comes out: the output arrays; inputs that the program stores to
are changed in place. Or a `Failure`: the failed check with the lowest (site, key).

What holds: outer points are evaluated side by side, as arrays (one by one in a serial kernel); stage loops run in
order; every access is checked to lie within its buffer; the ops' own reference kernels give the values. Float sums
that are not cumulative are held in double precision.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from broadloom.dtypes import DType, int64
from broadloom.errors import VerifyError
from broadloom.fusion.evaluate_calls import call
from broadloom.fusion.evaluate_memory import Array, Environment, Memory, index_of, memory_of
from broadloom.fusion.ir import (
    Accumulated,
    Accumulator,
    Body,
    Buffer,
    Compute,
    IndexValue,
    Indirect,
    Instruction,
    Kernel,
    Literalv,
    Load,
    Lookup,
    Masked,
    Program,
    Reduce,
    Region,
    Running,
    Stage,
    Store,
    Table,
)
from broadloom.fusion.memory_plan import elements
from broadloom.ops.table import OPS
from broadloom.records import dataclass
from broadloom.symbolic import Size
from broadloom.symbolic import evaluate as evaluate_size


class Failure(Exception):
    """A failed run-time check of the program: its site, its key, and the numbers of the
    message."""

    def __init__(self, site: int, key: int, payload: tuple[int, ...]) -> None:
        super().__init__(site, key, payload)
        self.site, self.key, self.payload = site, key, payload


# ---- accumulators -------------------------------------------------------------------------------------------------

_FOLDS: dict[str, Callable[[Array, Array], Array]] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "any": np.logical_or,
    "all": np.logical_and,
    "xor": np.bitwise_xor,
}


@dataclass(slots=True)
class _State:
    """One accumulator over a vector of points."""

    accumulator: Accumulator
    wide: np.dtype[Any]
    value: Array
    started: Array
    position: Array

    def fold(self, at: Array, values: Array, positions: Array | None) -> None:
        kind = self.accumulator.kind
        old, new = self.value[at], values.astype(self.wide)
        if kind in ("argmax", "argmin"):
            assert positions is not None
            takes = _better(kind == "argmax", old, new) | ~self.started[at]
            self.position[at] = np.where(takes, positions, self.position[at])
            folded = np.where(takes, new, old)
        else:
            # The value of an empty fold is only seen where nothing is folded, so the first value replaces it; but a
            # sum starts from +0.
            first = new + 0 if kind == "sum" and self.wide.kind in "fc" else new
            folded = np.where(self.started[at], _FOLDS[kind](old, new), first).astype(self.wide)
        self.value[at] = folded
        self.started[at] = True


def _better(largest: bool, old: Array, new: Array) -> Array:
    """Strictly more extreme, or the first nan."""
    if new.dtype.kind == "c":
        more = (new.real > old.real) | ((new.real == old.real) & (new.imag > old.imag))
        less = (new.real < old.real) | ((new.real == old.real) & (new.imag < old.imag))
        beats = more if largest else less
        return np.asarray((beats | np.isnan(new)) & ~np.isnan(old))
    beats = new > old if largest else new < old
    if new.dtype.kind in "iub":
        return np.asarray(beats)
    return np.asarray((beats | np.isnan(new)) & ~np.isnan(old))


def _start(a: Accumulator, points: int, exact: bool) -> _State:
    dtype = a.value_dtype if a.kind in ("argmax", "argmin") else a.dtype
    wide = dtype.numpy
    if dtype.is_inexact and a.kind in ("sum", "prod") and not exact:
        wide = np.dtype(np.complex128 if dtype.kind == "c" else np.float64)
    value: Any = 1 if a.kind in ("prod", "all") else 0
    if a.kind == "sum" and exact and dtype.is_inexact:
        value = complex(-0.0, -0.0) if dtype.kind == "c" else -0.0  # what leaves the first element as it is
    if a.kind in ("max", "min", "fmax", "fmin"):
        value = _extreme(dtype, lowest=a.kind in ("max", "fmax"))
    if a.kind in ("fmax", "fmin") and dtype.is_inexact:
        value = np.nan
    filled = np.full(points, value, wide)
    return _State(a, wide, filled, np.zeros(points, np.bool_), np.zeros(points, np.int64))


def _extreme(dtype: DType, *, lowest: bool) -> Any:
    if dtype.kind == "b":
        return not lowest
    if dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        return info.min if lowest else info.max
    limit = -np.inf if lowest else np.inf
    return complex(limit, limit) if dtype.kind == "c" else limit


# ---- bodies -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Frame:
    """One run of a body over the points `at` of the kernel's vector; all values have that length."""

    run: _KernelRun
    at: Array
    symbols: Environment
    values: list[Array | None] = field(default_factory=list)
    dtypes: list[DType] = field(default_factory=list)

    def get(self, operand: int) -> Array:
        value = self.values[operand]
        if value is None:
            raise VerifyError("operand has no value", got=operand)
        return value

    def index(self, e: Size) -> Array:
        return np.broadcast_to(np.asarray(index_of(e, self.symbols), np.int64), self.at.shape)

    def kept(self, keep: Array) -> _Frame:
        """The frame of some of the points."""
        symbols = {s: v[keep] if isinstance(v, np.ndarray) else v for s, v in self.symbols.items()}
        values = [None if v is None else v[keep] for v in self.values]
        return _Frame(self.run, self.at[keep], symbols, values, list(self.dtypes))

    def body(self, body: Body) -> _Frame:
        """Runs all instructions; the frame of the points that no check on an empty axis dropped."""
        frame = self
        for instruction in body.instructions:
            if isinstance(instruction, Indirect):
                frame = frame.check(instruction)
                value, dtype = None, int64
            else:
                value, dtype = frame.step(instruction)
            frame.values.append(value)
            frame.dtypes.append(dtype)
        return frame

    def step(self, instruction: Instruction) -> tuple[Array | None, DType]:
        memory, states = self.run.memory, self.run.states
        match instruction:
            case Load(buffer, index, dtype):
                return memory[buffer].load(self.index(index), dtype), dtype
            case Store(buffer, index, operand, mode):
                dtype = self.dtypes[operand]
                where, value = self.index(index), self.get(operand)
                if mode == "add":
                    self.add(memory[buffer], where, value, dtype)
                else:
                    memory[buffer].store(where, value, dtype)
                return None, dtype
            case Literalv(dtype, data):
                return np.repeat(np.frombuffer(data, dtype.numpy), self.at.size), dtype
            case IndexValue(index, dtype):
                return self.index(index).astype(dtype.numpy), dtype
            case Compute(op, args, dtype, attrs):
                return self.compute(op, [self.get(a) for a in args], dtype, dict(attrs)), dtype
            case Reduce(name, operand, position):
                states[name].fold(self.at, self.get(operand), None if position is None else self.get(position))
                return None, int64
            case Running(name, operand, dtype):
                states[name].fold(self.at, self.get(operand), None)
                return states[name].value[self.at].astype(dtype.numpy), dtype
            case Accumulated(name, dtype):
                state = states[name]
                found = state.position if state.accumulator.kind in ("argmax", "argmin") else state.value
                with np.errstate(all="ignore"):
                    return found[self.at].astype(dtype.numpy), dtype
            case Masked():
                return self.masked(instruction), instruction.dtype
            case Lookup(table, operand, dtype):
                return self.run.tables[table][self.get(operand).view(np.uint8)], dtype
        raise VerifyError("unknown instruction", got=type(instruction).__name__)

    def compute(self, op: str, operands: list[Array], dtype: DType, attrs: dict[str, object]) -> Array:
        try:
            with np.errstate(all="ignore"):
                result = OPS[op].reference(*operands, **attrs)
        except ValueError:
            if self.run.failure is None:
                raise
            result = 0  # of what failed its check, as a negative exponent: never delivered
        return np.broadcast_to(np.asarray(result, dtype.numpy), self.at.shape)

    def add(self, memory: Memory, where: Array, value: Array, dtype: DType) -> None:
        """Element by element: indices may be equal."""
        with np.errstate(all="ignore"):
            for k in range(where.size):
                old = memory.load(where[k], dtype)
                memory.store(where[k], np.asarray(OPS["add"].reference(old, value[k : k + 1])), dtype)

    def masked(self, masked: Masked) -> Array:
        mask = self.get(masked.mask)
        result = np.array(self.get(masked.other))
        inner = self.kept(mask)
        inner.values, inner.dtypes = inner.values[: masked.body.base], inner.dtypes[: masked.body.base]
        lanes = np.flatnonzero(mask)
        order = dict(zip(inner.at.tolist(), lanes.tolist(), strict=True))
        done = inner.body(masked.body)
        if done.at.size:
            result[[order[p] for p in done.at.tolist()]] = done.get(masked.value)
        return result

    def check(self, instruction: Indirect) -> _Frame:
        given = self.get(instruction.value)
        size = self.index(instruction.size)
        wrapped = np.array(
            [int(g) + int(s) if int(g) < 0 else int(g) for g, s in zip(given, size, strict=True)], object
        )
        bad = np.array([not 0 <= w < s for w, s in zip(wrapped, size, strict=True)], np.bool_)
        keys = self.index(instruction.key)
        for k in np.flatnonzero(bad).tolist():
            self.run.fail(instruction.site, int(keys[k]), (int(given[k]), int(size[k])))
        good = ~bad | (size > 0)
        frame = self.kept(good)
        frame.symbols[instruction.symbol] = np.where(bad, 0, wrapped)[good].astype(np.int64)
        return frame


class _KernelRun:
    """One run of one kernel over a vector of outer points."""

    def __init__(self, kernel: Kernel, memory: Mapping[str, Memory], symbols: Environment) -> None:
        self.kernel, self.memory, self.symbols = kernel, memory, symbols
        self.states: dict[str, _State] = {}
        self.tables: dict[str, Array] = {}
        self.failure: tuple[int, int, tuple[int, ...]] | None = None

    def fail(self, site: int, key: int, payload: tuple[int, ...]) -> None:
        if self.failure is None or (site, key) < self.failure[:2]:
            self.failure = (site, key, payload)

    def run(self) -> None:
        self.tables = {t.name: self._entries(t) for t in self.kernel.tables}
        extents = [evaluate_size(loop.extent, self.symbols) for loop in self.kernel.outer]
        points = np.stack([g.reshape(-1) for g in np.indices(extents)]) if extents else np.zeros((0, 1), np.int64)
        if self.kernel.local:
            self._runs(points)
        elif self.kernel.serial:
            for k in range(points.shape[1]):
                self._points(points[:, k : k + 1])
        elif points.shape[1]:
            self._points(points)
        if self.failure is not None:
            raise Failure(*self.failure)

    def _runs(self, points: Array) -> None:
        """The points one after the other, each after the rows of the rings that it needs; a run is all the values of
        the last outer loop."""
        length = evaluate_size(self.kernel.outer[-1].extent, self.symbols) if self.kernel.outer else 1
        for k in range(points.shape[1]):
            if k % length == 0:
                symbols: Environment = {**self.symbols}
                symbols.update({x.variable: int(v) for x, v in zip(self.kernel.outer, points[:, k], strict=True)})
                rows = [_clip(r.behind, evaluate_size(r.extent, symbols) - 1) for r in self.kernel.rings]
                for y in range(-self.kernel.lead, 0):
                    self._fill(y, rows, symbols)
            self._fill(k % length, rows, symbols)
            self._points(points[:, k : k + 1])

    def _fill(self, y: int, rows: list[int], symbols: Environment) -> None:
        for number, ring in enumerate(self.kernel.rings):
            stop = _clip(ring.step * y + ring.ahead + 1, evaluate_size(ring.extent, symbols))
            for row in range(rows[number], stop):
                for stage in ring.stages:
                    self._stage(stage, np.arange(1), {**symbols, ring.row: row})
            rows[number] = max(rows[number], stop)

    def _entries(self, table: Table) -> Array:
        frame = _Frame(self, np.arange(table.entries), {**self.symbols, table.variable: np.arange(table.entries)})
        return frame.body(table.body).get(len(table.body.instructions) - 1)

    def _points(self, points: Array) -> None:
        count = points.shape[1]
        symbols = dict(self.symbols)
        symbols.update({loop.variable: row for loop, row in zip(self.kernel.outer, points, strict=True)})
        running = {i.name for s in self.kernel.stages for i in s.body.instructions if isinstance(i, Running)}
        self.states = {a.name: _start(a, count, a.name in running) for a in self.kernel.accumulators}
        for stage in self.kernel.stages:
            self._stage(stage, np.arange(count), symbols)

    def _stage(self, stage: Stage, at: Array, symbols: Environment) -> None:
        limits = [np.broadcast_to(np.asarray(index_of(p.extent, symbols), np.int64), at.shape) for p in stage.loops]
        for step in itertools.product(*(range(int(limit.max(initial=0))) for limit in limits)):
            active = np.ones(at.shape, np.bool_)
            for limit, value in zip(limits, step, strict=True):
                active &= value < limit
            frame = _Frame(self, at, symbols).kept(active)
            frame.symbols.update({loop.variable: value for loop, value in zip(stage.loops, step, strict=True)})
            frame.body(stage.body)


def _clip(value: int, top: int) -> int:
    return max(0, min(value, top))


# ---- programs -----------------------------------------------------------------------------------------------------


def evaluate(
    program: Program, inputs: Sequence[Array], constants: Mapping[str, Array] | None = None
) -> tuple[Array, ...]:
    """Runs `program`. `constants` holds the arrays that constant buffers name by digest."""
    symbols = bind(program, inputs)
    memory: dict[str, Memory] = {}
    results: dict[int, Array] = {}
    for buffer in program.buffers:
        if buffer.kind == "input":
            memory[buffer.name] = memory_of(inputs[buffer.position])
        elif buffer.kind == "constant":
            memory[buffer.name] = Memory(_constant(buffer, constants or {}), 0)
        else:
            size = evaluate_size(elements(buffer.layout), symbols) * buffer.dtype.itemsize
            memory[buffer.name] = Memory(np.full(size, 0xA5, np.uint8), 0)
        if buffer.kind == "output":
            whole = Region(buffer.name, buffer.layout)
            results[buffer.position] = memory[buffer.name].view(whole, buffer.dtype, symbols)
    dtypes = {b.name: b.dtype for b in program.buffers}
    for step in program.steps:
        if isinstance(step, Kernel):
            _KernelRun(step, memory, symbols).run()
        else:
            for prologue in step.prologues:
                _KernelRun(prologue, memory, symbols).run()
            views = [memory[r.buffer].view(r, dtypes[r.buffer], symbols) for r in (*step.operands, *step.results)]
            bad = call(step, views)
            if bad is not None:
                raise Failure(step.site, bad[0], bad)
            if step.epilogue is not None:
                _KernelRun(step.epilogue, memory, symbols).run()
    return tuple(results[k] for k in sorted(results))


def bind(program: Program, inputs: Sequence[Array]) -> Environment:
    """The values of the size symbols for these inputs."""
    symbols: Environment = {}
    for symbol, position, what, axis in program.bindings:
        array = inputs[position]
        if what == "size":
            symbols[symbol] = array.shape[axis]
        elif what == "stride":
            symbols[symbol] = array.strides[axis] // array.itemsize
        else:
            symbols[symbol] = int(array[()])
    return symbols


def _constant(buffer: Buffer, constants: Mapping[str, Array]) -> Array:
    constant = buffer.constant
    if constant is None:
        raise VerifyError("constant buffer without data", got=buffer.name)
    data = constant.data
    if data is None:
        data = np.ascontiguousarray(constants[str(constant.digest)]).tobytes()
    return np.frombuffer(data, np.uint8)
