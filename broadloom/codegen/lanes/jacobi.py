"""Eigenvalues and eigenvectors of Hermitian matrices by Jacobi's rotations, all lanes at once.

What goes in: a grid of which one triangle counts. What comes out: the eigenvalues, ascending, their vectors in the
columns of another grid if there is one, and the lanes where the rotations did not come to an end. What holds: a lane
that has converged is rotated no more, so that its bits do not depend on its neighbours; the matrix is scaled by a power
of two before, so that squares neither over- nor underflow. As in NumPy, results are nan where there is infinity, and
nan is a failure, but in a matrix of one element. Of each vector, the first component that is not much smaller than the
largest is real and positive.

C. G. J. Jacobi: Ueber ein leichtes Verfahren, die in der Theorie der Saecularstoerungen vorkommenden Gleichungen
numerisch aufzuloesen. Crelle's Journal 30, 1846.
"""

from __future__ import annotations

from collections.abc import Callable

from broadloom.codegen.block_sort import as_is
from broadloom.codegen.lanes.algorithms import Algorithms
from broadloom.codegen.lanes.grid import Engine, Grid, Place, Stored, minus, plus
from broadloom.codegen.lanes.numbers import Field, Number
from broadloom.codegen.llvm import Val, const_int, i64
from broadloom.records import dataclass

SWEEPS = 40
SMALL = 2.0**-108  # of the squares off the diagonal, by all squares, where rotations end
LARGE = 0.625**2  # of the square of a component, by the largest: rounding decides between few that are as large


@dataclass(frozen=True, slots=True)
class Jacobi:
    """Emits the algorithm for matrices with `n` rows in `a`; with `vectors`, those are made as well."""

    engine: Engine
    a: Stored
    n: Place
    vectors: Grid | None = None

    @property
    def field(self) -> Field:
        return self.engine.field

    def eigenvalues(self, lower: bool) -> Val:
        """Leaves the eigenvalues on the diagonal, scaled back and in order; the lanes that failed, a bit each."""
        field, b = self.field, self.engine.b
        if self.vectors:
            Algorithms(self.engine).identity(self.vectors, self.n)
        self._complete(lower)
        if self.n == 1:  # it is its own eigenvalue, infinity and nan too, as in LAPACK
            return const_int(f"i{field.lanes}", 0)
        exponent, is_infinite = self._scale()
        all_ = const_int(f"i{field.lanes}", -1)

        def sweep(number: Val, active: Val) -> tuple[Val]:
            def rotate() -> tuple[Val]:
                mask = b.bitcast(active, f"<{field.lanes} x i1>")
                self._pairs(lambda p, q: self._rotate(p, q, mask))
                return (b.and_(active, self._unfinished()),)

            nonzero = b.icmp("ne", active, const_int(active.type, 0))
            return (b.if_then(nonzero, rotate, lambda: (active,))[0],)

        (left,) = b.for_loop(i64(0), i64(SWEEPS), sweep, (b.and_(all_, self._unfinished()),), metadata=as_is(b))
        self._in_order()

        nan = field.real(float("nan"))

        def back(k: Place) -> None:
            value = field.joined(self.a.get(k, k), exponent)
            self.a.set(k, k, field.select(is_infinite, self._real(nan), value))
            if self.vectors:
                self._turn_to_positive(self.vectors, k, is_infinite)

        self.engine.loop(0, self.n, back)
        return b.and_(left, b.not_(field.mask_bits(is_infinite)))

    def _pairs(self, body: Callable[[Place, Place], None]) -> None:
        b = self.engine.b

        def row(p: Place) -> None:
            self.engine.loop(plus(b, p, 1), self.n, lambda q: body(p, q))

        self.engine.loop(0, minus(b, self.n, 1), row)

    def _complete(self, lower: bool) -> None:
        """The other triangle, and real numbers on the diagonal."""
        field = self.field

        def pair(p: Place, q: Place) -> None:
            given = self.a.get(q, p) if lower else self.a.get(p, q)
            self.a.set(*((p, q) if lower else (q, p)), field.conj(given))

        self._pairs(pair)
        if field.parts == 2:
            self.engine.loop(0, self.n, lambda k: self.a.set(k, k, self._real(self.a.get(k, k)[0])))

    def _real(self, x: Val) -> Number:
        return (x, *self.field.constant(0.0)[1:])

    def _scale(self) -> tuple[Val, Val]:
        """Divides by a power of two, so that the largest number is about 1. Returns its exponent, and the lanes where
        there is infinity, but not nan."""
        field, b, engine = self.field, self.engine.b, self.engine

        def rows(i: Place, most: Val, total: Val) -> tuple[Val, ...]:
            def columns(j: Place, most: Val, total: Val) -> tuple[Val, Val]:
                size = field.size(self.a.get(i, j))
                return b.select(b.fcmp("ogt", size, most), size, most), b.fadd(total, size)

            return engine.loop(0, self.n, columns, (most, total))

        most, total = engine.loop(0, self.n, rows, (field.real(0.0), field.real(0.0)))
        is_infinite = b.and_(b.fcmp("oeq", most, field.real(float("inf"))), b.fcmp("ord", total, total))
        _, exponent = field.split((most,))
        down = b.fneg(exponent)

        def scale(i: Place) -> None:
            engine.loop(0, self.n, lambda j: self.a.set(i, j, field.joined(self.a.get(i, j), down)))

        engine.loop(0, self.n, scale)
        return exponent, is_infinite

    def _unfinished(self) -> Val:
        """The lanes whose matrix is not diagonal yet, nan included."""
        field, b, engine = self.field, self.engine.b, self.engine

        def rows(i: Place, off: Val, diagonal: Val) -> tuple[Val, ...]:
            def columns(j: Place, off: Val) -> tuple[Val]:
                return (field.add_square(off, self.a.get(i, j)),)

            (off,) = engine.loop(0, i, columns, (off,))
            return off, field.add_square(diagonal, self.a.get(i, i))

        off, diagonal = engine.loop(0, self.n, rows, (field.real(0.0), field.real(0.0)))
        finished = b.fcmp("ole", off, b.fmul(diagonal, field.real(SMALL)))
        return field.mask_bits(b.not_(finished))

    def _rotate(self, p: Place, q: Place, active: Val) -> None:
        """Makes element (p, q) zero, in the lanes that are active."""
        field, b, a = self.field, self.engine.b, self.a
        first, second, off = a.get(p, p)[0], a.get(q, q)[0], a.get(p, q)
        size, one = off[0], field.real(1.0)
        if field.parts == 2:
            size = b.intrinsic("sqrt", field.add_square(field.real(0.0), off))
        zero = b.fcmp("oeq", size, field.real(0.0))
        theta = b.fdiv(b.fsub(second, first), b.fmul(field.real(2.0), size))
        root = b.intrinsic("sqrt", b.intrinsic("fmuladd", theta, theta, one))
        tangent = b.fdiv(one, b.fadd(b.intrinsic("fabs", theta), root))
        tangent = b.intrinsic("copysign", tangent, theta)
        tangent = b.select(b.and_(active, b.not_(zero)), tangent, field.real(0.0))
        cosine = b.fdiv(one, b.intrinsic("sqrt", b.intrinsic("fmuladd", tangent, tangent, one)))
        sine = b.fmul(tangent, cosine)
        phase = field.constant(1.0)
        if field.parts == 2:  # conjugated
            turned = b.and_(active, b.not_(zero))
            phase = field.select(turned, field.conj(tuple(b.fdiv(part, size) for part in off)), phase)

        def turn(k: Place) -> None:
            x, y = a.get(k, p), a.get(k, q)
            if field.parts == 2:
                y = field.mul(y, phase)
            new = tuple(b.fsub(b.fmul(u, cosine), b.fmul(v, sine)) for u, v in zip(x, y, strict=True))
            other = tuple(b.fadd(b.fmul(u, sine), b.fmul(v, cosine)) for u, v in zip(x, y, strict=True))
            for place, value in ((p, new), (q, other)):
                a.set(k, place, value)
                a.set(place, k, field.conj(value))

        def turn_vectors(v: Grid, k: Place) -> None:
            x, y = v.get(k, p), v.get(k, q)
            if field.parts == 2:
                y = field.mul(y, phase)
            v.set(k, p, tuple(b.fsub(b.fmul(u, cosine), b.fmul(w, sine)) for u, w in zip(x, y, strict=True)))
            v.set(k, q, tuple(b.fadd(b.fmul(u, sine), b.fmul(w, cosine)) for u, w in zip(x, y, strict=True)))

        self.engine.loop(0, self.n, turn)
        if vectors := self.vectors:
            self.engine.loop(0, self.n, lambda k: turn_vectors(vectors, k))
        change = b.fmul(tangent, size)
        a.set(p, p, self._real(b.fsub(first, change)))
        a.set(q, q, self._real(b.fadd(second, change)))
        kept = field.select(active, field.constant(0.0), off)
        a.set(p, q, kept)
        a.set(q, p, field.conj(kept))

    def _in_order(self) -> None:
        """The numbers of the diagonal, ascending, and the vectors with them."""
        field, b, a = self.field, self.engine.b, self.a

        def passing(number: Place) -> None:
            def compare(k: Place) -> None:
                after = plus(b, k, 1)
                x, y = a.get(k, k), a.get(after, after)
                swap = b.fcmp("ogt", x[0], y[0])
                a.set(k, k, field.select(swap, y, x))
                a.set(after, after, field.select(swap, x, y))
                if vectors := self.vectors:
                    self.engine.where_any(swap, lambda: self._exchange(vectors, swap, k, after))

            self.engine.loop(0, minus(b, minus(b, self.n, 1), number), compare)

        self.engine.loop(0, self.n, passing)

    def _exchange(self, v: Grid, mask: Val, j: Place, k: Place) -> None:
        """Vectors j and k, in the lanes of the mask."""

        def row(i: Place) -> None:
            x, y = v.get(i, j), v.get(i, k)
            v.set(i, j, self.field.select(mask, y, x))
            v.set(i, k, self.field.select(mask, x, y))

        self.engine.loop(0, self.n, row)

    def _turn_to_positive(self, v: Grid, k: Place, is_nan: Val) -> None:
        """Vector k, so that the first of its large components is real and positive."""
        field, b, engine = self.field, self.engine.b, self.engine
        zero = field.real(0.0)

        def look(i: Place, most: Val) -> tuple[Val]:
            square = field.add_square(zero, v.get(i, k))
            return (b.select(b.fcmp("ogt", square, most), square, most),)

        least = b.fmul(engine.loop(0, self.n, look, (zero,))[0], field.real(LARGE))

        def choose(i: Place, *chosen: Val) -> tuple[Val, ...]:
            value = v.get(i, k)
            large = b.fcmp("oge", field.add_square(zero, value), least)
            return field.select(b.and_(large, field.is_zero(chosen)), value, chosen)

        chosen = engine.loop(0, self.n, choose, field.constant(0.0))
        if field.parts == 1:
            factor: Number = (b.intrinsic("copysign", field.real(1.0), chosen[0]),)
        else:
            size = b.intrinsic("sqrt", field.add_square(zero, chosen))
            factor = field.conj(tuple(b.fdiv(part, size) for part in chosen))
        factor = field.select(is_nan, tuple(field.real(float("nan")) for _ in factor), factor)
        engine.loop(0, self.n, lambda i: v.set(i, k, field.mul(v.get(i, k), factor)))
