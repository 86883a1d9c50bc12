"""Arithmetic on real or complex numbers in the lanes of vectors.

What goes in: a builder, the type of an element, the lanes, and whether numbers are complex. What comes out: a `Field`,
whose numbers are tuples of one vector, or two: the real and the imaginary parts.

What holds: every operation is straight vector code, lane by lane, so a lane's bits do not depend on the others; a
product and a sum are joined where the target has an instruction for that.
"""

from __future__ import annotations

from broadloom.codegen.llvm import FunctionBuilder, Val, const_float, const_int, vector
from broadloom.records import dataclass

Number = tuple[Val, ...]
_LIMITS = {"double": (52, 11), "float": (23, 8)}  # bits of mantissa and exponent


@dataclass(frozen=True, slots=True)
class Inverse:
    """One over a number, as two factors that do not overflow: x / number is (x * scale) * inverse."""

    field: Field
    scale: Val
    inverse: Number

    def of(self, x: Number) -> Number:
        """x divided by the number."""
        b = self.field.b
        return self.field.mul(tuple(b.fmul(part, self.scale) for part in x), self.inverse)


@dataclass(frozen=True, slots=True)
class Field:
    """Numbers of `parts` vectors of `lanes` elements."""

    b: FunctionBuilder
    element: str  # "float" or "double"
    lanes: int
    parts: int

    @property
    def type(self) -> str:
        return vector(self.element, self.lanes)

    @property
    def integer(self) -> str:
        """The integers of the same width."""
        return vector("i64" if self.element == "double" else "i32", self.lanes)

    @property
    def registers(self) -> int:
        """How many vectors the registers of the target hold."""
        return 32 if self.lanes * (64 if self.element == "double" else 32) == 512 else 16

    @property
    def mantissa(self) -> int:
        return _LIMITS[self.element][0]

    @property
    def bias(self) -> int:
        return int((1 << (_LIMITS[self.element][1] - 1)) - 1)

    # -- constants --

    def real(self, value: float) -> Val:
        """One vector with `value` in every lane."""
        return const_float(self.type, value)

    def constant(self, value: float) -> Number:
        return tuple(self.real(value if part == 0 else 0.0) for part in range(self.parts))

    def count(self, value: Val | int) -> Val:
        """An integer in every lane."""
        if isinstance(value, int):
            return const_int(self.integer, value)
        narrow = value if self.element == "double" else self.b.trunc(value, "i32")
        return self.b.splat(narrow, self.lanes)

    # -- arithmetic --

    def mul(self, x: Number, y: Number) -> Number:
        b = self.b
        if self.parts == 1:
            return (b.fmul(x[0], y[0]),)
        real = self._less(b.fmul(x[0], y[0]), x[1], y[1])
        return real, self._more(b.fmul(x[0], y[1]), x[1], y[0])

    def scaled(self, x: Number, factor: Val) -> Number:
        """x times a real number."""
        return tuple(self.b.fmul(part, factor) for part in x)

    def add_product(self, total: Number, x: Number, y: Number) -> Number:
        """total + x * y."""
        if self.parts == 1:
            return (self._more(total[0], x[0], y[0]),)
        real = self._less(self._more(total[0], x[0], y[0]), x[1], y[1])
        return real, self._more(self._more(total[1], x[0], y[1]), x[1], y[0])

    def sub_product(self, total: Number, x: Number, y: Number) -> Number:
        """total - x * y."""
        if self.parts == 1:
            return (self._less(total[0], x[0], y[0]),)
        real = self._more(self._less(total[0], x[0], y[0]), x[1], y[1])
        return real, self._less(self._less(total[1], x[0], y[1]), x[1], y[0])

    def sub_square(self, total: Val, x: Number) -> Val:
        """total - |x|**2, for a real total."""
        for part in x:
            total = self._less(total, part, part)
        return total

    def add_square(self, total: Val, x: Number) -> Val:
        """total + |x|**2, for a real total."""
        for part in x:
            total = self._more(total, part, part)
        return total

    def conj(self, x: Number) -> Number:
        return x if self.parts == 1 else (x[0], self.b.fneg(x[1]))

    def select(self, mask: Val, x: Number, y: Number) -> Number:
        return tuple(self.b.select(mask, p, q) for p, q in zip(x, y, strict=True))

    def size(self, x: Number) -> Val:
        """What LAPACK compares pivots by: |re| + |im|."""
        found = self.b.intrinsic("fabs", x[0])
        return found if self.parts == 1 else self.b.fadd(found, self.b.intrinsic("fabs", x[1]))

    def is_zero(self, x: Number) -> Val:
        zero = self.b.fcmp("oeq", x[0], self.real(0.0))
        return zero if self.parts == 1 else self.b.and_(zero, self.b.fcmp("oeq", x[1], self.real(0.0)))

    def inverse(self, x: Number) -> Inverse:
        """One over x. Zero has the inverse infinity, or nan if it is complex; infinity in one part has zero."""
        b = self.b
        largest = self._largest(x)
        tiny, scale = self.real(2.0 ** (2 - self.bias)), self.real(2.0 ** (self.mantissa + 4))
        scale = b.select(b.fcmp("olt", largest, tiny), scale, self.real(1.0))
        if self.parts == 1:
            return Inverse(self, scale, (b.fdiv(self.real(1.0), b.fmul(x[0], scale)),))
        down = b.fdiv(self.real(1.0), b.fmul(largest, scale))
        infinite = [b.fcmp("oeq", b.intrinsic("fabs", part), self.real(float("inf"))) for part in x]
        units = [b.intrinsic("copysign", self.real(1.0), part) for part in x]
        parts = [b.fmul(b.fmul(part, scale), down) for part in x]  # the larger one is 1
        alone = [b.and_(infinite[k], b.not_(infinite[1 - k])) for k in (0, 1)]
        re, im = (b.select(mask, unit, part) for mask, unit, part in zip(alone, units, parts, strict=True))
        quotient = b.fdiv(down, self._more(b.fmul(re, re), im, im))
        return Inverse(self, scale, (b.fmul(re, quotient), b.fneg(b.fmul(im, quotient))))

    def _largest(self, x: Number) -> Val:
        b = self.b
        sizes = [b.intrinsic("fabs", part) for part in x]
        return sizes[0] if len(sizes) == 1 else b.select(b.fcmp("ogt", sizes[1], sizes[0]), sizes[1], sizes[0])

    def _more(self, total: Val, x: Val, y: Val) -> Val:
        return self.b.intrinsic("fmuladd", x, y, total)

    def _less(self, total: Val, x: Val, y: Val) -> Val:
        return self.b.intrinsic("fmuladd", self.b.fneg(x), y, total)

    # -- powers of two --

    def split(self, x: Number) -> tuple[Number, Val]:
        """(y, e) with x == y * 2**e, the larger part of y between 1 and 4 unless x is zero, infinite or nan."""
        b, bits = self.b, self.mantissa
        largest = self._largest(x)
        small = b.fcmp("olt", largest, self.real(2.0 ** (64 - self.bias)))
        up = b.select(small, self.real(2.0**64), self.real(1.0))
        largest, x = b.fmul(largest, up), self.scaled(x, up)
        raw = b.lshr(b.bitcast(largest, self.integer), self.count(bits))
        raw = b.intrinsic("umin", b.intrinsic("umax", raw, self.count(1)), self.count(2 * self.bias - 1))
        down = b.bitcast(b.shl(b.sub(self.count(2 * self.bias), raw), self.count(bits)), self.type)
        lower = b.select(small, self.count(self.bias + 64), self.count(self.bias))
        return self.scaled(x, down), b.sitofp(b.sub(raw, lower), self.type)

    def power(self, e: Val) -> Val:
        """2**e for integral e within the exponents of normal numbers."""
        b = self.b
        biased = b.add(b.fptosi(e, self.integer), self.count(self.bias))
        return b.bitcast(b.shl(biased, self.count(self.mantissa)), self.type)

    def joined(self, x: Number, e: Val) -> Number:
        """x * 2**e for any integral e, in four steps, none of which leaves the range if the result does not."""
        b = self.b
        limit = self.real(3.9 * self.bias // 4 * 4)
        e = b.intrinsic("maxnum", b.intrinsic("minnum", e, limit), b.fneg(limit))
        quarter = b.intrinsic("floor", b.fmul(e, self.real(0.25)))
        rest = b.fsub(e, b.fmul(quarter, self.real(3.0)))
        for factor in (*[self.power(quarter)] * 3, self.power(rest)):
            x = self.scaled(x, factor)
        return x

    # -- masks --

    def mask_bits(self, mask: Val) -> Val:
        """The mask as one integer, a bit a lane."""
        return self.b.bitcast(mask, f"i{self.lanes}") if self.lanes > 1 else mask
