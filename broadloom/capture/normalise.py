"""Bytecode normalised: the one file that knows how CPython versions differ.

What goes in: a code object of CPython 3.11, 3.12 or 3.13. What comes out: `Instruction`s over one small
vocabulary (the keys of `Evaluator`'s table), the same for every version.

What holds: jump targets are indices into the result; locals, cells and free variables share one index space
(`localsplus`); a call finds on the stack two slots - callable and NULL or self, in either order - below its
arguments; exhausting an iterator pops it; an opcode outside the vocabulary becomes `unsupported`, which is an
error only when it is reached. Exception handlers are left out, as what raises is not captured; `caught` says which
instructions have one.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import CodeType
from typing import Any

from broadloom.records import dataclass


@dataclass(frozen=True, slots=True)
class Instruction:
    """One step. `arg` is an index, a name, a constant or a tuple of these; for jumps (the target's index, more)."""

    op: str
    arg: Any
    line: int


@lru_cache(maxsize=4096)
def _normalised(key: tuple[int, CodeType]) -> tuple[Instruction, ...]:
    return tuple(_Normaliser(key[1]).run())


def normalise(code: CodeType) -> tuple[Instruction, ...]:
    """The instructions of `code`, computed once for each code object.

    >>> def f(x):
    ...     return x + 1
    >>> [i.op for i in normalise(f.__code__)]
    ['load_fast', 'const', 'binary', 'return']
    """
    # Equal code objects of different files differ in nothing that is kept here, but the id keeps lookups exact.
    return _normalised((id(code), code))


@lru_cache(maxsize=4096)
def _caught(key: tuple[int, CodeType]) -> frozenset[int]:
    return _Normaliser(key[1]).caught()


def caught(code: CodeType) -> frozenset[int]:
    """The instructions of `normalise(code)` whose errors an `except` may catch.

    >>> def f(x):
    ...     try:
    ...         return x.shape
    ...     except AttributeError:
    ...         return x + 1
    >>> [normalise(f.__code__)[i].op for i in sorted(caught(f.__code__))][:2]
    ['load_fast', 'load_attr']
    """
    return _caught((id(code), code)) if code.co_exceptiontable else frozenset()


def local_names(code: CodeType) -> tuple[str, ...]:
    """The names of all slots: locals, then cells that are no parameters, then free variables."""
    names: list[str] = []
    while True:
        try:
            names.append(code._varname_from_oparg(len(names)))  # type: ignore[attr-defined]
        except IndexError:
            return tuple(names)


Emitted = tuple[str, Any]

_DROPPED = frozenset({"RESUME", "NOP", "CACHE", "PRECALL", "COPY_FREE_VARS", "EXTENDED_ARG", "POP_BLOCK"})

_PLAIN = {
    "POP_TOP": "pop",
    "PUSH_NULL": "push_null",
    "BINARY_SUBSCR": "subscript",
    "STORE_SUBSCR": "store_subscript",
    "DELETE_SUBSCR": "delete_subscript",
    "LIST_TO_TUPLE": "list_to_tuple",
    "GET_ITER": "get_iter",
    "GET_LEN": "get_len",
    "MATCH_SEQUENCE": "match_sequence",
    "RETURN_VALUE": "return",
    "YIELD_VALUE": "yield",
    "RETURN_GENERATOR": "return_generator",
    "GET_YIELD_FROM_ITER": "get_iter",
    "BEFORE_WITH": "before_with",
    "RAISE_VARARGS": "raise",
    "RERAISE": "raise",
    "LOAD_ASSERTION_ERROR": "load_assertion_error",
    "TO_BOOL": "to_bool",
}
_BY_ARG = {
    "COPY": "copy",
    "SWAP": "swap",
    "LOAD_FAST": "load_fast",
    "LOAD_FAST_CHECK": "load_fast",
    "LOAD_CLOSURE": "load_fast",
    "LOAD_FAST_AND_CLEAR": "load_fast_and_clear",
    "STORE_FAST": "store_fast",
    "STORE_FAST_MAYBE_NULL": "store_fast",
    "DELETE_FAST": "delete_fast",
    "MAKE_CELL": "make_cell",
    "LOAD_DEREF": "load_deref",
    "STORE_DEREF": "store_deref",
    "DELETE_DEREF": "delete_deref",
    "BUILD_TUPLE": "build_tuple",
    "BUILD_LIST": "build_list",
    "BUILD_SET": "build_set",
    "BUILD_MAP": "build_map",
    "BUILD_CONST_KEY_MAP": "build_const_key_map",
    "BUILD_STRING": "build_string",
    "BUILD_SLICE": "build_slice",
    "LIST_EXTEND": "list_extend",
    "LIST_APPEND": "list_append",
    "SET_UPDATE": "set_update",
    "SET_ADD": "set_add",
    "DICT_UPDATE": "dict_update",
    "DICT_MERGE": "dict_merge",
    "MAP_ADD": "map_add",
    "UNPACK_SEQUENCE": "unpack",
    "CALL_KW": "call_kw",
    "CONTAINS_OP": "contains",
    "IS_OP": "is",
    "SET_FUNCTION_ATTRIBUTE": "set_function_attribute",
}
_BY_NAME = {
    "LOAD_CONST": "const",
    "STORE_ATTR": "store_attr",
    "DELETE_ATTR": "delete_attr",
    "STORE_GLOBAL": "store_global",
    "DELETE_GLOBAL": "store_global",
    "IMPORT_NAME": "import_name",
    "IMPORT_FROM": "import_from",
}
_UNARY = {"UNARY_NEGATIVE": "-", "UNARY_POSITIVE": "+", "UNARY_INVERT": "~", "UNARY_NOT": "not"}
_JUMPS = {"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP", "JUMP_NO_INTERRUPT"}
_CONDITIONS = {"IF_TRUE": "true", "IF_FALSE": "false", "IF_NONE": "none", "IF_NOT_NONE": "not_none"}
_INTRINSICS = {5: ("unary", "+"), 6: ("list_to_tuple", None)}
_FUNCTION_ATTRIBUTES = (8, 4, 2, 1)  # in the order in which MAKE_FUNCTION of 3.11 and 3.12 pops them


class _Normaliser:
    """One pass over `dis`, then targets from offsets to indices."""

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.version = sys.version_info[:2]
        self.source = list(dis.get_instructions(code))
        self.keyword_names: tuple[str, ...] = ()

    def run(self) -> Iterator[Instruction]:
        out: list[tuple[str, Any, int]] = []
        index_of: dict[int, int] = {}
        line = self.code.co_firstlineno
        for at, instruction in enumerate(self.source):
            index_of[instruction.offset] = len(out)
            if instruction.positions is not None and instruction.positions.lineno is not None:
                line = instruction.positions.lineno
            if instruction.opname not in _DROPPED:
                out.extend((op, arg, line) for op, arg in self.emit(at, instruction))
        for op, arg, line in out:
            if isinstance(arg, _Target):
                arg = (index_of[arg.offset], arg.more)
            yield Instruction(op, arg, line)

    def caught(self) -> frozenset[int]:
        """The indices of the instructions from whose errors an `except` is reached, also by way of a `with`."""
        bytecode: Any = dis.Bytecode(self.code)
        entries = list(bytecode.exception_entries)
        names = {s.offset: s.opname for s in self.source}

        def catches(offset: int, depth: int = 0) -> bool:
            entry = next((e for e in entries if e.start <= offset < e.end), None)
            if entry is None or depth > len(entries):
                return False
            handler = iter([names[k] for k in sorted(names) if k >= entry.target])
            if next(handler) == "PUSH_EXC_INFO":
                for name in handler:
                    if name in ("CHECK_EXC_MATCH", "CHECK_EG_MATCH", "POP_EXCEPT"):
                        return True
                    if name == "RERAISE":  # `with`, `finally`
                        break
            return catches(entry.target, depth + 1)

        found: set[int] = set()
        count = 0
        for at, instruction in enumerate(self.source):
            if instruction.opname not in _DROPPED:
                made = len(self.emit(at, instruction))
                if catches(instruction.offset):
                    found.update(range(count, count + made))
                count += made
        return frozenset(found)

    def emit(self, at: int, instruction: dis.Instruction) -> list[Emitted]:
        name, arg, value = instruction.opname, instruction.arg, instruction.argval
        if name in _PLAIN:
            return [(_PLAIN[name], arg)]
        if name in _BY_ARG:
            return [(_BY_ARG[name], arg)]
        if name in _BY_NAME:
            return [(_BY_NAME[name], value)]
        if name in _UNARY:
            return [("unary", _UNARY[name])]
        if name in _JUMPS:
            return [("jump", _Target(value))]
        if name.startswith("POP_JUMP_"):
            suffix = name[name.index("IF_") :]
            return [("pop_jump", _Target(value, _CONDITIONS[suffix]))]
        rule = _RULES.get(name)
        return [("unsupported", name)] if rule is None else rule(self, at, instruction)

    def loop_end(self, offset: int) -> int:
        """Where an exhausted FOR_ITER goes on: after END_FOR (and, in 3.13, its POP_TOP)."""
        position = next(i for i, s in enumerate(self.source) if s.offset == offset)
        if self.source[position].opname == "END_FOR":
            position += 2 if self.version >= (3, 13) else 1
        return self.source[position].offset


@dataclass(frozen=True, slots=True)
class _Target:
    offset: int
    more: Any = None


def _binary(n: _Normaliser, at: int, i: dis.Instruction) -> list[Emitted]:
    symbol = i.argrepr
    return [("inplace", symbol[:-1])] if symbol.endswith("=") else [("binary", symbol)]


def _compare(n: _Normaliser, at: int, i: dis.Instruction) -> list[Emitted]:
    steps: list[Emitted] = [("compare", i.argval)]
    if n.version >= (3, 13) and i.arg is not None and i.arg & 16:
        steps.append(("to_bool", None))
    return steps


def _load_global(n: _Normaliser, at: int, i: dis.Instruction) -> list[Emitted]:
    load: Emitted = ("load_global", i.argval)
    assert i.arg is not None
    if not i.arg & 1:
        return [load]
    return [load, ("push_null", None)] if n.version >= (3, 13) else [("push_null", None), load]


def _load_attr(n: _Normaliser, at: int, i: dis.Instruction) -> list[Emitted]:
    assert i.arg is not None
    as_method = n.version >= (3, 12) and i.arg & 1
    return [("load_attr", i.argval), *([("push_null", None)] if as_method else [])]


def _load_method(n: _Normaliser, at: int, i: dis.Instruction) -> list[Emitted]:
    return [("load_attr", i.argval), ("push_null", None)]


def _load_super_attr(n: _Normaliser, at: int, i: dis.Instruction) -> list[Emitted]:
    assert i.arg is not None
    return [("load_super_attr", n.code.co_names[i.arg >> 2]), *([("push_null", None)] if i.arg & 1 else [])]


def _pairs(first: str, second: str) -> Callable[[_Normaliser, int, dis.Instruction], list[Emitted]]:
    def rule(n: _Normaliser, at: int, i: dis.Instruction) -> list[Emitted]:
        assert i.arg is not None
        return [(first, i.arg >> 4), (second, i.arg & 15)]

    return rule


def _keyword_names(n: _Normaliser, at: int, i: dis.Instruction) -> list[Emitted]:
    assert i.arg is not None
    n.keyword_names = n.code.co_consts[i.arg]
    return []


def _call(n: _Normaliser, at: int, i: dis.Instruction) -> list[Emitted]:
    names, n.keyword_names = n.keyword_names, ()
    return [("call", (i.arg, names))]


def _call_ex(n: _Normaliser, at: int, i: dis.Instruction) -> list[Emitted]:
    assert i.arg is not None
    return [("call_ex", bool(i.arg & 1))]


def _make_function(n: _Normaliser, at: int, i: dis.Instruction) -> list[Emitted]:
    flags = (i.arg or 0) if n.version < (3, 13) else 0
    return [("make_function", None), *(("set_function_attribute", f) for f in _FUNCTION_ATTRIBUTES if flags & f)]


def _for_iter(n: _Normaliser, at: int, i: dis.Instruction) -> list[Emitted]:
    return [("for_iter", _Target(n.loop_end(i.argval)))]


def _send(n: _Normaliser, at: int, i: dis.Instruction) -> list[Emitted]:
    """3.11 drops the receiver when it is exhausted, later versions leave that to END_SEND."""
    return [("send", _Target(i.argval, n.version < (3, 12)))]


def _format_value(n: _Normaliser, at: int, i: dis.Instruction) -> list[Emitted]:
    assert i.arg is not None
    conversion: list[Emitted] = [("convert", i.arg & 3)] if i.arg & 3 else []
    if i.arg & 4:  # the format specification lies above the value
        return [("swap", 2), *conversion, ("swap", 2), ("format", True)]
    return [*conversion, ("format", False)]


def _intrinsic(n: _Normaliser, at: int, i: dis.Instruction) -> list[Emitted]:
    assert i.arg is not None
    return [_INTRINSICS.get(i.arg, ("unsupported", f"CALL_INTRINSIC_1 {i.argrepr}"))]


def _fixed(*steps: Emitted) -> Callable[[_Normaliser, int, dis.Instruction], list[Emitted]]:
    return lambda n, at, i: list(steps)


def _jump_or_pop(condition: str) -> Callable[[_Normaliser, int, dis.Instruction], list[Emitted]]:
    return lambda n, at, i: [("copy", 1), ("pop_jump", _Target(i.argval, condition)), ("pop", None)]


_RULES: dict[str, Callable[[_Normaliser, int, dis.Instruction], list[Emitted]]] = {
    "BINARY_OP": _binary,
    "COMPARE_OP": _compare,
    "LOAD_GLOBAL": _load_global,
    "LOAD_ATTR": _load_attr,
    "LOAD_METHOD": _load_method,
    "LOAD_SUPER_ATTR": _load_super_attr,
    "LOAD_FAST_LOAD_FAST": _pairs("load_fast", "load_fast"),
    "STORE_FAST_LOAD_FAST": _pairs("store_fast", "load_fast"),
    "STORE_FAST_STORE_FAST": _pairs("store_fast", "store_fast"),
    "KW_NAMES": _keyword_names,
    "CALL": _call,
    "CALL_FUNCTION_EX": _call_ex,
    "MAKE_FUNCTION": _make_function,
    "FOR_ITER": _for_iter,
    "SEND": _send,
    "END_SEND": _fixed(("swap", 2), ("pop", None)),
    "FORMAT_VALUE": _format_value,
    "FORMAT_SIMPLE": _fixed(("format", False)),
    "FORMAT_WITH_SPEC": _fixed(("format", True)),
    "CONVERT_VALUE": lambda n, at, i: [("convert", i.arg)],
    "CALL_INTRINSIC_1": _intrinsic,
    "BINARY_SLICE": _fixed(("build_slice", 2), ("subscript", None)),
    "STORE_SLICE": _fixed(("build_slice", 2), ("store_subscript", None)),
    "RETURN_CONST": lambda n, at, i: [("const", i.argval), ("return", None)],
    "UNPACK_EX": lambda n, at, i: [("unpack_ex", ((i.arg or 0) & 255, (i.arg or 0) >> 8))],
    "JUMP_IF_TRUE_OR_POP": _jump_or_pop("true"),
    "JUMP_IF_FALSE_OR_POP": _jump_or_pop("false"),
}
