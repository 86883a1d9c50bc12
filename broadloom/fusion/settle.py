"""Sizes that the graph's facts settle are settled, before anything is lowered.

What goes in: a graph whose types were inferred under `facts`, such as `s0 == 1` where an axis was broadcast. What
comes out: the same graph with each settled size replaced by what it equals, so that from here on a broadcast axis
has the constant size 1, and equal sizes are equal expressions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from broadloom.graph.ir import Graph, Input, Node, TensorType
from broadloom.symbolic import (
    Add,
    Expr,
    FloorDiv,
    Max,
    Min,
    Mod,
    Relation,
    Size,
    coefficient,
    free_symbols,
    rewrite,
    sub,
)


def settled(graph: Graph) -> Graph:
    """The graph under its own facts."""
    values = settled_sizes(graph.facts)
    if not values:
        return graph
    return replace(
        graph,
        symbols=tuple(s for s in graph.symbols if s not in values),
        inputs=tuple(_input(i, values) for i in graph.inputs),
        nodes=tuple(_node(n, values) for n in graph.nodes),
        facts=(),
    )


def settled_sizes(facts: tuple[Relation, ...]) -> dict[Expr, Size]:
    """What sizes equal, by equations in which one occurs with the coefficient 1 or -1: symbols, and where none can be
    solved for, a division, remainder, minimum or maximum.

    >>> from broadloom.symbolic import Symbol, eq, smax, smin
    >>> a, b, c = Symbol("a"), Symbol("b"), Symbol("c")
    >>> {str(k): str(v) for k, v in settled_sizes((eq(a, 1), eq(b + 1, c))).items()}
    {'a': '1', 'c': 'b + 1'}
    >>> n = smin(a, b)
    >>> {str(k): str(v) for k, v in settled_sizes((eq(n - smax(0, n - 1), 1),)).items()}
    {'max(0, min(a, b) - 1)': 'min(a, b) - 1'}
    """
    values: dict[Expr, Size] = {}
    for fact in facts:
        if fact.kind != "eq":
            continue
        difference = rewrite(sub(fact.lhs, fact.rhs), values)
        found = _solved(difference)
        if found is not None:
            size, value = found
            values = {s: rewrite(v, {size: value}) for s, v in values.items()}
            values[size] = value
    return values


def _solved(difference: Size) -> tuple[Expr, Size] | None:
    """A size and what it is where `difference` is 0; the last symbol by name, so that earlier ones stay, else the last
    part that is none."""
    if not isinstance(difference, Expr):
        return None
    for symbol in sorted(free_symbols(difference), key=lambda s: s.name, reverse=True):
        split = coefficient(difference, symbol)
        if split is not None and split[0] in (1, -1):
            factor, rest = split
            return symbol, rest * -1 if factor == 1 else rest
    terms = difference.terms if isinstance(difference, Add) else ((difference, 1),)
    for part, factor in reversed(terms):
        if factor in (1, -1) and isinstance(part, FloorDiv | Mod | Min | Max):
            rest = sub(difference, part * factor)
            if rewrite(rest, {part: 0}) == rest:
                return part, rest * -factor
    return None


def _value(value: Any, values: Mapping[Expr, Size]) -> Any:
    if isinstance(value, Expr):
        return rewrite(value, values)
    return tuple(_value(v, values) for v in value) if isinstance(value, tuple) else value


def _type(t: TensorType, values: Mapping[Expr, Size]) -> TensorType:
    return TensorType(t.dtype, tuple(rewrite(s, values) for s in t.shape))


def _input(given: Input, values: Mapping[Expr, Size]) -> Input:
    strides = tuple(rewrite(s, values) for s in given.strides)
    size = None if given.size in values else given.size
    return replace(given, type=_type(given.type, values), strides=strides, size=size)


def _node(node: Node, values: Mapping[Expr, Size]) -> Node:
    attrs = tuple((name, _value(value, values)) for name, value in node.attrs)
    return replace(node, attrs=attrs, types=tuple(_type(t, values) for t in node.types))
