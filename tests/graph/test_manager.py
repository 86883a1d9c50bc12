"""The pass manager: pipelines as text, verification and dumps after every pass, identities of passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

from broadloom.errors import OptionsError, ParseError, VerifyError
from broadloom.graph.builder import GraphBuilder
from broadloom.graph.identity import code_identity
from broadloom.graph.ir import Graph, Node, ValueId
from broadloom.graph.manager import Pass, PassContext, Pipeline, parse_pipeline
from broadloom.graph.parse import parse
from broadloom.graph.rewrite import rewrite

TEXT = """\
graph f {
  %0 = input a: float64[2] strides (1,)
  %1 = input b: float64[2] strides (1,)
  %2 = subtract(%0, %1) : float64[2]
  return %2 order (0,)
}"""


@dataclass(frozen=True, slots=True)
class Replace:
    """A toy pass: one op for another."""

    old: str = "subtract"
    new: str = "add"
    limit: int = 8
    only: tuple[str, ...] = ()
    fast: bool = False

    name: ClassVar[str] = "replace"

    def run(self, graph: Graph, context: PassContext) -> Graph:
        def rule(b: GraphBuilder, node: Node, operands: tuple[ValueId, ...]) -> tuple[ValueId, ...] | None:
            return b.call_tuple(self.new, *operands) if getattr(node.op, "name", "") == self.old else None

        return rewrite(graph, rule)


@dataclass(frozen=True, slots=True)
class Break:
    """A pass that makes a graph that is wrong."""

    name: ClassVar[str] = "break"

    def run(self, graph: Graph, context: PassContext) -> Graph:
        return parse(str(graph).replace(": float64[2]\n  return", ": float32[2]\n  return"))


@dataclass(frozen=True, slots=True)
class Reorder:
    """A pass that takes liberties with the memory order of the result."""

    name: ClassVar[str] = "reorder"

    def run(self, graph: Graph, context: PassContext) -> Graph:
        return parse(str(graph).replace("return %2 order (0,)", "return %2 order (0,), %2 order (0,)"))


PASSES: dict[str, type[Pass]] = {"replace": Replace, "break": Break, "reorder": Reorder}


@pytest.mark.parametrize(
    "text",
    [
        "replace",
        "replace,replace",
        "replace{old='add', new='multiply'}",
        "replace{limit=3, only=('add', 'negative'), fast=True}",
        "replace{only=('x',)},replace{fast=True}",
        "",
    ],
)
def test_pipelines_print_as_they_parse(text: str) -> None:
    pipeline = parse_pipeline(text, PASSES)
    assert str(pipeline) == text
    assert parse_pipeline(str(pipeline), PASSES) == pipeline


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("replac", OptionsError, "unknown pass; got 'replac'"),
        ("replace{limits=3}", OptionsError, "no such option; got 'limits'"),
        ("replace{limit='3'}", OptionsError, "limit has the wrong type"),
        ("replace{limit=True}", OptionsError, "limit has the wrong type"),
        ("replace{fast=1}", OptionsError, "fast has the wrong type"),
        ("replace{only=(1,)}", OptionsError, "only has the wrong type"),
        ("replace{limit}", ParseError, "name=value"),
        ("replace{limit=3", ParseError, "braces"),
    ],
)
def test_bad_pipelines_are_refused(text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        parse_pipeline(text, PASSES)


def test_each_stage_is_dumped_and_reads_back() -> None:
    stages: list[tuple[str, Graph]] = []
    pipeline = Pipeline((Replace(), Replace("add", "multiply")))
    result = pipeline.run(parse(TEXT), PassContext(lambda stage, graph: stages.append((stage, graph))))
    assert [s for s, _ in stages] == ["input", "replace", "replace"]
    assert stages[0][1] == parse(TEXT) and stages[-1][1] is result
    assert "multiply" in str(result)


def test_a_broken_graph_names_the_pass() -> None:
    with pytest.raises(VerifyError, match=r"after pass break: .*%2 = add"):
        Pipeline((Replace(), Break())).run(parse(TEXT))
    with pytest.raises(VerifyError, match="after pass reorder: a pass keeps the number"):
        Pipeline((Reorder(),)).run(parse(TEXT))
    with pytest.raises(VerifyError, match="%2 = subtract"):
        Pipeline(()).run(parse(TEXT.replace("%2 = subtract(%0, %1) : float64[2]", "%2 = subtract(%0, %1) : int64[2]")))


def test_identity_tells_options_apart() -> None:
    identities = {Pipeline(p).identity for p in ((Replace(),), (Replace(limit=9),), (Replace(new="multiply"),), ())}
    assert len(identities) == 4
    assert Pipeline((Replace(),)).identity == Pipeline((Replace(),)).identity


def make(target: str) -> type:
    @dataclass(frozen=True)
    class Made:
        name: ClassVar[str] = "made"

        def run(self, graph: Graph, context: PassContext) -> str:
            return target

    return Made


def test_identity_tells_classes_of_one_factory_apart() -> None:
    """Two passes of one name and one source, that rewrite sub->add and sub->mul, must never share a cache entry."""
    assert code_identity(make("add")) != code_identity(make("multiply"))
    assert code_identity(make("add")) == code_identity(make("add"))


def prompt(code: str) -> type:
    """A class typed where no source can be read back."""
    scope: dict[str, object] = {"__name__": "prompt"}
    exec(compile(code, "<stdin>", "exec"), scope)
    found = scope["P"]
    assert isinstance(found, type)
    return found


@pytest.mark.parametrize(
    "other",
    [
        "class P:\n    def run(self): return 2",
        "class P:\n    def run(self): return 1.0",
        "class P:\n    def run(self): return True",
        "class P:\n    def run(self, n=2): return 1",
        "class P:\n    limit = 2\n    def run(self): return 1",
        "def h(): return 2\nclass P:\n    def run(self): return h()",
        "def h(): return 3\nclass P:\n    def run(self): return h()",
        "T = {'a': 1}\nclass P:\n    def run(self): return T",
    ],
)
def test_identity_without_source_sees_the_code(other: str) -> None:
    first = "class P:\n    def run(self): return 1"
    assert code_identity(prompt(first)) == code_identity(prompt(first))
    assert code_identity(prompt(first)) != code_identity(prompt(other))


def test_identity_sees_helpers_of_the_module() -> None:
    first = "def h(): return 2\nclass P:\n    def run(self): return h()"
    assert code_identity(prompt(first)) != code_identity(prompt(first.replace("2", "3")))
    assert code_identity(prompt(first)) == code_identity(prompt(first))
    table = "T = (1, 2)\nclass P:\n    def run(self): return T"
    assert code_identity(prompt(table)) != code_identity(prompt(table.replace("2)", "3)")))
