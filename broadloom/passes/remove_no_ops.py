"""Removes calls that give their operand back, and joins chains of views into one.

What holds: every rule is exact to the bit under IEEE and NumPy (x + 0.0 is not there, because -0.0 + 0.0 is 0.0; a
signalling nan may stay one), a call is replaced only by a value of the same type, and outputs keep their orders.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from broadloom import dtypes
from broadloom.dtypes import DType
from broadloom.graph.builder import GraphBuilder, constant_array
from broadloom.graph.ir import Constant, Graph, Node, ValueId
from broadloom.graph.manager import PassContext
from broadloom.graph.rewrite import rewrite
from broadloom.ops.record import Op
from broadloom.ops.table import OPS
from broadloom.records import dataclass
from broadloom.symbolic import Relation, Size, eq, product


@dataclass(frozen=True, slots=True)
class RemoveNoOps:
    """The operand for the call where they are equal, one view for a chain of views."""

    name: ClassVar[str] = "remove-no-ops"

    def run(self, graph: Graph, context: PassContext) -> Graph:
        made: dict[ValueId, _Made] = {}
        stay = _updates_that_stay(graph)

        def rule(b: GraphBuilder, node: Node, operands: tuple[ValueId, ...]) -> tuple[ValueId, ...] | None:
            replaced = _Call(b, made, graph.constants, stay, node, operands).simplified()
            if replaced is not None:
                return (replaced,)
            made[ValueId(b.count)] = _Made(node.op, operands, node.attributes)
            return None

        return rewrite(graph, rule)


@dataclass(frozen=True, slots=True)
class _Made:
    """How a value of the new graph is made."""

    op: Op | Constant
    operands: tuple[ValueId, ...]
    attrs: dict[str, Any]

    @property
    def x(self) -> ValueId:
        return self.operands[0]


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that may turn out to be unnecessary, and how its operands are made."""

    builder: GraphBuilder
    made: dict[ValueId, _Made]
    constants: Mapping[str, np.ndarray]
    stay: frozenset[ValueId]
    node: Node
    operands: tuple[ValueId, ...]

    @property
    def op(self) -> str:
        return self.node.op.name if isinstance(self.node.op, Op) else "constant"

    @property
    def attrs(self) -> dict[str, Any]:
        return self.node.attributes

    @property
    def x(self) -> ValueId:
        return self.operands[0]

    def dtype(self, value: ValueId) -> DType:
        return self.builder.type_of(value).dtype

    def shape(self, value: ValueId) -> tuple[Size, ...]:
        return self.builder.type_of(value).shape

    def simplified(self) -> ValueId | None:
        """The value that replaces the call, of the same type, or None."""
        for rule in RULES.get(self.op, ()):
            value = rule(self)
            if value is not None and self.builder.type_of(value) == self.node.types[0]:
                return value
        return None

    def inner(self, op: str) -> _Made | None:
        """How the first operand is made, if by this op."""
        found = self.made.get(self.x)
        return found if found is not None and isinstance(found.op, Op) and found.op.name == op else None

    def join(self, op: str, operand: ValueId, **attrs: Any) -> ValueId:
        """One call in place of two; none at all if that gives its operand back."""
        before = self.builder.type_of(operand)
        if self.builder.infer(OPS[op], (before,), attrs) == (before,) and _keeps(op, attrs):
            return operand
        value = self.builder.call_tuple(op, operand, **attrs)[0]
        self.made[value] = _Made(OPS[op], (operand,), attrs)
        return value

    def is_uniform(self, value: ValueId, number: float) -> bool:
        """Whether every element of `value` is this constant, to the bit."""
        found = self.made.get(value)
        if found is None or not isinstance(found.op, Constant):
            return False
        array = constant_array(found.op, self.constants)
        wanted = np.asarray(number).astype(array.dtype).tobytes()
        return array.size > 0 and array.tobytes() == wanted * array.size


Rule = Callable[[_Call], ValueId | None]


def _keeps(op: str, attrs: Mapping[str, Any]) -> bool:
    """Whether a view or cast whose operand and result have one type changes nothing."""
    match op:
        case "permute":
            return bool(attrs["axes"] == tuple(range(-len(attrs["axes"]), 0)))
        case "slice":
            return all(s == 0 for s in attrs["starts"]) and all(s == 1 for s in attrs["steps"])
        case "flip":
            return not attrs["axes"]
        case _:  # reshape, expand, casts: the types say it all
            return True


def _nothing(c: _Call) -> ValueId | None:
    return c.x if c.builder.type_of(c.x) == c.node.types[0] and _keeps(c.op, c.attrs) else None


# ---- chains of views ------------------------------------------------------------------------------------------------


def _permute_permute(c: _Call) -> ValueId | None:
    inner = c.inner("permute")
    if inner is None:
        return None
    rank = max(len(inner.attrs["axes"]), len(c.attrs["axes"]))
    first, second = (_widened(axes, rank) for axes in (inner.attrs["axes"], c.attrs["axes"]))
    return c.join("permute", inner.x, axes=tuple(first[axis] for axis in second))


def _widened(axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    return (*range(-rank, -len(axes)), *axes)


def _reshape_reshape(c: _Call) -> ValueId | None:
    inner = c.inner("reshape")
    if inner is None:
        return None
    made, core, shape = inner.attrs["shape"], c.attrs["core"], c.attrs["shape"]
    if core >= len(made):
        core = core - len(made) + inner.attrs["core"]
    else:
        core, shape = inner.attrs["core"], (*made[: len(made) - core], *shape)
    before = c.shape(inner.x)
    same = eq(product(before[len(before) - core :]), product(shape))
    if isinstance(same, Relation):  # follows from what the two calls rest on, though not always by proof
        c.builder.assume(same)
    return c.join("reshape", inner.x, core=core, shape=shape)


def _slice_slice(c: _Call) -> ValueId | None:
    inner = c.inner("slice")
    if inner is None:
        return None
    rank = max(len(inner.attrs["starts"]), len(c.attrs["starts"]))
    first = _full_slice(inner.attrs, c.shape(inner.x), rank)
    second = _full_slice(c.attrs, c.shape(c.x), rank)
    pairs = list(zip(first, second, strict=True))
    return c.join(
        "slice",
        inner.x,
        starts=tuple(start + more * step for (start, _, step), (more, _, _) in pairs),
        sizes=tuple(size for _, (_, size, _) in pairs),
        steps=tuple(step * more for (_, _, step), (_, _, more) in pairs),
    )


def _full_slice(attrs: Mapping[str, Any], shape: tuple[Size, ...], rank: int) -> list[tuple[Size, Size, Size]]:
    """(start, size, step) of the last `rank` axes; axes before the slice's core are taken whole."""
    given = list(zip(attrs["starts"], attrs["sizes"], attrs["steps"], strict=True))
    missing = rank - len(given)
    whole: list[tuple[Size, Size, Size]] = [(0, n, 1) for n in shape[len(shape) - rank :][:missing]]
    return whole + given


def _flip_flip(c: _Call) -> ValueId | None:
    inner = c.inner("flip")
    if inner is None:
        return None
    return c.join("flip", inner.x, axes=tuple(sorted(set(inner.attrs["axes"]) ^ set(c.attrs["axes"]))))


def _expand_expand(c: _Call) -> ValueId | None:
    inner, shape = c.inner("expand"), c.attrs["shape"]
    if inner is None or len(shape) < len(c.shape(c.x)):
        return None
    before = c.shape(inner.x)
    if any(n not in (1, m) for n, m in zip(before, shape[len(shape) - len(before) :], strict=True)):
        return None  # equal by a fact, perhaps, but not to the eye
    return c.join("expand", inner.x, shape=shape)


# ---- casts and reinterpretations ------------------------------------------------------------------------------------


def holds_exactly(narrow: DType, wide: DType) -> bool:
    """Whether every value of `narrow` is a value of `wide`, so that a cast there and back changes nothing.

    >>> holds_exactly(dtypes.int32, dtypes.float64), holds_exactly(dtypes.int64, dtypes.float64)
    (True, False)
    """
    if narrow is wide or narrow is dtypes.bool_:
        return True
    if narrow.is_integer and wide.is_integer:
        room = wide.bits - (wide.kind == "i" and narrow.kind == "u")
        return narrow.bits <= room and not (narrow.kind == "i" and wide.kind == "u")
    if narrow.is_integer and wide.is_inexact:
        return narrow.bits - (narrow.kind == "i") <= _PRECISION[wide.real]
    if narrow.is_inexact and wide.is_inexact and not (narrow.kind == "c" and wide.kind != "c"):
        a, b = narrow.real, wide.real
        return a is b or (_PRECISION[a] < _PRECISION[b] and (a, b) != (dtypes.bfloat16, dtypes.float16))
    return False


_PRECISION = {dtypes.float16: 11, dtypes.bfloat16: 8, dtypes.float32: 24, dtypes.float64: 53}


def _cast_cast(c: _Call) -> ValueId | None:
    """A cast to a wider dtype on the way changes nothing; complex parts and out-of-range integers are left alone."""
    inner = c.inner("cast")
    if inner is None:
        return None
    source, through, target = c.dtype(inner.x), c.dtype(c.x), c.attrs["dtype"]
    if not holds_exactly(source, through) or "c" in (source.kind, through.kind, target.kind):
        return None
    if target.is_integer and source.is_integer != through.is_integer:
        return None  # integer to integer wraps, float to integer does not
    return c.join("cast", inner.x, dtype=target)


def _reinterpret_twice(c: _Call) -> ValueId | None:
    inner = c.inner(c.op)
    if inner is None or dtypes.bool_ in (c.dtype(inner.x), c.dtype(c.x), c.attrs["dtype"]):
        return None  # bytes do not survive bool
    if c.op == "view_dtype" and c.attrs["dtype"] is not c.dtype(inner.x):
        return None  # the size of the last axis may not divide on the direct way
    return c.join(c.op, inner.x, dtype=c.attrs["dtype"])


# ---- writes and reads -----------------------------------------------------------------------------------------------


def _one_to_one(attrs: Mapping[str, Any]) -> bool:
    return all(isinstance(step, int) and step != 0 for step in attrs["steps"])


def _updates_that_stay(graph: Graph) -> frozenset[ValueId]:
    """Updated arrays that are needed as they are, and hold the only copy of what was written into them: reading that
    back from the array costs nothing, while a second use of the value would give it memory of its own."""
    uses: dict[ValueId, list[Node | None]] = {
        v: [None] for v in (*(o.value for o in graph.outputs), *(w.value for w in graph.writes))
    }
    for node in graph.nodes:
        for i in node.inputs:
            uses.setdefault(i, []).append(node)
    found: set[ValueId] = set()
    value = len(graph.inputs)
    for node in graph.nodes:
        if isinstance(node.op, Op) and node.op.name == "slice_update":
            others = (n for n in uses.get(ValueId(value), ()) if n is None or not _reads_back(n, node))
            written = node.inputs[1]
            alone = written >= len(graph.inputs) and len(uses[written]) == 1  # an input has memory already
            scalar = all(n == 1 for n in node.attributes["sizes"])
            if alone and not scalar and any(True for _ in others):
                found.add(ValueId(value))
        value += len(node.types)
    return frozenset(found)


def _reads_back(node: Node, update: Node) -> bool:
    return isinstance(node.op, Op) and node.op.name == "slice" and node.attributes == update.attributes


def _read_what_was_written(c: _Call) -> ValueId | None:
    if c.node.inputs[0] in c.stay:
        return None
    inner = c.inner("slice_update")
    if inner is None or inner.attrs != c.attrs or not _one_to_one(c.attrs):
        return None
    return inner.operands[1]


def _update_of_everything(c: _Call) -> ValueId | None:
    """Writing a whole array gives the value, writing nothing the array, for all loop points of the two."""
    whole = c.attrs["sizes"] == c.shape(c.x)[len(c.shape(c.x)) - len(c.attrs["sizes"]) :]
    if 0 in c.attrs["sizes"]:
        left = c.x
    elif whole and _keeps("slice", c.attrs):
        left = c.operands[1]
    else:
        return None
    return c.join("expand", left, shape=c.node.types[0].shape)


def _update_again(c: _Call) -> ValueId | None:
    """The first of two writes to the same place is lost."""
    inner = c.inner("slice_update")
    if inner is None or inner.attrs != c.attrs or not _one_to_one(c.attrs):
        return None
    if c.builder.type_of(inner.x) != c.node.types[0]:
        return None
    value = c.builder.call_tuple("slice_update", inner.x, c.operands[1], **c.attrs)[0]
    c.made[value] = _Made(OPS["slice_update"], (inner.x, c.operands[1]), c.attrs)
    return value


# ---- arithmetic -----------------------------------------------------------------------------------------------------


def _neutral(kinds: str, number: float, sides: Sequence[int] = (0, 1)) -> Rule:
    """x for `op(x, number)` (side 1) and `op(number, x)` (side 0), for dtypes of these kinds."""

    def rule(c: _Call) -> ValueId | None:
        for side in sides:
            other = c.operands[1 - side]
            if c.dtype(other).kind in kinds and c.is_uniform(c.operands[side], number):
                return other
        return None

    return rule


def _kept_for(kinds: str) -> Rule:
    """x for `op(x)`, for dtypes of these kinds."""
    return lambda c: c.x if c.dtype(c.x).kind in kinds else None


def _where(c: _Call) -> ValueId | None:
    condition, x, y = c.operands
    if x == y or c.is_uniform(condition, 1):
        return x
    return y if c.is_uniform(condition, 0) else None


def _join_of_one(c: _Call) -> ValueId | None:
    return c.x if len(c.operands) == 1 else None


ROUNDING: tuple[Rule, ...] = (_kept_for("bui"),)
RULES: dict[str, tuple[Rule, ...]] = {
    "permute": (_nothing, _permute_permute),
    "reshape": (_nothing, _reshape_reshape),
    "slice": (_nothing, _slice_slice, _read_what_was_written),
    "flip": (_nothing, _flip_flip),
    "expand": (_nothing, _expand_expand),
    "cast": (_nothing, _cast_cast),
    "bitcast": (_nothing, _reinterpret_twice),
    "view_dtype": (_nothing, _reinterpret_twice),
    "concat": (_join_of_one,),
    "slice_update": (_update_of_everything, _update_again),
    # -0.0 is what a float can be added to or have +0.0 subtracted from without a change; complex products mix parts
    "add": (_neutral("uib", 0), _neutral("f", -0.0)),
    "subtract": (
        _neutral("ui", 0, (1,)),
        _neutral("f", 0.0, (1,)),
    ),
    "multiply": (_neutral("uifb", 1),),
    "divide": (_neutral("f", 1, (1,)),),
    "floor_divide": (_neutral("ui", 1, (1,)),),
    "pow": (_neutral("ui", 1, (1,)),),
    "bitwise_or": (_neutral("uib", 0),),
    "bitwise_xor": (_neutral("uib", 0),),
    "bitwise_left_shift": (_neutral("ui", 0, (1,)),),
    "bitwise_right_shift": (_neutral("ui", 0, (1,)),),
    "logical_and": (_neutral("b", 1),),
    "logical_or": (_neutral("b", 0),),
    "positive": (_kept_for("uifc"),),
    "conj": (_kept_for("uif"),),
    "real": (_kept_for("buif"),),
    "abs": (_kept_for("bu"),),
    "floor": ROUNDING,
    "ceil": ROUNDING,
    "trunc": ROUNDING,
    "round": ROUNDING,
    "where": (_where,),
}
