"""Cumulative ops along the last axis, in chunks on several threads: a kernel of its own for each kind and dtype.

What goes in: an `Extern` with a routine of `ROUTINES`: an operand and a result whose rows lie in one piece, and a
workspace of int64, zeros at first, through which chunks hand on what they begin with. What comes out: the kernel, and
how it is launched.

Threads take chunks in order. Each folds its chunk, which brings it into the cache, waits for what the chunks before it
come to, hands on the sum of both, and goes over the chunk once more to store its results (after D. Merrill and M.
Garland, Single-pass parallel prefix scan with decoupled look-back, 2016, where a chunk looks back at its neighbour
alone). A chunk that somebody waits for is being folded, so nobody waits for long, unless other processes have the
cores: then the one that waits gives its own away. Within a chunk each vector is scanned in its register, in as many
steps as the number of lanes has bits.

What holds: a result depends on its place in the row, not on threads or addresses. Integers wrap around and extrema are
exact. Sums of float32 are made in float64 and rounded once each, so they are nearer to the exact ones than NumPy's;
rows of up to `CHUNK` floats are added one by one, as NumPy does, and have its bits. Results that no cache could keep
are stored past the caches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from broadloom.codegen.accumulators import halves
from broadloom.codegen.llvm import (
    Function,
    FunctionBuilder,
    Param,
    Val,
    const_float,
    const_int,
    i32,
    i64,
    lanes_of,
    vector,
)
from broadloom.codegen.memory import LINE, emit_fence, emit_prefetch, store_past
from broadloom.codegen.module import ModuleBuilder
from broadloom.codegen.outline import vector_bits
from broadloom.codegen.sorting import Launch
from broadloom.codegen.types import register_type, width
from broadloom.dtypes import DType, float32
from broadloom.fusion.ir import Buffer, Extern
from broadloom.fusion.lowerings.scans import CHUNK, FOLDS
from broadloom.symbolic import floordiv, product, smax, smin

ROUTINES = frozenset(FOLDS)
COST = 0.4  # units of an element
VECTORS = 4  # folded side by side
SPINS = 1000  # looks at a chunk that is not folded yet before others get the core: some 20 to 50 us
# The words of the argument block behind the three addresses, and behind them those of each axis before the last.
_LENGTH, _CHUNKS, _TOTAL, _BYTES, _FROM, _TO, _AXES = range(3, 10)
_PARAMS = [Param("ptr", "ctx"), Param("ptr", "args"), Param("i64", "begin"), Param("i64", "end")]


def launch(module: ModuleBuilder, step: Extern, buffers: Mapping[str, Buffer], last: int) -> Launch:
    """The kernel of a step, on a machine whose last cache has so many bytes."""
    x, result, state = step.operands[0], step.results[0], step.results[1]
    dtype, shape = buffers[x.buffer].dtype, x.layout.shape
    length, rows = shape[-1], product(shape[:-1])
    chunks = floordiv(smax(length, 1) - 1, CHUNK) + 1
    words = [length, chunks, rows * chunks, 2 * rows * length * dtype.itemsize, x.layout.offset, result.layout.offset]
    for axis in range(len(shape) - 1):
        words += [shape[axis], x.layout.strides[axis], result.layout.strides[axis]]
    function = _Scan(module, step.routine, dtype, len(shape) - 1, last).kernel()
    each = smin(length, CHUNK)  # a row may be shorter than a chunk
    return Launch(function, (x.buffer, result.buffer, state.buffer), tuple(words), rows * chunks, each, COST)


class _Scan:
    """The kernel of one kind and dtype, for rows in so many axes."""

    def __init__(self, module: ModuleBuilder, routine: str, dtype: DType, rank: int, last: int) -> None:
        self.module, self.kind, self.dtype, self.rank, self.last = module, FOLDS[routine], dtype, rank, last
        self.name = f"bl_{routine}_{dtype}_{rank}"
        (self.element,) = register_type(dtype)
        self.in_order = dtype.kind == "f" and self.kind == "sum"  # short rows are
        self.keyed = dtype.kind == "f" and not self.in_order  # compared as integers of the same order
        self.wide = "double" if self.in_order and dtype is float32 else self.element
        if self.keyed:
            self.wide = f"i{dtype.bits}"
        self.lanes = vector_bits(module.features) // width(self.wide)
        self.parts = max(1, LINE * 8 // (self.lanes * width(self.element)))  # of a line

    def kernel(self) -> Function:
        """The function of the kernel type."""
        return self.module.helper(self.name, "i32", _PARAMS, self._build, "noinline nounwind")

    def _build(self, b: FunctionBuilder) -> None:
        _, args, begin, end = b.params
        params = [Param("ptr", "args"), Param("i64", "number"), Param("i64", "following")]
        chunk = self.module.helper(f"{self.name}_chunk", "void", params, self._chunk, "noinline nounwind")
        total = self._word(b, args, _TOTAL)

        def own() -> None:
            def one(number: Val) -> None:
                b.call(chunk, args, number, number)

            b.for_loop(begin, end, one)

        def claimed() -> None:
            counter = b.load("ptr", b.gep("i64", args, i64(2)))

            def claim() -> Val:
                return b.value("i64", f"atomicrmw add ptr {counter.text}, i64 1 monotonic")

            again, run, out = b.block("again"), b.block("run"), b.block("none")
            first, before = claim(), b.current
            b.br(again)
            b.at(again)
            number = b.phi("i64", (first, before))
            b.cond_br(b.icmp("ult", number.value, total), run, out)
            b.at(run)
            following = claim()
            b.call(chunk, args, number.value, b.intrinsic("umin", following, b.sub(total, i64(1))))
            number.add(following, b.current)
            b.br(again)
            b.at(out)

        b.if_then(b.icmp("eq", self._word(b, args, _CHUNKS), i64(1)), own, claimed)
        emit_fence(b)
        b.ret(i32(0))

    def _word(self, b: FunctionBuilder, args: Val, number: int) -> Val:
        return b.load("i64", b.gep("i64", args, i64(number)))

    # -- one chunk --

    def _chunk(self, b: FunctionBuilder) -> None:
        args, number, following = b.params
        length, chunks = self._word(b, args, _LENGTH), self._word(b, args, _CHUNKS)
        row, chunk = b.udiv(number, chunks), b.urem(number, chunks)
        start = b.mul(chunk, i64(CHUNK))
        count = b.intrinsic("smin", b.sub(length, start), i64(CHUNK))
        source, target = self._places(b, args, row, start)
        ahead, _ = self._places(b, args, b.udiv(following, chunks), b.mul(b.urem(following, chunks), i64(CHUNK)))
        final = b.icmp("eq", b.add(chunk, i64(1)), chunks)
        (total,) = b.if_then(final, lambda: (self._identity(),), lambda: (self._total(b, source, count),))

        state = b.load("ptr", b.gep("i64", args, i64(2)))
        flags = b.gep("i64", state, i64(1))
        links = b.sub(chunks, i64(1))
        link = b.add(b.mul(row, links), chunk)
        sums = b.gep("i64", flags, b.mul(b.udiv(self._word(b, args, _TOTAL), chunks), links))
        first = b.icmp("eq", chunk, i64(0))
        (carry,) = b.if_then(first, lambda: (self._identity(),), lambda: (self._wait(b, flags, sums, link),))

        def hand_on() -> None:
            b.store(self._fold(b, carry, total), b.gep("i64", sums, link), 8)
            b.emit(f"store atomic i64 1, ptr {b.gep('i64', flags, link).text} release, align 8")

        b.if_then(final, lambda: None, hand_on)

        def sweep() -> None:
            self._sweep(b, args, (source, target, ahead), count, carry)

        if self.in_order:
            one_by_one = partial(self._one_by_one, b, source, target, count)
            b.if_then(b.icmp("eq", chunks, i64(1)), one_by_one, sweep)
        else:
            sweep()
        b.ret()

    def _places(self, b: FunctionBuilder, args: Val, row: Val, start: Val) -> tuple[Val, Val]:
        """Where a chunk begins in operand and result."""
        offsets = [b.add(self._word(b, args, k), start) for k in (_FROM, _TO)]
        rest = row
        for axis in reversed(range(self.rank)):
            size, *strides = (self._word(b, args, _AXES + 3 * axis + k) for k in range(3))
            index, rest = b.urem(rest, size), b.udiv(rest, size)
            offsets = [b.add(o, b.mul(index, s)) for o, s in zip(offsets, strides, strict=True)]
        bases = (b.load("ptr", b.gep("i64", args, i64(k))) for k in range(2))
        source, target = (b.gep(self.element, p, o) for p, o in zip(bases, offsets, strict=True))
        return source, target

    def _wait(self, b: FunctionBuilder, flags: Val, sums: Val, link: Val) -> Val:
        """What the chunks before this one come to, as soon as the last of them has told."""
        before = b.sub(link, i64(1))
        look, pause, tired, again, ready = (b.block(n) for n in ("look", "pause", "tired", "again", "ready"))
        flag = b.gep("i64", flags, before)
        start = b.current
        b.br(look)
        b.at(look)
        turn = b.phi("i64", (i64(0), start))
        told = b.value("i64", f"load atomic i64, ptr {flag.text} acquire, align 8")
        b.cond_br(b.icmp("ne", told, i64(0)), ready, pause)
        b.at(pause)
        if self.module.triple.startswith(("x86_64", "amd64")):
            self.module.declare("llvm.x86.sse2.pause", "void", ())
            b.emit("call void @llvm.x86.sse2.pause()")
        b.cond_br(b.icmp("ult", turn.value, i64(SPINS)), again, tired)
        b.at(tired)  # other processes have the cores: the thread that folds that chunk may be waiting for this one
        b.call(self.module.declare("sched_yield", "i32", ()))
        b.br(again)
        b.at(again)
        turn.add(b.add(turn.value, i64(1)), b.current)
        b.br(look)
        b.at(ready)
        return b.load(self.wide, b.gep("i64", sums, before), 8)

    def _total(self, b: FunctionBuilder, source: Val, count: Val) -> Val:
        """What a chunk comes to: vectors side by side, and element by element what they leave."""
        step = VECTORS * self.lanes
        whole = b.sub(count, b.urem(count, i64(step)))
        none = b.splat(self._identity(), self.lanes)

        def several(k: Val, *folded: Val) -> Sequence[Val]:
            places = (b.add(k, i64(n * self.lanes)) for n in range(VECTORS))
            return [self._fold(b, f, self._load(b, source, p)) for f, p in zip(folded, places, strict=True)]

        folded = list(b.for_loop(i64(0), whole, several, [none] * VECTORS, step=step, name="fold", flags="nuw nsw"))
        while len(folded) > 1:
            folded = [self._fold(b, *folded[k : k + 2]) for k in range(0, len(folded), 2)]
        value = folded[0]
        while lanes_of(value.type) > 1:
            value = self._fold(b, *halves(b, value))

        def one(k: Val, folded: Val) -> Sequence[Val]:
            return [self._fold(b, folded, self._load(b, source, k, 1))]

        return b.for_loop(whole, count, one, [value], name="rest", flags="nuw nsw")[0]

    def _sweep(self, b: FunctionBuilder, args: Val, places: tuple[Val, Val, Val], count: Val, carry: Val) -> None:
        """The results of a chunk that begins with `carry`; meanwhile the operands of the next chunk are fetched, so
        that memory is read while it is written."""
        source, target, ahead = places
        size = width(self.element) // 8
        step = self.lanes * self.parts
        whole = b.sub(count, b.urem(count, i64(step)))
        address = b.cast("ptrtoint", target, "i64")
        past = b.icmp("eq", b.and_(address, i64(self.lanes * size - 1)), i64(0))
        past = b.and_(past, b.icmp("sgt", self._word(b, args, _BYTES), i64(self.last)))

        def sweep(store: Callable[[Val, Val], None]) -> Sequence[Val]:
            def several(k: Val, carry: Val) -> Sequence[Val]:
                emit_prefetch(b, b.gep(self.element, ahead, k, flags=""))  # the next chunk may be shorter
                for part in range(self.parts):
                    place = b.add(k, i64(part * self.lanes))
                    scanned = self._scanned(b, self._load(b, source, place))
                    result = self._narrow(b, self._fold(b, carry, scanned))
                    store(result, b.gep(self.element, target, place))
                    carry = self._fold(b, carry, b.shuffle(scanned, scanned, [self.lanes - 1] * self.lanes))
                return [carry]

            spread = b.splat(carry, self.lanes)
            (spread,) = b.for_loop(i64(0), whole, several, [spread], step=step, name="scan", flags="nuw nsw")
            return [b.extract(spread, 0)]

        (left,) = b.if_then(
            past,
            lambda: sweep(lambda v, p: store_past(b, v, p, self.lanes * size)),
            lambda: sweep(lambda v, p: b.store(v, p, size)),
        )

        def one(k: Val, carry: Val) -> Sequence[Val]:
            new = self._fold(b, carry, self._load(b, source, k, 1))
            b.store(self._narrow(b, new), b.gep(self.element, target, k), size)
            return [new]

        b.for_loop(whole, count, one, [left], name="rest", flags="nuw nsw")

    def _one_by_one(self, b: FunctionBuilder, source: Val, target: Val, count: Val) -> None:
        """Sums of floats, each rounded as NumPy rounds them."""
        size = width(self.element) // 8

        def one(k: Val, carry: Val) -> Sequence[Val]:
            new = b.fadd(carry, b.load(self.element, b.gep(self.element, source, k), size))
            b.store(new, b.gep(self.element, target, k), size)
            return [new]

        b.for_loop(i64(0), count, one, [const_float(self.element, -0.0)], name="one", flags="nuw nsw")

    # -- values --

    def _load(self, b: FunctionBuilder, source: Val, place: Val, lanes: int = 0) -> Val:
        """Elements from a place on, in the type of the fold."""
        lanes = lanes or self.lanes
        size = width(self.element) // 8
        type_, wide = (t if lanes == 1 else vector(t, lanes) for t in (self.element, self.wide))
        value = b.load(type_, b.gep(self.element, source, place), size)
        if self.keyed:
            return self._key(b, value, wide)
        return value if self.wide == self.element else b.fpext(value, wide)

    def _narrow(self, b: FunctionBuilder, value: Val) -> Val:
        if self.wide == self.element:
            return value
        type_ = value.type.replace(self.wide, self.element)
        return b.bitcast(self._turned(b, value), type_) if self.keyed else b.fptrunc(value, type_)

    def _key(self, b: FunctionBuilder, value: Val, type_: str) -> Val:
        """Floats as integers in their order; nan beats all, and is a nan again on the way back."""
        key = self._turned(b, b.bitcast(value, type_))
        nan = self._constant(b, (1 << (self.dtype.bits - 1)) - (self.kind == "max"), type_)
        return b.select(b.fcmp("uno", value, value), nan, key)

    def _turned(self, b: FunctionBuilder, bits: Val) -> Val:
        """The bits of negative floats, or their keys, in the other order."""
        sign = b.ashr(bits, self._constant(b, self.dtype.bits - 1, bits.type))
        return b.xor(bits, b.and_(sign, self._constant(b, (1 << (self.dtype.bits - 1)) - 1, bits.type)))

    def _constant(self, b: FunctionBuilder, value: int, type_: str) -> Val:
        number = const_int(self.wide, value)
        return number if type_ == self.wide else b.splat(number, self.lanes)

    def _scanned(self, b: FunctionBuilder, value: Val) -> Val:
        """Each lane folded with all before it: halves, fourths and so on take up the last lane of their neighbour (J.
        Sklansky, Conditional-sum addition logic, 1960)."""
        none = const_float(self.wide, 0.0) if self.in_order else self._identity()  # for which masks have an encoding
        others, by = b.splat(none, self.lanes), 1
        while by < self.lanes:
            taken = [self.lanes + (k & -2 * by) + by - 1 if k & by else k for k in range(self.lanes)]
            value, by = self._fold(b, b.shuffle(others, value, taken), value), 2 * by
        return value

    def _fold(self, b: FunctionBuilder, x: Val, y: Val) -> Val:
        if self.in_order:
            return b.fadd(x, y)
        if self.kind in ("max", "min"):
            return b.intrinsic(f"{'u' if self.dtype.kind == 'u' else 's'}{self.kind}", x, y)
        return b.binary("add" if self.kind == "sum" else "mul", x, y)

    def _identity(self) -> Val:
        """What changes no value; of a sum of floats that is -0.0."""
        if self.in_order:
            return const_float(self.wide, -0.0)
        if self.kind in ("sum", "prod"):
            return const_int(self.wide, int(self.kind == "prod"))
        if self.dtype.kind == "u":
            return const_int(self.wide, 0 if self.kind == "max" else (1 << self.dtype.bits) - 1)
        half = 1 << (self.dtype.bits - 1)
        return const_int(self.wide, -half if self.kind == "max" else half - 1)
