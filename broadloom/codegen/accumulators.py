"""Accumulators of a kernel as LLVM code: identity, fold, and final value of each kind.

What goes in: the kernel's `Accumulator`s and scalars to fold. What comes out: code on stack slots, which LLVM turns
into registers where there is one lane, and keeps in the first-level cache where a block of outer points is folded
side by side (`lanes` > 1; every method then takes the lane, and with `span` > 1 works on so many from it on, as a
vector). With `width` > 1 each value is a vector: of that many points, which a sum adds up strictly in order, or of that
many parts of one sum, which `absorb` puts together.

What holds: float sums may be reassociated and no other arithmetic; long float sums go chunk by chunk, and the chunk
sums are added with their rounding errors kept (Knuth's TwoSum), so the error does not grow with the length; a
sequential accumulator (`running`) rounds as NumPy's `accumulate` does, step by step; nan wins in max and min, loses
in fmax and fmin; argmax and argmin take the first extremum, and the first nan before all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from enum import Enum

from broadloom.codegen.llvm import (
    FunctionBuilder,
    Val,
    const_bits,
    const_float,
    const_int,
    element_of,
    i1,
    i64,
    lanes_of,
    like,
    vector,
)
from broadloom.codegen.memory import LINE
from broadloom.codegen.types import register_type, width
from broadloom.dtypes import DType, bool_, float32
from broadloom.errors import VerifyError
from broadloom.fusion.ir import COMBINED_BY, Accumulator, ReductionKind
from broadloom.records import dataclass

Scalar = tuple[Val, ...]
Emit = Callable[..., Scalar]

_INFINITY = {"half": 0x7C00, "float": 0x7F800000, "double": 0x7FF0000000000000}
_NAN = {"half": 0x7E00, "float": 0x7FC00000, "double": 0x7FF8000000000000}


@dataclass(slots=True)
class Slots:
    """The stack memory of one accumulator: (address, type) per component.

    `dtype` is what is folded (float32 for a float16 sum); components are the value's registers, then for a
    compensated sum as many totals and corrections, for argmax the position and the block's value and position.
    """

    accumulator: Accumulator
    dtype: DType
    running: bool
    compensated: bool
    parts: list[tuple[Val, str]] = field(default_factory=list)


class Search(Enum):
    """What folding into an argmax does while a block is searched: the block's extremum, then its position, or the
    position of the element that is known to be it."""

    NONE = 0
    EXTREMUM = 1
    POSITION = 2
    FOUND = 3


class Accumulators:
    """All accumulators of one kernel."""

    def __init__(
        self,
        b: FunctionBuilder,
        emit: Emit,
        accumulators: Sequence[Accumulator],
        *,
        running: frozenset[str],
        compensated: frozenset[str],
        lanes: int = 1,
        width: int = 1,
    ) -> None:
        self.b, self.emit, self.lanes, self.width = b, emit, lanes, width
        self.span = 1  # lanes that are worked on at once
        self.search = Search.NONE
        self.mask: Val | None = None  # of a vector: which parts of it take part
        self.vectors: Accumulators | None = None  # what takes folds while a stage runs in vectors
        self.sought: Val | None = None  # what folds of vectors are compared with,
        self.hits: Val | None = None  # and where they are it
        self.slots: dict[str, Slots] = {}
        for a in accumulators:
            self.slots[a.name] = self._allocate(a, a.name in running, a.name in compensated)

    def _allocate(self, a: Accumulator, running: bool, compensated: bool) -> Slots:
        dtype = a.value_dtype if a.kind in ("argmax", "argmin") else a.dtype
        if dtype.kind == "f" and dtype.bits == 16 and not running:
            dtype = float32
        slots = Slots(a, dtype, running, compensated)
        types = [vector(t, self.width) for t in register_type(dtype)]
        if compensated:
            types *= 3
        if a.kind in ("argmax", "argmin"):
            types += ["i64", register_type(dtype)[0], "i64"]
        if self._watches_nan(slots):
            types.append(_nan_type(types[0]))
        for t in types:
            stored = "i8" if t == "i1" and self.lanes > 1 else t
            many = f"[{self.lanes} x {stored}]" if self.lanes > 1 else stored  # one type, or SROA passes it by
            slots.parts.append((self.b.alloca(many, align=LINE if self.lanes > 1 else 0), stored))
        return slots

    # -- slots --

    def _address(self, part: tuple[Val, str], lane: Val | None) -> Val:
        return part[0] if lane is None or self.lanes == 1 else self.b.gep(part[1], part[0], lane)

    def _read(self, slots: Slots, k: int, lane: Val | None) -> Val:
        part = slots.parts[k]
        value = self.b.load(vector(part[1], self.span), self._address(part, lane), self._align(part))
        return self.b.trunc(value, like(value.type, "i1")) if part[1] == "i8" and slots.dtype is bool_ else value

    def _write(self, slots: Slots, k: int, lane: Val | None, value: Val) -> None:
        part = slots.parts[k]
        if element_of(value.type) == "i1" and part[1] == "i8":
            value = self.b.zext(value, like(value.type, "i8"))
        self.b.store(value, self._address(part, lane), self._align(part))

    def _align(self, part: tuple[Val, str]) -> int:
        """Bytes that several lanes are aligned to; 0 for what one of them is by its type."""
        return min(LINE, self.span * width(part[1]) // 8) if self.span > 1 else 0

    def _value(self, slots: Slots, lane: Val | None) -> Scalar:
        return tuple(self._read(slots, k, lane) for k in range(len(register_type(slots.dtype))))

    def _set(self, slots: Slots, lane: Val | None, value: Scalar) -> None:
        for k, v in enumerate(value):
            self._write(slots, k, lane, v)

    def take(self, other: Accumulators, lane: Val) -> None:
        """The state of equal accumulators of one lane, into this lane."""
        for name, slots in self.slots.items():
            for k in range(len(slots.parts)):
                self._write(slots, k, lane, self._read(other.slots[name], k, None))

    # -- the three steps --

    def start(self, lane: Val | None) -> None:
        """Every accumulator at its identity."""
        for slots in self.slots.values():
            value = tuple(self.b.splat(v, self.width * self.span) for v in _identity(slots))
            n = len(value)
            self._set(slots, lane, value)
            if slots.compensated:
                for k in range(n, 3 * n):
                    self._write(slots, k, lane, const_float(value[0].type, 0.0))
            elif len(slots.parts) > n:
                self._write(slots, n, lane, const_int(vector(slots.parts[n][1], self.span), 0))

    def _watches_nan(self, slots: Slots) -> bool:
        """Whether nan is kept apart: a comparison and a choice are one instruction then, and all that carries a
        maximum of vectors from one iteration to the next."""
        return self.width > 1 and slots.accumulator.kind in ("max", "min") and slots.dtype.kind == "f"

    def fold(self, name: str, value: Scalar, dtype: DType, position: Val | None, lane: Val | None) -> Scalar:
        """Folds `value` in; the accumulator after it (before rounding to its dtype)."""
        if self.vectors is not None and name in self.vectors.slots:
            return self.vectors.fold(name, value, dtype, position, lane)
        slots = self._slots(name)
        if slots.dtype is not dtype:
            value = self.emit(self.b, "cast", [value], [dtype], slots.dtype, {"dtype": slots.dtype})
        kind = slots.accumulator.kind
        if self.sought is not None:
            self.hits = self._equals(slots, value[0], self.b.splat(self.sought, self.width))
            return value
        old = self._value(slots, lane)
        if kind in ("argmax", "argmin"):
            if self.search is Search.EXTREMUM:
                return self._fold_extremum(slots, value[0])
            if position is None:
                raise VerifyError("argmax needs a position", got=name)
            if self.search is not Search.NONE:
                return self._fold_block(slots, value[0], position)
            return self._fold_position(slots, old, value, position, lane)
        if self._watches_nan(slots):
            return self._fold_apart(slots, old[0], value[0])
        new = self._combine(slots, old, value)
        if self.mask is not None:
            new = tuple(self.b.select(self.mask, x, y) for x, y in zip(new, old, strict=True))
        self._set(slots, lane, new)
        return new

    def _fold_apart(self, slots: Slots, old: Val, new: Val) -> Scalar:
        """A vector into a maximum or minimum that passes nan by, which is noted instead."""
        b = self.b
        if self.mask is not None:
            new = b.select(self.mask, new, old)
        ahead = "ogt" if slots.accumulator.kind == "max" else "olt"
        value = b.select(b.fcmp(ahead, new, old), new, old)
        noted = slots.parts[1][1]
        bad = b.sext(b.fcmp("uno", *halves(b, new)), noted)
        self._write(slots, 1, None, b.or_(self._read(slots, 1, None), bad))
        self._write(slots, 0, None, value)
        return (value,)

    def absorb(self, vectors: Accumulators) -> None:
        """Folds in what the parts of vectors have taken: halves with halves, until one is left."""
        for name in vectors.slots:
            slots = self.slots[name]
            self._set(slots, None, self._combine(slots, self._value(slots, None), vectors.across(name)))

    def across(self, name: str) -> Scalar:
        """What the parts of a vector come to."""
        b, given = self.b, self._slots(name)
        value = self._value(given, None)
        while lanes_of(value[0].type) > 1:
            parts = [halves(b, v) for v in value]
            low, high = (tuple(p[k] for p in parts) for k in range(2))
            if self._watches_nan(given):
                ahead = "ogt" if given.accumulator.kind == "max" else "olt"
                value = (b.select(b.fcmp(ahead, low[0], high[0]), low[0], high[0]),)
            else:
                value = self._combine(given, low, high)
        if self._watches_nan(given):
            noted = b.intrinsic("vector.reduce.or", self._read(given, 1, None))
            bad = b.icmp("ne", noted, const_int(noted.type, 0))
            value = (b.select(bad, const_bits(value[0].type, _NAN[value[0].type]), value[0]),)
        return value

    def flush(self, name: str, lane: Val | None) -> None:
        """Adds a compensated sum's chunk to its total, and starts the next chunk."""
        slots = self._slots(name)
        b, n = self.b, len(register_type(slots.dtype))
        for k in range(n):
            total, chunk = self._read(slots, n + k, lane), self._read(slots, k, lane)
            correction = self._read(slots, 2 * n + k, lane)
            s = b.fadd(total, chunk)
            back = b.fsub(s, total)
            error = b.fadd(b.fsub(total, b.fsub(s, back)), b.fsub(chunk, back))
            self._write(slots, n + k, lane, s)
            self._write(slots, 2 * n + k, lane, b.fadd(correction, error))
            self._write(slots, k, lane, const_float(s.type, 0.0))

    def result(self, name: str, lane: Val | None) -> Scalar:
        """The final value in the accumulator's dtype; for argmax and argmin the position."""
        slots, b = self._slots(name), self.b
        kind, value = slots.accumulator.kind, self._value(slots, lane)
        n = len(value)
        if kind in ("argmax", "argmin"):
            return (self._read(slots, n, lane),)
        if slots.compensated:
            value = tuple(self._total(slots, k, n, lane) for k in range(n))
        if slots.dtype is not slots.accumulator.dtype:
            dtype = slots.accumulator.dtype
            value = self.emit(b, "cast", [value], [slots.dtype], dtype, {"dtype": dtype})
        return value

    def _slots(self, name: str) -> Slots:
        if name not in self.slots:
            raise VerifyError("no such accumulator", got=name)
        return self.slots[name]

    def _total(self, slots: Slots, k: int, n: int, lane: Val | None) -> Val:
        b = self.b
        total, correction = self._read(slots, n + k, lane), self._read(slots, 2 * n + k, lane)
        finite = b.fcmp("ord", b.fsub(total, total), total)  # inf - inf: the correction of an infinite sum is nan
        return b.select(finite, b.fadd(total, correction), total)

    # -- kinds --

    def _combine(self, slots: Slots, old: Scalar, new: Scalar) -> Scalar:
        kind, dtype, b = slots.accumulator.kind, slots.dtype, self.b
        if dtype.kind in "iu" and kind not in ("any", "all"):
            return (self._combine_integers(kind, dtype.kind == "i", old[0], new[0]),)
        if dtype.kind == "b":
            return (b.binary(_BOOL[kind], old[0], new[0]),)
        if slots.running or (dtype.kind == "c" and kind != "sum") or kind in ("any", "all"):
            return self.emit(b, COMBINED_BY[kind], [old, new], [dtype, dtype], dtype, {})
        if kind == "sum":
            flags = "reassoc" if self.width * self.lanes == 1 else ""
            return tuple(b.fadd(x, y, flags) for x, y in zip(old, new, strict=True))
        if kind == "prod":
            return (b.fmul(old[0], new[0], "reassoc"),)
        # The one pair lets nan win, the other lets it lose.
        name = {"max": "maximum", "min": "minimum", "fmax": "maximumnum", "fmin": "minimumnum"}[kind]
        if self.lanes > 1:  # either zero, which is half the instructions; this order does without stores under masks
            return (b.intrinsic(name, new[0], old[0], flags="nsz"),)
        return (b.intrinsic(name, old[0], new[0]),)

    def _combine_integers(self, kind: str, signed: bool, old: Val, new: Val) -> Val:
        if kind in ("max", "min", "fmax", "fmin"):
            return self.b.intrinsic(f"{'s' if signed else 'u'}{kind[-3:]}", old, new)
        return self.b.binary({"sum": "add", "prod": "mul", "xor": "xor"}[kind], old, new)

    def _fold_position(self, slots: Slots, old: Scalar, new: Scalar, position: Val, lane: Val | None) -> Scalar:
        b = self.b
        takes = _better(b, slots.accumulator.kind == "argmax", slots.dtype, old, new)
        self._set(slots, lane, tuple(b.select(takes, y, x) for x, y in zip(old, new, strict=True)))
        at = b.select(takes, position, self._read(slots, len(old), lane))
        self._write(slots, len(old), lane, at)
        return (at,)

    def is_open(self, name: str) -> Val:
        """Whether more elements could change an any or an all."""
        slots = self._slots(name)
        (value,) = self._value(slots, None)
        return value if slots.accumulator.kind == "all" else self.b.not_(value)

    # -- argmax by blocks: parts are value, position, and the block's value and position --

    def start_block(self, name: str, *, extremum_known: bool) -> None:
        """With `extremum_known` that of the block is the most extreme value there is, or else not looked for."""
        slots = self._slots(name)
        extremum = _identity(slots)[0]
        self._write(slots, 2, None, self.b.not_(extremum) if extremum_known else extremum)
        self._write(slots, 3, None, i64(-1))

    def _fold_extremum(self, slots: Slots, value: Val) -> Scalar:
        new = self._combine_extremum(slots, self._read(slots, 2, None), value)
        self._write(slots, 2, None, new)
        return (new,)

    def _fold_block(self, slots: Slots, value: Val, position: Val) -> Scalar:
        b, extremum = self.b, self._read(slots, 2, None)
        if self.search is Search.POSITION:  # unsigned, so that "none yet", -1, is behind all positions
            hit = self._equals(slots, value, extremum)
            position = b.intrinsic("umin", self._read(slots, 3, None), b.select(hit, position, i64(-1)))
        self._write(slots, 3, None, position)
        return (position,)

    def _equals(self, slots: Slots, value: Val, extremum: Val) -> Val:
        """Whether elements are their block's extremum, which is nan if one of them is."""
        b = self.b
        if slots.dtype.kind != "f":
            hit = b.icmp("eq", value, extremum)
        else:
            hit = b.or_(b.fcmp("oeq", value, extremum), b.fcmp("uno", value, value))
        return hit if self.mask is None else b.and_(hit, self.mask)

    def extremum_vectors(self, name: str, width: int) -> Accumulators:
        """What takes the folds of vectors while the extremum of a block is looked for."""
        slots, none = self._slots(name), frozenset[str]()
        kind: ReductionKind = "max" if slots.accumulator.kind == "argmax" else "min"
        a = Accumulator(name, kind, slots.accumulator.value_dtype, slots.accumulator.value_dtype)
        return Accumulators(self.b, self.emit, [a], running=none, compensated=none, width=width)

    def absorb_extremum(self, name: str, vectors: Accumulators) -> None:
        """Folds what vectors have taken into the extremum of the block."""
        (value,) = vectors.across(name)
        slots = self._slots(name)
        self._write(slots, 2, None, self._combine_extremum(slots, self._read(slots, 2, None), value))

    def _combine_extremum(self, slots: Slots, old: Val, new: Val) -> Val:
        b, kind = self.b, slots.accumulator.kind[3:]
        if slots.dtype.kind == "f":
            return b.intrinsic("maximum" if kind == "max" else "minimum", old, new)
        if slots.dtype.kind == "b":
            return b.binary(_BOOL[kind], old, new)
        return self._combine_integers(kind, slots.dtype.kind == "i", old, new)

    def extremum(self, name: str) -> Val:
        """That of the block."""
        return self._read(self._slots(name), 2, None)

    def block_wins(self, name: str) -> Val:
        """Whether the block's extremum beats all before."""
        slots = self._slots(name)
        largest = slots.accumulator.kind == "argmax"
        return _better(self.b, largest, slots.dtype, (self._read(slots, 0, None),), (self._read(slots, 2, None),))

    def finish_block(self, name: str) -> None:
        """Takes over what the search for a position found, if there was one."""
        slots, b = self._slots(name), self.b
        at = self._read(slots, 3, None)
        found = b.icmp("ne", at, i64(-1))
        for k in (0, 1):
            self._write(slots, k, None, b.select(found, self._read(slots, k + 2, None), self._read(slots, k, None)))


def halves(b: FunctionBuilder, x: Val) -> tuple[Val, Val]:
    """The lower and the upper half of a vector, or its two elements."""
    half = lanes_of(x.type) // 2
    if half == 1:
        return b.extract(x, 0), b.extract(x, 1)
    return b.shuffle(x, x, range(half)), b.shuffle(x, x, range(half, 2 * half))


def any_lane(b: FunctionBuilder, hits: Val, lanes: int) -> Val:
    """Whether any of a vector of i1 is true: as many of them as fit a register are looked at together."""
    while lanes_of(hits.type) > lanes:
        hits = b.or_(*halves(b, hits))
    bits = b.bitcast(hits, f"i{lanes_of(hits.type)}")
    return b.icmp("ne", bits, const_int(bits.type, 0))


def _nan_type(type_: str) -> str:
    """What notes nan of a vector of floats: half as many integers, as a comparison looks at two halves at once."""
    half = lanes_of(type_) // 2
    element = "i32" if element_of(type_) == "float" else "i64"
    return element if half == 1 else vector(element, half)


_BOOL = {"sum": "or", "any": "or", "max": "or", "fmax": "or"} | dict.fromkeys(("prod", "all", "min", "fmin"), "and")
_BOOL["xor"] = "xor"


def _identity(slots: Slots) -> Scalar:
    """The value before anything is folded in."""
    kind, dtype = slots.accumulator.kind, slots.dtype
    types = register_type(dtype)
    highest = kind in ("min", "fmin", "argmin")
    if dtype.kind == "b":
        return (i1(highest or kind in ("prod", "all")),)
    if kind in ("max", "fmax", "argmax", "min", "fmin", "argmin"):
        if dtype.kind in "iu":
            return (const_int(types[0], _integer_limit(dtype, highest)),)
        if types[0] == "i16":  # bfloat16
            return (const_int("i16", 0x7F80 if highest else 0xFF80),)
        sign = 0 if highest else 1 << (width(types[0]) - 1)
        if kind in ("fmax", "fmin"):
            return tuple(const_bits(t, _NAN[t]) for t in types)
        return tuple(const_bits(t, _INFINITY[t] | sign) for t in types)
    one = kind in ("prod", "all")
    if dtype.kind in "iu":
        return (const_int(types[0], int(one)),)
    if types[0] == "i16":
        return (const_int("i16", 0x3F80 if one else 0x8000 if slots.running else 0),)
    if slots.running and kind == "sum":  # begins with the first element, of which -0.0 is left as it is
        return tuple(const_float(t, -0.0) for t in types)
    return (const_float(types[0], float(one)), *(const_float(t, 0.0) for t in types[1:]))


def _integer_limit(dtype: DType, highest: bool) -> int:
    if dtype.kind == "u":
        return (1 << dtype.bits) - 1 if highest else 0
    return (1 << (dtype.bits - 1)) - 1 if highest else -(1 << (dtype.bits - 1))


def _better(b: FunctionBuilder, largest: bool, dtype: DType, old: Scalar, new: Scalar) -> Val:
    """Whether `new` beats `old`: strictly more extreme, or the first nan. Complex numbers compare as pairs."""
    if dtype.kind in "iub":
        signed = "s" if dtype.kind == "i" else "u"
        return b.icmp(signed + ("gt" if largest else "lt"), new[0], old[0])
    ahead = "ogt" if largest else "olt"
    if dtype.kind == "f":
        return b.and_(b.fcmp("u" + ahead[1:], new[0], old[0]), b.fcmp("ord", old[0], old[0]))
    tie = b.and_(b.fcmp("oeq", new[0], old[0]), b.fcmp(ahead, new[1], old[1]))
    more = b.or_(b.fcmp(ahead, new[0], old[0]), tie)
    nan = b.fcmp("uno", new[0], new[1])
    return b.and_(b.or_(more, nan), b.fcmp("ord", old[0], old[1]))
