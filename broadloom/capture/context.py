"""The state of one capture: recorder, symbolic sizes, guards, graph inputs, and the user's line.

What goes in: the policy for sizes. What comes out: guards in order without repetition, the source of each graph
input, the source of each symbol.

What holds: nothing here or in the evaluator runs user code or changes an object that existed before the capture, so
a refused capture leaves no trace.
"""

from __future__ import annotations

import os
import re
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from functools import cache
from types import CodeType, MappingProxyType
from typing import Any, NoReturn

import numpy as np

from broadloom.capture.breaks import Break, CaptureBreak, Code
from broadloom.capture.guards import CompareGuard, ConstantGuard, Guard, SizeTerm, Term, arithmetic
from broadloom.capture.layouts import GuardingRecorder
from broadloom.capture.sources import (
    Argument,
    Attribute,
    Cell,
    FunctionGlobal,
    Global,
    Installed,
    Item,
    Source,
    is_installed,
)
from broadloom.capture.values import Number
from broadloom.errors import Location, TransformError
from broadloom.frontend.selection import Selection
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle, WeakScalar
from broadloom.records import dataclass
from broadloom.symbolic import LARGEST, Expr, Relation, ShapeEnv, Symbol, eq, free_symbols
from broadloom.tensor.packed import PackedTensor
from broadloom.transforms.level import Level


class Specialised(Exception):
    """The call has to be captured again, with the ints, and the tuples of ints, at `sources` as constants."""

    def __init__(self, sources: frozenset[Source]) -> None:
        super().__init__()
        self.sources = sources


Call = Callable[["Context", Any, list[Any], dict[str, Any]], Any]
MAX_STEPS = 1_000_000
MAX_INPUTS = 1000
MAX_GUARDS = 20_000
MAX_CALLS = 20_000  # of NumPy functions
MAX_DEPTH = 100
LARGEST_INT = 2**31 - 1  # of a symbolic Python int: so that what is computed from it stays within int64


@dataclass(frozen=True, slots=True)
class Policy:
    """Which sizes and Python ints become symbolic.

    `dynamic`: True all of them, False none, None those that `seen` shows to vary. `seen` holds, for each source of
    a size or int, the values of earlier captures. `constant`: those that stay constants in any case, and the strides of
    arrays that have to be.
    """

    dynamic: bool | None = None
    seen: Mapping[Source, frozenset[int]] = field(default_factory=dict)
    constant: frozenset[Source] = frozenset()

    def varies(self, source: Source, value: int) -> bool:
        """Whether the int at `source` shall be symbolic, now that it is `value`."""
        if source in self.constant:
            return False
        if self.dynamic is not None:
            return self.dynamic
        return bool(self.seen.get(source, frozenset()) - {value})

    def after(self, observed: Mapping[Source, int]) -> Policy:
        """The policy for the next capture.

        >>> from broadloom.capture.sources import Argument
        >>> Policy().after({Argument("n"): 3}).varies(Argument("n"), 4)
        True
        """
        seen = dict(self.seen)
        for source, value in observed.items():
            seen[source] = seen.get(source, frozenset()) | {value}
        return replace(self, seen=MappingProxyType(seen))


@dataclass(eq=False, slots=True)
class ArrayInput:
    """An array that became a graph input. Its guard is written last, when it is known whether it is written."""

    source: Source
    array: np.ndarray[Any, Any]
    handle: ArrayHandle
    sizes: tuple[int | None, ...]
    place: int  # in the list of guards
    location: Location | None


@dataclass(eq=False, slots=True)
class PackedInput:
    """A tensor of packed integers among the inputs: its bytes, and the handle of its elements as they are unpacked at
    the start, when the version of their storage is `version`."""

    source: Source
    tensor: PackedTensor
    stored: ArrayHandle
    handle: ArrayHandle
    version: int

    @property
    def written(self) -> bool:
        """Whether the program has written to it."""
        return self.handle.storage.version != self.version


@dataclass(frozen=True, slots=True)
class Scalar:
    """What a NumPy scalar is in this call, and the arguments that it comes from."""

    value: np.generic
    roots: tuple[tuple[Source, np.generic], ...]


class Context:
    """See the module docstring."""

    def __init__(
        self, name: str, policy: Policy, namespace: Mapping[str, Any], call: Call, run: Callable[..., Any]
    ) -> None:
        """`namespace`: the globals of the compiled function. `call` calls a tracked value and `run` evaluates a
        bound Python function: handed in, because the modules that know operators and builtins come before them."""
        self.policy = policy
        self.namespace = namespace
        self._call = call
        self.run = run
        self.env = ShapeEnv()
        self.root = GuardingRecorder(name, self)  # of the whole program
        self.recorder: Recorder = self.root  # of the program that is followed now: one example, in a mapped function
        self.levels: list[Level] = []
        self.tensor_inputs: dict[ArrayHandle, Source] = {}  # handles of tensors that existed before, and where they are
        self.names: dict[Source, str] = {}  # of closure cells, in the functions that have them
        self.packed_inputs: dict[ArrayHandle, PackedInput] = {}
        self.packed_results: dict[ArrayHandle, ArrayHandle] = {}  # the bytes of results, by the handle of the elements
        self.makes_tensors = False  # a function of this package is called: its results are tensors
        self.guards: list[Guard | None] = []
        self.arguments: list[Source] = []  # one for each graph input
        self.symbols: dict[Symbol, Source] = {}
        self.observed: dict[Source, int] = {}
        self.arrays: dict[int, ArrayInput] = {}  # by the id of the array, which the caller keeps alive
        self.realised: dict[Source, Any] = {}
        self.scalars: dict[ArrayHandle, Scalar] = {}  # NumPy scalars that were arguments, and what comes of them
        self.numbers: dict[ArrayHandle, Number] = {}  # runtime numbers that were passed to NumPy
        self.fresh_dicts: set[Source] = set()  # `**kwargs`: dicts that belong to the call
        self.steps = 0
        self.calls = 0
        self.depth = 0
        self._location: Location | None = None
        self._known_guards: set[Guard] = set()
        self._names: set[str] = set()

    # ---- location and refusal -----------------------------------------------------------------------------------

    @property
    def location(self) -> Location | None:
        """The line of the captured program that is being evaluated."""
        return self._location

    def at(self, code: CodeType, line: int) -> None:
        """Move to a line; inside of libraries, of which this package is one, the line that called them stays."""
        known = self._location
        if known is not None and _is_library(code.co_filename):
            return
        if known is None or known.line != line or known.file != code.co_filename:
            self._location = Location(code.co_filename, line, code.co_qualname)
            self.recorder.location = self._location

    def return_to(self, location: Location | None) -> None:
        """Go back to the line of a caller."""
        self._location = self.recorder.location = location

    def refuse(self, code: Code, context: str, explanation: str, hint: str) -> NoReturn:
        """Stop capturing."""
        raise CaptureBreak(Break(code, context, explanation, hint, self._location))

    def transform_raises(self, context: str, error: TransformError) -> NoReturn:
        """Stop because a mapped function does what it cannot, which it would on any road."""
        record = Break(Code.RAISES, context, str(error), "correct the mapped function", self._location)
        raise CaptureBreak(record) from error

    def raises(self, context: str, error: str) -> NoReturn:
        """Stop because the plain function raises here."""
        self.refuse(
            Code.RAISES,
            context,
            f"the function raises here: {error}",
            "code that raises runs as plain Python; keep exceptions out of the compiled function",
        )

    def call(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a tracked value with tracked arguments."""
        return self._call(self, function, list(args), kwargs)

    def call_value(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """As `call`, with the arguments as a list and a dict."""
        return self._call(self, function, args, kwargs)

    # ---- mapped functions ---------------------------------------------------------------------------------------

    @contextmanager
    def within(self, level: Level) -> Iterator[None]:
        """What is followed inside the block is the program of one example of `level`."""
        around = self.recorder
        self.levels.append(level)
        self.recorder, level.recorder.location = level.recorder, self._location
        yield  # not in a `finally`: whatever leaves the block ends the capture
        self.levels.pop()
        self.recorder = around

    @contextmanager
    def tensors(self) -> Iterator[None]:
        """Arrays that come of calls inside the block are tensors."""
        before, self.makes_tensors = self.makes_tensors, True
        yield
        self.makes_tensors = before

    def here(self, x: ArrayHandle) -> ArrayHandle:
        """An array as the program that is followed now sees it: what belongs to a program around is lifted."""
        if isinstance(x, Selection):
            full, mask = self.here(x.full), self.here(x.mask)
            return x if full is x.full and mask is x.mask else Selection(full, mask)
        if x.storage.owner is self.recorder:
            return x
        owners = [self.root, *(level.recorder for level in self.levels)]
        if x.storage.owner not in owners:
            self.refuse(
                Code.RESULT,
                "a value of one example",
                "it left its mapped function otherwise than as a result",
                "return it from the mapped function",
            )
        storage = x.storage

        def name() -> str:
            found = (self.spoken(a.source) for a in self.arrays.values() if a.handle.storage is storage)
            return next(found, "an array")

        for level in self.levels[owners.index(x.storage.owner) :]:
            x = level.lift(x, name)
        return x

    def spoken(self, source: Source) -> str:
        """What the user calls the object at a source, as near as its path says."""
        known = self.names.get(source)
        if known is not None:
            return known
        match source:
            case Argument(name) | Global(name) | Cell(name) | FunctionGlobal(_, name) | Installed(_, name):
                return name
            case Attribute(of, "_array"):
                return self.spoken(of)
            case Attribute(of, name):
                return f"{self.spoken(of)}.{name}"
            case Item(of, key):
                return f"{self.spoken(of)}[{key!r}]"
        return str(source)

    # ---- guards and symbols -------------------------------------------------------------------------------------

    def guard(self, guard: Guard) -> None:
        """Add a guard, once; none is needed for what this package's own modules hold."""
        if guard not in self._known_guards and not is_installed(getattr(guard, "source", None)):
            self._known_guards.add(guard)
            self.guards.append(replace(guard, location=self._location))
            if len(self.guards) > MAX_GUARDS or len(self.arguments) > MAX_INPUTS:
                self.refuse(
                    Code.TOO_LONG,
                    "Python objects read one by one",
                    f"more than {MAX_INPUTS} arrays and floats, or {MAX_GUARDS} values in all",
                    "pass them as one array",
                )

    def reserve_guard(self) -> int:
        """A place for a guard that is written later."""
        self.guards.append(None)
        return len(self.guards) - 1

    def symbol(self, source: Source, value: int, lo: int = 0, limit: int = LARGEST) -> Symbol:
        """A fresh symbol for the int at `source`, whose absolute value is at most `limit`."""
        symbol = self.env.fresh(value, lo, source=source, limit=limit)
        self.symbols[symbol] = source
        return symbol

    def decide(self, relation: Relation | bool) -> bool:
        """The truth of a relation between sizes, guarded if it is not proven."""
        return self.env.decide(relation, self._location)

    def fits(self, size: int | Expr, most: int = LARGEST) -> bool:
        """Whether an expression of symbolic ints stays within int64, or the `most` given, guarded if that depends on
        the symbols."""
        return self.env.fits(size, self._location, most)

    def constant_int(self, size: int | Expr) -> int:
        """The value of a symbolic int, which is thereby specialised."""
        if isinstance(size, int):
            return size
        value = self.env.hint(size)
        for symbol in sorted(free_symbols(size), key=lambda s: s.name):
            self.decide(eq(symbol, self.env.hint(symbol)))
        return value

    def specialise(self, symbols: frozenset[Symbol]) -> NoReturn:
        """Stop, to begin again with these sizes as constants."""
        raise Specialised(frozenset(self.symbols[s] for s in symbols))

    def constant_scalar(self, handle: ArrayHandle) -> np.generic | None:
        """The value of a NumPy scalar that was an argument, or was computed from such alone, which are thereby
        specialised; None for other handles."""
        known = self.scalars.get(handle)
        if known is None:
            return None
        for source, value in known.roots:
            self.guard(ConstantGuard(source, value))
        return known.value

    def number_within(self, number: WeakScalar, low: int, high: int) -> bool | None:
        """Whether the whole part of a Python number lies within bounds, guarded; None if it comes from array data."""
        known = self.numbers.get(number.handle)
        if known is None or known.value is None or known.term is None:
            return None
        exact = abs(low) < 2**53  # else low - 1 is no float
        above = CompareGuard(known.term, ">" if exact else ">=", float(low - 1 if exact else low), True)
        for guard in (above, CompareGuard(known.term, "<", float(high + 1), True)):
            outcome = arithmetic(guard.operator, known.value, guard.right)
            self.guard(replace(guard, outcome=outcome))
            if not outcome:
                return False
        return True

    def size_term(self, size: int | Expr) -> Term:
        """A symbolic int as guards compute it."""
        if isinstance(size, int):
            return size
        if isinstance(size, Symbol):
            return self.symbols[size]
        return SizeTerm(size, self.bindings(size))

    def bindings(self, size: Expr) -> tuple[tuple[Symbol, Source], ...]:
        """Where the symbols of an expression are read."""
        return self.bind(free_symbols(size))

    def bind(self, symbols: frozenset[Symbol]) -> tuple[tuple[Symbol, Source], ...]:
        """Where these symbols are read, in a fixed order."""
        return tuple((s, self.symbols[s]) for s in sorted(symbols, key=lambda s: s.name))

    # ---- arrays, as view-or-copy decisions ask for them ------------------------------------------------------------

    def input_array(self, number: int) -> np.ndarray[Any, Any] | None:
        """The array behind a graph input, None for a number."""
        source = self.arguments[number]
        return next((a.array for a in self.arrays.values() if a.source == source), None)

    # ---- inputs -------------------------------------------------------------------------------------------------

    def input_name(self, source: Source) -> str:
        """A fresh identifier that reminds of the source: `x`, `self_w`, `self_w_1`."""
        words = re.sub(r"[\W_]+", "_", re.sub(r"^\w\['(\w+)'\]", r"\1", str(source))).strip("_")
        name = base = words if words and not words[0].isdigit() else f"in_{words}"
        k = 0
        while name in self._names:
            k += 1
            name = f"{base}_{k}"
        self._names.add(name)
        return name


OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


@cache
def _is_library(file: str) -> bool:
    """Whether a file belongs to this package, Python's library, NumPy or SciPy: its lines tell the user nothing.

    >>> _is_library(os.__file__), _is_library("model.py")
    (True, False)
    """
    if file.startswith(("<frozen ", OWN)):
        return True
    paths = sysconfig.get_paths()
    packages = [os.path.join(paths[name], package) for name in ("purelib", "platlib") for package in ("numpy", "scipy")]
    if any(file.startswith(folder + os.sep) for folder in packages):
        return True
    installed = (paths["purelib"] + os.sep, paths["platlib"] + os.sep)
    return file.startswith(paths["stdlib"] + os.sep) and not file.startswith(installed) and "site-packages" not in file
