"""Symbolic integers: the nodes, their interning, and sums and products in canonical form.

What goes in: Python ints and `Symbol`s. What comes out: a `Size`, which is a plain `int` whenever the value is
constant and an `Expr` otherwise.

What holds:
- Equal expressions are the same object, so `==` and `hash` are identity and cost nothing.
- A node is immutable. A sum is a sorted list of (monomial, coefficient) and a constant; a monomial is an atom or a
  coefficient-free `Mul` of sorted atoms; atoms are symbols, divisions, remainders, minima and maxima.
- The order of terms and factors depends on structure alone, never on the order of construction.
- The intern table is weak and the operation caches are bounded: a process that runs long holds what it uses.
"""

from __future__ import annotations

import operator
import os
import re
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, TypeAlias, TypeGuard

Key: TypeAlias = tuple[Any, ...]

_CACHE_LIMIT = 1 << 14
_set = object.__setattr__
_NAME = re.compile(r"(.*?)(\d*)\Z", re.DOTALL)


class Expr:
    """A symbolic integer. Make one from `Symbol` and the operators ``+ - * // %`` (floor, as Python's ints).

    >>> n, m = Symbol("n"), Symbol("m")
    >>> (n + 1) * m + 2 * n
    m*n + m + 2*n
    >>> m * n is n * m
    True
    """

    __slots__ = ("__weakref__", "_free", "_key", "_range")
    _fields: ClassVar[tuple[str, ...]] = ()
    __array_ufunc__ = None  # NumPy integers hand the operation over to us

    _key: Key
    _free: frozenset[Symbol] | None
    _range: Any  # a ranges.Range once it has been asked for

    @property
    def args(self) -> tuple[Size, ...]:
        """The operands, as sizes, in canonical order; a symbol has none."""
        return ()

    @property
    def sort_key(self) -> Key:
        """A key that orders expressions by structure, the same in every process."""
        return self._key

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __copy__(self) -> Expr:
        return self

    def __deepcopy__(self, memo: object) -> Expr:
        return self

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return _intern, (type(self), *(getattr(self, name) for name in self._fields))

    def __bool__(self) -> bool:
        raise TypeError(f"the truth of the symbolic integer {self} is not known; compare it, then proves() or decide()")

    def __repr__(self) -> str:
        return text.print_expr(self)

    def __add__(self, other: object) -> Size:
        return add(self, other) if _is_size(other) else NotImplemented

    __radd__ = __add__

    def __sub__(self, other: object) -> Size:
        return sub(self, other) if _is_size(other) else NotImplemented

    def __rsub__(self, other: object) -> Size:
        return sub(other, self) if _is_size(other) else NotImplemented

    def __mul__(self, other: object) -> Size:
        return mul(self, other) if _is_size(other) else NotImplemented

    __rmul__ = __mul__

    def __neg__(self) -> Size:
        return mul(-1, self)

    def __floordiv__(self, other: object) -> Size:
        return simplify.floordiv(self, other) if _is_size(other) else NotImplemented

    def __rfloordiv__(self, other: object) -> Size:
        return simplify.floordiv(other, self) if _is_size(other) else NotImplemented

    def __mod__(self, other: object) -> Size:
        return simplify.mod(self, other) if _is_size(other) else NotImplemented

    def __rmod__(self, other: object) -> Size:
        return simplify.mod(other, self) if _is_size(other) else NotImplemented


Size: TypeAlias = int | Expr


class Symbol(Expr):
    """A named integer in ``[lo, hi]``, `hi` inclusive; None means unbounded, and `hi` may be an expression, as for
    a loop variable in ``[0, n - 1]``. Two symbols are the same object when name, lo and hi are equal.

    Raises ValueError for a name that cannot be printed and parsed, TypeError for a bound that is no integer.

    >>> n = Symbol("n", 1)
    >>> i = Symbol("i", 0, n - 1)
    >>> i // n, i % n
    (0, i)
    """

    __slots__ = ("hi", "lo", "name")
    _fields: ClassVar[tuple[str, ...]] = ("name", "lo", "hi")

    name: str
    lo: int
    hi: Size | None

    def __new__(cls, name: str, lo: int = 0, hi: Size | None = None) -> Symbol:
        if not name.isidentifier() or name in ("min", "max"):
            raise ValueError(f"a symbol's name must be an identifier other than min and max; got {name!r}")
        if type(lo) is not int:
            lo = operator.index(lo)
        if hi is not None and not isinstance(hi, Expr):
            hi = operator.index(hi)
        symbol: Symbol = _intern(cls, name, lo, hi)
        return symbol


class Add(Expr):
    """``sum(coefficient * monomial for monomial, coefficient in terms) + constant``."""

    __slots__ = ("constant", "terms")
    _fields: ClassVar[tuple[str, ...]] = ("terms", "constant")

    terms: tuple[tuple[Expr, int], ...]
    constant: int

    @property
    def args(self) -> tuple[Size, ...]:
        operands = tuple(mul(coefficient, monomial) for monomial, coefficient in self.terms)
        return (*operands, self.constant) if self.constant else operands


class Mul(Expr):
    """``coefficient * factors[0] * factors[1] * ...``; the factors are atoms, sorted, with repetition."""

    __slots__ = ("coefficient", "factors")
    _fields: ClassVar[tuple[str, ...]] = ("coefficient", "factors")

    coefficient: int
    factors: tuple[Expr, ...]

    @property
    def args(self) -> tuple[Size, ...]:
        return self.factors if self.coefficient == 1 else (self.coefficient, *self.factors)


class _Division(Expr):
    __slots__ = ("dividend", "divisor")
    _fields: ClassVar[tuple[str, ...]] = ("dividend", "divisor")

    dividend: Size
    divisor: Size

    @property
    def args(self) -> tuple[Size, ...]:
        return (self.dividend, self.divisor)


class FloorDiv(_Division):
    """``dividend // divisor``, rounded towards minus infinity."""

    __slots__ = ()


class Mod(_Division):
    """``dividend % divisor``, with the sign of the divisor."""

    __slots__ = ()


class _Extremum(Expr):
    __slots__ = ("operands",)
    _fields: ClassVar[tuple[str, ...]] = ("operands",)

    operands: tuple[Size, ...]

    @property
    def args(self) -> tuple[Size, ...]:
        return self.operands


class Min(_Extremum):
    """The smallest of two or more operands."""

    __slots__ = ()


class Max(_Extremum):
    """The largest of two or more operands."""

    __slots__ = ()


# ---- interning --------------------------------------------------------------------------------------------------

_TABLE: weakref.WeakValueDictionary[tuple[Any, ...], Any] = weakref.WeakValueDictionary()
_LOCK = threading.RLock()  # held for two table look-ups, never while other code runs
_ADD_CACHE: dict[tuple[Size, Size], Size] = {}
_MUL_CACHE: dict[tuple[Size, Size], Size] = {}


# fork waits until no other thread holds the lock, so a child never inherits it locked
os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)


def _intern(cls: Any, *fields: Any) -> Any:
    """The one node of class `cls` with these fields; they must already be canonical."""
    key = (cls, *fields)
    node = _TABLE.get(key)
    if node is not None:
        return node
    node = object.__new__(cls)
    for name, value in zip(cls._fields, fields, strict=True):
        _set(node, name, value)
    _set(node, "_key", _structural_key(node))
    _set(node, "_free", None)
    _set(node, "_range", None)
    with _LOCK:
        present = _TABLE.get(key)
        if present is not None:
            return present
        _TABLE[key] = node
    return node


def _structural_key(node: Expr) -> Key:
    """Keys compare position by position: the leading rank differs before types could."""
    if isinstance(node, Symbol):
        match = _NAME.match(node.name)
        stem, digits = match.groups() if match else (node.name, "")
        hi = (0,) if node.hi is None else (1, _size_key(node.hi))
        return (0, stem, int(digits) if digits else -1, node.name, node.lo, hi)
    if isinstance(node, Mul):
        return (1, tuple(f._key for f in node.factors), node.coefficient)
    if isinstance(node, _Division):
        return (2 if isinstance(node, FloorDiv) else 3, _size_key(node.dividend), _size_key(node.divisor))
    if isinstance(node, _Extremum):
        return (4 if isinstance(node, Min) else 5, tuple(_size_key(o) for o in node.operands))
    assert isinstance(node, Add)
    return (6, tuple((m._key, c) for m, c in node.terms), node.constant)


def _size_key(size: Size) -> Key:
    return size._key if isinstance(size, Expr) else (-1, size)


def size_key(size: Size) -> Key:
    """A sort key for ints and expressions together: ints first, then by structure."""
    return _size_key(size)


def interned_count() -> int:
    """How many distinct expressions are alive in this process."""
    return len(_TABLE)


def remember(cache: dict[Any, Any], key: Any, value: Any) -> None:
    """Enter a result into a bounded cache, which is emptied when it is full."""
    if len(cache) >= _CACHE_LIMIT:
        cache.clear()
    cache[key] = value


def _is_size(value: object) -> TypeGuard[Size]:
    return isinstance(value, Expr) or hasattr(value, "__index__")


def as_size(value: Any) -> Size:
    """`value` as an Expr or a plain int. Raises TypeError for anything that is no integer."""
    if isinstance(value, Expr) or type(value) is int:
        return value
    return operator.index(value)


# ---- sums and products ------------------------------------------------------------------------------------------


def split_terms(e: Expr) -> tuple[tuple[tuple[Expr, int], ...], int]:
    """`e` as ((monomial, coefficient), ...) and a constant."""
    if isinstance(e, Add):
        return e.terms, e.constant
    if isinstance(e, Mul) and e.coefficient != 1:
        return ((monomial_of(e.factors), e.coefficient),), 0
    return ((e, 1),), 0


def factors_of(monomial: Expr) -> tuple[Expr, ...]:
    """The atoms of a monomial, sorted, with repetition."""
    return monomial.factors if isinstance(monomial, Mul) else (monomial,)


def monomial_of(factors: tuple[Expr, ...]) -> Expr:
    """The product of sorted atoms; at least one."""
    if len(factors) == 1:
        return factors[0]
    node: Expr = _intern(Mul, 1, factors)
    return node


def _monomial_key(term: tuple[Expr, int]) -> Key:
    monomial = term[0]
    degree = len(monomial.factors) if isinstance(monomial, Mul) else 1
    return (-degree, monomial._key)


def from_terms(terms: dict[Expr, int], constant: int) -> Size:
    """The canonical expression of ``sum(c * m for m, c in terms.items()) + constant``."""
    if 0 in terms.values():
        terms = {m: c for m, c in terms.items() if c}
    if not terms:
        return constant
    for monomial in terms:
        if isinstance(monomial, Mod | Mul) and any(isinstance(f, Mod) for f in factors_of(monomial)):
            joined = simplify.join_quotient_and_remainder(terms, monomial)
            if joined is not None:
                return add(joined, constant)
    if len(terms) == 1 and not constant:
        ((monomial, coefficient),) = terms.items()
        return monomial if coefficient == 1 else _scaled(coefficient, monomial)
    ordered = tuple(terms.items()) if len(terms) == 1 else tuple(sorted(terms.items(), key=_monomial_key))
    node: Expr = _intern(Add, ordered, constant)
    return node


def _scaled(coefficient: int, monomial: Expr) -> Expr:
    node: Expr = _intern(Mul, coefficient, factors_of(monomial))
    return node


def add(a: Size, b: Size) -> Size:
    """``a + b``."""
    if type(a) is int and type(b) is int:
        return a + b
    key = (a, b)
    known = _ADD_CACHE.get(key)
    if known is not None:
        return known
    result = _add(as_size(a), as_size(b))
    remember(_ADD_CACHE, key, result)
    return result


def _add(a: Size, b: Size) -> Size:
    if isinstance(a, int):
        a, b = b, a
    if isinstance(a, int):
        assert isinstance(b, int)
        return a + b
    terms, constant = split_terms(a)
    if isinstance(b, int):
        return from_terms(dict(terms), constant + b) if b else a
    merged = dict(terms)
    more, other = split_terms(b)
    for monomial, coefficient in more:
        merged[monomial] = merged.get(monomial, 0) + coefficient
    return from_terms(merged, constant + other)


def sub(a: Size, b: Size) -> Size:
    """``a - b``."""
    if type(a) is int and type(b) is int:
        return a - b
    return 0 if a is b else add(a, mul(-1, b))


def mul(a: Size, b: Size) -> Size:
    """``a * b``, multiplied out."""
    if type(a) is int and type(b) is int:
        return a * b
    key = (a, b)
    known = _MUL_CACHE.get(key)
    if known is not None:
        return known
    result = _mul(as_size(a), as_size(b))
    remember(_MUL_CACHE, key, result)
    return result


def _mul(a: Size, b: Size) -> Size:
    if isinstance(b, int):
        a, b = b, a
    if isinstance(b, int):
        assert isinstance(a, int)
        return a * b
    terms, constant = split_terms(b)
    if isinstance(a, int):
        if a == 0 or a == 1:
            return b if a else 0
        return from_terms({m: c * a for m, c in terms}, constant * a)
    merged: dict[Expr, int] = {}
    more, other = split_terms(a)
    for m, c in terms:
        for n, d in more:
            product = monomial_of(tuple(sorted(factors_of(m) + factors_of(n), key=_atom_key)))
            merged[product] = merged.get(product, 0) + c * d
        if other:
            merged[m] = merged.get(m, 0) + c * other
    if constant:
        for n, d in more:
            merged[n] = merged.get(n, 0) + d * constant
    return from_terms(merged, constant * other)


def _atom_key(atom: Expr) -> Key:
    return atom._key


def product(sizes: Iterable[Size]) -> Size:
    """The product of all sizes; 1 for none: the number of elements of a shape.

    >>> product([2, Symbol("n"), 3])
    6*n
    """
    result: Size = 1
    for size in sizes:
        result = mul(result, size)
    return result


def total(sizes: Iterable[Size]) -> Size:
    """The sum of all sizes; 0 for none."""
    terms: dict[Expr, int] = {}
    constant = 0
    for size in sizes:
        if isinstance(size, Expr):
            more, other = split_terms(size)
            for monomial, coefficient in more:
                terms[monomial] = terms.get(monomial, 0) + coefficient
            constant += other
        else:
            constant += operator.index(size)
    return from_terms(terms, constant)


# The rules for division and the printer need the nodes, and the nodes' operators need them: the modules know each
# other, and use each other only when called.
from broadloom.symbolic import simplify, text  # noqa: E402
