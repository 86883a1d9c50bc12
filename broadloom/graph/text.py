"""The text of a graph: what goes in is a `Graph`, what comes out is the form that `graph.parse` reads back.

What holds: the text is canonical - it depends on the graph alone, `parse(str(g)) == g`, and two attribute values of
different type or bits (1, 1.0, True; 0.0, -0.0; two nans) never have the same text. Source locations are comments,
printed on demand.

    graph f (s0: [0, inf]) {
      %0 = input x: float32[s0, 3] strides (3, 1)
      %1 = add(%0, %0) : float32[s0, 3]
      %2 = sum(%1) {axes=(-1,), keepdims=False} : float32[s0]
      return %2 order (0,)
      write x = %1
    }
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from broadloom.dtypes import BY_NAME, DType
from broadloom.errors import VerifyError
from broadloom.ops.record import Op
from broadloom.symbolic import Expr

if TYPE_CHECKING:
    from broadloom.graph.ir import Constant, Graph, Input, Node, TensorType

RESERVED = frozenset({*BY_NAME, "True", "False", "None", "inf", "nan", "min", "max"})
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def format_graph(graph: Graph, *, locations: bool = False) -> str:
    """The text of `graph`; with `locations`, each node's user line as a comment that the parser ignores."""
    symbols = ", ".join(f"{s.name}: [{s.lo}, {'inf' if s.hi is None else s.hi}]" for s in graph.symbols)
    lines = [f"graph {format_name(graph.name)}{f' ({symbols})' if symbols else ''} {{"]
    lines += [f"  assume {fact}" for fact in graph.facts]
    lines += [f"  %{k} = {_format_input(i)}" for k, i in enumerate(graph.inputs)]
    next_id = len(graph.inputs)
    for node in graph.nodes:
        results = ", ".join(f"%{next_id + k}" for k in range(len(node.types)))
        next_id += len(node.types)
        comment = f"  # {node.location}".replace("\n", " ") if locations and node.location is not None else ""
        lines.append(f"  {results} = {_format_call(node)}{comment}")
    outputs = ", ".join(f"%{o.value} order {format_value(o.order)}" for o in graph.outputs)
    lines.append(f"  return {outputs}".rstrip())
    for w in graph.writes:
        lines.append(f"  write {format_name(graph.inputs[w.input].name)} = %{w.value}")
    return "\n".join([*lines, "}"])


def format_name(name: str) -> str:
    """A name: bare where it is an identifier, else as a JSON string."""
    return name if _PLAIN_NAME.match(name) else json.dumps(name)


def format_type(type: TensorType) -> str:
    """`float32[s0, 3]`."""
    return f"{type.dtype}[{', '.join(map(str, type.shape))}]"


def format_value(value: Any) -> str:
    """An attribute value; raises `VerifyError` for a type that attributes do not admit.

    >>> format_value((1, 1.0, True, None, "a b")), format_value((3,)), format_value(-0.0)
    ("(1, 1.0, True, None, 'a b')", '(3,)', '-0.0')
    """
    if value is None or isinstance(value, bool | int | float) or type(value) is str:
        if type(value) is str:
            return _quote(value)
        if type(value) is float and math.isnan(value):
            return "nan"
        if type(value) in (bool, int, float, type(None)):
            return repr(value)
    if isinstance(value, tuple) and type(value) is tuple:
        inner = ", ".join(map(format_value, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, DType | Expr):
        return str(value)
    raise VerifyError(
        "an attribute value has a type that the graph does not admit",
        got=f"{value!r} of type {type(value).__name__}",
        allowed="int, bool, float, str, None, DType, symbolic sizes and tuples of these",
    )


def _quote(text: str) -> str:
    """A string in single quotes, escaped as JSON escapes it."""
    return "'" + json.dumps(text)[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"


def _format_input(i: Input) -> str:
    name = format_name(i.name)
    if i.kind == "size":
        return f"size {name}: {format_type(i.type)} = {i.size}"
    text = f"{'input' if i.kind == 'array' else 'scalar'} {name}: {format_type(i.type)}"
    if i.kind == "array":
        text += f" strides {format_value(i.strides)}"
        if i.order != tuple(range(i.type.ndim)):
            text += f" order {format_value(i.order)}"
    return text if i.aligned else text + " unaligned"


def _format_call(node: Node) -> str:
    if not isinstance(node.op, Op):
        return f"constant {format_constant(node.op)}"
    operands = ", ".join(f"%{i}" for i in node.inputs)
    attrs = ", ".join(f"{name}={format_value(value)}" for name, value in node.attrs)
    types = ", ".join(map(format_type, node.types))
    return f"{node.op.name}({operands}){f' {{{attrs}}}' if attrs else ''} : {types}"


def format_constant(c: Constant) -> str:
    """`float32[2] 1.0, nan:0x7fc00000`; `float64[100] sha256:...` for an array of the table beside the graph."""
    head = f"{c.dtype}[{', '.join(map(str, c.shape))}]"
    if c.data is None:
        return f"{head} sha256:{c.digest}"
    elements = np.frombuffer(c.data, dtype=c.dtype.numpy)
    return f"{head} {', '.join(_format_element(e, c.dtype) for e in elements)}".rstrip()


def _format_element(element: Any, dtype: DType) -> str:
    if dtype.kind == "c":
        return f"({_format_element(element.real, dtype.real)}, {_format_element(element.imag, dtype.real)})"
    if dtype.kind == "b":
        bits = np.asarray(element).view(np.uint8)
        return {0: "False", 1: "True"}.get(int(bits), hex(bits))
    if dtype.is_integer:
        return str(int(element))
    value = float(element)
    bits = np.asarray(element).view(_UNSIGNED[dtype.itemsize])
    if math.isnan(value):
        return f"nan:{int(bits):#x}"
    short = str(element) if dtype.name != "bfloat16" else repr(value)
    # the shorter decimal of the narrow dtype where it reads back to the same bits through a double
    if not _same_bits(short, dtype, int(bits)):
        short = repr(value)
    return short if "." in short or "inf" in short or "e" in short else short + ".0"


def _same_bits(text: str, dtype: DType, bits: int) -> bool:
    back = np.asarray(float(text)).astype(dtype.numpy)
    return int(back.view(_UNSIGNED[dtype.itemsize])) == bits
