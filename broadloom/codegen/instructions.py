"""The instructions of a typed builder of the text of an LLVM function (opaque pointers), a method each.

What goes in: calls that name instructions, on `Val`s that carry their LLVM type. What comes out: lines of text, the
same for the same calls.

What holds: every emit checks the types of its operands and raises `VerifyError` on a mismatch, because LLVM's
own reaction to an ill-typed module may be to end the process; a value of type `<n x t>` is taken wherever a `t` is;
a block ends in exactly one terminator; names are allotted in order of emission.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from broadloom.codegen.values import (
    Val,
    check,
    class_of,
    const_int,
    constant,
    element_of,
    i64,
    is_constant,
    lanes_of,
    like,
    split,
    vector,
)
from broadloom.errors import VerifyError
from broadloom.records import dataclass

if TYPE_CHECKING:
    from broadloom.codegen.module import ModuleBuilder


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter: LLVM type, name, attributes such as "noalias align 64"."""

    type: str
    name: str
    attributes: str = ""


@dataclass(frozen=True, slots=True)
class Function:
    """What a call needs: `name` with its sigil, return type, parameter types."""

    name: str
    result: str
    params: tuple[str, ...]
    varargs: bool = False

    @property
    def pointer(self) -> Val:
        return Val("ptr", self.name)


class Block:
    """A basic block: a label, and lines until a terminator."""

    __slots__ = ("label", "lines", "placed", "terminated")

    def __init__(self, label: str, placed: bool = False) -> None:
        self.label, self.lines, self.terminated, self.placed = label, list[str](), False, placed


class Phi:
    """A phi under construction; `value` may be used at once, `add` supplies its incoming edges."""

    __slots__ = ("block", "incoming", "position", "value")

    def __init__(self, value: Val, block: Block, position: int) -> None:
        self.value, self.block, self.position = value, block, position
        self.incoming: list[tuple[str, str]] = []

    def add(self, value: Val, block: Block) -> None:
        """The value that arrives from `block`."""
        check(value.type == self.value.type, "phi", self.value, value)
        self.incoming.append((value.text, block.label))
        edges = ", ".join(f"[ {v}, %{label} ]" for v, label in self.incoming)
        self.block.lines[self.position] = f"  {self.value.text} = phi {self.value.type} {edges}"


_INT_OPS = frozenset(("add", "sub", "mul", "sdiv", "udiv", "srem", "urem", "shl", "lshr", "ashr", "and", "or", "xor"))
_FLOAT_OPS = frozenset(("fadd", "fsub", "fmul", "fdiv", "frem"))
_ICMP = frozenset(("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"))
_FCMP = frozenset(("oeq", "one", "olt", "ole", "ogt", "oge", "ord", "ueq", "une", "ult", "ule", "ugt", "uge", "uno"))
_CASTS: dict[str, tuple[str, str, int]] = {  # name: (class in, class out, sign of the change of width; 2: free)
    "trunc": ("i", "i", -1),
    "zext": ("i", "i", 1),
    "sext": ("i", "i", 1),
    "fptrunc": ("f", "f", -1),
    "fpext": ("f", "f", 1),
    "fptosi": ("f", "i", 2),
    "fptoui": ("f", "i", 2),
    "sitofp": ("i", "f", 2),
    "uitofp": ("i", "f", 2),
    "ptrtoint": ("p", "i", 2),
    "inttoptr": ("i", "p", 2),
}
# Intrinsics by name: class of the first operand, then one letter an operand: T its type, 1 an i1 constant.
_INTRINSICS: dict[str, str] = {
    **dict.fromkeys(("fabs", "sqrt", "floor", "ceil", "trunc", "rint", "nearbyint", "roundeven", "round"), "fT"),
    **dict.fromkeys(("copysign", "maxnum", "minnum", "maximum", "minimum", "maximumnum", "minimumnum"), "fTT"),
    **dict.fromkeys(("fma", "fmuladd"), "fTTT"),
    **dict.fromkeys(("ctpop", "bswap", "bitreverse"), "iT"),
    **dict.fromkeys(("ctlz", "cttz", "abs"), "iT1"),
    **dict.fromkeys(("smax", "smin", "umax", "umin", "sadd.sat", "uadd.sat", "ssub.sat", "usub.sat"), "iTT"),
    **dict.fromkeys(("fshl", "fshr"), "iTTT"),
    **{f"{s}{op}.with.overflow": "iTT" for s in "su" for op in ("add", "sub", "mul")},
    **dict.fromkeys(("fptosi.sat", "fptoui.sat"), "fT"),
    **{f"vector.reduce.{n}": "iT" for n in ("add", "mul", "and", "or", "xor", "smax", "smin", "umax", "umin")},
    **{f"vector.reduce.{n}": "fT" for n in ("fmax", "fmin", "fmaximum", "fminimum")},
}
_MANGLED = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64", "ptr": "p0"}


def mangle(type_: str) -> str:
    """The suffix of an overloaded intrinsic's name.

    >>> mangle("<4 x float>"), mangle("i32")
    ('v4f32', 'i32')
    """
    element, lanes = split(type_)
    return ("" if lanes == 1 else f"v{lanes}") + _MANGLED.get(element, element)


class Instructions:
    """Emits the instructions of one function. `params` are its arguments; a new one stands at the end of the block
    `entry`."""

    def __init__(self, module: ModuleBuilder, ref: Function, header: str, params: Sequence[Param]) -> None:
        self.module, self.ref, self._header = module, ref, header
        self.params = tuple(Val(p.type, f"%{p.name}") for p in params)
        self._count = self._labels = 0
        self.entry = Block("entry", placed=True)
        self.blocks: list[Block] = [self.entry]
        self._allocas: list[str] = []
        self.current = self.entry
        self._lines = self.entry.lines

    @property
    def instructions(self) -> int:
        """How many instructions with a value it has so far."""
        return self._count

    # -- blocks and control flow --

    def block(self, name: str = "b") -> Block:
        """A new block, placed into the function by `at`."""
        self._labels += 1
        return Block(f"{name}.{self._labels}")

    def at(self, block: Block) -> None:
        """Continue at the end of `block`; a block is placed behind all others when first used."""
        if not block.placed:
            block.placed = True
            self.blocks.append(block)
        self.current, self._lines = block, block.lines

    def emit(self, line: str) -> None:
        """One instruction as text, for what has no method; the caller answers for its types."""
        if self.current.terminated:
            raise VerifyError("instruction behind a terminator", got=line)
        self._lines.append("  " + line)

    def value(self, type_: str, text: str) -> Val:
        """A new value of `type_` defined by the instruction `text`."""
        self._count += 1
        name = f"%t{self._count}"
        if self.current.terminated:
            raise VerifyError("instruction behind a terminator", got=text)
        self._lines.append(f"  {name} = {text}")
        return Val(type_, name)

    def _end(self, line: str) -> None:
        self.emit(line)
        self.current.terminated = True

    @contextmanager
    def before_end(self, block: Block) -> Iterator[None]:
        """Within the `with`, instructions go to the end of the finished `block`, before its terminator."""
        if not block.terminated:
            raise VerifyError("block is not finished", got=block.label)
        saved, terminator = self.current, block.lines.pop()
        block.terminated = False
        self.current, self._lines = block, block.lines
        try:
            yield
        finally:
            if self.current is not block:
                raise VerifyError("control flow before a terminator", got=block.label)
            block.lines.append(terminator)
            block.terminated = True
            self.current, self._lines = saved, saved.lines

    def br(self, target: Block, metadata: str = "") -> None:
        self._end(f"br label %{target.label}{metadata}")

    def cond_br(self, condition: Val, then: Block, otherwise: Block, metadata: str = "") -> None:
        check(condition.type == "i1", "br", condition)
        self._end(f"br i1 {condition.text}, label %{then.label}, label %{otherwise.label}{metadata}")

    def ret(self, value: Val | None = None) -> None:
        got = "void" if value is None else value.type
        check(got == self.ref.result, "ret", got, self.ref.result)
        self._end("ret void" if value is None else f"ret {value.type} {value.text}")

    def unreachable(self) -> None:
        self._end("unreachable")

    def phi(self, type_: str, *incoming: tuple[Val, Block]) -> Phi:
        """A phi of the current block; phis come before all else in a block."""
        value = self.value(type_, f"phi {type_}")
        phi = Phi(value, self.current, len(self._lines) - 1)
        for v, source in incoming:
            phi.add(v, source)
        return phi

    # -- arithmetic --

    def binary(self, opcode: str, x: Val, y: Val, flags: str = "") -> Val:
        """Any two-operand arithmetic instruction; `flags` such as "nuw nsw" or "reassoc"."""
        t = x.type
        kind = class_of(t)[0]
        if y.type != t or opcode not in (_FLOAT_OPS if kind == "f" else _INT_OPS) or kind not in "if":
            check(False, opcode, x, y)
        return self.value(
            t, f"{opcode} {flags} {t} {x.text}, {y.text}" if flags else f"{opcode} {t} {x.text}, {y.text}"
        )

    def add(self, x: Val, y: Val, flags: str = "") -> Val:
        return self.binary("add", x, y, flags)

    def sub(self, x: Val, y: Val, flags: str = "") -> Val:
        return self.binary("sub", x, y, flags)

    def mul(self, x: Val, y: Val, flags: str = "") -> Val:
        return self.binary("mul", x, y, flags)

    def sdiv(self, x: Val, y: Val) -> Val:
        return self.binary("sdiv", x, y)

    def udiv(self, x: Val, y: Val) -> Val:
        return self.binary("udiv", x, y)

    def srem(self, x: Val, y: Val) -> Val:
        return self.binary("srem", x, y)

    def urem(self, x: Val, y: Val) -> Val:
        return self.binary("urem", x, y)

    def shl(self, x: Val, y: Val, flags: str = "") -> Val:
        return self.binary("shl", x, y, flags)

    def lshr(self, x: Val, y: Val) -> Val:
        return self.binary("lshr", x, y)

    def ashr(self, x: Val, y: Val) -> Val:
        return self.binary("ashr", x, y)

    def and_(self, x: Val, y: Val) -> Val:
        return self.binary("and", x, y)

    def or_(self, x: Val, y: Val) -> Val:
        return self.binary("or", x, y)

    def xor(self, x: Val, y: Val) -> Val:
        return self.binary("xor", x, y)

    def not_(self, x: Val) -> Val:
        """All bits flipped; for i1 the logical not."""
        return self.binary("xor", x, const_int(x.type, -1))

    def neg(self, x: Val) -> Val:
        """Integer negation, wrapping."""
        return self.binary("sub", const_int(x.type, 0), x)

    def fadd(self, x: Val, y: Val, flags: str = "") -> Val:
        return self.binary("fadd", x, y, flags)

    def fsub(self, x: Val, y: Val, flags: str = "") -> Val:
        return self.binary("fsub", x, y, flags)

    def fmul(self, x: Val, y: Val, flags: str = "") -> Val:
        return self.binary("fmul", x, y, flags)

    def fdiv(self, x: Val, y: Val, flags: str = "") -> Val:
        return self.binary("fdiv", x, y, flags)

    def fneg(self, x: Val) -> Val:
        """Flips the sign bit, of nans too."""
        check(class_of(x.type)[0] == "f", "fneg", x)
        return self.value(x.type, f"fneg {x.type} {x.text}")

    def icmp(self, predicate: str, x: Val, y: Val) -> Val:
        """Integer or pointer comparison: eq ne slt sle sgt sge ult ule ugt uge."""
        check(x.type == y.type and class_of(x.type)[0] in "ip" and predicate in _ICMP, f"icmp {predicate}", x, y)
        return self.value(like(x.type, "i1"), f"icmp {predicate} {x.type} {x.text}, {y.text}")

    def fcmp(self, predicate: str, x: Val, y: Val) -> Val:
        """Float comparison: o.. is false and u.. true when an operand is nan; ord, uno."""
        check(x.type == y.type and class_of(x.type)[0] == "f" and predicate in _FCMP, f"fcmp {predicate}", x, y)
        return self.value(like(x.type, "i1"), f"fcmp {predicate} {x.type} {x.text}, {y.text}")

    def select(self, condition: Val, x: Val, y: Val) -> Val:
        """x where the condition holds, else y; both are evaluated."""
        ok = x.type == y.type and condition.type in ("i1", like(x.type, "i1"))
        check(ok, "select", condition, x, y)
        return self.value(x.type, f"select {condition}, {x}, {y}")

    # -- conversions --

    def cast(self, opcode: str, x: Val, type_: str) -> Val:
        """trunc zext sext fptrunc fpext fptosi fptoui sitofp uitofp ptrtoint inttoptr, lane by lane."""
        source, target, change = _CASTS[opcode]
        (ka, wa), (kb, wb) = class_of(x.type), class_of(type_)
        ok = ka == source and kb == target and lanes_of(x.type) == lanes_of(type_)
        check(ok and (change == 2 or (wb - wa) * change > 0), opcode, x, type_)
        return self.value(type_, f"{opcode} {x} to {type_}")

    def trunc(self, x: Val, type_: str) -> Val:
        return self.cast("trunc", x, type_)

    def zext(self, x: Val, type_: str) -> Val:
        return self.cast("zext", x, type_)

    def sext(self, x: Val, type_: str) -> Val:
        return self.cast("sext", x, type_)

    def fptrunc(self, x: Val, type_: str) -> Val:
        return self.cast("fptrunc", x, type_)

    def fpext(self, x: Val, type_: str) -> Val:
        return self.cast("fpext", x, type_)

    def fptosi(self, x: Val, type_: str) -> Val:
        return self.cast("fptosi", x, type_)

    def fptoui(self, x: Val, type_: str) -> Val:
        return self.cast("fptoui", x, type_)

    def sitofp(self, x: Val, type_: str) -> Val:
        return self.cast("sitofp", x, type_)

    def uitofp(self, x: Val, type_: str) -> Val:
        return self.cast("uitofp", x, type_)

    def bitcast(self, x: Val, type_: str) -> Val:
        """The same bits as another type of the same total width."""
        if x.type == type_:
            return x
        (ka, wa), (kb, wb) = class_of(x.type), class_of(type_)
        ok = ka in "if" and kb in "if" and wa * lanes_of(x.type) == wb * lanes_of(type_)
        check(ok, "bitcast", x, type_)
        return self.value(type_, f"bitcast {x} to {type_}")

    def int_cast(self, x: Val, type_: str, signed: bool) -> Val:
        """Widens or narrows an integer; the value itself where the type is already right."""
        wa, wb = class_of(x.type)[1], class_of(type_)[1]
        if wa == wb:
            check(x.type == type_, "int_cast", x, type_)
            return x
        return self.cast("trunc" if wb < wa else "sext" if signed else "zext", x, type_)

    def freeze(self, x: Val) -> Val:
        return self.value(x.type, f"freeze {x}")

    # -- vectors and aggregates --

    def splat(self, x: Val, lanes: int) -> Val:
        """`x` in every lane."""
        type_ = vector(x.type, lanes)
        if lanes == 1:
            return x
        if is_constant(x):
            return constant(type_, x.text)
        one = self.value(type_, f"insertelement {type_} poison, {x}, i64 0")
        mask = f"<{lanes} x i32> zeroinitializer"
        return self.value(type_, f"shufflevector {one}, {type_} poison, {mask}")

    def extract(self, x: Val, lane: Val | int) -> Val:
        """One lane of a vector."""
        index = i64(lane) if isinstance(lane, int) else lane
        check(lanes_of(x.type) > 1 and class_of(index.type)[0] == "i", "extractelement", x, index)
        return self.value(element_of(x.type), f"extractelement {x}, {index}")

    def insert(self, x: Val, element: Val, lane: Val | int) -> Val:
        """The vector with one lane replaced."""
        index = i64(lane) if isinstance(lane, int) else lane
        check(element_of(x.type) == element.type and lanes_of(x.type) > 1, "insertelement", x, element)
        return self.value(x.type, f"insertelement {x}, {element}, {index}")

    def shuffle(self, x: Val, y: Val, lanes: Sequence[int]) -> Val:
        """Lanes picked from x then y by constant numbers; -1 is any."""
        check(x.type == y.type and lanes_of(x.type) > 1, "shufflevector", x, y)
        mask = ", ".join(f"i32 {k}" if k >= 0 else "i32 poison" for k in lanes)
        type_ = f"<{len(lanes)} x {element_of(x.type)}>"
        return self.value(type_, f"shufflevector {x}, {y}, <{len(lanes)} x i32> <{mask}>")

    def extract_value(self, x: Val, index: int, type_: str) -> Val:
        """Member `index`, of type `type_`, of a struct value."""
        check(x.type[0] == "{", "extractvalue", x)
        return self.value(type_, f"extractvalue {x}, {index}")

    def struct(self, *members: Val) -> Val:
        """A struct value of these."""
        type_ = f"{{ {', '.join(m.type for m in members)} }}"
        made = Val(type_, "poison")
        for k, member in enumerate(members):
            made = self.value(type_, f"insertvalue {made}, {member}, {k}")
        return made

    # -- memory --

    def alloca(self, type_: str, count: int = 1, align: int = 0) -> Val:
        """Stack memory, allocated in the entry block whatever the current block is."""
        self._count += 1
        name = f"%t{self._count}"
        many = f", i64 {count}" if count != 1 else ""
        self._allocas.append(f"  {name} = alloca {type_}{many}{f', align {align}' if align else ''}")
        return Val("ptr", name)

    def gep(self, type_: str, base: Val, *indices: Val, flags: str = "inbounds") -> Val:
        """The address of an element, in steps of `type_`."""
        ok = base.type == "ptr" and all(class_of(i.type)[0] == "i" and lanes_of(i.type) == 1 for i in indices)
        check(ok and len(indices) > 0, "getelementptr", base, *indices)
        tail = ", ".join(map(str, indices))
        return self.value("ptr", f"getelementptr {flags + ' ' if flags else ''}{type_}, ptr {base.text}, {tail}")

    def load(self, type_: str, address: Val, align: int = 0, metadata: str = "") -> Val:
        """`metadata` is ready text such as ", !alias.scope !3"."""
        check(address.type == "ptr" and (class_of(type_)[0] != "?" or type_[0] in "{["), "load", type_, address)
        return self.value(type_, f"load {type_}, ptr {address.text}{f', align {align}' if align else ''}{metadata}")

    def store(self, x: Val, address: Val, align: int = 0, metadata: str = "") -> None:
        check(address.type == "ptr" and x.type != "void", "store", x, address)
        self.emit(f"store {x}, ptr {address.text}{f', align {align}' if align else ''}{metadata}")

    # -- calls --

    def call(self, function: Function, *args: Val, attributes: str = "", flags: str = "") -> Val:
        """The call's value; for a void function a value of type void that nothing may use. `flags` are a float's."""
        fixed = tuple(a.type for a in args[: len(function.params)])
        ok = fixed == function.params and (len(args) == len(fixed) or function.varargs)
        check(ok, f"call {function.name}{function.params}", *args)
        spelled = function.result
        if function.varargs:
            spelled += f" ({', '.join((*function.params, '...'))})"
        words = f"call {flags} {spelled}" if flags else f"call {spelled}"
        text = f"{words} {function.name}({', '.join(map(str, args))}){' ' + attributes if attributes else ''}"
        if function.result == "void":
            self.emit(text)
            return Val("void", "%void")
        return self.value(function.result, text)

    def call_pointer(self, pointer: Val, result: str, *args: Val) -> Val:
        """A call through a function pointer."""
        check(pointer.type == "ptr", "call", pointer)
        text = f"call {result} {pointer.text}({', '.join(map(str, args))})"
        if result == "void":
            self.emit(text)
            return Val("void", "%void")
        return self.value(result, text)

    def intrinsic(self, name: str, *args: Val, result: str | None = None, flags: str = "") -> Val:
        """`llvm.<name>` on the arguments, declared on the way: `b.intrinsic("fabs", x)` calls `llvm.fabs.f32` for a
        float x. `result` is needed by the saturating float-to-int conversions alone, `flags` are of floats."""
        spec = _INTRINSICS.get(name)
        t: str = args[0].type
        r: str = t
        if spec is None or len(spec) - 1 != len(args) or class_of(t)[0] != spec[0]:
            raise VerifyError("no such intrinsic for these operands", got=f"{name}({', '.join(map(str, args))})")
        for letter, arg in zip(spec[1:], args, strict=True):
            check(arg.type == (t if letter == "T" else "i1"), f"intrinsic {name}", *args)
        suffix = mangle(t)
        if name in ("fptosi.sat", "fptoui.sat"):
            r = t if result is None else str(result)
            check(class_of(r)[0] == "i" and lanes_of(r) == lanes_of(t), f"intrinsic {name}", r)
            suffix = f"{mangle(r)}.{suffix}"
        elif name.startswith("vector.reduce."):
            r = element_of(t)
        elif name.endswith(".with.overflow"):
            r = f"{{ {t}, {like(t, 'i1')} }}"
        function = self.module.declare(f"llvm.{name}.{suffix}", r, tuple(a.type for a in args))
        return self.call(function, *args, flags=flags)
