"""What a module calls often, as functions of their own with a vector form: math functions and other ops of long code.

What goes in: a finished module. What comes out: the same module, in which a function of lanes (`lane.function`) with
more call sites than its length allows is no longer inlined into each: loops that are vectors already call it as it is,
and LLVM's vectoriser calls the vector form, which it finds by the attribute `vector-function-abi-variant` of the scalar
one.

What holds: the instructions of both forms are those that were inlined, so no bit changes. Compile time grows with
the number of different functions instead of call sites; a chain of fifty takes a fifteenth of the time, and runs as
fast. Few call sites stay inline, where constants stay in registers over the whole loop; a function of more than
`LONG` instructions has too many for that. What other ops do stays inline until all copies of it come to `COPIES`
instructions: it shares parts with its neighbours, such as what depends on the same divisor. Calls on vectors are
counted by themselves, each loop's twice. A call within a function that is inlined counts as often as that is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from broadloom.codegen.llvm import Function, lanes_of
from broadloom.codegen.module import ModuleBuilder
from broadloom.codegen.types import width
from broadloom.records import dataclass

LIMIT = 4
LONG = 100
COPIES = 2000
BODIES = 2  # of a loop whose vectors are written out: of whole vectors, and of what is left
_ATTRIBUTES = "noinline nounwind willreturn speculatable memory(none)"
_CALL = re.compile(r" call [^@]+ @(bl\.[\w.]+)\(")
_ACCESS = re.compile(r"(?:load|store) (i8|i16|i32|i64|half|bfloat|float|double)\b")


def vector_bits(features: frozenset[str]) -> int:
    """The width of the registers that the vectoriser fills, by the enabled features of the target."""
    if "avx512f" in features and "prefer-256-bit" not in features:
        return 512
    return 256 if "avx2" in features else 128


def outline(module: ModuleBuilder, *, brief: bool = False) -> None:
    """Gives the functions that `module` calls often a body of their own and a vector form; with `brief` those that it
    calls twice, and no vector form, which nothing would find."""
    if not module.forms:
        return
    calls = _Calls.of(module)
    often = [f for f in calls.often(brief=brief) if lanes_of(f.params[0]) == 1]
    widths = calls.widths() if often and not brief else frozenset[int]()
    made: list[Function] = []
    for f in often:
        name = f.name[1:]
        forms = [] if brief else [(n, module.forms[name](n)) for n in _lane_counts(module, f, widths)]
        variants = ",".join(f"_ZGV_LLVM_N{n}{'v' * len(f.params)}_{name}({form.name[1:]})" for n, form in forms)
        tail = f' "vector-function-abi-variant"="{variants}"' if forms else ""
        module.set_attributes(name, _ATTRIBUTES + tail)
        made += [form for _, form in forms]
    for form in made:
        module.set_attributes(form.name[1:], _ATTRIBUTES)
    apart = frozenset(f.name[1:] for f in made)
    calls = _Calls.of(module) if made else calls  # which now come from the forms, too
    for f in calls.often(apart, brief=brief):  # by vectors that the module makes itself
        if lanes_of(f.params[0]) > 1:
            module.set_attributes(f.name[1:], _ATTRIBUTES)
    module.keep([form.pointer for form in made])


def _lane_counts(module: ModuleBuilder, function: Function, widths: frozenset[int]) -> list[int]:
    """How many lanes the vectoriser may ask of a function: what a register holds of its own widest element, and of each
    wider one that the module loads or stores beside."""
    own = max(width(t) for t in function.params)
    counts = {vector_bits(module.features) // bits for bits in (own, *(w for w in widths if w > own))}
    return sorted((n for n in counts if n > 1), reverse=True)


@dataclass(frozen=True, slots=True)
class _Calls:
    """Which functions of lanes each function of the module calls, and how often; how long each is by itself."""

    module: ModuleBuilder
    texts: Mapping[str, str]
    calls: Mapping[str, Counter[str]]
    ops: frozenset[str]  # the stems of those that are an op's

    @staticmethod
    def of(module: ModuleBuilder) -> _Calls:
        texts = {f.ref.name[1:]: str(f) for f in module.functions}
        found = {n: Counter(c for c in _CALL.findall(t) if c in module.forms) for n, t in texts.items()}
        return _Calls(module, texts, found, frozenset(module.stems.values()))

    def widths(self) -> frozenset[int]:
        """The bits of the elements that the module loads and stores one by one."""
        return frozenset(width(t) for t in set(_ACCESS.findall("".join(self.texts.values()))))

    def often(self, apart: frozenset[str] = frozenset(), *, brief: bool) -> Iterator[Function]:
        """The functions with more call sites than their length allows, callers first. Those `apart` have a body of
        their own already."""
        sizes: dict[str, int] = {}
        order: dict[str, None] = {}
        for name in self.calls:
            self._visit(name, sizes, order)
        counts: Counter[str] = Counter()
        for name in reversed(order):
            times = counts[name]
            if name not in self.module.forms or name in apart:
                times = 1
            elif times > self._allowed(name, sizes[name], brief=brief):
                yield self.module.find(name).ref
                times = 1
            for called, number in self.calls[name].items():
                counts[called] += number * times

    def _allowed(self, name: str, size: int, *, brief: bool) -> int:
        if brief:
            return 1
        bodies = 1 if lanes_of(self.module.find(name).ref.params[0]) == 1 else BODIES
        few = COPIES // size if name.rpartition(".")[0].removeprefix("bl.") in self.ops else LIMIT
        return bodies * (1 if size > LONG else few)

    def _visit(self, name: str, sizes: dict[str, int], order: dict[str, None]) -> None:
        """Sizes with what is inlined, in an order in which callers come last."""
        if name in order:
            return
        size = self.module.find(name).instructions
        for called, number in self.calls[name].items():
            self._visit(called, sizes, order)
            size += number * sizes[called]
        sizes[name] = max(1, size)
        order[name] = None
