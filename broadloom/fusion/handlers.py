"""Handlers of loop bodies: a body is run with a handler, and the handler decides what running means.

What goes in: a `Body`, or the inner function that makes one. What comes out: with `Recording`, a body as data; with
`replay`, any handler's own result - dependencies, costs, a changed body - from the same instructions.

What holds: the handler is an argument, never a global. Equal pure instructions are recorded once; a load is shared
only while no store to its buffer lies between; `Indirect` and stores are effects and always kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any, Protocol

from broadloom.dtypes import DType
from broadloom.fusion.ir import (
    Accumulated,
    Body,
    Compute,
    Extern,
    IndexValue,
    Indirect,
    Instruction,
    Kernel,
    Literalv,
    Load,
    Lookup,
    Masked,
    Operand,
    Reduce,
    Running,
    Stage,
    Store,
)
from broadloom.records import dataclass
from broadloom.symbolic import Size, Symbol, substitute


class Handler(Protocol):
    """What a body may ask for. Values are whatever the handler makes them."""

    def load(self, buffer: str, index: Size, dtype: DType) -> Any: ...
    def store(self, buffer: str, index: Size, value: Any, mode: str) -> None: ...
    def literal(self, dtype: DType, data: bytes) -> Any: ...
    def index_value(self, index: Size, dtype: DType) -> Any: ...
    def compute(self, op: str, args: tuple[Any, ...], dtype: DType, attrs: tuple[tuple[str, object], ...]) -> Any: ...
    def indirect(self, value: Any, size: Size, site: int, key: Size = 0) -> Symbol: ...
    def reduce(self, name: str, value: Any, position: Any | None) -> None: ...
    def running(self, name: str, value: Any, dtype: DType) -> Any: ...
    def accumulated(self, name: str, dtype: DType) -> Any: ...
    def masked(self, mask: Any, inner: Callable[[Handler], Any], other: Any, dtype: DType) -> Any: ...
    def lookup(self, table: str, value: Any, dtype: DType) -> Any: ...


class Recording:
    """The handler that keeps what it is asked for, as flat SSA."""

    def __init__(self, parent: Recording | None = None) -> None:
        self.parent = parent
        self.base = parent.size if parent is not None else 0
        self.instructions: list[Instruction] = []
        self._known: dict[Instruction, Operand] = {}
        self._loads: dict[str, list[Load]] = {}
        self._checked: dict[tuple[Operand, Size, int, Size], Symbol] = {}
        self._names: list[int] = parent._names if parent is not None else [0]

    @property
    def size(self) -> int:
        return self.base + len(self.instructions)

    def body(self) -> Body:
        return Body(tuple(self.instructions), self.base)

    def _find(self, instruction: Instruction) -> Operand | None:
        recording: Recording | None = self
        while recording is not None:
            found = recording._known.get(instruction)
            if found is not None:
                return found
            recording = recording.parent
        return None

    def _effect(self, instruction: Instruction) -> Operand:
        self.instructions.append(instruction)
        return self.size - 1

    def _pure(self, instruction: Instruction) -> Operand:
        if self.parent is not None:
            found = self.parent._find(instruction)
            if found is not None:
                return found
        number = self.size
        found = self._known.setdefault(instruction, number)
        if found == number:  # it is new
            self.instructions.append(instruction)
        return found

    def load(self, buffer: str, index: Size, dtype: DType) -> Operand:
        instruction = Load(buffer, index, dtype)
        operand = self._pure(instruction)
        self._loads.setdefault(buffer, []).append(instruction)
        return operand

    def store(self, buffer: str, index: Size, value: Operand, mode: str = "set") -> None:
        for stale in self._loads.pop(buffer, ()):
            self._known.pop(stale, None)
        self._effect(Store(buffer, index, value, mode))  # type: ignore[arg-type]

    def literal(self, dtype: DType, data: bytes) -> Operand:
        return self._pure(Literalv(dtype, data))

    def index_value(self, index: Size, dtype: DType) -> Operand:
        return self._pure(IndexValue(index, dtype))

    def compute(
        self, op: str, args: tuple[Operand, ...], dtype: DType, attrs: tuple[tuple[str, object], ...] = ()
    ) -> Operand:
        return self._pure(Compute(op, args, dtype, attrs))

    def indirect(self, value: Operand, size: Size, site: int, key: Size = 0) -> Symbol:
        # The same value checked against the same size at the same site under the same key is one check and one symbol.
        symbol = self._checked.get((value, size, site, key))
        if symbol is None:
            symbol = self._checked[value, size, site, key] = Symbol(f"t{self._names[0]}", 0, size - 1)
            self._names[0] += 1
            self._effect(Indirect(value, size, symbol, site, key))
        return symbol

    def reduce(self, name: str, value: Operand, position: Operand | None = None) -> None:
        self._effect(Reduce(name, value, position))

    def running(self, name: str, value: Operand, dtype: DType) -> Operand:
        return self._effect(Running(name, value, dtype))

    def accumulated(self, name: str, dtype: DType) -> Operand:
        return self._pure(Accumulated(name, dtype))

    def masked(self, mask: Operand, inner: Callable[[Any], Operand], other: Operand, dtype: DType) -> Operand:
        nested = type(self)(self)
        value = inner(nested)
        return self._pure(Masked(mask, nested.body(), value, other, dtype))

    def lookup(self, table: str, value: Operand, dtype: DType) -> Operand:
        return self._pure(Lookup(table, value, dtype))


Redirection = Callable[[str, Size, str], tuple[str, Size]]


def unmoved(buffer: str, index: Size, mode: str) -> tuple[str, Size]:
    """Every access goes where it went."""
    return buffer, index


class Redirecting(Recording):
    """A recording in which accesses go elsewhere: to the buffer and the index that `place` gives for those at hand and
    the mode ("load", "set" or "add")."""

    def __init__(self, parent: Recording | None = None, place: Redirection = unmoved) -> None:
        super().__init__(parent)
        self.place: Redirection = parent.place if isinstance(parent, Redirecting) else place

    def load(self, buffer: str, index: Size, dtype: DType) -> Operand:
        return super().load(*self.place(buffer, index, "load"), dtype)

    def store(self, buffer: str, index: Size, value: Operand, mode: str = "set") -> None:
        super().store(*self.place(buffer, index, mode), value, mode)


def replay(
    body: Body,
    handler: Handler,
    *,
    symbols: Mapping[Symbol, Size] | None = None,
    buffers: Mapping[str, str] | None = None,
    accumulators: Mapping[str, str] | None = None,
) -> list[Any]:
    """Run `body` with `handler`, index expressions rewritten by `symbols` and names by the two other maps; the
    values of the instructions, in order (None for effects)."""
    return Replay(dict(symbols or {}), buffers or {}, accumulators or {}).run(body, handler, [])


@dataclass(slots=True)
class Replay:
    """One run of a body and of those masked in it; the outcome of `step` takes the place of an instruction."""

    symbols: dict[Symbol, Size] = field(default_factory=dict)
    buffers: Mapping[str, str] = field(default_factory=dict)
    accumulators: Mapping[str, str] = field(default_factory=dict)

    def index(self, index: Size) -> Size:
        return substitute(index, self.symbols) if self.symbols else index

    def buffer(self, name: str) -> str:
        return self.buffers.get(name, name)

    def accumulator(self, name: str) -> str:
        return self.accumulators.get(name, name)

    def run(self, body: Body, handler: Handler, outer: list[Any]) -> list[Any]:
        """The values of the instructions, after those of the bodies around."""
        values = outer[: body.base]
        for instruction in body.instructions:
            values.append(self.step(instruction, handler, values))
        return values

    def step(self, instruction: Instruction, h: Handler, v: list[Any]) -> Any:
        """The value of one instruction."""
        match instruction:
            case Compute(op, args, dtype, attrs):
                return h.compute(op, tuple([v[a] for a in args]), dtype, attrs)
            case Load(buffer, index, dtype):
                return h.load(self.buffer(buffer), self.index(index), dtype)
            case Store(buffer, index, value, mode):
                return h.store(self.buffer(buffer), self.index(index), v[value], mode)
            case Literalv(dtype, data):
                return h.literal(dtype, data)
            case IndexValue(index, dtype):
                return h.index_value(self.index(index), dtype)
            case Indirect(value, size, symbol, site, key):
                self.symbols[symbol] = h.indirect(v[value], self.index(size), site, self.index(key))
                return None
            case Reduce(name, value, position):
                return h.reduce(self.accumulator(name), v[value], None if position is None else v[position])
            case Running(name, value, dtype):
                return h.running(self.accumulator(name), v[value], dtype)
            case Accumulated(name, dtype):
                return h.accumulated(self.accumulator(name), dtype)
            case Masked(mask, body, value, other, dtype):
                return h.masked(v[mask], lambda nested: self.run(body, nested, v)[value], v[other], dtype)
            case Lookup(table, value, dtype):
                return h.lookup(table, v[value], dtype)


# ---- questions about a body -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Access:
    """One load or store: which element of which buffer, seen as which dtype, in which mode."""

    buffer: str
    index: Size
    dtype: DType | None
    mode: str  # "load", "set", "add"


@dataclass(frozen=True, slots=True)
class Facts:
    """What the scheduler asks of a body again and again: all instructions, those of masked bodies after the one that
    holds them; loads and stores, in order; buffers loaded (an "add" loads too), stored, and loaded as such; how many
    `Compute` instructions there are; whether one is a run-time check."""

    instructions: tuple[Instruction, ...]
    accesses: tuple[Access, ...]
    loaded: frozenset[str]
    stored: frozenset[str]
    read: frozenset[str]
    ops: int
    raises: bool


def facts_of(body: Body) -> Facts:
    """The facts of a body, found out once."""
    known = body.facts
    if not isinstance(known, Facts):
        known = _facts(body)
        object.__setattr__(body, "facts", known)
    return known


def _facts(body: Body) -> Facts:
    instructions: list[Instruction] = []
    found: list[Access] = []
    ops, raises = 0, False
    for instruction in body.instructions:
        instructions.append(instruction)
        match instruction:
            case Compute():
                ops += 1
            case Load(buffer, index, dtype):
                found.append(Access(buffer, index, dtype, "load"))
            case Store(buffer, index, _, mode):
                found.append(Access(buffer, index, None, mode))
            case Indirect(site=site):
                raises = raises or site >= 0
            case Masked(_, masked, _, _, _):
                inner = facts_of(masked)
                instructions += inner.instructions
                found += inner.accesses
                ops, raises = ops + inner.ops, raises or inner.raises
    loaded = frozenset(a.buffer for a in found if a.mode != "set")
    stored = frozenset(a.buffer for a in found if a.mode != "load")
    read = frozenset(a.buffer for a in found if a.mode == "load")
    return Facts(tuple(instructions), tuple(found), loaded, stored, read, ops, raises)


def instructions_of(body: Body) -> tuple[Instruction, ...]:
    """All instructions, those of masked bodies after the one that holds them."""
    return facts_of(body).instructions


def accesses(body: Body) -> tuple[Access, ...]:
    """Loads and stores of a body, in order."""
    return facts_of(body).accesses


def bodies_of(kernel: Kernel) -> tuple[Body, ...]:
    """The bodies of a kernel in the order in which they run: those of its tables, its rings and its stages."""
    return (*(t.body for t in kernel.tables), *(s.body for s in stages_of(kernel)))


def stages_of(kernel: Kernel) -> tuple[Stage, ...]:
    """The stages of a kernel's rings, then its own."""
    return (*(s for r in kernel.rings for s in r.stages), *kernel.stages)


@dataclass(frozen=True, slots=True)
class Effects:
    """What a step has to do with others: the buffers it loads (a library call, its results too, and whatever is added
    to), those it stores and those it loads as such, and whether it may fail."""

    loaded: frozenset[str]
    stored: frozenset[str]
    read: frozenset[str]
    raises: bool

    @property
    def touched(self) -> frozenset[str]:
        """All of its buffers."""
        return self.loaded | self.stored


def effects_of(step: Kernel | Extern) -> Effects:
    """The effects of a step, those of the code before and behind a product among them."""
    if isinstance(step, Kernel):
        known = step.facts
        if not isinstance(known, Effects):
            known = _kernel_effects(step)
            object.__setattr__(step, "facts", known)
        return known
    read = frozenset(r.buffer for r in step.operands)
    stored = frozenset(r.buffer for r in step.results)
    own = Effects(stored | read, stored, read, step.site >= 0)
    for kernel in step.fused:
        more = effects_of(kernel)
        own = Effects(own.loaded | more.loaded, own.stored | more.stored, own.read | more.read, own.raises)
    return own


def _kernel_effects(kernel: Kernel) -> Effects:
    found = [facts_of(body) for body in bodies_of(kernel)]
    loaded, stored, read = (
        frozenset[str]().union(*sets)
        for sets in ([f.loaded for f in found], [f.stored for f in found], [f.read for f in found])
    )
    return Effects(loaded, stored, read, any(f.raises for f in found))


def with_stages(kernel: Kernel, change: Callable[[Stage], Stage]) -> Kernel:
    """The kernel with its stages, and those of its rings, changed."""
    rings = tuple(replace(r, stages=tuple(map(change, r.stages))) for r in kernel.rings)
    return replace(kernel, stages=tuple(map(change, kernel.stages)), rings=rings)


def count_ops(body: Body) -> int:
    """How many `Compute` instructions a body holds."""
    return facts_of(body).ops


def may_raise(body: Body) -> bool:
    """Whether the body holds a run-time check."""
    return facts_of(body).raises


def operands_of(instruction: Instruction) -> tuple[Operand, ...]:
    """The earlier instructions of the same body that an instruction uses, inside its masked body too."""
    match instruction:
        case Compute(_, args, _, _):
            return args
        case Store(_, _, value, _) | Indirect(value) | Running(_, value, _) | Lookup(_, value, _):
            return (value,)
        case Reduce(_, value, position):
            return (value,) if position is None else (value, position)
        case Masked(mask, body, value, other, _):
            inner = [value, *(o for i in body.instructions for o in operands_of(i))]
            return (mask, other, *(o for o in inner if o < body.base))
    return ()


def index_of(instruction: Instruction) -> Size | None:
    """The index expression of an instruction, if it has one. The key of a check is none: only a failure asks for it."""
    match instruction:
        case Load(_, index, _) | Store(_, index, _, _) | IndexValue(index, _):
            return index
        case Indirect(_, size):
            return size
    return None


def without_dead(
    body: Body, dead_stores: frozenset[str] = frozenset(), dead_folds: frozenset[str] = frozenset()
) -> Body:
    """The body without stores to the buffers `dead_stores`, folds into the accumulators `dead_folds`, and the pure
    instructions that nothing needs."""
    live: set[Operand] = set()
    for operand in range(len(body.instructions) - 1, -1, -1):
        instruction = body.instructions[operand]
        match instruction:
            case Store(buffer, _, _, _):
                effect = buffer not in dead_stores
            case Masked(_, inner, _, _, _):
                effect = may_raise(inner)
            case Reduce(name, _, _):
                effect = name not in dead_folds
            case _:
                effect = isinstance(instruction, Indirect | Running)
        if effect or operand in live:
            live.add(operand)
            live.update(operands_of(instruction))
    pruned = Recording()
    player = Replay()
    values: list[Any] = []
    for operand, instruction in enumerate(body.instructions):
        values.append(player.step(instruction, pruned, values) if operand in live else None)
    return pruned.body()
