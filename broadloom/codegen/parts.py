"""The two parts of a module: what LLVM's vectoriser is to see, and what has its vectors written out.

What goes in: the text of a module, whose functions say with the attribute `PLAIN` that they have loops of scalars to
make vectors of. What comes out: one text for these functions with all that they call, and one for all others, which
together define what the whole does; nothing where one list of passes is as well for all of it. What holds: a function
is in one part, unless it is to be inlined; where the other part calls it, it is declared there.
"""

from __future__ import annotations

import re

from broadloom.records import dataclass

READY = (
    "broadloom.ready"  # the mark of a module that says of its loops which are to stay as they are: all but PLAIN ones
)
PLAIN = "broadloom-plain"

LEAST = 150  # lines of functions without such loops from where on they go their own way
_NAME = re.compile(r"@([\w.]+)")
_DEFINED = re.compile(r"(?m)^define [^@\n]*@([\w.]+)\(")
_FUNCTION = re.compile(r"(?ms)^define .*?^}\n")
_INTERNAL = "define internal "
_FORMS = ' "vector-function-abi-variant"='  # of a scalar function that has vector forms


@dataclass(frozen=True, slots=True)
class Parts:
    """Texts of modules that are to be linked, after which the functions `opened` are internal."""

    plain: str
    others: str
    opened: tuple[str, ...]


def is_ready(text: str) -> bool:
    """Whether all loops of the module are to stay as they are.

    >>> is_ready("!broadloom.ready = !{}"), is_ready("define void @f() { ret void }")
    (True, False)
    """
    return f"!{READY} = " in text and f' "{PLAIN}" ' not in text


def parts_of(text: str) -> Parts | None:
    """The parts of a module that has both kinds of functions, and enough without loops of scalars."""
    if f' "{PLAIN}" ' not in text:
        return None
    start = text.index("\ndefine ") + 1
    end = text.find("\n!", start) + 1 or len(text)
    functions = dict(zip(_DEFINED.findall(text, start, end), _FUNCTION.findall(text, start, end), strict=True))
    head = text[:start].splitlines(keepends=True)
    data = {line[1 : line.index(" ")]: line for line in head if line.startswith("@")}
    found = functions | data
    roots = [n for n, f in functions.items() if f' "{PLAIN}" ' in f] + [n for n in data if n == "llvm.compiler.used"]
    plain = _closure(roots, found)
    own = [n for n, f in functions.items() if n not in plain and " alwaysinline " not in f.partition("\n")[0]]
    if sum(functions[n].count("\n") for n in own if " optnone " not in functions[n].partition("\n")[0]) < LEAST:
        return None
    apart = {n for n in plain if n in functions and " alwaysinline " not in functions[n].partition("\n")[0]}
    others = _closure(own, {n: t for n, t in found.items() if n not in apart})
    crossing = sorted({n for o in others if o in found for n in _NAME.findall(found[o])} & apart)
    # Seen in one module alone, it may lose an argument that is always the same, and is no longer like its vector forms.
    open_ = sorted({*crossing, *(n for n in plain & functions.keys() if _FORMS in functions[n].partition("\n")[0])})
    rest = "".join(line for line in head if not line.startswith("@"))
    tail = text[end:]

    def whole(names: set[str], opened: list[str], declared: list[str]) -> str:
        texts = [t for n, t in data.items() if n in names] + [_declaration(functions[n]) for n in declared]
        for n, t in functions.items():
            if n in names:
                texts.append(t.replace(_INTERNAL, "define ", 1) if n in opened else t)
        return "".join((rest, *texts, tail))

    return Parts(
        whole(plain, open_, []),
        whole(others, [], crossing),
        tuple(n for n in open_ if functions[n].startswith(_INTERNAL)),
    )


def _closure(roots: list[str], texts: dict[str, str]) -> set[str]:
    """The names that are reached from these, of those that have a text."""
    reached: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in reached and name in texts:
            reached.add(name)
            waiting += _NAME.findall(texts[name])
    return reached


def _declaration(definition: str) -> str:
    head = definition.partition("\n")[0].removesuffix(" {")
    head = head.replace(_INTERNAL, "declare ", 1) if head.startswith(_INTERNAL) else "declare" + head[6:]
    return re.sub(r" %[\w.]+(?=[,)])", "", head) + "\n"
