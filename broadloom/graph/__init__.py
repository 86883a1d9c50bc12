"""The pure tensor graph: data, text, verifier, interpreter, builder, storage model and pass manager."""

from broadloom.graph.builder import GraphBuilder
from broadloom.graph.interpret import interpret
from broadloom.graph.ir import Graph
from broadloom.graph.parse import parse
from broadloom.graph.text import format_graph
from broadloom.graph.verify import verify

__all__ = ["Graph", "GraphBuilder", "format_graph", "interpret", "parse", "verify"]
