"""The typed builder of the text of an LLVM function: instructions (`instructions.py`), and loops and branches made of
them; `module.py` builds modules of these.

What goes in: calls, on `Val`s that carry their LLVM type. What comes out: the text of a function, the same text for the
same calls. What holds: loops and branches leave the builder at a block of their own behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from broadloom.codegen.instructions import Block, Function, Instructions, Param, Phi, mangle
from broadloom.codegen.parts import PLAIN
from broadloom.codegen.values import (
    NULL,
    Val,
    check,
    class_of,
    const_bits,
    const_float,
    const_int,
    constant,
    element_of,
    i1,
    i8,
    i32,
    i64,
    is_constant,
    lanes_of,
    like,
    literal_text,
    vector,
)
from broadloom.errors import VerifyError

if TYPE_CHECKING:
    from broadloom.codegen.module import ModuleBuilder

__all__ = [
    "NULL",
    "Block",
    "Function",
    "FunctionBuilder",
    "Param",
    "Phi",
    "Val",
    "const_bits",
    "const_float",
    "const_int",
    "constant",
    "element_of",
    "i1",
    "i8",
    "i32",
    "i64",
    "is_constant",
    "lanes_of",
    "like",
    "literal_text",
    "mangle",
    "vector",
]


class FunctionBuilder(Instructions):
    """Builds one function."""

    def __init__(self, module: ModuleBuilder, ref: Function, header: str, params: Sequence[Param]) -> None:
        super().__init__(module, ref, header, params)
        self.loops = 0  # how many `for_loop` has made
        self.plain = False  # whether it has loops that LLVM's vectoriser is to make vectors of
        self.hides = False  # whether its loops hide their counters
        self._hidden: dict[str, str] = {}  # by line that names a counter anew, those that hide where it comes from

    def set_attributes(self, attributes: str) -> None:
        """Gives the function these attributes instead of its own."""
        self._header = f"{self._header[: self._header.rindex(')') + 1]} {attributes} {{"

    # -- structured control flow --

    def fenced(self, name: str = "pre") -> Block:
        """Ends the current block with a branch to a new one, and returns it: code can be put at its end later."""
        fence = self.current
        following = self.block(name)
        self.br(following)
        self.at(following)
        return fence

    def for_loop(
        self,
        start: Val,
        end: Val,
        body: Callable[..., Sequence[Val] | None],
        carried: Sequence[Val] = (),
        *,
        step: Val | int = 1,
        flags: str = "nsw",
        name: str = "loop",
        metadata: str = "",
    ) -> tuple[Val, ...]:
        """`for i in range(start, end, step)`, step positive: `body(i, *carried)` returns the next carried values; the
        last ones are returned. `flags` go to the counter's increment, `metadata` to the back edge."""
        check(start.type == end.type and class_of(start.type)[0] == "i", "for_loop", start, end)
        self.loops += 1
        head, inside, out = self.block(name), self.block(name + ".body"), self.block(name + ".end")
        before = self.current
        self.br(head)
        self.at(head)
        counter = self.phi(start.type, (start, before))
        phis = [self.phi(v.type, (v, before)) for v in carried]
        self.cond_br(self.icmp("slt", counter.value, end), inside, out)
        self.at(inside)
        result = body(self.hidden(counter.value) if self.hides else counter.value, *(p.value for p in phis)) or ()
        stride = const_int(start.type, step) if isinstance(step, int) else step
        counter.add(self.add(counter.value, stride, flags), self.current)
        for phi, new in zip(phis, result, strict=True):
            phi.add(new, self.current)
        self.br(head, metadata)
        self.at(out)
        return tuple(p.value for p in phis)

    def hidden(self, counter: Val) -> Val:
        """The counter of a loop under another name, which hides from LLVM what it counts, where no vectoriser is to see
        the loop. Loop strength reduction takes up to two fifths of the code generator's time to rewrite addresses that
        are a base and an offset already. To strip a pointer of its invariant group is no code."""
        if counter.type != "i64":
            return counter
        strip = self.module.declare("llvm.strip.invariant.group.p0", "ptr", ("ptr",))
        named = self.value("i64", f"add i64 {counter.text}, 0")
        n = named.text
        self._hidden[f"  {n} = add i64 {counter.text}, 0"] = (
            f"  {n}.at = inttoptr i64 {counter.text} to ptr\n"
            f"  {n}.some = call ptr {strip.name}(ptr {n}.at)\n"
            f"  {n} = ptrtoint ptr {n}.some to i64"
        )
        return named

    def if_then(
        self,
        condition: Val,
        then: Callable[[], Sequence[Val] | None],
        otherwise: Callable[[], Sequence[Val] | None] | None = None,
    ) -> tuple[Val, ...]:
        """Runs one of two branches; both return as many values, which are joined. A branch that ends in a
        terminator of its own (a return) takes no part in the join."""
        yes, no, out = self.block("then"), self.block("else"), self.block("join")
        self.cond_br(condition, yes, no)
        arms = []
        for block, run in ((yes, then), (no, otherwise)):
            self.at(block)
            values = tuple((run() if run is not None else None) or ())
            if not self.current.terminated:
                arms.append((values, self.current))
                self.br(out)
        self.at(out)
        if not arms:
            self.unreachable()
            return ()
        if len(arms) == 1:
            return arms[0][0]
        (a, from_a), (b, from_b) = arms
        return tuple(self.phi(x.type, (x, from_a), (y, from_b)).value for x, y in zip(a, b, strict=True))

    def __str__(self) -> str:
        lines = [f'{self._header[:-1]}"{PLAIN}" {{' if self.plain else self._header]
        hidden = {} if self.plain or " optnone " in self._header else self._hidden
        for block in self.blocks:
            if not block.terminated:
                raise VerifyError("block without a terminator", got=f"{block.label} of {self.ref.name}")
            lines.append(f"{block.label}:")
            if block is self.entry:
                lines.extend(self._allocas)
            lines.extend([hidden.get(line, line) for line in block.lines] if hidden else block.lines)
        lines.append("}\n")
        return "\n".join(lines)
