"""Guards: what must hold in a later call for a captured graph to be right for it, as data.

What goes in: Sources and the facts that capture relied on. What comes out: frozen records, each with
`check(frame)` and `explain(frame)`; the native entry is generated from the same fields.

What holds: checking runs no user code; guards are checked in their recorded order, in which the guard on a
container or object stands before the guards on what is reached through it; a missing path fails the guard, it
never raises. Locations take no part in equality.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from dataclasses import field
from itertools import pairwise
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, Literal, TypeAlias

import numpy as np

from broadloom.capture.sources import Attribute, Frame, Item, Source, SourceMissing
from broadloom.dtypes import DType
from broadloom.errors import Location
from broadloom.records import dataclass
from broadloom.symbolic import Relation, Size, Symbol, evaluate

Layout = Literal["c", "f", "strided"]
AxisKind = Literal["unit", "zero", "any"]  # of a strided array: step of one element, step zero, anything else


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """Base of all guards. `location` is the user's line that made the guard."""

    location: Location | None = field(default=None, compare=False)

    def check(self, frame: Frame) -> bool:
        """Whether the guard holds in `frame`."""
        try:
            return self.holds(frame)
        except SourceMissing:
            return False

    def explain(self, frame: Frame) -> str:
        """One line: what was relied on, and what `frame` has instead."""
        try:
            text = self.difference(frame)
        except SourceMissing as missing:
            text = f"{missing.args[0]} does not exist any more"
        return text if self.location is None else f"{text} (read at {self.location})"

    def holds(self, frame: Frame) -> bool:
        """`check`, but a missing path raises `SourceMissing`."""
        raise NotImplementedError

    def difference(self, frame: Frame) -> str:
        """`explain` without the location."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class ArrayGuard(Guard):
    """An exact `ndarray` (or `memmap`) of this dtype in native byte order, rank and layout.

    `sizes`: None where any size is admitted. `layout` "c" and "f" are NumPy's contiguity flags ("c" where both
    hold); "strided" arrays agree in `axes`, one kind per axis, and in `order`. `aligned`: the data must be
    aligned, False admits any address. `written`: must be writeable and free of internal overlap.
    """

    source: Source
    dtype: DType
    sizes: tuple[int | None, ...]
    layout: Layout
    order: tuple[int, ...]
    axes: tuple[AxisKind, ...] = ()
    aligned: bool = True
    written: bool = False

    def holds(self, frame: Frame) -> bool:
        return self._fault(self.source.fetch(frame)) is None

    def difference(self, frame: Frame) -> str:
        what, old, new = self._fault(self.source.fetch(frame)) or ("", None, None)
        return _changed(f"{self.source}{what}", old, new)

    def _fault(self, x: Any) -> tuple[str, object, object] | None:
        if type(x) is not np.ndarray and type(x) is not np.memmap:
            return "", "numpy.ndarray", type(x).__name__
        if x.dtype != self.dtype.numpy or not x.dtype.isnative:
            return ".dtype", self.dtype, x.dtype
        if x.ndim != len(self.sizes):
            return ".ndim", len(self.sizes), x.ndim
        for axis, size in enumerate(self.sizes):
            if size is not None and x.shape[axis] != size:
                return f".shape[{axis}]", size, x.shape[axis]
        layout = layout_of(x)
        if layout != self.layout:
            return " layout", _LAYOUT_NAMES[self.layout], _LAYOUT_NAMES[layout]
        if layout == "strided":
            if not admits(x, self.axes):
                return ".strides", self.axes, x.strides
            if not in_order(x, self.order):
                return " memory order", self.order, memory_order(x)
        if self.aligned and not x.flags.aligned:
            return " alignment", "aligned", "unaligned"
        if self.written and not x.flags.writeable:
            return ".flags.writeable", True, False
        if self.written and overlaps_itself(x):
            return " internal overlap", False, True
        return None


_LAYOUT_NAMES = {"c": "C-contiguous", "f": "Fortran-contiguous", "strided": "strided"}


def layout_of(x: np.ndarray[Any, Any]) -> Layout:
    """The stride class of an array; an array that is both C- and Fortran-contiguous is "c"."""
    return "c" if x.flags.c_contiguous else "f" if x.flags.f_contiguous else "strided"


def axis_kinds(x: np.ndarray[Any, Any]) -> tuple[AxisKind, ...]:
    """The stride kind of each axis. Axes of size 0 or 1 say nothing and are "any".

    >>> axis_kinds(np.zeros((4, 6))[:, ::2]), axis_kinds(np.broadcast_to(np.arange(3.0), (2, 3)))
    (('any', 'any'), ('zero', 'unit'))
    """
    return tuple(
        "any" if n < 2 else "unit" if s == x.itemsize else "zero" if s == 0 else "any"
        for n, s in zip(x.shape, x.strides, strict=True)
    )


def admits(x: np.ndarray[Any, Any], axes: tuple[AxisKind, ...]) -> bool:
    """Whether the strides of `x` are of the kinds `axes`, and strides in "any" axes are whole elements and not zero: an
    axis that is not moved along is not compared with others for the order of a result.

    A size-1 axis is never stepped over, so its stride fits every kind.
    """
    for kind, n, s in zip(axes, x.shape, x.strides, strict=True):
        if n < 2:
            continue
        if (kind == "unit" and s != x.itemsize) or (kind == "zero") != (s == 0) or s % x.itemsize:
            return False
    return True


def memory_order(x: np.ndarray[Any, Any]) -> tuple[int, ...]:
    """Axes from the outermost in memory to the innermost: by falling absolute stride, ties in C order.

    >>> memory_order(np.zeros((2, 3, 4)).transpose(2, 0, 1))
    (1, 2, 0)
    """
    if x.flags.c_contiguous:
        return tuple(range(x.ndim))
    if x.flags.f_contiguous:
        return tuple(reversed(range(x.ndim)))
    return tuple(sorted(range(x.ndim), key=lambda axis: -abs(x.strides[axis])))


def in_order(x: np.ndarray[Any, Any], order: tuple[int, ...]) -> bool:
    """Whether `order` is the memory order of a strided array: absolute strides fall along it, ties in C order."""
    strides = [(-abs(x.strides[axis]), axis) for axis in order]
    return all(a < b for a, b in pairwise(strides))


def overlaps_itself(x: np.ndarray[Any, Any]) -> bool:
    """Whether two elements of `x` may share memory. Exact for arrays made by slicing and transposing; the rare
    interleaved as_strided view that does not overlap also counts as overlapping."""
    if x.size < 2:
        return False
    reach = x.itemsize
    for stride, n in sorted((abs(s), n) for s, n in zip(x.strides, x.shape, strict=True) if n > 1):
        if stride < reach:
            return True
        reach = stride * (n - 1) + reach
    return False


@dataclass(frozen=True, slots=True)
class IdentityGuard(Guard):
    """The very object: functions' code, modules, NumPy callables, classes, dtypes."""

    source: Source
    object: object = field(compare=False)
    address: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "address", id(self.object))

    def holds(self, frame: Frame) -> bool:
        return self.source.fetch(frame) is self.object

    def difference(self, frame: Frame) -> str:
        return _changed(str(self.source), _name(self.object), _name(self.source.fetch(frame)))


@dataclass(frozen=True, slots=True)
class ConstantGuard(Guard):
    """An int, str, bool, None, bytes, float, complex, Ellipsis, NumPy scalar or set of exactly this type and value:
    True, 1 and 1.0 differ, and so do 0.0 and -0.0; nan equals a nan of the same bits."""

    source: Source
    value: object = field(compare=False)
    pattern: tuple[type, object] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pattern", _pattern(self.value))

    def holds(self, frame: Frame) -> bool:
        value = self.source.fetch(frame)
        return type(value) is self.pattern[0] and _pattern(value) == self.pattern

    def difference(self, frame: Frame) -> str:
        return _changed(str(self.source), repr(self.value), repr(self.source.fetch(frame)))


@dataclass(frozen=True, slots=True)
class TypeGuard(Guard):
    """An object of exactly this type."""

    source: Source
    type: type

    def holds(self, frame: Frame) -> bool:
        return type(self.source.fetch(frame)) is self.type

    def difference(self, frame: Frame) -> str:
        return _changed(f"type({self.source})", self.type.__name__, type(self.source.fetch(frame)).__name__)


@dataclass(frozen=True, slots=True)
class FloatGuard(Guard):
    """A Python float (`complex_` False) or complex, of any value: a runtime input."""

    source: Source
    complex_: bool = False

    def holds(self, frame: Frame) -> bool:
        return type(self.source.fetch(frame)) is (complex if self.complex_ else float)

    def difference(self, frame: Frame) -> str:
        expected = "complex" if self.complex_ else "float"
        return _changed(f"type({self.source})", expected, type(self.source.fetch(frame)).__name__)


@dataclass(frozen=True, slots=True)
class IntGuard(Guard):
    """A Python int (not bool) in [lo, 2**62]: a runtime input bound to a symbol."""

    source: Source
    lo: int = 0

    def holds(self, frame: Frame) -> bool:
        value = self.source.fetch(frame)
        return type(value) is int and self.lo <= value <= 2**62

    def difference(self, frame: Frame) -> str:
        value = self.source.fetch(frame)
        if type(value) is not int:
            return _changed(f"type({self.source})", "int", type(value).__name__)
        return _changed(str(self.source), f"an int in [{self.lo}, 2**62]", value)


@dataclass(frozen=True, slots=True)
class LengthGuard(Guard):
    """A tuple, list or dict of exactly this type and length."""

    source: Source
    length: int
    type: type

    def holds(self, frame: Frame) -> bool:
        value = self.source.fetch(frame)
        kind = type(value)
        return kind is self.type and len(value) == self.length

    def difference(self, frame: Frame) -> str:
        value = self.source.fetch(frame)
        kind = type(value)
        if kind is not self.type:
            return _changed(f"type({self.source})", self.type.__name__, kind.__name__)
        return _changed(f"len({self.source})", self.length, len(value))


@dataclass(frozen=True, slots=True)
class KeysGuard(Guard):
    """A dict with exactly these keys, in this order; keys are strings or other constants, type-exact."""

    source: Source
    keys: tuple[Any, ...]

    def holds(self, frame: Frame) -> bool:
        value = self.source.fetch(frame)
        return (
            type(value) is dict
            and len(value) == len(self.keys)
            and all(type(a) is type(b) and a == b for a, b in zip(value, self.keys, strict=True))
        )

    def difference(self, frame: Frame) -> str:
        value = self.source.fetch(frame)
        if type(value) is not dict:
            return _changed(f"type({self.source})", "dict", type(value).__name__)
        return _changed(f"keys of {self.source}", list(self.keys), list(value))


@dataclass(frozen=True, slots=True)
class PresenceGuard(Guard):
    """Whether a path exists: a key in a dict, an entry of an instance, a global."""

    source: Source
    present: bool

    def holds(self, frame: Frame) -> bool:
        return self.exists(frame) is self.present

    def exists(self, frame: Frame) -> bool:
        try:
            self.source.fetch(frame)
        except SourceMissing:
            return False
        return True

    def difference(self, frame: Frame) -> str:
        words = {True: "present", False: "absent"}
        return _changed(str(self.source), words[self.present], words[self.exists(frame)])


@dataclass(frozen=True, slots=True)
class SizeTerm:
    """A symbolic int as a Python number; `symbols` says where each symbol is read."""

    size: Size
    symbols: tuple[tuple[Symbol, Source], ...]

    def __str__(self) -> str:
        return str(self.size)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Arithmetic on Python numbers as Python does it: an operator, or the name of a function of `math`."""

    operator: str
    operands: tuple[Term, ...]

    def __str__(self) -> str:
        if self.operator in _OPERATORS and len(self.operands) == 2:
            return f"({self.operands[0]} {self.operator} {self.operands[1]})"
        return f"{self.operator}({', '.join(map(str, self.operands))})"


Term: TypeAlias = Source | int | float | complex | SizeTerm | Arithmetic

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}
_UNARY: dict[str, Callable[[Any], Any]] = {"neg": operator.neg, "abs": operator.abs, "pos": operator.pos}


def arithmetic(name: str, *operands: Any) -> Any:
    """One step of Python arithmetic on numbers; raises what Python raises.

    >>> arithmetic("/", 1.0, 4), arithmetic("sqrt", 9.0)
    (0.25, 3.0)
    """
    if name in _OPERATORS:
        return _OPERATORS[name](*operands)
    function = _UNARY.get(name) or getattr(math, name)
    return function(*operands)


def evaluate_term(term: Term, frame: Frame) -> Any:
    """The number that a term is in this call. Raises `SourceMissing`, and `ArithmeticError` or `ValueError` where
    Python raises them."""
    match term:
        case Source():
            return term.fetch(frame)
        case SizeTerm(size, symbols):
            return evaluate(size, {symbol: source.fetch(frame) for symbol, source in symbols})
        case Arithmetic(name, operands):
            return arithmetic(name, *(evaluate_term(o, frame) for o in operands))
    return term


@dataclass(frozen=True, slots=True)
class CompareGuard(Guard):
    """The outcome of a comparison of Python numbers that decided a branch: `left <operator> right` is `outcome`."""

    left: Term
    operator: Literal["<", "<=", "==", "!=", ">", ">="]
    right: Term
    outcome: bool

    def holds(self, frame: Frame) -> bool:
        try:
            left, right = evaluate_term(self.left, frame), evaluate_term(self.right, frame)
        except (ArithmeticError, ValueError):
            return False
        return arithmetic(self.operator, left, right) is self.outcome

    def difference(self, frame: Frame) -> str:
        what = f"({self.left} {self.operator} {self.right})"
        try:
            left, right = evaluate_term(self.left, frame), evaluate_term(self.right, frame)
        except (ArithmeticError, ValueError) as error:
            return _changed(what, self.outcome, repr(error))
        return _changed(what, self.outcome, f"{left!r} {self.operator} {right!r}")


@dataclass(frozen=True, slots=True)
class DefinedGuard(Guard):
    """Arithmetic on Python numbers that raises for some values (a zero divisor, the root of a negative number)
    raises nothing."""

    term: Arithmetic

    def holds(self, frame: Frame) -> bool:
        return self._error(frame) is None

    def _error(self, frame: Frame) -> Exception | None:
        try:
            value = evaluate_term(self.term, frame)
        except (ArithmeticError, ValueError) as error:
            return error
        return None if type(value) is float else TypeError(f"the result is {type(value).__name__}, not float")

    def difference(self, frame: Frame) -> str:
        return f"{self.term} was a float and now gives {self._error(frame)!r}"


@dataclass(frozen=True, slots=True)
class ShapeGuard(Guard):
    """A relation over symbolic sizes that capture decided; `symbols` says where each symbol is read."""

    relation: Relation
    symbols: tuple[tuple[Symbol, Source], ...]

    def holds(self, frame: Frame) -> bool:
        return self.relation.holds({symbol: source.fetch(frame) for symbol, source in self.symbols})

    def difference(self, frame: Frame) -> str:
        values = ", ".join(f"{symbol} = {source} = {source.fetch(frame)}" for symbol, source in self.symbols)
        return f"the sizes no longer satisfy {self.relation}: {values}"


@dataclass(frozen=True, slots=True)
class DisjointGuard(Guard):
    """The bytes of the written array lie apart from those of every other array input."""

    written: Source
    others: tuple[Source, ...]

    def holds(self, frame: Frame) -> bool:
        return self._overlapping(frame) is None

    def _overlapping(self, frame: Frame) -> Source | None:
        written = self.written.fetch(frame)
        return next((s for s in self.others if np.may_share_memory(written, s.fetch(frame))), None)

    def difference(self, frame: Frame) -> str:
        return f"{self.written}, which is written, shares memory with {self._overlapping(frame)}"


@dataclass(frozen=True, slots=True)
class SameObjectGuard(Guard):
    """Two paths lead to one object."""

    first: Source
    second: Source

    def holds(self, frame: Frame) -> bool:
        return self.first.fetch(frame) is self.second.fetch(frame)

    def difference(self, frame: Frame) -> str:
        return f"{self.first} and {self.second} were one object and are two"


@dataclass(frozen=True, slots=True)
class NotSameObjectGuard(Guard):
    """Two paths lead to different objects."""

    first: Source
    second: Source

    def holds(self, frame: Frame) -> bool:
        return self.first.fetch(frame) is not self.second.fetch(frame)

    def difference(self, frame: Frame) -> str:
        return f"{self.first} and {self.second} were two objects and are one"


def size_source(array: Source, axis: int) -> Source:
    """The source of one size of an array.

    >>> from broadloom.capture.sources import Argument
    >>> str(size_source(Argument("x"), 1))
    "L['x'].shape[1]"
    """
    return Item(Attribute(array, "shape"), axis)


def _changed(what: str, old: object, new: object) -> str:
    return f"{what} was {old} and is {new}"


def _pattern(value: object) -> tuple[type, object]:
    """A key that is equal exactly when type and bits are."""
    if type(value) is float:
        return float, struct.pack("<d", value)
    if type(value) is complex:
        return complex, struct.pack("<dd", value.real, value.imag)
    if isinstance(value, np.generic):
        return type(value), value.tobytes()
    if type(value) is set or type(value) is frozenset:
        return type(value), frozenset(_pattern(e) for e in value)
    return type(value), value


def _name(value: object) -> str:
    if isinstance(value, type | ModuleType | FunctionType | BuiltinFunctionType | np.ufunc):
        return f"{type(value).__name__} {value.__name__}"
    if isinstance(value, CodeType):
        return f"code of {value.co_qualname} ({value.co_filename}:{value.co_firstlineno})"
    return f"{type(value).__name__} object"
