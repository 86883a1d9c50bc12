"""Small Fourier transforms on values in registers, and complex arithmetic on pairs of them.

What goes in: pairs (real, imaginary) of scalars or vectors. What comes out: pairs, in natural order. What holds: all
transforms are forward ones; where the target can, products are fused with sums, in the same places always.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from broadloom.codegen.fft.plan import roots
from broadloom.codegen.llvm import FunctionBuilder, Val, const_float, element_of, lanes_of
from broadloom.records import dataclass

Pair = tuple[Val, Val]


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Complex arithmetic in one function; `fused` says that the target multiplies and adds in one instruction."""

    b: FunctionBuilder
    fused: bool

    def number(self, like: Val, value: float) -> Val:
        return self.b.splat(const_float(element_of(like.type), value), lanes_of(like.type))

    def multiply_add(self, x: Val, y: Val, z: Val) -> Val:
        """x * y + z."""
        b = self.b
        return b.intrinsic("fma", x, y, z) if self.fused else b.fadd(b.fmul(x, y), z)

    def add(self, x: Pair, y: Pair) -> Pair:
        return self.b.fadd(x[0], y[0]), self.b.fadd(x[1], y[1])

    def subtract(self, x: Pair, y: Pair) -> Pair:
        return self.b.fsub(x[0], y[0]), self.b.fsub(x[1], y[1])

    def times(self, x: Pair, w: Pair) -> Pair:
        """x * w."""
        b = self.b
        real = self.multiply_add(x[0], w[0], b.fneg(b.fmul(x[1], w[1])))
        return real, self.multiply_add(x[0], w[1], b.fmul(x[1], w[0]))

    # -- transforms --

    def transform(self, x: Sequence[Pair]) -> list[Pair]:
        """The transform of 2, 4, 8 or an odd prime number of points."""
        special = {2: self._two, 4: self._four, 8: self._eight}.get(len(x))
        return special(x) if special is not None else self._odd(x)

    def _two(self, x: Sequence[Pair]) -> list[Pair]:
        return [self.add(x[0], x[1]), self.subtract(x[0], x[1])]

    def _four(self, x: Sequence[Pair]) -> list[Pair]:
        p, q = self.add(x[0], x[2]), self.subtract(x[0], x[2])
        r, t = self.add(x[1], x[3]), self.subtract(x[1], x[3])
        b = self.b
        one = b.fadd(q[0], t[1]), b.fsub(q[1], t[0])  # q - i t
        three = b.fsub(q[0], t[1]), b.fadd(q[1], t[0])
        return [self.add(p, r), one, self.subtract(p, r), three]

    def _eight(self, x: Sequence[Pair]) -> list[Pair]:
        b = self.b
        even, odd = self._four(x[0::2]), self._four(x[1::2])
        half = self.number(x[0][0], np.sqrt(0.5))
        one, two, three = odd[1:]
        turned = [
            odd[0],
            (b.fmul(b.fadd(one[0], one[1]), half), b.fmul(b.fsub(one[1], one[0]), half)),
            (two[1], b.fneg(two[0])),
            (b.fmul(b.fsub(three[1], three[0]), half), b.fneg(b.fmul(b.fadd(three[0], three[1]), half))),
        ]
        pairs = list(zip(even, turned, strict=True))
        return [self.add(e, t) for e, t in pairs] + [self.subtract(e, t) for e, t in pairs]

    def _odd(self, x: Sequence[Pair]) -> list[Pair]:
        """Sums and differences of opposite points, times cosines and sines."""
        n, half = len(x), len(x) // 2
        sums = [self.add(x[k], x[n - k]) for k in range(1, half + 1)]
        differences = [self.subtract(x[k], x[n - k]) for k in range(1, half + 1)]
        first = x[0]
        for s in sums:
            first = self.add(first, s)
        result: list[Pair] = [first] * n
        b = self.b
        for j in range(1, half + 1):
            cosines, sines = (part.astype(float).tolist() for part in roots(j * np.arange(1, half + 1), n))
            even = [self._weighted([z[part] for z in sums], cosines, x[0][part]) for part in (0, 1)]
            odd = [self._weighted([z[part] for z in differences], sines, None) for part in (0, 1)]
            result[j] = b.fsub(even[0], odd[1]), b.fadd(even[1], odd[0])  # even + i * odd
            result[n - j] = b.fadd(even[0], odd[1]), b.fsub(even[1], odd[0])
        return result

    def _weighted(self, x: Sequence[Val], weights: Sequence[float], start: Val | None) -> Val:
        total = start
        for v, w in zip(x, weights, strict=True):
            weight = self.number(v, w)
            total = self.b.fmul(v, weight) if total is None else self.multiply_add(v, weight, total)
        assert total is not None
        return total
