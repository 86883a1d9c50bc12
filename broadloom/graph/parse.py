"""The parser of graph text: what goes in is what `graph.text` prints, what comes out is an equal `Graph`.

What holds: `parse(str(g)) == g`; comments (`# ...`) and extra blanks are ignored; anything else that is out of place
raises `ParseError` with the line. Types are taken as written: `graph.verify` compares them with what the ops infer.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from broadloom.dtypes import BY_NAME, DType
from broadloom.errors import ParseError
from broadloom.graph.ir import Constant, Graph, Input, Node, Output, TensorType, ValueId, Write
from broadloom.ops.record import Op
from broadloom.ops.table import OPS
from broadloom.symbolic import Relation, Size, Symbol, eq, le, lt, ne
from broadloom.symbolic import parse as parse_size

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_FLOAT = re.compile(r"-?(inf|nan|\d+\.\d*(e[+-]?\d+)?|\d+e[+-]?\d+)\Z")
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
RELATIONS = {"==": eq, "!=": ne, "<=": le, "<": lt}
_CLOSING = {"(": ")", "[": "]", "{": "}"}


def parse(
    text: str, *, constants: Mapping[str, np.ndarray] | None = None, ops: Mapping[str, Op] | None = None
) -> Graph:
    """The graph of `text`. `constants` is the table of the arrays that the text names by hash.

    >>> g = parse('''
    ... graph f (n: [0, inf]) {
    ...   %0 = input x: float32[n] strides (1,)
    ...   %1 = negative(%0) : float32[n]  # model.py:3 in f
    ...   return %1 order (0,)
    ... }''')
    >>> parse(str(g)) == g
    True
    """
    return _GraphParser(text, OPS if ops is None else ops).graph(dict(constants or {}))


class _Cursor:
    """A position in one line."""

    def __init__(self, text: str, line: int) -> None:
        self.text, self.line, self.at = text, line, 0

    def error(self, what: str) -> ParseError:
        return ParseError(f"graph text, line {self.line}: {what}", got=repr(self.text.strip()))

    def blanks(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    @property
    def ended(self) -> bool:
        self.blanks()
        return self.at >= len(self.text)

    def accept(self, token: str) -> bool:
        self.blanks()
        if not self.text.startswith(token, self.at):
            return False
        self.at += len(token)
        return True

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise self.error(f"expected {token!r} at column {self.at + 1}")

    def match(self, pattern: re.Pattern[str], what: str) -> str:
        self.blanks()
        found = pattern.match(self.text, self.at)
        if found is None:
            raise self.error(f"expected {what} at column {self.at + 1}")
        self.at = found.end()
        return found.group()

    def name(self) -> str:
        self.blanks()
        if self.text.startswith('"', self.at):
            try:
                value, length = json.JSONDecoder().raw_decode(self.text[self.at :])
            except ValueError as error:
                raise self.error("malformed string") from error
            self.at += length
            return str(value)
        return self.match(_NAME, "a name")

    def value_id(self) -> ValueId:
        self.expect("%")
        return ValueId(int(self.match(re.compile(r"\d+"), "a value number")))

    def inside(self, opening: str) -> list[str]:
        """The comma-separated items of a bracketed list."""
        self.expect(opening)
        start, end = self.at, _closing(self.text, self.at - 1)
        if end is None:
            raise self.error(f"{opening!r} is not closed")
        self.at = end + 1
        return split(self.text[start:end])

    def finish(self) -> None:
        if not self.ended:
            raise self.error(f"unexpected text at column {self.at + 1}")


def _skip_string(text: str, at: int) -> int:
    """The position behind the string that starts at `at`."""
    quote, at = text[at], at + 1
    while at < len(text) and text[at] != quote:
        at += 2 if text[at] == "\\" else 1
    return at + 1


def _closing(text: str, at: int) -> int | None:
    """The position of the bracket that closes the one at `at`."""
    stack: list[str] = []
    while at < len(text):
        c = text[at]
        if c in "'\"":
            at = _skip_string(text, at)
            continue
        if c in _CLOSING:
            stack.append(_CLOSING[c])
        elif c in ")]}":
            if not stack or stack.pop() != c:
                return None
            if not stack:
                return at
        at += 1
    return None


def split(text: str) -> list[str]:
    """Splits at the commas outside of brackets and strings; a trailing comma adds no item.

    >>> split("a, (b, c), min(d, e)"), split("a,"), split(" ")
    (['a', '(b, c)', 'min(d, e)'], ['a'], [])
    """
    items: list[str] = []
    start = at = 0
    while at < len(text):
        c = text[at]
        if c in "'\"":
            at = _skip_string(text, at)
            continue
        if c in _CLOSING:
            end = _closing(text, at)
            at = len(text) if end is None else end + 1
            continue
        if c == ",":
            items.append(text[start:at].strip())
            start = at + 1
        at += 1
    last = text[start:].strip()
    return [*items, last] if last else items


def _without_comment(line: str) -> str:
    at = 0
    while at < len(line):
        if line[at] in "'\"":
            at = _skip_string(line, at)
            continue
        if line[at] == "#":
            return line[:at]
        at += 1
    return line


class ValueParser:
    """Parses attribute values over a set of symbols; the inverse of `text.format_value`."""

    def __init__(self, symbols: dict[str, Symbol]) -> None:
        self.symbols = symbols

    def size(self, text: str) -> Size:
        return parse_size(text, self.symbols)

    def value(self, text: str) -> Any:
        if text in ("None", "True", "False"):
            return {"None": None, "True": True, "False": False}[text]
        if text in BY_NAME:
            return BY_NAME[text]
        if _FLOAT.match(text):
            return float(text)
        if text.startswith("'"):
            return self._string(text)
        if text.startswith("(") and _closing(text, 0) == len(text) - 1:
            items = split(text[1:-1])
            if len(items) != 1 or text[1:-1].rstrip().endswith(","):
                return tuple(map(self.value, items))
        return self.size(text)

    def _string(self, text: str) -> str:
        if _skip_string(text, 0) != len(text):
            raise ParseError("malformed string", got=text)
        body = re.sub(r"\\'|\"", lambda m: "'" if m.group() == "\\'" else '\\"', text[1:-1])
        try:
            return str(json.loads(f'"{body}"'))
        except ValueError as error:
            raise ParseError("malformed string", got=text) from error


class _GraphParser:
    def __init__(self, text: str, ops: Mapping[str, Op]) -> None:
        lines = [(_without_comment(raw), k) for k, raw in enumerate(text.splitlines(), 1)]
        self.lines = [_Cursor(line, k) for line, k in lines if line.strip()]
        self.ops = ops
        self.symbols: dict[str, Symbol] = {}
        self.values = ValueParser(self.symbols)
        self.facts: list[Relation] = []
        self.inputs: list[Input] = []
        self.nodes: list[Node] = []
        self.outputs: list[Output] = []
        self.writes: list[Write] = []
        self.count = 0

    def graph(self, constants: dict[str, np.ndarray]) -> Graph:
        if len(self.lines) < 2:
            raise ParseError("graph text: expected 'graph NAME {' ... '}'", got=f"{len(self.lines)} lines")
        name = self._header(self.lines[0])
        returned = False
        for cursor in self.lines[1:-1]:
            if returned:
                self._write(cursor)
            elif cursor.accept("return"):
                self._return(cursor)
                returned = True
            elif cursor.accept("assume"):
                self.facts.append(self._on(cursor, self._relation, cursor.text[cursor.at :].strip()))
                cursor.at = len(cursor.text)
            else:
                self._definition(cursor)
            cursor.finish()
        self.lines[-1].expect("}")
        self.lines[-1].finish()
        if not returned:
            raise self.lines[-1].error("the graph has no 'return'")
        return Graph(
            name,
            tuple(self.symbols.values()),
            tuple(self.inputs),
            tuple(self.nodes),
            tuple(self.outputs),
            tuple(self.writes),
            constants,
            tuple(self.facts),
        )

    def _on(self, cursor: _Cursor, read: Callable[[str], Any], text: str) -> Any:
        """Reads an item; an error names the line."""
        try:
            return read(text)
        except ParseError as error:
            raise cursor.error(error.what) from error

    def _relation(self, text: str) -> Relation:
        for symbol, make in RELATIONS.items():
            parts = text.split(f" {symbol} ")
            if len(parts) == 2:
                relation = make(self.values.size(parts[0]), self.values.size(parts[1]))
                if not isinstance(relation, bool):
                    return relation
        raise ParseError("expected an undecided relation such as 's0 == s1'")

    def _header(self, cursor: _Cursor) -> str:
        cursor.expect("graph")
        name = cursor.name()
        cursor.blanks()
        if cursor.text.startswith("(", cursor.at):
            for item in cursor.inside("("):
                part = _Cursor(item, cursor.line)
                symbol = part.name()
                part.expect(":")
                bounds = part.inside("[")
                part.finish()
                if len(bounds) != 2 or symbol in self.symbols:
                    raise cursor.error("expected symbols such as 's0: [0, inf]', each once")
                low = self._on(cursor, self.values.size, bounds[0])
                high = None if bounds[1] == "inf" else self._on(cursor, self.values.size, bounds[1])
                if not isinstance(low, int):
                    raise cursor.error(f"the lower bound of {symbol} is no constant")
                self.symbols[symbol] = Symbol(symbol, low, high)
        cursor.expect("{")
        cursor.finish()
        return name

    def _type(self, cursor: _Cursor) -> TensorType:
        name = cursor.match(_NAME, "a dtype")
        if name not in BY_NAME:
            raise cursor.error(f"unknown dtype {name!r}")
        shape = tuple(self._on(cursor, self.values.size, item) for item in cursor.inside("["))
        return TensorType(BY_NAME[name], shape)

    def _tuple(self, cursor: _Cursor) -> tuple[Any, ...]:
        return tuple(self._on(cursor, self.values.value, item) for item in cursor.inside("("))

    def _definition(self, cursor: _Cursor) -> None:
        ids = [cursor.value_id()]
        while cursor.accept(","):
            ids.append(cursor.value_id())
        cursor.expect("=")
        if ids != list(range(self.count, self.count + len(ids))):
            raise cursor.error(f"values are numbered in order; the next one is %{self.count}")
        self.count += len(ids)
        word = cursor.match(_NAME, "'input', 'scalar', 'size', 'constant' or an op")
        kinds: dict[str, Literal["array", "scalar", "size"]] = {"input": "array", "scalar": "scalar", "size": "size"}
        if word in kinds and not cursor.accept("("):
            if self.nodes:
                raise cursor.error("inputs stand before all nodes")
            self.inputs.append(self._input(cursor, kinds[word]))
        elif word == "constant" and not cursor.accept("("):
            self.nodes.append(self._constant(cursor))
        else:
            cursor.at -= cursor.text[cursor.at - 1] == "("
            self.nodes.append(self._call(cursor, word))
            if len(self.nodes[-1].types) != len(ids):
                raise cursor.error("the line names another number of values than of types")

    def _input(self, cursor: _Cursor, kind: Literal["array", "scalar", "size"]) -> Input:
        name = cursor.name()
        cursor.expect(":")
        type = self._type(cursor)
        symbol: Symbol | None = None
        strides: tuple[Size, ...] = ()
        order = tuple(range(type.ndim))
        if kind == "size":
            cursor.expect("=")
            size = self._on(cursor, self.values.size, cursor.text[cursor.at :].strip())
            cursor.at = len(cursor.text)
            if not isinstance(size, Symbol):
                raise cursor.error("a size input binds one symbol")
            symbol = size
        elif kind == "array":
            cursor.expect("strides")
            strides = self._tuple(cursor)
            if cursor.accept("order"):
                order = self._tuple(cursor)
        return Input(name, type, strides, order, kind, symbol, not cursor.accept("unaligned"))

    def _constant(self, cursor: _Cursor) -> Node:
        type = self._type(cursor)
        shape = tuple(n for n in type.shape if isinstance(n, int))
        if len(shape) != type.ndim:
            raise cursor.error("a constant has a constant shape")
        if cursor.accept("sha256:"):
            literal = Constant(type.dtype, shape, None, cursor.match(re.compile(r"[0-9a-f]{64}"), "64 hex digits"))
        else:
            elements = split(cursor.text[cursor.at :])
            data = b"".join(self._on(cursor, lambda e: _element_bytes(e, type.dtype), e) for e in elements)
            cursor.at = len(cursor.text)
            if len(elements) != math.prod(shape):
                raise cursor.error(f"the constant has {math.prod(shape)} elements, {len(elements)} are written")
            literal = Constant(type.dtype, shape, data)
        return Node(literal, (), (), (type,))

    def _call(self, cursor: _Cursor, name: str) -> Node:
        op = self.ops.get(name)
        if op is None:
            raise cursor.error(f"no op named {name!r}")
        operands = tuple(_Cursor(item, cursor.line).value_id() for item in cursor.inside("("))
        attrs: list[tuple[str, Any]] = []
        cursor.blanks()
        if cursor.text.startswith("{", cursor.at):
            for item in cursor.inside("{"):
                key, equals, value = item.partition("=")
                if not equals:
                    raise cursor.error("expected attributes such as 'axes=(-1,)'")
                attrs.append((key.strip(), self._on(cursor, self.values.value, value.strip())))
        cursor.expect(":")
        types = [self._type(cursor)]
        while cursor.accept(","):
            types.append(self._type(cursor))
        return Node(op, operands, tuple(attrs), tuple(types))

    def _return(self, cursor: _Cursor) -> None:
        while not cursor.ended:
            value = cursor.value_id()
            cursor.expect("order")
            self.outputs.append(Output(value, self._tuple(cursor)))
            if not cursor.accept(","):
                return

    def _write(self, cursor: _Cursor) -> None:
        cursor.expect("write")
        name = cursor.name()
        cursor.expect("=")
        numbers = [k for k, i in enumerate(self.inputs) if i.name == name]
        if not numbers:
            raise cursor.error(f"no input named {name!r}")
        self.writes.append(Write(numbers[0], cursor.value_id()))


def _element_bytes(text: str, dtype: DType) -> bytes:
    """The bytes of one element of a constant; the inverse of the printer's form."""
    if dtype.kind == "c":
        parts = split(text[1:-1]) if text.startswith("(") else []
        if len(parts) != 2:
            raise ParseError(f"expected '(real, imaginary)', got {text!r}")
        return _element_bytes(parts[0], dtype.real) + _element_bytes(parts[1], dtype.real)
    try:
        if dtype.kind == "b":
            return bytes([{"False": 0, "True": 1}[text] if text in ("False", "True") else int(text, 16)])
        if dtype.is_integer:
            return np.array(int(text), dtype=dtype.numpy).tobytes()
        if text.startswith("nan:"):
            return np.array(int(text[4:], 16), dtype=_BITS[dtype.itemsize]).tobytes()
        return np.array(float(text)).astype(dtype.numpy).tobytes()
    except (ValueError, OverflowError) as error:
        raise ParseError(f"{text!r} is no {dtype}") from error
