"""Ops of long code as functions of the module, so that one with many of them may have that code once.

What goes in: an emitter of the table, its cell and its operands. What comes out: the value. What holds: how long the
code is, is measured where a module first has the op; short code is in place, long code a function of lanes, which is
inlined where `codegen.outline` does not find too many calls. Literals are part of the function, which makes a division
by one short, but for those of the longest code. Bits and halves are no arguments: the code of these is in place.
"""

from __future__ import annotations

from collections.abc import Sequence

from broadloom.codegen import lane, llvm
from broadloom.codegen.emit.cell import Cell, Emitter, Value
from broadloom.codegen.lane import Lane
from broadloom.codegen.outline import LONG
from broadloom.codegen.types import register_type

SHORT = 8  # instructions up to which code is in place
_IN_PLACE, _NO_LITERALS = "", "."  # in place of a stem
_ARGUMENTS = frozenset(("i8", "i16", "i32", "i64", "float", "double"))


def called(cell: Cell, emitter: Emitter, operands: Sequence[Value]) -> Value:
    """What `emitter` makes of the operands, in place or by a call."""
    literals = [llvm.literal_text(x.v) for x in _leaves(operands)]
    return _called(cell, emitter, operands, literals)


def _leaves(operands: Sequence[Value]) -> list[Lane]:
    return [x for value in operands for x in (value if isinstance(value, tuple) else (value,))]


def _called(cell: Cell, emitter: Emitter, operands: Sequence[Value], literals: list[str | None]) -> Value:
    leaves = _leaves(operands)
    args = [x for x, text in zip(leaves, literals, strict=True) if text is None]
    results = register_type(cell.dtype)
    if not args or not _ARGUMENTS.issuperset((*(x.element for x in args), *results)):
        return emitter(cell, *operands)

    def body(given: list[Lane]) -> list[Lane]:
        left, like = iter(given), given[0]
        whole = iter([next(left) if t is None else _literal(like, x, t) for x, t in zip(leaves, literals, strict=True)])
        made = emitter(cell, *((next(whole), next(whole)) if isinstance(x, tuple) else next(whole) for x in operands))
        return list(made) if isinstance(made, tuple) else [made]

    key = (cell.op, cell.operands, cell.dtype, *map(str, cell.attrs.items()), *literals)
    stem = args[0].b.module.stems.get(key)
    if stem is None:
        stem = _stem(cell, args, results, body, is_special=len(args) < len(leaves))
        args[0].b.module.stems[key] = stem
    if stem == _IN_PLACE:
        return emitter(cell, *operands)
    if stem == _NO_LITERALS:
        return _called(cell, emitter, operands, [None] * len(leaves))
    made = lane.call(stem, args, results, body)
    return (made[0], made[1]) if len(made) == 2 else made[0]


def _literal(like: Lane, model: Lane, text: str) -> Lane:
    return Lane(like.b, llvm.constant(llvm.like(like.type, model.element), text))


def _stem(cell: Cell, args: Sequence[Lane], results: Sequence[str], body: lane.Body, *, is_special: bool) -> str:
    """The name of the function of an op that the module has for the first time, without its lanes; or why there is
    none."""
    module = args[0].b.module
    stem = f"{cell.op}.{len(module.stems)}"
    made = lane.function(module, stem, [x.element for x in args], results, llvm.lanes_of(args[0].type), body)
    count = module.find(made.name[1:]).instructions
    if count > SHORT and not (is_special and count > LONG):
        return stem
    module.discard(made.name[1:])
    return _IN_PLACE if count <= SHORT else _NO_LITERALS
