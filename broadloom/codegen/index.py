"""Integer expressions as LLVM code, each part at the outermost loop where it can stand.

What goes in: `Size` expressions over symbols that have been bound to i64 values. What comes out: i64 values and
element addresses.

What holds: a part of an expression that does not depend on a loop's variable is computed outside that loop, and
once; the part that varies in the innermost loop is added last, so that unit strides stay plain to see; divisions
are floor divisions, and safe to compute even where the loop around them runs no iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from broadloom.codegen.llvm import Block, FunctionBuilder, Val, i1, i64
from broadloom.errors import VerifyError
from broadloom.records import dataclass
from broadloom.symbolic import Add, Expr, FloorDiv, Max, Min, Mod, Mul, Size, Symbol, free_symbols, range_of

I64_MAX = (1 << 63) - 1


@dataclass(slots=True)
class _Level:
    """One loop: `block` takes what is constant within it; None stands for the current place in a body."""

    block: Block | None
    values: dict[object, Val] = field(default_factory=dict)


class Indexer:
    """Emits index expressions. Levels are opened as loops are entered and closed as they are left."""

    def __init__(self, b: FunctionBuilder) -> None:
        self.b = b
        self._levels: list[_Level] = []
        self._symbols: dict[Symbol, tuple[Val, int]] = {}
        self._depths: dict[Expr, int] = {}
        self._overflow: Val | None = None
        self._checked = False

    # -- levels --

    def open(self, block: Block | None) -> None:
        """Enter a loop, whose invariant code goes to the end of `block` (None: to the current place)."""
        self._levels.append(_Level(block))

    def close(self) -> None:
        """Leave the innermost loop: what was bound in it is bound no more."""
        self._levels.pop()
        depth = len(self._levels)
        stale = [s for s, (_, level) in self._symbols.items() if level >= depth]
        for symbol in stale:
            del self._symbols[symbol]
        if stale:
            self._depths = {e: d for e, d in self._depths.items() if d < depth}

    def bind(self, symbol: Symbol, value: Val) -> None:
        """Give a symbol its value, which varies with the innermost open loop."""
        self._symbols[symbol] = (value, len(self._levels) - 1)
        self._depths.pop(symbol, None)

    def _depth(self, e: Size) -> int:
        """The innermost level that an expression depends on."""
        if isinstance(e, int):
            return 0
        found = self._depths.get(e)
        if found is None:
            found = 0
            for symbol in free_symbols(e):
                bound = self._symbols.get(symbol)
                if bound is None:
                    raise VerifyError("index symbol is not bound", got=f"{symbol} in {e}")
                found = max(found, bound[1])
            self._depths[e] = found
        return found

    def _at(self, depth: int, key: object, make: Callable[[], Val]) -> Val:
        """The value `key`, made at `depth` unless it is there already."""
        for level in self._levels[depth:]:
            found = level.values.get(key)
            if found is not None:
                return found
        level = self._levels[depth]
        if level.block is None:
            value = make()
            self._levels[-1].values[key] = value
        else:
            with self.b.before_end(level.block):
                value = make()
            level.values[key] = value
        return value

    # -- expressions --

    def value(self, e: Size) -> Val:
        """The i64 value of an expression, wrapping on overflow."""
        if isinstance(e, int):
            return i64(e)
        if isinstance(e, Symbol):
            bound = self._symbols.get(e)
            if bound is None:
                raise VerifyError("index symbol is not bound", got=e)
            return bound[0]
        depth = self._depth(e)
        if isinstance(e, Add):
            return self._sum(e)
        if isinstance(e, Mul):
            return self._product(e)
        if isinstance(e, FloorDiv | Mod):
            operands = (self.value(e.dividend), self.value(e.divisor))
            return self._at(depth, e, lambda: self._division(e, *operands))
        assert isinstance(e, Min | Max)
        name = "smin" if isinstance(e, Min) else "smax"
        values = [self.value(o) for o in e.operands]

        def extremum() -> Val:
            result = values[0]
            for v in values[1:]:
                result = self.b.intrinsic(name, result, v)
            return result

        return self._at(depth, e, extremum)

    def checked(self, e: Size) -> tuple[Val, Val]:
        """The value of an expression of non-negative parts, and an i1 that tells whether it overflowed. For entry
        code: there is one level open."""
        self.open(None)
        self._checked, self._overflow = True, i1(False)
        value = self.value(e)
        overflow = self._overflow
        self._checked = False
        self.close()
        return value, overflow

    def _arithmetic(self, opcode: str, x: Val, y: Val) -> Val:
        if not self._checked:
            return self.b.binary(opcode, x, y)
        pair = self.b.intrinsic(f"s{opcode}.with.overflow", x, y)
        assert self._overflow is not None
        self._overflow = self.b.or_(self._overflow, self.b.extract_value(pair, 1, "i1"))
        return self.b.extract_value(pair, 0, "i64")

    def _chain(self, opcode: str, parts: Sequence[tuple[int, object, Val]]) -> Val:
        """Folds parts (depth, key, value), outermost first, each prefix computed at its own depth."""
        depth, key, result = parts[0]
        keys = [key]
        for d, k, v in parts[1:]:
            depth = max(depth, d)
            keys.append(k)
            before = result
            result = self._at(depth, (opcode, *keys), lambda x=before, y=v: self._arithmetic(opcode, x, y))  # type: ignore[misc]
        return result

    def _sum(self, e: Add) -> Val:
        terms = sorted(((self._depth(m), n, m, c) for n, (m, c) in enumerate(e.terms)), key=lambda t: t[:2])
        parts: list[tuple[int, object, Val]] = [(0, e.constant, i64(e.constant))] if e.constant else []
        parts += [(d, (m, c), self._scaled(m, c)) for d, _, m, c in terms]
        return self._chain("add", parts)

    def _scaled(self, monomial: Expr, coefficient: int) -> Val:
        value = self.value(monomial)
        if coefficient == 1:
            return value
        depth = self._depth(monomial)
        return self._at(depth, (monomial, coefficient), lambda: self._arithmetic("mul", value, i64(coefficient)))

    def _product(self, e: Mul) -> Val:
        factors = sorted(((self._depth(f), n, f) for n, f in enumerate(e.factors)), key=lambda t: t[:2])
        parts: list[tuple[int, object, Val]] = [(d, f, self.value(f)) for d, _, f in factors]
        if e.coefficient != 1:
            parts.insert(0, (0, e.coefficient, i64(e.coefficient)))
        return self._chain("mul", parts)

    def _division(self, e: FloorDiv | Mod, x: Val, d: Val) -> Val:
        b = self.b
        low = range_of(e.divisor).lo
        if low is None or low < 1:
            d = b.intrinsic("smax", d, i64(1))  # a divisor below 1 occurs only where nothing is iterated
        numerator = range_of(e.dividend).lo
        if numerator is not None and numerator >= 0:
            return b.binary("udiv" if isinstance(e, FloorDiv) else "urem", x, d)
        remainder = b.srem(x, d)
        negative = b.icmp("slt", remainder, i64(0))
        if isinstance(e, Mod):
            return b.select(negative, b.add(remainder, d), remainder)
        return b.add(b.sdiv(x, d), b.sext(negative, "i64"))

    # -- addresses --

    def address(self, base: Val, e: Size, element: str, scale: int = 1) -> Val:
        """The address of element `e` of an array of `element`s at `base`; with `scale` 2, of a pair of them."""
        if scale != 1:
            e = e * scale
        if isinstance(e, int):
            return (
                base
                if e == 0
                else self._at(0, (base, e, element), lambda: self.b.gep(element, base, i64(e), flags="nusw"))
            )
        depth = self._depth(e)
        if isinstance(e, Add):
            outer = [(m, c) for m, c in e.terms if self._depth(m) < depth]
            inner = [(m, c) for m, c in e.terms if self._depth(m) == depth]
            if outer or e.constant:
                base = self._row(base, outer, e.constant, element)
            parts: list[tuple[int, object, Val]] = [(depth, (m, c), self._scaled(m, c)) for m, c in inner]
            offset = self._chain("add", parts)
            key: object = (base, tuple(inner), element)
        else:
            offset, key = self.value(e), (base, e, element)
        return self._at(depth, key, lambda: self.b.gep(element, base, offset, flags="nusw"))

    def _row(self, base: Val, outer: list[tuple[Expr, int]], constant: int, element: str) -> Val:
        """`base` moved by the loop-invariant part of an index."""
        terms = sorted(((self._depth(m), n, m, c) for n, (m, c) in enumerate(outer)), key=lambda t: t[:2])
        parts: list[tuple[int, object, Val]] = [(d, (m, c), self._scaled(m, c)) for d, _, m, c in terms]
        if constant:
            parts.insert(0, (0, constant, i64(constant)))
        depth = max(p[0] for p in parts)
        offset = self._chain("add", parts)
        key = (base, tuple(outer), constant, element)
        # The row alone may lie outside the array (a negative stride), so this step claims nothing.
        return self._at(depth, key, lambda: self.b.gep(element, base, offset, flags="nusw"))
