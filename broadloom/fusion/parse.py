"""The parser of loop programs: what goes in is what `fusion.text` prints, what comes out is an equal `Program`.

What holds: `parse(print_program(p)) == p`; comments (`# ...`) and blank lines are ignored; anything else that is out
of place raises `ParseError` with its line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import field
from typing import Any, get_args

from broadloom.dtypes import BY_NAME, DType
from broadloom.errors import ParseError
from broadloom.fusion.ir import (
    Accumulated,
    Accumulator,
    Body,
    Buffer,
    Compute,
    Extern,
    IndexValue,
    Indirect,
    Instruction,
    Kernel,
    Layout,
    Literalv,
    Load,
    Lookup,
    Loop,
    Masked,
    Program,
    Reduce,
    ReductionKind,
    Region,
    Ring,
    Running,
    Site,
    Stage,
    Store,
    Table,
)
from broadloom.graph.ir import Constant
from broadloom.graph.parse import ValueParser, split
from broadloom.records import dataclass
from broadloom.symbolic import Size, Symbol

_NAME = r'(?:[A-Za-z_][A-Za-z0-9_.]*|"(?:[^"\\]|\\.)*")'
_BRACKET = r"\[[^\[\]]*\]"
_SYMBOL = rf"(\w+): ({_BRACKET})"
_LAYOUT = rf"({_BRACKET}) strides (\(.*?\))(?: offset ({_BRACKET}))?"
_KINDS = "input|output|workspace|constant|local"
_PATTERNS = {
    "program": rf"program ({_NAME})",
    "symbol": rf"symbol {_SYMBOL}",
    "bind": r"bind (\w+) = (size|stride|value) (\d+) (\d+)",
    "buffer": rf"buffer ({_NAME}): (\w+)(\[.*?) ({_KINDS})(?: (\d+))?( unaligned)?(?: = (.*))?",
    "site": rf"site (index|linalg|value|memory) ({_NAME}) (-?\d+)",
    "kernel": rf"kernel ({_NAME})( serial)?(?: origins \((.*?)\))?(?: local \((.*)\))?",
    "ring": rf"ring ({_NAME}) {_SYMBOL} < (.+) step (\d+) ahead (-?\d+) behind (-?\d+)",
    "outer": rf"outer {_SYMBOL} < (.+)",
    "accumulator": rf"accumulator ({_NAME}) (\w+) (\w+) (\w+)",
    "table": rf"table ({_NAME}) {_SYMBOL} (\w+) -> (\w+)",
    "stage": r"stage( sequential)?( border)?",
    "loop": rf"loop {_SYMBOL} < (.+)",
    "extern": rf"extern ({_NAME}) (\w+) \((.*)\) -> \((.*)\) \{{(.*)\}}(?: site (\d+))?",
}
_LINES = {key: re.compile(pattern + r"\Z") for key, pattern in _PATTERNS.items()}
_NUMBERED = re.compile(r"%(\d+) = (.*)\Z")
_INSTRUCTIONS = {
    key: re.compile(pattern + r"\Z")
    for key, pattern in {
        "load": rf"load ({_NAME})({_BRACKET}) (\w+)",
        "store": rf"store ({_NAME})({_BRACKET}) %(\d+)( add)?",
        "literal": r"literal (\w+) ([0-9a-f]*)",
        "index": rf"index ({_BRACKET}) (\w+)",
        "indirect": rf"indirect {_SYMBOL} = %(\d+) < ({_BRACKET}) site (-?\d+)(?: key ({_BRACKET}))?",
        "reduce": rf"reduce ({_NAME}) %(\d+)(?: at %(\d+))?",
        "running": rf"running ({_NAME}) %(\d+) (\w+)",
        "accumulated": rf"accumulated ({_NAME}) (\w+)",
        "lookup": rf"lookup ({_NAME})\[%(\d+)\] (\w+)",
        "masked": r"masked %(\d+) \? %(\d+) : %(\d+) (\w+)",
    }.items()
}
_COMPUTE = re.compile(r"(\w+)\(([^()]*)\) (\w+)(?: \{(.*)\})?\Z")
_CONSTANT = re.compile(rf"(\w+)({_BRACKET}) (?:sha256:(\w+)|data:([0-9a-f]*))\Z")
_REGION = re.compile(rf"({_NAME}){_LAYOUT}\Z")


@dataclass(slots=True)
class _Line:
    number: int
    indent: int
    text: str

    def error(self, what: str) -> ParseError:
        return ParseError(f"program text, line {self.number}: {what}", got=repr(self.text))

    def match(self, key: str) -> tuple[Any, ...]:
        found = _LINES[key].match(self.text)
        if found is None:
            raise self.error(f"malformed '{key}' line")
        return found.groups()

    @property
    def word(self) -> str:
        return self.text.split(" ", 1)[0]


def _name(text: str) -> str:
    return str(json.loads(text)) if text.startswith('"') else text


@dataclass(slots=True)
class _Parser:
    lines: list[_Line]
    at: int = 0
    symbols: dict[str, Symbol] = field(default_factory=dict)

    # -- pieces --

    def peek(self) -> _Line | None:
        return self.lines[self.at] if self.at < len(self.lines) else None

    def take(self, *words: str) -> list[_Line]:
        """The following lines that begin with one of `words`."""
        start = self.at
        while (line := self.peek()) is not None and line.word in words:
            self.at += 1
        return self.lines[start : self.at]

    def values(self) -> ValueParser:
        return ValueParser(self.symbols)

    def size(self, line: _Line, text: str) -> Size:
        bare = text[1:-1] if text.startswith("[") else text
        return self.on(line, self.values().size, bare)  # type: ignore[no-any-return]

    def on(self, line: _Line, read: Callable[[str], Any], text: str) -> Any:
        try:
            return read(text)
        except ParseError as error:
            raise line.error(error.what) from error

    def dtype(self, line: _Line, name: str) -> DType:
        if name not in BY_NAME:
            raise line.error(f"unknown dtype {name!r}")
        return BY_NAME[name]

    def symbol(self, line: _Line, name: str, bounds: str) -> Symbol:
        parts = split(bounds[1:-1])
        if len(parts) != 2:
            raise line.error("expected bounds such as [0, inf]")
        low = self.size(line, parts[0])
        if not isinstance(low, int):
            raise line.error("the lower bound is no constant")
        found = Symbol(name, low, None if parts[1] == "inf" else self.size(line, parts[1]))
        self.symbols[name] = found
        return found

    def layout(self, line: _Line, shape: str, strides: str, offset: str | None) -> Layout:
        sizes = tuple(self.size(line, s) for s in split(shape[1:-1]))
        steps = tuple(self.size(line, s) for s in split(strides[1:-1]))
        return Layout(sizes, steps, 0 if offset is None else self.size(line, offset))

    def loop(self, line: _Line, key: str) -> Loop:
        name, bounds, extent = line.match(key)
        variable = self.symbol(line, name, bounds)
        return Loop(variable, self.size(line, extent))

    # -- program --

    def program(self) -> Program:
        first = self.peek()
        if first is None:
            raise ParseError("program text is empty")
        (name,) = first.match("program")
        self.at = 1
        symbols, bindings, buffers, sites = [], [], [], []
        steps: list[Kernel | Extern] = []
        while (line := self.peek()) is not None:
            self.at += 1
            if line.word == "symbol":
                symbols.append(self.symbol(line, *line.match("symbol")))
            elif line.word == "bind":
                symbol, what, position, axis = line.match("bind")
                if symbol not in self.symbols:
                    raise line.error(f"unknown symbol {symbol}")
                bindings.append((self.symbols[symbol], int(position), what, int(axis)))
            elif line.word == "buffer":
                buffers.append(self.buffer(line))
            elif line.word == "site":
                code, op, axis = line.match("site")
                sites.append(Site(code, _name(op), int(axis)))
            elif line.word == "kernel":
                steps.append(self.kernel(line))
            elif line.word == "extern":
                steps.append(self.extern(line))
            else:
                raise line.error("unexpected line")
        return Program(_name(name), tuple(symbols), tuple(bindings), tuple(buffers), tuple(steps), tuple(sites))

    def buffer(self, line: _Line) -> Buffer:
        name, dtype, layout, kind, position, unaligned, constant = line.match("buffer")
        shape = re.fullmatch(_LAYOUT, layout)
        if shape is None:
            raise line.error("malformed layout")
        value = None
        if constant is not None:
            found = _CONSTANT.match(constant)
            if found is None:
                raise line.error("malformed constant")
            sizes = tuple(int(s) for s in split(found[2][1:-1]))
            data = None if found[4] is None else bytes.fromhex(found[4])
            value = Constant(self.dtype(line, found[1]), sizes, data, found[3])
        return Buffer(
            _name(name),
            self.dtype(line, dtype),
            self.layout(line, *shape.groups()),
            kind,
            -1 if position is None else int(position),
            value,
            unaligned is None,
        )

    def extern(self, line: _Line) -> Extern:
        name, routine, operands, results, attrs, site = line.match("extern")
        given = tuple(self.region(line, r) for r in operands.split("; "))
        made = tuple(self.region(line, r) for r in results.split("; "))
        number = -1 if site is None else int(site)
        prologues: list[Kernel] = []
        while (kernel := self.fused("prologue")) is not None:
            prologues.append(kernel)
        epilogue = self.fused("epilogue")
        given_attrs = self.attributes(line, attrs)
        return Extern(
            _name(name), routine, given, made, given_attrs, number, epilogue=epilogue, prologues=tuple(prologues)
        )

    def fused(self, what: str) -> Kernel | None:
        """The kernel that follows a line `what`, if there is one."""
        if not self.take(what):
            return None
        (head,) = self.take("kernel")
        return self.kernel(head)

    def region(self, line: _Line, text: str) -> Region:
        found = _REGION.match(text)
        if found is None:
            raise line.error("malformed region")
        name, *layout = found.groups()
        return Region(_name(name), self.layout(line, *layout))

    def attributes(self, line: _Line, text: str | None) -> tuple[tuple[str, object], ...]:
        result = []
        for item in split(text or ""):
            key, _, value = item.partition("=")
            result.append((key, self.on(line, self.values().value, value)))
        return tuple(result)

    # -- kernels --

    def kernel(self, line: _Line) -> Kernel:
        name, serial, origins, local = line.match("kernel")
        saved = dict(self.symbols)
        outer = tuple(self.loop(x, "outer") for x in self.take("outer"))
        accumulators = tuple(self.accumulator(x) for x in self.take("accumulator"))
        tables = []
        while (following := self.peek()) is not None and following.word == "table":
            tables.append(self.table(following))
        rings = []
        while (following := self.peek()) is not None and following.word == "ring":
            rings.append(self.ring(following))
        stages = self.stages(line.indent)
        self.symbols = saved
        fused, own = (tuple(_name(o) for o in split(names or "")) for names in (origins, local))
        serially = serial is not None
        return Kernel(_name(name), outer, stages, accumulators, serially, fused, tuple(tables), own, tuple(rings))

    def stages(self, indent: int) -> tuple[Stage, ...]:
        """The stages that are deeper than `indent`."""
        found = []
        while (following := self.peek()) is not None and following.word == "stage" and following.indent > indent:
            self.at += 1
            inside = dict(self.symbols)
            loops = tuple(self.loop(x, "loop") for x in self.take("loop"))
            body = self.body(0)
            sequential, border = following.match("stage")
            found.append(Stage(loops, body, sequential is not None, border is not None))
            self.symbols = inside
        return tuple(found)

    def ring(self, line: _Line) -> Ring:
        self.at += 1
        inside = dict(self.symbols)
        buffer, row, bounds, extent, step, ahead, behind = line.match("ring")
        symbol = self.symbol(line, row, bounds)
        stages = self.stages(line.indent)
        self.symbols = inside
        return Ring(_name(buffer), symbol, self.size(line, extent), int(step), int(ahead), int(behind), stages)

    def table(self, line: _Line) -> Table:
        self.at += 1
        inside = dict(self.symbols)
        name, variable, bounds, key, dtype = line.match("table")
        symbol = self.symbol(line, variable, bounds)
        body = self.body(0)
        self.symbols = inside
        return Table(_name(name), self.dtype(line, key), self.dtype(line, dtype), symbol, body)

    def accumulator(self, line: _Line) -> Accumulator:
        name, kind, dtype, value_dtype = line.match("accumulator")
        if kind not in get_args(ReductionKind):
            raise line.error(f"unknown reduction {kind!r}")
        return Accumulator(_name(name), kind, self.dtype(line, dtype), self.dtype(line, value_dtype))

    def body(self, base: int) -> Body:
        instructions: list[Instruction] = []
        first = self.peek()
        indent = first.indent if first is not None else 0
        while (line := self.peek()) is not None and line.indent == indent:
            found = _NUMBERED.match(line.text)
            if found is None:
                break
            if int(found[1]) != base + len(instructions):
                raise line.error(f"instructions are numbered in order; the next one is %{base + len(instructions)}")
            self.at += 1
            instructions.append(self.instruction(line, found[2], base + len(instructions)))
        return Body(tuple(instructions), base)

    def instruction(self, line: _Line, text: str, number: int) -> Instruction:
        word = text.split(" ", 1)[0]
        pattern = _INSTRUCTIONS.get(word)
        if pattern is None:
            return self.compute(line, text)
        found = pattern.match(text)
        if found is None:
            raise line.error(f"malformed '{word}'")
        g = found.groups()
        match word:
            case "load":
                return Load(_name(g[0]), self.size(line, g[1]), self.dtype(line, g[2]))
            case "store":
                return Store(_name(g[0]), self.size(line, g[1]), int(g[2]), "set" if g[3] is None else "add")
            case "literal":
                return Literalv(self.dtype(line, g[0]), bytes.fromhex(g[1]))
            case "index":
                return IndexValue(self.size(line, g[0]), self.dtype(line, g[1]))
            case "indirect":
                key = 0 if g[5] is None else self.size(line, g[5])
                return Indirect(int(g[2]), self.size(line, g[3]), self.symbol(line, g[0], g[1]), int(g[4]), key)
            case "reduce":
                return Reduce(_name(g[0]), int(g[1]), None if g[2] is None else int(g[2]))
            case "running":
                return Running(_name(g[0]), int(g[1]), self.dtype(line, g[2]))
            case "accumulated":
                return Accumulated(_name(g[0]), self.dtype(line, g[1]))
            case "lookup":
                return Lookup(_name(g[0]), int(g[1]), self.dtype(line, g[2]))
        following = self.peek()
        deeper = following is not None and following.indent > line.indent
        body = self.body(number) if deeper else Body((), number)
        return Masked(int(g[0]), body, int(g[1]), int(g[2]), self.dtype(line, g[3]))

    def compute(self, line: _Line, text: str) -> Compute:
        found = _COMPUTE.match(text)
        if found is None:
            raise line.error("unknown instruction")
        op, args, dtype, attrs = found.groups()
        operands = tuple(int(a[1:]) for a in split(args))
        return Compute(op, operands, self.dtype(line, dtype), self.attributes(line, attrs))


def parse(text: str) -> Program:
    """The program of `text`.

    >>> from broadloom.fusion.text import print_program
    >>> t = '''program f
    ... symbol n: [0, inf]
    ... bind n = size 0 0
    ... buffer x: float32[n] strides (1,) input 0
    ... buffer y: float32[n] strides (1,) output 0
    ... kernel k
    ...   outer i: [0, n - 1] < n
    ...   stage
    ...     %0 = load x[i] float32
    ...     %1 = negative(%0) float32
    ...     %2 = store y[i] %1
    ... '''
    >>> print_program(parse(t)) == t
    True
    """
    lines = []
    for number, raw in enumerate(text.splitlines(), 1):
        bare = raw.split("  # ", 1)[0].rstrip() if "  # " in raw else raw.rstrip()
        if bare.strip() and not bare.strip().startswith("# "):
            lines.append(_Line(number, len(bare) - len(bare.lstrip()), bare.strip()))
    return _Parser(lines).program()
