"""The verifier: what goes in is a graph; what comes out is nothing, or `VerifyError` naming the node and the rule.

What holds afterwards is all that `graph.ir` promises: SSA without gaps, attributes canonical, types equal to what the
ops infer from their operands under the graph's facts, symbols declared and bound, constants present, orders
permutations, at most one write an input and only to arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from broadloom import dtypes
from broadloom.errors import BroadloomError, VerifyError
from broadloom.graph.builder import INLINE_BYTES, GraphBuilder, canonical_attributes, constant_array
from broadloom.graph.ir import Constant, Graph, Input, Node, TensorType
from broadloom.graph.text import RESERVED, format_type, format_value
from broadloom.symbolic import Expr, Symbol, free_symbols


def verify(graph: Graph) -> None:
    """Raises `VerifyError` at the first rule that `graph` breaks."""
    _Verifier(graph).run()


class _Verifier:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.builder = GraphBuilder(graph.name, graph.symbols, facts=graph.facts)
        self.types: list[TensorType] = []

    def fail(self, where: str, rule: str, got: object = None) -> VerifyError:
        return VerifyError(f"graph {self.graph.name}, {where}: {rule}", got=got)

    def run(self) -> None:
        self._symbols()
        for k, declared in enumerate(self.graph.inputs):
            self._input(f"input {declared.name} (%{k})", declared)
            self.types.append(declared.type)
        names = [i.name for i in self.graph.inputs]
        if len(set(names)) != len(names):
            raise self.fail("inputs", "input names are distinct", names)
        for node in self.graph.nodes:
            name = "constant" if isinstance(node.op, Constant) else node.op.name
            self._node(f"%{len(self.types)} = {name}", node)
            self.types.extend(node.types)
        self._results()

    def _symbols(self) -> None:
        seen: set[Symbol] = set()
        names: set[str] = set()
        for s in self.graph.symbols:
            if s.name in names or s.name in RESERVED or not s.name.isidentifier():
                raise self.fail(f"symbol {s.name}", "symbol names are distinct identifiers, none a word of the text")
            if isinstance(s.hi, Expr) and not set(free_symbols(s.hi)) <= seen:
                raise self.fail(f"symbol {s.name}", "a bound speaks of earlier symbols only", s.hi)
            seen.add(s)
            names.add(s.name)
        bound = set(binding_sites(self.graph.inputs))
        for s in self.graph.symbols:
            if s not in bound:
                raise self.fail(f"symbol {s.name}", "a symbol stands alone in some input's shape, strides or size")
        for fact in self.graph.facts:
            self._declared("facts", (fact.lhs, fact.rhs))

    def _declared(self, where: str, value: Any) -> None:
        for expr in _expressions(value):
            unknown = set(free_symbols(expr)) - set(self.graph.symbols)
            if unknown:
                raise self.fail(where, "every symbol is declared", ", ".join(sorted(map(str, unknown))))

    def _input(self, where: str, declared: Input) -> None:
        ndim = declared.type.ndim
        self._declared(where, (*declared.type.shape, *declared.strides, declared.size))
        if len(declared.strides) != ndim:
            raise self.fail(where, "one stride an axis", declared.strides)
        self._permutation(where, declared.order, ndim)
        if declared.kind != "array" and ndim:
            raise self.fail(where, "scalars and sizes have no axes", format_type(declared.type))
        if (declared.kind == "size") != (declared.size is not None):
            raise self.fail(where, "exactly the size inputs bind a symbol", declared.size)
        if declared.kind == "size" and declared.type.dtype is not dtypes.int64:
            raise self.fail(where, "a size is int64", declared.type.dtype)

    def _permutation(self, where: str, order: tuple[int, ...], ndim: int) -> None:
        if sorted(order) != list(range(ndim)):
            raise self.fail(where, f"the order is a permutation of {ndim} axes", order)

    def _node(self, where: str, node: Node) -> None:
        for value in node.inputs:
            if not 0 <= value < len(self.types):
                raise self.fail(where, "a value is used after its definition", f"%{value}")
        self._declared(where, [value for _, value in node.attrs])
        if isinstance(node.op, Constant):
            self._constant(where, node, node.op)
            return
        if node.op.arity is not None and len(node.inputs) != node.op.arity:
            raise self.fail(where, f"the op takes {node.op.arity} operands", len(node.inputs))
        try:
            canonical = canonical_attributes(node.op, node.attributes)
            inferred = self.builder.infer(node.op, [self.types[i] for i in node.inputs], dict(canonical))
        except VerifyError:
            raise
        except BroadloomError as error:
            raise self.fail(where, f"the op refuses its operands or attributes: {error}") from error
        if (canonical or node.attrs) and format_value(canonical) != format_value(node.attrs):
            raise self.fail(where, "attributes are complete and sorted by name", format_value(node.attrs))
        if inferred != node.types:
            written, right = (", ".join(map(format_type, types)) for types in (node.types, inferred))
            raise self.fail(where, f"the types are those that the op infers, {right}", written)

    def _constant(self, where: str, node: Node, literal: Constant) -> None:
        if node.inputs or node.attrs or node.types != (TensorType(literal.dtype, literal.shape),):
            raise self.fail(where, "a constant has no operands, no attributes and its own type")
        size = literal.dtype.itemsize
        for n in literal.shape:
            size *= n
        if (literal.data is None) == (literal.digest is None) or (literal.data is not None) != (size <= INLINE_BYTES):
            raise self.fail(where, f"up to {INLINE_BYTES} bytes stand in the constant, more in the table", size)
        if literal.data is not None and len(literal.data) != size:
            raise self.fail(where, f"the constant has {size} bytes", len(literal.data))
        try:
            constant_array(literal, self.graph.constants)
        except ValueError as error:
            raise self.fail(where, "the table's array has the size of the constant") from error

    def _results(self) -> None:
        for k, output in enumerate(self.graph.outputs):
            self._value(f"output {k}", output.value)
            self._permutation(f"output {k}", output.order, self.types[output.value].ndim)
        targets = [w.input for w in self.graph.writes]
        if targets != sorted(set(targets)):
            raise self.fail("writes", "at most one write an input, in order of the inputs", targets)
        for w in self.graph.writes:
            if not 0 <= w.input < len(self.graph.inputs) or self.graph.inputs[w.input].kind != "array":
                raise self.fail("writes", "only array inputs are written", w.input)
            where = f"write {self.graph.inputs[w.input].name}"
            self._value(where, w.value)
            if self.types[w.value] != self.types[w.input]:
                rule = f"the value has the type of the input, {format_type(self.types[w.input])}"
                raise self.fail(where, rule, format_type(self.types[w.value]))

    def _value(self, where: str, value: int) -> None:
        if not 0 <= value < len(self.types):
            raise self.fail(where, "the value is defined", f"%{value}")


def binding_sites(inputs: Iterable[Input]) -> Iterator[Symbol]:
    """The symbols that can be read off the inputs: those that stand alone in a shape, in strides or in a size."""
    for declared in inputs:
        for size in (*declared.type.shape, *declared.strides, declared.size):
            if isinstance(size, Symbol):
                yield size


def _expressions(value: Any) -> Iterator[Expr]:
    if isinstance(value, Expr):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _expressions(item)
