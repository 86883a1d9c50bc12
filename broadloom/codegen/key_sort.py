"""Sorting of integer keys in memory, alone or with the positions that they came from: LLVM functions of our own.

What goes in: the bits of a key. What comes out: a function `i64 (ptr keys, ptr spare, ptr places, ptr spare places,
i64 n)`, which sorts n signed keys, and the 64-bit places beside them, and returns 0 if the result lies where the keys
lay and 1 if it lies in the spare memory.

What holds: the sort is stable and takes O(n log n) steps; nothing recurses; it takes no memory but the two halves that
it is given, which have room for n rounded up to BLOCK, and a fixed part of the stack. Short arrays are merged, from
runs that a network sorted in vector registers (`codegen.block_sort`); the array is filled up for that with the largest
key, and with the places from n on. Long arrays go through a radix sort, byte by byte from the lowest, which skips the
bytes in which all keys agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broadloom.codegen.block_sort import BLOCK, as_is, block_sort, run_length
from broadloom.codegen.llvm import Function, FunctionBuilder, Param, Val, const_int, i64
from broadloom.codegen.module import ModuleBuilder
from broadloom.records import dataclass

# Elements from which on a radix sort of keys of so many bits is faster, without places and with them.
RADIX_FROM = {False: {8: 256, 16: 1024, 32: 16384, 64: 32768}, True: {8: 256, 16: 512, 32: 2048, 64: 8192}}


def key_sort(module: ModuleBuilder, bits: int, placed: bool) -> Function:
    """The function for keys of `bits` bits, with places if `placed`."""
    params = [Param("ptr", name) for name in ("keys", "spare", "places", "spare_places")]
    return module.helper(
        f"bl_sort_i{bits}{'_placed' if placed else ''}",
        "i64",
        [*params, Param("i64", "n")],
        lambda b: _build(b, bits, placed),
        "noinline nounwind",
    )


@dataclass(frozen=True, slots=True)
class Side:
    """One half of the memory: keys, and their places."""

    keys: Val
    places: Val


@dataclass(slots=True)
class _Sort:
    """The parts of the sort, emitted into one function."""

    b: FunctionBuilder
    bits: int
    placed: bool

    @property
    def type(self) -> str:
        return f"i{self.bits}"

    # -- elements --

    def key(self, side: Side, i: Val) -> Val:
        return self.b.load(self.type, self.b.gep(self.type, side.keys, i))

    def put_key(self, side: Side, i: Val, key: Val) -> None:
        self.b.store(key, self.b.gep(self.type, side.keys, i))

    def place(self, side: Side, i: Val) -> Val:
        return self.b.load("i64", self.b.gep("i64", side.places, i))

    def put_place(self, side: Side, i: Val, place: Val) -> None:
        self.b.store(place, self.b.gep("i64", side.places, i))

    def copy(self, source: Side, i: Val, target: Side, j: Val) -> None:
        self.put_key(target, j, self.key(source, i))
        if self.placed:
            self.put_place(target, j, self.place(source, i))

    # -- runs --

    def blocks(self, side: Side, n: Val) -> Val:
        """Fills the last block up and sorts each in registers; the length that there is then."""
        b = self.b
        filled = b.and_(b.add(n, i64(BLOCK - 1)), i64(-BLOCK))

        def fill(i: Val) -> None:
            self.put_key(side, i, const_int(self.type, (1 << (self.bits - 1)) - 1))
            if self.placed:
                self.put_place(side, i, i)

        b.for_loop(n, filled, fill, name="fill", metadata=as_is(b))
        sort = block_sort(b.module, self.bits, self.placed)

        def block(start: Val) -> None:
            keys = b.gep(self.type, side.keys, start)
            b.call(sort, keys, b.gep("i64", side.places, start) if self.placed else side.places)

        b.for_loop(i64(0), filled, block, step=BLOCK, name="block", metadata=as_is(b))
        return filled

    # -- merging --

    def merges(self, sides: tuple[Side, Side], n: Val) -> Val:
        """Merges sorted runs pairwise, from one half of the memory into the other, until there is one."""
        b = self.b

        def unfinished(*state: Val) -> tuple[Val, tuple[Val, ...]]:
            return b.icmp("slt", state[0], n), ()

        def level(width: Val, at: Val, k0: Val, p0: Val, k1: Val, p1: Val) -> tuple[Val, ...]:
            source, target = Side(k0, p0), Side(k1, p1)
            double = b.shl(width, i64(1))
            b.for_loop(
                i64(0),
                n,
                lambda s: self._merge(source, target, s, width, n),
                step=double,
                name="merge",
                metadata=as_is(b),
            )
            return (double, b.xor(at, i64(1)), k1, p1, k0, p0)

        first, second = sides
        state = (i64(run_length(self.placed)), i64(0), first.keys, first.places, second.keys, second.places)
        return while_loop(b, state, unfinished, level, name="level")[1]

    def _merge(self, source: Side, target: Side, start: Val, width: Val, n: Val) -> None:
        b = self.b
        middle = b.add(start, width)
        end = b.add(middle, width)

        def ragged() -> None:
            self._merge_ragged(source, target, start, b.intrinsic("smin", middle, n), n)

        whole = b.icmp("sle", end, n)
        b.if_then(whole, lambda: self._merge_whole(source, target, start, middle, end), ragged)

    def _merge_whole(self, source: Side, target: Side, start: Val, middle: Val, end: Val) -> None:
        """Two runs of one length, from both ends at once: neither end can leave its run within as many steps as a run
        is long, so nothing is asked but which key is smaller, and the two ends do not wait for each other."""
        b = self.b

        def step(i: Val, left: Val, right: Val, last_left: Val, last_right: Val) -> tuple[Val, ...]:
            kl, kr = self.key(source, left), self.key(source, right)
            take_right = b.icmp("slt", kr, kl)
            self.put_key(target, i, b.select(take_right, kr, kl))
            taken = b.zext(take_right, "i64")
            jl, jr = self.key(source, last_left), self.key(source, last_right)
            take_left = b.icmp("slt", jr, jl)
            back = b.sub(b.add(start, b.sub(end, i64(1))), i)
            self.put_key(target, back, b.select(take_left, jl, jr))
            given = b.zext(take_left, "i64")
            if self.placed:
                self.put_place(target, i, self.place(source, b.select(take_right, right, left)))
                self.put_place(target, back, self.place(source, b.select(take_left, last_left, last_right)))
            return (
                b.add(left, b.xor(taken, i64(1))),
                b.add(right, taken),
                b.sub(last_left, given),
                b.sub(last_right, b.xor(given, i64(1))),
            )

        ends = (start, middle, b.sub(middle, i64(1)), b.sub(end, i64(1)))
        b.for_loop(start, middle, step, ends, name="both", metadata=as_is(b))

    def _merge_ragged(self, source: Side, target: Side, start: Val, middle: Val, n: Val) -> None:
        """The last run, which is shorter than its partner or has none."""
        b = self.b

        def step(i: Val, left: Val, right: Val) -> tuple[Val, ...]:
            some_left, some_right = b.icmp("slt", left, middle), b.icmp("slt", right, n)
            kl = self.key(source, b.select(some_left, left, right))
            kr = self.key(source, b.select(some_right, right, left))
            smaller = b.and_(some_right, b.icmp("slt", kr, kl))
            take_right = b.or_(smaller, b.not_(some_left))
            self.copy(source, b.select(take_right, right, left), target, i)
            taken = b.zext(take_right, "i64")
            return (b.add(left, b.xor(taken, i64(1))), b.add(right, taken))

        b.for_loop(start, n, step, (start, middle), name="ragged", metadata=as_is(b))

    # -- radix --

    def radix(self, sides: tuple[Side, Side], n: Val) -> Val:
        """Byte by byte from the lowest; the counts of all bytes are taken in one pass."""
        b = self.b
        digits = self.bits // 8
        counts = b.alloca(f"[{256 * digits} x i64]", 1, 64)
        b.for_loop(
            i64(0),
            i64(256 * digits),
            lambda k: b.store(i64(0), b.gep("i64", counts, k)),
            name="clear",
            metadata=as_is(b),
        )
        first, second = sides

        def count(i: Val) -> None:
            key = self.key(first, i)
            for digit in range(digits):
                self._bump(b.gep("i64", counts, b.add(self._digit(key, i64(8 * digit)), i64(256 * digit))))

        b.for_loop(i64(0), n, count, name="count", metadata=as_is(b))
        start = self.key(first, i64(0))

        def each(digit: Val, at: Val, k0: Val, p0: Val, k1: Val, p1: Val) -> tuple[Val, ...]:
            shift = b.shl(digit, i64(3))
            table = b.gep("i64", counts, b.shl(digit, i64(8)))
            common = b.load("i64", b.gep("i64", table, self._digit(start, shift)))

            def distribute() -> tuple[Val, ...]:
                self._distribute(Side(k0, p0), Side(k1, p1), table, shift, n)
                return (b.xor(at, i64(1)), k1, p1, k0, p0)

            return b.if_then(b.icmp("ne", common, n), distribute, lambda: (at, k0, p0, k1, p1))

        state = (i64(0), first.keys, first.places, second.keys, second.places)
        return b.for_loop(i64(0), i64(digits), each, state, name="digit", metadata=as_is(b))[0]

    def _digit(self, key: Val, shift: Val) -> Val:
        """The byte at `shift`; that with the sign counts from the negative ones up."""
        b = self.b
        flipped = b.xor(key, const_int(self.type, 1 << (self.bits - 1)))
        wide = b.int_cast(flipped, "i64", signed=False)
        return b.and_(b.lshr(wide, shift), i64(255))

    def _bump(self, at: Val) -> Val:
        b = self.b
        before = b.load("i64", at)
        b.store(b.add(before, i64(1)), at)
        return before

    def _distribute(self, source: Side, target: Side, table: Val, shift: Val, n: Val) -> None:
        b = self.b

        def begin(k: Val, total: Val) -> tuple[Val]:
            at = b.gep("i64", table, k)
            size = b.load("i64", at)
            b.store(total, at)
            return (b.add(total, size),)

        b.for_loop(i64(0), i64(256), begin, (i64(0),), name="begin", metadata=as_is(b))

        def move(i: Val) -> None:
            key = self.key(source, i)
            position = self._bump(b.gep("i64", table, self._digit(key, shift)))
            self.put_key(target, position, key)
            if self.placed:
                self.put_place(target, position, self.place(source, i))

        b.for_loop(i64(0), n, move, name="move", metadata=as_is(b))


def _build(b: FunctionBuilder, bits: int, placed: bool) -> None:
    keys, spare, places, spare_places, n = b.params
    sort, sides = _Sort(b, bits, placed), (Side(keys, places), Side(spare, spare_places))

    def short() -> None:
        b.ret(sort.merges(sides, sort.blocks(sides[0], n)))

    def long() -> None:
        b.ret(sort.radix(sides, n))

    b.if_then(b.icmp("slt", n, i64(RADIX_FROM[placed][bits])), short, long)


def while_loop(
    b: FunctionBuilder,
    state: Sequence[Val],
    condition: Callable[..., tuple[Val, tuple[Val, ...]]],
    body: Callable[..., Sequence[Val]],
    *,
    name: str,
) -> tuple[Val, ...]:
    """Runs `body(*state, *extra)` for the next state while `condition(*state)`, which is (i1, extra), holds; the last
    state is returned."""
    head, inside, out = b.block(name), b.block(name + ".body"), b.block(name + ".end")
    before = b.current
    b.br(head)
    b.at(head)
    phis = [b.phi(v.type, (v, before)) for v in state]
    values = tuple(p.value for p in phis)
    holds, extra = condition(*values)
    b.cond_br(holds, inside, out)
    b.at(inside)
    for phi, value in zip(phis, body(*values, *extra), strict=True):
        phi.add(value, b.current)
    b.br(head, as_is(b))
    b.at(out)
    return values
