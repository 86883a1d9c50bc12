"""The pass manager: a graph and a pipeline of passes go in, a verified graph comes out.

What holds: the graph is verified before the first pass and after each one, so a failure names the pass that made it;
each stage's text goes to the dump sink; a pipeline prints and parses (`dead-code,fold-constants{limit=64}`); the
identity of a pipeline, for cache keys, covers each pass's name, its options and what its class does.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

from broadloom.errors import BroadloomError, OptionsError, ParseError, VerifyError
from broadloom.graph.identity import code_identity
from broadloom.graph.ir import Graph
from broadloom.graph.parse import ValueParser, split
from broadloom.graph.text import format_value
from broadloom.graph.verify import verify
from broadloom.records import dataclass

DumpSink = Callable[[str, Graph], None]  # (stage name, graph)


@dataclass(frozen=True, slots=True)
class PassContext:
    """What passes share. `dump` receives the graph before the first pass and after each one."""

    dump: DumpSink | None = None


class Pass(Protocol):
    """A frozen dataclass whose fields are its options. `run` returns a new graph, or the same if nothing changed."""

    name: ClassVar[str]

    def run(self, graph: Graph, context: PassContext) -> Graph: ...


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Passes in order."""

    passes: tuple[Pass, ...]

    def __str__(self) -> str:
        """The form that `parse_pipeline` reads; options at their defaults are left out."""
        return ",".join(map(format_pass, self.passes))

    @property
    def identity(self) -> str:
        """A string for cache keys: equal only for pipelines that do the same."""
        return ",".join(map(pass_identity, self.passes))

    def run(self, graph: Graph, context: PassContext | None = None) -> Graph:
        """Runs the passes; raises `VerifyError` naming the pass after which the graph is broken."""
        context = context or PassContext()
        verify(graph)
        _dump(context, "input", graph)
        for p in self.passes:
            result = p.run(graph, context)
            if result is not graph:
                _check(p, graph, result)
                graph = result
            _dump(context, p.name, graph)
        return graph


def _check(p: Pass, before: Graph, after: Graph) -> None:
    try:
        verify(after)
    except BroadloomError as error:
        raise VerifyError(f"after pass {p.name}: {error}", remedy="report it with the dump of the stage") from error
    if before.inputs != after.inputs:
        raise VerifyError(f"after pass {p.name}: a pass keeps the inputs")
    if [o.order for o in before.outputs] != [o.order for o in after.outputs]:
        raise VerifyError(f"after pass {p.name}: a pass keeps the number and the memory order of the outputs")
    if [w.input for w in before.writes] != [w.input for w in after.writes]:
        raise VerifyError(f"after pass {p.name}: a pass keeps what is written")


def _dump(context: PassContext, stage: str, graph: Graph) -> None:
    if context.dump is not None:
        context.dump(stage, graph)


def _options(p: Pass) -> list[dataclasses.Field[Any]]:
    return list(dataclasses.fields(p))  # type: ignore[arg-type]  # every pass is a dataclass


def format_pass(p: Pass) -> str:
    """`fold-constants{limit=8}`."""
    options = [(f, getattr(p, f.name)) for f in _options(p)]
    changed = [(f.name, v) for f, v in options if not _is_default(f, v)]
    inner = ", ".join(f"{name}={format_value(v)}" for name, v in changed)
    return f"{p.name}{{{inner}}}" if inner else p.name


def _is_default(f: dataclasses.Field[Any], value: Any) -> bool:
    return f.default is not dataclasses.MISSING and format_value(value) == format_value(f.default)


def pass_identity(p: Pass) -> str:
    """Name, every option and a digest of what the class does."""
    options = ", ".join(f"{f.name}={format_value(getattr(p, f.name))}" for f in _options(p))
    return f"{p.name}{{{options}}}@{code_identity(type(p))}"


def parse_pipeline(text: str, passes: Mapping[str, type[Pass]]) -> Pipeline:
    """The pipeline of `text`, over a table from name to pass class.

    Raises `OptionsError` for an unknown pass or option or a value of the wrong type, `ParseError` for bad syntax.
    """
    return Pipeline(tuple(_parse_pass(item, passes) for item in split(text)))


def _parse_pass(text: str, passes: Mapping[str, type[Pass]]) -> Pass:
    name, brace, rest = text.partition("{")
    name = name.strip()
    if brace and not rest.endswith("}"):
        raise ParseError("pipeline: options stand in braces behind the pass", got=repr(text))
    cls = passes.get(name)
    if cls is None:
        raise OptionsError("unknown pass", got=repr(name), allowed=", ".join(sorted(passes)))
    types = typing.get_type_hints(cls)
    fields = {f.name for f in dataclasses.fields(cls)}  # type: ignore[arg-type]  # every pass is a dataclass
    options: dict[str, Any] = {}
    for item in split(rest[:-1]):
        key, equals, value_text = (part.strip() for part in item.partition("="))
        if not equals:
            raise ParseError("pipeline: an option is written 'name=value'", got=repr(item))
        if key not in fields:
            raise OptionsError(f"pass {name} has no such option", got=repr(key), allowed=", ".join(sorted(fields)))
        value = ValueParser({}).value(value_text)
        if not _fits(value, types[key]):
            raise OptionsError(f"pass {name}: option {key} has the wrong type", got=value_text, allowed=str(types[key]))
        options[key] = value
    return cls(**options)


def _fits(value: Any, declared: Any) -> bool:
    origin = typing.get_origin(declared)
    if origin is tuple:
        return type(value) is tuple and all(_fits(v, typing.get_args(declared)[0]) for v in value)
    if origin is typing.Literal:
        return value in typing.get_args(declared)
    if typing.get_args(declared):  # a union
        return any(_fits(value, option) for option in typing.get_args(declared))
    return type(value) is declared
