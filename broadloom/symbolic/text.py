"""The written form of sizes, and back.

What goes in: a `Size`, or a text and the symbols it may name. What comes out: the text, or the `Size`.
What holds: ``parse(str(e), symbols) is e``; the text depends on structure alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from broadloom.errors import ParseError
from broadloom.symbolic import simplify
from broadloom.symbolic.expr import Add, Expr, FloorDiv, Max, Min, Mod, Mul, Size, Symbol, add, mul, sub

_TOKEN = re.compile(r"\s*(\d+|[^\W\d]\w*|//|[-+*%(),]|\S)")
_DEEPEST = 100
_LONGEST_NUMBER = 1000  # digits


def print_expr(e: Size) -> str:
    """`e` as Python would write it, products before sums, constants last."""
    if not isinstance(e, Expr):
        return str(e)
    if isinstance(e, Symbol):
        return e.name
    if isinstance(e, Add):
        return _print_sum(e)
    if isinstance(e, Mul):
        factors = "*".join(_print_factor(f) for f in e.factors)
        if e.coefficient == 1:
            return factors
        return f"-{factors}" if e.coefficient == -1 else f"{e.coefficient}*{factors}"
    if isinstance(e, FloorDiv):
        return f"{_print_factor(e.dividend)}//{_print_factor(e.divisor)}"
    if isinstance(e, Mod):
        return f"{_print_factor(e.dividend)} % {_print_factor(e.divisor)}"
    name = "min" if isinstance(e, Min) else "max"
    return f"{name}({', '.join(print_expr(o) for o in e.args)})"


def _print_sum(e: Add) -> str:
    parts: list[str] = []
    for operand in e.args:
        text = _print_term(operand)
        if not parts:
            parts.append(text)
        elif text.startswith("-"):
            parts.append(f" - {text[1:]}")
        else:
            parts.append(f" + {text}")
    return "".join(parts)


def _print_term(e: Size) -> str:
    return f"({print_expr(e)})" if isinstance(e, Mod) else print_expr(e)


def _print_factor(e: Size) -> str:
    """With parentheses unless it binds as tightly as a name."""
    bare = isinstance(e, Symbol | Min | Max) or (isinstance(e, int) and e >= 0)
    return print_expr(e) if bare else f"({print_expr(e)})"


def parse(text: str, symbols: Mapping[str, Symbol]) -> Size:
    """The size that `text` writes. Raises ParseError for a text that is malformed or names an unknown symbol.

    >>> n = Symbol("n")
    >>> parse("2*n + n // 4", {"n": n}) is 2 * n + n // 4
    True
    """
    parser = _Parser(text, symbols)
    result = parser.sum(0)
    parser.expect("")
    return result


class _Parser:
    """Recursive descent: sum := product (+|- product)*; product := unary (*|//|% unary)*; unary := -unary | atom."""

    def __init__(self, text: str, symbols: Mapping[str, Symbol]) -> None:
        self.text, self.symbols = text, symbols
        self.tokens = [*_TOKEN.findall(text), ""]
        self.at = 0

    def take(self) -> str:
        token: str = self.tokens[self.at]
        self.at += 1
        return token

    def expect(self, token: str) -> None:
        got = self.take()
        if got != token:
            raise self.error(f"{token!r}" if token else "the end", got)

    def error(self, allowed: str, got: str) -> ParseError:
        return ParseError(
            f"cannot read the size {self.text!r}", got=repr(got) if got else "the end of the text", allowed=allowed
        )

    def sum(self, depth: int) -> Size:
        if depth > _DEEPEST:
            raise ParseError("a size is nested too deeply", got=f"{self.text[:40]}...", allowed=f"{_DEEPEST} levels")
        result = self.product(depth)
        while self.tokens[self.at] in ("+", "-"):
            sign = self.take()
            operand = self.product(depth)
            result = add(result, operand) if sign == "+" else sub(result, operand)
        return result

    def product(self, depth: int) -> Size:
        result = self.unary(depth)
        while self.tokens[self.at] in ("*", "//", "%"):
            sign = self.take()
            operand = self.unary(depth)
            if sign == "*":
                result = mul(result, operand)
            elif operand == 0:
                raise self.error("a divisor that is not zero", "0")
            else:
                result = simplify.floordiv(result, operand) if sign == "//" else simplify.mod(result, operand)
        return result

    def unary(self, depth: int) -> Size:
        negative = False
        while self.tokens[self.at] == "-":
            self.at += 1
            negative = not negative
        result = self.atom(depth)
        return mul(-1, result) if negative else result

    def atom(self, depth: int) -> Size:
        token = self.take()
        if token == "(":
            result = self.sum(depth + 1)
            self.expect(")")
            return result
        if token.isdecimal():
            if len(token) > _LONGEST_NUMBER:
                raise ParseError("a number is too long", got=f"{len(token)} digits", allowed=f"{_LONGEST_NUMBER}")
            return int(token)
        if token in ("min", "max"):
            return self.extremum(token, depth)
        if token in self.symbols:
            return self.symbols[token]
        known = ", ".join(sorted(self.symbols)) or "none"
        raise self.error(f"a number, a parenthesis, min, max, or a symbol ({known})", token)

    def extremum(self, name: str, depth: int) -> Size:
        self.expect("(")
        operands = [self.sum(depth + 1)]
        while self.tokens[self.at] == ",":
            self.at += 1
            operands.append(self.sum(depth + 1))
        self.expect(")")
        return simplify.smin(*operands) if name == "min" else simplify.smax(*operands)
