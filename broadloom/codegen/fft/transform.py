"""A whole transform over planar data: chains of passes, convolution with a chirp, and what real rows need.

What goes in: planes that hold the rows. What comes out: calls of the functions of `passes`, and the planes in which
the result lies. What holds: two pairs of planes serve in turn; an inverse transform is a forward one of the planes
exchanged.

A real row of even size n is taken as n/2 complex numbers, whose transform is then separated: half of the work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broadloom.codegen.fft import plan as plans
from broadloom.codegen.fft.butterflies import Pair
from broadloom.codegen.fft.passes import (
    INTERNAL,
    Numbers,
    along_m,
    by_vectors,
    first_function,
    pass_function,
    planes_and,
)
from broadloom.codegen.fft.plan import Array, Pass, Plan
from broadloom.codegen.fft.rows import Mover, Planes
from broadloom.codegen.llvm import NULL, Function, FunctionBuilder, Val, const_float, i64
from broadloom.records import dataclass


@dataclass(frozen=True, slots=True)
class Transform:
    """Emits transforms of `width` rows side by side into the function of `b`."""

    numbers: Numbers
    b: FunctionBuilder
    width: int

    def run(self, plan: Plan, x: Planes, y: Planes, inverse: bool) -> tuple[Planes, Planes]:
        """The unscaled transform of the rows in `x`. Gives the planes that hold it, and the others."""
        if inverse:
            result, other = self.run(plan, x[::-1], y[::-1], False)
            return result[::-1], other[::-1]
        return self._convolved(plan, x, y) if plan.chirp else self._chain(plan, x, y)

    def _chain(self, plan: Plan, x: Planes, y: Planes) -> tuple[Planes, Planes]:
        for p in plan.passes:
            wide = Pass(p.radix, p.m, p.s * self.width)
            columns = along_m(self.numbers, wide)
            function = (first_function if columns else pass_function)(self.numbers, wide)
            table = NULL if p.m == 1 else self._table(plans.twiddles(p, self.numbers.dtype, columns))
            self.b.call(function, *x, *y, table, i64(wide.m), i64(wide.s))
            x, y = y, x
        return x, y

    def _convolved(self, plan: Plan, x: Planes, y: Planes) -> tuple[Planes, Planes]:
        n, size, dtype = plan.chirp, plan.size, self.numbers.dtype
        chirp = self._table(plans.chirp(n, dtype))
        self._apply(x, chirp, n)
        Mover(self.numbers, self.b, self.width).clear(i64(n), i64(size), x)
        x, y = self._chain(plan, x, y)
        self._apply(x, self._table(plans.chirp_spectrum(n, size, dtype)), size)
        x, y = self._chain(plan, x[::-1], y[::-1])
        x, y = x[::-1], y[::-1]
        self._apply(x, chirp, n)
        return x, y

    def _table(self, table: Array) -> Val:
        return self.numbers.module.data(table.tobytes())

    def _apply(self, x: Planes, table: Val, count: int) -> None:
        """Multiplies the first `count` elements by those of a table."""
        width, numbers = self.width, self.numbers

        def build(b: FunctionBuilder) -> None:
            b.hides = True
            planes, factors, end = b.params[:2], b.params[4], b.params[5]

            def one(k: Val, lanes: int) -> None:
                at = b.mul(k, i64(width))
                value = numbers.load_pair(b, planes, at, lanes)
                product = numbers.arithmetic(b).times(value, _factor(numbers, b, factors, k, lanes, width))
                numbers.store_pair(b, product, planes, at)

            points(numbers, b, end, width, one)
            b.ret()

        self._call("apply", build, x, (NULL, NULL), table, i64(count))

    def _call(self, name: str, build: Callable[[FunctionBuilder], None], x: Planes, y: Planes, *rest: Val) -> None:
        full = f"bl.fft.{name}.{self.numbers.suffix}.{self.width}"
        function: Function = self.numbers.module.helper(full, "void", planes_and("n"), build, INTERNAL)
        self.b.call(function, *x, *y, *rest)

    # -- real rows --

    def separate(self, n: int, x: Planes, y: Planes) -> None:
        """`x` holds the transform of n/2 pairs of real numbers; `y` gets that of the n numbers, n/2 + 1 elements."""
        width, numbers = self.width, self.numbers

        def build(b: FunctionBuilder) -> None:
            b.hides = True
            source, target, table, half = b.params[:2], b.params[2:4], b.params[4], b.params[5]
            real, imaginary = numbers.load_pair(b, source, i64(0), width)
            zero = const_float(real.type, 0.0)
            numbers.store_pair(b, (b.fadd(real, imaginary), zero), target, i64(0))
            numbers.store_pair(b, (b.fsub(real, imaginary), zero), target, b.mul(half, i64(width)))
            a, one_half = numbers.arithmetic(b), 0.5

            def one(i: Val, lanes: int) -> None:
                k = b.add(i, i64(1))
                at = b.mul(k, i64(width))
                first = numbers.load_pair(b, source, at, lanes)
                second = _mirrored(numbers, b, source, b.sub(half, k), lanes, width)
                even = b.fadd(first[0], second[0]), b.fsub(first[1], second[1])
                odd = b.fadd(first[1], second[1]), b.fsub(second[0], first[0])
                turned = a.times(odd, _factor(numbers, b, table, k, lanes, width))
                scale = a.number(even[0], one_half)
                total = a.add(even, turned)
                numbers.store_pair(b, (b.fmul(total[0], scale), b.fmul(total[1], scale)), target, at)

            points(numbers, b, b.sub(half, i64(1)), width, one)
            b.ret()

        self._call("separate", build, x, y, self._table(plans.halves(n, numbers.dtype)), i64(n // 2))

    def combine(self, n: int, x: Planes, y: Planes) -> None:
        """`x` holds half of the transform of n real numbers, n/2 + 1 elements; `y` gets what the inverse transform
        of n/2 elements turns into pairs of real numbers."""
        width, numbers = self.width, self.numbers

        def build(b: FunctionBuilder) -> None:
            b.hides = True
            source, target, table, half = b.params[:2], b.params[2:4], b.params[4], b.params[5]
            low = numbers.load(b, source[0], i64(0), width)
            high = numbers.load(b, source[0], b.mul(half, i64(width)), width)
            numbers.store_pair(b, (b.fadd(low, high), b.fsub(low, high)), target, i64(0))
            a = numbers.arithmetic(b)

            def one(i: Val, lanes: int) -> None:
                k = b.add(i, i64(1))
                at = b.mul(k, i64(width))
                first = numbers.load_pair(b, source, at, lanes)
                second = _mirrored(numbers, b, source, b.sub(half, k), lanes, width)
                even = b.fadd(first[0], second[0]), b.fsub(first[1], second[1])
                odd = b.fsub(first[0], second[0]), b.fadd(first[1], second[1])
                real, imaginary = _factor(numbers, b, table, k, lanes, width)
                turned = a.times(odd, (real, b.fneg(imaginary)))
                numbers.store_pair(b, (b.fsub(even[0], turned[1]), b.fadd(even[1], turned[0])), target, at)

            points(numbers, b, b.sub(half, i64(1)), width, one)
            b.ret()

        self._call("combine", build, x, y, self._table(plans.halves(n, numbers.dtype)), i64(n // 2))

    def mirror(self, n: int, x: Planes) -> None:
        """Completes the transform of an odd number n of real numbers in place, from its first n//2 + 1 elements."""
        width, numbers = self.width, self.numbers

        def build(b: FunctionBuilder) -> None:
            b.hides = True
            planes, size = b.params[:2], b.params[5]
            numbers.store(b, const_float(_typed(numbers, width), 0.0), planes[1], i64(0))

            def one(i: Val) -> None:
                k = b.add(i, i64(1))
                real, imaginary = numbers.load_pair(b, planes, b.mul(k, i64(width)), width)
                numbers.store_pair(b, (real, b.fneg(imaginary)), planes, b.mul(b.sub(size, k), i64(width)))

            b.for_loop(i64(0), b.udiv(size, i64(2)), one, flags="nuw nsw")
            b.ret()

        self._call("mirror", build, x, (NULL, NULL), NULL, i64(n))


def points(numbers: Numbers, b: FunctionBuilder, end: Val, width: int, body: Callable[[Val, int], None]) -> None:
    """`body(k, lanes)` over elements: one element of all rows at a time, or vectors of elements of a single row."""
    if width > 1:
        b.for_loop(i64(0), end, lambda k: body(k, width), flags="nuw nsw", name="points")
    else:
        by_vectors(b, end, numbers.lanes, body)


def _typed(numbers: Numbers, width: int) -> str:
    return numbers.type if width == 1 else f"<{width} x {numbers.type}>"


def _factor(numbers: Numbers, b: FunctionBuilder, table: Val, k: Val, lanes: int, width: int) -> Pair:
    """Pair k of a table for all rows, or `lanes` pairs from k on for a single row."""
    at = b.mul(k, i64(2))
    if width > 1 or lanes == 1:
        real, imaginary = (numbers.load(b, table, b.add(at, i64(part)), 1) for part in (0, 1))
        return b.splat(real, lanes), b.splat(imaginary, lanes)
    low, high = (numbers.load(b, table, b.add(at, i64(part * lanes)), lanes) for part in (0, 1))
    return b.shuffle(low, high, range(0, 2 * lanes, 2)), b.shuffle(low, high, range(1, 2 * lanes, 2))


def _mirrored(numbers: Numbers, b: FunctionBuilder, planes: Sequence[Val], k: Val, lanes: int, width: int) -> Pair:
    """Element k of all rows, or of a single row the elements from k downwards."""
    if width > 1 or lanes == 1:
        return numbers.load_pair(b, planes, b.mul(k, i64(width)), lanes)
    real, imaginary = numbers.load_pair(b, planes, b.sub(k, i64(lanes - 1)), lanes)
    backwards = range(lanes - 1, -1, -1)
    return b.shuffle(real, real, backwards), b.shuffle(imaginary, imaginary, backwards)
