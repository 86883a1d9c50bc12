"""LLVM types and values as text: scalars, vectors, constants.

What goes in: type names and numbers. What comes out: `Val`s, typed operands of instructions.
What holds: a constant's text denotes exactly the bits asked for; on a vector type it is the same in every lane.
"""

from __future__ import annotations

import re
import struct

from broadloom.codegen.types import float_literal
from broadloom.errors import VerifyError
from broadloom.records import dataclass


@dataclass(frozen=True, slots=True)
class Val:
    """An SSA value or constant: its LLVM type and its text.

    >>> str(Val("i64", "%x"))
    'i64 %x'
    """

    type: str
    text: str

    def __str__(self) -> str:
        return f"{self.type} {self.text}"


# ---- types --------------------------------------------------------------------------------------------------------

_CLASSES: dict[str, tuple[str, int]] = {"ptr": ("p", 64)}
_CLASSES |= {t: ("f", w) for t, w in (("half", 16), ("bfloat", 16), ("float", 32), ("double", 64))}
_VECTORS: dict[str, tuple[str, int]] = {}


_LITERAL = re.compile(r"(?:splat \(\w+ )?(-?\d+|0x\w+|true|false)\)?")


def vector(element: str, lanes: int) -> str:
    """The type of `lanes` elements; one lane is the element itself.

    >>> vector("float", 8), vector("i1", 1)
    ('<8 x float>', 'i1')
    """
    return element if lanes == 1 else f"<{lanes} x {element}>"


def element_of(type_: str) -> str:
    """The element type of a vector, or the scalar type itself."""
    return split(type_)[0]


def lanes_of(type_: str) -> int:
    """The lanes of a vector; 1 for a scalar."""
    return split(type_)[1]


def like(type_: str, element: str) -> str:
    """`element` with the lanes of `type_`.

    >>> like("<4 x float>", "i1"), like("float", "i1")
    ('<4 x i1>', 'i1')
    """
    return vector(element, split(type_)[1])


def split(type_: str) -> tuple[str, int]:
    if type_[0] != "<":
        return type_, 1
    found = _VECTORS.get(type_)
    if found is None:
        lanes, element = type_[1:-1].split(" x ", 1)
        found = _VECTORS[type_] = (element, int(lanes))
    return found


def class_of(type_: str) -> tuple[str, int]:
    """("i" | "f" | "p" | "?", bits of the element)."""
    found = _CLASSES.get(type_)
    if found is None:
        element = split(type_)[0]
        if element in _CLASSES:
            found = _CLASSES[element]
        elif element[0] == "i" and element[1:].isdigit():
            found = ("i", int(element[1:]))
        else:
            found = ("?", 0)
        _CLASSES[type_] = found
    return found


# ---- constants ----------------------------------------------------------------------------------------------------


def constant(type_: str, text: str) -> Val:
    """A constant; on a vector type the same in every lane.

    >>> str(constant("<4 x i32>", "7"))
    '<4 x i32> splat (i32 7)'
    """
    element, lanes = split(type_)
    return Val(type_, text if lanes == 1 else f"splat ({element} {text})")


def const_int(type_: str, value: int) -> Val:
    """An integer constant of `type_`, wrapped to its width.

    >>> str(const_int("i8", 255)), str(const_int("i1", 1))
    ('i8 -1', 'i1 true')
    """
    kind, bits = class_of(type_)
    check(kind == "i", "const_int", type_)
    if bits == 1:
        return constant(type_, "true" if value & 1 else "false")
    value &= (1 << bits) - 1
    return constant(type_, str(value - (1 << bits) if value >> (bits - 1) else value))


def const_float(type_: str, value: float) -> Val:
    """A float constant: `value` rounded to `type_`.

    >>> str(const_float("float", 0.1))
    'float 0x3FB99999A0000000'
    """
    from_double = {"half": ("<e", "<H"), "float": ("<f", "<I"), "double": ("<d", "<Q")}
    element = split(type_)[0]
    check(element in from_double, "const_float", type_)
    packed, unsigned = from_double[element]
    bits = struct.unpack(unsigned, struct.pack(packed, value))[0]
    return constant(type_, float_literal(element, bits))


def const_bits(type_: str, bits: int) -> Val:
    """A float constant by bit pattern (see `types.float_literal`)."""
    element = split(type_)[0]
    check(class_of(type_)[0] == "f", "const_bits", type_)
    return constant(type_, float_literal(element, bits))


def i1(value: bool) -> Val:
    return Val("i1", "true" if value else "false")


def i8(value: int) -> Val:
    return const_int("i8", value)


def i32(value: int) -> Val:
    return const_int("i32", value)


def i64(value: int) -> Val:
    return const_int("i64", value)


NULL = Val("ptr", "null")


def check(ok: bool, what: str, *got: object) -> None:
    if not ok:
        raise VerifyError(f"ill-typed LLVM instruction {what}", got=", ".join(map(str, got)))


def is_constant(value: Val) -> bool:
    """Whether the value is a literal, known when the text is made."""
    return value.text[0] not in "%@"


def literal_text(value: Val) -> str | None:
    """How the number is spelled that a literal is, in every lane if it is a vector; None for any other value.

    >>> literal_text(const_int("<4 x i32>", 7)), literal_text(Val("i32", "%x"))
    ('7', None)
    """
    found = _LITERAL.fullmatch(value.text)
    return None if found is None else found[1]
