"""The symbols of one capture: their hints, and the questions about them that were settled by looking.

What goes in: a name and an observed value for each size, then relations that a program asks about. What comes out:
answers, and in `guards` the relations that the answers rest on.

What holds: every guard is true for the hints, so all answers agree with each other. A question that bounds or
earlier guards settle adds no guard. Where the guards hold, 64 bits hold all that evaluating them comes across.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from broadloom.errors import Location
from broadloom.symbolic.expr import Expr, Size, Symbol
from broadloom.symbolic.magnitude import LARGEST, magnitude
from broadloom.symbolic.ranges import range_of
from broadloom.symbolic.relations import Relation, eq, ge, le, proves
from broadloom.symbolic.walk import evaluate, free_symbols, substitute


class ShapeEnv:
    """Fresh size symbols, and decisions about them.

    >>> env = ShapeEnv()
    >>> n = env.create("n", 10)
    >>> from broadloom.symbolic import gt
    >>> env.decide(gt(n, 4), None), [str(g) for g in env.guards]
    (True, ['5 <= n'])
    """

    def __init__(self) -> None:
        self._hints: dict[Symbol, int] = {}
        self._sources: dict[Symbol, object] = {}
        self._names: set[str] = set()
        self._guards: dict[Relation, Location | None] = {}
        self._equal: dict[Symbol, Size] = {}
        self._bounded: dict[Symbol, Size] = {}  # symbol -> the same under the bounds that guards give it
        self._limits: dict[Symbol, int] = {}  # of the absolute value
        self._products: dict[tuple[Symbol, ...], int] = {}  # factors -> the most that their product is
        self._fitting: set[tuple[Expr, int]] = set()

    def create(self, name: str, hint: int, lo: int = 0, *, source: object = None, limit: int = LARGEST) -> Symbol:
        """A symbol in [lo, unbounded) whose value is `hint` at this capture. `source` says where the value comes
        from; its absolute value is never above `limit`. Raises ValueError for a name in use and for a hint below lo."""
        if name in self._names:
            raise ValueError(f"the symbol {name} exists in this environment; choose another name")
        if hint < lo:
            raise ValueError(f"the hint {hint} of the symbol {name} is below its bound {lo}")
        symbol = Symbol(name, lo)
        self._names.add(name)
        self._hints[symbol] = hint
        self._sources[symbol] = source
        self._limits[symbol] = limit
        return symbol

    def fresh(self, hint: int, lo: int = 0, *, source: object = None, limit: int = LARGEST) -> Symbol:
        """As `create`, with the next free name s0, s1, ..."""
        k = len(self._hints)
        while f"s{k}" in self._names:
            k += 1
        return self.create(f"s{k}", hint, lo, source=source, limit=limit)

    def occupied(self, shape: Sequence[Size], itemsize: int) -> None:
        """There is an array of this shape, so that the bytes of its axes that are not empty are an int64."""
        symbols = tuple(n for n in shape if isinstance(n, Symbol))
        if not symbols:
            return
        width = itemsize * prod(n for n in shape if isinstance(n, int) and n > 0)
        most = LARGEST // width
        self._products[symbols] = min(most, self._products.get(symbols, most))
        for symbol in symbols:
            self._limits[symbol] = min(most, self._limits.get(symbol, most))

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """All symbols, in order of creation."""
        return tuple(self._hints)

    @property
    def guards(self) -> tuple[Relation, ...]:
        """The relations that were decided by the hints, in order."""
        return tuple(self._guards)

    def location(self, guard: Relation) -> Location | None:
        """The user's line that first asked."""
        return self._guards[guard]

    def source(self, symbol: Symbol) -> object:
        """Where the symbol's value comes from, as given at its creation."""
        return self._sources[symbol]

    def hint(self, e: Size) -> int:
        """The value of `e` at this capture. Raises KeyError for a symbol of another environment."""
        return evaluate(e, self._hints)

    def simplify(self, e: Size) -> Size:
        """`e` under the equalities among the guards: sizes found equal become the same expression."""
        return substitute(e, self._equal) if self._equal else e

    def fits(self, e: Size, location: Location | None, most: int = LARGEST) -> bool:
        """Whether `e` and all that its evaluation comes across are at most `most` in absolute value: that 64 bits hold
        them. Where that depends on how large the symbols are, guards limit them, well above their hints if there is
        room; False if not even the hints do."""
        e = self.simplify(e)
        if not isinstance(e, Expr):
            return abs(e) <= most
        if (e, most) in self._fitting:
            return True
        symbols = sorted(free_symbols(e) & self._hints.keys(), key=lambda s: s.name)
        known = {s: self._limit(s) for s in symbols}
        if magnitude(e, known, self._products) > most:
            limits = self._tighter(known, e, most)
            if limits is None:
                return False
            for symbol, limit in limits.items():
                if limit < known[symbol]:
                    self.decide(le(symbol, limit), location)
                    self.decide(ge(symbol, -limit), location)
        self._fitting.add((e, most))
        return True

    def _tighter(self, known: Mapping[Symbol, int], e: Expr, most: int) -> dict[Symbol, int] | None:
        """Limits under which `e` fits: one power of two for all, as large as can be, but for symbols whose hint is
        larger; else the hints themselves."""
        hints = {s: abs(self._hints[s]) for s in known}
        rooms = [{s: max(1 << bits, 1 << h.bit_length()) for s, h in hints.items()} for bits in range(48, 2, -1)]
        for room in (*rooms, hints):
            limits = {s: min(room[s], limit) for s, limit in known.items()}
            if magnitude(e, limits, self._products) <= most:
                return limits
        return None

    def _limit(self, symbol: Symbol) -> int:
        """The largest absolute value of a symbol, by what it is and by the guards."""
        lo, hi = range_of(self._bounded.get(symbol, symbol))
        limit = self._limits[symbol]
        return limit if lo is None or hi is None else min(limit, max(abs(lo), abs(hi)))

    def decide(self, relation: Relation | bool, location: Location | None) -> bool:
        """Whether the relation holds: proven, or true for the hints and then recorded as a guard. One whose sides
        64 bits do not hold is settled by fixing its symbols."""
        known = self.known(relation)
        if known is not None:
            return known
        assert isinstance(relation, Relation)
        holds = relation.holds(self._hints)
        if not (self.fits(relation.lhs, location) and self.fits(relation.rhs, location)):
            for symbol in sorted(relation.symbols, key=lambda s: s.name):
                self.decide(eq(symbol, self._hints[symbol]), location)
            return holds
        guard = relation if holds else relation.negated()
        if isinstance(guard, Relation):
            self._guards[guard] = location
            self._learn(guard)
        return holds

    def known(self, relation: Relation | bool) -> bool | None:
        """The answer if bounds or guards so far give one; never records anything."""
        if isinstance(relation, bool):
            return relation
        if relation in self._guards:
            return True
        opposite = relation.negated()
        if isinstance(opposite, bool):
            return not opposite
        if opposite in self._guards:
            return False
        known = proves(relation)
        for facts in (self._equal, self._bounded):
            if known is None and facts:
                relation = relation.substituted(facts)
                if isinstance(relation, bool):
                    return relation
        return known

    def _learn(self, guard: Relation) -> None:
        """Use a guard from now on: an equality to replace its later symbol, an inequality to bound its symbol."""
        lhs, rhs = self.simplify(guard.lhs), self.simplify(guard.rhs)
        if guard.kind == "eq":
            self._learn_equality(lhs, rhs)
        for symbol, other in ((lhs, rhs), (rhs, lhs)):
            if isinstance(symbol, Symbol) and isinstance(other, int):
                self._learn_bound(symbol, other, guard.kind, symbol is lhs)

    def _learn_bound(self, symbol: Symbol, constant: int, kind: str, first: bool) -> None:
        narrowed = self._bounded.get(symbol, symbol)
        if not isinstance(narrowed, Symbol) or isinstance(narrowed.hi, Expr):
            return
        lo, hi = narrowed.lo, narrowed.hi
        if kind == "le" and first:
            hi = constant if hi is None else min(hi, constant)
        elif kind == "le":
            lo = max(lo, constant)
        elif kind == "ne":
            lo += lo == constant
        self._bounded[symbol] = Symbol(symbol.name, lo, hi)

    def _learn_equality(self, lhs: Size, rhs: Size) -> None:
        order = {s: k for k, s in enumerate(self._hints)}
        pairs = [(a, b) for a, b in ((lhs, rhs), (rhs, lhs)) if isinstance(a, Symbol) and a not in free_symbols(b)]
        if not pairs:
            return
        symbol, value = max(pairs, key=lambda pair: order.get(pair[0], -1))
        if isinstance(value, Expr) and not free_symbols(value) <= order.keys():
            return
        self._equal = {s: substitute(v, {symbol: value}) for s, v in self._equal.items()}
        self._equal[symbol] = value
