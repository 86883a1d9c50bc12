"""Core signatures: NumPy's gufunc grammar (NEP 20), complete, over symbolic sizes.

What goes in: text such as `(m?,n),(n,p?)->(m?,p?)`, and operand shapes. What comes out: a `Signature`; for given
shapes the broadcast loop shape, the size of every named core dim, and the output shapes.

What holds: an operand's shape is loop dims followed by core dims, and loop dims broadcast.
`Signature.parse(str(s)) == s`. The grammar of one core dim:

    n        a named size, equal wherever it occurs      3        a fixed size
    n? 3?    optional: an operand of too low rank leaves it out, and it is absent everywhere
    n|1 3|1  broadcastable: an operand may have 1 there; with `?` as well, an absent dim counts as 1
    n#       in a variadic operand: each operand has its own n; in an output the sum of them
    [s0*2]   a fixed symbolic size

The last operand may be followed by `...`: one or more such operands. An output dim is an expression of `+ - * //`,
`min(,)`, `max(,)`, parentheses and the dims above; there `#` is the number of variadic operands and `m!` is a
size that the op itself supplies (it follows from dtypes or attributes, not from the other dims).

Source: NEP 20, https://numpy.org/neps/nep-0020-gufunc-signature-enhancement.html
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from broadloom.errors import ParseError, ShapeError
from broadloom.records import dataclass
from broadloom.symbolic import Expr, Relation, Size, Symbol, add, eq, floordiv, lt, mul, proves, smax, smin, sub
from broadloom.symbolic import parse as parse_size

Shape = tuple[Size, ...]
Decide = Callable[[Relation], bool]
Operator = Literal["+", "-", "*", "//", "min", "max"]


@dataclass(frozen=True, slots=True)
class Dim:
    """One core dim: a name or a fixed size, with its flags (see the module docstring)."""

    size: str | Size
    optional: bool = False
    broadcastable: bool = False
    each: bool = False
    given: bool = False

    def __str__(self) -> str:
        text = f"[{self.size}]" if isinstance(self.size, Expr) else str(self.size)
        marks = ((self.each, "#"), (self.given, "!"), (self.optional, "?"), (self.broadcastable, "|1"))
        return text + "".join(mark for on, mark in marks if on)


@dataclass(frozen=True, slots=True)
class Count:
    """The number of variadic operands, as an output size."""

    def __str__(self) -> str:
        return "#"


@dataclass(frozen=True, slots=True)
class Combine:
    """An output size computed from two others."""

    operator: Operator
    left: Expression
    right: Expression

    def __str__(self) -> str:
        if self.operator in ("min", "max"):
            return f"{self.operator}({self.left},{self.right})"
        rank = _PRECEDENCE[self.operator]
        left, right = (_parenthesised(x, limit) for x, limit in ((self.left, rank), (self.right, rank + 1)))
        return f"{left}{self.operator}{right}"


Expression = Dim | Count | Combine
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "//": 2}
_COMBINE: dict[str, Callable[[Size, Size], Size]] = {
    "+": add, "-": sub, "*": mul, "//": floordiv, "min": smin, "max": smax,
}  # fmt: skip


def _parenthesised(e: Expression, limit: int) -> str:
    low = isinstance(e, Combine) and _PRECEDENCE.get(e.operator, 3) < limit
    return f"({e})" if low else str(e)


@dataclass(frozen=True, slots=True)
class Signature:
    """A core signature.

    >>> s = Signature.parse("(m?,n),(n,p?)->(m?,p?)")
    >>> loop, dims = s.bind([(7, 1, 2, 3), (5, 3, 4)])
    >>> loop, dims, s.output_shapes(loop, dims)
    ((7, 5), {'m': 2, 'n': 3, 'p': 4}, ((7, 5, 2, 4),))
    >>> loop, dims = s.bind([(3,), (5, 3, 4)])
    >>> s.output_shapes(loop, dims)
    ((5, 4),)
    """

    inputs: tuple[tuple[Dim, ...], ...]
    outputs: tuple[tuple[Expression, ...], ...]
    variadic: bool = False

    def __post_init__(self) -> None:
        if self.variadic and not self.inputs:
            raise ParseError("a variadic signature needs an operand before '...'", got=str(self))
        if not self.outputs:
            raise ParseError("a signature needs at least one output", got=str(self))
        names = {d.size for dims in self.inputs for d in dims if isinstance(d.size, str)}
        for d in (leaf for out in self.outputs for e in out for leaf in _leaves(e)):
            if isinstance(d.size, str) and not d.given and d.size not in names:
                raise ParseError("an output dim is named in no operand", got=f"{d.size!r} in {self}")

    def __str__(self) -> str:
        inputs = ",".join(f"({','.join(map(str, dims))})" for dims in self.inputs)
        outputs = ",".join(f"({','.join(map(str, dims))})" for dims in self.outputs)
        return f"{inputs}{'...' if self.variadic else ''}->{outputs}"

    @staticmethod
    def parse(text: str, symbols: Mapping[str, Symbol] | None = None) -> Signature:
        """The signature of `text`; `symbols` are those that stand in `[...]` sizes. Raises `ParseError`."""
        return _Parser(text, symbols or {}).signature()

    def operands(self, count: int) -> tuple[tuple[Dim, ...], ...]:
        """The core dims of each of `count` operands. Raises `ShapeError` if the signature takes another number."""
        if self.variadic:
            if count >= len(self.inputs):
                return self.inputs + self.inputs[-1:] * (count - len(self.inputs))
        elif count == len(self.inputs):
            return self.inputs
        more = " or more" if self.variadic else ""
        raise ShapeError(f"wrong number of operands for {self}", got=count, allowed=f"{len(self.inputs)}{more}")

    def core_ranks(self, count: int) -> tuple[int, ...]:
        """How many core dims each of `count` operands has, optional ones included."""
        return tuple(len(dims) for dims in self.operands(count))

    def bind(
        self, shapes: Sequence[Shape], decide: Decide | None = None, op: str | None = None
    ) -> tuple[Shape, dict[str, Size]]:
        """The broadcast loop shape, and the size of each named core dim.

        An absent optional dim is left out of the dims; `n#` of a variadic operand is entered as `"n#"`, the sum,
        and the number of variadic operands as `"#"`. Whether two symbolic sizes are equal is proven, or asked of
        `decide(relation)`; without `decide` what cannot be proven is an error. Raises `ShapeError`.
        """
        ask = _Ask(decide, op, self, tuple(shapes))
        specs = self.operands(len(shapes))
        if not self.variadic and not any(specs):
            return ask.broadcast(shapes), {}
        missing = _missing_dims(specs, shapes, ask)
        loops: list[Shape] = []
        found: dict[str, list[tuple[Size, bool]]] = {}
        for spec, shape in zip(specs, shapes, strict=True):
            dims = [d for d in spec if not (d.optional and not d.broadcastable and d.size in missing)]
            rank = min(len(dims), len(shape))
            dims = dims[len(dims) - rank :]
            loops.append(tuple(shape[: len(shape) - rank]))
            for d, size in zip(dims, shape[len(shape) - rank :], strict=True):
                if isinstance(d.size, str):
                    found.setdefault(f"{d.size}#" if d.each else d.size, []).append((size, d.broadcastable))
                elif not (d.broadcastable and equal(d.size, size) is not True and ask.is_one(size)):
                    ask.require_equal(d.size, size, f"core dim {d}")
        bound: dict[str, Size] = {}
        for name, sizes in found.items():
            bound[name] = _sum(s for s, _ in sizes) if name.endswith("#") else ask.unify(name, sizes)
        if self.variadic:
            bound["#"] = len(shapes) - len(self.inputs) + 1
        return ask.broadcast(loops), bound

    def output_shapes(self, loop: Shape, dims: Mapping[str, Size]) -> tuple[Shape, ...]:
        """The output shapes for what `bind` returned (with the sizes marked `!` added to `dims`)."""
        shapes = []
        for out in self.outputs:
            core = [_size(e, dims) for e in out if not (isinstance(e, Dim) and e.optional and e.size not in dims)]
            for e, size in zip(out, core, strict=False):
                negative = lt(size, 0)
                if negative is True or (not isinstance(negative, bool) and proves(negative) is True):
                    raise ShapeError(f"output size {e} of {self} is negative", got=size, allowed="0 or more")
            shapes.append((*loop, *core))
        return tuple(shapes)


def equal(a: Size, b: Size, decide: Decide | None = None) -> bool | None:
    """Whether two sizes are equal: by proof, else by `decide`; None when neither settles it.

    >>> equal(3, 3), equal(3, 4)
    (True, False)
    """
    return holds(eq(a, b), decide)


def holds(relation: Relation | bool, decide: Decide | None = None) -> bool | None:
    """Whether a relation holds: by proof, else by `decide`; None when neither settles it."""
    if isinstance(relation, bool):
        return relation
    proof = proves(relation)
    if proof is None and decide is not None:
        return decide(relation)
    return proof


@dataclass(frozen=True, slots=True)
class _Ask:
    """The questions of one binding, with what its error messages need."""

    decide: Decide | None
    op: str | None
    signature: Signature
    shapes: tuple[Shape, ...]

    def error(self, what: str, remedy: str | None = None) -> ShapeError:
        got = ", ".join(_shape_text(s) for s in self.shapes) or "no operands"
        of = f"{self.op}: {self.signature}" if self.op else str(self.signature)
        return ShapeError(f"{of}: {what}", got=f"shapes {got}", remedy=remedy)

    def undecided(self, a: Size, b: Size) -> ShapeError:
        remedy = "make the sizes static, or give them one symbol"
        return self.error(f"whether {a} equals {b} cannot be proven", remedy)

    def is_one(self, size: Size) -> bool:
        return bool(equal(size, 1, self.decide))

    def require_equal(self, want: Size, got: Size, where: str) -> Size:
        answer = equal(want, got, self.decide)
        if answer is None:
            raise self.undecided(want, got)
        if not answer:
            raise self.error(f"{where} is {got}, not {want}")
        return got if isinstance(got, int) else want

    def unify(self, name: str, sizes: Sequence[tuple[Size, bool]]) -> Size:
        """One size for a name: operands without `|1` must agree, the others agree or are 1."""
        strict = [s for s, broadcastable in sizes if not broadcastable]
        if not strict:
            return self.broadcast([(s,) for s, _ in sizes])[0]
        result = strict[0]
        for s in strict[1:]:
            result = self.require_equal(result, s, f"core dim {name}")
        for s, broadcastable in sizes:
            if broadcastable and s != 1 and equal(result, s) is not True and not self.is_one(s):
                result = self.require_equal(result, s, f"core dim {name}")
        return result

    def broadcast(self, shapes: Sequence[Shape]) -> Shape:
        rank = max(map(len, shapes), default=0)
        result: list[Size] = [1] * rank
        for shape in shapes:
            for i, size in enumerate(shape, rank - len(shape)):
                result[i] = self.broadcast_size(result[i], size)
        return tuple(result)

    def broadcast_size(self, a: Size, b: Size) -> Size:
        if isinstance(a, int) and a == 1:
            return b
        if isinstance(b, int) and b == 1:
            return a
        same = equal(a, b, self.decide)
        if same:
            return b if isinstance(b, int) else a
        for one, other in ((a, b), (b, a)):
            if not isinstance(one, int) and equal(one, 1, self.decide):
                return other
        if same is None:
            raise self.undecided(a, b)
        raise self.error(f"loop dims {a} and {b} do not broadcast", "make them equal, or one of them 1")


def _missing_dims(specs: Sequence[tuple[Dim, ...]], shapes: Sequence[Shape], ask: _Ask) -> set[str | Size]:
    """The optional dims to leave out so that no operand has fewer dims than its core, as NumPy finds them."""
    missing: set[str | Size] = set()
    for i, (spec, shape) in enumerate(zip(specs, shapes, strict=True)):
        lack = len([d for d in spec if d.broadcastable or d.size not in missing or not d.optional]) - len(shape)
        for d in spec:
            if lack > 0 and d.optional and (d.broadcastable or d.size not in missing):
                lack -= 1
                if not d.broadcastable:
                    missing.add(d.size)
        if lack > 0:
            core = f"({','.join(map(str, spec))})"
            raise ask.error(f"operand {i} has {len(shape)} dims, fewer than its core dims {core}")
    return missing


def _leaves(e: Expression) -> Iterator[Dim]:
    if isinstance(e, Combine):
        yield from _leaves(e.left)
        yield from _leaves(e.right)
    elif isinstance(e, Dim):
        yield e


def _size(e: Expression, dims: Mapping[str, Size]) -> Size:
    if isinstance(e, Combine):
        return _COMBINE[e.operator](_size(e.left, dims), _size(e.right, dims))
    if isinstance(e, Count):
        return dims["#"]
    if isinstance(e.size, str):
        return dims[f"{e.size}#" if e.each else e.size]
    return e.size


def _sum(sizes: Iterator[Size]) -> Size:
    total: Size = 0
    for s in sizes:
        total = add(total, s)
    return total


def _shape_text(shape: Shape) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


_TOKEN = re.compile(r"\s*(->|\.\.\.|//|\|1|\[[^\]]*\]|[A-Za-z_]\w*|\d+|[-+*(),?#!])")


class _Parser:
    """Recursive descent over the tokens of one signature."""

    def __init__(self, text: str, symbols: Mapping[str, Symbol]) -> None:
        self.text, self.symbols, self.position = text, symbols, 0
        self.tokens: list[tuple[str, int]] = []
        at, end = 0, len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None:
                raise self.error("unexpected character", at)
            self.tokens.append((match[1], match.start(1)))
            at = match.end()

    def error(self, what: str, at: int | None = None) -> ParseError:
        if at is None:
            at = self.tokens[self.position][1] if self.position < len(self.tokens) else len(self.text)
        return ParseError(
            f"signature: {what} at column {at + 1}", got=repr(self.text), allowed="such as '(m?,n),(n,p?)->(m?,p?)'"
        )

    @property
    def token(self) -> str:
        return self.tokens[self.position][0] if self.position < len(self.tokens) else ""

    def accept(self, *texts: str) -> str:
        found = self.token
        if found not in texts:
            return ""
        self.position += 1
        return found

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.error(f"expected {text!r}")

    def signature(self) -> Signature:
        inputs: list[tuple[Dim, ...]] = []
        while self.token == "(":
            inputs.append(tuple(self.dim(output=False) for _ in self.items()))
            if not self.accept(","):
                break
        variadic = bool(self.accept("..."))
        self.expect("->")
        outputs = [tuple(self.sum() for _ in self.items())]
        while self.accept(","):
            outputs.append(tuple(self.sum() for _ in self.items()))
        if self.position < len(self.tokens):
            raise self.error("expected the end")
        return Signature(tuple(inputs), tuple(outputs), variadic)

    def items(self) -> Iterator[None]:
        """Yields before each dim of a parenthesised list."""
        self.expect("(")
        if self.accept(")"):
            return
        yield
        while self.accept(","):
            yield
        self.expect(")")

    def dim(self, output: bool) -> Dim:
        token = self.token
        if not token or not (token[0].isalnum() or token[0] in "_["):
            raise self.error("expected a dim")
        self.position += 1
        size: str | Size = token
        if token[0] == "[":
            size = parse_size(token[1:-1], dict(self.symbols))
        elif token.isdigit():
            size = int(token)
        named = isinstance(size, str)
        each = named and bool(self.accept("#"))
        given = named and output and bool(self.accept("!"))
        optional = bool(self.accept("?"))
        broadcastable = not output and bool(self.accept("|1"))
        return Dim(size, optional, broadcastable, each, given)

    def sum(self) -> Expression:
        left = self.product()
        while operator := self.accept("+", "-"):
            left = Combine("+" if operator == "+" else "-", left, self.product())
        return left

    def product(self) -> Expression:
        left = self.atom()
        while operator := self.accept("*", "//"):
            left = Combine("*" if operator == "*" else "//", left, self.atom())
        return left

    def atom(self) -> Expression:
        if self.accept("("):
            inner = self.sum()
            self.expect(")")
            return inner
        if self.accept("#"):
            return Count()
        following = self.tokens[self.position + 1][0] if self.position + 1 < len(self.tokens) else ""
        if self.token in ("min", "max") and following == "(":
            operator: Operator = "min" if self.token == "min" else "max"
            self.position += 2
            left = self.sum()
            self.expect(",")
            right = self.sum()
            self.expect(")")
            return Combine(operator, left, right)
        return self.dim(output=True)
