"""The kernels of sorting and searching, which are no loop nests: `sort`, `argsort`, `search`.

What goes in: an `Extern` whose routine is in `ROUTINES`; its regions give the buffer and layout (batch axes, then the
axis that is sorted or searched; any strides) of each operand and result. What comes out: a function of the kernel type
of `abi` over the rows or points, and what its argument block holds.

| routine | operands -> results       | a point of the kernel                                                    |
|---------|---------------------------|--------------------------------------------------------------------------|
| sort    | x -> values               | one row; `descending`                                                    |
| argsort | x -> int64 positions      | one row; `descending`                                                    |
| search  | sorted, values -> int64   | one value; the sorted row has one axis more than the value; `side`       |

What holds: the order is that of `ops.sorting`; a row is gathered into memory from `ctx.alloc` as signed integer keys
that are ordered as its numbers are, sorted there, and written from there; where no memory is left, the failure stands
at the step's site. Kernels of one routine, dtype and rank are one function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broadloom.codegen import abi
from broadloom.codegen.block_sort import BLOCK, LANES, ROWS, as_is, column_sort
from broadloom.codegen.key_sort import key_sort, while_loop
from broadloom.codegen.llvm import NULL, Function, FunctionBuilder, Param, Val, const_int, i1, i32, i64
from broadloom.codegen.module import ModuleBuilder
from broadloom.codegen.types import memory_type
from broadloom.dtypes import DType
from broadloom.errors import VerifyError
from broadloom.fusion.ir import Extern, Layout
from broadloom.records import dataclass
from broadloom.symbolic import Size, product

_PARAMS = (Param("ptr", "ctx"), Param("ptr", "args"), Param("i64", "begin"), Param("i64", "end"))
SEARCHES = 4  # values that are searched side by side: each waits for its own element of the sorted row
_INFINITY = {"float16": 0x7C00, "bfloat16": 0x7F80, "float32": 0x7F800000, "float64": 0x7FF << 52}


@dataclass(frozen=True, slots=True)
class Launch:
    """How a step runs: `function` over `points`, with the addresses of `buffers` and then the sizes `words` in its
    argument block, and last the number of its site; a point costs about `cost` units for each of `length` elements."""

    function: Function
    buffers: tuple[str, ...]
    words: tuple[Size, ...]
    points: Size
    length: Size
    cost: float


def launch(module: ModuleBuilder, step: Extern, dtype: DType) -> Launch:
    """The kernel of a step on operands of `dtype`."""
    attrs = dict(step.attrs)
    regions = (*step.operands, *step.results)
    layouts = tuple(r.layout for r in regions)
    buffers = tuple(r.buffer for r in regions)
    points = product(step.results[0].layout.shape[: -1 if step.routine != "search" else None])
    if step.routine == "search":
        function = _search_kernel(module, dtype, len(layouts[2].shape), attrs["side"] == "right")
        n = layouts[0].shape[-1]
        return Launch(function, buffers, _search_words(layouts), points, 1, 40.0 if n != 0 else 1.0)
    function = _sort_kernel(module, dtype, step.routine, len(layouts[0].shape) - 1, bool(attrs["descending"]))
    cost = 25.0 if step.routine == "sort" else 40.0
    return Launch(function, buffers, _sort_words(layouts), points, layouts[0].shape[-1], cost)


def _sort_words(layouts: Sequence[Layout]) -> tuple[Size, ...]:
    x, result = layouts
    words = [x.shape[-1], x.strides[-1], result.strides[-1], x.offset, result.offset]
    for axis in range(len(x.shape) - 1):
        words += [x.shape[axis], x.strides[axis], result.strides[axis]]
    return tuple(words)


def _search_words(layouts: Sequence[Layout]) -> tuple[Size, ...]:
    sorted_, values, result = layouts
    words = [sorted_.shape[-1], sorted_.strides[-1], sorted_.offset, values.offset, result.offset]
    for axis in range(len(result.shape)):
        words += [result.shape[axis], sorted_.strides[axis], values.strides[axis], result.strides[axis]]
    return tuple(words)


# ---- what both kernels share ------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Kernel:
    """A kernel under construction: its builder, and the words of its argument block."""

    b: FunctionBuilder
    buffers: int

    def buffer(self, number: int) -> Val:
        return self.b.load("ptr", self.b.gep("i64", self.b.params[1], i64(number)))

    def word(self, number: int) -> Val:
        return self.b.load("i64", self.b.gep("i64", self.b.params[1], i64(self.buffers + number)))

    def offsets(self, point: Val, starts: Sequence[Val], first: int, rank: int) -> list[Val]:
        """The element offsets of a point in each array: words from `first` on are, for each axis, its size and then
        its stride in each array."""
        b, rest, at = self.b, point, list(starts)
        for axis in reversed(range(rank)):
            place = first + axis * (1 + len(starts))
            if axis == 0:
                index = rest
            else:
                size = self.word(place)
                index, rest = b.urem(rest, size), b.udiv(rest, size)
            for k in range(len(at)):
                at[k] = b.add(at[k], b.mul(index, self.word(place + 1 + k)))
        return at


def _kernel(module: ModuleBuilder, name: str, buffers: int, build: Callable[[_Kernel], None]) -> Function:
    def body(b: FunctionBuilder) -> None:
        b.plain = True
        build(_Kernel(b, buffers))
        b.ret(i32(0))

    return module.helper(name, "i32", _PARAMS, body, "noinline nounwind")


# ---- sort, argsort ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Keys:
    """Elements of a dtype as signed keys in its order, and back."""

    b: FunctionBuilder
    dtype: DType
    descending: bool

    @property
    def bits(self) -> int:
        return max(self.dtype.bits, 8)

    @property
    def type(self) -> str:
        return f"i{self.bits}"

    def const(self, value: int) -> Val:
        return const_int(self.type, value)

    def load(self, base: Val, offset: Val) -> Val:
        """The bits of an element."""
        return self.b.load(self.type, self.b.gep(self.type, base, offset))

    def _folded(self, bits: Val) -> Val:
        """Floats in sign and magnitude as integers, and back: it is its own inverse."""
        b = self.b
        sign = b.ashr(bits, self.const(self.bits - 1))
        return b.xor(bits, b.and_(sign, self.const((1 << (self.bits - 1)) - 1)))

    def _turned(self, key: Val) -> Val:
        return self.b.not_(key) if self.descending else key

    def magnitude(self, bits: Val) -> Val:
        return self.b.and_(bits, self.const((1 << (self.bits - 1)) - 1))

    def is_nan(self, bits: Val) -> Val:
        return self.b.icmp("sgt", self.magnitude(bits), self.const(_INFINITY[self.dtype.name]))

    def is_zero(self, bits: Val) -> Val:
        return self.b.icmp("eq", self.magnitude(bits), self.const(0))

    def key(self, bits: Val, one_zero: bool) -> Val:
        """The key of an element; with `one_zero`, -0.0 has that of 0.0."""
        b = self.b
        if self.dtype.kind == "f":
            key = self._folded(bits)
            if one_zero:
                key = b.select(self.is_zero(bits), self.const(0), key)
            key = b.select(self.is_nan(bits), self.const((1 << (self.bits - 1)) - 1), key)
        elif self.dtype.kind == "u":
            key = b.xor(bits, self.const(1 << (self.bits - 1)))
        else:
            key = bits
        return self._turned(key)

    def element(self, key: Val) -> Val:
        """The bits of an element, given its key; those of nan and of zeros have to be put right."""
        key = self._turned(key)
        if self.dtype.kind == "f":
            return self._folded(key)
        return self.b.xor(key, self.const(1 << (self.bits - 1))) if self.dtype.kind == "u" else key


def _sort_kernel(module: ModuleBuilder, dtype: DType, routine: str, rank: int, descending: bool) -> Function:
    if dtype.kind == "c":
        raise VerifyError("complex numbers have no single key", got=routine)
    placed = routine == "argsort"
    sort = key_sort(module, max(dtype.bits, 8), placed)

    def build(k: _Kernel) -> None:
        b, keys = k.b, _Keys(k.b, dtype, descending)
        ctx, _, begin, end = b.params
        source, target, site = k.buffer(0), k.buffer(1), k.word(5 + 3 * rank)
        n, x_stride, y_stride, x_start, y_start = (k.word(i) for i in range(5))
        memory, size = _memory(b, ctx, n, keys.bits // 8, placed, site)

        rows = _Rows(b, keys, placed, memory, n, x_stride, y_stride)
        columns = column_sort(module, keys.bits, placed)

        def group(first: Val) -> None:
            """One row; or if they are short as many as a block has lanes, which are sorted together."""
            count = b.intrinsic("smin", rows.together, b.sub(end, first))

            def each(use: Callable[[Val, Val, Val], None], name: str) -> None:
                def one(k: Val) -> None:
                    x_at, y_at = k_offsets(b.add(first, k))
                    use(k, b.gep(keys.type, source, x_at), b.gep("i64" if placed else keys.type, target, y_at))

                b.for_loop(i64(0), count, one, name=name, metadata=as_is(b))

            each(lambda k, x, y: rows.gather(k, x), "taken")
            second = rows.sort(columns, sort)
            each(lambda k, x, y: rows.deliver(k, x, y, second), "given")

        def k_offsets(row: Val) -> list[Val]:
            return k.offsets(row, (x_start, y_start), 5, rank)

        b.for_loop(begin, end, group, step=rows.together, name="row", metadata=as_is(b))
        b.call_pointer(b.load("ptr", abi.field(b, ctx, abi.CTX_FREE)), "void", ctx, memory, size)

    name = f"bl_{routine}_{dtype.name}_{rank}{'_descending' if descending else ''}"
    return _kernel(module, name, 2, build)


def _room(b: FunctionBuilder, n: Val) -> Val:
    """The elements that there is room for: whole blocks, and at least one."""
    return b.intrinsic("smax", b.and_(b.add(n, i64(BLOCK - 1)), i64(-BLOCK)), i64(BLOCK))


def _memory(b: FunctionBuilder, ctx: Val, n: Val, width: int, placed: bool, site: Val) -> tuple[Val, Val]:
    """Two halves of keys and, if `placed`, two of places; where there is none, the kernel ends with a failure."""
    each = 2 * (width + (8 if placed else 0))
    size = b.mul(_room(b, n), i64(each))
    memory = b.call_pointer(b.load("ptr", abi.field(b, ctx, abi.CTX_ALLOC)), "ptr", ctx, size)

    def none() -> None:
        abi.fail(b, ctx, b.trunc(site, "i32"), i64(0), size, i64(0))
        b.ret(i32(0))

    b.if_then(b.icmp("eq", memory, NULL), none)
    return memory, size


class _Rows:
    """The rows that are sorted together, in the memory of a kernel: row k of short ones is run k of a block."""

    def __init__(
        self, b: FunctionBuilder, keys: _Keys, placed: bool, memory: Val, n: Val, x_stride: Val, y_stride: Val
    ) -> None:
        self.b, self.keys, self.placed, self.n = b, keys, placed, n
        self.x_stride, self.y_stride = x_stride, y_stride
        room, width = _room(b, n), keys.bits // 8
        self.halves = [b.gep("i8", memory, b.mul(room, i64(width * k))) for k in (0, 1)]
        self.places = [b.gep("i8", memory, b.mul(room, i64(2 * width + 8 * k))) if placed else NULL for k in (0, 1)]
        self.short = b.icmp("sle", n, i64(ROWS))
        self.together = b.select(self.short, i64(LANES), i64(1))
        self.counting = keys.dtype.kind == "f" and not placed
        # of each row: how many nans, and -0.0, there are, and keys before the zeros
        self.counts = b.alloca("[3 x i64]", LANES) if self.counting else NULL

    def _start(self, row: Val) -> Val:
        return self.b.shl(row, i64(4))

    def gather(self, row: Val, x: Val) -> None:
        """Keys, and places 0, 1, ...; short rows are filled up with the largest key."""
        b, keys = self.b, self.keys
        half = b.gep(keys.type, self.halves[0], self._start(row))
        places = b.gep("i64", self.places[0], self._start(row)) if self.placed else NULL

        def gather(i: Val, *counts: Val) -> tuple[Val, ...]:
            bits = keys.load(x, b.mul(i, self.x_stride))
            key = keys.key(bits, one_zero=self.placed)
            b.store(key, b.gep(keys.type, half, i))
            if self.placed:
                b.store(i, b.gep("i64", places, i))
            if not self.counting:
                return ()
            is_minus = b.icmp("eq", bits, keys.const(1 << (keys.bits - 1)))
            # The zeros' keys are 0 and -1, turned or not.
            flags = (keys.is_nan(bits), is_minus, b.icmp("slt", key, keys.const(-1)))
            return tuple(b.add(c, b.zext(f, "i64")) for c, f in zip(counts, flags, strict=True))

        counts = b.for_loop(i64(0), self.n, gather, (i64(0),) * 3 if self.counting else (), name="gather")
        for part, count in enumerate(counts):
            b.store(count, b.gep("[3 x i64]", self.counts, row, i64(part)))

        def fill(i: Val) -> None:
            b.store(keys.const((1 << (keys.bits - 1)) - 1), b.gep(keys.type, half, i))
            if self.placed:
                b.store(i, b.gep("i64", places, i))

        filled = b.select(self.short, i64(ROWS), self.n)
        b.for_loop(self.n, filled, fill, name="fill", metadata=as_is(b))

    def sort(self, columns: Function, sort: Function) -> Val:
        """Sorts what was gathered; whether the result lies in the second half."""
        b = self.b

        def together() -> tuple[Val]:
            b.call(columns, self.halves[0], self.places[0])
            return (i1(False),)

        def alone() -> tuple[Val]:
            return (b.icmp("ne", b.call(sort, *self.halves, *self.places, self.n), i64(0)),)

        return b.if_then(self.short, together, alone)[0]

    def deliver(self, row: Val, x: Val, y: Val, second: Val) -> None:
        """Writes a sorted row."""
        b, keys = self.b, self.keys
        kind, halves = ("i64", self.places) if self.placed else (keys.type, self.halves)
        found = b.gep(kind, b.select(second, halves[1], halves[0]), self._start(row))

        def deliver(i: Val) -> None:
            value = b.load(kind, b.gep(kind, found, i))
            b.store(value if self.placed else keys.element(value), b.gep(kind, y, b.mul(i, self.y_stride)))

        b.for_loop(i64(0), self.n, deliver, name="deliver")
        if self.counting:
            counts = [b.load("i64", b.gep("[3 x i64]", self.counts, row, i64(part))) for part in range(3)]
            self._put_right(x, y, *counts)

    def _put_right(self, x: Val, y: Val, nans: Val, minus: Val, before: Val) -> None:
        """Nans and zeros lie together each; they are written again as they come in the operand."""
        b, keys = self.b, self.keys

        def again() -> None:
            first_nan = i64(0) if keys.descending else b.sub(self.n, nans)

            def look(i: Val, nan_at: Val, zero_at: Val) -> tuple[Val, ...]:
                bits = keys.load(x, b.mul(i, self.x_stride))
                nan, zero = keys.is_nan(bits), keys.is_zero(bits)

                def write() -> None:
                    at = b.mul(b.select(nan, nan_at, zero_at), self.y_stride)
                    b.store(bits, b.gep(keys.type, y, at))

                b.if_then(b.or_(nan, zero), write)
                return b.add(nan_at, b.zext(nan, "i64")), b.add(zero_at, b.zext(zero, "i64"))

            b.for_loop(i64(0), self.n, look, (first_nan, before), name="again", metadata=as_is(b))

        b.if_then(b.icmp("ne", b.or_(nans, minus), i64(0)), again)


# ---- search -----------------------------------------------------------------------------------------------------


def _search_kernel(module: ModuleBuilder, dtype: DType, rank: int, right: bool) -> Function:
    def build(k: _Kernel) -> None:
        b = k.b
        _, _, begin, end = b.params
        sorted_, values, target = (k.buffer(i) for i in range(3))
        n, stride, *starts = (k.word(i) for i in range(5))

        def some(first: Val) -> None:
            last = b.sub(end, i64(1))  # which is searched several times where there are fewer
            points = [b.intrinsic("smin", b.add(first, i64(j)), last) for j in range(SEARCHES)]
            found = [k.offsets(point, starts, 5, rank) for point in points]
            needles = [_load(b, dtype, values, value_at) for _, value_at, _ in found]

            def behind(j: Val, number: int) -> Val:
                """Whether the value stands behind element j of its row."""
                element = _load(b, dtype, sorted_, b.add(found[number][0], b.mul(j, stride)))
                needle = needles[number]
                return b.not_(less(b, dtype, needle, element)) if right else less(b, dtype, element, needle)

            def many(left: Val, *lows: Val) -> tuple[Val, tuple[Val, ...]]:
                return b.icmp("sgt", left, i64(1)), ()

            def narrow(left: Val, *lows: Val) -> tuple[Val, ...]:
                half = b.lshr(left, i64(1))
                moved = []
                for number, low in enumerate(lows):
                    upper = b.add(low, half)
                    moved.append(b.select(behind(b.sub(upper, i64(1)), number), upper, low))
                return (b.sub(left, half), *moved)

            _, *lows = while_loop(b, (n, *[i64(0)] * SEARCHES), many, narrow, name="search")
            for number, low in enumerate(lows):
                b.store(b.add(low, b.zext(behind(low, number), "i64")), b.gep("i64", target, found[number][2]))

        def nowhere(point: Val) -> None:
            b.store(i64(0), b.gep("i64", target, k.offsets(point, starts, 5, rank)[2]))

        b.if_then(
            b.icmp("sgt", n, i64(0)),
            lambda: b.for_loop(begin, end, some, step=SEARCHES, name="point", metadata=as_is(b)),
            lambda: b.for_loop(begin, end, nowhere, name="point", metadata=as_is(b)),
        )

    return _kernel(module, f"bl_search_{dtype.name}_{rank}_{'right' if right else 'left'}", 3, build)


def _load(b: FunctionBuilder, dtype: DType, base: Val, offset: Val) -> tuple[Val, ...]:
    """An element in registers that can be compared: floats as floats, complex numbers as pairs."""
    kind = memory_type(dtype)
    if dtype.kind == "c":
        at = b.gep(kind, base, b.shl(offset, i64(1)))
        return b.load(kind, at), b.load(kind, b.gep(kind, at, i64(1)))
    value = b.load(kind, b.gep(kind, base, offset))
    if dtype.name == "bfloat16":
        value = b.bitcast(b.shl(b.zext(value, "i32"), i32(16)), "float")
    return (value,)


def less(b: FunctionBuilder, dtype: DType, x: Sequence[Val], y: Sequence[Val]) -> Val:
    """Whether x comes before y in NumPy's order."""
    if dtype.kind == "c":
        return _less_complex(b, x, y)
    if dtype.kind == "f":
        return b.or_(b.fcmp("olt", x[0], y[0]), b.and_(_nan(b, y[0]), b.not_(_nan(b, x[0]))))
    return b.icmp("slt" if dtype.kind == "i" else "ult", x[0], y[0])


def _less_complex(b: FunctionBuilder, x: Sequence[Val], y: Sequence[Val]) -> Val:
    """By how many of which parts are nan, then by the real parts, then by the imaginary parts."""
    nan_x, nan_y = ([_nan(b, part) for part in z] for z in (x, y))
    result, equal = i1(False), i1(True)
    pairs = [(b.and_(b.not_(p), q), b.xor(p, q)) for p, q in zip(nan_x, nan_y, strict=True)]
    pairs += [(b.fcmp("olt", p, q), b.or_(b.fcmp("olt", p, q), b.fcmp("ogt", p, q))) for p, q in zip(x, y, strict=True)]
    for before, differs in pairs:
        result = b.or_(result, b.and_(equal, before))
        equal = b.and_(equal, b.not_(differs))
    return result


def _nan(b: FunctionBuilder, x: Val) -> Val:
    return b.fcmp("uno", x, x)


ROUTINES = frozenset(("sort", "argsort", "search"))
