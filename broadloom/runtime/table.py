"""A specialisation as the table that the native entry walks.

What goes in: an `EntrySpec` and the parameters of its function. What comes out: a `Table`, words of 8 bytes laid
out as `entry_text` says, with all that its addresses point to. What holds: guards stand in their recorded order;
a guard that has no native form is checked by Python after the others, through one call; a spec whose inputs have
no native form gives `NotNative`, and the Python entry serves it.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from array import array
from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import Any

import numpy as np

from broadloom.capture import guards as g
from broadloom.capture import sources as src
from broadloom.capture.recipe import (
    ConstantResult,
    FromInput,
    FromOutput,
    ListResult,
    Recipe,
    TensorOf,
    TupleResult,
    rebuild,
)
from broadloom.codegen import abi
from broadloom.dtypes import bfloat16
from broadloom.records import dataclass
from broadloom.runtime import context, entry_text, native, python_entry, results
from broadloom.runtime.binding import Parameters
from broadloom.runtime.spec import EntryInput, EntrySpec
from broadloom.symbolic import Add, Expr, FloorDiv, Max, Min, Mod, Mul, Size, Symbol
from broadloom.tensor import dispatch

STEPS, RPN = entry_text.STEPS, entry_text.RPN
FRAME_LIMIT = 1 << 16  # bytes of stack that one call may take


class NotNative(Exception):
    """This part of a specialisation has no native form."""


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The words, the address of the first, the counter of hits, and what the words point to."""

    words: bytes
    hits: ctypes.c_int64
    keep: tuple[object, ...]

    @property
    def address(self) -> int:
        return address_of(self.words)


def address_of(data: bytes) -> int:
    """Where the content of a bytes object lies; valid while the object lives."""
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0


@dataclass(slots=True)
class _Encoder:
    spec: EntrySpec
    parameters: Parameters
    steps: list[int] = field(default_factory=list)
    data: list[int] = field(default_factory=list)  # array guards and postfix code; offsets count from its start
    data_at: list[int] = field(default_factory=list)  # positions in `steps` that hold such an offset
    registers: dict[src.Source, int] = field(default_factory=dict)
    count: int = 0
    floats: set[object] = field(default_factory=set)  # sources that a guard has shown to be floats
    ints: set[object] = field(default_factory=set)
    keep: list[object] = field(default_factory=list)

    def pointer(self, thing: object) -> int:
        self.keep.append(thing)
        return id(thing)

    def name(self, text: str) -> int:
        return self.pointer(sys.intern(text))

    def step(self, op: str, *words: int) -> None:
        row = (STEPS[op], *words)
        self.steps.extend((*row, *[0] * (entry_text.STEP_WORDS - len(row))))

    # ---- sources ----------------------------------------------------------------------------------------------------

    def register(self, source: src.Source) -> int:
        """The register that holds the object at `source`, fetched once; a missing path is a miss."""
        if source not in self.registers:
            self.registers[source] = self.fetch(source, optional=False)
        return self.registers[source]

    def fetch(self, source: src.Source, optional: bool) -> int:
        words = self._fetch_words(source)
        register = self.count
        self.count += 1
        op, *rest = words
        padded = [*rest, 0, 0, 0][:3]
        self.step(op, register, *padded, int(optional))
        return register

    def _fetch_words(self, source: src.Source) -> tuple[Any, ...]:
        function = self.parameters.function
        match source:
            case src.Argument(name):
                if name not in self.parameters.visible:
                    raise NotNative
                return ("arg", self.parameters.visible.index(name))
            case src.Global(name):
                return ("global", self.pointer(function.__globals__), self.name(name), self.name("__builtins__"))
            case src.Module(name):
                return ("global", self.pointer(sys.modules), self.name(name), self.name("__builtins__"))
            case src.Cell(_, index):
                cells = function.__closure__ or ()
                if index >= len(cells):
                    raise NotNative
                return ("cell", self.pointer(cells[index]))
            case src.Attribute(of, name):
                return ("attr", self.register(of), self.name(name))
            case src.ClassEntry(of, name):
                return ("class", self.register(of), self.name(name))
            case src.InstanceEntry(of, name):
                return ("instance", self.register(of), self.name(name))
            case src.FunctionGlobal(of, name):
                return ("fglobal", self.register(of), self.name(name), self.name("__builtins__"))
            case src.Item(of, key):
                if type(key) is int and key < 0:
                    raise NotNative
                return ("item", self.register(of), self.pointer(key), key if type(key) is int else -1)
        raise NotNative

    # ---- guards -----------------------------------------------------------------------------------------------------

    def guards(self) -> None:
        left: list[g.Guard] = []
        for guard in self.spec.guards:
            before = (len(self.steps), len(self.data), len(self.data_at), dict(self.registers), self.count)
            try:
                self.guard(guard)
            except NotNative:
                del self.steps[before[0] :], self.data[before[1] :], self.data_at[before[2] :]
                self.registers, self.count = before[3], before[4]
                left.append(guard)
        if left:
            self.step("call", 0, self.pointer(_checker(tuple(left), self.parameters)))

    def guard(self, guard: g.Guard) -> None:
        match guard:
            case g.ArrayGuard():
                self.array(guard)
            case g.IdentityGuard():
                self.step("is", self.register(guard.source), self.pointer(guard.object))
            case g.ConstantGuard():
                self.constant(guard)
            case g.TypeGuard():
                self.step("type", self.register(guard.source), self.pointer(guard.type))
            case g.FloatGuard():
                kind = complex if guard.complex_ else float
                if not guard.complex_:
                    self.floats.add(guard.source)
                self.step("type", self.register(guard.source), self.pointer(kind))
            case g.IntGuard():
                self.ints.add(guard.source)
                self.step("int", self.register(guard.source), guard.lo)
            case g.LengthGuard():
                self.step("length", self.register(guard.source), guard.length, self.pointer(guard.type))
            case g.KeysGuard() if all(type(key) is str for key in guard.keys):
                self.step("keys", self.register(guard.source), len(guard.keys), self.pointer(guard.keys))
            case g.PresenceGuard():
                register = self.fetch(guard.source, optional=True)
                self.step("present", register, int(guard.present))
            case g.ShapeGuard():
                leaves = {symbol: self.leaf(source) for symbol, source in guard.symbols}
                relation = guard.relation
                self.relation(relation.kind, self.postfix(relation.lhs, leaves), self.postfix(relation.rhs, leaves))
            case g.CompareGuard():
                self.compare(guard)
            case g.DisjointGuard():
                for other in guard.others:
                    self.step("disjoint", self.register(guard.written), self.register(other))
            case g.SameObjectGuard():
                self.step("same", self.register(guard.first), self.register(guard.second))
            case g.NotSameObjectGuard():
                self.step("differ", self.register(guard.first), self.register(guard.second))
            case _:
                raise NotNative

    def array(self, guard: g.ArrayGuard) -> None:
        dtype = guard.dtype.numpy
        ndim = len(guard.sizes)
        words = [dtype.num, ndim, entry_text.LAYOUTS[guard.layout], int(guard.aligned), int(guard.written)]
        words += [dtype.itemsize, self.pointer(np.memmap), _synonym(dtype)]
        words += [-1 if size is None else size for size in guard.sizes]
        words += [entry_text.AXES[kind] for kind in guard.axes] if guard.layout == "strided" else [0] * ndim
        words += list(guard.order) if len(guard.order) == ndim else list(range(ndim))
        register = self.register(guard.source)
        self.data_at.append(len(self.steps) + 2)
        self.step("array", register, len(self.data))
        self.data += words

    def constant(self, guard: g.ConstantGuard) -> None:
        value = guard.value
        modes = {int: 0, str: 0, bytes: 0, float: 1, complex: 2}
        if value is None or value is Ellipsis or type(value) is bool:
            self.step("is", self.register(guard.source), self.pointer(value))
        elif type(value) in modes:
            self.step("equal", self.register(guard.source), self.pointer(value), modes[type(value)])
        else:
            raise NotNative

    def compare(self, guard: g.CompareGuard) -> None:
        if guard.left in self.floats or guard.right in self.floats:
            self.compare_floats(guard)
            return
        left, right = self.term(guard.left), self.term(guard.right)
        operator = guard.operator if guard.outcome else _OPPOSITE[guard.operator]
        if operator in (">", ">="):
            left, right = right, left
        self.relation(_KINDS[operator], left, right)

    def compare_floats(self, guard: g.CompareGuard) -> None:
        left, right = guard.left, guard.right
        kind = _KINDS[guard.operator]
        if guard.operator in (">", ">="):
            left, right = right, left
        if left not in self.floats:  # a constant on the left: turned round, with the other reading of the order
            if kind not in ("eq", "ne"):
                raise NotNative
            left, right = right, left
        assert isinstance(left, src.Source)  # what `floats` holds
        first = self.register(left)
        if isinstance(right, src.Source) and right in self.floats:
            self.step("float", first, RPN[kind], self.register(right), 0, int(guard.outcome))
        elif type(right) is float or (type(right) is int and abs(right) <= 2**53):
            bits = struct.unpack("<q", struct.pack("<d", float(right)))[0]
            self.step("float", first, RPN[kind], -1, bits, int(guard.outcome))
        else:
            raise NotNative

    def term(self, term: g.Term) -> list[int]:
        """Postfix code of an integer."""
        if isinstance(term, g.SizeTerm):
            return self.postfix(term.size, {symbol: self.leaf(source) for symbol, source in term.symbols})
        if isinstance(term, src.Source) and (_is_size(term) or term in self.ints):
            return self.leaf(term)
        if type(term) is int and -(2**62) <= term <= 2**62:
            return [RPN["const"], term, 0]
        raise NotNative

    def leaf(self, source: src.Source) -> list[int]:
        if _is_size(source):
            assert isinstance(source, src.Item) and isinstance(source.of, src.Attribute)  # what _is_size says
            return [RPN["size"], self.register(source.of.of), source.key]
        return [RPN["int"], self.register(source), 0]

    def postfix(self, size: Size, leaves: dict[Symbol, list[int]]) -> list[int]:
        if not isinstance(size, Expr):
            if not -(2**62) <= size <= 2**62:
                raise NotNative
            return [RPN["const"], size, 0]
        if isinstance(size, Symbol):
            if size not in leaves:
                raise NotNative
            return leaves[size]
        operator = next((name for kind, name in _OPERATORS.items() if isinstance(size, kind)), None)
        if operator is None:
            raise NotNative
        first, *rest = size.args
        code = list(self.postfix(first, leaves))
        for operand in rest:
            code += [*self.postfix(operand, leaves), RPN[operator], 0, 0]
        return code

    def relation(self, kind: str, left: list[int], right: list[int]) -> None:
        code = [*left, *right, RPN[kind], 0, 0]
        if _depth(code) > entry_text.RPN_DEPTH:
            raise NotNative
        self.data_at.append(len(self.steps) + 2)
        self.step("relation", 0, len(self.data), len(code) // entry_text.RPN_WORDS)
        self.data += code

    # ---- inputs, outputs, result ------------------------------------------------------------------------------------

    def inputs(self) -> list[int]:
        return [word for i in self.spec.inputs for word in self.input(i)]

    def input(self, wanted: EntryInput) -> tuple[int, int, int]:
        kinds = entry_text.INPUTS
        if wanted.kind == "array":
            return kinds["array"], self.register(wanted.source), 0
        if wanted.kind == "scalar":
            kind = "extension" if wanted.dtype is bfloat16 else "scalar"
            return kinds[kind], self.register(wanted.source), wanted.dtype.itemsize
        if _is_size(wanted.source):
            _, register, axis = self.leaf(wanted.source)
            return kinds["size"], register, axis
        return kinds["int"], self.register(wanted.source), 0

    def recipe(self) -> tuple[list[int], dict[int, str]]:
        """The postfix code of the result, and the outputs that live in the frame only."""
        before = (len(self.steps), dict(self.registers), self.count)
        code: list[int] = []
        modes: dict[int, str] = {}
        try:
            self._recipe(self.spec.recipe, code, modes, set())
        except NotNative:
            del self.steps[before[0] :]
            self.registers, self.count = before[1], before[2]
            return [entry_text.RECIPES["wrap"], self.pointer(_wrapper(self.spec, self.parameters))], {}
        return code, {k: mode for k, mode in modes.items() if mode == "scalar"}

    def _recipe(self, recipe: Recipe, code: list[int], modes: dict[int, str], seen: set[int]) -> None:
        ops = entry_text.RECIPES
        match recipe:
            case FromOutput(index, kind):
                output = self.spec.outputs[index]
                op = "output" if kind == "array" else "scalar" if kind == "scalar" else _PYTHON.get(output.dtype.name)
                mode = "array" if kind == "array" else "scalar"
                if op is None or (mode == "scalar" and output.ndim) or modes.setdefault(index, mode) != mode:
                    raise NotNative
                code += [ops[op], index]
            case FromInput(source):
                register = self.register(source)
                self.step("hold", register)
                code += [ops["reg"], register]
            case TensorOf(base, None) if id(recipe) not in seen:  # a second place gets the same tensor, in Python
                seen.add(id(recipe))
                self._recipe(base, code, modes, seen)
                code += [ops["call"], self.pointer(dispatch.made)]
            case ConstantResult(value) if not isinstance(value, np.ndarray):
                code += [ops["const"], self.pointer(value)]
            case TupleResult(items) | ListResult(items):
                if id(recipe) in seen:
                    raise NotNative
                seen.add(id(recipe))
                for item in items:
                    self._recipe(item, code, modes, seen)
                code += [ops["list" if isinstance(recipe, ListResult) else "tuple"], len(items)]
                if isinstance(recipe, TupleResult) and recipe.type is not tuple:
                    code += [ops["call"], self.pointer(partial(tuple.__new__, recipe.type))]
            case _:
                raise NotNative

    def outputs(self, in_frame: dict[int, str]) -> list[int]:
        words = []
        for index, output in enumerate(self.spec.outputs):
            dtype = output.dtype.numpy
            forwards, backwards = tuple(range(output.ndim)), tuple(reversed(range(output.ndim)))
            mode = "c" if output.order == forwards else "f" if output.order == backwards else "strided"
            mode = in_frame.get(index, mode)
            words += [self.pointer(dtype), output.ndim, dtype.itemsize, entry_text.OUTPUTS[mode]]
        return words


_OPERATORS = {Add: "add", Mul: "mul", FloorDiv: "floordiv", Mod: "mod", Min: "min", Max: "max"}
_OPPOSITE = {"<": ">=", "<=": ">", "==": "!=", "!=": "==", ">": "<=", ">=": "<"}
_KINDS = {"<": "lt", "<=": "le", "==": "eq", "!=": "ne", ">": "lt", ">=": "le"}
_PYTHON = {"float64": "float", "complex128": "complex", "int64": "integer", "bool": "bool"}
_SYNONYMS = {"q": "l", "l": "q", "Q": "L", "L": "Q"}


def _synonym(dtype: np.dtype[Any]) -> int:
    """The number of the other type of the same meaning (long and long long), or the type's own."""
    other = np.dtype(_SYNONYMS.get(dtype.char, dtype.char)) if dtype.char in _SYNONYMS else dtype
    return other.num if other == dtype else dtype.num


def _is_size(source: src.Source) -> bool:
    return (
        isinstance(source, src.Item)
        and type(source.key) is int
        and source.key >= 0
        and isinstance(source.of, src.Attribute)
        and source.of.name == "shape"
    )


def _depth(code: list[int]) -> int:
    depth = deepest = 0
    for op in code[:: entry_text.RPN_WORDS]:
        depth += 1 if op <= RPN["int"] else -1
        deepest = max(deepest, depth)
    return deepest


def _checker(left: tuple[g.Guard, ...], parameters: Parameters) -> Callable[[tuple[Any, ...]], bool]:
    def check(values: tuple[Any, ...]) -> bool:
        frame = parameters.frame_of(values)
        return all(guard.check(frame) for guard in left)

    return check


def _wrapper(spec: EntrySpec, parameters: Parameters) -> Callable[[tuple[Any, ...], tuple[Any, ...]], Any]:
    def wrap(outputs: tuple[Any, ...], values: tuple[Any, ...]) -> Any:
        frame = parameters.frame_of(values)
        symbols = {symbol: source.fetch(frame) for symbol, source in spec.symbols}
        return rebuild(spec.recipe, outputs, frame, symbols)

    return wrap


def _reporter(spec: EntrySpec) -> Callable[..., None]:
    def report(code: int, site: int, *payload: int) -> None:
        if site == context.NO_PLAN:
            raise python_entry.plan_failure(spec, code)
        raise context.exception(spec.sites, code, site, payload)

    return report


def encode(spec: EntrySpec, parameters: Parameters) -> Table:
    """The table of a specialisation. Raises `NotNative` when it must be served by the Python entry."""
    encoder = _Encoder(spec, parameters)
    encoder.guards()
    inputs = encoder.inputs()
    recipe, in_frame = encoder.recipe()
    outputs = encoder.outputs(in_frame)
    hits = ctypes.c_int64(0)
    counts = {"NREGS": encoder.count, "NINPUTS": len(spec.inputs), "NOUTPUTS": len(spec.outputs)}
    values = counts | _frame(spec, encoder.count, len(recipe)) | {
        "PLAN": spec.library.address(spec.plan),
        "RUN": spec.library.address(spec.run),
        "THREADS": spec.threads,
        "RELEASE": -1 if spec.release_elements is None else spec.release_elements,
        "ON_ERROR": encoder.pointer(_reporter(spec)),
        "HITS": ctypes.addressof(hits),
        "HANDLER": encoder.pointer(results.handler()),
        "GENERIC": encoder.pointer(np.generic),
        "NSTEPS": len(encoder.steps) // entry_text.STEP_WORDS,
        "NRECIPE": len(recipe) // entry_text.RECIPE_WORDS,
    }  # fmt: skip
    parts = {"STEPS": encoder.steps, "INPUTS": inputs, "OUTPUTS": outputs, "RECIPE": recipe}
    at = len(entry_text.TABLE)
    for name, words in parts.items():
        values[name] = at
        at += len(words)
    for position in encoder.data_at:
        encoder.steps[position] += at
    header = [values[name] for name in entry_text.TABLE]
    body = [word for words in parts.values() for word in words]
    native.runtime()
    return Table(array("q", [*header, *body, *encoder.data]).tobytes(), hits, (spec, *encoder.keep))


def _frame(spec: EntrySpec, registers: int, recipe_words: int) -> dict[str, int]:
    """Where the pieces of a call's stack frame lie, in bytes; the first ones begin zeroed."""
    at: dict[str, int] = {}
    end = 0

    def place(name: str, size: int) -> None:
        nonlocal end
        at[name] = end
        end += (size + 15) // 16 * 16

    place("REGS", 8 * registers)
    place("OWNED", 8 * registers)
    place("OBJECTS", 8 * len(spec.outputs))
    place("CTX", abi.CTX_SIZE)
    place("INS", abi.ARRAY_SIZE * len(spec.inputs))
    place("OUTS", abi.ARRAY_SIZE * len(spec.outputs))
    at["ZEROED"] = end
    place("SCRATCH", 16 * (len(spec.inputs) + len(spec.outputs)))
    place("DIMS", 16 * sum(o.ndim for o in spec.outputs))
    place("STACK", 8 * recipe_words)
    at["FRAME"] = end
    if end > FRAME_LIMIT:
        raise NotNative
    return at
