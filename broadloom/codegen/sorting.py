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
from broadloom.codegen.key_sort import key_sort, while_loop
from broadloom.codegen.llvm import NULL, Function, FunctionBuilder, ModuleBuilder, Param, Val, const_int, i1, i32, i64
from broadloom.codegen.types import memory_type
from broadloom.dtypes import DType
from broadloom.errors import VerifyError
from broadloom.fusion.ir import Extern, Layout
from broadloom.records import dataclass
from broadloom.symbolic import Size, product

_PARAMS = (Param("ptr", "ctx"), Param("ptr", "args"), Param("i64", "begin"), Param("i64", "end"))
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
                index, rest = b.binary("urem", rest, size), b.udiv(rest, size)
            for k in range(len(at)):
                at[k] = b.add(at[k], b.mul(index, self.word(place + 1 + k)))
        return at


def _kernel(module: ModuleBuilder, name: str, buffers: int, build: Callable[[_Kernel], None]) -> Function:
    def body(b: FunctionBuilder) -> None:
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

        def row(number: Val) -> None:
            x_at, y_at = k.offsets(number, (x_start, y_start), 5, rank)
            x = b.gep(keys.type, source, x_at)
            y = b.gep("i64" if placed else keys.type, target, y_at)
            _sort_row(b, keys, sort, _Row(memory, n, x, x_stride, y, y_stride), placed)

        b.for_loop(begin, end, row, name="row")
        b.call_pointer(b.load("ptr", abi.field(b, ctx, abi.CTX_FREE)), "void", ctx, memory, size)

    name = f"bl_{routine}_{dtype.name}_{rank}{'_descending' if descending else ''}"
    return _kernel(module, name, 2, build)


def _memory(b: FunctionBuilder, ctx: Val, n: Val, width: int, placed: bool, site: Val) -> tuple[Val, Val]:
    """Two halves of keys and, if `placed`, two of places; where there is none, the kernel ends with a failure."""
    each = 2 * (width + (8 if placed else 0))
    padded = b.and_(b.add(n, i64(15)), i64(-8))
    size = b.mul(padded, i64(each))
    memory = b.call_pointer(b.load("ptr", abi.field(b, ctx, abi.CTX_ALLOC)), "ptr", ctx, size)

    def none() -> None:
        abi.fail(b, ctx, b.trunc(site, "i32"), i64(0), size, i64(0))
        b.ret(i32(0))

    b.if_then(b.icmp("eq", memory, NULL), none)
    return memory, size


@dataclass(frozen=True, slots=True)
class _Row:
    memory: Val
    n: Val
    x: Val
    x_stride: Val
    y: Val
    y_stride: Val

    def part(self, b: FunctionBuilder, width: int, number: int, before: int = 0) -> Val:
        """Array `number` of elements of `width` bytes in the row's memory, behind `before` bytes an element."""
        padded = b.and_(b.add(self.n, i64(15)), i64(-8))
        return b.gep("i8", self.memory, b.mul(padded, i64(before + width * number)))


def _sort_row(b: FunctionBuilder, keys: _Keys, sort: Function, r: _Row, placed: bool) -> None:
    width = keys.bits // 8
    halves = [r.part(b, width, k) for k in (0, 1)]
    places = [r.part(b, 8, k, 2 * width) if placed else NULL for k in (0, 1)]
    counts = _gather(b, keys, r, halves[0], places[0], placed)
    second = b.icmp("ne", b.call(sort, *halves, *places, r.n), i64(0))
    if placed:
        found = b.select(second, places[1], places[0])

        def deliver(i: Val) -> None:
            b.store(b.load("i64", b.gep("i64", found, i)), b.gep("i64", r.y, b.mul(i, r.y_stride)))

        b.for_loop(i64(0), r.n, deliver, name="deliver")
        return
    found = b.select(second, halves[1], halves[0])

    def decode(i: Val) -> None:
        bits = keys.element(b.load(keys.type, b.gep(keys.type, found, i)))
        b.store(bits, b.gep(keys.type, r.y, b.mul(i, r.y_stride)))

    b.for_loop(i64(0), r.n, decode, name="decode")
    if counts is not None:
        _put_right(b, keys, r, *counts)


def _gather(
    b: FunctionBuilder, keys: _Keys, r: _Row, half: Val, places: Val, placed: bool
) -> tuple[Val, Val, Val] | None:
    """Keys, and places 0, 1, ...; for values of floats the numbers of nans, of -0.0, and of keys before the zeros."""
    counting = keys.dtype.kind == "f" and not placed

    def gather(i: Val, *counts: Val) -> tuple[Val, ...]:
        bits = keys.load(r.x, b.mul(i, r.x_stride))
        key = keys.key(bits, one_zero=placed)
        b.store(key, b.gep(keys.type, half, i))
        if placed:
            b.store(i, b.gep("i64", places, i))
        if not counting:
            return ()
        nans, minus, before = counts
        is_minus = b.icmp("eq", bits, keys.const(1 << (keys.bits - 1)))
        # The zeros' keys are 0 and -1, turned or not.
        is_before = b.icmp("slt", key, keys.const(-1))
        flags = (keys.is_nan(bits), is_minus, is_before)
        return tuple(b.add(c, b.zext(f, "i64")) for c, f in zip((nans, minus, before), flags, strict=True))

    counts = b.for_loop(i64(0), r.n, gather, (i64(0),) * 3 if counting else (), name="gather")
    return (counts[0], counts[1], counts[2]) if counting else None


def _put_right(b: FunctionBuilder, keys: _Keys, r: _Row, nans: Val, minus: Val, before: Val) -> None:
    """Nans and zeros lie together each; they are written again as they come in the operand."""

    def again() -> None:
        first_nan = i64(0) if keys.descending else b.sub(r.n, nans)

        def look(i: Val, nan_at: Val, zero_at: Val) -> tuple[Val, ...]:
            bits = keys.load(r.x, b.mul(i, r.x_stride))
            nan, zero = keys.is_nan(bits), keys.is_zero(bits)

            def write() -> None:
                b.store(bits, b.gep(keys.type, r.y, b.mul(b.select(nan, nan_at, zero_at), r.y_stride)))

            b.if_then(b.or_(nan, zero), write)
            return b.add(nan_at, b.zext(nan, "i64")), b.add(zero_at, b.zext(zero, "i64"))

        b.for_loop(i64(0), r.n, look, (first_nan, before), name="again")

    b.if_then(b.icmp("ne", b.or_(nans, minus), i64(0)), again)


# ---- search -----------------------------------------------------------------------------------------------------


def _search_kernel(module: ModuleBuilder, dtype: DType, rank: int, right: bool) -> Function:
    def build(k: _Kernel) -> None:
        b = k.b
        _, _, begin, end = b.params
        sorted_, values, target = (k.buffer(i) for i in range(3))
        n, stride, *starts = (k.word(i) for i in range(5))

        def one(point: Val) -> None:
            row, value_at, at = k.offsets(point, starts, 5, rank)
            value = _load(b, dtype, values, value_at)

            def before(low: Val, left: Val) -> tuple[Val, tuple[Val, ...]]:
                return b.icmp("sgt", left, i64(0)), ()

            def narrow(low: Val, left: Val) -> tuple[Val, ...]:
                half = b.lshr(left, i64(1))
                middle = b.add(low, half)
                element = _load(b, dtype, sorted_, b.add(row, b.mul(middle, stride)))
                behind = b.not_(less(b, dtype, value, element)) if right else less(b, dtype, element, value)
                past = b.add(middle, i64(1))
                return b.select(behind, past, low), b.select(behind, b.sub(b.sub(left, half), i64(1)), half)

            low, _ = while_loop(b, (i64(0), n), before, narrow, name="search")
            b.store(low, b.gep("i64", target, at))

        b.for_loop(begin, end, one, name="point")

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
