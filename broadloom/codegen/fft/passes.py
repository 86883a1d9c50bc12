"""The passes of a transform as functions of their own, over planar data: real parts in one array, imaginary in another.

What goes in: a `Pass`, the number type and the lanes of a vector. What comes out: the function, defined once per
module, and the bytes of its table. What holds: every element is computed by the same operations in vectors and in
what is left over; source and target lie apart.

A function's parameters are (source real, source imaginary, target real, target imaginary, table, m, s). With `width`
rows side by side all strides are `width` times as long, which is a pass with a larger s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from broadloom.codegen.fft.butterflies import Arithmetic, Pair
from broadloom.codegen.fft.plan import BLOCK, Pass, is_split
from broadloom.codegen.llvm import Function, FunctionBuilder, Param, Val, i64, lanes_of, vector
from broadloom.codegen.module import ModuleBuilder
from broadloom.records import dataclass

INTERNAL = "noinline nounwind"
_PLANES = ("xr", "xi", "yr", "yi")


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of a transform: LLVM type, NumPy dtype, lanes of a vector, and whether products are fused."""

    module: ModuleBuilder
    type: str
    dtype: np.dtype[Any]
    lanes: int

    @property
    def fused(self) -> bool:
        return bool(self.module.features & {"fma", "neon", "avx512f"})

    @property
    def suffix(self) -> str:
        return f"{'f64' if self.type == 'double' else 'f32'}"

    def arithmetic(self, b: FunctionBuilder) -> Arithmetic:
        return Arithmetic(b, self.fused)

    def load(self, b: FunctionBuilder, base: Val, at: Val, lanes: int) -> Val:
        return b.load(vector(self.type, lanes), b.gep(self.type, base, at), self.dtype.itemsize)

    def store(self, b: FunctionBuilder, x: Val, base: Val, at: Val) -> None:
        b.store(x, b.gep(self.type, base, at), self.dtype.itemsize)

    def load_pair(self, b: FunctionBuilder, planes: Sequence[Val], at: Val, lanes: int) -> Pair:
        return self.load(b, planes[0], at, lanes), self.load(b, planes[1], at, lanes)

    def store_pair(self, b: FunctionBuilder, x: Pair, planes: Sequence[Val], at: Val) -> None:
        for part, plane in zip(x, planes, strict=True):
            self.store(b, part, plane, at)


def planes_and(*sizes: str) -> list[Param]:
    """Parameters: source and target planes, a table, and sizes."""
    planes = [Param("ptr", name, "noalias") for name in (*_PLANES, "table")]
    return [*planes, *(Param("i64", name) for name in sizes)]


def by_vectors(
    b: FunctionBuilder, end: Val, lanes: int, body: Callable[[Val, int], None], *, whole: bool = False
) -> None:
    """`body(i, lanes)` for i = 0 .. end-1 in vectors, and one by one for the rest; `whole` says there is no rest."""
    if lanes == 1:
        b.for_loop(i64(0), end, lambda i: body(i, 1), flags="nuw nsw", name="each")
        return
    full = end if whole else b.and_(end, i64(-lanes))
    b.for_loop(i64(0), full, lambda i: body(i, lanes), step=lanes, flags="nuw nsw", name="vector")
    if not whole:
        b.for_loop(full, end, lambda i: body(i, 1), flags="nuw nsw", name="rest")


def pass_function(numbers: Numbers, p: Pass) -> Function:
    """The function of a pass with s > 1, or of one that has too few points for vectors along m."""
    lanes = numbers.lanes if p.s >= numbers.lanes else 1
    whole = p.s % lanes == 0
    last, split = p.m == 1, is_split(p)
    marks = f"{'' if whole else 'r'}{'l' if last else ''}{'s' if split else ''}"
    name = f"bl.fft{p.radix}.{numbers.suffix}.{lanes}{marks}"

    def build(b: FunctionBuilder) -> None:
        b.hides = True
        source, target, table = b.params[:2], b.params[2:4], b.params[4]
        m, s = b.params[5:]
        r, a = p.radix, numbers.arithmetic(b)
        row = b.mul(m, s)

        def points(index: Val) -> None:
            factors = [] if last else _at_point(numbers, b, table, index, r, split)
            x_at, y_at = b.mul(index, s), b.mul(index, b.mul(s, i64(r)))

            def one(q: Val, lanes: int) -> None:
                at = b.add(x_at, q)
                x = []
                for _ in range(r):
                    x.append(numbers.load_pair(b, source, at, lanes))
                    at = b.add(at, row)
                at = b.add(y_at, q)
                for j, y in enumerate(a.transform(x)):
                    if j and factors:
                        y = a.times(y, (b.splat(factors[j - 1][0], lanes), b.splat(factors[j - 1][1], lanes)))
                    numbers.store_pair(b, y, target, at)
                    at = b.add(at, s)

            by_vectors(b, s, lanes, one, whole=whole)

        if last:
            points(i64(0))
        else:
            b.for_loop(i64(0), m, points, flags="nuw nsw", name="points")
        b.ret()

    return numbers.module.helper(name, "void", planes_and("m", "s"), build, INTERNAL)


def _at_point(numbers: Numbers, b: FunctionBuilder, table: Val, index: Val, r: int, split: bool) -> list[Pair]:
    """The factors of a point."""
    if not split:
        return _pairs(numbers, b, table, b.mul(index, i64(2 * (r - 1))), r)
    fine = _pairs(numbers, b, table, b.mul(b.and_(index, i64(BLOCK - 1)), i64(2 * (r - 1))), r)
    coarse = _of_block(numbers, b, table, b.udiv(index, i64(BLOCK)), r)
    return [numbers.arithmetic(b).times(x, y) for x, y in zip(fine, coarse, strict=True)]


def _of_block(numbers: Numbers, b: FunctionBuilder, table: Val, block: Val, r: int) -> list[Pair]:
    return _pairs(numbers, b, table, b.mul(b.add(block, i64(BLOCK)), i64(2 * (r - 1))), r)


def _pairs(numbers: Numbers, b: FunctionBuilder, table: Val, at: Val, r: int) -> list[Pair]:
    parts = [numbers.load(b, table, b.add(at, i64(k)), 1) for k in range(2 * (r - 1))]
    return list(zip(parts[0::2], parts[1::2], strict=True))


def along_m(numbers: Numbers, p: Pass) -> bool:
    """Whether the pass is the first of a single row, with enough points for vectors along m."""
    return p.s == 1 and p.m >= numbers.lanes > 1


def first_function(numbers: Numbers, p: Pass) -> Function:
    """The function of a pass with s = 1: vectors along m, transposed in registers as they are stored."""
    whole, split = p.m % numbers.lanes == 0, is_split(p)
    name = f"bl.fft{p.radix}.{numbers.suffix}.{numbers.lanes}{'' if whole else 'r'}f{'s' if split else ''}"

    def build(b: FunctionBuilder) -> None:
        b.hides = True
        m = b.params[5]

        def block(number: Val) -> None:
            start = b.mul(number, i64(BLOCK))
            count = b.intrinsic("smin", b.sub(m, start), i64(BLOCK))
            coarse = _of_block(numbers, b, b.params[4], number, p.radix)
            by_vectors(b, count, numbers.lanes, lambda i, n: _first(numbers, b, p, start, i, n, coarse), whole=whole)

        if split:
            b.for_loop(i64(0), b.udiv(b.add(m, i64(BLOCK - 1)), i64(BLOCK)), block, flags="nuw nsw", name="block")
        else:
            by_vectors(b, m, numbers.lanes, lambda i, n: _first(numbers, b, p, i64(0), i, n, []), whole=whole)
        b.ret()

    return numbers.module.helper(name, "void", planes_and("m", "s"), build, INTERNAL)


def _first(
    numbers: Numbers, b: FunctionBuilder, p: Pass, start: Val, index: Val, lanes: int, coarse: Sequence[Pair]
) -> None:
    """`lanes` points of a first pass from point `index` of the block at `start`."""
    source, target, table, m = b.params[:2], b.params[2:4], b.params[4], b.params[5]
    at, r, a = b.add(start, index), p.radix, numbers.arithmetic(b)
    x, place = [], at
    for _ in range(r):
        x.append(numbers.load_pair(b, source, place, lanes))
        place = b.add(place, m)
    y, place = a.transform(x), index
    step = i64(BLOCK) if coarse else m
    for j in range(1, r):
        parts = []
        for _ in range(2):
            parts.append(numbers.load(b, table, place, lanes))
            place = b.add(place, step)
        factor = parts[0], parts[1]
        if coarse:
            real, imaginary = coarse[j - 1]
            factor = a.times(factor, (b.splat(real, lanes), b.splat(imaginary, lanes)))
        y[j] = a.times(y[j], factor)
    out = b.mul(at, i64(r))
    for part in (0, 1):
        store_interleaved(numbers, b, [v[part] for v in y], target[part], out)


# ---- lanes exchanged ------------------------------------------------------------------------------------------------


def interleave(b: FunctionBuilder, x: Sequence[Val], y: Sequence[Val]) -> list[Val]:
    """Two streams of vectors as one in which their elements alternate."""
    lanes, result = lanes_of(x[0].type), []
    half = lanes // 2
    for u, v in zip(x, y, strict=True):
        for start in (0, half):
            result.append(b.shuffle(u, v, [k + start + lanes * odd for k in range(half) for odd in (0, 1)]))
    return result


def interleaved(b: FunctionBuilder, streams: Sequence[Sequence[Val]]) -> list[Val]:
    """A power of two of streams as one: element 0 of each, then element 1 of each, and so on."""
    found = [list(s) for s in streams]
    while len(found) > 1:
        half = len(found) // 2
        found = [interleave(b, x, y) for x, y in zip(found[:half], found[half:], strict=True)]
    return found[0]


def store_interleaved(numbers: Numbers, b: FunctionBuilder, x: Sequence[Val], base: Val, at: Val) -> None:
    """Element 0 of each vector, then element 1 of each, stored from `at` on."""
    lanes, count = lanes_of(x[0].type), len(x)
    if lanes == 1:
        for k, v in enumerate(x):
            numbers.store(b, v, base, b.add(at, i64(k)))
    elif count & (count - 1) == 0:
        for k, v in enumerate(interleaved(b, [[v] for v in x])):
            numbers.store(b, v, base, b.add(at, i64(k * lanes)))
    else:
        for lane in range(lanes):
            for k, v in enumerate(x):
                numbers.store(b, b.extract(v, lane), base, b.add(at, i64(lane * count + k)))
