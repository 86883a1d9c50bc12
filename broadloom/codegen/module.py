"""The builder of an LLVM module.

What goes in: names, types, data, and functions to build. What comes out: the text of the module, the same text for the
same calls. What holds: globals, declarations, functions and metadata are there once each, in order of first use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broadloom.codegen.llvm import Function, FunctionBuilder, Param
from broadloom.codegen.values import Val
from broadloom.errors import VerifyError

LONG_DATA = 4096  # bytes from where on data are written quickly rather than to be read
_ESCAPED = tuple(chr(x) if 32 <= x < 127 and x not in (34, 92) else f"\\{x:02X}" for x in range(256))


class ModuleBuilder:
    """Builds one module: globals, declarations, functions and metadata, each once, in order of first use.

    >>> m = ModuleBuilder("m")
    >>> f = m.function("twice", "i32", [Param("i32", "x")])
    >>> f.ret(f.add(f.params[0], f.params[0]))
    >>> print(m, end="")
    ; module m
    define i32 @twice(i32 %x) {
    entry:
      %t1 = add i32 %x, %x
      ret i32 %t1
    }
    """

    def __init__(
        self, name: str, *, triple: str = "", data_layout: str = "", features: frozenset[str] = frozenset()
    ) -> None:
        self.name, self.triple, self.data_layout, self.features = name, triple, data_layout, features
        self._functions: dict[str, FunctionBuilder] = {}
        self._declarations: dict[str, tuple[Function, str]] = {}
        self._globals: dict[str, str] = {}
        self._data: dict[tuple[bytes, int], Val] = {}
        self._kept: list[str] = []
        self._metadata: list[str] = []
        self._nodes: dict[str, str] = {}
        self._marks: list[str] = []
        self.forms: dict[str, Callable[[int], Function]] = {}  # by function of lanes, what defines it for more lanes
        self.stems: dict[object, str] = {}  # the names of what ops do, without their lanes; "" where that is short
        self.sums = False  # whether it adds up in these, in an order that the vectoriser chooses

    def function(
        self,
        name: str,
        result: str,
        params: Sequence[Param] = (),
        *,
        linkage: str = "",
        attributes: str = "",
    ) -> FunctionBuilder:
        """Defines a function; raises `VerifyError` when the name is taken."""
        if name in self._functions:
            raise VerifyError("function defined twice", got=name)
        spelled = ", ".join(" ".join(x for x in (p.type, p.attributes, f"%{p.name}") if x) for p in params)
        head = " ".join(x for x in ("define", linkage, result, f"@{name}({spelled})", attributes, "{") if x)
        ref = Function(f"@{name}", result, tuple(p.type for p in params))
        builder = FunctionBuilder(self, ref, head, params)
        self._functions[name] = builder
        return builder

    def helper(
        self,
        name: str,
        result: str,
        params: Sequence[Param],
        build: Callable[[FunctionBuilder], None],
        attributes: str = "alwaysinline nounwind",
        *,
        form: Callable[[int], Function] | None = None,
    ) -> Function:
        """The function `name`, built by `build` at its first use: internal and inlined everywhere. `form` defines what
        does the same for vectors of so many lanes."""
        found = self._functions.get(name)
        if found is None:
            found = self.function(name, result, params, linkage="internal", attributes=attributes)
            if form is not None:
                self.forms[name] = form
            build(found)
        return found.ref

    def declare(
        self, name: str, result: str, params: Sequence[str], *, attributes: str = "", varargs: bool = False
    ) -> Function:
        """Declares an external function or intrinsic; again with the same type is the same function."""
        found = self._declarations.get(name)
        ref = Function(f"@{name}", result, tuple(params), varargs)
        if found is None:
            found = self._declarations[name] = (ref, attributes)
        elif found[0] != ref:
            raise VerifyError(f"{name} declared with two types", got=ref, allowed=str(found[0]))
        return found[0]

    def global_(self, name: str, type_: str, initializer: str, *, align: int = 0, kind: str = "constant") -> Val:
        """Private read-only data (or kind="global") with a ready initializer text."""
        if name not in self._globals:
            tail = f", align {align}" if align else ""
            self._globals[name] = f"@{name} = private unnamed_addr {kind} {type_} {initializer}{tail}"
        return Val("ptr", f"@{name}")

    def data(self, data: bytes, align: int = 64) -> Val:
        """Read-only bytes; equal bytes are one global."""
        found = self._data.get((data, align))
        if found is None:
            short = len(data) < LONG_DATA
            escaped = "".join(_ESCAPED[x] for x in data) if short else "\\" + data.hex("\\")
            found = self.global_(f"data.{len(self._data)}", f"[{len(data)} x i8]", f'c"{escaped}"', align=align)
            self._data[data, align] = found
        return found

    def table(self, name: str, type_: str, texts: Sequence[str], *, align: int = 64) -> Val:
        """A read-only array of `type_` with these element texts, once per name."""
        return self.global_(
            name, f"[{len(texts)} x {type_}]", f"[{', '.join(f'{type_} {t}' for t in texts)}]", align=align
        )

    @property
    def functions(self) -> tuple[FunctionBuilder, ...]:
        """The functions defined so far, in order."""
        return tuple(self._functions.values())

    def find(self, name: str) -> FunctionBuilder:
        """The defined function `name`."""
        return self._functions[name]

    def set_attributes(self, name: str, attributes: str) -> None:
        """Gives the defined function `name` these attributes instead of its own."""
        self._functions[name].set_attributes(attributes)

    def keep(self, functions: Sequence[Val]) -> None:
        """Has LLVM keep functions that nothing in the module calls yet."""
        self._kept += [text for f in functions if (text := f"ptr {f.text}") not in self._kept]
        if self._kept:
            texts = ", ".join(self._kept)
            self._globals["llvm.compiler.used"] = (
                f'@llvm.compiler.used = appending global [{len(self._kept)} x ptr] [{texts}], section "llvm.metadata"'
            )

    def discard(self, name: str) -> None:
        """Takes a function back that nothing calls yet."""
        del self._functions[name]
        self.forms.pop(name, None)

    def metadata(self, text: str, *, distinct: bool = False) -> str:
        """The number (`!3`) of the metadata node `!{text}`; in a distinct node "self" stands for its own number."""
        if not distinct and text in self._nodes:
            return self._nodes[text]
        number = f"!{len(self._metadata)}"
        body = f"!{{{text.replace('self', number)}}}"
        self._metadata.append(f"{number} = {'distinct ' if distinct else ''}{body}")
        if not distinct:
            self._nodes[text] = number
        return number

    def mark(self, name: str) -> None:
        """Says something of the whole module, by a named metadata node without operands."""
        if name not in self._marks:
            self._marks.append(name)

    def __str__(self) -> str:
        parts = [f"; module {self.name}\n"]
        if self.data_layout:
            parts.append(f'target datalayout = "{self.data_layout}"\n')
        if self.triple:
            parts.append(f'target triple = "{self.triple}"\n')
        parts.extend(g + "\n" for g in self._globals.values())
        for name, (ref, attributes) in self._declarations.items():
            if name not in self._functions:
                spelled = ", ".join((*ref.params, "...") if ref.varargs else ref.params)
                tail = f" {attributes}" if attributes else ""
                parts.append(f"declare {ref.result} {ref.name}({spelled}){tail}\n")
        parts.extend(map(str, self._functions.values()))
        parts.extend(m + "\n" for m in self._metadata)
        parts.extend(f"!{name} = !{{}}\n" for name in self._marks)
        return "".join(parts)
