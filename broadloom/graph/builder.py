"""The builder: what goes in are inputs, op calls and constants one at a time; what comes out is a `Graph`.

What holds: types are inferred by the op table, never given; attributes are made canonical (lists become tuples,
NumPy integers become ints, sorted by name); inputs may be declared at any time and are numbered first at the end.
"""

from __future__ import annotations

import bisect
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np

from broadloom import dtypes
from broadloom.errors import DTypeError, Location, ShapeError, VerifyError
from broadloom.graph.ir import Constant, Graph, Input, Node, Order, Output, TensorType, ValueId, Write
from broadloom.ops.infer import complete, infer
from broadloom.ops.record import Op
from broadloom.ops.signature import holds
from broadloom.ops.table import OPS
from broadloom.symbolic import LARGEST, Expr, Relation, Size, Symbol, free_symbols, ge, mul, product

INLINE_BYTES = 64  # larger constants are named by content hash and live beside the graph


class Builder(Protocol):
    """What makes values by calling ops: a graph's builder, or an interpreter that computes or transforms them.

    Values are numbers that mean something to their builder alone; they never change. `location` is the user's line
    that the next calls belong to. The methods are described at `GraphBuilder`.
    """

    location: Location | None

    def call_tuple(self, op: str | Op, *inputs: ValueId, **attrs: Any) -> tuple[ValueId, ...]: ...

    def call(self, op: str | Op, *inputs: ValueId, **attrs: Any) -> Any: ...

    def constant(self, value: Any) -> ValueId: ...

    def infer(self, op: Op, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> tuple[TensorType, ...]: ...

    def type_of(self, value: ValueId) -> TensorType: ...

    def decide(self, relation: Relation) -> Any: ...

    def node_of(self, value: ValueId) -> Node | None: ...

    def key_to_draw(self, word: ValueId) -> ValueId: ...


class GraphBuilder:
    """Builds one graph in SSA form.

    >>> b = GraphBuilder("f")
    >>> x = b.input("x", TensorType(dtypes.float32, (2, 3)))
    >>> y = b.call("sum", b.call("add", x, x), axes=(-1,), keepdims=False)
    >>> print(b.finish([Output(y, (0,))]))
    graph f {
      %0 = input x: float32[2, 3] strides (3, 1)
      %1 = add(%0, %0) : float32[2, 3]
      %2 = sum(%1) {axes=(-1,), keepdims=False} : float32[2]
      return %2 order (0,)
    }
    """

    def __init__(
        self,
        name: str,
        symbols: Iterable[Symbol] = (),
        *,
        facts: Iterable[Relation] = (),
        decide: Callable[[Relation], bool] | None = None,
        fits: Callable[[Size], bool] | None = None,
    ) -> None:
        self.name = name
        self.location: Location | None = None  # given to the nodes that are made from now on
        self._facts: dict[Relation, None] = dict.fromkeys(facts)
        self._ask = decide
        self._fits = fits
        self._measured: set[TensorType] = set()
        self._inferred: dict[object, tuple[Op, tuple[TensorType, ...]]] = {}
        self._symbols: dict[Symbol, None] = dict.fromkeys(symbols)
        self._inputs: list[tuple[Input, int]] = []  # with the provisional id
        self._nodes: list[tuple[Node, int]] = []  # with the provisional id of the first result
        self._types: list[TensorType] = []
        self._constants: dict[str, np.ndarray] = {}

    @classmethod
    def like(cls, graph: Graph) -> GraphBuilder:
        """A builder with the name, symbols, facts and inputs of `graph`, whose ids it shares so far."""
        builder = cls(graph.name, graph.symbols, facts=graph.facts)
        for declared in graph.inputs:
            builder.add_input(declared)
        return builder

    def input(
        self,
        name: str,
        type: TensorType,
        strides: tuple[Size, ...] | None = None,
        order: Order | None = None,
        *,
        kind: Literal["array", "scalar", "size"] = "array",
        size: Symbol | None = None,
        aligned: bool = True,
    ) -> ValueId:
        """A new input. `strides` count elements; without them the input is contiguous in `order` (C if not given)."""
        order = tuple(range(type.ndim)) if order is None else order
        strides = contiguous_strides(type.shape, order) if strides is None else strides
        return self.add_input(Input(name, type, strides, order, kind, size, aligned))

    def add_input(self, declared: Input) -> ValueId:
        """A new input, as it stands."""
        for s in (*declared.type.shape, *declared.strides, declared.size):
            self._declare_symbols(s)
        self._inputs.append((declared, len(self._types)))
        return self._define(declared.type)

    def constant(self, value: Any) -> ValueId:
        """A literal array; `value` is anything `numpy.asarray` takes, of a supported dtype."""
        array = np.asarray(value)
        dtype = dtypes.from_numpy(array.dtype)
        content = array.tobytes("C")
        if len(content) <= INLINE_BYTES:
            literal = Constant(dtype, array.shape, content)
        else:
            digest = hashlib.sha256(content).hexdigest()
            literal = Constant(dtype, array.shape, None, digest)
            kept = np.array(array, order="C", copy=True)
            kept.flags.writeable = False
            self._constants.setdefault(digest, kept)
        return self.add_constant(literal)

    def add_constant(self, literal: Constant, table: Mapping[str, np.ndarray] | None = None) -> ValueId:
        """An existing constant; `table` is the constant table of the graph that it comes from."""
        if literal.digest is not None and table is not None and literal.digest in table:
            self._constants[literal.digest] = table[literal.digest]
        result = TensorType(literal.dtype, literal.shape)
        self._nodes.append((Node(literal, (), (), (result,), self.location), len(self._types)))
        return self._define(result)

    @property
    def steps(self) -> int:
        """How many literals and calls there are."""
        return len(self._nodes)

    def raising(self, since: int) -> Op | None:
        """The first op called after so many steps that may raise at run time."""
        for node, _ in self._nodes[since:]:
            op = node.op
            if isinstance(op, Op) and op.may_raise(tuple(self._types[i].dtype for i in node.inputs), dict(node.attrs)):
                return op
        return None

    def call_tuple(self, op: str | Op, *inputs: ValueId, **attrs: Any) -> tuple[ValueId, ...]:
        """Calls an op; always a tuple of results. Raises `ShapeError` and `DTypeError` as `ops.infer` does."""
        record = OPS.get(op) if isinstance(op, str) else op
        if record is None:
            raise VerifyError("no such op in the op table", got=repr(op))
        canonical = canonical_attributes(record, attrs)
        types = self.infer(record, tuple(self._types[i] for i in inputs), dict(canonical))
        self._nodes.append((Node(record, inputs, canonical, types, self.location), len(self._types)))
        return tuple(self._define(t) for t in types)

    def add_node(self, node: Node, operands: tuple[ValueId, ...]) -> tuple[ValueId, ...]:
        """A call that exists already, on operands of the same types as before (the verifier sees to that)."""
        if operands != node.inputs:
            node = Node(node.op, operands, node.attrs, node.types, node.location)
        self._nodes.append((node, len(self._types)))
        return tuple(self._define(t) for t in node.types)

    def call(self, op: str | Op, *inputs: ValueId, **attrs: Any) -> Any:
        """Calls an op; a `ValueId` for an op of one result, else a tuple of them."""
        results = self.call_tuple(op, *inputs, **attrs)
        return results[0] if len(results) == 1 else results

    def infer(self, op: Op, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> tuple[TensorType, ...]:
        """The types of an op's results under the facts so far; a question that they leave open goes to `decide`,
        and its answer becomes a fact. Facts only grow, so that a call of the same kind gives the same."""
        kind = (op, tuple(operands), tuple((name, type(value), value) for name, value in attrs.items()))
        known = self._inferred.get(kind)
        if known is not None and known[0] is op:
            return known[1]
        inferred = infer(op, [(t.dtype, t.shape) for t in operands], attrs, self.decide)
        types = tuple(TensorType(dtype, tuple(shape)) for dtype, shape in inferred)
        for made in types:
            self._measure(made)
        self._inferred[kind] = op, types
        return types

    def _measure(self, made: TensorType) -> None:
        """Raises `ShapeError` for what NumPy refuses: a negative size, and an array whose bytes are no int64."""
        if made in self._measured:
            return
        for size in made.shape:
            if holds(ge(size, 0), self.decide) is False:
                raise ShapeError(
                    "negative dimensions are not allowed",
                    got=f"shape {made.shape}",
                    allowed="sizes from 0",
                    remedy="check the size before",
                )
        size = mul(made.dtype.itemsize, product(n for n in made.shape if n != 0))
        if not (self._fits(size) if self._fits is not None else not isinstance(size, int) or size <= LARGEST):
            raise ShapeError(
                "an array is too big",
                got=f"shape {made.shape} of {made.dtype}, {size} bytes",
                allowed=f"up to {LARGEST} bytes",
                remedy="work on parts of it",
            )
        self._measured.add(made)

    def assume(self, fact: Relation) -> None:
        """A relation that holds from now on; whoever says so guards it."""
        self._facts[fact] = None

    def decide(self, relation: Relation) -> Any:
        """Whether a relation that no bounds settle holds: by the facts, else by asking; None if nobody knows."""
        if relation in self._facts:
            return True
        opposite = relation.negated()
        if isinstance(opposite, bool) or opposite in self._facts:
            return isinstance(opposite, bool) and not opposite
        if self._ask is None:
            return None
        answer = self._ask(relation)
        self._facts[relation if answer else opposite] = None
        return answer

    def input_of(self, value: ValueId) -> Input:
        """The input that a value is; raises `VerifyError` for any other value."""
        for declared, provisional in reversed(self._inputs):
            if provisional == value:
                return declared
        raise VerifyError("not an input", got=f"%{value}")

    def key_to_draw(self, word: ValueId) -> ValueId:
        """The key, as one word, that random numbers are drawn with where a program has this one: the same, but for an
        interpreter that stands for many."""
        return word

    def node_of(self, value: ValueId) -> Node | None:
        """The node that a value is a result of; None for an input."""
        at = bisect.bisect_right(self._nodes, int(value), key=lambda entry: int(entry[1]))
        if at == 0:
            return None
        node, first = self._nodes[at - 1]
        return node if value < first + len(node.types) else None

    @property
    def count(self) -> int:
        """How many values there are: the id of the next one."""
        return len(self._types)

    def type_of(self, value: ValueId) -> TensorType:
        return self._types[value]

    def finish(self, outputs: Sequence[Output], writes: Sequence[Write] = ()) -> Graph:
        """The graph; `outputs` and `writes` speak of this builder's ids and inputs in order of declaration."""
        final: dict[int, ValueId] = {}
        for _, provisional in self._inputs:
            final[provisional] = ValueId(len(final))
        for node, first in self._nodes:
            for k in range(len(node.types)):
                final[first + k] = ValueId(len(final))
        nodes = tuple(
            Node(n.op, tuple(final[i] for i in n.inputs), n.attrs, n.types, n.location) for n, _ in self._nodes
        )
        return Graph(
            self.name,
            tuple(self._symbols),
            tuple(i for i, _ in self._inputs),
            nodes,
            tuple(Output(final[o.value], o.order) for o in outputs),
            tuple(Write(w.input, final[w.value]) for w in sorted(writes, key=lambda w: w.input)),
            dict(self._constants),
            tuple(self._facts),
        )

    def _define(self, type: TensorType) -> ValueId:
        self._types.append(type)
        return ValueId(len(self._types) - 1)

    def _declare_symbols(self, size: Size | None) -> None:
        if isinstance(size, Expr):
            for s in sorted(free_symbols(size), key=lambda s: s.name):
                if s not in self._symbols:
                    self._declare_symbols(s.hi)
                    self._symbols[s] = None


def constant_array(literal: Constant, table: Mapping[str, np.ndarray]) -> np.ndarray:
    """The array that a constant stands for, read-only; raises `VerifyError` if the table does not hold it."""
    if literal.data is not None:
        return np.frombuffer(literal.data, dtype=literal.dtype.numpy).reshape(literal.shape)
    found = table.get(literal.digest or "")
    if found is None:
        raise VerifyError("the graph's constant table lacks an array", got=f"sha256:{literal.digest}")
    # arrays of equal bytes share one entry, whatever their dtype and shape
    return found.reshape(-1).view(literal.dtype.numpy).reshape(literal.shape)


def contiguous_strides(shape: Sequence[Size], order: Order) -> tuple[Size, ...]:
    """Element strides of a contiguous array whose axes lie in memory in `order`, outermost first.

    >>> contiguous_strides((2, 3, 5), (0, 1, 2)), contiguous_strides((2, 3, 5), (2, 0, 1))
    ((15, 5, 1), (3, 1, 6))
    """
    strides: list[Size] = [1] * len(shape)
    step: Size = 1
    for axis in reversed(order):
        strides[axis] = step
        step = step * shape[axis]
    return tuple(strides)


def canonical_attributes(op: Op, attrs: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """The attributes of a call in the form a node keeps: complete, canonical, sorted by name."""
    return tuple(sorted((name, canonical_attribute(value)) for name, value in complete(op, attrs).items()))


def canonical_attribute(value: Any) -> Any:
    """An attribute value in its one form; raises `DTypeError` for what no attribute can be.

    >>> canonical_attribute([np.int64(3), np.bool_(True)])
    (3, True)
    """
    if isinstance(value, list | tuple):
        return tuple(canonical_attribute(v) for v in value)
    if value is None or isinstance(value, bool | int | float | str | dtypes.DType | Expr):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, np.integer):
        return int(value)
    raise DTypeError(
        "an attribute value has a type that the graph does not admit",
        got=f"{value!r} of type {type(value).__name__}",
        allowed="int, bool, float, str, None, DType, symbolic sizes and tuples of these",
    )
