"""Operators on LLVM values, so that scalar mathematics reads as mathematics.

What goes in: a `FunctionBuilder` and a `Val`. What comes out: a `Lane`, whose operators emit instructions.

What holds: Python numbers become constants of the other operand's type; float comparisons are false on nan except
`ne`; integer comparisons name their sign (`slt`, `ult`); all works as well on vectors, lane by lane; nothing emitted
here branches, calls a library or sets a fast-math flag. `fma` is one instruction where the target has it and a
product and a sum where it has not: what needs the exact product asks `has_fma`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from broadloom.codegen import llvm
from broadloom.codegen.llvm import Function, FunctionBuilder, Param, Val
from broadloom.codegen.module import ModuleBuilder
from broadloom.codegen.types import width

Number = int | float

_INT_OF = {"half": "i16", "float": "i32", "double": "i64"}
_FLOAT_OF = {"i16": "half", "i32": "float", "i64": "double"}
_LITERAL = re.compile(r"(?:splat \(i\d+ )?(-?\d+)\)?")
_FMA_TRIPLES = ("aarch64", "arm64", "nvptx")


def has_fma(module: ModuleBuilder) -> bool:
    """Whether the target computes a*b+c with one rounding in one instruction."""
    return "fma" in module.features or module.triple.startswith(_FMA_TRIPLES)


def has_rounding(module: ModuleBuilder) -> bool:
    """Whether the target rounds to integral floats in one instruction."""
    return "sse4.1" in module.features or module.triple.startswith((*_FMA_TRIPLES, "wasm"))


def has_half(module: ModuleBuilder) -> bool:
    """Whether the target converts between half and float in one instruction."""
    return "f16c" in module.features or module.triple.startswith(_FMA_TRIPLES)


def has_scaling(module: ModuleBuilder) -> bool:
    """Whether the target multiplies by a power of two in one instruction, which rounds once."""
    return {"avx512f", "avx512dq"} <= module.features


class Lane:
    """One LLVM value with operators.

    >>> from broadloom.codegen.llvm import Param
    >>> from broadloom.codegen.module import ModuleBuilder
    >>> f = ModuleBuilder("m").function("f", "float", [Param("float", "x")])
    >>> x = Lane(f, f.params[0])
    >>> f.ret((x * x + 1.0).v)
    >>> print(f, end="")
    define float @f(float %x) {
    entry:
      %t1 = fmul float %x, %x
      %t2 = fadd float %t1, 0x3FF0000000000000
      ret float %t2
    }
    """

    __slots__ = ("b", "v")

    def __init__(self, b: FunctionBuilder, v: Val) -> None:
        self.b, self.v = b, v

    # -- types and constants --

    @property
    def type(self) -> str:
        return self.v.type

    @property
    def element(self) -> str:
        return llvm.element_of(self.v.type)

    @property
    def bits(self) -> int:
        return width(self.element)

    @property
    def is_float(self) -> bool:
        return self.element in _INT_OF

    @property
    def literal(self) -> int | None:
        """The value of an integer that is known when the text is made."""
        found = _LITERAL.fullmatch(self.v.text)
        return None if self.is_float or found is None else int(found[1])

    def lit(self, value: Number) -> Lane:
        """A constant of this lane's type."""
        make = llvm.const_float if self.is_float else llvm.const_int
        return self._wrap(make(self.v.type, value))  # type: ignore[arg-type]

    def lit_bits(self, bits: int) -> Lane:
        """A float constant of this lane's type by bit pattern."""
        return self._wrap(llvm.const_bits(self.v.type, bits))

    @property
    def nan(self) -> Lane:
        """The quiet nan of this lane's type."""
        return self.lit_bits({16: 0x7E00, 32: 0x7FC00000, 64: 0x7FF8000000000000}[self.bits])

    @property
    def inf(self) -> Lane:
        return self.lit(float("inf"))

    def _wrap(self, v: Val) -> Lane:
        return Lane(self.b, v)

    def _val(self, other: Lane | Number) -> Val:
        return other.v if isinstance(other, Lane) else self.lit(other).v

    def _arith(self, float_op: str, int_op: str, x: Val, y: Val) -> Lane:
        return self._wrap(self.b.binary(float_op if self.is_float else int_op, x, y))

    # -- arithmetic --

    def __add__(self, other: Lane | Number) -> Lane:
        return self._arith("fadd", "add", self.v, self._val(other))

    def __radd__(self, other: Number) -> Lane:
        return self._arith("fadd", "add", self._val(other), self.v)

    def __sub__(self, other: Lane | Number) -> Lane:
        return self._arith("fsub", "sub", self.v, self._val(other))

    def __rsub__(self, other: Number) -> Lane:
        return self._arith("fsub", "sub", self._val(other), self.v)

    def __mul__(self, other: Lane | Number) -> Lane:
        return self._arith("fmul", "mul", self.v, self._val(other))

    def __rmul__(self, other: Number) -> Lane:
        return self._arith("fmul", "mul", self._val(other), self.v)

    def __truediv__(self, other: Lane | Number) -> Lane:
        return self._wrap(self.b.fdiv(self.v, self._val(other)))

    def __rtruediv__(self, other: Number) -> Lane:
        return self._wrap(self.b.fdiv(self._val(other), self.v))

    def __neg__(self) -> Lane:
        return self._wrap(self.b.fneg(self.v) if self.is_float else self.b.neg(self.v))

    def fma(self, y: Lane | Number, z: Lane | Number) -> Lane:
        """self*y + z, with one rounding where the target can."""
        if has_fma(self.b.module):
            return self._wrap(self.b.intrinsic("fma", self.v, self._val(y), self._val(z)))
        return self * y + z

    def intrinsic(self, name: str, *others: Lane | Number) -> Lane:
        """An LLVM intrinsic whose operands and result all have this lane's type."""
        return self._wrap(self.b.intrinsic(name, self.v, *(self._val(o) for o in others)))

    def abs(self) -> Lane:
        """The magnitude of a float."""
        return self.intrinsic("fabs")

    def sqrt(self) -> Lane:
        return self.intrinsic("sqrt")

    def copysign(self, sign: Lane) -> Lane:
        return self.intrinsic("copysign", sign)

    def scaled(self, exponent: Lane) -> Lane:
        """self * 2**exponent, rounded once; for targets that `has_scaling`."""
        name = f"llvm.ldexp.{llvm.mangle(self.type)}.{llvm.mangle(exponent.type)}"
        function = self.b.module.declare(name, self.type, (self.type, exponent.type))
        return self._wrap(self.b.call(function, self.v, exponent.v))

    def rounded(self, how: str) -> Lane:
        """Rounded to an integral float: `how` is "floor", "ceil", "trunc" or "roundeven". Keeps the sign of zero."""
        if has_rounding(self.b.module):
            return self.intrinsic(how)
        magic = 2.0 ** {16: 10, 32: 23, 64: 52}[self.bits]
        t = self.abs()
        near = (t + magic) - magic
        if how == "trunc":
            near = (near > t).where(near - 1.0, near)
        near = (t < magic).where(near, t).copysign(self)
        if how == "floor":
            near = (near > self).where(near - 1.0, near).copysign(self)
        elif how == "ceil":
            near = (near < self).where(near + 1.0, near).copysign(self)
        return (t < magic).where(near, self)

    # -- bits --

    def __and__(self, other: Lane | Number) -> Lane:
        return self._wrap(self.b.and_(self.v, self._val(other)))

    def __or__(self, other: Lane | Number) -> Lane:
        return self._wrap(self.b.or_(self.v, self._val(other)))

    def __xor__(self, other: Lane | Number) -> Lane:
        return self._wrap(self.b.xor(self.v, self._val(other)))

    def __invert__(self) -> Lane:
        return self._wrap(self.b.not_(self.v))

    def __lshift__(self, other: Lane | Number) -> Lane:
        return self._wrap(self.b.shl(self.v, self._val(other)))

    def lshr(self, other: Lane | Number) -> Lane:
        return self._wrap(self.b.lshr(self.v, self._val(other)))

    def ashr(self, other: Lane | Number) -> Lane:
        return self._wrap(self.b.ashr(self.v, self._val(other)))

    def bitcast(self, element: str) -> Lane:
        """The same bits as another element type."""
        return self._wrap(self.b.bitcast(self.v, llvm.like(self.v.type, element)))

    def as_int(self) -> Lane:
        """The bits of a float as an integer of the same width."""
        return self.bitcast(_INT_OF[self.element])

    def as_float(self) -> Lane:
        """An integer's bits as the float of the same width."""
        return self.bitcast(_FLOAT_OF[self.element])

    def convert(self, opcode: str, element: str) -> Lane:
        """zext, sext, trunc, fpext, fptrunc, sitofp, uitofp, fptosi, fptoui to `element`; itself if that it is."""
        if self.element == element:
            return self
        return self._wrap(self.b.cast(opcode, self.v, llvm.like(self.v.type, element)))

    # -- comparisons and choice --

    def _compare(self, predicate: str, other: Lane | Number) -> Lane:
        return self._wrap(self.b.fcmp(predicate, self.v, self._val(other)))

    def __lt__(self, other: Lane | Number) -> Lane:
        return self._compare("olt", other)

    def __le__(self, other: Lane | Number) -> Lane:
        return self._compare("ole", other)

    def __gt__(self, other: Lane | Number) -> Lane:
        return self._compare("ogt", other)

    def __ge__(self, other: Lane | Number) -> Lane:
        return self._compare("oge", other)

    def eq(self, other: Lane | Number) -> Lane:
        if self.is_float:
            return self._compare("oeq", other)
        return self.icmp("eq", other)

    def ne(self, other: Lane | Number) -> Lane:
        """Not equal; true on nan."""
        if self.is_float:
            return self._compare("une", other)
        return self.icmp("ne", other)

    def icmp(self, predicate: str, other: Lane | Number) -> Lane:
        return self._wrap(self.b.icmp(predicate, self.v, self._val(other)))

    def slt(self, other: Lane | Number) -> Lane:
        return self.icmp("slt", other)

    def sgt(self, other: Lane | Number) -> Lane:
        return self.icmp("sgt", other)

    def ult(self, other: Lane | Number) -> Lane:
        return self.icmp("ult", other)

    def isnan(self) -> Lane:
        return self._compare("uno", self)

    def where(self, yes: Lane | Number, no: Lane | Number) -> Lane:
        """`yes` where this i1 lane is true, else `no`; at least one of the two is a lane."""
        model = yes if isinstance(yes, Lane) else no
        if not isinstance(model, Lane):
            raise TypeError("where needs a lane among its two choices")
        return model._wrap(self.b.select(self.v, model._val(yes), model._val(no)))


def poly(x: Lane, coefficients: tuple[float, ...]) -> Lane:
    """c0 + c1*x + c2*x**2 + ... by Horner's rule."""
    result: Lane = x.lit(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = result.fma(x, c)
    return result


# ---- functions ----------------------------------------------------------------------------------------------------

Body = Callable[[list[Lane]], Sequence[Lane]]


def function(
    module: ModuleBuilder, stem: str, operands: Sequence[str], results: Sequence[str], lanes: int, body: Body
) -> Function:
    """What `body` does, as an inlined function of the module for so many lanes of these elements, one result or two.
    The module learns how to define it for other lanes, and may call it instead (see `codegen.outline`)."""
    types = [llvm.vector(t, lanes) for t in results]
    name = f"bl.{stem}.{llvm.mangle(types[0])}"
    params = [Param(llvm.vector(t, lanes), f"x{k}") for k, t in enumerate(operands)]

    def build(b: FunctionBuilder) -> None:
        made = [x.v for x in body([Lane(b, p) for p in b.params])]
        b.ret(made[0] if len(made) == 1 else b.struct(*made))

    def form(lanes: int) -> Function:
        return function(module, stem, operands, results, lanes, body)

    result = types[0] if len(types) == 1 else f"{{ {', '.join(types)} }}"
    return module.helper(name, result, params, build, form=form)


def call(stem: str, args: Sequence[Lane], results: Sequence[str], body: Body) -> list[Lane]:
    """What `body` does with these lanes, by a call of the `function` of that name."""
    b, lanes = args[0].b, llvm.lanes_of(args[0].type)
    made = b.call(function(b.module, stem, [x.element for x in args], results, lanes, body), *(x.v for x in args))
    if len(results) == 1:
        return [Lane(b, made)]
    return [Lane(b, b.extract_value(made, k, llvm.vector(t, lanes))) for k, t in enumerate(results)]
